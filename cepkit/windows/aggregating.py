"""Running aggregates of windows as Arrow arrays, with exact sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared import decimals
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.reducing import (
    as_codes,
    as_numbers,
    float_of_decimals,
    in_words,
    one_chunk,
    plain_numbers,
    present_values,
    reduce_items,
    summarised,
)
from cepkit.engines.regex_measures import Evaluator, Rows, repeat_scalar
from cepkit.errors import CepError
from cepkit.events import NULL_INTEGER, sums_before
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.vocabulary import SUMMARIES
from cepkit.values import dataclass
from cepkit.windows.ranges import KERNELS, Emitted
from cepkit.windows.values import Operator

# ScaledNumbers as mantissas and places, so that sums of any rows are exact; sums of parts add up.

_MANTISSA_BITS, _BASE_BITS, _COUNT_BITS = 53, 30, 32


@dataclass(frozen=True)
class DigitScale:
    """How digits hold sums: exponent of the last bit, and the number of digits. Parts share one scale."""

    lowest: int
    n_digits: int


class ScaledNumbers(NamedTuple):
    """ScaledNumbers as ``mantissa * 2^(place + scale.lowest)``; infinite and missing ones have mantissa 0."""

    mantissa: np.ndarray  # int64, (n,)
    place: np.ndarray  # int64, (n,)
    scale: DigitScale


def numbers_of(values: np.ndarray, present: np.ndarray, scale: DigitScale | None = None) -> ScaledNumbers:
    """Return numbers for exact sums."""
    if values.dtype.kind == "i":
        mantissa = np.where(present, values, 0)
        place = np.zeros(len(values), np.int64)
        if scale is None:
            largest = max(int(mantissa.max(initial=0)), -int(mantissa.min(initial=0)))
            scale = scale_between(0, largest.bit_length())
        return ScaledNumbers(mantissa, place - scale.lowest, scale)
    if scale is None:
        scale = scale_of(values, present)
    mantissa, place = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    arrays = np.ascontiguousarray(values, np.float64), np.ascontiguousarray(present, bool)
    load_kernels(KERNELS).split_floats(*arrays, scale.lowest, mantissa, place)
    return ScaledNumbers(mantissa, place, scale)


def scale_of(values: np.ndarray, present: np.ndarray) -> DigitScale:
    """Return the scale of the present values, which says where the digits of their sum begin and end."""
    if values.dtype.kind == "i":
        return numbers_of(values, present).scale
    limits = np.empty(2, np.int64)
    arrays = np.ascontiguousarray(values, np.float64), np.ascontiguousarray(present, bool)
    load_kernels(KERNELS).exponent_limits(*arrays, limits)
    return scale_between(int(limits[0]) - _MANTISSA_BITS, max(int(limits[1]), int(limits[0]) + 1))


def scale_between(lowest: int, highest: int) -> DigitScale:
    """Return the scale for numbers whose bits have exponents from ``lowest`` to below ``highest``."""
    return DigitScale(lowest, (highest - lowest + _COUNT_BITS) // _BASE_BITS + 2)


def common_scale(*scales: DigitScale) -> DigitScale:
    """Return a scale that fits the numbers of several parts."""
    lowest = min(scale.lowest for scale in scales)
    n_digits = max(scale.n_digits + -(-(scale.lowest - lowest) // _BASE_BITS) for scale in scales)
    return DigitScale(lowest, n_digits + 1)


def sums(numbers: ScaledNumbers, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the sum of every range of rows as float64, exact and rounded once."""
    out, digits = np.empty(len(start)), np.zeros(2 * numbers.scale.n_digits, np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(KERNELS).exact_sums(
            numbers.mantissa, numbers.place, start, stop, numbers.scale.lowest, digits, out
        )
    return out


def variances(numbers: ScaledNumbers, count: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the variance of every range of rows, of ``count`` present values each; 0 for none."""
    out, digits = np.empty(len(start)), np.zeros(6 * numbers.scale.n_digits + 2, np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(KERNELS).exact_spreads(
            numbers.mantissa, numbers.place, count, start, stop, numbers.scale.lowest, digits, out
        )
    return variances_of(out, count)


def variances_of(spread: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the variances for the rounded ``n * sum(x^2) - sum(x)^2`` of n values."""
    n = np.maximum(count, 1).astype(np.float64)
    return spread / (n * n)


def partial_sums(numbers: ScaledNumbers, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the digits of the sum of every range, int64, (n_ranges, n_digits); digits of parts add up."""
    out = np.empty((len(start), numbers.scale.n_digits), np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(KERNELS).partial_sums(
            numbers.mantissa, numbers.place, start, stop, np.zeros(out.shape[1], np.int64), out
        )
    return out


def partial_squares(numbers: ScaledNumbers, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the digits of the sum of squares of every range, int64, (n_ranges, 2 * n_digits)."""
    out = np.empty((len(start), 2 * numbers.scale.n_digits), np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(KERNELS).partial_squares(
            numbers.mantissa, numbers.place, start, stop, np.zeros(out.shape[1], np.int64), out
        )
    return out


def round_sums(digits: np.ndarray, scale: DigitScale) -> np.ndarray:
    """Return sums as float64 from digits, which may be the sum of the digits of several parts."""
    out, scratch = np.empty(len(digits)), np.empty(digits.shape[1], np.int64)
    load_kernels(KERNELS).round_sums(np.ascontiguousarray(digits), scale.lowest, scratch, out)
    return out


def round_variances(
    digits: np.ndarray, squares: np.ndarray, count: np.ndarray, scale: DigitScale
) -> np.ndarray:
    """Return variances from the digits of sums and of sums of squares, and the counts."""
    out, scratch = np.empty(len(digits)), np.empty(3 * digits.shape[1] + 2, np.int64)
    load_kernels(KERNELS).round_spreads(
        np.ascontiguousarray(digits), np.ascontiguousarray(squares), count, scale.lowest, scratch, out
    )
    return variances_of(out, count)


# Running aggregates of windows as Arrow arrays, by the expressions that measures use.


class RowEvaluator(Evaluator):
    """Computes expressions of single rows, such as conditions."""

    def __init__(self, query: Operator, source: Rows, rows: np.ndarray):
        super().__init__(query, rows, source)  # type: ignore[arg-type]  # only its length is read
        self.rows = rows

    def value(self, e: ex.Expression) -> pa.Array | pa.Scalar:
        """Return the values of an expression, one per row of the result."""
        if isinstance(e, ex.Aggregate):
            return self._aggregate(e)
        if isinstance(e, ex.Attribute | ex.Subscript | ex.Reference):
            return self._row_value(e, self.rows)
        return self._combine(e, self.value)

    def _aggregate(self, e: ex.Aggregate) -> pa.Array:
        """Raise: a condition of single rows has no aggregates."""
        return self._combine(e, self.value)

    def values(self, role: str, expression: ex.Expression) -> pa.Array:
        self.role = role
        return one_chunk(decimals.narrow(repeat_scalar(self.value(expression), len(self.rows))))

    def truths(self, role: str, expression: ex.Expression) -> np.ndarray:
        """Return for which rows a condition is true, bool, (n_rows,)."""
        held = self.values(role, expression)
        if pa.types.is_null(held.type):
            return np.zeros(len(held), bool)
        if not pa.types.is_boolean(held.type):
            raise self.wrong(expression, f"a condition must be true or false, this is of type {held.type}")
        return pc.fill_null(held, False).to_numpy(zero_copy_only=False)


class WindowEvaluator(RowEvaluator):
    """Computes expressions of the rows that a window emits, with aggregates over the rows it holds."""

    def __init__(self, query: Operator, source: Rows, row_of_event: np.ndarray, emitted: Emitted):
        super().__init__(query, source, row_of_event[emitted.row_of_item])
        self.emitted = emitted
        self.row_of_place = row_of_event[emitted.row_of_place]
        n = emitted.n_arrivals
        self._families = [slice(0, n), slice(n, len(emitted.start))]

    def _aggregate(self, e: ex.Aggregate) -> pa.Array:
        """Return an aggregate over the window of each row of the result."""
        name, operand = e.function, e.operand
        start, stop = self.emitted.start, self.emitted.stop
        if operand is None:
            return pa.array(stop - start)
        values = repeat_scalar(self._row_value(operand, self.row_of_place), len(self.row_of_place))
        values = one_chunk(values)
        if name == "count":
            return pa.array(self._count(present_values(values)))
        if name in ("first", "last", "delta"):
            ends = {"first": [start], "last": [stop - 1], "delta": [stop - 1, start]}[name]
            end_values = [values.take(pa.array(end, mask=start >= stop)) for end in ends]
            return end_values[0] if len(end_values) == 1 else self._difference(e, *end_values)
        return self._reduce(name, e, operand, values)

    def _reduce(self, name: str, e: ex.Expression, operand: ex.Expression, values: pa.Array) -> pa.Array:
        """Return an aggregate that needs a kernel."""
        operand_values, by = values, self._second(e)
        if name == "distinct":
            try:
                return pa.array(self._distinct(values))
            except pa.ArrowNotImplementedError:
                raise self.wrong(e, f"distinct() is not defined for {in_words(values.type)}") from None
        self.done(e, _check_types, name, values.type, by.type if isinstance(by, pa.Array) else by)
        name, values = self.done(e, as_numbers, name, values)
        present = present_values(values)
        count = self._count(present)
        if name == "count":
            return pa.array(count)
        if name in ("min", "max", "min_by", "max_by"):
            is_max = name.startswith("max")
            if by is None:
                ranks = _ranks(values, self._order(operand))
            else:
                ranks, present = _ranks(by, self._order(e.by)), present_values(by)
                ranks = _first_of_equals(ranks, is_max)
            rows = self._extreme_places(ranks, present, is_max)
            return operand_values.take(pa.array(rows, mask=self._count(present) == 0))
        if name in SUMMARIES and name not in ("std", "var"):
            return summarised(name, values, self.emitted.start.tolist(), self.emitted.stop.tolist(), by)
        if decimals.is_decimal(values.type):
            return self._reduce_decimals(name, e, operand, values)
        numbers = plain_numbers(values)
        if name in ("std", "var"):
            spread = self._variances(numbers, present, count)
            spread = spread if name == "var" else np.sqrt(spread)
            return pa.array(spread, mask=(count == 0) | np.isnan(spread))
        return total_or_mean(name, self.done(e, self._sums, numbers, present, name), count, values.type)

    def _reduce_decimals(
        self, name: str, e: ex.Aggregate, operand: ex.Expression, values: pa.Array
    ) -> pa.Array:
        """Return a sum of decimals, or a float: the mean, the deviation or the variance of decimals."""
        if name != "sum":
            mean = lambda whole: self._reduce(name, e, operand, whole)  # noqa: E731
            return float_of_decimals(name, values, mean)
        numbers = decimals.whole_numbers(values, values.type.scale)
        if numbers is None:
            raise self.wrong(e, "the decimals exceed 64 bits; cast the column to float64 first")
        whole = self._reduce(name, e, operand, pa.array(numbers, mask=numbers == NULL_INTEGER))
        missing = whole.is_null().to_numpy(zero_copy_only=False)
        return decimals.decimals_of(whole.fill_null(0).to_numpy(), missing, values.type.scale)

    def _second(self, e: ex.Aggregate) -> pa.Array | pa.Scalar | None:
        """Return the second argument: a constant, or the values of rows."""
        if e.by is None:
            return None
        by = self._row_value(e.by, self.row_of_place)
        return by if isinstance(e.by, ex.Literal) else one_chunk(repeat_scalar(by, len(self.row_of_place)))

    def _by_family(self, compute: Callable[..., np.ndarray], dtype: type, *more: np.ndarray) -> np.ndarray:
        """Return as one array what ``compute`` says of rows that arrive, and of rows that leave."""
        # ``compute(*more, start, stop)`` gets the ranges of one of the two kinds, and their part of ``more``.
        out = np.empty(len(self.emitted.start), dtype)
        for family in self._families:
            if family.stop > family.start:
                parts = (*more, self.emitted.start, self.emitted.stop)
                out[family] = compute(*(np.ascontiguousarray(part[family]) for part in parts))
        return out

    def _extreme_places(self, ranks: np.ndarray, present: np.ndarray, is_max: bool) -> np.ndarray:
        return self._by_family(lambda *of: extreme_places(ranks, present, is_max, *of), np.int64)

    def _count(self, present: np.ndarray) -> np.ndarray:
        if present.all():
            return self.emitted.stop - self.emitted.start
        before = sums_before(present)
        return before[self.emitted.stop] - before[self.emitted.start]

    def _distinct(self, values: pa.Array) -> np.ndarray:
        """Return the number of different values in each window."""
        encoded, kernels = as_codes(values), load_kernels(KERNELS)
        codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)

        def compute(start: np.ndarray, stop: np.ndarray) -> np.ndarray:
            out = np.empty(len(start), np.int64)
            n_of_code = np.zeros(max(1, len(encoded.dictionary)), np.int64)
            kernels.distinct_counts(np.ascontiguousarray(codes), start, stop, n_of_code, out)
            return out

        return self._by_family(compute, np.int64)

    def _sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        """Return the sum of each window."""
        if values.dtype.kind == "i":
            return self._integer_sums(values, present, name)
        numbers = numbers_of(values, present)
        total = self._by_family(lambda *of: sums(numbers, *of), np.float64)
        return with_infinities(total, values, present, self._count)

    def _integer_sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        """Return the sum of integers of each window; floats for a mean that needs more than 64 bits."""
        values = np.ascontiguousarray(np.where(present, values, 0))
        start, stop = self.emitted.start, self.emitted.stop
        largest = max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
        if largest * int((stop - start).max(initial=0)) >= 1 << 63:
            numbers = numbers_of(values, present)
            floats = self._by_family(lambda *of: sums(numbers, *of), np.float64)
            if name == "avg":
                return floats
            if (np.abs(floats) >= 2.0**63).any():
                raise CepError("the sum exceeds 2^63; cast the column to float64 first")

        def compute(start: np.ndarray, stop: np.ndarray) -> np.ndarray:
            out = np.empty(len(start), np.int64)
            load_kernels(KERNELS).integer_sums(values, start, stop, out)
            return out

        return self._by_family(compute, np.int64)

    def _variances(self, values: np.ndarray, present: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Return the variance of each window."""
        numbers = numbers_of(values, present)
        variance = self._by_family(lambda *of: variances(numbers, *of), np.float64, count)
        if values.dtype.kind == "f" and (is_infinite := present & np.isinf(values)).any():
            variance[self._count(is_infinite) > 0] = np.nan
        return variance


@lru_cache(maxsize=256)
def _check_types(name: str, of: pa.DataType, by: pa.DataType | pa.Scalar | None) -> None:
    """Raise `TypeError` if an aggregate does not take values of a type."""
    by = pa.array([], by) if isinstance(by, pa.DataType) else by
    reduce_items(name, pa.array([], of), np.zeros(1, np.int64), None, by)


def total_or_mean(name: str, total: np.ndarray, count: np.ndarray, of: pa.DataType) -> pa.Array:
    """Return sums, or means for ``avg``, of ``count`` values of a type each; null for none and for NaN."""
    unknown = count == 0
    if total.dtype.kind == "f":
        unknown |= np.isnan(total)
    mask = unknown if unknown.any() else None  # without a mask in less time
    if name == "avg":
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(total.astype(np.float64) / count, mask=mask)
    arrow_total = pa.array(total, mask=mask)
    return arrow_total.cast(of) if pa.types.is_duration(of) else arrow_total


def with_infinities(
    total: np.ndarray, values: np.ndarray, present: np.ndarray, count: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return sums of finite values, and infinity or NaN where ``count`` counts infinite values."""
    for sign in (1, -1):
        is_infinite = present & (values == sign * np.inf)
        if is_infinite.any():
            with np.errstate(invalid="ignore"):
                total = np.where(count(is_infinite) > 0, total + sign * np.inf, total)
    return total


def _ranks(values: pa.Array, order: tuple[str, ...] | None) -> np.ndarray:
    """Return numbers with the order of the values; a null has any of them."""
    arrow_type = values.type
    if decimals.is_decimal(arrow_type):
        numbers = decimals.whole_numbers(values, max(0, arrow_type.scale))
        if numbers is None:  # of more than 64 bits
            every = values.to_pylist()
            rank_of_value = {value: rank for rank, value in enumerate(sorted(set(every) - {None}))}
            numbers = np.array([rank_of_value.get(value, 0) for value in every], np.int64)
        return numbers
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        if order is not None:
            ranks = pc.index_in(  # type: ignore[attr-defined]
                values, value_set=pa.array(order, arrow_type)
            )
            ranks = ranks.fill_null(0).to_numpy()
        else:
            coded = values.dictionary_encode()
            texts = np.asarray(coded.dictionary.to_pylist(), dtype=object)
            rank_of_code = np.empty(len(texts), np.int64)
            rank_of_code[np.argsort(texts)] = np.arange(len(texts))
            codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
            ranks = rank_of_code[codes] if len(texts) else np.zeros(len(values))
        return np.ascontiguousarray(ranks.astype(np.int64))
    return np.ascontiguousarray(plain_numbers(values))


def _first_of_equals(ranks: np.ndarray, is_max: bool) -> np.ndarray:
    """Return ranks whose order is the same, where the first of equal rows is the extreme one."""
    place = np.arange(len(ranks))
    dense_rank = np.unique(ranks, return_inverse=True)[1]
    return dense_rank * len(ranks) + (-place if is_max else place)


def extreme_places(
    values: np.ndarray, present: np.ndarray, is_max: bool, start: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    """Return the place of the least or largest present value of every range, int64; -1 for none."""
    out, queue = np.empty(len(start), np.int64), np.empty(len(values), np.int64)
    load_kernels(KERNELS).extreme_rows(values, present.astype(np.int64), start, stop, int(is_max), queue, out)
    return out
