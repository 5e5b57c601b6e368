"""Matches one below the other: each is a line through its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.plots import theme
from cepkit.plots.text import escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_MATCHES = 30
MOST_LETTERS = 120  # of the labels under the events
_ROW_PIXELS = 17
_PANEL_PIXELS = 68


def match_rows(
    labels: list[str],
    lineages: Mapping[str, pd.DataFrame],
    *,
    totals: Mapping[str, int] | None = None,
    title: str | None = None,
) -> go.Figure:
    """Draw the matches of several queries over one short stream, a panel per query."""
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    variables = list(dict.fromkeys(name for rows in lineages.values() for name in rows["variable"]))
    styles = theme.style_of_variables(sorted(variables))
    shown = {
        name: rows[rows["match"].isin(rows["match"].unique()[:MAX_MATCHES])]
        for name, rows in lineages.items()
    }
    n_rows = [max(1, rows["match"].nunique()) for rows in shown.values()]
    if totals is None:
        totals = {name: rows["match"].nunique() for name, rows in lineages.items()}
    names = [_panel_name(name, totals[name], rows["match"].nunique()) for name, rows in shown.items()]
    pixels = _ROW_PIXELS * sum(n_rows) + _PANEL_PIXELS * len(n_rows)
    figure = make_subplots(
        rows=len(n_rows), cols=1, shared_xaxes=True, row_heights=n_rows, subplot_titles=names,
        vertical_spacing=min(48 / max(pixels, 1), 0.9 / max(1, len(n_rows) - 1)),
        figure=LeanFigure(),
    )  # fmt: skip
    in_legend: set[str] = set()
    for panel, rows in enumerate(shown.values(), start=1):
        lane = {number: lane for lane, number in enumerate(rows["match"].unique(), start=1)}
        lines_x, lines_y = [], []
        for number, events in rows.groupby("match", sort=False):
            lines_x += [*events["position"], None]
            lines_y += [lane[number]] * len(events) + [None]
        line = {"color": theme.INK, "width": 1}
        at = {"row": panel, "col": 1}
        figure.add_scatter(
            x=lines_x, y=lines_y, mode="lines", line=line, hoverinfo="skip", showlegend=False, **at
        )
        for variable, events in rows.groupby("variable", sort=True):
            style = styles[variable]
            figure.add_scatter(
                x=list(events["position"]), y=[lane[number] for number in events["match"]], mode="markers",
                name=escaped(variable), legendgroup=variable, showlegend=variable not in in_legend,
                marker={"color": style.colour, "symbol": style.symbol, "size": 9},
                text=[escaped(labels[p]) for p in events["position"]],
                customdata=[int(number) for number in events["match"]],
                hovertemplate="match %{customdata}: %{text}<extra>" + escaped(variable) + "</extra>", **at,
            )  # fmt: skip
            in_legend.add(variable)
        lanes = {"range": [n_rows[panel - 1] + 0.7, 0.3], "showticklabels": False, "showgrid": False}
        figure.update_yaxes(zeroline=False, **lanes, **at)
    letters = max(map(len, labels), default=0) + 1
    every = 1 + len(labels) * letters // MOST_LETTERS
    figure.update_xaxes(
        tickvals=list(range(0, len(labels), every)), ticktext=[escaped(one) for one in labels[::every]],
        range=[-0.5, len(labels) - 0.5], gridcolor=theme.GRID, zeroline=False, showticklabels=True,
    )  # fmt: skip
    figure.update_layout(
        height=pixels + 90,
        margin={"l": 20, "r": 20, "t": 70, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": theme.INK},
        legend={"orientation": "h", "y": 1 + 40 / (pixels + 90), "x": 1, "xanchor": "right"},
        title=None if title is None else {"text": escaped(title), "x": 0.01},
    )
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    return figure


def _panel_name(name: str, n: int, n_shown: int) -> str:
    count = "no match" if n == 0 else "1 match" if n == 1 else f"{n:,} matches"
    more = f", the first {n_shown} shown" if n > n_shown else ""
    return f"<b>{escaped(name)}</b>: {count}{more}"
