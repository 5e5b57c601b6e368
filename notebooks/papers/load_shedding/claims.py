"""The directions of figures 6 to 10 of the DARLING paper, a claim per panel, as tests of the results.

Source: DARLING, section 5.2. The paper's numbers are in its figures only, apart from some factors in the
text. So every claim is about a direction, and ``printed`` has the factor if there is one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from papers.claims import Claim
from papers.load_shedding.figures import (
    BUSES,
    COMPARED,
    LATENCY,
    LATENCY_BOUND,
    LENGTH,
    MEMORY,
    OVERHEAD,
    OVERLOAD,
    PANELS,
    PARTIAL_MATCHES,
    RECALL,
    SOCCER,
    STOCKS,
    WINDOW,
    PaperPanel,
    panel_table,
)

OWN = "darling"
EQUAL = 0.02  # measures that differ by less, as a share of the greater one, count as equal
FLAT = 0.1  # slope of DARLING's overhead, as a share of that of hSPICE
Verdict = tuple[float, bool]
Test = Callable[[pd.DataFrame], Verdict | None]

# The greatest factors of the text, by data set.
PRINTED = {
    (RECALL, WINDOW): {STOCKS: "4", BUSES: "12", SOCCER: "10"},
    (RECALL, LENGTH): {STOCKS: "10", BUSES: "4836", SOCCER: "18"},
    (RECALL, PARTIAL_MATCHES): {STOCKS: "3 to 4", BUSES: "3 to 8", SOCCER: "5 to 6"},
    (LATENCY, WINDOW): {STOCKS: "21", BUSES: "1280", SOCCER: "87"},
    (LATENCY, LENGTH): {STOCKS: "182", BUSES: "1822", SOCCER: "46"},
    (LATENCY, PARTIAL_MATCHES): {STOCKS: "2", BUSES: "88", SOCCER: "9"},
    (LATENCY, OVERLOAD): {STOCKS: "7", BUSES: "123", SOCCER: "356"},
}


def wide_table(results: pd.DataFrame, panel: PaperPanel) -> pd.DataFrame | None:
    """Return a row per point in order, a column per strategy of the paper; None without DARLING or others."""
    table = panel_table(results, panel)
    table = table[table["strategy"].isin(COMPARED)]
    if table.empty or OWN not in set(table["strategy"]) or table["strategy"].nunique() < 2:
        return None
    order = list(dict.fromkeys(table["point"]))
    return table.pivot_table(
        index="point", columns="strategy", values="value", dropna=False, aggfunc="mean"
    ).reindex(order)


def _finds_most(panel: PaperPanel) -> Test:
    """Return the test that DARLING finds most matches at every point; its value is the least ratio."""

    def test(results: pd.DataFrame) -> Verdict | None:
        wide = wide_table(results, panel)
        if wide is None:
            return None
        best = wide.drop(columns=OWN).max(axis=1)
        is_known = wide[OWN].notna() & (best > 0)
        if not is_known.any():
            return None
        ratio = float((wide[OWN] / best)[is_known].min())
        return ratio, ratio >= 1 - EQUAL

    return test


def _answers_first(panel: PaperPanel) -> Test:
    """Return the test that DARLING's mean latency is the least everywhere, and within the bound."""
    # The value is DARLING's greatest mean latency. Points where a strategy has no match do not count for it.

    def test(results: pd.DataFrame) -> Verdict | None:
        wide = wide_table(results, panel)
        if wide is None or wide[OWN].isna().all():
            return None
        own, least = wide[OWN].dropna(), wide.drop(columns=OWN).min(axis=1)
        is_least = own <= least.reindex(own.index).fillna(np.inf) * (1 + EQUAL)
        return float(own.max()), bool(is_least.all() and own.max() <= LATENCY_BOUND)

    return test


def _needs_least_memory(panel: PaperPanel) -> Test:
    """Return the test that DARLING needs least memory at most points; the value is the share of points."""

    def test(results: pd.DataFrame) -> Verdict | None:
        wide = wide_table(results, panel)
        if wide is None:
            return None
        share = float((wide[OWN] <= wide.drop(columns=OWN).min(axis=1) * (1 + EQUAL)).mean())
        return share, share > 0.5

    return test


def _needs_more_memory(panel: PaperPanel) -> Test:
    """Return the test that DARLING needs more than the median of the others at most points."""

    def test(results: pd.DataFrame) -> Verdict | None:
        wide = wide_table(results, panel)
        if wide is None:
            return None
        share = float((wide[OWN] > wide.drop(columns=OWN).median(axis=1)).mean())
        return share, share > 0.5

    return test


def _costs_least(panel: PaperPanel) -> Test:
    """Return the test that DARLING adds least latency, and as much at all points."""
    # Others are those with utilities or classes; random shedding has no work of its own without drops. The
    # value is DARLING's slope over that of hSPICE.

    def test(results: pd.DataFrame) -> Verdict | None:
        wide = wide_table(results, panel)
        others = [] if wide is None else [name for name in wide if name not in (OWN, "random")]
        if wide is None or not others:
            return None
        is_least = bool((wide[OWN] <= wide[others].min(axis=1) * (1 + EQUAL)).all())
        if "hspice" not in wide:
            return float("nan"), is_least
        own, other = (float(abs(wide[name].iloc[-1] - wide[name].iloc[0])) for name in (OWN, "hspice"))
        slope = own / other if other else float("inf") if own else 0.0
        return slope, is_least and slope < FLAT

    return test


def claim_of(panel: PaperPanel) -> Claim:
    """Return the claim of a panel."""
    data, by = panel.axis.data, panel.axis.by
    printed = PRINTED.get((panel.measure, by), {}).get(data, "")
    what = f"{data}, {by}"
    if panel.measure == RECALL:
        words, measure, test = (
            f"DARLING finds most matches at every point ({what})",
            "least ratio of DARLING to the best other strategy",
            _finds_most(panel),
        )
        printed = f"ratio up to {printed}" if printed else ""
    elif panel.measure == LATENCY:
        words, measure, test = (
            f"DARLING has the least mean latency at every point, and keeps to {LATENCY_BOUND:g} s ({what})",
            "greatest mean latency of DARLING, s",
            _answers_first(panel),
        )
        printed = f"up to {printed} times lower" if printed else ""
    elif panel.measure == MEMORY and data == SOCCER:
        words, measure, test = (
            f"DARLING needs more memory than most others, since it keeps more ({what})",
            "share of points with more than the median of the others",
            _needs_more_memory(panel),
        )
    elif panel.measure == MEMORY:
        words, measure, test = (
            f"DARLING needs least memory at most points ({what})",
            "share of points where it does",
            _needs_least_memory(panel),
        )
    else:
        assert panel.measure == OVERHEAD, panel.measure
        words, measure, test = (
            f"DARLING adds least latency without drops, and as much at all points ({what})",
            "its slope over that of hSPICE",
            _costs_least(panel),
        )
    return Claim(f"figure {panel.name}", words, measure, test, printed)


CLAIMS: tuple[Claim, ...] = tuple(claim_of(panel) for panel in PANELS)
