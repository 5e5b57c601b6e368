"""Traces of a plotly figure as SVG: lines, marks, texts, areas, bars and heat maps."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np

from cepkit.plots import drawing, theme
from cepkit.plots.stills.axes import Axis, array_of, get

# Plotly's texts, which have a few HTML tags, as SVG text.

LINE_HEIGHT = 1.3  # of the font size, as plotly has it
_LOOKS = {
    "b": ' font-weight="bold"',
    "i": ' font-style="italic"',
    "sup": ' baseline-shift="super" font-size="70%"',
    "sub": ' baseline-shift="sub" font-size="70%"',
}


@dataclass(frozen=True, slots=True)
class FigureText:
    """A text of plotly: the lines as SVG, and their lengths in characters."""

    lines: tuple[str, ...]
    lengths: tuple[int, ...]

    def width(self, size: float) -> float:
        """Return the approximate width in pixels at a font size."""
        return max(self.lengths, default=0) * drawing.ADVANCE * size

    def height(self, size: float) -> float:
        """Return the height in pixels at a font size."""
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
    "dot": "2 3", "dash": "7 5", "longdash": "11 5", "dashdot": "7 4 2 4", "longdashdot": "11 4 2 4",
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
    "triangle-left": "M-1.2,0L0.8,1.15V-1.15",
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
_STROKES = {  # of marks that are lines
    "line-ew": "M-1.4,0H1.4", "line-ns": "M0,-1.4V1.4", "cross-thin": "M-1.4,0H1.4M0,-1.4V1.4",
    "x-thin": "M-1,-1L1,1M-1,1L1,-1",
}  # fmt: skip
_PATTERNS = {
    "/": "M-2,2L2,-2M0,8L8,0M6,10L10,6", "\\": "M-2,6L2,10M0,0L8,8M6,-2L10,2", "x": "M0,8L8,0M0,0L8,8",
    "-": "M0,4H8", "|": "M4,0V8", "+": "M0,4H8M4,0V8", ".": "M4,2.6A1.4,1.4 0 1 1 3.9,2.6Z",
}  # fmt: skip


@dataclass(slots=True)
class Page:
    """What traces share: their colours in turn, and the definitions of the file."""

    definitions: list[str]
    patterns: dict[tuple, str]

    def pattern(self, shape: str, ground: str, line: str) -> str:
        """Return the paint of a pattern."""
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
    """Return the values of a trace on both axes; a missing list counts from ``x0`` or 0."""
    x, y = array_of(trace.get("x")), array_of(trace.get("y"))
    if trace["type"] == "heatmap":
        n_rows, n_columns = (*array_of(trace.get("z")).shape, 0, 0)[:2]
        return (
            x if len(x) else float(trace.get("x0") or 0) + np.arange(n_columns) * float(trace.get("dx") or 1),
            y if len(y) else float(trace.get("y0") or 0) + np.arange(n_rows) * float(trace.get("dy") or 1),
        )
    if not len(x) and trace.get("x") is None:
        x = float(trace.get("x0") or 0) + np.arange(len(y)) * float(trace.get("dx") or 1)
    if not len(y) and trace.get("y") is None:
        y = float(trace.get("y0") or 0) + np.arange(len(x)) * float(trace.get("dy") or 1)
    return x, y


# --- scatter ------------------------------------------------------------------------------------------------


def draw_scatter(
    trace: Mapping[str, Any], x: Axis, y: Axis, turn: int, page: Page, before: np.ndarray | None
) -> tuple[list[str], np.ndarray]:
    """Return the parts of a scatter trace, and its points in pixels for an area of the next trace."""
    xs, ys = coordinates(trace)
    px, py = x.pixels(xs), y.pixels(ys)
    n = min(len(px), len(py))
    px, py = px[:n], py[:n]
    colour, modes, parts = colour_of(trace, turn), modes_of(trace), []
    stepped = _stepped(px, py, get(trace, "line.shape", "linear"))
    if fill := trace.get("fill"):
        parts += _area(trace, stepped, fill, x, y, colour, page, before)
    if "lines" in modes:
        lx, ly = stepped
        if trace.get("connectgaps"):
            is_there = ~(np.isnan(lx) | np.isnan(ly))
            lx, ly = lx[is_there], ly[is_there]
        if len(lx) and (np.diff(lx[~np.isnan(lx)]) >= 0).all() and not np.isnan(lx).any():
            lx, ly = drawing.extremes(lx, ly)
        width = get(trace, "line.width", 2)
        parts.append(
            drawing.path(
                drawing.line(lx, ly), fill="none", stroke=get(trace, "line.color", colour),
                stroke_width=float(width), stroke_dasharray=_dash(get(trace, "line.dash")),
                stroke_linejoin="round",
            )
        )  # fmt: skip
    if "markers" in modes:
        parts += _marks(trace, px, py, colour)
    if "text" in modes:
        parts += _texts(trace, px, py, colour, "markers" in modes)
    return parts, np.stack(stepped)


def _stepped(px: np.ndarray, py: np.ndarray, shape: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a line whose steps are "hv" or "vh"."""
    if shape not in ("hv", "vh") or len(px) < 2:
        return px, py
    twice_x, twice_y = np.repeat(px, 2), np.repeat(py, 2)
    return (twice_x[1:], twice_y[:-1]) if shape == "hv" else (twice_x[:-1], twice_y[1:])


