"""Trees of MATCH_RECOGNIZE as the nested dicts that the oracle and the reference cases have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from cepkit.engines.match_recognize.bound import BoundRowQuery, prepare_rows
from cepkit.engines.match_recognize.finding import reason_for_python
from cepkit.engines.match_recognize.matching import (
    find_row_matches,
    find_window_matches,
    latest_time,
    with_timed_out,
)
from cepkit.engines.match_recognize.measuring import output_rows, window_values
from cepkit.events import FLOAT, INTEGER, NULL_INTEGER, TEXT, TIME, Column, ColumnType
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, WindowedRows
from cepkit.results import row_pattern_search
from cepkit.results.row_pattern_search import RowPatternSearch
from tests.oracle.match_recognize import Query

_SIGNS = {"==": "=", "!=": "<>"}
_NAMES = {
    ex.And: "and", ex.Or: "or", ex.Not: "not", ex.Negative: "neg", ex.IsNull: "is_null", rp.Joined: "||",
    ex.In: "in",
}  # fmt: skip


def oracle_query(query: RowPatternQuery) -> Query:
    """Return the query as the oracle takes it. A duration is in seconds of the first column of ORDER BY."""
    within = None
    if query.within is not None:
        within = (query.order_by[0].column, duration_ticks(query.within, "s"))
    return Query(
        pattern=pattern_tree(query.pattern),
        define={name: expression_tree(tree) for name, tree in query.define},
        measures=[(name, expression_tree(tree)) for name, tree in query.measures],
        subset=dict(query.subset),
        rows_per_match=query.rows_per_match,
        skip=query.after_match,
        skip_variable=query.after_match_variable,
        partition_by=query.partition_by,
        order_by=[(key.column, key.descending, key.nulls_first) for key in query.order_by],
        within=within,
        timed_out=query.timed_out,
    )


def engine_result(
    query: RowPatternQuery, rows: list[Any], schema: Mapping[str, ColumnType], now: int | None = None
) -> list[dict[str, Any]]:
    """Return the engine's output rows of one partition, as the oracle writes them.

    ``now`` is the latest time of all partitions, if there are several.
    """
    columns = {name: [row[name] for row in rows] for name in schema}
    program, measures = prepare_rows(query, schema)
    found = find_row_matches(program, columns, len(rows))
    if program.timed_out and program.within is not None:
        now = latest_time(columns[program.within[0]]) if now is None else now
        found = with_timed_out(program, columns, len(rows), found, now)
    names = [name for name, _ in query.measures]
    shown = query.partition_by if query.rows_per_match == "one" else list(schema)
    return [
        {name: rows[row][name] for name in shown} | dict(zip(names, values, strict=True))
        for row, values in output_rows(program, measures, query.rows_per_match, columns, len(rows), found)
    ]


def window_result(
    query: WindowedRows, rows: list[Any], ends: list[int], schema: Mapping[str, ColumnType]
) -> list[dict[str, Any]]:
    """Return the engine's rows of one partition with the measures of a WINDOW, as the oracle writes them."""
    columns = {name: [row[name] for row in rows] for name in schema}
    program, measures = prepare_rows(query.rows, schema)
    found = find_window_matches(program, columns, ends, seek=query.seek)
    names = [name for name, _ in query.rows.measures]
    values = window_values(program, measures, columns, ends, found, [None] * len(names))
    return [{**row, **dict(zip(names, made, strict=True))} for row, made in zip(rows, values, strict=True)]


def kernel_result(
    query: RowPatternQuery, rows: list[Any], schema: Mapping[str, ColumnType]
) -> list[dict[str, Any]]:
    """Return the same as `engine_result`, by kernels where they can run the query."""
    program, measures = prepare_rows(query, schema)
    source: Any = Rows(rows, schema)
    with patch.object(row_pattern_search, "FEWEST_ROWS", 0):
        search = RowPatternSearch(BoundRowQuery(RowsQuery(query), program, tuple(measures), schema), source)
    assert reason_for_python(program) is None or search._by_kernels is None
    numbers, columns = search.measured()
    values = [_plain_list(column) for column in columns]
    names = [name for name, _ in query.measures]
    shown = query.partition_by if query.rows_per_match == "one" else list(schema)
    return [
        {name: rows[row][name] for name in shown} | dict(zip(names, made, strict=True))
        for row, *made in zip(numbers.tolist(), *values, strict=True)
    ]


def _plain_list(column: Any) -> list[Any]:
    if not isinstance(column, pa.Array):
        return column
    is_timed = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    return (column.cast(pa.int64()) if is_timed else column).to_pylist()


