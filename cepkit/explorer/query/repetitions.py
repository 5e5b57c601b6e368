"""The numbers of rounds in a query's text, such as the 3 of ``drop{3,}``: their places and their limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cepkit.explorer.query.text import TextReading, is_sase
from cepkit.language.match_recognize.patterns import RowPattern
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.sequences.parsing import clauses

_BRACES = re.compile(
    r"""'[^'\n]*'|"[^"\n]*"|`[^`\n]*`"""  # names and texts may contain braces
    r"|\{\s*(?P<low>[0-9]+)?\s*(?P<comma>,)?\s*(?P<high>[0-9]+)?\s*\}"
)
_NAME = re.compile(r"[\w.`]+$")
_LEAST_ROOM = 10  # a slider without an upper limit reaches at least this number


@dataclass(frozen=True, slots=True)
class Repetition:
    """A number of rounds in a text."""

    label: str  # the repeated part with its braces; of two numbers, also which of them it is
    # value, low, high: the number, the least and the greatest number that a slider offers
    value: int
    low: int
    high: int
    is_open: bool  # whether larger numbers than ``high`` are possible
    # start, end: the place of the number in the text
    start: int
    end: int


def repetitions_in(reading: TextReading) -> Iterator[Repetition]:
    r"""Yield the numbers of rounds of a text without mistakes, in the order of the text.

    The least number of rounds is 1, or 0 if the text says 0.
    """
    text = reading.text
    several = 2 if is_sase(text) else 1  # a sequence calls only several events a repetition
    for begin, stop in _patterns(reading):
        for braces in _BRACES.finditer(text, begin, stop):
            low, high = (None if braces[bound] is None else int(braces[bound]) for bound in ("low", "high"))
            if low is None and high is None:
                continue
            label = _repeated(text[begin : braces.start()]) + "".join(braces[0].split())
            if low is not None:
                least = min(low, 1 if braces["comma"] else several)
                limit = _reach(low) if high is None else high
                which = "" if high is None else ": at least"
                yield Repetition(label + which, low, least, limit, high is None, *braces.span("low"))
            if high is not None:
                which = "" if low is None else ": at most"
                least = max(low or 0, min(high, several))
                yield Repetition(label + which, high, least, _reach(high), True, *braces.span("high"))


def _patterns(reading: TextReading) -> Iterator[tuple[int, int]]:
    """Yield the places of the patterns in a text."""
    if isinstance(reading.query, RowsQuery):
        spans = [part.span for part in walk_pattern(reading.query.pattern) if part.span is not None]
        if spans:
            yield min(begin for begin, _ in spans), max(stop for _, stop in spans)
        return
    if is_sase(reading.text):
        yield from ((begin, stop) for word, begin, stop in clauses(reading.text) if word == "PATTERN")
    else:
        yield from ((piece.start, piece.stop) for piece in reading.pieces if piece.name is None)


def walk_pattern(pattern: RowPattern) -> Iterator[RowPattern]:
    """Yield a row pattern and all of its parts."""
    yield pattern
    for part in pattern.children():
        yield from walk_pattern(part)


def _reach(value: int) -> int:
    return max(_LEAST_ROOM, 4 * value)


def _repeated(before: str) -> str:
    """Return the part that braces after a text repeat: a name, or a group in parentheses."""
    if not before.endswith(")"):
        return name[0] if (name := _NAME.search(before)) else ""
    depth = 0
    for place in range(len(before) - 1, -1, -1):
        depth += (before[place] == ")") - (before[place] == "(")
        if not depth:
            group = " ".join(before[place:].split())
            return group if len(group) <= _LEAST_ROOM * 2 else "(…)"
    return ""
