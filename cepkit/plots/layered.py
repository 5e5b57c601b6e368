"""A picture of a small automaton: places of states, lines of edges, labels; as SVG and as a plotly figure."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from cepkit.compile.shared.row_automaton import States
from cepkit.errors import CepError
from cepkit.plots import drawing, theme
from cepkit.plots.automata import Edge, edges, state_tooltip
from cepkit.plots.drawing import number, point
from cepkit.plots.theme import escaped
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    import plotly.graph_objects as go


# A picture of a small automaton as SVG: places of states, lines of edges, and labels.

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

    reach_of_state: tuple[float, ...]  # half of the length by which a box is longer than a circle

    def centre(self, state: int) -> tuple[float, float]:
        """Return x and y of the centre of a state's circle."""
        column = self.stops[state].column
        return (self.left_of_column[column] + self.right_of_column[column]) / 2, self.y_of_stop[state]

    def end(self, state: int, side: int) -> tuple[float, float]:
        """Return the centre of the half circle at the left (-1) or right (1) end of a state's box."""
        x, y = self.centre(state)
        return x + side * self.reach_of_state[state], y


def places(states: States, boxes: Sequence[str] = ()) -> StatePlaces:
    """Return the places of states, labels and edges, which do not overlap."""
    # States are circles, or boxes that hold the texts ``boxes``.
    # Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures",
    # IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981.
    # Differs: labels have columns of their own, and the spacing is a weighted isotonic regression.
    all_edges = edges(states)
    loops = tuple(edge for edge in all_edges if edge.source == edge.target)
    rank_of_state = _ranks(states.n_states, all_edges)
    lines = [text.split("\n") for text in boxes] or [[""]] * states.n_states
    reach = tuple(max(0.0, max(map(text_width, parts)) / 2 + 8 - RADIUS) for parts in lines)
    stops = [
        _state_stop(state, rank_of_state[state], loops, reach[state], half_height(len(lines[state])))
        for state in range(states.n_states)
    ]
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
        tuple(stops), tuple(routes), loops, tuple(y_of_stop), tuple(left_of_column), tuple(right_of_column),
        reach,
    )  # fmt: skip


def half_height(n_lines: int) -> float:
    """Return half of the height of a state with a text of some lines."""
    return max(RADIUS, n_lines * LINE_HEIGHT / 2 + 4)


def text_width(text: str) -> float:
    """Return the width of ``text`` in the monospaced font of all pictures."""
    return theme.MONOSPACE_ADVANCE * FONT_SIZE * len(text)


def _ranks(n_states: int, all_edges: Iterable[Edge]) -> list[int]:
    """Return the length of the longest path to each state, without edges that close a cycle."""
    successors: list[list[int]] = [[] for _ in range(n_states)]
    for edge in all_edges:
        if edge.source != edge.target:
            successors[edge.source].append(edge.target)
    forward: dict[int, list[int]] = {}  # the states in the order in which they are finished
    on_way: set[int] = set()

    def enter(state: int) -> None:
        on_way.add(state)
        targets = [target for target in successors[state] if target not in on_way]
        for target in targets:
            if target not in forward and target not in on_way:
                enter(target)
        on_way.remove(state)
        forward[state] = targets

    for state in range(n_states):
        if state not in forward:
            enter(state)
    rank_of_state = [0] * n_states
    for state in reversed(forward):
        for target in forward[state]:
            rank_of_state[target] = max(rank_of_state[target], rank_of_state[state] + 1)
    return rank_of_state


def _state_stop(state: int, rank: int, loops: Iterable[Edge], reach: float, half: float) -> Stop:
    """Return the room that a state takes, with the labels of its loop."""
    outer, width = half + RING, 2 * (RADIUS + RING + reach)
    lines = next((edge.label_lines() for edge in loops if edge.source == state), [])
    if not lines:
        return Stop(2 * rank, outer, outer, width)
    above = half + LOOP_HEIGHT + LINE_HEIGHT * len(lines)
    return Stop(2 * rank, above, outer, max(width, *map(text_width, lines)))


