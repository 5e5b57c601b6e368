"""The matches of a run as arrays, with their latencies, and the comparison of two sets of matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock

LATE = 1800.0  # seconds: a match that comes later than this does not count as found


@dataclass(frozen=True, eq=False)
class FoundOnce:
    """Matches in the order in which they were found.

    Attributes
    ----------
    matches : list
        As the tree gives them: per variable, the positions of its events.
    found_at, arrived : list of float
        When each match was found, and when its last event arrived, in seconds.
    block : MatchBlock
        The matches in canonical order.
    latency : ndarray of float64
        Seconds from the arrival of the last event of each match of ``block`` until it was found.
    """

    matches: list
    found_at: list[float]
    arrived: list[float]
    block: MatchBlock
    latency: np.ndarray

    @staticmethod
    def none() -> FoundOnce:
        """Return no matches, in lists to which a run adds."""
        return FoundOnce([], [], [], EMPTY, np.empty(0))

    @staticmethod
    def of(program: SequenceProgram, matches: list, found_at: list[float], arrived: list[float]) -> FoundOnce:
        """Return matches with their latencies in canonical order."""
        block = block_of(program, matches)
        latency = np.array(found_at, np.float64) - np.array(arrived, np.float64)
        return FoundOnce(matches, found_at, arrived, *sort_with(block, latency))


def block_of(program: SequenceProgram, matches: Sequence) -> MatchBlock:
    """Return matches of a tree as arrays, in the same order."""
    if not matches:
        return EMPTY
    n_items = np.fromiter((sum(map(len, match)) for match in matches), np.int64, len(matches))
    events = np.fromiter(chain.from_iterable(map(chain.from_iterable, matches)), np.int64, int(n_items.sum()))
    counts = np.fromiter(map(len, chain.from_iterable(matches)), np.int64)
    n_variables = len(matches[0])
    component = np.repeat(np.tile(np.arange(n_variables, dtype=np.int16), len(matches)), counts)
    first_item = np.concatenate([[0], np.cumsum(n_items)])
    match = np.repeat(np.arange(len(matches)), n_items)
    order = np.lexsort((events, match))  # positions rise within a match
    return MatchBlock(events[order], component[order], first_item, np.zeros(len(matches), np.int16))


def sort_with(block: MatchBlock, values: np.ndarray) -> tuple[MatchBlock, np.ndarray]:
    """Return a block in canonical order, and the values of its matches in this order."""
    numbered = MatchBlock(
        block.event_of_item, block.component_of_item, block.first_item_of_match, np.arange(len(block))
    ).sorted()
    order = numbered.branch_of_match
    return block.take(order), values[order]


def identities(block: MatchBlock) -> list[bytes]:
    """Return a value for each match that equals another one only for the same events and variables."""
    both = np.stack([block.event_of_item, block.component_of_item.astype(np.int64)], axis=1)
    bounds = block.first_item_of_match.tolist()
    return [both[start:stop].tobytes() for start, stop in zip(bounds, bounds[1:], strict=False)]


def common(one: MatchBlock, other: MatchBlock) -> np.ndarray:
    """Return whether each match of ``one`` is in ``other``, bool, (n_matches,)."""
    known = set(identities(other))
    return np.fromiter((key in known for key in identities(one)), bool, len(one))
