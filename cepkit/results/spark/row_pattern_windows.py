"""A WINDOW with a row pattern on Spark frames: lazy jobs in which each task searches whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cepkit.events import ColumnType
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.spark.tasks import EmptySource, received_table, result_types, sent_batches
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import WindowedRows
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.row_pattern_windows import RowWindowSearch, kept_rows
from cepkit.results.spark.jobs import run_job
from cepkit.results.spark.row_pattern_jobs import (
    check_sorted,
    check_types,
    order_and_name,
    send_partitions,
    warn_of_one_task,
)
from cepkit.results.spark.row_pattern_tasks import Told, check_order, tell_projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TellWindow = Callable[[RowWindowSearch], Told]


class RowWindowOnSpark:
    """The rows of a Spark frame, as `RowPatternWindow` reads them."""

    def __init__(self, frame: DataFrame, query: WindowedRows, params: Mapping[str, Any] | None = None):
        self.frame, self.query, self._params = frame, query, params
        self._source = EmptySource(frame)
        check_sorted(query.rows.order_by)
        self._nothing = RowWindowSearch(query, self._source, params)
        self._result = self._run(_tell_rows)  # checks types before any job
        warn_of_one_task(query.rows.partition_by)
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python

    def _run(self, tell: TellWindow) -> DataFrame:
        """Return what ``tell`` returns for each task as a lazy frame with columns ``c0``, ``c1``, …."""
        source = self._source
        names = set(_columns_to_read(self.query, source.schema))
        received, shuffled = send_partitions(self.frame, source, names, self._nothing.partition_by)
        types, output = result_types(check_types(tell(self._nothing)), source)
        return shuffled.mapInArrow(RowWindowTask(self.query, self._params, received, tell, output).run, types)

    def count(self) -> int:
        """Return the number of matches; each task counts its own."""
        return sum(row[0] for row in run_job(self._run(_tell_count).collect))

    def to_frame(self) -> DataFrame:
        """Return the rows of the frame with the columns of the SELECT, as a lazy frame."""
        names = list(self._nothing.projection.columns)
        return order_and_name(self._result, names, self._nothing.selected)

    def said(self) -> str:
        """Return the pattern and the columns of the result; no job runs."""
        by = self._nothing.partition_by
        parts = f", partitioned by {', '.join(by)}" if by else ""
        shown = ", ".join(f"{of.name}: {of.dataType.simpleString()}" for of in self.to_frame().schema)
        return (
            f"matches of '{self.query.rows.pattern}' in the frames of a Spark frame{parts}: {shown}\n"
            "nothing has run yet: count() and the rows of to_frame() start Spark jobs"
        )


@dataclass(frozen=True, slots=True)
class RowWindowTask:
    """The work on the batches of one Spark partition."""

    query: WindowedRows
    params: Mapping[str, Any] | None
    columns: tuple[str, ...]  # names of the batches' columns
    tell: TellWindow
    output: pa.Schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Search the rows that WHERE keeps, and yield what ``tell`` returns."""
        table = received_table(batches, self.columns)
        if table is None:
            return
        source = ArrowSource(table)
        keep = kept_rows(self.query, source, self.params)
        if keep is not None:
            source = ArrowSource(table.filter(pa.array(keep)).combine_chunks())
        search = RowWindowSearch(replace(self.query, where=None), source, self.params)
        check_order(source, search.order, search.partition_by, search.order_by)
        yield from sent_batches(self.tell(search), source, self.output)


def _tell_rows(search: RowWindowSearch) -> Told:
    """Return the columns of the SELECT, and those that sort it."""
    return tell_projection(search.projection)


def _tell_count(search: RowWindowSearch) -> Told:
    """Return the number of matches."""
    return [("count", pa.array([search.count()], pa.int64()))]


def _columns_to_read(query: WindowedRows, schema: Mapping[str, ColumnType]) -> list[str]:
    """Return the columns that the query names, in any case; all of them for ``SELECT *``."""
    if query.columns is None:
        return list(schema)
    clause = query.rows
    trees = [tree for _, tree in (*clause.define, *clause.measures, *query.columns)]
    trees += [] if query.where is None else [query.where]
    nodes = [node for tree in trees for node in tree.walk(literals=False)]
    names = {node.name for node in nodes if isinstance(node, ex.Attribute | ex.Reference)}
    names |= {*clause.partition_by, *(key.column for key in (*clause.order_by, *query.order_by))}
    names |= {query.frame_end} if isinstance(query.frame_end, str) else set()
    asked = {name.lower() for name in names if name}
    return [name for name in schema if name.lower() in asked]
