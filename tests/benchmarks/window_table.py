"""Windows beside pandas' rolling windows on the same rows: seconds of CPU time, and ratios.

python tests/benchmarks/window_table.py [--rows 1000000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import cepkit as cep

FUNCTIONS = {"count": "count", "sum": "sum", "avg": "mean", "min": "min", "max": "max", "std": "std"}


def ticks(n_rows: int, seed: int = 7) -> pd.DataFrame:
    """Return prices of a random walk, about ten rows per second, of twenty symbols."""
    rng = np.random.default_rng(seed)
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(rng.integers(1, 200, n_rows)), unit="ms")
    price = np.round(100 + np.cumsum(rng.normal(0, 0.01, n_rows)), 2)
    return pd.DataFrame({"symbol": rng.integers(0, 20, n_rows), "price": price}, index=times)


def seconds(run: Callable[[], object], repeat: int) -> float:
    """Return the least CPU time of a call."""
    taken = []
    for _ in range(repeat):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return min(taken)


def compare(n_rows: int, repeat: int) -> pd.DataFrame:
    """Return the seconds of cepkit and of pandas for every aggregate and window."""
    frame = ticks(n_rows)
    grouped = frame.groupby("symbol")["price"]
    windows: dict[str, tuple[dict, Callable]] = {
        "time 15 s": ({"time": "15 s"}, lambda name: getattr(frame["price"].rolling("15s"), name)()),
        "length 100": (
            {"length": 100},
            lambda name: getattr(frame["price"].rolling(100, min_periods=1), name)(),
        ),
        "time 15 s by symbol": (
            {"time": "15 s", "group_by": "symbol"},
            lambda name: getattr(grouped.rolling("15s"), name)(),
        ),
    }
    rows = []
    for window, (settings, theirs) in windows.items():
        for ours, name in FUNCTIONS.items():
            aggregates = {"found": f"{ours}(price)"}
            cep.window(frame.iloc[:100], aggregates, **settings)  # loads the kernels
            own = seconds(lambda: cep.window(frame, aggregates, **settings), repeat)  # noqa: B023
            other = seconds(lambda: theirs(name), repeat)  # noqa: B023
            rows.append({"window": window, "aggregate": ours, "cepkit_s": own, "pandas_s": other})
        aggregates = {name: f"{name}(price)" for name in FUNCTIONS}
        own = seconds(lambda: cep.window(frame, aggregates, **settings), repeat)  # noqa: B023
        other = seconds(lambda: [theirs(name) for name in FUNCTIONS.values()], repeat)  # noqa: B023
        rows.append({"window": window, "aggregate": "all six", "cepkit_s": own, "pandas_s": other})
    table = pd.DataFrame(rows)
    return table.assign(ratio=table["pandas_s"] / table["cepkit_s"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print(compare(given.rows, given.repeat).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
