"""Uniform samples of the matches of a line of states, with one counted window for many last events."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from cepkit.engines.chain_numbers import SMALL, CountedWindow, PathFinder

_SPAN = 4  # a group's windows begin within this fraction of the first one's length
_LEAST_SHARE = (
    8  # at least one in so many matches of the group's window must be in that of its own last event
)


class LineSample:
    """Draws matches for given last events, all of an event's matches equally likely.

    Notes
    -----
    Last events close to each other share a window that begins where the first of theirs does: what is drawn
    from it and begins too early for its last event is drawn again. So a sample is as exact, and a window is
    counted per group of last events instead of per event.
    """

    def __init__(self, finder: PathFinder, rng: np.random.Generator):
        self.finder, self.rng, self.entries = finder, rng, finder.entries

    def rows(self, last: np.ndarray, n_wanted: np.ndarray, count: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the entries of ``n_wanted`` different matches for each last entry, in no order.

        Parameters
        ----------
        last : ndarray of int64, shape (n,)
            Different entries where matches end, rising.
        n_wanted, count : ndarray of int64, shape (n,)
            How many are drawn, and of how many.
        """
        start, place = self.entries.window_start[last], self.entries.place[last]
        begin = 0
        for m in range(1, len(last) + 1):
            is_near = m < len(last) and start[m] < place[begin]
            if not (is_near and _SPAN * (start[m] - start[begin]) <= place[begin] - start[begin]):
                group = slice(begin, m)
                yield from self._group(last[group], n_wanted[group], count[group])
                begin = m

    def _group(self, last: np.ndarray, n_wanted: np.ndarray, count: np.ndarray) -> Iterator[np.ndarray]:
        finder, own = self.finder, self.entries
        start, place = int(own.window_start[last[0]]), int(own.place[last[-1]])
        lows, highs = own.window(start, place)
        shared = (2 * n_wanted <= count) & (len(last) > 1)
        # No count in the window can be greater than this product; beyond, remainders would pass for counts.
        shared &= prod((highs - lows)[:-1].tolist()) < SMALL
        if shared.any():
            window = finder.window(start, place)
            n_in_window = np.full(len(last), -1)
            finder.drawn(window, last, n_in_window)
            shared &= n_in_window // _LEAST_SHARE <= count
            yield from self._drawn(window, last[shared], n_wanted[shared], n_in_window[shared])
        for m in np.flatnonzero(~shared):
            window = finder.window(int(own.window_start[last[m]]), int(own.place[last[m]]))
            ranks = self.rng.choice(count[m], n_wanted[m], replace=False, shuffle=False)
            yield finder.drawn(window, np.full(len(ranks), last[m]), ranks)

    def _drawn(
        self, window: CountedWindow, last: np.ndarray, n_wanted: np.ndarray, n_in_window: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yield matches that begin in the window of their own last event, of each as many as wanted."""
        place, window_start = self.entries.place, self.entries.window_start
        missing = n_wanted.copy()
        seen: set[tuple[int, int]] = set()
        while missing.any():
            each = np.repeat(np.arange(len(last)), missing)
            ranks = self.rng.integers(0, n_in_window[each])
            rows = self.finder.drawn(window, last[each], ranks)
            is_new = place[rows[:, 0]] >= window_start[rows[:, -1]]
            for m in np.flatnonzero(is_new).tolist():
                drawn = int(each[m]), int(ranks[m])
                is_new[m] = drawn not in seen
                seen.add(drawn)
            yield rows[is_new]
            missing -= np.bincount(each[is_new], minlength=len(last))
