"""The values of events that instructions read, computed by numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader, Values
from cepkit.compile.interpreted.instructions import ALL_PRESENT, ALL_VALID, EventValue
from cepkit.progress import checkpoint

_EVENTS_PER_CHUNK = 1 << 16  # their columns fit the cache


def chunk_readers(
    columns: Mapping[str, np.ndarray], n_events: int, constants: tuple
) -> Iterator[tuple[slice, ColumnReader]]:
    """Yield the events chunk by chunk, each with a reader of its columns."""
    for start in range(0, n_events, _EVENTS_PER_CHUNK):
        checkpoint()
        rows = slice(start, start + _EVENTS_PER_CHUNK)
        yield rows, ColumnReader({name: values[rows] for name, values in columns.items()}, *constants)


def read_value(reader: ColumnReader, value: EventValue) -> Values:
    """Return a value of each event that the reader reads."""
    if value.what == ALL_VALID:
        return reader.all(reader.valid(value.term))
    if value.what == ALL_PRESENT:
        return reader.all(reader.present(value.term))
    return getattr(reader, value.what)(value.term)
