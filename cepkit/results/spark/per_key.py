"""A function of Arrow tables, run as one Spark task per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cepkit.errors import CepError
from cepkit.language.sequences.query import SequenceQuery
from cepkit.results.spark.binding import bind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    for i, of in enumerate(type_of_column.values()):
        schema = schema.add(f"m{i}", of)

    def of_key(rows: pa.Table) -> pa.Table:
        made = task(rows.rename_columns(names))
        first = pa.array([0] * len(made), pa.int64())
        columns = [rows.column(place).take(first) for place in place_of_key]
        for name, of in type_of_column.items():
            columns.append(pa.array([row[name] for row in made], _ARROW[of]))
        return pa.table(columns, schema.names)

    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    plain = frame.toDF(*(f"c{i}" for i in range(len(names))))
    made = plain.groupBy(*(f"c{place}" for place in place_of_key)).applyInArrow(of_key, schema)
    return made.toDF(*keys, *type_of_column)
