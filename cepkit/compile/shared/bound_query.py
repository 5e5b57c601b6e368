"""Typed terms, the query that consists of them, and the inputs that its kernels read from events."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from cepkit.errors import PredicateError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_CODE,
    NULL_INTEGER,
    OTHER,
    TEXT,
    TIME,
    Column,
    ColumnType,
    shared_categories,
)
from cepkit.language.expressions.functions import RegisteredFunction
from cepkit.progress import free_after_fork, hold

# Typed terms: the meaning of a predicate once columns and parameters are known; no text, no code.

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


# SQL's LIKE on texts, without backtracking.


def like_test(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Return a function that tests texts by a pattern of LIKE: ``%`` is any text, ``_`` any character.

    The character after ``escape`` stands for itself.
    """
    pieces = _pieces(pattern, escape)
    first, *others = (re.compile("".join(piece), re.DOTALL) for piece in pieces)
    if not others:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = others
    n_last = len(pieces[-1])

    def fits(text: str) -> bool:
        begun, end = first.match(text), len(text) - n_last
        if begun is None or end < begun.end() or last.fullmatch(text, end) is None:
            return False
        place = begun.end()
        for piece in middle:  # the first place of each piece leaves most to the others
            match = piece.search(text, place, end)
            if match is None:
                return False
            place = match.end()
        return True

    return fits


def text_tests(text: str) -> dict[str, Callable[[str], bool]]:
    """Return the tests of a text by their names."""
    return {
        "starts_with": lambda x: x.startswith(text), "ends_with": lambda x: x.endswith(text),
        "contains": lambda x: text in x, "like": like_test(text),
    }  # fmt: skip


def _pieces(pattern: str, escape: str | None) -> list[list[str]]:
    """Return the regex of each character, in lists between the signs for any text."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1].append(re.escape(next(characters, escape)))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    return pieces


# The result of binding a query to a schema, and the inputs that its kernels read from events.

_T = TypeVar("_T")
_writing = threading.RLock()
free_after_fork(_writing)


@dataclass(frozen=True)
class BoundQuery(ABC):
    """A query bound to the columns of a schema; programs add their layout."""

    query: Any  # the query
    schema: Mapping[str, ColumnType]  # the available columns
    columns: tuple[str, ...]  # columns that kernels read, in the order of their arguments
    # constants, tables, derived, text_groups, ordered_text, functions: further inputs of kernels, collected
    # by the binder
    constants: tuple[Constant, ...]
    tables: tuple[Table | Members, ...]
    derived: Mapping[str, Derived | Prepared]
    text_groups: tuple[frozenset[str], ...]
    ordered_text: frozenset[str]
    functions: Mapping[str, RegisteredFunction]

    @cached_property
    def written(self) -> dict[Hashable, tuple[object, Any]]:
        """What was written for the program: sources of kernels, graphs, instructions. See `once`."""
        return {}

    def once(self, key: Hashable, write: Callable[[], _T], of: object = None) -> _T:
        """Return the result of ``write``, which is called once per key, part ``of`` the program and program.

        Frames and threads share the program, so the result must depend on no frame and never change.

        """
        place = key, id(of)
        if place not in self.written:
            with hold(_writing):
                if place not in self.written:
                    self.written[place] = of, write()  # the part lives as long as its number
        return self.written[place][1]

    @abstractmethod
    def terms(self) -> Iterator[Term]:
        """Yield every term that a kernel computes."""

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """Columns that engines need from the events."""
        return self.columns

    @property
    def compiled(self) -> bool:
        """Return whether the kernels are machine code; one plain Python function makes all run as Python."""
        return all(function.compiled for function in self.functions.values())

    @property
    def pure(self) -> bool:
        """Return whether every user function is declared pure, so events may be evaluated in parallel."""
        return all(function.pure for function in self.functions.values())

    def inputs(self, columns: Mapping[str, Column]) -> Inputs:
        """Return the inputs that kernels read from these columns, which must contain all of ``self.columns``.

        Text columns that are compared get codes of common categories, and constant texts get their codes.

        """
        columns = dict(columns)
        for group in self.text_groups:
            names = sorted(group)
            shared = shared_categories([columns[name] for name in names], bool(group & self.ordered_text))
            columns.update(zip(names, shared, strict=True))
        arrays = self.arrays(columns)
        used, tables_used = self.once("used", self._used)
        constants = [self._number(self.constants[i], columns) for i in used]
        tables = [_table(self.tables[i], columns) for i in tables_used]
        texts = self._texts(columns)
        return Inputs(arrays, tuple(constants), tuple(tables), tuple(texts))

    def _used(self) -> tuple[list[int], list[int]]:
        """Return the numbers of the constants and of the tables that kernels read."""
        used = {term.data for root in self.terms() for term in root.walk() if term.op == "constant"}
        return sorted(used), sorted(used_tables(self.terms()))

    def arrays(self, columns: Mapping[str, Column]) -> dict[str, np.ndarray]:
        """Return the arrays that kernels read. Machine code can only ask whether an object is missing."""
        arrays = {name: columns[name].values for name in self.columns}
        if self.compiled:
            arrays |= {name: _presence(values) for name, values in arrays.items() if values.dtype == object}
        return {name: np.ascontiguousarray(values) for name, values in arrays.items()}

    def _number(self, constant: Constant, columns: Mapping[str, Column]) -> int | float:
        if constant.text is None:
            return constant.value
        codes = np.flatnonzero(columns[constant.column].categories == constant.text)
        return int(codes[0]) if len(codes) else -2  # a code that no text has

    def _texts(self, columns: Mapping[str, Column]) -> list[np.ndarray]:
        if self.compiled:
            return []
        calls = (term for root in self.terms() for term in root.walk() if term.op == "call")
        names = dict.fromkeys(arg.unit for call in calls for arg in call.args if arg.kind == TEXT)
        return [columns[name].categories for name in names]

    @cached_property
    def reasons_for_python(self) -> tuple[str, ...]:
        """Names of the functions that prevent compilation."""
        return tuple(name for name, function in self.functions.items() if not function.compiled)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of a kernel that come from the events: their columns, and values derived from these."""

    columns: Mapping[str, np.ndarray]
    constants: tuple[int | float, ...]
    tables: tuple[np.ndarray, ...]
    texts: tuple[np.ndarray, ...]

    def arguments(self, rows: slice | None = None) -> list:
        """Return the arguments in the kernel's order, for a range of rows or for all."""
        arrays = (
            list(self.columns.values()) if rows is None else [array[rows] for array in self.columns.values()]
        )
        return [*arrays, *self.constants, *self.tables, *self.texts]

    def with_columns(self, columns: Mapping[str, np.ndarray]) -> Inputs:
        """Return the inputs with these arrays as columns."""
        return replace(self, columns=columns)


