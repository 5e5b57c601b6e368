"""What functions of values compute from arguments of some types: texts, numbers, times with a zone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

import numpy as np

from cepkit.compile.shared.times import (
    FIELDS_OF_TIMES,
    all_moved,
    beginning,
    day_of_text,
    directives_of,
    function_of_times,
    last_day,
    months_between,
    moved,
    time_as_text,
    time_of_text,
)
from cepkit.errors import PredicateError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    NULL_CODE,
    NULL_INTEGER,
    NUMBERS,
    OTHER,
    TEXT,
    TIME,
    WHOLE,
    Column,
    ColumnType,
)
from cepkit.language.expressions.vocabulary import ANY, VOCABULARY, Signature, haversine, unit_of_time
from cepkit.limits import TICKS
from cepkit.values import dataclass, replace

# `bound_call` says what a call of `VOCABULARY` computes for arguments of some types: of values in plain
# Python, and of whole arrays where that is quicker. Times and durations are ticks.


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A function for arguments of some types."""

    call: Callable[..., Any]  # of values without nulls, unless ``is_lenient``
    type: ColumnType
    is_lenient: bool = False
    # The same for arrays: int64 for integers and ticks, float64 for floats; a float that is NaN has no value.
    of_arrays: Callable[..., Any] | None = None
    # Conditions with their values, and the value of all other rows: the same for arrays that may be null.
    branches: Callable[[Sequence[Any]], tuple[list[tuple[Any, Any]], Any]] | None = None
    of_texts: Callable[[list[str]], list[Any]] | None = None  # the same for many texts as the only variable


VARIES: Any = object()  # stands for an argument that differs from row to row
_TIME_OF_TEXT = ColumnType(TIME, "us")


def bound_call(name: str, types: Sequence[ColumnType], constants: Sequence[Any]) -> BoundCall:
    """Return what a function computes; an item of ``constants`` is `VARIES`, or the value of an argument."""
    # Raise `PredicateError` for a constant without a meaning, such as a regular expression that is none.
    function = VOCABULARY[name]
    if function.name in _TEXT_LIBRARY:
        return _by_library(function.name, constants)
    if function.name in _TIMES or (function.name == "trunc" and types[0].kind == TIME):
        bound = _of_times(function.name, types, constants)
        return replace(bound, call=partial(_in_ticks, bound.call)) if bound.type.kind == TIME else bound
    kinds = [of.kind for of in types]
    if function.name == "trunc" and TEXT in kinds:
        raise PredicateError(f"{name}() takes a number and how many digits, or a time and its unit")
    if function.name == "contains" and kinds[0] == TEXT and kinds[1] not in (TEXT, OTHER):
        raise PredicateError(f"{name}() of a text takes a text, not {word_of_kind(kinds[1])}")
    varied = [kind for kind, value in zip(kinds, constants, strict=True) if value is VARIES]
    if function.name == "concat" and OTHER in varied:
        raise PredicateError(f"{name}() takes numbers, texts, times and truth values; one is of another type")
    if function.name == "ip_in" and isinstance(constants[1], str):
        function.compute("::1", constants[1])  # an error here is one of the network
    compute, kind = function.compute, ColumnType(function.gives or OTHER)
    if function.gives is None:
        kind = common_type([types[place] for place in places_of_values(function.name, len(types))])
    if function.name in _ARROW and kind.kind == FLOAT:
        return BoundCall(compute, kind, of_arrays=partial(_by_arrow, function.name))
    if function.name == "haversine":
        return BoundCall(compute, kind, of_arrays=_haversine)
    several = {*kinds} - {OTHER, BOOLEAN}
    is_mixed = kind.kind == FLOAT and function.name != "nullif"  # numbers are compared exactly
    if function.name in _BRANCHES and several <= ({*NUMBERS} if is_mixed else {kind.kind}):
        return BoundCall(compute, kind, True, branches=_BRANCHES[function.name])
    if function.name == "trunc" and len(types) == 1:
        return BoundCall(compute, kind, of_arrays=np.trunc if kind.kind == FLOAT else np.array)
    if function.name == "mod" and len(several) == 1:
        return BoundCall(compute, kind, of_arrays=_remainders)
    whole_places = [
        place for place, of in enumerate(types)
        if of.kind == FLOAT and function.takes.types_of(place) == (INTEGER,)
    ]  # fmt: skip
    if whole_places:
        compute = partial(_with_integers, compute, whole_places)
    if kind.kind == FLOAT and function.gives is None:
        compute = partial(_as_float, compute)
    return BoundCall(compute, kind, function.is_lenient)


