"""Engine state between runs: the rows of single partitions, and all of it in one file.

A file holds text, numbers and Arrow tables; reading one runs no code.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepkit.compile.regex.matching_source import VERSION as KERNEL_VERSION
from cepkit.compile.regex.program import State
from cepkit.compile.shared.state_layout import StateArray
from cepkit.errors import CepError, CepWarning, PredicateError
from cepkit.language.expressions.functions import BUILT_IN_NAMES, is_registered
from cepkit.language.expressions.trees import Call
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.printing import sase_text
from cepkit.language.sequences.query import SequenceQuery

FORMAT_VERSION = 1  # of the file
_FORMAT = "cepkit state"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member: the same state makes the same bytes

# --- partitions of a state


def live_starts(state: State, partitions: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the number of live partial matches (by start) of these partitions, int64."""
    n_live = state.arrays["live"][partitions].copy()
    for name, head in state.arrays.items():
        if name.endswith("_head"):
            n_live += state.arrays[f"{name.removesuffix('_head')}_tail"][partitions] - head[partitions]
    return n_live


def copy_partitions(state: State, partitions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the state of these partitions, for `put_back`. O(partitions x capacity)."""
    return {name: array[partitions] for name, array in state.arrays.items()}


def put_back(state: State, partitions: np.ndarray, copies: Mapping[str, np.ndarray]) -> None:
    """Give partitions the state that `copy_partitions` returned; the room may have grown in between."""
    for name, copy in copies.items():
        if copy.ndim == 1:
            state.arrays[name][partitions] = copy
        else:
            state.arrays[name][partitions, : copy.shape[1]] = copy


def forget_partitions(state: State, partitions: np.ndarray) -> int:
    """Make partitions as they are before any event; returns how many partial matches ended with that."""
    n_ended = int(live_starts(state, partitions).sum())
    for array in state.layout:
        if array.per in ("partition", "ring"):
            state.arrays[array.name][partitions] = array.fill
    return n_ended


def pack_state(state: State) -> dict[str, np.ndarray]:
    """Return the arrays of a state for a file: the cells in use, zeros elsewhere."""
    packed = {}
    for array in state.layout:
        values = state.arrays[array.name]
        if array.per in ("list", "queue"):
            first, stop = _cells_in_use(state, array)
            width = max(1, int(stop.max(initial=0)))
            cell = np.arange(width)
            in_use = (cell >= first[:, None]) & (cell < stop[:, None])
            values = np.where(in_use, values[:, :width], np.zeros((), values.dtype))
        packed[array.name] = values
    return packed


def _cells_in_use(state: State, array: StateArray) -> tuple[np.ndarray, np.ndarray]:
    if array.per == "list":
        return np.zeros_like(state.arrays["live"]), state.arrays["live"]
    queue = array.name.split("_")[0]
    return state.arrays[f"{queue}_head"], state.arrays[f"{queue}_tail"]


def unpack_state(layout: tuple[StateArray, ...], arrays: Mapping[str, np.ndarray]) -> State:
    """Return the state that `pack_state` made into ``arrays``.

    Raises
    ------
    CepError
        When the arrays are not those of ``layout``.
    """
    wanted = {array.name: array.dtype for array in layout}
    found = {name: values.dtype.name for name, values in arrays.items()}
    if wanted != found:
        raise CepError(
            f"the saved state is not one of this query's kernel: it has {found}, the kernel needs {wanted}"
        )
    return State(layout, {name: np.array(values) for name, values in arrays.items()})


# --- queries


def query_as_json(query: RegexQuery) -> dict[str, Any]:
    """Return a query as text and plain values; user functions are in it by their names alone.

    Raises
    ------
    CepError
        When a parameter's value or a literal has no spelling as text.
    """

    def texts(trees):
        return {name: _spelled(name, tree) for name, tree in trees}

    return {
        "pattern": str(query.pattern),
        "define": texts(query.define),
        "measures": None if query.measures is None else texts(query.measures),
        "partition_by": list(query.partition_by),
        "order_by": list(query.order_by),
        "within": duration_as_json(query.within),
        "within_closed": query.within_closed,
        "params": {name: _param_as_json(name, value) for name, value in query.params},
    }


def query_of_json(saved: Mapping[str, Any]) -> RegexQuery:
    """Return the query that `query_as_json` spelled.

    Raises
    ------
    PredicateError
        When functions it calls are not registered; names them all.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # they were given when the query was made
        query = regex_query(
            saved["pattern"],
            define=saved["define"] or None,
            measures=saved["measures"],
            partition_by=saved["partition_by"] or None,
            order_by=saved["order_by"] or None,
            within=saved["within"],
            within_closed=saved["within_closed"],
            params={name: _param_of_json(value) for name, value in saved["params"].items()} or None,
        )
    _refuse_missing_functions(query)
    return query


def _refuse_missing_functions(query: RegexQuery | SequenceQuery) -> None:
    called = {node.function for _, tree in query.trees() for node in tree.walk() if isinstance(node, Call)}
    missing = sorted(name for name in called if name not in BUILT_IN_NAMES and not is_registered(name))
    if missing:
        raise PredicateError(
            f"the saved query calls {missing}, which are not registered here; register functions of these "
            "names with @cep.pure before loading"
        )


def sequence_as_json(query: SequenceQuery) -> dict[str, Any]:
    """Return a sequence query as text and plain values; as `query_as_json`."""
    measures = None if query.measures is None else {n: _spelled(n, tree) for n, tree in query.measures}
    policy, variable = query.after_match
    return {
        "text": _spelled("the query", _SaseText(query)),
        "scope": query.scope,
        "strict_time": query.strict_time,
        "order_by": list(query.order_by),
        "event_type": query.event_type,
        "after_match": policy if variable is None else f"{policy}({variable})",
        "evaluation_order": list(query.evaluation_order),
        "measures": measures,
        "params": {name: _param_as_json(name, value) for name, value in query.params},
    }


def sequence_of_json(saved: Mapping[str, Any]) -> SequenceQuery:
    """Return the query that `sequence_as_json` spelled; raises as `query_of_json`."""
    given = {name: value for name, value in saved.items() if name not in ("text", "params")}
    given = {name: value for name, value in given.items() if value not in (None, [])}
    params = {name: _param_of_json(value) for name, value in saved["params"].items()} or None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # they were given when the query was made
        query = sequence_query(saved["text"], params=params, **given)
    _refuse_missing_functions(query)
    return query


class _SaseText:
    """A query that is written as SASE text when it is spelled."""

    def __init__(self, query: SequenceQuery):
        self.query = query

    def __str__(self) -> str:
        return sase_text(self.query)


def _spelled(name: str, tree: Any) -> str:
    try:
        return str(tree)
    except ValueError as error:
        raise CepError(f"{name!r} cannot be saved: {error}") from None


def duration_as_json(duration: Any) -> Any:
    """Return a duration (text, ticks or timedelta) as text or number; None stays None."""
    if isinstance(duration, datetime.timedelta):
        nanoseconds = getattr(duration, "value", None)  # pandas.Timedelta
        if nanoseconds is None:
            nanoseconds = duration // datetime.timedelta(microseconds=1) * 1000
        return f"{nanoseconds} ns"
    return duration.item() if isinstance(duration, np.generic) else duration


def _param_as_json(name: str, value: Any) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        import pandas as pd

        value = pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime.timedelta):
        return {"duration": duration_as_json(value)}
    if isinstance(value, datetime.date):
        return {"time": value.isoformat()}
    raise CepError(
        f"parameter ':{name}' cannot be saved: its value is a {type(value).__name__}; numbers, texts, truth "
        "values, times and durations can"
    )


