"""Files of saved state, and queries as plain values in them. Loading a file runs no code."""

from __future__ import annotations

import datetime
import errno
import io
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepkit.compile.shared.term_writing import VERSION as KERNEL_VERSION
from cepkit.errors import CepError, CepWarning, PredicateError
from cepkit.frames.writing import file_of, replace_file
from cepkit.language.expressions.functions import BUILT_IN_NAMES, is_registered
from cepkit.language.expressions.trees import Call
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowsQuery, SortKey, refuse_windows
from cepkit.language.regex import RegexQuery, regex_query
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.language.sequences.printing import sase_text
from cepkit.windows.running import Chain
from cepkit.windows.values import SIDES, Join, Window

# Files of saved state: text, numbers and Arrow tables in one file. Loading a file runs no code.

FORMAT_VERSION = 2  # of the file; 1 had another layout for each kind of query
_KERNELS_BEFORE = 3  # the layout of state before `KERNEL_VERSION`, which `unpack_state` reads as well
_FORMAT = "cepkit state"
_HEADER, _CHECKSUM = "header.json", "checksum"  # the checksum covers the other values and members
_MOST_COUNTED = 1 << 62  # kernels add to it in 64 bits
_MOST_SAID = 200  # characters of the reason for damage
_EPOCH = (1980, 1, 1, 0, 0, 0)  # time of every member, so that equal states give equal bytes


class Saved(NamedTuple):
    """The content of a file: plain values, numpy arrays and Arrow tables by name."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    tables: dict[str, pa.Table]

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the arrays and tables."""
        return sum(part.nbytes for part in (*self.arrays.values(), *self.tables.values()))

    def part(self, name: str) -> Saved:
        """Return the part that `with_part` added under this name."""
        folder = f"{name}/"
        return Saved(
            self.header[name],
            {name.removeprefix(folder): a for name, a in self.arrays.items() if name.startswith(folder)},
            {name.removeprefix(folder): t for name, t in self.tables.items() if name.startswith(folder)},
        )

    def counter(self, name: str, least: int = 0, absent: int | None = None) -> int:
        """Return a whole number of the header, at least ``least``; raise ValueError if it is none."""
        # ``absent`` is that of the files of earlier versions.
        value = self.header[name] if absent is None else self.header.get(name, absent)
        return _counter(name, value, least)

    def counters(self, name: str, n: int, least: int = 0) -> list[int]:
        """Return a list of ``n`` whole numbers of the header. Raises as `counter`."""
        values = self.header[name]
        if not isinstance(values, list) or len(values) != n:
            raise ValueError(f"{name} is not a list of {n} whole numbers")
        return [_counter(name, value, least) for value in values]

    def with_part(self, name: str, part: Saved) -> Saved:
        """Add a part with its own header, arrays and tables under a name."""
        return Saved(
            {**self.header, name: part.header},
            {**self.arrays, **{f"{name}/{key}": array for key, array in part.arrays.items()}},
            {**self.tables, **{f"{name}/{key}": table for key, table in part.tables.items()}},
        )


