"""What a warm-up says: sizes of windows, the parents of partial matches, and the matches they led to."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cepkit.shedding.strategies.strategy import Training
    from cepkit.shedding.tree.machine import TreeMachine
    from cepkit.shedding.tree.program import TreeProgram


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
    member = np.full((len(lineage.left) + 1, n_leaves), -1, np.int64)
    for rows in generations(lineage):
        member[rows] = np.maximum(member[lineage.left[rows]], member[lineage.right[rows]])
        takes = rows[lineage.takes_event[rows]]
        takes = takes[lineage.node[takes] < n_leaves]
        member[takes, lineage.node[takes]] = lineage.position[takes]
    return member[:-1]


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
    family = machine.ancestry
    n = len(family.left)

    def rows(ids: np.ndarray) -> np.ndarray:
        return np.where(ids >= family.base, ids - family.base, -1)

    is_match = np.zeros(n, bool)
    is_match[family.match_ids - family.base] = True
    return PartialLineage(
        rows(family.left), rows(family.right), family.node, family.cost.astype(np.float64), family.position,
        family.type, family.bin, family.state, is_match,
    )  # fmt: skip


# Windows of a sequence: each event of the first type opens one. Their sizes, positions and numbers.

SMOOTHING = 0.1  # of the mean size of windows
NO_LIMIT = 1 << 62


def opening_types(program: TreeProgram) -> frozenset[int]:
    """Return the numbers of the types that can begin a match."""
    code = program.code
    return frozenset(
        program.leaves[leaves[order[0]]].type
        for leaves, orders in zip(code.leaf_of_component, code.branch_of_order, strict=True)
        for order in orders
    )


def present_types(program: TreeProgram) -> frozenset[int]:
    """Return the numbers of the types whose events can be in a match; others must be absent."""
    return frozenset(leaf.type for leaf in program.leaves if not leaf.is_absent)


class StreamClock:
    """Where the events of a machine are on the axis that its window measures: ticks, or events.

    A window of a number of events counts the positions of the whole stream.

    """

    def __init__(self, machine: TreeMachine):
        window = machine.program.program.window
        self._counts = window.within is None
        if not self._counts:
            self.span = math.floor(window.within) if window.closed else math.ceil(window.within) - 1
        elif window.within_events is not None:
            self.span = window.within_events - 1
        else:
            self.span = NO_LIMIT

    def at(self, machine: TreeMachine, positions: Any) -> Any:
        """Return the places of events on the axis."""
        return positions if self._counts else machine.times_of(positions)


class OpeningWindows(NamedTuple):
    """The windows that events of a warm-up opened."""

    opening: np.ndarray
    end: np.ndarray

    @property
    def mean_size(self) -> float:
        """N: mean number of events in a window, with the opening one; 1 without windows."""
        return float((self.end - self.opening).mean()) if len(self.opening) else 1.0


def windows_of(opens: np.ndarray, time: np.ndarray, partition: np.ndarray, span: int) -> OpeningWindows:
    """Return the windows in a stream. A window ends with the stream position of its last event in time."""
    opening, end, is_complete = [], [], []
    for number in np.unique(partition[opens]):
        positions = np.flatnonzero(partition == number)
        starts = positions[opens[positions]]
        last = np.searchsorted(time[positions], time[starts] + span, side="right")
        opening.append(starts)
        end.append(positions[last - 1] + 1)
        is_complete.append(last < len(positions))
    if not opening:
        return OpeningWindows(np.zeros(0, np.int64), np.zeros(0, np.int64))
    windows = np.concatenate(opening), np.concatenate(end)
    kept = np.concatenate(is_complete)
    if not kept.any():
        kept[:] = True
    order = np.argsort(windows[0][kept], kind="stable")
    return OpeningWindows(windows[0][kept][order], windows[1][kept][order])


def events_by_cell(
    windows: OpeningWindows,
    type_of_event: np.ndarray,
    partition: np.ndarray,
    n_types: int,
    n_bins: int,
    bin_size: int,
) -> np.ndarray:
    """Return S: the mean number of events of each type in each bin of positions of a window."""
    share = np.zeros((n_types, n_bins))
    if not len(windows.opening):
        return share
    owner = partition[windows.opening]
    edge = windows.opening[:, None] + np.arange(n_bins + 1) * bin_size
    edge[:, -1] = windows.end
    edge = np.minimum(edge, windows.end[:, None])
    for number in np.unique(owner):
        of_partition = edge[owner == number]
        for t in range(n_types):
            places = np.flatnonzero((partition == number) & (type_of_event == t))
            share[t] += np.diff(np.searchsorted(places, of_partition), axis=1).sum(axis=0)
    return share / len(windows.opening)


class OpenWindows:
    """How many windows are open now, and how large windows are, as events pass."""

    def __init__(self, span: int, size: float):
        self.span = span
        self.size = size
        self._opened: dict[int, deque[tuple[int, int]]] = {}

    def add(self, position: int, time: int, partition: int, *, opens: bool) -> int:
        """Return the number of windows that contain the next event, its own included."""
        opened = self._opened.setdefault(partition, deque())
        while opened and time - opened[0][1] > self.span:
            self.size += SMOOTHING * (position - opened.popleft()[0] - self.size)
        if opens:
            opened.append((position, time))
        return len(opened)

    def save(self) -> dict[str, Any]:
        """Return the open windows and the mean size."""
        flat = [(key, *window) for key, opened in self._opened.items() for window in opened]
        return {"size": self.size, "opened": np.array(flat, np.int64).reshape(-1, 3)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.size = float(saved["size"])
        self._opened = {}
        for partition, position, time in np.asarray(saved["opened"]).tolist():
            self._opened.setdefault(partition, deque()).append((position, time))


def read_windows(training: Training) -> tuple[OpeningWindows, np.ndarray, np.ndarray]:
    """Return the windows of a warm-up, and the type and the partition of each of its events."""
    machine = training.machine
    clock, positions = StreamClock(machine), np.arange(training.n_events)
    types, partition = machine.types_of_events()[: training.n_events], machine.partitions_of(positions)
    opens = np.isin(types, list(opening_types(training.program)))
    return windows_of(opens, clock.at(machine, positions), partition, clock.span), types, partition


def open_windows(training: Training, size: float) -> OpenWindows:
    """Return the windows that are open at the end of a warm-up."""
    machine, positions = training.machine, np.arange(training.n_events)
    clock, opening = StreamClock(machine), opening_types(training.program)
    opens = np.isin(machine.types_of_events()[: training.n_events], list(opening))
    places, partition = clock.at(machine, positions).tolist(), machine.partitions_of(positions).tolist()
    now = OpenWindows(clock.span, size)
    for position in np.flatnonzero(opens).tolist():
        now.add(position, places[position], partition[position], opens=True)
    now.size = size
    return now
