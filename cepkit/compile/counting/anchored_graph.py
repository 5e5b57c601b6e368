"""Sequence queries whose conditions also read the first event: for each first event, matches are paths.

The *anchor* is the single event that a match begins with. A condition such as ``b[i].x > a.x`` reads two
events that are not neighbours. If the anchor is given, the condition reads one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cepkit.compile.counting.state_graph import (
    Between,
    StateGraph,
    graph_parts,
    link_of,
    reads_neighbour,
    reads_single,
    why_not_any,
)
from cepkit.compile.sequences.elements import EACH, LAST, PREVIOUS
from cepkit.compile.sequences.program import BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.shared.terms import Term


@dataclass(frozen=True)
class AnchoredGraph(StateGraph):
    """A state graph whose conditions may also read the anchor, the only event of state 0.

    ``given`` has, for each component, the conditions on one of its events and the anchor. The terms of links
    may read the anchor too.

    """

    given: tuple[tuple[Term, ...], ...]

    @property
    def is_unary(self) -> bool:
        """Whether any event may follow any earlier one; never, since the anchor decides."""
        return False

    @property
    def terms(self) -> tuple[Term, ...]:
        """The conditions between events."""
        return (*super().terms, *(term for own in self.given for term in own))

    @property
    def anchor(self) -> str:
        """The variable of the anchor."""
        return self.branch.branch.components[0].variable

    @property
    def loops(self) -> tuple[int, ...]:
        """The components that can take different numbers of events."""
        return _loops(self.branch)


def anchored_graph_of(program: SequenceProgram, bound: BoundBranch) -> AnchoredGraph | str:
    """Return the anchored graph of a branch of ``program``, or why it has none, to complete "it …"."""
    return program.once("anchored", partial(_anchored_graph, program, bound), of=bound)


def _anchored_graph(program: SequenceProgram, bound: BoundBranch) -> AnchoredGraph | str:
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
    given: list[list[Term]] = [[] for _ in components]
    for condition in bound.conditions:
        if any(part.op == "similarity" for part in condition.term.walk()):
            return "compares arrays"
        link = link_of(bound, condition)
        if isinstance(link, str):
            link = _anchored_link(bound, condition)
        if isinstance(link, str):
            return link
        if isinstance(link, int):
            given[link].append(condition.term)
        else:
            between.setdefault(link[0], []).append((condition.term, link[1]))
    parts = graph_parts(program, bound, between, {})
    return parts if isinstance(parts, str) else AnchoredGraph(*parts, tuple(map(tuple, given)))


def _loops(bound: BoundBranch) -> tuple[int, ...]:
    of = bound.branch.components
    return tuple(c for c, component in enumerate(of) if component.low != component.high)


def _anchored_link(
    bound: BoundBranch, condition: BoundCondition
) -> int | tuple[tuple[int, int], frozenset[Term]] | str:
    """Return the component whose single events a condition reads beside the anchor, or the linked two."""
    of, components = condition.component_of_variable, bound.branch.components
    leaves = [leaf for leaf in condition.term.walk() if leaf.op in ("element", "group")]
    reason = (
        f"condition {condition.condition.conjunct + 1} links more events than the first and two neighbours"
    )
    others = [leaf for leaf in leaves if leaf.op == "element" and of[leaf.data[0]] > 0]
    used = sorted({of[leaf.data[0]] for leaf in others})
    if any(leaf.op == "group" for leaf in leaves) or not used or len(used) > 2:
        return reason
    if not all(leaf in others or reads_single(components[0], leaf) for leaf in leaves):
        return reason
    at, component = used[-1], components[used[-1]]
    if len(used) == 2:
        if used[0] != at - 1 or not all(
            reads_neighbour(components[of[leaf.data[0]]], leaf, of[leaf.data[0]] < at) for leaf in others
        ):
            return reason
        return (at - 1, at), frozenset(leaf for leaf in others if of[leaf.data[0]] == at - 1)
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
