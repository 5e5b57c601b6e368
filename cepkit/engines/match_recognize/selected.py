"""Check the SELECT around MATCH_RECOGNIZE before the search: its names, types and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.placing import ColumnScope
from cepkit.errors import CepError, PredicateError, underline
from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, listed_columns


def result_schema(
    clause: RowPatternQuery,
    schema: Mapping[str, ColumnType],
    measures: Sequence[Compiled],
    partition_by: Sequence[str],
    order_by: Sequence[str],
) -> dict[str, ColumnType]:
    """Return the types of the columns of the result of a clause, in its order."""
    made = {name: measure.type for (name, _), measure in zip(clause.measures, measures, strict=True)}
    if clause.rows_per_match == "one":
        return {**{name: schema[name] for name in partition_by}, **made}
    before = {name: schema[name] for name in (*partition_by, *order_by)}
    return {**before, **made, **{name: of for name, of in schema.items() if name not in before}}


def scope_of_result(
    query: SelectedRows,
    result: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None,
    table: Sequence[str],
) -> ColumnScope:
    """Return what the expressions of a SELECT refer to; ``table`` has the columns of the table."""
    known = {name.lower() for name in result}
    hidden = {
        name.lower(): f"The table has {name}, but ONE ROW PER MATCH shows only PARTITION BY and MEASURES; "
        f"write MEASURES LAST({name}) AS {name}, or ALL ROWS PER MATCH"
        for name in table
        if name.lower() not in known
    }
    return ColumnScope(query.rows.source, result, params, inside=True, more=hidden)


def check_select(
    query: SelectedRows,
    result: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    table: Sequence[str] = (),
) -> None:
    """Raise for columns, functions and types of a SELECT that do not fit its ``result``."""
    scope = scope_of_result(query, result, params, table)
    if query.where is not None:
        scope.compiled(query.where, "WHERE", is_condition=True)
    trees: dict[str, ex.Expression] = {}
    shown: dict[str, ColumnType] = {}
    for name, tree in listed_columns(query.columns, result):
        if trees.setdefault(name, tree) != tree:
            raise CepError(f"SELECT: two columns have the name {name!r}; write AS another name")
        shown[name] = scope.compiled(tree, "SELECT").type
    after = scope_of_result(query, {**result, **shown}, params, table)
    for key in query.order_by:
        if key.value is None:
            after.column(key.column, "ORDER BY", is_last=True)
        elif isinstance(key.value, ex.Literal) and type(key.value.value) is int:
            _check_number(query, key.value, len(shown))
        else:
            after.compiled(key.value, "ORDER BY")


def _check_number(query: SelectedRows, key: ex.Literal, n: int) -> None:
    if key.value > n:
        start, stop = key.span or (0, 1)
        message = f"ORDER BY: the result has {n} column{'s' * (n != 1)}, and no number {key.value}"
        source = query.rows.source
        raise PredicateError(f"{message} (position {start})\n{underline(source, start, stop - start)}")
