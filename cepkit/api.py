"""What users call: match, tag and explain on any frame; the accessor ``df.cep`` has the same as methods."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.bound import Bound
from cepkit.compile.program import compile_regex
from cepkit.compile.sequence import compile_sequence
from cepkit.engines.funnel import count_funnel
from cepkit.engines.measures import measure, measure_expressions
from cepkit.engines.regex import Run, match_regex
from cepkit.engines.reuse import report_matches
from cepkit.engines.sequence_measures import default_measures, sequence_measures
from cepkit.errors import CepError, CepWarning, PatternSyntaxError, UnsupportedQueryError, nearest
from cepkit.evaluation_order import branch_orders
from cepkit.events import Events
from cepkit.explanation import Explanation
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events, check_columns
from cepkit.frames.pandas import PandasSource
from cepkit.funnels import FunnelResult
from cepkit.language.builder import QueryBuilder
from cepkit.language.expressions import Attribute, Comparison, Literal, Reference
from cepkit.language.patterns import Pattern
from cepkit.language.query import RegexQuery, regex_query
from cepkit.language.sequence_checks import check_ready
from cepkit.language.sequence_query import SequenceQuery, sequence_query
from cepkit.language.sequences import SequencePattern, event_patterns
from cepkit.matches import Matches
from cepkit.matchset import MatchSet
from cepkit.planner import check_engine, choose_engine
from cepkit.progress import Progress
from cepkit.reasons import WhyNot, explain_rows, funnel_summary
from cepkit.sequence_explanation import SequenceExplanation
from cepkit.sequence_matches import SequenceMatches
from cepkit.sequence_set import EMPTY

Query = str | Pattern | RegexQuery | SequencePattern | SequenceQuery | QueryBuilder


def match(
    frame: Any,
    query: Query,
    *,
    define: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    partition_by: str | list[str] | None = None,
    order_by: str | list[str] | None = None,
    event_type: str | None = None,
    strategy: str | None = None,
    scope: str = "run",
    within: Any = None,
    within_closed: bool = True,
    strict_time: bool = False,
    after_match: str | None = None,
    evaluation_order: list[str] | None = None,
    measures: Mapping[str, Any] | None = None,
    engine: str = "auto",
    trace: bool = False,
) -> Matches | SequenceMatches:
    """Find the matches of a query in a frame.

    Parameters
    ----------
    frame : DataFrame or table
        pandas or Spark DataFrame, Arrow table, polars frame, or anything that speaks the Arrow stream
        protocol.
    query : str, pattern or query
        Text that begins with ``PATTERN`` is an event sequence in SASE's language, and so is what
        `cepkit.seq`, `cepkit.all_of` and `cepkit.any_of` make of events. Other text is a regex over the names
        in ``define`` and over boolean columns; ``.`` is any event. Contiguous rows of a partition match a
        regex; a match is reported at its earliest end, with its earliest start, and matching starts anew
        behind it.
    define : mapping of str to (str or callable), optional
        Predicates by name. Aggregates in them range over the rows of the match before the current one.
    params : mapping of str to value, optional
        Values of ``:name`` in predicates and measures; changing them compiles nothing.
    partition_by, order_by : str or list of str, optional
        Columns. Rows with a missing key form a partition of their own. Without ``order_by`` pandas' and
        Arrow's order of rows counts; rows that are equal in it keep that order.
    within : str, timedelta or int, optional
        Longest time from the first to the last row of a match, by the first column of ``order_by``.
    within_closed : bool
        Whether a match of exactly this length is one.
    measures : mapping of str to str, optional
        Result columns; aggregates in them range over all rows of the match, or over the events of a variable.
        Default of a regex: first and last of every order column, and the count; of a sequence: the order
        columns at the event of every variable.
    engine : str
        ``"auto"``, or a name of ``cepkit.planner.ENGINES``. ``"linked"`` (LinkedCEP), ``"sase_runs"`` and
        ``"siddhi_like_runs"`` run only when named, and ``matches.run`` tells what they made.
    event_type : str, optional
        Of sequences: the column of event types.
    strategy : str, optional
        Of sequences: ``"any"`` (default), ``"next"``, ``"partition"`` or ``"strict"``: what may be skipped
        between two events of a match.
    scope : str
        Under ``"next"``: ``"run"`` skips no event that could continue the match in any way, ``"edge"`` none
        that could continue it in the same way.
    strict_time : bool
        Of sequences: whether successive events must differ in time.
    after_match : str, optional
        Of sequences: which other matches a match takes away: ``"none"`` (default), ``"past_last"``,
        ``"to_next"``, ``"to_first(b)"``, ``"to_last(b)"``.
    evaluation_order : list of str, optional
        Of sequences of single events: all variables, those to be looked for first in front. It changes how
        long a search takes, never its matches; default: what a sample of the events says, see `explain`.
    trace : bool
        Not supported yet.

    Returns
    -------
    Matches or SequenceMatches
        In the order of their last row; sequences then backwards event by event.

    Raises
    ------
    CepError
        Of a kind that fits, before any work starts: text that cannot be read (with its place), a column that
        is not there (with the nearest name), types that do not fit.

    Notes
    -----
    Time O(rows x live starts) on as many threads as pay. Ctrl-C ends a run within about a tenth of a second.
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
    given = _Given(
        define, params, partition_by, order_by, within, within_closed, measures,
        event_type, strategy, scope, strict_time, after_match, evaluation_order,
    )  # fmt: skip
    value = as_query(query, given)
    check_engine(engine)
    if trace:
        raise UnsupportedQueryError("trace=True: no engine of this version records a trace")
    if spark := _spark_frame(frame):
        if isinstance(value, SequenceQuery):
            from cepkit import spark_sequences as spark
        return spark.match(frame, value, engine)
    source, native = _source(frame)
    return match_source(value, source, native, engine)


