"""A picture of a small automaton as SVG: places of states, lines of edges, and labels."""

from __future__ import annotations

import html
import math
import re
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from cepkit.compile.regex.automaton import States
from cepkit.errors import CepError
from cepkit.plots import drawing, theme
from cepkit.plots.automata.automaton import Edge, edges, state_tooltip
from cepkit.plots.drawing import number, point

# Places of the states, edges and labels of a small automaton, from left to right.
#
# The column of a state is the length of the longest path to it. A column of labels lies between two columns
# of states, so that every label has its own room. An edge has a stop in each column that it passes. Columns
# are ordered by barycentres and spaced by isotonic regression.

RADIUS = 17.0
RING = 4.0  # distance between the two circles of an accepting state
FONT_SIZE = 13.0
LINE_HEIGHT = 16.0
LOOP_HEIGHT = 30.0  # from the centre of a state to the top of its loop, beyond the radius
CURVE = 26.0  # least width between two columns, where lines bend; the greatest is twice as much
GAP = 12.0  # least distance between neighbours in a column
SWEEPS = 24


@dataclass(frozen=True, slots=True)
class Stop:
    """A place in a column: a state, or a point of an edge."""

    column: int  # even: states; odd: labels
    above: float  # room above the line through the stop
    below: float
    width: float


@dataclass(frozen=True, slots=True)
class Route:
    """An edge and the stops that it passes, from left to right."""

    edge: Edge
    stops: tuple[int, ...]  # begins and ends with a state
    backward: bool  # the arrow points to the left end
    label_at: int  # the stop that carries the label

    def weights(self) -> list[float]:
        """Return how strongly each piece should be level: the main line, then long edges, then their ends."""
        n_pieces = len(self.stops) - 1
        if n_pieces == 2:
            return [1.0, 1.0] if self.backward else [1000.0, 1000.0]
        return [1.0, *[10.0] * (n_pieces - 2), 1.0]


@dataclass(frozen=True, slots=True)
class StatePlaces:
    """The layout of an automaton; the first stops are the states, in their order."""

    stops: tuple[Stop, ...]
    routes: tuple[Route, ...]
    loops: tuple[Edge, ...]
    y_of_stop: tuple[float, ...]
    left_of_column: tuple[float, ...]
    right_of_column: tuple[float, ...]

    def centre(self, state: int) -> tuple[float, float]:
        """Return x and y of the centre of a state's circle."""
        column = self.stops[state].column
        return (self.left_of_column[column] + self.right_of_column[column]) / 2, self.y_of_stop[state]


def places(states: States) -> StatePlaces:
    """Return the places of states, labels and edges, which do not overlap.

    Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures",
    IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981.
    Differs: labels have columns of their own, and the spacing is a weighted isotonic regression.
    """
    all_edges = edges(states)
    loops = tuple(edge for edge in all_edges if edge.source == edge.target)
    rank_of_state = _ranks(states.n_states, all_edges)
    stops = [_state_stop(state, rank_of_state[state], loops) for state in range(states.n_states)]
    routes = [_route(edge, rank_of_state, stops) for edge in all_edges if edge.source != edge.target]
    columns = _order_columns(stops, routes)
    y_of_stop = _space_stops(columns, stops, routes)
    climb_after_column = [0.0] * len(columns)
    for route in routes:
        for left, right in pairwise(route.stops):
            climb = abs(y_of_stop[left] - y_of_stop[right])
            column = stops[left].column
            climb_after_column[column] = max(climb_after_column[column], climb)
    left_of_column, right_of_column, x = [], [], 0.0
    for column, climb in zip(columns, climb_after_column, strict=True):
        left_of_column.append(x)
        x += max((stops[stop].width for stop in column), default=0.0)
        right_of_column.append(x)
        x += min(max(CURVE, climb * 0.4), 2 * CURVE)
    return StatePlaces(
        tuple(stops), tuple(routes), loops, tuple(y_of_stop), tuple(left_of_column), tuple(right_of_column)
    )


def text_width(text: str) -> float:
    """Return the width of ``text`` in the monospaced font of all pictures."""
    return theme.MONOSPACE_ADVANCE * FONT_SIZE * len(text)


