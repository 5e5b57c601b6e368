"""The search of a window in an open stream: it keeps the rows that are in the window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from cepkit.errors import UnsupportedQueryError
from cepkit.frames.arrow import ArrowSource
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.coding import keys_of_batch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search
from cepkit.windows.running import (
    WindowRows,
    check_window,
    clock_values,
    frame_with,
    kept_rows,
    leaving_ticks,
    size_of,
    window_part,
)
from cepkit.windows.values import ALL, EMITTED, Window


def source_of_table(table: pa.Table, schema: StreamSchema) -> ArrowSource:
    """Return a table as a source, with the ordered categories of the stream."""
    source = ArrowSource(table)
    source.schema = {
        name: replace(column_type, ordered=schema.ordered.get(name))
        if name in schema.ordered
        else column_type
        for name, column_type in source.schema.items()
    }
    return source


class WindowSearch(Search):
    """A window in a stream; `advance` returns the rows that it emits.

    Sums are exact, so they do not depend on rows that left. The state is the rows in the window. Every batch
    looks at all of them, so batches should not be much smaller than the window.

    """

    def __init__(self, query: Window, schema: StreamSchema, options: Options):
        refuse_options(options, "a window")
        self.query, self.schema = query, schema
        self._window = check_window(query, schema.without_nulls(query.order_by).source())
        self._kept = schema.arrow.empty_table()
        self._n_left = 0  # rows that entered and left
        self.column_of_result = {name: name for name in schema.arrow.names}
        self.empty = self._results(*self._part(self._kept, 0, is_last=False))[0]

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Read the next events, and return the rows that the window emits."""
        source = source_of_table(table, self.schema)
        # The rows are in stream order already, and the window has its own order columns.
        rows = kept_rows(self._window, source, ())
        entered = table if len(rows) == table.num_rows else table.take(pa.array(rows))
        entered = entered.select(self._kept.schema.names)
        n_kept = self._kept.num_rows
        whole = pa.concat_tables([self._kept, entered]).combine_chunks()
        source, window_rows, n_gone = self._part(whole, n_kept, is_last=False)
        ready = self._results(source, window_rows, n_gone)
        self._kept, self._n_left = whole.slice(n_gone), self._n_left + n_gone
        return ready

    def pass_time(self, now: int) -> Ready:
        """Let the rows leave whose time is over, since no later event comes before ``now``."""
        source, window_rows, n_gone = self._part(self._kept, self._kept.num_rows, is_last=False, now=now)
        ready = self._results(source, window_rows, n_gone)
        self._kept, self._n_left = self._kept.slice(n_gone).combine_chunks(), self._n_left + n_gone
        return ready

    @property
    def wakes_at(self) -> int | None:
        """Return when the next row leaves if it is shown, otherwise when the last one leaves."""
        if self._window.time is None or not self.n_retained:
            return None
        row = 0 if self._window.emit == ALL else self.n_retained - 1
        source = source_of_table(self._kept.slice(row, 1), self.schema)
        ticks = clock_values(source, self._window.order_by[0], np.zeros(1, np.int64))
        return int(leaving_ticks(ticks, size_of(self._window, source))[0])

    def delay_of(self, column: str) -> int | None:
        """Return 0 for the column in whose order the window emits rows."""
        return 0 if column == column_in_order(self._window) else None

    def finish(self, n_events: int) -> Ready:
        """Return the rows that still leave: time passes after the last event."""
        ready = self._results(*self._part(self._kept, self._kept.num_rows, is_last=True))
        self._kept = self._kept.slice(self._kept.num_rows)
        return ready

    def _part(
        self, whole: pa.Table, n_known: int, *, is_last: bool, now: int | None = None
    ) -> tuple[ArrowSource, WindowRows, int]:
        source = source_of_table(whole, self.schema)
        window_rows, n_gone = window_part(
            self._window, source, n_known, self._n_left, is_last=is_last, now=now
        )
        return source, window_rows, n_gone

    def _results(self, source: ArrowSource, found: WindowRows, n_gone: int) -> Ready:
        table = frame_with(source, found, lambda result: result)
        if hasattr(self, "empty"):
            table = table.cast(self.empty.schema)
        return table, np.ones(table.num_rows, np.int64)

    @property
    def n_keys(self) -> int:
        """Number of groups with rows in the window."""
        if not self.n_retained:
            return 0
        return len(keys_of_batch(ArrowSource(self._kept), self.query.group_by)[1])

    @property
    def n_retained(self) -> int:
        """Number of rows in the window."""
        return self._kept.num_rows

    def pack(self, n_events: int) -> Saved:
        """Return the content of the search for a file."""
        return Saved({"left": self._n_left}, {}, {"kept": self._kept})

    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same window and options."""
        self._n_left = saved.counter("left")
        self._kept = saved.tables["kept"].cast(self.schema.arrow)


def column_in_order(window: Window) -> str | None:
    """Return the result column in whose order a window emits rows: the clock, or the time of emission."""
    if not window.order_by:
        return None
    return EMITTED if window.emit == ALL else window.order_by[0]


def refuse_options(options: Options, what: str) -> None:
    """Raise for options that only streams of matches have."""
    value_of_option = {
        "threads": options.threads > 1, "idle_after": options.idle_after, "max_live": options.max_live,
        "rows='all'": options.rows == "all",
    }  # fmt: skip
    if refused := [name for name, value in value_of_option.items() if value]:
        raise UnsupportedQueryError(f"{refused} are options of streams of matches; {what} has none of them")
