"""The functions of MATCH_RECOGNIZE on values: numbers, texts and times, with the types that they take."""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.arithmetic import logarithm, remainder, rounded
from cepkit.errors import PredicateError, short_text
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import ANY, SIGNATURES, Signature
from cepkit.language.match_recognize.printing import print_sql
from cepkit.limits import TEXT as LONGEST
from cepkit.limits import refuse_beyond

# Check the types of arguments of functions in MATCH_RECOGNIZE before a query runs.

_WORDS = {
    "number": "a number", INTEGER: "a whole number", FLOAT: "a number", TEXT: "a text", TIME: "a time",
    DURATION: "a duration", BOOLEAN: "a truth value", LIST: "a list", MAP: "a map",
    OTHER: "a value of a type that functions cannot use",
}  # fmt: skip
_PLACES = ("first", "second", "third")


def check_arguments(tree: ex.Call, types: Sequence[ColumnType]) -> None:
    """Raise for a wrong number of arguments, and for an argument of a type that the function does not take.

    A function of integers takes a float, because integer columns with missing values are often floats. A
    function of times takes a constant text.

    """
    signature = SIGNATURES.get(tree.function)
    if signature is None:
        return
    if not signature.accepts(len(types)):
        raise PredicateError(f"{tree.function.upper()}() takes {signature}; {len(types)} given")
    for place, (argument, column_type) in enumerate(zip(tree.arguments, types, strict=True)):
        if not _fits(argument, column_type, signature, place):
            words = [_WORDS[word] for word in signature.types_of(place)]
            of_several = f" as its {_PLACES[place]} argument" if len(types) > 1 else ""
            raise PredicateError(
                f"{tree.function.upper()}() takes {' or '.join(words)}{of_several}, but "
                f"{short_text(print_sql(argument))} is {_WORDS[column_type.kind]}"
            )


def _fits(argument: ex.Expression, of: ColumnType, signature: Signature, place: int) -> bool:
    wanted = signature.types_of(place)
    if ANY in wanted or of.kind in wanted:
        return True
    if of.kind == OTHER:  # a null, or a value whose type is not known
        return not isinstance(argument, ex.Attribute | ex.Reference)
    if of.kind in NUMBERS:
        return "number" in wanted or "integer" in wanted
    return of.kind == TEXT and TIME in wanted and isinstance(argument, ex.Literal | ex.Parameter)


def whole(item: float) -> int:
    """Return a whole number as an integer; raise if it has digits after the point."""
    if item != int(item):
        raise ValueError(f"{item!r} is not whole")
    return int(item)


# Numbers in MATCH_RECOGNIZE that are cut or rounded to some digits, and casts to types of numbers.

_EXACT = decimal.Context(prec=400)  # floats have at most 309 digits before the point
_MOST_DIGITS = 60


def _digits(x: float, n: int, rounding: str) -> float:
    """Return a float with ``n`` digits after the point; the digits are those that print it."""
    if not math.isfinite(x) or n > _MOST_DIGITS:
        return x
    last_digit = decimal.Decimal(1).scaleb(-max(n, -400))
    return float(decimal.Decimal(repr(x)).quantize(last_digit, rounding, _EXACT))


def truncated(x: float, n: int = 0) -> float:
    """Return a number with ``n`` digits after the point, as TRUNCATE does. The others are cut off."""
    if isinstance(x, int):
        size = 10 ** min(max(-n, 0), 30)
        return abs(x) // size * size * (1 if x >= 0 else -1)
    return _digits(x, n, decimal.ROUND_DOWN)


def as_decimal(precision: int = 38, scale: int = 0) -> Callable[[Any], float]:
    """Return a function that makes a DECIMAL of a number or a text, as a float.

    It rounds to ``scale`` digits, and halves away from zero. Numbers that need more than ``precision``
    digits have no value.
    """

    def cast(item: Any) -> float:
        rounded = _digits(float(item), scale, decimal.ROUND_HALF_UP)
        if not abs(rounded) < 10 ** (precision - scale):
            raise ValueError(f"{item!r} does not fit into DECIMAL({precision},{scale})")
        return rounded

    return cast


def as_truth(item: Any) -> bool:
    """Return the truth value of a text or a number; raise if it has none."""
    if not isinstance(item, str):
        return bool(item)
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if item.strip().lower() not in words:
        raise ValueError(f"{item!r} is no truth value")
    return words[item.strip().lower()]


# The type of the first argument, where no type is written.
NUMBER_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "trunc": (truncated, None), "truncate": (truncated, None), "pow": (math.pow, FLOAT),
}  # fmt: skip


# Powers and logarithms in MATCH_RECOGNIZE of many numbers at once, with the values of Python's ``math``.
#
# numpy rounds the last digit in another way, so each value is computed by Python.

POWERS: dict[str, Callable[..., float]] = {
    "exp": math.exp, "ln": math.log, "log": logarithm, "log2": math.log2, "log10": math.log10,
    "power": math.pow, "pow": math.pow,
}  # fmt: skip


