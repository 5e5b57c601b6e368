"""The functions of all languages in one table: names, arguments, results, meaning, and values in Python."""

from __future__ import annotations

import decimal
import math
import operator
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

from cepkit.errors import PredicateError, did_you_mean
from cepkit.limits import TEXT as LONGEST
from cepkit.limits import refuse_beyond
from cepkit.values import dataclass

# A new function is one entry of ``_TABLE``. Conditions and measures of regexes and sequences have it, and so
# has MATCH_RECOGNIZE. Functions of times and of regular expressions have no ``compute`` here: it depends on
# the unit and the zone of a column, or on a library for columns (`compile/shared/functions.py`).

ANY = "any"
UNITS_OF_TIME = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")


@dataclass(frozen=True, slots=True)
class Signature:
    """The types that each argument may have."""

    # The types of each argument. Those of the last one serve all further ones if ``is_open``.
    takes: tuple[tuple[str, ...], ...]
    n_required: int  # how many arguments a call needs
    is_open: bool = False  # whether any number of further arguments may follow

    def types_of(self, place: int) -> tuple[str, ...]:
        """Return the types that the argument at a place may have, counted from 0."""
        return self.takes[min(place, len(self.takes) - 1)]

    def accepts(self, n: int) -> bool:
        """Return whether a call may have ``n`` arguments."""
        return self.n_required <= n and (self.is_open or n <= len(self.takes))

    def __str__(self) -> str:
        return say_arguments(self.n_required, None if self.is_open else len(self.takes))


def say_arguments(least: int, most: int | None) -> str:
    """Return how many arguments a function takes, in words; None is any number."""
    if most is None:
        return f"{least} or more arguments"
    if least < most:
        return f"{least} {'or' if most == least + 1 else 'to'} {most} arguments"
    if not most:
        return "no argument"
    return "1 argument" if most == 1 else f"{most} arguments"


def _signature(words: str) -> Signature:
    """Return a signature: ``|`` is between types, ``?`` after optional and ``+`` after repeated ones."""
    parts = words.split()
    takes = tuple(tuple(part.rstrip("?+").split("|")) for part in parts)
    return Signature(takes, sum(not part.endswith("?") for part in parts), words.endswith("+"))


@dataclass(frozen=True, slots=True)
class ValueFunction:
    """A function of single values."""

    name: str
    aliases: tuple[str, ...]  # other names of the same function
    takes: Signature
    gives: str | None  # the type of the result; None: the common type of the arguments of type ``any``
    # What it computes from values that are not null; None where the unit or a library of columns decides. It
    # raises ArithmeticError or ValueError where the result is null.
    compute: Callable[..., Any] | None
    example: str  # a condition with columns ``x``, ``y``, ``name`` and ``ts``
    meaning: str
    is_lenient: bool = False  # whether it also takes nulls; any other function of a null is null


# --- numbers


def remainder(left: Any, right: Any) -> Any:
    """Return the remainder of a division that rounds towards zero. It has the sign of ``left``."""
    if right == 0:
        raise ZeroDivisionError
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.nan if math.isinf(left) else math.fmod(left, right)


_EXACT = decimal.Context(prec=20)  # a float prints 17 digits at most


def _digits(x: float, n: int, rounding: str) -> float:
    """Return a float with ``n`` digits after the point; the digits are those that print it."""
    if not math.isfinite(x):
        return x
    exact = decimal.Decimal(repr(x))
    if -int(exact.as_tuple().exponent) <= n:  # it has no more digits
        return x
    return float(exact.quantize(decimal.Decimal(1).scaleb(-max(n, -400)), rounding, _EXACT))


def truncated(x: float, n: int = 0) -> float:
    """Return a number with ``n`` digits after the point, as TRUNCATE does. The others are cut off."""
    if n != int(n):
        raise ValueError(f"{n!r} is not whole")
    n = int(n)
    if isinstance(x, int):
        size = 10 ** min(max(-n, 0), 30)
        return abs(x) // size * size * (1 if x >= 0 else -1)
    return _digits(x, n, decimal.ROUND_DOWN)


