"""`stream`: opens a stream, which takes batch after batch and hands out each match when it is complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepkit.errors import UnsupportedQueryError
from cepkit.planning.arguments import Arguments
from cepkit.planning.planner import check_engine
from cepkit.planning.queries import Query, as_query
from cepkit.streaming.batches import kind_of_batch, schema_of
from cepkit.streaming.search import Options
from cepkit.streaming.stream import Stream


def stream(
    query: Query,
    schema: Any,
    *,
    define: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    partition_by: str | list[str] | None = None,
    order_by: str | list[str] | None = None,
    within: Any = None,
    within_closed: bool = True,
    measures: Mapping[str, Any] | None = None,
    event_type: str | None = None,
    strategy: str | None = None,
    scope: str = "run",
    strict_time: bool = False,
    after_match: str | None = None,
    rows: str = "one",
    threads: int = 1,
    pulse_every: int = 1000,
    idle_after: Any = None,
    max_live: int | None = None,
    engine: str = "auto",
) -> Stream:
    """Open a stream: `Stream.push` takes batches of events and returns the matches that end.

    However a stream is cut into batches, the matches are those that `cepkit.match` finds in all rows at once.
    ``cepkit.stream.load(path)`` opens a stream that `Stream.save` saved.

    Parameters
    ----------
    query, define, params, partition_by, order_by, within, within_closed, measures
        As for `cepkit.match`.
    event_type, strategy, scope, strict_time, after_match
        As for `cepkit.match`, of event sequences.
    schema : mapping of str to type, pyarrow.Schema, or a frame
        The columns of all batches: ``{"ts": "timestamp[us]", "symbol": "string", "price": "float64"}``,
        ``"int64 not null"`` for integers that are never missing, or a frame (an empty one will do) of which
        the types count.
    rows : str
        ``"one"``: a result row per match; ``"all"``: the matched rows, with ``match`` (its number in the
        stream) and ``variable`` in front.
    threads : int
        Each owns a part of the keys. `Stream.push` then returns what is complete and in order by now, and the
        rest comes later; `Stream.flush` waits for it. The matches and their order do not depend on it.
    pulse_every : int
        With threads: after at least so many events every thread says how far it is, so that keys without
        events hold nothing back.
    idle_after : str, timedelta or int, optional
        A key whose events pause for longer than this, by the first column of ``order_by``, is forgotten: its
        partial matches end, and later events of it begin anew.
    max_live : int, optional
        Most live partial matches of one key that a batch may leave behind; more are an error. Default: no
        limit.
    engine : str
        ``"auto"``: a stream chooses its engine itself.

    Returns
    -------
    Stream

    Raises
    ------
    CepError
        As `cepkit.match`; for a schema that cannot be read; for threads without keys.
    UnsupportedQueryError
        When the query orders texts of a column without ordered categories: a stream's texts come one by one,
        and their order cannot be kept in codes.

    Notes
    -----
    Time per batch: O(events x live starts + rows kept). Memory: the state, the rows that live partial matches
    may need (`Stream.retained`), the keys, and the texts of the columns that predicates look at.
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
    options = Options(rows, threads, pulse_every, idle_after, max_live)
    given = Arguments(
        define, params, partition_by, order_by, within, within_closed, measures,
        event_type, strategy, scope, strict_time, after_match,
    )  # fmt: skip
    value = as_query(query, given)
    check_engine(engine)
    if engine != "auto":
        raise UnsupportedQueryError(
            f"engine={engine!r}: a stream chooses its engine itself, and the matches are the same. Leave it "
            "out; cep.match runs a frame by any engine"
        )
    return Stream(value, schema_of(schema), options, kind_of_batch(schema))


stream.load = Stream.load
