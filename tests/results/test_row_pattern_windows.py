"""A WINDOW with a row pattern on frames, against the oracle and by eye."""

from __future__ import annotations

from random import Random

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError, PredicateError, UnsupportedQueryError
from tests.oracle.generate_match_recognize import random_rows, random_window
from tests.oracle.match_recognize import MatchError, partitions, result_of_window
from tests.support.row_patterns import oracle_query
from tests.support.sizes import seeds

FRAME = pd.DataFrame(
    {"k": list("ababab"), "t": [1, 1, 2, 2, 3, 3], "x": [5, 1, 3, 2, 4, 3]}, index=list("uvwxyz")
)
ALL = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"


def selected(columns: str, inside: str, *, around: str = "", frame=FRAME):
    text = f"SELECT {columns} FROM t WINDOW w AS (PARTITION BY k ORDER BY t {inside}) {around}"
    return cep.match(frame, text)


def rows_of(frame: pd.DataFrame) -> list[list]:
    return [
        [None if not isinstance(v, list) and pd.isna(v) else v for v in row] for row in frame.to_numpy(object)
    ]


def test_rows_stay_in_the_order_of_the_frame():
    inside = f"MEASURES LAST(x) AS bottom, CLASSIFIER() AS label {ALL} PATTERN (A B+) DEFINE B AS x < PREV(x)"
    found = selected("k, bottom OVER w, label OVER w AS label", inside)
    assert found.count() == 1
    assert rows_of(found.to_frame()) == [["a", 3, "B"], *([key, None, None] for key in "babab")]
    assert "1 match of 'A B+' in the frames of 6 rows" in repr(found)
    assert selected("*", inside).to_frame().equals(FRAME.reset_index(drop=True))


def test_a_window_has_rows_and_no_matches_of_its_own():
    found = selected("k, x OVER w AS x", f"MEASURES LAST(x) AS x {ALL} PATTERN (A) DEFINE A AS x > 0")
    assert len(found) == found.count() == 6 and found
    calls = [found.head, found.tag, found.lineage, found.plot, found.view, lambda: found[0], lambda: [*found]]
    for call in calls:
        with pytest.raises(UnsupportedQueryError, match="a WINDOW has rows, and no matches of its own"):
            call()
    with pytest.raises(UnsupportedQueryError, match="rows='all': a WINDOW has rows"):
        found.to_frame("all")


def test_functions_over_the_window():
    inside = f"{ALL} AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS x > PREV(x)"
    columns = """k, x - SUM(x) OVER w AS rest, COUNT(*) OVER w AS n, ROW_NUMBER() OVER w AS i,
      FIRST_VALUE(x) OVER w AS first, LAST_VALUE(x) OVER w AS last, NTH_VALUE(x, 2) OVER w AS second"""
    found = selected(columns, inside, around="ORDER BY i DESC, k LIMIT 4").to_frame()
    assert rows_of(found) == [
        ["a", None, 0, 3, None, None, None], ["b", None, 0, 3, None, None, None],
        ["a", -4, 2, 2, 3, 4, 4], ["b", -3, 2, 2, 2, 3, 3],
    ]  # fmt: skip


def test_where_comes_before_the_window():
    text = f"""SELECT t, n OVER w FROM rows_ AS r WHERE r.k = 'a' AND x <> 3 WINDOW w AS (
      ORDER BY t MEASURES COUNT(*) AS n {ALL} PATTERN (A+) DEFINE A AS true)"""
    assert rows_of(cep.match(FRAME, text).to_frame()) == [[1, 2], [3, None]]
    assert rows_of(cep.sql(text, rows_=FRAME).to_frame()) == [[1, 2], [3, None]]


@pytest.mark.parametrize("kind", [pa.Table.from_pandas, pl.from_pandas], ids=["arrow", "polars"])
def test_other_frames_give_their_own_kind(kind):
    frame = kind(FRAME)
    inside = (
        "MEASURES LAST(x) AS y ROWS BETWEEN CURRENT ROW AND t FOLLOWING SEEK PATTERN (A) DEFINE A AS x < 3"
    )
    found = selected("y OVER w AS y", inside, frame=frame).to_frame()
    assert type(found) is type(frame)
    values = found["y"].to_pylist() if isinstance(found, pa.Table) else found["y"].to_list()
    assert values == [None, 1, None, 2, None, None]


@pytest.mark.parametrize(
    ("columns", "frame", "error", "message"),
    [
        ("x", "k FOLLOWING", CepError, "the rows that follow are whole numbers"),
        ("x", "z FOLLOWING", ColumnNotFoundError, "'z' not found"),
        ("zz", "1 FOLLOWING", ColumnNotFoundError, "'zz' not found"),
        ("NTH_VALUE(x, 0) OVER w AS y", "1 FOLLOWING", PredicateError, "whole number from 1"),
        ("ROW_NUMBER(x) OVER w AS y", "1 FOLLOWING", PredicateError, "takes 0 arguments, 1 given"),
    ],
)
def test_errors(columns, frame, error, message):
    with pytest.raises(error) as caught:
        inside = f"ROWS BETWEEN CURRENT ROW AND {frame} PATTERN (A) DEFINE A AS x > 2"
        selected(columns, inside).to_frame()
    assert message in str(caught.value)


def test_windows_to_the_end_take_linear_time():
    frame = pd.DataFrame({"t": range(5000), "x": 1})
    for condition in ("x > 5", "x < PREV(x)"):
        text = f"""SELECT n OVER w FROM t WINDOW w AS (ORDER BY t MEASURES COUNT(*) AS n {ALL}
          PATTERN (A+ B+) DEFINE B AS {condition})"""
        assert cep.match(frame, text).count() == 0


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_random_windows(seed):
    """The whole table with several partitions and orders, against the oracle."""
    random = Random(seed)
    for _ in range(15):
        query = random_window(random)
        rows = random_rows(random, random.randint(1, 12))
        for i, row in enumerate(rows):
            row["i"] = i
        shuffled = random.sample(rows, len(rows))
        frame = pa.Table.from_pylist(shuffled).cast(
            pa.schema(
                [("k", pa.string()), ("t", pa.timestamp("s")), *((n, pa.int64()) for n in ("x", "y", "i"))]
            )
        )
        asked = oracle_query(query.rows)
        expected: dict[int, dict] = {}
        try:
            for partition in partitions(asked, shuffled):
                n_after = len(partition) if query.frame_end is None else query.frame_end
                ends = [min(len(partition), i + 1 + n_after) for i in range(len(partition))]
                for row in result_of_window(asked, partition, ends, seek=query.seek):
                    expected[row["i"]] = row
        except MatchError:
            with pytest.raises(CepError, match="AFTER MATCH SKIP TO"):
                cep.match(frame, str(query))
            continue
        found = cep.match(frame, str(query)).to_frame().to_pylist()
        names = [name for name, _ in query.rows.measures]
        wanted = [[plain(expected[row["i"]][name]) for name in names] for row in shuffled]
        assert [[plain(row[f"o{i}"]) for i in range(len(names))] for row in found] == wanted, str(query)


def plain(value):
    """Return maps as lists of pairs, and times as seconds."""
    if isinstance(value, dict):
        return list(value.items())
    return int(value.timestamp()) if hasattr(value, "timestamp") else value
