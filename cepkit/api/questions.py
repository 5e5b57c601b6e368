"""Ask a query, a window, a join or a chain how it runs, where matches are lost, and what each event does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from cepkit.api.searching import program_for, query_of, refuse_spark, spark_module
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.events import Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.sources import source_of_frame, wishes_of_rows, with_types
from cepkit.frames.united import takes_frames
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import refuse_windows
from cepkit.language.query_parts import is_match_recognize
from cepkit.planning.clocks import depends_on_ties, ties_in_words
from cepkit.planning.planner import (
    Engine,
    EngineValue,
    check_engine,
    choose_engine,
    is_regex,
    is_sequence,
    remarks,
)
from cepkit.planning.plans import compile_checked
from cepkit.planning.queries import (
    Arguments,
    Query,
    QueryKeywords,
    read_arguments,
    refuse_options,
    takes_query_keywords,
)
from cepkit.progress import show_progress

if TYPE_CHECKING:
    from cepkit.compile.regex_program import Program
    from cepkit.compile.sequence_program import SequenceProgram
    from cepkit.engines.match_recognize.bound import SearchedRows
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.moments import Moment
    from cepkit.insight.why_not import WhyNot
    from cepkit.results.views import Explanation
    from cepkit.windows.running import OperatorExplanation
    from cepkit.windows.values import Join, Window


# The modules of one function load when it is called: the first `match` of a process must not wait for them.


@takes_frames
@takes_query_keywords
def explain(
    frame: Frame, query: Query | Window | Join, *, other: Frame | None = None,
    engine: str | EngineValue = "auto", **keywords: Unpack[QueryKeywords],
) -> Explanation | OperatorExplanation:  # fmt: skip
    """Say how a query is read and how it will run, without running it.

    If the search order depends on the events, `explain` measures a sample of them. If events share the time
    of another one and the matches may depend on it, a line says so.

    Parameters
    ----------
    frame, query, engine
        As for `match`; ``query`` may also be a `cepkit.Window` or a `cepkit.Join`.
    **keywords
    other : DataFrame or table, optional
        The right side of a join.

    Returns
    -------
    Explanation or OperatorExplanation
        Prints as text; a notebook also draws the automaton of a query. For MATCH_RECOGNIZE, it has the
        clauses, the choices of each state by preference, what conditions look at, and the costs on a sample
        of the rows.

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
    >>> for line in str(cep.explain(frame, query, event_type="kind")).splitlines()[10:14]:
    ...     print(line)
    evaluation   c, b, a  [least cost: 2,108 tests, 6,485 in the order of the pattern]
                 c: 20 events, 10.2 in a window; 20 partial matches
                 b: 60 events, 30 in a window; 600 partial matches
                 a: 160 events, 79.3 in a window; 23,800 partial matches
    """
    if isinstance(query, str) and is_match_recognize(query):
        return explain_rows(frame, query, params_of(explain, engine, keywords))
    from cepkit.planning.evaluation_order import branch_orders
    from cepkit.results.views import Explanation
    from cepkit.windows.values import Operator

    spark = spark_module(frame)
    if isinstance(query, Operator) or (spark and frame.isStreaming):
        explain_query = explain_stream if spark and frame.isStreaming else explain_operator
        return explain_query(frame, query, other, engine, read_arguments(explain, keywords))
    value = query_of(explain, frame, query, keywords)
    check_engine(engine)
    source = spark.EmptySource(frame) if spark else source_of_frame(frame)[0]
    source = with_types(source, value)
    program = compile_checked(value, source)
    chosen = choose_engine(program, engine)
    is_ordered = chosen.name == "ordered" and not spark
    has_ties = not spark and depends_on_ties(program.query)
    events = build_events(source, program) if is_ordered or has_ties else None
    notes = remarks(program, chosen) if is_sequence(program) and chosen.automatic else ()
    tie_text = ties_in_words(program, source, events) if has_ties and events is not None else ""
    notes = (*notes, *([("ties", tie_text)] if tie_text else []))
    orders = ()
    if is_ordered and events is not None and is_sequence(program):
        orders = tuple(branch_orders(chosen.searched(program), chosen.searched_events(program, events)))
    return Explanation(program, chosen, orders, notes)


@takes_frames
@takes_query_keywords
@show_progress("counting steps")
def funnel(
    frame: Frame, query: Query | list[str] | list[int], *, mode: str | None = None, by: str | None = None,
    engine: str | EngineValue = "auto", **keywords: Unpack[QueryKeywords],
) -> FunnelResult:  # fmt: skip
    """Count how many events and partial matches reach each step of a query, or how many users each of a list.

    The steps of a sequence are its events. The steps of a regex are the parts of its pattern.

    A list of two or more steps asks another question: how many users reach each step, one after the other. A
    user is a partition. A user reaches a step with rows for all steps up to this one, in this order.
    ``within`` limits the time from the first of them to the last. A list as ``within`` limits the time from
    each step to the next. The steps are values of the column ``event_type``. Without ``event_type`` they are
    conditions on a row, such as ``"amount > 0"``. ``"!help"`` in the list says that no such row may lie
    between the step before and the step after it. ``"coupon?"`` is a step that a user may leave out.

    Parameters
    ----------
    frame, query, engine
        As for `match`; Spark frames are refused. For a list of steps, frames of Spark are welcome, and
        ``engine`` has no effect.
    **keywords
    mode : str, optional
        Only for a list of steps: what a user may do between two steps. ``"any"`` (default): anything.
        ``"strict"``: nothing; the rows of the steps follow each other directly in the partition.
        ``"any order"``: the steps have no order, and the result says how many users do one, two, … of them.
    by : str, optional
        Only for a list of steps: a column that divides the users into groups, each with a funnel. The group
        of a user is the value at the user's first row that is the first step.

    Returns
    -------
    FunnelResult
        It prints as a table with percents; ``to_frame()`` has its numbers, ``plot()`` draws them. That of a
        query also has ``conditions()``, and that of a list ``times()``, the quantiles of how long users take.

    Raises
    ------
    UnsupportedQueryError
        For Spark frames, and for sequences with too many alternatives.
    CepError
        As `match`. For a list of steps also without ``partition_by``.

    Notes
    -----
    The numbers of a step are those of the pattern cut off after it. Counts are exact. If walking over the
    partial matches of a sequence takes too long, the counts are lower bounds, marked with ``≥``. A regex is
    run once for each part of its pattern.

    A user of a list of steps may begin again, and the best attempt counts. A repeated first step never hides
    a later success, as it can in ClickHouse's ``windowFunnel`` (ClickHouse/ClickHouse 21833 and 27469). To
    ignore rows of some kinds under ``"strict"``, filter the frame first. Time O(rows x steps).

    The number of a step of MATCH_RECOGNIZE is the number of rows from which the pattern cut off after it
    matches. The reported matches are those that AFTER MATCH leaves.

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
    >>> kinds = ["view", "help", "cart", "view", "cart", "buy"]
    >>> clicks = pd.DataFrame({"user": list("aaabbb"), "kind": kinds})
    >>> cep.funnel(clicks, ["view", "cart", "buy"], event_type="kind", partition_by="user")
    view → cart → buy
    step  reached  lost of first of previous
    view        2     0   100.0%      100.0%
    cart        2     0   100.0%      100.0%
     buy        1     1    50.0%       50.0%
    1 of 2 users reach the last step (50.0%); most are lost before buy: 1
    """
    if isinstance(query, list):
        from cepkit.idioms.funnel import funnel_of_steps

        return funnel_of_steps(frame, query, mode or "any", by, read_arguments(funnel, keywords))
    for name, given in (("mode", mode), ("by", by)):
        if given is not None:
            raise CepError(f"{name}={given!r} is for a list of steps, as in ['view', 'cart', 'buy']")
    if isinstance(query, str) and is_match_recognize(query):
        return funnel_rows(frame, query, params_of(funnel, engine, keywords))
    program, source, chosen = program_for(funnel, frame, query, engine, keywords)
    return _funnel(program, build_events(source, program), chosen)


def _funnel(program: Program | SequenceProgram, events: Events, engine: Engine) -> FunnelResult:
    """Return how many events and partial matches reach each step of a query."""
    from cepkit.insight.funnel import FunnelResult

    if is_sequence(program):
        from cepkit.insight.funnels import count_funnel

        return FunnelResult(program.query, count_funnel(program, events, engine.of_sequences))
    from cepkit.insight.funnels import count_regex_funnel

    assert is_regex(program)
    return FunnelResult(program.query, count_regex_funnel(program, events))


@takes_frames
@takes_query_keywords
@show_progress("searching")
def why_not(
    frame: Frame, query: Query, *, rows: Any = None, engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> WhyNot:  # fmt: skip
    """Say why events that you expected to match do not.

    Parameters
    ----------
    frame, query, engine
        As for `match`; Spark frames are refused.
    **keywords
    rows : labels, or mapping of str to label or labels, optional
        The events that you expected in one match: index labels (row numbers for tables) in any order, or a
        mapping from variables to labels. A match of a regex or of MATCH_RECOGNIZE has every row of its
        partition from its first to its last. None: say where most partial matches are lost, see `funnel`.

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
    among the matches, so the query is run once. For MATCH_RECOGNIZE, the rows are read in every way at once,
    and their partition is searched once.

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
    if isinstance(query, str) and is_match_recognize(query):
        return why_not_rows(frame, query, params_of(why_not, engine, keywords), rows)
    program, source, chosen = program_for(why_not, frame, query, engine, keywords)
    events = build_events(source, program)
    if rows is None:
        from cepkit.insight.why_not import funnel_summary

        return funnel_summary(_funnel(program, events, chosen))
    if is_sequence(program):
        from cepkit.insight.why_not_text import explain_sequence_rows

        return explain_sequence_rows(program, source, events, chosen.of_sequences, rows)
    from cepkit.engines.regex import match_regex
    from cepkit.insight.why_not_regex import explain_regex_rows

    assert is_regex(program)
    return explain_regex_rows(program, source, events, lambda: match_regex(program, events), rows)


