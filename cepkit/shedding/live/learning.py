"""The warm-up of a live stream: it measures the service times and the work of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.shedding.simulation.costs import Prices
from cepkit.shedding.simulation.server import ServerClock
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree.machine import EventOutcome, TreeMachine
    from cepkit.shedding.tree.program import TreeProgram

_LONGEST = 4  # the warm-up waits for a rare type up to this many times its length
_FIRST = 100  # one event in this many is the first: it loads the kernels


class LiveWarmUp(Shedder):
    """Measures the first events of a stream, and drops none."""

    def __init__(self, tree: TreeProgram, n_wanted: int, clock: ServerClock):
        super().__init__()
        self._tree, self._n_wanted, self._clock = tree, n_wanted, clock
        self._prices = Prices()
        n_conditions = len(tree.conditions)
        self._evaluated, self._passed = np.zeros(n_conditions, np.int64), np.zeros(n_conditions, np.int64)
        self._of_type = np.zeros(len(tree.types), np.int64)
        self._seconds: list[float] = []
        self._work: list[float] = []
        self._types: list[int] = []
        self._alive: list[int] = []
        self._start = self._span = 0.0
        self._first_arrival: float | None = None
        self.last_position = -1

    @property
    def n_measured(self) -> int:
        """Number of events that were measured."""
        return len(self._seconds)

    @property
    def n_left(self) -> int:
        """Number of events that are still to be measured, at least."""
        return max(0, self._n_wanted - self.n_measured)

    @property
    def is_done(self) -> bool:
        """Whether enough events were measured: each type occurred, or the warm-up took too long."""
        n = self.n_measured
        return n >= self._n_wanted and (bool(self._of_type.all()) or n >= _LONGEST * self._n_wanted)

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        """Begin to measure an event."""
        if self._first_arrival is None:
            self._first_arrival = event.arrival
        self._span = event.arrival - self._first_arrival
        self._alive.append(load.alive)
        self._start = self._clock.now
        return True

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Note the time and the work of an event."""
        prices = self._prices
        self._seconds.append(self._clock.now - self._start)
        self._work.append(
            prices.condition * int(outcome.evaluated.sum())
            + prices.create * outcome.created
            + prices.remove * outcome.removed
        )
        self._evaluated += outcome.evaluated
        self._passed += outcome.passed
        self._types.append(event.type)
        self._of_type[event.type] += 1
        self.last_position = event.position

    def training(
        self, events: Events, machine: TreeMachine, bound: float, weights: Mapping[str, float], seed: int
    ) -> Training:
        """Return what the warm-up measured.

        The first events load the kernels, so their times are replaced. The mean service time is that of the
        second half, when the windows are full. Rates are at most those that the warm-up was processed at,
        since a batch may bring all of it at once.
        """
        seconds, types = np.array(self._seconds), np.array(self._types, np.int64)
        n, n_first = len(seconds), -(-len(seconds) // _FIRST)
        seconds[:n_first] = np.median(seconds)
        span = max(self._span, float(seconds.sum()), 1e-9)
        counts = np.maximum(self._of_type, 0.5)  # a type that never came still has a rate
        return Training(
            program=self._tree, events=events, n_events=self.last_position + 1, latency_bound=bound,
            rates=counts / span, service=max(float(seconds[n // 2 :].mean()), 1e-9), passed=self._passed,
            evaluated=self._evaluated, prices=_fit_prices(np.array(self._work), seconds).table(),
            machine=machine, seed=seed, service_of_event=seconds, type_of_event=types,
            alive_before=np.array(self._alive, np.int64), weight_of_type=dict(weights),
        )  # fmt: skip

    def save(self) -> Mapping[str, object]:
        """Return what was measured so far."""
        return {
            "evaluated": self._evaluated, "passed": self._passed, "of_type": self._of_type,
            "seconds": np.array(self._seconds), "work": np.array(self._work),
            "types": np.array(self._types, np.int64), "alive": np.array(self._alive, np.int64),
            "span": self._span, "first_arrival": self._first_arrival, "last_position": self.last_position,
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self._evaluated, self._passed = np.array(saved["evaluated"]), np.array(saved["passed"])
        self._of_type = np.array(saved["of_type"])
        for name in ("seconds", "work", "types", "alive"):
            setattr(self, f"_{name}", saved[name].tolist())
        self._span, self._first_arrival = saved["span"], saved["first_arrival"]
        self.last_position = saved["last_position"]


def _fit_prices(work: np.ndarray, seconds: np.ndarray) -> Prices:
    """Return prices whose line through the work of events fits their times; the other prices are kept."""
    own = Prices()
    spread = work - work.mean()
    slope = float(spread @ seconds / (spread @ spread)) if spread.any() else 1.0
    slope = max(slope, 1e-3)
    event = max(float(seconds.mean() - slope * work.mean()), 0.0)
    return replace(
        own, event=event, condition=slope * own.condition, create=slope * own.create,
        remove=slope * own.remove,
    )  # fmt: skip


def spread_arrivals(before: float, now: float, n: int) -> Sequence[float]:
    """Return times for the events of a batch, spread over the time since the batch before."""
    step = (now - before) / n if n else 0.0
    return [before + step * (i + 1) for i in range(n)]
