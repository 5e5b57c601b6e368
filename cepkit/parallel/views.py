"""Interactive views of a trace: lengths of queues and buffers, and the work and allocation of threads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError
from cepkit.parallel.model import AgentRates
from cepkit.parallel.plots.allocation import THREAD_WORDS, allocation_bars, allocation_frame, buffer_models
from cepkit.parallel.plots.lengths import BINS_OF_LENGTHS as BINS
from cepkit.parallel.plots.lengths import occupancy, run_end
from cepkit.parallel.plots.runs import draw_lengths, draw_threads
from cepkit.parallel.plots.threads import (
    ACTION_WORDS,
    MOST_ACTIONS,
    SOURCE_LABEL,
    Segments,
    agent_marks,
    clock_title,
    thread_segments,
)
from cepkit.parallel.trace import ACTIONS, LENGTHS, Trace, clock_unit
from cepkit.plots import drawing, theme
from cepkit.widgets.base import Floats, View, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go


# The common half of the views of a trace: a range of time, which the browser may ask for more closely.


class TraceView(View):
    """A view of a trace over time. ``window`` is the visible part of the time, [from, to] in ns."""

    heading: ClassVar[str]  # the title of a view without one of its own
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    agents = traitlets.List(traitlets.Dict()).tag(sync=True)  # name, mark
    x_label = traitlets.Unicode("").tag(sync=True)
    unit = traitlets.Unicode("ns").tag(sync=True)
    unit_ns = traitlets.Float(1.0).tag(sync=True)  # ns in one unit; times below are in ns
    extent = traitlets.List(traitlets.Float()).tag(sync=True)  # start and end of the run
    shown = traitlets.List(traitlets.Float()).tag(sync=True)  # the part of the time in the columns
    version = traitlets.Int(0).tag(sync=True)  # counts changes of the columns
    # browser -> Python
    window = traitlets.List(traitlets.Float()).tag(sync=True)
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, trace: Trace, *, rates: Sequence[AgentRates] | None = None, title: str = ""):
        if not isinstance(trace, Trace):
            raise CepError(
                f"{type(self).__name__}: expected a Trace, got {type(trace).__name__}. Give matches.run.trace"
            )
        self._trace, self._rates = trace, rates
        extent = [0.0, self._end()]
        unit, size = clock_unit(extent[1])
        marks = zip(trace.agents, marks_of(list(trace.agents)), strict=True)
        super().__init__(
            title=title or self.heading,
            agents=[{"name": name, "mark": mark} for name, mark in marks],
            x_label=clock_title("time since the start of the run", unit, trace.measured),
            unit=unit,
            unit_ns=size,
            extent=extent,
            window=extent,
            **self._fixed_traits(),
            **self._columns(*extent),
        )
        self.observe(self._look_closer, "window")

    @abstractmethod
    def svg(self) -> str:
        """Return the view as SVG text."""

    def _still(self) -> str:
        return self.svg()

    def _end(self) -> float:
        """Return the end of the time, in ns."""
        return self._trace.makespan

    @abstractmethod
    def _fixed_traits(self) -> dict[str, Any]:
        """Return the traits that do not depend on the visible part of the time."""

    @abstractmethod
    def _columns(self, low: float, high: float) -> dict[str, Any]:
        """Return the traits of a part of the time."""

    def _look_closer(self, change) -> None:
        low, high = change["new"] if len(change["new"]) == 2 else self.extent
        low, high = max(low, self.extent[0]), min(high, self.extent[1])
        if not high > low:
            return
        with self.hold_sync():
            for name, value in self._columns(low, high).items():
                setattr(self, name, value)
            self.version += 1


def marks_of(names: list[str]) -> list[str]:
    """Return a short, unique mark for each name, for places without room for names."""
    short = [name[:2] for name in names]
    return short if len(set(short)) == len(short) else [str(n) for n in range(1, len(names) + 1)]


# The Python half of the buffer view: lengths of queues and buffers, and the levels of the cost model.

WORDS = {
    "event_queue": "events in queues",
    "partial_queue": "partial matches in queues",
    "event_buffer": "events in buffers",
    "partial_buffer": "partial matches in buffers",
}
MODEL_NOTE = (
    "Dotted lines: how many items the cost model expects in a window W. e·W: events arrive at rate e. "
    "m·W/(i−1): partial matches with i−1 events arrive at rate m."
)
WIDTH_OF_BUFFERS, PANEL, GAP, LEFT = 900, 150, 46, 58  # pixels of the static drawing


class BufferView(TraceView):
    """Lengths of queues and buffers over time, in a panel each, with a line per agent.

    A line shows the mean of each bin. The area around it reaches from the least to the greatest length in the
    bin. Lines differ in colour and dashes, and have the agent's mark at their ends. Level lines show the
    number of items in a window by the cost model. Drag over a part of the time to see it in finer bins, and
    double-click to see the whole run. The left and right keys move the time, up and down change the agent,
    ``p`` changes the panel, ``+``, ``-`` and ``0`` zoom, and Escape clears the selection.

    ``selected`` is None or a dict with ``length`` (``event_queue``, …), ``agent``, ``start`` and ``end`` of
    the bin (ns), ``mean``, ``least``, ``greatest``. For the levels see
    `cepkit.parallel.plots.allocation.buffer_models`.
    """

    heading = "Queues and buffers of the agents"
    _esm, _css = browser_half("buffer_view", "time_window.js")
    # Python -> browser
    panels = traitlets.List(traitlets.Dict()).tag(sync=True)  # length, label, most and mean by agent
    models = traitlets.List(traitlets.Dict()).tag(sync=True)  # model, length, agent, value
    note = traitlets.Unicode("").tag(sync=True)  # about the lines of models
    n_bins = traitlets.Int(BINS).tag(sync=True)
    mean = Floats().tag(sync=True)  # (panels, agents, n_bins), like the next two
    least = Floats().tag(sync=True)
    greatest = Floats().tag(sync=True)

    def _end(self) -> float:
        return run_end(self._trace)

    def _fixed_traits(self) -> dict[str, Any]:
        trace, rates, of_agents = self._trace, self._rates, self._trace.agents_frame()
        self.models_frame = None if rates is None else buffer_models(trace, rates)
        panels = [
            {
                "length": name,
                "label": WORDS[name],
                "most": of_agents[f"most_{name}"].tolist(),
                "mean": of_agents[f"mean_{name}"].tolist(),
            }
            for name in LENGTHS
        ]
        models = [] if self.models_frame is None else self.models_frame.to_dict("records")
        return {"panels": panels, "models": models, "note": MODEL_NOTE if models else ""}

    def _columns(self, low: float, high: float) -> dict[str, Any]:
        occupied = occupancy(self._trace, low, high)
        columns = {name: getattr(occupied, name) for name in ("mean", "least", "greatest")}
        return {**columns, "shown": [low, high], "n_bins": occupied.mean.shape[-1]}

    def figure(self) -> go.Figure:
        """Return the lengths and models as a plotly figure."""
        return draw_lengths(self._trace, models=self.models_frame, title=self.title)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per agent with its work and its mean and greatest lengths."""
        return self._trace.agents_frame()

    def svg(self) -> str:
        """Return the lengths of the whole run as SVG text."""
        return _buffers_svg(self)

    def _summary(self) -> str:
        how = "measured" if self._trace.measured else "simulated"
        return f"{len(self.agents)} agents, {len(self._trace.lengths_read.time)} readings, {how}"