def _dash(given: Any) -> str | None:
    if given in (None, "solid"):
        return None
    return DASHES.get(given, str(given).replace("px", "").replace(",", " "))


def _area(
    trace: Mapping, line: tuple, fill: str, x: Axis, y: Axis, colour: str, page: Page,
    before: np.ndarray | None,
) -> list[str]:  # fmt: skip
    px, py = line
    is_there = ~(np.isnan(px) | np.isnan(py))
    px, py = px[is_there], py[is_there]
    if len(px) < 2:
        return []
    if fill == "tonexty" and before is not None:
        other = before[:, ~np.isnan(before).any(axis=0)]
        px, py = np.concatenate([px, other[0][::-1]]), np.concatenate([py, other[1][::-1]])
    elif fill in ("tozeroy", "tonexty"):
        zero = float(y.scale(0.0)) if y.kind != "log" else y.start
        px, py = np.concatenate([px, px[[-1, 0]]]), np.concatenate([py, [zero, zero]])
    elif fill in ("tozerox", "tonextx"):
        zero = float(x.scale(0.0)) if x.kind != "log" else x.start
        px, py = np.concatenate([px, [zero, zero]]), np.concatenate([py, py[[-1, 0]]])
    paint, opacity = trace.get("fillcolor"), None
    if not paint:
        paint, opacity = colour, 0.5
    if shape := get(trace, "fillpattern.shape"):
        ground = get(trace, "fillpattern.bgcolor", "none")
        paint, opacity = page.pattern(shape, ground, get(trace, "fillpattern.fgcolor", paint)), None
    return [drawing.path(drawing.line(px, py) + "Z", fill=paint, fill_opacity=opacity, stroke="none")]


def _each(given: Any, n: int, default: Any) -> list[Any]:
    """Return one value per point, from one value or a list."""
    if given is None or isinstance(given, (str, int, float)):
        return [default if given is None else given] * n
    values = array_of(given).tolist()
    return [*values[:n], *[default] * (n - len(values))]


def _marks(trace: Mapping, px: np.ndarray, py: np.ndarray, colour: str) -> list[str]:
    n = len(px)
    marker = trace.get("marker") or {}
    sizes = _each(marker.get("size"), n, 6)
    symbols = _each(marker.get("symbol"), n, "circle")
    colours = _colours(marker, n, colour)
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
    is_open = "-open" in symbol or symbol.split("-open")[0] in _STROKES
    if is_open:
        paint = {"fill": "none", "stroke": fill, "stroke_width": float(width or 1)}
    else:
        paint = {
            "fill": fill,
            "stroke": rim if width else None,
            "stroke_width": float(width) if width else None,
        }
    return drawing.path(d, **paint, opacity=opacity)


