"""Random shedding: of partial matches, as DARLING's paper compares, or of arriving events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cepkit.shedding.strategies.overload import (
    SAFETY,
    check_safety,
    fit_service,
    queue_room,
    surplus,
)
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import TreeMachine


@dataclass(frozen=True)
class Random:
    """Drop partial matches at random when the next event would come too late.

    pSPICE's rule says how many partial matches to drop, see `cepkit.shedding.strategies.overload.surplus`.
    Each dropped partial match costs one random number.
    """

    safety: float = SAFETY  # share of the latency bound to aim at
    name: ClassVar[str] = "random"

    def __post_init__(self) -> None:
        check_safety(self.safety)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows how long events take by the number of partial matches."""
        return _RandomMatches(self, training)


class _RandomMatches(Shedder):
    def __init__(self, strategy: Random, training: Training):
        super().__init__()
        self._bound = strategy.safety * training.latency_bound
        self._service = fit_service(training)
        self._draw, self._drop = training.prices["draw"], training.prices["drop"]
        self._generator = np.random.default_rng([training.seed, 1])
        self._n_dropped = 0

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        waited = load.clock - event.arrival
        self.charged["update"] += 1
        if n := min(surplus(load, waited, self._bound, self._service, self._seconds), machine.n_alive):
            ids = np.asarray(machine.partial().id)
            chosen = ids if n == len(ids) else self._generator.choice(ids, n, replace=False)
            self._n_dropped += machine.drop(chosen)
            self.charged["draw"] += n
            self.charged["drop"] += n
        return True

    def _seconds(self, n: int) -> float:
        return n * (self._draw + self._drop)

    def report(self) -> Mapping[str, Any]:
        line = self._service
        return {"dropped_partial_matches": self._n_dropped, "fixed": line.fixed, "slope": line.slope}

    def save(self) -> Mapping[str, Any]:
        return {"generator": self._generator.bit_generator.state, "dropped": self._n_dropped}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._generator.bit_generator.state = saved["generator"]
        self._n_dropped = int(saved["dropped"])


@dataclass(frozen=True)
class RandomInput:
    """Drop arriving events at random while too many wait.

    Events are dropped while the waiting ones take longer than the bound times ``safety``. The share to drop
    is (R - th) / R, where R is the arrival rate and th the events that the server processes in a second.
    When the waiting events take longer than the bound itself, every new one is dropped.
    """

    safety: float = SAFETY  # share of the latency bound to aim at
    name: ClassVar[str] = "random_input"

    def __post_init__(self) -> None:
        check_safety(self.safety)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows how many events may wait."""
        return _RandomEvents(self, training)


class _RandomEvents(Shedder):
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

    def report(self) -> Mapping[str, Any]:
        return {"room": self._room}

    def save(self) -> Mapping[str, Any]:
        return {"generator": self._generator.bit_generator.state}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._generator.bit_generator.state = saved["generator"]
