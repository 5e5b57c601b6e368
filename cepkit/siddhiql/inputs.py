"""The frames of a call as one sequence of events in order, with the clock that they share."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cepkit.errors import CepError, ColumnNotFoundError, OrderError, nearest
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, Frame, Source
from cepkit.frames.row_order import nulls, plain_values
from cepkit.frames.sources import source_of_frame
from cepkit.frames.spark.tasks import EmptySource
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.siddhi.query import DefinedStream
from cepkit.siddhiql.functions import BOOL, DOUBLE, INT, LONG, OBJECT, SINGLE, STRING, Type, type_of_column
from cepkit.siddhiql.runs.states import Event

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
