"""The Python half of the buffer view: lengths of queues and buffers, and the levels of the cost model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import traitlets

from cepkit.parallel.plots.allocation import buffer_models
from cepkit.parallel.plots.occupancy import BINS, occupancy, run_end
from cepkit.parallel.plots.runs import draw_lengths
from cepkit.parallel.trace.trace import LENGTHS
from cepkit.parallel.views.trace_view import TraceView
from cepkit.plots import drawing, theme
from cepkit.widgets.base import Floats, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
WIDTH, PANEL, GAP, LEFT = 900, 150, 46, 58  # pixels of the static drawing


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
        made = occupancy(self._trace, low, high)
        columns = {name: getattr(made, name) for name in ("mean", "least", "greatest")}
        return {**columns, "shown": [low, high], "n_bins": made.mean.shape[-1]}

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
    made = occupancy(view._trace, n_bins=120)
    end = view.extent[1] or 1.0
    top, width = 34, (WIDTH - 2 * LEFT - 40) / 2
    parts = [drawing.text(0, 18, view.title, size=15)]
    middle = (made.edges[:-1] + made.edges[1:]) / 2
    for p, panel in enumerate(view.panels):
        x = LEFT + (p % 2) * (width + LEFT + 30)
        y = top + 18 + (p // 2) * (PANEL + GAP + 14)
        bottom = y + PANEL
        levels = [of for of in view.models if of["length"] == panel["length"]]
        most = max([1.0, *panel["most"]])
        fitting = [of for of in levels if of["value"] <= 4 * most]
        scale = PANEL / (1.06 * max([most, *(of["value"] for of in fitting)]))
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
            d = drawing.line(x + middle / end * width, bottom - made.mean[p, a] * scale)
            own = drawing.path(d, fill="none", stroke=colour, stroke_width=1.6, stroke_dasharray=dash or None)
            parts.append(drawing.titled(own, f"agent {agent['name']}"))
        for of in fitting:
            a = [agent["name"] for agent in view.agents].index(of["agent"])
            y_of = bottom - of["value"] * scale
            colour = theme.PALETTE[a % len(theme.PALETTE)]
            parts.append(
                drawing.path(f"M{x:.1f},{y_of:.1f}h{width:.1f}", stroke=colour, stroke_dasharray="1 3")
            )
            words = view.agents[a]["mark"]
            parts.append(drawing.text(x + 8 + 18 * a, y_of - 3, words, size=10))
        if levels:
            words = f"{levels[0]['model']}: {', '.join(_level(of, of in fitting) for of in levels)}"
            words = drawing.fitting(words, width - 7 * len(panel["label"]), 10)
            parts.append(drawing.text(x + width, y - 6, words, anchor="end", size=10))
    y = top + 2 * (PANEL + GAP + 14) + 6
    parts.append(drawing.text(WIDTH / 2, y, view.x_label, anchor="middle"))
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
        parts.append(drawing.text(WIDTH / 2, top + PANEL, "no readings", anchor="middle"))
    return drawing.document(WIDTH, y + 34, view.title, parts)


def _level(of: dict, fits: bool) -> str:
    return f"{of['agent']} {of['value']:.4g}{'' if fits else ' (above)'}"
