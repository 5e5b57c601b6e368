"""DARLING: drop the waiting events that are least likely to be part of a match.

Source: DARLING (Chapnik, Kolchinsky and Schuster, PVLDB 15(3), 2022), section 4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.errors import CepError, nearest, whole_number
from cepkit.shedding.buffers import (
    DARLING,
    N_SLOTS,
    NEWEST,
    NEWEST_WAITING,
    RANDOM,
    SPLITS,
    UNKNOWN,
    BufferRule,
    EventBuffers,
    Gone,
    WorkBuffers,
    array_threshold,
    buffer_limits,
    queue_limit,
    utility_slot,
)
from cepkit.shedding.model import (
    AS_PRINTED,
    N_VALUES,
    NEGATIONS,
    SAMPLE,
    DriftWatch,
    PatternUtilities,
    StreamColumns,
    samples_of_warm_up,
)
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree_machine import TreeMachine

POSITION, AUTHORS = "position", "authors"
TIES = (RANDOM, POSITION, AUTHORS)
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
        brings, as in the paper. ``"rate"``: in proportion to R(T). Z(T) is the time that an event of the type
        took in the warm-up, and in a live stream the time that it takes now.
    beta : float
        Share of the latency bound to use, above 0 and at most 1.
    n_slots : int
        xi: number of steps of utility.
    tie : str
        Which event of the lowest step goes first. ``"random"``: any. ``"position"``: the newest one, so whole
        stretches of the stream stay, and with them matches. ``"authors"``: as in the authors' program, the
        newest one for types in the first half of the pattern. Other types lose the newest event that
        arrived before the new one.
    negation : str
        Utility of events of a negated type. ``"printed"``: the probability that their conditions hold.
        ``"kills"``: the probability that they forbid a match. The two differ when the query says that the
        conditions allow a negated event.
    drift : bool
        Whether to watch rates and attributes, and to compute everything again when they change. This happens
        in times when no event waits.
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

    A live stream knows how many seconds of work wait, and drops nothing up to its latency bound. Above the
    bound, it drops until the work is within ``beta`` of the bound.

    Source: DARLING. Differs: all types drop when the buffers are full, not only the type that arrives, and
    they drop down to their limits. Z(T) is measured. The paper's split can break the bound; the example
    shows it.

    Examples
    --------
    Events of type B take 10 times as long as those of type A. The bound is 1.5 s. The paper's split gives B
    most of the room, so full buffers take 2.0 s. The split by rate keeps to 1.2 s, which is 0.8 of the bound.

    >>> from cepkit.shedding.buffers import SPLITS, buffer_limits, drain_time, queue_limit
    >>> cost, rate = {"A": 0.001, "B": 0.010}, {"A": 10, "B": 10}
    >>> n_in = queue_limit(latency_bound_s=1.5, mean_service_s=0.0055)
    >>> for split in SPLITS:
    ...     room = buffer_limits(n_in, cost, rate, safety=0.8, split=split)
    ...     print(f"{split:8}{room}  {drain_time(room, cost):.1f} s")
    darling {'A': 20, 'B': 199}  2.0 s
    rate    {'A': 110, 'B': 110}  1.2 s

    With one rare type of expensive events, the paper's split takes 14 times the bound:

    >>> cost, rate = {"A": 0.0001, "B": 0.0001, "C": 0.020}, {"A": 50, "B": 50, "C": 5}
    >>> n_in = queue_limit(1.5, sum(cost[t] * rate[t] for t in cost) / sum(rate.values()))
    >>> for split in SPLITS:
    ...     room = buffer_limits(n_in, cost, rate, safety=0.8, split=split)
    ...     print(f"{split:8}{room}  {drain_time(room, cost):.1f} s")
    darling {'A': 53, 'B': 53, 'C': 1042}  20.9 s
    rate    {'A': 546, 'B': 546, 'C': 55}  1.2 s
    """

    split: str = DARLING
    beta: float = 0.8
    n_slots: int = N_SLOTS
    tie: str = RANDOM
    negation: str = AS_PRINTED
    drift: bool = True
    sample: int = SAMPLE

    def __post_init__(self) -> None:
        choices = {"split": SPLITS, "tie": TIES, "negation": NEGATIONS}
        for name, names in choices.items():
            if (value := getattr(self, name)) not in names:
                raise CepError(
                    f"Darling({name}={value!r}): expected {_listed(names)}.{nearest(str(value), names)}"
                )
        if not isinstance(self.drift, bool):
            raise CepError(f"Darling(drift={self.drift!r}): expected True or False")
        if isinstance(self.beta, bool) or not isinstance(self.beta, int | float) or not 0 < self.beta <= 1:
            raise CepError(f"Darling(beta={self.beta!r}): expected a share above 0 and at most 1")
        whole_number("n_slots", self.n_slots, 1)
        whole_number("sample", self.sample, 2)

    @property
    def name(self) -> str:
        """``"darling"``."""
        return "darling"

    def begin(self, training: Training) -> DarlingShedder:
        """Return a shedder that knows the statistics of the warm-up.

        Raises
        ------
        CepError
            When the warm-up has no events.
        """
        if training.n_events < 1:
            raise CepError("Darling learns from a warm-up, and this one has no events; give it some")
        return DarlingShedder(self, training)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:-1])) + f" or {names[-1]!r}"


