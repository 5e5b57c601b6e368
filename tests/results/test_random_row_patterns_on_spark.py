"""Random queries of MATCH_RECOGNIZE on Spark: the same rows as in memory, several queries in one job."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from functools import reduce
from random import Random

import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.language.match_recognize.query import RowPatternQuery
from tests.oracle.generate_match_recognize import random_query, random_rows, random_window
from tests.support.sizes import seeds
from tests.support.spark_cases import check_over_connect

pytest.importorskip("pyspark")

SCHEMA = pa.schema({"k": pa.string(), "t": pa.timestamp("us"), "x": pa.int64(), "y": pa.int64()})


def random_time_outs(random: Random) -> RowPatternQuery:
    """Return a query with time-outs."""
    while not (query := random_query(random, depth=2)).timed_out:
        pass
    return replace(query, partition_by=("k",))


KINDS = {
    "queries": lambda random: random_query(random, depth=2),
    "windows": random_window,
    "time-outs": random_time_outs,
}


def random_case(random: Random, kind: str) -> tuple[str, pa.Table]:
    """Return the text of a query and a table of shuffled rows."""
    rows = [{**row, "t": row["t"] * 1_000_000} for row in random_rows(random, random.randint(1, 12))]
    random.shuffle(rows)
    return str(KINDS[kind](random)), pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("kind", KINDS)
def test_random_queries(spark, kind, seed):
    from pyspark.sql import functions as F

    random, frames, expected = Random(seed), [], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)  # one task
        while len(frames) < 12:
            text, table = random_case(random, kind)
            try:
                here = cep.match(table, text).to_frame()
            except cep.CepError as error:
                assert "AFTER MATCH SKIP TO" in str(error)
                continue
            there = cep.match(spark.createDataFrame(table), text).to_frame()
            assert there.columns == here.column_names
            row = F.to_json(F.struct(*(F.array(F.col(f"`{name}`")).alias(name) for name in there.columns)))
            frames.append(there.select(F.lit(text).alias("text"), row.alias("row")))
            expected[text] = as_json(spark.createDataFrame(here)) if len(here) else []
        made = reduce(lambda one, other: one.unionAll(other), frames).collect()
    found = {text: [] for text in expected}
    for text, row in made:
        found[text].append(json.loads(row))
    for text, rows in found.items():
        assert sorted(map(repr, rows)) == sorted(map(repr, expected[text])), text


def as_json(frame) -> list[dict]:
    from pyspark.sql import functions as F

    row = F.to_json(F.struct(*(F.array(F.col(f"`{name}`")).alias(name) for name in frame.columns)))
    return [json.loads(text) for (text,) in frame.select(row).collect()]


CONNECT = """
    table = pa.table({"k": [0, 1] * 20, "n": range(40), "x": [e * 7 % 5 for e in range(40)]})
    frame = session.createDataFrame(table)
    text = '''SELECT k, top, n FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY n
        MEASURES MAX(x) AS top, LAST(n) AS n PATTERN (S UP+) DEFINE UP AS x > PREV(x)) ORDER BY k, n'''
    found, expected = cep.sql(text, t=frame), cep.sql(text, t=table)
    assert type(found.to_frame()).__module__.startswith("pyspark.sql.connect")
    assert found.count() == len(expected) > 5
    assert found.to_frame().toArrow().to_pylist() == expected.to_frame().to_pylist()
    assert found.to_frame("all").toArrow().to_pylist() == expected.to_frame("all").to_pylist()
    assert found.tag().orderBy("n").toArrow().to_pylist() == expected.tag().to_pylist()
    try:
        cep.sql(text.replace("ORDER BY n\\n", "ORDER BY k\\n"), t=frame).count()
    except cep.CepError as error:
        assert "38 of the 40 events of one task are ties" in str(error), error
    else:
        raise AssertionError("ties are an error")
    window = '''SELECT n, low OVER w AS low FROM t WHERE x > 0 WINDOW w AS (PARTITION BY k ORDER BY n
        MEASURES MIN(x) AS low ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING PATTERN (S UP+)
        DEFINE UP AS x > PREV(x)) ORDER BY n'''
    late = '''SELECT n, late FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
        MEASURES LAST(n) AS n, TIMED_OUT() AS late ONE ROW PER MATCH WITH TIMED OUT MATCHES
        PATTERN (S R+ Z) WITHIN INTERVAL '9' SECOND
        DEFINE S AS x = 0, R AS x > 2 OR n > 20, Z AS x = 2 AND n < 20) ORDER BY n'''
    time = pa.array([e * 1_000_000 for e in range(40)], pa.timestamp("us"))
    table = table.append_column("t", time)
    frame = session.createDataFrame(table)
    for text in (window, late):
        found, expected = cep.sql(text, t=frame), cep.sql(text, t=table)
        assert found.count() == expected.count() > 0
        assert found.to_frame().toArrow().to_pylist() == expected.to_frame().to_pylist()
    print("the same over Connect")
"""


@pytest.mark.spark
def test_connect(over_connect):
    check_over_connect(over_connect, CONNECT)
