"""The frames of a call as one sequence of events with a clock, and `SiddhiResult`, the rows it gives."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa

from cepkit.errors import CepError, ColumnNotFoundError, OrderError, is_text, nearest, short_text
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, ColumnType, Frame, Source
from cepkit.frames.conversion import NOT_FOR_ARROW
from cepkit.frames.pandas import as_pandas
from cepkit.frames.row_order import nulls, plain_values
from cepkit.frames.sources import source_of_frame
from cepkit.frames.spark.tasks import EmptySource
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.siddhi.query import DefinedStream
from cepkit.results.found import SHOWN, html_of_table, paragraphs, text_of_table
from cepkit.siddhiql.functions import BOOL, DOUBLE, INT, LONG, OBJECT, SINGLE, STRING, Type, type_of_column
from cepkit.siddhiql.selecting import Row
from cepkit.siddhiql.states import Event

# The frames of a call as one sequence of events in order, with the clock that they share.

NANOSECONDS_PER_MS = NANOSECONDS["ms"]
Schema = tuple[tuple[str, Type], ...]


def source_of_stream(name: str, frame: Any) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a frame as a source of columns, and a function that converts results to the frame's kind."""
    try:
        return source_of_frame(frame)
    except CepError as error:
        raise CepError(f"{name}: {error}") from error


def is_on_spark(frame: Any) -> bool:
    """Return whether a frame is one of Spark."""
    return type(frame).__module__.startswith("pyspark.") and hasattr(frame, "sparkSession")


@dataclass(frozen=True)
class StreamRows:
    """A stream with its frame: attributes, and the columns that order its events."""

    name: str
    source: Source
    schema: Schema
    order_by: tuple[str, ...]

    @property
    def is_time(self) -> bool:
        """Whether the clock is a column of times, and not of milliseconds."""
        return bool(self.order_by) and self.source.schema[self.order_by[0]].kind in (TIME, DURATION)


def read_stream(
    name: str, source: Source, defined: DefinedStream | None, order_by: Sequence[str]
) -> StreamRows:
    """Return a stream after all checks that need no rows."""
    columns = source.schema
    for column in order_by:
        if not isinstance(column, str):
            raise CepError(f"order_by: expected names of columns as text, got {column!r}")
        if column not in columns:
            raise ColumnNotFoundError(
                f"order_by: {name} has no column {column!r}.{nearest(column, columns) or _listed(columns)}"
            )
    if not order_by and source.clock is not None:
        order_by = (source.clock,)
    if order_by and columns[order_by[0]].kind not in (TIME, DURATION, INTEGER, FLOAT):
        raise CepError(
            f"order_by: column {order_by[0]!r} of {name} is of type {columns[order_by[0]]}; the first column "
            "must be a time, or a number of milliseconds"
        )
    if defined is None:
        schema: Schema = tuple(
            (column, type_of_column(column_type)) for column, column_type in columns.items()
        )
        return StreamRows(name, source, schema, tuple(order_by))
    attributes = []
    for attribute, kind in defined.attributes:
        if attribute not in columns:
            raise ColumnNotFoundError(
                f"define stream {name}: its frame has no column {attribute!r}."
                f"{nearest(attribute, columns) or _listed(columns)}"
            )
        seen_type = type_of_column(columns[attribute])
        if not isinstance(source, EmptySource) and nulls(source.column(attribute)).all():
            seen_type = OBJECT  # no value says what the type is
        attributes.append((attribute, _agreed(name, attribute, kind, seen_type)))
    return StreamRows(name, source, tuple(attributes), tuple(order_by))


def _listed(known: Mapping[str, Any]) -> str:
    return f" Columns: {', '.join(known)}."


def _agreed(stream: str, attribute: str, kind: str, own: Type) -> Type:
    """Return the type of an attribute, for its definition and its column."""
    numbers = (INT, LONG, SINGLE, DOUBLE)
    if not isinstance(own, str):
        if kind in (LONG, OBJECT):
            return own
        raise CepError(
            f"define stream {stream}: {attribute!r} is defined as {kind}, and its column has times"
        )
    fits = kind == OBJECT or own in (kind, OBJECT) or (kind in numbers and own in numbers)
    if not fits:
        raise CepError(
            f"define stream {stream}: {attribute!r} is defined as {kind}, and its column is of type {own}"
        )
    return kind


