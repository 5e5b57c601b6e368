"""The search of MATCH_RECOGNIZE in an open stream: it keeps the rows of the open matches."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.compiled import reach_of
from cepkit.compile.match_recognize.values import column_of
from cepkit.compile.shared.operations import end_in_ticks
from cepkit.engines.match_recognize.bound import bind_clause, bind_row_query
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, RowSearch, is_over, next_start
from cepkit.engines.match_recognize.measuring import output_rows
from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import UnsupportedQueryError
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.row_order import plain_of
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import (
    RowPatternQuery,
    RowsQuery,
    SelectedRows,
    WindowedRows,
    listed_columns,
)
from cepkit.results.match_recognize.search import ResultColumn, column_of_measure, selected_columns
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.coding import keys_of_batch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search
from cepkit.streaming.windows import refuse_options, source_of_table
from cepkit.values import dataclass, field

# The rows of one key of a stream that a row pattern may still need, and the matches that are decided.

AT_END = 2**62  # the position after all events of a stream


@dataclass(frozen=True)
class TimeSoFar:
    """The time of a stream: the latest one so far, and when it came."""

    # ``times`` has the times of the newest batch in ticks, and ``first`` the position of its first event.

    now: int | None
    times: Sequence[int] = ()
    first: int = 0

    def position_of(self, ticks: int) -> int:
        """Return the position of the first event of the batch at a time or after it."""
        return self.first + bisect_left(self.times, ticks)


@dataclass(frozen=True)
class Decided:
    """A match that no later row can change, or a row that no match takes."""

    # ``position`` is that of the event that decided it. ``row``, and the rows of ``match``, count from the
    # first row that is kept.

    row: int
    position: int
    match: RowMatch | None = None


@dataclass
class OpenRows:
    """The rows of a key from the first open one on, with as many rows before it as conditions look back."""

    key: tuple  # the values of the partition columns
    columns: dict[str, list[Any]]  # the columns that conditions and measures read, times as ticks
    # The values of the kept rows, in the order of the columns that the search keeps.
    rows: list[tuple] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # the position of each kept row in the stream
    first: int = 0  # number of rows of the key before the kept ones
    start: int = 0  # the first row that can begin a match, counted from the first kept row
    # n_found, decided: number of matches so far, and the position of the event that decided the last one
    n_found: int = 0
    decided: int = -1
    # The end of all matches so far, counted from the first kept row; at least ``start``, or below it.
    end: int = 0
    queued: int | None = None  # the deadline that the stream waits for

    def decide(self, program: RowProgram, ahead: int, clock: TimeSoFar, *, closed: bool) -> list[Decided]:
        """Return what no later row can change, and move ``start`` to the first open row."""
        # A match is decided if the search found it in the rows so far, and did not look for a further row.
        # The same holds for a row without a match. ``ahead`` is how many rows after a row its conditions and
        # measures read.
        n_rows = len(self.rows)
        n_known = n_rows if closed else max(n_rows - ahead, 0)
        if self.start >= n_known:
            return []
        search = RowSearch(program, self.columns, n_known, first=self.first)
        search.trial.n_rows = n_rows
        decided: list[Decided] = []
        while self.start < n_known:
            states = search.preferred(self.start, self.n_found + 1)
            over = self._is_over(program, self.start, n_known, clock.now)
            if search.hit_end and not over and not closed:
                break
            position = self._position(search, ahead, clock, over=over)
            self.decided = max(self.decided, position)
            first, self.start = self.start, self.start + 1
            if states is not None:
                match = RowMatch(self.n_found + 1, first, states)
                decided.append(Decided(first, self.decided, match))
                self.n_found += 1
                self.start = next_start(program, match)
                self.end = max(self.end, first + max(len(states), 1))
            elif program.timed_out and search.waiting and over:
                decided.append(Decided(first, self.decided, RowMatch(0, first, search.waiting)))
            free = range(max(first, self.end), self.start)  # no match takes these rows
            decided += [Decided(row, self.decided) for row in free]
        return decided

    def _is_over(self, program: RowProgram, start: int, n_known: int, now: int | None) -> bool:
        """Return whether no row in time can come, and all rows in time are known."""
        if program.within is None or not is_over(program, self.columns, start, now):
            return False
        name, bound = program.within
        ticks = self.columns[name]
        return n_known == len(self.rows) or ticks[n_known] - ticks[start] >= bound

    def _position(self, search: RowSearch, ahead: int, clock: TimeSoFar, *, over: bool) -> int:
        """Return the position of the event that decided the row ``start``."""
        needed = max(search.deepest, self.start) + ahead
        position = self.positions[needed] if needed < len(self.positions) else AT_END
        if not search.hit_end and not search.ran_out:
            return position
        if search.hit_end and not over:
            return AT_END
        assert search.program.within is not None
        name, bound = search.program.within
        return max(position, clock.position_of(self.columns[name][self.start] + bound))

    def forget(self, n_before: int) -> None:
        """Forget the rows that no later match needs; ``n_before`` is how far conditions look back."""
        n_gone = max(self.start - n_before, 0)
        if n_gone:
            del self.rows[:n_gone], self.positions[:n_gone]
            for values in self.columns.values():
                del values[:n_gone]
            self.first, self.start = self.first + n_gone, self.start - n_gone
            self.end = max(self.end - n_gone, 0)

    def deadline(self, program: RowProgram) -> int | None:
        """Return the time from which the open row has no match any more; None if time does not decide it."""
        if program.within is None or self.start >= len(self.rows):
            return None
        name, bound = program.within
        return self.columns[name][self.start] + bound

    def state(self) -> tuple[int, ...]:
        """Return the numbers that `restore` needs to undo later rows and decisions."""
        return len(self.rows), self.first, self.start, self.n_found, self.decided, self.end

    def restore(self, state: tuple[int, ...]) -> None:
        """Go back to what `state` returned; no row may have been forgotten since."""
        n_rows, self.first, self.start, self.n_found, self.decided, self.end = state
        del self.rows[n_rows:], self.positions[n_rows:]
        for values in self.columns.values():
            del values[n_rows:]


class _Made(NamedTuple):
    """A row of the result, after what sorts it: the position of the event that decided it, and its key."""

    position: int
    key: int
    row: tuple
    measures: list[Any]
    is_match: bool  # whether it is the first row of a match


def rows_of_stream(
    text: str, schema: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> RowsQuery:
    """Return the text of MATCH_RECOGNIZE as the query of a stream with these columns."""
    whole = parse_match_recognize(text)
    if isinstance(whole, WindowedRows):
        raise UnsupportedQueryError(
            f"WINDOW {whole.name}: the measures of a row depend on all rows of its frame, so a stream "
            "does not run it; cep.match runs it on a frame, and a MATCH_RECOGNIZE clause runs in a stream"
        )
    clause = whole.rows if isinstance(whole, SelectedRows) else whole
    if reason := _reason_against(clause, whole if isinstance(whole, SelectedRows) else None):
        raise UnsupportedQueryError(f"{reason}; cep.match runs the query on a finished frame")
    return RowsQuery(whole, tuple((params or {}).items()), *bind_clause(clause, schema))


def _reason_against(clause: RowPatternQuery, selected: SelectedRows | None) -> str | None:
    """Return the reason why a stream cannot run a query; None if it can."""
    for key in clause.order_by:
        if key.descending:
            return f"ORDER BY {key.column} DESC: the rows of a stream come in ascending order"
        if key.nulls_first:
            return f"ORDER BY {key.column} NULLS FIRST: the order columns of a stream have no nulls"
    if any(isinstance(node, pt.Anchor) and not node.at_start for node in clause.pattern.walk()):
        return "PATTERN: $ is the end of the partition, and an open stream has none"
    if selected is not None and selected.order_by:
        return "ORDER BY of the result: it needs all matches"
    if selected is not None and (selected.limit is not None or selected.offset):
        return f"{'OFFSET' if selected.limit is None else 'LIMIT'}: it needs all matches"
    return None


def kept_columns(query: RowsQuery, schema: Mapping[str, Any]) -> list[str]:
    """Return the columns of the stream that matching and the result read, in its order."""
    bound = bind_row_query(query.whole, schema, dict(query.params))
    before, after = bound.columns_around()
    needed = {*bound.columns, *before, *after, *(key.column for key in bound.query.keys)}
    return [name for name in bound.schema if name in needed]


class OpenPatternSearch(Search):
    """MATCH_RECOGNIZE in a stream; `advance` returns the matches that no later row can change."""

    # A match is decided when the search found it, and did not look for a further row. So ``A B`` is decided
    # with its last row, and ``A B*`` with the first row that is no B. With WITHIN a match is also decided
    # when an event of any key comes too late for it. The result does not depend on how batches cut the
    # stream. The state has the rows of each key from its first open row on, and as many rows before it as
    # PREV looks back. Each batch searches the open match of its keys again.

    def __init__(self, query: RowsQuery, schema: StreamSchema, options: Options):
        refuse_options(options, "MATCH_RECOGNIZE")
        self.query, self.schema = query, schema
        columns = schema.without_nulls(query.order_by).columns
        self._bound = bind_row_query(query.whole, columns, dict(query.params))
        self._program, self._measures = self._bound.program, self._bound.measures
        self._n_before, self._n_ahead = reach_of((*self._program.conditions.values(), *self._measures))
        self._clock = None if self._program.within is None else self._program.within[0]
        self._used = self._program.columns
        self._shown = self._bound.columns_around()
        self._kept = kept_columns(query, columns)
        self._keys: dict[tuple, int] = {}
        self._open: list[OpenRows] = []
        self._deadlines: list[tuple[int, int]] = []  # a heap of times and numbers of keys
        self._now: int | None = None
        self._n_events = 0
        self.column_of_result = self._copied_columns()
        self.empty = self._table([])
        if unknown := [item.name for item in self.empty.schema if pa.types.is_null(item.type)]:
            raise UnsupportedQueryError(
                f"the columns {unknown} have no type before the first row, and all results of a stream have "
                "one schema; write CAST around them, or leave them out"
            )

    def _copied_columns(self) -> dict[str, str]:
        """Return the columns of the result that are columns of the stream."""
        shown = [*self._shown[0], *self._shown[1]]
        selected = self._bound.selected
        if selected is None or selected.columns is None:
            return {name: name for name in shown}
        every = [*shown, *(name for name, _ in self._bound.query.rows.measures)]
        copied = {
            name: column_of(tree.name, every)
            for name, tree in listed_columns(selected.columns, every)
            if isinstance(tree, ex.Attribute)
        }
        return {name: column for name, column in copied.items() if column in shown}

    # --- events in, matches out

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        source = source_of_table(table, self.schema)
        values = {name: plain_of(source, name).tolist() for name in self._used}
        rows = list(zip(*(table.column(name).to_pylist() for name in self._kept), strict=True))
        rows = rows or [()] * table.num_rows  # without columns to keep
        key_of_event, distinct_keys = keys_of_batch(ArrowSource(table), self.query.partition_by)
        n_old = len(self._open)
        numbers = [self._number_of(key) for key in distinct_keys]
        states = {number: self._open[number].state() for number in numbers}
        for i, key in enumerate(key_of_event.tolist()):
            kept = self._open[numbers[key]]
            kept.rows.append(rows[i])
            kept.positions.append(n_before + i)
            for name in self._used:
                kept.columns[name].append(values[name][i])
        times = values[self._clock] if self._clock else []
        now = times[-1] if times else self._now
        old, self._now, self._n_events = (self._now, self._n_events), now, n_before + table.num_rows
        try:
            return self._decide(numbers, TimeSoFar(now, times, n_before), states)
        except BaseException:
            for key in list(self._keys)[n_old:]:
                del self._keys[key]
            del self._open[n_old:]
            self._now, self._n_events = old
            raise

    def _number_of(self, key: tuple) -> int:
        if key not in self._keys:
            self._keys[key] = len(self._open)
            self._open.append(OpenRows(key, {name: [] for name in self._used}))
        return self._keys[key]

    def pass_time(self, now: int) -> Ready:
        if self._clock is None:
            return self.release()
        self._now = now if self._now is None else max(now, self._now)
        return self._decide([], TimeSoFar(self._now, (), self._n_events), {})

    @property
    def wakes_at(self) -> int | None:
        """Return when the first open match runs out of time."""
        while self._deadlines and not self._is_due(*self._deadlines[0]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _is_due(self, ticks: int, number: int) -> bool:
        """Return whether an entry of the heap is still the deadline of its key."""
        return self._open[number].deadline(self._program) == ticks

    def finish(self, n_events: int) -> Ready:
        now = self._now
        if self._clock is not None and self.complete_until is not None:
            now = end_in_ticks(self.complete_until, self.schema.columns[self._clock])
        return self._decide(range(len(self._open)), TimeSoFar(now, (), n_events), {}, closed=True)

    def _decide(self, numbers: Any, clock: TimeSoFar, states: dict, *, closed: bool = False) -> Ready:
        """Return the decided matches of these keys, and of keys with an open match that ran out of time."""
        due = []
        while self._deadlines and clock.now is not None and self._deadlines[0][0] <= clock.now:
            due.append(heapq.heappop(self._deadlines))
        every = [*dict.fromkeys([*numbers, *(number for _, number in due)])]
        rows: list[_Made] = []
        try:
            for number in every:
                kept = self._open[number]
                states.setdefault(number, kept.state())
                for decision in kept.decide(self._program, self._n_ahead, clock, closed=closed):
                    rows += self._rows_of(number, kept, decision)
            rows.sort(key=lambda row: row[:2])
            ready = self._table(rows), np.ones(sum(row.is_match for row in rows), np.int64)
        except BaseException:
            for number, state in states.items():
                self._open[number].restore(state)
            for entry in due:
                heapq.heappush(self._deadlines, entry)
            raise
        for number in every:
            kept = self._open[number]
            kept.forget(self._n_before)
            self._wait_for_deadline(number)
        return ready

    def _wait_for_deadline(self, number: int) -> None:
        """Remember when the open match of a key runs out of time."""
        kept = self._open[number]
        deadline = kept.deadline(self._program)
        if deadline is not None and deadline != kept.queued and (self._now is None or deadline > self._now):
            heapq.heappush(self._deadlines, (deadline, number))
            kept.queued = deadline

    def _rows_of(self, number: int, kept: OpenRows, one: Decided) -> list[_Made]:
        shown = self._bound.query.rows.rows_per_match
        if one.match is None:
            if shown != "all_with_unmatched":
                return []
            return [_Made(one.position, number, kept.rows[one.row], [None] * len(self._measures), False)]
        shown = "all" if shown == "all_with_unmatched" else shown
        n_rows, is_match = len(kept.rows), one.match.number > 0
        output = output_rows(self._program, self._measures, shown, kept.columns, n_rows, [one.match])
        return [
            _Made(one.position, number, kept.rows[row], values, is_match and i == 0)
            for i, (row, values) in enumerate(output)
        ]

    # --- results

    def _table(self, made: list[_Made]) -> pa.Table:
        """Return the rows of the result as a table."""
        source = source_of_table(self._table_of_rows([row.row for row in made]), self.schema)
        places, n_rows = np.arange(len(made)), len(made)
        measures = zip(self._bound.query.rows.measures, self._measures, strict=True)
        computed = {
            name: column_of_measure(tree, measure.type, [row.measures[i] for row in made], source)
            for i, ((name, tree), measure) in enumerate(measures)
        }
        before, after = (
            {name: ResultColumn(source.schema[name], None, Picked(name, places), source) for name in names}
            for names in self._shown
        )
        columns = {**before, **computed, **after}
        selected = self._bound.selected
        if selected is not None:
            columns = selected_columns(selected, columns, n_rows, self._bound.params)
        table = source.result({name: column.measured() for name, column in columns.items()})
        return table.cast(self.empty.schema) if hasattr(self, "empty") else table

    def _table_of_rows(self, rows: list[tuple]) -> pa.Table:
        schema = pa.schema([self.schema.arrow.field(name) for name in self._kept])
        arrays = [pa.array([row[i] for row in rows], item.type) for i, item in enumerate(schema)]
        return pa.table(arrays, schema=schema)

    # --- counters

    @property
    def n_keys(self) -> int:
        """Number of keys. A key keeps its number of matches when it has no open row."""
        return len(self._open)

    @property
    def n_retained(self) -> int:
        return sum(len(kept.rows) for kept in self._open)

    # --- saving

    def pack(self, n_events: int) -> Saved:
        by = self.query.partition_by
        keys = [
            pa.array([kept.key[i] for kept in self._open], self._field(name).type)
            for i, name in enumerate(by)
        ]
        tables = {
            "keys": pa.table(keys, [f"key{i}" for i in range(len(by))]),
            "rows": self._table_of_rows([row for kept in self._open for row in kept.rows]),
        }
        arrays = {
            "positions": np.array([at for kept in self._open for at in kept.positions], np.int64),
            "states": np.array([kept.state() for kept in self._open], np.int64).reshape(-1, 6),
        }
        return Saved({"now": self._now, "n_events": self._n_events}, arrays, tables)

    def _field(self, name: str) -> pa.Field:
        return self.schema.arrow.field(name)

    def unpack(self, saved: Saved) -> None:
        self._now, self._n_events = saved.header["now"], saved.counter("n_events")
        table, states = saved.tables["rows"], saved.arrays["states"].tolist()
        source = source_of_table(table, self.schema)
        values = {name: plain_of(source, name).tolist() for name in self._used}
        rows = list(zip(*(table.column(name).to_pylist() for name in self._kept), strict=True))
        positions = saved.arrays["positions"].tolist()
        rows = rows or [()] * len(positions)
        keys = [tuple(row.values()) for row in saved.tables["keys"].to_pylist()]
        keys = keys if self.query.partition_by else [()] * len(states)
        begin = 0
        for key, state in zip(keys, states, strict=True):
            span = slice(begin, begin + state[0])
            kept = OpenRows(
                key, {name: values[name][span] for name in self._used}, rows[span], positions[span]
            )
            kept.restore(tuple(state))
            self._keys[key] = len(self._open)
            self._open.append(kept)
            begin += state[0]
            self._wait_for_deadline(len(self._open) - 1)
