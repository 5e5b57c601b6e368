"""Random regular expressions over letters, for Python's ``re`` and for MATCH_RECOGNIZE over rows of letters.

Both take the leftmost match, and among those the first one in the order of preference.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

import cepkit as cep
from tests.support.peers import Case

PROGRAM = None  # `re` is in this process
SHARED = 20  # seeds with one pattern
DEFINED = {  # the condition of each variable, for both sides
    "A": ("a", "x = 'a'"),
    "B": ("b", "x = 'b'"),
    "C": ("[^ab]", "x NOT IN ('a', 'b')"),
    "D": ("[ab]", "x IN ('a', 'b')"),
    "E": (".", "TRUE"),
}
SIGNS = ("+", "*", "?", "{2}", "{1,2}", "{2,}", "{,2}", "{0,3}")


def _pattern(source: random.Random, depth: int) -> str:
    """Return a pattern in the words of SQL; a repeated part is never empty."""
    choice = source.random()
    if depth == 0 or choice < 0.2:
        return source.choice("ABCDE")
    if choice < 0.6:
        return " ".join(_pattern(source, depth - 1) for _ in range(source.choice((2, 2, 3))))
    if choice < 0.75:
        return f"({_pattern(source, depth - 1)} | {_pattern(source, depth - 1)})"
    body = _pattern(source, depth - 1)
    if re.fullmatch(_of_python(body), ""):
        body = source.choice("ABCDE")
    return f"({body}){source.choice(SIGNS)}{source.choice(('', '', '?'))}"


def _of_python(pattern: str) -> str:
    """Return a pattern in the words of ``re``."""
    return re.sub("[A-E]", lambda name: DEFINED[name[0]][0], pattern).replace(" ", "").replace("(", "(?:")


def random_case(seed: int) -> Case:
    """Return a pattern that is never empty, and a word."""
    source = random.Random(f"pattern {seed // SHARED}")
    pattern = _pattern(source, 3)
    while re.fullmatch(_of_python(pattern), ""):
        pattern = _pattern(source, 3)
    return pattern, [(letter,) for letter in random.Random(seed).choices("aaabbcd", k=seed % SHARED + 1)]


def answers(cases: Sequence[Case]) -> list[list[tuple[int, int]]]:
    """Return the first and the last place of each match of ``re``."""
    return [
        [(found.start(), found.end() - 1) for found in re.finditer(_of_python(pattern), _word(events))]
        for pattern, events in cases
    ]


def _word(events: list[tuple[str]]) -> str:
    return "".join(letter for (letter,) in events)


def ours(seed: int, case: Case) -> Counter:
    """Return the first and the last row of each match of `cepkit.match`."""
    pattern, events = case
    frame = pd.DataFrame({"t": range(len(events)), "x": [*_word(events)]})
    measures = "FIRST(t) AS first_t, LAST(t) AS last_t"
    define = ", ".join(
        f"{name} AS {condition}" for name, (_, condition) in DEFINED.items() if name in pattern
    )
    text = f"MATCH_RECOGNIZE (ORDER BY t MEASURES {measures} PATTERN ({pattern}) DEFINE {define})"
    result = cep.match(frame, text).to_frame()
    return Counter(zip(result["first_t"].tolist(), result["last_t"].tolist(), strict=True))


def counted(case: Case, rows: Iterable[tuple[int, int]]) -> Counter:
    """Return how often each match occurs."""
    return Counter(rows)


def rule(text: str, error: cep.CepError | None, missing: Counter) -> None:
    """Return None: there is no rule by which the answers may differ."""
