"""A source of columns that asks another one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.events import Column, ColumnType, Frame, Source


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
