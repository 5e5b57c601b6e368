"""Odd frames: the same rows in pandas, Arrow, polars and Spark, or the same error, always a `CepError`."""

from __future__ import annotations

import datetime as dt
import math
import re
import warnings
from random import Random

import numba
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from tests.support.odd_frames import (
    OddColumn,
    OddTable,
    arrow_table,
    draw_stacked,
    draw_table,
    forms_of,
    loses_types,
    plain_rows,
)
from tests.support.odd_queries import (
    COMPARE,
    answer,
    difference,
    draw_comparison,
    draw_query,
    rows_that_hold,
)
from tests.support.sizes import seeds

BLOCK = 20  # cases of a test
WITHOUT_TYPES = ("arrow without types", "pandas", "pandas mixed", "pandas objects")


def check_case(seed: int) -> None:
    """Compare the answers of one query on all forms of one table."""
    draw = Random(f"odd frames {seed}")
    table = draw_table(draw)
    forms = forms_of(table, draw)
    query = draw_query(draw, table)
    expected = answer(query, forms["arrow"])
    assert not expected.is_fault, (seed, query.text, expected.error)
    for name, frame in forms.items():
        knows_less = name in WITHOUT_TYPES and loses_types(table)
        said = difference(expected, answer(query, frame), knows_less=knows_less)
        assert not said, (seed, name, query.text, said)


def test_a_column_without_values_is_summed_and_compared_with_false():
    check_case(3622)


