"""The values that stand for the distribution of an attribute."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.buffers import utility_slot
from cepkit.shedding.model.distributions import Empirical, LogNormal, Normal, fit


def share_below(kind: str, values: np.ndarray, limit: float) -> float:
    """Return the probability of a value less than ``limit`` in the distribution of values, by definition."""
    if kind == "empirical":
        return float((values < limit).mean())
    if kind == "kde":
        width = values.std(ddof=1) * len(values) ** -0.2
        return float(np.mean([NormalDist(value, width).cdf(limit) for value in values]))
    seen, limit = (np.log(values), math.log(limit)) if kind == "lognormal" else (values, limit)
    return NormalDist(seen.mean(), seen.std(ddof=1)).cdf(limit)


def test_example_of_the_paper():
    """A price is less than the next price, which has a mean of 400 and a deviation of 200."""
    spread = Normal(400, 200).spread(100_000)
    assert [round((spread > price).mean(), 4) for price in (200, 700)] == [0.8413, 0.0668]  # printed: 0.066


@pytest.mark.parametrize("kind", ["empirical", "normal", "lognormal", "kde"])
@pytest.mark.parametrize("seed", range(5))
def test_spread_follows_the_distribution(kind, seed):
    values = np.random.default_rng(seed).lognormal(0.5, 0.7, 500)
    spread = fit(kind, values).spread(2000)
    assert (np.diff(spread) >= 0).all()
    for at in np.quantile(values, [0.1, 0.5, 0.9]):
        assert (spread < at).mean() == pytest.approx(share_below(kind, values, at), abs=0.015)


def test_distributions_of_equal_values_are_these_values():
    for kind in ("empirical", "normal", "lognormal", "kde"):
        assert fit(kind, np.array([2.0, 2.0, 2.0])).spread(4).tolist() == pytest.approx([2.0] * 4)


def test_lognormal_has_nothing_below_0():
    assert (LogNormal(0.0, 1.0).spread(1000) > 0).all()


def test_empirical_spread_is_all_values_when_there_are_as_many():
    values = np.sort(np.random.default_rng(1).normal(size=100))
    assert Empirical(values).spread(100).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("beta", [1.0], "pdf='beta': expected one of 'empirical', 'normal', 'lognormal', 'kde'"),
        ("normal", [], "an attribute without values"),
        ("normal", [float("nan")], "an attribute without values"),
        ("lognormal", [1.0, 0.0], "is above 0; there is 0. Use pdf='empirical'"),
    ],
)
def test_bad_fits_are_refused(kind, values, message):
    with pytest.raises(CepError, match=message):
        fit(kind, np.array(values))


def test_slots_of_utilities():
    assert [utility_slot(u, 100) for u in (0.0, 0.009, 0.305, 0.999, 1.0)] == [0, 0, 30, 99, 100]
