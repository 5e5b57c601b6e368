"""What the functions have in common: a call's query as a value, and its program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from cepkit.api.sources import source_of, spark_module
from cepkit.errors import UnsupportedQueryError
from cepkit.events import Frame, Source
from cepkit.frames.empty import with_types
from cepkit.frames.pandas import index_clock
from cepkit.language.regex.patterns import Pattern
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.arguments import QueryKeywords, read_arguments
from cepkit.planning.planner import Engine, EngineValue, check_engine, choose_engine
from cepkit.planning.queries import Query, as_query
from cepkit.planning.validation import compile_checked

if TYPE_CHECKING:
    from cepkit.compile.regex.program import Program
    from cepkit.compile.sequences.program import SequenceProgram
    from cepkit.language.sequences.query import SequenceQuery


def query_of(
    function: Callable[..., Any], frame: Frame, query: Query, keywords: Mapping[str, Any]
) -> RegexQuery | SequenceQuery:
    """Return the query of a call as a value. A DatetimeIndex orders it unless it names an order."""
    given = read_arguments(function, keywords)
    if isinstance(query, str | Pattern) and given.order_by is None and isinstance(frame, pd.DataFrame):
        given = replace(given, order_by=index_clock(frame))
    return as_query(query, given)


def program_for(
    function: Callable[..., Any],
    frame: Frame,
    query: Query,
    engine: str | EngineValue,
    keywords: Mapping[str, Any],
    *,
    sequences_only: bool = False,
) -> tuple[Program | SequenceProgram, Source, Engine]:
    """Return the program, source and engine of a query for functions that read events one by one."""
    name = function.__name__
    value = query_of(function, frame, query, keywords)
    check_engine(engine)
    if sequences_only and isinstance(value, RegexQuery):
        raise UnsupportedQueryError(
            f"{name}() takes event sequences only, and this is a regex query; explain() says how it is "
            "read, and funnel() how far rows get"
        )
    if spark_module(frame):
        raise UnsupportedQueryError(
            f"{name}() reads rows one by one, which a Spark frame does not allow; take a "
            f"part of them: df.limit(…) or df.filter(…), then toPandas().cep.{name}(…)"
        )
    source = with_types(source_of(frame)[0], value)
    program = compile_checked(value, source)
    return program, source, choose_engine(program, engine)


def check_names(function: Callable[..., Any], keywords: QueryKeywords) -> QueryKeywords:
    """Check the names of a query's keywords and return the keywords."""
    read_arguments(function, keywords)
    return keywords
