"""Charts: sweeps as lines along a parameter, and funnels as bars of partial matches per step."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import CepError, column_not_found, whole_number
from cepkit.language.expressions.durations import count_text
from cepkit.plots import theme
from cepkit.plots.scene import DASHES
from cepkit.plots.theme import cut, escaped
from cepkit.plots.timeline_axes import nice_ticks
from cepkit.values import dataclass

if TYPE_CHECKING:
    import plotly.graph_objects as go


# Bars of the number of partial matches per step. Numbers of any size work: only logarithms are drawn.

LINEAR = 100  # greatest ratio of the largest to the smallest count on a linear axis
LARGEST_LINEAR = 10**12
BAR_PIXELS = 26
SHORTEST = 0.004  # share of a logarithmic axis that the bar of one partial match takes
_MOST_TICKS = 7
_TITLE_CHARACTERS = 80


def funnel_figure(
    title: str,
    branches: Sequence[Sequence[tuple[str, int, bool]]],
    names: Sequence[str] = (),
    counted: str = "partial matches",
) -> go.Figure:
    """Draw counts as bars from top to bottom, with one trace per branch."""
    from cepkit.plots.lean import LeanFigure

    branches = [_with_distinct_names(steps) for steps in branches]
    counts = [n for steps in branches for _, n, _ in steps]
    positive = [n for n in counts if n > 0]
    is_log = bool(positive) and max(positive) > min(LINEAR * min(positive), LARGEST_LINEAR)
    top = (math.log10(max(positive)) if is_log else max(positive, default=0)) or 1.0
    figure = LeanFigure()
    for b, steps in enumerate(branches):
        lengths = [n for _, n, _ in steps]
        if is_log:
            lengths = [max(math.log10(n), SHORTEST * top) if n else 0.0 for n in lengths]
        texts = [count_text(n, exact=exact) for _, n, exact in steps]
        if all(exact for _, _, exact in steps):
            shares = percents([n for _, n, _ in steps])
            texts = [
                f"{text} ({share})" if share else text for text, share in zip(texts, shares, strict=True)
            ]
        figure.add_bar(
            y=[name for name, _, _ in steps], x=lengths, text=texts,
            textposition="outside", textfont={"size": 11}, constraintext="none", cliponaxis=False,
            name=escaped(names[b]) if names else f"branch {b}", orientation="h",
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
        xaxis={"range": [0, 1.18 * top], **_ticks(top, is_log, counted), **line},
        yaxis={"autorange": "reversed", **_order(branches), "automargin": True, "showgrid": False, **line},
        showlegend=len(branches) > 1, bargap=0.25,
        margin={"l": 60, "r": 20, "t": 34 + 18 * len(lines), "b": 60}, **theme.layout(height),
    )  # fmt: skip
    return figure


def percents(counts: Sequence[int]) -> list[str]:
    """Return each count in percent of the first, or empty texts if a later count is greater."""
    is_falling = len(counts) > 0 and counts[0] > 0 and max(counts) == counts[0]
    return [f"{n / counts[0]:.1%}" if is_falling else "" for n in counts]


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


def _ticks(top: float, is_log: bool, counted: str) -> dict:
    """Return the axis of counts."""
    if not is_log:
        return {"title": {"text": counted}, "nticks": _MOST_TICKS, "tickformat": ",~d"}
    ticks = nice_ticks(0.0, max(1.1 * top, 1.0), _MOST_TICKS)
    exponents = [round(tick) for tick in ticks if tick == round(tick)]
    return {
        "title": {"text": f"{counted} (log)"}, "tickmode": "array", "tickvals": exponents,
        "ticktext": [f"{10**k:,}" if k < 5 else f"10<sup>{k}</sup>" for k in exponents],
    }  # fmt: skip


# Sweeps as lines: a value along a parameter, with one line per series and one panel per sweep.

PANEL_PIXELS = 230
MOST_POINT_TICKS = 8
PRINTED_COLOUR = theme.INK
TICK_DISTANCE = 0.07  # least distance as a share of the axis, so that numbers do not touch
# Ticks of each decade; the first entry that gives enough ticks is used.
LOG_STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
FEWEST_LOG_TICKS = 3


@dataclass(frozen=True, slots=True)
class SweepPanel:
    """A panel of a figure of sweeps."""

    rows: pd.DataFrame  # one row per point of a line
    # x, y: columns of numbers
    x: str
    y: str
    title: str = ""  # title above the panel, shown literally
    # x_title, y_title: titles of the axes, with units; None: the columns' names
    x_title: str | None = None
    y_title: str | None = None
    # log_x, log_y: whether an axis is logarithmic; it leaves out values of 0 and below
    log_x: bool = False
    log_y: bool = False
    reference: float | None = None  # value of y with a thin level line, such as 1 for a speed-up
    # Whether points of equal x in a line have an error bar: their standard deviation, up and down.
    spread: bool = False


def facets(rows: pd.DataFrame, by: str, x: str, y: str, **settings: object) -> list[SweepPanel]:
    """Return one panel per value of a column, in the order of their first occurrence."""
    if by not in rows.columns:
        raise column_not_found("facets", by, rows.columns)
    title = settings.pop("title", "")
    return [
        SweepPanel(rows[(rows[by] == value).to_numpy(bool)], x, y, f"{value} {title}".strip(), **settings)
        for value in dict.fromkeys(rows[by].dropna().tolist())
    ]


def sweep_figure(
    panels: SweepPanel | Sequence[SweepPanel], *, series: str | None = None, variant: str | None = None,
    printed: str | None = None, columns: int = 3, same_y: bool = False, measured: bool | None = None,
    title: str | None = None,
) -> go.Figure:  # fmt: skip
    """Draw sweeps as lines, with the panels in rows from left to right."""
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    panels = [panels] if isinstance(panels, SweepPanel) else list(panels)
    for panel in panels:
        _check(panel, series, variant)
    n_columns = max(1, min(whole_number("sweep_figure: columns", columns, 1), len(panels)))
    n_rows = max(1, math.ceil(len(panels) / n_columns))
    cells = range(n_rows * n_columns)
    specs = [{} if number < len(panels) or number == 0 else None for number in cells]  # None: no axes there
    figure = make_subplots(
        rows=n_rows, cols=n_columns, specs=[specs[start : start + n_columns] for start in cells[::n_columns]],
        shared_yaxes="all" if same_y else False,
        horizontal_spacing=0.24 / n_columns if n_columns > 1 else 0.0,
        vertical_spacing=0.36 / n_rows if n_rows > 1 else 0.0,
        subplot_titles=[escaped(panel.title) for panel in panels], figure=LeanFigure(),
    )  # fmt: skip
    styles = _styles(panels, series, variant, printed)
    in_legend: set[tuple] = set()
    for number, panel in enumerate(panels):
        at = {"row": number // n_columns + 1, "col": number % n_columns + 1}
        lines = {pair: _line(panel, series, variant, pair) for pair in styles}
        if all(line.empty for line in lines.values()):  # without a trace plotly draws no axes
            figure.add_scatter(x=[None], y=[None], mode="lines", showlegend=False, hoverinfo="skip", **at)
        for group, (pair, style) in enumerate(styles.items()):
            line = lines[pair]
            if line.empty:
                continue
            figure.add_scatter(
                x=line.index.to_numpy(), y=line.to_numpy(), mode="lines+markers", name=_name(pair),
                legendgroup=f"{group}", showlegend=pair not in in_legend,
                # Equal texts of all lines with the same y become one text of the template.
                hovertemplate="<b>%{fullData.name}</b><br>%{xaxis.title.text} %{x:,.6~g}<br>"
                f"{escaped(panel.y_title or panel.y)} %{{y:,.4~g}}<extra></extra>",
                **style,
                **at,
            )  # fmt: skip
            in_legend.add(pair)
            if panel.spread:
                bars = _error_bars(_by_x(panel, series, variant, pair).std(), line, is_log=panel.log_y)
                figure.add_scatter(
                    x=bars.index.to_numpy(), y=bars.to_numpy(), mode="lines", hoverinfo="skip",
                    legendgroup=f"{group}", showlegend=False,
                    line={"color": style["line"]["color"], "width": 1}, **at,
                )  # fmt: skip
        _lay_out_panel(figure, panel, at)
        if at["col"] > 1 and _title_of_y(panel) == _title_of_y(panels[number - 1]):
            figure.update_yaxes(title=None, **at)  # once per row of panels
    if not any(len(panel.rows) for panel in panels):
        figure.add_annotation(text="no points", showarrow=False, x=0.02, y=0.95, xref="paper", yref="paper")
    _lay_out(figure, n_rows, title, measured)
    return figure


def _check(panel: SweepPanel, series: str | None, variant: str | None) -> None:
    """Raise if a panel names a column that does not exist or has no numbers."""
    for role, name in (("x", panel.x), ("y", panel.y), ("series", series), ("variant", variant)):
        if name is not None and name not in panel.rows.columns:
            raise column_not_found(f"sweep_figure: {role}", name, panel.rows.columns)
    for role, name in (("x", panel.x), ("y", panel.y)):
        if not pd.api.types.is_numeric_dtype(panel.rows[name]) and len(panel.rows):
            raise CepError(
                f"sweep_figure: {role} column {name!r} has type {panel.rows[name].dtype}; numbers are needed"
            )


def _values(panels: Sequence[SweepPanel], column: str | None) -> list[object]:
    if column is None:
        return [None]
    return list(dict.fromkeys(value for panel in panels for value in panel.rows[column].tolist()))


def _styles(
    panels: Sequence[SweepPanel], series: str | None, variant: str | None, printed: str | None
) -> dict[tuple, dict]:
    """Return colour, symbol and dashes of every line, in the order of the legend."""
    styles = {}
    of_series = theme.style_of_variables([f"{s}" for s in range(len(_values(panels, series)))])
    in_order = sorted(_values(panels, series), key=lambda value: printed is not None and value == printed)
    numbered = [list(enumerate(values)) for values in (in_order, _values(panels, variant))]
    for (s, series_value), (v, variant_value) in product(*numbered):
        is_printed = printed is not None and series_value == printed
        style = theme.Style(PRINTED_COLOUR, "x") if is_printed else of_series[f"{s}"]
        styles[series_value, variant_value] = {
            "line": {"color": style.colour, "width": 1.8, "dash": DASHES[v % len(DASHES)]},
            "marker": {"color": style.colour, "symbol": style.symbol + ("-open" if v % 2 else ""), "size": 7},
        }
    return styles


def _line(panel: SweepPanel, series: str | None, variant: str | None, pair: tuple) -> pd.Series:
    """Return the points of a line: y by x, in order."""
    line = _by_x(panel, series, variant, pair).mean()
    if panel.log_y:
        line = line.where(line > 0)
    return line[line.index > 0] if panel.log_x else line


def _by_x(panel: SweepPanel, series: str | None, variant: str | None, pair: tuple):
    """Return the values y of a line, grouped by x."""
    rows = panel.rows
    for column, value in zip((series, variant), pair, strict=True):
        if column is not None:
            rows = rows[(rows[column] == value).to_numpy(bool)]
    points = pd.DataFrame({"x": rows[panel.x].astype(float), "y": rows[panel.y].astype(float)})
    return points.groupby("x")["y"]


def _error_bars(deviation: pd.Series, line: pd.Series, *, is_log: bool) -> pd.Series:
    """Return error bars as one line with gaps: one standard deviation down and up from each point."""
    # On a logarithmic axis, a bar that would reach 0 ends at a twentieth of its point.
    points = line.dropna()
    wide = deviation.reindex(points.index).fillna(0.0).to_numpy()
    middle = points.to_numpy()
    low = middle - (np.minimum(wide, 0.95 * middle) if is_log else wide)
    ends = np.column_stack([low, middle + wide, np.full(len(points), np.nan)])
    return pd.Series(ends.ravel(), index=np.repeat(points.index.to_numpy(), 3))


def _name(pair: tuple) -> str:
    return escaped(cut(", ".join(str(part) for part in pair if part is not None)))


def _lay_out_panel(figure: go.Figure, panel: SweepPanel, at: dict) -> None:
    """Set the axes of a panel."""
    line = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
    x, y = (panel.rows[column].to_numpy(float) for column in (panel.x, panel.y))
    y_and_level = np.append(y, panel.reference) if panel.reference is not None else y
    scale_of_x = {"type": "log" if panel.log_x else "linear"} | _make_point_ticks(x, is_log=panel.log_x)
    if "tickvals" not in scale_of_x and panel.log_x:
        scale_of_x = _log_axis(x)
    scale_of_y = _log_axis(y_and_level) if panel.log_y else {"tickformat": ",~r"}
    x_title = {"text": escaped(panel.x_title or panel.x), "standoff": 8}
    figure.update_xaxes(title=x_title, automargin=True, **scale_of_x, **line, **at)
    figure.update_yaxes(title={"text": _title_of_y(panel)}, automargin=True, **scale_of_y, **line, **at)
    if not panel.log_y:
        figure.update_yaxes(rangemode="tozero", **at)
    if panel.reference is not None:
        figure.add_hline(y=panel.reference, line={"color": theme.INK, "width": 1, "dash": "dot"}, **at)


def _title_of_y(panel: SweepPanel) -> str:
    return escaped(panel.y_title or panel.y)


def _make_point_ticks(values: np.ndarray, *, is_log: bool) -> dict:
    """Return a tick for each value, or nothing when there is no room for all of them."""
    points = np.unique(values[np.isfinite(values) & ((values > 0) | (not is_log))])
    places = np.log(points) if is_log else points
    if not 2 <= len(points) <= MOST_POINT_TICKS or np.diff(places).min() < TICK_DISTANCE * np.ptp(places):
        return {}
    texts = [f"{point:,.6g}" for point in points]
    return {"tickmode": "array", "tickvals": points.tolist(), "ticktext": texts}


def _log_axis(values: np.ndarray) -> dict:
    """Return a logarithmic axis, with whole numbers as ticks where possible."""
    positive = values[values > 0]
    if not len(positive):
        return {"type": "log"}
    low, high = math.floor(np.log10(positive.min())), math.ceil(np.log10(positive.max()))
    every = max(1, round((high - low) / 6))
    for steps in LOG_STEPS[0 if high - low > 2 else 1 :]:
        ticks = [step * 10.0**k for k in range(low, high + 1, every) for step in steps]
        if sum(positive.min() <= tick <= positive.max() for tick in ticks) >= FEWEST_LOG_TICKS:
            break
    least_k = 1e3 if positive.max() >= 1e4 else 1e4
    texts = [_short_text(tick, least_k) for tick in ticks]
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": texts}


def _short_text(tick: float, least_k: float) -> str:
    """Return a number as the text of a tick, 100k for 100,000, so that it does not touch the next panel."""
    if 1e-4 < tick < 1e9:
        size, unit = (1e6, "M") if tick >= 1e6 else (1e3, "k") if tick >= least_k else (1, "")
        return f"{tick / size:,.12g}{unit}"
    exponent = math.floor(math.log10(tick) + 1e-9)
    factor = f"{tick / 10.0**exponent:.3g}"
    return f"{'' if factor == '1' else f'{factor}·'}10<sup>{exponent}</sup>"


def _lay_out(figure: go.Figure, n_rows: int, title: str | None, measured: bool | None) -> None:
    """Set title, legend and size of a figure of panels."""
    clock = {None: [], True: ["measured"], False: ["simulated"]}[measured]
    lines = [escaped(title), *clock] if title else clock or [""]
    has_titles = any(annotation.text for annotation in figure.layout.annotations)
    top, bottom = 34 + 18 * len(lines) + 22 * has_titles, 60
    figure.update_annotations(font={"size": 12, "color": theme.INK})
    figure.update_layout(
        title=theme.title_at_left(lines),
        hovermode="closest",
        showlegend=len({trace.legendgroup for trace in figure.data if trace.name}) > 0,
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + bottom + n_rows * PANEL_PIXELS + (n_rows - 1) * 80),
    )
