"""Runs of eSPICE, hSPICE, pSPICE, Zhao et al. and Cohesive: what they find, charge, save and repeat."""

from __future__ import annotations

import numbers
from dataclasses import replace
from importlib.util import find_spec
from random import Random

import numpy as np
import pytest

from cepkit.shedding.strategies.cohesive import Cohesive
from cepkit.shedding.strategies.spice import ESpice, HSpice, PSpice
from cepkit.shedding.strategies.zhao import Zhao
from tests.support.sizes import seeds
from tests.support.strategy_cases import QUERIES, Prepared, machine_of, random_frame

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")
STRATEGIES = [
    ESpice(interval=7),
    HSpice(interval=7),
    PSpice(bins=12),
    Zhao(interval=10, time_slices=2),
    Zhao(interval=10, time_slices=1, knapsack="greedy", clusters=3),
    Cohesive(),
]
names = [f"{one.name}{i}" for i, one in enumerate(STRATEGIES)]


def random_query(seed: int) -> str:
    """Return a sequence, an alternative or all-of of random types, conditions and window."""
    rng = Random(f"query {seed}")
    n = rng.choice([2, 3, 3, 4])
    kinds = [rng.choice("ABCD") for _ in range(n)] if rng.random() < 0.3 else rng.sample("ABCD", n)
    form = rng.choice(["SEQ", "SEQ", "SEQ", "AND", "OR"])
    group = rng.randrange(1, n) if form == "SEQ" and rng.random() < 0.3 else -1
    names, parts, where = "abcd"[:n], [], ["skip_till_any_match"]
    for i, (kind, name) in enumerate(zip(kinds, names, strict=True)):
        parts.append(f"{kind}+ {name}[]" if i == group else f"{kind} {name}")
    if form == "OR" and n > 2:
        parts[1:3] = [f"OR({parts[1]}, {parts[2]})"]
        pattern, readable = f"SEQ({', '.join(parts)})", {0, *range(3, n)}
    else:
        form = "SEQ" if form == "OR" else form
        pattern, readable = f"{form}({', '.join(parts)})", set(range(n))
    for i in sorted(readable):
        one = names[i] + ("[i]" if i == group else "")
        if rng.random() < 0.25:
            where.append(f"{one}.x > {rng.randint(5, 40)}")
        for j in sorted(readable):
            if j < i and j != group and rng.random() < 0.5:
                where.append(f"{one}.x {rng.choice('<>')} {names[j]}.x + {rng.randint(-20, 20)}")
    width = rng.randint(6, 12) if group >= 0 or form == "AND" else rng.randint(12, 28)
    unit = "EVENTS" if rng.random() < 0.2 else "seconds"
    return f"PATTERN {pattern} WHERE {' AND '.join(where)} WITHIN {width} {unit}"


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("seed", seeds(1, 170))
def test_shedding_loses_matches_and_invents_none(seed, strategy, kind):
    case = Prepared(seed, QUERIES[kind])
    full, found = case.run(), case.run(strategy)
    assert len(set(found.matches)) == len(found.matches)
    assert set(found.matches) <= set(full.matches)


@pytest.mark.parametrize("seed", seeds(3, 1000))
def test_shedding_of_random_queries_invents_nothing(seed):
    case = Prepared(seed, random_query(seed))
    full = set(case.run().matches)
    for strategy in STRATEGIES:
        found = case.run(strategy).matches
        assert len(set(found)) == len(found) and set(found) <= full, (strategy, case.text)


