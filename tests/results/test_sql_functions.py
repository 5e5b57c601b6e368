"""The functions of MATCH_RECOGNIZE: values by hand, by DuckDB and by pandas, on short and long frames."""

from __future__ import annotations

import re
from random import Random

import duckdb
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.events import BOOLEAN, FLOAT, INTEGER, TEXT, TIME
from cepkit.language.expressions.functions import SQL_FUNCTIONS
from cepkit.language.expressions.vocabulary import VOCABULARY, WITH_UNIT
from cepkit.language.match_recognize.parsing import parse_match_recognize
from tests.support.tables import cases

SHORT, LONG = 60, 3_000  # the second length takes the way of whole columns
DAY = "2024-01-31"


def frame_of(n, seed=5):
    """Return random rows with nulls."""
    rng = Random(seed)

    def some(make):
        return [None if rng.random() < 0.1 else make() for _ in range(n)]

    def text():
        return "".join(rng.choice("aAbä. x%_") for _ in range(rng.randrange(9)))

    def ticks():
        return rng.choice(
            [rng.randrange(-4 * 10**15, 4 * 10**15), 86_400 * 10**6 * rng.randrange(-9999, 30_000)]
        )

    def moments(zone=None):
        values = pd.Series(some(ticks), dtype="Int64").array
        made = pd.Series(np.array(values.to_numpy(np.int64, na_value=0), "M8[us]"))
        made = made.mask(values.isna())
        return made if zone is None else made.dt.tz_localize("UTC").dt.tz_convert(zone)

    return pd.DataFrame({
        "id": range(n),
        "s": pd.Series([None if rng.random() < 0.1 else text() for _ in range(n)], dtype="str"),
        "p": pd.Series(some(lambda: rng.choice(["a", "ab", ".", " ", "xx", "b."])), dtype="str"),
        "i": pd.array(some(lambda: rng.randrange(-5, 9)), dtype="Int64"),
        "f": np.array([rng.uniform(-99, 99) if rng.random() < 0.9 else np.nan for _ in range(n)]),
        "b": pd.array(some(lambda: rng.random() < 0.5), dtype="boolean"),
        "ts": moments(), "ts2": moments(), "tz": moments("Europe/Berlin"), "tz2": moments("Europe/Berlin"),
    })  # fmt: skip


FRAMES = {n: frame_of(n) for n in (SHORT, LONG)}


def measured(expression, frame, clause="MEASURES"):
    """Return an expression at each row: as a measure, or as a column of the outer SELECT."""
    measure, shown = (expression, "result") if clause == "MEASURES" else ("id", f"{expression} AS result")
    text = f"""SELECT {shown} FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measure} AS result
        ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS id >= 0)"""
    return plain(cep.sql(text, t=frame).to_frame()["result"])


def plain(values):
    """Return values as Python objects, and None for a null."""
    return [None if pd.isna(value) else value for value in pd.Series(values).astype(object)]


def one(expression):
    """Return an expression in a single row."""
    frame = pd.DataFrame({
        "id": [0], "s": ["abcde"], "x": [-2.5], "n": [7], "b": [True],
        "ts": pd.to_datetime(["2024-02-29 13:45:07.250"]).as_unit("us"),
        "nothing": pd.Series([None], dtype="str"),
    })  # fmt: skip
    [value] = measured(expression, frame)
    return value