def _counter(name: str, value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < _MOST_COUNTED:
        raise ValueError(f"{name} is {value!r}, not a whole number from {least} on")
    return value


def save_file(path: str | os.PathLike, saved: Saved) -> None:
    """Write a state file completely or not at all; a crash leaves the old file unchanged."""
    with replace_file(file_of("save", path)) as part, part.open("wb") as file:
        _write(file, saved, zipfile.ZIP_DEFLATED)


def save_bytes(saved: Saved) -> bytes:
    """Return the content of a state file, not compressed. Raises as `save_file`."""
    file = io.BytesIO()
    _write(file, saved, zipfile.ZIP_STORED)
    return file.getvalue()


def _write(file: IO[bytes], saved: Saved, compression: int) -> None:
    header = {"format": _FORMAT, "version": FORMAT_VERSION, "kernels": KERNEL_VERSION, **saved.header}
    for name, array in saved.arrays.items():
        if array.dtype == object:
            raise CepError(f"{name} holds Python objects, which cannot be saved")
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as members:
        checksum = 0
        for name, content in _members(saved):
            _add(members, name, content)
            checksum = _checksum(name, content, checksum)
        text = json.dumps(header, indent=1)
        header[_CHECKSUM] = _checksum(_HEADER, text.encode(), checksum)
        _add(members, _HEADER, json.dumps(header, indent=1).encode())


def _members(saved: Saved) -> Iterator[tuple[str, Any]]:
    for name, array in saved.arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        yield f"arrays/{name}.npy", buffer.getbuffer()
    for name, table in saved.tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        yield f"tables/{name}.arrow", memoryview(sink.getvalue())


def _checksum(name: str, content: Any, before: int) -> int:
    return zlib.crc32(content, zlib.crc32(name.encode(), before))


def _add(members: zipfile.ZipFile, name: str, content: Any) -> None:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = members.compression
    with members.open(member, "w", force_zip64=True) as file:
        file.write(content)


def load_file(path: str | os.PathLike, kind: str) -> Saved:
    """Return the content of a file that `save_file` wrote; its header must have this ``kind``."""
    with file_of("load", path).open("rb") as file:
        return _read(file, str(path), kind)


def load_bytes(content: bytes, name: str, kind: str) -> Saved:
    """Return what `save_bytes` wrote; messages call it by ``name``. Raises as `load_file`."""
    return _read(io.BytesIO(content), name, kind)


def _read(file: IO[bytes], path: str, kind: str) -> Saved:
    with said_as_damage(path):
        with zipfile.ZipFile(file) as members:
            header = json.loads(members.read(_HEADER))
            _check_header(path, header, kind)
            arrays, tables, checksum = {}, {}, 0
            for name in members.namelist():
                if name == _HEADER:
                    continue
                content = members.read(name)
                checksum = _checksum(name, content, checksum)
                folder, _, rest = name.partition("/")
                if folder == "arrays":
                    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
                    arrays[rest.removesuffix(".npy")] = array
                elif folder == "tables":
                    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
                        tables[rest.removesuffix(".arrow")] = reader.read_all()
        if _CHECKSUM not in header:  # every file of this version has one
            raise ValueError("it has no checksum")
        header_checksum = header.pop(_CHECKSUM)
        if header_checksum != _checksum(_HEADER, json.dumps(header, indent=1).encode(), checksum):
            raise ValueError("its parts do not belong together")
    return Saved(header, arrays, tables)


@contextmanager
def said_as_damage(path: str | os.PathLike) -> Iterator[None]:
    """Raise one CepError for whatever goes wrong while the content of a file is read."""
    try:
        yield
    except CepError:
        raise
    except Exception as error:
        # Damage may name a place before the beginning of the file. Other errors of the disk are no damage.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = str(error)[:_MOST_SAID] or type(error).__name__
        raise CepError(
            f"{path} is not a state file of cepkit, or it is damaged: {reason}. Load an earlier copy, or "
            "open a new stream"
        ) from error


def kind_of_file(path: str | os.PathLike) -> str | None:
    """Return the kind of state in a file; None if it is no state file."""
    try:
        with zipfile.ZipFile(path) as members:
            return json.loads(members.read(_HEADER)).get("kind")
    except Exception:  # `load_file` says what is wrong
        return None


def _check_header(path: str, header: Any, kind: str) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise CepError(f"{path} is not a state file of cepkit")
    for name, current in (("version", FORMAT_VERSION), ("kernels", KERNEL_VERSION)):
        if header.get(name) != current and (name, header.get(name)) != ("kernels", _KERNELS_BEFORE):
            what = "its format" if name == "version" else "the layout of kernel state"
            raise CepError(
                f"another version of cepkit wrote {path}: {what} is {header.get(name)}, this version "
                f"reads {current}; load the file with the version that wrote it, or open a new stream"
            )
    if header.get("kind") != kind:
        raise CepError(f"{path} holds a {header.get('kind')}, not a {kind}")


# Queries as text and plain values for saved streams, and back.

_REGEX, _SEQUENCE, _WINDOW, _JOIN, _CHAIN = "regex", "sequence", "window", "join", "chain"
_ROW_PATTERN = "match_recognize"


def query_as_json(query: Any) -> dict[str, Any]:
    """Return a query as text and plain values; user functions appear by name only."""
    if isinstance(query, Chain):
        return {"language": _CHAIN, "steps": [query_as_json(step) for step in query.steps]}
    if isinstance(query, Window):
        return {"language": _WINDOW, **_window_as_json(query)}
    if isinstance(query, Join):
        return {"language": _JOIN, **_join_as_json(query)}
    if isinstance(query, RowsQuery):
        return {"language": _ROW_PATTERN, **_row_pattern_as_json(query)}
    if isinstance(query, SequenceQuery):
        return {"language": _SEQUENCE, **_sequence_as_json(query)}
    if not isinstance(query, RegexQuery):
        raise CepError(f"a query of type {type(query).__name__} cannot be saved; open its text as a stream")
    return {"language": _REGEX, **_regex_as_json(query)}


def query_of_json(saved: Mapping[str, Any]) -> Any:
    """Return the query that `query_as_json` wrote."""
    if saved["language"] == _CHAIN:
        return Chain(tuple(query_of_json(step) for step in saved["steps"]))
    read = {
        _SEQUENCE: _sequence_of_json, _REGEX: _regex_of_json, _WINDOW: _window_of_json, _JOIN: _join_of_json,
        _ROW_PATTERN: _row_pattern_of_json,
    }[saved["language"]]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # the user saw them when the query was created
        query = read({name: value for name, value in saved.items() if name != "language"})
    if not isinstance(query, RowsQuery):  # the functions of SQL are built in
        _refuse_missing_functions(query)
    return query


def _row_pattern_as_json(query: RowsQuery) -> dict[str, Any]:
    return {
        "text": query.rows.source,
        "params": {name: param_as_json(name, value) for name, value in query.params},
        "partition_by": list(query.partition_by),
        "order_by": list(query.order_by),
    }


def _row_pattern_of_json(saved: Mapping[str, Any]) -> RowsQuery:
    params = tuple((name, param_of_json(value)) for name, value in saved["params"].items())
    whole = refuse_windows(parse_match_recognize(saved["text"]), "stream")
    return RowsQuery(whole, params, tuple(saved["partition_by"]), tuple(map(SortKey, saved["order_by"])))


def _regex_as_json(query: RegexQuery) -> dict[str, Any]:
    def texts(trees):
        return {name: _spell(name, tree) for name, tree in trees}

    return {
        "pattern": str(query.pattern),
        "define": texts(query.define),
        "measures": None if query.measures is None else texts(query.measures),
        "partition_by": list(query.partition_by),
        "order_by": list(query.order_by),
        "within": duration_as_json(query.within),
        "within_closed": query.within_closed,
        "params": {name: param_as_json(name, value) for name, value in query.params},
    }


def _regex_of_json(saved: Mapping[str, Any]) -> RegexQuery:
    return regex_query(
        saved["pattern"],
        define=saved["define"] or None,
        measures=saved["measures"],
        partition_by=saved["partition_by"] or None,
        order_by=saved["order_by"] or None,
        within=saved["within"],
        within_closed=saved["within_closed"],
        params={name: param_of_json(value) for name, value in saved["params"].items()} or None,
    )


def _window_as_json(window: Window) -> dict[str, Any]:
    return {
        "aggregates": {name: _spell(name, tree) for name, tree in window.aggregates},
        "time": duration_as_json(window.time),
        "length": window.length,
        "tumbling": window.tumbling,
        "group_by": list(window.group_by),
        "where": None if window.where is None else _spell("where", window.where),
        "order_by": list(window.order_by),
        "emit": window.emit,
        "params": {name: param_as_json(name, value) for name, value in window.params},
    }


def _window_of_json(saved: Mapping[str, Any]) -> Window:
    params = {name: param_of_json(value) for name, value in saved["params"].items()}
    return Window(**{**saved, "params": params})


def _join_as_json(join: Join) -> dict[str, Any]:
    return {
        **{
            side: None if getattr(join, side) is None else _window_as_json(getattr(join, side))
            for side in SIDES
        },
        "on": [list(pair) for pair in join.on],
        "where": None if join.where is None else _spell("where", join.where),
        "how": join.how,
        "trigger": join.trigger,
        "measures": {name: _spell(name, tree) for name, tree in join.measures},
        "order_by": list(join.order_by),
        "params": {name: param_as_json(name, value) for name, value in join.params},
    }


def _join_of_json(saved: Mapping[str, Any]) -> Join:
    sides = {side: None if saved[side] is None else _window_of_json(saved[side]) for side in SIDES}
    on = tuple((left, right) for left, right in saved["on"])
    params = {name: param_of_json(value) for name, value in saved["params"].items()}
    return Join(**{**saved, **sides, "on": on, "params": params})


def _refuse_missing_functions(query: Any) -> None:
    called = {node.function for _, tree in query.trees() for node in tree.walk() if isinstance(node, Call)}
    missing = sorted(name for name in called if name not in BUILT_IN_NAMES and not is_registered(name))
    if missing:
        raise PredicateError(
            f"the saved query calls {missing}, which are not registered here; register functions of these "
            "names with @cep.pure before loading"
        )


def _sequence_as_json(query: SequenceQuery) -> dict[str, Any]:
    measures = None if query.measures is None else {n: _spell(n, tree) for n, tree in query.measures}
    policy, variable = query.after_match
    return {
        "text": _spell("the query", query, sase_text),
        "scope": query.scope,
        "strict_time": query.strict_time,
        "order_by": list(query.order_by),
        "event_type": query.event_type,
        "after_match": policy if variable is None else f"{policy}({variable})",
        "evaluation_order": list(query.evaluation_order),
        "complete_until": param_as_json("complete_until", query.complete_until),
        "measures": measures,
        "params": {name: param_as_json(name, value) for name, value in query.params},
    }


def _sequence_of_json(saved: Mapping[str, Any]) -> SequenceQuery:
    arguments = {name: value for name, value in saved.items() if name not in ("text", "params")}
    arguments = {name: value for name, value in arguments.items() if value not in (None, [])}
    if "complete_until" in arguments:
        arguments["complete_until"] = param_of_json(arguments["complete_until"])
    params = {name: param_of_json(value) for name, value in saved["params"].items()} or None
    return sequence_query(saved["text"], params=params, **arguments)


def _spell(name: str, tree: Any, write: Callable[[Any], str] = str) -> str:
    try:
        return write(tree)
    except ValueError as error:
        raise CepError(f"{name!r} cannot be saved: {error}") from None


def duration_as_json(duration: Any) -> Any:
    """Return a duration (text, ticks, timedelta or None) as text, number or None."""
    if isinstance(duration, datetime.timedelta):
        nanoseconds = getattr(duration, "value", None)  # pandas.Timedelta
        if nanoseconds is None:
            nanoseconds = duration // datetime.timedelta(microseconds=1) * 1000
        return f"{nanoseconds} ns"
    return duration.item() if isinstance(duration, np.generic) else duration


def param_as_json(name: str, value: Any) -> Any:
    """Return the value of a parameter as text, number or object."""
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
        f"parameter ':{name}' cannot be saved: its value is a {type(value).__name__}; only numbers, texts, "
        "booleans, times and durations can"
    )


def param_of_json(value: Any) -> Any:
    """Return the value that `param_as_json` wrote."""
    if not isinstance(value, dict):
        return value
    import pandas as pd

    return pd.Timestamp(value["time"]) if "time" in value else pd.Timedelta(value["duration"])
