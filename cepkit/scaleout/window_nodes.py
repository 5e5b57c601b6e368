"""Windows and joins over nodes: each node computes partial results, and the gather merges them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cepkit.progress import run_on_threads
from cepkit.scaleout.plans import ScatterPlan
from cepkit.scaleout.routing import Traffic
from cepkit.windows import aggregating as exact
from cepkit.windows.aggregating import WindowEvaluator, extreme_places
from cepkit.windows.ranges import Emitted, Meeting, Pairs, pairs_of
from cepkit.windows.values import Window

# The aligned gather: each output merges the partial results of all nodes as of the same event.
#
# Source: Suhothayan, 2019, 3.1.1. Differs: there a gather merges the newest partial result of every node,
# whatever event it is for.


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
        numbers = exact.numbers_of(values[share.place], present[share.place], scale)
        digits += exact.partial_sums(numbers, share.start, share.stop)
        if count is not None:
            squares += exact.partial_squares(numbers, share.start, share.stop)
    if count is not None:
        deviation = exact.round_deviations(digits, squares, count, scale)
        return np.where((count > 0) & (infinite == 0), deviation, np.nan)
    with np.errstate(invalid="ignore"):
        return exact.round_sums(digits, scale) + infinite


def _infinities(values: np.ndarray, present: np.ndarray, shares: Sequence[NodeShare]) -> np.ndarray:
    """Return the infinite part of each sum: 0, an infinity, or NaN for both."""
    infinities = np.zeros(len(shares[0].start))
    for sign in (1, -1):
        is_infinite = (present & (values == sign * np.inf)).astype(np.int64)
        if is_infinite.any():
            n = sum(_sum_of_integers(is_infinite[share.place], share) for share in shares)
            with np.errstate(invalid="ignore"):
                infinities = np.where(n > 0, infinities + sign * np.inf, infinities)
    return infinities


# Windows over nodes: each node computes partial aggregates of its own rows, and the gather merges them.


class WindowNodes(WindowEvaluator):
    """Computes what a window emits, each aggregate from the partial aggregates of all nodes."""

    def __init__(
        self, query: Window, source: object, row_of_event: np.ndarray, emitted: Emitted, *, plan: ScatterPlan
    ):
        super().__init__(query, source, row_of_event, emitted)  # type: ignore[arg-type]
        routing = plan.stages[0].feeds[0].routing
        node_of_event = routing.sends(Traffic(len(row_of_event))).node
        node_of_place = node_of_event[emitted.row_of_place]
        self._shares = [
            [
                share_of(node, node_of_place, self.emitted.start[family], self.emitted.stop[family])
                for family in self._families
            ]
            for node in range(routing.n_nodes)
        ]

    def _gathered(self, merge, dtype: type) -> np.ndarray:
        """Return what ``merge`` makes of the nodes' shares, for rows that arrive and for those that leave."""
        out = np.empty(len(self.emitted.start), dtype)
        for k, family in enumerate(self._families):
            if family.stop > family.start:
                out[family] = merge([shares[k] for shares in self._shares], family)
        return out

    def _count(self, present: np.ndarray) -> np.ndarray:
        return self._gathered(lambda shares, family: merge_counts(present, shares), np.int64)

    def _extreme_places(self, ranks: np.ndarray, present: np.ndarray, is_max: bool) -> np.ndarray:
        def merge(shares: list[NodeShare], family: slice) -> np.ndarray:
            best = np.full(family.stop - family.start, -1, np.int64)
            for share in shares:
                mine, is_present = ranks[share.place], present[share.place]
                extremes = extreme_places(mine, is_present, is_max, share.start, share.stop)
                place = np.where(extremes < 0, -1, share.place[extremes] if len(share.place) else -1)
                better = ranks[place] > ranks[best] if is_max else ranks[place] < ranks[best]
                best = np.where((place >= 0) & ((best < 0) | better), place, best)
            return best

        return self._gathered(merge, np.int64) if len(ranks) else np.empty(0, np.int64)

    def _integer_sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        kept = np.where(present, values, 0)
        largest = max(abs(int(kept.max(initial=0))), abs(int(kept.min(initial=0))))
        if largest * len(kept) >= 1 << 63:  # the single node says what is too large
            return super()._integer_sums(values, present, name)
        return self._gathered(lambda shares, family: merge_integers(kept, shares), np.int64)

    def _sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        if values.dtype.kind == "i":
            return self._integer_sums(values, present, name)
        return self._gathered(lambda shares, family: merge_sums(values, present, shares), np.float64)

    def _deviations(self, values: np.ndarray, present: np.ndarray, count: np.ndarray) -> np.ndarray:
        def merge(shares: list[NodeShare], own: slice) -> np.ndarray:
            return merge_sums(values, present, shares, count[own])

        return self._gathered(merge, np.float64)


# Joins over nodes: each node finds the pairs of the rows that it gets, and the gather puts them in order.


def pairs_of_nodes(
    meeting: Meeting,
    keys: tuple[np.ndarray, np.ndarray],
    n_keys: int,
    triggers: tuple[int, ...] = (0, 1),
    *,
    plan: ScatterPlan,
) -> Pairs:
    """Return the pairs of all nodes in the order of a single node."""
    feeds = plan.stages[0].feeds
    sent = [
        feed.routing.sends(Traffic(len(key_codes), np.maximum(key_codes, 0)))
        for feed, key_codes in zip(feeds, keys, strict=True)
    ]

    def find(node: int) -> Pairs:
        visible_codes = []
        for deliveries, codes in zip(sent, keys, strict=True):
            mine = np.full(len(codes), -1, np.int64)  # the node does not have the other rows
            rows = deliveries.to(node)
            mine[rows] = codes[rows]
            visible_codes.append(mine)
        return pairs_of(meeting, (visible_codes[0], visible_codes[1]), n_keys, triggers)

    n_nodes = plan.stages[0].n_nodes
    parts = run_on_threads(find, n_nodes, min(n_nodes, os.cpu_count() or 1))
    event, left, right = (np.concatenate([getattr(part, name) for part in parts]) for name in Pairs._fields)
    partner = np.where(meeting.side[event] == 0, right, left)
    order = np.lexsort([partner, event])
    return Pairs(event[order], left[order], right[order])
