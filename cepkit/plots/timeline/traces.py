"""The traces of one panel of a timeline: bands and match numbers, then events and marks above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.plots import theme
from cepkit.plots.automata.automaton import shown_name
from cepkit.plots.text import escaped
from cepkit.plots.timeline.axes import TimeAxis
from cepkit.plots.timeline.heights import Heights
from cepkit.plots.timeline.selection import Panel

if TYPE_CHECKING:
    import plotly.graph_objects as go

NARROWEST_BAND = 0.004  # share of the drawn time
MOST_SEEN = 8  # the eye cannot tell more bands over one another apart
STRIP = 0.06  # height of the strip of overlaps, as a share of the panel
DIGIT_WIDTH = 0.011  # share of the drawn time; a match number that would touch the one before is left out


def band_traces(panel: Panel, clock: TimeAxis, extent: float) -> tuple[list[go.BaseTraceType], int]:
    """Return one bar per match, from its first to its last event, and the match numbers.

    Overlapping bars are outlines over a fill that is darker where more bars overlap. The bars reach from 0
    to 1. Where more than `MOST_SEEN` bars overlap, they have no outlines and no numbers, and a strip at the
    top shows how many overlap. ``extent`` is the drawn time, in the unit of `TimeAxis.lengths`. The second
    result is the number of bars without an outline.

    """
    import plotly.graph_objects as go

    if panel.marks.empty:
        # Without a trace below it, the axis of the events would take the whole height of the figure.
        return [go.Scatter(x=clock.coordinates[panel.events][:1], y=[None], hoverinfo="skip")], 0
    ends = pd.DataFrame({"match": panel.marks["match"], "at": clock.coordinates[panel.marks["row"]]})
    bands = ends.groupby("match", sort=False)["at"].agg(["min", "max", "size"])
    starts, stops = bands["min"].to_numpy(), bands["max"].to_numpy()
    lengths = clock.lengths(starts, stops)
    hints = [
        f"<b>match {match}</b><br>{clock.text(start)} – {clock.text(stop)}"
        f"<br>{clock.length_text(length)}, {size:,} event{'s' * (size != 1)}"
        for match, start, stop, length, size in zip(
            bands.index, starts, stops, lengths, bands["size"], strict=True
        )
    ]
    widths = np.maximum(lengths, NARROWEST_BAND * extent or 1.0)
    begins = clock.move(starts, (lengths - widths) / 2)
    overlaps = _overlaps(begins, widths, clock)
    seen = overlaps.deepest_of_band <= MOST_SEEN
    parts = overlaps.shades(clock, has_strip=not seen.all())

    def bars(own: np.ndarray, edge: dict, **more: object) -> go.BaseTraceType:
        fill = "rgba(0,0,0,0)" if parts else theme.band_colour(1, 1)
        return go.Bar(
            orientation="h", base=begins[own], x=widths[own], y=np.full(len(own), 0.5), width=1,
            marker={"color": fill, "line": edge}, legendgroup="match", **more,
        )  # fmt: skip

    every = np.arange(len(bands))
    edge = {"color": theme.edge_colour(min(overlaps.most, MOST_SEEN)), "width": 1}
    is_dense = not seen.all()
    parts.append(
        bars(every, {"width": 0} if is_dense else edge, name="match", hovertext=hints,
             hovertemplate="%{hovertext}<extra></extra>")
    )  # fmt: skip
    if is_dense and seen.any():
        parts.append(bars(np.flatnonzero(seen), edge, hoverinfo="skip"))
    middles = clock.move(starts, lengths / 2)
    n_digits = 2 + max(len(str(match)) for match in bands.index)
    apart = _keep_apart(clock.lengths(middles.min(), middles), n_digits * DIGIT_WIDTH * extent)
    apart = [k for k in apart if seen[k]]
    labels = go.Scatter(
        x=middles[apart], y=np.full(len(apart), 0.98 - STRIP * is_dense), mode="text",
        text=[str(bands.index[k]) for k in apart], textposition="bottom center",
        textfont={"size": 10, "color": theme.INK}, hoverinfo="skip", showlegend=False,
        legendgroup="match",
    )  # fmt: skip
    return [*parts, labels], int((~seen).sum())


@dataclass(frozen=True, slots=True)
class _Overlaps:
    """How many bands overlap in each part of the time."""

    first: np.datetime64 | float  # the begin of the first band
    bounds: np.ndarray  # float64, (n_parts + 1,): of the parts, after ``first``
    depth: np.ndarray  # int64, (n_parts,)
    deepest_of_band: np.ndarray  # int64, (n_bands,): the greatest depth of the parts of each band

    @property
    def most(self) -> int:
        """The greatest depth."""
        return int(self.depth.max())

    def shades(self, clock: TimeAxis, *, has_strip: bool) -> list[go.BaseTraceType]:
        """Return a fill that is darker where more bands overlap, and the strip; none without overlaps."""
        import plotly.graph_objects as go

        if self.most == 1:
            return []
        kept = np.flatnonzero(self.depth)
        depth = self.depth[kept]

        def bars(y: float, height: float, colour: Callable[[int, int], str], **more: object) -> go.Bar:
            return go.Bar(
                orientation="h", base=clock.move(np.full(len(kept), self.first), self.bounds[kept]),
                x=np.diff(self.bounds)[kept], y=np.full(len(kept), y), width=height,
                marker={"color": [colour(n, self.most) for n in depth.tolist()], "line": {"width": 0}},
                legendgroup="match", **more,
            )  # fmt: skip

        parts = [bars(0.5, 1, theme.band_colour, name="match", hoverinfo="skip")]
        if has_strip:
            hint = "%{customdata} of the shown matches overlap here<extra></extra>"
            parts.append(bars(1 - STRIP / 2, STRIP, theme.strip_colour, customdata=depth, hovertemplate=hint))
        return parts


def _overlaps(begins: np.ndarray, widths: np.ndarray, clock: TimeAxis) -> _Overlaps:
    first = begins.min()
    starts = clock.lengths(first, begins)
    ends = starts + widths
    bounds = np.unique(np.concatenate([starts, ends]))
    n_begun = np.searchsorted(np.sort(starts), bounds[:-1], side="right")
    depth = n_begun - np.searchsorted(np.sort(ends), bounds[:-1], side="right")
    parts = zip(*(np.searchsorted(bounds, of).tolist() for of in (starts, ends)), strict=True)
    return _Overlaps(first, bounds, depth, np.array([depth[low:high].max() for low, high in parts]))


def event_traces(panel: Panel, clock: TimeAxis, heights: Heights) -> list[go.BaseTraceType]:
    """Return a line through the values, or through each match, and the unmatched events as points.

    When many events have no value there is no line, and the legend names the points after the value.

    """
    import plotly.graph_objects as go

    # Matched events have marks; a grey point under a mark would catch the pointer.
    unmatched = panel.events[~np.isin(panel.events, panel.marks["row"])]
    if heights.y_of_event is None:
        y = np.full(len(unmatched), len(heights.lanes) - 1.0)
    else:
        y = heights.y_of_event[unmatched]
    only_points = heights.is_value and not heights.has_line
    marker = {"size": 3 + only_points} if heights.is_value else {"size": 9, "symbol": "line-ns-open"}
    points = go.Scatter(
        x=clock.coordinates[unmatched], y=y, mode="markers", marker=marker | {"color": theme.INK},
        name=escaped(heights.value) if only_points else None if heights.is_value else "event",
        legendgroup="event", customdata=unmatched, hovertemplate=_hint(heights, "row %{customdata}"),
    )  # fmt: skip
    if only_points:
        return [points]
    line = _value_line(panel, clock, heights) if heights.is_value else _threads(panel, clock, heights)
    return [line, points]


def mark_traces(
    panel: Panel, clock: TimeAxis, heights: Heights, variables: Sequence[str]
) -> list[go.BaseTraceType]:
    """Return a trace of marks for each variable that occurs, in the order and style of ``variables``."""
    traces = []
    for variable, style in theme.style_of_variables(variables).items():
        marks = panel.marks[panel.marks["variable"] == variable]
        if marks.empty:
            continue
        y = heights.of_marks(marks)
        has_value = ~np.isnan(y)
        if has_value.any():
            hint = _hint(heights, "row %{customdata[1]}")
            traces.append(_marks(marks[has_value], clock, y[has_value], style, hint))
        if not has_value.all():
            blank = marks[~has_value]
            y = np.full(len(blank), heights.of_blank(variable))
            hint = f"%{{x}}<br>{escaped(heights.value)} null<br>row %{{customdata[1]}}<extra></extra>"
            traces.append(_marks(blank, clock, y, style, hint))
    return traces


def _marks(
    marks: pd.DataFrame, clock: TimeAxis, y: np.ndarray, style: theme.Style, hint: str
) -> go.BaseTraceType:
    import plotly.graph_objects as go

    variable = marks["variable"].iloc[0]
    name = escaped(shown_name(variable))
    return go.Scatter(
        x=clock.coordinates[marks["row"]], y=y, mode="markers",
        marker={
            "color": style.colour, "symbol": style.symbol, "size": 8,
            "line": {"width": 1.5 if style.symbol.endswith("open") else 0.5, "color": theme.INK},
        },
        name=name, legendgroup=f"variable {variable}", customdata=marks[["match", "row"]].to_numpy(),
        hovertemplate=f"<b>{name}</b>, match %{{customdata[0]}}<br>" + hint,
    )  # fmt: skip


def _value_line(panel: Panel, clock: TimeAxis, heights: Heights) -> go.BaseTraceType:
    """Return a line through the drawn events with a gap where events are left out."""
    breaks = np.flatnonzero(np.diff(panel.places) > 1) + 1
    x, y = clock.coordinates[panel.events], heights.y_of_event[panel.events]
    return _line(x, y, breaks, name=escaped(heights.value), legendgroup="event")


def _threads(panel: Panel, clock: TimeAxis, heights: Heights) -> go.BaseTraceType:
    """Return a line from lane to lane through the rows of each match."""
    number, _ = pd.factorize(panel.marks["match"])
    order = np.lexsort((clock.ticks[panel.marks["row"]], number))
    marks = panel.marks.iloc[order]
    breaks = np.flatnonzero(np.diff(number[order])) + 1
    return _line(clock.coordinates[marks["row"]], heights.of_marks(marks), breaks, legendgroup="match")


def _line(x: np.ndarray, y: np.ndarray, breaks: np.ndarray, **names: str) -> go.BaseTraceType:
    import plotly.graph_objects as go

    return go.Scatter(
        x=np.insert(x, breaks, x[breaks]), y=np.insert(y, breaks, np.nan), mode="lines",
        line={"color": theme.INK, "width": 1}, hoverinfo="skip", connectgaps=False, **names,
    )  # fmt: skip


def _hint(heights: Heights, row: str) -> str:
    value = "" if heights.value is None else f"{escaped(heights.value)} %{{y}}<br>"
    return f"%{{x}}<br>{value}{row}<extra></extra>"


def _keep_apart(positions: np.ndarray, distance: float) -> list[int]:
    """Return the indices, in order of position, that are at least ``distance`` after the one before."""
    kept: list[int] = []
    for k in np.argsort(positions, kind="stable").tolist():
        if not kept or positions[k] - positions[kept[-1]] >= distance:
            kept.append(k)
    return kept
