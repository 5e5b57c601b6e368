"""Uniform samples of the matches of a line of states: by trial if this is quick, otherwise by counting."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from cepkit.engines.counting.ranking import SMALL, CountedWindow, PathFinder
from cepkit.progress import checkpoint

_SPAN = 4  # the windows of a group begin within a quarter of the first one's length
_LEAST_SHARE = 8  # at least 1 in 8 matches of a group's window is in the window of its last event
_MOST_TRIALS = 256  # trials are used if a match takes at most this many
_FEW_PAIRS = 1 << 26  # up to this many pairs of events are counted, by kernels that others need, too
_TRIALS_PER_CALL = 1 << 16


class LineSample:
    """Draws matches for given last events; all matches of an event are equally likely.

    Last events close to each other share a counted window, which begins with the first of their windows. A
    match from it that begins too early for its last event is drawn again, so that the sample stays exactly
    uniform.
    """

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

    def _windows(self, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first entry of each other state in the window of each last entry, and how many exist."""
        own, lows, sizes = self.entries, [], []
        for first, end in zip(own.first_of_state[:-1].tolist(), own.end_of_state[:-1].tolist(), strict=True):
            place = own.place[first:end]
            low = np.searchsorted(place, own.window_start[last])
            lows.append(first + low)
            sizes.append(np.searchsorted(place, own.place[last]) - low)
        return np.stack(lows, axis=1), np.stack(sizes, axis=1)

    def _draw_by_trial(
        self,
        last: np.ndarray,
        n_wanted: np.ndarray,
        n_trials: np.ndarray,
        lows: np.ndarray,
        sizes: np.ndarray,
    ) -> Iterator[np.ndarray]:
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
        finder, own = self.finder, self.entries
        start, place = int(own.window_start[last[0]]), int(own.place[last[-1]])
        lows, highs = own.window(start, place)
        shared = (2 * n_wanted <= count) & (len(last) > 1)
        # No count in the window exceeds this product. Counts that overflow would look like small counts.
        shared &= prod((highs - lows)[:-1].tolist()) < SMALL
        if shared.any():
            window = finder.window(start, place)
            n_in_window = np.full(len(last), -1)
            finder.draw(window, last, n_in_window)
            shared &= n_in_window // _LEAST_SHARE <= count
            yield from self._draw_in_window(window, last[shared], n_wanted[shared], n_in_window[shared])
        for m in np.flatnonzero(~shared):
            checkpoint()
            window = finder.window(int(own.window_start[last[m]]), int(own.place[last[m]]))
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
            ranks = self.rng.integers(0, n_in_window[each])
            rows = self.finder.draw(window, last[each], ranks)
            is_new = place[rows[:, 0]] >= window_start[rows[:, -1]]
            for m in np.flatnonzero(is_new).tolist():
                drawn = int(each[m]), int(ranks[m])
                is_new[m] = drawn not in seen
                seen.add(drawn)
            yield rows[is_new]
            missing -= np.bincount(each[is_new], minlength=len(last))
