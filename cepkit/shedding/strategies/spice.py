"""The strategies eSPICE and hSPICE, which skip events, and pSPICE, which drops partial matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from cepkit.errors import whole_number
from cepkit.shedding.strategies.classes import (
    WindowsNow,
    completed,
    events_by_cell,
    events_of_matches,
    first_positions,
    opening_types,
    present_types,
    read_windows,
)
from cepkit.shedding.strategies.strategy import (
    Event,
    Load,
    PartialShedder,
    SafeSettings,
    Shedder,
    Training,
    queue_room,
)
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.shedding.tree_machine import Ancestry, EventOutcome, PartialMatches, TreeMachine


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
    """Return O(u): how many events or pairs of each utility a window has, float64, (101,)."""
    # Source: Slo, Bhowmik, Rothermel, "eSPICE", Middleware 2019, as section 3.5 of the specification gives
    # it.
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
    """Return the part of the window that each bin of positions belongs to, int64, (n_bins,)."""
    # A part has at least one bin. The middle of a bin decides.
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


@dataclass(frozen=True)
class SkippingSettings(SafeSettings):
    """The settings of eSPICE and hSPICE. ``safety``: the share of the queue limit from which they skip."""

    interval: int = INTERVAL  # number of events after which thresholds are computed again during an overload
    # Whether the events that wait beyond the safe share add to the arrival rate, as if they arrived within
    # one latency bound. False: the arrival rate alone decides how much to skip, as published.
    backlog: bool = True
    # Whether to pay for lookups also without an overload. This shows the overhead alone.
    always: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("interval", self.interval, 1)


class SkippingShedder(Shedder):
    """Skips pairs of low utility while more events wait than the safe share of the queue limit.

    The pairs are those of an event and a window. An event whose pairs are all skipped is not processed.
    """

    KEPT = ("table", "thresholds", "is_shedding", "left", "share", "lookups", "windows")

    def __init__(self, training: Training, table: UtilityTable, settings: SkippingSettings):
        super().__init__()
        self._settings, self._bound = settings, training.latency_bound
        self._present = present_types(training.program)
        self._table = table
        self._room = queue_room(training, settings.safety)
        self._capacity = 1.0 / training.service if training.service > 0 else float("inf")
        self._windows = WindowsNow(training, table.mean_size)
        self._thresholds = np.full(table.n_parts, KEEP_ALL)
        self._is_shedding, self._left, self._share = False, 0, 0.0
        self._lookups = 0
        self._is_known = False  # whether the machine has the table of this shedder
        self._is_useless = np.zeros(len(table.utility), bool)  # by type: whether all its pairs are skipped

    def _pay(self, n_lookups: int) -> None:
        """Charge lookups in the table, unless nothing is skipped and the table rests."""
        if self._is_shedding or self._settings.always:
            self.charged["lookup"] += n_lookups
            self._lookups += n_lookups

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        if event.type not in self._present:
            return True
        n_windows = self._windows.take(machine, event.position, event.type)
        if load.waiting <= self._room:
            self._is_shedding = False
        elif not self._is_shedding or self._left <= 0:
            self._is_shedding, self._left = True, self._settings.interval
            self._compute_thresholds(load)
        self._left -= 1
        if not self._is_shedding:
            machine.skip = None
        elif not self._is_known or machine.skip is None:
            self._skip(machine)
        return self._passes(event.type, n_windows)

    def _compute_thresholds(self, load: Load) -> None:
        """Compute the thresholds for the present load, and charge the work."""
        rate = load.arrival_rate
        if self._settings.backlog:
            rate += (load.waiting - self._room) / self._bound
        self._share = share_to_drop(rate, self._capacity)
        self._thresholds = self._table.thresholds(self._share)
        self.charged["update"] += len(self._thresholds)
        self._is_known = False

    def _passes(self, number: int, n_windows: int) -> bool:
        """Pay for the lookups of an event, and return whether it is processed."""
        self._pay(n_windows)
        return not (self._is_shedding and self._is_useless[number])

    def _skip(self, machine: TreeMachine) -> None:
        """Let the machine skip the pairs below the thresholds, and note the types whose pairs all go."""
        below = self._table.skipped(self._thresholds, self._windows.size)
        skipped = np.broadcast_to(below, machine.considered.shape).copy()
        # State 0: the event begins a partial match. Only the first event of a window does so for matches.
        skips_begin = skipped[:, 0, 0].copy()
        skipped[:, :, 0] = False
        self._is_useless = skipped[:, :, 1:].all(axis=(1, 2))
        for number in self._windows.opening:
            skipped[number, 0, 0] = skips_begin[number]
            self._is_useless[number] &= skips_begin[number]
        machine.skip = skipped
        self._is_known = True

    def size_bytes(self) -> int:
        return self._table.utility.nbytes + self._table.expected.nbytes

    def report(self) -> Mapping[str, Any]:
        """Return the share of pairs to skip, the thresholds, the mean size of windows, and the lookups."""
        table = self._table
        return {
            "is_shedding": self._is_shedding,
            "share": self._share if self._is_shedding else 0.0,
            "thresholds": self._thresholds.tolist() if self._is_shedding else [],
            "window_size": self._windows.size,
            "lookups": self._lookups,
            "last_thresholds": self._thresholds.tolist(),
            "table": {
                "utility": table.utility.tolist(),
                "expected": table.expected.tolist(),
                "bin_size": int(table.bin_size),
            },
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self._is_known = False


# eSPICE: skip events in windows, by the utility of their type at their position in the window.


@dataclass(frozen=True)
class ESpice(SkippingSettings):
    """Skip an event in the windows where its type at its position rarely belongs to a match.

    Source: Slo, Bhowmik, Flaig, Rothermel, "eSPICE: Probabilistic Load Shedding from Input Event Streams in
    Complex Event Processing", Middleware 2019. Written from knowledge of the published algorithm only.
    Differs: the published amount to skip does not know the queue, so nothing is skipped after a short peak,
    however many events wait; ``backlog=False`` keeps that. The amount to drop is a share of the expected
    events of the pattern's types in each part of a window. Events of other types never wait here. Position
    bins are the same for all windows, so one mean size of windows scales them. An event whose type must be
    absent is never skipped.
    """

    name: ClassVar[str] = "espice"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of events by type and position."""
        return SkippingShedder(training, event_utilities(training, self.safety), self)


