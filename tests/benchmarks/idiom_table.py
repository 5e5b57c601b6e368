"""Runs, sessions and funnels beside the idioms of pandas on the same rows: seconds of CPU time, and ratios.

python tests/benchmarks/idiom_table.py [--rows 1000000] [--repeat 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd
from window_table import seconds

import cepkit as cep

STEPS = ["view", "cart", "buy"]


def clicks(n_rows: int, seed: int = 7) -> pd.DataFrame:
    """Return clicks of users, one every second and a half on average, with prices of a random walk."""
    rng = np.random.default_rng(seed)
    times = pd.Timestamp("2024-01-31") + pd.to_timedelta(np.cumsum(rng.integers(1, 3000, n_rows)), unit="ms")
    return pd.DataFrame(
        {
            "ts": times,
            "user": rng.integers(0, 390, n_rows),
            "kind": rng.choice(["view", "view", "help", "cart", "buy"], n_rows),
            "price": np.round(100 + np.cumsum(rng.normal(0, 0.01, n_rows)), 2),
        }
    )


def runs_of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of rising prices by shift, cumsum and groupby."""
    holds = frame["price"] > frame.groupby("user")["price"].shift()
    begins = holds & ~holds.groupby(frame["user"]).shift(fill_value=False)
    number = begins.groupby(frame["user"]).cumsum()
    inside = frame[holds].groupby(["user", number[holds].rename("run")], sort=False)
    return inside["ts"].agg(["first", "last", "size"]).reset_index()


def sessions_of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sessions by diff, cumsum and groupby."""
    begins = frame.groupby("user")["ts"].diff() > pd.Timedelta("30 min")
    number = begins.groupby(frame["user"]).cumsum().rename("session")
    return frame.groupby(["user", number], sort=False)["ts"].agg(["first", "last", "size"]).reset_index()


def funnel_of_pandas(frame: pd.DataFrame) -> list[int]:
    """Return the users who reach each step within a day, step by step with merge_asof."""
    found = frame.loc[frame["kind"] == STEPS[0], ["ts", "user"]].assign(start=lambda rows: rows["ts"])
    reached = [found["user"].nunique()]
    for step in STEPS[1:]:
        rows = frame.loc[frame["kind"] == step, ["ts", "user"]]
        found = pd.merge_asof(rows, found, on="ts", by="user", allow_exact_matches=False)
        found = found[found["ts"] - found["start"] <= pd.Timedelta("1 day")]
        reached.append(found["user"].nunique())
    return reached


def compare(n_rows: int, repeat: int) -> pd.DataFrame:
    """Return the seconds of cepkit and of pandas for each idiom, after a check that they agree."""
    frame, of = clicks(n_rows), {"partition_by": "user", "order_by": "ts"}
    idioms: dict[str, tuple[Callable, Callable]] = {
        "runs": (lambda: cep.runs(frame, "price > prev(price)", **of), lambda: runs_of_pandas(frame)),
        "sessions": (lambda: cep.sessions(frame, gap="30 min", **of), lambda: sessions_of_pandas(frame)),
        "funnel": (
            lambda: cep.funnel(frame, STEPS, within="1 day", event_type="kind", **of),
            lambda: funnel_of_pandas(frame),
        ),
    }
    rows = []
    for name, (ours, theirs) in idioms.items():
        one, other = ours(), theirs()
        assert list(one["reached"]) == other if name == "funnel" else len(one) == len(other), name
        own, pandas = seconds(ours, repeat), seconds(theirs, repeat)
        rows.append({"idiom": name, "rows": n_rows, "cepkit_s": own, "pandas_s": pandas})
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
