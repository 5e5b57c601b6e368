"""Agents against the definition, on real threads and in virtual time; their kernels run as plain Python.

Interpreted, a case may have a shape of its own, and the arrays of a run as little room as can be: what is
drawn here is which shapes, threads, batches and orders of steps there are. `test_agents_compiled` has few
shapes, but many events.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from random import Random

import numba
import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from cepkit.language.sequences.construction import sequence_query
from cepkit.parallel.agents import Agents, Costs, Crew, RunSettings
from cepkit.parallel.divided import RIP, DataParallel
from cepkit.parallel.engines import Hybrid, Sequential, StateParallel
from cepkit.parallel.running import run_agents, simulate_agents
from tests.oracle.naive_sequences import sequence_matches
from tests.support import agent_cases as ac
from tests.support.sizes import JIT, seeds

pytestmark = pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="a shape per case")
SEEDS, FULL_SEEDS = 4, 700
ENGINE_SEEDS, FULL_ENGINE_SEEDS = 1, 60


def pytest_generate_tests(metafunc):
    for name, default, most in (
        ("seed", SEEDS, FULL_SEEDS),
        ("engine_seed", ENGINE_SEEDS, FULL_ENGINE_SEEDS),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, seeds(default, most))


@pytest.fixture
def few_hits(monkeypatch):
    """Let a join find little at once: then it goes on in the middle often, and all arrays begin small."""
    monkeypatch.setattr("cepkit.kernels.wings.agent_layout.MOST_HITS", 3)


# --- the definition ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ac.FAMILIES)
def test_agents_find_each_match_once(seed, family, few_hits):
    """One run in virtual time and one on real threads, of a random crew with random settings."""
    case = ac.drawn(seed, family)
    if case is None:
        pytest.skip("not a query for agents")
    program, events, wanted = case
    draw = Random(f"{seed} {family}")
    agents = Agents(program, events, ac.drawn_orders(program, draw))
    crew, settings = ac.drawn_crew(agents, draw), ac.draw_settings(draw)
    arrival = ac.drawn_arrival(draw, events.n_events)
    how = {"costs": ac.drawn_costs(draw, len(agents.labels)), "arrival": arrival, "seed": draw.randint(0, 99)}
    simulated = simulate_agents(agents, crew, settings, room=draw.choice([1, 4, 64]), **how)
    assert ac.found(program, simulated) == wanted, (crew, settings, how)
    ac.check_run(agents, settings, simulated, arrival)
    measured = run_agents(agents, crew, settings, room=draw.choice([1, 4, 64]), seed=seed)
    assert ac.found(program, measured) == wanted, (crew, settings)
    ac.check_run(agents, settings, measured)
    counted = simulate_agents(agents, crew, replace(settings, keep=False, trace=False), **how)
    assert (counted.n_matches, counted.makespan) == (simulated.n_matches, simulated.makespan)


@pytest.mark.parametrize(
    ("number", "family"),
    [
        (0, "optional"),  # a condition on each event of a loop that begins a branch
        (10, "rounds"), (59, "any"),  # branches of different lengths that use the same blocks
        (329, "window"), (425, "window"),  # a gap behind a loop whose neighbour is bound before it
        (665, "window"),  # the last event of a loop at each of its events, tested when all are bound
        (1, "alternatives"),  # what is removed while a thread still has it
    ],
)  # fmt: skip
def test_cases_that_once_went_wrong(number, family, few_hits):
    test_agents_find_each_match_once(number, family, few_hits)


def test_many_random_cases_are_for_agents():
    cases = [ac.drawn(seed, family) for seed in range(SEEDS) for family in ac.FAMILIES]
    assert sum(case is not None for case in cases) >= 25


def engines(draw: Random, n_agents: int):
    """Return a value of every parallel engine."""
    batch, model = draw.choice([1, 2, 32]), draw.choice(["paper", "simplex", "measured"])
    removal = draw.choice(["watermark", "window"])
    more = draw.randint(0, 3)
    return [
        Sequential(), Sequential(scoped=False), StateParallel(batch=batch),
        RIP(2, chunk=draw.randint(1, 9)), RIP(3), DataParallel(2), DataParallel(3, how="hash"),
        RIP(2, multiple=draw.choice([1, 1.5, 3]), start_filter=draw.random() < 0.5),
        Hybrid(draw.randint(1, 5), batch=batch, removal=removal, fuse=draw.choice([None, "auto"])),
        Hybrid(2 * n_agents + more, "static", cost_model=model, batch=batch, removal=removal),
        Hybrid(2 * n_agents + more, "state_dynamic", cost_model=model, removal=removal),
        Hybrid(max(2, 2 * n_agents - draw.randint(0, 1)), "static", fuse="auto", batch=batch),
    ]  # fmt: skip


@pytest.mark.parametrize("family", ac.FAMILIES)
def test_every_engine_is_the_definition(engine_seed, family):
    case = ac.drawn(engine_seed, family)
    if case is None:
        pytest.skip("not a query for agents")
    program, events, wanted = case
    draw, agents = Random(f"{engine_seed} {family}"), Agents(program, events)
    for engine in engines(draw, max(1, len(agents.labels))):
        if engine.reason_against(program):
            continue
        try:
            with_trace = not isinstance(engine, (RIP, DataParallel)) and draw.random() < 0.5
            arrival = ac.drawn_arrival(draw, events.n_events)
            made = [
                engine.simulate(program, events, keep=True, trace=with_trace, arrival=arrival),
                engine.run(program, events, trace=with_trace),
            ]
        except CepError as error:  # neighbours that cannot be fused, as each is alone in its branch
            assert "with neighbours fused" in str(error), engine
            continue
        settings = engine.settings() if hasattr(engine, "settings") else RunSettings()
        for run in made:
            assert ac.found(program, run) == wanted, engine
            ac.check_run(agents, settings, run, arrival)
            assert run.engine == str(engine)


# --- laws -------------------------------------------------------------------------------------------------


def pairs_of(n: int, seed: int = 0, types: str = "ABC") -> pd.DataFrame:
    """Return events of types in an order that is drawn, one per tick."""
    draw = Random(seed)
    kinds = pd.array([draw.choice(types) for _ in range(n)], "string")
    return pd.DataFrame({"type": kinds, "ts": np.arange(n), "x": [draw.randint(0, 9) for _ in range(n)]})


def same(a, b) -> bool:
    """Whether two runs are alike to the last bit."""
    numbers = ("n_matches", "makespan", "n_locks", "most_bytes", "mean_latency", "greatest_latency", "left")
    arrays = ("busy", "looked", "compared", "taken", "sent", "looped", "found_at")
    return (
        all(np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True) for name in numbers)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)
        and np.array_equal(a.block.event_of_item, b.block.event_of_item)
        and all(np.array_equal(x, y) for x, y in zip(a.trace.done, b.trace.done, strict=True))
        and all(np.array_equal(x, y) for x, y in zip(a.trace.lengths_read, b.trace.lengths_read, strict=True))
    )


@pytest.mark.parametrize("stream", range(3))
def test_simulation_repeats_itself_whatever_its_room(stream, few_hits):
    draw = Random(stream)
    program, events = ac.sequences(pairs_of(60, stream), "PATTERN SEQ(A a, B+ b, C c)", within=8)
    agents = Agents(program, events)
    for allocation in ("static", "state_dynamic", "fully_dynamic"):
        crew, settings = ac.drawn_crew(agents, draw, allocation), replace(ac.draw_settings(draw), trace=True)
        how = {"costs": ac.drawn_costs(draw, 2), "arrival": ac.drawn_arrival(draw, 60), "seed": stream}
        first = simulate_agents(agents, crew, settings, room=1, **how)
        assert first.n_matches
        for room in (1, 5, 3000):
            run = simulate_agents(agents, crew, settings, room=room, **how)
            assert same(run, first), (crew, settings, room)


@pytest.mark.parametrize("allocation", ["sequential", "static", "state_dynamic", "fully_dynamic"])
def test_costs_times_a_number_are_time_times_it(allocation):
    program, events = ac.sequences(pairs_of(60), "PATTERN SEQ(A a, B b, C c)", within=8)
    agents, crew = Agents(program, events), Crew(allocation, 1 if allocation == "sequential" else 5)
    costs = Costs(item=100.0, look=2.0, comparison=(5.0, 7.0), lock=50.0, send=30.0, delivery=11.0)
    times = Costs(item=400.0, look=8.0, comparison=(20.0, 28.0), lock=200.0, send=120.0, delivery=44.0)
    arrival = np.cumsum(np.full(60, 250.0))
    for settings in (RunSettings(batch=1, chunk=1), RunSettings(batch=4, removal="window")):
        once = simulate_agents(agents, crew, settings, costs=costs, arrival=arrival)
        more = simulate_agents(agents, crew, settings, costs=times, arrival=4 * arrival)
        assert once.makespan > arrival[-1]
        assert more.makespan == 4 * once.makespan and np.array_equal(more.busy, 4 * once.busy)
        assert more.mean_latency == pytest.approx(4 * once.mean_latency)
        assert np.array_equal(more.compared, once.compared)


def test_source_takes_its_time_for_every_event():
    """It passes on as many as arrived at once, but each of them costs it."""
    program, events = ac.sequences(pairs_of(60), "PATTERN SEQ(A a, B b, C c)", within=8)
    agents, nothing = Agents(program, events), Costs(0.0, 0.0, 0.0, 0.0, 0.0, 10.0)
    for chunk in (1, 7, 64):
        run = simulate_agents(agents, Crew("static", 4), RunSettings(chunk=chunk), costs=nothing)
        assert 600 - 10 * chunk < run.makespan <= 600


def test_unscoped_looks_at_more_and_finds_the_same():
    program, events = ac.sequences(pairs_of(80), "PATTERN SEQ(A a, B b, C c)", within=8)
    scoped, whole = (Sequential(of).simulate(program, events, keep=True) for of in (True, False))
    assert ac.found(program, scoped) == ac.found(program, whole) and scoped.n_matches
    assert scoped.compared.sum() == whole.compared.sum() and scoped.looked.sum() < whole.looked.sum()


# --- what once went wrong ---------------------------------------------------------------------------------


def by_definition(frame, text: str, **keywords) -> int:
    query = sequence_query(text, event_type="type", order_by="ts", **keywords)
    return len(sequence_matches(query, frame.to_dict("records")))


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("crew", [Crew("sequential", 1), Crew("fully_dynamic", 2)], ids=str)
def test_several_components_behind_a_long_loop(n, crew):
    """Each adds an event to the longest partial match; the loop itself may be at its end by then."""
    frame, text = ac.in_row("A" + "B" * n + "CDE"), "PATTERN SEQ(A a, B+ b, C c, D d, E e)"
    program, events = ac.sequences(frame, text, within=100)
    for make in (simulate_agents, run_agents):
        assert make(Agents(program, events), crew).n_matches == 2**n - 1


def test_trace_of_a_source_that_is_faster_than_all():
    program, events = ac.sequences(ac.in_row("AB" * 3000), "PATTERN SEQ(A a, B b)", within=2)
    agents, settings = Agents(program, events), RunSettings(batch=100, chunk=1, trace=True)
    run = simulate_agents(agents, Crew("static", 2), settings, costs=Costs(item=1e6))
    assert run.n_matches == by_definition(ac.in_row("AB" * 9), "PATTERN SEQ(A a, B b)", within=2) * 3000 // 9
    ac.check_run(agents, settings, run)


@pytest.mark.parametrize("chunk", [1, 2, 64])
def test_nothing_is_found_before_it_has_arrived(chunk):
    program, events = ac.sequences(ac.in_row("AB" * 30), "PATTERN SEQ(A a, B b)", within=1)
    agents, settings, arrival = Agents(program, events), RunSettings(chunk=chunk), np.arange(60) * 1e6
    run = simulate_agents(agents, Crew("fully_dynamic", 2), settings, arrival=arrival)
    ac.check_run(agents, settings, run, arrival)
    assert run.n_matches == 30 and run.greatest_latency < 1e6  # each is found long before the next arrives


def test_more_stages_than_a_byte_counts():
    """All orders of five are 120 rows of joins; each removes by its own watermarks."""
    kinds = "EDCBA" * (3 if JIT else 2)
    program, events = ac.sequences(ac.in_row(kinds), "PATTERN AND(A a, B b, C c, D d, E e)", within=6)
    agents, settings = Agents(program, events), RunSettings(batch=1, chunk=1)
    assert len(agents.stages) == 600
    run = simulate_agents(agents, Crew("fully_dynamic", 3), settings)
    position = [[i for i, kind in enumerate(kinds) if kind == of] for of in "ABCDE"]
    wanted = [rows for rows in itertools.product(*position) if max(rows) - min(rows) <= 6]
    assert len(set(wanted)) == run.n_matches == len(run.block) and run.left == 0


@pytest.mark.parametrize(
    ("kinds", "ticks"), [("", []), ("A", [0]), ("ABC", [3, 3, 3]), ("AXC", [1, 2, 3]), ("ABC", [1, 2, 3])]
)
def test_streams_with_hardly_anything(kinds, ticks):
    frame = pd.DataFrame({"type": pd.array(list(kinds), "string"), "ts": np.array(ticks, np.int64)})
    for text in ("PATTERN SEQ(A a, B b, C c)", "PATTERN A a", "PATTERN A+ a"):
        program, events = ac.sequences(frame, text, within=9)
        wanted, agents = by_definition(frame, text, within=9), Agents(program, events)
        for engine in engines(Random(0), max(1, len(agents.labels))):
            if engine.reason_against(program):
                continue
            for run in (engine.run(program, events), engine.simulate(program, events, keep=True)):
                assert (run.n_matches, len(run.block), run.left) == (wanted, wanted, 0), engine


def test_agents_of_one_variable_have_names_of_their_own():
    text = "PATTERN (SEQ(A a, B+ b)){2}"
    program, events = ac.sequences(ac.in_row("ABBABAB"), text, within=9)
    agents = Agents(program, events)
    assert agents.labels == ("b+", "a", "b (2)+")
    run = Hybrid(2).simulate(program, events, keep=True, trace=True)
    assert run.n_matches == by_definition(ac.in_row("ABBABAB"), text, within=9)
    ac.check_run(agents, RunSettings(), run)


def test_matches_of_all_branches_were_found_when_it_is_said():
    """Times stand in the order of the matches, which is by branch."""
    text = "PATTERN OR(SEQ(A a, C c), SEQ(A d, B b))"
    program, events = ac.sequences(ac.in_row("ABC" * 5), text, within=2)
    arrival = np.arange(15) * 1e6
    run = Hybrid(2).simulate(program, events, keep=True, arrival=arrival)
    assert run.n_matches == 10 and len(set(run.block.branch_of_match.tolist())) == 2
    late = run.found_at - arrival[run.block.last]
    assert late.min() >= 0 and late.max() < 1e6


def test_matches_that_a_chunk_drops_are_late_for_nobody():
    program, events = ac.sequences(ac.in_row("AB" * 40), "PATTERN SEQ(A a, B b)", within=6)
    arrival = np.arange(80) * 1e3
    runs = [
        RIP(2, multiple=1, start_filter=of).simulate(program, events, keep=True, arrival=arrival)
        for of in (True, False)
    ]
    for run in runs:
        ac.check_run(Agents(program, events), RunSettings(), run, arrival)
    assert ac.found(program, runs[0]) == ac.found(program, runs[1]) and runs[0].n_matches
    assert runs[1].looked.sum() > runs[0].looked.sum()


def test_neighbours_are_fused_where_two_pairs_are_needed():
    """The pair with least work is in the middle; without it there are two."""
    kinds = "A" * 40 + "B" * 40 + "CD" + "E" * 40
    text = "PATTERN SEQ(A a, B b, C c, D d, E e)"
    program, events = ac.sequences(ac.in_row(kinds), text, within=200)
    crew = Hybrid(4, "state_dynamic", fuse="auto").crew(program, events)
    assert crew.fused == ((0, 1), (2, 3)) and crew.of_agent == (2, 2)
    assert len(Hybrid(6, "state_dynamic", fuse="auto").crew(program, events).fused) == 1
    assert Hybrid(8, "state_dynamic", fuse="auto").crew(program, events).fused == ()
    assert len(Hybrid(1, fuse="auto").crew(program, events).fused) == 2
    with pytest.raises(CepError, match="threads=3: 4 agents need at least 4 with neighbours fused"):
        Hybrid(3, "static", fuse="auto").crew(program, events)


def test_error_in_a_condition_ends_all_threads():
    program, events = ac.sequences(ac.in_row("ABC" * 40), "PATTERN SEQ(A a, B b, C c)", within=9)
    before, agents, calls = set(threading.enumerate()), Agents(program, events), []

    def join(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise ZeroDivisionError("of one thread")
        arguments[12][0] = arguments[1]  # all blocks are done
        return 0

    agents.__dict__["join"] = join
    for make in (run_agents, simulate_agents):
        calls.clear()
        with pytest.raises(ZeroDivisionError, match="of one thread"):
            make(agents, Crew("static", 4), RunSettings(batch=1, chunk=1))
        assert set(threading.enumerate()) == before


def test_interrupt_of_interpreted_threads():
    program, events = ac.sequences(ac.in_row("A" * 999 + "B" * 999), "PATTERN SEQ(A a, B b)", within=9999)
    before, n_alive = set(threading.enumerate()), []

    def on_wait():
        n_alive.append(len(set(threading.enumerate()) - before))
        if n_alive[-1] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Hybrid(3, batch=1).run(program, events, on_wait=on_wait)
    assert set(threading.enumerate()) == before
