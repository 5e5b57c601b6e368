"""Columns of a frame to `Events`: partition codes, stream order, and their checks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.measures.vectors import prepared_columns
from cepkit.errors import CepError, OrderError
from cepkit.events import (
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    NULL_INTEGER,
    TEXT,
    TIME,
    Events,
    Source,
    shared_categories,
)
from cepkit.language.expressions.functions import VECTOR_FUNCTIONS
from cepkit.planning.clocks import order_advice
from cepkit.planning.validation import check_columns
from cepkit.progress import checkpoint


def build_events(source: Source, program: BoundQuery) -> Events:
    """Return the events of a frame as ``program`` needs them.

    Raises
    ------
    ColumnNotFoundError
        When a partition or order column is missing.
    OrderError
        When an order column has missing values (the message gives their number) or values without an order.
    CepError
        When compared arrays differ in length.
    """
    query = program.query
    check_columns(source, "partition_by", query.partition_by)
    check_columns(source, "order_by", query.order_by)
    check_columns(source, "predicates", tuple(n for n in program.columns if n not in program.derived))
    order = stream_order(source, query.order_by)
    columns, prepared = {}, prepared_columns(program, source.vectors)
    for name in program.columns_to_read:
        checkpoint()
        derived = program.derived.get(name)
        if name in prepared:
            column = prepared[name]
        else:
            column = source.item(derived.column, derived.index) if derived else source.column(name)
        columns[name] = column if order is None else column.take(order)
    checkpoint()
    partition, n_partitions = partition_codes(source, query.partition_by)
    if order is not None:
        partition = partition[order]
    return Events(source.n_rows, columns, partition, n_partitions, order)


def stream_order(source: Source, order_by: tuple[str, ...]) -> np.ndarray | None:
    """Return the frame's row numbers in stream order, or None when the rows are already in this order.

    Rows that are equal in all order columns keep the frame's order.
    """
    keys = [_order_key(source, name) for name in order_by]
    if not keys or source.n_rows < 2:
        return None
    if len(keys) == 1:
        key = keys[0]
        return None if bool((key[1:] >= key[:-1]).all()) else np.argsort(key, kind="stable")
    order = np.lexsort(keys[::-1])
    return None if bool((order[1:] > order[:-1]).all()) else order


def _order_key(source: Source, name: str) -> np.ndarray:
    column = source.column(name)
    kind = column.type.kind
    if kind not in (INTEGER, FLOAT, TIME, DURATION, TEXT):
        raise OrderError(
            f"order_by: column {name!r} is of type {column.type}, which has no order{_instead(kind)}"
            f"{order_advice(source, name)}"
        )
    if kind == TEXT:
        column = shared_categories([column], True)[0]
    values = column.values
    if kind == FLOAT:
        missing = np.isnan(values)
    elif column.type.nullable:
        missing = values < 0 if kind == TEXT else values == NULL_INTEGER
    else:
        return values
    if n_missing := int(missing.sum()):
        raise OrderError(
            f"order_by: column {name!r} has {n_missing:,} missing values of {len(values):,}; "
            "an event without a time has no place in the order; drop these rows or fill them"
        )
    return values


def partition_codes(source: Source, partition_by: tuple[str, ...]) -> tuple[np.ndarray, int]:
    """Return the partition code of every row, int32, and the number of codes; null is one partition."""
    if not partition_by or source.n_rows == 0:
        return np.zeros(source.n_rows, np.int32), min(1, source.n_rows)
    codes, n_codes = _codes(source, partition_by[0])
    for name in partition_by[1:]:
        other, n_other = _codes(source, name)
        pair, pairs = pd.factorize(codes.astype(np.int64) * n_other + other)
        codes, n_codes = pair, len(pairs)
    if n_codes >= 2**31:
        raise CepError(f"{n_codes:,} partitions are more than 2^31")
    return np.ascontiguousarray(codes, dtype=np.int32), n_codes


def _codes(source: Source, name: str) -> tuple[np.ndarray, int]:
    column = source.column(name)
    values = column.values
    if column.type.kind == TEXT:
        n = len(column.categories)
        if column.type.nullable and (values < 0).any():
            return np.where(values < 0, n, values), n + 1
        return values, n
    if values.dtype.kind in "iu" and len(values):
        least, greatest = int(values.min()), int(values.max())
        span = greatest - least + 1
        if span <= max(1024, 2 * len(values)) and span < 2**31:
            used = np.zeros(span, bool)
            # A wider type first: -100 to 100 fits into int8, but 0 to 200 does not.
            wide = np.promote_types(values.dtype, np.min_scalar_type(span))
            shifted = values if least == 0 else np.subtract(values, least, dtype=wide)
            used[shifted] = True
            if used.all():
                return shifted, span
            number = np.cumsum(used) - 1
            return number[shifted], int(number[-1]) + 1
    try:
        codes, found = pd.factorize(values, use_na_sentinel=False)
    except TypeError:
        raise CepError(
            f"partition_by: column {name!r} is of type {column.type}, "
            f"whose values cannot be keys{_instead(column.type.kind)}"
        ) from None
    return codes, len(found)


def _instead(kind: str) -> str:
    whole = ", ".join(f"{function}(a.x, b.x)" for function in VECTOR_FUNCTIONS)
    return f"; use array columns in {whole}, or take an item, as in x[0]" if kind == LIST else ""
