"""Why each panel of the DARLING paper comes out as it does here, with the numbers of the kept tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from papers.claims import Finding
from papers.load_shedding.claims import EQUAL as CLOSE
from papers.load_shedding.claims import OWN, PRINTED, wide_table
from papers.load_shedding.figures import (
    COMPARED,
    LATENCY,
    LATENCY_BOUND,
    MEMORY,
    NO_DROPS,
    OVERLOAD,
    PANELS,
    RECALL,
    SOCCER,
    PaperPanel,
)
from papers.load_shedding.studies import EQUAL, FIRST, SERVICE

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


# --- reasons ----------------------------------------------------------------------------------------------


def with_reasons(findings: Iterable[Finding], results: pd.DataFrame, variants: pd.DataFrame) -> list[Finding]:
    """Return the findings of `papers.load_shedding.claims.CLAIMS`, each with its reason."""
    made = []
    for one in findings:
        (panel,) = (panel for panel in PANELS if one.claim.place == f"figure {panel.name}")
        wide = wide_table(results, panel)
        reason = "" if wide is None else _reason(panel, wide, results, variants)
        made.append(replace(one, claim=replace(one.claim, reason=reason)))
    return made


def _reason(panel: PaperPanel, wide: pd.DataFrame, results: pd.DataFrame, variants: pd.DataFrame) -> str:
    factor = _factor(wide, panel).dropna()
    n = int((factor >= 1 - CLOSE).sum())
    where = f"At {n} of {len(factor)} points, DARLING is the best or equal."
    if panel.measure == RECALL:
        return f"{where} {_why_recall(panel, wide, results, variants)}"
    if panel.measure == LATENCY:
        return f"{where} {_why_latency(panel, wide, results, variants)}"
    if panel.measure == MEMORY:
        return _why_memory(panel, wide, n, len(factor), results)
    return f"{where} {_why_overhead(wide)}"


def _of_axis(table: pd.DataFrame, panel: PaperPanel) -> pd.DataFrame:
    return table[(table["stream"] == panel.axis.data) & (table["by"] == panel.axis.by)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _why_recall(panel: PaperPanel, wide: pd.DataFrame, results: pd.DataFrame, variants: pd.DataFrame) -> str:
    means = _of_axis(variants, panel).groupby("variant")[["recall", "kept", "service"]].mean()
    own, equal, first = means.loc[OWN], means.loc[EQUAL], means.loc[FIRST]
    if panel.axis.by == OVERLOAD:
        return (
            "The load is continuous, so every strategy drops everywhere, and utilities decide. With equal "
            f"utilities, DARLING finds {_percent(equal.recall)} of the matches instead of "
            f"{_percent(own.recall)}."
        )
    said = [_said_first(own, first)]
    if own.recall > equal.recall + CLOSE:
        said.append(f"Utilities help: with equal ones it finds {_percent(equal.recall)}.")
    else:
        said.append(f"Utilities do not help here: with equal ones it finds {_percent(equal.recall)}.")
    if SERVICE in means.index:
        said.append(
            f"While events wait, one costs {own.service:.2g} times as much as in the warm-up. With that time "
            f"in N_in, it finds {_percent(means.loc[SERVICE].recall)}."
        )
    best = wide.drop(columns=OWN).idxmax(axis=1).mode()[0]
    late = _of_axis(results, panel)
    late = late[(late["load"] == panel.load) & (late["strategy"] == best)]["mean_latency"].mean()
    if late > LATENCY_BOUND:
        said.append(f"{_NAMES[best]}, mostly the best, has a mean latency of {late:.1f} s, above the bound.")
    return " ".join(said)


_NAMES = {
    "darling": "DARLING", "random": "Random shedding", "espice": "eSPICE", "hspice": "hSPICE",
    "zhao": "Zhao et al.",
}  # fmt: skip


def _said_first(own: pd.Series, first: pd.Series) -> str:
    numbers = (
        f"DARLING processes {_percent(own.kept)} of the events and finds {_percent(own.recall)} of the "
        f"matches; first come processes {_percent(first.kept)} and finds {_percent(first.recall)}."
    )
    if first.recall <= own.recall + CLOSE:
        return numbers
    return (
        f"{numbers} DARLING's drops lie everywhere in a peak, and a match needs all its events. First come "
        "keeps whole stretches of the stream."
    )


def _why_latency(panel: PaperPanel, wide: pd.DataFrame, results: pd.DataFrame, variants: pd.DataFrame) -> str:
    own = wide[OWN]
    late = own[own > LATENCY_BOUND]
    if len(late):
        means = _of_axis(variants, panel).groupby("variant")["mean_latency"].mean()
        bound = (
            f"Its mean is above the bound at {_points(len(late))}, {late.max():.1f} s at most. Events of "
            "high utility make partial matches, so they cost more: with equal utilities, the mean of all "
            f"points is {means[EQUAL]:.2g} s instead of {means[OWN]:.2g} s."
        )
    else:
        bound = f"Its mean is within the bound at all points, {own.max():.2g} s at most."
    others = wide.drop(columns=OWN)
    lower = others.lt(own / (1 + CLOSE), axis=0).sum()
    if not lower.max():
        return bound
    best = str(lower.idxmax())
    recall = _of_axis(results, panel)
    recall = recall[recall["load"] == panel.load].groupby("strategy")["recall"].mean()
    return (
        f"{bound} {_NAMES[best]} is lower at {_points(int(lower.max()))}. Over all points it finds "
        f"{_percent(recall[best])} of the matches, and DARLING {_percent(recall[OWN])}."
    )


def _why_memory(panel: PaperPanel, wide: pd.DataFrame, n: int, points: int, results: pd.DataFrame) -> str:
    recall = _of_axis(results, panel)
    recall = recall[recall["load"] == panel.load].groupby("strategy")["recall"].mean()
    if panel.axis.data == SOCCER:
        return (
            f"At {n} of {points} points, it needs more than the median of the others. DARLING does not keep "
            f"more here: it finds {_percent(recall[OWN])} of the matches, and the others "
            f"{_percent(recall.drop(OWN).mean())} on average."
        )
    said = f"At {n} of {points} points, DARLING needs least. Its drops come before partial matches are made."
    most = wide[OWN] > wide.drop(columns=OWN).min(axis=1) * (1 + CLOSE)
    if most.any():
        at = ", ".join(map(str, wide.index[most]))
        said += f" It needs more at {at}: events are cheap there, so N_in is large and many wait."
    return said


def _times(factor: float) -> str:
    return f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}"


def _points(n: int) -> str:
    return f"{n} point{'' if n == 1 else 's'}"


def _why_overhead(wide: pd.DataFrame) -> str:
    said = []
    for name in ("espice", "hspice", "zhao"):
        ratio = wide[name] / wide[OWN]
        said.append(f"{_NAMES[name]} adds {_times(ratio.min())} to {_times(ratio.max())} times as much")
    lower = wide[["espice", "hspice", "zhao"]].lt(wide[OWN] / (1 + CLOSE), axis=0).any(axis=1)
    if lower.any():
        at = ", ".join(map(str, wide.index[lower]))
        said.append(f"at {at}, the lookups of an event cost less than a utility and its place in an array")
    return "; ".join(said) + "."


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
