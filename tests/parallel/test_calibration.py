"""Costs of a thread's steps: the fit against its definition, and against steps whose costs are known."""

from __future__ import annotations

import dataclasses
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError, MissingDependencyError
from cepkit.kernels.wings import agent_layout
from cepkit.parallel import running
from cepkit.parallel.agents import Agents, Costs, Crew, RunSettings
from cepkit.parallel.running import calibrate_costs, robust_nonnegative
from tests.support import agent_cases as ac
from tests.support.sizes import seeds

TWO = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 30 events"
THREE = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > b.x WITHIN 30 events"
LOOP = "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > b[i-1].x AND c.x > b[LEN].x WITHIN 12 events"
CLOCK = ("BEGIN", "UNTIL")


def prepared(text: str, n: int = 240, seed: int = 0):
    draw = np.random.default_rng(seed)
    kinds = np.array([*"ABC"])[draw.integers(0, 3, n)]
    frame = pd.DataFrame({"t": np.arange(n), "kind": kinds, "x": draw.random(n)})
    return ac.sequences(frame, text, event_type="kind", order_by="t", strategy="any")


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_least_squares_have_the_least_rest_of_all_supports(seed):
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 6))
    a, b = draw.normal(size=(12, n)), draw.normal(size=12)
    if seed % 3 == 0 and n > 1:
        a[:, -1] = a[:, 0]  # two costs that are always paid together
    rests = [float(b @ b)]
    for size in range(1, n + 1):
        for support in map(list, combinations(range(n), size)):
            x = np.linalg.lstsq(a[:, support], b, rcond=None)[0]
            if (x >= 0).all():
                rests.append(float(((b - a[:, support] @ x) ** 2).sum()))
    found = running._least_squares()(a, b)
    assert (found >= 0).all()
    assert ((b - a @ found) ** 2).sum() == pytest.approx(min(rests), rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_interrupted_steps_do_not_count(seed):
    draw = np.random.default_rng(seed)
    wanted = np.array([400.0, 20.0, 5.0, 30.0, 0.0])
    causes = draw.integers(0, 200, (3000, 5)).astype(float)
    causes[:, 0] = 1
    times = causes @ wanted * draw.normal(1, 0.02, 3000)
    times[draw.random(3000) < 0.05] += 1e6
    assert robust_nonnegative(causes, times) == pytest.approx(wanted.tolist(), rel=0.15, abs=0.5)
    assert robust_nonnegative(causes[:0], times[:0]) == [0.0] * 5


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", [TWO, THREE, LOOP])
def test_costs_of_a_simulated_run_are_found_again(text, threads, monkeypatch):
    program, events = prepared(text)
    agents, made = Agents(program, events), []
    comparison = (7.0, 3.0, 11.0)[: len(agents.labels)]
    wanted = Costs(item=40.0, look=0.0, comparison=comparison, lock=90.0, send=25.0, match=4.0)

    def kept(*arguments, **keywords):
        made.append(AgentRun(*arguments, **keywords))
        return made[-1]

    AgentRun = running.AgentRun
    monkeypatch.setattr(running, "AgentRun", kept)
    crew, settings = Crew("fully_dynamic", threads), RunSettings(trace=True, keep=False, batch=8)
    ran = running.simulate_agents(agents, crew, settings, costs=wanted)
    found = running._fit(made[0], running._timed_steps(made[0]))
    found = dataclasses.replace(found, lock=found.lock / threads)  # a step begins with a buffer of each
    assert ran.n_matches > 20
    assert ran.looked.sum() == made[0].trace[:, made[0].k.WITH_LOOKED].sum()
    for item in dataclasses.fields(Costs):
        if item.name not in ("send", "delivery") or len(agents.labels) > 1:
            value, expected = getattr(found, item.name), getattr(wanted, item.name)
            assert value == pytest.approx(expected, rel=1e-4, abs=1e-3), item.name


@pytest.mark.parametrize(
    "crew", [Crew("fully_dynamic", 1), Crew("sequential", 1), Crew("state_dynamic", 4)], ids=str
)
@pytest.mark.parametrize("text", [TWO, THREE, LOOP])
def test_measured_costs_fit_their_query(text, crew):
    program, events = prepared(text)
    agents = Agents(program, events)
    costs = calibrate_costs(program, events, n_events=100, repeats=2, seed=3, crew=crew)
    assert isinstance(costs.comparison, tuple)
    assert len(costs.comparison) == len(agents.labels)
    numbers = [costs.item, costs.look, costs.lock, costs.send, costs.delivery, costs.match, *costs.comparison]
    assert all(np.isfinite(of) and of >= 0 and isinstance(of, float) for of in numbers), costs
    assert sum(numbers) > 0
    again = running.simulate_agents(agents, Crew("fully_dynamic", 2), RunSettings(keep=False), costs=costs)
    assert again.makespan > 0


@pytest.mark.parametrize("text", [THREE, LOOP])
def test_one_thread_takes_the_same_steps_every_time(text):
    program, events = prepared(text)
    agents = Agents(program, events)
    crew = Crew("fully_dynamic", 1)
    one, other = (running._time_part(agents, crew, False, (20, 220, 220))[0] for _ in range(2))
    clock = [getattr(agent_layout, name) for name in CLOCK]
    rows = [np.delete(steps[0][0], clock, axis=1) for steps in (one, other)]
    assert len(rows[0]) > 10
    assert np.array_equal(*rows)


def test_a_part_lies_in_the_stream():
    program, events = prepared(TWO)
    agents = Agents(program, events)
    parts = {running._part(agents, 100, seed) for seed in range(20)}
    assert len(parts) > 5
    assert all(begin >= 0 and end == looked == begin + 100 <= 240 for begin, end, looked in parts)
    assert running._part(agents, 1000, 1) == (0, 240, 240)


def test_nothing_to_measure():
    assert calibrate_costs(*prepared("PATTERN SEQ(A a) WITHIN 3 events")) == Costs()
    assert calibrate_costs(*prepared(TWO, n=0)) == Costs()


@pytest.mark.parametrize("wrong", [{"n_events": 0}, {"repeats": 0}, {"repeats": 1.5}])
def test_numbers_are_above_zero(wrong):
    with pytest.raises(CepError, match=f"calibrate_costs: {next(iter(wrong))}"):
        calibrate_costs(*prepared(TWO), **wrong)


@pytest.mark.parametrize("name", ["scipy.optimize", "threadpoolctl"])
def test_a_missing_package_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "cepkit\[papers]"'):
        calibrate_costs(*prepared(TWO))
