"""The legend of a plotly figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.plots import theme
from cepkit.plots.stills.axes import Axis, array_of, get
from cepkit.plots.stills.traces import (
    Bars,
    FigureText,
    Page,
    colour_of,
    draw_bars,
    draw_scatter,
    modes_of,
    read_words,
    write_words,
)

_SIZE, _ROW, _MARK = 12, 19.0, 34.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A trace in the legend, or the title of a group if it has no trace."""

    words: FigureText
    trace: Mapping[str, Any] | None
    turn: int

    @property
    def width(self) -> float:
        """Return the width in pixels."""
        return (_MARK if self.trace is not None else 4.0) + self.words.width(_SIZE) + 12


def entries_of(
    traces: Sequence[Mapping], all_traces: Sequence[Mapping], layout: Mapping[str, Any]
) -> list[Entry]:
    """Return the entries of the legend, group by group."""
    shown = layout.get("showlegend")
    if shown is False:
        return []
    listed = [
        (k, trace) for k, trace in enumerate(traces)
        if trace.get("showlegend", trace["type"] != "heatmap") is not False and trace.get("name")
    ]  # fmt: skip
    if not listed or (shown is None and len(all_traces) == 1 and not traces[0].get("showlegend")):
        return []
    groups: dict[str, list[tuple[int, Mapping]]] = {}
    for k, trace in listed:
        groups.setdefault(str(trace.get("legendgroup") or ""), []).append((k, trace))
    entries = []
    title = get(layout, "legend.title.text")
    if title:
        entries.append(Entry(read_words(title), None, 0))
    for members in groups.values():
        heading = next(
            (text for _, member in members if (text := get(member, "legendgrouptitle.text"))), None
        )
        if heading:
            entries.append(Entry(read_words(heading), None, 0))
        entries += [Entry(read_words(trace["name"]), trace, k) for k, trace in members]
    return entries


@dataclass(frozen=True, slots=True)
class Legend:
    """The entries and where they are."""

    entries: tuple[Entry, ...]
    given: Mapping[str, Any]
    is_row: bool

    def width(self) -> float:
        """Return the width of a vertical legend in pixels."""
        return max((entry.width for entry in self.entries), default=0.0)

    def room_at_right(self) -> float:
        """Return the margin that a vertical legend at the right of the plot needs."""
        if not self.entries or self.is_row or float(self.given.get("x", 1.02)) < 1:
            return 0.0
        return self.width() + 24

    def draw(self, left: float, top: float, right: float, bottom: float, page: Page) -> list[str]:
        """Return the parts of the legend at its place relative to the plot."""
        if not self.entries:
            return []
        room = max(right - left, 300.0)
        places, x, row = [], 0.0, 0
        for entry in self.entries:
            if self.is_row and x and x + entry.width > room:
                x, row = 0.0, row + 1
            places.append((x, row * _ROW, entry))
            x, row = (x + entry.width, row) if self.is_row else (0.0, row + 1)
        wide = max(x0 + entry.width for x0, _, entry in places)
        high = max(y0 for _, y0, _ in places) + _ROW
        share_x = float(self.given.get("x", 0.0 if self.is_row else 1.02))
        share_y = float(self.given.get("y", -0.1 if self.is_row else 1.0))
        x0 = (
            left
            + share_x * (right - left)
            - wide * _before(self.given.get("xanchor") or "left", share_x, "left", "right")
        )
        y0 = bottom - share_y * (bottom - top) - high * _before(
            self.given.get("yanchor"), 1 - share_y, "top", "bottom"
        )  # fmt: skip
        parts = []
        for x, y, entry in places:
            indent = _MARK if entry.trace is not None else 4.0
            at = x0 + x, y0 + y + _ROW / 2
            parts.append(write_words(at[0] + indent, at[1], entry.words, size=_SIZE))
            if entry.trace is not None:
                parts += _sample(entry, *at, page)
        return parts


def _before(anchor: Any, share: float, low: str, high: str) -> float:
    """Return the share of the legend's own size that is before its place."""
    if anchor in (None, "auto"):
        return 0.0 if share <= 1 / 3 else 1.0 if share >= 2 / 3 else 0.5
    return {low: 0.0, high: 1.0}.get(anchor, 0.5)


def legend_of(layout: Mapping[str, Any], entries: Sequence[Entry]) -> Legend:
    """Return the legend of a figure."""
    attributes = layout.get("legend") or {}
    return Legend(tuple(entries), attributes, attributes.get("orientation") == "h")


def _sample(entry: Entry, x: float, y: float, page: Page) -> list[str]:
    """Return a short piece of the trace: a line, a mark, or a box."""
    trace, turn = dict(entry.trace or {}), entry.turn
    across = Axis("x", {}, "linear", low=0.0, high=1.0, start=x + 4, end=x + 28)
    along = Axis("y", {}, "linear", low=0.0, high=1.0, start=y + 5, end=y - 5)
    looks = {name: trace[name] for name in ("line", "fillcolor", "fillpattern", "opacity") if name in trace}
    looks["marker"] = {name: _first(value) for name, value in (trace.get("marker") or {}).items()}
    if trace["type"] == "bar" or (trace.get("fill") and "lines" not in modes_of(trace)):
        box = Bars(False, np.array([0.5]), np.array([0.5]), np.array([0.0]), np.array([1.0]))
        if trace["type"] != "bar":
            looks["marker"] = {"color": trace.get("fillcolor") or colour_of(trace, turn)}
        return draw_bars({"type": "bar", **looks}, box, across, along, turn, page)
    modes = modes_of(trace) & {"lines", "markers"}
    marker = looks["marker"]
    size = marker.get("size", 6)
    looks["marker"] = marker | {"size": min(float(size), 14.0) if isinstance(size, (int, float)) else 6}
    parts = []
    if "lines" in modes:
        line = {"type": "scatter", **looks, "mode": "lines", "x": [0, 1], "y": [0.5, 0.5]}
        parts += draw_scatter(line, across, along, turn, page, None)[0]
    if "markers" in modes:
        mark = {"type": "scatter", **looks, "mode": "markers", "x": [0.5], "y": [0.5]}
        parts += draw_scatter(mark, across, along, turn, page, None)[0]
    if trace.get("fill") and "lines" in modes:
        box = {"type": "scatter", **looks, "mode": "none", "x": [0, 1], "y": [0.5, 0.5], "fill": "tozeroy"}
        box["fillcolor"] = trace.get("fillcolor") or theme.GRID
        parts = draw_scatter(box, across, along, turn, page, None)[0] + parts
    return parts


def _first(value: Any) -> Any:
    if isinstance(value, Mapping) and "bdata" not in value:
        return {name: _first(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, Mapping)):
        values = array_of(value)
        return values.ravel().tolist()[0] if len(values) else None
    return value
