"""`stream`: opens a stream, which takes batches of events and returns matches when they are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from cepkit.doors import open_door
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.query_parts import Duration, is_match_recognize
from cepkit.limits import MemoryLimit
from cepkit.planning.planner import check_engine
from cepkit.planning.queries import (
    Arguments,
    Query,
    QueryKeywords,
    read_arguments,
    refuse_options,
    takes_query_keywords,
)
from cepkit.streaming.batches import kind_of_batch, schema_of
from cepkit.streaming.row_patterns import rows_of_stream
from cepkit.streaming.search import Options
from cepkit.streaming.stream import SHED_STREAM, JoinStream, Stream, join_stream
from cepkit.windows.running import Chain, as_value
from cepkit.windows.values import Join, Window


@takes_query_keywords
def stream(
    query: Query | Window | Join | Sequence[Any],
    schema: Any,
    *,
    rows: str = "one",
    threads: int = 1,
    pulse_every: int = 1000,
    idle_after: Duration | None = None,
    max_live: int | None = None,
    overflow: str = "error",
    memory_limit: MemoryLimit = "auto",
    engine: str = "auto",
    latency_bound: Duration | float | None = None,
    shedding: Any = None,
    warm_up: int | None = None,
    weights: Mapping[str, float] | None = None,
    time_slice: Duration | float | None = None,
    seed: int = 0,
    clock: Any = None,
    **keywords: Unpack[QueryKeywords],
) -> Stream | JoinStream:
    """Open a stream, which takes batches of events and returns the matches that end in them.

    `Stream.push` takes a batch. For any split into batches, the matches are the same as those that
    `cepkit.match` finds in all rows at once. ``cepkit.stream.load(path)`` opens a stream that `Stream.save`
    wrote.

    Parameters
    ----------
    query : str, pattern, query, Window, Join or list
        As for `cepkit.match`; or a `cepkit.Window` or a `cepkit.Join`. A list of them and of queries is a
        chain: each step reads the results of the step before. A
        `cepkit.KSlack` may come first, and sorts late rows.

        The text of SQL's MATCH_RECOGNIZE has its options in its clauses, and takes ``params`` only. A match
        comes out as soon as no later row can change it: ``A B`` with its last row, ``A B*`` with the first
        row that is no B, or that comes too late for WITHIN. NEXT waits for the rows that it reads. A WINDOW,
        ``$``, descending orders, and ORDER BY or LIMIT of the result are errors, because they need the end of
        the stream.
    schema : mapping of str to type, pyarrow.Schema, or a frame
        The columns of all batches: ``{"ts": "timestamp[us]", "symbol": "string", "price": "float64"}``.
        ``"int64 not null"`` declares integers that are never missing. A frame, which may be empty, gives only
        its types. A join needs two: ``{"left": …, "right": …}``. Regexes and sequences whose results are
        rows per match take only the columns that they read out of batches.
    **keywords
    rows : str
        ``"one"``: a result row per match. ``"all"``: the matched rows, after the columns ``match`` (its
        number in the stream) and ``variable``.
    threads : int
        Number of threads; each owns a part of the keys. `Stream.push` then returns the matches that are
        complete and in order so far, and `Stream.flush` waits for the rest. The matches and their order do
        not depend on the number of threads. Only for regex queries.
    pulse_every : int
        Number of events after which every thread reports its position. So a key without events delays no
        results.
    idle_after : str, timedelta or int, optional
        The longest pause of a key, by the first column of ``order_by``. After a longer pause the key is
        forgotten: its partial matches end, and its later events belong to a new key. In MATCH_RECOGNIZE its
        rows end as those of a partition do, so a match that waits for a longer one comes out. Not for
        windows and joins, whose rows leave with time. Without it, a key is forgotten when no later match
        needs its rows: after ``within``, or for MATCH_RECOGNIZE when no match is open, but not if ``prev``,
        MATCH_NUMBER or ``^`` may look at what came before.
    max_live : int, optional
        The largest number of live partial matches of a key; ``overflow`` says what a further one does. None
        for any number. MATCH_RECOGNIZE counts the rows of a key that may still begin a match, event
        sequences its events that later matches may contain, and windows of time and joins its rows that
        have not left.
    overflow : str
        ``"error"``: a batch after which a key has more than ``max_live`` partial matches is refused.
        ``"oldest"``: the oldest one of the key ends with the row that is too many. ``"shed"``: no row of the
        key begins a partial match while it has ``max_live``; not for MATCH_RECOGNIZE. Event sequences give
        up events: the stream ends the oldest of a key, or sheds those that its pattern names. Windows and
        joins only shed rows. ``stream.status().overflowed`` counts what was given up, and the results do not
        depend on the batches.
    memory_limit : int, str or None, optional
        The most memory that the matches of one push may take, as for `cepkit.match`; beyond it the push is
        refused, and has no effect. What a stream keeps between pushes is bounded by the window,
        ``idle_after`` and ``max_live``; ``overflow`` is the policy of ``max_live`` alone.
    engine : str
        Only ``"auto"``: a stream chooses its engine itself.
    latency_bound : str, timedelta or float, optional
        The longest time from the arrival of a match's last event until the match is found, as text or in
        seconds. When waiting events threaten it, the stream drops some; ``stream.shedding`` says how many.
        Without it, nothing is ever dropped. Only for event sequences.
    shedding : str or strategy, optional
        Chooses the events to drop, as for `cepkit.replay`. By default `cepkit.Cohesive`.
    warm_up : int, optional
        Number of events from which the strategy learns, 5,000 by default. None of them is dropped. The
        warm-up waits for the first event of every type, but at most four times as long.
    weights : mapping of str to float, optional
        Weights of event types; others have weight 1.
    time_slice : str, timedelta or float, optional
        How long `Stream.push` processes waiting events before it returns, a tenth of the bound by default.
        ``stream.pump()`` and ``stream.flush()`` process the rest.
    seed : int
        Seed of random decisions.
    clock : optional
        What measures time; by default the clock of the machine. Tests give
        ``cepkit.shedding.VirtualClock()``, which advances by the prices of work.

    Returns
    -------
    Stream or JoinStream
        The stream of a join has two inputs: ``push(left=rows)`` and ``push(right=rows)``.

    Raises
    ------
    CepError
        As `cepkit.match`; also for an unreadable schema, and for threads without keys.
    TypeError
        For unknown keywords, with the nearest name.
    UnsupportedQueryError
        For an argument that this kind of query does not accept. Also when the query orders texts of a column
        without ordered categories, because the order of texts is unknown while a stream is open.

    Notes
    -----
    Time per batch: O(events x live starts + rows kept). Memory: the state, the rows that live partial matches
    may need, the keys, and the texts that these and constants need, see `Stream.status`. A stream warns when
    it opens if it must keep every event, and at 100,000 keys if it forgets none.
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012.

    Examples
    --------
    >>> import cepkit as cep
    >>> peaks = cep.stream(". rise+ drop", {"price": "int64"},
    ...                    define={"rise": "price > prev(price)", "drop": "price < prev(price)"},
    ...                    measures={"low": "first(price)", "top": "max(price)", "rows": "count()"})
    >>> peaks.push([{"price": 10}, {"price": 12}])
    []
    >>> peaks.push([{"price": 13}, {"price": 11}, {"price": 14}])
    [{'low': 10, 'top': 13, 'rows': 4}]
    >>> peaks
    Stream of '. rise+ drop': 5 events, 1 match, 1 row kept
    """
    buffer: Any = None  # such as `cepkit.KSlack`, which the wings define
    if isinstance(query, list | tuple) and len(query) > 1 and hasattr(query[0], "open_before"):
        buffer, query = query[0], query[1] if len(query) == 2 else query[1:]
    options = Options(rows, threads, pulse_every, idle_after, max_live, memory_limit, overflow)
    arguments = read_arguments(stream, keywords)
    if isinstance(query, str) and is_match_recognize(query):
        value: Any = _as_rows(query, schema, arguments)
    else:
        value = as_value(query, arguments)
    check_engine(engine)
    bounded = {
        "latency_bound": latency_bound, "shedding": shedding, "warm_up": warm_up, "weights": weights,
        "time_slice": time_slice, "seed": seed or None, "clock": clock,
    }  # fmt: skip
    needing = [name for name, value_of in bounded.items() if value_of is not None]
    if needing and latency_bound is None:
        raise CepError(
            f"{needing[0]}={bounded[needing[0]]!r} needs a latency bound, as in latency_bound='1.5 s'. "
            "Without a bound nothing is ever dropped"
        )
    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: a stream chooses its engine itself, with the same matches. Leave engine "
            "out; cep.match runs a frame by any engine"
        )
    is_operator = isinstance(value, Window | Join | Chain | RowsQuery)
    if latency_bound is not None and is_operator:
        raise UnsupportedQueryError(
            f"latency_bound={latency_bound!r}: only event sequences drop events; a window, a join, a "
            "chain or MATCH_RECOGNIZE keeps all of them"
        )
    if isinstance(value, Join) or (isinstance(value, Chain) and isinstance(value.steps[0], Join)):
        opened = join_stream(value, schema, options)
    else:
        shed = [] if latency_bound is None else [bounded]
        open_stream: Any = open_door(SHED_STREAM) if shed else Stream
        opened = open_stream(value, schema_of(schema), options, kind_of_batch(schema), *shed)
    return opened if buffer is None else buffer.open_before(opened)


def _as_rows(text: str, schema: Any, given: Arguments) -> RowsQuery:
    """Return the text of MATCH_RECOGNIZE as a value."""
    refuse_options(given)
    return rows_of_stream(text, schema_of(schema).columns, given.params)


stream.__dict__["load"] = Stream.load
