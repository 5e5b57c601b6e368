"""Comparisons of vectors: two operands, IS DISTINCT FROM, and IN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.vectors.vector import (
    EXACT,
    LARGEST,
    NotVectorizedError,
    Vector,
    check_bound,
    check_numbers,
    join_missing,
)
from cepkit.events import BOOLEAN, TEXT, ColumnType

FEW = 8  # options of IN that are compared one by one
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip


def compare(sign: str, left: Vector, right: Vector) -> Vector:
    """Return ``left sign right`` for operands in one unit."""
    values = comparing(sign, left, right)(left.values, right.values)
    missing = join_missing(left.missing, right.missing)
    return Vector(values if isinstance(values, np.ndarray) else bool(values), ColumnType(BOOLEAN), missing)


def comparing(sign: str, left: Vector, right: Vector) -> Callable[..., Any]:
    """Return the function of numpy that compares the values of two operands in one unit."""
    kinds = {left.type.kind, right.type.kind}
    if kinds == {TEXT}:
        texts = left.texts
        if texts is None or texts is not right.texts or sign not in ("==", "!="):
            raise NotVectorizedError
        if len(set(texts)) < len(texts):
            raise NotVectorizedError
    elif kinds == {BOOLEAN}:
        if sign not in ("==", "!="):
            raise NotVectorizedError
    else:
        check_numbers(left, right)
        if left.is_whole is not right.is_whole:  # Python compares them exactly
            check_bound((left if left.is_whole else right).bound(), EXACT)
    return _COMPARISONS[sign]


def is_in(item: Vector, *options: Vector) -> Vector:
    """Return where values are among some options in the same unit."""
    if not all(option.is_one for option in options):
        raise NotVectorizedError
    if len(options) > FEW and item.is_number and all(option.is_number for option in options):
        return is_among(item, [option.values for option in options])
    values = np.zeros(np.shape(item.values), bool)
    for option in options:
        values = values | compare("==", item, option).values
    return Vector(bool(values) if item.is_one else values, ColumnType(BOOLEAN), item.missing)


def is_among(item: Vector, given: list[Any]) -> Vector:
    """Return where numbers are among other numbers, which are compared exactly."""
    if not all(type(value) in (int, float) for value in given):
        raise NotVectorizedError
    equal = [_as_equal(int if item.is_whole else float, value) for value in given]
    wanted = [value for value in equal if value is not None]
    found = np.isin(item.values, np.array(wanted, np.int64 if item.is_whole else np.float64))
    return Vector(bool(found) if found.ndim == 0 else found, ColumnType(BOOLEAN), item.missing)


def _as_equal(of: type, value: float) -> Any:
    """Return the number of a type that equals a number, or None if there is none in 64 bits."""
    try:
        made = of(value)
    except OverflowError:
        return None
    return made if made == value and (of is float or abs(made) <= LARGEST) else None


def is_distinct(left: Vector, right: Vector, n: int) -> np.ndarray:
    """Return where two operands are distinct, bool, (n,); two nulls are not."""
    is_null, is_other_null = left.is_null(n), right.is_null(n)
    differ = np.broadcast_to(compare("!=", left, right).values, (n,))
    return np.where(is_null | is_other_null, is_null != is_other_null, differ)
