"""Queries bound to a Spark frame, with every check that does not read rows, and their lazy matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.operations import end_in_ticks
from cepkit.doors import open_door
from cepkit.errors import CepError, UnsupportedQueryError, warn
from cepkit.events import FLOAT
from cepkit.frames.arrow import ArrowSource, check_free
from cepkit.frames.spark import EmptySource, check_ordered, in_utc, numbered_columns, slices_of, ticks
from cepkit.language.expressions.functions import RegisteredFunction, registered_function
from cepkit.language.expressions.vocabulary import SUMMARIES
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import choose_engine
from cepkit.planning.plans import compile_checked
from cepkit.results.matches import REASON, SparkMatches
from cepkit.results.spark_found import SparkFound
from cepkit.results.spark_tasks import run_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DEFAULT_TASKS = 200  # Spark's default


def match(
    frame: DataFrame, value: RegexQuery | SequenceQuery, engine: str = "auto", *,
    spread_by: str | None = None, boundaries: tuple[int | float, ...] | None = None,
    bounded: Mapping[str, Any] | None = None,
) -> SparkMatches:  # fmt: skip
    """Return the matches of a query in a Spark frame after every check that does not read rows."""
    # A streaming frame gives `SparkStream`.
    if frame.isStreaming:
        return open_door("stream of a Spark frame")(frame, value, engine, bounded)
    program, source = bind(frame, value)
    if not isinstance(program, SequenceProgram):
        if spread_by:
            raise UnsupportedQueryError(
                "spread_by='time': slices of time are for event sequences with a window; a match of a regex "
                "may take any time. Leave spread_by out"
            )
        matches = SparkMatches(SparkFound(frame, source, program, choose_engine(program, engine)))
        if not value.partition_by:
            _warn_of_one_task()
        return matches
    if not spread_by:
        refuse_strict(program)
    if program.clock_of_waits is not None and program.complete_until is None:
        program = replace(program, complete_until=_last_tick(frame, source, program.clock_of_waits))
    chosen = choose_engine(program, engine)
    slices, instead = None, ""
    if spread_by or not value.partition_by:
        slices, instead = slices_of(program, source, n_tasks(frame))
        slices = slices and replace(slices, boundaries=boundaries)
    if spread_by and instead:
        raise UnsupportedQueryError(f"spread_by='time': the query needs {instead}")
    result = None if chosen.on_spark is None else chosen.on_spark(frame, source, program, chosen)
    if result is not None:
        if spread_by:
            raise UnsupportedQueryError(f"spread_by: engine={engine!r} divides the rows itself; leave it out")
        return SparkMatches(result)
    matches = SparkMatches(SparkFound(frame, source, program, chosen, slices))
    if instead:
        _warn_of_one_task(instead)
    return matches


def divided(
    frame: DataFrame, value: RegexQuery | SequenceQuery, reasons_against: Callable[..., list] | None
) -> tuple[DataFrame, DataFrame]:
    """Return the rows that a query can search, and the others with the reason in their first column."""
    # ``reasons_against`` says why rows cannot be searched; without it, only rows without an order cannot.
    from pyspark.sql import functions as F

    program, source = bind(frame, value)
    check_free([REASON], frame.columns)
    names = [f"c{i}" for i in range(len(source.names))]
    plain = frame.toDF(*names)
    if reasons_against is None:
        reason = F.lit(None).cast("string")
        for name in reversed(value.order_by):
            column = plain[names[source.names.index(name)]]
            missing = column.isNull()
            if source.schema[name].kind == FLOAT and source.schema[name].scale is None:
                missing |= F.isnan(column)
            reason = F.when(missing, f"{name} has no value").otherwise(reason)
        flagged = plain.select(reason.alias(REASON), *names)
    else:
        flagged = plain.select(F.lit(None).cast("string").alias(REASON), *names)
        fill = partial(_with_reasons, program.query, source.names, reasons_against)
        flagged = flagged.mapInArrow(fill, flagged.schema)
    rows = flagged.filter(flagged[REASON].isNull()).drop(REASON).toDF(*source.names)
    return rows, flagged.filter(flagged[REASON].isNotNull()).toDF(REASON, *source.names)


def _with_reasons(
    value: RegexQuery | SequenceQuery, names: Sequence[str], reasons_against: Callable[..., list],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield the rows of a task with the reasons against them in the first column."""
    for batch in batches:
        rows = in_utc(pa.Table.from_batches([batch]).drop_columns([REASON]).rename_columns(names))
        reasons = pa.array(reasons_against(value, ArrowSource(rows, rows)), pa.string())
        yield batch.set_column(0, batch.schema.field(0), reasons)


def _last_tick(frame: DataFrame, source: EmptySource, clock: str) -> int | float | None:
    """Return the last time of a frame in ticks, which a job reads; None without rows."""
    from pyspark.sql import functions as F

    spark_type = source.fields[source.names.index(clock)].dataType
    times = numbered_columns(frame, source, [clock])
    column = ticks(F.col("e0"), spark_type)
    [[last]] = run_job(times.agg(F.max("e0" if column is None else column)).collect)
    return last if column is not None else end_in_ticks(last, source.schema[clock])


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
    check_ordered(value.order_by)
    source = EmptySource(frame)
    check_functions(dict(value.functions))
    program = compile_checked(value, source)
    called = {function.name for function in program.functions.values()}
    late = called - dict(value.functions).keys() - SUMMARIES.keys()
    if late:  # they were registered after the query was made
        functions = (*value.functions, *((name, registered_function(name)) for name in sorted(late)))
        program = replace(program, query=replace(value, functions=functions))
    check_functions(program.functions)
    return program, source


def _warn_of_one_task(*other_remedies: str) -> None:
    """Warn that one task reads the whole frame, and name the remedies besides partitions."""
    remedies = " or ".join(("partition_by", *other_remedies))
    warn(
        "without partition_by all events are one stream, which a single Spark task must hold and match; "
        f"with {remedies} the tasks share the work"
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
            "partition_by: on Spark all queries need the same keys, since each key is searched by itself. "
            "Name them in every query, as in partition_by='user'"
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
        """Return the rows that the task makes of the rows of one key, with the key as their first columns."""
        task_rows = task(in_utc(rows.rename_columns(names)))
        first = pa.array([0] * len(task_rows), pa.int64())  # all rows have the same key
        columns = [rows.column(place).take(first) for place in place_of_key]
        for name, sql_type in type_of_column.items():
            columns.append(pa.array([row[name] for row in task_rows], _ARROW[sql_type]))
        return pa.table(columns, schema.names)

    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    plain = frame.toDF(*(f"c{i}" for i in range(len(names))))
    results = plain.groupBy(*(f"c{place}" for place in place_of_key)).applyInArrow(of_key, schema)
    return results.toDF(*keys, *type_of_column)
