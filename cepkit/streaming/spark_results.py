"""`SparkStream`, the result of a query, a window, a join or a chain on streaming Spark frames."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import pandas as pd
import pyarrow as pa

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.doors import open_door
from cepkit.engines.regex_measures import Picked
from cepkit.errors import CepError, UnsupportedQueryError, short_text, truth, whole_number
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import (
    EmptySource,
    check_convertible,
    key_columns,
    needed_columns,
    numbered_columns,
    result_types,
)
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.planning.queries import Query, QueryKeywords, read_arguments, takes_query_keywords
from cepkit.results.spark_binding import bind_any, n_tasks
from cepkit.results.views import Explanation
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.row_patterns import kept_columns
from cepkit.streaming.saved import query_as_json
from cepkit.streaming.spark_bucket import (
    BucketPlan,
    BucketQuery,
    keys_of_buckets,
    refuse_unbounded,
    steps_of,
    why_one_bucket,
)
from cepkit.streaming.spark_tasks import (
    MOST_LATENCY,
    STATISTICS,
    ParquetByBatch,
    Sending,
    draw_progress,
    progress_frame,
    with_clear_errors,
)
from cepkit.streaming.windows import SIDE, Sides
from cepkit.values import dataclass, replace
from cepkit.windows.running import Chain, OperatorExplanation, as_value, lines_of
from cepkit.windows.values import SIDES, Join, Window, window_of

if TYPE_CHECKING:
    from typing import Unpack

    import plotly.graph_objects as go
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType, StructType


# The results, their writer and their progress.

_BUCKETS_PER_PARTITION = 2
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RESULT = "cepkit.result"  # in the metadata of the columns of results: what they are results of
_LATE = ("count", "rows")
StreamQuery = RegexQuery | SequenceQuery | Window | RowsQuery | Join | Chain


@dataclass(frozen=True)
class Settings:
    """The settings of a stream that `SparkStream.configure` changes."""

    n_buckets: int | None = None
    late: str = "count"
    unbounded: bool = False

    def __post_init__(self) -> None:
        if self.late not in _LATE:
            raise CepError(f"late={self.late!r}: write 'count' or 'rows'")


class SparkStream:
    """What a query, a window, a join or a chain finds in streaming Spark frames.

    ``stream.cep.match(…)``, ``stream.cep.window(…)`` and ``stream.cep.join(…)`` return it. `to_frame` is a
    streaming frame: a row per match with its measures, or the rows that a window, a join or a chain emits.
    `writeStream` writes it as any streaming frame. Nothing runs until Spark starts that writer.

    Notes
    -----
    The watermark of ``withWatermark`` decides when a row can be searched: all rows before it are there. So a
    match appears after the watermark has passed its last event. All outputs together are what `cepkit.match`,
    `cepkit.window` or `cepkit.join` finds in all rows that were not late, however Spark cuts the stream into
    micro-batches. A row is late if its bucket has already passed its time. Late rows are counted; `configure`
    makes rows of them.

    A bucket has the keys of one hash value. Its state is one value in Spark's state store, which a checkpoint
    saves. After a crash, a restart from the checkpoint loses and doubles nothing in a sink that is exact
    itself, such as Parquet or `parquet_by_batch`.

    A match of MATCH_RECOGNIZE comes out when no later row can change it. With WITHIN the watermark says when
    it runs out of time. What is open when the stream stops does not come out.

    With ``emit="all"`` a row of a window of time expires when the watermark passes its time. A window of time
    with ``group_by`` has its groups in buckets, which Spark's tasks share. Other windows need all rows in one
    bucket. The rows of both sides of a join go to one Spark operator, which holds them until the watermark
    passes them. Spark's watermark is the earlier one of both sides, unless you change
    ``spark.sql.streaming.multipleWatermarkPolicy``. A join through windows of time has its keys in buckets if
    it has no measures.

    In a chain each step reads the results of the step before, in the same Spark operator: `cep` adds a step.
    Its buckets have the keys that all steps share. A later step knows that time has passed if its clock is
    the clock of the step before, or ``emitted``. Otherwise its last results wait for the next row.

    With ``latency_bound`` each bucket sheds load for itself. The rows that the watermark passes arrive when
    the bucket begins to work on them in a micro-batch. The latency of a match is the time from then until the
    bucket has found it, by the clock of the machine. It does not contain the wait for the watermark, for the
    micro-batch and for other buckets of the task. So a bucket works on a micro-batch for about
    ``latency_bound`` at most, and drops the rows that would take it longer. Each bucket first learns from
    ``warm_up`` rows and drops none of them. The state of the strategy is a part of the bucket's state, so a
    restart continues it. It remembers every key. Without ``latency_bound`` nothing is ever dropped.

    Examples
    --------
    >>> found = stream.withWatermark("ts", "1 minute").cep.match(
    ...     "PATTERN SEQ(a x, b y) WITHIN 1 hour", event_type="kind", order_by="ts")  # doctest: +SKIP
    >>> found.writeStream.option("checkpointLocation", "state").start("matches")  # doctest: +SKIP
    """

    def __init__(
        self, frames: tuple[DataFrame, ...], query: StreamQuery,
        program: Program | SequenceProgram | None = None, engine: Engine | None = None,
        settings: Settings = Settings(), shedding: Any = None,  # noqa: B008 - it is frozen
    ):  # fmt: skip
        self._frames, self._sources = frames, tuple(map(EmptySource, frames))
        self._query, self._program, self._engine = query, program, engine
        self._settings, self._shedding = settings, shedding
        self._is_rows = isinstance(query, Window | Join | Chain)
        self._keys = keys_of_buckets(self._bucket_query)
        self._n_partitions = n_tasks(frames[0])
        self._name = f"cepkit {uuid4().hex}"  # of the observation in Spark's progress
        self._started: list[StreamingQuery] = []
        self._search = self._plan.open_search()  # refuses what only a finished frame allows

    @property
    def query(self) -> StreamQuery:
        """The query, the window, the join or the chain as a value.

        Examples
        --------
        >>> found.query.pattern  # doctest: +SKIP
        <pattern SEQ(a x, b y)>
        """
        return self._query

    @property
    def engine(self) -> Engine | None:
        """The engine that finds the matches of a regex or a sequence in every bucket; None for others.

        Examples
        --------
        >>> found.engine.name  # doctest: +SKIP
        'chain'
        """
        return self._engine

    @property
    def cep(self) -> NextStep:
        """A further step of a chain: ``found.cep.match(…)`` and ``found.cep.window(…)`` read these results.

        Examples
        --------
        >>> rises = sums.cep.match("PATTERN SEQ(_ a, _ b) WHERE b.total > 2 * a.total WITHIN 1 min",
        ...                        partition_by="symbol", order_by="ts")  # doctest: +SKIP
        """
        if self._shedding is not None:
            raise UnsupportedQueryError("latency_bound: a chain drops no rows; leave one of the two out")
        if isinstance(self._query, RowsQuery):
            raise UnsupportedQueryError("MATCH_RECOGNIZE is no step of a chain; write its rows to a table")
        return NextStep(self._frames, steps_of(self._query))

    @property
    def why_one_bucket(self) -> str:
        """Why one bucket needs all rows, if no keys divide them.

        Examples
        --------
        >>> found.why_one_bucket  # doctest: +SKIP
        'without partition_by all events are one stream'
        """
        return why_one_bucket(self._bucket_query)

    def explain(self) -> Explanation | OperatorExplanation:
        """Say how the query is read and how the stream runs, without running it.

        Examples
        --------
        >>> found.explain()  # doctest: +SKIP
        """
        if self._program is not None and self._engine is not None:
            return Explanation(self._program, self._engine, (), self._notes())
        if isinstance(self._query, RowsQuery):
            lines = ("pattern", self._text), ("result", "rows that no later row changes")
        else:
            lines = lines_of(self._query, is_stream=True)
        return OperatorExplanation((*lines, *self._notes()))

    @property
    def _text(self) -> str:
        """The query in one line."""
        if isinstance(self._query, Chain):
            return str(self._query)
        return repr(self._query) if self._is_rows else str(self._query.pattern)

    @property
    def _title(self) -> str:
        """What the results are, in words."""
        return f"rows of {self._text}" if self._is_rows else f"matches of {short_text(self._text)!r}"

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
    ) -> SparkStream:
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
        given = {
            "n_buckets": None if buckets is None else whole_number("buckets", buckets, 1),
            "late": late,
            "unbounded": None if unbounded is None else truth("unbounded", unbounded),
        }
        changed = {name: value for name, value in given.items() if value is not None}
        settings = replace(self._settings, **changed)
        return SparkStream(self._frames, self._query, self._program, self._engine, settings, self._shedding)

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
        if not self._settings.unbounded:
            for step in steps_of(self._query):
                refuse_unbounded(step)
        from pyspark.sql import functions as F

        from cepkit.streaming import spark_tasks as work

        _use_rocks(self._frames[0])
        types, output = self._result_types
        columns = list(self._plan.schema.arrow.names)
        labels = work.labels_of_buckets(self._plan.n_buckets, self._n_partitions)
        dealt = self._rows_with_buckets(columns).mapInArrow(
            work.Dealer(tuple(columns), labels).run, work.ROWS_IN_BUCKETS
        )
        names, late = list(self._search.empty.schema.names), None
        if self._settings.late == "rows":
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
        from pyspark.sql import functions as F

        n_buckets = self._plan.n_buckets
        if self._sides is None:
            return rows_with_buckets(self._frames[0], self._sources[0], columns, self._keys, n_buckets)
        right_key = dict(self._sides.join.on)
        keys = [list(self._keys), [right_key[name] for name in self._keys]]
        numbered, names = [], []
        for which, (frame, source) in enumerate(zip(self._frames, self._sources, strict=True)):
            plain = rows_with_buckets(frame, source, source.names, keys[which], n_buckets)
            side_names = [f"c{len(names) + i}" for i in range(len(source.names))]
            names += side_names
            numbered.append(plain.toDF(*side_names, "bucket").withColumn(SIDE, F.lit(which)))
        both = numbered[0].unionByName(numbered[1], allowMissingColumns=True)
        return both.select(SIDE, *names, "bucket")

    def _types_of_rows(self) -> dict[str, DataType]:
        """Return Spark's types of the columns that the buckets get, and maybe others."""
        from pyspark.sql.types import IntegerType

        if self._sides is None:
            return {field.name: field.dataType for field in self._sources[0].fields}
        types: dict[str, DataType] = {SIDE: IntegerType()}
        for side, source in zip(SIDES, self._sources, strict=True):
            types |= {f"{side}_{field.name}": field.dataType for field in source.fields}
        return types

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
        if late is not None and self._settings.late != "rows":
            raise CepError("late: late rows have a table only after configure(late='rows')")
        return ParquetByBatch(str(path), None if late is None else str(late), self._settings.late == "rows")

    # --- how it goes

    @property
    def progress(self) -> pd.DataFrame:
        """How the stream goes: one row per micro-batch that Spark remembers, 100 by default.

        ``batch``; ``at``: when it began; ``rows``, ``late_rows`` and ``matches`` of the batch; ``held``: rows
        that wait for the watermark; ``kept``: rows that later matches may need; ``live_partial_matches``
        (for a sequence query the kept events, from which they are made); ``state_bytes``; ``watermark``;
        ``watermark_lag``: the time from it to the newest row; ``seconds``.

        Windows, joins and chains have ``results``, the rows that came out, in place of ``matches``, and no
        ``live_partial_matches``; ``kept`` is the number of rows in the windows.

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
        active = self._frames[0].sparkSession.streams.active
        queries += [query for query in active if str(query.runId) not in run_ids]
        types = () if self._shedding is None else self._search.types
        progress = progress_frame(queries, self._name, self._plan.n_buckets, types)
        if not self._is_rows:
            return progress
        return progress.drop(columns="live_partial_matches").rename(columns={"matches": "results"})

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
        time = ()
        if isinstance(self._query, Chain) and None in self._search.delays:
            first = self._search.delays.index(None) + 1
            waiting = "the last results of later steps wait for the next row"
            time = (("time", f"passes before step {first}; {waiting}"),)
        late = "are counted" if self._settings.late == "count" else "are rows with the column late"
        return (
            *time,
            ("buckets", buckets),
            ("watermark", f"{self._watermark}; earlier rows are searched in order"),
            ("late rows", f"{late}; they are not searched"),
            *shedding,
        )

    @property
    def _watermark(self) -> str:
        """The watermark in words."""
        if self._sides is None:
            return said_watermark(self._sources[0], self._query.order_by[0])
        return f"the earlier one of {' and '.join(map(said_watermark, self._sources, self._sides.clocks))}"

    # --- how the frames are made

    @cached_property
    def _sides(self) -> Sides | None:
        """The join of two streams that the rows come to; None for one stream."""
        join = steps_of(self._query)[0]
        if not isinstance(join, Join):
            return None
        for source in self._sources:
            check_convertible(source, source.names)
        left, right = (schema_of_source(source, source.names) for source in self._sources)
        return Sides(join, (left, right))

    @cached_property
    def _bucket_query(self) -> BucketQuery:
        """The query of the rows that the buckets get."""
        if self._sides is None:
            return self._query
        rest = steps_of(self._query)[1:]
        return Chain((self._sides, *rest)) if rest else self._sides

    @cached_property
    def _bucket_schema(self) -> StreamSchema:
        """The columns that the buckets get."""
        if self._sides is not None:
            return self._sides.schema
        source, first = self._sources[0], steps_of(self._query)[0]
        if self._settings.late == "rows" or isinstance(first, Window):
            columns = source.names
        elif isinstance(first, RowsQuery):
            columns = kept_columns(first, source.schema)
        else:
            columns = needed_columns(self._program or bind_any(self._frames[0], first)[0], source)
        check_convertible(source, columns)
        return schema_of_source(source, columns)

    @cached_property
    def _plan(self) -> BucketPlan:
        """What the buckets share."""
        schema = self._bucket_schema
        n_buckets = (
            self._settings.n_buckets or _BUCKETS_PER_PARTITION * self._n_partitions if self._keys else 1
        )
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
        return result_types(results, self._sources[0])

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

    plain, hashed = numbered_columns(frame, source, columns), key_columns(source, columns, keys)
    bucket = F.pmod(F.xxhash64(*hashed), F.lit(n_buckets)) if hashed else F.lit(0)
    return plain.withColumn("bucket", bucket.cast("int"))


def said_watermark(source: EmptySource, clock: str) -> str:
    field = source.fields[source.names.index(clock)]
    delay = int(field.metadata["spark.watermarkDelayMs"]) / 1000
    return f"{delay:g} s after the newest {clock}"


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
