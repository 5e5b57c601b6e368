"""Cohesive: its filters against brute force, the bound that it keeps, and what it must not drop."""

from __future__ import annotations

import numpy as np
import pytest

import cepkit as cep
from cepkit.shedding.strategies.classes import members
from cepkit.shedding.strategies.cohesive import N_STEPS, Cohesive, Filters, WarmUpWork, Worth
from tests.support.sizes import seeds
from tests.support.strategy_cases import QUERIES, Prepared, random_frame, serve, train


def warmed(seed: int, text: str) -> WarmUpWork:
    training = train(random_frame(seed, 150), text)
    steps = np.random.default_rng(seed).integers(0, N_STEPS, training.events.n_events)
    return WarmUpWork(training, steps)


@pytest.mark.parametrize("kind", ["sequence", "same type", "and", "events"])
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_filters_keep_the_matches_whose_events_all_stay(seed, kind):
    warm_up = warmed(seed, QUERIES[kind])
    filters = warm_up.filters()
    assert (filters.least[0] == 0).all() and filters.work[0] == filters.matches[0] == 1.0
    lineage, program = warm_up.lineage, warm_up.training.program
    found = members(lineage, program.n_leaves)[lineage.is_match]
    types = np.array([leaf.type for leaf in program.leaves])
    for least, share in zip(filters.least, filters.matches, strict=True):
        stays = (warm_up.steps[found] >= least[types]).all(axis=1)
        assert share == pytest.approx(stays.mean())
    assert (np.diff(filters.work) <= 1e-9).all() and (np.diff(filters.matches) <= 1e-9).all()


def test_the_best_filter_keeps_most_matches_in_the_time():
    filters = Filters(
        np.array([[0, 0], [0, 5], [9, 5]]), np.array([1.0, 0.5, 0.1]), np.array([1.0, 0.8, 0.1])
    )
    assert filters.best(1.0).tolist() == [0, 0]
    assert filters.best(0.9).tolist() == [0, 0]  # 0.9 of all matches, and 0.8 with the filter
    assert filters.best(0.5).tolist() == [0, 5]
    assert filters.best(0.01).tolist() == [0, 5]  # 0.8 of the matches for half of the work
    assert filters.best(0.01, gain=1.6).tolist() == [0, 5]
    assert filters.best(0.01, gain=1.61).tolist() == [0, 0]
    assert filters.best(0.6, gain=1.6).tolist() == [0, 5]


def test_partial_matches_are_worth_what_their_events_are():
    worth = Worth(
        np.array([[0.0, 1.0, 0.0], [0.0, -2.0, 0.0]]), np.zeros(2, np.int64), np.zeros(2), np.zeros((2, 3))
    )
    assert worth.of(np.array([[1, 0], [1, 1], [2, 2]])).tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_no_event_begins_after_the_bound(seed, kind):
    case = Prepared(seed, QUERIES[kind])
    training = case.train()
    shedder, waits = Cohesive().begin(training), []
    decide = shedder.before

    def watched(event, load, machine):
        if may := decide(event, load, machine):
            waits.append(load.clock - event.arrival)
        return may

    shedder.before = watched
    found = serve(training, shedder, case.arrivals)
    assert waits and max(waits) <= training.latency_bound
    report = shedder.report()
    assert report["late_events"] + report["useless_events"] == len(found.dropped) > 0


def test_events_that_must_be_absent_are_never_dropped():
    frame = random_frame(5, 2000, "ABC").assign(key=0)
    query = "PATTERN SEQ(A a, !B b, C c) WHERE b.x > a.x WITHIN 20 seconds"
    given = {"event_type": "type", "order_by": "time", "latency_bound": "30 us"}
    found = cep.replay(frame, query, shedding=cep.Cohesive(), **given)
    assert found.dropped["B"] == 0 < found.n_dropped
    assert found.precision == 1.0 and 0 < found.recall < 1


def test_settings_are_checked():
    with pytest.raises(cep.CepError, match="safety=0: expected a share above 0"):
        Cohesive(safety=0)
