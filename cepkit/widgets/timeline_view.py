"""Events over time, with matches as bands: the view in a browser and its still picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets

from cepkit.plots import drawing, theme
from cepkit.plots.stills.tables import lines_svg
from cepkit.plots.timeline.axes import clock_texts, number_ticks
from cepkit.widgets.base import Floats, Integers, View, browser_half, counted

# The still picture of a timeline, for pages without a kernel: the same marks as in the browser.

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720.0, 240.0, 90.0, 20.0, 12.0, 40.0  # px
_STRIP = 20.0  # height of a row of the strip
_SHORT = 14.0  # a match of fewer pixels gets a flag
_FAILED, _MATCHED = "#d55e00", theme.ACCEPT_GREEN


@dataclass(frozen=True)
class _Axis:
    """The time from the left to the right edge of the plot."""

    low: float
    high: float

    def x(self, times: Any) -> Any:
        """Return times as pixels."""
        return _LEFT + (times - self.low) * (_WIDTH - _LEFT - _RIGHT) / ((self.high - self.low) or 1.0)

    def inside(self, times: Any) -> Any:
        """Return times as pixels of the plot; times outside are at its edges."""
        return np.clip(self.x(times), _LEFT, _WIDTH - _RIGHT)


def draw_timeline(view: Any, label: str) -> str:
    """Return the picture of a `TimelineView` with events as an ``<svg>`` element."""
    x, y = np.frombuffer(view.x), np.frombuffer(view.y)
    n = min(len(x), len(y))
    x, y = x[:n], y[:n]
    low, high = view.window or view.view or (float(x[0]), float(x[-1]))
    axis, shown = _Axis(low, high), (x >= low) & (x <= high)
    parts = [*_matches(view, axis), *_times(view, axis)]
    draw = _lanes if view.form == "lanes" else _line
    parts += [*draw(view, axis.x(x[shown]), y[shown]), *_selected(view, axis), *_partials(view, axis)]
    strip, height = _strip(view)
    note = "; ".join(filter(None, (view.span_note, view.sampled)))
    parts += [*strip, drawing.text(4, height - 6, drawing.fitting(note, _WIDTH - 8))]
    return drawing.document(_WIDTH, height, label, parts)


def _column(left: float, right: float, colour: str) -> str:
    room = {"y": _TOP, "height": _HEIGHT - _TOP - _BOTTOM, "fill": colour}
    return drawing.element("rect", x=left, width=max(1.0, right - left), **room)


def _matches(view: Any, axis: _Axis) -> list[str]:
    """Return the bands of matches; if they are too many, columns that are darker where more of them end."""
    crowd = np.frombuffer(view.crowd)
    if len(crowd):
        edges = axis.x(np.linspace(*view.crowd_view, len(crowd) + 1))
        there = np.flatnonzero((crowd > 0) & (edges[1:] > _LEFT) & (edges[:-1] < _WIDTH - _RIGHT)).tolist()
        most = float(crowd.max(initial=1.0))
        return [
            _column(edges[k], edges[k + 1], theme.band_colour(max(1, round(9 * crowd[k] / most)), 9))
            for k in there
        ]
    spans = np.frombuffer(view.spans)[: len(view.spans) // 16 * 2].reshape(-1, 2)
    spans = spans[(spans[:, 1] >= axis.low) & (spans[:, 0] <= axis.high)]
    colour = theme.band_colour(1, 1) if len(spans) < 50 else theme.edge_colour(len(spans))
    return [_column(*axis.inside(span), colour) for span in spans[: drawing.MOST_COLUMNS]]


def _times(view: Any, axis: _Axis) -> list[str]:
    bottom, title = _HEIGHT - _BOTTOM, view.x_label
    parts = [drawing.path(f"M{_LEFT:g},{bottom:g}H{_WIDTH - _RIGHT:g}", stroke=theme.GRID)]
    if view.time_kind == "datetime":
        words = clock_texts([_local(view, time) for time in (axis.low, axis.high)])
        ticks = list(zip((axis.low, axis.high), words, ("start", "end"), strict=True))
    else:
        numbers, note = number_ticks(axis.low, axis.high, 6, int(view.origin))
        ticks, title = [(at, words, "middle") for at, words in numbers], title + note
    parts += [drawing.text(axis.x(at), bottom + 16, words, anchor=anchor) for at, words, anchor in ticks]
    return [*parts, drawing.text(_WIDTH - _RIGHT, bottom + 32, title, anchor="end")]


def _local(view: Any, time: float) -> float:
    """Return a time as the clocks of its zone show it."""
    offsets = np.frombuffer(view.zone_offsets).reshape(-1, 2)
    place = int(np.searchsorted(offsets[:, 0], time, "right")) - 1
    return time + (float(offsets[max(0, place), 1]) if len(offsets) else 0.0)


def _line(view: Any, px: np.ndarray, y: np.ndarray) -> list[str]:
    finite = y[np.isfinite(y)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    room = _HEIGHT - _TOP - _BOTTOM - 12

    def to_y(value: Any) -> Any:
        return _TOP + 6 + room * (1 - (value - low) / ((high - low) or 1.0))

    path = drawing.line(*drawing.extremes(px, to_y(y)))
    ticks, note = number_ticks(low, high, 4)
    levels = [drawing.text(_LEFT - 8, to_y(tick) + 4, words, anchor="end") for tick, words in ticks]
    title = drawing.text(4, 12, view.y_label + note)
    return [drawing.path(path, fill="none", stroke="currentColor"), *levels, title]


def _lanes(view: Any, px: np.ndarray, y: np.ndarray) -> list[str]:
    height = (_HEIGHT - _TOP - _BOTTOM) / max(len(view.lane_names), 1)
    parts = []
    for lane, name in enumerate(view.lane_names):
        middle = _TOP + (lane + 0.5) * height
        parts.append(drawing.text(_LEFT - 8, middle + 4, name[:12], anchor="end"))
        columns = np.unique(px[y == lane].astype(np.int64)).tolist()
        top, size = drawing.number(middle - height * 0.3), drawing.number(height * 0.6)
        path = "".join(f"M{column},{top}v{size}" for column in columns)
        parts.append(drawing.path(path, stroke=theme.PALETTE[lane % len(theme.PALETTE)], stroke_width=1.5))
    return parts


def _selected(view: Any, axis: _Axis) -> list[str]:
    """Return the selected match: a frame, or a flag if it is short."""
    if view.selected is None:
        return []
    ids = np.frombuffer(view.span_ids)
    places = np.flatnonzero(ids == view.selected)
    if len(places):
        span = np.frombuffer(view.spans)[2 * places[0] : 2 * places[0] + 2].tolist()
    else:
        span = [view.points[0]["x"], view.points[-1]["x"]] if view.points else []
    if not span or span[1] < axis.low or span[0] > axis.high:
        return []
    (left, right), bottom, words = axis.inside(np.array(span)), _HEIGHT - _BOTTOM, f"match {view.selected:,}"
    ink = {"stroke": "currentColor", "stroke_width": 2}
    if right - left >= _SHORT:
        frame = f"M{left:g},{_TOP:g}H{right:g}V{bottom:g}H{left:g}z"
        middle = min(max((left + right) / 2, _LEFT + 40), _WIDTH - _RIGHT - 40)
        return [drawing.path(frame, fill="none", **ink), drawing.text(middle, 14, words, anchor="middle")]
    is_left = left > _WIDTH - _RIGHT - 120
    way, anchor = (-1, "end") if is_left else (1, "start")
    cloth = f"M{left:g},2V{bottom:g}M{left:g},2h{10 * way}l{-4 * way},5l{4 * way},5H{left:g}"
    text = drawing.text(left + 15 * way, 13, words, anchor=anchor)
    return [drawing.path(cloth, fill="currentColor", **ink), text]


def _partials(view: Any, axis: _Axis) -> list[str]:
    """Return partial matches as bars up to the event where they ended, with what failed there."""
    parts, bars = [], [bar for clicked in view.asked for bar in clicked.get("partials", ())]
    for row, bar in enumerate(bars):
        times = [bar["end"], *(event["x"] for event in bar["events"])]
        if bar["end"] < axis.low or min(times) > axis.high:
            continue
        level = _HEIGHT - _BOTTOM - 10 - 16 * row
        colour = {"failed": _FAILED, "matched": _MATCHED}.get(bar["outcome"], theme.INK)
        left, right = axis.inside(np.array([min(times), bar["end"]])).tolist()
        bar_path = f"M{left:g},{level:g}H{max(right, left + 1):g}"
        parts.append(drawing.path(bar_path, stroke=colour, stroke_width=6, stroke_linecap="round"))
        lines: Sequence[str] = bar["text"] if not row else bar["text"][:1]
        is_left = right > (_LEFT + _WIDTH) / 2
        for k, words in enumerate(lines):
            at = left - 10 if is_left else right + 10
            room = at - _LEFT if is_left else _WIDTH - _RIGHT - at
            base = level + 4 - 14 * (len(lines) - 1 - k)
            anchor = "end" if is_left else "start"
            parts.append(drawing.text(at, base, drawing.fitting(words, room), anchor=anchor))
    return parts


def _strip(view: Any) -> tuple[list[str], float]:
    """Return the numbers of all matches over the whole time, and the height of the picture."""
    every, keyed = np.frombuffer(view.strip_all), np.frombuffer(view.strip_key)
    rows = [
        ("all keys" if len(keyed) else "matches", every, theme.INK),
        ("this key", keyed, theme.PALETTE[0]),
    ]
    rows = [row for row in rows if len(row[1])]
    if not rows:
        return [], _HEIGHT + 16
    axis, parts = _Axis(*view.strip_view), []
    for k, (name, counts, colour) in enumerate(rows):
        base = _HEIGHT + (k + 1) * _STRIP
        edges = axis.x(np.linspace(axis.low, axis.high, len(counts) + 1))
        there = np.flatnonzero(counts)
        tall = np.maximum(2.0, (_STRIP - 4) * counts[there] / counts.max(initial=1.0))
        floor = np.full(len(there), base)
        path = drawing.rectangles(edges[there], floor - tall, edges[there + 1], floor)
        parts += [
            drawing.text(_LEFT - 8, base - 4, name, anchor="end"),
            drawing.path(path, fill=colour),
            drawing.path(f"M{_LEFT:g},{base:g}H{_WIDTH - _RIGHT:g}", stroke=theme.GRID),
        ]
    if view.window:
        left, right = axis.inside(np.array(view.window)).tolist()
        frame = {"y": _HEIGHT + 1, "height": len(rows) * _STRIP, "fill": "none", "stroke": "currentColor"}
        parts.append(drawing.element("rect", x=left, width=max(3.0, right - left), **frame))
    return parts, _HEIGHT + len(rows) * _STRIP + 22


# Events over time, with matches as bands. The user zooms and selects matches and events.

_MODULES = ("timeline_axis.js", "timeline_painting.js", "timeline_selected.js", "timeline_strip.js")


class TimelineView(View):
    """Events over time, with the spans of matches.

    Parameters
    ----------
    time_kind : {"number", "datetime"}
        Kind of all times: plain numbers after ``origin``, or milliseconds since 1970 in UTC.
    origin : str
        An integer that all times are after; "0" for a clock that float64 can hold.
    form : {"line", "lanes"}
        Events as a line of values, or as marks in lanes.
    x, y : array_like of float64
        Time of each event, ascending, and its value (NaN breaks the line) or lane (0 is the topmost).
        These and the spans are read back as bytes: ``np.frombuffer(view.x)``.
    ticks : array_like of int64
        The exact time of each event, if float64 cannot hold it: the number itself, or nanoseconds since 1970.
        Otherwise empty.
    lane_names : list of str
        Names of the lanes, from top to bottom.
    x_label, y_label : str
        Titles of the axes, with units.
    spans : array_like of float64
        First and last time of each match, shape (n, 2) or flat.
    span_ids : array_like of float64
        Number of the match of each span.
    points : list of dict
        ``x``, ``y`` and ``label`` of the events of the selected match.
    asked : list of dict
        ``x`` and ``y`` of events whose reasons are shown; ``partials``: list of dict, the bars of partial
        matches. A bar has ``events`` (list of dict with ``x`` and ``label``), ``end`` (time of the event
        where it ended), ``outcome`` (failed, matched, replaced or open) and ``text`` (list of str).
    marks : array_like of float64
        ``x`` and ``y`` of the marked events, shape (n, 2) or flat.
    mark_label : str
        Name of these marks.
    choices : list of str
        Columns that can be drawn. If there are several, the user chooses one in the head.
    value : str
        Written by both sides: the drawn column.
    span_note, sampled : str
        Number of drawn matches, and a note on events that the line leaves out. Empty if nothing is left out.
    zone_offsets : array_like of float64
        For a time zone: times, and the difference of local time from UTC that holds from each of them, in
        milliseconds, shape (n, 2) or flat. Empty for UTC.
    strip_view : list of float
        First and last time of the strip, which has all matches. Empty before the matches are counted.
    strip_all, strip_key : array_like of float64
        Number of matches of all keys, and of the shown key, in equal parts of the strip. ``strip_key`` is
        empty if there is only one key.
    crowd : array_like of float64
        Number of matches of the shown key in equal parts of ``crowd_view``, if they are too many for bands.
        Otherwise empty.
    crowd_view : list of float
        First and last time of ``crowd``.
    view : list of float
        First and last time that can be shown. Empty: the range of ``x``.
    cursor : float or None
        Time of the event that the stepper shows.
    busy : bool
        Whether finer data is being computed; the old drawing stays visible.
    window : list of float
        Written by both sides: first and last time shown; empty shows all. The browser reports it when
        a drag ends, or 100 ms after the last movement.
    selected : int, float or None
        Written by both sides: number of the selected match.
    clicked : float, str or None
        Written by the browser: time of the clicked event, its tick as text if there are ``ticks``.
    """

    _esm, _css = browser_half("timeline_view", *_MODULES)

    # Python -> browser
    time_kind = traitlets.Enum(("number", "datetime"), "number").tag(sync=True)
    form = traitlets.Enum(("line", "lanes"), "line").tag(sync=True)
    x = Floats().tag(sync=True)
    y = Floats().tag(sync=True)
    origin = traitlets.Unicode("0").tag(sync=True)
    ticks = Integers().tag(sync=True)
    lane_names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    x_label = traitlets.Unicode().tag(sync=True)
    y_label = traitlets.Unicode().tag(sync=True)
    spans = Floats().tag(sync=True)
    span_ids = Floats().tag(sync=True)
    points = traitlets.List(traitlets.Dict()).tag(sync=True)
    asked = traitlets.List(traitlets.Dict()).tag(sync=True)
    marks = Floats().tag(sync=True)
    mark_label = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    span_note = traitlets.Unicode().tag(sync=True)
    sampled = traitlets.Unicode().tag(sync=True)
    zone_offsets = Floats().tag(sync=True)
    strip_view = traitlets.List(traitlets.Float()).tag(sync=True)
    strip_all = Floats().tag(sync=True)
    strip_key = Floats().tag(sync=True)
    crowd = Floats().tag(sync=True)
    crowd_view = traitlets.List(traitlets.Float()).tag(sync=True)
    view = traitlets.List(traitlets.Float()).tag(sync=True)
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    value = traitlets.Unicode().tag(sync=True)
    window = traitlets.List(traitlets.Float()).tag(sync=True)
    selected = traitlets.Union([traitlets.Int(), traitlets.Float()], default_value=None, allow_none=True).tag(
        sync=True
    )
    clicked = traitlets.Union(
        [traitlets.Float(), traitlets.Unicode()], default_value=None, allow_none=True
    ).tag(sync=True)

    @traitlets.validate("view", "window", "strip_view", "crowd_view")
    def _check_extent(self, proposal: Any) -> list[float]:
        extent, name = proposal["value"], proposal["trait"].name
        if extent and not (len(extent) == 2 and extent[0] <= extent[1]):
            raise traitlets.TraitError(
                f"TimelineView.{name}: {extent} is not an extent. Give [first, last], or [] for all"
            )
        return extent

    def _summary(self) -> str:
        n_events, n_spans = len(self.x) // 8, len(self.spans) // 16
        return f"{counted(n_events, 'event')}, {counted(n_spans, 'match')}, {self.form!r}"

    def _still(self) -> str:
        if not len(self.x):
            return lines_svg(["No events to draw."])
        return draw_timeline(self, f"timeline: {self._summary()}")
