"""Frames as sources of columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from cepkit.events import Frame, Source
from cepkit.frames.sources import source_of_frame


def spark_module(frame: Frame) -> Any:
    """Return the module for Spark frames if ``frame`` is one, else None. Never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not isinstance(frame, sql.DataFrame):
        return None
    from cepkit.results.spark import binding

    return binding


def source_of(frame: Frame) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return the frame as a source of columns, and a function that converts results to the frame's kind."""
    return source_of_frame(frame)
