"""The partitions of a frame in SQL's order: descending keys, and nulls first or last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.vectors import least_of
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.match_recognize.bound import BoundRowQuery, SearchedRows
from cepkit.engines.match_recognize.found_rows import FEWEST_ROWS, FINDING, Place, RowOrder
from cepkit.errors import OrderError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_INTEGER,
    TEXT,
    TIME,
    Column,
    Events,
    Source,
    plain_values,
    shared_categories,
    sums_before,
)
from cepkit.frames.building import key_column, partition_codes
from cepkit.frames.reuse import equals_by_step, reuse
from cepkit.language.match_recognize.query import SortKey
from cepkit.progress import checkpoint


def order_of_rows(source: Source, partition_by: Sequence[str], order_by: Sequence[SortKey]) -> RowOrder:
    """Return the rows, partition by partition. Partitions are in the order of their first rows."""
    # Rows that are equal in all keys keep the frame's order. The order is kept for the next call on the
    # frame.
    codes, n_codes = partition_codes(source, tuple(partition_by))
    clock = [SortKey(source.clock)] if source.clock is not None else []
    keys = list(order_by or clock)
    read = [key_column(source, key.column) for key in keys]
    columns = [_key_values(column, key) for column, key in zip(read, keys, strict=True)]
    if source.n_rows == 0:
        return RowOrder(None, np.zeros(1, np.int64))
    if _is_sorted(columns, keys, read[0].is_rising if len(read) == 1 else None):
        keys, columns = [], []

    is_known = True

    def sort(values: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        nonlocal is_known
        is_known = False
        codes, *columns = values
        return _sorted(codes, n_codes, list(map(_ranks, columns, keys)))

    what = ("rows of SQL", tuple(partition_by), tuple(keys))
    order, *places = reuse(source.owner, what, [codes, *columns], sort)
    first_place_of_partition, first_place_of_code = places
    if not len(order):
        return RowOrder(None, first_place_of_partition, is_known=is_known)
    if keys or source.n_rows < FEWEST_ROWS:
        return RowOrder(order, first_place_of_partition, is_known=is_known)
    return RowOrder(order, first_place_of_partition, codes, first_place_of_code, is_known)


def placing(source: Source, order: RowOrder) -> Place | None:
    """Return what places columns of a frame in an order that is known, and keeps them for the next call."""
    # The first call on a frame keeps no columns, since a copy takes as long as placing. It returns None.
    if not order.is_known or order.row_of_place is None:
        return None

    def place(name: str, values: np.ndarray, before: int, after: int) -> tuple[np.ndarray, Any]:
        def with_room(copies: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
            whole = order.with_room(copies[0], before, after)
            return whole, np.array([least_of(whole)])

        what = ("placed", name, before, after)
        whole, [least] = reuse(source.owner, what, [values, order.row_of_place], with_room)
        return whole, least

    return place


def rows_in_order(source: Source, order_by: Sequence[SortKey]) -> np.ndarray | None:
    """Return the row numbers of all partitions together in order; None if the frame is in this order."""
    ranks = [_ranks(_key_values(key_column(source, key.column), key), key) for key in order_by]
    if not ranks:
        return None
    order = np.lexsort(ranks[::-1])
    return None if bool((order[1:] > order[:-1]).all()) else order


def _sorted(codes: np.ndarray, n_codes: int, ranks: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the rows by partition, and the first places of partitions and of codes."""
    # The partitions come in the order of their first rows. No rows mean the frame's order.
    n_rows = len(codes)
    if n_codes == 1:
        order = np.lexsort(ranks[::-1]) if ranks else np.empty(0, np.int64)
        return order, np.array([0, n_rows], np.int64), np.zeros(1, np.int64)
    sizes, first_row = np.zeros(n_codes, np.int64), np.full(n_codes, n_rows, np.int64)
    if n_rows < FEWEST_ROWS:  # numpy is done before the kernels are loaded
        sizes += np.bincount(codes, minlength=n_codes)
        first_row[codes[::-1]] = np.arange(n_rows - 1, -1, -1)  # the last write wins
    else:
        load_kernels(FINDING).count_by_partition(codes, sizes, first_row)
    codes_in_order = np.argsort(first_row, kind="stable")[: np.count_nonzero(sizes)]
    first_place = sums_before(sizes[codes_in_order])
    place_of_code = np.zeros(n_codes, np.int64)
    place_of_code[codes_in_order] = first_place[:-1]
    n_equal_neighbours = int((codes[1:] == codes[:-1]).sum())
    if not ranks and n_equal_neighbours == n_rows - len(codes_in_order):  # each partition is one piece
        return np.empty(0, np.int64), first_place, place_of_code
    rows = np.lexsort(ranks[::-1]) if ranks else None  # numpy sorts by the last rank first
    codes = codes if rows is None else codes[rows]
    if n_rows < FEWEST_ROWS:
        order = np.argsort(place_of_code[codes], kind="stable")
    else:
        # Small numbers take half of the memory, and gathering rows takes half of the time.
        order = np.empty(n_rows, np.int32 if n_rows < 2**31 else np.int64)
        load_kernels(FINDING).sort_by_partition(codes, place_of_code.copy(), order)
    return order if rows is None else rows[order], first_place, place_of_code


