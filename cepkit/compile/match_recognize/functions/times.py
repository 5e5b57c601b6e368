"""The functions of times in MATCH_RECOGNIZE: fields, beginnings of units, and differences.

Times are ticks. The functions take Python integers and arrays of int64 alike. Fields, days and longer units
are those of the time zone of the column.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cepkit.events import FLOAT, INTEGER, TIME, ColumnType

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SAME_FIELDS = {"dow": "day_of_week", "doy": "day_of_year", "day_of_month": "day", "week_of_year": "week"}
TIME_FUNCTIONS = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "day_of_week", "day_of_year"}
    | {"epoch", "date_trunc", "date_diff", "timestampdiff", "datediff", *_SAME_FIELDS}
)


def function_of_times(
    function: str, unit: str | None, of: ColumnType
) -> tuple[Callable[..., Any], ColumnType]:
    """Return a function of ticks with the type of its values."""
    if function == "epoch":
        per_second = _PER_SECOND[of.unit or "ns"]
        return lambda ticks: ticks / per_second, ColumnType(FLOAT)
    if function == "date_trunc":
        return partial(_beginning, unit, of), of
    if function in ("date_diff", "timestampdiff"):
        return partial(_whole_units, unit, of), ColumnType(INTEGER)
    if function == "datediff":
        return partial(_crossed_units, unit, of), ColumnType(INTEGER)
    return partial(_field, _SAME_FIELDS.get(function, function), of), ColumnType(INTEGER)


# --- the calendar ------------------------------------------------------------------------------------------
# Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". A year begins in March there.


def _civil(days: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day of a number of days since 1970."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    month = (from_march + 2) % 12 + 1
    return year + era * 400 + 1 * (month <= 2), month, of_year - (153 * from_march + 2) // 5 + 1


def _days(year: Any, month: Any, day: Any) -> Any:
    """Return the days since 1970 of a date."""
    era, of_era = divmod(year - 1 * (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _field(name: str, of: ColumnType, ticks: Any) -> Any:
    per_second = _PER_SECOND[of.unit or "ns"]
    days, of_day = divmod(_local(ticks, of), 86_400 * per_second)
    seconds = of_day // per_second
    if name in ("hour", "minute", "second"):
        return {"hour": seconds // 3600, "minute": seconds // 60 % 60, "second": seconds % 60}[name]
    if name == "day_of_week":  # day 0 was a Thursday
        return (days + 3) % 7 + 1
    if name == "week":  # a week has the year of its Thursday
        days = days - (days + 3) % 7 + 3
    year, month, day = _civil(days)
    since = days - _days(year, 1, 1)
    fields = {"year": year, "month": month, "day": day, "quarter": (month + 2) // 3}
    return (fields | {"day_of_year": since + 1, "week": since // 7 + 1})[name]


def _beginning(unit: str | None, of: ColumnType, ticks: Any) -> Any:
    """Return the first tick of the unit in which a time is."""
    per_second, local = _PER_SECOND[of.unit or "ns"], _local(ticks, of)
    if unit in ("millisecond", "second", "minute", "hour"):
        return ticks - local % _size(unit, per_second)
    days = local // (86_400 * per_second)
    if unit == "week":
        days = days - (days + 3) % 7
    elif unit != "day":
        year, month, _ = _civil(days)
        n = _MONTHS[unit or ""]
        days = _days(year, (month - 1) // n * n + 1, 1)
    return _from_local(days * 86_400 * per_second, of)


def _size(unit: str | None, per_second: int) -> int:
    """Return the ticks of a unit; a clock that does not count milliseconds has one at each tick."""
    return max(1, per_second // 1000) if unit == "millisecond" else _SECONDS[unit or ""] * per_second


def _whole_units(unit: str | None, of: ColumnType, first: Any, last: Any) -> Any:
    """Return how many whole units lie between two times; below 0 if the first one is later."""
    per_second = _PER_SECOND[of.unit or "ns"]
    if unit in ("day", "week", *_MONTHS):
        first, last = _local(first, of), _local(last, of)
    sign = 1 - 2 * (last < first)
    if unit not in _MONTHS:
        if unit == "millisecond" and per_second < 1000:
            return (last - first) * (1000 // per_second)
        return abs(last - first) // _size(unit, per_second) * sign
    swapped = 1 * (last < first)
    first, last = first + (last - first) * swapped, last + (first - last) * swapped
    return _whole_months(first, last, 86_400 * per_second) // _MONTHS[unit] * sign


def _whole_months(first: Any, last: Any, per_day: int) -> Any:
    """Return the whole months up to a later time. The last day of a month ends a month of any later day."""
    (days, rest), (last_days, last_rest) = divmod(first, per_day), divmod(last, per_day)
    (year, month, day), (last_year, last_month, last_day) = _civil(days), _civil(last_days)
    is_end = _civil(last_days + 1)[2] == 1
    day = day + (last_day - day) * (is_end & (day > last_day))
    is_short = (last_day * per_day + last_rest) < (day * per_day + rest)
    return (last_year - year) * 12 + last_month - month - 1 * is_short


def _crossed_units(unit: str | None, of: ColumnType, first: Any, last: Any) -> Any:
    """Return how many units begin after one time, up to another one."""
    return _whole_units(unit, of, _beginning(unit, of, first), _beginning(unit, of, last))


# --- time zones --------------------------------------------------------------------------------------------


def _local(ticks: Any, of: ColumnType) -> Any:
    """Return what a clock in the time zone shows, as ticks."""
    if of.kind != TIME or of.timezone in (None, "UTC"):
        return ticks
    per_second = _PER_SECOND[of.unit or "ns"]
    if not isinstance(ticks, np.ndarray):
        seconds = int(ticks // per_second)
        offset = datetime.fromtimestamp(seconds, _zone(of.timezone or "")).utcoffset()
        return ticks + round((offset.total_seconds() if offset else 0) * per_second)
    import pandas as pd

    moments = pd.DatetimeIndex(ticks.view(f"M8[{of.unit}]")).tz_localize("UTC").tz_convert(of.timezone)
    return moments.tz_localize(None).to_numpy().view(np.int64)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo | None:
    import pandas as pd

    return pd.Timestamp(0, tz=name).tzinfo


def _from_local(local: Any, of: ColumnType) -> Any:
    """Return the ticks when a clock shows a time first, or directly after a time that the clock skips."""
    if of.timezone in (None, "UTC"):
        return local
    if not isinstance(local, np.ndarray):
        return _one_from_local(int(local), of.unit or "ns", of.timezone or "")
    import pandas as pd

    shown = pd.DatetimeIndex(local.view(f"M8[{of.unit}]"))
    first = np.ones(len(shown), bool)
    moments = shown.tz_localize(of.timezone, ambiguous=first, nonexistent="shift_forward")
    return moments.tz_convert("UTC").tz_localize(None).to_numpy().view(np.int64)


@lru_cache(maxsize=4096)
def _one_from_local(local: int, unit: str, zone: str) -> int:
    return int(_from_local(np.array([local], np.int64), ColumnType(TIME, unit, zone))[0])
