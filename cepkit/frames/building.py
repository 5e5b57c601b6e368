"""Columns of a frame to `Events`: partition codes, stream order, and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import is_bool_dtype

from cepkit.compile.interpreted_columns import column_before_matching, moved_rows
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.decimals import digits_of, with_scale
from cepkit.compile.shared.terms import Exact, Later
from cepkit.engines.reducing import prepared_columns
from cepkit.errors import CepError, OrderError, PredicateError
from cepkit.events import (
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    NULL_INTEGER,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Events,
    Frame,
    Source,
    shared_categories,
)
from cepkit.frames.reuse import Keeper, equals_by_step, reuse
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import VECTOR_FUNCTIONS
from cepkit.language.regex import ARGUMENT_PREFIXES, Mask
from cepkit.planning.clocks import order_advice
from cepkit.planning.plans import check_columns
from cepkit.progress import checkpoint

_MOST_IN_FLOATS = 2**53  # floats tell all integers below apart


def build_events(source: Source, program: BoundQuery, *, is_ordered: bool = False) -> Events:
    """Return the events of a frame as ``program`` needs them; ``is_ordered`` says that rows are in order."""
    query = program.query
    check_columns(source, "partition_by", query.partition_by)
    check_columns(source, "order_by", query.order_by)
    check_columns(source, "predicates", tuple(program.columns_of_frame(program.columns)))
    order, is_tied, n_tied = _order_and_ties(source, () if is_ordered else query.order_by)
    owner, by = source.owner, (query.partition_by, query.order_by)
    columns: dict[str, Column] = {}
    computed: dict[str, Column] = {}
    prepared = prepared_columns(program, source.vectors)
    for name in program.columns_to_read:
        checkpoint()
        later = program.derived.get(name)
        # A column of later rows begins as the column itself. Its rows move below, when their order is known.
        read_name = later.column if isinstance(later, Later) else name
        derived = program.derived.get(read_name)
        if isinstance(derived, Exact):
            column = source.decimals(derived.column)
        elif read_name in prepared:
            column = prepared[read_name]
        else:
            column = column_before_matching(read_name, program.derived, source, computed)
        columns[name] = column if order is None else column.take(order)
    columns = with_scale(columns, digits_of(program.constants))
    checkpoint()
    partition, n_partitions = partition_codes(source, query.partition_by)
    if order is not None:
        [partition] = reuse(owner, ("partitions", by), [partition, order], lambda copies: (partition[order],))

    if (clock := getattr(program, "clock_of_waits", None)) in columns:
        until = program.complete_until
        if until is None and source.n_rows:
            until = columns[clock].values[-1].item()
        columns[clock] = replace(columns[clock], complete_until=until)
    keep = Keeper(owner, by)
    events = Events(source.n_rows, columns, partition, n_partitions, order, is_tied, n_tied, keep)
    for name, later in program.derived.items():
        if isinstance(later, Later) and name in columns:
            columns[name] = moved_rows(columns[name], partition, events.by_partition, later.offset)
    return events


def stream_order(source: Source, order_by: tuple[str, ...]) -> np.ndarray | None:
    """Return the frame's row numbers in stream order, or None when the rows are already in this order."""
    # Rows that are equal in all order columns keep the frame's order.
    return _order_and_ties(source, order_by)[0]


def _order_and_ties(source: Source, order_by: tuple[str, ...]) -> tuple[np.ndarray | None, ...]:
    """Return the stream order, and whether each event but the last is equal to the next one in all keys."""
    # Both are None if the rows are in order. Then the third array has the numbers of equal ones by step.
    keys = [_order_key(source, name) for name in order_by]
    if not keys or source.n_rows < 2:
        return None, None, None
    n_equal = key_column(source, order_by[0]).n_equal if len(keys) == 1 else None
    if n_equal is None:
        n_equal = equals_by_step(*keys)
    if n_equal is not None:
        return None, None, n_equal
    order, is_tied = reuse(source.owner, ("order", *order_by), keys, _sort_rows)
    return order, is_tied, None


