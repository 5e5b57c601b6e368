"""Interactive views of a trace: lengths of queues and buffers, and the work and allocation of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from cepkit.errors import CepError
from cepkit.parallel.model import AgentRates
from cepkit.parallel.plots import (
    BINS,
    BINS_OF_LENGTHS,
    MOST_ACTIONS,
    MOST_SEGMENTS,
    THREAD_WORDS,
    allocation_frame,
    allocation_scene,
    buffer_models,
    lengths_scene,
    marks_of,
    run_end,
    threads_scene,
)
from cepkit.parallel.trace import Trace
from cepkit.plots.scene import LANE, Look, PlotScene, scene_figure
from cepkit.widgets.scene_view import SceneView

if TYPE_CHECKING:
    import plotly.graph_objects as go


class TraceView(SceneView):
    """A view of a trace over time. ``window`` is the visible part of the time, [from, to] in ns."""

    heading: ClassVar[str]  # the title of a view without one of its own

    def __init__(self, trace: Trace, *, rates: Sequence[AgentRates] | None = None, title: str = ""):
        if not isinstance(trace, Trace):
            raise CepError(
                f"{type(self).__name__}: expected a Trace, got {type(trace).__name__}. Give matches.run.trace"
            )
        self._trace, self._rates = trace, rates
        super().__init__(title or self.heading, [0.0, self._end()])

    def _end(self) -> float:
        """Return the end of the time, in ns."""
        return self._trace.makespan

    def _pick_row(self, row: int) -> dict | None:
        return {"agent": self._trace.agents[row]}


class BufferView(TraceView):
    """Lengths of queues and buffers over time, in a panel each, with a line per agent.

    A line shows the mean of each bin. The area around it reaches from the least to the greatest length in the
    bin. Lines differ in colour and dashes. Level lines show the number of items in a window by the cost
    model. Drag over a part of the time to see it in finer bins, and double-click to see the whole run. The
    left and right keys move the time, up and down go from line to line, ``+``, ``-`` and ``0`` zoom, and
    Escape clears the selection.

    ``selected`` is None or a dict with ``length`` (``event_queue``, …), ``agent``, ``start`` and ``end`` of
    the bin (ns), ``mean``, ``least``, ``greatest``, or only ``agent``. For the levels see
    `cepkit.parallel.plots.buffer_models`.
    """

    heading = "Queues and buffers of the agents"

    def __init__(self, trace: Trace, *, rates: Sequence[AgentRates] | None = None, title: str = ""):
        is_trace = isinstance(trace, Trace)
        self.models_frame = buffer_models(trace, rates) if is_trace and rates is not None else None
        super().__init__(trace, rates=rates, title=title)

    def _end(self) -> float:
        return run_end(self._trace)

    def _lit(self, chosen: dict | None) -> str | None:
        return None if chosen is None else chosen["agent"]

    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        return lengths_scene(
            self._trace, window, models=self.models_frame, title=self.title, alone=self._lit(chosen),
            n_bins=BINS_OF_LENGTHS if is_fine else 150,
        )  # fmt: skip

    def _frames(self, chosen: dict) -> list[list]:
        if "start" not in chosen:
            return []
        middle = (chosen["start"] + chosen["end"]) / 2
        panels = enumerate(self._shown.panels)
        return [[p, middle, middle, panel.y.low, panel.y.high, "cursor"] for p, panel in panels]

    def to_frame(self) -> pd.DataFrame:
        """Return a row per agent with its work and its mean and greatest lengths."""
        return self._trace.agents_frame()

    def _summary(self) -> str:
        how = "measured" if self._trace.measured else "simulated"
        return f"{len(self._trace.agents)} agents, {len(self._trace.lengths_read.time)} readings, {how}"


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

    def __init__(self, trace: Trace, *, rates: Sequence[AgentRates] | None = None, title: str = ""):
        self.allocation_frame = allocation_frame(trace, rates) if isinstance(trace, Trace) else None
        super().__init__(trace, rates=rates, title=title)

    def _lit(self, chosen: dict | None) -> str | None:
        return chosen["agent"] if chosen is not None and "thread" not in chosen else None

    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        alone, frame = self._lit(chosen), self.allocation_frame
        names = [name for name in THREAD_WORDS if frame[name].notna().any()]
        most = max(float(frame[names].max().max()) if len(frame) else 0.0, 1e-9)
        marks = marks_of(list(self._trace.agents))
        table = [
            {
                "name": agent if mark == agent else f"{mark} = {agent}", "look": Look(agent, a % 7),
                "kind": "bars", "is_on": agent == alone,
                "cells": [
                    {"text": f"{frame[name].iloc[a]:.3g}", "share": float(frame[name].iloc[a]) / most}
                    for name in names
                ],
            }
            for a, (agent, mark) in enumerate(zip(self._trace.agents, marks, strict=True))
        ]  # fmt: skip
        return threads_scene(
            self._trace, window, title=self.title, alone=alone, most=MOST_ACTIONS,
            n_bins=BINS if is_fine else 120, most_segments=MOST_SEGMENTS if is_fine else 12_000,
            header=["agent", *(f"threads {THREAD_WORDS[name]}" for name in names)], table=table,
        )  # fmt: skip

    def _frames(self, chosen: dict) -> list[list]:
        """Return the corners of a frame around the chosen action, in the lane of its thread."""
        threads = [thread for thread in self._trace.threads()["thread"] if thread >= 0]
        names = self._shown.panels[0].y.names
        if "thread" not in chosen:
            return []
        lane = chosen["thread"] + len(names) - len(threads)  # lanes of no thread come first
        return [[0, chosen["start"], chosen["end"], lane + LANE / 2, lane - LANE / 2, "on"]]

    def figure(self, what: str = "threads") -> go.Figure:
        """Return a plotly figure of the lanes, or for ``"allocation"`` of the threads of each agent."""
        if what == "threads":
            return super().figure()
        if what == "allocation":
            return scene_figure(allocation_scene(self.allocation_frame, title=self.title))
        raise CepError(f"ThreadView: figure {what!r} is not known. There are ['threads', 'allocation']")

    def to_frame(self) -> pd.DataFrame:
        """Return the work of each thread; see `Trace.threads`."""
        return self._trace.threads()

    def _summary(self) -> str:
        how = "measured" if self._trace.measured else "simulated"
        return f"{self._trace.n_threads} threads, {len(self._trace.agents)} agents, {how}"
