"""The first matches, found in the first events, against the definition and in every tier."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.shared import sequence_set
from cepkit.errors import ResultTooLargeError
from cepkit.planning.planner import automatic_engines
from cepkit.results import in_memory as building
from cepkit.results.found import most_needed
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import as_matches, bound
from tests.support.sizes import JIT, seeds
from tests.support.tiers import sequence_stream

STATIC = ("chain", "ordered", "search")


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds(2, 80))


@pytest.mark.parametrize("family", list(gs.FAMILIES))
def test_first_matches_are_those_of_the_definition(family, seed, monkeypatch):
    monkeypatch.setattr(sequence_set, "_FIRST_EVENTS", 1 + seed % 3)  # very few, and more up to all
    monkeypatch.setattr(sequence_set, "_PART_OF_ALL", 1)
    monkeypatch.setenv("CEPKIT_TIER", "auto")  # machine code costs seconds per case
    case = gs.case(seed, seed, family)
    program, events = bound(replace(case, query=replace(case.query, after_match=("none", None))))
    wanted = sequence_matches(program.query, case.rows)
    for name, engine in automatic_engines().items():
        if name not in STATIC or engine.unsupported(program):
            continue
        if JIT and name == "search" and seed % 4:
            continue  # some walks must be compiled
        for n in {1, 2, 5, max(1, len(wanted)), len(wanted) + 1}:
            found = engine.of_sequences(program, events)
            assert as_matches(program, found.first(n)) == wanted[:n], (name, n)
            if name == "chain":
                assert as_matches(program, found.take(list(range(min(n, len(wanted)))))) == wanted[:n]
            assert found.count() == len(wanted)
            assert as_matches(program, found.first(n)) == wanted[:n], (name, n)


def test_few_matches_are_listed_without_a_count(monkeypatch):
    frame = pd.DataFrame({"t": range(40), "kind": list("ab") * 20})
    text = "PATTERN SEQ(a x, b y) WITHIN 6"
    ask = lambda: cep.match(frame, text, event_type="kind", order_by="t")  # noqa: E731
    found = ask()
    listed = found.to_frame()
    assert "_total" not in vars(found._found.whole)
    assert len(listed) == found.count() == 57
    with pytest.raises(ResultTooLargeError, match="there are 57 matches, more than limit=56"):
        ask().to_frame(limit=56)
    monkeypatch.setattr(building, "_LISTED_AT_ONCE", 0)
    counted = ask()
    pd.testing.assert_frame_equal(counted.to_frame(), listed)
    assert "_total" in vars(counted._found.whole)


def test_some_matches_wait_for_later_events():
    """Otherwise the cases above would not show that such queries look at all events."""
    waiting = [
        program.can_be_forbidden_later
        for seed in range(8)
        for family in ("negation", "optional")
        for program, _ in [bound(gs.case(seed, seed, family))]
    ]
    assert sum(waiting) >= 2, waiting


@pytest.mark.skipif(not JIT, reason="has many events")
@pytest.mark.parametrize(("text", "strategy"), [
    ("SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x != b.x WITHIN 60", "any"),
    ("SEQ(A a, B b, !C c) WHERE b.x > a.x WITHIN 9", "any"),
    ("SEQ(A a, B b, C c) WHERE a.x + b.x < 2 * c.x - 40", "any"),
    ("SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x WITHIN 20", "any"),
    ("SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 30", "next"),
])  # fmt: skip
@pytest.mark.parametrize("partition_by", [None, "k"])
def test_pages_are_parts_of_the_whole(text, strategy, partition_by, monkeypatch):
    n_rows = 500 if "WITHIN" not in text else 6000
    monkeypatch.setattr(sequence_set, "_FIRST_EVENTS", 32)

    def fresh() -> cep.Matches:
        return cep.match(
            sequence_stream(n_rows), f"PATTERN {text}", event_type="kind", order_by="t",
            strategy=strategy, partition_by=partition_by,
        )  # fmt: skip

    wholes = []
    for tier in ("auto", "compiled"):
        monkeypatch.setenv("CEPKIT_TIER", tier)
        whole = fresh().to_frame(limit=None)
        wholes.append(whole)
        n = len(whole)
        assert n > 100
        for size in (*range(1, 10), 17, 32, 33, 39):  # some matches end with the first events
            pd.testing.assert_frame_equal(fresh().head(size), whole.head(size))
        pd.testing.assert_frame_equal(fresh()[:7].to_frame(), whole[:7])
        pd.testing.assert_frame_equal(fresh()[2:9:3].to_frame(), whole[2:9:3].reset_index(drop=True))
        for number in (0, 4, n - 1, -1):
            found = fresh()
            pd.testing.assert_frame_equal(found[number].rows, found.to_frame("all", limit=None).loc[
                lambda rows, m=number % n: rows["match"] == m].drop(columns="match"))  # fmt: skip
        with pytest.raises(IndexError, match=f"there are {n:,}"):
            fresh()[n]
        pd.testing.assert_frame_equal(fresh().sample(n + 1), whole)
    pd.testing.assert_frame_equal(*wholes)


@pytest.mark.parametrize(("key", "wanted"), [
    (slice(5), 5), (slice(2, 7, 2), 7), (slice(None), None), (slice(-3, None), None), (slice(1, -1), None),
    (slice(5, 0, -1), None), (slice(0), None), (slice(10**9), None), (slice("a", 3), None),
])  # fmt: skip
def test_slices_that_a_few_first_matches_decide(key, wanted):
    assert most_needed(key) == wanted
