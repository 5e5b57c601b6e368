"""`cepkit.sql` on frames by name, and what its result offers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, PatternSyntaxError, UnsupportedQueryError
from tests.support.tables import cases

WALK = pd.DataFrame(
    {"k": list("bababab"), "t": [0, 0, 1, 1, 2, 2, 3], "x": [5, 1, 3, 2, 2, 1, 4]}, index=list("pqrstuv")
)
FALL = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(x) AS top, LAST(D.x) AS low
  PATTERN (S D+) DEFINE D AS x < PREV(x))"""
SELECT = f"SELECT m.k, m.top - low AS depth FROM walk {FALL} AS m ORDER BY m.top"


def test_a_table_by_name():
    found = cep.sql(SELECT, walk=WALK, other=WALK.iloc[:0])
    assert type(found) is cep.Matches
    assert found.to_frame().to_numpy().tolist() == [["a", 1], ["b", 3]]
    assert cep.sql(SELECT, WALK=WALK).count() == 2  # SQL ignores the case of names
    text = SELECT.replace("FROM walk", 'FROM "my walk" AS w').replace("m.k", "w.k")
    assert cep.sql(text, **{"my walk": WALK}).count() == 2


@pytest.mark.parametrize(
    ("text", "tables", "error", "message"),
    [
        (SELECT, {}, CepError, "FROM walk: no table is given; write cep.sql(text, walk=frame)"),
        (SELECT, {"walks": WALK}, CepError, "FROM walk: no such table. Did you mean 'walks'?"),
        (SELECT, {"walk": "walk.csv"}, CepError, "'walk.csv' is the path of a file"),
        (FALL, {"walk": WALK}, PatternSyntaxError, "the text names no table; write SELECT * FROM t"),
        (
            SELECT.replace("m.k,", "m.low AS depth,"),
            {"walk": WALK},
            CepError,
            "two columns have the name 'depth'",
        ),
        (
            "SELECT * FROM walk",
            {"walk": WALK},
            PatternSyntaxError,
            "without MATCH_RECOGNIZE has no row pattern",
        ),
    ],
    ids=["no table", "wrong name", "a file", "no FROM", "same name", "no pattern"],
)
def test_mistakes(text, tables, error, message):
    with pytest.raises(error) as caught:
        cep.sql(text, **tables)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message", "underlined"),
    cases("select", "errors with a place"),
)  # fmt: skip
@pytest.mark.parametrize("call", [cep.match, cep.explain, cep.funnel])
def test_errors_of_columns_and_types_name_the_clause_and_the_place(call, text, message, underlined):
    clause = text.split()[0]
    parts = {"ORDER": "ORDER BY t", "DEFINE": "DEFINE D AS x < 3", clause: text}
    names = ["PARTITION", "ORDER", "MEASURES"]
    whole = f"{' '.join(parts.get(name, '') for name in names)} PATTERN (S D+) {parts['DEFINE']}"
    with pytest.raises(CepError) as caught:
        call(WALK, f"MATCH_RECOGNIZE ({whole})")
    assert message in str(caught.value)
    assert underlined_text(caught.value) == underlined


@pytest.mark.parametrize(
    ("select", "end", "message", "underlined"),
    [
        ("low, m.lw", "", "SELECT: column 'lw' not found. Did you mean 'low'? Columns: ['k',", "m.lw"),
        ("x", "", "The table has x, but ONE ROW PER MATCH shows only PARTITION BY and MEASURES; "
         "write MEASURES LAST(x) AS x, or ALL ROWS PER MATCH", "x"),
        ("low", "WHERE top > 1 AND lov > 2", "WHERE: column 'lov' not found.", "lov"),
        ("low", "WHERE k > 2", "WHERE: k > 2 compares texts with numbers", "k > 2"),
        ("low", "ORDER BY k, lov", "ORDER BY: column 'lov' not found.", "lov"),
        ("low", "ORDER BY low + lov", "ORDER BY: column 'lov' not found.", "lov"),
        ("*", "ORDER BY 4", "ORDER BY: the result has 3 columns, and no number 4", "4"),
    ],
)  # fmt: skip
def test_errors_of_the_select_come_before_the_search(select, end, message, underlined):
    with pytest.raises(CepError) as caught:
        cep.sql(f"SELECT {select} FROM walk {FALL} m {end}", walk=WALK)
    assert message in str(caught.value)
    assert "MATCH_RECOGNIZE:" not in str(caught.value)
    assert underlined_text(caught.value) == underlined


