"""A sample of a frame for the ranges of sliders: rows that follow each other within a key."""

from __future__ import annotations

import numpy as np

from cepkit.errors import CepError
from cepkit.events import FLOAT, INTEGER, NULL_INTEGER, TEXT, Column, Source
from cepkit.explorer.query.thresholds import SampledRows
from cepkit.frames.building import partition_codes

MOST_ROWS = 10_000  # of a sample
_MOST_READ = 100_000  # about this many rows of some keys are sorted
_WINDOWS = 100  # a longer sample is cut into this many parts
_FEWEST_KEYS, _MOST_KEYS = 16, 2000


def sample_rows(
    source: Source, keys: tuple[str, ...], clocks: tuple[str, ...], event_type: str | None = None
) -> SampledRows:
    """Return a sample of rows, in the order of the clocks within each key.

    Only some keys are sorted.
    """
    rows, key = _rows_of_some_keys(source, keys)
    rows, key = _in_order(source, rows, key, clocks)
    begins = np.append(True, key[1:] != key[:-1]) if len(key) else np.empty(0, bool)
    if len(rows) > MOST_ROWS:
        size = MOST_ROWS // _WINDOWS
        starts = np.linspace(0, len(rows) - size, _WINDOWS).astype(np.int64)
        kept = (starts[:, None] + np.arange(size)).ravel()
        rows, begins = rows[kept], begins[kept]
        begins[::size] = True
    read: dict[str, np.ndarray | None] = {}

    def values(name: str) -> np.ndarray | None:
        if name not in read:
            read[name] = _numbers(source, name, rows)
        return read[name]

    return SampledRows(begins, values, _types(source, event_type, rows))


def _rows_of_some_keys(source: Source, keys: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of some keys, key by key, and the key of each row."""
    n = source.n_rows
    try:
        code_of_row, n_codes = partition_codes(source, keys)
    except CepError:  # values that cannot be keys: the editor says it
        code_of_row, n_codes = np.zeros(n, np.int32), 1
    if n_codes < 2:
        return np.arange(n), code_of_row
    n_keys = min(max(_MOST_READ * n_codes // n, _FEWEST_KEYS), _MOST_KEYS)
    if n_keys >= n_codes:
        chosen = np.arange(n_codes)
    else:
        chosen = np.unique(code_of_row[np.random.default_rng(0).integers(0, n, n_keys)])
    # Small integers are sorted fastest.
    key_of_code = np.zeros(n_codes, np.uint16 if len(chosen) < 2**16 else np.int64)
    key_of_code[chosen] = np.arange(1, len(chosen) + 1)
    key = key_of_code[code_of_row]
    rows = np.flatnonzero(key)
    key = key[rows]
    order = np.argsort(key, kind="stable")
    return rows[order], key[order]


def _in_order(
    source: Source, rows: np.ndarray, key: np.ndarray, clocks: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of every key in the order of the clocks."""
    kept = [name for name in clocks if name in source.schema and source.schema[name].kind != TEXT]
    times = [np.asarray(source.column(name).values)[rows] for name in kept]
    if not times or len(rows) < 2:
        return rows, key
    is_after, is_tie = key[1:] > key[:-1], key[1:] == key[:-1]
    for time in times:
        is_after |= is_tie & (time[1:] > time[:-1])
        is_tie &= time[1:] == time[:-1]
    if bool((is_after | is_tie).all()):
        return rows, key
    order = np.lexsort([*times[::-1], key])
    return rows[order], key[order]


def _numbers(source: Source, name: str, rows: np.ndarray) -> np.ndarray | None:
    """Return the numbers of a column at some rows; NaN for missing ones."""
    of = source.schema.get(name)
    if of is None or of.kind not in (INTEGER, FLOAT) or name in source.duplicates:
        return None
    own = source.column(name).values[rows]
    values = own.astype(np.float64)
    if of.kind == INTEGER and of.nullable:
        values[own == NULL_INTEGER] = np.nan
    return values


def _types(source: Source, name: str | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the event types of some rows as texts or numbers."""
    if name is None or name not in source.schema or name in source.duplicates:
        return None
    column: Column = source.column(name)
    own = column.values[rows]
    if column.type.kind != TEXT:
        return own
    texts = np.append(np.asarray(column.texts, object), None)
    return texts[own]
