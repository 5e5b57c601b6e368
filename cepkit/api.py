"""The functions that users call on any frame. The accessor ``df.cep`` has the same functions as methods."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.regex.matching import Run, match_regex
from cepkit.errors import CepError, UnsupportedQueryError, truth, whole_number
from cepkit.events import Events, Frame, Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.frames.empty import with_types
from cepkit.frames.mistakes import no_frame
from cepkit.frames.pandas import PandasSource, index_clock
from cepkit.language.match_recognize.recognizing import is_match_recognize
from cepkit.language.regex.patterns import Pattern
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.arguments import (
    QueryKeywords,
    names_keywords,
    read_arguments,
    takes_query_keywords,
)
from cepkit.planning.clocks import depends_on_ties, ties_in_words, warn_of_numbers_as_text, warn_of_ties
from cepkit.planning.planner import Engine, EngineValue, check_engine, choose_engine, remarks
from cepkit.planning.queries import Query, as_query
from cepkit.planning.validation import compile_checked, warn_of_unknown_types
from cepkit.progress import show_progress
from cepkit.results.doors import open_door
from cepkit.results.matches import Matches
from cepkit.results.regex_found import RegexFound

# The modules of one function load when it is called: the first `match` of a process must not wait for them.
if TYPE_CHECKING:
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.moments import Moment
    from cepkit.insight.why_not import WhyNot
    from cepkit.language.expressions.trees import Expression
    from cepkit.language.query_parts import Duration
    from cepkit.parallel.agents.crew import Costs
    from cepkit.parallel.agents.outcome import ParallelRun
    from cepkit.results.explanation import Explanation
    from cepkit.results.spark.matches import SparkMatches
    from cepkit.scaleout.engine.scatter_gather import ScatterGather
    from cepkit.shedding.simulation.arrivals import Arrivals
    from cepkit.shedding.simulation.costs import Prices
    from cepkit.shedding.strategies.strategy import Strategy
    from cepkit.streaming.spark.matches import SparkStreamMatches
    from cepkit.streaming.spark.rows import SparkStreamRows
    from cepkit.windows.values import Window


@overload
def match(
    frame: pd.DataFrame,
    query: Query,
    *,
    engine: str | EngineValue = "auto",
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> Matches: ...
@overload
def match(
    frame: Frame,
    query: Query,
    *,
    engine: str | EngineValue = "auto",
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> Matches | SparkMatches | SparkStreamMatches: ...
@takes_query_keywords
def match(
    frame: Frame,
    query: Query,
    *,
    engine: str | EngineValue = "auto",
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> Matches | SparkMatches | SparkStreamMatches:
    """Find the matches of a query in a frame.

    Parameters
    ----------
    frame : DataFrame or table
        A pandas, polars or Spark DataFrame, an Arrow table, or any object with the Arrow stream protocol.
    query : str, pattern or query
        Text that begins with ``PATTERN`` is an event sequence in SASE's language. `cepkit.seq`,
        `cepkit.all_of` and `cepkit.any_of` build event sequences, too. Other text is a regex over the names
        in ``define`` and over boolean columns; ``.`` is any event. Contiguous rows of a partition match a
        regex. The match that ends first is reported. If several end there, the one that starts first is
        reported. The search then continues after its last row.

        The text of SQL's ``MATCH_RECOGNIZE ( … )``, alone or in a SELECT, runs on frames in memory with the
        rules of SQL. Its clauses have all options, so ``params`` is the only keyword. The result then has
        ``count()`` and ``to_frame()``.
    **keywords
    engine : str or engine
        ``"auto"`` takes the fastest engine, see `explain`; all engines find the same matches. The error for a
        wrong name lists all names. ``"linked"`` (LinkedCEP), ``"sase_runs"`` and ``"siddhi_like_runs"`` run
        only when you name them; ``matches.run`` then reports what they did. Parallel engines are values:
        `cepkit.Hybrid`, `cepkit.RIP`, `cepkit.DataParallel`, `cepkit.StateParallel`, `cepkit.Sequential`.
        `cepkit.ScatterGather` divides the work among nodes.
    trace : bool
        Whether a parallel engine records every step, in ``matches.run.trace``.

    Returns
    -------
    Matches, SparkMatches or SparkStreamMatches
        Ordered by their last row. Sequence matches with the same last row are ordered by the row before it,
        and so on backwards. Inspect them with ``count()``, ``to_frame()``, ``sample(10)``, ``plot()`` and
        ``explore()``. A streaming Spark frame gives `SparkStreamMatches`, which ``writeStream`` writes.

    Raises
    ------
    CepError
        A subclass, raised before any work starts: for text that cannot be read (with its place), unknown
        columns (with the nearest name), and types that do not fit.
    TypeError
        For unknown keywords, with the nearest name.

    Notes
    -----
    Time O(rows x live starts), on as many threads as make it faster. Ctrl-C ends a run within about 0.1 s.
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> found = cep.match(
    ...     walk, ". rise+ drop", define={"rise": "price > prev(price)", "drop": "price < prev(price)"},
    ...     measures={"low": "first(price)", "top": "max(price)", "rows": "count()"})
    >>> found.to_frame()
       low  top  rows
    0   10   13     4
    """
    _refuse_shedding(keywords)
    if isinstance(query, str) and is_match_recognize(query) and spark_module(frame) is None:
        return _match_rows(frame, query, engine, trace, keywords)
    value = _query_of(match, frame, query, keywords)
    check_engine(engine, trace=truth("match: trace", trace))
    if spark := spark_module(frame):
        if trace:
            raise UnsupportedQueryError("trace=True: tasks of a Spark frame send back matches only")
        from cepkit.pipelines.spark_session import worker_python

        matches = spark.match(frame, value, engine)
        worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
        return matches
    source, native = source_of(frame)
    source = with_types(source, value)
    is_sequence = isinstance(value, SequenceQuery)
    what, n_rows = ("searching", None) if is_sequence else ("events", source.n_rows)
    with show_progress(what, n_rows) as progress:
        program = compile_checked(value, source)
        chosen = choose_engine(program, engine, trace=trace)
        events = build_events(source, program)
        if isinstance(program, SequenceProgram):
            warn_of_unknown_types(program, events)
        warn_of_numbers_as_text(program, events)
        warn_of_ties(program, source, events)
        return match_events(program, source, events, native, chosen, progress)


def _match_rows(
    frame: Frame, query: str, engine: str | EngineValue, trace: bool, keywords: Mapping[str, Any]
) -> Any:
    """Return the result of the text of MATCH_RECOGNIZE, whose clauses say all but the parameters."""
    from cepkit.language.match_recognize.parsing import parse_match_recognize
    from cepkit.results.row_pattern_matches import RowPatternMatches

    given = read_arguments(match, keywords)
    said = [item.name for item in fields(given) if getattr(given, item.name) != item.default]
    said += ["engine"] * (engine != "auto") + ["trace"] * trace
    if others := [name for name in said if name != "params"]:
        raise CepError(f"{others}: MATCH_RECOGNIZE has clauses for its options, and takes params= only")
    source, native = source_of(frame)
    return RowPatternMatches(parse_match_recognize(query), source, native, given.params)


@overload
def tag(
    frame: pd.DataFrame,
    query: Query,
    *,
    engine: str | EngineValue = "auto",
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> pd.DataFrame: ...
@overload
def tag(
    frame: Frame,
    query: Query,
    *,
    engine: str | EngineValue = "auto",
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> Frame: ...
@takes_query_keywords
def tag(
    frame: Frame,
    query: Query,
    *,
    engine: str | EngineValue = "auto",
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> Frame:
    """Return the input frame with two extra columns, ``match`` and ``variable``.

    Parameters
    ----------
    frame, query, engine, trace
        As for `match`.
    **keywords

    Returns
    -------
    DataFrame or table
        The rows and the index of the frame. ``match`` is the number of the match that a row belongs to;
        ``variable`` is the name that the row stands for. Both are null for rows without a match.

    Raises
    ------
    CepError
        As `match`, and when a row belongs to several matches.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
    >>> tagged = cep.tag(walk, "up+ down", define={"up": "price > 11", "down": "price <= 11"})
    >>> tagged["variable"].tolist()
    [<NA>, 'up', 'up', 'down']
    """
    names = _check_names(tag, keywords)
    if isinstance(query, str) and is_match_recognize(query):
        _query_of(tag, frame, query, names)  # raises: the rows of these matches have no tags yet
    return match(frame, query, engine=engine, trace=trace, **names).tag()


@takes_query_keywords
def explain(
    frame: Frame, query: Query, *, engine: str | EngineValue = "auto", **keywords: Unpack[QueryKeywords]
) -> Explanation:
    """Say how a query is read and how it will run, without running it.

    If the search order depends on the events, `explain` measures a sample of them. If events share the time
    of another one and the matches may depend on it, a line says so.

    Parameters
    ----------
    frame, query, engine
        As for `match`.
    **keywords

    Returns
    -------
    Explanation
        Prints as text; a notebook also draws the automaton.

    Raises
    ------
    CepError
        As `match`.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("AABAABAACAAB") * 20, "x": range(240)})
    >>> query = "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x + 200"
    >>> for line in str(cep.explain(frame, query, event_type="kind")).splitlines()[9:13]:
    ...     print(line)
    evaluation   c, b, a  [least cost: 2,108 tests, 6,485 in the order of the pattern]
                 c: 20 events, 10.2 in a window; 20 partial matches
                 b: 60 events, 30 in a window; 600 partial matches
                 a: 160 events, 79.3 in a window; 23,800 partial matches
    """
    from cepkit.planning.evaluation_order import branch_orders
    from cepkit.results.explanation import Explanation

    value = _query_of(explain, frame, query, keywords)
    check_engine(engine)
    source = spark.EmptySource(frame) if (spark := spark_module(frame)) else source_of(frame)[0]
    source = with_types(source, value)
    program = compile_checked(value, source)
    chosen = choose_engine(program, engine)
    is_ordered = chosen.name == "ordered" and not spark
    has_ties = not spark and depends_on_ties(program.query)
    events = build_events(source, program) if is_ordered or has_ties else None
    notes = remarks(program, chosen) if isinstance(program, SequenceProgram) and chosen.automatic else ()
    said = ties_in_words(program, source, events) if has_ties and events is not None else ""
    notes = (*notes, *([("ties", said)] if said else []))
    orders = ()
    if is_ordered and events is not None and isinstance(program, SequenceProgram):
        orders = tuple(branch_orders(program, events))
    return Explanation(program, chosen, orders, notes)


@takes_query_keywords
@show_progress("counting steps")
def funnel(
    frame: Frame, query: Query, *, engine: str | EngineValue = "auto", **keywords: Unpack[QueryKeywords]
) -> FunnelResult:
    """Count how many events and partial matches reach each step of a query.

    The steps of a sequence are its events. The steps of a regex are the parts of its pattern.

    Parameters
    ----------
    frame, query, engine
        As for `match`; Spark frames are refused.
    **keywords

    Returns
    -------
    FunnelResult
        Prints as a table; ``to_frame()`` and ``conditions()`` have its numbers, ``plot()`` draws them.

    Raises
    ------
    UnsupportedQueryError
        For Spark frames, and for sequences with too many alternatives.
    CepError
        As `match`.

    Notes
    -----
    The numbers of a step are those of the pattern cut off after it. Counts are exact. If walking over the
    partial matches of a sequence takes too long, the counts are lower bounds, marked with ``≥``. A regex is
    run once for each part of its pattern.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> define = {"rise": "price > prev(price)", "deep": "price < first(price)"}
    >>> made = cep.funnel(walk, ". rise{2,} deep", define=define)
    >>> made.to_frame()[["step", "events", "passing", "partial"]].head(3)
           step  events  passing  partial
    0         .       7        7        7
    1  rise{2,}       7        3        1
    2      deep       7     <NA>        0
    >>> made.words()
    ['no match; most is lost here: 1 partial match up to rise{2,}, 0 up to deep']
    """
    program, source, chosen = _program_for(funnel, frame, query, engine, keywords)
    return _funnel(program, build_events(source, program), chosen)


def _funnel(program: Program | SequenceProgram, events: Events, engine: Engine) -> FunnelResult:
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.funnel_regex import count_regex_funnel
    from cepkit.insight.funnel_sequences import count_funnel

    if isinstance(program, Program):
        return FunnelResult(program.query, count_regex_funnel(program, events))
    return FunnelResult(program.query, count_funnel(program, events, engine.of_sequences))


@takes_query_keywords
@show_progress("searching")
def why_not(
    frame: Frame,
    query: Query,
    *,
    rows: Any = None,
    engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> WhyNot:
    """Say why events that you expected to match do not.

    Parameters
    ----------
    frame, query, engine
        As for `match`; Spark frames are refused.
    **keywords
    rows : labels, or mapping of str to label or labels, optional
        The events that you expected in one match: index labels (row numbers for tables) in any order, or a
        mapping from variables to labels. A regex match has every row of its partition from its first to its
        last. None: say where most partial matches are lost, see `funnel`.

    Returns
    -------
    WhyNot
        Prints as text: the best reading of the events, how far they get, and what stops them.

    Raises
    ------
    CepError
        For labels that no row or several rows have, rows named twice, and unknown variables.
    UnsupportedQueryError
        For Spark frames.

    Notes
    -----
    The code of the engines' kernels decides every condition. It runs as Python on the events concerned. For
    a regex, time is quadratic in the number of named rows. Events that fulfil all conditions are looked up
    among the matches, so the query is run once.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> scans = pd.DataFrame({"kind": ["Order", "Scan", "Ready"], "ts": [1, 2, 9], "weight": [5, 6, 3]})
    >>> cep.why_not(
    ...     scans, "PATTERN SEQ(Order o, Ready r) WHERE r.weight > o.weight WITHIN 5",
    ...     rows=[0, 2], event_type="kind", order_by="ts")
    no match: o = row 0, r = row 2; row 2 cannot follow row 0
    - the time from row 0 to row 2 is 8, more than 5
    >>> define = {"up": "weight > prev(weight)", "down": "weight < 3"}
    >>> cep.why_not(scans, ". up+ down", define=define, rows=[0, 1, 2])
    no match: rows 0 to 2; row 2 cannot follow row 1
    - row 2: up fails: weight > prev(weight) (weight = 3, prev(weight) = 6)
    - row 2: down fails: weight < 3 (weight = 3)
    """
    from cepkit.insight.why_not import funnel_summary
    from cepkit.insight.why_not_regex import explain_regex_rows
    from cepkit.insight.why_not_text import explain_sequence_rows

    program, source, chosen = _program_for(why_not, frame, query, engine, keywords)
    events = build_events(source, program)
    if rows is None:
        return funnel_summary(_funnel(program, events, chosen))
    if isinstance(program, Program):
        return explain_regex_rows(program, source, events, lambda: match_regex(program, events), rows)
    return explain_sequence_rows(program, source, events, chosen.of_sequences, rows)


@takes_query_keywords
def step(
    frame: Frame,
    query: Query,
    *,
    most_live: int = 10_000,
    engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> Iterator[Moment]:
    """Go through the events one by one and see what each does to the partial matches of a query.

    Parameters
    ----------
    frame, query, engine
        As for `match`; Spark frames are refused.
    **keywords
    most_live : int
        The largest number of partial matches of a sequence that are followed at once.

    Returns
    -------
    iterator of Moment
        One for every event, in stream order. It has the event, the partial matches that begin, advance and
        end with it and those that are live after it, and the matches that it completes. Together the moments
        complete every match of `match` once. A moment prints as text.

    Raises
    ------
    UnsupportedQueryError
        For Spark frames.
    ResultTooLargeError
        While iterating, when more than ``most_live`` partial matches of a sequence are live at once.
    CepError
        As `match`.

    Notes
    -----
    Each event costs time O(live partial matches), in plain Python: some hundred events per second. Memory is
    O(live partial matches) besides the columns that the query reads, since no moment is kept.

    A partial match of a sequence is live while its pattern, window and strategy let a later event of the
    stream be its next one. ``after_match`` changes which matches are completed, not which partial matches
    are live. A match that ends with an absent event is completed at its last event.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14]})
    >>> define = {"rise": "price > prev(price)", "drop": "price < prev(price)"}
    >>> for moment in cep.step(walk, ". rise+ drop", define=define):
    ...     print(moment)
    row 0: 1 partial match begins; 1 is live (1 at any)
    row 1: 1 partial match begins, 1 advances; 2 are live (1 at any, 1 at rise)
    row 2: 1 partial match begins, 2 advance; 3 are live (1 at any, 2 at rise)
    row 3: 1 partial match advances, 2 end; 0 are live; match: rows 0 to 3
    row 4: 1 partial match begins; 1 is live (1 at any)
    >>> moment.event, moment.live[0].first
    ({'price': 14}, 4)
    """
    from cepkit.insight.moments import moments_of

    most_live = whole_number("step: most_live", most_live, 1)
    program, source, _ = _program_for(step, frame, query, engine, keywords)
    return moments_of(program, source, build_events(source, program), most_live)


@takes_query_keywords
@show_progress("simulating")
def simulate(
    frame: Frame,
    query: Query,
    *,
    engine: EngineValue | None = None,
    costs: Costs | str | None = None,
    arrival: ArrayLike | None = None,
    keep: bool = False,
    trace: bool = False,
    **keywords: Unpack[QueryKeywords],
) -> ParallelRun:
    """Run a parallel engine in virtual time: reproducible, with exact matches, on any number of threads.

    Parameters
    ----------
    frame, query
        As for `match`; the query is an event sequence, and Spark frames are refused.
    **keywords
    engine : ParallelEngine, optional
        `cepkit.Hybrid`, `cepkit.RIP`, `cepkit.DataParallel`, `cepkit.StateParallel` or `cepkit.Sequential`;
        default: ``Hybrid()``.
    costs : Costs or "measured", optional
        Costs of a thread's steps; default: those of `cepkit.Costs`. ``"measured"`` measures them for this
        query on this machine, in a run of a part of the events.
    arrival : array of float, shape (n_rows,), optional
        When each row reaches the engine, in ns, nondecreasing in stream order. None: all at once.
    keep : bool
        Whether the run keeps the matches; otherwise it counts them.
    trace : bool
        Whether the run records every step.

    Returns
    -------
    ParallelRun
        Number of matches, makespan, busy time of every thread, latencies, bytes, comparisons, trace.

    Raises
    ------
    CepError
        As `match`; when there are too few threads, or when the arrivals do not fit the rows.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> run = cep.simulate(events, query, event_type="kind", engine=cep.Hybrid(threads=8))
    >>> run.n_matches == cep.match(events, query, event_type="kind").count(), run.n_threads
    (True, 8)
    """
    from cepkit.parallel.agents.crew import Costs
    from cepkit.parallel.engine.engines import Hybrid, ParallelEngine
    from cepkit.parallel.simulation.calibration import calibrate_costs

    engine = Hybrid() if engine is None else engine
    program, source, _ = _program_for(simulate, frame, query, engine, keywords, sequences_only=True)
    assert isinstance(program, SequenceProgram)
    check_engine(engine, trace=truth("simulate: trace", trace))
    if not isinstance(engine, ParallelEngine):
        raise CepError(
            f"simulate: engine={engine!r} has no threads. Give cep.Hybrid(threads=4), or another value"
        )
    events = build_events(source, program)
    if arrival is not None:
        arrival = _arrivals(arrival, events)
    if costs == "measured":
        costs = calibrate_costs(program, events, crew=engine.crew(program, events))
    elif costs is not None and not isinstance(costs, Costs):
        raise CepError(f"costs={costs!r}: give cep.Costs(…), or 'measured'")
    return engine.simulate(program, events, costs=costs or Costs(), arrival=arrival, keep=keep, trace=trace)


def _arrivals(arrival: ArrayLike, events: Events) -> np.ndarray:
    """Check arrivals by row and return them by position in the stream."""
    try:
        arrival = np.asarray(arrival, np.float64)
    except (TypeError, ValueError):
        raise CepError("arrival: expected numbers, the nanoseconds of each row") from None
    if arrival.shape != (events.n_events,):
        raise CepError(f"arrival: shape {arrival.shape} for {events.n_events} rows; give one number per row")
    arrival = arrival[events.rows(np.arange(events.n_events))]
    if not (np.all(np.diff(arrival, prepend=0.0) >= 0) and np.all(np.isfinite(arrival))):
        raise CepError("arrival: times must be finite, at least 0, and must not fall in stream order")
    return arrival


@takes_query_keywords
def replay(
    frame: Frame,
    query: Query | Sequence[Query],
    *,
    arrivals: Arrivals | ArrayLike | str | None = None,
    latency_bound: Duration | float | None = None,
    shedding: Strategy | str = "none",
    costs: Prices | str | None = None,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    warm_up: int | None = None,
    seed: int = 0,
    negation: str = "kills_if",
    **keywords: Unpack[QueryKeywords],
) -> Any:
    """Replay a frame as a stream under overload, in virtual time, and say what load shedding costs.

    One server processes the events one by one with the engine ``"tree"``. Its clock advances by the price of
    every unit of work. A strategy decides which events and partial matches to drop, so that matches are found
    within the bound. The first events are a warm-up without drops, from which the strategy learns.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`. A Spark frame needs ``partition_by``; each key is a replay of its own, in a task.
    query : query, or list of queries
        Event sequences, as for `match`. Several queries share one buffer.
    **keywords
    arrivals : Arrivals, array or str, optional
        When events arrive: ``"constant"``, ``"poisson"``, ``"peaks"`` (default), ``"overload"``, a value such
        as ``cepkit.shedding.PeakArrivals(factor=100)`` or ``cepkit.shedding.ColumnArrivals("ts")``, or the
        seconds of each row.
    latency_bound : str, timedelta or float, optional
        Longest time from the arrival of a match's last event until the match is found, such as ``"1.5 s"``.
        A number is in seconds. None: nothing is dropped.
    shedding : Strategy or str
        What to drop under overload: a value such as ``cepkit.shedding.Random()``, or a name. The error for a
        wrong name lists all names.
    costs : Prices or "measured", optional
        Seconds per unit of work; default: ``cepkit.shedding.Prices()``. ``"measured"`` measures them for this
        query on this machine.
    weights : list of float, or mapping of str to float, optional
        Weight of each query for recall; default: 1 each. A mapping has weights of event types instead.
    warm_up : int, optional
        Events of the warm-up, among those whose type a query names. Default: 5,000, or a fifth of a shorter
        stream.
    seed : int
        Seed of random decisions. The same seed gives the same result, bit by bit.
    negation : str
        How to read conditions on absent events. ``"kills_if"``: an event that fulfils them forbids a match,
        as in `match`. ``"allowed_if"``: an event forbids a match unless it fulfils them, as DARLING's paper
        says.

    Returns
    -------
    ReplayResult
        Matches, drops by type, latencies, memory, recall and precision; see `cepkit.shedding.ReplayResult`.
        For a Spark frame: a Spark DataFrame with the rows of ``to_frame()`` for each key. Keys that cannot be
        replayed have the reason in the column ``problem``.

    Raises
    ------
    CepError
        As `match`. Before any work: when the bound, weights, arrivals or the warm-up do not fit.
    UnsupportedQueryError
        For regex queries, for ``after_match``, and when the tree cannot run a query.

    Notes
    -----
    Arrivals do not depend on the strategy. Source: DARLING, PVLDB 15(3), 2022.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("ab") * 400, "ts": range(800)})
    >>> query = "PATTERN SEQ(a x, b y) WITHIN 20"
    >>> late = cep.replay(frame, query, latency_bound="100 us", event_type="kind", order_by="ts")
    >>> late.n_dropped, late.recall, late.within_bound < 0.9
    (0, 1.0, True)
    >>> kept = cep.replay(
    ...     frame, query, latency_bound="100 us", shedding="random_input", event_type="kind", order_by="ts")
    >>> kept.n_dropped > 0, kept.recall < 1, kept.within_bound > late.within_bound
    (True, True, True)
    """
    from cepkit.shedding.simulation.inputs import check_settings, make_scene
    from cepkit.shedding.simulation.replay import ReplayResult

    given = query if isinstance(query, list | tuple) else [cast("Query", query)]
    settings = check_settings(
        [_query_of(replay, frame, one, keywords) for one in given],
        arrivals=arrivals, latency_bound=latency_bound, shedding=shedding, costs=costs, weights=weights,
        warm_up=warm_up, seed=seed, negation=negation,
    )  # fmt: skip
    if spark_module(frame):
        from cepkit.results.spark.per_key import run_per_key
        from cepkit.shedding.simulation.tasks import ReplayTask, types_of_columns

        return run_per_key(frame, settings.queries, ReplayTask(settings), types_of_columns())
    source, native = source_of(frame)
    for value in settings.queries:
        source = with_types(source, value)
    with show_progress("replaying"):
        scene = make_scene(settings, source)
        run = scene.run(settings.strategy, settings.seed)
    return ReplayResult(run, source, native)


def _program_for(
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
    value = _query_of(function, frame, query, keywords)
    check_engine(engine)
    if sequences_only and not isinstance(value, SequenceQuery):
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


def _refuse_shedding(keywords: Mapping[str, Any]) -> None:
    """Raise for keywords of load shedding, which other calls have."""
    names = ("latency_bound", "shedding", "warm_up", "weights", "time_slice")
    if given := [name for name in names if name in keywords]:
        raise UnsupportedQueryError(
            f"{given[0]}: match drops no event, on streaming Spark frames too. cep.replay(frame, query, "
            "latency_bound='1.5 s') sheds load on a finished frame, and cep.stream(query, schema, "
            "latency_bound='1.5 s') on events that you push, for example in Spark's foreachBatch"
        )


def _query_of(
    function: Callable[..., Any], frame: Frame, query: Query, keywords: Mapping[str, Any]
) -> RegexQuery | SequenceQuery:
    """Return the query of a call as a value. A DatetimeIndex orders it unless it names an order."""
    given = read_arguments(function, keywords)
    if isinstance(query, str | Pattern) and given.order_by is None and isinstance(frame, pd.DataFrame):
        given = replace(given, order_by=index_clock(frame))
    return as_query(query, given)


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
    return open_door("explore")(frame, query, value=value, engine=engine, **_check_names(explore, keywords))


def _load_explorer(path: str | os.PathLike, frame: Frame | None = None) -> Any:
    """Open an explorer that ``Explorer.save`` wrote, with a frame; see `cepkit.Explorer.load`."""
    explorer: Any = open_door("explore")
    return explorer.load(path, frame)


explore.__dict__["load"] = _load_explorer


def _check_names(function: Callable[..., Any], keywords: QueryKeywords) -> QueryKeywords:
    """Check the names of a query's keywords and return the keywords."""
    read_arguments(function, keywords)
    return keywords


def match_events(
    program: Program | SequenceProgram,
    source: Source,
    events: Events,
    native: Callable[[Frame], Frame],
    engine: Engine,
    progress: Callable[[int], None] | None = None,
) -> Matches:
    """Run a compiled query on the events of its source; a regex reports its progress to ``progress``."""
    if isinstance(program, SequenceProgram):
        from cepkit.engines.after_match import report_matches
        from cepkit.results.sequence_found import SequenceFound

        found = report_matches(program, engine.of_sequences(program, events))
        return Matches(SequenceFound(program, found), source, engine, native)
    run = Run()
    matchset = match_regex(program, events, progress=progress, run=run)
    return Matches(RegexFound(program, matchset, run), source, engine, native)


@names_keywords
def window(
    frame: Frame,
    aggregates: Mapping[str, str | Expression] | Window | None = None,
    *,
    time: Duration | None = None,
    length: int | None = None,
    tumbling: Duration | bool = False,
    group_by: str | Sequence[str] | None = None,
    where: str | Expression | None = None,
    order_by: str | Sequence[str] | None = None,
    emit: str = "arrival",
    params: Mapping[str, Any] | None = None,
    engine: EngineValue | None = None,
) -> Frame:
    """Compute running aggregates over a window that moves with the rows.

    A row that leaves the window does so before the next row arrives. The result has a row for each row that
    arrives, in stream order, with the aggregates over the window that then includes it.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    aggregates : mapping of str to str, or Window
        Columns by name: ``{"total": "sum(price)", "above": "price - avg(price)"}``. The aggregates are sum,
        count, avg, min, max, std, distinct, first, last and delta. A column outside of them is the value of
        the row itself. A `cepkit.Window` is the whole call as a value.
    time : str, timedelta or int, optional
        A row stays for this time, by the first column of ``order_by``: the window holds the rows with
        ``ts > now - time``. A row that is exactly ``time`` old has left.
    length : int, optional
        The window holds the last ``length`` rows, of all groups together.
    tumbling : str, timedelta, int or bool
        Batches instead of a sliding window: a duration, or a number of rows. The aggregates begin again with
        each batch. ``tumbling=True`` makes batches of ``time`` or ``length``. Batches of time begin at
        multiples of their duration.
    group_by : str or list of str, optional
        Columns. The aggregates of a row range over the rows of its group in the window.
    where : str, optional
        Only rows for which this is true enter the window and the result.
    order_by : str or list of str, optional
        Columns; the first is the clock. Rows with equal values keep their order in the frame. Default in
        memory: a DatetimeIndex, or else the order of the rows.
    emit : str
        ``"arrival"``: a row for each row that arrives. ``"all"``: also a row for each row that leaves, with
        the aggregates after it has left. The column ``status`` says ``"current"`` or ``"expired"``, and
        ``emitted`` says when, if there is a clock. Time passes after the last row, so all rows of a time
        window leave.
    params : mapping of str to value, optional
        Values of ``:name`` in the expressions.
    engine : engine, optional
        ``cepkit.ScatterGather(nodes=4)`` runs on several nodes, with the same result. See `cepkit.plan`.

    Returns
    -------
    DataFrame or table
        The same kind as the frame: its columns and its index, and the aggregates. A streaming Spark frame
        gives `SparkStreamRows`, which ``writeStream`` writes.

    Raises
    ------
    CepError
        A subclass, raised before any work starts: for unknown columns (with the nearest name), a window
        without a size or with two, a window of time without a clock, and types that do not fit.

    Notes
    -----
    Missing values and NaN do not count; an aggregate of nothing is null, and ``count`` is 0. Sums of floats
    are exact and are rounded once, so neither the order of the rows nor the engine changes them. ``avg`` is
    the rounded sum divided by the count. ``std`` is that of the whole population.
    Time O(rows), and the time to sort the rows and the groups.
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    section 3.1.1, queries 3.1 and 3.2.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [0, 10, 15, 16], "price": [1.0, 2.0, 4.0, 8.0]})
    >>> cep.window(trades, {"total": "sum(price)", "n": "count()"}, time=15, order_by="ts")
       ts  price  total  n
    0   0    1.0    1.0  1
    1  10    2.0    3.0  2
    2  15    4.0    6.0  2
    3  16    8.0   14.0  3
    """
    from cepkit.windows.running import check_window, frame_with, run_window
    from cepkit.windows.values import window_of

    value = window_of(
        aggregates, time=time, length=length, tumbling=tumbling, group_by=group_by, where=where,
        order_by=order_by, emit=emit, params=params,
    )  # fmt: skip
    nodes = _nodes_of(engine)
    if spark_module(frame):
        if frame.isStreaming:
            return _window_stream(frame, value, engine)
        from cepkit.windows.spark import window_spark

        return window_spark(frame, value, run=run_window if nodes is None else nodes.run_window)
    source, native = source_of(frame)
    checked = check_window(value, source)
    made = run_window(checked, source) if nodes is None else nodes.run_window(checked, source)
    return frame_with(source, made, native)


def _window_stream(frame: Frame, value: Window, engine: EngineValue | None) -> SparkStreamRows:
    from cepkit.pipelines.spark_session import worker_python
    from cepkit.streaming.spark.binding import window_stream

    if engine is not None:
        raise UnsupportedQueryError(
            f"engine={engine!r}: the tasks of Spark are the nodes of a stream. Leave engine out"
        )
    rows = window_stream(frame, value)
    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    return rows


@names_keywords
def join(
    frame: Frame,
    other: Frame,
    *,
    left: Window | None = None,
    right: Window | None = None,
    on: str | Sequence[str] | Mapping[str, str] | None = None,
    where: str | Expression | None = None,
    how: str = "inner",
    trigger: str = "both",
    measures: Mapping[str, str | Expression] | None = None,
    order_by: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    engine: EngineValue | None = None,
) -> Frame:
    """Join two frames as streams: each arrival meets the rows in the window of the other side.

    Parameters
    ----------
    frame : DataFrame or table
        The left side, as for `match`.
    other : DataFrame or table
        The right side. Both sides may be the same frame.
    left, right : Window, optional
        How long a row of this side waits for partners, as ``cep.Window(length=20)`` or
        ``cep.Window(time="1 min")``. Their ``where`` says which rows take part. None: rows do not wait, they
        only meet rows that wait on the other side.
    on : str, list of str or mapping of str to str, optional
        Columns that are equal on both sides; a mapping has names of the left and of the right side. A missing
        value is equal to nothing.
    where : str, optional
        A condition on a pair, as in ``"left.price < right.price"``.
    how : str
        ``"inner"``, ``"left"``, ``"right"`` or ``"outer"``: the sides whose rows are in the result when they
        find no partner on arrival.
    trigger : str
        ``"both"``, ``"left"`` or ``"right"``: the sides whose arrivals create pairs.
    measures : mapping of str to str, optional
        Running aggregates over the pairs that are alive after the arrival, as
        ``{"n": "count()", "x": "sum(left.price)"}``: sum, count and avg. A pair is alive while both of its
        rows are in their windows.
    order_by : str or list of two str, optional
        The clock of both sides, or of the left and of the right side. A row of the left side comes before a
        row of the right side with the same time. Default in memory: DatetimeIndexes.
    params : mapping of str to value, optional
        Values of ``:name`` in the expressions.
    engine : engine, optional
        ``cepkit.ScatterGather(nodes=4)`` runs on several nodes, with the same result. See `cepkit.plan`.

    Returns
    -------
    DataFrame or table
        The same kind as ``frame``, in the order of the arrivals. A name that both sides have gets the suffix
        ``_left`` or ``_right``, except for a key. ``emitted`` is the time of the arrival.

    Raises
    ------
    CepError
        A subclass, raised before any work starts: for unknown columns (with the nearest name), sides without
        a common clock, keys of different types, and names that clash.

    Notes
    -----
    Time O(rows + pairs), and the time to sort the rows and the keys.
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    section 3.1.3, query 3.4.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [1, 4], "symbol": ["X", "X"], "price": [10.0, 12.0]})
    >>> news = pd.DataFrame({"ts": [2, 3], "symbol": ["X", "Y"], "text": ["up", "down"]})
    >>> cep.join(trades, news, left=cep.Window(time=5), right=cep.Window(length=1), on="symbol",
    ...          order_by="ts", measures={"n": "count()"})
       ts_left symbol  price  ts_right text  n  emitted
    0        1      X   10.0         2   up  1        2
    """
    from cepkit.windows.joining import frame_of_join, plan_join, run_join
    from cepkit.windows.values import Join

    value = Join(
        left, right, on=on or (), where=where, how=how, trigger=trigger, measures=measures or (),
        order_by=order_by or (), params=params or (),
    )  # fmt: skip
    nodes = _nodes_of(engine)
    is_spark = [bool(spark_module(side)) for side in (frame, other)]
    if any(is_spark):
        if not all(is_spark):
            raise CepError("a join needs two Spark frames or none; convert one side, as in other.toPandas()")
        from cepkit.windows.spark import join_spark

        return join_spark(frame, other, value, run=run_join if nodes is None else nodes.run_join)
    (one, native), (two, _) = source_of(frame), source_of(other)
    plan = plan_join(value, (one, two))
    made = run_join(plan, (one, two)) if nodes is None else nodes.run_join(plan, (one, two))
    return frame_of_join(plan, (one, two), made, native)


def _nodes_of(engine: EngineValue | None) -> ScatterGather | None:
    """Return the engine of a window or a join; raise the error for any other."""
    if engine is None:
        return None
    from cepkit.scaleout.engine.scatter_gather import ScatterGather

    if not isinstance(engine, ScatterGather):
        raise CepError(
            f"engine={engine!r}: windows and joins run without an engine, or on cep.ScatterGather(nodes=4)"
        )
    return engine


def spark_module(frame: Frame) -> Any:
    """Return the module for Spark frames if ``frame`` is one, else None. Never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not isinstance(frame, sql.DataFrame):
        return None
    from cepkit.results.spark import binding

    return binding


def source_of(frame: Frame) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return the frame as a source of columns, and a function that converts results to the frame's kind."""
    if isinstance(frame, pd.DataFrame):
        return PandasSource(frame), _unchanged
    if isinstance(frame, pa.Table):
        return ArrowSource(frame, frame), _unchanged
    if isinstance(frame, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([frame]), frame), _unchanged
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.LazyFrame):
        raise CepError("a polars LazyFrame has no rows yet; call collect() first")
    if isinstance(frame, pd.Series):
        raise CepError(no_frame(frame))
    if polars is not None and isinstance(frame, polars.Series):
        raise CepError("a polars Series has no columns; call to_frame() first")
    if hasattr(frame, "__arrow_c_stream__"):
        native = (
            polars.from_arrow if polars is not None and isinstance(frame, polars.DataFrame) else _unchanged
        )
        return ArrowSource(pa.table(frame), frame), native
    raise CepError(no_frame(frame))


def _unchanged(frame: Frame) -> Frame:
    return frame
