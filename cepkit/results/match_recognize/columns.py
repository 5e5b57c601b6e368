"""Columns of the results of MATCH_RECOGNIZE."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.aggregates import OF_FIRST_ARGUMENT
from cepkit.compile.match_recognize.values import column_of
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, TEXT, TIME, ColumnType, Source
from cepkit.frames.row_order import plain_values
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result: computed values, or rows of a column of the source."""

    type: ColumnType
    computed: list[Any] | pa.Array | None
    picked: Picked | None = None
    source: Source | None = None
    arrow: pa.DataType | None = None  # of computed values, if ``type`` does not tell it

    def values(self) -> list[Any]:
        """Return the values, times as ticks; None is null."""
        if self.picked is None or self.source is None:
            return _plain(self.computed)
        return plain_values(self.source.column(self.picked.column))[self.picked.rows].tolist()

    def measured(self) -> Measured:
        """Return the column as frames take it."""
        if self.picked is not None:
            return self.picked
        if self.computed is None or isinstance(self.computed, list):
            return arrow_of(self.computed or [], self.type, self.arrow)
        return self.computed

    def take(self, rows: np.ndarray) -> ResultColumn:
        """Return these rows of the column."""
        if self.picked is not None:
            return replace(self, picked=Picked(self.picked.column, self.picked.rows[rows]))
        if self.computed is None or isinstance(self.computed, list):
            values = self.computed or []
            return replace(self, computed=[values[row] for row in rows])
        return replace(self, computed=self.computed.take(pa.array(rows)))


def _plain(values: list[Any] | pa.Array | None) -> list[Any]:
    """Return values with times as ticks."""
    if values is None or isinstance(values, list):
        return values or []
    is_timed = pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type)
    return (values.cast(pa.int64()) if is_timed else values).to_pylist()


_ARROW = {INTEGER: pa.int64(), FLOAT: pa.float64(), BOOLEAN: pa.bool_(), TEXT: pa.string()}


def arrow_type(kind: ColumnType) -> pa.DataType | None:
    """Return the Arrow type of computed values; None if only the values tell it."""
    if kind.kind == TIME:
        return pa.timestamp(kind.unit, kind.timezone)
    if kind.kind == DURATION:
        return pa.duration(kind.unit)
    if kind.kind == LIST:
        item = None if kind.item is None else arrow_type(kind.item)
        return None if item is None else pa.list_(item)
    if kind.kind == MAP:
        parts = [None if of is None else arrow_type(of) for of in (kind.key, kind.item)]
        return None if None in parts else pa.map_(*parts)
    return _ARROW.get(kind.kind)


def arrow_of(values: list[Any], kind: ColumnType, of: pa.DataType | None = None) -> pa.Array:
    """Return values as an Arrow array of a type. Values that do not fit choose the type themselves.

    ``of`` is the Arrow type if ``kind`` does not tell it.

    """
    try:
        return _array(values, arrow_type(kind) or of)
    except OverflowError:
        raise CepError("a measure has integers beyond 64 bits; make them floats: CAST(… AS double)") from None


def _arrow_of_any(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:  # such as floats, and integers beyond 2**53
        return pa.array([None if value is None else float(value) for value in values])
    except (TypeError, ValueError, OverflowError):
        kinds = ", ".join(sorted({type(value).__name__ for value in values if value is not None}))
        raise CepError(f"a measure has values of several types: {kinds}; make them one by CAST") from None


def _array(values: list[Any], of: pa.DataType | None) -> pa.Array:
    if (of is None or pa.types.is_map(of)) and any(isinstance(value, dict) for value in values):
        values = [list(value.items()) if isinstance(value, dict) else value for value in values]
        of = _type_of_maps(values) if of is None else of
    try:
        return pa.array(values, of)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        if of is not None and pa.types.is_map(of):
            return pa.array(values, _type_of_maps(values))
        return _arrow_of_any(values)


def _type_of_maps(values: list[Any]) -> pa.DataType:
    """Return the Arrow type of maps as lists of entries, from the types of all keys and of all items."""
    entries = [entry for value in values if value for entry in value]
    return pa.map_(pa.array([key for key, _ in entries]).type, pa.array([item for _, item in entries]).type)


def column_of_measure(
    tree: ex.Expression, kind: ColumnType, values: list[Any] | pa.Array, source: Source
) -> ResultColumn:
    """Return a measure as a column.

    The type of a column of structs or bytes is known to its frame only, and a measure may have values of it.

    """
    of = _type_in_frame(tree, source) if arrow_type(kind) is None else None
    return ResultColumn(kind, values, arrow=of)


def _type_in_frame(tree: ex.Expression, source: Source) -> pa.DataType | None:
    """Return the Arrow type of an expression with the values of one column; None for others."""
    if isinstance(tree, rp.Navigation):
        return _type_in_frame(tree.operand, source)
    if isinstance(tree, rp.RowAggregate) and tree.function in OF_FIRST_ARGUMENT:
        return _type_in_frame(tree.arguments[0], source)
    if isinstance(tree, rp.RowAggregate) and tree.function == "array_agg":
        item = _type_in_frame(tree.arguments[0], source)
        return None if item is None else pa.list_(item)
    if not isinstance(tree, ex.Attribute | ex.Reference):
        return None
    of = source.arrow(column_of(tree.name or "", source.schema), np.empty(0, np.int64)).type
    return None if pa.types.is_null(of) else of
