"""Windows of a sequence: each event of the first type opens one. Their sizes, positions and numbers."""

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
        own = np.flatnonzero(partition == number)
        starts = own[opens[own]]
        last = np.searchsorted(time[own], time[starts] + span, side="right")
        opening.append(starts)
        end.append(own[last - 1] + 1)
        is_complete.append(last < len(own))
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
        flat = [(key, *one) for key, opened in self._opened.items() for one in opened]
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
