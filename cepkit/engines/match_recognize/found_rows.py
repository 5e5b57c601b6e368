"""What a search reads of a frame, and the matches of all partitions as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.vectors import Vector, column_parts, vector_of_column
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.match_recognize.matching import RowMatch
from cepkit.events import Column, sums_before
from cepkit.values import dataclass, field

# The matches of all partitions as arrays, and the order of the rows in which they lie.

FINDING = "cepkit.kernels.row_finding"
FEWEST_ROWS = 200  # in fewer rows, Python finds the matches as fast


@dataclass(frozen=True)
class RowOrder:
    """The rows of a frame, partition by partition. A *place* is a position in this order."""

    row_of_place: np.ndarray | None  # rows of the frame; None if the frame has this order
    # int64, (n_partitions + 1,): partitions are in the order of their first rows. None is empty.
    first_place_of_partition: np.ndarray
    # int32: the partition of each row as another number, if rows of a partition have the order of the frame
    code_of_row: np.ndarray | None = None
    first_place_of_code: np.ndarray | None = None  # int64: the first place of each such number
    is_known: bool = False  # whether an earlier call on the frame found this order

    @property
    def n_places(self) -> int:
        return int(self.first_place_of_partition[-1])

    @property
    def n_partitions(self) -> int:
        return len(self.first_place_of_partition) - 1

    def rows(self, places: np.ndarray) -> np.ndarray:
        if self.row_of_place is None:
            return places
        return self.row_of_place.take(places, mode="clip").astype(np.int64, copy=False)

    def place(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write values of the frame's rows in the order of the places."""
        if self.row_of_place is None:
            out[:] = values
        elif self.code_of_row is None or self.first_place_of_code is None:
            np.take(values, self.row_of_place, out=out, mode="clip")
        else:
            bits = np.dtype(f"u{values.dtype.itemsize}")
            bit_views = np.ascontiguousarray(values).view(bits), out.view(bits)
            load_kernels(FINDING).place_values(self.code_of_row, self.first_place_of_code.copy(), *bit_views)

    def with_room(self, values: np.ndarray, before: int, after: int) -> np.ndarray:
        """Return values of the frame's rows in the order of the places, between zeros."""
        whole = np.empty(before + len(values) + after, values.dtype)
        whole[:before] = whole[before + len(values) :] = 0
        self.place(values, whole[before : before + len(values)])
        return whole

    def rows_between(self, start: int, stop: int) -> np.ndarray:
        if self.row_of_place is None:
            return np.arange(start, stop)
        return self.row_of_place[start:stop].astype(np.int64, copy=False)

    def partitions(self) -> list[np.ndarray]:
        bounds = self.first_place_of_partition.tolist()
        return [self.rows_between(start, stop) for start, stop in pairwise(bounds)]


@dataclass(frozen=True)
class FoundRows:
    """The matches of all partitions, in the order in which they are found."""

    # start_of_match, end_of_match: int64, (n_matches,): the first place, and the place after the last one.
    # They are equal for an empty match.
    start_of_match: np.ndarray
    end_of_match: np.ndarray
    find_states: Callable[[], np.ndarray]  # returns ``states``. Most queries need none.
    first_match_of_partition: np.ndarray  # int64, (n_partitions + 1,)

    @cached_property
    def states(self) -> np.ndarray:
        """The state of the automaton that took each row of each match, int16."""
        return self.find_states()

    @property
    def n_states(self) -> int:
        return int((self.end_of_match - self.start_of_match).sum())

    @property
    def n_matches(self) -> int:
        return len(self.start_of_match)

    @cached_property
    def first_state_of_match(self) -> np.ndarray:
        """The first item of each match in ``states``, int64, (n_matches + 1,)."""
        return sums_before(self.end_of_match - self.start_of_match)

    @cached_property
    def partition_of_match(self) -> np.ndarray:
        """The partition of each match, int64, (n_matches,)."""
        sizes = np.diff(self.first_match_of_partition)
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def number_of_match(self) -> np.ndarray:
        """The number of each match in its partition, from 1, int64, (n_matches,)."""
        return np.arange(1, self.n_matches + 1) - self.first_match_of_partition[self.partition_of_match]

    def by_partition(self, order: RowOrder) -> list[list[RowMatch]]:
        first = self.first_match_of_partition.tolist()
        return [
            self._matches(range(first[p], first[p + 1]), start)
            for p, start in enumerate(order.first_place_of_partition[:-1].tolist())
        ]

    def _matches(self, matches: Sequence[int], base: int) -> list[RowMatch]:
        row_matches = []
        for number, m in enumerate(matches, 1):
            states = self.states[self.first_state_of_match[m] : self.first_state_of_match[m + 1]]
            row_matches.append(RowMatch(number, int(self.start_of_match[m]) - base, tuple(states.tolist())))
        return row_matches


def collect_matches(order: RowOrder, matches: Sequence[Sequence[RowMatch]]) -> FoundRows:
    first = order.first_place_of_partition.tolist()
    every = [
        (base, match)
        for base, partition_matches in zip(first, matches, strict=False)
        for match in partition_matches
    ]
    return FoundRows(
        start_of_match=np.array([base + match.start for base, match in every], np.int64),
        end_of_match=np.array([base + match.rows().stop for base, match in every], np.int64),
        find_states=lambda: np.array([state for _, match in every for state in match.states], np.int64),
        first_match_of_partition=np.concatenate([[0], np.cumsum([*map(len, matches)])]).astype(np.int64),
    )


# What a search reads of a frame: columns, also in the order of the partitions.

Place = Callable[[str, np.ndarray, int, int], tuple[np.ndarray, Any]]


@dataclass(frozen=True)
class PlacedColumn:
    """A column in the order of the places, with room for the rows that conditions reach beyond both ends."""

    vector: Vector
    n_before: int
    n_after: int

    @property
    def inner(self) -> Vector:
        """The column without the room at its ends."""
        whole, here = self.vector, slice(self.n_before, len(self.vector.values) - self.n_after)
        return Vector(
            whole.values[here], whole.type, tuple(places[here] for places in whole.missing), whole.texts
        )


@dataclass(frozen=True)
class RowInput:
    column: Callable[[str], Column]  # returns a column by name
    # Returns a column as Python values in the order of the frame, None for null.
    plain: Callable[[str], np.ndarray]
    order: RowOrder
    reach: tuple[int, int]  # the most rows that conditions look back and ahead
    # Takes the name and the values of a column, and the room before and after it. Returns the values in the
    # order of the places with this room, and the least of them; by default `RowOrder.with_room`.
    place: Place | None = None
    _columns: dict[str, Column] = field(default_factory=dict, repr=False)
    _placed: dict[str, PlacedColumn] = field(default_factory=dict, repr=False)

    def column_of(self, name: str) -> Column:
        """Return a column. It is read once."""
        if name not in self._columns:
            self._columns[name] = self.column(name)
        return self._columns[name]

    def is_placed(self, name: str) -> bool:
        return name in self._placed

    def placed(self, name: str) -> PlacedColumn:
        if name not in self._placed:
            kind, values, texts = column_parts(self.column_of(name))
            before, after = (min(rows, len(values)) for rows in self.reach)
            if self.place is None:
                whole, least = self.order.with_room(values, before, after), None
            else:
                whole, least = self.place(name, values, before, after)
            self._placed[name] = PlacedColumn(vector_of_column(kind, whole, texts, least), before, after)
        return self._placed[name]
