"""The aligned gather equals a single node; the gather of the thesis does not."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from cepkit.scaleout.k_slack import reorder
from cepkit.scaleout.query_nodes import merge_counts, merge_integers, merge_sums, share_of
from papers.scatter_gather.formulas import gather_error, naive_sums
from tests.support.sizes import seeds

FUNCTIONS = ("sum", "count", "var")
CASES_PER_SEED = 50


def sliding_by_length(n: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of the last ``length`` events after each of n events, as starts and stops."""
    stop = np.arange(1, n + 1)
    return np.maximum(stop - length, 0), stop


def sliding_by_time(time: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows after each event of the events with a time above ``now - window``."""
    return np.searchsorted(time, time - window, "right"), np.arange(1, len(time) + 1)


def gathered(function: str, values: np.ndarray, start, stop, n_nodes: int) -> np.ndarray:
    """Return an aggregate of each window, merged from nodes that get the events in turn."""
    shares = [share_of(node, np.arange(len(values)) % n_nodes, start, stop) for node in range(n_nodes)]
    present = np.ones(len(values), bool) if values.dtype.kind == "i" else ~np.isnan(values)
    count = merge_counts(present, shares)
    if function == "count":
        return count
    if function == "var":
        return merge_sums(values, present, shares, count)
    return merge_integers(values, shares) if values.dtype.kind == "i" else merge_sums(values, present, shares)


def on_one_node(function: str, values: list):
    """Return an aggregate of the values of one window, from its definition; sums are rounded once."""
    n = len(values)
    if function == "count":
        return n
    total = sum(map(Fraction, values))
    if function == "sum":
        return int(total) if isinstance(values[0], int) else float(total)
    spread = n * sum(Fraction(value) ** 2 for value in values) - total**2
    return float(spread) / (n * n)


def drawn(case: Random) -> tuple[list, list[int]]:
    """Return values and times with ties of a stream."""
    n = case.randint(1, 40)
    if case.random() < 0.5:
        values = [case.randint(-9, 9) for _ in range(n)]
    else:
        values = [case.uniform(-1, 1) * 10 ** case.randint(-8, 8) for _ in range(n)]
    time = 0
    times = [time := time + case.choice([0, 0, 1, 3]) for _ in range(n)]
    return values, times


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_the_aligned_gather_equals_a_single_node(seed):
    case = Random(seed)
    for _ in range(CASES_PER_SEED):
        values, times = drawn(case)
        n, n_nodes, size = len(values), case.randint(1, 8), case.randint(1, 12)
        is_length = case.random() < 0.5
        start, stop = sliding_by_length(n, size) if is_length else sliding_by_time(np.array(times), size)
        function = case.choice(FUNCTIONS)
        got = gathered(function, np.array(values), start, stop, n_nodes).tolist()
        for s in range(n):
            inside = [
                values[q] for q in range(s + 1) if (q > s - size if is_length else times[q] > times[s] - size)
            ]
            assert got[s] == on_one_node(function, inside)


@pytest.mark.parametrize("n_nodes", range(1, 9))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_infinities_and_missing_values_are_those_of_one_node(n_nodes, function):
    values = np.array([1.0, np.nan, np.inf, 2.0, -np.inf, np.nan, 3.0, np.nan, np.nan, 4.0, np.inf])
    start, stop = sliding_by_length(len(values), 2)
    one = gathered(function, values, start, stop, 1)
    np.testing.assert_array_equal(gathered(function, values, start, stop, n_nodes), one)


@pytest.mark.parametrize("length", [96, 97, 100, 101, 103, 120])
@pytest.mark.parametrize("n_nodes", [2, 3, 4, 8])
def test_the_printed_length_rule_is_right_only_if_the_nodes_divide_the_length(n_nodes, length):
    values = np.ones(2000, np.int64)
    start, stop = sliding_by_length(2000, length)
    right = gathered("sum", values, start, stop, n_nodes)
    error = gather_error(naive_sums(values, n_nodes, length=length)[500:], right[500:])
    if length % n_nodes:
        assert error.share == 1 and 0 < error.relative <= n_nodes / length
    else:
        assert error.share == error.relative == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_nodes", [2, 4, 8])
def test_late_results_spoil_the_naive_gather_and_k_slack_reduces_the_error(n_nodes, seed):
    r = np.random.default_rng(seed)
    n, length = 4000, 96
    values = r.integers(1, 100, n)
    start, stop = sliding_by_length(n, length)
    right = gathered("sum", values, start, stop, n_nodes)
    delays = np.where(r.random(n) < 0.02, r.uniform(0, 30, n), 0)
    order = np.argsort(np.arange(n) + delays, kind="stable")
    late = gather_error(naive_sums(values, n_nodes, length=length, order=order), right)
    again, after = reorder(order)
    slack = gather_error(naive_sums(values, n_nodes, length=length, order=order[again]), right)
    assert late.share > 0 and slack.share < late.share / 2
    assert after.out_of_order < 20
    in_order = gather_error(naive_sums(values, n_nodes, length=length), right)
    assert in_order.share == 0


@pytest.mark.parametrize("n_nodes", [2, 5])
def test_nodes_that_expire_by_their_own_events_are_wrong_in_time(n_nodes):
    r = np.random.default_rng(0)
    time, values = np.cumsum(r.integers(0, 4, 1000)), r.integers(1, 100, 1000)
    start, stop = sliding_by_time(time, 50)
    right = gathered("sum", values, start, stop, n_nodes)
    assert gather_error(naive_sums(values, n_nodes, window=50, time=time), right).share > 0.1
    assert gather_error(naive_sums(values, 1, window=50, time=time), right).share == 0
