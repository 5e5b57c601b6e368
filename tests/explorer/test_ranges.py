"""The ranges of sliders: neighbours within keys, the values that constants compete with, stops."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import numpy as np
import pandas as pd
import pytest

from cepkit.datasets import load_sample
from cepkit.explorer.constants import move_slider, sliders_of, with_ranges_of
from cepkit.explorer.ranges import (
    DISTANCES,
    MOST_POSITIONS,
    POSITIONS,
    Range,
    SampledRows,
    Variables,
    range_of,
    stops_of,
    thresholds_of,
)
from cepkit.explorer.running import data as sampling
from cepkit.explorer.running.data import SearchedFrame, sample_rows
from cepkit.explorer.text import read_text
from cepkit.frames.sources import source_of_frame
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.sequences.parsing import parse_sase
from tests.support.sizes import seeds


def frame_of(seed: int, n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "t": rng.integers(0, n // 2, n),
            "u": rng.integers(0, 3, n),
            "key": rng.choice([f"k{i}" for i in range(1 + seed % 30)], n),
            "part": rng.integers(0, 1 + seed % 3, n),
            "row": np.arange(n),
        }
    )
    return frame.sort_values("t", kind="stable", ignore_index=True) if seed % 2 else frame


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_sampled_rows_follow_each_other_within_a_key(seed, monkeypatch):
    monkeypatch.setattr(sampling, "MOST_ROWS", 200)
    monkeypatch.setattr(sampling, "_WINDOWS", 10)
    monkeypatch.setattr(sampling, "_MOST_READ", 300)
    frame = frame_of(seed).assign(row=np.arange(500))
    keys = (["key"], ["key", "part"], [])[seed % 3]
    clocks = (["t"], ["t", "u"], [])[seed // 3 % 3]
    own = sample_rows(source_of_frame(frame)[0], tuple(keys), tuple(clocks))
    rows = own.values("row").astype(int)
    assert 0 < len(rows) <= 500 and own.begins[0] and len(set(rows.tolist())) == len(rows)
    stream = frame.sort_values(clocks, kind="stable") if clocks else frame
    before = stream.groupby(keys)["row"].shift() if keys else stream["row"].shift()
    for place in np.flatnonzero(~own.begins):
        assert before.loc[rows[place]] == rows[place - 1]


def test_a_sample_of_many_rows_is_small_and_looks_at_all_of_them():
    frame = pd.DataFrame({"row": np.arange(300_000), "key": np.arange(300_000) // 100_000})
    for keys in ((), ("key",)):
        own = sample_rows(source_of_frame(frame)[0], keys, ("row",))
        rows = own.values("row")
        assert len(rows) == sampling.MOST_ROWS and rows.min() < 2000 and rows.max() > 297_000


def rows_of(event_types=None, **columns) -> SampledRows:
    values = {name: np.asarray(one, np.float64) for name, one in columns.items()}
    n = len(next(iter(values.values())))
    begins = np.arange(n) == 0
    return SampledRows(begins, values.get, None if event_types is None else np.array(event_types, object))


def thresholds(text: str, rows: SampledRows, variables: Variables | None = None, own: str | None = None):
    if variables is not None and own is None:
        tree = parse_sase(f"PATTERN SEQ(A a, B+ b[]) WHERE {text}").where
    else:
        tree = parse_expression(text, role="test")
    found = [node for node in tree.walk() if isinstance(node, ex.Literal) and node.value == 77]
    return thresholds_of(tree, found[0], rows, variables or Variables(), own)


PRICE = [10.0, 12.0, 9.0, 30.0, 31.0]
BEFORE = np.array(PRICE[:-1])
NOW = np.array(PRICE[1:])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x > 77", PRICE),
        ("77 >= x", PRICE),
        ("x > prev(x) + 77", NOW - BEFORE),
        ("x - 77 > prev(x)", NOW - BEFORE),
        ("x < prev(x) - 77", BEFORE - NOW),
        ("x - prev(x) > 77", NOW - BEFORE),
        ("x / prev(x) > 77", NOW / BEFORE),
        ("x > 77 * prev(x)", NOW / BEFORE),
        ("x > prev(x) / 77", BEFORE / NOW),
        ("x > 2 * prev(x) - 77 * 3", (2 * BEFORE - NOW) / 3),
        ("-x + 77 < 0", PRICE),
        ("abs(x - prev(x)) > 77", abs(NOW - BEFORE)),
        ("x > last(x) + 77", NOW - BEFORE),
        ("x > prev(x, 2) + 77", NOW[1:] - BEFORE[:-1]),
        ("100 - 77 > x", 100 - np.array(PRICE)),
    ],
)
def test_a_constant_competes_with_the_values_that_make_the_sides_equal(text, wanted):
    assert thresholds(text, rows_of(x=PRICE)) == pytest.approx(np.asarray(wanted))


@pytest.mark.parametrize("text", ["1 > 77", "z > 77", "x // 77 > 2", "delta(x) > 77", "x > f(77)"])
def test_some_constants_compete_with_nothing_known(text):
    assert thresholds(text, rows_of(x=PRICE)) is None


@pytest.mark.parametrize("function", ["first", "min", "max", "avg", "sum"])
def test_aggregates_are_over_the_rows_before(function):
    x = np.random.default_rng(1).normal(size=300).cumsum()
    over = {"first": lambda v: v[0], "min": min, "max": max, "avg": np.mean, "sum": np.sum}[function]
    wanted = []
    for i in range(1, len(x)):
        n = min(DISTANCES[i % len(DISTANCES)], i)
        wanted.append(x[i] - over(x[i - n : i]))
    assert thresholds(f"x > {function}(x) + 77", rows_of(x=x)) == pytest.approx(np.array(wanted))


def test_variables_of_a_sequence_are_events_of_their_types():
    rows = rows_of(["A", "B", "A", "C", "B"], x=[1, 20, 3, 400, 50])
    variables = Variables({"a": "A", "b": "B"})
    assert thresholds("a.x > 77", rows, variables).tolist() == [1, 3]
    assert thresholds("x > 77", rows, variables, "b").tolist() == [20, 50]
    assert thresholds("b.x > b[i-1].x + 77", rows, variables).tolist() == [30]
    found = thresholds("b.x > a.x + 77", rows, variables)
    assert found.tolist() == [20 - 1, 50 - 1]


# --- ranges


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_a_range_holds_the_value_and_most_of_the_values(seed):
    rng, draw = np.random.default_rng(seed), Random(seed)
    kind = seed % 5
    n = draw.choice([1, 2, 10, 1000])
    known = [
        rng.normal(0, 10.0 ** draw.randrange(-6, 6), n),
        rng.lognormal(0, draw.choice([1, 3, 6]), n),
        rng.integers(0, 10 ** draw.randrange(1, 7), n).astype(float),
        np.where(rng.random(n) < 0.995, 0.0, rng.normal(size=n)),
        np.full(n, draw.choice([0.0, 3.5, -2.0])),
    ][kind]
    for value in (0, 1, -3, 3.14, 1e6, 1e-7):
        own = range_of(known, value)
        assert own.low <= value <= own.high and own.low < own.high
        median = float(np.median(known))
        assert own.low <= median <= own.high
        if own.is_logarithmic:
            stops = stops_of(own, value, is_whole=False)
            assert value in stops and stops[0] <= max(own.low, 0) and stops[-1] >= own.high
            assert all(a < b for a, b in pairwise(stops)) and len(stops) <= POSITIONS + 2


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_a_slider_has_round_steps_and_room(seed):
    rng, draw = np.random.default_rng(seed), Random(seed)
    scale = 10.0 ** draw.randrange(-3, 5)
    x = rng.normal(0, scale, 400).cumsum() if seed % 2 else rng.integers(-50, 900, 400)
    frame = pd.DataFrame({"t": np.arange(400), "x": x})
    value = draw.choice([0, 1, 3, 0.5, 2.25, 1000, -7])
    reading = read_text(f"a b\na: x > prev(x) + {value}\nb: x > {value}".replace("+ -", "- "), {})
    data = SearchedFrame(frame)
    for slider in sliders_of(reading, data.schema, data.sample_for(reading.query)):
        assert slider.low <= slider.value <= slider.high
        n = (slider.high - slider.low) / slider.step
        if not slider.stops:
            digits = slider.step / 10.0 ** math.floor(math.log10(slider.step) + 1e-9)
            assert round(digits, 6) in (1, 2, 5) and n <= 2 * MOST_POSITIONS + 2
            assert n >= 40 or slider.step == 1
        again = with_ranges_of([slider], [slider])[0]
        assert (again.low, again.high, again.step) == (slider.low, slider.high, slider.step)


def test_outliers_and_other_keys_do_not_count():
    trades = load_sample("trades")
    text = "a b c\na: price > prev(price) + 3\nb: size < 1000\nc: price / prev(price) > 1.01"
    reading = read_text(text, {"partition_by": "symbol", "order_by": ["ts", "seq"]})
    data = SearchedFrame(trades)
    change, size, ratio = sliders_of(reading, data.schema, data.sample_for(reading.query))
    assert (change.low, change.high, change.step) == (-10, 10, 1) and not change.stops
    assert size.stops[-1] == 20_000 and {10, 100, 1000, 10_000} <= set(size.stops) and size.low < 10
    assert 0.9 < ratio.low < 1 < ratio.high < 1.1 and ratio.step <= 0.001
    level, *_ = sliders_of(read_text("a\na: price > prev(price) + 3", {}), data.schema)
    assert (level.low, level.high) == (0, 12)  # without a sample


def test_a_range_without_keys_is_another_one():
    frame = load_sample("trades")
    explorer = frame.cep.explore("a b\na: price > prev(price) + 3\nb: price < 0", order_by=["ts", "seq"])
    explorer.wait(60)
    wide = explorer.sliders[0]
    explorer.move("c0", 100)
    explorer.choose(partition_by="symbol")
    narrow = explorer.wait(60).sliders[0]
    assert wide.high > 1000 and narrow.high == 100 and narrow.low == -10


def test_a_value_beyond_the_ends_moves_an_end():
    reading = read_text("a\na: x > 3", {})
    x = np.random.default_rng(0).normal(0, 5, 3000)
    data = SearchedFrame(pd.DataFrame({"x": x}))
    before = sliders_of(reading, data.schema, data.sample_for(reading.query))
    for value in (100, -77.7, 1e-5):
        text = move_slider(reading.text, before[0], value)
        [slider] = with_ranges_of(sliders_of(read_text(text, {}), data.schema), before)
        assert slider.value == value and slider.low <= value <= slider.high
        assert slider.step == before[0].step and "e" not in text.splitlines()[1].replace("a: x", "")
    assert slider.low == before[0].low and slider.high == before[0].high


def test_a_typed_value_is_a_stop_of_a_logarithmic_slider():
    reading = read_text("a\na: x < 1000", {})
    x = np.random.default_rng(0).lognormal(5, 2, 3000).astype(int)
    data = SearchedFrame(pd.DataFrame({"x": x}))
    before = sliders_of(reading, data.schema, data.sample_for(reading.query))
    assert before[0].stops and before[0].trait()["stops"] == list(before[0].stops)
    for value in (1234, 0, 10**9):
        text = move_slider(reading.text, before[0], value)
        [slider] = with_ranges_of(sliders_of(read_text(text, {}), data.schema), before)
        assert value in slider.stops and slider.low <= value <= slider.high
        assert list(slider.stops) == sorted(slider.stops)


def test_parameters_have_the_range_of_their_comparison():
    data = SearchedFrame(load_sample("trades"))
    call = {"partition_by": "symbol", "order_by": ["ts", "seq"], "params": {"up": 3}}
    reading = read_text("a\na: price > prev(price) + :up", call)
    [slider] = sliders_of(reading, data.schema, data.sample_for(reading.query))
    assert (slider.id, slider.low, slider.high) == (":up", -10, 10)


def test_the_numbers_of_a_logarithmic_slider_are_round():
    assert stops_of(Range(0, 100, True), 7, is_whole=True)[:4] == (0, 1, 2, 3)
    assert stops_of(Range(0.001, 10, True), 0.3, is_whole=False)[:3] == (0.001, 0.0011, 0.0012)


# --- numbers of rounds


ROUNDS = ". drop{2,} back{1,3} drop\ndrop: price < prev(price)\nback: price > prev(price)"


def test_a_number_of_rounds_has_a_slider():
    reading = read_text(ROUNDS, {})
    rounds = [slider for slider in sliders_of(reading) if slider.id.startswith("n")]
    told = [(one.id, one.label, one.value, one.low, one.high, one.step) for one in rounds]
    assert told == [
        ("n0", "drop{2,}", 2, 1, 10, 1),
        ("n1", "back{1,3}: at least", 1, 1, 3, 1),
        ("n2", "back{1,3}: at most", 3, 1, 12, 1),
    ]
    for number, value, wanted in ((0, 4, "drop{4,}"), (0, -3, "drop{1,}"), (1, 7, "{3,3}"), (2, 0, "{1,1}")):
        assert wanted in move_slider(ROUNDS, rounds[number], value)
    for text in ("a*\na: x > 1", "a+\na: `{3,}` > 1", "PATTERN SEQ(A a, '{3,}' b) WHERE a.x > 1 WITHIN 5"):
        sliders = sliders_of(read_text(text, {"event_type": "k"} if "SEQ" in text else {}))
        assert sliders and not [one for one in sliders if one.id.startswith("n")]


def test_the_rounds_of_a_sequence_have_sliders():
    text = "PATTERN SEQ(A a, B{2,} b[]) WHERE b[i].x > 3 WITHIN 5"
    sliders = sliders_of(read_text(text, {"event_type": "kind"}))
    assert [(one.id, one.label) for one in sliders] == [
        ("c0", "b[i].x > 3"), ("c1", "within"), ("n0", "B{2,}")
    ]  # fmt: skip
    assert "B{5,} b[]" in move_slider(text, sliders[-1], 5)


def test_moving_a_number_of_rounds_runs_the_query_and_is_undone():
    frame = load_sample("trades")
    explorer = frame.cep.explore(ROUNDS, partition_by="symbol", order_by=["ts", "seq"]).wait(120)
    states, before = list(explorer.board.nfa.states), explorer.matches.count()
    explorer.move("n0", 4)
    assert "drop{4,}" in explorer.text and "drop{4,}" in explorer.code.replace(" ", "")
    define = {"drop": "price < prev(price)", "back": "price > prev(price)"}
    wanted = frame.cep.match(
        ". drop{4,} back{1,3} drop", define=define, partition_by="symbol", order_by=["ts", "seq"]
    )
    assert explorer.wait(120).matches.count() == wanted.count() < before
    assert len(explorer.board.nfa.states) > len(states)
    low, high = next((one.low, one.high) for one in explorer.sliders if one.id == "n0")
    assert (low, high) == (1, 10)  # the handle does not jump
    explorer.undo()
    assert explorer.text == ROUNDS and explorer.wait(120).matches.count() == before
    assert explorer.board.nfa.states == states
