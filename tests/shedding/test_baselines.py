"""Runs of eSPICE, hSPICE, pSPICE and Zhao et al.: what they find, charge, save and repeat."""

from __future__ import annotations

import numbers
from dataclasses import replace

import numpy as np
import pytest

from cepkit.shedding.strategies.espice import ESpice
from cepkit.shedding.strategies.hspice import HSpice
from cepkit.shedding.strategies.pspice import PSpice
from cepkit.shedding.strategies.strategy import Shedder
from cepkit.shedding.strategies.zhao import Zhao
from tests.support.strategy_cases import machine_of, random_frame, serve, train

pytest.importorskip("sklearn")
STRATEGIES = [
    ESpice(bins=12, interval=7),
    HSpice(bins=12, interval=7),
    PSpice(bins=12),
    Zhao(interval=10, time_slices=2),
    Zhao(interval=10, time_slices=1, knapsack="greedy", clusters=3),
]
names = [f"{one.name}{i}" for i, one in enumerate(STRATEGIES)]
WHERE = "WHERE skip_till_any_match AND b.x > a.x"
QUERIES = {
    "sequence": f"PATTERN SEQ(A a, B b, C c) {WHERE} WITHIN 25 seconds",
    "same type": f"PATTERN SEQ(A a, B b, A c) {WHERE} WITHIN 25 seconds",
    "and": f"PATTERN AND(A a, B b, C c) {WHERE} WITHIN 10 seconds",
    "or": "PATTERN SEQ(A a, OR(B b, C c), D d) WHERE skip_till_any_match WITHIN 15 seconds",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match AND b[i].x > a.x WITHIN 10 seconds",
    "events": f"PATTERN SEQ(A a, B b, C c) {WHERE} WITHIN 20 EVENTS",
}
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 170))]


