"""Arithmetic, comparisons and tests with the rules of SQL, as functions of a place in a match."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from numbers import Number
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.compiled import (
    Compiled,
    Place,
    all_of,
    constant,
    refuse_arithmetic,
    refuse_comparison,
    refuse_like,
    refuse_no_truth,
    refuse_objects,
    refuse_unlike,
    strict,
    type_of_constant,
)
from cepkit.compile.shared.operations import moment_of, nanoseconds_of, zone_on_one_side
from cepkit.compile.shared.terms import like_test
from cepkit.errors import PredicateError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, days_to_seconds, duration_ticks, parse_duration
from cepkit.language.expressions.vocabulary import remainder
from cepkit.language.match_recognize import query as rp

# Arithmetic with the rules of SQL: numbers, times, durations, intervals and their texts.

# Times and durations in MATCH_RECOGNIZE: literals, operands in one unit and one zone, and their texts.

TIMED = (TIME, DURATION)
_UNITS = ("s", "ms", "us", "ns")  # from coarse to fine


def literal(text: str, kind: str) -> Compiled:
    """Return a time or a duration that is written in a query, in the coarsest unit that holds it."""
    if kind == DURATION:
        ticks, unit = _in_coarsest(parse_duration(text))
        return constant(ticks, ColumnType(DURATION, unit))
    return _time(text, None)


def _time(text: str, zone: str | None) -> Compiled:
    """Return a text as a time. A text without a zone is in ``zone``."""
    moment = _moment(text, zone)
    written_zone = None if moment.tzinfo is None else str(moment.tzinfo).removeprefix("UTC") or "UTC"
    ticks, unit = _in_coarsest(nanoseconds_of(moment))
    return constant(ticks, ColumnType(TIME, unit, zone or written_zone), text)


def _in_coarsest(nanoseconds: int) -> tuple[int, str]:
    """Return a time or a duration in ticks of the coarsest unit that holds it, and this unit."""
    unit = next(unit for unit in _UNITS if nanoseconds % NANOSECONDS[unit] == 0)
    return nanoseconds // NANOSECONDS[unit], unit


# --- operands next to each other


def converted(parts: Sequence[Compiled]) -> list[Compiled]:
    """Return operands in ticks of the finest unit, with texts in ticks next to a time or a duration."""
    # A time that is written without a zone is in the zone of the other operands.
    timed = [part.type for part in parts if part.type.kind in TIMED]
    if not timed:
        return list(parts)
    kind = min(timed, key=lambda column_type: NANOSECONDS[column_type.unit or "ns"]).kind
    parts = [_as_timed(part, kind) for part in parts]
    of_columns = [part.type for part in parts if part.type.kind == TIME and part.text is None]
    if len({column_type.timezone is None for column_type in of_columns}) > 1:
        raise PredicateError("one side has a time zone and the other has none; convert one of the columns")
    time_types = of_columns or [part.type for part in parts if part.type.kind == TIME]
    zone = next(
        (column_type.timezone for column_type in time_types if column_type.timezone is not None), None
    )
    parts = [_in_zone(part, zone) for part in parts]
    finest = min(
        (part.type for part in parts if part.type.kind in TIMED),
        key=lambda column_type: NANOSECONDS[column_type.unit or "ns"],
    )
    text_type = replace(finest, kind=kind, timezone=zone if kind == TIME else None)
    return [
        strict(lambda text: ticks_of(text, text_type), [part], text_type)
        if part.type.kind == TEXT
        else in_unit(part, finest.unit)
        for part in parts
    ]


def _as_timed(part: Compiled, kind: str) -> Compiled:
    """Return a constant text as a time or a duration, and any other value unchanged."""
    return literal(part.text, kind) if part.type.kind == TEXT and part.text is not None else part


def _in_zone(part: Compiled, zone: str | None) -> Compiled:
    """Return a time that is written in the query in a zone, and any other value unchanged."""
    if part.type.kind != TIME or part.text is None:
        return part
    if zone is None and part.type.timezone is not None:
        raise PredicateError(zone_on_one_side(part.text))
    zoned = _time(part.text, zone)
    return in_unit(zoned, part.type.unit) if zoned.type.unit != part.type.unit else zoned


def in_unit(part: Compiled, unit: str | None) -> Compiled:
    """Return a time or a duration in a finer unit, and any other value unchanged."""
    if part.type.kind not in TIMED or part.type.unit == unit:
        return part
    factor = NANOSECONDS[part.type.unit or "ns"] // NANOSECONDS[unit or "ns"]
    kind = replace(part.type, unit=unit)
    if part.is_constant:
        return constant(part.call(None, -1) * factor, kind, part.text)
    return strict(lambda ticks: ticks * factor, [part], kind, None, "scaled", factor)


def ticks_of(text: str, timed: ColumnType) -> int | Fraction:
    """Return a text next to a time or a duration as ticks, or as a fraction for a time between two ticks."""
    if timed.kind == DURATION:
        return duration_ticks(text, timed.unit)
    return _time_ticks(text, timed.unit or "ns", timed.timezone)


@lru_cache(maxsize=256)
def _time_ticks(text: str, unit: str, zone: str | None) -> int | Fraction:
    """Return a text as a time in ticks. A text without a zone is in the zone of the column."""
    moment = _moment(text, zone)
    if moment.tzinfo is not None and zone is None:
        raise PredicateError(zone_on_one_side(text))
    exact = Fraction(nanoseconds_of(moment), NANOSECONDS[unit])
    return int(exact) if exact.denominator == 1 else exact


def _moment(text: str, zone: str | None) -> Any:
    """Return a text as a moment; raise an error of this package if it is no time."""
    try:
        return moment_of(text, zone, "TIMESTAMP '2024-01-31 09:30:00'")
    except ValueError as error:
        raise PredicateError(str(error)) from None


# --- texts


def as_text(part: Compiled) -> Compiled:
    """Return a value as its text, and a list as the list of the texts of its items."""
    kind = part.type
    if kind.kind == TEXT:
        return part
    if kind.kind == LIST:
        item = kind.item or ColumnType("other")
        return strict(
            lambda items: [None if entry is None else text_of_value(entry, item) for entry in items],
            [part],
            ColumnType(LIST, item=ColumnType(TEXT)),
        )
    return strict(lambda value: text_of_value(value, kind), [part], ColumnType(TEXT))


def text_of_value(value: Any, kind: ColumnType) -> str:
    """Return a value as CAST writes it; times and durations are ticks here."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind.kind == TIME and isinstance(value, int):
        return _text_of_time(value, kind.unit or "ns", kind.timezone)
    if kind.kind == DURATION and isinstance(value, int):
        return days_to_seconds(value * NANOSECONDS[kind.unit or "ns"])
    if kind.kind == BOOLEAN:
        return "true" if value else "false"
    return str(value)


