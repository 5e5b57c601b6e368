"""Checks of the arguments that the methods of every result take."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, cast

import numpy as np

from cepkit.engines.shared.sequence_set import FEW_MATCHES
from cepkit.errors import CepError, ResultTooLargeError, WrongTypeError, short_text, whole_number
from cepkit.language.numbers import count_text
from cepkit.limits import bound_memory

LIMIT = 1_000_000  # matches that a result builds at once in memory unless the user gives another limit
Limit = int | Literal["auto"] | None
CURE = (
    "Take a part with head(), sample() or a slice, ask for count() or aggregate(), go through chunks(), or "
    "write the matches with write_parquet()"
)
PER_CELL = 32  # bytes of a value of the result: its row, its Arrow value, and its copies
PER_NUMBER = 100  # bytes of the number of a match: a Python integer in lists and in a set
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


def length_of(n_matches: int) -> int:
    """Return a number of matches as ``len`` needs it; raise `OverflowError` from 2^63."""
    if n_matches >= 2**63:
        raise OverflowError(f"there are {count_text(n_matches)} matches; len() ends at 2^63, use count()")
    return n_matches


def check_key(key: Any) -> None:
    """Raise `WrongTypeError` unless the key of ``matches[key]`` is an integer."""
    if not isinstance(key, int | np.integer) or isinstance(key, np.timedelta64):
        raise WrongTypeError(f"matches are numbered, got {short_text(repr(key))}; for columns use to_frame()")


def number_of_items(what: str, numbers: Any) -> int:
    """Return how many numbers an argument has, 0 if it does not say; raise `WrongTypeError` for no list."""
    if isinstance(numbers, str | bytes | Mapping) or not hasattr(type(numbers), "__iter__"):
        raise WrongTypeError(
            f"{what}={short_text(repr(numbers))}: expected the numbers of matches in a list, such as [0, -1]"
        )
    if getattr(numbers, "ndim", 1) == 0:  # an array of one number has no length
        raise WrongTypeError(f"{what}: expected a list of numbers, got a single one")
    try:
        return len(numbers)
    except OverflowError:  # a range of more than 2^63
        return sys.maxsize
    except TypeError:
        return 0


def number_of(key: int, n: int) -> int:
    """Return the number of one of ``n`` matches; a negative ``key`` counts from the end."""
    if isinstance(key, bool | np.bool_):
        raise WrongTypeError(f"matches are numbered from 0; {bool(key)} is no number")
    try:
        key = operator.index(key)
    except TypeError:
        raise WrongTypeError(f"matches are numbered from 0; {short_text(repr(key))} is no number") from None
    if not -n <= key < n:
        raise no_such_match(key, n)
    return key % n


def bounds_of(key: slice, n: int) -> tuple[int, int, int]:
    """Return the first number, the stop and the step of a slice of ``n`` matches, as for a list."""
    try:
        return key.indices(n)
    except TypeError:
        raise WrongTypeError(
            f"matches are numbered from 0; the slice {short_text(str(key))} has other bounds"
        ) from None


def most_needed(key: slice) -> int | None:
    """Return how many first matches tell which ones a slice means, or None if these are not a few."""
    bounds = [0 if bound is None else bound for bound in (key.start, key.stop, key.step)]
    are_numbers = all(isinstance(bound, int | np.integer) and bound >= 0 for bound in bounds)
    return int(key.stop) if are_numbers and key.stop is not None and 0 < key.stop <= FEW_MATCHES else None


def array_of_range(numbers: range) -> np.ndarray:
    """Return the numbers of a range of matches, int64. The step of a single number may have any size."""
    if len(numbers) < 2:
        return np.array(numbers, np.int64)
    return np.arange(numbers.start, numbers.stop, numbers.step)


def no_such_match(number: int, n_matches: int) -> IndexError:
    """Return the `IndexError` for a number that no match has."""
    there = f"there are {count_text(n_matches)}, numbered from 0" if n_matches else "there are no matches"
    sign = "-" if number < 0 else ""
    return IndexError(f"no match has number {sign}{count_text(abs(number))}; {there}")
