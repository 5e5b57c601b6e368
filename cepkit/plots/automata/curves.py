"""The lines of an automaton's edges, from the source state to the target state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cepkit.plots.automata.automaton import Edge
from cepkit.plots.automata.places import CURVE, LOOP_HEIGHT, RADIUS, Route, StatePlaces
from cepkit.plots.drawing import point

ARROW = 7.0
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """The line of an edge, from ``start`` at its source to the beginning of its arrow head.

    A piece is a curve (two control points and an end) or a straight line (an end). The arrow head points in
    direction ``angle`` to ``tip``. ``label_at`` is the middle of the base line of the label's last line.

    """

    edge: Edge
    start: Point
    pieces: tuple[tuple[Point, ...], ...]
    tip: Point
    angle: float
    label_at: Point

    @property
    def path(self) -> str:
        """The line as the ``d`` of an SVG path."""
        said = [f"M{point(*self.start)}"]
        for piece in self.pieces:
            said.append(("C" if len(piece) == 3 else "L") + " ".join(point(*of) for of in piece))
        return "".join(said)


def draw_edges(placed: StatePlaces) -> list[DrawnEdge]:
    """Return the lines of all edges between states, then those of the loops."""
    return [
        *(_route_line(placed, route) for route in placed.routes),
        *(_loop_line(placed, edge) for edge in placed.loops),
    ]


def _route_line(placed: StatePlaces, route: Route) -> DrawnEdge:
    ys = [placed.y_of_stop[stop] for stop in route.stops]
    columns = [placed.stops[stop].column for stop in route.stops]
    lefts = [placed.left_of_column[column] for column in columns]
    rights = [placed.right_of_column[column] for column in columns]
    left, right = placed.centre(route.stops[0]), placed.centre(route.stops[-1])
    left_port, right_port = _port(left, (lefts[1], ys[1])), _port(right, (rights[-2], ys[-2]))
    start = beside(left, left_port, ARROW if route.backward else 0)
    before, pieces = beside(left, left_port, CURVE * 0.6), []
    for k in range(1, len(ys) - 1):
        pieces.append((before, (lefts[k] - CURVE * 0.5, ys[k]), (lefts[k], ys[k])))
        pieces.append(((rights[k], ys[k]),))
        before = (rights[k] + CURVE * 0.5, ys[k])
    end = beside(right, right_port, 0 if route.backward else ARROW)
    pieces.append((before, beside(right, right_port, CURVE * 0.6), end))
    centre, port = (left, left_port) if route.backward else (right, right_port)
    k = route.stops.index(route.label_at)
    if route.backward:
        start, pieces = _reverse(start, pieces)
    label = (lefts[k] + rights[k]) / 2, ys[k] - 5
    return DrawnEdge(route.edge, start, tuple(pieces), beside(centre, port, 0), port, label)


def _loop_line(placed: StatePlaces, edge: Edge) -> DrawnEdge:
    centre = x, y = placed.centre(edge.source)
    leaving, arriving = -0.68 * math.pi, -0.32 * math.pi
    top = y - RADIUS - LOOP_HEIGHT * 1.15
    piece = (x - 20, top), (x + 20, top), beside(centre, arriving, ARROW)
    label = x, y - RADIUS - LOOP_HEIGHT + 2
    tip = beside(centre, arriving, 0)
    return DrawnEdge(edge, beside(centre, leaving, 0), (piece,), tip, arriving, label)


def beside(centre: Point, angle: float, distance: float) -> Point:
    """Return the point at ``distance`` from the rim of a state's circle."""
    reach = RADIUS + distance
    return centre[0] + reach * math.cos(angle), centre[1] + reach * math.sin(angle)


def _port(centre: Point, towards: Point) -> float:
    """Return the direction in which a line leaves a circle: to its first stop, at most 55 degrees steep."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    steepest = math.radians(55)
    angle = max(-steepest, min(steepest, math.atan2(dy, abs(dx))))
    return angle if dx > 0 else math.pi - angle


def _reverse(start: Point, pieces: list[tuple[Point, ...]]) -> tuple[Point, list[tuple[Point, ...]]]:
    ends = [start, *(piece[-1] for piece in pieces)]
    made = [(*piece[-2::-1], end) for piece, end in zip(pieces, ends, strict=False)]
    return ends[-1], made[::-1]
