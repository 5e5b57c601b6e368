"""Explain windows, joins and chains, and everything on streaming Spark frames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cepkit.api.sources import source_of, spark_module
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Frame
from cepkit.planning.arguments import Arguments
from cepkit.planning.planner import EngineValue
from cepkit.results.explanation import Explanation
from cepkit.windows.chains import Chain, as_value
from cepkit.windows.explaining import IN_MEMORY, OperatorExplanation, lines_of
from cepkit.windows.joining import plan_join, with_types_of_join
from cepkit.windows.running import check_window, with_types_of_window
from cepkit.windows.values import Join, Window


def explain_stream(
    frame: Frame, query: Any, other: Frame | None, engine: str | EngineValue, given: Arguments
) -> Explanation | OperatorExplanation:
    """Return how a streaming Spark frame answers; results of streams explain themselves."""
    from cepkit.streaming.spark import binding

    value = as_value(query, given)
    if isinstance(value, Chain):
        return binding.chain_stream((frame,), value).explain()
    if isinstance(value, Window):
        return binding.window_stream(frame, value).explain()
    if isinstance(value, Join):
        return binding.join_stream(frame, _other_side(other), value).explain()
    return binding.match_stream(frame, value, engine).explain()


def explain_operator(
    frame: Frame, query: Any, other: Frame | None, engine: str | EngineValue, given: Arguments
) -> OperatorExplanation:
    """Return how a window or a join is read and runs, after the checks that need no rows."""
    value = as_value(query, given)
    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: cep.plan(query, nodes=4) shows the plan of a window or a join over nodes"
        )
    spark = spark_module(frame)
    sides = (frame,) if isinstance(value, Window) else (frame, _other_side(other))
    sources: Any = tuple(spark.EmptySource(side) if spark else source_of(side)[0] for side in sides)
    if isinstance(value, Window):
        sources = (with_types_of_window(value, sources[0]),)
        value = check_window(value, sources[0])
    else:
        sources = with_types_of_join(value, sources)
        value = replace(value, order_by=plan_join(value, sources).clocks)
    how = IN_MEMORY
    if spark:
        from cepkit.windows.spark import how_join_runs, how_window_runs

        is_window = isinstance(value, Window)
        how = how_window_runs(value, sources[0]) if is_window else how_join_runs(value, sources)
    return OperatorExplanation((*lines_of(value), ("runs", how)))


def _other_side(other: Frame | None) -> Frame:
    if other is None:
        raise CepError("a join has two sides; give the right one, as in explain(join, other=frame)")
    return other
