"""The Python half of the thread view: the work of threads over time, and the allocation of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError
from cepkit.parallel.plots.allocation import THREAD_WORDS, allocation_bars, allocation_frame
from cepkit.parallel.plots.runs import draw_threads
from cepkit.parallel.plots.segments import MOST_ACTIONS, Segments, agent_marks, thread_segments
from cepkit.parallel.plots.threads import ACTION_WORDS, SOURCE_LABEL
from cepkit.parallel.trace.trace import ACTIONS
from cepkit.parallel.views.trace_view import TraceView
from cepkit.plots import drawing, theme
from cepkit.widgets.base import Floats, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go

LABELS, WIDTH, AXIS = 132, 900, 34  # pixels


class ThreadView(TraceView):
    """The work of each thread over time, in the colours of the agents, and the number of threads per agent.

    Drag over a part of the time to zoom in, and double-click to see the whole run. A part with more than
    3,000 actions is drawn in bins. Colours and the marks in the lanes stand for agents. Patterns stand for
    kinds of work. The arrow keys move between segments, ``+`` and ``-`` zoom, ``0`` shows the whole run, and
    Escape clears the selection.

    ``selected`` is None or a dict with ``thread, agent, action, start, end`` (ns) of a segment, or only
    ``agent``. ``window`` is the visible part of the time, [from, to] in ns. The amount of data in the
    browser does not grow with the trace.
    """

    heading = "Work of the threads"
    _esm, _css = browser_half("thread_view", "time_window.js")
    # Python -> browser
    lanes = traitlets.List(traitlets.Dict()).tag(sync=True)  # label, note
    actions = traitlets.List(traitlets.Unicode()).tag(sync=True)  # words for ACTIONS
    n_bins = traitlets.Int(0).tag(sync=True)  # 0: each segment is one action
    lane = Floats().tag(sync=True)
    agent = Floats().tag(sync=True)
    action = Floats().tag(sync=True)
    start = Floats().tag(sync=True)
    end = Floats().tag(sync=True)
    low = Floats().tag(sync=True)
    high = Floats().tag(sync=True)
    items = Floats().tag(sync=True)
    marks = traitlets.List(traitlets.Dict()).tag(sync=True)  # texts in the lanes: lane, time, agent
    allocation = traitlets.List(traitlets.Dict()).tag(sync=True)  # agent, modelled, busy, home

    def _fixed_traits(self) -> dict[str, Any]:
        trace = self._trace
        self.allocation_frame = allocation_frame(trace, self._rates)
        allocation = self.allocation_frame.astype(object).where(self.allocation_frame.notna(), None)
        return {
            "lanes": [_lane(row) for row in trace.threads().itertuples()],
            "actions": [ACTION_WORDS[action] for action in ACTIONS],
            "allocation": allocation.to_dict("records"),
        }

    def _columns(self, low: float, high: float) -> dict[str, Any]:
        whole = len(self._trace.done.start) <= MOST_ACTIONS
        segments = thread_segments(self._trace, *(self.extent or [0.0, None] if whole else (low, high)))
        names = ("lane", "agent", "action", "start", "end", "low", "high", "items")
        made = {name: getattr(segments, name) for name in names}
        marks = [
            {"lane": lane, "time": time, "agent": agent}
            for lane, time, agent in agent_marks(segments, low, high)
        ]
        return {**made, "marks": marks, "n_bins": segments.n_bins, "shown": [low, high]}

    def figure(self, what: str = "threads") -> go.Figure:
        """Return a plotly figure of the lanes, or for ``"allocation"`` of the threads of each agent."""
        settings = {"title": self.title}
        if what == "threads":
            return draw_threads(self._trace, **settings)
        if what == "allocation":
            return allocation_bars(self.allocation_frame, measured=self._trace.measured, **settings)
        raise CepError(f"ThreadView: figure {what!r} is not known. There are ['threads', 'allocation']")

    def to_frame(self) -> pd.DataFrame:
        """Return the work of each thread; see `Trace.threads`."""
        return self._trace.threads()

    def svg(self) -> str:
        """Return the lanes of the whole run as SVG text, with at most a few thousand rectangles."""
        return _threads_svg(self, thread_segments(self._trace, most=1500, n_bins=100))

    def _summary(self) -> str:
        how = "measured" if self._trace.measured else "simulated"
        return f"{self._trace.n_threads} threads, {len(self.agents)} agents, {how}"


def _lane(row) -> dict:
    name = SOURCE_LABEL if row.thread < 0 else str(row.thread)
    mostly = "" if pd.isna(row.agent) else f" · {row.agent}"
    note = f"thread {name}: busy {100 * row.share:.0f} %"
    note += f", mostly agent {row.agent}, {ACTION_WORDS[row.role]}" if mostly else ""
    return {"label": name + mostly, "note": note, "share": float(row.share), "thread": int(row.thread)}


def _threads_svg(view: ThreadView, segments: Segments) -> str:
    n, trace = len(segments.threads), view._trace
    height_of_lane = max(9, min(20, 420 // max(1, n)))
    top = 30
    bottom = top + n * height_of_lane
    right = WIDTH - 12
    scale = (right - LABELS) / (trace.makespan or 1.0)
    parts = [drawing.text(0, 18, view.title, size=15)]
    body, legend, x = [], [], LABELS
    kinds = [k for k in range(len(ACTIONS)) if (segments.action == k).any()]
    for a in range(-1, len(view.agents)):
        colour = theme.INK if a < 0 else theme.PALETTE[a % len(theme.PALETTE)]
        name = SOURCE_LABEL if a < 0 else view.agents[a]["name"]
        for k, action in enumerate(ACTIONS):
            own = np.flatnonzero((segments.agent == a) & (segments.action == k))
            if not len(own):
                continue
            # Ids are global in a page with several drawings, so equal ids must mean equal patterns.
            fill, pattern = colour, drawing.work_pattern(f"cepkit-{action}-{colour[1:]}", action, colour)
            if pattern:
                parts.append(pattern)
                fill = f"url(#cepkit-{action}-{colour[1:]})"
            y = top + (segments.lane[own] + 1.0) * height_of_lane - 1
            rows = drawing.rectangles(
                LABELS + segments.start[own] * scale,
                y - segments.high[own] * (height_of_lane - 2),
                LABELS + segments.end[own] * scale,
                y - segments.low[own] * (height_of_lane - 2),
            )
            body.append(drawing.titled(drawing.path(rows, fill=fill), f"{name}, {ACTION_WORDS[action]}"))
        if a >= 0:
            legend.append(drawing.element("rect", x=x, y=bottom + AXIS + 6, width=12, height=12, fill=colour))
            legend.append(drawing.text(x + 17, bottom + AXIS + 16, drawing.fitting(name, 110)))
            x += 30 + min(len(name), 16) * 8
    for lane, time, a in agent_marks(segments, 0.0, trace.makespan, 24):
        y = top + (lane + 0.5) * height_of_lane + 4
        mark = drawing.text(LABELS + time * scale, y, view.agents[a]["mark"], anchor="middle", size=10)
        body.append(f'<g stroke="#fff" stroke-width="2.4" paint-order="stroke" fill="#222">{mark}</g>')
    for lane, of in enumerate(view.lanes):
        y = top + (lane + 0.5) * height_of_lane + 4
        words = drawing.fitting(of["label"], LABELS - 12, 11)
        parts.append(drawing.text(LABELS - 8, y, words, anchor="end", size=min(11, height_of_lane)))
    for value in drawing.ticks(0.0, trace.makespan / view.unit_ns):
        x_of_tick = LABELS + value * view.unit_ns * scale
        parts.append(drawing.path(f"M{x_of_tick:.1f},{top}V{bottom + 4}", stroke=theme.GRID))
        parts.append(drawing.text(x_of_tick, bottom + 16, drawing.tick_text(value), anchor="middle", size=11))
    parts.append(drawing.text((LABELS + right) / 2, bottom + 32, view.x_label, anchor="middle"))
    for k in kinds:
        action, name = ACTIONS[k], f"cepkit-{ACTIONS[k]}-{theme.INK[1:]}"
        pattern = drawing.work_pattern(name, action, theme.INK)
        fill = f"url(#{name})" if pattern else theme.INK
        swatch = drawing.element("rect", x=x, y=bottom + AXIS + 6, width=12, height=12, fill=fill)
        legend.append(pattern + swatch)
        legend.append(drawing.text(x + 17, bottom + AXIS + 16, ACTION_WORDS[action]))
        x += 34 + len(ACTION_WORDS[action]) * 7
    if not len(segments.lane):
        parts.append(drawing.text((LABELS + right) / 2, (top + bottom) / 2, "no thread did anything"))
    y = bottom + AXIS + 42
    for row in view.allocation:
        words = [f"{row[name]:.3g} {said}" for name, said in THREAD_WORDS.items() if row[name] is not None]
        parts.append(drawing.text(0, y, f"threads of agent {row['agent']}: {', '.join(words)}"))
        y += 18
    label = view.title
    return drawing.document(WIDTH, y, label, [*parts, *body, *legend])
