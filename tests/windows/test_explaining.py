"""What `explain` says about windows and joins, before anything runs."""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError, UnsupportedQueryError

TICKS = pd.DataFrame({"ts": pd.to_datetime([1, 2, 3], unit="s"), "k": ["a", "b", "a"], "x": [1, 2, 3]})
SUMS = cep.Window({"total": "sum(x)"}, time="15 s", group_by="k", order_by="ts", where="x > 1")


def test_a_window_in_memory():
    assert str(TICKS.cep.explain(SUMS)).splitlines() == [
        "window       Window({'total': 'sum(x)'}, time='15 s', group_by='k', order_by='ts', where='x > 1')",
        "holds        the rows of its group for which x > 1 is true with ts > now - 15 s",
        "result       a row for each row that arrives",
        "runs         in memory, over the rows in order; engine=cep.ScatterGather(nodes=4) divides them "
        "among nodes",
    ]  # fmt: skip
    last = repr(cep.explain(TICKS, cep.Window({"n": "count()"}, length=3, group_by="k", emit="all")))
    assert "the last 3 rows, of all groups together; an aggregate ranges over those of its group" in last
    assert "a row for each row that arrives, and one for each row that leaves" in last
    batches = repr(cep.explain(TICKS, cep.Window({"n": "count()"}, tumbling="1 min", order_by="ts")))
    assert "the rows in batches of 1 min, which begin at multiples of it" in batches


def test_a_join_in_memory():
    join = cep.Join(cep.Window(length=2), cep.Window(time="1 min"), on="k", order_by="ts", how="left",
                    trigger="left", where="left.x < right.x")  # fmt: skip
    assert str(cep.explain(TICKS, join, other=TICKS)).splitlines()[1:5] == [
        "left         the last 2 rows",
        "right        the rows with ts > now - 1 min",
        "pairs        left.k = right.k, where left.x < right.x",
        "result       a row for each pair that a row of the left side makes on arrival; also a row for each "
        "arrival of the left side without a partner",
    ]  # fmt: skip


def test_explain_checks_what_needs_no_rows():
    with pytest.raises(ColumnNotFoundError, match="Did you mean 'ts'"):
        TICKS.cep.explain(cep.Window({"n": "count()"}, time="1 s", order_by="tss"))
    with pytest.raises(CepError, match=r"explain\(join, other=frame\)"):
        TICKS.cep.explain(cep.Join(cep.Window(length=2), on="k", order_by="ts"))
    with pytest.raises(CepError, match="contain their own settings"):
        TICKS.cep.explain(SUMS, order_by="ts")
    with pytest.raises(UnsupportedQueryError, match=r"cep\.plan\(query, nodes=4\) shows the plan"):
        TICKS.cep.explain(SUMS, engine=cep.ScatterGather(nodes=2))


def test_windows_and_joins_on_spark(spark):
    frame = spark.createDataFrame(TICKS)
    assert "runs         on Spark; the tasks share the groups of k" in str(frame.cep.explain(SUMS))
    alone = cep.Window({"n": "count()"}, time="15 s", order_by="ts")
    assert "runs         on Spark in slices of time" in str(frame.cep.explain(alone))
    rows = cep.Window({"n": "count()"}, length=3, group_by="k", order_by="ts")
    assert "runs         on Spark in one task, which holds all rows" in str(frame.cep.explain(rows))
    join = cep.Join(cep.Window(time="1 min"), cep.Window(time="1 min"), on="k", order_by="ts")
    assert "the tasks share the keys of k" in str(frame.cep.explain(join, other=frame))
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    counts = cep.Window({"n": "count()"}, time="15 s", group_by="value", order_by="timestamp")
    assert "buckets" in str(stream.cep.explain(counts))
    chain = [counts, "PATTERN SEQ(_ a, _ b) WITHIN 9 s"]
    said = str(stream.cep.explain(chain, partition_by="value", order_by="timestamp"))
    assert said.startswith("step 1       Window(") and "by a hash of value" in said
    same = cep.Join(cep.Window(time="1 min"), on="value", order_by="timestamp")
    assert "watermark    the earlier one of" in str(stream.cep.explain(same, other=stream))
    query = str(stream.cep.explain(chain[1], partition_by="value", order_by="timestamp"))
    assert "buckets" in query and "by a hash of value" in query
