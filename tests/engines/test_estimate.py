"""Estimated counts against the definition: what is left out, the limits, and the errors."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.state_graph import relax
from cepkit.engines.counting import estimate
from cepkit.engines.counting.estimate import (
    CountEstimate,
    draw_matches,
    estimate_count,
    exactly,
    proportion_limits,
)
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.language.sequences.construction import sequence_query
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import as_matches, prepared
from tests.support.sizes import JIT, seeds

N_STREAMS = 210  # in all; the chance of fewer than 90 % hits of 210 at 95 % is about 0.1 %


# --- everything that can be left out, tested on all matches of the rest -----------------------------------


FAMILIES = [name for name, (strategies, _) in gs.FAMILIES.items() if "any" in strategies]
SEEDS = range(12)


def drawn(seed: int, family: str) -> gs.Case:
    return gs.case(7000 + seed, 7000 + seed, family)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_enough_random_cases_can_be_estimated():
    cases = [drawn(seed, family) for seed in SEEDS for family in FAMILIES]
    programs = [prepared(case.query, gs.to_frame(case.rows))[0] for case in cases]
    assert sum(not isinstance(relax(program), str) for program in programs) >= 30


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(1 if JIT else 3, 12))
def test_with_all_matches_drawn_it_is_the_definition(seed, family):
    case = drawn(seed, family)
    program, events = prepared(case.query, gs.to_frame(case.rows))
    if isinstance(relax(program), str):
        with pytest.raises(UnsupportedQueryError, match=r"count\(\) is exact"):
            estimate_count(program, events)
        return
    made = estimate_count(program, events, samples=1_000_000)
    wanted = len(sequence_matches(case.query, case.rows))
    assert (made.value, made.low, made.high) == (wanted, wanted, wanted)


# --- limits ------------------------------------------------------------------------------------------------

QUERIES = {
    "not neighbours": "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x",
    "a loop as a whole, and absent events": (
        "PATTERN SEQ(!N n, A a, B+ b[], C c) WHERE avg(b.x) >= a.x AND n.x > 3 WITHIN 18"
    ),
    "two branches, one of them a chain": "PATTERN SEQ(A a, OR(B b, D d), C c) WHERE b.y > a.y AND c.x > d.x "
    "AND c.x + d.y > a.x",
}


@cache
def streams(name: str) -> list[tuple[CountEstimate, int]]:
    text = QUERIES[name]
    query = sequence_query(text, event_type="kind", order_by="t")
    made = []
    for seed in range(N_STREAMS // len(QUERIES)):
        rng = np.random.default_rng([seed, len(name)])
        n = int(rng.integers(11, 16)) if "avg" in text else int(rng.integers(18, 26))
        kinds = rng.choice(
            list("AABBCCDD" if "OR" in text else "AABBCN" if "avg" in text else "ABC"), n
        ).tolist()
        x, y = rng.integers(0, 6, n).tolist(), rng.normal(size=n).round(2).tolist()
        rows = [
            {"kind": kinds[i], "t": i, "x": x[i], "y": y[i], "k": "a", "f": 0.0, "s": "u", "g": True}
            for i in range(n)
        ]
        estimate = estimate_count(*prepared(query, pd.DataFrame(rows)), samples=12, seed=seed)
        made.append((estimate, len(sequence_matches(query, rows))))
    return made


def test_limits_hold_as_often_as_they_say():
    found = [one for name in QUERIES for one in streams(name)]
    sampled = [(made, wanted) for made, wanted in found if not made.is_exact]
    assert len(sampled) >= 100
    assert sum(made.low <= wanted <= made.high for made, wanted in found) >= 0.9 * len(found) >= 0.9 * 200
    assert sum(made.low <= wanted <= made.high for made, wanted in sampled) >= 0.9 * len(sampled)
    assert all(made.low <= made.value <= made.high <= made.relaxed_count for made, _ in found)
    # Neither are they wide for nothing: hits or misses are there in most samples.
    assert sum(made.high < made.relaxed_count for made, _ in sampled) > 0.8 * len(sampled)


def test_what_is_exact_is_exact():
    found = [one for name in QUERIES for one in streams(name)]
    exact = [(made, wanted) for made, wanted in found if made.is_exact]
    assert exact
    assert all(made.value == wanted for made, wanted in exact)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_proportion_limits_hold_whatever_the_proportion(n):
    limits = [proportion_limits(hits, n, 0.95) for hits in range(n + 1)]
    assert limits[0][0] == 0 and limits[-1][1] == 1
    assert limits == sorted(limits)
    for p in np.linspace(0.001, 0.999, 101).tolist():
        ways = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        held = sum(way for way, (low, high) in zip(ways, limits, strict=True) if low <= p <= high)
        assert held >= 0.95 - 1e-9


def test_no_hit_and_only_hits():
    frame = pd.DataFrame({"x": range(100)})
    text = "PATTERN SEQ(_ a, _ b, _ c) WHERE c.x - a.x {}"
    never = cep.match(frame, text.format("> 1000")).count("estimate", samples=50)
    assert never.value == never.low == 0 < never.high < never.relaxed_count == math.comb(100, 3)
    always = cep.match(frame, text.format("> 1")).count("estimate", samples=50)
    assert 0 < always.low < always.high == always.value == math.comb(100, 3)


def test_numbers_of_any_size():
    frame = pd.DataFrame({"x": [1.0, 2.0] * 60})
    query = "PATTERN SEQ(_ first, _ a, _+ b[], _ c) WHERE a.x < c.x"
    made = cep.match(frame, query).count("estimate", samples=400 if JIT else 20)
    # All pairs of different rows, with a row before both and a subset of those between: exact, by position.
    wanted = sum(i * (2 ** (j - i - 1) - 1) for i in range(0, 120, 2) for j in range(i + 1, 120, 2))
    relaxed = sum(i * (2 ** (j - i - 1) - 1) for i in range(120) for j in range(i + 1, 120))
    assert made.relaxed_count == relaxed
    assert made.low <= wanted <= made.high
    assert str(made).startswith("about ") and "e35 (95 % between" in str(made)


# --- what users see ----------------------------------------------------------------------------------------


@pytest.fixture
def frame():
    return pd.DataFrame({"kind": list("ABC") * 30, "x": np.arange(90) % 7, "t": range(90)})


def test_a_chain_is_counted(frame):
    matches = cep.match(frame, "PATTERN SEQ(A a, B b) WHERE b.x > a.x", event_type="kind")
    made = matches.count(method="estimate")
    assert made.is_exact and int(made) == made.value == matches.count()
    assert str(made) == repr(made) == f"{matches.count():,} (exact)"


def test_it_names_what_was_left_out_and_repeats(frame):
    query = "PATTERN SEQ(A a, B b, C c, !A n) WHERE c.x > a.x AND b.x < 5 AND n.x > c.x WITHIN 40"
    matches = cep.match(frame, query, event_type="kind", order_by="t")
    made = matches.count("estimate", samples=100, seed=3)
    assert made.dropped == ("c.x > a.x", "!n")
    assert made.samples == 100 and made.confidence == 0.95
    assert made == matches.count("estimate", samples=100, seed=3)
    assert len({matches.count("estimate", samples=100, seed=seed).value for seed in range(5)}) > 1
    assert matches.count("estimate", samples=10**6).value == matches.count()


def test_a_slice_is_counted(frame):
    matches = cep.match(frame, "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x", event_type="kind")
    assert matches[5:25].count("estimate").value == 20


@pytest.mark.parametrize(
    ("query", "keywords", "reason"),
    [
        ("SEQ(A a, B b, C c) WHERE a.x < c.x", {"after_match": "past_last"}, "after_match='past_last'"),
        ("SEQ(A a, B b, C c) WHERE a.x < c.x", {"strategy": "next"}, "strategy 'any' may"),
        ("SEQ(A a, B b, C c) WHERE a.x < c.x", {"strategy": "strict"}, "strategy 'any' may"),
        ("SEQ(A a, B+ b[] UNTIL (x > 5), C c) WHERE a.x < c.x", {}, "until"),
    ],
)
def test_what_cannot_be_estimated(frame, query, keywords, reason):
    matches = cep.match(frame, f"PATTERN {query}", event_type="kind", **keywords)
    with pytest.raises(UnsupportedQueryError, match=reason) as error:
        matches.count("estimate")
    assert "count() is exact" in str(error.value)


def test_wrong_arguments(frame):
    matches = cep.match(frame, "PATTERN SEQ(A a, B b)", event_type="kind")
    with pytest.raises(CepError, match="'exact' or an 'estimate'"):
        matches.count("approximate")
    for samples in (0, -1, 2.5, True):
        with pytest.raises(CepError, match=rf"samples={samples}: expected a whole number"):
            matches.count("estimate", samples=samples)
    with pytest.raises(CepError, match=r"seed=0\.5: expected a whole number"):
        matches.count("estimate", seed=0.5)


def test_estimates_of_any_size_are_short_texts():
    n = 2**20_000
    assert str(CountEstimate(n, n - 10, 2 * n, 0.95, 10, 4 * n)) == (
        "about 3.98e6020 (95 % between 3.98e6020 and 7.96e6020; 10 samples of 1.59e6021)"
    )
    assert str(exactly(n)) == "about 3.98e6020 (exact)" and str(exactly(10**6)) == "1,000,000 (exact)"


def test_the_search_is_not_run(frame, monkeypatch):
    monkeypatch.setattr("cepkit.engines.search.search_sequence", lambda *_: pytest.fail("it was"))
    matches = cep.match(frame, "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x", event_type="kind")
    assert matches.count("estimate", samples=50).relaxed_count == 4960


def test_plain_python_in_a_condition_that_is_left_out(frame):
    @cep.pure(name="is_far")
    def is_far(x: int, y: int) -> bool:
        return abs(int(x) - int(y)) > 3

    matches = cep.match(frame, "PATTERN SEQ(A a, B b, C c) WHERE is_far(a.x, c.x)", event_type="kind")
    assert matches.count("estimate", samples=10**6).value == matches.count() > 0
    matches = cep.match(frame, "PATTERN SEQ(A a, B b, C c) WHERE is_far(a.x, b.x)", event_type="kind")
    with pytest.raises(UnsupportedQueryError, match="is_far, a plain Python function"):
        matches.count("estimate")


def test_conditions_on_the_first_event_need_no_sample():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"ts": range(60), "kind": rng.choice(list("ABC"), 60), "x": rng.integers(0, 9, 60)})
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x AND c.x > a.x WITHIN 20"
    matches = frame.cep.match(query, event_type="kind", order_by="ts")
    assert matches.count("estimate", samples=50) == exactly(matches.count())


# --- samples of the matches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(1 if JIT else 3, 12))
def test_drawn_matches_are_matches_of_the_definition(seed, family, monkeypatch):
    monkeypatch.setattr(estimate, "_FEWEST_TO_DRAW_FROM", 0)
    case = drawn(seed, family)
    program, events = prepared(case.query, gs.to_frame(case.rows))
    wanted = sequence_matches(case.query, case.rows)
    for n in (1, 3, len(wanted)):
        block = draw_matches(program, events, n, seed)
        if block is None:
            continue
        matches = as_matches(program, block)
        assert len(matches) == n and [match for match in wanted if match in matches] == matches
        assert as_matches(program, draw_matches(program, events, n, seed)) == matches


def test_each_match_is_drawn_as_often(monkeypatch):
    """The numbers are within six standard deviations of chi-squared."""
    monkeypatch.setattr(estimate, "_FEWEST_TO_DRAW_FROM", 0)
    monkeypatch.setattr(estimate, "_DRAWN", (30, 60, 2000))
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"kind": rng.choice(list("ABCD"), 36), "ts": range(36), "x": rng.integers(0, 9, 36)})
    text = "PATTERN SEQ(A a, OR(B b, D d), C c) WHERE a.x + c.x > b.x + 6 AND d.x + a.x > c.x"
    found = cep.match(frame, text, event_type="kind", order_by="ts")
    numbers = {tuple(map(str, row)): i for i, row in enumerate(found.to_frame().itertuples(index=False))}
    times, n_seeds = np.zeros(len(numbers)), 400 if JIT else 200
    for seed in range(n_seeds):
        for row in found.sample(5, seed).itertuples(index=False):
            times[numbers[tuple(map(str, row))]] += 1
    expected = 5 * n_seeds / len(numbers)
    n = len(numbers)
    assert n > 20 and times.sum() == 5 * n_seeds
    assert ((times - expected) ** 2 / expected).sum() < n + 6 * math.sqrt(2 * n), times


def test_a_sample_of_many_matches_searches_for_few():
    n = 60_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": rng.choice(list("ABCD"), n), "t": range(n), "x": rng.random(n)})
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < 2 * c.x - 0.4 WITHIN 3000"
    found = cep.match(frame, text, event_type="kind", order_by="t")
    drawn = found.sample(200, seed=3)
    x = frame["x"].to_numpy()
    first, second, third = (drawn[f"{name}_t"].to_numpy() for name in "abc")
    assert (x[first] + x[second] < 2 * x[third] - 0.4).all() and (third - first <= 3000).all()
    assert drawn.equals(found.sample(200, seed=3)) and not drawn.equals(found.sample(200, seed=4))
