"""Regular expressions of Java as those of Python."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from cepkit.errors import PredicateError

_ANY = r"[^\n\r\x85\u2028\u2029]"
_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_SAME = frozenset("dDwWsSbBAtnrfuxa")  # escapes with the same meaning in both


@lru_cache(maxsize=256)
def java_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression of Java as a compiled one of Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(_translated(text), re.ASCII)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise PredicateError(f"{text!r} is no regular expression that runs here: {error}") from None


def _refusal(text: str, part: str) -> PredicateError:
    return PredicateError(
        f"{part!r} in the regular expression {text!r} does not run; write it in another way"
    )


def _translated(text: str) -> str:
    flags = re.match(r"\(\?([is]+)\)", text)
    start = flags.end() if flags else 0
    made, place, in_class = [text[:start]], start, False
    spans_lines = flags is not None and "s" in flags[1]
    while place < len(text):
        two, sign = text[place : place + 2], text[place]
        place += 1
        if sign == "\\":
            place += 1
            if two[1:] == "z" and not in_class:
                made.append(r"\Z")
                continue
            if two[1:].isalnum() and two[1:].isascii() and two[1:] not in _SAME and not two[1:].isdecimal():
                raise _refusal(text, two)
            if two[1:] == "0" or (two[1:] == "x" and text[place : place + 1] == "{"):
                raise _refusal(text, two)
            made.append(two)
        elif in_class:
            if sign == "[" or two == "&&":
                raise _refusal(text, two)
            in_class = sign != "]"
            made.append(sign)
        elif sign == "[":
            in_class = True
            skip = 1 if text[place : place + 1] == "^" else 0
            made.append(text[place - 1 : place + skip])
            place += skip
            if text[place : place + 1] == "]":  # Java begins a class with it or refuses it
                raise _refusal(text, "[]")
        elif sign == "(" and two == "(?":
            after = text[place + 1 : place + 2]
            if after == "<" and text[place + 2 : place + 3] not in ("=", "!"):
                made.append("(?P<")
                place += 2
            elif after in (":", "=", "!", "<", ">"):
                made.append(two)
                place += 1
            else:
                raise _refusal(text, text[place - 1 : place + 2])
        elif sign == "." and not spans_lines:
            made.append(_ANY)
        else:
            made.append(_END if sign == "$" else sign)
    return "".join(made)


_REFERENCE = re.compile(
    r"\\(?P<sign>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|(?P<bad>[\\$])", re.S
)


def java_replacement(found: re.Match[str], replacement: str) -> str:
    """Return the text for a match: ``$1`` and ``${name}`` are groups, and a backslash quotes a sign."""

    def one(part: re.Match[str]) -> str:
        if part["sign"] is not None:
            return part["sign"]
        group: str | int | None = part["name"]
        rest = ""
        if part["number"] is not None:
            number = part["number"]
            group = int(number[0])
            n_digits = 1
            while n_digits < len(number) and int(number[: n_digits + 1]) <= found.re.groups:
                n_digits += 1
                group = int(number[:n_digits])
            rest = number[n_digits:]
        try:
            if group is None:
                raise IndexError
            return (found[group] or "") + rest
        except IndexError:
            raise PredicateError(
                f"{part[0]!r} in the replacement {replacement!r} names no group of the regular expression; "
                r"write \$ for the sign"
            ) from None

    return _REFERENCE.sub(one, replacement)
