"""The search of a chain in an open stream: each step reads the results of the step before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.streaming.batches import StreamSchema, ordered_batch
from cepkit.streaming.regex_stream import RegexSearch
from cepkit.streaming.row_patterns import OpenPatternSearch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search
from cepkit.streaming.sequence_stream import SequenceSearch
from cepkit.streaming.windows import Sides, SidesSearch, WindowSearch
from cepkit.windows.running import Chain
from cepkit.windows.values import Window


def open_search(query: Any, schema: StreamSchema, options: Options) -> Search:
    """Return the search of a query, a window or a chain."""
    if isinstance(query, Chain):
        return ChainSearch(query, schema, options)
    if isinstance(query, Sides):
        return SidesSearch(query, options)
    if isinstance(query, Window):
        return WindowSearch(query, schema, options)
    if isinstance(query, RowsQuery):
        return OpenPatternSearch(query, schema, options)
    if isinstance(query, SequenceQuery):
        return SequenceSearch(query, schema, options)
    return RegexSearch(query, schema, options)


class ChainSearch(Search):
    """The searches of the steps of a chain; the result of each one is the input of the next one."""

    def __init__(self, query: Chain, schema: StreamSchema, options: Options):
        self.query, self.schema = query, schema
        self.steps: list[Search] = []
        self._schemas: list[StreamSchema] = []
        for number, step in enumerate(query.steps):
            is_last = number == len(query.steps) - 1
            self._schemas.append(schema)
            self.steps.append(open_search(step, schema, options if is_last else Options()))
            schema = StreamSchema(self.steps[-1].empty.schema)
        self.grows = "; ".join(step.grows for step in self.steps if step.grows)
        self._newest: list[pa.Table | None] = [None] * len(query.steps)
        self._n_events = [0] * len(query.steps)
        self._wakes: list[int | None] = [None] * len(query.steps)
        self.delays = self._delays()
        self.empty = self.steps[-1].empty
        self.column_of_result = _through(self.steps)

    @property
    def n_keys(self) -> int:
        return sum(step.n_keys for step in self.steps)

    @property
    def n_retained(self) -> int:
        """Number of rows that the steps keep."""
        return sum(step.n_retained for step in self.steps)

    def _delays(self) -> list[int | None]:
        """Return for each step how much later it knows of a time than the stream; None if never."""
        # All results of one time come together, so time itself ends only what is before it.
        delays: list[int | None] = [1 if len(self.steps) > 1 else 0]
        for number, step in enumerate(self.query.steps[1:], start=1):
            before, by = delays[-1], step.order_by
            delay = self.steps[number - 1].delay_of(by[0]) if by else None
            delays.append(None if before is None or delay is None else before + delay)
        return delays

    def pass_time(self, now: int) -> Ready:
        parts: list[Ready] = [(self.empty, np.empty(0, np.int64))]
        for number, (step, delay) in enumerate(zip(self.steps, self.delays, strict=True)):
            if delay is None:
                break
            ready = step.pass_time(now - delay)
            self._wakes[number] = step.wakes_at
            is_last = number == len(self.steps) - 1
            parts.append(ready if is_last else self._advance(ready[0], number + 1))
        return joined(parts)

    @property
    def wakes_at(self) -> int | None:
        wake_times = [
            wakes + delay
            for wakes, delay in zip(self._wakes, self.delays, strict=True)
            if wakes is not None and delay is not None
        ]
        return min(wake_times, default=None)

    def delay_of(self, column: str) -> int | None:
        before, last_delay = self.delays[-1], self.steps[-1].delay_of(column)
        return None if before is None or last_delay is None else before + last_delay

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Read the next events, and return the results of the last step; an error changes no step."""
        undo = [super().remember(), *(step.remember() for step in self.steps[:-1])]
        self._newest, self._n_events, self._wakes = [*self._newest], [*self._n_events], [*self._wakes]
        try:
            return self._advance(table, 0)
        except BaseException:
            for take_back in undo:
                take_back()
            raise

    def _advance(self, table: pa.Table, first: int) -> Ready:
        """Give a table to a step, and its results to the next ones."""
        ready: Ready = (table, np.ones(table.num_rows, np.int64))
        for number in range(first, len(self.steps)):
            step, table = self.steps[number], ready[0]
            if table.num_rows == 0:
                ready = step.release()
                continue
            by, keys = self.query.steps[number].order_by, None
            if by:
                table, keys = ordered_batch(table, self._newest[number], by, self._schemas[number])
                self._newest[number] = keys.slice(len(keys) - 1)
            ready = step.advance(table, keys, self._n_events[number])
            self._wakes[number] = step.wakes_at
            self._n_events[number] += table.num_rows
        return ready

    def finish(self, n_events: int) -> Ready:
        parts: list[Ready] = []
        for number, step in enumerate(self.steps):
            if self.complete_until is not None:
                step.complete_until = self.complete_until
            last = step.finish(self._n_events[number])
            if number == len(self.steps) - 1:
                parts.append(last)
            else:
                parts.append(self._advance(last[0], number + 1))
        return joined(parts)

    def stop(self) -> None:
        for step in self.steps:
            step.stop()

    def pack(self, n_events: int) -> Saved:
        tables = {f"newest{i}": table for i, table in enumerate(self._newest) if table is not None}
        saved = Saved({"events": self._n_events, "wakes": self._wakes}, {}, tables)
        for number, step in enumerate(self.steps):
            saved = saved.with_part(f"step{number}", step.pack(self._n_events[number]))
        return saved

    def unpack(self, saved: Saved) -> None:
        self._n_events = saved.counters("events", len(self.steps))
        self._wakes = list(saved.header.get("wakes", self._wakes))
        self._newest = [saved.tables.get(f"newest{i}") for i in range(len(self.steps))]
        for number, step in enumerate(self.steps):
            step.unpack(saved.part(f"step{number}"))


def joined(parts: list[Ready]) -> Ready:
    return pa.concat_tables([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _through(steps: list[Search]) -> dict[str, str]:
    """Return the columns of the last step's results that are columns of the stream, with those columns."""
    column_of_result = dict(steps[0].column_of_result)
    for step in steps[1:]:
        column_of_result = {
            name: column_of_result[inner]
            for name, inner in step.column_of_result.items()
            if inner in column_of_result
        }
    return column_of_result
