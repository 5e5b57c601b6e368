"""Figures 6 to 11 of the LinkedCEP paper, with a panel per stream and way of copying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.plots import theme
from cepkit.plots.sweeps import SweepPanel, sweep_figure
from papers.linked_cep.figures import SYSTEMS, paper_numbers

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW_PIXELS = 220
_PAPER = "printed in the paper"


def relative_times(results: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return the times of an experiment as shares of SASE's time, one row per point and system."""
    own = results[results["experiment"] == experiment]
    shares = own[list(SYSTEMS)].div(own["SASE"], axis=0).assign(panel=_panels(own), at=own["at"])
    return shares.melt(["panel", "at"], var_name="system", value_name="share")


def draw_groups(results: pd.DataFrame, figure: str) -> go.Figure:
    """Return figure 6 or 7: the matching time of each group of queries, as a share of SASE's."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    shares = relative_times(results, "groups")
    panels = shares["panel"].unique().tolist()
    n_columns = _n_columns(results, "groups")
    n_rows = -(-len(panels) // n_columns)
    drawn = make_subplots(
        rows=n_rows, cols=n_columns, subplot_titles=panels, shared_yaxes="all", figure=LeanFigure(),
        horizontal_spacing=0.04, vertical_spacing=0.36 / n_rows,
    )  # fmt: skip
    marks = paper_shares(figure)
    for number, panel in enumerate(panels):
        at = {"row": number // n_columns + 1, "col": number % n_columns + 1}
        for colour, system in zip(theme.PALETTE, SYSTEMS, strict=False):
            one = shares[(shares["panel"] == panel) & (shares["system"] == system)]
            drawn.add_trace(
                go.Bar(
                    x=one["at"].tolist(), y=one["share"].to_numpy(), name=system, legendgroup=system,
                    showlegend=number == 0, marker={"color": colour},
                    hovertemplate="<b>%{fullData.name}</b><br>%{x}: %{y:.3g} of SASE's time<extra></extra>",
                ),
                **at,
            )  # fmt: skip
        _add_marks(drawn, marks, at, in_legend=number == 0)
    drawn.update_yaxes(gridcolor=theme.GRID, zeroline=False, rangemode="tozero")
    drawn.update_yaxes(title={"text": "share of SASE's time"}, col=1)
    drawn.update_annotations(font={"size": 12, "color": theme.INK})
    return drawn.update_layout(
        barmode="group", title=theme.title_at_left([f"Figure {figure}"]),
        margin={"l": 60, "r": 20, "t": 90, "b": 60}, **theme.layout(150 + n_rows * _ROW_PIXELS),
    )  # fmt: skip


def draw_windows(results: pd.DataFrame, figure: str) -> go.Figure:
    """Return figure 8 or 9: the matching time by window, as a share of SASE's."""
    shares = relative_times(results, "windows")
    shares = shares.assign(at=shares["at"].astype(float))
    titles = {"x_title": "window, s", "y_title": "share of SASE's time"}
    drawn = _lines(shares, "share", figure, titles, columns=_n_columns(results, "windows"), same_y=True)
    marks = paper_shares(figure)
    n_columns = _n_columns(results, "windows")
    for number in range(shares["panel"].nunique()):
        at = {"row": number // n_columns + 1, "col": number % n_columns + 1}
        _add_marks(drawn, marks, at, in_legend=number == 0)
    return drawn


def draw_queries(results: pd.DataFrame, figure: str) -> go.Figure:
    """Return figure 10 or 11: the throughput by the number of queries that run together."""
    own = results[results["experiment"] == "queries"]
    rates = own[list(SYSTEMS)].assign(panel=_panels(own), at=own["at"].astype(float))
    long = rates.melt(["panel", "at"], var_name="system", value_name="rate")
    titles = {"x_title": "queries", "y_title": "events per s of CPU"}
    return _lines(long, "rate", figure, titles, columns=_n_columns(results, "queries"), log_y=True)


def paper_shares(figure: str) -> pd.DataFrame:
    """Return what the paper prints for a figure as shares of SASE's time: ``at``, ``system``, ``share``."""
    numbers = paper_numbers()
    own = numbers[numbers["figure"] == figure].set_index("system")["value"]
    if figure == "8":  # percentages of the time that LinkedCEP saves
        linked = 1 - own.iloc[0] / 100
        shares = {"Siddhi-like": linked / (1 - own.iloc[1] / 100), "LinkedCEP": linked}
        at: str | float = 200.0
    elif len(own):
        shares = {"Siddhi-like": own["Siddhi"] / own["SASE"], "LinkedCEP": own["LinkedCEP"] / own["SASE"]}
        at = "Q3" if figure == "6" else "Q2"
    else:
        shares, at = {}, ""
    return pd.DataFrame([(at, *pair) for pair in shares.items()], columns=["at", "system", "share"])


def _panels(results: pd.DataFrame) -> pd.Series:
    is_seed = results["data"].str.startswith("seed ")
    names = results["stream"].where(is_seed, results["stream"] + " of " + results["data"])
    return names + ", " + results["copying"]


def _n_columns(results: pd.DataFrame, experiment: str) -> int:
    """Return the number of ways of copying, so that each row of panels is a stream."""
    return results.loc[results["experiment"] == experiment, "copying"].nunique()


def _lines(
    rows: pd.DataFrame, y: str, figure: str, titles: dict, *, columns: int, log_y: bool = False,
    same_y: bool = False,
) -> go.Figure:  # fmt: skip
    panels = [
        SweepPanel(own, "at", y, str(panel), log_y=log_y, **titles)
        for panel, own in rows.groupby("panel", sort=False)
    ]
    return sweep_figure(
        panels, series="system", columns=columns, same_y=same_y, measured=True, title=f"Figure {figure}"
    )


def _add_marks(figure: go.Figure, marks: pd.DataFrame, at: dict, *, in_legend: bool) -> None:
    """Draw the numbers of the paper as open stars in the colours of the systems."""
    colours = dict(zip(SYSTEMS, theme.PALETTE, strict=False))
    for number, (place, system, share) in enumerate(marks.itertuples(index=False)):
        figure.add_scatter(
            x=[place], y=[share], mode="markers", name=_PAPER, legendgroup=_PAPER,
            showlegend=in_legend and number == 0,
            marker={
                "symbol": "star", "size": 11, "color": colours[system],
                "line": {"color": theme.INK, "width": 1.5},
            },
            hovertemplate=f"<b>paper, {system}</b><br>%{{y:.3g}} of SASE's time<extra></extra>",
            **at,
        )  # fmt: skip


def rows_of(results: pd.DataFrame, streams: Sequence[str]) -> pd.DataFrame:
    """Return the results of some streams, in the order of ``streams``."""
    return pd.concat([results[results["stream"] == stream] for stream in streams])
