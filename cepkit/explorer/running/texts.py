"""Values of a page of matches as texts, and filters that a user types in the head of a column."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.explorer.running.data import is_identifier
from cepkit.insight.why_not import cell
from cepkit.values import dataclass

NUMBER, TIME, DURATION, TEXT = "number", "time", "duration", "text"
SHOWN_DIGITS = 6  # significant digits of a number that is no integer
_DAY_S = 86_400


def kind_of(dtype: Any) -> str:
    """Return the kind of the values of a dtype: ``number``, ``time``, ``duration`` or ``text``."""
    types = pd.api.types
    if types.is_datetime64_any_dtype(dtype):
        return TIME
    if types.is_timedelta64_dtype(dtype):
        return DURATION
    is_number = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
    return NUMBER if is_number and not types.is_complex_dtype(dtype) else TEXT


def columns_of(frame: pd.DataFrame, keys: Collection[str] = ()) -> list[dict[str, str]]:
    """Return the columns of a frame as a trait of the table widget; codes are aligned as texts."""
    columns = []
    for name, dtype in frame.dtypes.items():
        kind = kind_of(dtype)
        zone = getattr(dtype, "tz", None) if kind == TIME else None
        side = "right" if kind in (NUMBER, DURATION) and not is_code(name, keys) else "left"
        columns.append({"name": str(name), "align": side, "kind": kind, "zone": str(zone or "")})
    return columns


def columns_and_rows(frame: pd.DataFrame, keys: Collection[str] = ()) -> dict[str, Any]:
    """Return a frame as traits of the table widget; integers of the ``keys`` are not grouped."""
    return {"columns": columns_of(frame, keys), "rows": cells(frame, keys), "full": full_cells(frame)}


def cells(frame: pd.DataFrame, keys: Collection[str] = ()) -> list[list[str]]:
    """Return the values of a frame as texts to show; missing values are empty."""
    return _by_row([shown_texts(frame.iloc[:, k], keys) for k in range(frame.shape[1])])


def full_cells(frame: pd.DataFrame) -> list[list[str]]:
    """Return the values of a frame as texts with all digits, for copies."""
    return _by_row([[full_text(value) for value in frame.iloc[:, k]] for k in range(frame.shape[1])])


def _by_row(columns: list[list[str]]) -> list[list[str]]:
    return [list(row) for row in zip(*columns, strict=True)]


def is_code(name: Any, keys: Collection[str]) -> bool:
    """Return whether the numbers of a column name things: a key, or an identifier such as ``order_no``."""
    return str(name) in keys or is_identifier(str(name))


def shown_texts(values: pd.Series, keys: Collection[str] = ()) -> list[str]:
    """Return the values of a column as texts to show."""
    kind = kind_of(values.dtype)
    if kind == NUMBER:
        is_grouped = not is_code(values.name, keys)
        return [number_text(value, is_grouped=is_grouped) for value in values]
    if kind == TIME:
        return _time_texts(values)
    if kind == DURATION:
        return ["" if value is pd.NaT else duration_text(value.value) for value in values.astype("m8[ns]")]
    return [cell(value) for value in values]


def full_text(value: Any) -> str:
    """Return a value as text with all its digits; missing values are empty."""
    if isinstance(value, float | np.floating) and value == value:
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{', '.join(full_text(part) for part in value)}]"
    return cell(value)


def number_text(value: Any, *, is_grouped: bool = True) -> str:
    """Return a number with grouped digits; six significant digits if it is no integer."""
    if not is_grouped and isinstance(value, int | float | np.number) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if not isinstance(value, float | np.floating) or not math.isfinite(value):
        return cell(value)
    size = abs(float(value))
    if size and not 1e-4 <= size < 1e15:
        return f"{value:.{SHOWN_DIGITS}g}"
    decimals = max(0, SHOWN_DIGITS - 1 - math.floor(math.log10(size))) if size else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time_texts(values: pd.Series) -> list[str]:
    """Return times in their own zone, with equal numbers of digits; only dates if all are midnights."""
    local = values.dt.tz_localize(None) if getattr(values.dtype, "tz", None) is not None else values
    texts = ["" if time is pd.NaT else time.isoformat(sep=" ", timespec="nanoseconds") for time in local]
    digits = max((len(text[20:].rstrip("0")) for text in texts), default=0)
    if all(text[11:].strip("0:.") == "" for text in texts):
        return [text[:10] for text in texts]
    return [text[: 20 + digits if digits else 19] for text in texts]


def duration_text(ns: int) -> str:
    """Return a duration as text, as ``00:01:20.5`` or ``2 days 00:00:00``."""
    sign, (seconds, part) = "-" if ns < 0 else "", divmod(abs(ns), 10**9)
    days, seconds = divmod(seconds, _DAY_S)
    decimals = f".{part:09d}".rstrip("0").rstrip(".")
    before = f"{days:,} {'day' if days == 1 else 'days'} " if days else ""
    return f"{sign}{before}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{decimals}"


# Filters of the table of matches: what a user types in the head of a column.
#
# Numbers and durations: ``> 3``, ``3..5``, ``3..<5``, ``..5``, ``= 3``, ``!= 3``; commas separate
# alternatives, and ``and`` joins parts that must all hold. Times: the same with ``09:30``, ``2012-01-03`` or
# both. A time without a date is a time of day. Texts: a part of the text in any case, ``=exact``, ``!part``,
# ``!=exact``; several with commas, quotes around special characters. All kinds: ``empty`` and ``!empty``.

DAY_NS = 86_400 * 10**9
NS_OF_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SIZED = re.compile(r"(<=|>=|!=|<|>|=)\s*(.+)", re.S)
_RANGE = re.compile(r"(.*?)\s*\.\.(<?)\s*(.*)", re.S)
_AND = re.compile(r"\s+and\s+|\s*&\s*")
_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|[\d_]+)?(\.\d*)?(e[+-]?\d+)?", re.I)
_COMMA_OF_LIST = re.compile(r",(?!\d{3}(?!\d))|(?<!\d),")
_TIME = re.compile(
    r"(?:(\d{4})-(\d{1,2})(?:-(\d{1,2}))?)?[ T]*(?:(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
)
_CLOCK = re.compile(r"(-?)(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?)")
_QUOTED = re.compile(r'\s*(!=|!|=|)\s*("(?:[^"]|"")*"|[^,"=!\s][^,]*?|)\s*(?:,|$)')

HINTS = {
    NUMBER: "Write > 3, 3..5 or = 3.", TIME: "Write > 09:30, 09:30..10:00 or 2012-01-03.",
    DURATION: "Write > 5 min or 10 s..2 min.", TEXT: "Write a part of the text, or =text for the whole text.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bound:
    """A typed value: it stands for all values from ``low`` to ``high`` (exclusive unless both are equal)."""

    low: Any
    high: Any
    is_of_day: bool = False


@dataclass(frozen=True, slots=True)
class FilterPart:
    """A comparison: ``<``, ``<=``, ``>``, ``>=``, ``=``, ``!=``, ``..`` or ``..<``, and its bounds."""

    sign: str
    bounds: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a column: one of the ``choices`` holds, and each choice is parts that all hold."""

    kind: str
    choices: tuple[tuple[FilterPart, ...], ...]


