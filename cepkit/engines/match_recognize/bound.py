"""A query of MATCH_RECOGNIZE bound to the columns of a frame, the rows that it searches, and its matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from cepkit.compile.match_recognize.compiled import Compiled, reach_of
from cepkit.compile.match_recognize.registers import reason_without_registers
from cepkit.compile.match_recognize.values import ColumnScope, column_of, compile_value, numbers_of_truths
from cepkit.compile.match_recognize.vectors import NotVectorizedError
from cepkit.compile.shared.operations import end_in_ticks
from cepkit.compile.shared.row_automaton import build_row_automaton
from cepkit.engines.match_recognize.finding import NearbyRows, find_in_partitions, reason_for_python
from cepkit.engines.match_recognize.found_rows import (
    FEWEST_ROWS,
    FoundRows,
    RowInput,
    RowOrder,
    collect_matches,
)
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, find_row_matches, history_needs
from cepkit.engines.shared.match_set import Lineage, WholePart
from cepkit.errors import CepError, PredicateError, underline
from cepkit.events import INTEGER, ColumnType, Events
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import counted, duration_ticks
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.query import (
    RowPatternQuery,
    RowsQuery,
    SelectedRows,
    SortKey,
    WindowedRows,
    listed_columns,
)
from cepkit.progress import checkpoint
from cepkit.values import dataclass, field, replace

# A query of MATCH_RECOGNIZE bound to the columns of a frame: its program, and the checks of its SELECT.

# Turn a query of MATCH_RECOGNIZE and the types of columns into a program.


def prepare_rows(
    query: RowPatternQuery, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None
) -> tuple[RowProgram, list[Compiled]]:
    """Return the program of a query, and its measures as functions."""
    # A program depends on the types of columns, and not on rows. So the next frame with these columns has it
    # at once.
    if params:
        program, measures = _prepare(query, schema, params)
    else:
        named = _names_in(query)
        read = {name.lower() for name in named}
        # Finding the type of a column may take a look at all of its values.
        fields = dict.fromkeys(name for name in named if "." in name and name in schema)
        names = dict.fromkeys([*schema, *fields])  # fields of structs are not listed
        types = ((name, schema[name] if name.lower() in read else None) for name in names)
        program, measures = _prepare_once(query, query.source, tuple(types))
    return program, list(measures)


def columns_read(query: RowPatternQuery, schema: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that conditions and measures read, in this order, and then the clock of WITHIN."""
    return tuple(dict.fromkeys(column_of(name, schema) for name in _names_in(query)))


@lru_cache(maxsize=16)
def _names_in(query: RowPatternQuery) -> tuple[str, ...]:
    """Return the columns that a query names."""
    nodes = (node for _, tree in (*query.define, *query.measures) for node in tree.walk(literals=False))
    names = [node.name or "" for node in nodes if isinstance(node, ex.Attribute | ex.Reference)]
    return *names, *([] if query.within is None else [key.column for key in query.order_by[:1]])


@lru_cache(maxsize=16)
def _has_totals(query: RowPatternQuery) -> bool:
    """Return whether a query has aggregates."""
    trees = (tree for _, tree in (*query.define, *query.measures))
    return any(isinstance(node, rp.RowAggregate) for tree in trees for node in tree.walk(literals=False))


@lru_cache(maxsize=16)
def _prepare_once(
    query: RowPatternQuery, source: str, types: tuple[tuple[str, ColumnType | None], ...]
) -> tuple[RowProgram, list[Compiled]]:
    """Return what `_prepare` does. ``source`` is part of the key: errors show it, equality leaves it out."""
    # Columns that the query does not read need no type.
    return _prepare(query, cast(dict[str, ColumnType], dict(types)), None)


