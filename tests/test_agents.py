"""Agents in virtual time against the definition: every allocation, order and number of threads."""

from __future__ import annotations

import random

import generate_sequences as gs
import numba
import numpy as np
import pytest
from naive_sequences import sequence_matches
from test_sequences import as_matches, bound

from cepkit.engines.reuse import report_matches
from cepkit.parallel.simulation import Costs, agents_unsupported, simulate_agents
from cepkit.sequence_set import KnownMatches

JIT = not numba.config.DISABLE_JIT
FAMILIES = [name for name in gs.FAMILIES if name not in ("next", "strict", "partition")]


def runs(program, events, draw: random.Random):
    """Yield the arguments of some runs."""
    components = [bound.branch.components for bound in program.branches]
    orders = [
        draw.sample(range(n), n) if draw.random() < 0.5 else list(range(n)) for n in map(len, components)
    ]
    firsts = [of[order[0]] for of, order in zip(components, orders, strict=True)]
    n_agents = sum(len(of) - 1 + (first.high != 1) for of, first in zip(components, firsts, strict=True))
    # Every order of steps that costs can bring about is one that may happen.
    costs = Costs(*(draw.choice([0.0, 1.0, 7.0, 100.0]) for _ in range(5)))
    arrival = np.cumsum(np.array([draw.choice([0.0, 3.0, 50.0]) for _ in range(events.n_events)]))
    for allocation, least in (("static", 2 * n_agents), ("state_dynamic", n_agents), ("fully_dynamic", 1)):
        yield {
            "threads": max(1, least + draw.randint(0, 3)), "allocation": allocation, "costs": costs,
            "orders": orders, "arrival": draw.choice([None, arrival]),
            "seed": draw.randint(0, 99), "room": draw.choice([16, 64]),
        }  # fmt: skip
    yield {"threads": 1, "allocation": "sequential", "room": 16}


@pytest.mark.skipif(JIT, reason="a shape per case")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_agents_find_each_match_once(seed, family):
    case = gs.case(seed, seed, family)
    program, events = bound(case)
    if reason := agents_unsupported(program):
        pytest.skip(reason)
    wanted = sequence_matches(case.query, case.rows)
    for how in runs(program, events, random.Random(seed)):
        found = simulate_agents(program, events, how.pop("threads"), **how)
        reported = report_matches(program, KnownMatches(events, found.matches))
        block = reported.ending(0, events.n_events)
        assert as_matches(program, block) == wanted, how
