"""Every sequence engine against the definition, on random queries and streams."""

from __future__ import annotations

from functools import cache
from itertools import product

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.after_match import report_matches
from cepkit.engines.search import search
from cepkit.engines.search.search import search_sequence
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import SequenceMatch, sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import cases

# Those that only run when named have tests of their own: test_linked_query.
SEQUENCE_ENGINES = [name for name, engine in engines().items() if engine.run is not None and engine.automatic]
FAMILIES, SLOW = list(gs.FAMILIES), pytest.mark.slow
JIT = not numba.config.DISABLE_JIT
# Machine code costs seconds per shape: few shapes with many streams each. Interpreted, each case has its own.
SHAPES, STREAMS, FULL_SHAPES, FULL_STREAMS = (1, 20, 6, 120) if JIT else (50, 1, 800, 1)


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        usual, full = product(range(SHAPES), range(STREAMS)), product(range(FULL_SHAPES), range(FULL_STREAMS))
        metafunc.parametrize("shape_seed,seed", cases(metafunc.config, usual, full))


@cache
def expected(shape_seed: int, seed: int, family: str) -> tuple[gs.Case, list[SequenceMatch]]:
    case = gs.case(1000 * shape_seed + seed, shape_seed, family)
    return case, sequence_matches(case.query, case.rows)


@pytest.mark.parametrize("engine", SEQUENCE_ENGINES)
@pytest.mark.parametrize(
    "family", [pytest.param(of, marks=SLOW if JIT and i % 2 else ()) for i, of in enumerate(FAMILIES)]
)
def test_engine_is_the_definition(shape_seed, seed, family, engine):
    case, wanted = expected(shape_seed, seed, family)
    program, events = bound(case)
    if reason := engines()[engine].unsupported(program):
        pytest.skip(reason)
    found = report_matches(program, engines()[engine].run(program, events))
    assert as_matches(program, all_of(found)) == wanted
    assert found.count() == len(wanted)
    positions, counts = found.ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts


@pytest.mark.parametrize(("engine", "least"), [("chain", 0.1), ("search", 1), ("ordered", 0.1)])
def test_engines_run_enough_random_cases(engine, least):
    drawn = [gs.case(1000 * shape, shape, family) for shape in range(4) for family in FAMILIES]
    assert sum(engines()[engine].unsupported(bound(case)[0]) is None for case in drawn) >= least * len(drawn)


@pytest.mark.skipif(JIT, reason="a shape of its own; the tests without numba's compiler run it")
def test_aggregates_of_expressions():
    frame = pd.DataFrame({"t": range(4), "kind": list("ABBC"), "x": [1, 2, 3, 4]})
    text = "PATTERN SEQ(A a, B+ b[]) WHERE max(b.x * 2) > 5"
    found = cep.match(frame, text, event_type="kind", order_by="t", measures={"n": "count(b)"})
    assert found.to_frame()["n"].tolist() == [1, 2]


def test_a_look_by_a_python_kernel_keeps_no_more_than_a_compiled_one(monkeypatch):
    """It is many short calls. Each may fill its room, so the rooms are smaller."""
    room, calls = 1 << 9, 2
    monkeypatch.setattr(search, "_ITEMS_PER_CALL", room)
    frame = pd.DataFrame({"t": range(60), "kind": "a", "x": 1.0})
    made = cep.match(frame, "PATTERN SEQ(a+ p[]) WHERE sum(p.x) > 50", event_type="kind", order_by="t")
    program, events = made._found.program, made._found.events
    found = search_sequence(
        program,
        events,
        most_calls=calls,
        work_of_a_call=1 << 13,
        load_as=lambda program, text, name: plain_module(program, text)[name],
    )
    n_matches, is_exact = found.at_least()
    assert not is_exact and 0 < n_matches * 51 <= calls * room
