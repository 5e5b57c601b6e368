"""Streams of windows, joins and chains: cut anywhere, saved anywhere, the same rows as in one frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.windows.ranges import SlidingRows
from tests.support.sizes import seeds
from tests.support.window_cases import (
    found_by_join,
    join_result,
    plain,
    random_join_case,
    random_window_case,
    rows_of,
)

SCHEMA = {"ts": "int64", "x": "float64", "k": "int64", "g": "string"}


def cuts(rng: np.random.Generator, n: int) -> list[slice]:
    """Return slices that cut n rows into batches, empty ones among them."""
    places = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 4))))
    return [slice(a, b) for a, b in zip([0, *places], [*places, n], strict=True)]


def pushed(stream, batches, path=None) -> list[dict]:
    """Return the rows of a stream for some batches; the stream is saved and loaded on the way."""
    rows = []
    for number, batch in enumerate(batches):
        if path is not None and number == 1:
            stream.save(path)
            stream = cep.stream.load(path)
        rows += rows_of(stream.push(**batch) if isinstance(batch, dict) else stream.push(batch))
    return rows + rows_of(stream.close())


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_a_window_in_a_stream_equals_the_oracle(seed, tmp_path):
    case = random_window_case(seed)
    frame = case.frame
    if case.window.order_by:
        frame = frame.sort_values("ts", kind="stable")
    rng = np.random.default_rng(seed)
    batches = [frame.iloc[cut] for cut in cuts(rng, len(frame))]
    found = pushed(cep.stream(case.window, SCHEMA), batches, tmp_path / "state")
    names = [name for name in (*SCHEMA, *dict(case.window.aggregates))]
    names += ["status"] if case.window.emit == "all" else []
    assert plain(found, names) == plain(case.expected, names)
    single = cep.stream(case.window, SCHEMA)
    found = single.push([])  # results are rows from now on
    found += [row for event in rows_of(frame) for row in single.push_row(event)]
    found += single.close()
    assert plain(found, names) == plain(case.expected, names)


AGGREGATES = {
    "n": "count()", "n_x": "count(x)", "n_s": "count(s)", "sum_i": "sum(i)", "avg_i": "avg(i)",
    "sum_x": "sum(x)", "avg_x": "avg(x)", "min_x": "min(x)", "max_x": "max(x)", "max_i": "max(i)",
}  # fmt: skip


def rows_of_window(rng: np.random.Generator, n: int) -> list[dict]:
    """Return rows with ties, nulls, infinities, the least float and integers that do not fit into 32 bits."""
    hard = [None, None, 1e308, -1e308, 5e-324, 0.1, -0.0, np.inf, -np.inf]
    floats = rng.normal(size=n).round(3).tolist()
    times = np.cumsum(rng.integers(0, 4, n)).tolist()
    great = rng.random(n) < (0.02 if rng.random() < 0.3 else 0)
    return [
        {
            "t": times[i],
            "k": rng.choice(["a", "b", None]),
            "i": None if rng.random() < 0.1 else int(rng.integers(-9, 9)) + 2**40 * int(great[i]),
            "x": hard[rng.integers(len(hard))] if rng.random() < 0.15 else floats[i],
            "s": rng.choice(["p", None]),
        }
        for i in range(n)
    ]


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_rows_one_by_one_give_the_aggregates_of_batches(seed, tmp_path):
    rng = np.random.default_rng(seed)
    size = {"time": int(rng.integers(1, 9))} if rng.random() < 0.6 else {"length": int(rng.integers(1, 9))}
    names = rng.choice(list(AGGREGATES), int(rng.integers(1, 6)), replace=False)
    window = cep.Window(
        {name: AGGREGATES[name] for name in names}, order_by="t",
        group_by=["k"] if rng.random() < 0.6 else [], **size,
    )  # fmt: skip
    schema = {"t": "int64", "k": "string", "i": "int64", "x": "float64", "s": "string"}
    rows = rows_of_window(rng, int(rng.integers(1, 120)))
    whole = cep.stream(window, schema)
    expected = whole.push(rows)
    opened, found, at = cep.stream(window, schema), [], 0
    while at < len(rows):
        n = int(rng.choice([1, 1, 1, 1, 1, 1, 7]))
        found += opened.push_row(rows[at]) if n == 1 else opened.push(rows[at : at + n])
        at += n
        if rng.random() < 0.05:
            opened.save(tmp_path / "open.state")
            opened = cep.stream.load(tmp_path / "open.state")
    assert found == expected
    assert (opened.status().rows, opened.status().keys) == (whole.status().rows, whole.status().keys)
    assert opened.close() == []


def test_a_row_looks_at_no_other_row_of_the_window(monkeypatch):
    added = []
    add = SlidingRows.add
    monkeypatch.setattr(SlidingRows, "add", lambda self, row: added.append(row) or add(self, row))
    window = cep.Window({"n": "count()", "least": "min(x)"}, time=10**9, order_by="t")
    opened = cep.stream(window, {"t": "int64", "x": "float64"})
    assert [opened.push_row((t, -float(t)))[0]["n"] for t in range(300)] == [*range(1, 301)]
    assert len(added) == 300


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_a_join_in_a_stream_equals_brute_force(seed, tmp_path):
    case = random_join_case(seed)
    rng = np.random.default_rng(seed)
    batches = []
    for side in ("left", "right"):
        frame = getattr(case, side).sort_values("ts", kind="stable")
        batches += [{side: frame.iloc[cut]} for cut in cuts(rng, len(frame))]
    order = np.argsort(rng.random(len(batches)) + np.arange(len(batches)) // 100, kind="stable")
    left = iter([b for b in batches if "left" in b])
    right = iter([b for b in batches if "right" in b])
    mixed = [next(left) if "left" in batches[i] else next(right) for i in order]
    stream = cep.stream(case.join, {"left": SCHEMA, "right": SCHEMA})
    found = pushed(stream, mixed, tmp_path / "state")
    assert found_by_join(pd.DataFrame(found), case.join) == join_result(case)


def test_a_chain_reads_the_results_of_the_step_before():
    ticks = pd.DataFrame({"ts": range(12), "price": [1.0, 5, 2, 8, 3, 9, 1, 7, 2, 9, 9, 1]})
    window = cep.Window({"mean": "avg(price)"}, length=3, order_by="ts")
    rise = cep.sequence_query(
        "PATTERN SEQ(_ a, _ b) WHERE b.mean > a.mean + 1 WITHIN 2", order_by="ts",
        measures={"from": "a.ts", "to": "b.ts"},
    )  # fmt: skip
    expected = cep.match(cep.window(ticks, window), rise).to_frame()
    stream = cep.stream([window, rise], {"ts": "int64", "price": "float64"})
    found = pd.concat([stream.push(ticks.iloc[:5]), stream.push(ticks.iloc[5:]), stream.close()])
    assert found.to_dict("list") == expected.to_dict("list") and len(expected) > 0
    again = cep.Window({"n": "count()"}, time=4, order_by="to")
    chain = cep.stream([window, rise, again], {"ts": "int64", "price": "float64"})
    counted = pd.concat([chain.push(ticks.iloc[:7]), chain.push(ticks.iloc[7:]), chain.close()])
    assert counted["n"].tolist() == cep.window(expected, again)["n"].tolist()