@takes_frames
@takes_query_keywords
def step(
    frame: Frame, query: Query, *, most_live: int = 10_000, engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> Iterator[Moment]:  # fmt: skip
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
        For Spark frames, and for MATCH_RECOGNIZE.
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
    if isinstance(query, str) and is_match_recognize(query):
        raise UnsupportedQueryError(
            "step() follows partial matches from row to row, and the search of MATCH_RECOGNIZE goes back and "
            "forth: which partial match is preferred may depend on later rows. why_not(rows=[…]) says how "
            "far rows get, and funnel() where matches are lost"
        )
    from cepkit.insight.moments import moments_of

    most_live = whole_number("step: most_live", most_live, 1)
    program, source, _ = program_for(step, frame, query, engine, keywords)
    return moments_of(program, source, build_events(source, program), most_live)


# Questions about a query of MATCH_RECOGNIZE: `explain`, `funnel` and `why_not` of its text.


def params_of(
    function: Callable[..., Any], engine: str | EngineValue, keywords: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the parameters of a call with the text of MATCH_RECOGNIZE, which takes no other keyword."""
    arguments = read_arguments(function, keywords)
    refuse_options(arguments, *(["engine"] if engine != "auto" else []))
    return arguments.params


def explain_rows(frame: Frame, query: str, params: Mapping[str, Any] | None) -> Explanation:
    """Return the explanation of a text; a frame in memory is searched in part to measure the costs."""
    from cepkit.engines.match_recognize.bound import bind_row_query
    from cepkit.results.explained_queries import measure_rows
    from cepkit.results.rows_in_memory import ROWS_ENGINE
    from cepkit.results.views import Explanation

    if spark := spark_module(frame):
        whole = refuse_windows(parse_match_recognize(query), "explain")
        return Explanation(bind_row_query(whole, spark.EmptySource(frame).schema, params), ROWS_ENGINE)
    searched, _ = _searched("explain", frame, query, params)
    return Explanation(searched.bound, ROWS_ENGINE, measured=measure_rows(searched))


def funnel_rows(frame: Frame, query: str, params: Mapping[str, Any] | None) -> FunnelResult:
    """Return the funnel of a text."""
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.row_pattern_why_not import count_row_funnel

    searched, _ = _searched("funnel", frame, query, params)
    return FunnelResult(searched.bound.query, count_row_funnel(searched))


def why_not_rows(frame: Frame, query: str, params: Mapping[str, Any] | None, rows: Any) -> WhyNot:
    """Return why rows are not a match of a text; without rows, where matches are lost."""
    from cepkit.insight.row_pattern_why_not import explain_row_match
    from cepkit.insight.why_not import funnel_summary

    if rows is None:
        return funnel_summary(funnel_rows(frame, query, params))
    searched, source = _searched("why_not", frame, query, params)
    return explain_row_match(searched, source, rows)


def _searched(
    name: str, frame: Frame, query: str, params: Mapping[str, Any] | None
) -> tuple[SearchedRows, Source]:
    """Return the rows as the query searches them, and their source. Errors name the caller."""
    from cepkit.engines.match_recognize.bound import bind_row_query
    from cepkit.frames.row_order import searched_rows

    whole = refuse_windows(parse_match_recognize(query), name)
    refuse_spark(name, frame)
    source = with_types(source_of_frame(frame)[0], wishes_of_rows(whole, params or {}))
    bound = bind_row_query(whole, source.schema, params).ordered_by(source.clock)
    return searched_rows(source, bound), source


# Explain windows, joins and chains, and everything on streaming Spark frames.


def explain_stream(
    frame: Frame, query: Any, other: Frame | None, engine: str | EngineValue, given: Arguments
) -> Explanation | OperatorExplanation:
    """Return how a streaming Spark frame answers; results of streams explain themselves."""
    from cepkit.streaming import spark_binding as binding
    from cepkit.windows.running import Chain, as_value
    from cepkit.windows.values import Join, Window

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
    from cepkit.windows.joining import plan_join, with_types_of_join
    from cepkit.windows.running import (
        IN_MEMORY,
        OperatorExplanation,
        as_value,
        check_window,
        lines_of,
        with_types_of_window,
    )
    from cepkit.windows.values import Window

    value = as_value(query, given)
    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: cep.plan(query, nodes=4) shows the plan of a window or a join over nodes"
        )
    spark = spark_module(frame)
    sides = (frame,) if isinstance(value, Window) else (frame, _other_side(other))
    sources: Any = tuple(spark.EmptySource(side) if spark else source_of_frame(side)[0] for side in sides)
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