def _prepare(
    query: RowPatternQuery, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None
) -> tuple[RowProgram, list[Compiled]]:
    """Return the program of a query, and its measures as functions."""
    automaton = build_row_automaton(query.pattern)
    primary = [variable.name for variable in pt.variables(query.pattern)]
    members = {name: frozenset([name]) for name in primary}
    members |= {name: frozenset(subset_members) for name, subset_members in query.subset}
    scope = ColumnScope(query.source, schema, params, variables=members)
    compiled = {
        name: scope.compiled(tree, f"DEFINE {name}", is_condition=True) for name, tree in query.define
    }
    measures = [scope.compiled(tree, f"MEASURES {name}") for name, tree in query.measures]
    rows_before, rows_after = reach_of(compiled.values())
    program = RowProgram(
        automaton=automaton, conditions=compiled, members=members, needs=history_needs(compiled, members),
        after_match=query.after_match, after_match_variable=query.after_match_variable,
        within=_within(query, schema), timed_out=query.timed_out, rows_before=rows_before,
        rows_after=rows_after, columns=columns_read(query, schema),
        reason=reason_without_registers(automaton, compiled, members),
    )  # fmt: skip
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
    """Return the column of the clock and the ticks of WITHIN, or None."""
    if query.within is None:
        return None
    if not query.order_by:
        raise PredicateError("WITHIN needs ORDER BY; its first column is the clock")
    if query.order_by[0].descending:
        raise PredicateError("WITHIN needs an ascending clock; write ORDER BY without DESC")
    column = column_of(query.order_by[0].column, schema)
    return column, duration_ticks(query.within, schema[column].unit)


# Check the SELECT around MATCH_RECOGNIZE before the search: its names, types and places.


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
    """Raise if the SELECT around a clause names or compares what it cannot."""
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
    """Raise if ORDER BY has a number beyond the columns of the result."""
    if key.value > n:
        start, stop = key.span or (0, 1)
        message = f"ORDER BY: the result has {counted(n, 'column')}, and no number {key.value}"
        source = query.rows.source
        raise PredicateError(f"{message} (position {start})\n{underline(source, start, stop - start)}")


# A query of MATCH_RECOGNIZE bound to the columns of a frame, and one with a WINDOW.


@dataclass(frozen=True, eq=False)
class BoundRowQuery:
    """A query of MATCH_RECOGNIZE that is bound to the columns of a frame."""

    query: RowsQuery  # the query, with names of columns as the frame has them
    program: RowProgram  # its automaton and its conditions
    measures: tuple[Compiled, ...]  # its measures as functions
    schema: Mapping[str, ColumnType]  # the columns of the frame
    derived: Mapping[str, Any] = field(default_factory=dict)  # as in `BoundQuery`: always empty
    functions: Mapping[str, Any] = field(default_factory=dict)
    complete_until: int | float | None = None  # until when the data are complete, in ticks
    undecided: bool = False  # whether the rows are those of partial matches that may still run out of time

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is compiled; `__setstate__` compiles it again."""
        return vars(self) | {"program": None, "measures": (), "schema": dict(self.schema)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore a pickled query, and prepare its program and measures again."""
        vars(self).update(state)
        program, measures = prepare_rows(self.query.rows, self.schema, self.params)
        vars(self).update(program=program, measures=tuple(measures))

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
        """The variables that each name stands for."""
        return self.program.members

    @property
    def selected(self) -> SelectedRows | None:
        """The SELECT around the clause, if there is one."""
        return self.query.whole if isinstance(self.query.whole, SelectedRows) else None

    @property
    def params(self) -> dict[str, Any]:
        """The values of the parameters."""
        return dict(self.query.params)

    @property
    def labels(self) -> np.ndarray:
        """The variable of each state of the automaton, objects."""
        return np.array(self.program.automaton.variable_of_state, dtype=object)

    def ordered_by(self, clock: str | None) -> BoundRowQuery:
        """Return the query ordered by a column if it has no ORDER BY."""
        if self.query.keys or clock is None:
            return self
        return replace(self, query=replace(self.query, keys=(SortKey(clock),)))

    def columns_around(self, shown: str | None = None) -> tuple[list[str], list[str]]:
        """Return the columns of the frame before and after the measures in the result."""
        # ``shown`` is a key of ``ROWS_PER_MATCH``; None is that of the query.
        if (shown or self.query.rows.rows_per_match) == "one":
            return list(self.query.partition_by), []
        before = [*dict.fromkeys([*self.query.partition_by, *(key.column for key in self.query.keys)])]
        return before, [name for name in self.schema if name not in before]

    def result_schema(self) -> dict[str, ColumnType]:
        """Return the types of the columns of the result of the clause, in its order."""
        before, after = self.columns_around()
        pairs = zip(self.query.rows.measures, self.measures, strict=True)
        types = {name: measure.type for (name, _), measure in pairs}
        names = (*before, *types, *after)
        return {name: types[name] if name in types else self.schema[name] for name in names}


