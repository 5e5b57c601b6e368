"""Durations as text, exact to the nanosecond, and as ticks of a unit; numbers as text for readers."""

from __future__ import annotations

import math
import operator
import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache

from cepkit.errors import CepError, PatternSyntaxError, PredicateError, WrongTypeError, nearest
from cepkit.limits import TICKS

# Nanoseconds of each unit, from long to short; errors and `format_duration` use these names.
NANOSECONDS = {
    "w": 604_800_000_000_000, "d": 86_400_000_000_000, "h": 3_600_000_000_000, "min": 60_000_000_000,
    "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1,
}  # fmt: skip

# Both the micro sign and the Greek letter mu occur for micro.
_SPELLINGS = {
    "w": "w week weeks", "d": "d day days", "h": "h hr hrs hour hours", "min": "m min mins minute minutes",
    "s": "s sec secs second seconds", "ms": "ms millisecond milliseconds",
    "us": "us \u00b5s \u03bcs microsecond microseconds", "ns": "ns nanosecond nanoseconds",
}  # fmt: skip
UNITS = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings.split()}

_UNEVEN = {"month": "28 to 31 days", "year": "365 or 366 days"}
_UNEVEN |= {
    "months": _UNEVEN["month"], "mo": _UNEVEN["month"], "years": _UNEVEN["year"], "y": _UNEVEN["year"],
}  # fmt: skip

_LONGEST = 400  # digits of a number; 64 bits have 20
_KNOWN_UNITS = "units: ns us ms s min h d w"
_PART = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>[^\W\d_]*)\s*")


@lru_cache(maxsize=256)
def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as ``5 min``, ``2.5 s``, ``500ms`` or ``1h30m``."""
    # A duration is a sum of numbers with units (ns, us, ms, s, min, h, d, w or their English words).
    # ``m`` is a minute. Days have 24 hours.
    if not isinstance(text, str):
        raise WrongTypeError(f"expected a duration as text, such as '5 min', got {type(text).__name__}")
    total, position = Fraction(0), 0
    while position < len(text) or position == 0:
        part = _PART.match(text, position)
        if part is None:
            at = position + len(text[position:]) - len(text[position:].lstrip())
            unexpected = repr(text[at]) if at < len(text) else "the end of the text"
            raise PatternSyntaxError(
                f"a duration is numbers with units, as in '5 s'; expected a number, found {unexpected}",
                text,
                at,
            )
        if not part["unit"]:
            message = f"a duration needs a unit, as in '{part['number']} s'; {_KNOWN_UNITS}"
            raise PatternSyntaxError(message, text, part.start("number"), len(part["number"]))
        if len(part["number"]) > _LONGEST:
            raise PatternSyntaxError(
                "the number is too long", text, part.start("number"), len(part["number"])
            )
        total += Fraction(part["number"]) * NANOSECONDS[_unit(part, text)]
        position = part.end()
    if total.denominator != 1:
        raise PatternSyntaxError("a duration must be a whole number of nanoseconds", text, 0, len(text))
    return int(total)


def positive_duration(argument: str, given: object, hint: str = "") -> str | timedelta | int:
    """Return a duration that must be positive: text, a timedelta, or ticks."""
    is_positive, value = False, given
    if isinstance(given, str):
        try:
            is_positive = parse_duration(given) > 0
        except PatternSyntaxError as error:
            message = f"{argument}: {error.message}"
            raise PatternSyntaxError(message, error.text, error.position, error.length) from None
    elif isinstance(given, timedelta):
        is_positive = given > timedelta(0)
    elif not isinstance(given, bool | float):
        try:
            value = _integer(given) or 0
        except TypeError:
            kind = type(given).__name__
            raise CepError(f"{argument}: expected text, timedelta or an integer, got {kind}") from None
        is_positive = value > 0
    if not is_positive:
        raise CepError(
            f"{argument}: expected a positive duration (text, timedelta, whole ticks), got {given!r}{hint}"
        )
    return value  # type: ignore[return-value]


def duration_ticks(duration: str | timedelta | int, unit: str | None) -> int:
    """Convert a duration to ticks of a time column."""
    ticks = _integer(duration)
    if ticks is None:
        nanoseconds = (
            parse_duration(duration) if isinstance(duration, str) else _timedelta_nanoseconds(duration)
        )
        if unit is None:
            raise PredicateError(
                f"duration {str(duration)!r} has a unit, but the clock is a plain number; "
                "give an integer in the clock's own unit"
            )
        ticks, rest = divmod(nanoseconds, NANOSECONDS[unit])
        if rest:
            raise PredicateError(
                f"duration {str(duration)!r} is not a whole number of ticks: the column counts in {unit}"
            )
    if not 0 <= ticks <= TICKS:
        reason = "is negative" if ticks < 0 else f"does not fit into 64 bits of {unit or 'ticks'}"
        raise PredicateError(f"duration {str(duration)!r} {reason}")
    return ticks


def unit_missing(name: str, window: str | timedelta, column: str) -> CepError:
    """Return the error for a window with a unit on a clock of plain numbers; ``name``: the argument."""
    nanoseconds = parse_duration(window) if isinstance(window, str) else _timedelta_nanoseconds(window)
    seconds, rest = divmod(nanoseconds, NANOSECONDS["s"])
    number = "" if rest else f"write {name}={seconds} if it counts seconds, or "
    return CepError(
        f"{name}={window!r}: column {column!r} is a plain number without unit; {number}make times of it "
        f"first: df[{column!r}] = pd.to_datetime(df[{column!r}], unit='s')"
    )


def format_duration(ticks: int, unit: str | None) -> str:
    """Return ticks as text, or as a plain number without a unit; `parse_duration` reads text >= 0 back."""
    if unit is None:
        return str(ticks)
    parts, rest = [], abs(ticks) * NANOSECONDS[unit]
    for name, size in NANOSECONDS.items():
        if name == "w":
            continue  # '7 d' is easier to read than '1 w'
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {name}")
    sign = "-" if ticks < 0 else ""
    return sign + (" ".join(parts) or f"0 {unit}")


def _unit(part: re.Match[str], text: str) -> str:
    """Return the short name of the unit that a part of a duration has, such as `min` for "minutes"."""
    spelling, at = part["unit"], part.start("unit")
    if spelling.lower() in _UNEVEN or spelling == "M":
        length = _UNEVEN.get(spelling.lower(), "28 to 31 days, if a month is meant; minutes are 'min'")
        raise PatternSyntaxError(
            f"{spelling!r} has no fixed length ({length}); use days", text, at, len(spelling)
        )
    if spelling.lower() not in UNITS:
        hint = nearest(spelling, UNITS)
        raise PatternSyntaxError(f"unknown unit {spelling!r}; {_KNOWN_UNITS}.{hint}", text, at, len(spelling))
    return UNITS[spelling.lower()]


def _integer(value: object) -> int | None:
    """Return ``value`` as an int if it is an integer (numpy's too); None if it is text or a timedelta."""
    if isinstance(value, str | timedelta):
        return None
    # Python treats numpy.timedelta64 as a number; to use its count without its unit would be a silent error.
    if isinstance(value, bool) or "timedelta" in type(value).__name__:
        kind = type(value).__name__
        raise WrongTypeError(f"expected a duration as text, datetime.timedelta or int, got {kind}")
    try:
        return operator.index(value)
    except TypeError:
        raise WrongTypeError(
            f"expected a duration as text, datetime.timedelta or int, got {type(value).__name__} {value!r}"
        ) from None


def _timedelta_nanoseconds(value: timedelta) -> int:
    microseconds = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return microseconds * 1_000 + getattr(value, "nanoseconds", 0)


def days_to_seconds(nanoseconds: int) -> str:
    """Return a duration as SQL writes it: days, then hours, minutes and seconds."""
    days, rest = divmod(abs(nanoseconds), NANOSECONDS["d"])
    hours, rest = divmod(rest, NANOSECONDS["h"])
    minutes, rest = divmod(rest, NANOSECONDS["min"])
    seconds, rest = divmod(rest, NANOSECONDS["s"])
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}{fraction}"


