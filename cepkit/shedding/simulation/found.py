"""The matches of a run as arrays, with their latencies, and the comparison of two sets of matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock, joined
from cepkit.shedding.tree.machine import TreeMachine

LATE = 1800.0  # seconds: a match that comes later than this does not count as found


@dataclass(frozen=True, eq=False)
class FoundOnce:
    """Matches in the order in which they were found.

    Attributes
    ----------
    matches : list
        As the tree gives them: per variable, the positions of its events.
    found_at : list of float
        When each match was found, in seconds.
    block : MatchBlock
        The matches in canonical order.
    latency : ndarray of float64
        Seconds from the arrival of the last event of each match of ``block`` until it was found.
    """

    matches: list
    found_at: list[float]
    block: MatchBlock
    latency: np.ndarray

    @staticmethod
    def none() -> FoundOnce:
        """Return no matches, in lists to which a run adds."""
        return FoundOnce([], [], EMPTY, np.empty(0))

    @staticmethod
    def of(
        machine: TreeMachine, matches: list, found_at: list[float], end: float, arrival_of_event: np.ndarray
    ) -> FoundOnce:
        """Return matches with their latencies in canonical order.

        Parameters
        ----------
        machine : TreeMachine
            The machine that found them. The matches that still wait for the end of a window are found at the
            time ``end``.
        matches, found_at
            As the attributes.
        arrival_of_event : ndarray of float64, shape (n_events,)
        """
        waiting = machine.block(machine.finish())
        block = joined([block_of(machine.program.program, matches), waiting])
        times = np.concatenate([np.array(found_at, np.float64), np.full(len(waiting), end)])
        return FoundOnce(matches, found_at, *sort_with(block, times - arrival_of_event[block.last]))


def block_of(program: SequenceProgram, matches: Sequence) -> MatchBlock:
    """Return matches of a tree as arrays, in the same order.

    Parameters
    ----------
    program : SequenceProgram
    matches : sequence
        Per match and variable of the query, the positions of its events.
    """
    if not matches:
        return EMPTY
    n_items = np.fromiter((sum(map(len, match)) for match in matches), np.int64, len(matches))
    events = np.fromiter(chain.from_iterable(map(chain.from_iterable, matches)), np.int64, int(n_items.sum()))
    counts = np.fromiter(map(len, chain.from_iterable(matches)), np.int64)
    branches, components = _branches_of(program, matches)
    component = np.repeat(components.ravel(), counts)
    first_item = np.concatenate([[0], np.cumsum(n_items)])
    order = np.lexsort((events, np.repeat(np.arange(len(matches)), n_items)))  # positions rise within a match
    return MatchBlock(events[order], component[order], first_item, branches)


def _branches_of(program: SequenceProgram, matches: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """Return the branch of each match, int16, and the component of each of its variables, int16."""
    place = {name: i for i, name in enumerate(program.query.variables)}
    numbers: dict[tuple[int, ...], int] = {}
    component_of = np.zeros((len(program.branches), len(place)), np.int16)
    for number, bound in enumerate(program.branches):
        own = [place[component.variable] for component in bound.branch.components]
        numbers.setdefault(tuple(own), number)
        component_of[number, own] = np.arange(len(own))
    if len(program.branches) == 1:
        found = np.zeros(len(matches), np.int16)
    else:
        found = np.fromiter((numbers[_order_of(match)] for match in matches), np.int16, len(matches))
    return found, component_of[found]


def _order_of(match: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the variables of a match that have events, in the order of the events."""
    return tuple(sorted((i for i, own in enumerate(match) if own), key=lambda i: match[i][0]))


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
