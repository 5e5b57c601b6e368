"""The matches of a run as arrays, with their latencies, and the comparison of two sets of matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.shedding.tree.machine import TreeMachine, TreeMatches, join_matches

LATE = 1800.0  # seconds: a match that comes later than this does not count as found


@dataclass(frozen=True, eq=False)
class FoundOnce:
    """The matches of a run in canonical order."""

    block: MatchBlock
    # float64, (n_matches,): seconds from the arrival of the last event of each match until it was found
    latency: np.ndarray


def collect_matches(
    machine: TreeMachine,
    matches: Sequence[TreeMatches],
    found_at: Sequence[np.ndarray],
    end: float,
    arrival_of_event: np.ndarray,
) -> FoundOnce:
    """Return the matches of a machine with their latencies."""
    waiting = machine.finish()
    every = join_matches([*matches, waiting])
    times = np.concatenate([*found_at, np.full(len(waiting), end)])
    order = np.argsort(every.trees, kind="stable")  # blocks are sorted by tree
    block = machine.block(every)
    return FoundOnce(*sort_with(block, times[order] - arrival_of_event[block.last]))


def sort_with(block: MatchBlock, values: np.ndarray) -> tuple[MatchBlock, np.ndarray]:
    """Return a block in canonical order, and the values of its matches in this order."""
    order = block.order()
    return block.take(order), values[order]


def common(one: MatchBlock, other: MatchBlock) -> np.ndarray:
    """Return whether each match of ``one`` is in ``other``, bool, (n_matches,).

    Matches are equal when they have the same events for the same components.

    """
    if not len(one) or not len(other):
        return np.zeros(len(one), bool)
    hashes, known = _hashes(one), _hashes(other)
    order = np.argsort(known, kind="stable")
    ranked = known[order]
    place = np.minimum(np.searchsorted(ranked, hashes), len(ranked) - 1)
    is_there = ranked[place] == hashes
    left, right = one.take(np.flatnonzero(is_there)), other.take(order[place[is_there]])
    is_exact = (ranked[1:] != ranked[:-1]).all() and all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("first_item_of_match", "event_of_item", "component_of_item")
    )
    if is_exact:
        return is_there
    keys = set(_identities(other))  # two different matches have the same hash
    return np.fromiter((key in keys for key in _identities(one)), bool, len(one))


def _hashes(block: MatchBlock) -> np.ndarray:
    """Return a hash of each match, uint64."""
    first = block.first_item_of_match[:-1]
    place = np.arange(len(block.event_of_item)) - np.repeat(first, np.diff(block.first_item_of_match))
    mixed = block.event_of_item.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += block.component_of_item.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed += place.astype(np.uint64) * np.uint64(0x165667B19E3779F9)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.add.reduceat(mixed ^ (mixed >> np.uint64(31)), first)


def _identities(block: MatchBlock) -> list[bytes]:
    """Return a value for each match that equals another one only for the same events and components."""
    both = np.stack([block.event_of_item, block.component_of_item.astype(np.int64)], axis=1)
    bounds = block.first_item_of_match.tolist()
    return [both[start:stop].tobytes() for start, stop in pairwise(bounds)]
