"""The rows of a live stream: batches as events with lasting codes; state as values for saved files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.streaming.batches import StreamSchema, stable_column
from cepkit.streaming.coding import check_text_orders, keys_of_batch, text_codes_of_columns, type_of_column
from cepkit.streaming.saved import Saved

# The rows of a live stream: batches as events with lasting codes, and the rows that are kept for matches.


class EventReader:
    """Reads batches as events with texts and keys that have the same codes in every batch."""

    def __init__(self, program: SequenceProgram, schema: StreamSchema):
        check_text_orders(program)
        self._program, self._schema = program, schema
        self._codes = text_codes_of_columns(program)
        self._code_of_key: dict[tuple, int] = {}

    @property
    def n_keys(self) -> int:
        """Number of partition keys so far."""
        return len(self._code_of_key)

    def source(self, table: pa.Table) -> ArrowSource:
        """Return a table of the stream as a source with the types of the stream."""
        source = ArrowSource(table)
        source.schema = self._schema.columns
        return source

    def read(self, table: pa.Table) -> Events:
        """Return a batch in stream order as events."""
        source = self.source(table)
        events = build_events(source, self._program)
        columns = {}
        for name, column in events.columns.items():
            codes = self._codes.get(name)
            column_type = type_of_column(self._program, name)
            columns[name] = column if codes is None else stable_column(column, column_type, name, codes)
        for name, codes in self._codes.items():  # a later column may have added texts
            if name in columns:
                columns[name] = replace(columns[name], categories=codes.texts)
        by = self._program.query.partition_by
        if not by:
            return Events(events.n_events, columns, events.partition_of_event, 1)
        key_of_row, keys = keys_of_batch(source, by)
        code_of_key = self._code_of_key
        codes_of_keys = np.array([code_of_key.setdefault(key, len(code_of_key)) for key in keys], np.int32)
        return Events(events.n_events, columns, codes_of_keys[key_of_row], max(1, len(code_of_key)))

    def pack(self) -> dict[str, pa.Table]:
        """Return the texts and the keys by code."""
        packed = {f"texts/{name}": codes.pack() for name, codes in self._codes.items()}
        by = self._program.query.partition_by
        keys = {f"key{i}": [key[i] for key in self._code_of_key] for i in range(len(by))}
        types = [(f"key{i}", self._schema.arrow.field(name).type) for i, name in enumerate(by)]
        return {**packed, "keys": pa.table(keys, schema=pa.schema(types))}

    def unpack(self, packed: Mapping[str, pa.Table]) -> None:
        """Take back what `pack` returned."""
        for name, codes in self._codes.items():
            codes.unpack(packed[f"texts/{name}"])
        rows = [tuple(row.values()) for row in packed["keys"].to_pylist()]
        self._code_of_key = {key: code for code, key in enumerate(rows)}


@dataclass
class KeptRows:
    """The rows that matches may still need, batch by batch, with the arrival of each batch."""

    tables: list[pa.Table] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)

    def add(self, start: int, arrival: float, table: pa.Table) -> None:
        """Add a batch whose first event has the position ``start``."""
        self.tables.append(table)
        self.starts.append(start)
        self.arrivals.append(arrival)

    def forget(self, before: int) -> None:
        """Forget the batches that end before a position."""
        n = 0
        while n + 1 < len(self.starts) and self.starts[n + 1] <= before:
            n += 1
        if n:
            del self.tables[:n], self.starts[:n], self.arrivals[:n]

    def arrival_of(self, positions: np.ndarray) -> np.ndarray:
        """Return when events arrived, in seconds."""
        return np.array(self.arrivals)[np.searchsorted(self.starts, positions, side="right") - 1]

    def take(self, positions: np.ndarray) -> pa.Table:
        """Return the rows of events at ascending positions, at least one."""
        of_batch = np.searchsorted(self.starts, positions, side="right") - 1
        batches = np.unique(of_batch).tolist()
        parts = [self.tables[i].take(pa.array(positions[of_batch == i] - self.starts[i])) for i in batches]
        return pa.concat_tables(parts).combine_chunks()

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(len(table) for table in self.tables)


# State of strategies and machines as JSON and arrays for files of saved streams, and back.

_ARRAY, _ITEMS = "array", "items"


def pack_values(value: Any) -> Saved:
    """Return numbers, texts, lists, mappings and arrays as the content of a file."""
    arrays: dict[str, np.ndarray] = {}
    return Saved({"value": _as_json(value, arrays)}, arrays, {})


def _as_json(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {_ITEMS: _as_json(value.tolist(), arrays)}
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value) or value.keys() in ({_ARRAY}, {_ITEMS}):
            raise CepError(f"saved state has the keys {list(value)[:3]}; expected texts other than 'array'")
        return {key: _as_json(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item, arrays) for item in value]
    raise CepError(f"saved state holds a {type(value).__name__}, which a file of a stream cannot hold")


def unpack_values(saved: Saved) -> Any:
    """Return what `pack_values` took; tuples are lists then."""
    return _of_json(saved.header["value"], saved.arrays)


def _of_json(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        if value.keys() == {_ITEMS}:
            items = np.empty(len(value[_ITEMS]), object)
            items[:] = value[_ITEMS]
            return items
        return {key: _of_json(item, arrays) for key, item in value.items()}
    return [_of_json(item, arrays) for item in value] if isinstance(value, list) else value
