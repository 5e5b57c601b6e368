"""Minimum and maximum of tumbling windows per key, on arrays in stream order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.partition_and_compose.operators.keys import key_codes


class Windows(NamedTuple):
    """Full windows in the order of their last event."""

    last_event: np.ndarray  # int64, (n_windows,)
    mn: np.ndarray  # type of the values, (n_windows,)
    mx: np.ndarray


def tumbling_minmax(key: Any, value: Any, k: int) -> Windows:
    """Return the minimum and maximum of every ``k`` consecutive events of a key.

    `cepkit.pipelines.stages.minmax` does the same on Spark.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1
    (finance4).
    """
    from cepkit.kernels.partition_and_compose.rolling import tumble

    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise CepError(f"tumbling_minmax: k is {k!r}; expected a positive whole number")
    codes, n_partitions = key_codes(key)
    values = pd.Series(value)
    floats = values.hasnans or not pd.api.types.is_integer_dtype(values.dtype)
    values = values.to_numpy(np.float64, na_value=np.nan) if floats else values.to_numpy(np.int64)
    room = len(values) // int(k)
    last, (least, greatest) = np.empty(room, np.int64), np.empty((2, room), values.dtype)
    extremes = np.zeros((2, n_partitions), values.dtype)
    filled = np.zeros(n_partitions, np.int64)
    n = tumble(codes, values, int(k), filled, extremes, last, least, greatest)
    return Windows(last[:n], least[:n], greatest[:n])
