"""Spark jobs of results: rows become pandas frames, errors become cepkit's, and parts fit into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import pandas as pd

from cepkit import errors
from cepkit.errors import OrderError
from cepkit.frames.pandas import series_of_arrow
from cepkit.progress import watch_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


T = TypeVar("T")
_DEAD_WORKER = "Python worker exited unexpectedly"  # in Spark's message
_WORKER_DIED = (
    "a Python worker of Spark died in the middle of a task; often the system kills it when memory runs out. "
    "Divide the rows among more tasks (partition_by, spark.sql.shuffle.partitions), or give each one more "
    "memory. In local mode Spark never repeats a task; the master 'local[2,4]' tries each one four times"
)


def collect(frame: DataFrame) -> pd.DataFrame:
    """Return a Spark frame as pandas; integers and booleans with nulls keep their types."""
    table = run_job(frame.toArrow)
    columns = map(series_of_arrow, table.columns)
    return pd.DataFrame(dict(zip(table.column_names, columns, strict=True)), columns=table.column_names)


def run_job(job: Callable[[], T]) -> T:
    """Run a job; if a task raised an error of cepkit, raise that error without Spark's wrapping."""
    try:
        with watch_spark("Spark tasks"):
            return job()
    except Exception as error:  # Spark does not translate each of Java's errors to its own
        if _DEAD_WORKER in str(error):
            raise errors.CepError(_WORKER_DIED) from error
        task_error = error_of_task(error)
        if task_error is None:
            raise
        raise task_error from None


def error_of_task(error: Exception) -> errors.CepError | None:
    """Return the error of cepkit that made a job fail; None if something else did."""
    from pyspark.errors import PySparkException

    matched = re.search(r"cepkit\.errors\.(\w+): (.*)", str(error))
    if matched is None or not isinstance(error, PySparkException):
        return None
    return getattr(errors, matched[1])(matched[2].strip())


def refuse(frame: DataFrame, problem: Column, error: type[errors.CepError], message: str) -> DataFrame:
    """Return a frame with a column ``number``; its job raises an error when a row has the problem."""
    from pyspark.sql import functions as F

    failure = F.raise_error(F.lit(f"cepkit.errors.{error.__name__}: {message}")).cast("bigint")
    checked = frame.withColumn("number", F.when(problem, failure).otherwise(F.col("number")))
    return checked.where("number >= 0")  # prevents Spark from pruning the column


# A part of a Spark frame that fits into memory, and jobs on the whole frame that can be cancelled.

MOST_ROWS = 100_000  # of the part
_CELLS = 1 << 20  # of the hash that chooses keys
_ATTEMPTS = 4


def part_of(
    frame: Any, partition_by: Sequence[str], order_by: Sequence[str], most: int = MOST_ROWS
) -> tuple[pd.DataFrame, str]:
    """Return a part of a Spark frame as a pandas frame, and a description; empty for the whole frame.

    With ``partition_by`` the part has all rows of some keys, which a hash chooses. Otherwise, or if a single
    key has more than ``most`` rows, it has the first ``most`` rows in time.

    One job counts and one collects; up to four collect when keys differ in size.
    """
    from pyspark.sql import functions as F

    names = frame.columns
    # Numbered columns, since names may have dots and backticks, or differ only in case.
    plain = frame.toDF(*(f"c{i}" for i in range(len(names))))

    def keyed(columns: Sequence[str]) -> list[Any]:
        return [F.col(f"c{names.index(name)}") for name in columns]

    if not order_by:
        raise OrderError(
            "order_by is missing: the rows of a Spark frame have no order; name the columns that sort the "
            "events of a partition"
        )
    n = frame.count()
    if n <= most:
        return _sort_rows(collect(frame), order_by), ""
    if partition_by:
        cell = F.pmod(F.xxhash64(*keyed(partition_by)), F.lit(_CELLS))
        share = 0.8 * most / n
        for _ in range(_ATTEMPTS):
            part = collect(plain.where(cell < F.lit(int(share * _CELLS))).limit(most + 1).toDF(*names))
            if 0 < len(part) <= most:
                keys = f"all rows of some keys of {', '.join(partition_by)}"
                return _sort_rows(part, order_by), f"a sample of {len(part):,} of {n:,} rows: {keys}"
            share = share / 2 if len(part) else share * 4
    part = collect(plain.orderBy(*keyed(order_by)).limit(most).toDF(*names))
    return part, f"a sample of {len(part):,} of {n:,} rows: the first ones by {', '.join(order_by)}"


@contextmanager
def stoppable(session: Any) -> Iterator[Callable[[], Any]]:
    """Yield a function that cancels the jobs this thread starts meanwhile; any thread may call it."""
    from pyspark.sql.utils import is_remote

    name = f"cepkit explorer {uuid4().hex}"
    if is_remote():
        session.addTag(name)
        try:
            yield lambda: session.interruptTag(name)
        finally:
            session.removeTag(name)
        return
    context = session.sparkContext  # only the thread that set a tag may cancel its jobs
    context.setJobGroup(name, "the explorer's query on all rows", interruptOnCancel=True)
    try:
        yield lambda: context.cancelJobGroup(name)
    finally:
        for of_group in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(of_group, None)


def _sort_rows(part: pd.DataFrame, order_by: Sequence[str]) -> pd.DataFrame:
    return part.sort_values(list(order_by), kind="stable", ignore_index=True)
