"""Values of a batch fit the schema without loss, or the batch is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.streaming.batches import schema_of, table_of_batch

HOUR_5 = dt.timezone(dt.timedelta(hours=5))


def stored(kind, value):
    """Return what a stream keeps of a value."""
    return table_of_batch([{"x": value}], schema_of({"x": kind})).column("x")[0].as_py()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int64", 1.9),
        ("int64", Decimal("1.5")),
        ("int64", 1e300),
        ("int64", True),
        ("int64", np.timedelta64(5, "s")),
        ("int8", 200),
        ("float32", 1e300),
        ("float64", 2**53 + 1),
        ("timestamp[s]", dt.datetime(2020, 1, 1, 0, 0, 0, 5)),
        ("timestamp[s]", np.datetime64("2020-01-01T00:00:00.5")),
        ("timestamp[us]", pd.Timestamp(1, unit="ns")),
        ("timestamp[us]", dt.datetime(2020, 1, 1, tzinfo=HOUR_5)),
        ("timestamp[us, UTC]", dt.datetime(2020, 1, 1)),
        ("duration[s]", dt.timedelta(microseconds=5)),
        ("duration[us]", pd.Timedelta("1ns")),
        ("date32", dt.datetime(2020, 1, 1, 23)),
        ("list[int64]", [1.5]),
        ("string", b"x"),
        ("string", "\ud800"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_type(kind, value):
    with pytest.raises(cep.CepError, match=rf"column 'x' .*of type {type(value).__name__} does not fit"):
        stored(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int64", 2.0, 2),
        ("int64", np.int8(3), 3),
        ("int64", Decimal("4"), 4),
        ("int64", float("nan"), None),
        ("float32", 0.5, 0.5),
        ("float32", float("inf"), float("inf")),
        ("float64", 3, 3.0),
        ("timestamp[s]", dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1)),
        ("timestamp[s]", dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)),
        ("timestamp[us]", pd.Timestamp("2020-01-01 00:00:00.5"), dt.datetime(2020, 1, 1, 0, 0, 0, 500_000)),
        ("timestamp[ns]", pd.Timestamp(1, unit="ns"), pd.Timestamp(1, unit="ns")),
        (
            "timestamp[us, UTC]",
            dt.datetime(2020, 1, 1, 5, tzinfo=HOUR_5),
            dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        ),
        ("timestamp[s]", 5, dt.datetime(1970, 1, 1, 0, 0, 5)),
        ("duration[s]", 2, dt.timedelta(seconds=2)),
        ("duration[s]", pd.Timedelta("2s"), dt.timedelta(seconds=2)),
        ("date32", dt.datetime(2020, 1, 1), dt.date(2020, 1, 1)),
        ("string", float("nan"), None),
        ("string", None, None),
        ("list[float64]", (1, 2), [1.0, 2.0]),
        ("list[float64]", np.array([1.0, 2.0]), [1.0, 2.0]),
    ],
)
def test_a_value_that_fits_is_kept(kind, value, expected):
    assert stored(kind, value) == expected


def test_the_first_value_that_does_not_fit_is_named():
    rows = [{"x": 1}, {"x": None}, {"x": 2.5}, {"x": "a"}]
    with pytest.raises(cep.CepError, match=r"2\.5 of type float"):
        table_of_batch(rows, schema_of({"x": "int64"}))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float32(), pa.array([1e300])),
        (pa.date32(), pa.array([dt.datetime(2020, 1, 1, 23)])),
    ],
)
def test_frames_lose_nothing_either(kind, values):
    with pytest.raises(cep.CepError, match="column 'x' must be"):
        table_of_batch(pa.table({"x": values}), schema_of({"x": kind}))


@pytest.mark.parametrize("kind", ["Categorical", "Enum"])
def test_a_polars_frame_of_categories_is_a_schema_and_a_batch(kind):
    pl = pytest.importorskip("polars")
    of = pl.Categorical if kind == "Categorical" else pl.Enum(["b", "a"])
    frame = pl.DataFrame({"k": ["a", "b"]}).with_columns(pl.col("k").cast(of))
    stream = cep.stream("p", frame, define={"p": "k = 'a'"}, measures={"k": "first(k)"})
    assert stream.push(frame)["k"].to_list() == ["a"]


def test_encoded_runs_are_a_schema_and_a_batch():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1, 2]))
    frame = pa.table({"x": runs})
    stream = cep.stream("p", frame, define={"p": "x > 0"}, measures={"x": "first(x)"})
    assert stream.push(frame)["x"].to_pylist() == [1, 1, 2]


def test_a_reader_is_a_schema_and_a_batch():
    table = pa.table({"x": [1, 2]})
    stream = cep.stream("p", table.to_reader(), define={"p": "x > 1"}, measures={"x": "first(x)"})
    assert stream.push(table.to_reader())["x"].to_pylist() == [2]


def test_a_series_is_no_batch():
    stream = cep.stream("p", {"x": "int64"}, define={"p": "x > 1"})
    with pytest.raises(cep.CepError, match="a pandas Series has no columns"):
        stream.push(pd.Series([1], name="x"))


def test_a_polars_column_without_arrow_type_is_refused_only_where_the_stream_needs_it():
    pl = pytest.importorskip("polars")
    batch = pl.DataFrame({"x": [1, 2]}).with_columns(big=pl.col("x").cast(pl.Int128))
    stream = cep.stream("p", {"x": "int64"}, define={"p": "x > 1"}, measures={"x": "first(x)"})
    assert stream.push(batch)["x"].to_list() == [2]
    with pytest.raises(cep.CepError, match="column 'big' is of polars type Int128"):
        cep.stream("p", {"big": "int64"}, define={"p": "big > 1"}).push(batch)
    with pytest.raises(cep.CepError, match="column 'big' is of polars type Int128"):
        cep.stream("p", batch, define={"p": "x > 1"})


@pytest.mark.parametrize("name_is_odd", [True, False])
def test_texts_that_are_no_unicode_are_refused_in_a_schema(name_is_odd):
    odd = "\ud800"
    name, text = (odd, "a") if name_is_odd else ("x", odd)
    frame = pd.DataFrame([[text]], columns=pd.Index([name], dtype=object), dtype=object)
    with pytest.raises(cep.CepError, match=r"name '\\ud800'" if name_is_odd else r"column 'x' .*'\\ud800'"):
        cep.stream("p", frame, define={"p": "true"})
