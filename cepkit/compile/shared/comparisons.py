"""Comparisons between typed terms: which kinds are comparable, and in which unit and type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from cepkit.compile.shared.moments import moment_of, nanoseconds_of, zone_on_one_side
from cepkit.compile.shared.terms import ANY_KIND, NEVER, Constant, Table, Term, clipped, comparison, described
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
from cepkit.limits import NESTED_COMPARISONS

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
            of = binder.schema[derived.column].item if derived else binder.schema[name]
            if of.timezone is not None:
                return of.timezone
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
