"""What a shedding strategy is, strategies by name, and those that drop at random."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import floor, inf, nan
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from cepkit.errors import CepError, nearest
from cepkit.values import asdict, dataclass, field, is_dataclass

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree_machine import EventOutcome, TreeMachine
    from cepkit.shedding.tree_program import TreeProgram


# What a shedding strategy is: settings that begin a shedder, and the shedder that decides event by event.


@dataclass(frozen=True)
class Event:
    """An event as strategies see it."""

    position: int  # its place in the stream. It names the event.
    # Number of its event type in `Training.types`, which begins with the types of the shedder's own query.
    type: int
    arrival: float  # when it arrived, in seconds


@dataclass(frozen=True)
class Load:
    """The situation of the server when it asks a shedder."""

    clock: float  # the time now, in seconds
    waiting: int  # number of events in the buffers
    # When the oldest waiting event arrived, in seconds. It equals ``clock`` when none waits.
    oldest_arrival: float
    arrival_rate: float  # events per second, as a moving average
    service: float  # mean time to process one event in this run, in seconds, as a moving average
    latency: float  # latency of processed events, in seconds, as a moving average
    alive: int  # number of partial matches


@dataclass(frozen=True)
class Training:
    """What a warm-up without shedding has measured."""

    program: TreeProgram  # the query as a tree
    events: Events  # the stream. The warm-up processed the positions below ``n_events``.
    n_events: int  # number of events of the warm-up
    latency_bound: float  # the bound, in seconds
    rates: np.ndarray  # float64, (n_types,): events per second of each type at regular load
    service: float  # mean time to process one event, in seconds
    # passed, evaluated: int64, (n_conditions,): how often each condition held, and how often the tree
    # evaluated it
    passed: np.ndarray
    evaluated: np.ndarray
    # Seconds per unit of work: ``"condition"``, ``"create"``, ``"remove"``, and one for each name that
    # shedders charge.
    prices: Mapping[str, float]
    # The machine after the warm-up. It has what it learned: ``considered``, ``contributed``, ``ancestry``.
    machine: TreeMachine
    seed: int = 0  # seed of random decisions
    # float64, (n_processed,): seconds to process each event of the warm-up whose type a query names
    service_of_event: np.ndarray = field(default_factory=lambda: np.empty(0))
    # type_of_event, alive_before: int64, (n_processed,): type of each of these events, and number of partial
    # matches before it
    type_of_event: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    alive_before: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    match_seconds: float = 0.0  # seconds to return a match from a live stream
    weight: float = 1.0  # weight of the pattern, 1 for a single one
    # Weights that the user gave to event types; missing types have weight 1.
    weight_of_type: Mapping[str, float] = field(default_factory=dict)
    # The other patterns of the run. They share its buffers. Empty for a single pattern.
    others: tuple[Training, ...] = ()

    @property
    def patterns(self) -> tuple[Training, ...]:
        """The own training, and the `others`."""
        return (self, *self.others)

    @property
    def seconds_of_type(self) -> list[float]:
        """Z(T): mean seconds of an event of each type of the query; that of all types without one."""
        seconds, types = np.asarray(self.service_of_event), np.asarray(self.type_of_event)
        return [
            float(seconds[types == i].mean()) if (types == i).any() else self.service
            for i in range(len(self.program.types))
        ]

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the event types of all patterns: first those of this one, each once."""
        return tuple(dict.fromkeys(name for pattern in self.patterns for name in pattern.program.types))


class Strategy(Protocol):
    """The settings of a strategy. They are small, frozen and comparable.

    Several patterns share one buffer. Each pattern has a shedder of its own, which `Shedder.before` and
    `Shedder.after` ask about its own machine. Only the shedder of the first pattern decides which events
    enter the buffer. Its training has the `Training.others`, so it can weigh all patterns. Its ``before``
    is called for every event that leaves the buffer, also for types that only other patterns name.
    """

    @property
    def name(self) -> str:
        """The name by which users choose the strategy."""
        ...

    def begin(self, training: Training) -> Shedder:
        """Return a shedder for one run. It learns from the warm-up."""
        ...


