"""Draw a run under load: latency, waiting events, partial matches, and the drops of each event type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cepkit.errors import whole_number
from cepkit.plots import drawing, theme
from cepkit.plots.theme import cut, escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

BINS = 240
TIME, ARRIVALS = "time", "arrivals"
ROWS = {"latency": "latency (s)", "waiting": "waiting events", "partial_matches": "partial matches"}
LATE_HUE, DROP_HUE = "#0072b2", "#d55e00"
PEAK = "rgba(230,159,0,0.22)"
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_WIDTH, _LEFT, _RIGHT, _PANEL, _STRIP = 900, 156, 130, 96, 20


@dataclass(frozen=True, eq=False)
class LoadHistory:
    """What happened in a run, by time or by number of arrived events."""

    # ``"time"``: places are nanoseconds since the start of the run. ``"arrivals"``: places are numbers of
    # events that had arrived, so that short peaks of many events are wide.
    by: str
    extent: tuple[float, float]  # first and last place
    at: Mapping[str, np.ndarray]  # for each of `ROWS`, the places of its values, in ascending order
    values: Mapping[str, np.ndarray]  # for each of `ROWS`, its values
    # arrived, dropped: by event type, the places where its events arrived, and where those that were dropped
    # had arrived
    arrived: Mapping[str, np.ndarray]
    dropped: Mapping[str, np.ndarray]
    peaks: Sequence[tuple[float, float]]  # where each peak of the arrivals begins and ends
    latency_bound: float  # in seconds; infinite for none

    @property
    def unit(self) -> tuple[str, float]:
        """Name of the unit of places, and its size."""
        if self.by == ARRIVALS:
            return "events", 1.0
        span = self.extent[1] - self.extent[0]
        return next(((name, size) for name, size in _UNITS if span >= 2 * size), _UNITS[-1])

    @property
    def label(self) -> str:
        """Label of the axis of places."""
        unit, _ = self.unit
        return "events that have arrived" if self.by == ARRIVALS else f"virtual time since the start ({unit})"


class LoadBins(NamedTuple):
    """A part of a history in bins of equal width. Rows are those of `ROWS`."""

    edges: np.ndarray  # float64, (n_bins + 1,)
    mean: np.ndarray  # float64, (3, n_bins): NaN where no match was found, or before the first reading
    greatest: np.ndarray  # float64, (3, n_bins)
    arrived: np.ndarray  # int64, (n_types, n_bins)
    dropped: np.ndarray  # int64, (n_types, n_bins)


def load_in_bins(
    history: LoadHistory, low: float | None = None, high: float | None = None, n_bins: int = BINS
) -> LoadBins:
    """Return a part of a history in bins; None: from the start, to the end.

    Backlogs keep their last value in bins without a reading. Latencies have gaps there.
    """
    whole_number("load_in_bins: n_bins", n_bins, 1)
    low = history.extent[0] if low is None else low
    high = history.extent[1] if high is None else high
    edges = np.linspace(low, high if high > low else low + 1.0, n_bins + 1)
    mean, greatest = np.full((2, len(ROWS), n_bins), np.nan)
    for r, name in enumerate(ROWS):
        at, values = history.at[name], history.values[name]
        number, inside = _bins(at, edges)
        n = np.bincount(number, minlength=n_bins)
        held = n > 0
        mean[r, held] = np.bincount(number, values[inside], minlength=n_bins)[held] / n[held]
        top = np.full(n_bins, -np.inf)
        np.maximum.at(top, number, values[inside])
        greatest[r, held] = top[held]
        if name != "latency":
            last = np.searchsorted(at, edges[1:], side="left") - 1
            kept = ~held & (last >= 0)
            mean[r, kept] = greatest[r, kept] = values[last[kept]]
    counts = [
        np.array([_count(times[name], edges) for name in history.arrived], np.int64).reshape(-1, n_bins)
        for times in (history.arrived, history.dropped)
    ]
    return LoadBins(edges, mean, greatest, *counts)


def _bins(at: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each place within the edges, and which places these are."""
    inside = (at >= edges[0]) & (at <= edges[-1])
    number = np.searchsorted(edges, at[inside], side="right") - 1
    return np.minimum(number, len(edges) - 2), inside


