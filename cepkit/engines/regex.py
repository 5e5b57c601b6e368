"""The regex engine: runs a program over events, in blocks of partitions on threads or from start to start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from operator import or_

import numpy as np

from cepkit.compile.instructions import regex_code_of
from cepkit.compile.regex_plan import tables_of
from cepkit.compile.regex_program import LIST_FULL, MOST_LIVE, QUEUE_FULL, Kernel, Program, State
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import (
    are_kernels_ready,
    compile_if_it_pays,
    is_ready,
    load_kernels,
    reason_not_to_interpret,
    reason_to_compile,
)
from cepkit.engines.interpreted_walk import REGEX_KERNELS, Interpreter
from cepkit.engines.interpreted_walk import REGEX_KERNELS as KERNELS
from cepkit.engines.shared.match_set import MATCHES, MatchSet, joined_spans
from cepkit.engines.shared.places import usable_threads
from cepkit.errors import CepError
from cepkit.events import FLOAT, Events, sums_before
from cepkit.kernels.records import PAST_LAST, TO_FIRST_OF, TO_LAST, TO_LAST_OF, TO_NEXT
from cepkit.progress import checkpoint, run_on_threads
from cepkit.values import dataclass

# Choose how a regex query runs: interpreted at once, or with a kernel of its own, which must be compiled.

AUTO, INTERPRETED, COMPILED = "auto", "interpreted", "compiled"
# Interpretation takes some 30 ns per event longer than a compiled kernel, and compilation about a second.
_MOST_EVENTS = 20_000_000


def kernel_for(program: Program, inputs: Inputs, n_events: int, tier: str = AUTO) -> Kernel | Interpreter:
    if tier == COMPILED:
        return program.matching(inputs)
    if tier == INTERPRETED:
        code = regex_code_of(program)
        if isinstance(code, str):
            raise CepError(f"the query cannot be interpreted: it {code}")
        return Interpreter(code)
    if n_events > _MOST_EVENTS:
        return program.matching(inputs)
    code = reason_to_compile(program.matching_source(inputs).text, KERNELS) or regex_code_of(program)
    return program.matching(inputs) if isinstance(code, str) else Interpreter(code)


def take_over(
    program: Program, interpreter: Interpreter, state: State, inputs: Inputs
) -> tuple[Kernel, State] | None:
    """Return the compiled kernel and its state if it can continue after the interpreter, or None."""
    # A kernel with queues keeps its starts in another order, so it does not take over.
    if program.plan.queues or not is_ready(program.matching_source(inputs).text):
        return None
    kernel = program.matching(inputs)
    arrays = dict(state.arrays)
    n_floats, n_integers = 0, 0
    for i, slot in enumerate(interpreter.code.plan.slots):
        if slot.kind == FLOAT:
            arrays[f"list_s{i}"] = arrays["list_floats"][n_floats]
            n_floats += 1
        else:
            arrays[f"list_s{i}"] = arrays["list_integers"][n_integers]
            n_integers += 1
    layout = kernel.source.state
    state_arrays = {a.name: np.ascontiguousarray(arrays[a.name]).astype(a.dtype, copy=False) for a in layout}
    return kernel, State(layout, state_arrays)


# The state of this many partitions fits the cache. More partitions are matched in blocks of this size.
PARTITIONS_PER_BLOCK = 2048
_MOST_PARTITIONS_AT_ONCE = 2048
_FEWEST_EVENTS_PER_THREAD = 250_000
# A call of the kernel ends after about this many events or visited partial matches: some 10 to 100 ms.
_EVENTS_PER_CALL = 1 << 20
_WORK_PER_CALL = 1 << 24
_EVENTS_PER_CALL_AS_PYTHON, _WORK_PER_CALL_AS_PYTHON = 1 << 8, 1 << 12
_EVENTS_PER_BATCH = 1 << 21  # interpreted before a compiled kernel may take over
# Visited partial matches. To interpret this many takes about as long as to compile a kernel.
MOST_INTERPRETED_WORK = 1 << 25
_EVENTS_PER_SCATTER = 1 << 22  # some hundredths of a second


@dataclass
class Run:
    """What a run did, filled in while it runs."""

    work: int = 0  # visited partial matches
    most_live: int = 0  # live starts of one partition
    n_blocks: int = 0
    threads: int = 1
    tier: str = COMPILED  # how the query ran: interpreted, or with a kernel of its own

    def note(self, work: int, most_live: int) -> None:
        """Add the work of a call, and keep the largest number of live starts."""
        self.work += work
        self.most_live = max(self.most_live, most_live)


class _BoundedRun(Run):
    """The run of an interpreter. It ends when a kernel would have been compiled in the meantime."""

    def note(self, work: int, most_live: int) -> None:
        super().note(work, most_live)
        if self.work > MOST_INTERPRETED_WORK:
            raise _CompileNowError


class _CompileNowError(Exception):
    """A run was interpreted for as long as it takes to compile its kernel."""

    pass


def match_regex(
    program: Program, events: Events, *, threads: int | None = None,
    progress: Callable[[int], None] | None = None, run: Run | None = None, tier: str = "auto",
) -> MatchSet:  # fmt: skip
    """Return the matches of a regex query in events."""
    # Source: Hirzel, "Partition and Compose", DEBS 2012, sections 2.3 and 3.
    run = run if run is not None else Run()
    if not program.query.skips_by_default:
        matches, is_interpreted = search_in_turn(program, events, progress)
        run.n_blocks, run.tier = 1, INTERPRETED if is_interpreted else COMPILED
        return matches
    threads = _threads(program, events, threads)
    inputs = program.inputs(events.columns)
    kernel = kernel_for(program, inputs, events.n_events, tier)
    if tier == AUTO and isinstance(kernel, Interpreter):
        bounded, steps = _BoundedRun(), []

        def step(n: int) -> None:
            steps.append(n)
            if progress is not None:
                progress(n)

        try:
            matches = _match(program, kernel, events, inputs, threads, step, bounded)
        except _CompileNowError:
            if progress is not None:
                progress(-sum(steps))  # the kernel begins again
            kernel = program.matching(inputs)
        else:
            vars(run).update(vars(bounded))
            return matches
    return _match(program, kernel, events, inputs, threads, progress, run)


def _match(
    program: Program, kernel: Kernel | Interpreter, events: Events, inputs: Inputs, threads: int,
    progress: Callable[[int], None] | None, run: Run,
) -> MatchSet:  # fmt: skip
    """Return the matches that a kernel or an interpreter finds, block by block on threads."""
    run.tier = INTERPRETED if isinstance(kernel, Interpreter) else COMPILED
    if not program.compiled or (threads == 1 and events.n_partitions <= _MOST_PARTITIONS_AT_ONCE):
        run.n_blocks, run.threads = 1, 1
        state = kernel.new_state(max(1, events.n_partitions))
        if isinstance(kernel, Interpreter):
            first, last = _interpret(program, kernel, state, events, inputs, progress, run)
        else:
            first, last = advance(kernel, state, events.partition_of_event, inputs, 0, progress, run)
        return MatchSet(events, first, last)
    blocks = cut_into_blocks(events, inputs, threads)
    run.n_blocks, run.threads = len(blocks.first_row) - 1, threads
    spans = _match_blocks(kernel, blocks, threads, progress, run)
    if run.tier == INTERPRETED:
        compile_if_it_pays(program.matching_source(inputs).text, events.n_events)
    first = np.concatenate([f for f, _ in spans]) if spans else np.empty(0, np.int64)
    last = np.concatenate([t for _, t in spans]) if spans else np.empty(0, np.int64)
    order = np.argsort(last, kind="stable")
    return MatchSet(events, first[order], last[order])


def _interpret(
    program: Program, interpreter: Interpreter, state: State, events: Events, inputs: Inputs,
    progress: Callable[[int], None] | None, run: Run,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Interpret ``program`` batch by batch. Once its kernel is compiled, the kernel takes over the state."""
    kernel: Kernel | Interpreter = interpreter
    n, spans = events.n_events, []
    if n > _EVENTS_PER_BATCH:
        compile_if_it_pays(program.matching_source(inputs).text, n)
    for low in range(0, n, _EVENTS_PER_BATCH):
        is_interpreted = low > 0 and isinstance(kernel, Interpreter)
        if is_interpreted and (taken := take_over(program, interpreter, state, inputs)):
            kernel, state = taken
            run.tier = f"{INTERPRETED}, then {COMPILED}"
        rows = slice(low, min(low + _EVENTS_PER_BATCH, n))
        columns = {name: values[rows] for name, values in inputs.columns.items()}
        batch_inputs = inputs.with_columns(columns)
        spans.append(
            advance(kernel, state, events.partition_of_event[rows], batch_inputs, low, progress, run)
        )
    compile_if_it_pays(program.matching_source(inputs).text, n)
    return joined_spans(spans)


