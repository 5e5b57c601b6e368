"""Sequence queries that can be counted without enumeration, as graphs of states; others without a part."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial

from cepkit.compile.sequence_program import EACH, LAST, PREVIOUS, BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.sequence_source import test_of
from cepkit.compile.shared.terms import Term
from cepkit.language.sequences.branches import Component
from cepkit.values import dataclass, replace

# Sequence queries that can be counted without enumeration: their matches are paths of a graph of states.

# This needs every condition to read one event, or two successive events of the match. The number of matches
# that end at an event is then a sum over the events that may precede it.

MOST_STATES = 62

# Conditions by the two components that they link, each with its leaves that read the earlier event.
Between = dict[tuple[int, int], list[tuple[Term, frozenset[Term]]]]


@dataclass(frozen=True, slots=True)
class GraphState:
    """The state of an event that a match takes as event number ``copy`` of a component."""

    # The last state of a component without an upper limit also stands for all later events.

    component: int
    copy: int
    test: int  # row of the table of conditions on single events
    is_first: bool  # a match may begin here
    is_final: bool  # a match may end here


@dataclass(frozen=True, slots=True)
class LinkAbsence:
    """No event that passes ``test`` and ``terms`` may lie strictly between the two events of a link."""

    # Besides the absent event, the terms read the event that ``side`` names: ``none``, ``earlier``,
    # ``later``.

    variable: str
    test: int
    terms: tuple[Term, ...]
    side: str


@dataclass(frozen=True, slots=True)
class Link:
    """The conditions between an event of component ``source`` and the next one, of component ``target``."""

    # The leaves of ``terms`` are ``element`` terms. Leaves in ``earlier`` read the first of the two events,
    # all others the second.

    source: int
    target: int
    terms: tuple[Term, ...]
    earlier: tuple[Term, ...]
    absences: tuple[LinkAbsence, ...]

    @property
    def has_near(self) -> bool:
        """Whether, with an absence, the later event sets the first place that the earlier one may have."""
        return any(absence.side != "earlier" for absence in self.absences)

    @property
    def has_far(self) -> bool:
        """Whether an absence gives the earlier event a last place for the later one."""
        return any(absence.side == "earlier" for absence in self.absences)

    @property
    def is_free(self) -> bool:
        """Whether any two events fulfil the link, because it has no condition."""
        return not (self.terms or self.absences)

    def leaves(self) -> tuple[list[Term], list[Term]]:
        """Return the leaves that read the earlier event, and those that read the later one."""
        every = elements_of(self.terms)
        return [leaf for leaf in every if leaf in self.earlier], [t for t in every if t not in self.earlier]


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An event in state ``target`` may follow one in state ``source`` when link number ``link`` holds."""

    source: int
    target: int
    link: int


@dataclass(frozen=True)
class StateGraph:
    """States and edges in the order of the components; an edge leads to its own state or to a later one."""

    # A *pool* is the list of places that pass one test. States with the same test share it.

    branch: BoundBranch
    states: tuple[GraphState, ...]
    edges: tuple[GraphEdge, ...]
    links: tuple[Link, ...]
    has_gap: bool  # whether time limits how far apart two successive events are

    @property
    def has_loop(self) -> bool:
        """Whether a state can follow itself."""
        return any(edge.source == edge.target for edge in self.edges)

    @property
    def is_unary(self) -> bool:
        """Whether no condition links two events, so that any event may follow any earlier one."""
        return all(link.is_free for link in self.links)

    @cached_property
    def is_line(self) -> bool:
        """Whether every match takes all states, each once."""
        last = len(self.states) - 1
        pairs = [(edge.source, edge.target) for edge in self.edges]
        return last > 0 and self.finals == (last,) and pairs == [(s, s + 1) for s in range(last)]

    @cached_property
    def finals(self) -> tuple[int, ...]:
        """The states in which a match may end; all are of the last component, so they share a pool."""
        return tuple(s for s, state in enumerate(self.states) if state.is_final)

    @cached_property
    def tests(self) -> tuple[int, ...]:
        """The tests of the states and of the absent events, each once; their places number the pools."""
        tests = [state.test for state in self.states]
        tests += [absence.test for edge in self.edges for absence in self.links[edge.link].absences]
        return tuple(dict.fromkeys(tests))

    @property
    def terms(self) -> tuple[Term, ...]:
        """The conditions between events, with those on absent events."""
        terms = [term for link in self.links for term in link.terms]
        terms += [term for link in self.links for absence in link.absences for term in absence.terms]
        return tuple(terms)

    def pool(self, state: int) -> int:
        """Return the pool of a state's events."""
        return self.tests.index(self.states[state].test)

    def pool_of_component(self, component: int) -> int:
        """Return the pool of a component's events."""
        return next(self.pool(s) for s, state in enumerate(self.states) if state.component == component)

    def link(self, edge: int) -> Link:
        """Return the conditions on the two events that an edge joins."""
        return self.links[self.edges[edge].link]

    def into(self, state: int) -> list[int]:
        """Return the edges that lead into a state."""
        return [e for e, edge in enumerate(self.edges) if edge.target == state]

    def out_of(self, state: int) -> list[int]:
        """Return the edges that lead out of a state."""
        return [e for e, edge in enumerate(self.edges) if edge.source == state]


