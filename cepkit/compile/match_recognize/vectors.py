"""Expressions of MATCH_RECOGNIZE at many places at once, with the values of `compile_value`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.arithmetic import TIMED, constants_of, ticks_of, type_of_arithmetic
from cepkit.compile.match_recognize.values import column_of, compile_value
from cepkit.compile.shared.functions import POWERS, VARIES, apply, bound_call, null_of, powers
from cepkit.compile.shared.times import TIME_FUNCTIONS, function_of_times
from cepkit.errors import PredicateError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NULL_INTEGER, TEXT, TIME, Column, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.expressions.vocabulary import VOCABULARY, WITH_UNIT
from cepkit.language.match_recognize import query as rp

# `Vector`: the values of an expression at many places, made from columns, constants and texts.

EXACT = 2**53  # integers up to here are floats without loss
LARGEST = 2**63 - 1
WHOLE = (INTEGER, TIME, DURATION)


class NotVectorizedError(Exception):
    """An expression has no vectors, or they would lose digits. Python computes it place by place."""


@dataclass(frozen=True, slots=True)
class Vector:
    values: Any  # bool, int64 or float64, with ``texts`` codes; or one value for all places
    type: ColumnType  # A time or a duration has ticks
    missing: tuple[np.ndarray, ...] = ()  # where the value is null: truths by place, or numbers of places
    texts: np.ndarray | None = None  # objects: the texts of the codes
    text: str | None = None  # what was written for a constant time

    @property
    def is_one(self) -> bool:
        """Whether all places have the same value."""
        return not isinstance(self.values, np.ndarray)

    @property
    def is_whole(self) -> bool:
        """Whether the values are integers or ticks."""
        return self.type.kind in WHOLE

    @property
    def is_number(self) -> bool:
        return self.is_whole or self.type.kind == FLOAT

    def bound(self) -> int:
        """Return the largest absolute value of integers."""
        if self.is_one:
            return abs(int(self.values))
        return max(abs(int(self.values.min())), abs(int(self.values.max()))) if len(self.values) else 0

    def is_null(self, n: int) -> np.ndarray:
        is_missing = np.zeros(n, bool)
        for places in self.missing:
            is_missing[places] = True
        return is_missing

    def with_missing(self, *more: np.ndarray) -> Vector:
        return replace(self, missing=join_missing(self.missing, more))


def least_of(values: np.ndarray) -> Any:
    """Return the least value: NaN if there is one, and 0 for no values."""
    return values.min() if len(values) else 0


def vector_of_column(
    kind: ColumnType, values: np.ndarray, texts: np.ndarray | None, least: Any = None
) -> Vector:
    """Return values in the form of a `Column` as a vector; ``least`` is that of `least_of` if it is known."""
    least = least_of(values) if least is None else least
    missing: tuple[np.ndarray, ...] = ()
    if kind.kind == FLOAT:
        missing = (np.isnan(values),) if least != least else ()
        values = values.astype(np.float64, copy=False)
    elif kind.kind in (TEXT, BOOLEAN):
        missing = (values < 0,) if least < 0 else ()
        values = values == 1 if kind.kind == BOOLEAN else values
    elif values.dtype != np.int64:
        values = values.astype(np.int64)
    elif least == NULL_INTEGER:
        missing = (values == NULL_INTEGER,)
        values = np.where(missing[0], 0, values)
    return Vector(values, kind, missing, texts)


def column_parts(column: Column) -> tuple[ColumnType, np.ndarray, np.ndarray | None]:
    kinds = (*WHOLE, FLOAT, BOOLEAN, TEXT)
    is_decimal = column.type.scale is not None  # floats are not exact
    if (
        is_decimal
        or column.type.kind not in kinds
        or column.values.ndim != 1
        or column.values.dtype == object
    ):
        raise NotVectorizedError
    return column.type, column.values, column.categories


def constant_vector(value: Any) -> Vector:
    """Return a truth, a number or a text that all places have."""
    kind = {bool: BOOLEAN, int: INTEGER, float: FLOAT, str: TEXT}.get(type(value))
    if kind is None or (kind == INTEGER and abs(value) > LARGEST) or value != value:
        raise NotVectorizedError
    return Vector(value, ColumnType(kind))


_KINDS_OF_TEXTS: dict[type, tuple[Any, tuple[str, ...]]] = {
    bool: (np.bool_, (BOOLEAN,)), int: (np.int64, WHOLE), float: (np.float64, (FLOAT,)),
}  # fmt: skip


def looked_up(of_text: list[Any], codes: np.ndarray, kind: ColumnType) -> Vector:
    """Return the entry for each code; the last one is for code -1."""
    value_types = {type(value) for value in of_text if value is not None}
    no_value = np.array([value is None for value in of_text])
    missing = no_value[codes]
    missing = (missing,) if missing.any() else ()
    if not value_types:
        raise NotVectorizedError
    if value_types == {str} and kind.kind == TEXT:
        texts = np.array(["" if value is None else value for value in of_text], object)
        return Vector(codes % len(texts), kind, missing, texts)
    [value_type, *others] = value_types
    dtype, kinds = _KINDS_OF_TEXTS.get(value_type, (None, ()))
    if others or kind.kind not in kinds:
        raise NotVectorizedError
    try:
        table = np.array([value_type() if value is None else value for value in of_text], dtype)
    except OverflowError:
        raise NotVectorizedError from None
    return Vector(table[codes], kind, missing)


# --- checks, and nulls of several vectors


def join_missing(*groups: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the nulls of several vectors, without the same array twice."""
    return tuple({id(places): places for group in groups for places in group}.values())


