"""What results of streaming Spark frames share: their frame, their writer, their progress and failures."""

from __future__ import annotations

import functools
import html
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, UnsupportedQueryError, truth, whole_number
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import tasks
from cepkit.frames.spark.tasks import EmptySource
from cepkit.language.regex.patterns import Pattern, Repeat
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.queries import Query, QueryKeywords, read_arguments, takes_query_keywords
from cepkit.results.doors import open_door
from cepkit.results.spark.jobs import error_of_task
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.operators.row_pattern_query import RowPatternStream
from cepkit.streaming.saved import query_as_json
from cepkit.streaming.spark.bucket import BucketPlan, BucketQuery, keys_of_buckets
from cepkit.streaming.spark.progress import MOST_LATENCY, draw_progress, progress_frame
from cepkit.streaming.spark.tasks import STATISTICS, Sending
from cepkit.windows.chains import Chain, as_value
from cepkit.windows.values import Join, Window, window_of

if TYPE_CHECKING:
    from typing import Self, Unpack

    import plotly.graph_objects as go
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType, StructType


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


# What the results of streaming Spark frames share: their frame, their writer and their progress.

_BUCKETS_PER_PARTITION = 2
_DEFAULT_PARTITIONS = 200  # of Spark
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RESULT = "cepkit.result"  # in the metadata of the columns of results: what they are results of
_LATE = ("count", "rows")


