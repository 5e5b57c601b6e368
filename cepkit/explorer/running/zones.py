"""The local time of a time zone, as differences from UTC that a browser can add."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

_HOUR = 3_600_000  # ms
_MOST_STEPS = 10_000  # moments at which the difference is looked up, at most


@lru_cache(maxsize=16)
def offsets_of(zone: str, low: float, high: float) -> tuple[tuple[float, float], ...]:
    """Return the differences of local time from UTC in a range of time."""
    if not zone or not high >= low:
        return ()
    step = max(_HOUR, (high - low) / _MOST_STEPS)
    moments = np.append(np.arange(np.floor(low), high, step), np.ceil(high)).astype(np.int64)
    try:
        offsets = _offsets_at(zone, moments)
    except (KeyError, ValueError, OSError):  # a zone that this computer does not know
        return ()
    made = [(float(low), float(offsets[0]))]
    for k in np.flatnonzero(np.diff(offsets)).tolist():
        change = _first_after(zone, int(moments[k]), int(moments[k + 1]), int(offsets[k]))
        made.append((float(change), float(offsets[k + 1])))
    return tuple(made) if any(offset for _, offset in made) else ()


def _offsets_at(zone: str, moments: np.ndarray) -> np.ndarray:
    """Return the difference from UTC at each of these times, in milliseconds."""
    local = pd.DatetimeIndex(moments.astype("datetime64[ms]")).tz_localize("UTC").tz_convert(zone)
    return local.tz_localize(None).as_unit("ms").asi8 - moments


def _first_after(zone: str, before: int, after: int, offset: int) -> int:
    """Return the first time after ``before``, to a millisecond, at which the difference is not ``offset``."""
    while after - before > 1:
        middle = (before + after) // 2
        if int(_offsets_at(zone, np.array([middle]))[0]) == offset:
            before = middle
        else:
            after = middle
    return after
