"""CoverMatch and CombineMatch as the LinkedCEP paper prints them, only to show where they fail.

The code repairs two slips that would prevent any result: a chain grows at its tail (printed: after its head),
and the loop also collects the event of the head (printed: the loop ends before it).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Row = Mapping[str, object]
Condition = Callable[[Mapping[str, Row]], bool]


@dataclass(frozen=True)
class PrintedQuery:
    """A query for the printed algorithms."""

    variables: tuple[str, ...]  # one per component. The type is the variable in capitals without digits.
    # Variables, and a test of the row of each variable.
    conditions: tuple[tuple[tuple[str, ...], Condition], ...] = ()
    window: int | None = None  # longest ``ts`` of the last event minus that of the first
    kleene: frozenset[str] = frozenset()  # variables that stand for one or more events
    # Component, type and test. No event of the type that passes the test may follow the component. The test
    # takes the event's row and the row of each variable.
    absent: tuple[int, str, Callable[[Row, Mapping[str, Row]], bool]] | None = None
    strict_time: bool = False  # whether successive events must differ in time

    def type_of(self, j: int) -> str:
        """Return the event type of a component."""
        return self.variables[j].rstrip("0123456789").upper()


@dataclass(eq=False)
class Node:
    """A temporary match: an event, and the node that it extends in the previous region."""

    position: int
    before: Node | None
    chain: list[Node] = field(default_factory=list)

    def positions(self) -> tuple[int, ...]:
        """Return the events of the temporary match in stream order."""
        return (*(self.before.positions() if self.before else ()), self.position)


def cover_match(rows: Sequence[Row], query: PrintedQuery) -> list[Node]:
    """Run algorithm 1 over a stream and return the tails of the chains of the last region.

    Source: Qiu et al., LinkedCEP, definitions 3 and 4, algorithm 1.
    """
    regions: list[list[list[Node]]] = [[] for _ in query.variables]  # the chains of each component
    for position, row in enumerate(rows):
        if query.absent and row["type"] == query.absent[1]:
            _end_exposed(rows, query, regions, row)
        made = []
        for j in range(len(query.variables)):
            if query.type_of(j) == row["type"]:
                made += [(j, node) for node in _build(rows, query, regions, position, j)]
        for j, node in made:
            chain = next((c for c in regions[j] if _covers(rows, query, node, c[-1])), None)
            if chain is None:
                chain = []
                regions[j].append(chain)
            node.chain = chain
            chain.append(node)
    return [chain[-1] for chain in regions[-1]]


def combine_match(coverages: Sequence[Node], query: PrintedQuery, *, join: str = "head") -> Iterator[tuple]:
    """Run algorithm 2 and yield all matches of the coverages as positions by component.

    A Kleene closure takes every non-empty subset of the events of one chain; the paper does not define
    this.


    Source: Qiu et al., LinkedCEP, algorithm 2.
    """
    for coverage in coverages:
        levels, node = [], coverage
        while node is not None:
            until = node.chain.index(node) + 1
            levels.insert(0, [other.position for other in node.chain[:until]])
            node = (node.chain[0] if join == "head" else node).before
        choices = [
            [(x,) for x in level]
            if variable not in query.kleene
            else [c for n in range(1, len(level) + 1) for c in itertools.combinations(level, n)]
            for variable, level in zip(query.variables, levels, strict=True)
        ]
        yield from itertools.product(*choices)


def _build(
    rows: Sequence[Row], query: PrintedQuery, regions: list[list[list[Node]]], position: int, j: int
) -> Iterator[Node]:
    """Yield the temporary matches that end with an event and extend exposed nodes of the previous region."""
    if j == 0:
        yield Node(position, None)
        return
    for chain in regions[j - 1]:
        node = Node(position, chain[-1])
        positions = node.positions()
        first, before, own = (rows[x]["ts"] for x in (positions[0], positions[-2], position))
        in_window = query.window is None or own - first <= query.window
        if in_window and not (query.strict_time and before == own) and _holds(rows, query, positions):
            yield node


def _holds(rows: Sequence[Row], query: PrintedQuery, positions: tuple[int, ...]) -> bool:
    """Return whether the conditions hold that the last event of a temporary match decides."""
    bound = {variable: rows[x] for variable, x in zip(query.variables, positions, strict=False)}
    newest = query.variables[len(positions) - 1]
    return all(
        test(bound) for names, test in query.conditions if newest in names and set(names) <= set(bound)
    )


def _covers(rows: Sequence[Row], query: PrintedQuery, node: Node, other: Node) -> bool:
    """Return whether a temporary match covers another one, component by component (definition 4)."""
    pairs = zip(node.positions(), other.positions(), strict=True)
    return all(_covers_event(rows, query, new, old) for new, old in pairs)


def _covers_event(rows: Sequence[Row], query: PrintedQuery, new: int, old: int) -> bool:
    """Return whether an event is the older one, or follows it in a run of its type (definition 3)."""
    return old <= new and all(rows[x]["type"] == rows[old]["type"] for x in range(old, new + 1))


def _end_exposed(rows: Sequence[Row], query: PrintedQuery, regions: list[list[list[Node]]], row: Row) -> None:
    """Remove the chains whose exposed node is ended by an event that must not occur."""
    after, _, test = query.absent

    def bound(node: Node) -> dict[str, Row]:
        return {v: rows[x] for v, x in zip(query.variables, node.positions(), strict=False)}

    regions[after][:] = [chain for chain in regions[after] if not test(row, bound(chain[-1]))]