def elements_of(terms: Iterable[Term]) -> list[Term]:
    """Return the terms that read an event's columns, each once."""
    return list(dict.fromkeys(part for term in terms for part in term.walk() if part.op == "element"))


def state_graph_of(program: SequenceProgram, bound: BoundBranch) -> StateGraph | str:
    """Return the state graph of a branch of ``program``, or why it has none, to complete "it …"."""
    return program.once("states", partial(_state_graph, program, bound), of=bound)


def _state_graph(program: SequenceProgram, bound: BoundBranch) -> StateGraph | str:
    """Return the state graph of a branch, or why it has none."""
    components = bound.branch.components
    if reason := why_not_any(bound):
        return reason
    between: Between = {}
    for condition in bound.conditions:
        if condition.condition.absence is not None:
            continue
        link = link_of(bound, condition)
        if isinstance(link, str):
            return link
        between.setdefault(link[0], []).append((condition.term, link[1]))
    absent: dict[int, list[LinkAbsence]] = {}
    for number, absence in enumerate(bound.branch.absences):
        if absence.spanning or absence.after < 0 or absence.before >= len(components):
            return f"the absent event {absence.variable!r} is not between two neighbours"
        link_absence = _link_absence(program, bound, number)
        if isinstance(link_absence, str):
            return link_absence
        absent.setdefault(absence.before, []).append(link_absence)
    parts = graph_parts(program, bound, between, absent)
    return parts if isinstance(parts, str) else StateGraph(*parts)


def why_not_any(bound: BoundBranch) -> str | None:
    """Return why the paths of a graph of states cannot be the matches of a branch, or None."""
    for component in bound.branch.components:
        if component.until is not None:
            return f"'until' of {component.variable!r} ends its loop"
        if {component.step, component.inner if component.high != 1 else "any"} != {"any"}:
            return "may not skip any event between two events of a match (strategy 'any' may)"
    return None


def link_of(bound: BoundBranch, condition: BoundCondition) -> tuple[tuple[int, int], frozenset[Term]] | str:
    """Return the two components that a condition links, and its leaves that read the earlier event."""
    component_of, components = condition.component_of_variable, bound.branch.components
    leaves = [leaf for leaf in condition.term.walk() if leaf.op in ("element", "group")]
    reason = f"condition {condition.condition.conjunct + 1} does not link just two neighbouring events"
    if not leaves or any(leaf.op == "group" for leaf in leaves):
        return reason
    at = condition.condition.decided_at
    if set(component_of.values()) == {at}:
        if any(leaf.data[1] not in (EACH, PREVIOUS) for leaf in leaves) or not condition.condition.each:
            return reason
        return (at, at), frozenset(leaf for leaf in leaves if leaf.data[1] == PREVIOUS)
    if set(component_of.values()) != {at - 1, at}:
        return reason
    if not all(
        reads_neighbour(components[component_of[leaf.data[0]]], leaf, component_of[leaf.data[0]] < at)
        for leaf in leaves
    ):
        return reason
    return (at - 1, at), frozenset(leaf for leaf in leaves if component_of[leaf.data[0]] == at - 1)


