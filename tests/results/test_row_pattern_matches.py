"""MATCH_RECOGNIZE on frames: the result of `match` as a frame, against the oracle and by eye."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import (
    CepError,
    PredicateError,
    ResultTooLargeError,
    UnsupportedQueryError,
)
from tests.oracle.generate_match_recognize import random_query, random_rows
from tests.oracle.match_recognize import MatchError, result
from tests.support.row_patterns import oracle_query
from tests.support.sizes import seeds
from tests.support.tables import cases

FRAME = pd.DataFrame(
    {
        "symbol": ["b", "a", "b", "a", "b", "a", "b", None],
        "ts": pd.to_datetime([f"2024-01-01 00:0{i}" for i in (0, 0, 1, 1, 2, 2, 3, 3)]),
        "price": [5.0, 1.0, 3.0, 2.0, 2.0, 1.5, 4.0, np.nan],
        "size": pd.array([1, 2, None, 4, 5, 6, 7, 8], "Int64"),
    }
)
V = """
SELECT symbol, bottom * 2 AS twice, lasts FROM trades MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES LAST(down.price) AS bottom, LAST(ts) - FIRST(ts) AS lasts, up.ts AS "end"
  PATTERN (any_ down+ up)
  DEFINE down AS price < PREV(price), up AS price > PREV(price)
) AS m
"""


def values_of(frame: pd.DataFrame) -> list[dict]:
    """Return the rows with None for every kind of null."""
    return [
        {name: None if not isinstance(v, list) and pd.isna(v) else v for name, v in row.items()}
        for row in frame.to_dict("records")
    ]


def test_one_row_per_match():
    assert cep.match(FRAME, V).count() == 1
    found = FRAME.cep.match(V).to_frame()
    assert found.columns.tolist() == ["symbol", "twice", "lasts"]
    assert values_of(found) == [{"symbol": "b", "twice": 4.0, "lasts": pd.Timedelta("3min")}]


def test_all_rows_have_the_columns_of_the_input_in_the_order_of_sql():
    text = """MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts DESC
      MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS variable, SUM(size) AS total
      ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a b) DEFINE b AS price < PREV(price))"""
    found = cep.match(FRAME, text).to_frame()
    assert found.columns.tolist() == ["symbol", "ts", "number", "variable", "total", "price", "size"]
    assert found["symbol"].tolist()[:7] == ["b"] * 4 + ["a"] * 3
    by_row = [row["variable"] for row in values_of(found)]
    assert by_row == ["A", "B", None, None, None, "A", "B", None]
    assert [row["total"] for row in values_of(found)] == [7, 12, None, None, None, 4, 6, None]


@pytest.mark.parametrize("kind", [pa.Table.from_pandas, pl.from_pandas], ids=["arrow", "polars"])
def test_other_frames_give_their_own_kind(kind):
    frame = kind(FRAME)
    found = cep.match(frame, V).to_frame()
    assert type(found) is type(frame)
    assert (
        found["twice"].to_pylist() == [4.0]
        if isinstance(found, pa.Table)
        else found["twice"].to_list() == [4.0]
    )


def test_the_select():
    text = """SELECT number, price FROM t MATCH_RECOGNIZE (ORDER BY ts, symbol NULLS FIRST
      MEASURES MATCH_NUMBER() AS number ALL ROWS PER MATCH
      PATTERN (a) DEFINE a AS price IS NOT NULL) AS m
      WHERE m.price > 1.2 AND ts < '2024-01-01 00:03' ORDER BY price DESC, number LIMIT 3"""
    assert cep.match(FRAME, text).to_frame()["price"].tolist() == [5.0, 3.0, 2.0]


def test_times_durations_and_parameters():
    text = """MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES COUNT(*) AS n
      PATTERN (a b+) WITHIN INTERVAL '2' MINUTE
      DEFINE a AS ts >= TIMESTAMP '2024-01-01 00:01',
             b AS ts - PREV(ts) <= INTERVAL '1' MINUTE AND size > :least)"""
    assert cep.match(FRAME, text, params={"least": 4}).to_frame()["n"].tolist() == [2, 2]
    with pytest.raises(PredicateError, match="params gives no value for :least"):
        cep.match(FRAME, text)


def test_literals_of_time_are_in_the_zone_of_the_column():
    frame = FRAME.assign(ts=FRAME["ts"].dt.tz_localize("Europe/Berlin"))
    for literal in ("TIMESTAMP '2024-01-01 00:03'", "'2023-12-31T23:03Z'"):
        text = f"MATCH_RECOGNIZE (ORDER BY ts MEASURES A.size AS n PATTERN (A) DEFINE A AS ts >= {literal})"
        assert cep.match(frame, text).to_frame()["n"].tolist() == [7, 8]
    with pytest.raises(PredicateError, match="has a time zone, but the times it is compared with have none"):
        cep.match(FRAME, text)
    with pytest.raises(PredicateError, match="'noon' is compared with a time but is not one"):
        cep.match(FRAME, "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS ts > 'noon')")


def test_like():
    frame = pd.DataFrame({"name": ["A1", "B1", None, "xA1", "A"]})
    for pattern, expected in [("A%", [1, 0, 0, 0, 1]), ("_1", [1, 1, 0, 0, 0]), ("%A_", [1, 0, 0, 1, 0])]:
        text = f"MATCH_RECOGNIZE (ALL ROWS PER MATCH PATTERN (A) DEFINE A AS name LIKE '{pattern}')"
        assert frame.cep.tag(text)["match"].notna().astype(int).tolist() == expected
        assert frame.cep.tag(text.replace("LIKE", "NOT LIKE"))["match"].notna().sum() == 4 - sum(expected)


def test_names_of_columns_may_differ_in_case():
    text = "MATCH_RECOGNIZE (ORDER BY TS MEASURES A.PRICE AS p PATTERN (A) DEFINE A AS Price > 3)"
    assert cep.match(FRAME, text).to_frame()["p"].tolist() == [5.0, 4.0]


def test_no_rows():
    text = "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS t, COUNT(*) AS n PATTERN (A) DEFINE A AS price > 3)"
    for frame in (FRAME.iloc[:0], FRAME[FRAME["price"] < 3]):
        found = cep.match(frame, text)
        assert found.count() == 0
        assert found.to_frame().dtypes.astype(str).tolist()[0].startswith("datetime64")
        assert "0 matches of 'A'" in repr(found)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    cases("row_patterns", "errors"),
)
def test_errors(text, error, message):
    with pytest.raises(error) as caught:
        cep.match(FRAME, f"MATCH_RECOGNIZE ({text})")
    assert message in str(caught.value)


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_random_queries(seed):
    """The whole table with several partitions and orders, against the oracle."""
    random = Random(seed)
    for _ in range(25):
        query = random_query(random, depth=2)
        rows = random_rows(random, random.randint(1, 12))
        random.shuffle(rows)
        frame = pd.DataFrame(rows).astype({"x": "Int64", "y": "Int64"})
        frame["t"] = frame["t"].astype("datetime64[s]")
        asked = oracle_query(query)
        try:
            expected = result(asked, rows)
        except MatchError:
            with pytest.raises(CepError, match="AFTER MATCH SKIP TO"):
                cep.match(frame, str(query))
            continue
        found = cep.match(frame, str(query)).to_frame()
        assert [plain(row) for row in found.to_dict("records")] == [plain(row) for row in expected], str(
            query
        )


def plain(row: dict) -> dict:
    """Return a row with lists for arrays, floats for numbers, and None for nulls."""
    cells = {}
    for name, cell in row.items():
        if isinstance(cell, dict):
            cells[name] = list(cell.items())  # pandas has a list of pairs for a map
        elif isinstance(cell, list | np.ndarray):
            cells[name] = list(cell)
        elif cell is None or cell is pd.NA or cell != cell:
            cells[name] = None
        elif isinstance(cell, pd.Timestamp):
            cells[name] = cell.timestamp()
        else:
            cells[name] = cell if isinstance(cell, str) else float(cell)
    return cells


@pytest.mark.parametrize("n_rows", [6, 3000])  # by Python, by kernels
@pytest.mark.parametrize("items", ["2, 2.5, 1e300, {many}", "{many}, 4", "3.0, 1000000.5, {many}"])
@pytest.mark.parametrize(
    "dtype",
    ["int64", "float64", "int8"],
)
def test_long_lists(items, dtype, n_rows):
    listed = items.format(many=", ".join(map(str, range(1000, 1500))))
    x = np.resize([1, 2, 3, 4, 5, 6], n_rows).astype(dtype)
    frame = pd.DataFrame({"t": range(n_rows), "x": x + 0.5 if dtype == "float64" else x})
    found = cep.match(
        frame, f"MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS x IN ({listed}))"
    )
    values = eval(f"[{listed}]")
    wanted = [t for t, value in enumerate(frame["x"].tolist()) if value in values]
    assert found.to_frame()["t"].tolist() == wanted


@pytest.mark.parametrize("n_rows", [6, 3000])
def test_the_mean_of_durations_is_a_duration(n_rows):
    frame = pd.DataFrame({"t": range(n_rows), "d": pd.to_timedelta(np.arange(n_rows), unit="s")})
    text = """MATCH_RECOGNIZE (ORDER BY t MEASURES AVG(d) AS d, AVG(A.t) AS t PATTERN (A{3})
        DEFINE A AS t >= 0)"""
    found = cep.match(frame, text).to_frame()
    assert found["d"].dtype.kind == "m" and (found["d"].dt.total_seconds() == found["t"]).all()
    assert len(found) == n_rows // 3


@pytest.mark.parametrize("pattern", ["A B+ C", "A B+ A C?", "A (B C)+ D", "A B* C", "A B{2,} C+", "(A B)+ C"])
@pytest.mark.parametrize("counted", ["*", "A.*", "B.*", "C.*", "B.x", "U.*"])
def test_counted_rows(pattern, counted):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"t": range(5000), "x": rng.integers(0, 3, 5000)})
    text = f"""MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT({counted}) AS n, ARRAY_AGG(CLASSIFIER()) AS names
        PATTERN ({pattern}) SUBSET U = (A, B) DEFINE A AS x = 0, B AS x > 0, C AS x <> 1)"""
    found = cep.match(frame, text).to_frame()
    variables = {"*": "ABCD", "U.*": "AB"}.get(counted, counted[0])
    assert found["n"].tolist() == [sum(map(list(names).count, variables)) for names in found["names"]]
    assert len(found) > 100


def test_what_the_result_does_not_have_is_refused_with_a_reason():
    found = cep.match(FRAME, V)
    calls = [found.count_by_last, lambda: found.take([0]), lambda: found.chunks(2)]
    for call in calls:
        with pytest.raises(
            UnsupportedQueryError, match=r"MATCH_RECOGNIZE has no such matches\. matches\[number\]"
        ):
            call()
    with pytest.raises(UnsupportedQueryError, match="write the aggregates in MEASURES"):
        found.aggregate(n="count()")
    with pytest.raises(UnsupportedQueryError, match="counted exactly"):
        found.count("estimate")
    for call in (found.to_frame, found.lineage):
        with pytest.raises(ResultTooLargeError, match="there are 1 matches, more than limit=0"):
            call(limit=0)
    assert len(found.to_frame(limit=1)) == len(found.to_frame(limit=None)) == 1


def test_its_view_has_the_matches_with_rows():
    found = cep.match(FRAME, V)
    assert repr(found.view()) == "LineageView(1 matches)"
    assert (found.engine.name, found.run) == ("preference", None)
