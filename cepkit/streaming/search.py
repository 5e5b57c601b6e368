"""The base class of the search in an open stream, its status, and single events as plain values."""

from __future__ import annotations

import datetime as dt
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit import limits
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.doors import open_door
from cepkit.engines.shared.by_key import keyed_program
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.events import BOOLEAN, FLOAT, INTEGER, NULL_CODE, NULL_INTEGER, TEXT, TIME, ColumnType
from cepkit.language.expressions.durations import counted
from cepkit.language.query_parts import Duration
from cepkit.limits import size_text
from cepkit.results.found import paragraphs
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.saved import Saved
from cepkit.streaming.values import PER_SECOND, fitting_time
from cepkit.values import dataclass

OVERFLOWS = ("error", "oldest", "shed")  # what a partial match beyond ``max_live`` does
Ready = tuple[pa.Table, np.ndarray]  # results of complete matches, and the number of rows per match


@dataclass(frozen=True)
class Options:
    """The options of a stream other than its query and schema; see `cepkit.stream`."""

    rows: str = "one"
    threads: int = 1
    pulse_every: int = 1000
    idle_after: Duration | None = None
    max_live: int | None = None
    memory_limit: limits.MemoryLimit = "auto"
    overflow: str = "error"

    def __post_init__(self) -> None:
        if self.rows not in ("one", "all"):
            raise CepError(f"rows={self.rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        limits.memory_limit_of(self.memory_limit)
        whole_number("threads", self.threads, 1, limits.THREADS)
        whole_number("pulse_every", self.pulse_every, 1)
        if self.max_live is not None:
            whole_number("max_live", self.max_live, 1)
        if self.overflow not in OVERFLOWS:
            raise CepError(f"overflow={self.overflow!r}: write {', '.join(map(repr, OVERFLOWS))}")
        if self.overflow != "error" and self.max_live is None:
            raise CepError(f"overflow={self.overflow!r} needs max_live=…, the number that must not overflow")

    @property
    def refused_beyond(self) -> int | None:
        """``max_live`` if more are an error."""
        return self.max_live if self.overflow == "error" else None

    def refuse(self, what: str, *takes: str) -> None:
        """Raise for an option that this kind of stream does not take; ``takes`` are those that it does."""
        reasons = {
            "threads": "Only a regex query with partition_by runs on several threads",
            "rows": "Regex and sequence queries label rows; MATCH_RECOGNIZE has ALL ROWS PER MATCH",
            "idle_after": "Rows leave with the time of the window, whatever their keys do",
            "max_live": "The latency bound drops events instead",
        }
        for name, reason in reasons.items():
            value = getattr(self, name)
            if name not in takes and value != getattr(Options, name):
                raise UnsupportedQueryError(f"{name}={value!r}: {what} does not take it. {reason}")

    def bound_memory(self) -> AbstractContextManager[None]:
        """Return the block in which a push obeys ``memory_limit``."""
        return limits.bound_memory(self.memory_limit, "Push fewer events at once, or narrow the query")


class Search(ABC):
    """The search of a query in events that arrive in batches, in stream order."""

    empty: pa.Table  # the result of no match, without the match number
    column_of_result: Mapping[str, str]  # columns of results that are columns of the stream
    takes_rows: bool = False  # whether `advance_row` reads events
    keeps_batches: bool = False  # whether it keeps the memory of tables
    n_evicted: Any = 0  # keys that were forgotten after a pause
    n_ended: Any = 0  # partial matches that ended with a forgotten key
    n_overflowed: Any = 0  # partial matches, or kept events, that ``overflow`` gave up
    n_live: Any = None  # live partial matches; None for a search that keeps events instead
    oldest: Any = None  # position of the oldest event that a later match may need; None if it is not known
    wakes_at: Any = None  # the earliest time for which `pass_time` has work, if only time passes
    grows: str = ""  # what grows for ever, why, and what bounds it; empty if nothing does
    # Until when the user says that the data are complete, just before `finish`; None: the last time so far
    complete_until: Any = None

    @property
    @abstractmethod
    def n_keys(self) -> int:
        """Return the number of partition keys that the stream remembers."""

    @property
    @abstractmethod
    def n_retained(self) -> int:
        """Return the number of rows kept for later matches."""

    @abstractmethod
    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Read the next events, and return the complete matches."""
        # ``table`` has at least one event, in stream order; ``keys`` has the order columns, None without
        # ``order_by``; ``n_before`` is the number of earlier events.

    def advance_row(self, values: list, n_before: int) -> Ready | tuple[PlainRow, np.ndarray] | None:
        """Read the next event as plain values, see `RowValues`; None if the search needs a table."""
        return None

    def remember(self) -> Callable[[], None]:
        """Return what takes back all later changes; attributes get new values, and no value changes."""
        before = dict(vars(self))
        return lambda: vars(self).update(before)

    def release(self) -> Ready:
        """Return the matches that are complete and in order so far, without waiting."""
        return self.empty, np.empty(0, np.int64)

    def flush(self, n_events: int) -> Ready:
        """Wait until all events so far are searched, and return the complete matches."""
        return self.release()

    def pass_time(self, now: int) -> Ready:
        """Return the matches that are complete since no later event comes before ``now``, in ticks."""
        # It also forgets rows that no later match needs.
        return self.release()

    def delay_of(self, column: str) -> int | None:
        """Return how far a later result can be before the time of the stream, in ticks of its clock."""
        # ``column`` is the column of the results that has their times. None: nothing is known about it.
        return None

    def oldest_time(self, clock: str) -> Any:
        """Return the value of a column at the oldest event that is kept; None if there is none."""
        return None

    @abstractmethod
    def finish(self, n_events: int) -> Ready:
        """Return the remaining matches of the events so far, which are complete until ``complete_until``."""

    def stop(self) -> None:  # noqa: B027 - a search without threads has nothing to end
        """End the threads, if any."""

    @abstractmethod
    def pack(self, n_events: int) -> Saved:
        """Return the content of the search for a file."""

    @abstractmethod
    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same query and options."""


@dataclass(frozen=True, repr=False)
class StreamStatus:
    """What a stream holds and has done, from `Stream.status`. It does not change later."""

    events: int  # read so far
    matches: int  # returned so far
    keys: int  # partition keys that the stream remembers
    # Live partial matches; of MATCH_RECOGNIZE, rows that may begin a match. None: the stream keeps events.
    live: int | None
    rows: int  # kept for later matches
    state_bytes: int  # of the state as `save` writes it, before compression
    newest: Any = None  # the time of the newest event; of a join, the time that both sides have reached
    lag: int | None = None  # events since the oldest one that a later match may need; None if it is not known
    oldest: Any = None  # the time of the oldest event that is kept for later matches; None without one
    rate: float | None = None  # events per second of the clock of the stream, None for a clock without unit
    late: int = 0  # rows that came too late for the buffer before the stream
    forgotten: int = 0  # keys that paused for longer than ``idle_after``
    ended: int = 0  # partial matches that ended with these keys
    shed: int = 0  # events that were dropped for the latency bound
    overflowed: int = 0  # partial matches, or kept events, that ``overflow`` gave up for ``max_live``
    grows: str = ""  # what grows for ever, why, and what bounds it; empty if nothing does

    def __repr__(self) -> str:
        live = [] if self.live is None else [counted(self.live, "partial match")]
        held = [counted(self.keys, "key"), *live, f"{counted(self.rows, 'row')} kept"]
        what = "event" if self.live is None else "partial match"
        ended = "" if self.live is None else f" with {counted(self.ended, what)}"
        lost = {
            f"{counted(self.late, 'late row')} dropped": self.late,
            f"{counted(self.forgotten, 'idle key')} forgotten{ended}": self.forgotten,
            f"{counted(self.shed, 'event')} shed": self.shed,
            f"{counted(self.overflowed, what)} given up for max_live": self.overflowed,
        }
        at = [] if self.oldest is None else [f"at {self.oldest}"]
        back = [] if self.lag is None else [f"{counted(self.lag, 'event')} back"]
        oldest = f"oldest open event {', '.join([*at, *back])}" if at or back else ""
        newest = "" if self.newest is None else f"newest event at {self.newest}"
        rate = "" if self.rate is None else f"{self.rate:,.0f}" if self.rate >= 100 else f"{self.rate:.3g}"
        rate = rate and f", {rate} events per second"
        lines = [
            f"{counted(self.events, 'event')}, {counted(self.matches, 'match')}{rate}",
            f"holds {', '.join(held)}, {size_text(self.state_bytes)}",
            "; ".join(part for part in (newest, oldest) if part),
            ", ".join(text for text, n in lost.items() if n),
            self.grows and f"grows: {self.grows}",
        ]
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        return paragraphs(repr(self))

    @property
    def lag_time(self) -> Any:
        """How long ago the oldest event came that is kept, by the newest one; None without one."""
        return None if self.newest is None or self.oldest is None else self.newest - self.oldest


class Following:
    """Tells a board what a stream holds, once a second, and in at most a twentieth of the time."""

    def __init__(self, title: str, status: Callable[[], StreamStatus]):
        self.board = open_door("board of a stream")(title=title)
        self._status, self._at, self._due = status, time.monotonic(), 0.0
        self._before: StreamStatus | None = None
        self.tell()

    def tell(self, *, at_once: bool = False) -> None:
        """Tell the board if a second has passed, or at once."""
        began = time.monotonic()
        if began < self._due and not at_once:
            return
        status, seconds = self._status(), began - self._at
        before = self._before or status
        events, matches = (
            (new - old) / seconds if seconds > 0 else 0.0
            for new, old in ((status.events, before.events), (status.matches, before.matches))
        )
        numbers = {
            "events per second": events, "matches per second": matches, "keys": status.keys,
            "partial matches": status.live, "rows kept": status.rows,
        }  # fmt: skip
        figures = {name: (float(n), f"{n:,.0f}") for name, n in numbers.items() if n is not None}
        figures["memory"] = float(status.state_bytes), size_text(status.state_bytes)
        lines = repr(status).split("\n")
        self.board.follow(figures, "\n".join([lines[0], *lines[2:]]))  # the second line says figures, too
        self._before, self._at = status, began
        self._due = began + max(1.0, 20 * (time.monotonic() - began))


def first_value(table: pa.Table, column: str) -> Any:
    """Return the first value of a column; None for an empty table, or one without the column."""
    return table.column(column)[0].as_py() if table.num_rows and column in table.column_names else None


UNUSUAL = object()  # stands for a value that only the checks of a batch can judge
_EXACT_FLOAT = 1 << 53
_LEAST_IN_NANOS, _MOST_IN_NANOS = 1677, 2262  # years that nanoseconds do not hold whole


class RowValues:
    """Reads the columns of a schema from single events; tuples have a value for each of ``names``."""

    def __init__(self, schema: StreamSchema, names: Sequence[str], order_by: Sequence[str] = ()):
        self.schema, self._names_of_tuple = schema, names
        self._readers = [
            (item.name, _unusual if item.name in schema.ordered else _reader_of(item.type), item.nullable)
            for item in schema.arrow
        ]
        names = schema.arrow.names
        self._order = [(names.index(name), schema.arrow.field(name)) for name in order_by]

    def as_dict(self, row: Any) -> Mapping[str, Any]:
        """Return an event as a mapping; raise for what is none."""
        if isinstance(row, Mapping):
            return row
        names = self._names_of_tuple
        if not isinstance(row, tuple | list) or len(row) != len(names):
            given = f"{len(row)} values" if isinstance(row, tuple | list) else type(row).__name__
            raise CepError(f"an event is a dict, or a tuple with a value per column {names}, got {given}")
        return dict(zip(names, row, strict=True))

    def read(self, row: Mapping[str, Any]) -> list | None:
        """Return the values of the columns, times as ticks; None if an event needs the checks of a batch."""
        values = []
        for name, read, nullable in self._readers:
            value = row.get(name, UNUSUAL)
            is_missing = value is None or (type(value) is float and value != value)
            value = read(value) if not is_missing else None if nullable else UNUSUAL
            if value is UNUSUAL:
                return None
            values.append(value)
        return values

    def read_frame(self, frame: pd.DataFrame) -> list | None:
        """Return the values of a pandas DataFrame with one row, as `read` does."""
        if (places := self.schema.places_in(frame.columns)) is None:
            return None
        row = {}
        for name, place in zip(self.schema.arrow.names, places, strict=True):
            try:
                value = frame.iat[0, place]
            except OverflowError:  # a time that Python cannot hold
                return None
            row[name] = value.item() if type(value) in _NUMPY else value
        return self.read(row)

    def order_of(self, values: Sequence) -> tuple | None:
        """Return the values of the order columns; None if one is missing."""
        at = tuple(values[place] for place, _ in self._order)
        return None if None in at else at

    def order_of_table(self, newest: pa.Table | None) -> tuple | None:
        """Return the values of the order columns in a table with one row; None without a table."""
        if newest is None:
            return None
        at = []
        for _, item in self._order:
            value = newest.column(item.name)[0]
            at.append(value.value if pa.types.is_timestamp(item.type) else value.as_py())
        return tuple(at)

    def table_of_order(self, at: tuple) -> pa.Table:
        """Return the order columns of an event as a table."""
        pairs = zip(self._order, at, strict=True)
        return pa.table({item.name: pa.array([value], item.type) for (_, item), value in pairs})


_NUMPY = frozenset((np.int64, np.float64, np.bool_, np.int32, np.float32))


def table_of_rows(rows: Sequence[Sequence], schema: pa.Schema) -> pa.Table:
    """Return events that `RowValues` has read as a table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, item.type) for values, item in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


class PlainRow(NamedTuple):
    """A result of one row as plain values, which take the place of a table where dicts are wanted."""

    values: list
    schema: pa.Schema

    @property
    def num_rows(self) -> int:
        return 1

    def to_table(self) -> pa.Table:
        return table_of_rows([self.values], self.schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        shown = {
            item.name: value
            if value is None or not pa.types.is_temporal(item.type)
            else pa.scalar(value, item.type).as_py()
            for item, value in zip(self.schema, self.values, strict=True)
        }
        return [shown]


def plain_values(column: pa.ChunkedArray) -> list:
    """Return the values of a column as `RowValues` reads them."""
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def _reader_of(of: pa.DataType) -> Callable[[Any], Any]:
    """Return what reads a value of a type that is not missing, or says that it is `UNUSUAL`."""
    if pa.types.is_integer(of):
        info = np.iinfo(of.to_pandas_dtype())
        least, greatest = max(info.min, NULL_INTEGER + 1), info.max
        return lambda value: value if type(value) is int and least <= value <= greatest else UNUSUAL
    if pa.types.is_float64(of):
        return _read_float
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return lambda value: value if type(value) is str and value.isascii() else UNUSUAL
    if pa.types.is_boolean(of):
        return lambda value: value if type(value) is bool else UNUSUAL
    if pa.types.is_timestamp(of):
        fits = fitting_time(of)

        per_tick = 10**9 // PER_SECOND[of.unit]

        def read_time(value: Any) -> Any:
            if type(value) not in (dt.datetime, pd.Timestamp) or not fits(value):
                return UNUSUAL
            if type(value) is pd.Timestamp and _LEAST_IN_NANOS < value.year < _MOST_IN_NANOS:
                return value.value // per_tick  # Arrow takes ten times as long
            return pa.scalar(value, of).value

        return read_time
    return _unusual


def _unusual(value: Any) -> Any:
    return UNUSUAL


def _read_float(value: Any) -> Any:
    if type(value) is float:
        return value
    return float(value) if type(value) is int and abs(value) < _EXACT_FLOAT else UNUSUAL


class Openings:
    """For each key and beginning of a pattern, when the newest chain of its event types began."""

    # An event can end a match only if the chain before it began within the window. Conditions may forbid the
    # match. They are not looked at, apart from equal keys.

    _FEWEST = 1 << 10  # keys that are remembered at least
    _MOST = 64  # events of all branches together; each is looked at for every event of the stream

    def __init__(self, program: SequenceProgram, names: Sequence[str]):
        assert program.window.within is not None and program.clock is not None
        self.window = math.ceil(program.window.within)
        keyed = keyed_program(program)
        columns = {*program.query.partition_by}
        if keyed is not None and len(keyed.keys) == 1 and keyed.keys[0].term.op == "element":
            columns.add(keyed.keys[0].term.column)
        self._keys = [names.index(name) for name in sorted(columns & {*names})]
        self._type, self._clock = names.index(program.query.event_type or ""), names.index(program.clock)
        # The types that a match needs, from its last event to the first one, with the places of their begins.
        self._steps: list[list[tuple[Any, int]]] = []
        self._n_places = 0
        for bound in program.branches:
            *before, last = bound.branch.components
            needed = [c.event_type for c in reversed(before) if c.low > 0 and c.event_type is not None]
            types = [last.event_type, *needed]
            self._steps.append([(name, self._n_places + i) for i, name in enumerate(types)])
            self._n_places += len(types)
        self._begins: dict[tuple, list[float]] = {}
        self._most = self._FEWEST
        self.unknown_until = -math.inf  # up to this time, there may be events that were not noted

    @classmethod
    def of(cls, program: SequenceProgram, names: Sequence[str]) -> Openings | None:
        """Return the openings of a query; None without a window of time, or with very many events."""
        n_events = sum(len(bound.branch.components) for bound in program.branches)
        has_times = program.window.within is not None and program.clock in names
        return cls(program, names) if has_times and n_events <= cls._MOST else None

    def note(self, values: Sequence) -> bool:
        """Remember an event, and return whether it can end a match."""
        now, event_type = values[self._clock], values[self._type]
        key = tuple([values[place] for place in self._keys])
        if (begins := self._begins.get(key)) is None:
            self._forget(now - self.window)
            begins = self._begins[key] = [-math.inf] * self._n_places
        can_end = False
        for steps in self._steps:
            first = steps[-1][1]
            for name, place in steps:
                if name == event_type:
                    begins[place] = now if place == first else begins[place + 1]
            if steps[0][0] == event_type:
                can_end |= begins[steps[0][1]] >= now - self.window
        return can_end or now <= self.unknown_until

    def _forget(self, oldest: float) -> None:
        """Forget the keys without a newer begin, from time to time."""
        if len(self._begins) > self._most:
            self._begins = {key: begins for key, begins in self._begins.items() if max(begins) >= oldest}
            self._most = max(self._FEWEST, 2 * len(self._begins))


class KernelRow:
    """The arguments of a kernel for one event: arrays of one value, which change in place."""

    # ``None`` from `of` says that the columns of the program are not all plain columns of the stream.

    def __init__(self, program: Program, dtypes: Mapping[str, np.dtype], codes: Mapping, schema: pa.Schema):
        self.columns = [np.zeros(1, dtypes[name]) for name in program.columns]
        self._places = [schema.names.index(name) for name in program.columns]
        self._codes = [codes.get(name) for name in program.columns]
        self._missing = [_missing(program.type_of(name)) for name in program.columns]

    @classmethod
    def of(
        cls, program: Program, dtypes: Mapping[str, np.dtype], codes: Mapping, schema: pa.Schema
    ) -> KernelRow | None:
        """Return the arguments; None if the columns of the program are not all plain columns."""
        kinds = {program.type_of(name).kind for name in program.columns}
        if not program.compiled or program.derived or not kinds <= {INTEGER, FLOAT, TEXT, BOOLEAN, TIME}:
            return None
        return cls(program, dtypes, codes, schema) if set(program.columns) <= set(schema.names) else None

    def write(self, values: Sequence) -> bool:
        """Take the values of an event; return False for a text without a code."""
        for column, place, codes, missing in zip(
            self.columns, self._places, self._codes, self._missing, strict=True
        ):
            value = values[place]
            if value is None:
                value = missing
            elif codes is not None and (value := codes.code_of_text.get(value)) is None:
                return False
            column[0] = value
        return True


def _missing(of: ColumnType) -> float | int:
    return np.nan if of.kind == FLOAT else NULL_CODE if of.kind in (TEXT, BOOLEAN) else NULL_INTEGER