def _sort_rows(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of rows by several keys, and which neighbours in it have equal keys."""
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    is_tied = np.ones(len(order) - 1, bool)
    for key in keys:
        ascending = key[order]
        is_tied &= ascending[1:] == ascending[:-1]  # a row and the next one
    return order, is_tied


def _order_key(source: Source, name: str) -> np.ndarray:
    """Return the values by which rows are ordered. Raise for a type without an order, and for nulls."""
    column = key_column(source, name)
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


def key_column(source: Source, name: str) -> Column:
    """Return a column to compare as a whole: decimals that floats do not tell apart as their ranks."""
    column, scale = source.column(name), source.schema[name].scale
    if scale is None or np.fmax.reduce(np.abs(column.values), initial=0) * 10.0**scale < _MOST_IN_FLOATS:
        return column
    encoded = source.arrow(name, np.arange(source.n_rows)).dictionary_encode()
    ranks = np.full(len(encoded.dictionary) + 1, NULL_INTEGER)  # the last one is of null
    ranks[pc.sort_indices(encoded.dictionary)] = np.arange(len(encoded.dictionary))
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1)  # the indices of a dictionary may be unsigned
    return Column(ColumnType(INTEGER, nullable=True), ranks[codes.to_numpy()])


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
    """Return a code from 0 for each row, the same for equal values, and the number of codes."""
    column = key_column(source, name)
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


# Conditions that are known for each row: truth values, and functions of the whole frame.


def with_masks(define: Mapping[str, Any], frame: Frame, source: Callable[[], Source]) -> dict[str, Any]:
    """Return the conditions with truth values of the rows in place of arrays and functions of the frame."""
    # ``source`` returns the frame as a source of columns.
    read = dict(define)
    for name, value in define.items():
        role = f"predicate {name!r}"
        if callable(value):
            if not _takes_the_frame(value, source()):
                continue
            try:
                value = value(frame)
            except Exception as error:
                kind = type(error).__name__
                raise PredicateError(
                    f"{role}: the function of the frame failed with {kind}: {error}. Its argument is no "
                    "column, so it gets the frame, and returns a truth value for each row"
                ) from error
        elif isinstance(value, str | ex.Expression) or not hasattr(value, "__len__"):
            continue
        read[name] = Mask(_truths(value, frame, source().n_rows, role))
    return read


def _takes_the_frame(function: Callable, source: Source) -> bool:
    """Return whether a function has one argument, and it names no column."""
    try:
        parameters = list(inspect.signature(getattr(function, "py_func", function)).parameters.values())
    except (TypeError, ValueError):
        return False
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):  # fmt: skip
        return False
    name = parameters[0].name
    names = [name, *(name.removeprefix(prefix) for prefix in ARGUMENT_PREFIXES)]
    return not any(column in source.schema for column in names)


def _truths(value: Any, frame: Frame, n_rows: int, role: str) -> np.ndarray:
    """Return the truth value of each row, bool, (n_rows,). A missing value is not true."""
    is_labelled = isinstance(value, pd.Series) and isinstance(frame, pd.DataFrame) and len(value) == n_rows
    if is_labelled and not value.index.equals(frame.index):
        if not (value.index.is_unique and value.index.sort_values().equals(frame.index.sort_values())):
            raise PredicateError(f"{role}: the index of the Series is not that of the frame")
        value = value.reindex(frame.index)
    whole = value.to_pandas() if hasattr(value, "to_pandas") else value
    if isinstance(whole, str | Mapping | None) or np.ndim(whole) != 1:
        raise PredicateError(f"{role}: expected a truth value for each row, got {type(value).__name__}")
    series = pd.Series(whole)
    if len(series) != n_rows:
        raise CepError(f"{role}: {len(series):,} truth values for a frame of {n_rows:,} rows")
    present = series.dropna()
    if not is_bool_dtype(present) and not all(isinstance(x, bool | np.bool_) for x in present):
        raise PredicateError(f"{role}: expected truth values, got values of type {series.dtype}")
    truths = np.zeros(n_rows, bool)
    truths[series.notna().to_numpy()] = present.to_numpy(bool)
    return truths
