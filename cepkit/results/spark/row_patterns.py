"""MATCH_RECOGNIZE and WINDOW on Spark frames: lazy jobs in which each task searches whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, OrderError, UnsupportedQueryError, warn
from cepkit.events import ColumnType
from cepkit.frames.arrow import ArrowSource, check_free
from cepkit.frames.spark.tasks import (
    EmptySource,
    PartTask,
    Results,
    check_convertible,
    key_columns,
    numbered_columns,
    rows_by_key,
    run_tasks,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import (
    RowPatternQuery,
    SelectedRows,
    SortKey,
    WindowedRows,
    clauses_that_drop,
)
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.found import FoundResult, Limit, check_exact, limit_of, number_of
from cepkit.results.match_recognize.memory import NO_AGGREGATES, ROWS_CURE, ROWS_ENGINE
from cepkit.results.match_recognize.search import bind_rows, search_rows
from cepkit.results.match_recognize.windows import NO_MATCHES, RowWindowSearch, kept_rows
from cepkit.results.spark.found import REFUSALS, text_of_lazy
from cepkit.results.spark.jobs import collect, run_job
from cepkit.results.spark.row_pattern_tasks import (
    LATEST,
    RowsTask,
    Tell,
    TellDrawn,
    TellItems,
    TellTagged,
    Told,
    check_order,
    project_result,
    tell_count,
    tell_partitions,
    tell_projection,
    tell_result,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# What the jobs of MATCH_RECOGNIZE and of a WINDOW share: partitions of rows, types, ORDER BY and LIMIT.


def check_sorted(order_by: Sequence[SortKey]) -> None:
    """Raise `OrderError` without ORDER BY."""
    if not order_by:
        raise OrderError(
            "ORDER BY is missing: the rows of a Spark frame have no order; name the columns that sort "
            "the rows of a partition: a time, and further columns if times repeat"
        )


def warn_of_one_task(partition_by: Sequence[str]) -> None:
    """Warn without PARTITION BY."""
    if not partition_by:
        warn(
            "without PARTITION BY all rows are one partition, which a single Spark task must hold and "
            "match; with PARTITION BY the tasks share the work"
        )


def send_partitions(
    frame: DataFrame,
    source: EmptySource,
    names: set[str],
    partition_by: Sequence[str],
    clock: str | None = None,
) -> tuple[tuple[str, ...], DataFrame]:
    """Return the columns that tasks get, and the rows, with all rows of a partition in one task.

    With a ``clock`` each row also gets the latest time of the whole table, in one more column. A cross join
    with a frame of one row adds it. So the result stays lazy, and its job reads the table twice.

    """
    check_convertible(source, names)
    received = tuple(name for name in source.names if name in names)
    if twice := sorted(source.duplicates & names):
        raise CepError(f"column {twice[0]!r} occurs more than once; rename or drop one of them")
    if clock is None:
        return received, rows_by_key(frame, source, received, partition_by)
    from pyspark.sql import functions as F

    plain = numbered_columns(frame, source, received)
    latest = plain.agg(F.max(f"e{received.index(clock)}").alias("latest"))
    timed = plain.crossJoin(F.broadcast(latest))
    return (*received, LATEST), timed.repartition(*key_columns(source, received, partition_by))


def check_types(told: Told) -> Told:
    """Return the columns of no rows. Raise if the type of one depends on its values."""
    for name, values in told:
        if not isinstance(values, Picked) and pa.types.is_null(values.type):
            raise CepError(
                f"the column {name!r} has no type before it runs, and Spark needs one; write it as in "
                f"CAST(… AS BIGINT) AS {name}"
            )
    return told


def order_and_name(run: DataFrame, names: Sequence[str], selected: SelectedRows | None) -> DataFrame:
    """Return the rows in the order of a SELECT, with these names, and without the columns that only sort."""
    from pyspark.sql import functions as F

    if selected is not None and selected.order_by:
        keys = []
        for i, key in enumerate(selected.order_by, len(names)):
            is_float = run.schema[i].dataType.typeName() in ("float", "double")
            column = F.nanvl(f"c{i}", F.lit(None)) if is_float else F.col(f"c{i}")  # NaN is null
            keys.append(sort_key(column, key.descending, key.nulls_first))
        run = run.orderBy(*keys)
    if selected is not None and selected.offset:
        run = run.offset(selected.offset)
    if selected is not None and selected.limit is not None:
        run = run.limit(selected.limit)
    return run.select(*(f"c{i}" for i in range(len(names)))).toDF(*names)


def sort_key(column: Column, descending: bool, nulls_first: bool) -> Column:
    """Return a key of ORDER BY."""
    if descending:
        return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()


# MATCH_RECOGNIZE on Spark frames: lazy jobs in which each task searches whole partitions.

_REFUSALS = {
    **REFUSALS,
    "write_parquet": "write_parquet(): the tasks of Spark write the rows of the result, each its own part: "
    "to_frame().write.parquet(path)",
    "plot": "plot() reads rows one by one, which a Spark frame does not allow; take a part of them: "
    "df.limit(…) or df.filter(…), then toPandas().cep.match(…).plot()",
    "aggregate": NO_AGGREGATES,
    "": "MATCH_RECOGNIZE in a Spark frame has no such matches; lineage() has all matched rows",
}
_EXACTLY = "matches of MATCH_RECOGNIZE are counted exactly"


class RowsOnSpark(FoundResult):
    """The matches of MATCH_RECOGNIZE in a Spark frame."""

    engine = ROWS_ENGINE
    cure = ROWS_CURE
    is_in_memory = False
    refusals: ClassVar = _REFUSALS

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
        self._frame, self.params, self.source = frame, params, EmptySource(frame)
        self.bound = bind_rows(query, self.source.schema, params)
        check_sorted(self.bound.order_by)
        self._nothing = search_rows(self.bound, self.source)
        self._result = self._run(tell_result)  # checks types of measures before any job
        warn_of_one_task(self.bound.partition_by)
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The query as a value."""
        return self.bound.query

    @property
    def frame(self) -> DataFrame:
        """The frame that was searched."""
        return self._frame

    # --- jobs

    def _run(self, tell: Tell, columns: list[str] | None = None) -> DataFrame:
        """Return what ``tell`` returns for each task as a lazy frame with columns ``c0``, ``c1``, ….

        The tasks get the columns that the query reads, and further ``columns``. All rows of a partition of
        the query are in one task. For WITH TIMED OUT MATCHES they also get the latest time of the table.

        """
        bound, source = self.bound, self.source
        keys = [key.column for key in bound.order_by]
        names = {*bound.program.columns, *bound.partition_by, *keys, *(columns or ())}
        if bound.clause.rows_per_match != "one":
            names |= set(source.names)
        clock = None
        if bound.clause.timed_out and bound.partition_by and bound.program.within is not None:
            clock = bound.program.within[0]
        received, shuffled = send_partitions(self._frame, source, names, bound.partition_by, clock)
        nothing = check_types(tell(bound, source, self._nothing))
        return run_tasks(
            shuffled, source, nothing, RowsTask, columns=received, query=bound.query, params=self.params,
            tell=tell, has_latest=clock is not None,
        )  # fmt: skip

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the number of matches; each task counts its own."""
        check_exact(method, _EXACTLY)
        rows = run_job(self._run(tell_count).collect)
        return sum(row[0] for row in rows)

    def to_frame(self, rows: str = "one", limit: Limit = "auto") -> DataFrame:
        """Return the rows of the result, or the matched rows of the frame, as a lazy frame."""
        _refuse_limit(limit)
        return self._shown(self._result) if rows == "one" else self._matched(self.source.names)

    def _shown(self, run: DataFrame) -> DataFrame:
        """Return the columns of the result in its order, without those that only sort."""
        return order_and_name(run, self._names, self.bound.selected)

    @property
    def _names(self) -> list[str]:
        projected = project_result(self.bound, self.source, self._nothing)
        return list(projected.columns)

    def head(self, n: int) -> pd.DataFrame:
        """Return some rows of the result, the first ones if the query has ORDER BY."""
        return collect(self.to_frame().limit(n))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a uniform sample of the rows of the result; the number of tasks does not change it."""
        selected = self.bound.selected
        if selected is not None and (selected.limit is not None or selected.offset):
            clause = "OFFSET" if selected.limit is None else "LIMIT"
            raise UnsupportedQueryError(f"sample() on Spark draws from a whole result; leave out {clause}")
        run = self._run(TellDrawn(seed))
        drawn = run.orderBy(run.columns[-1]).limit(n)
        return collect(self._shown(drawn))

    # --- the matched rows

    def lineage(self, number: int | None, limit: Limit) -> DataFrame:
        """Return ``match``, ``variable`` and the columns that identify the row, for each matched row."""
        _refuse_limit(limit)
        number = None if number is None else number_of(number, self.count())
        keys = [*self.bound.partition_by, *(key.column for key in self.bound.order_by)]
        return self._matched([*dict.fromkeys(keys)], number)

    def _matched(self, columns: list[str], number: int | None = None) -> DataFrame:
        from pyspark.sql import functions as F

        check_free(("match", "variable"), columns)
        run = self._numbered(self._run(TellItems(tuple(columns)), columns))
        if number is not None:
            run = run.where(run["match"] == number)
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
        order = [sort_key(F.col(f"k{i}"), False, True) for i in range(n_keys)] or [F.lit(0)]
        before = Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
        first = counted.select(
            "partition", F.coalesce(F.sum("matches").over(before), F.lit(0)).alias("before_it")
        )
        joined = run.join(first, run["c0"] == first["partition"], "left")
        return joined.withColumn("match", F.col("before_it") + F.col("c1") - F.lit(1))

    def text(self) -> str:
        """Return the pattern and the columns of the result; no job runs."""
        text = text_of_lazy(self.bound.clause, self._names, self._result)
        clauses = "" if self.bound.selected is None else clauses_that_drop(self.bound.selected)
        return text + (f"; count() counts the matches before {clauses}" if clauses else "")


