"""Windows beside the rolling windows of pandas, function by function; ``run.py windows``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
from rows import Measured, Options, Row, beside, in_turns

import cepkit as cep

FUNCTIONS = {"count": "count", "sum": "sum", "avg": "mean", "min": "min", "max": "max", "std": "std"}
WINDOWS: dict[str, tuple[dict, Callable]] = {
    "15 s": ({"time": "15 s"}, lambda frame: frame["price"].rolling("15s")),
    "100 rows": ({"length": 100}, lambda frame: frame["price"].rolling(100, min_periods=1)),
    "15 s by symbol": (
        {"time": "15 s", "group_by": "symbol"},
        lambda frame: frame.groupby("symbol")["price"].rolling("15s"),
    ),
}


def ticks(n_rows: int, seed: int = 7) -> pd.DataFrame:
    """Return prices of a random walk, about ten rows per second, of twenty symbols."""
    rng = np.random.default_rng(seed)
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(rng.integers(1, 200, n_rows)), unit="ms")
    price = np.round(100 + np.cumsum(rng.normal(0, 0.01, n_rows)), 2)
    return pd.DataFrame({"symbol": rng.integers(0, 20, n_rows), "price": price}, index=times)


def _compared(window: str, n_rows: int, repeats: int) -> Iterator[Row]:
    frame = ticks(n_rows)
    keywords, rolling = WINDOWS[window]
    for aggregates in (*([name] for name in FUNCTIONS), list(FUNCTIONS)):
        asked = {name: f"{name}(price)" for name in aggregates}
        (ours, _), (theirs, _) = in_turns(
            repeats,
            lambda asked=asked: cep.window(frame, asked, **keywords),
            lambda names=aggregates: [getattr(rolling(frame), FUNCTIONS[name])() for name in names],
        )
        what = aggregates[0] if len(aggregates) == 1 else "all six"
        yield beside(f"windows {window}, {what}, {n_rows:,}", ours, "", "pandas", theirs)


def table(options: Options) -> Iterator[Measured]:
    """Each aggregate of windows beside pandas."""
    for n_rows in options.rows or (1_000_000,):
        for window in WINDOWS:
            if options.wants(f"windows {window} {n_rows:,}"):
                yield partial(_compared, window, n_rows, min(3, options.rounds))