class SparkStreamResults(ABC):
    """What a query or an operator finds in a streaming Spark frame; the base of both classes of results."""

    def __init__(
        self,
        frame: DataFrame,
        source: EmptySource,
        query: RegexQuery | SequenceQuery | Window | RowPatternStream | Join | Chain,
        n_buckets: int | None = None,
        late: str | None = None,
        unbounded: bool = False,
        shedding: Any = None,
    ):
        if late is not None and not (isinstance(late, str) and late in _LATE):
            raise CepError(f"late={late!r}: write 'count' or 'rows'")
        self._frame, self._source, self._query, self._shedding = frame, source, query, shedding
        self._keys = keys_of_buckets(self._bucket_query)
        self._n_buckets, self._late, self._unbounded = n_buckets, late or "count", unbounded
        self._n_partitions = _n_partitions(frame)
        self._name = f"cepkit {uuid4().hex}"  # of the observation in Spark's progress
        self._started: list[StreamingQuery] = []
        self._search = self._plan.open_search()  # refuses what only a finished frame allows

    @property
    @abstractmethod
    def _text(self) -> str:
        """Return the query in one line."""

    @property
    def _title(self) -> str:
        """Return what the results are, in words."""
        return f"matches of {self._text!r}"

    @property
    @abstractmethod
    def why_one_bucket(self) -> str:
        """Why one bucket needs all rows, if no keys divide them.

        Examples
        --------
        >>> found.why_one_bucket  # doctest: +SKIP
        'without partition_by all events are one stream'
        """

    @abstractmethod
    def _again(self, n_buckets: int | None, late: str, unbounded: bool) -> Self:
        """Return the same results with other settings."""

    @abstractmethod
    def _needed_columns(self) -> list[str]:
        """Return the columns that the buckets get."""

    # --- settings

    @property
    def n_buckets(self) -> int:
        """Number of buckets: one if no keys divide the rows, otherwise two per shuffle partition of Spark.

        Examples
        --------
        >>> found.n_buckets  # doctest: +SKIP
        400
        """
        return self._plan.n_buckets

    def configure(
        self, *, buckets: int | None = None, late: str | None = None, unbounded: bool | None = None
    ) -> Self:
        """Return the same results with other settings. A checkpoint belongs to its settings.

        Parameters
        ----------
        buckets : int, optional
            Number of buckets of keys. Every bucket costs about a millisecond per micro-batch; fewer buckets
            than cores leave cores idle.
        late : str, optional
            ``"count"``: late rows appear in `progress` only. ``"rows"``: `to_frame` has a last column
            ``late`` with the late rows as structs, in rows of their own; it is null for results.
        unbounded : bool, optional
            Whether the stream may run a regex query whose matches have no greatest length.

        Raises
        ------
        CepError
            For a wrong value.

        Examples
        --------
        >>> found.configure(buckets=8, late="rows").n_buckets  # doctest: +SKIP
        8
        """
        if buckets is not None and not self._keys:
            raise CepError(f"buckets: {self.why_one_bucket}, which is one bucket")
        n_buckets = self._n_buckets if buckets is None else whole_number("buckets", buckets, 1)
        is_unbounded = self._unbounded if unbounded is None else truth("unbounded", unbounded)
        return self._again(n_buckets, late or self._late, is_unbounded)

    # --- results

    def to_frame(self) -> DataFrame:
        """Return a streaming frame of the results: a row per match, or the rows that an operator emits.

        Raises
        ------
        UnsupportedQueryError
            For a regex query, also in a chain, whose matches may grow without limit.

        Examples
        --------
        >>> found.to_frame().writeStream.format("console").start()  # doctest: +SKIP
        """
        if not self._unbounded:
            for step in steps_of(self._query):
                refuse_unbounded(step)
        from pyspark.sql import functions as F

        from cepkit.streaming.spark import tasks as work

        _use_rocks(self._frame)
        types, output = self._result_types
        columns = list(self._plan.schema.arrow.names)
        labels = work.labels_of_buckets(self._plan.n_buckets, self._n_partitions)
        dealt = self._rows_with_buckets(columns).mapInArrow(
            work.Dealer(tuple(columns), labels).run, work.ROWS_IN_BUCKETS
        )
        names, late = list(self._search.empty.schema.names), None
        if self._late == "rows":
            check_free(("late",), [name.lower() for name in names])  # Spark ignores case
            types, late = self._with_late(types, columns)
            names.append("late")
        sending = Sending(output, tuple(columns), late, self._shed_names)
        processor = work.BucketProcessor(self._plan, sending, os.environ.get("CEPKIT_CACHE"))
        frame = dealt.groupBy("bucket").transformWithStateInPandas(
            processor, sending.operator_types(types), "append", "EventTime"
        )
        sums = [F.sum(name).alias(name) for name in STATISTICS]
        shed = [(F.max if name == MOST_LATENCY else F.sum)(name).alias(name) for name in self._shed_names]
        frame = sending.opened(frame.observe(self._name, *sums, *shed), types)
        return frame.select(
            *(
                F.col(f"`{column}`").alias(name, metadata={RESULT: self._title})
                for column, name in zip(frame.columns, names, strict=True)
            )
        )

    def _rows_with_buckets(self, columns: list[str]) -> DataFrame:
        """Return the rows with these columns by number, and the number of their bucket."""
        return rows_with_buckets(self._frame, self._source, columns, self._keys, self._plan.n_buckets)

    def _types_of_rows(self) -> dict[str, DataType]:
        """Return Spark's types of the columns that the buckets get, and maybe others."""
        return {field.name: field.dataType for field in self._source.fields}

    def _with_late(self, types: StructType, columns: list[str]) -> tuple[StructType, pa.StructType]:
        from pyspark.sql.types import StructField, StructType

        type_of_column = self._types_of_rows()
        rows = StructType([StructField(name, type_of_column[name]) for name in columns])
        of_late = pa.struct([self._plan.schema.arrow.field(name).with_nullable(True) for name in columns])
        return StructType([*types, StructField("late", rows)]), of_late

    @property
    def writeStream(self) -> DataStreamWriter:
        """Spark's writer of `to_frame`; give it a ``checkpointLocation`` and start it.

        `progress` follows the queries that it starts. Their ``awaitTermination`` raises `CepError` for a
        checkpoint that is damaged or holds the state of another query.

        Examples
        --------
        >>> query = found.writeStream.option("checkpointLocation", "state").start("matches")  # doctest: +SKIP
        """
        writer = self.to_frame().writeStream
        for name in ("start", "toTable"):
            setattr(writer, name, self._remember(getattr(writer, name)))
        return writer

    def _remember(self, start: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
        def start_and_remember(*given: Any, **more: Any) -> StreamingQuery:
            query = start(*given, **more)
            query.awaitTermination = with_clear_errors(query.awaitTermination)
            self._started.append(query)
            return query

        return with_clear_errors(start_and_remember)

    def parquet_by_batch(
        self, path: str | os.PathLike, late: str | os.PathLike | None = None
    ) -> ParquetByBatch:
        """Return a function for ``foreachBatch`` that writes every result once, as Parquet.

        Each micro-batch is a folder of its own, ``batch=<number>``. Spark repeats a batch with its number
        after a failure, and the repetition replaces the folder.

        Parameters
        ----------
        path : str or path
            The folder of the results.
        late : str or path, optional
            The folder of the late rows; it needs ``configure(late="rows")``.

        Examples
        --------
        >>> found.writeStream.foreachBatch(found.parquet_by_batch("matches")).start()  # doctest: +SKIP
        """
        if late is not None and self._late != "rows":
            raise CepError("late: late rows have a table only after configure(late='rows')")
        return ParquetByBatch(str(path), None if late is None else str(late), self._late == "rows")

    # --- how it goes

    @property
    def progress(self) -> pd.DataFrame:
        """How the stream goes: one row per micro-batch that Spark remembers, 100 by default.

        ``batch``; ``at``: when it began; ``rows``, ``late_rows`` and ``matches`` of the batch; ``held``: rows
        that wait for the watermark; ``kept``: rows that later matches may need; ``live_partial_matches``
        (for a sequence query the kept events, from which they are made); ``state_bytes``; ``watermark``;
        ``watermark_lag``: the time from it to the newest row; ``seconds``.

        A stream with a latency bound has more columns: ``processed_rows`` and ``dropped_rows`` of the batch
        and ``dropped <type>`` for each event type; ``dropped_partial_matches``; ``estimated_recall``: the
        share of the matches since the start that was found, see `cepkit.shedding.SheddingReport`;
        ``mean_latency`` and ``max_latency`` of the matches of the batch, in seconds; ``buckets_that_learn``:
        buckets in their warm-up.

        Examples
        --------
        >>> found.progress[["batch", "rows", "late_rows", "matches"]]  # doctest: +SKIP
        """
        queries = list(self._started)
        run_ids = {str(query.runId) for query in queries}
        active = self._frame.sparkSession.streams.active
        queries += [query for query in active if str(query.runId) not in run_ids]
        types = () if self._shedding is None else self._search.types
        return progress_frame(queries, self._name, self._plan.n_buckets, types)

    def plot(self) -> go.Figure:
        """Draw `progress`: the rows and results of every micro-batch, and the rows that wait after it.

        Examples
        --------
        >>> found.plot()  # doctest: +SKIP
        """
        return draw_progress(self.progress, self._text)

    def _notes(self) -> tuple[tuple[str, str], ...]:
        """Return labels with texts that say how the stream runs."""
        by = ", ".join(self._keys)
        buckets = (
            f"{self._plan.n_buckets} by a hash of {by}; the state of each is one value in Spark's state store"
            if by
            else f"1: {self.why_one_bucket}, which one task must hold"
        )
        shedding = () if self._shedding is None else (("shedding", str(self._shedding)),)
        late = "are counted" if self._late == "count" else "are rows with the column late"
        return (
            ("buckets", buckets),
            ("watermark", f"{self._watermark}; earlier rows are searched in order"),
            ("late rows", f"{late}; they are not searched"),
            *shedding,
        )

    @property
    def _watermark(self) -> str:
        """The watermark in words."""
        return said_watermark(self._source, self._query.order_by[0])

    # --- how the frames are made

    @cached_property
    def _bucket_query(self) -> BucketQuery:
        """The query of the rows that the buckets get."""
        assert not isinstance(self._query, Join)
        return self._query

    @cached_property
    def _bucket_schema(self) -> StreamSchema:
        """The columns that the buckets get."""
        columns = self._needed_columns()
        if self._late == "rows":
            columns = self._source.names
            tasks.check_convertible(self._source, columns)
        return schema_of_source(self._source, columns)

    @cached_property
    def _plan(self) -> BucketPlan:
        """What the buckets share."""
        schema = self._bucket_schema
        n_buckets = self._n_buckets or _BUCKETS_PER_PARTITION * self._n_partitions if self._keys else 1
        identity = {
            "query": query_as_json(self._query),
            "columns": [f"{field.name}: {field.type}" for field in schema.arrow],
            "buckets": f"{n_buckets} for spark.sql.shuffle.partitions={self._n_partitions}",
        }
        if self._shedding is not None:
            identity["shedding"] = self._shedding.identity
        return BucketPlan(self._bucket_query, schema, n_buckets, identity, self._shedding)

    @property
    def _shed_names(self) -> tuple[str, ...]:
        """The numbers of load shedding that each bucket reports."""
        return () if self._shedding is None else self._search.count_names

    @property
    def _result_types(self) -> tuple[StructType, pa.Schema]:
        empty, column_of_result = self._search.empty, self._search.column_of_result
        results = []
        for name in empty.schema.names:
            column = column_of_result.get(name)
            values = Picked(column, pa.array([], pa.int64())) if column else empty.column(name)
            results.append((name, values))
        return tasks.result_types(results, self._source)

    # --- what a stream cannot say

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("count", "head", "sample", "take", "aggregate", "count_by_last", "lineage", "tag",
                    "view", "explore", "chunks", "run"):  # fmt: skip
            raise UnsupportedQueryError(
                f"{name}: a stream has no end, so its results are not all there; write them with "
                "writeStream, and take a finished table for this"
            )
        raise AttributeError(name)

    # --- reprs

    def _lines(self) -> tuple[str, str]:
        types, _ = self._result_types
        by = f", partitioned by {', '.join(self._keys)}" if self._keys else ""
        columns = zip(self._search.empty.schema.names, types, strict=True)
        shown = ", ".join(f"{name}: {field.dataType.simpleString()}" for name, field in columns)
        running = "writeStream starts it; nothing has run yet"
        if self._started:
            running = f"{sum(query.isActive for query in self._started)} of {len(self._started)} started "
            running += "queries run; progress says how they go"
        return f"{self._title} in a streaming Spark frame{by}: {shown}", running

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        what, running = map(html.escape, self._lines())
        return f"<p><b>{what}</b></p><p>{running}</p>"


def steps_of(query: Any) -> tuple[Any, ...]:
    """Return the steps of a chain; another query is its only step."""
    return query.steps if isinstance(query, Chain) else (query,)


def refuse_unbounded(query: Any) -> None:
    """Raise for a regex query whose matches have no greatest length."""
    if not isinstance(query, RegexQuery) or query.within is not None:
        return
    if any(isinstance(part, Repeat) and part.high is None for part in _parts(query.pattern)):
        raise UnsupportedQueryError(
            f"matches of {str(query.pattern)!r} have no greatest length, so the state of the stream "
            "could grow without limit; give within=…, as in within='1 hour', or a greatest number of "
            "repetitions, as in a{1,100}. If your data end every match, call configure(unbounded=True)"
        )


def _parts(pattern: Pattern) -> list[Pattern]:
    return [pattern, *(part for child in pattern.children() for part in _parts(child))]


def schema_of_source(source: EmptySource, columns: list[str]) -> StreamSchema:
    """Return some columns of a Spark frame as the schema of a stream."""
    nullable = {field.name: field.nullable for field in source.fields}
    fields = [source.table.schema.field(name).with_nullable(nullable[name]) for name in columns]
    return StreamSchema(pa.schema(fields))


def rows_with_buckets(
    frame: DataFrame, source: EmptySource, columns: list[str], keys: Iterable[str], n_buckets: int
) -> DataFrame:
    """Return columns of a frame as ``e0``, ``e1``, …, and the number of the bucket of each row."""
    from pyspark.sql import functions as F

    plain, hashed = tasks.numbered_columns(frame, source, columns), tasks.key_columns(source, columns, keys)
    bucket = F.pmod(F.xxhash64(*hashed), F.lit(n_buckets)) if hashed else F.lit(0)
    return plain.withColumn("bucket", bucket.cast("int"))


def said_watermark(source: EmptySource, clock: str) -> str:
    """Return the watermark of a frame in words."""
    field = source.fields[source.names.index(clock)]
    delay = int(field.metadata["spark.watermarkDelayMs"]) / 1000
    return f"{delay:g} s after the newest {clock}"


def _n_partitions(frame: DataFrame) -> int:
    try:
        return max(1, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or _DEFAULT_PARTITIONS))
    except ValueError:  # some clusters say "auto"
        return _DEFAULT_PARTITIONS