def tag(frame: Any, query: Query, **keywords: Any) -> Any:
    """Return the frame with the columns ``match`` and ``variable`` behind: ready for groupby and merge.

    Parameters
    ----------
    frame, query, **keywords
        As for `match`.

    Returns
    -------
    DataFrame or table
        The rows and index of ``frame``; ``match`` is the number of the match the row belongs to and
        ``variable`` the name it stands for in the pattern, both null where there is none.
    """
    return match(frame, query, **keywords).tag()


def explain(
    frame: Any, query: Query, *, engine: str = "auto", **keywords: Any
) -> Explanation | SequenceExplanation:
    """Say how a query is read and how it will run, without running it.

    Where the order of the search depends on the events, a sample of them is measured.

    Parameters
    ----------
    frame, query, engine, **keywords
        As for `match`.

    Returns
    -------
    Explanation
        Prints as text; in a notebook with the automaton drawn.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("AABAABAACAAB") * 20, "x": range(240)})
    >>> query = "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x + 200"
    >>> for line in str(cep.explain(frame, query, event_type="kind")).splitlines()[8:12]:
    ...     print(line)
    evaluation   c, b, a  [least cost: 2,108 tests, 6,485 in the order of the pattern]
                 c: 20 events, 10.2 in a window; 20 partial matches
                 b: 60 events, 30 in a window; 600 partial matches
                 a: 160 events, 79.3 in a window; 23,800 partial matches
    """
    value = as_query(query, _Given(**keywords))
    check_engine(engine)
    source = spark.EmptySource(frame) if (spark := _spark_frame(frame)) else _source(frame)[0]
    program = compile_checked(value, source)
    chosen = choose_engine(program, engine)
    if chosen.run is None:
        return Explanation(program, chosen)
    if chosen.name != "ordered" or spark:
        return SequenceExplanation(program, chosen)
    return SequenceExplanation(program, chosen, tuple(branch_orders(program, build_events(source, program))))


def funnel(frame: Any, query: Query, **keywords: Any) -> FunnelResult:
    """Count how many events and partial matches of an event sequence reach each of its steps.

    Parameters
    ----------
    frame, query, **keywords
        As for `match`; the query is an event sequence.

    Returns
    -------
    FunnelResult
        Prints as a table; ``to_frame()`` and ``conditions()`` have its numbers, ``plot()`` draws them.

    Raises
    ------
    UnsupportedQueryError
        For regex queries, Spark frames, and patterns of very many alternatives.

    Notes
    -----
    Counts are exact, or say that they are lower bounds (``≥``) when walking over the partial matches takes
    too long.
    """
    program, source, chosen = _sequence_program("funnel", frame, query, keywords)
    events = build_events(source, program)
    return FunnelResult(program.query, count_funnel(program, events, chosen.run))


