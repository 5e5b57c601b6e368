"""Every sequence engine against the definition, on random queries and streams."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import search
from cepkit.engines.after_match import report_matches
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.language.expressions.functions import AGGREGATE_SPELLINGS
from cepkit.language.expressions.summaries import SUMMARIES, Summary
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import SequenceMatch, sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import seeds

# Those that only run when named have tests of their own: test_linked_query.
SEQUENCE_ENGINES = [name for name, engine in engines().items() if engine.run is not None and engine.automatic]
FAMILIES = list(gs.FAMILIES)
JIT = not numba.config.DISABLE_JIT
SHAPES, FULL_SHAPES = (1, 6) if JIT else (2, 60)
STREAMS, FULL_STREAMS = (20, 120) if JIT else (12, 12)


@cache
def expected(shape: int, seed: int, family: str) -> tuple[gs.Case, list[SequenceMatch]]:
    case = gs.case(seed, shape, family)
    return case, sequence_matches(case.query, case.rows)


@pytest.mark.parametrize("engine", SEQUENCE_ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape_seed", seeds(SHAPES, FULL_SHAPES))
def test_engine_is_the_definition(shape_seed, family, engine, tier, full):
    """Compiled queries have one shape and many streams, since machine code costs seconds; others many."""
    reasons, n = [], FULL_STREAMS if full else STREAMS
    for seed in range(1000 * shape_seed, 1000 * shape_seed + n):
        shape = shape_seed if tier == "compiled" else seed
        try:
            reasons.append(check(shape, seed, family, engine))
        except BaseException as error:
            error.add_note(f"gs.case({seed}, {shape}, {family!r})")
            raise
    if all(reasons):
        pytest.skip(reasons[0])


def check(shape: int, seed: int, family: str, engine: str) -> str | None:
    """Compare an engine with the definition, or return why it does not run the query."""
    case, wanted = expected(shape, seed, family)
    program, events = bound(case)
    if reason := engines()[engine].unsupported(program):
        return reason
    found = report_matches(program, engines()[engine].run(program, events))
    assert found.at_most() >= len(wanted)
    assert as_matches(program, all_of(found)) == wanted
    assert found.count() == found.at_most() == len(wanted)
    positions, counts = found.ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts
    return None


@pytest.mark.parametrize(("engine", "least"), [("chain", 0.1), ("search", 1), ("ordered", 0.1)])
def test_engines_run_enough_random_cases(engine, least):
    drawn = [gs.case(1000 * shape, shape, family) for shape in range(4) for family in FAMILIES]
    assert sum(engines()[engine].unsupported(bound(case)[0]) is None for case in drawn) >= least * len(drawn)


def test_aggregates_of_expressions():
    frame = pd.DataFrame({"t": range(4), "kind": list("ABBC"), "x": [1, 2, 3, 4]})
    text = "PATTERN SEQ(A a, B+ b[]) WHERE max(b.x * 2) > 5"
    found = cep.match(frame, text, event_type="kind", order_by="t", measures={"n": "count(b)"})
    assert found.to_frame()["n"].tolist() == [1, 2]


def test_summaries_of_a_repeated_event():
    frame = pd.DataFrame({"t": range(6), "kind": list("ABBBCA"), "x": [9.0, 5, None, 2, 0, 1]})
    texts = ["median(b.x)", "std(b.x)", "var(b.t)", "distinct(b.x)", "nunique(b.kind)"]
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE partition_contiguity"
    measures = {f"m{i}": measure for i, measure in enumerate(texts)}
    rows = cep.match(frame, text, event_type="kind", order_by="t", measures=measures).to_frame()
    assert rows.values.tolist() == [[3.5, 1.5, pytest.approx(2 / 3), 2, 1]]


def test_a_new_summary_is_one_entry(monkeypatch):
    """Parsers, measures and windows read the table of summaries."""
    span = Summary(lambda values: max(values) - min(values), "the greatest minus the least value")
    monkeypatch.setitem(SUMMARIES, "span", span)
    monkeypatch.setitem(AGGREGATE_SPELLINGS, "span", "span")
    frame = pd.DataFrame({"t": range(5), "x": [1.0, 4, 2, 8, 3]})
    rows = cep.match(frame, ". up up", define={"up": "x != prev(x)"}, order_by="t", measures={"s": "span(x)"})
    assert rows.to_frame()["s"].tolist() == [3.0]
    assert cep.window(frame, {"s": "span(x)"}, length=2)["s"].tolist() == [0, 3, 2, 6, 5]


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