def read_filter(text: str, kind: str) -> Filter:
    """Return the filter that a user typed for a column of this kind."""
    if kind == TEXT:
        return Filter(kind, _read_texts(text))
    texts = [choice.strip() for choice in _COMMA_OF_LIST.split(text)]
    choices = (_AND.split(choice) for choice in texts if choice or len(texts) == 1)
    return Filter(kind, tuple(tuple(_read_part(part.strip(), kind) for part in parts) for parts in choices))


def _read_part(text: str, kind: str) -> FilterPart:
    """Return a part of a filter, such as ``> 5`` or ``3 .. 7``."""
    if text.casefold() in ("empty", "= empty", "=empty"):
        return FilterPart("empty", ())
    if text.casefold() in ("!empty", "!= empty", "!=empty", "not empty"):
        return FilterPart("!empty", ())
    if sized := _SIZED.fullmatch(text):
        return FilterPart(sized[1], (_read_bound(sized[2].strip(), kind),))
    if text in ("<", "<=", ">", ">=", "=", "!="):
        raise CepError(f"A value is missing after {text}. {HINTS[kind]}")
    ranged = _RANGE.fullmatch(text)
    if ranged is None:
        return FilterPart("=", (_read_bound(text, kind),))
    if not ranged[1] and not ranged[3]:
        raise CepError(f"Both ends of the range are missing. {HINTS[kind]}")
    low, high = (_read_bound(end, kind) if end else None for end in (ranged[1], ranged[3]))
    if kind == TIME and low is not None and high is not None and low.is_of_day != high.is_of_day:
        if low.is_of_day:
            raise CepError(f"The first time of {text!r} has no date. Write the date first.")
        day = low.low // DAY_NS * DAY_NS
        high = Bound(day + high.low, day + high.high)
    is_of_day = kind == TIME and low is not None and low.is_of_day
    if low is not None and high is not None and low.low > high.low and not is_of_day:
        raise CepError(f"The range {text} ends before it begins. Write the smaller value first.")
    return FilterPart(f"..{ranged[2]}", (low, high))


