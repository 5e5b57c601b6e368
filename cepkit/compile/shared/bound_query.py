"""The query that consists of typed terms, and the inputs that its kernels read from events."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from cepkit.compile.shared.decimals import check_sizes, is_exact, scale_of, scaled
from cepkit.compile.shared.terms import (
    Constant,
    Derivation,
    Members,
    Table,
    Term,
    clipped,
    text_tests,
    type_of_column,
)
from cepkit.errors import PredicateError
from cepkit.events import FLOAT, NULL_CODE, NULL_INTEGER, TEXT, Column, ColumnType, shared_categories
from cepkit.language.expressions.functions import RegisteredFunction
from cepkit.language.expressions.trees import columns_in
from cepkit.progress import free_after_fork, hold
from cepkit.values import dataclass

_T = TypeVar("_T")
_writing = threading.RLock()
free_after_fork(_writing)


@dataclass(frozen=True)
class BoundQuery(ABC):
    """A query bound to the columns of a schema; programs add their layout."""

    query: Any  # the query
    schema: Mapping[str, ColumnType]  # the available columns
    columns: tuple[str, ...]  # columns that kernels read, in the order of their arguments
    # What the binder collected: further inputs of kernels, and how columns come about before matching.
    constants: tuple[Constant, ...]
    tables: tuple[Table | Members, ...]
    derived: Mapping[str, Derivation]
    text_groups: tuple[frozenset[str], ...]
    ordered_text: frozenset[str]
    functions: Mapping[str, RegisteredFunction]

    @cached_property
    def written(self) -> dict[Hashable, tuple[object, Any]]:
        """What was written for the program: sources of kernels, graphs, instructions. See `once`."""
        return {}

    def once(self, key: Hashable, write: Callable[[], _T], of: object = None) -> _T:
        """Return the result of ``write``. It is called once for each ``key`` and part ``of`` the program."""
        # Frames and threads share the program, so the result must depend on no frame and never change.
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

    def type_of(self, name: str) -> ColumnType:
        """Return the type of a column that the query reads."""
        return type_of_column(name, self.schema, self.derived)

    def columns_of_frame(self, names: Iterable[str]) -> list[str]:
        """Return the columns of the frame that columns of the query are computed from, and no others."""
        columns: dict[str, None] = {}
        waiting = [*names]
        for name in waiting:
            if name in self.derived:
                waiting.extend(self.derived[name].reads)
            else:
                columns.setdefault(name)
        return list(columns)

    def names_to_read(self) -> set[str]:
        """Return the names of the columns that matching and measuring look at; a field has a dotted one."""
        names = {*self.query.partition_by, *self.query.order_by}
        names.update(self.columns_of_frame(self.columns_to_read))
        return names.union(*(columns_in(tree) for _, tree in self.query.measures or ()))

    @property
    def compiled(self) -> bool:
        """Return whether the kernels are machine code; one plain Python function makes all run as Python."""
        return all(function.compiled for function in self.functions.values())

    @property
    def pure(self) -> bool:
        """Return whether every function of the user is declared pure, so that threads may call it at once."""
        return all(function.pure for function in self.functions.values())

    def inputs(self, columns: Mapping[str, Column]) -> Inputs:
        """Return the inputs that kernels read from these columns; all of ``self.columns`` are among them."""
        # Text columns that are compared get codes of common categories, and constant texts get their codes.
        columns = dict(columns)
        for group in self.text_groups:
            names = sorted(group)
            shared = shared_categories([columns[name] for name in names], bool(group & self.ordered_text))
            columns.update(zip(names, shared, strict=True))
        arrays = self.arrays(columns)
        used, tables_used = self.used
        constants = [number_of_constant(self.constants[i], columns) for i in used]
        if any(map(is_exact, columns.values())):
            check_sizes(self.terms(), columns, dict(zip(used, constants, strict=True)))
        tables = [values_of_table(self.tables[i], columns) for i in tables_used]
        texts = self._texts(columns)
        return Inputs(arrays, tuple(constants), tuple(tables), tuple(texts))

    @property
    def used(self) -> tuple[list[int], list[int]]:
        """The numbers of the constants and of the tables that kernels read."""
        return self.once("used", self._used)

    def _used(self) -> tuple[list[int], list[int]]:
        used = {term.data for root in self.terms() for term in root.walk() if term.op == "constant"}
        return sorted(used), sorted(used_tables(self.terms()))

    def arrays(self, columns: Mapping[str, Column]) -> dict[str, np.ndarray]:
        """Return the arrays that kernels read. Machine code can only ask whether an object is missing."""
        arrays = {name: columns[name].values for name in self.columns}
        if self.compiled:
            arrays |= {name: _presence(values) for name, values in arrays.items() if values.dtype == object}
        return {name: np.ascontiguousarray(values) for name, values in arrays.items()}

    def _texts(self, columns: Mapping[str, Column]) -> list[np.ndarray]:
        """Return the categories of text columns that functions of the user read, if kernels are Python."""
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
        return Inputs(columns, self.constants, self.tables, self.texts)


def used_tables(terms: Iterable[Term]) -> set[int]:
    """Return the numbers of the tables that terms use."""
    return {term.data for root in terms for term in root.walk() if term.op in ("table", "member")}


def _last_start(constant: Constant, complete_until: int | float | None) -> int | float:
    """Return the last time from which a wait of a number of ticks ends while the data are complete."""
    if complete_until is None:
        return np.inf if constant.kind == FLOAT else -NULL_INTEGER - 1
    start = complete_until - constant.value
    return start if constant.kind == FLOAT else clipped(math.floor(start))


def _presence(objects: np.ndarray) -> np.ndarray:
    """Return 1 for each object, and `NULL_CODE` for None."""
    is_missing = np.fromiter((value is None for value in objects), bool, len(objects))
    return np.where(is_missing, NULL_CODE, 1).astype(np.int8)


def number_of_constant(constant: Constant, columns: Mapping[str, Column]) -> int | float:
    """Return a constant as kernels compare it; a text is its code among the categories of its column."""
    if constant.is_start:
        return _last_start(constant, columns[constant.column or ""].complete_until)
    if constant.exact is not None and constant.degree:
        return scaled(constant, scale_of(columns))
    if constant.text is None:
        return constant.value
    categories = columns[constant.column or ""].categories
    texts = [] if categories is None else categories.tolist()
    return texts.index(constant.text) if constant.text in texts else -2  # a code that no text has


def values_of_table(table: Table | Members, columns: Mapping[str, Column]) -> np.ndarray:
    """Return the truths by code of a test of texts, or the sorted members of a list of numbers."""
    if isinstance(table, Members):
        return np.unique(np.array(table.values, table.dtype))
    return _truth_table(table, columns[table.column])


def _truth_table(table: Table, column: Column) -> np.ndarray:
    """Return for null and for each category of a column whether the test of a text is true, uint8."""
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
    """Return the same for a comparison of ordered categories, by their ranks."""
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