def _refuse_limit(limit: Limit) -> None:
    """Raise for a number of matches that the tasks, each with its own partitions, do not know."""
    if limit_of(limit, None) is not None:
        raise UnsupportedQueryError(
            f"limit={limit}: MATCH_RECOGNIZE in a Spark frame has no limit of matches. Write LIMIT in the "
            "query"
        )


# A WINDOW with a row pattern on Spark frames: lazy jobs in which each task searches whole partitions.

TellWindow = Callable[[RowWindowSearch], Told]


class RowWindowOnSpark(FoundResult):
    """The rows of a Spark frame, with measures of a row pattern in a WINDOW."""

    engine = ROWS_ENGINE
    is_in_memory = False
    refusals: ClassVar = {"": NO_MATCHES}

    def __init__(self, frame: DataFrame, query: WindowedRows, params: Mapping[str, Any] | None = None):
        self._frame, self._query, self._params = frame, query, params
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
        received, shuffled = send_partitions(self._frame, source, names, self._nothing.partition_by)
        return run_tasks(
            shuffled, source, check_types(tell(self._nothing)), RowWindowTask, columns=received,
            query=self.query, params=self._params, tell=tell,
        )  # fmt: skip

    @property
    def query(self) -> WindowedRows:
        """The query as a value."""
        return self._query

    @property
    def frame(self) -> DataFrame:
        """The frame that was searched."""
        return self._frame

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the number of matches; each task counts its own."""
        check_exact(method, _EXACTLY)
        return sum(row[0] for row in run_job(self._run(_tell_count).collect))

    def to_frame(self, rows: str = "one", limit: Limit = "auto") -> DataFrame:
        """Return the rows of the frame with the columns of the SELECT, as a lazy frame."""
        if rows != "one":
            self.refuse("rows='all'")
        names = list(self._nothing.projection.columns)
        return order_and_name(self._result, names, self._nothing.selected)

    def text(self) -> str:
        """Return the pattern and the columns of the result; no job runs."""
        run = self.to_frame()
        text = text_of_lazy(self.query.rows, run.columns, run, "the frames of a Spark frame")
        return text.replace("head(), ", "")

    def html(self) -> None:
        """Return None: notebooks show the text."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWindowTask(PartTask):
    """A task that searches the rows of a WINDOW with a row pattern."""

    query: WindowedRows
    params: Mapping[str, Any] | None
    tell: TellWindow

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Search the rows that WHERE keeps, and yield what ``tell`` returns."""
        source = ArrowSource(table)
        keep = kept_rows(self.query, source, self.params)
        if keep is not None:
            source = ArrowSource(table.filter(pa.array(keep)).combine_chunks())
        search = RowWindowSearch(replace(self.query, where=None), source, self.params)
        check_order(source, search.order, search.partition_by, search.order_by)
        yield source, self.tell(search)


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
