"""Events over time, with matches as bands. The user zooms and selects matches and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from cepkit.plots.stills.tables import lines_svg
from cepkit.widgets.base import Floats, Integers, View, browser_half, counted
from cepkit.widgets.timeline_still import draw_timeline

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
    selected = traitlets.Union([traitlets.Int(), traitlets.Float()], allow_none=True).tag(sync=True)
    clicked = traitlets.Union(
        [traitlets.Float(), traitlets.Unicode()], default_value=None, allow_none=True
    ).tag(sync=True)

    def __init__(
        self, *, time_kind: str = "number", form: str = "line", x: Any = b"", y: Any = b"",
        origin: str = "0", ticks: Any = b"", lane_names: Sequence[str] = (), x_label: str = "",
        y_label: str = "", spans: Any = b"", span_ids: Any = b"", points: Sequence[dict] = (),
        asked: Sequence[dict] = (), marks: Any = b"", mark_label: str = "", choices: Sequence[str] = (),
        value: str = "", span_note: str = "", sampled: str = "", zone_offsets: Any = b"",
        strip_view: Sequence[float] = (), strip_all: Any = b"", strip_key: Any = b"", crowd: Any = b"",
        crowd_view: Sequence[float] = (), view: Sequence[float] = (), cursor: float | None = None,
        busy: bool = False, window: Sequence[float] = (), selected: float | None = None,
        clicked: float | str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            time_kind=time_kind, form=form, x=x, y=y, origin=origin, ticks=ticks,
            lane_names=list(lane_names), x_label=x_label, y_label=y_label, spans=spans,
            span_ids=span_ids, points=list(points), asked=list(asked), marks=marks,
            mark_label=mark_label, choices=list(choices), value=value, span_note=span_note,
            sampled=sampled, zone_offsets=zone_offsets, strip_view=list(strip_view), strip_all=strip_all,
            strip_key=strip_key, crowd=crowd, crowd_view=list(crowd_view), view=list(view), cursor=cursor,
            busy=busy, window=list(window), selected=selected, clicked=clicked,
        )  # fmt: skip

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
