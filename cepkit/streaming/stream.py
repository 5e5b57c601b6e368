"""`Stream`: an open stream, which takes batches of events and returns complete matches; `JoinStream`."""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.shared.operations import end_in_ticks
from cepkit.doors import open_door
from cepkit.errors import CepError, CepWarning, nearest, short_text, warn
from cepkit.language.expressions.durations import counted
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.streaming.batches import (
    Kind,
    StreamSchema,
    count_late,
    kind_of_batch,
    ordered_batch,
    read_batch,
    schema_of,
    table_of_batch,
)
from cepkit.streaming.chains import ChainSearch, joined, open_search, read_schema
from cepkit.streaming.saved import (
    Saved,
    duration_as_json,
    kind_of_file,
    load_file,
    query_as_json,
    query_of_json,
    said_as_damage,
    save_file,
)
from cepkit.streaming.search import Following, Options, PlainRow, Ready, RowValues, Search, StreamStatus
from cepkit.streaming.windows import JoinSearch
from cepkit.windows.running import Chain, said
from cepkit.windows.values import SIDES, Join, Window

if TYPE_CHECKING:
    from cepkit.widgets.panels import StreamBoard

StreamQuery = RegexQuery | SequenceQuery | Window | Chain | RowsQuery
MANY_KEYS = 100_000  # remembered for ever, from which on a stream warns
SHED = "shedding"  # of the header of a file: the settings of a stream with a latency bound
_JOIN = "stream of a join"  # the kind of its file
AFTER_BUFFER = "stream after a buffer"  # the kind of its file
SAVED_AFTER_BUFFER = "saved stream after a buffer"
SHED_STREAM, SAVED_SHED_STREAM = "stream with a latency bound", "saved stream with a latency bound"


