"""Zhao et al.: drop the classes of partial matches that consume much and contribute little, then events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cepkit.errors import CepError, whole_number
from cepkit.shedding.strategies.classes import GAP, ClassModel, require_scikit_learn
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.shedding.tree_machine import EventOutcome, TreeMachine


# Choose the classes of partial matches to shed: the least contribution for enough consumption.

UNITS = 100  # consumption in hundredths


def cheapest_cover(loss: np.ndarray, gain: np.ndarray, needed: float) -> np.ndarray:
    """Return the set of classes with the least loss that gains more than what is needed."""
    # Among sets of equal loss, the first one found.
    # Source: Zhao, Hung, Weidlich, "Load Shedding for Complex Event Processing", ICDE 2020: a 0/1 knapsack.
    chosen = np.zeros(len(loss), bool)
    if needed < 0 or not len(loss):
        return chosen
    weight = np.floor(np.round(gain * UNITS, 6)).astype(np.int64)
    target = int(np.floor(round(needed * UNITS, 6))) + 1
    if weight.sum() < target:
        return ~chosen
    least = np.full(target + 1, np.inf)  # least loss for at least this gain
    least[0] = 0.0
    takes = np.zeros((len(loss), target + 1), bool)
    reach = np.arange(target + 1)
    for c in range(len(loss)):
        with_it = least[np.maximum(reach - weight[c], 0)] + loss[c]
        takes[c] = with_it < least
        takes[c, 0] = False
        least = np.where(takes[c], with_it, least)
    left = target
    for c in range(len(loss) - 1, -1, -1):
        if takes[c, left]:
            chosen[c] = True
            left = max(left - int(weight[c]), 0)
    return chosen


def greedy_cover(loss: np.ndarray, gain: np.ndarray, needed: float) -> np.ndarray:
    """Return the share of each class to shed: classes by ascending loss per gain, the last one in part."""
    # Source: AthenaCEP, the code of the ICDE 2020 paper (``approximate_BKP_PMshedding``).
    share = np.zeros(len(loss))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(gain > 0, loss / gain, np.inf)
    left = needed
    for c in np.argsort(ratio, kind="stable"):
        if left <= 0 or gain[c] <= 0:
            break
        share[c] = min(1.0, left / gain[c])
        left -= gain[c]
    return share


DYNAMIC, GREEDY = "dynamic", "greedy"
SMOOTHING = 0.1  # weight of the newest events in the moving averages of classes


@dataclass(frozen=True)
class Zhao:
    """Drop classes of partial matches by contribution and consumption, then the events that would make more.

    Source: Zhao, Hung, Weidlich, "Load Shedding for Complex Event Processing: Input-based and State-based
    Techniques", ICDE 2020. Written from knowledge of the published algorithm only; the number of clusters and
    the greedy choice are those of AthenaCEP, its code.
    Differs: a batch of ``interval`` events updates the moving averages, and not while classes are shed, since
    those would seem to contribute nothing. An event is dropped when all partial matches that it could make
    at once belong to the shedding set.
    """

    # Clusters of the partial matches of each node and time slice. ``"gap"``: the gap statistic chooses.
    clusters: int | str = 4
    time_slices: int = 2  # into how many slices the age of a partial match in its window is cut
    # ``"dynamic"``: the best shedding set. ``"greedy"``: by ascending contribution per consumption, with a
    # part of the last class.
    knapsack: str = DYNAMIC
    interval: int = 100  # number of processed events between two evaluations
    # Whether to classify arriving events also without an overload. This shows the overhead alone.
    always: bool = False
    name: ClassVar[str] = "zhao"

    def __post_init__(self) -> None:
        if self.clusters != GAP:
            if isinstance(self.clusters, str):
                raise CepError(f"clusters={self.clusters!r}: expected a number or 'gap'")
            whole_number("clusters", self.clusters, 1)
        whole_number("time_slices", self.time_slices, 1)
        whole_number("interval", self.interval, 1)
        if self.knapsack not in (DYNAMIC, GREEDY):
            raise CepError(f"knapsack={self.knapsack!r}: expected 'dynamic' or 'greedy'")
        require_scikit_learn()

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows classes of partial matches."""
        return _ShedClasses(self, training)


