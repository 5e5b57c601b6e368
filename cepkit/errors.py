"""Errors of cepkit. Each class is named for the fact; its message says what the user can do instead."""

from __future__ import annotations

import copyreg
import difflib
import operator
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np

QUOTED = 200  # characters of a query's text in an error
_LINE = 96  # characters of a line with carets: a notebook breaks longer ones, and the carets lose their place
LONGEST = 4_000  # characters of a message
ErrorT = TypeVar("ErrorT", bound=BaseException)
_OWN = (__name__.split(".")[0], "contextlib")  # the package, and the decorators of its functions


class CepError(Exception):
    """Base of all errors that cepkit raises on purpose.

    Examples
    --------
    >>> raise CepError("within: give a duration")
    Traceback (most recent call last):
    cepkit.errors.CepError: within: give a duration
    """

    def __str__(self) -> str:
        # KeyError, one of the bases below, would print the message in quotes.
        return _cut(str(self.args[0]), LONGEST) if self.args else ""

    def _render_traceback_(self) -> list[str]:
        return _rendered(self)


def in_short(error: ErrorT) -> ErrorT:
    """Return an error of Python that a notebook shows like those of cepkit, without the lines of packages.

    Examples
    --------
    >>> in_short(TypeError("no"))
    TypeError('no')
    """
    error.__dict__["_render_traceback_"] = lambda: _rendered(error)
    return error


def _rendered(error: BaseException) -> list[str]:
    """Return what a notebook shows: the message and the user's own lines that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    others = (os.path.dirname(__file__), os.path.dirname(os.__file__))
    own = [f for f in frames if not f.filename.startswith(others) and "site-packages" not in f.filename]
    lines = [f"line {f.lineno}{_file(f.filename)}: {f.line}" for f in own]
    return [*lines, f"{type(error).__name__}: {error}"]


def _file(name: str) -> str:
    """Return `` of name.py``, or an empty text for a notebook cell, whose file name is a number."""
    base = os.path.basename(name)
    return "" if base.startswith("<") or base.removesuffix(".py").isdigit() else f" of {base}"


class CepWarning(UserWarning):
    """Base of all warnings that cepkit issues.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", CepWarning)  # silences all of them
    """


class TieWarning(CepWarning):
    """Events are equal in ``order_by``, and the matches may depend on the order of their rows.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", TieWarning)  # when the order of the rows is the right one
    """


_collected: ContextVar[list[tuple[str, type[CepWarning]]] | None] = ContextVar("collected", default=None)


@contextmanager
def keep_warnings() -> Iterator[list[tuple[str, type[CepWarning]]]]:
    """Collect the warnings of a block of code, so that the caller can issue them now and again later."""
    said: list[tuple[str, type[CepWarning]]] = []
    before = _collected.set(said)
    try:
        yield said
    finally:
        _collected.reset(before)


def warn(message: str, category: type[CepWarning] = CepWarning) -> None:
    """Issue a warning at the line outside the package that led here."""
    if (collected := _collected.get()) is not None:
        collected.append((message, category))
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OWN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


class ColumnNotFoundError(CepError, KeyError):
    """The frame has no column of a name that the query uses.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12]})
    >>> cep.match(walk, "up", order_by="pric")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cepkit.errors.ColumnNotFoundError: order_by: column 'pric' not found. Did you mean 'price'? ...
    """


class OrderError(CepError, ValueError):
    """The events cannot be put into the requested stream order.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> cep.match(pd.DataFrame({"t": [1.0, None]}), "PATTERN SEQ(_ a)", order_by="t")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cepkit.errors.OrderError: order_by: column 't' has 1 missing values of 2; ...
    """


class UnsupportedQueryError(CepError, NotImplementedError):
    """An engine cannot run the query; the message quotes the reason.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12]})
    >>> cep.match(walk, "up", define={"up": "price > 1"}, strategy="next")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cepkit.errors.UnsupportedQueryError: ['strategy'] belong to event sequences; ...
    """


class MissingDependencyError(CepError, ImportError):
    """A package of one of the extras is not installed; the message names the extra.

    Examples
    --------
    >>> try:  # what an extra would install
    ...     raise MissingDependencyError("Spark is not installed")
    ... except ImportError as error:
    ...     print(error)
    Spark is not installed
    """


class ResultTooLargeError(CepError, MemoryError):
    """The whole result does not fit the limit; the message gives the number of matches.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12]})
    >>> cep.match(walk, "up", define={"up": "price > 1"}).to_frame(limit=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cepkit.errors.ResultTooLargeError: there are 2 matches, more than limit=1; ...
    """


class WrongTypeError(CepError, TypeError):
    """An argument has a type that the call does not take.

    Examples
    --------
    >>> import cepkit as cep
    >>> cep.siddhi(5)
    Traceback (most recent call last):
    cepkit.errors.WrongTypeError: SiddhiQL: expected text, got int
    """


class PatternSyntaxError(CepError, ValueError):
    """The text is not a valid pattern, predicate or duration.

    Parameters
    ----------
    message : str
        What was expected and what was found, without a final full stop.
    text : str
        The text that contains the error.
    position : int
        Offset of the error in ``text``, from 0.
    length : int
        Number of characters to underline, at least 1.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12]})
    >>> cep.match(walk, "up (")
    Traceback (most recent call last):
    cepkit.errors.PatternSyntaxError: '(' is never closed (position 3)
      up (
         ^
    """

    def __init__(self, message: str, text: str, position: int, length: int = 1):
        self.message, self.text, self.position, self.length = message, text, position, max(1, length)
        super().__init__(f"{message} (position {position})\n{underline(text, position, length)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class PredicateError(CepError, TypeError):
    """A predicate or measure is well-formed text but does not fit the columns or the rules.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12]})
    >>> cep.match(walk, "up", define={"up": "price > 'x'"})
    Traceback (most recent call last):
    cepkit.errors.PredicateError: predicate 'up': a number cannot be compared with the text 'x' in price > 'x'
      price > 'x'
      ^^^^^^^^^^^
    """

    span: tuple[int, int] | None = None  # place of the wrong part in the text of a query, if known


class NoEventVariableError(PatternSyntaxError, PredicateError):
    """A regex predicate names an event, as in ``b.price``, but events of a regex query have no names."""


def underline(text: str, position: int, length: int = 1) -> str:
    """Return the line of ``text`` around ``position`` with carets under the error."""
    position = min(max(position, 0), len(text))
    start = text.rfind("\n", 0, position) + 1
    stop = text.find("\n", position)
    line = text[start : stop if stop >= 0 else len(text)]
    column = position - start
    if len(line) > _LINE:
        margin = max(_LINE // 8, (_LINE - length) // 2)  # the wrong part is in the middle
        first = max(0, min(column - margin, len(line) - _LINE))
        last = first + _LINE
        line = "…" * (first > 0) + line[first:last] + "…" * (last < len(line))
        column += (first > 0) - first
    carets = "^" * max(1, min(length, max(1, len(line) - column)))
    return f"  {line}\n  {' ' * column}{carets}"


def is_text(text: str) -> bool:
    """Return whether files and Arrow tables can hold a text. They cannot hold half of a character."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def short_text(text: str) -> str:
    """Return a text of a query for an error, cut in the middle if it is long."""
    return _cut(text, QUOTED)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[: most - 3 - half]} … {text[-half:]}"


