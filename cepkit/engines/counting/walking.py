"""Matches in canonical order: listed in blocks, drawn at random, or found by their numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cepkit.compile.counting_paths import (
    DEEPER,
    DEPTH,
    DONE,
    END,
    FULL,
    LONGER,
    N_ITEMS,
    N_MATCHES,
    REASON,
    SEEK,
    write_line_walk,
    write_walk,
)
from cepkit.engines.counting.layout import WORK_PER_CALL, Entries, Layout
from cepkit.engines.counting.ranking import FEW, SMALL, LineSample, Numbering, Path, PathFinder
from cepkit.engines.shared.sequence_set import MATCHES_PER_BLOCK, LineBlock, MatchBlock, collect, draw_numbers
from cepkit.events import sums_before
from cepkit.progress import checkpoint
from cepkit.values import cached_property

MOST_PER_BLOCK = 1 << 20
_ITEMS_PER_BLOCK = 1 << 16
_STRETCH = 1024  # entries that the walk of a line looks at in one go for each event of a path
_FEW_EVENTS = 64  # length of a path for which its arrays have room at first
_FROM_THE_END = (1, 2)  # numbers of the scratch arrays in which depth 0 is the last cell
_FEW_TUPLES = 1 << 20  # of events that end together in a window: a sample may look at all of them
_TUPLES_EACH = 1024  # a walk over this many tuples takes less time than a drawn match
_RUN = 24  # from this many successive numbers on, a walk is cheaper than finding each


class MatchWalk(ABC):
    """Walks over the matches in a layout, in canonical order. It keeps no matches."""

    # In the methods, ``counts`` is the number of matches that end at each place: an array or a list of int.

    is_line = False

    def __init__(self, layout: Layout, number: int):
        self.layout, self.graph, self.places, self.number = layout, layout.graph, layout.places, number
        self._numbering: tuple[object, Numbering] | None = None

    @property
    @abstractmethod
    def _positions(self) -> np.ndarray:
        """The positions of the events where matches may end, rising."""

    @property
    @abstractmethod
    def _place_of_end(self) -> np.ndarray:
        """The places of the events where matches may end."""

    @abstractmethod
    def _walk(self, begin: int, stop: int, size: int) -> Iterator[MatchBlock]:
        """Yield the matches of the ends from ``begin`` to ``stop``, in blocks of about ``size``."""

    @abstractmethod
    def _numbered(self, numbers: Sequence[int], numbering: Numbering) -> Iterator[MatchBlock]:
        """Yield the matches with these numbers, which ascend."""

    # --- in order

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches whose last event has a position from ``low`` to ``high``, in canonical order."""
        begin, stop = np.searchsorted(self._positions, [low, high])
        return collect(self._walk(int(begin), int(stop), MATCHES_PER_BLOCK))

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in canonical order, in blocks of about ``size``."""
        return self._walk(0, len(self._positions), size)

    def _filled(
        self, run: Callable[..., None], scratch: list[np.ndarray], deepen: Callable, span: tuple[int, int],
        size: int, report: np.ndarray,
    ) -> Iterator[MatchBlock]:  # fmt: skip
        """Yield the matches of the ends in ``span``, which ``run(scratch, outputs)`` writes."""
        # A match gets more room if it needs it. ``deepen`` returns scratch arrays for longer paths.
        n_items, (begin, stop) = max(_ITEMS_PER_BLOCK, 4 * size), span
        while not report[DONE]:
            outputs = np.empty(n_items, np.int64), np.empty(n_items, np.int16), np.empty(size + 1, np.int64)
            outputs[2][0] = 0
            report[N_MATCHES] = report[N_ITEMS] = report[REASON] = 0
            while not report[DONE] and report[REASON] not in (FULL, LONGER):
                checkpoint((int(report[END]) + 1 - begin) / (stop - begin))
                run(scratch, outputs)
                if report[REASON] == DEEPER:
                    scratch = deepen(scratch)
            n_items *= 2 if report[REASON] == LONGER else 1
            n_matches, n_used = int(report[N_MATCHES]), int(report[N_ITEMS])
            if n_matches:
                sizes = n_used, n_used, n_matches + 1
                trimmed = [_trim(array, n) for array, n in zip(outputs, sizes, strict=True)]
                yield MatchBlock(*trimmed, np.full(n_matches, self.number, np.int16))

    # --- by number

    def numbering(self, counts: np.ndarray | Sequence[int]) -> Numbering:
        """Return the numbering of the matches by their last events. The latest one is kept."""
        if self._numbering is None or self._numbering[0] is not counts:
            self._numbering = counts, Numbering.of(counts, self._place_of_end)
        return self._numbering[1]

    def take(self, numbers: Sequence[int], counts: np.ndarray | Sequence[int]) -> MatchBlock:
        """Return the matches of these numbers, in this order. Exact for counts of any size."""
        numbering = self.numbering(counts)
        wanted = sorted(set(numbers))
        if wanted and not 0 <= wanted[0] <= wanted[-1] < numbering.total:
            wrong = wanted[0] if wanted[0] < 0 else wanted[-1]
            raise IndexError(f"no match has the number {wrong}; {numbering.total} matches count from 0")
        block = collect(self._numbered(wanted, numbering))
        if wanted == list(numbers):
            return block
        place_of_number = {number: m for m, number in enumerate(wanted)}
        return block.take(np.array([place_of_number[number] for number in numbers], np.int64))

    def sample(self, n: int, seed: int, counts: np.ndarray | Sequence[int]) -> MatchBlock:
        """Return ``n`` different matches drawn uniformly, or all if there are no more, in canonical order."""
        return self.take(draw_numbers(self.numbering(counts).total, n, seed), counts)


class PathWalk(MatchWalk):
    """Walks over the matches of a state graph along its `Entries`."""

    # Source: Poppe, Lei, Rundensteiner, Maier, "GRETA: Graph-based Real-time Event Trend Aggregation", PVLDB
    # 11(1), 2017, section 4: matches as the paths of a graph of events.
    # Differs: the graph is not stored; kernels look up its edges. Paths are also walked and found by number.

    def __init__(self, layout: Layout, number: int = 0):
        super().__init__(layout, number)
        self.n_states = len(self.graph.states)
        self.is_line = self.graph.is_line
        self.component_of_state = np.array([state.component for state in self.graph.states], np.int16)
        self.entries = Entries.of(layout)
        self._finder = PathFinder(layout, self.entries)

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Entries where matches end, in stream order; the masks of their final states; their positions."""
        ends, states = self.entries.ends(self.graph)
        if self.layout.program.window.is_empty:
            ends, states = ends[:0], states[:0]
        position = self.entries.position[ends]
        order = np.argsort(position, kind="stable")
        return ends[order], states[order], position[order]

    @property
    def _positions(self) -> np.ndarray:
        return self._ends[2]

    @property
    def _place_of_end(self) -> np.ndarray:
        return self.entries.place[self._ends[0]]

    # --- in order

    def all(self, n_matches: int) -> MatchBlock:
        """Return all matches in canonical order."""
        # The length of a line's matches is known, so memory was checked: one block needs no copy.
        if self.is_line and self.graph.edges and n_matches:
            return collect(self._walk_line(0, len(self._positions), n_matches, None))
        return collect(self.blocks(n_matches if self.is_line else MATCHES_PER_BLOCK))

    def _walk(self, begin: int, stop: int, size: int, path: Path | None = None) -> Iterator[MatchBlock]:
        """Yield the matches of the ends from ``begin`` to ``stop``; if ``path`` is given, begin with it."""
        if begin >= stop:
            return iter(())
        size = min(max(1, size), MOST_PER_BLOCK)
        if not self.graph.edges:
            return self._walk_single(begin, stop, size)
        return (self._walk_line if self.is_line else self._walk_graph)(begin, stop, size, path)

    def _walk_single(self, begin: int, stop: int, size: int) -> Iterator[MatchBlock]:
        """Yield matches of one event each."""
        for low in range(begin, stop, size):
            yield self._of_one_length(self._ends[2][low : min(low + size, stop)])

    def _walk_line(self, begin: int, stop: int, size: int, path: Path | None) -> Iterator[MatchBlock]:
        """Yield the matches of a graph whose states form a line, from ``path`` on."""
        n, entries = self.n_states, self.entries
        start = np.zeros(n, np.int64) if path is None else path.entries[::-1].copy()
        first = np.append(entries.first_of_state, entries.end_of_state[-1])
        arguments = [
            stop, WORK_PER_CALL, self._ends[0], first, entries.position, entries.low, entries.high,
            entries.window_start, entries.latest,
        ]  # fmt: skip
        scratch = [start, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros((n, _STRETCH), np.int64)]
        scratch += [np.zeros(n, np.int64) for _ in range(4)]
        report = np.zeros(9, np.int64)
        report[END], report[DEPTH], report[SEEK] = begin - 1, n, -1 if path is None else 0
        while not report[DONE]:
            run, values = entries.kernel(write_line_walk, "walk")
            out = np.empty(size * n, np.int64)  # the kernel fills it, n entries per match
            report[N_MATCHES] = 0
            while not report[DONE] and report[N_MATCHES] < size:
                checkpoint((int(report[END]) + 1 - begin) / (stop - begin))
                run(*arguments, *values, *scratch, out, report)
            n_matches = int(report[N_MATCHES])
            if n_matches:
                yield self._of_one_length(_trim(out, n_matches * n))

    def _walk_graph(self, begin: int, stop: int, size: int, path: Path | None) -> Iterator[MatchBlock]:
        """Yield the matches of a graph of any form, from ``path`` on."""
        entries = self.entries
        start = np.zeros(1, np.int64) if path is None else path.entries
        arguments = [
            stop, WORK_PER_CALL, *self._ends[:2], entries.position, entries.low, entries.high,
            entries.window_start, entries.offset, entries.latest,
        ]  # fmt: skip
        scratch = _scratch(max(_FEW_EVENTS, len(start)))
        report = np.zeros(9, np.int64)
        report[END], report[DEPTH], report[SEEK] = begin - 1, -1, -1
        if path is not None:
            scratch[0][: len(start)] = path.states
            report[SEEK] = len(start) - 1

        def run(scratch: list[np.ndarray], outputs: tuple) -> None:
            kernel, values = entries.kernel(write_walk, "walk")  # compiled in the meantime
            kernel(*arguments, *values, start, *scratch, *outputs, report)

        return self._filled(run, scratch, _deepen, (begin, stop), size, report)

    def _of_one_length(self, positions: np.ndarray) -> MatchBlock:
        """Return the matches of a line as a block, given the positions of their events."""
        return LineBlock(positions.reshape(-1, self.n_states).T, self.number, self.component_of_state)

    # --- by number

    def sample(self, n: int, seed: int, counts: np.ndarray | Sequence[int]) -> MatchBlock:
        # Exactly uniform for counts of any size: numbers of matches are drawn, and `take` finds the matches.
        # In a line of states, the numbers only decide how many matches end at each event. `LineSample` then
        # draws these matches, with one counted window for last events that are close to each other.
        numbering = self.numbering(counts)
        numbers = draw_numbers(numbering.total, n, seed)
        if not numbers or not self.is_line or n >= numbering.total or numbering.total >= SMALL:
            return self.take(numbers, counts)
        line = LineSample(self._finder, np.random.default_rng(seed))
        few = min(_FEW_TUPLES, _TUPLES_EACH * n)
        if len(self._ends[0]) <= few and line.n_tuples(self._ends[0]) <= few:
            return self.all(numbering.total).take(np.array(numbers, np.int64))
        ends, n_wanted = np.unique([end for end, _ in numbering.locate(numbers)], return_counts=True)
        count = np.diff(numbering.first_of_end)[ends]
        last = self._ends[0][ends]
        by_place = np.argsort(last)
        rows = np.concatenate([*line.rows(last[by_place], n_wanted[by_place], count[by_place])])
        positions = self.entries.position[rows]
        return self._of_one_length(positions[np.lexsort(positions.T)].ravel())

    def _numbered(self, numbers: Sequence[int], numbering: Numbering) -> Iterator[MatchBlock]:
        """Yield matches: walk long runs of successive numbers, find the others."""
        ends, end_states, positions = self._ends
        located = numbering.locate(numbers)
        m = 0
        while m < len(numbers):
            checkpoint(m / len(numbers))
            end, rank = located[m]
            run = _run_length(numbers, m)
            if not self.graph.edges:
                yield self._of_one_length(positions[end : end + run])
                m += run
                continue
            of_end, ranks = (int(ends[end]), int(end_states[end])), [rank]
            if run >= _RUN:
                (path,) = self._finder.paths(*of_end, ranks, numbering.count(end))
                yield from first_of_blocks(run, self._walk(end, len(ends), run, path))
                m += run
                continue
            m += 1
            while m < len(numbers) and located[m][0] == end and _run_length(numbers, m) < _RUN:
                ranks.append(located[m][1])
                m += 1
            yield self._of_paths(self._finder.paths(*of_end, ranks, numbering.count(end)))

    def _of_paths(self, paths: list[Path]) -> MatchBlock:
        """Return the matches of paths, whose entries are listed from the last to the first."""
        first_item = sums_before([len(path.entries) for path in paths])
        entries = np.concatenate([path.entries[::-1] for path in paths])
        states = np.concatenate([path.states[::-1] for path in paths])
        return MatchBlock(
            self.entries.position[entries], self.component_of_state[states], first_item,
            np.full(len(paths), self.number, np.int16),
        )  # fmt: skip


