"""The values of events that instructions read, computed by numpy."""

from __future__ import annotations

from cepkit.compile.interpreted.columns import ColumnReader, Values
from cepkit.compile.interpreted.instructions import ALL_PRESENT, ALL_VALID, EventValue


def read_value(reader: ColumnReader, value: EventValue) -> Values:
    """Return a value of each event that the reader reads."""
    if value.what == ALL_VALID:
        return reader.all(reader.valid(value.term))
    if value.what == ALL_PRESENT:
        return reader.all(reader.present(value.term))
    return getattr(reader, value.what)(value.term)
