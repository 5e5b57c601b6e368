"""The gather of the thesis, for comparison: it merges the newest partial result of every node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cepkit.errors import CepError


@dataclass(frozen=True, slots=True)
class GatherError:
    """How far outputs are from those of a single node."""

    relative: float  # mean of the relative differences
    share: float  # share of the outputs with a wrong value


def gather_error(found: np.ndarray, right: np.ndarray, least: float = 1e-12) -> GatherError:
    """Return the error of outputs."""
    found, right = np.asarray(found, np.float64), np.asarray(right, np.float64)
    if not len(right):
        return GatherError(0.0, 0.0)
    difference = np.abs(found - right)
    relative = difference / np.maximum(np.abs(right), least)
    return GatherError(float(relative.mean()), float((difference > 0).mean()))


def naive_sums(
    values: np.ndarray,
    n_nodes: int,
    *,
    length: int | None = None,
    window: int | float | None = None,
    time: np.ndarray | None = None,
    order: np.ndarray | None = None,
) -> np.ndarray:
    """Return the running sums of the thesis' gather.

    A node expires events only when its own next event comes. Its length rule is the printed one: it keeps
    events while ``latest - oldest < length``, with the number of its own latest event.
    """
    if (length is None) == (window is None):
        raise CepError("naive_sums: give either length or window")
    values = np.asarray(values)
    n = len(values)
    number = np.arange(n, dtype=np.int64)
    order = number if order is None else np.asarray(order, np.int64)
    arrived = np.empty(n, np.int64)
    arrived[order] = number
    total = np.zeros(n, values.dtype)  # by arrival
    for node in range(n_nodes):
        own = number[node::n_nodes]
        if length is not None:
            start = np.searchsorted(own, own - length, "right")
        else:
            its = np.asarray(time)[own]
            start = np.searchsorted(its, its - window, "right")
        before = np.concatenate([np.zeros(1, values.dtype), np.cumsum(values[own])])
        partial = before[np.arange(1, len(own) + 1)] - before[start]
        # Place of the node's newest partial result at each arrival; -1 before the first one.
        newest = np.full(n, -1, np.int64)
        newest[arrived[own]] = np.arange(len(own))
        by_arrival = arrived[own]
        last_arrival = np.maximum.accumulate(np.where(newest >= 0, number, -1))
        known = last_arrival >= 0
        at = np.where(known, newest[last_arrival], 0)
        if len(by_arrival):
            total += np.where(known, partial[at], 0).astype(values.dtype)
    return total[arrived]
