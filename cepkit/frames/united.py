"""Frames by event type as one frame: ``cep.match({"Order": orders, "Pay": payments}, …)``."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.errors import CepError
from cepkit.events import FLOAT, INTEGER, ColumnType, Frame
from cepkit.frames.pandas import index_clock, index_levels
from cepkit.frames.sources import collected, source_of_frame, table_of_export
from cepkit.language.query_parts import is_match_recognize

FRAME = "frame"  # the column with the name of each row's frame, unless event_type names another
ROW, NUMBER = "row_of_frame", "frame_number"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_frames(function: _Function) -> _Function:
    """Return a function that also takes a LazyFrame, or frames by event type, in the place of its frame."""

    @functools.wraps(function)
    def call(frame: Any, *args: Any, **keywords: Any) -> Any:
        if not are_frames(frame):
            return function(collected(frame), *args, **keywords)
        parameters = inspect.signature(function).parameters
        query = args[0] if args else keywords.get("query")
        name = keywords.get("event_type") or getattr(query, "event_type", None) or FRAME
        is_sql = isinstance(query, str) and is_match_recognize(query)
        whole = unite(frame, name)
        if "event_type" in parameters and not (is_sql or hasattr(query, "event_type")):
            keywords["event_type"] = name
        if "order_by" in parameters and not (is_sql or getattr(query, "order_by", None)):
            keywords["order_by"] = _order_of(frame, whole, keywords.get("order_by"))
        return function(whole, *args, **keywords)

    return cast(_Function, call)


def are_frames(given: Any) -> bool:
    """Return whether an object is a mapping of frames; raise if only some of its values are frames."""
    if not isinstance(given, Mapping) or not any(map(_library, given.values())):
        return False
    for name, frame in given.items():
        if not isinstance(name, str) or not _library(frame):
            raise CepError(
                f"frames by event type: {name!r} is of type {type(frame).__name__}; write "
                "{'Order': orders, …} with a text and a frame for each"
            )
    return True


def _library(given: Any) -> str:
    """Return the library of a frame; empty for what is none. It imports none of them."""
    if isinstance(given, pd.DataFrame):
        return "pandas"
    for library, module, names in (
        ("polars", "polars", ("DataFrame", "LazyFrame")),
        ("spark", "pyspark.sql", ("DataFrame",)),
    ):
        if any(isinstance(given, getattr(sys.modules.get(module), name, ())) for name in names):
            return library
    is_column = type(given).__name__ in ("Series", "ChunkedArray", "Array")
    return "arrow" if hasattr(given, "__arrow_c_stream__") and not is_column else ""


def _order_of(frames: Mapping[str, Frame], whole: Frame, order_by: Any) -> list[str]:
    """Return the columns that order the rows of all frames. On Spark the frame's number decides ties."""
    names = [order_by] if isinstance(order_by, str) else [*(order_by or ())]
    if not names:
        clocks = {
            index_clock(frame) if isinstance(frame, pd.DataFrame) else None for frame in frames.values()
        }
        clock = clocks.pop() if len(clocks) == 1 else None
        if clock is None:
            raise CepError("frames by event type need order_by: the column of times that all of them have")
        names = [clock]
    return [*names, NUMBER] if _library(whole) == "spark" else names


def unite(frames: Mapping[str, Frame], name: str) -> Frame:
    """Return the rows of all frames, one frame after the other, with the frame's name in column ``name``."""
    # Columns that a frame lacks are null. In pandas, the label of a row begins with the name of its frame.
    # Arrow and polars have the number of a row in its frame as a column, and Spark has that of the frame.
    libraries = {_library(frame) for frame in frames.values()}
    if "spark" in libraries and len(libraries) > 1:
        raise CepError("frames by event type: some are Spark frames and others are not; use one kind")
    library = libraries.pop() if len(libraries) == 1 else "arrow"
    unite_frames, added = {
        "pandas": (_unite_pandas, [name]), "polars": (_unite_polars, [name, ROW]),
        "spark": (_unite_spark, [name, NUMBER]), "arrow": (_unite_arrow, [name, ROW]),
    }[library]  # fmt: skip
    if library == "pandas":
        frames = {key: _with_index_as_columns(frame) for key, frame in frames.items()}
    elif library == "polars":
        frames = {key: collected(frame) for key, frame in frames.items()}
    elif library == "arrow":
        frames = {
            key: pa.Table.from_pandas(frame, preserve_index=False)
            if isinstance(frame, pd.DataFrame) else table_of_export(frame)
            for key, frame in frames.items()
        }  # fmt: skip
    _check_columns(frames, added, library)
    return unite_frames(frames, *added)


