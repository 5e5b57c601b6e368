"""Joins give the rows of brute force, bit for bit, on every kind of frame."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from tests.support.sizes import seeds
from tests.support.window_cases import found_by_join, join_result, joined, random_join_case

pl = pytest.importorskip("polars")
_BLOCK = 30  # cases of one test


def check(seed: int) -> None:
    case = random_join_case(seed)
    assert found_by_join(joined(case), case.join) == join_result(case), seed


@pytest.mark.parametrize("seed", seeds(8, 70))
def test_joins_equal_brute_force(seed):
    for own in range(_BLOCK * seed, _BLOCK * (seed + 1)):
        check(own)


def arrow_of(frame):
    """Return a frame as an Arrow table. Of texts in pandas 2, Arrow sees no type where all are missing."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    fields = [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


@pytest.mark.parametrize("seed", range(15))
def test_arrow_and_polars_equal_pandas(seed):
    case = random_join_case(seed)
    left, right = map(arrow_of, (case.left, case.right))
    found = joined(case, left, right)
    assert isinstance(found, pa.Table)
    assert found_by_join(pd.DataFrame(found.to_pydict()), case.join) == join_result(case)
    found = joined(case, pl.from_arrow(left), case.right)
    assert isinstance(found, pl.DataFrame)
    assert found_by_join(pd.DataFrame(found.to_dict(as_series=False)), case.join) == join_result(case)


# --- worked examples

TRADES = pd.DataFrame({"ts": [1, 4, 9], "symbol": ["X", "Y", "X"], "price": [10.0, 20.0, 12.0]})
NEWS = pd.DataFrame({"time": [2, 5], "company": ["X", "X"], "text": ["up", "down"]})


def test_keys_and_clocks_may_have_different_names():
    found = TRADES.cep.join(
        NEWS, left=cep.Window(time=10), right=cep.Window(length=1), on={"symbol": "company"},
        order_by=["ts", "time"],
    )  # fmt: skip
    assert found.columns.tolist() == ["ts", "symbol", "price", "time", "company", "text", "emitted"]
    assert found[["ts", "time", "emitted"]].to_numpy().tolist() == [[1, 2, 2], [1, 5, 5], [9, 5, 9]]


def test_a_row_meets_itself_once_in_a_join_with_its_own_frame():
    window = cep.Window(time=9)
    found = cep.join(TRADES, TRADES, left=window, right=window, on="symbol", order_by="ts")
    pairs = found[["ts_left", "ts_right"]].to_numpy().tolist()
    assert pairs == [[1, 1], [4, 4], [9, 1], [1, 9], [9, 9]]


def test_each_pair_of_many_rows_is_emitted_when_its_later_row_arrives():
    left, right = pd.DataFrame({"ts": range(0, 600, 2)}), pd.DataFrame({"ts": range(1, 600, 2)})
    window = cep.Window(length=600)
    found = cep.join(left, right, left=window, right=window, order_by="ts")
    pairs = sorted((max(a, b), a, b) for a in left.ts for b in right.ts)
    assert found[["emitted", "ts_left", "ts_right"]].to_numpy().tolist() == [list(pair) for pair in pairs]


def test_clocks_of_two_units_and_index_clocks():
    left = pd.DataFrame({"x": [1, 2]}, index=pd.to_datetime([0, 2000], unit="ms").as_unit("ms"))
    right = pd.DataFrame({"y": [5]}, index=pd.to_datetime([1_000_000], unit="us").as_unit("us"))
    found = cep.join(left, right, left=cep.Window(time="1500 ms"), right=cep.Window(time="1500 ms"))
    assert found[["x", "y"]].to_numpy().tolist() == [[1, 5], [2, 5]]


# --- wrong input

LAST = cep.Window(length=1)
WRONG = {
    "no window": ({"left": None, "right": None}, "a join needs a window on one side"),
    "no clock": ({"order_by": None}, "a join needs a clock"),
    "unknown clock": ({"order_by": "tss"}, "left: order_by: column 'tss' not found. Did you mean 'ts'?"),
    "unknown key": ({"on": "symbl"}, "left: on: column 'symbl' not found. Did you mean 'symbol'?"),
    "keys of two types": ({"on": {"symbol": "time"}}, "they are never equal"),
    "how": ({"how": "outr"}, "Did you mean 'outer'?"),
    "trigger": ({"trigger": "lft"}, "Did you mean 'left'?"),
    "no side": ({"where": "lft.price > 1"}, "'lft' is no side of the join"),
    "unknown column": (
        {"where": "left.pric > 1"},
        "column 'left.pric' not found. Did you mean 'left.price'?",
    ),
    "extreme": ({"measures": {"m": "max(left.price)"}}, "sum, count, avg, count_if and share, not max"),
    "text in a sum": ({"measures": {"m": "sum(right.text)"}}, "sum() needs numbers, not texts"),
    "name taken": ({"measures": {"price": "count()"}}, "has a column 'price' already"),
    "aggregates of a side": ({"left": cep.Window({"n": "count()"}, length=1)}, "takes no aggregates"),
    "unit": ({"left": cep.Window(time="5 s")}, "plain number without unit"),
    "no window value": ({"left": 5}, "expected a window"),
}


@pytest.mark.parametrize("settings, message", WRONG.values(), ids=WRONG)
def test_wrong_input(settings, message):
    given = {"left": LAST, "right": LAST, "order_by": ["ts", "time"], **settings}
    with pytest.raises(cep.CepError) as found:
        cep.join(TRADES, NEWS, **given)
    assert message in str(found.value)


def test_a_name_of_both_sides_needs_its_side():
    with pytest.raises(cep.CepError, match="both sides have a column 'price'; write left"):
        cep.join(TRADES, TRADES, left=LAST, right=LAST, order_by="ts", where="price > 1")


def test_joins_print_as_they_are_written():
    text = (
        "Join(left=Window(length=1), right=None, on='symbol', where='left.price > 1', how='left', "
        "measures={'n': 'count()'}, order_by='ts')"
    )
    join = cep.Join(
        LAST, on="symbol", where="left.price > 1", how="left", measures={"n": "count()"}, order_by="ts"
    )
    assert repr(join) == text and join == eval(f"cep.{text.replace('Window', 'cep.Window')}")
