"""The matches of MATCH_RECOGNIZE in a frame in memory, with their rows, and as pictures read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, ClassVar, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.match_recognize.bound import (
    MADE,
    BoundRowQuery,
    BoundWindow,
    RowMatchSet,
    SearchedRows,
    all_row_matches,
)
from cepkit.engines.match_recognize.matching import RowMatch, find_window_matches
from cepkit.engines.match_recognize.measuring import MatchPlace, window_values
from cepkit.engines.regex_measures import Measured, Picked
from cepkit.engines.shared.match_set import Lineage
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import INTEGER, ColumnType, Events, Frame, Source
from cepkit.frames.pandas import as_pandas
from cepkit.frames.row_order import order_of_rows, plain_of, searched_rows
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import counted
from cepkit.language.match_recognize.query import SelectedRows, WindowedRows, clauses_that_drop
from cepkit.limits import MemoryLimit, bound_memory, check_memory
from cepkit.planning.planner import Engine
from cepkit.progress import checkpoint, show_progress
from cepkit.results.found import (
    SHOWN,
    FoundResult,
    FoundTable,
    Limit,
    Match,
    check_exact,
    check_key,
    check_limit,
    html_of_table,
    limit_of,
    number_of,
    paragraphs,
    plain_value,
    text_of_table,
)
from cepkit.results.in_memory import FoundInMemory, in_arrow, table_of_rows, tags_of_rows
from cepkit.results.row_pattern_search import (
    Projection,
    ResultColumn,
    RowPatternSearch,
    arrow_of,
    column_of_measure,
    match_of_item,
    order_and_limit,
    project,
    result_columns,
    row_of_item,
)
from cepkit.values import dataclass, replace

ROWS_CURE = "Narrow the pattern, or write AFTER MATCH SKIP PAST LAST ROW and ONE ROW PER MATCH"
NO_AGGREGATES = "aggregate: write the aggregates in MEASURES, or aggregate to_frame()"

# The matches of MATCH_RECOGNIZE that have rows, in the order of other matches: for pictures and boards.


@dataclass(frozen=True, eq=False, kw_only=True)
class RowsFound(FoundInMemory[RowMatchSet]):
    """The matches with rows, all of them in memory. They are in the order of their last rows."""

    # ``n_empty`` is the number of empty matches, which no picture can show.

    program: BoundRowQuery  # the query, bound to the columns of the frame
    searched: SearchedRows
    whole: RowMatchSet
    n_empty: int = 0
    hint = "df.cep.explain(…) shows how the query was read, df.cep.funnel(…) where matches are lost"

    @property
    def events(self) -> Events:
        return self.searched.events

    def measure(self, part: RowMatchSet) -> dict[str, Measured]:
        """Return one row for each match: the partition columns and the measures at its last row."""
        # A query without measures has the order columns of the first and the last row, and the number of
        # rows.
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
        return part.lineage

    def variables(self, part: RowMatchSet) -> np.ndarray:
        names = np.array([*self.program.program.automaton.variable_of_state, ""], dtype=object)
        return names[part.state_of_item]

    refusals: ClassVar = {"aggregate": NO_AGGREGATES}


def _only_rows(program: Any) -> str | None:
    return None if isinstance(program, BoundRowQuery) else "it runs MATCH_RECOGNIZE only"


ROWS_ENGINE = Engine("preference", "finds the matches that SQL prefers, one partition at a time", _only_rows)


def find_rows(
    searched: SearchedRows, source: Source, native: Callable[[Frame], Frame] = lambda frame: frame
) -> RowsFound:
    """Search the rows of a frame, and return the matches that have rows."""
    whole, n_matches = all_row_matches(searched)
    return RowsFound(
        program=searched.bound, searched=searched, whole=whole, n_empty=n_matches - len(whole),
        source=source, engine=ROWS_ENGINE, native=native,
    )  # fmt: skip


def check_times_out(bound: BoundRowQuery) -> None:
    """Raise if partial matches that ran out of time have no rows."""
    if not bound.program.timed_out:
        raise UnsupportedQueryError(
            "undecided: only ONE ROW PER MATCH WITH TIMED OUT MATCHES has rows that wait for the end of a "
            "WITHIN"
        )


# The matches of MATCH_RECOGNIZE in a frame in memory.


class RowsInMemory(FoundResult):
    """The matches in a frame in memory."""

    engine = ROWS_ENGINE
    cure = ROWS_CURE
    refusals: ClassVar = {
        "aggregate": NO_AGGREGATES,
        "": "MATCH_RECOGNIZE has no such matches. matches[number] is one match, head(), sample() and "
        "to_frame() have the rows of the result, and lineage() has all matched rows",
    }

    def __init__(
        self, bound: BoundRowQuery, source: Source, native: Callable[[Frame], Frame],
        memory_limit: MemoryLimit = "auto",
    ):  # fmt: skip
        self.source, self.native, self.memory_limit = source, native, memory_limit
        self.bound, self.params, self.query = bound, bound.params or None, bound.query.whole
        self.search = RowPatternSearch(bound, source)

    def __deepcopy__(self, memo: dict) -> RowsInMemory:
        """Return the same matches. They never change."""
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise `CepError`: the conditions of the query are functions, which cannot be pickled."""
        raise CepError(
            "the result of MATCH_RECOGNIZE cannot be pickled. Pickle the frame that to_frame() returns, or "
            "write the rows with write_parquet()"
        )

    @property
    def frame(self) -> Frame:
        return self.source.frame

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the number of matches, with empty ones."""
        check_exact(method, "matches of MATCH_RECOGNIZE are counted exactly")
        return self.search.n_matches

    def undecided(self) -> Frame:
        check_times_out(self.bound)
        bound = replace(self.bound, undecided=True)
        return RowsInMemory(bound, self.source, self.native, self.memory_limit).to_frame()

    def drawn(self, what: str) -> RowsFound:
        bound = self.bound.ordered_by(self.source.clock)
        return find_rows(searched_rows(self.source, bound), self.source, self.native)

    # --- the result as a table

    @cached_property
    def _columns(self) -> dict[str, ResultColumn]:
        selected, projection = self.bound.selected, self.search.projection
        return projection.columns if selected is None else order_and_limit(selected, projection)

    def n_rows(self) -> int:
        selected, n_rows = self.bound.selected, self.search.projection.n_rows
        return n_rows if selected is None else len(range(n_rows)[selected.offset :][: selected.limit])

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> Frame:
        check_limit(self.count(), limit_of(limit, None))
        if rows == "one":
            return self._frame(None)
        return self.native(self.source.rows(self._rows, self._numbers()))

    def head(self, n: int) -> Frame:
        return self._frame(np.arange(min(n, self.n_rows())))

    def sample(self, n: int, seed: int) -> Frame:
        n_rows = self.n_rows()
        drawn = sorted(Random(seed).sample(range(n_rows), min(n, n_rows)))
        return self._frame(np.array(drawn, np.int64))

    def _frame(self, rows: np.ndarray | None) -> Frame:
        """Return some rows of the result as a frame; None: all rows."""
        measured = {
            name: (column if rows is None else column.take(rows)).measured()
            for name, column in self._columns.items()
        }
        return self.native(self.source.result(measured))

    # --- the matched rows

    def write_parquet(self, path: str | os.PathLike, rows: str, overwrite: bool) -> int:
        """Write the result, or the rows of all matches, to a file; return the number of rows."""
        from cepkit.frames.writing import check_target, write_blocks

        target = check_target(path, overwrite=overwrite)
        with show_progress("writing rows"), bound_memory(self.memory_limit, self.cure):
            if rows == "one":
                columns = {name: in_arrow(c.measured(), self.source) for name, c in self._columns.items()}
                table = pa.table(columns)
            else:
                numbers = self._numbers()
                table = table_of_rows(
                    self.source, self._rows, pa.array(numbers["match"]), numbers["variable"]
                )
            return write_blocks(target, table.slice(0, 0), [table])

    def lineage(self, number: int | None, limit: Limit) -> pd.DataFrame:
        """Return the rows of all matches, or of one, with their variables."""
        number = None if number is None else number_of(number, self.count())
        check_limit(self.count(), limit_of(limit, None))
        rows, first = self._rows, self.search.found.first_state_of_match
        items = slice(None) if number is None else slice(first[number], first[number + 1])
        numbers = {name: values[items] for name, values in self._numbers().items()}
        labels = self.source.index_labels(rows[items])
        return pd.DataFrame({**numbers, "position": rows[items], "index": labels})

    def _numbers(self) -> dict[str, np.ndarray]:
        """Return the number of the match and the name of the variable for each matched row."""
        matches = self.search.found
        return {"match": match_of_item(matches), "variable": self.bound.labels[matches.states]}

    def tag(self, overlap: str = "error") -> Frame:
        """Return the input frame with the match and the variable of each row."""
        numbers = self._numbers()
        tags = self._rows, numbers["match"], numbers["variable"]
        return self.native(
            self.source.tagged(tags_of_rows(self.source.n_rows, [tags], overlap, SEVERAL_MATCHES))
        )

    # --- one by one

    def matches(self) -> Iterator[Match]:
        for number in range(self.count()):
            yield self.match(number)

    def narrow(self, key: slice) -> FoundResult:
        """Raise `WrongTypeError`: the matches have no slices."""
        check_key(key)
        return self

    def match(self, key: int) -> Match:
        """Return the match with a number, which may count from the end."""
        check_key(key)
        number, matches = number_of(key, self.count()), self.search.found
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
        columns, _ = result_columns(self.search, "one")
        measured = {name: column.measured() for name, column in columns.items()}
        return as_pandas(self.source.result(measured))

    def text(self) -> str:
        return text_of_table(self._said(), *self._shown()) if self.n_rows() else self._said()

    def html(self) -> str:
        """Return what a notebook shows."""
        head = paragraphs(self._said())
        if not self.n_rows():
            return head
        table, more = self._shown()
        return html_of_table(head, table, f"{more}; <code>to_frame()</code> has them all" if more else "")

    def _shown(self) -> tuple[pd.DataFrame, str]:
        more = self.n_rows() - SHOWN
        return as_pandas(self.head(SHOWN)), f"… {more:,} more rows" if more > 0 else ""

    def _said(self) -> str:
        """Return the first line of the result: the numbers of matches and rows, and the pattern."""
        n, by = self.count(), ", ".join(self.bound.query.partition_by)
        n_parts = self.search.order.n_partitions
        parts = f", {counted(n_parts, 'partition')} by {by}"
        matches = f"{n:,} match{'es' * (n != 1)} of '{self.bound.query.pattern}'"
        return f"{matches} in {self.source.n_rows:,} rows{parts if by else ''}{self._said_of_select()}"

    def _said_of_select(self) -> str:
        """Return how many rows WHERE, OFFSET and LIMIT keep; empty without them."""
        selected = self.bound.selected
        if selected is None or not clauses_that_drop(selected):
            return ""
        text, kept = "", self.search.projection
        if selected.where is not None:
            text = f"; WHERE keeps {kept.n_rows:,} of {counted(kept.n_before, 'row')}"
        if selected.limit is not None or selected.offset:
            both = selected.limit is not None and selected.offset
            clause = "OFFSET and LIMIT keep" if both else "OFFSET keeps" if selected.offset else "LIMIT keeps"
            text += f"; {clause} {self.n_rows():,} of {counted(kept.n_rows, 'row')}"
        return text


SEVERAL_MATCHES = (
    "matched rows belong to several matches, and a tagged row has one; overlap='first' takes the first match "
    "of each row, and to_frame('all') has all"
)


# The rows of a SELECT with a WINDOW that has a row pattern: a match in the frame of each row.

NO_MATCHES = "a WINDOW has rows, and no matches of its own; use to_frame(), or count()"


class RowWindowInMemory(FoundTable):
    """The rows of a frame in memory, with measures of a row pattern in a WINDOW."""

    engine = ROWS_ENGINE
    cure = "Narrow the frame of the WINDOW"
    refusals: ClassVar = {"": NO_MATCHES}

    def __init__(
        self, bound: BoundWindow, source: Source, native: Callable[[Frame], Frame],
        memory_limit: MemoryLimit = "auto",
    ):  # fmt: skip
        self._source, self._native, self.memory_limit = source, native, memory_limit
        self._search, self.query = RowWindowSearch(bound, source), bound.query

    @property
    def frame(self) -> Frame:
        return self._source.frame

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the number of matches, before ORDER BY and LIMIT. An empty match does not count."""
        check_exact(method, "matches of MATCH_RECOGNIZE are counted exactly")
        return self._search.n_matches

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> Frame:
        """Return the rows of the SELECT with the columns of the window."""
        # A row whose match is empty or absent, and a row that a match before it skips, has nulls. COUNT is 0.
        self.refuse_matched(rows)
        columns = order_and_limit(self._search.bound.selected, self._search.projection)
        return self._native(
            self._source.result({name: column.measured() for name, column in columns.items()})
        )

    def text(self) -> str:
        n = self.count()
        matches = f"{n:,} match{'es' * (n != 1)} of '{self.query.rows.pattern}'"
        return f"{matches} in the frames of {self._source.n_rows:,} rows\n{self.to_frame()}"


