"""The aligned gather: each output merges the partial results of all nodes as of the same event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.errors import CepError
from cepkit.scaleout.plan.windows import check_mergeable
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


def sliding_by_length(n: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of the last ``length`` events after each of n events, as starts and stops."""
    stop = np.arange(1, n + 1, dtype=np.int64)
    return np.maximum(stop - length, 0), stop


def sliding_by_time(time: np.ndarray, window: int | float) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows after each event of the events with a time above ``now - window``."""
    time = np.asarray(time)
    return np.searchsorted(time, time - window, "right"), np.arange(1, len(time) + 1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class GroupedWindows:
    """Windows by group: places are events sorted by group, in stream order within each."""

    event_of_place: np.ndarray  # int64, (n,)
    # start, stop: int64, (n,): the range of places of the window after each event, in stream order
    start: np.ndarray
    stop: np.ndarray


def by_group(group: np.ndarray, start: np.ndarray, stop: np.ndarray) -> GroupedWindows:
    """Return windows over all events as windows over the events of each output's own group."""
    group = np.asarray(group, np.int64)
    n = len(group)
    event = np.argsort(group, kind="stable").astype(np.int64)
    rank = group[event] * (n + 1) + event  # rises with the place
    own = group * (n + 1)
    return GroupedWindows(event, np.searchsorted(rank, own + start), np.searchsorted(rank, own + stop))


def aligned_gather(
    function: str,
    values: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    node_of_place: np.ndarray,
    n_nodes: int,
    *,
    present: np.ndarray | None = None,
) -> np.ndarray:
    """Return an aggregate of each window, merged from the partial results of all nodes.

    Sums of floats are exact and rounded once, so they do not depend on the number of nodes. Nodes send the
    digits of exact sums, which add up.

    Source: Suhothayan, 2019, 3.1.1.
    Differs: there a gather merges the newest partial result of every node, whatever event it is for.
    """
    check_mergeable([function])
    values = np.ascontiguousarray(values)
    if values.dtype.kind not in "if":
        raise CepError(f"{function}: values must be integers or floats, not {values.dtype}")
    values = values.astype(np.int64 if values.dtype.kind == "i" else np.float64, copy=False)
    present = np.ones(len(values), bool) if present is None else np.asarray(present, bool)
    if values.dtype.kind == "f":
        present = present & ~np.isnan(values)
    order = np.lexsort([start, stop])  # kernels move over the events once
    start, stop = np.asarray(start, np.int64)[order], np.asarray(stop, np.int64)[order]
    if (np.diff(start) < 0).any():
        raise CepError("aligned_gather: a window is inside another one")
    shares = [share_of(node, node_of_place, start, stop) for node in range(n_nodes)]
    found = _merged(function, values, present, shares)
    result = np.empty_like(found)
    result[order] = found
    return result


def _merged(
    function: str, values: np.ndarray, present: np.ndarray, shares: Sequence[NodeShare]
) -> np.ndarray:
    count = merge_counts(present, shares)
    if function == "count":
        return count
    if function in ("min", "max"):
        return _extremes(function, values, present, shares, count)
    if function in ("std", "var"):
        deviation = merge_sums(values, present, shares, count)
        return deviation if function == "std" else deviation * deviation
    if values.dtype.kind == "i":
        total = merge_integers(np.where(present, values, 0), shares)
    else:
        total = merge_sums(values, present, shares)
    return total if function == "sum" else _divided(total.astype(np.float64), count)


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


def _extremes(
    function: str, values: np.ndarray, present: np.ndarray, shares: Sequence[NodeShare], count: np.ndarray
) -> np.ndarray:
    worst = {"min": np.inf, "max": -np.inf}[function]
    if values.dtype.kind == "i":
        worst = {"min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}[function]
    merge = np.minimum if function == "min" else np.maximum
    found = np.full(len(count), worst, values.dtype)
    for share in shares:
        own = np.where(present[share.place], values[share.place], worst)
        found = merge(found, _range_extremes(merge, own, share, worst))
    return np.where(count > 0, found, np.nan if values.dtype.kind == "f" else 0)


def _range_extremes(merge: np.ufunc, own: np.ndarray, share: NodeShare, worst: float) -> np.ndarray:
    """Return the extreme of each range of a node's events, from a table of ranges of 1, 2, 4, … events."""
    n = share.stop - share.start
    out = np.full(len(n), worst, own.dtype)
    level, table = 0, own
    while len(table):
        rows = np.flatnonzero((n >= 1 << level) & (n < 2 << level))
        out[rows] = merge(table[share.start[rows]], table[share.stop[rows] - (1 << level)])
        half = 1 << level
        table = merge(table[:-half], table[half:]) if len(table) > half else table[:0]
        level += 1
    return out


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


def _divided(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class OpenGather:
    """The aligned gather of open streams: it waits until all nodes have reported an event.

    No timeout and no slack. With events in turn, at most ``n_nodes - 1`` outputs wait for a node in time.
    """

    def __init__(self, n_nodes: int, merge: Callable[[list], Any]):
        self.n_nodes, self.merge = n_nodes, merge
        self.next = 0  # number of the first event without an output
        self.most_waiting = 0
        self._reported: dict[int, dict[int, Any]] = {}

    def push(self, node: int, number: int, partial: Any) -> list[tuple[int, Any]]:
        """Add a node's partial result as of an event; return the outputs that are complete, in order."""
        self._reported.setdefault(number, {})[node] = partial
        self.most_waiting = max(self.most_waiting, len(self._reported))
        made = []
        while len(own := self._reported.get(self.next, {})) == self.n_nodes:
            made.append((self.next, self.merge([own[j] for j in range(self.n_nodes)])))
            del self._reported[self.next]
            self.next += 1
        return made
