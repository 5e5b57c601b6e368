"""The vertical axis of a timeline: values with lanes for events without one, or lanes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from cepkit.plots.automata.automaton import shown_name
from cepkit.plots.text import cut, escaped
from cepkit.plots.timeline.axes import numbers
from cepkit.plots.timeline.selection import Panel, Selection

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

    def of_marks(self, marks: pd.DataFrame) -> np.ndarray:
        """Return y of the marked rows; NaN where a value is missing."""
        if self.y_of_event is not None:
            return self.y_of_event[marks["row"].to_numpy()]
        return np.array([self.lanes.index(variable) for variable in marks["variable"]], float)

    def of_blank(self, variable: str) -> float:
        """Return y of a variable's events without a value."""
        return self.top_of_blanks - (self.blank_lanes.index(variable) + 0.5) * self.blank_height

    @property
    def _room(self) -> float:
        return (self.high - self.low) or abs(self.high) or 1.0

    def panel_pixels(self, n_panels: int) -> int:
        """Return the height of a panel."""
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
        own = replace(self, low=float(drawn.min()), high=float(drawn.max())) if len(drawn) else self
        bottom, top = own._limits()
        height = (top - bottom) * BLANK_PIXELS / self._value_pixels(n_panels)
        return replace(own, top_of_blanks=bottom, blank_height=height)

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


def heights_of(events: pd.DataFrame, rows: pd.DataFrame, value: str | None, chosen: Selection) -> Heights:
    """Return the heights of a picture's events."""
    if value is None:
        drawn = {variable for panel in chosen.panels for variable in panel.marks["variable"]}
        variables = [variable for variable in dict.fromkeys(rows["variable"]) if variable in drawn]
        return Heights(None, (*variables, "no match"), None)
    y_of_event = numbers(events[value])
    if y_of_event is None:
        return Heights(*_lanes_of_types(events[value], chosen), value)
    is_blank = np.isnan(y_of_event)
    marks = pd.concat([panel.marks for panel in chosen.panels]) if chosen.panels else rows[:0]
    without = set(marks["variable"][is_blank[marks["row"].to_numpy(np.int64)]])
    drawn = chosen.drawn_rows()
    has_line = not len(drawn) or bool(is_blank[drawn].mean() < SPARSE)
    blank_lanes = tuple(variable for variable in dict.fromkeys(rows["variable"]) if variable in without)
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
