"""What types do not go together in MATCH_RECOGNIZE, and the errors that say what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from cepkit.errors import PredicateError, short_text
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_sql

_MANY = {
    INTEGER: "numbers", FLOAT: "numbers", TEXT: "texts", BOOLEAN: "truth values", TIME: "times",
    DURATION: "intervals", LIST: "lists", MAP: "maps",
}  # fmt: skip
_ONE = {
    INTEGER: "an integer", FLOAT: "a float", TEXT: "a text", BOOLEAN: "a truth value", TIME: "a time",
    DURATION: "an interval", LIST: "a list", MAP: "a map",
}  # fmt: skip
_AS_CONDITION = {
    INTEGER: "{} <> 0", FLOAT: "{} <> 0", TEXT: "{} = 'x'", TIME: "{} > TIMESTAMP '2024-01-31 09:30:00'",
    DURATION: "{} > INTERVAL '1' DAY", LIST: "CARDINALITY({}) > 0", MAP: "CARDINALITY({}) > 0",
}  # fmt: skip
SECOND = "INTERVAL '1' SECOND"


def _error(tree: ex.Expression, message: str) -> PredicateError:
    """Return an error with the place of an expression in the text of the query."""
    error = PredicateError(message)
    error.span = tree.span
    return error


def refuse_non_boolean(tree: ex.Expression, kind: ColumnType, what: str = "a condition") -> None:
    """Raise if a search condition has no truth values."""
    if kind.kind in _AS_CONDITION:
        said = short_text(print_sql(tree))
        written = _AS_CONDITION[kind.kind].format(said)
        raise _error(tree, f"{what} is true or false, and {said} is {_ONE[kind.kind]}; write {written}")


def refuse_comparison(tree: ex.Expression, sides: Sequence[tuple[ex.Expression, ColumnType]]) -> None:
    """Raise for a comparison of types that do not go together. A text may be compared with a time."""
    kinds = {kind.kind for _, kind in sides}
    numbers = [side for side, kind in sides if kind.kind in NUMBERS]
    said = short_text(print_sql(tree))
    if DURATION in kinds and numbers:
        raise _error(tree, f"{_interval_of(numbers[0])}, in {said}")
    if TIME in kinds and numbers:
        number = short_text(print_sql(numbers[0]))
        raise _error(
            tree,
            f"a time cannot be compared with the number {number}; write a time, as in "
            f"TIMESTAMP '2024-01-31 09:30:00', in {said}",
        )
    refuse_unlike(tree, [kind for _, kind in sides], "compares", texts_are_times=True)


def refuse_unlike(
    tree: ex.Expression, types: Iterable[ColumnType], verb: str, *, texts_are_times: bool = False
) -> None:
    """Raise if the types of some values do not go together."""
    kinds = {_MANY[kind.kind]: kind.kind for kind in types if kind.kind in _MANY}
    if texts_are_times and TEXT in kinds.values() and {TIME, DURATION} & {*kinds.values()}:
        kinds.pop("texts")
    if verb == "gives" and not {TIME, DURATION} & {*kinds.values()}:
        return
    if len(kinds) > 1:
        first, second, *_ = kinds
        joined = "with" if verb == "compares" else "and"
        said = short_text(print_sql(tree))
        advice = "convert one side by CAST" if verb == "compares" else "make them one type"
        if verb == "compares" and {*kinds.values()} == {TIME, DURATION}:
            advice = "subtract a time from the time"
        raise _error(tree, f"{said} {verb} {first} {joined} {second}; {advice}")


def refuse_objects(sides: Iterable[tuple[ex.Expression, ColumnType]]) -> None:
    """Raise for a column that no comparison can use, as in all languages."""
    for side, kind in sides:
        if isinstance(side, ex.Attribute | ex.Reference) and kind.kind == OTHER:
            raise _error(
                side,
                f"the values of {side.name} are of several types, or of one that conditions cannot use; make "
                "the column all numbers, text, times or truth values",
            )


def refuse_arithmetic(tree: ex.Expression, sign: str, left: ColumnType, right: ColumnType) -> NoReturn:
    """Raise for operands that do not go together."""
    said, kinds = short_text(print_sql(tree)), (left.kind, right.kind)
    for kind in kinds:
        if kind in (TEXT, BOOLEAN, LIST, MAP):
            advice = {TEXT: "; convert it by CAST, or join texts by ||", BOOLEAN: "; join conditions by AND"}
            raise _error(tree, f"{said} computes with {_ONE[kind]}{advice.get(kind, '')}")
    operands = [*tree.children()]
    if sign in "+-" and set(kinds) & set(NUMBERS):
        number = operands[0] if left.kind in NUMBERS else operands[1]
        raise _error(tree, f"{_interval_of(number)}, in {said}")
    if TIME in kinds:
        raise _error(
            tree,
            f"{said} computes with {_ONE[left.kind]} and {_ONE[right.kind]}; subtract a time "
            "from a time, or add or subtract an interval",
        )
    raise _error(
        tree,
        f"{said} computes with {_ONE[left.kind]} and {_ONE[right.kind]}; an interval can be multiplied and "
        "divided by a number, and divided by an interval",
    )


def _interval_of(number: ex.Expression) -> str:
    """Return the advice for a number where an interval belongs."""
    tree: ex.Expression = ex.Arithmetic("*", number, rp.IntervalLiteral("1 d"))
    if isinstance(number, ex.Literal):
        tree = rp.IntervalLiteral(f"{number.value} d")
    written, said = short_text(print_sql(tree)), short_text(print_sql(number))
    return f"an interval needs a unit: write {written} (or HOUR, MINUTE, SECOND, …) instead of {said}"


def refuse_no_truth(tree: rp.IsTruth, kind: ColumnType) -> None:
    """Raise for IS TRUE, IS FALSE and IS UNKNOWN after a value that is neither true nor false."""
    if kind.kind not in (BOOLEAN, OTHER):
        said = short_text(print_sql(tree))
        raise _error(tree, f"{said} needs a truth value, not {_ONE[kind.kind]}; compare it, as in x = 1")


def refuse_like(tree: ex.Like | rp.LikeWithEscape, kind: ColumnType) -> None:
    """Raise for LIKE on a value that is no text."""
    if kind.kind in _ONE and kind.kind != TEXT:
        said = short_text(print_sql(tree.operand))
        cast = rp.Cast(tree.operand, "varchar")
        written = short_text(print_sql(replace(tree, operand=cast)))
        raise _error(tree, f"LIKE needs a text, and {said} is {_ONE[kind.kind]}; write {written}")


def refuse_opposite(tree: ex.Negative, kind: ColumnType) -> None:
    """Raise for a minus before a value that is no number and no interval."""
    if kind.kind in _ONE and kind.kind not in (*NUMBERS, DURATION):
        said = short_text(print_sql(tree))
        raise _error(tree, f"{said} needs a number or an interval, not {_ONE[kind.kind]}")


def refuse_cast(tree: rp.Cast, of: ColumnType) -> None:
    """Raise for a cast of a time or an interval to a number, which would count ticks of the column."""
    said = short_text(print_sql(tree.operand))
    if of.kind == TIME:
        raise _error(
            tree,
            f"{print_sql(tree)} has no meaning, as a time has no unit; write "
            f"({said} - TIMESTAMP '1970-01-01 00:00:00') / {SECOND}",
        )
    if of.kind == DURATION:
        raise _error(tree, f"{print_sql(tree)} has no meaning without a unit; write {said} / {SECOND}")


# Functions of numbers. Only those of the sign take intervals.
_OF_NUMBERS = ("sqrt", "exp", "ln", "log", "log2", "log10", "floor", "ceil", "ceiling", "round", "power")
_OF_SIGNS = ("abs", "sign")


def refuse_function_of_ticks(tree: ex.Call, function: str, types: Iterable[ColumnType]) -> None:
    """Raise for a function of numbers on a time or an interval."""
    for kind in types:
        is_wrong = function in _OF_NUMBERS and kind.kind in (TIME, DURATION)
        if is_wrong or (function in _OF_SIGNS and kind.kind == TIME):
            said = short_text(print_sql(tree))
            advice = f"; divide it first, as by {SECOND}" if kind.kind == DURATION else ""
            raise _error(
                tree, f"{function.upper()}() needs a number, not {_ONE[kind.kind]}, in {said}{advice}"
            )
