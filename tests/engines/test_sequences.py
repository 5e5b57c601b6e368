"""Every sequence engine against the definition, on random queries and streams."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import search
from cepkit.engines.after_match import report_matches
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.errors import UnsupportedQueryError
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import SequenceMatch, sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import JIT, seeds
from tests.support.tiers import TIERS

# Those that only run when named have tests of their own: test_linked_query.
SEQUENCE_ENGINES = [name for name, engine in engines().items() if engine.run is not None and engine.automatic]
FAMILIES = list(gs.FAMILIES)
SHAPES, FULL_SHAPES = (1, 6) if JIT else (1, 60)
STREAMS, FULL_STREAMS = (14, 120) if JIT else (12, 12)


@cache
def expected(shape: int, seed: int, family: str) -> tuple[gs.Case, list[SequenceMatch]]:
    case = gs.case(seed, shape, family)
    return case, sequence_matches(case.query, case.rows)


@pytest.mark.parametrize("engine", SEQUENCE_ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape_seed", seeds(SHAPES, FULL_SHAPES))
@pytest.mark.parametrize("tier", [tier for tier in TIERS if tier != "compiled"], indirect=True)
def test_engine_is_the_definition(shape_seed, family, engine, tier, full, monkeypatch):
    if tier == "interpreted" and FAMILIES.index(family) % 2:
        monkeypatch.setattr(search, "_WORK_PER_CALL", 2)  # the kernel pauses after a few events
    compare_many(shape_seed, family, engine, full=full)


@pytest.mark.parametrize("tier", ["interpreted"], indirect=True)
def test_least_and_greatest_values_of_repeated_events(tier):
    frame = pd.DataFrame({"i": range(4), "k": list("AAAB"), "x": [3, 1, 2, 2]})
    for name, expected_rows in (("min", [[0, 1], [0, 1, 2], [1], [1, 2]]), ("max", [[1]])):
        text = f"PATTERN SEQ(A+ a[], B b) WHERE b.x > {name}(a.x) WITHIN 10"
        found = cep.match(frame, text, event_type="k", order_by="i", measures={"rows": "collect(a.i)"})
        assert sorted(map(list, found.to_frame()["rows"])) == expected_rows


@pytest.mark.skipif(not JIT, reason="without the JIT, all engines run the text that is compiled")
@pytest.mark.parametrize("tier", ["compiled"], indirect=True)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(1, FULL_SHAPES * len(SEQUENCE_ENGINES)))
def test_compiled_engine_is_the_definition(seed, family, tier, full):
    """The seed chooses shape and engine, since machine code of a shape costs seconds."""
    engine = SEQUENCE_ENGINES[(seed + FAMILIES.index(family)) % len(SEQUENCE_ENGINES)]
    compare_many(seed // len(SEQUENCE_ENGINES), family, engine, full=full, one_shape=True)


def compare_many(shape_seed: int, family: str, engine: str, *, full: bool, one_shape: bool = False) -> None:
    """Compare an engine with the definition on many streams; their queries have many shapes, or one."""
    reasons, n = [], FULL_STREAMS if full else STREAMS
    for seed in range(1000 * shape_seed, 1000 * shape_seed + n):
        shape = shape_seed if one_shape else seed
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
    if engine == "search" and not case.query.selects:  # counted, and searched again
        assert search_sequence(program, events, most_known=0).count() == len(wanted)
    return None


@pytest.mark.parametrize("seed", seeds(3, 300))
def test_greedy_at_the_end_takes_the_longest(seed):
    """Random patterns with a greedy loop at the end, each under the engine that runs it."""
    n_compared = 0
    for number in range(20 * seed, 20 * seed + 20):
        case = gs.case(number, number, "preference", greedy_ends=True)
        if not case.query.ends_greedily:
            continue
        program, events = bound(case)
        for name in ("search", "next"):
            if engines()[name].unsupported(program):
                continue
            found = report_matches(program, engines()[name].run(program, events))
            assert as_matches(program, all_of(found)) == sequence_matches(case.query, case.rows), number
            n_compared += 1
    if not n_compared:
        pytest.skip("none of these patterns runs under an engine of its own")


def test_greedy_signals_of_one_kind():
    """Six signals of one kind within a second are one match, or the longest from each start."""
    frame = pd.DataFrame({"t": [0, 100, 200, 300, 400, 500, 600, 5000, 5100], "k": list("AAAAAABAA")})
    keywords = {"event_type": "k", "order_by": "t", "strategy": "next", "measures": {"n": "count(a)"}}
    greedy, every = "PATTERN SEQ(A{2,} a[] GREEDY) WITHIN 1000", "PATTERN SEQ(A{2,} a[]) WITHIN 1000"
    assert frame.cep.match(greedy, after_match="past_last", **keywords).to_frame()["n"].tolist() == [6, 2]
    assert frame.cep.match(every, after_match="past_last", **keywords).to_frame()["n"].tolist() == [2] * 4
    found = frame.cep.match(greedy, **keywords)
    assert found.count() == 6 and sorted(found.to_frame()["n"]) == [2, 2, 3, 4, 5, 6]
    assert "only the longest" in frame.cep.explain(greedy, **keywords).sentence
    assert len(found.head(3)) == len(found.sample(3)) == 3
    answer = frame.cep.why_not(greedy, rows=[0, 1], event_type="k", order_by="t", strategy="next")
    assert "GREEDY leaves it out: the match of row 0, row 1, row 2" in str(answer)
    with pytest.raises(UnsupportedQueryError, match="GREEDY at the end of the pattern: in a stream"):
        cep.stream(greedy, {"k": "string", "t": "int64"}, event_type="k", order_by="t", strategy="next")


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
