"""The work of Spark's tasks on a stream, from rows to the results of buckets; and how the stream goes."""

from __future__ import annotations

import functools
import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from cepkit.errors import CepError
from cepkit.frames.spark import clear_error, received_table, use_kernel_cache
from cepkit.results.spark_tasks import error_of_task
from cepkit.streaming.spark_bucket import Bucket, BucketPlan, Received
from cepkit.values import dataclass

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


# How the results of buckets leave Spark's operator: as columns, or as bytes that Python reads again.

STATISTICS = ("rows", "late", "found", "held", "kept", "live", "state_bytes", "n_buckets")
_OF_BUCKET = pa.schema([("bucket", pa.int32()), *((name, pa.int64()) for name in STATISTICS)])
_PACKED = pa.schema([("matches", pa.binary()), ("late_rows", pa.binary())])
_ROWS_SENT_AT_ONCE = 1 << 16


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
    """What leaves the operator: a row with statistics for each bucket, and the rows of its results."""

    # Results of plain types are columns of the operator, in rows of their own. Spark converts nested values
    # one by one, and makes null of NaN inside them. So nested results are bytes in the row of the statistics,
    # and further Python workers open them.

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
        return any(pa.types.is_nested(arrow_type) for arrow_type in types)

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
        for begin in range(0, table.num_rows, _ROWS_SENT_AT_ONCE):
            yield _as_frame(table.slice(begin, _ROWS_SENT_AT_ONCE))

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
        nothing = [pa.nulls(table.num_rows, field.type) for field in self.output]
        values = [pc.cast(table.column(i).combine_chunks(), late[i].type) for i in range(table.num_columns)]
        rows = pa.StructArray.from_arrays(values, fields=list(late))
        yield from self._batches([*nothing, rows])

    def _batches(self, arrays: list) -> Iterator[pa.RecordBatch]:
        fields = list(self.output) if self.late is None else [*self.output, pa.field("late", self.late)]
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        yield from table.to_batches(max_chunksize=_ROWS_SENT_AT_ONCE)

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
    arrays = [column.cast(field.type) for column, field in zip(table.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(fields)))