def reason_of(error: Exception) -> str:
    """Return in a few words what the operating system says, without the name of a file."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error).strip().split("\n")[0] or type(error).__name__


def nearest(name: object, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the most similar known name, or an empty text."""
    if not isinstance(name, str):
        return ""
    spelling_of = {spelling.lower(): spelling for spelling in known}
    similar = difflib.get_close_matches(name.lower(), spelling_of, n=1, cutoff=0.6)
    return f" Did you mean {spelling_of[similar[0]]!r}?" if similar else ""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `nearest` as the last sentence of a message: ``. Did you mean 'x'?``, or an empty text."""
    hint = nearest(name, known)
    return f".{hint}" if hint else ""


def whole_number(what: str, value: object, least: int = 0, most: int | None = None) -> int:
    """Return ``value``, the argument named ``what``, as an int; raise unless ``least <= value <= most``."""
    if isinstance(value, bool):
        raise CepError(f"{what}={value!r}: expected a whole number")
    try:
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise CepError(f"{what}={value!r}: expected a whole number") from None
    if number < least:
        raise CepError(f"{what}={number}: expected a whole number, {least} or more")
    if most is not None and number > most:
        raise CepError(f"{what}={number}: expected a whole number, {most:,} at most")
    return number


def is_number(value: object) -> bool:
    """Return whether a value is a real number. A duration of numpy is none, though Python says so."""
    return isinstance(value, Real) and not isinstance(value, np.timedelta64)


def truth(what: str, value: object) -> bool:
    """Return ``value``, the argument named ``what``, as a bool; raise unless it is True or False."""
    if type(value).__name__ not in ("bool", "bool_"):  # numpy's bool, too, which this module does not import
        raise CepError(f"{what}={value!r}: expected True or False")
    return bool(value)


def column_not_found(role: str, name: object, columns: Iterable[str]) -> ColumnNotFoundError:
    """Return the error for a missing column; ``role`` says who names it, such as ``"predicate 'rise'"``."""
    columns = [str(column) for column in columns]
    shown = repr(columns) if len(columns) <= 40 else repr(columns[:40])[:-1] + f", … {len(columns)} in all]"
    owner, dot, field = str(name).partition(".")
    hint = nearest(name, columns)
    is_owner = owner in columns or any(column.startswith(f"{owner}.") for column in columns)
    if dot and not is_owner and not role.startswith("condition"):
        field = short_text(field if field.isidentifier() else f"`{field}`")
        hint = (
            f" No column {short_text(repr(owner))} has fields, and rows of a regex query have no names; "
            f"write {field}, prev({field}), first({field}) or last({field}). Named events belong to a "
            "sequence, PATTERN SEQ(…)."
        )
    return ColumnNotFoundError(f"{role}: column {short_text(repr(name))} not found.{hint} Columns: {shown}")


def require_columns(role: str, names: Iterable[str], columns: Iterable[str]) -> None:
    """Raise `column_not_found` for the first of ``names`` that is no column."""
    for name in names:
        if name not in columns:
            raise column_not_found(role, name, columns)
