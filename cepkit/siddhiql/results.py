"""`SiddhiResult`: the rows that the queries of a text wrote, by stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from cepkit.errors import CepError, is_text, nearest, short_text
from cepkit.events import TIME, ColumnType, Frame, Source
from cepkit.frames.conversion import NOT_FOR_ARROW
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.results.in_memory import SHOWN, html_of_table, paragraphs, text_of_table
from cepkit.siddhiql.functions import BOOL, DOUBLE, INT, LONG, SINGLE, STRING, Type
from cepkit.siddhiql.selecting import Row

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
