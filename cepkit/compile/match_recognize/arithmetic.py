"""Arithmetic with the rules of SQL: remainders, rounding, and sums of times and intervals."""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled, constant, strict
from cepkit.compile.match_recognize.refusals import refuse_arithmetic, refuse_unlike
from cepkit.compile.match_recognize.times import TIMED, converted, in_unit, text_of_value
from cepkit.events import DURATION, FLOAT, INTEGER, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS

_ENOUGH = decimal.Context(prec=400)  # digits; a float has 309 before the point


def remainder(left: Any, right: Any) -> Any:
    """Return the remainder of a division that rounds towards zero. It has the sign of ``left``."""
    if right == 0:
        raise ZeroDivisionError
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.nan if math.isinf(left) else math.fmod(left, right)


def rounded(value: Any, n_digits: int = 0) -> Any:
    """Return a number rounded to ``n_digits`` after the point. Halves go away from zero.

    A negative ``n_digits`` rounds digits before the point. A float counts as the decimal number that
    it prints.
    """
    if isinstance(value, int):
        if n_digits >= 0:
            return value
        size = 10 ** -max(n_digits, -400)
        whole = (2 * abs(value) + size) // (2 * size) * size
        return -whole if value < 0 else whole
    if not math.isfinite(value):
        return value
    exact = decimal.Decimal(repr(value))
    if -int(exact.as_tuple().exponent) <= n_digits:  # it has no more digits
        return value
    unit = decimal.Decimal(1).scaleb(-max(n_digits, -400))
    return float(exact.quantize(unit, decimal.ROUND_HALF_UP, _ENOUGH))


def logarithm(*arguments: Any) -> float:
    """Return the logarithm of the last argument. The first of two arguments is the base; else it is e."""
    if len(arguments) == 1:
        return math.log(arguments[0])
    base, value = arguments
    exact = {2: math.log2, 10: math.log10}.get(base)
    return math.log(value, base) if exact is None else exact(value)


def compute(tree: ex.Expression, sign: str, parts: list[Compiled]) -> Compiled:
    """Return ``left sign right`` as a function."""
    left, right = parts
    kinds = {left.type.kind, right.type.kind}
    is_sum = sign in "+-" and bool(kinds & {*TIMED}) and kinds <= {*TIMED, TEXT}
    if is_sum or kinds == {DURATION}:
        left, right = _in_one_unit(left, right)
    kind = type_of_arithmetic(sign, left.type, right.type)
    if kind is None:
        refuse_arithmetic(tree, sign, left.type, right.type)
        raise AssertionError("every refused sum has an error")
    if kind.kind == DURATION and DURATION in kinds and kinds & {INTEGER, FLOAT}:
        made = strict(_scaling(sign, left, right, kind), [left, right], kind, tree)
    else:
        made = strict(ARITHMETIC[sign], [left, right], kind, tree)
    if not (kind.kind in TIMED and left.is_constant and right.is_constant):
        return made
    value = made.call(None, -1)
    return constant(value, kind, None if kind.kind == DURATION or value is None else _written(value, kind))


def _written(ticks: int, kind: ColumnType) -> str | None:
    """Return the text of a time without a zone. One with a zone is the same in every zone."""
    return text_of_value(ticks, kind) if kind.timezone is None else None


def _in_one_unit(left: Compiled, right: Compiled) -> list[Compiled]:
    """Return times and durations in one unit; a text next to a time or a duration is a duration."""
    timed = [part.type for part in (left, right) if part.type.kind in TIMED]
    texts = [part for part in (left, right) if part.type.kind == TEXT]
    if texts:
        as_duration = constant(0, ColumnType(DURATION, timed[0].unit))
        [text] = converted([as_duration, texts[0]])[1:]
        finest = min((timed[0], text.type), key=lambda of: NANOSECONDS[of.unit or "ns"]).unit
        return [in_unit(text if part.type.kind == TEXT else part, finest) for part in (left, right)]
    return converted([left, right])


def type_of_arithmetic(sign: str, left: ColumnType, right: ColumnType) -> ColumnType | None:
    """Return the type of ``left sign right``; None if these types do not go together.

    A duration that is multiplied by a fraction, or divided by a number, counts microseconds or a finer unit.

    """
    kinds = (left.kind, right.kind)
    if TIME not in kinds and DURATION not in kinds:
        if not set(kinds) <= {*NUMBERS, OTHER}:
            return None
        return ColumnType(INTEGER if kinds == (INTEGER, INTEGER) and sign != "/" else FLOAT)
    if OTHER in kinds:  # NULL
        return left if left.kind in TIMED else right
    if kinds == (TIME, TIME):
        return ColumnType(DURATION, left.unit) if sign == "-" else None
    if kinds == (DURATION, DURATION):
        return ColumnType(FLOAT) if sign == "/" else left if sign in "+-%" else None
    if kinds == (TIME, DURATION):
        return left if sign in "+-" else None
    if kinds == (DURATION, TIME):
        return right if sign == "+" else None
    number, of = (right, left) if left.kind == DURATION else (left, right)
    if number.kind not in NUMBERS or of.kind != DURATION:
        return None
    if sign != "*" and not (sign == "/" and left.kind == DURATION):
        return None
    is_whole = sign == "*" and number.kind == INTEGER
    return replace(of, unit=of.unit if is_whole or of.unit == "ns" else "us")


def _scaling(sign: str, left: Compiled, right: Compiled, kind: ColumnType) -> Callable[..., int]:
    """Return a function that multiplies or divides a duration exactly, and then rounds to a tick."""
    of = left.type if left.type.kind == DURATION else right.type
    factor = NANOSECONDS[of.unit or "ns"] // NANOSECONDS[kind.unit or "ns"]
    is_product = sign == "*"

    def scaled(one: Any, other: Any) -> int:
        exact = Fraction(one) * Fraction(other) if is_product else Fraction(one) / Fraction(other)
        return _nearest(exact * factor)

    return scaled


def _nearest(exact: Fraction) -> int:
    whole = math.floor(abs(exact) + Fraction(1, 2))
    return -whole if exact < 0 else whole


def unified(tree: ex.Expression, parts: list[Compiled]) -> list[Compiled]:
    """Return values of one expression, such as those of COALESCE, in one unit."""
    fixed = [part.type for part in parts if part.text is None or part.type.kind != TEXT]
    refuse_unlike(tree, fixed, "gives")
    return converted(parts)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": remainder,
    "//": operator.floordiv,
}  # fmt: skip
