"""Batches of a stream: their schema and order, as Arrow, and results as the same kind of frame."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.engines.reducing import one_chunk
from cepkit.errors import CepError, OrderError, column_not_found, nearest
from cepkit.events import INTEGER, NULL_INTEGER, TEXT, Column, ColumnType
from cepkit.frames.arrow import ArrowSource, FieldTypes, arrow_of_series, path_of, plain_type, type_of_arrow
from cepkit.frames.building import stream_order
from cepkit.frames.pandas import array_of_arrow, arrow_of_objects, frame_of_arrays
from cepkit.frames.sources import no_rows, schema_of_export, table_of_export
from cepkit.streaming.values import TextCodes, array_of_pandas, array_of_values, fit
from cepkit.values import dataclass, field, replace

_SPELLINGS = {
    "str": pa.string(), "text": pa.string(), "category": pa.string(), "int": pa.int64(),
    "integer": pa.int64(), "float": pa.float64(), "double": pa.float64(), "boolean": pa.bool_(),
    "date": pa.date32(),
}  # fmt: skip
_KNOWN = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool"),
    *("string", "date32", "timestamp[us]", "timestamp[us, UTC]", "duration[us]", "list[float64]"),
)
_WITH_ARGUMENT = re.compile(r"(\w+)\s*[\[<]\s*(.+?)\s*[\]>]")
_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class StreamSchema:
    """The columns of a stream, fixed for all its batches."""

    arrow: pa.Schema  # plain types (no dictionaries, no views), with nullability
    # Ordered categories of text columns, from least to greatest. Other texts are errors.
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def columns(self) -> dict[str, ColumnType]:
        """The compiler's type of every column."""
        types = {
            column.name: replace(
                type_of_arrow(column.type, nullable=column.nullable), ordered=self.ordered.get(column.name)
            )
            for column in self.arrow
        }
        return FieldTypes(types, self.arrow)

    def source(self, table: pa.Table | None = None) -> ArrowSource:
        """Return a table with some of these columns as a source; without a table, one with no rows."""
        return ArrowSource(self.arrow.empty_table() if table is None else table, schema=self.columns)

    def places_in(self, labels: pd.Index) -> list[int] | None:
        """Return where a frame with these labels has the columns; None if one is missing, or any repeated."""
        known: tuple | None = vars(self).get("_places")  # of the last frame; most frames share their labels
        if known is None or not known[0].is_(labels):
            is_whole = labels.is_unique and all(name in labels for name in self.arrow.names)
            places = [cast(int, labels.get_loc(name)) for name in self.arrow.names] if is_whole else None
            vars(self)["_places"] = known = labels, places
        return known[1]

    def only(self, names: Iterable[str]) -> StreamSchema:
        """Return the schema of these columns, some by the names of their fields; at least of one column."""
        wanted = set(names)
        names_of_schema = set(self.arrow.names)
        wanted |= {path[0] for name in wanted if (path := path_of(name, names_of_schema)) is not None}
        fields = [column for column in self.arrow if column.name in wanted]
        return StreamSchema(
            pa.schema(fields or [self.arrow.field(0)]),
            {name: texts for name, texts in self.ordered.items() if name in wanted},
        )

    def without_nulls(self, names: tuple[str, ...]) -> StreamSchema:
        """Return the schema with these columns declared never null."""
        columns = [f.with_nullable(False) if f.name in names else f for f in self.arrow]
        return StreamSchema(pa.schema(columns), self.ordered)


# --- schemas


def schema_of(given: Any) -> StreamSchema:
    """Return the schema that the user describes."""
    schema = _schema_of(given)
    names = schema.arrow.names
    if not names:
        raise CepError("schema: a stream needs at least one column")
    if twice := sorted(name for name, n in Counter(names).items() if n > 1):
        raise CepError(f"schema: column {twice[0]!r} occurs twice")
    return schema


def _schema_of(schema: Any) -> StreamSchema:
    if isinstance(schema, StreamSchema):
        return schema
    if isinstance(schema, pd.DataFrame):
        return _schema_of_pandas(schema)
    sql = sys.modules.get("pyspark.sql")
    if sql is not None and isinstance(schema, sql.DataFrame):
        schema = schema.schema
    if type(schema).__name__ == "StructType" and type(schema).__module__.startswith("pyspark."):
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(schema)
    if isinstance(schema, Mapping):
        return _schema_of_mapping(schema)
    if isinstance(schema, pa.Table | pa.RecordBatch):
        schema = schema.schema
    elif hasattr(schema, "__arrow_c_stream__"):
        mistake = None if isinstance(schema, pa.RecordBatchReader) else no_rows(schema)
        if mistake is not None:
            raise CepError(f"schema: {mistake}")
        schema = schema_of_export(schema)
    if not isinstance(schema, pa.Schema):
        raise CepError(
            "schema: expected a mapping of column names to types, a pyarrow.Schema or a frame, got "
            f"{type(schema).__name__}"
        )
    return StreamSchema(pa.schema([pa.field(f.name, _plain_type(f.type), f.nullable) for f in schema]))


