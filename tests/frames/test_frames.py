"""Frames of every kind, columns of every type: equal values give equal matches, and nothing is changed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError, OrderError
from cepkit.frames import pandas as of_pandas
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import partition_codes
from cepkit.frames.pandas import PandasSource, series_of_arrow

WIDTHS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ARROW_INTEGERS = {name: pd.ArrowDtype(pa.type_for_alias(name)) for name in WIDTHS}
ARROW_FLOATS = {name: pd.ArrowDtype(pa.type_for_alias(name)) for name in ("float32", "float64")}


def positions(matches):
    """Return the positions of the rows of all matches."""
    return matches.lineage()["position"].tolist()


def holding(frame, text, **keywords):
    """Return the numbers of the rows on which a predicate holds."""
    return positions(cep.match(frame, "p_", define={"p_": text}, **keywords))


def holding_each(frame, *texts):
    """Return for every predicate the numbers of the rows on which it holds. One kernel tests them all."""
    n = len(frame)
    repeated = pd.concat([frame.assign(which=i) for i in range(len(texts))], ignore_index=True)
    found = holding(repeated, " or ".join(f"which == {i} and ({text})" for i, text in enumerate(texts)))
    return [[position - i * n for position in found if position // n == i] for i in range(len(texts))]


def values_of_one_match(frame, *expressions):
    """Return the values of measures over all rows as one match. One kernel computes them all."""
    measures = {f"m{i}": expression for i, expression in enumerate(expressions)}
    (values,) = cep.match(frame, f".{{{len(frame)}}}", measures=measures).to_frame().to_dict("records")
    return list(values.values())


def one_match(frame, expression, **keywords):
    """Return the value of a measure over all rows as one match."""
    n = frame.num_rows if isinstance(frame, pa.Table) else len(frame)
    table = cep.match(frame, f".{{{n}}}", measures={"m": expression}, **keywords).to_frame()
    return table["m"].to_pylist()[0] if isinstance(table, pa.Table) else table["m"][0]


# --- numbers ----------------------------------------------------------------------------------------------

WITHOUT_NULLS = [
    *(pytest.param(lambda dtype=dtype: pd.Series([5, 1, 3, 7], dtype=dtype), id=dtype) for dtype in WIDTHS),
    *(pytest.param(lambda dtype=dtype: pd.Series([5, 1, 3, 7], dtype=dtype), id=dtype)
      for dtype in ("float16", "float32", "float64")),
    pytest.param(lambda: pd.Series([5, 1, 3, 7], dtype=object), id="objects"),
    pytest.param(lambda: pd.Series([5, 1, 3, 7], dtype="category"), id="category"),
]  # fmt: skip
WITH_NULLS = [
    *(pytest.param(lambda dtype=dtype: pd.Series([5, None, 3, 7], dtype=dtype), id=dtype)
      for dtype in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32",
                    "Float64", "float32", "float64")),
    *(pytest.param(lambda dtype=dtype: pd.Series([5, None, 3, 7], dtype=dtype), id=f"arrow {name}")
      for name, dtype in {**ARROW_INTEGERS, **ARROW_FLOATS}.items()),
    pytest.param(lambda: pd.Series([5, None, 3, 7], dtype=object), id="objects"),
    pytest.param(lambda: pd.Series([5.0, pd.NA, 3.0, 7], dtype=object), id="float objects"),
    pytest.param(lambda: pd.Series([Decimal(5), None, Decimal(3), Decimal(7)], dtype=object), id="decimals"),
    pytest.param(lambda: pd.Series([Decimal(5), pd.NA, Decimal(3), Decimal(7)]), id="decimals and NA"),
    pytest.param(lambda: pd.Series([5, None, 3, 7], dtype=pd.ArrowDtype(pa.decimal128(9, 2))), id="arrow"),
    pytest.param(lambda: pd.Series([5, None, 3, 7], dtype="category"), id="category of floats"),
    pytest.param(lambda: pd.Series(pd.Categorical([5, None, 3, 7], [7, 5, 3])), id="category of integers"),
    pytest.param(lambda: pd.Series(pd.Categorical([5, None, 3, 7], [3, 5, 7], ordered=True)), id="ordered"),
]  # fmt: skip


@pytest.mark.parametrize("values", WITHOUT_NULLS)
def test_numbers(values):
    frame = pd.DataFrame({"x": values()})
    assert holding_each(frame, "x > 2 and x / 2 < 3", "x is null") == [[0, 2], []]
    assert values_of_one_match(frame, "sum(x)", "max(x) - min(x)", "first(x) - last(x)") == [16, 6, -2]


@pytest.mark.parametrize("values", WITH_NULLS)
def test_numbers_with_nulls(values):
    frame = pd.DataFrame({"x": values()})
    tests = "x > 2 and x / 2 < 3", "x is null", "not (x > 6)"
    assert holding_each(frame, *tests) == [[0, 2], [1], [0, 2]]
    assert values_of_one_match(frame, "sum(x)", "count(x)", "avg(x)", "max(x) - min(x)") == [15, 3, 5, 4]


@pytest.mark.parametrize("values", [*WITHOUT_NULLS, *WITH_NULLS])
def test_numbers_as_keys(values):
    keys = values()
    frame = pd.DataFrame({"x": pd.concat([keys, keys], ignore_index=True)})
    assert frame["x"].dtype == keys.dtype
    found = cep.match(frame, ". .", partition_by="x")
    assert positions(found) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert found.to_frame()["x"].dtype == keys.dtype


@pytest.mark.parametrize("values", WITHOUT_NULLS)
def test_numbers_as_the_clock(values):
    frame = pd.DataFrame({"x": values(), "row": range(4)})
    found = cep.match(frame, ". .", order_by="x")
    assert found.to_frame("all")["row"].tolist() == [1, 2, 0, 3]
    assert found.lineage()["position"].tolist() == [0, 1, 2, 3]
    assert cep.match(frame, ". .", order_by="x", within=2).count() == 2
    assert cep.match(frame, ". .", order_by="x", within=2, within_closed=False).count() == 0


@pytest.mark.parametrize("values", WITH_NULLS)
def test_the_clock_has_no_nulls(values):
    with pytest.raises(OrderError, match="column 'x' has 1 missing values of 4"):
        cep.match(pd.DataFrame({"x": values()}), ".", order_by="x")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "Int8"])
def test_keys_that_span_more_than_their_width(dtype):
    keys = pd.DataFrame({"k": np.tile(np.arange(-100, 101), 3)}).astype(dtype)
    codes, n_codes = partition_codes(PandasSource(keys), ("k",))
    assert n_codes == 201
    assert len(set(codes)) == 201
    assert (codes[:201] == codes[201:402]).all()


@pytest.mark.parametrize("least", [-(2**62), -5, 0, 2**62])
@pytest.mark.parametrize("step", [1, 3, 2**40])
def test_keys_far_apart(least, step):
    values = [least + step * i for i in (0, 3, 1, 0, 3)]
    assert positions(cep.match(pd.DataFrame({"k": values}), ". .", partition_by="k")) == [0, 3, 1, 4]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, 2**63], dtype="uint64"),
        pd.Series([1, None, 2**63], dtype="UInt64"),
        pd.Series([1, 2**63], dtype=pd.ArrowDtype(pa.uint64())),
        pd.Series([1, 2**70], dtype=object),
    ],
    ids=["numpy", "masked", "arrow", "objects"],
)
def test_integers_beyond_64_signed_bits(values):
    frame = pd.DataFrame({"x": values, "y": 1.0})
    with pytest.raises(CepError, match="column 'x'"):
        cep.match(frame, "a", define={"a": "x > 1"})
    assert cep.match(frame, "a", define={"a": "y > 0"}).count() == len(
        values
    )  # an error only when it is looked at


def test_the_integer_that_stands_for_null():
    least = -(2**63)
    assert holding(pd.DataFrame({"x": [least, 0]}), "x < 0") == [0]
    for values in (
        pd.Series([least, None], dtype="Int64"),
        pd.Series([least, None], dtype=ARROW_INTEGERS["int64"]),
    ):
        with pytest.raises(CepError, match=r"has nulls and the value -2\^63"):
            holding(pd.DataFrame({"x": values}), "x < 0")


def test_integers_stay_integers():
    frame = pd.DataFrame({"x": [2**53, 2**53 + 1]})
    assert holding(frame, f"x > {2**53}") == [1]
    assert one_match(frame, "last(x) - first(x)") == 1
    assert one_match(frame, "max(x)") == 2**53 + 1


# --- truth values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([True, None, False], dtype=object),
        pd.Series([True, pd.NA, False], dtype=object),
        pd.Series([True, None, False], dtype=pd.ArrowDtype(pa.bool_())),
        pd.Series([True, None, False], dtype="category"),
    ],
    ids=["masked", "objects", "objects with NA", "arrow", "category"],
)
def test_truth_values(values):
    frame = pd.DataFrame({"f": values})
    assert positions(cep.match(frame, "f")) == [0]
    assert holding(frame, "f is null") == [1]
    assert holding(frame, "not f") == [2]
    assert holding(frame, "f == false") == [2]
    assert one_match(frame, "count(f)") == 2


def test_numpy_truth_values():
    frame = pd.DataFrame({"f": [True, False]})
    assert positions(cep.match(frame, "f")) == [0]
    assert positions(cep.match(frame, ". f_", define={"f_": "prev(f) and not f"})) == [0, 1]


# --- times and durations ----------------------------------------------------------------------------------

UNITS = ["s", "ms", "us", "ns"]
ZONES = [None, "UTC", "Europe/Berlin", "+05:30"]
# A clock change lies between the second and the third: one hour on the wall is no time at all.
WALL = ["2024-03-31 01:58:00", "2024-03-31 01:59:30", "2024-03-31 03:00:00", "2024-03-31 03:00:30"]


def times(unit, zone, null=False):
    values = pd.Series(pd.to_datetime(WALL).as_unit(unit))
    if zone is not None:
        values = values.dt.tz_localize(zone)
    if null:
        values = values.mask(values.index == 1)
    assert values.dt.unit == unit
    return values


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", UNITS)
def test_times(unit, zone):
    frame = pd.DataFrame({"t": times(unit, zone)})
    assert holding(frame, "t >= '2024-03-31 01:59:30' and t < '2024-03-31 03:00:30'") == [1, 2]
    assert holding(frame, "t == '2024-03-31 03:00'") == [2]
    assert positions(cep.match(frame, ". a", define={"a": "prev(t) == '2024-03-31 03:00'"})) == [2, 3]
    assert positions(cep.match(frame, ". a", define={"a": "first(t) > '2024-03-31 01:59'"})) == [1, 2]
    between = "30 s" if zone == "Europe/Berlin" else "60.5 min"  # from the second to the third
    assert positions(cep.match(frame, ". a", define={"a": f"delta(t) == '{between}'"})) == [1, 2]
    assert positions(cep.match(frame, ". .", order_by="t", within="60 s")) == (
        [1, 2] if zone == "Europe/Berlin" else [2, 3]
    )
    result = cep.match(frame, ". .", order_by="t", measures={"t": "first(t)", "d": "delta(t)", "m": "max(t)"})
    assert result.to_frame()["t"].dtype == frame["t"].dtype
    assert result.to_frame()["m"].tolist() == [frame["t"][1], frame["t"][3]]
    assert result.to_frame()["d"][0] == pd.Timedelta("90 s")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("unit", UNITS)
def test_times_with_nulls(unit, zone):
    frame = pd.DataFrame({"t": times(unit, zone, null=True)})
    assert holding(frame, "t is null") == [1]
    assert holding(frame, "t != '2024-03-31 03:00'") == [0, 3]
    assert holding(frame, "not (t > '2024-03-31 03:00')") == [0, 2]
    with pytest.raises(OrderError, match="1 missing values of 4"):
        cep.match(frame, ".", order_by="t")


def test_times_between_two_ticks():
    frame = pd.DataFrame({"t": pd.to_datetime(["2024-01-01 00:00:01", "2024-01-01 00:00:02"]).as_unit("s")})
    for sign, rows in {"<": [0], "<=": [0], ">": [1], ">=": [1], "==": [], "!=": [0, 1]}.items():
        assert holding(frame, f"t {sign} '2024-01-01 00:00:01.5'") == rows
        assert holding(frame, f"'2024-01-01 00:00:01.5' {sign} t") == (
            rows if sign in "==!=" else [1 - rows[0]]
        )
    assert holding(frame, "t < '3000-01-01' and t > '1200-01-01'") == [
        0,
        1,
    ]  # beyond what nanoseconds can hold


def test_parameters_may_be_times():
    frame = pd.DataFrame({"t": times("us", None)})
    for moment in (pd.Timestamp(WALL[2]), dt.datetime(2024, 3, 31, 3), np.datetime64(WALL[2])):
        assert holding(frame, "t >= :moment", params={"moment": moment}) == [2, 3]
    for span in (pd.Timedelta("90 s"), dt.timedelta(seconds=90), np.timedelta64(90, "s"), "90 s"):
        found = cep.match(frame, ". a", define={"a": "delta(t) <= :span"}, params={"span": span})
        assert positions(found) == [0, 1, 2, 3]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["numpy", "arrow", "objects", "objects with NA"])
def test_durations(kind, unit):
    values = pd.Series(pd.to_timedelta([90, 30, None, 60], unit="s")).dt.as_unit(unit)
    if kind == "arrow":
        values = values.astype(pd.ArrowDtype(pa.duration(unit)))
    elif kind.startswith("objects"):
        values = values.astype(object)
        values[2] = None if kind == "objects" else pd.NA
    frame = pd.DataFrame({"d": values})
    assert holding(frame, "d >= '1 min'") == [0, 3]
    assert holding(frame, "d is null") == [2]
    assert holding(frame, "d + '30 s' > '90 s'") == [0]
    assert one_match(frame, "max(d)") == pd.Timedelta("90 s")
    assert one_match(frame, "sum(d)") == pd.Timedelta("180 s")


def test_units_mix():
    start = pd.to_datetime(["2024-01-01 00:00:00", "2024-01-01 00:00:02"])
    frame = pd.DataFrame({"s": start.as_unit("s"), "ns": (start + pd.Timedelta("1 ms")).as_unit("ns")})
    assert holding(frame, "ns > s") == [0, 1]
    assert holding(frame, "ns - s == '1 ms'") == [0, 1]
    assert holding(frame, "s + '1500 us' > ns") == [0, 1]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([dt.date(2024, 1, 3), None, dt.date(2024, 1, 1)], dtype=object),
        pd.Series([dt.date(2024, 1, 3), None, dt.date(2024, 1, 1)], dtype=pd.ArrowDtype(pa.date32())),
        pd.Series([dt.date(2024, 1, 3), None, dt.date(2024, 1, 1)], dtype=pd.ArrowDtype(pa.date64())),
        pd.Series([dt.datetime(2024, 1, 3), None, dt.datetime(2024, 1, 1)], dtype=object),
        pd.Series(pd.Categorical(pd.to_datetime(["2024-01-03", None, "2024-01-01"]).as_unit("s"))),
    ],
    ids=["objects", "date32", "date64", "datetimes", "category"],
)
def test_dates(values):
    frame = pd.DataFrame({"d": values})
    assert holding(frame, "d >= '2024-01-02'") == [0]
    assert holding(frame, "d == '2024-01-01'") == [2]
    assert holding(frame, "d is null") == [1]
    assert positions(cep.match(frame, ". . a", define={"a": "delta(d) > '1 day'"})) == []
    assert pd.Timestamp(one_match(frame, "max(d)")) == pd.Timestamp("2024-01-03")
    assert pd.Timedelta(one_match(frame, "first(d) - last(d)")) == pd.Timedelta("2 days")
    sorted_frame = cep.match(frame.dropna(), ". .", order_by="d").to_frame("all")
    assert sorted_frame.index.tolist() == [2, 0]


# --- texts ------------------------------------------------------------------------------------------------

TEXTS = ["b", None, "ab", "b", "c"]
TEXT_KINDS = {
    "objects": lambda: pd.Series(TEXTS, dtype=object),
    "python strings": lambda: pd.Series(TEXTS, dtype="string[python]"),
    "arrow strings": lambda: pd.Series(TEXTS, dtype="string[pyarrow]"),
    "inferred": lambda: pd.Series(TEXTS),
    "category": lambda: pd.Series(TEXTS, dtype="category"),
    "category in another order": lambda: pd.Series(pd.Categorical(TEXTS, ["z", "c", "b", "ab"])),
    "arrow": lambda: pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
    "arrow large": lambda: pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.large_string())),
    "arrow dictionary": lambda: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(TEXTS).dictionary_encode())),
}


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_texts(kind):
    frame = pd.DataFrame({"s": TEXT_KINDS[kind](), "other": pd.Series(["b", "b", "b", "x", None])})
    expected = {
        "s == 'b'": [0, 3],
        "s != 'b'": [2, 4],
        "s == 'never'": [],
        "s >= 'b'": [0, 3, 4],
        "s like '%b'": [0, 2, 3],
        "starts_with(s, 'a') or s is null": [1, 2],
        "s in ('ab', 'c')": [2, 4],
        "s == other": [0],
        "s < other": [2, 3],
    }
    assert dict(zip(expected, holding_each(frame, *expected), strict=True)) == expected
    assert positions(cep.match(frame, ". a", define={"a": "s > prev(s)"})) == [2, 3]
    assert positions(
        cep.match(frame, ". . . a", define={"a": "max(s) == s and s > first(s) or s == max(s)"})
    ) == [0, 1, 2, 3]
    greatest, least, collected = values_of_one_match(frame, "max(s)", "min(s)", "collect(s)")
    assert (greatest, least, list(collected)) == ("c", "ab", TEXTS)
    found = cep.match(frame, ".", partition_by="s")
    assert found.to_frame()["s"].dtype == frame["s"].dtype
    assert "4 partitions by s" in repr(found)
    two = pd.concat([frame, frame], ignore_index=True)
    assert positions(cep.match(two, ". .", partition_by="s")) == [0, 3, 1, 6, 2, 7, 5, 8, 4, 9]
    with pytest.raises(OrderError, match="1 missing values of 5"):
        cep.match(frame, ".", order_by="s")
    assert cep.match(frame.dropna(subset=["s"]), ".{4}", order_by="s").to_frame("all").index.tolist() == [
        2,
        0,
        3,
        4,
    ]


def test_ordered_categories_compare_in_their_order():
    sizes = pd.Series(pd.Categorical(["low", "high", None, "mid"], ["low", "mid", "high"], ordered=True))
    frame = pd.DataFrame({"s": sizes, "t": ["zz", "high", "mid", "mid"]})
    assert holding(frame, "s > 'low'") == [1, 3]
    assert holding(frame, "s >= 'mid' and s < 'high'") == [3]
    assert holding(frame, "s == t and s > 'low'") == [1, 3]
    assert positions(cep.match(frame, ". a", define={"a": "s > prev(s)"})) == [0, 1]
    assert positions(cep.match(frame, ". . . a", define={"a": "max(s) == 'high' and min(s) == 'low'"})) == [
        0,
        1,
        2,
        3,
    ]
    assert (one_match(frame, "max(s)"), one_match(frame, "min(s)")) == ("high", "low")
    assert one_match(frame, "first(s) < last(s)")
    assert not one_match(frame, "last(s) > 'mid'")
    assert one_match(frame, "count(s) > 2") and not one_match(frame, "count(s) > 3")
    assert cep.match(frame.dropna(), "...", order_by="s").to_frame("all").index.tolist() == [0, 3, 1]
    with pytest.raises(CepError, match="'big' is not one of the ordered categories"):
        holding(frame, "s > 'big'")


# --- lists and the rest -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([[1, 2], [], None, [3]], dtype=object),
        pd.Series([np.array([1, 2]), np.array([], int), None, np.array([3])], dtype=object),
        pd.Series([[1, 2], [], None, [3]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
        pd.Series([[1, 2], [], None, [3]], dtype=pd.ArrowDtype(pa.large_list(pa.int16()))),
    ],
    ids=["lists", "arrays", "arrow", "arrow large"],
)
def test_lists(values):
    frame = pd.DataFrame({"l": values})
    assert holding(frame, "l[0] > 0") == [0, 3]
    assert holding(frame, "l[1] is null") == [1, 2, 3]
    assert holding(frame, "l[-1] == 2") == [0]
    assert one_match(frame, "sum(l[0])") == 4
    with pytest.raises(CepError, match=r"holds lists; take an item, as in l\[0\]"):
        holding(frame, "l > 1")
    with pytest.raises(CepError, match="column 'l' is of type list of integer, whose values cannot be keys"):
        cep.match(frame, ".", partition_by="l")
    with pytest.raises(OrderError, match="'l' is of type list of integer, which has no order"):
        cep.match(frame, ".", order_by="l")


def test_texts_and_times_in_lists():
    moments = [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02")]
    frame = pd.DataFrame({"l": [["a", "b"], ["b"]], "t": [moments, moments[:1]]})
    assert holding(frame, "l[-1] == 'b'") == [0, 1]
    assert holding(frame, "l[0] < 'b'") == [0]
    assert holding(frame, "t[-1] == '2024-01-02'") == [0]


@pytest.mark.parametrize(
    "values",
    [pd.Series([(1, 2), "a", 3.5], dtype=object), pd.Series(pd.period_range("2024", periods=3, freq="D")),
     pd.Series([1j, 2j, 3j]), pd.Series([{"a": 1}, {"a": 2}, {}], dtype=object)],
    ids=["mixed", "periods", "complex", "dicts"],
)  # fmt: skip
def test_other_types_are_refused_where_they_are_used(values):
    frame = pd.DataFrame({"o": values, "x": [1, 2, 3]})
    assert holding(frame, "x > 1") == [1, 2]
    with pytest.raises(
        CepError, match="the values of o are of several types, or of one that conditions cannot use"
    ):
        holding(frame, "o > 1")
    with pytest.raises(OrderError, match="which has no order"):
        cep.match(frame, ".", order_by="o")
    assert cep.match(frame, "...").to_frame("all")["o"].tolist() == values.tolist()


# --- Arrow tables and polars frames -----------------------------------------------------------------------


def table_of(**columns):
    return pa.table({name: pa.chunked_array(chunks) for name, chunks in columns.items()})


ARROW_VALUES = {
    "chunks": pa.chunked_array([[5, None], [], [3, 7]]),
    "no chunk of all": pa.chunked_array([[5, None, 3, 7]]),
    **{name: pa.array([5, None, 3, 7], pa.type_for_alias(name)) for name in WIDTHS},
    "float16": pa.array([np.float16(5), None, np.float16(3), np.float16(7)]),
    "float32": pa.array([5, None, 3, 7], pa.float32()),
    "decimal": pa.array([Decimal("5.00"), None, Decimal("3"), Decimal("7")], pa.decimal128(5, 2)),
    "decimal256": pa.array([Decimal(5), None, Decimal(3), Decimal(7)], pa.decimal256(50, 0)),
    "dictionary of integers": pa.array([5, None, 3, 7]).dictionary_encode(),
    "slice": pa.array([9, 9, 5, None, 3, 7, 9])[2:6],
}


@pytest.mark.parametrize("kind", ARROW_VALUES)
def test_arrow_numbers(kind):
    table = pa.table({"x": ARROW_VALUES[kind]})
    assert holding(table, "x > 2 and x / 2 < 3") == [0, 2]
    assert holding(table, "x is null") == [1]
    assert one_match(table, "sum(x)") == 15
    assert one_match(table, "max(x) - min(x)") == 4
    found = cep.match(table, ".", partition_by="x", measures={"first": "first(x)"}).to_frame()
    assert isinstance(found, pa.Table)
    assert found.schema.field("first").type == table.schema.field("x").type
    with pytest.raises(OrderError, match="1 missing values of 4"):
        cep.match(table, ".", order_by="x")


ARROW_TEXTS = {
    "string": pa.array(TEXTS),
    "large": pa.array(TEXTS, pa.large_string()),
    "view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "chunked dictionaries": pa.chunked_array(
        [pa.array(TEXTS[:2]).dictionary_encode(), pa.array(TEXTS[2:]).dictionary_encode()]
    ),
    "dictionary with null": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 0, 3]), pa.array(["b", None, "ab", "c"])
    ),
    "dictionary of 8 bits": pa.DictionaryArray.from_arrays(
        pa.array([2, None, 0, 2, 1], pa.uint8()), pa.array(["ab", "c", "b"], pa.large_string())
    ),
    "slice": pa.array(["x", *TEXTS, "y"])[1:-1],
}


@pytest.mark.parametrize("kind", ARROW_TEXTS)
def test_arrow_texts(kind):
    table = pa.table({"s": ARROW_TEXTS[kind]})
    assert holding(table, "s == 'b'") == [0, 3]
    assert holding(table, "s is null") == [1]
    assert holding(table, "s >= 'b' and s like '_'") == [0, 3, 4]
    assert one_match(table, "max(s)") == "c"
    assert one_match(table, "collect(s)") == TEXTS
    two = pa.concat_tables([table, table])
    assert positions(cep.match(two, ". .", partition_by="s")) == [0, 3, 1, 6, 2, 7, 5, 8, 4, 9]


ARROW_TIMES = {
    **{f"timestamp {unit}": pa.timestamp(unit) for unit in UNITS},
    "timestamp with zone": pa.timestamp("us", "Europe/Berlin"),
    "date32": pa.date32(),
    "date64": pa.date64(),
}


@pytest.mark.parametrize("kind", ARROW_TIMES)
def test_arrow_times(kind):
    of = ARROW_TIMES[kind]
    table = pa.table({"t": pa.array(["2024-01-02", None, "2024-01-04"]).cast(pa.timestamp("s")).cast(of)})
    text = "2024-01-02 01:00" if "zone" in kind else "2024-01-02"  # the table's moments are UTC
    assert holding(table, f"t == '{text}'") == [0]
    assert holding(table, "t > '2024-01-03'") == [2]
    assert holding(table, "t is null") == [1]
    assert one_match(table, "max(t)").date() == dt.date(2024, 1, 4) if "date" not in kind else True
    assert one_match(table, "delta(t)") == dt.timedelta(days=2)
    full = table.filter(pa.array([True, False, True]))
    assert cep.match(full, ". .", order_by="t", within="2 days").count() == 1
    assert cep.match(full, ". .", order_by="t", within="1 day").count() == 0


@pytest.mark.parametrize("of", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_arrow_times_of_day(of):
    table = pa.table({"t": pa.array([dt.time(9, 30), None, dt.time(16)], of)})
    assert holding(table, "t >= '10 h'") == [2]
    assert holding(table, "t is null") == [1]
    assert one_match(table, "max(t)") == dt.time(16)


@pytest.mark.parametrize(
    "of", [pa.list_(pa.int64()), pa.large_list(pa.int8()), pa.list_(pa.int64(), 2)], ids=str
)
def test_arrow_lists(of):
    table = pa.table({"l": pa.array([[1, 2], None, [3, None]], of)})
    table = pa.concat_tables([table, table]).slice(1, 4)
    assert holding(table, "l[0] >= 1") == [1, 2]
    assert holding(table, "l[-1] is null") == [0, 1, 3]
    assert one_match(table, "sum(l[0])") == 4


def test_arrow_results_are_tables():
    table = pa.table({"k": ["a", "b", "a"], "x": [1, 2, 3]})
    found = cep.match(table, ". .", partition_by="k", measures={"n": "count()", "x": "last(x)"})
    assert found.to_frame().to_pydict() == {"k": ["a"], "n": [2], "x": [3]}
    assert found.to_frame("all").to_pydict() == {
        "match": [0, 0],
        "variable": [".", "."],
        "k": ["a", "a"],
        "x": [1, 3],
    }
    assert found.tag().to_pydict()["match"] == [0, None, 0]
    assert found.lineage()["index"].tolist() == [0, 2]
    assert found[0].rows.num_rows == 2
    batch = table.to_batches()[0]
    assert cep.match(batch, ". .", partition_by="k").count() == 1


def test_views_in_dictionaries():
    table = pa.table(
        {"s": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", "b"], pa.string_view()))}
    )
    assert holding(table, "s == 'a'") == [0, 2]


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "k": ["a", "b", "a", None], "x": [1, 2, None, 4], "y": [1.5, float("nan"), None, 2.0],
            "t": [dt.datetime(2024, 1, day) for day in (1, 2, 3, 4)], "d": [dt.date(2024, 1, 1)] * 4,
            "f": [True, None, False, True], "l": [[1], [2, 3], None, []], "w": [dt.timedelta(seconds=5)] * 4,
            "c": pl.Series(["u", "v", None, "u"], dtype=pl.Categorical),
            "e": pl.Series(["u", "v", None, "u"], dtype=pl.Enum(["v", "u"])),
            "i": pl.Series([1, 2, 3, 4], dtype=pl.UInt8),
        }
    )  # fmt: skip
    before = frame.clone()
    for text, rows in {
        "x > 1": [1, 3], "x is null": [2], "y > 1": [0, 3], "y is null": [1, 2], "t >= '2024-01-03'": [2, 3],
        "f": [0, 3], "l[0] == 2": [1], "w == '5 s'": [0, 1, 2, 3], "c == 'u'": [0, 3], "e == 'u'": [0, 3],
        "i - 2 < 0": [0], "d == '2024-01-01' and k is null": [3], "k < 'b'": [0, 2],
    }.items():  # fmt: skip
        assert holding(frame, text, order_by="t") == rows, text
    found = cep.match(
        frame, ". .", partition_by="k", order_by="t", measures={"n": "count()", "last": "last(i)"}
    )
    assert isinstance(found.to_frame(), pl.DataFrame)
    assert found.to_frame().to_dict(as_series=False) == {"k": ["a"], "n": [2], "last": [3]}
    assert found.to_frame("all")["variable"].to_list() == [".", "."]
    assert found.tag()["match"].to_list() == [0, None, 0, None]
    assert frame.equals(before)
    with pytest.warns(cep.CepWarning, match=r"call collect\(\) once before"):
        assert cep.match(frame.lazy(), ".").count() == len(frame)


# --- order and partitions ---------------------------------------------------------------------------------


def test_unsorted_input_is_put_in_order_and_told_by_its_own_index():
    frame = pd.DataFrame({"t": [3, 1, 2], "x": ["c", "a", "b"]}, index=[30, 10, 20])
    found = cep.match(frame, "...", order_by="t", measures={"all": "collect(x)"})
    assert found.to_frame()["all"][0].tolist() == ["a", "b", "c"]
    assert found.to_frame("all").index.tolist() == [10, 20, 30]
    assert found.lineage()["index"].tolist() == [10, 20, 30]
    assert found.tag().index.tolist() == [30, 10, 20]


def test_ties_keep_the_order_of_rows():
    frame = pd.DataFrame({"t": [2, 1, 2, 1, 2], "u": [0, 1, 0, 0, -1]})
    assert cep.match(frame, ".{5}", order_by="t").to_frame("all").index.tolist() == [1, 3, 0, 2, 4]
    assert cep.match(frame, ".{5}", order_by=["t", "u"]).to_frame("all").index.tolist() == [3, 1, 4, 0, 2]


KXT = pa.schema({"k": pa.string(), "x": pa.int64(), "t": pa.timestamp("s")})
NO_ROWS = {
    "pandas": KXT.empty_table().to_pandas(),
    "objects": pd.DataFrame({"k": [], "x": [], "t": []}, dtype=object).astype({"x": "float", "t": "int64"}),
    "arrow": KXT.empty_table(),
    "arrow without chunks": pa.table([pa.chunked_array([], field.type) for field in KXT], KXT),
}


@pytest.mark.parametrize("kind", NO_ROWS)
def test_no_rows(kind):
    frame = NO_ROWS[kind]
    define = {"up": "x > first(x)", "drop": "k == 'a'"}
    measures = {"n": "count()", "x": "last(x)", "m": "max(k)", "all": "collect(x)"}
    found = cep.match(frame, ". up+ drop", define=define, partition_by="k", order_by="t", measures=measures)
    assert found.count() == 0
    assert not found
    assert list(found) == []
    for result in (found.to_frame(), found.to_frame("all"), found.head(), found.sample(3), found.tag()):
        assert len(result) == 0
    names = found.to_frame().schema.names if isinstance(frame, pa.Table) else list(found.to_frame().columns)
    assert names == ["k", "n", "x", "m", "all"]
    assert len(found.lineage()) == 0


def test_one_row():
    frame = pd.DataFrame({"k": ["a"], "t": [pd.Timestamp("2024-01-01")]})
    assert cep.match(frame, ".", partition_by="k", order_by="t").count() == 1
    assert cep.match(frame, ". .", partition_by="k", order_by="t").count() == 0


def test_all_rows_of_one_key_and_every_row_a_key():
    frame = pd.DataFrame({"one": ["k"] * 6, "own": range(6)})
    assert cep.match(frame, ". .", partition_by="one").count() == 3
    assert cep.match(frame, ". .", partition_by="own").count() == 0
    assert cep.match(frame, ".", partition_by="own").count() == 6


@pytest.mark.parametrize("null", [None, float("nan"), pd.NA, pd.NaT], ids=str)
def test_missing_keys_are_one_partition(null):
    keys = pd.Series(["a", null, "a", null, "b"], dtype=object)
    frame = pd.DataFrame({"k": keys, "j": [1, 1, 1, 1, 1]})
    assert positions(cep.match(frame, ". .", partition_by="k")) == [0, 2, 1, 3]
    assert positions(cep.match(frame, ". .", partition_by=["j", "k"])) == [0, 2, 1, 3]
    assert cep.match(frame, ". .", partition_by="k").to_frame()["k"].isna().tolist() == [False, True]


def test_keys_of_several_columns():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"a": rng.integers(0, 5, 200), "b": rng.choice(["x", "y", None], 200), "c": rng.random(200) < 0.5}
    )
    codes, n_codes = partition_codes(PandasSource(frame), ("a", "b", "c"))
    expected = frame.groupby(["a", "b", "c"], dropna=False, sort=False).ngroup()
    assert n_codes == expected.nunique()
    assert len(set(zip(codes, expected, strict=True))) == n_codes


@pytest.mark.parametrize(
    "keys", [[0.0, -0.0, 1.0], [(1, 2), (1, 2), (3,)], [1, 1.0, "a"], [dt.date(2024, 1, 1)] * 2 + [None]]
)
def test_odd_keys(keys):
    frame = pd.DataFrame({"k": pd.Series(keys, dtype=object)})
    assert positions(cep.match(frame, ". .", partition_by="k")) == [0, 1]


# --- names, indexes, and what is left alone ---------------------------------------------------------------


def test_odd_names_stand_in_backticks():
    frame = pd.DataFrame(
        {"the price": [1, 2, 3], "select": [3, 2, 1], "a-b": [True, False, True], "größe": [1, 1, 2]}
    )
    found = cep.match(
        frame, ". up", define={"up": "`the price` > prev(`the price`) and `a-b` == false and größe == 1"},
        partition_by=None, order_by="the price", measures={"n n": "max(`select`)"},
    )  # fmt: skip
    assert found.to_frame().to_dict("list") == {"n n": [3]}


def test_labels_that_are_no_texts():
    frame = pd.DataFrame({0: [1, 2], "x": [1, 2], ("a", "b"): [1, 2], None: [3, 4]})
    assert cep.match(frame, ". .").to_frame("all").columns.tolist() == ["match", "variable", *frame.columns]
    with pytest.raises(ColumnNotFoundError, match="column '0' not found"):
        holding(frame, "`0` > 1")


def test_duplicate_names_are_an_error_only_when_they_are_used():
    frame = pd.DataFrame([[1, 2, 3], [4, 5, 6]], columns=["x", "x", "y"])
    assert holding(frame, "y > 3") == [1]
    assert cep.match(frame, ". .").to_frame("all").columns.tolist() == ["match", "variable", "x", "x", "y"]
    for use in (
        {"define": {"p_": "x > 1"}},
        {"partition_by": "x"},
        {"order_by": "x"},
        {"measures": {"m": "max(x)"}},
    ):
        keywords = {"define": {"p_": "y > 1"}, **use}
        with pytest.raises(CepError, match="column 'x' occurs more than once"):
            cep.match(frame, "p_", **keywords).to_frame()
    table = pa.Table.from_arrays([pa.array([1, 4]), pa.array([2, 5]), pa.array([3, 6])], ["x", "x", "y"])
    assert holding(table, "y > 3") == [1]
    with pytest.raises(CepError, match="column 'x' occurs more than once"):
        holding(table, "x > 3")
    with pytest.raises(CepError, match="column 'x' occurs more than once"):
        cep.match(table, ".", measures={"m": "max(x)"})


def test_index_of_several_levels_is_kept():
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["letter", "number"])
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=index)
    rows = cep.match(frame, ". .").to_frame("all")
    assert rows.index.equals(index[:2])
    assert rows.index.names == ["letter", "number"]
    assert cep.match(frame, ". .").tag().index.equals(index)
    assert cep.match(frame, ". .").lineage()["index"].tolist() == [("a", 1), ("a", 2)]


def test_index_with_duplicates_and_times():
    moments = pd.to_datetime(["2024-01-01", "2024-01-01", "2024-01-02"])
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=moments)
    rows = cep.match(frame, "a a", define={"a": "x > 1"}).to_frame("all")
    assert rows.index.tolist() == list(moments[1:])
    assert rows["x"].tolist() == [2, 3]


def test_read_only_arrays():
    values, keys, clock = np.array([1.0, 2.0, 3.0]), np.array([1, 1, 2]), np.array([3, 1, 2])
    for array in (values, keys, clock):
        array.flags.writeable = False
    frame = pd.DataFrame({"x": values, "k": keys, "t": clock}, copy=False)
    found = cep.match(frame, ". .", partition_by="k", order_by="t", define={}, measures={"x": "sum(x)"})
    assert found.to_frame()["x"].tolist() == [3.0]
    assert found.tag()["match"].isna().tolist() == [False, False, True]


def test_columns_that_are_no_runs_of_memory():
    block = np.arange(12.0).reshape(6, 2)
    frame = pd.DataFrame(block, columns=["x", "y"])[::-2]
    assert holding(frame, "x > 2 and y < 10") == [1]
    frame = pd.DataFrame({"t": pd.date_range("2024", periods=6), "f": [True, False] * 3})[::2]
    assert positions(cep.match(frame, "f f", order_by="t", within="3 days")) == [0, 1]


@pytest.mark.parametrize("order_by", [None, "t"])
def test_the_frame_is_never_changed(order_by):
    frame = pd.DataFrame(
        {"k": ["b", "a", None, "b"], "x": [1, 2, 3, 4], "t": [4, 3, 2, 1], "y": [1.0, np.nan, 2.0, 3.0],
         "c": pd.Categorical(["u", "v", None, "u"]), "i": pd.array([1, None, 3, 4], dtype="Int64")},
        index=[3, 1, 3, 0],
    )  # fmt: skip
    before = frame.copy(deep=True)
    define = {"a": "x > 1 or c == 'u'", "b": "i > 0 and y > 0"}
    found = cep.match(frame, ". a* b", define=define, partition_by="k", order_by=order_by,
                      measures={"x": "first(x)", "c": "collect(c)"})  # fmt: skip
    for result in (found.to_frame(), found.to_frame("all"), found.tag(), found.lineage()):
        for name in result.columns:
            result[name] = None
    found.plot()
    repr(found)
    list(found)
    pd.testing.assert_frame_equal(frame, before)


def test_results_do_not_share_memory_with_the_frame():
    frame = pd.DataFrame({"x": [1, 2, 3]})
    tagged = cep.tag(frame, ". .")
    tagged.loc[0, "x"] = 99
    rows = cep.match(frame, "...").to_frame("all")
    rows.iloc[0, 2] = 99
    assert frame["x"].tolist() == [1, 2, 3]


def test_tag_refuses_to_write_over_columns():
    frame = pd.DataFrame({"match": [1], "x": [2]})
    for use in (lambda found: found.tag(), lambda found: found.to_frame("all")):
        with pytest.raises(CepError, match="has a column 'match' already; rename it"):
            use(cep.match(frame, "."))


def test_missing_columns():
    frame = pd.DataFrame({"symbol": ["a"], "price": [1.0], "ts": [1]})
    for keywords, message in [
        ({"partition_by": "symbl"}, "partition_by: column 'symbl' not found. Did you mean 'symbol'?"),
        ({"order_by": "tss"}, "order_by: column 'tss' not found. Did you mean 'ts'?"),
        ({"define": {"p_": "prise > 1"}}, "predicate 'p_': column 'prise' not found. Did you mean 'price'?"),
        ({"measures": {"m": "max(prise)"}}, "measure 'm': column 'prise' not found. Did you mean 'price'?"),
        ({"measures": {"m": "first(prise)"}}, "measure 'm': column 'prise' not found. Did you mean 'price'?"),
    ]:
        keywords = {"define": {"p_": "price > 1"}, **keywords}
        with pytest.raises(ColumnNotFoundError) as caught:
            cep.match(frame, "p_", **keywords)
        assert message in str(caught.value)
        with pytest.raises(KeyError):
            cep.match(frame, "p_", **keywords)


def test_what_is_no_frame():
    for thing, message in [
        ([1, 2], "a list of events is not a frame yet; make one first"),
        (pd.Series([1, 2]), r"to_frame\('value'\)"),
        ({"x": [1]}, "a mapping of columns is not a frame yet; make one first"),
        (None, "cannot search a builtins.NoneType"),
    ]:
        with pytest.raises(CepError, match=message):
            cep.match(thing, ".")


def test_subclasses_of_frames():
    class Trades(pd.DataFrame):
        @property
        def _constructor(self):
            return Trades

    assert cep.match(Trades({"x": [1, 2]}), ". .").count() == 1


def test_sources_agree_on_types():
    frame = pd.DataFrame({"i": [1], "y": [1.5], "s": ["a"], "t": pd.to_datetime(["2024-01-01"]), "f": [True]})
    kinds = {name: of.kind for name, of in PandasSource(frame).schema.items()}
    assert kinds == {"i": "integer", "y": "float", "s": "text", "t": "time", "f": "boolean"}
    assert kinds == {name: of.kind for name, of in ArrowSource(pa.Table.from_pandas(frame)).schema.items()}


def test_two_text_columns_with_different_texts_are_compared_by_their_texts():
    frame = pd.DataFrame({"a": ["u", "v", "w", "v"], "b": ["w", "v", "u", "x"]})
    for types in ({}, {"a": "category"}, {"b": object}):
        matches = cep.match(frame.astype(types), "same", define={"same": "a == b"})
        assert matches.to_frame("all")["a"].tolist() == ["v"]


def test_threads_take_the_values_of_a_result(monkeypatch):
    n = 60
    frame = pd.DataFrame({
        "i": range(n), "f": np.linspace(0, 1, n), "s": [f"v{i % 7}" for i in range(n)],
        "c": pd.Categorical([*"abc"] * (n // 3)), "o": [(i,) for i in range(n)],
        "t": pd.date_range("2024", periods=n), "a": pd.array(range(n), "int8[pyarrow]"),
    })  # fmt: skip
    measures = {f"{side}_{name}": f"{side}.{name}" for side in "ab" for name in frame}
    query, keywords = (
        "PATTERN SEQ(_ a, _ b) WHERE b.i > a.i + 20 WITHIN 25",
        {"order_by": "i", "measures": measures},
    )
    monkeypatch.setenv("CEPKIT_THREADS", "1")
    wanted = cep.match(frame, query, **keywords).to_frame()
    monkeypatch.setenv("CEPKIT_THREADS", "2")
    used = []
    run = of_pandas.run_on_threads
    monkeypatch.setattr(of_pandas, "_MANY_ROWS", 1)
    monkeypatch.setattr(of_pandas, "run_on_threads", lambda *given: used.append(given[1:]) or run(*given))
    found = cep.match(frame, query, **keywords).to_frame()
    pd.testing.assert_frame_equal(found, wanted)
    assert used == [(len(measures), 2)]


@pytest.mark.parametrize(
    ("values", "dtype"), [([True, False], "bool"), ([True, None], "boolean"), ([1.5, None], "float64")]
)
def test_only_truth_values_with_nulls_become_nullable(values, dtype):
    assert str(series_of_arrow(pa.array(values)).dtype) == dtype


GREATEST_DURATION = pd.Timedelta(np.timedelta64(2**63 - 1, "us"))


@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT], ids=["None", "NA", "NaT"])
def test_objects_that_are_times_of_nanoseconds(missing):
    times = pd.Series([pd.Timestamp(1, unit="ns"), missing, pd.Timestamp(2, unit="ns")], dtype=object)
    frame = pd.DataFrame({"t": times})
    assert holding(frame, "t > '1970-01-01 00:00:00.000000001'") == [2]
    assert holding(frame, "t is null") == [1]


def test_objects_that_are_durations_beyond_nanoseconds():
    frame = pd.DataFrame({"d": pd.Series([GREATEST_DURATION, pd.Timedelta("1s"), None], dtype=object)})
    found = cep.match(frame, "long", define={"long": "d > '1000000 days'"}, measures={"d": "first(d)"})
    assert found.to_frame()["d"].tolist() == [GREATEST_DURATION]


def test_durations_that_have_no_common_unit_are_refused():
    frame = pd.DataFrame({"d": pd.Series([GREATEST_DURATION, pd.Timedelta(1, "ns")], dtype=object)})
    with pytest.raises(CepError, match="the values of d are of several types"):
        cep.match(frame, "long", define={"long": "d > '1 day'"})