def _use_rocks(frame: DataFrame) -> None:
    """Choose the state store that Spark's operators with state need; a store that the user chose stays."""
    conf = frame.sparkSession.conf
    if "RocksDB" not in (conf.get(_PROVIDER, "") or ""):
        conf.set(_PROVIDER, _ROCKS)


# Add a step to the results of a streaming Spark frame: the same Spark operator runs all steps.

CHAIN = "chain in a Spark stream"


class NextStep:
    """What can read the results of a step: a query or a window. ``rows.cep`` returns it."""

    def __init__(self, frames: tuple[DataFrame, ...], steps: tuple[Any, ...]):
        self._frames, self._steps = frames, steps

    @takes_query_keywords
    def match(self, query: Query, **keywords: Unpack[QueryKeywords]) -> Any:
        """Find the matches of a query in the results."""
        return self._with(as_value(query, read_arguments(type(self).match, keywords)))

    def window(self, aggregates: Any = None, **settings: Any) -> Any:
        """Compute running aggregates of the results over a window, with the parameters of `cepkit.window`."""
        return self._with(window_of(aggregates, **settings) if settings else _window(aggregates))

    def _with(self, step: Any) -> Any:
        steps = step.steps if isinstance(step, Chain) else (step,)
        return open_door(CHAIN)(self._frames, Chain((*self._steps, *steps)))


def _window(given: Any) -> Window:
    return given if isinstance(given, Window) else Window(given)
