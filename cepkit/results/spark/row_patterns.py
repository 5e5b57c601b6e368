"""MATCH_RECOGNIZE on Spark frames: lazy jobs in which each task searches whole partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from cepkit.errors import UnsupportedQueryError
from cepkit.frames.arrow import check_free
from cepkit.frames.spark.tasks import EmptySource, result_types
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, clauses_that_drop
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.match import Match
from cepkit.results.match_recognize.search import bind_rows, search_rows
from cepkit.results.spark.jobs import collect, run_job
from cepkit.results.spark.row_pattern_jobs import (
    check_sorted,
    check_types,
    order_and_name,
    send_partitions,
    sort_key,
    warn_of_one_task,
)
from cepkit.results.spark.row_pattern_tasks import (
    RowsTask,
    Tell,
    TellDrawn,
    TellItems,
    TellTagged,
    project_result,
    tell_count,
    tell_partitions,
    tell_result,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONE_BY_ONE = (
    "matches in a Spark frame are not taken one by one: Spark's machines compute them, and there may be any "
    "number of them; use head() or sample() for some, or iterate over to_frame().toLocalIterator()"
)

_BY_TASKS = (
    "write_parquet(): the tasks of Spark write the rows of the result, each its own part: "
    "to_frame().write.parquet(path)"
)


class RowsOnSpark:
    """The matches in a Spark frame, as `RowPatternMatches` reads them."""

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
        check_sorted(self.bound.order_by)
        self._nothing = search_rows(self.bound, self.source)
        self._result = self._run(tell_result)  # checks types of measures before any job
        warn_of_one_task(self.bound.partition_by)
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The query as a value."""
        return self.bound.query

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
        received, shuffled = send_partitions(self.frame, source, names, bound.partition_by, clock)
        types, output = result_types(check_types(tell(bound, source, self._nothing)), source)
        task = RowsTask(bound.query, self.params, received, tell, output, clock is not None)
        return shuffled.mapInArrow(task.run, types)

    def as_matches(self) -> NoReturn:
        """Raise: a picture reads rows one by one."""
        raise UnsupportedQueryError(
            "plot() reads rows one by one, which a Spark frame does not allow; take a part of them: "
            "df.limit(…) or df.filter(…), then toPandas().cep.match(…).plot()"
        )

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

    def matched_rows(self) -> DataFrame:
        """Return the matched rows of the frame, after ``match`` and ``variable``."""
        return self._matched(self.source.names)

    def table(self, rows: str) -> NoReturn:
        """Raise: the tasks write the rows, each its own part."""
        raise UnsupportedQueryError(_BY_TASKS)

    def lineage(self, number: int | None) -> DataFrame:
        """Return ``match``, ``variable`` and the columns that identify the row, for each matched row."""
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
        clauses = "" if self.bound.selected is None else clauses_that_drop(self.bound.selected)
        before = f"; count() counts the matches before {clauses}" if clauses else ""
        return (
            f"matches of '{self.bound.clause.pattern}' in a Spark frame{by}: {shown}\n"
            f"nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs{before}"
        )
