"""Plot utilities for load shedding: of event types by position in the window, of partial matches by state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, column_not_found
from cepkit.plots import drawing, theme
from cepkit.plots.theme import cut, escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

KEYS = ("state", "event_type")
POSITION_BINS = 96
UTILITY_BINS = 40
MOST_ROWS = 60
ONE_COLUMN = "all positions"
HUE, DROP_HUE = "#0072b2", "#d55e00"
_LEFT, _WIDTH, _HISTOGRAM = 150, 900, 150


class Utilities(NamedTuple):
    """A table of utilities, and the number of events or partial matches with each utility.

    A row is a state, an event type, or both. ``edges`` bound the bins of positions. A table without positions
    has one bin.

    """

    rows: tuple[dict, ...]  # label, and state and event_type if the table has them
    edges: np.ndarray  # float64, (n_bins + 1,)
    has_position: bool
    mean: np.ndarray  # float64, (n_rows, n_bins): weighted by n; NaN: no cell of the frame
    n: np.ndarray  # float64, (n_rows, n_bins): events or partial matches
    utility_edges: np.ndarray  # float64, (UTILITY_BINS + 1,)
    n_of_utility: np.ndarray  # float64, (n_rows, UTILITY_BINS)
    n_rows_left_out: int
    n_left_out: float  # events or partial matches in the rows that are left out
    n_dropped: np.ndarray  # float64, (n_rows, UTILITY_BINS): those of `n_of_utility` that were dropped

    @property
    def n_total(self) -> float:
        """Number of events or partial matches in all rows."""
        return float(self.n.sum())


def utilities(frame: pd.DataFrame) -> Utilities:
    """Return a frame of utilities as a table for plots, with positions in bins.

    Source: these papers define such tables. eSPICE: UT(T, P), with ``event_type, position``. hSPICE:
    UT(T, P, s), with all three columns. pSPICE: the utility of a partial match by the rest of its window,
    with ``state, position``.
    """
    if not isinstance(frame, pd.DataFrame):
        raise CepError(
            f"utilities: got {type(frame).__name__}. Give a pandas DataFrame with the columns {_CONTRACT}"
        )
    if "utility" not in frame.columns:
        raise column_not_found("utilities", "utility", frame.columns)
    keys = [name for name in KEYS if name in frame.columns]
    if not keys:
        raise column_not_found("utilities", "event_type", frame.columns)
    utility = _numbers(frame, "utility", least=0.0)
    n = _numbers(frame, "n", least=0.0) if "n" in frame.columns else np.ones(len(frame))
    dropped = _numbers(frame, "dropped", least=0.0) if "dropped" in frame.columns else np.zeros(len(frame))
    if (dropped > n).any():
        r = int((dropped > n).argmax())
        raise CepError(f"utilities: dropped in row {r} is {dropped[r]:g}, more than n, {n[r]:g}")
    has_position = "position" in frame.columns
    position = _numbers(frame, "position") if has_position else np.zeros(len(frame))
    for name in keys:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise CepError(f"utilities: {name} in row {missing.argmax()} is missing. Every row needs a value")
    row, rows = _rows(frame, keys)
    weight = np.bincount(row, n, minlength=len(rows))
    kept = np.sort(np.argsort(-weight, kind="stable")[:MOST_ROWS])
    place = np.full(len(rows), -1)
    place[kept] = np.arange(len(kept))
    inside = place[row] >= 0
    left_out = float(n[~inside].sum())
    row, utility, n, position = place[row[inside]], utility[inside], n[inside], position[inside]
    dropped = dropped[inside]
    edges = _position_edges(position) if has_position else np.array([0.0, 1.0])
    n_bins = len(edges) - 1
    number = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, n_bins - 1)
    cell = row * n_bins + number
    shape, size = (len(kept), n_bins), len(kept) * n_bins
    total = np.bincount(cell, n, minlength=size).reshape(shape)
    # A cell with n = 0 still has a utility. Its rows then have equal weights.
    alone = np.bincount(cell, minlength=size).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.bincount(cell, n * utility, minlength=size).reshape(shape) / total
        plain = np.bincount(cell, utility, minlength=size).reshape(shape) / alone
    most = float(utility.max(initial=0.0)) or 1.0
    utility_edges = np.linspace(0.0, most, UTILITY_BINS + 1)
    of_bin = np.clip(np.searchsorted(utility_edges, utility, side="right") - 1, 0, UTILITY_BINS - 1)
    counted, lost = (
        np.bincount(row * UTILITY_BINS + of_bin, weights, minlength=len(kept) * UTILITY_BINS)
        for weights in (n, dropped)
    )
    return Utilities(
        tuple(rows[r] for r in kept), edges, has_position, np.where(total > 0, weighted, plain), total,
        utility_edges, counted.reshape(len(kept), UTILITY_BINS), len(rows) - len(kept), left_out,
        lost.reshape(len(kept), UTILITY_BINS),
    )  # fmt: skip


_CONTRACT = ["utility", "event_type or state", "position (optional)", "n (optional)", "dropped (optional)"]


def _numbers(frame: pd.DataFrame, name: str, least: float | None = None) -> np.ndarray:
    try:
        values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise CepError(
            f"utilities: column {name} has type {frame[name].dtype}, not numbers. The columns are {_CONTRACT}"
        ) from None
    wrong = ~np.isfinite(values) | ((values < least) if least is not None else False)
    if wrong.any():
        r = int(wrong.argmax())
        wanted = "a finite number" + (f" of at least {least:g}" if least is not None else "")
        raise CepError(f"utilities: {name} in row {r} is {values[r]}. It must be {wanted}")
    return values


def _rows(frame: pd.DataFrame, keys: list[str]) -> tuple[np.ndarray, list[dict]]:
    """Return the row number of every cell, and the label and keys of every row."""
    codes, names = [], []
    for name in keys:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            codes.append(frame[name].cat.codes.to_numpy(np.int64))
            names.append([str(value) for value in frame[name].cat.categories])
        else:
            code, values = pd.factorize(frame[name], sort=pd.api.types.is_numeric_dtype(frame[name]))
            codes.append(code.astype(np.int64))
            names.append([str(value) for value in values])
    whole = codes[0] if len(keys) == 1 else codes[0] * len(names[1]) + codes[1]
    used, row = np.unique(whole, return_inverse=True)
    labels = []
    for code in used.tolist():
        key_codes = divmod(code, len(names[1])) if len(keys) == 2 else (code,)
        words = [names[k][c] for k, c in enumerate(key_codes)]
        labels.append({"label": " · ".join(words), **dict(zip(keys, words, strict=True))})
    return row.astype(np.int64), labels


def _position_edges(position: np.ndarray) -> np.ndarray:
    """Return the edges of the bins: a bin per position if positions are few and evenly spaced."""
    distinct = np.unique(position)
    if not len(distinct):
        return np.array([0.0, 1.0])
    steps = np.diff(distinct)
    width = float(steps.min(initial=np.inf)) if len(steps) else 1.0
    n = round((distinct[-1] - distinct[0]) / width) + 1
    if n <= POSITION_BINS and np.allclose(steps % width, 0) | np.allclose(steps % width, width):
        return distinct[0] + width * np.arange(n + 1)
    return np.linspace(distinct[0], np.nextafter(distinct[-1], np.inf), POSITION_BINS + 1)


def share_up_to(made: Utilities, threshold: float) -> float:
    """Return the share of events or partial matches with a utility up to a threshold.

    The bin that contains the threshold counts in proportion to its part below the threshold.

    """
    n = made.n_of_utility.sum(axis=0)
    low, high = made.utility_edges[:-1], made.utility_edges[1:]
    part = np.clip((threshold - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
    return float((n * part).sum() / n.sum()) if n.sum() else 0.0


def utility_figure(made: Utilities, *, threshold: float | None = None, title: str | None = None) -> go.Figure:
    """Draw the mean utility by row and position, and below it a histogram of the utilities."""
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    heights = [max(90, 24 * len(made.rows)), 190]
    figure = make_subplots(
        rows=2, cols=1, row_heights=heights, vertical_spacing=90 / (sum(heights) + 90), figure=LeanFigure()
    )
    labels = [escaped(cut(row["label"])) for row in made.rows]
    middles = (made.edges[:-1] + made.edges[1:]) / 2
    figure.add_heatmap(
        x=middles,
        y=labels,
        z=made.mean,
        customdata=np.stack([made.n, np.broadcast_to(made.edges[:-1], made.n.shape)], axis=-1),
        zmin=0.0,
        zmax=float(made.utility_edges[-1]),
        colorscale="Cividis",
        colorbar={"title": {"text": "utility"}, "len": heights[0] / sum(heights), "y": 1, "yanchor": "top"},
        hovertemplate="<b>%{y}</b>, position from %{customdata[1]:.6~g}<br>utility %{z:.4~g}, "
        "%{customdata[0]:,.6~g} seen<extra></extra>",
        row=1,
        col=1,
    )
    widths = np.diff(made.utility_edges)
    for r, label in enumerate(labels):
        figure.add_bar(
            x=(made.utility_edges[:-1] + made.utility_edges[1:]) / 2,
            y=made.n_of_utility[r],
            width=widths,
            name=label,
            marker={
                "color": theme.PALETTE[r % len(theme.PALETTE)],
                "pattern": {"shape": ("", "/", "x", ".", "-", "|", "+", "\\")[r % 8]},
            },
            hovertemplate=f"<b>{label}</b>, utility about %{{x:.4~g}}: %{{y:,.6~g}}<extra></extra>",
            row=2,
            col=1,
        )
    if made.n_dropped.any():
        figure.add_scatter(
            x=(made.utility_edges[:-1] + made.utility_edges[1:]) / 2, y=made.n_dropped.sum(axis=0),
            name="dropped", mode="lines+markers", marker={"color": DROP_HUE, "symbol": "x"},
            line={"color": DROP_HUE, "width": 1.5},
            hovertemplate="utility about %{x:.4~g}: %{y:,.6~g} dropped<extra></extra>", row=2, col=1,
        )  # fmt: skip
    if threshold is not None:
        share = share_up_to(made, threshold)
        figure.add_vline(
            x=threshold, line={"color": theme.INK, "dash": "dash"}, row=2, col=1,
            annotation={"text": f"{100 * share:.3g} % up to {threshold:.4g}"},
        )  # fmt: skip
    line = {"gridcolor": theme.GRID, "zeroline": False}
    word = "position in the window" if made.has_position else ONE_COLUMN
    figure.update_xaxes(title={"text": word}, showticklabels=made.has_position, row=1, col=1, **line)
    figure.update_xaxes(title={"text": "utility"}, row=2, col=1, **line)
    figure.update_yaxes(autorange="reversed", type="category", automargin=True, row=1, col=1)
    figure.update_yaxes(title={"text": "seen"}, rangemode="tozero", automargin=True, row=2, col=1, **line)
    figure.update_layout(
        title=theme.title_at_left([escaped(title)] if title else [""]),
        barmode="stack",
        legend={"x": 1.02, "y": heights[1] / (sum(heights) + 90), "yanchor": "top"},
        margin={"l": 60, "r": 20, "t": 50, "b": 60},
        **theme.layout(sum(heights) + 200),
    )
    if not made.rows:
        figure.add_annotation(text="no utilities", showarrow=False, x=0.5, y=0.9, xref="paper", yref="paper")
    return figure


def utility_svg(made: Utilities, *, threshold: float | None = None, title: str = "Utilities") -> str:
    """Return the table and the histogram of its utilities as SVG text."""
    top = 34
    height = max(12, min(22, 360 // max(1, len(made.rows))))
    step = (_WIDTH - _LEFT - 20) / (len(made.edges) - 1)
    most = float(made.utility_edges[-1])
    parts = [drawing.text(0, 18, title, size=15)]
    for r, row in enumerate(made.rows):
        y = top + r * height
        words = drawing.fitting(row["label"], _LEFT - 12, 11)
        parts.append(drawing.text(_LEFT - 8, y + height / 2 + 4, words, anchor="end", size=11))
        for b, value in enumerate(made.mean[r].tolist()):
            if value != value:
                continue
            opacity = f"{0.06 + 0.94 * value / (most or 1.0):.3f}"
            x = _LEFT + b * step
            cell = drawing.element(
                "rect", x=f"{x:.1f}", y=y, width=f"{step:.1f}", height=height - 1, fill=HUE,
                fill_opacity=opacity,
            )  # fmt: skip
            parts.append(drawing.titled(cell, f"{row['label']}: utility {value:.4g}, {made.n[r, b]:,g} seen"))
    bottom = top + height * max(1, len(made.rows))
    if not made.rows:
        parts.append(drawing.text(_LEFT, top + 12, "no utilities"))
    for value in drawing.ticks(made.edges[0], made.edges[-1]) if made.has_position else ():
        x = _LEFT + (value - made.edges[0]) / (made.edges[-1] - made.edges[0]) * (_WIDTH - _LEFT - 20)
        parts.append(drawing.text(x, bottom + 14, drawing.tick_text(value), anchor="middle", size=11))
    word = "position in the window" if made.has_position else ONE_COLUMN
    parts.append(drawing.text((_LEFT + _WIDTH) / 2, bottom + 30, word, anchor="middle"))
    n = made.n_of_utility.sum(axis=0)
    floor, scale = bottom + 52 + _HISTOGRAM, _HISTOGRAM / max(float(n.max(initial=0.0)), 1e-300)
    wide = (_WIDTH - _LEFT - 20) / UTILITY_BINS
    x0 = _LEFT + np.arange(UTILITY_BINS) * wide
    bars = drawing.rectangles(x0, floor - n * scale, x0 + wide - 1, np.full(UTILITY_BINS, floor))
    parts.append(drawing.path(bars, fill=HUE, fill_opacity=0.7))
    has_drops = bool(made.n_dropped.any())
    if has_drops:
        lost = made.n_dropped.sum(axis=0)
        bars = drawing.rectangles(x0, floor - lost * scale, x0 + wide - 1, np.full(UTILITY_BINS, floor))
        parts.append(drawing.path(bars, fill=DROP_HUE))
    for value in drawing.ticks(0.0, most):
        x = _LEFT + value / (most or 1.0) * wide * UTILITY_BINS
        parts.append(drawing.text(x, floor + 14, drawing.tick_text(value), anchor="middle", size=11))
    for value in drawing.ticks(0.0, float(n.max(initial=0.0)), 3):
        y = floor - value * scale
        parts.append(drawing.path(f"M{_LEFT},{y:.1f}H{_WIDTH - 20}", stroke=theme.GRID))
        parts.append(drawing.text(_LEFT - 8, y + 4, drawing.tick_text(value), anchor="end", size=11))
    words = "utility (bars: how many are seen" + (
        ", and in orange how many were dropped)" if has_drops else ")"
    )
    parts.append(drawing.text((_LEFT + _WIDTH) / 2, floor + 30, words, anchor="middle"))
    if threshold is not None:
        x = _LEFT + min(threshold, most) / (most or 1.0) * wide * UTILITY_BINS
        parts.append(
            drawing.path(
                f"M{x:.1f},{floor - _HISTOGRAM}V{floor}", stroke="currentColor", stroke_dasharray="5 3"
            )
        )
        words = f"{100 * share_up_to(made, threshold):.3g} % up to {threshold:.4g}"
        is_right = x > (_LEFT + _WIDTH) / 2
        at, anchor = (x - 5, "end") if is_right else (x + 5, "start")
        parts.append(drawing.text(at, floor - _HISTOGRAM + 10, words, anchor=anchor, size=11))
    return drawing.document(_WIDTH, floor + 42, title, parts)
