"""The matches of a regex query as arrays. Their rows are found when they are first needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.events import Events
from cepkit.values import dataclass

MATCHES = "cepkit.kernels.matches"
_MANY = 1 << 15  # events; fewer take no time
_FEW = 4  # partitions with a quarter of the events are worth to be taken out


Spans = tuple[np.ndarray, np.ndarray]  # the first and the last row of each match, int64


def joined_spans(parts: Sequence[Spans]) -> Spans:
    """Return the matches of several parts, one part after the other."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([first for first, _ in parts]), np.concatenate([last for _, last in parts])


class WholePart(ABC):
    """All matches of a query as arrays. It answers what a `SequenceSet` answers."""

    last: np.ndarray

    def __len__(self) -> int:
        return len(self.last)

    @abstractmethod
    def take(self, matches: Any) -> Self:
        """Return some of the matches."""

    def count(self) -> int:
        return len(self)

    at_most = count

    def any(self) -> bool:
        return len(self) > 0

    def at_least(self) -> tuple[int, bool]:
        """Return the count, and that it is exact."""
        return len(self), True

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end, and how many end at each."""
        return np.unique(self.last, return_counts=True)

    def glance(self, n: int) -> Self:
        return self.take(slice(0, n))

    def sample(self, n: int, seed: int) -> Self:
        """Return ``n`` matches drawn uniformly, in their order."""
        numbers = np.random.default_rng(seed).choice(len(self), size=min(n, len(self)), replace=False)
        return self.take(np.sort(numbers))

    def blocks(self, size: int) -> Iterator[Self]:
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


@dataclass(frozen=True)
class MatchSet(WholePart):
    """Matches of contiguous rows of a partition, in the order of their last event, then of their first."""

    events: Events  # in stream order
    # first, last: int64, (n_matches,): positions of the first and last event
    first: np.ndarray
    last: np.ndarray
    may_overlap: bool = False  # if not, no event belongs to two matches

    @cached_property
    def partition(self) -> np.ndarray:
        """Partition code of each match, int32, (n_matches,)."""
        return self.events.partition_of_event[self.last]

    def take(self, matches: np.ndarray | slice | list[int]) -> MatchSet:
        # Kernels take contiguous arrays, and a slice with a step is not contiguous.
        first, last = (np.ascontiguousarray(ends[matches]) for ends in (self.first, self.last))
        return MatchSet(self.events, first, last, self.may_overlap)

    @cached_property
    def lineage(self) -> Lineage:
        """The rows of every match: 4 or 8 bytes per row, filled in one pass over the events."""
        first_item = self.first_item_of_match
        if not len(self):  # do not load numba for this
            return Lineage(np.empty(0, np.int64), first_item)
        few_matches, rows = self.in_few_partitions  # the same matches among fewer events, if that pays
        if rows is not None:
            dtype = np.int32 if self.events.n_events < 2**31 else np.int64
            few = few_matches.lineage
            return Lineage(rows[few.event_of_item].astype(dtype), few.first_item_of_match)
        if self.may_overlap:
            begin = self.events.rank_by_partition[self.first]  # the rows of a match are neighbours from here
            place = np.repeat(begin - first_item[:-1], np.diff(first_item)) + np.arange(first_item[-1])
            return Lineage(self.events.by_partition[place], first_item)
        kernels = load_kernels(MATCHES)
        dtype = np.int32 if self.events.n_events < 2**31 else np.int64
        event_of_item = np.empty(first_item[-1], dtype)
        fill_rows = kernels.fill_short_rows if dtype is np.int32 else kernels.fill_long_rows
        head, follow = self.chains()  # lists of the matches that begin in each partition
        partition, cursor = self.events.partition_of_event, first_item[:-1].copy()
        fill_rows(partition, head, self.first, self.last, follow, cursor, event_of_item)
        return Lineage(event_of_item, first_item)

    @property
    def in_few_partitions(self) -> tuple[MatchSet, np.ndarray | None]:
        """The matches among the events of their partitions alone, and the positions of these events."""
        # They are the matches themselves and None if their partitions have most of the events. The columns
        # are left out.
        return self._taken_out or (self, None)

    @cached_property
    def _taken_out(self) -> tuple[MatchSet, np.ndarray] | None:
        """What `in_few_partitions` returns; None if the partitions of the matches have most of the events."""
        events = self.events
        if events.n_events < _MANY or events.n_partitions < _FEW:
            return None
        is_own = np.zeros(events.n_partitions, bool)
        is_own[self.partition] = True
        if np.count_nonzero(is_own) * _FEW > events.n_partitions:
            return None
        rows = np.flatnonzero(is_own[events.partition_of_event])
        if len(rows) * _FEW > events.n_events:
            return None
        few = Events(len(rows), {}, events.partition_of_event[rows], events.n_partitions)
        ends = (np.searchsorted(rows, ends) for ends in (self.first, self.last))
        return MatchSet(few, *ends, self.may_overlap), rows

    @cached_property
    def first_item_of_match(self) -> np.ndarray:
        """Where the rows of each match begin in the lineage, int64, (n_matches + 1,)."""
        first_item = np.zeros(len(self) + 1, np.int64)
        if len(self):
            n_rows = self.last - self.first
            if self.events.n_partitions > 1:
                place = self.events.prepared("place in partition", _places_in_partitions)
                n_rows = place[self.last] - place[self.first]
            np.cumsum(n_rows + 1, out=first_item[1:])
        return first_item

    def chains(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first match of each partition and the next one after each match; -1 ends a chain."""
        head = np.full(self.events.n_partitions, -1, np.int64)
        follow = np.full(len(self), -1, np.int64)
        if len(self):
            by_last = np.argsort(self.last, kind="stable")  # selected matches may be in any order
            order = by_last[np.argsort(self.partition[by_last], kind="stable")]
            partition_of_match = self.partition[order]
            new = np.concatenate([[True], partition_of_match[1:] != partition_of_match[:-1]])
            head[partition_of_match[new]] = order[new]
            same = ~new[1:]
            follow[order[:-1][same]] = order[1:][same]
        return head, follow


def _places_in_partitions(events: Events) -> np.ndarray:
    """Return how many events of its partition are before each event, int32, or int64 for very many events."""
    if events.n_events >= 2**31:
        return events.rank_by_partition
    place, n_before = np.empty(events.n_events, np.int32), np.zeros(events.n_partitions, np.int32)
    load_kernels(MATCHES).place_events(events.partition_of_event, n_before, place)
    return place


@dataclass(frozen=True, slots=True)
class Lineage:
    """The events of match m are ``event_of_item[first_item_of_match[m] : first_item_of_match[m + 1]]``."""

    event_of_item: np.ndarray  # int32 or int64, (n_items,): positions in stream order
    first_item_of_match: np.ndarray  # int64, (n_matches + 1,)

    @property
    def match_of_item(self) -> np.ndarray:
        """Match of each item, int64, (n_items,)."""
        return np.repeat(np.arange(len(self.first_item_of_match) - 1), np.diff(self.first_item_of_match))
