"""The aligned gather equals a single node; the gather of the thesis does not."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from cepkit.errors import UnsupportedQueryError
from cepkit.scaleout.gather.aligned import (
    OpenGather,
    aligned_gather,
    by_group,
    sliding_by_length,
    sliding_by_time,
)
from cepkit.scaleout.gather.k_slack import reorder
from cepkit.scaleout.gather.naive import gather_error, naive_sums
from tests.support.sizes import seeds

FUNCTIONS = ("sum", "count", "avg", "min", "max", "std")
CASES_PER_SEED = 50


def on_one_node(function: str, values: list):
    """Return an aggregate of the values of one window, from its definition; sums are rounded once."""
    n = len(values)
    if function == "count":
        return n
    if function in ("min", "max"):
        return {"min": min, "max": max}[function](values)
    total = sum(map(Fraction, values))
    if function == "sum":
        return int(total) if isinstance(values[0], int) else float(total)
    if function == "avg":
        return float(total) / n
    spread = n * sum(Fraction(value) ** 2 for value in values) - total**2
    return math.sqrt(float(spread) / (n * n))


def drawn(case: Random) -> tuple[list, list[int], list[int]]:
    """Return values, times with ties and groups of a stream."""
    n = case.randint(1, 40)
    if case.random() < 0.5:
        values = [case.randint(-9, 9) for _ in range(n)]
    else:
        values = [case.uniform(-1, 1) * 10 ** case.randint(-8, 8) for _ in range(n)]
    time = 0
    times = [time := time + case.choice([0, 0, 1, 3]) for _ in range(n)]
    return values, times, [case.randint(0, 2) for _ in range(n)]


@pytest.mark.parametrize("seed", seeds(8, 40))
def test_the_aligned_gather_equals_a_single_node(seed):
    case = Random(seed)
    for _ in range(CASES_PER_SEED):
        values, times, group = drawn(case)
        n, n_nodes, size = len(values), case.randint(1, 8), case.randint(1, 12)
        is_length = case.random() < 0.5
        start, stop = sliding_by_length(n, size) if is_length else sliding_by_time(np.array(times), size)
        group = group if case.random() < 0.5 else [0] * n
        made = by_group(np.array(group), start, stop)
        function = case.choice(FUNCTIONS)
        got = aligned_gather(
            function, np.array(values)[made.event_of_place], made.start, made.stop,
            made.event_of_place % n_nodes, n_nodes,
        ).tolist()  # fmt: skip
        for s in range(n):
            inside = [
                values[q]
                for q in range(s + 1)
                if group[q] == group[s] and (q > s - size if is_length else times[q] > times[s] - size)
            ]
            assert got[s] == on_one_node(function, inside)


@pytest.mark.parametrize("seed", range(10))
def test_the_open_gather_releases_outputs_in_order_for_any_arrival(seed):
    case = Random(seed)
    n_nodes, n, length = case.randint(1, 8), 60, case.randint(1, 20)
    values = [case.uniform(-1, 1) * 10 ** case.randint(-3, 3) for _ in range(n)]
    messages = [
        (node, s, sum(values[q] for q in range(max(0, s - length + 1), s + 1) if q % n_nodes == node))
        for s in range(n)
        for node in range(n_nodes)
    ]
    in_order = OpenGather(n_nodes, sum)
    right = [output for message in messages for output in in_order.push(*message)]
    assert [s for s, _ in right] == list(range(n)) and in_order.most_waiting <= 1
    case.shuffle(messages)
    gather = OpenGather(n_nodes, sum)
    assert [output for message in messages for output in gather.push(*message)] == right


@pytest.mark.parametrize("n_nodes", range(1, 9))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_infinities_and_missing_values_are_those_of_one_node(n_nodes, function):
    values = np.array([1.0, np.nan, np.inf, 2.0, -np.inf, np.nan, 3.0, np.nan, np.nan, 4.0, np.inf])
    start, stop = sliding_by_length(len(values), 2)
    nodes = np.arange(len(values)) % n_nodes
    one = aligned_gather(function, values, start, stop, np.zeros(len(values), int), 1)
    np.testing.assert_array_equal(aligned_gather(function, values, start, stop, nodes, n_nodes), one)


@pytest.mark.parametrize("length", [96, 97, 100, 101, 103, 120])
@pytest.mark.parametrize("n_nodes", [2, 3, 4, 8])
def test_the_printed_length_rule_is_right_only_if_the_nodes_divide_the_length(n_nodes, length):
    values = np.ones(2000, np.int64)
    start, stop = sliding_by_length(2000, length)
    right = aligned_gather("sum", values, start, stop, np.arange(2000) % n_nodes, n_nodes)
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
    right = aligned_gather("sum", values, start, stop, np.arange(n) % n_nodes, n_nodes)
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
    right = aligned_gather("sum", values, start, stop, np.arange(1000) % n_nodes, n_nodes)
    assert gather_error(naive_sums(values, n_nodes, window=50, time=time), right).share > 0.1
    assert gather_error(naive_sums(values, 1, window=50, time=time), right).share == 0


@pytest.mark.parametrize("function", ["median", "distinct", "quantile"])
def test_aggregates_that_parts_do_not_determine_are_refused(function):
    with pytest.raises(UnsupportedQueryError, match=f"{function} cannot run over several nodes"):
        aligned_gather(function, np.ones(1), *sliding_by_length(1, 1), np.zeros(1, int), 1)
