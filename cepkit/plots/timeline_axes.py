"""The events that a timeline has room for, its axes, lanes for events, and short texts for ticks."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from cepkit.errors import CepError, OrderError
from cepkit.plots.automata import shown_name
from cepkit.plots.theme import cut, escaped
from cepkit.values import dataclass, replace

# Choose the partitions, matches and events that a picture has room for; matches one below the other.

# Choose the partitions, matches and events that a picture has room for.

FAR = np.iinfo(np.int64).max // 2
MOST_COLUMNS = 600  # of pixels in a panel; each shows its first, last, least and greatest event


@dataclass(frozen=True, slots=True)
class Marks:
    """Rows of matches."""

    match: np.ndarray  # int64, (n_marks,): the number of the match
    variable: np.ndarray  # objects, (n_marks,)
    row: np.ndarray  # int64, (n_marks,): the number of the event

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: np.ndarray) -> Marks:
        """Return the marks of a mask or of indices."""
        return Marks(self.match[which], self.variable[which], self.row[which])


@dataclass(frozen=True, slots=True)
class Panel:
    """The drawn part of one partition. Arrays of events are in time order."""

    name: object  # the partition's value; None when the stream has no partitions
    events: np.ndarray  # int64, (n_drawn,): row numbers of the events
    marks: Marks


@dataclass(frozen=True, slots=True)
class Selection:
    """The panels, with the total and the drawn numbers of events and matches."""

    panels: tuple[Panel, ...]
    n_partitions: int
    n_events: int
    n_events_drawn: int
    n_matches: int
    n_matches_drawn: int

    def drawn_rows(self) -> np.ndarray:
        """Return the row numbers of all drawn events."""
        return np.concatenate([panel.events for panel in self.panels] or [np.zeros(0, np.int64)])

    def marked_rows(self) -> np.ndarray:
        """Return the row numbers of all marks; a row in two matches occurs twice."""
        marked = [panel.marks.row for panel in self.panels]
        return np.concatenate(marked or [np.zeros(0, np.int64)])


@dataclass(frozen=True, slots=True)
class Totals:
    """The numbers for the whole result, when a picture has only a part of it; None: not known."""

    n_events: int
    n_partitions: int
    n_matches: int
    is_exact: bool  # False: there are at least ``n_matches``
    n_partitions_matched: int | None
    n_events_matched: int | None


def totals_of(chosen: Selection, partition_of_event: pd.Series | None, marks: Marks) -> Totals:
    """Return the totals of a picture that has the whole result."""
    matched = pd.unique(marks.row)
    n_partitions_matched = min(1, len(matched))
    if partition_of_event is not None:
        n_partitions_matched = partition_of_event.iloc[matched].nunique(dropna=False)
    n_partitions, n_matches = chosen.n_partitions, chosen.n_matches
    return Totals(chosen.n_events, n_partitions, n_matches, True, n_partitions_matched, len(matched))


def select(
    ticks: np.ndarray, partition_of_event: pd.Series | None, marks: Marks, *, max_events: int,
    max_panels: int, values: np.ndarray | None = None,
) -> Selection:  # fmt: skip
    """Choose what is drawn: whole matches in their order, the course of the values, the nearest events."""
    # The course has the first, the last, the least and the greatest event of each stretch of time, so that no
    # stretch and no peak is missing.
    n_events = len(ticks)
    if partition_of_event is None:
        codes, names = np.zeros(n_events, np.int64), [None]
    else:
        codes, uniques = pd.factorize(partition_of_event, use_na_sentinel=False)
        names = list(uniques)
    code_of_mark = codes[marks.row]
    shown = list(dict.fromkeys([*code_of_mark.tolist(), *range(len(names))]))[:max_panels]
    kept = marks.take(np.isin(code_of_mark, shown))
    kept = kept.take(_whole_matches(kept.match, max_events))
    kept_code = codes[kept.row]

    order = np.lexsort((ticks, codes))  # stable: ties keep the order of the rows
    order = order[np.isin(codes[order], shown)]
    matched = np.zeros(n_events, bool)
    matched[kept.row] = True
    chosen = np.arange(len(order))
    if len(order) > max_events:
        n_columns = max(1, min(MOST_COLUMNS, (max_events - int(matched.sum())) // (4 * len(shown))))
        course = _course(ticks[order], codes[order], None if values is None else values[order], n_columns)
        rank = np.where(matched[order], 0, np.where(course, 1, 2))
        distances = _distance_to_match(matched[order], codes[order])
        chosen = np.sort(np.lexsort((distances, rank))[:max_events])
    drawn, drawn_code = order[chosen], codes[order[chosen]]

    panels = [Panel(names[code], drawn[drawn_code == code], kept.take(kept_code == code)) for code in shown]
    n_matches, n_kept = (len(pd.unique(part.match)) for part in (marks, kept))
    return Selection(tuple(panels), len(names), n_events, len(drawn), n_matches, n_kept)


def _whole_matches(match_of_row: np.ndarray, max_rows: int) -> np.ndarray:
    """Return a mask of the rows of the first matches, as many as have at most ``max_rows`` rows together."""
    number, _ = pd.factorize(match_of_row)  # by first appearance
    n_rows_until = np.cumsum(np.bincount(number)) if len(number) else np.zeros(0, np.int64)
    n_matches = max(1, int(np.searchsorted(n_rows_until, max_rows, side="right")))
    keep = number < n_matches
    return keep & (np.cumsum(keep) <= max_rows)  # cuts only a first match that is too long


def _course(ticks: np.ndarray, codes: np.ndarray, values: np.ndarray | None, n_columns: int) -> np.ndarray:
    """Return a mask of the first, last, least and greatest events of each column of each partition."""
    # All arrays are sorted by partition and time.
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
    first, last = (np.repeat(ticks[ends], np.diff(bounds)) for ends in (bounds[:-1], bounds[1:] - 1))
    share = (ticks.astype(np.float64) - first) / np.maximum((last - first).astype(np.float64), 1e-300)
    column = codes * n_columns + np.minimum((share * n_columns).astype(np.int64), n_columns - 1)
    is_drawn = np.zeros(len(ticks), bool)
    _mark_ends(is_drawn, np.arange(len(ticks)), column)
    if values is not None:
        present = np.flatnonzero(~np.isnan(values))
        by_value = present[np.lexsort((values[present], column[present]))]
        _mark_ends(is_drawn, by_value, column[by_value])
    return is_drawn


def _mark_ends(mask: np.ndarray, items: np.ndarray, group: np.ndarray) -> None:
    """Mark the first and the last item of each group of neighbours."""
    changes = np.flatnonzero(np.diff(group))
    mask[items[changes]] = True
    mask[items[changes + 1]] = True
    mask[items[:1]] = mask[items[-1:]] = True


def _distance_to_match(matched: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the distance, in events, of each event to the nearest matched one of its partition."""
    # Without a matched event it is the distance to the partition's first event. Both arrays are sorted by
    # partition and time.
    place = np.arange(len(codes))
    first_of_event = np.searchsorted(codes, codes, side="left")
    last_of_event = np.searchsorted(codes, codes, side="right") - 1
    before = np.maximum.accumulate(np.where(matched, place, -FAR))
    after = np.minimum.accumulate(np.where(matched, place, FAR)[::-1])[::-1]
    to_before = np.where(before >= first_of_event, place - before, FAR)
    to_after = np.where(after <= last_of_event, after - place, FAR)
    distance = np.minimum(to_before, to_after)
    return np.where(distance == FAR, place - first_of_event, distance)


