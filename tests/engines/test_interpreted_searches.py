"""Interpreted searches against the definition, and against the same queries compiled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numba
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.interpreted.instructions import ELEMENTARY
from cepkit.compile.interpreted.walk import walk_code_of
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines import ordered, search
from cepkit.engines.interpreted.walk import ordered_tests_of
from cepkit.engines.search import search_sequence
from cepkit.planning import evaluation_order
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.ordered_cases import FAMILIES, bound, check, drawn
from tests.support.sequence_runs import all_of, as_matches
from tests.support.sizes import seeds
from tests.support.tiers import check_tiers, interpret, sequence_stream

JIT = not numba.config.DISABLE_JIT
SIZE = 20  # seeds of a block; each has a case of every family


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every search that can be interpreted."""
    interpret(monkeypatch)


def is_interpreted(program) -> bool:
    tests = (ordered_tests_of(own, tuple(range(len(own.accepts)))) for own in program.branches)
    return not any(isinstance(own, str) for own in tests)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_random_orders(seed, interpreted, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(ordered, "_WORK_PER_CALL", 3)  # the kernel pauses after a few events
    n_interpreted = 0
    for own in range(SIZE * seed, SIZE * (seed + 1)):
        for family in FAMILIES:
            case, reason = drawn(own, family)
            if reason or not is_interpreted(bound(case.query, case.rows)[0]):
                continue  # test_ordered.py has these
            n_interpreted += 1
            try:
                check(case.query, case.rows, 3)
            except BaseException as error:
                error.add_note(f"drawn({own}, {family!r})")
                raise
    assert n_interpreted >= SIZE // 2


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_random_walks(seed, interpreted, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(search, "_WORK_PER_CALL", 2)
    n_interpreted = 0
    for own in range(SIZE * seed // 3, SIZE * seed // 3 + SIZE // 3):
        for family in gs.FAMILIES:
            case = gs.case(own, own, family)
            program, events = bound(case.query, case.rows)
            if any(isinstance(walk_code_of(program, own), str) for own in program.branches):
                continue  # test_sequences.py has these
            n_interpreted += 1
            wanted = sequence_matches(replace(case.query, after_match=("none", None)), case.rows)
            found = search_sequence(program, events)
            note = f"gs.case({own}, {own}, {family!r})"
            assert as_matches(program, all_of(found)) == wanted, note
            again = search_sequence(program, events, most_known=0)  # counted, and searched again
            assert again.count() == len(wanted), note
    assert n_interpreted >= SIZE


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("text", [
    "SEQ(A a, B b, C c) WHERE c.x > a.x",
    "SEQ(A a, B b, C c, D d) WHERE c.y >= a.y * 0.5 AND d.k = a.k",
    "SEQ(A a, B b, !D d, C c) WHERE c.x > a.x AND d.y > a.y AND d.x != c.x",
    "SEQ(A a, OR(B b, C c), D d) WHERE d.x > a.x AND NOT d.y < a.y",
    "SEQ(A a, B b, C c) WHERE c.x > a.x + b.x - 25 AND c.y * a.y < b.y",
    "SEQ(A a, B b, C c, D d) WHERE a.x - b.x <= c.x - d.x AND NOT b.y >= c.y + a.y",
])  # fmt: skip
@pytest.mark.parametrize("partition_by", [None, "k"])
def test_the_tiers_agree_on_long_streams(text, partition_by, monkeypatch):
    query, begin = f"PATTERN {text} WITHIN 24", partial(interpret, monkeypatch)
    frame, keywords = sequence_stream(30_000), {"partition_by": partition_by, "engine": "ordered"}
    check_tiers(monkeypatch, frame, query, begin, **keywords)


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize(("text", "strategy"), [
    ("SEQ(A a, B+ b[], C c) WHERE avg(b.y) > a.y AND c.x > b[i-1].x", "any"),
    ("SEQ(A a, B+ b[], !D d, C c) WHERE b[i].x >= max(b[..i-1].x) AND d.x = a.x", "next"),
    ("SEQ(A a, B+ b[], D d) WHERE b[2].x > a.x * 0.5 + d.y", "next"),
])  # fmt: skip
@pytest.mark.parametrize("partition_by", [None, "k"])
def test_walks_agree_on_long_streams(text, strategy, partition_by, monkeypatch):
    def begin():
        interpret(monkeypatch)
        looks = iter([False, True])
        monkeypatch.setattr(search, "is_ready", lambda _: next(looks, True))
        monkeypatch.setattr(search, "_WORK_PER_CALL", 500)

    check_tiers(
        monkeypatch, sequence_stream(20_000), f"PATTERN {text} WITHIN 12", begin, least=100,
        tier="interpreted, then compiled", strategy=strategy, partition_by=partition_by, engine="search",
    )  # fmt: skip


def test_a_search_says_how_it_runs(interpreted):
    frame = pd.DataFrame({"t": range(60), "kind": list("ABC") * 20, "x": [3.0, 1.0, 4.0] * 20})
    keywords = {"event_type": "kind", "order_by": "t"}
    text = "PATTERN SEQ(A a, B b, C c) WHERE {} WITHIN 30"
    pairwise = cep.match(frame, text.format("c.x > a.x"), **keywords)
    assert pairwise.run.tier == "interpreted"
    assert "is interpreted until its kernel is compiled" in str(
        cep.explain(frame, text.format("c.x > a.x"), **keywords)
    )
    joint = text.format("c.x > a.x + b.x")
    assert "is interpreted until its kernel is compiled" in str(cep.explain(frame, joint, **keywords))
    load_kernels(ELEMENTARY)
    rounded = cep.explain(frame, text.format("log(c.x) > a.x"), **keywords)
    assert "is interpreted until its kernel is compiled" in str(rounded)
    mixed = str(cep.explain(frame, text.format("log(c.x + a.x) > 1"), **keywords))
    assert "is compiled first, since it computes 'log' with values of several events" in mixed


@pytest.mark.parametrize("calls", [1, 1000])
def test_absent_events_compared_with_two_others_are_walked_while_this_is_quick(
    calls, interpreted, monkeypatch
):
    monkeypatch.setattr(ordered, "_CALLS_OF_A_WALK", calls)
    monkeypatch.setattr(search, "_WORK_PER_CALL_OF_A_LOOK", 100)
    frame, text = sequence_stream(400), "PATTERN SEQ(A a, !B b, C c) WHERE b.x > a.x + c.x - 9 WITHIN 20"
    found, wanted = (
        cep.match(frame, text, event_type="kind", order_by="t", engine=engine)
        for engine in ("ordered", "search")
    )
    pd.testing.assert_frame_equal(found.to_frame("all"), wanted.to_frame("all"))
    assert found.count() == wanted.count() > 10
    assert found.run.tier == ("interpreted" if calls > 1 else "interpreted, then compiled")


@pytest.mark.parametrize("calls", [1, 1000])
def test_many_matches_of_a_walk_are_counted_without_a_kernel_while_this_is_quick(
    calls, interpreted, monkeypatch
):
    """Their count always compiled a kernel first, which took about a second."""
    monkeypatch.setattr(ordered, "_CALLS_OF_A_WALK", calls)
    monkeypatch.setattr(search, "_WORK_PER_CALL_OF_A_LOOK", 100)
    monkeypatch.setattr(evaluation_order, "MOST_KNOWN", 0)
    frame, text = sequence_stream(400), "PATTERN SEQ(A a, !B b, C c) WHERE b.x > a.x + c.x - 9 WITHIN 20"
    found, wanted = (
        cep.match(frame, text, event_type="kind", order_by="t", engine=engine)
        for engine in ("ordered", "search")
    )
    assert found.count() == wanted.count() > 10
    assert found.run.tier == ("interpreted" if calls > 1 else "interpreted, then compiled")
