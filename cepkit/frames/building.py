"""Columns of a frame to `Events`: partition codes, stream order, and their checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.measures.reducing import prepared_columns
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
from cepkit.frames.reuse import Keeper, equals_by_step, reuse
from cepkit.language.expressions.functions import VECTOR_FUNCTIONS
from cepkit.planning.clocks import order_advice
from cepkit.planning.plans import check_columns
from cepkit.progress import checkpoint


def build_events(source: Source, program: BoundQuery) -> Events:
    """Return the events of a frame as ``program`` needs them."""
    query = program.query
    check_columns(source, "partition_by", query.partition_by)
    check_columns(source, "order_by", query.order_by)
    check_columns(source, "predicates", tuple(n for n in program.columns if n not in program.derived))
    order, is_tied, n_tied = _order_and_ties(source, query.order_by)
    owner, by = source.owner, (query.partition_by, query.order_by)
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
        [partition] = reuse(owner, ("partitions", by), [partition, order], lambda copies: (partition[order],))

    keep = Keeper(owner, by)
    return Events(source.n_rows, columns, partition, n_partitions, order, is_tied, n_tied, keep)


def stream_order(source: Source, order_by: tuple[str, ...]) -> np.ndarray | None:
    """Return the frame's row numbers in stream order, or None when the rows are already in this order.

    Rows that are equal in all order columns keep the frame's order.

    """
    return _order_and_ties(source, order_by)[0]


def _order_and_ties(source: Source, order_by: tuple[str, ...]) -> tuple[np.ndarray | None, ...]:
    """Return the stream order, and whether each event but the last is equal to the next one in all keys.

    Both are None if the rows are in order. Then the third array has the numbers of equal ones by step.

    """
    keys = [_order_key(source, name) for name in order_by]
    if not keys or source.n_rows < 2:
        return None, None, None
    n_equal_of_column = source.column(order_by[0]).n_equal if len(keys) == 1 else None
    if (n_equal := equals_by_step(*keys) if n_equal_of_column is None else n_equal_of_column) is not None:
        return None, None, n_equal
    order, is_tied = reuse(source.owner, ("order", *order_by), keys, _sort_rows)
    return order, is_tied, None


def _sort_rows(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    is_tied = np.ones(len(order) - 1, bool)
    for key in keys:
        ascending = key[order]
        is_tied &= ascending[1:] == ascending[:-1]
    return order, is_tied


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
        what = ("one partition", source.n_rows)
        [zeros] = reuse(source.owner, what, [], lambda copies: (np.zeros(source.n_rows, np.int32),))
        return zeros, min(1, source.n_rows)
    codes, n_codes = _codes(source, partition_by[0])
    for name in partition_by[1:]:
        other, n_other = _codes(source, name)
        codes, n_codes = _codes_of_values(codes.astype(np.int64) * n_other + other)
    if n_codes >= 2**31:
        raise CepError(f"{n_codes:,} partitions are more than 2^31")
    return np.ascontiguousarray(codes, dtype=np.int32), n_codes


def _codes(source: Source, name: str) -> tuple[np.ndarray, int]:
    column = source.column(name)
    values = column.values

    def code(copies: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        if column.type.kind == TEXT:
            codes, n_codes = _codes_of_texts(copies[0], len(column.texts))
        else:
            codes, n_codes = _codes_of_values(copies[0])
        dtype = np.int32 if n_codes < 2**31 else np.int64
        return np.ascontiguousarray(codes, dtype=dtype), np.array([n_codes])

    try:
        owner = None if values.dtype == object else source.owner  # an object may have changed itself
        codes, n_codes = reuse(owner, ("codes", name), [values], code)
    except TypeError:
        raise CepError(
            f"partition_by: column {name!r} is of type {column.type}, "
            f"whose values cannot be keys{_instead(column.type.kind)}"
        ) from None
    return codes, int(n_codes[0])


def _codes_of_texts(codes: np.ndarray, n_texts: int) -> tuple[np.ndarray, int]:
    """Return the codes of texts with one more for null, and the number of codes; some may not occur."""
    is_null = codes < 0
    return (np.where(is_null, n_texts, codes), n_texts + 1) if is_null.any() else (codes, n_texts)


def _codes_of_values(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a code for each value, and the number of codes; every code occurs."""
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
    codes, distinct = pd.factorize(values, use_na_sentinel=False)
    return codes, len(distinct)


def _instead(kind: str) -> str:
    whole = ", ".join(f"{function}(a.x, b.x)" for function in VECTOR_FUNCTIONS)
    return f"; use array columns in {whole}, or take an item, as in x[0]" if kind == LIST else ""