def arrivals_of(seed: int, n: int, service: float, factor: float) -> np.ndarray:
    """Return Poisson arrivals with a peak in the middle third."""
    gap = np.full(n, service / 0.5)
    gap[n // 3 : 2 * n // 3] = service / factor
    return np.cumsum(np.random.default_rng(seed).exponential(gap))


def prepared(seed: int, text: str, factor: float = 30.0, n: int = 180):
    """Return machines, a warm-up with a tight bound, and arrivals with an overload."""
    frame = random_frame(seed, n)
    training = train(frame, text, n // 3)
    training = train(frame, text, n // 3, latency_bound=8 * training.service, seed=seed)
    arrivals = arrivals_of(seed, n, training.service, factor)
    return (lambda: machine_of(frame, text)), training, arrivals


def run(strategy, machines, training, arrivals, **swap):
    return serve(machines(), strategy.begin(training), arrivals, training.prices, training.service, **swap)


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("seed", SEEDS)
def test_shedding_loses_matches_and_invents_none(seed, strategy, kind):
    machines, training, arrivals = prepared(seed, QUERIES[kind])
    full = serve(machines(), Shedder(), arrivals, training.prices, training.service)
    found = run(strategy, machines, training, arrivals)
    assert len(set(found.matches)) == len(found.matches)
    assert set(found.matches) <= set(full.matches)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
def test_shedding_happens_and_helps(strategy):
    if strategy.name == "zhao":
        strategy = replace(strategy, interval=100)  # choosing classes takes as long as several events
    lost, latency = 0, []
    for seed in range(4):
        machines, training, arrivals = prepared(seed, QUERIES["sequence"], n=600)
        full = serve(machines(), Shedder(), arrivals, training.prices, training.service)
        found = run(strategy, machines, training, arrivals)
        lost += len(full.matches) - len(found.matches)
        latency.append(np.mean(found.latency) / np.mean(full.latency))
    assert lost > 0
    assert np.mean(latency) < 1


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("seed", range(4))
def test_below_the_limit_nothing_is_dropped(seed, strategy):
    machines, training, arrivals = prepared(seed, QUERIES["sequence"])
    training = replace(training, latency_bound=1e6)
    full = serve(machines(), Shedder(), arrivals, training.prices, training.service)
    found = run(strategy, machines, training, arrivals)
    assert found.matches == full.matches
    assert (found.dropped, found.created, found.pairs) == ([], full.created, full.pairs)
    wanted = {"espice": set(), "hspice": set(), "pspice": {"update"}, "zhao": {"classify", "update"}}
    assert {name for name, n in found.charged.items() if n} <= wanted[strategy.name]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("seed", range(4))
def test_runs_repeat(seed, strategy):
    machines, training, arrivals = prepared(seed, QUERIES["sequence"])
    one, other = (run(strategy, machines, training, arrivals) for _ in range(2))
    assert one == other
    again = prepared(seed, QUERIES["sequence"])[1]
    assert run(strategy, machines, again, arrivals) == one


@pytest.mark.parametrize("seed", range(6))
def test_espice_pays_for_every_window_of_every_event(seed):
    machines, training, arrivals = prepared(seed, QUERIES["sequence"])
    training = replace(training, latency_bound=1e6)
    found = run(ESpice(bins=12, always=True), machines, training, arrivals)
    machine = machines()
    types, n = machine.types_of_events(), machine.n_events
    time = machine.times_of(np.arange(n))
    span = 25 * (10**9 if time[-1] > 1e17 else 10**6)
    wanted = sum(
        types[o] == 0 and time[e] - time[o] <= span for e in range(n) if types[e] >= 0 for o in range(e + 1)
    )
    assert found.charged["lookup"] == wanted > 0


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_hspice_pays_for_every_pair(seed, kind):
    machines, training, arrivals = prepared(seed, QUERIES[kind])
    found = run(HSpice(bins=12, always=True), machines, training, arrivals)
    assert found.charged["lookup"] == found.pairs > 0
    # Without shedding, the pairs are those that a learning machine combines.
    machine = machines()
    machine.learning = True
    pairs = sum(machine.feed(p).pairs for p in range(machine.n_events))
    assert pairs == machine.considered[:, :, 1:].sum()


@pytest.mark.parametrize("seed", range(6))
def test_skipped_pairs_count_as_pairs(seed):
    machines, training, _ = prepared(seed, QUERIES["sequence"])
    machine = machines()
    machine.learning = True
    machine.skip = np.random.default_rng(seed).random(machine.considered.shape) < 0.3
    pairs = sum(machine.feed(p).pairs for p in range(machine.n_events))
    assert pairs == (machine.considered + machine.skipped)[:, :, 1:].sum()


@pytest.mark.parametrize("seed", range(4))
def test_zhao_pays_for_the_class_of_every_partial_match(seed):
    machines, training, arrivals = prepared(seed, QUERIES["sequence"])
    training = replace(training, latency_bound=1e6)
    found = run(Zhao(interval=10), machines, training, arrivals)
    assert found.charged["classify"] == found.created
    n_events = int((machines().types_of_events() >= 0).sum())
    found = run(Zhao(interval=10, always=True), machines, training, arrivals)
    assert found.charged["classify"] == found.created + n_events


def is_plain(value) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(own) for key, own in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype != object
    return value is None or isinstance(value, numbers.Number | str)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("share", [0.1, 0.45, 0.6])
@pytest.mark.parametrize("seed", range(2))
def test_a_restored_shedder_continues(seed, share, strategy):
    machines, training, arrivals = prepared(seed, QUERIES["sequence"])
    # The new shedder learned from another warm-up; what it restores must replace all of that.
    other = prepared(seed + 50, QUERIES["sequence"])[1]
    other = replace(other, latency_bound=training.latency_bound, service=training.service)

    def swap(shedder):
        saved = shedder.save()
        assert is_plain(saved)
        restored = strategy.begin(other)
        restored.restore(saved)
        assert restored.report() == shedder.report()
        return restored

    wanted = run(strategy, machines, training, arrivals)
    found = run(strategy, machines, training, arrivals, swap=swap, swap_at=int(share * len(arrivals)))
    assert found == wanted


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
def test_a_warm_up_without_matches_is_enough(strategy):
    machines, training, arrivals = prepared(1, QUERIES["sequence"].replace("b.x > a.x", "b.x > a.x + 1000"))
    found = run(strategy, machines, training, arrivals)
    assert not found.matches
