"""Queries that once ended in an error of Python: they run, or one error says what is wrong."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import cepkit as cep
from cepkit.streaming.saved import query_as_json
from tests.support.tables import cases

ROWS = pd.DataFrame({"t": [1, 2, 3], "x": [1, 2, 3]})
SELECT = (
    "SELECT m FROM f MATCH_RECOGNIZE (ORDER BY t MEASURES A.x AS m PATTERN (A B) DEFINE B AS {}) WHERE m > 0"
)


@pytest.mark.parametrize(
    ("condition", "is_true"),
    [
        ("starts_with('its', 'a')", False), ("starts_with('its', 'i')", True),
        ("ends_with('its', 'ts')", True),
        ("contains('its', 'a')", False), ("'its' like 'i%'", True), ("not starts_with('its', 'a')", True),
        ("'its' not like '_t_'", False), ("starts_with(:p, 'ab')", True), (":p like 'b%'", False),
        ("starts_with('its', 'i') and x < 9", True),
    ],
)  # fmt: skip
def test_a_condition_on_a_constant_text_holds_for_all_rows_or_none(condition, is_true):
    params = {"p": "abc"} if ":p" in condition else None
    count = 3 if is_true else 0
    assert cep.match(ROWS, "a", define={"a": condition}, params=params).count() == count
    assert cep.match(ROWS, ". a", define={"a": condition}, params=params).count() == count // 3
    call = {"order_by": "t", "params": params}
    of_event = condition.replace("x <", "a.x <")
    assert cep.match(ROWS, f"PATTERN SEQ(_ a, _ b) WHERE {of_event}", **call).count() == count


@pytest.mark.parametrize(
    "condition",
    ["PREV(B.x) > 1", "SUM(B.x) > 1 OR CLASSIFIER() = 'B'", "CASE WHEN NEXT(B.x) > 1 THEN TRUE END",
     "CAST(B.x AS VARCHAR) LIKE '1' AND B.x IS NOT TRUE", "LAST(B.x) + MATCH_NUMBER() > 1"],
)  # fmt: skip
def test_expressions_of_row_patterns_have_a_text(condition):
    from cepkit.language.match_recognize.parsing import parse_match_recognize

    clause = parse_match_recognize(SELECT.format(condition)).rows
    for _, tree in (*clause.define, *clause.measures):
        for part in tree.walk():
            assert str(part)
    assert str(dict(clause.define)["B"]).split("(")[0].split()[0] in condition


@pytest.mark.parametrize("text", [SELECT.format("B.x > 1"), SELECT.format("PREV(B.x) > 1")])
def test_a_query_that_no_stream_has_cannot_be_saved(text):
    query = cep.match(ROWS, text).query
    for value in (query, query.rows, None):
        with pytest.raises(cep.CepError, match="cannot be saved"):
            query_as_json(value)


def test_tag_refuses_a_pattern_in_a_window():
    text = (
        "SELECT x, a OVER w FROM f WINDOW w AS (ORDER BY t MEASURES A.x AS a "
        "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B) DEFINE B AS x > 1)"
    )
    with pytest.raises(cep.UnsupportedQueryError, match="tag: the pattern is in a WINDOW clause"):
        cep.tag(ROWS, text)
    assert len(cep.tag(ROWS, SELECT.format("B.x > 1"))) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    cases("other_languages", "other languages"),
)
@pytest.mark.parametrize("event_type", [None, "k"])
def test_a_query_of_another_language_is_recognised(text, message, event_type):
    with pytest.raises(cep.UnsupportedQueryError, match=f"this is .*{message}"):
        cep.match(ROWS.assign(k="A"), text, event_type=event_type, order_by="t")


@pytest.mark.parametrize(
    "text", ["a|b", "a | where b", "(from where){2}", "sequence a b", "transaction index b"]
)
def test_words_of_other_languages_may_be_names(text):
    define = dict.fromkeys(re.findall(r"[a-z]+", text), "x > 0")
    assert cep.match(ROWS, text, define=define).count() >= 0


def test_names_of_a_regex_are_event_types():
    frame = pd.DataFrame({"outcome": ["fail", "fail", "ok", "fail", "retry", "ok"], "n": range(6)})
    found = frame.cep.match("fail{2,} ok", event_type="outcome")
    assert found.to_frame().values.tolist() == [[0, 2, 3]]
    late = frame.cep.match("fail late", event_type="outcome", define={"late": "n > 3"})
    assert late.lineage()["position"].tolist() == [3, 4]
    with pytest.raises(cep.ColumnNotFoundError, match="'outcom' not found"):
        frame.cep.match("fail ok", event_type="outcom")


def test_a_row_pattern_without_measures_has_a_row_for_each_match():
    rows = pd.DataFrame({"i": [0, 1, 2], "x": [1, 0, 1]})
    clause = "ORDER BY i PATTERN (A) DEFINE A AS x = 1"
    for found in (
        cep.match(rows, clause),
        cep.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause}) AS m", t=rows),
    ):
        assert found.count() == 2
        assert found.to_frame().to_dict("list") == {"first_i": [0, 2], "last_i": [0, 2], "rows": [1, 1]}
    by_key = cep.match(rows, f"PARTITION BY x {clause}")
    assert by_key.to_frame().to_dict("list") == {"x": [1, 1]}
    stream = cep.stream(clause, {"i": "int64", "x": "int64"})
    assert stream.push(rows)["rows"].tolist() == [1, 1]
