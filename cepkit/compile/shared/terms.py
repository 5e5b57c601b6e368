"""Typed terms: the meaning of a predicate once columns and parameters are known; no text, no code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NULL_INTEGER, OTHER, TEXT, TIME

# What a term depends on: nothing, the event and its past, or the start of the match.
CONSTANT, EVENT, START = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Term:
    """One operation on typed arguments.

    ``data`` holds its details: the column's name, the constant's number, the comparison's sign, the
    function's name, or an element's (variable, which of its events, column). Equal terms are computed once.

    """

    op: str
    args: tuple[Term, ...] = ()
    kind: str = "float"
    unit: str | None = None
    nullable: bool = False
    data: str | int | tuple | None = None
    level: int = CONSTANT

    def walk(self) -> Iterator[Term]:
        """Yield all terms below this one, then this one, arguments first."""
        for arg in self.args:
            yield from arg.walk()
        yield self


@dataclass(frozen=True, slots=True)
class Constant:
    """A number passed to the kernel as an argument; a new value compiles nothing.

    Either ``value`` is final, or ``text`` is looked up in the categories of column ``column`` once the events
    are known.

    """

    kind: str  # "integer" or "float"
    value: int | float = 0
    text: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One truth value per category of a text column, at index code + 1; index 0 is for null (false)."""

    column: str
    test: str  # "like", "starts_with", "ends_with", "contains", "in", or a comparison sign
    text: str | frozenset[str]


@dataclass(frozen=True, slots=True)
class Members:
    """A list of numbers, passed to the kernel as a sorted array; other numbers compile nothing."""

    values: tuple[int | float, ...]
    dtype: str  # "int64" or "float64"


@dataclass(frozen=True, slots=True)
class Derived:
    """A column computed before matching: item ``index`` of the list column ``column``."""

    column: str
    index: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A column computed before matching: the array column ``column``, prepared for ``function``.

    ``function`` is one of ``VECTOR_FUNCTIONS``.

    """

    column: str
    function: str


ANY_KIND = "any"  # of a user function's result, until its context decides
NEVER, ALWAYS = Term("never", kind=BOOLEAN), Term("always", kind=BOOLEAN)


def comparison(sign: str, left: Term, right: Term) -> Term:
    """Return the truth term of ``left sign right``."""
    nullable = left.nullable or right.nullable
    return Term("compare", (left, right), BOOLEAN, None, nullable, sign, level_of(left, right))


def conjuncts_of(truth: Term) -> Iterator[Term]:
    """Yield the parts of a truth that ``and`` connects."""
    if truth.op == "and":
        for arg in truth.args:
            yield from conjuncts_of(arg)
    else:
        yield truth


def level_of(*args: Term) -> int:
    """Return the highest level among ``args``."""
    return max((arg.level for arg in args), default=CONSTANT)


def described(term: Term) -> str:
    """Return the user's word for values of this kind."""
    return {
        INTEGER: "number",
        FLOAT: "number",
        BOOLEAN: "truth value",
        TEXT: "text",
        TIME: "time",
        DURATION: "duration",
        OTHER: "value of a type that conditions cannot use",
    }.get(term.kind, term.kind)


def clipped(value: int) -> int:
    """Return the nearest 64-bit integer."""
    return min(max(value, NULL_INTEGER), -NULL_INTEGER - 1)
