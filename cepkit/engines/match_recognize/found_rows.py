"""The matches of all partitions as arrays, and the order of the rows in which they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.match_recognize.matching import RowMatch

FINDING = "cepkit.kernels.row_patterns.finding"
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
        """The number of rows."""
        return int(self.first_place_of_partition[-1])

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return len(self.first_place_of_partition) - 1

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the rows of the frame at these places."""
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
            given = np.ascontiguousarray(values).view(bits), out.view(bits)
            load_kernels(FINDING).place_values(self.code_of_row, self.first_place_of_code.copy(), *given)

    def with_room(self, values: np.ndarray, before: int, after: int) -> np.ndarray:
        """Return values of the frame's rows in the order of the places, between zeros."""
        whole = np.empty(before + len(values) + after, values.dtype)
        whole[:before] = whole[before + len(values) :] = 0
        self.place(values, whole[before : before + len(values)])
        return whole

    def rows_between(self, start: int, stop: int) -> np.ndarray:
        """Return the rows of the frame at the places from ``start`` to before ``stop``."""
        if self.row_of_place is None:
            return np.arange(start, stop)
        return self.row_of_place[start:stop].astype(np.int64, copy=False)

    def partitions(self) -> list[np.ndarray]:
        """Return the rows of each partition."""
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
        """The number of rows of all matches."""
        return int((self.end_of_match - self.start_of_match).sum())

    @property
    def n_matches(self) -> int:
        """The number of matches."""
        return len(self.start_of_match)

    @cached_property
    def first_state_of_match(self) -> np.ndarray:
        """The first item of each match in ``states``, int64, (n_matches + 1,)."""
        first = np.zeros(self.n_matches + 1, np.int64)
        np.cumsum(self.end_of_match - self.start_of_match, out=first[1:])
        return first

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
        """Return the matches of each partition as single values."""
        first = self.first_match_of_partition.tolist()
        return [
            self._matches(range(first[p], first[p + 1]), start)
            for p, start in enumerate(order.first_place_of_partition[:-1].tolist())
        ]

    def _matches(self, matches: Sequence[int], base: int) -> list[RowMatch]:
        found = []
        for number, m in enumerate(matches, 1):
            states = self.states[self.first_state_of_match[m] : self.first_state_of_match[m + 1]]
            found.append(RowMatch(number, int(self.start_of_match[m]) - base, tuple(states.tolist())))
        return found


def collect_matches(order: RowOrder, matches: Sequence[Sequence[RowMatch]]) -> FoundRows:
    """Return the matches of each partition as arrays."""
    first = order.first_place_of_partition.tolist()
    every = [(base, match) for base, of in zip(first, matches, strict=False) for match in of]
    return FoundRows(
        start_of_match=np.array([base + match.start for base, match in every], np.int64),
        end_of_match=np.array([base + match.rows().stop for base, match in every], np.int64),
        find_states=lambda: np.array([state for _, match in every for state in match.states], np.int64),
        first_match_of_partition=np.concatenate([[0], np.cumsum([*map(len, matches)])]).astype(np.int64),
    )
