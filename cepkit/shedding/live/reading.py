"""The rows of a live stream: batches as events with lasting codes, and the rows that are kept for matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.streaming.batches import StreamSchema, stable_column
from cepkit.streaming.coding import check_text_orders, keys_of_batch, text_codes_of_columns, type_of_column


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
            of = type_of_column(self._program, name)
            columns[name] = column if codes is None else stable_column(column, of, name, codes)
        for name, codes in self._codes.items():  # a later column may have added texts
            if name in columns:
                columns[name] = replace(columns[name], categories=codes.texts)
        by = self._program.query.partition_by
        if not by:
            return Events(events.n_events, columns, events.partition_of_event, 1)
        own, keys = keys_of_batch(source, by)
        known = self._code_of_key
        codes_of_keys = np.array([known.setdefault(key, len(known)) for key in keys], np.int32)
        return Events(events.n_events, columns, codes_of_keys[own], max(1, len(known)))

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
