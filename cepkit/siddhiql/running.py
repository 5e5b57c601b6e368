"""`siddhi`: run SiddhiQL on frames, and its rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cepkit.errors import CepError
from cepkit.events import ColumnType, Frame, Source
from cepkit.frames.pandas import as_pandas
from cepkit.frames.sources import is_on_spark, source_of_frame
from cepkit.language.expressions.durations import counted
from cepkit.language.siddhi.printing import parse_siddhi
from cepkit.limits import MemoryLimit, bound_memory, memory_limit_of, refuse_limit_on_spark
from cepkit.siddhiql.binding import (
    OrderBy,
    arrow_of_type,
    bind_app,
    check_time_column,
    times_of_ticks,
    written_stream,
)
from cepkit.siddhiql.functions import Type
from cepkit.siddhiql.selecting import Row

if TYPE_CHECKING:
    from cepkit.siddhiql.spark import SparkSiddhiResult


class SiddhiResult:
    """The rows of each stream that SiddhiQL queries write; `cepkit.siddhi` returns it."""

    def __init__(
        self, rows: Mapping[str, list[Row]], schemas: Mapping[str, tuple[tuple[str, Type], ...]],
        source: Source, native: Callable[[Frame], Frame], clock: ColumnType | None,
    ):  # fmt: skip
        self._rows, self._schemas = rows, schemas
        self._source, self._native, self._clock = source, native, clock

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the queries write, in the order of the text."""
        return tuple(self._rows)

    def count(self, stream: str | None = None) -> int:
        """Return the number of rows of a stream."""
        return len(self._rows[written_stream(stream, self.streams)])

    def to_frame(self, stream: str | None = None, *, time: str | None = None) -> Frame:
        """Return the rows of a stream, as the same kind of frame as the first input."""
        name = written_stream(stream, self.streams)
        return self._native(self._source.result(self._columns(name, self._rows[name], time)))

    def _columns(self, name: str, rows: list[Row], time: str | None = None) -> dict[str, pa.Array]:
        """Return the rows of a stream as columns, with their times if ``time`` names a column for them."""
        schema = self._schemas[name]
        columns: dict[str, pa.Array] = {}
        if time is not None:
            check_time_column(name, time, schema)
            columns[time] = times_of_ticks([row[1] for row in rows], self._clock)
        for i, (column, kind) in enumerate(schema):
            try:
                columns[column] = arrow_of_type([row[2][i] for row in rows], kind, column)
            except CepError as error:
                raise CepError(f"{name}: {error}") from None
        return columns

    def _show(self, as_html: bool) -> str:
        """Return how many rows each stream has, and the first rows of the last stream."""
        from cepkit.results.found import SHOWN, html_of_table, paragraphs, text_of_table

        counts = ", ".join(f"{name}: {counted(len(rows), 'row')}" for name, rows in self._rows.items())
        name, rows = self.streams[-1], self._rows[self.streams[-1]]
        table = as_pandas(self._source.result(self._columns(name, rows[:SHOWN])))
        more = f"… {len(rows) - SHOWN:,} more rows" if len(rows) > SHOWN else ""
        if not as_html:
            return text_of_table(counts, table, more) if len(table) else counts
        if not len(table):
            return paragraphs(counts)
        return html_of_table(
            paragraphs(counts), table, more and f"{more}; <code>to_frame()</code> has them all"
        )

    def __repr__(self) -> str:
        return self._show(as_html=False)

    def _repr_html_(self) -> str:
        return self._show(as_html=True)


