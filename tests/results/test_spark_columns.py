"""Spark frames with two columns of one name, and with keys that a collation takes for equal."""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep

pytestmark = pytest.mark.spark
ROWS = pd.DataFrame({"id": range(6), "ts": range(6), "x": [1, 2, 3, 2, 1, 0], "k": [1] * 6})
KEYS = pd.DataFrame({"k": list("aAaAaA"), "ts": [0, 0, 1, 1, 2, 2], "x": [1, 9, 2, 8, 3, 7]})


def test_queries_ignore_two_columns_of_one_name(spark):
    frame = spark.createDataFrame(ROWS)
    twice = frame.select("id", "ts", "x", "k", frame["id"].alias("id"))
    assert twice.columns.count("id") == 2
    define = {"down": "x < prev(x)"}
    call = {"define": define, "partition_by": "k", "order_by": "ts", "measures": {"at": "first(ts)"}}
    expected = cep.match(ROWS, ". down", **call).to_frame()["at"].tolist()
    assert sorted(row["at"] for row in cep.match(twice, ". down", **call).to_frame().collect()) == expected
    for query, own in (
        ("PATTERN SEQ(_ a, _ b) WHERE a.x < b.x WITHIN 2", {"partition_by": "k", "order_by": "ts"}),
        (
            "SELECT * FROM f MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.x AS m PATTERN (A B) "
            "DEFINE B AS B.x > A.x)",
            {},
        ),
    ):
        assert cep.match(twice, query, **own).count() == cep.match(ROWS, query, **own).count() > 0


def test_keys_are_compared_exactly_whatever_their_collation(spark):
    frame = spark.createDataFrame(KEYS).selectExpr("k collate UTF8_LCASE as k", "ts", "x")
    call = {"define": {"up": "x > prev(x)"}, "partition_by": "k", "order_by": "ts"}
    here, there = (cep.match(of, ". up", **call) for of in (KEYS, frame))
    assert there.to_frame("all").count() == len(here.to_frame("all"))
    assert there.lineage().count() == len(here.lineage())
    assert there.tag().count() == len(here.tag()) == len(KEYS)
    sequence = {"partition_by": "k", "order_by": "ts", "after_match": "past_last"}
    query = "PATTERN SEQ(_ a, _ b) WHERE a.x < b.x WITHIN 2"
    here, there = (cep.match(of, query, **sequence) for of in (KEYS, frame))
    assert there.to_frame("all").count() == len(here.to_frame("all"))
    assert there.tag().count() == len(KEYS)
