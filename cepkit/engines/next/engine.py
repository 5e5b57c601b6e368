"""The engine of strategy ``next``: it jumps from event to event, so its time does not depend on windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from threading import Lock

import numpy as np

from cepkit.compile.interpreted.next_event import NextTables, edge_rows, next_tables_of
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.sequences.search_source import NO_LIMIT
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.next.chain import NextChainSearch, chain_search
from cepkit.engines.next.places import NextPlaces
from cepkit.engines.shared.kernels import per_call
from cepkit.engines.shared.sequence_set import (
    MATCHES_PER_BLOCK,
    KnownMatches,
    MatchBlock,
    SearchRun,
    SequenceSet,
    bytes_to_collect,
    joined,
)
from cepkit.engines.shared.slices import in_slices
from cepkit.events import Events
from cepkit.limits import check_memory, fits_memory
from cepkit.progress import checkpoint

_ITEMS_PER_CALL = 1 << 20
_STEPS_PER_CALL = 1 << 20
_MOST_KNOWN = 1 << 25  # events of matches that are kept
_FEW = 24  # up to this many matches are searched where they end
_FIRST_EVENTS, _GROWTH = 1 << 14, 8  # the first matches are searched in a few events, then in more


def next_unsupported(program: BoundQuery) -> str | None:
    """Return why the engine cannot run a program, to complete "it …", or None if it can."""
    if not isinstance(program, SequenceProgram):
        return "runs event sequences only"
    made = (next_tables_of(program, bound) for bound in program.branches)
    return next((reason for reason in made if isinstance(reason, str)), None)


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
            chain_search(places, own, number) or _BranchSearch(places, own, number)
            for number, own in enumerate(tables)
        ]

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
        return sum(search.total() for search in self._searches)

    def count(self) -> int:
        """Return the exact number of matches."""
        return self._known.count() if self.__dict__.get("_known") else self._total

    def at_most(self) -> int:
        """Return the number of matches; chains list them, since a listing follows."""
        is_listed = all(isinstance(search, NextChainSearch) for search in self._searches)
        return self._known.count() if is_listed and self._known else self.count()

    def any(self) -> bool:
        """Return whether there is a match."""
        return len(self.glance(1)) > 0

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end, rising, and how many end at each."""
        if self.__dict__.get("_known"):
            return self._known.ends()
        counts = np.zeros(self.events.n_events, np.int64)
        for search in self._searches:
            search.add_ends(counts)
        positions = np.flatnonzero(counts)
        return positions, counts[positions]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end from ``low`` to ``high``."""
        is_all = low <= 0 and high >= self.events.n_events
        if (is_all or "_known" in self.__dict__) and self._known:
            return self._known.ending(low, high)
        return self._in_order([search.block(low, high) for search in self._searches])

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of at most ``size``."""
        return self._known.blocks(size) if self._known else super().blocks(size)

    def whole_blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of about ``size``; matches with the same last event stay together."""
        return self._known.whole_blocks(size) if self._known else super().whole_blocks(size)

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` of the first matches."""
        high = _FIRST_EVENTS
        while n and "_known" not in self.__dict__ and high * _GROWTH < self.events.n_events:
            # No match looks at an event after its last one.
            block = NextMatches(self.program, self.events.between(0, high)).ending(0, high)
            if len(block) >= n:
                return block.take(slice(0, n))
            high *= _GROWTH
        return self._known.glance(n) if self._known else super().glance(n)

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches of these numbers, in this order."""
        if numbers and min(numbers) >= 0 and max(numbers) < MATCHES_PER_BLOCK:
            first = self.glance(max(numbers) + 1)
            if len(first) > max(numbers):
                return first.take(np.array(numbers, np.int64))
        if len(numbers) > _FEW and self._known:
            return self._known.take(numbers)
        return super().take(numbers)


class _BranchSearch:
    """The search for the matches of one branch."""

    is_sorted = False

    def __init__(self, places: NextPlaces, tables: NextTables, number: int):
        self.places, self.tables, self.number = places, tables, number
        self.n_components = len(tables.components)

    @cached_property
    def _arguments(self) -> tuple:
        places, tables = self.places, self.tables
        values = places.values(tables.floats, tables.integers)
        targets = places.targets(tables, values)
        gap_end, later = places.gap_end, places.later
        if places.ticks is None:
            window = places.window_end, np.empty(0, np.int64), 0
        else:
            window = np.empty(0, np.int32), *places.ticks
        return (
            int(places.program.query.scope == "run"), places.passed, 1 << tables.first_test, places.position,
            *window, places.bounds, tables.components, edge_rows(tables.edges), tables.tests,
            targets, len(later) > 0, later, len(gap_end) > 0, gap_end, *values,
        )  # fmt: skip

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
        scratch = [np.zeros(self._longest, np.int64) for _ in range(2)]
        scratch += [np.zeros(self.n_components + 1, np.int64), np.zeros(self._longest, np.int64)]
        work, report = per_call(follow, _STEPS_PER_CALL), np.zeros(8, np.int64)
        report[:2], report[6] = (begin - 1, -1), self.places.partition_of(begin)
        is_run_scope, *arguments = self._arguments
        while not report[5]:
            checkpoint((int(report[0]) + 1) / max(1, self.places.n))
            with np.errstate(over="ignore"):  # a kernel that runs as Python warns of a difference that wraps
                follow(stop, low, high, int(fill), work, is_run_scope, *arguments, *scratch, *outputs, report)
            yield report

    def total(self) -> int:
        """Return the number of matches."""
        places = self.places
        none = np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, self.n_components), np.int64)

        def count(begin: int, stop: int) -> int:
            reports = self._calls(begin, stop, 0, places.events.n_events, fill=False, outputs=none)
            return sum(int(report[2]) for report in reports)

        _ = self._arguments, self._longest
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
        places, held, lock = self.places, [0, 0, 0], Lock()

        def find(begin: int, stop: int) -> list[tuple[np.ndarray, np.ndarray]]:
            room = max(min(_ITEMS_PER_CALL, 4 * (stop - begin)), self._longest)
            out_place = np.empty(room, np.int32)
            out_size = np.empty((room // self.n_components + 1, self.n_components), np.int64)
            found, outputs = [], (np.empty(0, np.int64), out_place, out_size)
            for report in self._calls(begin, stop, low, high, fill=True, outputs=outputs):
                n, n_items = int(report[2]), int(report[3])
                found.append((out_place[:n_items].copy(), out_size[:n].copy()))
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
            return found

        _ = self._arguments, self._longest
        found = [
            part for parts in in_slices(find, places.walk_cuts, threads=places.threads) for part in parts
        ]
        return None if held[2] else self._made(found)

    def _made(self, found: list[tuple[np.ndarray, np.ndarray]]) -> MatchBlock:
        if not found:
            return joined([])
        sizes = np.concatenate([own for _, own in found])
        places = np.concatenate([own for own, _ in found])
        first_item = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes.sum(axis=1), out=first_item[1:])
        components = np.tile(np.arange(self.n_components, dtype=np.int16), len(sizes))
        is_line = len(places) == sizes.size
        return MatchBlock(
            self.places.position[places].astype(np.int64),
            components if is_line else np.repeat(components, sizes.ravel()),
            first_item,
            np.full(len(sizes), self.number, np.int16),
        )
