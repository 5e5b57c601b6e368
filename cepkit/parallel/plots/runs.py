"""Plot the trace of a run of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from cepkit.parallel.plots.lengths import length_lines
from cepkit.parallel.plots.threads import action_lanes, busy_bars, state_lanes
from cepkit.parallel.trace import Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_ACTIONS = 3000  # draw more actions in bins
MOST_STATES = 15_000  # most rows of a plot in bins
BINS, FEWEST_BINS = 120, 10


def draw_threads(trace: Trace, *, title: str | None = None) -> go.Figure:
    """Draw the work of each thread over time: single actions, or bins for more than 3,000 actions."""
    settings = {"n_threads": trace.n_threads, "measured": trace.measured, "title": title}
    if len(trace.done.start) <= MOST_ACTIONS:
        done = trace.actions()
        return action_lanes(_without_idle_source(done, done["end"] - done["start"]), **settings)
    n_bins = BINS
    states = trace.states(n_bins)
    while len(states) > MOST_STATES and n_bins > FEWEST_BINS:
        n_bins = max(FEWEST_BINS, min(n_bins - 1, n_bins * MOST_STATES // len(states)))
        states = trace.states(n_bins)
    return state_lanes(states, **settings)


def draw_busy(trace: Trace, *, title: str | None = None) -> go.Figure:
    """Draw the busy share of each thread. See `cepkit.parallel.plots.threads.busy_bars`."""
    threads = trace.threads()
    return busy_bars(_without_idle_source(threads, threads["busy"]), measured=trace.measured, title=title)


def draw_lengths(trace: Trace, *, models: pd.DataFrame | None = None, title: str | None = None) -> go.Figure:
    """Draw the lengths of queues and buffers. See `cepkit.parallel.plots.lengths.length_lines`."""
    return length_lines(
        trace.lengths(), models=models, until=trace.makespan, measured=trace.measured, title=title
    )


def _without_idle_source(rows: pd.DataFrame, time: pd.Series) -> pd.DataFrame:
    """Return the rows without a source that is not a thread and took no time: its lane would be empty."""
    is_source = rows["thread"] < 0
    return rows if time[is_source].any() else rows[~is_source]
