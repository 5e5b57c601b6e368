"""Frames as sources of columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa

from cepkit.errors import CepError
from cepkit.events import Frame, Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.mistakes import no_frame
from cepkit.frames.pandas import PandasSource


def spark_module(frame: Frame) -> Any:
    """Return the module for Spark frames if ``frame`` is one, else None. Never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not isinstance(frame, sql.DataFrame):
        return None
    from cepkit.results.spark import binding

    return binding


def source_of(frame: Frame) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return the frame as a source of columns, and a function that converts results to the frame's kind."""
    if isinstance(frame, pd.DataFrame):
        return PandasSource(frame), _unchanged
    if isinstance(frame, pa.Table):
        return ArrowSource(frame, frame), _unchanged
    if isinstance(frame, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([frame]), frame), _unchanged
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.LazyFrame):
        raise CepError("a polars LazyFrame has no rows yet; call collect() first")
    if isinstance(frame, pd.Series):
        raise CepError(no_frame(frame))
    if polars is not None and isinstance(frame, polars.Series):
        raise CepError("a polars Series has no columns; call to_frame() first")
    if hasattr(frame, "__arrow_c_stream__"):
        native = (
            polars.from_arrow if polars is not None and isinstance(frame, polars.DataFrame) else _unchanged
        )
        return ArrowSource(pa.table(frame), frame), native
    raise CepError(no_frame(frame))


def _unchanged(frame: Frame) -> Frame:
    return frame
