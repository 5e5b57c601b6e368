"""Figures of "Partition and Compose" from kept tables: generated data above, recorded data below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.plots.theme import GRID, INK, PALETTE, PAPER, SYMBOLS
from papers.match_regex.benchmarks import RECORDED

if TYPE_CHECKING:
    import plotly.graph_objects as go

_AXIS = {"gridcolor": GRID, "linecolor": INK, "zeroline": False, "ticks": "outside", "tickcolor": GRID}
_ROW_PIXELS = 330


def points_figure(
    results: pd.DataFrame, value: str, paper: Mapping[str, float], *, title: str, y_title: str
) -> go.Figure:
    """Draw a value of each benchmark: a mark for each data set, and a star for the paper."""
    place = {name: i for i, name in enumerate(paper)}
    rows = _rows_of(results)
    figure = _empty(list(rows), title)
    for row, own in enumerate(rows.values(), start=1):
        shown = own[(own[value] > 0) & own["benchmark"].isin(place)]
        marks = {"symbol": "circle-open", "size": 8, "color": PALETTE[0]}
        x = shown["benchmark"].map(place).tolist()
        named = {"mode": "markers", "showlegend": row == 1}
        figure.add_scatter(x=x, y=shown[value].tolist(), marker=marks, name="cepkit", row=row, col=1, **named)
        stars = {"symbol": "star", "size": 12, "color": PALETTE[4]}
        figure.add_scatter(
            x=list(place.values()),
            y=list(paper.values()),
            marker=stars,
            name="paper",
            row=row,
            col=1,
            **named,
        )
        figure.update_xaxes(
            **_AXIS, tickvals=list(place.values()), ticktext=list(place), row=row, col=1,
            range=[-0.5, len(place) - 0.5],
        )  # fmt: skip
        figure.update_yaxes(**_AXIS, type="log", dtick=1, title=y_title, row=row, col=1)
    return figure


def speedups_figure(scaling: pd.DataFrame, printed: pd.DataFrame, *, title: str, most: int = 32) -> go.Figure:
    """Draw the speed-ups of each benchmark by the number of replicas, the median of all seeds."""
    rows = _rows_of(scaling[scaling["width"] <= most])
    names = list(dict.fromkeys(scaling["benchmark"]))
    figure = _empty(list(rows), title)
    for row, own in enumerate(rows.values(), start=1):
        medians = own.groupby(["benchmark", "width"])["speedup"].median().unstack()
        for i, name in enumerate(names):
            line = medians.loc[name]
            style = {
                "marker_symbol": SYMBOLS[i % len(SYMBOLS)], "name": name, "legendgroup": name,
                "line": {"color": PALETTE[i % 7], "dash": "solid" if i < 7 else "dash"},
            }  # fmt: skip
            figure.add_scatter(
                x=line.index.tolist(), y=line.tolist(), mode="lines+markers", showlegend=row == 1, row=row,
                col=1, **style,
            )  # fmt: skip
            stars = printed[printed["benchmark"] == name]
            if len(stars):
                marker = {"symbol": "star", "size": 13, "color": PALETTE[i % 7]}
                figure.add_scatter(
                    x=stars["width"].tolist(), y=stars["speedup"].tolist(), mode="markers+text",
                    marker=marker,
                    text=[f"{name} {gain:g}" for gain in stars["speedup"]], textposition="middle left",
                    textfont_size=10, name=f"{name}, paper", showlegend=False, row=row, col=1,
                )  # fmt: skip
        ticks = sorted(set(scaling["width"][scaling["width"] <= most]))
        figure.update_xaxes(**_AXIS, type="log", tickvals=ticks, row=row, col=1, title="replicas")
        figure.update_yaxes(
            **_AXIS, type="log", tickvals=[0.5, 1, 2, 4, 8, 16, 32], row=row, col=1, title="speed-up"
        )
    return figure


def _rows_of(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    is_recorded = results["data"] == RECORDED
    n_seeds = results.loc[~is_recorded, "data"].nunique()
    rows = {f"generated data, {n_seeds} seeds": results[~is_recorded]}
    return rows | ({"recorded data": results[is_recorded]} if is_recorded.any() else {})


def _empty(titles: Sequence[str], title: str) -> go.Figure:
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    figure = LeanFigure(make_subplots(rows=len(titles), cols=1, subplot_titles=titles, vertical_spacing=0.16))
    return figure.update_layout(
        template="none", paper_bgcolor=PAPER, plot_bgcolor=PAPER, font_color=INK,
        title=title, height=_ROW_PIXELS * len(titles) + 60, margin={"l": 70, "r": 20, "t": 80, "b": 50},
        hoverlabel_font_family="monospace",
    )  # fmt: skip
