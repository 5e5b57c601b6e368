"""Events and matches over time for a timeline, reduced to what a screen can show, in local time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_CODE,
    NULL_INTEGER,
    NUMBERS,
    TEXT,
    TIME,
    Column,
    Events,
    Source,
)
from cepkit.explorer.running.data import is_identifier, measures_first
from cepkit.language.sequences.patterns import event_patterns
from cepkit.language.sequences.printing import type_text
from cepkit.plots.theme import variables_of
from cepkit.values import dataclass

_HOUR = 3_600_000  # ms
_MOST_STEPS = 10_000  # moments at which the difference is looked up, at most


@lru_cache(maxsize=16)
def offsets_of(zone: str, low: float, high: float) -> tuple[tuple[float, float], ...]:
    """Return the differences of local time from UTC in a range of time."""
    if not zone or not high >= low:
        return ()
    step = max(_HOUR, (high - low) / _MOST_STEPS)
    moments = np.append(np.arange(np.floor(low), high, step), np.ceil(high)).astype(np.int64)
    try:
        offsets = _offsets_at(zone, moments)
    except (KeyError, ValueError, OSError):  # a zone that this computer does not know
        return ()
    changes = [(float(low), float(offsets[0]))]
    for k in np.flatnonzero(np.diff(offsets)).tolist():
        change = _first_after(zone, int(moments[k]), int(moments[k + 1]), int(offsets[k]))
        changes.append((float(change), float(offsets[k + 1])))
    return tuple(changes) if any(offset for _, offset in changes) else ()


def _offsets_at(zone: str, moments: np.ndarray) -> np.ndarray:
    """Return the difference from UTC at each of these times, in milliseconds."""
    local = pd.DatetimeIndex(moments.astype("datetime64[ms]")).tz_localize("UTC").tz_convert(zone)
    return local.tz_localize(None).as_unit("ms").asi8 - moments


def _first_after(zone: str, before: int, after: int, offset: int) -> int:
    """Return the first time after ``before``, to a millisecond, at which the difference is not ``offset``."""
    while after - before > 1:
        middle = (before + after) // 2
        if int(_offsets_at(zone, np.array([middle]))[0]) == offset:
            before = middle
        else:
            after = middle
    return after


# Events over time for a timeline: a line or lanes, reduced to what a screen can show.

BUCKETS = 800  # of a window; a line has two points in each
LANES = 12
OTHER_TYPES = "other types"
_EXACT = 2**53  # a float64 holds every integer up to this
_MILLISECONDS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}


@dataclass(frozen=True)
class Clock:
    """The clock of some events, as the axis of a timeline."""

    time: np.ndarray  # (n,): the clock after ``origin``, which never falls; row numbers without a clock
    kind: str = "number"
    per_tick: float = 1.0  # milliseconds of a clock tick; 1 for a plain number
    label: str = "row"
    zone: str = ""  # time zone of the clock's times; empty if they have none
    origin: int = 0  # what was subtracted from integers that a float64 cannot hold; 0 for all other clocks
    is_exact: bool = True  # whether a float64 can tell any two times of the axis apart


@dataclass(frozen=True)
class Series:
    """The events of a timeline, from one partition or from all."""

    positions: np.ndarray | None  # int64: positions of the events in the stream; None for all events
    clock: Clock
    value: np.ndarray  # (n,): numbers of a line (NaN for null), or the lane of every event
    form: str  # ``line`` or ``lanes``
    lane_names: tuple[str, ...] = ()
    lane_colours: tuple[int, ...] = ()  # places of their variables in the pattern; -1: others
    y_label: str = ""

    @property
    def time(self) -> np.ndarray:
        """The times of the clock, (n,)."""
        return self.clock.time

    def __len__(self) -> int:
        return len(self.time)

    def x(self, index: Any) -> np.ndarray:
        """Return the times of these events on the axis: milliseconds since 1970, or numbers after origin."""
        return np.asarray(self.time[index], np.float64) * self.clock.per_tick

    def index_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the indices in the series of events of the stream."""
        return positions if self.positions is None else np.searchsorted(self.positions, positions)

    def position_of(self, index: int) -> int:
        """Return the position in the stream of an event of the series."""
        return index if self.positions is None else int(self.positions[index])

    def ticks(self, index: Any) -> np.ndarray:
        """Return the clock of these events as int64 if a float64 cannot hold it, otherwise nothing."""
        times = np.empty(0) if self.clock.is_exact else self.time[index]
        return np.asarray(times, np.int64) + np.int64(self.clock.origin)

    def nearest(self, x: float | str) -> int:
        """Return the event nearest to a time of the axis, or the first event at a tick, given as text."""
        if isinstance(x, str):
            return min(int(np.searchsorted(self.time, np.int64(int(x) - self.clock.origin))), len(self) - 1)
        after = int(np.searchsorted(self.time, x / self.clock.per_tick))
        around = [i for i in (after - 1, after) if 0 <= i < len(self)]
        return min(around, key=lambda i: abs(self.x(i) - x))

    def events_in(self, window: Sequence[float] | None) -> tuple[int, int]:
        """Return the first and the last (exclusive) event in a window of the axis; all for None or empty."""
        if not window:
            return 0, len(self)
        first, last = (bound / self.clock.per_tick for bound in window)
        low = int(np.searchsorted(self.time, first, "left"))
        return low, int(np.searchsorted(self.time, last, "right"))

    @property
    def extent(self) -> list[float]:
        """First and last time on the axis; empty without events."""
        return [float(self.x(0)), float(self.x(-1))] if len(self) else []


