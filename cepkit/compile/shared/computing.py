"""Functions of values in conditions: columns computed before matching, and values of several rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.shared import decimals
from cepkit.compile.shared.decimals import degree_of
from cepkit.compile.shared.functions import (
    VARIES,
    bound_call,
    fault_of_argument,
    places_of_values,
    value_of_call,
    word_of_kind,
)
from cepkit.compile.shared.operations import (
    ANGLES,
    MATH,
    Binding,
    check_zones,
    described,
    in_unit,
    mathematics,
    moment_of,
    nanoseconds_of,
    zone_of_term,
)
from cepkit.compile.shared.terms import ANY_KIND, EVENT, Computed, Later, Term, level_of
from cepkit.errors import CepError, PredicateError
from cepkit.events import BOOLEAN, DURATION, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, duration_ticks
from cepkit.language.expressions.functions import DATETIME, RegisteredFunction, note_call
from cepkit.language.expressions.trees import text_of, with_parts
from cepkit.language.expressions.vocabulary import EARTH_KM, VOCABULARY
from cepkit.values import dataclass, replace

# A call whose arguments are constants and values of one row is a column: `Computed`. Its row may be the
# current one, an earlier one, the first one of the match, or an event of a variable: ``day(prev(ts))`` is
# ``prev(day(ts))``.

_HERE = ex.Attribute("")
_CHOICES = ("coalesce", "nvl2", "nullif", "if", "case", "zeroifnull", "nullifzero")
_MOST_CHOICES = 6  # each one doubles the condition around it


def bind_call(binder: Binding, e: ex.Call) -> Term:
    """Return the term of a call of a function of `VOCABULARY`."""
    name = VOCABULARY[e.function].name
    if (in_kernel := {"ln": "log"}.get(name, name)) in MATH and len(e.arguments) == (
        2 if name == "power" else 1
    ):
        return mathematics(binder, replace(e, function=in_kernel))
    rows = set(_rows(e))
    if not rows and (name not in ANGLES or isinstance(e.arguments[0], ex.Literal | ex.Parameter)):
        return _constant(binder, e)
    if len(rows) == 1 and _is_readable(e, next(iter(rows))):
        return binder.bind(_placed(rows.pop(), _computed_column(binder, _at_row(e))))
    if name in ANGLES:
        return mathematics(binder, replace(e, function=name))
    if name in ("radians", "degrees", "haversine"):
        parts = tuple(
            ex.Arithmetic("/", part, ex.Literal(1)) if degree_of(binder.bind(part)) else part
            for part in e.arguments
        )  # decimals become floats
        return binder.bind(_of_angles(replace(e, arguments=parts), name))
    raise binder.wrong(
        e,
        f"{e.function}() reads values of several rows here, and it takes those of one row. Compute it as a "
        "column of the frame, or compare its values, as in hour(ts) != hour(prev(ts))",
    )


def bind_next(binder: Binding, e: ex.Call) -> Term:
    """Return the term of a value of a later row: a column in which rows move within their partition."""
    operand, offset = e.arguments[0], e.arguments[1].value
    if any(row != _HERE for row in _rows(operand)) or not list(_rows(operand)):
        raise binder.wrong(e, "next() takes a column, or values of one row")
    column = operand.name if isinstance(operand, ex.Attribute) else _computed_column(binder, operand)
    term = binder.bind(ex.Attribute(column, span=operand.span))
    name = _unused(binder, f"next({column}, {offset})")
    binder.derived[name] = Later(term.data, offset)
    binder.columns.setdefault(name)
    return replace(term, data=name, unit=name if term.kind == TEXT else term.unit, nullable=True)


def _rows(e: ex.Expression) -> Iterator[ex.Expression]:
    """Yield the rows that an expression reads: for each, the access to a column there, without its name."""
    match e:
        case ex.Attribute():
            yield _HERE
        case ex.Reference():
            yield replace(e, name="")
        case (
            ex.Previous(operand=operand)
            | ex.Aggregate(function="first" | "last", operand=ex.Expression() as operand)
        ):
            yield from (replace(e, operand=row) for row in _rows(operand))
        case ex.Call(function="next", arguments=(operand, offset)):
            yield from (replace(e, arguments=(row, offset)) for row in _rows(operand))
        case ex.Aggregate():
            yield e
        case _:
            for part in e.children():
                yield from _rows(part)


def _at_row(e: ex.Expression) -> ex.Expression:
    """Return an expression of one row in which that row is the current one."""
    match e:
        case ex.Reference(name=str(name)):
            return ex.Attribute(name, span=e.span)
        case ex.Previous(operand=operand) | ex.Aggregate(operand=ex.Expression() as operand):
            return _at_row(operand)
        case ex.Call(function="next", arguments=(operand, _)):
            return _at_row(operand)
    return with_parts(e, ex.Expression, _at_row)


def _placed(row: ex.Expression, column: str) -> ex.Expression:
    """Return the access to a column at a row that `_rows` yielded."""
    match row:
        case ex.Attribute() | ex.Reference():
            return replace(row, name=column)
        case ex.Call(arguments=(operand, offset)):
            return replace(row, arguments=(_placed(operand, column), offset))
    return replace(row, operand=_placed(row.operand, column))


def _is_readable(e: ex.Expression, row: ex.Expression) -> bool:
    """Return whether a column has the values of an expression at a row, also where the row is missing."""
    if isinstance(row, ex.Aggregate) and row.operand is None:
        return False
    leaf = row
    while not isinstance(leaf, ex.Attribute | ex.Reference):
        if isinstance(leaf, ex.Aggregate) and leaf.function not in ("first", "last"):
            return False
        leaf = leaf.arguments[0] if isinstance(leaf, ex.Call) else leaf.operand
    is_there = row == leaf and getattr(leaf, "index", None) in (None, ex.CURRENT, ex.LAST)
    return is_there or not any(
        isinstance(node, ex.IsNull | ex.IsDistinct | ex.And | ex.Or)
        or (
            isinstance(node, ex.Call) and node.function in VOCABULARY and VOCABULARY[node.function].is_lenient
        )
        for node in e.walk()
    )


# --- columns


def _unused(binder: Binding, name: str) -> str:
    """Return a name that no column of the frame has."""
    while name in binder.schema:
        name += " "
    return name


def _computed_column(binder: Binding, e: ex.Expression) -> str:
    """Return the name of the column of an expression of one row."""
    try:
        name = text_of(e)
    except ValueError:  # an infinite number has no text
        name = repr(e)
    name = _unused(binder, name)
    if name not in binder.derived:
        binder.derived[name] = _computed(binder.of_rows(), e)
    return name


def _computed(rows: Binding, e: ex.Expression) -> Computed:
    """Return the column that a call on values of one row computes before matching."""
    call = (
        e if isinstance(e, ex.Call) and e.function in VOCABULARY else ex.Call("coalesce", (e,), span=e.span)
    )
    function = VOCABULARY[call.function]
    is_condition = [function.takes.types_of(i) == (BOOLEAN,) for i in range(len(call.arguments))]
    if function.name == "case":
        is_condition = [i % 2 == 0 and i + 1 < len(call.arguments) for i in range(len(call.arguments))]
    terms = [
        rows.truth(argument) if is_truth else rows.bind(argument)
        for argument, is_truth in zip(call.arguments, is_condition, strict=True)
    ]
    for place, (argument, term) in enumerate(zip(call.arguments, terms, strict=True)):
        kind = ColumnType(OTHER if term.op == "null" else term.kind)
        if any(part.op == "call" for part in term.walk()):
            raise rows.wrong(
                argument, "a registered function does not go inside another function; compute a column"
            )
        fault = fault_of_argument(
            function.takes, place, len(terms), kind, is_column=term.op == "column",
            is_constant=term.op == "quoted",
        )  # fmt: skip
        if fault is not None:
            raise rows.wrong(
                call, f"{call.function}() takes {fault}, but {argument!s} is {word_of_kind(kind.kind)}"
            )
    terms = _in_one_unit(rows, call, terms)
    types = [type_of_term(rows, term) for term in terms]
    try:
        bound = bound_call(call.function, types, [constant_of(term, rows.constants) for term in terms])
    except PredicateError as error:
        raise rows.wrong(call, str(error)) from None
    if bound.type.kind == OTHER:
        raise rows.wrong(call, f"{call!s} has no type; give it a column or a constant")
    leaves = dict.fromkeys(part.data for term in terms for part in term.walk() if part.op == "column")
    return Computed(
        call.function, tuple(terms), tuple(types), replace(bound.type, nullable=True, ordered=None),
        tuple(leaves),
        tuple(rows.constants), tuple(rows.tables), tuple(map(frozenset, rows.text_groups)),
    )  # fmt: skip


def type_of_term(rows: Binding, term: Term) -> ColumnType:
    """Return the type of a term, with the zone of its times."""
    if term.op == "null":
        return ColumnType(OTHER)
    return ColumnType(term.kind, term.unit if term.kind in (TIME, DURATION) else None, rows.zone_of(term))


def constant_of(term: Term, constants: Any) -> Any:
    """Return the value of a constant term, or `VARIES`."""
    if term.op == "quoted":
        return term.data
    if term.op == "truth":
        return bool(term.data)
    if term.op == "constant":
        return constants[term.data].value
    return None if term.op in ("null", "never") else VARIES


def _in_one_unit(rows: Binding, call: ex.Call, terms: list[Term]) -> list[Term]:
    """Return the arguments with times and durations in one unit; texts next to times are times."""
    function = VOCABULARY[call.function]
    types = [function.takes.types_of(place) for place in range(len(terms))]
    places = [i for i, kinds in enumerate(types) if TIME in kinds and TEXT not in kinds]
    if function.gives is None:
        places = [*places_of_values(function.name, len(terms))]
    timed = [terms[i] for i in places if terms[i].kind in (TIME, DURATION)]
    finest = min((term.unit for term in timed), key=lambda unit: NANOSECONDS[unit or "ns"], default="us")
    kinds = {terms[i].kind for i in places if terms[i].op != "null"}
    if timed and TEXT in kinds:
        for i in places:
            if terms[i].op == "quoted":
                terms[i] = _ticks(rows, call, terms[i].data, timed[0], finest)
        kinds = {terms[i].kind for i in places if terms[i].op != "null"}
    elif function.gives is not None and TIME not in kinds and TEXT in kinds:  # texts alone
        as_time = Term("constant", (), TIME, "us", False)  # without a zone
        for i in places:
            if terms[i].op == "quoted":
                terms[i] = _ticks(rows, call, terms[i].data, as_time, "us")
    if len(kinds - {*NUMBERS}) + bool(kinds & {*NUMBERS}) > 1 and len(places) > 1:
        words = " and ".join(sorted(described(Term("", kind=kind)) for kind in kinds))
        raise rows.wrong(call, f"{call.function}() takes values of one type; these are {words}")
    for i in places:
        if terms[i].kind in (TIME, DURATION):
            check_zones(rows, call, timed[0], terms[i]) if terms[i].op != "constant" else None
            terms[i] = in_unit(rows, terms[i], finest)
    return terms


def _ticks(rows: Binding, call: ex.Call, text: str, like: Term, unit: str) -> Term:
    """Return the constant that a text means where it is compared with ``like``, a time or a duration."""
    try:
        ticks = (
            duration_ticks(text, unit)
            if like.kind == DURATION
            else nanoseconds_of(moment_of(text, rows.zone_of(like), "'2024-01-31 09:30:00'"))
            // NANOSECONDS[unit]
        )
    except (ValueError, CepError) as error:
        raise rows.wrong(call, str(error)) from None
    return rows.ticks(ticks, like.kind, unit)


def _constant(binder: Binding, e: ex.Call) -> Term:
    """Return the term of a call whose arguments are all constants: its value."""
    computed = _computed(binder.of_rows(), e)
    values = [constant_of(term, computed.constants) for term in computed.arguments]
    if VARIES in values:
        raise binder.wrong(e, f"{e.function}() needs a column, or constants alone")
    bound = bound_call(e.function, computed.types, values)
    value = value_of_call(bound, values)
    if value is not None and bound.type.kind == TIME:
        value = np.datetime64(value, bound.type.unit)
    elif value is not None and bound.type.kind == DURATION:
        value = np.timedelta64(value, bound.type.unit)
    return binder.value(value, e)


# --- choices between values of several rows


def without_choices(e: ex.Expression) -> ex.Expression | None:
    """Return a condition without functions that choose between values of rows; None if it has none."""
    # ``coalesce(prev(x), 0) > 1`` is ``prev(x) is not null and prev(x) > 1 or prev(x) is null and 0 > 1``.
    n_choices = 0
    changed: ex.Expression = e
    while (choice := next(_choices(changed), None)) is not None:
        n_choices += 1
        if n_choices > _MOST_CHOICES:
            raise PredicateError(f"a condition chooses more than {_MOST_CHOICES} times; compute a column")
        holds, value, other = _choice(choice)
        sides = (
            ex.And((condition, _replaced(changed, choice, side)), span=e.span)
            for condition, side in ((holds, value), (ex.Or((ex.Not(holds), ex.IsNull(holds))), other))
        )
        changed = ex.Or(tuple(sides), span=e.span)
    return changed if n_choices else None


def _choices(e: ex.Expression) -> Iterator[ex.Call]:
    """Yield the calls that choose, and are no columns; inside of prev and aggregates rows are other ones."""
    if isinstance(e, ex.Call) and e.function in VOCABULARY and VOCABULARY[e.function].name in _CHOICES:
        rows = set(_rows(e))
        if len(rows) == 1 and _is_readable(e, next(iter(rows))):
            return  # a column, and so are its parts
        if rows:
            yield e
    if not isinstance(e, ex.Previous | ex.Aggregate | ex.Literal) and getattr(e, "function", "") != "next":
        for part in e.children():
            if not isinstance(part, ex.Literal):  # lists have thousands of them
                yield from _choices(part)


def _choice(call: ex.Call) -> tuple[ex.Expression, ex.Expression, ex.Expression]:
    """Return a condition, the value where it is true, and the value elsewhere."""
    first, *others = call.arguments
    null, known = ex.Literal(None, span=call.span), ex.Not(ex.IsNull(first))
    match VOCABULARY[call.function].name:
        case "coalesce":
            return known, first, replace(call, arguments=tuple(others)) if others else null
        case "nvl2":
            return known, others[0], others[1]
        case "zeroifnull":
            return known, first, ex.Literal(0)
        case "nullif":
            return ex.Comparison("==", first, others[0]), null, first
        case "nullifzero":
            return ex.Comparison("==", first, ex.Literal(0)), null, first
    if len(others) < 2:
        return first, others[0], null
    return first, others[0], others[1] if len(others) == 2 else replace(call, arguments=tuple(others[1:]))


def _replaced(e: ex.Expression, wanted: ex.Expression, value: ex.Expression) -> ex.Expression:
    """Return an expression with ``value`` in place of the part ``wanted``."""
    if e is wanted or e == wanted:
        return value
    return with_parts(e, ex.Expression, lambda part: _replaced(part, wanted, value))


# --- functions of numbers of several rows, which kernels compute


def _of_angles(e: ex.Call, name: str) -> ex.Expression:
    """Return a function of angles as arithmetic and functions that kernels have."""
    radian = math.pi / 180

    def scaled(part: ex.Expression, factor: float) -> ex.Expression:
        return ex.Arithmetic("*", part, ex.Literal(factor), span=part.span)

    def squared_sine(part: ex.Expression) -> ex.Expression:
        sine = ex.Call("sin", (ex.Arithmetic("/", part, ex.Literal(2)),))
        return ex.Arithmetic("*", sine, sine)

    if name in ("radians", "degrees"):
        return scaled(e.arguments[0], radian if name == "radians" else 180 / math.pi)
    lat, lon, other_lat, other_lon = (scaled(part, radian) for part in e.arguments)
    rise = squared_sine(ex.Arithmetic("-", other_lat, lat))
    side = squared_sine(ex.Arithmetic("-", other_lon, lon))
    for part in (lat, other_lat):
        side = ex.Arithmetic("*", side, ex.Call("cos", (part,)))
    whole = ex.Call("least", (ex.Literal(1.0), ex.Arithmetic("+", rise, side)))
    return scaled(ex.Call("asin", (ex.Call("sqrt", (whole,)),)), 2 * EARTH_KM)


# Calls of registered functions: the values that a function gets, in every language.


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that is a constant of the query."""

    value: Any


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A function with the values that it takes: constants of the query, and times in its form."""

    function: RegisteredFunction
    forms: tuple[Fixed | TimeForm | None, ...]  # one for each argument of the call

    def __call__(self, *values: Any) -> Any:
        """Return the result for the arguments that are no constants."""
        waiting = iter(values)
        arguments = [
            form.value if isinstance(form, Fixed) else next(waiting) if form is None else form(next(waiting))
            for form in self.forms
        ]
        has_times = any(isinstance(form, TimeForm) for form in self.forms)
        return call_with_advice(self.function, arguments, has_times)


def call_with_advice(function: RegisteredFunction, arguments: Sequence[Any], has_times: bool) -> Any:
    """Return the result of a function; raise with advice where it takes a time for something else."""
    try:
        return getattr(function.call, "py_func", function.call)(*arguments)
    except (AttributeError, TypeError) as error:
        if not has_times or function.times == DATETIME:
            note_call(error, function.name, arguments)
            raise
        raise CepError(
            f"function {function.name!r} failed: {error}. It got a time as an integer, the microseconds "
            "since 1970; cep.pure(…, times='datetime') registers a function that gets pandas Timestamps"
        ) from error
    except Exception as error:
        note_call(error, function.name, arguments)
        raise


@dataclass(frozen=True, slots=True)
class TimeForm:
    """Turns ticks into the times or durations that a function gets."""

    times: str
    kind: str
    unit: str
    timezone: str | None = None

    def __call__(self, ticks: int) -> Any:
        """Return microseconds, or a Timestamp or Timedelta of pandas."""
        if self.times != DATETIME:
            return int(ticks) * NANOSECONDS[self.unit] // 1000
        if self.kind == DURATION:
            return pd.Timedelta(np.timedelta64(int(ticks), self.unit))
        moment = pd.Timestamp(np.datetime64(int(ticks), self.unit))
        return moment if self.timezone is None else moment.tz_localize("UTC").tz_convert(self.timezone)


def form_of(function: RegisteredFunction, kind: str, unit: str | None, zone: str | None) -> TimeForm | None:
    """Return the form of times and durations of a unit for a function; None for other values."""
    return TimeForm(function.times, kind, unit, zone) if kind in (TIME, DURATION) and unit else None


def typed_call(function: RegisteredFunction, types: Sequence[ColumnType]) -> TypedCall:
    """Return a function of plain values, where times and durations are ticks of the types."""
    return TypedCall(function, tuple(form_of(function, of.kind, of.unit, of.timezone) for of in types))


def plain_result(value: Any) -> Any:
    """Return a result as a value of Python, and NaN as None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def is_null(value: Any) -> bool:
    """Return whether a value of a parameter is null; NaN, NaT and ``pandas.NA`` are, too."""
    if isinstance(value, Decimal):
        return value.is_nan()  # comparing a NaN that signals raises an error
    return value is None or pd.isna(value) is True


