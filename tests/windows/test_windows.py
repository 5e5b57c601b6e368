"""Windows give the rows of the oracle, bit for bit, on every kind of frame."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import PredicateError
from tests.support.sizes import seeds
from tests.support.tables import cases
from tests.support.window_cases import plain, random_frame, random_window_case, rows_of

pl = pytest.importorskip("polars")
_BLOCK = 30  # cases of one test


def check(seed: int) -> None:
    case = random_window_case(seed)
    found = cep.window(case.frame, case.window)
    names = [name for name in found.columns if name != "emitted"]
    assert plain(rows_of(found), names) == plain(case.expected, names), seed
    assert found.index.isin(case.frame.index).all()


@pytest.mark.parametrize("seed", seeds(8, 70))
@pytest.mark.parametrize("per_part", [1 << 18, 3])
def test_windows_equal_the_oracle(seed, per_part, monkeypatch):
    monkeypatch.setattr("cepkit.windows.running._PER_PART", per_part)
    for own in range(_BLOCK * seed, _BLOCK * (seed + 1)):
        check(own)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_arrow_and_polars_equal_pandas(seed):
    case = random_window_case(seed)
    expected = plain(
        rows_of(cep.window(case.frame, case.window)), list(case.window.added_columns(is_timed=False))
    )
    table = pa.Table.from_pandas(case.frame, preserve_index=False)
    for frame in (table, pl.from_arrow(table)):
        found = cep.window(frame, case.window)
        assert isinstance(found, pa.Table if frame is table else pl.DataFrame)
        rows = found.to_pylist() if frame is table else found.to_dicts()
        assert plain(rows, list(case.window.added_columns(is_timed=False))) == expected


# --- worked examples

TICKS = pd.DataFrame(
    {"ts": [0, 10, 15, 15, 16], "price": [1.0, 2.0, 4.0, 8.0, 16.0], "symbol": list("aabab")},
    index=[7, 3, 9, 1, 4],
)


def test_a_row_of_exactly_the_width_has_left_and_ties_enter_one_after_the_other():
    found = TICKS.cep.window({"total": "sum(price)", "n": "count()"}, time=15, order_by="ts")
    assert found["total"].tolist() == [1, 3, 6, 14, 30]
    assert found["n"].tolist() == [1, 2, 2, 3, 4]
    assert found.index.tolist() == [7, 3, 9, 1, 4]


def test_a_length_window_counts_the_rows_of_all_groups():
    found = cep.window(TICKS, {"n": "count()"}, length=3, group_by="symbol")
    assert found["n"].tolist() == [1, 2, 1, 2, 2]


def test_rows_leave_before_the_next_row_arrives_and_time_passes_after_the_last_one():
    found = cep.window(TICKS.iloc[:3], {"n": "count()"}, time=15, order_by="ts", emit="all")
    assert found["status"].tolist() == ["current", "current", "expired", "current", "expired", "expired"]
    assert found["n"].tolist() == [1, 2, 1, 2, 1, 0]
    assert found["emitted"].tolist() == [0, 10, 15, 15, 25, 30]
    batches = cep.window(TICKS, {"total": "sum(price)"}, tumbling=2, emit="all")
    assert batches["total"].fillna(-1).tolist() == [1, 3, -1, -1, 4, 12, -1, -1, 16]


def test_expressions_may_combine_aggregates_and_the_row():
    found = cep.window(
        TICKS,
        {"above": "price - avg(price)", "ratio": "sum(price * 2) / count()", "gap": "delta(ts)"},
        length=2,
    )
    assert found["above"].tolist() == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert found["ratio"].tolist() == [2.0, 3.0, 6.0, 12.0, 24.0]
    assert found["gap"].tolist() == [0, 10, 5, 0, 1]


def test_sums_do_not_depend_on_rows_that_left():
    x = [1e16, 1.0, -1e16, 0.1, 0.2]
    found = cep.window(pd.DataFrame({"x": x}), {"s": "sum(x)"}, length=2)
    assert found["s"].tolist() == [1e16, 1e16 + 1.0, 1.0 - 1e16, -1e16 + 0.1, 0.1 + 0.2]


def test_integers_keep_all_digits_and_overflow_is_an_error():
    big = 2**62
    frame = pd.DataFrame({"k": [big, -big, 3, big, big]})
    assert cep.window(frame[:4], {"s": "sum(k)"}, length=3)["s"].tolist() == [big, 0, 3, 3]
    with pytest.raises(cep.CepError, match="exceeds 2\\^63"):
        cep.window(frame, {"s": "sum(k)"}, length=2)
    assert cep.window(frame, {"s": "avg(k)"}, length=2)["s"].iloc[-1] == float(big)


def test_clocks_of_every_kind():
    start = pd.Timestamp("2024-03-01 12:00")
    times = start + pd.to_timedelta([0, 10, 15, 20], unit="s")
    by_index = pd.DataFrame({"x": [1, 2, 3, 4]}, index=times)
    assert by_index.cep.window({"n": "count()"}, time="15 s")["n"].tolist() == [1, 2, 2, 3]
    zoned = by_index.tz_localize("Europe/Berlin")
    assert zoned.cep.window({"n": "count()"}, time=datetime.timedelta(seconds=15))["n"].tolist() == [
        1,
        2,
        2,
        3,
    ]
    floats = pd.DataFrame({"t": [0.0, 0.5, 2.0, 2.5]})
    assert cep.window(floats, {"n": "count()"}, time=2, order_by="t")["n"].tolist() == [1, 2, 2, 2]
    table = pa.table({"d": pa.array([0, 1, 2, 3], pa.date32())})
    found = cep.window(table, {"n": "count()"}, time="2 d", order_by="d", emit="all")
    assert found.column("n").to_pylist() == [1, 2, 1, 2, 1, 2, 1, 0]


def test_the_frame_stays_as_it_was():
    before = TICKS.copy()
    found = cep.window(TICKS, {"n": "count()"}, length=2)
    found["price"] = 0.0
    pd.testing.assert_frame_equal(TICKS, before)


def test_pandas_gives_the_same_where_its_windows_mean_the_same():
    rng = np.random.default_rng(0)
    frame = random_frame(rng, 400)
    frame["x"] = rng.integers(-50, 50, 400).astype(float)
    times = pd.to_datetime(np.unique(rng.integers(0, 10_000, 400)), unit="s")
    frame = frame.iloc[: len(times)].set_index(times)
    ours = frame.cep.window({"s": "sum(x)", "m": "max(x)", "n": "count(x)"}, time="60 s")
    theirs = frame["x"].rolling("60s").agg(["sum", "max", "count"])
    assert ours["s"].tolist() == theirs["sum"].tolist()
    assert ours["m"].tolist() == theirs["max"].tolist()
    assert ours["n"].tolist() == theirs["count"].tolist()


# --- wrong input

WRONG = {name: case for name, *case in cases("wrong_windows", "settings")}


@pytest.mark.parametrize("settings, message", WRONG.values(), ids=WRONG)
def test_wrong_settings(settings, message):
    with pytest.raises(cep.CepError) as found:
        cep.window(TICKS, {"n": "count()"}, **settings)
    assert message in str(found.value)


WRONG_AGGREGATES = {
    "text in a sum": ({"s": "sum(symbol)"}, "sum() needs numbers, not texts"),
    "text in std": ({"s": "std(symbol)"}, "std() needs numbers, not texts"),
    "unknown column": ({"s": "sum(pric)"}, "column 'pric' not found. Did you mean 'price'?"),
    "a name of the frame": ({"price": "sum(price)"}, "the frame has a column 'price' already"),
    "names that differ in case": ({"a": "count()", "A": "count()"}, "differ only in case"),
    "collect": ({"s": "collect(price)"}, "a window has no collect()"),
    "prev": ({"s": "prev(price)"}, "prev() belongs to patterns"),
    "nested": ({"s": "sum(std(price))"}, "std inside sum: an aggregate takes values of single events"),
    "no mapping": ("sum(price)", "expected a mapping of names to expressions"),
    "unknown function": ({"s": "summ(price)"}, "summ"),
}


@pytest.mark.parametrize("aggregates, message", WRONG_AGGREGATES.values(), ids=WRONG_AGGREGATES)
def test_wrong_aggregates(aggregates, message):
    with pytest.raises(cep.CepError) as found:
        cep.window(TICKS, aggregates, length=2)
    assert message in str(found.value)


def test_a_window_as_a_value_takes_no_further_settings():
    with pytest.raises(cep.CepError, match="has its own settings"):
        cep.window(TICKS, cep.Window({"n": "count()"}, length=2), order_by="ts")


def test_windows_print_as_they_are_written_and_compare_by_value():
    text = (
        "Window({'n': 'count()'}, time='5 s', tumbling=True, group_by='a', order_by=['ts', 's'], emit='all')"
    )
    window = cep.Window({"n": "count()"}, tumbling="5 s", group_by="a", order_by=["ts", "s"], emit="all")
    assert repr(window) == text
    assert window == eval(f"cep.{text}") and hash(window) == hash(eval(f"cep.{text}"))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("x in ('a', 'b')", "'in' is not defined for numbers and texts"),
        ("d = 'a'", "'==' is not defined for numbers and texts"),
        ("x < true", "'<' is not defined for numbers and truth values"),
        ("x like 'a%'", "'like' is not defined for numbers"),
        ("x is distinct from 'a'", "'is distinct from' is not defined for numbers and texts"),
        ("d * 'a' > 2", "'\\*' is not defined for numbers and texts"),
        ("at - 1 > 2", "'-' is not defined for times and numbers; a constant time has quotes"),
        (
            "pause > 1",
            "'>' is not defined for durations and numbers; a constant duration has quotes",
        ),
        ("not k", "'not' is not defined for texts"),
        ("abs(k) = 1", r"abs\(\) is not defined for texts"),
        ("coalesce(x, 'a') = 'a'", r"coalesce\(\) takes values of one type; these are numbers and texts"),
        ("if(x > 1, d, 'a') = 'a'", r"if\(\) takes values of one type; these are numbers and texts"),
        ("coalesce(raw, null) = '1'", r"coalesce\(\) takes numbers, texts, .* not bytes"),
    ],
)
def test_values_of_types_that_do_not_meet_are_an_error_in_words(condition, message):
    frame = pd.DataFrame(
        {
            "x": [1, 2, 3], "k": ["a", "b", "c"], "d": [Decimal("1.5")] * 3, "raw": [b"1", b"2", b"3"],
            "at": pd.date_range("2026-01-01", periods=3), "pause": pd.to_timedelta([1, 2, 3], unit="s"),
        }
    )  # fmt: skip
    with pytest.raises(PredicateError, match=rf"^where: {message}"):
        cep.window(frame, {"n": "count()"}, length=2, where=condition)


def test_null_is_a_value_of_each_type():
    frame = pd.DataFrame({"x": [1, 2], "d": [Decimal("1.5"), Decimal("2.5")]})
    for value in ("greatest(x, null)", "least(null, null)", "d * null", "null * x", "greatest(d, x, null)"):
        got = cep.window(frame, {"n": "count()"}, length=2, where=f"{value} is null")
        assert got["n"].tolist() == [1, 2], value