def test_errors_of_a_window_name_the_clause():
    text = """SELECT {} FROM walk {} WINDOW w AS (ORDER BY t MEASURES LAST(x) AS low
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (S D+) DEFINE D AS x < PREV(x))"""
    for listed, where, clause in [("xx", "", "SELECT"), ("x", "WHERE xx > 1", "WHERE")]:
        with pytest.raises(CepError, match=f"{clause}: column 'xx'") as caught:
            cep.sql(text.format(listed, where), walk=WALK)
        assert underlined_text(caught.value) == "xx"


def test_a_result_without_measures_counts_the_rows_of_its_matches():
    with pytest.raises(CepError, match=r"column 'a' not found. Columns: \['rows'\]"):
        cep.sql("SELECT m.a FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > 1) m", t=WALK)


def underlined_text(error: CepError) -> str:
    """Return what the carets of an error underline."""
    *_, line, carets = str(error).splitlines()
    return "".join(char for char, caret in zip(line, carets, strict=False) if caret == "^")


def test_parameters():
    text = "SELECT x FROM t MATCH_RECOGNIZE (ALL ROWS PER MATCH PATTERN (A) DEFINE A AS x > :least)"
    assert cep.sql(text, params={"least": 3}, t=WALK).to_frame()["x"].tolist() == [5, 4]


# Worked out by hand. The values of b by t are 5, 3, 2, 4, with the match 5 3 2; those of a are 1, 2, 1.
@pytest.mark.parametrize(
    ("listed", "end", "rows"),
    cases("select", "the SELECT"),
)
def test_the_select(listed, end, rows):
    text = f"SELECT {listed} FROM walk {FALL} m {end}"
    found = cep.sql(text, walk=WALK)
    assert found.to_frame().to_numpy().tolist() == rows
    assert len(found.head(9)) == len(found.sample(9)) == len(rows)
    assert cep.sql(text, walk=pa.Table.from_pandas(WALK)).to_frame().num_rows == len(rows)


def test_columns_without_a_name_have_their_text():
    made = cep.sql(f"SELECT *, m.top-low, top*2 twice FROM walk {FALL} m", walk=WALK).to_frame()
    assert list(made) == ["k", "top", "low", "top - low", "twice"]


def test_frames_of_other_kinds():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("SELECT * FROM WALK")
    for frame, kind in [
        (pa.Table.from_pandas(WALK), pa.Table), (pl.from_pandas(WALK), pl.DataFrame), (relation, pa.Table)
    ]:  # fmt: skip
        for found in (cep.sql(SELECT, walk=frame), cep.match(frame, SELECT)):
            made = found.to_frame()
            assert isinstance(made, kind)
            assert pa.table(made).to_pydict() == {"k": ["a", "b"], "depth": [1, 3]}
    found = cep.sql(SELECT, walk=relation).to_frame()
    assert duckdb.sql("SELECT max(depth) FROM found").fetchall() == [(3,)]


# --- the result


def test_the_result_is_used_as_matches_are():
    found = cep.match(WALK, FALL)
    assert (len(found), bool(found), found.count()) == (2, True, 2)
    assert [match["low"] for match in found] == [2, 1] and found[-1]["k"] == "a"
    assert found[0].rows.index.tolist() == ["p", "r", "t"]
    assert found[0].rows["variable"].tolist() == ["S", "D", "D"]
    assert found.head(1).to_numpy().tolist() == [["b", 5, 2]]
    with pytest.raises(IndexError, match="no match has number 2"):
        found[2]
    with pytest.raises(TypeError, match="matches are numbered"):
        found["low"]
    assert not cep.match(WALK, FALL.replace("x < PREV(x)", "x < 0"))


