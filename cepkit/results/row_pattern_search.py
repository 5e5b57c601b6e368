"""Search the rows of MATCH_RECOGNIZE, and compute the result and its SELECT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.values import OF_FIRST_ARGUMENT, column_of, compile_value
from cepkit.compile.match_recognize.vectors import NotVectorizedError, SingleRow
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.engines.match_recognize.finding import find_in_partitions, reason_for_python
from cepkit.engines.match_recognize.found_rows import FEWEST_ROWS, FoundRows, RowInput, collect_matches
from cepkit.engines.match_recognize.matching import RowMatch, find_row_matches, latest_time, with_timed_out
from cepkit.engines.match_recognize.measuring import (
    MeasureReader,
    Points,
    arrow_of_vector,
    output_rows,
    points_of,
    unmatched_places,
)
from cepkit.engines.reducing import arrow_type
from cepkit.engines.regex_measures import Measured, Picked
from cepkit.errors import CepError
from cepkit.events import ColumnType, Source, plain_values
from cepkit.frames.row_order import order_of_rows, placing, plain_columns
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.query import SelectedRows, SortKey, listed_columns
from cepkit.limits import check_memory
from cepkit.progress import checkpoint
from cepkit.results.found import PER_CELL
from cepkit.values import dataclass, replace

# The search of MATCH_RECOGNIZE in a frame: by kernels where they can, else by Python, with equal results.

# The rows of the frame, the columns as Python values, and the matches of a partition.
PartitionMatches = tuple[np.ndarray, Mapping[str, list], list[RowMatch]]
Values = list[Any] | pa.Array


class RowPatternSearch:
    """The matches of a query in a frame, and their measures."""

    def __init__(self, bound: BoundRowQuery, source: Source, latest: int | None = None):
        self.bound, self._latest, self.source = bound, latest, source
        self._query, self._program, self._measures = bound.query.rows, bound.program, bound.measures
        program = self._program
        self._plain_column = plain_columns(source)
        self.order = order_of_rows(source, bound.query.partition_by, bound.query.keys)
        reach = program.rows_before, program.rows_after
        place = placing(source, self.order)
        self._given = RowInput(source.column, self._plain_column, self.order, reach, place)
        self._by_kernels: FoundRows | None = None
        if self.order.n_places >= FEWEST_ROWS and reason_for_python(program) is None:
            self._by_kernels = find_in_partitions(program, self._given)
        if self._by_kernels is None:
            self.partitions  # noqa: B018  an error is raised now

    @property
    def n_matches(self) -> int:
        """The number of matches, with empty ones."""
        return self.found.n_matches

    @cached_property
    def projection(self) -> Projection:
        """The columns of the result, and of its SELECT, before ORDER BY and LIMIT."""
        (columns, n_rows), selected = result_columns(self), self.bound.selected
        if selected is None:
            return Projection(columns, (), n_rows, n_rows)
        return project(selected, columns, n_rows, self.bound.params)

    @cached_property
    def found(self) -> FoundRows:
        if self._by_kernels is not None:
            return self._by_kernels
        return collect_matches(self.order, [matches for _, _, matches in self.partitions])

    @cached_property
    def partitions(self) -> list[PartitionMatches]:
        """The matches by partition, as single values."""
        program = self._program
        values = {name: self._plain_column(name) for name in program.columns}
        matches_by_partition = None if self._by_kernels is None else self._by_kernels.by_partition(self.order)
        parts, n_bytes = [], 0
        for i, rows in enumerate(self.order.partitions()):
            checkpoint()
            columns = {name: column[rows].tolist() for name, column in values.items()}
            matches = (
                find_row_matches(program, columns, len(rows))
                if matches_by_partition is None
                else matches_by_partition[i]
            )
            n_bytes += sum(match.n_bytes for match in matches)
            check_memory(n_bytes, "the matches", is_held=True)
            parts.append((rows, columns, matches))
        return parts

    @cached_property
    def _with_timed_out(self) -> list[list[RowMatch]]:
        """The matches by partition, with the partial matches that ran out of time."""
        program, parts = self._program, self.partitions
        assert program.within is not None
        clock, now = program.within[0], self.bound.complete_until
        if now is None:
            now = self._latest
        if now is None:
            now = latest_time(latest_time(columns[clock]) for _, columns, _ in parts)
        undecided = self.bound.undecided
        return [
            with_timed_out(program, columns, len(rows), matches, now, undecided=undecided)
            for rows, columns, matches in parts
        ]

    def measured(self, shown: str | None = None) -> tuple[np.ndarray, list[Values]]:
        """Return a row of the frame for each row of the result, and the values of each measure."""
        # ``shown`` is a key of ``ROWS_PER_MATCH``, and shows matches only. None shows the rows of the query.
        # For one row per match, the row of the frame is some row of the partition.
        late = shown is None and self._program.timed_out
        shown = self._query.rows_per_match if shown is None else shown
        matches = self._by_kernels
        if matches is None:
            return self._measured_by_python(self._measures, shown, late)
        n_rows = matches.n_matches if shown == "one" else matches.n_states
        check_memory(PER_CELL * n_rows * (1 + len(self._measures)), f"{n_rows:,} rows of the result")
        states = np.array(self._program.automaton.excluded, bool)
        points = points_of(matches, shown, states)
        reader = MeasureReader(self._program, matches, points, self._given)
        columns: list[pa.Array | None] = []
        for measure in self._measures:
            checkpoint()
            try:
                columns.append(arrow_of_vector(reader.value(measure), measure.type, len(points)))
            except NotVectorizedError:
                columns.append(None)
        if shown == "one":  # the result has columns of PARTITION BY, which any row of the partition has
            first_row = self.order.rows(self.order.first_place_of_partition[:-1])
            rows = np.repeat(first_row, np.diff(matches.first_match_of_partition))
        elif shown == "all_with_unmatched":
            places, columns = self._with_unmatched(matches, points, columns)
            rows = self.order.rows(places)
        else:
            rows = self.order.rows(points.place_of_point)
        others = [i for i, column in enumerate(columns) if column is None]
        values: list[Values] = list(columns)
        if others:
            _, computed = self._measured_by_python([self._measures[i] for i in others], shown)
            for i, measure_values in zip(others, computed, strict=True):
                values[i] = measure_values
        return rows, values

    def _with_unmatched(
        self, found: FoundRows, points: Points, columns: list[pa.Array | None]
    ) -> tuple[np.ndarray, list[pa.Array | None]]:
        """Return places and columns with the rows of the input that belong to no match, in order."""
        unmatched = unmatched_places(found, self.order.n_places)
        places = np.concatenate([points.place_of_point, unmatched])
        numbers = np.concatenate([found.number_of_match[points.match_of_point], np.zeros_like(unmatched)])
        order = np.lexsort([numbers, places])
        taken = [
            column
            if column is None
            else pa.concat_arrays([column, pa.nulls(len(unmatched), column.type)]).take(pa.array(order))
            for column in columns
        ]
        return places[order], taken

    def _measured_by_python(
        self, measures: Sequence[Compiled], shown: str, late: bool = False
    ) -> tuple[np.ndarray, list[Values]]:
        """Return the rows of a result, and the values of each measure there, computed in Python."""
        rows: list[np.ndarray] = []
        values: list[list[Any]] = []
        every = self._with_timed_out if late else [matches for _, _, matches in self.partitions]
        for (order, columns, _), matches in zip(self.partitions, every, strict=True):
            checkpoint()
            for row, row_values in output_rows(self._program, measures, shown, columns, len(order), matches):
                rows.append(order[row])
                values.append(row_values)
        return np.array(rows, np.int64), [[row[i] for row in values] for i in range(len(measures))]


# Columns of the results of MATCH_RECOGNIZE.


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result: computed values, or rows of a column of the source."""

    type: ColumnType
    computed: list[Any] | pa.Array | None
    picked: Picked | None = None
    source: Source | None = None
    arrow: pa.DataType | None = None  # of computed values, if ``type`` does not tell it

    def values(self) -> list[Any]:
        """Return the values, times as ticks; None is null."""
        if self.picked is None or self.source is None:
            return _plain(self.computed)
        return plain_values(self.source.column(self.picked.column))[self.picked.rows].tolist()

    def measured(self) -> Measured:
        """Return the column as frames take it."""
        if self.picked is not None:
            return self.picked
        if self.computed is None or isinstance(self.computed, list):
            return arrow_of(self.computed or [], self.type, self.arrow)
        return self.computed

    def take(self, rows: np.ndarray) -> ResultColumn:
        """Return the column at some rows of the result."""
        if self.picked is not None:
            return replace(self, picked=Picked(self.picked.column, self.picked.rows[rows]))
        if self.computed is None or isinstance(self.computed, list):
            values = self.computed or []
            return replace(self, computed=[values[row] for row in rows])
        return replace(self, computed=self.computed.take(pa.array(rows)))


