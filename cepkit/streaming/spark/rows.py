"""`SparkStreamRows` and `SparkStreamPairs`: windows, joins and chains on streaming Spark frames."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from cepkit.frames.spark.tasks import EmptySource, check_convertible, needed_columns
from cepkit.results.spark.binding import bind_any
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.operators.join_search import SIDE, Sides
from cepkit.streaming.sequence_stream import SequenceSearch
from cepkit.streaming.spark.bucket import BucketQuery, keys_of_buckets
from cepkit.streaming.spark.results import (
    NextStep,
    SparkStreamResults,
    rows_with_buckets,
    said_watermark,
    schema_of_source,
    steps_of,
)
from cepkit.windows.chains import Chain, OperatorExplanation, lines_of
from cepkit.windows.values import SIDES, Join, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


# `SparkStreamRows`, the result of windows, joins and chains on streaming Spark frames.


class SparkStreamRows(SparkStreamResults):
    """The rows that a window, a join or a chain emits in a streaming Spark frame.

    ``stream.cep.window(…)`` returns it, and so do ``stream.cep.join(…)`` and ``stream.cep.match([…])``.
    `to_frame` is a streaming frame, for a window with the columns of the stream and the aggregates, and
    `writeStream` writes it as any streaming frame. Nothing runs until Spark starts that writer.

    Notes
    -----
    Rows wait for the watermark as for `SparkStreamMatches`. So all outputs together are the rows that
    `cepkit.window` returns for all rows that were not late, however Spark cuts the stream into micro-batches.
    With ``emit="all"`` a row of a window of time expires when the watermark passes its time.

    A window of time with ``group_by`` has its groups in buckets, which Spark's tasks share. Other windows
    need all rows in one bucket. A join through windows of time has its keys in buckets if it has no measures.

    In a chain each step reads the results of the step before, in the same Spark operator: `cep` adds a step.
    Its buckets have the keys that all steps share. A later step knows that time has passed if its clock is
    the clock of the step before, or ``emitted``. Otherwise its last results wait for the next row.

    Examples
    --------
    >>> sums = stream.withWatermark("ts", "1 minute").cep.window(
    ...     {"total": "sum(price)"}, time="15 s", group_by="symbol", order_by=["ts", "n"])  # doctest: +SKIP
    >>> sums.writeStream.option("checkpointLocation", "state").start("sums")  # doctest: +SKIP
    """

    @property
    def query(self) -> Window | Join | Chain:
        """The window, the join or the chain as a value.

        Examples
        --------
        >>> sums.query  # doctest: +SKIP
        Window({'total': 'sum(price)'}, time='15 s', group_by='symbol', order_by=['ts', 'n'])
        """
        assert isinstance(self._query, Window | Join | Chain)
        return self._query

    def _again(self, n_buckets: int | None, late: str, unbounded: bool) -> SparkStreamRows:
        return SparkStreamRows(self._frame, self._source, self.query, n_buckets, late, unbounded)

    @property
    def progress(self) -> pd.DataFrame:
        """How the stream goes, as `SparkStreamMatches.progress`; ``results`` counts the rows that came out.

        ``kept`` is the number of rows in the windows.

        Examples
        --------
        >>> sums.progress[["batch", "rows", "late_rows", "results"]]  # doctest: +SKIP
        """
        return super().progress.drop(columns="live_partial_matches").rename(columns={"matches": "results"})

    def explain(self) -> OperatorExplanation:
        """Say how the window, the join or the chain is read and how the stream runs, without running it.

        Examples
        --------
        >>> sums.explain()  # doctest: +SKIP
        """
        notes = (*self._notes_on_time(), *self._notes())
        return OperatorExplanation((*lines_of(self.query, is_stream=True), *notes))

    @property
    def cep(self) -> NextStep:
        """A further step of a chain: ``rows.cep.match(…)`` and ``rows.cep.window(…)`` read these rows.

        Examples
        --------
        >>> rises = sums.cep.match("PATTERN SEQ(_ a, _ b) WHERE b.total > 2 * a.total WITHIN 1 min",
        ...                        partition_by="symbol", order_by="ts")  # doctest: +SKIP
        """
        return NextStep(self._all_frames, steps_of(self.query))

    @property
    def _all_frames(self) -> tuple[DataFrame, ...]:
        return (self._frame,)

    @property
    def programs(self) -> tuple[Any, ...]:
        """The programs of the queries among the steps that keep events.

        Examples
        --------
        >>> sums.programs  # doctest: +SKIP
        ()
        """
        steps = self._search.steps if isinstance(self._query, Chain) else (self._search,)
        return tuple(step.program for step in steps if isinstance(step, SequenceSearch))

    @property
    def is_divided(self) -> bool:
        """Whether keys divide the rows into several buckets.

        Examples
        --------
        >>> sums.is_divided  # doctest: +SKIP
        True
        """
        return bool(self._keys)

    @property
    def why_one_bucket(self) -> str:
        """Why one bucket needs all rows, if no keys divide them.

        Examples
        --------
        >>> sums.why_one_bucket  # doctest: +SKIP
        'without group_by the window ranges over all rows'
        """
        return why_one_bucket(self._bucket_query)

    def _notes_on_time(self) -> tuple[tuple[str, str], ...]:
        if not isinstance(self._query, Chain) or None not in self._search.delays:
            return ()
        first = self._search.delays.index(None) + 1
        return (
            ("time", f"passes before step {first}; the last results of later steps wait for the next row"),
        )

    @property
    def _text(self) -> str:
        return str(self.query) if isinstance(self.query, Chain) else repr(self.query)

    @property
    def _title(self) -> str:
        return f"rows of {self._text}"

    def _needed_columns(self) -> list[str]:
        first = steps_of(self.query)[0]
        if not isinstance(first, Window):
            return needed_columns(bind_any(self._frame, first)[0], self._source)
        check_convertible(self._source, self._source.names)
        return self._source.names


def why_one_bucket(query: BucketQuery) -> str:
    """Return why one bucket needs all rows of a query without keys."""
    first = steps_of(query)[0]
    if keys_of_buckets(first):
        return "the steps share no key"
    if isinstance(first, Sides):
        return _why_one_bucket_of_sides(first)
    if not isinstance(first, Window):
        return "without partition_by all events are one stream"
    if first.time is None:
        return "a window of rows counts the rows of all groups together"
    return "without group_by the window ranges over all rows"


def _why_one_bucket_of_sides(sides: Sides) -> str:
    if not sides.join.on:
        return "without on every row may meet every other one"
    if not sides.is_timed:
        return "a window of rows counts the rows of all keys together"
    if sides.join.measures:
        return "measures range over the pairs of all keys"
    return "the keys of the sides have different types"


# `SparkStreamPairs`, the result of a join of two streaming Spark frames.

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
            side_columns = self._sources[which].names
            plain = rows_with_buckets(
                self._frames[which], self._sources[which], side_columns, keys[which], self._plan.n_buckets
            )
            names += [f"c{first + i}" for i in range(len(side_columns))]
            first += len(side_columns)
            numbered.append(plain.toDF(*names[-len(side_columns) :], "bucket").withColumn(SIDE, F.lit(which)))
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
        watermarks = map(said_watermark, self._sources, self._sides.clocks)
        return f"the earlier one of {' and '.join(watermarks)}"
