"""A function of pandas frames, run as one Spark task per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.errors import CepError
from cepkit.language.sequences.query import SequenceQuery
from cepkit.results.spark.binding import bind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_per_key(
    frame: DataFrame,
    queries: Sequence[SequenceQuery],
    task: Callable[[pd.DataFrame], pd.DataFrame],
    type_of_column: Mapping[str, str],
) -> DataFrame:
    """Return a lazy Spark frame with the rows that a task makes of the rows of each key.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    queries : sequence of SequenceQuery
        They are checked against the columns. Their ``partition_by`` names the keys.
    task : callable
        Takes all rows of a key, and returns a pandas frame with the given columns. It must be picklable.
    type_of_column : mapping of str to str
        Spark type of each column.

    Raises
    ------
    CepError
        As `cepkit.match`; without ``partition_by``, or when the queries differ in it.
    """
    from pyspark.sql.types import StructType

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
    fields = [frame.schema[name] for name in keys]
    own = StructType.fromDDL(", ".join(f"{name} {of}" for name, of in type_of_column.items()))

    def of_key(rows: pd.DataFrame) -> pd.DataFrame:
        made = task(rows)
        for name in reversed(keys):
            made.insert(0, name, rows[name].iloc[0])
        return made

    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    grouped = frame.groupBy(*(f"`{name}`" for name in keys))
    return grouped.applyInPandas(of_key, StructType([*fields, *own.fields]))
