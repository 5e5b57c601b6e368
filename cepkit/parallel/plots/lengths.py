"""Compute and draw the lengths of the agents' queues and buffers over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import whole_number
from cepkit.parallel.plots.threads import clock_title
from cepkit.parallel.trace import LENGTHS, Trace, clock_unit
from cepkit.plots.scene import DASHES, Item, PlotAxis, PlotPanel, PlotScene, lines, look_of, span

# Compute the lengths of queues and buffers in a part of a run, in bins of equal length.

BINS_OF_LENGTHS = 240


class Occupancy(NamedTuple):
    """Lengths by kind (index into LENGTHS), agent and bin; 0 before an agent's first reading."""

    edges: np.ndarray  # float64, (n_bins + 1,): ns since the start of the run
    mean: np.ndarray  # float64, (4, n_agents, n_bins): mean over the time of the bin
    least: np.ndarray  # int64, (4, n_agents, n_bins): least length during the bin or read in it
    greatest: np.ndarray  # int64, (4, n_agents, n_bins)


def occupancy(
    trace: Trace, begin: float = 0.0, until: float | None = None, n_bins: int = BINS_OF_LENGTHS
) -> Occupancy:
    """Return the lengths of all queues and buffers from ``begin`` to ``until``, in bins."""
    whole_number("occupancy: n_bins", n_bins, 1)
    read, n = trace.lengths_read, len(trace.agents)
    until = run_end(trace) if until is None else until
    edges = np.linspace(begin, until, n_bins + 1)
    mean = np.zeros((len(LENGTHS), n, n_bins))
    least, greatest = np.zeros((2, len(LENGTHS), n, n_bins), np.int64)
    for agent in range(n if until > begin else 0):
        rows = np.flatnonzero(read.agent == agent)
        rows = rows[np.argsort(read.time[rows], kind="stable")]
        for k, name in enumerate(LENGTHS):
            statistics = lengths_in_bins(read.time[rows], getattr(read, name)[rows], edges, at_edges=True)
            mean[k, agent], least[k, agent], greatest[k, agent] = statistics
    return Occupancy(edges, mean, least, greatest)


