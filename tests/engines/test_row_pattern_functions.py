"""Functions of texts and tests of truth in row patterns: all ways to compute them give the oracle's rows."""

from __future__ import annotations

from random import Random

import pytest

from cepkit.events import FLOAT, INTEGER, TEXT, ColumnType
from cepkit.language.match_recognize.parsing import parse_match_recognize
from tests.oracle.match_recognize import result
from tests.support.row_patterns import engine_result, kernel_result, oracle_query
from tests.support.sizes import seeds

SCHEMA = {
    "s": ColumnType(TEXT),
    "p": ColumnType(TEXT),
    "x": ColumnType(INTEGER, nullable=True),
    "y": ColumnType(FLOAT),
}
TEXTS = [
    "SUBSTRING(s FROM x FOR 2)", "SUBSTR(s, x)", "TRIM(s)", "TRIM(LEADING 'a' FROM s)", "RTRIM(s, 'b ')",
    "CHAR_LENGTH(s)", "REPLACE(s, 'a', 'cc')", "POSITION(p IN s)", "STRPOS(s, 'b')", "STARTS_WITH(s, p)",
    "LPAD(s, 4, 'xy')", "RPAD(s, 2)", "SPLIT_PART(s, 'a', 2)", "REVERSE(s)", "CEIL(y)", "TRUNC(y)",
]  # fmt: skip
TESTS = [
    "s LIKE '%!_%' ESCAPE '!'", "s NOT LIKE '!%a%' ESCAPE '!'", "s IS DISTINCT FROM PREV(s)",
    "x IS NOT DISTINCT FROM y", "(x > 1) IS TRUE", "(x > y) IS NOT FALSE", "(PREV(x) > 1) IS UNKNOWN",
    "x BETWEEN SYMMETRIC 2 AND PREV(x)", "SUBSTRING(s FROM 1 FOR 1) = p", "s = LAST(A.s) IS NOT TRUE",
]  # fmt: skip


def rows_of(seed):
    rng = Random(seed)
    return [
        {
            "s": rng.choice([None, "".join(rng.choice("ab _%") for _ in range(rng.randrange(6)))]),
            "p": rng.choice([None, "a", "b", " "]),
            "x": rng.choice([None, *range(-4, 5)]),
            "y": rng.choice([None, -1.5, 0.0, 1.0, 2.25]),
        }
        for _ in range(12)
    ]


@pytest.mark.parametrize("seed", seeds(2, 4))
@pytest.mark.parametrize("text", [*TEXTS, *TESTS])
def test_measures(text, seed):
    text = text if text not in TESTS else f"CASE WHEN {text} THEN 1 WHEN NOT ({text}) THEN 0 END"
    check(f"MEASURES {text} AS m ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS x > -3 OR x IS NULL", seed)


@pytest.mark.parametrize("seed", seeds(2, 4))
@pytest.mark.parametrize("text", TESTS)
def test_conditions(text, seed):
    check(f"MEASURES B.x AS m, COUNT(*) AS n PATTERN (A B+) DEFINE B AS {text}", seed)


def check(clause, seed):
    query, rows = parse_match_recognize(clause), rows_of(seed)
    expected = result(oracle_query(query), rows)
    assert engine_result(query, rows, SCHEMA) == expected
    assert kernel_result(query, rows, SCHEMA) == expected