def _route(edge: Edge, rank_of_state: list[int], stops: list[Stop]) -> Route:
    """Return the route of ``edge`` and append its stops to ``stops``."""
    backward = rank_of_state[edge.target] < rank_of_state[edge.source]
    left, right = (edge.target, edge.source) if backward else (edge.source, edge.target)
    first_column, last_column = 2 * rank_of_state[left] + 1, 2 * rank_of_state[right] - 1
    label_column = last_column if backward else first_column
    lines = edge.label_lines()
    passed = range(len(stops), len(stops) + last_column - first_column + 1)
    for column in range(first_column, last_column + 1):
        width = max(map(text_width, lines), default=0.0) if column == label_column else 0.0
        # All stops have the room of the label, so that the edge runs level.
        stops.append(Stop(column, LINE_HEIGHT * len(lines) + 3, 4, width))
    return Route(edge, (left, *passed, right), backward, passed[label_column - first_column])


def _order_columns(stops: list[Stop], routes: list[Route]) -> list[list[int]]:
    """Return the stops of each column from top to bottom, sorted by the mean places of their neighbours."""
    columns: list[list[int]] = [[] for _ in range(1 + max(stop.column for stop in stops))]
    for stop, place in enumerate(stops):
        columns[place.column].append(stop)
    backward = {stop for route in routes if route.backward for stop in route.stops[1:-1]}
    place_of_stop: dict[int, float] = {}
    for column in columns:
        column.sort(key=lambda stop: stop in backward)  # backward edges begin below
        place_of_stop.update((stop, place) for place, stop in enumerate(column))
    neighbours = _neighbours(stops, routes)
    for sweep in range(SWEEPS):
        side = sweep % 2  # to the right: by the column at the left
        for column in columns[:: 1 - 2 * side]:
            mean_of_stop = {}
            for stop in column:
                places = [place_of_stop[other] for other, _ in neighbours[stop][side]]
                mean_of_stop[stop] = sum(places) / len(places) if places else place_of_stop[stop]
            column.sort(key=mean_of_stop.__getitem__)
            place_of_stop.update((stop, place) for place, stop in enumerate(column))
    return columns


def _neighbours(stops: list[Stop], routes: list[Route]) -> list[tuple[list, list]]:
    """Return for each stop its (stop, weight) neighbours on the left and on the right."""
    neighbours: list[tuple[list, list]] = [([], []) for _ in stops]
    for route in routes:
        for (left, right), weight in zip(pairwise(route.stops), route.weights(), strict=True):
            neighbours[left][1].append((right, weight))
            neighbours[right][0].append((left, weight))
    return neighbours


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
    # Without the gaps, the places must only be in order. Neighbours out of order become a block at their
    # mean.
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


class DrawnEdge(NamedTuple):
    """The line of an edge from its source to the beginning of its arrow head, as the ``d`` of an SVG path."""

    edge: Edge
    path: str
    label_at: Point  # the middle of the base line of the label's last line


def draw_edges(placed: StatePlaces) -> list[DrawnEdge]:
    """Return the lines of all edges between states, then those of the loops."""
    routes = [_route_line(placed, route) for route in placed.routes]
    return [*routes, *(_loop_line(placed, edge) for edge in placed.loops)]


def _path(start: Point, pieces: Iterable[tuple[Point, ...]]) -> str:
    """Return a path of curves (two control points and an end) and straight lines (an end)."""
    commands = ("LC"[len(piece) == 3] + " ".join(point(*corner) for corner in piece) for piece in pieces)
    return f"M{point(*start)}{''.join(commands)}"


