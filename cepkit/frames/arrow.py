"""Arrow arrays and tables to columns, and errors for texts and values that Arrow cannot hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared.decimals import whole_numbers
from cepkit.engines.reducing import filled, one_chunk, present_values, vectors_of_arrow
from cepkit.engines.regex_measures import Measured, Picked
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
from cepkit.frames.reuse import reuse

NOT_FOR_ARROW = (
    pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError,
)  # fmt: skip
"""What Arrow raises for values that it cannot hold; some objects fail in Python's own conversions."""


def arrow_of_series(series: pd.Series, name: str, of: pa.DataType | None = None) -> pa.Array:
    """Return the values of a column of pandas as one Arrow array."""
    # Sparse values become dense, and long doubles become doubles. Times of a zone that Arrow does not know
    # become times in UTC.
    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    elif dtype == np.longdouble:
        series = series.astype(np.float64)
    elif isinstance(dtype, pd.DatetimeTZDtype) and zone_of(dtype) is None:
        series = series.dt.tz_convert("UTC")
    try:
        return one_chunk(array_of_series(series, of))
    except NOT_FOR_ARROW as error:
        raise CepError(no_array(series, name, error)) from None


def array_of_series(series: pd.Series, of: pa.DataType | None = None) -> pa.Array | pa.ChunkedArray:
    """Return a column of pandas as Arrow reads it, and objects of integers up to 2^64 - 1 as unsigned."""
    try:
        return pa.array(series, type=of, from_pandas=True)
    except OverflowError:
        if of is not None or pd.api.types.infer_dtype(series, skipna=True) != "integer":
            raise
        return pa.array(series, type=pa.uint64(), from_pandas=True)


@lru_cache(maxsize=64)
def zone_of(dtype: pd.DatetimeTZDtype) -> str | None:
    """Return Arrow's name of a time zone; None if Arrow cannot name it."""
    try:
        return pa.array(pd.Series([], dtype=dtype)).type.tz
    except NOT_FOR_ARROW:
        return None


