"""Times as ticks: their fields, the beginnings of units, differences, later times, texts and zones."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cepkit.compile.shared.operations import moment_of, nanoseconds_of
from cepkit.errors import PredicateError
from cepkit.events import BOOLEAN, FLOAT, INTEGER, NULL_INTEGER, TIME, ColumnType
from cepkit.language.expressions.vocabulary import VOCABULARY

# The functions take Python integers and arrays of int64 alike. Fields, days and longer units are those of the
# time zone of the column.

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_CALENDAR = (-62_135_510_400, 253_402_214_400)  # seconds: 0001-01-02 and 9999-12-31
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
FIELDS_OF_TIMES = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "day_of_week", "weekday",
    "day_of_year", "is_weekend",
)  # fmt: skip
# The functions of times and units that have whole arrays, by all their names.
TIME_FUNCTIONS = frozenset(
    name
    for name, function in VOCABULARY.items()
    if function.name in (*FIELDS_OF_TIMES[:-1], "epoch", "date_trunc", "date_diff", "datediff")
)


def function_of_times(name: str, unit: str | None, of: ColumnType) -> tuple[Callable[..., Any], ColumnType]:
    """Return a function of ticks and the type of its values; ``unit`` is its unit of time, if it has one."""
    function = VOCABULARY[name].name
    if function == "epoch":
        per_second = _PER_SECOND[of.unit or "ns"]
        return lambda ticks: ticks / per_second, ColumnType(FLOAT)
    if function == "date_trunc":
        return partial(beginning, unit, of), of
    if name == "timestampdiff" or function == "date_diff":
        return partial(_whole_units, unit, of), ColumnType(INTEGER)
    if function == "datediff":
        start, units = partial(beginning, unit, of), partial(_whole_units, unit, of)
        return lambda first, last: units(start(first), start(last)), ColumnType(INTEGER)
    return partial(_field, function, of), ColumnType(BOOLEAN if function == "is_weekend" else INTEGER)


# --- forms of times, in the signs of several languages

_ORACLE = {
    "YYYY": "%Y", "YY": "%y", "MONTH": "%B", "MON": "%b", "MM": "%m", "DDD": "%j", "DD": "%d", "DAY": "%A",
    "DY": "%a", "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "FF3": "%3f", "FF6": "%f",
    "FF": "%f", "AM": "%p", "PM": "%p", "IYYY": "%G", "IW": "%V",
}  # fmt: skip
_JAVA = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m", "dd": "%d", "d": "%-d",
    "DDD": "%j", "EEEE": "%A", "EEE": "%a", "E": "%a", "HH": "%H", "H": "%-H", "hh": "%I", "mm": "%M",
    "ss": "%S", "SSSSSS": "%f", "SSS": "%3f", "a": "%p",
}  # fmt: skip
_MYSQL = {
    "%M": "%B", "%c": "%-m", "%e": "%-d", "%W": "%A", "%k": "%-H", "%h": "%I", "%i": "%M", "%s": "%S",
    "%T": "%H:%M:%S", "%v": "%V",
    **{sign: sign for sign in ("%Y", "%y", "%b", "%m", "%d", "%j", "%a", "%H", "%I", "%S", "%f", "%p", "%%")},
}  # fmt: skip


@lru_cache(maxsize=256)
def directives_of(form: str, *, is_java: bool = False) -> str:
    """Return a form of times of Oracle and Snowflake, of Java, or of MySQL and Trino for ``strftime``."""
    # Signs with % are those of MySQL. Others are those of Java if ``MM`` and ``mm`` differ, else of Oracle.
    if "%" in form:
        table, ignores_case = _MYSQL, False
    elif is_java or ("mm" in form and ("MM" in form or "HH:" in form)):
        table, ignores_case = _JAVA, False
    else:
        table, ignores_case = _ORACLE, True
    signs = "|".join(sorted(table, key=len, reverse=True))
    pattern = rf"""["'](?P<quoted>[^"']*)["']|(?P<sign>{signs})|(?P<other>%.|[A-Za-z])|(?P<text>.)"""
    parts = re.compile(pattern, re.IGNORECASE if ignores_case else 0)
    written = []
    for part in parts.finditer(form):
        if part["sign"] is not None:
            sign = table[part["sign"].upper() if ignores_case else part["sign"]]
            is_shouted = ignores_case and sign in ("%a", "%A", "%b", "%B") and part["sign"].isupper()
            written.append(sign.replace("%", "%^") if is_shouted else sign)
        elif part["other"] is not None and part["other"] != "T":
            raise PredicateError(
                f"{form!r} is no form of a time: {part['other']!r} has no meaning; write it as "
                "'YYYY-MM-DD HH24:MI:SS', 'yyyy-MM-dd HH:mm:ss' or '%Y-%m-%d %H:%i:%s'"
            )
        else:
            written.append((part["quoted"] or part["text"] or part["other"] or "").replace("%", "%%"))
    return "".join(written)


def time_as_text(of: ColumnType, directives: str, ticks: int) -> str:
    """Return a time in ticks as a text in the form that ``directives`` of strftime say."""
    per_second = _PER_SECOND[of.unit or "ns"]
    moment = datetime(1970, 1, 1) + timedelta(microseconds=int(_local(ticks, of)) * 10**6 // per_second)
    return moment.strftime(directives.replace("%3f", f"{moment.microsecond // 1000:03}"))


def time_of_text(directives: str | None, text: str) -> int:
    """Return a text as a time in microseconds."""
    if directives is None:
        try:
            return nanoseconds_of(moment_of(text, None, "")) // 1000
        except ValueError:
            raise ValueError(text) from None
    return (
        datetime.strptime(text, directives.replace("%^", "%").replace("%-", "%")) - datetime(1970, 1, 1)
    ) // timedelta(microseconds=1)


def day_of_text(directives: str | None, text: str) -> int:
    """Return the day that a text says, as a time in microseconds."""
    ticks = time_of_text(directives, text)
    return ticks - ticks % (86_400 * 10**6)


def moved(unit: str | None, of: ColumnType, n: Any, ticks: Any) -> Any:
    """Return a time ``n`` units later, as clocks show it for days and longer units."""
    per_second = _PER_SECOND[of.unit or "ns"]
    if unit in ("millisecond", "second", "minute", "hour"):
        return ticks + n * _size(unit, per_second)
    days, of_day = divmod(_local(ticks, of), 86_400 * per_second)
    if unit in ("day", "week"):
        days = days + n * (7 if unit == "week" else 1)
    else:
        year, month, day = _civil(days)
        is_last = _civil(days + 1)[2] == 1
        months = year * 12 + month - 1 + n * _MONTHS[unit or ""]
        first, after = (_days(m // 12, m % 12 + 1, 1) for m in (months, months + 1))
        late = is_last | (day > after - first)
        days = first + (day - 1) + (after - first - day) * (1 * late)
    return _from_local(days * 86_400 * per_second + of_day, of)


def all_moved(unit: str | None, of: ColumnType, n: Any, ticks: Any) -> Any:
    """Return `moved` of arrays; raise if some rows need more than 64 bits, or have no whole ``n``."""
    per_second, counts = _PER_SECOND[of.unit or "ns"], np.asarray(n)
    if counts.dtype.kind == "f" and not np.all(counts == np.floor(counts)):
        raise ValueError("numbers with digits after the point count no units")
    seconds = _MONTHS[unit] * 31 * 86_400 if unit in _MONTHS else _SECONDS.get(unit or "", 1)
    farthest = [np.abs(np.asarray(each, np.float64)).max(initial=0) for each in (counts, ticks)]
    if not farthest[0] * seconds * per_second + farthest[1] < 2.0**62:
        raise OverflowError("the later times may not fit into 64 bits")
    return moved(unit, of, counts.astype(np.int64), ticks)


def months_between(of: ColumnType, last: Any, first: Any) -> Any:
    """Return months as a fraction; two last days of months, and equal days, are whole months apart."""
    per_day = 86_400 * _PER_SECOND[of.unit or "ns"]
    (days, rest), (first_days, first_rest) = (divmod(_local(ticks, of), per_day) for ticks in (last, first))
    (year, month, day), (first_year, first_month, first_day) = _civil(days), _civil(first_days)
    are_ends = (_civil(days + 1)[2] == 1) & (_civil(first_days + 1)[2] == 1)
    part = (day - first_day) + (rest - first_rest) / per_day
    is_whole = are_ends | (day == first_day)
    return (year - first_year) * 12 + month - first_month + part / 31 * (1 - 1 * is_whole)


def last_day(of: ColumnType, ticks: Any) -> Any:
    """Return the last day of the month of a time, as ticks."""
    per_day = 86_400 * _PER_SECOND[of.unit or "ns"]
    year, month, _ = _civil(_local(ticks, of) // per_day)
    return _from_local((_days(year + month // 12, month % 12 + 1, 1) - 1) * per_day, of)


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
    # A year begins in March here, so that a leap day is its last day. An era has 400 years.
    era, of_era = divmod(year - 1 * (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _field(name: str, of: ColumnType, ticks: Any) -> Any:
    """Return a field of times, such as the hour or the week, as the clock of their zone shows it."""
    per_second = _PER_SECOND[of.unit or "ns"]
    days, of_day = divmod(_local(ticks, of), 86_400 * per_second)
    seconds = of_day // per_second
    if name in ("hour", "minute", "second"):
        return {"hour": seconds // 3600, "minute": seconds // 60 % 60, "second": seconds % 60}[name]
    if name in ("day_of_week", "weekday", "is_weekend"):  # day 0 was a Thursday
        weekday = (days + 3) % 7
        return {"day_of_week": weekday + 1, "weekday": weekday, "is_weekend": weekday > 4}[name]
    if name == "week":  # a week has the year of its Thursday
        days = days - (days + 3) % 7 + 3
    year, month, day = _civil(days)
    since = days - _days(year, 1, 1)
    fields = {"year": year, "month": month, "day": day, "quarter": (month + 2) // 3}
    return (fields | {"day_of_year": since + 1, "week": since // 7 + 1})[name]


def beginning(unit: str | None, of: ColumnType, ticks: Any) -> Any:
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
    sign = 1 - 2 * (last < first)  # -1 where the first is later
    if unit not in _MONTHS:
        if unit == "millisecond" and per_second < 1000:
            return (last - first) * (1000 // per_second)
        return abs(last - first) // _size(unit, per_second) * sign
    swapped = 1 * (last < first)  # 1 where the first is later
    first, last = first + (last - first) * swapped, last + (first - last) * swapped
    return _whole_months(first, last, 86_400 * per_second) // _MONTHS[unit] * sign


def _whole_months(first: Any, last: Any, per_day: int) -> Any:
    """Return the whole months between two times; at the end of a shorter month, any later day has come."""
    (days, rest), (last_days, last_rest) = divmod(first, per_day), divmod(last, per_day)
    (year, month, day), (last_year, last_month, last_day) = _civil(days), _civil(last_days)
    is_end = _civil(last_days + 1)[2] == 1
    day = day + (last_day - day) * (is_end & (day > last_day))
    is_short = (last_day * per_day + last_rest) < (day * per_day + rest)
    return (last_year - year) * 12 + last_month - month - 1 * is_short


# --- time zones --------------------------------------------------------------------------------------------


def _local(ticks: Any, of: ColumnType) -> Any:
    """Return what a clock in the time zone shows, as ticks."""
    if of.kind != TIME or of.timezone in (None, "UTC"):
        return ticks
    per_second = _PER_SECOND[of.unit or "ns"]
    if not isinstance(ticks, np.ndarray):
        seconds = min(max(int(ticks // per_second), _CALENDAR[0]), _CALENDAR[1])
        offset = datetime.fromtimestamp(seconds, _zone(of.timezone or "")).utcoffset()
        shown_ticks = ticks + round((offset.total_seconds() if offset else 0) * per_second)
        return min(max(shown_ticks, NULL_INTEGER + 1), -(NULL_INTEGER + 1))
    import pandas as pd

    def shown(moments: np.ndarray) -> np.ndarray:
        utc = pd.DatetimeIndex(moments.view(f"M8[{of.unit}]")).tz_localize("UTC")
        return utc.tz_convert(of.timezone).tz_localize(None).to_numpy().view(np.int64)

    return _in_calendar(shown, ticks, per_second)


def _in_calendar(
    change: Callable[[np.ndarray], np.ndarray], ticks: np.ndarray, per_second: int
) -> np.ndarray:
    """Return ticks as ``change`` moves them; beyond the calendar of Python, a zone keeps its last offset."""
    day, most = 86_400 * per_second, -(NULL_INTEGER + 1)
    first, last = (bound * per_second for bound in _CALENDAR)
    inside = np.clip(ticks, max(first, day - most), min(last, most - day))
    offset = change(inside) - inside
    fitting = np.where(offset < 0, np.maximum(ticks, -most - offset), np.minimum(ticks, most - offset))
    return np.where(ticks == NULL_INTEGER, ticks, fitting + offset)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo | None:
    """Return a time zone by its name."""
    import pandas as pd

    return pd.Timestamp(0, tz=name).tzinfo


def _from_local(local: Any, of: ColumnType) -> Any:
    """Return the ticks when a clock shows a time first, or directly after a time that the clock skips."""
    if of.timezone in (None, "UTC"):
        return local
    if not isinstance(local, np.ndarray):
        return _one_from_local(int(local), of.unit or "ns", of.timezone or "")
    import pandas as pd

    def moments(shown: np.ndarray) -> np.ndarray:
        times = pd.DatetimeIndex(shown.view(f"M8[{of.unit}]")).tz_localize(
            of.timezone, ambiguous=np.ones(len(shown), bool), nonexistent="shift_forward"
        )
        return times.tz_convert("UTC").tz_localize(None).to_numpy().view(np.int64)

    return _in_calendar(moments, local, _PER_SECOND[of.unit or "ns"])


@lru_cache(maxsize=4096)
def _one_from_local(local: int, unit: str, zone: str) -> int:
    """Return the same for one time; the last ones are kept."""
    return int(_from_local(np.array([local], np.int64), ColumnType(TIME, unit, zone))[0])