def _check_columns(frames: Mapping[str, Frame], added: Sequence[str], library: str) -> None:
    """Raise for columns whose types differ between frames, and for the names of the added columns."""
    first: dict[str, tuple[str, ColumnType]] = {}
    for key, frame in frames.items():
        if library == "spark":
            from cepkit.frames.spark import EmptySource

            source: Any = EmptySource(frame)
        else:
            source = source_of_frame(frame)[0]
        if repeated := sorted(source.duplicates):
            raise CepError(f"frame {key!r} has two columns {repeated[0]!r}; rename one")
        for column in source.schema:
            if column in added:
                way = ", or name another with event_type=" if column == added[0] else ""
                raise CepError(
                    f"frame {key!r} has a column {column!r}, and the united frames need this name; rename "
                    f"it{way}"
                )
            if source.is_untyped(column):
                continue
            column_type = source.schema[column]
            other, other_type = first.setdefault(column, (key, column_type))
            if not _go_together(column_type, other_type):
                raise CepError(
                    f"column {column!r} is {_said(other_type)} in frame {other!r} and "
                    f"{_said(column_type)} in {key!r}; make them of one type, or rename one"
                )


def _go_together(left: ColumnType, right: ColumnType) -> bool:
    numbers = {INTEGER, FLOAT}
    return (left.kind == right.kind and left.timezone == right.timezone) or {left.kind, right.kind} <= numbers


def _said(column_type: ColumnType) -> str:
    return f"{column_type}" + (f" in {column_type.timezone}" if column_type.timezone else "")


def _with_index_as_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose index has no names that serve as columns."""
    levels = index_levels(frame)
    return frame.reset_index(names=list(levels)) if len(levels) == frame.index.nlevels else frame


def _unite_pandas(frames: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Return one frame of several pandas frames, with a column for the name of each."""
    columns = list(dict.fromkeys(column for frame in frames.values() for column in frame))
    dtypes = {column: _dtype_of([frame.get(column) for frame in frames.values()]) for column in columns}
    whole = [
        pd.DataFrame(
            {column: _typed(frame.get(column), dtypes[column], frame.index) for column in columns},
            index=frame.index, columns=columns,
        )
        for frame in frames.values()
    ]  # fmt: skip
    rows = pd.concat(whole, keys=list(frames))
    number_of_row = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames.values()])
    rows.insert(0, name, pd.Categorical.from_codes(number_of_row, list(frames)))
    return rows


def _dtype_of(columns: Sequence[pd.Series | None]) -> Any:
    """Return the dtype of a column that some frames lack: integers and booleans stay what they are."""
    given = [column for column in columns if column is not None]
    typed = [column for column in given if column.dtype != object] or given
    dtype = typed[0].dtype
    if len(given) < len(columns) and isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return pd.array(np.empty(0, dtype)).dtype  # the nullable dtype
    return dtype


def _typed(column: pd.Series | None, dtype: Any, index: pd.Index) -> pd.Series:
    """Return a column with a type that all frames share; one without values gets it, too."""
    if column is None:
        return pd.Series(index=index, dtype=dtype)
    is_empty = column.dtype == object and column.isna().all()
    becomes_nullable = column.dtype.kind in "iub" and not isinstance(dtype, np.dtype)
    return column.astype(dtype) if is_empty or becomes_nullable else column


def _unite_arrow(frames: Mapping[str, pa.Table], name: str, row: str) -> pa.Table:
    """Return one table of several Arrow tables, with columns for the name of each and the row in it."""
    marked = [
        table.add_column(0, row, pa.array(np.arange(len(table)))).add_column(
            0, name, pa.repeat(key, len(table))
        )
        for key, table in frames.items()
    ]
    try:
        return pa.concat_tables(marked, promote_options="permissive")
    except pa.ArrowException as error:
        raise CepError(f"frames by event type: their columns do not go together: {error}") from error


def _unite_polars(frames: Mapping[str, Any], name: str, row: str) -> Any:
    """Return one frame of several polars frames, with columns for the name of each and the row in it."""
    import polars

    marked = [
        frame.select(polars.lit(key).alias(name), polars.int_range(polars.len()).alias(row), polars.all())
        for key, frame in frames.items()
    ]
    return polars.concat(marked, how="diagonal_relaxed")


def _unite_spark(frames: Mapping[str, Any], name: str, number: str) -> Any:
    """Return one frame of several Spark frames, with columns for the name and the number of each."""
    from pyspark.sql import functions as F

    marked: Iterable[Any] = (
        frame.select(F.lit(key).alias(name), "*", F.lit(i).alias(number))
        for i, (key, frame) in enumerate(frames.items())
    )
    return functools.reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), marked)
