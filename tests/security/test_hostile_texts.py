"""Mutated queries and odd values: each call answers, or refuses with an error of cepkit, in bounded time."""

from __future__ import annotations

import pytest

from tests.support.hostile_runs import run_cases

N_QUICK, N_SLOW = 40, 2_000


@pytest.mark.parametrize("seed", range(24))
def test_a_hostile_text_is_answered_or_refused(seed):
    outcomes = run_cases(range(seed * N_QUICK, (seed + 1) * N_QUICK))
    assert outcomes.faults == []
    assert sum(outcomes.n_of.values()) == N_QUICK


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_hostile_texts_are_answered_or_refused(seed):
    first = 100_000 + seed * N_SLOW
    outcomes = run_cases(range(first, first + N_SLOW))
    print(outcomes)
    assert outcomes.faults == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_hundred_thousand_hostile_texts_are_answered_or_refused(seed):
    outcomes = run_cases(range(seed * 5_000, (seed + 1) * 5_000))
    print(outcomes)
    assert outcomes.faults == [] and outcomes.n_of["answers"] > 500