def why_not(frame: Any, query: Query, *, rows: Any = None, **keywords: Any) -> WhyNot:
    """Say why events that you expected to match do not.

    Parameters
    ----------
    frame, query, **keywords
        As for `match`; the query is an event sequence.
    rows : labels, or mapping of str to label or labels, optional
        The events you expected in one match: index labels (of tables row numbers), in any order, or by the
        variable that each should be. None: where most partial matches are lost.

    Returns
    -------
    WhyNot
        Prints as text: how the events are read best, how far they get, and what stops them.

    Raises
    ------
    CepError
        For labels that no row or several rows have, rows named twice, and unknown variables.
    UnsupportedQueryError
        For regex queries and Spark frames.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> scans = pd.DataFrame({"kind": ["Order", "Scan", "Ready"], "ts": [1, 2, 9], "weight": [5, 6, 3]})
    >>> cep.why_not(
    ...     scans, "PATTERN SEQ(Order o, Ready r) WHERE r.weight > o.weight WITHIN 5",
    ...     rows=[0, 2], event_type="kind", order_by="ts")
    no match: o = row 0, r = row 2; row 2 cannot follow row 0
    - from row 0 to row 2 it lasts 8, more than 5
    """
    program, source, chosen = _sequence_program("why_not", frame, query, keywords)
    events = build_events(source, program)
    if rows is None:
        return funnel_summary(FunnelResult(program.query, count_funnel(program, events, chosen.run)))
    return explain_rows(program, source, events, chosen, rows)


def _sequence_program(name: str, frame: Any, query: Query, keywords: Mapping[str, Any]) -> tuple:
    """Return the program, source and engine of an event sequence for what looks at events one by one."""
    keywords = dict(keywords)
    engine = keywords.pop("engine", "auto")
    value = as_query(query, _Given(**keywords))
    check_engine(engine)
    if not isinstance(value, SequenceQuery):
        raise UnsupportedQueryError(
            f"{name}() looks at event sequences, and this is a regex query; explain() says how it is "
            "read, and count() of a shorter pattern how far rows get"
        )
    if _spark_frame(frame):
        raise UnsupportedQueryError(
            f"{name}() looks at the rows one by one, which a Spark frame does not have at hand; take a "
            f"part of them: df.limit(…) or df.filter(…), then toPandas().cep.{name}(…)"
        )
    source = _source(frame)[0]
    program = compile_checked(value, source)
    return program, source, choose_engine(program, engine)


def match_source(
    value: RegexQuery | SequenceQuery, source: Any, native: Callable, engine: str = "auto"
) -> Matches | SequenceMatches:
    """Run ``value`` on a source of columns; see `match`."""
    program = compile_checked(value, source)
    chosen = choose_engine(program, engine)
    events = build_events(source, program)
    if chosen.run is not None:
        _warn_of_unknown_types(program, events)
        found = report_matches(program, chosen.run(program, events))
        return SequenceMatches(program, source, found, chosen, native)
    run = Run()
    with Progress(events.n_events) as progress:
        matchset = match_regex(program, events, progress=progress, run=run)
    return Matches(program, source, matchset, run, native)


def _warn_of_unknown_types(program: Bound, events: Events) -> None:
    name = program.query.event_type
    column = events.columns.get(name)
    if column is None or not events.n_events:
        return
    wanted = dict.fromkeys(event.event_type for event in event_patterns(program.query.pattern))
    if column.categories is not None:
        known = list(column.categories)
        unknown = [of for of in wanted if isinstance(of, str) and of not in known]
    else:
        unknown = [of for of in wanted if of is not None and not (column.values == of).any()]
        known = np.unique(column.values[:10_000]).tolist() if unknown else []
    if unknown:
        shown = f"{known[:20]}{' …' if len(known) > 20 else ''}"
        warnings.warn(
            f"{unknown} never occurs in the column of event types, {name!r}."
            f"{nearest(str(unknown[0]), map(str, known))} "
            f"It has {shown}",
            CepWarning,
            stacklevel=5,
        )


def compile_checked(value: RegexQuery | SequenceQuery, source: Any) -> Bound:
    """Compile ``value`` for a source, with every check that needs no look at the rows; measures included."""
    check_columns(source, "partition_by", value.partition_by)
    check_columns(source, "order_by", value.order_by)
    _check_ambiguous_names(value, source)
    none = np.empty(0, np.int64)
    no_events = Events(0, {}, np.empty(0, np.int32), 0)
    if isinstance(value, SequenceQuery):
        check_ready(value)
        if value.event_type is not None:
            check_columns(source, "event_type", (value.event_type,))
        program = compile_sequence(value, source.schema)
        sequence_measures(program, no_events, EMPTY, source)
    else:
        program = compile_regex(value, source.schema)
        measure(value, MatchSet(no_events, none, none), source)
    _check_result_names(value)
    _warn_of_bare_durations(value, source)
    _warn_of_null_comparisons(value)
    if not program.pure:
        impure = [name for name, function in program.functions.items() if not function.pure]
        warnings.warn(
            f"{impure} is not declared pure, so the events are matched on one thread; "
            "declare it with @cep.pure if its result depends on its arguments alone",
            CepWarning,
            stacklevel=4,
        )
    return program


