"""Terms on single events as whole columns, computed by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cepkit.compile.interpreted.reading import ELEMENTARY, ROUNDED, Reader
from cepkit.compile.shared.bound_query import BoundQuery, Inputs
from cepkit.compile.shared.loading import load_kernels
from cepkit.compile.shared.terms import Term
from cepkit.events import FLOAT, NULL_INTEGER

Values = np.ndarray | np.generic | bool
_WIDEST_LOOK_UP = 1 << 17  # a list of integers with this range is looked up in an array of truths


class ColumnReader(Reader):
    """Reads terms over a run of events. Values are arrays with an item per event, or single values."""

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        constants: Mapping[int, int | float],
        tables: Mapping[int, np.ndarray],
        earlier: Callable[[Term, int], np.ndarray] | None = None,
        number_of_row: np.ndarray | None = None,
    ):
        super().__init__()
        self.columns, self.constants, self.tables = columns, constants, tables
        self.earlier, self._number_of_row = earlier, number_of_row

    def leaf(self, term: Term) -> Values:
        """Return a column, or its earlier values."""
        if term.op == "previous":
            return self.earlier(term.args[0], term.data)
        values = self.columns[term.data if term.op == "column" else term.data[-1]]
        return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)

    def constant(self, term: Term) -> Values:
        """Return a constant of the query."""
        value = self.constants[term.data]
        return np.float64(value) if term.kind == FLOAT else np.int64(value)

    def number(self, value: int) -> Values:
        """Return an integer, which also serves as a truth."""
        return np.int64(value)

    def table(self, number: int, code: Values, wanted: bool) -> Values:
        """Return whether the entry of each code is ``wanted``."""
        return self.tables[number][code + 1] == int(wanted)

    def member(self, number: int, value: Values, wanted: bool) -> Values:
        """Return which values are in a sorted table, or are known and not in it."""
        held = _is_member(self.tables[number], np.asarray(value))
        return held if wanted else ~held & (value == value)

    def apply(self, operation: str, *values: Values) -> Values:
        """Return the result of an operation on columns."""
        return OPERATIONS[operation](*values)

    def number_of_row(self) -> Values:
        """Return the number of each event in its partition."""
        return self._number_of_row

    def masks(self, terms: Sequence[tuple[Term, int]], every: int, n_events: int) -> np.ndarray:
        """Return for each event the positions that remain: a term that is not true removes its mask."""
        kept = np.full(n_events, every, np.int64)
        for term, mask in terms:
            held = self.true(term)
            kept &= np.where(held.astype(np.bool_), np.int64(every), np.int64(every & ~mask))
        return kept


def _is_member(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return which values are in a sorted table without NaN."""
    if not len(table):
        return np.zeros(values.shape, np.bool_)
    if table.dtype.kind == "f" or int(table[-1]) - int(table[0]) >= _WIDEST_LOOK_UP:
        return table[np.minimum(np.searchsorted(table, values), len(table) - 1)] == values
    place = (values - table[0]).view(np.uint64)  # of a value below the first one it is above all others
    is_listed = np.zeros(int(table[-1] - table[0]) + 2, np.bool_)
    is_listed[table - table[0]] = True
    return is_listed[np.minimum(place, np.uint64(len(is_listed) - 1)).view(np.int64)]


def constants_of(bound: BoundQuery, inputs: Inputs) -> tuple[dict[int, int | float], dict[int, np.ndarray]]:
    """Return the constants and the tables of a query by their numbers."""
    used = [part for term in bound.terms() for part in term.walk()]
    constants = sorted({part.data for part in used if part.op == "constant"})
    tables = sorted({part.data for part in used if part.op in ("table", "member")})
    return (
        dict(zip(constants, inputs.constants, strict=True)),
        dict(zip(tables, inputs.tables, strict=True)),
    )


def _divide(left: Values, right: Values) -> Values:
    return np.where(right != 0, np.true_divide(left, right), np.nan)


def _whole(function: Callable) -> Callable:
    def of_integers(left: Values, right: Values) -> Values:
        return np.where(right != 0, function(left, np.where(right != 0, right, 1)), NULL_INTEGER)

    return of_integers


def _of_floats(function: Callable) -> Callable:
    return lambda left, right: np.where(right != 0, function(left, right), np.nan)


def _subtract_times(left: Values, right: Values) -> Values:
    found = np.subtract(left, right)
    return _nearest(found, (left ^ right) & (left ^ found), left)


def _add_times(left: Values, right: Values) -> Values:
    found = np.add(left, right)
    return _nearest(found, (left ^ found) & (right ^ found), left)


def _nearest(found: Values, wrapped: Values, left: Values) -> Values:
    """Return what was found, or the nearest integer above null where ``wrapped`` is negative."""
    if not np.any(wrapped < 0):
        return found
    largest = np.int64(2**63 - 1)
    return np.where(wrapped < 0, np.where(left >= 0, largest, -largest), found)


def _root(x: Values) -> Values:
    return np.where(x >= 0, np.sqrt(x), np.nan)


def _sign(x: Values) -> Values:
    return (x > 0).astype(np.int64) - (x < 0).astype(np.int64)


def _rounded(function: int) -> Callable:
    """Return one of the functions in ``ROUNDED``, with the same bits as in compiled kernels."""

    def compute(*values: Values) -> Values:
        shape = np.broadcast_shapes(*map(np.shape, values))
        given = [np.ascontiguousarray(np.broadcast_to(own, shape), np.float64).ravel() for own in values]
        out = np.empty(len(given[0]))
        load_kernels(ELEMENTARY).compute(function, given[0], given[-1], out)
        return out.reshape(shape)

    return compute


_BOTH: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "negative": np.negative, "abs": np.abs,
    "least": np.minimum, "greatest": np.maximum,
    "==": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{f"{name} {kind}": function for name, function in _BOTH.items() for kind in ("floats", "integers")},
    **{f"{name} floats": _rounded(i) for i, name in enumerate(ROUNDED)},
    "- times": _subtract_times, "+ times": _add_times,
    "high integers": lambda x: np.right_shift(x, 32), "low integers": lambda x: np.bitwise_and(x, 2**32 - 1),
    "!= integers": np.not_equal,
    "!= floats": lambda left, right: (left < right) | (left > right),
    "/ floats": _divide, "// integers": _whole(np.floor_divide), "% integers": _whole(np.remainder),
    "// floats": _of_floats(np.floor_divide), "% floats": _of_floats(np.remainder),
    "sign floats": np.sign, "sign integers": _sign, "sqrt floats": _root, "floor floats": np.floor,
    "ceil floats": np.ceil, "round floats": np.rint, "bit_and integers": np.bitwise_and,
    "bit_or integers": np.bitwise_or, "bit_xor integers": np.bitwise_xor,
    "and": np.logical_and, "or": np.logical_or, "to float": np.float64,
    "float or nan": lambda value, known: np.where(known, value, np.nan),
    "integer or null": lambda value, known: np.where(known, value, NULL_INTEGER),
    "truth code": lambda true, false: np.where(true, 1, np.where(false, 0, -1)),
}  # fmt: skip