@lru_cache(maxsize=1024)
def _text_of_time(ticks: int, unit: str, zone: str | None) -> str:
    """Return a time as CAST writes it."""
    moment = np.datetime64(ticks, unit)
    if zone is not None:
        import pandas as pd

        moment = pd.Timestamp(moment).tz_localize("UTC").tz_convert(zone).tz_localize(None).asm8
    text = str(moment).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if zone is None else f"{text} {zone}"


# Arithmetic with the rules of SQL: remainders, rounding, and sums of times and intervals.


EXACT = Context(prec=76)  # twice the digits of the longest decimals
_OF_DECIMALS = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply, "%": EXACT.remainder}


def exact_parts(parts: Sequence[Compiled]) -> list[Compiled]:
    """Return numbers as decimals if one is a decimal and none a column of floats; else decimals as floats."""
    if all(part.type.scale is None for part in parts):
        return list(parts)
    exact = [_as_decimal(part) for part in parts]
    if any(part is None for part in exact):
        return list(map(as_float, parts))
    scale = max(part.type.scale or 0 for part in exact)
    return [replace(part, type=replace(part.type, scale=scale)) for part in exact]


def _as_decimal(part: Compiled) -> Compiled | None:
    """Return a decimal, an integer, a constant, or a sum or product of them as decimals; else None."""
    of = ColumnType(FLOAT, scale=0)
    if part.type.scale is not None:
        return part
    value = part.call(None, -1) if part.is_constant else None
    if isinstance(value, bool):
        return None
    if part.is_constant and (value is None or (isinstance(value, int | float) and math.isfinite(value))):
        exact = None if value is None else Decimal(repr(value))
        return constant(
            exact, of if exact is None else replace(of, scale=max(0, -int(exact.as_tuple().exponent)))
        )
    if part.type.kind == FLOAT and part.op == "compute" and part.data in ("+", "-", "*"):
        exact_sides = [side for side in map(_as_decimal, part.parts) if side is not None]
        return compute(part.tree, part.data, exact_sides) if len(exact_sides) == 2 else None
    return strict(Decimal, [part], of) if part.type.kind == INTEGER else None


def as_float(part: Compiled) -> Compiled:
    """Return a decimal as the nearest float, and any other value unchanged."""
    return part if part.type.scale is None else strict(float, [part], ColumnType(FLOAT))