def _warn_of_bare_durations(value: RegexQuery | SequenceQuery, source: Any) -> None:
    """Warn of a window without a unit on a clock that has one: elsewhere the number means another time."""
    clock = source.schema.get(value.order_by[0]) if value.order_by else None
    if clock is None or clock.unit is None:
        return
    for name in ("within", "gap_within"):
        said = getattr(value, name, None)
        if said is not None and not isinstance(said, str | timedelta):
            warnings.warn(
                f"{name}={said} is read as {said} {clock.unit}, the unit of column {value.order_by[0]!r}; "
                f"write '{said} {clock.unit}', or the unit that is meant",
                CepWarning,
                stacklevel=5,
            )


def _warn_of_null_comparisons(value: RegexQuery | SequenceQuery) -> None:
    for role, tree in value.trees():
        for node in tree.walk():
            if isinstance(node, Comparison) and any(
                isinstance(side, Literal) and side.value is None for side in (node.left, node.right)
            ):
                kept = node.right if isinstance(node.left, Literal) else node.left
                wanted = f"{kept} is not null" if node.operator == "!=" else f"{kept} is null"
                warnings.warn(
                    f"{role}: '{node}' is never true, nothing equals or differs from NULL; write '{wanted}'",
                    CepWarning,
                    stacklevel=5,
                )


def _check_ambiguous_names(value: RegexQuery | SequenceQuery, source: Any) -> None:
    for role, expression in [*value.trees(), *(("measures", tree) for _, tree in _measures(value))]:
        names = {part.name for part in expression.walk() if isinstance(part, Attribute | Reference)}
        check_columns(source, role, tuple(sorted(names & source.duplicates)))


def _measures(value: RegexQuery | SequenceQuery) -> tuple[tuple[str, Any], ...]:
    if not isinstance(value, SequenceQuery):
        return measure_expressions(value)
    return default_measures(value) if value.measures is None else value.measures


def _check_result_names(value: RegexQuery | SequenceQuery) -> None:
    names = [*value.partition_by, *(name for name, _ in _measures(value))]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CepError(f"the result would have the columns {twice} twice; name the measures otherwise")


@dataclass(frozen=True)
class _Given:
    """What was said beside the query."""

    define: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    partition_by: str | list[str] | None = None
    order_by: str | list[str] | None = None
    within: Any = None
    within_closed: bool = True
    measures: Mapping[str, Any] | None = None
    event_type: str | None = None
    strategy: str | None = None
    scope: str = "run"
    strict_time: bool = False
    after_match: str | None = None
    evaluation_order: list[str] | None = None


def as_query(query: Query, given: _Given) -> RegexQuery | SequenceQuery:
    """Return the query as a value; what it says itself cannot be said again beside it."""
    if isinstance(query, SequencePattern | SequenceQuery | QueryBuilder) or (
        isinstance(query, str) and query.lstrip().upper().startswith("PATTERN")
    ):
        return _as_sequence(query, given)
    _check_is_query(query)
    _only_for_sequences(
        event_type=given.event_type, strategy=given.strategy, scope=given.scope != "run" and given.scope,
        strict_time=given.strict_time, after_match=given.after_match, evaluation_order=given.evaluation_order,
    )  # fmt: skip
    return _as_regex(query, given)


def _check_is_query(query: object) -> None:
    if not isinstance(query, str):
        if not isinstance(query, Pattern | RegexQuery):
            kind = type(query).__name__
            raise CepError(f"a query is text, a pattern or a query made before, got {kind}")
        return
    if not query.strip():
        raise CepError("the query is empty; write a regex, 'a b+', or a sequence, 'PATTERN SEQ(A a, B b)'")
    if re.match(r"\s*(?ai:SEQ|AND|OR)\s*\(", query):
        raise PatternSyntaxError("the text of a sequence query begins with PATTERN", query, 0)


def _as_sequence(query: Query, given: _Given) -> SequenceQuery:
    if given.define:
        raise CepError(
            "define belongs to regex patterns; the conditions of an event sequence stand in its WHERE"
        )
    said = {
        item.name: getattr(given, item.name)
        for item in fields(given)
        if item.name != "define" and getattr(given, item.name) != item.default
    }
    return sequence_query(query, **said)


