"""Finds matches by their numbers, and draws them uniformly."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from cepkit.compile.counting_ranking import (
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
from cepkit.engines.counting.layout import WORK_PER_CALL, Entries, Layout
from cepkit.events import sums_before
from cepkit.progress import checkpoint
from cepkit.values import dataclass, replace

# Finds matches by their numbers: first where a match ends, then its path.

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
        """Return the numbering for the numbers of matches by place, and the places where matches end."""
        if isinstance(counts, np.ndarray):
            end_counts = counts[place_of_end]
            if end_counts.dtype != object and end_counts.sum(dtype=np.float64) < SMALL:
                return cls(sums_before(end_counts.astype(np.int64)))
            return cls([0, *accumulate(map(int, end_counts.tolist()))])
        return cls([0, *accumulate(int(counts[place]) for place in place_of_end.tolist())])

    @property
    def total(self) -> int:
        """The number of matches."""
        return int(self.first_of_end[-1])

    def count(self, end: int) -> int:
        """Return the number of matches with one end."""
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

    def window(
        self, start: int, last: int, n_digits: int = 0, bounds: tuple[np.ndarray, np.ndarray] | None = None
    ) -> CountedWindow:
        """Return the counts of the paths that begin at place ``start`` or later and end before ``last``."""
        # ``bounds`` is what `Entries.window` returns for these places.
        # Counts are exact modulo 2^64, or modulo 2^(31 n_digits). If fewer matches than the modulus begin at
        # ``start`` or later and end at ``last``, the counts of all their parts are exact.
        if self._known is not None and self._known[0] == (start, last, n_digits):
            return self._known[1]
        entries = self.entries
        lows, highs = bounds or entries.window(start, last)
        sizes = highs - lows
        cell, n_cells = np.cumsum(sizes) - sizes - lows, int(sizes.sum())
        report = np.zeros(3, np.int64)
        report[ENTRY] = -1
        table = np.zeros((n_cells, n_digits) if n_digits else n_cells, np.int64)
        outputs = (np.zeros(n_digits, np.int64), table, report) if n_digits else (table, report)
        write, name = (write_window_digits, "digits") if n_digits else (write_window_counts, "counts")
        run, values = entries.kernel(write, name)
        while not report[COUNTED]:
            checkpoint()
            run(
                WORK_PER_CALL, start, lows, highs, entries.offset, cell, entries.low, entries.high,
                entries.latest, *values, *outputs,
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
        entries, done = self.entries, 0
        run, values = entries.kernel(write_window_counts, "draw")
        while done < len(last):
            checkpoint(done / len(last))
            done = run(
                done, WORK_PER_CALL, window.lows, window.cell, entries.low, entries.high, *values,
                window.count, last, rank, out,
            )  # fmt: skip
        return out

    def paths(self, last: int, end_states: int, ranks: Sequence[int], count: int) -> list[Path]:
        """Return the matches with the numbers ``ranks`` among the ``count`` matches that end at ``last``."""
        # ``end_states`` is the mask of their final states.
        entries = self.entries
        start, place = int(entries.window_start[last]), int(entries.place[last])
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
        """Return the path of the match with this rank among those that end with `last` in a window."""
        entries, n_digits = self.entries, window.count.shape[1]
        rest = np.array([rank >> DIGIT * n & _MASK for n in range(n_digits)], np.int64)
        if not self._scratch or self._scratch[4].shape[2] != n_digits:
            flat_arrays = [np.zeros(_FEW_EVENTS, np.int64) for _ in range(5)]
            self._scratch = [
                *flat_arrays[:4], np.zeros((_FEW_EVENTS, self.n_states, n_digits), np.int64), flat_arrays[4],
            ]  # fmt: skip
        entry, states, _, _, ways, _ = self._scratch
        entry[0], states[0], ways[0] = last, end_states, 0
        for s in range(self.n_states):
            ways[0, s, 0] = end_states >> s & 1
        scratch = np.zeros((2, n_digits), np.int64)
        candidates = np.zeros((3, FEW), np.int64)
        report = np.zeros(5, np.int64)
        report[PHASE] = 1
        run, values = entries.kernel(write_descent, "descend")
        while not report[FOUND]:
            checkpoint()
            run(
                WORK_PER_CALL, window.start, window.lows, entries.offset, window.cell, entries.low,
                entries.high, entries.latest, *values, window.count, rest, *scratch, *self._scratch,
                candidates, report,
            )  # fmt: skip
            if report[IS_FULL]:
                self._scratch = [np.concatenate([array, np.zeros_like(array)]) for array in self._scratch]
                report[IS_FULL] = 0
        if report[FOUND] < 0:
            raise ValueError(f"wrong counts: fewer matches end at place {entries.place[last]} than they say")
        n = int(report[LEVEL]) + 1
        return Path(self._scratch[0][:n].copy(), self._scratch[5][:n].copy())


# Uniform samples of the matches of a line of states: by trial if this is quick, otherwise by counting.

_SPAN = 4  # the windows of a group begin within a quarter of the first one's length
_LEAST_SHARE = 8  # at least 1 in 8 matches of a group's window is in the window of its last event
_MOST_TRIALS = 256  # trials are used if a match takes at most this many
_FEW_PAIRS = 1 << 26  # up to this many pairs of events are counted, by kernels that others need, too
_TRIALS_PER_CALL = 1 << 16


class LineSample:
    """Draws matches for given last events; all matches of an event are equally likely."""

    # Last events close to each other share a counted window, which begins with the first of their windows. A
    # match from it that begins too early for its last event is drawn again, so that the sample stays exactly
    # uniform.

    def __init__(self, finder: PathFinder, rng: np.random.Generator):
        self.finder, self.rng, self.entries = finder, rng, finder.entries

    def rows(self, last: np.ndarray, n_wanted: np.ndarray, count: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the entries of ``n_wanted`` different matches for each last entry, unordered."""
        lows, sizes = self._windows(last)
        n_trials = sizes.prod(axis=1, dtype=np.float64) / count
        n_pairs = (sizes[:, 1:] * sizes[:, :-1]).sum(dtype=np.float64)
        by_trial = (n_trials <= _MOST_TRIALS) & (2 * n_wanted <= count) & (n_pairs > _FEW_PAIRS)
        if by_trial.any():
            parts = (array[by_trial] for array in (last, n_wanted, n_trials, lows, sizes))
            yield from self._draw_by_trial(*parts)
            last, n_wanted, count = last[~by_trial], n_wanted[~by_trial], count[~by_trial]
        start, place = self.entries.window_start[last], self.entries.place[last]
        begin = 0
        for m in range(1, len(last) + 1):
            checkpoint(m / len(last))
            is_near = m < len(last) and start[m] < place[begin]
            if not (is_near and _SPAN * (start[m] - start[begin]) <= place[begin] - start[begin]):
                group = slice(begin, m)
                yield from self._draw_group(last[group], n_wanted[group], count[group])
                begin = m

    def n_tuples(self, last: np.ndarray) -> float:
        """Return how many tuples with an event of each state end at these entries, within their windows."""
        return self._windows(last)[1].prod(axis=1, dtype=np.float64).sum()

    def _windows(self, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first entry of each other state in the window of each last entry, and how many exist."""
        entries, lows, sizes = self.entries, [], []
        for first, end in zip(
            entries.first_of_state[:-1].tolist(), entries.end_of_state[:-1].tolist(), strict=True
        ):
            place = entries.place[first:end]
            low = np.searchsorted(place, entries.window_start[last])
            lows.append(first + low)
            sizes.append(np.searchsorted(place, entries.place[last]) - low)
        return np.stack(lows, axis=1), np.stack(sizes, axis=1)

    def _draw_by_trial(
        self, last: np.ndarray, n_wanted: np.ndarray, n_trials: np.ndarray, lows: np.ndarray,
        sizes: np.ndarray,
    ) -> Iterator[np.ndarray]:  # fmt: skip
        """Draw rows of entries until enough of them are matches, and yield these."""
        missing = n_wanted.copy()
        seen: set[bytes] = set()
        while missing.any():
            checkpoint()
            n_each = np.where(missing > 0, np.ceil((missing + 1) * n_trials), 0).astype(np.int64)
            each = np.repeat(np.arange(len(last)), n_each)[:_TRIALS_PER_CALL]
            drawn = lows[each] + self.rng.integers(0, sizes[each])
            rows = np.concatenate([drawn, last[each, None]], axis=1)
            kept = []
            for trial in np.flatnonzero(self.finder.are_paths(rows)).tolist():
                row = rows[trial].tobytes()
                if missing[each[trial]] > 0 and row not in seen:
                    seen.add(row)
                    missing[each[trial]] -= 1
                    kept.append(trial)
            yield rows[kept]

    def _draw_group(self, last: np.ndarray, n_wanted: np.ndarray, count: np.ndarray) -> Iterator[np.ndarray]:
        """Yield matches of last events that are close to each other, from one counted window."""
        finder, entries = self.finder, self.entries
        start, place = int(entries.window_start[last[0]]), int(entries.place[last[-1]])
        shared = (2 * n_wanted <= count) & (len(last) > 1)
        if shared.any():
            # No count in the window exceeds this product. Counts that overflow would look like small counts.
            lows, highs = entries.window(start, place)
            shared &= prod((highs - lows)[:-1].tolist()) < SMALL
        if shared.any():
            window = finder.window(start, place, bounds=(lows, highs))
            n_in_window = np.full(len(last), -1)
            finder.draw(window, last, n_in_window)
            shared &= n_in_window // _LEAST_SHARE <= count
            yield from self._draw_in_window(window, last[shared], n_wanted[shared], n_in_window[shared])
        for m in np.flatnonzero(~shared):
            checkpoint()
            window = finder.window(int(entries.window_start[last[m]]), int(entries.place[last[m]]))
            ranks = self.rng.choice(count[m], n_wanted[m], replace=False, shuffle=False)
            yield finder.draw(window, np.full(len(ranks), last[m]), ranks)

    def _draw_in_window(
        self, window: CountedWindow, last: np.ndarray, n_wanted: np.ndarray, n_in_window: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yield ``n_wanted`` matches of each last event, all within its own window."""
        place, window_start = self.entries.place, self.entries.window_start
        missing = n_wanted.copy()
        seen: set[tuple[int, int]] = set()
        while missing.any():
            checkpoint()
            each = np.repeat(np.arange(len(last)), missing)
            ranks = self.rng.integers(0, n_in_window[each])  # a random match of the window
            rows = self.finder.draw(window, last[each], ranks)
            is_new = place[rows[:, 0]] >= window_start[rows[:, -1]]
            for m in np.flatnonzero(is_new).tolist():
                drawn = int(each[m]), int(ranks[m])
                is_new[m] = drawn not in seen
                seen.add(drawn)
            yield rows[is_new]
            missing -= np.bincount(each[is_new], minlength=len(last))
