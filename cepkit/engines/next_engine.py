"""The engine of strategy ``next``: it jumps from event to event, so its time does not depend on windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from cepkit.compile.interpreted_columns import ColumnReader, constants_of
from cepkit.compile.interpreted_next import NextChain, NextTables, chain_of, edge_rows, next_tables_of
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.sequence_source import NO_LIMIT
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted_walk import read_value
from cepkit.engines.next_places import NextPlaces
from cepkit.engines.shared.places import even_cuts, in_slices, per_call
from cepkit.engines.shared.sequence_set import (
    EMPTY,
    MATCHES_PER_BLOCK,
    KnownMatches,
    LineBlock,
    MatchBlock,
    SearchRun,
    SequenceSet,
    block_of_sizes,
    bytes_to_collect,
    joined,
)
from cepkit.events import Events, sums_before
from cepkit.kernels.records import (
    ChainEvents,
    ChainOutput,
    ChainTask,
    EdgeValues,
    NextClock,
    NextEdges,
    NextPath,
    NextReach,
    SearchOutput,
    SearchTask,
    Stacks,
)
from cepkit.limits import check_memory, fits_memory
from cepkit.progress import checkpoint, run_on_threads
from cepkit.values import cached_property

# The search for matches of strategy ``next`` that have one event of each component, in one walk.

CHAIN = "cepkit.kernels.next_chain"
_BLOCK = 16  # as in the kernels: a block of last events has 2^16
_EVENTS_PER_CHUNK = 1 << 16  # their numbers fit the cache
_FEWEST_ENTRIES = 1 << 12  # of all stacks at first
_FEW_EVENTS = 1 << 12  # a search of all takes no longer than to leave out some
_MANY_EVENTS = 1 << 22  # the best machine code pays at once
_MOST_OVERLAP = 4  # a part of the events may look at a quarter of its length beyond its end
_NONE = np.empty(0, np.int64)
Part = tuple[
    int, int, int
]  # matches begin from the first event to before the second, and end before the third
T = TypeVar("T")


def chain_search(places: NextPlaces, tables: NextTables, number: int) -> NextChainSearch | None:
    """Return the search for the matches of a branch, or None if it or its window needs the general search."""
    program = places.program
    chain, window = program.once(("chain", number), lambda: chain_of(tables)), program.window
    if chain is None or window.strict_time or window.within_events is not None:
        return None
    widths = [width for width in (window.within, window.gap_within) if width is not None]
    if not all(isinstance(width, int | np.integer) and width >= 1 for width in widths):
        return None
    if widths and places.events.columns[places.program.clock].values.dtype.kind == "f":
        return None
    return NextChainSearch(places, chain, number)


class NextChainSearch:
    """The search for the matches of a branch that have one event of each component, last events first."""

    is_sorted = True  # whether blocks are in canonical order

    def __init__(self, places: NextPlaces, chain: NextChain, number: int):
        self.places, self.chain, self.number = places, chain, number
        self.n_components, self.n_events = len(chain.components), places.events.n_events

    @property
    def _kernels(self) -> Any:  # not kept: machine code cannot be pickled
        """The kernels of `cepkit.kernels.next_chain`."""
        return load_kernels(CHAIN, quick=self.n_events < _MANY_EVENTS)

    @cached_property
    def _limits(self) -> tuple[np.ndarray, int, int]:
        """The clock, and the longest times of a match and between neighbours; -1: no limit."""
        program = self.places.program
        within, gap = (
            -1 if width is None else min(int(width), 2**63 - 1) - (not program.window.closed)
            for width in (program.window.within, program.window.gap_within)
        )
        time = _NONE if within < 0 and gap < 0 else self.places.events.columns[program.clock].values
        return np.ascontiguousarray(time, np.int64), within, gap

    @cached_property
    def _is_rising(self) -> bool:
        """Whether times rise over all partitions together."""
        time, last = self._limits[0], self.n_events - 1
        rises = lambda begin, stop: bool((time[begin + 1 : stop + 1] >= time[begin:stop]).all())  # noqa: E731
        return all(in_slices(rises, even_cuts(last), threads=self.places.threads))

    def _parts(self, low: int, high: int) -> list[Part]:
        """Return where matches that end from ``low`` to ``high`` can begin, one part of events per thread."""
        (time, within, _), threads = self._limits, self.places.threads
        if within < 0 or (threads < 2 and (low == 0 or high <= _FEW_EVENTS)) or not self._is_rising:
            return [(0, high, high)]
        begin = int(np.searchsorted(time[:high], max(int(time[low]) - within, -(2**63)))) if low else 0
        cuts = [begin + cut for cut in even_cuts(high - begin, min(threads, high - begin))]
        latest = [min(int(time[cut - 1]) + within, 2**63 - 1) for cut in cuts[1:]]  # the latest ends
        ends = np.searchsorted(time[:high], latest, "right").tolist()
        parts = [(*cut, end) for cut, end in zip(pairwise(cuts), ends, strict=True)]
        if any((end - stop) * _MOST_OVERLAP > stop - first for first, stop, end in parts):
            return [(begin, high, high)]  # the parts share too many events
        return parts

    def _walk(
        self, part: Part, low: int, counts: np.ndarray, *, fill: bool
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Walk over a part, and yield how many matches begin in each run, and the matches if ``fill``."""
        # Matches end from ``low`` on. ``counts`` gets their numbers by last event, unless it is empty, or by
        # blocks of last events if ``fill``.
        begin, limit, end = part
        places, kernels, n, n_rows = self.places, self._kernels, self.n_components, len(self.chain.numbers)
        width = min(per_call(kernels.walk, _EVENTS_PER_CHUNK), max(1, end - begin))
        numbers, has_number = np.zeros((n_rows, width), np.int64), np.ones((n_rows, width), np.uint8)
        n_nulls, listing, report = (np.zeros(size, np.int64) for size in (n_rows, 2, 4))
        component, listed = np.empty(width, np.uint8), np.empty(width + 1, np.int32)
        n_stacks = max(1, places.events.n_partitions) * (n - 1)
        base, (size, room) = np.zeros(n_stacks, np.int64), np.zeros((2, n_stacks), np.int32)
        entries = [np.empty(_FEWEST_ENTRIES, np.int64) for _ in range(2)]
        out = np.empty((width if fill else 0, n), np.int32)
        following = np.empty((max(0, n - 3), self.n_events if fill else 0), np.int32)
        output = ChainOutput(out, following, *((_NONE, counts) if fill else (counts, _NONE)))
        time, within, gap = self._limits
        events = ChainEvents(
            listed, component, places.accept, places.partition, time, self.chain.components, numbers,
            has_number, n_nulls,
        )  # fmt: skip
        for stop in range(end, begin, -width):
            chunk = max(begin, stop - width)
            checkpoint((end - stop) / (end - begin))
            self._read(chunk, stop, numbers, has_number, n_nulls)
            kernels.classify(chunk, stop, places.accept, self.chain.components, component, listed, listing)
            report[0] = listing[0]
            while report[0]:
                needed = int(report[2]) + (n - 1) * max(1, 2 * int(report[3]))
                if needed > len(entries[0]):
                    entries = [np.concatenate([stack, np.empty(needed, np.int64)]) for stack in entries]
                with np.errstate(
                    over="ignore"
                ):  # a kernel that runs as Python warns of a difference that wraps
                    task = ChainTask(report[0], listing[1], chunk, limit, low, int(fill), within, gap)
                    kernels.walk(task, events, Stacks(base, size, room, *entries), output, report)
                yield int(report[1]), out

    def _read(
        self, begin: int, stop: int, numbers: np.ndarray, known: np.ndarray, n_nulls: np.ndarray
    ) -> None:
        """Write what tests compare of a run of events: numbers, and which of them are not null."""
        n, columns = stop - begin, {name: values[begin:stop] for name, values in self._columns.items()}
        reader = ColumnReader(columns, *self._constants)
        with np.errstate(all="ignore"):
            for row, in_order in enumerate(self.chain.numbers):
                if in_order.value is None:
                    continue
                dtype = np.float64 if in_order.is_float else np.int64
                values = read_value(reader, in_order.value)
                if np.shape(values) != (n,):
                    values = np.broadcast_to(values, n)
                values = np.ascontiguousarray(values, dtype)
                n_nulls[row] = self._kernels.put_in_order(
                    values.view(np.int64), int(in_order.is_float), -int(in_order.is_reversed), numbers[row],
                    known[row],
                )  # fmt: skip
                if in_order.is_known is not None:
                    known[row, :n] &= np.broadcast_to(read_value(reader, in_order.is_known), n) != 0
                    n_nulls[row] = n - np.count_nonzero(known[row, :n])

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        """The columns that conditions read, without columns of arrays."""
        return {name: values for name, values in self.places.inputs.columns.items() if values.ndim == 1}

    @cached_property
    def _constants(self) -> tuple:
        return constants_of(self.places.program, self.places.inputs)

    def _of_parts(self, work: Callable[[int], T], parts: list[Part]) -> list[T]:
        """Return ``work(i)`` for each part, on a thread each."""
        _ = (
            self._kernels, self._limits, self._columns, self._constants, self.places.accept,
        )  # before threads ask  # fmt: skip
        return [work(0)] if len(parts) == 1 else run_on_threads(work, len(parts), len(parts))

    def total(self) -> int:
        """Return the number of matches."""
        parts = self._parts(0, self.n_events)
        count = lambda i: sum(n for n, _ in self._walk(parts[i], 0, _NONE, fill=False))  # noqa: E731
        return sum(self._of_parts(count, parts))

    def add_ends(self, counts: np.ndarray) -> None:
        """Add the number of matches that end at each event to ``counts``."""
        for _ in self._walk((0, self.n_events, self.n_events), 0, counts, fill=False):
            pass

    def block(self, low: int, high: int, *, most_items: int | None = None) -> MatchBlock | None:
        """Return the matches that end from ``low`` to ``high``, or None if they have too many events."""
        low, high = max(0, low), min(high, self.n_events)
        if low >= high:
            return EMPTY
        parts = self._parts(low, high)
        counts = np.zeros((len(parts), ((high - 1) >> _BLOCK) + 1), np.int64)
        is_too_large = [False]

        def find(i: int) -> list[np.ndarray]:
            copies, held = [], 0
            for n, out in self._walk(parts[i], low, counts[i], fill=True):
                copies.append(out[:n].copy())
                held += n * len(parts)  # the other parts have about as many
                needed = 2 * bytes_to_collect(held, held * self.n_components)
                if most_items is None:
                    check_memory(needed, f"the first {held:,} matches", is_held=True)
                elif held * self.n_components > most_items or not fits_memory(needed, is_held=True):
                    is_too_large[0] = True
                if is_too_large[0]:
                    return []
            return copies[::-1]

        arrays = self._of_parts(find, parts)
        return None if is_too_large[0] else self._in_order(arrays, parts, counts, high)

    def _in_order(
        self, arrays: list[list[np.ndarray]], parts: list[Part], counts: np.ndarray, high: int
    ) -> MatchBlock:
        """Return the matches of all parts in canonical order; ``counts`` are theirs by part and block."""
        n_of_block = counts.sum(axis=0)
        bounds = sums_before(n_of_block)
        cursors = bounds[:-1] + np.cumsum(counts, axis=0) - counts  # where each part writes in each block
        if high <= 1 << _BLOCK and [*map(len, arrays)] == [1]:
            dealt = np.ascontiguousarray(arrays[0].pop()[::-1])
        else:
            dealt = np.empty((bounds[-1], self.n_components), np.int32)

            def deal(part: int) -> None:
                while arrays[part]:
                    matches = arrays[part].pop(0)
                    self._kernels.deal(len(matches), matches, cursors[part], dealt)

            self._of_parts(deal, parts)
        events = np.empty((self.n_components, len(dealt)), np.int64)

        def sort(begin: int, stop: int) -> None:
            for block in range(begin, stop):
                first = block << _BLOCK  # of the block's last events
                n_before = np.empty(min(1 << _BLOCK, high - first) + 1, np.int32)
                self._kernels.sort_block(bounds[block], bounds[block + 1], dealt, n_before, first, events)
                checkpoint()

        in_slices(sort, even_cuts(len(n_of_block), self.places.threads), threads=self.places.threads)
        return LineBlock(events, self.number)