def no_array(series: pd.Series, name: str, error: Exception) -> str:
    """Return the error message for a column that Arrow cannot hold, with a value that it refuses."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        type_name, cast = f"category of {dtype.categories.dtype}", "astype(str)"
    elif isinstance(dtype, np.dtype) and dtype.kind == "c":
        type_name, cast = str(dtype), "map(abs), or its real part"
    else:
        type_name, cast = str(dtype), "astype(str)"
    refused_value = _first_refused(series)
    value = (
        ""
        if refused_value is None
        else f", and holds {_shown(refused_value)} of type {type(refused_value).__name__}"
    )
    return (
        f"column {name!r} is of type {type_name}{value}; Arrow cannot hold such values ({error}). "
        f"Cast the column first: df[{name!r}].{cast}"
    )


def _first_refused(series: pd.Series) -> object | None:
    """Return the first object of a column that Arrow refuses, or None."""
    if series.dtype != object:
        return None
    for value in series:
        try:
            pa.array([value], from_pandas=True)
        except NOT_FOR_ARROW:
            return value
    return None


def _shown(value: object) -> str:
    text = repr(value).encode("ascii", "backslashreplace").decode().replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:59]}…"


# Find texts that are not valid UTF-8. Arrow takes them from files and buffers without a check.

_SHOWN = 40  # bytes of a text in an error


def invalid_text(array: pa.Array | pa.ChunkedArray, name: str, first_row: int = 0) -> CepError:
    """Return the error for an array with a text that is not valid UTF-8. It names the first such row."""
    # Time O(rows), so call it only after such a text was met. ``first_row`` is the number of the first row.
    place, row = "", _first_invalid(array)
    if row is not None:
        place = f" in row {first_row + row:,}"
        if not _is_nested(array.type):
            place += f": {_as_bytes(array.slice(row, 1))[0].as_py()[:_SHOWN]!r}"
    return CepError(
        f"column {name!r} has a text that is not valid UTF-8{place}. Read the file with its own encoding, or "
        "make the column binary"
    )


def are_texts_valid(array: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all texts of an array are valid UTF-8. A million texts take about 10 ms."""
    if _has_texts(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return False
    return True


def check_texts_of_table(table: pa.Table, first_row: int = 0) -> None:
    """Raise `CepError` when a text in a table is not valid UTF-8; ``first_row`` as in `invalid_text`."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if not are_texts_valid(column):
            raise invalid_text(column, name, first_row)


def check_texts_of_frame(frame: pd.DataFrame) -> None:
    """Raise `CepError` when a text in a pandas frame, or in its index, is not valid UTF-8."""
    levels = [
        (name, frame.index.get_level_values(i))
        for i, name in enumerate(frame.index.names)
        if not isinstance(frame.index, pd.RangeIndex)
    ]
    for name, values in [*((name, frame.iloc[:, i]) for i, name in enumerate(frame.columns)), *levels]:
        dtype = values.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            dtype = dtype.categories.dtype
        if isinstance(dtype, pd.ArrowDtype) or (
            isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"
        ):
            array = pa.array(values, from_pandas=True)
            if not are_texts_valid(array):
                raise invalid_text(array, str(name))


def _has_texts(of: pa.DataType) -> bool:
    """Return whether a type holds texts, also inside lists and structs."""
    if pa.types.is_dictionary(of):
        return _has_texts(of.value_type)
    if pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of):
        return True
    return any(_has_texts(of.field(i).type) for i in range(of.num_fields))


def _first_invalid(array: pa.Array | pa.ChunkedArray) -> int | None:
    """Return the first row with a text that is not valid, or None if Python reads all of them."""
    for row, value in enumerate(array):
        try:
            value.as_py()
        except UnicodeDecodeError:
            return row
    return None


def _is_nested(of: pa.DataType) -> bool:
    return bool(of.value_type.num_fields if pa.types.is_dictionary(of) else of.num_fields)


def _as_bytes(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts as bytes, which may be invalid texts."""
    if pa.types.is_dictionary(array.type):
        array = (
            array.dictionary_decode() if isinstance(array, pa.Array) else array.cast(array.type.value_type)
        )
    return array.cast(pa.binary_view() if pa.types.is_string_view(array.type) else pa.large_binary())


# Arrow arrays and tables to columns, for tables, polars, Arrow-backed pandas and Spark tasks.


_PLAIN_NUMBERS = pa.int64().id, pa.float64().id
INTEGERS = pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
_KINDS = {of.id: INTEGER for of in INTEGERS} | {
    pa.bool_().id: BOOLEAN, pa.float16().id: FLOAT, pa.float32().id: FLOAT, pa.float64().id: FLOAT,
    pa.string().id: TEXT, pa.large_string().id: TEXT, pa.string_view().id: TEXT,
}  # fmt: skip


def type_of_arrow(of: pa.DataType, *, nullable: bool = True) -> ColumnType:
    """Return the type of a column for an Arrow type."""
    if (kind := _KINDS.get(of.id)) is not None:
        return _plain_column(kind, None, None, nullable or kind != INTEGER)
    if pa.types.is_decimal(of):
        return ColumnType(FLOAT, nullable=True, scale=of.scale)
    if pa.types.is_timestamp(of):
        return _plain_column(TIME, of.unit, of.tz, nullable)
    if pa.types.is_date(of):
        return ColumnType(TIME, "s" if pa.types.is_date32(of) else "ms", None, nullable)
    if pa.types.is_duration(of) or pa.types.is_time(of):
        return ColumnType(DURATION, of.unit, None, nullable)
    if pa.types.is_dictionary(of):
        return type_of_arrow(of.value_type, nullable=nullable)
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return ColumnType(LIST, nullable=nullable, item=type_of_arrow(of.value_type))
    return ColumnType(OTHER, nullable=nullable)


_plain_column = lru_cache(maxsize=256)(ColumnType)  # a type of each batch of a stream


def column_of_arrow(array: pa.Array | pa.ChunkedArray, name: str, owner: object | None = None) -> Column:
    """Return the values of an Arrow array as a column, without a copy where the layout allows it."""
    # The codes of texts are kept for ``owner``, the frame with the array, and for its next call.
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
        return Column(column_type, filled(array.cast(pa.int8()), NULL_CODE))
    if column_type.kind == FLOAT:
        values = array if array.type in (pa.float32(), pa.float64()) else array.cast(pa.float64())
        return Column(column_type, filled(values, np.nan))
    if column_type.kind == INTEGER:
        return Column(column_type, _integers(array, name))
    if column_type.kind in (TIME, DURATION):
        if pa.types.is_date32(array.type):
            array = array.cast(pa.timestamp("s"))
        elif pa.types.is_time32(array.type):
            array = array.cast(pa.int32()).cast(pa.int64())
        return Column(column_type, filled(array.view(pa.int64()), NULL_INTEGER))
    values = np.empty(len(array), dtype=object)
    try:
        values[:] = array.to_pylist()
    except UnicodeDecodeError:
        raise invalid_text(array, name) from None
    return Column(column_type, values)


def taken(values: pa.Array | pa.ChunkedArray, rows: np.ndarray) -> pa.Array:
    """Return the values in these rows."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks == 1:
        values = values.chunk(0)
    if values.type.id in _PLAIN_NUMBERS and isinstance(values, pa.Array) and not values.null_count:
        return pa.array(values.to_numpy()[rows])  # numpy takes less time for few numbers
    return one_chunk(values.take(pa.array(rows)))


def rows_of(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Return these rows of a table, each column in one chunk."""
    return pa.Table.from_arrays([taken(column, rows) for column in table.columns], schema=table.schema)


def exact_decimals(array: pa.Array | pa.ChunkedArray, name: str, scale: int | None = None) -> Column:
    """Return decimals as integers that count 10^-scale; without a scale, the least that holds all digits."""
    array = one_chunk(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    least, most = (0, max(0, array.type.scale)) if scale is None else (scale, scale)
    while least < most:
        middle = (least + most) // 2
        if whole_numbers(array, middle) is None:
            least = middle + 1
        else:
            most = middle
    numbers = whole_numbers(array, most)
    if numbers is None:
        raise CepError(
            f"column {name!r} has decimals that do not fit 64 bits with {most} digits after the point; cast "
            "it to float64, or to fewer digits after the point, first"
        )
    return Column(ColumnType(INTEGER, str(most), nullable=True), numbers)


def kept_decimals(array: pa.Array, name: str, owner: object | None) -> Column:
    """Return the same as `exact_decimals`, from the call before if the column did not change."""
    if pa.types.is_dictionary(array.type) or not len(array):
        return exact_decimals(array, name)
    n, width = array.offset + len(array), array.type.byte_width
    values = [np.frombuffer(array.buffers()[1], f"V{width}", n)[array.offset :]]
    values.append(np.array([array.type.scale]))  # another type may read the same memory
    if array.null_count:
        values.append(present_values(array))
    return decimals_once(owner, name, values, lambda _: array, never_change=True)


def decimals_once(
    owner: object | None, name: str, values: Sequence[np.ndarray],
    read: Callable[[Sequence[np.ndarray]], pa.Array], *, never_change: bool = False,
) -> Column:  # fmt: skip
    """Return the array that ``read`` makes of values as `exact_decimals`, or what was kept for equal ones."""

    def numbers_of(copies: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        array = read(copies)
        column = exact_decimals(array, name)
        return column.values, np.array([int(column.type.unit or 0), array.type.scale])

    numbers, [scale, _] = reuse(owner, ("decimals", name), values, numbers_of, never_change=never_change)
    return Column(ColumnType(INTEGER, str(scale), nullable=True), numbers)


def list_item(array: pa.Array | pa.ChunkedArray, index: int, name: str) -> Column:
    """Return item ``index`` of every list as a column; null where the list is null or too short."""
    array = one_chunk(array)
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    offsets = array.offsets.to_numpy().astype(np.int64)
    present = present_values(array)
    place = (offsets[:-1] if index >= 0 else offsets[1:]) + index
    inside = present & (place >= offsets[:-1]) & (place < offsets[1:])
    items = array.values.take(pa.array(np.where(inside, place, 0), mask=~inside))
    return column_of_arrow(items, f"{name}[{index}]")


def _text(array: pa.Array, column_type: ColumnType) -> Column:
    """Return texts as codes and categories."""
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
        values.append(present_values(array))

    def codes(copies: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes and the texts of the column, computed once for the frame."""
        text_column = _text(array, of)
        return text_column.values, text_column.texts

    return Column(of, *reuse(owner, ("texts", name), values, codes, never_change=True))


def _integers(array: pa.Array, name: str) -> np.ndarray:
    """Return integers as int64. Raise if one does not fit."""
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
    return filled(array, NULL_INTEGER)


def repeated_column(name: str) -> CepError:
    """Return the error for a name that several columns have."""
    return CepError(f"column {name!r} occurs more than once; rename or drop one of them")


class FieldTypes(dict[str, ColumnType]):
    """The types of columns by name, and of fields of structs as ``user.id``, which are not listed."""

    def __init__(self, types: Mapping[str, ColumnType], arrow: pa.Schema):
        super().__init__(types)
        self._arrow = arrow

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._find(name) is not None

    def __missing__(self, name: str) -> ColumnType:
        column_type = self._find(name)
        if column_type is None:
            raise KeyError(name)
        return column_type

    def __ior__(self, more: Any) -> FieldTypes:  # type: ignore[override]
        self.update(more)
        return self

    def get(self, name: str, default: Any = None) -> Any:
        """Return the type of a column or a field."""
        return self[name] if self.__contains__(name) else default

    def _find(self, name: object) -> ColumnType | None:
        """Return the type of a field of a struct, such as ``user.id``, or None."""
        if not isinstance(name, str) or "." not in name:
            return None
        path = path_of(name, self._arrow.names)
        of = None if path is None else type_of_field(self._arrow.field(path[0]).type, path[1])
        return None if of is None else replace(type_of_arrow(of), nullable=True)


_DEEPEST = 100  # structs in each other; a name of very many parts would take minutes


def path_of(name: str, columns: Container[str]) -> tuple[str, list[str]] | None:
    """Return the column and the names of fields that ``user.id`` means; None if no column has this name."""
    parts = name.split(".")
    for n in range(len(parts) - 1, max(0, len(parts) - 1 - _DEEPEST), -1):
        if (column := ".".join(parts[:n])) in columns:
            return column, parts[n:]
    return None


def type_of_field(of: pa.DataType, fields: Sequence[str]) -> pa.DataType | None:
    """Return the type of a field of a struct; None if there is no such field."""
    for field in fields:
        if not pa.types.is_struct(of) or of.get_field_index(field) < 0:
            return None
        of = of.field(of.get_field_index(field)).type
    return of


def field_of(values: pa.Array | pa.ChunkedArray, fields: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Return a field of each struct, null where the struct is null."""
    return pc.struct_field(values, list(fields))


class ArrowSource:
    """An Arrow table as a source of columns (see ``frames/building.py``)."""

    def __init__(
        self, table: pa.Table, owner: object | None = None, carried: Mapping[str, str] = MappingProxyType({}),
        schema: Mapping[str, ColumnType] | None = None,
    ):  # fmt: skip
        self.owner, self._carried = owner, carried
        self.table = table = _without_views(table)
        self.n_rows, fields = table.num_rows, table.schema
        n_of_name = Counter(names) if len({*(names := fields.names)}) < len(names) else {}
        self.duplicates = frozenset(name for name, n in n_of_name.items() if n > 1)
        if schema is None:
            schema = {
                field.name: type_of_arrow(field.type, nullable=field.nullable and column.null_count > 0)
                for field, column in zip(fields, table.columns, strict=True)
            }
            schema |= dict.fromkeys([*self.duplicates, *carried], ColumnType(OTHER))
            schema = FieldTypes(schema, fields)
        self.schema: Mapping[str, ColumnType] = schema

    def is_untyped(self, name: str) -> bool:
        """Return whether a column is of Arrow's type null."""
        return name not in self.duplicates and pa.types.is_null(self._type(name))

    @property
    def clock(self) -> None:
        """None: the rows of a table have no labels."""
        return None

    @property
    def frame(self) -> pa.Table:
        """The table, without columns that hold no values of their own."""
        return self.table.drop_columns(list(self._carried)) if self._carried else self.table

    def storage(self, name: str) -> Hashable | None:
        if name in self.duplicates or name in self._carried:
            return None
        return self._type(name)

    def _type(self, name: str) -> pa.DataType:
        if name in self.table.schema.names:
            return self.table.schema.field(name).type
        return self._chunks(name).type

    def column(self, name: str) -> Column:
        return column_of_arrow(self._chunks(name), name, self.owner)

    def _chunks(self, name: str) -> pa.ChunkedArray:
        """Return a column of the table, or a field of a struct."""
        if name in self.duplicates:
            raise repeated_column(name)
        if name in self._carried:
            raise CepError(self._carried[name])
        if (
            name not in self.table.schema.names
            and (path := path_of(name, self.table.schema.names)) is not None
        ):
            return field_of(self.table.column(path[0]), path[1])
        return self.table.column(name)

    def item(self, name: str, index: int) -> Column:
        return list_item(self._chunks(name), index, name)

    def vectors(self, name: str) -> np.ndarray:
        return vectors_of_arrow(self._chunks(name), name)

    def decimals(self, name: str) -> Column:
        return kept_decimals(one_chunk(self._chunks(name)), name, self.owner)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column in these rows."""
        values = taken(self._chunks(name), rows)
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
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
            return _with_columns(self.table.slice(rows[0], len(rows)), columns, 0)
        return _with_columns(self.table.take(pa.array(rows)), columns, 0)

    def tagged(self, columns: Mapping[str, object]) -> pa.Table:
        """Return the whole table with ``columns`` after its own columns."""
        return _with_columns(self.table, columns, self.table.num_columns)

    def index_labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the row numbers, since a table has no other index."""
        return rows


_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_NEVER_VIEWS = {*_KINDS, pa.timestamp("s").id} - {pa.string_view().id}
_ENCODED = frozenset((*(of.id for of in _PLAIN), pa.run_end_encoded(pa.int32(), pa.int32()).id))


def without_view(array: pa.Array) -> pa.Array:
    """Return an array of a view type or with encoded runs in a plain type, and any other array unchanged."""
    if pa.types.is_run_end_encoded(array.type):
        rows = np.arange(array.offset, array.offset + len(array))
        run_of_row = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return without_view(array.values).take(pa.array(run_of_row))  # Arrow decodes runs of few types
    if (plain := plain_type(array.type)) != array.type:
        return array.cast(plain)
    if pa.types.is_dictionary(array.type) and array.type.value_type in _PLAIN:
        return pa.DictionaryArray.from_arrays(array.indices, without_view(array.dictionary))
    return array


def has_view(of: pa.DataType) -> bool:
    """Return whether a type, the type of its dictionary, or a part of it is a view, or has encoded runs."""
    if of.id in _NEVER_VIEWS:
        return False
    if pa.types.is_dictionary(of):
        of = of.value_type
    return of.id in _ENCODED or any(has_view(of.field(i).type) for i in range(of.num_fields))


def plain_type(of: pa.DataType) -> pa.DataType:
    """Return a type with plain types instead of views, also in lists and structs."""
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(plain_type(field.type)) for field in of])
    for is_list, make in (
        (pa.types.is_list, pa.list_),
        (pa.types.is_large_list, pa.large_list),
        (pa.types.is_fixed_size_list, lambda item: pa.list_(item, of.list_size)),
    ):
        if is_list(of):
            return make(of.value_field.with_type(plain_type(of.value_type)))
    return _PLAIN.get(of, of)


def _without_views(table: pa.Table) -> pa.Table:
    """Return the table with plain types instead of views and runs, whose rows Arrow cannot take yet."""
    if not any(has_view(field.type) for field in table.schema):
        return table
    columns, fields = [], []
    for column, field in zip(table.columns, table.schema, strict=True):
        if has_view(field.type):
            parts = column.chunks or [pa.array([], field.type)]
            column = pa.chunked_array(list(map(without_view, parts)))
        columns.append(column)
        fields.append(field.with_type(column.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


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
