"""Types of operations on terms: arithmetic, functions, aggregates, and which kinds are comparable."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.shared import decimals
from cepkit.compile.shared.terms import (
    ANY_KIND,
    CONSTANT,
    EVENT,
    NEVER,
    START,
    Constant,
    Derivation,
    Members,
    Table,
    Term,
    clipped,
    comparison,
    described,
    level_of,
    type_of_column,
)
from cepkit.errors import CepError, PredicateError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    NULL_INTEGER,
    NUMBERS,
    OTHER,
    TEXT,
    TIME,
    ColumnType,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, duration_ticks
from cepkit.language.expressions.functions import ONE, RegisteredFunction
from cepkit.language.expressions.vocabulary import SUMMARIES, SUMMED
from cepkit.language.query_parts import END
from cepkit.language.regex import RegexQuery
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
    if local == local:  # it is no NaT
        return local
    raise ValueError(
        f"'{moment}' does not exist in {zone}, or exists twice; write its offset, as in '{moment}+01:00'"
    )


def end_in_ticks(complete_until: Any, clock: ColumnType) -> int | float | None:
    """Return until when the user says that the data are complete, in ticks; None: the last time in them."""
    if complete_until is None:
        return None
    if isinstance(complete_until, str) and complete_until.strip().lower() == END:
        return math.inf
    return ticks_of_time("complete_until", complete_until, clock)


def ticks_of_time(what: str, value: Any, clock: ColumnType) -> int | float:
    """Return a time that the user gives for ``what`` in ticks of a clock; a coarse clock rounds it down."""
    import pandas as pd

    if clock.kind in NUMBERS:
        if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
            return value.item() if isinstance(value, np.generic) else value
        raise CepError(f"{what}={value!r}: the clock has numbers, so give a number")
    try:
        if clock.kind == DURATION:
            nanoseconds = pd.Timedelta(value).as_unit("ns").value
        else:
            if isinstance(value, int | float):
                raise ValueError("a number has no unit; give a time, as in '2026-01-31 10:00'")
            moment = pd.Timestamp(value)
            if clock.timezone is not None and moment.tzinfo is None:
                moment = in_zone(moment, clock.timezone)
            elif clock.timezone is None and moment.tzinfo is not None:
                raise ValueError("it has a time zone, and the clock has none")
            nanoseconds = nanoseconds_of(moment)
    except (ValueError, TypeError) as error:
        raise CepError(f"{what}={value!r} is no time, as the clock has: {error}") from None
    return nanoseconds // NANOSECONDS[clock.unit or "ns"]


def nanoseconds_of(moment: Any) -> int:
    """Return a pandas Timestamp in nanoseconds since 1970, in UTC if it has a zone."""
    if moment.tzinfo is not None:
        moment = moment.tz_convert("UTC").tz_localize(None)
    return int(moment.asm8.astype(np.int64)) * NANOSECONDS[moment.unit]


def zone_on_one_side(text: str) -> str:
    """Return the message for a time with a zone that is compared with times without one."""
    return f"{text!r} has a time zone, but the times it is compared with have none; leave out the zone"


# Comparisons between typed terms: which kinds are comparable, and in which unit and type.


@dataclass
class Binding(ABC):
    """What binding the expressions of one query collects. `Binder` says what each expression means."""

    schema: Mapping[str, ColumnType]  # the available columns
    query: RegexQuery  # provides the parameters (only their types shape the kernel) and the user functions
    role: str = "predicate"
    bound: dict[ex.Expression, Term] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)
    tables: list[Table | Members] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)  # in order of first use
    derived: dict[str, Derivation] = field(default_factory=dict)
    used_functions: dict[str, object] = field(default_factory=dict)
    text_groups: list[set[str]] = field(default_factory=list)  # columns that share categories
    ordered_text: set[str] = field(default_factory=set)  # columns whose codes must be in text order
    has_decimals: bool = True  # False: decimals are floats, which functions take

    @abstractmethod
    def bind(self, expression: ex.Expression) -> Term:
        """Return the typed term of an expression."""

    @abstractmethod
    def truth(self, expression: ex.Expression) -> Term:
        """Return the term of an expression that must be a truth value."""

    @abstractmethod
    def value(self, value: object, e: ex.Expression) -> Term:
        """Return the term of a constant."""

    @abstractmethod
    def of_rows(self) -> Binding:
        """Return a binder of values of single rows, which become columns of this one."""

    def zone_of(self, term: Term) -> str | None:
        """Return the time zone of the columns in a term, or None."""
        return zone_of_term(self, term)

    def wrong(self, part: ex.Expression, problem: str) -> PredicateError:
        """Return the error for ``part`` of the predicate."""
        return PredicateError(f"{self.role}: {problem}\n{self.query.underlined(self.role, part)}")

    def share_categories(self, one: str, other: str, *, ordered: bool) -> None:
        """Record that two text columns need codes of common categories, in text order if ``ordered``."""
        group = {one, other}
        for text_group in [text_group for text_group in self.text_groups if text_group & group]:
            group |= text_group
            self.text_groups.remove(text_group)
        self.text_groups.append(group)
        if ordered:
            self.ordered_text |= group

    def constant(self, constant: Constant) -> Term:
        self.constants.append(constant)
        return Term("constant", (), constant.kind, None, False, len(self.constants) - 1)

    def ticks(self, ticks: int, kind: str, unit: str | None) -> Term:
        """Return the term of a new constant of this kind and unit."""
        constant = self.constant(Constant(INTEGER, clipped(ticks)))
        return Term("constant", (), kind, unit, False, constant.data)

    def numeric_if_any(self, term: Term) -> Term:
        """Return a user function's result as a number; return any other term unchanged."""
        return self.as_float(term) if term.kind == ANY_KIND and term.op == "call" else term

    def as_float(self, term: Term) -> Term:
        return Term(term.op, term.args, FLOAT, None, True, term.data, term.level)


