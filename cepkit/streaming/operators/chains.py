"""The search of a chain in an open stream: each step reads the results of the step before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.language.sequences.query import SequenceQuery
from cepkit.streaming.arrival import ordered_batch
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.operators.row_pattern_query import RowPatternStream
from cepkit.streaming.operators.row_patterns import RowStreamSearch
from cepkit.streaming.operators.windows import WindowSearch
from cepkit.streaming.regex_stream import RegexSearch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search
from cepkit.streaming.sequence_stream import SequenceSearch
from cepkit.windows.chains import Chain
from cepkit.windows.values import Window


def open_search(query: Any, schema: StreamSchema, options: Options) -> Search:
    """Return the search of a query, a window or a chain."""
    if isinstance(query, Chain):
        return ChainSearch(query, schema, options)
    if isinstance(query, Window):
        return WindowSearch(query, schema, options)
    if isinstance(query, RowPatternStream):
        return RowStreamSearch(query, schema, options)
    if isinstance(query, SequenceQuery):
        return SequenceSearch(query, schema, options)
    return RegexSearch(query, schema, options)


class ChainSearch(Search):
    """The searches of the steps of a chain; the result of each one is the input of the next one."""

    def __init__(self, query: Chain, schema: StreamSchema, options: Options):
        self.query, self.schema = query, schema
        self._steps: list[Search] = []
        self._schemas: list[StreamSchema] = []
        for number, step in enumerate(query.steps):
            is_last = number == len(query.steps) - 1
            self._schemas.append(schema)
            self._steps.append(open_search(step, schema, options if is_last else Options()))
            schema = StreamSchema(self._steps[-1].empty.schema)
        self._newest: list[pa.Table | None] = [None] * len(query.steps)
        self._n_events = [0] * len(query.steps)
        self.empty = self._steps[-1].empty
        self.column_of_result = {name: name for name in schema.arrow.names}

    @property
    def n_keys(self) -> int:
        """Number of keys that the steps remember."""
        return sum(step.n_keys for step in self._steps)

    @property
    def n_retained(self) -> int:
        """Number of rows that the steps keep."""
        return sum(step.n_retained for step in self._steps)

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Read the next events, and return the results of the last step."""
        return self._advance(table, 0)

    def _advance(self, table: pa.Table, first: int) -> Ready:
        """Give a table to a step, and its results to the next ones."""
        ready: Ready = (table, np.ones(table.num_rows, np.int64))
        for number in range(first, len(self._steps)):
            step, table = self._steps[number], ready[0]
            if table.num_rows == 0:
                ready = step.release()
                continue
            by, keys = self.query.steps[number].order_by, None
            if by:
                table, keys = ordered_batch(table, self._newest[number], by, self._schemas[number])
                self._newest[number] = keys.slice(len(keys) - 1)
            ready = step.advance(table, keys, self._n_events[number])
            self._n_events[number] += table.num_rows
        return ready

    def finish(self, n_events: int) -> Ready:
        """Return all remaining results, since no event follows."""
        parts: list[Ready] = []
        for number, step in enumerate(self._steps):
            last = step.finish(self._n_events[number])
            if number == len(self._steps) - 1:
                parts.append(last)
            else:
                parts.append(self._advance(last[0], number + 1))
        return pa.concat_tables([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def stop(self) -> None:
        """End the threads of all steps."""
        for step in self._steps:
            step.stop()

    def pack(self, n_events: int) -> Saved:
        """Return the content of all steps for a file."""
        tables = {f"newest{i}": table for i, table in enumerate(self._newest) if table is not None}
        saved = Saved({"events": self._n_events}, {}, tables)
        for number, step in enumerate(self._steps):
            saved = saved.with_part(f"step{number}", step.pack(self._n_events[number]))
        return saved

    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same chain and options."""
        self._n_events = list(saved.header["events"])
        self._newest = [saved.tables.get(f"newest{i}") for i in range(len(self._steps))]
        for number, step in enumerate(self._steps):
            step.unpack(saved.part(f"step{number}"))
