"""Bound expressions of MATCH_RECOGNIZE at many places at once, with the values of their functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.arithmetic import TIMED
from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.shared.functions import POWERS, BoundCall, apply, null_of, powers
from cepkit.compile.shared.times import TIME_FUNCTIONS
from cepkit.errors import PredicateError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NULL_INTEGER, TEXT, TIME, Column, ColumnType
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.values import dataclass, replace

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
        """Whether the values are integers, ticks or floats."""
        return self.is_whole or self.type.kind == FLOAT

    def bound(self) -> int:
        """Return the largest absolute value of integers."""
        if self.is_one:
            return abs(int(self.values))
        return max(abs(int(self.values.min())), abs(int(self.values.max()))) if len(self.values) else 0

    def is_null(self, n: int) -> np.ndarray:
        """Return which of ``n`` places have no value."""
        is_missing = np.zeros(n, bool)
        for places in self.missing:
            is_missing[places] = True
        return is_missing

    def with_missing(self, *more: np.ndarray) -> Vector:
        """Return the vector with nulls at further places."""
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
    """Return the type, the values and the categories of a column that vectors can hold."""
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


def constant_vector(term: Compiled) -> Vector:
    """Return what a constant is at all places."""
    value = term.call(None, -1)
    if term.type.kind not in TIMED:
        return vector_of_value(value)
    if value is None or abs(value) > LARGEST:
        raise NotVectorizedError
    return Vector(value, term.type)


def vector_of_value(value: Any) -> Vector:
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
    no_value = np.array([value is None for value in of_text])  # code -1 picks the last entry, as in Python
    missing = no_value[codes]
    missing = (missing,) if missing.any() else ()
    if not value_types:
        raise NotVectorizedError
    if value_types == {str} and kind.kind == TEXT:
        texts = np.array(["" if value is None else value for value in of_text], object)
        return Vector(codes % len(texts), kind, missing, texts)  # -1 becomes the last code
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
    """Raise if the values of a vector are no numbers."""
    if not all(vector.is_number for vector in vectors):
        raise NotVectorizedError


def check_bound(bound: int, most: int = LARGEST) -> None:
    """Raise if a result may exceed ``most``; Python computes it then."""
    if bound > most:
        raise NotVectorizedError


# Comparisons of vectors: two operands, IS DISTINCT FROM, and IN.

FEW = 8  # options of IN that are compared one by one
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip


def compare(sign: str, left: Vector, right: Vector) -> Vector:
    """Return the truths of a comparison at all places."""
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
    """Return whether no two codes have the same text."""
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


def compute(sign: str, left: Vector, right: Vector, kind: ColumnType, n: int) -> Vector:
    """Return a sum, difference, product, quotient or remainder at all places."""
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


def scaled(part: Vector, factor: int, kind: ColumnType) -> Vector:
    """Return times or durations in a finer unit."""
    check_bound(part.bound() * factor)
    return Vector(part.values * factor, kind, part.missing)


def negative(one: Vector) -> Vector:
    """Return the numbers with the opposite sign."""
    check_numbers(one)
    return replace(one, values=-one.values)


def call_function(function: str, bound: BoundCall, parts: list[Vector], n: int) -> Vector:
    """Return the results of a function at all places."""
    if function in ("least", "greatest") and len({part.is_whole for part in parts}) == 1:
        check_numbers(*parts)
        return _extreme(function, parts)
    if all(part.is_one for part in parts):
        raise NotVectorizedError
    if function in TIME_FUNCTIONS:
        _check_times(function, parts)
    if len(parts) == 1 and parts[0].is_number and function in (*_CUTS, "abs", "sign"):
        return _call_of_one(function, parts[0])
    if function in POWERS and all(part.type.kind in (INTEGER, FLOAT) for part in parts):
        values, undefined = powers(function, [part.values for part in parts])
        missing = join_missing(*(part.missing for part in parts), (undefined,) if undefined.any() else ())
        return Vector(values, ColumnType(FLOAT), missing)
    if any(part.type.kind == FLOAT and _has_nan(part, n) for part in parts):
        raise NotVectorizedError  # a column has no NaN beside its nulls
    arguments = [part.values if part.is_one and not part.missing else _column_of(part, n) for part in parts]
    if bound.type.kind not in (*WHOLE, FLOAT, BOOLEAN, TEXT):
        raise NotVectorizedError
    column = apply(bound, arguments, n)
    return vector_of_column(column.type, column.values, column.categories)


def _check_times(function: str, parts: list[Vector]) -> None:
    """Raise if a function of times and durations may compute with more than 64 bits."""
    timed = [part for part in parts if part.type.kind in TIMED]
    if not timed:
        raise NotVectorizedError
    per_second = NANOSECONDS["s"] // NANOSECONDS[timed[0].type.unit or "ns"]
    year = 366 * 86_400 * per_second  # a unit begins earlier than a time by a year at most
    check_bound(sum(part.bound() for part in timed) + year, EXACT if function == "epoch" else LARGEST)
    if per_second < 1000 and any(part.values == "millisecond" for part in parts if part.is_one):
        raise NotVectorizedError


def _has_nan(part: Vector, n: int) -> bool:
    """Return whether a float is NaN where it is not null."""
    return bool(np.any(np.isnan(part.values) & ~part.is_null(n)))


def _column_of(part: Vector, n: int) -> Column:
    """Return a vector in the form of a column."""
    null = null_of(part.type)
    values = np.where(part.is_null(n), null, part.values) if part.missing else part.values
    return Column(
        part.type,
        np.asarray(values).astype(np.int8 if part.type.kind == BOOLEAN else values.dtype),
        part.texts,
    )


def _extreme(function: str, parts: list[Vector]) -> Vector:
    """Return the least or the greatest of several numbers at each place."""
    extreme = parts[0].values
    for part in parts[1:]:
        is_next = part.values < extreme if function == "least" else part.values > extreme
        extreme = np.where(is_next, part.values, extreme)
    return Vector(extreme, parts[0].type, join_missing(*(part.missing for part in parts)))


def _call_of_one(function: str, one: Vector) -> Vector:
    """Return ABS, SIGN, FLOOR and the like of numbers."""
    if function == "abs":
        return replace(one, values=np.abs(one.values))
    if function == "sign":
        signs = np.greater(one.values, 0).astype(np.int64) - np.less(one.values, 0)
        return replace(one, values=signs, type=ColumnType(INTEGER))
    if function in _CUTS and one.type.kind in (INTEGER, FLOAT):
        return _without_fraction(function, one)
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


# `VectorReader` computes a bound expression of MATCH_RECOGNIZE at many places at once.

_OF_MATCHES = ("navigation", "total", "label", "number", "timed out")
_OF_TRUTHS = ("and", "or", "not", "is null", "is true", "is distinct")


class VectorReader(ABC):
    """Reads expressions at ``n`` places. Its subclasses know which rows the places mean."""

    def __init__(self, n: int):
        self.n = n

    @abstractmethod
    def column(self, name: str, at: Any) -> Vector:
        """Return a column at the rows ``at``."""

    @abstractmethod
    def rows_of(self, variable: str | None) -> Any:
        """Return the rows that a column of a variable means, or that one alone means for None."""

    @abstractmethod
    def of_match(self, term: Compiled, at: Any) -> Vector:
        """Return a navigation, an aggregate, a label or the number of the match."""

    def holds(self, term: Compiled, wanted: bool = True, at: Any = None) -> np.ndarray:
        """Return where a condition is ``wanted``, bool, (n,). The array is new."""
        op, parts = term.op, term.parts
        if op in ("and", "or"):
            join = np.logical_and if (op == "and") is wanted else np.logical_or
            truths = self.holds(parts[0], wanted, at)
            for part in parts[1:]:
                join(truths, self.holds(part, wanted, at), out=truths)
            return truths
        if op == "not":
            return self.holds(parts[0], not wanted, at)
        if op in ("is true", "is distinct", "is null"):
            if op == "is true":
                truths = self.holds(parts[0], term.data, at)
            elif op == "is null":
                truths = self.value(parts[0], at).is_null(self.n)
            else:
                truths = is_distinct(self.value(parts[0], at), self.value(parts[1], at), self.n)
            return truths if wanted else ~truths
        vector = self.value(term, at)
        if vector.type.kind != BOOLEAN:
            raise NotVectorizedError
        if vector.is_one:
            truths = np.full(self.n, bool(vector.values) is wanted)
        elif wanted:  # a comparison makes a new array
            truths = vector.values if op in ("compare", "in", "among") else vector.values.copy()
        else:
            truths = ~vector.values
        for places in vector.missing:
            truths[places] = False
        return truths

    def value(self, term: Compiled, at: Any = None) -> Vector:
        """Return the values of a term for all rows at once, or for the rows `at`."""
        op, data = term.op, term.data
        if op == "column":
            name, variable = data
            return self.column(name, self.rows_of(variable) if at is None else at)
        if op in _OF_MATCHES:
            return self.of_match(term, at)
        if term.is_constant:
            return constant_vector(term)
        if (vector := self._of_one_text(term, at)) is not None:
            return vector
        if op in _OF_TRUTHS:
            true = self.holds(term, True, at)
            missing = ~(true | self.holds(term, False, at))
            return Vector(true, ColumnType(BOOLEAN), (missing,) if missing.any() else ())
        if op == "case":
            return self._case(term, at)
        if not op:
            raise NotVectorizedError
        parts = [self.value(part, at) for part in term.parts]
        match op:
            case "in":
                return is_in(*parts)
            case "among" if len(data) > FEW and parts[0].type.kind in (INTEGER, FLOAT):
                return is_among(parts[0], data)
            case "among":
                return is_in(parts[0], *map(vector_of_value, data))
            case "compare":
                return compare(data, *parts)
            case "compute":
                return compute(data, parts[0], parts[1], term.type, self.n)
            case "scaled":
                return scaled(parts[0], data, term.type)
            case "negative":
                return negative(parts[0])
            case "call":
                return call_function(data[0], data[1], parts, self.n)
        raise TypeError(f"no vectors of {op!r}")

    def _of_one_text(self, term: Compiled, at: Any) -> Vector | None:
        """Return an expression of a single column of texts, computed once for each text; else None."""
        leaves = {}
        for node in term.walk():
            if node.op in _OF_MATCHES:
                return None
            if node.op == "column":
                name, variable = node.data
                leaves[name, variable if at is None else None] = node.type
        if [kind.kind for kind in leaves.values()] != [TEXT]:
            return None
        [(name, variable)] = leaves
        column = self.column(name, self.rows_of(variable) if at is None else at)
        if column.texts is None or len(column.texts) > self.n:  # hardly a text twice
            raise NotVectorizedError
        place = SingleRow({name: [*column.texts, None]}, 0)
        of_text = []
        for place.row in range(len(column.texts) + 1):  # a row for each text, and one for null
            try:
                of_text.append(term.call(place, place.row))
            except PredicateError:
                raise NotVectorizedError from None
        codes = np.where(column.is_null(self.n), -1, column.values) if column.missing else column.values
        return looked_up(of_text, codes, term.type)

    def _case(self, term: Compiled, at: Any) -> Vector:
        """Return the values of CASE: those of the first branch whose condition holds."""
        conditions, branches = term.parts[: term.data], term.parts[term.data :]
        parts = [self.value(part, at) for part in branches]
        first, last = parts[0], parts[-1]
        is_alike = all(part.is_number and part.is_whole is first.is_whole for part in parts)
        if len(parts) == len(conditions) or not is_alike:  # without ELSE, the rest is null
            raise NotVectorizedError
        values, missing = np.broadcast_to(last.values, (self.n,)), last.is_null(self.n)
        for condition, part in zip(conditions[::-1], parts[-2::-1], strict=True):
            held = self.holds(condition, True, at)
            values = np.where(held, part.values, values)
            missing = np.where(held, part.is_null(self.n), missing)
        return Vector(values, first.type, (missing,) if missing.any() else ())


@dataclass
class SingleRow:
    """A row, as functions see it that look at it and at rows a fixed distance away."""

    columns: Mapping[str, list[Any]]
    n_rows: int
    row: int = 0
    low: int = 0

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        return self.row
