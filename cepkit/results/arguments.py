"""Checks of the arguments that the methods of every result take."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

import numpy as np

from cepkit.errors import CepError, ResultTooLargeError, WrongTypeError, whole_number
from cepkit.language.numbers import count_text
from cepkit.limits import bound_memory

LIMIT = 1_000_000  # matches that a result builds at once in memory unless the user gives another limit
Limit = int | Literal["auto"] | None
CURE = (
    "Take a part with head(), sample() or a slice, ask for count() or aggregate(), go through chunks(), or "
    "write the matches with write_parquet()"
)
PER_CELL = 32  # bytes of a value of the result: its row, its Arrow value, and its copies
_Method = TypeVar("_Method", bound=Callable[..., Any])


def bounded(method: _Method) -> _Method:
    """Return a method of a result that obeys its ``_memory_limit``; ``_cure`` says what else to do."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        with bound_memory(self._memory_limit, self._cure):
            return method(self, *args, **keywords)

    return cast(_Method, call)


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
            "sample() or a slice, go through chunks(), ask for aggregate(), or write all of them with "
            "write_parquet()"
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
