"""The calls of Oracle, Snowflake, Trino and Databricks that queries of row patterns use most."""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep

ROWS = pd.DataFrame({
    "id": range(4),
    "s": ["ab-c", "Xy", None, " 12 "],
    "x": [1.25, None, -3.0, 0.0],
    "n": pd.array([7, None, -2, 0], dtype="Int64"),
    "b": pd.array([True, None, False, True], dtype="boolean"),
    "ts": pd.to_datetime(["2026-01-31 09:30:15.250", "2026-02-01 00:00", None, "2026-03-08 23:59:59"],
    format="ISO8601").as_unit("us"),
    "t2": pd.to_datetime(["2026-01-30 10:00", "2026-01-01 00:00", "2026-02-01", "2026-03-01"],
    format="ISO8601").as_unit("us"),
})  # fmt: skip
NULL = None


def at(*texts):
    """Return times, for tests of values."""
    return [None if text is None else pd.Timestamp(text) for text in texts]


# Each call, with its value in each of the four rows.
CALLS = [
    ("NVL(x, 9)", [1.25, 9, -3, 0]),
    ("NVL2(x, 'y', 'n')", ["y", "n", "y", "y"]),
    ("COALESCE(x, n, 5)", [1.25, 5, -3, 0]),
    ("IFNULL(n, 1)", [7, 1, -2, 0]),
    ("NULLIF(x, 0)", [1.25, NULL, -3, NULL]),
    ("ZEROIFNULL(x)", [1.25, 0, -3, 0]),
    ("NULLIFZERO(n)", [7, NULL, -2, NULL]),
    ("IFF(x > 0, 1, 2)", [1, 2, 2, 2]),
    ("IF(b, 'T', 'F')", ["T", "F", "F", "T"]),
    ("DECODE(s, 'Xy', 1, 'ab-c', 2, 3)", [2, 1, 3, 3]),
    ("CASE WHEN x < 0 THEN 'low' WHEN x > 1 THEN 'high' ELSE 'zero' END", ["high", "zero", "low", "zero"]),
    ("CASE n WHEN 7 THEN 'seven' END", ["seven", NULL, NULL, NULL]),
    ("GREATEST(x, 0)", [1.25, NULL, 0, 0]),
    ("LEAST(n, 3)", [3, NULL, -2, 0]),
    ("ABS(x)", [1.25, NULL, 3, 0]),
    ("SIGN(x)", [1, NULL, -1, 0]),
    ("ROUND(x, 1)", [1.3, NULL, -3, 0]),
    ("TRUNC(x)", [1, NULL, -3, 0]),
    ("CEIL(x)", [2, NULL, -3, 0]),
    ("FLOOR(x)", [1, NULL, -3, 0]),
    ("MOD(n, 4)", [3, NULL, -2, 0]),
    ("POWER(x, 2)", [1.5625, NULL, 9, 0]),
    ("SQRT(ABS(n))", [7**0.5, NULL, 2**0.5, 0]),
    ("LN(x)", [0.22314355131420976, NULL, NULL, NULL]),
    ("EXP(n - n)", [1, NULL, 1, 1]),
    ("WIDTH_BUCKET(x, 0, 5, 5)", [2, NULL, 0, 1]),
    ("CONCAT(s, '!')", ["ab-c!", "Xy!", NULL, " 12 !"]),
    ("s || '-' || n", ["ab-c-7", NULL, NULL, " 12 -0"]),
    ("UPPER(s)", ["AB-C", "XY", NULL, " 12 "]),
    ("LOWER(s)", ["ab-c", "xy", NULL, " 12 "]),
    ("INITCAP(s)", ["Ab-C", "Xy", NULL, " 12 "]),
    ("TRIM(s)", ["ab-c", "Xy", NULL, "12"]),
    ("LENGTH(s)", [4, 2, NULL, 4]),
    ("SUBSTR(s, 2, 2)", ["b-", "y", NULL, "12"]),
    ("SUBSTRING(s FROM 2 FOR 1)", ["b", "y", NULL, "1"]),
    ("LEFT(s, 1)", ["a", "X", NULL, " "]),
    ("RIGHT(s, 2)", ["-c", "Xy", NULL, "2 "]),
    ("INSTR(s, '-')", [3, 0, NULL, 0]),
    ("POSITION('c' IN s)", [4, 0, NULL, 0]),
    ("CHARINDEX('b', s)", [2, 0, NULL, 0]),
    ("REPLACE(s, '-', '+')", ["ab+c", "Xy", NULL, " 12 "]),
    ("LPAD(TRIM(s), 5, '*')", ["*ab-c", "***Xy", NULL, "***12"]),
    ("SPLIT_PART(s, '-', 2)", ["c", NULL, NULL, NULL]),
    ("REGEXP_LIKE(s, '^[a-z]+')", [True, False, NULL, False]),
    ("RLIKE(s, '[0-9]')", [False, False, NULL, True]),
    ("REGEXP_SUBSTR(s, '[0-9]+')", [NULL, NULL, NULL, "12"]),
    ("REGEXP_REPLACE(s, '([a-z])-([a-z])', '$2-$1')", ["ac-b", "Xy", NULL, " 12 "]),
    ("STARTSWITH(s, 'ab')", [True, False, NULL, False]),
    ("TO_CHAR(ts, 'YYYY-MM-DD HH24:MI')", ["2026-01-31 09:30", "2026-02-01 00:00", NULL, "2026-03-08 23:59"]),
    ("DATE_FORMAT(ts, '%d.%m.%Y')", ["31.01.2026", "01.02.2026", NULL, "08.03.2026"]),
    (
        "DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')",
        ["2026-01-31 09:30", "2026-02-01 00:00", NULL, "2026-03-08 23:59"],
    ),
    ("TO_NUMBER(s)", [NULL, NULL, NULL, 12]),
    ("TRY_CAST(s AS INTEGER)", [NULL, NULL, NULL, 12]),
    ("TO_DATE('31.01.2026', 'DD.MM.YYYY')", at(*["2026-01-31"] * 4)),
    ("TO_TIMESTAMP('2026-01-31 10:20:30', 'YYYY-MM-DD HH24:MI:SS')", at(*["2026-01-31 10:20:30"] * 4)),
    ("DATE_TRUNC('month', ts)", at("2026-01-01", "2026-02-01", None, "2026-03-01")),
    ("TRUNC(ts)", at("2026-01-31", "2026-02-01", None, "2026-03-08")),
    ("EXTRACT(HOUR FROM ts)", [9, 0, NULL, 23]),
    ("DATEDIFF(day, t2, ts)", [1, 31, NULL, 7]),
    ("DATEDIFF(ts, t2)", [1, 31, NULL, 7]),
    ("DATE_DIFF('hour', t2, ts)", [23, 744, NULL, 191]),
    ("TIMESTAMPDIFF(MINUTE, t2, ts)", [1410, 44640, NULL, 11519]),
    ("DATEADD(day, 1, ts)", at("2026-02-01 09:30:15.250", "2026-02-02", None, "2026-03-09 23:59:59")),
    ("DATE_ADD('month', 1, ts)", at("2026-02-28 09:30:15.250", "2026-03-01", None, "2026-04-08 23:59:59")),
    ("ADD_MONTHS(ts, 1)", at("2026-02-28 09:30:15.250", "2026-03-01", None, "2026-04-08 23:59:59")),
    ("LAST_DAY(ts)", at("2026-01-31", "2026-02-28", None, "2026-03-31")),
    ("MONTHS_BETWEEN(DATE '2026-03-31', DATE '2026-01-31')", [2] * 4),
    ("DAYNAME(ts)", ["Sat", "Sun", NULL, "Sun"]),
    ("DAY_OF_WEEK(ts)", [6, 7, NULL, 7]),
    ("TO_UNIXTIME(ts)", [1769851815.25, 1769904000, NULL, 1773014399]),
    ("ts - t2 > INTERVAL '1' DAY", [False, True, NULL, True]),
]
# Aggregates over the rows of the match.
OF_MATCHES = [
    ("COUNT(*)", 4),
    ("COUNT_IF(x >= 0)", 2),
    ("APPROX_COUNT_DISTINCT(s)", 3),
    ("COUNT(DISTINCT b)", 2),
    ("MAX_BY(s, x)", "ab-c"),
    ("MIN_BY(id, x)", 2),
    ("STDDEV_POP(x)", 1.7834112132527247),
    ("VARIANCE(x)", 4.7708333333333333),
    ("MEDIAN(x)", 0),
    ("LISTAGG(s, '|')", "ab-c|Xy| 12 "),
    ("ARRAY_AGG(n)", [7, NULL, -2, 0]),
    ("ANY_VALUE(s)", "ab-c"),
    ("BOOL_OR(b)", True),
    ("BOOLAND_AGG(b)", False),
    ("FIRST(s)", "ab-c"),
    ("LAST(x)", 0),
]


