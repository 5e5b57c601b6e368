"""Joins by interpretation against the definition, and against the generated functions, to the last counter.

With the JIT, the shipped kernels run, and few shapes are compiled to compare. Without it, both run as Python.
"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest

import cepkit as cep
from cepkit.parallel import agents as module_of_agents
from cepkit.parallel import running
from cepkit.parallel.agents import Agents, Crew, RunSettings
from cepkit.parallel.running import run_agents, simulate_agents
from tests.support import agent_cases as ac
from tests.support.sizes import JIT, seeds
from tests.support.tiers import interpret, use_tier

SEEDS = 2


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret what can be interpreted, without the JIT, too."""
    interpret(monkeypatch)


def check(seed: int, family: str, *, compare: bool) -> bool:
    """Compare runs of a random query; return whether its joins are interpreted."""
    case = ac.drawn(seed, family)
    if case is None:
        return False
    program, events, wanted = case
    draw = Random(f"interpreted {seed} {family}")
    orders = ac.drawn_orders(program, draw)
    agents = Agents(program, events, orders)
    if agents.code is None:
        return False
    crew, settings = ac.drawn_crew(agents, draw), ac.draw_settings(draw)
    arrival = ac.drawn_arrival(draw, events.n_events)
    how = {"costs": ac.drawn_costs(draw, len(agents.labels)), "arrival": arrival, "seed": draw.randint(0, 99)}
    made = simulate_agents(agents, crew, settings, room=draw.choice([1, 4, 64]), **how)
    assert ac.found(program, made) == wanted, (crew, settings, how)
    ac.check_run(agents, settings, made, arrival)
    measured = run_agents(agents, crew, settings, room=draw.choice([1, 4, 64]), seed=seed)
    assert ac.found(program, measured) == wanted, (crew, settings)
    ac.check_run(agents, settings, measured)
    counted = simulate_agents(agents, crew, replace(settings, keep=False, trace=False), **how)
    assert (counted.n_matches, counted.makespan) == (made.n_matches, made.makespan)
    if compare:
        compiled = Agents(program, events, orders, compiled=True)
        assert compiled.code is None
        assert_same(made, simulate_agents(compiled, crew, settings, room=64, **how))
    return True


def assert_same(one, other) -> None:
    """Assert that two results have the same values in all of their fields."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif hasattr(one, "__dataclass_fields__"):
        for field in (field for field in fields(one) if field.compare):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other or (one != one and other != other)  # NaN


@pytest.mark.parametrize("family", ac.FAMILIES)
@pytest.mark.parametrize("seed", seeds(SEEDS, 400))
def test_interpreted_joins_find_each_match_once(seed, family, interpreted, monkeypatch):
    if not JIT:
        monkeypatch.setattr("cepkit.kernels.wings.agent_layout.MOST_HITS", 3)  # joins often stop in between
    if not check(seed, family, compare=not JIT):
        pytest.skip("not a query for interpreted agents")


@pytest.mark.skipif(not JIT, reason="all cases are compared without the JIT")
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_compiled_and_interpreted_runs_are_the_same(seed, interpreted):
    draw = Random(f"compared {seed}")
    assert any(check(draw.randint(0, 5_000), draw.choice(ac.FAMILIES), compare=True) for _ in range(60))


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_compiled_joins_take_over_in_the_middle_of_a_run(seed, interpreted, monkeypatch):
    """At different moments, in virtual time and on threads."""
    draw, n = Random(f"take over {seed}"), 300
    frame = ac.in_row("".join(draw.choice("ABC") for _ in range(n))).assign(
        x=[draw.random() for _ in range(n)]
    )
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 60"
    program, events = ac.sequences(frame, text)
    how = {"costs": ac.drawn_costs(draw, 2), "seed": seed}
    crew, settings = Crew("fully_dynamic", draw.randint(1, 3)), RunSettings(batch=draw.choice([1, 3, 32]))
    monkeypatch.setattr(running, "_STEPS_PER_CALL", draw.choice([7, 50]))
    wanted = simulate_agents(Agents(program, events, compiled=True), crew, settings, **how)
    for moment in (1, 3, 10):
        calls = iter(range(10**9))
        monkeypatch.setattr(module_of_agents, "is_ready", lambda _, c=calls, m=moment: next(c) >= m)
        agents = Agents(program, events)
        assert agents.code is not None
        assert_same(simulate_agents(agents, crew, settings, **how), wanted)
        assert ("_compiled" in vars(agents)) == (next(calls) > moment)  # a short run ends before moment 10
        assert moment == 10 or "_compiled" in vars(agents)
        calls = iter(range(10**9))
        monkeypatch.setattr(module_of_agents, "is_ready", lambda _, c=calls, m=moment: next(c) >= m)
        measured = run_agents(Agents(program, events), crew, settings, seed=seed)
        assert ac.found(program, measured) == ac.found(program, wanted)


def test_most_random_cases_are_interpreted(interpreted):
    cases = [ac.drawn(seed, family) for seed in range(4) for family in ac.FAMILIES]
    own = [Agents(case[0], case[1]).code is not None for case in cases if case is not None]
    assert len(own) >= 25 and sum(own) >= 0.7 * len(own)


@pytest.mark.skipif(not JIT, reason="without the JIT there is one tier")
def test_simulation_is_the_same_in_all_tiers(monkeypatch):
    """The public call, on more events than the random cases have."""
    rng = np.random.default_rng(5)
    n = 2_000
    frame = ac.in_row("".join(rng.choice(list("ABCD"), n))).assign(x=rng.random(n), k=rng.integers(0, 40, n))
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND a.x < c.x AND b[i].x > b[i-1].x AND avg(b.x) < c.x "
    runs = []
    for tier in ("interpreted", "compiled"):
        with monkeypatch.context() as patched:
            use_tier(tier, patched)
            how = {"engine": cep.Hybrid(threads=4), "event_type": "type", "order_by": "ts"}
            runs.append(cep.simulate(frame, query + "WITHIN 300", **how))
    assert runs[0].n_matches == runs[1].n_matches > 100
    assert_same(runs[0].block, runs[1].block)
    assert runs[0].makespan == runs[1].makespan
    np.testing.assert_array_equal(runs[0].compared, runs[1].compared)
    np.testing.assert_array_equal(runs[0].looked, runs[1].looked)
