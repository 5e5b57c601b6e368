"""Queries around MATCH_RECOGNIZE that DuckDB and Spark SQL run, against answers by hand."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, MissingDependencyError, PatternSyntaxError
from tests.support.sizes import seeds

SHOP = pd.DataFrame(
    {
        "c": list("AAAABBB"),
        "d": pd.date_range("2026-01-30", periods=7).astype("datetime64[us]"),
        "p": [5, 4, 3, 6, 9, 7, 8],
    }
)
PLACES = pd.DataFrame({"c": ["A", "B"], "region": ["eu", "us"]})
# A falls to 4 and 3 (two rows, until February 1), B falls to 7 (one row, February 4).
M = (
    "MATCH_RECOGNIZE (PARTITION BY c ORDER BY d MEASURES COUNT(*) AS n, LAST(d) AS last_d, LAST(p) AS low "
    "PATTERN (D+) DEFINE D AS p < PREV(p))"
)

SHAPES = {
    "groups": (
        f"SELECT c, COUNT(*) AS k, AVG(n) AS a FROM s {M} GROUP BY c ORDER BY c",
        [["A", 1, 2], ["B", 1, 1]],
    ),
    "with": (
        f"WITH x AS (SELECT * FROM s WHERE p > 3) SELECT c, n FROM x {M} ORDER BY c",
        [["A", 1], ["B", 1]],
    ),
    "a long list in with": (
        "WITH x AS (SELECT * FROM s WHERE p IN (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)) "
        f"SELECT c, n FROM x {M} WHERE n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10) ORDER BY c",
        [["A", 2], ["B", 1]],
    ),
    "query in from": (f"SELECT c, n FROM (SELECT * FROM s WHERE c = 'A') {M}", [["A", 2]]),
    "join": (
        f"SELECT m.c, region FROM s {M} AS m JOIN r AS o ON m.c = o.c ORDER BY 1",
        [["A", "eu"], ["B", "us"]],
    ),
    "matches in with": (
        f"WITH m AS (SELECT * FROM s {M}) SELECT region, SUM(n) AS n FROM m JOIN r USING (c) "
        "GROUP BY region HAVING SUM(n) > 1",
        [["eu", 2]],
    ),
    "window function": (
        f"SELECT c, ROW_NUMBER() OVER (ORDER BY n) AS place FROM s {M} ORDER BY place",
        [["B", 1], ["A", 2]],
    ),
    "union": (
        f"SELECT c FROM s {M} WHERE n >= 2 UNION ALL SELECT c FROM r ORDER BY c",
        [["A"], ["A"], ["B"]],
    ),
    "two clauses": (
        f"SELECT x.c FROM (SELECT c, n FROM s {M}) x WHERE x.n = (SELECT MAX(n) FROM s {M})",
        [["A"]],
    ),
    "entries of with": (
        f"WITH a AS (SELECT * FROM s WHERE p > :least), b(c, d, p) AS (SELECT * FROM a) "
        f"SELECT c, COUNT(*) AS k FROM b AS bb {M} GROUP BY c ORDER BY c",
        [["A", 1], ["B", 1]],
    ),
    "distinct": (f"SELECT DISTINCT s.c FROM s {M} ORDER BY c", [["A"], ["B"]]),
    "names in upper case, comments": (
        f"select /* match_recognize ( */ C, count(*) AS k from S {M} -- match_recognize (\n GROUP BY C "
        "ORDER BY c;",
        [["A", 1], ["B", 1]],
    ),
    "a table with the name of an entry": (
        f"WITH s AS (SELECT * FROM s WHERE c = 'B') SELECT c, SUM(n) AS n FROM s {M} GROUP BY c",
        [["B", 1]],
    ),
    "a function of the outer engine": (
        f"SELECT date_trunc('month', last_d) AS month, SUM(low) AS low FROM s {M} GROUP BY 1 ORDER BY 1",
        [[pd.Timestamp("2026-02-01"), 10]],
    ),
}
DUCKDB_ONLY = {
    "qualify": (f"SELECT c, n FROM s {M} QUALIFY n = MAX(n) OVER ()", [["A", 2]]),
    "group by all": (
        f"SELECT c, any_value(n) AS n FROM s {M} GROUP BY ALL ORDER BY ALL",
        [["A", 2], ["B", 1]],
    ),
    "a recursive entry with the name of a table": (
        "WITH RECURSIVE s(c, d, p) AS (SELECT 'Z', 1, 5 UNION ALL SELECT c, d + 1, p - 1 FROM s WHERE p > 3) "
        f"SELECT c, SUM(n) AS n FROM s {M} GROUP BY c",
        [["Z", 2]],
    ),
    "a function of the list": (f"SELECT c, jaccard(c, 'A') AS m FROM s {M}", [["A", 1.0], ["B", 0.0]]),
}


def values_of(frame):
    return frame.to_numpy().tolist()


@pytest.mark.parametrize("name", [*SHAPES, *DUCKDB_ONLY])
def test_shapes_in_duckdb(name):
    version = pytest.importorskip("duckdb").__version__
    if version.startswith("1.1.") and name in (
        "a table with the name of an entry",
        "a function of the outer engine",
    ):
        pytest.skip("DuckDB 1.1 has other rules")
    text, expected = {**SHAPES, **DUCKDB_ONLY}[name]
    params = {"least": 3} if ":least" in text else None
    found = cep.sql(text, s=SHOP, r=PLACES, params=params)
    assert values_of(found.to_frame()) == expected
    assert found.count() == len(expected) and "around MATCH_RECOGNIZE" in repr(found)


@pytest.mark.spark
def test_shapes_in_spark(spark):
    shop, places = spark.createDataFrame(SHOP), spark.createDataFrame(PLACES)
    for text, expected in SHAPES.values():
        params = {"least": 3} if ":least" in text else None
        found = cep.sql(text, s=shop, r=places, params=params)
        assert values_of(found.to_frame().toPandas()) == expected, text
    for wrong in (
        "reflect('java.lang.System', 'exit')", "'\\'", "'$$'", "c FROM parquet.`/etc` WHERE 1",
        "TRANSFORM (c) USING 'cat' FROM s WHERE 1", "TRANSFORM (c) USING r'cat' FROM s WHERE 1",
    ):  # fmt: skip
        with pytest.raises(CepError, match="Spark"):
            cep.sql(f"SELECT {wrong}, COUNT(*) FROM s {M} GROUP BY 1", s=shop)
    with pytest.raises(CepError, match="not both"):
        cep.sql(SHAPES["join"][0], s=shop, r=PLACES)


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_random_frames_agree_with_pandas(seed):
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 30))
    frame = pd.DataFrame({"c": rng.integers(0, 3, n), "d": np.arange(n), "p": rng.integers(0, 9, n)})
    text = (
        "WITH x AS (SELECT * FROM s WHERE p <> 4) SELECT c, COUNT(*) AS k, SUM(n) AS n, MIN(low) AS low "
        f"FROM x {M} GROUP BY c ORDER BY c"
    )
    falls = cep.sql(f"SELECT * FROM s {M}", s=frame[frame.p != 4]).to_frame()
    expected = falls.groupby("c").agg(k=("n", "size"), n=("n", "sum"), low=("low", "min")).reset_index()
    assert values_of(cep.sql(text, s=frame).to_frame()) == values_of(expected)


def test_kinds_of_frames_and_types():
    polars, text = (
        pytest.importorskip("polars"),
        f"SELECT c, SUM(n) AS n FROM s {M} GROUP BY c ORDER BY c",
    )
    pytest.importorskip("duckdb")
    found = cep.sql(text, s=polars.from_pandas(SHOP)).to_frame()
    assert isinstance(found, polars.DataFrame) and found.rows() == [("A", 2), ("B", 1)]
    table = cep.sql(text, s=pa.Table.from_pandas(SHOP)).to_frame()
    assert isinstance(table, pa.Table) and table.schema.field("n").type == pa.int64()
    zoned = SHOP.assign(d=SHOP.d.dt.tz_localize("Asia/Tokyo"))
    days = cep.sql(
        f"SELECT date_trunc('day', last_d) AS d FROM s {M} GROUP BY 1 ORDER BY 1", s=zoned
    ).to_frame()
    assert days.d.tolist() == [
        pd.Timestamp("2026-02-01", tz="Asia/Tokyo"),
        pd.Timestamp("2026-02-04", tz="Asia/Tokyo"),
    ]
    both = cep.sql(f"SELECT * FROM s {M} m JOIN r ON m.c = r.c ORDER BY n", s=SHOP, r=PLACES).to_frame()
    assert list(both) == ["c", "n", "last_d", "low", "c_1", "region"]
    lasted = M.replace("LAST(p) AS low", "LAST(d) - FIRST(d) AS low")
    longest = cep.sql(f"SELECT MAX(low) AS longest FROM s {lasted}", s=SHOP).to_frame()
    assert longest.longest.tolist() == [pd.Timedelta(days=1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT * FROM s {M} m WHER n > 1", "expected WHERE, ORDER BY or LIMIT. Did you mean 'WHERE'"),
        (f"SELECT nn FROM s {M} GROUP BY nn", 'column "nn" not found'),
        (f"SELECT c, COUNT(* FROM s {M} GROUP BY c", "is never closed"),
        (f"SELECT c, COUNT(*) FROM s {M.replace('D+', 'D+ E++')} GROUP BY c", "PATTERN"),
        (f"SELECT c FROM s {M.replace('PREV', 'PREVV')} GROUP BY c", "no function 'PREVV'"),
        (f"SELECT nofunction(c) FROM s {M}", "no function 'NOFUNCTION'"),
        (f"SELECT c FROM s JOIN r USING (c) {M} GROUP BY c", "put the join into brackets"),
        (f"SELECT c FROM nowhere {M} GROUP BY c", "nowhere"),
        (f"SELECT {M} GROUP BY c", "FROM t MATCH_RECOGNIZE"),
        # Files, settings, other statements and Python's variables are closed to the text.
        (f"SELECT c FROM read_csv('/etc/passwd') {M} GROUP BY c", "Permission Error"),
        (f"SELECT c FROM s {M}, '/etc/passwd' AS f GROUP BY c", "does not exist"),
        (f"SELECT c FROM s {M}, SHOP GROUP BY c", "SHOP"),
        (f"SELECT c FROM s {M} GROUP BY c; SET lock_configuration = false", "cep.sql"),
        (f"COPY (SELECT c FROM s {M}) TO '/tmp/never.csv'", "is one SELECT"),
    ],
)
def test_what_does_not_run(text, message):
    pytest.importorskip("duckdb")
    with pytest.raises(CepError, match=message.replace("(", r"\(")):
        cep.sql(text, s=SHOP, r=PLACES).to_frame()


def test_without_duckdb_the_error_says_what_comes_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        MissingDependencyError, match=r"WITH does not run here(.|\n)*in FROM or WITH comes first"
    ):
        cep.sql(SHAPES["with"][0], s=SHOP)
    with pytest.raises(PatternSyntaxError, match="Did you mean 'WHERE'"):
        cep.sql(f"SELECT * FROM s {M} m WHER n > 1", s=SHOP)


def test_queries_that_cepkit_runs_alone_do_not_load_duckdb():
    code = (
        "import sys, pandas, cepkit\nframe = pandas.DataFrame({'t': [1, 2]})\n"
        "cepkit.sql('SELECT * FROM f MATCH_RECOGNIZE (ORDER BY t PATTERN (A) DEFINE A AS t > 1)', f=frame)\n"
        "assert 'duckdb' not in sys.modules and 'cepkit.results.rows_around' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_long_lists_around_the_clause_are_refused_and_those_inside_are_not():
    """DuckDB read 78,000 constants in three seconds."""
    many = ", ".join(map(str, range(30_000)))
    around = "SELECT s.p FROM (SELECT * FROM s {}) AS m JOIN s USING (c) WHERE s.p IN ({})"
    inside = cep.sql(around.format(M.replace("p < PREV(p)", f"p IN ({many})"), "9"), s=SHOP)
    assert inside.count() == 1
    with pytest.raises(CepError, match=r"characters around MATCH_RECOGNIZE: 1\d\d,\d{3}; .* and join it"):
        cep.sql(around.format(M, many), s=SHOP)