def test_numbers_of_matches_count_all_partitions():
    found = cep.match(WALK, FALL)
    assert found.lineage().to_dict("list") == {
        "match": [0, 0, 0, 1, 1], "variable": ["S", "D", "D", "S", "D"],
        "position": [0, 2, 4, 3, 5], "index": ["p", "r", "t", "s", "u"],
    }  # fmt: skip
    assert found.lineage(1)["match"].tolist() == [1, 1]
    rows = found.to_frame("all")
    assert rows.columns.tolist() == ["match", "variable", "k", "t", "x"]
    assert rows.index.tolist() == ["p", "r", "t", "s", "u"]


def test_tags():
    for tagged in (WALK.cep.tag(FALL), cep.sql(SELECT, walk=WALK).tag()):
        assert tagged["match"].tolist() == [0, pd.NA, 0, 1, 0, 1, pd.NA]
        assert tagged["variable"].tolist() == ["S", pd.NA, "D", "S", "D", "D", pd.NA]
        assert tagged.index.tolist() == list("pqrstuv")
    overlapping = FALL.replace("PATTERN", "AFTER MATCH SKIP TO NEXT ROW PATTERN")
    with pytest.raises(CepError, match="matched rows belong to several matches"):
        WALK.cep.tag(overlapping)
    assert len(cep.match(WALK, overlapping).to_frame("all")) == 7


def test_rows_that_are_excluded_from_the_output_are_matched_rows():
    text = FALL.replace("PATTERN (S D+)", "ALL ROWS PER MATCH PATTERN (S {- D+ -})").replace(
        "MEASURES FIRST(x) AS top, LAST(D.x) AS low", ""
    )
    found = cep.match(WALK, text)
    assert len(found.to_frame()) == 2 and len(found.lineage()) == 5


def test_empty_matches_are_matches_without_rows():
    found = cep.match(
        WALK, "MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A*) DEFINE A AS x > 4)"
    )
    assert [match["n"] for match in found] == [1, 0, 0, 0, 0, 0, 0]
    assert found.lineage()["match"].tolist() == [0] and len(found[1].rows) == 0


def test_samples_are_rows_of_the_result():
    frame = pd.DataFrame({"x": range(200)})
    found = cep.match(frame, "MATCH_RECOGNIZE (MEASURES A.x AS x PATTERN (A) DEFINE A AS x % 2 = 0)")
    drawn = found.sample(20, seed=3)["x"].to_numpy()
    assert len(drawn) == 20 and np.all(np.diff(drawn) > 0) and np.all(drawn % 2 == 0)
    assert found.sample(20, seed=3)["x"].tolist() == drawn.tolist() != found.sample(20, seed=4)["x"].tolist()
    assert len(found.sample(1000)) == 100


def test_what_is_shown():
    found = cep.match(WALK, FALL)
    assert repr(found).splitlines()[0] == "2 matches of 'S D+' in 7 rows, 2 partitions by k"
    assert "<table" in found._repr_html_()
    many = cep.match(
        pd.DataFrame({"x": range(30)}), "MATCH_RECOGNIZE (MEASURES A.x AS y PATTERN (A) DEFINE A AS true)"
    )
    assert repr(many).splitlines()[-1] == "… 20 more rows"
    assert "to_frame()" in many._repr_html_()


# --- Spark


@pytest.fixture(scope="module")
def walk_on_spark(spark):
    return spark.createDataFrame(pa.Table.from_pandas(WALK, preserve_index=False))


