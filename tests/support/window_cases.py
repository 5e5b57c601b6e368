"""Random windows over random rows, with the answer of the oracle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import cepkit as cep
from tests.oracle import windows as oracle

AGGREGATES = {
    "n": ("count", None, "count()"),
    "present": ("count", "x", "count(x)"),
    "total": ("sum", "x", "sum(x)"),
    "mean": ("avg", "x", "avg(x)"),
    "least": ("min", "x", "min(x)"),
    "most": ("max", "x", "max(x)"),
    "spread": ("std", "x", "std(x)"),
    "whole": ("sum", "k", "sum(k)"),
    "whole_mean": ("avg", "k", "avg(k)"),
    "whole_spread": ("std", "k", "std(k)"),
    "top": ("max", "k", "max(k)"),
    "kinds": ("distinct", "g", "distinct(g)"),
    "middle": ("median", "x", "median(x)"),
    "whole_middle": ("median", "k", "median(k)"),
    "variance": ("var", "k", "var(k)"),
    "oldest": ("first", "k", "first(k)"),
    "word": ("min", "g", "min(g)"),
}


class WindowCase(NamedTuple):
    frame: pd.DataFrame
    window: cep.Window
    expected: list[dict]


def random_frame(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    """Return rows in any order, with ties, missing values and numbers of very different sizes."""
    choice = rng.integers(3)
    if choice == 0:
        x = rng.integers(-5, 6, n_rows).astype(float)
    elif choice == 1:
        x = rng.normal(size=n_rows) * 10.0 ** rng.integers(-12, 13, n_rows)
    else:
        x = rng.choice([0.1, -0.1, 0.3, 1e16, -1e16, 1.0, 1e-300, -0.0], n_rows)
    x[rng.random(n_rows) < 0.15] = np.nan
    if rng.random() < 0.1 and n_rows:
        x[rng.integers(n_rows)] = rng.choice([np.inf, -np.inf])
    texts = rng.choice(["a", "b", "c"], n_rows).astype(object)
    texts[rng.random(n_rows) < 0.1] = None
    return pd.DataFrame(
        {
            "ts": rng.integers(-10, max(2, 2 * n_rows) - 10, n_rows),
            "x": x,
            "k": rng.integers(-100, 100, n_rows),
            "g": pd.Series(texts, dtype="str" if int(pd.__version__[0]) > 2 else object),
        }
    )


def random_window_case(seed: int, most_rows: int = 14) -> WindowCase:
    """Return a random window with its frame and the rows that the oracle expects."""
    rng = np.random.default_rng(seed)
    frame = random_frame(rng, int(rng.integers(0, most_rows)))
    size = int(rng.integers(1, 9))
    kind = rng.choice(["time", "length", "batch_time", "batch_length"])
    group_by = "g" if rng.random() < 0.5 else None
    where = (lambda row: row["k"] > -50) if rng.random() < 0.4 else None
    emit = "all" if rng.random() < 0.5 else "arrival"
    ordered = kind in ("time", "batch_time") or rng.random() < 0.7
    order_by = "ts" if ordered else None
    names = list(rng.choice(list(AGGREGATES), int(rng.integers(1, 6)), replace=False))
    settings: dict[str, Any] = {
        "time": {"time": size}, "length": {"length": size},
        "batch_time": {"time": size, "tumbling": True}, "batch_length": {"tumbling": size},
    }[kind]  # fmt: skip
    window = cep.Window(
        {name: AGGREGATES[name][2] for name in names}, **settings, group_by=group_by, order_by=order_by,
        where=None if where is None else "k > -50", emit=emit,
    )  # fmt: skip
    expected = oracle.window_rows(
        rows_of(frame), {name: AGGREGATES[name][:2] for name in names}, **{kind: size}, order_by=order_by,
        group_by=group_by, where=where, emit=emit,
    )  # fmt: skip
    return WindowCase(frame, window, expected)


def rows_of(frame: pd.DataFrame) -> list[dict]:
    """Return the rows of a frame as dicts, with None for missing values."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def plain(rows: list[dict], names: list[str]) -> list[tuple]:
    """Return rows as tuples of plain values that can be compared exactly."""
    return [tuple(_plain(row[name]) for name in names) for row in rows]


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value


# --- joins

SHOWN = ("ts", "x", "k", "g")

