"""The errors of cepkit; each is named for the fact and says what there is instead."""

from __future__ import annotations

import difflib
import operator
import os
import sys
import traceback
import warnings
from collections.abc import Iterable

_PACKAGE = __name__.split(".")[0]


class CepError(Exception):
    """Base of all errors that cepkit raises on purpose."""

    def __str__(self) -> str:
        # KeyError, one of the bases below, would print the message quoted.
        return str(self.args[0]) if self.args else ""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the message, and the user's own lines that led to it."""
        frames = traceback.extract_tb(self.__traceback__)
        others = (os.path.dirname(__file__), os.path.dirname(os.__file__))
        own = [f for f in frames if not f.filename.startswith(others) and "site-packages" not in f.filename]
        lines = [f"line {f.lineno}{_file(f.filename)}: {f.line}" for f in own]
        return [*lines, f"{type(self).__name__}: {self}"]


def _file(name: str) -> str:
    """Return `` of name.py``; nothing for a cell of a notebook, which has a number for a name."""
    base = os.path.basename(name)
    return "" if base.startswith("<") or base.removesuffix(".py").isdigit() else f" of {base}"


class CepWarning(UserWarning):
    """Base of all warnings of cepkit."""


def warn(message: str) -> None:
    """Warn with a `CepWarning` of the line outside the package that led here."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, CepWarning, stacklevel=level + 1)


class ColumnNotFoundError(CepError, KeyError):
    """A column that the query names is not in the frame."""


class OrderError(CepError, ValueError):
    """The events cannot be put into one stream order as asked."""


class UnsupportedQueryError(CepError, NotImplementedError):
    """An engine cannot run the query; the message quotes the reason."""


class MissingDependencyError(CepError, ImportError):
    """A package of one of the extras is not installed; the message names the extra."""


class ResultTooLargeError(CepError, MemoryError):
    """A result was asked for as a whole that does not fit the limit; the message says the count."""


class PatternSyntaxError(CepError, ValueError):
    """Text that is not a pattern, a predicate or a duration.

    Parameters
    ----------
    message : str
        What was expected and what was found, without a final full stop.
    text : str
        The text in which the error stands.
    position : int
        Offset of the error in ``text``, from 0.
    length : int
        Number of characters to underline, at least 1.
    """

    def __init__(self, message: str, text: str, position: int, length: int = 1):
        self.message, self.text, self.position, self.length = message, text, position, max(1, length)
        super().__init__(f"{message} (position {position})\n{underline(text, position, length)}")


class PredicateError(CepError, TypeError):
    """A predicate or measure is well-formed text but does not fit the columns or the rules."""


class NoEventVariableError(PatternSyntaxError, PredicateError):
    """A value of a named event, ``b.price``, where events have no names: in a predicate of a regex query."""


def underline(text: str, position: int, length: int = 1) -> str:
    """Return the line of ``text`` around ``position`` with carets under the error.

    Examples
    --------
    >>> print(underline("large + rise", 6))
      large + rise
            ^
    """
    position = min(max(position, 0), len(text))
    start = text.rfind("\n", 0, position) + 1
    stop = text.find("\n", position)
    line = text[start : stop if stop >= 0 else len(text)]
    column = position - start
    carets = "^" * max(1, min(length, max(1, len(line) - column)))
    return f"  {line}\n  {' ' * column}{carets}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the most similar known name, or an empty text.

    Examples
    --------
    >>> nearest("symbl", ["symbol", "price"])
    " Did you mean 'symbol'?"
    >>> nearest("SYMBL", iter(["symbol", "price"]))
    " Did you mean 'symbol'?"
    >>> nearest("q", ["symbol", "price"])
    ''
    """
    spelled = {of.lower(): of for of in known}
    found = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return f" Did you mean {spelled[found[0]]!r}?" if found else ""


def whole_number(what: str, value: object, least: int = 0, most: int | None = None) -> int:
    """Return ``value``, an argument called ``what``, when it is a whole number from ``least`` to ``most``.

    Examples
    --------
    >>> whole_number("n", 2.5)
    Traceback (most recent call last):
    cepkit.errors.CepError: n=2.5: expected a whole number
    """
    if isinstance(value, bool):
        raise CepError(f"{what}={value!r}: expected a whole number")
    try:
        number = operator.index(value)
    except TypeError:
        raise CepError(f"{what}={value!r}: expected a whole number") from None
    if number < least:
        raise CepError(f"{what}={number}: expected a whole number, {least} or more")
    if most is not None and number > most:
        raise CepError(f"{what}={number}: expected a whole number, {most:,} at most")
    return number


def truth(what: str, value: object) -> bool:
    """Return ``value``, an argument called ``what``, when it is True or False.

    Examples
    --------
    >>> truth("scoped", "no")
    Traceback (most recent call last):
    cepkit.errors.CepError: scoped='no': expected True or False
    """
    if type(value).__name__ not in ("bool", "bool_"):  # numpy's, which this module does not know, too
        raise CepError(f"{what}={value!r}: expected True or False")
    return bool(value)


def column_not_found(role: str, name: str, columns: Iterable[str]) -> ColumnNotFoundError:
    """Return the error for column ``name``, named in ``role`` (``"partition_by"``, ``"predicate 'rise'"``).

    Examples
    --------
    >>> print(column_not_found("partition_by", "symbl", ["symbol", "price"]))
    partition_by: column 'symbl' not found. Did you mean 'symbol'? Columns: ['symbol', 'price']
    """
    columns = [str(column) for column in columns]
    shown = repr(columns) if len(columns) <= 40 else repr(columns[:40])[:-1] + f", … {len(columns)} in all]"
    return ColumnNotFoundError(f"{role}: column {name!r} not found.{nearest(name, columns)} Columns: {shown}")


def require_columns(role: str, names: Iterable[str], columns: Iterable[str]) -> None:
    """Raise `column_not_found` for the first of ``names`` that is no column."""
    for name in names:
        if name not in columns:
            raise column_not_found(role, name, columns)