def _threads(program: Program, events: Events, threads: int | None) -> int:
    """Return how many threads to use: ``threads``, or as many as pay."""
    if not program.compiled or not program.pure:
        return 1
    if threads is not None:
        return max(1, threads)
    usable = min(usable_threads(), events.n_events // _FEWEST_EVENTS_PER_THREAD, events.n_partitions)
    # Dealing few partitions to the threads costs as much as matching a cheap pattern.
    pays = usable > 2 or events.n_partitions > _MOST_PARTITIONS_AT_ONCE or bool(program.functions)
    return max(1, usable) if pays else 1


def advance(
    kernel: Kernel | Interpreter, state: State, partition: np.ndarray, inputs: Inputs, row_base: int,
    progress: Callable[[int], None] | None = None, run: Run | None = None, events_per_call: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Advance ``state`` over a run of events and return the matches that end in it."""
    run = run if run is not None else Run()
    if isinstance(kernel, Interpreter):
        return kernel.advance(state, partition, inputs, row_base, progress, run.note)
    n_events = len(partition)
    per_call, most_work = _EVENTS_PER_CALL, _WORK_PER_CALL
    if not kernel.is_compiled:
        per_call, most_work = _EVENTS_PER_CALL_AS_PYTHON, _WORK_PER_CALL_AS_PYTHON
    room = min(n_events, events_per_call or per_call)
    out = np.empty(room, np.int64), np.empty(room, np.int64)
    report = np.zeros(5, np.int64)
    spans: list[tuple[np.ndarray, np.ndarray]] = []
    columns, arrays = inputs.arguments(), state.arguments()
    kernel_run, done = kernel.run, 0
    # Only a kernel that runs as Python can warn of a division by zero or an overflow.
    with nullcontext() if kernel.is_compiled else np.errstate(all="ignore"):
        while done < n_events:
            checkpoint()
            end = min(done + room, n_events)
            n_found = kernel_run(partition, done, end, row_base, most_work, *columns, *arrays, *out, report)
            if n_found:
                spans.append((out[0][:n_found].copy(), out[1][:n_found].copy()))
            consumed, _, work, _, reason = report.tolist()
            run.work += work
            if progress is not None:
                progress(consumed - done)
            done = consumed
            if reason in (LIST_FULL, QUEUE_FULL):
                state.grow("list" if reason == LIST_FULL else "queue", int(partition[consumed]))
                arrays = state.arguments()
    run.most_live = max(run.most_live, int(report[MOST_LIVE]))
    return joined_spans(spans)


def advance_by_one(
    kernel: Kernel, state: State, partition: np.ndarray, arguments: list, row: int, out: tuple
) -> int:
    """Advance ``state`` by one event, and return 1 if a match ends there, else 0."""
    # ``arguments`` are those that come from the event, ``out`` the first and last row and the report.
    while True:
        n_found = kernel.run(partition, 0, 1, row, _WORK_PER_CALL, *arguments, *state.arguments(), *out)
        consumed, *_, reason = out[2].tolist()
        if consumed:
            return n_found
        if reason in (LIST_FULL, QUEUE_FULL):
            state.grow("list" if reason == LIST_FULL else "queue", int(partition[0]))


@dataclass(frozen=True, slots=True)
class PartitionBlocks:
    """Events rearranged block by block. The rows of a block are in stream order."""

    first_row: np.ndarray  # int64, (n_blocks + 1,)
    partitions_per_block: int
    partition: np.ndarray  # int32, (n_events,): numbered within the block
    event_of_row: np.ndarray  # int32 or int64, (n_events,)
    inputs: Inputs


def balanced_blocks(events_of_partition: np.ndarray, n_blocks: int) -> np.ndarray:
    """Return the block of each partition; the largest partitions go first, each to the emptiest block."""
    load = np.zeros(n_blocks, np.int64)
    block = np.zeros(len(events_of_partition), np.int32)
    for p in np.argsort(-events_of_partition, kind="stable"):
        b = int(load.argmin())
        block[p] = b
        load[b] += events_of_partition[p]
    return block


def cut_into_blocks(events: Events, inputs: Inputs, threads: int) -> PartitionBlocks:
    """Rearrange the columns so that each block of partitions lies together."""
    # Few partitions are dealt to the threads so that these get about equally many events. Many partitions are
    # cut into blocks with a state that fits the cache.
    kernels = load_kernels(MATCHES)
    partition, n_partitions = events.partition_of_event, events.n_partitions
    if n_partitions > _MOST_PARTITIONS_AT_ONCE:
        shift = (PARTITIONS_PER_BLOCK - 1).bit_length()
        n_blocks = ((n_partitions - 1) >> shift) + 1
        block = np.arange(n_blocks, dtype=np.int32)
        mask = (1 << shift) - 1
        partitions_per_block = 1 << shift
    else:
        shift, mask, partitions_per_block = 0, -1, n_partitions
        n_blocks = min(threads, n_partitions)
        block = balanced_blocks(np.bincount(partition, minlength=n_partitions), max(1, n_blocks))
    n = events.n_events
    # Threads first count runs of events, then write them. The counts show where a run begins in each block.
    n_runs = max(threads, -(-n // _EVENTS_PER_SCATTER))
    cuts = np.linspace(0, n, n_runs + 1).astype(np.int64)
    counts = np.zeros((n_runs, n_blocks), np.int64)
    own_partition = np.empty(n, np.int32)
    event_of_row = np.empty(n, np.int32 if n < 2**31 else np.int64)
    columns = {name: np.empty_like(values) for name, values in inputs.columns.items()}
    first_row = np.zeros(n_blocks + 1, np.int64)

    def count(t: int) -> None:
        kernels.count_events(partition[cuts[t] : cuts[t + 1]], shift, block, counts[t])

    def scatter(t: int) -> None:
        """Write the events of one run, and the values of all columns, to their places in the blocks."""
        run = slice(cuts[t], cuts[t + 1])
        cursor = first_row[:-1] + counts[:t].sum(axis=0)
        kernels.scatter_events(
            partition[run], cuts[t], shift, mask, block, cursor.copy(), own_partition, event_of_row
        )
        for name, values in inputs.columns.items():
            # As unsigned integers of the same width: four compiled variants serve all types.
            bits = np.dtype(f"u{values.dtype.itemsize}")
            out = columns[name].view(bits)
            kernels.scatter_column(partition[run], shift, block, cursor.copy(), values[run].view(bits), out)

    run_on_threads(count, n_runs, threads)
    np.cumsum(counts.sum(axis=0), out=first_row[1:])
    run_on_threads(scatter, n_runs, threads)
    return PartitionBlocks(
        first_row, partitions_per_block, own_partition, event_of_row, inputs.with_columns(columns)
    )


def _match_blocks(
    kernel: Kernel | Interpreter, blocks: PartitionBlocks, threads: int,
    progress: Callable[[int], None] | None, run: Run,
) -> list[tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """Return the first and last events of the matches of each block."""
    local = threading.local()
    n_blocks = len(blocks.first_row) - 1
    runs: list[Run] = []

    def match_block(b: int) -> tuple[np.ndarray, np.ndarray]:
        if not hasattr(local, "state"):
            local.state = kernel.new_state(blocks.partitions_per_block)
            local.run = type(run)()
            runs.append(local.run)
        else:
            local.state.clear()
        rows = slice(blocks.first_row[b], blocks.first_row[b + 1])
        columns = {name: values[rows] for name, values in blocks.inputs.columns.items()}
        inputs = blocks.inputs.with_columns(columns)
        first, last = advance(kernel, local.state, blocks.partition[rows], inputs, 0, progress, local.run)
        event_of_row = blocks.event_of_row[rows]
        return event_of_row[first].astype(np.int64), event_of_row[last].astype(np.int64)

    if threads == 1:
        spans = [match_block(b) for b in range(n_blocks)]
    else:
        spans = run_on_threads(match_block, n_blocks, threads)
    run.work += sum(r.work for r in runs)
    run.most_live = max([run.most_live, *(r.most_live for r in runs)])
    return spans


def label_rows(program: Program, matches: MatchSet) -> np.ndarray:
    """Return the pattern position of every row of every match, int64, along the items of the lineage."""
    # If a row can stand for several positions, every variable takes as many rows as it can, from left to
    # right: the lexicographically smallest sequence of positions wins.
    # One pass over the events of the matches' partitions and one over the rows of matches.
    lineage = matches.lineage
    position = np.zeros(len(lineage.event_of_item), np.int64)
    if len(matches):
        events = matches.events
        inputs = program.inputs(events.columns)
        few_matches, rows = matches.in_few_partitions
        if rows is not None:
            inputs = inputs.with_columns({name: values[rows] for name, values in inputs.columns.items()})
        item_mask = _reached(program, few_matches, inputs)
        automaton = program.automaton
        follow_of_position = np.array(automaton.follow, np.int64)
        complete = load_kernels(MATCHES).choose_positions(
            lineage.first_item_of_match, item_mask, follow_of_position, automaton.accepting, position
        )
        assert complete, "the rows of a match do not spell its pattern"
    return position


def _reached(program: Program, matches: MatchSet, inputs: Inputs) -> np.ndarray:
    """Return the mask of positions that each row of each match reaches, int64, along the lineage."""
    events, lineage = matches.events, matches.lineage
    code = reason_to_compile(program.source_on_rows("reach", inputs).text, KERNELS) or regex_code_of(program)
    if isinstance(code, str):
        return place_rows(program, events, inputs, "reach").positions(matches)
    return Interpreter(code).label(
        events.partition_of_event, max(1, events.n_partitions), inputs, lineage.event_of_item,
        lineage.first_item_of_match,
    )  # fmt: skip


_CODES = {"past_last": PAST_LAST, "to_last": TO_LAST, "to_next": TO_NEXT}
_CODES_OF_NAMES = {"to_first": TO_FIRST_OF, "to_last": TO_LAST_OF}
_LOOKED_AT = 1 << 15  # events: some milliseconds
_ROOM, _WORK_IN_TURN, _WORK_AS_PYTHON = 1 << 16, 1 << 22, 1 << 12


@dataclass(frozen=True)
class PlacedRows:
    """The rows of a query in the order of their partitions, with the kernels that read them."""

    events: Events
    run: Callable  # ``search`` or ``reach``
    values: tuple  # what the kernels read of the rows
    is_interpreted: bool

    def positions(self, matches: MatchSet) -> np.ndarray:
        """Return the mask of positions that each row of each match reaches, int64, along the lineage."""
        first_item = matches.first_item_of_match.astype(np.int64)
        item_mask = np.zeros(first_item[-1], np.int64)
        begin = self.events.rank_by_partition[matches.first]
        with np.errstate(all="ignore"):
            self.run(begin, first_item, *self.values, item_mask)
        return item_mask


def place_rows(program: Program, events: Events, inputs: Inputs, name: str) -> PlacedRows:
    """Compute what depends on single rows. A query that has no interpretation gets kernels of its own."""
    order, partition = events.by_partition, events.partition_of_event
    text = program.source_on_rows(name, inputs).text
    code = None if reason_to_compile(text, REGEX_KERNELS) else regex_code_of(program)
    if code is not None and not isinstance(code, str):
        values = Interpreter(code).values_of(partition, max(1, events.n_partitions), inputs, order)
        return PlacedRows(events, getattr(load_kernels(REGEX_KERNELS), name), values, True)
    prepare, kernel = program.on_rows(name, inputs)
    if events.n_partitions > 1:
        inputs = inputs.with_columns({name: column[order] for name, column in inputs.columns.items()})
        partition = partition[order]
    arrays = [
        np.empty(1 if name.startswith("slot") else events.n_events, dtype)
        for name, dtype in prepare.source.kept
    ]
    rows = [array for array, (name, _) in zip(arrays, prepare.source.kept, strict=True) if name[:4] != "slot"]
    state = prepare.new_state(max(1, events.n_partitions)).arguments()
    with np.errstate(all="ignore"):
        prepare.run(partition, *inputs.arguments(), *state, *rows)
    values = (*tables_of(program.plan), *inputs.arguments(), *arrays)
    return PlacedRows(events, kernel.run, values, False)


def search_in_turn(
    program: Program, events: Events, progress: Callable[[int], None] | None = None
) -> tuple[MatchSet, bool]:
    """Return the matches under ``after_match`` and ``keep``, and whether the query was interpreted."""
    rows = place_rows(program, events, program.inputs(events.columns), "search")
    kind, name = program.query.after_match or ("past_last", None)
    code = _CODES_OF_NAMES[kind] if name else _CODES[kind]
    named = program.automaton.mask_of_name(name) if name else 0
    work = _WORK_IN_TURN if program.compiled else _WORK_AS_PYTHON
    rule = np.array([code, named, program.query.keep == "longest", work], np.int64)
    size = np.bincount(events.partition_of_event, minlength=max(1, events.n_partitions))
    bounds = sums_before(size)
    # ``at``: the partition and the place that come next, and where an error is, or -1.
    at, reached = np.array([0, 0, -1, -1], np.int64), np.empty(events.n_events, np.int64)
    out = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64)
    spans: list[tuple[np.ndarray, np.ndarray]] = []
    with np.errstate(all="ignore"):
        while at[0] < len(bounds) - 1:
            checkpoint()
            begin = int(at[1])
            n_found = rows.run(bounds, rule, *rows.values, reached, at, *out)
            spans.append((out[0][:n_found].copy(), out[1][:n_found].copy()))
            if progress is not None:
                progress(int(at[1]) - begin)
            if at[2] >= 0:
                raise _target_error(program, events, at)
    order = events.by_partition
    first, last = (order[np.concatenate(ends)] for ends in zip(*spans, strict=True))
    by_end = np.lexsort([first, last])  # numpy sorts by the last key first
    return MatchSet(events, first[by_end], last[by_end], code != PAST_LAST), rows.is_interpreted


def n_left_out(program: Program, matches: MatchSet) -> tuple[int, int]:
    """Return how many matches would begin on the last row of another match, and in how many events."""
    # They share no other row with it, and at most the first row of the next one. Only patterns count that
    # begin with any row, or with the name that ends them: in others, a row that ends a match and begins one
    # is a coincidence. A pattern of one name, such as ``fail{3}``, counts rows. O(_LOOKED_AT rows), and
    # nothing is compiled.
    events, automaton = matches.events, program.automaton
    tested = [conjunct.mask for conjunct in program.plan.event_conjuncts if conjunct.term.level]
    takes_any = automaton.first & ~reduce(or_, tested, 0)
    masks = [automaton.mask_of_name(name) for name in set(automaton.names)]
    is_closed = any(mask & automaton.first and mask & automaton.accepting for mask in masks)
    is_shared = len(masks) > 1 and (takes_any or is_closed)
    if not len(matches) or not is_shared or reason_not_to_interpret():
        return 0, 0
    if isinstance(regex_code_of(program), str) or not are_kernels_ready(REGEX_KERNELS):
        return 0, 0
    low = 0
    if events.n_events > _LOOKED_AT:
        low = max(0, int(matches.first[0]) - _LOOKED_AT // 16)
        events = events.between(low, low + _LOOKED_AT)
    chosen = slice(0, np.searchsorted(matches.last, low + events.n_events))
    first, last = (events.rank_by_partition[ends[chosen] - low] for ends in (matches.first, matches.last))
    order = np.argsort(last)
    begin = last[order]
    stop = np.minimum(np.append(first[order][1:] + 1, events.n_events), events.bounds_by_partition[1][begin])
    begin, stop = begin[stop - begin > 1], stop[stop - begin > 1]
    first_item = sums_before(stop - begin)
    item_mask = np.zeros(first_item[-1], np.int64)
    rows = place_rows(program, events, program.inputs(events.columns), "reach")
    rows.run(begin, first_item, *rows.values, item_mask)
    is_end = item_mask & automaton.accepting != 0
    is_end[first_item[:-1]] = False  # a first row alone is no match
    n_found = np.count_nonzero(np.add.reduceat(is_end, first_item[:-1])) if len(begin) else 0
    return n_found, events.n_events


def _target_error(program: Program, events: Events, at: np.ndarray) -> CepError:
    """Return the error of a match after which the search cannot continue at a row of a name."""
    kind, name = program.query.after_match or ("", "")
    first, last = (int(events.rows(events.by_partition[[place]])[0]) for place in at[1:3])
    match = f"after_match='{kind}({name})': the match of rows {first} to {last}"
    if at[3] < 0:
        return CepError(f"{match} has no row of {name!r}, so the search cannot continue there")
    return CepError(
        f"{match} begins with the row of {name!r} where the search would continue, and would be found again; "
        "after_match='to_next_row' continues after the first row"
    )
