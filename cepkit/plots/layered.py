"""A picture of a small automaton drawn in Python, for machines without Graphviz."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

from cepkit.compile.automaton import States
from cepkit.plots import theme
from cepkit.plots.automaton import Edge, state_tooltip
from cepkit.plots.places import (
    CURVE,
    FONT_SIZE,
    GAP,
    LINE_HEIGHT,
    LOOP_HEIGHT,
    RADIUS,
    RING,
    Places,
    Route,
    places,
    text_width,
)

MARGIN = 8.0
ARROW = 7.0
START_ARROW = 26.0


def layered_svg(states: States, define: Mapping[str, str] | None = None, *, title: str | None = None) -> str:
    """Return a picture of ``states`` as SVG text, laid out in Python.

    Parameters
    ----------
    states : cepkit.compile.automaton.States
        The automaton; meant for up to some 30 states.
    define : mapping of str to str, optional
        Text of each predicate, for the tooltips of the edges.
    title : str, optional
        A line above the picture.

    Returns
    -------
    str
        One ``<svg>`` element with Graphviz's groups and classes; the same automaton gives the same text.
    """
    placed = places(states)
    left, top, right, bottom = extent(placed)
    top -= LINE_HEIGHT + GAP if title else 0.0
    right = max(right, left + text_width(title or "") + MARGIN)
    width, height = right - left, bottom - top
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": _number(width),
            "height": _number(height),
            "viewBox": f"{_number(left)} {_number(top)} {_number(width)} {_number(height)}",
        }
        | theme.svg_attributes(title or f"automaton with {states.n_states} states"),
    )
    graph = ET.SubElement(
        root,
        "g",
        {
            "class": "graph",
            "font-family": theme.MONOSPACE,
            "font-size": _number(FONT_SIZE),
            "text-anchor": "middle",
            "fill": "none",
            "stroke-width": "1.2",
        },
    )
    if title:
        _add_text(graph, left + width / 2, top + LINE_HEIGHT, title)
    _add_start(graph, placed)
    for drawn in drawn_edges(placed):
        _add_edge(graph, drawn, define or {})
    for state in range(states.n_states):
        _add_state(graph, placed, states, state)
    return ET.tostring(root, encoding="unicode")


def extent(placed: Places) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a picture, the start's arrow and a margin included."""
    stops = list(zip(placed.y_of_stop, placed.stops, strict=True))
    top, bottom = min(y - stop.above for y, stop in stops), max(y + stop.below for y, stop in stops)
    return -START_ARROW - MARGIN, top - MARGIN, placed.right_of_column[-1] + MARGIN, bottom + MARGIN


def _add_state(graph: ET.Element, placed: Places, states: States, state: int) -> None:
    accepts = state in states.accepting
    group = ET.SubElement(graph, "g", {"class": "node"})
    ET.SubElement(group, "title").text = str(state)
    inner = ET.SubElement(group, "g")
    ET.SubElement(inner, "title").text = state_tooltip(states, state)
    x, y = placed.centre(state)
    hue = theme.ACCEPT_GREEN if accepts else theme.STATE_BLUE
    circle = {"cx": _number(x), "cy": _number(y), "stroke": hue, "stroke-width": "1.5"}
    filling = {"fill": hue, "fill-opacity": _number(int(theme.TINT_ALPHA, 16) / 255)}
    ET.SubElement(inner, "circle", circle | filling | {"r": _number(RADIUS)})
    if accepts:
        ET.SubElement(inner, "circle", circle | {"r": _number(RADIUS + RING)})
    _add_text(inner, x, y + FONT_SIZE * 0.35, str(state))


def _add_start(graph: ET.Element, placed: Places) -> None:
    group = ET.SubElement(graph, "g", {"class": "edge"})
    ET.SubElement(group, "title").text = "start->0"
    x, y = placed.centre(0)
    tip = x - RADIUS - RING
    _add_line(group, f"M{_point(tip - START_ARROW, y)}L{_point(tip - ARROW, y)}")
    _add_arrow(group, tip, y, math.pi)


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """The line of an edge, which ends where the arrow's head begins, and where its label stands."""

    edge: Edge
    path: str
    tip: tuple[float, float]  # of the arrow's head
    angle: float  # the direction from which it comes
    label_at: tuple[float, float]  # centre of the last line


def drawn_edges(placed: Places) -> list[DrawnEdge]:
    """Return the lines of all edges, first those between states, then the loops."""
    return [
        *(_route_line(placed, route) for route in placed.routes),
        *(_loop_line(placed, edge) for edge in placed.loops),
    ]


