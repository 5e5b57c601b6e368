"""pandas Series as Arrow arrays, and errors for texts and values that Arrow cannot hold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.reducing import one_chunk
from cepkit.errors import CepError

# pandas Series as Arrow arrays, and one error for the values that Arrow cannot hold.

NOT_FOR_ARROW = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
    TypeError,
    ValueError,
)
"""What Arrow raises for values that it cannot hold; some objects fail in Python's own conversions."""


def arrow_of_series(series: pd.Series, name: str, of: pa.DataType | None = None) -> pa.Array:
    """Return the values of a column of pandas as one Arrow array.

    Sparse values become dense, and long doubles become doubles. Times of a zone that Arrow does not know
    become times in UTC.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    elif dtype == np.longdouble:
        series = series.astype(np.float64)
    elif isinstance(dtype, pd.DatetimeTZDtype) and zone_of(dtype) is None:
        series = series.dt.tz_convert("UTC")
    try:
        return one_chunk(pa.array(series, type=of, from_pandas=True))
    except NOT_FOR_ARROW as error:
        raise CepError(no_array(series, name, error)) from None


@lru_cache(maxsize=64)
def zone_of(dtype: pd.DatetimeTZDtype) -> str | None:
    """Return Arrow's name of a time zone; None if Arrow cannot name it."""
    try:
        return pa.array(pd.Series([], dtype=dtype)).type.tz
    except NOT_FOR_ARROW:
        return None


def no_array(series: pd.Series, name: str, error: Exception) -> str:
    """Return the error message for a column that Arrow cannot hold, with a value that it refuses."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        type_name, cast = f"category of {dtype.categories.dtype}", "astype(str)"
    elif isinstance(dtype, np.dtype) and dtype.kind == "c":
        type_name, cast = str(dtype), "map(abs), or its real part"
    else:
        type_name, cast = str(dtype), "astype(str)"
    refused_value = _first_refused(series)
    value = (
        ""
        if refused_value is None
        else f", and holds {_shown(refused_value)} of type {type(refused_value).__name__}"
    )
    return (
        f"column {name!r} is of type {type_name}{value}; Arrow cannot hold such values ({error}). "
        f"Cast the column first: df[{name!r}].{cast}"
    )


def _first_refused(series: pd.Series) -> object | None:
    if series.dtype != object:
        return None
    for value in series:
        try:
            pa.array([value], from_pandas=True)
        except NOT_FOR_ARROW:
            return value
    return None


def _shown(value: object) -> str:
    text = repr(value).encode("ascii", "backslashreplace").decode().replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:59]}…"


# Find texts that are not valid UTF-8. Arrow takes them from files and buffers without a check.

_SHOWN = 40  # bytes of a text in an error


def invalid_text(array: pa.Array | pa.ChunkedArray, name: str, first_row: int = 0) -> CepError:
    """Return the error for an array with a text that is not valid UTF-8. It names the first such row.

    Time O(rows), so call it only after such a text was met. ``first_row`` is the number of the first row.

    """
    place, row = "", _first_invalid(array)
    if row is not None:
        place = f" in row {first_row + row:,}"
        if not _is_nested(array.type):
            place += f": {_as_bytes(array.slice(row, 1))[0].as_py()[:_SHOWN]!r}"
    return CepError(
        f"column {name!r} has a text that is not valid UTF-8{place}. Read the file with its own encoding, or "
        "make the column binary"
    )


def are_texts_valid(array: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all texts of an array are valid UTF-8. A million texts take about 10 ms."""
    if _has_texts(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return False
    return True


def check_texts_of_table(table: pa.Table, first_row: int = 0) -> None:
    """Raise `CepError` when a text in a table is not valid UTF-8; ``first_row`` as in `invalid_text`."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if not are_texts_valid(column):
            raise invalid_text(column, name, first_row)


def check_texts_of_frame(frame: pd.DataFrame) -> None:
    """Raise `CepError` when a text in a pandas frame, or in its index, is not valid UTF-8."""
    levels = [
        (name, frame.index.get_level_values(i))
        for i, name in enumerate(frame.index.names)
        if not isinstance(frame.index, pd.RangeIndex)
    ]
    for name, values in [*((name, frame.iloc[:, i]) for i, name in enumerate(frame.columns)), *levels]:
        dtype = values.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            dtype = dtype.categories.dtype
        if isinstance(dtype, pd.ArrowDtype) or (
            isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"
        ):
            array = pa.array(values, from_pandas=True)
            if not are_texts_valid(array):
                raise invalid_text(array, str(name))


def _has_texts(of: pa.DataType) -> bool:
    if pa.types.is_dictionary(of):
        return _has_texts(of.value_type)
    if pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of):
        return True
    return any(_has_texts(of.field(i).type) for i in range(of.num_fields))


def _first_invalid(array: pa.Array | pa.ChunkedArray) -> int | None:
    """Return the first row with a text that is not valid, or None if Python reads all of them."""
    for row, value in enumerate(array):
        try:
            value.as_py()
        except UnicodeDecodeError:
            return row
    return None


def _is_nested(of: pa.DataType) -> bool:
    return bool(of.value_type.num_fields if pa.types.is_dictionary(of) else of.num_fields)


def _as_bytes(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(array.type):
        array = (
            array.dictionary_decode() if isinstance(array, pa.Array) else array.cast(array.type.value_type)
        )
    return array.cast(pa.binary_view() if pa.types.is_string_view(array.type) else pa.large_binary())
