"""Cohesive: the strategy of cepkit that keeps whole stretches of a stream, and drops late events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from cepkit.shedding.model import SAMPLE, PatternUtilities, StreamColumns, samples_of_warm_up
from cepkit.shedding.strategies.classes import (
    contributions,
    inherited,
    members,
    present_types,
    sum_of_descendants,
)
from cepkit.shedding.strategies.strategy import Event, Load, SafeSettings, Shedder, Training
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree_machine import TreeMachine

N_STEPS = 20  # of the utilities of a type; each step has as many events of the warm-up
_PRICES = np.geomspace(0.02, 20.0, 31)  # of a second of work, in the matches of a mean second
_AGAIN = 0.1  # share of the bound: after late events, a stretch begins with one that has waited less
_CLEAR = 1.5  # times as many matches for their work: what a filter of a live stream must promise
_FEW = 0.01  # share of matches and work that is added to each step, since some have few
_OF_CHOICE = ("utility", "lookup", "sort")  # work for each partial match that is compared


# What a warm-up says: filters by utility, and what partial matches are worth for a second of work.


class Filters(NamedTuple):
    """Filters by utility, from the one that keeps all to those that keep little."""

    least: np.ndarray  # int64, (n_filters, n_types): least step of each type that stays
    # work, matches: float64, (n_filters,): shares of all work and all matches that stay
    work: np.ndarray
    matches: np.ndarray

    def best(self, share: float, gain: float = 1.0) -> np.ndarray:
        """Return the least steps of the filter that keeps most matches within a share of all work.

        It must keep ``gain`` times as many matches for its work as no filter does.
        """
        matches = self.matches * np.minimum(1.0, share / self.work)
        allowed = self.matches >= gain * self.work
        allowed[0] = True
        return self.least[np.argmax(np.where(allowed, matches, -1.0))]


class WarmUpWork:
    """The partial matches and matches of a warm-up, with the work on each and the steps of its events."""

    def __init__(self, training: Training, step_of_event: np.ndarray):
        lineage, prices = training.machine.ancestry, training.prices
        self.training, self.lineage, self.steps = training, lineage, step_of_event
        self.n_types, n = len(training.program.types), len(lineage.left)
        self.seconds_of_row = lineage.cost * prices["condition"] + prices["create"] + prices["remove"]
        self.seconds_of_row += training.match_seconds * lineage.is_match
        step = np.full((n, self.n_types), N_STEPS, np.int64)
        step[np.arange(n), lineage.type] = step_of_event[lineage.position]
        lowest = inherited(lineage, step, np.minimum, N_STEPS)  # per row and type, of its events
        # Then a row for each event. Its work is without that on the partial matches that it made.
        self.types, self.seconds_of_event = training.type_of_event, training.service_of_event
        self.positions = np.flatnonzero(training.machine.types_of_events()[: training.n_events] >= 0)
        positions, self.step_of_event = self.positions, step_of_event[self.positions]
        made = np.bincount(lineage.position, self.seconds_of_row, minlength=training.n_events)[positions]
        of_event = np.full((len(positions), self.n_types), N_STEPS, np.int64)
        of_event[np.arange(len(positions)), self.types] = self.step_of_event
        self.lowest = np.concatenate([lowest, of_event])
        beside = np.maximum(self.seconds_of_event - made, 0.0) + prices["event"]
        self.seconds = np.concatenate([self.seconds_of_row, beside])
        self.matches = np.concatenate([lineage.is_match, np.zeros(len(positions))])

    def filters(self) -> Filters:
        """Return the filter that keeps all, and those with most matches at prices of a second of work."""
        all_matches, all_work = float(self.matches.sum()), float(self.seconds.sum())
        least, work, matches = [np.zeros(self.n_types, np.int64)], [1.0], [1.0]
        for price in _PRICES if all_matches else ():
            filtered = self._best(price * all_matches / all_work, least[-1])
            stays = self._stays(filtered)
            if not (found := float(self.matches[stays].sum())):
                break
            least.append(filtered)
            work.append(float(self.seconds[stays].sum()) / all_work)
            matches.append(found / all_matches)
        return Filters(np.array(least), np.array(work), np.array(matches))

    def _stays(self, least: np.ndarray) -> np.ndarray:
        return np.asarray((self.lowest >= least).all(axis=1))

    def _best(self, price: float, least: np.ndarray) -> np.ndarray:
        """Return the filter with the most matches less the price of its work, type by type from a filter."""
        least = least.copy()
        for _ in range(4):
            before = least.copy()
            for number in present_types(self.training.program):
                others = np.where(np.arange(self.n_types) == number, 0, least)
                rows = self._stays(others)
                gain = self.matches[rows] - price * self.seconds[rows]
                of_step = np.bincount(self.lowest[rows, number], gain, minlength=N_STEPS + 1)[:N_STEPS]
                least[number] = np.argmax(np.cumsum(of_step[::-1])[::-1])
            if np.array_equal(before, least):
                break
        return least

    def pair_seconds(self) -> np.ndarray:
        """Return the seconds for an event and each partial match that it meets, by type and step."""
        n_pairs_of_type = self.training.machine.considered[:, :, 1:].sum(axis=(1, 2))
        of_step = np.zeros((self.n_types, N_STEPS))
        for number, mean in enumerate(self.training.seconds_of_type):
            is_of_type = self.types == number
            seconds_of_event = _means(
                self.step_of_event[is_of_type], self.seconds_of_event[is_of_type], float(mean)
            )
            pairs_of_event = n_pairs_of_type[number] / max(1, is_of_type.sum())
            of_step[number] = seconds_of_event / max(1.0, pairs_of_event)
        return of_step

    def matches_of_event(self) -> np.ndarray:
        """Return the mean number of matches that contain an event, by type and step."""
        events = members(self.lineage, self.training.program.n_leaves)[self.lineage.is_match].ravel()
        of_event = np.bincount(events[events >= 0], minlength=self.training.n_events)
        of_step = np.zeros((self.n_types, N_STEPS))
        for number in range(self.n_types):
            here = self.types == number
            step, matches = self.step_of_event[here], of_event[self.positions[here]]
            of_step[number] = _means(step, matches, float(matches.mean()) if len(matches) else 0.0)
        return of_step

    def worth(self) -> Worth:
        """Return what the warm-up says of the partial matches that wait for an event."""
        lineage, n_leaves = self.lineage, self.training.program.n_leaves
        waits, member = np.flatnonzero(~lineage.is_match), members(lineage, n_leaves)
        matches = contributions(lineage)[waits].astype(np.float64)
        seconds = (self.seconds_of_row + sum_of_descendants(lineage, self.seconds_of_row))[waits]
        of_step, matches_of_step = np.zeros((2, n_leaves, N_STEPS + 1))  # 0 for the last, an unknown step
        for leaf in range(n_leaves):
            event = member[waits, leaf]
            has_event = event >= 0
            step = self.steps[event[has_event]]
            match_share = _shares(step, matches[has_event])
            work_share = _shares(step, seconds[has_event])
            partial_share = _shares(step, np.ones(len(step)))
            of_step[leaf, :N_STEPS] = np.log((match_share + _FEW) / (work_share + _FEW))
            matches_of_step[leaf, :N_STEPS] = np.log((match_share + _FEW) / (partial_share + _FEW))
        partner = self._type_waited_for()
        n_of_node = np.bincount(lineage.node[waits], minlength=len(partner))
        n_matches = np.bincount(lineage.node[waits], matches, minlength=len(partner))
        return Worth(of_step, partner, n_matches / np.maximum(1, n_of_node), matches_of_step)

    def _type_waited_for(self) -> np.ndarray:
        """Return, per node, the type of the events that its partial matches wait for; -1: not known."""
        lineage, training = self.lineage, self.training
        type_of_node = np.full(training.program.n_leaves + len(training.program.nodes), -1)
        for parent in (lineage.left, lineage.right):
            waited = (parent >= 0) & (lineage.position[parent] < lineage.position)
            type_of_node[lineage.node[parent[waited]]] = lineage.type[waited]
        return type_of_node


def _means(step: np.ndarray, values: np.ndarray, mean: float) -> np.ndarray:
    """Return the mean of the values of each step. Two mean values count beside those of each step."""
    n = np.bincount(step, minlength=N_STEPS)
    return (np.bincount(step, values, minlength=N_STEPS) + 2.0 * mean) / (n + 2.0)


def _shares(step: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the share of the sum of values that falls on each step."""
    return np.bincount(step, values, minlength=N_STEPS)[:N_STEPS] / max(values.sum(), 1e-12)


