"""Types of arithmetic, mathematical functions and aggregates: which kinds they take, and which they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepkit.compile.shared.comparisons import TermBinder, check_zones, in_unit, same_unit
from cepkit.compile.shared.terms import ANY_KIND, CONSTANT, EVENT, START, Term, described, level_of
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NUMBERS, OTHER, TEXT, TIME
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks

MATH = {
    "abs", "sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "round", "sign", "power",
    "least", "greatest", "bit_and", "bit_or", "bit_xor",
}  # fmt: skip


def event_level(binder: TermBinder, e: ex.Previous | ex.Aggregate, name: str) -> Term:
    """Return the term of the operand, which must read a column and no aggregate."""
    arg = binder.bind(e.operand)
    if arg.op in ("null", "quoted") or arg.level == CONSTANT:
        raise binder.wrong(e, f"{name}() needs a column")
    if arg.level == START:
        raise binder.wrong(
            e,
            f"{name}() cannot hold an aggregate; split it: the aggregate outside, the column inside",
        )
    if arg.kind == OTHER:
        raise binder.wrong(
            e,
            f"{name}() of a {described(arg)} is not defined; it needs numbers, times, texts or truth values",
        )
    return binder.as_float(arg) if arg.kind == ANY_KIND else arg


def aggregate(binder: TermBinder, e: ex.Aggregate) -> Term:
    """Return the term of an aggregate over the match."""
    function = e.function
    if function == "count" and e.operand is None:
        return Term("count", (), INTEGER, None, False, None, START)
    if function == "collect":
        raise binder.wrong(
            e,
            "collect() makes a list, which only a measure can hold; "
            "a predicate needs a number or a truth value",
        )
    arg = event_level(binder, e, function)
    if function == "last":
        # A match is contiguous in its partition, so its last row before this one is the previous row.
        return Term("previous", (arg,), arg.kind, arg.unit, arg.nullable, 1, EVENT)
    if function == "first":
        return Term("first", (arg,), arg.kind, arg.unit, arg.nullable, None, START)
    if function == "delta":
        if arg.kind not in (TIME, DURATION, *NUMBERS):
            raise binder.wrong(
                e, f"delta() needs a time or a number, {str(e.operand)!r} is a {described(arg)}"
            )
        first = Term("first", (arg,), arg.kind, arg.unit, arg.nullable, None, START)
        kind = DURATION if arg.kind in (TIME, DURATION) else arg.kind
        return Term("-", (arg, first), kind, arg.unit, arg.nullable, None, START)
    if function == "count":
        return Term("count_of", (arg,), INTEGER, None, False, None, START)
    if function in ("max", "min"):
        if arg.kind == BOOLEAN:
            raise binder.wrong(
                e, f"{function}() needs an ordered value, but {str(e.operand)!r} is a truth value"
            )
        if arg.kind == TEXT:
            binder.share_categories(arg.unit, arg.unit, ordered=True)
        return Term(function, (arg,), arg.kind, arg.unit, arg.nullable, None, START)
    if arg.kind not in NUMBERS and (function, arg.kind) != ("sum", DURATION):
        raise binder.wrong(e, f"{function}() needs numbers, {str(e.operand)!r} is a {described(arg)}")

    def total(of: Term) -> Term:
        return Term("sum", (of,), of.kind, of.unit, of.nullable, None, START)

    if function == "sum":
        return total(arg)
    counted = (
        Term("count_of", (arg,), INTEGER, None, False, None, START)
        if arg.nullable
        else (Term("count", (), INTEGER, None, False, None, START))
    )
    return mean(arg, total, counted)


def mean(arg: Term, total: Callable[[Term], Term], counted: Term) -> Term:
    """Return the mean for the term of a sum; a sum of integers is in two halves, so it cannot wrap around."""
    if arg.kind == INTEGER:
        halves = (replace(arg, op=half, args=(arg,), data=None) for half in ("high", "low"))
        whole = Term("joined", tuple(map(total, halves)), FLOAT, None, True, None, counted.level)
    else:
        whole = total(arg)
    return Term("/", (whole, counted), FLOAT, None, True, None, counted.level)


def number(binder: TermBinder, operand: ex.Expression, whole: ex.Expression) -> Term:
    """Return the term of an operand of ``whole``, which must be a number, a time or a duration."""
    term = binder.numeric_if_any(binder.bind(operand))
    if term.kind == ANY_KIND and term.op != "null":
        term = binder.as_float(term)
    if term.op == "quoted":
        try:
            return binder.ticks(duration_ticks(term.data, "ns"), DURATION, "ns")
        except CepError:
            raise binder.wrong(whole, f"arithmetic needs numbers, {term.data!r} is a text") from None
    if term.op != "null" and term.kind not in (*NUMBERS, TIME, DURATION):
        raise binder.wrong(whole, f"arithmetic needs numbers, {str(operand)!r} is a {described(term)}")
    return term


def arithmetic(binder: TermBinder, e: ex.Arithmetic) -> Term:
    """Return the term of a sum, difference, product or quotient."""
    left, right = (number(binder, side, e) for side in (e.left, e.right))
    if "null" in (left.op, right.op):
        return Term("null", kind=ANY_KIND, nullable=True)
    op = e.operator
    kinds = (left.kind, right.kind)
    nullable = left.nullable or right.nullable
    level = level_of(left, right)
    if set(kinds) <= set(NUMBERS):
        if op == "/":
            return Term("/", (left, right), FLOAT, None, True, None, level)
        kind = INTEGER if kinds == (INTEGER, INTEGER) else FLOAT
        return Term(op, (left, right), kind, None, nullable or op in ("//", "%"), None, level)
    if (op in "+-" and kinds in ((DURATION, DURATION), (TIME, DURATION))) or (op, kinds) == (
        "-",
        (TIME, TIME),
    ):
        check_zones(binder, e, left, right)
        left, right = same_unit(binder, left, right)
        kind = TIME if kinds == (TIME, DURATION) else DURATION
        return Term(op, (left, right), kind, left.unit, nullable, None, level)
    if op == "+" and kinds == (DURATION, TIME):
        left, right = same_unit(binder, left, right)
        return Term("+", (left, right), TIME, left.unit, nullable, None, level)
    if op == "*" and kinds in ((DURATION, INTEGER), (INTEGER, DURATION)):
        unit = left.unit or right.unit
        return Term("*", (left, right), DURATION, unit, nullable, None, level)
    if op == "/" and kinds == (DURATION, DURATION):
        left, right = same_unit(binder, left, right)
        return Term("/", (left, right), FLOAT, None, True, None, level)
    raise binder.wrong(e, f"'{op}' is not defined between a {described(left)} and a {described(right)}")


def mathematics(binder: TermBinder, e: ex.Call) -> Term:
    """Return the term of a call of one of the functions in ``MATH``."""
    args = tuple(number(binder, argument, e) for argument in e.arguments)
    if any(arg.op == "null" for arg in args):
        return Term("null", kind=ANY_KIND, nullable=True)
    name, kinds, level = e.function, {arg.kind for arg in args}, level_of(*args)
    nullable = any(arg.nullable for arg in args)
    if name in ("least", "greatest") and len(kinds) == 1 and kinds <= {TIME, DURATION}:
        first, *others = args
        args = (first, *(in_unit(binder, other, first.unit) for other in others))
        return Term(name, args, args[0].kind, args[0].unit, nullable, name, level)
    if name == "abs" and kinds == {DURATION}:
        return Term(name, args, DURATION, args[0].unit, nullable, name, level)
    if not kinds <= set(NUMBERS):
        wrong = next(arg for arg in args if arg.kind not in NUMBERS)
        raise binder.wrong(e, f"{name}() needs numbers, not a {described(wrong)}")
    if name.startswith("bit_"):
        if kinds != {INTEGER}:
            raise binder.wrong(e, f"{name}() needs integers")
        return Term(name, args, INTEGER, None, nullable, name, level)
    if name in ("floor", "ceil", "round", "sign") and kinds == {INTEGER} and name != "sign":
        return args[0]
    if name in ("abs", "sign", "least", "greatest"):
        kind = INTEGER if kinds == {INTEGER} else FLOAT
        return Term(name, args, kind, None, nullable or kind == FLOAT, name, level)
    return Term(name, args, FLOAT, None, True, name, level)
