"""Draw panels of the figures of the DARLING paper: a line per strategy, with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.plots.charts import SweepPanel, sweep_figure

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
    printed = next((table.attrs["printed"] for table in tables if "printed" in table.attrs), None)
    return sweep_figure(panels, series="strategy", printed=printed, columns=3, measured=False, title=title)
