"""Values of a batch in the types of a schema: each value fits without loss, or the batch is refused."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.errors import CepError
from cepkit.events import NUMBERS, TIME
from cepkit.frames.arrow import type_of_arrow, without_view
from cepkit.frames.conversion import NOT_FOR_ARROW

_NULL = type(None)
_INTEGERS = pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
_TEXTS = pa.string(), pa.large_string()
_FLOATS = frozenset((float, int, _NULL))
_FLOAT32 = pa.float32().id
_EXACT: dict[int, frozenset[type]] = {
    **{of.id: frozenset((int, _NULL)) for of in _INTEGERS},
    **{of.id: frozenset((str, _NULL)) for of in _TEXTS},
    pa.float64().id: _FLOATS,
    pa.bool_().id: frozenset((bool, _NULL)),
    pa.binary().id: frozenset((bytes, _NULL)),
    pa.date32().id: frozenset((dt.date, _NULL)),
}
"""Types of Python, by id of the Arrow type, whose values Arrow takes without loss, or refuses."""

_TICKS = frozenset((int, _NULL))
_TIMES = frozenset((dt.datetime, pd.Timestamp, _NULL, type(pd.NaT)))
_DURATIONS = frozenset((dt.timedelta, pd.Timedelta, _NULL, type(pd.NaT)))
_PER_UNIT = {"s": (1_000_000, 0), "ms": (1_000, 0), "us": (1, 0), "ns": (1, 1)}
_GREATEST_FLOAT32 = float(np.finfo(np.float32).max)
_MOST_SHOWN = 60


def array_of_values(values: list, wanted: pa.Field) -> pa.Array:
    """Return Python values as an array of the wanted type."""
    if _are_exact(values, wanted.type):
        try:
            return _without_nulls(pa.array(values, type=wanted.type, from_pandas=True), wanted)
        except NOT_FOR_ARROW as error:
            raise _no_fit(values, wanted, error) from None
    try:
        return fit(_inferred(values, wanted.type), wanted)
    except (CepError, *NOT_FOR_ARROW) as error:
        raise _no_fit(values, wanted, error) from None


def array_of_series(series: pd.Series, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return the values of a Series as an array of the wanted type."""
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    try:
        array = pa.array(series, from_pandas=True)
    except NOT_FOR_ARROW as error:
        raise CepError(f"batch: column {wanted.name!r} must be {type_text(wanted)}: {error}") from None
    return fit(array, wanted)


def type_text(wanted: pa.Field) -> str:
    """Return the type of a column as users write it."""
    return f"{wanted.type}{'' if wanted.nullable else ' not null'}"


