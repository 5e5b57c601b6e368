"""Siddhi's functions of texts, ``str:…``. Places count from 0.

Differs: a function gives null where Siddhi stops with an exception at a value, such as null or a place after
the end. A character outside the basic plane counts as one place, and in Java as two.
"""

from __future__ import annotations

import re
from typing import Any

from cepkit.siddhiql.functions.conversions import to_text
from cepkit.siddhiql.functions.java_regex import java_pattern, java_replacement
from cepkit.siddhiql.functions.signatures import BOOL, INT, STRING, WHOLE, Function, present

_TEXT = (STRING,)
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim takes away


def _joined(*parts: Any) -> str:
    return "".join(to_text(part) for part in parts if part is not None)


def _contains(text: str | None, part: str | None) -> bool | None:
    if text is None:
        return False
    return None if part is None else part in text


def _upper(sign: str) -> str:
    upper = sign.upper()
    return upper if len(upper) == 1 else sign


def _equals_ignore_case(one: str | None, other: str | None) -> bool | None:
    if one is None or other is None:
        return None if one is None else False
    pairs = ((_upper(a), _upper(b)) for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and all(a == b or a.lower() == b.lower() for a, b in pairs)


def _compare(one: str, other: str) -> int:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return ord(a) - ord(b)
    return len(one) - len(other)


def _char_at(text: str, place: int) -> str | None:
    return text[place] if 0 <= place < len(text) else None


def _part(text: str, first: int | str, second: int | None = None) -> str | None:
    if isinstance(first, str):
        found = java_pattern(first).search(text)
        group = second or 0
        if found is None:
            return ""
        return found[group] if 0 <= group <= found.re.groups else None
    end = len(text) if second is None else first + second
    return text[first:end] if 0 <= first <= end <= len(text) else None


def _locate(part: str, text: str, start: int = 0) -> int | None:
    if not 0 <= start <= len(text):
        return None
    return text[start:].find(part) + start


def _split(text: str, regex: str, place: int) -> str | None:
    parts, start = [], 0
    for found in java_pattern(regex).finditer(text):
        if found.end() > 0:
            parts.append(text[start : found.start()])
            start = found.end()
    if parts:
        parts.append(text[start:])
        while parts and not parts[-1]:
            parts.pop()
    else:
        parts = [text]
    return parts[place] if 0 <= place < len(parts) else None


def _replaced(text: str, regex: str, replacement: str, n_times: int) -> str:
    def one(found: re.Match[str]) -> str:
        return java_replacement(found, replacement)

    return java_pattern(regex).sub(one, text, count=n_times)


TEXT_FUNCTIONS = {
    "str:charAt": Function((_TEXT, WHOLE), STRING, present(_char_at)),
    "str:coalesce": Function((_TEXT,), STRING, lambda *texts: next((t for t in texts if t is not None), None),
                             repeats=True),
    "str:concat": Function(((),), STRING, _joined, repeats=True),
    "str:contains": Function((_TEXT, _TEXT), BOOL, _contains),
    "str:equalsIgnoreCase": Function((_TEXT, _TEXT), BOOL, _equals_ignore_case),
    "str:length": Function((_TEXT,), INT, present(len)),
    "str:locate": Function((_TEXT, _TEXT, WHOLE), INT, present(_locate), n_optional=1),
    "str:lower": Function((_TEXT,), STRING, present(str.lower)),
    "str:regexp": Function(
        (_TEXT, _TEXT), BOOL, present(lambda text, regex: java_pattern(regex).fullmatch(text) is not None),
        regex_at=1,
    ),
    "str:replaceAll": Function(
        (_TEXT, _TEXT, _TEXT), STRING, present(lambda *given: _replaced(*given, n_times=0)), regex_at=1
    ),
    "str:replaceFirst": Function(
        (_TEXT, _TEXT, _TEXT), STRING, present(lambda *given: _replaced(*given, n_times=1)), regex_at=1
    ),
    "str:reverse": Function((_TEXT,), STRING, present(lambda text: text[::-1])),
    "str:split": Function((_TEXT, _TEXT, WHOLE), STRING, present(_split), regex_at=1),
    "str:strcmp": Function((_TEXT, _TEXT), INT, present(_compare)),
    "str:substr": Function(
        (_TEXT, (*WHOLE, STRING), WHOLE), STRING, present(_part), n_optional=1, regex_at=1
    ),
    "str:trim": Function((_TEXT,), STRING, present(lambda text: text.strip(_BLANKS))),
    "str:upper": Function((_TEXT,), STRING, present(str.upper)),
}  # fmt: skip
