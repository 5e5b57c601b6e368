"""Run a regex query or an event sequence on a frame as a source of columns, and open the explorer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.doors import open_door
from cepkit.errors import CepError, UnsupportedQueryError, truth, warn
from cepkit.events import Events, Frame, Source
from cepkit.frames.building import build_events, with_masks
from cepkit.frames.pandas import index_clock
from cepkit.frames.sources import is_on_spark, source_of_frame, with_types
from cepkit.frames.united import takes_frames
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import BUILT_IN_NAMES, error_of_call
from cepkit.language.regex import RegexQuery
from cepkit.language.row_patterns import Pattern
from cepkit.limits import MemoryLimit, bound_memory, refuse_limit_on_spark
from cepkit.planning.clocks import warn_of_numbers_as_text, warn_of_ties
from cepkit.planning.planner import (
    Engine,
    EngineValue,
    check_engine,
    choose_engine,
    is_regex,
    is_sequence,
    register_engine,
    register_remark,
)
from cepkit.planning.plans import compile_checked, warn_of_unknown_types
from cepkit.planning.queries import Query, QueryKeywords, as_query, read_arguments, takes_query_keywords
from cepkit.progress import show_progress
from cepkit.results.matches import REASON, Matches

if TYPE_CHECKING:
    from cepkit.compile.regex_program import Program
    from cepkit.compile.sequence_program import SequenceProgram
    from cepkit.language.sequences.patterns import SequenceQuery


def spark_module(frame: Frame) -> Any:
    """Return the module for Spark frames if ``frame`` is one, else None. Never imports pyspark."""
    if not is_on_spark(frame):
        return None
    from cepkit.results import spark_binding

    return spark_binding


def refuse_spark(name: str, frame: Frame) -> None:
    """Raise for a Spark frame in the call of a function that reads rows one by one."""
    if spark_module(frame):
        raise UnsupportedQueryError(
            f"{name}() reads rows one by one, which a Spark frame does not allow; take a "
            f"part of them: df.limit(…) or df.filter(…), then toPandas().cep.{name}(…)"
        )


def check_spread(frame: Frame, spread_by: str | None) -> None:
    """Raise for a wrong ``spread_by``, and for a frame without tasks that could share slices of time."""
    if spread_by is None:
        return
    if spread_by != "time":
        raise CepError(f"spread_by={spread_by!r}: there is 'time'; without it the tasks of Spark share keys")
    if not is_on_spark(frame) or frame.isStreaming:
        raise UnsupportedQueryError(
            "spread_by: only the tasks of finite Spark frames share rows; leave it out"
        )


# What the functions have in common: a call's query as a value, and its program.


def query_of(
    function: Callable[..., Any], frame: Frame, query: Query, keywords: Mapping[str, Any]
) -> RegexQuery | SequenceQuery:
    """Return the query of a call as a value. A DatetimeIndex orders it unless it names an order."""
    arguments = read_arguments(function, keywords)
    if isinstance(query, str | Pattern) and arguments.order_by is None and isinstance(frame, pd.DataFrame):
        arguments = replace(arguments, order_by=index_clock(frame))
    if isinstance(arguments.define, Mapping) and not spark_module(frame):
        define = with_masks(arguments.define, frame, cache(lambda: source_of_frame(frame)[0]))
        arguments = replace(arguments, define=define)
    return as_query(query, arguments)


def program_for(
    function: Callable[..., Any], frame: Frame, query: Query, engine: str | EngineValue,
    keywords: Mapping[str, Any], *, sequences_only: bool = False,
) -> tuple[Program | SequenceProgram, Source, Engine]:  # fmt: skip
    """Return the program, source and engine of a query for functions that read events one by one."""
    name = function.__name__
    value = query_of(function, frame, query, keywords)
    check_engine(engine)
    if sequences_only and isinstance(value, RegexQuery):
        raise UnsupportedQueryError(
            f"{name}() takes event sequences only, and this is a regex query; explain() says how it is "
            "read, and funnel() how far rows get"
        )
    refuse_spark(name, frame)
    source = with_types(source_of_frame(frame)[0], value)
    program = compile_checked(value, source)
    return program, source, choose_engine(program, engine)


def check_names(function: Callable[..., Any], keywords: QueryKeywords) -> QueryKeywords:
    """Check the names of a query's keywords and return the keywords."""
    read_arguments(function, keywords)
    return keywords