def compare(binder: Binding, e: ex.Comparison) -> Term:
    """Return the truth term of a comparison; both sides are converted to one kind and unit."""
    # Text next to a time or a duration is parsed as one. An integer is compared with a constant float as an
    # integer.
    left, right = binder.bind(e.left), binder.bind(e.right)
    if "null" in (left.op, right.op):
        return NEVER
    sign = e.operator
    if left.op == "quoted" and right.op != "quoted":
        left, right, sign = right, left, ex.MIRRORED[sign]
    if right.op == "quoted":
        return _compare_with_text(binder, e, left, sign, right.data)
    left, right = binder.numeric_if_any(left), binder.numeric_if_any(right)
    if left.kind == ANY_KIND and right.kind == ANY_KIND:
        left, right = binder.as_float(left), binder.as_float(right)
    if decimals.have_decimals(left, right):
        left, sign, right = decimals.compared(binder, left, sign, right)
    elif left.kind in NUMBERS and right.kind in NUMBERS:
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
        return _without_equal(sign, left, right)
    if left.kind == INTEGER and right.kind == FLOAT and right.op == "constant":  # see `_whole_limit`
        return _without_equal(sign, left, right)
    return comparison(sign, left, right)


def _without_equal(sign: str, left: Term, right: Term) -> Term:
    """Return the term of an equality that fails for each value, and that is unknown for a missing value."""
    sides = (comparison("<", left, right), comparison(">=", left, right))
    return Term("and" if sign == "==" else "or", sides, BOOLEAN, None, True, None, left.level)


def _is_no_float(binder: Binding, e: ex.Comparison) -> bool:
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


def _mismatch(binder: Binding, e: ex.Comparison, left: Term, right: Term) -> str:
    """Return why two sides cannot be compared, for an error."""
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


