"""Reductions of the values of every match to one value, and array columns as matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared import decimals
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.functions import (
    VARIES,
    apply,
    bound_call,
    column_of_values,
    fault_of_argument,
    is_null,
    places_of_values,
    value_of_call,
    word_of_kind,
)
from cepkit.compile.shared.terms import Prepared
from cepkit.errors import CepError, PredicateError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    NULL_CODE,
    NULL_INTEGER,
    OTHER,
    TEXT,
    TIME,
    Column,
    ColumnType,
)
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.expressions.vocabulary import SUMMARIES, SUMMED, VOCABULARY

# Reductions of the values of every match to one value: counts, sums, means, extremes, lists.


def as_numbers(function: str, values: pa.Array) -> tuple[str, pa.Array]:
    """Return an aggregate of numbers for one of truth values, which count as 1 and 0."""
    summary = SUMMARIES.get(function)
    if summary is not None and summary.of_truths is not None and pa.types.is_null(values.type):
        values = values.cast(pa.bool_())
    is_truth = pa.types.is_boolean(values.type)
    if summary is not None and summary.of_truths is not None:
        if not is_truth:
            raise TypeError(f"{function}() needs a condition, not {in_words(values.type)}")
        if summary.counts:  # rows that are not true are as good as missing
            return "count", pc.if_else(values, values, pa.scalar(None, pa.bool_()))
        function = summary.of_truths
    if is_truth and function in (*SUMMED, "min", "max"):
        values = values.cast(pa.int64())
    return function, values


def reduce_items(
    function: str, values: pa.Array, first_item: np.ndarray, order: tuple[str, ...] | None,
    by: pa.Array | pa.Scalar | None = None,
) -> pa.Array:  # fmt: skip
    """Reduce the items of every match to one value. Nulls do not count; nulls alone give null."""
    values = one_chunk(values)
    function, numbers = as_numbers(function, values)
    reduced = _reduce(function, numbers, first_item, order, by)
    is_truth = pa.types.is_boolean(values.type) and function in ("min", "max")
    return reduced.cast(values.type) if is_truth else reduced


def _reduce(
    function: str, values: pa.Array, first_item: np.ndarray, order: tuple[str, ...] | None,
    by: pa.Array | pa.Scalar | None,
) -> pa.Array:  # fmt: skip
    """Return one value for the items of each match."""
    if decimals.is_decimal(values.type) and function in (*SUMMED, "min", "max"):
        return _reduce_decimals(function, values, first_item, by)
    if function == "collect":
        small = first_item[-1] < 2**31
        list_array = pa.ListArray if small else pa.LargeListArray
        return list_array.from_arrays(pa.array(first_item, pa.int32() if small else pa.int64()), values)
    starts = first_item[:-1]
    if function in SUMMARIES:
        if SUMMARIES[function].of_numbers:
            _check(function, values.type)
        bounds = first_item.tolist()
        return summarised(function, values, bounds[:-1], bounds[1:], by, order)
    present = present_values(values)
    counts = _segments(np.add, present.astype(np.int64), starts)
    if function == "count":
        return pa.array(counts)
    kind = values.type
    _check(function, kind)
    none = counts == 0
    if is_text(kind):
        texts, codes = _codes(values, order)
        best = _extreme(function, codes, present, starts)
        return pa.array(np.append(texts, None)[np.where(none, len(texts), best)], kind)
    numbers = plain_numbers(values)
    if function in ("min", "max"):
        best = pa.array(_extreme(function, numbers, present, starts), mask=none)
        return best if is_number(kind) else best.cast(_stored(kind)).cast(kind)
    if function == "avg":
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(_total(numbers, starts) / counts, mask=none)
    total = _segments(np.add, numbers, starts)
    result = pa.array(total, mask=none)
    return result.cast(kind) if pa.types.is_duration(kind) else result


def _reduce_decimals(
    function: str, values: pa.Array, first_item: np.ndarray, by: pa.Array | pa.Scalar | None
) -> pa.Array:
    """Reduce decimals: sums and extremes are decimals, means and all others are floats."""
    kind, starts, stops = values.type, first_item[:-1].tolist(), first_item[1:].tolist()
    if function not in ("sum", "avg", "min", "max"):
        return float_of_decimals(
            function, values, lambda whole: _reduce(function, whole, first_item, None, by)
        )
    numbers = decimals.whole_numbers(values, kind.scale) if kind.scale >= 0 else None
    present = present_values(values)
    counts = _segments(np.add, present.astype(np.int64), first_item[:-1])
    if numbers is not None and len(values) * _largest(numbers[present]) < 2**63:
        whole = _reduce(
            "sum" if function == "avg" else function, pa.array(numbers, mask=~present), first_item, None, None
        )
        totals = whole.fill_null(0).to_numpy()
        if function != "avg":
            return decimals.decimals_of(totals, counts == 0, kind.scale).cast(_type_of_sum(function, kind))
        exact = [Fraction(total, 10**kind.scale) for total in totals.tolist()]
    else:
        parts = (values[i:j].to_pylist() for i, j in zip(starts, stops, strict=True))
        items = [[item for item in part if item is not None] for part in parts]
        exact = [_of_decimals(function, part) for part in items]
        if function != "avg":
            try:
                return pa.array(exact, _type_of_sum(function, kind))
            except pa.ArrowInvalid:
                raise CepError(decimals.TOO_LONG) from None
        exact = [Fraction(total or 0) for total in exact]
    means = (float(total / int(n)) if n else None for total, n in zip(exact, counts, strict=True))
    return pa.array(means, pa.float64())


def float_of_decimals(function: str, values: pa.Array, compute: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return the result of ``compute`` for decimals, which it gets as integers, as a float."""
    numbers = decimals.whole_numbers(values, values.type.scale) if values.type.scale >= 0 else None
    if numbers is None:
        return compute(values.cast(pa.float64()))
    result = compute(pa.array(numbers, mask=numbers == NULL_INTEGER)).cast(pa.float64())
    unit = 10.0 ** (values.type.scale * (2 if function == "var" else 1))
    return pc.divide(result, pa.scalar(unit))