def _ranks(n_states: int, all_edges: Iterable[Edge]) -> list[int]:
    """Return the length of the longest path to each state, without edges that close a cycle."""
    successors: list[list[int]] = [[] for _ in range(n_states)]
    for edge in all_edges:
        if edge.source != edge.target:
            successors[edge.source].append(edge.target)
    forward: list[list[int]] = [[] for _ in range(n_states)]
    finished: list[int] = []
    entered, on_way = set(), set()
    for root in range(n_states):
        if root in entered:
            continue
        way = [(root, iter(successors[root]))]
        entered.add(root)
        on_way.add(root)
        while way:
            state, following = way[-1]
            target = next(following, None)
            if target is None:
                way.pop()
                on_way.remove(state)
                finished.append(state)
            elif target not in on_way:
                forward[state].append(target)
                if target not in entered:
                    entered.add(target)
                    on_way.add(target)
                    way.append((target, iter(successors[target])))
    rank_of_state = [0] * n_states
    for state in reversed(finished):
        for target in forward[state]:
            rank_of_state[target] = max(rank_of_state[target], rank_of_state[state] + 1)
    return rank_of_state


def _state_stop(state: int, rank: int, loops: Iterable[Edge]) -> Stop:
    outer = RADIUS + RING
    lines = next((edge.label_lines() for edge in loops if edge.source == state), [])
    if not lines:
        return Stop(2 * rank, outer, outer, 2 * outer)
    above = RADIUS + LOOP_HEIGHT + LINE_HEIGHT * len(lines)
    return Stop(2 * rank, above, outer, max(2 * outer, *map(text_width, lines)))


def _route(edge: Edge, rank_of_state: list[int], stops: list[Stop]) -> Route:
    """Return the route of ``edge`` and append its stops to ``stops``."""
    backward = rank_of_state[edge.target] < rank_of_state[edge.source]
    left, right = (edge.target, edge.source) if backward else (edge.source, edge.target)
    first_column, last_column = 2 * rank_of_state[left] + 1, 2 * rank_of_state[right] - 1
    label_column = last_column if backward else first_column
    lines = edge.label_lines()
    passed = range(len(stops), len(stops) + last_column - first_column + 1)
    for column in range(first_column, last_column + 1):
        width = max(map(text_width, lines)) if column == label_column else 0.0
        # All stops have the room of the label, so that the edge runs level.
        stops.append(Stop(column, LINE_HEIGHT * len(lines) + 3, 4, width))
    return Route(edge, (left, *passed, right), backward, passed[label_column - first_column])


def _order_columns(stops: list[Stop], routes: list[Route]) -> list[list[int]]:
    """Return the stops of each column from top to bottom, with few crossings."""
    columns: list[list[int]] = [[] for _ in range(1 + max(stop.column for stop in stops))]
    for stop, place in enumerate(stops):
        columns[place.column].append(stop)
    backward = {stop for route in routes if route.backward for stop in route.stops[1:-1]}
    for column in columns:
        column.sort(key=lambda stop: stop in backward)  # backward edges begin below
    neighbours = _neighbours(stops, routes)
    best, fewest = columns, _crossings(columns, neighbours)
    for sweep in range(SWEEPS):
        columns = _sort_by_barycentre(columns, neighbours, rightward=sweep % 2 == 0)
        crossings = _crossings(columns, neighbours)
        if crossings < fewest:
            best, fewest = columns, crossings
    return best


def _sort_by_barycentre(
    columns: list[list[int]], neighbours: list[tuple[list, list]], *, rightward: bool
) -> list[list[int]]:
    """Return the columns, each sorted by the mean place of its stops' neighbours in the previous column."""
    side = 0 if rightward else 1
    place_of_stop = {stop: place for column in columns for place, stop in enumerate(column)}

    def barycentre(stop: int) -> float:
        places = [place_of_stop[other] for other, _ in neighbours[stop][side]]
        return sum(places) / len(places) if places else place_of_stop[stop]

    ordered = []
    for column in columns if rightward else reversed(columns):
        ordered.append(sorted(column, key=barycentre))
        place_of_stop.update((stop, place) for place, stop in enumerate(ordered[-1]))
    return ordered if rightward else ordered[::-1]


