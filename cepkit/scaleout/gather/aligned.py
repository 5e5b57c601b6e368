"""The aligned gather: each output merges the partial results of all nodes as of the same event.

Source: Suhothayan, 2019, 3.1.1.
Differs: there a gather merges the newest partial result of every node, whatever event it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cepkit.windows import exact


@dataclass(frozen=True, slots=True)
class NodeShare:
    """The events of one node, and the range of them that belongs to each output."""

    place: np.ndarray  # int64, (n_own,): places of its events in the whole stream, rising
    # start, stop: int64, (n_outputs,): the range of its own events that are in the window of each output
    start: np.ndarray
    stop: np.ndarray


def share_of(node: int, node_of_place: np.ndarray, start: np.ndarray, stop: np.ndarray) -> NodeShare:
    """Return the share of a node of the windows ``start`` to ``stop``, from the heartbeats that it gets."""
    place = np.flatnonzero(node_of_place == node)
    return NodeShare(place, np.searchsorted(place, start), np.searchsorted(place, stop))


def merge_counts(present: np.ndarray, shares: Sequence[NodeShare]) -> np.ndarray:
    """Return the number of present values in each window, int64, (n_outputs,)."""
    return merge_integers(present.astype(np.int64), shares)


def merge_integers(values: np.ndarray, shares: Sequence[NodeShare]) -> np.ndarray:
    """Return the sums of integers in each window, int64, (n_outputs,)."""
    total = np.zeros(len(shares[0].start), np.int64)
    for share in shares:
        total += _sum_of_integers(values[share.place], share)
    return total


def _sum_of_integers(values: np.ndarray, share: NodeShare) -> np.ndarray:
    """Return the sums of a node's events in each window, from its prefix sums."""
    before = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=before[1:])
    return before[share.stop] - before[share.start]


def merge_sums(
    values: np.ndarray, present: np.ndarray, shares: Sequence[NodeShare], count: np.ndarray | None = None
) -> np.ndarray:
    """Return the exact sums of numbers in each window, rounded once, float64, (n_outputs,).

    With ``count``, the number of present values in each window, return the standard deviations.
    Nodes send the digits of their sums, and the gather adds up the digits.

    """
    infinite = np.zeros(len(shares[0].start))
    if values.dtype.kind == "f":
        infinite = _infinities(values, present, shares)
    scale = exact.common_scale(*(exact.scale_of(values[s.place], present[s.place]) for s in shares))
    digits = np.zeros((len(infinite), scale.n_digits), np.int64)
    squares = np.zeros((len(infinite), 2 * scale.n_digits), np.int64)
    for share in shares:
        own = exact.numbers_of(values[share.place], present[share.place], scale)
        digits += exact.partial_sums(own, share.start, share.stop)
        if count is not None:
            squares += exact.partial_squares(own, share.start, share.stop)
    if count is not None:
        deviation = exact.round_deviations(digits, squares, count, scale)
        return np.where((count > 0) & (infinite == 0), deviation, np.nan)
    with np.errstate(invalid="ignore"):
        return exact.round_sums(digits, scale) + infinite


def _infinities(values: np.ndarray, present: np.ndarray, shares: Sequence[NodeShare]) -> np.ndarray:
    """Return the infinite part of each sum: 0, an infinity, or NaN for both."""
    found = np.zeros(len(shares[0].start))
    for sign in (1, -1):
        is_infinite = (present & (values == sign * np.inf)).astype(np.int64)
        if is_infinite.any():
            n = sum(_sum_of_integers(is_infinite[share.place], share) for share in shares)
            with np.errstate(invalid="ignore"):
                found = np.where(n > 0, found + sign * np.inf, found)
    return found
