"""Attributes of a sliding window of sensor events: counts, spans, entropy."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check_count
from cepkit.errors import column_not_found

WINDOW = 30
DAY_S = 86_400


def window_attributes(
    events: pd.DataFrame, *, clock: str = "ts", area: str = "sensor", window: int = WINDOW
) -> pd.DataFrame:
    """Return attributes of the window that ends with each event.

    Parameters
    ----------
    events : pandas.DataFrame
        Events of one home, sorted by time.
    clock : str
        Column of times, datetime64.
    area : str
        Column of the places or sensors to count, without missing values. A categorical column gives one
        result column per category; any other column gives one per value that occurs, sorted.
    window : int
        Number of events in a window, at least 2. The first windows are shorter.

    Returns
    -------
    pandas.DataFrame
        One row per event, with the same index. Columns, with their names in the UCI data set in brackets:

        * ``last_event_hour`` [lastSensorEventHours] int16, ``last_event_seconds`` [lastSensorEventSeconds]
          float64, since midnight, ``day_of_week`` [lastSensorDayOfWeek] int16, Monday is 0;
        * ``window_duration`` [windowDuration], ``since_last_event`` [timeSinceLastSensorEvent]: float64,
          seconds;
        * ``prev_dominant1``, ``prev_dominant2`` [prevDominantSensor1, 2] categorical: the most frequent area
          in the windows that ended ``window`` and twice ``window`` events ago; missing before that;
        * ``complexity`` [complexity] float64: entropy of the areas, in bits;
        * ``activity_change`` [activityChange] float64, from 0 to 1: the share of the window's duration that
          passed until its middle event, number ``n // 2`` of n counted from 0; 0 for a window without
          duration. Above 0.5, events are more frequent in the second half;
        * ``area_transitions`` [areaTransitions] int16: successive events with different areas;
        * ``num_distinct_sensors`` [numDistinctSensors] int16: areas in the window;
        * ``count_AREA`` [sensorCount-AREA] int16: events of the area in the window;
        * ``elapsed_AREA`` [sensorElTime-AREA] float64: seconds since the area's last event, at most 86,400,
          which is also the value if it never had one.

    Raises
    ------
    ColumnNotFoundError
    CepError
        If ``window`` is below 2.

    Notes
    -----
    O(events x areas).

    Source: UCI Machine Learning Repository, "Human Activity Recognition from Continuous Ambient Sensor
    Data", 2019, description of the attributes.
    Differs: counts are counts, not weighted by age; times are exact to the microsecond, not whole seconds;
    windows slide over midnight. The number of distinct sensors, always 0 in the data set, is counted.

    Examples
    --------
    >>> events = pd.DataFrame({"ts": pd.to_datetime([0, 3, 4], unit="s"), "sensor": ["A", "B", "B"]})
    >>> window_attributes(events)[["activity_change", "count_B", "elapsed_A"]]
       activity_change  count_B  elapsed_A
    0             0.00        0        0.0
    1             1.00        1        3.0
    2             0.75        2        4.0
    """
    check_count("window_attributes: window", window, 2)
    for role, name in (("clock", clock), ("area", area)):
        if name not in events.columns:
            raise column_not_found(role, name, events.columns)
    values = events[area].astype("category")
    names = [str(name) for name in values.cat.categories]
    code = values.cat.codes.to_numpy()
    us = events[clock].to_numpy().astype("datetime64[us]").astype(np.int64)
    n = len(us)
    end = np.arange(n)
    start = np.maximum(0, end - window + 1)
    size = end - start + 1

    is_area = code[:, None] == np.arange(len(names))
    until = np.zeros((n + 1, len(names)), dtype=np.int64)
    np.cumsum(is_area, axis=0, out=until[1:])
    count = until[end + 1] - until[start]
    share = count / size[:, None]
    entropy = -(share * np.log2(np.where(share > 0, share, 1.0))).sum(axis=1)
    duration = us - us[start]
    half = us[start + size // 2] - us[start]
    changes = np.zeros(n, dtype=np.int64)
    np.cumsum(code[1:] != code[:-1], out=changes[1:])
    never = np.iinfo(np.int64).min // 2
    seen = np.maximum.accumulate(np.where(is_area, us[:, None], never), axis=0)
    elapsed = np.minimum((us[:, None] - seen) / 1e6, DAY_S)
    dominant = pd.Series(count.argmax(axis=1) if names else [], dtype=np.int64)
    day_us = us % (DAY_S * 1_000_000)
    return pd.DataFrame(
        {
            "last_event_hour": (day_us // 3_600_000_000).astype(np.int16),
            "last_event_seconds": day_us / 1e6,
            "day_of_week": ((us // (DAY_S * 1_000_000) + 3) % 7).astype(np.int16),  # 1970 began on a Thursday
            "window_duration": duration / 1e6,
            "since_last_event": np.diff(us, prepend=us[:1]) / 1e6,
            "prev_dominant1": pd.Categorical.from_codes(dominant.shift(window, fill_value=-1), names),
            "prev_dominant2": pd.Categorical.from_codes(dominant.shift(2 * window, fill_value=-1), names),
            "complexity": np.maximum(0.0, entropy),
            "activity_change": np.where(duration > 0, half / np.maximum(duration, 1), 0.0),
            "area_transitions": (changes - changes[start]).astype(np.int16),
            "num_distinct_sensors": (count > 0).sum(axis=1).astype(np.int16),
            **{f"count_{name}": count[:, a].astype(np.int16) for a, name in enumerate(names)},
            **{f"elapsed_{name}": elapsed[:, a] for a, name in enumerate(names)},
        },
        index=events.index,
    )