def _schema_of_pandas(frame: pd.DataFrame) -> StreamSchema:
    fields, ordered = [], {}
    for name in frame.columns:
        if not isinstance(name, str):
            raise CepError(f"schema: the name of a column must be text, got {name!r}")
        if name in frame.columns[frame.columns.duplicated()]:
            raise CepError(f"schema: column {name!r} occurs twice")
        if name.encode(errors="replace") != name.encode(errors="surrogatepass"):
            raise CepError(f"schema: a column has the name {name!a}, which is not valid Unicode")
        fields.append(_field_of_dtype(name, frame[name].dtype, ordered, frame[name]))
    return StreamSchema(pa.schema(fields), ordered)


def _schema_of_mapping(given: Mapping[str, Any]) -> StreamSchema:
    fields, ordered = [], {}
    for name, column_type in given.items():
        if not isinstance(name, str):
            raise CepError(f"schema: the name of a column must be text, got {name!r}")
        if isinstance(column_type, str):
            text, never_null = re.subn(r"\s+not\s+null\s*$", "", column_type.strip(), flags=re.IGNORECASE)
            fields.append(pa.field(name, _type_of_text(name, text), not never_null))
        elif isinstance(column_type, pa.DataType):
            fields.append(pa.field(name, _plain_type(column_type)))
        else:
            try:
                dtype = pd.api.types.pandas_dtype(column_type)
            except TypeError:
                raise CepError(f"schema: column {name!r} has {column_type!r}, which is not a type") from None
            fields.append(_field_of_dtype(name, dtype, ordered))
    return StreamSchema(pa.schema(fields), ordered)


def _field_of_dtype(name: str, dtype: Any, ordered: dict, values: pd.Series | None = None) -> pa.Field:
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories is None:
            return pa.field(name, pa.string())
        inner = arrow_of_series(pd.Series(dtype.categories), name).type
        if dtype.ordered and type_of_arrow(inner).kind == TEXT:
            ordered[name] = tuple(dtype.categories)
        return pa.field(name, _plain_type(inner))
    never_null = isinstance(dtype, np.dtype) and dtype.kind in "iub"
    sample = pd.Series([], dtype=dtype) if values is None else values
    is_of_objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
    array = arrow_of_objects(sample) if is_of_objects else None
    try:
        if array is None:
            array = arrow_of_series(sample if dtype.kind == "O" else sample.iloc[:0], name)
    except CepError as error:
        raise CepError(f"schema: {error}") from None
    return pa.field(name, _plain_type(array.type), not never_null)


def _type_of_text(name: str, text: str) -> pa.DataType:
    column_type = _parse_type(text)
    if column_type is None:
        raise CepError(
            f"schema: column {name!r} has the unknown type {text!r}."
            f"{nearest(text, [*_KNOWN, *_SPELLINGS])} Types: {list(_KNOWN)}"
        )
    return column_type


def _parse_type(text: str) -> pa.DataType | None:
    text = text.strip()
    if text.lower() in _SPELLINGS:
        return _SPELLINGS[text.lower()]
    if matched := _WITH_ARGUMENT.fullmatch(text):
        base, argument = matched[1].lower(), matched[2]
        unit, _, zone = (part.strip() for part in argument.partition(","))
        if base in ("list", "array"):
            item = _parse_type(argument)
            return None if item is None else pa.list_(item)
        if unit in _UNITS and base in ("timestamp", "datetime64"):
            return pa.timestamp(unit, zone.removeprefix("tz=").strip() or None)
        if unit in _UNITS and base in ("duration", "timedelta64"):
            return pa.duration(unit)
    try:
        return _plain_type(pa.type_for_alias(text.lower()))
    except ValueError:
        return None


