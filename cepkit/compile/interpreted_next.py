"""A branch of strategy ``next`` as tables: edges between events, and tests that compare two events."""

from __future__ import annotations

import numpy as np

from cepkit.compile.instructions import ALL_VALID, AS_FLOAT, FALSE, TRUE, VALUE, EventValue
from cepkit.compile.interpreted_columns import SCALAR, PairTest, tests_by_side
from cepkit.compile.sequence_program import EACH, LAST, PREVIOUS, BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.sequence_source import NO_LIMIT, PREFERENCES, test_of, tests_of, without_variable
from cepkit.compile.shared.terms import Term, conjuncts_of
from cepkit.events import FLOAT
from cepkit.kernels.records import AT_LAST, SIGNS
from cepkit.values import dataclass

MOST_TESTS = 31
_NEW = 1 << 40  # the side of the event that an edge leads to; events of the path have lower numbers
_NOTHING = -1
_MOST_IN_CHAIN = 255  # a byte has the number of a component
NEAREST, ORDERED, SAME, FIRST_TO_PASS = range(4)  # as in the kernels


@dataclass(frozen=True, slots=True)
class Jump:
    """An edge of a path: the event before, the event that joins or must be absent, and the tests of both."""

    # source, target: rows of the conditions on single events: of the last event of the path (-1: any), and of
    # the new one
    source: int
    target: int
    # first_test, last_test: the span of its tests
    first_test: int
    last_test: int
    looks_back: bool = False  # whether the tests look at more of the path than its last event
    is_absent: bool = False  # whether it leads to an event that must not occur


@dataclass(frozen=True, slots=True)
class NextTables:
    """A branch for the kernels of `cepkit.kernels.next_event`, whose tables these are."""

    # ``floats`` and ``integers`` are the values of events that tests compare.

    components: np.ndarray
    edges: tuple[Jump, ...]
    tests: np.ndarray
    floats: tuple[EventValue, ...]
    integers: tuple[EventValue, ...]
    first_test: int

    def way(self, edge: Jump) -> int:
        """Return which of the four ways of the kernels finds the target events of an edge."""
        tests = self.tests[edge.first_test : edge.last_test]
        if edge.looks_back or not len(tests):
            return NEAREST
        if len(tests) > 1 or tests[0, 2] < 0 or SIGNS[tests[0, 1]] == "!=":
            return FIRST_TO_PASS
        return SAME if SIGNS[tests[0, 1]] == "==" else ORDERED

    def in_order(self, test: np.ndarray) -> tuple[InOrder, InOrder]:
        """Return the values that the test of an order compares: of the new event, and of the event before."""
        is_float, sign, *rows = test[:6].tolist()
        values = self.floats if is_float else self.integers
        is_reversed = SIGNS[sign] in ("<", "<=")
        return tuple(
            InOrder(
                values[row], bool(is_float), is_reversed, self.integers[valid_row] if valid_row >= 0 else None
            )
            for row, valid_row in zip(rows[:2], rows[2:], strict=True)
        )


@dataclass(frozen=True, slots=True)
class InOrder:
    """Integers in the order of a value of events, or in the reverse order; without a value all are 0."""

    # Where the value of ``is_known`` is 0, the value is null.

    value: EventValue | None = None
    is_float: bool = False
    is_reversed: bool = False
    is_known: EventValue | None = None


@dataclass(frozen=True, slots=True)
class NextChain:
    """A branch for the kernels of `cepkit.kernels.next_chain`, and the rows of its numbers."""

    components: np.ndarray
    numbers: tuple[InOrder, ...]


def chain_of(tables: NextTables) -> NextChain | None:
    """Return the tables of a branch that `next_chain` can match, or None."""
    # Its matches have one event of each component. At most one test, with a sign of order, compares it with
    # the event before.
    if len(tables.components) > _MOST_IN_CHAIN:
        return None
    rows, numbers, test = [], {InOrder(): 0}, tables.first_test
    for low, high, _, _, begin, absent in tables.components.tolist():
        if (low, high, absent) != (1, 1, _NOTHING):
            return None
        both, is_strict = (0, 0), False
        if begin >= 0:
            edge = tables.edges[begin]
            test, way = edge.target, tables.way(edge)
            if edge.looks_back or way not in (NEAREST, ORDERED):
                return None
            if way == ORDERED:
                row = tables.tests[edge.first_test]
                both, is_strict = tables.in_order(row), SIGNS[row[1]] in ("<", ">")
        rows.append(
            [test, *(numbers.setdefault(value, len(numbers)) if value else 0 for value in both), is_strict]
        )
    return NextChain(np.array(rows, np.int64), tuple(numbers))