# Run a regex query or an event sequence on a frame.


def search_frame(
    function: Callable[..., Any], frame: Frame, query: Query, engine: str | EngineValue, trace: bool,
    bounded: Mapping[str, Any] | None, memory_limit: MemoryLimit, keywords: Mapping[str, Any],
    spread_by: str | None = None, on_error: str = "raise",
) -> Any:  # fmt: skip
    """Return the matches of the arguments of `cepkit.match`, which is ``function``."""
    value = query_of(function, frame, query, keywords)
    check_engine(engine, trace=truth("match: trace", trace))
    if on_error != "raise":
        if on_error != "quarantine":
            raise CepError(f"on_error={on_error!r}: there are 'raise' and 'quarantine'")
        good_rows, set_aside = divided(frame, value)
        options = engine, trace, bounded, memory_limit, keywords, spread_by
        matches = search_frame(function, good_rows, query, *options)
        matches._set_aside = set_aside
        return matches
    if spark := spark_module(frame):
        if trace:
            raise UnsupportedQueryError("trace=True: tasks of a Spark frame send back matches only")
        refuse_limit_on_spark(memory_limit)
        from cepkit.pipelines.spark_session import worker_python

        matches = spark.match(frame, value, engine, spread_by=spread_by, bounded=bounded)
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
        return matches
    source, native = source_of_frame(frame)
    source = with_types(source, value)
    what, n_rows = ("events", source.n_rows) if isinstance(value, RegexQuery) else ("searching", None)
    with show_progress(what, n_rows) as progress:
        program = compile_checked(value, source)
        chosen = choose_engine(program, engine, trace=trace)
        events = build_events(source, program)
        warn_of_unknown_types(program, events)
        warn_of_numbers_as_text(program, events)
        warn_of_ties(program, source, events)
        matches = match_events(program, source, events, native, chosen, progress, memory_limit)
    if note := left_out_in_words(program, matches):
        warn(note)
    return matches


# Rows that a query cannot search, and why.


def divided(frame: Frame, value: RegexQuery | SequenceQuery) -> tuple[Frame, Frame]:
    """Return the rows that a query can search, and the others, with the reason in their first column."""
    if spark := spark_module(frame):
        return spark.divided(frame, value, reasons_against if calls_of_rows(value) else None)
    source, native = source_of_frame(frame)
    typed = with_types(source, value)
    compile_checked(value, typed)  # mistakes come first
    reasons = np.array(reasons_against(value, typed), object)
    good, bad = (np.flatnonzero(rows) for rows in (reasons == None, reasons != None))  # noqa: E711
    if len(bad):
        warn(
            f"{len(bad):,} of {len(reasons):,} rows cannot be searched, and are left out; "
            f"matches.quarantined() has them. The first one: {reasons[bad[0]]}"
        )
    texts = pa.array(reasons[bad], pa.string())
    return native(source.rows(good, {})), native(source.rows(bad, {REASON: texts}))


def reasons_against(value: RegexQuery | SequenceQuery, source: Source) -> list[str | None]:
    """Return for each row why a query cannot search it, or None."""
    # A row needs a place in the order, and a function that takes values of one row must have a result.
    from cepkit.engines.regex_measures import plain_values
    from cepkit.windows.aggregating import RowEvaluator

    reasons: list[str | None] = [None] * source.n_rows
    for name in value.order_by:
        values = plain_values(source.arrow(name, np.arange(source.n_rows)))
        for row in np.flatnonzero(values.is_null()).tolist():
            reasons[row] = reasons[row] or f"{name} has no value"
    for call in calls_of_rows(value):
        rows = np.flatnonzero([reason is None for reason in reasons])
        evaluator = RowEvaluator(value, source, rows)  # type: ignore[arg-type]  # it reads parameters
        function, arguments = evaluator.calls(call, [evaluator.value(part) for part in call.arguments])
        for row, given_values in zip(rows.tolist(), arguments, strict=True):
            try:
                if None not in given_values:
                    function(*given_values)
            except Exception as error:  # of a function of the user
                reasons[row] = error_of_call(error)
    return reasons


_OF_ROWS = (
    ex.Attribute, ex.Reference, ex.Subscript, ex.Literal, ex.Parameter, ex.Arithmetic, ex.Negative, ex.Call
)  # fmt: skip


