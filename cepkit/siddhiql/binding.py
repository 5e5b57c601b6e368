"""A SiddhiQL app with the rows of its streams: the checks before a run, and the run through its queries."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa

from cepkit.compile.shared.operations import in_zone
from cepkit.engines.reducing import arrow_type
from cepkit.errors import (
    CepError,
    ColumnNotFoundError,
    OrderError,
    did_you_mean,
    is_text,
    nearest,
    short_text,
)
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, ColumnType, Source, nulls, plain_values
from cepkit.frames.arrow import NOT_FOR_ARROW
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.query_parts import END, as_columns
from cepkit.language.siddhi.query import AbsentState, DefinedStream, PatternInput, SiddhiApp
from cepkit.limits import check_memory
from cepkit.progress import checkpoint
from cepkit.siddhiql.functions import BOOL, DOUBLE, INT, LONG, OBJECT, SINGLE, STRING, Type, type_of_column
from cepkit.siddhiql.patterns import RUNS, QueryRun
from cepkit.siddhiql.planning import AppPlan, PlannedPartition, PlannedQuery, plan_app
from cepkit.siddhiql.selecting import Row
from cepkit.siddhiql.states import Event, RunClock, Slots
from cepkit.values import dataclass, replace

NANOSECONDS_PER_MS = NANOSECONDS["ms"]
Schema = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class StreamRows:
    """A stream with its frame: attributes, and the columns that order its events."""

    name: str
    source: Source
    schema: Schema
    order_by: tuple[str, ...]

    @property
    def is_time(self) -> bool:
        """Whether the clock is a column of times, and not of milliseconds."""
        return bool(self.order_by) and self.source.schema[self.order_by[0]].kind in (TIME, DURATION)


def read_stream(
    name: str, source: Source, defined: DefinedStream | None, order_by: Sequence[str], has_rows: bool
) -> StreamRows:
    """Return a stream after all checks that need no rows; ``has_rows`` says whether the source has them."""
    columns = source.schema
    for column in order_by:
        if not isinstance(column, str):
            raise CepError(f"order_by: expected names of columns as text, got {column!r}")
        if column not in columns:
            raise ColumnNotFoundError(
                f"order_by: {name} has no column {column!r}.{nearest(column, columns) or _listed(columns)}"
            )
    if not order_by and source.clock is not None:
        order_by = (source.clock,)
    if order_by and columns[order_by[0]].kind not in (TIME, DURATION, INTEGER, FLOAT):
        raise CepError(
            f"order_by: column {order_by[0]!r} of {name} is of type {columns[order_by[0]]}; the first column "
            "must be a time, or a number of milliseconds"
        )
    if defined is None:
        schema: Schema = tuple(
            (column, type_of_column(column_type)) for column, column_type in columns.items()
        )
        return StreamRows(name, source, schema, tuple(order_by))
    attributes = []
    for attribute, kind in defined.attributes:
        if attribute not in columns:
            raise ColumnNotFoundError(
                f"define stream {name}: its frame has no column {attribute!r}."
                f"{nearest(attribute, columns) or _listed(columns)}"
            )
        seen_type = type_of_column(columns[attribute])
        if has_rows and nulls(source.column(attribute)).all():
            seen_type = OBJECT  # no value says what the type is
        attributes.append((attribute, _agreed(name, attribute, kind, seen_type)))
    return StreamRows(name, source, tuple(attributes), tuple(order_by))


def _listed(known: Mapping[str, Any]) -> str:
    return f" Columns: {', '.join(known)}."


def _agreed(stream: str, attribute: str, kind: str, own: Type) -> Type:
    """Return the type of an attribute, for its definition and its column."""
    numbers = (INT, LONG, SINGLE, DOUBLE)
    if not isinstance(own, str):
        if kind in (LONG, OBJECT):
            return own
        raise CepError(
            f"define stream {stream}: {attribute!r} is defined as {kind}, and its column has times"
        )
    fits = kind == OBJECT or own in (kind, OBJECT) or (kind in numbers and own in numbers)
    if not fits:
        raise CepError(
            f"define stream {stream}: {attribute!r} is defined as {kind}, and its column is of type {own}"
        )
    return kind


_CONVERT: dict[str, Callable[[Any], Any]] = {INT: int, LONG: int, SINGLE: float, DOUBLE: float}


def events_of(stream: StreamRows, is_time: bool) -> tuple[list[tuple], list[Event]]:
    """Return the order keys and the events of a stream, in order."""
    source = stream.source
    columns = []
    for name, kind in stream.schema:
        values = plain_values(source.column(name)).tolist()
        convert = _CONVERT.get(kind) if isinstance(kind, str) else None
        if convert is not None:
            if convert is int and math.inf in map(abs, filter(None, values)):
                raise CepError(
                    f"stream {stream.name}: {name!r} is defined as {kind}, and its column holds an infinite "
                    "number; define it as double, or drop these rows"
                )
            values = [None if value is None else convert(value) for value in values]
        elif kind == BOOL:
            values = [None if value is None else bool(value) for value in values]
        elif kind == STRING:
            values = [None if value is None else str(value) for value in values]
        columns.append(values)
    keys = [plain_values(source.column(name)).tolist() for name in stream.order_by]
    for name, key in zip(stream.order_by, keys, strict=True):
        if n_missing := sum(value is None or value != value for value in key):
            raise OrderError(
                f"order_by: column {name!r} of {stream.name} has {n_missing} missing values of {len(key)}"
            )
    if not keys:
        keys = [list(range(source.n_rows))]
    elif is_time:
        keys[0] = nanoseconds(source, stream.order_by[0], keys[0])
    rows = list(zip(*keys, strict=True))
    order = sorted(range(len(rows)), key=rows.__getitem__)
    cells = list(zip(keys[0], *columns, strict=True))
    return [rows[i] for i in order], [cells[i] for i in order]


def nanoseconds(source: Source, clock: str, ticks: Sequence[int]) -> list[int]:
    """Return ticks of a column of times as nanoseconds."""
    size = NANOSECONDS[source.schema[clock].unit or "ns"]
    return [tick * size for tick in ticks]


def merged(
    parts: Sequence[tuple[str, list[tuple], list[Event]]], meeting: Sequence[set[str]]
) -> Iterator[tuple[str, Event]]:
    """Return the events of all streams in order."""
    _check_ties(parts, meeting)
    numbered = [
        [(key, i, name, event) for key, event in zip(keys, events, strict=True)]
        for i, (name, keys, events) in enumerate(parts)
    ]
    for _, _, name, event in heapq.merge(*numbered, key=lambda entry: (entry[0], entry[1])):
        yield name, event


def _check_ties(parts: Sequence[tuple[str, list[tuple], list[Event]]], meeting: Sequence[set[str]]) -> None:
    """Raise if two streams that meet in a query have events with equal keys of order."""
    for names in meeting:
        keys = sorted(
            (
                (key, i)
                for i, (name, stream_keys, _) in enumerate(parts)
                if name in names
                for key in stream_keys
            )
        )
        for (left, i), (right, k) in pairwise(keys):
            if left == right and i != k:
                first, second = parts[i][0], parts[k][0]
                shown = ", ".join(map(str, left))
                raise OrderError(
                    f"an event of {first} and one of {second} are equal in order_by ({shown}). Siddhi's "
                    "answer then depends on the order of its threads. Add a column to order_by that says "
                    "which came first, as in order_by=['ts', 'sequence']"
                )


# The rows that the queries of a text wrote, by stream, as Arrow arrays.

_ARROW = {
    INT: pa.int64(), LONG: pa.int64(), SINGLE: pa.float64(), DOUBLE: pa.float64(), BOOL: pa.bool_(),
    STRING: pa.string(),
}  # fmt: skip


def written_stream(stream: str | None, streams: Sequence[str]) -> str:
    """Return a stream that queries write, the last one if None is named."""
    if stream is None:
        return streams[-1]
    if not isinstance(stream, str) or stream not in streams:
        hint = did_you_mean(stream, streams)
        names = ", ".join(streams)
        raise CepError(f"no query writes {short_text(repr(stream))}; streams: {names}{hint}")
    return stream


def check_time_column(stream: str, time: Any, schema: Schema) -> None:
    """Refuse a name that the column of times cannot have."""
    if not isinstance(time, str) or not is_text(time):
        raise CepError(f"time={short_text(repr(time))}: give the name of the new column")
    if time in dict(schema):
        raise CepError(f"time={time!r}: the stream {stream} has this column already; give another name")


def _unfit(column: str, values: list[Any], error: Exception) -> str:
    """Return the error text for a column of a result that Arrow refuses."""
    value = next((value for value in values if not _has_array(value)), None)
    text = repr(value).encode("ascii", "backslashreplace").decode()
    return (
        f"column {column!r} holds {text[:60]} of type {type(value).__name__}, which a result cannot hold "
        f"({error}); make numbers or texts of it before the query, or leave it out of the select clause"
    )


def _has_array(value: Any) -> bool:
    """Return whether Arrow takes a value."""
    try:
        pa.array([value])
    except NOT_FOR_ARROW:
        return False
    return True


def times_of_ticks(ticks: list[Any], clock: ColumnType | None) -> pa.Array:
    """Return ticks of the clock, which are nanoseconds for times, as an Arrow array."""
    if clock is None:
        return pa.array(ticks)
    size = NANOSECONDS[clock.unit or "ns"]
    return pa.array([tick // size for tick in ticks], _type_of_times(clock))


def _type_of_times(of: ColumnType) -> pa.DataType:
    return arrow_type(replace(of, unit=of.unit or "ns"))


def arrow_of_type(values: list[Any], kind: Type, column: str = "") -> pa.Array:
    """Return values as an Arrow array; values that do not fit choose the type themselves."""
    wanted = _type_of_times(kind) if isinstance(kind, ColumnType) else _ARROW.get(kind)
    try:
        return pa.array(values, wanted)
    except NOT_FOR_ARROW:
        pass
    try:
        return pa.array(values)
    except NOT_FOR_ARROW as error:
        types = list(dict.fromkeys(type(value).__name__ for value in values if value is not None))
        if len(types) > 1:
            message = f"the values have the types {', '.join(types)}; write convert(…, 'string')"
            raise CepError(f"{column}: {message}" if column else message) from None
        raise CepError(_unfit(column, values, error)) from None


# The run of an app: events go through its queries in the order of the text, and rows to the next queries.

_EVENTS_PER_CHECKPOINT = 4096
_PER_ROW, _PER_VALUE = 192, 40  # about how many bytes a row of a result takes, and each of its values
Send = Callable[[str, list[Row]], None]


class _AppRun:
    def __init__(self, plan: AppPlan, start: int):
        self._clock = RunClock(start)
        self._rows: dict[str, list[Row]] = {name: [] for name in plan.outputs}
        self._n_bytes = 0  # of all rows
        self._readers: dict[str, list[QueryRun | _PartitionRun]] = {}
        for element in plan.elements:
            if isinstance(element, PlannedPartition):
                run: QueryRun | _PartitionRun = _PartitionRun(element, self._clock, self._send)
                streams = run.streams
            else:
                run = _start(element, self._clock, self._send)
                streams = element.plan.streams
            for stream in streams:
                self._readers.setdefault(stream, []).append(run)

    def run(
        self, events: Iterable[tuple[str, Event]], n_events: int, end: int | None
    ) -> dict[str, list[Row]]:
        """Run all queries over events; return the rows of each output stream."""
        clock, readers = self._clock, self._readers
        for i, (stream, event) in enumerate(events):
            if i % _EVENTS_PER_CHECKPOINT == 0:
                checkpoint(i / max(1, n_events))
            clock.advance(event[0])
            for reader in readers.get(stream, ()):
                reader.receive(stream, event)
        if end is not None:
            clock.advance(end)
        return self._rows

    def _send(self, target: str, rows: list[Row]) -> None:
        """Add rows to an output stream, and pass them to the queries that read it."""
        self._rows[target] += rows
        self._n_bytes += len(rows) * (_PER_ROW + _PER_VALUE * len(rows[0][2]))
        check_memory(self._n_bytes, "the rows of the results", is_held=True)
        for reader in self._readers.get(target, ()):
            for _, time, values in rows:
                reader.receive(target, (time, *values))


def _start(query: PlannedQuery, clock: RunClock, send: Send) -> QueryRun:
    """Return a query that is ready to receive events."""
    target = query.target

    def deliver(rows: list[Row]) -> None:
        if rows:
            send(target, rows)

    return RUNS[type(query.plan)](query.plan, clock, deliver)


class _PartitionRun:
    """A partition: each key has runs of the queries, which begin with its first event."""

    def __init__(self, plan: PlannedPartition, clock: RunClock, send: Send):
        self._plan, self._clock, self._send = plan, clock, send
        self._of_key: dict[str, _KeyRun] = {}
        read = [stream for query in plan.queries for stream in query.plan.streams]
        self.streams = tuple(dict.fromkeys(stream for stream in read if not stream.startswith("#")))

    def receive(self, stream: str, event: Event) -> None:
        """Hand an event to the run of its key; an event without a key goes to all runs."""
        key = self._plan.keys.get(stream)
        if key is None:
            for run in list(self._of_key.values()):
                run.receive(stream, event)
            return
        slots: Slots = [[event]]
        if key.value is not None:
            value = key.value(slots)
            names = [] if value is None else [str(value)]
        else:
            names = [name for condition, name in key.ranges if condition(slots)]
        for name in names:
            run = self._of_key.get(name)
            if run is None:
                run = self._of_key[name] = _KeyRun(self._plan, self._clock, self._send)
            run.receive(stream, event)


class _KeyRun:
    """The queries of a partition for one key, with their inner streams."""

    def __init__(self, plan: PlannedPartition, clock: RunClock, send: Send):
        self._outer = send
        self._readers: dict[str, list[QueryRun]] = {}
        for query in plan.queries:
            run = _start(query, clock, self._send)
            for stream in query.plan.streams:
                self._readers.setdefault(stream, []).append(run)

    def receive(self, stream: str, event: Event) -> None:
        for reader in self._readers.get(stream, ()):
            reader.receive(stream, event)

    def _send(self, target: str, rows: list[Row]) -> None:
        """Pass rows to the inner stream of the partition, or to the stream outside."""
        if not target.startswith("#"):
            self._outer(target, rows)
            return
        for _, time, values in rows:
            self.receive(target, (time, *values))


# A SiddhiQL app with the rows of its streams: the checks before a run, and the run.

OrderBy = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


@dataclass(frozen=True)
class BoundApp:
    """A plan, its streams with their rows, and the type of the clocks if they are times."""

    plan: AppPlan
    streams: tuple[StreamRows, ...]
    clock: ColumnType | None

    def run(self, start: Any, complete_until: Any, times: Sequence[Any] = ()) -> dict[str, list[Row]]:
        """Run the app, and return the rows of each stream that it writes."""
        parts = [(stream.name, *events_of(stream, self.clock is not None)) for stream in self.streams]
        ends = [events[place][0] for _, _, events in parts if events for place in (0, -1)]
        ends += times
        first, last = min(ends, default=0), max(ends, default=0)
        begin = ticks_of("start", start, self.clock)
        if isinstance(complete_until, str) and complete_until.strip().lower() == END:
            stop = last + _longest_wait(self.plan.app) * (1 if self.clock is None else NANOSECONDS_PER_MS)
        else:
            stop = ticks_of("complete_until", complete_until, self.clock)
        if begin is not None and ends and begin > first:
            raise CepError(f"start={start!r} is after the first event")
        if stop is not None and ends and stop < last:
            raise CepError(
                f"complete_until={complete_until!r} is before the last event; leave out the events after it"
            )
        if stop is None and times:
            stop = last  # timers of a part fire up to the last event of all parts
        events = merged(parts, _sources_that_meet(self.plan))
        n_events = sum(len(events) for _, _, events in parts)
        return _AppRun(self.plan, first if begin is None else begin).run(events, n_events, stop)


def _longest_wait(app: SiddhiApp) -> int:
    """Return after how many milliseconds all waits of ``not … for`` are over."""
    queries = [query for element in app.elements for query in getattr(element, "queries", (element,))]
    inputs = [query.input for query in queries if isinstance(query.input, PatternInput)]
    states = (state for given in inputs for state in given.pattern.walk())
    return sum(state.wait_ms or 0 for state in states if isinstance(state, AbsentState))


def bind_app(
    app: SiddhiApp, sources: Mapping[str, Source], order_by: OrderBy, *, has_rows: bool = True
) -> BoundApp:
    """Return an app with its streams after all checks that need no rows."""
    defined = {stream.name: stream for stream in app.streams}
    if isinstance(order_by, Mapping) and (unknown := [name for name in order_by if name not in sources]):
        raise CepError(f"order_by: no stream {unknown[0]!r} is given; streams: {', '.join(sources)}")
    streams = []
    for name, source in sources.items():
        columns = order_by.get(name) if isinstance(order_by, Mapping) else order_by
        columns = as_columns("order_by", columns)
        streams.append(read_stream(name, source, defined.get(name), columns, has_rows))
    clock = _clock(streams)
    per_ms = NANOSECONDS_PER_MS if clock is not None else 1
    has_clock = all(stream_rows.order_by for stream_rows in streams)
    if len(streams) > 1 and not has_clock:
        name = next(stream_rows.name for stream_rows in streams if not stream_rows.order_by)
        raise CepError(f"several streams need a common order; name the clock of {name}, as in order_by='ts'")
    plan = plan_app(app, {stream_rows.name: stream_rows.schema for stream_rows in streams}, per_ms, has_clock)
    return BoundApp(plan, tuple(streams), clock)


def _clock(rows: Sequence[StreamRows]) -> ColumnType | None:
    """Return the type of the clocks if they are times; None for numbers."""
    kinds = {stream.is_time for stream in rows}
    if len(kinds) > 1:
        times = next(stream.name for stream in rows if stream.is_time)
        numbers = next(stream.name for stream in rows if not stream.is_time)
        raise CepError(
            f"order_by: the clock of {times} has times, that of {numbers} has numbers; convert one"
        )
    if kinds != {True}:
        return None
    return rows[0].source.schema[rows[0].order_by[0]]


def ticks_of(what: str, value: Any, clock: ColumnType | None) -> Any:
    """Return the ticks of a time that the user gives."""
    if value is None:
        return None
    if clock is None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise CepError(f"{what}={value!r}: the clock has numbers, so give a number")
    try:
        if clock.kind == DURATION:
            return pd.Timedelta(value).as_unit("ns").value
        time = pd.Timestamp(value)
        if clock.kind == TIME and clock.timezone is not None and time.tzinfo is None:
            time = in_zone(time, clock.timezone)
        return time.as_unit("ns").value
    except (ValueError, TypeError) as error:
        raise CepError(f"{what}={value!r} is no time, as the clock has: {error}") from None


def _sources_that_meet(plan: AppPlan) -> list[set[str]]:
    """Return the streams with frames whose events, or what queries make of them, meet in one query."""
    sources_of: dict[str, set[str]] = {}

    def sources(stream: str) -> set[str]:
        if stream not in sources_of:
            writers = [query for query in plan.app.queries() if query.target == stream]
            origins = {stream}
            sources_of[stream] = origins  # set first: queries may form a circle
            for query in writers:
                for source in query.sources():
                    origins |= sources(source.stream)
        return sources_of[stream]

    return [set().union(*map(sources, names)) for names in plan.meeting]
