"""The base class by which `Matches` reads the matches of any kind of query, and matches one by one."""

from __future__ import annotations

import functools
import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

import numpy as np
import pandas as pd

from cepkit.engines.measures.regex_measures import Measured
from cepkit.engines.shared.sequence_set import FEW_MATCHES
from cepkit.errors import (
    CepError,
    ResultTooLargeError,
    WrongTypeError,
    column_not_found,
    short_text,
    whole_number,
)
from cepkit.events import Events, Frame, Source
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import count_text
from cepkit.limits import bound_memory

if TYPE_CHECKING:
    from cepkit.engines.counting.estimate import CountEstimate


# The base class by which `Matches` reads the matches of any kind of query.

DRAWN = 200  # matches that a picture shows when they must be built first


class Items(Protocol):
    """The events of some matches: match m has the items from ``first_item_of_match[m]`` to ``[m + 1]``."""

    @property
    def event_of_item(self) -> np.ndarray:
        """Return the positions of the items in stream order."""
        ...

    @property
    def first_item_of_match(self) -> np.ndarray:
        """Return where the items of each match begin, int64, (n_matches + 1,)."""
        ...

    @property
    def match_of_item(self) -> np.ndarray:
        """Return the match of each item, int64, (n_items,)."""
        ...


class Part(Protocol):
    """Some matches as arrays: a `MatchSet` or a `MatchBlock`."""

    @property
    def first(self) -> np.ndarray:
        """Return the positions of the first events, int64, (n_matches,)."""
        ...

    @property
    def last(self) -> np.ndarray:
        """Return the positions of the last events, int64, (n_matches,)."""
        ...

    def __len__(self) -> int: ...

    def take(self, matches: np.ndarray | slice) -> Part:
        """Return these matches in the given order."""
        ...


AnyPart = TypeVar("AnyPart", bound=Part)


class FoundMatches(ABC, Generic[AnyPart]):
    """The matches of a program in some events, in canonical order, built on demand.

    What a kind of query does not define asks the engine's own object.

    """

    program: Any  # a `Program` or a `SequenceProgram`
    whole: Any  # the engine's own object: a `MatchSet` or a `SequenceSet`
    run: Any  # the engine's record of its run, or None
    hint: str  # the call that explains why nothing matches

    @property
    def events(self) -> Events:
        """Return the events that were searched."""
        return self.whole.events

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.whole.count()

    def any(self) -> bool:
        """Return whether a match exists."""
        return self.whole.any()

    def at_least(self) -> tuple[int, bool]:
        """Return a lower bound of the number of matches that is cheap to find, and whether it is exact."""
        return self.whole.at_least()

    def at_most(self) -> int:
        """Return a number that the count does not exceed: the count unless another is quicker to find."""
        return self.count()

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        return self.whole.ends()

    def first(self, n: int) -> AnyPart:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.first(n)

    def glance(self, n: int) -> AnyPart:
        """Return up to ``n`` matches; the first ones if they are cheap to find."""
        return self.whole.glance(n)

    def sample(self, n: int, seed: int) -> AnyPart:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        return self.whole.sample(n, seed)

    def take(self, numbers: Sequence[int]) -> AnyPart:
        """Return the matches with these numbers, in this order."""
        return self.whole.take(list(numbers))

    def blocks(self, size: int) -> Iterator[AnyPart]:
        """Yield all matches in blocks of at most ``size``."""
        return self.whole.blocks(size)

    @abstractmethod
    def bytes_to_build(self, n: int) -> int:
        """Return the least memory in bytes that ``n`` matches take while they are built."""

    @property
    @abstractmethod
    def nothing(self) -> AnyPart:
        """Return no matches."""

    @abstractmethod
    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches."""

    @abstractmethod
    def for_picture(self) -> AnyPart:
        """Return the matches from which a picture selects."""

    @abstractmethod
    def all(self) -> AnyPart:
        """Return all matches."""

    @abstractmethod
    def narrow(self, numbers: range) -> FoundMatches[AnyPart]:
        """Return the matches with these numbers as a result of their own."""

    @abstractmethod
    def measure(self, part: AnyPart, source: Source) -> Mapping[str, Measured]:
        """Return the result columns of a part."""

    @abstractmethod
    def items(self, part: AnyPart) -> Items:
        """Return the events of a part."""

    @abstractmethod
    def variables(self, part: AnyPart) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""

    @abstractmethod
    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""


class FoundInMemory(FoundMatches[AnyPart]):
    """Matches that are all in memory, in the order of their last rows."""

    def count(self) -> int:
        """Return the exact number of matches."""
        return len(self.whole)

    def any(self) -> bool:
        """Return whether a match exists."""
        return len(self.whole) > 0

    def at_least(self) -> tuple[int, bool]:
        """Return the number of matches, which is exact."""
        return len(self.whole), True

    def bytes_to_build(self, n: int) -> int:
        """Return 0: the matches are built."""
        return 0

    @property
    def nothing(self) -> AnyPart:
        """Return no matches."""
        return self.whole.take(slice(0, 0))

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return the exact number of matches as an estimate."""
        from cepkit.engines.counting.estimate import exactly

        return exactly(len(self.whole))

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        return np.unique(self.whole.last, return_counts=True)

    def first(self, n: int) -> AnyPart:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.take(slice(0, n))

    glance = first

    def for_picture(self) -> AnyPart:
        """Return all matches: a picture selects from them."""
        return self.whole

    def sample(self, n: int, seed: int) -> AnyPart:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        n_matches = len(self.whole)
        drawn = np.random.default_rng(seed).choice(n_matches, size=min(n, n_matches), replace=False)
        return self.whole.take(np.sort(drawn))

    def take(self, numbers: Sequence[int]) -> AnyPart:
        """Return the matches with these numbers, in this order."""
        return self.whole.take(np.asarray(numbers, np.int64))

    def blocks(self, size: int) -> Iterator[AnyPart]:
        """Yield all matches in blocks of at most ``size``."""
        for start in range(0, len(self.whole), size):
            yield self.whole.take(slice(start, start + size))

    def all(self) -> AnyPart:
        """Return all matches."""
        return self.whole


