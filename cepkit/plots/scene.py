"""Scenes: a picture as a value. Plotly's figures, stills and the browser's views draw the same scene."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.plots import theme
from cepkit.plots.theme import cut, escaped
from cepkit.values import dataclass, field, fields, is_dataclass

if TYPE_CHECKING:
    import plotly.graph_objects as go

GREY = -1  # colour of a look that is no place in the palette
LANE = 0.84  # height of a bar in a lane, as a share of the distance between two lanes
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MOST_LETTERS = 120  # of the names below an axis
SHADES = 20  # opacities of cells in plotly's colour scale
_FIELD = re.compile(r"\{(\w+)\}")
_FAINTEST = 0.06  # opacity of a cell with value 0
_AREA = 0.14  # opacity of the area around a line
_GROUND = {"": 1.0, "/": 0.4, "x": 0.15, ".": 0.35}  # opacity below a pattern


@dataclass(frozen=True)
class Look:
    """How the marks of one name look."""

    name: str = ""
    colour: int = GREY  # place in theme.PALETTE
    symbol: str = "circle"
    dash: str = "solid"
    pattern: str = ""  # of bars: "", "/", "x" or "."


def look_of(name: str, place: int, **settings: str) -> Look:
    """Return the look of a name by its place in the order of the pattern; any event is grey."""
    if place < 0:
        return Look(name)
    return Look(
        name, place % len(theme.PALETTE), settings.get("symbol", theme.SYMBOLS[place % len(theme.SYMBOLS)]),
        settings.get("dash", "solid"), settings.get("pattern", ""),
    )  # fmt: skip


@dataclass(frozen=True)
class PlotAxis:
    """A range of places with round numbers, or with a name for each whole number."""

    low: float = 0.0
    high: float = 1.0
    label: str = ""
    size: float = 1.0  # of a unit: the ticks show places divided by it
    names: tuple[str, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()  # places and texts; empty: round numbers
    is_time: bool = False  # places are milliseconds since 1970


@dataclass(frozen=True, eq=False, kw_only=True)
class Item:
    """Marks of one look. Places are those of the axes."""

    # ``words`` say what a mark is, with fields in braces. A mark with words or ``pick`` can be pointed at.
    # ``pick`` returns what a view reports about the mark with a number.

    kind: str  # "bars", "cells", "line", "points", "texts" on bars, or "notes"
    look: Look
    x: np.ndarray  # of bars: their left ends; of cells: the edges of their columns
    y: np.ndarray  # of bars: their lower ends; of cells: the shares, float64 (rows, columns)
    x1: np.ndarray | None = None  # right ends of bars
    y1: np.ndarray | None = None  # upper ends of bars
    least: np.ndarray | None = None  # the area around a line
    greatest: np.ndarray | None = None
    texts: Sequence[str] = ()
    side: str = "center"  # of notes, as seen from their places
    opacity: float | np.ndarray = 1.0
    width: float = 1.6  # of a line
    words: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)  # arrays, lists of texts, or one text for all
    pick: Callable[[int], dict] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class PlotPanel:
    """A part of a picture with an axis at its left. Panels with equal axes of places are read together."""

    x: PlotAxis
    y: PlotAxis
    height: int  # pixels
    items: tuple[Item, ...]
    label: str = ""
    notes: tuple[str, ...] = ()  # at the right of the lanes, or one at the right of the panel
    hints: tuple[str, ...] = ()  # about the lanes
    pick_lane: Callable[[int], dict] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class PlotScene:
    """A picture: panels below each other, and a table of names below them."""

    title: str
    panels: tuple[PlotPanel, ...]
    note: str = ""
    hint: str = ""  # what the view says when nothing is pointed at
    about: str = ""  # the picture for screen readers
    empty: str = ""  # the text of a picture without marks
    legend: tuple[tuple[str, Look], ...] = ()  # kind of mark and look
    header: tuple[str, ...] = ()  # of the table
    table: tuple[dict, ...] = ()  # name, look, is_on, cells: texts, or text and share for a bar
    below: str = ""  # a note below the table


def lines(label_of_axis: str, extent: Sequence[float], size: float = 1.0) -> PlotAxis:
    """Return the axis of a range; an empty range gets a length."""
    low, high = extent
    return PlotAxis(float(low), float(high) if high > low else float(low) + 1.0, label_of_axis, size)


def lanes(names: Sequence[str]) -> PlotAxis:
    """Return the axis of lanes, the first at the top."""
    return PlotAxis(max(len(names), 1) - 0.5, -0.5, names=tuple(names))


def lane_height(n_lanes: int, room: int = 420, least: int = 10, most: int = 22) -> int:
    return max(least, min(most, room // max(1, n_lanes))) * max(1, n_lanes)


# What the browser gets.


def sent(value: Any) -> Any:
    """Return a scene as dicts and lists for the browser, with numbers as bytes of float64."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, "<f8").tobytes()
    if isinstance(value, Mapping):
        return {name: sent(entry) for name, entry in value.items()}
    if isinstance(value, Look):
        from cepkit.plots.still_traces import DASHES, SHAPES

        return {
            "name": value.name, "colour": value.colour, "pattern": value.pattern,
            "dash": DASHES.get(value.dash, ""), "path": SHAPES[value.symbol],
        }  # fmt: skip
    if is_dataclass(value):
        entries = {part.name: getattr(value, part.name) for part in fields(value)}
        return {
            name: entry is not None if name.startswith("pick") else sent(entry)
            for name, entry in entries.items()
        }
    return [sent(entry) for entry in value] if isinstance(value, (list, tuple)) else value


