"""Queries bound to a Spark frame, with every check that does not read rows, and their lazy matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.aggregates import aggregate_matches, aggregate_regex
from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.engines.shared.match_set import MatchSet
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches
from cepkit.errors import CepError, OrderError, ResultTooLargeError, UnsupportedQueryError, warn
from cepkit.events import Events
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import sequences as sequence_tasks
from cepkit.frames.spark import tasks
from cepkit.frames.spark.sequences import Drawn, First
from cepkit.frames.spark.slices import Slices, slices_of
from cepkit.frames.spark.tasks import EmptySource, too_many
from cepkit.language.expressions.functions import RegisteredFunction
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine, choose_engine
from cepkit.planning.plans import compile_checked
from cepkit.results.doors import open_door
from cepkit.results.matches import SparkMatches
from cepkit.results.spark.found import SparkFound
from cepkit.results.spark.jobs import collect, refuse, run_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# The matches of a regex query on Spark.


class RegexOnSpark(SparkFound[Program]):
    """Matches of contiguous rows; no two matches end at the same event."""

    has_ranks = False
    _tell_measures = staticmethod(tasks.measured)
    _tell_rows = staticmethod(tasks.matched_rows)

    def n_matches(self) -> int:
        """Return the exact number of matches; every task counts its own."""
        from pyspark.sql import functions as F

        counts = self._run(tasks.counted)
        return run_job(counts.agg(F.sum("c0")).collect)[0][0] or 0

    def any(self) -> bool:
        """Return whether a match exists."""
        return not run_job(self._run(tasks.placed).isEmpty)

    def _ends(self) -> DataFrame:
        from pyspark.sql import functions as F

        n_columns = len(self._event_columns(0))
        return self._run(tasks.placed).withColumn(f"c{n_columns}", F.lit(1).cast("decimal(38, 0)"))

    def head(self, n: int) -> pd.DataFrame:
        """Return the first ``n`` matches."""
        return collect(self.in_order(None).limit(n))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a sample of ``n`` matches; the same seed draws the same matches as on pandas."""
        total = self.count()
        drawn = np.random.default_rng(seed).choice(total, size=min(n, total), replace=False)
        numbered = self._with_numbers(self.measured, self._place_columns(len(self.names)))
        chosen = numbered.where(numbered["number"].isin(drawn.tolist()))
        return collect(self._result(chosen.orderBy("number")))

    def _check_aggregates(self, aggregates: Mapping[str, str]) -> None:
        none = np.empty(0, np.int64)
        nothing = MatchSet(Events(0, {}, none.astype(np.int32), 0), none, none)
        aggregate_regex(self.program, nothing, self.source, aggregates)

    def _tell_aggregates(self, texts: tuple[str, ...]) -> Callable:
        return tasks.RegexTaskAggregates(texts)

    def tag(self) -> DataFrame:
        """Return the searched frame with ``match`` and ``variable``; the query runs twice."""
        check_free(("match", "variable"), self.source.names)
        rows, place = self._with_rows(tasks.tagged, self.source.names)
        joined = self._join(rows, place, "left", None)
        columns = [f"r{i}" for i in range(1, len(self.source.names) + 1)]
        return joined.select(*columns, "number", "r0").toDF(*self.source.names, "match", "variable")

    def _run(self, tell: tasks.Emit, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        columns = self._columns if columns is None else columns
        return tasks.run_tasks(self.frame, self.source, self.program, columns, tell, limit=limit)

    @property
    def names(self) -> list[str]:
        """Names of the result's columns."""
        return [*self.query.partition_by, *(name for name, _ in measure_expressions(self.program.query))]

    def _numbers(self, limit: int | None) -> DataFrame:
        return self._with_numbers(self._run(tasks.placed, limit=limit), self._event_columns(0), limit)


# The matches of a sequence query on Spark.


class SequencesOnSpark(SparkFound[SequenceProgram]):
    """Matches of an event sequence; several may end at one event, so a place has a rank.

    Without ``partition_by``, tasks divide the stream by time if a window limits the matches; see
    `cepkit.frames.spark.slices.Slices`.

    """

    has_ranks = True
    _tell_measures = staticmethod(sequence_tasks.measured)
    _tell_rows = staticmethod(sequence_tasks.matched_rows)

    def __init__(
        self,
        frame: DataFrame,
        source: EmptySource,
        program: SequenceProgram,
        engine: Engine,
        slices: Slices | None = None,
    ):
        self._slices = slices
        super().__init__(frame, source, program, engine)

    def n_matches(self) -> int:
        """Return the exact number of matches, an integer of any size; every task counts its own."""
        return sum(int(row[0], 16) for row in run_job(self._run(sequence_tasks.counted).collect))

    def any(self) -> bool:
        """Return whether a match exists."""
        return not run_job(self._run(sequence_tasks.found_any).isEmpty)

    def _ends(self) -> DataFrame:
        return self._run(sequence_tasks.ended)

    def head(self, n: int) -> pd.DataFrame:
        """Return the first ``n`` matches; no task builds many more."""
        run = self._run(First(n))
        place = self._place_columns(len(self.names))
        return collect(self._result(run.orderBy(*place).limit(n)))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a sample of ``n`` matches from one job; see `cepkit.frames.spark.sequences.Drawn`."""
        n_before = len(self.names)
        event = self._event_columns(n_before)
        place, time = f"c{n_before + len(event)}", f"c{n_before + len(event) + 1}"
        drawn = self._run(Drawn(n, seed)).orderBy(time, *event).limit(n)
        return collect(self._result(drawn.orderBy(*event, place)))

    def _check_aggregates(self, aggregates: Mapping[str, str]) -> None:
        none = KnownMatches(Events(0, {}, np.empty(0, np.int32), 0), EMPTY)
        aggregate_matches(self.program, none, self.source, aggregates)

    def _tell_aggregates(self, texts: tuple[str, ...]) -> Callable:
        return sequence_tasks.SequenceTaskAggregates(texts)

    def tag(self) -> DataFrame:
        """Return the searched frame with ``match`` and ``variable``; a row in several matches is an error."""
        check_free(("match", "variable"), self.source.names)
        names = [*self.query.order_by, *self.query.partition_by]
        rows, place = self._with_rows(sequence_tasks.tagged_rows, list(dict.fromkeys(names)))
        joined = self._join(rows, place, "inner", None)
        key_of_name = {name: f"r{i}" for i, name in enumerate(dict.fromkeys(names), start=1)}
        tags = joined.select(*key_of_name.values(), "number", "r0")
        if self._slices is not None:
            tags = _one_per_row(tags, list(key_of_name.values()))
        place_of_name = {name: f"f{i}" for i, name in enumerate(self.source.names)}
        frame = self.frame.toDF(*(f"f{i}" for i in range(len(self.source.names))))
        same = self._same_event([place_of_name[n] for n in names], [key_of_name[n] for n in names])
        tagged = frame.join(tags, same, "left").select(*frame.columns, "number", "r0")
        return tagged.toDF(*self.source.names, "match", "variable")

    def _run(
        self, tell: sequence_tasks.Tell, columns: list[str] | None = None, limit: int | None = None
    ) -> DataFrame:
        return sequence_tasks.run_tasks(
            self.frame, self.source, self.program, self.engine.of_sequences,
            self._columns if columns is None else columns, tell, slices=self._slices, limit=limit,
        )  # fmt: skip

    @property
    def names(self) -> list[str]:
        """Names of the result's columns."""
        query = self.program.query
        measures = default_measures(query) if query.measures is None else query.measures
        return [*query.partition_by, *(name for name, _ in measures)]

    def _numbers(self, limit: int | None) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        event = self._event_columns(0)
        count, total = F.col(f"c{len(event)}"), F.col("total")
        up_to_here = Window.orderBy(*event).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        run = self._run(sequence_tasks.numbered_ends, limit=limit).withColumn(
            "total", F.sum(count).over(up_to_here)
        )
        numbered = run.withColumn("number", total - count)
        if limit is not None:
            numbered = refuse(numbered, total > limit, ResultTooLargeError, too_many(limit))
        return numbered.select(*event, "number")


def _one_per_row(tags: DataFrame, keys: list[str]) -> DataFrame:
    """Return one tag per row; a row with several tags is an error of the job."""
    from pyspark.sql import functions as F

    # Each task refuses rows that it matched twice, but two slices may match the same row.
    tags = tags.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"), F.min("number").alias("number"), F.min("r0").alias("r0")
    )
    return refuse(tags, F.col("n") > 1, CepError, sequence_tasks.SHARED_ROW)


