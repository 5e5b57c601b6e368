"""Open streams: a query that stays, takes batch after batch, and hands out each match when it is complete."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.api import Query, _Given, as_query, compile_checked
from cepkit.engines.measures import Picked, measure, measure_expressions
from cepkit.errors import CepError, CepWarning, UnsupportedQueryError
from cepkit.events import DURATION, FLOAT, INTEGER, LIST, TIME, Column, Events
from cepkit.frames.arrival import ordered_batch
from cepkit.frames.arrow import ArrowSource, column_of_arrow
from cepkit.frames.batches import Kind, StreamSchema, kind_of_batch, schema_of, table_of_batch
from cepkit.frames.coding import BatchCoder, keys_of_batch
from cepkit.language.durations import duration_ticks
from cepkit.language.expressions import Attribute
from cepkit.language.query import RegexQuery
from cepkit.language.sequence_query import SequenceQuery
from cepkit.matchset import MatchSet
from cepkit.parallel.replicas import Found, Matcher, Replica, ReplicaThreads, Share, gather
from cepkit.planner import check_engine
from cepkit.sequence_streaming import SequenceStream
from cepkit.state import Saved, load_file, query_of_json, save_file, sequence_of_json
from cepkit.stream_files import restore_stream, saved_schema, saved_stream
from cepkit.streams.codes import KeyCodes

_EVENTS_PER_SHARE = 1 << 16  # with threads a batch is handed out in pieces of at least so many events


@dataclass(frozen=True)
class Options:
    """What was said about a stream beside its query and schema."""

    rows: str = "one"
    threads: int = 1
    pulse_every: int = 1000
    idle_after: Any = None
    max_live: int | None = None

    def __post_init__(self):
        if self.rows not in ("one", "all"):
            raise CepError(f"rows={self.rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        for name in ("threads", "pulse_every", "max_live"):
            value = getattr(self, name)
            is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if (value is not None or name != "max_live") and (not is_number or value < 1):
                raise CepError(f"{name}={value!r}: expected a whole number from 1 on")


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
) -> Stream | SequenceStream:
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
    given = _Given(
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
    if isinstance(value, SequenceQuery):
        _only_for_regex(options)
        return SequenceStream(value, schema_of(schema), rows, kind_of_batch(schema))
    return Stream(value, schema_of(schema), options, kind_of_batch(schema))


def _only_for_regex(options: Options) -> None:
    given = {"threads": options.threads > 1, "idle_after": options.idle_after, "max_live": options.max_live}
    if said := [name for name, value in given.items() if value]:
        raise UnsupportedQueryError(
            f"{said} belong to streams of regex patterns; the window bounds a stream of event sequences"
        )


class Stream:
    """An open stream; made by `cepkit.stream`. One thread at a time may use it."""

    def __init__(self, query: RegexQuery, schema: StreamSchema, options: Options, kind: Kind):
        bound = schema.without_nulls(query.order_by)  # events without their place in time are refused before
        program = compile_checked(query, bound.source())
        self.query, self.schema = query, schema
        self.options = options = _checked(options, program, schema)
        self._kind = kind
        self._coder = BatchCoder(replace(program, schema=bound.columns))
        columns = self._coder.columns(bound.source())
        matcher = Matcher(
            self._coder.program,
            self._coder.inputs(columns),
            options.rows,
            _result_columns(query, schema, options.rows),
            options.max_live,
        )
        none = np.empty(0, np.int64)
        nothing = MatchSet(Events(0, columns, none.astype(np.int32), 0), none, none)
        self._empty = matcher.results(matcher.nothing_kept(), nothing, columns).table
        self._column_of_result = {name: name for name in schema.arrow.names}
        if options.rows == "one":
            measured = measure(query, nothing, bound.source())
            self._column_of_result = {n: m.column for n, m in measured.items() if isinstance(m, Picked)}
        self._keys = KeyCodes(_idle_ticks(program, options.idle_after))
        self._replicas = [
            Replica(matcher, _key_text(query, self._keys, r, options.threads)) for r in range(options.threads)
        ]
        self._threads: ReplicaThreads | None = None
        self._newest: pa.Table | None = None  # the order columns of the newest event
        self._ready: list[tuple[Found, int]] = []
        self._closed = False
        self._n_events = self._n_matches = self._n_evicted = 0

    # --- events in, matches out -----------------------------------------------------------------------------

    def push(self, batch: Any) -> Any:
        """Take the next events and return the matches that are complete.

        Nothing of a batch has an effect when it is refused; only an error within a thread ends the stream.

        Parameters
        ----------
        batch : DataFrame, table or list of dict
            pandas, polars, Arrow table or record batch, with at least the schema's columns. Its rows may
            stand in any order, but none may come before the newest event of earlier batches; ties keep the
            order in which they come.

        Returns
        -------
        DataFrame, table or list of dict
            As the batch; the columns of `Matches.to_frame`, in the order of the matches' last events.

        Raises
        ------
        ColumnNotFoundError, CepError
            When a column is missing or its values do not fit, or a key has more than ``max_live`` partial
            matches.
        OrderError
            When rows come before the newest event so far (with their number) or have no value to be ordered
            by.
        """
        self._check_open()
        table = table_of_batch(batch, self.schema)
        kind = kind_of_batch(batch)
        if table.num_rows == 0:
            self._kind = kind
            return self._results(*self._released())
        table, newest, clock = self._in_order(table)
        source = ArrowSource(table)
        columns = self._coder.columns(source)
        own, keys = keys_of_batch(source, self.query.partition_by)
        assignment = self._keys.assign(own, keys, clock)
        try:
            found = self._work(assignment.codes, columns, table)
        except BaseException:
            self._keys.discard(assignment)
            raise
        self._n_events += table.num_rows
        self._newest, self._kind = newest, kind
        ended = self._keys.commit(assignment)
        if clock is not None:
            ended += self._keys.end_idle(clock[-1].item())
        self._forget(np.array(ended, np.int64))
        return self._results(*found)

    def _in_order(self, table: pa.Table) -> tuple[pa.Table, pa.Table | None, np.ndarray | None]:
        """Return the batch in stream order, the order columns of its newest row, and its clock if needed."""
        by = self.query.order_by
        if not by:
            return table, None, None
        table, keys = ordered_batch(table, self._newest, by, self.schema)
        clock = None
        if self._keys.idle_ticks is not None:
            clock = column_of_arrow(keys.column(by[0]), by[0]).values
        return table, keys.slice(len(keys) - 1), clock

    def _work(
        self, codes: np.ndarray, columns: dict[str, Column], table: pa.Table
    ) -> tuple[pa.Table, np.ndarray]:
        """Advance the replicas over a batch in stream order; returns as `_released`."""
        position = np.arange(self._n_events, self._n_events + len(codes))
        rows = table.select(self._replicas[0].kept.table.schema.names)
        inputs = self._coder.inputs(columns)
        whole = Share(codes, position, columns, inputs, rows, self._keys.n_codes)
        if self.options.threads == 1:
            found = self._replicas[0].work(whole)
            return (found.table, np.diff(found.first_row)) if found else self._released()
        if self._threads is None:
            self._threads = ReplicaThreads(self._replicas, self.options.pulse_every)
        step = max(_EVENTS_PER_SHARE, self.options.pulse_every)
        for begin in range(0, len(codes), step):
            self._threads.give(whole.take(slice(begin, begin + step)))
        return self._released()

    def _forget(self, codes: np.ndarray) -> None:
        self._n_evicted += len(codes)
        n = self.options.threads
        for r in np.unique(codes % n):
            own = codes[codes % n == r] // n
            if self._threads is None:
                self._replicas[r].forget(own)
            else:
                self._threads.forget(r, own)

    def _in_turn(self) -> list[tuple[Found, int]]:
        """Return the matches whose turn it is: in which `Found`, and which match of it."""
        ready, self._ready = self._ready, []
        return ready if self._threads is None else ready + self._threads.released()

    def _released(self) -> tuple[pa.Table, np.ndarray]:
        """Return the results of the matches whose turn it is, and the number of rows of each."""
        return gather(self._in_turn(), self._empty)

    def _results(self, table: pa.Table, n_rows: np.ndarray) -> Any:
        if self.options.rows == "all":
            match = np.repeat(np.arange(self._n_matches, self._n_matches + len(n_rows)), n_rows)
            table = table.add_column(0, "match", pa.array(match))
        self._n_matches += len(n_rows)
        return self._kind.native(table, self._column_of_result)

    def flush(self) -> Any:
        """Wait for the threads and return the matches that are left; none without threads."""
        self._check_open()
        self._settle()
        return self._results(*self._released())

    def _settle(self) -> None:
        if self._threads is not None:
            self._threads.settle(self._n_events)

    def close(self) -> Any:
        """Return the matches that are left, as `flush`, and take no more events; partial matches end."""
        try:
            return self.flush()
        finally:
            self._closed = True
            if self._threads is not None:
                self._threads.close()

    def _check_open(self) -> None:
        if self._closed:
            raise CepError("the stream is closed; open another one with cep.stream")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, error: type | None, *_: object) -> None:
        self._closed = True
        if self._threads is not None:
            self._threads.close()

    # --- a look ---------------------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        """Number of events taken."""
        return self._n_events

    @property
    def matches(self) -> int:
        """Number of matches handed out."""
        return self._n_matches

    @property
    def keys(self) -> int:
        """Number of partition keys known."""
        return len(self._keys)

    @property
    def evicted(self) -> int:
        """Number of keys forgotten because they paused for longer than ``idle_after``."""
        return self._n_evicted

    @property
    def ended(self) -> int:
        """Number of partial matches that ended because their key was forgotten."""
        return sum(replica.n_ended for replica in self._replicas)

    @property
    def retained(self) -> int:
        """Number of rows kept for partial matches: at most twice those needed, and a quarter of the keys."""
        return sum(len(replica.kept) for replica in self._replicas)

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of results: the schema of a stream that takes them as its events."""
        schema = self._empty.schema
        return schema.insert(0, pa.field("match", pa.int64())) if self.options.rows == "all" else schema

    def __repr__(self) -> str:
        def counted(n: int, one: str, more: str) -> str:
            return f"{n:,} {one if n == 1 else more}"

        parts = [counted(self.events, "event", "events"), counted(self.matches, "match", "matches")]
        if self.query.partition_by:
            parts.insert(1, counted(self.keys, "key", "keys"))
        if self.options.idle_after is not None:
            ended = counted(self.ended, "partial match", "partial matches")
            parts.append(f"{counted(self.evicted, 'idle key', 'idle keys')} forgotten with {ended}")
        parts.append(counted(self.retained, "row kept", "rows kept"))
        state = "Closed stream" if self._closed else "Stream"
        return f"{state} of {str(self.query.pattern)!r}: {', '.join(parts)}"

    # --- saving ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the stream into one file, from which `cepkit.stream.load` goes on as if nothing had happened.

        The file is written whole or not at all. It holds data and the query's text, no code: user functions
        are in it by name, and must be registered where it is loaded.

        Raises
        ------
        CepError
            When a parameter's value cannot be written as text, or rows to be labelled hold Python objects.
        """
        self._check_open()
        self._settle()
        self._ready = self._in_turn()
        save_file(path, saved_stream(self))


def load_stream(path: str | os.PathLike) -> Stream | SequenceStream:
    """Open a stream that `Stream.save` saved; also ``cepkit.stream.load``.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    CepError
        When it is damaged, or was written by a version of cepkit with another layout of state.
    PredicateError
        When the query calls functions that are not registered; names them.
    """
    saved = load_file(path, "stream")
    if "sequence" in saved.header:
        return _load_sequence_stream(saved)
    query, schema, kind = (
        query_of_json(saved.header["query"]),
        saved_schema(saved),
        Kind(saved.header["frame"]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # they were given when the stream was opened
        own = Stream(query, schema, Options(**saved.header["options"]), kind)
    restore_stream(own, saved)
    return own


def _load_sequence_stream(saved: Saved) -> SequenceStream:
    query, kind = sequence_of_json(saved.header["sequence"]), Kind(saved.header["frame"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # they were given when the stream was opened
        own = SequenceStream(query, saved_schema(saved), saved.header["rows"], kind)
    own.restore(saved)
    return own


stream.load = load_stream


# --- what belongs to a stream -----------------------------------------------------------------------------


def _checked(options: Options, program: Any, schema: StreamSchema) -> Options:
    query = program.query
    for name in query.partition_by:
        if schema.columns[name].kind == LIST:
            raise CepError(f"partition_by: column {name!r} holds lists, which cannot be keys")
    if taken := [n for n in ("match", "variable") if options.rows == "all" and n in schema.columns]:
        raise CepError(f"rows='all' adds the columns 'match' and 'variable'; the schema has {taken}, rename")
    if options.threads > 1 and not query.partition_by:
        raise CepError(
            f"threads={options.threads} needs partition_by: each thread owns a part of the keys, and here is "
            "one partition"
        )
    # Without purity the order of calls matters; compile_checked has warned.
    return options if program.pure else replace(options, threads=1)


def _result_columns(query: RegexQuery, schema: StreamSchema, rows: str) -> pa.Schema:
    """Return the columns that results read; one at least, for a table without columns has no rows."""
    if rows == "all":
        return schema.arrow
    trees = [tree for _, tree in measure_expressions(query)]
    used = {node.name for tree in trees for node in tree.walk() if isinstance(node, Attribute)}
    used.update(query.partition_by)
    return pa.schema([f for f in schema.arrow if f.name in used] or [schema.arrow.field(0)])


def _idle_ticks(program: Any, idle_after: Any) -> float | None:
    """Return ``idle_after`` in ticks of the clock."""
    if idle_after is None:
        return None
    by = program.query.order_by
    of = program.schema[by[0]] if by else None
    if of is None or of.kind not in (INTEGER, FLOAT, TIME, DURATION):
        raise CepError("idle_after needs a clock: give order_by, a column of times or numbers")
    if of.unit is None and isinstance(idle_after, int | float):
        ticks = idle_after
    else:
        ticks = duration_ticks(idle_after, of.unit)
    if not ticks > 0:
        raise CepError(f"idle_after={idle_after!r}: expected a positive duration")
    return ticks


def _key_text(query: RegexQuery, keys: KeyCodes, replica: int, n_replicas: int) -> Any:
    """Return the function that names a replica's partition."""

    def text(number: int) -> str:
        key = keys.key_of_code[number * n_replicas + replica]
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(query.partition_by, key, strict=True))
        return f"the partition {shown}" if shown else "the stream"

    return text
