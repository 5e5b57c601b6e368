"""How the results of buckets leave Spark's operator: as columns, or as bytes that Python reads again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.streaming.spark.bucket import Received

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

STATISTICS = ("rows", "late", "found", "held", "kept", "live", "state_bytes", "n_buckets")
_OF_BUCKET = pa.schema([("bucket", pa.int32()), *((name, pa.int64()) for name in STATISTICS)])
_PACKED = pa.schema([("matches", pa.binary()), ("late_rows", pa.binary())])
_ROWS_AT_ONCE = 1 << 16


def as_stream(table: pa.Table) -> bytes:
    """Return a table as bytes in the form of Arrow streams."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def of_stream(content: bytes) -> pa.Table:
    """Return the table that `as_stream` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class Sending:
    """What leaves the operator: a row with statistics for each bucket, and the rows of its results.

    Results of plain types are columns of the operator, in rows of their own. Spark converts nested values
    one by one, and makes null of NaN inside them. So nested results are bytes in the row of the statistics,
    and further Python workers open them.

    """

    output: pa.Schema  # of the result's columns
    columns: tuple[str, ...] = ()  # names of the columns of late rows
    late: pa.StructType | None = None  # type of the column of late rows; None: no such column
    shed: tuple[str, ...] = ()  # names of the numbers of load shedding

    @property
    def _of_bucket(self) -> pa.Schema:
        """The columns of a bucket's statistics."""
        return pa.schema([*_OF_BUCKET, *((name, pa.float64()) for name in self.shed)])

    @property
    def is_nested(self) -> bool:
        """Whether a column of the results or of late rows is nested."""
        types = [field.type for field in [*self.output, *(self.late or ())]]
        return any(pa.types.is_nested(of) for of in types)

    @property
    def _late_fields(self) -> list[pa.Field]:
        fields = [] if self.late is None else list(self.late)
        return [pa.field(f"l{i}", field.type) for i, field in enumerate(fields)]

    # --- in the workers

    def sent(self, statistics: Mapping[str, float], made: Received) -> Iterator[pd.DataFrame]:
        """Yield what a bucket returns, as frames for Spark; ``statistics`` has the number of the bucket."""
        of_bucket = pa.table({name: [value] for name, value in statistics.items()}, schema=self._of_bucket)
        if self.is_nested:
            for name, table in {"matches": made.matches, "late_rows": made.late}.items():
                content = as_stream(table) if table.num_rows else None
                of_bucket = of_bucket.append_column(_PACKED.field(name), [pa.array([content], pa.binary())])
            yield _as_frame(of_bucket)
            return
        schema = pa.schema([*self._of_bucket, *self.output, ("is_late", pa.bool_()), *self._late_fields])
        parts = [schema.empty_table(), of_bucket, _as_table(made.matches, self.output)]
        if self.late is not None:
            late = _as_table(made.late, self._late_fields)
            parts.append(late.append_column("is_late", pa.array(np.ones(late.num_rows, bool))))
        table = pa.concat_tables(parts, promote_options="default")
        for begin in range(0, table.num_rows, _ROWS_AT_ONCE):
            yield _as_frame(table.slice(begin, _ROWS_AT_ONCE))

    def open(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of results that are bytes."""
        for batch in batches:
            for content in batch.column("matches").drop_null():
                arrays = _as_table(of_stream(content.as_py()), self.output).columns
                if self.late is not None:
                    arrays.append(pa.nulls(len(arrays[0]), self.late))
                yield from self._batches(arrays)
            if self.late is not None:
                for content in batch.column("late_rows").drop_null():
                    yield from self._late_rows(of_stream(content.as_py()), self.late)

    def _late_rows(self, table: pa.Table, late: pa.StructType) -> Iterator[pa.RecordBatch]:
        nothing = [pa.nulls(table.num_rows, of.type) for of in self.output]
        values = [pc.cast(table.column(i).combine_chunks(), late[i].type) for i in range(table.num_columns)]
        rows = pa.StructArray.from_arrays(values, fields=list(late))
        yield from self._batches([*nothing, rows])

    def _batches(self, arrays: list) -> Iterator[pa.RecordBatch]:
        fields = list(self.output) if self.late is None else [*self.output, pa.field("late", self.late)]
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        yield from table.to_batches(max_chunksize=_ROWS_AT_ONCE)

    # --- on the driver

    def operator_types(self, types: StructType) -> StructType:
        """Return the types of the operator's columns, for the ``types`` of the result's columns."""
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import BooleanType, StructField, StructType

        if self.is_nested:
            return from_arrow_schema(pa.schema([*self._of_bucket, *_PACKED]))
        names = self.output.names
        late = types["late"].dataType if self.late is not None else StructType()
        assert isinstance(late, StructType)
        return StructType(
            [
                *from_arrow_schema(self._of_bucket),
                *(field for field in types if field.name in names),
                StructField("is_late", BooleanType()),
                *(StructField(f"l{i}", field.dataType) for i, field in enumerate(late)),
            ]
        )

    def opened(self, made: DataFrame, types: StructType) -> DataFrame:
        """Return the result's columns of what the operator made."""
        from pyspark.sql import functions as F

        if self.is_nested:
            return made.mapInArrow(self.open, types)
        shown = [F.col(name) for name in self.output.names]
        if self.late is not None:
            late = F.struct(*(F.col(f"l{i}").alias(name) for i, name in enumerate(self.columns)))
            shown.append(F.when(F.col("is_late"), late).alias("late"))
        return made.where(F.col("bucket").isNull()).select(*shown)


def _as_table(table: pa.Table, fields: pa.Schema | list[pa.Field]) -> pa.Table:
    """Return the columns of a table in these types, with these names."""
    arrays = [column.cast(of.type) for column, of in zip(table.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(fields)))


def _as_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table for Spark, which takes pandas frames only; no value changes."""
    return table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