# A query bound to a Spark frame, with every check that does not read rows.

_DEFAULT_TASKS = 200  # Spark's default


def match(
    frame: DataFrame,
    value: RegexQuery | SequenceQuery,
    engine: str = "auto",
    *,
    boundaries: tuple[int | float, ...] | None = None,
    bounded: Mapping[str, Any] | None = None,
) -> SparkMatches:
    """Return the matches of a query in a Spark frame after every check that does not read rows.

    A streaming frame gives `SparkStreamMatches`.
    """
    if frame.isStreaming:
        return open_door("stream of a Spark frame")(frame, value, engine, bounded)
    program, source = bind(frame, value)
    if not isinstance(program, SequenceProgram):
        matches = SparkMatches(RegexOnSpark(frame, source, program, choose_engine(program, engine)))
        if not value.partition_by:
            _warn_of_one_task()
        return matches
    refuse_strict(program)
    chosen = choose_engine(program, engine)
    result = None if chosen.on_spark is None else chosen.on_spark(frame, source, program, chosen)
    if result is not None:
        return SparkMatches(result)
    slices, instead = None, ""
    if not value.partition_by:
        slices, instead = slices_of(program, source, n_tasks(frame))
        slices = slices and replace(slices, boundaries=boundaries)
    matches = SparkMatches(SequencesOnSpark(frame, source, program, chosen, slices))
    if instead:
        _warn_of_one_task(instead)
    return matches


