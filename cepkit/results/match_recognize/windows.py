"""The rows of a SELECT with a WINDOW that has a row pattern: a match in the frame of each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.values import ColumnScope, column_of, compile_value
from cepkit.engines.match_recognize.bound import bind_clause, check_select, prepare_rows
from cepkit.engines.match_recognize.matching import RowMatch
from cepkit.engines.match_recognize.output import find_window_matches, window_values
from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, PredicateError
from cepkit.events import INTEGER, ColumnType, Frame, Source
from cepkit.frames.row_order import order_of_rows, plain_values
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import SelectedRows, WindowedRows, listed_columns
from cepkit.limits import MemoryLimit, check_memory
from cepkit.progress import checkpoint
from cepkit.results.found import FoundResult, Limit, check_exact
from cepkit.results.match_recognize.memory import ROWS_ENGINE
from cepkit.results.match_recognize.search import (
    Projection,
    ResultColumn,
    column_of_measure,
    order_and_limit,
    project,
)

NO_MATCHES = "a WINDOW has rows, and no matches of its own; use to_frame(), or count()"
_MADE = "\0over"  # begins the names of columns that the SELECT computes from


class RowWindowInMemory(FoundResult):
    """The rows of a frame in memory, with measures of a row pattern in a WINDOW."""

    engine = ROWS_ENGINE
    cure = "Narrow the frame of the WINDOW"
    refusals: ClassVar = {"": NO_MATCHES}

    def __init__(
        self,
        query: WindowedRows,
        source: Source,
        native: Callable[[Frame], Frame],
        params: Mapping[str, Any] | None = None,
        memory_limit: MemoryLimit = "auto",
    ):
        self._source, self._native, self.memory_limit = source, native, memory_limit
        self._search = RowWindowSearch(query, source, params)

    @property
    def query(self) -> WindowedRows:
        """The query as a value."""
        return self._search.query

    @property
    def frame(self) -> Frame:
        """The frame that was searched."""
        return self._source.frame

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the number of matches, before ORDER BY and LIMIT. An empty match does not count."""
        check_exact(method, "matches of MATCH_RECOGNIZE are counted exactly")
        return self._search.count()

    def to_frame(self, rows: str = "one", limit: Limit = "auto") -> Frame:
        """Return the rows of the frame in their order, with the columns of the SELECT.

        A row whose match is empty or absent, and a row that a match before it skips, has nulls. COUNT is 0.
        """
        if rows != "one":
            self.refuse("rows='all'")
        columns = order_and_limit(self._search.selected, self._search.projection)
        return self._native(
            self._source.result({name: column.measured() for name, column in columns.items()})
        )

    def text(self) -> str:
        """Return the number of matches, and the rows."""
        n = self.count()
        matches = f"{n:,} match{'es' * (n != 1)} of '{self.query.rows.pattern}'"
        return f"{matches} in the frames of {self._source.n_rows:,} rows\n{self.to_frame()}"

    def html(self) -> None:
        """Return None: notebooks show the text."""
        return None


