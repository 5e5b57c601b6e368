"""MATCH_RECOGNIZE on Spark frames: lazy jobs in which each task searches whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.errors import CepError, OrderError, UnsupportedQueryError, warn
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource, check_free
from cepkit.frames.spark import (
    EmptySource,
    Order,
    check_convertible,
    check_total_order,
    key_columns,
    numbered_columns,
    received_table,
    result_types,
    sent_batches,
)
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.match import Match
from cepkit.results.match_recognize.memory import several_matches
from cepkit.results.match_recognize.search import (
    BoundRows,
    bind_rows,
    match_of_item,
    place_of_item,
    result_columns,
    row_of_item,
    search_rows,
)
from cepkit.results.match_recognize.select import Projection, project
from cepkit.results.row_pattern_search import RowPatternSearch
from cepkit.results.spark.jobs import collect, run_job

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Told = list[tuple[str, Measured]]
Tell = Callable[[BoundRows, ArrowSource, RowPatternSearch], Told]

_ONE_BY_ONE = (
    "matches in a Spark frame are not taken one by one: Spark's machines compute them, and there may be any "
    "number of them; use head() or sample() for some, or iterate over to_frame().toLocalIterator()"
)


class RowsOnSpark:
    """The matches in a Spark frame, as `RowPatternMatches` reads them.

    Raises
    ------
    UnsupportedQueryError
        For a streaming frame.
    OrderError
        Without ORDER BY.
    CepError
        As on other frames, and for a measure without a type.

    Warns
    -----
    CepWarning
        Without PARTITION BY, when one task must read all rows.
    """

    def __init__(
        self,
        frame: DataFrame,
        query: RowPatternQuery | SelectedRows,
        params: Mapping[str, Any] | None = None,
    ):
        if frame.isStreaming:
            raise UnsupportedQueryError(
                "MATCH_RECOGNIZE does not run on a streaming DataFrame: a match may need rows that are still "
                "to come. Write the stream to a table and match that"
            )
        self.frame, self.params, self.source = frame, params, EmptySource(frame)
        self.bound = bind_rows(query, self.source.schema, params)
        if not self.bound.order_by:
            raise OrderError(
                "ORDER BY is missing: the rows of a Spark frame have no order; name the columns that sort "
                "the rows of a partition: a time, and further columns if times repeat"
            )
        self._nothing = search_rows(self.bound, self.source)
        self._result = self._run(tell_result)  # checks types of measures before any job
        if not self.bound.partition_by:
            warn(
                "without PARTITION BY all rows are one partition, which a single Spark task must hold and "
                "match; with PARTITION BY the tasks share the work"
            )
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The query as a value."""
        return self.bound.query

    # --- jobs

    def _run(self, tell: Tell, columns: list[str] | None = None) -> DataFrame:
        """Return what ``tell`` returns for each task as a lazy frame with columns ``c0``, ``c1``, ….

        The tasks get the columns that the query reads, and further ``columns``. All rows of a partition of
        the query are in one task.
        """
        bound, source = self.bound, self.source
        names = {*bound.used, *bound.partition_by, *(key.column for key in bound.order_by), *(columns or ())}
        if bound.clause.rows_per_match != "one":
            names |= set(source.names)
        check_convertible(source, names)
        received = [name for name in source.names if name in names]
        if twice := sorted(source.duplicates & names):
            raise CepError(f"column {twice[0]!r} occurs more than once; rename or drop one of them")
        plain = numbered_columns(self.frame, source, received)
        keys = key_columns(source, received, bound.partition_by)
        shuffled = plain.repartition(*keys) if keys else plain.repartition(1)
        types, output = result_types(_with_types(tell(bound, source, self._nothing)), source)
        task = RowsTask(bound.query, self.params, tuple(received), tell, output)
        return shuffled.mapInArrow(task.run, types)

    def count(self) -> int:
        """Return the number of matches; each task counts its own."""
        rows = run_job(self._run(tell_count).collect)
        return sum(row[0] for row in rows)

    def n_rows(self) -> None:
        """None: it takes a job to know the number of rows."""
        return None

    def to_frame(self) -> DataFrame:
        """Return the rows of the result as a lazy frame."""
        return self._shown(self._result)

    def _shown(self, run: DataFrame) -> DataFrame:
        """Return the columns of the result in its order, without those that only sort."""
        from pyspark.sql import functions as F

        names, selected = self._names, self.bound.selected
        if selected is not None and selected.order_by:
            keys = []
            for i, key in enumerate(selected.order_by, len(names)):
                is_float = run.schema[i].dataType.typeName() in ("float", "double")
                column = F.nanvl(f"c{i}", F.lit(None)) if is_float else F.col(f"c{i}")  # NaN is null
                keys.append(_sorted(column, key.descending, key.nulls_first))
            run = run.orderBy(*keys)
        if selected is not None and selected.limit is not None:
            run = run.limit(selected.limit)
        return run.select(*(f"c{i}" for i in range(len(names)))).toDF(*names)

    @property
    def _names(self) -> list[str]:
        projected = _projected(self.bound, self.source, self._nothing)
        return list(projected.columns)

    def head(self, n: int) -> pd.DataFrame:
        """Return some rows of the result, the first ones if the query has ORDER BY."""
        return collect(self.to_frame().limit(n))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a uniform sample of the rows of the result; the number of tasks does not change it."""
        if self.bound.selected is not None and self.bound.selected.limit is not None:
            raise UnsupportedQueryError("sample() on Spark draws from a whole result; leave out LIMIT")
        run = self._run(TellDrawn(seed))
        drawn = run.orderBy(run.columns[-1]).limit(n)
        return collect(self._shown(drawn))

    # --- the matched rows

    def matched_rows(self) -> DataFrame:
        """Return the matched rows of the frame, after ``match`` and ``variable``."""
        return self._matched(self.source.names)

    def lineage(self, number: int | None) -> DataFrame:
        """Return ``match``, ``variable`` and the columns that identify the row, for each matched row."""
        keys = [*self.bound.partition_by, *(key.column for key in self.bound.order_by)]
        rows = self._matched([*dict.fromkeys(keys)])
        return rows if number is None else rows.where(rows["match"] == number)

    def _matched(self, columns: list[str]) -> DataFrame:
        from pyspark.sql import functions as F

        check_free(("match", "variable"), columns)
        run = self._numbered(self._run(TellItems(tuple(columns)), columns))
        shown = [F.col(f"c{4 + i}") for i in range(len(columns))]
        ordered = run.orderBy("match", "c3")
        return ordered.select("match", "c2", *shown).toDF("match", "variable", *columns)

    def tag(self) -> DataFrame:
        """Return the frame with ``match`` and ``variable`` as its last columns, in no particular order."""
        from pyspark.sql import functions as F

        names = self.source.names
        check_free(("match", "variable"), names)
        run = self._numbered(self._run(TellTagged(tuple(names)), names))
        shown = [F.col(f"c{4 + i}") for i in range(len(names))]
        return run.select(*shown, "match", "c2").toDF(*names, "match", "variable")

    def _numbered(self, run: DataFrame) -> DataFrame:
        """Add the column ``match``: the number of the match among all partitions.

        ``run`` has a text for the partition, ``c0``, and the number of the match in it, ``c1``. One task
        sorts the partitions, not the rows.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        n_keys = len(self.bound.partition_by)
        counted = self._run(tell_partitions)
        counted = counted.toDF("partition", "matches", *(f"k{i}" for i in range(n_keys)))
        order = [_sorted(F.col(f"k{i}"), False, True) for i in range(n_keys)] or [F.lit(0)]
        before = Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
        first = counted.select(
            "partition", F.coalesce(F.sum("matches").over(before), F.lit(0)).alias("before_it")
        )
        joined = run.join(first, run["c0"] == first["partition"], "left")
        return joined.withColumn("match", F.col("before_it") + F.col("c1") - F.lit(1))

    # --- what Spark does not do

    def matches(self) -> NoReturn:
        """Raise `UnsupportedQueryError`."""
        raise UnsupportedQueryError(_ONE_BY_ONE)

    def match(self, number: int) -> Match:
        """Raise `UnsupportedQueryError`."""
        raise UnsupportedQueryError(_ONE_BY_ONE)

    def said(self) -> str:
        """Return the pattern and the columns of the result; no job runs."""
        by = f", partitioned by {', '.join(self.bound.partition_by)}" if self.bound.partition_by else ""
        columns = zip(self._names, self._result.schema, strict=False)
        shown = ", ".join(f"{name}: {field.dataType.simpleString()}" for name, field in columns)
        return (
            f"matches of '{self.bound.clause.pattern}' in a Spark frame{by}: {shown}\n"
            "nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs"
        )