def _count(at: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.bincount(_bins(at, edges)[0], minlength=len(edges) - 1)


def shares_dropped(bins: LoadBins) -> np.ndarray:
    """Return the share of the arrived events that were dropped, by type and bin; NaN where none arrived."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(bins.arrived > 0, bins.dropped / bins.arrived, np.nan)


def load_figure(history: LoadHistory, *, title: str | None = None) -> go.Figure:
    """Draw latency and backlog over time, with peaks shaded, and below them the drops of each type."""
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    bins, (_, size) = load_in_bins(history), history.unit
    middle = (bins.edges[:-1] + bins.edges[1:]) / 2 / size
    n_rows, heights = len(ROWS) + 1, [150] * len(ROWS) + [max(60, 24 * len(history.arrived))]
    figure = make_subplots(
        rows=n_rows, cols=1, row_heights=heights, shared_xaxes=True, vertical_spacing=0.05,
        figure=LeanFigure(),
    )  # fmt: skip
    for r, (name, label) in enumerate(ROWS.items(), 1):
        for words, values, dash in (
            ("greatest", bins.greatest[r - 1], "dot"), ("mean", bins.mean[r - 1], "solid"),
        ):  # fmt: skip
            figure.add_scatter(
                x=middle, y=values, mode="lines", name=words, legendgroup=words, showlegend=r == 1,
                line={"color": LATE_HUE, "dash": dash, "width": 1.6}, row=r, col=1,
                hovertemplate=f"{words} {escaped(label)} %{{y:,.4~g}}<extra></extra>",
            )  # fmt: skip
        for start, stop in history.peaks:
            figure.add_vrect(x0=start / size, x1=stop / size, fillcolor=PEAK, line_width=0, row=r, col=1)
        figure.update_yaxes(title={"text": label}, rangemode="tozero", gridcolor=theme.GRID, row=r, col=1)
        if name == "latency" and isfinite(history.latency_bound):
            figure.add_hline(
                y=history.latency_bound, line={"color": theme.INK, "dash": "dash", "width": 1}, row=r, col=1
            )
    labels = [escaped(cut(name)) for name in history.arrived]
    figure.add_heatmap(
        x=middle, y=labels, z=shares_dropped(bins), zmin=0.0, zmax=1.0, colorscale="Oranges",
        customdata=np.stack([bins.arrived, bins.dropped], axis=-1) if labels else None,
        colorbar={"title": {"text": "share dropped"}, "len": 0.3, "y": 0, "yanchor": "bottom"},
        hovertemplate="<b>%{y}</b>: %{customdata[1]:,} of %{customdata[0]:,} dropped<extra></extra>",
        row=n_rows, col=1,
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", type="category", automargin=True, row=n_rows, col=1)
    figure.update_xaxes(title={"text": history.label}, row=n_rows, col=1)
    figure.update_xaxes(gridcolor=theme.GRID, zeroline=False)
    figure.update_layout(
        title=theme.title_at_left([escaped(title)] if title else [""]),
        margin={"l": 70, "r": 20, "t": 50, "b": 60},
        **theme.layout(sum(heights) + 170),
    )
    return figure


def load_svg(history: LoadHistory, *, title: str) -> str:
    """Return latency, backlog and drops of the whole run as SVG text."""
    bins, (_, size) = load_in_bins(history), history.unit
    low, high = bins.edges[0], bins.edges[-1]
    width = _WIDTH - _LEFT - _RIGHT

    def x(place: np.ndarray | float):
        return _LEFT + (place - low) / (high - low) * width

    parts = [drawing.text(0, 18, title, size=15)]
    top = 40
    ticks = [value * size for value in drawing.ticks(low / size, high / size, 8)]
    middle = x((bins.edges[:-1] + bins.edges[1:]) / 2)
    floor_of_strips = top + len(ROWS) * (_PANEL + 26) + _STRIP * max(1, len(history.arrived))
    for start, stop in history.peaks:
        shade = drawing.element(
            "rect", x=float(x(start)), y=top - 6, width=max(1.5, float(x(stop) - x(start))),
            height=floor_of_strips - top + 6, fill="#e69f00", fill_opacity=0.22,
        )  # fmt: skip
        parts.append(drawing.titled(shade, "peak of arrivals"))
    for r, (name, label) in enumerate(ROWS.items()):
        bottom = top + _PANEL
        most = float(np.nanmax(bins.greatest[r], initial=0.0)) or 1.0
        if name == "latency" and isfinite(history.latency_bound):
            most = max(most, history.latency_bound)
        scale = _PANEL / (1.06 * most)
        parts.append(drawing.text(_LEFT - 46, top + _PANEL / 2, label, anchor="end", size=11))
        for value in drawing.ticks(0.0, most, 3):
            y = bottom - value * scale
            parts.append(drawing.path(f"M{_LEFT},{y:.1f}H{_LEFT + width}", stroke=theme.GRID))
            parts.append(drawing.text(_LEFT - 6, y + 4, drawing.tick_text(value), anchor="end", size=11))
        for values, dash in ((bins.greatest[r], "2 3"), (bins.mean[r], None)):
            d = drawing.line(middle, bottom - values * scale)
            parts.append(
                drawing.path(d, fill="none", stroke=LATE_HUE, stroke_width=1.5, stroke_dasharray=dash)
            )
        if name == "latency" and isfinite(history.latency_bound):
            y = bottom - history.latency_bound * scale
            parts.append(
                drawing.path(f"M{_LEFT},{y:.1f}h{width}", stroke="currentColor", stroke_dasharray="6 3")
            )
            parts.append(drawing.text(_LEFT + width + 6, y + 4, "bound", size=11))
        parts.append(drawing.text(_LEFT + width + 6, bottom - 2, "dots: greatest" if r == 1 else "", size=10))
        top = bottom + 26
    share, x0 = shares_dropped(bins), x(bins.edges)
    for t, name in enumerate(history.arrived):
        y = top + t * _STRIP
        parts.append(
            drawing.text(_LEFT - 8, y + 14, drawing.fitting(name, _LEFT - 12, 11), anchor="end", size=11)
        )
        parts.append(drawing.path(f"M{_LEFT},{y + _STRIP - 1}h{width}", stroke=theme.GRID))
        for b in np.flatnonzero(bins.dropped[t]).tolist():
            cell = drawing.element(
                "rect", x=float(x0[b]), y=y + 2, width=max(1.5, float(x0[b + 1] - x0[b])), height=_STRIP - 5,
                fill=DROP_HUE, fill_opacity=f"{0.15 + 0.85 * share[t, b]:.2f}",
            )  # fmt: skip
            parts.append(drawing.titled(cell, f"{name}: {bins.dropped[t, b]:,} dropped"))
        n, n_arrived = len(history.dropped[name]), len(history.arrived[name])
        words = drawing.fitting(f"{n:,} of {n_arrived:,} dropped", _RIGHT - 4, 10)
        parts.append(drawing.text(_LEFT + width + 6, y + 14, words, size=10))
    bottom = top + _STRIP * max(1, len(history.arrived))
    if not len(history.at["waiting"]):
        parts.append(drawing.text(_LEFT, top - 40, "no event after the warm-up"))
    for place in ticks:
        at = float(x(place))
        parts.append(drawing.text(at, bottom + 14, drawing.tick_text(place / size), anchor="middle", size=11))
    parts.append(drawing.text(_LEFT + width / 2, bottom + 32, history.label, anchor="middle"))
    return drawing.document(_WIDTH, bottom + 44, title, parts)
