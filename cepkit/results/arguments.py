"""Checks of the arguments that the methods of every result take."""

from __future__ import annotations

import operator
from typing import Any, Literal

import numpy as np

from cepkit.errors import CepError, ResultTooLargeError, WrongTypeError, whole_number
from cepkit.language.numbers import count_text

LIMIT = 1_000_000  # matches that a result builds at once in memory unless the user gives another limit
Limit = int | Literal["auto"] | None


def check_rows(rows: str) -> None:
    """Raise `CepError` unless ``rows`` is ``"one"`` or ``"all"``."""
    if not isinstance(rows, str) or rows not in ("one", "all"):
        raise CepError(f"rows={rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")


def limit_of(limit: Limit, auto: int | None) -> int | None:
    """Return the largest number of matches wanted, or None for any number.

    ``limit`` is the user's argument. ``auto`` is what ``"auto"`` means for this kind of frame.

    Examples
    --------
    >>> limit_of("auto", LIMIT), limit_of(3, LIMIT), limit_of(None, LIMIT)
    (1000000, 3, None)
    """
    if isinstance(limit, str) and limit == "auto":
        return auto
    return None if limit is None else whole_number("limit", limit)


def check_limit(n: int, limit: int | None) -> None:
    """Raise `ResultTooLargeError` when ``n`` matches are more than ``limit``."""
    if limit is not None and n > limit:
        raise ResultTooLargeError(
            f"there are {count_text(n)} matches, more than limit={limit:,}; take a part with head(), "
            "sample() or a slice, go through chunks(), or ask for aggregate()"
        )


def check_key(key: Any) -> None:
    """Raise `WrongTypeError` unless the key of ``matches[key]`` is an integer."""
    if not isinstance(key, int | np.integer) or isinstance(key, np.timedelta64):
        raise WrongTypeError(f"matches are numbered, got {key!r}; for columns use to_frame()")


def number_of(key: int, n: int) -> int:
    """Return the number of one of ``n`` matches; a negative ``key`` counts from the end.

    Raises
    ------
    IndexError
        When no match has this number.

    Examples
    --------
    >>> number_of(-1, 4)
    3
    """
    key = operator.index(key)
    if not -n <= key < n:
        raise no_such_match(key, n)
    return key % n


def no_such_match(number: int, n_matches: int) -> IndexError:
    """Return the `IndexError` for a number that no match has."""
    there = f"there are {count_text(n_matches)}, numbered from 0" if n_matches else "there are no matches"
    sign = "-" if number < 0 else ""
    return IndexError(f"no match has number {sign}{count_text(abs(number))}; {there}")