def _read_bound(text: str, kind: str) -> Bound:
    """Return the number, time or duration that a text means. Raise for another text."""
    read = {NUMBER: _read_number, TIME: _read_time, DURATION: _read_duration}[kind]
    bound = read(text) if text else None
    if bound is None:
        noun = {NUMBER: "a number", TIME: "a time", DURATION: "a duration"}[kind]
        raise CepError(f"{text!r} is not {noun}. {HINTS[kind]}")
    return bound


def _read_number(text: str) -> Bound | None:
    """Return the number that a text means, or None."""
    if text.casefold() in ("inf", "+inf", "-inf"):
        return Bound(float(text), float(text))
    if not _NUMBER.fullmatch(text) or not any(char.isdigit() for char in text):
        return None
    digits = text.replace(",", "").replace("_", "")
    if not any(char in digits.casefold() for char in ".e"):
        return Bound(int(digits), int(digits))
    return Bound(float(digits), float(digits))


def _read_time(text: str) -> Bound | None:
    """Return the time that a text means, from its begin to its end, or None."""
    fields = _TIME.fullmatch(text)
    if fields is None or not any(fields.groups()):
        return None
    year, month, day, hour, minute, second, part = fields.groups()
    begin, length = 0, DAY_NS
    if year is not None:
        try:
            first = np.datetime64(f"{year}-{int(month):02d}-{int(day or 1):02d}", "D")
        except ValueError:
            return None
        begin = int(first.astype(np.int64)) * DAY_NS
        if day is None:
            after = np.datetime64(f"{year}-{int(month):02d}", "M") + 1
            length = int(after.astype("M8[D]").astype(np.int64)) * DAY_NS - begin
    if hour is not None:
        if (day is None and year is not None) or int(hour) > 24 or int(minute) > 59 or int(second or 0) > 59:
            return None
        begin += (int(hour) * 3600 + int(minute) * 60 + int(second or 0)) * 10**9
        begin += int((part or "").ljust(9, "0"))
        length = 60 * 10**9 if second is None else 10 ** (9 - len(part or ""))
    return Bound(begin, begin + length, year is None)


def _read_duration(text: str) -> Bound | None:
    """Return the duration that a text means, or None."""
    if clock := _CLOCK.fullmatch(text):
        seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + float(clock[4])
        ns = round(seconds * 1e9) * (-1 if clock[1] else 1)
        return Bound(ns, ns)
    if _read_number(text) is not None and text.strip("+-0.") != "":
        raise CepError(f"The unit of {text!r} is missing. {HINTS[DURATION]}")
    try:
        duration = pd.Timedelta(text)
    except ValueError:
        return None
    return None if duration is pd.NaT else Bound(duration.value, duration.value)


def _read_texts(text: str) -> tuple[tuple[FilterPart, ...], ...]:
    """Return the choices of a filter of texts; a sign holds also for the values after it."""
    wanted: list[FilterPart] = []
    unwanted: list[FilterPart] = []
    place, sign = 0, ""
    while place < len(text):
        value_match = _QUOTED.match(text, place)
        if value_match is None:
            raise CepError(f"A quotation mark is not closed or has text after it. {HINTS[TEXT]}")
        place = value_match.end()
        sign, value = value_match[1] or sign, value_match[2]
        is_quoted = value.startswith('"')
        if is_quoted:
            value = value[1:-1].replace('""', '"')
        elif not value and not value_match[1]:
            continue
        elif not value:
            raise CepError(f"A text is missing after {value_match[1]}. {HINTS[TEXT]}")
        if value.casefold() == "empty" and not is_quoted:
            part = FilterPart("empty", ())
        elif sign in ("=", "!="):
            part = FilterPart("is", (value,))
        else:
            part = FilterPart("contains", (value.casefold(),))
        (unwanted if sign.startswith("!") else wanted).append(part)
    others = tuple(FilterPart(f"not {part.sign}", part.bounds) for part in unwanted)
    return tuple((part, *others) for part in wanted) or ((others,) if others else ())


def quote_text(value: str) -> str:
    """Return a text as a value of a filter, in quotes where needed."""
    is_plain = bool(value) and value == value.strip() and not re.search(r'[,"\n]', value)
    if is_plain and value[0] not in "=!" and value.casefold() != "empty":
        return value
    quoted = value.replace('"', '""')
    return f'"{quoted}"'


# --- what fulfils a filter


