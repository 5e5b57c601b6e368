"""Utilities of events against the paper's example and against sampling."""

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.model.distributions import Empirical, LogNormal, Normal, fit
from cepkit.shedding.model.utility import (
    AttributeComparison,
    SampledCondition,
    event_utility,
    pass_probability,
    utility_slot,
)

PRICE = {(0, "price"): Normal(500, 300), (1, "price"): Normal(400, 200)}
CHEAPER = AttributeComparison((0, "price"), "<", (1, "price"))


def test_example_of_the_paper():
    seen = [event_utility([CHEAPER], 0, {"price": price}, PRICE) for price in (200, 700)]
    assert np.round(seen, 4).tolist() == [0.8413, 0.0668]  # the paper prints 0.066


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("kind", ["empirical", "normal", "lognormal", "kde"])
@pytest.mark.parametrize("seed", range(5))
def test_comparison_equals_its_definition(op, kind, seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.lognormal(1.0, 0.4, 300), 1)
    known = {(0, "x"): fit(kind, values[:150]), (1, "x"): fit(kind, values[150:])}
    factor, offset = float(rng.choice([-2.0, -0.5, 0.0, 0.5, 1.05])), float(rng.choice([0.0, -1.0, 3.0]))
    one = AttributeComparison((0, "x"), op, (1, "x"), factor, offset)
    holds = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[op]
    same = SampledCondition(((0, "x"), (1, "x")), lambda a, b: holds(a, factor * b + offset))
    for component in (0, 1):
        for x in rng.choice(values, 5):
            exact = pass_probability(one, component, {"x": float(x)}, known)
            sampled = pass_probability(same, component, {"x": float(x)}, known, sample=20_000)
            assert 0 <= exact <= 1
            # 150 values are each stood for equally often, but for one at each end
            assert exact == pytest.approx(sampled, abs=1 / 150 if kind == "empirical" else 0.01)


def test_condition_of_one_event_is_0_or_1():
    small = SampledCondition(((0, "price"),), lambda price: price < 300)
    assert [pass_probability(small, 0, {"price": x}, {}) for x in (200, 300)] == [1.0, 0.0]
    own = AttributeComparison((0, "open"), "<", (0, "close"), 1.05)
    assert pass_probability(own, 0, {"open": 104, "close": 100}, {}) == 1.0
    assert pass_probability(own, 0, {"open": 106, "close": 100}, {}) == 0.0


def test_condition_of_others_says_nothing():
    assert pass_probability(CHEAPER, 2, {"price": 5}, PRICE) == 1.0
    assert pass_probability(SampledCondition(((0, "price"),), np.isnan), 1, {}, PRICE) == 1.0


def test_missing_value_satisfies_no_comparison():
    assert pass_probability(CHEAPER, 0, {"price": float("nan")}, PRICE) == 0.0
    assert pass_probability(CHEAPER, 1, {"price": float("nan")}, PRICE) == 0.0


def test_condition_of_three_events_takes_the_others_as_independent():
    rng = np.random.default_rng(3)
    known = {(i, "x"): fit("empirical", rng.normal(size=1000)) for i in range(3)}
    between = SampledCondition(((0, "x"), (1, "x"), (2, "x")), lambda a, b, c: (a < b) & (b < c))
    at = pass_probability(between, 1, {"x": 0.0}, known)
    below, above = known[0, "x"].share_below(0.0), 1 - known[2, "x"].share_up_to(0.0)
    assert at == pytest.approx(below * above, abs=0.04)


@pytest.mark.parametrize("kind", ["empirical", "normal", "lognormal", "kde"])
@pytest.mark.parametrize("seed", range(5))
def test_spread_follows_the_distribution(kind, seed):
    values = np.random.default_rng(seed).lognormal(0.5, 0.7, 500)
    own = fit(kind, values)
    spread = own.spread(2000)
    assert (np.diff(spread) >= 0).all()
    for at in np.quantile(values, [0.1, 0.5, 0.9]):
        assert (spread < at).mean() == pytest.approx(own.share_below(at), abs=0.015)


def test_distributions_of_equal_values_are_a_step():
    for kind in ("empirical", "normal", "lognormal", "kde"):
        own = fit(kind, np.array([2.0, 2.0, 2.0]))
        assert (own.share_below(2.0 - 1e-9), own.share_up_to(2.0 + 1e-9)) == (0.0, 1.0)
    assert Normal(2.0, 0.0).share_below(2.0) == 0.0
    assert Normal(2.0, 0.0).share_up_to(2.0) == 1.0


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


def test_unknown_comparison_is_refused():
    with pytest.raises(CepError, match="op='==': expected one of"):
        AttributeComparison((0, "x"), "==", (1, "x"))


def test_lognormal_has_nothing_below_0():
    assert LogNormal(0.0, 1.0).share_up_to(0.0) == LogNormal(0.0, 1.0).share_below(-3.0) == 0.0


def test_slots_of_utilities():
    assert [utility_slot(u, 100) for u in (0.0, 0.009, 0.305, 0.999, 1.0)] == [0, 0, 30, 99, 100]
