"""The work of the tasks of Spark for MATCH_RECOGNIZE: each searches whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.engines.match_recognize.found_rows import RowOrder
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.row_order import plain_values
from cepkit.frames.spark.tasks import Order, PartTask, Results, check_total_order
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey
from cepkit.results.match_recognize.memory import SEVERAL_MATCHES
from cepkit.results.match_recognize.search import (
    BoundRows,
    Projection,
    RowPatternSearch,
    bind_rows,
    match_of_item,
    place_of_item,
    project,
    result_columns,
    row_of_item,
    search_rows,
)

Told = list[tuple[str, Measured]]
Tell = Callable[[BoundRows, ArrowSource, RowPatternSearch], Told]


LATEST = "latest time"  # the name of a column


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTask(PartTask):
    """A task that searches the rows of MATCH_RECOGNIZE.

    With ``has_latest`` the last column is the latest time of the whole table, in each row.
    """

    query: RowPatternQuery | SelectedRows
    params: Mapping[str, Any] | None
    tell: Tell
    has_latest: bool = False

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Search the rows and yield what ``tell`` returns."""
        latest = None
        if self.has_latest:
            last = len(self.columns) - 1
            name = self.columns[last]
            latest = plain_values(ArrowSource(table.select([last]).slice(0, 1)).column(name))[0]
            table = table.remove_column(last)
        source = ArrowSource(table)
        bound = bind_rows(self.query, source.schema, self.params)
        search = search_rows(bound, source, latest)
        check_order(source, search.order, bound.partition_by, bound.order_by)
        yield source, self.tell(bound, source, search)


def check_order(
    source: ArrowSource, order: RowOrder, partition_by: tuple[str, ...], order_by: Sequence[SortKey]
) -> None:
    """Raise `OrderError` for rows of one partition that are equal in ORDER BY."""
    n, sizes = order.n_partitions, np.diff(order.first_place_of_partition)
    partition = np.repeat(np.arange(n, dtype=np.int32), sizes)
    rows = None if order.row_of_place is None else order.rows_between(0, order.n_places)
    events = Events(source.n_rows, {}, partition, n, rows)
    check_total_order(source, events, Order(partition_by, tuple(key.column for key in order_by)))


def tell_count(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
    """Return the number of matches."""
    return [("count", pa.array([search.n_matches], pa.int64()))]


def tell_projection(projected: Projection) -> Told:
    """Return the columns of a SELECT, and those that sort it."""
    shown = [(name, column.measured()) for name, column in projected.columns.items()]
    return [*shown, *((f"key {i}", key.measured()) for i, key in enumerate(projected.keys))]


def project_result(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Projection:
    """Return the columns of the result of a task, after WHERE."""
    columns, n_rows = result_columns(bound, source, search)
    if bound.selected is None:
        return Projection(columns, (), n_rows)
    return project(bound.selected, columns, n_rows, bound.params)


def tell_result(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
    """Return the columns of the result, and those that sort it."""
    return tell_projection(project_result(bound, source, search))


@dataclass(frozen=True, slots=True)
class TellDrawn:
    """The columns of the result, and a number for each row that does not depend on the tasks."""

    seed: int

    def __call__(self, bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
        """Return the columns, and last the numbers. The rows with the least numbers are the sample."""
        columns = tell_result(bound, source, search)
        n_rows = (
            len(columns[0][1].rows if isinstance(columns[0][1], Picked) else columns[0][1]) if columns else 0
        )
        texts = pa.table({f"c{i}": _array(values, source) for i, (_, values) in enumerate(columns)})
        seen: dict[str, int] = {}
        numbers = []
        for row in range(n_rows):
            text = repr(texts.slice(row, 1).to_pylist())
            seen[text] = seen.get(text, 0) + 1  # equal rows get different numbers
            digest = blake2b(f"{self.seed} {seen[text]} {text}".encode(), digest_size=8).digest()
            numbers.append(int.from_bytes(digest, "big") >> 1)
        return [*columns, ("drawn", pa.array(numbers, pa.int64()))]


def _array(values: Measured, source: ArrowSource) -> pa.Array:
    return source.arrow(values.column, values.rows) if isinstance(values, Picked) else values


def _keys_as_text(bound: BoundRows, source: ArrowSource, rows: np.ndarray) -> list[str]:
    """Return a text for the partition of each of these rows. Equal keys have equal texts in every task."""
    columns = [source.arrow(name, rows).to_pylist() for name in bound.partition_by]
    return [repr([_plain_key(value) for value in key]) for key in zip(*columns, strict=True)] or [
        "" for _ in rows
    ]


def _plain_key(value: Any) -> Any:
    if isinstance(value, float):
        return None if value != value else value + 0.0  # NaN is null, and -0.0 is 0.0
    return value


def _first_rows(search: RowPatternSearch) -> np.ndarray:
    """Return the first row of each partition."""
    return search.order.rows(search.order.first_place_of_partition[:-1])


def tell_partitions(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
    """Return a text for each partition, the number of its matches, and its columns."""
    first = _first_rows(search)
    counts = np.diff(search.found.first_match_of_partition)
    return [
        ("partition", pa.array(_keys_as_text(bound, source, first), pa.string())),
        ("matches", pa.array(counts, pa.int64())),
        *((name, Picked(name, first)) for name in bound.partition_by),
    ]


@dataclass(frozen=True, slots=True)
class TellItems:
    """The matched rows: partition, number of the match in it, variable, place, and columns of the row."""

    columns: tuple[str, ...]

    def __call__(self, bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
        """Return one row for each item."""
        matches, rows = search.found, row_of_item(search)
        match = match_of_item(matches)
        texts = np.array([*_keys_as_text(bound, source, _first_rows(search)), None], dtype=object)
        return [
            ("partition", pa.array(texts[matches.partition_of_match[match]], pa.string())),
            ("number", pa.array(matches.number_of_match[match], pa.int64())),
            ("variable", pa.array(bound.labels[matches.states], pa.string())),
            ("place", pa.array(place_of_item(matches), pa.int64())),
            *((name, Picked(name, rows)) for name in self.columns),
        ]


@dataclass(frozen=True, slots=True)
class TellTagged:
    """All rows: partition, number of the match in it, variable, place, and columns; null if unmatched."""

    columns: tuple[str, ...]

    def __call__(self, bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
        """Return one row for each row of the frame. Raise if a row belongs to several matches."""
        rows = row_of_item(search)
        item = np.full(source.n_rows, -1, np.int64)
        item[rows] = np.arange(len(rows))
        if shared := len(rows) - int(np.count_nonzero(item >= 0)):
            raise CepError(f"{shared:,} {SEVERAL_MATCHES}")
        where = pa.array(item, mask=item < 0)
        items = TellItems(())(bound, source, search)
        return [
            *((name, _array(values, source).take(where)) for name, values in items),
            *((name, Picked(name, np.arange(source.n_rows))) for name in self.columns),
        ]
