"""`RowPatternMatches`, the result of MATCH_RECOGNIZE on a frame in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.values import column_of, compile_value
from cepkit.engines.match_recognize.matching import RowMatch, find_row_matches
from cepkit.engines.match_recognize.output import output_rows
from cepkit.engines.match_recognize.preparing import prepare_rows
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, ColumnType, Frame, Source
from cepkit.frames.row_order import partitions_in_order, plain_values
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey
from cepkit.progress import checkpoint


class RowPatternMatches:
    """The matches of MATCH_RECOGNIZE in a frame.

    `cepkit.match` and ``df.cep.match`` return it for the text of a MATCH_RECOGNIZE clause, or of a SELECT
    around one. Matches are numbered from 1 in each partition.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"t": range(6), "price": [5, 3, 2, 4, 1, 6]})
    >>> found = cep.match(walk, '''MATCH_RECOGNIZE (
    ...     ORDER BY t MEASURES FIRST(down.price) AS top, LAST(down.price) AS bottom, up.price AS price
    ...     PATTERN (down{2,} up) DEFINE down AS price < PREV(price) OR PREV(price) IS NULL,
    ...     up AS price > PREV(price))''')
    >>> found.count()
    1
    >>> found.to_frame()
       top  bottom  price
    0    5       2      4
    """

    def __init__(
        self,
        query: RowPatternQuery | SelectedRows,
        source: Source,
        native: Callable[[Frame], Frame],
        params: Mapping[str, Any] | None = None,
    ):
        self.query = query
        self._selected = query if isinstance(query, SelectedRows) else None
        self._rows: RowPatternQuery = query.rows if isinstance(query, SelectedRows) else query
        self._source, self._native, self._params = source, native, params
        self._program, self._measures = prepare_rows(self._rows, source.schema, params)
        self._check_names()
        self._found = self._search()

    def _check_names(self) -> None:
        """Raise for columns that do not exist, and for names that occur twice in the result."""
        schema = self._source.schema
        self._partition_by = [column_of(name, schema) for name in self._rows.partition_by]
        self._order_by = [
            SortKey(column_of(key.column, schema), key.descending, key.nulls_first)
            for key in self._rows.order_by
        ]
        shown = self._partition_by if self._rows.rows_per_match == "one" else list(schema)
        for name, _ in self._rows.measures:
            if name in shown:
                raise CepError(f"MEASURES: the result already has a column {name!r}; write AS another name")

    def _search(self) -> list[tuple[np.ndarray, Mapping[str, list], list[RowMatch]]]:
        """Return rows, columns and matches of each partition."""
        schema = self._source.schema
        trees = [tree for _, tree in (*self._rows.define, *self._rows.measures)]
        used = {
            column_of(node.name or "", schema)
            for tree in trees
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Attribute | ex.Reference)
        }
        used |= {self._program.within[0]} if self._program.within else set()
        values = {name: plain_values(self._source.column(name)) for name in sorted(used)}
        found = []
        for rows in partitions_in_order(self._source, self._partition_by, self._order_by):
            checkpoint()
            columns = {name: column[rows].tolist() for name, column in values.items()}
            found.append((rows, columns, find_row_matches(self._program, columns, len(rows))))
        return found

    def count(self) -> int:
        """Return the number of matches, with empty ones, before WHERE and LIMIT.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]})
        >>> cep.match(frame, "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x = 1)").count()
        2
        """
        return sum(len(matches) for _, _, matches in self._found)

    def to_frame(self) -> Frame:
        """Return the rows of the result, as the same kind of frame as the input.

        One row per match has the partition columns and the measures. All rows per match have the partition
        columns, the order columns, the measures and the other columns of the input.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]})
        >>> text = '''MATCH_RECOGNIZE (MEASURES CLASSIFIER() AS variable ALL ROWS PER MATCH
        ...     PATTERN (A B) DEFINE A AS x = 1)'''
        >>> cep.match(frame, text).to_frame()
          variable  x
        0        A  1
        1        B  2
        """
        columns, n_rows = self._columns
        if self._selected is not None:
            columns = _selected(self._selected, columns, n_rows, self._params)
        measured = {name: column.measured() for name, column in columns.items()}
        return self._native(self._source.result(measured))

    @cached_property
    def _columns(self) -> tuple[dict[str, _ResultColumn], int]:
        """The columns of the result of the clause, and the number of rows."""
        rows: list[np.ndarray] = []
        values: list[list[Any]] = []
        shown = self._rows.rows_per_match
        for order, columns, matches in self._found:
            checkpoint()
            for row, made in output_rows(self._program, self._measures, shown, columns, len(order), matches):
                rows.append(order[row])
                values.append(made)
        places, schema = np.array(rows, np.int64), self._source.schema
        before = list(self._partition_by)
        after: list[str] = []
        if shown != "one":
            before = [*dict.fromkeys([*before, *(key.column for key in self._order_by)])]
            after = [name for name in schema if name not in before]
        made = {
            name: _ResultColumn(measure.type, [row[i] for row in values])
            for i, ((name, _), measure) in enumerate(zip(self._rows.measures, self._measures, strict=True))
        }
        picked = {
            name: _ResultColumn(schema[name], None, Picked(name, places), self._source)
            for name in [*before, *after]
        }
        ordered = [*before, *made, *after]
        return {name: (made | picked)[name] for name in ordered}, len(places)

    def __repr__(self) -> str:
        n = self.count()
        matches = f"{n:,} match{'es' * (n != 1)} of '{self._rows.pattern}'"
        return f"{matches} in {self._source.n_rows:,} rows\n{self.to_frame()}"


@dataclass(frozen=True)
class _ResultColumn:
    """A column of the result: computed values, or rows of a column of the source."""

    type: ColumnType
    computed: list[Any] | None
    picked: Picked | None = None
    source: Source | None = None

    def values(self) -> list[Any]:
        """Return the values, times as ticks; None is null."""
        if self.picked is None or self.source is None:
            return self.computed or []
        return plain_values(self.source.column(self.picked.column))[self.picked.rows].tolist()

    def measured(self) -> Measured:
        """Return the column as frames take it."""
        return self.picked if self.picked is not None else arrow_of(self.computed or [], self.type)

    def take(self, rows: np.ndarray) -> _ResultColumn:
        """Return these rows of the column."""
        if self.picked is not None:
            return replace(self, picked=Picked(self.picked.column, self.picked.rows[rows]))
        values = self.computed or []
        return replace(self, computed=[values[row] for row in rows])


@dataclass(frozen=True)
class _ResultRows:
    """The rows of a result, as the expressions of the SELECT see them."""

    columns: Mapping[str, list[Any]]


def _selected(
    query: SelectedRows, columns: dict[str, _ResultColumn], n_rows: int, params: Mapping[str, Any] | None
) -> dict[str, _ResultColumn]:
    """Return the columns of the SELECT, after WHERE, ORDER BY and LIMIT."""

    def computed(tree: ex.Expression, of: Mapping[str, _ResultColumn], n: int) -> _ResultColumn:
        schema = {name: column.type for name, column in of.items()}
        compiled = compile_value(tree, schema, params, inside=True)
        names = {
            column_of(node.name, schema)
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Attribute)
        }
        rows = _ResultRows({name: of[name].values() for name in names})
        return _ResultColumn(compiled.type, [compiled.call(rows, row) for row in range(n)])

    keep = np.arange(n_rows)
    if query.where is not None:
        holds = computed(query.where, columns, n_rows).values()
        keep = np.flatnonzero([value is True for value in holds])
        columns = {name: column.take(keep) for name, column in columns.items()}
    shown = columns
    if query.columns is not None:
        shown = {
            name: columns[column_of(tree.name, columns)]
            if isinstance(tree, ex.Attribute)
            else computed(tree, columns, len(keep))
            for name, tree in query.columns
        }
    order = list(range(len(keep)))
    for key in reversed(query.order_by):
        every = {**columns, **shown}
        values = every[column_of(key.column, every)].values()
        present = [row for row in order if values[row] is not None]
        missing = [row for row in order if values[row] is None]
        present.sort(key=lambda row, values=values: values[row], reverse=key.descending)
        order = [*missing, *present] if key.nulls_first else [*present, *missing]
    rows = np.array(order[: query.limit], np.int64)
    return {name: column.take(rows) for name, column in shown.items()}


_ARROW = {INTEGER: pa.int64(), FLOAT: pa.float64(), BOOLEAN: pa.bool_(), TEXT: pa.string()}


def arrow_of(values: list[Any], kind: ColumnType) -> pa.Array:
    """Return values as an Arrow array of a type. Values that do not fit choose the type themselves."""
    if kind.kind == TIME:
        wanted = pa.timestamp(kind.unit, kind.timezone)
    elif kind.kind == DURATION:
        wanted = pa.duration(kind.unit)
    else:
        wanted = _ARROW.get(kind.kind)
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array(values)