def bind(
    frame: DataFrame, value: RegexQuery | SequenceQuery
) -> tuple[Program | SequenceProgram, EmptySource]:
    """Return the query bound to the frame, and the frame's columns; no job runs. Raises as `match`."""
    if frame.isStreaming:
        raise UnsupportedQueryError(
            "a streaming DataFrame has no end, and this call needs all rows: df.cep.match(…) takes a stream; "
            "for other calls, write the stream to a table first"
        )
    return bind_any(frame, value)


def bind_any(
    frame: DataFrame, value: RegexQuery | SequenceQuery
) -> tuple[Program | SequenceProgram, EmptySource]:
    """Return the query bound to a finite or streaming frame, and the frame's columns. Raises as `match`."""
    if not value.order_by:
        raise OrderError(
            "order_by is missing: the rows of a Spark frame have no order; name the columns that sort the "
            "events of a partition: a time, and further columns if times repeat"
        )
    source = EmptySource(frame)
    check_functions(dict(value.functions))
    program = compile_checked(value, source)
    if late := program.functions.keys() - dict(value.functions).keys():  # registered after the query was made
        functions = (*value.functions, *((name, program.functions[name]) for name in sorted(late)))
        program = replace(program, query=replace(value, functions=functions))
    check_functions(program.functions)
    return program, source


def _warn_of_one_task(or_with: str = "") -> None:
    """Warn that one task reads the whole frame; ``or_with`` is another remedy besides partitions."""
    warn(
        "without partition_by all events are one stream, which a single Spark task must hold and match; "
        f"with partition_by{or_with and ' or ' + or_with} the tasks share the work"
    )


def check_functions(functions: Mapping[str, RegisteredFunction]) -> None:
    """Raise for functions that Spark's workers cannot call."""
    from pyspark import cloudpickle

    impure = [name for name, function in functions.items() if not function.pure]
    if impure:
        raise UnsupportedQueryError(
            f"{impure} is not declared pure, but on Spark several processes evaluate events, and may do so "
            "twice; declare it with @cep.pure if its result depends on its arguments alone"
        )
    for name, function in functions.items():
        try:
            cloudpickle.dumps(function.call)
        except Exception as error:  # the object's own pickling may raise anything
            raise CepError(
                f"function {name!r} cannot be sent to Spark's workers: {type(error).__name__}: {error}"
            ) from error


def n_tasks(frame: DataFrame) -> int:
    """Return the number of tasks that share a shuffle of a frame."""
    try:
        return max(1, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or _DEFAULT_TASKS))
    except ValueError:  # some clusters say "auto"
        return _DEFAULT_TASKS


def refuse_strict(program: SequenceProgram) -> None:
    """Refuse a query that needs neighbours in the whole stream but reads only partitions of it."""
    if not program.query.partition_by:
        return
    for bound in program.branches:
        for i, component in enumerate(bound.branch.components):
            if (i and component.step == "strict") or (component.high != 1 and component.inner == "strict"):
                raise UnsupportedQueryError(
                    f"'strict' before {component.variable!r}: no event of the whole stream may come "
                    "between, but with partition_by a Spark task reads only its own partitions. "
                    "Use strategy='partition', which checks only the partition, or leave out partition_by"
                )


# A function of Arrow tables, run as one Spark task per key.

_ARROW = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}


def run_per_key(
    frame: DataFrame,
    queries: Sequence[SequenceQuery],
    task: Callable[[pa.Table], list[dict[str, Any]]],
    type_of_column: Mapping[str, str],
) -> DataFrame:
    """Return a lazy Spark frame with the rows that a task makes of the rows of each key."""
    from pyspark.sql.types import StructField, StructType

    from cepkit.pipelines.spark_session import worker_python

    for query in queries:
        bind(frame, query)
    keys = list(queries[0].partition_by)
    if not keys or any(list(query.partition_by) != keys for query in queries):
        raise CepError(
            "partition_by is missing or differs: on Spark each key is a task of its own. Name the keys"
        )
    if taken := sorted(set(keys) & set(type_of_column)):
        raise CepError(f"partition_by: the result has columns of its own named {taken}; rename these columns")
    # Numbered columns, since names may have dots and backticks, or differ only in case.
    names = frame.columns
    place_of_key = [names.index(name) for name in keys]
    schema = StructType([StructField(f"k{i}", frame.schema[name].dataType) for i, name in enumerate(keys)])
    for i, sql_type in enumerate(type_of_column.values()):
        schema = schema.add(f"m{i}", sql_type)

    def of_key(rows: pa.Table) -> pa.Table:
        task_rows = task(rows.rename_columns(names))
        first = pa.array([0] * len(task_rows), pa.int64())
        columns = [rows.column(place).take(first) for place in place_of_key]
        for name, sql_type in type_of_column.items():
            columns.append(pa.array([row[name] for row in task_rows], _ARROW[sql_type]))
        return pa.table(columns, schema.names)

    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    plain = frame.toDF(*(f"c{i}" for i in range(len(names))))
    results = plain.groupBy(*(f"c{place}" for place in place_of_key)).applyInArrow(of_key, schema)
    return results.toDF(*keys, *type_of_column)
