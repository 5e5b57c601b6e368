"""Types of operations on terms: arithmetic, functions, aggregates, and which kinds are comparable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from cepkit.compile.shared.bound_query import (
    ANY_KIND,
    CONSTANT,
    EVENT,
    NEVER,
    START,
    Constant,
    Table,
    Term,
    clipped,
    comparison,
    described,
    level_of,
)
from cepkit.errors import CepError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_INTEGER,
    NUMBERS,
    OTHER,
    TEXT,
    TIME,
    ColumnType,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, duration_ticks
from cepkit.language.expressions.summaries import reason_for_measures_only
from cepkit.limits import NESTED_COMPARISONS

# Texts as times, for every language. A text may have a zone or none.


def moment_of(text: str, zone: str | None, spelling: str) -> Any:
    """Return the pandas Timestamp of a text. A text without a zone is in ``zone``."""
    import pandas as pd

    try:
        moment = pd.Timestamp(text)
    except ValueError:
        moment = pd.NaT
    if moment is pd.NaT:
        raise ValueError(f"{text!r} is compared with a time but is not one; write it as {spelling}")
    if moment.tzinfo is not None or zone is None:
        return moment
    return in_zone(moment, zone)


def in_zone(moment: Any, zone: str) -> Any:
    """Return the moment when the clocks of a zone show a time; raise ValueError for none, and for two."""
    local = moment.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")  # pandas 2 raises errors of pytz
    if local == local:
        return local
    raise ValueError(
        f"'{moment}' does not exist in {zone}, or exists twice; write its offset, as in '{moment}+01:00'"
    )


def nanoseconds_of(moment: Any) -> int:
    """Return a pandas Timestamp in nanoseconds since 1970, in UTC if it has a zone."""
    if moment.tzinfo is not None:
        moment = moment.tz_convert("UTC").tz_localize(None)
    return int(moment.asm8.astype(np.int64)) * NANOSECONDS[moment.unit]


def zone_on_one_side(text: str) -> str:
    """Return the message for a time with a zone that is compared with times without one."""
    return f"{text!r} has a time zone, but the times it is compared with have none; leave out the zone"


# Comparisons between typed terms: which kinds are comparable, and in which unit and type.

_OPPOSITE = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class TermBinder(Protocol):
    """The methods that comparisons need from `cepkit.compile.shared.binding.Binder`."""

    schema: Mapping[str, ColumnType]
    constants: Any
    tables: Any
    derived: Any

    def bind(self, e: ex.Expression) -> Term:
        """Return the typed term of an expression."""
        ...

    def wrong(self, part: ex.Expression, problem: str) -> CepError:
        """Return the error for a part of the expression."""
        ...

    def numeric_if_any(self, term: Term) -> Term:
        """Return the result of a user function as a number; return any other term unchanged."""
        ...

    def as_float(self, term: Term) -> Term:
        """Return a number as a float."""
        ...

    def constant(self, constant: Constant) -> Term:
        """Return the term of a new constant."""
        ...

    def ticks(self, ticks: int, kind: str, unit: str | None) -> Term:
        """Return the term of a new constant of this kind and unit."""
        ...

    def share_categories(self, one: str, other: str, *, ordered: bool) -> None:
        """Give two text columns the same codes."""
        ...


def compare(binder: TermBinder, e: ex.Comparison) -> Term:
    """Return the truth term of a comparison; both sides are converted to one kind and unit.

    Text next to a time or a duration is parsed as one. An integer is compared with a constant float as an
    integer.
    """
    left, right = binder.bind(e.left), binder.bind(e.right)
    if "null" in (left.op, right.op):
        return NEVER
    sign = e.operator
    if left.op == "quoted" and right.op != "quoted":
        left, right, sign = right, left, _OPPOSITE[sign]
    if right.op == "quoted":
        return _compare_with_text(binder, e, left, sign, right.data)
    left, right = binder.numeric_if_any(left), binder.numeric_if_any(right)
    if left.kind == ANY_KIND and right.kind == ANY_KIND:
        left, right = binder.as_float(left), binder.as_float(right)
    if left.kind in NUMBERS and right.kind in NUMBERS:
        left, sign, right = _exact(binder, left, sign, right)
    elif {left.kind, right.kind} == {TIME} or {left.kind, right.kind} == {DURATION}:
        check_zones(binder, e, left, right)
        left, right = same_unit(binder, left, right)
    elif left.kind == right.kind == TEXT:
        binder.share_categories(left.unit, right.unit, ordered=sign not in ("==", "!="))
    elif left.kind == right.kind == BOOLEAN:
        if sign not in ("==", "!="):
            raise binder.wrong(e, f"truth values have no order; '{sign}' cannot compare them")
        if max(_nesting(left), _nesting(right)) >= NESTED_COMPARISONS:
            raise binder.wrong(
                e,
                f"more than {NESTED_COMPARISONS} comparisons of conditions are nested; compute the inner "
                "ones as columns",
            )
    else:
        raise binder.wrong(e, _mismatch(binder, e, left, right))
    if sign in ("==", "!=") and left.kind == FLOAT and _is_no_float(binder, e):
        # No float equals this integer; still, nothing is known about a missing float.
        sides = (comparison("<", left, right), comparison(">=", left, right))
        return Term("and" if sign == "==" else "or", sides, BOOLEAN, None, True, None, left.level)
    return comparison(sign, left, right)


def _is_no_float(binder: TermBinder, e: ex.Comparison) -> bool:
    """Return whether one side is a constant integer that a float cannot hold."""
    for side in (e.left, e.right):
        term = binder.bind(side) if isinstance(side, ex.Literal | ex.Parameter | ex.Negative) else None
        if term is not None and term.op == "constant" and term.kind == INTEGER:
            whole = binder.constants[term.data].value
            return float(whole) != whole
    return False


def _nesting(term: Term) -> int:
    """Return how many comparisons of truth values are nested in a term."""
    below = max(map(_nesting, term.args), default=0)
    return below + (term.op == "compare" and term.args[0].kind == BOOLEAN)


def _mismatch(binder: TermBinder, e: ex.Comparison, left: Term, right: Term) -> str:
    kinds = {left.kind, right.kind}
    for side, term in ((e.left, left), (e.right, right)):
        if term.kind == OTHER and not isinstance(side, ex.Literal):
            return (
                f"the values of {side} are of several types, or of one that conditions cannot use; "
                "make the column all numbers, text, times or truth values"
            )
    number = str(e.left if left.kind in NUMBERS else e.right)
    if kinds & set(NUMBERS) and DURATION in kinds:
        units = "(or ms, min, hours, …)"
        return f"a duration needs a unit: write '{number} s' {units} with the quotes instead of {number}"
    if kinds & set(NUMBERS) and TIME in kinds:
        quoted = "write a quoted time, as in '2024-01-31 09:30'"
        return f"a time cannot be compared with the number {number}; {quoted}"
    left_kind, right_kind = described(left), described(right)
    return f"{e.left!s} is a {left_kind}, {e.right!s} is a {right_kind}: they cannot be compared"


def _compare_with_text(binder: TermBinder, e: ex.Comparison, left: Term, sign: str, text: str) -> Term:
    if left.op == "quoted":
        raise binder.wrong(e, "this compares two constants; use a column on one side")
    if left.kind == TEXT:
        if sign in ("==", "!="):
            code = binder.constant(Constant(INTEGER, text=text, column=left.unit))
            right = Term("constant", (), TEXT, left.unit, False, code.data)
            return comparison(sign, left, right)
        table = len(binder.tables)
        binder.tables.append(Table(left.unit, sign, text))
        return Term("table", (left,), BOOLEAN, None, left.nullable, table, left.level)
    if left.kind == DURATION:
        try:
            ticks = duration_ticks(text, left.unit)
        except CepError as error:
            raise binder.wrong(e, f"{text!r} is compared with a duration but is not one: {error}") from None
        return comparison(sign, left, binder.ticks(ticks, DURATION, left.unit))
    if left.kind == TIME:
        try:
            sign, ticks = time_limit(text, left.unit, _timezone(binder, left), sign)
        except ValueError as error:
            raise binder.wrong(e, str(error)) from None
        return comparison(sign, left, binder.ticks(ticks, TIME, left.unit))
    if left.kind == OTHER:
        raise binder.wrong(e, _mismatch(binder, e, left, left))
    shown = f"{e!s}"
    raise binder.wrong(e, f"a {described(left)} cannot be compared with the text {text!r} in {shown}")


def time_limit(text: str, unit: str, zone: str | None, sign: str) -> tuple[str, int]:
    """Return ``time sign text`` as a sign and the ticks to compare with, which fit 64 bits.

    A text between two ticks is rounded to one of them; it equals no time.
    """
    moment = moment_of(text, zone, "'2024-01-31 09:30:00'")
    if moment.tzinfo is not None and zone is None:
        raise ValueError(zone_on_one_side(text))
    ticks, rest = divmod(nanoseconds_of(moment), NANOSECONDS[unit])
    if sign in ("==", "!="):
        return sign, NULL_INTEGER if rest or not NULL_INTEGER < ticks < 2**63 else ticks
    ticks += bool(rest) and sign in (">=", "<")
    if sign in (">=", "<") and not NULL_INTEGER < ticks < 2**63 - 1:
        sign, ticks = {">=": ">", "<": "<="}[sign], ticks - 1  # these signs suit limits beyond all times
    return sign, clipped(ticks)


def _timezone(binder: TermBinder, term: Term) -> str | None:
    """Return the time zone of the columns in ``term``, or None."""
    for part in term.walk():
        if part.op in ("column", "element"):
            name = part.data if part.op == "column" else part.data[-1]
            derived = binder.derived.get(name)
            column_type = binder.schema[derived.column].item if derived else binder.schema[name]
            if column_type.timezone is not None:
                return column_type.timezone
    return None


def check_zones(binder: TermBinder, e: ex.Expression, left: Term, right: Term) -> None:
    """Raise if exactly one of two times has a time zone."""
    if {left.kind, right.kind} == {TIME} and (
        (_timezone(binder, left) is None) != (_timezone(binder, right) is None)
    ):
        raise binder.wrong(e, "one side has a time zone and the other has none; convert one of the columns")


def _exact(binder: TermBinder, left: Term, sign: str, right: Term) -> tuple[Term, str, Term]:
    """Compare an integer with a constant float as integers, because 64-bit integers do not fit a float."""
    if right.kind == INTEGER and left.kind == FLOAT and left.op == "constant":
        left, sign, right = right, _OPPOSITE[sign], left
    if left.kind == INTEGER and right.kind == FLOAT and right.op == "constant":
        # x >= 5.5 is x > 5, and x < 5.5 is x <= 5. These two signs also work with a limit beyond all
        # integers.
        return left, {">=": ">", "<": "<="}.get(sign, sign), _round_to_integer(binder, right, sign)
    if left.kind == FLOAT and right.kind == INTEGER and right.op == "constant":
        return left, *_float_limit(binder, sign, right)
    if right.kind == FLOAT and left.kind == INTEGER and left.op == "constant":
        return right, *_float_limit(binder, _OPPOSITE[sign], left)
    return left, sign, right


def _round_to_integer(binder: TermBinder, constant: Term, sign: str) -> Term:
    value = binder.constants[constant.data].value
    if sign in ("==", "!="):
        equal = float(value).is_integer() and NULL_INTEGER < value < 2**63
        limit = int(value) if equal else NULL_INTEGER  # equals no value
    elif math.isinf(value):
        limit = 2**63 if value > 0 else NULL_INTEGER
    else:
        limit = math.floor(value) if sign in (">", "<=") else math.ceil(value) - 1
    return binder.constant(Constant(INTEGER, clipped(limit)))


def _float_limit(binder: TermBinder, sign: str, constant: Term) -> tuple[str, Term]:
    """Return the sign and the float for floats that are compared with an integer, exactly."""
    whole = binder.constants[constant.data].value
    limit = float(whole)
    if limit > whole:
        sign = {"<=": "<", ">": ">="}.get(sign, sign)
    elif limit < whole:
        sign = {"<": "<=", ">=": ">"}.get(sign, sign)
    return sign, binder.constant(Constant(FLOAT, limit))


def same_unit(binder: TermBinder, left: Term, right: Term) -> tuple[Term, Term]:
    """Return two times or durations, both in the finer of their units."""
    if left.unit == right.unit:
        return left, right
    finer = min(left.unit, right.unit, key=NANOSECONDS.__getitem__)
    return in_unit(binder, left, finer), in_unit(binder, right, finer)


def in_unit(binder: TermBinder, term: Term, unit: str) -> Term:
    """Return a time or duration in ``unit``, which must not be coarser than its own unit."""
    if term.unit == unit:
        return term
    factor = binder.ticks(NANOSECONDS[term.unit] // NANOSECONDS[unit], INTEGER, None)
    return Term("*", (term, factor), term.kind, unit, term.nullable, None, term.level)


# Types of arithmetic, mathematical functions and aggregates: which kinds they take, and which they give.

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


def refuse_for_measures_only(binder: TermBinder, e: ex.Aggregate) -> None:
    """Raise for an aggregate that no condition can hold."""
    if reason := reason_for_measures_only(e.function):
        raise binder.wrong(e, f"{e.function}() {reason}, which only measures can have")


def aggregate(binder: TermBinder, e: ex.Aggregate) -> Term:
    """Return the term of an aggregate over the match."""
    function = e.function
    if function == "count" and e.operand is None:
        return Term("count", (), INTEGER, None, False, None, START)
    refuse_for_measures_only(binder, e)
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
