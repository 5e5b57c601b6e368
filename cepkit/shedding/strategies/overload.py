"""How long events and drops take by the number of partial matches, and how many must go to meet a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, inf

import numpy as np

from cepkit.errors import CepError
from cepkit.shedding.strategies.strategy import Load, Training

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
    own = drop_seconds(load.alive)
    if waited + service.seconds(load.alive) + own <= bound:
        return 0
    return max(0, load.alive - service.partial_matches(bound - waited - own))


def queue_room(training: Training, safety: float) -> float:
    """Return how many events may wait: ``safety`` times the latency bound, over the mean service time."""
    return inf if training.service <= 0 else safety * training.latency_bound / training.service


def check_safety(safety: float) -> None:
    """Raise unless a share is above 0 and at most 1."""
    if isinstance(safety, bool) or not isinstance(safety, int | float) or not 0 < safety <= 1:
        raise CepError(f"safety={safety!r}: expected a share above 0 and at most 1")
