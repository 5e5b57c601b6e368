"""The matches of a row pattern in all partitions, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cepkit.engines.match_recognize.matching import RowMatch


@dataclass(frozen=True)
class FoundRows:
    """The matches of a row pattern, partition by partition. The rows of a match follow each other.

    Parameters
    ----------
    order : int64 array, (n_rows,)
        The rows of the frame: one partition after the other, each in its order. A place is an index of it.
    first_of_partition : int64 array, (n_partitions + 1,)
        The first place of each partition, and the number of rows.
    partition, number, start : int64 array, (n_matches,)
        The partition of each match, its number in the partition from 1, and the place of its first row. An
        empty match has the place of the row at which it was found.
    first_item : int64 array, (n_matches + 1,)
        The first item of each match, and the number of items. An item is a row in a match.
    states : int64 array, (n_items,)
        The state of the automaton that took the row.
    """

    order: np.ndarray
    first_of_partition: np.ndarray
    partition: np.ndarray
    number: np.ndarray
    start: np.ndarray
    first_item: np.ndarray
    states: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return len(self.first_of_partition) - 1

    def rows_of(self, partition: int) -> np.ndarray:
        """Return the rows of the frame in a partition, in its order."""
        return self.order[self.first_of_partition[partition] : self.first_of_partition[partition + 1]]

    def matches_of(self, partition: int) -> list[RowMatch]:
        """Return the matches of a partition; their rows count from its first row."""
        low, high = np.searchsorted(self.partition, [partition, partition + 1])
        first = int(self.first_of_partition[partition])
        return [
            RowMatch(
                int(self.number[i]),
                int(self.start[i]) - first,
                tuple(self.states[self.first_item[i] : self.first_item[i + 1]].tolist()),
            )
            for i in range(low, high)
        ]

    @property
    def match_of_item(self) -> np.ndarray:
        """The match of each item, int64, (n_items,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first_item))

    @property
    def row_of_item(self) -> np.ndarray:
        """The row of the frame of each item, int64, (n_items,)."""
        match = self.match_of_item
        return self.order[self.start[match] + np.arange(len(match)) - self.first_item[match]]


def collect_rows(parts: Sequence[np.ndarray], matches: Sequence[Sequence[RowMatch]]) -> FoundRows:
    """Return the matches of all partitions as arrays; ``parts`` has the rows of each partition in order."""
    first = np.concatenate([[0], np.cumsum([len(rows) for rows in parts], dtype=np.int64)]).astype(np.int64)
    every = [(partition, match) for partition, of in enumerate(matches) for match in of]
    lengths = np.array([len(match.states) for _, match in every], np.int64)
    return FoundRows(
        order=np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64),
        first_of_partition=first,
        partition=np.array([partition for partition, _ in every], np.int64),
        number=np.array([match.number for _, match in every], np.int64),
        start=np.array([first[partition] + match.start for partition, match in every], np.int64),
        first_item=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        states=np.array([state for _, match in every for state in match.states], np.int64),
    )