def plain(values):
    return [None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in values]


def measured(call, rows_per_match="ALL ROWS PER MATCH"):
    clause = f"ORDER BY id MEASURES {call} AS r {rows_per_match} PATTERN (A+) DEFINE A AS id >= 0"
    text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
    return plain(cep.sql(text, t=ROWS).to_frame()["r"].astype(object).tolist())


@pytest.mark.parametrize(("call", "wanted"), CALLS, ids=[call for call, _ in CALLS])
def test_a_call_has_its_value_in_each_row(call, wanted):
    assert measured(call) == [pytest.approx(value) if isinstance(value, float) else value for value in wanted]


@pytest.mark.parametrize(("call", "wanted"), CALLS, ids=[call for call, _ in CALLS])
def test_a_call_runs_in_a_condition(call, wanted):
    clause = f"ORDER BY id MEASURES A.id AS id PATTERN (A) DEFINE A AS ({call}) IS NOT NULL"
    text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
    assert cep.sql(text, t=ROWS).to_frame()["id"].tolist() == [i for i in range(4) if wanted[i] is not None]


@pytest.mark.parametrize(("call", "wanted"), OF_MATCHES, ids=[call for call, _ in OF_MATCHES])
def test_an_aggregate_has_its_value(call, wanted):
    [value] = measured(call, "ONE ROW PER MATCH")
    value = value if pd.api.types.is_scalar(value) else plain(value)
    assert value == (pytest.approx(wanted) if isinstance(wanted, float) else wanted)
