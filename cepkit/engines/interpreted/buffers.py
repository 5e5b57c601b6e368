"""What interpreting kernels read: columns at chosen rows, and arrays one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cepkit.compile.interpreted.pairs import Tests


class PickedColumns(Mapping):
    """Columns at some rows, picked when they are read."""

    def __init__(self, columns: Mapping[str, np.ndarray], rows: np.ndarray):
        self._columns, self._rows = columns, rows

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name][self._rows]

    def __iter__(self):
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@dataclass
class Buffer:
    """Arrays one after the other."""

    dtype: type
    parts: list[np.ndarray] = field(default_factory=list)
    size: int = 0

    def add(self, values: np.ndarray) -> int:
        """Add an array and return where it begins."""
        at = self.size
        self.parts.append(np.ascontiguousarray(values).astype(self.dtype, copy=False))
        self.size += len(values)
        return at

    def add_tests(self, made: Tests) -> list[list[int]]:
        """Add the numbers of tests and return a row for each: where its numbers, lows and widths begin."""
        rows = zip(made.numbers, made.low, made.width, strict=True)
        return [[self.add(own) for own in row] for row in rows]

    def whole(self) -> np.ndarray:
        """Return all arrays as one."""
        return np.concatenate(self.parts) if self.parts else np.empty(0, self.dtype)