def _route_line(placed: StatePlaces, route: Route) -> DrawnEdge:
    """Return the drawn line of an edge along its route."""
    ys = [placed.y_of_stop[stop] for stop in route.stops]
    columns = [placed.stops[stop].column for stop in route.stops]
    lefts = [placed.left_of_column[column] for column in columns]
    rights = [placed.right_of_column[column] for column in columns]
    left, right = placed.end(route.stops[0], 1), placed.end(route.stops[-1], -1)
    left_port, right_port = _port(left, (lefts[1], ys[1])), _port(right, (rights[-2], ys[-2]))
    points = [beside(left, left_port, ARROW if route.backward else 0), beside(left, left_port, CURVE * 0.6)]
    for k in range(1, len(ys) - 1):
        points += [(lefts[k] - CURVE * 0.5, ys[k]), (lefts[k], ys[k]), (rights[k], ys[k])]
        points.append((rights[k] + CURVE * 0.5, ys[k]))
    points += [
        beside(right, right_port, CURVE * 0.6),
        beside(right, right_port, 0 if route.backward else ARROW),
    ]
    k = route.stops.index(route.label_at)
    label = (lefts[k] + rights[k]) / 2, ys[k] - 5
    # In turn a curve, with two control points, and the line of a stop.
    start, *rest = points[::-1] if route.backward else points
    pieces = [tuple(rest[i : i + 3]) for i in range(0, len(rest), 4)]
    lines = [(end,) for end in rest[3::4]]
    in_turn = [piece for pair in zip_longest(pieces, lines) for piece in pair if piece is not None]
    return DrawnEdge(route.edge, _path(start, in_turn), label)


def _loop_line(placed: StatePlaces, edge: Edge) -> DrawnEdge:
    """Return the drawn line of a loop above its state."""
    centre = x, y = placed.centre(edge.source)
    leaving, arriving = -0.68 * math.pi, -0.32 * math.pi
    top = y - RADIUS - LOOP_HEIGHT * 1.15
    piece = (x - 20, top), (x + 20, top), beside(centre, arriving, ARROW)
    label = x, y - RADIUS - LOOP_HEIGHT + 2
    return DrawnEdge(edge, _path(beside(centre, leaving, 0), [piece]), label)


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


# The picture: its parts as dicts, which the browser draws, too, and as SVG text.

MAX_STATES_DRAWN = 200
MARGIN = 8.0
START_ARROW = 26.0


