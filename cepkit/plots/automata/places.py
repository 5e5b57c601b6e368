"""Places of the states, edges and labels of a small automaton, from left to right.

The column of a state is the length of the longest path to it. A column of labels lies between two columns
of states, so that every label has its own room. An edge has a stop in each column that it passes. Columns
are ordered by barycentres and spaced by isotonic regression.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from cepkit.compile.regex.automaton import States
from cepkit.plots import theme
from cepkit.plots.automata.automaton import Edge, edges

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
    found: list[tuple[list, list]] = [([], []) for _ in stops]
    for route in routes:
        for (left, right), weight in zip(pairwise(route.stops), route.weights(), strict=True):
            found[left][1].append((right, weight))
            found[right][0].append((left, weight))
    return found


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
