"""`SparkStreamMatches`, the result of a query on a streaming Spark frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import UnsupportedQueryError
from cepkit.frames.spark import tasks
from cepkit.frames.spark.tasks import EmptySource
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.results.explanation import Explanation
from cepkit.streaming.spark.results import NextStep, SparkStreamResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkStreamMatches(SparkStreamResults):
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
        self,
        frame: DataFrame,
        source: EmptySource,
        program: Program | SequenceProgram,
        engine: Engine,
        n_buckets: int | None = None,
        late: str | None = None,
        unbounded: bool = False,
        shedding: Any = None,
    ):
        self._program, self._engine = program, engine
        super().__init__(frame, source, program.query, n_buckets, late, unbounded, shedding)

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
    def cep(self) -> NextStep:
        """A further step of a chain: ``matches.cep.window(…)`` and ``matches.cep.match(…)`` read the matches.

        Examples
        --------
        >>> found.cep.window({"n": "count()"}, time="1 hour", order_by="b_ts")  # doctest: +SKIP
        """
        if self._shedding is not None:
            raise UnsupportedQueryError("latency_bound: a chain drops no rows; leave one of the two out")
        return NextStep((self._frame,), (self.query,))

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
    def why_one_bucket(self) -> str:
        """Why one bucket needs all rows, if no keys divide them.

        Examples
        --------
        >>> found.why_one_bucket  # doctest: +SKIP
        'without partition_by all events are one stream'
        """
        return "without partition_by all events are one stream"

    def _again(self, n_buckets: int | None, late: str, unbounded: bool) -> SparkStreamMatches:
        return SparkStreamMatches(
            self._frame, self._source, self._program, self._engine, n_buckets, late, unbounded, self._shedding
        )

    # --- results

    def explain(self) -> Explanation:
        """Say how the query is read and how the stream runs, without running it.

        Examples
        --------
        >>> found.explain()  # doctest: +SKIP
        """
        return Explanation(self._program, self._engine, (), self._notes())

    @property
    def _text(self) -> str:
        return str(self.query.pattern)

    def _needed_columns(self) -> list[str]:
        return tasks.needed_columns(self._program, self._source)
