"""Digits of sums add up: parts of rows on several nodes give the bits of one node."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from cepkit.windows import aggregating as exact
from tests.support.sizes import seeds


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_parts_add_up_to_the_whole(seed):
    rng = np.random.default_rng(seed)
    n, n_nodes = int(rng.integers(1, 60)), int(rng.integers(1, 9))
    values = rng.normal(size=n) * 10.0 ** rng.integers(-20, 21, n)
    if seed % 4 == 0:
        values = rng.integers(-(2**40), 2**40, n)
    present = rng.random(n) < 0.9
    start = np.sort(rng.integers(0, n + 1, 20))
    stop = np.maximum(np.sort(rng.integers(0, n + 1, 20)), start)
    before = np.concatenate([[0], np.cumsum(present)])
    count = before[stop] - before[start]
    whole = exact.numbers_of(values, present)
    scales = [exact.scale_of(values[node::n_nodes], present[node::n_nodes]) for node in range(n_nodes)]
    scale = exact.common_scale(*scales)
    sums = np.zeros((20, scale.n_digits), np.int64)
    squares = np.zeros((20, 2 * scale.n_digits), np.int64)
    for node in range(n_nodes):
        own = np.arange(node, n, n_nodes)
        numbers = exact.numbers_of(values[own], present[own], scale)
        ranges = [np.searchsorted(own, places) for places in (start, stop)]
        sums += exact.partial_sums(numbers, *ranges)
        squares += exact.partial_squares(numbers, *ranges)
    assert exact.round_sums(sums, scale).tolist() == exact.sums(whole, start, stop).tolist()
    one = exact.variances(whole, count, start, stop)
    assert exact.round_variances(sums, squares, count, scale).tolist() == one.tolist()


def test_extreme_floats():
    values = np.array([5e-324, 1.7e308, -1.7e308, 1.7e308, 1.7e308, -0.0])
    numbers = exact.numbers_of(values, np.ones(6, bool))
    start, stop = np.array([0, 0, 0, 0, 5]), np.array([1, 3, 4, 5, 6])
    assert exact.sums(numbers, start, stop).tolist() == [5e-324, 5e-324, 1.7e308, np.inf, 0.0]


def nearest(value: Fraction) -> float:
    """Return the float nearest to a fraction, ties to even."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


@pytest.mark.parametrize("seed", range(20))
def test_floats_of_any_bits(seed):
    """Sums and spreads of floats with any exponent, also the smallest ones, are rounded once."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    exponent = rng.integers(0, 2047, n) if seed % 2 else rng.integers(0, 3 + 8 * seed, n)
    bits = rng.integers(0, 2, n) << 63 | exponent << 52 | rng.integers(0, 2**52, n) >> rng.integers(0, 52, n)
    values = bits.view(np.float64)
    present = np.isfinite(values)
    start = np.arange(n)
    stop = np.full(n, n)
    numbers = exact.numbers_of(values, present)
    rests = [[Fraction(value) for value in values[i:]] for i in range(n)]
    assert exact.sums(numbers, start, stop).tolist() == [nearest(sum(rest)) for rest in rests]
    spread = [nearest(len(rest) * sum(x * x for x in rest) - sum(rest) ** 2) for rest in rests]
    wanted = exact.variances_of(np.array(spread), n - start)
    assert exact.variances(numbers, n - start, start, stop).tolist() == wanted.tolist()