# What plotly gets, and what is drawn from it without a browser.

_LINE = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
_ON_COLOUR = "#000000"  # of letters on bars
_AXIS, _HEAD, _ROW, _WIDTH = 46, 44, 22, 740  # pixels


def plotly_json(scene: PlotScene) -> dict[str, Any]:
    """Return the scene as plotly's JSON; it needs no plotly."""
    tops, bottom = _tops(scene)
    entries = sum(48 + 6.8 * len(cut(look.name)) for _, look in scene.legend)
    n_rows = math.ceil(entries / _WIDTH) if scene.legend else 0
    n_lines = max((name.count("\n") for name in scene.panels[-1].x.names), default=0)
    axis = _AXIS + 16 * n_lines
    foot, top_margin = axis + _ROW * n_rows, _HEAD + 18 * bool(scene.note)
    widest = max((len(words) for panel in scene.panels for words in panel.notes), default=0)
    traces: list[dict] = []
    layout: dict[str, Any] = {
        "title": theme.title_at_left([escaped(scene.title), *([escaped(scene.note)] if scene.note else [])]),
        "barmode": "overlay", "hovermode": "closest", "showlegend": bool(scene.legend),
        "margin": {"l": 60, "r": max(24, 10 + 6.8 * widest), "t": top_margin, "b": foot},
        "legend": {
            "orientation": "h", "x": 0, "y": -(axis + 2) / bottom, "yanchor": "top",
            "itemsizing": "constant",
        },
        "annotations": [], **theme.layout(bottom + top_margin + foot),
    }  # fmt: skip
    for number, (panel, top) in enumerate(zip(scene.panels, tops, strict=True), 1):
        name = "" if number == 1 else str(number)
        has_ticks = panel is scene.panels[-1] or scene.panels[number].x != panel.x
        first = next(k for k, other in enumerate(scene.panels, 1) if other.x == panel.x)
        layout[f"xaxis{name}"] = _axis(panel.x, f"y{name}") | (
            {"showticklabels": has_ticks, "title": {"text": escaped(panel.x.label) if has_ticks else ""}}
            | ({"matches": "x" if first == 1 else f"x{first}"} if first < number else {})
        )
        span = [1 - (top + panel.height) / bottom, 1 - top / bottom]
        layout[f"yaxis{name}"] = _axis(panel.y, f"x{name}") | {"domain": [max(0.0, span[0]), span[1]]}
        if panel.y.names:
            small = 11 if panel.height >= 13 * len(panel.y.names) else 8
            layout[f"yaxis{name}"] |= {"showgrid": False, "tickfont": {"size": small}}
        if panel.label:
            layout["annotations"].append(
                _note(escaped(panel.label), 0.0, span[1], xref="paper", yref="paper", across="bottom")
            )
        for k, words in enumerate(panel.notes):
            place = (k, f"y{name}") if panel.y.names else (span[1] - 14 * k / bottom, "paper")
            refs = {"xref": "paper", "yref": place[1], "across": "middle" if panel.y.names else "top"}
            layout["annotations"].append(_note(escaped(words), 1.006, place[0], **refs))
        for item in panel.items:
            traces += [trace | {"xaxis": f"x{name}", "yaxis": f"y{name}"} for trace in _traces(item, panel)]
    traces += [_legend_entry(kind, look) for kind, look in scene.legend]
    if scene.empty:
        layout["annotations"].append(
            _note(escaped(scene.empty), 0.5, 0.5, xref="paper", yref="paper", along="center")
        )
    return {"data": traces, "layout": layout}


