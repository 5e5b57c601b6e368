"""Questions about MATCH_RECOGNIZE: funnel, why-not and explain, against the definition in the oracle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError, UnsupportedQueryError
from cepkit.insight.funnel import FunnelResult
from cepkit.insight.row_pattern_why_not import KINDS
from cepkit.language.match_recognize.query import RowPatternQuery
from tests.oracle import match_recognize as oracle
from tests.oracle.generate_match_recognize import random_late_query, random_query, random_rows
from tests.support.row_patterns import oracle_query
from tests.support.sizes import seeds

WALK = pd.DataFrame(
    {"t": range(10), "s": list("aaaaabbbbb"), "price": [5.0, 3, 2, 4, 1, 6, 5, 4, 3, 9]},
    index=[f"r{i}" for i in range(10)],
)
TEXT = """SELECT bottom FROM walk MATCH_RECOGNIZE (PARTITION BY s ORDER BY t
  MEASURES LAST(down.price) AS bottom
  PATTERN (strt down{2,} up?)
  DEFINE down AS price < PREV(price), up AS up.price > strt.price AND price > PREV(price))"""


def frame_of(rows: list[dict]) -> pd.DataFrame:
    """Return random rows as a frame whose index is the place of a row in the list."""
    frame = pd.DataFrame(rows).astype({"x": "Int64", "y": "Int64"})
    return frame.assign(t=frame["t"].astype("datetime64[s]"))


def random_case(random: Random, n: int) -> tuple[RowPatternQuery, pd.DataFrame, list[list[dict]]]:
    """Return a random query, a frame, and its partitions with the numbers of the rows."""
    make = random_late_query if random.random() < 0.3 else random_query
    query = make(random) if make is random_late_query else make(random, depth=2)
    rows = random_rows(random, random.randint(1, n))
    frame = frame_of(rows)
    numbered = [{**row, "number": number} for number, row in enumerate(rows)]
    return query, frame, oracle.partitions(oracle_query(query), numbered)


# --- the funnel


def cut_off(query: oracle.Query) -> list[oracle.Query]:
    """Return the definition of the steps: the beginnings of the pattern that need a row, and the whole.

    Every row may begin a match, so the search continues at the next row after each match.
    """
    parts = query.pattern.get("seq", [query.pattern])
    whole = [{"seq": parts[:n]} for n in range(1, len(parts))]
    nothing = [next(oracle.ways(query, [], 0, 1, part, ()), None) is not None for part in whole]
    kept = [part for part, may_be_empty in zip(whole, nothing, strict=True) if not may_be_empty]
    return [
        replace(query, pattern=pattern, skip="to_next_row", skip_variable=None)
        for pattern in [*kept, query.pattern]
    ]


@pytest.mark.parametrize("seed", seeds(3, 100))
def test_a_step_counts_the_rows_from_which_the_pattern_cut_off_matches(seed):
    random = Random(seed)
    for _ in range(20):
        query, frame, partitions = random_case(random, 9)
        asked = oracle_query(query)
        wanted = [sum(len(oracle.matches(cut, rows)) for rows in partitions) for cut in cut_off(asked)]
        try:
            reported = sum(len(oracle.matches(asked, rows)) for rows in partitions)
        except oracle.MatchError:
            with pytest.raises(CepError, match="AFTER MATCH SKIP TO"):
                cep.funnel(frame, str(query))
            continue
        made = cep.funnel(frame, str(query))
        [branch] = made.branches
        assert [step.partial.n for step in branch.steps] == wanted, str(query)
        assert (branch.complete.n, branch.reported.n) == (wanted[-1], reported)
        assert wanted == sorted(wanted, reverse=True)
        assert made.words() and repr(made)


@pytest.mark.parametrize("seed", range(6))
def test_conditions_count_the_rows_that_satisfy_a_variable(seed):
    random = Random(seed)
    for _ in range(20):
        query = random_query(random, depth=2, row_local=True)
        query = replace(query, within=None, timed_out=False, measures=())
        rows = random_rows(random, random.randint(1, 9))
        asked = replace(oracle_query(query), skip="past_last_row", skip_variable=None)
        text = str(replace(query, after_match="past_last_row", after_match_variable=None))
        made = cep.funnel(frame_of(rows), text)
        for step in made.branches[0].steps:
            if step.n_alone is None:
                continue
            [name] = {word for word in step.variable if word in "ABCD"}
            alone = {"var": name}
            wanted = sum(
                next(oracle.ways(asked, part, k, 1, alone, ()), None) is not None
                for part in oracle.partitions(asked, rows)
                for k in range(len(part))
            )
            assert step.n_alone == wanted, f"{query} {step.variable}"


def test_the_funnel_of_a_text():
    made = WALK.cep.funnel(TEXT)
    assert isinstance(made, FunnelResult)
    table = made.to_frame()
    assert table["step"].tolist() == ["STRT", "DOWN{2,}", "UP?", "matches", "reported"]
    assert table["partial"].tolist() == [10, 3, 3, 3, 2]
    assert table["passing"].tolist()[:2] == [10, 6] and pd.isna(table["passing"][2])
    assert made.words() == ["3 matches; most is lost here: 10 partial matches up to STRT, 3 up to DOWN{2,}"]
    conditions = made.conditions()
    assert conditions["condition"].tolist() == [
        "DOWN: price < PREV(price)",
        "UP: UP.price > STRT.price",
        "UP: price > PREV(price)",
    ]
    assert conditions["passed"].tolist()[0] == 6 and pd.isna(conditions["passed"][1])
    assert made.plot().data


# --- why not


def partial_matches(query: oracle.Query, rows: list[dict], start: int, number: int, monkeypatch) -> set:
    """Return all partial matches from a row: what the definition accepts on the way to any match."""
    accepted = {()}
    can_take = oracle.can_take

    def note(query, rows, start, number, labels):
        holds = can_take(query, rows, start, number, labels)
        if holds:
            accepted.add(tuple(variable for variable, _ in labels))
        return holds

    with monkeypatch.context() as patched:
        patched.setattr(oracle, "can_take", note)
        list(oracle.ways(query, rows, start, number, query.pattern, ()))
    return accepted


@pytest.mark.parametrize("seed", seeds(4, 150))
def test_rows_are_explained_as_the_definition_says(seed, monkeypatch):
    random = Random(seed)
    for _ in range(14):
        query, frame, partitions = random_case(random, 7)
        asked = oracle_query(query)
        rows = random.choice(partitions)
        low = random.randrange(len(rows))
        high = random.randrange(low, min(len(rows), low + 4))
        n = high - low + 1
        try:
            found = oracle.matches(asked, rows)
        except oracle.MatchError:
            continue
        named = [row["number"] for row in rows[low : high + 1]]
        random.shuffle(named)
        why = cep.why_not(frame, str(query), rows=named)
        said = f"{query}\n{rows}\n{low} to {high}\n{why}"
        own = next((match for match in found if match.start == low), None)
        assert why.matches == (own is not None and len(own.labels) == n), said
        assert set(why.kinds) <= set(KINDS), said
        number = 1 + sum(match.start < low for match in found)
        reached = int(why.to_frame()["reached"].sum())
        partials = partial_matches(asked, rows, low, number, monkeypatch)
        longest = max(len(labels) for labels in partials if len(labels) <= n)
        if why.matches:
            assert why.number == own.number and reached == n, said
            variables = why.to_frame()["variable"].tolist()
            assert variables == [variable for variable, _ in own.labels], said
        elif why.kinds[0] == "complete":
            assert reached <= longest, said
        else:
            assert reached == longest, said
            whole = [labels for labels in oracle.ways(asked, rows, low, number, asked.pattern, ())]
            is_whole = any(len(labels) == n for labels in whole)
            assert is_whole == (why.kinds[0] in ("preference", "after_match")), said
            if is_whole:
                assert (own is not None) == (why.kinds[0] == "preference"), said


def test_every_failed_condition_has_its_values():
    why = WALK.cep.why_not(TEXT, rows=["r0", "r1", "r2", "r3"])
    assert repr(why) == (
        "no match: rows 'r0' to 'r3'; row 'r3' cannot follow row 'r2'\n"
        "- row 'r3': DOWN fails: price < PREV(price) (price = 4, PREV(price) = 2)\n"
        "- row 'r3': UP fails: UP.price > STRT.price (UP.price = 4, STRT.price = 5)"
    )
    assert why.kinds == ("condition", "condition")
    table = why.to_frame()
    assert table["variable"].tolist()[:3] == ["STRT", "DOWN", "DOWN"]
    assert table["could_be"].tolist() == ["STRT, UP?", "STRT, DOWN, UP?", "STRT, DOWN, UP?", "STRT, UP?"]


def test_rows_that_match_are_a_match():
    why = WALK.cep.why_not(TEXT, rows=["r5", "r9", "r7", "r6", "r8"])
    assert why.matches and why.number == 1
    assert why.headline == (
        "they match: rows 'r5' to 'r9' are match 1 by MATCH_NUMBER() "
        "(STRT = 'r5', DOWN = 'r6', DOWN = 'r7', DOWN = 'r8', UP = 'r9')"
    )


def test_another_match_is_preferred():
    why = WALK.cep.why_not(TEXT, rows=["r5", "r6", "r7"])
    assert why.kinds == ("preference",)
    assert "rows 'r5' to 'r7' match, but another match is preferred" in why.headline
    assert "begins with the same row, and is preferred" in why.reasons[0]


def test_rows_inside_an_earlier_match():
    why = WALK.cep.why_not(TEXT, rows=["r6", "r7", "r8"])
    assert why.kinds == ("after_match",)
    assert "row 'r6' is inside match 1 by MATCH_NUMBER() (" in why.reasons[0]
    assert "AFTER MATCH SKIP PAST LAST ROW continues at the end of the partition" in why.reasons[0]


def test_rows_by_variable():
    named = {"strt": "r0", "down": ["r1", "r2"]}
    assert WALK.cep.why_not(TEXT, rows=named).matches
    why = WALK.cep.why_not(TEXT, rows={"STRT": "r0", "DOWN": "r1", "UP": "r2"})
    assert why.reasons == ("row 'r2' is given as UP, and after row 'r1' the next row must be DOWN",)
    with pytest.raises(CepError, match="'LEFT' is no variable of the pattern"):
        WALK.cep.why_not(TEXT, rows={"left": "r0"})


def test_other_variables_are_preferred():
    text = "MATCH_RECOGNIZE (ORDER BY t PATTERN (A | B) DEFINE A AS price > 1)"
    why = WALK.cep.why_not(text, rows={"B": "r0"})
    assert why.headline == "no match: row 'r0' matches, but with other variables"
    assert why.reasons == ("row 'r0' is A, not B: the pattern prefers these variables",)


@pytest.mark.parametrize(
    "text, rows, kind, reason",
    [
        ("PATTERN (A) DEFINE A AS price > 0", ["r0", "r1"], "complete", "is a match already"),
        ("PATTERN (A+?) DEFINE A AS price > 0", ["r0", "r1"], "preference", "is preferred"),
        ("PATTERN (^ A) DEFINE A AS price > 0", ["r1"], "anchor", "its anchor"),
        ("PATTERN (A $) DEFINE A AS price > 0", ["r1"], "anchor", "needs the end of the partition"),
        ("PATTERN (A B) DEFINE A AS price > 0", ["r9"], "missing", "still needs B"),
        ("ORDER BY t PATTERN (A B) WITHIN INTERVAL '1' S DEFINE A AS t > 0", ["r1", "r2"], "window", "1 s"),
        ("PARTITION BY s PATTERN (A B) DEFINE A AS t > 0", ["r4", "r5"], "partition", "belongs to s b"),
        ("PATTERN (A+) DEFINE A AS t > 0", ["r4", "r6"], "skipped", "row 'r5' is not named"),
    ],
)  # fmt: skip
def test_every_kind_of_reason(text, rows, kind, reason):
    frame = WALK.assign(t=pd.to_timedelta(WALK["t"], unit="s")) if "WITHIN" in text else WALK
    text = text.replace("t > 0", "price > 0")
    why = frame.cep.why_not(f"MATCH_RECOGNIZE ({text})", rows=rows)
    assert why.kinds == (kind,), why
    assert reason in why.reasons[0], why


def test_times_are_told_as_times():
    frame = WALK.assign(t=pd.date_range("2026-01-01", periods=10, freq="s"))
    why = frame.cep.why_not(
        "MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) DEFINE B AS t > TIMESTAMP '2026-01-02 00:00:00')",
        rows=["r1", "r2"],
    )
    assert "t = 2026-01-01 00:00:02" in why.reasons[0]


def test_without_rows_the_funnel_answers():
    why = WALK.cep.why_not(TEXT)
    assert why.headline == "3 matches of 'STRT DOWN{2,} UP?'"


def test_parameters_and_other_frames():
    text = "MATCH_RECOGNIZE (ORDER BY t PATTERN (A) DEFINE A AS price > :least)"
    table = pa.Table.from_pandas(WALK, preserve_index=False)
    assert cep.funnel(table, text, params={"least": 5}).count().n == 2
    assert cep.why_not(table, text, rows=[0], params={"least": 5}).kinds == ("condition",)
    assert "A: price > :least" in str(cep.explain(table, text, params={"least": 5}))


# --- explain


def test_explain_prints_the_clauses_the_automaton_and_the_costs():
    explanation = WALK.cep.explain(TEXT)
    lines = str(explanation).splitlines()
    assert lines[0] == "pattern      STRT DOWN{2,} UP?"
    assert lines[2:6] == [
        "partitions   by s",
        "order        by t",
        "rows         ONE ROW PER MATCH",
        "after match  SKIP PAST LAST ROW",
    ]
    assert (
        "variable     DOWN: price < PREV(price)  [looks at the row and rows a fixed distance away]" in lines
    )
    assert "             3 DOWN: 3 DOWN, else 4 UP, else the match is complete" in lines
    assert "history      per partial match: the last row of STRT" in lines
    assert lines[-2:] == [
        "             measured on 10 rows of 2 partitions: 1.1 tests for each row, 2 matches",
        "threads      one thread, since conditions and measures take the rows of all partitions at once",
    ]
    assert explanation.states.n_states == 5 and not explanation.is_sequence
    assert explanation.graph().source.startswith("digraph") and explanation.svg().startswith("<svg")
    assert cep.view(explanation).to_frame() is not None


def test_explain_says_what_is_linear_and_what_a_partial_match_keeps():
    linear = WALK.cep.explain("MATCH_RECOGNIZE (ORDER BY t PATTERN (A+ B+) DEFINE B AS price > 3)")
    assert "history      none: each condition depends on the row" in str(linear)
    assert "cost         linear: at most 2 tests for each row" in str(linear)
    kept = str(
        WALK.cep.explain(
            "MATCH_RECOGNIZE (ORDER BY t PATTERN (A+ B) DEFINE B AS SUM(A.price) > FIRST(A.price, 1)"
            " AND CLASSIFIER(A) = 'A')"
        )
    )
    assert "the first row, the first 2 rows of A, " in kept and "SUM(A.price) so far" in kept
    assert "a partition may try" in kept
    assert "search       by kernels" in kept
    text = "MATCH_RECOGNIZE (ORDER BY t PATTERN (A+ B) DEFINE B AS STDDEV(A.price) > 1)"
    reason = "the kernels cannot compute STDDEV(A.price) over the rows of the match so far"
    assert f"search       in Python: {reason}" in str(WALK.cep.explain(text))


def test_explain_measures_a_part_of_a_long_frame():
    frame = pd.concat([WALK] * 500, ignore_index=True)
    *_, last, threads = str(frame.cep.explain("PATTERN (A B) DEFINE B AS price > 3")).splitlines()
    assert "measured on 2,000 rows of 1 partition" in last and "tests for 5,000 rows" in last
    assert threads == "threads      one thread, since all rows are one stream"


def test_explain_says_why_a_sample_stops():
    text = "PATTERN (A B) DEFINE B AS price > 3"
    text = text.replace("PATTERN", "AFTER MATCH SKIP TO FIRST A PATTERN")
    assert "the search stopped" in str(WALK.cep.explain(text))


@pytest.mark.parametrize("seed", range(4))
def test_every_random_query_is_explained(seed):
    random = Random(seed)
    for _ in range(30):
        query, frame, _ = random_case(random, 9)
        explanation = cep.explain(frame, str(query))
        assert explanation.sentence and "automaton" in str(explanation)


# --- refusals


def test_other_keywords_and_frames_are_refused():
    for function in (cep.explain, cep.funnel, cep.why_not):
        with pytest.raises(CepError, match="MATCH_RECOGNIZE has clauses for its options"):
            function(WALK, TEXT, order_by="t")
        with pytest.raises(ColumnNotFoundError, match="Did you mean 'price'"):
            function(WALK, TEXT.replace("price > PREV", "prize > PREV"))
    with pytest.raises(UnsupportedQueryError, match=r"why_not\(rows=…|why_not\(rows=\[…\]\)"):
        cep.step(WALK, TEXT)


def test_a_pattern_in_a_window_clause_is_refused():
    text = """SELECT low OVER w FROM walk WINDOW w AS (
        ORDER BY t MEASURES LAST(A.price) AS low
        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A+) DEFINE A AS price > 3)"""
    for function in (cep.explain, cep.funnel, cep.why_not):
        with pytest.raises(UnsupportedQueryError, match="the pattern is in a WINDOW clause"):
            function(WALK, text)
    explorer = WALK.cep.explore(text).wait(60)
    assert explorer.status["state"] == "failed" and "WINDOW clause" in explorer.status["message"]


# --- the WHERE of the SELECT. Worked out by hand: a has the matches 3 2 1 (rows 0 to 2) and 5 4 (rows 5, 6),
# and b has the match 9 8 (rows 3 and 4).
FALLS = pd.DataFrame({"t": range(7), "k": list("aaabbaa"), "x": [3, 2, 1, 9, 8, 5, 4]})


def select(where: str, shown: str = "ONE ROW") -> str:
    return f"""SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
      MEASURES LAST(B.x) AS low, A.t AS begin {shown} PER MATCH
      PATTERN (A B+) DEFINE B AS x < PREV(x)) m {where}"""


def test_a_match_that_where_drops():
    why = FALLS.cep.why_not(select("WHERE m.low > 3 AND low < 100 AND k <> 'a'"), rows=[0, 1, 2])
    assert repr(why) == (
        "no row in the result: rows 0 to 2 are match 1 by MATCH_NUMBER() (A = 0, B = 1, B = 2), "
        "but WHERE drops its row\n"
        "- WHERE fails: low > 3 (low = 1)\n"
        "- WHERE fails: k <> 'a' (k = 'a')"
    )
    assert (why.matches, why.number, why.kinds) == (False, 1, ("where", "where"))
    assert why.to_frame()["reason"].tolist()[-1].startswith("WHERE fails: low > 3")
    why = FALLS.cep.why_not(select("WHERE low > 3"), rows=[5, 6])
    assert why.matches and why.headline.startswith("they match: rows 5 to 6 are match 2 by MATCH_NUMBER() (")
    assert why.more == ()


def test_where_drops_some_rows_of_a_match():
    text = select("WHERE low = 1 AND x < 3", "ALL ROWS")
    why = FALLS.cep.why_not(text, rows=[0, 1, 2])
    assert why.matches
    assert why.more == (
        "WHERE drops 2 of the 3 rows of the match",
        "row 0: WHERE fails: low = 1 (low = null)",
        "row 0: WHERE fails: x < 3 (x = 3)",
        "row 1: WHERE fails: low = 1 (low = 2)",
    )
    assert cep.sql(text, t=FALLS).to_frame()["t"].tolist() == [2]
    why = FALLS.cep.why_not(select("WHERE x > 100", "ALL ROWS"), rows=[3, 4])
    assert not why.matches and why.headline.endswith("but WHERE drops all of its 2 rows")


def test_times_in_where_are_read_as_the_table_reads_them():
    falls = FALLS.assign(t=pd.date_range("2024-01-01", periods=7, freq="h"))
    text = select("WHERE begin > TIMESTAMP '2024-01-01 01:00'")
    assert cep.sql(text, t=falls).to_frame()["low"].tolist() == [4, 8]
    assert falls.cep.why_not(text, rows=[3, 4]).matches
    why = falls.cep.why_not(text, rows=[0, 1, 2])
    assert "begin = 2024-01-01 00:00:00" in why.reasons[0]
    text = select("WHERE t > TIMESTAMP '2024-01-01 03:30'", "ALL ROWS")
    assert cep.sql(text, t=falls).to_frame()["x"].tolist() == [5, 4, 8]
    assert "of the 2 rows" in falls.cep.why_not(text, rows=[3, 4]).more[0]


def test_numbers_say_what_they_count():
    text = select("WHERE low > 3 LIMIT 1")
    found = cep.sql(text, t=FALLS)
    assert (found.count(), len(found), len(found.to_frame())) == (3, 3, 1)
    assert repr(found).splitlines()[0] == (
        "3 matches of 'A B+' in 7 rows, 2 partitions by k; WHERE keeps 2 of 3 rows; LIMIT keeps 1 of 2 rows"
    )
    said = repr(cep.sql(select("OFFSET 1"), t=FALLS)).splitlines()[0]
    assert said.endswith("2 partitions by k; OFFSET keeps 2 of 3 rows")
    said = repr(cep.sql(select(""), t=FALLS)).splitlines()[0]
    assert said.endswith("2 partitions by k")
    note = "these are the matches before WHERE, LIMIT of the SELECT"
    assert note in FALLS.cep.funnel(text).words() and note in repr(FALLS.cep.funnel(text))
    assert len(FALLS.cep.funnel(select("")).words()) == 1
    assert FALLS.cep.why_not(text, rows=[3, 4]).more == (
        "LIMIT may drop rows of the match; this answer does not look at them",
    )
