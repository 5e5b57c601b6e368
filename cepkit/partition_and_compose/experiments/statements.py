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
    longest = aggregates.index.max()
    rows = [
        ("selectivities within a fifth of table 5", "", f"{n_near} of {len(table5)}"),
        ("more states cost nothing: finance1 to finance0", "0.91", _ratio(speed, "finance1", "finance0")),
        ("finance2 is the fastest: to finance0", "1.07", _ratio(speed, "finance2", "finance0")),
        ("finance5 is slow, for its live starts: to finance0", "0.30", _ratio(speed, "finance5", "finance0")),
        ("parsing is all of twitter1: to twitter0", "0.97", _ratio(speed, "twitter1", "twitter0")),
        (
            "twitter2 is slow, its predicates read texts: to twitter1",
            "0.05",
            _ratio(on_texts, "twitter2_texts", "twitter1_texts"),
        ),
        ("the same with tags as numbers", "", _ratio(on_texts, "twitter2", "twitter1")),
        (
            "a second replica brings nothing: best of finance0, 1, 2 (measured)",
            "1",
            f"{at_2[finance[:3]].max():.2f}",
        ),
        (
            "8 replicas bring tweets most: the least of them (simulated)",
            "3.8",
            f"{at_8.drop(finance).min():.1f}",
        ),
        ("8 replicas bring trades less: the most of them (simulated)", "2.9", f"{at_8[finance].max():.1f}"),
        (
            f"recomputed aggregates take longer: {longest:,} events to a match",
            "",
            f"{aggregates.loc[longest, 'ratio']:.0f}",
        ),
    ]
    return pd.DataFrame(rows, columns=["statement", "paper", "here"])


def _ratio(speed: pd.Series, one: str, other: str) -> str:
    return f"{speed[one] / speed[other]:.2f}"
