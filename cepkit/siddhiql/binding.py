"""A SiddhiQL app with the rows of its streams: the checks before a run, and the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepkit.compile.shared.moments import in_zone
from cepkit.errors import CepError
from cepkit.events import DURATION, TIME, ColumnType, Source
from cepkit.language.query_parts import as_columns
from cepkit.language.siddhi.query import SiddhiApp
from cepkit.siddhiql.inputs import NANOSECONDS_PER_MS, StreamRows, events_of, merged, read_stream
from cepkit.siddhiql.planning import AppPlan, plan_app
from cepkit.siddhiql.runs.app import run_app
from cepkit.siddhiql.selecting import Row

OrderBy = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


@dataclass(frozen=True)
class BoundApp:
    """A plan, its streams with their rows, and the type of the clocks if they are times."""

    plan: AppPlan
    streams: tuple[StreamRows, ...]
    clock: ColumnType | None

    def run(self, start: Any, end: Any, times: Sequence[Any] = ()) -> dict[str, list[Row]]:
        """Run the app, and return the rows of each stream that it writes."""
        parts = [(one.name, *events_of(one, self.clock is not None)) for one in self.streams]
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
    has_clock = all(one.order_by for one in streams)
    if len(streams) > 1 and not has_clock:
        name = next(one.name for one in streams if not one.order_by)
        raise CepError(f"several streams need a common order; name the clock of {name}, as in order_by='ts'")
    plan = plan_app(app, {one.name: one.schema for one in streams}, per_ms, has_clock)
    return BoundApp(plan, tuple(streams), clock)


def _clock(rows: Sequence[StreamRows]) -> ColumnType | None:
    """Return the type of the clocks if they are times; None for numbers."""
    kinds = {one.is_time for one in rows}
    if len(kinds) > 1:
        times = next(one.name for one in rows if one.is_time)
        numbers = next(one.name for one in rows if not one.is_time)
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
            found = {stream}
            sources_of[stream] = found
            for query in writers:
                for source in query.sources():
                    found |= sources(source.stream)
        return sources_of[stream]

    return [set().union(*map(sources, names)) for names in plan.meeting]
