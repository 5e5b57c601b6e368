"""Compare the statements of "Partition and Compose" (DEBS 2012) with a run of the experiments."""

from __future__ import annotations

import pandas as pd


def statements(
    *,
    table5: pd.DataFrame,
    table6: pd.DataFrame,
    texts: pd.DataFrame,
    aggregates: pd.DataFrame,
    measured: pd.DataFrame,
    simulated: pd.DataFrame,
) -> pd.DataFrame:
    """Return the statements of the paper, its numbers, and the numbers of this run.

    Parameters
    ----------
    table5, table6 : pandas.DataFrame
        Results of the functions with these names for all nine benchmarks.
    texts : pandas.DataFrame
        Result of `table6` for twitter1, twitter2 and their variants on texts.
    aggregates : pandas.DataFrame
        Result of `incremental_against_recomputed`.
    measured, simulated : pandas.DataFrame
        Results of `speedup_measured` with width 2 and `speedup_simulated` with width 8.

    Returns
    -------
    pandas.DataFrame
        Columns ``statement``, ``paper`` and ``here``, all texts. Speeds are by CPU time, speed-ups by wall
        clock.

    Notes
    -----
    Source: Hirzel, "Partition and Compose", DEBS 2012, tables 5 and 6, figure 9 and section 5.2.
    """
    speed = table6["events"] / table6["cpu_s"]
    on_texts = texts["events"] / texts["cpu_s"]
    at_2 = measured["speedup"].xs(2, level="width")
    at_8 = simulated["speedup"].xs(8, level="width")
    finance = [name for name in at_8.index if name.startswith("finance")]
    n_near = int(table5["ratio"].between(0.8, 1.2).sum())
    best_at_2 = at_2[finance[:3]].max()
    tweets_at_8, trades_at_8 = at_8.drop(finance).min(), at_8[finance].max()
    longest = aggregates.index.max()
    slowdown = aggregates.loc[longest, "ratio"]
    of_texts = _ratio(on_texts, "twitter2_texts", "twitter1_texts")
    rows = [
        ("selectivities within a fifth of table 5", "", f"{n_near} of {len(table5)}"),
        ("more states cost nothing: finance1 / finance0", "0.91", _ratio(speed, "finance1", "finance0")),
        ("finance2 is the fastest: finance2 / finance0", "1.07", _ratio(speed, "finance2", "finance0")),
        ("live starts slow finance5: finance5 / finance0", "0.30", _ratio(speed, "finance5", "finance0")),
        ("twitter1 mostly parses: twitter1 / twitter0", "0.97", _ratio(speed, "twitter1", "twitter0")),
        ("predicates on texts slow twitter2: twitter2 / twitter1", "0.05", of_texts),
        ("the same with tags as numbers", "", _ratio(on_texts, "twitter2", "twitter1")),
        ("a second replica saves nothing: best of finance0 to 2 (measured)", "1", f"{best_at_2:.2f}"),
        ("tweets gain most from 8 replicas: least speed-up (simulated)", "3.8", f"{tweets_at_8:.1f}"),
        ("trades gain less from 8 replicas: best speed-up (simulated)", "2.9", f"{trades_at_8:.1f}"),
        (f"recomputed aggregates take longer: ratio at {longest:,} events per match", "", f"{slowdown:.0f}"),
    ]
    return pd.DataFrame(rows, columns=["statement", "paper", "here"])


def _ratio(speed: pd.Series, one: str, other: str) -> str:
    return f"{speed[one] / speed[other]:.2f}"
