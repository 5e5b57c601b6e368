"""Draw panels of the figures of the DARLING paper: a line per strategy, with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.plots.charts import SweepPanel, sweep_figure
from papers.load_shedding.figures import DRAWN, LONG, PEAKS, RECALL, find_panels

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Title of y, factor from the table's unit, whether y is logarithmic.
MEASURES: dict[str, tuple[str, float, bool]] = {
    "recall": ("matches found (%)", 100.0, False),
    "mean_latency": ("mean latency (s)", 1.0, True),
    "peak_bytes": ("peak memory (kB)", 1e-3, True),
    "latency_overhead": ("latency overhead (ms)", 1e3, True),
}
# Title of x, and whether x is logarithmic.
AXES: dict[str, tuple[str, bool]] = {
    "window": ("events in a window", True),
    "length": ("event types in the pattern", False),
    "partial matches": ("partial matches in a window", False),
    "overload": ("overload rate (%)", False),
}
_APART = 0.09  # distance of the strategies of a panel in the picture of all panels


def panels_figure(
    tables: Sequence[pd.DataFrame], *, latency_bound: float | None = None, title: str | None = None
) -> go.Figure:
    """Draw panels, three in a row, with means over seeds and their standard deviations."""
    # A point without matches has no latency. Its line has a gap there.
    panels = []
    for table in tables:
        measure, by = table.attrs["measure"], table.attrs["by"]
        y_title, factor, log_y = MEASURES[measure]
        x_title, log_x = AXES[by]
        reference = latency_bound if measure == "mean_latency" else None
        panels.append(
            SweepPanel(
                table.assign(value=table["value"] * factor), "x", "value", table.attrs["title"], x_title,
                y_title, log_x=log_x, log_y=log_y, reference=reference, spread=True,
            )
        )  # fmt: skip
    return sweep_figure(panels, series="strategy", columns=3, measured=False, title=title)


def references_figure(
    results: pd.DataFrame,
    measure: str = RECALL,
    *,
    latency_bound: float | None = None,
    title: str | None = None,
) -> go.Figure:
    """Draw all nine panels of figure 6, 7 or 8 in one, at their references on long streams."""
    figure = {"recall": "6", "mean_latency": "7", "peak_bytes": "8"}[measure]
    panels, strategies = find_panels(figure), (*DRAWN, "none")
    y_title, factor, log_y = MEASURES[measure]
    own = results[(results["load"] == PEAKS) & (results["work_s"] == LONG.work_s)]
    place = {(panel.axis.data, panel.axis.by): number for number, panel in enumerate(panels)}
    shift = {name: _APART * (k - len(strategies) / 2 + 0.5) for k, name in enumerate(strategies)}
    x = [
        place[at] + shift[name]
        for *at, name in own[["stream", "by", "strategy"]].itertuples(index=False, name=None)
        for at in [tuple(at)]
    ]
    rows = own.assign(x=x, y=own[measure] * factor)
    rows = rows.iloc[np.argsort(rows["strategy"].map(list(strategies).index), kind="stable")]
    panel = SweepPanel(
        rows, "x", "y", x_title="", y_title=y_title, log_y=log_y, reference=latency_bound, spread=True
    )
    drawn = sweep_figure(panel, series="strategy", measured=False, title=title)
    drawn.update_traces(mode="markers", selector={"mode": "lines+markers"})
    texts = [f"{of.name}<br>{of.axis.data}<br>{of.axis.by.replace(' ', '<br>')}" for of in panels]
    room = drawn.layout.margin.b + 20  # labels have up to four lines
    drawn.update_layout(height=drawn.layout.height + 20, margin={"b": room})
    drawn.update_xaxes(tickmode="array", tickvals=list(range(len(panels))), ticktext=texts)
    return drawn