class Stream:
    """An open stream of a query; call `cepkit.stream` to open one. Only one thread at a time may use it.

    Examples
    --------
    >>> import cepkit as cep
    >>> with cep.stream("PATTERN SEQ(a x, b y) WITHIN 3 events", {"kind": "string"},
    ...                 event_type="kind", measures={"n": "count(x)"}) as pairs:
    ...     pairs.push([{"kind": "a"}]), pairs.push([{"kind": "b"}])
    ([], [{'n': 1}])
    """

    _following: Following | None = None  # what tells the newest board

    def __init__(self, query: StreamQuery, schema: StreamSchema, options: Options, kind: Kind):
        self._empties: dict[tuple, Any] = {}
        if taken := [n for n in ("match", "variable") if options.rows == "all" and n in schema.columns]:
            raise CepError(
                f"rows='all' adds the columns 'match' and 'variable'; rename {taken} of the schema"
            )
        self.query, self.schema, self.options, self._kind = query, schema, options, kind
        self._read = read_schema(query, schema, options)  # a batch has at least these columns
        self._search = self._open_search()
        self._reader = RowValues(self._read, schema.arrow.names, getattr(query, "order_by", ()))
        self._newest = self._first = None
        self._n_events = self._n_matches = 0
        self._closed = False
        self._warns_of_keys = not isinstance(query, SequenceQuery)  # which warned when it opened

    @property
    def _newest(self) -> pa.Table | None:
        """The order columns of the newest event."""
        if self._newest_table is None and self._newest_row is not None:
            self._newest_table = self._reader.table_of_order(self._newest_row)
        return self._newest_table

    @_newest.setter
    def _newest(self, newest: pa.Table | None) -> None:
        self._newest_table, self._newest_row = newest, None

    def _open_search(self) -> Search:
        return open_search(self.query, self._read, self.options)

    # --- events in, matches out

    def push(self, batch: Any) -> Any:
        """Read the next events and return the complete matches.

        A refused batch has no effect. Only an error within a thread ends the stream.

        Parameters
        ----------
        batch : DataFrame, table or list of dict
            A pandas or polars DataFrame, an Arrow table or record batch, or a list with a dict per event. It
            has at least the columns of the schema that the query reads. The rows may be in any order, but
            none may come before the newest event of earlier batches. Ties keep their order.

        Returns
        -------
        DataFrame, table or list of dict
            The same kind as the batch, with the columns of `Matches.to_frame`, in match order. If a later
            absent event could still forbid a match, this match and all later ones wait for the end of its
            window.

        Raises
        ------
        ColumnNotFoundError, CepError
            When a column is missing or its values do not fit, or a key has more than ``max_live`` partial
            matches.
        OrderError
            When rows come before the newest event so far (with their number), or have a null in an order
            column.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, measures={"x": "last(x)"})
        >>> ups.push([{"x": 1}, {"x": 2}])
        [{'x': 2}]
        """
        self._check_open()
        self._warn_of_keys()
        if self._search.takes_rows and isinstance(batch, pd.DataFrame) and len(batch) == 1:
            ready = self._advance_row(self._reader.read_frame(batch))
            if ready is not None:
                names = dict.fromkeys(self._search.column_of_result.values())
                self._kind = Kind("pandas", {name: batch[name].dtype for name in names})
                table, n_rows = ready
                return self._results((table.to_table() if isinstance(table, PlainRow) else table, n_rows))
        newest = self._newest
        table, kind = read_batch(batch, self._read, newest)
        if table.num_rows == 0:
            self._kind = kind
            return self._results(self._search.release())
        keys = None
        if self.query.order_by:
            table, keys = ordered_batch(table, newest, self.query.order_by, self._read)
            newest = keys.slice(len(keys) - 1)
        with self.options.bound_memory():
            if self._search.keeps_batches and kind.shares_memory:
                table = table.take(pa.array(np.arange(len(table))))
            ready = self._search.advance(table, keys, self._n_events)
        if not self._n_events and keys is not None:
            self._first = keys.slice(0, 1)
        self._n_events += table.num_rows
        self._newest, self._kind = newest, kind
        return self._results(ready)

    def push_row(self, row: Any) -> list[dict[str, Any]]:
        """Read the next event and return the complete matches, as `push` of a list with this event.

        Most events need no table, so this is much faster than a batch of one event.

        Parameters
        ----------
        row : dict or tuple
            The value of each column of the schema, by name or in their order.

        Returns
        -------
        list of dict

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, measures={"x": "last(x)"})
        >>> ups.push_row({"x": 1}), ups.push_row((2,))
        ([], [{'x': 2}])
        """
        self._check_open()
        row = self._reader.as_dict(row)
        ready = self._advance_row(self._reader.read(row)) if self._search.takes_rows else None
        if ready is None:
            return self.push([row])
        self._kind = Kind("rows")
        return self._results(ready)

    def _advance_row(self, values: list | None) -> Any:
        """Read an event as plain values; None if it needs a batch, with the checks of batches."""
        if values is None:
            return None
        at = self._reader.order_of(values)
        if self._newest_row is None:
            self._newest_row = self._reader.order_of_table(self._newest_table)
        if at is None or (self._newest_row is not None and at < self._newest_row):
            return None
        with self.options.bound_memory():
            ready = self._search.advance_row(values, self._n_events)
        if ready is not None:
            if not self._n_events and at:
                self._first = self._reader.table_of_order(at)
            self._n_events += 1
            self._newest_table, self._newest_row = None, at or None
        return ready

    def _warn_of_keys(self) -> None:
        """Warn once when the stream remembers many keys and forgets none."""
        if not self._warns_of_keys or not self._search.grows or self._search.n_keys < MANY_KEYS:
            return
        self._warns_of_keys = False
        warn(f"the stream remembers {self._search.n_keys:,} keys: {self._search.grows}")

    def _results(self, ready: Ready) -> Any:
        table, n_rows = ready
        if not len(n_rows) and not table.num_rows and self.options.rows == "one":
            return self._no_results()
        if self.options.rows == "all":
            match = np.repeat(np.arange(self._n_matches, self._n_matches + len(n_rows)), n_rows)
            table = table.add_column(0, "match", pa.array(match))
        self._n_matches += len(n_rows)
        return self._kind.native(table, self._search.column_of_result)

    def _no_results(self) -> Any:
        """Return an empty result; it is made once for all batches of a kind."""
        key = self._kind.name, *self._kind.dtypes.values()
        if key not in self._empties:
            self._empties[key] = self._kind.native(self._last.empty, self._search.column_of_result)
        empty = self._empties[key]
        if isinstance(empty, pd.DataFrame):
            return empty.copy(deep=False)
        return [] if isinstance(empty, list) else empty

    def flush(self) -> Any:
        """Wait for the threads and return the complete matches; without threads, return no matches.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, measures={"x": "last(x)"})
        >>> ups.push([{"x": 2}]), ups.flush()
        ([{'x': 2}], [])
        """
        self._check_open()
        return self._results(self._search.flush(self._n_events))

    def close(self, *, complete_until: Any = None) -> Any:
        """Close the stream and return the remaining matches.

        A match that waits for the end of an absence is among them if the wait ends until ``complete_until``.
        Others are undecided, and are lost.

        Parameters
        ----------
        complete_until : time, number or "end", optional
            As for `cepkit.match`. Default: the value of the query, or else the last time in the stream.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, measures={"x": "last(x)"})
        >>> ups.push([{"x": 2}]), ups.close()
        ([{'x': 2}], [])
        >>> ups
        Closed stream of 'up': 1 event, 1 match, 0 rows kept
        """
        self._check_open()
        self._check_end(complete_until)
        try:
            return self._results(self._finish(complete_until))
        finally:
            self._end()
            if self._following is not None:
                self._following.tell(at_once=True)

    def _check_end(self, complete_until: Any) -> None:
        """Raise for a value that is no time of the clock, before the stream is closed."""
        if by := () if isinstance(self.query, Join | Chain) else self.query.order_by:
            end_in_ticks(complete_until, self.schema.columns[by[0]])

    def _finish(self, complete_until: Any) -> Ready:
        if complete_until is not None:
            self._search.complete_until = complete_until
        return self._search.finish(self._n_events)

    def _end(self) -> None:
        self._closed = True
        self._search.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise CepError("the stream is closed; open another one with cep.stream")
        if self._following is not None:
            self._following.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type | None, *_: object) -> None:
        self._end()

    # --- counters

    @property
    def events(self) -> int:
        """Number of events read.

        Examples
        --------
        >>> import cepkit as cep
        >>> cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}).events
        0
        """
        return self._n_events

    @property
    def matches(self) -> int:
        """Number of matches returned.

        Examples
        --------
        >>> import cepkit as cep
        >>> cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}).matches
        0
        """
        return self._n_matches

    def status(self) -> StreamStatus:
        """Return what the stream holds and has done, as one value, also after `close`.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up up", {"t": "int64", "k": "string"}, define={"up": "t > 1"},
        ...                  partition_by="k", order_by="t", idle_after=5)
        >>> ups.push([{"t": 2, "k": "a"}, {"t": 3, "k": "b"}, {"t": 8, "k": "b"}])
        [{'k': 'b', 'first_t': 3, 'last_t': 8, 'count': 2}]
        >>> ups.status()
        3 events, 1 match
        holds 1 key, 0 partial matches, 0 rows kept, 109 bytes
        newest event at 8
        1 idle key forgotten with 1 partial match
        """
        search, n_bytes = self._search, self._state().n_bytes
        return StreamStatus(
            self._n_events, self._n_matches, search.n_keys, search.n_live, self._n_retained, n_bytes,
            self._newest_time, None if search.oldest is None else self._n_events - search.oldest,
            self._oldest_time, self._rate,
            forgotten=self._last.n_evicted, ended=self._last.n_ended, grows=search.grows,
            overflowed=self._last.n_overflowed,
        )  # fmt: skip

    def board(self) -> StreamBoard:
        """Return a widget that shows the status, and follows the stream while events are pushed.

        It shows what `status` says, with the course of the last minute, and changes at most once a second.
        The status of a stream with a large state takes time to compute: the board waits until that is less
        than a twentieth of the time.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, measures={"x": "last(x)"})
        >>> ups.board()
        StreamBoard(up)
        """
        return self._board_of(self.status)

    def _board_of(self, status: Callable[[], StreamStatus]) -> StreamBoard:
        """Return a board that shows what ``status`` says, and follows it while events are pushed."""
        self._following = Following(short_text(said(self.query)), status)
        return self._following.board

    def _state(self) -> Saved:
        return self._search.pack(self._n_events)

    @property
    def _n_retained(self) -> int:
        return self._search.n_retained

    @property
    def _newest_time(self) -> Any:
        return None if self._newest is None else self._newest.column(0)[0].as_py()

    @property
    def _oldest_time(self) -> Any:
        by = self.query.order_by
        return self._search.oldest_time(by[0]) if by else None

    @property
    def _rate(self) -> float | None:
        """Events per second between the first one and the newest one."""
        if self._first is None or self._newest is None:
            return None
        span = self._newest_time - self._first.column(0)[0].as_py()
        seconds = span.total_seconds() if isinstance(span, dt.timedelta) else 0
        return (self._n_events - 1) / seconds if seconds else None

    @property
    def result_schema(self) -> pa.Schema:
        """The schema of the results, which another stream can use as its input schema.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, measures={"x": "last(x)"})
        >>> ups.result_schema.names
        ['x']
        """
        schema = self._last.empty.schema
        return schema.insert(0, pa.field("match", pa.int64())) if self.options.rows == "all" else schema

    @property
    def _last(self) -> Any:
        """The search that returns the results."""
        return self._search

    def __repr__(self) -> str:
        is_window = isinstance(self.query, Window | Join | Chain)
        parts = [counted(self.events, "event"), counted(self.matches, "result" if is_window else "match")]
        if not isinstance(self.query, Join) and self.query.partition_by:
            parts.insert(1, counted(self._search.n_keys, "key"))
        if self.options.idle_after is not None:
            is_counted = self._search.n_live is not None
            ended = f" with {counted(self._search.n_ended, 'partial match')}" if is_counted else ""
            parts.append(f"{counted(self._search.n_evicted, 'idle key')} forgotten{ended}")
        parts.append(f"{counted(self._n_retained, 'row')} kept")
        state = "Closed stream" if self._closed else "Stream"
        text = str(self.query) if isinstance(self.query, Chain) else said(self.query)
        return f"{state} of {text if is_window else repr(text)}: {', '.join(parts)}"

    # --- saving

    def save(self, path: str | os.PathLike) -> None:
        """Write the stream into one file, from which `cepkit.stream.load` continues.

        The file is written completely or not at all. It holds data and the text of the query, but no code:
        register user functions by the same names before you load it.

        Raises
        ------
        CepError
            When a parameter's value cannot be written as text, or rows to be labelled hold Python objects.

        Examples
        --------
        >>> import cepkit as cep
        >>> ups = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"})
        >>> ups.save("ups.state")  # doctest: +SKIP
        """
        self._check_open()
        save_file(path, self._packed())

    def _packed(self) -> Saved:
        return pack_stream(self)

    def _more_settings(self) -> dict[str, Any]:
        """Return what else a file must say about the stream."""
        return {}

    @classmethod
    def load(cls, path: str | os.PathLike, *, shedding: Any = None, clock: Any = None) -> Stream | JoinStream:
        """Open a stream that `save` wrote; also available as ``cepkit.stream.load``.

        Parameters
        ----------
        path : str or path
        shedding : strategy, optional
            The strategy of a stream with a latency bound, if it is a class of your own. The file knows those
            of cepkit.
        clock : optional
            As for `cepkit.stream`.

        Raises
        ------
        FileNotFoundError
            When the file does not exist.
        CepError
            When the file is damaged, or a version of cepkit with another layout of state wrote it.
        PredicateError
            When the query calls functions that are not registered; the message names them.

        Examples
        --------
        >>> import cepkit as cep
        >>> cep.stream.load("ups.state")  # doctest: +SKIP
        Stream of 'up': 0 events, 0 matches, 0 rows kept
        """
        if kind_of_file(path) == _JOIN:
            with said_as_damage(path):
                return _load_join(load_file(path, _JOIN))
        if kind_of_file(path) == AFTER_BUFFER:
            saved = load_file(path, AFTER_BUFFER)
            with said_as_damage(path):
                return open_door(SAVED_AFTER_BUFFER)(saved, shedding, clock)
        saved = load_file(path, "stream")
        with said_as_damage(path):
            return open_packed(saved, shedding, clock)