def rounded(value: Any, n_digits: int = 0) -> Any:
    """Return a number rounded to ``n_digits`` after the point. Halves go away from zero."""
    # A negative ``n_digits`` rounds digits before the point. A float counts as the number that it prints.
    if not isinstance(value, int):
        return _digits(value, n_digits, decimal.ROUND_HALF_UP)
    if n_digits >= 0:
        return value
    size = 10 ** -max(n_digits, -400)
    whole = (2 * abs(value) + size) // (2 * size) * size
    return -whole if value < 0 else whole


def logarithm(*arguments: Any) -> float:
    """Return the logarithm of the last argument. The first of two arguments is the base; else it is e."""
    if len(arguments) == 1:
        return math.log(arguments[0])
    base, value = arguments
    exact = {2: math.log2, 10: math.log10}.get(base)
    return math.log(value, base) if exact is None else exact(value)


EARTH_KM = 6371.0088  # the mean radius


def haversine(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Return the distance in km of two places on a sphere with the mean radius of the Earth."""
    lat, lon, other_lat, other_lon = map(math.radians, (lat, lon, other_lat, other_lon))
    rise = math.sin((other_lat - lat) / 2) ** 2
    side = math.cos(lat) * math.cos(other_lat) * math.sin((other_lon - lon) / 2) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(min(1.0, rise + side)))


# --- texts; characters count from 1, as in SQL


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
    """Return the characters that LPAD or RPAD adds to a text, so that it has the length."""
    if length < 0 or not filling:
        raise ValueError("a text cannot be filled so")
    refuse_beyond(LONGEST, length, "characters of LPAD or RPAD", "Fill the text up to fewer characters")
    missing = max(0, length - len(text))
    return (filling * (missing // len(filling) + 1))[:missing]


def _filled_left(text: str, length: int, filling: str = " ") -> str:
    return (_filling(text, length, filling) + text[:length])[:length]


def _filled_right(text: str, length: int, filling: str = " ") -> str:
    return text[:length] + _filling(text, length, filling)


def _repeated(text: str, n: int) -> str:
    refuse_beyond(LONGEST, len(text) * n, "characters of REPEAT", "Repeat the text fewer times")
    return text * n


def _place(text: str, part: str, start: int = 1, number: int = 1) -> int:
    """Return the place of the ``number``-th occurrence of a part from ``start`` on; 0 if there is none."""
    place = max(start, 1) - 2
    for _ in range(number):
        place = text.find(part, place + 1)
        if place < 0:
            return 0
    return place + 1


def _translated(text: str, signs: str, others: str) -> str:
    return text.translate({ord(sign): others[i : i + 1] for i, sign in reversed([*enumerate(signs)])})


def ip_in(address: str, network: str) -> bool:
    """Return whether an address of IPv4 or IPv6 is in a network such as ``10.0.0.0/8``."""
    return ip_address(address.strip()) in _network(network)


@lru_cache(maxsize=256)
def _network(text: str) -> Any:
    """Return the IP network that a text names."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise PredicateError(
            f"ip_in: {text!r} is no network; write one as '10.0.0.0/8' or 'fd00::/8'"
        ) from None


# --- choices; they also take nulls


