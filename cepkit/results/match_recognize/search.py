"""Bind MATCH_RECOGNIZE to the columns of a frame, search the rows, and compute the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.values import Compiled
from cepkit.engines.match_recognize.found_rows import FoundRows
from cepkit.engines.match_recognize.matching import RowProgram
from cepkit.engines.match_recognize.preparing import bind_clause, prepare_rows
from cepkit.engines.match_recognize.selected import check_select, result_schema
from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError
from cepkit.events import ColumnType, Source
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey
from cepkit.results.match_recognize.columns import ResultColumn, column_of_measure
from cepkit.results.row_pattern_search import RowPatternSearch


@dataclass(frozen=True)
class BoundRows:
    """A query of MATCH_RECOGNIZE with its names bound to the columns of a frame.

    ``selected`` is the SELECT around the clause, if there is one.

    """

    clause: RowPatternQuery
    selected: SelectedRows | None
    params: Mapping[str, Any] | None
    schema: Mapping[str, ColumnType]
    program: RowProgram
    measures: tuple[Compiled, ...]
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The whole query."""
        return self.selected or self.clause

    @property
    def labels(self) -> np.ndarray:
        """The variable of each state of the automaton, objects."""
        return np.array(self.program.automaton.variable_of_state, dtype=object)


def bind_rows(
    query: RowPatternQuery | SelectedRows,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
) -> BoundRows:
    """Return the query bound to columns."""
    selected = query if isinstance(query, SelectedRows) else None
    clause = query.rows if isinstance(query, SelectedRows) else query
    partition_by, order_by = bind_clause(clause, schema)
    program, measures = prepare_rows(clause, schema, params)
    shown = partition_by if clause.rows_per_match == "one" else schema
    for name, _ in clause.measures:
        if name in shown:
            raise CepError(f"MEASURES: the result already has a column {name!r}; write AS another name")
    if selected is not None:
        result = result_schema(clause, schema, measures, partition_by, [key.column for key in order_by])
        check_select(selected, result, params, list(schema))
    return BoundRows(clause, selected, params, schema, program, tuple(measures), partition_by, order_by)


def search_rows(bound: BoundRows, source: Source, latest: int | None = None) -> RowPatternSearch:
    """Return the matches in a frame, partition by partition. ``latest`` is that of `RowPatternSearch`."""
    clauses = bound.partition_by, bound.order_by, bound.params
    return RowPatternSearch(source, bound.clause, bound.program, bound.measures, *clauses, latest)


def result_columns(
    bound: BoundRows, source: Source, search: RowPatternSearch, shown: str | None = None
) -> tuple[dict[str, ResultColumn], int]:
    """Return the columns of the result of the clause, and the number of rows.

    ``shown`` is a key of ``ROWS_PER_MATCH``; None is that of the query.

    """
    places, values = search.measured(shown)
    shown = bound.clause.rows_per_match if shown is None else shown
    made = {
        name: column_of_measure(tree, measure.type, own, source)
        for (name, tree), measure, own in zip(bound.clause.measures, bound.measures, values, strict=True)
    }
    before, after = columns_around(bound, shown)
    picked = {
        name: ResultColumn(bound.schema[name], None, Picked(name, places), source)
        for name in [*before, *after]
    }
    first = {name: picked[name] for name in before}
    return {**first, **made, **{name: picked[name] for name in after}}, len(places)


def columns_around(bound: BoundRows, shown: str) -> tuple[list[str], list[str]]:
    """Return the columns of the input that come before and after the measures in the result."""
    if shown == "one":
        return list(bound.partition_by), []
    before = [*dict.fromkeys([*bound.partition_by, *(key.column for key in bound.order_by)])]
    return before, [name for name in bound.schema if name not in before]


# --- the matched rows; an item is a row in a match


def match_of_item(found: FoundRows) -> np.ndarray:
    """Return the match of each item, int64, (n_items,)."""
    return np.repeat(np.arange(found.n_matches), np.diff(found.first_state_of_match))


def place_of_item(found: FoundRows) -> np.ndarray:
    """Return the place of each item in its match, from 0, int64, (n_items,)."""
    return np.arange(len(found.states)) - found.first_state_of_match[match_of_item(found)]


def row_of_item(search: RowPatternSearch) -> np.ndarray:
    """Return the row of the frame of each item, int64, (n_items,)."""
    found = search.found
    return search.order.rows(found.start_of_match[match_of_item(found)] + place_of_item(found))
