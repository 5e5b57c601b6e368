"""What a result reads, for any kind of query and frame; checks of arguments; matches one by one; texts."""

from __future__ import annotations

import functools
import html
import operator
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar, cast

import numpy as np
import pandas as pd

from cepkit.engines.shared.sequence_set import FEW_MATCHES
from cepkit.errors import (
    CepError,
    ResultTooLargeError,
    UnsupportedQueryError,
    WrongTypeError,
    column_not_found,
    short_text,
    whole_number,
)
from cepkit.events import Frame
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import count_text
from cepkit.limits import MemoryLimit, bound_memory
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.planning.planner import Engine
    from cepkit.plots.graphs import Graph


CURE = (
    "Take a part with head(), sample() or a slice, ask for count() or aggregate(), go through chunks(), or "
    "write the matches with write_parquet()"
)


class FoundResult(ABC):
    """What a result reads: the matches of a query in a frame. `Matches` documents the methods."""

    # A method that a kind of query or frame does not have raises the text in ``refusals``.

    query: Any  # as a value
    frame: Frame  # that was searched
    engine: Engine
    run: Any = None  # the engine's record of its run
    memory_limit: MemoryLimit = "auto"
    cure: str = CURE  # what to do when the limit is too small
    is_in_memory: bool = True
    params: Mapping[str, Any] | None = None  # the values that the explorer needs besides the query
    refusals: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> Any:
        """Return the number of matches, or an estimate of it."""

    def any(self) -> bool:
        """Return whether a match exists."""
        return self.count() > 0

    @abstractmethod
    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> Frame:
        """Return the matches as a frame; without ``in_order``, Spark leaves out the sort."""

    @abstractmethod
    def text(self) -> str:
        """Return what was found, and a few rows."""

    def html(self) -> str | None:
        """Return what was found, and a few rows, as HTML; None for the text."""
        return paragraphs(self.text())

    def count_by_last(self) -> Frame:
        """Return the number of matches that end at each row."""
        self.refuse("count_by_last")

    def head(self, n: int) -> Frame:
        """Return the first matches."""
        self.refuse("head")

    def sample(self, n: int, seed: int) -> Frame:
        """Return a uniform sample of the matches."""
        self.refuse("sample")

    def take(self, numbers: Sequence[int]) -> Frame:
        """Return the matches with these numbers."""
        self.refuse("take")

    def match(self, key: int) -> Match:
        """Return a match by its number."""
        self.refuse("match")

    def narrow(self, key: slice) -> FoundResult:
        """Return the matches of a slice."""
        self.refuse("narrow")

    def matches(self) -> Iterator[Match]:
        """Return an iterator over the matches."""
        self.refuse("matches")

    def chunks(self, size: int) -> Iterator[Frame]:
        """Return an iterator over frames of at most ``size`` rows."""
        self.refuse("chunks")

    def write_parquet(self, path: str | os.PathLike, rows: str, overwrite: bool) -> int:
        """Write all matches into a file, and return the number of rows."""
        self.refuse("write_parquet")

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""
        self.refuse("aggregate")

    def lineage(self, number: int | None, limit: Limit) -> Frame:
        """Return one row per matched row."""
        self.refuse("lineage")

    def tag(self, overlap: str = "error") -> Frame:
        """Return the frame with the match and the variable of each row; see `check_overlap`."""
        self.refuse("tag")

    def undecided(self) -> Frame:
        """Return the matches whose last absence is undecided, as a frame."""
        self.refuse("undecided")

    def drawn(self, what: str) -> Any:
        """Return the matches in memory that a picture reads; ``what`` is the method that draws it."""
        self.refuse(what)

    def refuse(self, method: str) -> NoReturn:
        """Raise `UnsupportedQueryError` with the reason."""
        raise UnsupportedQueryError(self.refusals.get(method) or f"{method}: {self.refusals['']}")


class FoundTable(FoundResult):
    """A result with rows that are no matches. Its text is also that of notebooks."""

    def html(self) -> None:
        """Return None: notebooks show the text."""
        return None

    def refuse_matched(self, rows: str) -> None:
        """Raise for ``rows="all"``."""
        if rows != "one":
            self.refuse("rows='all'")


# Checks of the arguments that the methods of every result take.

LIMIT = 1_000_000  # matches that a result builds at once in memory unless the user gives another limit
Limit = int | Literal["auto"] | None
PER_CELL = 32  # bytes of a value of the result: its row, its Arrow value, and its copies
PER_NUMBER = 100  # bytes of the number of a match: a Python integer in lists and in a set
_Method = TypeVar("_Method", bound=Callable[..., Any])


def bounded(method: _Method) -> _Method:
    """Return a method of a result that obeys the limit of memory of what it reads."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        with bound_memory(self._found.memory_limit, self._found.cure):
            return method(self, *args, **keywords)

    return cast(_Method, call)


def check_overlap(overlap: str) -> None:
    """Raise `CepError` unless a row in several matches is an ``"error"`` or has the ``"first"`` of them."""
    if not isinstance(overlap, str) or overlap not in ("error", "first"):
        raise CepError(
            f"overlap={short_text(repr(overlap))}: a row in several matches is an 'error', or has the number "
            "of the 'first' one"
        )


def check_rows(rows: str) -> None:
    """Raise `CepError` unless ``rows`` is ``"one"`` or ``"all"``."""
    if not isinstance(rows, str) or rows not in ("one", "all"):
        raise CepError(f"rows={rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")


def limit_of(limit: Limit, auto: int | None) -> int | None:
    """Return the largest number of matches wanted, or None for any number."""
    # ``limit`` is the user's argument. ``auto`` is what ``"auto"`` means for this kind of frame.
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


def check_exact(method: str, why: str) -> None:
    """Raise `UnsupportedQueryError` for another ``method`` of counting than ``"exact"``."""
    if method != "exact":
        raise UnsupportedQueryError(f"method={short_text(repr(method))}: {why}")


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
    order_by: str | None = None  # the clock

    def __getitem__(self, name: str) -> Any:
        """Return the measure of this name."""
        if name not in self.measures:
            raise column_not_found(f"match {self.number}", name, self.measures)
        return self.measures[name]

    def graph(self) -> Graph:
        """Return the events of the match in their order as a ``graphviz.Digraph``, which a notebook draws.

        A box says which variable an event is, and its values; an arrow says how long later it came.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abb"), "price": [5, 7, 9]})
        >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind")[0].graph()
        <graph match: 2 nodes, 1 edge>
        """
        from cepkit.plots.graphs import match_graph

        return match_graph(as_pandas(self.rows), self.order_by)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.measures.items())
        return f"Match({self.number}: {shown}; {len(self.rows)} rows)"


def plain_value(value: Any) -> Any:
    """Return a numpy number as a Python value; other values stay unchanged."""
    return value.item() if isinstance(value, np.integer | np.floating | np.bool_) else value


# Texts of results: the first rows between what is said before and after them.

SHOWN = 10  # rows in the text of a result


def text_of_table(head: str, table: pd.DataFrame, more: str) -> str:
    """Return the first rows of a result as text, between what is said before and after them."""
    return "\n".join(part for part in (head, table.to_string(max_rows=SHOWN), more) if part)


def html_of_table(head: str, table: pd.DataFrame, more: str) -> str:
    """Return the first rows of a result as HTML, between what is said before and after them as HTML."""
    return head + table.to_html(max_rows=SHOWN, border=0) + (f"<p>{more}</p>" if more else "")


def paragraphs(text: str) -> str:
    """Return each line of a text as a paragraph of HTML."""
    return "".join(f"<p>{html.escape(line)}</p>" for line in text.splitlines())
