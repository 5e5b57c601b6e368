"""The functions of texts in MATCH_RECOGNIZE. Characters count from 1, as in Trino."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepkit.events import INTEGER, TEXT
from cepkit.limits import TEXT as LONGEST
from cepkit.limits import refuse_beyond


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
