"""Events over time, with matches as bands: the view in a browser and its still picture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import traitlets

from cepkit.language.expressions.durations import counted
from cepkit.plots import theme
from cepkit.plots.drawing import lines_svg
from cepkit.plots.scene import Item, Look, PlotAxis, PlotPanel, PlotScene, lanes, look_of, scene_svg
from cepkit.plots.timeline_axes import number_ticks
from cepkit.widgets.scene_view import Floats, Integers, View, browser_half

_HEIGHT, _STRIP = 190, 20  # px
_LOOK_OF_OUTCOME = {"failed": Look(colour=4), "matched": Look(colour=2)}
_BAND, _KEY = Look(colour=5), Look(colour=0)


def timeline_scene(view: TimelineView) -> PlotScene:
    """Return the picture of a `TimelineView` with events."""
    x, y = np.frombuffer(view.x), np.frombuffer(view.y)
    n = min(len(x), len(y))
    x, y = x[:n], y[:n]
    low, high = view.window or view.view or x[[0, -1]].tolist()
    is_shown = (x >= low) & (x <= high)
    x, y = x[is_shown], y[is_shown]
    title = view.y_label or "events"
    if view.form == "lanes":
        rows, places = lanes(view.lane_names), view.lane_colours or range(len(view.lane_names))
        events = [
            Item(kind="points", look=look_of(name, place, symbol="line-ns"), x=_local(view, x[y == lane]),
                 y=y[y == lane])
            for lane, (name, place) in enumerate(zip(view.lane_names, places, strict=True))
        ]  # fmt: skip
    else:
        finite = y[np.isfinite(y)]
        least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        ticks, note = number_ticks(least, most, 4)
        room = 0.06 * ((most - least) or 1.0)
        title += note
        rows = PlotAxis(least - room, most + room, ticks=tuple(ticks))
        events = [Item(kind="line", look=Look(), x=_local(view, x), y=y)]
    marks = [
        *_matches(view, rows), *events, *_selected(view, rows, low, high), *_partials(view, rows, low, high),
    ]  # fmt: skip
    strips, axis = _strips(view), _time_axis(view, low, high)
    if strips and axis.is_time:
        axis = replace(axis, label="")  # the last strip names the clock
    main = PlotPanel(x=axis, y=rows, height=_HEIGHT, items=tuple(marks))
    note = "; ".join(filter(None, (view.span_note, view.sampled)))
    return PlotScene(title=title, note=note, panels=(main, *strips), about=f"timeline: {view._summary()}")


def _local(view: TimelineView, times: Any) -> np.ndarray:
    """Return times as the clocks of their zone show them."""
    times = np.asarray(times, float)
    begins, offsets = np.frombuffer(view.zone_offsets).reshape(-1, 2).T
    if not len(offsets):
        return times
    period = np.searchsorted(begins, times, "right") - 1
    return times + offsets[np.maximum(period, 0)]


def _time_axis(view: TimelineView, low: float, high: float) -> PlotAxis:
    if view.time_kind == "datetime":
        return PlotAxis(*_local(view, [low, high]).tolist(), view.x_label, is_time=True)
    ticks, note = number_ticks(low, high, 6, int(view.origin))
    return PlotAxis(low, high, view.x_label + note, ticks=tuple(ticks))


def _bars(view: TimelineView, look: Look, spans: Any, low: Any, high: Any, opacity: Any) -> Item:
    """Return bars over spans of time, from one level to another."""
    left, right = _local(view, np.reshape(spans, (-1, 2)).T)
    levels = (np.broadcast_to(np.asarray(level, float), left.shape) for level in (low, high))
    return Item(kind="bars", look=look, x=left, x1=right, y=next(levels), y1=next(levels), opacity=opacity)


def _matches(view: TimelineView, rows: PlotAxis) -> list[Item]:
    """Return the bands of matches; if they are too many, bars that are darker where more of them end."""
    crowd = np.frombuffer(view.crowd)
    if len(crowd):
        edges, there = np.linspace(*view.crowd_view, len(crowd) + 1), np.flatnonzero(crowd)
        spans, shade = np.column_stack([edges[there], edges[there + 1]]), crowd[there] / crowd.max()
        return [_bars(view, _BAND, spans, rows.low, rows.high, 0.1 + 0.4 * shade)]
    spans = np.frombuffer(view.spans)[: len(view.spans) // 16 * 2].reshape(-1, 2)
    shade = theme.BAND if len(spans) < 50 else 0.1
    return [_bars(view, _BAND, spans, rows.low, rows.high, shade)] if len(spans) else []


def _level(rows: PlotAxis, share: float) -> float:
    """Return the place of a level of the panel, from 0 at the bottom to 1 at the top."""
    return rows.low + share * (rows.high - rows.low)


def _text(view: TimelineView, low: float, high: float, at: float, level: float, words: str) -> Item:
    """Return a text beside a time, on the side with more room."""
    side = "left" if at > (low + high) / 2 else "right"
    return Item(
        kind="notes", look=Look(), x=_local(view, [at]), y=np.array([level]), texts=[words], side=side
    )


def _selected(view: TimelineView, rows: PlotAxis, low: float, high: float) -> list[Item]:
    """Return the selected match: a darker band with its number."""
    if view.selected is None:
        return []
    places = np.flatnonzero(np.frombuffer(view.span_ids) == view.selected)
    span = [view.points[0]["x"], view.points[-1]["x"]] if view.points else []
    if len(places):
        span = np.frombuffer(view.spans)[2 * places[0] : 2 * places[0] + 2].tolist()
    if not span or span[1] < low or span[0] > high:
        return []
    least = (high - low) / 400  # a match of no length can be seen, too
    band = _bars(view, Look(), [span[0], max(span[1], span[0] + least)], rows.low, rows.high, 0.3)
    return [band, _text(view, low, high, span[1], _level(rows, 0.95), f"match {view.selected:,}")]


def _partials(view: TimelineView, rows: PlotAxis, low: float, high: float) -> list[Item]:
    """Return partial matches as bars up to the event where they ended, with what failed there."""
    items, bars = [], [bar for clicked in view.asked for bar in clicked.get("partials", ())]
    for row, bar in enumerate(bars):
        first = min([bar["end"], *(event["x"] for event in bar["events"])])
        if bar["end"] < low or first > high:
            continue
        bottom, middle, top = (_level(rows, 0.03 + 0.09 * row + more) for more in (0.0, 0.015, 0.03))
        look = _LOOK_OF_OUTCOME.get(bar["outcome"], Look())
        items.append(_bars(view, look, [first, bar["end"]], bottom, top, 1.0))
        texts = bar["text"] if row == 0 else bar["text"][:1]
        items.append(_text(view, low, high, bar["end"], middle, "; ".join(texts)))
    return items


def _strips(view: TimelineView) -> list[PlotPanel]:
    """Return a panel with the numbers of all matches over the whole time, and one with those of the key."""
    every, keyed = np.frombuffer(view.strip_all), np.frombuffer(view.strip_key)
    named = [("all keys" if len(keyed) else "matches", every, Look()), ("this key", keyed, _KEY)]
    panels = []
    for name, counts, look in named:
        if not len(counts):
            continue
        edges, there = np.linspace(*view.strip_view, len(counts) + 1), np.flatnonzero(counts)
        tall = np.maximum(0.1, counts[there] / counts.max(initial=1.0))
        spans = np.column_stack([edges[there], edges[there + 1]])
        items = [_bars(view, look, spans, 0.5, 0.5 - tall, 1.0)]
        if view.window:  # the brush
            items.append(_bars(view, Look(), view.window, 0.5, -0.5, 0.3))
        axis = _time_axis(view, *view.strip_view)
        panels.append(PlotPanel(x=axis, y=lanes([name]), height=_STRIP, items=tuple(items)))
    return panels


# Events over time, with matches as bands. The user zooms and selects matches and events.

_MODULES = ("timeline_axis.js", "timeline_painting.js", "timeline_selected.js", "timeline_strip.js")


class TimelineView(View):
    """Events over time, with the spans of matches."""

    _esm, _css = browser_half("timeline_view", *_MODULES)

    # Python -> browser
    # kind of all times: plain numbers after ``origin``, or milliseconds since 1970 in UTC
    time_kind = traitlets.Enum(("number", "datetime"), "number").tag(sync=True)
    # events as a line of values, or as marks in lanes
    form = traitlets.Enum(("line", "lanes"), "line").tag(sync=True)
    # x, y: time of each event, ascending, and its value (NaN breaks the line) or lane (0 is the topmost).
    # These and the spans are read back as bytes: ``np.frombuffer(view.x)``.
    x = Floats().tag(sync=True)
    y = Floats().tag(sync=True)
    # an integer that all times are after; "0" for a clock that float64 can hold
    origin = traitlets.Unicode("0").tag(sync=True)
    # The exact time of each event, if float64 cannot hold it: the number itself, or nanoseconds since 1970.
    # Otherwise empty.
    ticks = Integers().tag(sync=True)
    lane_names = traitlets.List(traitlets.Unicode()).tag(sync=True)  # names of the lanes, from top to bottom
    # place of each lane's variable in the order of the pattern, which is that of the colours; -1: grey
    lane_colours = traitlets.List(traitlets.Int()).tag(sync=True)
    x_label = traitlets.Unicode().tag(sync=True)  # x_label, y_label: titles of the axes, with units
    y_label = traitlets.Unicode().tag(sync=True)
    spans = Floats().tag(sync=True)  # first and last time of each match, shape (n, 2) or flat
    span_ids = Floats().tag(sync=True)  # number of the match of each span
    # ``x``, ``y`` and ``label`` of the events of the selected match
    points = traitlets.List(traitlets.Dict()).tag(sync=True)
    # ``x`` and ``y`` of events whose reasons are shown; ``partials``: list of dict, the bars of partial
    # matches. A bar has ``events`` (list of dict with ``x`` and ``label``), ``end`` (time of the event where
    # it ended), ``outcome`` (failed, matched, replaced or open) and ``text`` (list of str).
    asked = traitlets.List(traitlets.Dict()).tag(sync=True)
    marks = Floats().tag(sync=True)  # ``x`` and ``y`` of the marked events, shape (n, 2) or flat
    mark_label = traitlets.Unicode().tag(sync=True)  # name of these marks
    # Columns that can be drawn. If there are several, the user chooses one in the head.
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # span_note, sampled: number of drawn matches, and a note on events that the line leaves out. Empty if
    # nothing is left out.
    span_note = traitlets.Unicode().tag(sync=True)
    sampled = traitlets.Unicode().tag(sync=True)
    # For a time zone: times, and the difference of local time from UTC that holds from each of them, in
    # milliseconds, shape (n, 2) or flat. Empty for UTC.
    zone_offsets = Floats().tag(sync=True)
    # First and last time of the strip, which has all matches. Empty before the matches are counted.
    strip_view = traitlets.List(traitlets.Float()).tag(sync=True)
    # strip_all, strip_key: number of matches of all keys, and of the shown key, in equal parts of the strip.
    # ``strip_key`` is empty if there is only one key.
    strip_all = Floats().tag(sync=True)
    strip_key = Floats().tag(sync=True)
    # Number of matches of the shown key in equal parts of ``crowd_view``, if they are too many for bands.
    # Otherwise empty.
    crowd = Floats().tag(sync=True)
    crowd_view = traitlets.List(traitlets.Float()).tag(sync=True)  # first and last time of ``crowd``
    # First and last time that can be shown. Empty: the range of ``x``.
    view = traitlets.List(traitlets.Float()).tag(sync=True)
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True)  # time of the event that the stepper shows
    # whether finer data is being computed; the old drawing stays visible
    busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    value = traitlets.Unicode().tag(sync=True)  # written by both sides: the drawn column
    # Written by both sides: first and last time shown; empty shows all. The browser reports it when a drag
    # ends, or 100 ms after the last movement.
    window = traitlets.List(traitlets.Float()).tag(sync=True)
    # written by both sides: number of the selected match
    selected = traitlets.Union([traitlets.Int(), traitlets.Float()], default_value=None, allow_none=True).tag(
        sync=True
    )
    # written by the browser: time of the clicked event, its tick as text if there are ``ticks``
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
        return scene_svg(timeline_scene(self))
