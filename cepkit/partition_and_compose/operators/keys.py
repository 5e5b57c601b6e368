"""Group events by key; the module works on arrays and knows no frames."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Grouped(NamedTuple):
    """Events sorted by partition, then in stream order."""

    event_of_row: np.ndarray  # int64, (n_events,): the event in each row
    first_row_of_partition: np.ndarray  # int64, (n_partitions + 1,)


def key_codes(key: Any) -> tuple[np.ndarray, int]:
    """Return a code from 0 for the key of each event, and the number of keys; null is a key, too."""
    codes, found = pd.factorize(pd.Series(key), use_na_sentinel=False)
    return codes, len(found)


def group_by_key(key: Any) -> Grouped:
    """Return the events grouped by key, keys in the order of their first event. O(n log n)."""
    codes, n_partitions = key_codes(key)
    first_row = np.zeros(n_partitions + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=n_partitions), out=first_row[1:])
    return Grouped(np.argsort(codes, kind="stable"), first_row)