def event_utilities(training: Training, safety: float) -> UtilityTable:
    """Return UT(T, P) and S(T, P) of a warm-up, with the parts of a window."""
    # A part has (1 - f) q_max events: what the queue can take in until it is full. The bins of positions are
    # those of the machine.
    machine, n_types = training.machine, len(training.program.types)
    windows, types, partition = read_windows(training)
    bins, bin_size = machine.considered.shape[1], machine.bin_size
    share = events_by_cell(windows, types, partition, n_types, bins, bin_size)
    for number in set(range(n_types)) - present_types(training.program):
        share[number] = 0.0
    lineage = machine.ancestry
    events = events_of_matches(lineage)
    count = np.zeros((n_types, bins))
    np.add.at(count, (lineage.type[events.row], np.minimum(events.place // bin_size, bins - 1)), 1.0)
    n_own = max(1, int((types >= 0).sum()))
    part = (1.0 - safety) * queue_room(training, 1.0) * len(types) / n_own
    return UtilityTable(
        to_utilities(count)[:, :, None], share[:, :, None], parts_of_bins(bins, bin_size, part), bin_size,
        windows.mean_size,
    )  # fmt: skip


# hSPICE: skip pairs of an event and a partial match, by type, position and state.


@dataclass(frozen=True)
class HSpice(SkippingSettings):
    """Skip pairs of an event and a partial match that rarely lead to a match.

    Source: Slo, Bhowmik, Rothermel, "hSPICE: State-Aware Event Shedding in Complex Event Processing",
    DEBS 2020. Written from knowledge of the published algorithm only.
    Differs: the published amount to skip does not know the queue; see `ESpice`. The table has the probability
    that the pair makes a partial match that completes, divided by the greatest one. An event that opens a
    window counts as a pair with state 0. One mean size of windows scales the position bins.
    """

    name: ClassVar[str] = "hspice"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of pairs by type, position and state."""
        return _SkippedPairs(training, pair_utilities(training), self)


def pair_utilities(training: Training) -> UtilityTable:
    """Return UT(T, P, s) of a warm-up, and the expected number of pairs of a window in each cell."""
    # The bins of positions are those of the machine.
    machine, windows = training.machine, read_windows(training)[0]
    lineage = machine.ancestry
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
        to_utilities(chance), considered / n_windows, np.zeros(considered.shape[1], np.int64),
        machine.bin_size, windows.mean_size,
    )  # fmt: skip


class _SkippedPairs(SkippingShedder):
    def _passes(self, number: int, n_windows: int) -> bool:
        """Return that every event is processed, because the tree skips its pairs with partial matches."""
        return True

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Pay for one lookup per pair."""
        self._pay(outcome.pairs)


# pSPICE: drop the partial matches that are least likely to complete for the work that they still take.

# Chances and times of partial matches, as a Markov chain over their states.


def transition_matrix(moves: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the transition matrix of one event: rows are states now, columns are states after the event."""
    # Source: Slo, Bhowmik, Rothermel, "pSPICE", IEEE BigData 2019 (T_q). Differs: with skip-till-any-match, a
    # partial match also stays as it is when an event extends it. The chain follows the extended one.
    matrix = np.zeros(moves.shape)
    left = moves.copy()
    np.fill_diagonal(left, 0.0)
    left[-1] = 0.0
    # More moves than observations occur when one event extends a partial match in several ways.
    total = np.maximum(observed, left.sum(axis=1))
    seen = total > 0
    matrix[seen] = left[seen] / total[seen, None]
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return matrix


def completion_chances(matrix: np.ndarray, bin_size: int, n_bins: int) -> np.ndarray:
    """Return the probability that a partial match completes before its window ends."""
    # Source: pSPICE.
    step = np.linalg.matrix_power(matrix, bin_size)
    chances = np.zeros((n_bins, len(matrix)))
    now = np.zeros(len(matrix))
    now[-1] = 1.0
    for b in range(n_bins):
        chances[b] = now
        now = step @ now
    return np.clip(chances, 0.0, 1.0)


def remaining_times(matrix: np.ndarray, reward: np.ndarray, bin_size: int, n_bins: int) -> np.ndarray:
    """Return the expected seconds of work on a partial match until its window ends."""
    # Source: pSPICE.
    now_only = (matrix * reward).sum(axis=1)
    times = np.zeros((n_bins, len(matrix)))
    value = np.zeros(len(matrix))
    for b in range(n_bins):
        times[b] = value
        for _ in range(bin_size):
            value = now_only + matrix @ value
    return times


def utilities_of_states(chances: np.ndarray, times: np.ndarray, weight: float = 1.0) -> np.ndarray:
    """Return U = w P / tau, float64, (n_bins, n_states): chance of completion for a second of work."""
    # Without a chance the utility is 0. Without work it is infinite.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chances > 0, weight * chances / times, 0.0)


@dataclass(frozen=True)
class PSpice(SafeSettings):
    """Drop the partial matches of lowest utility when the next event would come too late.

    The utility is the chance to complete, divided by the seconds of work until then.

    Source: Slo, Bhowmik, Rothermel, "pSPICE: Partial Match Shedding for Complex Event Processing", IEEE
    BigData 2019. Written from knowledge of the published algorithm only.
    Differs: the states of the Markov chain are the nodes of the tree, so that every pattern has a chain. The
    published detector compares with the bound itself; ``safety`` compares with a share of it, as the other
    strategies do. The time to shed, g, comes from the prices and not from a regression.
    """

    bins: int = 100  # number of bins for the events left in a window
    name: ClassVar[str] = "pspice"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("bins", self.bins, 1)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities by node and events left in the window."""
        return _LeastUseful(self, training)


class StateUtilities(NamedTuple):
    """Utilities of partial matches by their node and the events left in their window."""

    utility: np.ndarray
    chance: np.ndarray
    seconds: np.ndarray
    bin_size: int
    mean_size: float

    def of(self, partial: PartialMatches, position: int, size: float) -> np.ndarray:
        """Return the utility of each partial match, when windows have this many events."""
        left = np.maximum(size - (position - partial.first_position), 0.0)
        number = np.minimum((left / self.bin_size).astype(np.int64), len(self.utility) - 1)
        return self.utility[number, partial.node]


def state_utilities(training: Training, bins: int) -> StateUtilities:
    """Return the utilities of partial matches from a warm-up."""
    # An event counts as a pair with every partial match that is kept and whose window contains it.
    windows, types, _ = read_windows(training)
    size = windows.mean_size
    lineage = training.machine.ancestry
    n_nodes = len(training.program.leaves) + len(training.program.nodes)
    moves, observed = count_moves(lineage, np.cumsum(types >= 0), size, n_nodes)
    matrix = transition_matrix(moves, observed)
    reward = work_of_moves(lineage, moves, observed, training.prices)
    # Chains advance by events of the pattern's types; windows have others, too.
    density = max(float((types >= 0).mean()) if len(types) else 1.0, 1e-9)
    step = max(1, int(np.ceil(size * density / bins)))
    chance = completion_chances(matrix, step, bins + 1)
    seconds = remaining_times(matrix, reward, step, bins + 1)
    utility = utilities_of_states(chance, seconds, training.weight)
    return StateUtilities(utility, chance, seconds, max(1, round(step / density)), size)


def count_moves(
    lineage: Ancestry, n_seen: np.ndarray, size: float, n_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how often events moved partial matches from node to node, and how often they met them."""
    moves, observed = np.zeros((n_nodes + 1, n_nodes + 1)), np.zeros(n_nodes + 1)
    position = np.append(lineage.position, -1)
    target = np.where(lineage.is_match, n_nodes, lineage.node)
    for parent in (lineage.left, lineage.right):
        # The other side of a join began with this event; it did not wait for it.
        waited = (parent >= 0) & (position[parent] < lineage.position)
        np.add.at(moves, (lineage.node[parent[waited]], target[waited]), 1.0)
    # A pattern of one event is a match at once.
    end = np.minimum(first_positions(lineage) + round(size) - 1, len(n_seen) - 1)
    waits = ~lineage.is_match
    met = np.maximum(n_seen[end] - n_seen[lineage.position], 0)
    np.add.at(observed, lineage.node[waits], met[waits].astype(np.float64))
    return moves, observed


def work_of_moves(
    lineage: Ancestry, moves: np.ndarray, observed: np.ndarray, prices: Mapping[str, float]
) -> np.ndarray:
    """Return r(s, s'): seconds of work per event on a partial match, float64, shape of ``moves``."""
    # Every event spends the mean cost of the conditions. A move also creates a partial match.
    # The cost of a pair that failed is on the older side; that of a pair that held is on the new one.
    older = np.where(lineage.left >= 0, lineage.left, lineage.right)
    position = np.append(lineage.position, -1)
    newer_left = (lineage.right >= 0) & (lineage.left >= 0) & (position[lineage.left] >= lineage.position)
    older = np.where(newer_left, lineage.right, older)
    payer = np.where(older >= 0, lineage.node[older], lineage.node)
    evaluated = np.bincount(payer, lineage.cost, minlength=len(observed))
    per_event = np.divide(evaluated, observed, out=np.zeros(len(observed)), where=observed > 0)
    reward = np.repeat(per_event[:, None] * prices["condition"], len(observed), axis=1)
    reward[moves > 0] += prices["create"] + prices["remove"]
    reward[-1] = 0.0
    return reward


class _LeastUseful(PartialShedder):
    KEPT = ("table", "service", "windows", "dropped")

    def __init__(self, strategy: PSpice, training: Training):
        super().__init__(training, strategy.safety, "lookup", "sort", "drop")
        self._table = state_utilities(training, strategy.bins)
        self._windows = WindowsNow(training, self._table.mean_size)

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        self._windows.take(machine, event.position, event.type)
        return super().before(event, load, machine)

    def _choose(self, machine: TreeMachine, n: int, position: int) -> np.ndarray:
        partial = machine.partial()
        # State 0: an event that must be absent. Without it, false matches would appear.
        droppable = np.flatnonzero(partial.state > 0)
        utility = self._table.of(partial, position, self._windows.size)[droppable]
        lowest = np.argpartition(utility, n - 1)[:n] if n < len(droppable) else slice(None)
        self.charged["lookup"] += len(droppable)
        self.charged["sort"] += len(droppable)
        return partial.id[droppable[lowest]]

    def size_bytes(self) -> int:
        return self._table.utility.nbytes