def automaton_traits(
    states: States, define: Mapping[str, str] | None = None, labels: Sequence[str] | None = None, *,
    boxed: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return the places and texts of states and transitions; the picture begins at (0, 0)."""
    # With ``boxed``, the states are boxes as wide as their labels.
    placed = places(states, labels if boxed and labels else ())
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
        reach = {"reach": round(placed.reach_of_state[state], 1)} if placed.reach_of_state[state] else {}
        drawn_states.append(
            {
                "id": state, "label": str(state) if labels is None else labels[state], "x": round(x, 1),
                "y": round(y, 1), "is_start": state == 0, "is_final": state in states.accepting,
                "tooltip": state_tooltip(states, state), **reach,
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
    """Return a picture of ``states`` as SVG text."""
    # Inside a notebook's page it has the colour of the text around it, elsewhere mid-tones.
    if states.n_states > MAX_STATES_DRAWN:
        raise CepError(
            f"automaton_svg: the automaton has {states.n_states} states; a picture has at most "
            f"{MAX_STATES_DRAWN}. graph() gives all of it"
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
    """Return a state as SVG."""
    x, y = state["x"], state["y"]
    hue = theme.ACCEPT_GREEN if state.get("is_final") else theme.STATE_BLUE
    edge = {"stroke": hue, "stroke_width": "4" if is_lit else "1.5"}
    shade = 0.45 if n_live or is_lit else int(theme.TINT_ALPHA, 16) / 255
    inside = {"fill": hue, "fill_opacity": number(shade)}
    lines = str(state.get("label", state["id"])).split("\n")
    if "reach" in state:
        wide, high = RADIUS + state["reach"], half_height(len(lines))
        corner = {"x": number(x - wide), "y": number(y - high), "rx": number(RADIUS / 2)}
        size = {"width": number(2 * wide), "height": number(2 * high)}
        parts = [drawing.element("rect", **corner, **size, **edge, **inside)]
    else:
        circle = {"cx": number(x), "cy": number(y), **edge}
        parts = [drawing.element("circle", **circle, r=number(RADIUS), **inside)]
        if state.get("is_final"):
            parts.append(drawing.element("circle", **circle, r=number(RADIUS + RING)))
    middle = y + FONT_SIZE * 0.35 - LINE_HEIGHT * (len(lines) - 1) / 2
    parts += [_text(x, middle + LINE_HEIGHT * k, line) for k, line in enumerate(lines)]
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
    """Return a transition as SVG."""
    lines = str(transition.get("label", "")).split("\n")
    words = [
        _text(transition["x"], transition["y"] - LINE_HEIGHT * above, line)
        for above, line in zip(range(len(lines))[::-1], lines, strict=True)
    ]
    name = f"{transition['source']}->{transition['target']}"
    return _edge(name, transition["path"], words, transition.get("tooltip", ""))


def _edge(name: str, path: str, words: Sequence[str], tooltip: str) -> str:
    """Return a line with its head and label as SVG."""
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


# The automaton of a query as a plotly figure, and the automata of sequences.


def nfa_figure(
    states: Sequence[Mapping], transitions: Sequence[Mapping], width: float, height: float, *,
    live: Mapping[int, int] | None = None, lit: Collection[int] = (), title: str = "",
) -> go.Figure:  # fmt: skip
    """Return a plotly figure of an automaton with its layout."""
    from cepkit.plots.lean import LeanFigure

    live = live or {}
    figure = LeanFigure()
    line = {"color": theme.INK, "width": 1.2}
    shapes = [{"type": "path", "path": transition["path"], "line": line} for transition in transitions]
    arrow = {"showarrow": True, "axref": "x", "ayref": "y", "arrowhead": 2, "arrowsize": 1.2}
    arrow |= {"arrowwidth": 1.2, "arrowcolor": theme.INK, "text": "", "standoff": 0}
    notes = []
    for state in states:
        if state["is_start"]:
            tip = state["x"] - RADIUS - RING
            notes.append(arrow | {"x": tip, "y": state["y"], "ax": tip - START_ARROW, "ay": state["y"]})
    for transition in transitions:
        x, y, tip_x, tip_y = arrow_of(transition["path"])
        notes.append(arrow | {"x": tip_x, "y": tip_y, "ax": x, "ay": y})
        words = "<br>".join(escaped(part) for part in transition["label"].split("\n"))
        label = {"x": transition["x"], "y": transition["y"] + 4, "text": words}
        notes.append({**label, "yanchor": "bottom", "showarrow": False})
    for is_final, hue in ((False, theme.STATE_BLUE), (True, theme.ACCEPT_GREEN)):
        drawn = [state for state in states if state["is_final"] == is_final]
        for radius in (RADIUS + RING, RADIUS) if is_final else (RADIUS,):
            shapes += [
                {
                    "type": "circle",
                    "x0": state["x"] - radius, "x1": state["x"] + radius,
                    "y0": state["y"] - radius, "y1": state["y"] + radius,
                    "line": {"color": hue, "width": 4 if state["id"] in lit else 1.5},
                    "fillcolor": hue + ("66" if live.get(state["id"]) else theme.TINT_ALPHA),
                }
                for state in drawn
            ]  # fmt: skip
        tooltips = [
            state.get("tooltip", "") + live_words(live.get(state["id"], 0), state["id"] in lit)
            for state in drawn
        ]
        figure.add_scatter(
            x=[state["x"] for state in drawn], y=[state["y"] for state in drawn], mode="text",
            text=[escaped(state["label"]) for state in drawn], hoverinfo="text",
            hovertext=[escaped(words) for words in tooltips], showlegend=False,
        )  # fmt: skip
        for state in drawn:
            if live.get(state["id"]):
                below = {"x": state["x"], "y": state["y"] + RADIUS + 14, "text": f"{live[state['id']]:,}"}
                notes.append({**below, "showarrow": False})
    top = 44 if title else 10
    figure.update_layout(
        title=theme.title_at_left([escaped(title)]) if title else None, shapes=shapes, annotations=notes,
        width=width + 20, margin={"l": 10, "r": 10, "t": top, "b": 10}, **theme.layout(height + top + 10),
    )  # fmt: skip
    hidden = {"visible": False, "fixedrange": True}
    figure.update_xaxes(range=[0, width], **hidden)
    figure.update_yaxes(range=[height, 0], scaleanchor="x", **hidden)
    return figure