def call_term(binder: Binding, e: ex.Call, function: RegisteredFunction) -> Term:
    """Return the term of a call of a registered function."""
    terms = [decimals.as_float(binder, binder.bind(argument)) for argument in e.arguments]
    if any(term.op == "null" for term in terms):
        return Term("null", kind=ANY_KIND, nullable=True)
    if function.compiled and any(term.kind == OTHER for term in terms):
        raise binder.wrong(
            e,
            f"{e.function}() is a numba function, and takes numbers, texts, times and truth values; "
            "register a plain Python function, which takes values of any type",
        )
    in_python = not function.compiled or any(term.kind == TEXT for term in terms)
    forms: list[Fixed | TimeForm | None] = []
    for place, term in enumerate(terms):
        if term.op == "quoted":
            forms.append(Fixed(term.data))
        elif in_python:
            forms.append(form_of(function, term.kind, term.unit, zone_of_term(binder, term)))
        else:
            terms[place] = _in_microseconds(binder, term)
    if any(form is not None for form in forms) or in_python is function.compiled:
        call = TypedCall(function, tuple(forms))
        function = replace(function, call=call, compiled=False)
    key = e.function
    while binder.used_functions.setdefault(key, function) != function:
        key += "_"
    args = tuple(term for term in terms if term.op != "quoted")
    # A function that is not declared pure must see every event separately.
    return Term("call", args, ANY_KIND, None, True, key, max(level_of(*args), EVENT))


def _in_microseconds(binder: Binding, term: Term) -> Term:
    """Return a time or a duration in microseconds, whatever its unit is; other values as they are."""
    if term.kind not in (TIME, DURATION) or term.unit == "us":
        return term
    nanoseconds = NANOSECONDS[term.unit]
    op, factor = ("*", nanoseconds // 1000) if nanoseconds >= 1000 else ("//", 1000 // nanoseconds)
    scale = binder.ticks(factor, "integer", None)
    return Term(op, (term, scale), term.kind, "us", term.nullable, None, term.level)
