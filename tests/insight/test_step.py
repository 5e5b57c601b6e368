"""The moments of `cepkit.step` against the definitions: what an event begins, advances, ends, completes."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.compile.sequence_program import compile_sequence
from cepkit.engines.after_match import report_matches
from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.insight import moments
from cepkit.insight.moments import moments_of
from cepkit.planning.planner import choose_engine
from tests.oracle import generate, naive
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_lines import lines
from tests.oracle.naive_sequences import Search, sequence_matches
from tests.support.sizes import seeds

WALK = pd.DataFrame({"price": [10, 12, 13, 11, 14]}, index=list("abcde"))
DEFINE = {"rise": "price > prev(price)", "drop": "price < prev(price)"}
SCANS = pd.DataFrame(
    {"kind": ["A", "B", "A", "C", "B"], "t": [1, 2, 3, 4, 9], "key": ["p", "p", "q", "p", "p"]}
)
SEQUENCE = "PATTERN SEQ(A a, B+ b[]) WITHIN 5"
CALL = {"event_type": "kind", "order_by": "t"}
REGRESSIONS = ((32, "preference"), (39, "all"))


@pytest.fixture(autouse=True)
def _everything_is_listed(monkeypatch):
    monkeypatch.setattr(moments, "MOST_LISTED", 10**9)


# --- regex


def regex_moments(case: generate.Case):
    frame = generate.to_frame(case.rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = list(cep.step(frame, case.pattern, define=case.define, **case.keywords()))
        count = cep.match(frame, case.pattern, define=case.define, **case.keywords()).count()
    return made, count


@pytest.mark.parametrize("seed", seeds(15, 2000))
def test_regex_moments_are_those_of_the_definition(seed):
    case = generate.case(seed)
    made, count = regex_moments(case)
    assert [moment.position for moment in made] == list(range(len(case.rows)))
    wanted = naive.matches(case.pattern, case.define, case.rows, **case.keywords())
    assert [m.positions for moment in made for m in moment.completed] == [(m[0], m[-1]) for m in wanted]
    assert [m.n_events for moment in made for m in moment.completed] == [len(m) for m in wanted]
    assert count == sum(len(moment.completed) for moment in made)
    options = case.keywords()
    by = options.pop("partition_by") or []
    keys = [tuple(naive.without_nan(row[name]) for name in by) for row in case.rows]
    for key in set(keys):
        own = [i for i, other in enumerate(keys) if other == key]
        live = naive.live_starts(case.pattern, case.define, [case.rows[i] for i in own], **options)
        before: list[int] = []
        for place, (k, starts) in enumerate(zip(own, live, strict=True)):
            moment, starts = made[k], [own[start] for start in starts]
            done = [m.positions[0] for m in moment.completed]
            assert [m.positions for m in moment.live] == [(start, k) for start in starts]
            assert [m.n_events for m in moment.live] == [place + 1 - own.index(start) for start in starts]
            assert {m.positions[0] for m in moment.began} == {k} & {*starts, *done}
            assert {m.positions[0] for m in moment.advanced} == {*before} & {*starts, *done}
            assert {m.positions[0] for m in moment.ended} == {*before} - {*starts, *done}
            assert sum(n for _, n in moment.states) == moment.n_live == len(starts)
            before = starts


@pytest.mark.parametrize("seed", seeds(8, 200))
def test_a_state_says_what_the_newest_row_stands_for(seed):
    case = generate.case(seed)
    made, _ = regex_moments(case)
    options = case.keywords()
    by = options["partition_by"] or []
    for moment in made:
        for one in (*moment.live, *moment.completed):
            first, k = one.positions
            key = [naive.without_nan(case.rows[k][name]) for name in by]
            own = [
                i for i, row in enumerate(case.rows) if [naive.without_nan(row[name]) for name in by] == key
            ]
            rows = [case.rows[i] for i in own]
            for name in one.state.split(" or "):
                if name in case.define and moment.live:
                    value = naive.evaluate(
                        case.define[name], rows, own.index(k), own.index(first), case.params
                    )
                    assert value is True


# --- sequences


def sequence_moments(seed: int, family: str):
    case = gs.case(seed, None, family)
    source = PandasSource(gs.to_frame(case.rows))
    program = compile_sequence(case.query, source.schema)
    events = build_events(source, program)
    if case.query.ends_greedily:
        with pytest.raises(UnsupportedQueryError, match="waits for later events"):
            moments_of(program, source, events)
        pytest.skip("a pattern with GREEDY at its end has no moments")
    made = list(moments_of(program, source, events, 10**9))
    count = report_matches(program, choose_engine(program).run(program, events)).count()
    return case, made, count


def flat(run) -> tuple[tuple[str, int], ...]:
    """Return the variable and the row of every event of what the definition found."""
    return tuple((name, row) for name, rows in run for row in rows)


def as_found(one) -> tuple[tuple[str, int], ...]:
    """Return the same of a partial match of a moment."""
    return tuple((name, row) for (name, _), row in zip(one.events, one.positions, strict=True))


@pytest.mark.parametrize("family", gs.FAMILIES)
@pytest.mark.parametrize("seed", seeds(4, 150))
def test_sequence_moments_complete_the_matches_of_the_definition(seed, family):
    case, made, count = sequence_moments(seed, family)
    found = Counter(as_found(one) for moment in made for one in moment.completed)
    assert found == Counter(flat(match.events) for match in sequence_matches(case.query, case.rows))
    assert all(one.positions[-1] == moment.position for moment in made for one in moment.completed)
    assert count == sum(len(moment.completed) for moment in made)


def searches_of(case: gs.Case) -> list[Search]:
    return [Search(case.query, line, case.rows) for line in lines(case.query.pattern)]


def names_all_events(searches: list[Search]) -> bool:
    """Return whether every condition has all the events that it names."""
    return all(set(one.uses) == set(one.place_of) for search in searches for one in search.conditions)


# The last two: an event closes one way on, a later one the other.
@pytest.mark.parametrize(
    ("seed", "family"),
    [*itertools.product(seeds(1, 80), gs.FAMILIES), *REGRESSIONS],
)
def test_sequence_moments_have_the_partial_matches_of_the_definition(seed, family):
    case, made, _ = sequence_moments(seed, family)
    searches = searches_of(case)
    if not names_all_events(searches):
        pytest.skip("a condition without the events that it names may be known to be false earlier")
    runs: dict = {}  # every partial match by its events, and the ways in which it is one
    for search in searches:
        names = [slot.variable for slot in search.line.slots]
        for run in search.runs():
            if not search.is_broken(run):
                runs.setdefault(flat(zip(names, run, strict=False)), []).append((search, run))
    if len(runs) > 1000:
        pytest.skip("more partial matches than the definition goes through soon")
    key = searches[0].key_of_row
    before: set = set()
    for k, moment in enumerate(made):
        began = {run for run in runs if run[-1][1] == k and len(run) == 1}
        advanced = {run for run in runs if run[-1][1] == k and len(run) > 1}
        live = {
            run
            for run, ways in runs.items()
            if run[-1][1] <= k and any(search.is_live(way, k) for search, way in ways)
        }
        there = {run for run in live if key[run[0][1]] == key[k]}
        assert {as_found(one) for one in moment.began} == began
        assert {as_found(one) for one in moment.advanced} == advanced
        assert {as_found(one) for one in moment.live} == there
        ended, takers = {as_found(one) for one in moment.ended}, {run[:-1] for run in advanced}
        assert before - live - takers <= ended <= before - live or len(searches) > 1
        if len(searches) == 1 and all(len(ways) == 1 for ways in runs.values()):
            assert ended == before - live - takers
            assert (moment.n_live, moment.n_elsewhere) == (len(there), len(live) - len(there))
        before = live


@pytest.mark.parametrize("complete_until", [None, 5, 9, "end"])
def test_an_event_at_the_end_of_the_data_advances_what_is_not_decided_yet(complete_until):
    frame = pd.DataFrame({"kind": list("ABB"), "t": [1, 3, 5], "key": "p"})
    query = "PATTERN SEQ(A a, B b, !C c) WITHIN 8"
    began, first, second = frame.cep.step(query, complete_until=complete_until, **CALL)
    assert [one.events for one in began.began] == [(("a", 0),)]
    assert [one.events for one in first.advanced] == [(("a", 0), ("b", 1))]
    assert [one.events for one in second.advanced] == [(("a", 0), ("b", 2))]
    is_decided = complete_until in (9, "end")
    assert [*first.completed, *second.completed] == [*first.advanced, *second.advanced] * is_decided
    alone = frame.cep.step("PATTERN SEQ(A a, !C c) WITHIN 8", complete_until=complete_until, **CALL)
    begins = next(alone)
    assert (begins.n_began, len(begins.completed)) == (1, is_decided)


def test_most_random_cases_are_compared():
    drawn = [searches_of(gs.case(seed, None, family)) for seed in range(8) for family in gs.FAMILIES]
    few = [searches for searches in drawn if sum(1 for one in searches for _ in one.runs()) <= 1000]
    assert sum(map(names_all_events, few)) >= 100


# --- what a person sees


def test_the_text_of_regex_moments():
    made = list(WALK.cep.step(". rise+ drop", define=DEFINE))
    assert [str(moment) for moment in made] == [
        "row 'a': 1 partial match begins; 1 is live (1 at any)",
        "row 'b': 1 partial match begins, 1 advances; 2 are live (1 at any, 1 at rise)",
        "row 'c': 1 partial match begins, 2 advance; 3 are live (1 at any, 2 at rise)",
        "row 'd': 1 partial match advances, 2 end; 0 are live; match: rows 'a' to 'd'",
        "row 'e': 1 partial match begins; 1 is live (1 at any)",
    ]
    assert repr(made[2]).splitlines()[1:] == [
        "  began: row 'c', at any",
        "  advanced: rows 'a' to 'c', at rise",
        "  advanced: rows 'b' to 'c', at rise",
        "  live: rows 'a' to 'c', at rise",
        "  live: rows 'b' to 'c', at rise",
        "  live: row 'c', at any",
    ]
    assert made[3].event == {"price": 11}
    [match] = made[3].completed
    assert (match.state, match.first, match.last, match.n_events, match.positions) == (
        "drop",
        "a",
        "d",
        4,
        (0, 3),
    )


def test_the_text_of_sequence_moments():
    made = list(SCANS.cep.step(SEQUENCE, **CALL))
    assert [moment.text for moment in made] == [
        "row 0: 1 partial match begins; 1 is live (1 at a)",
        "row 1: 1 partial match advances; 2 are live (1 at a, 1 at b); match: a = row 0, b = row 1",
        "row 2: 1 partial match begins; 3 are live (2 at a, 1 at b)",
        "row 3: 3 partial matches end; 0 are live",
        "row 4: no partial match changes; 0 are live",
    ]
    by_key = list(SCANS.cep.step(SEQUENCE, partition_by="key", **CALL))
    assert (by_key[2].n_live, by_key[2].n_elsewhere) == (0, 2)
    assert made[1].completed[0].events == (("a", 0), ("b", 1))


def test_what_after_match_leaves_out_is_said():
    frame = pd.DataFrame({"kind": list("AABB"), "t": range(4)})
    made = list(cep.step(frame, "PATTERN SEQ(A a, B b)", after_match="past_last", **CALL))
    assert [(len(moment.completed), moment.n_left_out) for moment in made] == [(0, 0), (0, 0), (1, 1), (0, 2)]
    assert made[2].text.endswith("match: a = row 0, b = row 2; after_match leaves out 1")


def test_what_is_not_listed_is_counted(monkeypatch):
    monkeypatch.setattr(moments, "MOST_LISTED", 2)
    frame = pd.DataFrame({"kind": ["A"] * 5 + ["B"], "t": range(6), "up": True})
    for made in (
        list(cep.step(frame, "PATTERN SEQ(A a, B b)", **CALL)),
        list(cep.step(frame, "up{9}")),
    ):
        assert (len(made[4].live), made[4].n_live) == (2, 5)
        assert "  live: 3 more" in repr(made[4]).splitlines()
    assert len(made[4].advanced) == 2 and made[4].n_advanced == 4


def test_frames_of_every_kind_have_the_same_moments():
    polars = pytest.importorskip("polars")
    plain = SCANS.reset_index(drop=True)
    for query, keywords in ((SEQUENCE, CALL), ("up up", {"define": {"up": "t > 1"}, "order_by": "t"})):
        wanted = list(plain.cep.step(query, **keywords))
        for frame in (pa.Table.from_pandas(plain), polars.from_pandas(plain)):
            made = list(cep.step(frame, query, **keywords))
            assert made == wanted
            assert [moment.event for moment in made] == [moment.event for moment in wanted]


def test_rows_are_read_in_the_order_of_the_stream():
    shuffled = SCANS.iloc[[3, 0, 4, 2, 1]]
    made = list(shuffled.cep.step(SEQUENCE, **CALL))
    assert [moment.label for moment in made] == [0, 1, 2, 3, 4]
    assert [moment.event["t"] for moment in made] == [1, 2, 3, 4, 9]
    assert made == list(SCANS.cep.step(SEQUENCE, **CALL))


def test_predicates_look_back_as_far_as_they_say():
    frame = pd.DataFrame({"x": np.arange(300) % 97})
    define = {"same": "x == prev(prev(x, 90), 7)"}
    assert sum(len(moment.completed) for moment in frame.cep.step("same same", define=define)) == 101


def test_moments_come_one_by_one():
    frame = pd.DataFrame({"kind": ["A"] * 200, "t": range(200)})
    made = cep.step(frame, "PATTERN SEQ(A a, A+ b[])", most_live=100, **CALL)
    assert next(made).n_live == 1 and next(made).n_live == 3
    with pytest.raises(
        ResultTooLargeError, match=r"step: at row \d, more than most_live=100 .*Narrow the window"
    ):
        list(made)


def test_what_is_wrong_is_said_before_the_first_moment():
    with pytest.raises(CepError, match="engine 'serach' is not known"):
        SCANS.cep.step(SEQUENCE, engine="serach", **CALL)
    with pytest.raises(CepError, match="most_live"):
        SCANS.cep.step(SEQUENCE, most_live=0, **CALL)
    with pytest.raises(TypeError, match="strategie"):
        SCANS.cep.step(SEQUENCE, strategie="next", **CALL)


def test_spark_frames_are_told_the_way_out():
    sql = pytest.importorskip("pyspark.sql")
    for query in (SEQUENCE, "up"):
        with pytest.raises(UnsupportedQueryError, match=r"df.limit.*toPandas\(\).cep.step"):
            cep.step(object.__new__(sql.DataFrame), query)


def test_a_frame_without_rows_has_no_moments():
    assert list(SCANS.head(0).cep.step(SEQUENCE, **CALL)) == []
    assert list(WALK.head(0).cep.step("rise drop", define=DEFINE)) == []


@pytest.mark.parametrize("seed", range(3))
def test_moments_of_a_longer_stream(seed):
    rng = Random(seed)
    frame = pd.DataFrame(
        {"k": [rng.choice("pqr") for _ in range(400)], "x": [rng.random() for _ in range(400)]}
    )
    define = {"up": "x > prev(x)", "top": "x > first(x) + 0.5"}
    made = list(frame.cep.step(". up* top", define=define, partition_by="k"))
    found = frame.cep.match(". up* top", define=define, partition_by="k")
    assert sum(len(moment.completed) for moment in made) == found.count() > 0