def _plain_type(of: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(of):
        return _plain_type(of.value_type)
    if pa.types.is_null(of):
        return pa.string()
    if pa.types.is_run_end_encoded(of):
        return _plain_type(of.value_type)
    return plain_type(of)


# --- batches as tables


def read_batch(batch: Any, schema: StreamSchema, newest: pa.Table | None = None) -> tuple[pa.Table, Kind]:
    """Return a batch (see `Stream.push`) as a table with exactly the columns of the schema, and its kind."""
    # ``newest`` has the order columns of the newest event so far.
    if isinstance(batch, list):
        arrays, kind = _arrays_of_rows(batch, schema, newest), Kind("rows")
    else:
        columns = _columns_of(batch, schema)
        arrays = _arrays_of_columns(columns, schema)
        if isinstance(batch, pd.DataFrame):
            kind = Kind("pandas", {name: columns[name].dtype for name in schema.arrow.names})
        else:
            kind = kind_of_batch(batch)
    table = pa.table(arrays, schema=schema.arrow)
    for name, texts in schema.ordered.items():
        present = table.column(name).drop_null()
        others = present.filter(pc.invert(pc.is_in(present, pa.array(texts, present.type))))
        if len(others):
            other = others[0].as_py()
            raise CepError(
                f"batch: column {name!r} holds {other!r}, but its ordered categories are {list(texts)}"
            )
    return table, kind


def table_of_batch(batch: Any, schema: StreamSchema) -> pa.Table:
    """Return a batch as a table with exactly the columns of the schema."""
    return read_batch(batch, schema)[0]


def _arrays_of_columns(columns: Mapping[str, Any], schema: StreamSchema) -> list[pa.Array | pa.ChunkedArray]:
    arrays = []
    for wanted in schema.arrow:
        if wanted.name not in columns:
            raise column_not_found("batch", wanted.name, columns)
        array = columns[wanted.name]
        if array is None:
            raise CepError(f"batch: column {wanted.name!r} occurs more than once; rename or drop one of them")
        is_arrow = isinstance(array, pa.Array | pa.ChunkedArray)
        arrays.append(fit(array, wanted) if is_arrow else array_of_pandas(array, wanted))
    return arrays


def _columns_of(batch: Any, schema: StreamSchema) -> dict[str, Any]:
    """Return the columns by name; None for a repeated name."""
    wanted = schema.arrow.names
    if isinstance(batch, pd.DataFrame):
        labels, array = batch.columns, cast(Any, batch)._get_column_array  # a Series takes far longer
        if (places := schema.places_in(labels)) is not None:
            return {name: array(place) for name, place in zip(wanted, places, strict=True)}
        doubled = set(labels[labels.duplicated()])
        return {name: None if name in doubled else array(i) for i, name in enumerate(labels)}
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    elif isinstance(batch, pa.RecordBatchReader):
        batch = batch.read_all()  # a stream reads each batch once
    elif not isinstance(batch, pa.Table) and hasattr(batch, "__arrow_c_stream__"):
        if mistake := no_rows(batch):
            raise CepError(f"batch: {mistake}")
        batch = table_of_export(batch, wanted)
    if not isinstance(batch, pa.Table):
        raise CepError(
            f"a batch is a pandas or polars DataFrame, an Arrow table or a list of dicts, got "
            f"{type(batch).__module__}.{type(batch).__name__}"
        )
    names = batch.schema.names
    return {name: None if n > 1 else batch.column(name) for name, n in Counter(names).items()}


def _arrays_of_rows(rows: list, schema: StreamSchema, newest: pa.Table | None) -> list[pa.Array]:
    arrays = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise CepError(f"a batch as a list has a dict per event, got {type(row).__name__}")
    for wanted in schema.arrow:
        name = wanted.name
        for number, row in enumerate(rows):
            if name not in row:
                raise column_not_found(f"batch, event {number}", name, row)
        before = newest.column(name)[0] if newest is not None and name in newest.schema.names else None
        arrays.append(array_of_values([row[name] for row in rows], wanted, before))
    return arrays


def stable_column(column: Column, of: ColumnType, name: str, codes: TextCodes | None) -> Column:
    """Return a column of a batch with the same dtype and the same text codes as in every batch."""
    # ``of`` is the column's type in the schema. ``codes``, for texts, learn the new ones.
    values = column.values
    if codes is not None:
        values = codes.encode(values, column.categories)
        return Column(of, values, codes.texts)
    if of.kind == INTEGER and of.nullable:
        values = values.astype(np.int64, copy=False)
        if not column.type.nullable and (values == NULL_INTEGER).any():
            raise CepError(
                f"batch: column {name!r} holds -2^63, which cepkit uses for null; if the column is never "
                "null, declare it in the schema: 'int64 not null'"
            )
    return Column(of, values)


# --- results as frames


@dataclass(frozen=True)
class Kind:
    """A kind of frame: ``pandas`` (with dtypes of its columns), ``arrow``, ``polars`` or ``rows``."""

    name: str
    dtypes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shares_memory(self) -> bool:
        """Whether a batch, as a table, may have memory that others write to."""
        of_arrow = any(isinstance(dtype, pd.ArrowDtype) for dtype in self.dtypes.values())
        return of_arrow or self.name not in ("pandas", "rows")

    def native(self, table: pa.Table, column_of_result: Mapping[str, str]) -> Any:
        """Return a table as a frame of this kind."""
        # ``column_of_result`` maps result columns to columns of the stream. In pandas, a result column gets
        # the dtype of its stream column if that dtype can hold the values.
        if self.name == "rows":
            return table.to_pylist()
        if self.name == "polars":
            import polars

            return polars.from_arrow(table)
        if self.name == "arrow":
            return table
        arrays = {}
        for name, values in zip(table.column_names, table.columns, strict=True):
            values, dtype = one_chunk(values), None
            if name in column_of_result:
                dtype = self.dtypes.get(column_of_result[name])
            if isinstance(dtype, pd.StringDtype):
                arrays[name] = dtype.__from_arrow__(values)
                continue
            array = array_of_arrow(values)
            if dtype is not None and array.dtype != dtype and _can_hold(dtype, series := pd.Series(array)):
                array = series.astype(dtype).array
            arrays[name] = array
        return frame_of_arrays(arrays)


def _can_hold(dtype: Any, values: pd.Series) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        return bool(values.dropna().isin(dtype.categories).all())
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_null(dtype.pyarrow_dtype):
        return False
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return not values.hasnans
    return True


def kind_of_batch(batch: Any) -> Kind:
    """Return the kind of frame of a batch; ``pandas`` if it is no frame."""
    if isinstance(batch, pd.DataFrame):
        return Kind("pandas", dict(zip(batch.columns, batch.dtypes, strict=True)))
    if isinstance(batch, list):
        return Kind("rows")
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(batch, polars.DataFrame):
        return Kind("polars")
    return Kind("arrow" if hasattr(batch, "__arrow_c_stream__") else "pandas")


# Sort the batches of a stream, and refuse rows before the newest event.


def ordered_batch(
    table: pa.Table, newest: pa.Table | None, by: tuple[str, ...], schema: StreamSchema
) -> tuple[pa.Table, pa.Table]:
    """Return a batch in stream order, and its order columns ``by``."""
    # ``newest`` has the order columns of the newest event so far, one row.
    keys = _order_columns(table, by, schema)
    if len(by) == 1 and _is_in_order(keys.column(0), None if newest is None else newest.column(0)):
        return table, keys
    order = stream_order(ArrowSource(keys), by)
    if order is not None:
        table, keys = table.take(pa.array(order)), keys.take(pa.array(order))
    if newest is not None and (n_late := count_late(keys, newest, by)):
        shown = ", ".join(f"{name} = {newest.column(name)[0]}" for name in by)
        raise OrderError(
            f"{n_late:,} of the batch's {len(keys):,} rows come before the newest event so far "
            f"({shown}); a stream cannot go back: sort its source, or remove late rows before push()"
        )
    return table, keys


def _is_in_order(clock: pa.ChunkedArray, newest: pa.ChunkedArray | None) -> bool:
    """Return whether times or integers are in order, after the newest one; False for other columns."""
    ticks, before = _ticks(clock), None if newest is None else _ticks(newest)
    if ticks is None or not len(ticks) or ticks[0] == NULL_INTEGER or (newest is not None and before is None):
        return False
    return bool((ticks[1:] >= ticks[:-1]).all()) and (before is None or before[0] <= ticks[0])


def _ticks(clock: pa.ChunkedArray) -> np.ndarray | None:
    """Return times or integers without nulls as numbers; None for other columns."""
    if clock.null_count or not (pa.types.is_timestamp(clock.type) or pa.types.is_integer(clock.type)):
        return None
    array = one_chunk(clock)
    return (array.view(pa.int64()) if pa.types.is_timestamp(clock.type) else array).to_numpy()


def count_late(keys: pa.Table, newest: pa.Table, by: tuple[str, ...]) -> int:
    """Return how many of the first rows of a sorted batch come before the newest event so far."""
    order = stream_order(ArrowSource(pa.concat_tables([newest, keys])), by)
    return 0 if order is None else int(np.flatnonzero(order == 0)[0])


def _order_columns(table: pa.Table, by: tuple[str, ...], schema: StreamSchema) -> pa.Table:
    """Return the order columns, with ordered categories as ranks."""
    columns = {}
    for name in by:
        columns[name] = table.column(name)
        if name in schema.ordered:
            columns[name] = pc.index_in(columns[name], pa.array(schema.ordered[name], columns[name].type))
    return pa.table(columns)