def check_numbers(*vectors: Vector) -> None:
    if not all(vector.is_number for vector in vectors):
        raise NotVectorizedError


def check_bound(bound: int, most: int = LARGEST) -> None:
    if bound > most:
        raise NotVectorizedError


# Operands next to each other: times and durations in one unit and one zone, and texts in their ticks.


def converted(parts: list[Vector]) -> list[Vector]:
    """Return operands in the finest unit of the columns, with texts in ticks next to a time or a duration."""
    # Python converts times with and without zones, and constants between two ticks.
    timed = [part for part in parts if part.type.kind in TIMED]
    if not timed:
        return parts
    of_columns = [part for part in timed if not part.is_one] or timed
    finest = min(
        (part.type for part in of_columns), key=lambda column_type: NANOSECONDS[column_type.unit or "ns"]
    )
    zones = {part.type.timezone is None for part in timed if part.type.kind == TIME and part.text is None}
    if len(zones) > 1:
        raise NotVectorizedError
    zone = next((part.type.timezone for part in of_columns if part.type.kind == TIME), None)
    return [_in_unit(part, finest, zone) for part in parts]


def _in_unit(part: Vector, finest: ColumnType, zone: str | None) -> Vector:
    """Return an operand in the unit of another type; a time that is written in the query takes the zone."""
    if part.type.kind == TEXT:
        return in_ticks(part, finest)
    if part.type.kind not in TIMED:
        return part
    kind = replace(part.type, unit=finest.unit)
    if part.text is not None:
        kind = replace(kind, timezone=zone)
        return replace(in_ticks(replace(part, values=part.text), kind), text=part.text)
    if part.type.unit == finest.unit:
        return part
    size, finest_size = NANOSECONDS[part.type.unit or "ns"], NANOSECONDS[finest.unit or "ns"]
    if size < finest_size:  # only a constant can be finer
        ticks, rest = divmod(part.values * size, finest_size)
        if rest:
            raise NotVectorizedError
        return replace(part, values=ticks, type=kind)
    check_bound(part.bound() * (size // finest_size))
    return replace(part, values=part.values * (size // finest_size), type=kind)


def in_ticks(part: Vector, timed: ColumnType) -> Vector:
    """Return a constant text in the ticks of a time or a duration."""
    if not part.is_one:
        raise NotVectorizedError
    try:
        ticks = ticks_of(part.values, timed)
    except (ValueError, PredicateError):
        raise NotVectorizedError from None
    if not isinstance(ticks, int) or abs(ticks) > LARGEST:  # between two ticks, or beyond all of them
        raise NotVectorizedError
    return Vector(ticks, timed)


# Functions on vectors of times and durations.


def call_time_function(function: str, unit: str | None, parts: list[Vector]) -> Vector:
    """Return a function of times and durations; ``unit`` is its first argument if that is a unit."""
    parts = converted(parts)
    time_type = parts[0].type
    are_times = all(part.type.kind in (TIME, DURATION) for part in parts)
    if not are_times or all(part.is_one for part in parts):
        raise NotVectorizedError
    per_second = NANOSECONDS["s"] // NANOSECONDS[time_type.unit or "ns"]
    year = 366 * 86_400 * per_second  # a unit begins earlier than a time by a year at most
    most = EXACT if function == "epoch" else LARGEST
    check_bound(sum(part.bound() for part in parts) + year, most)
    if unit == "millisecond" and per_second < 1000:
        raise NotVectorizedError
    compute_times, kind = function_of_times(function, unit, time_type)
    try:
        values = compute_times(*(part.values for part in parts))
    except ValueError:  # outside of the calendar
        raise NotVectorizedError from None
    return Vector(values, kind, join_missing(*(part.missing for part in parts)))


# Comparisons of vectors: two operands, IS DISTINCT FROM, and IN.

FEW = 8  # options of IN that are compared one by one
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip


def compare(sign: str, left: Vector, right: Vector) -> Vector:
    kinds = {left.type.kind, right.type.kind}
    if kinds & {TEXT, BOOLEAN}:
        if len(kinds) > 1 or sign not in ("==", "!="):
            raise NotVectorizedError
        if TEXT in kinds and (left.texts is not right.texts or not _are_distinct(left.texts)):
            raise NotVectorizedError
    else:
        check_numbers(left, right)
        if left.is_whole is not right.is_whole:  # Python compares them exactly
            check_bound((left if left.is_whole else right).bound(), EXACT)
    values = _COMPARISONS[sign](left.values, right.values)
    missing = join_missing(left.missing, right.missing)
    return Vector(values if isinstance(values, np.ndarray) else bool(values), ColumnType(BOOLEAN), missing)


def _are_distinct(texts: np.ndarray | None) -> bool:
    return texts is not None and len(set(texts)) == len(texts)


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
    is_member = np.isin(item.values, np.array(wanted, np.int64 if item.is_whole else np.float64))
    return Vector(bool(is_member) if is_member.ndim == 0 else is_member, ColumnType(BOOLEAN), item.missing)


def _as_equal(number_type: type, value: float) -> Any:
    """Return the number of a type that equals a number, or None if there is none in 64 bits."""
    try:
        number = number_type(value)
    except OverflowError:
        return None
    return number if number == value and (number_type is float or abs(number) <= LARGEST) else None


def is_distinct(left: Vector, right: Vector, n: int) -> np.ndarray:
    """Return where two operands are distinct, bool, (n,); two nulls are not."""
    is_null, is_other_null = left.is_null(n), right.is_null(n)
    differ = np.broadcast_to(compare("!=", left, right).values, (n,))
    return np.where(is_null | is_other_null, is_null != is_other_null, differ)


# Arithmetic and functions on vectors of numbers; times and durations are numbers of ticks.

_CUTS = ("floor", "ceil", "ceiling", "trunc", "truncate")
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "%": np.fmod,
    "//": np.floor_divide,
}  # fmt: skip


def compute(sign: str, left: Vector, right: Vector, n: int) -> Vector:
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
    check_numbers(one)
    return replace(one, values=-one.values)


def call_function(function: str, parts: list[Vector], n: int) -> Vector:
    if function == "mod" and len(parts) == 2:
        return compute("%", parts[0], parts[1], n)
    takes = VOCABULARY[function].takes if function in VOCABULARY else None
    places = [i for i in range(len(parts)) if takes is None or TEXT not in takes.types_of(i)]
    for i, part in zip(places, converted([parts[i] for i in places]), strict=True):
        parts[i] = part
    if function in ("least", "greatest") and len({part.is_whole for part in parts}) == 1:
        check_numbers(*parts)
        return _extreme(function, parts)
    if function not in VOCABULARY or all(part.is_one for part in parts):
        raise NotVectorizedError
    if len(parts) == 1 and parts[0].is_number and function in (*_CUTS, "abs", "sign", "sqrt"):
        return _call_of_one(function, parts[0])
    if function in POWERS and all(part.type.kind in (INTEGER, FLOAT) for part in parts):
        values, undefined = powers(function, [part.values for part in parts])
        missing = join_missing(*(part.missing for part in parts), (undefined,) if undefined.any() else ())
        return Vector(values, ColumnType(FLOAT), missing)
    if any(part.type.kind == FLOAT and _has_nan(part, n) for part in parts):
        raise NotVectorizedError  # a column has no NaN beside its nulls
    return _applied(function, parts, n)


def _applied(function: str, parts: list[Vector], n: int) -> Vector:
    is_joining = VOCABULARY[function].name in ("concat", "concat_ws", "to_char")
    if is_joining and not all(part.type.kind == TEXT for part in parts):
        raise NotVectorizedError  # values become texts first
    arguments = [part.values if part.is_one and not part.missing else _column_of(part, n) for part in parts]
    constants = [VARIES if isinstance(argument, Column) else argument for argument in arguments]
    try:
        bound = bound_call(function, [part.type for part in parts], constants)
    except PredicateError:
        raise NotVectorizedError from None
    if bound.type.kind not in (*WHOLE, FLOAT, BOOLEAN, TEXT):
        raise NotVectorizedError
    column = apply(bound, arguments, n)
    return vector_of_column(column.type, column.values, column.categories)


def _has_nan(part: Vector, n: int) -> bool:
    return bool(np.any(np.isnan(part.values) & ~part.is_null(n)))


def _column_of(part: Vector, n: int) -> Column:
    null = null_of(part.type)
    values = np.where(part.is_null(n), null, part.values) if part.missing else part.values
    return Column(
        part.type,
        np.asarray(values).astype(np.int8 if part.type.kind == BOOLEAN else values.dtype),
        part.texts,
    )


def _extreme(function: str, parts: list[Vector]) -> Vector:
    extreme = parts[0].values
    for part in parts[1:]:
        is_next = part.values < extreme if function == "least" else part.values > extreme
        extreme = np.where(is_next, part.values, extreme)
    return Vector(extreme, parts[0].type, join_missing(*(part.missing for part in parts)))


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


# `VectorReader` computes an expression of MATCH_RECOGNIZE at many places at once.

_OF_MATCHES = (rp.Navigation, rp.RowAggregate, rp.Classifier, rp.MatchNumber)
_OF_ROWS = (*_OF_MATCHES, ex.Attribute, ex.Reference, rp.MatchRowtime, rp.TimedOut)


class VectorReader(ABC):
    """Reads expressions at ``n`` places. Its subclasses know which rows the places mean."""

    def __init__(self, n: int, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None):
        self.n, self.schema, self.params = n, schema, params

    @abstractmethod
    def column(self, name: str, at: Any) -> Vector:
        """Return a column at the rows ``at``."""

    @abstractmethod
    def rows_of(self, variable: str | None) -> Any:
        """Return the rows that a column of a variable means, or that one alone means for None."""

    @abstractmethod
    def of_match(self, tree: ex.Expression, at: Any) -> Vector:
        """Return a navigation, an aggregate, a label or the number of the match."""

    def holds(self, tree: ex.Expression, wanted: bool = True, at: Any = None) -> np.ndarray:
        """Return where a condition is ``wanted``, bool, (n,). The array is new."""
        match tree:
            case rp.IsTruth(operand=operand, truth=truth):
                truths = self.holds(operand, truth, at)
                return truths if wanted else ~truths
            case ex.IsDistinct(left=left, right=right):
                left_vector, right_vector = converted([self.value(left, at), self.value(right, at)])
                truths = is_distinct(left_vector, right_vector, self.n)
                return truths if wanted else ~truths
            case ex.And(operands=operands) | ex.Or(operands=operands):
                join = np.logical_and if isinstance(tree, ex.And) is wanted else np.logical_or
                first, *others = operands
                truths = self.holds(first, wanted, at)
                for other in others:
                    join(truths, self.holds(other, wanted, at), out=truths)
                return truths
            case ex.Not(operand=operand):
                return self.holds(operand, not wanted, at)
            case ex.IsNull(operand=operand):
                truths = self.value(operand, at).is_null(self.n)
                return truths if wanted else ~truths
        vector = self.value(tree, at)
        if vector.type.kind != BOOLEAN:
            raise NotVectorizedError
        if vector.is_one:
            truths = np.full(self.n, bool(vector.values) is wanted)
        elif wanted:  # a comparison makes a new array
            truths = vector.values if isinstance(tree, ex.Comparison | ex.In) else vector.values.copy()
        else:
            truths = ~vector.values
        for places in vector.missing:
            truths[places] = False
        return truths

    def value(self, tree: ex.Expression, at: Any = None) -> Vector:
        if isinstance(tree, ex.Attribute | ex.Reference):
            name = column_of(tree.name or "", self.schema)
            variable = tree.variable if isinstance(tree, ex.Reference) else None
            return self.column(name, self.rows_of(variable) if at is None else at)
        if isinstance(tree, _OF_MATCHES):
            return self.of_match(tree, at)
        if (vector := self._of_one_text(tree, at)) is not None:
            return vector
        if (vector := self._of_constants(tree)) is not None:
            return vector
        match tree:
            case ex.Literal(value=value):
                return constant_vector(value)
            case ex.Parameter(name=name):
                if self.params is None or name not in self.params:
                    raise NotVectorizedError
                return constant_vector(self.params[name])
            case ex.And() | ex.Or() | ex.Not() | ex.IsNull() | rp.IsTruth() | ex.IsDistinct():
                true = self.holds(tree, True, at)
                missing = ~(true | self.holds(tree, False, at))
                return Vector(true, ColumnType(BOOLEAN), (missing,) if missing.any() else ())
            case ex.In(operand=operand, options=options):
                item = self.value(operand, at)
                constants = constants_of(options) if len(options) > FEW else None
                if constants is not None and item.type.kind in (INTEGER, FLOAT):
                    return is_among(item, constants)
                return is_in(*converted([item, *(self.value(part, at) for part in options)]))
            case ex.Comparison(operator=sign, left=left, right=right):
                return compare(sign, *converted([self.value(left, at), self.value(right, at)]))
            case ex.Arithmetic(operator=sign, left=left, right=right):
                return compute(sign, self.value(left, at), self.value(right, at), self.n)
            case ex.Negative(operand=operand):
                return negative(self.value(operand, at))
            case rp.CaseWhen(branches=branches, default=default) if default is not None:
                return self._case(branches, default, at)
            case ex.Call(function=function) if function in TIME_FUNCTIONS:
                has_unit = function in WITH_UNIT
                unit = getattr(tree.arguments[0], "value", None) if has_unit else None
                parts = [self.value(part, at) for part in tree.arguments[has_unit:]]
                return call_time_function(function, unit, parts)
            case ex.Call(function=function, arguments=arguments):
                return call_function(function.lower(), [self.value(part, at) for part in arguments], self.n)
        raise NotVectorizedError

    def _of_one_text(self, tree: ex.Expression, at: Any) -> Vector | None:
        """Return an expression of a single column of texts, computed once for each text; else None."""
        leaves = set()
        for node in tree.walk():
            if isinstance(node, (*_OF_MATCHES, rp.MatchRowtime, rp.TimedOut)):
                return None
            if isinstance(node, ex.Attribute | ex.Reference):
                variable = node.variable if at is None and isinstance(node, ex.Reference) else None
                leaves.add((variable, column_of(node.name or "", self.schema)))
        if len(leaves) != 1:
            return None
        [(variable, name)] = leaves
        if self.schema[name].kind != TEXT:
            return None
        column = self.column(name, self.rows_of(variable) if at is None else at)
        if column.texts is None or len(column.texts) > self.n:  # hardly a text twice
            raise NotVectorizedError
        compiled = compile_value(tree, self.schema, self.params, inside=True)
        place = SimpleNamespace(columns={name: [*column.texts, None]})
        try:
            of_text = [compiled.call(place, i) for i in range(len(column.texts) + 1)]
        except PredicateError:
            raise NotVectorizedError from None
        codes = np.where(column.is_null(self.n), -1, column.values) if column.missing else column.values
        return looked_up(of_text, codes, compiled.type)

    def _of_constants(self, tree: ex.Expression) -> Vector | None:
        """Return a time or a duration that is written in the query, or computed from such; else None."""
        if not isinstance(tree, rp.TimeLiteral | rp.IntervalLiteral | ex.Arithmetic | ex.Negative):
            return None
        if any(isinstance(node, _OF_ROWS) for node in tree.walk(literals=False)):
            return None
        compiled = compile_value(tree, self.schema, self.params, inside=True)
        if not compiled.is_constant or compiled.type.kind not in TIMED:
            return None
        ticks = compiled.call(None, -1)
        if ticks is None or abs(ticks) > LARGEST:
            raise NotVectorizedError
        return Vector(ticks, compiled.type, text=compiled.text)

    def _case(self, branches: Sequence[ex.Expression], default: ex.Expression, at: Any) -> Vector:
        parts = converted([self.value(part, at) for part in (*branches[1::2], default)])
        first, last = parts[0], parts[-1]
        if not all(part.is_number and part.is_whole is first.is_whole for part in parts):
            raise NotVectorizedError
        values, missing = np.broadcast_to(last.values, (self.n,)), last.is_null(self.n)
        for condition, part in zip(branches[-2::-2], parts[-2::-1], strict=True):
            held = self.holds(condition, True, at)
            values = np.where(held, part.values, values)
            missing = np.where(held, part.is_null(self.n), missing)
        return Vector(values, first.type, (missing,) if missing.any() else ())