def _param_of_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    import pandas as pd

    return pd.Timestamp(value["time"]) if "time" in value else pd.Timedelta(value["duration"])


# --- files


class Saved(NamedTuple):
    """What a file holds: plain values, numpy arrays and Arrow tables by name."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    tables: dict[str, pa.Table]

    def below(self, folder: str) -> Saved:
        """Return the arrays and tables whose names begin with ``folder``, named by the rest."""
        return Saved(
            self.header,
            {name.removeprefix(folder): a for name, a in self.arrays.items() if name.startswith(folder)},
            {name.removeprefix(folder): t for name, t in self.tables.items() if name.startswith(folder)},
        )


def save_file(path: str | os.PathLike, saved: Saved) -> None:
    """Write a state file whole or not at all: a crash leaves the file that was there before.

    Raises
    ------
    CepError
        When an array holds Python objects.
    """
    path = Path(path)
    header = {"format": _FORMAT, "version": FORMAT_VERSION, "kernels": KERNEL_VERSION, **saved.header}
    for name, array in saved.arrays.items():
        if array.dtype == object:
            raise CepError(f"{name} holds Python objects, which cannot be saved")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as members:
                _add(members, "header.json", json.dumps(header, indent=1).encode())
                for name, array in saved.arrays.items():
                    buffer = io.BytesIO()
                    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
                    _add(members, f"arrays/{name}.npy", buffer.getbuffer())
                for name, table in saved.tables.items():
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_file(sink, table.schema) as writer:
                        writer.write_table(table)
                    _add(members, f"tables/{name}.arrow", sink.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _add(members: zipfile.ZipFile, name: str, content: Any) -> None:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    with members.open(member, "w", force_zip64=True) as file:
        file.write(content)


def load_file(path: str | os.PathLike, kind: str) -> Saved:
    """Read a state file.

    Parameters
    ----------
    path : path
        Of a file that `save_file` wrote.
    kind : str
        What the header's ``kind`` must be.

    Raises
    ------
    FileNotFoundError
        When there is none.
    CepError
        When the file is no state file, is damaged, or comes from a version of cepkit that lays out its state
        in another way.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as members:
            header = json.loads(members.read("header.json"))
            _check_header(path, header, kind)
            arrays, tables = {}, {}
            for name in members.namelist():
                folder, _, rest = name.partition("/")
                if folder == "arrays":
                    content = io.BytesIO(members.read(name))
                    arrays[rest.removesuffix(".npy")] = np.lib.format.read_array(content, allow_pickle=False)
                elif folder == "tables":
                    with pa.ipc.open_file(pa.py_buffer(members.read(name))) as reader:
                        tables[rest.removesuffix(".arrow")] = reader.read_all()
    except (zipfile.BadZipFile, KeyError, ValueError, pa.ArrowInvalid, EOFError) as error:
        if isinstance(error, CepError):
            raise
        raise CepError(f"{path} is not a state file of cepkit, or it is damaged: {error}") from error
    return Saved(header, arrays, tables)


def _check_header(path: Path, header: Any, kind: str) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise CepError(f"{path} is not a state file of cepkit")
    for name, known in (("version", FORMAT_VERSION), ("kernels", KERNEL_VERSION)):
        if header.get(name) != known:
            what = "its format" if name == "version" else "the layout of kernel state"
            raise CepError(
                f"{path} was written by another version of cepkit: {what} is {header.get(name)}, this cepkit "
                f"reads {known}; load it with the cepkit that wrote it, or start the stream anew"
            )
    if header.get("kind") != kind:
        raise CepError(f"{path} holds a {header.get('kind')}, not a {kind}")
