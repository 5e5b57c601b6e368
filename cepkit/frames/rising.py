"""Whether the values of a column rise. Clocks do in most frames, and then nobody need sort or search them."""

from __future__ import annotations

import numpy as np

from cepkit.events import EVENTS_PER_COUNT


def is_rising(*keys: np.ndarray) -> bool:
    """Return whether no row is less than the one before. NaN beside another value makes it False."""
    return equals_by_step(*keys) is not None


def equals_by_step(*keys: np.ndarray) -> np.ndarray | None:
    """Return how many rows equal the next one, or None if the rows do not rise. The first key counts first.

    Each number is that of ``EVENTS_PER_COUNT`` rows, and the last row has no next one. What a step looks at
    fits the cache. Rows without order are done after the first step.
    """
    starts = range(0, len(keys[0]) - 1, EVENTS_PER_COUNT)
    n_equal = np.zeros(len(starts), np.int64)
    for step, low in enumerate(starts):
        own = [key[low : low + EVENTS_PER_COUNT + 1] for key in keys]
        n = len(own[0]) - 1
        n_greater = np.count_nonzero(_is_greater(own, False))
        if n_greater < n and not _is_greater(own, True).all():
            return None
        n_equal[step] = n - n_greater
    return n_equal


def _is_greater(keys: list[np.ndarray], or_equal: bool) -> np.ndarray:
    """Return whether each row but the first is greater than the one before."""
    *first, last = keys
    greater = (np.greater_equal if or_equal else np.greater)(last[1:], last[:-1])
    for key in reversed(first):
        later, earlier = key[1:], key[:-1]
        greater = (later > earlier) | ((later == earlier) & greater)
    return greater