# cepkit's text, and DuckDB's text with the same meaning where it is another one.
SAME = [
    ("SUBSTRING(s FROM 2 FOR 3)", None),
    ("SUBSTRING(s FROM 3)", None),
    ("SUBSTR(s, 1, 2)", None),
    ("SUBSTRING(s, 2, GREATEST(i, 0))", "CASE WHEN i IS NOT NULL THEN substring(s, 2, greatest(i, 0)) END"),
    ("TRIM(BOTH 'a ' FROM s)", "trim(s, 'a ')"),
    ("TRIM(LEADING 'a' FROM s)", "ltrim(s, 'a')"),
    ("TRIM(TRAILING p FROM s)", "rtrim(s, p)"),
    ("TRIM(p FROM s)", "trim(s, p)"),
    ("TRIM(s)", None),
    ("LTRIM(s)", None),
    ("RTRIM(s, ' x')", None),
    ("CHAR_LENGTH(s)", "length(s)"),
    ("CHARACTER_LENGTH(s) + LENGTH(p)", "length(s) + length(p)"),
    ("REPLACE(s, p, 'Q')", None),
    ("REPLACE(s, 'a')", "replace(s, 'a', '')"),
    ("POSITION(p IN s)", None),
    ("STRPOS(s, 'a')", None),
    ("STARTS_WITH(s, p)", None),
    ("LPAD(s, 6, p)", None),
    ("RPAD(s, 3, '.-')", None),
    ("SPLIT_PART(s, '.', 1)", None),
    ("REVERSE(s)", None),
    ("UPPER(s) || LOWER(p)", None),
    ("s LIKE '%!%%' ESCAPE '!'", None),
    ("s NOT LIKE 'a\\_%' ESCAPE '\\'", None),
    ("s LIKE '!_!!' ESCAPE '!'", None),
    ("s IS DISTINCT FROM p", None),
    ("f IS NOT DISTINCT FROM i", None),
    ("i IS DISTINCT FROM NULL", None),
    ("b IS TRUE", None),
    ("b IS NOT TRUE", None),
    ("b IS FALSE", None),
    ("(i > 3) IS NOT FALSE", None),
    ("(f > i) IS UNKNOWN", "(f > i) IS NULL"),
    ("(f > i) IS NOT UNKNOWN", "(f > i) IS NOT NULL"),
    ("+i - +f", "i - f"),
    ("i BETWEEN SYMMETRIC 4 AND -2", "i BETWEEN -2 AND 4"),
    ("f NOT BETWEEN SYMMETRIC i AND 0",
     "CASE WHEN i IS NOT NULL THEN NOT (f BETWEEN least(i, 0) AND greatest(i, 0)) END"),
    ("CAST(i AS DOUBLE PRECISION) / 2", "i / 2"),
    ("CAST(f AS DECIMAL(10, 2))", "CAST(CAST(f AS DECIMAL(10, 2)) AS DOUBLE)"),
    ("CAST(f AS NUMERIC(5))", "CAST(CAST(f AS DECIMAL(5, 0)) AS DOUBLE)"),
    ("CAST(p || 'zz' AS CHAR(2))", "(p || 'zz')[:2]"),
    ("CAST(i AS BOOLEAN)", None),
    ("SIGN(f)", "CAST(sign(f) AS BIGINT)"),
    ("CEIL(f) + CEILING(i)", "CAST(ceil(f) + i AS BIGINT)"),
    ("FLOOR(f)", "CAST(floor(f) AS BIGINT)"),
    ("TRUNC(f)", None),
    ("TRUNCATE(i)", "i"),
    ("SQRT(ABS(f))", None),
    ("GREATEST(i, f)", "CASE WHEN i IS NOT NULL AND f IS NOT NULL THEN greatest(i, f) END"),
    *((f"EXTRACT({field} FROM ts)", None) for field in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY")),
    *((f"EXTRACT({field} FROM ts)", None) for field in ("HOUR", "MINUTE", "SECOND", "EPOCH")),
    *((f"{field}(ts)", None) for field in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "QUARTER")),
    ("EXTRACT(DOW FROM ts)", "isodow(ts)"),
    *((f"DATE_TRUNC('{unit}', ts)", None) for unit in ("second", "minute", "hour", "day", "week", "month")),
    *((f"DATE_TRUNC('{unit}', ts)", None) for unit in ("quarter", "year", "millisecond")),
    # DuckDB's DATE_SUB counts whole units, and its DATE_DIFF those that begin.
    *(
        (f"DATE_DIFF('{unit}', ts, ts2)", f"date_sub('{unit}', ts, ts2)")
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    ),
    ("TIMESTAMPDIFF(MINUTE, ts, ts2)", "date_sub('minute', ts, ts2)"),
    *(
        (f"DATEDIFF({unit}, ts, ts2)", f"date_diff('{unit}', ts, ts2)")
        for unit in ("second", "minute", "hour", "day", "month", "quarter", "year")
    ),
    # DuckDB counts whole weeks there.
    ("DATEDIFF(week, ts, ts2)", "date_diff('day', date_trunc('week', ts), date_trunc('week', ts2)) // 7"),
    ("DATE_DIFF('day', TIMESTAMP '2000-01-01 10:00:00', ts)",
     "date_sub('day', TIMESTAMP '2000-01-01 10:00:00', ts)"),
]  # fmt: skip


