"""Compute the lengths of queues and buffers in a part of a run, in bins of equal length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cepkit.errors import whole_number
from cepkit.parallel.trace.trace import LENGTHS, Trace

BINS = 240


class Occupancy(NamedTuple):
    """Lengths by kind (index into LENGTHS), agent and bin; 0 before an agent's first reading."""

    edges: np.ndarray  # float64, (n_bins + 1,): ns since the start of the run
    mean: np.ndarray  # float64, (4, n_agents, n_bins): mean over the time of the bin
    least: np.ndarray  # int64, (4, n_agents, n_bins): least length during the bin or read in it
    greatest: np.ndarray  # int64, (4, n_agents, n_bins)


def occupancy(trace: Trace, begin: float = 0.0, until: float | None = None, n_bins: int = BINS) -> Occupancy:
    """Return the lengths of all queues and buffers from ``begin`` to ``until``, in bins."""
    whole_number("occupancy: n_bins", n_bins, 1)
    read, n = trace.lengths_read, len(trace.agents)
    until = run_end(trace) if until is None else until
    edges = np.linspace(begin, until, n_bins + 1)
    mean = np.zeros((len(LENGTHS), n, n_bins))
    least, greatest = np.zeros((2, len(LENGTHS), n, n_bins), np.int64)
    for agent in range(n if until > begin else 0):
        own = np.flatnonzero(read.agent == agent)
        own = own[np.argsort(read.time[own], kind="stable")]
        for k, name in enumerate(LENGTHS):
            made = lengths_in_bins(read.time[own], getattr(read, name)[own], edges, at_edges=True)
            mean[k, agent], least[k, agent], greatest[k, agent] = made
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