def value_of_call(bound: BoundCall, values: Sequence[Any]) -> Any:
    """Return what a function computes from values; None where it has no value."""
    if not bound.is_lenient and any(value is None for value in values):
        return None
    try:
        return bound.call(*values)
    except (ArithmeticError, ValueError):
        return None


def _in_ticks(compute: Callable[..., Any], *values: Any) -> int:
    """Return the time that a function computes; raise if it does not fit into 64 bits."""
    ticks = compute(*values)
    if not -TICKS <= ticks <= TICKS:
        raise OverflowError("the time does not fit into 64 bits")
    return ticks


def whole(item: float) -> int:
    """Return a whole number as an integer; raise if it has digits after the point."""
    if item != int(item):
        raise ValueError(f"{item!r} is not whole")
    return int(item)


def _with_integers(compute: Callable[..., Any], places: Sequence[int], *values: Any) -> Any:
    """Call with whole floats as integers: integer columns with missing values are often floats."""
    return compute(
        *(whole(value) if i in places and value is not None else value for i, value in enumerate(values))
    )


def _as_float(compute: Callable[..., Any], *values: Any) -> Any:
    value = compute(*values)
    return float(value) if type(value) is int else value


def _remainders(left: Any, right: Any) -> Any:
    if np.any(np.equal(right, 0)):
        raise ZeroDivisionError
    return np.fmod(left, right)


# Branches of the functions that choose; see `compile/shared/functions.py` for parts.
_BRANCHES: dict[str, Callable[[Sequence[Any]], tuple[list[tuple[Any, Any]], Any]]] = {
    "coalesce": lambda parts: ([(~part.is_null, part) for part in parts], None),
    "nvl2": lambda parts: ([(~parts[0].is_null, parts[1])], parts[2]),
    "nullif": lambda parts: ([(parts[0].equals(parts[1]), None)], parts[0]),
    "zeroifnull": lambda parts: ([(~parts[0].is_null, parts[0])], 0),
    "nullifzero": lambda parts: ([(parts[0].equals(0), None)], parts[0]),
    **dict.fromkeys(("if", "case"), lambda parts: (
        [(holds.is_true, value) for holds, value in zip(parts[::2], parts[1::2], strict=False)],
        parts[-1] if len(parts) % 2 else None,
    )),
}  # fmt: skip


def places_of_values(name: str, n: int) -> Sequence[int]:
    """Return the places of the arguments whose type the result has."""
    if name in ("if", "case"):
        return [*range(1, n, 2), *([n - 1] if n % 2 else [])]
    if name == "decode":
        return [*range(2, n, 2), *([n - 1] if n % 2 == 0 else [])]
    if name == "nvl2":
        return (1, 2)
    return range(n) if name in ("coalesce", "least", "greatest", "nullif", "mod") else (0,)


def common_type(types: Sequence[ColumnType]) -> ColumnType:
    """Return one type for several values: the first type, or float for mixed numbers."""
    typed = [column_type for column_type in types if column_type.kind != OTHER]
    if {column_type.kind for column_type in typed} == {INTEGER, FLOAT}:
        return ColumnType(FLOAT)
    return typed[0] if typed else ColumnType(OTHER)


# --- the types of arguments

_WORDS = {
    "number": "a number", INTEGER: "a whole number", FLOAT: "a number", TEXT: "a text", TIME: "a time",
    DURATION: "a duration", BOOLEAN: "a truth value", LIST: "a list", MAP: "a map",
    OTHER: "a value of a type that functions cannot use",
}  # fmt: skip
_PLACES = ("first", "second", "third")


