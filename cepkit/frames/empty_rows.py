"""Types for columns without values, from the text of MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from cepkit.events import TIME, ColumnType
from cepkit.frames.empty import TEXTS, TIMES, TRUTHS, Dialect, Wishes, columns_in, type_like, types_in
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.sql_functions import SIGNATURES
from cepkit.language.match_recognize.patterns import (
    IsDistinct,
    IsTruth,
    LikeWithEscape,
    Navigation,
    RowAggregate,
)
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows


def wishes_of_rows(query: RowPatternQuery | SelectedRows | WindowedRows, params: Mapping[str, Any]) -> Wishes:
    """Return what a query says about the types of its columns; ``params`` has values of parameters."""
    rows = query if isinstance(query, RowPatternQuery) else query.rows
    order = [key.column for key in rows.order_by]
    conditions = [tree for _, tree in rows.define]
    if isinstance(query, WindowedRows) and query.where is not None:
        conditions.append(query.where)
    timed = {order[0]: TIMES} if rows.within and order else {}
    trees = [*conditions, *(tree for _, tree in rows.measures)]
    return Wishes(rows.partition_by, order, trees, conditions, params, timed, Dialect(_types_of, _summed_in))


def _types_of(
    node: ex.Expression, params: Mapping[str, Any], known: Mapping[str, ColumnType]
) -> dict[str, pa.DataType]:
    """Return the types that a function or a test of SQL needs in its columns."""
    if isinstance(node, IsDistinct):
        return types_in(ex.Comparison("==", node.left, node.right), params, known)
    if isinstance(node, LikeWithEscape):
        return dict.fromkeys(columns_in(node.operand), TEXTS)
    if isinstance(node, IsTruth):
        return dict(_columns_alone(node.operand, TRUTHS))
    signature = SIGNATURES.get(node.function) if isinstance(node, ex.Call) else None
    if signature is None:
        return {}
    others = (known.get(name) for argument in node.arguments for name in columns_in(argument))
    time = next((type_like(of) for of in others if of is not None and of.kind == TIME), None)
    wanted = {"text": TEXTS, "time": TIMES if time is None else time}
    places = enumerate(node.arguments)
    return {
        name: of
        for place, argument in places
        if (kind := wanted.get(signature.types_of(place)[0])) is not None
        for name, of in _columns_alone(argument, kind)
    }


def _columns_alone(tree: ex.Expression, of: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the type for a tree that is one column, also at another row, as in ``PREV(x)``."""
    if isinstance(tree, Navigation):
        yield from _columns_alone(tree.operand, of)
    elif isinstance(tree, ex.Attribute | ex.Reference) and tree.name is not None:
        yield tree.name, of


def _summed_in(node: ex.Expression) -> Iterator[str]:
    """Yield the columns in a sum or a mean."""
    match node:
        case RowAggregate(function="sum" | "avg", arguments=(operand,)):
            yield from columns_in(operand)
