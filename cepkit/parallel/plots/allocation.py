"""Compare the threads that worked for each agent with the allocation of the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import CepError, require_columns
from cepkit.parallel.allocation import thread_shares
from cepkit.parallel.model import AgentRates, agent_loads, event_buffer_sizes, match_buffer_sizes
from cepkit.parallel.plots.threads import run_title
from cepkit.parallel.trace import Trace
from cepkit.plots import theme
from cepkit.plots.theme import cut, escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLUMNS = ("agent", "modelled", "busy", "home")
THREAD_WORDS = {
    "modelled": "by the cost model",
    "busy": "busy, on average",
    "home": "mostly for it",
}
_PATTERNS = {"modelled": "/", "busy": "", "home": "."}
_PIXELS = 62


def allocation_frame(trace: Trace, rates: Sequence[AgentRates] | None = None) -> pd.DataFrame:
    """Return how many threads worked for each agent, and the allocation of the cost model.

    Source: HYPERSONIC, section IV: T_i = T load_i / sum_j load_j.
    """
    agents = trace.agents_frame()
    threads = trace.threads()
    agent_of_thread = threads.loc[threads["thread"] >= 0, "agent"].astype(object)
    modelled = np.full(len(agents), np.nan)
    if rates is not None:
        check_rates(trace, rates)
        half = trace.n_threads / max(1, len(agents)) / 2
        loads = [
            load
            for branch in rates
            if branch.agents
            for load in agent_loads(branch, [half] * len(branch.agents), [half] * len(branch.agents))
        ]
        modelled = np.array(thread_shares(loads, trace.n_threads), np.float64)
    return pd.DataFrame(
        {
            "agent": list(trace.agents),
            "modelled": modelled,
            "busy": agents["busy"].to_numpy() / trace.makespan if trace.makespan else 0.0,
            "home": [int((agent_of_thread == agent).sum()) for agent in trace.agents],
        }
    )


def buffer_models(trace: Trace, rates: Sequence[AgentRates]) -> pd.DataFrame:
    """Return the lengths of buffers that the models expect, for `length_lines`.

    The models assume that events stay for a window. Removal by watermarks keeps fewer items. A source that
    is faster than the agents fills queues and buffers with more.

    Source: HYPERSONIC, section IV-A; partial matches by the simplex model.
    """
    check_rates(trace, rates)
    sizes = {
        ("e·W", "event_buffer"): [n for branch in rates for n in event_buffer_sizes(branch)],
        ("m·W/(i−1)", "partial_buffer"): [n for branch in rates for n in match_buffer_sizes(branch)],
    }
    rows = [
        (model, length, agent, float(value))
        for (model, length), values in sizes.items()
        for agent, value in zip(trace.agents, values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["model", "length", "agent", "value"])
    return frame[np.isfinite(frame["value"])].reset_index(drop=True)


def check_rates(trace: Trace, rates: Sequence[AgentRates]) -> None:
    """Raise CepError unless every agent of a trace has rates."""
    n = sum(len(branch.agents) for branch in rates)
    if n != len(trace.agents):
        raise CepError(f"rates of {n} agents. The run has {len(trace.agents)}: {list(trace.agents)}")


def allocation_bars(
    allocation: pd.DataFrame, *, measured: bool | None = None, title: str | None = None
) -> go.Figure:
    """Draw bars for the threads of each agent: by the model, busy on average, and working mostly for it."""
    from cepkit.plots.lean import LeanFigure

    require_columns("allocation_bars", COLUMNS, allocation.columns)
    figure = LeanFigure()
    labels = [escaped(cut(str(agent))) for agent in allocation["agent"]]
    colours = [theme.PALETTE[a % len(theme.PALETTE)] for a in range(len(allocation))]
    for name in [column for column in COLUMNS[1:] if allocation[column].notna().any()]:
        values = allocation[name].astype(float)
        ground = [colour + theme.TINT_ALPHA for colour in colours]
        figure.add_bar(
            orientation="h", x=values, y=labels, name=THREAD_WORDS[name],
            marker={
                "color": colours, "line": {"color": colours, "width": 1},
                "pattern": {"shape": _PATTERNS[name], "fgcolor": colours, "bgcolor": ground, "size": 5},
            },
            text=[f"{value:.3g}" for value in values], textposition="outside", cliponaxis=False,
            hovertemplate=f"<b>%{{y}}</b>: %{{x:.3~g}} threads {THREAD_WORDS[name]}<extra></extra>",
        )  # fmt: skip
    lines = run_title(title, measured)
    top = 30 + 18 * len(lines)
    figure.update_layout(
        title=theme.title_at_left(lines or [""]),
        barmode="group",
        margin={"l": 60, "r": 30, "t": top, "b": 50},
        **theme.layout(top + 50 + max(100, _PIXELS * len(labels))),
    )
    figure.update_xaxes(title={"text": "threads"}, rangemode="tozero", gridcolor=theme.GRID, zeroline=False)
    figure.update_yaxes(title={"text": "agent"}, autorange="reversed", automargin=True, showgrid=False)
    if allocation.empty:
        figure.add_annotation(text="no agents", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    return figure
