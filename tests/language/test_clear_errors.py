"""Queries that once ended in an error of Python: they run, or one error says what is wrong."""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep
from cepkit.streaming.saved import query_as_json

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