def _first_known(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _case(*parts: Any) -> Any:
    """Return the value after the first true condition, or the last part if it has no condition."""
    for i in range(0, len(parts) - 1, 2):
        if parts[i]:
            return parts[i + 1]
    return parts[-1] if len(parts) % 2 else None


def _decoded(value: Any, *parts: Any) -> Any:
    """Return the result after the first part that equals a value; two nulls are equal."""
    return _case(
        *(part == value if i % 2 == 0 and i + 1 < len(parts) else part for i, part in enumerate(parts))
    )


def _joined_with(separator: str | None, *items: Any) -> str | None:
    lists = (item if isinstance(item, list | tuple) else [item] for item in items)
    texts = [str(part) for parts in lists for part in parts if part is not None]
    return None if separator is None else separator.join(texts)


def _row(
    names: str, takes: str, gives: str | None, compute: Callable[..., Any] | None, example: str, meaning: str,
    *, is_lenient: bool = False,
) -> ValueFunction:  # fmt: skip
    """Return one entry of the table of functions. `names` has its name and its other names."""
    name, *aliases = names.split()
    return ValueFunction(
        name, tuple(aliases), _signature(takes), gives, compute, example, meaning, is_lenient
    )


# Names, arguments, result, values, example, meaning. The first name stands for all.
_TABLE = (
    _row("lower lcase", "text", "text", str.lower, "lower(name) = 'up'", "in lower case"),
    _row("upper ucase", "text", "text", str.upper, "upper(name) = 'UP'", "in upper case"),
    _row("initcap", "text", "text", str.title, "initcap(name) = 'Up'", "each word with a capital"),
    _row("trim btrim", "text text?", "text", str.strip, "trim(name) = 'up'",
         "without blanks, or without the characters of a second text, at both ends"),
    _row("ltrim", "text text?", "text", str.lstrip, "ltrim(name) = 'up'", "the same at the beginning only"),
    _row("rtrim", "text text?", "text", str.rstrip, "rtrim(name) = 'up'", "the same at the end only"),
    _row("length len", "text|list", "integer", len, "length(name) > 2", "the number of characters"),
    _row("char_length character_length", "text", "integer", len, "char_length(name) > 2",
         "the same as length"),
    _row("substr substring mid", "text integer integer?", "text", _substring, "substr(name, 1, 2) = 'up'",
         "from a place on, counted from 1; a third argument says how many"),
    _row("left", "text integer", "text", lambda text, n: text[: max(0, n)], "left(name, 2) = 'up'",
         "the first characters"),
    _row("right", "text integer", "text", lambda text, n: text[-n:] if n > 0 else "", "right(name, 2) = 'up'",
         "the last characters"),
    _row("replace", "text text text?", "text", lambda text, old, new="": text.replace(old, new),
         "replace(name, 'p', 'q') = 'uq'", "with another text in place of each part"),
    _row("translate", "text text text", "text", _translated, "translate(name, 'up', 'ab') = 'ab'",
         "with other characters in place of some"),
    _row("reverse", "text", "text", lambda text: text[::-1], "reverse(name) = 'pu'", "the text from its end"),
    _row("repeat", "text integer", "text", _repeated, "repeat(name, 2) = 'upup'", "the text several times"),
    _row("lpad", "text integer text?", "text", _filled_left, "lpad(name, 4, '.') = '..up'",
         "of a given length, filled at the beginning"),
    _row("rpad", "text integer text?", "text", _filled_right, "rpad(name, 4, '.') = 'up..'",
         "of a given length, filled at the end"),
    _row("strpos", "text text", "integer", _place, "strpos(name, 'p') = 2",
         "the place of a part, from 1; 0 for none"),
    _row("instr", "text text integer? integer?", "integer", _place, "instr(name, 'p') = 2",
         "the same; also from a place on, and the n-th part"),
    _row("charindex locate", "text text integer?", "integer",
         lambda part, text, start=1: _place(text, part, start), "charindex('p', name) = 2",
         "the same, with the part first"),
    _row("split_part", "text text integer", "text", _split_part, "split_part(name, '-', 1) = 'up'",
         "a part of a text between separators, from 1"),
    _row("concat", "any any+", "text", lambda *texts: "".join(map(str, texts)), "concat(name, '!') = 'up!'",
         "texts one after the other"),
    _row("ascii", "text", "integer", lambda text: ord(text[0]) if text else 0, "ascii(name) = 117",
         "the number of the first character"),
    _row("chr", "integer", "text", chr, "chr(117) = name", "the character of a number"),
    _row("contains", "text|list text|any", "boolean", operator.contains, "contains(name, 'u')",
         "the text has this part"),
    _row("starts_with startswith", "text text", "boolean", str.startswith, "starts_with(name, 'u')",
         "the text begins so"),
    _row("ends_with endswith", "text text", "boolean", str.endswith, "ends_with(name, 'p')",
         "the text ends so"),
    _row("regexp_like rlike regexp regexp_contains regexp_matches", "text text text?", "boolean", None,
         "regexp_like(name, '^u.$')", "a part of the text fits a regular expression (RE2); 'i' ignores case"),
    _row("regexp_extract regexp_substr", "text text integer?", "text", None,
         "regexp_extract(name, '(u)(p)', 2) = 'p'",
         "the first part that fits, or one of its groups; else null"),
    _row("regexp_replace", "text text text?", "text", None, "regexp_replace(name, '[pq]', '') = 'u'",
         "with another text in place of what fits"),
    _row("regexp_count", "text text", "integer", None, "regexp_count(name, 'p') = 1", "how many parts fit"),
    _row("ip_in", "text text", "boolean", ip_in, "ip_in(name, '10.0.0.0/8')",
         "an address of IPv4 or IPv6 is in a network; null for another text"),
    _row("to_number to_double", "text|number", "float", float, "to_number(name) > 5",
         "the number that a text spells"),
    _row("abs", "number|duration", None, abs, "abs(x) > 5", "the value without its sign"),
    _row("sign", "number|duration", "integer", lambda x: (x > 0) - (x < 0), "sign(x) = -1", "-1, 0 or 1"),
    _row("sqrt", "number", "float", math.sqrt, "sqrt(x) > 2", "square root"),
    _row("cbrt", "number", "float", math.cbrt, "cbrt(x) > 2", "cube root"),
    _row("exp", "number", "float", math.exp, "exp(x) > 2", "e to the power of x"),
    _row("ln", "number", "float", math.log, "ln(x) > 1", "natural logarithm"),
    _row("log", "number number?", "float", logarithm, "log(x) > 1", "natural logarithm"),
    _row("log2", "number", "float", math.log2, "log2(x) > 1", "logarithm to base 2"),
    _row("log10", "number", "float", math.log10, "log10(x) > 1", "logarithm to base 10"),
    _row("power pow", "number number", "float", math.pow, "power(x, 2) > 9", "x to the power of 2"),
    _row("floor", "number", "integer", math.floor, "floor(x) = 3", "rounded down"),
    _row("ceil ceiling", "number", "integer", math.ceil, "ceil(x) = 3", "rounded up"),
    _row("round", "number integer?", None, rounded, "round(x) = 3", "rounded to the nearest whole number"),
    _row("trunc truncate", "number|time integer|text?", None, truncated, "trunc(x) = 3",
         "without the digits after the point, or after some of them"),
    _row("mod", "number|duration number|duration", None, remainder, "mod(x, 10) = 3",
         "the remainder, with the sign of x"),
    _row("sin", "number", "float", math.sin, "sin(x) > 0", "sine; angles are in radians"),
    _row("cos", "number", "float", math.cos, "cos(x) > 0", "cosine"),
    _row("tan", "number", "float", math.tan, "tan(x) > 0", "tangent"),
    _row("asin", "number", "float", math.asin, "asin(x) > 0", "inverse of sine"),
    _row("acos", "number", "float", math.acos, "acos(x) > 0", "inverse of cosine"),
    _row("atan", "number", "float", math.atan, "atan(x) > 0", "inverse of tangent"),
    _row("atan2", "number number", "float", math.atan2, "atan2(y, x) > 0", "the angle of the point (x, y)"),
    _row("radians", "number", "float", math.radians, "radians(x) > 1", "degrees in radians"),
    _row("degrees", "number", "float", math.degrees, "degrees(x) > 90", "radians in degrees"),
    _row("haversine", "number number number number", "float", haversine, "haversine(x, y, 52.5, 13.4) < 10",
         "km between two places, each with latitude and longitude in degrees"),
    _row("width_bucket", "number number number integer", "integer",
         lambda x, low, high, n: max(0, min(n, math.floor((x - low) / (high - low) * n)) + 1),
         "width_bucket(x, 0, 100, 10) = 1", "the number of the part of a range in which a value is"),
    _row("least", "any any+", None, min, "least(x, y) > 1", "the smallest of its arguments"),
    _row("greatest", "any any+", None, max, "greatest(x, y) > 1", "the largest of its arguments"),
    _row("coalesce nvl ifnull", "any+", None, _first_known, "coalesce(x, 0) > 1",
         "the first of its arguments that is not missing", is_lenient=True),
    _row("nvl2", "any any any", None, lambda x, then, other: other if x is None else then,
         "nvl2(x, 1, 0) = 1", "the second argument, or the third if the first one is missing",
         is_lenient=True),
    _row("nullif", "any any", None, lambda x, y: None if x == y else x, "nullif(x, 0) > 1",
         "x, but missing where both are equal", is_lenient=True),
    _row("zeroifnull", "number", None, lambda x: 0 if x is None else x, "zeroifnull(x) > 1",
         "x, and 0 where it is missing", is_lenient=True),
    _row("nullifzero", "number", None, lambda x: x or None, "nullifzero(x) > 1",
         "x, but missing where it is 0",
         is_lenient=True),
    _row("if iff iif ifelse", "boolean any any?", None, _case, "if(x > 5, 1, 0) = 1",
         "one of two values, which a condition chooses", is_lenient=True),
    _row("case", "any any+", None, _case, "case(x > 5, 2, x > 3, 1, 0) > 0",
         "the value after the first condition that holds; the last: of all others",
         is_lenient=True),
    _row("decode", "any any any+", None, _decoded, "decode(name, 'up', 1, 'down', -1, 0) = 1",
         "the value after the first constant that is equal; the last: of all others",
         is_lenient=True),
    _row("concat_ws", "text any+", "text", _joined_with, "concat_ws('-', name, name) = 'up-up'",
         "texts with a separator between them, without those that are missing", is_lenient=True),
    *(_row(name, "time", "integer", None, f"{name.split()[0]}(ts) = {value}",
      f"{meaning}, in the zone of the column")
      for name, value, meaning in (
          ("year", 2026, "the year"), ("quarter", 1, "the quarter, from 1"), ("month", 1,
          "the month, from 1"),
          ("week week_of_year weekofyear weekiso", 1, "the week by ISO 8601"),
          ("day day_of_month dayofmonth", 31, "the day of the month"), ("hour", 9, "the hour, from 0"),
          ("minute", 30, "the minute"), ("second", 0, "the second"),
          ("day_of_week dow isodow dayofweekiso dayofweek_iso", 1, "the day of the week; Monday is 1"),
          ("weekday dayofweek", 0, "the day of the week as in pandas; Monday is 0"),
          ("day_of_year doy dayofyear", 31, "the day of the year, from 1"))),
    _row("is_weekend", "time", "boolean", None, "is_weekend(ts)", "the day is a Saturday or a Sunday"),
    _row("date to_date", "time|text text?", "time", None, "date(ts) = '2026-01-31'",
         "the beginning of the day"),
    _row("date_trunc", "text time", "time", None, "date_trunc('hour', ts) > '2026-01-31'",
         "the beginning of a unit: second, minute, hour, day, week, month, …"),
    _row("date_diff timestampdiff", "text time time", "integer", None,
         "date_diff('day', '2026-01-01', ts) > 5",
         "how many whole units lie between two times"),
    _row("datediff", "text time time", "integer", None, "datediff('day', '2026-01-01', ts) = 30",
         "how many days, or other units, begin between two times"),
    _row("date_add dateadd timestampadd", "text number time", "time", None,
         "date_add('day', 1, ts) > '2026-01-31'", "a time some units later"),
    _row("add_months", "time integer", "time", None, "add_months(ts, 1) > '2026-01-31'",
         "a time some months later; the last day of a month stays the last day"),
    _row("months_between", "time time", "float", None, "months_between(ts, '2026-01-31') = 2",
         "months from the second time to the first, with 31 days for a part of one"),
    _row("last_day", "time", "time", None, "last_day(ts) = '2026-01-31'", "the last day of the month"),
    _row("dayname", "time", "text", None, "dayname(ts) = 'Mon'", "the day of the week in three letters"),
    _row("monthname", "time", "text", None, "monthname(ts) = 'Jan'", "the month in three letters"),
    _row("epoch to_unixtime unix_timestamp", "time|duration", "float", None, "epoch(ts) > 0",
         "seconds since 1970"),
    _row("from_unixtime", "number", "time", None, "from_unixtime(x) > '2026-01-31'",
         "the time of seconds since 1970"),
    _row("to_char to_varchar", "any text?", "text", None, "to_char(ts, 'YYYY-MM-DD') = '2026-01-31'",
         "a time as a text, by a form"),
    _row("date_format format_datetime", "time text", "text", None,
         "date_format(ts, '%Y-%m-%d') = '2026-01-31'", "the same, with the signs of MySQL or of Java"),
    _row("to_timestamp date_parse parse_datetime str_to_date", "text|number|time text?", "time", None,
         "to_timestamp(name) > '2026-01-31'", "the time that a text spells, also by a form"),
)  # fmt: skip

VOCABULARY: dict[str, ValueFunction] = {name: row for row in _TABLE for name in (row.name, *row.aliases)}
FUNCTIONS_OF_VALUES = _TABLE

# Functions whose first argument is a unit of time, with the arguments after it.
WITH_UNIT: Mapping[str, tuple[str, ...]] = {
    "date_trunc": ("ts",),
    **dict.fromkeys(("date_diff", "datediff", "timestampdiff"), ("first", "last")),
    **dict.fromkeys(("date_add", "dateadd", "timestampadd"), ("1", "ts")),
}
# The fields of EXTRACT, with the function that means the same.
FIELDS = {
    **{name: name for name in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")},
    **dict.fromkeys(("dow", "day_of_week", "dayofweek_iso"), "day_of_week"),
    **dict.fromkeys(("doy", "day_of_year"), "day_of_year"),
    **{"epoch": "epoch", "epoch_second": "epoch"},
}


def unit_of_time(word: object) -> str | None:
    """Return the unit of time that a word means, such as ``hours``; None for any other."""
    if not isinstance(word, str):
        return None
    unit = word.lower()
    unit = _SHORT_UNITS.get(unit, unit)
    unit = unit if unit in UNITS_OF_TIME else unit.removesuffix("s")
    return unit if unit in UNITS_OF_TIME else None


_SHORT_UNITS = {
    **dict.fromkeys(("yyyy", "yy", "y", "yr"), "year"), **dict.fromkeys(("q", "qtr"), "quarter"),
    **dict.fromkeys(("mm", "mon"), "month"), **dict.fromkeys(("ww", "wk", "w", "iw"), "week"),
    **dict.fromkeys(("dd", "d", "ddd"), "day"), **dict.fromkeys(("hh", "hh24", "h"), "hour"),
    **dict.fromkeys(("mi", "min"), "minute"), **dict.fromkeys(("ss", "sec", "s"), "second"),
    "ms": "millisecond",
}  # fmt: skip


def unit_fault(name: str, call: str, word: object) -> str:
    """Return what is wrong with the first argument of a function, which must be a unit of time."""
    hint = did_you_mean(word, UNITS_OF_TIME) if isinstance(word, str) else ""
    form = f"{call}('hour', {', '.join(WITH_UNIT[name])})"
    units = ", ".join(UNITS_OF_TIME)
    return f"{call}() takes a unit of time first, as in {form}: {units}{hint}"


# Aggregates of all values of the rows at once: what they mean, in every language and place.

# A new aggregate is one entry of ``SUMMARIES``. It has no running form: conditions on the match so far keep
# the values as a chain, and compute it where they need it.


@dataclass(frozen=True, slots=True)
class Summary:
    """What an aggregate computes from the values that are not null, in the order of their rows."""

    compute: Callable[..., float | int | None]  # of one value or more
    meaning: str  # for the cheat sheet
    of_numbers: bool = True  # False: of values of any type
    counts: bool = False  # whether results are integers, and 0 without values
    spellings: tuple[str, ...] = ()  # other names
    in_sql: bool = True  # False: MATCH_RECOGNIZE has it under another name
    of_truths: str | None = None  # the aggregate of 1 for true and 0 for false that is the same
    picks: bool = False  # whether ``compute`` returns the place of one of the values, which is the result
    by: str | None = None  # the second argument in words. With ``picks``, ``compute`` takes its values alone.
    in_conditions: bool = True  # whether conditions can use it

    @property
    def shown(self) -> str:
        """The arguments of an example."""
        second = "" if self.by is None else ", y" if self.picks else ", 0.9"
        return ("x" if self.of_truths is None else "x > 5") + second

    def of(self, values: list[Any], *by: Any) -> Any:
        """Return the aggregate of any number of values."""
        if not values:
            return 0 if self.counts else None
        return values[self.compute(values)] if self.picks else self.compute(values, *by)

    def of_chain(self, chain: tuple | None) -> float | int | None:
        """Return the aggregate of a chain ``(the values before, the last value)``; None is the empty one."""
        values = []
        while chain is not None:
            chain, value = chain
            values.append(value.item() if hasattr(value, "item") else value)
        return self.of(values[::-1])


def _median(values: list[Any]) -> float | None:
    return float(statistics.median(values))


def _variance(values: list[Any]) -> float | None:
    """Return the mean square distance from the mean; infinite values have none."""
    if not all(map(math.isfinite, values)):
        return None
    if all(isinstance(value, int) for value in values):
        n, total = len(values), sum(values)
        return (n * sum(value * value for value in values) - total * total) / (n * n)
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def _quantile(values: list[Any], share: float) -> float:
    """Return the value below which a share of the values lies, by linear interpolation."""
    ranked, place = sorted(values), share * (len(values) - 1)
    low = math.floor(place)
    below, above = float(ranked[low]), float(ranked[min(low + 1, len(ranked) - 1)])
    return below if below == above else below + (above - below) * (place - low)


def _most_frequent(values: list[Any]) -> int:
    """Return the place of the value that occurs most often; the first of several."""
    return values.index(Counter(values).most_common(1)[0][0])


def _deviation(values: list[Any]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


SUMMARIES = {
    "median": Summary(_median, "the middle value"),
    "std": Summary(
        _deviation, "the standard deviation of all values", spellings=("stdev", "stddev"), in_sql=False
    ),
    "var": Summary(_variance, "the variance of all values", spellings=("variance",), in_sql=False),
    "distinct": Summary(
        lambda values: len(set(values)), "how many different values", False, True,
        spellings=("nunique", "count_distinct"), in_sql=False,
    ),
    "count_if": Summary(
        sum, "how many values are true", False, True, spellings=("countif",), in_sql=False, of_truths="sum"
    ),
    "share": Summary(
        lambda values: sum(values) / len(values), "the true part of the values that are not null, 0 to 1",
        False, of_truths="avg",
    ),
    "quantile": Summary(
        _quantile, "the value below which 90 % lie, for 0.9", spellings=("percentile",), in_sql=False,
        by="a share, such as 0.9", in_conditions=False,
    ),
    "mode": Summary(
        _most_frequent, "the most frequent value", False, in_sql=False, picks=True, in_conditions=False
    ),
    "min_by": Summary(
        lambda keys: keys.index(min(keys)), "x in the row with the least y", False, spellings=("arg_min",),
        in_sql=False, picks=True, by="what is least", in_conditions=False,
    ),
    "max_by": Summary(
        lambda keys: keys.index(max(keys)), "x in the row with the greatest y", False, spellings=("arg_max",),
        in_sql=False, picks=True, by="what is greatest", in_conditions=False,
    ),
}  # fmt: skip
OF_TRUTHS = tuple(name for name, summary in SUMMARIES.items() if summary.of_truths is not None)
OF_SQL = {name: summary for name, summary in SUMMARIES.items() if summary.in_sql}
COUNTING = ("count", *(name for name, summary in SUMMARIES.items() if summary.counts))
SUMMED = ("sum", "avg", *(name for name, summary in SUMMARIES.items() if summary.of_numbers))
