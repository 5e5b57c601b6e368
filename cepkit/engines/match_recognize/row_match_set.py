"""The rows that a query of MATCH_RECOGNIZE searches, and its matches as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.compiled import reach_of
from cepkit.compile.match_recognize.registers import without_variables
from cepkit.compile.match_recognize.vectors import NotVectorizedError
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.engines.match_recognize.finding import (
    NearbyRows,
    find_in_partitions,
    reason_for_python,
)
from cepkit.engines.match_recognize.found_rows import FEWEST_ROWS, FoundRows, RowInput, RowOrder
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, find_row_matches
from cepkit.engines.shared.match_set import Lineage
from cepkit.errors import PredicateError
from cepkit.events import Events
from cepkit.language.expressions import trees as ex
from cepkit.progress import checkpoint


@dataclass(frozen=True, eq=False)
class RowPartition:
    """The rows of a partition in order."""

    code: int  # the number of the partition in the events
    positions: np.ndarray  # int64, (n_rows,): the positions of the rows in the stream
    columns: Mapping[str, list[Any]]  # the values that conditions and measures read; None is null

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

    def search(self, program: RowProgram) -> FoundRows | None:
        """Return the matches of all partitions by kernels, or None if Python must find them.

        The program has the conditions of the query, perhaps with another pattern.

        """
        if self.events.n_events < FEWEST_ROWS or reason_for_python(program) is not None:
            return None
        return find_in_partitions(program, dict(self.bound.query.define), self._given)

    def count_rows(self, condition: ex.Expression) -> int | None:
        """Return how many rows satisfy a condition on nearby rows, or None if Python must look at them."""
        if self.events.n_events < FEWEST_ROWS:
            return None
        order = self._given.order
        try:
            rows = NearbyRows(self._given, order, (0, order.n_partitions))
            return int(np.count_nonzero(rows.holds(without_variables(condition))))
        except (NotVectorizedError, PredicateError):
            return None

    @cached_property
    def _given(self) -> RowInput:
        """The rows as kernels read them: partition by partition, without empty partitions."""
        query, events = self.bound.query, self.events
        order = RowOrder(None if events.n_partitions < 2 else events.by_partition, np.unique(self._bounds))
        reach = reach_of([tree for _, tree in query.define])
        columns, params = events.columns.__getitem__, dict(query.params)
        return RowInput(self.bound.schema, columns, self.values.__getitem__, order, reach, params)

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
    """Matches of a row pattern, sorted by their last row and then by their first. Each has a row."""

    events: Events  # in stream order
    # first, last: int64, (n_matches,): positions of the first and the last row
    first: np.ndarray
    last: np.ndarray
    number: np.ndarray  # int64, (n_matches,): the number of the match in its partition, from 1
    state_of_item: np.ndarray  # int64, (n_items,): the state of the automaton that took each row

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
        return Lineage(self.events.by_partition[_ranges(begin, np.diff(bounds))], bounds)

    def take(self, matches: np.ndarray | slice) -> RowMatchSet:
        """Return the selected matches in the given order."""
        chosen = np.arange(len(self))[matches]
        bounds = self.first_item_of_match
        items = _ranges(bounds[chosen], np.diff(bounds)[chosen])
        return RowMatchSet(
            self.events, self.first[chosen], self.last[chosen], self.number[chosen],
            self.state_of_item[items],
        )  # fmt: skip


def _ranges(begin: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return ``begin[i], begin[i] + 1, …``, ``size[i]`` numbers for each i, int64."""
    first = np.cumsum(size) - size
    return np.arange(size.sum()) + np.repeat(begin - first, size)


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


def match_set_of_kernels(events: Events, found: FoundRows) -> RowMatchSet:
    """Return the matches that kernels found as `row_match_set` does. Empty matches are left out."""
    size = found.end_of_match - found.start_of_match
    kept = np.flatnonzero(size)
    first = events.by_partition[found.start_of_match[kept]]
    last = events.by_partition[found.end_of_match[kept] - 1]
    order = np.lexsort([first, last])
    chosen = kept[order]
    states = found.states[_ranges(found.first_state_of_match[chosen], size[chosen])]
    numbers = found.number_of_match[chosen]
    return RowMatchSet(events, first[order], last[order], numbers, states.astype(np.int64))


def all_row_matches(searched: SearchedRows) -> tuple[RowMatchSet, int]:
    """Return the matches that have rows, and the number of all matches with the empty ones."""
    by_kernels = searched.search(searched.bound.program)
    if by_kernels is not None:
        return match_set_of_kernels(searched.events, by_kernels), by_kernels.n_matches
    partition_matches, n_matches = [], 0
    for part in searched.partitions():
        checkpoint()
        matches = searched.matches(part.code)
        n_matches += len(matches)
        partition_matches.append((part.positions, matches))
    return row_match_set(searched.events, partition_matches), n_matches