def compute(tree: ex.Expression, sign: str, parts: list[Compiled]) -> Compiled:
    """Return the function of an arithmetic expression of two operands."""
    is_number = all(part.type.kind in (*NUMBERS, OTHER) for part in parts)
    left, right = exact_parts(parts) if is_number and sign in _OF_DECIMALS else list(map(as_float, parts))
    if left.type.scale is not None:
        scales = [(_as_decimal(part) or part).type.scale or 0 for part in parts]
        of = ColumnType(FLOAT, scale=sum(scales) if sign == "*" else max(scales))
        return strict(_OF_DECIMALS[sign], [left, right], of, tree)
    kinds = {left.type.kind, right.type.kind}
    is_sum = sign in "+-" and bool(kinds & {*TIMED}) and kinds <= {*TIMED, TEXT}
    if is_sum or kinds == {DURATION}:
        left, right = _in_one_unit(left, right)
    kind = type_of_arithmetic(sign, left.type, right.type)
    if kind is None:
        refuse_arithmetic(tree, sign, left.type, right.type)
        raise AssertionError("every refused sum has an error")
    if OTHER in kinds:
        computed = strict(partial(_of_numbers, ARITHMETIC[sign]), [left, right], kind, tree, "compute", sign)
    elif kind.kind == DURATION and DURATION in kinds and kinds & {INTEGER, FLOAT}:
        computed = strict(_scaling(sign, left, right, kind), [left, right], kind, tree, "compute", sign)
    else:
        computed = strict(ARITHMETIC[sign], [left, right], kind, tree, "compute", sign)
    if not (kind.kind in TIMED and left.is_constant and right.is_constant):
        return computed
    value = computed.call(None, -1)
    return constant(value, kind, None if kind.kind == DURATION or value is None else _written(value, kind))


def _of_numbers(function: Callable[..., Any], left: Any, right: Any) -> Any:
    """Return a function of two numbers; raise for others, since Python repeats and joins bytes and lists."""
    if not (isinstance(left, Number) and isinstance(right, Number)):
        raise TypeError("no numbers")
    return function(left, right)


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
        finest = min(
            (timed[0], text.type), key=lambda column_type: NANOSECONDS[column_type.unit or "ns"]
        ).unit
        return [in_unit(text if part.type.kind == TEXT else part, finest) for part in (left, right)]
    return converted([left, right])


def type_of_arithmetic(sign: str, left: ColumnType, right: ColumnType) -> ColumnType | None:
    """Return the type of ``left sign right``; None if these types do not go together."""
    # A duration that is multiplied by a fraction, or divided by a number, counts microseconds or a finer
    # unit.
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
    number, duration = (right, left) if left.kind == DURATION else (left, right)
    if number.kind not in NUMBERS or duration.kind != DURATION:
        return None
    if sign != "*" and not (sign == "/" and left.kind == DURATION):
        return None
    is_whole = sign == "*" and number.kind == INTEGER
    return replace(duration, unit=duration.unit if is_whole or duration.unit == "ns" else "us")


def _scaling(sign: str, left: Compiled, right: Compiled, kind: ColumnType) -> Callable[..., int]:
    """Return the function that multiplies or divides a duration exactly, and then rounds to a tick."""
    duration = left.type if left.type.kind == DURATION else right.type
    factor = NANOSECONDS[duration.unit or "ns"] // NANOSECONDS[kind.unit or "ns"]
    is_product = sign == "*"

    def scaled(one: Any, other: Any) -> int:
        exact = Fraction(one) * Fraction(other) if is_product else Fraction(one) / Fraction(other)
        return _nearest(exact * factor)

    return scaled


def _nearest(exact: Fraction) -> int:
    """Return the nearest integer; a half is rounded away from 0."""
    whole = math.floor(abs(exact) + Fraction(1, 2))
    return -whole if exact < 0 else whole


def unified(tree: ex.Expression, parts: list[Compiled]) -> list[Compiled]:
    """Return values of one expression, such as those of COALESCE, in one unit."""
    fixed = [part.type for part in parts if part.text is None or part.type.kind != TEXT]
    refuse_unlike(tree, fixed, "gives")
    return exact_parts(converted(parts))


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": remainder,
    "//": operator.floordiv,
}  # fmt: skip


# Conditions of MATCH_RECOGNIZE as functions: comparisons, tests, and what joins them.

CONDITIONS = (
    ex.And, ex.Or, ex.Not, ex.Comparison, ex.In, ex.IsNull, ex.Like, rp.LikeWithEscape, rp.IsTruth,
    ex.IsDistinct,
)  # fmt: skip


