"""The SELECT around MATCH_RECOGNIZE: columns, WHERE, ORDER BY, OFFSET and LIMIT of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.values import column_of, compile_value
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import SelectedRows, SortKey, listed_columns
from cepkit.results.match_recognize.columns import ResultColumn


@dataclass(frozen=True)
class _ResultRows:
    """The rows of a result, as the expressions of the SELECT see them."""

    columns: Mapping[str, list[Any]]


@dataclass(frozen=True)
class Projection:
    """The columns of a SELECT after WHERE, and those that ORDER BY reads, one for each of its keys."""

    columns: dict[str, ResultColumn]
    keys: tuple[ResultColumn, ...]
    n_rows: int


def project(
    query: SelectedRows, columns: dict[str, ResultColumn], n_rows: int, params: Mapping[str, Any] | None
) -> Projection:
    """Return the columns of the SELECT for the rows that WHERE keeps, in their old order."""
    if query.where is not None:
        holds = _computed(query.where, columns, n_rows, params).values()
        keep = np.flatnonzero([value is True for value in holds])
        columns, n_rows = {name: column.take(keep) for name, column in columns.items()}, len(keep)
    shown = columns
    if query.columns is not None:
        shown = {
            name: columns[column_of(tree.name, columns)]
            if isinstance(tree, ex.Attribute)
            else _computed(tree, columns, n_rows, params)
            for name, tree in listed_columns(query.columns, columns)
        }
    keys = tuple(_sorted_by(key, shown, columns, n_rows, params) for key in query.order_by)
    return Projection(shown, keys, n_rows)


def _sorted_by(
    key: SortKey,
    shown: dict[str, ResultColumn],
    columns: dict[str, ResultColumn],
    n_rows: int,
    params: Mapping[str, Any] | None,
) -> ResultColumn:
    """Return the values of a key of ORDER BY. A column of the SELECT comes before one of the clause."""
    every = {**columns, **shown}
    if key.value is None:
        return every[column_of(key.column, every)]
    if isinstance(key.value, ex.Literal) and type(key.value.value) is int:
        return [*shown.values()][key.value.value - 1]
    return _computed(key.value, every, n_rows, params)


def order_and_limit(query: SelectedRows, projection: Projection) -> dict[str, ResultColumn]:
    """Return the columns in the order of ORDER BY, and as many rows as OFFSET and LIMIT leave."""
    order = list(range(projection.n_rows))
    for key, column in reversed([*zip(query.order_by, projection.keys, strict=True)]):
        values = column.values()
        present = [row for row in order if values[row] is not None]
        missing = [row for row in order if values[row] is None]
        present.sort(key=lambda row, values=values: values[row], reverse=key.descending)
        order = [*missing, *present] if key.nulls_first else [*present, *missing]
    rows = np.array(order[query.offset :][: query.limit], np.int64)
    return {name: column.take(rows) for name, column in projection.columns.items()}


def selected_columns(
    query: SelectedRows, columns: dict[str, ResultColumn], n_rows: int, params: Mapping[str, Any] | None
) -> dict[str, ResultColumn]:
    """Return the columns of the SELECT, after WHERE, ORDER BY, OFFSET and LIMIT."""
    return order_and_limit(query, project(query, columns, n_rows, params))


def _computed(
    tree: ex.Expression, columns: Mapping[str, ResultColumn], n_rows: int, params: Mapping[str, Any] | None
) -> ResultColumn:
    schema = {name: column.type for name, column in columns.items()}
    compiled = compile_value(tree, schema, params, inside=True)
    names = {
        column_of(node.name, schema) for node in tree.walk(literals=False) if isinstance(node, ex.Attribute)
    }
    rows = _ResultRows({name: columns[name].values() for name in names})
    return ResultColumn(compiled.type, [compiled.call(rows, row) for row in range(n_rows)])
