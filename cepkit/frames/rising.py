"""Whether the values of a column rise. Clocks do in most frames, and then nobody need sort or search them."""

from __future__ import annotations

import numpy as np

_VALUES_PER_STEP = 1 << 15  # their result fits the cache, and values without order are done after one step


def is_rising(*keys: np.ndarray, strictly: bool = False) -> bool:
    """Return whether no row is less than the one before, or ``strictly`` whether each is greater.

    The first key counts first. NaN beside another value makes it False.

    Examples
    --------
    >>> is_rising(np.array([1, 2, 2])), is_rising(np.array([1, 2, 2]), strictly=True)
    (True, False)
    >>> is_rising(np.array([1, 2, 2]), np.array([5, 3, 4])), is_rising(np.array([2, 2]), np.array([4, 3]))
    (True, False)
    """
    return all(
        _are_rising([key[low : low + _VALUES_PER_STEP + 1] for key in keys], strictly)
        for low in range(0, len(keys[0]) - 1, _VALUES_PER_STEP)
    )


def _are_rising(keys: list[np.ndarray], strictly: bool) -> bool:
    *first, last = keys
    rises = (np.greater if strictly else np.greater_equal)(last[1:], last[:-1])
    for key in reversed(first):
        later, earlier = key[1:], key[:-1]
        rises = (later > earlier) | ((later == earlier) & rises)
    return bool(rises.all())