def first_of_blocks(n: int, blocks: Iterator[MatchBlock]) -> Iterator[MatchBlock]:
    """Yield the first `n` matches of blocks, in blocks."""
    for block in blocks:
        yield block if len(block) <= n else block.take(slice(0, n))
        n -= len(block)
        if n <= 0:
            return


def _run_length(numbers: list[int], m: int) -> int:
    """Return how many numbers of an ascending list follow each other directly from index ``m`` on."""
    return bisect_right(range(len(numbers) - m), numbers[m], key=lambda i: numbers[m + i] - i)


def _trim(array: np.ndarray, n: int) -> np.ndarray:
    """Return the first ``n`` items of an array without keeping a much larger one in memory."""
    return array[:n] if 2 * n > len(array) else array[:n].copy()


def _scratch(depth: int) -> list[np.ndarray]:
    """Return the scratch arrays of the walk of a graph, indexed by depth of a path."""
    path = [np.zeros(depth, np.int64), np.zeros(depth, np.int64), np.zeros(depth, np.int16)]
    flat_arrays = [np.zeros(depth, np.int64) for _ in range(6)]
    more = [np.zeros((depth, 2), np.int64), np.zeros((depth, 3, FEW), np.int64)]
    return [*path, *flat_arrays, *more, *(np.zeros(depth, np.int64) for _ in range(3))]


def _deepen(scratch: list[np.ndarray]) -> list[np.ndarray]:
    """Return arrays for longer paths, with the old contents at the end from which kernels count."""
    depth = 2 * len(scratch[0])
    larger = _scratch(depth)
    for number, (old, new) in enumerate(zip(scratch, larger, strict=True)):
        if number in _FROM_THE_END:
            new[depth - len(old) :] = old
        else:
            new[: len(old)] = old
    return larger