class Worth(NamedTuple):
    """What partial matches are worth, and which events they wait for."""

    # float64, (n_leaves, N_STEPS + 1): logarithm of the matches for a second of work that come from partial
    # matches with an event of this step, over the mean; the last step is unknown
    of_step: np.ndarray
    partner: np.ndarray  # int64, (n_nodes,): type of the events that each node waits for; -1: not known
    n_matches: np.ndarray  # float64, (n_nodes,): matches that come from a partial match of a node, on average
    # like ``of_step``, but for a partial match and not for a second of work
    matches_of_step: np.ndarray

    def of(self, steps: np.ndarray) -> np.ndarray:
        """Return the worth of partial matches, given the steps of their events by leaf."""
        return self.of_step[np.arange(steps.shape[1]), steps].sum(axis=1)

    def matches(self, nodes: np.ndarray, steps: np.ndarray) -> float:
        """Return how many matches partial matches of these nodes would become, with these steps by leaf."""
        share = np.exp(self.matches_of_step[np.arange(steps.shape[1]), steps].sum(axis=1))
        return float(self.n_matches[nodes] @ share)


# The strategy.


@dataclass(frozen=True)
class Cohesive(SafeSettings):
    """Keep whole stretches of the stream, and drop what comes too late or costs too much for its matches.

    A match needs all of its events. So a stretch without gaps keeps more matches than as many events here
    and there. Three rules decide when an event leaves the buffers:

    1. An event that has waited for longer than the bound is dropped.
    2. While more work waits than fits into the bound, events of low utility are dropped. The utility is that
       of `Darling`. The warm-up says which least utility of each type keeps most matches in the time.
    3. An event that would meet more partial matches than fit into the bound meets those with most matches
       for a second of work. The others are dropped.

    A live `stream` processes events in blocks. There, once the oldest event is late and too much work waits,
    all events that have waited for more than a tenth of the bound go together, and a new stretch begins.
    Events of low utility go only if the others bring 1.5 times as many matches for their work, since the
    warm-up does not know all costs.

    Events of types that must be absent are never dropped, so there are no false matches. Nothing is dropped
    while all work that waits fits into the bound.

    Parameters
    ----------
    safety : float
        Share of the latency bound to aim at while events of low utility are dropped.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("ab") * 400, "ts": range(800)})
    >>> given = {"latency_bound": "1 ms", "event_type": "kind", "order_by": "ts"}
    >>> for strategy in (cep.Cohesive(), "random_input"):
    ...     found = cep.replay(frame, "PATTERN SEQ(a x, b y) WITHIN 20", shedding=strategy, **given)
    ...     print(found.run.strategy.name, round(found.recall * found.within_bound, 2))
    cohesive 0.97
    random_input 0.9
    """

    name: ClassVar[str] = "cohesive"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows filters by utility."""
        return _KeepStretches(self, training)


class _KeepStretches(Shedder):
    KEPT = (
        "bound", "service", "is_full", "steps", "first", "oldest", "dropped", "edges", "filters",
        "worth", "pair_seconds", "matches", "lost_matches",
    )  # fmt: skip

    def __init__(self, strategy: Cohesive, training: Training):
        super().__init__()
        self._safety, self._bound, self._service = strategy.safety, training.latency_bound, training.service
        self._training, self._present = training, present_types(training.program)
        stream = StreamColumns(training.program, training.events)
        samples = samples_of_warm_up(stream, training.n_events, seed=training.seed)
        self._utilities = PatternUtilities(training.program, samples, stream.known, size=SAMPLE)
        cuts = np.arange(1, N_STEPS) / N_STEPS
        kinds = stream.type_of_event[: training.n_events]
        self._edges = np.zeros((len(training.program.types), len(cuts)))
        for number in np.unique(kinds[kinds >= 0]).tolist():
            rows = np.flatnonzero(kinds == number)
            self._edges[number] = np.quantile(self._utilities.of(number, stream.take(rows), len(rows)), cuts)
        self._first, self._steps = 0, self._steps_of(training.events)  # steps of events from `_first` on
        warm_up = WarmUpWork(training, self._steps)
        self._filters, self._worth = warm_up.filters(), warm_up.worth()
        self._pair_seconds, self._matches = warm_up.pair_seconds(), warm_up.matches_of_event()
        self._is_full, self._oldest = False, 0
        self._lost_matches = 0.0
        self._dropped = [0, 0, 0]  # late events, events of low utility, partial matches

    def _steps_of(self, events: Events) -> np.ndarray:
        """Return the step of utility of each event; that of other types is unknown."""
        stream = StreamColumns(self._training.program, events)
        steps = np.full(events.n_events, N_STEPS)
        for number, (rows, edges) in enumerate(zip(stream.rows_of_type, self._edges, strict=True)):
            utility = self._utilities.of(number, stream.take(rows), len(rows))
            steps[rows] = np.searchsorted(edges, utility, side="right")
        return steps

    def extend(self, events: Sequence[Events]) -> None:
        """Take in events that follow in a live stream, and forget those that no partial match has."""
        gone = self._oldest - self._first
        if 2 * gone > len(self._steps):
            self._first, self._steps = self._oldest, self._steps[gone:]
        self._steps = np.append(self._steps, self._steps_of(events[0]))

    def adapt(self, seconds_of_type: Sequence[float], delay: float) -> Sequence[int]:
        rates = np.maximum(self._training.rates, 1e-12)
        self._service = float(np.average(seconds_of_type, weights=rates))
        self._bound = max(0.0, self._training.latency_bound - delay)
        return ()

    @property
    def patience(self) -> float:
        return self._bound

    @property
    def lost_matches(self) -> float:
        return self._lost_matches

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Return whether an event is in time and worth its work, and drop partial matches that it meets."""
        number = event.type
        if number not in self._present:
            return True
        self.charged["update"] += 1
        self._oldest = machine.oldest_position
        left = self._bound - (load.clock - event.arrival)
        if left < 0:
            self._dropped[0] += 1
            return False
        step = int(self._steps[event.position - self._first])
        if (least := self._least_steps(load)) is not None:
            self.charged["utility"] += self._utilities.n_conditions(number)
            self.charged["lookup"] += 1
            if step < least[number]:
                self._dropped[1] += 1
                return False
        if machine.n_alive * self._pair_seconds[number].max() > left:
            self._prune(machine, number, left, self._pair_seconds[number, step])
        return True

    def before_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load, machine: TreeMachine
    ) -> np.ndarray:
        """Decide for a block as `before` does for an event. An event may take as long as the bound."""
        may = np.ones(len(types), bool)
        is_present = np.isin(types, list(self._present))
        if not is_present.any():
            return may
        self._oldest = machine.oldest_position
        steps = self._steps[positions - self._first]
        if (least := self._least_steps(load, _CLEAR)) is not None:
            may = ~is_present | (steps >= least[types])
            self._dropped[1] += int(len(may) - may.sum())
        for number in np.unique(types[may & is_present]).tolist():
            if machine.n_alive * self._pair_seconds[number].max() > self._bound:
                step = steps[may & (types == number)].max()
                self._prune(machine, number, self._bound, self._pair_seconds[number, step])
        return may

    def late(self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load) -> np.ndarray:
        """Return the events that have waited for a small share of the bound: a new stretch begins."""
        if load.waiting * self._service <= self._safety * self._bound:
            return positions[:0]  # few events wait after a pause of the stream, and they are served soon
        is_late = (load.clock - arrivals > _AGAIN * self._bound) & np.isin(types, list(self._present))
        self._dropped[0] += int(is_late.sum())
        return positions[is_late]

    def _least_steps(self, load: Load, gain: float = 1.0) -> np.ndarray | None:
        """Return the least step of each type that stays; None while the work that waits fits the bound."""
        most = (self._safety if self._is_full else 1.0) * self._bound
        self._is_full = load.waiting * self._service > most
        if not self._is_full:
            return None
        share = self._safety * self._bound / (load.waiting * self._service)
        return self._filters.best(min(share, 1.0 / (load.arrival_rate * self._service)), gain)

    def _prune(self, machine: TreeMachine, number: int, left: float, pair_seconds: float) -> None:
        """Drop partial matches that an event would meet if it takes too long: those of least worth."""
        partial = machine.partial()
        rows = np.flatnonzero((partial.state > 0) & (self._worth.partner[partial.node] == number))
        n = len(rows)
        if n * pair_seconds <= left:
            return
        price = sum(self._training.prices[name] for name in _OF_CHOICE)
        n_kept = int(max(0.0, left - n * price) / pair_seconds)
        for name in _OF_CHOICE:
            self.charged[name] += n
        if n_kept >= n:
            return
        place = partial.members[rows] - self._first
        steps = np.where(place >= 0, self._steps[np.maximum(place, 0)], N_STEPS)
        order = np.argsort(self._worth.of(steps), kind="stable")
        gone = order[: n - n_kept]
        n_dropped = machine.drop(partial.id[rows[gone]])
        self._lost_matches += self._worth.matches(partial.node[rows[gone]], steps[gone])
        self.charged["drop"] += n_dropped
        self._dropped[2] += n_dropped

    def worth_of(self, number: int, positions: np.ndarray) -> np.ndarray:
        return self._matches[number, self._steps[positions - self._first]]

    def worth_of_drops(self, types: np.ndarray, positions: np.ndarray) -> np.ndarray:
        mean = np.maximum(self._matches.mean(axis=1), 1e-12)
        steps = np.minimum(self._steps[positions - self._first], N_STEPS - 1)
        return self._matches[types, steps] / mean[types]

    def size_bytes(self) -> int:
        return self._worth.of_step.nbytes + self._pair_seconds.nbytes

    def report(self) -> Mapping[str, Any]:
        """Return what was dropped and why, and the filters of the warm-up."""
        late, useless, partial = self._dropped
        return {
            "late_events": late, "useless_events": useless, "dropped_partial_matches": partial,
            "is_full": self._is_full,
            "filters": {name: values.tolist() for name, values in self._filters._asdict().items()},
        }  # fmt: skip