def fit(array: pa.Array | pa.ChunkedArray, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return the values in the wanted type, or raise `CepError` if a cast is lossy or surprising."""
    if array.type != wanted.type:
        array = _plain(array)
    if array.type != wanted.type:
        own, of = type_of_arrow(array.type), type_of_arrow(wanted.type)
        is_alike = own.kind == of.kind or {own.kind, of.kind} <= set(NUMBERS)
        if own.kind == of.kind == TIME:
            is_alike = (own.timezone is None) == (of.timezone is None)
        if not (is_alike or pa.types.is_null(array.type)):
            raise CepError(
                f"batch: column {wanted.name!r} must be {type_text(wanted)}, it is {array.type}; "
                "cast it, or begin a stream with another schema"
            )
        try:
            cast = array.cast(wanted.type)
            _check_loss(array, cast)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CepError(
                f"batch: column {wanted.name!r} must be {type_text(wanted)}, it is {array.type}: {error}"
            ) from None
        array = cast
    return _without_nulls(array, wanted)


def _without_nulls(array: pa.Array | pa.ChunkedArray, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    if array.null_count and not wanted.nullable:
        raise CepError(
            f"batch: column {wanted.name!r} must be {type_text(wanted)}, it has {array.null_count:,} nulls "
            f"among {len(array):,} values"
        )
    return array


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return an array without encoded runs, views and dictionaries, which Arrow casts to few types."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_plain(part) for part in array.chunks or [pa.array([], array.type)]])
    array = without_view(array)
    return _plain(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array


def _check_loss(array: pa.Array | pa.ChunkedArray, cast: pa.Array | pa.ChunkedArray) -> None:
    """Raise `pa.ArrowInvalid` for a loss that Arrow's safe cast does not see."""
    if cast.type in (pa.float32(), pa.float16()) and not pa.types.is_integer(array.type):
        whole = array.cast(pa.float64())
        if pc.any(pc.and_(pc.is_inf(cast), pc.is_finite(whole))).as_py():
            raise pa.ArrowInvalid(f"a number is beyond the range of {cast.type}")
    elif pa.types.is_timestamp(array.type) and pa.types.is_date(cast.type):
        back = cast.cast(array.type)
        if not pc.all(pc.equal(back, array), min_count=0).as_py():
            raise pa.ArrowInvalid("a date has no time of day")


# --- Python values


def _are_exact(values: list, of: pa.DataType) -> bool:
    """Return whether Arrow takes all the values without loss, or refuses them, as far as their types say."""
    exact = _EXACT.get(of.id)
    if exact is not None:
        return exact.issuperset(map(type, values))
    if of.id == _FLOAT32:
        return _FLOATS.issuperset(map(type, values)) and not any(map(_is_too_great, values))
    if pa.types.is_temporal(of) and _TICKS.issuperset(map(type, values)):
        return True
    if pa.types.is_timestamp(of):
        return _TIMES.issuperset(map(type, values)) and all(map(_fitting_time(of), values))
    if pa.types.is_duration(of):
        return _DURATIONS.issuperset(map(type, values)) and all(map(_fitting_duration(of), values))
    return False


def _is_too_great(value: float | None) -> bool:
    """Return whether a finite number becomes infinite as a 32-bit float."""
    return value is not None and _GREATEST_FLOAT32 < abs(value) < math.inf


def _fitting_time(of: pa.DataType) -> Callable[[Any], bool]:
    micros, nanos = _PER_UNIT[of.unit]

    def fits(value: Any) -> bool:
        if value is None or value is pd.NaT:
            return True
        if (value.tzinfo is None) != (of.tz is None) or value.microsecond % micros:
            return False
        return bool(nanos) or not getattr(value, "nanosecond", 0)

    return fits


def _fitting_duration(of: pa.DataType) -> Callable[[Any], bool]:
    micros, nanos = _PER_UNIT[of.unit]

    def fits(value: Any) -> bool:
        if value is None or value is pd.NaT:
            return True
        return value.microseconds % micros == 0 and (bool(nanos) or not getattr(value, "nanoseconds", 0))

    return fits


def _inferred(values: list, of: pa.DataType) -> pa.Array:
    """Return the values in the type that they have themselves."""
    if all(map(_is_missing, values)):
        return pa.nulls(len(values), of)
    if pa.types.is_timestamp(of) or pa.types.is_date(of) or pa.types.is_duration(of):
        _check_parts(values, of)
    if pa.types.is_struct(of) or pa.types.is_map(of) or pa.types.is_decimal(of):
        return pa.array(
            values, type=of, from_pandas=True
        )  # a text of digits is no decimal, so nothing is lost
    return pa.array(values, from_pandas=True)


def _check_parts(values: Iterable[Any], of: pa.DataType) -> None:
    """Raise `ValueError` for parts of times that Arrow cuts off when it infers a type."""
    is_time = _fitting_time(of) if pa.types.is_timestamp(of) else None
    is_duration = _fitting_duration(of) if pa.types.is_duration(of) else None
    for value in values:
        if is_time is not None and isinstance(value, dt.datetime) and not is_time(value):
            zone = "a" if of.tz is not None else "no"
            raise ValueError(f"times of this column have {zone} time zone, and no part below 1 {of.unit}")
        if is_duration is not None and isinstance(value, dt.timedelta) and not is_duration(value):
            raise ValueError(f"durations of this column have no part below 1 {of.unit}")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _no_fit(values: list, wanted: pa.Field, error: Exception) -> CepError:
    """Return the error for values that do not fit; it names the first such value."""
    if isinstance(error, CepError) and len(values) == 1 and _is_missing(values[0]):
        return error
    for value in values:
        try:
            if _are_exact([value], wanted.type):
                pa.array([value], type=wanted.type, from_pandas=True)
            else:
                fit(_inferred([value], wanted.type), wanted.with_nullable(True))
        except (CepError, *NOT_FOR_ARROW) as own:
            said = "" if isinstance(own, CepError) else f": {own}"
            shown = _shown(value)
            return CepError(
                f"batch: column {wanted.name!r} must be {type_text(wanted)}, and {shown} of type "
                f"{type(value).__name__} does not fit without loss{said}"
            )
    if isinstance(error, CepError):
        return error
    return CepError(f"batch: column {wanted.name!r} must be {type_text(wanted)}: {error}")


def _shown(value: Any) -> str:
    text = repr(value).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