def _of_decimals(function: str, items: list[Decimal]) -> Decimal | None:
    """Return the sum, the least or the greatest of some decimals; None for none."""
    if not items:
        return None
    if function in ("min", "max"):
        return min(items) if function == "min" else max(items)
    with localcontext(prec=2 * decimals.DIGITS):
        return sum(items, Decimal())


def _type_of_sum(function: str, of: pa.DataType) -> pa.DataType:
    """Return the type of a sum or an extreme of decimals."""
    digits = decimals.DIGITS if function == "sum" else min(of.precision, decimals.DIGITS)
    return pa.decimal128(digits, of.scale)


def _largest(numbers: np.ndarray) -> int:
    """Return the largest absolute value."""
    return max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0


def summarised(
    function: str, values: pa.Array, start: list[int], stop: list[int],
    by: pa.Array | pa.Scalar | None = None, order: tuple[str, ...] | None = None,
) -> pa.Array:  # fmt: skip
    """Return a summary of the values in each range; nulls do not count. Time O(values in all ranges)."""
    summary = SUMMARIES[function]
    for kind in (part.type for part in (values, by) if part is not None):
        if pa.types.is_nested(kind) and not (summary.picks and by is not None and kind is values.type):
            raise TypeError(f"{function}() is not defined for {in_words(kind)}")
    if summary.picks:
        items = _plain_items(values) if by is None else _ranked(one_chunk(by), order)
        places = (
            [place for place in range(i, j) if items[place] is not None]
            for i, j in zip(start, stop, strict=True)
        )
        picked = [part[summary.compute([items[k] for k in part])] if part else None for part in places]
        return values.take(pa.array(picked, pa.int64()))
    items = values.to_pylist() if summary.of_numbers else _plain_items(values)
    of_range = ([item for item in items[i:j] if item is not None] for i, j in zip(start, stop, strict=True))
    arguments = () if by is None else (by.as_py(),)
    results = [summary.of(part, *arguments) for part in of_range]
    return pa.array(results, pa.int64() if summary.counts else pa.float64())