def scene_figure(scene: PlotScene) -> go.Figure:
    """Return a scene as a figure of plotly."""
    from cepkit.plots.lean import LeanFigure

    drawn = plotly_json(scene)
    figure = LeanFigure(drawn["data"])
    figure.update_layout(drawn["layout"])
    return figure


def scene_svg(scene: PlotScene) -> str:
    """Return the scene as SVG text, without plotly and without a browser."""
    from cepkit.plots.still_figure import figure_svg

    return figure_svg(plotly_json(scene))


def _tops(scene: PlotScene) -> tuple[list[int], int]:
    """Return where each panel begins, in pixels from the top of the first one, and where the last ends."""
    tops, bottom = [], 0
    for number, panel in enumerate(scene.panels):
        if number:
            above = scene.panels[number - 1].x
            bottom += 6 if above == panel.x else _AXIS + 24 * (above.is_time or bool(above.ticks))
        bottom += 18 * bool(panel.label)
        tops.append(bottom)
        bottom += panel.height
    return tops, max(bottom, 1)


def _axis(axis: PlotAxis, anchor: str) -> dict[str, Any]:
    """Return an axis as plotly takes it."""
    attributes = {"range": [axis.low, axis.high], "anchor": anchor, "automargin": True, **_LINE}
    if axis.names:
        letters = len(axis.names) * (1 + max(len(name.partition("\n")[0]) for name in axis.names))
        every = 1 if axis.low > axis.high else max(1, -(-letters // MOST_LETTERS))
        attributes |= {
            "tickmode": "array", "tickvals": list(range(0, len(axis.names), every)),
            "ticktext": [escaped(cut(name)).replace("\n", "<br>") for name in axis.names[::every]],
        }  # fmt: skip
    elif axis.ticks:
        places, texts = zip(*axis.ticks, strict=True)
        attributes |= {"tickmode": "array", "tickvals": list(places), "ticktext": list(map(escaped, texts))}
    elif axis.is_time:
        attributes["type"] = "date"
    elif axis.size != 1.0:
        from cepkit.plots import drawing

        ticks = drawing.ticks(axis.low / axis.size, axis.high / axis.size, 8)
        attributes |= {
            "tickmode": "array", "tickvals": [tick * axis.size for tick in ticks],
            "ticktext": [drawing.tick_text(tick) for tick in ticks],
        }  # fmt: skip
    else:
        attributes["nticks"] = 8 if anchor.startswith("y") else 4
    return attributes


def _note(
    words: str, x: float, y: float, *, along: str = "left", across: str = "middle", **refs: str
) -> dict:
    """Return a text at a place as plotly takes it."""
    font = {"color": theme.INK, "size": 12}
    return {
        "text": words, "x": x, "y": y, "showarrow": False, "xanchor": along, "yanchor": across, "font": font,
        **refs,
    }  # fmt: skip


def colour_of(look: Look, opacity: float = 1.0) -> str:
    """Return the colour of a look."""
    colour = theme.INK if look.colour < 0 else theme.PALETTE[look.colour]
    if opacity >= 1.0:
        return colour
    red, green, blue = (int(colour[c : c + 2], 16) for c in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:.3g})"


def _marker(look: Look, opacity: float = 1.0) -> dict[str, Any]:
    """Return how plotly draws bars of a look."""
    colour = colour_of(look, opacity)
    pattern: dict[str, Any] = {"shape": look.pattern}
    if look.pattern:
        ground = colour_of(look, opacity * _GROUND[look.pattern])
        pattern |= {"fgcolor": colour, "bgcolor": ground, "size": 5, "solidity": 0.4}
    return {"color": colour, "line": {"width": 0}, "pattern": pattern}


def _legend_entry(kind: str, look: Look) -> dict[str, Any]:
    """Return an empty trace that makes an entry of the legend."""
    entry: dict[str, Any] = {"x": [None], "y": [None], "name": escaped(cut(look.name)), "hoverinfo": "skip"}
    if kind == "bars":
        return entry | {"type": "bar", "marker": _marker(look)}
    if kind == "line":
        line = {"color": colour_of(look), "dash": look.dash, "width": 1.6}
        return entry | {"type": "scatter", "mode": "lines", "line": line}
    return entry | {"type": "scatter", "mode": "markers", "marker": _point(look)}


def _point(look: Look) -> dict[str, Any]:
    return {"color": colour_of(look), "symbol": look.symbol, "size": 9}


def _hover(item: Item) -> dict[str, Any]:
    """Return the words of marks in the form of plotly."""
    if not item.words:
        return {"hoverinfo": "skip"}
    arrays = {name: values for name, values in item.fields.items() if isinstance(values, np.ndarray)}
    texts = {name: values for name, values in item.fields.items() if isinstance(values, (list, tuple))}
    numbers = {name: k for k, name in enumerate(arrays)}

    def shown(name: str) -> str:
        if name in numbers:
            return f"%{{customdata[{numbers[name]}]:,.4~g}}"
        return "%{hovertext}" if name in texts else escaped(item.fields[name])

    parts = _FIELD.split(item.words)
    words = "".join(shown(part) if k % 2 else escaped(part) for k, part in enumerate(parts))
    attributes: dict[str, Any] = {"hovertemplate": f"{words}<extra></extra>"}
    for values in texts.values():
        names = [escaped(cut(text)) for text in values]
        attributes["hovertext"] = (
            np.array(names).reshape(item.y.shape).tolist() if item.kind == "cells" else names
        )
    if arrays:
        arrays = [np.asarray(values, float) for values in arrays.values()]
        attributes["customdata"] = np.stack(arrays, axis=-1)
    return attributes


def _traces(item: Item, panel: PlotPanel) -> Iterable[dict[str, Any]]:
    shared = {
        "showlegend": False,
        "legendgroup": escaped(cut(item.look.name)),
        "name": escaped(cut(item.look.name)),
    }
    if item.kind == "bars":
        marker = _marker(item.look, item.opacity) if np.ndim(item.opacity) == 0 else None
        if marker is None:
            shades = np.round(np.asarray(item.opacity) * SHADES) / SHADES
            marker = {"color": [colour_of(item.look, shade) for shade in shades], "line": {"width": 0}}
        yield shared | {
            "type": "bar", "orientation": "h", "base": item.x, "x": item.x1 - item.x, "marker": marker,
            "y": (item.y + item.y1) / 2, "width": np.abs(item.y1 - item.y), **_hover(item),
        }  # fmt: skip
    elif item.kind == "cells":
        yield shared | {
            "type": "heatmap", "x": (item.x[:-1] + item.x[1:]) / 2, "y": np.arange(len(item.y)),
            "z": item.y, "zmin": 0.0, "zmax": 1.0, "showscale": False, "ygap": 1,
            "colorscale": [[0.0, colour_of(item.look, _FAINTEST)], [1.0, colour_of(item.look)]],
            **_hover(item),
        }  # fmt: skip
    elif item.kind == "line":
        if item.least is not None:
            yield shared | {
                "type": "scatter", "x": np.append(item.x, item.x[::-1]), "mode": "lines",
                "y": np.append(item.least, item.greatest[::-1]), "line": {"width": 0}, "fill": "toself",
                "fillcolor": colour_of(item.look, _AREA), "hoverinfo": "skip",
            }  # fmt: skip
        line = {
            "color": colour_of(item.look, float(item.opacity)), "dash": item.look.dash, "width": item.width,
        }  # fmt: skip
        yield shared | {
            "type": "scatter", "x": item.x, "y": item.y, "mode": "lines", "line": line,
            **_hover(item),
        }  # fmt: skip
    elif item.kind == "points":
        yield shared | {
            "type": "scatter", "x": item.x, "y": item.y, "mode": "markers", "marker": _point(item.look),
            **_hover(item),
        }  # fmt: skip
    else:
        yield shared | {
            "type": "scatter", "x": item.x, "y": item.y, "mode": "text", "hoverinfo": "skip",
            "text": list(map(escaped, item.texts)), "textposition": f"middle {item.side}",
            "textfont": {"color": theme.INK if item.kind == "notes" else _ON_COLOUR, "size": 10},
        }  # fmt: skip


def span(values: Iterable[float], least: float = 1.0) -> tuple[float, float]:
    """Return the range of an axis from 0 to a little more than the greatest value."""
    most = max((value for value in values if math.isfinite(value)), default=0.0)
    return 0.0, 1.06 * (most or least)
