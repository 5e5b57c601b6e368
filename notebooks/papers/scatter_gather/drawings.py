"""Draw figures 5.1 to 5.20 of the thesis from tidy rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.errors import CepError, nearest
from cepkit.plots.charts import SweepPanel, sweep_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

NODES, INTERVAL = "nodes, with the gather", "window, s"
PRINTED = "printed in the thesis"


@dataclass(frozen=True, slots=True)
class FigureLooks:
    """Title and axes of one figure."""

    title: str
    x_title: str
    y_title: str
    factor: float = 1.0  # from the table's unit to that of the axis
    # log_x, log_y: whether an axis is logarithmic
    log_x: bool = False
    log_y: bool = False


FIGURES = {
    "5.1": FigureLooks("5.1 throughput", INTERVAL, "events/s", log_x=True),
    "5.2": FigureLooks("5.2 memory of a window node", INTERVAL, "events held", log_x=True, log_y=True),
    "5.3": FigureLooks("5.3 work of a window node", INTERVAL, "CPU, %", 100.0, log_x=True),
    "5.4": FigureLooks("5.4 longest time window", NODES, "window, s"),
    "5.5": FigureLooks("5.5 throughput at it", NODES, "events/s"),
    "5.6": FigureLooks("5.6 events of a window node", NODES, "events held"),
    "5.7": FigureLooks("5.7 bandwidth, in and out", NODES, "events/s"),
    "5.8": FigureLooks("5.8 work of a window node", NODES, "CPU, %", 100.0),
    "5.9": FigureLooks("5.9 longest length window", NODES, "thousand events", 1e-3),
    "5.10": FigureLooks("5.10 longest pattern, worst case", NODES, "window, s"),
    "5.11": FigureLooks("5.11 longest pattern, average case", NODES, "window, s"),
    "5.12": FigureLooks("5.12 input of a node", NODES, "events/s"),
    "5.13": FigureLooks("5.13 work of a node", NODES, "CPU, %", 100.0),
    "5.14": FigureLooks("5.14 longest large window", NODES, "thousand events", 1e-3),
    "5.15": FigureLooks("5.15 input of a join node", NODES, "events/s"),
    "5.16": FigureLooks("5.16 longest two windows", NODES, "events", log_x=True, log_y=True),
    "5.17": FigureLooks("5.17 input of a join node", NODES, "events/s"),
    "5.18": FigureLooks("5.18 latency of windows", NODES, "ms"),
    "5.19": FigureLooks("5.19 latency of the pattern", NODES, "ms"),
    "5.20": FigureLooks("5.20 latency of joins", NODES, "ms"),
}


def draw_figures(
    results: pd.DataFrame, names: Sequence[str], *, printed: pd.DataFrame | None = None,
    columns: int = 2, title: str | None = None,
) -> go.Figure:  # fmt: skip
    """Draw some figures of the thesis as panels."""
    panels = []
    for name in names:
        if name not in FIGURES:
            raise CepError(f"draw_figures: no figure {name!r}.{nearest(name, FIGURES)} Figures: 5.1 to 5.20")
        looks = FIGURES[name]
        rows = results.loc[results["figure"] == name, ["series", "x", "value"]]
        if printed is not None:
            own = printed.loc[(printed["figure"] == name) & printed["x"].notna(), ["x", "value"]]
            if len(own):
                rows = pd.concat([rows, own.assign(series=PRINTED)], ignore_index=True)
        panels.append(
            SweepPanel(
                rows.assign(value=rows["value"].astype(float) * looks.factor), "x", "value", looks.title,
                looks.x_title, looks.y_title, log_x=looks.log_x, log_y=looks.log_y,
            )
        )  # fmt: skip
    return sweep_figure(
        panels, series="series", printed=PRINTED, columns=columns, measured=False, title=title
    )