def condition_of(
    tree: ex.Expression,
    part: Callable[[ex.Expression], Compiled],
    condition: Callable[[ex.Expression], Compiled],
) -> Compiled:
    """Return the function of a condition; ``part`` and ``condition`` give those of its parts."""
    match tree:
        case ex.And(operands=operands):
            return all_of([condition(operand) for operand in operands])
        case ex.Or(operands=operands):
            parts = [condition(operand) for operand in operands]
            calls = [part.call for part in parts]
            return _truth(lambda place, row: _any(call(place, row) for call in calls), "or", parts)
        case ex.IsNull(operand=operand):
            compiled = part(operand)
            call = compiled.call
            return _truth(lambda place, row: call(place, row) is None, "is null", [compiled])
        case ex.In(operand=operand, options=options):
            compiled, constants = part(operand), constants_of(options)
            if constants is not None and compiled.type.kind in (INTEGER, FLOAT, TEXT, BOOLEAN):
                first_of_type: dict[type, tuple[ex.Expression, ColumnType]] = {}  # they stand for the others
                for option, value in zip(options, constants, strict=True):
                    if type(value) not in first_of_type:
                        first_of_type[type(value)] = option, type_of_constant(value)
                refuse_comparison(tree, [(operand, compiled.type), *first_of_type.values()])
                if compiled.type.scale is not None:
                    constants = [Decimal(repr(value)) for value in constants]
                is_member = frozenset(constants).__contains__
                return strict(is_member, [compiled], ColumnType(BOOLEAN), None, "among", constants)
            return _membership(tree, compiled, [part(node) for node in options])
        case ex.Like(operand=operand, pattern=pattern) | rp.LikeWithEscape(operand=operand, pattern=pattern):
            compiled, escape = part(operand), tree.escape if isinstance(tree, rp.LikeWithEscape) else None
            refuse_like(tree, compiled.type)
            return strict(like_test(pattern, escape), [compiled], ColumnType(BOOLEAN))
        case rp.IsTruth(operand=operand):
            compiled = part(operand)
            refuse_no_truth(tree, compiled.type)
            is_truth = lambda place, row: compiled.call(place, row) is tree.truth  # noqa: E731
            return _truth(is_truth, "is true", [compiled], tree.truth)
        case ex.IsDistinct():
            return _is_distinct(_sides(tree, part))
        case ex.Comparison(operator=sign):
            sides = _sides(tree, part)
            return strict(ex.COMPARE[sign], sides, ColumnType(BOOLEAN), tree, "compare", sign)
        case ex.Not(operand=operand):
            return strict(operator.not_, [condition(operand)], ColumnType(BOOLEAN), None, "not")
    raise TypeError(f"no condition: {type(tree).__name__}")


def _sides(tree: ex.Comparison | ex.IsDistinct, part: Callable[[ex.Expression], Compiled]) -> list[Compiled]:
    """Return both sides as functions, in one unit and one zone."""
    left, right = part(tree.left), part(tree.right)
    typed = [(tree.left, left.type), (tree.right, right.type)]
    refuse_objects(typed)
    refuse_comparison(tree, typed)
    return exact_parts(converted([left, right]))


def _truth(
    call: Callable[[Place, int], Any], op: str, parts: Sequence[Compiled], data: Any = None
) -> Compiled:
    """Return a condition that may be unknown (None)."""
    return Compiled(call, ColumnType(BOOLEAN), op=op, parts=parts, data=data)


def _any(values: Iterable[Any]) -> bool | None:
    """Return whether a truth is true; unknown (None) if none is true and one is unknown."""
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


def _is_distinct(sides: list[Compiled]) -> Compiled:
    """Return the function of IS DISTINCT FROM, for which two nulls are equal."""
    left, right = (side.call for side in sides)

    def call(place: Place, row: int) -> bool:
        left_value, right_value = left(place, row), right(place, row)
        if left_value is None or right_value is None:
            return left_value is not right_value
        return left_value != right_value

    return _truth(call, "is distinct", sides)


def _membership(tree: ex.In, operand: Compiled, choices: list[Compiled]) -> Compiled:
    """Return the function of IN: unknown if no option is equal and one is null."""
    parts = [operand, *choices]
    trees = [tree.operand, *tree.options]
    refuse_comparison(tree, [(node, part.type) for node, part in zip(trees, parts, strict=True)])
    parts = exact_parts(converted(parts))
    item, *options = [part.call for part in parts]

    def call(place: Place, row: int) -> bool | None:
        value = item(place, row)
        if value is None:
            return None
        others = [option(place, row) for option in options]
        if any(value == other for other in others if other is not None):
            return True
        return None if None in others else False

    return _truth(call, "in", parts)
