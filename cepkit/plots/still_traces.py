"""Traces of a plotly figure as SVG: lines, marks, texts, areas, bars and heat maps; and its legend."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np

from cepkit.plots import drawing, theme
from cepkit.plots.still_axes import Axis, array_of, get
from cepkit.values import dataclass

# Traces of a plotly figure as SVG: lines, marks, texts, areas, bars and heat maps.

# Plotly's texts, which have a few HTML tags, as SVG text.

LINE_HEIGHT = 1.3  # of the font size, as plotly has it
_LOOKS = {
    "b": ' font-weight="bold"', "i": ' font-style="italic"', "sup": ' baseline-shift="super" font-size="70%"',
    "sub": ' baseline-shift="sub" font-size="70%"',
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FigureText:
    """A text of plotly: the lines as SVG, and their lengths in characters."""

    lines: tuple[str, ...]
    lengths: tuple[int, ...]

    def width(self, size: float) -> float:
        """Return the approximate width in pixels at a font size."""
        return max(self.lengths, default=0) * drawing.ADVANCE * size

    def height(self, size: float) -> float:
        return len(self.lines) * LINE_HEIGHT * size


class _MarkupParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines, self.lengths, self.open = [""], [0], []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag == "br":
            self.lines.append("")
            self.lengths.append(0)
        elif tag in _LOOKS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            self.open.remove(tag)

    def handle_data(self, data: str) -> None:
        part = html.escape(data, quote=False)
        looks = "".join(_LOOKS[tag] for tag in self.open)
        self.lines[-1] += f"<tspan{looks}>{part}</tspan>" if looks else part
        self.lengths[-1] += len(data)


def read_words(text: object) -> FigureText:
    """Return plotly's text as lines of SVG."""
    reader = _MarkupParser()
    reader.feed("" if text is None else str(text))
    reader.close()
    return FigureText(tuple(reader.lines), tuple(reader.lengths))


def write_words(
    x: float, y: float, words: FigureText, *, size: float, colour: str = "", anchor: str = "start",
    across: str = "middle", angle: float = 0.0,
) -> str:  # fmt: skip
    """Return the lines of a text at a point."""
    room = words.height(size)
    top = y - {"top": 0.0, "middle": room / 2, "bottom": room}[across]
    looks = f' font-size="{drawing.number(size)}"' + (f' fill="{html.escape(colour)}"' if colour else "")
    looks += f' text-anchor="{anchor}"' if anchor != "start" else ""
    if angle:
        looks += f' transform="rotate({drawing.number(angle)} {drawing.number(x)} {drawing.number(y)})"'
    return "".join(
        f'<text xml:space="preserve" x="{drawing.number(x)}" '
        f'y="{drawing.number(top + (k + 0.78) * LINE_HEIGHT * size)}"{looks}>{line}</text>'
        for k, line in enumerate(words.lines)
        if line.strip()
    )


# Traces of a plotly figure as SVG: lines, marks, texts, areas, bars and heat maps.

