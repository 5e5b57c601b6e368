"""A query or a window bound to a streaming Spark frame, with every check that needs no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import CepError, OrderError, UnsupportedQueryError, warn
from cepkit.events import TIME
from cepkit.frames.spark import EmptySource
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import EngineValue, choose_engine
from cepkit.results.spark.binding import bind_any, check_functions, refuse_strict
from cepkit.streaming.spark.matches import SparkStreamMatches
from cepkit.streaming.spark.results import RESULT
from cepkit.streaming.spark.rows import SparkStreamRows, why_one_bucket
from cepkit.windows.running import check_window
from cepkit.windows.values import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DELAY = "spark.watermarkDelayMs"  # in the metadata of a column with a watermark


def match_stream(
    frame: DataFrame, value: RegexQuery | SequenceQuery, engine: str | EngineValue = "auto"
) -> SparkStreamMatches:
    """Return the matches of a query in a streaming frame; no job runs.

    Raises
    ------
    OrderError
        Without ``order_by``, without a watermark, or when the watermark is on another column than the first
        one of ``order_by``.
    UnsupportedQueryError
        For a sequence query without a window, for a named engine, and as `cepkit.match` on a Spark frame.
    CepError
        As `cepkit.match`.

    Warns
    -----
    CepWarning
        Without ``partition_by``, when one bucket must hold all events.
    """
    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: a stream chooses its engine itself, with the same matches. Leave engine out"
        )
    program, source = bind_any(frame, value)
    check_watermark(source, value.order_by[0])
    if isinstance(program, SequenceProgram):
        refuse_strict(program)
        window = program.window
        if window.within is None and window.within_events is None:
            raise UnsupportedQueryError(
                "the query has no window, so a stream would keep every event for ever; add WITHIN to the "
                "query, as in WITHIN 1 hour"
            )
    matches = SparkStreamMatches(frame, source, program, choose_engine(program))
    if not value.partition_by:
        warn(
            "without partition_by all events are one stream, which one Spark task must hold and match; with "
            "partition_by the tasks share the work"
        )
    return matches


def window_stream(frame: DataFrame, window: Window) -> SparkStreamRows:
    """Return the rows that a window emits in a streaming frame; no job runs.

    Raises
    ------
    OrderError
        Without ``order_by``, without a watermark, or when the watermark is on another column than the first
        one of ``order_by``.
    CepError
        As `cepkit.window`.

    Warns
    -----
    CepWarning
        When one bucket must hold all rows.
    """
    if not window.order_by:
        raise OrderError(
            "order_by is missing: the rows of a Spark frame have no order; name the columns that sort them: "
            "a time, and further columns if times repeat"
        )
    check_functions(dict(window.functions))
    source = EmptySource(frame)
    window = check_window(window, source)
    if twice := sorted(source.duplicates):
        raise CepError(f"the stream has several columns {twice}; rename them, the result has every column")
    check_watermark(source, window.order_by[0])
    rows = SparkStreamRows(frame, source, window)
    if not rows.query.group_by or window.time is None:
        warn(
            f"{why_one_bucket(window)}, so a single Spark task must hold them; with a window of time and "
            "group_by the tasks share the work"
        )
    return rows


def check_watermark(source: EmptySource, clock: str) -> None:
    """Raise if a stream has no watermark on a column of times.

    Raises
    ------
    OrderError
        Without a watermark, or when it is on another column, or no time.
    UnsupportedQueryError
        For a stream of results.
    """
    results = [field.metadata[RESULT] for field in source.fields if RESULT in field.metadata]
    if results:
        raise UnsupportedQueryError(
            f"the stream has {results[0]}: results have no watermark, so no second query can wait for it in "
            "one Spark stream. Write the results to a table, and read that table as a stream of its own; or "
            "use cep.stream([cep.Window(…), 'PATTERN …'], schema), which runs a chain"
        )
    marked = [field.name for field in source.fields if _DELAY in field.metadata]
    if not marked:
        if clock in source.names and _type_name(source, clock) == "timestamp_ntz":
            raise OrderError(
                f"column {clock!r} is timestamp_ntz, and Spark has watermarks for timestamps only; call "
                f"df.withColumn({clock!r}, df[{clock!r}].cast('timestamp')), which reads its times in the "
                f"zone of the session, and then withWatermark({clock!r}, '1 minute')"
            )
        raise OrderError(
            f"the stream has no watermark, so rows could wait for ever; call df.withWatermark({clock!r}, "
            "'1 minute') first, with the longest delay of a row"
        )
    if clock not in marked:
        raise OrderError(
            f"order_by begins with {clock!r}, but the watermark is on {marked[0]!r}; put that "
            f"column first in order_by, or call df.withWatermark({clock!r}, …)"
        )
    if source.schema[clock].kind != TIME:
        raise OrderError(
            f"order_by: column {clock!r} is {source.schema[clock]}; a watermark needs a timestamp"
        )


def _type_name(source: EmptySource, name: str) -> str:
    return source.fields[source.names.index(name)].dataType.typeName()
