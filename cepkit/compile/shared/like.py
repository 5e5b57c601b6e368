"""SQL's LIKE on texts, without backtracking."""

from __future__ import annotations

import re
from collections.abc import Callable


def like_test(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests texts by a pattern of LIKE: ``%`` is any text, ``_`` any character.

    Notes
    -----
    Time O(characters of the text x characters of the pattern).

    Examples
    --------
    >>> fits = like_test("a%b_")
    >>> fits("axxbc"), fits("ab"), fits("abcab!")
    (True, False, True)
    """
    first, *others = (
        re.compile("".join("." if char == "_" else re.escape(char) for char in piece), re.DOTALL)
        for piece in pattern.split("%")
    )
    if not others:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = others
    *_, n_last = map(len, pattern.split("%"))

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
