"""A clause without an equal in the target language is named, with the reason."""

from __future__ import annotations

import re

import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError

TYPED = {"event_type": "kind", "order_by": "ts"}
LOOPS = {"define": {"a": "x > 1", "b": "x > 2"}, "order_by": "ts"}
PAIR = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match"


def rows(pattern: str, define: str, clauses: str = "") -> str:
    return (
        f"MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(ts) AS e {clauses} PATTERN ({pattern}) DEFINE {define})"
    )


TIMED_OUT = rows("A B", "B AS x > 2", "ONE ROW PER MATCH WITH TIMED OUT MATCHES").replace(
    " DEFINE", " WITHIN INTERVAL '5' SECOND DEFINE"
)
FRAME = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
WINDOWED = f"SELECT * FROM t WINDOW w AS (ORDER BY ts {FRAME} PATTERN (A) DEFINE A AS x > 3)"

# The query, the target, its keywords, the named clause and a part of the reason.
CASES = [
    # a regex and SQL choose among matches in different ways
    ("a+ b", "match_recognize", LOOPS, "pattern: a+ b", "no row can be both b and a"),
    ("a b | b", "match_recognize", LOOPS,
     "pattern: a b | b", "last part is a single row that ends all loops"),
    ("a+ b", "sase", LOOPS, "pattern a+ b: a+", "reports the earliest end"),
    (". a", "match_recognize", {"define": {"a": "x > max(x)"}, "order_by": "ts"},
     "define 'a': max(x)", "current row"),
    ("a", "match_recognize", {"define": {"a": "x / 2 > 1"}, "order_by": "ts"},
     "x / 2", "divide whole numbers"),
    ("a", "match_recognize", {"define": {"a": "x > 1"}},
     "an order of rows without order_by", "ORDER BY needs"),
    ("a b", "match_recognize", {**LOOPS, "within": "5 s"},
     "WITHIN 5 s with its end included", "within_closed=False"),
    ("a", "sase", {"define": {"a": "x > prev(x)"}}, "prev(x) of a", "before the first event"),
    (rows("A+ B", "B AS x > 2"), "regex", {}, "PATTERN: A+ B", "no row can be both B and A"),
    (rows("A B+", "B AS x > 2"), "regex", {}, "PATTERN: A B+", "the leftmost start"),
    (rows("A B?", "B AS x > 2"), "sase", {}, "PATTERN: B?", "prefers one number of rounds"),
    (rows("A | B", "B AS x > 2"), "sase", {}, "PATTERN: A | B", "prefers the first option"),
    (rows("PERMUTE(A, B)", "B AS x > 2"), "regex", {}, "PATTERN: PERMUTE(A, B)", "prefers one order"),
    (rows("^ A", "A AS x > 2"), "regex", {}, "PATTERN: ^", "no anchors"),
    (rows("A B", "A AS NEXT(x) > 2"), "regex", {}, "DEFINE A: NEXT(x)", "looks ahead"),
    (rows("A+ B", "A AS x < FIRST(x) + 2, B AS x > 2"), "regex", {},
     "DEFINE A: FIRST(x)", "row and rows before"),
    (rows("A B", "B AS x > 2", "AFTER MATCH SKIP TO NEXT ROW"), "regex", {},
     "a search that continues inside", "last row"),
    (rows("A B", "B AS x > 2", "AFTER MATCH SKIP TO FIRST A"), "sase", {},
     "AFTER MATCH SKIP TO FIRST A", "error"),
    (rows("A B", "B AS x > 2", "ALL ROWS PER MATCH"), "sase", {}, "ALL ROWS PER MATCH", "one row per match"),
    (rows("A B", "B AS x > 2").replace("BY ts", "BY ts DESC"), "regex", {}, "ORDER BY ts DESC", "ascending"),
    ("SELECT e FROM t " + rows("A", "A AS x > 2") + " LIMIT 3", "sase", {},
     "the list of SELECT", "whole answer"),
    ("SELECT * FROM t " + rows("A", "A AS x > 2") + " LIMIT 3", "sase", {}, "LIMIT", "whole answer"),
    (rows("A B", "B AS x > 2").replace("LAST(ts)", "CLASSIFIER()"), "sase", {},
     "MEASURES e: CLASSIFIER()", "no such"),
    (TIMED_OUT, "regex", {}, "WITH TIMED OUT MATCHES", "matches only"),
    (WINDOWED, "sase", {}, "WINDOW", "each row"),
    # sequences
    ("PATTERN SEQ(A a, B b)", "match_recognize", TYPED, "skip_till_any_match", "every choice of events"),
    ("PATTERN SEQ(A a, B b)", "siddhi", TYPED, "skip_till_any_match", "the next event that fits"),
    (PAIR, "regex", TYPED, "skip_till_next_match", "neighbours"),
    ("PATTERN SEQ(A a, B+ b[])", "match_recognize", TYPED, "B+ b[]", "each number of rounds is a match"),
    ("PATTERN SEQ(A a, !C c, B b)", "siddhi", TYPED, "!C c", "no absent events"),
    ("PATTERN AND(A a, B b)", "regex", TYPED, "AND(A a, B b)", "in any order"),
    ("PATTERN OR(A a, B b)", "match_recognize", TYPED, "OR(A a, B b)", "found twice"),
    (PAIR + " WITHIN 5 EVENTS", "siddhi", TYPED, "WITHIN 5 EVENTS", "windows are times"),
    (PAIR + " WITHIN 5", "siddhi", TYPED, "WITHIN 5", "has a unit"),
    (PAIR + " GAP 5 s", "match_recognize", TYPED, "GAP", "no limit between two rows"),
    (PAIR + " WITHIN 5 s GAP 2 s", "flink_cep_java", TYPED, "WITHIN and GAP together", "has one window"),
    (PAIR, "siddhi", {**TYPED, "after_match": "past_last"},
     "after_match=past_last", "each event begins a match"),
    (PAIR + " AND b.x is null", "siddhi", TYPED, "WHERE b.x is null", "no such test"),
    (PAIR + " AND b.name like 'a%'", "flink_cep_java", TYPED, "WHERE b.name like 'a%'", "no such test"),
    (PAIR, "siddhi", {"event_type": "kind"},
     "a result without measures and order_by", "SELECT names columns"),
    ("PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match", "flink_cep_java", TYPED,
     "under scope='run'", "scope='edge'"),
    ("PATTERN SEQ(A a, !B b) WITHIN 5 s", "flink_cep_java", TYPED, "!B b", "decided by the window"),
    ("PATTERN AND(A a, B b)", "flink_cep_java", TYPED, "AND(A a, B b)", "in any order"),
    ("PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > b[i-1].x", "flink_cep_java", TYPED,
     "b[i].x > b[i-1].x", "several events"),
    ("PATTERN SEQ(A a, B b)", "flink_cep_java", {**TYPED, "after_match": "past_last"},
     "after_match='past_last'", "finds them"),
    ("PATTERN SEQ(A a, B b)", "flink_cep_java", {**TYPED, "strict_time": True}, "strict_time", "equal times"),
    (PAIR + " AND b.x != a.y", "flink_cep_java", TYPED, "b.x != a.y", "types of the two columns"),
    ("SELECT * FROM t WINDOW w AS (ROWS CURRENT ROW PATTERN (A) DEFINE A AS x > 1)", "regex", {},
     "WINDOW W", "a row for each row of the table"),
    ("""MATCH_RECOGNIZE (ORDER BY t ONE ROW PER MATCH WITH TIMED OUT MATCHES PATTERN (A B)
      WITHIN INTERVAL '1' HOUR DEFINE A AS x > 1)""", "regex", {},
     "ONE ROW PER MATCH WITH TIMED OUT MATCHES", "its result has matches only"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize(("query", "target", "keywords", "clause", "reason"), CASES)
def test_a_refusal_names_the_clause_and_the_reason(query, target, keywords, clause, reason):
    with pytest.raises(UnsupportedQueryError) as error:
        cep.translate(query, target, **keywords)
    named, _, why = str(error.value).partition(f" has no equal in {target!r}: ")
    assert clause in named, error.value
    assert reason in why, error.value


def test_an_unknown_target_gets_the_nearest_one():
    with pytest.raises(CepError, match=re.escape("to='sasse'. Did you mean 'sase'?")):
        cep.translate("a", "sasse", define={"a": "x > 1"})


def test_the_text_of_siddhi_is_no_source():
    with pytest.raises(UnsupportedQueryError, match=r"cep\.siddhi runs this text"):
        cep.translate("from every a=A select a.x as x insert into Out", "sase")


def test_a_clause_takes_no_keywords_but_params():
    with pytest.raises(CepError, match="MATCH_RECOGNIZE has clauses for its options"):
        cep.translate(rows("A", "A AS x > 1"), "sase", order_by="ts")
    assert "x > 7" in cep.translate(rows("A", "A AS x > :least"), "regex", params={"least": 7})