def next_tables_of(program: SequenceProgram, bound: BoundBranch) -> NextTables | str:
    """Return the tables of a branch, or why it has none, to complete "it …"."""
    components = bound.branch.components
    if len(tests_of(program)) > MOST_TESTS:
        return f"has more than {MOST_TESTS} conditions on single events"
    for c, component in enumerate(components):
        if component.until is not None:
            return f"'until' of {component.variable!r} ends its loop"
        modes = {*([component.step] if c else []), *([component.inner] if component.high != 1 else [])}
        if modes - {"next"}:
            return "has a step of another strategy than 'next'"
        if component.preference != "all" and program.query.scope != "run":
            return f"the loop {component.variable!r} has a preference, and edges are looked at one by one"
    for a, absence in enumerate(bound.branch.absences):
        if absence.spanning or absence.after < 0 or absence.before >= len(components):
            return f"the absent event {absence.variable!r} is not between two neighbours"
        if any(condition.condition.absence == a for condition in bound.conditions):
            return f"a condition compares the absent event {absence.variable!r} with others"
    return program.once("jumps", lambda: _JumpWriter(program, bound).write(), bound)


class _JumpWriter:
    def __init__(self, program: SequenceProgram, bound: BoundBranch):
        self.program, self.bound, self.components = program, bound, bound.branch.components
        self.edges: list[Jump] = []
        self.tests: list[list[int]] = []
        self.floats: dict[EventValue, int] = {}
        self.integers: dict[EventValue, int] = {}

    def write(self) -> NextTables | str:
        """Return the tables, or why there are none."""
        rows, accepts = [], [test_of(self.program, terms) for terms in self.bound.accepts]
        decided: list[list[BoundCondition]] = [[] for _ in self.components]
        for condition in self.bound.conditions:
            if not condition.condition.each:
                return f"condition {condition.condition.conjunct + 1} is on a whole loop"
            decided[condition.condition.decided_at].append(condition)
        for c, component in enumerate(self.components):
            begin = take = absent = _NOTHING
            if c:
                begin = self._edge(accepts[c - 1], accepts[c], decided[c], taking=False)
            elif reason := self._first(decided[0]):
                return reason
            if component.high != 1:
                take = self._edge(accepts[c], accepts[c], decided[c], taking=True)
            if isinstance(begin, str) or isinstance(take, str):
                return begin if isinstance(begin, str) else str(take)
            absences = [a for a, absence in enumerate(self.bound.branch.absences) if absence.before == c]
            if len(absences) > 1:
                return f"two events must be absent before {component.variable!r}"
            for a in absences:
                absent = self._absent(accepts[c - 1], test_of(self.program, self.bound.absent_accepts[a]))
            high = NO_LIMIT if component.high is None else component.high
            rows.append([component.low, high, PREFERENCES[component.preference], take, begin, absent])
        return NextTables(
            np.array(rows, np.int64), tuple(self.edges), np.array(self.tests, np.int64).reshape(-1, 8),
            tuple(self.floats), tuple(self.integers), accepts[0],
        )  # fmt: skip

    def _first(self, decided: list[BoundCondition]) -> str | None:
        """Return why the first event alone does not decide a condition on it; None if it decides all."""
        for condition in decided:
            if not _reads_back(condition):
                return f"condition {condition.condition.conjunct + 1} is on the first event"
        return None

    def _absent(self, source: int, target: int) -> int:
        """Add the edge to an absent event, and return its number."""
        self.edges.append(Jump(source, target, 0, 0, is_absent=True))
        return len(self.edges) - 1

    def _edge(self, source: int, target: int, decided: list[BoundCondition], *, taking: bool) -> int | str:
        """Add an edge with the conditions that its events decide; return its number or a reason."""
        first, looks_back = len(self.tests), False
        for condition in decided:
            if _reads_back(condition) and not taking:
                continue  # it does not concern the first event of a loop
            try:
                for term in conjuncts_of(condition.term):
                    tests_of_sides = tests_by_side(
                        [term], lambda leaf, condition=condition: self._side(leaf, condition, taking=taking)
                    )
                    if isinstance(tests_of_sides, str):
                        return tests_of_sides
                    for (new, other), tests in tests_of_sides.items():
                        if not new:
                            return f"condition {condition.condition.conjunct + 1} names no event"
                        self.tests += [self._row(test, new, other) for test in tests]
            except _TooComplexError as error:
                return f"condition {condition.condition.conjunct + 1} {error}"
        for row in self.tests[first:]:
            looks_back |= row[6] != AT_LAST
        self.edges.append(Jump(source, target, first, len(self.tests), looks_back))
        return len(self.edges) - 1

    def _side(self, leaf: Term, own: BoundCondition, *, taking: bool) -> int:
        """Return the number of the event that a leaf reads: the new one, or a depth of the path."""
        if leaf.op != "element":
            raise _TooComplexError("aggregates the events of a loop")
        variable, which, _ = leaf.data
        c, at = own.component_of_variable[variable], own.condition.decided_at
        component = self.components[c]
        if c == at and (which == EACH or (component.high == 1 and which in (LAST, 1))):
            return _NEW
        if c == at and which == PREVIOUS:
            return _side_of(AT_LAST, 0)
        if c < at:
            is_last = c == at - 1 and not taking
            if (component.high == 1 and which in (EACH, LAST, 1)) or which == LAST:
                return _side_of(AT_LAST, 0) if is_last else _side_of(c + 1, -1)
            if which == 1:
                return _side_of(c, 0)
        raise _TooComplexError("looks at several events of a loop, or at one that may be missing")

    def _row(self, test: PairTest, new: int, other: int) -> list[int]:
        """Return the row of a test between the new event and another one."""
        if test.other is None:  # it looks at one event, whose number both sides have
            event = other if test.side == SCALAR else new
            row = self._integer(TRUE if test.wanted else FALSE, test.one)
            at_new = event == _NEW
            base, offset = (AT_LAST, 0) if at_new else _depth(event)
            valid_rows = (row, _NOTHING) if at_new else (_NOTHING, row)
            return [0, 0, _NOTHING, _NOTHING, *valid_rows, base, offset]
        if new != _NEW:
            raise _TooComplexError("compares two events of the path")
        as_floats = FLOAT in (test.one.kind, test.other.kind)
        values = [self._value(term, as_floats=as_floats) for term in (test.one, test.other)]
        valid_rows = [
            _NOTHING if as_floats or not term.nullable else self._integer(ALL_VALID, term)
            for term in (test.one, test.other)
        ]
        return [int(as_floats), SIGNS.index(test.sign), *values, *valid_rows, *_depth(other)]

    def _value(self, term: Term, *, as_floats: bool) -> int:
        """Return the row of a value that a test compares, among the floats or the integers."""
        if not as_floats:
            return self._integer(VALUE, term)
        value = EventValue(AS_FLOAT, without_variable(term), True)
        return self.floats.setdefault(value, len(self.floats))

    def _integer(self, what: str, term: Term) -> int:
        """Return the row of a value of single events among the integers."""
        value = EventValue(what, without_variable(term), False)
        return self.integers.setdefault(value, len(self.integers))


class _TooComplexError(Exception):
    """A condition has no test; the message completes "condition 1 …"."""


def _reads_back(condition: BoundCondition) -> bool:
    """Return whether a condition on a loop compares its events with those before."""
    component_of, at = condition.component_of_variable, condition.condition.decided_at
    leaves = (leaf for leaf in condition.term.walk() if leaf.op == "element")
    return any(leaf.data[1] == PREVIOUS and component_of[leaf.data[0]] == at for leaf in leaves)


def _side_of(base: int, offset: int) -> int:
    """Return one number for a depth of the path, which is a base and an offset from it."""
    return ((base + 8) << 8) + offset + 8


def _depth(side: int) -> tuple[int, int]:
    """Return the base and the offset that `_side_of` packed."""
    return (side >> 8) - 8, (side & 255) - 8


def edge_rows(edges: tuple[Jump, ...]) -> np.ndarray:
    """Return the table of edges: whether the tests look back, and the span of the tests."""
    rows = [[int(edge.looks_back), edge.first_test, edge.last_test] for edge in edges]
    return np.array(rows, np.int64).reshape(-1, 3)