def powers(function: str, parts: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a function, and where it has none, as ``LN(0)``."""
    call = POWERS[function]

    def value(*arguments: float) -> float | None:
        try:
            return call(*arguments)
        except (ArithmeticError, ValueError):
            return None

    lists = [part.tolist() if isinstance(part, np.ndarray) else repeat(part) for part in parts]
    results = list(map(value, *lists))
    missing = np.array([result is None for result in results], bool)
    return np.array([0.0 if result is None else result for result in results], np.float64), missing


# The functions of texts in MATCH_RECOGNIZE. Characters count from 1, as in Trino.


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part of a text. A start below 0 counts from the end, and no character has the number 0."""
    first = start - 1 if start > 0 else len(text) + start
    if start == 0 or first < 0:
        return ""
    return text[first:] if length is None else text[first : first + max(0, length)]


def _split_part(text: str, between: str, number: int) -> str | None:
    """Return the part with a number, from 1; None after the last one."""
    if number < 1:
        raise ValueError("parts count from 1")
    parts = text.split(between) if between else list(text)
    return parts[number - 1] if number <= len(parts) else None


def _filling(text: str, length: int, filling: str) -> str:
    if length < 0 or not filling:
        raise ValueError("a text cannot be filled so")
    refuse_beyond(LONGEST, length, "characters of LPAD or RPAD", "Fill the text up to fewer characters")
    missing = max(0, length - len(text))
    return (filling * (missing // len(filling) + 1))[:missing]


def _filled_left(text: str, length: int, filling: str = " ") -> str:
    return (_filling(text, length, filling) + text[:length])[:length]


def _filled_right(text: str, length: int, filling: str = " ") -> str:
    return text[:length] + _filling(text, length, filling)


# The name, and the type of the result. A null argument makes a null, and so does an argument out of range.
TEXT_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "substring": (_substring, TEXT), "substr": (_substring, TEXT), "trim": (str.strip, TEXT),
    "ltrim": (str.lstrip, TEXT), "rtrim": (str.rstrip, TEXT), "char_length": (len, INTEGER),
    "character_length": (len, INTEGER), "strpos": (lambda text, part: text.find(part) + 1, INTEGER),
    "replace": (lambda text, old, new="": text.replace(old, new), TEXT),
    "lpad": (_filled_left, TEXT), "rpad": (_filled_right, TEXT), "split_part": (_split_part, TEXT),
    "reverse": (lambda text: text[::-1], TEXT),
}  # fmt: skip


# The functions of single values in MATCH_RECOGNIZE, with the types of their results.


def _element_at(items: Sequence[Any] | Mapping[Any, Any], key: Any) -> Any:
    """Return the value of a key, or the item of a list, counted from 1, or from its end below 0."""
    if isinstance(items, Mapping):
        return items.get(key)
    if key == 0:
        raise ValueError("lists begin at 1")
    place = key - 1 if key > 0 else len(items) + key
    return items[place] if 0 <= place < len(items) else None


def _joined(items: Sequence[Any], separator: str, instead_of_null: str | None = None) -> str:
    texts = (instead_of_null if item is None else str(item) for item in items)
    return separator.join(text for text in texts if text is not None)


def _joined_with(separator: str, *items: Any) -> str:
    lists = (item if isinstance(item, list | tuple) else [item] for item in items)
    return _joined([part for parts in lists for part in parts], separator)


def _without(item: Any, other: Any) -> Any:
    return None if item == other else item


# The type of the first argument, where no type is written. A null argument makes a null.
STRICT_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "abs": (abs, None), "sqrt": (math.sqrt, FLOAT), "exp": (math.exp, FLOAT), "ln": (math.log, FLOAT),
    "log": (logarithm, FLOAT), "log2": (math.log2, FLOAT), "log10": (math.log10, FLOAT),
    "floor": (math.floor, INTEGER), "ceil": (math.ceil, INTEGER), "ceiling": (math.ceil, INTEGER),
    "round": (rounded, None), "sign": (lambda x: (x > 0) - (x < 0), INTEGER), "power": (math.pow, FLOAT),
    "mod": (remainder, None), "least": (min, None), "greatest": (max, None), "lower": (str.lower, TEXT),
    "upper": (str.upper, TEXT), "length": (len, INTEGER), "concat": (lambda *x: "".join(map(str, x)), TEXT),
    "contains": (operator.contains, BOOLEAN), "starts_with": (str.startswith, BOOLEAN),
    "ends_with": (str.endswith, BOOLEAN), "cardinality": (len, INTEGER), "array_join": (_joined, TEXT),
    "element_at": (_element_at, OTHER),
} | NUMBER_FUNCTIONS | TEXT_FUNCTIONS  # fmt: skip
# These take nulls.
LENIENT_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "concat_ws": (
        lambda separator, *items: None if separator is None else _joined_with(separator, *items),
        TEXT,
    ),
    "nullif": (_without, None),
}


# The functions of times in MATCH_RECOGNIZE: fields, beginnings of units, and differences.
#
# Times are ticks. The functions take Python integers and arrays of int64 alike. Fields, days and longer units
# are those of the time zone of the column.

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
