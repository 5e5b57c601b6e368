"""Matches found by searches: few are kept; many are searched again, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from cepkit.engines.shared.sequence_set import (
    EMPTY,
    KnownMatches,
    MatchBlock,
    SearchRun,
    SequenceSet,
    joined,
)
from cepkit.events import Events

MOST_KNOWN = 1 << 20  # matches of a branch that are kept; when there are more, they are searched again
_MOST_GLANCED = 1 << 14
_CALLS_OF_A_GLANCE = 2


class RangeSearch(Protocol):
    """The search for the matches of one branch; ``tier`` is as in `SearchRun`."""

    tier: str

    def matches(
        self, low: int, high: int, most: int | None = None, most_calls: int | None = None
    ) -> tuple[MatchBlock, bool]:
        """Return matches that end from ``low`` to ``high``, and whether they are all."""

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position."""


def gather_calls(
    found: Iterator[tuple[MatchBlock, bool]], most: int | None, most_calls: int | None
) -> tuple[MatchBlock, bool]:
    """Return the matches that the calls of a search find, and whether they are all.

    ``found`` yields the matches of each call, and whether it was the last. Calls end when there are more than
    ``most`` matches, or after ``most_calls`` calls.
    """
    made, n_made, is_done = [], 0, False
    for block, is_done in islice(found, most_calls):
        made.append(block)
        n_made += len(block)
        if is_done or (most is not None and n_made > most):
            break
    return joined(made), is_done and (most is None or n_made <= most)


class SearchedMatches(SequenceSet):
    """Too many matches to keep: counted by their last event, and searched again when they are read.

    ``found`` are the matches that were found before there were too many.
    """

    def __init__(self, events: Events, searches: Sequence[RangeSearch], found: MatchBlock):
        self.events, self._searches, self._n_found = events, searches, len(found)
        self.run = _run_of(searches)
        self._some = found.take(slice(0, _MOST_GLANCED))

    def at_least(self) -> tuple[int, bool]:
        """Return a number of matches that is quick to find, and whether it is the exact count."""
        return self._n_found, False

    def any(self) -> bool:
        """Return whether there is a match."""
        return self._n_found > 0 or self.count() > 0

    def first(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches, or all when there are no more."""
        high = 1
        while len(block := self.ending(0, high)) < n and high < self.events.n_events:
            high *= 2
        return block.take(slice(0, n))

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches that are quick to find, if possible the first ones."""
        known, whole, part = 0, EMPTY, EMPTY  # all matches that end below ``known``
        high, beyond = 64, None
        while known < self.events.n_events and len(whole) < n and (beyond is None or beyond - known > 1):
            made = [search.matches(0, high, _MOST_GLANCED, _CALLS_OF_A_GLANCE) for search in self._searches]
            if all(is_whole for _, is_whole in made):
                known, whole = high, joined([block for block, _ in made])
            else:
                beyond, part = high, joined([block for block, _ in made])
            high = 2 * high if beyond is None else (known + beyond) // 2
        if len(whole):
            return whole.sorted().take(slice(0, n))
        return (part if len(part) else self._some).take(slice(0, n)).sorted()

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end and how many end at each."""
        count = sum(search.count_by_last() for search in self._searches)
        positions = np.flatnonzero(count)
        return positions, count[positions]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end from ``low`` to ``high``."""
        return joined([search.matches(low, high)[0] for search in self._searches]).sorted()


def known_or_searched(
    events: Events,
    searches: Sequence[RangeSearch],
    most_known: int = MOST_KNOWN,
    most_calls: int | None = None,
) -> SequenceSet:
    """Return the matches of the branches' searches; if there are many, they are searched again when read."""
    made = []
    for search in searches:
        block, is_whole = search.matches(0, events.n_events, most_known, most_calls)
        made.append(block)
        if not is_whole:
            return SearchedMatches(events, searches, joined(made))
    return KnownMatches(events, joined(made).sorted(), _run_of(searches))


def _run_of(searches: Sequence[RangeSearch]) -> SearchRun:
    tiers = dict.fromkeys(search.tier for search in searches)
    return SearchRun(" and ".join(sorted(tiers)))