_ITEMS_PER_CALL = 1 << 20
_STEPS_PER_CALL = 1 << 20
_MOST_KNOWN = 1 << 25  # events of matches that are kept
_FEW = 24  # up to this many matches are searched where they end
_FIRST_EVENTS, _GROWTH = 1 << 14, 8  # the first matches are searched in a few events, then in more


def next_unsupported(program: BoundQuery) -> str | None:
    """Return why the engine cannot run a program, to complete "it …", or None if it can."""
    if not isinstance(program, SequenceProgram):
        return "runs event sequences only"
    tables = (next_tables_of(program, bound) for bound in program.branches)
    return next((reason for reason in tables if isinstance(reason, str)), None)


def match_next(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return the matches of ``program`` in ``events``. They are found when they are first needed."""
    if not events.n_events or program.window.is_empty:
        return KnownMatches(events, joined([]))
    return NextMatches(program, events)


class NextMatches(SequenceSet):
    """The matches of all branches of a program."""

    run = SearchRun("interpreted")

    def __init__(self, program: SequenceProgram, events: Events):
        self.program, self.events = program, events

    @cached_property
    def _searches(self) -> list[NextChainSearch | _BranchSearch]:
        places = NextPlaces(self.program, self.events)
        tables = [next_tables_of(self.program, bound) for bound in self.program.branches]
        return [
            chain_search(places, branch_tables, number) or _BranchSearch(places, branch_tables, number)
            for number, branch_tables in enumerate(tables)
        ]

    @property
    def accepts(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.bitwise_or.reduce(self._searches[0].places.accept, axis=0).view(np.bool_)

    def _in_order(self, blocks: list[MatchBlock]) -> MatchBlock:
        """Return the matches of all branches in canonical order."""
        return blocks[0] if len(blocks) == 1 and self._searches[0].is_sorted else joined(blocks).sorted()

    @cached_property
    def _known(self) -> KnownMatches | None:
        """All matches, unless they are too many to keep."""
        blocks, room = [], _MOST_KNOWN
        for search in self._searches:
            block = search.block(0, self.events.n_events, most_items=room)
            if block is None:
                return None
            blocks.append(block)
            room -= block.n_items
        return KnownMatches(self.events, self._in_order(blocks))

    @cached_property
    def _total(self) -> int:
        """The number of matches of all branches."""
        return sum(search.total() for search in self._searches)

    def count(self) -> int:
        """Return the number of matches."""
        return self._known.count() if self.__dict__.get("_known") else self._total

    def at_most(self) -> int:
        """Return the number of matches; chains list them, since a listing follows."""
        is_listed = all(isinstance(search, NextChainSearch) for search in self._searches)
        return self._known.count() if is_listed and self._known else self.count()

    def any(self) -> bool:
        """Return whether there is a match."""
        return len(self.glance(1)) > 0

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end, and how many end at each."""
        if self.__dict__.get("_known"):
            return self._known.ends()
        counts = np.zeros(self.events.n_events, np.int64)
        for search in self._searches:
            search.add_ends(counts)
        positions = np.flatnonzero(counts)
        return positions, counts[positions]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches whose last event has a position from ``low`` to ``high``."""
        is_all = low <= 0 and high >= self.events.n_events
        if (is_all or "_known" in self.__dict__) and self._known:
            return self._known.ending(low, high)
        return self._in_order([search.block(low, high) for search in self._searches])

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        return self._known.blocks(size) if self._known else super().blocks(size)

    def whole_blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        return self._known.whole_blocks(size) if self._known else super().whole_blocks(size)

    def glance(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches. It searches the first events alone if these have enough."""
        high = _FIRST_EVENTS
        while n and "_known" not in self.__dict__ and high * _GROWTH < self.events.n_events:
            # No match looks at an event after its last one.
            block = NextMatches(self.program, self.events.between(0, high)).ending(0, high)
            if len(block) >= n:
                return block.take(slice(0, n))
            high *= _GROWTH
        return self._known.glance(n) if self._known else super().glance(n)

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return matches by number; small numbers are among the first matches, which are quick to find."""
        if numbers and min(numbers) >= 0 and max(numbers) < MATCHES_PER_BLOCK:
            first = self.glance(max(numbers) + 1)
            if len(first) > max(numbers):
                return first.take(np.array(numbers, np.int64))
        if len(numbers) > _FEW and self._known:
            return self._known.take(numbers)
        return super().take(numbers)


class _BranchSearch:
    """The search for the matches of a branch of any form, from first events on."""

    is_sorted = False

    def __init__(self, places: NextPlaces, tables: NextTables, number: int):
        self.places, self.tables, self.number = places, tables, number
        self.n_components = len(tables.components)

    @cached_property
    def _arguments(self) -> tuple:
        """The arguments of the kernel `follow` that stay the same for all calls."""
        places, tables = self.places, self.tables
        values = places.values(tables.floats, tables.integers)
        targets = places.targets(tables, values)
        ticks = places.ticks
        window_end = places.window_end if ticks is None else np.empty(0, np.int32)
        return (
            NextReach(places.bounds, places.passed, places.later, window_end, places.gap_end),
            NextClock(places.position, *(ticks or (np.empty(0, np.int64), 0))),
            NextEdges(tables.components, edge_rows(tables.edges), targets, 1 << tables.first_test),
            EdgeValues(tables.tests, *values),
        )

    @cached_property
    def _longest(self) -> int:
        """The most events that a partial match can have."""
        places, high = self.places, self.tables.components[:, 1]
        if (high < NO_LIMIT).all():
            return min(int(high.sum()), places.n) + 2
        return int((places.window_end - np.arange(places.n, dtype=np.int32)).max(initial=0)) + 2

    def _calls(
        self, begin: int, stop: int, low: int, high: int, *, fill: bool, outputs: tuple
    ) -> Iterator[np.ndarray]:
        """Call the kernel until the walk over the starts of a slice is done, and yield each report."""
        follow = self.places.kernels.follow
        longest, n = self._longest, self.n_components + 1
        scratch = NextPath(*(np.zeros(size, np.int64) for size in (longest, longest, n, longest)))
        work, report = per_call(follow, _STEPS_PER_CALL), np.zeros(8, np.int64)
        report[:2], report[6] = (begin - 1, -1), self.places.partition_of(begin)
        is_run_scope = int(self.places.program.query.scope == "run")
        task = SearchTask(stop, low, high, int(fill), work, is_run_scope)
        while not report[5]:  # until the walk is done
            checkpoint((int(report[0]) + 1) / max(1, self.places.n))
            with np.errstate(over="ignore"):  # a kernel that runs as Python warns of a difference that wraps
                follow(task, *self._arguments, scratch, SearchOutput(*outputs), report)
            yield report

    def total(self) -> int:
        """Return the number of matches."""
        places = self.places
        none = np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, self.n_components), np.int64)

        def count(begin: int, stop: int) -> int:
            reports = self._calls(begin, stop, 0, places.events.n_events, fill=False, outputs=none)
            return sum(int(report[2]) for report in reports)

        _ = self._arguments, self._longest  # computed before threads share them
        return sum(in_slices(count, places.walk_cuts, threads=places.threads))

    def add_ends(self, counts: np.ndarray) -> None:
        """Add the number of matches that end at each event to ``counts``."""
        of_place = np.zeros(self.places.n, np.int64)
        outputs = of_place, np.empty(0, np.int32), np.empty((0, self.n_components), np.int64)
        for _ in self._calls(0, self.places.n, 0, self.places.events.n_events, fill=False, outputs=outputs):
            pass
        counts[self.places.position] += of_place

    def block(self, low: int, high: int, *, most_items: int | None = None) -> MatchBlock | None:
        """Return the matches that end from ``low`` to ``high``, or None if they have too many events."""
        places, held, lock = self.places, [0, 0, 0], Lock()  # held: matches, events, whether to stop

        def find(begin: int, stop: int) -> list[tuple[np.ndarray, np.ndarray]]:
            room = max(min(_ITEMS_PER_CALL, 4 * (stop - begin)), self._longest)
            out_place = np.empty(room, np.int32)
            out_size = np.empty((room // self.n_components + 1, self.n_components), np.int64)
            copies, outputs = [], (np.empty(0, np.int64), out_place, out_size)
            for report in self._calls(begin, stop, low, high, fill=True, outputs=outputs):
                n, n_items = int(report[2]), int(report[3])
                copies.append((out_place[:n_items].copy(), out_size[:n].copy()))
                with lock:
                    held[0] += n
                    held[1] += n_items
                needed = 2 * bytes_to_collect(held[0], held[1])
                if most_items is None:
                    check_memory(needed, f"the first {held[0]:,} matches", is_held=True)
                elif held[1] > most_items or not fits_memory(needed, is_held=True):
                    held[2] = 1
                if held[2]:
                    return []
            return copies

        _ = self._arguments, self._longest
        call_parts = [
            part for parts in in_slices(find, places.walk_cuts, threads=places.threads) for part in parts
        ]
        return None if held[2] else self._made(call_parts)

    def _made(self, found: list[tuple[np.ndarray, np.ndarray]]) -> MatchBlock:
        """Return the matches of several calls as a block, given their places and sizes."""
        if not found:
            return joined([])
        sizes = np.concatenate([array for _, array in found])
        places = np.concatenate([array for array, _ in found])
        return block_of_sizes(self.places.position[places].astype(np.int64), sizes, self.number)
