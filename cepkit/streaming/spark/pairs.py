"""`SparkStreamPairs`, the result of a join of two streaming Spark frames."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from cepkit.frames.spark.tasks import EmptySource, check_convertible
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.operators.sides import SIDE, Sides
from cepkit.streaming.spark.bucket import BucketQuery
from cepkit.streaming.spark.results import rows_with_buckets, said_watermark, schema_of_source
from cepkit.streaming.spark.rows import SparkStreamRows
from cepkit.windows.chains import Chain
from cepkit.windows.values import SIDES, Join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Frames = tuple["DataFrame", "DataFrame"]  # the left and the right one


class SparkStreamPairs(SparkStreamRows):
    """The rows of a join of two streaming Spark frames, or of a chain that begins with one.

    ``stream.cep.join(…)`` returns it. The rows of both sides go to one Spark operator, which holds them until
    the watermark passes them. Spark's watermark is the earlier one of both sides, unless you change
    ``spark.sql.streaming.multipleWatermarkPolicy``. All outputs together are the pairs that `cepkit.join`
    finds in all rows that were not late.

    """

    def __init__(
        self,
        frames: Frames,
        sources: tuple[EmptySource, EmptySource],
        query: Join | Chain,
        n_buckets: int | None = None,
        late: str | None = None,
        unbounded: bool = False,
    ):
        self._frames, self._sources = frames, sources
        for source in sources:
            check_convertible(source, source.names)
        super().__init__(frames[0], sources[0], query, n_buckets, late, unbounded)

    def _again(self, n_buckets: int | None, late: str, unbounded: bool) -> SparkStreamPairs:
        assert isinstance(self.query, Join | Chain)
        return SparkStreamPairs(self._frames, self._sources, self.query, n_buckets, late, unbounded)

    @property
    def _all_frames(self) -> Frames:
        return self._frames

    @property
    def _sides(self) -> Sides:
        query = self.query
        join = query.steps[0] if isinstance(query, Chain) else query
        assert isinstance(join, Join)
        left, right = (schema_of_source(source, source.names) for source in self._sources)
        return Sides(join, (left, right))

    @cached_property
    def _bucket_query(self) -> BucketQuery:
        if isinstance(self.query, Chain):
            return Chain((self._sides, *self.query.steps[1:]))
        return self._sides

    @cached_property
    def _bucket_schema(self) -> StreamSchema:
        return self._sides.schema

    def _rows_with_buckets(self, columns: list[str]) -> DataFrame:
        from pyspark.sql import functions as F

        right_key = dict(self._sides.join.on)
        keys = [list(self._keys), [right_key[name] for name in self._keys]]
        numbered, names, first = [], [], 0
        for which in (0, 1):
            own = self._sources[which].names
            plain = rows_with_buckets(
                self._frames[which], self._sources[which], own, keys[which], self._plan.n_buckets
            )
            names += [f"c{first + i}" for i in range(len(own))]
            first += len(own)
            numbered.append(plain.toDF(*names[-len(own) :], "bucket").withColumn(SIDE, F.lit(which)))
        both = numbered[0].unionByName(numbered[1], allowMissingColumns=True)
        return both.select(SIDE, *names, "bucket")

    def _types_of_rows(self) -> dict[str, DataType]:
        from pyspark.sql.types import IntegerType

        types: dict[str, DataType] = {SIDE: IntegerType()}
        for side, source in zip(SIDES, self._sources, strict=True):
            types |= {f"{side}_{field.name}": field.dataType for field in source.fields}
        return types

    @property
    def _watermark(self) -> str:
        said = map(said_watermark, self._sources, self._sides.clocks)
        return f"the earlier one of {' and '.join(said)}"
