"""The search of a sequence query in an open stream: it keeps events and searches them in every batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.sequence_program import SequenceProgram, compile_sequence
from cepkit.compile.shared.operations import end_in_ticks
from cepkit.engines.after_match import Reporter
from cepkit.engines.regex_measures import Picked
from cepkit.engines.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.places import InStreamOrder, Places, accepted
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock, SequenceSet
from cepkit.errors import UnsupportedQueryError, warn
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource
from cepkit.language.query_parts import END
from cepkit.language.sequences.branches import Branch
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import choose_engine
from cepkit.planning.plans import compile_checked
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.coding import (
    NEVER,
    NOTHING_NEW,
    CodedRows,
    KeyCodes,
    Room,
    idle_ticks_of,
    key_values,
    keys_of_batch,
)
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Openings, Options, Ready, Search, first_value, table_of_rows

_FEW = 1 << 10  # up to this many events, a search takes no longer than the preparation of keys
_FEWEST_OF_POLICY = 1 << 12  # matches and partitions that an after-match policy remembers at least
_MOST_NEW = 1 << 12  # events that wait for a search
_LONG_AGO = -(2**63)  # the smallest time


class SequenceSearch(Search):
    """The search of a sequence query in a stream; `advance` returns all complete matches."""

    # It keeps the events that later matches may contain, or all events if no window bounds a match. It
    # searches them again with every batch, so batches should not be much smaller than the window. The window
    # ends partial matches; no key is forgotten earlier.

    keeps_batches = True

    def __init__(self, query: SequenceQuery, schema: StreamSchema, options: Options):
        options.refuse("a stream of event sequences", "rows", "idle_after", "max_live")
        if query.ends_greedily:
            raise UnsupportedQueryError(
                "GREEDY at the end of the pattern: in a stream a longer match may always come. An absent "
                "event with a window says when one is complete: SEQ(A{2,} a[], !A x) WITHIN 1 min"
            )
        bound = schema.without_nulls(query.order_by)  # events without a time are refused earlier
        choose_engine(compile_checked(query, bound.source()))
        self.complete_until = query.complete_until
        query = replace(query, complete_until=END)  # a search of some events does not know where all end
        program = compile_checked(query, bound.source())
        self.query, self.schema, self._rows = query, schema, options.rows
        _check_bounds(options, program)
        self._room = None
        if options.max_live is not None:
            self._room = Room(query.partition_by, options.max_live, options.overflow)
        idle_ticks = idle_ticks_of(options.idle_after, query.order_by, bound.columns)
        self._keys = None if idle_ticks is None else KeyCodes(idle_ticks)
        self._code_of_kept = np.empty(0, np.int32)  # of the keys of kept events, with ``idle_after``
        window = program.window
        if window.within is None and window.within_events is None and self._room is None:
            self.grows = (
                "without a window the stream keeps every event of the pattern, since a later event may "
                "complete a match with it; give the query a WITHIN, or max_live"
            )
            warn(self.grows)
        self.program = self._program = program  # for the schema, and for the last batch
        none = Events(0, {}, np.empty(0, np.int32), 0)
        self.column_of_result = columns_of_results(program, options.rows, bound)
        self._reporter = Reporter(program)
        self._new: list[list] = []  # the newest events, which end no match and wait for a search
        self._n_events = self.n_evicted = self.n_overflowed = 0
        names, ending = schema.arrow.names, {b.branch.components[-1].event_type for b in program.branches}
        self.takes_rows = not program.functions and query.event_type in names
        if None in ending or program.can_be_forbidden_later or program.derived:
            self.takes_rows = False
        self._ending_types = ending
        self._place_of_type = names.index(query.event_type) if self.takes_rows else 0
        self._openings = Openings.of(program, names) if self.takes_rows else None
        read = {*program.columns_of_frame(program.columns_to_read), *query.partition_by}
        self._kept = CodedRows.of(schema.arrow.empty_table(), read)
        self._position_of_kept = np.empty(0, np.int64)
        self._done = (-1, 0)  # the last event of the returned matches, and how many of them end there
        self._now: int | None = None  # no later event comes before this time
        self._searched_at: int | None = None  # what `_latest` returned for the last search
        self.wakes_at: int | None = None  # when a waiting match is complete, or all windows have ended
        self._codes: dict[tuple, int] = {}  # of partitions with matches, for an after-match policy
        self._n_codes, self._most_policy = 0, _FEWEST_OF_POLICY
        self.empty = results_of(program, self._rows, self._kept, none, EMPTY)[0]

    # --- events in, matches out

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        ready = self._advance_table(table, n_before)
        self._search_all_for_a_window()
        return ready

    def _search_all_for_a_window(self) -> None:
        """Search every event, until those of batches, which the openings lack, are out of the window."""
        if self._openings is not None and self._now is not None:
            self._openings.unknown_until = self._now + self._openings.window

    def _advance_table(self, table: pa.Table, n_before: int) -> Ready:
        rows, first = table.select(self.schema.arrow.names), n_before - len(self._new)
        if self._new:
            rows = pa.concat_tables([table_of_rows(self._new, self.schema.arrow), rows])
        position = np.concatenate([self._position_of_kept, np.arange(first, first + rows.num_rows)])
        ready = self._advance(self._kept.with_batch(rows), position, is_last=False)
        self._new, self._n_events = [], n_before + table.num_rows
        return ready

    def advance_row(self, values: list, n_before: int) -> Ready | None:
        """Read the next event. One that ends no match waits for a later event, and no search begins."""
        if self._openings is not None:
            can_end = self._openings.note(values)
        else:
            can_end = values[self._place_of_type] in self._ending_types
        if can_end or len(self._new) >= _MOST_NEW:
            return self._advance_table(table_of_rows([values], self.schema.arrow), n_before)
        self._new.append(values)
        self._n_events = n_before + 1
        return self.release()

    def _settle(self) -> None:
        """Search the events that wait, so that the state has them; none of them ends a match."""
        if self._new:
            self._advance_table(self.schema.arrow.empty_table(), self._n_events)

    def pass_time(self, now: int) -> Ready:
        """Return the matches that no later event can forbid, and forget events out of the window."""
        self._settle()
        self._now = now if self._now is None else max(now, self._now)
        if not self.n_retained:
            return self.release()
        return self._advance(self._kept, self._position_of_kept, is_last=False)

    def delay_of(self, column: str) -> int | None:
        """Return the length of the window for the clock at an event of a match."""
        within, by = self.program.window.within, self.query.order_by
        if within is None or not by or self.column_of_result.get(column) != by[0]:
            return None
        return math.ceil(within) + 1

    def finish(self, n_events: int) -> Ready:
        """Return the matches that waited for the end of an absence, if it ends with the data."""
        self._settle()
        return self._advance(self._kept, self._position_of_kept, is_last=True)

    def remember(self) -> Callable[[], None]:
        self._new = [*self._new]
        undo, reporter, codes = super().remember(), self._reporter, self._codes
        if reporter.policy != "none":
            self._reporter, self._codes = reporter.copy(), dict(codes)
        return undo

    def _advance(self, whole: CodedRows, position: np.ndarray, *, is_last: bool) -> Ready:
        undo = self.remember()
        try:
            return self._search(whole, position, is_last=is_last)
        except BaseException:
            undo()
            raise

    def _search(self, whole: CodedRows, position: np.ndarray, *, is_last: bool) -> Ready:
        n_old = len(self._position_of_kept)
        keys, codes, ended = self._runs_of_keys(whole, n_old)
        if self._room is not None and self._room.overflow == "shed":
            has_room = self._ends(whole, n_old) == NEVER
            self.n_overflowed += int((~has_room).sum())
            whole, position = whole.part(has_room), position[has_room]
            codes = None if codes is None else codes[has_room]
        program = self._program_for(whole)
        events = whole.events(program)
        if codes is not None:  # a pause cuts a key as another key would
            distinct, partition = np.unique(codes, return_inverse=True)
            events = replace(
                events, partition_of_event=partition.astype(np.int32), n_partitions=len(distinct)
            )
        self.wakes_at = self._end_of_last_window(program, events)
        by_key = events.n_events > _FEW
        engine = program.once(("engine of a stream", by_key), lambda: choose_engine(program, by_key=by_key))
        sequences = engine.run(program, events)
        block = self._complete(program, events, sequences, position, n_old, is_last=is_last)
        done = self._done
        if len(block):
            last = position[block.last]
            n_there = int((last == last[-1]).sum())
            done = (int(last[-1]), n_there + (done[1] if done[0] == last[-1] else 0))
        ends = None
        if self._room is not None and self._room.overflow == "oldest":
            ends = self._ends(whole, n_old)
            block = block.take(np.flatnonzero(ends[block.first] > block.last))
            self.n_overflowed += int((ends != NEVER).sum())
        if self._reporter.policy != "none":
            block = self._report(whole, events, block, position)
        ready = results_of(program, self._rows, whole, events, block)
        keep = self._is_needed(program, events)
        if program.window.within is not None and events.n_events:
            self._now = int(self._latest(_times(program, events)))
            self._searched_at = self._now if program.can_be_forbidden_later else None
        keep[n_old:] &= self._is_named(program, events, n_old, sequences)
        keep &= True if ends is None else ends == NEVER
        if codes is not None:
            keep &= ~np.isin(codes, ended)
            self._keys, self._code_of_kept, self.n_evicted = keys, codes[keep], self.n_evicted + len(ended)
        kept = whole.part(np.flatnonzero(keep))
        if not kept.n_rows:
            self.wakes_at = None
        if self._room is not None:
            self._room.check(kept)
        self._kept, self._position_of_kept, self._done = kept, position[keep], done
        self._forget_of_policy(
            int(self._position_of_kept[0]) if kept.n_rows else int(position.max(initial=-1)) + 1
        )
        return ready

    def _ends(self, whole: CodedRows, n_old: int) -> np.ndarray:
        """Return the event at which each event ends for want of room; see `Room.ends`."""
        assert self._room is not None
        program = self._program_for(whole)
        events, ends = whole.events(program), np.full(whole.n_rows, NEVER)
        until = time = np.zeros(whole.n_rows)
        if program.window.within is not None and whole.n_rows:
            time, span = _times(program, events), self._span_needed(program)
            until = time + (math.floor(span) if time.dtype.kind == "i" else span)
        counts = np.ones(whole.n_rows, bool)
        counts[n_old:] = self._is_named(program, events, n_old)
        rows = np.append(np.flatnonzero(counts), NEVER)
        of_named = self._room.ends(whole.part(counts), until[counts], time[counts], n_old)
        ends[counts] = rows[np.minimum(of_named, len(rows) - 1)]
        return ends

    def _runs_of_keys(self, whole: CodedRows, n_old: int) -> tuple[KeyCodes | None, np.ndarray | None, list]:
        """Return the keys after the new events, the code of each event, and the codes that a pause ends."""
        if self._keys is None:
            return None, None, []
        keys, new, now, by = self._keys.copy(), NOTHING_NEW, self._now, self.query.order_by[0]
        if whole.n_rows > n_old:
            rows = whole.part(slice(n_old, None))
            key_of_event, distinct = keys_of_batch(rows, self.query.partition_by)
            clock = rows.column(by).values
            new = keys.assign(key_of_event, distinct, clock)
            now = max(clock[-1].item(), clock[-1].item() if now is None else now)
        ended = keys.ended_by(new, now)
        keys.commit(new, ended)
        return keys, np.concatenate([self._code_of_kept, new.codes]), ended

    def _program_for(self, source: ArrowSource) -> SequenceProgram:
        """Return the query for these columns, which may have nulls or not; most batches are alike."""
        if self._program.schema != source.schema:
            self._program = compile_sequence(self.query, source.schema)
        return self._program

    def _forget_of_policy(self, oldest: int) -> None:
        """Forget what an after-match policy says about matches that begin before ``oldest``."""
        reporter = self._reporter
        if len(reporter.taken) + len(self._codes) < self._most_policy:
            return
        reporter.taken = {start for start in reporter.taken if start >= oldest}
        reporter.horizon = {code: end for code, end in reporter.horizon.items() if end > oldest}
        self._codes = {key: code for key, code in self._codes.items() if code in reporter.horizon}
        self._most_policy = max(_FEWEST_OF_POLICY, 2 * (len(reporter.taken) + len(self._codes)))

    def _complete(
        self, program: SequenceProgram, events: Events, found: SequenceSet, position: np.ndarray, n_old: int,
        *, is_last: bool,
    ) -> MatchBlock:  # fmt: skip
        """Return the decided matches that were not returned before."""
        # A match that ends at one of the ``n_old`` kept events was returned or forbidden earlier, unless it
        # waits. The event that forbade it may be forgotten.
        done, n_there = self._done
        first_new = max(int(np.searchsorted(position, done)), self._first_of_waiting(program, events, n_old))
        block = found.ending(first_new, events.n_events)
        again = int((position[block.last] == done).sum())
        block = block.take(slice(min(n_there, again), None))
        if not program.can_be_forbidden_later or not len(block):
            return block
        if is_last:
            return block.take(np.flatnonzero(self._is_decided(program, events, block)))
        if program.window.within is None:
            return block.take(slice(0, 0))  # no time ends the wait
        window, time, within = program.window, _times(program, events), _window(program)
        age = self._latest(time) - time[block.first]
        decided = age > within if window.closed else age >= within
        n_decided = len(block) if decided.all() else int(np.argmin(decided))
        if n_decided < len(block):
            self.wakes_at = int(time[block.first[n_decided]]) + int(within) + bool(window.closed)
        if self._reporter.policy != "none" and n_decided < len(block):
            # A policy needs all matches with the same last event at once.
            n_decided = int(np.searchsorted(block.last, block.last[n_decided]))
        return block.take(slice(0, n_decided))

    def _is_decided(self, program: SequenceProgram, events: Events, block: MatchBlock) -> np.ndarray:
        """Return which matches wait for nothing that ends after the data, at the end of the stream, bool."""
        waits = np.array([_waits(bound.branch) for bound in program.branches])[block.branch_of_match]
        if program.window.within is None:
            return np.ones(len(block), bool)  # the query says that its data are finished
        time = _times(program, events)
        until = end_in_ticks(self.complete_until, self.schema.columns[program.clock or ""])
        until = self._latest(time) if until is None else max(until, self._latest(time))
        return ~waits | (time[block.first] <= until - _window(program))

    def _first_of_waiting(self, program: SequenceProgram, events: Events, n_old: int) -> int:
        """Return the first event at which a match can end that waits or is new."""
        if not program.can_be_forbidden_later:
            return n_old
        if self._searched_at is None or program.window.within is None:
            return 0
        time = _times(program, events)
        return int(np.searchsorted(time, max(self._searched_at - math.ceil(_window(program)), _LONG_AGO)))

    def _latest(self, time: np.ndarray) -> int:
        """Return the time before which no later event comes."""
        return time[-1] if self._now is None else max(time[-1], self._now)

    def _end_of_last_window(self, program: SequenceProgram, events: Events) -> int | None:
        """Return the time from which no event is needed; None if time alone does not decide it."""
        if program.window.within is None or not events.n_events:
            return None
        return int(_times(program, events)[-1]) + int(self._span_needed(program)) + 1

    def _span_needed(self, program: SequenceProgram) -> float:
        """Return for how long an event is needed, in ticks."""
        # A waiting match began at most one window ago; an event that forbids it, at most two.
        n_windows = 1 + program.can_be_forbidden_later * (2 if _looks_back(program) else 1)
        return n_windows * _window(program)

    def _report(
        self, source: ArrowSource, events: Events, block: MatchBlock, position: np.ndarray
    ) -> MatchBlock:
        rows = events.rows(block.last)
        parts = [key_values(source.arrow(name, rows)) for name in self.query.partition_by]
        keys = list(zip(*parts, strict=True)) if parts else [()] * len(block)
        for key in keys:
            if key not in self._codes:
                self._codes[key] = self._n_codes
                self._n_codes += 1
        codes = np.array([self._codes[key] for key in keys], np.int64)
        return self._reporter.reported(block, codes, position)

    def _is_named(
        self, program: SequenceProgram, events: Events, first: int, found: SequenceSet | None = None
    ) -> np.ndarray | bool:
        """Return a mask of the events from ``first`` on that can be in a match, or forbid one."""
        needs_all = program.once("needs all events", lambda: _needs_all(program))
        if (
            needs_all
            or program.window.within_events is not None
            or not program.pure
            or first == events.n_events
        ):
            return True
        if found is not None and (accepts := found.accepts) is not None:
            return accepts[first:]
        inputs = program.inputs(events.columns)
        columns = {name: values[first:] for name, values in inputs.columns.items()}
        new = InStreamOrder(program, inputs.with_columns(columns), events.n_events - first)
        return accepted(new).any(axis=0)

    def _is_needed(self, program: SequenceProgram, events: Events) -> np.ndarray:
        """Return a mask of the events that later matches may need, bool, (n_events,)."""
        window, n = program.window, events.n_events
        keep = np.ones(n, bool)
        if n == 0 or (window.within is None and window.within_events is None):
            return keep
        if window.within is None and program.can_be_forbidden_later:
            return keep
        if window.within is not None:
            time = _times(program, events)
            keep &= self._latest(time) - time <= self._span_needed(program)
        elif window.within_events is not None:
            places = Places(program, events)
            left = places.end_of_partition - np.arange(n)
            keep[places.position_of_place[left >= window.within_events]] = False
        if program.once("is strict", lambda: bool(_links(program) & {"strict"})) and keep.any():
            # Events stay neighbours only if all events between them are kept.
            keep[int(np.argmax(keep)) :] = True
        return keep

    # --- counters

    @property
    def n_keys(self) -> int:
        """Number of partition keys of the events that are kept."""
        if not self.n_retained or self._keys is not None:
            return 0 if self._keys is None else len(self._keys)
        return len(keys_of_batch(self._kept, self.query.partition_by)[1])

    @property
    def n_retained(self) -> int:
        self._settle()
        return len(self._position_of_kept)

    @property
    def oldest(self) -> int | None:
        return int(self._position_of_kept[0]) if self.n_retained else None

    def oldest_time(self, clock: str) -> Any:
        return first_value(self._kept.part(slice(1)).frame, clock) if self.n_retained else None

    # --- saving

    def pack(self, n_events: int) -> Saved:
        self._settle()
        horizon = self._reporter.horizon
        arrays = {
            "position": self._position_of_kept,
            "horizon/code": np.array(list(horizon), np.int64),
            "horizon/position": np.array(list(horizon.values()), np.int64),
            "taken": np.array(sorted(self._reporter.taken), np.int64),
            "codes": np.array(list(self._codes.values()), np.int64),
        }
        by = self.query.partition_by
        keys = {f"key{i}": [key[i] for key in self._codes] for i in range(len(by))}
        types = [(f"key{i}", self.schema.arrow.field(name).type) for i, name in enumerate(by)]
        tables = {"kept": self._kept.frame, "keys": pa.table(keys, schema=pa.schema(types))}
        header = {
            "done": list(self._done), "searched_at": self._searched_at, "n_codes": self._n_codes,
            "now": self._now, "n_evicted": self.n_evicted, "n_overflowed": self.n_overflowed,
        }  # fmt: skip
        saved = Saved(header, arrays, tables)
        if self._keys is None:
            return saved
        arrays["code"] = self._code_of_kept
        return saved.with_part("idle", self._keys.pack([self.schema.arrow.field(name) for name in by]))

    def unpack(self, saved: Saved) -> None:
        last, n_there = saved.counters("done", 2, least=-1)
        self._done = (last, n_there)
        self._searched_at, self._now = saved.header.get("searched_at"), saved.header.get("now")
        kept = saved.tables["kept"].select(self.schema.arrow.names).cast(self.schema.arrow)
        self._kept = self._kept.with_batch(kept)
        self._position_of_kept = saved.arrays["position"]
        rows = list(zip(*map(key_values, saved.tables["keys"].columns), strict=True))
        self._n_codes = saved.counter("n_codes")
        of_rows = saved.arrays["codes"].tolist() if "codes" in saved.arrays else [*range(self._n_codes)]
        if not self.query.partition_by:
            rows = [()] * len(of_rows)
        self._codes = dict(zip(rows, of_rows, strict=True))
        codes, positions = saved.arrays["horizon/code"].tolist(), saved.arrays["horizon/position"].tolist()
        self._reporter.horizon = dict(zip(codes, positions, strict=True))
        self._reporter.taken = set(saved.arrays["taken"].tolist())
        self.n_evicted = saved.counter("n_evicted", absent=0)
        self.n_overflowed = saved.counter("n_overflowed", absent=0)
        if self._keys is not None:
            self._code_of_kept = saved.arrays["code"]
            self._keys.unpack(saved.part("idle"))
        self._search_all_for_a_window()


def columns_of_results(program: SequenceProgram, rows: str, schema: StreamSchema) -> dict[str, str]:
    """Return the columns of results that are columns of the stream, with a row per match or all rows."""
    if rows != "one":
        return {name: name for name in schema.arrow.names}
    none = Events(0, {}, np.empty(0, np.int32), 0)
    measured = sequence_measures(program, none, EMPTY, schema.source())
    return {name: measure.column for name, measure in measured.items() if isinstance(measure, Picked)}


def results_of(
    program: SequenceProgram, rows: str, source: ArrowSource, events: Events, block: MatchBlock
) -> Ready:
    """Return the results of matches: a row for each, or all rows, with the name of their variable."""
    if rows == "one":
        measured = sequence_measures(program, events, block, source)
        return source.result(measured), np.ones(len(block), np.int64)
    names = np.array(program.query.variables, dtype=object)[variables_of_items(program, block)]
    table = source.rows(events.rows(block.event_of_item), {"variable": names})
    return table, np.diff(block.first_item_of_match)


def _check_bounds(options: Options, program: SequenceProgram) -> None:
    """Raise for bounds of keys that would find matches which the events forbid."""
    links, reason = _links(program), ""
    if program.can_be_forbidden_later or (_looks_back(program) and options.overflow != "error"):
        reason = "an absent event outside a match must be known until its window is over"
    elif "strict" in links:
        reason = "neighbours in the stream stay neighbours only if all events between them are kept"
    elif options.overflow == "shed":
        window, absences = program.window, [a for bound in program.branches for a in bound.branch.absences]
        if absences or _needs_all(program):
            reason = "without an event that it sheds, others might match that do not"
        elif window.within_events is not None:
            reason = "its window counts all events"
    for name in ("idle_after", "overflow"):
        if reason and (value := getattr(options, name)) != getattr(Options, name):
            raise UnsupportedQueryError(f"{name}={value!r}: this sequence does not take it, since {reason}")


def _links(program: SequenceProgram) -> set[str]:
    return {link for b in program.branches for c in b.branch.components for link in (c.step, c.inner)}


def _needs_all(program: SequenceProgram) -> bool:
    """Return whether events may matter that fulfil no condition, without regard to the window."""
    has_end = any(c.until is not None for b in program.branches for c in b.branch.components)
    return has_end or bool(_links(program) & {"strict", "partition"})


def _times(program: SequenceProgram, events: Events) -> np.ndarray:
    """Return the time of every event, for a query with a window of time."""
    assert program.clock is not None
    return events.columns[program.clock].values


def _window(program: SequenceProgram) -> float:
    """Return the length of the window of time, in ticks."""
    assert program.window.within is not None
    return program.window.within


def _waits(branch: Branch) -> bool:
    """Return whether an event after a match can forbid the match."""
    return any(absence.before >= len(branch.components) for absence in branch.absences)


def _looks_back(program: SequenceProgram) -> bool:
    """Return whether an event before a match can forbid the match."""
    return any(a.after < 0 for b in program.branches for a in b.branch.absences)
