"""Scatter–gather on Spark has the rows of pandas: nodes of patterns are tasks of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import OrderError
from cepkit.scaleout.spark_stages import ScatteredOnSpark
from tests.support.spark_cases import rows_of

pytest.importorskip("pyspark")

R = np.random.default_rng(0)
N = 100
FRAME = pd.DataFrame(
    {
        "kind": R.choice(list("abcx"), N), "ts": np.cumsum(R.integers(0, 3, N)), "n": range(N),
        "x": R.integers(0, 9, N), "y": R.normal(size=N) * 10.0 ** R.integers(-5, 9, N),
        "k": R.choice(["u", "v"], N),
    }
)  # fmt: skip
QUERY = "PATTERN SEQ(a p, b q) WHERE q.x > p.x WITHIN 9"
KEYWORDS = {"event_type": "kind", "order_by": ["ts", "n"]}


def same(one, other) -> None:
    """Assert that two frames have the same columns and the same rows, in any order."""
    (names, rows), (others, wanted) = rows_of(one), rows_of(other)
    assert names == others
    assert sorted(rows, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize(
    ("query", "engine", "more"),
    [
        ("PATTERN SEQ(a p, b q, c r) WHERE q.x > p.x WITHIN 9", cep.ScatterGather(nodes=4), {}),
        pytest.param(
            "PATTERN SEQ(a p, b q, c r) WHERE q.x > p.x WITHIN 9", cep.ScatterGather(nodes=4),
            {"strategy": "next"},
        ),
        pytest.param(
            "PATTERN SEQ(a p, !x z, b q) WHERE z.x > p.x WITHIN 12", cep.ScatterGather(3, "replicated"),
            {"partition_by": "k"},
        ),
        ("PATTERN SEQ(a p, OR(b q, c r), !x z) WITHIN 6", cep.ScatterGather(nodes=2),
         {"strategy": "next", "measures": {"at": "p.n"}}),
        pytest.param(
            "PATTERN SEQ(a p, c r) WITHIN 9", cep.ScatterGather(2, "keys"), {"partition_by": "k"},
        ),
    ],
)  # fmt: skip
def test_patterns_over_tasks_have_the_rows_of_pandas(spark, query, engine, more):
    keywords = {**KEYWORDS, **more}
    found = spark.createDataFrame(FRAME).cep.match(query, engine=engine, **keywords)
    assert isinstance(found._found, ScatteredOnSpark)
    same(found.to_frame(), FRAME.cep.match(query, **keywords).to_frame())


@pytest.mark.parametrize(
    "clock", [lambda ts: ts, lambda ts: pd.Timestamp(2026, 1, 1) + pd.to_timedelta(ts, "s")]
)
def test_no_task_has_all_events(spark, clock):
    frame = FRAME.assign(ts=clock(FRAME.ts))
    query = "PATTERN SEQ(a p, b q) WHERE q.x > p.x WITHIN 9 s" if frame.ts.dtype.kind == "M" else QUERY
    found = spark.createDataFrame(frame).cep.match(query, engine=cep.ScatterGather(nodes=4), **KEYWORDS)
    plan = found.to_frame()._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" in plan and "SinglePartition" not in plan
    same(found.to_frame(), frame.cep.match(query, **KEYWORDS).to_frame())


def test_queries_that_nodes_cannot_share_run_in_the_usual_tasks(spark):
    query = "PATTERN SEQ(a p, b+ q[]) WITHIN 6"
    engine = cep.ScatterGather(nodes=3)
    found = spark.createDataFrame(FRAME).cep.match(query, engine=engine, **KEYWORDS)
    assert not isinstance(found._found, ScatteredOnSpark)
    assert found.count() == FRAME.cep.match(query, **KEYWORDS).count()


def test_ties_are_refused(spark):
    frame = spark.createDataFrame(FRAME.assign(n=0, ts=1))
    engine = cep.ScatterGather(nodes=2)
    with pytest.raises(OrderError, match="events of one partition are ties"):
        frame.cep.match("PATTERN SEQ(a p, b q) WITHIN 9", engine=engine, **KEYWORDS).count()


def test_windows_and_joins_over_nodes_have_the_rows_of_pandas(spark):
    frame, engine = spark.createDataFrame(FRAME), cep.ScatterGather(nodes=3)
    aggregates = {"total": "sum(y)", "low": "min(x)", "spread": "std(y)"}
    keywords = {"time": 9, "group_by": "k", "order_by": ["ts", "n"]}
    found = frame.cep.window(aggregates, engine=engine, **keywords)
    same(found, FRAME.cep.window(aggregates, **keywords))
    left, right = FRAME[["ts", "k", "x"]], FRAME[["ts", "k", "y"]]
    sides = {"left": cep.Window(time=5), "right": cep.Window(time=3), "on": "k", "order_by": "ts"}
    pairs = spark.createDataFrame(left).cep.join(spark.createDataFrame(right), engine=engine, **sides)
    same(pairs, cep.join(left, right, **sides))
