"""Open the search of any query in a stream: of a regex, on one thread or several, and of a chain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from cepkit.compile.regex_plan import of_every_start
from cepkit.compile.regex_program import Program
from cepkit.engines.regex_measures import Picked, measure, measure_expressions
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, INTEGER, LIST, TEXT, Column, Events
from cepkit.frames.arrow import ArrowSource, column_of_arrow
from cepkit.frames.sources import wishes_of
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.trees import Aggregate, Attribute
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.plans import compile_checked
from cepkit.streaming.batches import StreamSchema, ordered_batch
from cepkit.streaming.coding import BatchCoder, KeyCodes, idle_ticks_of, key_text, keys_of_batch
from cepkit.streaming.replicas import (
    Kept,
    Matcher,
    Replica,
    ReplicaMatches,
    ReplicaThreads,
    Share,
    gather,
    values_in_use,
)
from cepkit.streaming.row_patterns import OpenPatternSearch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import KernelRow, Options, PlainRow, Ready, Search, first_value
from cepkit.streaming.sequence_stream import SequenceSearch
from cepkit.streaming.windows import Sides, SidesSearch, WindowSearch
from cepkit.windows.running import Chain
from cepkit.windows.values import Window

_ONE = np.ones(1, np.int64)
_EVENTS_PER_SHARE = 1 << 16  # with threads, a batch is dealt out in pieces of at least this many events


def _total_of(parts: str, counter: str) -> property:
    """Return the sum of a counter of all parts of a search."""
    return property(lambda self: sum(getattr(part, counter) for part in getattr(self, parts)))


class RegexSearch(Search):
    """The search of a regex query in a stream, on one thread or several."""

    def __init__(self, query: RegexQuery, schema: StreamSchema, options: Options):
        query.refuse_skips("stream")
        bound = schema.without_nulls(query.order_by)  # events without a time are refused earlier
        program = compile_checked(query, bound.source())
        _check(options, program, schema)
        if options.overflow != "error":
            plan = of_every_start(program.plan, options.max_live, options.overflow)
            program = replace(program, plan=plan)
        self.query, self.schema = query, schema
        # The order of calls matters for impure functions; compile_checked has warned.
        self.n_threads = options.threads if program.pure else 1
        self._pulse_every = options.pulse_every
        self._coder = BatchCoder(replace(program, schema=bound.columns))
        columns = self._coder.columns(bound.source())
        matcher = Matcher(
            self._coder.program,
            self._coder.inputs(columns),
            options.rows,
            _result_columns(query, schema, options.rows),
            options.refused_beyond,
        )
        none = np.empty(0, np.int64)
        nothing = MatchSet(Events(0, columns, none.astype(np.int32), 0), none, none)
        self.empty = matcher.results(matcher.nothing_kept(), nothing, columns).table
        self.column_of_result = {name: name for name in schema.arrow.names}
        if options.rows == "one":
            measured = measure(query, nothing, bound.source())
            self.column_of_result = {n: m.column for n, m in measured.items() if isinstance(m, Picked)}
        # Without idle_after, a key is fresh again when ``within`` has ended its partial matches.
        self._loses_nothing = options.idle_after is None
        idle_after = query.within if self._loses_nothing and not _looks_back(program) else options.idle_after
        idle_ticks = idle_ticks_of(idle_after, query.order_by, program.schema)
        if query.partition_by and idle_ticks is None:
            why = "a condition may read the row before" if _looks_back(program) else "there is no within"
            self.grows = f"no key is forgotten, since {why}; give idle_after"
        self._keys = KeyCodes(idle_ticks, cuts=not self._loses_nothing)
        self._replicas = [
            Replica(matcher, _key_text(query, self._keys, r, self.n_threads)) for r in range(self.n_threads)
        ]
        self._row = self._row_of(options, matcher)
        self.takes_rows = self._row is not None
        names = schema.arrow.names
        self._key_places = [names.index(name) for name in query.partition_by] if self._row else []
        self._shown_places = [names.index(name) for name in matcher.result_columns.names]
        self._ends, self._nothing = _ends_of(query, matcher.result_columns.names), super().release()
        self._clock_place = names.index(query.order_by[0]) if self._row and query.order_by else 0
        self._nothing_idle_until = -math.inf  # no key is idle before this time
        self._columns = columns
        self._threads: ReplicaThreads | None = None
        self._ready: list[tuple[ReplicaMatches, int]] = []
        self.n_evicted = 0

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise `CepError`: threads and compiled kernels cannot be pickled."""
        raise CepError(
            "a stream of a regex query cannot be pickled or copied. Write it into a file with save(path); "
            "cepkit.stream.load(path) opens the file"
        )

    # --- events in, matches out

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        clock = None
        if self._keys.idle_ticks is not None:
            name = self.query.order_by[0]
            clock = column_of_arrow(keys.column(name), name).values
        if self._coder.is_due:
            self._forget_texts(n_before)
        source = ArrowSource(table)
        columns = self._coder.columns(source)
        key_of_event, found_keys = keys_of_batch(source, self.query.partition_by)
        assignment = self._keys.assign(key_of_event, found_keys, clock)
        ended = self._keys.ended_by(assignment, None if clock is None else clock[-1].item())
        try:
            ready = self._work(assignment.codes, columns, table, n_before, np.array(ended, np.int64))
        except BaseException:
            self._keys.discard(assignment)
            raise
        self._keys.commit(assignment, ended)
        self.n_evicted += 0 if self._loses_nothing else len(ended)
        return ready

    def _row_of(self, options: Options, matcher: Matcher) -> KernelRow | None:
        """Return the arguments for single events; None if the query needs them as a table."""
        kinds = {self.schema.columns[name].kind for name in self.query.partition_by}
        is_plain = kinds <= {INTEGER, TEXT, BOOLEAN} and set(self.query.order_by) <= set(
            self.schema.arrow.names
        )
        if self.n_threads > 1 or options.rows == "all" or not matcher.kernel.is_compiled or not is_plain:
            return None
        dtypes = {name: array.dtype for name, array in matcher.inputs.columns.items()}
        return KernelRow.of(self._coder.program, dtypes, self._coder.codes_of_column, self.schema.arrow)

    def advance_row(self, values: list, n_before: int) -> Ready | tuple[PlainRow, np.ndarray] | None:
        row, keys, given = self._row, self._keys, self._coder.inputs_so_far
        if row is None or given is None or self._coder.is_due or not row.write(values):
            return None  # such as an event with a new text
        code = keys.code_of_key.get(tuple([values[place] for place in self._key_places]))
        if code is None:
            return None
        clock = values[self._clock_place]
        if keys.idle_ticks is not None and clock > self._nothing_idle_until:
            self._nothing_idle_until = keys.first_newest() + keys.idle_ticks
            if clock > self._nothing_idle_until:
                return None
        shown = [values[place] for place in self._shown_places]
        matches = self._replicas[0].work_on_row(
            code, n_before, shown, [*row.columns, *given], self._columns, self._ends
        )
        if keys.idle_ticks is not None:
            keys.newest_of_code[code] = clock
        if isinstance(matches, list):
            return PlainRow(matches, self.empty.schema), _ONE
        return self._nothing if matches is None else (matches.table, np.diff(matches.first_row))

    def remember(self) -> Callable[[], None]:
        undo = [super().remember(), *(replica.remember() for replica in self._replicas)]
        self._keys = self._keys.copy()

        def take_back() -> None:
            for part in undo:
                part()

        return take_back

    def _work(
        self, codes: np.ndarray, columns: dict[str, Column], table: pa.Table, n_before: int, ended: np.ndarray
    ) -> Ready:
        """Advance the replicas over a batch in stream order, and forget the keys that end with it."""
        position = np.arange(n_before, n_before + len(codes))
        rows = table.select(self._replicas[0].kept.table.schema.names)
        inputs = self._coder.inputs(columns)
        whole = Share(codes, position, columns, inputs, rows, self._keys.n_codes)
        if self.n_threads == 1:
            matches = self._replicas[0].work(whole, ended)
            return (matches.table, np.diff(matches.first_row)) if matches else self.release()
        if self._threads is None:
            self._threads = ReplicaThreads(self._replicas, self._pulse_every)
        step = max(_EVENTS_PER_SHARE, self._pulse_every)
        for begin in range(0, len(codes), step):
            self._threads.give(whole.take(slice(begin, begin + step)))
        for r in np.unique(ended % self.n_threads):
            self._threads.forget(r, ended[ended % self.n_threads == r] // self.n_threads)
        return self.release()

    def _forget_texts(self, n_events: int) -> None:
        """Forget the texts that no partial match, no earlier row and no constant needs."""
        self._settle(n_events)  # events that wait for a thread have codes, too
        marks = self._coder.new_marks()
        for replica in self._replicas:
            for values in values_in_use(replica.state):
                marks.add(values)
            for name, values in replica.kept.columns.items():
                if name in self._coder.codes_of_column:
                    marks.add(values)
        self._coder.forget(marks)

    def _take_ready(self) -> list[tuple[ReplicaMatches, int]]:
        """Remove and return the matches that are next in order, as (`ReplicaMatches`, number in it)."""
        ready, self._ready = self._ready, []
        return ready if self._threads is None else ready + self._threads.release()

    def release(self) -> Ready:
        return gather(self._take_ready(), self.empty)

    def flush(self, n_events: int) -> Ready:
        self._settle(n_events)
        return self.release()

    finish = flush  # partial matches end with the stream

    def delay_of(self, column: str) -> int | None:
        """Return ``within`` for the clock at a row of a match."""
        within, by = self.query.within, self.query.order_by
        if within is None or not by or self.column_of_result.get(column) != by[0]:
            return None
        unit = self.schema.columns[by[0]].unit
        if unit is None and isinstance(within, int | float):
            return math.ceil(within)
        return math.ceil(duration_ticks(within, unit))

    def _settle(self, n_events: int) -> None:
        if self._threads is not None:
            self._threads.settle(n_events)

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.close()

    # --- counters

    @property
    def n_keys(self) -> int:
        return len(self._keys)

    @property
    def n_ended(self) -> int:
        return 0 if self._loses_nothing else sum(replica.n_ended for replica in self._replicas)

    n_overflowed: Any = _total_of("_replicas", "n_overflowed")
    n_live: Any = _total_of("_replicas", "n_live")
    n_retained: Any = _total_of("_replicas", "n_kept")

    @property
    def oldest(self) -> int | None:
        return None if (kept := self._oldest_kept) is None else int(kept.position[0])

    def oldest_time(self, clock: str) -> Any:
        return None if (kept := self._oldest_kept) is None else first_value(kept.table, clock)

    @property
    def _oldest_kept(self) -> Kept | None:
        """The kept rows of the replica with the oldest one."""
        kept = [replica.kept for replica in self._replicas if replica.n_kept]
        return min(kept, key=lambda rows: rows.position[0], default=None)

    # --- saving

    def pack(self, n_events: int) -> Saved:
        """Wait for the threads, and return the content of the search for a file."""
        self._settle(n_events)
        self._ready = self._take_ready()
        ready, n_rows = gather(self._ready, self.empty)
        last = np.array([matches.last[m] for matches, m in self._ready], np.int64)
        saved = self._keys.pack([self.schema.arrow.field(name) for name in self.query.partition_by])
        saved.header["n_evicted"] = self.n_evicted
        saved.arrays.update({"ready/last": last, "ready/n_rows": n_rows})
        saved.tables["ready"] = ready
        saved = saved.with_part("texts", Saved({}, {}, self._coder.pack()))
        for r, replica in enumerate(self._replicas):
            saved = saved.with_part(f"replica{r}", replica.pack())
        return saved

    def unpack(self, saved: Saved) -> None:
        self._coder.unpack(saved.part("texts").tables)
        self._keys.unpack(saved)
        if self._loses_nothing and len(self._keys) and not len(self._keys.newest_of_code):
            self._keys.idle_ticks = None  # a file of the time when only idle_after ended keys
        for r, replica in enumerate(self._replicas):
            replica.unpack(saved.part(f"replica{r}"))
        self.n_evicted = saved.counter("n_evicted")
        first_row = np.concatenate([[0], np.cumsum(saved.arrays["ready/n_rows"])])
        ready = ReplicaMatches(saved.arrays["ready/last"], saved.tables["ready"], first_row)
        self._ready = [(ready, m) for m in range(len(ready.last))]


def _ends_of(query: RegexQuery, names: list[str]) -> tuple[tuple[str, int], ...] | None:
    """Return where a result has its values, see `Replica.work_on_row`; None if measures compute others."""
    ends: list[tuple[str, Any]] = [("last", name) for name in query.partition_by]
    for _, tree in measure_expressions(query):
        if isinstance(tree, Aggregate) and tree.function in ("first", "last", "count"):
            name = tree.operand.name if isinstance(tree.operand, Attribute) else tree.operand
            ends.append((tree.function, name))
        else:
            return None
    is_plain = all(end == "count" if name is None else end != "count" and name in names for end, name in ends)
    if not is_plain or not (query.order_by or query.measures is not None):
        return None
    return tuple((end, names.index(name) if name else 0) for end, name in ends)


def _check(options: Options, program: Program, schema: StreamSchema) -> None:
    query = program.query
    for name in query.partition_by:
        if schema.columns[name].kind == LIST:
            raise CepError(f"partition_by: column {name!r} holds lists, which cannot be keys")
    if options.threads > 1 and not query.partition_by:
        raise CepError(
            f"threads={options.threads} needs partition_by: each thread owns a part of the keys, and this "
            "query has one partition"
        )


def _result_columns(query: RegexQuery, schema: StreamSchema, rows: str) -> pa.Schema:
    """Return the columns that results read; at least one, since a table without columns has no rows."""
    if rows == "all":
        return schema.arrow
    trees = [tree for _, tree in measure_expressions(query)]
    used = {node.name for tree in trees for node in tree.walk() if isinstance(node, Attribute)}
    return schema.only((*used, *query.partition_by, *query.order_by[:1])).arrow


def _looks_back(program: Program) -> bool:
    """Return whether a condition at the first row of a match reads rows before it."""
    terms = (*program.plan.terms(), *program.plan.slots)
    return any(term.op == "previous" for root in terms for term in root.walk())


def _key_text(query: RegexQuery, keys: KeyCodes, replica: int, n_replicas: int) -> Callable[[int], str]:
    """Return a function that describes a replica's partition in words."""
    return lambda number: key_text(query.partition_by, keys.key_of_code[number * n_replicas + replica])


def read_schema(query: Any, schema: StreamSchema, options: Options) -> StreamSchema:
    """Return the columns of a batch that a query looks at; all of them where results have whole rows."""
    if options.rows == "all" or not isinstance(query, SequenceQuery | RegexQuery):
        return schema
    program = compile_checked(query, schema.without_nulls(query.order_by).source())
    named = wishes_of(query).named  # also columns that no event needs, such as x in `x + null`
    return schema.only({*program.names_to_read(), *(named & schema.columns.keys())})


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
        self.keeps_batches = any(step.keeps_batches for step in self.steps)
        self._newest: list[pa.Table | None] = [None] * len(query.steps)
        self._n_events = [0] * len(query.steps)
        self._wakes: list[int | None] = [None] * len(query.steps)
        self.delays = self._delays()
        self.empty = self.steps[-1].empty
        self.column_of_result = _through(self.steps)

    n_keys: Any = _total_of("steps", "n_keys")
    n_retained: Any = _total_of("steps", "n_retained")
    n_evicted: Any = _total_of("steps", "n_evicted")
    n_ended: Any = _total_of("steps", "n_ended")
    n_overflowed: Any = _total_of("steps", "n_overflowed")

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
