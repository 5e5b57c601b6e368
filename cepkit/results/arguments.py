"""Arguments that the methods of every result take, checked in the same words."""

from __future__ import annotations

import operator
from typing import Any, Literal

import numpy as np

from cepkit.errors import CepError, ResultTooLargeError, whole_number
from cepkit.language.numbers import count_text

LIMIT = 1_000_000  # matches that a result makes at once in memory, unless another limit is given
Limit = int | Literal["auto"] | None


def check_rows(rows: str) -> None:
    """Raise the error for a value of ``rows`` that is neither ``"one"`` nor ``"all"``.

    Examples
    --------
    >>> check_rows("some")
    Traceback (most recent call last):
    cepkit.errors.CepError: rows='some': write 'one' (a row per match) or 'all' (the matched rows)
    """
    if rows not in ("one", "all"):
        raise CepError(f"rows={rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")


def limit_of(limit: Limit, auto: int | None) -> int | None:
    """Return the largest number of matches wanted; None: any number.

    Parameters
    ----------
    limit : int, "auto" or None
        As the user gives it.
    auto : int or None
        What ``"auto"`` means for this kind of frame.

    Examples
    --------
    >>> limit_of("auto", LIMIT), limit_of(3, LIMIT), limit_of(None, LIMIT)
    (1000000, 3, None)
    """
    if isinstance(limit, str) and limit == "auto":
        return auto
    return None if limit is None else whole_number("limit", limit)


def check_limit(n: int, limit: int | None) -> None:
    """Raise the error for more matches than wanted.

    Examples
    --------
    >>> check_limit(5, 5)
    >>> check_limit(5, 4)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cepkit.errors.ResultTooLargeError: there are 5 matches, more than limit=4; take a part with head(), ...
    """
    if limit is not None and n > limit:
        raise ResultTooLargeError(
            f"there are {count_text(n)} matches, more than limit={limit:,}; take a part with head(), "
            "sample() or a slice, go through chunks(), or ask for aggregate()"
        )


def check_key(key: Any) -> None:
    """Raise the error for a key that is neither a number nor a slice.

    Examples
    --------
    >>> check_key("price")
    Traceback (most recent call last):
    TypeError: a match has a number, got 'price'; columns are those of to_frame()
    """
    if not isinstance(key, int | np.integer):
        raise TypeError(f"a match has a number, got {key!r}; columns are those of to_frame()")


def number_of(key: int, n: int) -> int:
    """Return the number of a match, counted from the end when ``key`` is negative.

    Parameters
    ----------
    key : int
        As the user gives it.
    n : int
        How many matches there are.

    Raises
    ------
    IndexError
        When no match has this number.

    Examples
    --------
    >>> number_of(-1, 4)
    3
    >>> number_of(4, 4)
    Traceback (most recent call last):
    IndexError: no match has number 4; there are 4, numbered from 0
    """
    key = operator.index(key)
    if not -n <= key < n:
        raise no_such_match(key, n)
    return key % n


def no_such_match(number: int, n_matches: int) -> IndexError:
    """Return the error for a number that no match has."""
    there = f"there are {count_text(n_matches)}, numbered from 0" if n_matches else "there is none"
    sign = "-" if number < 0 else ""
    return IndexError(f"no match has number {sign}{count_text(abs(number))}; {there}")