def _as_regex(query: Query, given: _Given) -> RegexQuery:
    if isinstance(query, RegexQuery):
        said = [
            name
            for name in ("define", "partition_by", "order_by", "within", "measures")
            if getattr(given, name) and getattr(query, name)
        ]
        if said:
            raise CepError(f"{said} is given both in the query and as a keyword; give it once")
        if not any(
            (given.define, given.partition_by, given.order_by, given.within, given.measures, given.params)
        ):
            return query
        if given.params and not any(
            (given.define, given.partition_by, given.order_by, given.within, given.measures)
        ):
            return replace(query, params=tuple({**dict(query.params), **given.params}.items()))
        return regex_query(
            query.pattern,
            define=given.define or dict(query.define) or None,
            measures=given.measures or (dict(query.measures) if query.measures else None),
            partition_by=given.partition_by or query.partition_by or None,
            order_by=given.order_by or query.order_by or None,
            within=given.within or query.within,
            within_closed=given.within_closed and query.within_closed,
            params={**dict(query.params), **(given.params or {})} or None,
        )
    if not isinstance(query, str | Pattern):
        raise CepError(f"a query is text, a pattern or a query made before, got {type(query).__name__}")
    return regex_query(
        query,
        define=given.define,
        measures=given.measures,
        partition_by=given.partition_by,
        order_by=given.order_by,
        within=given.within,
        within_closed=given.within_closed,
        params=given.params,
    )


def _only_for_sequences(**keywords: Any) -> None:
    given = [name for name, value in keywords.items() if value]
    if given:
        raise UnsupportedQueryError(
            f"{given} belong to event sequences; a regex query matches contiguous rows with one meaning: "
            "earliest end, then earliest start, then anew"
        )


def _spark_frame(frame: Any) -> Any:
    """Return the module for Spark frames when ``frame`` is one, without importing pyspark to ask."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not isinstance(frame, sql.DataFrame):
        return None
    from cepkit import spark_matches

    return spark_matches


def _source(frame: Any) -> tuple[Any, Callable]:
    """Return the frame as a source of columns, and the way from the source's frames back to its kind."""
    if isinstance(frame, pd.DataFrame):
        return PandasSource(frame), _unchanged
    if isinstance(frame, pa.Table):
        return ArrowSource(frame), _unchanged
    if isinstance(frame, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([frame])), _unchanged
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.LazyFrame):
        raise CepError("a polars LazyFrame has no rows yet; call collect() first")
    if isinstance(frame, pd.Series):
        raise CepError("a pandas Series has no columns; call to_frame('value') first")
    if polars is not None and isinstance(frame, polars.Series):
        raise CepError("a polars Series has no columns; call to_frame() first")
    if hasattr(frame, "__arrow_c_stream__"):
        native = (
            polars.from_arrow if polars is not None and isinstance(frame, polars.DataFrame) else _unchanged
        )
        return ArrowSource(pa.table(frame)), native
    raise CepError(
        f"cannot search a {type(frame).__module__}.{type(frame).__name__}; "
        "a frame is a pandas, polars or Spark DataFrame or an Arrow table"
    )


def _unchanged(frame: Any) -> Any:
    return frame


class CepAccessor:
    """``df.cep``: patterns over the rows of a frame. It holds the frame and nothing else."""

    def __init__(self, frame: Any):
        self._frame = frame

    def match(self, query: Query, **keywords: Any) -> Matches:
        """Find the matches of a query; see `cepkit.match` for the keywords."""
        return match(self._frame, query, **keywords)

    def tag(self, query: Query, **keywords: Any) -> Any:
        """Return the frame with ``match`` and ``variable`` behind; see `cepkit.tag`."""
        return tag(self._frame, query, **keywords)

    def explain(self, query: Query, **keywords: Any) -> Explanation:
        """Say how a query is read and run; see `cepkit.explain`."""
        return explain(self._frame, query, **keywords)

    def funnel(self, query: Query, **keywords: Any) -> FunnelResult:
        """Count what reaches each step of an event sequence; see `cepkit.funnel`."""
        return funnel(self._frame, query, **keywords)

    def why_not(self, query: Query, *, rows: Any = None, **keywords: Any) -> WhyNot:
        """Say why expected events are no match of an event sequence; see `cepkit.why_not`."""
        return why_not(self._frame, query, rows=rows, **keywords)
