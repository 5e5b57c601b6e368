"""Windows over nodes: each node computes partial aggregates of its own rows, and the gather merges them."""

from __future__ import annotations

import numpy as np

from cepkit.scaleout.gather.aligned import NodeShare, merge_counts, merge_integers, merge_sums, share_of
from cepkit.scaleout.plan.plans import ScatterPlan
from cepkit.scaleout.plan.routing import Traffic
from cepkit.windows.aggregating import WindowEvaluator, extreme_places
from cepkit.windows.ranges import Emitted
from cepkit.windows.values import Window


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
                share_of(node, node_of_place, self.emitted.start[own], self.emitted.stop[own])
                for own in self._families
            ]
            for node in range(routing.n_nodes)
        ]

    def _gathered(self, merge, dtype: type) -> np.ndarray:
        """Return what ``merge`` makes of the nodes' shares, for rows that arrive and for those that leave."""
        out = np.empty(len(self.emitted.start), dtype)
        for k, own in enumerate(self._families):
            if own.stop > own.start:
                out[own] = merge([shares[k] for shares in self._shares], own)
        return out

    def _count(self, present: np.ndarray) -> np.ndarray:
        return self._gathered(lambda shares, own: merge_counts(present, shares), np.int64)

    def _extreme_places(self, ranks: np.ndarray, present: np.ndarray, is_max: bool) -> np.ndarray:
        def merge(shares: list[NodeShare], own: slice) -> np.ndarray:
            best = np.full(own.stop - own.start, -1, np.int64)
            for share in shares:
                mine, known = ranks[share.place], present[share.place]
                found = extreme_places(mine, known, is_max, share.start, share.stop)
                place = np.where(found < 0, -1, share.place[found] if len(share.place) else -1)
                better = ranks[place] > ranks[best] if is_max else ranks[place] < ranks[best]
                best = np.where((place >= 0) & ((best < 0) | better), place, best)
            return best

        return self._gathered(merge, np.int64) if len(ranks) else np.empty(0, np.int64)

    def _integer_sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        kept = np.where(present, values, 0)
        largest = max(abs(int(kept.max(initial=0))), abs(int(kept.min(initial=0))))
        if largest * len(kept) >= 1 << 63:  # the single node says what is too large
            return super()._integer_sums(values, present, name)
        return self._gathered(lambda shares, own: merge_integers(kept, shares), np.int64)

    def _sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        if values.dtype.kind == "i":
            return self._integer_sums(values, present, name)
        return self._gathered(lambda shares, own: merge_sums(values, present, shares), np.float64)

    def _deviations(self, values: np.ndarray, present: np.ndarray, count: np.ndarray) -> np.ndarray:
        def merge(shares: list[NodeShare], own: slice) -> np.ndarray:
            return merge_sums(values, present, shares, count[own])

        return self._gathered(merge, np.float64)
