"""`SparkStreamMatches`, the result of a query on a streaming Spark frame."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import pandas as pd
import pyarrow as pa

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, UnsupportedQueryError, truth, whole_number
from cepkit.frames import spark as tasks
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import EmptySource
from cepkit.language.regex.patterns import Pattern, Repeat
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.results.explanation import Explanation
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.saved_queries import query_as_json
from cepkit.streaming.search import Search
from cepkit.streaming.spark.bucket import BucketPlan
from cepkit.streaming.spark.progress import draw_progress, progress_frame
from cepkit.streaming.spark.sinks import ParquetByBatch

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

_BUCKETS_PER_PARTITION = 2
_DEFAULT_PARTITIONS = 200  # of Spark
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LATE = ("count", "rows")


class SparkStreamMatches:
    """The matches of a query in a streaming Spark frame.

    ``stream.cep.match(query, …)`` returns it. `to_frame` is a streaming frame with a row per match, and
    `writeStream` writes it as any streaming frame. Nothing runs until Spark starts that writer.

    Notes
    -----
    The watermark of ``withWatermark`` decides when a row can be searched: all rows before it are there. So a
    match appears after the watermark has passed its last event. All outputs together are the matches that
    `cepkit.match` finds in all rows that were not late, however Spark cuts the stream into micro-batches.
    A row is late if its bucket has already passed its time. Late rows are counted; `configure` makes rows of
    them.

    A bucket has the keys of one hash value. Its state is one value in Spark's state store, which a checkpoint
    saves. After a crash, a restart from the checkpoint loses and doubles nothing in a sink that is exact
    itself, such as Parquet or `parquet_by_batch`.

    Examples
    --------
    >>> found = stream.withWatermark("ts", "1 minute").cep.match(
    ...     "PATTERN SEQ(a x, b y) WITHIN 1 hour", event_type="kind", order_by="ts")  # doctest: +SKIP
    >>> found.writeStream.option("checkpointLocation", "state").start("matches")  # doctest: +SKIP
    """

    def __init__(
        self,
        frame: DataFrame,
        source: EmptySource,
        program: Program | SequenceProgram,
        engine: Engine,
        n_buckets: int | None = None,
        late: str = "count",
        unbounded: bool = False,
    ):
        self._frame, self._source, self._program, self._engine = frame, source, program, engine
        self._n_buckets, self._late, self._unbounded = n_buckets, late, unbounded
        self._name = f"cepkit {uuid4().hex}"  # of the observation in Spark's progress
        self._started: list[StreamingQuery] = []
        self._search: Search = self._plan.open_search()  # refuses what only a finished frame allows

    # --- what runs

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        """The query as a value.

        Examples
        --------
        >>> found.query.pattern  # doctest: +SKIP
        <pattern SEQ(a x, b y)>
        """
        return self._program.query

    @property
    def engine(self) -> Engine:
        """The engine that finds the matches in every bucket.

        Examples
        --------
        >>> found.engine.name  # doctest: +SKIP
        'chain'
        """
        return self._engine

    @property
    def n_buckets(self) -> int:
        """Number of buckets: one without ``partition_by``, otherwise two per shuffle partition of Spark.

        Examples
        --------
        >>> found.n_buckets  # doctest: +SKIP
        400
        """
        if not self.query.partition_by:
            return 1
        return self._n_buckets or _BUCKETS_PER_PARTITION * _n_partitions(self._frame)

    def configure(
        self, *, buckets: int | None = None, late: str | None = None, unbounded: bool | None = None
    ) -> SparkStreamMatches:
        """Return the same matches with other settings. A checkpoint belongs to its settings.

        Parameters
        ----------
        buckets : int, optional
            Number of buckets of keys. Every bucket costs about a millisecond per micro-batch; fewer buckets
            than cores leave cores idle.
        late : str, optional
            ``"count"``: late rows appear in `progress` only. ``"rows"``: `to_frame` has a last column
            ``late`` with the late rows as structs, in rows of their own; it is null for matches.
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
        if late is not None and late not in _LATE:
            raise CepError(f"late={late!r}: write 'count' or 'rows'")
        if buckets is not None and not self.query.partition_by:
            raise CepError("buckets: without partition_by all events are one stream, which is one bucket")
        return SparkStreamMatches(
            self._frame,
            self._source,
            self._program,
            self._engine,
            self._n_buckets if buckets is None else whole_number("buckets", buckets, 1),
            late or self._late,
            self._unbounded if unbounded is None else truth("unbounded", unbounded),
        )

    # --- results

    def to_frame(self) -> DataFrame:
        """Return a streaming frame with a row per match: the partition columns and the measures.

        Raises
        ------
        UnsupportedQueryError
            For a regex query whose matches may grow without limit.

        Examples
        --------
        >>> found.to_frame().writeStream.format("console").start()  # doctest: +SKIP
        """
        from pyspark.sql import functions as F

        from cepkit.streaming.spark import tasks as work

        self._refuse_unbounded()
        _use_rocks(self._frame)
        types, output = self._result_types
        columns = list(self._plan.schema.arrow.names)
        labels = work.labels_of_buckets(self.n_buckets, _n_partitions(self._frame))
        plain = tasks.numbered_columns(self._frame, self._source, columns)
        keys = tasks.key_columns(self._source, columns, self.query.partition_by)
        bucket = F.pmod(F.xxhash64(*keys), F.lit(self.n_buckets)) if keys else F.lit(0)
        dealt = plain.withColumn("bucket", bucket.cast("int")).mapInArrow(
            work.Dealer(tuple(columns), labels).run, work.ROWS_IN_BUCKETS
        )
        processor = work.BucketProcessor(self._plan, os.environ.get("CEPKIT_CACHE"))
        made = dealt.groupBy("bucket").transformWithStateInPandas(
            processor, work.RESULTS_OF_BUCKETS, "append", "EventTime"
        )
        sums = [F.sum(name).alias(name) for name in work.STATISTICS]
        observed = made.observe(self._name, *sums)
        opener = work.Opener(output, tuple(columns), None)
        names = list(self._search.empty.schema.names)
        if self._late == "rows":
            check_free(("late",), names)
            types, of_late = self._with_late(types, columns)
            opener, names = replace(opener, late=of_late), [*names, "late"]
        return observed.mapInArrow(opener.run, types).toDF(*names)

    def _with_late(self, types: StructType, columns: list[str]) -> tuple[StructType, pa.StructType]:
        from pyspark.sql.types import StructField, StructType

        fields = {field.name: field for field in self._source.fields}
        rows = StructType([fields[name] for name in columns])
        rows = StructType([StructField(field.name, field.dataType) for field in rows])
        of_late = pa.struct([self._plan.schema.arrow.field(name).with_nullable(True) for name in columns])
        return StructType([*types, StructField("late", rows)]), of_late

    @property
    def writeStream(self) -> DataStreamWriter:
        """Spark's writer of `to_frame`; give it a ``checkpointLocation`` and start it.

        `progress` follows the queries that it starts.

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
            self._started.append(query)
            return query

        return start_and_remember

    def parquet_by_batch(
        self, path: str | os.PathLike, late: str | os.PathLike | None = None
    ) -> ParquetByBatch:
        """Return a function for ``foreachBatch`` that writes every match once, as Parquet.

        Each micro-batch is a folder of its own, ``batch=<number>``. Spark repeats a batch with its number
        after a failure, and the repetition replaces the folder.

        Parameters
        ----------
        path : str or path
            The folder of the matches.
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

        Examples
        --------
        >>> found.progress[["batch", "rows", "late_rows", "matches"]]  # doctest: +SKIP
        """
        queries = list(self._started)
        known = {str(query.runId) for query in queries}
        active = self._frame.sparkSession.streams.active
        queries += [query for query in active if str(query.runId) not in known]
        return progress_frame(queries, self._name, self.n_buckets)

    def plot(self) -> go.Figure:
        """Draw `progress`: the rows and matches of every micro-batch, and the rows that wait after it.

        Examples
        --------
        >>> found.plot()  # doctest: +SKIP
        """
        return draw_progress(self.progress, str(self.query.pattern))

    def explain(self) -> Explanation:
        """Say how the query is read and how the stream runs, without running it.

        Examples
        --------
        >>> found.explain()  # doctest: +SKIP
        """
        by = ", ".join(self.query.partition_by)
        field = self._source.fields[self._source.names.index(self.query.order_by[0])]
        delay = int(field.metadata["spark.watermarkDelayMs"]) / 1000
        buckets = (
            f"{self.n_buckets} by a hash of {by}; the state of each is one value in Spark's state store"
            if by
            else "1: without partition_by all events are one stream, which one task matches"
        )
        late = "are counted" if self._late == "count" else "are rows with the column late"
        notes = (
            ("buckets", buckets),
            ("watermark", f"{delay:g} s after the newest {field.name}; earlier rows are searched in order"),
            ("late rows", f"{late}; they are not searched"),
        )
        return Explanation(self._program, self._engine, (), notes)

    # --- how the frames are made

    @cached_property
    def _plan(self) -> BucketPlan:
        """What the buckets share."""
        columns = tasks.needed_columns(self._program, self._source)
        if self._late == "rows":
            columns = self._source.names
            tasks.check_convertible(self._source, columns)
        fields = self._source.table.schema
        nullable = {field.name: field.nullable for field in self._source.fields}
        schema = StreamSchema(pa.schema([fields.field(n).with_nullable(nullable[n]) for n in columns]))
        identity = {
            "query": query_as_json(self.query),
            "columns": [f"{field.name}: {field.type}" for field in schema.arrow],
            "buckets": self.n_buckets,
        }
        return BucketPlan(self.query, schema, self.n_buckets, identity)

    @property
    def _result_types(self) -> tuple[StructType, pa.Schema]:
        empty, column_of_result = self._search.empty, self._search.column_of_result
        results = []
        for name in empty.schema.names:
            column = column_of_result.get(name)
            values = Picked(column, pa.array([], pa.int64())) if column else empty.column(name)
            results.append((name, values))
        return tasks.result_types(results, self._source)

    def _refuse_unbounded(self) -> None:
        query = self.query
        if self._unbounded or not isinstance(query, RegexQuery) or query.within is not None:
            return
        if any(isinstance(part, Repeat) and part.high is None for part in _parts(query.pattern)):
            raise UnsupportedQueryError(
                f"matches of {str(query.pattern)!r} have no greatest length, so the state of the stream "
                "could grow without limit; give within=…, as in within='1 hour', or a greatest number of "
                "repetitions, as in a{1,100}. If your data end every match, call configure(unbounded=True)"
            )

    # --- what a stream cannot say

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("count", "head", "sample", "take", "aggregate", "count_by_last", "lineage", "tag",
                    "view", "explore", "chunks", "run"):  # fmt: skip
            raise UnsupportedQueryError(
                f"{name}: a stream has no end, so its matches are not all there; write them with "
                "writeStream, and match a finished table for this"
            )
        raise AttributeError(name)

    # --- reprs

    def _lines(self) -> tuple[str, str]:
        types, _ = self._result_types
        by = f", partitioned by {', '.join(self.query.partition_by)}" if self.query.partition_by else ""
        columns = zip(self._search.empty.schema.names, types, strict=True)
        shown = ", ".join(f"{name}: {field.dataType.simpleString()}" for name, field in columns)
        running = "writeStream starts it; nothing has run yet"
        if self._started:
            running = f"{sum(query.isActive for query in self._started)} of {len(self._started)} started "
            running += "queries run; progress says how they go"
        return f"matches of {str(self.query.pattern)!r} in a streaming Spark frame{by}: {shown}", running

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        what, running = map(html.escape, self._lines())
        return f"<p><b>{what}</b></p><p>{running}</p>"


def _parts(pattern: Pattern) -> list[Pattern]:
    return [pattern, *(part for child in pattern.children() for part in _parts(child))]


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