def by_duckdb(text, frame):
    rows = frame.drop(columns=["tz", "tz2"])  # a zone would need an extension
    with duckdb.connect() as connection:
        connection.register("t", rows)
        return [value for (value,) in connection.execute(f"SELECT {text} FROM t ORDER BY id").fetchall()]


@pytest.mark.parametrize("n", [SHORT, LONG])
@pytest.mark.parametrize(("text", "other"), SAME)
def test_as_in_duckdb(text, other, n):
    expected = plain(by_duckdb(other or text, FRAMES[n]))
    assert any(value is not None for value in expected)
    found = measured(text, FRAMES[n])
    assert found == expected
    if n == SHORT:
        assert measured(text, FRAMES[n], "SELECT") == expected


@pytest.mark.parametrize("n", [SHORT, LONG])
@pytest.mark.parametrize(
    "condition",
    [
        "EXTRACT(HOUR FROM ts) < 12 AND YEAR(ts) > 2000",
        "DATE_TRUNC('month', ts) <> ts AND DATE_DIFF('day', ts, ts2) > 3",
        "s IS DISTINCT FROM p AND b IS NOT FALSE",
        "i IS NOT DISTINCT FROM FLOOR(f / 20) OR b IS TRUE",
        "SUBSTRING(s FROM 1 FOR 1) = 'a' OR POSITION('x' IN s) > 2",
        "s LIKE '%!_%' ESCAPE '!'",
    ],
)
def test_as_a_condition(condition, n):
    rows = FRAMES[n]
    duckdb_text = condition.replace("DATE_DIFF", "DATE_SUB")
    expected = [i for i, holds in enumerate(by_duckdb(duckdb_text, rows)) if holds is True]
    assert 0 < len(expected) < n
    clause = f"MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS i PATTERN (A) DEFINE A AS {condition})"
    assert cep.match(rows, clause).to_frame()["i"].tolist() == expected
    whole = "MATCH_RECOGNIZE (ORDER BY id ALL ROWS PER MATCH PATTERN (A) DEFINE A AS id >= 0)"
    kept = cep.sql(f"SELECT id FROM t {whole} WHERE {condition}", t=rows).to_frame()
    assert kept["id"].tolist() == expected


@pytest.mark.parametrize("n", [SHORT, LONG])
@pytest.mark.parametrize("field", ["year", "month", "day", "hour", "minute", "second", "quarter"])
def test_fields_are_those_of_the_time_zone(field, n):
    expected = plain(getattr(FRAMES[n]["tz"].dt, field))
    assert measured(f"EXTRACT({field} FROM tz)", FRAMES[n]) == expected


