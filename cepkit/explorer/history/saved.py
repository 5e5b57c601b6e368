"""The file of a saved explorer: JSON with the query, the choices and the past queries, without the data."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepkit.errors import CepError
from cepkit.explorer.cases import Case
from cepkit.explorer.history.query_log import PastRun
from cepkit.explorer.history.state import BoardState
from cepkit.explorer.running.keys import BY_NAME, FEWEST, MOST
from cepkit.frames.replacing import file_of, replace_file
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.planning.arguments import NAMES
from cepkit.streaming.saved_queries import duration_as_json, param_as_json, param_of_json

FORMAT, VERSION = "cepkit explorer", 1


@dataclass(frozen=True, slots=True)
class SavedBoard:
    """The content of a file."""

    state: BoardState
    engine: str = "auto"  # the engine that the user chose by name, or ``"auto"``
    # The columns that the query and the choices read, with their types.
    columns: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[PastRun, ...] = ()  # the past queries, the newest first
    cases: tuple[Case, ...] = ()  # the kept cases
    key_order: str = BY_NAME  # the order of the list of keys: by name, or by the number of matches


@dataclass(frozen=True, slots=True)
class SavedText:
    """The text of a saved query, which the editor shows without changes, and the saved key."""

    text: str
    key: tuple[tuple[str, ...], str] | None = None


def save_board(path: str | os.PathLike, saved: SavedBoard) -> None:
    """Write a file, completely or not at all."""
    state = saved.state
    key = None if state.key is None else {"by": list(state.key[0]), "name": state.key[1]}
    content = {
        "format": FORMAT, "version": VERSION, "text": state.text, "call": _call_as_json(state.call),
        "engine": saved.engine, "drawn": state.drawn, "key": key, "columns": dict(saved.columns),
        "runs": [_run_as_json(run) for run in saved.runs if _can_be_saved(run.call)],
        "cases": [case.to_dict() for case in saved.cases], "key_order": saved.key_order,
    }  # fmt: skip
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CepError(f"save: a choice of the explorer cannot be written as text: {error}") from None
    with replace_file(file_of("save", path)) as part:
        part.write_text(text + "\n", encoding="utf-8")


def load_board(path: str | os.PathLike) -> SavedBoard:
    """Return the content of a file that `save_board` wrote."""
    path = file_of("load", path)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # too many brackets
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CepError(f"load: {path} is not a saved explorer; explorer.save(path) writes such a file")
    if content.get("version") != VERSION:
        raise CepError(
            f"load: another version of cepkit wrote {path}: its format is {content.get('version')}, this "
            f"version reads {VERSION}"
        )
    try:
        return _board_of_json(content)
    except (CepError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CepError(f"load: {path} is damaged: {type(error).__name__}: {error}") from None


def check_columns_of(path: str | os.PathLike, saved: SavedBoard, columns: Sequence[str] | None) -> None:
    """Raise `CepError` if a frame with these columns lacks some; None for no frame."""
    if columns is None:
        raise CepError(
            f"load: {path} does not contain the data. Write cepkit.explore.load(path, frame); the frame "
            f"needs the columns {list(saved.columns)}"
        )
    if missing := [name for name in saved.columns if name not in columns]:
        raise CepError(
            f"load: the frame lacks the columns {missing}, which the saved explorer uses. "
            f"Its columns: {list(columns)}"
        )


def _board_of_json(content: Mapping[str, Any]) -> SavedBoard:
    key = content["key"]
    state = BoardState(
        _checked(content["text"], str),
        _call_of_json(content["call"]),
        None if content["drawn"] is None else _checked(content["drawn"], str),
        None if key is None else (tuple(map(str, key["by"])), _checked(key["name"], str)),
    )
    runs = tuple(_run_of_json(run) for run in _checked(content["runs"], list))
    cases = tuple(Case.from_dict(case) for case in _checked(content["cases"], list))
    columns = _checked(content["columns"], dict)
    key_order = content.get("key_order", BY_NAME)
    if key_order not in (BY_NAME, MOST, FEWEST):
        raise ValueError(f"unknown order of keys {key_order!r}")
    return SavedBoard(state, _checked(content["engine"], str), columns, runs, cases, key_order)


def _checked(value: Any, of: type) -> Any:
    if not isinstance(value, of):
        raise TypeError(f"{value!r} is not a {of.__name__}")
    return value


# --- keywords


def _call_as_json(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _keyword_as_json(name, value) for name, value in call.items() if value is not None}


def _keyword_as_json(name: str, value: Any) -> Any:
    if name == "params":
        return {of: param_as_json(of, one) for of, one in value.items()}
    if name == "within":
        return duration_as_json(value)
    if name in ("define", "measures"):
        return {of: _expression_as_json(name, of, one) for of, one in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _expression_as_json(role: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, ex.Expression):
        return print_expression(value)
    raise CepError(
        f"save: {role} {name!r} is a Python {type(value).__name__}, which a file cannot hold. Register the "
        f"function with @cep.pure and call it by its name in the query"
    )


def _call_of_json(saved: Any) -> dict[str, Any]:
    call = dict(_checked(saved, dict))
    if unknown := [name for name in call if name not in NAMES]:
        raise ValueError(f"unknown keywords {unknown}")
    if "params" in call:
        call["params"] = {name: param_of_json(value) for name, value in call["params"].items()}
    return call


def _can_be_saved(call: Mapping[str, Any]) -> bool:
    try:
        _call_as_json(call)
    except CepError:
        return False
    return True


# --- past queries


def _run_as_json(run: PastRun) -> dict[str, Any]:
    return {
        "number": run.number, "text": run.text, "call": _call_as_json(run.call),
        "n_matches": run.n_matches, "seconds": round(run.seconds, 4), "at": run.at.isoformat(),
    }  # fmt: skip


def _run_of_json(saved: Mapping[str, Any]) -> PastRun:
    numbers = {name: _checked(saved[name], int) for name in ("number", "n_matches")}
    at = datetime.datetime.fromisoformat(saved["at"])
    text, call = _checked(saved["text"], str), _call_of_json(saved["call"])
    seconds = float(saved["seconds"])
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a run of {seconds} seconds")
    return PastRun(text=text, call=call, seconds=seconds, at=at, **numbers)
