"""Find matches, and mark their rows in the frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import pandas as pd

from cepkit.api.searching import check_spread, spark_module
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Frame
from cepkit.frames.united import takes_frames
from cepkit.language.query_parts import is_match_recognize
from cepkit.limits import MemoryLimit, memory_limit_of, refuse_limit_on_spark
from cepkit.planning.queries import QueryKeywords, read_arguments, refuse_options, takes_query_keywords

# The modules of one function load when it is called: the first `match` of a process must not wait for them.
if TYPE_CHECKING:
    from cepkit.language.query_parts import Duration
    from cepkit.planning.planner import EngineValue
    from cepkit.planning.queries import Query
    from cepkit.results.matches import Matches, SparkMatches
    from cepkit.streaming.spark_results import SparkStream

OnError = Literal["raise", "quarantine"]


@overload
def match(
    frame: pd.DataFrame, query: Query, *, engine: str | EngineValue = "auto", trace: bool = False,
    memory_limit: MemoryLimit = "auto", latency_bound: Duration | float | None = None, shedding: Any = None,
    warm_up: int | None = None, weights: Mapping[str, float] | None = None, seed: int = 0,
    spread_by: str | None = None, on_error: OnError = "raise", **keywords: Unpack[QueryKeywords],
) -> Matches: ...  # fmt: skip
@overload
def match(
    frame: Frame, query: Query, *, engine: str | EngineValue = "auto", trace: bool = False,
    memory_limit: MemoryLimit = "auto", latency_bound: Duration | float | None = None, shedding: Any = None,
    warm_up: int | None = None, weights: Mapping[str, float] | None = None, seed: int = 0,
    spread_by: str | None = None, on_error: OnError = "raise", **keywords: Unpack[QueryKeywords],
) -> Matches | SparkMatches | SparkStream: ...  # fmt: skip
@takes_frames
@takes_query_keywords
def match(
    frame: Frame, query: Query, *, engine: str | EngineValue = "auto", trace: bool = False,
    memory_limit: MemoryLimit = "auto", latency_bound: Duration | float | None = None, shedding: Any = None,
    warm_up: int | None = None, weights: Mapping[str, float] | None = None, seed: int = 0,
    spread_by: str | None = None, on_error: OnError = "raise", **keywords: Unpack[QueryKeywords],
) -> Matches | SparkMatches | SparkStream:  # fmt: skip
    """Find the matches of a query in a frame.

    Parameters
    ----------
    frame : DataFrame or table
        A pandas, polars or Spark DataFrame, an Arrow table, a DuckDB relation, or any object with the Arrow
        stream protocol; also frames by event type, see the notes.
    query : str, pattern or query
        Text that begins with ``PATTERN`` is an event sequence in SASE's language. `cepkit.seq`,
        `cepkit.all_of` and `cepkit.any_of` build event sequences, too. Other text is a regex over the names
        in ``define`` and over boolean columns; ``.`` is any event. Contiguous rows of a partition match a
        regex. The match that ends first is reported. If several end there, the one that starts first is
        reported. The search then continues after its last row. ``after_match`` and ``keep`` change this.

        The text of SQL's ``MATCH_RECOGNIZE ( … )``, alone or in a SELECT, runs with the rules of SQL. Its
        clauses have all options, so ``params`` and ``complete_until`` are the only keywords. `cepkit.sql`
        takes frames by name.

        On streaming Spark frames, a list of `cepkit.Window` values and queries is a chain: each step reads
        the results of the step before. The keywords belong to its queries.
    **keywords
    engine : str or engine
        ``"auto"`` takes the fastest engine, see `explain`; all engines find the same matches. The error for a
        wrong name lists all names. ``"linked"`` (LinkedCEP), ``"sase_runs"`` and ``"siddhi_like_runs"`` run
        only when you name them; ``matches.run`` then reports what they did. Parallel engines are values:
        `cepkit.Hybrid`, `cepkit.RIP`, `cepkit.DataParallel`, `cepkit.StateParallel`, `cepkit.Sequential`.
        `cepkit.ScatterGather` divides the work among nodes.
    trace : bool
        Whether a parallel engine records every step, in ``matches.run.trace``.
    memory_limit : str, int or None
        The most memory that the matches of a frame in memory may take while they are collected: a size such
        as ``"2 GB"``, a number of bytes, or None for no limit. ``"auto"`` is half of the memory that is free
        at the time of the call. The result keeps the limit, and refuses larger parts with the figure.
    latency_bound : str, timedelta or float, optional
        Only for event sequences in streaming Spark frames: the longest time from when a bucket of keys begins
        with the last row of a match, in a micro-batch, until it finds the match. When rows threaten it, the
        bucket drops some. ``matches.progress`` says how many. Without it, nothing is ever dropped. `replay`
        sheds load on finished frames, and `stream` on events that you push.
    shedding, warm_up, weights, seed
        As for `stream`, for each bucket. They need ``latency_bound``.
    spread_by : str, optional
        Only for event sequences in finite Spark frames: ``"time"`` lets the tasks share slices of time in
        place of the keys of ``partition_by``. Each slice has the events of all keys. The matches are the
        same. It is for clusters, where one task with most of the events would keep the others waiting. The
        query needs a window of time, and ``after_match="none"``. Spark reads the frame twice.
    on_error : str
        What happens with rows that cannot be searched: those without a value in ``order_by``, and those on
        which a registered function in a condition fails. ``"raise"`` is an error. ``"quarantine"`` leaves
        these rows out, as if the frame did not have them, and ``matches.quarantined()`` returns them with
        the reason. For that, each function whose arguments are values of one row is called once for every
        row, also where a condition beside it, such as ``kind = 'A' and …``, would have spared the call. It
        is for finite frames, and not for MATCH_RECOGNIZE.

    Returns
    -------
    Matches, SparkMatches or SparkStream
        Ordered by their last row. Sequence matches with the same last row are ordered by the row before it,
        and so on backwards. Inspect them with ``count()``, ``to_frame()``, ``sample(10)``, ``plot()`` and
        ``explore()``. A streaming Spark frame gives `SparkStream`, which ``writeStream`` writes. The matches
        of MATCH_RECOGNIZE are sorted by partition; see `Matches`. With a WINDOW clause it gives a row for
        each row of the frame, and on a streaming frame the rows to write; see `cepkit.sql`.

    Raises
    ------
    CepError
        A subclass, raised before any work starts: for text that cannot be read (with its place), unknown
        columns (with the nearest name), and types that do not fit.
    ResultTooLargeError
        When the matches that an engine must collect take more than ``memory_limit``.
    TypeError
        For unknown keywords, with the nearest name.

    Notes
    -----
    Time O(rows x live starts), on as many threads as make it faster. Memory O(rows) for the events and the
    state; matches beyond a million are not kept but built again where they are read. Ctrl-C ends a run within
    about 0.1 s.
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> found = cep.match(
    ...     walk, ". rise+ drop", define={"rise": "price > prev(price)", "drop": "price < prev(price)"},
    ...     after_match="to_last", measures={"low": "first(price)", "top": "max(price)", "rows": "count()"})
    >>> found.to_frame()
       low  top  rows
    0   10   13     4
    1   11   14     3
    """
    bounded = _bounded(
        frame, latency_bound=latency_bound, shedding=shedding, warm_up=warm_up, weights=weights,
        seed=None if type(seed) is int and seed == 0 else seed,
    )  # fmt: skip
    memory_limit_of(memory_limit)  # raises for a value that is no limit
    check_spread(frame, spread_by)
    if isinstance(query, str) and is_match_recognize(query):
        return _match_rows(frame, query, engine, trace, keywords, memory_limit, spread_by, on_error)
    if isinstance(query, list | tuple) and (spark_module(frame) and frame.isStreaming):
        refuse_limit_on_spark(memory_limit)
        return _match_chain(frame, query, engine, bounded, keywords)
    from cepkit.api.searching import search_frame

    options = engine, trace, bounded, memory_limit, keywords, spread_by, on_error
    return search_frame(match, frame, query, *options)


def _match_chain(
    frame: Frame, steps: Sequence[Any], engine: str | EngineValue, bounded: Mapping[str, Any] | None,
    keywords: Mapping[str, Any],
) -> SparkStream:  # fmt: skip
    """Return the results of a chain of windows and queries in a streaming Spark frame."""
    from cepkit.pipelines.spark_session import worker_python
    from cepkit.streaming.spark_binding import chain_stream
    from cepkit.windows.running import as_value

    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: a stream chooses its engine itself, with the same matches. Leave engine out"
        )
    if bounded is not None:
        raise UnsupportedQueryError("latency_bound: a chain drops no rows; leave one of the two out")
    rows = chain_stream((frame,), as_value(steps, read_arguments(match, keywords)))
    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    return rows


def _match_rows(
    frame: Frame, query: str, engine: str | EngineValue, trace: bool, keywords: Mapping[str, Any],
    memory_limit: MemoryLimit, spread_by: str | None, on_error: str,
) -> Any:  # fmt: skip
    """Return the result of the text of MATCH_RECOGNIZE, whose clauses say all but the parameters."""
    from cepkit.api.sql import match_rows
    from cepkit.language.match_recognize.parsing import parse_match_recognize

    arguments = read_arguments(match, keywords)
    others = {"engine": engine != "auto", "trace": trace, "spread_by": spread_by is not None}
    others["on_error"] = on_error != "raise"
    refuse_options(arguments, *(name for name in others if others[name]), takes=("params", "complete_until"))
    value = parse_match_recognize(query)
    if spark_module(frame) is not None:
        refuse_limit_on_spark(memory_limit)
        if frame.isStreaming:
            from cepkit.streaming.spark_binding import row_patterns_of_stream

            return row_patterns_of_stream(frame, query, arguments.params, arguments.complete_until)
    return match_rows(frame, value, arguments.params, memory_limit, arguments.complete_until)


@overload
def tag(
    frame: pd.DataFrame, query: Query, *, engine: str | EngineValue = "auto", trace: bool = False,
    overlap: str = "error", **keywords: Unpack[QueryKeywords],
) -> pd.DataFrame: ...  # fmt: skip
@overload
def tag(
    frame: Frame, query: Query, *, engine: str | EngineValue = "auto", trace: bool = False,
    overlap: str = "error", **keywords: Unpack[QueryKeywords],
) -> Frame: ...  # fmt: skip
@takes_frames
@takes_query_keywords
def tag(
    frame: Frame, query: Query, *, engine: str | EngineValue = "auto", trace: bool = False,
    overlap: str = "error", **keywords: Unpack[QueryKeywords],
) -> Frame:  # fmt: skip
    """Return the input frame with two extra columns, ``match`` and ``variable``.

    Parameters
    ----------
    frame, query, engine, trace
        As for `match`.
    **keywords
    overlap : str
        What a row in several matches has: ``"first"``, the number of the first match with it, so that
        ``match.notna()`` says whether a row is in any match; or ``"error"``, the default.

    Returns
    -------
    DataFrame or table
        The rows and the index of the frame. ``match`` is the number of the match that a row belongs to;
        ``variable`` is the name that the row stands for. Both are null for rows without a match.

    Raises
    ------
    CepError
        As `match`, and when a row belongs to several matches, unless ``overlap="first"``.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
    >>> tagged = cep.tag(walk, "up+ down", define={"up": "price > 11", "down": "price <= 11"})
    >>> tagged["variable"].tolist()
    [<NA>, 'up', 'up', 'down']

    Rows up to three minutes before a failure, with overlapping matches:

    >>> log = pd.DataFrame({"minute": range(6), "fail": [0, 0, 0, 1, 0, 1]})
    >>> query = "PATTERN SEQ(_ x, _ f IF (fail = 1)) WITHIN 2"
    >>> cep.tag(log, query, order_by="minute", overlap="first")["match"].notna().tolist()
    [False, True, True, True, True, True]
    """
    from cepkit.results.found import check_overlap

    read_arguments(tag, keywords)
    check_overlap(overlap)
    matches = match(frame, query, engine=engine, trace=trace, **keywords)
    if isinstance(query, str) and is_match_recognize(query):
        from cepkit.language.match_recognize.query import refuse_windows

        rows: Any = matches.query  # such a text makes no other query
        refuse_windows(rows, "tag")
    return matches.tag(overlap)


def _bounded(frame: Frame, **given: Any) -> dict[str, Any] | None:
    """Return the keywords of load shedding, None without a latency bound; raise for other frames."""
    if not (names := [name for name, value in given.items() if value is not None]):
        return None
    if spark_module(frame) is None or not frame.isStreaming:
        raise UnsupportedQueryError(
            f"{names[0]}: match drops no event of a finished frame, only of a streaming Spark frame. "
            "cep.replay(frame, query, latency_bound='1.5 s') sheds load on it, and cep.stream(query, schema, "
            "latency_bound='1.5 s') on events that you push"
        )
    if given["latency_bound"] is None:
        raise CepError(
            f"{names[0]}={given[names[0]]!r} needs a latency bound, as in latency_bound='1.5 s'. Without a "
            "bound nothing is ever dropped"
        )
    return given