@dataclass
class Shedder:
    """What decides in one run. Every method does nothing here: a strategy writes what it needs.

    ``KEPT`` has the attributes that `save` and `restore` serve, without their leading ``_``.
    """

    charged: Counter[str] = field(default_factory=Counter)
    KEPT: ClassVar[tuple[str, ...]] = ()

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        """Return the positions of waiting events to drop. The new event waits already and may be dropped."""
        return ()

    def admit_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load
    ) -> Sequence[int] | None:
        """Take in a batch of a live stream, and return the positions of waiting events to drop.

        None: the stream calls `admit` for each event of the batch.
        """
        return () if type(self).admit is Shedder.admit else None

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Prepare the machine for an event that leaves the buffers: drop partial matches, skip pairs.

        Return whether the machine may process the event.
        """
        return True

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Learn from an event that the machine has processed."""

    @property
    def patience(self) -> float:
        """How many seconds events may wait in a live stream before it asks `late`."""
        return inf

    @property
    def lost_matches(self) -> float:
        """The matches of the partial matches that it dropped, as far as it knows."""
        return nan

    def late(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load
    ) -> Sequence[int]:
        """Return which of all waiting events to drop, since the oldest one has waited for too long."""
        return ()

    def before_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load, machine: TreeMachine
    ) -> np.ndarray | None:
        """Do what `before` does for events of a live stream that leave the buffers together, bool, (n,).

        None: the stream calls `before` and `after` for each event.
        """
        asks = type(self).before is not Shedder.before or type(self).after is not Shedder.after
        return None if asks else np.ones(len(positions), bool)

    def rest(self, seconds: float) -> None:
        """Use some seconds in which no event waits."""

    def adapt(self, seconds_of_type: Sequence[float], delay: float) -> Sequence[int]:
        """Take in the seconds that pass in a live stream for an event of each type; return events to drop.

        ``delay`` is how many seconds the stream keeps a match before it returns it.
        """
        return ()

    def worth_of(self, number: int, positions: np.ndarray) -> np.ndarray:
        """Return how likely events of a type are part of matches, float64, (n,), in any unit."""
        return np.ones(len(positions))

    def worth_of_drops(self, types: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return what events that were just dropped are worth, as shares of a mean one of their type."""
        return np.ones(len(positions))

    def size_bytes(self) -> int:
        """Return the memory of the shedder's own tables and arrays."""
        return 0

    def report(self) -> Mapping[str, object]:
        """Return what a user may want to see, such as thresholds and the state of drift detection."""
        return {}

    def save(self) -> Mapping[str, object]:
        """Return what a restart needs, as numbers, texts, lists, mappings and arrays."""
        return {name: _as_plain(getattr(self, f"_{name}")) for name in self.KEPT}

    def restore(self, saved: Mapping[str, object]) -> None:
        """Take back what `save` returned."""
        for name in self.KEPT:
            setattr(self, f"_{name}", _of_plain(getattr(self, f"_{name}"), saved[name]))


def _as_plain(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if hasattr(value, "save"):
        return value.save()
    if is_dataclass(value):
        return asdict(value)
    return value._asdict() if hasattr(value, "_asdict") else value


def _of_plain(now: Any, saved: Any) -> Any:
    """Return a value of the type that an attribute has now, as `_as_plain` saved it."""
    if isinstance(now, np.random.Generator):
        now.bit_generator.state = saved
    elif hasattr(now, "restore"):
        now.restore(saved)
    elif isinstance(now, np.ndarray):
        return np.array(saved, now.dtype)
    else:
        return type(now)(**saved) if isinstance(saved, Mapping) else type(now)(saved)
    return now


# How long events and drops take by the number of partial matches, and how many must go to meet a bound.

SAFETY = 0.8  # beta: share of the latency bound that strategies aim at
_STEP = 1e-12


@dataclass(frozen=True)
class SafeSettings:
    """The settings of a strategy that aims at a share of the latency bound."""

    safety: float = SAFETY  # share of the latency bound to aim at

    def __post_init__(self) -> None:
        safety = self.safety
        if isinstance(safety, bool) or not isinstance(safety, int | float) or not 0 < safety <= 1:
            raise CepError(f"safety={safety!r}: expected a share above 0 and at most 1")


@dataclass(frozen=True)
class ServiceLine:
    """Seconds to process an event among ``n`` partial matches: ``fixed + slope n``."""

    fixed: float
    slope: float

    def seconds(self, n: int) -> float:
        """Return the mean seconds of an event among ``n`` partial matches."""
        return self.fixed + self.slope * n

    def partial_matches(self, seconds: float) -> int:
        """Return the number of partial matches among which an event takes ``seconds``, at least 0."""
        if seconds < self.fixed:
            return 0
        if self.slope <= 0:
            return 2**62
        return min(2**62, floor((seconds - self.fixed) / self.slope + _STEP))


def fit_service(training: Training) -> ServiceLine:
    """Return the line of least squares through the service times of the warm-up; it does not fall.

    Source: pSPICE, the regression f. Differs: a line through the means of 20 equal groups of events, sorted
    by the number of partial matches, so that O(n log n) time and rare numbers weigh little.
    """
    alive, seconds = np.asarray(training.alive_before), np.asarray(training.service_of_event)
    if not len(alive):
        return ServiceLine(training.service, 0.0)
    groups = np.array_split(np.argsort(alive, kind="stable"), min(20, len(alive)))
    x = np.array([alive[group].mean() for group in groups])
    y = np.array([seconds[group].mean() for group in groups])
    spread = x - x.mean()
    slope = max(0.0, float(spread @ (y - y.mean()) / (spread @ spread))) if spread.any() else 0.0
    return ServiceLine(max(0.0, float(y.mean() - slope * x.mean())), slope)


def surplus(load: Load, waited: float, bound: float, service: ServiceLine, seconds_each: float) -> int:
    """Return rho: how many partial matches must go so that the next event meets the bound.

    Nothing is dropped while waited + f(n) + g(n) is within the bound. Otherwise n' = f^-1(bound - waited -
    g(n)) partial matches remain. The time to shed is g(n) = n ``seconds_each``. Source: pSPICE.
    """
    shedding_seconds = load.alive * seconds_each
    if waited + service.seconds(load.alive) + shedding_seconds <= bound:
        return 0
    return max(0, load.alive - service.partial_matches(bound - waited - shedding_seconds))


def queue_room(training: Training, safety: float) -> float:
    """Return how many events may wait: ``safety`` times the latency bound, over the mean service time."""
    return inf if training.service <= 0 else safety * training.latency_bound / training.service


class PartialShedder(Shedder):
    """Drops partial matches when the next event would come too late; `_choose` says which."""

    KEPT = ("dropped",)

    def __init__(self, training: Training, safety: float, *prices: str):
        super().__init__()
        self._bound, self._service = safety * training.latency_bound, fit_service(training)
        self._seconds_each = sum(training.prices[name] for name in prices)  # to shed a partial match
        self._dropped = 0

    @abstractmethod
    def _choose(self, machine: TreeMachine, n: int, position: int) -> np.ndarray:
        """Return the numbers of up to ``n`` partial matches, and charge for the choice."""

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        self.charged["update"] += 1
        n = surplus(load, load.clock - event.arrival, self._bound, self._service, self._seconds_each)
        if n := min(n, machine.n_alive):
            n_dropped = machine.drop(self._choose(machine, n, event.position))
            self._dropped += n_dropped
            self.charged["drop"] += n_dropped
        return True

    def report(self) -> Mapping[str, Any]:
        """Return the dropped partial matches and the line of service times."""
        line = self._service
        return {"dropped_partial_matches": self._dropped, "fixed": line.fixed, "slope": line.slope}


# Strategies by name. A strategy loads when it is first used.

# Name of each strategy: its module in this room, and its class.
_STRATEGIES: dict[str, tuple[str, str]] = {
    "none": ("strategy", "NoShedding"), "random": ("strategy", "Random"),
    "random_input": ("strategy", "RandomInput"), "espice": ("spice", "ESpice"), "hspice": ("spice", "HSpice"),
    "pspice": ("spice", "PSpice"), "zhao": ("zhao", "Zhao"), "darling": ("darling", "Darling"),
    "cohesive": ("cohesive", "Cohesive"),
}  # fmt: skip


def strategy_names() -> tuple[str, ...]:
    return tuple(_STRATEGIES)


def class_of_strategy(name: str) -> Any:
    module, class_name = _STRATEGIES[name]
    return getattr(import_module(f"cepkit.shedding.strategies.{module}"), class_name)


def modules_of_strategies() -> dict[str, str]:
    """Return the module of each class of strategies, below ``cepkit.shedding``."""
    return {class_name: f"strategies.{module}" for module, class_name in _STRATEGIES.values()}


def as_strategy(given: Any) -> Strategy:
    """Return a strategy for its name or for a value of its own."""
    if isinstance(given, str):
        if given not in _STRATEGIES:
            names = strategy_names()
            raise CepError(
                f"shedding={given!r} is not known.{nearest(given, names)} Strategies: {list(names)}"
            )
        return class_of_strategy(given)()
    if isinstance(given, type):
        raise CepError(f"shedding={given.__name__} is a class. Give a value: {given.__name__}()")
    if not callable(getattr(given, "begin", None)):
        raise CepError(
            f"shedding={given!r}: give a name of {list(strategy_names())}, or a value with a method "
            "begin(training)"
        )
    return given


# Random shedding: of partial matches, as DARLING's paper compares, or of arriving events.


@dataclass(frozen=True)
class Random(SafeSettings):
    """Drop partial matches at random when the next event would come too late.

    pSPICE's rule says how many partial matches to drop, see `cepkit.shedding.strategies.strategy.surplus`.
    Each dropped partial match costs one random number.
    """

    name: ClassVar[str] = "random"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows how long events take by the number of partial matches."""
        return _RandomMatches(self, training)


class _RandomMatches(PartialShedder):
    KEPT = ("generator", "dropped")

    def __init__(self, strategy: Random, training: Training):
        super().__init__(training, strategy.safety, "draw", "drop")
        self._generator = np.random.default_rng([training.seed, 1])

    def _choose(self, machine: TreeMachine, n: int, position: int) -> np.ndarray:
        self.charged["draw"] += n
        ids = machine.numbers()
        return ids if n == len(ids) else self._generator.choice(ids, n, replace=False)


@dataclass(frozen=True)
class RandomInput(SafeSettings):
    """Drop arriving events at random while too many wait.

    Events are dropped while the waiting ones take longer than the bound times ``safety``. The share to drop
    is (R - th) / R, where R is the arrival rate and th the events that the server processes in a second.
    When the waiting events take longer than the bound itself, every new one is dropped.
    """

    name: ClassVar[str] = "random_input"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows how many events may wait."""
        return _RandomEvents(self, training)


class _RandomEvents(Shedder):
    KEPT = ("generator",)

    def __init__(self, strategy: RandomInput, training: Training):
        super().__init__()
        self._room, self._most = queue_room(training, strategy.safety), queue_room(training, 1.0)
        self._service = training.service
        self._generator = np.random.default_rng([training.seed, 2])

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        if load.waiting <= self._room:
            return ()
        if load.waiting > self._most:
            return (event.position,)
        self.charged["draw"] += 1
        share = 1.0 - 1.0 / (load.arrival_rate * self._service)
        return (event.position,) if self._generator.random() < share else ()

    def admit_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load
    ) -> Sequence[int]:
        seconds = min(len(arrivals) / load.arrival_rate, float(arrivals[-1] - arrivals[0]))
        share = 1.0 - seconds / (len(arrivals) * self._service)
        is_drawn, waiting, dropped = self._generator.random(len(positions)) < share, load.waiting, []
        for position, draw in zip(positions.tolist(), is_drawn.tolist(), strict=True):
            if waiting > self._room and (draw or waiting > self._most):
                dropped.append(position)
            else:
                waiting += 1
        self.charged["draw"] += len(positions)
        return dropped

    def report(self) -> Mapping[str, Any]:
        return {"room": self._room}


# The strategy that drops nothing, as the reference of all others.


@dataclass(frozen=True)
class NoShedding:
    """Process every event, however late."""

    name: ClassVar[str] = "none"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that drops nothing."""
        return Shedder()
