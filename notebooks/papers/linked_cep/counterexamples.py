"""Eight small streams on which the printed algorithms of the LinkedCEP paper lose or invent matches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from cepkit.linked.engine import LinkedCEP, SaseRuns
from cepkit.linked.patterns import (
    ABSENT,
    EventComparison,
    PlainAbsence,
    PlainEvents,
    PlainMatches,
    PlainPattern,
)

# --- CoverMatch and CombineMatch as the LinkedCEP paper prints them, only to show where they fail.

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
    """Run algorithm 1 over a stream and return the tails of the chains of the last region."""
    # Source: Qiu et al., LinkedCEP, definitions 3 and 4, algorithm 1.
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
    """Run algorithm 2 and yield all matches of the coverages as positions by component."""
    # A Kleene closure takes every non-empty subset of the events of one chain; the paper does not define
    # this.
    # Source: Qiu et al., LinkedCEP, algorithm 2.
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


@dataclass(frozen=True)
class Counterexample:
    """A stream and a query, for the engines and for the printed algorithm."""

    # ``stream`` holds events ``name@time=value``. The first letter of the name is the type. The value is
    # ``x``, or the key in a query with keys. The default time is the number of the event, the default value
    # 0.

    name: str
    why: str
    query: str
    stream: str
    pattern: PlainPattern
    printed: PrintedQuery
    join: str = "head"

    def rows(self) -> list[dict]:
        """Return the events as the printed algorithm reads them."""
        made = []
        for number, text in enumerate(self.stream.split()):
            name, _, value = text.partition("=")
            name, _, ts = name.partition("@")
            at = int(ts) if ts else number
            made.append({"name": name, "type": name[0].upper(), "ts": at, "x": int(value or 0)})
        return made

    def events(self) -> PlainEvents:
        """Return the events as the engines read them; in a query with keys, ``x`` is the key."""
        rows = self.rows()
        kinds = [self.printed.type_of(j) for j in range(self.pattern.n_components)]
        absent = self.printed.absent
        values = np.array([row["x"] for row in rows])
        return PlainEvents(
            np.array([row["ts"] for row in rows]),
            np.array([[row["type"] == kind for row in rows] for kind in kinds]),
            values if "[key]" in self.query else None,
            np.array([[row["type"] == absent[1] for row in rows]]) if absent else None,
            {"x": values},
        )

    def shown(self, matches: list[tuple]) -> list[str]:
        """Return matches as the names of their events, a Kleene closure in braces."""
        names = [row["name"] for row in self.rows()]
        texts = []
        for match in matches:
            parts = [
                "{" + " ".join(names[x] for x in events) + "}"
                if j in self.pattern.kleene
                else names[events[0]]
                for j, events in enumerate(match)
            ]
            texts.append(" ".join(parts))
        return texts

    def found(self, engine: type) -> list[str]:
        """Return the matches that an engine finds."""
        matches: PlainMatches = engine(self.pattern).push(self.events())
        return self.shown(matches.bound())

    def found_as_printed(self) -> list[str]:
        """Return the matches that the printed algorithms find."""
        rows = self.rows()
        matches = combine_match(cover_match(rows, self.printed), self.printed, join=self.join)
        return self.shown(sorted(matches))


def _less(one: str, other: str):
    return (one, other), lambda bound: bound[one]["x"] < bound[other]["x"]


def _equal(one: str, other: str):
    return (one, other), lambda bound: bound[one]["x"] == bound[other]["x"]


_A_BELOW_B = EventComparison(0, "<", 1, "x", "x")
COUNTEREXAMPLES = (
    Counterexample(
        "X1",
        "a condition between events is tested on the chain's tail only",
        "SEQ(A a, B b) WHERE a.x < b.x",
        "a1=1 a2=9 b1=5",
        PlainPattern(2, conditions=(_A_BELOW_B,)),
        PrintedQuery(("a", "b"), (_less("a", "b"),)),
    ),
    Counterexample(
        "X2",
        "a condition that holds for the tail is assumed for the whole chain",
        "SEQ(A a, B b) WHERE a.x < b.x",
        "a1=9 a2=1 b1=5",
        PlainPattern(2, conditions=(_A_BELOW_B,)),
        PrintedQuery(("a", "b"), (_less("a", "b"),)),
    ),
    Counterexample(
        "X3",
        "the window is tested on the tail only",
        "SEQ(A a, B b) WITHIN 10",
        "a1@0 a2@5 b1@12",
        PlainPattern(2, window_ticks=10),
        PrintedQuery(("a", "b"), window=10),
    ),
    Counterexample(
        "X4",
        "an event fits two components: the head's predecessors are not the tail's",
        "SEQ(A a, A a2)",
        "a1 a2 a3",
        PlainPattern(2),
        PrintedQuery(("a", "a2")),
    ),
    Counterexample(
        "X4 tail",
        "the same, joined with the tail's predecessors instead",
        "SEQ(A a, A a2)",
        "a1 a2 a3",
        PlainPattern(2),
        PrintedQuery(("a", "a2")),
        join="tail",
    ),
    Counterexample(
        "X5",
        "events of different keys share a chain",
        "SEQ(A a, B b) WHERE [key]",
        "a1=1 a2=2 b1=1",
        PlainPattern(2),
        PrintedQuery(("a", "b"), (_equal("a", "b"),)),
    ),
    Counterexample(
        "X6",
        "successive events must differ in time, and only the tail has the time of the event",
        "SEQ(A a, B b), times strictly increasing",
        "a1@0 a2@1 b1@1",
        PlainPattern(2, strict_time=True),
        PrintedQuery(("a", "b"), strict_time=True),
    ),
    Counterexample(
        "X7",
        "a Kleene closure takes events of several chains",
        "SEQ(A a, B+ b[], C c)",
        "a1 b1 a2 b2 c1",
        PlainPattern(3, kleene={1}),
        PrintedQuery(("a", "b", "c"), kleene=frozenset("b")),
    ),
    Counterexample(
        "X8",
        "an absent event with a condition ends some partial matches of a chain and not others",
        "SEQ(A a, !B b, C c) WHERE b.x > a.x",
        "a1=1 a2=9 b1=5 c1",
        PlainPattern(2, absences=(PlainAbsence(0, (EventComparison(ABSENT, ">", 0, "x", "x"),)),)),
        PrintedQuery(("a", "c"), absent=(0, "B", lambda row, bound: row["x"] > bound["a"]["x"])),
    ),
)


def counterexamples() -> pd.DataFrame:
    """Compare the matches of the printed and the corrected algorithms on each counterexample."""
    rows = []
    for case in COUNTEREXAMPLES:
        right, corrected, printed = case.found(SaseRuns), case.found(LinkedCEP), case.found_as_printed()
        rows.append(
            {
                "case": case.name,
                "why": case.why,
                "query": case.query,
                "stream": case.stream,
                "by_runs": "; ".join(right),
                "corrected": "; ".join(corrected),
                "printed": "; ".join(printed),
                "lost": "; ".join(match for match in right if match not in printed),
                "invented": "; ".join(dict.fromkeys(match for match in printed if match not in right)),
            }
        )
    return pd.DataFrame(rows)
