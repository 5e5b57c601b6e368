"""Windows and joins on Spark equal those on pandas, by group, in slices and in one task."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import OrderError
from cepkit.windows.spark import WindowTask, join_spark, window_spark
from tests.support.window_cases import AGGREGATES, plain, random_frame, rows_of

TEXTS = {name: text for name, (_, _, text) in AGGREGATES.items()}
MANY = {name: TEXTS[name] for name in ("n", "total", "mean", "least", "spread", "whole", "kinds", "word")}


def frames(spark, seed, n_rows=60):
    """Return a random frame with a total order, on pandas and on Spark in any order."""
    rng = np.random.default_rng(seed)
    frame = random_frame(rng, n_rows)
    frame["x"] = frame["x"].where(np.isfinite(frame["x"]))
    frame["ts"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["ts"], unit="s")
    frame["seq"] = np.arange(n_rows)
    shuffled = frame.iloc[rng.permutation(n_rows)]
    return frame, spark.createDataFrame(shuffled.astype({"g": object}).replace({np.nan: None}))


def as_set(frame: pd.DataFrame) -> list:
    names = list(frame.columns)
    return sorted(plain(rows_of(frame), names), key=repr)


def test_windows_on_spark_equal_pandas(spark):
    cases = [
        {"time": "7 s", "group_by": "g"},
        {"time": "7 s", "emit": "all"},
        {"tumbling": "5 s", "emit": "all", "where": "k > -50"},
        {"time": "3 s", "group_by": "g", "emit": "all"},
    ]
    for seed, settings in enumerate(cases):
        frame, on_spark = frames(spark, seed)
        window = cep.Window(MANY, **settings, order_by=["ts", "seq"])
        expected = as_set(cep.window(frame, window))
        start = int(frame["ts"].min().timestamp() * 1e6)
        begins = tuple(start + 10**6 * i for i in (5, 9, 40))
        for spread_by in (None, "time"):
            found = window_spark(on_spark, window, spread_by=spread_by, boundaries=begins)
            assert as_set(found.toPandas()) == expected, settings
    window = cep.Window(MANY, length=4, emit="all", group_by="g", order_by=["ts", "seq"])
    with pytest.warns(cep.CepWarning, match="a single Spark task"):
        found = on_spark.cep.window(window)
    assert as_set(found.toPandas()) == as_set(cep.window(frame, window))


def test_joins_on_spark_equal_pandas(spark):
    cases = [
        {"on": "g", "how": "outer"},
        {"on": "g", "measures": {"n": "count()", "total": "sum(left.k)"}, "how": "left"},
        {"where": "left.k < right.k"},
    ]
    for seed, settings in enumerate(cases):
        (left, left_spark), (right, right_spark) = frames(spark, seed, 40), frames(spark, seed + 50, 40)
        if "measures" in settings:
            left, right = left.drop_duplicates("ts"), right.drop_duplicates("ts")
            left_spark = spark.createDataFrame(left.astype({"g": object}).replace({np.nan: None}))
            right_spark = spark.createDataFrame(right.astype({"g": object}).replace({np.nan: None}))
        join = cep.Join(cep.Window(time="6 s"), cep.Window(time="3 s"), order_by="ts", **settings)
        given = {"left": join.left, "right": join.right, "order_by": "ts", **settings}
        expected = as_set(cep.join(left, right, **given))
        start = int(left["ts"].min().timestamp() * 1e6)
        begins = (start + 5 * 10**6, start + 9 * 10**6)
        for spread_by in (None, "time") if "measures" not in settings else (None,):
            found = join_spark(left_spark, right_spark, join, spread_by=spread_by, boundaries=begins)
            assert as_set(found.toPandas()) == expected, settings


def test_spark_refuses_rows_without_an_order(spark):
    on_spark = spark.createDataFrame([(1, 2.0), (1, 3.0)], "ts int, x double")
    with pytest.raises(OrderError, match="order_by is missing"):
        on_spark.cep.window({"n": "count()"}, length=2)


def test_ties_of_other_groups_matter_when_rows_count():
    rows = pa.record_batch({"e0": pa.array([1, 1]), "e1": pa.array(["A", "B"])})
    window = cep.Window({"n": "count()"}, length=2, group_by="g", order_by="t")
    task = WindowTask(window=window, columns=("t", "g"), output=pa.schema([]))
    with pytest.raises(OrderError, match="ties"):
        list(task.run(iter([rows])))
