"""The conditions of a sequence query as comparisons of two events, for LinkedCEP and the run engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cepkit.compile.sequences.elements import EACH, LAST, PREVIOUS
from cepkit.compile.sequences.program import BoundBranch, BoundCondition
from cepkit.compile.shared.terms import Term
from cepkit.linked.patterns import ABSENT

_FLIPPED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">=": "<=", ">": "<", "<=": ">="}


@dataclass(frozen=True, slots=True)
class TermComparison:
    """The relation ``left_term sign right_term`` of two events; components as in `EventComparison`."""

    left: int
    sign: str
    right: int
    left_term: Term
    right_term: Term


def comparisons_of(bound: BoundBranch, one: BoundCondition) -> tuple[TermComparison, ...] | None:
    """Return a condition as comparisons that must all hold, or None when that is impossible.

    It is possible for a comparison, and for comparisons joined by "and". Each side must look at one event. In
    a Kleene closure, that is its latest event, or each event when it is added.

    """
    made = []
    for term, holds in _conjuncts(one.term, True):
        comparison = _comparison(bound, one, term, holds) if term.op == "compare" else None
        if comparison is None:
            return None
        made.append(comparison)
    return tuple(made)


def _conjuncts(term: Term, wanted: bool) -> Iterator[tuple[Term, bool]]:
    """Yield the terms that must be true (or false) for ``term`` to be ``wanted``."""
    if term.op == "not":
        yield from _conjuncts(term.args[0], not wanted)
    elif term.op == ("and" if wanted else "or"):
        for arg in term.args:
            yield from _conjuncts(arg, wanted)
    else:
        yield term, wanted


def _comparison(bound: BoundBranch, one: BoundCondition, term: Term, holds: bool) -> TermComparison | None:
    sides = [_side(bound, one, arg) for arg in term.args]
    if None in sides:
        return None
    (left, which_left), (right, which_right) = sides
    sign = term.data if holds else _FLIPPED[term.data]
    left_term, right_term = term.args
    if left == right:
        # An event of a Kleene closure and the one before it.
        if not one.condition.each or {which_left, which_right} != {EACH, PREVIOUS}:
            return None
        if which_left == PREVIOUS:
            left_term, right_term, sign = right_term, left_term, _MIRRORED[sign]
    elif not all(_names_one_event(bound, one, c, which) for c, which in sides):
        return None
    return TermComparison(left, sign, right, left_term, right_term)


def _side(bound: BoundBranch, one: BoundCondition, side: Term) -> tuple[int, str] | None:
    """Return the component that a side looks at and which of its events, or None when it looks at several."""
    leaves = [leaf for leaf in side.walk() if leaf.op in ("element", "group")]
    if not leaves or any(leaf.op == "group" for leaf in leaves):
        return None
    of = one.component_of_variable
    absence = one.condition.absence
    absent = None if absence is None else bound.branch.absences[absence].variable
    found = {(ABSENT if leaf.data[0] == absent else of[leaf.data[0]], leaf.data[1]) for leaf in leaves}
    return found.pop() if len(found) == 1 else None


def _names_one_event(bound: BoundBranch, one: BoundCondition, c: int, which: str | int) -> bool:
    """Return whether a comparison with another component means this event of component ``c``."""
    if c == ABSENT or not bound.branch.components[c].is_group:
        return which == EACH
    if one.condition.absence is not None:
        return False
    if c == one.condition.decided_at:
        return which == EACH and one.condition.each
    return which == LAST
