"""A SiddhiQL app with the rows of its streams: the checks before a run, and the run through its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepkit.compile.shared.operations import in_zone
from cepkit.errors import CepError
from cepkit.events import DURATION, TIME, ColumnType, Source
from cepkit.language.query_parts import as_columns
from cepkit.language.siddhi.query import SiddhiApp
from cepkit.limits import check_memory
from cepkit.progress import checkpoint
from cepkit.siddhiql.inputs import NANOSECONDS_PER_MS, StreamRows, events_of, merged, read_stream
from cepkit.siddhiql.patterns import QueryRun
from cepkit.siddhiql.planning import AppPlan, PlannedPartition, PlannedQuery, plan_app
from cepkit.siddhiql.selecting import Row
from cepkit.siddhiql.states import Event, RunClock, Slots

# The run of an app: events go through its queries in the order of the text, and rows to the next queries.

_EVENTS_PER_CHECKPOINT = 4096
_PER_ROW, _PER_VALUE = 192, 40  # about how many bytes a row of a result takes, and each of its values
Send = Callable[[str, list[Row]], None]


def run_app(
    plan: AppPlan, events: Iterable[tuple[str, Event]], n_events: int, start: int, end: int | None
) -> dict[str, list[Row]]:
    """Run an app over events in order, and return the rows of each stream that it writes."""
    return _AppRun(plan, start).run(events, n_events, end)


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
        """Take all events in, and return the rows."""
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
        self._rows[target] += rows
        self._n_bytes += len(rows) * (_PER_ROW + _PER_VALUE * len(rows[0][2]))
        check_memory(self._n_bytes, "the rows of the results", is_held=True)
        for reader in self._readers.get(target, ()):
            for _, time, values in rows:
                reader.receive(target, (time, *values))


def _start(query: PlannedQuery, clock: RunClock, send: Send) -> QueryRun:
    target = query.target

    def deliver(rows: list[Row]) -> None:
        if rows:
            send(target, rows)

    return query.plan.start(clock, deliver)


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
        """Take an event in."""
        for reader in self._readers.get(stream, ()):
            reader.receive(stream, event)

    def _send(self, target: str, rows: list[Row]) -> None:
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

    def run(self, start: Any, end: Any, times: Sequence[Any] = ()) -> dict[str, list[Row]]:
        """Run the app, and return the rows of each stream that it writes."""
        parts = [(stream.name, *events_of(stream, self.clock is not None)) for stream in self.streams]
        whole = [events[place][0] for _, _, events in parts if events for place in (0, -1)]
        whole += times
        first, last = (min(whole), max(whole)) if whole else (0, 0)
        begin, stop = ticks_of("start", start, self.clock), ticks_of("end", end, self.clock)
        if begin is not None and whole and begin > first:
            raise CepError(f"start={start!r} is after the first event")
        if stop is not None and whole and stop < last:
            raise CepError(f"end={end!r} is before the last event")
        if stop is None and times:
            stop = last  # timers of a part fire up to the last event of all parts
        events = merged(parts, _sources_that_meet(self.plan))
        n_events = sum(len(events) for _, _, events in parts)
        return run_app(self.plan, events, n_events, first if begin is None else begin, stop)


def bind_app(app: SiddhiApp, sources: Mapping[str, Source], order_by: OrderBy) -> BoundApp:
    """Return an app with its streams after all checks that need no rows."""
    defined = {stream.name: stream for stream in app.streams}
    if isinstance(order_by, Mapping) and (unknown := [name for name in order_by if name not in sources]):
        raise CepError(f"order_by: no stream {unknown[0]!r} is given; streams: {', '.join(sources)}")
    streams = []
    for name, source in sources.items():
        columns = order_by.get(name) if isinstance(order_by, Mapping) else order_by
        columns = as_columns("order_by", columns)
        streams.append(read_stream(name, source, defined.get(name), columns))
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
            sources_of[stream] = origins
            for query in writers:
                for source in query.sources():
                    origins |= sources(source.stream)
        return sources_of[stream]

    return [set().union(*map(sources, names)) for names in plan.meeting]