def _key_values(column: Column, key: SortKey) -> np.ndarray:
    """Return numbers in the order of the column's values; NaN or ``NULL_INTEGER`` is null."""
    kind, values = column.type.kind, column.values
    if kind not in (INTEGER, FLOAT, BOOLEAN, TIME, DURATION, TEXT):
        raise OrderError(f"ORDER BY: column {key.column!r} is of type {column.type}, which has no order")
    if kind == TEXT:
        values = shared_categories([column], True)[0].values
    if kind in (TEXT, BOOLEAN):
        return np.where(values < 0, NULL_INTEGER, values.astype(np.int64))
    if kind != FLOAT and not column.type.nullable and values.min(initial=0) == NULL_INTEGER:
        return np.unique(values, return_inverse=True)[1]  # the least integer is a value here
    return values


def _is_null(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return values == NULL_INTEGER if values.dtype == np.int64 else np.zeros(len(values), bool)


def _is_sorted(columns: Sequence[np.ndarray], keys: Sequence[SortKey], known: bool | None) -> bool:
    """Return whether the rows are in the order of their keys already, as far as that is quick to see."""
    # ``known`` says whether the values of a single key rise, if that is known.
    if not columns:
        return True
    [values, *others], [key, *_] = columns, keys
    if key.descending or _is_null(values[:1]).any():
        return False
    if known is None or others:
        n_equal = equals_by_step(values)
        return n_equal is not None and not (others and n_equal.any())
    return known


def _ranks(values: np.ndarray, key: SortKey) -> np.ndarray:
    """Return numbers that sort as the key says; equal values have equal numbers."""
    missing = _is_null(values)
    if not key.descending and not missing.any():
        return values
    distinct, ranks = np.unique(values, return_inverse=True)
    ranks = (-ranks if key.descending else ranks).astype(np.int64)
    ranks[missing] = -len(distinct) - 1 if key.nulls_first else len(distinct) + 1
    return ranks


def plain_columns(source: Source) -> Callable[[str], np.ndarray]:
    """Return a function that gives columns by name as `plain_values`. It converts each column once."""
    plain_by_name: dict[str, np.ndarray] = {}

    def plain_column(name: str) -> np.ndarray:
        if name not in plain_by_name:
            plain_by_name[name] = plain_of(source, name)
        return plain_by_name[name]

    return plain_column


def plain_of(source: Source, name: str) -> np.ndarray:
    """Return a column as `plain_values`, and decimals as objects of Python."""
    if source.schema[name].scale is None:
        return plain_values(source.column(name))
    decimals = source.arrow(name, np.arange(source.n_rows))
    return np.array([*decimals.to_pylist(), None], object)[:-1]


# A frame as the rows that a query of MATCH_RECOGNIZE searches.


def searched_rows(source: Source, bound: BoundRowQuery) -> SearchedRows:
    """Return the rows of a frame in the order of the query, with the columns that it reads."""
    query = bound.query
    order = rows_in_order(source, query.keys)
    checkpoint()
    partition, n_partitions = partition_codes(source, query.partition_by)
    columns = {name: source.column(name) for name in bound.columns}
    values = {name: plain_of(source, name) for name in columns}
    if order is not None:
        partition = partition[order]
        columns = {name: column.take(order) for name, column in columns.items()}
        values = {name: column[order] for name, column in values.items()}
    events = Events(source.n_rows, columns, partition, n_partitions, order)
    return SearchedRows(bound, events, values)
