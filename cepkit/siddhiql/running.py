"""`siddhi`: run SiddhiQL on frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cepkit.errors import CepError
from cepkit.events import DURATION, TIME, ColumnType, Frame
from cepkit.language.siddhi.parsing import parse_siddhi
from cepkit.language.siddhi.query import SiddhiApp
from cepkit.siddhiql.app_run import run_app
from cepkit.siddhiql.inputs import (
    NANOSECONDS_PER_MS,
    StreamRows,
    events_of,
    merged,
    read_stream,
    source_of_stream,
)
from cepkit.siddhiql.planning import AppPlan, plan_app
from cepkit.siddhiql.results import SiddhiResult

OrderBy = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


def siddhi(
    text: str,
    frames: Mapping[str, Frame] | None = None,
    /,
    *,
    order_by: OrderBy = None,
    start: Any = None,
    end: Any = None,
    **streams: Frame,
) -> SiddhiResult:
    """Run SiddhiQL on frames, with the answer that Siddhi gives.

    Each keyword names a stream and gives its events. Patterns (``->``), sequences (``,``), ``every``,
    ``and``, ``or``, counts, absent events, windows, joins, partitions and chains of queries run. Without
    ``every`` a pattern has one match at most.

    Parameters
    ----------
    text : str
        SiddhiQL: definitions of streams, queries and partitions. ``define stream`` is optional.
    frames : mapping of str to DataFrame, optional
        Streams whose names are no keywords of Python, or equal a parameter.
    order_by : str, list of str, or mapping of stream to them, optional
        The columns that order the events; the first is the clock. It has times, or milliseconds. Without it,
        a DatetimeIndex is the clock, and otherwise the rows are in order and no clause may need time.
    start : time or number, optional
        When the app starts: the waits of ``not … for`` at the start of a pattern begin then. Default: the
        time of the first event.
    end : time or number, optional
        When the app stops. Timers fire when a later event arrives, before it, and up to ``end`` after the
        last event. Default: the time of the last event.
    **streams : DataFrame or table
        pandas, Arrow or polars; the name of the keyword is the name of the stream.

    Returns
    -------
    SiddhiResult
        The rows of each stream that a query writes: ``to_frame(stream)``, ``count(stream)``, ``streams``.

    Raises
    ------
    PatternSyntaxError
        If the text is not SiddhiQL, or has a clause that does not run, such as tables and rates of output.
    ColumnNotFoundError
        For an attribute, a reference or a column that does not exist.
    OrderError
        If events of two streams that meet in one query are equal in ``order_by``: Siddhi's own answer then
        depends on the order of its threads.
    UnsupportedQueryError
        For Spark frames, and for queries that feed themselves.
    CepError
        For a stream without a frame, and a clause of time without a clock.

    Notes
    -----
    A timer fires at its exact time, and before an event of the same time, as in Siddhi's playback mode. An
    event takes time in the number of partial matches that wait for its stream. Sums are exact and rounded
    once.
    Source: Suhothayan et al., "Siddhi: a second look at complex event processing architectures", GCE 2011;
    the behaviour of siddhi-core 5.1.7.
    Differs: attributes of type float have 64 bits. Rows of ``all events`` are in one stream.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [0, 400, 900, 1500], "symbol": ["A", "A", "A", "A"],
    ...     "price": [10.0, 14.0, 12.0, 20.0]})
    >>> text = '''from every e1=Trades[price >= 10] -> e2=Trades[price > e1.price * 1.3] within 1 sec
    ...     select e1.price as low, e2.price as high insert into Jumps'''
    >>> cep.siddhi(text, Trades=trades, order_by="ts").to_frame()
        low  high
    0  10.0  14.0
    1  12.0  20.0
    """
    app = parse_siddhi(text)
    given = _named_frames(frames, streams)
    rows, native = _read(app, given, order_by)
    clock = _clock(rows)
    per_ms = NANOSECONDS_PER_MS if clock is not None else 1
    has_clock = all(one.order_by for one in rows)
    if len(rows) > 1 and not has_clock:
        name = next(one.name for one in rows if not one.order_by)
        raise CepError(f"several streams need a common order; name the clock of {name}, as in order_by='ts'")
    plan = plan_app(app, {one.name: one.schema for one in rows}, per_ms, has_clock)
    parts = [(one.name, *events_of(one, clock is not None)) for one in rows]
    times = [events[place][0] for _, _, events in parts if events for place in (0, -1)]
    first, last = (min(times), max(times)) if times else (0, 0)
    begin, stop = _ticks("start", start, clock), _ticks("end", end, clock)
    if begin is not None and times and begin > first:
        raise CepError(f"start={start!r} is after the first event")
    if stop is not None and times and stop < last:
        raise CepError(f"end={end!r} is before the last event")
    events = merged(parts, _sources_that_meet(plan))
    n_events = sum(len(events) for _, _, events in parts)
    made = run_app(plan, events, n_events, first if begin is None else begin, stop)
    return SiddhiResult(made, plan.schemas, rows[0].source, native, clock)


def _named_frames(frames: Mapping[str, Frame] | None, streams: Mapping[str, Frame]) -> dict[str, Frame]:
    given = {**(frames or {}), **streams}
    if not given:
        raise CepError("name the streams and give their frames, as in cep.siddhi(text, Trades=trades)")
    return given


def _read(app: SiddhiApp, given: Mapping[str, Frame], order_by: OrderBy) -> tuple[list[StreamRows], Any]:
    defined = {stream.name: stream for stream in app.streams}
    rows, native = [], None
    if isinstance(order_by, Mapping) and (unknown := [name for name in order_by if name not in given]):
        raise CepError(f"order_by: no stream {unknown[0]!r} is given; streams: {', '.join(given)}")
    for name, frame in given.items():
        source, own = source_of_stream(name, frame)
        native = native or own
        columns = order_by.get(name) if isinstance(order_by, Mapping) else order_by
        columns = (columns,) if isinstance(columns, str) else tuple(columns or ())
        rows.append(read_stream(name, source, defined.get(name), columns))
    return rows, native


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


def _ticks(what: str, value: Any, clock: ColumnType | None) -> Any:
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
            time = time.tz_localize(clock.timezone)
        return time.as_unit("ns").value
    except (ValueError, TypeError):
        raise CepError(f"{what}={value!r} is no time, as the clock has") from None


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
