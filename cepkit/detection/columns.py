"""The columns of a frame as codes of their distinct values, in stream order, and the fields of rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError, ColumnNotFoundError, nearest, underline
from cepkit.events import DURATION, FLOAT, INTEGER, TEXT, TIME, Column, Frame, Source, nulls, plain_values
from cepkit.frames.building import stream_order
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.query_parts import as_columns, as_mapping
from cepkit.planning.plans import check_columns

CLOCKS = (INTEGER, FLOAT, TIME, DURATION)
TIMESTAMP = "@timestamp"
Values = tuple[np.ndarray, list[Any]]  # codes, and the value of each code


class EventColumns:
    """The columns of the events that rules read. A missing value is None."""

    def __init__(self, source: Source, order_by: Any, fields: Any):
        self.source = source
        self._names = frozenset(source.schema)  # without fields of structs: `step_into` finds them
        self.fields: Mapping[str, str | None] = as_mapping("fields", fields)
        check_columns(source, "fields", tuple(name for name in self.fields.values() if name is not None))
        columns = as_columns("order_by", order_by)
        if not columns:
            default = TIMESTAMP if TIMESTAMP in source.schema else source.clock
            columns = () if default is None else (default,)
        check_columns(source, "order_by", columns)
        self.order_by = columns
        self._order = stream_order(source, columns)
        self._values: dict[Hashable, Values] = {}

    @property
    def n_events(self) -> int:
        return self.source.n_rows

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows of the frame at some positions of the stream."""
        return positions if self._order is None else self._order[positions]

    def frame(self, positions: np.ndarray, added: Mapping[str, Any]) -> Frame:
        """Return the events at some positions as a frame, with further columns first."""
        return self.source.rows(self.rows(positions), added)

    def column(self, name: str) -> Column:
        """Return a column in stream order."""
        column = self.source.column(name)
        return column if self._order is None else column.take(self._order)

    def values(self, name: str | None) -> Values:
        """Return the codes of a column by position, and its distinct values; None is a column of nulls."""
        if name is None:
            return np.zeros(self.n_events, np.int64), [None]
        if name not in self._values:
            check_columns(self.source, "fields", (name,))
            self._values[name] = _coded(self.column(name))
        return self._values[name]

    def combined(self, parts: Sequence[Values], n: int) -> tuple[np.ndarray, list[tuple]]:
        """Return the codes of the combinations of several columns, and the distinct combinations."""
        if not parts:
            return np.zeros(n, np.int64), [()]
        if len(parts) == 1:
            codes, values = parts[0]
            return codes, [(value,) for value in values]
        joint = parts[0][0]
        for codes, values in parts[1:]:
            joint, _ = pd.factorize(joint * len(values) + codes)
        _, first = np.unique(joint, return_index=True)
        picked = [[values[code] for code in codes[first].tolist()] for codes, values in parts]
        return joint, list(zip(*picked, strict=True))

    def mask(self, name: str | None, test: Callable[[Any], bool]) -> np.ndarray:
        """Return for which events the value of a column passes a test."""
        codes, values = self.values(name)
        return np.array([test(value) for value in values], bool)[codes]

    def column_of(self, parts: Sequence[str | int]) -> tuple[str | None, Sequence[str | int]] | None:
        """Return the column of a field and the way from there into its values; None without a column."""
        # The longest name counts: ``process.name`` is a column of this name, or the entry ``name`` of the
        # dictionaries in the column ``process``.
        longest = 1 + max((name.count(".") for name in (*self.fields, *self._names)), default=0)
        for n in range(min(longest, len(parts)), 0, -1):
            if not all(isinstance(part, str) for part in parts[:n]):
                continue
            name = ".".join(map(str, parts[:n]))
            if name in self.fields:
                return self.fields[name], parts[n:]
            if name in self._names:
                return name, parts[n:]
        return None

    def not_found(self, role: str, name: str, text: str, span: tuple[int, int] | None) -> CepError:
        """Return the error for a field without a column."""
        hint = nearest(name, [*self.source.schema, *self.fields])
        start, end = span or (0, len(text))
        cure = f"name its column, as in fields={{{name!r}: 'column'}}, or None for a field that no event has"
        place = underline(text, start, end - start)
        return ColumnNotFoundError(f"{role}: field {name!r} is no column.{hint} Else {cure}\n{place}")

    # --- time

    def ticks_of(self, what: str, duration: str | int) -> int:
        """Return a duration in ticks of the clock, the first column of ``order_by``."""
        if not self.order_by:
            raise CepError(f"{what} needs a clock: name the column of times, as in order_by='ts'")
        name = self.order_by[0]
        clock = self.source.schema[name]
        if clock.kind not in CLOCKS:
            raise CepError(f"{what} needs a clock, a column of times; column {name!r} is of type {clock}")
        if clock.kind in (INTEGER, FLOAT) and isinstance(duration, str):
            raise unit_missing(what, duration, name)
        if clock.kind in (TIME, DURATION) and isinstance(duration, int):
            raise CepError(
                f"{what}={duration}: column {name!r} has times, so write a unit, as in {duration}s"
            )
        return duration_ticks(duration, clock.unit)

    @cached_property
    def ticks(self) -> np.ndarray:
        """The ticks of the clock by position, int64 or float64; positions without a clock."""
        if not self.order_by or self.source.schema[self.order_by[0]].kind not in CLOCKS:
            return np.arange(self.n_events)
        values = self.column(self.order_by[0]).values
        return np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)


def step_into(value: Any, way: Sequence[str | int]) -> Any:
    """Return what is inside a value, by names of dictionaries and numbers in lists; None for nothing."""
    for step in way:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _coded(column: Column) -> Values:
    """Return the codes of a column and its distinct values, None last. Objects are not compared."""
    kind, missing = column.type.kind, nulls(column)
    if kind == TEXT:
        return np.where(missing, len(column.texts), column.values), [*map(str, column.texts), None]
    if column.values.ndim > 1 or kind not in (*CLOCKS, "boolean"):
        return np.arange(len(missing)), plain_values(column).tolist()
    codes, first = _distinct(column.values)
    values: list[Any] = column.values[first].tolist()
    if kind == "boolean":
        values = [value == 1 for value in values]
    elif kind in (TIME, DURATION):
        unit = f"{'M' if kind == TIME else 'm'}8[{column.type.unit or 'ns'}]"
        values = list(pd.Index(column.values[first].view(unit)))
    return np.where(missing, len(values), codes), [*values, None]


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of numbers, and where each of them is first."""
    codes, distinct = pd.factorize(values, use_na_sentinel=False)
    first = np.empty(len(distinct), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal codes, the last write wins: the first row
    return codes, first
