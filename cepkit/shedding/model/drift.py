"""Detect that a stream has changed since its statistics: in the rates of types and in attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np

from cepkit.errors import MissingDependencyError

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
        for name, known in self._samples[event_type].items():
            self.n_tests += 1
            own = values[name]
            own, known = own[~np.isnan(own)], known[~np.isnan(known)]
            n, m = len(own), len(known)
            if n and m and self._statistic(own, known) > KS_FACTOR * sqrt((n + m) / (n * m)):
                self.alarms[f"{name} of type {event_type}"] = time

    def _pending_values(self, event_type: int) -> dict[str, np.ndarray]:
        found = self._values_at(event_type, np.array(self._pending[event_type], np.int64))
        carried = self._carried.get(event_type, {})
        return {
            name: np.concatenate([carried.get(name, np.empty(0)), np.asarray(found[name], np.float64)])
            for name in self._samples[event_type]
        }

    def save(self) -> dict[str, Any]:
        """Return the state as numbers, texts, lists, mappings and arrays."""
        return {
            "detectors": {
                str(at): [float(getattr(one, name)) for name in _STATE]
                + [one._x_mean.n, one._x_mean._mean, one._drift_detected]
                for at, one in self._detectors.items()
            },
            "last": {str(at): last for at, last in self._last.items()},
            "pending": {str(at): self._pending_values(at) for at in self._pending},
            "alarms": dict(self.alarms),
            "n_tests": self.n_tests,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        for at, (*sums, n, mean, detected) in saved["detectors"].items():
            one = self._detectors[int(at)]
            for name, value in zip(_STATE, sums, strict=True):
                setattr(one, name, value)
            one._x_mean.n, one._x_mean._mean, one._drift_detected = n, mean, bool(detected)
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
    return PageHinkley, lambda own, known: float(ks_2samp(own, known, method="asymp").statistic)