def calls_of_rows(value: RegexQuery | SequenceQuery) -> list[ex.Call]:
    """Return the calls of the user's functions with values of one row in conditions; inner calls first."""
    trees = [tree for _, tree in value.define] if isinstance(value, RegexQuery) else value.where
    calls: dict[ex.Call, None] = {}
    for node in (node for tree in trees for node in reversed(list(tree.walk()))):
        if isinstance(node, ex.Call) and (
            node.function in dict(value.functions) or node.function not in BUILT_IN_NAMES
        ):
            parts = [part for argument in node.arguments for part in argument.walk()]
            events = {part.variable for part in parts if isinstance(part, ex.Reference)}
            is_of_row = all(isinstance(part, _OF_ROWS) for part in parts) and any(ex.columns_in(node))
            if is_of_row and len(events) < 2:
                calls.setdefault(node)
    return list(calls)


def match_events(
    program: Program | SequenceProgram, source: Source, events: Events, native: Callable[[Frame], Frame],
    engine: Engine, progress: Callable[[int], None] | None = None, memory_limit: MemoryLimit = "auto",
) -> Matches:  # fmt: skip
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
    try:
        matchset = match_regex(program, events, progress=progress, run=run)
    except AttributeError as error:
        if not program.functions:
            raise
        raise CepError(
            f"a function of define failed: {error}. It gets single values of the columns that its arguments "
            "name. A function with one other argument gets the frame: lambda df: df.ts.dt.hour == 5"
        ) from error
    return Matches(RegexFound(program=program, whole=matchset, run=run, **place))


def left_out_in_words(program: Program | SequenceProgram, matches: Matches) -> str:
    """Return a sentence on matches that begin on the last row of another one, or "" if there are none."""
    if not is_regex(program) or program.query.after_match or not program.query.skips_by_default:
        return ""
    from cepkit.engines.regex import n_left_out

    result: Any = matches._found
    n, n_events = n_left_out(program, result.whole)
    if not n:
        return ""
    among = "" if n_events == result.whole.events.n_events else f"among {n_events:,} events, "
    begin = "match begins" if n == 1 else "matches begin"
    return (
        f"{among}{n:,} more {begin} on the last row of another one, and after_match='past_last', the "
        "default, leaves them out; after_match='to_last' reports them, too"
    )


# Open the explorer.


@takes_frames
@takes_query_keywords
def explore(
    frame: Frame, query: Query | None = None, *, value: str | None = None, engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> Any:  # fmt: skip
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


# The engines, remarks and views of the wings; rooms below get them here when somebody asks for them.


@cache
def register_wings() -> None:
    """Register all of them, once."""
    from cepkit.linked import engine as linked
    from cepkit.linked.query import describe_engine, linked_query_unsupported
    from cepkit.parallel.agents import parallel_note
    from cepkit.parallel.outcome import ParallelRun, view_of_trace
    from cepkit.parallel.trace import Trace
    from cepkit.results.views import OF_RUNS, one_of, view_of
    from cepkit.shedding.replay import ReplayResult
    from cepkit.shedding.tree_engine import ENGINE

    for name, summary in linked.SUMMARIES.items():  # the methods of the papers, for comparison
        run = partial(linked.PlainlyMatched, name=name)
        details = partial(describe_engine, chains=name == "linked")
        register_engine(
            Engine(name, summary, linked_query_unsupported, run, automatic=False, details=details)
        )
    register_engine(ENGINE)
    register_remark("parallel", parallel_note)

    def view_of_utilities(of: pd.DataFrame, what: str | None, settings: dict) -> Any:
        from cepkit.shedding.views import UtilityView  # imports the packages of the widgets

        one_of(what, ("utility",), "a DataFrame")
        return UtilityView(of, **settings)

    def view_of_replay(of: ReplayResult, what: str | None, settings: dict) -> Any:
        from cepkit.shedding.views import LoadView, utility_view_of

        views = {"load": LoadView, "utility": utility_view_of}
        return views[one_of(what, tuple(views), "the result of replay")](of, **settings)

    view_of.register(pd.DataFrame, view_of_utilities)
    view_of.register(ReplayResult, view_of_replay)
    view_of.register(
        Trace, lambda of, what, settings: view_of_trace(of, one_of(what, OF_RUNS, "a trace"), **settings)
    )
    view_of.register(ParallelRun, lambda of, what, settings: of.view(what or OF_RUNS[0], **settings))
