"""Joins over nodes: each node finds the pairs of the rows that it gets, and the gather puts them in order."""

from __future__ import annotations

import os

import numpy as np

from cepkit.progress import run_on_threads
from cepkit.scaleout.plan.plans import ScatterPlan
from cepkit.scaleout.plan.routing import Traffic
from cepkit.windows.pairs import Meeting, Pairs, pairs_of


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
        feed.routing.sends(Traffic(len(own), np.maximum(own, 0)))
        for feed, own in zip(feeds, keys, strict=True)
    ]

    def find(node: int) -> Pairs:
        own = []
        for deliveries, codes in zip(sent, keys, strict=True):
            mine = np.full(len(codes), -1, np.int64)  # the node does not have the other rows
            rows = deliveries.to(node)
            mine[rows] = codes[rows]
            own.append(mine)
        return pairs_of(meeting, (own[0], own[1]), n_keys, triggers)

    n_nodes = plan.stages[0].n_nodes
    found = run_on_threads(find, n_nodes, min(n_nodes, os.cpu_count() or 1))
    event, left, right = (np.concatenate([getattr(part, name) for part in found]) for name in Pairs._fields)
    partner = np.where(meeting.side[event] == 0, right, left)
    order = np.lexsort([partner, event])
    return Pairs(event[order], left[order], right[order])