def _colours(marker: Mapping, n: int, colour: str) -> list[str]:
    colours = _each(marker.get("color"), n, colour)
    if not colours or isinstance(colours[0], str):
        return [value or colour for value in colours]
    low, high = marker.get("cmin", min(colours)), marker.get("cmax", max(colours))
    scale = scale_of(marker.get("colorscale"))
    return [painted_by(scale, (value - low) / ((high - low) or 1)) for value in colours]


def _texts(trace: Mapping, px: np.ndarray, py: np.ndarray, colour: str, has_marks: bool) -> list[str]:
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
    """Return the bars of the traces of one pair of axes, side by side or on top of each other."""
    mode, gap = layout.get("barmode", "group"), float(layout.get("bargap", 0.2))
    bars: list[Bars] = []
    tops: dict[tuple, float] = {}
    places = []
    for trace, (x, y) in zip(traces, axes, strict=True):
        is_wide = trace.get("orientation") == "h"
        xs, ys = coordinates(trace)
        along, length = (y.place(ys), x) if is_wide else (x.place(xs), y)
        values = xs if is_wide else ys
        places.append((is_wide, along, values, length))
    step = _step_between([along for _, along, _, _ in places])
    groups = list(dict.fromkeys(trace.get("offsetgroup") or k for k, trace in enumerate(traces)))
    for k, (trace, (is_wide, along, values, length)) in enumerate(zip(traces, places, strict=True)):
        n = min(len(along), len(values))
        along, lengths = along[:n].copy(), np.asarray(values[:n])
        wanted_width = trace.get("width")
        width = np.array(_each(wanted_width, n, np.nan), float)
        if wanted_width is None:
            width = np.full(n, step * (1 - gap))
            if mode == "group" and len(groups) > 1:
                share = step * (1 - gap) / len(groups)
                along += (groups.index(trace.get("offsetgroup") or k) - (len(groups) - 1) / 2) * share
                width = np.full(n, share * (1 - float(layout.get("bargroupgap", 0))))
        base = trace.get("base")
        if base is not None:
            starts = length.place(np.array(_each(base, n, 0)))
            spans = np.nan_to_num(np.asarray(lengths, float))
            ends = starts + spans
        else:
            ends = length.place(lengths)
            starts = np.full(n, np.nan if length.kind == "log" else 0.0)
            if mode in ("stack", "relative"):
                for i in range(n):
                    key = (is_wide, float(along[i]), bool(ends[i] < 0))
                    starts[i] = tops.get(key, 0.0)
                    ends[i] += starts[i]
                    tops[key] = ends[i]
        bars.append(Bars(is_wide, along, width, starts, ends))
    return bars


def _step_between(places: list[np.ndarray]) -> float:
    distinct = np.unique(np.concatenate([array[~np.isnan(array)] for array in places] or [np.empty(0)]))
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0


def draw_bars(trace: Mapping[str, Any], bars: Bars, x: Axis, y: Axis, turn: int, page: Page) -> list[str]:
    """Return the parts of a trace of bars."""
    along, length = (y, x) if bars.is_wide else (x, y)
    n = len(bars.centres)
    sides = along.scale(bars.centres - bars.widths / 2), along.scale(bars.centres + bars.widths / 2)
    ends = length.scale(np.nan_to_num(bars.starts, nan=length.low)), length.scale(bars.ends)
    colour, parts = colour_of(trace, turn), {}
    fills = _colours(trace.get("marker") or {}, n, colour)
    shapes = _each(get(trace, "marker.pattern.shape"), n, "")
    opacity = get(trace, "marker.opacity", trace.get("opacity"))
    for k in range(n):
        corners = (sides[0][k], sides[1][k], ends[0][k], ends[1][k])
        if any(math.isnan(corner) for corner in corners):
            continue
        a, b, c, d = (drawing.number(corner) for corner in corners)
        box = f"M{c},{a}H{d}V{b}H{c}Z" if bars.is_wide else f"M{a},{c}V{d}H{b}V{c}Z"
        parts.setdefault((fills[k], shapes[k] or ""), []).append(box)
    rim = get(trace, "marker.line.color")
    width = get(trace, "marker.line.width", 0)
    is_line = isinstance(width, (int, float)) and width and isinstance(rim, str)
    drawn = []
    for (fill, shape), boxes in parts.items():
        if shape:
            ground = get(trace, "marker.pattern.bgcolor")
            line = get(trace, "marker.pattern.fgcolor")
            solid = not (isinstance(ground, str) or isinstance(line, str))
            # Plotly's default: the pattern is cut out of the colour.
            fill = page.pattern(
                shape, fill if solid else ground if isinstance(ground, str) else "none",
                "rgba(255,255,255,0.75)" if solid else line if isinstance(line, str) else fill,
            )  # fmt: skip
        drawn.append(
            drawing.path(
                "".join(boxes), fill=fill, opacity=opacity, stroke=rim if is_line else None,
                stroke_width=float(width) if is_line else None,
            )
        )  # fmt: skip
    return drawn + _bar_texts(trace, bars, sides, ends)


