"""The volume-weighted average price of a sliding window per key, on arrays in stream order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError, OrderError
from cepkit.language.expressions.durations import duration_ticks
from cepkit.partition_and_compose.operators.keys import Grouped, group_by_key


def rolling_vwap(
    key: Any, price: Any, size: Any, *, window: int | str | timedelta, ts: Any = None
) -> np.ndarray:
    """Return for each event the volume-weighted average price of its key's window that ends with it.

    The average is ``sum(price * size) / sum(size)``. Events without price or size are ignored.
    `cepkit.pipelines.stages.with_vwap` does the same on Spark.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1
    (finance3).
    Differs: the paper uses it in place of a query with overlapping matches and states no window.
    """
    from cepkit.kernels.partition_and_compose.rolling import slide_by_count, slide_by_time

    by_time = isinstance(window, str | timedelta)
    if not by_time and (isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1):
        raise CepError(f"rolling_vwap: window is {window!r}; expected a positive whole number or a duration")
    if by_time and ts is None:
        raise CepError(f"rolling_vwap: the window {window!r} is a duration and needs a clock: give ts")
    groups = group_by_key(key)
    prices, sizes = (
        np.asarray(pd.Series(x).to_numpy(np.float64, na_value=np.nan))[groups.event_of_row]
        for x in (price, size)
    )
    counts = ~(np.isnan(prices) | np.isnan(sizes))
    weights = np.where(counts, sizes, 0.0)
    values = np.where(counts, prices, 0.0) * weights
    ratio = np.empty(len(values))
    if by_time:
        ticks, window_ticks = _clock(ts, window, groups)
        slide_by_time(groups.first_row_of_partition, ticks, values, weights, window_ticks, ratio)
    else:
        slide_by_count(groups.first_row_of_partition, values, weights, int(window), ratio)
    vwap = np.empty_like(ratio)
    vwap[groups.event_of_row] = ratio
    return vwap


def _clock(ts: Any, window: str | timedelta, groups: Grouped) -> tuple[np.ndarray, int]:
    """Return the times of the grouped rows and the window as ticks of the same unit."""
    times = pd.DatetimeIndex(pd.Series(ts).array)
    if times.hasnans:
        raise OrderError(
            f"rolling_vwap: ts has {int(times.isna().sum()):,} missing values; drop these events"
        )
    window_ticks = duration_ticks(window, times.unit)
    if window_ticks < 1:
        raise CepError(f"rolling_vwap: window is {window!r}; expected a positive duration")
    ticks = times.asi8[groups.event_of_row]
    falls = ticks[1:] < ticks[:-1]
    falls[groups.first_row_of_partition[1:-1] - 1] = False
    if falls.any():
        raise OrderError(
            f"rolling_vwap: ts falls within a key {int(falls.sum()):,} times; sort the events by ts"
        )
    return ticks, window_ticks
