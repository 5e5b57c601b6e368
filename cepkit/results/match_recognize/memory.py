"""The matches of MATCH_RECOGNIZE in a frame in memory, also as `Matches` reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.match_recognize.bound import BoundRowQuery, bind_row_query
from cepkit.engines.match_recognize.matching import RowMatch
from cepkit.engines.match_recognize.output import MatchPlace
from cepkit.engines.match_recognize.row_match_set import RowMatchSet, SearchedRows, all_row_matches
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.engines.shared.match_set import Lineage
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events, Frame, Source
from cepkit.frames.arrow import check_free
from cepkit.frames.pandas import as_pandas
from cepkit.frames.row_order import searched_rows
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, clauses_that_drop
from cepkit.planning.planner import Engine
from cepkit.progress import checkpoint
from cepkit.results.found import FoundInMemory, Match, array_of_range, plain_value
from cepkit.results.match_recognize.search import (
    ResultColumn,
    arrow_of,
    bind_rows,
    match_of_item,
    order_and_limit,
    project,
    result_columns,
    row_of_item,
    search_rows,
)
from cepkit.results.matches import Matches

# The matches of MATCH_RECOGNIZE, as `Matches` reads them: for pictures, tags and boards.


@dataclass(frozen=True, eq=False)
class RowsFound(FoundInMemory[RowMatchSet]):
    """The matches with rows, all of them in memory. They are in the order of their last rows.

    ``n_empty`` is the number of empty matches, which no picture can show.

    """

    searched: SearchedRows
    whole: RowMatchSet
    n_empty: int = 0
    run: Any = None
    hint = "df.cep.explain(…) shows how the query was read, df.cep.funnel(…) where matches are lost"

    @property
    def program(self) -> BoundRowQuery:
        """The query, bound to the columns of the frame."""
        return self.searched.bound

    @property
    def events(self) -> Events:
        """The rows that were searched."""
        return self.searched.events

    def narrow(self, numbers: range) -> RowsFound:
        """Return the matches with these numbers as a result of their own."""
        whole = self.whole.take(array_of_range(numbers))
        return RowsFound(self.searched, whole)

    def measure(self, part: RowMatchSet, source: Source) -> dict[str, Measured]:
        """Return one row for each match: the partition columns and the measures at its last row.

        A query without measures has the order columns of the first and the last row, and the number of rows.

        """
        query, events = self.program.query, self.events
        first = events.rows(part.first)
        columns: dict[str, Measured] = {name: Picked(name, first) for name in query.partition_by}
        names = [name for name, _ in query.rows.measures]
        if not names:
            last = events.rows(part.last)
            for key in query.keys:
                columns[f"first_{key.column}"] = Picked(key.column, first)
                columns[f"last_{key.column}"] = Picked(key.column, last)
            return columns | {"rows": pa.array(np.diff(part.first_item_of_match))}
        values = self._values(part)
        for i, (name, measure) in enumerate(zip(names, self.program.measures, strict=True)):
            columns[name] = arrow_of([row[i] for row in values], measure.type)
        return columns

    def _values(self, part: RowMatchSet) -> list[list[Any]]:
        """Return the measures of each match at its last row."""
        program, values = self.program.program, [[]] * len(part)
        bounds, rank = part.first_item_of_match, self.events.rank_by_partition
        for m in np.argsort(part.partition, kind="stable").tolist():  # a partition is read once
            checkpoint()
            partition = self.searched.partition(int(part.partition[m]))
            start = int(rank[part.first[m]] - rank[partition.positions[0]])
            states = tuple(part.state_of_item[bounds[m] : bounds[m + 1]].tolist())
            match = RowMatch(int(part.number[m]), start, states)
            place = MatchPlace(program, partition.columns, partition.n_rows, match)
            values[m] = [measure.call(place, -1) for measure in self.program.measures]
        return values

    def items(self, part: RowMatchSet) -> Lineage:
        """Return the rows of a part."""
        return part.lineage

    def variables(self, part: RowMatchSet) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""
        names = np.array([*self.program.program.automaton.variable_of_state, ""], dtype=object)
        return names[part.state_of_item]

    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Raise: SQL has its own aggregates."""
        raise UnsupportedQueryError("aggregate: write the aggregates in MEASURES, or aggregate to_frame()")