_MEASURES = {
    "n": ("count", 0, None, "count()"),
    "present": ("count", 0, "x", "count(left.x)"),
    "total": ("sum", 0, "x", "sum(left.x)"),
    "whole": ("sum", 1, "k", "sum(right.k)"),
    "mean": ("avg", 1, "x", "avg(right.x)"),
}


class JoinCase(NamedTuple):
    left: pd.DataFrame
    right: pd.DataFrame
    join: cep.Join
    expected: list[tuple]


def random_join_case(seed: int, most_rows: int = 9) -> JoinCase:
    """Return a random join with its frames and the rows that the oracle expects."""
    rng = np.random.default_rng(seed)
    frames = [random_frame(rng, int(rng.integers(0, most_rows))) for _ in range(2)]
    windows, sides = zip(*(_random_side(rng) for _ in range(2)), strict=True)
    if windows[0] is None and windows[1] is None:
        windows, sides = (cep.Window(length=2), windows[1]), ({"length": 2}, sides[1])
    on = rng.choice(["g", "g and k", ""])
    condition = rng.random() < 0.4
    how = str(rng.choice(["inner", "left", "right", "outer"]))
    trigger = str(rng.choice(["both", "left", "right"]))
    names = list(rng.choice(list(_MEASURES), int(rng.integers(0, 4)), replace=False))
    join = cep.Join(
        *windows, on={"": None, "g": "g", "g and k": {"g": "g"}}[on], how=how, trigger=trigger, order_by="ts",
        where="left.k + right.k > 0" if condition else None,
        measures={name: _MEASURES[name][3] for name in names},
    )  # fmt: skip

    def meets(one: dict, other: dict) -> bool:
        if on and (one["g"] is None or one["g"] != other["g"]):
            return False
        return not condition or one["k"] + other["k"] > 0

    expected = oracle.join_rows(
        rows_of(frames[0]), rows_of(frames[1]), sides, on=meets, order_by=("ts", "ts"), how=how,
        trigger=trigger, aggregates={name: _MEASURES[name][:3] for name in names},
    )  # fmt: skip
    return JoinCase(*frames, join, expected)


def _random_side(rng: np.random.Generator) -> tuple[cep.Window | None, dict]:
    size = int(rng.integers(1, 6))
    kind = str(rng.choice(["time", "length", "batch_time", "batch_length", "none"]))
    if kind == "none":
        return None, {"none": True}
    where = rng.random() < 0.3
    settings: dict[str, Any] = {
        "time": {"time": size}, "length": {"length": size},
        "batch_time": {"time": size, "tumbling": True}, "batch_length": {"tumbling": size},
    }[kind]  # fmt: skip
    side: dict[str, Any] = {kind: size}
    if where:
        side["where"] = lambda row: row["k"] > -50
    return cep.Window(**settings, where="k > -50" if where else None), side


def joined(case: JoinCase, left: Any = None, right: Any = None) -> Any:
    """Return the join of a case, by the function that users call."""
    join = case.join
    return cep.join(
        case.left if left is None else left, case.right if right is None else right, left=join.left,
        right=join.right, on=dict(join.on) or None, where=join.where, how=join.how, trigger=join.trigger,
        measures=dict(join.measures), order_by="ts",
    )  # fmt: skip


def join_result(case: JoinCase) -> list[tuple]:
    """Return the oracle's rows as tuples: the columns of both sides, then the measures."""
    found = []
    for one, other, measures in case.expected:
        sides = [[None if row is None else _plain(row[name]) for name in SHOWN] for row in (one, other)]
        found.append((*sides[0], *sides[1], *(_plain(value) for value in measures.values())))
    return found


def found_by_join(frame: pd.DataFrame, join: cep.Join) -> list[tuple]:
    """Return the rows of a result in the form of `join_result`."""
    rows = rows_of(frame)
    shared = bool(join.on)
    found = []
    for row in rows:
        one, other = ([_plain(row.get(f"{name}_{side}")) for name in SHOWN] for side in ("left", "right"))
        if shared:
            one[3] = _plain(row["g"]) if one[0] is not None else None
            other[3] = _plain(row["g"]) if other[0] is not None else None
        found.append((*one, *other, *(_plain(row[name]) for name, _ in join.measures)))
    return found
