"""What a shedding strategy is: settings that begin a shedder, and the shedder that decides event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree.machine import EventOutcome, TreeMachine
    from cepkit.shedding.tree.program import TreeProgram


@dataclass(frozen=True)
class Event:
    """An event as strategies see it.

    Parameters
    ----------
    position : int
        Its place in the stream. It names the event.
    type : int
        Number of its event type in `Training.types`, which begins with the types of the shedder's own query.
    arrival : float
        When it arrived, in seconds.
    """

    position: int
    type: int
    arrival: float


@dataclass(frozen=True)
class Load:
    """The situation of the server when it asks a shedder.

    Parameters
    ----------
    clock : float
        The time now, in seconds.
    waiting : int
        Number of events in the buffers.
    oldest_arrival : float
        When the oldest waiting event arrived, in seconds. It equals ``clock`` when none waits.
    arrival_rate : float
        Events per second, as a moving average.
    service : float
        Mean time to process one event in this run, in seconds, as a moving average.
    latency : float
        Latency of processed events, in seconds, as a moving average.
    alive : int
        Number of partial matches.
    """

    clock: float
    waiting: int
    oldest_arrival: float
    arrival_rate: float
    service: float
    latency: float
    alive: int


@dataclass(frozen=True)
class Training:
    """What a warm-up without shedding has measured.

    Parameters
    ----------
    program : TreeProgram
        The query as a tree.
    events : Events
        The stream. The warm-up processed the positions below ``n_events``.
    n_events : int
        Number of events of the warm-up.
    latency_bound : float
        The bound, in seconds.
    rates : ndarray of float64, shape (n_types,)
        Events per second of each type at regular load.
    service : float
        Mean time to process one event, in seconds.
    passed, evaluated : ndarray of int64, shape (n_conditions,)
        How often each condition held, and how often the tree evaluated it.
    prices : mapping of str to float
        Seconds per unit of work: ``"condition"``, ``"create"``, ``"remove"``, and one for each name that
        shedders charge.
    machine : TreeMachine
        The machine after the warm-up. It has what it learned: ``considered``, ``contributed``, ``ancestry``.
    seed : int
        Seed of random decisions.
    service_of_event : ndarray of float64, shape (n_processed,)
        Seconds to process each event of the warm-up whose type a query names.
    type_of_event, alive_before : ndarray of int64, shape (n_processed,)
        Type of each of these events, and number of partial matches before it.
    weight : float
        Weight of the pattern, 1 for a single one.
    weight_of_type : mapping of str to float
        Weights that the user gave to event types; missing types have weight 1.
    others : tuple of Training
        The other patterns of the run. They share its buffers. Empty for a single pattern.
    """

    program: TreeProgram
    events: Events
    n_events: int
    latency_bound: float
    rates: np.ndarray
    service: float
    passed: np.ndarray
    evaluated: np.ndarray
    prices: Mapping[str, float]
    machine: TreeMachine
    seed: int = 0
    service_of_event: np.ndarray = field(default_factory=lambda: np.empty(0))
    type_of_event: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    alive_before: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    weight: float = 1.0
    weight_of_type: Mapping[str, float] = field(default_factory=dict)
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

    Notes
    -----
    Several patterns share one buffer. Each pattern has a shedder of its own, which `Shedder.before` and
    `Shedder.after` ask about its own machine. Only the shedder of the first pattern decides which events
    enter the buffer. Its training has the `Training.others`, so it can weigh all patterns. Its ``before`` is
    called for every event that leaves the buffer, also for types that only other patterns name.
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
    """What decides in one run. Every method does nothing here, so that a strategy writes only what it needs.

    Attributes
    ----------
    charged : Counter of str
        Units of its own work since the server last asked. The server adds their time to the clock. The names
        are those of `cepkit.shedding.Prices`.

    Examples
    --------
    A strategy that drops every second event while more than 10 wait:

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class EverySecond(Shedder):
    ...     def admit(self, event, load):
    ...         self.charged["lookup"] += 1
    ...         return [event.position] if load.waiting > 10 and event.position % 2 else []
    """

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
