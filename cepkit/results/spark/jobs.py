"""Spark jobs of results: their rows become pandas frames, their errors become cepkit's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from cepkit import errors
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
        own = error_of_task(error)
        if own is None:
            raise
        raise own from None


def error_of_task(error: Exception) -> errors.CepError | None:
    """Return the error of cepkit that made a job fail; None if something else did."""
    from pyspark.errors import PySparkException

    found = re.search(r"cepkit\.errors\.(\w+): (.*)", str(error))
    if found is None or not isinstance(error, PySparkException):
        return None
    return getattr(errors, found[1])(found[2].strip())


def refuse(frame: DataFrame, problem: Column, error: type[errors.CepError], message: str) -> DataFrame:
    """Return a frame with a column ``number``; its job raises an error when a row has the problem."""
    from pyspark.sql import functions as F

    failure = F.raise_error(F.lit(f"cepkit.errors.{error.__name__}: {message}")).cast("bigint")
    checked = frame.withColumn("number", F.when(problem, failure).otherwise(F.col("number")))
    return checked.where("number >= 0")  # prevents Spark from pruning the column