def pack_stream(stream: Stream) -> Saved:
    """Return the content of an open stream for a file."""
    stream._check_open()
    tables = {"schema": stream.schema.arrow.empty_table()}
    if stream._newest is not None:
        tables["newest"] = stream._newest
    if stream._first is not None:
        tables["first"] = stream._first
    header = {
        "kind": "stream",
        "query": query_as_json(stream.query),
        "options": {**vars(stream.options), "idle_after": duration_as_json(stream.options.idle_after)},
        "ordered": dict(stream.schema.ordered),
        "frame": stream._kind.name,
        "counts": [stream._n_events, stream._n_matches],
        **stream._more_settings(),
    }
    return Saved(header, {}, tables).with_part("search", stream._state())


def open_packed(saved: Saved, shedding: Any = None, clock: Any = None) -> Stream:
    """Open the stream that `pack_stream` returned; the parameters are those of `Stream.load`."""
    header = saved.header
    schema = StreamSchema(saved.tables["schema"].schema, _as_tuples(header["ordered"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # the user saw them when the stream was opened
        query, options = query_of_json(header["query"]), Options(**header["options"])
        kind = Kind(header["frame"])
        if SHED in header:
            stream = open_door(SAVED_SHED_STREAM)(query, schema, options, kind, header[SHED], shedding, clock)
        else:
            stream = Stream(query, schema, options, kind)
    stream._search.unpack(saved.part("search"))
    stream._newest, stream._first = saved.tables.get("newest"), saved.tables.get("first")
    stream._n_events, stream._n_matches = saved.counters("counts", 2)
    return stream


def split_late(stream: Stream, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a table that come before the newest event, and the others, in stream order."""
    by = stream.query.order_by
    if not by or not table.num_rows:
        return table.slice(0, 0), table
    table, keys = ordered_batch(table, None, by, stream.schema)
    n_late = 0 if stream._newest is None else count_late(keys, stream._newest, by)
    return table.slice(0, n_late), table.slice(n_late)


def _as_tuples(ordered: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(texts) for name, texts in ordered.items()}


# A stream of a join, with two inputs, and of a chain that begins with a join.


class JoinStream(Stream):
    """An open stream of a join; call `cepkit.stream` to open one. Only one thread at a time may use it."""

    def __init__(self, query: Join | Chain, schemas: tuple[StreamSchema, ...], options: Options):
        self._empties: dict[tuple, Any] = {}
        self.query, self.schemas, self.options = query, schemas, options
        first = query if isinstance(query, Join) else query.steps[0]
        rest = () if isinstance(query, Join) else query.steps[1:]
        self._search = JoinSearch(first, schemas, Options() if rest else options)
        self._then = None
        if rest:
            self._then = ChainSearch(Chain(rest), StreamSchema(self._search.empty.schema), options)
        self._kind, self._first = Kind("rows"), None
        self._n_events = self._n_matches = 0
        self._closed = False

    # A join has two inputs.
    def push(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, left: Any = None, right: Any = None
    ) -> Any:
        """Read the next rows of one side or of both, and return the complete results.

        A result is complete when both sides have reached its time. A refused batch has no effect.
        """
        self._check_open()
        batches = [batch for batch in (left, right) if batch is not None]
        if not batches:
            raise CepError("push() needs rows of one side, as in push(left=rows)")
        tables = tuple(
            None if batch is None else table_of_batch(batch, schema)
            for batch, schema in zip((left, right), self.schemas, strict=True)
        )
        undo = self._search.remember()
        try:
            with self.options.bound_memory():
                ready = self._follow(self._search.advance(tables))
        except BaseException:
            undo()
            raise
        self._n_events += sum(table.num_rows for table in tables if table is not None)
        self._kind = kind_of_batch(batches[0])
        return self._results(ready)

    # A join has two inputs.
    def push_row(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, left: Any = None, right: Any = None
    ) -> Any:
        """Read the next row of one side or of both, as dicts, and return the complete results."""
        return self.push(*(None if row is None else [row] for row in (left, right)))

    def _follow(self, ready: Ready) -> Ready:
        return ready if self._then is None else self._then.advance(ready[0], None, 0)

    def flush(self) -> Any:
        """Return no results: a row waits until the other side has reached its time."""
        self._check_open()
        return self._results((self._last.empty, np.empty(0, np.int64)))

    def _finish(self, complete_until: Any) -> Ready:
        ready = self._follow(self._search.finish())
        if self._then is None:
            return ready
        self._then.complete_until = complete_until
        return joined([ready, self._then.finish(0)])

    def _end(self) -> None:
        self._closed = True

    @property
    def _n_retained(self) -> int:
        return self._search.n_retained + (0 if self._then is None else self._then.n_retained)

    @property
    def _last(self) -> Any:
        return self._then or self._search

    def _packed(self) -> Saved:
        tables = {side: schema.arrow.empty_table() for side, schema in zip(SIDES, self.schemas, strict=True)}
        header = {
            "kind": _JOIN,
            "query": query_as_json(self.query),
            "options": vars(self.options),
            "ordered": [dict(schema.ordered) for schema in self.schemas],
            "counts": [self._n_events, self._n_matches],
        }
        state = self._state()
        return Saved({**header, **state.header}, state.arrays, {**tables, **state.tables})

    def _state(self) -> Saved:
        saved = Saved({}, {}, {}).with_part("search", self._search.pack())
        return saved if self._then is None else saved.with_part("then", self._then.pack(0))

    @property
    def _newest_time(self) -> Any:
        return self._search.newest

    @property
    def _oldest_time(self) -> Any:
        return self._search.oldest_time


def _load_join(saved: Saved) -> JoinStream:
    header = saved.header
    schemas = tuple(
        StreamSchema(saved.tables[side].schema, _as_tuples(ordered))
        for side, ordered in zip(SIDES, header["ordered"], strict=True)
    )
    stream = JoinStream(query_of_json(header["query"]), schemas, Options(**header["options"]))
    stream._search.unpack(saved.part("search"))
    if stream._then is not None:
        stream._then.unpack(saved.part("then"))
    stream._n_events, stream._n_matches = saved.counters("counts", 2)
    return stream


def join_stream(query: Join | Chain, schema: Any, options: Options) -> JoinStream:
    """Open a stream with two inputs; ``schema`` has one schema for each side."""
    if not isinstance(schema, Mapping) or set(schema) != set(SIDES):
        names = list(schema) if isinstance(schema, Mapping) else type(schema).__name__
        wrong = (
            next((str(name) for name in names if name not in SIDES), "") if isinstance(names, list) else ""
        )
        raise CepError(
            f"schema: a join reads two streams, so it needs {{'left': …, 'right': …}}, got {names}."
            f"{nearest(wrong, SIDES)}"
        )
    return JoinStream(query, (schema_of(schema["left"]), schema_of(schema["right"])), options)