_CONVERT: dict[str, Callable[[Any], Any]] = {INT: int, LONG: int, SINGLE: float, DOUBLE: float}


def events_of(stream: StreamRows, is_time: bool) -> tuple[list[tuple], list[Event]]:
    """Return the order keys and the events of a stream, in order."""
    source = stream.source
    columns = []
    for name, kind in stream.schema:
        values = plain_values(source.column(name)).tolist()
        convert = _CONVERT.get(kind) if isinstance(kind, str) else None
        if convert is not None:
            if convert is int and math.inf in map(abs, filter(None, values)):
                raise CepError(
                    f"stream {stream.name}: {name!r} is defined as {kind}, and its column holds an infinite "
                    "number; define it as double, or drop these rows"
                )
            values = [None if value is None else convert(value) for value in values]
        elif kind == BOOL:
            values = [None if value is None else bool(value) for value in values]
        elif kind == STRING:
            values = [None if value is None else str(value) for value in values]
        columns.append(values)
    keys = [plain_values(source.column(name)).tolist() for name in stream.order_by]
    for name, key in zip(stream.order_by, keys, strict=True):
        if n_missing := sum(value is None or value != value for value in key):
            raise OrderError(
                f"order_by: column {name!r} of {stream.name} has {n_missing} missing values of {len(key)}"
            )
    if not keys:
        keys = [list(range(source.n_rows))]
    elif is_time:
        keys[0] = nanoseconds(source, stream.order_by[0], keys[0])
    rows = list(zip(*keys, strict=True))
    order = sorted(range(len(rows)), key=rows.__getitem__)
    cells = list(zip(keys[0], *columns, strict=True))
    return [rows[i] for i in order], [cells[i] for i in order]


def nanoseconds(source: Source, clock: str, ticks: Sequence[int]) -> list[int]:
    """Return ticks of a column of times as nanoseconds."""
    size = NANOSECONDS[source.schema[clock].unit or "ns"]
    return [tick * size for tick in ticks]


def merged(
    parts: Sequence[tuple[str, list[tuple], list[Event]]], meeting: Sequence[set[str]]
) -> Iterator[tuple[str, Event]]:
    """Return the events of all streams in order."""
    _check_ties(parts, meeting)
    numbered = [
        [(key, i, name, event) for key, event in zip(keys, events, strict=True)]
        for i, (name, keys, events) in enumerate(parts)
    ]
    for _, _, name, event in heapq.merge(*numbered, key=lambda entry: (entry[0], entry[1])):
        yield name, event


def _check_ties(parts: Sequence[tuple[str, list[tuple], list[Event]]], meeting: Sequence[set[str]]) -> None:
    for names in meeting:
        keys = sorted(
            (
                (key, i)
                for i, (name, stream_keys, _) in enumerate(parts)
                if name in names
                for key in stream_keys
            ),
        )
        for (left, i), (right, k) in pairwise(keys):
            if left == right and i != k:
                first, second = parts[i][0], parts[k][0]
                shown = ", ".join(map(str, left))
                raise OrderError(
                    f"an event of {first} and one of {second} are equal in order_by ({shown}). Siddhi's "
                    "answer then depends on the order of its threads. Add a column to order_by that says "
                    "which came first, as in order_by=['ts', 'sequence']"
                )


# `SiddhiResult`: the rows that the queries of a text wrote, by stream.

_ARROW = {
    INT: pa.int64(), LONG: pa.int64(), SINGLE: pa.float64(), DOUBLE: pa.float64(), BOOL: pa.bool_(),
    STRING: pa.string(),
}  # fmt: skip