class _Pattern:
    """One pattern of a run: its stream, samples and utilities."""

    def __init__(self, training: Training, settings: Darling, types: tuple[str, ...]):
        self.training, self.settings = training, settings
        self.weight = training.weight
        self.streams = [(0, StreamColumns(training.program, training.events))]
        self._newest = 0, self.streams[0][1].clock
        self.own_type = {types.index(name): i for i, name in enumerate(training.program.types)}
        self.samples = samples_of_warm_up(
            self.streams[0][1], training.n_events, settings.sample, training.seed
        )
        self.build()

    def build(self) -> None:
        """Compute utilities from the samples."""
        self.utilities = PatternUtilities(
            self.training.program, self.samples, self.streams[-1][1].known,
            negation=self.settings.negation, size=self.settings.sample,
        )  # fmt: skip

    def renew(self, positions: Mapping[int, np.ndarray]) -> None:
        """Compute utilities again from the newest events, by type of the run."""
        newest = {self.own_type[number]: at for number, at in positions.items() if number in self.own_type}
        self.samples = {**self.samples, **{number: self.take(at) for number, at in newest.items() if len(at)}}
        self.build()

    @property
    def end(self) -> int:
        """Position after the last event that is known."""
        start, last = self.streams[-1]
        return start + last.events.n_events

    def extend(self, events: Events) -> None:
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

    def times(self, positions: list[int]) -> list[float]:
        """Return the times of events by the clock of the window, or their positions without one."""
        start, clock = self._newest
        if clock is None:
            return positions
        return [clock.item(at - start) if at >= start else self._time(at) for at in positions]

    def _time(self, position: int) -> float:
        start, stream = self._at(position)
        return stream.clock.item(position - start)

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
        """Return the samples as arrays."""
        samples = {str(number): dict(columns) for number, columns in self.samples.items()}
        return {"samples": samples, "end": self.end}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.samples = {int(number): dict(columns) for number, columns in saved["samples"].items()}
        if saved["end"] > self.end:  # the events between were there before the restart
            nothing = StreamColumns(self.training.program, self.training.events.between(0, 0))
            self.streams = [(saved["end"], nothing)]
            self._newest = saved["end"], nothing.clock
        self.build()


