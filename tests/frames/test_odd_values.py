"""Faults that odd frames had, one by one: columns without values, units of times, extremes, objects."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cepkit as cep
import cepkit.frames.pandas
from tests.support.odd_frames import plain_rows

NANOSECOND = pa.scalar(1, pa.duration("ns"))


SEQUENCE = "PATTERN SEQ(A a, B b)"
ROWS = "MATCH_RECOGNIZE (ORDER BY n MEASURES n AS n PATTERN (p_) DEFINE p_ AS {})"
NOTHING = {
    "objects": pd.DataFrame({"n": [0, 1], "x": pd.Series([None, np.nan], dtype=object)}),
    "arrow": pa.table({"n": [0, 1], "x": pa.nulls(2)}),
    "arrow in pandas": pd.DataFrame({"n": [0, 1], "x": pd.array([None] * 2, pd.ArrowDtype(pa.null()))}),
    "polars": pl.DataFrame({"n": [0, 1], "x": [None, None]}),
}  # fmt: skip


def holding(frame, condition: str) -> list:
    return plain_rows(
        cep.match(frame, "p_", define={"p_": condition}, measures={"n": "first(n)"}).to_frame()
    )[1]


def holding_in_sql(frame, condition: str) -> list:
    return plain_rows(cep.match(frame, ROWS.format(condition)).to_frame())[1]


@pytest.mark.parametrize("kind", NOTHING)
def test_a_column_without_values_has_the_type_that_the_query_says(kind):
    frame = NOTHING[kind]
    with pytest.warns(cep.CepWarning, match="It has no values"):
        assert cep.match(frame, SEQUENCE, event_type="x", order_by="n").count() == 0
    for condition in (
        "x = 'A'",
        "x > 1",
        "x > '2024-01-31'",
        "not x",
        "x like 'A%'",
        "x in (1, 2)",
        "x < '5 s'",
    ):
        assert holding(frame, condition) == []
    assert len(holding(frame, "x is null")) == 2
    assert (
        holding_in_sql(frame, "x = 'A'") == holding_in_sql(frame, "x > TIMESTAMP '2024-01-31 00:00:00'") == []
    )
    assert len(cep.window(frame, {"s": "sum(x)"}, length=2, where="x is null", order_by="n")) == 2
    assert len(cep.join(frame, frame, left=cep.Window(length=1), on="x", order_by="n")) == 0
    tagged = cep.tag(frame, "p_", define={"p_": "x is null"})
    if isinstance(frame, pd.DataFrame):  # the user's column stays as it is
        assert tagged["x"].dtype == frame["x"].dtype


def test_a_column_of_several_types_is_refused_in_all_languages():
    frame = pd.DataFrame({"n": range(3), "x": pd.Series(["A", 1, 2.5], dtype=object)})
    for call in (
        lambda: holding(frame, "x = 'A'"),
        lambda: cep.match(frame, SEQUENCE, event_type="x", order_by="n"),
        lambda: holding_in_sql(frame, "x = 'A'"),
    ):
        with pytest.raises(cep.PredicateError, match=r"the values of (a\.)?x are of several types"):
            call()


def test_times_in_several_units():
    seconds = pa.array([0, 1, 2], pa.int64()).cast(pa.timestamp("s"))
    table = pa.table(
        {"n": [0, 1, 2], "s": seconds, "ns": pc.add(seconds.cast(pa.timestamp("ns")), NANOSECOND)}
    )
    for condition in ("s < ns", "s != ns", "s < '1970-01-01 00:00:02.5'", "ns >= s", "ns - s < '1 us'"):
        assert holding(table, condition) == [(0,), (1,), (2,)], condition
    assert holding_in_sql(table, "s < ns") == holding_in_sql(table, "ns > s") == [(0,), (1,), (2,)]
    assert holding_in_sql(table, "s = ns") == holding_in_sql(table, "s = '1970-01-01 00:00:01.5'") == []
    assert holding_in_sql(table, "s > '1970-01-01 00:00:01.5'") == [(2,)]


def test_times_beyond_64_bits():
    table = pa.table({"n": [0, 1], "t": pa.array([2**63 - 1, 0]).cast(pa.timestamp("ns"))})
    assert holding(table, "t >= '9999-12-31'") == holding_in_sql(table, "t >= '9999-12-31'") == []
    assert len(holding(table, "t < '9999-12-31'")) == len(holding(table, "t > '0001-01-01'")) == 2
    assert len(cep.window(table, {"n2": "last(n)"}, length=1, where="t < '9999-12-31'")) == 2


@pytest.mark.parametrize("time", ["2024-03-31 02:30", "2024-10-27 02:30"])
def test_times_that_the_clocks_skip_or_repeat_are_refused_in_all_languages(time):
    zone = pa.timestamp("ms", "Europe/Berlin")
    table = pa.table({"n": [0], "t": pa.array([1711846800000]).cast(zone)})
    for call in (
        lambda: holding(table, f"t > '{time}'"),
        lambda: holding_in_sql(table, f"t > '{time}'"),
        lambda: cep.window(table, {"s": "count()"}, length=1, where=f"t > '{time}'"),
        lambda: cep.siddhi(
            "from t select n insert into O", t=table, order_by="t", complete_until=time
        ).to_frame(),
        lambda: cep.match(table, "p", define={"p": "n = 0"}, measures={"m": f"max(t) > '{time}'"}).to_frame(),
    ):
        with pytest.raises(cep.CepError, match="does not exist in Europe/Berlin, or exists twice"):
            call()


def test_objects_keep_their_nanoseconds():
    times = pd.Series([pd.Timestamp(1, unit="ns"), pd.Timestamp(2, unit="ns"), None], dtype=object)
    frame = pd.DataFrame({"n": range(3), "t": times})
    assert holding(frame, "t = '1970-01-01 00:00:00.000000002'") == [(1,)]
    assert plain_rows(cep.match(frame, "..", measures={"d": "delta(t)"}).to_frame())[1] == [(1,)]


def test_times_of_a_day_are_durations_in_pandas_too():
    frame = pd.DataFrame({"n": range(2), "t": pd.Series([dt.time(9), dt.time(16)], dtype=object)})
    table = pa.Table.from_pandas(frame)
    assert holding(frame, "t > '10 h'") == holding(table, "t > '10 h'") == [(1,)]
    for one in (frame, table):
        with pytest.raises(cep.CepError, match="'t' holds times of a day; add the date"):
            cep.match(one, "..", order_by="t", within="1 h")


def test_integers_that_no_float_holds():
    table = pa.table(
        {"n": [0, 1, 2], "f": [2.0**53, 2.0**53 + 2, float("nan")], "i": [2**53, 2**53 + 1, None]}
    )
    for holds in (holding, holding_in_sql):
        assert holds(table, "f >= 9007199254740993") == holds(table, "f > 9007199254740993") == [(1,)]
        assert holds(table, "f < 9007199254740993") == [(0,)] and holds(table, "f = 9007199254740993") == []
        assert (
            holds(table, "f != 9007199254740993") == holds(table, "not f = 9007199254740993") == [(0,), (1,)]
        )
        assert holds(table, "i = 9007199254740993") == [(1,)]
    assert len(cep.window(table, {"c": "count()"}, length=1, where="f < 9007199254740993")) == 1


def test_aggregates_of_other_values_are_refused():
    table = pa.table({"n": [0], "s": ["A"], "b": [True], "y": [b"a"]})
    text = "MATCH_RECOGNIZE (ORDER BY n MEASURES AVG(s) AS m PATTERN (p_) DEFINE p_ AS n = 0)"
    with pytest.raises(cep.PredicateError, match="needs numbers, not texts"):
        cep.match(table, text).to_frame()
    for call in ("delta(s)", "sum(s)", "min(y)"):
        with pytest.raises(cep.PredicateError, match=r"needs numbers|is not defined"):
            cep.match(table, "p_", define={"p_": "n = 0"}, measures={"m": call})
        with pytest.raises(cep.PredicateError, match=r"needs numbers|is not defined"):
            cep.window(table, {"m": call}, length=1)


def test_views_in_pandas():
    texts = pd.array(["A", "B", None], dtype=pd.ArrowDtype(pa.string_view()))
    frame = pd.DataFrame({"n": range(3), "x": texts}, index=[5, 6, 7])
    found = cep.match(frame, ".", define={}, measures={"m": "max(x)", "x": "first(x)"}).to_frame()
    assert plain_rows(found)[1] == [("A", "A"), ("B", "B"), (None, None)]
    assert cep.match(frame, "...").to_frame("all").index.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([["a", "B"], None], pa.list_(pa.string_view())),
        ([["a"], ["b"]], pa.list_(pa.string_view(), 1)),
        ([{"n": ["x"]}, None], pa.struct([("n", pa.large_list(pa.string_view()))])),
    ],
)
def test_views_inside_lists_and_structs(values, kind):
    table = pa.table({"n": [1, 2], "x": pa.array(values, kind)})
    found = cep.match(table, "p_", define={"p_": "n > 0"}, order_by="n", measures={"m": "last(x)"})
    assert found.to_frame()["m"].to_pylist() == values
    assert cep.eql("any where n == 1", table, order_by="n")["x"].to_pylist() == values[:1]


def test_names_that_several_columns_have_are_refused_in_arrow():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([2])], names=["n", "x", "x"])
    for call in (
        lambda: holding_in_sql(table, "n = 1 and x = 1"),
        lambda: cep.join(table, table, on="n", order_by="n", left=cep.Window(length=1)),
    ):
        with pytest.raises(cep.CepError, match=r"more than once|twice"):
            call()


def test_only_the_columns_of_the_query_are_looked_at(monkeypatch):
    """Objects must be looked at to know their type: a frame may have thousands of such columns."""
    asked = []
    find = cepkit.frames.pandas.type_of_series
    monkeypatch.setattr(
        "cepkit.frames.pandas.type_of_series",
        lambda series, *known: asked.append(series.name) or find(series, *known),
    )
    columns = {f"c{i}": pd.Series(["a", "b"], dtype=object) for i in range(3_000)}
    frame = pd.DataFrame({"n": [0, 1], **columns})
    assert cep.match(frame, "p_", define={"p_": "c7 = 'a'"}, order_by="n").count() == 1
    assert set(asked) <= {"n", "c7"}
