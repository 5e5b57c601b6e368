"""`SparkStreamRowPatterns`, the result of MATCH_RECOGNIZE on a streaming Spark frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cepkit.errors import CepError, OrderError, warn, whole_number
from cepkit.frames.spark.tasks import EmptySource, check_convertible
from cepkit.streaming.operators.row_pattern_query import RowPatternStream, row_pattern_stream
from cepkit.streaming.operators.row_patterns import kept_columns
from cepkit.streaming.spark.binding import check_watermark
from cepkit.streaming.spark.results import SparkStreamResults
from cepkit.windows.explaining import OperatorExplanation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def row_patterns_of_stream(
    frame: DataFrame, text: str, params: Mapping[str, Any] | None = None
) -> SparkStreamRowPatterns:
    """Return the matches of MATCH_RECOGNIZE in a streaming frame; no job runs."""
    source = EmptySource(frame)
    query = row_pattern_stream(text, source.schema, params)
    if not query.order_by:
        raise OrderError(
            "ORDER BY is missing: the rows of a Spark frame have no order; name the columns that sort them: "
            "a time, and further columns if times repeat"
        )
    if twice := sorted(source.duplicates):
        raise CepError(f"the stream has several columns {twice}; rename them")
    check_watermark(source, query.order_by[0])
    found = SparkStreamRowPatterns(frame, source, query)
    if not query.partition_by:
        warn(
            "without PARTITION BY all rows are one partition, which one Spark task must hold and match; with "
            "PARTITION BY the tasks share the work"
        )
    return found


class SparkStreamRowPatterns(SparkStreamResults):
    """The matches of MATCH_RECOGNIZE in a streaming Spark frame.

    ``stream.cep.match(text)`` returns it for the text of MATCH_RECOGNIZE, or of a SELECT around it.
    `to_frame` is a streaming frame with the rows of the result, and `writeStream` writes it as any streaming
    frame. Nothing runs until Spark starts that writer.

    Rows wait for the watermark as for `SparkStreamMatches`. A match comes out when no later row can change
    it. With WITHIN the watermark says when it runs out of time. What is open when the stream stops does not
    come out.
    """

    @property
    def query(self) -> RowPatternStream:
        """The query as a value."""
        assert isinstance(self._query, RowPatternStream)
        return self._query

    @property
    def n_buckets(self) -> int:
        """Number of buckets: one without PARTITION BY, otherwise two per shuffle partition of Spark."""
        return self._plan.n_buckets

    def configure(self, *, buckets: int | None = None, late: str | None = None) -> SparkStreamRowPatterns:
        """Return the same matches with other settings. A checkpoint belongs to its settings."""
        if buckets is not None and not self._keys:
            raise CepError("buckets: without PARTITION BY all rows are one partition, which is one bucket")
        n_buckets = self._n_buckets if buckets is None else whole_number("buckets", buckets, 1)
        return SparkStreamRowPatterns(self._frame, self._source, self.query, n_buckets, late or self._late)

    def explain(self) -> OperatorExplanation:
        """Say how the query is read and how the stream runs, without running it."""
        notes = self._notes("without PARTITION BY all rows are one partition, which one task must hold")
        return OperatorExplanation(
            (("pattern", self._text), ("result", "rows that no later row changes"), *notes)
        )

    @property
    def _text(self) -> str:
        return str(self.query.pattern)

    @property
    def _title(self) -> str:
        return f"matches of {self._text!r}"

    def _needed_columns(self) -> list[str]:
        columns = kept_columns(self.query, self._source.schema)
        check_convertible(self._source, columns)
        return columns
