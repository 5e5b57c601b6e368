"""The searches of windows and joins in open streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.errors import UnsupportedQueryError
from cepkit.frames.arrow import ArrowSource
from cepkit.planning.clocks import clock_values
from cepkit.streaming.batches import StreamSchema, ordered_batch
from cepkit.streaming.coding import NEVER, Room, keys_of_batch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, PlainRow, Ready, Search, first_value, plain_values, table_of_rows
from cepkit.values import dataclass, replace
from cepkit.windows.joining import JoinRows, frame_of_join, plan_join, run_join, ticks_of_clock
from cepkit.windows.ranges import Size, SlidingRows
from cepkit.windows.running import check_window, frame_with, kept_rows, leaving_ticks, size_of, window_part
from cepkit.windows.values import ALL, EMITTED, SIDES, Join, Window

# The search of a window in an open stream: it keeps the rows that are in the window.


class WindowSearch(Search):
    """A window in a stream; `advance` returns the rows that it emits."""

    # Sums are exact, so they do not depend on rows that left. The state is the rows in the window. They are a
    # table, and every batch looks at all of it. While single rows come, they have running aggregates.

    def __init__(self, query: Window, schema: StreamSchema, options: Options):
        options.refuse("a window", "max_live")
        self.query, self.schema = query, schema
        self._window = check_window(query, schema.without_nulls(query.order_by).source())
        self._room, self.n_overflowed = _room_of(options, query.group_by, is_timed=query.time is not None), 0
        self._kept = schema.arrow.empty_table()
        self._n_left = 0  # rows that entered and left
        self.column_of_result = {name: name for name in schema.arrow.names}
        self.empty = self._emit(self._kept, 0, is_last=False)[0][0]
        self._sliding: SlidingRows | None = None
        self.takes_rows = self._room is None and self._without_rows() is not None

    def _without_rows(self) -> SlidingRows | None:
        size = size_of(self._window, self.schema.source())
        return SlidingRows.of(self._window, size, self.schema.arrow)

    def advance_row(self, values: list, n_before: int) -> tuple[PlainRow, np.ndarray] | None:
        sliding = self._sliding or self._with_kept_rows()
        if sliding is None or not sliding.takes(values):
            return None
        self._sliding = sliding
        return PlainRow([*values, *sliding.add(values)], self.empty.schema), np.ones(1, np.int64)

    def _with_kept_rows(self) -> SlidingRows | None:
        """Return the rows of the table with running aggregates; None if a sum might not be exact."""
        sliding = self._without_rows()
        columns = [plain_values(column) for column in self._kept.columns]
        for row in map(list, zip(*columns, strict=True)):
            if sliding is None or not sliding.takes(row):
                return None
            sliding.add(row)
        return sliding

    def _settle(self) -> None:
        """Make the rows that came one by one a table."""
        if self._sliding is not None:
            self._kept = table_of_rows([row for row, _ in self._sliding.rows], self.schema.arrow)
            self._n_left, self._sliding = self._n_left + self._sliding.n_left, None

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        self._settle()
        if self._window.where is not None:
            # The rows are in stream order already, and the window has its own order columns.
            table = table.take(pa.array(kept_rows(self._window, self.schema.source(table), ())))
        entered = table.select(self._kept.schema.names)
        n_kept = self._kept.num_rows
        whole = pa.concat_tables([self._kept, entered]).combine_chunks()
        n_shed = 0
        if self._room is not None:
            source = self.schema.source(whole)
            ticks = clock_values(source, self._window.order_by[0], np.arange(len(whole)))
            whole, n_shed = _with_room(self._room, whole, ticks, size_of(self._window, source), n_kept)
        ready, n_gone = self._emit(whole, n_kept, is_last=False)
        if self._room is not None:
            self._room.check(ArrowSource(whole.slice(n_gone)))
        self._kept, self._n_left = whole.slice(n_gone), self._n_left + n_gone
        self.n_overflowed += n_shed
        return ready

    def pass_time(self, now: int) -> Ready:
        """Let the rows leave whose time is over, since no later event comes before ``now``."""
        self._settle()
        ready, n_gone = self._emit(self._kept, self._kept.num_rows, is_last=False, now=now)
        self._kept, self._n_left = self._kept.slice(n_gone).combine_chunks(), self._n_left + n_gone
        return ready

    @property
    def wakes_at(self) -> int | None:
        """Return when the next row leaves if it is shown, otherwise when the last one leaves."""
        self._settle()
        if self._window.time is None or not self.n_retained:
            return None
        row = 0 if self._window.emit == ALL else self.n_retained - 1
        source = self.schema.source(self._kept.slice(row, 1))
        ticks = clock_values(source, self._window.order_by[0], np.zeros(1, np.int64))
        return int(leaving_ticks(ticks, size_of(self._window, source))[0])

    def delay_of(self, column: str) -> int | None:
        """Return 0 for the column in whose order the window emits rows."""
        return 0 if column == column_in_order(self._window) else None

    def finish(self, n_events: int) -> Ready:
        """Return the rows that still leave: time passes after the last event."""
        self._settle()
        ready, _ = self._emit(self._kept, self._kept.num_rows, is_last=True)
        self._kept = self._kept.slice(self._kept.num_rows)
        return ready

    def _emit(
        self, whole: pa.Table, n_known: int, *, is_last: bool, now: int | None = None
    ) -> tuple[Ready, int]:
        """Return what the window emits after its first rows, and the number of rows that have left."""
        source = self.schema.source(whole)
        found, n_gone = window_part(self._window, source, n_known, self._n_left, is_last=is_last, now=now)
        table = frame_with(source, found, lambda result: result)
        if hasattr(self, "empty") and table.schema != self.empty.schema:
            table = table.cast(self.empty.schema)
        return (table, np.ones(table.num_rows, np.int64)), n_gone

    @property
    def n_keys(self) -> int:
        """Number of groups with rows in the window."""
        if self._sliding is not None:
            return self._sliding.n_groups
        if not self.n_retained:
            return 0
        return len(keys_of_batch(ArrowSource(self._kept), self.query.group_by)[1])

    @property
    def n_retained(self) -> int:
        return self._kept.num_rows if self._sliding is None else len(self._sliding)

    def oldest_time(self, clock: str) -> Any:
        self._settle()
        return first_value(self._kept, clock)

    def pack(self, n_events: int) -> Saved:
        self._settle()
        header = {"left": self._n_left, "n_overflowed": self.n_overflowed}
        return Saved(header, {}, {"kept": self._kept})

    def unpack(self, saved: Saved) -> None:
        self._n_left, self._sliding = saved.counter("left"), None
        self.n_overflowed = saved.counter("n_overflowed", absent=0)
        self._kept = saved.tables["kept"].cast(self.schema.arrow)


def _room_of(options: Options, by: tuple[str, ...], *, is_timed: bool) -> Room | None:
    """Return the room for the rows of each key in a window; None without ``max_live``."""
    if options.max_live is None:
        return None
    if not is_timed:
        raise UnsupportedQueryError(
            f"max_live={options.max_live}: only windows of time take it. Others hold as many rows as they say"
        )
    if options.overflow == "oldest":
        raise UnsupportedQueryError(
            "overflow='oldest': windows do not take it, since their rows leave with time. overflow='shed' "
            "leaves new rows out"
        )
    return Room(by, options.max_live, options.overflow)


def _with_room(room: Room, rows: pa.Table, ticks: np.ndarray, size: Size, n_old: int) -> tuple[pa.Table, int]:
    """Return the rows that are not shed, and the number of the others; the first ``n_old`` wait already."""
    if room.overflow != "shed":
        return rows, 0
    has_room = room.ends(ArrowSource(rows), leaving_ticks(ticks, size) - 1, ticks, n_old) == NEVER
    return rows.filter(pa.array(has_room)), int((~has_room).sum())


def column_in_order(window: Window) -> str | None:
    """Return the result column in whose order a window emits rows: the clock, or the time of emission."""
    if not window.order_by:
        return None
    return EMITTED if window.emit == ALL else window.order_by[0]


# The search of a join in two open streams: it keeps the rows that wait, and rows that come too early.


class JoinSearch:
    """A join of two streams; `advance` returns the pairs whose place in the order is certain."""

    # A row of the left side is certain when the right side has reached its time. A row of the right side is
    # certain when the left side has passed its time. Both wait until then.

    n_keys = n_evicted = n_ended = 0
    n_live, oldest, grows = None, None, ""

    def __init__(self, query: Join, schemas: tuple[StreamSchema, ...], options: Options):
        options.refuse("a join", "max_live")
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
        self.n_overflowed = 0
        self._rooms: list[Room | None] = []
        for which, size in enumerate(self.plan.sizes):
            keys, is_timed = tuple(pair[which] for pair in query.on), size is not None and size.is_time
            self._rooms.append(_room_of(options, keys, is_timed=True) if is_timed else None)
        if self._rooms == [None, None]:
            _room_of(options, (), is_timed=False)
        self.empty = self._run(list(self._waiting), 0)[0]

    @property
    def n_retained(self) -> int:
        """Number of rows that wait for partners or for the other side."""
        return sum(table.num_rows for table in (*self._waiting, *self._early))

    def advance(self, batches: tuple[pa.Table | None, ...], *, are_certain: bool = False) -> Ready:
        """Read the next rows of both sides, and return the complete pairs; a refused batch has no effect."""
        # ``are_certain`` says that no later row comes before any of these.
        early, newest = list(self._early), list(self._newest)
        for which, batch in enumerate(batches):
            if batch is None or batch.num_rows == 0:
                continue
            clock = (self.plan.clocks[which],)
            batch, keys = ordered_batch(batch, newest[which], clock, self.schemas[which])
            newest[which] = keys.slice(len(keys) - 1)
            early[which] = pa.concat_tables([early[which], batch.select(early[which].schema.names)])
        sides = range(2)
        n_certain = [len(early[i]) if are_certain else self._n_certain(i, early, newest) for i in sides]
        ready = self._advance(early, n_certain)
        self._newest = newest
        return ready

    remember = Search.remember

    def forget(self, now: int) -> None:
        """Forget the rows that have left their windows of time at the tick ``now``."""
        gone = [int(np.searchsorted(self._leaving(which), now, side="right")) for which in (0, 1)]
        self._waiting = [
            table.slice(n).combine_chunks() for table, n in zip(self._waiting, gone, strict=True)
        ]
        self._n_left = [left + n for left, n in zip(self._n_left, gone, strict=True)]

    @property
    def ends_at(self) -> int | None:
        """The tick at which all rows have left their windows of time; None if no row waits in one."""
        return max((int(leaving[-1]) for leaving in map(self._leaving, (0, 1)) if len(leaving)), default=None)

    def _leaving(self, which: int) -> np.ndarray:
        """Return when the rows of a side leave their window of time; none for a window of rows."""
        size = self.plan.sizes[which]
        if not self._waiting[which].num_rows or (size is not None and not size.is_time):
            return np.empty(0, np.int64)
        ticks = ticks_of_clock(self.plan, which, self.schemas[which].source(self._waiting[which]))
        return ticks + 1 if size is None else leaving_ticks(ticks, size)  # without a window, no row waits

    def finish(self) -> Ready:
        """Return the remaining pairs, since no row follows."""
        return self._advance(self._early, [table.num_rows for table in self._early])

    def _n_certain(self, which: int, early: list[pa.Table], newest_rows: list[pa.Table | None]) -> int:
        other = newest_rows[1 - which]
        if other is None:
            return 0
        times = ticks_of_clock(self.plan, which, ArrowSource(early[which]))
        newest = ticks_of_clock(self.plan, 1 - which, ArrowSource(other))[0]
        return int(np.searchsorted(times, newest, side="right" if which == 0 else "left"))

    def _advance(self, early: list[pa.Table], n_certain: list[int]) -> Ready:
        """Let the first rows of each side meet; an error changes nothing."""
        wholes, n_known, n_shed = [], 0, 0
        for which, side in enumerate(SIDES):
            entering = early[which].slice(0, n_certain[which])
            source = self.schemas[which].source(entering)
            rows = kept_rows(getattr(self.query, side), source, ())
            whole = pa.concat_tables([self._waiting[which], entering.take(pa.array(rows))]).combine_chunks()
            room, size, n_old = self._rooms[which], self.plan.sizes[which], self._waiting[which].num_rows
            if room is not None and size is not None:
                ticks = ticks_of_clock(self.plan, which, self.schemas[which].source(whole))
                whole, n = _with_room(room, whole, ticks, size, n_old)
                n_shed += n
            wholes.append(whole)
            n_known += self._waiting[which].num_rows
        table, join_rows = self._run(wholes, n_known)
        meeting = join_rows.meeting
        gone = [int(np.searchsorted(side, len(meeting.side))) for side in meeting.gone]
        early = [rows.slice(n).combine_chunks() for rows, n in zip(early, n_certain, strict=True)]
        for room, whole, n in zip(self._rooms, wholes, gone, strict=True):
            if room is not None:
                room.check(ArrowSource(whole.slice(n)))
        self.n_overflowed += n_shed
        self._waiting = [whole.slice(n) for whole, n in zip(wholes, gone, strict=True)]
        self._n_left = [left + n for left, n in zip(self._n_left, gone, strict=True)]
        self._early = early
        return table, np.ones(table.num_rows, np.int64)

    def _run(self, wholes: list[pa.Table], n_known: int) -> tuple[pa.Table, JoinRows]:
        """Join the rows, and return the pairs that a row after the first ``n_known`` completes."""
        sources = tuple(schema.source(table) for table, schema in zip(wholes, self.schemas, strict=True))
        join_rows = run_join(self.plan, sources, tuple(self._n_left))
        new = join_rows.event >= n_known
        shown = replace(
            join_rows,
            rows=tuple(rows[new] for rows in join_rows.rows),
            columns={name: values.filter(pa.array(new)) for name, values in join_rows.columns.items()},
        )
        table = frame_of_join(self.plan, sources, shown, lambda result: result)
        return (table.cast(self.empty.schema) if hasattr(self, "empty") else table), join_rows

    @property
    def newest(self) -> Any:
        """The time that both sides have reached."""
        times = [None if table is None else table.column(0)[0].as_py() for table in self._newest]
        return None if None in times else min(times)

    @property
    def oldest_time(self) -> Any:
        """The time of the oldest row that waits."""
        tables = zip((*self._waiting, *self._early), 2 * self.plan.clocks, strict=True)
        return min((first_value(*waiting) for waiting in tables if waiting[0].num_rows), default=None)

    def pack(self) -> Saved:
        tables = {}
        for which, side in enumerate(SIDES):
            tables[f"waiting/{side}"], tables[f"early/{side}"] = self._waiting[which], self._early[which]
            if self._newest[which] is not None:
                tables[f"newest/{side}"] = self._newest[which]
        return Saved({"left": self._n_left, "n_overflowed": self.n_overflowed}, {}, tables)

    def unpack(self, saved: Saved) -> None:
        self._n_left, self.n_overflowed = saved.counters("left", 2), saved.counter("n_overflowed", absent=0)
        for which, side in enumerate(SIDES):
            schema = self.schemas[which].arrow
            self._waiting[which] = saved.tables[f"waiting/{side}"].cast(schema)
            self._early[which] = saved.tables[f"early/{side}"].cast(schema)
            self._newest[which] = saved.tables.get(f"newest/{side}")


# A join whose two streams come in one table: each row has the columns of both sides, and its side.

SIDE = "side"  # the column with the number of the side: 0 is the left one


@dataclass(frozen=True)
class Sides:
    """A join with the schemas of its sides, as the query of rows that come in one table."""

    join: Join
    schemas: tuple[StreamSchema, StreamSchema]  # of the left and of the right side

    @property
    def order_by(self) -> tuple[str, ...]:
        """No column: the search sorts each side."""
        return ()

    @property
    def schema(self) -> StreamSchema:
        """The columns of the table."""
        fields = [
            pa.field(f"{side}_{field.name}", field.type)
            for side, schema in zip(SIDES, self.schemas, strict=True)
            for field in schema.arrow
        ]
        return StreamSchema(pa.schema([pa.field(SIDE, pa.int32(), False), *fields]))

    @property
    def clocks(self) -> tuple[str, str]:
        """The clock of each side."""
        return self._plan.clocks

    @property
    def keys(self) -> dict[str, str]:
        """Key columns of the left side, with those of the right side, that divide the rows; maybe none."""
        # A window of rows counts the rows of all keys, and measures range over the pairs of all keys. Keys of
        # different types have different hashes.
        if not self.is_timed or self.join.measures:
            return {}
        types = [
            tuple(schema.arrow.field(name).type for schema, name in zip(self.schemas, pair, strict=True))
            for pair in self.join.on
        ]
        return dict(self.join.on) if all(left == right for left, right in types) else {}

    @property
    def is_timed(self) -> bool:
        """Whether no side has a window of rows."""
        return all(size is None or size.is_time for size in self._plan.sizes)

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the rows of one time matters to the result."""
        return not self.is_timed or bool(self.join.measures)

    @property
    def _plan(self):
        return plan_join(self.join, tuple(schema.source() for schema in self.schemas))

    def clock_of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the time of every row."""
        left, right = (rows.column(f"{side}_{name}") for side, name in zip(SIDES, self.clocks, strict=True))
        is_left = rows.column(SIDE).to_numpy() == 0
        place = np.where(is_left, 0, len(rows)) + np.arange(len(rows))
        return pa.chunked_array([*left.chunks, *right.chunks], left.type).take(pa.array(place))

    def tables(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the rows of each side with their own columns."""
        parts = []
        for which, (side, schema) in enumerate(zip(SIDES, self.schemas, strict=True)):
            side_rows = rows.filter(pa.array(rows.column(SIDE).to_numpy() == which))
            names = schema.arrow.names
            side_rows = side_rows.select([f"{side}_{name}" for name in names]).rename_columns(names)
            parts.append(side_rows.cast(schema.arrow))
        return parts[0], parts[1]

    def __str__(self) -> str:
        return repr(self.join)


class SidesSearch(Search):
    """A join of two streams: it joins rows up to the time that both streams have passed."""

    def __init__(self, query: Sides, options: Options):
        self.query = query
        self._search = JoinSearch(query.join, query.schemas, options)
        self.empty, self.column_of_result = self._search.empty, self._search.column_of_result

    @property
    def n_keys(self) -> int:
        """No number: a join remembers rows, not keys."""
        return 0

    @property
    def n_retained(self) -> int:
        """Number of rows that wait for partners."""
        return self._search.n_retained

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        return self._search.advance(self.query.tables(table), are_certain=True)

    def pass_time(self, now: int) -> Ready:
        """Forget the rows that have left their windows."""
        self._search.forget(now)
        return self.release()

    @property
    def wakes_at(self) -> int | None:
        """When the last row leaves its window of time."""
        return self._search.ends_at

    def delay_of(self, column: str) -> int | None:
        return 0 if column == EMITTED else None

    def finish(self, n_events: int) -> Ready:
        """Return no pairs: all of them were returned when their rows came."""
        return self.release()

    def pack(self, n_events: int) -> Saved:
        return self._search.pack()

    def unpack(self, saved: Saved) -> None:
        self._search.unpack(saved)
