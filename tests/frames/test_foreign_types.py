"""Columns of types that Arrow cannot hold: a result carries them, or one error names the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep

KINDS = ["a", "b", "a", "b"]
SQL = (
    "SELECT * FROM t MATCH_RECOGNIZE (MEASURES LAST(a.v) AS m ALL ROWS PER MATCH "
    "PATTERN (a) DEFINE a AS k = 'a')"
)


def of_a(frame, **more):
    return cep.match(frame, "p", define={"p": "k = 'a'"}, **more)


# --- frames that give their rows only once


class Once:
    """Rows that can be exported once, as a capsule."""

    def __init__(self, table):
        self._reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._reader.__arrow_c_stream__(requested_schema)


class Again:
    """Rows that can be exported any number of times."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Failing:
    """An export that fails."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError("boom")


def test_a_frame_that_gives_its_rows_once_is_refused():
    table = pa.table({"k": KINDS, "ts": [1, 2, 3, 4]})
    reader = table.to_reader()
    with pytest.raises(cep.CepError, match=r"call read_all\(\) first"):
        cep.join(reader, reader, left=cep.Window(length=2), on="k", order_by="ts")
    with pytest.raises(cep.CepError, match=r"T: a RecordBatchReader .* call read_all\(\) first"):
        cep.siddhi("from T select k insert into O", T=reader)
    with pytest.raises(cep.CepError, match="a Once gives its rows only once"):
        of_a(Once(table))
    assert of_a(reader.read_all()).count() == of_a(Again(table)).count() == 2


def test_an_export_that_fails_is_one_error():
    for call in (of_a, lambda frame: cep.stream("p", frame, define={"p": "k = 'a'"})):
        with pytest.raises(cep.CepError, match="export to Arrow fails with RuntimeError: boom"):
            call(Failing())


# --- polars


def test_polars_columns_without_an_arrow_type_are_carried():
    pl = pytest.importorskip("polars")
    things = [object() for _ in KINDS]
    frame = pl.DataFrame({"k": KINDS, "o": pl.Series(things, dtype=pl.Object), "n": range(4)}).with_columns(
        big=pl.Series(range(4)).cast(pl.Int128), many=pl.Series([0, 1, 2, 3]).cast(pl.UInt128)
    )
    found = of_a(frame)
    rows = found.to_frame("all")
    assert rows["o"].to_list() == [things[0], things[2]]
    assert rows["big"].dtype == pl.Int128 and rows["big"].to_list() == [0, 2]
    tagged = found.tag()
    assert tagged.columns == [*frame.columns, "match", "variable"]
    assert tagged["o"].to_list() == things and tagged["many"].to_list() == [0, 1, 2, 3]
    for column, use in {
        "o": lambda: cep.sql(SQL.replace("a.v", "a.o"), t=frame).to_frame(),
        "big": lambda: of_a(frame, measures={"m": "max(big)"}).to_frame(),
        "many": lambda: of_a(frame, partition_by="many").to_frame(),
    }.items():
        with pytest.raises(cep.CepError, match=rf"(?s){column}.*(cast it first|make the column)"):
            use()


# --- Arrow


@pytest.mark.parametrize(
    "values",
    [pa.array([1, 2]), pa.array([None, 2]), pa.array(["x", "y"]), pa.array(["x", "y"]).dictionary_encode()],
)
def test_encoded_runs_are_plain_values(values):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), values)
    first, second = values.to_pylist()
    frame = pa.table({"k": KINDS, "v": runs})
    assert of_a(frame).to_frame("all")["v"].to_pylist() == [first, second]
    assert of_a(frame.slice(1), measures={"v": "first(v)"}).to_frame()["v"].to_pylist() == [second]
    assert of_a(frame.to_pandas(types_mapper=pd.ArrowDtype)).to_frame("all")["k"].to_list() == ["a", "a"]


# --- pandas


def pandas_frame(values):
    return pd.DataFrame({"k": KINDS, "v": values})


def test_sparse_columns_and_long_doubles_are_numbers(tmp_path):
    for values in (
        pd.array([0.0, 1, 0, 2], dtype=pd.SparseDtype(float, 0.0)),
        np.array([0, 1, 0, 2], dtype=np.longdouble),
    ):
        found = cep.match(
            pandas_frame(values), "p p p p", define={"p": "v >= 0"}, measures={"m": "max(v)", "s": "sum(v)"}
        )
        assert found.to_frame().to_numpy().tolist() == [[2.0, 3.0]]
        assert found.write_parquet(tmp_path / "m.parquet", rows="all", overwrite=True) == 4
        assert pd.read_parquet(tmp_path / "m.parquet")["v"].to_list() == [0.0, 1.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1j, 2, 3, 4], "complex128"),
        (pd.Categorical([1, "a", 2.5, None]), "category"),
        ([Decimal("Infinity"), Decimal("NaN"), Decimal("1"), Decimal("1.5")], "Infinity"),
        ([Decimal("1e-400"), Decimal("0.1"), Decimal(10**44), Decimal("1.5")], "object"),
        ([Fraction(1, 3)] * 4, "Fraction"),
        ([2**70, 1, 2, 3], str(2**70)),
        (pd.Series([np.zeros((2, 2))] * 4), "ndarray"),
    ],
)
def test_values_that_arrow_cannot_hold_are_one_error(values, told, tmp_path):
    frame = pandas_frame(values)
    calls = (
        lambda: of_a(frame).write_parquet(tmp_path / "m.parquet", rows="all"),
        lambda: cep.window(frame, {"d": "distinct(v)"}, length=2),
        lambda: cep.siddhi("from t select k, v insert into O", t=frame).to_frame(),
    )
    for call in calls[:2]:
        with pytest.raises(cep.CepError, match=rf"(?s)v.*{told}"):
            call()
    if "Decimal" not in repr(values):  # Siddhi reads them as numbers
        with pytest.raises(cep.CepError, match="v"):
            calls[2]()


def test_arrays_are_present_or_missing():
    frame = pandas_frame(pd.Series([np.zeros((2, 2)), None, np.ones((2, 2)), np.ones((2, 2))]))
    assert cep.match(frame, "p", define={"p": "v is not null"}).count() == 3


@pytest.mark.parametrize(
    "zone", [dt.timezone(dt.timedelta(minutes=7, seconds=13)), "dateutil/Europe/Berlin", "tzlocal()"]
)
def test_zones_without_a_name_keep_the_instants(zone):
    try:
        times = pd.to_datetime(["2020", "2021", "2022", "2023"]).tz_localize(zone)
    except AttributeError as error:
        pytest.skip(f"this pandas cannot use the zones of this dateutil: {error}")
    frame = pandas_frame(times)
    whole = cep.match(
        frame, "p p p p", define={"p": "v > prev(v) or v is not null"}, measures={"m": "max(v)"}
    )
    assert whole.to_frame()["m"][0] == times[3]
    assert cep.sql(SQL, t=frame).to_frame()["m"].to_list() == [times[0], times[2]]
    written = cep.siddhi("from t[k == 'a'] select v insert into O", t=frame).to_frame()
    assert written["v"].to_list() == [times[0], times[2]]


@pytest.mark.parametrize(
    "values",
    [
        pd.period_range("2020", periods=4, freq="M"),
        pd.interval_range(0, 4),
        [1j, 2, 3, 4],
        [Fraction(1, 3)] * 4,
        pd.Categorical([1, "a", 2.5, None]),
        pd.Series([[("a", 1)]] * 4, dtype=pd.ArrowDtype(pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_siddhi_names_a_column_that_its_result_cannot_hold(values):
    with pytest.raises(cep.CepError, match=r"O: column 'v' holds|O: v: the values have the types int, str"):
        cep.siddhi("from t select k, v insert into O", t=pandas_frame(values)).to_frame()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()),
        pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [pa.array([1] * 4)]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], pa.int8()), pa.array([[1], [2]])),
        pa.array([2**62, 1, 2, 3], pa.timestamp("s")),
    ],
)
def test_parquet_names_a_column_that_it_cannot_hold(values, tmp_path):
    frame = pa.table({"k": KINDS, "v": values})
    with pytest.raises(cep.CepError, match=r"column 'v' of type .* Parquet"):
        of_a(frame).write_parquet(tmp_path / "m.parquet", rows="all")
    assert not list(tmp_path.iterdir())


def test_intervals_have_no_order_and_no_sum():
    frame = pa.table({"k": KINDS, "v": pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval())})
    for aggregate in ("max(v)", "sum(v)"):
        with pytest.raises(cep.CepError, match="needs numbers"):
            cep.window(frame, {"m": aggregate}, length=2)


def test_names_of_columns_are_unicode():
    frame = pd.DataFrame([["a", 1]], columns=pd.Index(["k", "\ud800"], dtype=object))
    with pytest.raises(cep.CepError, match=r"name '\\ud800'.*Unicode"):
        of_a(frame)
