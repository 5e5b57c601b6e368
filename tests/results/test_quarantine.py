"""Rows that a query cannot search: an error, or left out and returned with the reason."""

from __future__ import annotations

import warnings
from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from tests.support.sizes import seeds

KINDS = {"pandas": pa.Table.to_pandas, "arrow": lambda rows: rows, "polars": pl.from_arrow}
UP = {
    "define": {"low": "number(text) < 3", "high": "number(text) > 3"},
    "order_by": "ts",
    "partition_by": "k",
}
QUERIES = {
    "regex": ("low high", UP),
    "sequence": (
        "PATTERN SEQ(_ a, _ b) WHERE [k] AND number(a.text) < number(b.text) WITHIN 4", {"order_by": "ts"}
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def number():
    return cep.pure(lambda text: float(text), name="number")


def rows_of(draw: Random, n: int) -> pa.Table:
    """Return random rows. Some have no time, and the text of others is no number."""
    return pa.table({
        "row": list(range(n)), "k": [draw.choice("ab") for _ in range(n)],
        "ts": pa.array([None if draw.random() < 0.2 else i for i in range(n)], pa.int64()),
        "text": [draw.choice(["1", "2.5", "4", "7", "?", "", None]) for _ in range(n)],
    })  # fmt: skip


def is_bad(row: dict) -> bool:
    return row["ts"] is None or row["text"] in ("?", "")


def values(frame) -> list[dict]:
    rows = frame.to_dict("records") if isinstance(frame, pd.DataFrame) else pl.DataFrame(frame).to_dicts()
    return [{name: None if pd.isna(value) else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("seed", seeds(4, 100))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", QUERIES)
def test_the_answer_is_that_of_the_frame_without_these_rows(language, kind, seed):
    table = rows_of(Random(seed), 14)
    bad = np.array([is_bad(row) for row in table.to_pylist()])
    query, keywords = QUERIES[language]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = cep.match(KINDS[kind](table), query, on_error="quarantine", **keywords)
    assert any(str(w.message).startswith(f"{bad.sum()} of 14 rows") for w in said) == bad.any()
    expected = cep.match(KINDS[kind](table.filter(pa.array(~bad))), query, **keywords)
    assert values(found.to_frame()) == values(expected.to_frame())
    set_aside = found.quarantined()
    assert type(set_aside) is type(KINDS[kind](table))
    assert [row["row"] for row in values(set_aside)] == np.flatnonzero(bad).tolist()
    assert [set(row) for row in values(set_aside)] == [{"reason", *table.column_names}] * bad.sum()
    for row in values(set_aside):
        assert row["reason"].startswith(
            "ts has no value" if row["ts"] is None else f"function 'number' got {row['text']!r} and raised "
        )


def test_an_inner_call_fails_before_an_outer_one():
    cep.pure(lambda x: 1 / x, name="inverse")
    frame = pd.DataFrame({"text": ["?", "0", "4"]})
    with pytest.warns(cep.CepWarning, match="^2 of 3 rows cannot be searched"):
        found = cep.match(frame, "p", define={"p": "inverse(number(text)) < 1"}, on_error="quarantine")
    assert found.count() == 1
    reasons = found.quarantined()["reason"].tolist()
    assert ["number" in reasons[0], "ZeroDivisionError" in reasons[1]] == [True, True]
    assert found.quarantined().index.tolist() == [0, 1]


def test_without_such_rows_nothing_is_set_aside_and_nothing_is_said():
    frame = pd.DataFrame({"ts": [1, 2], "x": [1, 5]})
    found = cep.match(frame, "p", define={"p": "x > 1"}, order_by="ts", on_error="quarantine")
    assert (found.count(), len(found.quarantined())) == (1, 0)


def test_predicates_of_frames_get_the_rows_that_are_left():
    frame = pd.DataFrame({"ts": [1, None, 3], "x": [1, 5, 7]})
    with pytest.warns(cep.CepWarning):
        found = cep.match(
            frame, "p", define={"p": lambda df: df.x > df.x.mean()}, order_by="ts", on_error="quarantine"
        )
    assert found.to_frame()["first_ts"].tolist() == [3]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda frame: cep.match(frame, "p", define={"p": "x > 1"}).quarantined(), "no rows are set aside"),
        (lambda frame: cep.match(frame, "p", define={"p": "x > 1"}, on_error="skip"), "'raise' and 'quar"),
        (lambda frame: cep.match(frame, "p", define={"p": "y > 1"}, on_error="quarantine"), "'y' not found"),
        (lambda frame: cep.match(
            frame, "MATCH_RECOGNIZE (ORDER BY x PATTERN (p) DEFINE p AS x > 1)", on_error="quarantine"
        ), "on_error"),
        (lambda frame: cep.match(
            frame.rename(columns={"x": "reason"}), "p", define={"p": "reason > 1"}, on_error="quarantine"
        ), "the frame has a column 'reason' already"),
    ],
)  # fmt: skip
def test_mistakes(call, problem):
    with pytest.raises(cep.CepError, match=problem):
        call(pd.DataFrame({"x": [1, 2]}))


@pytest.mark.parametrize("language", QUERIES)
def test_spark_leaves_out_the_same_rows(spark, language):
    table = rows_of(Random(1), 60)
    query, keywords = QUERIES[language]
    frame = spark.createDataFrame(table)
    found = cep.match(frame, query, on_error="quarantine", **keywords)
    with pytest.warns(cep.CepWarning):
        expected = cep.match(table, query, on_error="quarantine", **keywords)
    assert found.count() == expected.count()
    order = sorted(found.quarantined().toPandas().to_dict("records"), key=lambda row: row["row"])
    assert [row["reason"] for row in order] == expected.quarantined()["reason"].to_pylist()
    by = {"order_by": "ts", "partition_by": "k"}
    with_times = cep.match(frame, "p", define={"p": "row > 3"}, on_error="quarantine", **by)
    rows = with_times.quarantined().toPandas()
    assert set(rows["reason"]) == {"ts has no value"} and len(rows) == table["ts"].null_count
    assert "Python" not in with_times.quarantined()._jdf.queryExecution().toString()
