"""The direction of each panel of the DARLING paper here, and the factors that the paper prints."""

from __future__ import annotations

import numpy as np
import pandas as pd

from papers.load_shedding.claims import EQUAL as CLOSE
from papers.load_shedding.claims import OWN, PRINTED, wide_table
from papers.load_shedding.figures import (
    COMPARED,
    LATENCY,
    MEMORY,
    NO_DROPS,
    PANELS,
    RECALL,
    SOCCER,
    PaperPanel,
)

_GREATER_IS_BETTER = (RECALL,)


def directions(results: pd.DataFrame) -> pd.DataFrame:
    """Return how DARLING compares with the best of the paper's other strategies, on means over seeds."""
    rows = []
    for panel in PANELS:
        wide = wide_table(results, panel)
        if wide is None:
            continue
        factor = _factor(wide, panel).dropna()
        n = int((factor >= 1 - CLOSE).sum())
        rows.append(
            {
                "panel": panel.name, "shows": f"{panel.axis.data}, {panel.axis.by}: {_WORDS[panel.measure]}",
                "paper": _printed(panel), "factor": float(factor.max()) if len(factor) else np.nan,
                "at the end": float(factor.iloc[-1]) if len(factor) else np.nan, "best at": n,
                "points": len(factor), "direction": n > len(factor) / 2,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


_WORDS = {RECALL: "matches found", LATENCY: "latency", MEMORY: "memory", "latency_overhead": "overhead"}


def _factor(wide: pd.DataFrame, panel: PaperPanel) -> pd.Series:
    """Return by which factor DARLING is better than the best other strategy, at each point."""
    others = wide.drop(columns=OWN)
    if panel.measure == RECALL:
        return wide[OWN] / others.max(axis=1)
    if panel.measure == MEMORY and panel.axis.data == SOCCER:
        return wide[OWN] / others.median(axis=1)
    if panel.load == NO_DROPS:
        others = others.drop(columns="random", errors="ignore")
    return others.min(axis=1) / wide[OWN]


def _printed(panel: PaperPanel) -> float:
    printed = PRINTED.get((panel.measure, panel.axis.by), {}).get(panel.axis.data, "")
    return float(printed.split()[-1]) if printed else np.nan


# --- the paper's values in panels -------------------------------------------------------------------------

PRINTED_MARK = "DARLING by the paper's factor"


def with_printed(table: pd.DataFrame, results: pd.DataFrame, panel: PaperPanel) -> pd.DataFrame:
    """Return the rows of a panel and a mark at the last point: the paper's factor times the best other."""
    # The text prints the greatest factor of a panel and not all its points. Shares of matches end at 1.
    # Random input shedding, which the paper lacks, is the last strategy.
    factor, wide = _printed(panel), wide_table(results, panel)
    made = table
    if wide is not None and not np.isnan(factor):
        others = wide.drop(columns=OWN).iloc[-1]
        value = min(1.0, factor * others.max()) if panel.measure == RECALL else others.min() / factor
        mark = pd.DataFrame({"strategy": [PRINTED_MARK], "x": [table["x"].max()], "value": [value]})
        made = pd.concat([table, mark], ignore_index=True)
    order = {name: place for place, name in enumerate(COMPARED)}
    rank = made["strategy"].map(order).fillna(len(order))
    made = made.iloc[np.argsort(rank.to_numpy(), kind="stable")].reset_index(drop=True)
    made.attrs = {**table.attrs, "printed": PRINTED_MARK}
    return made


def verdicts_by_room(rooms: pd.DataFrame) -> pd.DataFrame:
    """Return, for each room and axis, recall of DARLING over that of the best other strategy of the paper."""
    own = rooms[rooms["strategy"].isin(COMPARED)]
    means = own.pivot_table(index=["stream", "by", "room"], columns="strategy", values="recall", sort=False)
    ratio = means[OWN] / means.drop(columns=OWN).max(axis=1)
    return ratio.unstack("room")
