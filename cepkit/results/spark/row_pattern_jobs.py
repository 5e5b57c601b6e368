"""What the jobs of MATCH_RECOGNIZE and of a WINDOW share: partitions of rows, types, ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, OrderError, warn
from cepkit.frames.spark.tasks import EmptySource, check_convertible, key_columns, numbered_columns
from cepkit.language.match_recognize.query import SelectedRows, SortKey
from cepkit.results.spark.row_pattern_tasks import Told

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    plain = numbered_columns(frame, source, received)
    if clock is not None:
        from pyspark.sql import functions as F

        latest = plain.agg(F.max(f"e{received.index(clock)}").alias("latest"))
        plain = plain.crossJoin(F.broadcast(latest))
    keys = key_columns(source, received, partition_by)
    return received, plain.repartition(*keys) if keys else plain.repartition(1)


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