def _compare_with_text(binder: Binding, e: ex.Comparison, left: Term, sign: str, text: str) -> Term:
    """Return the comparison of a column with a text: as a code, a time, or a duration."""
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
            sign, ticks = time_limit(text, left.unit, zone_of_term(binder, left), sign)
        except ValueError as error:
            raise binder.wrong(e, str(error)) from None
        if ticks is None:
            return _without_equal(sign, left, binder.ticks(0, TIME, left.unit))
        return comparison(sign, left, binder.ticks(ticks, TIME, left.unit))
    if left.kind == OTHER:
        raise binder.wrong(e, _mismatch(binder, e, left, left))
    shown = f"{e!s}"
    raise binder.wrong(e, f"a {described(left)} cannot be compared with the text {text!r} in {shown}")


def time_limit(text: str, unit: str, zone: str | None, sign: str) -> tuple[str, int | None]:
    """Return ``time sign text`` as a sign and the ticks to compare with, which fit 64 bits."""
    # A text between two ticks is rounded to one of them; it equals no time, so there are no ticks.
    moment = moment_of(text, zone, "'2024-01-31 09:30:00'")
    if moment.tzinfo is not None and zone is None:
        raise ValueError(zone_on_one_side(text))
    ticks, rest = divmod(nanoseconds_of(moment), NANOSECONDS[unit])
    if sign in ("==", "!="):
        return sign, None if rest or not NULL_INTEGER < ticks < 2**63 else ticks
    ticks += bool(rest) and sign in (">=", "<")
    if sign in (">=", "<") and not NULL_INTEGER < ticks < 2**63 - 1:
        sign, ticks = {">=": ">", "<": "<="}[sign], ticks - 1  # these signs suit limits beyond all times
    return sign, clipped(ticks)


def zone_of_term(binder: Binding, term: Term) -> str | None:
    """Return the time zone of the columns in ``term``, or None."""
    for part in term.walk():
        if part.op in ("column", "element"):
            column_type = type_of_column(part.column, binder.schema, binder.derived)
            if column_type.timezone is not None:
                return column_type.timezone
    return None


def check_zones(binder: Binding, e: ex.Expression, left: Term, right: Term) -> None:
    """Raise if exactly one of two times has a time zone."""
    if {left.kind, right.kind} == {TIME} and (
        (zone_of_term(binder, left) is None) != (zone_of_term(binder, right) is None)
    ):
        raise binder.wrong(e, "one side has a time zone and the other has none; convert one of the columns")


def _exact(binder: Binding, left: Term, sign: str, right: Term) -> tuple[Term, str, Term]:
    """Compare an integer with a constant float as integers, because 64-bit integers do not fit a float."""
    if right.kind == INTEGER and left.kind == FLOAT and left.op == "constant":
        left, sign, right = right, ex.MIRRORED[sign], left
    if left.kind == INTEGER and right.kind == FLOAT and right.op == "constant":
        return left, *_whole_limit(binder, sign, right)
    if left.kind == FLOAT and right.kind == INTEGER and right.op == "constant":
        return left, *_float_limit(binder, sign, right)
    if right.kind == FLOAT and left.kind == INTEGER and left.op == "constant":
        return right, *_float_limit(binder, ex.MIRRORED[sign], left)
    return left, sign, right


def _whole_limit(binder: Binding, sign: str, constant: Term) -> tuple[str, Term]:
    """Return the sign and the integer for integers that are compared with a float, exactly."""
    # The float stays if no integer equals it.
    value = binder.constants[constant.data].value
    if sign in ("==", "!="):
        if not NULL_INTEGER <= value < 2**63 or value != math.floor(value):
            return sign, constant
        limit = int(value)
    elif value <= NULL_INTEGER:
        if value < NULL_INTEGER:  # these signs work with a limit below all integers
            sign = {">": ">=", "<=": "<"}.get(sign, sign)
        limit = NULL_INTEGER
    elif value >= 2**63:  # and these with one above them
        sign, limit = {">=": ">", "<": "<="}.get(sign, sign), 2**63 - 1
    elif sign in (">", "<="):
        limit = math.floor(value)
    else:  # x >= 5.5 is x > 5, and x < 5.5 is x <= 5
        sign, limit = {">=": ">", "<": "<="}[sign], math.ceil(value) - 1
    return sign, binder.constant(Constant(INTEGER, limit))


