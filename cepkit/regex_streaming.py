"""An open stream of a regex query: batches go in, the matches that end come out."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked, measure, measure_expressions
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, whole_number
from cepkit.events import DURATION, FLOAT, INTEGER, LIST, TIME, Column, Events
from cepkit.frames.arrival import ordered_batch
from cepkit.frames.arrow import ArrowSource, column_of_arrow
from cepkit.frames.batches import Kind, StreamSchema, kind_of_batch, table_of_batch
from cepkit.frames.coding import BatchCoder, keys_of_batch
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.trees import Attribute
from cepkit.language.regex.query import RegexQuery
from cepkit.parallel.replicas import Found, Matcher, Replica, ReplicaThreads, Share, gather
from cepkit.planning.validation import compile_checked
from cepkit.state import save_file
from cepkit.stream_files import saved_stream
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
        whole_number("threads", self.threads, 1)
        whole_number("pulse_every", self.pulse_every, 1)
        if self.max_live is not None:
            whole_number("max_live", self.max_live, 1)


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
