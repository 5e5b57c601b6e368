"""Agents as machine code: few shapes on many events, real threads, the cost model, and how runs are ended.

`test_agents` has many shapes. Compiled here are the two kernels of agents and a few queries.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import numba
import numpy as np
import pandas as pd
import pytest

from cepkit.compile.shared.loading import load_kernels
from cepkit.datasets.constant_rate import poisson_types
from cepkit.parallel import join_source, running
from cepkit.parallel.agent_run import KERNELS, AgentRun
from cepkit.parallel.agents import Agents, Crew, RunSettings, agents_unsupported
from cepkit.parallel.divided import RIP, DataParallel
from cepkit.parallel.engines import Hybrid, Sequential, StateParallel
from cepkit.parallel.join_source import memo_partner, memo_size
from cepkit.parallel.model import agent_statistics
from cepkit.parallel.running import on_threads, run_agents, simulate_agents
from cepkit.planning.planner import engines
from papers.hybrid_parallel.details import evaluations_per_agent
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support import agent_cases as ac
from tests.support.sequence_runs import as_matches, bound
from tests.support.sizes import seeds

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="many events")
FULL_SHAPES, FULL_STREAMS = 4, 250
RUNS, FULL_RUNS = 4, 1000


def pytest_generate_tests(metafunc):
    for name, default, most in (("number", RUNS, FULL_RUNS), ("poisson", 1, 8)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, seeds(default, most))


# --- queries ----------------------------------------------------------------------------------------------

CHAIN = """PATTERN SEQ(A a, B b, C c, D d)
WHERE (a.x + b.x) % 1000 < 400 AND (b.x + c.x) % 1000 < 300 AND (c.x + d.x) % 1000 < 500 WITHIN 5 s"""
LOOP = """PATTERN SEQ(A a, B+ b, C c)
WHERE (a.x + b.x) % 1000 < 300 AND (b.x + c.x) % 1000 < 300 WITHIN 5 s"""
RISING = "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > b[i-1].x AND avg(b.x) < c.x WITHIN 3 s"
QUERIES = {"chain": CHAIN, "loop": LOOP, "rising": RISING}


@cache
def prepared(name: str):
    """Return the agents of a query on a Poisson stream, and its matches as the search engine finds them."""
    stream = poisson_types({"A": 2, "B": 2.0, "C": 3, "D": 1}, 600.0, seed=3, n_keys=3).iloc[:1500]
    program, events = ac.sequences(stream, QUERIES[name])
    found = engines()["search"].run(program, events).ending(0, events.n_events)
    return Agents(program, events), rows_of(found)


def rows_of(block) -> Counter:
    """Return the matches as rows; which belong to a loop follows from their types."""
    bounds = block.first_item_of_match
    events = block.event_of_item.tolist()
    return Counter(tuple(events[low:high]) for low, high in pairwise(bounds.tolist()))


@cache
def alike():
    """Return a program whose conditions compare arrays, its events, and its matches as rows."""
    draw, n = np.random.default_rng(5), 700
    arrays = [*np.cumsum(draw.normal(size=(n, 6)), axis=1)]
    stream = pd.DataFrame({"type": draw.choice([*"ABCD"], n), "ts": np.arange(n) // 2, "h": arrays})
    where = "corr(a.h, b.h) > 0.6 AND corr(b.h, c.h) > 0.6 AND l2(d.h, b.h) < 5"
    program, events = ac.sequences(stream, f"PATTERN SEQ(A a, B b, C c, D d) WHERE {where} WITHIN 40")
    found = engines()["search"].run(program, events).ending(0, events.n_events)
    return program, events, rows_of(found)


@cache
def agents_alike():
    """Return agents that remember what pairs of events came to, and the matches."""
    program, events, wanted = alike()
    return Agents(program, events), wanted


ALL_ENGINES = [
    Sequential(), Sequential(scoped=False), StateParallel(), RIP(2), RIP(2, chunk=37), RIP(3, multiple=2),
    RIP(2, multiple=1, start_filter=False), Hybrid(1, "fully_dynamic", fuse="auto", batch=2), Hybrid(3),
    Hybrid(4, "static"), Hybrid(5, "static", removal="window", cost_model="paper"),
    Hybrid(5, "state_dynamic", cost_model="measured", batch=1),
    Hybrid(3, "state_dynamic", fuse=[("b", "c")], batch=4),
]  # fmt: skip


@pytest.mark.parametrize("name", ["loop", "chain", "rising"])
def test_engines_find_what_the_search_engine_finds(name):
    agents, wanted = prepared(name)
    assert sum(wanted.values()) > 300 and max(wanted.values()) == 1
    if name != "chain":
        assert max(map(len, wanted)) > 5  # loops with several events
    for engine in ALL_ENGINES:
        if isinstance(engine, Hybrid):  # a thread of each kind for one agent more
            engine = replace(engine, threads=engine.threads + 2 * (len(agents.labels) - 2))
        for run in (
            engine.simulate(agents.program, agents.events, keep=True),
            engine.run(agents.program, agents.events),
        ):
            assert rows_of(run.block) == wanted, engine
            ac.check_run(agents, RunSettings(), run)


def test_keys_divided_among_threads():
    stream = poisson_types({"A": 2, "B": 2.0, "C": 3, "D": 1}, 200.0, seed=3, n_keys=3)
    program, events = ac.sequences(stream, CHAIN.replace("WHERE", "WHERE [key] AND"))
    wanted = rows_of(Sequential().run(program, events).block)
    assert sum(wanted.values()) > 30
    for engine in (DataParallel(2), DataParallel(4, how="hash")):
        for run in (engine.simulate(program, events, keep=True), engine.run(program, events)):
            assert rows_of(run.block) == wanted and run.n_matches == wanted.total(), engine


# --- the definition ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", range(FULL_SHAPES))
def test_one_shape_on_many_streams(shape, full):
    """Streams of one shape: all loops, absences and orders that were drawn for it."""
    family = ("negation", "any", "window", "alternatives")[shape % 4]
    for stream in range(FULL_STREAMS if full else 60):
        case = gs.case(1000 * shape + stream, shape, family)
        case = replace(case, query=replace(case.query, strategy="any", after_match=("none", None)))
        program, events = bound(case)
        assert not agents_unsupported(program)
        wanted = Counter(sequence_matches(case.query, case.rows))
        draw = Random(f"{shape} {stream}")
        agents = Agents(program, events)
        crew, settings = ac.drawn_crew(agents, draw), ac.draw_settings(draw)
        arrival = ac.drawn_arrival(draw, events.n_events)
        costs = ac.drawn_costs(draw, len(agents.labels))
        simulated = simulate_agents(agents, crew, settings, costs=costs, arrival=arrival, room=1)
        assert Counter(as_matches(program, simulated.block)) == wanted, (crew, settings)
        ac.check_run(agents, settings, simulated, arrival)
        measured = run_agents(agents, crew, settings, room=1)
        assert Counter(as_matches(program, measured.block)) == wanted, (crew, settings)
        ac.check_run(agents, settings, measured)


# --- real threads -----------------------------------------------------------------------------------------


def test_no_match_is_lost_or_found_twice_on_real_threads(number):
    """Batches as small as can be: threads meet at every item, and at what they remember of pairs."""
    draw = Random(number)
    agents, wanted = prepared("loop") if number % 2 else agents_alike()
    allocation = draw.choice(["static", "state_dynamic", "fully_dynamic", "fully_dynamic"])
    crew = ac.drawn_crew(agents, draw, allocation)
    if allocation == "fully_dynamic" or crew.n_threads > 6:
        crew = Crew("fully_dynamic", draw.choice([2, 3, 4]), fused=((0, 1),) if draw.random() < 0.3 else ())
    settings = RunSettings(
        batch=draw.choice([1, 2, 4]), chunk=draw.choice([1, 8, 64]), trace=draw.random() < 0.5,
        removal=draw.choice(["watermark", "watermark", "window"]), backlog=draw.choice([16, 4096]),
    )  # fmt: skip
    run = run_agents(agents, crew, settings, seed=number, room=draw.choice([1, 256]))
    assert rows_of(run.block) == wanted, (crew, settings)
    assert run.taken[:, 0].sum() == sum(len(agents.events_of_stage[s]) for s in agents.stage_of_agent)
    ac.check_run(agents, settings, run)
    counted = run_agents(agents, crew, replace(settings, keep=False), seed=number)
    assert counted.n_matches == run.n_matches and counted.left == 0


@pytest.mark.parametrize("allocation", ["fully_dynamic", "state_dynamic"])
def test_threads_that_serve_all_agents_go_on_with_what_they_made(allocation):
    agents, wanted = prepared("loop")
    run = AgentRun(agents, Crew(allocation, 4), RunSettings(batch=2))
    on_threads(run)
    assert rows_of(run.block()) == wanted
    taken, queued = (run.of_stage[:, number].sum() for number in (run.k.PARTIALS_NEXT, run.k.HEAD))
    assert (queued < taken) if allocation == "fully_dynamic" else (queued == taken), (queued, taken)


# --- the cost model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [Sequential(), Hybrid(8, "static", removal="window")], ids=str)
def test_simplex_model_counts_the_pairs_of_poisson_streams(poisson, engine):
    duration = 3000.0
    stream = poisson_types({"A": 2, "B": 2.0, "C": 3, "D": 1}, duration, seed=poisson)
    program, events = ac.sequences(stream, CHAIN)
    (rates,) = agent_statistics(program, events)
    run = engine.simulate(program, events)
    table = evaluations_per_agent(rates, run.compared.tolist(), duration).set_index(["source", "agent"])
    assert table.loc["simplex", "error"].abs().max() < 0.15
    # The paper's model takes every partial match to live for a whole window.
    assert (table.loc["paper", "error"].iloc[1:] > 1).all()


# --- ends before the end ----------------------------------------------------------------------------------


@cache
def lengthy():
    """Return a query and events with 10^10 pairs to look at, of which none fits."""
    frame = ac.in_row("A" * 100_000 + "B" * 100_000)
    return ac.sequences(frame, "PATTERN SEQ(A a, B b) WHERE a.ts > b.ts", within=10**6)


@pytest.mark.parametrize(
    "engine", [Sequential(), Hybrid(3), Hybrid(4, "static", batch=1), RIP(2), RIP(2, chunk=10)], ids=str
)
def test_interrupt_ends_all_threads(engine):
    before, n_alive = set(threading.enumerate()), []

    def on_wait():
        n_alive.append(len(set(threading.enumerate()) - before))
        if len(n_alive) > 2 and n_alive[-1] == getattr(engine, "threads", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(*lengthy(), on_wait=on_wait)
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("engine", [Hybrid(3), RIP(3, chunk=10)], ids=str)
def test_error_of_one_thread_ends_all(engine, monkeypatch):
    """It is raised in the thread that waits, with its message."""
    before, lock, calls = set(threading.enumerate()), threading.Lock(), []
    true = load_kernels(KERNELS).work

    def work(*arguments):
        with lock:
            calls.append(1)
            if len(calls) == 2:
                raise ZeroDivisionError("of one thread")
        return true(*arguments)

    monkeypatch.setattr(running, "load_kernels", lambda name: SimpleNamespace(work=work))
    with pytest.raises(ZeroDivisionError, match="of one thread"):
        engine.run(*lengthy())
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("bits", [0, 15])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 1, 3, 0)])
def test_what_is_remembered_of_pairs_changes_nothing(order, bits, monkeypatch):
    """However few pairs are remembered, on one thread or two, in virtual time or not."""
    program, events, wanted = alike()
    monkeypatch.setattr(join_source, "_MEMO_BITS", bits)
    agents = Agents(program, events, [order])
    plan, tested = agents.plans[0], []
    assert len(wanted) > 1000 and any(memo_partner(plan, join) is not None for join in plan.joins)
    for crew in (Crew("fully_dynamic", 1), Crew("fully_dynamic", 2), Crew("state_dynamic", 3)):
        runs = [run_agents(agents, crew, RunSettings(batch=5)), simulate_agents(agents, crew, RunSettings())]
        assert all(rows_of(run.block) == wanted for run in runs), crew
        assert len({tuple(run.compared.sum(axis=1)) for run in runs}) == 1
        done = simulate_agents(agents, crew, RunSettings(keep=False, trace=True)).trace.done
        tested.append((done.tested.sum(), done.compared.sum()))
    assert len({compared for _, compared in tested}) == 1
    # A pair is tested once, whoever meets it. The other order's first join, which remembers none, meets most.
    if bits:
        assert len({of for of, _ in tested}) == 1 and tested[0][0] < tested[0][1] * (
            0.5 if order[0] == 0 else 0.9
        )


@pytest.mark.parametrize("n", [0, 15, 16, 1000, 40_000])
def test_a_number_of_the_memo_is_of_one_place_and_one_word(n, monkeypatch):
    monkeypatch.setattr(join_source, "_MEMO_BITS", 0)
    size, words = memo_size(n), np.arange((max(n, 1) - 1 >> 4) + 1)
    assert size & (size - 1) == 0
    for place in (0, 1, 77, 123_456_789, (1 << 31) - 1):
        assert len(set((place * 40503 + words) & (size - 1))) == len(words)
