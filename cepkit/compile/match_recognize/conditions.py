"""Conditions of MATCH_RECOGNIZE as functions: comparisons, tests, and what joins them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cepkit.compile.match_recognize.arithmetic import converted
from cepkit.compile.match_recognize.compiled import (
    Compiled,
    Place,
    refuse_comparison,
    refuse_like,
    refuse_no_truth,
    refuse_objects,
    strict,
    type_of_constant,
)
from cepkit.compile.shared.bound_query import like_test
from cepkit.events import BOOLEAN, FLOAT, INTEGER, TEXT, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp

CONDITIONS = (
    ex.And, ex.Or, ex.Not, ex.Comparison, ex.In, ex.IsNull, ex.Like, rp.LikeWithEscape, rp.IsTruth,
    rp.IsDistinct,
)  # fmt: skip
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def condition_of(
    tree: ex.Expression,
    part: Callable[[ex.Expression], Compiled],
    condition: Callable[[ex.Expression], Compiled],
) -> Compiled:
    """Return one of ``CONDITIONS`` as a function."""
    match tree:
        case ex.And(operands=operands):
            calls = [condition(operand).call for operand in operands]
            return Compiled(lambda place, row: _all(call(place, row) for call in calls), ColumnType(BOOLEAN))
        case ex.Or(operands=operands):
            calls = [condition(operand).call for operand in operands]
            return Compiled(lambda place, row: _any(call(place, row) for call in calls), ColumnType(BOOLEAN))
        case ex.IsNull(operand=operand):
            call = part(operand).call
            return Compiled(lambda place, row: call(place, row) is None, ColumnType(BOOLEAN))
        case ex.In(operand=operand, options=options):
            compiled, constants = part(operand), constants_of(options)
            if constants is not None and compiled.type.kind in (INTEGER, FLOAT, TEXT, BOOLEAN):
                refuse_comparison(
                    tree,
                    [(operand, compiled.type), *zip(options, map(type_of_constant, constants), strict=True)],
                )
                return strict(frozenset(constants).__contains__, [compiled], ColumnType(BOOLEAN))
            return _membership(tree, compiled, [part(node) for node in options])
        case ex.Like(operand=operand, pattern=pattern) | rp.LikeWithEscape(operand=operand, pattern=pattern):
            compiled, escape = part(operand), tree.escape if isinstance(tree, rp.LikeWithEscape) else None
            refuse_like(tree, compiled.type)
            return strict(like_test(pattern, escape), [compiled], ColumnType(BOOLEAN))
        case rp.IsTruth(operand=operand):
            return _is_truth(tree, part(operand))
        case rp.IsDistinct():
            return _is_distinct(_sides(tree, part))
        case ex.Comparison(operator=sign):
            return strict(_COMPARISONS[sign], _sides(tree, part), ColumnType(BOOLEAN), tree)
        case ex.Not(operand=operand):
            return strict(operator.not_, [condition(operand)], ColumnType(BOOLEAN))
    raise TypeError(f"no condition: {type(tree).__name__}")


def _sides(tree: ex.Comparison | rp.IsDistinct, part: Callable[[ex.Expression], Compiled]) -> list[Compiled]:
    """Return both sides as functions, in one unit and one zone."""
    left, right = part(tree.left), part(tree.right)
    typed = [(tree.left, left.type), (tree.right, right.type)]
    refuse_objects(typed)
    refuse_comparison(tree, typed)
    return converted([left, right])


def _all(values: Iterable[Any]) -> bool | None:
    truth: bool | None = True
    for value in values:
        if value is False:
            return False
        truth = None if value is None else truth
    return truth


def _any(values: Iterable[Any]) -> bool | None:
    truth: bool | None = False
    for value in values:
        if value is True:
            return True
        truth = None if value is None else truth
    return truth


def constants_of(options: Sequence[ex.Expression]) -> list[Any] | None:
    """Return the values of numbers, texts and truth values; None if anything else is among them."""
    values: list[Any] = []
    for option in options:
        tree = option.operand if isinstance(option, ex.Negative) else option
        if type(tree) is not ex.Literal or type(tree.value) not in (bool, int, float, str):
            return None
        if tree is not option and type(tree.value) not in (int, float):
            return None
        values.append(tree.value if tree is option else -tree.value)
    return values


def _is_truth(tree: rp.IsTruth, operand: Compiled) -> Compiled:
    refuse_no_truth(tree, operand.type)
    call, wanted = operand.call, tree.truth
    return Compiled(lambda place, row: call(place, row) is wanted, ColumnType(BOOLEAN))


def _is_distinct(sides: list[Compiled]) -> Compiled:
    left, right = (side.call for side in sides)

    def call(place: Place, row: int) -> bool:
        left_value, right_value = left(place, row), right(place, row)
        if left_value is None or right_value is None:
            return left_value is not right_value
        return left_value != right_value

    return Compiled(call, ColumnType(BOOLEAN))


def _membership(tree: ex.In, operand: Compiled, choices: list[Compiled]) -> Compiled:
    parts = [operand, *choices]
    trees = [tree.operand, *tree.options]
    refuse_comparison(tree, [(node, part.type) for node, part in zip(trees, parts, strict=True)])
    item, *options = [part.call for part in converted(parts)]

    def call(place: Place, row: int) -> bool | None:
        value = item(place, row)
        if value is None:
            return None
        others = [option(place, row) for option in options]
        if any(value == other for other in others if other is not None):
            return True
        return None if None in others else False

    return Compiled(call, ColumnType(BOOLEAN))