# Number formatting for readers: short counts in full, long ones as three digits and a power of ten.

MOST_DIGITS = 21  # shown in full


def count_text(n: int, *, exact: bool = True) -> str:
    """Return a count as text that fits into a line."""
    sign = "" if exact else "≥ "
    if n < 10**MOST_DIGITS:
        return f"{sign}{n:,}"
    return f"{sign or 'about '}{_three_digits(n, is_bound=not exact)}"


def plural(noun: str, n: int) -> str:
    """Return a noun in the singular for 1, otherwise in the plural."""
    return noun if n == 1 else f"{noun}{'es' if noun.endswith('ch') else 's'}"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun, as ``1 state``, ``1,200 states`` or ``2 matches``."""
    return f"{n:,} {plural(noun, n)}"


def seconds_text(seconds: float) -> str:
    """Return how long something took, in milliseconds below a second."""
    milliseconds = max(1, round(1000 * seconds))
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{seconds:,.1f} s"


def rough_text(n: int) -> str:
    """Return an approximate number of at least 0 as text; from a million on as digits and a power of ten."""
    return f"{n:,}" if n < 1_000_000 else _three_digits(n)


def _three_digits(n: int, *, is_bound: bool = False) -> str:
    """Return a number of at least 100 as three digits and a power of ten; a bound is rounded down."""
    # Converting all digits is slow, and Python refuses beyond 4,300 digits; logarithms are not exact.
    exponent = int(math.log10(n))
    exponent += (n >= 10 ** (exponent + 1)) - (n < 10**exponent)
    unit = 10 ** (exponent - 2)
    digits = n // unit if is_bound else (n + unit // 2) // unit
    if digits == 1000:
        digits, exponent = 100, exponent + 1
    return f"{digits // 100}.{digits % 100:02d}e{exponent}"