def bind_row_query(
    whole: RowPatternQuery | SelectedRows,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    complete_until: Any = None,
) -> BoundRowQuery:
    """Return a query bound to columns. Raise for names and types that do not fit."""
    rows = whole.rows if isinstance(whole, SelectedRows) else whole
    partition_by, keys = bind_clause(rows, schema)
    if rows.rows_per_match == "one" and not rows.measures and not partition_by:
        rows = replace(rows, measures=_ends_and_count(keys))
    rows = _with_numbers(rows, schema, params)
    whole = replace(whole, rows=rows) if isinstance(whole, SelectedRows) else rows
    program, measures = prepare_rows(rows, schema, params)
    query = RowsQuery(whole, tuple((params or {}).items()), partition_by, keys)
    bound = BoundRowQuery(query, program, tuple(measures), schema)
    if program.within is not None:
        bound = replace(bound, complete_until=end_in_ticks(complete_until, schema[program.within[0]]))
    for name, _ in rows.measures:
        if any(name in columns for columns in bound.columns_around()):
            raise CepError(f"MEASURES: the result already has a column {name!r}; write AS another name")
    if bound.selected is not None:
        check_select(bound.selected, bound.result_schema(), params, list(schema))
    return bound


def _with_numbers(
    rows: RowPatternQuery, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None
) -> RowPatternQuery:
    """Return the query with sums and means of truth values as those of 0 and 1."""
    if not _has_totals(rows):
        return rows
    trees = {"define": rows.define, "measures": rows.measures}
    changed = {name: numbers_of_truths(part, schema, params) for name, part in trees.items()}
    return rows if changed == trees else replace(rows, **changed)


def _ends_and_count(keys: Sequence[SortKey]) -> tuple[tuple[str, ex.Expression], ...]:
    """Return the measures of a query that asks for none and has no keys: a row without columns is no row."""
    ends = [
        (f"{end}_{key.column}", rp.Navigation(end, ex.Attribute(key.column)))
        for key in keys
        for end in ("first", "last")
    ]
    return *ends, ("rows", rp.RowAggregate("count"))


MADE = "\0over"  # begins the names of columns that a SELECT computes from


@dataclass(frozen=True, eq=False)
class BoundWindow:
    """A SELECT with a WINDOW that has a row pattern, with its program for a frame."""

    query: WindowedRows
    program: RowProgram
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    columns: tuple[str, ...]  # that conditions, measures and ends of frames read
    over: tuple[ex.Expression, ...]  # the functions OVER the window, where a name stands for a measure
    values: tuple[Compiled, ...]  # the same as functions of a match; not ROW_NUMBER, which is computed later
    empty: tuple[int | None, ...]  # the value of each for a row without a match
    selected: SelectedRows  # the SELECT, with a column of its own for each function OVER the window
    frame_end: int | str | None  # as in the query, with the name of the column in the frame
    params: Mapping[str, Any] | None = None


def bind_window(
    query: WindowedRows, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None
) -> BoundWindow:
    """Return a query with a WINDOW bound to columns. Raise for names and types that do not fit."""
    clause = query.rows
    partition_by, order_by = bind_clause(clause, schema)
    clause = _with_numbers(clause, schema, params)
    program, measures = prepare_rows(clause, schema, params)
    named = {
        name.lower(): (tree, measure) for (name, tree), measure in zip(clause.measures, measures, strict=True)
    }
    trees = [tree for _, tree in query.columns or ()]
    every = (node for tree in trees for node in tree.walk() if isinstance(node, rp.OverWindow))
    nodes = [*dict.fromkeys(every)]
    over, values, read = [], [], [tree for _, tree in (*clause.define, *clause.measures)]
    for node in nodes:
        tree = node.operand
        if isinstance(tree, ex.Attribute):
            tree, value = named[tree.name.lower()]
        else:
            tree = _navigation(tree) if isinstance(tree, ex.Call) else tree
            is_number = isinstance(tree, ex.Call)
            no_value = Compiled(lambda place, row: None, ColumnType(INTEGER))
            value = no_value if is_number else compile_value(tree, schema, params)
        over.append(tree)
        values.append(value)
        read.append(tree)
    end = query.frame_end
    names = {
        node.name or "" for tree in read for node in tree.walk(literals=False)
        if isinstance(node, ex.Attribute | ex.Reference)
    }  # fmt: skip
    names |= {program.within[0]} if program.within else set()
    names |= {end} if isinstance(end, str) else set()
    if query.where is not None:
        scope = ColumnScope(clause.source, schema, params, inside=True)
        scope.compiled(query.where, "WHERE", is_condition=True)
    hidden = {node: ex.Attribute(f"{MADE}{i}") for i, node in enumerate(nodes)}
    shown = tuple(
        (name, rebuilt(tree, ex.Expression, lambda node: hidden.get(node, node)))
        for name, tree in listed_columns(query.columns, schema)
    )
    selected = SelectedRows(
        query.table, clause, shown, order_by=query.order_by, limit=query.limit, offset=query.offset
    )
    empty = tuple(0 if _counts(node.operand) else None for node in nodes)
    types = {f"{MADE}{i}": value.type for i, value in enumerate(values)}
    check_select(selected, {**schema, **types}, params)
    return BoundWindow(
        query, program, partition_by, order_by, tuple(sorted({column_of(name, schema) for name in names})),
        tuple(over), tuple(values), empty, selected,
        column_of(end, schema) if isinstance(end, str) else end, params,
    )  # fmt: skip