def siddhi(
    text: str, frames: Mapping[str, Frame] | None = None, /, *, order_by: OrderBy = None, start: Any = None,
    complete_until: Any = None, memory_limit: MemoryLimit = "auto", **streams: Frame,
) -> SiddhiResult | SparkSiddhiResult:  # fmt: skip
    """Run SiddhiQL on frames, with the answer that Siddhi gives.

    Each keyword names a stream and gives its events. Patterns (``->``), sequences (``,``), ``every``,
    ``and``, ``or``, counts, absent events, windows, joins, partitions and chains of queries run. Without
    ``every`` a pattern has one match at most.

    The functions are those of Siddhi without a namespace, ``str:…`` and ``math:…``. A function that you
    register, as in ``@cep.pure(name="str:initials")``, wins over one of Siddhi with the same name.

    Parameters
    ----------
    text : str
        SiddhiQL: definitions of streams, queries and partitions. ``define stream`` is optional.
    frames : mapping of str to DataFrame, optional
        Streams whose names are no keywords of Python, or equal a parameter.
    order_by : str, list of str, or mapping of stream to them, optional
        The columns that order the events; the first is the clock. It has times, or milliseconds. Without it,
        a DatetimeIndex is the clock, and otherwise the rows are in order and no clause may need time.
    start : time or number, optional
        When the app starts: the waits of ``not … for`` at the start of a pattern begin then. Default: the
        time of the first event.
    complete_until : time, number or "end", optional
        The data have all events up to this time, as in `cepkit.match`. Timers fire when a later event
        arrives, before it, and up to this time after the last event: a wait of ``not … for`` that ends later
        is undecided. Default: the time of the last event. ``"end"`` lets all waits pass; the rows that
        ``to_frame(time="at")`` shows after the last event were undecided.
    memory_limit : str, int or None
        The most memory that the rows of all results may take, as in `cepkit.match`. On Spark its settings
        bound the memory.
    **streams : DataFrame or table
        pandas, Arrow, polars or Spark; the name of the keyword is the name of the stream.

    Returns
    -------
    SiddhiResult or SparkSiddhiResult
        The rows of each stream that a query writes: ``to_frame(stream)``, ``count(stream)``, ``streams``.
        Those of Spark frames are lazy frames.

    Raises
    ------
    PatternSyntaxError
        If the text is not SiddhiQL, or has a clause that does not run, such as tables and rates of output.
    ColumnNotFoundError
        For an attribute, a reference or a column that does not exist.
    OrderError
        If events of two streams that meet in one query are equal in ``order_by``: Siddhi's own answer then
        depends on the order of its threads.
    PredicateError
        For unknown functions, for arguments whose types Siddhi refuses, such as ``default(price, 0)`` of a
        double, and for parameters of windows that are of another kind.
    UnsupportedQueryError
        For queries that feed themselves.
    ResultTooLargeError
        When the rows of the results take more than ``memory_limit``.
    CepError
        For a stream without a frame, and a clause of time without a clock.

    Warns
    -----
    CepWarning
        For Spark frames, if one task must run all events. The tasks share the work if all queries are in
        partitions by attributes.

    Notes
    -----
    A timer fires at its exact time, and before an event of the same time, as in Siddhi's playback mode. An
    event takes time in the number of partial matches that wait for its stream. Memory O(events + partial
    matches + rows of all results). Sums are exact and rounded once.
    Differs: int and long are one type in the arguments of a function, and so are float and double.
    Differs: a function gives null where Siddhi stops with an exception at a value, as ``str:charAt('a', 5)``.
    Differs: sums, ``avg`` and ``stdDev`` are exact and rounded once; Siddhi's keep rounding errors, so a
    ``stdDev`` of equal values may be 3e-9 or NaN. In a join its values may leave more often than they enter;
    Siddhi then keeps a wrong mean.
    Differs: in a partition each key has its own batches of ``timeBatch``; Siddhi shares the end of the batch
    among keys and loses the last batches of all keys but the first.
    Differs: ``maximum`` and ``minimum`` skip nulls and take negative numbers; Siddhi's ``maximum`` is never
    below 4.9e-324, also of nulls alone.
    Differs: in a sequence ``every`` before a state means that state; Siddhi takes it around all states up to
    the last wait of ``not … for``, and the forbidden event then ends no wait.
    Source: Suhothayan et al., "Siddhi: a second look at complex event processing architectures", GCE 2011;
    the behaviour of siddhi-core 5.1.7.
    Differs: attributes of type float have 64 bits. Rows of ``all events`` are in one stream.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [0, 400, 900, 1500], "symbol": ["A", "A", "A", "A"],
    ...     "price": [10.0, 14.0, 12.0, 20.0]})
    >>> text = '''from every e1=Trades[price >= 10] -> e2=Trades[price > e1.price * 1.3] within 1 sec
    ...     select e1.price as low, e2.price as high insert into Jumps'''
    >>> cep.siddhi(text, Trades=trades, order_by="ts").to_frame()
        low  high
    0  10.0  14.0
    1  12.0  20.0
    """
    app = parse_siddhi(text)
    frame_of_stream = {**(frames or {}), **streams}
    if not frame_of_stream:
        raise CepError("name the streams and give their frames, as in cep.siddhi(text, Trades=trades)")
    memory_limit_of(memory_limit)  # raises for a value that is no limit
    on_spark = {name: is_on_spark(frame) for name, frame in frame_of_stream.items()}
    if any(on_spark.values()):
        if not all(on_spark.values()):
            name = next(name for name in frame_of_stream if not on_spark[name])
            raise CepError(f"{name} is no Spark frame, and others are; convert them all to one kind")
        refuse_limit_on_spark(memory_limit)
        from cepkit.siddhiql.spark import SparkSiddhiResult

        return SparkSiddhiResult(text, app, frame_of_stream, order_by, start, complete_until)
    read = {name: _source_of_stream(name, frame) for name, frame in frame_of_stream.items()}
    bound = bind_app(app, {name: source for name, (source, _) in read.items()}, order_by)
    source, native = next(iter(read.values()))
    with bound_memory(memory_limit, "Narrow the conditions, or add 'within'"):
        rows = bound.run(start, complete_until)
    return SiddhiResult(rows, bound.plan.schemas, source, native, bound.clock)


def _source_of_stream(name: str, frame: Any) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a frame as a source of columns, and a function that converts results to the frame's kind."""
    try:
        return source_of_frame(frame)
    except CepError as error:
        raise CepError(f"{name}: {error}") from error