class RowWindowSearch:
    """The match of each row in its frame, and the columns of the SELECT."""

    def __init__(self, bound: BoundWindow, source: Source):
        self.bound, self.source = bound, source
        values = {name: plain_of(source, name) for name in bound.columns}
        keep = kept_rows(bound.query, source, bound.params)
        self.order = order_of_rows(source, bound.partition_by, bound.order_by)
        # Rows, ends of frames, columns and matches of each partition.
        self._parts: list[tuple[np.ndarray, list[int], Mapping[str, list], list[RowMatch | None]]] = []
        end, n_bytes = bound.frame_end, 0
        for every in self.order.partitions():
            checkpoint()
            rows = every if keep is None else every[keep[every]]
            columns = {name: column[rows].tolist() for name, column in values.items()}
            ends = _frame_ends(len(rows), columns[end] if isinstance(end, str) else end)
            matches = find_window_matches(bound.program, columns, ends, seek=bound.query.seek)
            n_bytes += sum(match.n_bytes for match in matches if match is not None)
            check_memory(n_bytes, "the matches", is_held=True)
            self._parts.append((rows, ends, columns, matches))

    @property
    def n_matches(self) -> int:
        return sum(match is not None for *_, matches in self._parts for match in matches)

    @cached_property
    def projection(self) -> Projection:
        """The columns of the SELECT before ORDER BY and LIMIT, in the order of the frame."""
        bound = self.bound
        numbers = [i for i, tree in enumerate(bound.over) if isinstance(tree, ex.Call)]  # ROW_NUMBER
        rows: list[int] = []
        values: list[list[Any]] = []
        for order, ends, columns, matches in self._parts:
            checkpoint()
            entries = window_values(bound.program, bound.values, columns, ends, matches, bound.empty)
            for number, entry in enumerate(entries, start=1):
                for place in numbers:
                    entry[place] = number
            rows += order.tolist()
            values += entries
        by_row = np.argsort(np.array(rows, np.int64), kind="stable")
        places = np.array(rows, np.int64)[by_row]
        columns = _columns_of_table(self.source, places)
        hidden = {
            f"{MADE}{i}": column_of_measure(
                tree, measure.type, [values[row][i] for row in by_row], self.source
            )
            for i, (tree, measure) in enumerate(zip(bound.over, bound.values, strict=True))
        }
        return project(bound.selected, columns | hidden, len(places), bound.params)


