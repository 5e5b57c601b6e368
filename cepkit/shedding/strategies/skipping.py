"""eSPICE and hSPICE: tables of pairs that the tree skips while too many events wait."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from cepkit.errors import whole_number
from cepkit.shedding.strategies.strategy import (
    SAFETY,
    Event,
    Load,
    Shedder,
    Training,
    check_safety,
    queue_room,
)
from cepkit.shedding.strategies.warm_up import (
    StreamClock,
    completed,
    events_by_cell,
    events_of_matches,
    open_windows,
    opening_types,
    present_types,
    read_lineage,
    read_windows,
)

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import EventOutcome, TreeMachine


# What eSPICE and hSPICE share: a table of pairs that the tree skips while too many events wait.

# Tables of utilities from 0 to 100, and the threshold that drops a given number of events or pairs.

GREATEST = 100
KEEP_ALL = -1  # a threshold below every utility


def to_utilities(values: np.ndarray) -> np.ndarray:
    """Return values as whole utilities, 0 to 100. The greatest value gets 100, and only 0 gets 0."""
    greatest = values.max(initial=0.0)
    if greatest <= 0:
        return np.zeros(values.shape, np.int64)
    return np.ceil(np.round(GREATEST * values / greatest, 9)).astype(np.int64)


def occurrences(utility: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return O(u): how many events or pairs of each utility a window has, float64, (101,).

    Source: Slo, Bhowmik, Rothermel, "eSPICE", Middleware 2019, as section 3.5 of the specification gives it.
    """
    return np.bincount(utility.ravel(), expected.ravel(), minlength=GREATEST + 1)


def threshold_to_drop(occurrence: np.ndarray, amount: float) -> int:
    """Return the least utility u such that events or pairs of utility u or less make up the amount."""
    if amount <= 0:
        return KEEP_ALL
    enough = np.cumsum(occurrence) >= amount - 1e-9
    return int(enough.argmax()) if enough.any() else GREATEST


def share_to_drop(arrival_rate_hz: float, capacity_hz: float) -> float:
    """Return (R - th) / R, at least 0: the share of the work to drop, so that the rest fits the capacity."""
    if arrival_rate_hz <= capacity_hz:
        return 0.0
    return (arrival_rate_hz - capacity_hz) / arrival_rate_hz