@pytest.mark.parametrize(
    ("columns", "call"),
    [
        # A mean of times is a time.
        ({"n": pa.int64(), "x": pa.timestamp("ns")}, lambda frame: cep.match(frame, (
            "MATCH_RECOGNIZE (ORDER BY n MEASURES AVG(x) AS m PATTERN (p) DEFINE p AS x > '2024-10-27')"))),
        # A column is like a column that it is compared with, also when that one has no values.
        ({"n": pa.int64(), "x": pa.string(), "y": pa.string()}, lambda frame: cep.match(
            frame, "p q", define={"p": "x like '_'", "q": "x <= y"})),
        # Names differ in case only.
        ({"n": pa.int64(), "price": pa.timestamp("ms"), "Price": pa.int16()}, lambda frame: cep.match(frame, (
            'MATCH_RECOGNIZE (ORDER BY n MEASURES MAX(n) AS m PATTERN (p q) DEFINE p AS "Price" / 2 <= 7, '
            'q AS "price" <= \'1970-01-01\')'))),
        # "_" says nothing about the types of events.
        ({"n": pa.int64(), "x": pa.string()}, lambda frame: cep.match(
            frame, "PATTERN SEQ(_ a, _ b) WHERE a.x like 'A%'", event_type="x", order_by="n")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_rows", [0, 2])
def test_a_column_without_values_and_type_answers_like_one_with_its_type(columns, call, n_rows):
    rows = {name: pa.nulls(n_rows, of) for name, of in columns.items()} | {"n": pa.array(range(n_rows))}
    typed = pa.table(rows)
    untyped = pa.table(rows | {name: pa.nulls(n_rows) for name in columns if name != "n"})
    objects = pd.DataFrame({name: pd.Series([None] * n_rows, dtype=object) for name in columns})
    objects["n"] = range(n_rows)
    n_matches = call(typed).count()
    assert [call(frame).count() for frame in (untyped, objects)] == [n_matches, n_matches]


def test_integers_beyond_63_bits_among_objects_and_nulls_are_kept():
    large = 2**64 - 1
    rows = {"n": [0, 1], "x": pa.array([large, 3], pa.uint64())}
    windows = {"left": cep.Window(length=1), "right": cep.Window(length=2), "order_by": "n", "on": "n"}
    for frame in (pa.table(rows), pa.table(rows).to_pandas(), pa.table(rows).to_pandas().astype(object)):
        names, joined = plain_rows(cep.join(frame, frame, how="left", **windows))
        assert {row[names.index("x_right")] for row in joined} == {large, 3, None}
        with pytest.raises(cep.CepError, match=f"^{large} does not fit a signed 64-bit integer"):
            cep.window(frame, {"s": "sum(x)"}, length=2, order_by="n")


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]", object])
def test_the_least_integer_is_a_value_where_none_is_missing(dtype):
    frame = pd.DataFrame({"row_": [0, 1, 2], "x": pd.Series([-(2**63), 5, 1 - 2**63]).astype(dtype)})
    for language, rows in rows_that_hold(frame, "x", "<", "3").items():
        assert rows == [0, 2], language
    found = cep.match(frame, "p", define={"p": "x is null"}).count()
    assert found == 0


def test_a_difference_of_times_is_never_the_missing_one():
    times = pa.array([2**63 - 1, -1], pa.int64()).view(pa.timestamp("s"))
    rows = pa.table({"n": [0, 1], "t": times})
    for frame in (rows, rows.to_pandas()):
        made = pa.table(cep.window(frame, {"d": "delta(t)"}, length=2, order_by="n"))
        assert made["d"].combine_chunks().view(pa.int64()).to_pylist() == [0, 1 - 2**63]


def test_lists_of_times_of_a_day_keep_their_nanoseconds():
    times = pa.array([1, 86399999999999], pa.time64("ns"))
    frame = pd.DataFrame({"t": pd.array(times, pd.ArrowDtype(times.type))})
    found = cep.match(frame, "p{2}", define={"p": "t is not null"}, measures={"all": "collect(t)"}).to_frame()
    assert pa.array(found["all"]).values.cast(pa.int64()).to_pylist() == [1, 86399999999999]


def test_both_zeros_are_one_value():
    rows = pa.table({"n": [0, 1, 2], "k": [0.0, -0.0, 0.0]})
    window, row_pattern = (
        cep.Window(length=3),
        "MATCH_RECOGNIZE (PARTITION BY k ORDER BY n PATTERN (p p p) DEFINE p AS true)",
    )
    for frame in (rows, rows.to_pandas(), rows.set_column(1, "k", rows["k"].dictionary_encode())):
        assert len(cep.join(frame, frame, left=window, right=window, on="k", order_by="n")) == 9
        counted = pa.table(cep.window(frame, {"d": "distinct(k)", "n_": "count()"}, length=3, order_by="n"))
        assert counted["d"].to_pylist() == [1, 1, 1]
        found = cep.match(
            frame, "p{3}", define={"p": "n >= 0"}, partition_by="k", measures={"d": "distinct(k)"}
        )
        assert pa.table(found.to_frame())["d"].to_pylist() == [1]
        assert cep.match(frame, row_pattern).count() == 1


def test_infinities_are_summed_in_silence():
    rows = pa.table({"x": [math.inf, -math.inf, 1e308, 1e308]})
    found = cep.match(rows, "p{2}", define={"p": "x is not null"}, measures={"s": "sum(x)"}).to_frame()
    assert str(found["s"].to_pylist()) == "[nan, inf]"


@pytest.mark.parametrize("tumbling", [False, True])
def test_a_row_leaves_a_window_at_the_last_tick_at_the_latest(tumbling):
    ticks = pa.array([-(2**63) + 1, 2**63 - 2], pa.int64())
    for clock, width in ((ticks, 5), (ticks.view(pa.timestamp("s")), "5 s")):
        rows = pa.table({"t": clock})
        found = cep.window(rows, {"n": "count()"}, order_by="t", emit="all", time=width, tumbling=tumbling)
        emitted = found["emitted"].combine_chunks().view(pa.int64()).to_pylist()
        assert emitted == sorted(emitted) and emitted[-1] == 2**63 - 1


@pytest.mark.parametrize("of", [pa.date32(), pa.date64()])
def test_dates_in_a_dictionary_are_a_clock(of):
    days = pa.array([dt.date(2024, 4, 1)], of)
    plain, coded = (
        cep.window(pa.table({"t": clock}), {"n": "count()"}, time="2 days", order_by="t", emit="all")
        for clock in (days, days.dictionary_encode())
    )
    assert coded["emitted"].equals(plain["emitted"])


@pytest.mark.parametrize("seed", seeds(2, 250))
def test_odd_frames(seed):
    for own in range(BLOCK * seed, BLOCK * (seed + 1)):
        check_case(own)


# --- comparisons with a known answer ---


def check_comparison(seed: int) -> None:
    """Compare the rows on which one condition holds with Python's answer, in every language and frame."""
    draw = Random(f"odd comparisons {seed}")
    table = draw_table(draw)
    drawn = draw_comparison(draw, table)
    if drawn is None:
        return
    column, sign, constant, expected = drawn
    name = column.name
    row = OddColumn("row_", "number", pa.array(range(table.n_rows), pa.int64()))
    alone = OddTable((row, column), table.n_rows)
    for kind, frame in forms_of(alone, draw).items():
        if kind in WITHOUT_TYPES and loses_types(alone):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", cep.errors.CepWarning)
            try:
                found = rows_that_hold(frame, name, sign, constant)
            except cep.CepError as error:  # integers that 64 bits with a sign cannot hold
                assert re.search(r"signed 64|64 bits|-2\^63", str(error)), (seed, kind, constant, error)
                continue
        for language, rows in found.items():
            assert rows == expected, (seed, kind, language, f"{name} {sign} {constant}", column.values)


@pytest.mark.parametrize("has_null", [False, True])
@pytest.mark.parametrize(
    "constant", ["2.5", "-1e30", "1e30", f"{-(2**63)}.0", f"{2**63}.0", "9007199254740993.0", "-0.0"]
)
def test_integers_beside_floats(constant, has_null):
    values = [2**53 + 1, 2**53, 2, 0, 2**63 - 1, None if has_null else -(2**63)]
    frame = pa.table({"row_": range(len(values)), "x": pa.array(values, pa.int64())})
    for sign, holds in ((sign, COMPARE[sign]) for sign in COMPARE):
        expected = [i for i, v in enumerate(values) if v is not None and holds(v, float(constant))]
        for language, rows in rows_that_hold(frame, "x", sign, constant).items():
            assert rows == expected, (language, sign)
    for n_further in (0, 12):
        options = ", ".join([constant, *(str(10 + i) for i in range(n_further))])
        for text in (f"x in ({options})", f"not x in ({options})"):
            expected = [
                i
                for i, v in enumerate(values)
                if v is not None and (v == float(constant)) is not text.startswith("not")
            ]
            found = cep.match(frame, "p", define={"p": text}, measures={"r": "first(row_)"}).to_frame()
            assert found["r"].to_pylist() == expected, text


def test_a_text_between_two_ticks_equals_no_time():
    frame = pa.table({"row_": [0, 1], "x": pa.array([0, None], pa.timestamp("s"))})
    for sign, expected in {"=": [], "!=": [0]}.items():
        for language, rows in rows_that_hold(frame, "x", sign, "'1970-01-01 00:00:00.5'").items():
            assert rows == expected, (language, sign)


@pytest.mark.parametrize("seed", seeds(1, 50))
def test_comparisons(seed):
    for own in range(BLOCK * seed, BLOCK * (seed + 1)):
        check_comparison(own)


# --- columns of other types --------------------------------------------------------------------------------

OTHER_TYPES = {
    "structs": (pa.struct([("a", pa.int64())]), {"a": 1}),
    "bytes": (pa.binary(), b""),
    "maps": (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
}


@pytest.mark.parametrize("has_null", [True, False])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_only_whether_a_value_is_missing_is_asked_of_other_types(kind, tier, has_null, monkeypatch):
    of, value = OTHER_TYPES[kind]
    values = [value, None if has_null else value, value]
    monkeypatch.setenv("CEPKIT_TIER", tier)
    rows = pa.table({"n": [1, 2, 3], "kind": ["A", "A", "C"], "x": pa.array(values, of)})
    missing = values[1:2].count(None)
    for frame in (rows, rows.to_pandas()):
        assert cep.match(frame, "p", define={"p": "x is null"}).count() == missing
        assert cep.match(frame, "p", define={"p": "x is not null and n > 1"}).count() == 2 - missing
        of_condition = {
            "a.x is null": missing,
            "c.x is not null and a.x is null": missing,
            "a.n < c.n and a.x is not null": 2 - missing,
        }
        for condition, expected in of_condition.items():
            query = f"PATTERN SEQ(A a, C c) WHERE {condition}"
            assert cep.match(frame, query, event_type="kind", order_by="n").count() == expected, condition
        with pytest.raises(cep.CepError, match="is not defined; it needs numbers"):
            cep.match(frame, ". p", define={"p": "max(x) is null"}).count()


def test_a_numba_function_takes_no_values_of_other_types():
    if numba.config.DISABLE_JIT:
        pytest.skip("every function is plain Python")
    rows = pa.table({"n": [1], "x": pa.array([{"a": 1}])})
    cep.pure(numba.njit(lambda v: v > 0), name="is_above_zero")
    with pytest.raises(cep.PredicateError, match="register a plain Python function"):
        cep.match(rows, "p", define={"p": "is_above_zero(x)"}).count()
    cep.pure(lambda v: v["a"] > 0, name="has_more")
    assert cep.match(rows, "p", define={"p": "has_more(x) and x is not null"}).count() == 1


# --- Spark -------------------------------------------------------------------------------------------------

TABLES = 40  # small tables that one job searches, as partitions


def check_on_spark(spark, seed: int) -> int:
    """Compare one query over many small tables, on Spark and in Arrow; return the number of rows."""
    draw = Random(f"odd frames on Spark {seed}")
    table = draw_stacked(draw, TABLES)
    rows = arrow_table(table)
    query = draw_query(draw, table)
    expected = answer(query, rows)
    assert not expected.is_fault, (seed, query.text, expected.error)
    found = answer(query, spark.createDataFrame(rows))
    if expected.error is not None:
        assert found.error is not None, (seed, query.text, expected.error)
        first = str(expected.error).splitlines()[0]
        assert first[-60:] in str(found.error), (seed, query.text, expected.error, found.error)
        return 0
    assert found.error is None, (seed, query.text, found.error)
    assert found.names == expected.names
    assert sorted(map(repr, found.rows)) == sorted(map(repr, expected.rows)), (seed, query.text)
    return len(expected.rows)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_odd_frames_on_spark(spark, seed):
    pytest.importorskip("pyspark")
    check_on_spark(spark, seed)
