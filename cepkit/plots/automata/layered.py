"""A picture of a small automaton as SVG text."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping

from cepkit.compile.regex.automaton import States
from cepkit.errors import CepError
from cepkit.plots import theme
from cepkit.plots.automata.automaton import state_tooltip
from cepkit.plots.automata.curves import ARROW, DrawnEdge, draw_edges
from cepkit.plots.automata.places import (
    FONT_SIZE,
    GAP,
    LINE_HEIGHT,
    RADIUS,
    RING,
    StatePlaces,
    places,
    text_width,
)
from cepkit.plots.drawing import number, point
from cepkit.plots.stills.png import Picture

MAX_STATES_DRAWN = 200
MARGIN = 8.0
START_ARROW = 26.0


def automaton_svg(
    states: States, define: Mapping[str, str] | None = None, *, title: str | None = None,
    live: Mapping[int, int] | None = None, lit: Collection[int] = (),
) -> str:  # fmt: skip
    """Return a picture of ``states`` as SVG text.

    Inside a notebook's page it has the colour of the text around it, elsewhere mid-tones.
    """
    if states.n_states > MAX_STATES_DRAWN:
        raise CepError(
            f"automaton_svg: the automaton has {states.n_states} states; a picture has at most "
            f"{MAX_STATES_DRAWN}. automaton_dot gives its DOT text"
        )
    placed = places(states)
    left, top, right, bottom = extent(placed)
    # The room for numbers below is always there, so that nothing jumps.
    bottom += LINE_HEIGHT if live is not None else 0.0
    live = live or {}
    top -= LINE_HEIGHT + GAP if title else 0.0
    right = max(right, left + text_width(title or "") + MARGIN)
    width, height = right - left, bottom - top
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": number(width),
            "height": number(height),
            "viewBox": f"{number(left)} {number(top)} {number(width)} {number(height)}",
        }
        | theme.svg_attributes(title or f"automaton with {states.n_states} states"),
    )
    attributes = {"class": "graph", "font-family": theme.MONOSPACE, "font-size": number(FONT_SIZE)}
    attributes |= {"text-anchor": "middle", "fill": "none", "stroke-width": "1.2"}
    graph = ET.SubElement(root, "g", attributes)
    if title:
        _add_text(graph, left + width / 2, top + LINE_HEIGHT, title)
    _add_start(graph, placed)
    for drawn in draw_edges(placed):
        _add_edge(graph, drawn, define or {})
    for state in range(states.n_states):
        _add_state(graph, placed, states, state, live.get(state, 0), state in lit)
    return Picture(ET.tostring(root, encoding="unicode"))


def extent(placed: StatePlaces) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a picture with the start's arrow and a margin."""
    stops = list(zip(placed.y_of_stop, placed.stops, strict=True))
    top, bottom = min(y - stop.above for y, stop in stops), max(y + stop.below for y, stop in stops)
    return -START_ARROW - MARGIN, top - MARGIN, placed.right_of_column[-1] + MARGIN, bottom + MARGIN


def _add_state(
    graph: ET.Element, placed: StatePlaces, states: States, state: int, n_live: int, is_lit: bool
) -> None:
    accepts = state in states.accepting
    group = ET.SubElement(graph, "g", {"class": "node" + " live" * bool(n_live) + " lit" * is_lit})
    ET.SubElement(group, "title").text = str(state)
    inner = ET.SubElement(group, "g")
    ET.SubElement(inner, "title").text = state_tooltip(states, state) + live_words(n_live, is_lit)
    x, y = placed.centre(state)
    hue = theme.ACCEPT_GREEN if accepts else theme.STATE_BLUE
    circle = {"cx": number(x), "cy": number(y), "stroke": hue, "stroke-width": "4" if is_lit else "1.5"}
    shade = 0.4 if n_live else int(theme.TINT_ALPHA, 16) / 255
    filling = {"fill": hue, "fill-opacity": number(shade)}
    ET.SubElement(inner, "circle", circle | filling | {"r": number(RADIUS)})
    if accepts:
        ET.SubElement(inner, "circle", circle | {"r": number(RADIUS + RING)})
    _add_text(inner, x, y + FONT_SIZE * 0.35, str(state))
    if n_live:
        _add_text(inner, x, y + RADIUS + RING + LINE_HEIGHT - 3, f"{n_live:,}")


def live_words(n_live: int, is_lit: bool) -> str:
    """Return the part of a state's tooltip about live partial matches and the selected match."""
    words = f"; {n_live:,} partial match{'es' if n_live != 1 else ''} live" if n_live else ""
    return words + ("; of the selected match" if is_lit else "")


def _add_start(graph: ET.Element, placed: StatePlaces) -> None:
    group = ET.SubElement(graph, "g", {"class": "edge"})
    ET.SubElement(group, "title").text = "start->0"
    x, y = placed.centre(0)
    tip = x - RADIUS - RING
    _add_line(group, f"M{point(tip - START_ARROW, y)}L{point(tip - ARROW, y)}")
    _add_arrow(group, tip, y, math.pi)


def _add_edge(graph: ET.Element, drawn: DrawnEdge, define: Mapping[str, str]) -> None:
    edge, lines = drawn.edge, drawn.edge.label_lines()
    outer = ET.SubElement(graph, "g", {"class": "edge"})
    ET.SubElement(outer, "title").text = f"{edge.source}->{edge.target}"
    group = ET.SubElement(outer, "g")
    ET.SubElement(group, "title").text = edge.tooltip(define)
    _add_line(group, drawn.path)
    _add_arrow(group, *drawn.tip, drawn.angle)
    x, y_of_last_line = drawn.label_at
    for above, line in zip(range(len(lines))[::-1], lines, strict=True):
        _add_text(group, x, y_of_last_line - LINE_HEIGHT * above, line)


def _add_line(group: ET.Element, path: str) -> None:
    ET.SubElement(group, "path", {"d": path, "stroke": "currentColor"})


def _add_arrow(group: ET.Element, x: float, y: float, angle: float) -> None:
    """Add an arrow head with its tip at (x, y) that comes from direction ``angle``."""
    corners = [(x, y)]
    for turn in (-0.42, 0.42):
        reach = ARROW / math.cos(turn)
        corners.append((x + reach * math.cos(angle + turn), y + reach * math.sin(angle + turn)))
    points = " ".join(point(*corner) for corner in corners)
    ET.SubElement(group, "polygon", {"points": points, "fill": "currentColor"})


def _add_text(group: ET.Element, x: float, y: float, text: str) -> None:
    ET.SubElement(group, "text", {"x": number(x), "y": number(y), "fill": "currentColor"}).text = text