def series_of(
    program: BoundQuery, source: Source, events: Events, partition: int | None, value: str | None = None
) -> Series:
    """Return the events of a partition (None: of all) with the column ``value``, one of `drawable`."""
    query = program.query
    positions = None
    if partition is not None and events.n_partitions > 1:
        positions = np.flatnonzero(events.partition_of_event == partition)
    rows = None if events.row_of_event is None and positions is None else _rows(events, positions)

    def take(name: str) -> Column:
        column = source.column(name)
        return column if rows is None else column.take(rows)

    n = events.n_events if positions is None else len(positions)
    clock = clock_of(program, source, events, positions)
    choices = drawable(program, source)
    if value not in choices:  # the column of types of another query
        value = first_drawn(program, choices)
    if value is not None and value == _type_column(program):
        lane, names, colours = _lanes(take(query.event_type), query)
        return Series(positions, clock, lane, "lanes", names, colours, query.event_type)
    if value is None:
        return Series(positions, clock, np.zeros(n, np.int8), "lanes", ("events",), (-1,))
    return Series(positions, clock, _numbers(take(value)), "line", y_label=value)


def clock_of(program: BoundQuery, source: Source, events: Events, positions: np.ndarray | None) -> Clock:
    """Return the clock of the events at these positions of the stream; of all events for None."""
    order_by = program.query.order_by
    dtype = source.schema[order_by[0]] if order_by else None
    if dtype is None or dtype.kind not in (INTEGER, FLOAT, TIME, DURATION):
        return Clock(np.arange(events.n_events, dtype=np.int64) if positions is None else positions)
    name, rows = order_by[0], events.row_of_event if positions is None else events.rows(positions)
    values = source.column(name).values
    time = values if rows is None else values[rows]
    ends = values[events.rows(np.array([0, -1]) % events.n_events)].tolist() if events.n_events else [0]
    is_exact = dtype.kind == FLOAT or max(map(abs, ends)) <= _EXACT
    if dtype.kind == TIME:
        zone, label = dtype.timezone or "", name + (f" ({dtype.timezone})" if dtype.timezone else "")
        return Clock(time, "datetime", _MILLISECONDS[dtype.unit], label, zone, is_exact=is_exact)
    if dtype.kind == DURATION:
        return Clock(time, "number", _MILLISECONDS[dtype.unit] / 1e3, f"{name} (s)")
    origin = 0 if is_exact else _round_origin(*ends)
    return Clock(time - np.int64(origin) if origin else time, label=name, origin=origin, is_exact=is_exact)


