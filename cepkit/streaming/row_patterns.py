"""The search of MATCH_RECOGNIZE in an open stream: it keeps the rows of the open matches."""

from __future__ import annotations

import heapq
import math
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
from cepkit.engines.regex_measures import Picked
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.frames.arrow import ArrowSource, column_of_arrow
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
from cepkit.results.row_pattern_search import ResultColumn, column_of_measure, selected_columns
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.coding import NOTHING_NEW, Assignment, KeyCodes, idle_ticks_of, key_text, keys_of_batch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search, table_of_rows
from cepkit.values import dataclass, field, replace

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
    n_ended: int = 0  # partial matches that ended with the key in the last call of `decide`

    def decide(
        self, program: RowProgram, ahead: int, clock: TimeSoFar, end: int | None = None
    ) -> list[Decided]:
        """Return what no later row can change, and move ``start`` to the first open row."""
        # A match is decided if the search found it in the rows so far, and did not look for a further row.
        # The same holds for a row without a match. ``ahead`` is how many rows after a row its conditions and
        # measures read. ``end`` is the position of the event that ended the key, if there is one.
        n_rows, closed, self.n_ended = len(self.rows), end is not None, 0
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
            position = min(self._position(search, ahead, clock, over=over), AT_END if end is None else end)
            self.decided = max(self.decided, position)
            first, self.start = self.start, self.start + 1
            if states is not None:
                match = RowMatch(self.n_found + 1, first, states)
                decided.append(Decided(first, self.decided, match))
                self.n_found += 1
                self.start = next_start(program, match)
                self.end = max(self.end, first + max(len(states), 1))
            elif search.hit_end and not over:
                self.n_ended += 1
            elif program.timed_out and search.waiting and over:
                decided.append(Decided(first, self.decided, RowMatch(0, first, search.waiting)))
            free = range(max(first, self.end), self.start)  # no match takes these rows
            decided += [Decided(row, self.decided) for row in free]
        return decided

    def give_up(self) -> list[Decided]:
        """End the open match, and return its first row if no match takes it."""
        row, self.start, self.decided = self.start, self.start + 1, max(self.decided, self.positions[-1])
        return [Decided(row, self.decided)] if row >= self.end else []

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

    @property
    def n_open(self) -> int:
        """Number of rows that a later match may begin with."""
        return len(self.rows) - self.start

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
    """A row of the result, after what sorts it: the event that decided it, and the first row of its match."""

    position: int
    first: int
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
    # PREV looks back. Each batch searches the open match of its keys again. A key ends after a pause of
    # ``idle_after``. Without it, a key without an open row is forgotten if later rows need nothing of it.

    def __init__(self, query: RowsQuery, schema: StreamSchema, options: Options):
        options.refuse("MATCH_RECOGNIZE", "idle_after", "max_live")
        if options.overflow == "shed":
            raise UnsupportedQueryError(
                "overflow='shed': MATCH_RECOGNIZE does not take it. An open match reads every row of its "
                "key, so the stream can leave none out; overflow='oldest' ends the match"
            )
        self.query, self.schema, self._max_live = query, schema, options.refused_beyond
        self._most_open = math.inf if options.max_live is None or self._max_live else options.max_live
        columns = schema.without_nulls(query.order_by).columns
        self._bound = bind_row_query(query.whole, columns, dict(query.params))
        self._program, self._measures = self._bound.program, self._bound.measures
        self._n_before, self._n_ahead = reach_of((*self._program.conditions.values(), *self._measures))
        self._clock = None if self._program.within is None else self._program.within[0]
        self._used = self._program.columns
        self._shown = self._bound.columns_around()
        self._kept = kept_columns(query, columns)
        self._kept_schema = pa.schema([schema.arrow.field(name) for name in self._kept])
        idle_ticks = idle_ticks_of(options.idle_after, query.order_by, columns)
        self._keys = KeyCodes(idle_ticks)
        self._forgets_closed = idle_ticks is None and not self._needs_closed_keys()
        if query.partition_by and idle_ticks is None and not self._forgets_closed:
            self.grows = "no key is forgotten, since PREV, MATCH_NUMBER or ^ may look back; give idle_after"
        self._open: dict[int, OpenRows] = {}  # by the code of their key
        self._deadlines: list[tuple[int, int]] = []  # a heap of times and codes of keys
        self._now: int | None = None
        self._n_events = self.n_evicted = self.n_ended = self.n_overflowed = 0
        self.column_of_result = self._copied_columns()
        self.empty = self._table([])
        if unknown := [item.name for item in self.empty.schema if pa.types.is_null(item.type)]:
            raise UnsupportedQueryError(
                f"the columns {unknown} have no type before the first row, and all results of a stream have "
                "one schema; write CAST around them, or leave them out"
            )

    def _needs_closed_keys(self) -> bool:
        """Return whether later rows depend on rows of their key before the first open one."""
        terms = (*self._program.conditions.values(), *self._measures)
        numbered = any(node.op == "number" for term in terms for node in term.walk())
        anchored = any(isinstance(node, pt.Anchor) for node in self._bound.query.rows.pattern.walk())
        return bool(self._n_before) or numbered or anchored

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
        source = self.schema.source(table)
        values = {name: plain_of(source, name).tolist() for name in self._used}
        rows = list(zip(*(table.column(name).to_pylist() for name in self._kept), strict=True))
        rows = rows or [()] * table.num_rows  # without columns to keep
        key_of_event, distinct_keys = keys_of_batch(ArrowSource(table), self.query.partition_by)
        clock = None
        if self._keys.idle_ticks is not None:
            assert keys is not None
            clock = column_of_arrow(keys.column(by := self.query.order_by[0]), by).values
        assignment = self._keys.assign(key_of_event, distinct_keys, clock)
        codes = assignment.codes.tolist()
        times = values[self._clock] if self._clock else []
        before, made = (self._now, self._n_events, self.n_overflowed), []
        states: dict[int, tuple] = {}
        try:
            for code in assignment.taken:
                self._open[code] = OpenRows({name: [] for name in self._used})
            states |= {code: self._open[code].state() for code in dict.fromkeys(codes)}
            for i, code in enumerate(codes):
                kept = self._open[code]
                kept.rows.append(rows[i])
                kept.positions.append(n_before + i)
                for name in self._used:
                    kept.columns[name].append(values[name][i])
                if kept.n_open > self._most_open:
                    made += self._give_up(
                        kept, TimeSoFar(times[i] if times else None, times[: i + 1], n_before)
                    )
            self._now, self._n_events = times[-1] if times else self._now, n_before + table.num_rows
            ends = {} if clock is None else self._ends(assignment, clock, n_before)
            clock_so_far = TimeSoFar(self._now, times, n_before)
            return self._decide([*states], clock_so_far, states, ends, assignment, made)
        except BaseException:
            for code, state in states.items():
                self._open[code].restore(state)
            for code in assignment.taken:
                self._open.pop(code, None)
            self._keys.discard(assignment)
            self._now, self._n_events, self.n_overflowed = before
            raise

    def _give_up(self, kept: OpenRows, clock: TimeSoFar) -> list[_Made]:
        """Decide what the newest row of a key decides, then end its oldest open matches that are too many."""
        decided = kept.decide(self._program, self._n_ahead, clock)
        while kept.n_open > self._most_open:
            decided += kept.give_up()
            decided += kept.decide(self._program, self._n_ahead, clock)
            self.n_overflowed += 1
        return [row for decision in decided for row in self._rows_of(kept, decision)]

    def _ends(self, assignment: Assignment, clock: np.ndarray, n_before: int) -> dict[int, tuple[int, Any]]:
        """Return the position and the time of the event that ended each key after its pause."""
        latest, idle_ticks = {code: last for _, code, last in assignment.runs}, self._keys.idle_ticks
        assert idle_ticks is not None
        pause = math.floor(idle_ticks) if clock.dtype.kind == "i" else idle_ticks
        ends = {}
        for code in self._keys.ended_by(assignment, clock[-1].item()):
            last = latest[code] if code in latest else self._keys.newest_of_code[code].item()
            i = min(int(np.searchsorted(clock, last + pause, side="right")), len(clock) - 1)
            ends[code] = n_before + i, clock[i].item()
        return ends

    def pass_time(self, now: int) -> Ready:
        if self._clock is not None:
            self._now = now if self._now is None else max(now, self._now)
        ended = self._keys.ended_by(NOTHING_NEW, now)
        ends = {code: (self._n_events, now) for code in ended}
        return self._decide(ended, TimeSoFar(self._now, (), self._n_events), {}, ends)

    @property
    def wakes_at(self) -> int | None:
        """Return when the first open match runs out of time."""
        while self._deadlines and not self._is_due(*self._deadlines[0]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _is_due(self, ticks: int, code: int) -> bool:
        """Return whether an entry of the heap is still the deadline of its key."""
        return code in self._open and self._open[code].deadline(self._program) == ticks

    def finish(self, n_events: int) -> Ready:
        now = self._now
        if self._clock is not None and self.complete_until is not None:
            now = end_in_ticks(self.complete_until, self.schema.columns[self._clock])
        ends = dict.fromkeys(self._open, (AT_END, now))
        n_ended = self.n_ended
        ready = self._decide([*self._open], TimeSoFar(now, (), n_events), {}, ends)
        self.n_ended = n_ended  # no pause ended them
        return ready

    def _decide(
        self, codes: list[int], clock: TimeSoFar, states: dict[int, tuple],
        ends: Mapping[int, tuple[int, Any]], assignment: Assignment = NOTHING_NEW, made: Sequence[_Made] = (),
    ) -> Ready:  # fmt: skip
        """Return the decided matches of these keys, and of keys with an open match that ran out of time."""
        # ``states`` has what an error restores. ``ends`` has the keys that end, see `_ends`, and ``made`` the
        # rows that are decided already.
        due = []
        while self._deadlines and clock.now is not None and self._deadlines[0][0] <= clock.now:
            due.append(heapq.heappop(self._deadlines))
        every = [*dict.fromkeys([*codes, *ends, *(code for _, code in due if code in self._open)])]
        rows = [*made]
        try:
            for code in every:
                kept = self._open[code]
                states.setdefault(code, kept.state())
                end, time = None, clock
                if code in ends:
                    end, now = ends[code]
                    time = replace(clock, now=now)
                for decision in kept.decide(self._program, self._n_ahead, time, end):
                    rows += self._rows_of(kept, decision)
                self._check_live(code, kept)
            rows.sort(key=lambda row: row[:2])
            ready = self._table(rows), np.ones(sum(row.is_match for row in rows), np.int64)
        except BaseException:
            for code, state in states.items():
                self._open[code].restore(state)
            for entry in due:
                heapq.heappush(self._deadlines, entry)
            raise
        ended = [*ends]
        for code in every:
            kept = self._open[code]
            kept.forget(self._n_before)
            if code in ends:
                self.n_ended += kept.n_ended
            elif self._forgets_closed and not kept.rows:
                ended.append(code)
            else:
                self._wait_for_deadline(code)
        for code in ended:
            del self._open[code]
        self._keys.commit(assignment, ended)
        self.n_evicted += len(ends)
        return ready

    def _check_live(self, code: int, kept: OpenRows) -> None:
        if self._max_live is not None and kept.n_open > self._max_live:
            shown = key_text(self.query.partition_by, self._keys.key_of_code[code])
            raise CepError(
                f"{shown} has {kept.n_open:,} rows of open matches, more than max_live={self._max_live:,}; "
                "the batch is not applied. Bound them with WITHIN or with a condition that eventually fails; "
                "idle_after=… ends those of idle keys"
            )

    def _wait_for_deadline(self, code: int) -> None:
        """Remember when the open match of a key runs out of time."""
        kept = self._open[code]
        deadline = kept.deadline(self._program)
        if deadline is not None and deadline != kept.queued and (self._now is None or deadline > self._now):
            heapq.heappush(self._deadlines, (deadline, code))
            kept.queued = deadline

    def _rows_of(self, kept: OpenRows, one: Decided) -> list[_Made]:
        shown, first = self._bound.query.rows.rows_per_match, kept.positions[one.row]
        if one.match is None:
            if shown != "all_with_unmatched":
                return []
            return [_Made(one.position, first, kept.rows[one.row], [None] * len(self._measures), False)]
        shown = "all" if shown == "all_with_unmatched" else shown
        n_rows, is_match = len(kept.rows), one.match.number > 0
        output = output_rows(self._program, self._measures, shown, kept.columns, n_rows, [one.match])
        return [
            _Made(one.position, first, kept.rows[row], values, is_match and i == 0)
            for i, (row, values) in enumerate(output)
        ]

    # --- results

    def _table(self, made: list[_Made]) -> pa.Table:
        """Return the rows of the result as a table."""
        source = self.schema.source(table_of_rows([row.row for row in made], self._kept_schema))
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

    # --- counters

    @property
    def n_keys(self) -> int:
        return len(self._keys)

    @property
    def n_live(self) -> int:
        return sum(kept.n_open for kept in self._open.values())

    @property
    def oldest(self) -> int | None:
        return min((kept.positions[kept.start] for kept in self._open.values() if kept.n_open), default=None)

    def oldest_time(self, clock: str) -> Any:
        kept = [rows for rows in self._open.values() if rows.n_open]
        if not kept or clock not in self._kept:
            return None
        oldest = min(kept, key=lambda rows: rows.positions[rows.start])
        return oldest.rows[oldest.start][self._kept.index(clock)]

    @property
    def n_retained(self) -> int:
        return sum(len(kept.rows) for kept in self._open.values())

    # --- saving

    def pack(self, n_events: int) -> Saved:
        every = [self._open[code] for code in self._keys.code_of_key.values()]
        saved = self._keys.pack([self.schema.arrow.field(name) for name in self.query.partition_by])
        saved.tables["rows"] = table_of_rows([row for kept in every for row in kept.rows], self._kept_schema)
        saved.arrays["positions"] = np.array([at for kept in every for at in kept.positions], np.int64)
        saved.arrays["states"] = np.array([kept.state() for kept in every], np.int64).reshape(-1, 6)
        counters = {
            "n_events": self._n_events, "n_evicted": self.n_evicted, "n_ended": self.n_ended,
            "n_overflowed": self.n_overflowed,
        }  # fmt: skip
        saved.header.update(counters, now=self._now)
        return saved

    def unpack(self, saved: Saved) -> None:
        if "code" not in saved.tables["keys"].schema.names:  # a file of the time when no key was forgotten
            n_keys = len(saved.arrays["states"])
            table = saved.tables["keys"].add_column(0, "code", pa.array(range(n_keys), pa.int64()))
            saved.tables["keys"] = table
            saved.header.update(n_codes=n_keys, n_evicted=0, n_ended=0)
            saved.arrays.update({"keys/free": np.empty(0, np.int64), "keys/newest": np.empty(0)})
        self._keys.unpack(saved)
        self._now, self._n_events = saved.header["now"], saved.counter("n_events")
        self.n_evicted, self.n_ended = saved.counter("n_evicted"), saved.counter("n_ended")
        self.n_overflowed = saved.counter("n_overflowed", absent=0)
        table, states = saved.tables["rows"], saved.arrays["states"].tolist()
        source = self.schema.source(table)
        values = {name: plain_of(source, name).tolist() for name in self._used}
        rows = list(zip(*(table.column(name).to_pylist() for name in self._kept), strict=True))
        positions = saved.arrays["positions"].tolist()
        rows = rows or [()] * len(positions)
        begin = 0
        for code, state in zip(self._keys.code_of_key.values(), states, strict=True):
            span = slice(begin, begin + state[0])
            kept = OpenRows({name: values[name][span] for name in self._used}, rows[span], positions[span])
            kept.restore(tuple(state))
            self._open[code] = kept
            begin += state[0]
            self._wait_for_deadline(code)