def _buffers_svg(view: BufferView) -> str:
    occupied = occupancy(view._trace, n_bins=120)
    end = view.extent[1] or 1.0
    top, width = 34, (WIDTH_OF_BUFFERS - 2 * LEFT - 40) / 2
    parts = [drawing.text(0, 18, view.title, size=15)]
    middle = (occupied.edges[:-1] + occupied.edges[1:]) / 2
    for p, panel in enumerate(view.panels):
        x = LEFT + (p % 2) * (width + LEFT + 30)
        y = top + 18 + (p // 2) * (PANEL + GAP + 14)
        bottom = y + PANEL
        levels = [level for level in view.models if level["length"] == panel["length"]]
        most = max([1.0, *panel["most"]])
        fitting = [level for level in levels if level["value"] <= 4 * most]
        scale = PANEL / (1.06 * max([most, *(level["value"] for level in fitting)]))
        parts.append(drawing.text(x, y - 6, panel["label"]))
        for value in drawing.ticks(0.0, PANEL / scale, 4):
            parts.append(
                drawing.path(f"M{x:.1f},{bottom - value * scale:.1f}H{x + width:.1f}", stroke=theme.GRID)
            )
            words = drawing.tick_text(value)
            parts.append(drawing.text(x - 6, bottom - value * scale + 4, words, anchor="end", size=11))
        for value in drawing.ticks(0.0, end / view.unit_ns, 4):
            at = x + value * view.unit_ns / end * width
            parts.append(drawing.text(at, bottom + 15, drawing.tick_text(value), anchor="middle", size=11))
        for a, agent in enumerate(view.agents):
            colour, dash = theme.PALETTE[a % len(theme.PALETTE)], drawing.DASHES[a % len(drawing.DASHES)]
            d = drawing.line(x + middle / end * width, bottom - occupied.mean[p, a] * scale)
            curve = drawing.path(
                d, fill="none", stroke=colour, stroke_width=1.6, stroke_dasharray=dash or None
            )
            parts.append(drawing.titled(curve, f"agent {agent['name']}"))
        for level in fitting:
            a = [agent["name"] for agent in view.agents].index(level["agent"])
            y_of = bottom - level["value"] * scale
            colour = theme.PALETTE[a % len(theme.PALETTE)]
            parts.append(
                drawing.path(f"M{x:.1f},{y_of:.1f}h{width:.1f}", stroke=colour, stroke_dasharray="1 3")
            )
            words = view.agents[a]["mark"]
            parts.append(drawing.text(x + 8 + 18 * a, y_of - 3, words, size=10))
        if levels:
            words = f"{levels[0]['model']}: {', '.join(_level(level, level in fitting) for level in levels)}"
            words = drawing.fitting(words, width - 7 * len(panel["label"]), 10)
            parts.append(drawing.text(x + width, y - 6, words, anchor="end", size=10))
    y = top + 2 * (PANEL + GAP + 14) + 6
    parts.append(drawing.text(WIDTH_OF_BUFFERS / 2, y, view.x_label, anchor="middle"))
    x = LEFT
    for a, agent in enumerate(view.agents):
        colour, dash = theme.PALETTE[a % len(theme.PALETTE)], drawing.DASHES[a % len(drawing.DASHES)]
        d = f"M{x},{y + 18}h26"
        parts.append(drawing.path(d, stroke=colour, stroke_width=2, stroke_dasharray=dash or None))
        parts.append(drawing.text(x + 31, y + 22, drawing.fitting(agent["name"], 110)))
        x += 50 + min(len(agent["name"]), 16) * 8
    if view.note:
        y += 22
        parts.append(drawing.text(0, y + 22, view.note, size=10))
    if not len(view._trace.lengths_read.time):
        parts.append(drawing.text(WIDTH_OF_BUFFERS / 2, top + PANEL, "no readings", anchor="middle"))
    return drawing.document(WIDTH_OF_BUFFERS, y + 34, view.title, parts)


def _level(level: dict, fits: bool) -> str:
    return f"{level['agent']} {level['value']:.4g}{'' if fits else ' (above)'}"


# The Python half of the thread view: the work of threads over time, and the allocation of threads.

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
        columns = {name: getattr(segments, name) for name in names}
        marks = [
            {"lane": lane, "time": time, "agent": agent}
            for lane, time, agent in agent_marks(segments, low, high)
        ]
        return {**columns, "marks": marks, "n_bins": segments.n_bins, "shown": [low, high]}

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
            members = np.flatnonzero((segments.agent == a) & (segments.action == k))
            if not len(members):
                continue
            # Ids are global in a page with several drawings, so equal ids must mean equal patterns.
            fill, pattern = colour, drawing.work_pattern(f"cepkit-{action}-{colour[1:]}", action, colour)
            if pattern:
                parts.append(pattern)
                fill = f"url(#cepkit-{action}-{colour[1:]})"
            y = top + (segments.lane[members] + 1.0) * height_of_lane - 1
            rows = drawing.rectangles(
                LABELS + segments.start[members] * scale,
                y - segments.high[members] * (height_of_lane - 2),
                LABELS + segments.end[members] * scale,
                y - segments.low[members] * (height_of_lane - 2),
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
    for lane, lane_trait in enumerate(view.lanes):
        y = top + (lane + 0.5) * height_of_lane + 4
        words = drawing.fitting(lane_trait["label"], LABELS - 12, 11)
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
        words = [f"{row[name]:.3g} {text}" for name, text in THREAD_WORDS.items() if row[name] is not None]
        parts.append(drawing.text(0, y, f"threads of agent {row['agent']}: {', '.join(words)}"))
        y += 18
    label = view.title
    return drawing.document(WIDTH, y, label, [*parts, *body, *legend])