def used_tables(terms: Iterable[Term]) -> set[int]:
    """Return the numbers of the tables that terms use."""
    return {term.data for root in terms for term in root.walk() if term.op in ("table", "member")}


def _presence(objects: np.ndarray) -> np.ndarray:
    """Return 1 for each object, and `NULL_CODE` for None."""
    is_missing = np.fromiter((value is None for value in objects), bool, len(objects))
    return np.where(is_missing, NULL_CODE, 1).astype(np.int8)


def _table(table: Table | Members, columns: Mapping[str, Column]) -> np.ndarray:
    if isinstance(table, Members):
        return np.unique(np.array(table.values, table.dtype))
    return _truth_table(table, columns[table.column])


def _truth_table(table: Table, column: Column) -> np.ndarray:
    if table.test == "in":
        return np.array([0, *(text in table.text for text in column.categories)], dtype=np.uint8)
    compare = {
        "==": lambda x: x == table.text, "!=": lambda x: x != table.text, "<": lambda x: x < table.text,
        "<=": lambda x: x <= table.text, ">": lambda x: x > table.text, ">=": lambda x: x >= table.text,
        **text_tests(table.text),
    }  # fmt: skip
    order = column.type.ordered
    if order is not None and table.test in ("<", "<=", ">", ">="):
        return _ordered_table(table, column, order)
    else:
        test = compare[table.test]
    return np.array([0, *(bool(test(text)) for text in column.categories)], dtype=np.uint8)


def _ordered_table(table: Table, column: Column, order: tuple[str, ...]) -> np.ndarray:
    if table.text not in order:
        raise PredicateError(
            f"{table.text!r} is not one of the ordered categories {list(order)} of {table.column!r}"
        )
    rank = {text: i for i, text in enumerate(order)}
    # A column that it is compared with may have other categories; they do not occur here.
    ranks = np.array([rank.get(text, -1) for text in column.categories])
    limit = rank[table.text]
    holds = {"<": ranks < limit, "<=": ranks <= limit, ">": ranks > limit, ">=": ranks >= limit}[table.test]
    return np.concatenate([[0], holds]).astype(np.uint8)
