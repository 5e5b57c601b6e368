"""Events over time, with matches as bands. The user zooms and selects matches and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from cepkit.plots import drawing, theme
from cepkit.plots.stills.tables import lines_svg
from cepkit.plots.timeline.heights import nice_ticks, tick_text
from cepkit.widgets.base import Floats, View, browser_half, counted

# Pixels of the static picture.
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720.0, 240.0, 90.0, 12.0, 12.0, 40.0


class TimelineView(View):
    """Events over time, with the spans of matches.

    Parameters
    ----------
    time_kind : {"number", "datetime"}
        Kind of all times: plain numbers, or milliseconds since 1970 in UTC.
    form : {"line", "lanes"}
        Events as a line of values, or as marks in lanes.
    x, y : array_like of float64
        Time of each event, ascending, and its value (NaN breaks the line) or lane (0 is the topmost).
        These and the spans are read back as bytes: ``np.frombuffer(view.x)``.
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
        ``x`` and ``y`` of events whose reasons are shown.
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
    view : list of float
        First and last time that can be shown. Empty: the range of ``x``.
    cursor : float or None
        Time of the event that the stepper shows.
    busy : bool
        Whether finer data is being computed; the old drawing stays visible.
    window : list of float
        Written by both sides: first and last time shown; empty shows all. The browser reports it 150 ms
        after the last movement.
    selected : int, float or None
        Written by both sides: number of the selected match.
    clicked : float or None
        Written by the browser: time of the clicked event.
    """

    _esm, _css = browser_half("timeline_view", "timeline_painting.js")

    # Python -> browser
    time_kind = traitlets.Enum(("number", "datetime"), "number").tag(sync=True)
    form = traitlets.Enum(("line", "lanes"), "line").tag(sync=True)
    x = Floats().tag(sync=True)
    y = Floats().tag(sync=True)
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
    view = traitlets.List(traitlets.Float()).tag(sync=True)
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    value = traitlets.Unicode().tag(sync=True)
    window = traitlets.List(traitlets.Float()).tag(sync=True)
    selected = traitlets.Union([traitlets.Int(), traitlets.Float()], allow_none=True).tag(sync=True)
    clicked = traitlets.Float(None, allow_none=True).tag(sync=True)

    def __init__(
        self, *, time_kind: str = "number", form: str = "line", x: Any = b"", y: Any = b"",
        lane_names: Sequence[str] = (), x_label: str = "", y_label: str = "", spans: Any = b"",
        span_ids: Any = b"", points: Sequence[dict] = (), asked: Sequence[dict] = (), marks: Any = b"",
        mark_label: str = "", choices: Sequence[str] = (), value: str = "", span_note: str = "",
        sampled: str = "", view: Sequence[float] = (), cursor: float | None = None, busy: bool = False,
        window: Sequence[float] = (), selected: float | None = None, clicked: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            time_kind=time_kind, form=form, x=x, y=y, lane_names=list(lane_names), x_label=x_label,
            y_label=y_label, spans=spans, span_ids=span_ids, points=list(points), asked=list(asked),
            marks=marks, mark_label=mark_label, choices=list(choices), value=value, span_note=span_note,
            sampled=sampled, view=list(view), cursor=cursor, busy=busy, window=list(window),
            selected=selected, clicked=clicked,
        )  # fmt: skip

    @traitlets.validate("view", "window")
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
        x, y = np.frombuffer(self.x), np.frombuffer(self.y)
        n = min(len(x), len(y))
        x, y = x[:n], y[:n]
        if not n:
            return lines_svg(["No events to draw."])
        low, high = self.view or (float(x[0]), float(x[-1]))
        scale = (_WIDTH - _LEFT - _RIGHT) / ((high - low) or 1.0)
        parts = [*self._bands(low, scale), *self._axis(low, high, scale)]
        px = _LEFT + (x - low) * scale
        parts += self._lanes(px, y) if self.form == "lanes" else self._line(px, y)
        note = "; ".join(filter(None, (self.span_note, self.sampled)))
        parts.append(drawing.text(_LEFT, _HEIGHT - 6, note))
        return drawing.document(_WIDTH, _HEIGHT, f"timeline: {self._summary()}", parts)

    def _bands(self, low: float, scale: float) -> list[str]:
        spans = np.frombuffer(self.spans)[: len(self.spans) // 16 * 2].reshape(-1, 2)
        colour = theme.band_colour(1, 1) if len(spans) < 50 else theme.edge_colour(len(spans))
        room = {"y": _TOP, "height": _HEIGHT - _TOP - _BOTTOM, "fill": colour}
        bands = []
        for first, last in spans[: drawing.MOST_COLUMNS].tolist():
            x, width = _LEFT + (first - low) * scale, max(1.0, (last - first) * scale)
            bands.append(drawing.element("rect", x=x, width=width, **room))
        return bands

    def _axis(self, low: float, high: float, scale: float) -> list[str]:
        bottom = _HEIGHT - _BOTTOM
        ticks = [low, high] if self.time_kind == "datetime" else nice_ticks(low, high, 6)
        parts = [drawing.path(f"M{_LEFT:g},{bottom:g}H{_WIDTH - _RIGHT:g}", stroke=theme.GRID)]
        for k, tick in enumerate(ticks):
            anchor = "middle" if self.time_kind == "number" else ("start", "end")[k]
            x = _LEFT + (tick - low) * scale
            parts.append(drawing.text(x, bottom + 16, self._shown(tick), anchor=anchor))
        parts.append(drawing.text(_WIDTH - _RIGHT, _HEIGHT - 6, self.x_label, anchor="end"))
        return parts

    def _shown(self, time: float) -> str:
        if self.time_kind == "number":
            return tick_text(time)
        return str(np.datetime64(round(time), "ms")).replace("T", " ")

    def _line(self, px: np.ndarray, y: np.ndarray) -> list[str]:
        finite = y[np.isfinite(y)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        room = _HEIGHT - _TOP - _BOTTOM - 12
        py = _TOP + 6 + room * (1 - (y - low) / ((high - low) or 1.0))
        path = drawing.line(*drawing.extremes(px, py))
        parts = [drawing.path(path, fill="none", stroke="currentColor")]
        for tick in nice_ticks(low, high, 4):
            at = _TOP + 6 + room * (1 - (tick - low) / ((high - low) or 1.0))
            parts.append(drawing.text(_LEFT - 8, at + 4, tick_text(tick), anchor="end"))
        return [*parts, drawing.text(4, _TOP + 8, self.y_label)]

    def _lanes(self, px: np.ndarray, y: np.ndarray) -> list[str]:
        n_lanes = max(len(self.lane_names), 1)
        height = (_HEIGHT - _TOP - _BOTTOM) / n_lanes
        parts = []
        for lane, name in enumerate(self.lane_names):
            middle = _TOP + (lane + 0.5) * height
            parts.append(drawing.text(_LEFT - 8, middle + 4, name[:12], anchor="end"))
            columns = np.unique(px[y == lane].astype(np.int64)).tolist()
            top, size = drawing.number(middle - height * 0.3), drawing.number(height * 0.6)
            path = "".join(f"M{column},{top}v{size}" for column in columns)
            colour = theme.PALETTE[lane % len(theme.PALETTE)]
            parts.append(drawing.path(path, stroke=colour, stroke_width=1.5))
        return parts
