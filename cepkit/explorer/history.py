"""What a user chose: steps back and forth, past queries, and files of saved explorers."""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from cepkit.errors import CepError
from cepkit.explorer.cases import Case
from cepkit.explorer.running.data import BY_NAME, FEWEST, MOST
from cepkit.frames.writing import file_of, replace_file
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import counted, seconds_text
from cepkit.language.expressions.printing import print_expression
from cepkit.planning.queries import NAMES
from cepkit.streaming.saved import duration_as_json, param_as_json, param_of_json
from cepkit.values import dataclass, field, replace

MOST_RUNS = 50
_WORDS = {
    "partition_by": "by", "order_by": "ordered by", "event_type": "types in", "strategy": "strategy",
    "measures": "measures", "params": "with",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PastRun:
    """A query that ran to the end."""

    number: int  # its place in time, from 1
    text: str
    call: Mapping[str, Any] = field(default_factory=dict)  # keywords of `cepkit.match`
    n_matches: int = 0
    seconds: float = 0.0  # how long it took
    at: datetime.datetime = datetime.datetime.min  # when it ended

    def trait(self) -> dict[str, Any]:
        """Return the run as the browser shows it."""
        return {
            "number": self.number, "text": self.text, "note": choices_text(self.call),
            "matches": counted(self.n_matches, "match"), "took": seconds_text(self.seconds),
            "at": f"{self.at:%H:%M:%S}",
        }  # fmt: skip


def choices_text(call: Mapping[str, Any]) -> str:
    """Return keywords of a call in a few words."""
    pairs = ((_WORDS.get(name, name), value) for name, value in call.items() if value not in (None, [], {}))
    return "; ".join(f"{word} {_value_text(value)}" for word, value in pairs)


def _value_text(value: Any) -> str:
    """Return a value of a keyword as a text."""
    if isinstance(value, ex.Expression):
        return print_expression(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_value_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return getattr(value, "__name__", None) or str(value)


class QueryLog:
    """The runs of an explorer, the newest first. Threads may call it."""

    # A dragged slider leaves one entry, and a query that runs again moves to the front.

    def __init__(self) -> None:
        self.runs: tuple[PastRun, ...] = ()
        self._step: int | None = None  # the undo step of the newest run
        self._n = 0
        self._lock = threading.Lock()

    def add(self, step: int, text: str, call: Mapping[str, Any], n_matches: int, seconds: float) -> None:
        """Add a run that ended now; ``step`` is the number of its undo step."""
        with self._lock:
            kept = self.runs[1:] if step == self._step else self.runs
            kept = tuple(run for run in kept if (run.text, run.call) != (text, call))
            self._n += 1
            new_run = PastRun(self._n, text, dict(call), n_matches, seconds, datetime.datetime.now())
            self.runs, self._step = (new_run, *kept)[:MOST_RUNS], step

    def add_older(self, runs: Iterable[PastRun]) -> None:
        """Add runs of an earlier session after those of this one."""
        with self._lock:
            new = [(run.text, run.call) for run in self.runs]
            older = [run for run in runs if (run.text, run.call) not in new]
            first = len(older) + len(self.runs)
            every = [*self.runs, *older][:MOST_RUNS]
            self.runs = tuple(replace(run, number=first - place) for place, run in enumerate(every))
            self._n = first

    def find(self, number: int) -> PastRun | None:
        return next((run for run in self.runs if run.number == number), None)

    def to_frame(self) -> pd.DataFrame:
        """Return the runs as a frame with their numbers as index, the newest first."""
        columns = {
            "query": [run.text for run in self.runs],
            "choices": [choices_text(run.call) for run in self.runs],
            "matches": [run.n_matches for run in self.runs],
            "seconds": [round(run.seconds, 4) for run in self.runs],
            "at": pd.to_datetime([run.at for run in self.runs]).floor("s"),
        }
        return pd.DataFrame(columns, index=pd.Index([run.number for run in self.runs], name="run"))


# What a user chose in the explorer, as one value, and the steps back and forth between such values.

BURST_S = 1.0  # changes of one kind that follow sooner are one step
MOST_STEPS = 500


@dataclass(frozen=True, slots=True)
class BoardState:
    """Everything that a user chose."""

    text: str  # the text of the query
    # Keywords of `cepkit.match`: key columns, clock, event type, strategy, measures, parameters.
    call: Mapping[str, Any] = field(default_factory=dict)
    drawn: str | None = None  # the column of the timeline; None if the query determines it
    # The key columns and the shown key as text; None if the matches determine it.
    key: tuple[tuple[str, ...], str] | None = None
    # The match whose selection changed the key, or that was selected before; None in all other states.
    match: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A state, and the change that led to it."""

    state: BoardState
    label: str = ""  # the change in words, such as ``"text"``
    number: int = 0  # different for every step


class History:
    """The states of a board, the current one among them. Threads may call it."""

    def __init__(self, state: BoardState, now_s: Callable[[], float] = time.monotonic):
        self._steps, self._place, self._n = [Step(state)], 0, 0
        self._burst: Hashable = None  # of the newest change; None if the next change is a new step
        self._changed_s, self._now_s = 0.0, now_s
        self._lock = threading.Lock()

    @property
    def now(self) -> Step:
        return self._steps[self._place]

    @property
    def undo_label(self) -> str:
        """The change that `undo` would take back; empty if there is none."""
        return self.now.label if self._place else ""

    @property
    def redo_label(self) -> str:
        """The change that `redo` would make again; empty if there is none."""
        after = self._steps[self._place + 1 : self._place + 2]
        return after[0].label if after else ""

    def record(self, state: BoardState, label: str, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Add a state as a new step, or as a part of the current step."""
        with self._lock:
            now_s = self._now_s()
            if state == self.now.state:
                return
            is_soon = is_held or now_s - self._changed_s < BURST_S
            is_same = burst is not None and burst == self._burst and is_soon
            del self._steps[self._place + 1 :]
            if not is_same:
                self._n += 1
                self._steps.append(Step(state, label, self._n))
            elif self._place and state == self._steps[-2].state:  # back where the burst began
                del self._steps[-1]
                burst = None
            else:
                self._steps[-1] = replace(self.now, state=state)
            del self._steps[: -MOST_STEPS - 1]
            self._place, self._burst, self._changed_s = len(self._steps) - 1, burst, now_s

    def amend(self, state: BoardState) -> None:
        """Replace the current state; this is no step."""
        with self._lock:
            self._steps[self._place] = replace(self.now, state=state)

    def undo(self) -> BoardState | None:
        """Go one step back and return the state; None if there is none."""
        return self._go(-1)

    def redo(self) -> BoardState | None:
        """Go one step forward and return the state; None if there is none."""
        return self._go(1)

    def _go(self, distance: int) -> BoardState | None:
        """Return the state a number of steps away, and make it the present one; None if there is none."""
        with self._lock:
            if not 0 <= self._place + distance < len(self._steps):
                return None
            self._place, self._burst = self._place + distance, None
            return self.now.state


# The file of a saved explorer: JSON with the query, the choices and the past queries, without the data.

FORMAT, VERSION = "cepkit explorer", 1


@dataclass(frozen=True, slots=True)
class SavedBoard:
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
    """Return the board that was saved. Raise for a damaged file."""
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
    """Return the value of a keyword as JSON holds it."""
    if name == "params":
        return {key: param_as_json(key, part) for key, part in value.items()}
    if name == "within":
        return duration_as_json(value)
    if name in ("define", "measures"):
        return {key: _expression_as_json(name, key, part) for key, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _expression_as_json(role: str, name: str, value: Any) -> str:
    """Return an expression as a text. Raise for a Python function, which no file holds."""
    if isinstance(value, str):
        return value
    if isinstance(value, ex.Expression):
        return print_expression(value)
    raise CepError(
        f"save: {role} {name!r} is a Python {type(value).__name__}, which a file cannot hold. Register the "
        f"function with @cep.pure and call it by its name in the query"
    )


def _call_of_json(saved: Any) -> dict[str, Any]:
    """Return the keywords of a call that were saved."""
    call = dict(_checked(saved, dict))
    if unknown := [name for name in call if name not in NAMES]:
        raise ValueError(f"unknown keywords {unknown}")
    if "params" in call:
        call["params"] = {name: param_of_json(value) for name, value in call["params"].items()}
    return call


def _can_be_saved(call: Mapping[str, Any]) -> bool:
    """Return whether a file can hold the keywords of a call."""
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
    """Return a past run that was saved."""
    numbers = {name: _checked(saved[name], int) for name in ("number", "n_matches")}
    at = datetime.datetime.fromisoformat(saved["at"])
    text, call = _checked(saved["text"], str), _call_of_json(saved["call"])
    seconds = float(saved["seconds"])
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a run of {seconds} seconds")
    return PastRun(text=text, call=call, seconds=seconds, at=at, **numbers)
