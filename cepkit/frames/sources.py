"""Frames in memory as sources of columns; here the frames of other libraries come in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.typing import DataFrameGroupBy, SeriesGroupBy

from cepkit.errors import CepError
from cepkit.events import Column, ColumnType, Frame, Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.pandas import PandasSource

# Objects that are no frames, and how to make a frame of them.


def no_frame(given: Any) -> str:
    """Return the error message for an object that is no frame: what to write instead."""
    if isinstance(given, pd.Series):
        return "a pandas Series has no columns; call to_frame('value') first"
    if isinstance(given, DataFrameGroupBy | SeriesGroupBy):
        by = repr(given.keys) if isinstance(given.keys, str | list) else "…"
        return f"search the frame itself and name the groups: df.cep.match(…, partition_by={by})"
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        read = "read_csv" if ".csv" in path.lower() or ".tsv" in path.lower() else "read_parquet"
        return f"{path!r} is the path of a file; read it first: pd.{read}({path!r}).cep.match(…)"
    if isinstance(given, Mapping):
        return "a mapping of columns is not a frame yet; make one first: pd.DataFrame(columns).cep.match(…)"
    if isinstance(given, list | tuple):
        return (
            f"a {type(given).__name__} of events is not a frame yet; make one first: "
            "pd.DataFrame(events).cep.match(…)"
        )
    return (
        f"cannot search a {type(given).__module__}.{type(given).__name__}; "
        "a frame is a pandas, polars or Spark DataFrame or an Arrow table"
    )


_ROW_NUMBERS = {b"cepkit": b"row numbers"}
_WITHOUT_ARROW = ("Object", "Int128", "UInt128")  # polars types that Arrow cannot hold


def source_of_frame(frame: Any) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a frame as a source of columns, and a function that converts results to the frame's kind."""
    if isinstance(frame, pd.DataFrame):
        return PandasSource(frame), _unchanged
    if isinstance(frame, pa.Table):
        return ArrowSource(frame, frame), _unchanged
    if isinstance(frame, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([frame]), frame), _unchanged
    if mistake := no_rows(frame):
        raise CepError(mistake)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.DataFrame):
        return _source_of_polars(frame)
    table = table_of_export(frame)
    if not any(hasattr(frame, name) for name in ("__len__", "num_rows", "shape")):
        _check_rows_again(frame, table)
    return ArrowSource(table, frame), _unchanged


def no_rows(given: Any) -> str | None:
    """Return the error message for an object whose rows cannot be read, or not twice; else None."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(given, polars.LazyFrame):
        return "a polars LazyFrame has no rows yet; call collect() first"
    if polars is not None and isinstance(given, polars.Series):
        return "a polars Series has no columns; call to_frame() first"
    if isinstance(given, pa.RecordBatchReader):
        return _only_once(given)
    if isinstance(given, pd.Series) or not hasattr(given, "__arrow_c_stream__"):
        return no_frame(given)
    return None


def table_of_export(frame: Any, needed: Container[str] = ()) -> pa.Table:
    """Return the rows of an object that exports Arrow's stream.

    Columns of polars that Arrow cannot hold are left out.
    """
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.DataFrame):
        without = _columns_without_arrow(frame)
        for name in without:
            if name in needed:
                raise CepError(_refusal(name, frame.schema[name]))
        frame = frame.drop(without) if without else frame
    try:
        return pa.table(frame)
    except Exception as error:  # the object runs its own code
        raise _failed_export(frame, error) from error


def schema_of_export(frame: Any) -> pa.Schema:
    """Return the columns and types of an object that exports Arrow's stream, without its rows if it can."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.DataFrame):
        frame = frame.clear()
        if refused_columns := _columns_without_arrow(frame):
            raise CepError(_refusal(refused_columns[0], frame.schema[refused_columns[0]]))
    try:
        if isinstance(frame, pa.RecordBatchReader):
            return frame.schema
        return pa.RecordBatchReader.from_stream(frame).schema
    except Exception as error:
        raise _failed_export(frame, error) from error


def _failed_export(frame: Any, error: Exception) -> CepError:
    kind = f"{type(frame).__module__}.{type(frame).__name__}"
    return CepError(f"cannot read the {kind}: its export to Arrow fails with {type(error).__name__}: {error}")


def _only_once(frame: Any) -> str:
    return f"a {type(frame).__name__} gives its rows only once, and a query may need them again; " + (
        "call read_all() first: reader.read_all()"
        if hasattr(frame, "read_all")
        else "make a table of it first: pyarrow.table(rows)"
    )


