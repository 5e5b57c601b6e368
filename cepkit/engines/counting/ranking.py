"""Finds matches by their numbers: first where a match ends, then its path."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from cepkit.compile.counting.ranking import (
    COUNTED,
    DIGIT,
    ENTRY,
    FOUND,
    IS_FULL,
    LEVEL,
    PHASE,
    write_descent,
    write_fitting,
    write_window_counts,
    write_window_digits,
)
from cepkit.engines.counting.entries import Entries
from cepkit.engines.counting.layout import WORK_PER_CALL, Layout
from cepkit.progress import checkpoint

SMALL = 1 << 62  # smaller counts are computed as 64-bit integers
FEW = 32  # entries that a kernel looks at in one go for each event of a path
_MASK = (1 << DIGIT) - 1
_FEW_EVENTS = 64


@dataclass(frozen=True, slots=True)
class Path:
    """A match: its entries and their states from the last event to the first, int64, (n_events,)."""

    entries: np.ndarray
    states: np.ndarray


@dataclass(frozen=True, slots=True)
class Numbering:
    """The number of the first match of each end, then the number of all; large ones are Python integers."""

    first_of_end: np.ndarray | list[int]

    @classmethod
    def of(cls, counts: np.ndarray | Sequence[int], place_of_end: np.ndarray) -> Numbering:
        """Return the numbering for the numbers of matches that end at each place."""
        if isinstance(counts, np.ndarray):
            own = counts[place_of_end]
            if own.dtype != object and own.sum(dtype=np.float64) < SMALL:
                first = np.zeros(len(own) + 1, np.int64)
                np.cumsum(own.astype(np.int64), out=first[1:])  # numpy would add unsigned to signed as floats
                return cls(first)
            return cls([0, *accumulate(map(int, own.tolist()))])
        return cls([0, *accumulate(int(counts[place]) for place in place_of_end.tolist())])

    @property
    def total(self) -> int:
        """The number of matches."""
        return int(self.first_of_end[-1])

    def count(self, end: int) -> int:
        """Return the number of matches with this end."""
        return int(self.first_of_end[end + 1]) - int(self.first_of_end[end])

    def locate(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return the end of each match, and its number among the matches of this end."""
        first = self.first_of_end
        if isinstance(first, list):
            ends = [bisect_right(first, number) - 1 for number in numbers]
            return [(end, number - first[end]) for end, number in zip(ends, numbers, strict=True)]
        wanted = np.asarray(numbers, np.int64)
        ends = np.searchsorted(first, wanted, side="right") - 1
        return list(zip(ends.tolist(), (wanted - first[ends]).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class CountedWindow:
    """How many paths within a window end at each of its entries."""

    start: int  # the window's first place
    # lows, highs, cell: int64, (n_states,): the entries of each state in the window; entry i of state s has
    # row ``cell[s] + i`` of ``count``
    lows: np.ndarray
    highs: np.ndarray
    cell: np.ndarray
    # int64, (n_cells,) or (n_cells, n_digits): the counts, or their digits to the base 2^31, the lowest first
    count: np.ndarray


class PathFinder:
    """Finds matches that end at an entry by their numbers. It keeps the window that it counted last."""

    def __init__(self, layout: Layout, entries: Entries):
        self.layout, self.entries = layout, entries
        self.n_states = len(layout.graph.states)
        self.is_line = layout.graph.is_line
        self._scratch: list[np.ndarray] = []
        self._known: tuple[tuple[int, int, int], CountedWindow] | None = None

    def window(self, start: int, last: int, n_digits: int = 0) -> CountedWindow:
        """Return the counts of the paths that begin at place ``start`` or later and end before ``last``.

        Counts are exact modulo 2^64, or modulo 2^(31 n_digits). If fewer matches than the modulus begin at
        ``start`` or later and end at ``last``, the counts of all their parts are exact.
        """
        if self._known is not None and self._known[0] == (start, last, n_digits):
            return self._known[1]
        own = self.entries
        lows, highs = own.window(start, last)
        sizes = highs - lows
        cell, n_cells = np.cumsum(sizes) - sizes - lows, int(sizes.sum())
        report = np.zeros(3, np.int64)
        report[ENTRY] = -1
        table = np.zeros((n_cells, n_digits) if n_digits else n_cells, np.int64)
        outputs = (np.zeros(n_digits, np.int64), table, report) if n_digits else (table, report)
        write, name = (write_window_digits, "digits") if n_digits else (write_window_counts, "counts")
        run, values = own.kernel(write, name)
        while not report[COUNTED]:
            checkpoint()
            run(
                WORK_PER_CALL, start, lows, highs, own.offset, cell, own.low, own.high, own.latest,
                *values, *outputs,
            )  # fmt: skip
        window = CountedWindow(start, lows, highs, cell, table)
        self._known = (start, last, n_digits), window
        return window

    def are_paths(self, rows: np.ndarray) -> np.ndarray:
        """Return which rows of entries, one entry per state of a line, are paths, bool, (n,)."""
        out = np.zeros(len(rows), np.int64)
        run, values = self.entries.kernel(write_fitting, "fits")
        run(rows, self.entries.low, self.entries.high, *values, out)
        return out > 0

    def draw(self, window: CountedWindow, last: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Return matches of a line by their numbers among the matches with the same last entry."""
        out = np.zeros((len(last), self.n_states), np.int64)
        own, done = self.entries, 0
        run, values = own.kernel(write_window_counts, "draw")
        while done < len(last):
            checkpoint(done / len(last))
            done = run(
                done, WORK_PER_CALL, window.lows, window.cell, own.low, own.high, *values, window.count,
                last, rank, out,
            )  # fmt: skip
        return out

    def paths(self, last: int, end_states: int, ranks: Sequence[int], count: int) -> list[Path]:
        """Return the matches with the numbers ``ranks`` among the ``count`` matches that end at ``last``.

        ``end_states`` is the mask of their final states.

        """
        own = self.entries
        start, place = int(own.window_start[last]), int(own.place[last])
        if count >= SMALL:
            window = self.window(start, place, count.bit_length() // DIGIT + 1)
        else:
            window = self.window(start, place)
            if self.is_line:
                states = np.arange(self.n_states - 1, -1, -1)
                rows = self.draw(window, np.full(len(ranks), last), np.array(ranks, np.int64))
                return [Path(row[::-1], states) for row in rows]
            digits = np.stack([window.count & _MASK, window.count >> DIGIT], axis=1)
            window = replace(window, count=digits)
        return [self._path(window, last, end_states, rank) for rank in ranks]

    def _path(self, window: CountedWindow, last: int, end_states: int, rank: int) -> Path:
        own, n_digits = self.entries, window.count.shape[1]
        rest = np.array([rank >> DIGIT * n & _MASK for n in range(n_digits)], np.int64)
        if not self._scratch or self._scratch[4].shape[2] != n_digits:
            one = [np.zeros(_FEW_EVENTS, np.int64) for _ in range(5)]
            self._scratch = [*one[:4], np.zeros((_FEW_EVENTS, self.n_states, n_digits), np.int64), one[4]]
        entry, states, _, _, ways, _ = self._scratch
        entry[0], states[0], ways[0] = last, end_states, 0
        for s in range(self.n_states):
            ways[0, s, 0] = end_states >> s & 1
        scratch = np.zeros((2, n_digits), np.int64)
        candidates = np.zeros((3, FEW), np.int64)
        report = np.zeros(5, np.int64)
        report[PHASE] = 1
        run, values = own.kernel(write_descent, "descend")
        while not report[FOUND]:
            checkpoint()
            run(
                WORK_PER_CALL, window.start, window.lows, own.offset, window.cell, own.low, own.high,
                own.latest, *values, window.count, rest, *scratch, *self._scratch, candidates, report,
            )  # fmt: skip
            if report[IS_FULL]:
                self._scratch = [np.concatenate([array, np.zeros_like(array)]) for array in self._scratch]
                report[IS_FULL] = 0
        if report[FOUND] < 0:
            raise ValueError(f"wrong counts: fewer matches end at place {own.place[last]} than they say")
        n = int(report[LEVEL]) + 1
        return Path(self._scratch[0][:n].copy(), self._scratch[5][:n].copy())