KNOWN = ("scatter", "scattergl", "bar", "heatmap")
DASHES = {
    "solid": "", "dot": "2 3", "dash": "7 5", "longdash": "11 5", "dashdot": "7 4 2 4",
    "longdashdot": "11 4 2 4",
}  # fmt: skip
_STAR = "".join(
    f"{'LM'[k == 0]}{(1, 0.45)[k % 2] * math.sin(k * math.pi / 5):.3f},"
    f"{-(1, 0.45)[k % 2] * math.cos(k * math.pi / 5):.3f}"
    for k in range(10)
)
SHAPES = {  # for a radius of 1
    "square": "M-1,-1H1V1H-1",
    "diamond": "M0,-1.3L1.3,0L0,1.3L-1.3,0",
    "triangle-up": "M0,-1.2L1.15,0.8H-1.15",
    "triangle-down": "M0,1.2L1.15,-0.8H-1.15",
    "triangle-right": "M1.2,0L-0.8,1.15V-1.15",
    "cross": "M-0.4,-1.2H0.4V-0.4H1.2V0.4H0.4V1.2H-0.4V0.4H-1.2V-0.4H-0.4",
    "x": "M-1.1,-0.6L-0.6,-1.1L0,-0.5L0.6,-1.1L1.1,-0.6L0.5,0L1.1,0.6L0.6,1.1L0,0.5L-0.6,1.1L-1.1,0.6L-0.5,0",
    "star": _STAR,
    "pentagon": "M0,-1.1L1.05,-0.34L0.65,0.9H-0.65L-1.05,-0.34",
    "hexagon": "M0,-1.1L0.95,-0.55V0.55L0,1.1L-0.95,0.55V-0.55",
    "bowtie": "M-1.1,-0.8L1.1,0.8V-0.8L-1.1,0.8",
    "hourglass": "M-0.8,-1.1H0.8L-0.8,1.1H0.8",
    "circle": "M-1,0A1,1 0 1 1 1,0A1,1 0 1 1 -1,0",
}
_STROKES = {"line-ew": "M-1.4,0H1.4", "line-ns": "M0,-1.4V1.4", "x-thin": "M-1,-1L1,1M-1,1L1,-1"}  # are lines
_PATTERNS = {
    "/": "M-2,2L2,-2M0,8L8,0M6,10L10,6", "x": "M0,8L8,0M0,0L8,8", ".": "M4,2.6A1.4,1.4 0 1 1 3.9,2.6Z",
}  # fmt: skip


@dataclass(slots=True)
class Page:
    """The definitions of the file, and their names by what they show."""

    definitions: list[str]
    patterns: dict[tuple, str]

    def pattern(self, shape: str, ground: str, line: str) -> str:
        """Return the fill with a pattern; equal ones are defined once."""
        key = (shape, ground, line)
        if key not in self.patterns:
            name = self.patterns[key] = f"p{len(self.patterns)}"
            dot = shape == "."
            self.definitions.append(
                f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
                f'<rect width="8" height="8" fill="{html.escape(ground)}"/>'
                f'<path d="{_PATTERNS.get(shape, "")}" fill="{html.escape(line) if dot else "none"}" '
                f'stroke="{html.escape(line)}" stroke-width="{0 if dot else 1.4}"/></pattern>'
            )
        return f"url(#{self.patterns[key]})"


def colour_of(trace: Mapping[str, Any], turn: int) -> str:
    """Return the main colour of a trace; traces without one take the palette in turn."""
    for path in ("line.color", "marker.color"):
        colour = get(trace, path)
        if isinstance(colour, str):
            return colour
    return theme.PALETTE[turn % len(theme.PALETTE)]


def modes_of(trace: Mapping[str, Any]) -> set[str]:
    """Return what a scatter trace draws: ``lines``, ``markers``, ``text``."""
    mode = trace.get("mode")
    if mode is None:
        return {"lines", "markers"} if len(array_of(trace.get("y"))) < 20 else {"lines"}
    return set(mode.split("+")) - {"none"}