# The axes of a timeline: columns as coordinates, lanes for events, and short texts for ticks.

# Columns as coordinates of a picture (numbers or dates that a browser can hold), and titles with units.

EXACT = 2**53  # integers up to here are exact in a browser
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The clock of a picture."""

    coordinates: np.ndarray  # datetime64[us] without timezone, or float64; (n_events,)
    ticks: np.ndarray  # the column's values as numbers, for sorting, (n_events,)
    title: str
    unit: str  # unit of differences

    @property
    def is_date(self) -> bool:
        return self.coordinates.dtype.kind == "M"

    def lengths(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the differences in the browser's unit: milliseconds for dates."""
        differences = ends - starts
        return differences / np.timedelta64(1, "ms") if self.is_date else differences.astype(np.float64)

    def move(self, coordinates: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the coordinates plus ``lengths``, which are in the unit of `lengths`."""
        if not self.is_date:
            return coordinates + lengths
        return coordinates + np.round(lengths * 1000).astype("timedelta64[us]")

    def bounds(self, *coordinates: np.datetime64 | float) -> list[str | float]:
        """Return coordinates in plotly's form for the range of an axis."""
        if self.is_date:
            return [str(np.datetime_as_string(coordinate, unit="us")) for coordinate in coordinates]
        return [float(coordinate) for coordinate in coordinates]

    def text(self, coordinate: np.datetime64 | float) -> str:
        if not self.is_date:
            return f"{coordinate:.15g}" if float(coordinate).is_integer() else f"{coordinate:.10g}"
        date, _, clock = np.datetime_as_string(coordinate, unit="us").partition("T")
        return f"{date} {clock.rstrip('0').rstrip('.') if '.' in clock else clock}"

    def hover_format(self) -> str:
        """Return the shortest format of the browser that shows the dates exactly."""
        for unit, text in (("D", "%Y-%m-%d"), ("s", "%Y-%m-%d %H:%M:%S")):
            if (self.coordinates == self.coordinates.astype(f"datetime64[{unit}]")).all():
                return text
        return "%Y-%m-%d %H:%M:%S.%f"

    def length_text(self, length: float) -> str:
        """Return a difference in the unit of `lengths` as readable text."""
        if not self.is_date:
            return f"{length:.10g} {self.unit}"
        unit, seconds = _fitting_unit(length / 1000)
        return f"{length / 1000 / seconds:.4g} {unit}"


def row_axis(n_events: int) -> TimeAxis:
    """Return the row numbers as a clock, for streams without a time column."""
    rows = np.arange(n_events)
    return TimeAxis(rows.astype(np.float64), rows, "row", "rows")


def time_axis(column: pd.Series, name: str) -> TimeAxis:
    """Return the coordinates of a time column: dates, durations or numbers."""
    # Integers beyond 2**53 are shown relative to the smallest.
    n_nulls = int(column.isna().sum())
    if n_nulls:
        raise OrderError(f"timeline: {n_nulls} of {len(column)} values of time column {name!r} are null")
    if _is_date(column):
        return _date_axis(pd.DatetimeIndex(column), name)
    if column.dtype.kind == "m":
        index = pd.TimedeltaIndex(column)
        seconds = index.total_seconds().to_numpy()
        unit, size = _fitting_unit(float(np.abs(seconds).max(initial=0.0)))
        return TimeAxis(seconds / size, index.asi8, f"{name} (duration, {unit})", unit)
    if _is_number(column):
        return _number_axis(column, name)
    raise CepError(
        f"timeline: time column {name!r} has type {column.dtype}; a timestamp, duration or number is needed. "
        "time=None draws by row number"
    )


def numbers(column: pd.Series) -> np.ndarray | None:
    """Return a numeric column as float64 with NaN for null and infinite values; None for other columns."""
    if not _is_number(column):
        return None
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _date_axis(index: pd.DatetimeIndex, name: str) -> TimeAxis:
    if index.tz is None:
        return TimeAxis(index.as_unit("us").to_numpy(), index.asi8, f"{name} (time)", "s")
    utc, local, zone = index.tz_convert(None), index.tz_localize(None), str(index.tz)
    if (local - utc).nunique() > 1:  # in local time the repeated hour would be drawn twice
        local, zone = utc, "UTC"
    return TimeAxis(local.as_unit("us").to_numpy(), index.asi8, f"{name} (time, {zone})", "s")


def _number_axis(column: pd.Series, name: str) -> TimeAxis:
    ticks = column.to_numpy()
    if ticks.dtype.kind not in "iuf":  # nullable, Arrow and decimal columns
        kind = np.int64 if pd.api.types.is_integer_dtype(column.dtype) else np.float64
        ticks = column.to_numpy(dtype=kind)
    if ticks.dtype.kind in "iu" and len(ticks) and max(int(ticks.max()), -int(ticks.min())) > EXACT:
        origin = ticks.min()
        return TimeAxis(
            (ticks - origin).astype(np.float64), ticks, f"{name} (its own unit, since {origin})", ""
        )
    return TimeAxis(ticks.astype(np.float64), ticks, f"{name} (its own unit)", "units")


def _is_date(column: pd.Series) -> bool:
    if column.dtype.kind == "M":  # also for Arrow columns, which pandas 2.2 does not call datetime
        return True
    return column.dtype == object and pd.api.types.infer_dtype(column) in ("datetime", "datetime64", "date")


def _is_number(column: pd.Series) -> bool:
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_complex_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    kinds = ("integer", "floating", "mixed-integer-float", "decimal")
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in kinds


def _fitting_unit(seconds: float) -> tuple[str, float]:
    """Return the largest unit that fits into ``seconds``, and its length in seconds; seconds for 0."""
    return next(((unit, size) for unit, size in _UNITS if abs(seconds) >= size), ("s", 1.0))


# The vertical axis of a timeline: values with lanes for events without one, or lanes alone.

MAX_LANES = 20
LANE_PIXELS = 24
BLANK_PIXELS = 15  # height of a lane of events without a value
SPARSE = 0.25  # share of events without a value from which no line is drawn


@dataclass(frozen=True, slots=True)
class Heights:
    """The heights of events on the vertical axis: values or lanes."""

    y_of_event: np.ndarray | None  # float64, (n_events,); None: marks are in the lane of their variable
    lanes: tuple[str, ...]  # from top (0); without `y_of_event`: variables, then unmatched events
    value: str | None  # name of the column
    blank_lanes: tuple[str, ...] = ()  # variables with marked events without a value, from top to bottom
    has_line: bool = True  # whether enough events have a value for a line through them
    # For one panel of values: their range, and the top and height of the lanes below.
    low: float = 0.0
    high: float = 1.0
    top_of_blanks: float = 0.0
    blank_height: float = 0.0

    @property
    def is_value(self) -> bool:
        """Whether the events have a numeric value."""
        return not self.lanes

    def of_marks(self, marks: Marks) -> np.ndarray:
        """Return y of the marked rows; NaN where a value is missing."""
        if self.y_of_event is not None:
            return self.y_of_event[marks.row]
        return np.array([self.lanes.index(variable) for variable in marks.variable], float)

    def of_blank(self, variable: str) -> float:
        """Return y of a variable's events without a value."""
        return self.top_of_blanks - (self.blank_lanes.index(variable) + 0.5) * self.blank_height

    @property
    def _room(self) -> float:
        return (self.high - self.low) or abs(self.high) or 1.0

    def panel_pixels(self, n_panels: int) -> int:
        lanes_or_value = max(self._value_pixels(n_panels), LANE_PIXELS * len(self.lanes))
        return lanes_or_value + BLANK_PIXELS * len(self.blank_lanes)

    @staticmethod
    def _value_pixels(n_panels: int) -> int:
        return 300 if n_panels == 1 else 150 if n_panels <= 3 else 110

    def in_panel(self, events: np.ndarray, n_panels: int) -> Heights:
        """Return the heights in one panel, which the values of these events fill."""
        if not self.is_value:
            return self
        drawn = self.y_of_event[events]
        drawn = drawn[~np.isnan(drawn)]
        fitted = replace(self, low=float(drawn.min()), high=float(drawn.max())) if len(drawn) else self
        bottom, top = fitted._limits()
        height = (top - bottom) * BLANK_PIXELS / self._value_pixels(n_panels)
        return replace(fitted, top_of_blanks=bottom, blank_height=height)

    def _limits(self) -> tuple[float, float]:
        return self.low - 0.08 * self._room, self.high + 0.22 * self._room  # match numbers need room above

    def axis(self, panel: Panel) -> dict:
        """Return plotly's vertical axis of a panel."""
        if self.lanes:
            return {
                "range": [len(self.lanes) - 0.4, -0.9],
                "tickmode": "array",
                "tickvals": list(range(len(self.lanes))),
                "ticktext": [_tick_of_lane(name) for name in self.lanes],
                "title": {"text": escaped(self.value or "variable"), "standoff": 10},
            }
        has_values = not np.isnan(self.y_of_event[panel.events]).all()
        axis = {"title": {"text": escaped(self.value)}, "tickmode": "auto", "nticks": 6}
        if not self.blank_lanes:
            return axis | ({"range": list(self._limits())} if has_values else {})
        ticks = nice_ticks(self.low, self.high) if has_values else []
        bottom = self.top_of_blanks - (len(self.blank_lanes) + 0.2) * self.blank_height
        return {
            "range": [bottom, self._limits()[1]],
            "tickmode": "array",
            "tickvals": ticks + [self.of_blank(name) for name in self.blank_lanes],
            "ticktext": [*map(tick_text, ticks), *map(_tick_of_lane, self.blank_lanes)],
            "title": axis["title"],
        }


def _tick_of_lane(name: str) -> str:
    return escaped(cut(shown_name(name)))


def heights_of(events: pd.DataFrame, marks: Marks, value: str | None, chosen: Selection) -> Heights:
    variables = dict.fromkeys(marks.variable)
    if value is None:
        drawn = {variable for panel in chosen.panels for variable in panel.marks.variable}
        return Heights(None, (*(variable for variable in variables if variable in drawn), "no match"), None)
    y_of_event = numbers(events[value])
    if y_of_event is None:
        return Heights(*_lanes_of_types(events[value], chosen), value)
    is_blank = np.isnan(y_of_event)
    without = {v for panel in chosen.panels for v in panel.marks.variable[is_blank[panel.marks.row]]}
    drawn = chosen.drawn_rows()
    has_line = not len(drawn) or bool(is_blank[drawn].mean() < SPARSE)
    blank_lanes = tuple(variable for variable in variables if variable in without)
    return Heights(y_of_event, (), value, blank_lanes, has_line)


def _lanes_of_types(column: pd.Series, chosen: Selection) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the lane of each drawn event, and the lanes; types beyond the limit share the last lane."""
    drawn = np.sort(chosen.drawn_rows())
    shown = column.iloc[drawn]
    code, types = pd.factorize(shown.astype(str).where(shown.notna(), "null").to_numpy(object))
    # Matched types are kept before others, frequent ones before rare ones.
    weight = np.bincount(code, 1.0 + len(drawn) * np.isin(drawn, chosen.marked_rows()), minlength=len(types))
    kept = np.argsort(-weight, kind="stable")[: MAX_LANES if len(types) <= MAX_LANES else MAX_LANES - 1]
    lane_of_type = np.full(len(types), len(kept), float)
    lane_of_type[np.sort(kept)] = np.arange(len(kept))
    y_of_event = np.full(len(column), np.nan)
    y_of_event[drawn] = lane_of_type[code]
    n_others = len(types) - len(kept)
    lanes = [str(types[k]) for k in np.sort(kept)] + ([f"{n_others} other types"] if n_others else [])
    return y_of_event, tuple(lanes)


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return up to ``most`` round numbers from ``low`` to ``high``, or ``low`` when there is none."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    for step in (size, 2 * size, 5 * size, 10 * size):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first < most:
            return [k * step for k in range(first, last + 1)] or [low]
    return [low]


def tick_text(tick: float) -> str:
    """Return a round number as the text of a tick."""
    return f"{tick:,.12g}" if 1e-4 <= abs(tick) < 1e9 else f"{tick:.6g}"


# Short texts for the ticks of an axis of large or small numbers: a common offset and a power of ten.

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LARGE, _SMALL = 1e9, 1e-4  # numbers outside get a power of ten


@dataclass(frozen=True)
class Scale:
    """How the ticks of an axis are written: ``(tick - origin) / 10**power``."""

    origin: float = 0.0
    power: int = 0

    def text(self, tick: float) -> str:
        return f"{(tick - self.origin) / 10.0**self.power:,.12g}"

    @property
    def note(self) -> str:
        """What to add to the title of the axis; empty for plain numbers."""
        return (f" − {self.origin:,.0f}" if self.origin else "") + self.power_note

    @property
    def power_note(self) -> str:
        """The part of `note` on the power of ten."""
        return f", in 10{str(self.power).translate(_SUPERSCRIPTS)}" if self.power else ""


def scale_of(low: float, high: float) -> Scale:
    # Large numbers that differ little get an offset. Large and small differences get a power of ten.
    span = (high - low) or abs(high) or 1.0
    origin = 0.0
    if max(abs(low), abs(high)) >= _LARGE and max(abs(low), abs(high)) > 100 * span:
        size = max(1.0, 10.0 ** math.ceil(math.log10(span)))
        origin = math.floor(low / size) * size
    greatest = max(abs(low - origin), abs(high - origin))
    is_plain = _SMALL * 10 <= greatest < _LARGE / 1000 if origin else _SMALL <= greatest < _LARGE
    return Scale(float(origin), 0 if is_plain or not greatest else 3 * math.floor(math.log10(greatest) / 3))


def number_ticks(low: float, high: float, most: int, origin: int = 0) -> tuple[list[tuple[float, str]], str]:
    """Return up to ``most`` ticks with their texts, and what to add to the title of the axis."""
    # All numbers are after ``origin``, which the title then names.
    scale = scale_of(low, high)
    note = f" − {origin + int(scale.origin):,}{scale.power_note}" if origin else scale.note
    return [(tick, scale.text(tick)) for tick in nice_ticks(low, high, most)], note
