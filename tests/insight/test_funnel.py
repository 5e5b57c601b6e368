"""Where partial matches are lost: every step count against the definition, and the words about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.search import search_sequence
from cepkit.engines.shared import places as shared_places
from cepkit.engines.shared.places import Places, accepted
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.insight import funnels as fn
from cepkit.insight.funnel import Followed, FunnelResult
from cepkit.language.expressions.durations import count_text, rough_text
from cepkit.plots import theme
from cepkit.plots.charts import funnel_figure
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_lines import lines
from tests.oracle.naive_sequences import Search, sequence_matches
from tests.support.sequence_runs import bound, prepared
from tests.support.sizes import seeds
from tests.support.tables import cases

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
            made[line.options, names, n, len(set(CutOff(whole, n).complete()))] += 1
    return made


def counted(program, branches) -> Counter:
    made: Counter = Counter()
    for one, counts in zip(program.branches, branches, strict=True):
        names = tuple(component.variable for component in one.branch.components)
        for n, step in enumerate(counts.steps, start=1):
            assert step.partial.exact
            made[one.branch.options, names, n, step.partial.n] += 1
    return made


@pytest.mark.parametrize(("seed", "family"), [(seed, name) for name in PLAIN for seed in seeds(4, 10)] + MORE)
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


@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_events_that_no_step_names_change_nothing(seed, family, monkeypatch):
    program, events = bound(gs.case(seed, None, family))
    if len(program.branches) > fn.MOST_BRANCHES:
        pytest.skip("more branches than a funnel shows")
    wanted = fn.count_funnel(program, events, search_sequence)
    monkeypatch.setattr(shared_places, "_FEWEST_TO_LEAVE_OUT", 0)
    monkeypatch.setattr(shared_places, "_LEFT_OUT", 0)  # whatever the share is
    assert fn.count_funnel(program, events, search_sequence) == wanted


@pytest.mark.parametrize(
    "pattern",
    [
        "A a, B b) WHERE partition_contiguity", "A a, B b) WHERE strict_contiguity",
        "A{2,3} a[]) WHERE partition_contiguity", "A a, B+ b[] UNTIL (kind == 'D')) WITHIN 9",
        "A a, B b) WHERE skip_till_next_match WITHIN 9", "A a, !C c, B b) WITHIN 9",
    ],
)  # fmt: skip
def test_the_last_step_in_a_large_frame_is_the_number_of_matches(pattern):
    rng, n = np.random.default_rng(3), 40_000
    kind = rng.choice([*"ABCDE"], n, p=[0.12, 0.1, 0.04, 0.04, 0.7])
    frame = pd.DataFrame({"kind": kind, "t": np.arange(n), "k": rng.integers(0, 3, n)})
    query = f"PATTERN SEQ({pattern}", {"event_type": "kind", "order_by": "t", "partition_by": "k"}
    (branch,) = cep.funnel(frame, query[0], **query[1]).branches
    assert branch.steps[-1].partial.n == cep.match(frame, query[0], **query[1]).count() > 100


@pytest.mark.parametrize("where", ["A a, B b)", "_ a, B b)", "_ a, _ b) WHERE a.x > 47 AND b.x < 3"])
def test_the_funnel_of_a_large_frame_counts_all_its_rows(where):
    rng, n = np.random.default_rng(2), 40_000
    kind = rng.choice([*"ABC"], n, p=[0.1, 0.1, 0.8])
    frame = pd.DataFrame({"kind": kind, "t": np.cumsum(rng.integers(0, 3, n)), "k": rng.integers(0, 3, n)})
    frame["x"] = rng.integers(0, 50, n)
    keywords = {"event_type": "kind", "order_by": "t", "partition_by": "k"}
    text = f"PATTERN SEQ({where} WITHIN 30"
    result = cep.funnel(frame, text, **keywords)
    assert result.count().n == cep.match(frame, text, **keywords).count()
    of_type = Counter(kind)
    for step in result.branches[0].steps:
        assert step.n_of_type == (n if step.event_type is None else of_type[step.event_type])
        alone = [one for one in step.conditions if one.alone]
        assert all(one.looked_at == step.n_of_type for one in alone)
        assert [one.passed for one in alone] == [step.n_alone] * len(alone)


@pytest.mark.parametrize("family", ["after_match", "all"])
@pytest.mark.parametrize("seed", seeds(2, 12))
def test_matches_and_reported_ones(seed, family):
    case = gs.case(seed, seed % 2 if numba.config.DISABLE_JIT == 0 else None, family)
    program, events = bound(case)
    if len(program.branches) > fn.MOST_BRANCHES:
        pytest.skip("more branches than a funnel shows")
    found = fn.count_funnel(program, events, search_sequence)
    everything = replace(case.query, after_match=("none", None))
    assert sum(one.complete.n for one in found) == len(sequence_matches(everything, case.rows))
    assert sum(one.reported.n for one in found) == len(sequence_matches(case.query, case.rows))


@pytest.mark.parametrize("seed", seeds(6, 20))
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
            "    step event_type events passing partial of first tried passed selectivity absent",
            "       o      Order      3       2       2   100.0%     2      2           1       ",
            "       r      Ready      3       3       0     0.0%     3      1       0.333      1",
            " matches                                 0                                         ",
            "reported                                 0                                         ",
            "no match; most is lost here: an absent event ends 1 partial match of 1 before r",
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
    assert list(bars.text) == ["2 (100.0%)", "0 (0.0%)", "0 (0.0%)", "0 (0.0%)"]
    layout = figure.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "#ffffff"
    assert layout.template.layout.colorway is None and layout.font.color == theme.INK
    assert layout.xaxis.title.text == "partial matches" and layout.xaxis.range[0] == 0


def test_a_picture_of_several_branches():
    figure = ORDERS.cep.funnel("PATTERN OR(Order o, SEQ(Scan s, Ready r))", **KEYWORDS).plot()
    assert [list(bars.y[:-2]) for bars in figure.data] == [["o"], ["s", "r"]]
    assert list(figure.layout.yaxis.categoryarray) == ["o", "s", "r", "matches", "reported"]
    assert len({bars.marker.color for bars in figure.data}) == 2 and figure.layout.showlegend
    for query, steps in (
        ("SEQ(OR(Order o, Scan s), Ready r)", ["o", "s", "r"]),
        ("SEQ(Order o, OR(SEQ(Scan s, Scan t), Scan u), Ready r)", ["o", "s", "t", "u", "r"]),
        ("SEQ(Order o, AND(Scan s, Ready r))", ["o", "s", "r"]),
    ):
        shown = ORDERS.cep.funnel(f"PATTERN {query}", **KEYWORDS).plot().layout.yaxis.categoryarray
        assert list(shown) == [*steps, "matches", "reported"]


def test_steps_with_the_same_name_have_a_bar_each():
    frame = pd.DataFrame({"x": [1, 2, 1, 2, 3, 2, 4]})
    define = {"up": "x > prev(x)", "down": "x < prev(x)"}
    bar = frame.cep.funnel("up down up", define=define).plot().data[0]
    assert list(bar.y) == ["up", "down", "up (2)", "matches", "reported"]


def test_a_picture_of_numbers_that_no_float_holds():
    branches = [
        [("a", 1100, True), ("p", 2**1100 - 1, True), ("q", 2**1100, False), ("z", 1, True), ("n", 0, True)]
    ]
    figure = funnel_figure("SEQ(a a, p+ p[])", branches)
    [bars] = figure.data
    a, p, q, z, n = bars.x
    assert a == pytest.approx(np.log10(1100)) and p == q == pytest.approx(1100 * np.log10(2))
    assert 0 < z < 0.01 * p and n == 0  # one partial match is still seen, none is not
    assert list(bars.text) == ["1,100", "about 1.36e331", "≥ 1.35e331", "1", "0"]
    axis = figure.layout.xaxis
    assert axis.title.text == "partial matches (log)" and axis.range[0] == 0 and axis.range[1] > p
    assert axis.ticktext[:2] == ("1", "10<sup>100</sup>") and axis.tickvals[1] == 100
    small = funnel_figure("", [[("a", 5000, True), ("b", 3, True)]]).layout.xaxis
    assert small.ticktext == ("1", "10", "100", "1,000", "10,000")[: len(small.ticktext)]
    assert len(small.ticktext) >= 4
    assert funnel_figure("", [[("a", 2**1100, True)]]).layout.xaxis.range[1] > 331
    assert funnel_figure("", []).layout.xaxis.range == (0, 1.18)


@pytest.mark.parametrize(
    ("query", "words"),
    cases("funnel_words", "words"),
)
def test_words(query, words):
    if "Cancel c" not in query:
        query += " WITHIN 1 hour"
    assert ORDERS.cep.funnel(f"PATTERN {query}", **KEYWORDS).words() == [words]


def late_pairs(n_near: int, n_far: int, n_alone: int) -> pd.DataFrame:
    """Pairs of A and B on a card each: 1 s apart, 60 s apart, and A without B."""
    rows = []
    for card, gap in enumerate([1] * n_near + [60] * n_far + [None] * n_alone):
        rows.append(("A", 0, card))
        if gap is not None:
            rows.append(("B", gap, card))
    return pd.DataFrame(rows, columns=["kind", "t", "card"]).sort_values("t", ignore_index=True)


def test_the_window_is_named_when_it_stops_most():
    text = "PATTERN SEQ(A a, B b) WHERE [card] WITHIN 5"
    keywords = {"event_type": "kind", "order_by": "t"}
    head = "2 matches; most is lost here: 14 partial matches up to a, 2 up to b: "
    assert late_pairs(2, 9, 3).cep.funnel(text, **keywords).words() == [
        head + "for 9 of 14 the next B event that could be b comes after the window of 5"
    ]
    assert late_pairs(2, 3, 9).cep.funnel(text, **keywords).words() == [
        head + "for 9 of 14 no B event that could be b follows"
    ]
    gap = text.replace("WITHIN 5", "GAP 5")
    assert late_pairs(0, 2, 0).cep.funnel(gap, **keywords).words() == [
        "no match; most is lost here: 2 partial matches up to a, 0 up to b: "
        "for 2 of 2 the next B event that could be b comes after the gap of 5"
    ]


def test_conditions_on_single_events_are_no_losses_of_partial_matches():
    frame = late_pairs(8, 2, 0).assign(x=0)
    frame.loc[frame.kind == "A", "x"] = [1] * 5 + [0] * 3 + [1] * 2
    words = frame.cep.funnel(
        "PATTERN SEQ(A a, B b) WHERE [card] AND a.x > 0 WITHIN 5", event_type="kind", order_by="t"
    ).words()
    assert words == [
        "5 matches; most is lost here: 7 partial matches up to a, 5 up to b: "
        "for 2 of 7 the next B event that could be b comes after the window of 5"
    ]


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_what_follows_partial_matches(seed):
    rng = np.random.default_rng(seed)
    n = 40
    frame = pd.DataFrame(
        {"kind": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]), "t": np.sort(rng.integers(0, 90, n)),
         "x": rng.integers(0, 9, n), "card": rng.integers(0, 3, n)}
    )  # fmt: skip
    result = frame.cep.funnel(
        "PATTERN SEQ(A a, B b, C c) WHERE [card] AND b.x > 2 AND b.x > a.x WITHIN 12",
        event_type="kind", order_by="t",
    )  # fmt: skip
    rows = list(frame.itertuples())
    pairs = [
        (a, b) for a in rows for b in rows
        if (a.kind, b.kind) == ("A", "B") and a.card == b.card and a.Index < b.Index and b.t - a.t <= 12
        and b.x > 2 and b.x > a.x
    ]  # fmt: skip
    for step, partial, kind, least in (
        (1, [(a, a) for a in rows if a.kind == "A"], "B", 2), (2, pairs, "C", -1),
    ):  # fmt: skip
        late = never = 0
        for first, last in partial:
            behind = [
                one.t - first.t <= 12
                for one in rows
                if one.Index > last.Index and one.kind == kind and one.x > least and one.card == last.card
            ]
            never += not behind
            late += bool(behind) and not any(behind)
        assert result.branches[0].steps[step].followed == Followed(len(partial), late, never)


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
    note = repr(result).splitlines()[-1]
    assert note.startswith("tried and passed: ") and ("in full after" in note or "a sample" in note)
    assert result.to_frame()["share"].tolist()[:2] == [branch.share] * 2
    assert result.words() == [f"{second.partial} matches; counting was cut short"]
    assert not result.to_frame()["exact"].any()
    assert not result.count().exact


def test_what_is_counted_in_part_says_so(monkeypatch):
    frame = pd.DataFrame({"kind": ["A", "B"] * 200, "t": range(400), "x": [3, 1] * 200})
    text = "PATTERN SEQ(A a, B b) WHERE a.x > 2 AND b.x > a.x WITHIN 30"
    for most, is_whole in ((100_000, True), (2_000, False), (10, False)):
        monkeypatch.setattr(fn, "MOST_TALLIED", most)
        result = frame.cep.funnel(text, event_type="kind", order_by="t")
        share = result.branches[0].share
        assert (share == 1) == is_whole
        assert result.to_frame()["exact"].all()  # the partial matches are counted in any case
        assert result.to_frame()["share"].tolist()[:2] == [share] * 2
        by_text = result.conditions().set_index("condition")["share"]
        assert by_text.to_dict() == {"a.x > 2": 1.0, "b.x > a.x": share}
        partly = f"in full after {share:.2%}" if share else "a sample, since"
        assert (partly in repr(result).splitlines()[-1]) == (not is_whole)
        if result.branches[0].steps[1].looked_at:
            assert (partly in result.words()[0]) == (not is_whole)
    assert share == 0


def test_after_match_is_not_asked_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(fn, "MOST_LOOKED_AT", 6)
    program, events = bound_text("PATTERN SEQ(Order o, Ready r)", ORDERS, after_match="past_last")
    [branch] = fn.count_funnel(program, events, search_sequence)
    assert branch.complete == fn.Count(8)
    assert branch.reported is None


def bound_text(text: str, frame: pd.DataFrame, **keywords):
    from cepkit.language.sequences.construction import sequence_query

    query = sequence_query(text, event_type="kind", order_by=frame.columns[1], **keywords)
    return prepared(query, frame)


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


@pytest.mark.parametrize("seed", range(3))
def test_a_known_number_of_matches_is_not_counted_again(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"kind": rng.choice(list("AB"), 300), "t": range(300), "x": rng.integers(0, 9, 300)})
    program, events = bound_text("PATTERN SEQ(A a, B b, A c) WHERE b.x > a.x AND c.x > 3 WITHIN 20", frame)
    asked = []

    def count(places, accept, one):
        asked.append(len(one.branch.components))
        return fn.exact_count(places, accept, one)

    [whole] = fn.count_funnel(program, events, search_sequence)
    n = whole.complete.n
    [known] = fn.count_funnel(program, events, search_sequence, count=count, n_matches=n)
    assert asked == [1, 2] and known == whole
    [few] = fn.count_funnel(program, events, search_sequence, n_matches=n, most_tallied=50)
    assert [step.partial for step in few.steps] == [step.partial for step in whole.steps]
    assert few.share < whole.share == 1


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


def test_event_types_of_numbers_are_shown_as_they_are():
    frame = pd.DataFrame({"code": [1000, 1001] * 4, "x": range(8)})
    of_numbers = frame.cep.funnel("PATTERN SEQ(1000 a, _ b, 1001 c)", event_type="code")
    assert of_numbers.to_frame()["event_type"].tolist() == [1000, None, 1001, None, None]
    assert [line.split()[:2] for line in repr(of_numbers).splitlines()[2:5]] == [
        ["a", "1000"], ["b", "8"], ["c", "1001"]
    ]  # fmt: skip
    of_truths = frame.assign(code=frame["code"] > 1000).cep.funnel(
        "PATTERN SEQ(true a, false b)", event_type="code"
    )
    assert of_truths.to_frame()["event_type"].tolist()[:2] == [True, False]


def test_large_numbers_stay_exact():
    program, events = bound_text(QUERY, ORDERS)
    counts = fn.count_funnel(program, events, search_sequence, count=lambda *_: fn.Count(2**80))
    table = FunnelResult(program.query, counts).to_frame()
    assert table["partial"].tolist() == [2**80] * 4
    assert "about 1.21e24" in repr(FunnelResult(program.query, counts))


def test_short_texts_of_counts():
    for n in (10**21, 10**22 - 1, 9_995 * 10**30, 10**400, 10**5000 - 1, 2**20_000, 3**11):
        head, _, exponent = count_text(n).removeprefix("about ").partition("e")
        if not exponent:
            assert count_text(n) == f"{n:,}"
            continue
        unit = 10 ** (int(exponent) - 2)
        assert 99 <= n // unit <= 1000 and abs(n - round(100 * float(head)) * unit) <= unit // 2
        low, _, exponent = count_text(n, exact=False).removeprefix("≥ ").partition("e")
        bound = round(100 * float(low)) * 10 ** (int(exponent) - 2)
        assert bound <= n < bound + 10 ** (int(exponent) - 2)
        assert rough_text(n) == count_text(n).removeprefix("about ")
    assert count_text(10**21 - 1) == "999," * 6 + "999"


def test_what_a_funnel_is_not_for():
    with pytest.raises(UnsupportedQueryError, match="120 patterns, but a funnel shows at most 32"):
        ORDERS.cep.funnel(cep.all_of(*(cep.event(name, "Order") for name in "abcde")), **KEYWORDS)
    with pytest.raises(CepError, match="engine 'serach' is not known"):
        ORDERS.cep.funnel(QUERY, engine="serach", **KEYWORDS)


def test_spark_frames_are_told_the_way_out():
    sql = pytest.importorskip("pyspark.sql")
    frame = object.__new__(sql.DataFrame)
    for name, call in (("funnel", cep.funnel), ("why_not", cep.why_not)):
        with pytest.raises(UnsupportedQueryError, match=rf"df.limit.*toPandas\(\).cep.{name}"):
            call(frame, QUERY, **KEYWORDS)


def test_conditions_on_the_first_event_are_counted_without_enumeration():
    rng = np.random.default_rng(5)
    n = 150
    frame = pd.DataFrame({"ts": range(n), "kind": rng.choice(list("ABC"), n), "x": rng.integers(0, 9, n)})
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x AND c.x > a.x"
    keywords = {"event_type": "kind", "order_by": "ts"}
    result = frame.cep.funnel(query, **keywords)
    assert result.to_frame()["exact"].all()
    n_matches = frame.cep.match(query, **keywords).count()
    assert n_matches > 10**9 and result.count().n == n_matches
