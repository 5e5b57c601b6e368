"""Whether the values of a column rise. Clocks do in most frames, and then nobody need sort or search them."""

from __future__ import annotations

import numpy as np

_VALUES_PER_STEP = 1 << 15  # their result fits the cache, and values without order are done after one step


def is_rising(values: np.ndarray, *, strictly: bool = False) -> bool:
    """Return whether no value is less than the one before, or ``strictly`` whether each is greater.

    NaN beside another value makes it False.

    Examples
    --------
    >>> is_rising(np.array([1, 2, 2])), is_rising(np.array([1, 2, 2]), strictly=True)
    (True, False)
    """
    compare, later, earlier = np.greater if strictly else np.greater_equal, values[1:], values[:-1]
    return all(
        bool(compare(later[low : low + _VALUES_PER_STEP], earlier[low : low + _VALUES_PER_STEP]).all())
        for low in range(0, len(later), _VALUES_PER_STEP)
    )