def _plain(values: list[Any] | pa.Array | None) -> list[Any]:
    """Return values with times as ticks."""
    if values is None or isinstance(values, list):
        return values or []
    is_timed = pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type)
    return (values.cast(pa.int64()) if is_timed else values).to_pylist()


def arrow_of(values: list[Any], kind: ColumnType, of: pa.DataType | None = None) -> pa.Array:
    """Return values as an Arrow array of a type. Values that do not fit choose the type themselves."""
    # ``of`` is the Arrow type if ``kind`` does not tell it.
    try:
        return _array(values, arrow_type(kind) or of)
    except OverflowError:
        raise CepError("a measure has integers beyond 64 bits; make them floats: CAST(… AS double)") from None


def _arrow_of_any(values: list[Any]) -> pa.Array:
    """Return values of any type as an Arrow array. Raise if they have several types."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:  # such as floats, and integers beyond 2**53
        return pa.array([None if value is None else float(value) for value in values])
    except (TypeError, ValueError, OverflowError):
        kinds = ", ".join(sorted({type(value).__name__ for value in values if value is not None}))
        raise CepError(f"a measure has values of several types: {kinds}; make them one by CAST") from None


def _array(values: list[Any], wanted: pa.DataType | None) -> pa.Array:
    """Return values as an Arrow array, of the wanted type if they fit it."""
    if (wanted is None or pa.types.is_map(wanted)) and any(isinstance(value, dict) for value in values):
        values = [list(value.items()) if isinstance(value, dict) else value for value in values]
        wanted = _type_of_maps(values) if wanted is None else wanted
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        if wanted is not None and pa.types.is_map(wanted):
            return pa.array(values, _type_of_maps(values))
        return _arrow_of_any(values)


def _type_of_maps(values: list[Any]) -> pa.DataType:
    """Return the Arrow type of maps as lists of entries, from the types of all keys and of all items."""
    entries = [entry for value in values if value for entry in value]
    return pa.map_(pa.array([key for key, _ in entries]).type, pa.array([item for _, item in entries]).type)


def column_of_measure(
    tree: ex.Expression, kind: ColumnType, values: list[Any] | pa.Array, source: Source
) -> ResultColumn:
    """Return a measure as a column."""
    # The type of a column of structs or bytes is known to its frame only, and a measure may have values of
    # it.
    frame_type = _type_in_frame(tree, source) if arrow_type(kind) is None else None
    return ResultColumn(kind, values, arrow=frame_type)


def _type_in_frame(tree: ex.Expression, source: Source) -> pa.DataType | None:
    """Return the Arrow type of an expression with the values of one column; None for others."""
    if isinstance(tree, rp.Navigation):
        return _type_in_frame(tree.operand, source)
    if isinstance(tree, rp.RowAggregate) and tree.function in OF_FIRST_ARGUMENT:
        return _type_in_frame(tree.arguments[0], source)
    if isinstance(tree, rp.RowAggregate) and tree.function == "array_agg":
        item = _type_in_frame(tree.arguments[0], source)
        return None if item is None else pa.list_(item)
    if not isinstance(tree, ex.Attribute | ex.Reference):
        return None
    column_type = source.arrow(column_of(tree.name or "", source.schema), np.empty(0, np.int64)).type
    return None if pa.types.is_null(column_type) else column_type


# The columns of the result.


def result_columns(search: RowPatternSearch, shown: str | None = None) -> tuple[dict[str, ResultColumn], int]:
    """Return the columns of the result of the clause, and the number of rows."""
    # ``shown`` is a key of ``ROWS_PER_MATCH``; None is that of the query.
    bound, source = search.bound, search.source
    rows, values = search.measured(shown)
    before, after = bound.columns_around(shown)
    picked = {
        name: ResultColumn(bound.schema[name], None, Picked(name, rows), source) for name in (*before, *after)
    }
    measures = {
        name: column_of_measure(tree, measure.type, column_values, source)
        for (name, tree), measure, column_values in zip(
            bound.query.rows.measures, bound.measures, values, strict=True
        )
    }
    return {
        **{name: picked[name] for name in before}, **measures, **{name: picked[name] for name in after},
    }, len(rows)  # fmt: skip


# --- the matched rows; an item is a row in a match


def match_of_item(found: FoundRows) -> np.ndarray:
    """Return the match of each item, int64, (n_items,)."""
    return np.repeat(np.arange(found.n_matches), np.diff(found.first_state_of_match))


def place_of_item(found: FoundRows) -> np.ndarray:
    """Return the place of each item in its match, from 0, int64, (n_items,)."""
    return np.arange(len(found.states)) - found.first_state_of_match[match_of_item(found)]


def row_of_item(search: RowPatternSearch) -> np.ndarray:
    """Return the row of the frame of each item, int64, (n_items,)."""
    matches = search.found
    return search.order.rows(matches.start_of_match[match_of_item(matches)] + place_of_item(matches))


# The SELECT around MATCH_RECOGNIZE: columns, WHERE, ORDER BY, OFFSET and LIMIT of the result.


@dataclass(frozen=True)
class Projection:
    """The columns of a SELECT after WHERE, and those that ORDER BY reads, one for each of its keys."""

    columns: dict[str, ResultColumn]
    keys: tuple[ResultColumn, ...]
    n_rows: int
    n_before: int  # rows before WHERE


def project(
    query: SelectedRows, columns: dict[str, ResultColumn], n_rows: int, params: Mapping[str, Any] | None
) -> Projection:
    """Return the columns of the SELECT for the rows that WHERE keeps, in their old order."""
    n_before = n_rows
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
    return Projection(shown, keys, n_rows, n_before)


def _sorted_by(
    key: SortKey, shown: dict[str, ResultColumn], columns: dict[str, ResultColumn], n_rows: int,
    params: Mapping[str, Any] | None,
) -> ResultColumn:  # fmt: skip
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
    """Return a column of the result that is computed row by row from others."""
    schema = {name: column.type for name, column in columns.items()}
    compiled = compile_value(tree, schema, params, inside=True)
    names = {
        column_of(node.name, schema) for node in tree.walk(literals=False) if isinstance(node, ex.Attribute)
    }
    rows = SingleRow({name: columns[name].values() for name in names}, n_rows)
    return ResultColumn(compiled.type, [compiled.call(rows, row) for row in range(n_rows)])