def _neighbours(stops: list[Stop], routes: list[Route]) -> list[tuple[list, list]]:
    """Return for each stop its (stop, weight) neighbours on the left and on the right."""
    neighbours: list[tuple[list, list]] = [([], []) for _ in stops]
    for route in routes:
        for (left, right), weight in zip(pairwise(route.stops), route.weights(), strict=True):
            neighbours[left][1].append((right, weight))
            neighbours[right][0].append((left, weight))
    return neighbours


def _crossings(columns: list[list[int]], neighbours: list[tuple[list, list]]) -> int:
    """Return the number of pairs of lines that cross between neighbouring columns."""
    count = 0
    for left, right in pairwise(columns):
        place_of_stop = {stop: place for place, stop in enumerate(right)}
        above: list[int] = []  # right ends of the lines that start higher, sorted
        for stop in left:
            ends = sorted(place_of_stop[other] for other, _ in neighbours[stop][1])
            count += sum(len(above) - bisect_right(above, end) for end in ends)
            for end in ends:
                insort(above, end)
    return count


def _space_stops(columns: list[list[int]], stops: list[Stop], routes: list[Route]) -> list[float]:
    """Return y of each stop: close to its neighbours, with enough distance to the next one in its column."""
    neighbours = _neighbours(stops, routes)
    y_of_stop = [0.0] * len(stops)
    for column in columns:
        _place(column, [0.0] * len(column), [1.0] * len(column), stops, y_of_stop)
    for sweep in range(SWEEPS):
        sides = ((0,), (1,), (0, 1))[sweep % 3]
        for column in columns if sides != (1,) else reversed(columns):
            wishes, weights = [], []
            for stop in column:
                wanted = [pair for side in sides for pair in neighbours[stop][side]]
                strongest = max((weight for _, weight in wanted), default=0.0)
                ys = [y_of_stop[other] for other, weight in wanted if weight == strongest]
                wishes.append(sum(ys) / len(ys) if ys else y_of_stop[stop])
                weights.append(max(strongest, 1.0))
            _place(column, wishes, weights, stops, y_of_stop)
    return y_of_stop


