"""Reductions of the values of every match to one value: counts, sums, means, extremes, lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def reduce_items(
    function: str, values: pa.Array, first_item: np.ndarray, order: tuple[str, ...] | None
) -> pa.Array:
    """Reduce the items of every match to one value. Nulls do not count; nulls alone give null."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if function == "collect":
        small = first_item[-1] < 2**31
        of = pa.ListArray if small else pa.LargeListArray
        return of.from_arrays(pa.array(first_item, pa.int32() if small else pa.int64()), values)
    starts = first_item[:-1]
    present = values.is_valid().to_numpy(zero_copy_only=False)
    counts = _segments(np.add, present.astype(np.int64), starts)
    if function == "count":
        return pa.array(counts)
    kind = values.type
    _check(function, kind)
    none = counts == 0
    if _is_text(kind):
        texts, codes = _codes(values, order)
        best = _extreme(function, codes, present, starts)
        return pa.array(np.append(texts, None)[np.where(none, len(texts), best)], kind)
    numbers = _numbers(values)
    if function in ("min", "max"):
        best = pa.array(_extreme(function, numbers, present, starts), mask=none)
        return best if _is_number(kind) else best.cast(_stored(kind)).cast(kind)
    if function == "avg":
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(_total(numbers, starts) / counts, mask=none)
    total = _segments(np.add, numbers, starts)
    result = pa.array(total, mask=none)
    return result.cast(kind) if pa.types.is_duration(kind) else result


def _check(function: str, kind: pa.DataType) -> None:
    if pa.types.is_boolean(kind) or pa.types.is_nested(kind):
        raise TypeError(f"{function}() is not defined for {in_words(kind)}")
    is_ordered = _is_text(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
    if _is_number(kind) or (function in ("min", "max") and is_ordered):
        return
    if function == "sum" and pa.types.is_duration(kind):
        return
    raise TypeError(f"{function}() needs numbers, not {in_words(kind)}")


def in_words(kind: pa.DataType) -> str:
    """Return what values of a type are called in errors. All frames have the same words, unlike types."""
    if _is_text(kind) or pa.types.is_string_view(kind):
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


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the integers that times, dates and durations are stored as."""
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def _numbers(values: pa.Array) -> np.ndarray:
    """Return numbers, times, dates or durations as float64 or int64, with 0 for null."""
    if pa.types.is_floating(values.type):
        return values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    if not pa.types.is_integer(values.type):
        values = values.cast(_stored(values.type))
    return values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _codes(values: pa.Array, order: tuple[str, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted texts and the index of each value among them; a null has any index."""
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
    return operation.reduceat(values, starts) if len(starts) else values[:0]
