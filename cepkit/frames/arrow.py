"""Arrow arrays and tables to columns, for tables, polars, Arrow-backed pandas and Spark tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.engines.measures.reducing import one_chunk, vectors_of_arrow
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.errors import CepError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    LIST,
    NULL_CODE,
    NULL_INTEGER,
    OTHER,
    TEXT,
    TIME,
    Column,
    ColumnType,
)
from cepkit.frames.conversion import are_texts_valid, invalid_text
from cepkit.frames.reuse import reuse


def type_of_arrow(of: pa.DataType, *, nullable: bool = True) -> ColumnType:
    """Return the column type of an Arrow type."""
    if pa.types.is_boolean(of):
        return ColumnType(BOOLEAN, nullable=True)
    if pa.types.is_integer(of):
        return ColumnType(INTEGER, nullable=nullable)
    if pa.types.is_floating(of) or pa.types.is_decimal(of):
        return ColumnType(FLOAT, nullable=True)
    if pa.types.is_timestamp(of):
        return ColumnType(TIME, of.unit, of.tz, nullable)
    if pa.types.is_date(of):
        return ColumnType(TIME, "s" if pa.types.is_date32(of) else "ms", None, nullable)
    if pa.types.is_duration(of) or pa.types.is_time(of):
        return ColumnType(DURATION, of.unit, None, nullable)
    if pa.types.is_dictionary(of):
        return type_of_arrow(of.value_type, nullable=nullable)
    if pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of):
        return ColumnType(TEXT, nullable=True)
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return ColumnType(LIST, nullable=nullable, item=type_of_arrow(of.value_type))
    return ColumnType(OTHER, nullable=nullable)


def column_of_arrow(array: pa.Array | pa.ChunkedArray, name: str, owner: object | None = None) -> Column:
    """Return the values of an Arrow array as a column, without a copy where the layout allows it.

    The codes of texts are kept for ``owner``, the frame with the array, and for its next call.
    """
    array = one_chunk(array)
    column_type = type_of_arrow(array.type, nullable=array.null_count > 0)
    if pa.types.is_dictionary(array.type) and column_type.kind != TEXT:
        array = array.dictionary_decode()
    if column_type.kind == TEXT:
        try:
            return _text(array, column_type) if owner is None else _kept_text(array, column_type, name, owner)
        except UnicodeDecodeError:
            raise invalid_text(array, name) from None
    if column_type.kind == BOOLEAN:
        return Column(
            column_type, pc.fill_null(array.cast(pa.int8()), NULL_CODE).to_numpy(zero_copy_only=False)
        )
    if column_type.kind == FLOAT:
        values = array if array.type in (pa.float32(), pa.float64()) else array.cast(pa.float64())
        return Column(column_type, _numpy(values))
    if column_type.kind == INTEGER:
        return Column(column_type, _integers(array, name))
    if column_type.kind in (TIME, DURATION):
        if pa.types.is_date32(array.type):
            array = array.cast(pa.timestamp("s"))
        elif pa.types.is_time32(array.type):
            array = array.cast(pa.int32())
        return Column(
            column_type, pc.fill_null(array.cast(pa.int64()), NULL_INTEGER).to_numpy(zero_copy_only=False)
        )
    values = np.empty(len(array), dtype=object)
    try:
        values[:] = array.to_pylist()
    except UnicodeDecodeError:
        raise invalid_text(array, name) from None
    return Column(column_type, values)


def list_item(array: pa.Array | pa.ChunkedArray, index: int, name: str) -> Column:
    """Return item ``index`` of every list as a column; null where the list is null or too short."""
    array = one_chunk(array)
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    offsets = array.offsets.to_numpy().astype(np.int64)
    present = array.is_valid().to_numpy(zero_copy_only=False)
    place = (offsets[:-1] if index >= 0 else offsets[1:]) + index
    inside = present & (place >= offsets[:-1]) & (place < offsets[1:])
    items = array.values.take(pa.array(np.where(inside, place, 0), mask=~inside))
    return column_of_arrow(items, f"{name}[{index}]")


def _text(array: pa.Array, column_type: ColumnType) -> Column:
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int32()), NULL_CODE)
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    categories = objects_of_texts(array.dictionary)
    if array.dictionary.null_count:  # a dictionary may have null as a value
        is_null = np.array([text is None for text in categories])
        codes = np.where(is_null[codes] & (codes >= 0), NULL_CODE, codes)
        categories = np.array(["" if text is None else text for text in categories], dtype=object)
        column_type = ColumnType(TEXT, nullable=True)
    return Column(column_type, codes, categories)


def objects_of_texts(array: pa.Array) -> np.ndarray:
    """Return texts as an array of Python's objects; null is None."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        with suppress(pa.ArrowException):  # for a text that is not valid
            return array.to_numpy(zero_copy_only=False)
    return np.array(array.to_pylist(), dtype=object)