class DarlingShedder(Shedder):
    """The state of `Darling` in one run."""

    KEPT = ("idle", "work", "seen", "dropped")

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
        measured = {id(pattern): pattern.training.seconds_of_type for pattern in self._patterns}
        self.cost = {
            name: sum(measured[id(pattern)][own_type] for pattern, own_type in patterns)
            for name, patterns in zip(self._types, self._of_type.values(), strict=True)
        }
        self._service = training.service
        self._pace: tuple[float, ...] | None = None  # seconds for an event of each type of a live stream
        tie: list[str] = [RANDOM] * len(self._types)
        if settings.tie != RANDOM:
            n_early = (1 + len(tie)) // 2
            late = NEWEST_WAITING if settings.tie == AUTHORS else NEWEST
            tie = [NEWEST] * n_early + [late] * (len(tie) - n_early)
        self._tie, bound = dict(enumerate(tie)), training.latency_bound
        self._work = WorkBuffers(bound, settings.beta * bound, tie, training.seed)  # of a live stream
        self._known: dict[int, float] = {}
        self._slot_of: dict[int, tuple[int, int]] = {}
        # Events by type and step of utility: those that were put into arrays, and those that were dropped.
        self._seen, self._dropped = (
            np.zeros((len(self._types), settings.n_slots + 1), np.int64) for _ in "ab"
        )
        self._worth = [[0, 0.0] for _ in self._types]  # number and sum of the utilities of each type
        # The events that a live stream dropped last, and their worth over that of a mean one of their type.
        self._worths = np.empty(0, np.int64), np.empty(0)
        self.n_utilities = self.n_recomputed = 0
        self._idle = 0.0  # seconds without waiting events since the first alarm
        self._buffers = EventBuffers(self._rule())
        self._newest = -1
        self._recent: dict[int, deque[tuple[int, float]]] = {
            number: deque(maxlen=N_VALUES) for number in range(len(self._types))
        }
        self._gaps: dict[int, np.ndarray] = {}  # by the clock of the window
        for number in range(len(self._types)):
            pattern, own_type = self._of_type[number][0]
            rows = pattern.streams[0][1].rows_of_type[own_type]
            self._gaps[number] = np.diff(self._clock(number, rows[rows < training.n_events][-N_VALUES:]))
        self._watch = self._begin_watch() if settings.drift else None

    # --- constraints

    def _rule(self) -> BufferRule:
        """Return the limits of all buffers by the statistics now: N_in, N_T and gamma_T."""
        settings, names, pace = self._settings, self._types, self._pace
        of_type, numbers = self._training.weight_of_type, range(len(names))
        weights = {
            name: max(pattern.weight for pattern, _ in self._of_type[number]) * of_type.get(name, 1.0)
            for number, name in enumerate(names)
        }
        if pace is not None:
            self.cost = dict(zip(names, pace, strict=True))
            self._service = float(np.average(pace, weights=[max(rate, 1e-12) for rate in self.rate.values()]))
        self._service_of_limits = self._service
        self.n_in = queue_limit(self._training.latency_bound, self._service)
        self.limits = buffer_limits(
            self.n_in, self.cost, self.rate, safety=settings.beta, split=settings.split, weights=weights
        )
        self.limit = min(settings.beta * self.n_in, sum(self.limits.values()))
        self._n_conditions = [
            sum(pattern.utilities.n_conditions(own_type) for pattern, own_type in self._of_type[number])
            for number in numbers
        ]
        price = self._training.prices.get("utility", 0.0)
        self.thresholds = {
            name: array_threshold(
                self.limits[name], self._n_conditions[number], price, self.cost[name]
            ) if self.cost[name] > 0 else 0
            for number, name in enumerate(names)
        }  # fmt: skip
        self._work.seconds_of_type = np.array(list(self.cost.values()))
        self._work.limit_of_type = np.array(list(self.limits.values()), np.float64)
        return BufferRule(
            self.limit, {number: self.limits[names[number]] for number in numbers},
            {number: self.thresholds[names[number]] for number in numbers}, self._utility, self._tie,
            settings.n_slots, self._training.seed,
        )  # fmt: skip

    # --- events

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        """Take in an event, and return the events to drop, those of least utility."""
        number, position = event.type, event.position
        self._newest = position
        if self._pace is None:
            self._service += _SLOW * (load.service - self._service)
            self._notice(number, [position], [event.arrival])
        dropped = self._buffers.push(number, position)
        return self._noted(dropped) if dropped else dropped

    def admit_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load
    ) -> Sequence[int]:
        """Take in a batch of a live stream, and return the events to drop, those of least utility."""
        for number in range(len(self._types)):
            rows = np.flatnonzero(types == number)
            if len(rows):
                self._notice(number, positions[rows].tolist(), arrivals[rows].tolist())
        self._newest = int(positions[-1])
        return self._gone(self._work.push(types, positions, load.clock - arrivals, self._steps_of))

    def _gone(self, gone: Gone) -> Sequence[int]:
        """Take note of events that are dropped from a live stream, and return them."""
        self.charged["array"] += len(gone.position)
        if self._settings.tie == RANDOM:
            self.charged["draw"] += len(gone.position)
        has_step = gone.step != UNKNOWN
        np.add.at(self._dropped, (gone.type[has_step], gone.step[has_step]), 1)
        if self._known:
            for position in gone.position.tolist():
                self._known.pop(position, None)
        mean = np.array([total / max(1, n) for n, total in self._worth])[gone.type]
        worth = (gone.step + 0.5) / self._settings.n_slots / np.maximum(mean, 1e-300)
        self._worths = gone.position, np.where(has_step & (mean > 0.0), worth, 1.0)
        return gone.position

    def _steps_of(self, number: int, positions: np.ndarray) -> np.ndarray:
        """Return the steps of utility of events of a type."""
        utilities = self._worth_of_waiting(number, positions)
        steps = (utilities * self._settings.n_slots).astype(np.int64)
        self._seen[number] += np.bincount(steps, minlength=self._seen.shape[1])
        n, total = self._worth[number]
        self._worth[number] = [n + len(steps), total + float(utilities.sum())]
        self.n_utilities += len(steps)
        self.charged["utility"] += self._n_conditions[number] * len(steps)
        self.charged["array"] += len(steps)
        return steps

    def _worth_of_waiting(self, number: int, positions: np.ndarray) -> np.ndarray:
        """Return the utilities of events; those from before a restart were saved, and their rows were not."""
        begin = max(pattern.streams[0][0] for pattern in self._patterns)
        is_old = np.array([at < begin and at in self._known for at in positions.tolist()], bool)
        utilities = np.empty(len(positions))
        utilities[is_old] = [self._known[at] for at in positions[is_old].tolist()]
        if not is_old.all():
            utilities[~is_old] = self.worth_of(number, positions[~is_old])
        return utilities

    def _notice(self, number: int, positions: list[int], arrivals: list[float]) -> None:
        """Show events of a type to the drift detector."""
        if self._watch is not None:
            self._recent[number].extend(zip(positions, arrivals, strict=True))
            pattern, _ = self._of_type[number][0]
            self._watch.see(number, positions, pattern.times(positions))
            self.charged["update"] += 2 * len(positions)

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        number, position = event.type, event.position
        if self._buffers.waits(number, position):
            if self._buffers.remove(number, position):
                self.charged["array"] += 1
            self._known.pop(position, None)
            self._slot_of.pop(position, None)
        else:
            self.before_many(
                *(np.array([value]) for value in (number, position, event.arrival)), load, machine
            )
        return True

    def before_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load, machine: TreeMachine
    ) -> np.ndarray:
        self._work.remove(positions)
        if self._known:
            for position in positions.tolist():
                self._known.pop(position, None)
        return np.ones(len(positions), bool)

    def rest(self, seconds: float) -> None:
        """Use idle time to compute everything again after an alarm, when there was enough of it."""
        if self._watch is None or not self._watch.alarms:
            return
        self._idle += seconds
        if self._idle >= self._seconds_to_renew():
            self._idle = 0.0
            self._recompute()

    def adapt(self, seconds_of_type: Sequence[float], delay: float) -> Sequence[int]:
        """Set the limits by the seconds that events take in a live stream; return the events to drop."""
        self._pace, bound = tuple(seconds_of_type), self._training.latency_bound
        self._work.most, self._work.limit = (
            max(0.0, bound - delay),
            max(0.0, self._settings.beta * bound - delay),
        )
        self._rule()
        return self._gone(self._work.drop_surplus(self._steps_of))

    def worth_of(self, number: int, positions: np.ndarray) -> np.ndarray:
        """Return the utilities of events of a type: the greatest of all patterns."""
        of_type = self._of_type[number]
        return np.max(
            [
                pattern.utilities.of(kind, pattern.take(positions), len(positions))
                for pattern, kind in of_type
            ],
            axis=0,
        )

    def worth_of_drops(self, types: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the utilities of the events that were dropped last, over the mean utility of their type."""
        dropped, worth = self._worths
        return worth if np.array_equal(dropped, positions) else np.ones(len(positions))

    def extend(self, events: Sequence[Events]) -> None:
        """Take in events that follow in the stream, once for each pattern, before they are admitted."""
        waiting = [at for number in self._of_type if (at := self._buffers.oldest(number)) is not None]
        waiting += self._work.waiting["position"][self._work.waiting.rows(1)].tolist()
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
        self._worth[number][0] += 1
        self._worth[number][1] += utility
        return utility

    def _utility_of(self, number: int, position: int) -> float:
        """Return the utility of an event without a charge."""
        if position not in self._known:
            self._compute(number, position)
        return self._known[position]

    def _compute(self, number: int, position: int) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known = {at: utility for at, utility in self._known.items() if at >= position}
        first, own_type = self._of_type[number][0]
        rows = first.rows_of_type(own_type, position)
        self._known.update(zip(rows.tolist(), self.worth_of(number, rows).tolist(), strict=True))

    def _noted(self, dropped: Sequence[int]) -> Sequence[int]:
        """Take note of events that are dropped, and return them."""
        self.charged["array"] += len(dropped)
        if self._settings.tie == RANDOM:
            self.charged["draw"] += len(dropped)
        for position in dropped:
            self._known.pop(position, None)
            if (slot := self._slot_of.pop(position, None)) is not None:
                self._dropped[slot] += 1
        return dropped

    # --- drift

    def _clock(self, number: int, positions: np.ndarray) -> np.ndarray:
        pattern, _ = self._of_type[number][0]
        return np.array(pattern.times(positions.tolist()), np.float64)

    def _begin_watch(self) -> DriftWatch:
        samples: dict[int, dict[str, np.ndarray]] = {}
        for number, patterns in self._of_type.items():
            samples[number] = {}
            for pattern, own_type in reversed(patterns):
                samples[number].update(pattern.samples[own_type])
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

    def _seconds_to_renew(self) -> float:
        """Return how long it takes to compute everything again, by the prices."""
        price, size = self._training.prices, self._settings.sample
        n = sum(map(len, self._recent.values()))
        ranked = sum(pattern.utilities.n_ranked() for pattern in self._patterns)
        return n * price.get("update", 0.0) + ranked * size * log2(size) * price.get("sort", 0.0)

    def _recompute(self) -> None:
        """Compute samples, limits and utilities again from the newest events; no event waits."""
        oldest = max(pattern.streams[0][0] for pattern in self._patterns)
        positions = {
            number: np.array([at for at, _ in recent if at >= oldest], np.int64)
            for number, recent in self._recent.items()
        }
        for number, at in positions.items():
            if len(at) > 1:
                self._gaps[number] = np.diff(self._clock(number, at))
        self._renew_rates()
        for pattern in self._patterns:
            pattern.renew(positions)
        self._known.clear()
        self._slot_of.clear()
        self._buffers.change(self._rule())
        self._watch = self._begin_watch()
        self.n_recomputed += 1

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
            of_types[name] = {
                "limit": self.limits[name],
                "threshold": self.thresholds[name],
                "rate": self.rate[name],
                "cost": self.cost[name],
                "waiting": self._buffers.size(number) + int(self._work.n_of_type[number]),
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
        of_work = self._work.waiting.save()
        for number in range(len(self._types)):
            new = of_work["position"][(of_work["type"] == number) & (of_work["step"] == UNKNOWN)]
            if len(new):
                utilities = self._worth_of_waiting(number, new)
                values.update(zip(new.tolist(), utilities.tolist(), strict=True))
        return {
            **super().save(),
            "types": list(self._types),
            "rate": dict(self.rate),
            "gaps": {str(number): gaps for number, gaps in self._gaps.items()},
            "service": [self._service, self._service_of_limits],
            "pace": None if self._pace is None else list(self._pace),
            "worth": self._worth,
            "patterns": [pattern.save() for pattern in self._patterns],
            "buffers": self._buffers.save(),
            "known": {"positions": list(values), "utilities": list(values.values())},
            "slots": [[at, *slot] for at, slot in self._slot_of.items()],
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
        super().restore(saved)
        self.rate = dict(saved["rate"])
        self._gaps = {int(number): gaps for number, gaps in saved["gaps"].items()}
        self._worth = [list(pair) for pair in saved["worth"]]
        self._pace = None if saved["pace"] is None else tuple(saved["pace"])
        for pattern, state in zip(self._patterns, saved["patterns"], strict=True):
            pattern.restore(state)
        _, self._service = saved["service"]
        self._buffers = EventBuffers(self._rule())
        self._service, _ = saved["service"]
        self._buffers.restore(saved["buffers"])
        self._known = dict(zip(saved["known"]["positions"], saved["known"]["utilities"], strict=True))
        self._slot_of = {at: (number, slot) for at, number, slot in saved["slots"]}
        self.n_utilities, self.n_recomputed, self._newest = saved["counts"]
        for number, state in saved["recent"].items():
            self._recent[int(number)] = deque(map(tuple, state), maxlen=N_VALUES)
        if self._watch is not None:
            self._watch = self._begin_watch()
            if saved["watch"] is not None:
                self._watch.restore(saved["watch"])
