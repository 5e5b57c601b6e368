"""Proofs that two conditions never hold for the same row."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cepkit.language.expressions import trees as ex

# The outcomes of a comparison (less, equal, greater) under which it is true.
_TRUE_FOR = {"<": "l", "<=": "le", ">": "g", ">=": "ge", "==": "e", "!=": "lg"}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def are_disjoint(one: ex.Expression, other: ex.Expression) -> bool:
    """Return whether two conditions can be proved never to hold together. Without a proof it is False.

    Both must be conditions of the same row. A proof is a pair of their parts: a condition and its ``not``,
    two comparisons of the same values, or comparisons of a value with constants.
    """
    if isinstance(one, ex.Or):
        return all(are_disjoint(option, other) for option in one.operands)
    if isinstance(other, ex.Or):
        return all(are_disjoint(one, option) for option in other.operands)
    return any(_contradict(a, b) for a in ex.conjuncts(one) for b in ex.conjuncts(other))


def _contradict(one: ex.Expression, other: ex.Expression) -> bool:
    if one == ex.Literal(False) or other == ex.Literal(False):
        return True
    if (isinstance(one, ex.Not) and one.operand == other) or (
        isinstance(other, ex.Not) and other.operand == one
    ):
        return True
    for value, outcomes, constant in _comparisons(one):
        for value_2, outcomes_2, constant_2 in _comparisons(other):
            if value == value_2 and not _can_both(outcomes, constant, outcomes_2, constant_2):
                return True
    return False


def _comparisons(tree: ex.Expression) -> Iterator[tuple[ex.Expression, str, object]]:
    """Yield (left, outcomes, right) of a comparison, in both directions; IN has a list of constants."""
    if isinstance(tree, ex.Comparison):
        yield tree.left, _TRUE_FOR[tree.operator], tree.right
        yield tree.right, _TRUE_FOR[_MIRROR[tree.operator]], tree.left
    if isinstance(tree, ex.In) and all(isinstance(option, ex.Literal) for option in tree.options):
        yield tree.operand, "e", tuple(tree.options)


def _can_both(outcomes: str, constant: object, outcomes_2: str, constant_2: object) -> bool:
    """Return whether a value can compare in both ways with the right sides; True without a proof."""
    if constant == constant_2 and not isinstance(constant, tuple):
        return bool(set(outcomes) & set(outcomes_2))
    firsts, seconds = _values(constant), _values(constant_2)
    if firsts is None or seconds is None:
        return True
    return any(_overlap(outcomes, one, outcomes_2, two) for one in firsts for two in seconds)


def _values(constant: object) -> list | None:
    """Return the constants if they are all numbers or all texts, else None."""
    items = constant if isinstance(constant, tuple) else (constant,)
    values = []
    for item in items:
        if isinstance(item, ex.Negative) and isinstance(item.operand, ex.Literal):
            item = ex.Literal(-item.operand.value)  # type: ignore[operator]  # only numbers have a sign
        if not isinstance(item, ex.Literal) or item.value is None:
            return None
        values.append(item.value)
    return values


def _overlap(outcomes: str, one: object, outcomes_2: str, two: object) -> bool:
    """Return whether some value compares with ``one`` and with ``two`` as the outcomes say."""
    if isinstance(one, bool) or isinstance(two, bool) or isinstance(one, str) != isinstance(two, str):
        return True
    if isinstance(one, str) or isinstance(two, str):
        # The order of texts may be that of categories, so only equality is a proof; times may have
        # several spellings of one value, so their texts prove nothing.
        is_word = all(isinstance(text, str) and not any(c.isdigit() for c in text) for text in (one, two))
        return not (outcomes == "e" and outcomes_2 == "e" and one != two and is_word)
    points = sorted({float(one), float(two)})  # type: ignore[arg-type]  # both are numbers here
    tried = [-math.inf, *points, (points[0] + points[-1]) / 2, math.inf]
    return any(_compare(x, one) in outcomes and _compare(x, two) in outcomes_2 for x in tried)


def _compare(x: float, constant: object) -> str:
    limit = float(constant)  # type: ignore[arg-type]  # a number
    return "l" if x < limit else "g" if x > limit else "e"
