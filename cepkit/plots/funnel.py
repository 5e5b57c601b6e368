"""Bars of the number of partial matches per step. Numbers of any size work: only logarithms are drawn."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cepkit.language.expressions.durations import count_text
from cepkit.plots import theme
from cepkit.plots.theme import cut, escaped
from cepkit.plots.timeline.axes import nice_ticks

if TYPE_CHECKING:
    import plotly.graph_objects as go

LINEAR = 100  # greatest ratio of the largest to the smallest count on a linear axis
LARGEST_LINEAR = 10**12
BAR_PIXELS = 26
SHORTEST = 0.004  # share of a logarithmic axis that the bar of one partial match takes
_MOST_TICKS = 7
_TITLE_CHARACTERS = 80


def funnel_figure(title: str, branches: Sequence[Sequence[tuple[str, int, bool]]]) -> go.Figure:
    """Draw counts as bars from top to bottom, with one trace per branch."""
    from cepkit.plots.lean import LeanFigure

    branches = [_with_distinct_names(steps) for steps in branches]
    counts = [n for steps in branches for _, n, _ in steps]
    positive = [n for n in counts if n > 0]
    is_log = bool(positive) and max(positive) > min(LINEAR * min(positive), LARGEST_LINEAR)
    top = (math.log10(max(positive)) if is_log else max(positive, default=0)) or 1.0
    figure = LeanFigure()
    for b, steps in enumerate(branches):
        lengths = [_log_length(n, top) if is_log else n for _, n, _ in steps]
        texts = [count_text(n, exact=exact) for _, n, exact in steps]
        figure.add_bar(
            y=[name for name, _, _ in steps], x=lengths, text=texts,
            textposition="outside", textfont={"size": 11}, constraintext="none", cliponaxis=False,
            name=f"branch {b}", orientation="h",
            marker={"color": theme.PALETTE[b % len(theme.PALETTE)]},
            hovertemplate="%{y}: %{text}<extra></extra>",
        )  # fmt: skip
    lines = [escaped(line) for line in textwrap.wrap(title, _TITLE_CHARACTERS) or [""]]
    n_bars = max((len(steps) for steps in branches), default=0)
    height = n_bars * max(BAR_PIXELS, 14 * len(branches)) + 112 + 18 * len(lines)
    line = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
    # The range leaves room for the number after the longest bar.
    figure.update_layout(
        title=theme.title_at_left(lines),
        xaxis={"range": [0, 1.18 * top], **_ticks(top, is_log), **line},
        yaxis={"autorange": "reversed", **_order(branches), "automargin": True, "showgrid": False, **line},
        showlegend=len(branches) > 1,
        bargap=0.25,
        margin={"l": 60, "r": 20, "t": 34 + 18 * len(lines), "b": 60},
        **theme.layout(height),
    )
    return figure


def _with_distinct_names(steps: Sequence[tuple[str, int, bool]]) -> list[tuple[str, int, bool]]:
    """Return steps with their names as labels of bars: the second ``up`` is ``up (2)``."""
    seen: Counter[str] = Counter()
    labelled = []
    for name, n, exact in steps:
        label = escaped(cut(name))
        seen[label] += 1
        labelled.append((label if seen[label] == 1 else f"{label} ({seen[label]})", n, exact))
    return labelled


def _order(branches: Sequence[Sequence[tuple[str, int, bool]]]) -> dict:
    """Return an order of the bars that keeps the order of each branch."""
    merged: list[str] = []
    for steps in branches:
        names = [name for name, _, _ in steps]
        for i, name in enumerate(names):
            if name not in merged:
                following = next((later for later in names[i + 1 :] if later in merged), None)
                merged.insert(len(merged) if following is None else merged.index(following), name)
    return {"categoryorder": "array", "categoryarray": merged}


def _log_length(n: int, top: float) -> float:
    return 0.0 if n == 0 else max(math.log10(n), SHORTEST * top)


def _ticks(top: float, is_log: bool) -> dict:

    if not is_log:
        return {"title": {"text": "partial matches"}, "nticks": _MOST_TICKS, "tickformat": ",~d"}
    ticks = nice_ticks(0.0, max(1.1 * top, 1.0), _MOST_TICKS)
    exponents = [round(tick) for tick in ticks if tick == round(tick)]
    return {
        "title": {"text": "partial matches (log)"},
        "tickmode": "array",
        "tickvals": exponents,
        "ticktext": [f"{10**k:,}" if k < 5 else f"10<sup>{k}</sup>" for k in exponents],
    }
