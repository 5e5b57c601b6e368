"""Arithmetic and functions on vectors of numbers; times and durations are numbers of ticks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.arithmetic import type_of_arithmetic
from cepkit.compile.match_recognize.functions.powers import POWERS, powers
from cepkit.compile.match_recognize.times import TIMED
from cepkit.compile.match_recognize.vectors.units import converted, in_ticks
from cepkit.compile.match_recognize.vectors.vector import (
    EXACT,
    WHOLE,
    NotVectorizedError,
    Vector,
    check_bound,
    check_numbers,
    join_missing,
)
from cepkit.events import DURATION, FLOAT, INTEGER, TEXT, ColumnType

_CUTS = ("floor", "ceil", "ceiling", "trunc", "truncate")
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "%": np.fmod,
    "//": np.floor_divide,
}  # fmt: skip


def compute(sign: str, left: Vector, right: Vector, n: int) -> Vector:
    """Return ``left sign right`` at ``n`` places."""
    kinds = {left.type.kind, right.type.kind}
    if TEXT in kinds and kinds & {*TIMED}:
        timed = left if right.type.kind == TEXT else right
        as_duration = ColumnType(DURATION, timed.type.unit)
        left, right = (in_ticks(p, as_duration) if p.type.kind == TEXT else p for p in (left, right))
    elif kinds <= {*TIMED}:
        left, right = converted([left, right])
    kind = type_of_arithmetic(sign, left.type, right.type)
    if kind is None:
        raise NotVectorizedError
    return _compute_numbers(sign, left, right, kind, n)


def _compute_numbers(sign: str, left: Vector, right: Vector, kind: ColumnType, n: int) -> Vector:
    check_numbers(left, right)
    is_whole, missing = left.is_whole and right.is_whole, join_missing(left.missing, right.missing)
    if sign in ("/", "%", "//"):
        zero = np.broadcast_to(np.equal(right.values, 0), (n,))
        if zero.any():
            missing = join_missing(missing, (zero,))
            right = replace(right, values=np.where(zero, 1, right.values))
    if is_whole and sign == "/":
        check_bound(max(left.bound(), right.bound()), EXACT)
    elif is_whole:
        first, second = left.bound(), right.bound()
        check_bound({"+": first + second, "-": first + second, "*": first * second}.get(sign, first))
    elif sign == "//":
        raise NotVectorizedError  # numpy rounds the quotient in its own way
    if (kind.kind in WHOLE) is not (is_whole and sign != "/"):
        raise NotVectorizedError  # such as ticks that become floats
    with np.errstate(all="ignore"):
        values = _ARITHMETIC[sign](left.values, right.values)
    if left.is_one and right.is_one:
        values = values.item() if values.ndim == 0 else values
    return Vector(values, kind, missing)


def negative(one: Vector) -> Vector:
    """Return numbers with the other sign."""
    check_numbers(one)
    return replace(one, values=-one.values)


def call_function(function: str, parts: list[Vector], n: int) -> Vector:
    """Return a function of numbers at ``n`` places."""
    if function == "mod" and len(parts) == 2:
        return compute("%", parts[0], parts[1], n)
    if function in ("coalesce", "least", "greatest"):
        parts = converted(parts)
    check_numbers(*parts)
    if function == "coalesce" and len({(part.type.kind, part.type.unit) for part in parts}) == 1:
        return _first_value(parts, n)
    if function in ("least", "greatest") and len({part.is_whole for part in parts}) == 1:
        return _extreme(function, parts)
    if all(part.is_one for part in parts):
        raise NotVectorizedError
    if function in POWERS and all(part.type.kind in (INTEGER, FLOAT) for part in parts):
        values, undefined = powers(function, [part.values for part in parts])
        missing = join_missing(*(part.missing for part in parts), (undefined,) if undefined.any() else ())
        return Vector(values, ColumnType(FLOAT), missing)
    if len(parts) != 1:
        raise NotVectorizedError
    return _call_of_one(function, parts[0])


def _first_value(parts: list[Vector], n: int) -> Vector:
    """Return COALESCE of vectors of one type."""
    values, missing = np.broadcast_to(parts[-1].values, (n,)), parts[-1].is_null(n)
    for part in parts[-2::-1]:
        is_null = part.is_null(n)
        values, missing = np.where(is_null, values, part.values), is_null & missing
    return Vector(values, parts[0].type, (missing,) if missing.any() else ())


def _extreme(function: str, parts: list[Vector]) -> Vector:
    """Return LEAST or GREATEST."""
    found = parts[0].values
    for part in parts[1:]:
        is_next = part.values < found if function == "least" else part.values > found
        found = np.where(is_next, part.values, found)
    return Vector(found, parts[0].type, join_missing(*(part.missing for part in parts)))


def _call_of_one(function: str, one: Vector) -> Vector:
    if function == "abs":
        return replace(one, values=np.abs(one.values))
    if function == "sign":
        signs = np.greater(one.values, 0).astype(np.int64) - np.less(one.values, 0)
        return replace(one, values=signs, type=ColumnType(INTEGER))
    if function in _CUTS and one.type.kind in (INTEGER, FLOAT):
        return _without_fraction(function, one)
    if function == "sqrt":
        is_negative = np.less(one.values, 0)
        roots = np.sqrt(np.where(is_negative, 0, one.values).astype(np.float64))
        return Vector(roots, ColumnType(FLOAT), join_missing(one.missing, (is_negative,)))
    raise NotVectorizedError


def _without_fraction(function: str, one: Vector) -> Vector:
    """Return FLOOR, CEIL or TRUNC of numbers; the first two make integers."""
    if one.is_whole:
        return one
    values = np.where(np.isnan(one.values), 0.0, one.values)
    if np.abs(values).max(initial=0.0) >= 2.0**63:
        raise NotVectorizedError
    if function.startswith("trunc"):
        return replace(one, values=np.trunc(one.values))
    cut = np.floor(values) if function == "floor" else np.ceil(values)
    return replace(one, values=cut.astype(np.int64), type=ColumnType(INTEGER))