def find_rows(searched: SearchedRows) -> RowsFound:
    """Search the rows and return the matches."""
    whole, n_matches = all_row_matches(searched)
    return RowsFound(searched, whole, n_matches - len(whole))


def _only_rows(program: Any) -> str | None:
    return None if isinstance(program, BoundRowQuery) else "it runs MATCH_RECOGNIZE only"


ROWS_ENGINE = Engine("preference", "finds the matches that SQL prefers, one partition at a time", _only_rows)


def matches_of_rows(
    query: RowPatternQuery | SelectedRows,
    source: Source,
    native: Callable[[Frame], Frame],
    params: Mapping[str, Any] | None = None,
) -> Matches:
    """Search a frame and return the matches with rows as pictures and boards read them."""
    bound = bind_row_query(query, source.schema, params, source.clock)
    return Matches(find_rows(searched_rows(source, bound)), source, ROWS_ENGINE, native)


# The matches of MATCH_RECOGNIZE in a frame in memory.


class RowsInMemory:
    """The matches in a frame in memory, as `RowPatternMatches` reads them."""

    def __init__(
        self,
        query: RowPatternQuery | SelectedRows,
        source: Source,
        native: Callable[[Frame], Frame],
        params: Mapping[str, Any] | None = None,
    ):
        self.source, self.native, self.frame = source, native, source.frame
        self.bound = bind_rows(query, source.schema, params)
        self.search = search_rows(self.bound, source)

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The query as a value."""
        return self.bound.query

    def count(self) -> int:
        """Return the number of matches, with empty ones."""
        return self.search.n_matches

    def as_matches(self) -> Matches:
        """Return the matches that have rows as pictures read them."""
        return matches_of_rows(self.query, self.source, self.native, self.bound.params)

    # --- the result as a table

    @property
    def _columns(self) -> tuple[dict[str, ResultColumn], int]:
        return self._result[:2]

    @cached_property
    def _result(self) -> tuple[dict[str, ResultColumn], int, int, int]:
        """The columns of the result, and its number of rows, after WHERE, and before it."""
        columns, n_before = result_columns(self.bound, self.source, self.search)
        if self.bound.selected is None:
            return columns, n_before, n_before, n_before
        projection = project(self.bound.selected, columns, n_before, self.bound.params)
        limit, n_rows = self.bound.selected.limit, max(projection.n_rows - self.bound.selected.offset, 0)
        n_rows = n_rows if limit is None else min(limit, n_rows)
        return order_and_limit(self.bound.selected, projection), n_rows, projection.n_rows, n_before

    def n_rows(self) -> int:
        """Return the number of rows of the result."""
        return self._columns[1]

    def to_frame(self) -> Frame:
        """Return the rows of the result."""
        return self._frame(None)

    def head(self, n: int) -> Frame:
        """Return the first rows of the result."""
        return self._frame(np.arange(min(n, self.n_rows())))

    def sample(self, n: int, seed: int) -> Frame:
        """Return a uniform sample of the rows of the result, in their order."""
        n_rows = self.n_rows()
        drawn = sorted(Random(seed).sample(range(n_rows), min(n, n_rows)))
        return self._frame(np.array(drawn, np.int64))

    def _frame(self, rows: np.ndarray | None) -> Frame:
        columns, _ = self._columns
        measured = {
            name: (column if rows is None else column.take(rows)).measured()
            for name, column in columns.items()
        }
        return self.native(self.source.result(measured))

    # --- the matched rows

    def matched_rows(self) -> Frame:
        """Return the matched rows of the frame, after ``match`` and ``variable``."""
        return self.native(self.source.rows(self._rows, self._numbers()))

    def table(self, rows: str) -> pa.Table:
        """Return the rows of the result, or the matched rows, without an index."""
        if rows == "one":
            measured = {name: column.measured() for name, column in self._columns[0].items()}
            arrays = {
                name: self.source.arrow(values.column, values.rows) if isinstance(values, Picked) else values
                for name, values in measured.items()
            }
            return pa.table(arrays)
        check_free(self._numbers(), self.source.schema)
        names = [name for name in self.source.schema if name not in self.source.duplicates]
        columns = {name: self.source.arrow(name, self._rows) for name in names}
        return pa.table({**{name: pa.array(values) for name, values in self._numbers().items()}, **columns})

    def lineage(self, number: int | None) -> pd.DataFrame:
        """Return ``match``, ``variable``, ``position`` and ``index`` of each matched row."""
        rows, first = self._rows, self.search.found.first_state_of_match
        items = slice(None) if number is None else slice(first[number], first[number + 1])
        numbers = {name: values[items] for name, values in self._numbers().items()}
        labels = self.source.index_labels(rows[items])
        return pd.DataFrame({**numbers, "position": rows[items], "index": labels})

    def _numbers(self) -> dict[str, np.ndarray]:
        matches = self.search.found
        return {"match": match_of_item(matches), "variable": self.bound.labels[matches.states]}

    def tag(self) -> Frame:
        """Return the frame with ``match`` and ``variable`` as its last columns."""
        rows, numbers = self._rows, self._numbers()
        match = np.full(self.source.n_rows, -1, np.int64)
        match[rows] = numbers["match"]
        if shared := len(rows) - int(np.count_nonzero(match >= 0)):
            raise CepError(several_matches(shared))
        variable = np.full(self.source.n_rows, None, dtype=object)
        variable[rows] = numbers["variable"]
        columns = {
            "match": pd.arrays.IntegerArray(match, match < 0),
            "variable": pd.array(variable, dtype="string"),
        }
        return self.native(self.source.tagged(columns))

    # --- one by one

    def matches(self) -> Iterator[Match]:
        """Yield the matches with their final measures and their rows."""
        for number in range(self.count()):
            yield self.match(number)

    def match(self, number: int) -> Match:
        """Return a match by its number from 0."""
        matches = self.search.found
        items = slice(*matches.first_state_of_match[number : number + 2])
        variables = self.bound.labels[matches.states[items]]
        rows = self.source.rows(self._rows[items], {"variable": variables})
        table = self._measures
        measures = {name: plain_value(table[name].iloc[number]) for name in table.columns}
        return Match(number, measures, self.native(rows))

    @cached_property
    def _rows(self) -> np.ndarray:
        return row_of_item(self.search)

    @cached_property
    def _measures(self) -> pd.DataFrame:
        """The partition columns and the measures at the last row of each match."""
        columns, _ = result_columns(self.bound, self.source, self.search, "one")
        measured = {name: column.measured() for name, column in columns.items()}
        return as_pandas(self.source.result(measured))

    def said(self) -> str:
        """Return how many matches there are, and where."""
        n, by = self.count(), ", ".join(self.bound.partition_by)
        n_parts = self.search.order.n_partitions
        parts = f", {n_parts:,} partition{'s' * (n_parts != 1)} by {by}"
        matches = f"{n:,} match{'es' * (n != 1)} of '{self.bound.clause.pattern}'"
        return f"{matches} in {self.source.n_rows:,} rows{parts if by else ''}{self._said_of_select()}"

    def _said_of_select(self) -> str:
        """Return how many rows WHERE, OFFSET and LIMIT keep; empty without them."""
        selected = self.bound.selected
        if selected is None or not clauses_that_drop(selected):
            return ""
        _, n_rows, n_kept, n_before = self._result
        text = ""
        if selected.where is not None:
            text = f"; WHERE keeps {n_kept:,} of {_rows_text(n_before)}"
        if selected.limit is not None or selected.offset:
            both = selected.limit is not None and selected.offset
            clause = "OFFSET and LIMIT keep" if both else "OFFSET keeps" if selected.offset else "LIMIT keeps"
            text += f"; {clause} {n_rows:,} of {_rows_text(n_kept)}"
        return text


def _rows_text(n: int) -> str:
    return f"{n:,} row{'s' * (n != 1)}"


def several_matches(n_rows: int | str) -> str:
    """Return the message for rows that belong to several matches."""
    return (
        f"{n_rows} matched rows belong to several matches, and a tagged row has one; "
        "use AFTER MATCH SKIP PAST LAST ROW, or to_frame('all')"
    )
