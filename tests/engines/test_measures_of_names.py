"""Measures over the rows of a name of a regex: ``last(drop.t)``, ``count(drop)``."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import PredicateError
from tests.support.sizes import seeds

WALK = pd.DataFrame({
    "t": pd.to_datetime("2026-01-01 10:00") + pd.to_timedelta(range(6), unit="min"),
    "p": [10, 12, 9, 8, 11, 13], "s": list("abcdef"),
})  # fmt: skip
SHAPE = {"pattern": ". drop+ rise", "define": {"drop": "p < prev(p)", "rise": "p > prev(p)"}, "order_by": "t"}


def asked(frame, measures, **more):
    call = SHAPE | more
    return frame.cep.match(call.pop("pattern"), measures=measures, **call).to_frame()


def test_when_was_the_bottom():
    found = asked(
        WALK, {"at": "last(drop.t)", "low": "min(drop.p)", "n": "count(drop)", "up": "first(rise.t)"}
    )
    minute = pd.Timestamp("2026-01-01 10:00")
    assert found.to_dict("records") == [
        {"at": minute + pd.Timedelta("3 min"), "low": 8, "n": 2, "up": minute + pd.Timedelta("4 min")}
    ]


def test_expressions_over_the_rows_of_a_name():
    measures = {
        "gain": "first(rise.p) - last(drop.p)", "spread": "max(drop.p) - min(p)", "texts": "collect(drop.s)",
        "twice": "sum(drop.p * 2)", "took": "delta(drop.t)", "mean": "avg(drop.p)", "deep": "median(drop.p)",
        "is_deep": "last(drop.p) < 9 and count(drop) > 1",
    }  # fmt: skip
    [row] = asked(WALK, measures).to_dict("records")
    assert list(row["texts"]) == ["c", "d"]
    assert row == {
        "gain": 3, "spread": 1, "texts": row["texts"], "twice": 34, "took": pd.Timedelta("1 min"),
        "mean": 8.5, "deep": 8.5, "is_deep": True,
    }  # fmt: skip


REDUCED = {
    "first": lambda x: x.iloc[0] if len(x) else None, "last": lambda x: x.iloc[-1] if len(x) else None,
    "count": lambda x: int(x.notna().sum()), "min": lambda x: x.min(), "max": lambda x: x.max(),
    "sum": lambda x: x.sum() if x.notna().any() else None, "avg": lambda x: x.mean(),
    "median": lambda x: x.median(), "distinct": lambda x: x.nunique(),
}  # fmt: skip


@pytest.mark.parametrize("seed", seeds(6, 12))
def test_they_are_those_of_the_labelled_rows(seed):
    """Names that a match does not have give null, and 0 as a count."""
    random = Random(seed)
    n = random.choice([3, 20, 60])
    x = [random.choice([None, *range(6)]) for _ in range(n)]
    frame = pd.DataFrame(
        {"t": range(n), "k": [random.choice("uv") for _ in range(n)], "x": pd.array(x, "Int64")}
    )
    define = {"a": "x > 2", "b": "x <= 3", "c": "x != prev(x)"}
    pattern = random.choice(["a b? c", "(a | b) c+ a", "a* b (c | a)", "c{2,3} a? b"])
    names = ["a", "b", "c"]
    wanted = {f"{name} {function}": f"{function}({name}.x)" for name in names for function in REDUCED}
    wanted |= {f"{name} rows": f"count({name})" for name in names}
    call = {"define": define, "partition_by": "k", "order_by": "t"}
    for kind in (frame, pa.Table.from_pandas(frame)):
        matches = cep.match(kind, pattern, measures=wanted, **call)
        found = matches.to_frame()
        found = found if isinstance(found, pd.DataFrame) else found.to_pandas()
        rows = matches.to_frame("all")
        rows = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
        assert len(found) == rows["match"].nunique()
        for number, group in rows.groupby("match"):
            for name in names:
                own = group.loc[group["variable"] == name, "x"].astype("Float64")
                assert found[f"{name} rows"].iloc[number] == len(own)
                for function, reduce in REDUCED.items():
                    value, expected = found[f"{name} {function}"].iloc[number], reduce(own)
                    if expected is None or pd.isna(expected):
                        assert pd.isna(value), (seed, name, function)
                    else:
                        assert np.isclose(float(value), float(expected)), (seed, name, function)


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_prev_is_the_row_before_the_last_one(seed):
    """Also before the first row of the match, and null where the partition has no such row."""
    random = Random(seed)
    n = random.choice([1, 5, 40])
    frame = pd.DataFrame({
        "t": random.sample(range(n), n), "k": [random.choice("uv") for _ in range(n)],
        "x": pd.array([random.choice([None, *range(6)]) for _ in range(n)], "Int64"),
    })  # fmt: skip
    offset = random.choice([1, 2, 5])
    ordered = frame.sort_values("t")
    before = ordered.assign(before=ordered.groupby("k")["x"].shift(offset)).set_index("t")["before"]
    measures = {"t": "last(t)", "p": f"prev(x, {offset})", "d": f"last(x) - prev(x, {offset})"}
    for kind in (frame, pa.Table.from_pandas(frame)):
        rows = cep.match(
            kind, random.choice(["low? high", "high low"]), define={"high": "x > 2", "low": "x <= 3"},
            partition_by="k", order_by="t", measures=measures,
        ).to_frame()  # fmt: skip
        found = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
        wanted, last = before.loc[found["t"]].astype("Float64"), frame.set_index("t")["x"].loc[found["t"]]
        for name, expected in (("p", wanted), ("d", last.astype("Float64") - wanted)):
            assert [*found[name].astype("Float64").fillna(-99)] == [*expected.fillna(-99)]


def test_spark_gives_the_same(spark):
    frame = WALK.assign(k="x")
    on_spark = spark.createDataFrame(frame)
    measures = {"at": "last(drop.t)", "n": "count(drop)", "low": "min(drop.p)", "before": "prev(p)"}
    call = {"measures": measures, "partition_by": "k", **SHAPE}
    pattern = call.pop("pattern")
    found = on_spark.cep.match(pattern, **call).to_frame().toPandas()
    wanted = frame.cep.match(pattern, **call).to_frame()
    assert found.astype(str).values.tolist() == wanted.astype(str).values.tolist()


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("last(dorp.t)", "the pattern has no 'dorp'. Did you mean 'drop'"),
        ("drop.t", "has one value for each row of drop; write first"),
        ("last(drop[1].t)", "write first"),
        ("sum(drop.p - p)", "mixes rows"),
        ("sum(drop.p - rise.p)", "mixes rows"),
        ("last(drop.q)", "column 'q' not found"),
        ("prev(drop.p)", "looks back from the last row of the match"),
        ("sum(drop.s)", "sum"),
    ],
)
def test_mistakes(measure, message):
    with pytest.raises(cep.CepError, match=message):
        asked(WALK, {"m": measure})


@pytest.mark.parametrize(
    ("measure", "message"),
    [("last(drop.t)", "known in finished data only"), ("prev(p)", "may be a row before those that are kept")],
)
def test_a_stream_says_that_it_does_not_know_names(measure, message):
    schema = {"t": "timestamp[us]", "p": "int64"}
    call = {**SHAPE, "measures": {"m": measure}}
    with pytest.raises(PredicateError, match=message):
        cep.stream(call.pop("pattern"), schema, **call)


def test_a_boolean_column_is_no_name_of_a_measure():
    frame = pd.DataFrame({"up": [True, False, True], "x": [1, 2, 3]})
    found = frame.cep.match("up", measures={"n": "count(up)"}).to_frame()
    assert found["n"].tolist() == [1, 1]