def rows_of(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_spark_is_lazy_and_gives_the_same_rows(spark, walk_on_spark):
    found = walk_on_spark.cep.match(FALL)
    spark.sparkContext.setJobGroup("lazy", "lazy")
    lazy = cep.sql(SELECT, walk=walk_on_spark).to_frame()
    assert "nothing has run yet" in repr(found) and "partitioned by k: k: string" in repr(found)
    assert found._repr_html_().startswith("<p>matches of")
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("lazy")
    spark.sparkContext.setJobGroup("", "")
    assert [tuple(row) for row in lazy.collect()] == [("a", 1), ("b", 3)]
    assert found.count() == len(found) == 2 and found
    assert rows_of(found.to_frame()) == [("a", 2, 1), ("b", 5, 2)]
    assert sorted(found.head(5)["low"]) == [1, 2]
    assert found.sample(1, seed=1).equals(found.sample(1, seed=1))


def test_keys_and_rows_of_the_select_on_spark(walk_on_spark):
    text = f"SELECT *, top - low, k key FROM walk {FALL} m ORDER BY 4 DESC, -top NULLS FIRST LIMIT 1 OFFSET 1"
    made = cep.sql(text, walk=walk_on_spark).to_frame()
    assert made.columns == ["k", "top", "low", "top - low", "key"]
    assert [tuple(row) for row in made.collect()] == [("a", 2, 1, 1, "a")]


def test_the_select_on_spark(walk_on_spark):
    text = """SELECT x, n * 2 AS twice FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
      MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH PATTERN (A) DEFINE A AS x > 1) AS m
      WHERE m.x < 5 ORDER BY m.x DESC, k, t LIMIT 3"""
    expected = cep.sql(text, t=WALK).to_frame().to_numpy().tolist()
    assert [list(row) for row in cep.sql(text, t=walk_on_spark).to_frame().collect()] == expected


def test_matched_rows_on_spark(walk_on_spark):
    """Spark sorts partitions by their columns, so a comes first."""
    found = walk_on_spark.cep.match(FALL)
    lineage = found.lineage()
    assert lineage.columns == ["match", "variable", "k", "t"]
    assert [tuple(row) for row in lineage.collect()] == [
        (0, "S", "a", 1), (0, "D", "a", 2), (1, "S", "b", 0), (1, "D", "b", 1), (1, "D", "b", 2)
    ]  # fmt: skip
    assert rows_of(found.lineage(1)) == [(1, "D", "b", 1), (1, "D", "b", 2), (1, "S", "b", 0)]
    assert found.to_frame("all").columns == ["match", "variable", "k", "t", "x"]
    tagged = walk_on_spark.cep.tag(FALL)
    assert tagged.columns == ["k", "t", "x", "match", "variable"]
    assert rows_of(tagged)[:3] == [("a", 0, 1, None, None), ("a", 1, 2, 0, "S"), ("a", 2, 1, 0, "D")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FALL.replace("ORDER BY t", ""), "ORDER BY is missing"),
        (FALL.replace("LAST(D.x)", "NULL"), "'low' has no type before it runs"),
        (FALL.replace("PARTITION BY k", "PARTITION BY kk"), "'kk' not found"),
    ],
)
def test_errors_on_spark_come_before_any_job(walk_on_spark, text, message):
    with pytest.raises(CepError, match=message):
        walk_on_spark.cep.match(text)


WINDOW = """SELECT k, x, bottom OVER w AS bottom, ROW_NUMBER() OVER w AS i FROM t WHERE t < 3 WINDOW w AS (
  PARTITION BY k ORDER BY t MEASURES LAST(x) AS bottom ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
  PATTERN (S D+) DEFINE D AS x < PREV(x)) ORDER BY bottom, k DESC, i LIMIT 5"""


def test_a_window_on_spark(spark, walk_on_spark):
    spark.sparkContext.setJobGroup("window", "window")
    found = cep.sql(WINDOW, t=walk_on_spark)
    lazy = found.to_frame()
    assert repr(found).startswith(
        "matches of 'S D+' in the frames of a Spark frame, partitioned by k: k: string, x: bigint, "
        "bottom: bigint, i: bigint"
    )
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("window")
    spark.sparkContext.setJobGroup("", "")
    here = cep.sql(WINDOW, t=WALK)
    expected = here.to_frame().astype(object)
    assert [tuple(row) for row in lazy.collect()] == [
        tuple(None if pd.isna(value) else value for value in row) for row in expected.to_numpy()
    ]
    assert found.count() == here.count() == 2
    assert found.query == here.query