def _check_rows_again(frame: Any, table: pa.Table) -> None:
    """Raise if an object gave its rows and does not give them again."""
    if not table.num_rows:
        return
    try:
        has_rows = any(batch.num_rows for batch in _batches(frame))
    except Exception:  # a consumed stream may also fail
        has_rows = False
    if not has_rows:
        raise CepError(_only_once(frame))


def _batches(frame: Any) -> Iterator[pa.RecordBatch]:
    yield from pa.RecordBatchReader.from_stream(frame)


def _unchanged(frame: Frame) -> Frame:
    return frame


# --- polars


def _source_of_polars(frame: Any) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a polars frame as a source. Columns that Arrow cannot hold are carried as row numbers."""
    import polars

    carried = _columns_without_arrow(frame)
    if not carried:
        return ArrowSource(table_of_export(frame), frame), polars.from_arrow
    numbers = polars.Series(range(len(frame)), dtype=polars.Int64)
    table = table_of_export(frame.with_columns(numbers.alias(name) for name in carried))
    for name in carried:
        i = table.schema.get_field_index(name)
        table = table.set_column(i, table.schema.field(i).with_metadata(_ROW_NUMBERS), table.column(i))
    refused = {name: _refusal(name, frame.schema[name]) for name in carried}
    return ArrowSource(table, frame, refused), partial(_with_carried, frame)


def _columns_without_arrow(frame: Any) -> list[str]:
    return [name for name, dtype in frame.schema.items() if _is_without_arrow(dtype)]


def _is_without_arrow(of: Any) -> bool:
    if str(of) in _WITHOUT_ARROW:
        return True
    items = [of.inner] if hasattr(of, "inner") else [field.dtype for field in getattr(of, "fields", ())]
    return any(map(_is_without_arrow, items))


def _refusal(name: str, of: Any) -> str:
    cast = f"df.with_columns(pl.col({name!r}).cast(pl.Int64))"
    if "Object" in str(of):
        cast = f"df.with_columns(pl.col({name!r}).map_elements(str, return_dtype=pl.String))"
    return f"column {name!r} is of polars type {of}, which Arrow cannot hold; cast it first: {cast}"


def _with_carried(frame: Any, table: pa.Table) -> Any:
    """Return a result as a polars frame, with the values of ``frame`` instead of row numbers."""
    import polars

    result = polars.from_arrow(table)
    for field in table.schema:
        if field.metadata == _ROW_NUMBERS:
            values = frame[field.name].gather(result[field.name])
            result = result.with_columns(values.alias(field.name))
    return result


# A source of columns that asks another one.


class WrappedSource:
    """A source that asks another one; subclasses change some of the answers."""

    def __init__(self, source: Source):
        self._source = source

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._source.n_rows

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """The type of every column by name."""
        return self._source.schema

    @property
    def duplicates(self) -> frozenset[str]:
        """Names that several columns have."""
        return self._source.duplicates

    @property
    def owner(self) -> object | None:
        """The user's frame, for which prepared columns are kept."""
        return self._source.owner

    def is_untyped(self, name: str) -> bool:
        """Return whether a column has neither values nor a type."""
        return self._source.is_untyped(name)

    def storage(self, name: str) -> Hashable | None:
        """Return what decides, beside its type, how a column becomes an Arrow array; None for the values."""
        return self._source.storage(name)

    @property
    def clock(self) -> str | None:
        """The column that orders the rows if a query names none."""
        return self._source.clock

    @property
    def frame(self) -> Frame:
        """The frame itself."""
        return self._source.frame

    def column(self, name: str) -> Column:
        """Return a column by name."""
        return self._source.column(name)

    def item(self, name: str, index: int) -> Column:
        """Return an item of a list column."""
        return self._source.item(name, index)

    def vectors(self, name: str) -> np.ndarray:
        """Return an array column as a matrix."""
        return self._source.vectors(name)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column at these row numbers."""
        return self._source.arrow(name, rows)

    def index_labels(self, rows: np.ndarray) -> Any:
        """Return the index labels of these row numbers."""
        return self._source.index_labels(rows)

    def rows(self, rows: np.ndarray, columns: Mapping[str, Any]) -> Frame:
        """Return these rows as a frame; the further columns come first."""
        return self._source.rows(rows, columns)

    def result(self, columns: Mapping[str, Any]) -> Frame:
        """Return result columns as a frame of the same kind."""
        return self._source.result(columns)

    def tagged(self, columns: Mapping[str, Any]) -> Frame:
        """Return the frame with the further columns appended."""
        return self._source.tagged(columns)
