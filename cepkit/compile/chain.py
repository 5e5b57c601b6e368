"""A branch whose conditions link neighbouring events only, as a graph: its matches are paths.

Where every condition is on one event or on two successive ones, the number of matches that end at an event is
a sum over its possible predecessors: nothing need be enumerated to be counted, drawn or found by number.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepkit.compile.sequences.elements import EACH, LAST, PREVIOUS
from cepkit.compile.sequences.program import BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.sequences.search_source import test_of
from cepkit.compile.shared.terms import Term

MOST_STATES = 62


@dataclass(frozen=True, slots=True)
class ChainState:
    """An event of component ``component``, the ``copy``-th of it (the last copy: that or a later one)."""

    component: int
    copy: int
    test: int  # row of the table of conditions on single events
    is_first: bool  # a match may begin here
    is_final: bool  # a match may end here


@dataclass(frozen=True, slots=True)
class EdgeAbsence:
    """No event that passes ``test`` and ``terms`` strictly between the two events of an edge.

    ``side`` says which of the two the terms look at besides the absent one: ``none``, ``earlier``, ``later``.
    """

    variable: str
    test: int
    terms: tuple[Term, ...]
    side: str


@dataclass(frozen=True, slots=True)
class ChainEdge:
    """From an event in state ``source`` to a later one in state ``target`` (the same one: a loop).

    Leaves of ``terms`` are ``element`` terms; those in ``earlier`` are of the first of the two events, the
    others of the second.
    """

    source: int
    target: int
    terms: tuple[Term, ...]
    earlier: frozenset[Term]
    absences: tuple[EdgeAbsence, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """States and edges in the order of the components; edges only lead to the same or to later states."""

    branch: BoundBranch
    states: tuple[ChainState, ...]
    edges: tuple[ChainEdge, ...]

    @property
    def has_loop(self) -> bool:
        """Whether a state can follow itself."""
        return any(edge.source == edge.target for edge in self.edges)

    @property
    def is_unary(self) -> bool:
        """Whether any event may follow any earlier one of a preceding state."""
        return not any(edge.terms or edge.absences for edge in self.edges)


def chain_of(program: SequenceProgram, bound: BoundBranch) -> Chain | str:
    """Return the chain of a branch, or why it has none.

    Parameters
    ----------
    program : SequenceProgram
        For its tests on single events.
    bound : BoundBranch
        One of its branches.

    Returns
    -------
    Chain or str
        The reason completes "it …".
    """
    components = bound.branch.components
    for component in components:
        if component.until is not None:
            return f"'until' of {component.variable!r} ends its loop"
        if {component.step, component.inner if component.high != 1 else "any"} != {"any"}:
            return "may not skip any event between two of a match (strategy 'any' may)"
    between: dict[tuple[int, int], list[tuple[Term, frozenset[Term]]]] = {}
    for condition in bound.conditions:
        if condition.condition.absence is not None:
            continue
        link = _link(bound, condition)
        if isinstance(link, str):
            return link
        between.setdefault(link[0], []).append((condition.term, link[1]))
    absent: dict[int, list[EdgeAbsence]] = {}
    for number, absence in enumerate(bound.branch.absences):
        if absence.spanning or absence.after < 0 or absence.before >= len(components):
            return f"the absent event {absence.variable!r} does not stand between two neighbours"
        edge = _edge_absence(program, bound, number)
        if isinstance(edge, str):
            return edge
        absent.setdefault(absence.before, []).append(edge)
    return _laid_out(program, bound, between, absent)


def _link(bound: BoundBranch, condition: BoundCondition) -> tuple[tuple[int, int], frozenset[Term]] | str:
    """Return which two components a condition links and its leaves of the earlier event."""
    of, components = condition.component_of_variable, bound.branch.components
    leaves = [leaf for leaf in condition.term.walk() if leaf.op in ("element", "group")]
    reason = f"condition {condition.condition.conjunct + 1} does not link just two neighbouring events"
    if not leaves or any(leaf.op == "group" for leaf in leaves):
        return reason
    at = condition.condition.decided_at
    if set(of.values()) == {at}:
        if any(leaf.data[1] not in (EACH, PREVIOUS) for leaf in leaves) or not condition.condition.each:
            return reason
        return (at, at), frozenset(leaf for leaf in leaves if leaf.data[1] == PREVIOUS)
    if set(of.values()) != {at - 1, at}:
        return reason
    for leaf in leaves:
        c, which = of[leaf.data[0]], leaf.data[1]
        is_neighbour = which == EACH and not components[c].is_group
        is_neighbour |= components[c].high == 1 and which in (EACH, LAST, 1)
        is_neighbour |= which == (LAST if c == at - 1 else 1)
        if not is_neighbour:
            return reason
    return (at - 1, at), frozenset(leaf for leaf in leaves if of[leaf.data[0]] == at - 1)


def _edge_absence(program: SequenceProgram, bound: BoundBranch, number: int) -> EdgeAbsence | str:
    absence = bound.branch.absences[number]
    own = [condition for condition in bound.conditions if condition.condition.absence == number]
    sides = set()
    for condition in own:
        of = condition.component_of_variable
        for leaf in condition.term.walk():
            if leaf.op == "group":
                return f"conditions on the absent event {absence.variable!r} look at all events of a group"
            if leaf.op != "element" or leaf.data[0] == absence.variable:
                continue
            c, which = of[leaf.data[0]], leaf.data[1]
            single = bound.branch.components[c].high == 1 and which in (EACH, LAST, 1)
            if c == absence.after and (single or which == LAST):
                sides.add("earlier")
            elif c == absence.before and (single or which == 1):
                sides.add("later")
            else:
                return (
                    f"conditions on the absent event {absence.variable!r} look at other than its neighbours"
                )
    if len(sides) > 1:
        return f"conditions on the absent event {absence.variable!r} look at both its neighbours"
    test = test_of(program, bound.absent_accepts[number])
    terms = tuple(condition.term for condition in own)
    return EdgeAbsence(absence.variable, test, terms, sides.pop() if sides else "none")


def _laid_out(program, bound, between, absent) -> Chain | str:
    components = bound.branch.components
    states: list[ChainState] = []
    first_state, copies_of = [], []
    for c, component in enumerate(components):
        n_copies = component.low if component.high is None else component.high
        if len(states) + n_copies > MOST_STATES:
            return f"{component.variable!r} repeats so often that more than {MOST_STATES} states are needed"
        first_state.append(len(states))
        copies_of.append(n_copies)
        test = test_of(program, bound.accepts[c])
        for copy in range(n_copies):
            is_final = c == len(components) - 1 and copy >= component.low - 1
            states.append(ChainState(c, copy, test, c == 0 and copy == 0, is_final))
    edges: list[ChainEdge] = []

    def edge(source: int, target: int, pair: tuple[int, int], absences=()) -> None:
        links = between.get(pair, [])
        earlier = frozenset().union(*(own for _, own in links))
        edges.append(ChainEdge(source, target, tuple(term for term, _ in links), earlier, tuple(absences)))

    for c, component in enumerate(components):
        base, n_copies = first_state[c], copies_of[c]
        for copy in range(n_copies - 1):
            edge(base + copy, base + copy + 1, (c, c))
        if component.high is None:
            edge(base + n_copies - 1, base + n_copies - 1, (c, c))
        if c + 1 < len(components):
            for copy in range(component.low - 1, n_copies):
                edge(base + copy, first_state[c + 1], (c, c + 1), absent.get(c + 1, ()))
    return Chain(bound, tuple(states), tuple(edges))