def parts_of_bins(n_bins: int, bin_size: float, part_size: float) -> np.ndarray:
    """Return the part of the window that each bin of positions belongs to, int64, (n_bins,).

    A part has at least one bin. The middle of a bin decides.
    """
    middle = (np.arange(n_bins) + 0.5) * bin_size
    return (middle // max(part_size, bin_size)).astype(np.int64)


def scaled_bins(n_bins: int, mean_size: float, size: float) -> np.ndarray:
    """Return the learned bin that each bin of a window of another size corresponds to: P times N / ws."""
    if mean_size <= 0 or size <= 0:
        return np.arange(n_bins)
    moved = np.floor((np.arange(n_bins) + 0.5) * mean_size / size).astype(np.int64)
    return np.minimum(moved, n_bins - 1)


INTERVAL = 100  # processed events after which thresholds are computed again


class UtilityTable(NamedTuple):
    """What a warm-up says about pairs of an arriving event and a window or a partial match."""

    utility: np.ndarray
    expected: np.ndarray
    part_of_bin: np.ndarray
    bin_size: int
    mean_size: float

    @property
    def n_parts(self) -> int:
        """Number of parts of the window."""
        return int(self.part_of_bin[-1]) + 1

    def thresholds(self, share: float) -> np.ndarray:
        """Return the threshold of each part, so that this share of its pairs goes, int64, (n_parts,)."""
        thresholds = np.full(self.n_parts, KEEP_ALL)
        for part in range(self.n_parts):
            is_in_part = self.part_of_bin == part
            expected = self.expected[:, is_in_part]
            thresholds[part] = threshold_to_drop(
                occurrences(self.utility[:, is_in_part], expected), share * expected.sum()
            )
        return thresholds

    def skipped(self, thresholds: np.ndarray, size: float) -> np.ndarray:
        """Return the pairs to skip, bool, (n_types, n_bins, n_states), in windows of this many events."""
        bins = scaled_bins(len(self.part_of_bin), self.mean_size, size)
        return self.utility[:, bins] <= thresholds[self.part_of_bin[bins]][:, None]


class SkippingSettings(Protocol):
    """The settings that eSPICE and hSPICE share."""

    @property
    def safety(self) -> float:
        """f: share of the queue limit from which the shedder skips."""
        ...

    @property
    def interval(self) -> int:
        """Number of events after which thresholds are computed again."""
        ...

    @property
    def backlog(self) -> bool:
        """Whether waiting events add to the arrival rate."""
        ...

    @property
    def always(self) -> bool:
        """Whether lookups are paid for also without an overload."""
        ...


def check_skipping(safety: float, interval: int) -> None:
    """Raise unless the settings of a strategy that skips pairs are valid."""
    check_safety(safety)
    whole_number("interval", interval, 1)


class SkippingShedder(Shedder):
    """Skips pairs of low utility while more events wait than the safe share of the queue limit."""

    def __init__(self, training: Training, table: UtilityTable, settings: SkippingSettings):
        super().__init__()
        self._settings, self._bound = settings, training.latency_bound
        self._clock = StreamClock(training.machine)
        self._opening, self._present = opening_types(training.program), present_types(training.program)
        self._table = table
        self._room = queue_room(training, settings.safety)
        self._capacity = 1.0 / training.service if training.service > 0 else float("inf")
        self._windows = open_windows(training, table.mean_size)
        self._thresholds = np.full(table.n_parts, KEEP_ALL)
        self._is_shedding, self._left, self._share = False, 0, 0.0
        self._n_lookups = 0
        self._is_known = False  # whether the machine has the table of this shedder
        self._is_useless = np.zeros(len(table.utility), bool)  # by type: whether all its pairs are skipped

    @abstractmethod
    def _look_up(self, n_windows: int) -> None:
        """Charge what the table costs for an event in this many windows."""

    def _pay(self, n_lookups: int) -> None:
        """Charge lookups in the table, unless nothing is skipped and the table rests."""
        if self._is_shedding or self._settings.always:
            self.charged["lookup"] += n_lookups
            self._n_lookups += n_lookups

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Set the table of pairs that the machine skips."""
        if event.type not in self._present:
            return True
        time = int(self._clock.at(machine, event.position))
        partition = int(machine.partitions_of(event.position))
        opens = event.type in self._opening
        n_windows = self._windows.add(event.position, time, partition, opens=opens)
        if load.waiting <= self._room:
            self._is_shedding = False
        elif not self._is_shedding or self._left <= 0:
            self._is_shedding, self._left = True, self._settings.interval
            rate = load.arrival_rate
            if self._settings.backlog:
                rate += (load.waiting - self._room) / self._bound
            self._share = share_to_drop(rate, self._capacity)
            self._thresholds = self._table.thresholds(self._share)
            self.charged["update"] += len(self._thresholds)
            self._is_known = False
        self._left -= 1
        self._tell(machine)
        self._look_up(n_windows)
        return not (self._is_shedding and self._refuses(event.type))

    def _refuses(self, number: int) -> bool:
        """Return whether an event of a type is not processed at all."""
        return False

    def _tell(self, machine: TreeMachine) -> None:
        if not self._is_shedding:
            if machine.skip is not None:
                machine.skip = None
        elif not self._is_known or machine.skip is None:
            table = self._table
            skipped = np.broadcast_to(
                table.skipped(self._thresholds, self._windows.size), machine.considered.shape
            ).copy()
            # State 0: the event begins a partial match. Only the first event of a window does so for matches.
            begins = skipped[:, 0, 0].copy()
            skipped[:, :, 0] = False
            for number in self._opening:
                skipped[number, 0, 0] = begins[number]
            machine.skip = skipped
            self._is_useless = skipped[:, :, 1:].all(axis=(1, 2))
            for number in self._opening:
                self._is_useless[number] &= skipped[number, 0, 0]
            self._is_known = True

    def size_bytes(self) -> int:
        """Return the memory of the tables."""
        return self._table.utility.nbytes + self._table.expected.nbytes

    def report(self) -> Mapping[str, Any]:
        """Return the share of pairs to skip, the thresholds, the mean size of windows, and the lookups."""
        table = self._table
        return {
            "is_shedding": self._is_shedding,
            "share": self._share if self._is_shedding else 0.0,
            "thresholds": self._thresholds.tolist() if self._is_shedding else [],
            "window_size": self._windows.size,
            "lookups": self._n_lookups,
            "last_thresholds": self._thresholds.tolist(),
            "table": {
                "utility": table.utility.tolist(),
                "expected": table.expected.tolist(),
                "bin_size": int(table.bin_size),
            },
        }

    def save(self) -> Mapping[str, Any]:
        """Return the learned table, the thresholds and the open windows."""
        return {
            "table": self._table._asdict(),
            "thresholds": self._thresholds,
            "is_shedding": self._is_shedding,
            "left": self._left,
            "share": self._share,
            "lookups": self._n_lookups,
            "windows": self._windows.save(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self._table = UtilityTable(**saved["table"])
        self._thresholds = np.asarray(saved["thresholds"])
        self._is_shedding, self._left = bool(saved["is_shedding"]), int(saved["left"])
        self._share, self._n_lookups = float(saved["share"]), int(saved["lookups"])
        self._windows.restore(saved["windows"])
        self._is_known = False


# eSPICE: skip events in windows, by the utility of their type at their position in the window.


@dataclass(frozen=True)
class ESpice:
    """Skip an event in the windows where its type at its position rarely belongs to a match.

    Source: Slo, Bhowmik, Flaig, Rothermel, "eSPICE: Probabilistic Load Shedding from Input Event Streams in
    Complex Event Processing", Middleware 2019. Written from knowledge of the published algorithm only.
    Differs: the published amount to skip does not know the queue, so nothing is skipped after a short peak,
    however many events wait; ``backlog=False`` keeps that. The amount to drop is a share of the expected
    events of the pattern's types in each part of a window. Events of other types never wait here. Position
    bins are the same for all windows, so one mean size of windows scales them. An event whose type must be
    absent is never skipped.
    """

    safety: float = SAFETY  # f: share of the queue limit from which the shedder skips
    interval: int = INTERVAL  # number of events after which thresholds are computed again during an overload
    # Whether the events that wait beyond the safe share add to the arrival rate, as if they arrived within
    # one latency bound. False: the arrival rate alone decides how much to skip, as published.
    backlog: bool = True
    # Whether to pay for lookups also without an overload. This shows the overhead alone.
    always: bool = False
    name: ClassVar[str] = "espice"

    def __post_init__(self) -> None:
        check_skipping(self.safety, self.interval)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of events by type and position."""
        table = event_utilities(training, self.safety)
        return _SkippedEvents(training, table, self)


def event_utilities(training: Training, safety: float) -> UtilityTable:
    """Return UT(T, P) and S(T, P) of a warm-up, with the parts of a window.

    A part has (1 - f) q_max events: what the queue can take in until it is full. The bins of positions are
    those of the machine.
    """
    machine, n_types = training.machine, len(training.program.types)
    windows, types, partition = read_windows(training)
    bins, bin_size = machine.considered.shape[1], machine.bin_size
    share = events_by_cell(windows, types, partition, n_types, bins, bin_size)
    for number in set(range(n_types)) - present_types(training.program):
        share[number] = 0.0
    lineage = read_lineage(machine)
    events = events_of_matches(lineage)
    count = np.zeros((n_types, bins))
    np.add.at(count, (lineage.type[events.row], np.minimum(events.place // bin_size, bins - 1)), 1.0)
    n_own = max(1, int((types >= 0).sum()))
    part = (1.0 - safety) * queue_room(training, 1.0) * len(types) / n_own
    return UtilityTable(
        to_utilities(count)[:, :, None],
        share[:, :, None],
        parts_of_bins(bins, bin_size, part),
        bin_size,
        windows.mean_size,
    )


class _SkippedEvents(SkippingShedder):
    def _look_up(self, n_windows: int) -> None:
        """Pay for one lookup per window that contains the event."""
        self._pay(n_windows)

    def _refuses(self, number: int) -> bool:
        """Return whether events of a type are skipped at every position of all windows."""
        return bool(self._is_useless[number])


# hSPICE: skip pairs of an event and a partial match, by type, position and state.


@dataclass(frozen=True)
class HSpice:
    """Skip pairs of an event and a partial match that rarely lead to a match.

    Source: Slo, Bhowmik, Rothermel, "hSPICE: State-Aware Event Shedding in Complex Event Processing",
    DEBS 2020. Written from knowledge of the published algorithm only.
    Differs: the published amount to skip does not know the queue; see `ESpice`. The table has the probability
    that the pair makes a partial match that completes, divided by the greatest one. An event that opens a
    window counts as a pair with state 0. One mean size of windows scales the position bins.
    """

    safety: float = SAFETY  # f: share of the queue limit from which the shedder skips
    # Number of events after which the threshold is computed again during an overload.
    interval: int = INTERVAL
    # Whether the events that wait beyond the safe share add to the arrival rate, as if they arrived within
    # one latency bound. False: the arrival rate alone decides how much to skip, as published.
    backlog: bool = True
    # Whether to pay for lookups also without an overload. This shows the overhead alone.
    always: bool = False
    name: ClassVar[str] = "hspice"

    def __post_init__(self) -> None:
        check_skipping(self.safety, self.interval)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of pairs by type, position and state."""
        table = pair_utilities(training)
        return _SkippedPairs(training, table, self)


def pair_utilities(training: Training) -> UtilityTable:
    """Return UT(T, P, s) of a warm-up, and the expected number of pairs of a window in each cell.

    The bins of positions are those of the machine.

    """
    machine, windows = training.machine, read_windows(training)[0]
    lineage = read_lineage(machine)
    useful = completed(lineage)
    good = np.zeros(machine.considered.shape)
    np.add.at(good, (lineage.type[useful], lineage.bin[useful], lineage.state[useful]), 1.0)
    considered = machine.considered.astype(np.float64)
    opening = opening_types(training.program)
    for number in set(range(len(considered))) - opening:
        considered[number, :, 0] = good[number, :, 0] = 0.0
    chance = np.divide(good, considered, out=np.zeros(good.shape), where=considered > 0)
    n_windows = max(1, int(np.isin(machine.types_of_events()[: training.n_events], list(opening)).sum()))
    return UtilityTable(
        to_utilities(chance),
        considered / n_windows,
        np.zeros(considered.shape[1], np.int64),
        machine.bin_size,
        windows.mean_size,
    )


class _SkippedPairs(SkippingShedder):
    def _look_up(self, n_windows: int) -> None:
        """Pay after the event, when the number of its pairs is known."""

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Pay for one lookup per pair."""
        self._pay(outcome.pairs)
