"""A query of MATCH_RECOGNIZE bound to the columns of a frame: its program, and the checks of its SELECT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from cepkit.compile.match_recognize.automaton import build_row_automaton
from cepkit.compile.match_recognize.compiled import Compiled, reach_of
from cepkit.compile.match_recognize.registers import reason_without_registers
from cepkit.compile.match_recognize.values import ColumnScope, column_of, compile_total
from cepkit.engines.match_recognize.matching import RowProgram, history_needs
from cepkit.errors import CepError, PredicateError, underline
from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import (
    RowPatternQuery,
    RowsQuery,
    SelectedRows,
    SortKey,
    listed_columns,
)

# Turn a query of MATCH_RECOGNIZE and the types of columns into a program.


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
    members |= {name: frozenset(subset_members) for name, subset_members in query.subset}
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
        reason=reason_without_registers(automaton, define, members, schema, params),
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


# Check the SELECT around MATCH_RECOGNIZE before the search: its names, types and places.


def result_schema(
    clause: RowPatternQuery,
    schema: Mapping[str, ColumnType],
    measures: Sequence[Compiled],
    partition_by: Sequence[str],
    order_by: Sequence[str],
) -> dict[str, ColumnType]:
    """Return the types of the columns of the result of a clause, in its order."""
    measured = {name: measure.type for (name, _), measure in zip(clause.measures, measures, strict=True)}
    if clause.rows_per_match == "one":
        return {**{name: schema[name] for name in partition_by}, **measured}
    before = {name: schema[name] for name in (*partition_by, *order_by)}
    return {
        **before,
        **measured,
        **{name: column_type for name, column_type in schema.items() if name not in before},
    }


def scope_of_result(
    query: SelectedRows,
    result: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None,
    table: Sequence[str],
) -> ColumnScope:
    """Return what the expressions of a SELECT refer to; ``table`` has the columns of the table."""
    result_names = {name.lower() for name in result}
    hidden = {
        name.lower(): f"The table has {name}, but ONE ROW PER MATCH shows only PARTITION BY and MEASURES; "
        f"write MEASURES LAST({name}) AS {name}, or ALL ROWS PER MATCH"
        for name in table
        if name.lower() not in result_names
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


# A query of MATCH_RECOGNIZE bound to the columns of a frame, for explanations and the explorer.


@dataclass(frozen=True, eq=False)
class BoundRowQuery:
    """A query of MATCH_RECOGNIZE with its program for a frame."""

    query: RowsQuery  # the query, with names of columns as the frame has them
    program: RowProgram  # its automaton and its conditions
    measures: tuple[Compiled, ...]  # its measures as functions
    schema: Mapping[str, ColumnType]  # the columns of the frame
    derived: Mapping[str, Any] = field(default_factory=dict)  # as in `BoundQuery`: always empty
    functions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that conditions, measures and the window read, those of conditions first."""
        return self.program.columns

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The same columns, as in `BoundQuery`."""
        return self.program.columns

    @property
    def members(self) -> Mapping[str, frozenset[str]]:
        """The variables that each name of a variable stands for."""
        return self.program.members


def bind_row_query(
    whole: RowPatternQuery | SelectedRows,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    clock: str | None = None,
) -> BoundRowQuery:
    """Return a query bound to columns; ``clock`` orders the rows of a query without ORDER BY."""
    rows = whole.rows if isinstance(whole, SelectedRows) else whole
    partition_by, keys = bind_clause(rows, schema)
    program, measures = prepare_rows(rows, schema, params)
    if isinstance(whole, SelectedRows):
        result = result_schema(rows, schema, measures, partition_by, [key.column for key in keys])
        check_select(whole, result, params, list(schema))
    query = RowsQuery(
        whole,
        tuple((params or {}).items()),
        partition_by,
        keys or ((SortKey(clock),) if clock is not None else ()),
    )
    return BoundRowQuery(query, program, tuple(measures), schema)
