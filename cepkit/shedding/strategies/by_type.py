"""Shedding by type or at random: drop types of events, a share of each, or partial matches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cepkit.shedding.strategies.strategy import (
    SAFETY,
    Event,
    Load,
    Shedder,
    Training,
    check_safety,
    fit_service,
    queue_room,
    surplus,
)

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import TreeMachine


MOST_TYPES = 12  # sets of more types are not tried one by one
_CHANGE = 1.1  # factor of the arrival rate from which shares are computed again


@dataclass(frozen=True)
class IntegralShedding:
    """Drop all events of some types while too many events wait.

    The types that stay have the patterns of greatest total weight among the sets that the server can
    process at the current rate; if several do, those with the most events. With more than 12 types,
    patterns are added by weight per work instead. A single pattern loses all matches when it loses a type.

    Source: He, Barman and Naughton, "On Load Shedding in Complex Event Processing", ICDT 2014.
    """

    safety: float = SAFETY  # share of the latency bound to aim at
    name: ClassVar[str] = "integral"

    def __post_init__(self) -> None:
        check_safety(self.safety)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows rates and costs of the types."""
        return _WholeTypes(self.safety, training)


@dataclass(frozen=True)
class FractionalShedding:
    """Keep a share of the events of each type, at random, while too many events wait.

    A pattern keeps the product of the shares of its types. The shares maximise the mean of its logarithm,
    weighted by pattern, among those that the server can process. In closed form, each type gets the same
    part of the server's time for each unit of weight, and no more than it needs.

    Source: He, Barman and Naughton, ICDT 2014. Differs: they maximise the weighted sum of the products, which
    is hard for several patterns. For one pattern the shares are the same.
    """

    safety: float = SAFETY  # share of the latency bound to aim at
    name: ClassVar[str] = "fractional"

    def __post_init__(self) -> None:
        check_safety(self.safety)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows rates and costs of the types."""
        return _Shares(self.safety, training)


def whole_types(work: np.ndarray, patterns: Sequence[frozenset[int]], weights: Sequence[float]) -> np.ndarray:
    """Return which types to keep, as shares of 0 and 1."""
    n = len(work)
    if n > MOST_TYPES:
        return _by_density(work, patterns, weights)
    best, kept = (-1.0, -1.0), np.zeros(n)
    for chosen in product((0.0, 1.0), repeat=n):
        used = float(np.dot(chosen, work))
        if used <= 1.0:
            won = sum(w for types, w in zip(patterns, weights, strict=True) if all(chosen[t] for t in types))
            if (won, used) > best:
                best, kept = (won, used), np.array(chosen)
    return kept


def _by_density(work: np.ndarray, patterns: Sequence[frozenset[int]], weights: Sequence[float]) -> np.ndarray:
    kept, left = np.zeros(len(work)), list(range(len(patterns)))

    def added(p: int) -> float:
        return float(sum(work[t] for t in patterns[p] if not kept[t]))

    while left:
        p = max(left, key=lambda p: (weights[p] / max(added(p), 1e-12), -p))
        left.remove(p)
        if float(kept @ work) + added(p) <= 1.0:
            kept[list(patterns[p])] = 1.0
    return kept


def shares_of_types(
    work: np.ndarray, patterns: Sequence[frozenset[int]], weights: Sequence[float]
) -> np.ndarray:
    """Return the share of each type to keep; the arguments are those of `whole_types`."""
    weight = np.zeros(len(work))
    for types, w in zip(patterns, weights, strict=True):
        weight[list(types)] += w
    kept = np.zeros(len(work))
    open_types = [t for t in range(len(work)) if weight[t] > 0]
    room = 1.0
    while open_types:
        level = room / weight[open_types].sum()
        full = [t for t in open_types if work[t] <= level * weight[t]]
        if not full:
            kept[open_types] = level * weight[open_types] / work[open_types]
            break
        kept[full] = 1.0
        room -= float(work[full].sum())
        open_types = [t for t in open_types if t not in full]
    return kept


class _ByType(Shedder, ABC):
    """A shedder with a share to keep for each type."""

    def __init__(self, safety: float, training: Training):
        super().__init__()
        self._room, self._most = queue_room(training, safety), queue_room(training, 1.0)
        number = {name: t for t, name in enumerate(training.types)}
        self._patterns = [frozenset(number[t] for t in query.program.types) for query in training.patterns]
        self._weights = [query.weight for query in training.patterns]
        self._work = work_by_type(training)
        self._types = training.types
        self._kept = np.ones(len(number))
        self._rate = 0.0

    @abstractmethod
    def _choose(self, work: np.ndarray) -> np.ndarray: ...

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        if load.waiting <= self._room:
            return ()
        if not self._rate / _CHANGE <= load.arrival_rate <= self._rate * _CHANGE:
            self._rate = load.arrival_rate
            self._kept = self._choose(self._work * load.arrival_rate)
            self.charged["update"] += len(self._kept)
        self.charged["lookup"] += 1
        if load.waiting > self._most or not self._keeps(self._kept[event.type]):
            return (event.position,)
        return ()

    @abstractmethod
    def _keeps(self, share: float) -> bool: ...

    def report(self) -> Mapping[str, Any]:
        kept = {name: float(share) for name, share in zip(self._types, self._kept, strict=True)}
        return {"room": self._room, "share_kept_of_type": kept}

    def save(self) -> Mapping[str, Any]:
        return {"kept": self._kept, "rate": self._rate}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._kept, self._rate = np.asarray(saved["kept"], np.float64), float(saved["rate"])


class _WholeTypes(_ByType):
    def _choose(self, work: np.ndarray) -> np.ndarray:
        return whole_types(work, self._patterns, self._weights)

    def _keeps(self, share: float) -> bool:
        return share > 0


class _Shares(_ByType):
    def __init__(self, safety: float, training: Training):
        super().__init__(safety, training)
        self._generator = np.random.default_rng([training.seed, 3])

    def _choose(self, work: np.ndarray) -> np.ndarray:
        return shares_of_types(work, self._patterns, self._weights)

    def _keeps(self, share: float) -> bool:
        if share >= 1:
            return True
        self.charged["draw"] += 1
        return bool(self._generator.random() < share)

    def save(self) -> Mapping[str, Any]:
        return {**super().save(), "generator": self._generator.bit_generator.state}

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self._generator.bit_generator.state = saved["generator"]


def work_by_type(training: Training) -> np.ndarray:
    """Return the work that each of `Training.types` brings per arriving event of any type, in seconds."""
    number = {name: t for t, name in enumerate(training.types)}
    rate, cost = np.zeros(len(number)), np.zeros(len(number))
    for pattern in training.patterns:
        for t, name in enumerate(pattern.program.types):
            seconds = np.asarray(pattern.service_of_event)[np.asarray(pattern.type_of_event) == t]
            rate[number[name]] = pattern.rates[t]
            cost[number[name]] += float(seconds.mean()) if len(seconds) else 0.0
    return rate * cost / max(float(rate.sum()), 1e-300)


# Random shedding: of partial matches, as DARLING's paper compares, or of arriving events.


@dataclass(frozen=True)
class Random:
    """Drop partial matches at random when the next event would come too late.

    pSPICE's rule says how many partial matches to drop, see `cepkit.shedding.strategies.strategy.surplus`.
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


# The strategy that drops nothing, as the reference of all others.


@dataclass(frozen=True)
class NoShedding:
    """Process every event, however late."""

    name: ClassVar[str] = "none"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that drops nothing."""
        return Shedder()