def _sorted(column: Column, descending: bool, nulls_first: bool) -> Column:
    """Return a key of ORDER BY."""
    if descending:
        return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()


def _with_types(told: Told) -> Told:
    """Return the columns of no rows. Raise if the type of one depends on its values."""
    for name, values in told:
        if not isinstance(values, Picked) and pa.types.is_null(values.type):
            raise CepError(
                f"the column {name!r} has no type before it runs, and Spark needs one; write it as in "
                f"CAST(… AS BIGINT) AS {name}"
            )
    return told


# --- in the workers


@dataclass(frozen=True, slots=True)
class RowsTask:
    """The work on the batches of one Spark partition."""

    query: RowPatternQuery | SelectedRows
    params: Mapping[str, Any] | None
    columns: tuple[str, ...]  # names of the batches' columns
    tell: Tell
    output: pa.Schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Search the rows and yield what ``tell`` returns."""
        table = received_table(batches, self.columns)
        if table is None:
            return
        source = ArrowSource(table)
        bound = bind_rows(self.query, source.schema, self.params)
        search = search_rows(bound, source)
        n, sizes = search.order.n_partitions, np.diff(search.order.first_place_of_partition)
        partition = np.repeat(np.arange(n, dtype=np.int32), sizes)
        events = Events(source.n_rows, {}, partition, n, search.order.row_of_place)
        order = tuple(key.column for key in bound.order_by)
        check_total_order(source, events, Order(bound.partition_by, order))
        yield from sent_batches(self.tell(bound, source, search), source, self.output)


def tell_count(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
    """Return the number of matches."""
    return [("count", pa.array([search.n_matches], pa.int64()))]


def _projected(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Projection:
    columns, n_rows = result_columns(bound, source, search)
    if bound.selected is None:
        return Projection(columns, (), n_rows)
    return project(bound.selected, columns, n_rows, bound.params)


def tell_result(bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
    """Return the columns of the result, and those that sort it."""
    projected = _projected(bound, source, search)
    shown = [(name, column.measured()) for name, column in projected.columns.items()]
    return [*shown, *((f"key {i}", key.measured()) for i, key in enumerate(projected.keys))]


@dataclass(frozen=True, slots=True)
class TellDrawn:
    """The columns of the result, and a number for each row that does not depend on the tasks."""

    seed: int

    def __call__(self, bound: BoundRows, source: ArrowSource, search: RowPatternSearch) -> Told:
        """Return the columns, and last the numbers. The rows with the least numbers are the sample."""
        told = tell_result(bound, source, search)
        n_rows = len(told[0][1].rows if isinstance(told[0][1], Picked) else told[0][1]) if told else 0
        texts = pa.table({f"c{i}": _array(values, source) for i, (_, values) in enumerate(told)})
        seen: dict[str, int] = {}
        numbers = []
        for row in range(n_rows):
            text = repr(texts.slice(row, 1).to_pylist())
            seen[text] = seen.get(text, 0) + 1  # equal rows get different numbers
            digest = blake2b(f"{self.seed} {seen[text]} {text}".encode(), digest_size=8).digest()
            numbers.append(int.from_bytes(digest, "big") >> 1)
        return [*told, ("drawn", pa.array(numbers, pa.int64()))]


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
        found, rows = search.found, row_of_item(search)
        match = match_of_item(found)
        texts = np.array([*_keys_as_text(bound, source, _first_rows(search)), None], dtype=object)
        return [
            ("partition", pa.array(texts[found.partition_of_match[match]], pa.string())),
            ("number", pa.array(found.number_of_match[match], pa.int64())),
            ("variable", pa.array(bound.labels[found.states], pa.string())),
            ("place", pa.array(place_of_item(found), pa.int64())),
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
            raise CepError(several_matches(shared))
        where = pa.array(item, mask=item < 0)
        told = TellItems(())(bound, source, search)
        return [
            *((name, _array(values, source).take(where)) for name, values in told),
            *((name, Picked(name, np.arange(source.n_rows))) for name in self.columns),
        ]
