"""Read and print the intervals of SQL, such as ``INTERVAL '1 02:30:00' DAY TO SECOND``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import Refusal, span_of, unquoted
from cepkit.language.expressions.durations import NANOSECONDS, UNITS, format_duration, parse_duration
from cepkit.language.match_recognize import patterns as rp

_WORDS = {
    "w": "WEEK", "d": "DAY", "h": "HOUR", "min": "MINUTE", "s": "SECOND", "ms": "MILLISECOND",
    "us": "MICROSECOND", "ns": "NANOSECOND",
}  # fmt: skip
_UNEVEN = ("month", "months", "year", "years", "quarter", "quarters")
_FIELDS = ("d", "h", "min", "s")  # the fields of an interval, from long to short
_MOST = {"h": 24, "min": 60, "s": 60}  # every field after the first one is below this number
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]{0,9})?")


def read_interval(children: Sequence[Any]) -> ex.Expression:
    """Return the literal of the tokens of an interval; a negative interval is the opposite of one."""
    _, minus, text, first, *rest = children
    given = [child for child in children if child is not None]
    span = span_of(given)
    names = [child for child in rest if child is not None and getattr(child, "type", "") == "NAME"]
    unit, last = first.lower(), names[0].lower() if names else None
    if unit in _UNEVEN or last in _UNEVEN:
        raise Refusal(
            "months and years have no fixed length, and intervals of them are not supported; write days, as "
            "in INTERVAL '30' DAY",
            span,
        )
    if unit not in UNITS or (last is not None and last not in UNITS):
        raise Refusal("an interval has a unit, as in INTERVAL '5' MINUTE", span)
    written = unquoted(text).strip()
    is_negative = written.startswith("-")
    amount = written[1:].strip() if is_negative else written.removeprefix("+")
    if last is None and not _NUMBER.fullmatch(amount):
        raise Refusal("an interval has one number in quotes, as in INTERVAL '5' MINUTE", span)
    duration = (
        f"{amount} {UNITS[unit]}" if last is None else _duration(amount, UNITS[unit], UNITS[last], span)
    )
    literal = rp.IntervalLiteral(duration, span=span)
    return ex.Negative(literal, span=span) if is_negative is not (minus is not None) else literal


def _duration(amount: str, first: str, last: str, span: tuple[int, int]) -> str:
    """Return the duration of a text with several fields, such as ``1 02:30:00``."""
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1] if first in _FIELDS else ()
    if len(fields) < 2 or last not in _FIELDS:
        raise Refusal("an interval goes from a longer unit to a shorter one, as in DAY TO SECOND", span)
    given = re.split(r"\s+|:", amount, maxsplit=1) if first == "d" else [amount]
    numbers = [given[0], *given[1].split(":")] if len(given) == 2 else amount.split(":")
    fits = len(numbers) == len(fields) and all(number.isdecimal() for number in numbers[:-1])
    if not fits or not (_SECONDS.fullmatch(numbers[-1]) if last == "s" else numbers[-1].isdecimal()):
        shown = {"d": "1 ", "h": "02:", "min": "30:", "s": "00:"}
        example = "".join(shown[field] for field in fields).strip().rstrip(":")
        words = f"{_WORDS[first]} TO {_WORDS[last]}"
        raise Refusal(f"expected a text such as INTERVAL '{example}' {words}", span)
    for number, field in zip(numbers[1:], fields[1:], strict=True):
        if float(number) >= _MOST[field]:
            raise Refusal(
                f"{number} is too much for the field {_WORDS[field]}; it stays below {_MOST[field]}", span
            )
    parts = " ".join(f"{number} {field}" for number, field in zip(numbers, fields, strict=True))
    return format_duration(parse_duration(parts), "ns")


def print_interval(duration: str) -> str:
    """Return the literal of a duration as SQL text."""
    parts = duration.split()
    if len(parts) == 2:
        return f"INTERVAL '{parts[0]}' {_WORDS[parts[1]]}"
    days, rest = divmod(parse_duration(duration), NANOSECONDS["d"])
    hours, rest = divmod(rest, NANOSECONDS["h"])
    minutes, rest = divmod(rest, NANOSECONDS["min"])
    seconds, rest = divmod(rest, NANOSECONDS["s"])
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"INTERVAL '{days} {hours:02}:{minutes:02}:{seconds:02}{fraction}' DAY TO SECOND"