class RowWindowSearch:
    """The match of each row in its frame, and the columns of the SELECT."""

    def __init__(self, query: WindowedRows, source: Source, params: Mapping[str, Any] | None = None):
        self.query = query
        self._source, self._params = source, params
        schema, clause = source.schema, query.rows
        self.partition_by, self.order_by = bind_clause(clause, schema)
        self._program, measures = prepare_rows(query.rows, source.schema, params)
        self._measure_of = {
            name.lower(): measure for (name, _), measure in zip(query.rows.measures, measures, strict=True)
        }
        trees = [tree for _, tree in query.columns or ()]
        self._over = [
            *dict.fromkeys(node for tree in trees for node in tree.walk() if isinstance(node, rp.OverWindow))
        ]
        self._values = [self._compiled(node.operand) for node in self._over]
        self._check_select()
        self._found = self._search()

    def _check_select(self) -> None:
        """Raise for what does not fit in WHERE, which reads the table, and in the SELECT."""
        schema, where = self._source.schema, self.query.where
        if where is not None:
            scope = ColumnScope(self.query.rows.source, schema, self._params, inside=True)
            scope.compiled(where, "WHERE", is_condition=True)
        hidden = {f"{_MADE}{i}": measure.type for i, measure in enumerate(self._values)}
        check_select(self.selected, {**schema, **hidden}, self._params)

    def _tree_of(self, tree: ex.Expression) -> ex.Expression:
        """Return the expression of a function OVER the window: a name stands for a measure."""
        if not isinstance(tree, ex.Attribute):
            return _navigation(tree) if isinstance(tree, ex.Call) else tree
        return next(
            measure for name, measure in self.query.rows.measures if name.lower() == tree.name.lower()
        )

    def _compiled(self, tree: ex.Expression) -> Compiled:
        """Return a function OVER the window as a measure; ROW_NUMBER is none, and is computed later."""
        if isinstance(tree, ex.Attribute):
            return self._measure_of[tree.name.lower()]
        if isinstance(tree, ex.Call):
            tree = _navigation(tree)
        if isinstance(tree, ex.Call):
            return Compiled(lambda place, row: None, ColumnType(INTEGER))
        return compile_value(tree, self._source.schema, self._params)

    def _search(self) -> list[tuple[np.ndarray, list[int], Mapping[str, list], list[RowMatch | None]]]:
        """Return rows, ends of frames, columns and matches of each partition."""
        source, clause = self._source, self.query.rows
        schema = source.schema
        trees = [
            *(tree for _, tree in (*clause.define, *clause.measures)),
            *(node.operand for node in self._over),
        ]
        measures = set(self._measure_of)
        used = {
            column_of(node.name or "", schema)
            for tree in trees
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Attribute | ex.Reference)
            and not (tree is node and isinstance(node, ex.Attribute) and node.name.lower() in measures)
        }
        used |= {self._program.within[0]} if self._program.within else set()
        end = self.query.frame_end
        if isinstance(end, str):
            used.add(column_of(end, schema))
        values = {name: plain_values(source.column(name)) for name in sorted(used)}
        keep = kept_rows(self.query, source, self._params)
        self.order = order_of_rows(source, self.partition_by, self.order_by)
        parts, n_bytes = [], 0
        for every in self.order.partitions():
            checkpoint()
            rows = every if keep is None else every[keep[every]]
            columns = {name: column[rows].tolist() for name, column in values.items()}
            ends = _frame_ends(len(rows), columns[column_of(end, schema)] if isinstance(end, str) else end)
            matches = find_window_matches(self._program, columns, ends, seek=self.query.seek)
            n_bytes += sum(match.n_bytes for match in matches if match is not None)
            check_memory(n_bytes, "the matches", is_held=True)
            parts.append((rows, ends, columns, matches))
        return parts

    def count(self) -> int:
        """Return the number of matches."""
        return sum(match is not None for *_, matches in self._found for match in matches)

    @property
    def selected(self) -> SelectedRows:
        """The SELECT, with a column of its own for each function OVER the window."""
        query = self.query
        names = {node: f"{_MADE}{i}" for i, node in enumerate(self._over)}

        def with_name(node: ex.Expression) -> ex.Expression:
            return ex.Attribute(names[node]) if isinstance(node, rp.OverWindow) else node

        listed = listed_columns(query.columns, self._source.schema)
        shown = tuple((name, rebuilt(tree, ex.Expression, with_name)) for name, tree in listed)
        return SelectedRows(
            query.table, query.rows, shown, order_by=query.order_by, limit=query.limit, offset=query.offset
        )

    @cached_property
    def projection(self) -> Projection:
        """The columns of the SELECT before ORDER BY and LIMIT, in the order of the frame."""
        empty = [0 if _counts(node.operand) else None for node in self._over]
        numbers = [i for i, node in enumerate(self._over) if _is_row_number(node.operand)]
        rows: list[int] = []
        values: list[list[Any]] = []
        for order, ends, columns, matches in self._found:
            checkpoint()
            entries = window_values(self._program, self._values, columns, ends, matches, empty)
            for number, entry in enumerate(entries, start=1):
                for place in numbers:
                    entry[place] = number
            rows += order.tolist()
            values += entries
        by_row = np.argsort(np.array(rows, np.int64), kind="stable")
        places = np.array(rows, np.int64)[by_row]
        columns = _columns_of_table(self._source, places)
        hidden = {
            f"{_MADE}{i}": column_of_measure(
                self._tree_of(node.operand), measure.type, [values[row][i] for row in by_row], self._source
            )
            for i, (node, measure) in enumerate(zip(self._over, self._values, strict=True))
        }
        return project(self.selected, columns | hidden, len(places), self._params)


def kept_rows(
    query: WindowedRows, source: Source, params: Mapping[str, Any] | None = None
) -> np.ndarray | None:
    """Return whether WHERE holds for each row; None without WHERE."""
    if query.where is None:
        return None
    n_rows = source.n_rows
    columns = _columns_of_table(source, np.arange(n_rows))
    shown = {_MADE: ResultColumn(ColumnType(INTEGER), list(range(n_rows)))}
    selected = SelectedRows(query.table, query.rows, ((_MADE, ex.Attribute(_MADE)),), where=query.where)
    kept = np.zeros(n_rows, bool)
    kept[project(selected, columns | shown, n_rows, params).columns[_MADE].values()] = True
    return kept


def _columns_of_table(source: Source, rows: np.ndarray) -> dict[str, ResultColumn]:
    return {
        name: ResultColumn(column_type, None, Picked(name, rows), source)
        for name, column_type in source.schema.items()
    }


def _navigation(tree: ex.Call) -> ex.Expression:
    """Return FIRST_VALUE, LAST_VALUE or NTH_VALUE as FIRST or LAST; ROW_NUMBER as it is."""
    name, arguments = tree.function, tree.arguments
    wanted = {"row_number": 0, "nth_value": 2}.get(name, 1)
    if len(arguments) != wanted:
        raise PredicateError(
            f"{name.upper()} takes {wanted} argument{'s' * (wanted != 1)}, {len(arguments)} given"
        )
    if name == "row_number":
        return tree
    if name == "nth_value":
        at = arguments[1]
        if not isinstance(at, ex.Literal) or type(at.value) is not int or at.value < 1:
            raise PredicateError("NTH_VALUE counts rows with a whole number from 1")
        return rp.Navigation("first", arguments[0], at.value - 1)
    return rp.Navigation("first" if name == "first_value" else "last", arguments[0])


def _is_row_number(tree: ex.Expression) -> bool:
    return isinstance(tree, ex.Call) and tree.function == "row_number"


def _counts(tree: ex.Expression) -> bool:
    return isinstance(tree, rp.RowAggregate) and tree.function in ("count", "count_if")


def _frame_ends(n_rows: int, end: int | Sequence[Any] | None) -> list[int]:
    """Return the end of the frame of each row, exclusive."""
    if end is None:
        return [n_rows] * n_rows
    after = [end] * n_rows if isinstance(end, int) else end
    if any(type(n) is not int or n < 0 for n in after):
        raise CepError("ROWS BETWEEN: the rows that follow are whole numbers from 0, and not null")
    return [min(n_rows, row + 1 + n) for row, n in enumerate(after)]