def _float_limit(binder: Binding, sign: str, constant: Term) -> tuple[str, Term]:
    """Return the sign and the float for floats that are compared with an integer, exactly."""
    whole = binder.constants[constant.data].value
    limit = float(whole)
    if limit > whole:
        sign = {"<=": "<", ">": ">="}.get(sign, sign)
    elif limit < whole:
        sign = {"<": "<=", ">=": ">"}.get(sign, sign)
    return sign, binder.constant(Constant(FLOAT, limit))


def same_unit(binder: Binding, left: Term, right: Term) -> tuple[Term, Term]:
    """Return two times or durations, both in the finer of their units."""
    if left.unit == right.unit:
        return left, right
    finer = min(left.unit, right.unit, key=NANOSECONDS.__getitem__)
    return in_unit(binder, left, finer), in_unit(binder, right, finer)


def in_unit(binder: Binding, term: Term, unit: str) -> Term:
    """Return a time or duration in ``unit``, which must not be coarser than its own unit."""
    if term.unit == unit:
        return term
    factor = binder.ticks(NANOSECONDS[term.unit] // NANOSECONDS[unit], INTEGER, None)
    return Term("*", (term, factor), term.kind, unit, term.nullable, None, term.level)


# Types of arithmetic, mathematical functions and aggregates: which kinds they take, and which they give.

ANGLES = ("sin", "cos", "tan", "asin", "acos", "atan", "atan2")
MATH = {
    "abs", "sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "round", "sign", "power",
    "least", "greatest", "bit_and", "bit_or", "bit_xor",
}  # fmt: skip


def event_level(binder: Binding, e: ex.Previous | ex.Aggregate, name: str) -> Term:
    """Return the term that prev() or an aggregate (`e`) reads. Raise unless it is a value of each event."""
    arg = binder.bind(e.operand)
    if arg.op in ("null", "quoted") or arg.level == CONSTANT:
        raise binder.wrong(e, f"{name}() needs a column")
    if arg.level == START:
        raise binder.wrong(
            e, f"{name}() cannot hold an aggregate; split it: the aggregate outside, the column inside"
        )
    if arg.kind == OTHER:
        raise binder.wrong(
            e,
            f"{name}() of a {described(arg)} is not defined; it needs numbers, times, texts or truth values",
        )
    return binder.as_float(arg) if arg.kind == ANY_KIND else arg


def refuse_list(binder: Binding, e: ex.Aggregate) -> None:
    """Raise for the aggregates that no condition can hold."""
    if e.function == "collect":
        raise binder.wrong(e, f"{e} makes a list, which only measures can have")
    if e.function in SUMMARIES and not SUMMARIES[e.function].in_conditions:
        raise binder.wrong(e, f"{e.function}() is for measures and windows; conditions cannot use it")


def as_numbers(binder: Binding, e: ex.Aggregate, arg: Term) -> tuple[str, Term]:
    """Return an aggregate of numbers, and the truth values that it aggregates as 1 and 0."""
    function = e.function
    if function in SUMMARIES and SUMMARIES[function].of_truths is not None:
        if arg.kind != BOOLEAN:
            raise binder.wrong(e, f"{function}() needs a condition, {str(e.operand)!r} is a {described(arg)}")
        if function == "count_if":
            return "count", Term("if_true", (arg,), INTEGER, None, True, None, arg.level)
        function = SUMMARIES[function].of_truths
    if function in SUMMARIES:
        arg = decimals.as_float(binder, arg)
    if arg.kind == BOOLEAN and function in (*SUMMED, "min", "max"):
        arg = Term("as_number", (arg,), INTEGER, None, arg.nullable, None, arg.level)
    return function, arg


def as_truth(binder: Binding, arg: Term, extreme: Term) -> Term:
    """Return the least or greatest of truth values as a truth value, for that of their numbers."""
    one = binder.constant(Constant(INTEGER, 1)) if arg.op == "as_number" else None
    return extreme if one is None else comparison("==", extreme, one)


def summarised(binder: Binding, function: str, values: Term) -> Term:
    """Return the term of a summary for that of a chain of values. Its kernel runs as Python."""
    compute = partial(_of_chain, function)
    binder.used_functions[function] = RegisteredFunction(function, compute, True, False, ONE)
    return Term("call", (values,), FLOAT, None, True, function, values.level)


def _of_chain(function: str, chain: tuple | None) -> float:
    """Return an aggregate of a chain of values, NaN if it has none."""
    value = SUMMARIES[function].of_chain(chain)
    return math.nan if value is None else value


def aggregate(binder: Binding, e: ex.Aggregate) -> Term:
    """Return the term of an aggregate over the match."""
    function = e.function
    if function == "count" and e.operand is None:
        return Term("count", (), INTEGER, None, False, None, START)
    refuse_list(binder, e)
    function, arg = as_numbers(binder, e, event_level(binder, e, function))
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
        if arg.kind == TEXT:
            binder.share_categories(arg.unit, arg.unit, ordered=True)
        return as_truth(binder, arg, Term(function, (arg,), arg.kind, arg.unit, arg.nullable, None, START))
    if function in SUMMED and arg.kind not in NUMBERS and (function, arg.kind) != ("sum", DURATION):
        raise binder.wrong(e, f"{function}() needs numbers, {str(e.operand)!r} is a {described(arg)}")
    if function in SUMMARIES:
        return summarised(binder, function, Term("values", (arg,), LIST, None, False, None, START))

    def total(of: Term) -> Term:
        return Term("sum", (of,), of.kind, of.unit, of.nullable, None, START)

    if function == "sum":
        return total(arg)
    counted = (
        Term("count_of", (arg,), INTEGER, None, False, None, START)
        if arg.nullable
        else (Term("count", (), INTEGER, None, False, None, START))
    )
    return mean(binder, arg, total, counted)


def mean(binder: Binding, arg: Term, total: Callable[[Term], Term], counted: Term) -> Term:
    """Return the mean for the term of a sum; a sum of integers is in two halves, so it cannot wrap around."""
    if arg.kind == INTEGER:
        halves = (replace(arg, op=half, args=(arg,), data=None) for half in ("high", "low"))
        whole = Term("joined", tuple(map(total, halves)), FLOAT, None, True, None, counted.level)
        whole = decimals.unscaled(binder, whole, decimals.degree_of(arg))
    else:
        whole = total(arg)
    return Term("/", (whole, counted), FLOAT, None, True, None, counted.level)


def number(binder: Binding, operand: ex.Expression, whole: ex.Expression) -> Term:
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


def arithmetic(binder: Binding, e: ex.Arithmetic) -> Term:
    """Return the term of a sum, difference, product or quotient."""
    left, right = (number(binder, side, e) for side in (e.left, e.right))
    if "null" in (left.op, right.op):
        return Term("null", kind=ANY_KIND, nullable=True)
    op, level = e.operator, level_of(left, right)
    if decimals.have_decimals(left, right):
        return decimals.combined(binder, op, left, right, level)
    left, right = decimals.as_float(binder, left), decimals.as_float(binder, right)
    kinds = (left.kind, right.kind)
    nullable = left.nullable or right.nullable
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


def mathematics(binder: Binding, e: ex.Call) -> Term:
    """Return the term of a call of one of the functions in ``MATH``."""
    args = tuple(number(binder, argument, e) for argument in e.arguments)
    if any(arg.op == "null" for arg in args):
        return Term("null", kind=ANY_KIND, nullable=True)
    if decimals.have_decimals(*args):
        if (term := decimals.called(binder, e, args, level_of(*args))) is not None:
            return term
        args = tuple(decimals.as_float(binder, arg) for arg in args)
    name, kinds, level = e.function, {arg.kind for arg in args}, level_of(*args)
    nullable = any(arg.nullable for arg in args)
    if name in ("least", "greatest") and len(kinds) == 1 and kinds <= {TIME, DURATION}:
        finest = min((arg.unit for arg in args), key=NANOSECONDS.__getitem__)
        for other in args[1:]:
            check_zones(binder, e, args[0], other)
        args = tuple(in_unit(binder, arg, finest) for arg in args)
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
