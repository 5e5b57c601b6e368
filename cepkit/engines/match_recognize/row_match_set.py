"""The rows that a query of MATCH_RECOGNIZE searches, and its matches as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.engines.match_recognize.matching import RowMatch, find_row_matches
from cepkit.engines.shared.match_set import Lineage
from cepkit.events import Events
from cepkit.progress import checkpoint


@dataclass(frozen=True, eq=False)
class RowPartition:
    """The rows of a partition in order.

    Parameters
    ----------
    code : int
        The number of the partition in the events.
    positions : ndarray of int64, shape (n_rows,)
        The positions of the rows in the stream.
    columns : mapping of str to list
        The values that conditions and measures read; None is null.
    """

    code: int
    positions: np.ndarray
    columns: Mapping[str, list[Any]]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class SearchedRows:
    """The rows of a frame as the search reads them; ``values`` are those of the columns in stream order."""

    bound: BoundRowQuery
    events: Events
    values: Mapping[str, np.ndarray]
    _partitions: dict[int, RowPartition] = field(default_factory=dict, repr=False)
    _matches: dict[int, list[RowMatch]] = field(default_factory=dict, repr=False)

    def asked(self, bound: BoundRowQuery) -> SearchedRows:
        """Return the same rows for another query that reads the same columns in the same order."""
        return SearchedRows(bound, self.events, self.values, self._partitions)

    def matches(self, code: int) -> list[RowMatch]:
        """Return the matches of a partition in the order in which they are found; they are kept."""
        if code not in self._matches:
            part = self.partition(code)
            self._matches[code] = find_row_matches(self.bound.program, part.columns, part.n_rows)
        return self._matches[code]

    def partition(self, code: int) -> RowPartition:
        """Return a partition by its number; the newest one is kept."""
        if code not in self._partitions:
            positions = self._positions[self._bounds[code] : self._bounds[code + 1]]
            columns = {name: column[positions].tolist() for name, column in self.values.items()}
            self._partitions.clear()
            self._partitions[code] = RowPartition(code, positions, columns)
        return self._partitions[code]

    def partitions(self) -> Iterator[RowPartition]:
        """Yield the partitions that have rows."""
        for code in range(self.events.n_partitions):
            if self._bounds[code + 1] > self._bounds[code]:
                yield self.partition(code)

    @property
    def _positions(self) -> np.ndarray:
        return self.events.by_partition

    @cached_property
    def _bounds(self) -> np.ndarray:
        size = np.bincount(self.events.partition_of_event, minlength=self.events.n_partitions)
        return np.concatenate([[0], np.cumsum(size)])


@dataclass(frozen=True, eq=False)
class RowMatchSet:
    """Matches of a row pattern, sorted by their last row and then by their first. Each has a row.

    Parameters
    ----------
    events : Events
        In stream order.
    first, last : ndarray of int64, shape (n_matches,)
        Positions of the first and the last row.
    number : ndarray of int64, shape (n_matches,)
        The number of the match in its partition, from 1.
    state_of_item : ndarray of int64, shape (n_items,)
        The state of the automaton that took each row.
    """

    events: Events
    first: np.ndarray
    last: np.ndarray
    number: np.ndarray
    state_of_item: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def partition(self) -> np.ndarray:
        """The partition of each match, int32, (n_matches,)."""
        return self.events.partition_of_event[self.last]

    @cached_property
    def first_item_of_match(self) -> np.ndarray:
        """Where the rows of each match begin, int64, (n_matches + 1,)."""
        rank = self.events.rank_by_partition
        return np.concatenate([[0], np.cumsum(rank[self.last] - rank[self.first] + 1)])

    @cached_property
    def lineage(self) -> Lineage:
        """The rows of every match."""
        bounds = self.first_item_of_match
        begin = self.events.rank_by_partition[self.first] if len(self) else np.empty(0, np.int64)
        ranks = np.arange(bounds[-1]) + np.repeat(begin - bounds[:-1], np.diff(bounds))
        return Lineage(self.events.by_partition[ranks], bounds)

    def take(self, matches: np.ndarray | slice) -> RowMatchSet:
        """Return the selected matches in the given order."""
        chosen = np.arange(len(self))[matches]
        bounds = self.first_item_of_match
        parts = [self.state_of_item[bounds[m] : bounds[m + 1]] for m in chosen.tolist()]
        return RowMatchSet(
            self.events, self.first[chosen], self.last[chosen], self.number[chosen],
            np.concatenate([np.empty(0, np.int64), *parts]),
        )  # fmt: skip


def row_match_set(events: Events, found: Iterable[tuple[np.ndarray, Iterable[RowMatch]]]) -> RowMatchSet:
    """Return matches as arrays; ``found`` has positions of the rows of a partition, and its matches.

    Empty matches are left out.
    """
    first, last, number, states = [], [], [], []
    for positions, matches in found:
        for match in matches:
            if match.states:
                first.append(positions[match.start])
                last.append(positions[match.rows().stop - 1])
                number.append(match.number)
                states.append(match.states)
    begin, end, numbers = (np.array(values, np.int64) for values in (first, last, number))
    order = np.lexsort([begin, end])
    ordered = [state for m in order.tolist() for state in states[m]]
    return RowMatchSet(events, begin[order], end[order], numbers[order], np.array(ordered, np.int64))


def all_row_matches(searched: SearchedRows) -> tuple[RowMatchSet, int]:
    """Return the matches that have rows, and the number of all matches with the empty ones."""
    found, n_matches = [], 0
    for part in searched.partitions():
        checkpoint()
        matches = searched.matches(part.code)
        n_matches += len(matches)
        found.append((part.positions, matches))
    return row_match_set(searched.events, found), n_matches
