"""Questions about a query of MATCH_RECOGNIZE: `explain`, `funnel` and `why_not` of its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cepkit.api.sources import source_of, spark_module
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Frame, Source
from cepkit.frames.empty import with_types
from cepkit.frames.empty_rows import wishes_of_rows
from cepkit.language.match_recognize.asked import refuse_windows
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.planning.arguments import read_arguments
from cepkit.planning.planner import EngineValue

if TYPE_CHECKING:
    from cepkit.engines.match_recognize.row_match_set import SearchedRows
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.why_not import WhyNot
    from cepkit.results.match_recognize.explanation import RowExplanation


def params_of(
    function: Callable[..., Any], engine: str | EngineValue, keywords: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the parameters of a call with the text of MATCH_RECOGNIZE, which takes no other keyword."""
    given = read_arguments(function, keywords)
    said = [item.name for item in fields(given) if getattr(given, item.name) != item.default]
    said += ["engine"] * (engine != "auto")
    if others := [name for name in said if name != "params"]:
        raise CepError(f"{others}: MATCH_RECOGNIZE has clauses for its options, and takes params= only")
    return given.params


def explain_rows(frame: Frame, query: str, params: Mapping[str, Any] | None) -> RowExplanation:
    """Return the explanation of a text; a frame in memory is searched in part to measure the costs."""
    from cepkit.engines.match_recognize.bound import bind_row_query
    from cepkit.frames.row_events import searched_rows
    from cepkit.results.match_recognize.explanation import RowExplanation, measure_rows

    whole = refuse_windows(parse_match_recognize(query), "explain")
    if spark := spark_module(frame):
        return RowExplanation(bind_row_query(whole, spark.EmptySource(frame).schema, params))
    source = with_types(source_of(frame)[0], wishes_of_rows(whole, params or {}))
    bound = bind_row_query(whole, source.schema, params, source.clock)
    return RowExplanation(bound, measure_rows(searched_rows(source, bound)))


def funnel_rows(frame: Frame, query: str, params: Mapping[str, Any] | None) -> FunnelResult:
    """Return the funnel of a text."""
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.match_recognize.funnel import count_row_funnel

    searched, _ = _searched("funnel", frame, query, params)
    return FunnelResult(searched.bound.query, count_row_funnel(searched))


def why_not_rows(frame: Frame, query: str, params: Mapping[str, Any] | None, rows: Any) -> WhyNot:
    """Return why rows are not a match of a text; without rows, where matches are lost."""
    from cepkit.insight.match_recognize.why_not import explain_row_match
    from cepkit.insight.why_not import funnel_summary

    if rows is None:
        return funnel_summary(funnel_rows(frame, query, params))
    searched, source = _searched("why_not", frame, query, params)
    return explain_row_match(searched, source, rows)


def refuse_steps() -> None:
    """Raise the error of `step` for MATCH_RECOGNIZE."""
    raise UnsupportedQueryError(
        "step() follows partial matches from row to row, and the search of MATCH_RECOGNIZE goes back and "
        "forth: which partial match is preferred may depend on later rows. why_not(rows=[…]) says how far "
        "rows get, and funnel() where matches are lost"
    )


def _searched(
    name: str, frame: Frame, query: str, params: Mapping[str, Any] | None
) -> tuple[SearchedRows, Source]:
    from cepkit.engines.match_recognize.bound import bind_row_query
    from cepkit.frames.row_events import searched_rows

    whole = refuse_windows(parse_match_recognize(query), name)
    if spark_module(frame):
        raise UnsupportedQueryError(
            f"{name}() reads rows one by one, which a Spark frame does not allow; take a "
            f"part of them: df.limit(…) or df.filter(…), then toPandas().cep.{name}(…)"
        )
    source = with_types(source_of(frame)[0], wishes_of_rows(whole, params or {}))
    return searched_rows(source, bind_row_query(whole, source.schema, params, source.clock)), source
