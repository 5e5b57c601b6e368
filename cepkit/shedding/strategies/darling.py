"""DARLING: drop the waiting events that are least likely to be part of a match.

Source: DARLING (Chapnik, Kolchinsky and Schuster, PVLDB 15(3), 2022), section 4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.errors import CepError, nearest, whole_number
from cepkit.shedding.buffers import N_SLOTS, NEWEST, OLDEST, RANDOM, BufferRule, EventBuffers, utility_slot
from cepkit.shedding.model import limits, nfa_costs, tree_costs
from cepkit.shedding.model.distributions import N_VALUES, PDFS, DriftWatch, gaps_of
from cepkit.shedding.model.event_utilities import (
    AS_PRINTED,
    COMBINATIONS,
    LARGEST,
    NEGATIONS,
    PatternUtilities,
    combine_utilities,
)
from cepkit.shedding.model.shares import EMPIRICAL, SAMPLE
from cepkit.shedding.model.statistics import (
    PatternStatistics,
    StreamColumns,
    cost_trees,
    renew_statistics,
    statistics_of_warm_up,
)
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree.machine import TreeMachine

POSITION = "position"
TIES = (RANDOM, POSITION)
TREE, NFA = "tree", "nfa"
COST_MODELS = {TREE: tree_costs.event_cost, NFA: nfa_costs.event_cost}
_CHUNK = 256  # events of a type whose utilities are computed together
_MOST_KNOWN = 1 << 16
_SLOW = 1e-3  # share of the newest value in the mean service time: it follows about 1,000 events


@dataclass(frozen=True)
class Darling:
    """Drop the waiting events of least utility, as DARLING does.

    The waiting events of all types together may be as many as the server processes within ``beta`` of the
    latency bound. Above that, each type keeps at most its own share of them and drops those of least utility.
    The utility of an event is the probability that it fulfils all conditions that read it, given the events
    that were seen.

    Parameters
    ----------
    split : str
        How the types share the room, N_T. ``"darling"``: in proportion to Z(T) R(T), the work that a type
        brings, as in the paper. ``"rate"``: in proportion to R(T). ``"darling_scaled"``: the paper's split,
        made smaller so that full buffers are processed within ``beta`` of the bound.
    pdf : str
        What stands for the attributes of other events. ``"empirical"``: the events that were seen, so that
        any condition on any number of attributes works. ``"normal"``, ``"lognormal"``, ``"kde"``: a
        distribution that is fitted to each numeric attribute.
    beta : float
        Share of the latency bound to use, above 0 and at most 1.
    n_slots : int
        xi: number of steps of utility.
    tie : str
        Which event of the lowest step goes first. ``"random"``: any. ``"position"``: the oldest for types in
        the first half of the pattern, and the newest for the others, as the authors' program does.
    order_aware : bool
        Whether the cost model knows that events of a sequence come in order. It then predicts Z(T) better.
        But the first type of a sequence costs almost nothing, and the splits by cost leave it no room, so
        more matches are lost. With ``split="rate"`` it only moves the thresholds.
    form : str
        ``"corrected"`` or ``"printed"``: the cost model; see `cepkit.shedding.model.tree_costs`.
    cost_model : str
        ``"tree"``: for left-deep trees. ``"nfa"``: for an automaton with runs.
    negation : str
        Utility of events of a negated type. ``"printed"``: the probability that their conditions hold.
        ``"kills"``: the probability that they forbid a match. The two differ when the query says that the
        conditions allow a negated event.
    combine : str
        Utility of an event for several patterns: ``"max"`` or the weighted ``"mean"``.
    drift : bool
        Whether to watch rates and attributes, and to compute everything again when they change. Needs the
        packages of ``cepkit[papers]``.
    sample : int
        Events to keep of each type.

    Raises
    ------
    CepError
        When a setting is not one of those above.

    Notes
    -----
    Admitting an event takes O(1) while the buffers are not full. Above the threshold gamma_T, a utility
    takes O(conditions log sample), or O(conditions sample) for conditions that no sorted sample answers.

    Limits of the method: conditions count as independent, and time, order and window do not count.
    Dropping an event of a negated type can make false matches, so precision can fall below 1.

    Source: DARLING. Differs: all types drop when the buffers are full, not only the type that arrives, and
    they drop down to their limits. The paper's split can break the bound; the example shows it.

    Examples
    --------
    Events of type B take 10 times as long as those of type A. The bound is 1.5 s. The paper's split gives B
    most of the room, so full buffers take 2.0 s. The other two splits keep to 1.2 s, which is 0.8 of the
    bound. They differ in what they keep: more events of A, or as much work of each type as the paper does.

    >>> from cepkit.shedding.model.limits import SPLITS, buffer_limits, drain_time, queue_limit
    >>> cost, rate = {"A": 0.001, "B": 0.010}, {"A": 10, "B": 10}
    >>> n_in = queue_limit(latency_bound_s=1.5, mean_service_s=0.0055)
    >>> for split in SPLITS:
    ...     room = buffer_limits(n_in, cost, rate, safety=0.8, split=split)
    ...     print(f"{split:15}{room}  {drain_time(room, cost):.1f} s")
    darling        {'A': 20, 'B': 199}  2.0 s
    rate           {'A': 110, 'B': 110}  1.2 s
    darling_scaled {'A': 12, 'B': 119}  1.2 s

    With one rare type of expensive events, the paper's split takes 14 times the bound:

    >>> cost, rate = {"A": 0.0001, "B": 0.0001, "C": 0.020}, {"A": 50, "B": 50, "C": 5}
    >>> n_in = queue_limit(1.5, sum(cost[t] * rate[t] for t in cost) / sum(rate.values()))
    >>> for split in SPLITS:
    ...     room = buffer_limits(n_in, cost, rate, safety=0.8, split=split)
    ...     print(f"{split:15}{room}  {drain_time(room, cost):.1f} s")
    darling        {'A': 53, 'B': 53, 'C': 1042}  20.9 s
    rate           {'A': 546, 'B': 546, 'C': 55}  1.2 s
    darling_scaled {'A': 3, 'B': 3, 'C': 60}  1.2 s
    """

    split: str = limits.DARLING
    pdf: str = EMPIRICAL
    beta: float = 0.8
    n_slots: int = N_SLOTS
    tie: str = RANDOM
    order_aware: bool = False
    form: str = tree_costs.CORRECTED
    cost_model: str = TREE
    negation: str = AS_PRINTED
    combine: str = LARGEST
    drift: bool = True
    sample: int = SAMPLE

    def __post_init__(self) -> None:
        choices = {
            "split": limits.SPLITS, "pdf": PDFS, "tie": TIES, "form": tree_costs.FORMS,
            "cost_model": tuple(COST_MODELS), "negation": NEGATIONS, "combine": COMBINATIONS,
        }  # fmt: skip
        for name, names in choices.items():
            if (value := getattr(self, name)) not in names:
                raise CepError(
                    f"Darling({name}={value!r}): expected {_listed(names)}.{nearest(str(value), names)}"
                )
        for name in ("order_aware", "drift"):
            if not isinstance(getattr(self, name), bool):
                raise CepError(f"Darling({name}={getattr(self, name)!r}): expected True or False")
        if isinstance(self.beta, bool) or not isinstance(self.beta, int | float) or not 0 < self.beta <= 1:
            raise CepError(f"Darling(beta={self.beta!r}): expected a share above 0 and at most 1")
        whole_number("n_slots", self.n_slots, 1)
        whole_number("sample", self.sample, 2)

    @property
    def name(self) -> str:
        """``"darling"``."""
        return "darling"

    def prepare(self) -> None:
        """Import what the strategy needs, so that nothing is missing later.

        Raises
        ------
        MissingDependencyError
            When drift detection is on and its packages are not installed.
        """
        if self.drift:
            DriftWatch({}, {}, lambda number, positions: {})

    def begin(self, training: Training) -> DarlingShedder:
        """Return a shedder that knows the statistics of the warm-up.

        Raises
        ------
        CepError
            When the warm-up has no events.
        MissingDependencyError
            When drift detection is on and its packages are not installed.
        """
        if training.n_events < 1:
            raise CepError("Darling learns from a warm-up, and this one has no events; give it some")
        return DarlingShedder(self, training)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:-1])) + f" or {names[-1]!r}"


class _Pattern:
    """One pattern of a run: its stream, statistics, costs and utilities."""

    def __init__(self, training: Training, settings: Darling, types: tuple[str, ...]):
        self.training, self.settings = training, settings
        self.weight = training.weight
        self.streams = [(0, StreamColumns(training.program, training.events))]
        self._newest = 0, self.streams[0][1].clock
        self.own_type = {types.index(name): i for i, name in enumerate(training.program.types)}
        self.statistics = statistics_of_warm_up(
            self.streams[0][1], training.n_events, training.evaluated, training.passed,
            size=settings.sample, seed=training.seed,
        )  # fmt: skip
        self.build()

    def build(self) -> None:
        """Compute costs and utilities from the statistics."""
        settings, program, stream = self.settings, self.training.program, self.streams[-1][1]
        prices = self.training.prices
        event_cost = COST_MODELS[settings.cost_model]
        cost = np.full(len(program.types), prices.get("event", 0.0))
        for tree, leaves in cost_trees(program, self.statistics, prices, order_aware=settings.order_aware):
            for i, leaf in enumerate(leaves):
                cost[program.leaves[leaf].type] += event_cost(tree, i, settings.form)
        self.cost = cost
        self.utilities = PatternUtilities(
            program, self.statistics, stream.known, stream.kinds, pdf=settings.pdf,
            negation=settings.negation, size=settings.sample,
        )  # fmt: skip

    def renew(self, positions: Mapping[int, np.ndarray]) -> None:
        """Compute statistics, costs and utilities again from the newest events, by type of the run."""
        start, stream = self.streams[-1]
        newest = {self.own_type[number]: at for number, at in positions.items() if number in self.own_type}
        samples = {number: self.take(at) for number, at in newest.items() if len(at)}
        inside = [at[at >= start] - start for at in newest.values()]
        self.statistics = renew_statistics(stream, samples, inside, self.statistics)
        self.build()

    @property
    def end(self) -> int:
        """Position after the last event that is known."""
        start, last = self.streams[-1]
        return start + last.events.n_events

    def extend(self, events: Events) -> None:
        """Take in the events that follow."""
        self.streams.append((self.end, StreamColumns(self.training.program, events)))
        self._newest = self.streams[-1][0], self.streams[-1][1].clock

    def forget(self, before: int) -> None:
        """Forget batches of events that end before a position."""
        while len(self.streams) > 1 and self.streams[1][0] <= before:
            del self.streams[0]

    def take(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of events at ascending positions."""
        if len(self.streams) == 1:
            start, stream = self.streams[0]
            return stream.take(positions - start)
        of_stream = np.searchsorted([start for start, _ in self.streams], positions, side="right") - 1
        used = np.unique(of_stream).tolist() or [-1]
        parts = [self.streams[i][1].take(positions[of_stream == i] - self.streams[i][0]) for i in used]
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def time(self, position: int) -> float:
        """Return the time of an event by the clock of the window, or its position without one."""
        start, clock = self._newest
        if position < start:
            start, clock = self._at(position)[0], self._at(position)[1].clock
        return position if clock is None else clock.item(position - start)

    def _at(self, position: int) -> tuple[int, StreamColumns]:
        """Return the batch that has a position, with the position of its first event."""
        for start, stream in reversed(self.streams):
            if start <= position:
                return start, stream
        raise CepError(f"event {position} is older than all that are kept")

    def rows_of_type(self, own: int, position: int) -> np.ndarray:
        """Return some positions of events of a type from a position on that are known."""
        start, stream = self._at(position)
        rows = stream.rows_of_type[own]
        at = int(np.searchsorted(rows, position - start))
        return rows[at : at + _CHUNK] + start

    def save(self) -> dict[str, Any]:
        """Return the statistics as numbers and arrays."""
        statistics = self.statistics
        return {
            "in_window": statistics.in_window,
            "selectivity": list(statistics.selectivity),
            "evaluations": list(statistics.evaluations),
            "samples": {str(number): dict(columns) for number, columns in statistics.samples.items()},
            "end": self.end,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        samples = {int(number): dict(columns) for number, columns in saved["samples"].items()}
        self.statistics = PatternStatistics(
            np.asarray(saved["in_window"]), tuple(saved["selectivity"]), tuple(saved["evaluations"]), samples
        )
        if saved["end"] > self.end:  # the events between were there before the restart
            nothing = StreamColumns(self.training.program, self.training.events.between(0, 0))
            self.streams = [(saved["end"], nothing)]
            self._newest = saved["end"], nothing.clock
        self.build()

    def measured(self) -> list[float]:
        """Return the mean seconds of an event of each type in the warm-up; NaN: there was none."""
        seconds, types = np.asarray(self.training.service_of_event), np.asarray(self.training.type_of_event)
        n = len(self.training.program.types)
        return [float(seconds[types == i].mean()) if (types == i).any() else float("nan") for i in range(n)]


class DarlingShedder(Shedder):
    """The state of `Darling` in one run."""

    def __init__(self, settings: Darling, training: Training):
        super().__init__()
        self._settings, self._training = settings, training
        self._types = training.types
        self._patterns = [_Pattern(query, settings, self._types) for query in training.patterns]
        self._of_type = {
            number: [
                (pattern, pattern.own_type[number])
                for pattern in self._patterns
                if number in pattern.own_type
            ]
            for number in range(len(self._types))
        }
        self.rate = {
            name: float(patterns[0][0].training.rates[patterns[0][1]])
            for name, patterns in zip(self._types, self._of_type.values(), strict=True)
        }
        self._service, self._is_told = training.service, False  # whether `adapt` tells the service time
        self._known: dict[int, float] = {}
        self._slot_of: dict[int, tuple[int, int]] = {}
        # Events by type and step of utility: those that were put into arrays, and those that were dropped.
        self._seen, self._dropped = (
            np.zeros((len(self._types), settings.n_slots + 1), np.int64) for _ in "ab"
        )
        self.n_utilities = self.n_recomputed = 0
        self._buffers = EventBuffers(self._rule(training.service))
        self._newest = -1
        self._recent: dict[int, deque[tuple[int, float]]] = {
            number: deque(maxlen=N_VALUES) for number in range(len(self._types))
        }
        self._gaps: dict[int, tuple[float, float]] = {}  # mean and deviation, by the clock of the window
        for number in range(len(self._types)):
            pattern, own_type = self._of_type[number][0]
            rows = pattern.streams[0][1].rows_of_type[own_type]
            gaps = gaps_of(self._clock(number, rows[rows < training.n_events]))
            if gaps is not None:
                self._gaps[number] = gaps
        self._watch = self._begin_watch() if settings.drift else None

    # --- constraints

    def _rule(self, service: float) -> BufferRule:
        """Return the limits of all buffers by the statistics now; equations 5 to 10 and N_T."""
        settings, names = self._settings, self._types
        self.cost = {
            name: float(sum(pattern.cost[own_type] for pattern, own_type in self._of_type[number]))
            for number, name in enumerate(names)
        }
        of_type = self._training.weight_of_type
        weights = {
            name: max(pattern.weight for pattern, _ in self._of_type[number]) * of_type.get(name, 1.0)
            for number, name in enumerate(names)
        }
        self._service_of_limits = service
        self.n_in = limits.queue_limit(self._training.latency_bound, service)
        self.limits = limits.buffer_limits(
            self.n_in, self.cost, self.rate, safety=settings.beta, split=settings.split, weights=weights
        )
        self.limit = min(settings.beta * self.n_in, sum(self.limits.values()))
        self._n_conditions = [
            sum(pattern.utilities.n_conditions(own_type) for pattern, own_type in self._of_type[number])
            for number in range(len(names))
        ]
        price = self._training.prices.get("utility", 0.0)
        self.thresholds = {
            name: limits.array_threshold(
                self.limits[name], self._n_conditions[number], price, self.cost[name]
            ) if self.cost[name] > 0 else 0
            for number, name in enumerate(names)
        }  # fmt: skip
        numbers = range(len(names))
        tie = {}
        if settings.tie == POSITION:
            tie = {number: OLDEST if 2 * number < len(names) else NEWEST for number in numbers}
        return BufferRule(
            self.limit,
            {number: self.limits[names[number]] for number in numbers},
            {number: self.thresholds[names[number]] for number in numbers},
            self._utility,
            tie,
            settings.n_slots,
            self._training.seed,
        )

    # --- events

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        """Take in an event, and return the events to drop, those of least utility."""
        number, position = event.type, event.position
        self._newest = position
        if not self._is_told:
            self._service += _SLOW * (load.service - self._service)
        watch, dropped = self._watch, ()
        if watch is not None:
            self._recent[number].append((position, event.arrival))
            pattern, _ = self._of_type[number][0]
            watch.see(number, position, pattern.time(position))
            self.charged["update"] += 2
            if watch.alarms and len(self._buffers) < self.limit / 2:
                dropped = self._recompute()
        dropped = [*dropped, *self._buffers.push(number, position)]
        if dropped:
            self._note_dropped(dropped)
        return dropped

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Take an event out of its buffer."""
        number, position = event.type, event.position
        if self._buffers.waits(number, position):
            if self._buffers.remove(number, position):
                self.charged["array"] += 1
            if self._known:
                self._known.pop(position, None)
                self._slot_of.pop(position, None)
        return True

    def adapt(self, service: float) -> list[int]:
        """Set the limits for another mean time of events, in seconds; return the events to drop."""
        self._service, self._is_told = service, True
        self._buffers.change(self._rule(service))
        if dropped := self._buffers.drop_surplus():
            self._note_dropped(dropped)
        return dropped

    def extend(self, events: Sequence[Events]) -> None:
        """Take in events that follow in the stream, once for each pattern, before they are admitted."""
        waiting = [at for number in self._of_type if (at := self._buffers.oldest(number)) is not None]
        keep = min([self._newest, *waiting, *(recent[0][0] for recent in self._recent.values() if recent)])
        for pattern, more in zip(self._patterns, events, strict=True):
            pattern.extend(more)
            pattern.forget(keep)

    def _utility(self, number: int, position: int) -> float:
        """Return the utility of an event, and charge for it. Utilities of some next events are kept."""
        utility = self._utility_of(number, position)
        self.charged["utility"] += self._n_conditions[number]
        self.charged["array"] += 1
        self.n_utilities += 1
        slot = number, utility_slot(utility, self._settings.n_slots)
        self._slot_of[position] = slot
        self._seen[slot] += 1
        return utility

    def _utility_of(self, number: int, position: int) -> float:
        """Return the utility of an event without a charge."""
        if position not in self._known:
            self._compute(number, position)
        return self._known[position]

    def _compute(self, number: int, position: int) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known = {at: utility for at, utility in self._known.items() if at >= position}
        patterns = self._of_type[number]
        first, own_type = patterns[0]
        rows = first.rows_of_type(own_type, position)
        utilities = [pattern.utilities.of(kind, pattern.take(rows), len(rows)) for pattern, kind in patterns]
        weights = [pattern.weight for pattern, _ in patterns]
        combined = combine_utilities(utilities, weights, self._settings.combine)
        self._known.update(zip(rows.tolist(), combined.tolist(), strict=True))

    def _note_dropped(self, dropped: Sequence[int]) -> None:
        self.charged["array"] += len(dropped)
        if self._settings.tie == RANDOM:
            self.charged["draw"] += len(dropped)
        for position in dropped:
            self._known.pop(position, None)
            self._dropped[self._slot_of.pop(position)] += 1

    # --- drift

    def _clock(self, number: int, positions: np.ndarray) -> np.ndarray:
        pattern, _ = self._of_type[number][0]
        return np.array([pattern.time(at) for at in positions.tolist()], np.float64)

    def _begin_watch(self) -> DriftWatch:
        samples: dict[int, dict[str, np.ndarray]] = {}
        for number, patterns in self._of_type.items():
            samples[number] = {}
            for pattern, own_type in reversed(patterns):
                samples[number].update(pattern.statistics.samples[own_type])
        floats = {
            number: {name: np.asarray(values, np.float64) for name, values in columns.items() if len(values)}
            for number, columns in samples.items()
        }
        return DriftWatch(self._gaps, floats, self._values_at)

    def _values_at(self, number: int, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the attributes of events of a type, in all patterns that read it."""
        values: dict[str, np.ndarray] = {}
        for pattern, _ in reversed(self._of_type[number]):
            values.update(pattern.take(positions))
        return values

    def _recompute(self) -> list[int]:
        """Compute statistics, limits and utilities again from the newest events; return what is dropped."""
        oldest = max(pattern.streams[0][0] for pattern in self._patterns)
        positions = {
            number: np.array([at for at, _ in recent if at >= oldest], np.int64)
            for number, recent in self._recent.items()
        }
        for number, at in positions.items():
            gaps = gaps_of(self._clock(number, at))
            if gaps is not None:
                self._gaps[number] = gaps
        self._renew_rates()
        for pattern in self._patterns:
            pattern.renew(positions)
            n = sum(len(at) for at in positions.values())
            self.charged["utility"] += len(pattern.statistics.selectivity) * self._settings.sample
            self.charged["update"] += n
            self.charged["sort"] += round(
                pattern.utilities.n_ranked() * self._settings.sample * log2(self._settings.sample)
            )
        self._known.clear()
        self._slot_of.clear()
        self._buffers.change(self._rule(self._service))
        self._watch = self._begin_watch()
        self.n_recomputed += 1
        return self._buffers.drop_surplus()

    def _renew_rates(self) -> None:
        """Count the newest events of all types over the same time."""
        filled = [recent for recent in self._recent.values() if recent]
        first = min((recent[0][1] for recent in filled), default=0.0)
        start = max((recent[0][1] for recent in filled if len(recent) == N_VALUES), default=first)
        seconds = max((recent[-1][1] for recent in filled), default=0.0) - start
        if seconds > 0:
            for number, recent in self._recent.items():
                n = sum(arrival >= start for _, arrival in recent)
                if n:
                    self.rate[self._types[number]] = n / seconds

    # --- what it says, and restarts

    def size_bytes(self) -> int:
        """Return the memory of arrays and their pointers: 8 bytes each. Source: DARLING, section 4.4."""
        n_slots = self._settings.n_slots + 1
        arrays = (self._buffers.arrays(number) for number in range(len(self._types)))
        return sum(8 * (len(part) + n_slots) for part in arrays if part is not None)

    def report(self) -> Mapping[str, object]:
        """Return limits, costs, drops by utility, and the state of drift detection."""
        of_types = {}
        for number, name in enumerate(self._types):
            measured = [pattern.measured()[own_type] for pattern, own_type in self._of_type[number]]
            of_types[name] = {
                "limit": self.limits[name],
                "threshold": self.thresholds[name],
                "rate": self.rate[name],
                "cost": self.cost[name],
                "measured_cost": float(np.sum(measured)),
                "waiting": self._buffers.size(number),
                "has_arrays": self._buffers.arrays(number) is not None,
                "seen": self._seen[number].tolist(),
                "dropped": self._dropped[number].tolist(),
            }
        watch = self._watch
        return {
            "n_in": self.n_in,
            "limit": self.limit,
            "utilities": self.n_utilities,
            "types": of_types,
            "drift": None
            if watch is None
            else {"alarms": dict(watch.alarms), "tests": watch.n_tests, "recomputed": self.n_recomputed},
            "unknown_conditions": [text for pattern in self._patterns for text in pattern.utilities.unknown],
        }

    def save(self) -> Mapping[str, object]:
        """Return statistics, utilities, arrays and the state of drift detection."""
        waiting = [(number, at) for number in self._of_type for at in self._buffers.events(number)]
        values = {at: self._known[at] if at in self._known else self._utility_of(n, at) for n, at in waiting}
        return {
            "types": list(self._types),
            "rate": dict(self.rate),
            "gaps": {str(number): list(gap) for number, gap in self._gaps.items()},
            "service": self._service,
            "service_of_limits": self._service_of_limits,
            "is_told": self._is_told,
            "patterns": [pattern.save() for pattern in self._patterns],
            "buffers": self._buffers.save(),
            "known": {"positions": list(values), "utilities": list(values.values())},
            "slots": [[at, *slot] for at, slot in self._slot_of.items()],
            "seen": self._seen.copy(),
            "dropped": self._dropped.copy(),
            "counts": [self.n_utilities, self.n_recomputed, self._newest],
            "recent": {str(number): [list(pair) for pair in pairs] for number, pairs in self._recent.items()},
            "watch": None if self._watch is None else self._watch.save(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned. The events that follow have the positions after those before."""
        if list(saved["types"]) != list(self._types):
            raise CepError(
                f"the saved run has the types {list(saved['types'])}, and this one {list(self._types)}"
            )
        self.rate = dict(saved["rate"])
        self._gaps = {int(number): tuple(gap) for number, gap in saved["gaps"].items()}
        self._service, self._is_told = saved["service"], saved.get("is_told", False)
        for pattern, state in zip(self._patterns, saved["patterns"], strict=True):
            pattern.restore(state)
        self._buffers = EventBuffers(self._rule(saved["service_of_limits"]))
        self._buffers.restore(saved["buffers"])
        self._known = dict(zip(saved["known"]["positions"], saved["known"]["utilities"], strict=True))
        self._slot_of = {at: (number, slot) for at, number, slot in saved["slots"]}
        self._seen, self._dropped = np.array(saved["seen"]), np.array(saved["dropped"])
        self.n_utilities, self.n_recomputed, self._newest = saved["counts"]
        for number, state in saved["recent"].items():
            self._recent[int(number)] = deque(map(tuple, state), maxlen=N_VALUES)
        if self._watch is not None:
            self._watch = self._begin_watch()
            if saved["watch"] is not None:
                self._watch.restore(saved["watch"])
