"""Aggregates of truth values, and aggregates with a second argument, in every place that has aggregates."""

from __future__ import annotations

import math
import re
import statistics
from random import Random

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from tests.support.sizes import seeds

# A missing truth value counts nowhere.
OF_TRUTHS = {
    "sum(b)": lambda rows: sum(rows) if rows else None,
    "avg(b)": lambda rows: sum(rows) / len(rows) if rows else None,
    "share(b)": lambda rows: sum(rows) / len(rows) if rows else None,
    "count_if(b)": sum,
    "count(b)": len,
    "max(b)": lambda rows: max(rows, default=None),
    "min(b)": lambda rows: min(rows, default=None),
    "std(b)": lambda rows: statistics.pstdev(map(int, rows)) if rows else None,
    "median(b)": lambda rows: statistics.median(map(int, rows)) if rows else None,
}


def frame_of(seed: int) -> pd.DataFrame:
    random = Random(seed)
    n = random.randrange(4, 12)
    return pd.DataFrame(
        {
            "t": range(n),
            "x": random.choices([1, 2, 3], k=n),
            "y": pd.array(random.choices([1.5, 2.5, None], k=n), dtype="Float64"),
            "s": random.choices(["a", "b", "c"], k=n),
            "b": pd.array(random.choices([True, False, None], k=n), dtype="boolean"),
        }
    )


def plain(values) -> list:
    """Return values of Python, and None where one is missing."""
    return [
        None if pd.isna(value) else getattr(value, "item", lambda value=value: value)() for value in values
    ]


def present(frame: pd.DataFrame, name: str, low: int, high: int) -> list:
    return [value for value in plain(frame[name][low:high]) if value is not None]


def same(results, wanted) -> bool:
    pairs = zip(plain(results), wanted, strict=True)
    return all(
        left == right
        if left is None or right is None or isinstance(right, bool | str)
        else type(left) is not bool and math.isclose(left, right, abs_tol=1e-12)
        for left, right in pairs
    )


@pytest.mark.parametrize("seed", seeds(5, 500))
def test_truth_values(seed):
    frame = frame_of(seed)
    n = len(frame)
    ranges = [(max(0, i - 2), i + 1) for i in range(n)]
    windows = cep.window(frame, {str(i): text for i, text in enumerate(OF_TRUTHS)}, length=3, order_by="t")
    thirds = [(i, i + 3) for i in range(0, n - 2, 3)]
    measures = {str(i): text for i, text in enumerate(OF_TRUTHS)}
    regex = cep.match(frame, "a{3}", define={"a": "true"}, order_by="t", measures=measures)
    where = "WHERE partition_contiguity AND count(v) = 3 AND v[1].t % 3 = 0"
    of_v = {name: text.replace("(b", "(v.b") for name, text in measures.items()}
    sequence = cep.match(frame, f"PATTERN SEQ(_+ v[]) {where}", order_by="t", measures=of_v)
    names = {"std(b)": "stddev_pop(b)"}
    listed = ", ".join(f"{names.get(text, text)} AS m{i}" for i, text in measures.items())
    rows = f"ORDER BY t MEASURES {listed} PATTERN (A{{3}}) DEFINE A AS TRUE"
    sql = cep.sql(f"SELECT * FROM f MATCH_RECOGNIZE ({rows})", f=frame)
    every = regex.aggregate(**{f"m{i}": text for i, text in measures.items()})
    for i, (text, compute) in enumerate(OF_TRUTHS.items()):
        assert same(windows[str(i)], [compute(present(frame, "b", *part)) for part in ranges]), text
        wanted = [compute(present(frame, "b", *part)) for part in thirds]
        assert same(regex.to_frame()[str(i)], wanted), text
        assert same(sequence.to_frame()[str(i)], wanted), text
        assert same(sql.to_frame()[f"m{i}"], wanted), text
        assert same([every[f"m{i}"]], [compute(present(frame, "b", 0, 3 * len(thirds)))]), text


def by(extreme, rows: list[dict], key: str, value: str):
    keyed = [row for row in rows if row[key] is not None]
    return extreme(keyed, key=lambda row: row[key])[value] if keyed else None


def quantile(values: list, share: float) -> float | None:
    return None if not values else float(pd.Series(values, dtype=float).quantile(share))


