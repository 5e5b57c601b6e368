"""MATCH_RECOGNIZE on Spark frames: lazy jobs in which each task searches whole partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, OrderError, UnsupportedQueryError, warn
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import (
    EmptySource,
    check_convertible,
    key_columns,
    numbered_columns,
    result_types,
)
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.match import Match
from cepkit.results.match_recognize.search import bind_rows, search_rows
from cepkit.results.spark.jobs import collect, run_job
from cepkit.results.spark.row_pattern_tasks import (
    RowsTask,
    Tell,
    TellDrawn,
    TellItems,
    TellTagged,
    Told,
    project_result,
    tell_count,
    tell_partitions,
    tell_result,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
        if self.bound.clause.timed_out:
            raise UnsupportedQueryError(
                "WITH TIMED OUT MATCHES needs the latest time of all partitions, and a task of Spark sees "
                "some of them. It runs on streaming DataFrames with a watermark, and on frames in memory"
            )
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
        projected = project_result(self.bound, self.source, self._nothing)
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