# Checks of the arguments that the methods of every result take.

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


# Matches one by one, each with its number, its measures and its rows.


@dataclass(frozen=True)
class Match:
    """One match: its number, its measures by name, and its rows in stream order.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("abb"), "price": [5, 7, 9]})
    >>> match = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind",
    ...                   measures={"top": "y.price"})[0]
    >>> match
    Match(0: top=7; 2 rows)
    >>> match["top"]
    7
    """

    number: int
    measures: dict[str, Any]
    rows: Frame  # a frame of the kind that was searched, with the column ``variable``

    def __getitem__(self, name: str) -> Any:
        """Return the measure of this name."""
        if name not in self.measures:
            raise column_not_found(f"match {self.number}", name, self.measures)
        return self.measures[name]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.measures.items())
        return f"Match({self.number}: {shown}; {len(self.rows)} rows)"


def matches_of_part(
    found: FoundMatches[Any], part: Part, first_number: int, source: Source, native: Callable[[Frame], Frame]
) -> Iterator[Match]:
    """Yield the matches of a part, numbered from ``first_number``, with rows of the kind of ``native``."""
    table = as_pandas(source.result(found.measure(part, source)))
    variables, items = found.variables(part), found.items(part)
    row_of_item = found.events.rows(items.event_of_item.astype(np.int64, copy=False))
    for i in range(len(part)):
        span = slice(items.first_item_of_match[i], items.first_item_of_match[i + 1])
        rows = source.rows(row_of_item[span], {"variable": variables[span]})
        # A row taken as one Series would have a single type.
        measures = {name: plain_value(table[name].iloc[i]) for name in table.columns}
        yield Match(first_number + i, measures, native(rows))


def plain_value(value: Any) -> Any:
    """Return a numpy number as a Python value; other values stay unchanged."""
    return value.item() if isinstance(value, np.integer | np.floating | np.bool_) else value