class SiddhiResult:
    """The rows of each stream that SiddhiQL queries write; `cepkit.siddhi` returns it."""

    def __init__(
        self,
        rows: Mapping[str, list[Row]],
        schemas: Mapping[str, tuple[tuple[str, Type], ...]],
        source: Source,
        native: Callable[[Frame], Frame],
        clock: ColumnType | None,
    ):
        self._rows, self._schemas = rows, schemas
        self._source, self._native, self._clock = source, native, clock

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the queries write, in the order of the text."""
        return tuple(self._rows)

    def count(self, stream: str | None = None) -> int:
        """Return the number of rows of a stream."""
        return len(self._rows[self._named(stream)])

    def to_frame(self, stream: str | None = None, *, time: str | None = None) -> Frame:
        """Return the rows of a stream, as the same kind of frame as the first input."""
        name = self._named(stream)
        return self._native(self._source.result(self._columns(name, self._rows[name], time)))

    def _columns(self, name: str, rows: list[Row], time: str | None = None) -> dict[str, pa.Array]:
        schema = self._schemas[name]
        columns: dict[str, pa.Array] = {}
        if time is not None:
            if not isinstance(time, str) or not is_text(time):
                raise CepError(f"time={short_text(repr(time))}: give the name of the new column")
            if time in dict(schema):
                raise CepError(f"time={time!r}: the stream {name} has this column already; give another name")
            columns[time] = times_of_ticks([row[1] for row in rows], self._clock)
        for i, (column, kind) in enumerate(schema):
            try:
                columns[column] = arrow_of_type([row[2][i] for row in rows], kind, column)
            except CepError as error:
                raise CepError(f"{name}: {error}") from None
        return columns

    def _named(self, stream: str | None) -> str:
        if stream is None:
            return self.streams[-1]
        if not isinstance(stream, str) or stream not in self._rows:
            hint = nearest(stream, self._rows)
            names = ", ".join(self._rows)
            raise CepError(
                f"no query writes {short_text(repr(stream))}; streams: {names}{hint and '.' + hint}"
            )
        return stream

    def _shown(self) -> tuple[str, pd.DataFrame, str]:
        """Return how many rows each stream has, the first rows of the last stream, and what is left out."""
        counts = ", ".join(
            f"{name}: {len(rows):,} row{'s' * (len(rows) != 1)}" for name, rows in self._rows.items()
        )
        name, rows = self.streams[-1], self._rows[self.streams[-1]]
        table = as_pandas(self._source.result(self._columns(name, rows[:SHOWN])))
        more = len(rows) - SHOWN
        return counts, table, f"… {more:,} more rows" if more > 0 else ""

    def __repr__(self) -> str:
        counts, table, more = self._shown()
        return text_of_table(counts, table, more) if len(table) else counts

    def _repr_html_(self) -> str:
        counts, table, more = self._shown()
        if not len(table):
            return paragraphs(counts)
        note = f"{more}; <code>to_frame()</code> has them all" if more else ""
        return html_of_table(paragraphs(counts), table, note)


def _unfit(column: str, values: list[Any], error: Exception) -> str:
    value = next((value for value in values if not _has_array(value)), None)
    text = repr(value).encode("ascii", "backslashreplace").decode()
    return (
        f"column {column!r} holds {text[:60]} of type {type(value).__name__}, which a result cannot hold "
        f"({error}); make numbers or texts of it before the query, or leave it out of the select clause"
    )


def _has_array(value: Any) -> bool:
    try:
        pa.array([value])
    except NOT_FOR_ARROW:
        return False
    return True


def times_of_ticks(ticks: list[Any], clock: ColumnType | None) -> pa.Array:
    """Return ticks of the clock, which are nanoseconds for times, as an Arrow array."""
    if clock is None:
        return pa.array(ticks)
    size = NANOSECONDS[clock.unit or "ns"]
    return pa.array([tick // size for tick in ticks], _type_of_times(clock))


def _type_of_times(of: ColumnType) -> pa.DataType:
    unit = of.unit or "ns"
    return pa.timestamp(unit, of.timezone) if of.kind == TIME else pa.duration(unit)


def arrow_of_type(values: list[Any], kind: Type, column: str = "") -> pa.Array:
    """Return values as an Arrow array; values that do not fit choose the type themselves."""
    wanted = _type_of_times(kind) if isinstance(kind, ColumnType) else _ARROW.get(kind)
    try:
        return pa.array(values, wanted)
    except NOT_FOR_ARROW:
        pass
    try:
        return pa.array(values)
    except NOT_FOR_ARROW as error:
        types = list(dict.fromkeys(type(value).__name__ for value in values if value is not None))
        if len(types) > 1:
            message = f"the values have the types {', '.join(types)}; write convert(…, 'string')"
            raise CepError(f"{column}: {message}" if column else message) from None
        raise CepError(_unfit(column, values, error)) from None
