"""What a warm-up says about partial matches: their parents, their cost, and the matches they led to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import TreeMachine


class PartialLineage(NamedTuple):
    """The partial matches of a warm-up, in the order in which they were created."""

    left: np.ndarray
    right: np.ndarray
    node: np.ndarray
    cost: np.ndarray
    position: np.ndarray
    type: np.ndarray
    bin: np.ndarray
    state: np.ndarray
    is_match: np.ndarray

    @property
    def takes_event(self) -> np.ndarray:
        """Whether it only took its event, alone or into a set; others join two partial matches."""
        return self.right < 0


def generations(lineage: PartialLineage) -> list[np.ndarray]:
    """Return the rows in groups, so that the parents of a row are in earlier groups."""
    depth = np.zeros(len(lineage.left) + 1, np.int64)  # the last entry serves parents that do not exist
    has_parent = (lineage.left >= 0) | (lineage.right >= 0)
    while True:
        deeper = np.where(has_parent, np.maximum(depth[lineage.left], depth[lineage.right]) + 1, 0)
        if np.array_equal(deeper, depth[:-1]):
            break
        depth[:-1] = deeper
    order = np.argsort(depth[:-1], kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth[:-1]))[:-1]) if len(order) else []


def first_positions(lineage: PartialLineage) -> np.ndarray:
    """Return the position of the first event of each partial match, int64, (n,)."""
    latest = np.iinfo(np.int64).max
    first = np.append(lineage.position, latest)
    for rows in generations(lineage):
        parents = np.minimum(first[lineage.left[rows]], first[lineage.right[rows]])
        first[rows] = np.minimum(first[rows], parents)
    return first[:-1]


def lengths(lineage: PartialLineage) -> np.ndarray:
    """Return the number of events of each partial match, int64, (n,)."""
    length = np.zeros(len(lineage.left) + 1, np.int64)
    for rows in generations(lineage):
        length[rows] = length[lineage.left[rows]] + length[lineage.right[rows]] + lineage.takes_event[rows]
    return length[:-1]


def members(lineage: PartialLineage, n_leaves: int) -> np.ndarray:
    """Return the last event of each leaf in each partial match, int64, (n, n_leaves); -1: none."""
    found = np.full((len(lineage.left) + 1, n_leaves), -1, np.int64)
    for rows in generations(lineage):
        found[rows] = np.maximum(found[lineage.left[rows]], found[lineage.right[rows]])
        takes = rows[lineage.takes_event[rows]]
        takes = takes[lineage.node[takes] < n_leaves]
        found[takes, lineage.node[takes]] = lineage.position[takes]
    return found[:-1]


def contributions(lineage: PartialLineage) -> np.ndarray:
    """Return Gamma+: how many matches each partial match led to, itself included, int64, (n,).

    Source: Zhao, Hung, Weidlich, ICDE 2020.
    """
    return _sum_of_descendants(lineage, lineage.is_match.astype(np.int64)) + lineage.is_match


def consumptions(lineage: PartialLineage) -> np.ndarray:
    """Return Gamma-: the cost of what came from each partial match, weighted by length, float64, (n,).

    Source: Zhao, Hung, Weidlich, ICDE 2020.
    """
    return _sum_of_descendants(lineage, lineage.cost * lengths(lineage))


def _sum_of_descendants(lineage: PartialLineage, value: np.ndarray) -> np.ndarray:
    total = np.append(value, np.zeros(1, value.dtype))
    for rows in reversed(generations(lineage)):
        for parent in (lineage.left[rows], lineage.right[rows]):
            np.add.at(total, parent, total[rows])
    return total[:-1] - value


class MatchEvents(NamedTuple):
    """The events of all matches of a warm-up: one entry for each event of each match."""

    match: np.ndarray
    row: np.ndarray
    place: np.ndarray


def events_of_matches(lineage: PartialLineage) -> MatchEvents:
    """Return the events of all matches."""
    match = row = np.flatnonzero(lineage.is_match)
    first = first_positions(lineage)
    matches, rows = [], []
    while len(row):
        takes = lineage.takes_event[row]
        matches.append(match[takes])
        rows.append(row[takes])
        parents = np.concatenate([lineage.left[row], lineage.right[row]])
        exists = parents >= 0
        match, row = np.concatenate([match, match])[exists], parents[exists]
    match, row = (np.concatenate(part) if part else np.zeros(0, np.int64) for part in (matches, rows))
    return MatchEvents(match, row, lineage.position[row] - first[match])


def completed(lineage: PartialLineage) -> np.ndarray:
    """Return which partial matches are matches or led to one, bool, (n,)."""
    return contributions(lineage) > 0


def read_lineage(machine: TreeMachine) -> PartialLineage:
    """Return what a machine that learned knows about its partial matches."""
    known = machine.ancestry
    n = len(known.left)

    def rows(ids: np.ndarray) -> np.ndarray:
        return np.where(ids >= known.base, ids - known.base, -1)

    is_match = np.zeros(n, bool)
    is_match[known.match_ids - known.base] = True
    return PartialLineage(
        rows(known.left), rows(known.right), known.node, known.cost.astype(np.float64), known.position,
        known.type, known.bin, known.state, is_match,
    )  # fmt: skip