def _as_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table for Spark, which takes pandas frames only; no value changes."""
    return table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)


# The work of Spark's tasks on a stream: rows go to buckets, and the results of buckets become rows.

_ROWS_AT_ONCE = 1 << 20  # that a task collects before it deals them out
_MOST_IN_MEMORY = 256  # buckets that a worker keeps open

ROWS_IN_BUCKETS = "bucket int, rows binary"


@dataclass(frozen=True)
class Dealer:
    """Deals the rows of a task out to the buckets."""

    # Every bucket gets a row in every micro-batch that has rows, perhaps without content. So every bucket
    # checks its state and learns the watermark.

    columns: tuple[str, ...]  # of the batches; the last one, without a name here, is the bucket's number
    labels: tuple[int, ...]  # Spark's key of each bucket

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row per bucket: its label, and its rows as an Arrow stream."""
        waiting: list[pa.RecordBatch] = []
        n_rows, has_rows = 0, False
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
                n_rows, has_rows = n_rows + batch.num_rows, True
            if n_rows >= _ROWS_AT_ONCE:
                yield self._dealt(waiting)
                waiting, n_rows = [], 0
        if waiting:
            yield self._dealt(waiting)
        if has_rows:
            nothing = pa.array([None] * len(self.labels), pa.binary())
            yield pa.record_batch({"bucket": pa.array(self.labels, pa.int32()), "rows": nothing})

    def _dealt(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        table = received_table(batches, (*self.columns, ""))
        assert table is not None
        n = len(self.columns)  # by places, since a column may have any name
        number, rows = table.column(n).to_numpy(), table.select(range(n))
        buckets = np.unique(number)
        parts = (
            [rows] if len(buckets) == 1 else [rows.filter(pa.array(number == bucket)) for bucket in buckets]
        )
        labels = pa.array([self.labels[bucket] for bucket in buckets], pa.int32())
        return pa.record_batch({"bucket": labels, "rows": pa.array(map(as_stream, parts), pa.binary())})


# Buckets that this worker has open, by stream and label, with the token of their saved state.
_OPEN: dict[tuple[str, int], tuple[str, Bucket]] = {}


class BucketProcessor(StatefulProcessor):
    """Spark's operator on buckets: their state is one value, and the watermark moves them."""

    # A worker keeps its buckets open. A bucket in memory serves only if its token equals the token in Spark's
    # state; after a failed or repeated task the state is read again.

    def __init__(self, plan: BucketPlan, sending: Sending, kernel_cache: str | None = None):
        self._plan, self._sending, self._kernel_cache = plan, sending, kernel_cache
        self._stream = uuid.uuid4().hex

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._token = handle.getValueState("token", "token string")
        self._content = handle.getValueState("content", "content binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Take the rows of a micro-batch; Spark calls it with these names."""
        contents = [content for frame in rows for content in frame["rows"] if content is not None]
        yield from self._received(int(key[0]), contents, timerValues.getCurrentWatermarkInMs(), None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Search the rows that the watermark has passed; Spark calls it with these names."""
        expired = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._received(int(key[0]), [], timerValues.getCurrentWatermarkInMs(), expired)

    def close(self) -> None:
        """Do nothing: the buckets stay open for the next micro-batch."""

    def _received(
        self, label: int, contents: list[bytes], watermark: int, expired: int | None
    ) -> Iterator[pd.DataFrame]:
        use_kernel_cache(self._kernel_cache)
        token, bucket = self._take_bucket(label)
        schema = self._plan.schema.arrow
        tables = [of_stream(content).cast(schema) for content in contents]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        try:
            received = bucket.receive(rows, watermark * 1000 if watermark > 0 else None)
        except Exception as error:
            raise clear_error(error) from None
        # A bucket is saved when it is new: so each one refuses the state of another query after a restart.
        if received.changed or expired is not None or not token:
            self._set_timer(bucket, expired)
            token = uuid.uuid4().hex
            self._content.update((bucket.pack(),))
            self._token.update((token,))
        _OPEN[self._stream, label] = token, bucket
        while len(_OPEN) > _MOST_IN_MEMORY:
            _OPEN.pop(next(iter(_OPEN)))
        statistics = {
            "bucket": label, "rows": received.n_rows, "late": received.late.num_rows,
            "found": received.matches.num_rows, **bucket.counts(), "state_bytes": bucket.n_bytes,
            "n_buckets": 1, **received.shed,
        }  # fmt: skip
        return self._sending.sent(statistics, received)

    def _take_bucket(self, label: int) -> tuple[str, Bucket]:
        """Return the bucket with the token of its state; it is not open while a task changes it."""
        saved = self._token.get()
        token = "" if saved is None else saved[0]
        open_token, bucket = _OPEN.pop((self._stream, label), (None, None))
        if bucket is not None and open_token == token:
            return token, bucket
        content = self._content.get() if token else None
        if content is None:
            return token, Bucket(self._plan)
        return token, Bucket.unpack(self._plan, bytes(content[0]))

    def _set_timer(self, bucket: Bucket, expired: int | None) -> None:
        wanted = bucket.next_timer
        if wanted == bucket.timer and bucket.timer != expired:
            return
        if bucket.timer is not None and bucket.timer != expired:  # Spark deletes an expired timer itself
            self._handle.deleteTimer(bucket.timer)
        if wanted is not None:
            self._handle.registerTimer(wanted)
        bucket.timer = wanted


# --- buckets that Spark spreads evenly


def labels_of_buckets(n_buckets: int, n_partitions: int) -> tuple[int, ...]:
    """Return a key for every bucket, so that Spark's partitions of the state get equally many buckets."""
    # The first one is 0 for any numbers. So at least one bucket finds and refuses the state of other
    # settings.
    labels, label = [], 0
    n_in = [0] * n_partitions
    most = -(-n_buckets // n_partitions)
    while len(labels) < n_buckets:
        partition = _spark_hash(label) % n_partitions
        if n_in[partition] < most:
            n_in[partition] += 1
            labels.append(label)
        label += 1
    return tuple(labels)


def _spark_hash(value: int) -> int:
    """Return Spark's hash of an integer key: Murmur3 of 32 bits with seed 42."""
    low = 0xFFFFFFFF
    k = value * 0xCC9E2D51 & low
    k = ((k << 15 | k >> 17) & low) * 0x1B873593 & low
    h = 42 ^ k
    h = ((h << 13 | h >> 19) & low) * 5 + 0xE6546B64 & low
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & low
    h = (h ^ h >> 13) * 0xC2B2AE35 & low
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


_STATE = {"held": "held", "kept": "kept", "live": "live_partial_matches", "state_bytes": "state_bytes"}
_COLUMNS = {
    "batch": "int64", "at": "datetime64[ms]", "rows": "int64", "late_rows": "int64", "matches": "int64",
    **dict.fromkeys(_STATE.values(), "Int64"), "watermark": "datetime64[ms]",
    "watermark_lag": "timedelta64[ms]", "seconds": "float64",
}  # fmt: skip
MOST_LATENCY = "most_latency"  # the only number of load shedding whose greatest value counts, not the sum
_OF_SHEDDING = {
    "processed_rows": "int64", "dropped_rows": "int64", "dropped_partial_matches": "int64",
    "estimated_recall": "float64", "mean_latency": "float64", "max_latency": "float64",
    "buckets_that_learn": "Int64",
}  # fmt: skip
_STATE_OF_SHEDDING = ("estimated_recall", "buckets_that_learn")
_PANELS = {
    "in and out": ["rows", "late_rows", "dropped_rows", "matches", "results"],
    "waiting afterwards": ["held", "kept", "live_partial_matches"],
}


def progress_frame(
    queries: Iterable[StreamingQuery], name: str, n_buckets: int, types: Sequence[str] = ()
) -> pd.DataFrame:
    """Return a row per micro-batch of these queries that reports under this name."""
    dropped = {f"dropped {event_type}": "int64" for event_type in types}
    more = {**_OF_SHEDDING, **dropped} if types else {}
    types_of_columns = {**_COLUMNS, **more}
    rows: list[dict[str, Any]] = []
    for query in queries:
        for batch in query.recentProgress:
            if name in batch["observedMetrics"]:
                # Spark Connect leaves out what is null.
                observed = defaultdict(lambda: None, batch["observedMetrics"][name].asDict())
                shed = _shed(observed, types, n_buckets) if types else {}
                rows.append({**_row_of(batch, observed, n_buckets), **shed})
    frame = pd.DataFrame(rows, columns=list(types_of_columns)).astype(types_of_columns)
    shown = [*_STATE.values(), *(name for name in _STATE_OF_SHEDDING if name in more)]
    frame[shown] = frame[shown].ffill()
    newest = (frame["watermark"] + frame["watermark_lag"]).cummax().ffill()
    frame["watermark_lag"] = (newest - frame["watermark"]).astype("timedelta64[ms]")
    return frame


def draw_progress(progress: pd.DataFrame, title: str) -> go.Figure:
    """Draw what goes in and out of each micro-batch, and what waits after it."""
    from cepkit.plots.charts import SweepPanel, sweep_figure

    panels = []
    for heading, wanted in _PANELS.items():
        names = [name for name in wanted if name in progress]
        shown = progress[["batch", *names]].set_axis(["batch", *(n.replace("_", " ") for n in names)], axis=1)
        rows = (
            shown.melt("batch", var_name="what", value_name="number").dropna().astype({"number": "float64"})
        )
        panels.append(SweepPanel(rows, "batch", "number", heading, x_title="micro-batch", y_title="rows"))
    return sweep_figure(panels, series="what", title=title)


def _row_of(one: Any, observed: dict[str, Any], n_buckets: int) -> dict[str, Any]:
    times = one["eventTime"]
    watermark = _time(times.get("watermark"))
    newest = _time(times.get("max"))
    is_whole = (observed["n_buckets"] or 0) >= n_buckets
    return {
        "batch": one["batchId"],
        "at": _time(one["timestamp"]),
        "rows": observed["rows"] or 0,
        "late_rows": observed["late"] or 0,
        "matches": observed["found"] or 0,
        **{shown: observed[name] if is_whole else None for name, shown in _STATE.items()},
        "watermark": watermark,
        # pandas takes a column that has only NaT for times, and casts no times to durations.
        "watermark_lag": np.timedelta64("NaT", "ms") if pd.isna(newest - watermark) else newest - watermark,
        "seconds": one["durationMs"].get("triggerExecution", 0) / 1000,
    }


def _shed(observed: dict[str, Any], types: Sequence[str], n_buckets: int) -> dict[str, Any]:
    """Return the columns of load shedding of a micro-batch; all numbers that Spark observed are floats."""
    numbers = defaultdict(float, {name: value for name, value in observed.items() if value is not None})
    dropped = {f"dropped {event_type}": round(numbers[f"dropped_{i}"]) for i, event_type in enumerate(types)}
    n, is_whole = numbers["latencies"], numbers["n_buckets"] >= n_buckets
    return {
        "processed_rows": round(numbers["processed"]),
        "dropped_rows": sum(dropped.values()),
        "dropped_partial_matches": round(numbers["partial"]),
        "estimated_recall": numbers["recall_found"] / numbers["recall_wanted"]
        if is_whole and numbers["recall_wanted"]
        else math.nan,
        "mean_latency": numbers["latency_seconds"] / n if n else math.nan,
        "max_latency": numbers[MOST_LATENCY] if n else math.nan,
        "buckets_that_learn": round(numbers["learns"]) if is_whole else None,
        **dropped,
    }


def _time(text: str | None) -> Any:
    """Return a time of Spark's reports; a watermark of 1970 is none."""
    if text is None:
        return pd.NaT
    time = pd.Timestamp(text).tz_localize(None)
    return pd.NaT if time == pd.Timestamp(0) else time


# Functions for Spark's ``foreachBatch`` that write every match once.


@dataclass(frozen=True)
class ParquetByBatch:
    """Writes each micro-batch into a folder of its own; a repeated batch replaces its folder."""

    path: str  # the folder of the matches. Reading it gives a further column ``batch``.
    late: str | None = None  # the folder of the late rows
    has_late_rows: bool = False  # whether the batches have the column ``late``

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a micro-batch; Spark calls it with the number of the batch."""
        from pyspark.sql import functions as F

        if not self.has_late_rows:
            batch.write.mode("overwrite").parquet(f"{self.path}/batch={number}")
            return
        batch.persist()
        try:
            matches = batch.where(F.col("late").isNull()).drop("late")
            matches.write.mode("overwrite").parquet(f"{self.path}/batch={number}")
            if self.late is not None:
                late = batch.where(F.col("late").isNotNull()).select("late.*")
                late.write.mode("overwrite").parquet(f"{self.late}/batch={number}")
        finally:
            batch.unpersist()


# Why a streaming query failed, in one error: state of another query, or a checkpoint that is damaged.

# What Spark says when it cannot read a file of a checkpoint.
_DAMAGE = (
    "CANNOT_LOAD_STATE_STORE", "STATE_STORE_MISSING", "MISSING_STATE_DIRECTORY", "checksum mismatch",
    "Unexpected end-of-input", "JsonParseException", "Incomplete log file", "Malformed log file",
)  # fmt: skip


def error_of_stream(error: Exception) -> CepError | None:
    """Return the error of cepkit for a failure of a streaming query; None for other failures."""
    if (task_error := error_of_task(error)) is not None:
        return task_error
    text = str(error)
    damage = next((line.strip() for line in text.splitlines() if any(word in line for word in _DAMAGE)), None)
    if damage is None:
        return None
    return CepError(
        f"the checkpoint of the stream is damaged: {damage[:200]}. Restore the folder from a copy that was "
        "made while the query did not run, or begin with an empty checkpoint folder and an empty result"
    )


def with_clear_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of Spark's writer or query that raises the errors of `error_of_stream`."""

    @functools.wraps(call)
    def made(*given: Any, **more: Any) -> Any:
        try:
            return call(*given, **more)
        except Exception as error:
            stream_error = error_of_stream(error)
            if stream_error is None:
                raise
            raise stream_error from error

    return made
