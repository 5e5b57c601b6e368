"""What a search reads of a frame: columns, also in the order of the partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.vectors.vector import Vector, column_parts, vector_of_column
from cepkit.engines.match_recognize.found_rows import RowOrder
from cepkit.events import Column, ColumnType

Place = Callable[[str, np.ndarray, int, int], tuple[np.ndarray, Any]]


@dataclass(frozen=True)
class PlacedColumn:
    """A column in the order of the places, with room for the rows that conditions reach beyond both ends."""

    vector: Vector
    n_before: int
    n_after: int

    @property
    def inner(self) -> Vector:
        """The column without the room at its ends."""
        whole, here = self.vector, slice(self.n_before, len(self.vector.values) - self.n_after)
        return Vector(whole.values[here], whole.type, tuple(one[here] for one in whole.missing), whole.texts)


@dataclass(frozen=True)
class RowInput:
    """What a search reads of a frame."""

    schema: Mapping[str, ColumnType]  # the types of the columns
    column: Callable[[str], Column]  # returns a column by name
    # Returns a column as Python values in the order of the frame, None for null.
    plain: Callable[[str], np.ndarray]
    order: RowOrder
    reach: tuple[int, int]  # the most rows that conditions look back and ahead
    params: Mapping[str, Any] | None = None  # values of the query's parameters
    # Takes the name and the values of a column, and the room before and after it. Returns the values in the
    # order of the places with this room, and the least of them; by default `RowOrder.with_room`.
    place: Place | None = None
    _columns: dict[str, Column] = field(default_factory=dict, repr=False)
    _placed: dict[str, PlacedColumn] = field(default_factory=dict, repr=False)

    def column_of(self, name: str) -> Column:
        """Return a column. It is read once."""
        if name not in self._columns:
            self._columns[name] = self.column(name)
        return self._columns[name]

    def is_placed(self, name: str) -> bool:
        """Return whether `placed` has made this column already."""
        return name in self._placed

    def placed(self, name: str) -> PlacedColumn:
        """Return a column in the order of the places."""
        if name not in self._placed:
            kind, values, texts = column_parts(self.column_of(name))
            before, after = (min(rows, len(values)) for rows in self.reach)
            if self.place is None:
                whole, least = self.order.with_room(values, before, after), None
            else:
                whole, least = self.place(name, values, before, after)
            self._placed[name] = PlacedColumn(vector_of_column(kind, whole, texts, least), before, after)
        return self._placed[name]