def _place(
    column: list[int], wishes: list[float], weights: list[float], stops: list[Stop], y_of_stop: list[float]
) -> None:
    """Write to ``y_of_stop`` the places closest to the wishes, by weighted squares, that keep the gaps."""
    offsets = [0.0]
    for upper, lower in pairwise(column):
        offsets.append(offsets[-1] + stops[upper].below + GAP + stops[lower].above)
    blocks: list[list[float]] = []  # [weighted sum, weight, length] of stops that touch
    for wish, offset, weight in zip(wishes, offsets, weights, strict=False):
        blocks.append([(wish - offset) * weight, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            block = blocks.pop()
            blocks[-1] = [mine + other for mine, other in zip(blocks[-1], block, strict=True)]
    means = [total / weight for total, weight, length in blocks for _ in range(int(length))]
    for stop, mean, offset in zip(column, means, offsets, strict=False):
        y_of_stop[stop] = mean + offset


# The lines of an automaton's edges, from the source state to the target state.

ARROW = 7.0
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """The line of an edge, from ``start`` at its source to the beginning of its arrow head.

    A piece is a curve (two control points and an end) or a straight line (an end). ``label_at`` is the middle
    of the base line of the label's last line.
    """

    edge: Edge
    start: Point
    pieces: tuple[tuple[Point, ...], ...]
    label_at: Point

    @property
    def path(self) -> str:
        """The line as the ``d`` of an SVG path."""
        commands = [f"M{point(*self.start)}"]
        for piece in self.pieces:
            commands.append(("C" if len(piece) == 3 else "L") + " ".join(point(*corner) for corner in piece))
        return "".join(commands)


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
    k = route.stops.index(route.label_at)
    if route.backward:
        start, pieces = _reverse(start, pieces)
    label = (lefts[k] + rights[k]) / 2, ys[k] - 5
    return DrawnEdge(route.edge, start, tuple(pieces), label)


def _loop_line(placed: StatePlaces, edge: Edge) -> DrawnEdge:
    centre = x, y = placed.centre(edge.source)
    leaving, arriving = -0.68 * math.pi, -0.32 * math.pi
    top = y - RADIUS - LOOP_HEIGHT * 1.15
    piece = (x - 20, top), (x + 20, top), beside(centre, arriving, ARROW)
    label = x, y - RADIUS - LOOP_HEIGHT + 2
    return DrawnEdge(edge, beside(centre, leaving, 0), (piece,), label)


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
    reversed_pieces = [(*piece[-2::-1], end) for piece, end in zip(pieces, ends, strict=False)]
    return ends[-1], reversed_pieces[::-1]


# The picture: its parts as dicts, which the browser draws, too, and as SVG text.

MAX_STATES_DRAWN = 200
MARGIN = 8.0
START_ARROW = 26.0


def automaton_traits(
    states: States, define: Mapping[str, str] | None = None, labels: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the places and texts of states and transitions; the picture begins at (0, 0)."""
    placed = places(states)
    left, top, right, bottom = extent(placed)
    placed = replace(
        placed,
        y_of_stop=tuple(y - top for y in placed.y_of_stop),
        left_of_column=tuple(x - left for x in placed.left_of_column),
        right_of_column=tuple(x - left for x in placed.right_of_column),
    )
    drawn_states = []
    for state in range(states.n_states):
        x, y = placed.centre(state)
        drawn_states.append(
            {
                "id": state, "label": str(state) if labels is None else labels[state], "x": round(x, 1),
                "y": round(y, 1), "is_start": state == 0, "is_final": state in states.accepting,
                "tooltip": state_tooltip(states, state),
            }
        )  # fmt: skip
    transitions = [
        {
            "source": drawn.edge.source, "target": drawn.edge.target, "path": drawn.path,
            "label": "\n".join(drawn.edge.label_lines()), "x": round(drawn.label_at[0], 1),
            "y": round(drawn.label_at[1], 1), "tooltip": drawn.edge.tooltip(define or {}),
        }
        for drawn in draw_edges(placed)
    ]  # fmt: skip
    # There is room for the number of live partial matches.
    size = {"width": round(right - left, 1), "height": round(bottom - top + LINE_HEIGHT, 1)}
    return {"states": drawn_states, "transitions": transitions, **size}


def extent(placed: StatePlaces) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a picture with the start's arrow and a margin."""
    stops = list(zip(placed.y_of_stop, placed.stops, strict=True))
    top, bottom = min(y - stop.above for y, stop in stops), max(y + stop.below for y, stop in stops)
    return -START_ARROW - MARGIN, top - MARGIN, placed.right_of_column[-1] + MARGIN, bottom + MARGIN


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
    return automaton_picture(**automaton_traits(states, define), title=title or "", live=live, lit=lit)


def automaton_picture(
    states: Sequence[Mapping], transitions: Sequence[Mapping], width: float, height: float, *,
    title: str = "", live: Mapping[Any, Any] | None = None, lit: Collection[Any] = (),
    conditions: Sequence[Mapping] = (),
) -> str:  # fmt: skip
    """Return the parts of `automaton_traits` as SVG text, with a title above and conditions below."""
    top = LINE_HEIGHT + GAP if title else 0.0
    height += top - LINE_HEIGHT * (live is None)
    live = live or {}
    width = max(width, text_width(title) + MARGIN)
    head = _text(width / 2, LINE_HEIGHT, title) if title else ""
    starts = [state for state in states if state.get("is_start")]
    parts = [
        *(_edge(f"start->{state['id']}", _start_path(state), [], "") for state in starts),
        *map(_transition, transitions),
        *(_state(state, live.get(state["id"], 0), state["id"] in lit) for state in states),
    ]
    graph = (
        f'<g class="graph" font-family="{html.escape(theme.MONOSPACE)}" font-size="{number(FONT_SIZE)}" '
        f'text-anchor="middle" fill="none" stroke-width="1.2">{head}'
        f'<g transform="translate(0,{number(top)})">{"".join(parts)}</g></g>'
    )
    below = []
    for condition in conditions:
        words = f"{condition['name']}: {condition['text']}"
        height += 18
        width = max(width, len(words) * drawing.FONT_SIZE * drawing.ADVANCE)
        below.append(drawing.text(0, height - 6, words))
    return drawing.document(width, height, title or f"automaton with {len(states)} states", [graph, *below])


def _state(state: Mapping, n_live: Any, is_lit: bool) -> str:
    x, y = state["x"], state["y"]
    hue = theme.ACCEPT_GREEN if state.get("is_final") else theme.STATE_BLUE
    circle = {"cx": number(x), "cy": number(y), "stroke": hue, "stroke_width": "4" if is_lit else "1.5"}
    shade = 0.45 if n_live or is_lit else int(theme.TINT_ALPHA, 16) / 255
    parts = [drawing.element("circle", **circle, r=number(RADIUS), fill=hue, fill_opacity=number(shade))]
    if state.get("is_final"):
        parts.append(drawing.element("circle", **circle, r=number(RADIUS + RING)))
    parts.append(_text(x, y + FONT_SIZE * 0.35, str(state.get("label", state["id"]))))
    if n_live:
        words = n_live if isinstance(n_live, str) else f"{n_live:,}"
        parts.append(_text(x, y + RADIUS + RING + LINE_HEIGHT - 3, words))
    kind = "node" + " live" * bool(n_live) + " lit" * is_lit
    tooltip = state.get("tooltip", "") + live_words(n_live, is_lit)
    return _group(kind, str(state["id"]), _group("", tooltip, "".join(parts)))


def live_words(n_live: Any, is_lit: bool) -> str:
    """Return the part of a state's tooltip about live partial matches and the selected match."""
    number_of = n_live if isinstance(n_live, str) else f"{n_live:,}"
    words = f"; {number_of} partial match{'es' if n_live != 1 else ''} live" if n_live else ""
    return words + ("; of the selected match" if is_lit else "")


def _start_path(state: Mapping) -> str:
    tip = state["x"] - RADIUS - RING
    return f"M{point(tip - START_ARROW, state['y'])}L{point(tip - ARROW, state['y'])}"


def _transition(transition: Mapping) -> str:
    lines = str(transition.get("label", "")).split("\n")
    words = [
        _text(transition["x"], transition["y"] - LINE_HEIGHT * above, line)
        for above, line in zip(range(len(lines))[::-1], lines, strict=True)
    ]
    name = f"{transition['source']}->{transition['target']}"
    return _edge(name, transition["path"], words, transition.get("tooltip", ""))


def _edge(name: str, path: str, words: Sequence[str], tooltip: str) -> str:
    x, y, *tip = arrow_of(path)
    angle = math.atan2(y - tip[1], x - tip[0])
    corners = [(tip[0], tip[1])]
    for turn in (-0.42, 0.42):
        reach = ARROW / math.cos(turn)
        corners.append((tip[0] + reach * math.cos(angle + turn), tip[1] + reach * math.sin(angle + turn)))
    line = drawing.path(path, stroke="currentColor")
    head = drawing.element(
        "polygon", points=" ".join(point(*corner) for corner in corners), fill="currentColor"
    )
    return _group("edge", name, _group("", tooltip, "".join([line, head, *words])))


def arrow_of(path: str) -> tuple[float, float, float, float]:
    """Return the end of a path, and the tip of the arrow head after it."""
    numbers = [float(word) for word in re.findall(r"-?[\d.]+", path)]
    before_x, before_y, x, y = numbers[-4:]
    length = math.hypot(x - before_x, y - before_y) or 1.0
    return x, y, x + ARROW * (x - before_x) / length, y + ARROW * (y - before_y) / length


def _group(kind: str, title: str, content: str) -> str:
    attributes = f' class="{kind}"' if kind else ""
    return f"<g{attributes}><title>{html.escape(title, quote=False)}</title>{content}</g>"


def _text(x: float, y: float, words: str) -> str:
    return (
        f'<text x="{number(x)}" y="{number(y)}" fill="currentColor">{html.escape(words, quote=False)}</text>'
    )