def _counts(tree: ex.Expression) -> bool:
    return isinstance(tree, rp.RowAggregate) and tree.function in ("count", "count_if")


def _navigation(tree: ex.Call) -> ex.Expression:
    """Return FIRST_VALUE, LAST_VALUE or NTH_VALUE as FIRST or LAST; ROW_NUMBER as it is."""
    name, arguments = tree.function, tree.arguments
    wanted = {"row_number": 0, "nth_value": 2}.get(name, 1)
    if len(arguments) != wanted:
        raise PredicateError(f"{name.upper()} takes {counted(wanted, 'argument')}, {len(arguments)} given")
    if name == "row_number":
        return tree
    if name == "nth_value":
        at = arguments[1]
        if not isinstance(at, ex.Literal) or type(at.value) is not int or at.value < 1:
            raise PredicateError("NTH_VALUE counts rows with a whole number from 1")
        return rp.Navigation("first", arguments[0], at.value - 1)
    return rp.Navigation("first" if name == "first_value" else "last", arguments[0])


# The rows that a query of MATCH_RECOGNIZE searches, and its matches as arrays.


@dataclass(frozen=True, eq=False)
class RowPartition:
    code: int  # the number of the partition in the events
    positions: np.ndarray  # int64, (n_rows,): the positions of the rows in the stream
    columns: Mapping[str, list[Any]]  # the values that conditions and measures read; None is null

    @property
    def n_rows(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class SearchedRows:
    """The rows of a frame as the search reads them; ``values`` are those of the columns in stream order."""

    bound: BoundRowQuery
    events: Events
    values: Mapping[str, np.ndarray]
    _partitions: dict[int, RowPartition] = field(default_factory=dict, repr=False)
    _matches: dict[int, list[RowMatch]] = field(default_factory=dict, repr=False)

    def asked(self, bound: BoundRowQuery) -> SearchedRows:
        """Return the same rows for another query that reads the same columns in the same order."""
        return SearchedRows(bound, self.events, self.values, self._partitions)

    def search(self, program: RowProgram) -> FoundRows | None:
        """Return the matches of all partitions by kernels, or None if Python must find them."""
        # The program has the conditions of the query, perhaps with another pattern.
        if self.events.n_events < FEWEST_ROWS or reason_for_python(program) is not None:
            return None
        return find_in_partitions(program, self._given)

    def count_rows(self, condition: Compiled) -> int | None:
        """Return how many rows satisfy a condition on nearby rows, or None if Python must look at them."""
        if self.events.n_events < FEWEST_ROWS:
            return None
        order = self._given.order
        try:
            rows = NearbyRows(self._given, order, (0, order.n_partitions))
            return int(np.count_nonzero(rows.holds(condition, True, 0)))
        except (NotVectorizedError, PredicateError):
            return None

    @cached_property
    def _given(self) -> RowInput:
        """The rows as kernels read them: partition by partition, without empty partitions."""
        events = self.events
        order = RowOrder(None if events.n_partitions < 2 else events.by_partition, np.unique(self._bounds))
        reach = self.bound.program.rows_before, self.bound.program.rows_after
        return RowInput(events.columns.__getitem__, self.values.__getitem__, order, reach)

    def matches(self, code: int) -> list[RowMatch]:
        """Return the matches of a partition in the order in which they are found; they are kept."""
        if code not in self._matches:
            part = self.partition(code)
            self._matches[code] = find_row_matches(self.bound.program, part.columns, part.n_rows)
        return self._matches[code]

    def partition(self, code: int) -> RowPartition:
        """Return a partition by its number; the newest one is kept."""
        if code not in self._partitions:
            positions = self._positions[self._bounds[code] : self._bounds[code + 1]]
            columns = {name: column[positions].tolist() for name, column in self.values.items()}
            self._partitions.clear()
            self._partitions[code] = RowPartition(code, positions, columns)
        return self._partitions[code]

    def partitions(self) -> Iterator[RowPartition]:
        for code in range(self.events.n_partitions):
            if self._bounds[code + 1] > self._bounds[code]:
                yield self.partition(code)

    @property
    def _positions(self) -> np.ndarray:
        return self.events.by_partition

    @cached_property
    def _bounds(self) -> np.ndarray:
        """Where each partition begins in the order by partition, and where the last one ends."""
        size = np.bincount(self.events.partition_of_event, minlength=self.events.n_partitions)
        return np.concatenate([[0], np.cumsum(size)])


@dataclass(frozen=True, eq=False)
class RowMatchSet(WholePart):
    """Matches of a row pattern, sorted by their last row and then by their first. Each has a row."""

    events: Events  # in stream order
    # first, last: int64, (n_matches,): positions of the first and the last row
    first: np.ndarray
    last: np.ndarray
    number: np.ndarray  # int64, (n_matches,): the number of the match in its partition, from 1
    state_of_item: np.ndarray  # int64, (n_items,): the state of the automaton that took each row

    @cached_property
    def partition(self) -> np.ndarray:
        """The partition of each match, int32, (n_matches,)."""
        return self.events.partition_of_event[self.last]

    @cached_property
    def first_item_of_match(self) -> np.ndarray:
        """Where the rows of each match begin, int64, (n_matches + 1,)."""
        rank = self.events.rank_by_partition
        return np.concatenate([[0], np.cumsum(rank[self.last] - rank[self.first] + 1)])

    @cached_property
    def lineage(self) -> Lineage:
        bounds = self.first_item_of_match
        begin = self.events.rank_by_partition[self.first] if len(self) else np.empty(0, np.int64)
        return Lineage(self.events.by_partition[_ranges(begin, np.diff(bounds))], bounds)

    def take(self, matches: np.ndarray | slice | list[int]) -> RowMatchSet:
        chosen = np.arange(len(self))[matches]
        bounds = self.first_item_of_match
        items = _ranges(bounds[chosen], np.diff(bounds)[chosen])
        return RowMatchSet(
            self.events, self.first[chosen], self.last[chosen], self.number[chosen],
            self.state_of_item[items],
        )  # fmt: skip


def _ranges(begin: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return ``begin[i], begin[i] + 1, …``, ``size[i]`` numbers for each i, int64."""
    first = np.cumsum(size) - size
    return np.arange(size.sum()) + np.repeat(begin - first, size)


def row_match_set(events: Events, found: FoundRows) -> RowMatchSet:
    """Return the matches that have rows, in the order of their ends and then of their beginnings."""
    size = found.end_of_match - found.start_of_match
    kept = np.flatnonzero(size)
    first = events.by_partition[found.start_of_match[kept]]
    last = events.by_partition[found.end_of_match[kept] - 1]
    order = np.lexsort([first, last])
    chosen = kept[order]
    states = found.states[_ranges(found.first_state_of_match[chosen], size[chosen])]
    numbers = found.number_of_match[chosen]
    return RowMatchSet(events, first[order], last[order], numbers, states.astype(np.int64))


def all_row_matches(searched: SearchedRows) -> tuple[RowMatchSet, int]:
    found = searched.search(searched.bound.program)
    if found is None:
        partition_matches = []
        for part in searched.partitions():
            checkpoint()
            partition_matches.append(searched.matches(part.code))
        found = collect_matches(searched._given.order, partition_matches)
    return row_match_set(searched.events, found), found.n_matches