def _route_line(placed: Places, route: Route) -> DrawnEdge:
    ys = [placed.y_of_stop[stop] for stop in route.stops]
    columns = [placed.stops[stop].column for stop in route.stops]
    lefts = [placed.left_of_column[column] for column in columns]
    rights = [placed.right_of_column[column] for column in columns]
    first, last = route.stops[0], route.stops[-1]
    left_port = _port(placed.centre(first), (lefts[1], ys[1]))
    right_port = _port(placed.centre(last), (rights[-2], ys[-2]))
    path = [f"M{_point(*_beside(placed.centre(first), left_port, ARROW if route.backward else 0))}"]
    before = _beside(placed.centre(first), left_port, CURVE * 0.6)
    for k in range(1, len(ys) - 1):
        path.append(f"C{_point(*before)} {_point(lefts[k] - CURVE * 0.5, ys[k])} {_point(lefts[k], ys[k])}")
        path.append(f"L{_point(rights[k], ys[k])}")
        before = (rights[k] + CURVE * 0.5, ys[k])
    after = _beside(placed.centre(last), right_port, CURVE * 0.6)
    end = _beside(placed.centre(last), right_port, 0 if route.backward else ARROW)
    path.append(f"C{_point(*before)} {_point(*after)} {_point(*end)}")
    tip_state, port = (first, left_port) if route.backward else (last, right_port)
    k = route.stops.index(route.label_at)
    tip, label_at = _beside(placed.centre(tip_state), port, 0), ((lefts[k] + rights[k]) / 2, ys[k] - 5)
    return DrawnEdge(route.edge, "".join(path), tip, port, label_at)


def _loop_line(placed: Places, edge: Edge) -> DrawnEdge:
    centre = x, y = placed.centre(edge.source)
    leaving, arriving = -0.68 * math.pi, -0.32 * math.pi
    top = y - RADIUS - LOOP_HEIGHT * 1.15
    start, end = _beside(centre, leaving, 0), _beside(centre, arriving, ARROW)
    path = f"M{_point(*start)}C{_point(x - 20, top)} {_point(x + 20, top)} {_point(*end)}"
    return DrawnEdge(edge, path, _beside(centre, arriving, 0), arriving, (x, y - RADIUS - LOOP_HEIGHT + 2))


def _add_edge(graph: ET.Element, drawn: DrawnEdge, define: Mapping[str, str]) -> None:
    group = _edge_group(graph, drawn.edge, define)
    _add_line(group, drawn.path)
    _add_arrow(group, *drawn.tip, drawn.angle)
    _add_label(group, *drawn.label_at, drawn.edge)


def _edge_group(graph: ET.Element, edge: Edge, define: Mapping[str, str]) -> ET.Element:
    group = ET.SubElement(graph, "g", {"class": "edge"})
    ET.SubElement(group, "title").text = f"{edge.source}->{edge.target}"
    inner = ET.SubElement(group, "g")
    ET.SubElement(inner, "title").text = edge.tooltip(define)
    return inner


def _add_line(group: ET.Element, path: str) -> None:
    ET.SubElement(group, "path", {"d": path, "stroke": "currentColor"})


def _add_arrow(group: ET.Element, x: float, y: float, angle: float) -> None:
    """Add an arrow head with its tip at (x, y) that comes from direction ``angle``."""
    corners = [(x, y)]
    for turn in (-0.42, 0.42):
        reach = ARROW / math.cos(turn)
        corners.append((x + reach * math.cos(angle + turn), y + reach * math.sin(angle + turn)))
    points = " ".join(_point(*corner) for corner in corners)
    ET.SubElement(group, "polygon", {"points": points, "fill": "currentColor"})


def _add_label(group: ET.Element, x: float, y_of_last_line: float, edge: Edge) -> None:
    lines = edge.label_lines()
    for k, line in enumerate(lines):
        _add_text(group, x, y_of_last_line - LINE_HEIGHT * (len(lines) - 1 - k), line)


def _add_text(group: ET.Element, x: float, y: float, text: str) -> None:
    ET.SubElement(group, "text", {"x": _number(x), "y": _number(y), "fill": "currentColor"}).text = text


def _port(centre: tuple[float, float], towards: tuple[float, float]) -> float:
    """Return the direction in which a line leaves a circle: to its first stop, but not too steep."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    steepest = math.radians(55)
    angle = max(-steepest, min(steepest, math.atan2(dy, abs(dx))))
    return angle if dx > 0 else math.pi - angle


def _beside(centre: tuple[float, float], angle: float, distance: float) -> tuple[float, float]:
    """Return the point at ``distance`` from the rim of a state's circle."""
    reach = RADIUS + distance
    return centre[0] + reach * math.cos(angle), centre[1] + reach * math.sin(angle)


def _number(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}"


def _point(x: float, y: float) -> str:
    return f"{_number(x)},{_number(y)}"