def _kept_text(array: pa.Array, of: ColumnType, name: str, owner: object) -> Column:
    """Return the same as `_text`. A column of texts that did not change has the codes of the call before."""
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)) or not len(array):
        return _text(array, of)
    width = np.int32 if pa.types.is_string(array.type) else np.int64
    _, offsets, texts = array.buffers()
    ends = np.frombuffer(offsets, width, array.offset + len(array) + 1)[array.offset :]
    bytes_of_texts = np.frombuffer(texts, np.uint8)[ends[0] : ends[-1]] if texts else np.empty(0, np.uint8)
    values = [ends, bytes_of_texts]
    if array.null_count:
        values.append(array.is_valid().to_numpy(zero_copy_only=False))

    def codes(copies: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        text_column = _text(array, of)
        return text_column.values, text_column.texts

    return Column(of, *reuse(owner, ("texts", name), values, codes, never_change=True))


def _integers(array: pa.Array, name: str) -> np.ndarray:
    if pa.types.is_uint64(array.type):
        greatest = pc.max(array).as_py()
        if greatest is not None and greatest >= 2**63:
            raise CepError(
                f"column {name!r}: {greatest} does not fit a signed 64-bit integer; cast the column first"
            )
        array = array.cast(pa.int64())
    if array.null_count == 0:
        return array.to_numpy(zero_copy_only=False)
    array = array.cast(pa.int64())
    if pc.min(array).as_py() == NULL_INTEGER:
        raise CepError(
            f"column {name!r} has nulls and the value -2^63, which means null here; drop one of them"
        )
    return pc.fill_null(array, NULL_INTEGER).to_numpy(zero_copy_only=False)


def _numpy(array: pa.Array) -> np.ndarray:
    if array.null_count:
        array = pc.fill_null(array, float("nan"))
    return array.to_numpy(zero_copy_only=False)


def repeated_column(name: str) -> CepError:
    """Return the error for a name that several columns have."""
    return CepError(f"column {name!r} occurs more than once; rename or drop one of them")


class ArrowSource:
    """An Arrow table as a source of columns (see ``frames/building.py``)."""

    def __init__(
        self, table: pa.Table, owner: object | None = None, carried: Mapping[str, str] = MappingProxyType({})
    ):
        self.owner, self._carried = owner, carried
        table = _without_views(table)
        self.table = table
        self.n_rows = table.num_rows
        names = table.schema.names
        self.duplicates = frozenset(name for name, n in Counter(names).items() if n > 1)
        self.schema = {
            field.name: type_of_arrow(field.type, nullable=field.nullable and table.column(i).null_count > 0)
            for i, field in enumerate(table.schema)
        }
        self.schema |= dict.fromkeys([*self.duplicates, *carried], ColumnType(OTHER))

    def is_untyped(self, name: str) -> bool:
        """Return whether a column is of Arrow's type null."""
        return name not in self.duplicates and pa.types.is_null(self.table.schema.field(name).type)

    @property
    def clock(self) -> None:
        """None: the rows of a table have no labels."""
        return None

    @property
    def frame(self) -> pa.Table:
        """The table, without columns that hold no values of their own."""
        return self.table.drop_columns(list(self._carried)) if self._carried else self.table

    def storage(self, name: str) -> Hashable | None:
        """Return what decides, beside its type, how a column becomes an Arrow array; None for the values."""
        if name in self.duplicates or name in self._carried:
            return None
        return self.table.schema.field(name).type

    def column(self, name: str) -> Column:
        """Return a column by name."""
        return column_of_arrow(self._chunks(name), name, self.owner)

    def _chunks(self, name: str) -> pa.ChunkedArray:
        if name in self.duplicates:
            raise repeated_column(name)
        if name in self._carried:
            raise CepError(self._carried[name])
        return self.table.column(name)

    def item(self, name: str, index: int) -> Column:
        """Return item ``index`` of a list column."""
        return list_item(self._chunks(name), index, name)

    def vectors(self, name: str) -> np.ndarray:
        """Return an array column as a matrix."""
        return vectors_of_arrow(self._chunks(name), name)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column in these rows."""
        values = one_chunk(self._chunks(name).take(pa.array(rows)))
        if not are_texts_valid(values):
            raise invalid_text(self._chunks(name), name)
        return values

    # --- results

    def result(self, columns: Mapping[str, Measured]) -> pa.Table:
        """Return the result columns as a table; values of a column keep its type."""
        data = {}
        for name, values in columns.items():
            data[name] = self.arrow(values.column, values.rows) if isinstance(values, Picked) else values
        return pa.table(data)

    def rows(self, rows: np.ndarray, columns: Mapping[str, np.ndarray]) -> pa.Table:
        """Return these rows of the table, with ``columns`` before its own columns."""
        return _with_columns(self.table.take(pa.array(rows)), columns, 0)

    def tagged(self, columns: Mapping[str, object]) -> pa.Table:
        """Return the whole table with ``columns`` after its own columns."""
        return _with_columns(self.table, columns, self.table.num_columns)

    def index_labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the row numbers, since a table has no other index."""
        return rows


_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def without_view(array: pa.Array) -> pa.Array:
    """Return an array of a view type or with encoded runs in a plain type, and any other array unchanged."""
    if pa.types.is_run_end_encoded(array.type):
        rows = np.arange(array.offset, array.offset + len(array))
        run_of_row = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return without_view(array.values).take(pa.array(run_of_row))  # Arrow decodes runs of few types
    if array.type in _PLAIN:
        return array.cast(_PLAIN[array.type])
    if pa.types.is_dictionary(array.type) and array.type.value_type in _PLAIN:
        return pa.DictionaryArray.from_arrays(array.indices, without_view(array.dictionary))
    return array


def has_view(of: pa.DataType) -> bool:
    """Return whether a type, or the type of its dictionary, is a view type, or has encoded runs."""
    return (
        of in _PLAIN
        or pa.types.is_run_end_encoded(of)
        or (pa.types.is_dictionary(of) and of.value_type in _PLAIN)
    )


def _without_views(table: pa.Table) -> pa.Table:
    """Return the table with plain types instead of views and runs, whose rows Arrow cannot take yet."""
    if not any(has_view(field.type) for field in table.schema):
        return table
    columns, fields = [], []
    for column, field in zip(table.columns, table.schema, strict=True):
        if has_view(field.type):
            column = pa.chunked_array(
                [without_view(part) for part in column.chunks] or [_no_text(field.type)]
            )
        columns.append(column)
        fields.append(field.with_type(column.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def _no_text(of: pa.DataType) -> pa.Array:
    return without_view(pa.array([], of))


def check_free(added: Iterable[str], names: Container[str]) -> None:
    """Raise `CepError` when a frame with these column names has one that a result adds."""
    for name in added:
        if name in names:
            raise CepError(
                f"the frame has a column {name!r} already; rename it, cepkit adds one of this name"
            )


def _with_columns(table: pa.Table, columns: Mapping[str, object], place: int) -> pa.Table:
    check_free(columns, table.schema.names)
    for offset, (name, values) in enumerate(columns.items()):
        table = table.add_column(place + offset, name, pa.array(values, from_pandas=True))
    return table
