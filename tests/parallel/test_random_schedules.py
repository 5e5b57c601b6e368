"""Agents on real threads that give way at random: whatever the schedule, they find the matches of the oracle.

The kernels run as Python. Before and after each atomic operation a thread may let the others run, or sleep. A
seed draws the chance, and what each thread does.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from random import Random

import numba
import pytest

import cepkit.kernels.wings.atomic as atomic
from cepkit.parallel.agents import Agents
from cepkit.parallel.running import run_agents
from tests.support import agent_cases as ac
from tests.support.sizes import seeds

pytestmark = pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="the kernels must run as Python")
BLOCK = 6  # runs of a case
CROWDS = ("static", "state_dynamic", "fully_dynamic")


@pytest.fixture
def schedule(monkeypatch):
    """Return a function that begins the schedule of a seed."""
    plain = {name: getattr(atomic, name) for name in ("load", "store", "put", "add", "swap")}
    interval = sys.getswitchinterval()
    monkeypatch.setattr("cepkit.kernels.wings.agent_layout.MOST_HITS", 3)  # joins often stop in the middle

    def begin(seed: int) -> None:
        draw = Random(f"schedule {seed}")
        chance, sleep = draw.choice([0.01, 0.1, 0.5]), draw.choice([0.0, 0.0, 1e-5, 2e-4])
        sys.setswitchinterval(draw.choice([1e-6, 1e-4, 5e-3]))
        of_thread = threading.local()

        def give_way() -> None:
            if not hasattr(of_thread, "draw"):
                of_thread.draw = Random(f"{seed} {threading.current_thread().name}")
            if of_thread.draw.random() < chance:
                time.sleep(sleep if of_thread.draw.random() < 0.2 else 0.0)

        def with_schedule(operation):
            def run(*arguments):
                give_way()
                done = operation(*arguments)
                give_way()
                return done

            return run

        for name, operation in plain.items():
            monkeypatch.setattr(atomic, name, with_schedule(operation))

    yield begin
    sys.setswitchinterval(interval)


def check_schedule(seed: int, begin) -> bool:
    """Compare one run with the oracle; return whether its query is for agents."""
    draw = Random(f"random schedule {seed}")
    family = draw.choice(ac.FAMILIES)
    case = ac.drawn(draw.randint(0, 5_000), family)
    if case is None:
        return False
    program, events, wanted = case
    agents = Agents(program, events, ac.drawn_orders(program, draw))
    crew, settings = ac.drawn_crew(agents, draw, draw.choice(CROWDS)), ac.draw_settings(draw)
    settings = replace(settings, batch=draw.choice([1, 2, 3]), chunk=draw.choice([1, 3]))
    room, before = draw.choice([1, 2, 64]), set(threading.enumerate())
    begin(seed)
    run = run_agents(agents, crew, settings, room=room, seed=seed)
    assert ac.found(program, run) == wanted, (seed, crew, settings)
    ac.check_run(agents, settings, run)
    assert set(threading.enumerate()) <= before
    return True


def check_schedules(first: int, begin) -> None:
    """Compare some runs, drawn from the seeds from ``first`` on."""
    found = seed = 0
    while found < BLOCK:
        found += check_schedule(1_000 * first + seed, begin)
        seed += 1


@pytest.mark.parametrize("seed", seeds(1, 160))
def test_random_schedules(seed, schedule):
    check_schedules(BLOCK * seed, schedule)
