"""The partitions of a frame in SQL's order: descending keys, and nulls first or last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cepkit.errors import OrderError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    NULL_INTEGER,
    TEXT,
    TIME,
    Column,
    Source,
    shared_categories,
)
from cepkit.frames.building import partition_codes
from cepkit.language.match_recognize.query import SortKey


def partitions_in_order(
    source: Source, partition_by: Sequence[str], order_by: Sequence[SortKey]
) -> list[np.ndarray]:
    """Return the row numbers of each partition in order. Partitions are in the order of their first rows.

    Rows that are equal in all keys keep the frame's order.
    """
    codes, n_codes = partition_codes(source, tuple(partition_by))
    if source.n_rows == 0:
        return []
    clock = [SortKey(source.clock)] if source.clock is not None else []
    ranks = [_ranks(source.column(key.column), key) for key in (order_by or clock)]
    order = np.lexsort([*reversed(ranks), codes])
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return sorted(parts, key=lambda rows: int(rows.min())) if n_codes > 1 else parts


def rows_in_order(source: Source, order_by: Sequence[SortKey]) -> np.ndarray | None:
    """Return the row numbers of all partitions together in order; None if the frame is in this order."""
    ranks = [_ranks(source.column(key.column), key) for key in order_by]
    if not ranks:
        return None
    order = np.lexsort(ranks[::-1])
    return None if bool((order[1:] > order[:-1]).all()) else order


def _ranks(column: Column, key: SortKey) -> np.ndarray:
    """Return numbers that sort as the key says; equal values have equal numbers."""
    kind = column.type.kind
    if kind not in (INTEGER, FLOAT, BOOLEAN, TIME, DURATION, TEXT):
        raise OrderError(f"ORDER BY: column {key.column!r} is of type {column.type}, which has no order")
    if kind == TEXT:
        column = shared_categories([column], True)[0]
    missing = nulls(column)
    values, ranks = np.unique(column.values, return_inverse=True)
    ranks = -ranks if key.descending else ranks
    ranks = ranks.astype(np.int64)
    ranks[missing] = -len(values) - 1 if key.nulls_first else len(values) + 1
    return ranks


def nulls(column: Column) -> np.ndarray:
    """Return whether each value is missing."""
    kind, values = column.type.kind, column.values
    if kind == FLOAT:
        return np.isnan(values)
    if kind in (TEXT, BOOLEAN):
        return values < 0
    if kind in (INTEGER, TIME, DURATION):
        small = values.dtype != np.int64
        return np.zeros(len(values), bool) if small else values == NULL_INTEGER
    return np.array([value is None or value is pd.NA or value != value for value in values], bool)


def plain_values(column: Column) -> np.ndarray:
    """Return the values as Python objects, times as ticks; None is null."""
    missing, values = nulls(column), column.values
    if column.type.kind == TEXT:
        plain = np.array([*column.texts, None], dtype=object)[values]
    elif column.type.kind == BOOLEAN:
        plain = (values == 1).astype(object)
    elif column.type.kind == LIST or values.ndim != 1:
        plain = np.empty(len(values), object)
        plain[:] = list(values)
    else:
        plain = values.astype(object)
    plain[missing] = None
    return plain
