"""Figures 6 to 11 of the LinkedCEP paper: a panel per stream, means over seeds with standard deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from cepkit.plots import theme
from cepkit.plots.charts import SweepPanel, sweep_figure
from papers.linked_cep.claims import ABC, ARRAYS, GROUPS, MAPS, OBJECTS, QUERIES, TRAFFIC, WINDOWS, priced
from papers.linked_cep.figures import IN_METHOD, SYSTEMS, paper_numbers

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PAPER = "printed in the paper"


def shares(results: pd.DataFrame, experiment: str, price: float = OBJECTS) -> pd.DataFrame:
    """Return times as shares of SASE's, or rates as multiples of SASE's: a row per data, point and system."""
    rows = priced(results, price)
    rows = rows[rows["experiment"] == experiment]
    systems = rows[list(SYSTEMS)].div(rows["SASE"], axis=0)
    named = systems.assign(stream=rows["stream"], at=rows["at"], data=rows["data"])
    return named.melt(["stream", "at", "data"], var_name="system", value_name="share")


def draw_groups(
    results: pd.DataFrame, groups: tuple[str, ...] = IN_METHOD, price: float = OBJECTS
) -> go.Figure:
    """Return figures 6 and 7: bars of the matching time of groups of queries, as a share of SASE's."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    rows = shares(results, GROUPS, price)
    panels = {"6": ABC, "7": TRAFFIC}
    titles = [f"{figure}: {stream}" for figure, stream in panels.items()]
    drawn = make_subplots(cols=2, subplot_titles=titles, shared_yaxes="all", figure=LeanFigure())
    for column, (figure, stream) in enumerate(panels.items(), start=1):
        for colour, system in zip(theme.PALETTE, SYSTEMS, strict=False):
            own = rows[(rows["stream"] == stream) & (rows["system"] == system) & rows["at"].isin(groups)]
            by_group = own.groupby("at")["share"]
            drawn.add_trace(
                go.Bar(
                    x=list(groups), y=by_group.mean().to_numpy(), name=system, legendgroup=system,
                    error_y={"array": by_group.std().to_numpy(), "thickness": 1}, showlegend=column == 1,
                    marker={"color": colour},
                    hovertemplate="<b>%{fullData.name}</b><br>%{x}: %{y:.3g} of SASE's time<extra></extra>",
                ),
                row=1, col=column,
            )  # fmt: skip
        _add_marks(drawn, paper_shares(figure), groups, column)
    drawn.update_yaxes(gridcolor=theme.GRID, zeroline=False, rangemode="tozero")
    drawn.update_yaxes(title={"text": "share of SASE's time"}, col=1)
    drawn.update_annotations(font={"size": 12, "color": theme.INK})
    return drawn.update_layout(
        barmode="group", title=theme.title_at_left([f"Figures 6 and 7, {price:.0f} ns for a copied event"]),
        margin={"l": 60, "r": 20, "t": 90, "b": 60}, **theme.layout(360),
    )  # fmt: skip


def draw_windows(results: pd.DataFrame) -> go.Figure:
    """Return figures 8 and 9: the matching time by window, as a share of SASE's."""
    titles = {"x_title": "window, s", "y_title": "share of SASE's time"}
    return _lines(shares(results, WINDOWS), {"8": ABC, "9": TRAFFIC}, titles, "Figures 8 and 9")


def draw_queries(results: pd.DataFrame) -> go.Figure:
    """Return figures 10 and 11: the throughput by the number of queries, as a multiple of SASE's."""
    titles = {"x_title": "queries", "y_title": "multiple of SASE's throughput"}
    return _lines(shares(results, QUERIES), {"10": ABC, "11": TRAFFIC}, titles, "Figures 10 and 11")


def draw_prices(results: pd.DataFrame) -> go.Figure:
    """Return LinkedCEP's time as a share of the others' by the price of a copied event, in Q1 and Q2."""
    rows = []
    for price in (0.0, ARRAYS, 20.0, OBJECTS, 83.0, 180.0, MAPS):
        points = priced(results, price)
        points = points[(points["experiment"] == GROUPS) & points["at"].isin(IN_METHOD)]
        rows += [
            points.assign(at=price, system=f"of {other}'s time", share=points["LinkedCEP"] / points[other])
            for other in ("SASE", "Siddhi-like")
        ]
    titles = {"x_title": "price of a copied event, ns", "y_title": "LinkedCEP's share", "reference": 1.0}
    return _lines(pd.concat(rows), {"": ABC, " ": TRAFFIC}, titles, "What a copy costs decides")


def paper_shares(figure: str) -> pd.DataFrame:
    """Return what the paper prints for figure 6 or 7 as shares of SASE's time: ``system`` and ``share``."""
    numbers = paper_numbers()
    printed = numbers[numbers["figure"] == figure].set_index("system")["value"]
    shares_of_sase = {"Siddhi-like": printed["Siddhi"], "LinkedCEP": printed["LinkedCEP"]}
    return pd.DataFrame(
        [(system, value / printed["SASE"]) for system, value in shares_of_sase.items()],
        columns=["system", "share"],
    )


def _lines(rows: pd.DataFrame, panels: dict[str, str], titles: dict, title: str) -> go.Figure:
    sweeps = []
    for figure, stream in panels.items():
        own = rows[rows["stream"] == stream]
        own = own.assign(at=own["at"].astype(float))
        sweeps.append(
            SweepPanel(own, "at", "share", f"{figure.strip()} {stream}".strip(), spread=True, **titles)
        )
    return sweep_figure(sweeps, series="system", columns=2, same_y=True, measured=True, title=title)


def _add_marks(figure: go.Figure, marks: pd.DataFrame, groups: tuple[str, ...], column: int) -> None:
    """Draw the numbers of the paper as lines across a panel; its groups are not defined."""
    colours = dict(zip(SYSTEMS, theme.PALETTE, strict=False))
    for number, (system, share) in enumerate(marks.itertuples(index=False)):
        figure.add_scatter(
            x=list(groups), y=[share] * len(groups), mode="markers", name=_PAPER, legendgroup=_PAPER,
            showlegend=column == 1 and number == 0,
            marker={
                "symbol": "star", "size": 11, "color": colours[system],
                "line": {"color": theme.INK, "width": 1.5},
            },
            hovertemplate=f"<b>paper, {system}</b><br>%{{y:.3g}} of SASE's time<extra></extra>",
            row=1, col=column,
        )  # fmt: skip