def test_ties_that_where_leaves_out_are_no_error(walk_on_spark):
    with pytest.warns(cep.CepWarning, match="without PARTITION BY all rows are one partition"):
        found = cep.sql(WINDOW.replace("PARTITION BY k ", "").replace("t < 3", "k = 'a'"), t=walk_on_spark)
    assert found.count() == 1
    with pytest.warns(cep.CepWarning, match="without PARTITION BY"):
        ties = cep.sql(WINDOW.replace("PARTITION BY k ", ""), t=walk_on_spark)
    with pytest.raises(cep.OrderError, match=r"order_by=\['t'\]: 3 of the 6 events"):
        ties.count()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WINDOW.replace("ORDER BY t", ""), "ORDER BY is missing"),
        (WINDOW.replace("LAST(x) AS", "NULL AS"), "'bottom' has no type before it runs"),
        (WINDOW.replace("BY k ", "BY kk "), "'kk' not found"),
        (WINDOW.replace("WHERE t", "WHERE tt"), "'tt' not found"),
    ],
)
def test_errors_of_a_window_on_spark_come_before_any_job(walk_on_spark, text, message):
    with pytest.raises(CepError, match=message):
        cep.sql(text, t=walk_on_spark)


def test_time_outs_on_spark(spark):
    """The last time of the partition b says that the time of the partition a has passed."""
    frame = pd.DataFrame({"k": list("aaabcc"), "t": [0, 1, 2, 5, 1, 2], "x": [1, 2, 2, 9, 1, 3]})
    frame["t"] = pd.to_datetime(frame["t"], unit="s").astype("datetime64[us]")
    text = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
      MEASURES COUNT(*) AS n, TIMED_OUT() AS late, MATCH_NUMBER() AS number
      ONE ROW PER MATCH WITH TIMED OUT MATCHES PATTERN (A B* C) WITHIN INTERVAL '5' SECOND
      DEFINE A AS x = 1, B AS x = 2, C AS x = 3)"""
    expected = [("a", 3, True, None), ("c", 2, False, 1)]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert [tuple(row.values()) for row in cep.sql(text, t=table).to_frame().to_pylist()] == expected
    there = spark.createDataFrame(table)
    spark.sparkContext.setJobGroup("time-outs", "time-outs")
    found = cep.sql(text, t=there)
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("time-outs")
    spark.sparkContext.setJobGroup("", "")
    assert rows_of(found.to_frame()) == expected
    assert found.count() == 1
    assert rows_of(cep.sql(text, t=there.where("k <> 'b'")).to_frame()) == expected[1:]


def test_the_greatest_and_the_least_value_of_rows_that_python_searches():
    """``WITH TIMED OUT MATCHES`` runs in Python."""
    times = pd.to_datetime(range(7), unit="s")
    frame = pd.DataFrame({"t": times, "x": [3, 1, 5, 4, 6, 0, 9]})
    text = """SELECT * FROM frame MATCH_RECOGNIZE (ORDER BY t MEASURES C.x AS x ONE ROW PER MATCH WITH TIMED
        OUT MATCHES PATTERN (A A A C) WITHIN INTERVAL '9' SECOND DEFINE C AS {})"""
    rows = [cep.sql(text.format(c), frame=frame).to_frame() for c in ("x > MAX(A.x)", "x < MIN(A.x)")]
    assert [found["x"].tolist() for found in rows] == [[6], [0]]


def test_what_spark_refuses(spark, walk_on_spark):
    with pytest.warns(cep.CepWarning, match="without PARTITION BY all rows are one partition"):
        ties = walk_on_spark.cep.match(FALL.replace("PARTITION BY k", ""))
    with pytest.raises(cep.OrderError, match=r"order_by=\['t'\]: 3 of the 7 events"):
        ties.count()
    with pytest.raises(UnsupportedQueryError, match="not taken one by one"):
        iter(walk_on_spark.cep.match(FALL))
    with pytest.raises(UnsupportedQueryError, match="not taken one by one"):
        walk_on_spark.cep.match(FALL)[0]
    stream = spark.readStream.format("rate").load()
    with pytest.raises(cep.OrderError, match="the stream has no watermark"):
        stream.cep.match("MATCH_RECOGNIZE (ORDER BY value PATTERN (A) DEFINE A AS value > 1)")


def test_a_misspelt_function_has_a_hint():
    text = "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A+) DEFINE A AS x > PREVV(x))"
    with pytest.raises(cep.CepError, match=r"DEFINE A: no function 'PREVV'.*Did you mean 'PREV'\?"):
        cep.sql(text, t=pd.DataFrame({"x": [1, 2]}))
