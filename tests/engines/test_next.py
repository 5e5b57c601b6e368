"""The engine of strategy ``next`` against the definition and the search, and the order of matches."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import next_engine as engine
from cepkit.engines import next_places as places
from cepkit.engines.next_engine import match_next, next_unsupported
from cepkit.engines.shared import places as slices
from cepkit.engines.shared import sequence_set
from cepkit.engines.shared.sequence_set import MatchBlock
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import JIT, seeds
from tests.support.tiers import interpret, sequence_stream

SIZE = 8  # seeds of a block; each has a case of every family
FAMILIES = ["next", "window", "negation", "kleene", "optional", "mixed", "preference", "rounds", "all"]


@pytest.fixture
def interpreted(monkeypatch):
    interpret(monkeypatch)


def work_in_small_parts(monkeypatch, draw: Random) -> None:
    """Let threads take slices of a few events, and let calls of the walk end after a few steps."""
    monkeypatch.setenv("CEPKIT_THREADS", str(draw.choice([1, 2, 3])))
    monkeypatch.setattr(places, "_FEWEST_PER_THREAD", 1)
    for module in (slices, places):
        monkeypatch.setattr(module, "PER_SLICE", draw.choice([1, 2, 3, 1 << 20]))
    monkeypatch.setattr(places, "_MOST_OVERLAP", draw.choice([0, 1, 4]))
    monkeypatch.setattr(engine, "_STEPS_PER_CALL", draw.choice([1, 2, 1 << 20]))
    monkeypatch.setattr(engine, "_ITEMS_PER_CALL", draw.choice([1, 1 << 20]))
    monkeypatch.setattr(engine, "_EVENTS_PER_CHUNK", draw.choice([1, 3, 1 << 16]))
    monkeypatch.setattr(engine, "_FEWEST_ENTRIES", draw.choice([0, 3, 1 << 12]))
    monkeypatch.setattr(engine, "_MOST_OVERLAP", draw.choice([0, 1, 4]))
    monkeypatch.setattr(sequence_set, "_FEW", draw.choice([0, 256]))
    monkeypatch.setattr(engine, "_FIRST_EVENTS", draw.choice([1, 2, 1 << 14]))
    monkeypatch.setattr(engine, "_GROWTH", 2)


@pytest.mark.parametrize("seed", seeds(1, 250))
def test_random_cases_are_the_definition(seed, interpreted, monkeypatch):
    n_cases = 0
    for own in range(seed * SIZE, (seed + 1) * SIZE):
        for family in FAMILIES:
            case = gs.case(own, own, family)
            program, events = bound(case)
            if next_unsupported(program):
                continue  # test_sequences.py has these
            n_cases += 1
            wanted = sequence_matches(replace(case.query, after_match=("none", None)), case.rows)
            work_in_small_parts(monkeypatch, Random(f"{own} {family}"))
            note = f"gs.case({own}, {own}, {family!r})"
            assert as_matches(program, all_of(match_next(program, events))) == wanted, note
            check_parts(program, events, wanted, note)
    assert n_cases >= SIZE // 2


def check_parts(program, events, wanted, note: str) -> None:
    """Check what does not list all matches, each with matches that nothing is known of."""
    assert match_next(program, events).count() == len(wanted), note
    assert match_next(program, events).any() == bool(wanted), note
    positions, counts = match_next(program, events).ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, np.int64)).tolist() == lasts, note
    first = as_matches(program, match_next(program, events).glance(2))
    assert first == wanted[: len(first)] and len(first) >= min(2, len(wanted)), note
    for i in {0, len(wanted) // 2, len(wanted) - 1} if wanted else ():
        assert as_matches(program, match_next(program, events).take([i])) == wanted[i : i + 1], note
        low, high = lasts[i], lasts[i] + 2
        found = as_matches(program, match_next(program, events).ending(low, high))
        assert found == [match for match in wanted if low <= match.rows[-1] < high], note


TEXTS = [
    "SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x >= b.x",
    "SEQ(A a, B b, C c) WHERE b.y < a.y AND c.y <= b.y * 1.5",
    "SEQ(A a, B b, A c, _ d, _ e) WHERE b.x > a.x AND e.x <= d.x",
    "SEQ(A a, B b) WHERE b.x = a.x",
    "SEQ(A a, B b, C c) WHERE b.y = a.z AND c.x != b.x",
    "SEQ(A a, B b, C c) WHERE c.x > a.x AND c.x < b.x",
    "SEQ(A a, B+ b[], C c) WHERE b[i].x >= b[i-1].x AND c.x < a.x",
    "SEQ(A a, B+ b[], C c) WHERE b[i].y > a.y",
    "SEQ(A a, !D d, B b, C+ c[])",
    "SEQ(A+ a[], B+ b[], C c) WHERE b[i].x > b[i-1].x",
    "SEQ(A a, OR(B b, C c), D d) WHERE d.x > a.x",
    "SEQ(_ a, _ b, _ c) WHERE b.y > a.y AND c.y > b.y",
]
HOW = [{}, {"partition_by": "k"}, {"partition_by": "k", "strict_time": True}, {"scope": "edge"}]


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("within", ["12", "400 GAP 8", "3 EXCLUSIVE", "30 events", None])
@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("text", TEXTS)
def test_it_is_the_search_on_long_streams(text, how, within, monkeypatch):
    interpret(monkeypatch)
    n = 300 if "+" in text else 4000
    frame = sequence_stream(n).assign(z=lambda f: f["y"].shift(1).round(1), y=lambda f: f["y"].round(1))
    frame["t"] //= 2  # ties
    if within == "3 EXCLUSIVE":
        frame["t"] /= 4
    query = f"PATTERN {text}" if within is None else f"PATTERN {text} WITHIN {within}"
    keywords = {"event_type": "kind", "order_by": "t", "strategy": "next", **how}
    wanted = cep.match(frame, query, engine="search", **keywords).to_frame()
    assert len(wanted) > 5
    for threads, per_slice in ((1, 1 << 20), (2, 300)):
        monkeypatch.setenv("CEPKIT_THREADS", str(threads))
        monkeypatch.setattr(places, "_FEWEST_PER_THREAD", 100)
        for module in (slices, places):
            monkeypatch.setattr(module, "PER_SLICE", per_slice)
        monkeypatch.setattr(engine, "_EVENTS_PER_CHUNK", per_slice // 3)
        found = cep.match(frame, query, engine="next", **keywords)
        assert found.count() == len(wanted)
        pd.testing.assert_frame_equal(found.to_frame(), wanted)


@pytest.mark.parametrize(("text", "keywords", "is_chain"), [
    ("SEQ(A a, B b, _ c) WHERE a.x < b.x AND c.y >= b.y", {}, True),
    ("SEQ(A a, B b) WITHIN 5 GAP 3", {"partition_by": "k"}, True),
    ("SEQ(A a)", {}, True),
    ("SEQ(A a, B b) WHERE a.x < b.x WITHIN 5 events", {}, False),
    ("SEQ(A a, B b) WHERE a.x < b.x", {"strict_time": True}, False),
    ("SEQ(A a, B b, C c) WHERE a.x < c.x", {}, False),
    ("SEQ(A a, B b) WHERE a.x = b.x", {}, False),
    ("SEQ(A a, !D d, B b)", {}, False),
    ("SEQ(A a, B+ b)", {}, False),
])  # fmt: skip
def test_chains_are_walked_once(text, keywords, is_chain):
    asked = {"event_type": "kind", "order_by": "t", "strategy": "next", **keywords}
    matches = cep.match(sequence_stream(30), f"PATTERN {text}", engine="next", **asked)
    assert [isinstance(own, engine.NextChainSearch) for own in matches._found.whole._searches] == [is_chain]


EDGES = [0, -1, 1, 2**63 - 1, -(2**63) + 1, 2**62]


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("values", [
    EDGES, [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308],
    pd.array([None, 0, 2**63 - 1, None, -(2**63) + 1], dtype="Int64"),
], ids=["integers", "floats", "nulls"])  # fmt: skip
def test_chains_compare_all_numbers(values, sign):
    frame = pd.DataFrame({"t": range(300)})
    frame["x"] = pd.Series(values).take(np.random.default_rng(1).integers(0, len(values), 300)).array
    keywords = {"order_by": "t", "strategy": "next"}
    text = f"PATTERN SEQ(_ a, _ b, _ c) WHERE a.x {sign} b.x AND c.x {sign} b.x WITHIN 9"
    wanted = cep.match(frame, text, engine="search", **keywords).to_frame()
    found = cep.match(frame, text, engine="next", **keywords)
    assert found.count() == len(wanted) > 5
    pd.testing.assert_frame_equal(found.to_frame(), wanted)


@pytest.mark.parametrize("n", [3, 2000])
def test_many_matches_with_one_last_event_are_sorted(n):
    draw = np.random.default_rng(n)
    frame = pd.DataFrame(
        {"t": range(2 * n + 1), "kind": [*("AB" * n), "C"], "x": draw.integers(0, n, 2 * n + 1)}
    )
    keywords = {"event_type": "kind", "order_by": "t", "strategy": "next"}
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x"
    found = cep.match(frame, text, engine="next", **keywords).to_frame(limit=None)
    assert len(found) > n // 2
    pd.testing.assert_frame_equal(found, found.sort_values(["c_t", "b_t", "a_t"]).reset_index(drop=True))


def test_equal_values_of_two_columns_are_found_in_one_pass():
    """Every process starts before its parent: a scan from each would look at all later ones."""
    n = 60_000
    frame = pd.DataFrame({"t": range(n), "pid": range(n), "ppid": n - 1 - np.arange(n)})
    keywords = {"order_by": "t", "strategy": "next"}
    assert cep.match(frame, "PATTERN SEQ(_ a, _ b) WHERE b.ppid = a.pid", **keywords).count() == n // 2
    assert cep.match(frame, "PATTERN SEQ(_ a, _ b) WHERE b.ppid > a.pid", **keywords).count() == n // 2 - 1


@pytest.mark.parametrize(("text", "reason"), [
    ("SEQ(A a, B+ b[], C c) WHERE avg(b.x) > a.x", "condition 1 is on a whole loop"),
    ("SEQ(A a, B b, C c) WHERE a.x + b.x > c.x", "compares values of more than two events"),
    ("SEQ(A a, B b, !D d, C c) WHERE d.x > a.x", "compares the absent event 'd' with others"),
    ("SEQ(A a, B b, !D d) WITHIN 5", "the absent event 'd' is not between two neighbours"),
    ("SEQ(A a, B b)", "has a step of another strategy than 'next'"),
])  # fmt: skip
def test_other_queries_are_refused_with_a_reason(text, reason):
    strategy = "partition" if "another strategy" in reason else "next"
    keywords = {"event_type": "kind", "order_by": "t", "strategy": strategy}
    with pytest.raises(cep.UnsupportedQueryError, match=f"engine 'next' cannot run this query: .*({reason})"):
        cep.match(sequence_stream(10), f"PATTERN {text}", engine="next", **keywords)
    assert "not          next: " in str(cep.explain(sequence_stream(10), f"PATTERN {text}", **keywords))


def test_explain_says_that_it_jumps():
    keywords = {"event_type": "kind", "order_by": "t", "strategy": "next"}
    text = str(cep.explain(sequence_stream(10), "PATTERN SEQ(A a, B b) WHERE b.x > a.x", **keywords))
    assert "engine       next: jumps from each event of a match to the next one that fits" in text
    assert "without a list of the matches" in text


# --- the order of matches


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_the_kernels_sort_matches_as_their_keys(seed, monkeypatch):
    draw = np.random.default_rng(seed)
    n, width, spread = int(draw.integers(2, 400)), int(draw.integers(1, 5)), int(draw.choice([8, 40, 10**6]))
    sizes = draw.integers(1, width + 1, n)
    events = np.concatenate([np.sort(draw.choice(spread, size, replace=False)) for size in sizes])
    components = np.concatenate([np.sort(draw.integers(0, 3, size)) for size in sizes]).astype(np.int16)
    first_item = np.concatenate([[0], np.cumsum(sizes)])
    block = MatchBlock(events, components, first_item, draw.integers(0, 2, n).astype(np.int16))
    monkeypatch.setattr(sequence_set, "_FEW", 1000)
    wanted = block.sorted()
    monkeypatch.setattr(sequence_set, "_FEW", 0)
    found = block.sorted()
    for name in ("event_of_item", "component_of_item", "first_item_of_match", "branch_of_match"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
