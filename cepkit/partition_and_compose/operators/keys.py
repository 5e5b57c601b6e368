"""Events of a key put together and back; it knows arrays, no frames."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Grouped(NamedTuple):
    """The events of every partition side by side, each in stream order."""

    event_of_row: np.ndarray  # int64, (n_events,): the event that stands at this row
    first_row_of_partition: np.ndarray  # int64, (n_partitions + 1,)


def key_codes(key: Any) -> tuple[np.ndarray, int]:
    """Return a number from 0 on per event, equal for equal keys, and how many there are; null is a key too.

    Examples
    --------
    >>> key_codes(["b", "a", None, "b"])
    (array([0, 1, 2, 0]), 3)
    """
    codes, found = pd.factorize(pd.Series(key), use_na_sentinel=False)
    return codes, len(found)


def group_by_key(key: Any) -> Grouped:
    """Return the events grouped by key, in the order in which the keys first occur. O(n log n)."""
    codes, n_partitions = key_codes(key)
    first_row = np.zeros(n_partitions + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=n_partitions), out=first_row[1:])
    return Grouped(np.argsort(codes, kind="stable"), first_row)
