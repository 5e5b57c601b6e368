"""What parallel engines refuse, before any work: one error each that says what there is instead."""

from __future__ import annotations

import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.parallel.agents.agent_run import AgentRun
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Crew, RunSettings
from cepkit.parallel.engine import divided, engines
from cepkit.parallel.engine.divided import RIP, DataParallel
from cepkit.parallel.engine.engines import Hybrid, Sequential, StateParallel
from tests.support import agent_cases as ac

TEXT = "PATTERN SEQ(A a, B b, C c, D d)"


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    """Let every kernel and every thread fail: an error must come first."""

    def work(*arguments, **keywords):
        raise AssertionError("work began")

    for module, name in (
        (engines, "simulate_agents"), (engines, "run_agents"),
        (divided, "simulate_agents"), (divided, "run_units"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, work)


def both(engine, program, events, message: str, error=CepError):
    """Assert that an engine refuses a query on real threads and in virtual time."""
    for call in (engine.run, engine.simulate):
        with pytest.raises(error, match=message):
            call(program, events)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hybrid(0), "Hybrid: threads=0"),
        (lambda: Hybrid(2.5), "Hybrid: threads=2.5: expected a whole number"),
        (lambda: Hybrid(batch=0), "Hybrid: batch=0"),
        (lambda: Hybrid(allocation="fair"),
         r"Hybrid: allocation 'fair' is not known. There are \['static', 'state_dynamic', 'fully_dynamic'\]"),
        (lambda: Hybrid(cost_model="guess"),
         r"Hybrid: cost_model 'guess' is not known. There are \['paper', 'simplex', 'measured'\]"),
        (lambda: Hybrid(removal="never"),
         r"Hybrid: removal 'never' is not known. There are \['watermark', 'window'\]"),
        (lambda: Hybrid(fuse="b"), r"Hybrid: fuse='b'. Give 'auto', or pairs of variables"),
        (lambda: StateParallel(batch=0), "StateParallel: batch=0"),
        (lambda: RIP(0), "RIP: threads=0"),
        (lambda: RIP(chunk=0), "RIP: chunk=0"),
        (lambda: RIP(chunk=5, multiple=2), "RIP: chunk and multiple both set the chunk size. Give only one"),
        (lambda: RIP(start_filter=False), "RIP: start_filter=False needs multiple. Give multiple as well"),
        (lambda: DataParallel(0), "DataParallel: threads=0"),
        (lambda: DataParallel(how="fair"),
         r"how='fair' is not known. There are \['least_loaded', 'hash'\]"),
    ],
)  # fmt: skip
def test_values_that_are_not_known(make, message):
    with pytest.raises(CepError, match=message):
        make()


@pytest.mark.parametrize("allocation", ["static", "state_dynamic"])
def test_too_few_threads(allocation):
    program, events = ac.sequences(ac.in_row("ABCD"), TEXT, within=9)
    both(Hybrid(5, allocation), program, events, r"3 agents need at least 6 threads. Let neighbours share")
    fused = Hybrid(3, allocation, fuse=[("b", "c")])
    both(fused, program, events, r"2 agents need at least 4 threads")
    both(Hybrid(3, allocation, fuse="auto"), program, events, "threads=3: 3 agents need at least 4 with")


@pytest.mark.parametrize(
    ("fuse", "message"),
    [
        ([("b", "x")], r"fuse=\('b', 'x'\) is not a pair of agents. The agents are \['b', 'c', 'd'\]"),
        ([("a", "b")], r"fuse=\('a', 'b'\) is not a pair of agents"),
        ([("b", "d")], r"fuse=\('b', 'd'\): not neighbours. The agents are \['b', 'c', 'd'\]"),
        ([("b", "b")], r"fuse=\('b', 'b'\): not neighbours"),
        ([("b", "c"), ("c", "d")], r"fuse=\('c', 'd'\): an agent is in another pair already"),
    ],
)
def test_agents_that_cannot_be_fused(fuse, message):
    program, events = ac.sequences(ac.in_row("ABCD"), TEXT, within=9)
    both(Hybrid(12, fuse=fuse), program, events, message)


def test_agents_of_two_branches_are_no_neighbours():
    text = "PATTERN OR(SEQ(A a, B b), SEQ(C c, D d))"
    program, events = ac.sequences(ac.in_row("ABCD"), text, within=9)
    both(Hybrid(8, fuse=[("0:b", "1:d")]), program, events, "not neighbours")


def test_queries_for_other_engines():
    frame = ac.in_row("ABCD")
    program, events = ac.sequences(frame, TEXT, within=9)
    both(
        DataParallel(2),
        program,
        events,
        "it has no key that all events of a match share",
        UnsupportedQueryError,
    )
    program, events = ac.sequences(frame, TEXT)
    both(RIP(multiple=2), program, events, "it has no window in time", UnsupportedQueryError)
    program, events = ac.sequences(frame, "PATTERN SEQ(A a, B b) WHERE skip_till_next_match", within=9)
    for engine in (Sequential(), StateParallel(), RIP(), Hybrid()):
        both(engine, program, events, "it may not skip everything before 'b'", UnsupportedQueryError)


def test_intervals_shorter_than_the_window():
    with pytest.raises(CepError, match=r"RIP: multiple=0\.5. Give a number of windows, 1 or more"):
        RIP(multiple=0.5)


def test_plain_python_functions():
    @cep.pure(name="close_to")
    def close_to(x, y):
        return abs(x - y) < 3

    program, events = ac.sequences(
        ac.in_row("ABCD"), "PATTERN SEQ(A a, B b) WHERE close_to(a.ts, b.ts)", within=9
    )
    for engine in (Sequential(), Hybrid(), RIP()):
        message = "it cannot call close_to, a plain Python function"
        both(engine, program, events, message, UnsupportedQueryError)


def test_crew_that_does_not_fit():
    program, events = ac.sequences(ac.in_row("ABCD"), TEXT, within=9)
    for crew, message in (
        (Crew("fair", 6), "allocation 'fair' is not known"),
        (Crew("static", 5), "threads=5: 3 agents, static, need at least 6 threads"),
        (Crew("sequential", 2), "threads=2: 3 agents, sequential, need 1 thread"),
        (Crew("static", 6, (2, 4)), r"threads by agent \[2, 4\] do not fit 3 agents and 6 threads"),
        (Crew("static", 6, (1, 3, 2)), "no thread for its events or for its partial matches"),
        (Crew("static", 6, (2, 2, 2), (0, 1, 1)), "no thread for its events or for its partial matches"),
        (Crew("state_dynamic", 3, (2, 1, 0)), "no thread for its events or for its partial matches"),
        (Crew("static", 6, fused=((0, 2),)), "not neighbours"),
        (Crew("static", 6, fused=((0, 1), (1, 2))), "an agent is in another pair already"),
    ):
        with pytest.raises(CepError, match=message):
            AgentRun(Agents(program, events), crew, RunSettings())
    with pytest.raises(CepError, match="removal 'often' is not known"):
        AgentRun(Agents(program, events), Crew("static", 6), RunSettings(removal="often"))