def reads_neighbour(component: Component, leaf: Term, is_earlier: bool) -> bool:
    """Return whether a leaf reads the event next to the other component: the last or the first one."""
    which = leaf.data[1]
    is_single = (which == EACH and not component.is_group) or reads_single(component, leaf)
    return is_single or which == (LAST if is_earlier else 1)


def reads_single(component: Component, leaf: Term) -> bool:
    """Return whether a leaf reads the only event of its component."""
    return component.high == 1 and leaf.data[1] in (EACH, LAST, 1)


def _link_absence(program: SequenceProgram, bound: BoundBranch, number: int) -> LinkAbsence | str:
    """Return an absence with the neighbour that its conditions read, or why the graph cannot have it."""
    absence = bound.branch.absences[number]
    conditions = [condition for condition in bound.conditions if condition.condition.absence == number]
    sides = set()
    for condition in conditions:
        component_of = condition.component_of_variable
        for leaf in condition.term.walk():
            if leaf.op == "group":
                return f"conditions on the absent event {absence.variable!r} read all events of a group"
            if leaf.op != "element" or leaf.data[0] == absence.variable:
                continue
            c, which = component_of[leaf.data[0]], leaf.data[1]
            single = bound.branch.components[c].high == 1 and which in (EACH, LAST, 1)
            if c == absence.after and (single or which == LAST):
                sides.add("earlier")
            elif c == absence.before and (single or which == 1):
                sides.add("later")
            else:
                return f"conditions on the absent event {absence.variable!r} read more than its neighbours"
    if len(sides) > 1:
        return f"conditions on the absent event {absence.variable!r} read both its neighbours"
    test = test_of(program, bound.absent_accepts[number])
    terms = tuple(condition.term for condition in conditions)
    return LinkAbsence(absence.variable, test, terms, sides.pop() if sides else "none")


def graph_parts(program: SequenceProgram, bound: BoundBranch, between: Between, absent) -> tuple | str:
    """Return the fields of the `StateGraph` of a branch with these conditions, or why it has none."""
    components = bound.branch.components
    states: list[GraphState] = []
    first_state, copies_of = [], []
    for c, component in enumerate(components):
        n_copies = component.low if component.high is None else component.high
        if len(states) + n_copies > MOST_STATES:
            return f"{component.variable!r} repeats so often that it needs more than {MOST_STATES} states"
        first_state.append(len(states))
        copies_of.append(n_copies)
        test = test_of(program, bound.accepts[c])
        for copy in range(n_copies):
            is_final = c == len(components) - 1 and copy >= component.low - 1
            states.append(GraphState(c, copy, test, c == 0 and copy == 0, is_final))
    edges: list[GraphEdge] = []
    links: dict[tuple[int, int], Link] = {}

    def edge(source: int, target: int, pair: tuple[int, int]) -> None:
        if pair not in links:
            conditions = between.get(pair, [])
            absences = absent.get(pair[1], ()) if pair[0] != pair[1] else ()
            # Sorted, since the text of a kernel names columns in this order in every process.
            earlier = tuple(sorted(frozenset().union(*(leaves for _, leaves in conditions)), key=repr))
            links[pair] = Link(*pair, tuple(term for term, _ in conditions), earlier, tuple(absences))
        edges.append(GraphEdge(source, target, list(links).index(pair)))

    for c, component in enumerate(components):
        base, n_copies = first_state[c], copies_of[c]
        for copy in range(n_copies - 1):
            edge(base + copy, base + copy + 1, (c, c))
        if component.high is None:
            edge(base + n_copies - 1, base + n_copies - 1, (c, c))
        if c + 1 < len(components):
            for copy in range(component.low - 1, n_copies):
                edge(base + copy, first_state[c + 1], (c, c + 1))
    has_gap = program.window.gap_within is not None
    return bound, tuple(states), tuple(edges), tuple(links.values()), has_gap