@pytest.mark.parametrize("n", [SHORT, LONG])
@pytest.mark.parametrize("unit", ["day", "month", "year", "hour"])
def test_beginnings_are_those_of_the_time_zone(unit, n):
    local = FRAMES[n]["tz"].dt.tz_localize(None)
    if unit == "hour":
        begun = FRAMES[n]["tz"] - (local - local.dt.floor("h"))
    else:
        begun = local.dt.to_period({"day": "D", "month": "M", "year": "Y"}[unit]).dt.start_time
        begun = begun.dt.tz_localize("Europe/Berlin")
    assert measured(f"DATE_TRUNC('{unit}', tz)", FRAMES[n]) == plain(begun)


@pytest.mark.parametrize("n", [SHORT, LONG])
def test_differences_of_days_are_those_of_the_time_zone(n):
    rows = FRAMES[n]
    expected = [
        None
        if a is None or b is None
        else int((b.tz_localize(None) - a.tz_localize(None)) / pd.Timedelta(1, "D"))
        for a, b in zip(plain(rows["tz"]), plain(rows["tz2"]), strict=True)
    ]
    assert measured("DATE_DIFF('day', tz, tz2)", rows) == expected


def test_the_hour_that_comes_twice():
    """Clocks in Berlin go from 03:00 back to 02:00 on 2024-10-27, at 01:00 UTC."""
    utc = pd.to_datetime(["2024-10-26 22:30", "2024-10-27 00:30", "2024-10-27 01:30", "2024-10-27 23:30"])
    rows = pd.DataFrame(
        {"id": range(4), "tz": utc.as_unit("us").tz_localize("UTC").tz_convert("Europe/Berlin")}
    )
    assert measured("HOUR(tz)", rows) == [0, 2, 2, 0]
    hours = [str(value) for value in measured("DATE_TRUNC('hour', tz)", rows)]
    assert hours[1:3] == ["2024-10-27 02:00:00+02:00", "2024-10-27 02:00:00+01:00"]
    assert str(measured("DATE_TRUNC('day', tz)", rows)[2]) == "2024-10-27 00:00:00+02:00"
    assert measured("DATE_DIFF('hour', FIRST(tz), tz)", rows) == [0, 2, 3, 25]
    assert measured("DATE_DIFF('day', FIRST(tz), tz)", rows) == [0, 0, 0, 1]
    assert measured("DATE_DIFF('day', TIMESTAMP '2024-10-26 00:30:00', tz)", rows) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    cases("sql_functions", "by hand"),
)
def test_by_hand(text, expected):
    found = one(text)
    assert found == expected
    assert isinstance(found, bool | np.bool_) is isinstance(expected, bool)


@pytest.mark.parametrize(
    ("text", "words"),
    cases("sql_functions", "mistakes"),
)
def test_mistakes(text, words):
    with pytest.raises(cep.CepError) as raised:
        one(text)
    assert words in str(raised.value)


TYPES = {
    TEXT: ["SUBSTRING(s, 1)", "TRIM(s)", "REPLACE(s, 'a')", "LPAD(s, 3)", "SPLIT_PART(s, 'a', 1)",
           "REVERSE(s)"],
    INTEGER: ["CHAR_LENGTH(s)", "POSITION('a' IN s)", "YEAR(ts)", "EXTRACT(DOW FROM ts)", "SIGN(f)",
              "DATE_DIFF('day', ts, ts)", "DATEDIFF(day, ts, ts)", "TRUNC(i)", "+i"],
    FLOAT: ["EXTRACT(EPOCH FROM ts)", "TRUNC(f)", "POW(i, i)", "CAST(i AS DECIMAL(3, 1))",
            "CAST(s AS DOUBLE PRECISION)"],
    BOOLEAN: ["b IS TRUE", "b IS UNKNOWN", "s IS DISTINCT FROM 'a'", "s LIKE '!%' ESCAPE '!'",
              "CAST(s AS BOOLEAN)", "i BETWEEN SYMMETRIC 2 AND 1"],
    TIME: ["DATE_TRUNC('day', ts)"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TYPES.items() for text in texts])
