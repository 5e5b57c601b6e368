"""Turn a query of MATCH_RECOGNIZE and the types of columns into a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from cepkit.compile.match_recognize.automaton import build_row_automaton
from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.navigations import reach_of
from cepkit.compile.match_recognize.placing import ColumnScope
from cepkit.compile.match_recognize.values import column_of, compile_total
from cepkit.engines.match_recognize.history import history_needs
from cepkit.engines.match_recognize.matching import RowProgram
from cepkit.errors import PredicateError
from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey


def prepare_rows(
    query: RowPatternQuery, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None
) -> tuple[RowProgram, list[Compiled]]:
    """Return the program of a query, and its measures as functions.

    A program depends on the types of columns, and not on rows. So the next frame with these columns has it
    at once.
    """
    if params:
        program, measures = _prepare(query, schema, params)
    else:
        read = {name.lower() for name in _names_in(query)}
        # Finding the type of a column may take a look at all of its values.
        types = ((name, schema[name] if name.lower() in read else None) for name in schema)
        program, measures = _prepare_once(query, query.source, tuple(types))
    return program, list(measures)


def columns_read(query: RowPatternQuery, schema: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that conditions and measures read, in this order, and then the clock of WITHIN."""
    return tuple(dict.fromkeys(column_of(name, schema) for name in _names_in(query)))


@lru_cache(maxsize=16)
def _names_in(query: RowPatternQuery) -> tuple[str, ...]:
    nodes = (node for _, tree in (*query.define, *query.measures) for node in tree.walk(literals=False))
    names = [node.name or "" for node in nodes if isinstance(node, ex.Attribute | ex.Reference)]
    return *names, *([] if query.within is None else [key.column for key in query.order_by[:1]])


@lru_cache(maxsize=16)
def _prepare_once(
    query: RowPatternQuery, source: str, types: tuple[tuple[str, ColumnType | None], ...]
) -> tuple[RowProgram, list[Compiled]]:
    """Return what `_prepare` does. ``source`` is part of the key: errors show it, and equality leaves it out.

    Columns that the query does not read need no type.

    """
    return _prepare(query, cast(dict[str, ColumnType], dict(types)), None)


def _prepare(
    query: RowPatternQuery, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None
) -> tuple[RowProgram, list[Compiled]]:
    automaton = build_row_automaton(query.pattern)
    primary = [variable.name for variable in rp.row_variables(query.pattern)]
    members = {name: frozenset([name]) for name in primary}
    members |= {name: frozenset(of) for name, of in query.subset}
    define = dict(query.define)
    scope = ColumnScope(query.source, schema, params, variables=members)
    compiled = {
        name: scope.compiled(tree, f"DEFINE {name}", is_condition=True) for name, tree in define.items()
    }
    measures = [scope.compiled(tree, f"MEASURES {name}") for name, tree in query.measures]
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
        columns=columns_read(query, schema),
    )
    return program, measures


def bind_clause(
    query: RowPatternQuery, schema: Mapping[str, ColumnType]
) -> tuple[tuple[str, ...], tuple[SortKey, ...]]:
    """Return the columns of PARTITION BY and the keys of ORDER BY, with the names of the frame."""
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