# Sequence queries whose conditions also read the first event: for each first event, matches are paths.
#
# The *anchor* is the single event that a match begins with. A condition such as ``b[i].x > a.x`` reads two
# events that are not neighbours. If the anchor is given, the condition reads one event.


@dataclass(frozen=True)
class AnchoredGraph(StateGraph):
    """A state graph whose conditions may also read the anchor, the only event of state 0."""

    # ``given`` has, for each component, the conditions on one of its events and the anchor. The terms of
    # links may read the anchor too.

    given: tuple[tuple[Term, ...], ...]

    @property
    def is_unary(self) -> bool:
        """Whether any event may follow any earlier one; never, since the anchor decides."""
        return False

    @property
    def terms(self) -> tuple[Term, ...]:
        """The conditions between events, with those on the anchor and one more event."""
        return (*super().terms, *(term for terms in self.given for term in terms))

    @property
    def anchor(self) -> str:
        """The variable of the event that a match begins with."""
        return self.branch.branch.components[0].variable

    @property
    def loops(self) -> tuple[int, ...]:
        """The components that can take different numbers of events."""
        return _loops(self.branch)


def anchored_graph_of(program: SequenceProgram, bound: BoundBranch) -> AnchoredGraph | str:
    """Return the anchored graph of a branch of ``program``, or why it has none, to complete "it …"."""
    return program.once("anchored", partial(_anchored_graph, program, bound), of=bound)


def _anchored_graph(program: SequenceProgram, bound: BoundBranch) -> AnchoredGraph | str:
    """Return the anchored graph of a branch, or why it has none."""
    components = bound.branch.components
    if reason := why_not_any(bound):
        return reason
    if components[0].high != 1 or len(components) < 2:
        return f"a match begins with several events {components[0].variable!r}"
    if any(component.variable == components[0].variable for component in components[1:]):
        return f"a match may have several events {components[0].variable!r}"
    if bound.branch.absences:
        absent = bound.branch.absences[0].variable
        return f"the absent event {absent!r} occurs beside conditions on the first event"
    types = [component.event_type for component in components]
    if len(_loops(bound)) > 1 and (None in types or len(set(types)) < len(types)):
        return "events can belong to several loops"
    between: Between = {}
    by_component: list[list[Term]] = [[] for _ in components]
    for condition in bound.conditions:
        if any(part.op == "similarity" for part in condition.term.walk()):
            return "compares arrays"
        link = link_of(bound, condition)
        if isinstance(link, str):
            link = _anchored_link(bound, condition)
        if isinstance(link, str):
            return link
        if isinstance(link, int):
            by_component[link].append(condition.term)
        else:
            between.setdefault(link[0], []).append((condition.term, link[1]))
    parts = graph_parts(program, bound, between, {})
    return parts if isinstance(parts, str) else AnchoredGraph(*parts, tuple(map(tuple, by_component)))


def _loops(bound: BoundBranch) -> tuple[int, ...]:
    components = bound.branch.components
    return tuple(c for c, component in enumerate(components) if component.low != component.high)


def _anchored_link(
    bound: BoundBranch, condition: BoundCondition
) -> int | tuple[tuple[int, int], frozenset[Term]] | str:
    """Return the component whose single events a condition reads beside the anchor, or the linked two."""
    component_of, components = condition.component_of_variable, bound.branch.components
    leaves = [leaf for leaf in condition.term.walk() if leaf.op in ("element", "group")]
    reason = (
        f"condition {condition.condition.conjunct + 1} links more events than the first and two neighbours"
    )
    others = [leaf for leaf in leaves if leaf.op == "element" and component_of[leaf.data[0]] > 0]
    used = sorted({component_of[leaf.data[0]] for leaf in others})
    if any(leaf.op == "group" for leaf in leaves) or not used or len(used) > 2:
        return reason
    if not all(leaf in others or reads_single(components[0], leaf) for leaf in leaves):
        return reason
    at, component = used[-1], components[used[-1]]  # the later one of the two
    if len(used) == 2:
        if used[0] != at - 1 or not all(
            reads_neighbour(components[component_of[leaf.data[0]]], leaf, component_of[leaf.data[0]] < at)
            for leaf in others
        ):
            return reason
        return (at - 1, at), frozenset(leaf for leaf in others if component_of[leaf.data[0]] == at - 1)
    which = {leaf.data[1] for leaf in others}
    if all(reads_single(component, leaf) for leaf in others) or (
        which == {EACH} and condition.condition.each
    ):
        return at
    if which <= {EACH, PREVIOUS} and condition.condition.each:
        return (at, at), frozenset(leaf for leaf in others if leaf.data[1] == PREVIOUS)
    if which == {1}:
        return (at - 1, at), frozenset()
    if which == {LAST} and at + 1 < len(components):
        return (at, at + 1), frozenset(others)
    return reason