def _ranked(values: pa.Array, order: tuple[str, ...] | None) -> list:
    """Return values with the order of ``values``, and None for null."""
    if order is not None:
        values = pc.index_in(values, value_set=pa.array(order, values.type))
    return values.to_pylist()


def _plain_items(values: pa.Array) -> list:
    """Return a number for each value, the same for equal values; None for null."""
    return as_codes(values).indices.to_pylist()


def as_codes(values: pa.Array) -> pa.DictionaryArray:
    """Return values as numbers of different values; -0.0 equals 0.0."""
    return (pc.add(values, 0.0) if pa.types.is_floating(values.type) else values).dictionary_encode()


def _check(function: str, kind: pa.DataType) -> None:
    """Raise if a function is not defined for values of a type."""
    if pa.types.is_boolean(kind) or pa.types.is_nested(kind):
        raise TypeError(f"{function}() is not defined for {in_words(kind)}")
    is_ordered = is_text(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
    if is_number(kind) or (function in ("min", "max") and is_ordered):
        return
    if function == "sum" and pa.types.is_duration(kind):
        return
    raise TypeError(f"{function}() needs numbers, not {in_words(kind)}")


def in_words(kind: pa.DataType) -> str:
    """Return what values of a type are called in errors. All frames have the same words, unlike types."""
    if is_text(kind) or pa.types.is_string_view(kind):
        return "texts"
    if pa.types.is_boolean(kind):
        return "truth values"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "times"
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        return "durations"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    return "lists" if is_list(kind) else "values that are no numbers, times or texts"


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of this type are lists, of any kind."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_number(kind: pa.DataType) -> bool:
    return decimals.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the integers that times, dates and durations are stored as."""
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def filled(array: pa.Array, null: float) -> np.ndarray:
    """Return numbers with ``null`` in place of nulls."""
    return (array.fill_null(null) if array.null_count else array).to_numpy(zero_copy_only=False)


def present_values(values: pa.Array) -> np.ndarray:
    """Return which values are not null, bool, (n,)."""
    if not values.null_count:
        return np.ones(len(values), bool)
    return values.is_valid().to_numpy(zero_copy_only=False)


def plain_numbers(values: pa.Array) -> np.ndarray:
    """Return numbers, times, dates or durations as float64 or int64, with 0 for null."""
    if pa.types.is_floating(values.type):
        return filled(values, 0).astype(np.float64)
    if not pa.types.is_integer(values.type):
        values = values.cast(_stored(values.type))
    return filled(values.cast(pa.int64()), 0)


def _codes(values: pa.Array, order: tuple[str, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted texts, and the index of each value among them; the index of a null means nothing."""
    if order is None:
        every = np.asarray(values.fill_null("").to_pylist(), dtype=object)
        return np.unique(every, return_inverse=True)
    codes = pc.index_in(values, value_set=pa.array(order, values.type)).fill_null(0)
    return np.array(order, dtype=object), codes.to_numpy().astype(np.int64)


def _extreme(function: str, values: np.ndarray, present: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the least or greatest present value of each segment."""
    is_max = function == "max"
    if values.dtype.kind == "f":
        neutral = -np.inf if is_max else np.inf
    else:
        limits = np.iinfo(values.dtype)
        neutral = limits.min if is_max else limits.max
    return _segments(np.maximum if is_max else np.minimum, np.where(present, values, neutral), starts)


def _total(numbers: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sums as floats; integers are added in two halves, so they cannot wrap around."""
    if numbers.dtype.kind == "f":
        return _segments(np.add, numbers, starts)
    high, low = (_segments(np.add, half, starts) for half in (numbers >> 32, numbers & 0xFFFFFFFF))
    return high * 2.0**32 + low


def _segments(operation: np.ufunc, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the result of an operation such as `np.add` for each segment that begins at ``starts``."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are values
        return operation.reduceat(values, starts) if len(starts) else values[:0]


# Array columns as matrices, prepared for the functions that compare arrays.

_VECTORS = ColumnType(LIST, nullable=True, item=ColumnType(FLOAT, nullable=True))


def vectors_of_arrow(
    array: pa.Array | pa.ChunkedArray, name: str, label: Callable[[int], object] = lambda row: row
) -> np.ndarray:
    """Return a column of arrays of one length as a matrix; ``label`` names a row in errors."""
    array = one_chunk(array)
    n_items = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(n_items)
    if not len(rows):
        return np.full((len(array), 0), np.nan)
    length = int(n_items[rows[0]])
    others = rows[n_items[rows] != length]
    if len(others):
        row, first = _shown(label(int(others[0]))), _shown(label(int(rows[0])))
        raise CepError(
            f"column {name!r}: the array of row {row} has {n_items[others[0]]} numbers, that of row {first} "
            f"has {length}; compared arrays must have one length: cut or fill them first"
        )
    items = pc.list_flatten(array)  # skips missing arrays
    items = pc.fill_null(items.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
    if len(rows) == len(array):
        return items.reshape(len(array), length)
    whole = np.full((len(array), length), np.nan)
    whole[rows] = items.reshape(len(rows), length)
    return whole


def one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array in one piece."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _shown(label: object) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def prepare(vectors: np.ndarray, function: str) -> np.ndarray:
    """Return a matrix in which ``function`` of two rows is a sum over their numbers."""
    # Powers of two first scale the rows to a size near 1. This changes no digit, and squares neither overflow
    # nor vanish.
    if function == "l2" or not vectors.size:
        return vectors
    with np.errstate(all="ignore"):
        rows = _near_one(vectors)
        if function == "corr":
            is_constant = vectors.max(axis=1) == vectors.min(axis=1)
            rows = rows - rows.mean(axis=1, keepdims=True)
            rows -= rows.mean(axis=1, keepdims=True)  # rounding leaves a part of the mean
            rows[is_constant] = 0.0
            rows = _near_one(rows)
        return rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))


def _near_one(rows: np.ndarray) -> np.ndarray:
    """Return rows that a power of two scales so that their largest number is near 1."""
    exponent = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
    return np.ldexp(rows, -exponent)


def similarity(function: str, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return ``function`` of each pair of rows of two prepared matrices as kernels compute it, (n_rows,)."""
    # Rows without a result give NaN.
    total = np.zeros(len(one))
    with np.errstate(all="ignore"):
        for k in range(one.shape[1]):
            term = one[:, k] - other[:, k]
            total += term * term if function == "l2" else one[:, k] * other[:, k]
        return np.sqrt(total) if function == "l2" else np.clip(total, -1.0, 1.0)


def compare_rows(function: str, one: np.ndarray, other: np.ndarray, names: tuple[str, str]) -> np.ndarray:
    """Return ``function`` of each pair of rows of two matrices; errors use the column ``names``."""
    lengths = _lengths([(function, *names)], dict(zip(names, (one, other), strict=True)))
    sides = (
        prepare(_of_length(side, lengths[name]), function)
        for side, name in zip((one, other), names, strict=True)
    )
    return similarity(function, *sides)


def prepared_columns(program: BoundQuery, vectors: Callable[[str], np.ndarray]) -> dict[str, Column]:
    """Return the array columns that a program compares, prepared, by the names that it gives them."""
    wanted = {name: prepared for name, prepared in program.derived.items() if isinstance(prepared, Prepared)}
    if not wanted:
        return {}
    matrix_of = {
        name: vectors(name) for name in dict.fromkeys(prepared.column for prepared in wanted.values())
    }
    calls = [term for root in program.terms() for term in root.walk() if term.op == "similarity"]
    pairs = [tuple(wanted[arg.column].column for arg in call.args) for call in calls]
    length_of = _lengths([(call.data, *pair) for call, pair in zip(calls, pairs, strict=True)], matrix_of)
    return {
        name: Column(
            _VECTORS,
            prepare(_of_length(matrix_of[prepared.column], length_of[prepared.column]), prepared.function),
        )
        for name, prepared in wanted.items()
    }


def _lengths(calls: list[tuple[str, str, str]], matrix_of: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return the length of every column; a column of missing arrays gets that of a column it meets."""
    length_of = {name: matrix.shape[1] for name, matrix in matrix_of.items()}
    for _ in length_of:
        for _, left, right in calls:
            longest = max(length_of[left], length_of[right])
            length_of |= {name: longest for name in (left, right) if not length_of[name]}
    for function, left, right in calls:
        if length_of[left] != length_of[right]:
            raise CepError(
                f"{function}() compares arrays of one length: those of column {left!r} have "
                f"{length_of[left]} numbers, those of {right!r} {length_of[right]}; cut the longer ones first"
            )
    return length_of


def _of_length(matrix: np.ndarray, length: int) -> np.ndarray:
    """Return a matrix; one without columns becomes rows of NaN of this length."""
    return matrix if matrix.shape[1] else np.full((len(matrix), max(1, length)), np.nan)


# Functions of values in measures: from Arrow arrays and scalars to an Arrow array.

Read = Callable[[Any, pa.DataType], Any]  # a text as a value of a type of times, and other values unchanged


def call_function(name: str, arguments: Sequence[Any], read: Read) -> Any:
    """Return a function of `VOCABULARY` of plain arrays and scalars; raise for wrong types."""
    function = VOCABULARY[name]
    arguments = [pa.scalar(None) if pa.types.is_null(argument.type) else argument for argument in arguments]
    arguments = _in_one_unit(name, arguments, read)
    if function.gives is None:
        _check_one_type(name, [arguments[i].type for i in places_of_values(function.name, len(arguments))])
    types = [type_of_plain(argument.type) for argument in arguments]
    for place, (argument, of) in enumerate(zip(arguments, types, strict=True)):
        is_scalar = isinstance(argument, pa.Scalar)
        fault = fault_of_argument(
            function.takes, place, len(types), of, is_column=not is_scalar, is_constant=is_scalar
        )
        if fault is not None:
            raise PredicateError(f"{name}() takes {fault}, not {word_of_kind(of.kind)}")
    constants = [_value_of(argument) if isinstance(argument, pa.Scalar) else VARIES for argument in arguments]
    bound = bound_call(name, types, constants)
    n = next((len(argument) for argument in arguments if isinstance(argument, pa.Array)), None)
    if n is None:
        return _arrow_of(_once(bound, constants), bound.type)[0]
    parts = [
        _column_of(argument, of) if isinstance(argument, pa.Array) else constant
        for argument, of, constant in zip(arguments, types, constants, strict=True)
    ]
    return _arrow_of(apply(bound, parts, n), bound.type)


def _once(bound: Any, constants: Sequence[Any]) -> Column:
    """Return a function of constants as a column of one row."""
    return column_of_values([value_of_call(bound, constants)], bound.type)


def _in_one_unit(name: str, arguments: list[Any], read: Read) -> list[Any]:
    """Return the arguments with times and durations in the finest unit, and texts next to times as times."""
    function = VOCABULARY[name]
    kinds = [function.takes.types_of(place) for place in range(len(arguments))]
    places = [i for i, types in enumerate(kinds) if TIME in types and TEXT not in types]
    if function.gives is None:
        places = [*places_of_values(function.name, len(arguments))]
    timed = [arguments[i].type for i in places if pa.types.is_temporal(arguments[i].type)]
    if not timed:
        if function.gives is not None:
            for i in places:
                arguments[i] = read(arguments[i], pa.timestamp("us"))
        return arguments
    finest = min(timed, key=lambda of: NANOSECONDS[of.unit])
    for i in places:
        argument = read(arguments[i], finest)
        if pa.types.is_temporal(argument.type) and argument.type.unit != finest.unit:
            argument = argument.cast(_with_unit(argument.type, finest.unit))
        arguments[i] = argument
    return arguments


def _check_one_type(name: str, types: Iterable[pa.DataType]) -> None:
    """Raise unless all values that a function chooses from are of one type, which conditions can use."""
    words = sorted({in_words(of) for of in types if not pa.types.is_null(of)})
    if len(words) > 1:
        raise PredicateError(f"{name}() takes values of one type; these are {' and '.join(words)}")
    if not {*words} <= {"numbers", "texts", "times", "durations", "truth values"}:
        raise PredicateError(f"{name}() takes numbers, texts, times or truth values, not {words[0]}")


def _with_unit(of: pa.DataType, unit: str) -> pa.DataType:
    """Return a type of times or durations in another unit."""
    return pa.duration(unit) if pa.types.is_duration(of) else pa.timestamp(unit, of.tz)


def type_of_plain(of: pa.DataType) -> ColumnType:
    """Return the type of a column with such values."""
    if pa.types.is_timestamp(of):
        return ColumnType(TIME, of.unit, of.tz)
    if pa.types.is_duration(of):
        return ColumnType(DURATION, of.unit)
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return ColumnType(TEXT)
    tests = ((pa.types.is_boolean, BOOLEAN), (pa.types.is_integer, INTEGER), (pa.types.is_floating, FLOAT))
    return ColumnType(next((kind for test, kind in tests if test(of)), OTHER))


def _value_of(scalar: pa.Scalar) -> Any:
    """Return the value of a constant; times and durations as ticks."""
    return scalar.value if scalar.is_valid and pa.types.is_temporal(scalar.type) else scalar.as_py()


def _column_of(array: pa.Array, of: ColumnType) -> Column:
    """Return a plain array as a column."""
    if of.kind == TEXT:
        coded = array.dictionary_encode()
        codes = coded.indices.fill_null(NULL_CODE).to_numpy(zero_copy_only=False)
        return Column(of, codes, coded.dictionary.to_numpy(zero_copy_only=False).astype(object))
    if of.kind == BOOLEAN:
        return Column(of, filled(array.cast(pa.int8()), NULL_CODE))
    if of.kind == FLOAT:
        return Column(of, filled(array.cast(pa.float64()), np.nan))
    return Column(of, filled(array.cast(pa.int64()), NULL_INTEGER))


_ARROW = {INTEGER: pa.int64(), FLOAT: pa.float64(), BOOLEAN: pa.bool_(), TEXT: pa.string()}


def arrow_type(kind: ColumnType) -> pa.DataType | None:
    """Return the Arrow type of computed values; None if only the values tell it."""
    if kind.kind == TIME:
        return pa.timestamp(kind.unit, kind.timezone)
    if kind.kind == DURATION:
        return pa.duration(kind.unit)
    if kind.scale is not None:
        return pa.decimal128(decimals.DIGITS, min(decimals.DIGITS, kind.scale))
    if kind.kind == LIST:
        item = None if kind.item is None else arrow_type(kind.item)
        return None if item is None else pa.list_(item)
    if kind.kind == MAP:
        parts = [None if part_kind is None else arrow_type(part_kind) for part_kind in (kind.key, kind.item)]
        return None if None in parts else pa.map_(*parts)
    return _ARROW.get(kind.kind)


def _arrow_of(column: Column, of: ColumnType) -> pa.Array:
    """Return a column as an Arrow array of a type."""
    if of.kind == OTHER:
        return pa.nulls(len(column.values))
    nulls = is_null(column)
    if of.kind == TEXT:
        codes = pa.array(column.values, mask=nulls)
        return pc.take(pa.array(column.texts, pa.string()), codes)
    if of.kind == BOOLEAN:
        return pa.array(column.values == 1, mask=nulls)
    array = pa.array(column.values, mask=nulls)
    return array.cast(arrow_type(of)) if of.kind in (TIME, DURATION) else array
