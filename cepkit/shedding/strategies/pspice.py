"""pSPICE: drop the partial matches that are least likely to complete for the work that they still take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from cepkit.errors import whole_number
from cepkit.shedding.strategies.strategy import (
    SAFETY,
    Event,
    Load,
    ServiceLine,
    Shedder,
    Training,
    check_safety,
    fit_service,
    surplus,
)
from cepkit.shedding.strategies.warm_up import (
    PartialLineage,
    StreamClock,
    first_positions,
    open_windows,
    opening_types,
    read_lineage,
    read_windows,
)

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import PartialMatches, TreeMachine


# Chances and times of partial matches, as a Markov chain over their states.


def transition_matrix(moves: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the transition matrix of one event: rows are states now, columns are states after the event.

    Source: Slo, Bhowmik, Rothermel, "pSPICE", IEEE BigData 2019 (T_q).
    Differs: with skip-till-any-match, a partial match also stays as it is when an event extends it. The chain
    follows the extended one.
    """
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
    """Return the probability that a partial match completes before its window ends.

    Source: pSPICE.
    """
    step = np.linalg.matrix_power(matrix, bin_size)
    chances = np.zeros((n_bins, len(matrix)))
    now = np.zeros(len(matrix))
    now[-1] = 1.0
    for b in range(n_bins):
        chances[b] = now
        now = step @ now
    return np.clip(chances, 0.0, 1.0)


def remaining_times(matrix: np.ndarray, reward: np.ndarray, bin_size: int, n_bins: int) -> np.ndarray:
    """Return the expected seconds of work on a partial match until its window ends.

    Source: pSPICE.
    """
    now_only = (matrix * reward).sum(axis=1)
    times = np.zeros((n_bins, len(matrix)))
    value = np.zeros(len(matrix))
    for b in range(n_bins):
        times[b] = value
        for _ in range(bin_size if b + 1 < n_bins else 0):
            value = now_only + matrix @ value
    return times


def utilities_of_states(chances: np.ndarray, times: np.ndarray, weight: float = 1.0) -> np.ndarray:
    """Return U = w P / tau, float64, (n_bins, n_states): chance of completion for a second of work.

    Without a chance the utility is 0. Without work it is infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chances > 0, weight * chances / times, 0.0)


@dataclass(frozen=True)
class PSpice:
    """Drop the partial matches of lowest utility when the next event would come too late.

    The utility is the chance to complete, divided by the seconds of work until then.

    Source: Slo, Bhowmik, Rothermel, "pSPICE: Partial Match Shedding for Complex Event Processing", IEEE
    BigData 2019. Written from knowledge of the published algorithm only.
    Differs: the states of the Markov chain are the nodes of the tree, so that every pattern has a chain. The
    published detector compares with the bound itself; ``safety`` compares with a share of it, as the other
    strategies do. The time to shed, g, comes from the prices and not from a regression.
    """

    safety: float = SAFETY  # share of the latency bound to aim at
    bins: int = 100  # number of bins for the events left in a window
    name: ClassVar[str] = "pspice"

    def __post_init__(self) -> None:
        check_safety(self.safety)
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
    """Return the utilities of partial matches from a warm-up.

    An event counts as a pair with every partial match that is kept and whose window contains it.

    """
    windows, types, _ = read_windows(training)
    size = windows.mean_size
    lineage = read_lineage(training.machine)
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
    lineage: PartialLineage, n_seen: np.ndarray, size: float, n_nodes: int
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
    lineage: PartialLineage, moves: np.ndarray, observed: np.ndarray, prices: Mapping[str, float]
) -> np.ndarray:
    """Return r(s, s'): seconds of work per event on a partial match, float64, shape of ``moves``.

    Every event spends the mean cost of the conditions. A move also creates a partial match.

    """
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


class _LeastUseful(Shedder):
    def __init__(self, strategy: PSpice, training: Training):
        super().__init__()
        self._bound = strategy.safety * training.latency_bound
        self._service = fit_service(training)
        prices = training.prices
        self._seconds_each = prices["lookup"] + prices["sort"] + prices["drop"]
        self._table = state_utilities(training, strategy.bins)
        self._clock = StreamClock(training.machine)
        self._opening = opening_types(training.program)
        self._windows = open_windows(training, self._table.mean_size)
        self._n_dropped = 0

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Drop the least useful partial matches if the event would be late."""
        time = int(self._clock.at(machine, event.position))
        partition = int(machine.partitions_of(event.position))
        self._windows.add(event.position, time, partition, opens=event.type in self._opening)
        self.charged["update"] += 1
        waited = load.clock - event.arrival
        n = min(surplus(load, waited, self._bound, self._service, self._seconds), machine.n_alive)
        if n > 0:
            self._drop(n, event.position, machine)
        return True

    def _drop(self, n: int, position: int, machine: TreeMachine) -> None:
        partial = machine.partial()
        # State 0: an event that must be absent. Without it, false matches would appear.
        droppable = np.flatnonzero(partial.state > 0)
        utility = self._table.of(partial, position, self._windows.size)[droppable]
        lowest = np.argpartition(utility, n - 1)[:n] if n < len(droppable) else slice(None)
        n_dropped = machine.drop(partial.id[droppable[lowest]])
        self._n_dropped += n_dropped
        self.charged["lookup"] += len(droppable)
        self.charged["sort"] += len(droppable)
        self.charged["drop"] += n_dropped

    def _seconds(self, n: int) -> float:
        """Return g: seconds to shed among ``n`` partial matches."""
        return n * self._seconds_each

    def size_bytes(self) -> int:
        """Return the memory of the table."""
        return self._table.utility.nbytes

    def report(self) -> Mapping[str, Any]:
        """Return the dropped partial matches and the line of service times."""
        line = self._service
        return {"dropped_partial_matches": self._n_dropped, "fixed": line.fixed, "slope": line.slope}

    def save(self) -> Mapping[str, Any]:
        """Return the learned table and the open windows."""
        return {
            "table": self._table._asdict(),
            "service": {"fixed": self._service.fixed, "slope": self._service.slope},
            "windows": self._windows.save(),
            "dropped": self._n_dropped,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self._table = StateUtilities(**saved["table"])
        self._service = ServiceLine(**saved["service"])
        self._windows.restore(saved["windows"])
        self._n_dropped = int(saved["dropped"])