def fault_of_argument(
    signature: Signature, place: int, n: int, of: ColumnType, *, is_column: bool, is_constant: bool
) -> str | None:
    """Return what an argument has to be, to complete "f() takes …, but x is …"; None if it fits."""
    # A function of integers takes a float, because integer columns with missing values are often floats. A
    # function of times takes a constant text.
    wanted = signature.types_of(place)
    fits = (
        ANY in wanted
        or of.kind in wanted
        or (of.kind == OTHER and not is_column)  # a null, or a value whose type is not known
        or (of.kind in NUMBERS and ("number" in wanted or INTEGER in wanted))
        or (of.kind == TEXT and TIME in wanted and is_constant)
    )
    if fits:
        return None
    words = " or ".join(_WORDS[word] for word in wanted)
    of_several = f" as its {_PLACES[place] if place < 3 else 'next'} argument" if n > 1 else ""
    return f"{words}{of_several}"


def word_of_kind(kind: str) -> str:
    """Return what a value of a kind is, such as ``a text``."""
    return _WORDS[kind]


# --- numbers, many at once

_ARROW = ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sqrt")


def _by_arrow(name: str, *arrays: Any) -> np.ndarray:
    """Return a function of arrays of numbers by Arrow, which rounds as Python's ``math`` does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    n = next(len(array) for array in arrays if isinstance(array, np.ndarray))
    floats = [pa.array(np.broadcast_to(np.asarray(array, np.float64), (n,))) for array in arrays]
    return np.asarray(getattr(pc, name)(*floats))


def _haversine(*arrays: Any) -> np.ndarray:
    """Return the distances of pairs of places on the globe, NaN where a coordinate is not finite."""
    n = next(len(array) for array in arrays if isinstance(array, np.ndarray))
    lists = [array.tolist() if isinstance(array, np.ndarray) else repeat(array, n) for array in arrays]
    nan = math.nan
    return np.array([haversine(*p) if all(map(math.isfinite, p)) else nan for p in zip(*lists, strict=True)])


# Powers and logarithms of many numbers at once, with the values of Python's ``math``.
#
# numpy rounds the last digit in another way, so each value is computed by Python.

POWERS = tuple(
    name
    for name, function in VOCABULARY.items()
    if function.gives == FLOAT
    and all(types == ("number",) for types in function.takes.takes)
    and name != "sqrt"
)


def powers(function: str, parts: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a function, and where it has none, as ``LN(0)``."""
    call = VOCABULARY[function].compute

    def value(*arguments: float) -> float | None:
        try:
            return call(*arguments)
        except (ArithmeticError, ValueError):
            return None

    lists = [part.tolist() if isinstance(part, np.ndarray) else repeat(part) for part in parts]
    results = list(map(value, *lists))
    missing = np.array([result is None for result in results], bool)
    return np.array([0.0 if result is None else result for result in results], np.float64), missing


# --- texts by the regular expressions of RE2, in time linear in their length

_TEXT_LIBRARY = ("regexp_like", "regexp_extract", "regexp_replace", "regexp_count")


def _by_library(name: str, constants: Sequence[Any]) -> BoundCall:
    """Return a function of texts by the library, with its other arguments fixed where they are constants."""
    kind = ColumnType(VOCABULARY[name].gives or TEXT)
    others = constants[1:]
    if all(other is not VARIES and other is not None for other in others):
        of_texts = partial(_of_texts, name, tuple(others))
        of_texts([""])  # an error here is one of the expression
        cached = lru_cache(maxsize=4096)(lambda text: of_texts([text])[0])
        return BoundCall(lambda text, *_: cached(text), kind, of_texts=of_texts)
    return BoundCall(lambda text, *more: _of_texts(name, more, [text])[0], kind)