def lengths_in_bins(
    time: np.ndarray, values: np.ndarray, edges: np.ndarray, *, at_edges: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, least and greatest length in bins of equal width, from readings in order of time.

    ``at_edges``: whether all readings at the start of a bin count for it; else only the last of them.

    """
    time, values = np.append(0.0, time), np.append(0, values)
    last = np.searchsorted(time, edges, side="right") - 1
    held = np.append(0.0, np.cumsum(values[:-1] * np.diff(time)))  # the integral up to each reading
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    mean = np.diff(held[last] + values[last] * (edges - time[last])) / width
    least, greatest = values[last[:-1]], values[last[:-1]]
    number = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, len(edges) - 2)
    inside = (time > (edges[0] if at_edges else edges[number])) & (time <= edges[-1])
    np.minimum.at(least, number[inside], values[inside])
    np.maximum.at(greatest, number[inside], values[inside])
    return mean, least, greatest


def run_end(trace: Trace) -> float:
    """Return the end of a run or its last reading, whichever is later, in ns."""
    return max(trace.makespan, float(trace.lengths_read.time.max(initial=0.0)))


# Draw the lengths of the agents' queues and buffers over time.

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
NOTHING = "All queues and buffers were empty."
STATISTICS = ("mean", "least", "greatest")
_PANEL, _DIM = 104, 0.3


def lengths_scene(
    trace: Trace, part: Sequence[float] = (), *, models: pd.DataFrame | None = None, title: str = "",
    alone: str | None = None, n_bins: int = 150,
) -> PlotScene:  # fmt: skip
    """Return a panel per queue and buffer, with a line per agent and a level per model."""
    begin, until = part or (0.0, run_end(trace))
    unit, size = clock_unit(run_end(trace))
    occupied = occupancy(trace, begin, until, n_bins)
    edges, of_agents = occupied.edges, trace.agents_frame()
    middle = (edges[:-1] + edges[1:]) / 2
    axis = lines(clock_title("time since the start of the run", unit, trace.measured), (begin, until), size)
    looks = [look_of(name, a, dash=DASHES[a % len(DASHES)]) for a, name in enumerate(trace.agents)]
    panels = []
    for p, name in enumerate(LENGTHS):
        levels = [] if models is None else models[models["length"] == name].to_dict("records")
        most = max(1.0, float(occupied.greatest[p].max(initial=0)))
        low, high = span([most, *(level["value"] for level in levels if level["value"] <= 4 * most)])
        items = []
        for a, agent in enumerate(trace.agents):
            mean, least, greatest = (np.asarray(values[p, a], float) for values in occupied[1:])
            items.append(
                Item(
                    kind="line", look=looks[a], x=middle, y=mean, least=least, greatest=greatest,
                    opacity=1.0 if alone in (None, agent) else _DIM,
                    words="agent {agent}, {what}: {mean} on average, {least} to {greatest}, at {time} {unit}",
                    fields={
                        "agent": agent, "what": WORDS[name], "mean": mean, "least": least,
                        "greatest": greatest, "time": middle / size, "unit": unit,
                    },
                    pick=lambda b, name=name, agent=agent, values=(mean, least, greatest): {
                        "length": name, "agent": agent, "start": float(edges[b]), "end": float(edges[b + 1]),
                        **dict(zip(STATISTICS, (float(value[b]) for value in values), strict=True)),
                    },
                )
            )  # fmt: skip
        for level in levels:
            look = looks[trace.agents.index(level["agent"])]
            items.append(
                Item(
                    kind="line", look=look_of(level["agent"], trace.agents.index(level["agent"]), dash="dot"),
                    x=np.array([axis.low, axis.high]), y=np.full(2, level["value"]), width=1.2,
                    opacity=1.0 if alone in (None, look.name) else _DIM,
                )
            )  # fmt: skip
        notes = [
            f"{level['agent']} {level['value']:.4g}{'' if level['value'] <= high else ' (above)'}"
            for level in levels
        ]
        panels.append(
            PlotPanel(
                x=axis, y=PlotAxis(low, high), height=_PANEL, items=tuple(items), label=WORDS[name],
                notes=(f"{levels[0]['model']}:", *notes[:6]) if levels else (),
            )
        )  # fmt: skip
    return PlotScene(
        title=title, note="measured" if trace.measured else "simulated", panels=tuple(panels),
        hint="Drag to look closer, double-click to see all. Point at a line or press arrow keys to read it. "
        "Areas reach from least to greatest.",
        about="lengths of queues and buffers",
        empty="" if any(read.max(initial=0) for read in trace.lengths_read[2:]) else NOTHING,
        legend=tuple(("line", look) for look in looks),
        header=("agent", *(f"{words}: mean, most" for words in WORDS.values())),
        table=tuple(_row(a, look, of_agents, models, look.name == alone) for a, look in enumerate(looks)),
        below="" if models is None or models.empty else MODEL_NOTE,
    )  # fmt: skip


def _row(a: int, look, of_agents: pd.DataFrame, models: pd.DataFrame | None, is_on: bool) -> dict:
    cells = []
    for name in LENGTHS:
        levels = (
            []
            if models is None
            else models[(models["length"] == name) & (models["agent"] == look.name)].to_dict("records")
        )
        modelled = "".join(f" ({level['model']} {level['value']:.4g})" for level in levels)
        mean, most = of_agents[f"mean_{name}"].iloc[a], of_agents[f"most_{name}"].iloc[a]
        cells.append({"text": f"{mean:,.4g}, {most:,}{modelled}"})
    return {"name": look.name, "look": look, "kind": "line", "is_on": is_on, "cells": cells}