# Removes the conditions that the counting engine cannot run from a sequence query, and lists them.


@dataclass(frozen=True, slots=True)
class Dropped:
    """The numbers of the conditions and absences that a branch leaves out."""

    conditions: tuple[int, ...] = ()
    absences: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions or self.absences)


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A program for the counting engine, and what its branches leave out. It has all matches of the query."""

    program: SequenceProgram
    dropped: tuple[Dropped, ...]


def relax(program: SequenceProgram) -> Relaxed | str:
    """Return the program without the conditions that the counting engine cannot run, or why it has none."""
    # It leaves out each condition and absence that prevents a state graph even alone: those that link events
    # that are not neighbours, read whole loops, or forbid events at the edges of the window. A reason
    # completes "it …".
    policy = program.query.after_match[0]
    if policy != "none":
        return f"reports matches by after_match={policy!r}, which looks at every one"
    relaxed = [_relax_branch(program, bound) for bound in program.branches]
    for branch in relaxed:
        if isinstance(branch, str):
            return branch
    bare = replace(program, branches=tuple(bound for bound, _ in relaxed))
    called = {term.data for root in bare.terms() for term in root.walk() if term.op == "call"}
    functions = {name: function for name, function in program.functions.items() if name in called}
    bare = replace(bare, functions=functions)
    if not bare.compiled:
        return f"cannot be counted with {', '.join(bare.reasons_for_python)}, a plain Python function"
    return Relaxed(bare, tuple(dropped for _, dropped in relaxed))


def _relax_branch(program: SequenceProgram, bound: BoundBranch) -> tuple[BoundBranch, Dropped] | str:
    bare = _with(bound, (), ())
    reason = state_graph_of(program, bare)
    if isinstance(reason, str):
        return reason
    conditions = [i for i, condition in enumerate(bound.conditions) if condition.condition.absence is None]
    absences = range(len(bound.branch.absences))
    kept = [i for i in conditions if not isinstance(state_graph_of(program, _with(bound, (i,), ())), str)]
    kept_absences = [
        a for a in absences if not isinstance(state_graph_of(program, _with(bound, (), (a,))), str)
    ]
    dropped = Dropped(
        tuple(i for i in conditions if i not in kept), tuple(a for a in absences if a not in kept_absences)
    )
    relaxed = _with(bound, kept, kept_absences)
    reason = state_graph_of(program, relaxed)
    return reason if isinstance(reason, str) else (relaxed, dropped)


def _with(bound: BoundBranch, conditions, absences) -> BoundBranch:
    number_of_absence = {a: number for number, a in enumerate(absences)}
    kept_conditions = [bound.conditions[i] for i in conditions]
    for condition in bound.conditions:
        if condition.condition.absence in number_of_absence:
            absence = number_of_absence[condition.condition.absence]
            kept_conditions.append(
                replace(condition, condition=replace(condition.condition, absence=absence))
            )
    return replace(
        bound, branch=replace(bound.branch, absences=tuple(bound.branch.absences[a] for a in absences)),
        absent_accepts=tuple(bound.absent_accepts[a] for a in absences), conditions=tuple(kept_conditions),
    )  # fmt: skip
