"""What a shedding strategy is: settings that begin a shedder, and the shedder that decides event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree.machine import Outcome, TreeMachine
    from cepkit.shedding.tree.program import TreeProgram


@dataclass(frozen=True)
class Event:
    """An event as strategies see it.

    Parameters
    ----------
    position : int
        Its place in the stream. It names the event.
    type : int
        Number of its event type in ``TreeProgram.types``, or -1 when the query does not name its type.
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


class Strategy(Protocol):
    """The settings of a strategy. They are small, frozen and comparable."""

    name: str

    def begin(self, training: Training) -> Shedder:
        """Return a shedder for one run. It learns from the warm-up."""


@dataclass
class Shedder:
    """What decides in one run. Every method does nothing here, so that a strategy writes only what it needs.

    Attributes
    ----------
    charged : Counter of str
        Units of its own work since the server last asked. The server adds their time to the clock.
    """

    charged: Counter[str] = field(default_factory=Counter)

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        """Return the positions of waiting events to drop. The new event may be among them."""
        return ()

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Prepare the machine for an event that leaves the buffers: drop partial matches, skip pairs.

        Return whether the machine may process the event.
        """
        return True

    def after(self, event: Event, load: Load, outcome: Outcome) -> None:
        """Learn from an event that the machine has processed."""

    def report(self) -> Mapping[str, object]:
        """Return what a user may want to see, such as thresholds and the state of drift detection."""
        return {}

    def save(self) -> Mapping[str, object]:
        """Return what a restart needs, as numbers, texts, lists, mappings and arrays."""
        return {}

    def restore(self, saved: Mapping[str, object]) -> None:
        """Take back what `save` returned."""
