"""Spark's SQL functions. The first use imports them, since these modules also load without Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pyspark.sql.functions"), name)
