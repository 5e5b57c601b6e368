"""What users call: match, tag and explain on any frame; the accessor ``df.cep`` has the same as methods."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.program import Program, compile_regex
from cepkit.engines.measures import measure, measure_expressions
from cepkit.engines.regex import Run, match_regex
from cepkit.errors import CepError, CepWarning, UnsupportedQueryError
from cepkit.events import Events
from cepkit.explanation import Explanation
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events, check_columns
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions import Attribute
from cepkit.language.patterns import Pattern
from cepkit.language.query import RegexQuery, regex_query
from cepkit.matches import Matches
from cepkit.matchset import MatchSet
from cepkit.planner import Engine, choose_engine
from cepkit.progress import Progress

Query = str | Pattern | RegexQuery


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
    measures: Mapping[str, Any] | None = None,
    engine: str = "auto",
    trace: bool = False,
) -> Matches:
    """Find the matches of a query in a frame.

    Parameters
    ----------
    frame : DataFrame or table
        pandas or Spark DataFrame, Arrow table, polars frame, or anything that speaks the Arrow stream
        protocol.
    query : str, Pattern or RegexQuery
        A regex over the names in ``define`` and over boolean columns; ``.`` is any event. Contiguous rows of
        a partition match; a match is reported at its earliest end, with its earliest start, and matching
        starts anew behind it.
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
        Result columns; aggregates in them range over all rows of the match. Default: first and last of every
        order column, and the count.
    engine : str
        ``"auto"``, or a name of ``cepkit.planner.ENGINES``.
    event_type, strategy, scope, strict_time, after_match, trace
        For event sequences, which this version does not run; a regex query refuses them.

    Returns
    -------
    Matches
        In the order of their last row.

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
    _only_for_sequences(
        event_type=event_type, strategy=strategy, scope=scope != "run" and scope, strict_time=strict_time,
        after_match=after_match, trace=trace,
    )  # fmt: skip
    given = _Given(define, params, partition_by, order_by, within, within_closed, measures)
    value = as_query(query, given)
    chosen = choose_engine(value, engine)
    if spark := _spark_frame(frame):
        return spark.match(frame, value, chosen)
    source, native = _source(frame)
    return match_source(value, source, native, chosen)


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


def explain(frame: Any, query: Query, *, engine: str = "auto", **keywords: Any) -> Explanation:
    """Say how a query is read and how it will run, without running it.

    Parameters
    ----------
    frame, query, engine, **keywords
        As for `match`.

    Returns
    -------
    Explanation
        Prints as text; in a notebook with the automaton drawn.
    """
    value = as_query(query, _Given(**keywords))
    chosen = choose_engine(value, engine)
    source = spark.EmptySource(frame) if (spark := _spark_frame(frame)) else _source(frame)[0]
    return Explanation(compile_checked(value, source), chosen)


def match_source(value: RegexQuery, source: Any, native: Callable, engine: Engine) -> Matches:
    """Run ``value`` on a source of columns; see `match`."""
    program = compile_checked(value, source)
    events = build_events(source, program)
    run = Run()
    with Progress(events.n_events) as progress:
        matchset = match_regex(program, events, progress=progress, run=run)
    return Matches(program, source, matchset, run, native)


def compile_checked(value: RegexQuery, source: Any) -> Program:
    """Compile ``value`` for a source, with every check that needs no look at the rows; measures included."""
    check_columns(source, "partition_by", value.partition_by)
    check_columns(source, "order_by", value.order_by)
    _check_ambiguous_names(value, source)
    program = compile_regex(value, source.schema)
    none = np.empty(0, np.int64)
    nothing = MatchSet(Events(0, {}, np.empty(0, np.int32), 0), none, none)
    measure(value, nothing, source)
    _check_result_names(value)
    if not program.pure:
        impure = [name for name, function in program.functions.items() if not function.pure]
        warnings.warn(
            f"{impure} is not declared pure, so the events are matched on one thread; "
            "declare it with @cep.pure if its result depends on its arguments alone",
            CepWarning,
            stacklevel=4,
        )
    return program


def _check_ambiguous_names(value: RegexQuery, source: Any) -> None:
    expressions = [(f"predicate {name!r}", expression) for name, expression in value.define]
    expressions += [(f"measure {name!r}", expression) for name, expression in measure_expressions(value)]
    for role, expression in expressions:
        names = {part.name for part in expression.walk() if isinstance(part, Attribute)}
        check_columns(source, role, tuple(sorted(names & source.duplicates)))


def _check_result_names(value: RegexQuery) -> None:
    names = [*value.partition_by, *(name for name, _ in measure_expressions(value))]
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


def as_query(query: Query, given: _Given) -> RegexQuery:
    """Return the query as a value; what it says itself cannot be said again beside it."""
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
    if isinstance(query, str) and query.lstrip().upper().startswith("PATTERN"):
        raise UnsupportedQueryError(
            "text that begins with PATTERN is an event sequence, which this version cannot run yet; "
            "a regex over predicates is written as '. rise+ drop' with define={…}"
        )
    if not isinstance(query, str | Pattern):
        raise CepError(f"a query is text, a pattern or a RegexQuery, got {type(query).__name__}")
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
