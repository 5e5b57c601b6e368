"""Where partial matches are lost: every step count against the definition, and the words about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import generate_sequences as gs
import numba
import numpy as np
import pandas as pd
import pytest
from naive_lines import lines
from naive_sequences import Search, sequence_matches
from test_sequences import bound

import cepkit as cep
from cepkit.engines import funnel as fn
from cepkit.engines.places import Places
from cepkit.engines.search import accepted, search_sequence
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.funnels import FunnelResult

SEEDS = range(10)
MORE = [(seed, "negation") for seed in range(10, 40)]  # what decides an absence is rare
PLAIN = [name for name in gs.FAMILIES if name not in ("after_match", "all")]  # nothing to compile
ORDERS = pd.DataFrame(
    {
        "kind": ["Order", "Order", "Scan", "Cancel", "Ready", "Order", "Scan", "Ready", "Ready"],
        "ts": pd.to_datetime("2024-01-01 10:00") + pd.to_timedelta([0, 1, 2, 3, 4, 5, 6, 7, 90], unit="min"),
        "weight": [5, 0, 6, 1, 9, 4, 5, 3, 9],
    }
)
QUERY = """PATTERN SEQ(Order o, !Cancel x, Ready r)
WHERE o.weight > 1 AND r.weight > o.weight WITHIN 1 hour"""
KEYWORDS = {"event_type": "kind", "order_by": "ts"}


class CutOff(Search):
    """The definition on the first ``n`` components of a line: with what is decided by then."""

    def __init__(self, whole: Search, n: int):
        line = replace(whole.line, slots=whole.line.slots[:n], steps=whole.line.steps[:n])
        super().__init__(whole.query, line, whole.rows)
        slots = whole.line.slots
        conditions = [one for one in whole.conditions if one.decided_at < n]
        absences = [
            (absent, tests)
            for absent, tests in whole.absences
            if n == len(slots)
            or (
                None not in (absent.after, absent.before)
                and slots.index(absent.before) < n
                and all(one.decided_at < n for one in tests)
            )
        ]
        self.__dict__ |= {"conditions": conditions, "absences": absences}


def expected_counts(case: gs.Case) -> Counter:
    made: Counter = Counter()
    for line in lines(case.query.pattern):
        whole = Search(case.query, line, case.rows)
        names = tuple(slot.variable for slot in line.slots)
        for n in range(1, len(names) + 1):
            made[line.options, names, n, len(set(CutOff(whole, n).matches()))] += 1
    return made


def counted(program, branches) -> Counter:
    made: Counter = Counter()
    for one, counts in zip(program.branches, branches, strict=True):
        names = tuple(component.variable for component in one.branch.components)
        for n, step in enumerate(counts.steps, start=1):
            assert step.partial.exact
            made[one.branch.options, names, n, step.partial.n] += 1
    return made


@pytest.mark.parametrize(("seed", "family"), [(seed, name) for name in PLAIN for seed in SEEDS] + MORE)
def test_steps_are_the_definition_cut_off(seed, family):
    case = gs.case(seed, None, family)
    program, events = bound(case)
    if len(program.branches) > fn.MOST_BRANCHES:
        pytest.skip("more branches than a funnel shows")
    found = fn.count_funnel(program, events, search_sequence)
    assert counted(program, found) == expected_counts(case)
    of_type = Counter(row["kind"] for row in case.rows)
    for branch in found:
        for step in branch.steps:
            n = len(case.rows) if step.event_type is None else of_type[step.event_type]
            assert step.n_of_type == n
            assert step.n_alone <= n
            assert step.passed <= step.looked_at
            assert all(one.passed <= one.looked_at for one in step.conditions)
            if step.absent is not None:
                assert step.absent.n >= 0
        assert branch.share == 1


@pytest.mark.parametrize("family", ["after_match", "all"])
@pytest.mark.parametrize("seed", range(12))
def test_matches_and_reported_ones(seed, family):
    case = gs.case(seed, seed % 2 if numba.config.DISABLE_JIT == 0 else None, family)
    program, events = bound(case)
    if len(program.branches) > fn.MOST_BRANCHES:
        pytest.skip("more branches than a funnel shows")
    found = fn.count_funnel(program, events, search_sequence)
    everything = replace(case.query, after_match=("none", None))
    assert sum(one.complete.n for one in found) == len(sequence_matches(everything, case.rows))
    assert sum(one.reported.n for one in found) == len(sequence_matches(case.query, case.rows))


@pytest.mark.parametrize("seed", range(20))
def test_pairs_and_conditions(seed):
    rng = np.random.default_rng(seed)
    n = 40
    frame = pd.DataFrame(
        {"kind": rng.choice(["A", "B"], n), "t": np.sort(rng.integers(0, 60, n)), "x": rng.integers(0, 9, n)}
    )
    result = frame.cep.funnel(
        "PATTERN SEQ(A a, B b) WHERE b.x > a.x AND b.x + a.x < 9 AND b.x > 2 WITHIN 12",
        event_type="kind", order_by="t",
    )  # fmt: skip
    first, second = frame[frame.kind == "A"], frame[(frame.kind == "B") & (frame.x > 2)]
    pairs = [(a, b) for a in first.index for b in second.index if a < b and frame.t[b] - frame.t[a] <= 12]
    up = [(a, b) for a, b in pairs if frame.x[b] > frame.x[a]]
    small = [(a, b) for a, b in pairs if frame.x[b] + frame.x[a] < 9]
    both = set(up) & set(small)
    table = result.to_frame().set_index("step")
    assert table.loc["b", ["passing", "partial", "tried", "passed"]].tolist() == [
        len(second), len(both), len(pairs), len(both),
    ]  # fmt: skip
    assert table.loc["matches", "partial"] == len(both)
    if pairs:
        assert table.loc["b", "selectivity"] == len(both) / len(pairs)
    by_text = result.conditions().set_index("condition")
    assert by_text.loc["b.x > a.x", ["tried", "passed"]].tolist() == [len(pairs), len(up)]
    assert by_text.loc["b.x + a.x < 9", ["tried", "passed"]].tolist() == [len(pairs), len(small)]
    n_type = int((frame.kind == "B").sum())
    assert by_text.loc["b.x > 2", ["alone", "tried", "passed"]].tolist() == [True, n_type, len(second)]


def test_the_example():
    result = ORDERS.cep.funnel(QUERY, **KEYWORDS)
    assert repr(result) == "\n".join(
        [
            "SEQ(Order o, !Cancel x, Ready r)",
            "    step event_type events passing partial tried passed selectivity absent",
            "       o      Order      3       2       2     2      2           1       ",
            "       r      Ready      3       3       0     3      1       0.333      1",
            " matches                                 0                                ",
            "reported                                 0                                ",
            "no match; most is lost here: an absent event ends 1 partial match of 1 in front of r",
        ]
    )
    assert result.count() == fn.Count(0)
    assert "<td>Order</td>" in result._repr_html_()
    table = result.to_frame()
    assert table["partial"].tolist() == [2, 0, 0, 0]
    assert table["absent"].isna().tolist() == [True, False, True, True]
    assert table["exact"].all()


def test_picture():
    figure = ORDERS.cep.funnel(QUERY, **KEYWORDS).plot()
    [bars] = figure.data
    assert list(bars.y) == ["o", "r", "matches", "reported"]
    assert list(bars.x) == [2, 0, 0, 0]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SEQ(Order o, Paid p)", "no match; most is lost here: there is no Paid event for p"),
        (
            "SEQ(Order o, Ready r) WHERE o.weight > 7",
            "no match; most is lost here: 0 of 3 Order events can be o (o.weight > 7: 0 of 3)",
        ),
        (
            "SEQ(Order o, Ready r) WHERE r.weight > 2 * o.weight AND o.weight > 4",
            "no match; most is lost here: 0 of 2 events tried as r pass (r.weight > 2 * o.weight: 0 of 2)",
        ),
        (
            "SEQ(Cancel o, Order r, Cancel c)",
            "no match; most is lost here: no Cancel event that could be c follows in the window of "
            "1 partial match up to r",
        ),
        ("SEQ(Order o)", "nothing is lost: 3 matches"),
    ],
)
def test_words(query, words):
    if "Cancel c" not in query:
        query += " WITHIN 1 hour"
    assert ORDERS.cep.funnel(f"PATTERN {query}", **KEYWORDS).words() == [words]


def test_words_about_reported_matches():
    result = ORDERS.cep.funnel("PATTERN SEQ(Order o, Ready r)", after_match="past_last", **KEYWORDS)
    assert result.words() == ["8 matches; most is lost here: after_match reports 2 of 8 matches"]
    assert result.to_frame()["partial"].tolist() == [3, 8, 8, 2]


def test_every_branch_has_steps():
    result = ORDERS.cep.funnel("PATTERN OR(Order o, SEQ(Scan s, Ready r))", **KEYWORDS)
    table = result.to_frame()
    assert table["branch"].tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert table["step"].tolist() == ["o", "matches", "reported", "s", "r", "matches", "reported"]
    assert (
        result.count().n == ORDERS.cep.match("PATTERN OR(Order o, SEQ(Scan s, Ready r))", **KEYWORDS).count()
    )
    assert [line[:8] for line in result.words()] == ["branch 0", "branch 1"]


def test_numbers_that_take_too_long_are_lower_bounds(monkeypatch):
    n = 80
    frame = pd.DataFrame({"kind": ["A"] * n, "t": range(n)})
    monkeypatch.setattr(fn, "_FEW", 5000)
    capped = lambda *which: fn.searched_count(*which, most_work=50_000)  # noqa: E731
    program, events = bound_text("PATTERN SEQ(A+ a[], A b)", frame)
    [branch] = fn.count_funnel(program, events, search_sequence, count=capped)
    first, second = branch.steps
    assert not first.partial.exact
    assert not second.partial.exact
    assert 1000 < first.partial.n < 2**n
    assert str(first.partial).startswith("≥ ")
    assert branch.share < 1
    assert branch.complete == second.partial
    result = FunnelResult(program.query, (branch,))
    assert "≥ " in repr(result)
    assert "of the possible first events only" in repr(result)
    assert result.words() == [f"{second.partial} matches; counting was cut short"]
    assert not result.to_frame()["exact"].any()
    assert not result.count().exact


def test_after_match_is_not_asked_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(fn, "MOST_LOOKED_AT", 6)
    program, events = bound_text("PATTERN SEQ(Order o, Ready r)", ORDERS, after_match="past_last")
    [branch] = fn.count_funnel(program, events, search_sequence)
    assert branch.complete == fn.Count(8)
    assert branch.reported is None


def bound_text(text: str, frame: pd.DataFrame, **keywords):
    from cepkit.compile.sequence import compile_sequence
    from cepkit.frames.building import build_events
    from cepkit.frames.pandas import PandasSource
    from cepkit.language.sequence_query import sequence_query

    query = sequence_query(text, event_type="kind", order_by=frame.columns[1], **keywords)
    source = PandasSource(frame)
    program = compile_sequence(query, source.schema)
    return program, build_events(source, program)


def test_larger_frames_are_counted_by_compiled_code():
    rng = np.random.default_rng(3)
    n = 30_000
    frame = pd.DataFrame(
        {"kind": rng.choice(list("ABC"), n), "t": np.arange(n), "x": rng.integers(0, 100, n)}
    )
    query, keywords = (
        "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 20",
        dict(event_type="kind", order_by="t"),
    )
    result = frame.cep.funnel(query, **keywords)
    assert result.count() == fn.Count(frame.cep.match(query, **keywords).count())
    assert 0 < result.branches[0].share < 1
    program, events = bound_text(query, frame)
    places = Places(program, events)
    accept = accepted(places)
    two = fn.searched_count(places, accept, fn.cut_off(program.branches[0], 2))
    assert two == result.branches[0].steps[1].partial
    # A third of the events are B, about half of them have a larger x.
    assert 0.3 < result.branches[0].steps[1].passed / result.branches[0].steps[1].looked_at < 0.7


def test_counting_can_be_exchanged():
    program, events = bound_text(QUERY, ORDERS)
    asked = []

    def count(places, accept, one):
        asked.append(len(one.branch.components))
        return fn.Count(10**15)

    [branch] = fn.count_funnel(program, events, search_sequence, count=count)
    assert asked == [1, 2, 2]
    assert branch.complete == fn.Count(10**15)
    table = FunnelResult(program.query, (branch,)).to_frame()
    assert table["partial"].tolist() == [10**15] * 4


def test_large_numbers_stay_exact():
    program, events = bound_text(QUERY, ORDERS)
    counts = fn.count_funnel(program, events, search_sequence, count=lambda *_: fn.Count(2**80))
    table = FunnelResult(program.query, counts).to_frame()
    assert table["partial"].tolist() == [2**80] * 4


def test_what_a_funnel_is_not_for():
    with pytest.raises(UnsupportedQueryError, match=r"funnel\(\) looks at event sequences.*explain\(\)"):
        ORDERS.cep.funnel("a", define={"a": "weight > 1"})
    with pytest.raises(UnsupportedQueryError, match="120 patterns, and a funnel shows up to 32"):
        ORDERS.cep.funnel(cep.all_of(*(cep.event(name, "Order") for name in "abcde")), **KEYWORDS)
    with pytest.raises(CepError, match="engine 'serach' is not known"):
        ORDERS.cep.funnel(QUERY, engine="serach", **KEYWORDS)


def test_spark_frames_are_told_the_way_out():
    sql = pytest.importorskip("pyspark.sql")
    frame = object.__new__(sql.DataFrame)
    for name, call in (("funnel", cep.funnel), ("why_not", cep.why_not)):
        with pytest.raises(UnsupportedQueryError, match=rf"df.limit.*toPandas\(\).cep.{name}"):
            call(frame, QUERY, **KEYWORDS)
