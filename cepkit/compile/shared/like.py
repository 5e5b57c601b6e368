"""SQL's LIKE on texts, without backtracking."""

from __future__ import annotations

import re
from collections.abc import Callable


def like_test(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Return a function that tests texts by a pattern of LIKE: ``%`` is any text, ``_`` any character.

    The character after ``escape`` stands for itself.
    """
    pieces = _pieces(pattern, escape)
    first, *others = (re.compile("".join(piece), re.DOTALL) for piece in pieces)
    if not others:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = others
    n_last = len(pieces[-1])

    def fits(text: str) -> bool:
        begun, end = first.match(text), len(text) - n_last
        if begun is None or end < begun.end() or last.fullmatch(text, end) is None:
            return False
        place = begun.end()
        for piece in middle:  # the first place of each piece leaves most to the others
            found = piece.search(text, place, end)
            if found is None:
                return False
            place = found.end()
        return True

    return fits


def text_tests(text: str) -> dict[str, Callable[[str], bool]]:
    """Return the tests of a text by their names."""
    return {
        "starts_with": lambda x: x.startswith(text), "ends_with": lambda x: x.endswith(text),
        "contains": lambda x: text in x, "like": like_test(text),
    }  # fmt: skip


def _pieces(pattern: str, escape: str | None) -> list[list[str]]:
    """Return the regex of each character, in lists between the signs for any text."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1].append(re.escape(next(characters, escape)))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    return pieces