def kept_rows(
    query: WindowedRows, source: Source, params: Mapping[str, Any] | None = None
) -> np.ndarray | None:
    """Return whether WHERE holds for each row; None without WHERE."""
    if query.where is None:
        return None
    n_rows = source.n_rows
    columns = _columns_of_table(source, np.arange(n_rows))
    shown = {MADE: ResultColumn(ColumnType(INTEGER), list(range(n_rows)))}
    selected = SelectedRows(query.table, query.rows, ((MADE, ex.Attribute(MADE)),), where=query.where)
    kept = np.zeros(n_rows, bool)
    kept[project(selected, columns | shown, n_rows, params).columns[MADE].values()] = True
    return kept


def _columns_of_table(source: Source, rows: np.ndarray) -> dict[str, ResultColumn]:
    return {
        name: ResultColumn(column_type, None, Picked(name, rows), source)
        for name, column_type in source.schema.items()
    }


def _frame_ends(n_rows: int, end: int | Sequence[Any] | None) -> list[int]:
    """Return the end of the frame of each row, exclusive."""
    if end is None:
        return [n_rows] * n_rows
    after = [end] * n_rows if isinstance(end, int) else end
    if any(type(n) is not int or n < 0 for n in after):
        raise CepError("ROWS BETWEEN: the rows that follow are whole numbers from 0, and not null")
    return [min(n_rows, row + 1 + n) for row, n in enumerate(after)]
