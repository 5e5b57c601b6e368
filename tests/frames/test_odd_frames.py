"""Odd frames: the same rows in pandas, Arrow, polars and Spark, or the same error, always a `CepError`."""

from __future__ import annotations

import re
import warnings
from random import Random

import numba
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
)
from tests.support.odd_queries import answer, difference, draw_comparison, draw_query, rows_that_hold
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
