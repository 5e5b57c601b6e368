"""Queries, windows, joins and chains bound to streaming Spark frames, with every check that needs no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.doors import open_door
from cepkit.errors import CepError, OrderError, UnsupportedQueryError, warn
from cepkit.events import TIME
from cepkit.frames.spark import EmptySource, check_ordered
from cepkit.language.query_parts import END
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import EngineValue, choose_engine, engines
from cepkit.results.spark_binding import bind_any, check_functions, refuse_strict
from cepkit.streaming.row_patterns import rows_of_stream
from cepkit.streaming.sequence_stream import SequenceSearch
from cepkit.streaming.spark_bucket import why_one_bucket
from cepkit.streaming.spark_results import RESULT, SparkStream
from cepkit.streaming.windows import column_in_order
from cepkit.windows.joining import plan_join
from cepkit.windows.running import Chain, check_window
from cepkit.windows.values import Join, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DELAY = "spark.watermarkDelayMs"  # in the metadata of a column with a watermark


BUCKET_SHEDDING = "load shedding of a Spark stream"


def match_stream(
    frame: DataFrame,
    value: RegexQuery | SequenceQuery,
    engine: str | EngineValue = "auto",
    bounded: Mapping[str, Any] | None = None,
) -> SparkStream:
    """Return the matches of a query in a streaming frame; no job runs."""
    # ``bounded`` has the keywords of load shedding, as for `cepkit.match`.
    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: a stream chooses its engine itself, with the same matches. Leave engine out"
        )
    if isinstance(value, RegexQuery):
        value.refuse_skips("stream")
    _refuse_end(getattr(value, "complete_until", None))
    if isinstance(value, SequenceQuery):
        value = replace(value, complete_until=END)  # the search waits until the watermark decides
    program, source = bind_any(frame, value)
    check_watermark(source, value.order_by[0])
    _check_sequence(program)
    engine_value, shedding = choose_engine(program), None
    if bounded is not None:
        engine_value, shedding = engines()["tree"], open_door(BUCKET_SHEDDING)(value, bounded)
    matches = SparkStream((frame,), program.query, program, engine_value, shedding=shedding)
    if not value.partition_by:
        warn(
            "without partition_by all events are one stream, which one Spark task must hold and match; with "
            "partition_by the tasks share the work"
        )
    return matches


def window_stream(frame: DataFrame, window: Window) -> SparkStream:
    """Return the rows that a window emits in a streaming frame; no job runs."""
    check_ordered(window.order_by)
    check_functions(dict(window.functions))
    source = EmptySource(frame)
    window = check_window(window, source)
    _refuse_twice(source)
    check_watermark(source, window.order_by[0])
    rows = SparkStream((frame,), window)
    if not window.group_by or window.time is None:
        warn(
            f"{why_one_bucket(window)}, so a single Spark task must hold them; with a window of time and "
            "group_by the tasks share the work"
        )
    return rows


def join_stream(frame: DataFrame, other: DataFrame, join: Join) -> SparkStream:
    """Return the pairs of a join of two streaming frames; no job runs."""
    return _pairs((frame, other), join)


def chain_stream(frames: tuple[DataFrame, ...], chain: Chain) -> SparkStream:
    """Return the results of a chain in a streaming frame, or in two if it begins with a join; no job runs."""
    _check_clocks(chain)
    for step in chain.steps:
        _refuse_end(getattr(step, "complete_until", None))
        check_functions(dict(step.functions))
    first = chain.steps[0]
    if isinstance(first, Join):
        if len(frames) < 2:
            raise UnsupportedQueryError(
                "a chain that begins with a join reads two streams: call one.cep.join(other, …), and then "
                ".cep.match(…) of its result"
            )
        return _pairs((frames[0], frames[1]), chain)
    source = EmptySource(frames[0])
    if isinstance(first, Window):
        check_ordered(first.order_by)
        _refuse_twice(source)
        chain = replace(chain, steps=(check_window(first, source), *chain.steps[1:]))
    else:
        bind_any(frames[0], first)
    check_watermark(source, first.order_by[0])
    return _checked(SparkStream(frames[:1], chain))


def _pairs(frames: tuple[DataFrame, DataFrame], query: Join | Chain) -> SparkStream:
    join = query.steps[0] if isinstance(query, Chain) else query
    check_functions(dict(join.functions))
    sources = EmptySource(frames[0]), EmptySource(frames[1])
    for source, clock in zip(sources, plan_join(join, sources).clocks, strict=True):
        _refuse_twice(source)
        check_watermark(source, clock)
    return _checked(SparkStream(frames, query))


def _checked(rows: SparkStream) -> SparkStream:
    """Refuse steps without end, and warn if one bucket must hold all rows."""
    for step in rows._search.steps if isinstance(rows.query, Chain) else ():
        if isinstance(step, SequenceSearch):
            _check_sequence(step.program)
    if not rows._keys:
        warn(f"{rows.why_one_bucket}, so a single Spark task must hold them")
    return rows


def _check_clocks(chain: Chain) -> None:
    """Raise for a step whose clock is not in order in the rows that the window before it emits."""
    for number, (before, step) in enumerate(pairwise(chain.steps), start=2):
        if isinstance(before, Window) and step.order_by and before.order_by:
            wanted = column_in_order(before)
            if step.order_by[0] != wanted:
                raise OrderError(
                    f"step {number}: order_by begins with {step.order_by[0]!r}, but the window before it "
                    f"emits rows in the order of {wanted!r}; put that column first"
                )


def _refuse_end(complete_until: Any) -> None:
    if complete_until is not None:
        raise UnsupportedQueryError(
            "complete_until: the watermark says until when the rows of a streaming Spark frame are complete; "
            "leave complete_until out"
        )


def _refuse_twice(source: EmptySource) -> None:
    if twice := sorted(source.duplicates):
        raise CepError(f"the stream has several columns {twice}; rename them, the result has every column")


def _check_sequence(program: Any) -> None:
    """Refuse a sequence query that a stream cannot run, or only with endless state."""
    if not isinstance(program, SequenceProgram):
        return
    refuse_strict(program)
    window = program.window
    if window.within is None and window.within_events is None:
        raise UnsupportedQueryError(
            "the query has no window, so a stream would keep every event for ever; add WITHIN to the "
            "query, as in WITHIN 1 hour"
        )


def check_watermark(source: EmptySource, clock: str) -> None:
    """Raise if a stream has no watermark on a column of times."""
    results = [field.metadata[RESULT] for field in source.fields if RESULT in field.metadata]
    if results:
        raise UnsupportedQueryError(
            f"the stream has {results[0]}: results have no watermark, so no second query can wait for it in "
            "one Spark stream. Give match a chain, stream.cep.match([cep.Window(…), 'PATTERN …'], …), or add "
            "a step to the result: stream.cep.window(…).cep.match('PATTERN …', …). Or write the results to a "
            "table, and read that table as a stream of its own"
        )
    marked = [field.name for field in source.fields if _DELAY in field.metadata]
    if not marked:
        type_of_column = {field.name: field.dataType.typeName() for field in source.fields}
        if type_of_column.get(clock) == "timestamp_ntz":
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


def row_patterns_of_stream(
    frame: DataFrame, text: str, params: Mapping[str, Any] | None = None, complete_until: Any = None
) -> SparkStream:
    """Return the matches of MATCH_RECOGNIZE in a streaming frame; no job runs."""
    _refuse_end(complete_until)
    source = EmptySource(frame)
    query = rows_of_stream(text, source.schema, params)
    check_ordered(query.order_by, "ORDER BY")
    if twice := sorted(source.duplicates):
        raise CepError(f"the stream has several columns {twice}; rename them")
    check_watermark(source, query.order_by[0])
    results = SparkStream((frame,), query)
    if not query.partition_by:
        warn(
            "without PARTITION BY all rows are one partition, which one Spark task must hold and match; with "
            "PARTITION BY the tasks share the work"
        )
    return results