def choose_texts(filter: Filter, texts: Sequence[str]) -> np.ndarray:
    """Return which of some texts fulfil a filter, as a bool array; the last entry is for missing values."""
    n = len(texts)
    if not filter.choices:
        return np.ones(n + 1, bool)
    folded = [text.casefold() for text in texts]

    def fulfils(part: FilterPart) -> np.ndarray:
        sign = part.sign.removeprefix("not ")
        if sign == "empty":
            is_met = np.array([False] * n + [True])
        elif sign == "is":
            is_met = np.array([*(text == part.bounds[0] for text in texts), False])
        else:
            is_met = np.array([*(part.bounds[0] in text for text in folded), False])
        return ~is_met if part.sign.startswith("not ") else is_met

    return _combine(filter, fulfils)


def choose_numbers(filter: Filter, values: np.ndarray, is_missing: np.ndarray | None) -> np.ndarray:
    """Return which numbers a filter keeps."""

    def fulfils(part: FilterPart) -> np.ndarray:
        low = part.bounds[0].low if part.bounds and part.bounds[0] is not None else None
        if part.sign in ("=", "!="):
            same = values == low
            if values.dtype.kind == "f" and np.isfinite(low):
                same = np.abs(values - low) <= _half_digit(low)
            return same if part.sign == "=" else ~same
        if part.sign.startswith(".."):
            high = None if part.bounds[1] is None else part.bounds[1].high
            return _within(values, low, high, part.sign == "..<")
        return _COMPARE[part.sign](values, low)

    return _choose(filter, fulfils, len(values), is_missing)


def _half_digit(value: float) -> float:
    """Return half of the last digit that a cell shows of a number."""
    if not value:
        return 0.0
    return 0.5000001 * 10.0 ** (math.floor(math.log10(abs(value))) - SHOWN_DIGITS + 1)


def choose_times(
    filter: Filter, values: np.ndarray, ns_per_tick: int, is_missing: np.ndarray | None
) -> np.ndarray:
    """Return which times or durations, in ticks, fulfil a filter."""
    of_day = None
    ticks_per_day = DAY_NS // ns_per_tick

    def ceil(ns: int) -> int:
        return -(-ns // ns_per_tick)

    def fulfils(part: FilterPart) -> np.ndarray:
        """Return which times fulfil a part of a filter, which may name times of the day alone."""
        nonlocal of_day
        ticks, bounds = values, part.bounds
        is_of_day = any(bound is not None and bound.is_of_day for bound in bounds)
        if is_of_day:
            of_day = values % ticks_per_day if of_day is None else of_day
            ticks = of_day
        first = bounds[0]
        if part.sign in ("=", "!="):
            same = (ticks >= ceil(first.low)) & (ticks < _end_of(first, False, ns_per_tick))
            return same if part.sign == "=" else ~same
        if part.sign.startswith(".."):
            low = None if first is None else ceil(first.low)
            high = None if bounds[1] is None else _end_of(bounds[1], part.sign == "..<", ns_per_tick)
            if is_of_day and low is not None and high is not None and low >= high:
                return (ticks >= low) | (ticks < high)  # over midnight
            return _within(ticks, low, high, True)
        if part.sign == ">":
            return ticks > first.low // ns_per_tick
        if part.sign == ">=":
            return ticks >= ceil(first.low)
        return ticks < (ceil(first.low) if part.sign == "<" else _end_of(first, False, ns_per_tick))

    return _choose(filter, fulfils, len(values), is_missing)


def _end_of(bound: Bound, is_open: bool, ns_per_tick: int) -> int:
    """Return the first tick after a range that ends with ``bound``."""
    if is_open:
        return -(-bound.low // ns_per_tick)  # rounded up
    if bound.low == bound.high:
        return bound.low // ns_per_tick + 1
    return -(-bound.high // ns_per_tick)  # rounded up


def _within(values: np.ndarray, low: Any, high: Any, is_open: bool) -> np.ndarray:
    is_within = np.ones(len(values), bool) if low is None else values >= low
    if high is not None:
        is_within = is_within & (values < high if is_open else values <= high)
    return is_within


def _choose(
    filter: Filter, fulfils: Callable[[FilterPart], np.ndarray], n: int, is_missing: np.ndarray | None
) -> np.ndarray:
    """Return which values a filter keeps, from a function that tests one part of it."""
    missing = np.zeros(n, bool) if is_missing is None else is_missing

    def test(part: FilterPart) -> np.ndarray:
        if part.sign in ("empty", "!empty"):
            return missing if part.sign == "empty" else ~missing
        return fulfils(part) & ~missing

    return _combine(filter, test)


def _combine(filter: Filter, fulfils: Callable[[FilterPart], np.ndarray]) -> np.ndarray:
    """Return which values fulfil all parts of one of the choices of a filter."""
    kept = None
    for choice in filter.choices:
        fits = fulfils(choice[0])
        for part in choice[1:]:
            fits = fits & fulfils(part)
        kept = fits if kept is None else kept | fits
    return kept
