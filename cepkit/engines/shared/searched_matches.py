"""Matches found by searches: few are kept; many are searched again, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from cepkit.engines.shared.sequence_set import (
    EMPTY,
    KnownMatches,
    MatchBlock,
    SearchRun,
    SequenceSet,
    bytes_to_collect,
    joined,
)
from cepkit.events import Events
from cepkit.limits import check_memory, fits_memory

MOST_KNOWN = 1 << 20  # matches of a branch that are kept; when there are more, they are searched again
_MOST_GLANCED = 1 << 14
_CALLS_OF_A_GLANCE = 2


@dataclass(frozen=True, slots=True)
class FoundPart:
    """The matches that one call of a search found; ``block(k)`` makes the first k of them.

    ``n_items`` is the number of events of all of them, 0 if it is not known.

    """

    n: int
    block: Callable[[int], MatchBlock]
    n_items: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    block: MatchBlock  # the matches; if they are not all, only some of them
    n: int  # how many were found
    is_whole: bool  # whether these are all


class RangeSearch(Protocol):
    """The search for the matches of one branch; ``tier`` is as in `SearchRun`."""

    tier: str

    def matches(self, low: int, high: int, most: int | None = None, most_calls: int | None = None) -> Found:
        """Return matches that end from ``low`` to ``high``."""

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position."""


def gather_calls(found: Iterator[tuple[FoundPart, bool]], most: int | None, most_calls: int | None) -> Found:
    """Return the matches that the calls of a search find.

    ``found`` yields the matches of each call, and whether it was the last. Calls end when there are more than
    ``most`` matches, or after ``most_calls`` calls. If they are not all, only some are made. Matches beyond
    the memory limit are an error without ``most``, and too many with it.

    """
    parts, n, n_items, is_done = [], 0, 0, False
    for part, is_done in islice(found, most_calls):
        parts.append(part)
        n, n_items = n + part.n, n_items + part.n_items
        needed = 2 * bytes_to_collect(n, n_items)  # they are sorted later, which takes one more copy
        if most is None:
            check_memory(needed, f"the first {n:,} matches", is_held=True)
        if is_done or (most is not None and (n > most or not fits_memory(needed, is_held=True))):
            break
    is_whole = is_done and (most is None or n <= most)
    blocks, missing = [], n if is_whole else _MOST_GLANCED
    for part in parts:
        blocks.append(part.block(min(part.n, missing)))
        missing -= len(blocks[-1])
    return Found(joined(blocks), n, is_whole)


class SearchedMatches(SequenceSet):
    """Too many matches to keep: counted by their last event, and searched again when they are read.

    ``some`` are some of the ``n_found`` matches that were found before there were too many.

    """

    def __init__(self, events: Events, searches: Sequence[RangeSearch], some: MatchBlock, n_found: int):
        self.events, self._searches, self._some, self._n_found = events, searches, some, n_found

    @property
    def run(self) -> SearchRun:
        """How the matches were searched so far."""
        return _run_of(self._searches)

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
        searched_to, whole, part = 0, EMPTY, EMPTY  # all matches that end below ``searched_to``
        high, beyond = 64, None
        while (
            searched_to < self.events.n_events
            and len(whole) < n
            and (beyond is None or beyond - searched_to > 1)
        ):
            results = [
                search.matches(0, high, _MOST_GLANCED, _CALLS_OF_A_GLANCE) for search in self._searches
            ]
            blocks = joined([result.block for result in results])
            if all(result.is_whole for result in results):
                searched_to, whole = high, blocks
            else:
                beyond, part = high, blocks
            high = 2 * high if beyond is None else (searched_to + beyond) // 2
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
        return joined([search.matches(low, high).block for search in self._searches]).sorted()


def known_or_searched(
    events: Events,
    searches: Sequence[RangeSearch],
    most_known: int = MOST_KNOWN,
    most_calls: int | None = None,
) -> SequenceSet:
    """Return the matches of the branches' searches; if there are many, they are searched again when read."""
    results = []
    for search in searches:
        results.append(search.matches(0, events.n_events, most_known, most_calls))
        if not results[-1].is_whole:
            some = joined([result.block for result in results])
            return SearchedMatches(events, searches, some, sum(result.n for result in results))
    return KnownMatches(events, joined([result.block for result in results]).sorted(), _run_of(searches))


def _run_of(searches: Sequence[RangeSearch]) -> SearchRun:
    tiers = dict.fromkeys(search.tier for search in searches)
    return SearchRun(" and ".join(sorted(tiers)))
