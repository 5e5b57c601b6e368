"""Compare the threads that worked for each agent with the allocation of the cost model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cepkit.errors import CepError, require_columns
from cepkit.parallel.allocation import thread_shares
from cepkit.parallel.model import AgentRates, agent_loads, event_buffer_sizes, match_buffer_sizes
from cepkit.parallel.trace import Trace
from cepkit.plots.scene import LANE, Item, Look, PlotAxis, PlotPanel, PlotScene, lanes, span

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
    """Return the lengths of buffers that the models expect, for `lengths_scene`.

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


def allocation_scene(allocation: pd.DataFrame, *, title: str = "") -> PlotScene:
    """Return bars for the threads of each agent: by the model, busy on average, and working mostly for it."""
    require_columns("allocation_scene", COLUMNS, allocation.columns)
    names = [name for name in COLUMNS[1:] if allocation[name].notna().any()]
    height = LANE / max(len(names), 1)
    items = []
    for a, agent in enumerate(allocation["agent"]):
        for k, name in enumerate(names):
            value, top = float(allocation[name].iloc[a]), a - LANE / 2 + k * height
            items.append(
                Item(
                    kind="bars", look=Look(str(agent), a % 7, pattern=_PATTERNS[name]), x=np.zeros(1),
                    x1=np.array([value]), y=np.array([top + 0.94 * height]), y1=np.array([top]),
                    words="{agent}: {n} threads {how}",
                    fields={"agent": str(agent), "n": np.array([value]), "how": THREAD_WORDS[name]},
                )
            )  # fmt: skip
    low, high = span(allocation[names].to_numpy(float).ravel())
    panel = PlotPanel(
        x=PlotAxis(low, high, "threads"), y=lanes(list(map(str, allocation["agent"]))), items=tuple(items),
        height=max(100, _PIXELS * len(allocation)),
    )  # fmt: skip
    return PlotScene(
        title=title, panels=(panel,), empty="no agents" if allocation.empty else "",
        legend=tuple(("bars", Look(THREAD_WORDS[name], pattern=_PATTERNS[name])) for name in names),
    )  # fmt: skip
