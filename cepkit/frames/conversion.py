"""pandas Series as Arrow arrays, and one error for the values that Arrow cannot hold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.vectors import one_chunk
from cepkit.errors import CepError

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
        of, cast = f"category of {dtype.categories.dtype}", "astype(str)"
    elif isinstance(dtype, np.dtype) and dtype.kind == "c":
        of, cast = str(dtype), "map(abs), or its real part"
    else:
        of, cast = str(dtype), "astype(str)"
    found = _first_refused(series)
    value = "" if found is None else f", and holds {_shown(found)} of type {type(found).__name__}"
    return (
        f"column {name!r} is of type {of}{value}; Arrow cannot hold such values ({error}). "
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
