"""The directions of figures 6 to 10 of the DARLING paper, a claim per figure and data set.

Source: DARLING, section 5.2. The paper's numbers are in its figures only, apart from some factors in the
text. So every claim is about a direction, and ``printed`` has the factor if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

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


# --- tests of one panel: the value of each point, and whether the statement holds ---------------------------


def _finds_most(wide: pd.DataFrame) -> Verdict | None:
    """Test that DARLING finds most matches at every point; the value is the least ratio."""
    best = wide.drop(columns=OWN).max(axis=1)
    is_known = wide[OWN].notna() & (best > 0)
    ratio = float((wide[OWN] / best)[is_known].min())
    return (ratio, ratio >= 1 - EQUAL) if is_known.any() else None


def _answers_first(wide: pd.DataFrame) -> Verdict | None:
    """Test that DARLING's mean latency is the least, and within the bound; the value is its greatest."""
    # Points where a strategy has no match do not count for it.
    own, least = wide[OWN].dropna(), wide.drop(columns=OWN).min(axis=1)
    if own.empty:
        return None
    is_least = own <= least.reindex(own.index).fillna(np.inf) * (1 + EQUAL)
    return float(own.max()), bool(is_least.all() and own.max() <= LATENCY_BOUND)


def _needs_least_memory(wide: pd.DataFrame) -> Verdict:
    """Test that DARLING needs least memory at most points; the value is the share of points."""
    share = float((wide[OWN] <= wide.drop(columns=OWN).min(axis=1) * (1 + EQUAL)).mean())
    return share, share > 0.5


def _needs_more_memory(wide: pd.DataFrame) -> Verdict:
    """Test that DARLING needs more than the median of the others at most points."""
    share = float((wide[OWN] > wide.drop(columns=OWN).median(axis=1)).mean())
    return share, share > 0.5


def _costs_least(wide: pd.DataFrame) -> Verdict | None:
    """Test that DARLING adds least latency, and as much at all points."""
    # Others are those with utilities or classes; random shedding has no work of its own without drops. The
    # value is DARLING's slope over that of hSPICE.
    others = [name for name in wide if name not in (OWN, "random")]
    if not others:
        return None
    is_least = bool((wide[OWN] <= wide[others].min(axis=1) * (1 + EQUAL)).all())
    if "hspice" not in wide:
        return float("nan"), is_least
    own, other = (float(abs(wide[name].iloc[-1] - wide[name].iloc[0])) for name in (OWN, "hspice"))
    slope = own / other if other else float("inf") if own else 0.0
    return slope, is_least and slope < FLAT


# --- the claims: a statement of the text on the panels of one figure that have the same data ----------------

_LATENCY = f"the least mean latency at every point, within {LATENCY_BOUND:g} s"
_RATIO = "least ratio of DARLING to the best other strategy"
_SHARE = "share of points"
_MEMORY = ("least memory at most points", _SHARE, _needs_least_memory, min)
_KINDS = {
    RECALL: ("most matches at every point", _RATIO, _finds_most, min),
    LATENCY: (_LATENCY, "greatest mean latency of DARLING, s", _answers_first, max),
    MEMORY: _MEMORY,
    OVERHEAD: ("least latency without drops, and as much at all points", "its slope over that of hSPICE",
               _costs_least, max),
}  # fmt: skip
_ON_SOCCER = ("more memory than most others, since it keeps more", _SHARE, _needs_more_memory, min)


def _claim(panels: Sequence[PaperPanel]) -> Claim:
    """Return the claim that the statement of some panels holds in all of them; the value is the worst."""
    figure, data, measure = panels[0].figure, panels[0].axis.data, panels[0].measure
    words, what, of_panel, worst = _ON_SOCCER if (measure, data) == (MEMORY, SOCCER) else _KINDS[measure]

    def test(results: pd.DataFrame) -> Verdict | None:
        tables = [wide for panel in panels if (wide := wide_table(results, panel)) is not None]
        verdicts = [verdict for wide in tables if (verdict := of_panel(wide)) is not None]
        return (worst(value for value, _ in verdicts), all(so for _, so in verdicts)) if verdicts else None

    printed = [PRINTED.get((measure, panel.axis.by), {}).get(data, "") for panel in panels]
    factor = f"factors up to {', '.join(filter(None, printed))}" if any(printed) else ""
    names = ", ".join(panel.name.removeprefix(str(figure)) for panel in panels)
    reason = _REASONS[measure, figure]
    return Claim(f"figure {figure} {names}", f"{data}: {words}", what, test, factor, reason)


_REASONS = {
    (RECALL, 6): "the kept events of a peak lie far apart, and a match needs all of its events",
    (LATENCY, 7): "its mean is mostly within the bound, and others that find less answer sooner",
    (MEMORY, 8): "it keeps fewer events than others, on soccer too",
    (RECALL, 9): "utilities tell good events from bad ones",
    (LATENCY, 9): "it stays below the bound; eSPICE and hSPICE skip more, and answer sooner",
    (OVERHEAD, 10): "it grows least; where windows are small, a lookup is cheaper than a utility",
}


def _claims() -> list[Claim]:
    groups: dict[tuple, list[PaperPanel]] = {}
    for panel in PANELS:
        groups.setdefault((panel.figure, panel.measure, panel.axis.data), []).append(panel)
    return [_claim(panels) for panels in groups.values()]


CLAIMS: tuple[Claim, ...] = tuple(_claims())