class _ShedClasses(Shedder):
    KEPT = ("model", "shed", "since", "newest", "ids", "generator")

    def __init__(self, strategy: Zhao, training: Training):
        super().__init__()
        self._strategy, self._bound = strategy, training.latency_bound
        self._model = ClassModel(training, strategy.clusters, strategy.time_slices, strategy.interval)
        self._generator = np.random.default_rng([training.seed, 4])
        self._shed = np.zeros(self._model.n_classes)  # share of each class to drop
        ancestry = training.machine.ancestry
        self._since, self._newest = 0, ancestry.base + len(ancestry.left) - 1
        self._ids, self._class_of_id = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._matches: list[np.ndarray] = []  # events by leaf of new matches
        self._n_dropped = self._n_events = 0

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Drop partial matches every ``interval`` events, and tell whether the event may pass."""
        if self._since >= self._strategy.interval:
            self._since = 0
            self._evaluate(load, machine)
        is_late = load.latency > self._bound and self._shed.any()
        if not is_late and not self._strategy.always:
            return True
        self.charged["classify"] += 1
        if is_late and self._is_useless(event, machine):
            self._since += 1
            self._n_events += 1
            return False
        return True

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Pay for the class of each new partial match, and keep the matches for the moving averages."""
        self._since += 1
        self.charged["classify"] += outcome.created
        if len(outcome.found):
            self._matches.append(self._model.shape.members_of_matches(outcome.found))

    def _evaluate(self, load: Load, machine: TreeMachine) -> None:
        """Update what classes cost, choose the shedding set, and drop its partial matches."""
        partial = machine.partial()
        classes = self._classes(machine, partial)
        is_new = partial.id > self._newest
        if len(partial):
            self._newest = max(self._newest, int(partial.id[-1]))
        if not self._shed.any():
            node, member = partial.node[is_new], partial.members[is_new]
            n = self._model.update(machine, node, member, self._new_matches(), SMOOTHING)
            self.charged["update"] += n
        self._matches = []
        self._shed = self._choose(load.latency)
        share = np.where(classes >= 0, self._shed[classes], 0.0)
        goes = share >= 1.0
        if in_part := int(((share > 0) & ~goes).sum()):
            goes |= self._generator.random(len(share)) < share
            self.charged["draw"] += in_part
        if goes.any():
            n = machine.drop(partial.id[goes])
            self.charged["drop"] += n
            self._n_dropped += n
        self._ids, self._class_of_id = partial.id[~goes], classes[~goes]

    def _new_matches(self) -> np.ndarray:
        none = np.zeros((0, self._model.shape.program.n_leaves), np.int64)
        return np.concatenate([none, *self._matches])

    def _classes(self, machine: TreeMachine, partial: Any) -> np.ndarray:
        """Return the class of each partial match. Those that are already known keep it."""
        at = np.searchsorted(self._ids, partial.id)
        is_known = np.append(self._ids, -1)[at] == partial.id
        classes = np.append(self._class_of_id, -1)[at]
        new = np.flatnonzero(~is_known)
        classes[new] = self._model.classify_all(machine, partial.node[new], partial.members[new])
        return classes

    def _choose(self, latency: float) -> np.ndarray:
        """Return the share of each class to drop at this latency."""
        if latency <= self._bound:
            return np.zeros(self._model.n_classes)
        needed = (latency - self._bound) / latency
        loss, gain = self._model.shares()
        if self._strategy.knapsack == GREEDY:
            self.charged["sort"] += len(loss)
            return greedy_cover(loss, gain, needed)
        self.charged["update"] += int(len(loss) * (needed * UNITS + 1))
        return cheapest_cover(loss, gain, needed).astype(np.float64)

    def _is_useless(self, event: Event, machine: TreeMachine) -> bool:
        """Return whether all partial matches that the event could make at once are shed."""
        shape, model = self._model.shape, self._model
        leaves = shape.of_type(event.type)
        for leaf in leaves:
            if shape.kept[leaf]:
                member = np.full((1, model.shape.program.n_leaves), -1, np.int64)
                member[0, leaf] = event.position
                if self._shed[model.classify(machine, leaf, member)[0]] < 1.0:
                    return False
            if (node := shape.joins(leaf)) >= 0:
                classes = model.classes_of_node(node)
                if not len(classes) or (self._shed[classes] < 1.0).any():
                    return False
        return bool(leaves)

    def size_bytes(self) -> int:
        return self._ids.nbytes + self._class_of_id.nbytes

    def report(self) -> Mapping[str, Any]:
        """Return the classes, the shedding set, and what was dropped."""
        return {
            "classes": self._model.n_classes,
            "shed_classes": np.flatnonzero(self._shed > 0).tolist(),
            "dropped_partial_matches": self._n_dropped,
            "dropped_events": self._n_events,
        }

    def save(self) -> Mapping[str, Any]:
        """Return the classes with their moving averages, and the shedding set."""
        return {
            **super().save(),
            "classes": self._class_of_id,
            "matches": self._new_matches(),
            "dropped": [self._n_dropped, self._n_events],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self._class_of_id = np.asarray(saved["classes"])
        self._matches = [np.asarray(saved["matches"])]
        self._n_dropped, self._n_events = map(int, saved["dropped"])