def test_random_queries_reach_everything():
    texts = [random_query(seed) for seed in range(60)]
    assert len(set(texts)) == 60
    for sign in ("SEQ(", "AND(", "OR(", "+ ", "EVENTS", " < ", " > "):
        assert sum(sign in text for text in texts) > 3, sign
    n_lossy = 0
    for seed in range(6):
        case = Prepared(seed, random_query(seed))
        n_lossy += len(case.run(STRATEGIES[0]).matches) < len(case.run().matches)
    assert n_lossy > 2


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
def test_shedding_happens_and_helps(strategy):
    lost, latency = 0, []
    for seed in range(2):
        case = Prepared(seed, QUERIES["sequence"], n=600)
        full, found = case.run(), case.run(strategy)
        lost += len(full.matches) - len(found.matches)
        latency.append(np.mean(found.latency) / np.mean(full.latency))
    assert lost > 0
    assert np.mean(latency) < 1


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("seed", range(2))
def test_below_the_limit_nothing_is_dropped(seed, strategy):
    case = Prepared(seed, QUERIES["sequence"], latency_bound=1e6)
    full, found = case.run(), case.run(strategy)
    assert found.matches == full.matches
    assert (found.dropped, found.created, found.pairs) == ([], full.created, full.pairs)
    wanted = {
        "espice": set(), "hspice": set(), "pspice": {"update"}, "zhao": {"classify", "update"},
        "cohesive": {"update"},
    }  # fmt: skip
    assert {name for name, n in found.charged.items() if n} <= wanted[strategy.name]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("seed", range(1))
def test_runs_repeat(seed, strategy):
    case = Prepared(seed, QUERIES["sequence"])
    assert case.run(strategy) == case.run(strategy) == Prepared(seed, QUERIES["sequence"]).run(strategy)


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_espice_pays_for_every_window_of_every_event(seed):
    case = Prepared(seed, QUERIES["sequence"], latency_bound=1e6)
    found = case.run(ESpice(always=True))
    types, time = case.frame["type"].to_numpy(), case.frame["time"].to_numpy()
    window = np.timedelta64(25, "s")
    wanted = sum(
        types[o] == "A" and time[e] - time[o] <= window
        for e in range(case.n // 3, case.n)
        if types[e] in "ABC"
        for o in range(e + 1)
    )
    assert found.charged["lookup"] == wanted > 0


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("seed", range(1))
def test_hspice_pays_for_every_pair(seed, kind):
    case = Prepared(seed, QUERIES[kind])
    found = case.run(HSpice(always=True))
    assert found.charged["lookup"] == found.pairs > 0
    # Without shedding, the pairs are those that a learning machine combines.
    machine = machine_of(case.frame, case.text)
    machine.learning = True
    pairs = sum(machine.feed(p).pairs for p in range(machine.n_events))
    assert pairs == machine.considered[:, :, 1:].sum()


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_skipped_pairs_count_as_pairs(seed):
    machine = machine_of(random_frame(seed, 180), QUERIES["sequence"])
    machine.learning = True
    machine.skip = np.random.default_rng(seed).random(machine.considered.shape) < 0.3
    pairs = sum(machine.feed(p).pairs for p in range(machine.n_events))
    assert pairs == (machine.considered + machine.skipped)[:, :, 1:].sum()


@pytest.mark.parametrize("seed", range(4))
def test_zhao_pays_for_the_class_of_every_partial_match(seed):
    case = Prepared(seed, QUERIES["sequence"], latency_bound=1e6)
    found = case.run(Zhao(interval=10))
    assert found.charged["classify"] == found.created
    n_events = int(case.frame["type"][case.n // 3 :].isin(list("ABC")).sum())
    found = case.run(Zhao(interval=10, always=True))
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
@pytest.mark.parametrize("share", [0.45, 0.7])
@pytest.mark.parametrize("seed", range(1))
def test_a_restored_shedder_continues(seed, share, strategy):
    case = Prepared(seed, QUERIES["sequence"])
    # The new shedder learned from another warm-up; what it restores must replace all of that.
    other = Prepared(seed + 50, QUERIES["sequence"], **case.changes).train()
    other = replace(other, service=case.train().service)

    def swap(shedder):
        saved = shedder.save()
        assert is_plain(saved)
        restored = strategy.begin(other)
        restored.restore(saved)
        assert restored.report() == shedder.report()
        return restored

    wanted = case.run(strategy)
    assert case.run(strategy, swap=swap, swap_at=int(share * case.n)) == wanted


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
def test_a_warm_up_without_matches_is_enough(strategy):
    case = Prepared(1, QUERIES["sequence"].replace("b.x > a.x", "b.x > a.x + 1000"))
    assert not case.run(strategy).matches
