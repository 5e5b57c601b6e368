"""The distribution of an attribute: normal, log-normal, the values seen, or a kernel density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Protocol

import numpy as np

from cepkit.errors import CepError


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
    own = np.asarray(values, np.float64)
    own = np.sort(own[~np.isnan(own)])
    if not len(own):
        raise CepError("an attribute without values has no distribution")
    return _FITS[kind](own)


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