def _bar_texts(trace: Mapping, bars: Bars, sides: tuple, ends: tuple) -> list[str]:
    place = trace.get("textposition", "auto")
    if trace.get("text") is None or place == "none":
        return []
    n, parts = len(bars.centres), []
    texts, size = _each(trace.get("text"), n, ""), get(trace, "textfont.size", 12)
    hue = get(trace, "textfont.color", theme.INK)
    for k in range(n):
        if texts[k] in (None, "") or math.isnan(ends[1][k]):
            continue
        middle, end = (sides[0][k] + sides[1][k]) / 2, ends[1][k]
        sign = -1 if place == "inside" else 1
        away = sign * (1 if ends[1][k] >= ends[0][k] else -1)
        words = read_words(texts[k])
        if bars.is_wide:
            anchor = "start" if away > 0 else "end"
            parts.append(write_words(end + 4 * away, middle, words, size=size, colour=hue, anchor=anchor))
        else:
            across = "top" if away > 0 else "bottom"
            parts.append(
                write_words(
                    middle, end + 2 * away, words, size=size, colour=hue, anchor="middle", across=across
                )
            )
    return parts


# --- heat maps ----------------------------------------------------------------------------------------------

_GREYS = [(0.0, (240, 240, 240)), (1.0, (40, 60, 90))]


def scale_of(given: Any) -> list[tuple[float, tuple[float, ...]]]:
    """Return a colour scale as shares with red, green, blue (and alpha)."""
    if not isinstance(given, (list, tuple)) or not given:
        return _GREYS
    return [(float(share), _channels(colour)) for share, colour in given]


def _channels(colour: str) -> tuple[float, ...]:
    if colour.startswith("#"):
        digits = colour[1:] if len(colour) > 4 else "".join(2 * digit for digit in colour[1:])
        channels = [int(digits[k : k + 2], 16) for k in range(0, len(digits), 2)]
        return (*map(float, channels[:3]), channels[3] / 255 if len(channels) > 3 else 1.0)
    numbers = [float(number) for number in colour[colour.find("(") + 1 : colour.find(")")].split(",")]
    return (*numbers[:3], numbers[3] if len(numbers) > 3 else 1.0)


def painted_by(scale: list[tuple[float, tuple[float, ...]]], share: float) -> str:
    """Return the colour of a share of a colour scale."""
    share = min(max(share, 0.0), 1.0)
    shares = [place for place, _ in scale]
    channels = [np.interp(share, shares, [(*colour, 1.0)[k] for _, colour in scale]) for k in range(4)]
    red, green, blue = (round(float(channel)) for channel in channels[:3])
    return f"rgba({red},{green},{blue},{channels[3]:.3g})"


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
    scale = scale_of(trace.get("colorscale"))
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
                parts.setdefault(painted_by(scale, shares[k]), []).append(box)
            k = end
    return [drawing.path("".join(boxes), fill=fill) for fill, boxes in parts.items()]


def cell_edges(centres: np.ndarray) -> np.ndarray:
    """Return the borders of cells around their centres."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])
