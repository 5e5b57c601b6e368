"""The search for matches of strategy ``next`` that have one event of each component, in one walk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.compile.interpreted.next_event import NextChain, NextTables, chain_of
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted.values import read_value
from cepkit.engines.next.places import NextPlaces
from cepkit.engines.shared.kernels import per_call
from cepkit.engines.shared.sequence_set import EMPTY, LineBlock, MatchBlock, bytes_to_collect
from cepkit.engines.shared.slices import even_cuts, in_slices
from cepkit.limits import check_memory, fits_memory
from cepkit.progress import checkpoint, run_on_threads

CHAIN = "cepkit.kernels.sequences.next_chain"
_BLOCK = 16  # as in the kernels: a block of last events has 2^16
_EVENTS_PER_CHUNK = 1 << 16  # their numbers fit the cache
_FEWEST_ENTRIES = 1 << 12  # of all stacks at first
_MANY_EVENTS = 1 << 22  # the best machine code pays at once
_MOST_OVERLAP = 4  # a part of the events may look at a quarter of its length beyond its end
_NONE = np.empty(0, np.int64)
Part = tuple[
    int, int, int
]  # first events of matches from the first to before the second; events up to the third
T = TypeVar("T")


def chain_search(places: NextPlaces, tables: NextTables, number: int) -> NextChainSearch | None:
    """Return the search for the matches of a branch, or None if it or its window needs the general search."""
    chain, window = chain_of(tables), places.program.window
    if chain is None or window.strict_time or window.within_events is not None:
        return None
    widths = [width for width in (window.within, window.gap_within) if width is not None]
    if not all(isinstance(width, int | np.integer) and width >= 1 for width in widths):
        return None
    if widths and places.events.columns[places.program.clock].values.dtype.kind == "f":
        return None
    return NextChainSearch(places, chain, number)


class NextChainSearch:
    """The search for the matches of a branch, from the last event to the first."""

    is_sorted = True  # whether blocks are in canonical order

    def __init__(self, places: NextPlaces, chain: NextChain, number: int):
        self.places, self.chain, self.number = places, chain, number
        self.n_components, self.n_events = len(chain.components), places.events.n_events

    @cached_property
    def _kernels(self) -> Any:
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
        """Return where matches that end from ``low`` to ``high`` can begin, a part for each thread."""
        (time, within, _), threads = self._limits, self.places.threads
        if within < 0 or (low == 0 and threads < 2) or not self._is_rising:
            return [(0, high, high)]
        begin = int(np.searchsorted(time[:high], max(int(time[low]) - within, -(2**63)))) if low else 0
        cuts = [begin + cut for cut in even_cuts(high - begin, min(threads, high - begin))]
        latest = [min(int(time[cut - 1]) + within, 2**63 - 1) for cut in cuts[1:]]
        ends = np.searchsorted(time[:high], latest, "right").tolist()
        parts = [(*cut, end) for cut, end in zip(pairwise(cuts), ends, strict=True)]
        if any((end - stop) * _MOST_OVERLAP > stop - first for first, stop, end in parts):
            return [(begin, high, high)]
        return parts

    def _walk(
        self, part: Part, low: int, counts: np.ndarray, *, fill: bool
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Walk over a part, and yield how many matches begin in each run, and the matches if ``fill``.

        Matches end from ``low`` on. ``counts`` gets their numbers by last event, unless it is empty, or by
        blocks of last events if ``fill``.

        """
        begin, limit, end = part
        places, kernels, n, n_rows = self.places, self._kernels, self.n_components, len(self.chain.numbers)
        width = min(per_call(kernels.walk, _EVENTS_PER_CHUNK), max(1, end - begin))
        numbers, known = np.zeros((n_rows, width), np.int64), np.ones((n_rows, width), np.uint8)
        n_nulls, listing, report = (np.zeros(size, np.int64) for size in (n_rows, 2, 4))
        component, listed = np.empty(width, np.uint8), np.empty(width + 1, np.int32)
        n_stacks = max(1, places.events.n_partitions) * (n - 1)
        base, (size, room) = np.zeros(n_stacks, np.int64), np.zeros((2, n_stacks), np.int32)
        entries = [np.empty(_FEWEST_ENTRIES, np.int64) for _ in range(2)]
        out = np.empty((width if fill else 0, n), np.int32)
        following = np.empty((max(0, n - 3), self.n_events if fill else 0), np.int32)
        by_last, by_block = (_NONE, counts) if fill else (counts, _NONE)
        for stop in range(end, begin, -width):
            chunk = max(begin, stop - width)
            checkpoint((end - stop) / (end - begin))
            self._read(chunk, stop, numbers, known, n_nulls)
            kernels.classify(chunk, stop, places.accept, self.chain.components, component, listed, listing)
            report[0] = listing[0]
            while report[0]:
                needed = int(report[2]) + (n - 1) * max(1, 2 * int(report[3]))
                if needed > len(entries[0]):
                    entries = [np.concatenate([own, np.empty(needed, np.int64)]) for own in entries]
                with np.errstate(
                    over="ignore"
                ):  # a kernel that runs as Python warns of a difference that wraps
                    kernels.walk(
                        report[0], listing[1], chunk, limit, low, listed, component, places.accept,
                        places.partition, *self._limits, self.chain.components, numbers, known, n_nulls, base,
                        size, room, *entries, int(fill), out, following, by_last, by_block, report,
                    )  # fmt: skip
                yield int(report[1]), out

    def _read(
        self, begin: int, stop: int, numbers: np.ndarray, known: np.ndarray, n_nulls: np.ndarray
    ) -> None:
        """Write the numbers of a run of events that tests compare."""
        n, columns = stop - begin, {name: values[begin:stop] for name, values in self._columns.items()}
        reader = ColumnReader(columns, *self._constants)
        with np.errstate(all="ignore"):
            for row, own in enumerate(self.chain.numbers):
                if own.value is None:
                    continue
                dtype = np.float64 if own.is_float else np.int64
                values = np.ascontiguousarray(np.broadcast_to(read_value(reader, own.value), n), dtype)
                n_nulls[row] = self._kernels.put_in_order(
                    values.view(np.int64), int(own.is_float), -int(own.is_reversed), numbers[row], known[row]
                )
                if own.is_known is not None:
                    known[row, :n] &= np.broadcast_to(read_value(reader, own.is_known), n) != 0
                    n_nulls[row] = n - np.count_nonzero(known[row, :n])

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        return {name: values for name, values in self.places.inputs.columns.items() if values.ndim == 1}

    @cached_property
    def _constants(self) -> tuple:
        return constants_of(self.places.program, self.places.inputs)

    def _of_parts(self, work: Callable[[int], T], parts: list[Part]) -> list[T]:
        """Return ``work`` of the number of each part, on threads."""
        _ = (
            self._kernels,
            self._limits,
            self._columns,
            self._constants,
            self.places.accept,
        )  # before threads ask
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
            found, held = [], 0
            for n, out in self._walk(parts[i], low, counts[i], fill=True):
                found.append(out[:n].copy())
                held += n * len(parts)  # the other parts have about as many
                needed = 2 * bytes_to_collect(held, held * self.n_components)
                if most_items is None:
                    check_memory(needed, f"the first {held:,} matches", is_held=True)
                elif held * self.n_components > most_items or not fits_memory(needed, is_held=True):
                    is_too_large[0] = True
                if is_too_large[0]:
                    return []
            return found[::-1]

        found = [matches for of_part in self._of_parts(find, parts) for matches in of_part]
        return None if is_too_large[0] else self._in_order(found, counts.sum(axis=0), high)

    def _in_order(self, found: list[np.ndarray], n_of_block: np.ndarray, high: int) -> MatchBlock:
        """Return the matches in canonical order."""
        bounds = np.concatenate([[0], np.cumsum(n_of_block)])
        cursor, dealt = bounds[:-1].copy(), np.empty((bounds[-1], self.n_components), np.int32)
        while found:
            matches = found.pop(0)
            self._kernels.deal(len(matches), matches, cursor, dealt)
        events = np.empty((self.n_components, len(dealt)), np.int64)

        def sort(begin: int, stop: int) -> None:
            for block in range(begin, stop):
                first = block << _BLOCK
                n_before = np.empty(min(1 << _BLOCK, high - first) + 1, np.int32)
                self._kernels.sort_block(bounds[block], bounds[block + 1], dealt, n_before, first, events)
                checkpoint()

        in_slices(sort, even_cuts(len(n_of_block), self.places.threads), threads=self.places.threads)
        return LineBlock(events, self.number)