def test_types_are_known_before_a_run(kind, text):
    """A frame without rows has the types of the query alone."""
    empty = FRAMES[SHORT].head(0)
    clause = f"MATCH_RECOGNIZE (ORDER BY id MEASURES {text} AS x PATTERN (A) DEFINE A AS id >= 0)"
    made = cep.match(empty, clause).to_frame()["x"].dtype
    texts = str(pd.Series(["a"]).dtype)  # "object" before pandas 3
    known = {TEXT: texts, INTEGER: "int64", FLOAT: "float64", BOOLEAN: "bool", TIME: "datetime64[us]"}
    assert str(made).lower() in (known[kind], known[kind] + "ean")


@pytest.mark.parametrize("text", ["UPPER(e)", "YEAR(e)", "DATE_DIFF('day', e, tz)", "e IS TRUE", "SQRT(e)",
                                  "TRIM(PREV(e))", "e LIKE '!%' ESCAPE '!'"])  # fmt: skip
def test_a_column_without_values_has_the_type_that_the_function_takes(text):
    rows = FRAMES[SHORT].assign(e=None)
    expected = [False if text == "e IS TRUE" else None] * SHORT
    assert measured(text, rows) == expected


@pytest.mark.parametrize("text", [text for text, _ in SAME])
def test_printing_gives_an_equal_tree(text):
    query = parse_match_recognize(f"MEASURES {text} AS x PATTERN (A) DEFINE A AS NOT ({text}) = x")
    assert parse_match_recognize(str(query)) == query


def test_words_of_functions_remain_names():
    names = (
        "position",
        "trim",
        "both",
        "leading",
        "escape",
        "symmetric",
        "unknown",
        "year",
        "extract",
        "try_cast",
    )
    rows = pd.DataFrame({"id": [0], **{name: [k] for k, name in enumerate(names)}})
    for k, name in enumerate(names):
        assert measured(f"{name} + 0", rows) == [k]
        assert measured(f"{name} IS NOT NULL AND {name} BETWEEN {name} AND 99", rows) == [True]


@pytest.mark.parametrize("target", ["sase", "siddhi", "flink_cep_java", "python"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SUBSTRING(b.s FROM 2) = 'a'", "SUBSTRING()"),
        ("EXTRACT(YEAR FROM b.ts) > 3", "YEAR()"),
        ("UPPER(b.s) = 'A'", "UPPER()"),
        ("b.s IS DISTINCT FROM 'a'", "B.s IS DISTINCT FROM 'a'"),
        ("b.b IS NOT TRUE", "B.b IS TRUE"),
        ("b.s LIKE '!%' ESCAPE '!'", "B.s LIKE '!%' ESCAPE '!'"),
    ],
)
def test_other_languages_refuse_by_name(text, name, target):
    clause = "ORDER BY ts MEASURES A.x AS x AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)"
    with pytest.raises(cep.CepError, match=re.escape(f"DEFINE B: {name} has no equal in '{target}'")):
        cep.translate(f"MATCH_RECOGNIZE ({clause} DEFINE B AS {text})", to=target)
    assert "DEFINE B AS" in cep.translate(
        f"MATCH_RECOGNIZE ({clause} DEFINE B AS {text})", to="match_recognize"
    )


def test_every_signature_has_a_function():
    rows = FRAMES[SHORT]
    of_kind = {
        "text": "s",
        "integer": "2",
        "number": "f",
        "time": "ts",
        "duration": "ts - ts",
        "any": "i",
        "list": "s",
        "boolean": "b",
    }
    for name, function in VOCABULARY.items():
        signature = function.takes
        given = [of_kind[signature.types_of(place)[0]] for place in range(signature.n_required)]
        if name in SQL_FUNCTIONS or name == "case":  # SQL has a word of this name
            continue
        if name in WITH_UNIT:
            given[0] = "'hour'"
        if function.name == "date_format":
            given[1] = "'yyyy'"
        assert len(measured(f"{name}({', '.join(given)})", rows)) == SHORT
