"""Say which rows of a match the WHERE of the SELECT drops, and the values that its conditions read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.placing import ColumnScope
from cepkit.compile.match_recognize.values import column_of
from cepkit.engines.match_recognize.matching import RowMatch
from cepkit.engines.match_recognize.output import output_rows
from cepkit.engines.match_recognize.row_match_set import RowPartition, SearchedRows
from cepkit.engines.match_recognize.selected import result_schema, scope_of_result
from cepkit.events import Source
from cepkit.insight.match_recognize.reading import value_text
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import SelectedRows


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row of the result that WHERE drops."""

    row: int  # the row of its partition; the first one of the match for one row per match
    conditions: tuple[str, ...]  # the conditions that are not true, with the values that they read


@dataclass(frozen=True)
class _ResultRow:
    columns: Mapping[str, Sequence[Any]]


def dropped_rows(
    searched: SearchedRows, source: Source, part: RowPartition, match: RowMatch, most: int
) -> tuple[list[DroppedRow], int]:
    """Return the rows of a match that WHERE drops, and the number of its rows before WHERE.

    The first ``most`` of them have their conditions.

    """
    bound = searched.bound
    query, whole = bound.query, bound.query.whole
    clause = query.rows
    shown = "all" if clause.rows_per_match == "all_with_unmatched" else clause.rows_per_match
    made = list(output_rows(bound.program, bound.measures, shown, part.columns, part.n_rows, [match]))
    if not isinstance(whole, SelectedRows) or whole.where is None:
        return [], len(made)
    order_by = [key.column for key in query.keys]
    schema = result_schema(clause, bound.schema, bound.measures, query.partition_by, order_by)
    scope = scope_of_result(whole, schema, dict(query.params), list(bound.schema))
    names = [name for name, _ in clause.measures]
    read = {column_of(node.name, schema) for node in whole.where.walk() if isinstance(node, ex.Attribute)}
    rows = searched.events.rows(part.positions[[row for row, _ in made]])
    copied = {name: _plain(source, name, rows) for name in read - set(names)}
    keeps = scope.compiled(whole.where, "WHERE")
    found = []
    for i, (row, values) in enumerate(made):
        columns = {name: [items[i]] for name, items in copied.items()}
        result = _ResultRow(columns | {name: [value] for name, value in zip(names, values, strict=True)})
        if keeps.call(result, 0) is not True:
            told = _failing(whole.where, scope, result) if len(found) < most else ()
            found.append(DroppedRow(row, tuple(told)))
    return found, len(made)


def _plain(source: Source, name: str, rows: np.ndarray) -> list[Any]:
    """Return values of a column as expressions read them: times as ticks, NaN as null."""
    values = source.arrow(name, rows)
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    return [None if value != value else value for value in values.to_pylist()]


def _failing(where: ex.Expression, scope: ColumnScope, result: _ResultRow) -> list[str]:
    told = []
    for condition in ex.conjuncts(where):
        if scope.compiled(condition, "WHERE").call(result, 0) is True:
            continue
        looks = dict.fromkeys(node for node in condition.walk() if isinstance(node, ex.Attribute))
        values = ", ".join(f"{print_sql(look)} = {_value(look, scope, result)}" for look in looks)
        told.append(f"{print_sql(condition)}{f' ({values})' if values else ''}")
    return told


def _value(look: ex.Attribute, scope: ColumnScope, result: _ResultRow) -> str:
    compiled = scope.compiled(look, "WHERE")
    value = compiled.call(result, 0)
    return "null" if value is None else value_text(value, compiled.type)
