"""The distribution of an attribute, and how to detect that a stream has changed since its statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from cepkit.errors import CepError, MissingDependencyError

# The distribution of an attribute: normal, log-normal, the values seen, or a kernel density.


class Distribution(Protocol):
    """What utilities need of an attribute."""

    def spread(self, n: int) -> np.ndarray:
        """Return ``n`` values that stand for the distribution, sorted, float64: its quantiles."""


@dataclass(frozen=True)
class Normal:
    """A normal distribution."""

    mean: float
    deviation: float

    def spread(self, n: int) -> np.ndarray:
        """Return ``n`` quantiles."""
        if self.deviation == 0:
            return np.full(n, float(self.mean))
        standard = NormalDist()
        return self.mean + self.deviation * np.array([standard.inv_cdf(p) for p in _probabilities(n)])


@dataclass(frozen=True)
class LogNormal:
    """A distribution of positive values whose logarithms are normal, with their mean and deviation."""

    mean: float
    deviation: float

    @property
    def _logarithm(self) -> Normal:
        return Normal(self.mean, self.deviation)

    def spread(self, n: int) -> np.ndarray:
        """Return ``n`` quantiles."""
        return np.exp(self._logarithm.spread(n))


@dataclass(frozen=True, eq=False)
class Empirical:
    """The values that were seen, all equally likely; ``values`` is sorted, float64."""

    values: np.ndarray

    def spread(self, n: int) -> np.ndarray:
        """Return ``n`` of the values at equal distances of rank; all of them when ``n`` is their number."""
        at = ((np.arange(n) + 0.5) * len(self.values) / n).astype(int)
        return self.values[at]


@dataclass(frozen=True, eq=False)
class KernelDensity:
    """The values that were seen, each blurred by a normal distribution.

    The width is Scott's: the deviation times n^(-1/5).
    """

    values: np.ndarray

    @cached_property
    def width(self) -> float:
        """Deviation of the normal distributions."""
        return float(self.values.std(ddof=1)) * len(self.values) ** -0.2 if len(self.values) > 1 else 0.0

    def spread(self, n: int) -> np.ndarray:
        """Return ``n`` values: one quantile of the blur at each of ``n`` values."""
        seen = Empirical(self.values).spread(n)
        if self.width == 0:
            return seen
        order = np.random.default_rng(0).permutation(n)  # the blur must not follow the rank
        return np.sort(seen + self.width * Normal(0.0, 1.0).spread(n)[order])


def fit(kind: str, values: np.ndarray) -> Distribution:
    """Return the distribution of values that were seen."""
    if kind not in _FITS:
        raise CepError(f"pdf={kind!r}: expected one of {', '.join(map(repr, _FITS))}")
    numbers = np.asarray(values, np.float64)
    numbers = np.sort(numbers[~np.isnan(numbers)])
    if not len(numbers):
        raise CepError("an attribute without values has no distribution")
    return _FITS[kind](numbers)


def _fit_normal(values: np.ndarray) -> Normal:
    return Normal(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0)


def _fit_lognormal(values: np.ndarray) -> LogNormal:
    if values[0] <= 0:
        raise CepError(f"a log-normal attribute is above 0; there is {values[0]:g}. Use pdf='empirical'")
    logarithm = _fit_normal(np.log(values))
    return LogNormal(logarithm.mean, logarithm.deviation)


_FITS: dict[str, Callable[[np.ndarray], Distribution]] = {
    "empirical": Empirical,
    "normal": _fit_normal,
    "lognormal": _fit_lognormal,
    "kde": KernelDensity,
}

PDFS = tuple(_FITS)


def _probabilities(n: int) -> list[float]:
    return ((np.arange(n) + 0.5) / n).tolist()


# Detect that a stream has changed since its statistics: in the rates of types and in attributes.

N_VALUES = 1000  # n: values of an attribute that are compared at a time
KS_FACTOR = 1.36  # of the two-sample test of Kolmogorov and Smirnov at 5 %
# The Page-Hinkley test ignores changes of the mean gap below DELTA, and a sum of deviations of THRESHOLD is a
# drift. The unit is the mean or the deviation of the gaps, whichever is larger.
DELTA, THRESHOLD = 0.1, 50.0
_STATE = ("_sum_increase", "_sum_decrease", "_min_increase", "_max_decrease")
Columns = Mapping[str, np.ndarray]


class DriftWatch:
    """Watch the gaps between the events of each type and the values of their attributes.

    Page-Hinkley tests the mean gap, in both directions. The two-sample statistic of Kolmogorov and Smirnov
    compares the last n values with the m of the statistics; above 1.36 sqrt((n + m) / (n m)) they differ.

    Source: DARLING, section 4.1, asks for a detector and names no test.
    Callers give the time of the events, not of their arrival: a peak of arrivals alone changes neither the
    partial matches in a window nor the shares of the types.
    """

    def __init__(
        self,
        gaps: Mapping[int, tuple[float, float]],
        samples: Mapping[int, Columns],
        values_at: Callable[[int, np.ndarray], Columns],
    ):
        self._page_hinkley, self._statistic = _tests()
        self._values_at, self._samples = values_at, samples
        self._scale = {at: 1.0 / max(mean, deviation, 1e-12) for at, (mean, deviation) in gaps.items()}
        self._detectors = {at: self._page_hinkley(delta=DELTA, threshold=THRESHOLD) for at in gaps}
        self._last: dict[int, float] = {}
        self._pending: dict[int, list[int]] = {at: [] for at in samples}
        self._carried: dict[int, Columns] = {}  # attributes of events before a restart
        self._wanted = dict.fromkeys(samples, N_VALUES)
        self.alarms: dict[str, float] = {}
        self.n_tests = 0

    def see(self, event_type: int, position: int, time: float) -> None:
        """Take in an event that arrives, with its time in the unit of the gaps."""
        detector = self._detectors.get(event_type)
        if detector is not None:
            last = self._last.get(event_type)
            self._last[event_type] = time
            if last is not None:
                detector.update((time - last) * self._scale[event_type])
                if detector._drift_detected:
                    self.alarms[f"rate of type {event_type}"] = time
        pending = self._pending.get(event_type)
        if pending is not None:
            pending.append(position)
            if len(pending) >= self._wanted[event_type]:
                self._compare(event_type, time)

    def _compare(self, event_type: int, time: float) -> None:
        values = self._pending_values(event_type)
        self._pending[event_type] = []
        self._carried.pop(event_type, None)
        self._wanted[event_type] = N_VALUES
        for name, sample in self._samples[event_type].items():
            self.n_tests += 1
            newest = values[name]
            newest, sample = newest[~np.isnan(newest)], sample[~np.isnan(sample)]
            n, m = len(newest), len(sample)
            if n and m and self._statistic(newest, sample) > KS_FACTOR * sqrt((n + m) / (n * m)):
                self.alarms[f"{name} of type {event_type}"] = time

    def _pending_values(self, event_type: int) -> dict[str, np.ndarray]:
        columns = self._values_at(event_type, np.array(self._pending[event_type], np.int64))
        carried = self._carried.get(event_type, {})
        return {
            name: np.concatenate([carried.get(name, np.empty(0)), np.asarray(columns[name], np.float64)])
            for name in self._samples[event_type]
        }

    def save(self) -> dict[str, Any]:
        """Return the state as numbers, texts, lists, mappings and arrays."""
        return {
            "detectors": {
                str(at): [float(getattr(detector, name)) for name in _STATE]
                + [detector._x_mean.n, detector._x_mean._mean, detector._drift_detected]
                for at, detector in self._detectors.items()
            },
            "last": {str(at): last for at, last in self._last.items()},
            "pending": {str(at): self._pending_values(at) for at in self._pending},
            "alarms": dict(self.alarms),
            "n_tests": self.n_tests,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        for at, (*sums, n, mean, detected) in saved["detectors"].items():
            detector = self._detectors[int(at)]
            for name, value in zip(_STATE, sums, strict=True):
                setattr(detector, name, value)
            detector._x_mean.n, detector._x_mean._mean, detector._drift_detected = n, mean, bool(detected)
        self._last = {int(at): last for at, last in saved["last"].items()}
        self._carried = {int(at): dict(values) for at, values in saved["pending"].items()}
        self._pending = {at: [] for at in self._pending}
        self._wanted = {at: max(1, N_VALUES - _length(self._carried.get(at))) for at in self._pending}
        self.alarms, self.n_tests = dict(saved["alarms"]), saved["n_tests"]


def gaps_of(times: np.ndarray) -> tuple[float, float] | None:
    """Return mean and standard deviation of the gaps between sorted times; None: too few."""
    gaps = np.diff(times)
    return (float(gaps.mean()), float(gaps.std())) if len(gaps) > 1 and gaps.any() else None


def _length(columns: Columns | None) -> int:
    return 0 if not columns else len(next(iter(columns.values())))


def _tests() -> tuple[Callable[..., Any], Callable[[np.ndarray, np.ndarray], float]]:
    try:
        from river.drift import PageHinkley
        from scipy.stats import ks_2samp
    except ImportError as error:
        raise MissingDependencyError(
            f"drift detection needs river and scipy ({error}). "
            'Install them with `pip install "cepkit[papers]"`, or turn it off: Darling(drift=False)'
        ) from error
    return PageHinkley, lambda newest, sample: float(ks_2samp(newest, sample, method="asymp").statistic)
