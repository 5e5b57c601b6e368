"""The search of a join in two open streams: it keeps the rows that wait, and rows that come too early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from cepkit.frames.arrow import ArrowSource
from cepkit.streaming.arrival import ordered_batch
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.operators.windows import refuse_options, source_of_table
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready
from cepkit.windows.joining import JoinRows, frame_of_join, plan_join, run_join, ticks_of_clock
from cepkit.windows.running import kept_rows, leaving_ticks
from cepkit.windows.values import SIDES, Join


class JoinSearch:
    """A join of two streams; `advance` returns the pairs whose place in the order is certain.

    A row of the left side is certain when the right side has reached its time. A row of the right side is
    certain when the left side has passed its time. Both wait until then.

    """

    def __init__(self, query: Join, schemas: tuple[StreamSchema, ...], options: Options):
        refuse_options(options, "a join")
        self.query, self.schemas = query, schemas
        self.plan = plan_join(query, tuple(schema.source() for schema in schemas))
        bounds = [
            schema.without_nulls((clock,)) for schema, clock in zip(schemas, self.plan.clocks, strict=True)
        ]
        self.plan = plan_join(query, tuple(schema.source() for schema in bounds))
        self._waiting = [schema.arrow.empty_table() for schema in schemas]
        self._early = [schema.arrow.empty_table() for schema in schemas]
        self._newest: list[pa.Table | None] = [None, None]  # the clock of the newest row of each side
        self._n_left = [0, 0]  # rows that entered and left
        self.column_of_result: dict[str, str] = {}
        self.empty = self._run(list(self._waiting), 0)[0]

    @property
    def n_retained(self) -> int:
        """Number of rows that wait for partners or for the other side."""
        return sum(table.num_rows for table in (*self._waiting, *self._early))

    def advance(self, batches: tuple[pa.Table | None, ...], *, are_certain: bool = False) -> Ready:
        """Read the next rows of both sides, and return the complete pairs; a refused batch has no effect.

        ``are_certain`` says that no later row comes before any of these.

        """
        early, newest = list(self._early), list(self._newest)
        for which, batch in enumerate(batches):
            if batch is None or batch.num_rows == 0:
                continue
            clock = (self.plan.clocks[which],)
            batch, keys = ordered_batch(batch, newest[which], clock, self.schemas[which])
            newest[which] = keys.slice(len(keys) - 1)
            early[which] = pa.concat_tables([early[which], batch.select(early[which].schema.names)])
        self._early, self._newest = early, newest
        if are_certain:
            return self.finish()
        return self._advance([self._n_certain(which) for which in (0, 1)])

    def forget(self, now: int) -> None:
        """Forget the rows that have left their windows of time at the tick ``now``."""
        for which in (0, 1):
            n_gone = int(np.searchsorted(self._leaving(which), now, side="right"))
            self._waiting[which] = self._waiting[which].slice(n_gone).combine_chunks()
            self._n_left[which] += n_gone

    @property
    def ends_at(self) -> int | None:
        """The tick at which all rows have left their windows of time; None if no row waits in one."""
        return max((int(leaving[-1]) for leaving in map(self._leaving, (0, 1)) if len(leaving)), default=None)

    def _leaving(self, which: int) -> np.ndarray:
        """Return when the rows of a side leave their window of time; none for a window of rows."""
        size = self.plan.sizes[which]
        if not self._waiting[which].num_rows or (size is not None and not size.is_time):
            return np.empty(0, np.int64)
        ticks = ticks_of_clock(self.plan, which, source_of_table(self._waiting[which], self.schemas[which]))
        return ticks + 1 if size is None else leaving_ticks(ticks, size)  # without a window, no row waits

    def finish(self) -> Ready:
        """Return the remaining pairs, since no row follows."""
        return self._advance([table.num_rows for table in self._early])

    def _n_certain(self, which: int) -> int:
        other = self._newest[1 - which]
        if other is None:
            return 0
        own = ticks_of_clock(self.plan, which, ArrowSource(self._early[which]))
        newest = ticks_of_clock(self.plan, 1 - which, ArrowSource(other))[0]
        return int(np.searchsorted(own, newest, side="right" if which == 0 else "left"))

    def _advance(self, n_certain: list[int]) -> Ready:
        wholes, n_known = [], 0
        for which, side in enumerate(SIDES):
            entering = self._early[which].slice(0, n_certain[which])
            source = source_of_table(entering, self.schemas[which])
            rows = kept_rows(getattr(self.query, side), source, ())
            wholes.append(
                pa.concat_tables([self._waiting[which], entering.take(pa.array(rows))]).combine_chunks()
            )
            n_known += self._waiting[which].num_rows
        made, found = self._run(wholes, n_known)
        for which in (0, 1):
            n_gone = int(np.searchsorted(found.meeting.gone[which], len(found.meeting.side)))
            self._waiting[which] = wholes[which].slice(n_gone)
            self._n_left[which] += n_gone
            self._early[which] = self._early[which].slice(n_certain[which]).combine_chunks()
        return made, np.ones(made.num_rows, np.int64)

    def _run(self, wholes: list[pa.Table], n_known: int) -> tuple[pa.Table, JoinRows]:
        sources = tuple(
            source_of_table(table, schema) for table, schema in zip(wholes, self.schemas, strict=True)
        )
        found = run_join(self.plan, sources, tuple(self._n_left))
        new = found.event >= n_known
        shown = replace(
            found,
            rows=tuple(rows[new] for rows in found.rows),
            columns={name: values.filter(pa.array(new)) for name, values in found.columns.items()},
        )
        table = frame_of_join(self.plan, sources, shown, lambda made: made)
        return (table.cast(self.empty.schema) if hasattr(self, "empty") else table), found

    def pack(self) -> Saved:
        """Return the content of the search for a file."""
        tables = {}
        for which, side in enumerate(SIDES):
            tables[f"waiting/{side}"], tables[f"early/{side}"] = self._waiting[which], self._early[which]
            if self._newest[which] is not None:
                tables[f"newest/{side}"] = self._newest[which]
        return Saved({"left": self._n_left}, {}, tables)

    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same join and options."""
        self._n_left = saved.counters("left", 2)
        for which, side in enumerate(SIDES):
            schema = self.schemas[which].arrow
            self._waiting[which] = saved.tables[f"waiting/{side}"].cast(schema)
            self._early[which] = saved.tables[f"early/{side}"].cast(schema)
            self._newest[which] = saved.tables.get(f"newest/{side}")
