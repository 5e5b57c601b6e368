"""Run a regex query or an event sequence on a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cepkit.api.calls import query_of
from cepkit.api.sources import source_of, spark_module
from cepkit.errors import UnsupportedQueryError, truth
from cepkit.events import Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.empty import with_types
from cepkit.language.regex.query import RegexQuery
from cepkit.limits import MemoryLimit, bound_memory, refuse_limit_on_spark
from cepkit.planning.clocks import warn_of_numbers_as_text, warn_of_ties
from cepkit.planning.planner import Engine, EngineValue, check_engine, choose_engine, is_regex, is_sequence
from cepkit.planning.queries import Query
from cepkit.planning.validation import compile_checked, warn_of_unknown_types
from cepkit.progress import show_progress
from cepkit.results.matches import Matches

if TYPE_CHECKING:
    from cepkit.compile.regex.program import Program
    from cepkit.compile.sequences.program import SequenceProgram


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
    if is_sequence(program):
        from cepkit.engines.after_match import report_matches
        from cepkit.results.sequence_found import SequenceFound

        with bound_memory(memory_limit, "Narrow the window or the conditions"):
            found = report_matches(program, engine.of_sequences(program, events))
        return Matches(SequenceFound(program, found), source, engine, native, memory_limit)
    from cepkit.engines.regex.matching import Run, match_regex
    from cepkit.results.regex_found import RegexFound

    assert is_regex(program)
    run = Run()
    matchset = match_regex(program, events, progress=progress, run=run)
    return Matches(RegexFound(program, matchset, run), source, engine, native, memory_limit)
