"""Run a regex query or an event sequence on a frame as a source of columns, and open the explorer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from cepkit.errors import UnsupportedQueryError, truth
from cepkit.events import Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.empty import with_types
from cepkit.frames.pandas import index_clock
from cepkit.frames.sources import source_of_frame
from cepkit.language.regex.patterns import Pattern
from cepkit.language.regex.query import RegexQuery
from cepkit.limits import MemoryLimit, bound_memory, refuse_limit_on_spark
from cepkit.planning.clocks import warn_of_numbers_as_text, warn_of_ties
from cepkit.planning.planner import Engine, EngineValue, check_engine, choose_engine, is_regex, is_sequence
from cepkit.planning.plans import compile_checked, warn_of_unknown_types
from cepkit.planning.queries import Query, QueryKeywords, as_query, read_arguments, takes_query_keywords
from cepkit.progress import show_progress
from cepkit.results.doors import open_door
from cepkit.results.matches import Matches

if TYPE_CHECKING:
    from cepkit.compile.regex.program import Program
    from cepkit.compile.sequences.program import SequenceProgram
    from cepkit.language.sequences.query import SequenceQuery


# Run a regex query or an event sequence on a frame, as a source of columns.

# Frames as sources of columns.


def spark_module(frame: Frame) -> Any:
    """Return the module for Spark frames if ``frame`` is one, else None. Never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not isinstance(frame, sql.DataFrame):
        return None
    from cepkit.results.spark import binding

    return binding


def source_of(frame: Frame) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return the frame as a source of columns, and a function that converts results to the frame's kind."""
    return source_of_frame(frame)


# What the functions have in common: a call's query as a value, and its program.


def query_of(
    function: Callable[..., Any], frame: Frame, query: Query, keywords: Mapping[str, Any]
) -> RegexQuery | SequenceQuery:
    """Return the query of a call as a value. A DatetimeIndex orders it unless it names an order."""
    arguments = read_arguments(function, keywords)
    if isinstance(query, str | Pattern) and arguments.order_by is None and isinstance(frame, pd.DataFrame):
        arguments = replace(arguments, order_by=index_clock(frame))
    return as_query(query, arguments)


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


# Run a regex query or an event sequence on a frame.


def search_frame(
    function: Callable[..., Any],
    frame: Frame,
    query: Query,
    engine: str | EngineValue,
    trace: bool,
    bounded: Mapping[str, Any] | None,
    memory_limit: MemoryLimit,
    keywords: Mapping[str, Any],
) -> Any:
    """Return the matches of the arguments of `cepkit.match`, which is ``function``."""
    value = query_of(function, frame, query, keywords)
    check_engine(engine, trace=truth("match: trace", trace))
    if spark := spark_module(frame):
        if trace:
            raise UnsupportedQueryError("trace=True: tasks of a Spark frame send back matches only")
        refuse_limit_on_spark(memory_limit)
        from cepkit.pipelines.spark_session import worker_python

        matches = spark.match(frame, value, engine, bounded=bounded)
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
        return matches
    source, native = source_of(frame)
    source = with_types(source, value)
    what, n_rows = ("events", source.n_rows) if isinstance(value, RegexQuery) else ("searching", None)
    with show_progress(what, n_rows) as progress:
        program = compile_checked(value, source)
        chosen = choose_engine(program, engine, trace=trace)
        events = build_events(source, program)
        if is_sequence(program):
            warn_of_unknown_types(program, events)
        warn_of_numbers_as_text(program, events)
        warn_of_ties(program, source, events)
        return match_events(program, source, events, native, chosen, progress, memory_limit)


def match_events(
    program: Program | SequenceProgram,
    source: Source,
    events: Events,
    native: Callable[[Frame], Frame],
    engine: Engine,
    progress: Callable[[int], None] | None = None,
    memory_limit: MemoryLimit = "auto",
) -> Matches:
    """Run a compiled query on the events of its source; a regex reports its progress to ``progress``."""
    place = {"source": source, "engine": engine, "native": native, "memory_limit": memory_limit}
    if is_sequence(program):
        from cepkit.engines.after_match import report_matches
        from cepkit.results.query_found import SequenceFound

        with bound_memory(memory_limit, "Narrow the window or the conditions"):
            sequences = report_matches(program, engine.of_sequences(program, events))
        return Matches(SequenceFound(program=program, whole=sequences, **place))
    from cepkit.engines.regex import Run, match_regex
    from cepkit.results.query_found import RegexFound

    assert is_regex(program)
    run = Run()
    matchset = match_regex(program, events, progress=progress, run=run)
    return Matches(RegexFound(program=program, whole=matchset, run=run, **place))


# Open the explorer.


@takes_query_keywords
def explore(
    frame: Frame,
    query: Query | None = None,
    *,
    value: str | None = None,
    engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> Any:
    """Open the pattern explorer: an editor for a query, with its matches beside it, in a notebook.

    Parameters
    ----------
    frame, query, engine
        As for `match`; the query may be typed later. For a Spark frame, the explorer shows a sample of at
        most 100,000 rows, and ``run_on_all`` runs the query on all rows.
    **keywords
    value : str, optional
        Column of numbers that the timeline draws; default: the first one that the query looks at.

    Returns
    -------
    Explorer
        ``query`` and ``matches`` are those of the last result; ``wait()`` waits for it. ``save(path)`` keeps
        the query and the choices, and ``cepkit.explore.load(path, frame)`` opens them again.

    Raises
    ------
    CepError
        For unknown columns. The editor shows what is wrong with the query.
    TypeError
        For unknown keywords, with the nearest name.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> cep.explore(walk, "up+ down", define={"up": "price > 11", "down": "price <= 11"}).wait()
    Explorer(7 rows, done, 2 matches)
    """
    return open_door("explore")(frame, query, value=value, engine=engine, **check_names(explore, keywords))


def _load_explorer(path: str | os.PathLike, frame: Frame | None = None) -> Any:
    """Open an explorer that ``Explorer.save`` wrote, with a frame; see `cepkit.Explorer.load`."""
    explorer: Any = open_door("explore")
    return explorer.load(path, frame)


explore.__dict__["load"] = _load_explorer
