"""What a shedding strategy is: settings, and the shedder that decides event by event; strategies by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import floor, inf
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cepkit.errors import CepError, nearest

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree.machine import EventOutcome, TreeMachine
    from cepkit.shedding.tree.program import TreeProgram


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
    """What decides in one run. Every method does nothing here: a strategy writes what it needs."""

    charged: Counter[str] = field(default_factory=Counter)

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        """Return the positions of waiting events to drop. The new event waits already and may be dropped."""
        return ()

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Prepare the machine for an event that leaves the buffers: drop partial matches, skip pairs.

        Return whether the machine may process the event.

        """
        return True

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Learn from an event that the machine has processed."""

    def size_bytes(self) -> int:
        """Return the memory of the shedder's own tables and arrays."""
        return 0

    def report(self) -> Mapping[str, object]:
        """Return what a user may want to see, such as thresholds and the state of drift detection."""
        return {}

    def save(self) -> Mapping[str, object]:
        """Return what a restart needs, as numbers, texts, lists, mappings and arrays."""
        return {}

    def restore(self, saved: Mapping[str, object]) -> None:
        """Take back what `save` returned."""


# How long events and drops take by the number of partial matches, and how many must go to meet a bound.

SAFETY = 0.8  # beta: share of the latency bound that strategies aim at
_STEP = 1e-12


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


def surplus(
    load: Load, waited: float, bound: float, service: ServiceLine, drop_seconds: Callable[[int], float]
) -> int:
    """Return rho: how many partial matches must go so that the next event meets the bound.

    Nothing is dropped while waited + f(n) + g(n) is within the bound. Otherwise n' = f^-1(bound - waited -
    g(n)) partial matches remain. Source: pSPICE.
    """
    shedding_seconds = drop_seconds(load.alive)
    if waited + service.seconds(load.alive) + shedding_seconds <= bound:
        return 0
    return max(0, load.alive - service.partial_matches(bound - waited - shedding_seconds))


def queue_room(training: Training, safety: float) -> float:
    """Return how many events may wait: ``safety`` times the latency bound, over the mean service time."""
    return inf if training.service <= 0 else safety * training.latency_bound / training.service


def check_safety(safety: float) -> None:
    """Raise unless a share is above 0 and at most 1."""
    if isinstance(safety, bool) or not isinstance(safety, int | float) or not 0 < safety <= 1:
        raise CepError(f"safety={safety!r}: expected a share above 0 and at most 1")


# Strategies by name. A strategy loads when it is first used.

# Name of each strategy: its module in this room, and its class.
_STRATEGIES: dict[str, tuple[str, str]] = {
    "none": ("by_type", "NoShedding"),
    "random": ("by_type", "Random"),
    "random_input": ("by_type", "RandomInput"),
    "integral": ("by_type", "IntegralShedding"),
    "fractional": ("by_type", "FractionalShedding"),
    "espice": ("skipping", "ESpice"),
    "hspice": ("skipping", "HSpice"),
    "pspice": ("pspice", "PSpice"),
    "zhao": ("zhao", "Zhao"),
    "darling": ("darling", "Darling"),
}


def strategy_names() -> tuple[str, ...]:
    """Return the names of all strategies."""
    return tuple(_STRATEGIES)


def class_of_strategy(name: str) -> Any:
    """Return the class of a strategy by name."""
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