def _of_texts(name: str, others: tuple[Any, ...], texts: list[str]) -> list[Any]:
    """Return a function of a regular expression for each text, computed by Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array, pattern = pa.array(texts, pa.string()), others[0]
    try:
        if name == "regexp_like":
            flags = others[1] if len(others) > 1 else ""
            return pc.match_substring_regex(array, pattern, ignore_case="i" in flags).to_pylist()
        if name == "regexp_count":
            return pc.count_substring_regex(array, pattern).to_pylist()
        if name == "regexp_replace":
            instead = others[1] if len(others) > 1 else ""
            instead = re.sub(r"\$([0-9])", r"\\\1", instead.replace("\\", "\\\\"))  # $1 is \1 for RE2
            return pc.replace_substring_regex(array, pattern=pattern, replacement=instead).to_pylist()
        pc.match_substring_regex(array[:0], pattern)  # errors name the pattern as it is written
        group = whole(others[1]) if len(others) > 1 else 0
        parts = pc.extract_regex(array, _with_one_group(pattern, group))
        return pc.struct_field(parts, "part").to_pylist()
    except (pa.ArrowInvalid, TypeError) as error:
        reason = str(error).split(": ", 1)[-1]
        raise PredicateError(
            f"{name}: {pattern!r} is no regular expression of RE2 ({reason}); it has no look-around and no "
            "backreferences"
        ) from None


_IN_PATTERN = re.compile(r"\\Q.*?\\E|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?P?<\w+>|\(\?|\(", re.DOTALL)


def _with_one_group(pattern: str, wanted: int) -> str:
    """Return a regular expression in which only one group counts, with the name that Arrow asks for."""
    number = 0

    def group(part: re.Match[str]) -> str:
        nonlocal number
        if part[0] == "(?" or part[0][0] != "(":
            return part[0]
        number += 1
        return "(?P<part>" if number == wanted else "(?:"

    text = _IN_PATTERN.sub(group, pattern)
    if not 0 <= wanted <= number:
        raise PredicateError(
            f"regexp_extract: {pattern!r} has no group {wanted}; groups count from 1, 0 is all"
        )
    return f"(?P<part>{text})" if wanted == 0 else text


# --- times

_TIMES = (
    *FIELDS_OF_TIMES, "epoch", "date", "date_trunc", "date_diff", "datediff", "date_add", "add_months",
    "months_between", "last_day", "dayname", "monthname", "from_unixtime", "to_char", "date_format",
    "to_timestamp",
)  # fmt: skip


def _of_times(name: str, types: Sequence[ColumnType], constants: Sequence[Any]) -> BoundCall:
    """Return what a function of times, or one that makes times, computes. Units and forms are constants."""
    first = types[0]
    time_type = next((kind for kind in types if kind.kind in (TIME, DURATION)), _TIME_OF_TEXT)
    if name in ("date_trunc", "date_diff", "datediff", "date_add"):
        unit = unit_of_time(constants[0])
        if name == "date_add":
            move, move_all = partial(moved, unit, time_type), partial(all_moved, unit, time_type)
            return BoundCall(lambda _, n, ticks: move(whole(n), ticks), time_type,
                             of_arrays=lambda _, n, ticks: move_all(n, ticks))  # fmt: skip
        compute, kind = function_of_times(name, unit, time_type)
        return BoundCall(lambda _, *ticks: compute(*ticks), kind, of_arrays=lambda _, *ticks: compute(*ticks))
    if name in FIELDS_OF_TIMES or name == "epoch":
        compute, kind = function_of_times(name, None, time_type)
        return BoundCall(compute, kind, of_arrays=compute)
    if name == "add_months":
        move, move_all = partial(moved, "month", time_type), partial(all_moved, "month", time_type)
        return BoundCall(
            lambda ticks, n: move(whole(n), ticks), time_type, of_arrays=lambda ticks, n: move_all(n, ticks)
        )
    if name == "months_between":
        compute = partial(months_between, time_type)
        return BoundCall(compute, ColumnType(FLOAT), of_arrays=compute)
    if name == "last_day":
        compute = partial(last_day, time_type)
        return BoundCall(compute, time_type, of_arrays=compute)
    if name in ("dayname", "monthname"):
        directives = "%a" if name == "dayname" else "%b"
        return BoundCall(partial(time_as_text, time_type, directives), ColumnType(TEXT))
    form = constants[1] if len(constants) > 1 else None
    if form is not None and not isinstance(form, str):
        raise PredicateError(f"{name}() takes its form as a constant text, as in 'YYYY-MM-DD'")
    if name == "trunc" or (name == "date" and first.kind == TIME):
        unit = unit_of_time("day" if form is None else form)
        if unit is None:
            raise PredicateError(f"{name}(): {form!r} is no unit of time, such as 'month' or 'MM'")
        compute = partial(beginning, unit, time_type)
        call = lambda ticks, *_: compute(ticks)  # noqa: E731
        return BoundCall(call, time_type, of_arrays=call)
    if name in ("to_char", "date_format"):
        if first.kind != TIME:
            return BoundCall(lambda value, *_: str(value), ColumnType(TEXT))
        default = "%Y-%m-%d %H:%M:%S"
        directives = default if form is None else directives_of(form, is_java=name == "date_format")
        return BoundCall(lambda ticks, *_: time_as_text(time_type, directives, ticks), ColumnType(TEXT))
    # from_unixtime, to_timestamp and date are left, which make a time of a number or a text.
    if first.kind in NUMBERS:
        return BoundCall(lambda seconds, *_: round(seconds * 10**6), _TIME_OF_TEXT)
    directives = None if form is None else directives_of(form).replace("%3f", "%f")
    read = partial(day_of_text if name == "date" else time_of_text, directives)
    return BoundCall(lambda text, *_: read(text), _TIME_OF_TEXT)


# Functions of values on whole columns: of arrays, of each text once, or of each row in plain Python.

_FEWEST_TEXTS = 64  # up to this many texts, each is computed once, although the column has fewer rows


def null_of(of: ColumnType) -> Any:
    """Return the value that stands for null."""
    return np.nan if of.kind == FLOAT else NULL_INTEGER if of.kind in WHOLE else NULL_CODE


def apply(bound: BoundCall, parts: Sequence[Any], n: int) -> Column:
    """Return a function of columns and constants, for ``n`` rows."""
    columns = [part for part in parts if isinstance(part, Column)]
    is_of_texts = any(column.type.kind == TEXT for column in columns)
    if bound.branches is not None and not is_of_texts and bound.type.kind != TEXT:
        return _chosen(bound, *bound.branches([ChoicePart(part, n) for part in parts]), n)
    if bound.of_arrays is not None and not is_of_texts and None not in parts:
        try:
            return _of_arrays(bound, parts, n)
        except (ValueError, ArithmeticError):  # outside of the calendar
            pass
    if is_of_texts and len(columns) == 1 and len(columns[0].texts) <= max(n, _FEWEST_TEXTS):
        return _of_distinct_texts(bound, parts, columns[0])
    lists = [values_of(part) if isinstance(part, Column) else [part] * n for part in parts]
    return column_of_values([value_of_call(bound, row) for row in zip(*lists, strict=True)], bound.type)


def _of_arrays(bound: BoundCall, parts: Sequence[Any], n: int) -> Column:
    """Return the column that a function makes of columns and constants, null where one of them is."""
    is_missing, arrays = np.zeros(n, bool), []
    for part in parts:
        if isinstance(part, Column):
            part_is_missing = is_null(part)
            is_missing |= part_is_missing
            zero = part.values.dtype.type(0)
            arrays.append(np.where(part_is_missing, zero, part.values))
        else:
            arrays.append(part)
    values = np.asarray(bound.of_arrays(*arrays))
    if bound.type.kind == FLOAT:
        return Column(bound.type, np.where(is_missing, np.nan, values.astype(np.float64, copy=False)))
    dtype, null = (np.int8, NULL_CODE) if bound.type.kind == BOOLEAN else (np.int64, NULL_INTEGER)
    return Column(bound.type, np.where(is_missing, null, values).astype(dtype))


class ChoicePart:
    """An argument of a function that chooses: its values and where it is null or true, each of n rows."""

    def __init__(self, part: Any, n: int):
        self.part = part
        if isinstance(part, Column):
            self.is_null, self.values = is_null(part), part.values
        else:
            self.is_null, self.values = np.full(n, part is None), 0 if part is None else part

    @property
    def is_true(self) -> np.ndarray:
        return np.where(self.is_null, False, np.equal(self.values, 1))

    def equals(self, other: ChoicePart | int) -> np.ndarray:
        """Return where both are known and equal."""
        if not isinstance(other, ChoicePart):
            return ~self.is_null & (self.values == other)
        return ~self.is_null & ~other.is_null & (self.values == other.values)


def _chosen(bound: BoundCall, branches: Sequence[tuple[np.ndarray, Any]], default: Any, n: int) -> Column:
    """Return the values of the first branch that holds; a value is a part, a number, or None for null."""
    dtype = np.float64 if bound.type.kind == FLOAT else np.int8 if bound.type.kind == BOOLEAN else np.int64
    null = null_of(bound.type)

    def values_of_branch(value: Any) -> Any:
        if isinstance(value, ChoicePart):
            return np.where(value.is_null, null, np.asarray(value.values).astype(dtype))
        return null if value is None else value

    chosen = np.full(n, values_of_branch(default), dtype)
    for holds, value in reversed(branches):
        chosen = np.where(holds, values_of_branch(value), chosen)
    return Column(bound.type, chosen.astype(dtype, copy=False))


def _of_distinct_texts(bound: BoundCall, parts: Sequence[Any], column: Column) -> Column:
    """Return a function of one column of texts: it is computed once for each text."""
    texts, place = column.texts.tolist(), next(i for i, part in enumerate(parts) if part is column)
    before, after = parts[:place], parts[place + 1 :]
    if bound.of_texts is not None:
        values = bound.of_texts(texts)
    else:
        try:
            is_known = bound.is_lenient or None not in (*before, *after)
            values = (
                [bound.call(*before, text, *after) for text in texts] if is_known else [None] * len(texts)
            )
        except (ArithmeticError, ValueError):  # some texts have no value
            values = [value_of_call(bound, [*before, text, *after]) for text in texts]
    of_null = value_of_call(bound, [*before, None, *after])
    of_code = column_of_values([*values, of_null], bound.type)  # the code of null is -1, the last one
    return replace(of_code, values=of_code.values[column.values])


def is_null(column: Column) -> np.ndarray:
    if column.type.kind == FLOAT:
        return np.isnan(column.values)
    return column.values == null_of(column.type)


def values_of(column: Column) -> list[Any]:
    """Return values as Python objects: texts, truth values, numbers and ticks; None for null."""
    if column.type.kind == TEXT:
        return [*np.append(column.texts, None)[column.values]]
    values = (column.values == 1).tolist() if column.type.kind == BOOLEAN else column.values.tolist()
    nulls = is_null(column)
    if not nulls.any():
        return values
    return [None if null else value for value, null in zip(values, nulls.tolist(), strict=True)]


def column_of_values(values: list[Any], of: ColumnType) -> Column:
    """Return values of a type as a column; integers that do not fit into 64 bits are null."""
    if of.kind == TEXT:
        codes: dict[str, int] = {}
        coded = [NULL_CODE if value is None else codes.setdefault(value, len(codes)) for value in values]
        return Column(of, np.array(coded, np.int32), np.array([*codes], object))
    if of.kind == BOOLEAN:
        return Column(of, np.array([NULL_CODE if value is None else int(value) for value in values], np.int8))
    if of.kind == FLOAT:
        return Column(of, np.array([np.nan if value is None else value for value in values], np.float64))
    fitting = (value if value is not None and -(2**63) < value < 2**63 else NULL_INTEGER for value in values)
    return Column(of, np.fromiter(fitting, np.int64, len(values)))
