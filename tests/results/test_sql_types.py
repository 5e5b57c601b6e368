"""Types of values in MATCH_RECOGNIZE: what SQL:2016 and Trino give, by rows and by kernels."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import PatternSyntaxError, PredicateError
from cepkit.results import row_pattern_search
from tests.support.tables import cases

DAYS = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-05"]
TABLE = pd.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "dt": pd.to_datetime(DAYS),
        "z": pd.to_datetime(DAYS).tz_localize("Europe/Berlin"),
        "td": pd.to_timedelta([1, 2, 3, 100], unit="h").as_unit("us"),
        "x": [-7.5, 2.5, -2.5, 7.0],
        "i": [-7, 7, -3, 9],
        "s": ["a", "b", "c", "d"],
        "b": [True, False, True, False],
        "big": pd.array([2**53 + 1, None, 3, 4], dtype="Int64"),
        "gap": pd.to_datetime(["2024-02-28 12:00:00.250", None, "2024-02-28 12:00:00.000", None]),
    }
)


@pytest.fixture(params=["rows", "kernels"])
def engine(request, monkeypatch):
    monkeypatch.setattr(row_pattern_search, "FEWEST_ROWS", 0 if request.param == "kernels" else 10**9)


def measured(measure: str, frame=TABLE, condition: str = "id > 0") -> list:
    """Return a measure at each row."""
    text = f"""SELECT m FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measure} AS m
      ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS {condition})"""
    found = cep.sql(text, t=frame).to_frame()
    return pa.table(found)["m"].to_pylist()


def kept(condition: str, frame=TABLE) -> list[int]:
    """Return the numbers of the rows where a condition holds."""
    text = f"""SELECT id FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES id AS id
      PATTERN (A) DEFINE A AS {condition})"""
    return pa.table(cep.sql(text, t=frame).to_frame())["id"].to_pylist()


def time(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


# --- times, intervals and numbers


@pytest.mark.parametrize("unit", ["s", "ns"])
@pytest.mark.parametrize(
    ("condition", "ids"),
    cases("sql_types", "times and intervals"),
)
def test_times_and_intervals(engine, unit, condition, ids):
    frame = TABLE.assign(dt=TABLE["dt"].dt.as_unit(unit), td=TABLE["td"].dt.as_unit(unit))
    assert kept(condition, frame) == ids


def test_a_time_without_a_zone_is_in_the_zone_of_the_column(engine):
    assert kept("z = TIMESTAMP '2024-01-02 00:00:00'") == [2]
    assert kept("z >= DATE '2024-01-02' + INTERVAL '1' DAY") == [3, 4]
    assert kept("z = TIMESTAMP '2024-01-01 23:00:00Z'") == [2]  # midnight in Berlin is 23:00 in UTC
    with pytest.raises(PredicateError, match="the times it is compared with have none; leave out the zone"):
        kept("dt = TIMESTAMP '2024-01-01 23:00:00Z'")


@pytest.mark.parametrize(
    ("condition", "message"),
    cases("sql_types", "types that do not go together"),
)
def test_types_that_do_not_go_together(condition, message):
    for call in (lambda: kept(condition), lambda: measured("1", condition=condition)):
        with pytest.raises(PredicateError) as caught:
            call()
        assert message in str(caught.value)
    with pytest.raises(PredicateError) as caught:
        measured(condition)
    assert "MEASURES m: " in str(caught.value) and message in str(caught.value)


def test_an_error_marks_the_wrong_part():
    with pytest.raises(PredicateError) as caught:
        kept("id > 0 AND td > 5")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("DEFINE A: an interval needs a unit")
    assert lines[1][lines[2].index("^") : lines[2].rindex("^") + 1] == "td > 5"


def test_the_select_and_a_parameter():
    text = """SELECT d FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES LAST(dt) - FIRST(dt) AS d
      PATTERN (A A) DEFINE A AS id > 0) WHERE {}"""
    assert len(cep.sql(text.format("d > INTERVAL '36' HOUR"), t=TABLE).to_frame()) == 1
    with pytest.raises(PredicateError, match=r"WHERE: an interval needs a unit: write INTERVAL '1' DAY"):
        cep.sql(text.format("d > 1"), t=TABLE)
    with pytest.raises(PredicateError, match="an interval needs a unit"):
        cep.sql(text.format("d > :n"), t=TABLE, params={"n": 1})


# --- conditions


@pytest.mark.parametrize(
    ("condition", "message"),
    cases("sql_types", "conditions need truth values"),
)
def test_conditions_need_truth_values(condition, message):
    with pytest.raises(PredicateError) as caught:
        kept(condition)
    assert "DEFINE A: " in str(caught.value) and message in str(caught.value)


def test_conditions_of_the_select_need_truth_values():
    text = "SELECT i FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES id AS i PATTERN (A) DEFINE A AS b) WHERE i"
    with pytest.raises(PredicateError, match="WHERE: a condition is true or false, and i is an integer"):
        cep.sql(text, t=TABLE)
    window = """SELECT id, n OVER w FROM t WHERE id WINDOW w AS (ORDER BY id MEASURES COUNT(*) AS n
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A) DEFINE A AS {})"""
    with pytest.raises(PredicateError, match="a condition is true or false, and id is an integer"):
        cep.sql(window.format("b"), t=TABLE).to_frame()
    with pytest.raises(PredicateError, match="a condition is true or false, and s is a text"):
        cep.sql(window.replace("WHERE id ", "").format("s"), t=TABLE).to_frame()
    schema = pa.schema({"id": pa.int64(), "s": pa.string()})
    with pytest.raises(PredicateError, match="a condition is true or false, and s is a text"):
        cep.stream("MATCH_RECOGNIZE (ORDER BY id MEASURES id AS m PATTERN (A) DEFINE A AS s)", schema)


def test_columns_and_constants_of_truth_values_are_conditions(engine):
    assert kept("b") == [1, 3] and kept("NOT b") == [2, 4] and kept("TRUE") == [1, 2, 3, 4]
    assert kept("NULL") == [] and kept("b OR NULL") == [1, 3]


# --- numbers


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        *cases("sql_types", "numbers"),
        ("-7 % 3", [-1] * 4),
        ("x % 0.0", [None] * 4),
        ("MOD(-9223372036854775807, 10)", [-7] * 4),
        ("ROUND(2.675, 2)", [2.68] * 4),
        ("LOG(2, 8)", [3.0] * 4),
        ("LOG(10, 1000)", [3.0] * 4),
        ("LOG(1, 8)", [None] * 4),
    ],
)
def test_numbers(engine, measure, expected):
    assert measured(measure) == pytest.approx(expected)


def test_other_languages_keep_their_remainder():
    found = cep.match(TABLE, "a", define={"a": "i % 3 == 2"}, order_by="id").to_frame()
    assert len(found) == 1  # -7 % 3 is 2 in Python


# --- texts


@pytest.mark.parametrize(
    ("measure", "expected"),
    cases("sql_types", "texts of values"),
)
def test_texts_of_values(engine, measure, expected):
    assert measured(measure)[-1] == expected


# --- literals and values of several expressions


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("DATE '2024-02-29'", time("2024-02-29")),
        ("TIMESTAMP '2024-02-29 12:00:00.5'", time("2024-02-29 12:00:00.5")),
        ("DATE '2024-02-29' + INTERVAL '1' DAY", time("2024-03-01")),
        ("INTERVAL '1' DAY + DATE '2024-02-29'", time("2024-03-01")),
        ("DATE '2024-03-01' - DATE '2024-02-28'", pd.Timedelta("2 days")),
        ("INTERVAL '1' DAY * 2", pd.Timedelta("2 days")),
        ("2 * INTERVAL '1' DAY", pd.Timedelta("2 days")),
        ("INTERVAL '1' DAY / 2", pd.Timedelta("12 h")),
        ("1.5 * INTERVAL '1' DAY", pd.Timedelta("36 h")),
        ("INTERVAL '1' DAY - INTERVAL '90' MINUTE", pd.Timedelta("22 h 30 min")),
        ("-INTERVAL '1 02:03:04.5' DAY TO SECOND", -pd.Timedelta("1 day 2 h 3 min 4.5 s")),
        ("INTERVAL '3' DAY / INTERVAL '2' DAY", 1.5),
        ("LAST(td) / 7", pd.Timedelta("14 h 17 min 8.571429 s")),
        ("LAST(dt) - TIMESTAMP '2024-01-01 00:00:00'", pd.Timedelta("4 days")),
        ("COALESCE(LAST(gap), TIMESTAMP '2020-01-01 00:00:00')", time("2020-01-01")),
        ("COALESCE(LAST(gap), '2020-01-01')", time("2020-01-01")),
        ("CASE WHEN LAST(id) > 9 THEN LAST(dt) ELSE DATE '2020-01-01' END", time("2020-01-01")),
        ("IF(LAST(b), LAST(td), INTERVAL '1' HOUR)", pd.Timedelta("1 h")),
        ("GREATEST(LAST(dt), TIMESTAMP '2030-01-01 00:00:00')", time("2030-01-01")),
        ("NULLIF(LAST(dt), DATE '2024-01-05')", None),
        ("FIRST(z) - TIMESTAMP '2024-01-01 00:00:00'", pd.Timedelta(0)),
    ],
)
@pytest.mark.parametrize(
    ("engine", "kind"), [("rows", "polars"), ("kernels", "pandas"), ("kernels", "arrow")], indirect=["engine"]
)
def test_literals_have_types(engine, kind, measure, expected):
    frames = {"pandas": TABLE, "arrow": pa.Table.from_pandas(TABLE), "polars": pl.from_pandas(TABLE)}
    assert measured(measure, frames[kind])[-1] == expected


@pytest.mark.parametrize(
    ("measure", "message"),
    cases("sql_types", "literals that do not exist"),
)
def test_literals_that_do_not_exist(measure, message):
    with pytest.raises(PatternSyntaxError) as caught:
        measured(measure)
    assert message in str(caught.value)


def test_lists_of_integers_keep_their_digits():
    for frame in (TABLE, pa.Table.from_pandas(TABLE), pl.from_pandas(TABLE)):
        assert measured("FINAL ARRAY_AGG(big)", frame)[0] == [2**53 + 1, None, 3, 4]


def test_a_translation_has_the_texts_of_times():
    text = "MATCH_RECOGNIZE (ORDER BY dt MEASURES LAST(id) AS n PATTERN (A B) DEFINE B AS {})"
    condition = "dt - PREV(dt) > INTERVAL '36' HOUR AND dt > DATE '2024-01-01'"
    made = cep.translate(text.format(condition), "regex")
    assert "'36 h'" in str(made) and "'2024-01-01'" in str(made)
    assert cep.match(TABLE, text.format(condition)).count() == 1
