"""The values at which a comparison becomes true or false, for a sample of rows.

For ``price > prev(price) + 3`` these are the values of ``price - prev(price)``: the constant 3 competes with
them. This module knows no frames. `cepkit.explorer.running.data` chooses the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cepkit.language.expressions import trees as ex

DISTANCES = (1, 2, 4, 8, 16, 32)  # rows back to an earlier event of a match, in turn; fewer if the run begins
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "sign": np.sign,
}  # fmt: skip
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod,
}  # fmt: skip
_OVER_ROWS: dict[str, Callable[..., Any]] = {"min": np.min, "max": np.max, "avg": np.mean, "sum": np.sum}


class UnknownValueError(Exception):
    """A part of an expression has no numbers in a sample."""


@dataclass(frozen=True)
class SampledRows:
    """Rows of a frame in runs: within a run, each row follows the row before it within a key."""

    begins: np.ndarray  # bool, (n,): whether a row is the first of its run
    # Returns the numbers of a column at these rows as float64, with NaN for missing ones. None for a column
    # without numbers.
    values: Callable[[str], np.ndarray | None]
    event_types: np.ndarray | None = None  # object, (n,): the type of every row

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def run_of_row(self) -> np.ndarray:
        """The number of the run of every row."""
        return np.cumsum(self.begins)

    @cached_property
    def begin_of_row(self) -> np.ndarray:
        """The first row of the run of every row."""
        return np.flatnonzero(self.begins)[self.run_of_row - 1] if len(self) else self.run_of_row

    @cached_property
    def distances(self) -> np.ndarray:
        """Rows back to an earlier event of a match; they take turns. At least 1."""
        most = np.arange(len(self)) - self.begin_of_row
        return np.minimum(np.resize(DISTANCES, len(self)), np.maximum(most, 1))


@dataclass(frozen=True)
class Variables:
    """The variables of a sequence in the order of the pattern, with their types; empty for a regex."""

    # The event type of every variable; None for any type.
    types: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)  # values of the query's parameters


def thresholds_of(
    comparison: ex.Comparison,
    constant: ex.Expression,
    rows: SampledRows,
    variables: Variables,
    own: str | None = None,
) -> np.ndarray | None:
    """Return the values of a constant at which the sides of a comparison are equal, one per row."""
    named = {node.variable for node in comparison.walk() if isinstance(node, ex.Reference)}
    anchor = own if own in variables.types else None
    for name in variables.types:
        anchor = name if name in named else anchor
    reader = _SampleReader(rows, variables, anchor)
    for side, other in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
        if _has(side, constant):
            try:
                with np.errstate(all="ignore"):
                    values = _solve(side, constant, reader.read(other), reader)
            except UnknownValueError:
                return None
            if np.ndim(values) == 0:
                return None
            own_rows = reader.rows_of(anchor)
            kept = np.asarray(values, np.float64)[own_rows]
            kept = kept[np.isfinite(kept)]
            return kept if len(kept) else None
    return None


def _has(tree: ex.Expression, constant: ex.Expression) -> bool:
    return any(node is constant for node in tree.walk())


def _solve(side: ex.Expression, constant: ex.Expression, target: Any, reader: _SampleReader) -> Any:
    """Return the values of ``constant`` that make ``side`` equal to ``target``."""
    if side is constant:
        return target
    match side:
        case ex.Negative(operand=operand):
            return _solve(operand, constant, np.negative(target), reader)
        case ex.Arithmetic(operator=sign, left=left, right=right) if sign in "+-*/":
            is_left = _has(left, constant)
            other = reader.read(right if is_left else left)
            if sign == "+":
                target = np.subtract(target, other)
            elif sign == "*":
                target = np.divide(target, other)
            elif sign == "-":
                target = np.add(target, other) if is_left else np.subtract(other, target)
            else:
                target = np.multiply(target, other) if is_left else np.divide(other, target)
            return _solve(left if is_left else right, constant, target, reader)
    raise UnknownValueError


@dataclass(frozen=True)
class _SampleReader:
    """Evaluates expressions at every row of a sample; the row is the event of the variable ``anchor``."""

    rows: SampledRows
    variables: Variables
    anchor: str | None

    def read(self, tree: ex.Expression) -> Any:
        """Return the value of an expression at every row, or one number."""
        match tree:
            case ex.Literal(value=value) if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
            case ex.Parameter(name=name) if isinstance(self.variables.params.get(name), int | float):
                return float(self.variables.params[name])
            case ex.Attribute(name=name):
                return self._column(name)
            case ex.Reference(name=str()):
                return self._at_variable(tree)
            case ex.Previous(operand=operand, offset=offset):
                return self._rows_back(self.read(operand), np.full(len(self.rows), offset))
            case ex.Aggregate():
                return self._aggregate(tree)
            case ex.Call(function=function, arguments=(argument,)) if function in _FUNCTIONS:
                return _FUNCTIONS[function](self.read(argument))
            case ex.Negative(operand=operand):
                return np.negative(self.read(operand))
            case ex.Arithmetic(operator=sign, left=left, right=right):
                return _OPERATORS[sign](self.read(left), self.read(right))
        raise UnknownValueError

    def rows_of(self, variable: str | None) -> np.ndarray:
        """Return the rows whose type fits a variable."""
        wanted = self.variables.types.get(variable) if variable is not None else None
        if wanted is None or self.rows.event_types is None:
            return np.arange(len(self.rows))
        return np.flatnonzero(self.rows.event_types == wanted)

    def _column(self, name: str) -> np.ndarray:
        values = self.rows.values(name)
        if values is None:
            raise UnknownValueError
        return values

    def _rows_back(self, values: Any, distance: np.ndarray) -> Any:
        """Return the value some rows earlier in the run; NaN if the run begins later."""
        if np.ndim(values) == 0:
            return values
        place = np.arange(len(self.rows)) - distance
        run = self.rows.run_of_row
        is_known = (place >= 0) & (run[place] == run)
        return np.where(is_known, values[place], np.nan)

    def _at_variable(self, tree: ex.Reference) -> np.ndarray:
        """Return a column at the event of a variable: the row itself, or an earlier row of its type."""
        values = self._column(str(tree.name))
        if tree.variable == self.anchor and tree.index in (None, ex.CURRENT, ex.LAST):
            return values
        rows = self.rows_of(tree.variable)
        is_before = tree.variable == self.anchor and tree.index == ex.BEFORE
        distance = 1 if is_before else self.rows.distances
        if not len(rows):
            raise UnknownValueError
        begin = np.searchsorted(rows, self.rows.begin_of_row, "left")
        stop = np.searchsorted(rows, np.arange(len(self.rows)), "left")  # the events before the row
        place = np.maximum(stop - distance, begin)
        return np.where(place < stop, values[rows[np.minimum(place, len(rows) - 1)]], np.nan)

    def _aggregate(self, tree: ex.Aggregate) -> Any:
        """Return an aggregate over the rows before, as many as `SampledRows.distances` says."""
        distance, function = self.rows.distances, tree.function
        if function == "count":
            return distance.astype(np.float64)
        if tree.operand is None or function not in ("first", "last", *_OVER_ROWS):
            raise UnknownValueError
        if self.variables.types:  # over earlier events of a variable
            values = self.read(tree.operand)
            return values * distance if function == "sum" else values
        values = self.read(tree.operand)
        if np.ndim(values) == 0 or function == "first":
            return self._rows_back(values, distance)
        if function == "last":
            return self._rows_back(values, np.ones_like(distance))
        aggregates = np.full(len(values), np.nan)
        run = self.rows.run_of_row
        for n in np.unique(distance):
            if len(values) <= n:
                continue
            ends = np.flatnonzero(distance[n:] == n) + n
            ends = ends[run[ends - n] == run[ends]]
            windows = np.lib.stride_tricks.sliding_window_view(values, n)
            aggregates[ends] = _OVER_ROWS[function](windows[ends - n], axis=1)
        return aggregates