def _round_origin(first: int, last: int) -> int:
    """Return a round number before the first tick, at most eleven times the span before the last one."""
    size = 10 ** len(str(last - first))
    return max(first // size * size, -(2**63))


def _rows(events: Events, positions: np.ndarray | None) -> np.ndarray:
    return events.row_of_event if positions is None else events.rows(positions)


def _type_column(program: BoundQuery) -> str | None:
    return program.query.event_type if isinstance(program, SequenceProgram) else None


def drawable(program: BoundQuery, source: Source) -> list[str]:
    """Return the columns that a timeline can show, best first: types in lanes, then numbers as a line."""
    query, types = program.query, _type_column(program)
    other = {*query.partition_by, *query.order_by, *source.duplicates, types}
    names = [name for name in dict.fromkeys((*program.columns, *source.schema)) if name in source.schema]
    read = [name for name in program.columns if name in source.schema]
    fitting = [name for name in names if name not in other and source.schema[name].kind in NUMBERS]
    numbers = [name for name in fitting if name in read]
    numbers += measures_first(name for name in fitting if name not in read)
    return [*([] if types is None else [types]), *numbers]


def first_drawn(program: BoundQuery, choices: Sequence[str]) -> str | None:
    """Return the column that a timeline shows first: never an identifier that the query does not read."""
    fitting = (name for name in choices if name in program.columns or not is_identifier(name))
    return next((name for name in choices[:1] if name == _type_column(program)), next(fitting, None))


def _numbers(column: Column) -> np.ndarray:
    values = column.values
    if values.dtype.kind == "f" or not column.type.nullable:
        return values
    return np.where(values == NULL_INTEGER, np.nan, values)


def _lanes(column: Column, query: Any) -> tuple[np.ndarray, tuple[str, ...], tuple[int, ...]]:
    """Return the lane of every event, and names and colours of lanes: types of the pattern, then others."""
    named = list(dict.fromkeys(event.event_type for event in event_patterns(query.pattern)))
    wanted = [kind for kind in named if kind is not None][: LANES - 1]
    if column.type.kind == TEXT:
        texts = [str(text) for text in column.categories]
        code_of = {text: code for code, text in enumerate(texts)}
        if None in named:  # the pattern accepts any type
            wanted += [text for text in texts if text not in wanted][: LANES - 1 - len(wanted)]
        lane_of_code = np.full(len(texts) + 1, len(wanted), np.int8)
        for lane, kind in enumerate(wanted):
            if kind in code_of:
                lane_of_code[code_of[kind]] = lane
        lane = lane_of_code[column.values]  # a missing type, -1, reads the last entry
    else:
        values = column.values
        if None in named and column.type.kind in (INTEGER, BOOLEAN):
            there = [
                kind for kind in np.unique(values[:10_000]).tolist() if kind not in (NULL_INTEGER, NULL_CODE)
            ]
            wanted += [kind for kind in there if kind not in wanted][: LANES - 1 - len(wanted)]
        lane = np.full(len(values), len(wanted), np.int8)
        for number, kind in enumerate(wanted):
            lane[values == kind] = number
    names = [kind if isinstance(kind, str) else type_text(kind) for kind in wanted]
    has_other = bool((lane == len(wanted)).any())
    variables = variables_of(query)
    place_of: dict[Any, int] = {}
    for event in event_patterns(query.pattern):
        if event.variable in variables:
            place_of.setdefault(event.event_type, variables.index(event.variable))
    colours = [place_of.get(kind, -1) for kind in wanted]
    return lane, (*names, *[OTHER_TYPES] * has_other), (*colours, *[-1] * has_other)


def describe(series: Series, window: list[float] | None = None) -> dict[str, Any]:
    """Return the event traits of the timeline widget for a window of time."""
    drawn = draw_series(series, window)
    return {
        "time_kind": series.clock.kind, "form": series.form, "x": drawn["x"], "y": drawn["y"],
        "lane_names": list(series.lane_names), "lane_colours": list(series.lane_colours),
        "x_label": series.clock.label, "y_label": series.y_label,
        "sampled": drawn["sampled"], "view": series.extent, "ticks": drawn["ticks"],
        "origin": str(series.clock.origin),
        "zone_offsets": [] if not series.clock.zone else offsets_of(series.clock.zone, *series.extent),
    }  # fmt: skip


def draw_series(series: Series, window: list[float] | None = None, buckets: int = BUCKETS) -> dict[str, Any]:
    """Return the points of a window, the extremes (or an event per lane) of each of its parts, and a note."""
    low, high = series.events_in(window)
    high = max(low, high)
    n = high - low
    thin = _thin_line if series.form == "line" else _thin_lanes
    index = np.arange(low, high) if n <= 4 * buckets else thin(series, low, high, buckets)
    # One more event at either side, so that a line extends beyond the window.
    beside = [i for i in (low - 1, high) if 0 <= i < len(series)]
    index, n = np.unique(np.concatenate([index, np.array(beside, np.int64)])), n + len(beside)
    x, y = series.x(index), np.asarray(series.value[index], np.float64)
    left_out = ""
    if len(index) < n:
        kept = "least and greatest of each of" if series.form == "line" else "one event per type in each of"
        left_out = f"{len(index):,} of {n:,} events drawn: {kept} {buckets} parts"
    return {"x": x, "y": y, "ticks": series.ticks(index), "sampled": left_out}


def _thin_line(series: Series, low: int, high: int, buckets: int) -> np.ndarray:
    """Return the indices of the least and the greatest value of each of up to ``buckets`` runs of events."""
    size = -(-(high - low) // buckets)
    buckets = (high - low) // size
    whole = low + size * buckets
    start = low + size * np.arange(buckets)
    places = [start + place for place in _extremes(series.value[low:whole].reshape(buckets, size))]
    if whole < high:  # a last run of fewer than `size` events
        places.append(whole + np.array(_extremes(series.value[whole:high])))
    return np.unique(np.concatenate([*places, [low, high - 1]]))


def _extremes(values: np.ndarray) -> tuple[Any, Any]:
    """Return the places of the least and the greatest value along the last axis; NaN is neither."""
    if values.dtype.kind == "f" and (missing := np.isnan(values)).any():
        return np.where(missing, np.inf, values).argmin(-1), np.where(missing, -np.inf, values).argmax(-1)
    return values.argmin(-1), values.argmax(-1)


def _thin_lanes(series: Series, low: int, high: int, buckets: int) -> np.ndarray:
    """Return the indices of the first event of every lane in each of ``buckets`` parts of the time."""
    time = series.time[low:high]
    first, last = float(time[0]), float(time[-1])
    width = (last - first) or 1.0
    part = np.minimum(((time - time[0]) * (buckets / width)).astype(np.int64), buckets - 1)
    n_lanes = len(series.lane_names)
    cell = part * n_lanes + series.value[low:high]
    earliest = np.full(buckets * n_lanes, -1, np.int64)
    earliest[cell[::-1]] = np.arange(high - 1, low - 1, -1)
    return np.sort(earliest[earliest >= 0])


# Where the matches of a result are in time: their numbers in equal parts of an axis.

BINS = 300  # of an axis; each is a few pixels wide
MOST_BANDS = 2000  # more matches than these are not drawn as bands


@dataclass(frozen=True)
class Ends:
    """The ends of counted matches, in stream order."""

    index: np.ndarray  # int64, (n,): their places in `Result.ends`
    position: np.ndarray  # int64, (n,): their positions in the stream, rising
    time: np.ndarray  # (n,): their times on the clock, which never fall, after the origin of the axis
    # Number of matches that end before each of them, and the total. None: one match ends at each.
    before: Any = None

    def count(self, low: int, high: int) -> int:
        """Return the number of matches of the ends ``low`` to ``high`` (exclusive)."""
        return high - low if self.before is None else int(self.before[high]) - int(self.before[low])

    def counts(self, bounds: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the number of matches between each two neighbours of ``bounds``, as float64."""
        if self.before is None:
            return np.diff(bounds).astype(np.float64)
        if isinstance(self.before, list):  # numbers beyond int64
            sums = [self.before[bound] for bound in bounds]
            return np.array([float(b - a) for a, b in pairwise(sums)])
        return np.diff(np.asarray(self.before)[bounds]).astype(np.float64)

    def of(self, own: np.ndarray) -> Ends:
        """Return some of the ends."""
        before = self.before
        if isinstance(before, list):
            counts = (before[i + 1] - before[i] for i in own.tolist())
            before = [0, *accumulate(counts)]
        elif before is not None:
            before = np.concatenate([[0], np.cumsum(np.diff(before)[own])])
        return Ends(self.index[own], self.position[own], self.time[own], before)


def bin_bounds(time: np.ndarray, low: float, high: float, *, is_whole: bool) -> np.ndarray:
    """Return the bounds of the bins of an axis from ``low`` to ``high``, as indices into rising times."""
    if not high > low:
        return np.array([0, len(time)])
    inner = np.searchsorted(time, np.linspace(low, high, BINS + 1)[1:-1], "left")
    first = 0 if is_whole else int(np.searchsorted(time, low, "left"))
    last = len(time) if is_whole else int(np.searchsorted(time, high, "right"))
    return np.concatenate([[first], np.clip(inner, first, last), [last]])