class Rows:
    """Rows of one partition, in order, as a source of columns."""

    clock = owner = None

    def __init__(self, rows: list[Any], schema: Mapping[str, ColumnType]):
        self.rows, self.schema, self.n_rows = rows, schema, len(rows)

    def column(self, name: str) -> Column:
        """Return a column by name."""
        kind, values = self.schema[name], [row[name] for row in self.rows]
        if kind.kind == TEXT:
            texts = [*dict.fromkeys(value for value in values if value is not None)]
            codes = np.array([-1 if value is None else texts.index(value) for value in values], np.int64)
            return Column(kind, codes, np.array(texts, object))
        if kind.kind == FLOAT:
            return Column(kind, np.array([np.nan if value is None else value for value in values], float))
        if kind.kind in (INTEGER, TIME):
            ticks = [NULL_INTEGER if value is None else value for value in values]
            return Column(kind, np.array(ticks, np.int64))
        objects = np.empty(len(values), object)
        objects[:] = values
        return Column(kind, objects)


def pattern_tree(pattern: pt.Pattern) -> dict[str, Any]:
    """Return a row pattern as nested dicts."""
    match pattern:
        case pt.Variable(name=name):
            return {"var": name}
        case pt.Empty():
            return {"empty": True}
        case pt.Anchor(at_start=at_start):
            return {"anchor": "start" if at_start else "end"}
        case pt.Sequence(parts=parts):
            return {"seq": list(map(pattern_tree, parts))}
        case pt.Alternative(options=options):
            return {"alt": list(map(pattern_tree, options))}
        case pt.Permutation(parts=parts):
            return {"permute": list(map(pattern_tree, parts))}
        case pt.Exclusion(body=body):
            return {"exclude": pattern_tree(body)}
        case pt.Repeat(body=body, low=low, high=high, greedy=greedy):
            return {"quant": pattern_tree(body), "min": low, "max": high, "greedy": greedy}
    raise TypeError(f"no pattern: {pattern}")


def expression_tree(tree: ex.Expression) -> dict[str, Any]:
    """Return an expression as nested dicts."""
    match tree:
        case ex.Literal(value=value):
            return {"lit": value}
        case ex.Attribute(name=name):
            return {"col": name}
        case ex.Reference(variable=variable, name=name):
            return {"col": name, "var": variable}
        case rp.Navigation(function=function, operand=operand, offset=offset, final=final):
            found = {"nav": function, "arg": expression_tree(operand)}
            return found | ({} if offset is None else {"offset": offset}) | _semantics(final)
        case rp.RowAggregate(function=function, arguments=arguments, variable=variable):
            found = {"agg": function, "args": list(map(expression_tree, arguments))}
            found |= {} if arguments else {"star": True}
            found |= {"var": variable} if variable else {}
            return found | ({"distinct": True} if tree.distinct else {}) | _semantics(tree.final)
        case rp.Classifier(variable=variable):
            return {"classifier": variable}
        case rp.MatchNumber():
            return {"match_number": True}
        case rp.MatchRowtime(operand=ex.Attribute(name=name)):
            return {"match_rowtime": name}
        case rp.TimedOut():
            return {"timed_out": True}
        case rp.Cast(operand=operand, kind=kind):
            return {"cast": expression_tree(operand), "type": kind}
        case rp.ArrayOf(items=items):
            return {"array": list(map(expression_tree, items))}
        case rp.CaseWhen(branches=branches, default=default):
            last = {"lit": None} if default is None else expression_tree(default)
            for condition, value in zip(branches[-2::-2], branches[::-2], strict=True):
                last = {"fn": "if", "args": [expression_tree(condition), expression_tree(value), last]}
            return last
        case ex.Call(function=function, arguments=arguments):
            return {"fn": function, "args": list(map(expression_tree, arguments))}
        case ex.Arithmetic(operator=sign) | ex.Comparison(operator=sign):
            both = [expression_tree(tree.left), expression_tree(tree.right)]
            return {"op": _SIGNS.get(sign, sign), "args": both}
        case ex.Like(operand=operand, pattern=pattern):
            return {"op": "like", "args": [expression_tree(operand), {"lit": pattern}]}
        case rp.LikeWithEscape(operand=operand, pattern=pattern, escape=escape):
            return {"op": "like", "args": [expression_tree(operand), {"lit": pattern}, {"lit": escape}]}
        case rp.IsTruth(operand=operand, truth=truth):
            return {"is": expression_tree(operand), "truth": truth}
        case ex.IsDistinct(left=left, right=right):
            return {"distinct": [expression_tree(left), expression_tree(right)]}
    return {"op": _NAMES[type(tree)], "args": list(map(expression_tree, tree.children()))}


def _semantics(final: bool | None) -> dict[str, str]:
    return {} if final is None else {"sem": "final" if final else "running"}


def flat(tree: Any) -> Any:
    """Return a tree of dicts with nested sequences, alternatives, AND and OR flattened."""
    if isinstance(tree, list):
        return [flat(part) for part in tree]
    if not isinstance(tree, Mapping):
        return tree
    found = {name: flat(part) for name, part in tree.items() if name != "star"}
    for name in ("seq", "alt"):
        if name in found:
            found[name] = [inner for part in found[name] for inner in part.get(name, [part])]
    if found.get("op") in ("and", "or"):
        found["args"] = [
            inner
            for part in found["args"]
            for inner in (part["args"] if part.get("op") == found["op"] else [part])
        ]
    return found