OF_ROWS = {
    "min_by(t, y)": lambda rows: by(min, rows, "y", "t"),
    "max_by(s, y)": lambda rows: by(max, rows, "y", "s"),
    "max_by(y, s)": lambda rows: by(max, rows, "s", "y"),
    "arg_min(b, x + 1)": lambda rows: by(min, rows, "x", "b"),
    "mode(s)": lambda rows: max(texts := [row["s"] for row in rows], key=texts.count),
    "mode(y)": lambda rows: max(
        numbers := [row["y"] for row in rows if row["y"] is not None], key=numbers.count, default=None
    ),
    "quantile(y, 0.9)": lambda rows: quantile([row["y"] for row in rows if row["y"] is not None], 0.9),
    "percentile(x, 0)": lambda rows: float(min(row["x"] for row in rows)),
    "share(y > 2)": lambda rows: (
        sum(known) / len(known) if (known := [row["y"] > 2 for row in rows if row["y"] is not None]) else None
    ),
    "count_if(x > 1 and b)": lambda rows: sum(row["x"] > 1 and row["b"] is True for row in rows),
}


@pytest.mark.parametrize("seed", seeds(5, 500))
def test_second_arguments_and_expressions(seed):
    frame = frame_of(seed)
    n = len(frame)
    rows = [
        dict(zip(frame, row, strict=True)) for row in zip(*map(plain, map(frame.get, frame)), strict=True)
    ]
    windows = cep.window(frame, {text: text for text in OF_ROWS}, length=3, order_by="t")
    regex = cep.match(
        frame, "a{3}", define={"a": "true"}, order_by="t", measures={text: text for text in OF_ROWS}
    )
    named = {
        text: "".join(f"a.{part}" if part in frame else part for part in re.split(r"\b", text))
        for text in OF_ROWS
    }
    of_name = cep.match(frame, "a{3}", define={"a": "true"}, order_by="t", measures=named)
    for text, compute in OF_ROWS.items():
        assert same(windows[text], [compute(rows[max(0, i - 2) : i + 1]) for i in range(n)]), text
        wanted = [compute(rows[i : i + 3]) for i in range(0, n - 2, 3)]
        assert same(regex.to_frame()[text], wanted), text
        assert same(of_name.to_frame()[text], wanted), text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("count_if(x)", "count_if.. needs a condition, not numbers"),
        ("share(s)", "share.. needs a condition, not texts"),
        ("min_by(x)", "min_by takes a value and what is least, 1 given"),
        ("quantile(x, 2)", "quantile takes a share between 0 and 1"),
        ("quantile(x, y)", "quantile takes a share between 0 and 1"),
        ("max_by(x, sum(y))", "sum inside max_by"),
    ],
)
def test_errors(text, words):
    frame = frame_of(0)
    with pytest.raises(CepError, match=words):
        cep.window(frame, {"m": text}, length=3)
    with pytest.raises(CepError, match=words):
        cep.match(frame, "a", define={"a": "true"}, measures={"m": text})


def test_conditions_refuse_aggregates_of_two_columns():
    frame = frame_of(0)
    for condition in ("max_by(x, t) > 1", "mode(x) > 1", "quantile(x, 0.5) > 1"):
        with pytest.raises(CepError, match="for measures and windows"):
            cep.match(frame, "a c", define={"a": "true", "c": condition})
    with pytest.raises(CepError, match="needs a condition, 'x' is a number"):
        cep.match(frame, "a c", define={"a": "true", "c": "share(x) > 1"})


def test_siddhi_and_joins():
    frame = frame_of(3)
    text = "from S#window.length(3) select count_if(x > 1) as n, share(b) as r, mode(s) as m insert into Out;"
    results = cep.siddhi(text, S=frame, order_by="t").to_frame()
    for i, row in enumerate(results.itertuples()):
        low = max(0, i - 2)
        truths = present(frame, "b", low, i + 1)
        texts = frame.s[low : i + 1].tolist()
        assert row.n == sum(x > 1 for x in frame.x[low : i + 1]) and row.m == max(texts, key=texts.count)
        assert (sum(truths) / len(truths) if truths else None) == plain([row.r])[0]
    window, measures = cep.Window(length=100), {"n": "count_if(left.x > right.x)", "r": "share(left.b)"}
    joined = cep.join(frame, frame, left=window, right=window, measures=measures, order_by="t")
    pairs = [(left, right) for left in frame.x for right in frame.x]
    assert joined.n.iloc[-1] == sum(left > right for left, right in pairs)
    assert joined.r.iloc[-1] == pytest.approx(frame.b.mean())
