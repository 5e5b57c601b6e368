"""Random crews, settings and costs for agents, and what must hold of every run of theirs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd

from cepkit.language.sequences.construction import sequence_query
from cepkit.parallel.agents import ALLOCATIONS, Agents, Costs, Crew, RunSettings, agents_unsupported
from cepkit.parallel.outcome import ParallelRun
from cepkit.parallel.trace import EVENTS, PARTIALS, SOURCE
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import SequenceMatch, sequence_matches
from tests.support.sequence_runs import as_matches, bound, prepared

# Those whose queries joins can answer, at least now and then.
FAMILIES = [name for name in gs.FAMILIES if name not in ("next", "strict", "partition", "preference")]
MOST_AGENTS = 10


def sequences(frame, text: str, **keywords):
    """Return the program of a query and its events; by default of columns ``type`` and ``ts``."""
    query = sequence_query(text, **{"event_type": "type", "order_by": "ts"} | keywords)
    return prepared(query, frame)


def in_row(kinds: str) -> pd.DataFrame:
    """Return events of these types, one per tick."""
    return pd.DataFrame({"type": pd.array(list(kinds), "string"), "ts": np.arange(len(kinds))})


def drawn(seed: int, family: str):
    """Return a program, events and the matches by definition; None: not for agents, or for too many."""
    case = gs.case(seed, seed, family)
    case = replace(case, query=replace(case.query, strategy="any"))
    program, events = bound(case)
    if agents_unsupported(program) or len(Agents(program, events).labels) > MOST_AGENTS:
        return None
    query = replace(case.query, after_match=("none", None))
    return program, events, Counter(sequence_matches(query, case.rows))


def drawn_orders(program, draw: Random) -> list[list[int]]:
    """Return an order of joins for every branch, for one half the one of the pattern."""
    sizes = [len(bound.branch.components) for bound in program.branches]
    return [draw.sample(range(n), n) if draw.random() < 0.5 else list(range(n)) for n in sizes]


def drawn_crew(agents: Agents, draw: Random, allocation: str | None = None) -> Crew:
    """Return threads for agents, some of which are fused."""
    allocation = allocation or draw.choice(ALLOCATIONS)
    if allocation == "sequential":
        return Crew(allocation, 1)
    if not agents.labels:
        return Crew(allocation, draw.randint(1, 3))
    stages, groups = agents.stage_of_agent, []
    for a, s in enumerate(stages):
        follows = a and s == stages[a - 1] + 1 and agents.stages[s][2] > 0
        if follows and draw.random() < 0.3:
            groups[-1] += (a,)
        else:
            groups.append((a,))
    least = {"static": 2, "state_dynamic": 1, "fully_dynamic": 0}[allocation]
    of_agent = [least + draw.choice([0, 0, 0, 1, 2]) for _ in groups]
    if not sum(of_agent):
        of_agent[:1] = [draw.choice([1, 2, 9])]
    if allocation == "static":
        of_events = [draw.randint(1, n - 1) for n in of_agent]
    else:
        of_events = [draw.randint(0, n) for n in of_agent]
    fused = tuple(group for group in groups if len(group) > 1)
    return Crew(allocation, sum(of_agent), tuple(of_agent), tuple(of_events), fused)


def draw_settings(draw: Random) -> RunSettings:
    """Return random settings of a run."""
    return RunSettings(
        batch=draw.choice([1, 1, 2, 3, 32, 100]), chunk=draw.choice([1, 3, 64]), scoped=draw.random() < 0.8,
        removal=draw.choice(["watermark", "watermark", "window", "never"]),
        backlog=draw.choice([1, 7, 4096]), trace=draw.random() < 0.4,
    )  # fmt: skip


def drawn_costs(draw: Random, n_agents: int) -> Costs:
    """Return costs far from each other: every order of steps that they can bring about may happen."""

    def one() -> float:
        return draw.choice([0.0, 1.0, 7.0, 100.0])

    by_agent = tuple(one() for _ in range(n_agents)) if draw.random() < 0.5 else one()
    return Costs(one(), one(), by_agent, one(), one(), one())


def drawn_arrival(draw: Random, n_events: int) -> np.ndarray | None:
    """Return when events reach the source."""
    if draw.random() < 0.5:
        return None
    return np.cumsum([draw.choice([0.0, 3.0, 50.0, 1000.0]) for _ in range(n_events)], dtype=np.float64)


def found(program, run: ParallelRun) -> Counter[SequenceMatch]:
    """Return the matches of a run as the definition writes them."""
    return Counter(as_matches(program, run.block))


def check_run(
    agents: Agents, settings: RunSettings, run: ParallelRun, arrival: np.ndarray | None = None
) -> None:
    """Assert what holds of every run, whatever it finds."""
    assert len(run.block) == len(run.found_at) == run.n_matches
    assert run.left == 0 or settings.removal == "never"
    assert (run.compared <= run.looked).all()
    assert ((run.busy >= 0).all() and (run.busy <= run.makespan * (1 + 1e-9) + 1).all()) or run.measured
    if not run.measured and run.n_matches:
        late = run.found_at - (0.0 if arrival is None else arrival[run.block.last])
        assert late.min() >= 0
        assert np.isclose(late.mean(), run.mean_latency) and np.isclose(late.max(), run.greatest_latency)
        assert run.found_at.max() <= run.makespan
    if run.trace is not None:
        check_trace(agents, settings, run)


def check_trace(agents: Agents, settings: RunSettings, run: ParallelRun) -> None:
    """Assert that a trace adds up to the counts of its run, and that nothing leaves before it has come."""
    done, n_agents = run.trace.done, len(run.agents)
    assert run.trace.agents == run.agents

    def total(values, rows) -> list[int]:
        return np.bincount(done.agent[rows], values[rows], minlength=n_agents).astype(int).tolist()

    by_agent = done.agent >= 0
    for column, kind in enumerate((EVENTS, PARTIALS)):
        own = by_agent & (done.action == kind)
        assert total(done.n_items, own) == run.taken[:, column].tolist()
        assert total(done.compared, own) == run.compared[:, column].tolist()
    assert total(done.sent, by_agent) == run.sent.tolist()
    assert total(done.looped, by_agent) == run.looped.tolist()
    assert done.n_matches.sum() == run.n_matches
    if not run.measured:
        assert run.trace.makespan <= run.makespan * (1 + 1e-9)
        spent = (done.end - done.start)[done.thread >= 0]
        busy = np.bincount(done.thread[done.thread >= 0], spent, minlength=run.n_threads)
        assert np.allclose(busy, run.busy)
    read = run.trace.lengths_read
    for a in range(n_agents):
        own, mine = done.agent == a, read.agent == a
        last = [int(length[mine][-1]) if mine.any() else 0 for length in read[2:]]
        assert last[:2] == [0, 0]
        assert last[2:] == [0, 0] or settings.removal == "never"
        taken = [np.where(own & (done.action == kind), done.n_items, 0) for kind in (EVENTS, PARTIALS)]
        for of, gone in zip(taken, (done.removed_events, done.removed_partials), strict=True):
            assert least_length(of, done.start, np.where(own, gone, 0), done.end) >= 0
        if len(agents.plans) == 1 and not run.measured:
            comes = np.where(own, done.looped, 0)
            if agents.stage_of_agent[a]:  # it is not the first: that is given partial matches by the source
                comes = comes + np.where(done.agent == a - 1, done.sent, 0)
            assert comes.sum() == taken[1].sum()
            assert least_length(comes, done.end, taken[1], done.start) >= 0
    assert done.n_items[done.action == SOURCE].sum() == agents.arrays_of_events[0].shape[1]


def least_length(come: np.ndarray, since: np.ndarray, go: np.ndarray, until: np.ndarray) -> int:
    """Return how short what numbers of items come into, and go from, becomes; coming is first."""
    order = np.argsort(np.concatenate([since, until]), kind="stable")
    return int(np.cumsum(np.concatenate([come, -go])[order]).min(initial=0))