def coordinates(trace: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a trace on both axes; a missing list counts from 0."""
    x, y = array_of(trace.get("x")), array_of(trace.get("y"))
    n_x, n_y = len(y), len(x)
    if trace["type"] == "heatmap":
        n_y, n_x = (*array_of(trace.get("z")).shape, 0, 0)[:2]
    return x if len(x) or trace.get("x") is not None else np.arange(float(n_x)), (
        y if len(y) or trace.get("y") is not None else np.arange(float(n_y))
    )


# --- scatter ------------------------------------------------------------------------------------------------


def draw_scatter(trace: Mapping[str, Any], x: Axis, y: Axis, turn: int) -> list[str]:
    """Return lines, areas, marks and texts of a trace."""
    xs, ys = coordinates(trace)
    px, py = x.pixels(xs), y.pixels(ys)
    n = min(len(px), len(py))
    px, py = px[:n], py[:n]
    colour, modes, parts = colour_of(trace, turn), modes_of(trace), []
    if trace.get("fill"):  # the area around a line
        outline = drawing.line(px, py)
        parts += [drawing.path(f"{outline}Z", fill=trace.get("fillcolor") or colour)] if outline else []
    if "lines" in modes:
        lx, ly = px, py
        if len(lx) and not np.isnan(lx).any() and (np.diff(lx) >= 0).all():
            lx, ly = drawing.extremes(lx, ly)
        dash = str(get(trace, "line.dash", ""))
        dash = DASHES.get(dash, dash.replace("px", "").replace(",", " "))
        parts.append(
            drawing.path(
                drawing.line(lx, ly), fill="none", stroke=get(trace, "line.color", colour),
                stroke_width=float(get(trace, "line.width", 2)),
                stroke_dasharray=dash or None, stroke_linejoin="round",
            )
        )  # fmt: skip
    if "markers" in modes:
        parts += _marks(trace, px, py, colour)
    if "text" in modes:
        parts += _texts(trace, px, py, "markers" in modes)
    return parts


def _each(given: Any, n: int, default: Any) -> list[Any]:
    """Return one value per point, from one value or a list."""
    if given is None or isinstance(given, (str, int, float)):
        return [default if given is None else given] * n
    values = array_of(given).tolist()
    return [*values[:n], *[default] * (n - len(values))]


def _marks(trace: Mapping, px: np.ndarray, py: np.ndarray, colour: str) -> list[str]:
    """Return the marks of a trace, those of equal looks together."""
    n = len(px)
    marker = trace.get("marker") or {}
    sizes = _each(marker.get("size"), n, 6)
    symbols = _each(marker.get("symbol"), n, "circle")
    colours = _each(marker.get("color"), n, colour)
    rims = _each(get(marker, "line.color"), n, None)
    widths = _each(get(marker, "line.width"), n, 0)
    opacities = _each(marker.get("opacity", trace.get("opacity")), n, None)
    parts: dict[tuple, list[str]] = {}
    for k in range(n):
        if math.isnan(px[k]) or math.isnan(py[k]) or sizes[k] is None:
            continue
        look = (str(symbols[k]), colours[k], rims[k], widths[k], opacities[k])
        parts.setdefault(look, []).append(_placed(look[0], px[k], py[k], float(sizes[k]) / 2))
    return [_painted("".join(places), *look) for look, places in parts.items()]


def _placed(symbol: str, x: float, y: float, radius: float) -> str:
    """Return the shape of a mark, moved to its place."""
    name = symbol.replace("-open", "").replace("-dot", "")
    if name == "circle":
        a, r = drawing.number(x - radius), drawing.number(radius)
        return (
            f"M{a},{drawing.number(y)}a{r},{r} 0 1 1 {drawing.number(2 * radius)},0"
            f"a{r},{r} 0 1 1 {drawing.number(-2 * radius)},0Z"
        )
    shape = _STROKES.get(name) or SHAPES.get(name) or SHAPES["square"]
    return _moved(shape, x, y, radius) + ("" if name in _STROKES else "Z")


def _moved(shape: str, x: float, y: float, radius: float) -> str:
    """Return a path of SVG, scaled and moved."""
    words, letter, rest = [], "", shape
    while rest:
        letter, end = rest[0], 1
        while end < len(rest) and rest[end] not in "MLHVA":
            end += 1
        numbers = [float(n) for n in rest[1:end].replace(",", " ").split()]
        if letter == "H":
            words.append(f"H{drawing.number(x + numbers[0] * radius)}")
        elif letter == "V":
            words.append(f"V{drawing.number(y + numbers[0] * radius)}")
        else:
            words.append(letter + drawing.point(x + numbers[0] * radius, y + numbers[1] * radius))
        rest = rest[end:]
    return "".join(words)


def _painted(d: str, symbol: str, fill: str, rim: str | None, width: float, opacity: float | None) -> str:
    """Return a mark as SVG."""
    is_open = "-open" in symbol or symbol.split("-open")[0] in _STROKES
    if is_open:
        paint = {"fill": "none", "stroke": fill, "stroke_width": float(width or 1)}
    else:
        paint = {
            "fill": fill, "stroke": rim if width else None, "stroke_width": float(width) if width else None,
        }  # fmt: skip
    return drawing.path(d, **paint, opacity=opacity)


def _texts(trace: Mapping, px: np.ndarray, py: np.ndarray, has_marks: bool) -> list[str]:
    """Return the texts of a trace."""
    n = len(px)
    texts, places = _each(trace.get("text"), n, ""), _each(trace.get("textposition"), n, "middle center")
    hues = _each(get(trace, "textfont.color"), n, theme.INK)
    sizes = _each(get(trace, "textfont.size"), n, 12)
    radii = (
        [float(size or 0) / 2 for size in _each(get(trace, "marker.size"), n, 6)] if has_marks else [0.0] * n
    )
    parts = []
    for k in range(n):
        if texts[k] in (None, "") or math.isnan(px[k]) or math.isnan(py[k]):
            continue
        down, _, along = str(places[k]).partition(" ")
        x = px[k] + radii[k] * {"left": -1, "right": 1}.get(along, 0) + {"left": -3, "right": 3}.get(along, 0)
        y = py[k] + radii[k] * {"top": -1, "bottom": 1}.get(down, 0)
        anchor = {"left": "end", "right": "start"}.get(along, "middle")
        across = {"top": "bottom", "bottom": "top"}.get(down, "middle")
        words = read_words(texts[k])
        parts.append(write_words(x, y, words, size=sizes[k], colour=hues[k], anchor=anchor, across=across))
    return parts


# --- bars ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of a trace in the units of their axes."""

    is_wide: bool  # horizontal
    centres: np.ndarray
    widths: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def bars_of(traces: list[Mapping[str, Any]], axes: list[tuple[Axis, Axis]], layout: Mapping) -> list[Bars]:
    """Return the bars of the traces of one pair of axes, side by side or in the same places."""
    is_group, gap = layout.get("barmode", "group") == "group", float(layout.get("bargap", 0.2))
    places = []
    for trace, (x, y) in zip(traces, axes, strict=True):
        is_wide, (xs, ys) = trace.get("orientation") == "h", coordinates(trace)
        places.append((is_wide, y.place(ys), xs, x) if is_wide else (is_wide, x.place(xs), ys, y))
    room = _step_between([along for _, along, _, _ in places]) * (1 - gap)
    groups = list(dict.fromkeys(trace.get("offsetgroup") or k for k, trace in enumerate(traces)))
    bars = []
    for k, (trace, (is_wide, along, values, length)) in enumerate(zip(traces, places, strict=True)):
        n = min(len(along), len(values))
        along, lengths = along[:n].copy(), np.asarray(values[:n])
        width = np.array(_each(trace.get("width"), n, np.nan), float)
        if trace.get("width") is None:
            width = np.full(n, room)
            if is_group and len(groups) > 1:
                share = room / len(groups)
                along += (groups.index(trace.get("offsetgroup") or k) - (len(groups) - 1) / 2) * share
                width = np.full(n, share)
        if (base := trace.get("base")) is not None:
            starts = length.place(np.array(_each(base, n, 0)))
            ends = starts + np.nan_to_num(np.asarray(lengths, float))
        else:
            starts, ends = np.full(n, np.nan if length.kind == "log" else 0.0), length.place(lengths)
        bars.append(Bars(is_wide, along, width, starts, ends))
    return bars


def _step_between(places: list[np.ndarray]) -> float:
    """Return the least distance between places, or 1 if there is only one."""
    distinct = np.unique(np.concatenate([array[~np.isnan(array)] for array in places] or [np.empty(0)]))
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0


def draw_bars(trace: Mapping[str, Any], bars: Bars, x: Axis, y: Axis, turn: int, page: Page) -> list[str]:
    """Return the bars of a trace."""
    along, length = (y, x) if bars.is_wide else (x, y)
    n, colour = len(bars.centres), colour_of(trace, turn)
    sides = along.scale(bars.centres - bars.widths / 2), along.scale(bars.centres + bars.widths / 2)
    ends = length.scale(np.nan_to_num(bars.starts, nan=length.low)), length.scale(bars.ends)
    fills = _each(get(trace, "marker.color"), n, colour)
    shapes = _each(get(trace, "marker.pattern.shape"), n, "")
    boxes: dict[tuple[str, str], list[str]] = {}
    for k in range(n):
        corners = (sides[0][k], sides[1][k], ends[0][k], ends[1][k])
        if not any(map(math.isnan, corners)):
            a, b, c, d = map(drawing.number, corners)
            box = f"M{c},{a}H{d}V{b}H{c}Z" if bars.is_wide else f"M{a},{c}V{d}H{b}V{c}Z"
            boxes.setdefault((fills[k], shapes[k] or ""), []).append(box)
    rim, width = get(trace, "marker.line.color"), get(trace, "marker.line.width", 0)
    is_line = isinstance(width, (int, float)) and width and isinstance(rim, str)
    looks = {"opacity": get(trace, "marker.opacity", trace.get("opacity"))}
    looks |= {"stroke": rim, "stroke_width": float(width)} if is_line else {}
    drawn = []
    for (fill, shape), places in boxes.items():
        if shape:  # by default the pattern is cut out of the colour
            ground, line = get(trace, "marker.pattern.bgcolor"), get(trace, "marker.pattern.fgcolor")
            is_cut = ground is None and line is None
            line = "rgba(255,255,255,0.75)" if is_cut else line or fill
            fill = page.pattern(shape, fill if is_cut else ground or "none", line)
        drawn.append(drawing.path("".join(places), fill=fill, **looks))
    return drawn + _bar_texts(trace, bars, sides, ends)


def _bar_texts(trace: Mapping, bars: Bars, sides: tuple, ends: tuple) -> list[str]:
    """Return the texts of bars: at their ends, outside unless they are to be inside."""
    n, parts = len(bars.centres), []
    texts, size = _each(trace.get("text"), n, ""), get(trace, "textfont.size", 12)
    sign, hue = -1 if trace.get("textposition") == "inside" else 1, get(trace, "textfont.color", theme.INK)
    for k in range(n):
        if texts[k] in (None, "") or math.isnan(ends[1][k]):
            continue
        middle, end = (sides[0][k] + sides[1][k]) / 2, ends[1][k]
        away = sign * (1 if end >= ends[0][k] else -1)
        looks = {"size": size, "colour": hue, "anchor": "middle"}
        if bars.is_wide:
            x, y, looks["anchor"] = end + 4 * away, middle, "start" if away > 0 else "end"
        else:
            x, y, looks["across"] = middle, end + 2 * away, "top" if away > 0 else "bottom"
        parts.append(write_words(x, y, read_words(texts[k]), **looks))
    return parts


# --- heat maps ----------------------------------------------------------------------------------------------


def _scale_of(given: Any) -> list[tuple[float, tuple[float, ...]]]:
    """Return a colour scale as shares with red, green, blue and alpha; by default from pale to dark."""
    if not isinstance(given, (list, tuple)) or not given:
        given = [(0.0, "#f0f0f0"), (1.0, "#283c5a")]
    return [(float(share), _channels(colour)) for share, colour in given]


def _channels(colour: str) -> tuple[float, ...]:
    if colour.startswith("#"):
        return (*(float(int(colour[k : k + 2], 16)) for k in (1, 3, 5)), 1.0)
    numbers = [float(number) for number in colour[colour.find("(") + 1 : colour.find(")")].split(",")]
    return (*numbers, 1.0)[:4]


def _painted_by(scale: list[tuple[float, tuple[float, ...]]], share: float) -> str:
    """Return the colour of a scale at a share from 0 to 1."""
    shares = [place for place, _ in scale]
    *hue, alpha = (np.interp(share, shares, [colour[k] for _, colour in scale]) for k in range(4))
    return f"rgba({','.join(str(round(float(channel))) for channel in hue)},{alpha:.3g})"


def draw_heatmap(trace: Mapping[str, Any], x: Axis, y: Axis) -> list[str]:
    """Return the cells of a heat map; neighbours in a row with one colour become one rectangle."""
    z = array_of(trace.get("z")).astype(float)
    if z.ndim != 2 or not z.size:
        return []
    xs, ys = coordinates(trace)
    left, top = x.scale(cell_edges(x.place(xs))), y.scale(cell_edges(y.place(ys)))
    finite = z[np.isfinite(z)]
    low = float(trace.get("zmin", finite.min() if finite.size else 0.0))
    high = float(trace.get("zmax", finite.max() if finite.size else 1.0))
    scale = _scale_of(trace.get("colorscale"))
    parts: dict[str, list[str]] = {}
    for row in range(z.shape[0]):
        shares = np.round((z[row] - low) / ((high - low) or 1.0), 2)
        k = 0
        while k < len(shares):
            end = k + 1
            while end < len(shares) and shares[end] == shares[k]:
                end += 1
            if not math.isnan(shares[k] + left[k] + left[end] + top[row] + top[row + 1]):
                box = drawing.rectangles([left[k]], [top[row]], [left[end]], [top[row + 1]])
                parts.setdefault(_painted_by(scale, shares[k]), []).append(box)
            k = end
    return [drawing.path("".join(boxes), fill=fill) for fill, boxes in parts.items()]


def cell_edges(centres: np.ndarray) -> np.ndarray:
    """Return the borders of cells around their centres."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])


# The legend of a plotly figure.

_SIZE, _ROW, _MARK = 12, 19.0, 34.0


@dataclass(frozen=True, slots=True)
class Entry:
    words: FigureText
    trace: Mapping[str, Any]
    turn: int

    @property
    def width(self) -> float:
        return _MARK + self.words.width(_SIZE) + 12


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
    in_order = (member for members in groups.values() for member in members)
    return [Entry(read_words(trace["name"]), trace, k) for k, trace in in_order]


@dataclass(frozen=True, slots=True)
class Legend:
    """The entries and where they are."""

    entries: tuple[Entry, ...]
    given: Mapping[str, Any]
    is_row: bool

    def width(self) -> float:
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
            at = x0 + x, y0 + y + _ROW / 2
            parts.append(write_words(at[0] + _MARK, at[1], entry.words, size=_SIZE))
            parts += _sample(entry, *at, page)
        return parts


def _before(anchor: Any, share: float, low: str, high: str) -> float:
    """Return the share of the legend's own size that is before its place."""
    if anchor in (None, "auto"):
        return 0.0 if share <= 1 / 3 else 1.0 if share >= 2 / 3 else 0.5
    return {low: 0.0, high: 1.0}.get(anchor, 0.5)


def legend_of(layout: Mapping[str, Any], entries: Sequence[Entry]) -> Legend:
    attributes = layout.get("legend") or {}
    return Legend(tuple(entries), attributes, attributes.get("orientation") == "h")


def _sample(entry: Entry, x: float, y: float, page: Page) -> list[str]:
    """Return a short piece of the trace: a line, a mark, or a box."""
    trace, turn = entry.trace, entry.turn
    across = Axis("x", {}, "linear", low=0.0, high=1.0, start=x + 4, end=x + 28)
    along = Axis("y", {}, "linear", low=0.0, high=1.0, start=y + 5, end=y - 5)
    marker = {name: _first(value) for name, value in (trace.get("marker") or {}).items()}
    looks = {name: trace[name] for name in ("line", "opacity") if name in trace} | {"marker": marker}
    if trace["type"] == "bar":
        box = Bars(False, np.array([0.5]), np.array([0.5]), np.array([0.0]), np.array([1.0]))
        return draw_bars({"type": "bar", **looks}, box, across, along, turn, page)
    size = marker.get("size", 6)
    marker["size"] = min(float(size), 14.0) if isinstance(size, (int, float)) else 6
    parts = []
    for mode, xs in (("lines", [0, 1]), ("markers", [0.5])):
        if mode in modes_of(trace):
            piece = {"type": "scatter", **looks, "mode": mode, "x": xs, "y": [0.5] * len(xs)}
            parts += draw_scatter(piece, across, along, turn)
    return parts


def _first(value: Any) -> Any:
    if isinstance(value, Mapping) and "bdata" not in value:
        return {name: _first(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, Mapping)):
        values = array_of(value)
        return values.ravel().tolist()[0] if len(values) else None
    return value
