"""Turn a query of MATCH_RECOGNIZE and the types of columns into a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepkit.compile.match_recognize.automaton import build_row_automaton
from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.navigations import reach_of
from cepkit.compile.match_recognize.placing import ColumnScope
from cepkit.compile.match_recognize.values import column_of, compile_total
from cepkit.engines.match_recognize.history import history_needs
from cepkit.engines.match_recognize.matching import RowProgram
from cepkit.errors import PredicateError
from cepkit.events import ColumnType
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey


def prepare_rows(
    query: RowPatternQuery, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None
) -> tuple[RowProgram, list[Compiled]]:
    """Return the program of a query, and its measures as functions.

    Raises
    ------
    ColumnNotFoundError
        For a column that does not exist.
    PredicateError
        For a function that does not exist, or WITHIN without ORDER BY.
    """
    automaton = build_row_automaton(query.pattern)
    primary = [variable.name for variable in rp.row_variables(query.pattern)]
    members = {name: frozenset([name]) for name in primary}
    members |= {name: frozenset(of) for name, of in query.subset}
    define = dict(query.define)
    scope = ColumnScope(query.source, schema, params, variables=members)
    compiled = {
        name: scope.compiled(tree, f"DEFINE {name}", is_condition=True) for name, tree in define.items()
    }
    needs = history_needs(define, members)
    rows_before, rows_after = reach_of(define.values())
    program = RowProgram(
        automaton=automaton,
        conditions={name: condition.call for name, condition in compiled.items()},
        members=members,
        needs=needs,
        totals={
            part[1]: compile_total(part[1], schema, params) for part in needs.parts if part[0] == "total"
        },
        after_match=query.after_match,
        after_match_variable=query.after_match_variable,
        within=_within(query, schema),
        timed_out=query.timed_out,
        rows_before=rows_before,
        rows_after=rows_after,
    )
    return program, [scope.compiled(tree, f"MEASURES {name}") for name, tree in query.measures]


def bind_clause(
    query: RowPatternQuery, schema: Mapping[str, ColumnType]
) -> tuple[tuple[str, ...], tuple[SortKey, ...]]:
    """Return the columns of PARTITION BY and the keys of ORDER BY, with the names of the frame.

    Raises
    ------
    ColumnNotFoundError
        For a column that does not exist.
    """
    scope = ColumnScope(query.source, schema)
    partition_by = tuple(scope.column(name, "PARTITION BY") for name in query.partition_by)
    keys = tuple(
        SortKey(scope.column(key.column, "ORDER BY"), key.descending, key.nulls_first)
        for key in query.order_by
    )
    return partition_by, keys


def _within(query: RowPatternQuery, schema: Mapping[str, ColumnType]) -> tuple[str, int] | None:
    if query.within is None:
        return None
    if not query.order_by:
        raise PredicateError("WITHIN needs ORDER BY; its first column is the clock")
    if query.order_by[0].descending:
        raise PredicateError("WITHIN needs an ascending clock; write ORDER BY without DESC")
    column = column_of(query.order_by[0].column, schema)
    return column, duration_ticks(query.within, schema[column].unit)
