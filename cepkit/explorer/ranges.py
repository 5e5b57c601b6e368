"""The ranges of a query's constants, from the values at which comparisons become true in a sample of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from cepkit.events import DURATION, FLOAT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.values import dataclass, field

# The values at which a comparison becomes true or false, for a sample of rows.
#
# For ``price > prev(price) + 3`` these are the values of ``price - prev(price)``: the constant 3 competes
# with them. This module knows no frames. `cepkit.explorer.running.data` chooses the rows.

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
        return np.cumsum(self.begins)

    @cached_property
    def begin_of_row(self) -> np.ndarray:
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
    comparison: ex.Comparison, constant: ex.Expression, rows: SampledRows, variables: Variables,
    own: str | None = None,
) -> np.ndarray | None:  # fmt: skip
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


# The ranges of a query's constants: which values a slider offers.

POSITIONS = 200  # a slider has at most about this many
MOST_POSITIONS = 2000  # a slider has at most this many if only a finer step meets the value of the query
_TAIL = 0.01  # of the values at either end count as outliers
_DECADES = 2  # between the tails; such values may have a logarithmic slider
_SKEW = 0.1  # a slider is logarithmic if a linear one had the median in this first part
# The numbers of a logarithmic slider within a decade, from many to few.
_STOPS = (
    (10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90),
    (10, 12, 15, 20, 25, 30, 40, 50, 60, 80),
    (10, 20, 50),
)


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a slider offers: from ``low`` to ``high``, in equal steps or in equal ratios."""

    low: float
    high: float
    is_logarithmic: bool = False


class Ranges:
    """The ranges of constants, from the values that they compete with in a sample of rows."""

    def __init__(
        self, schema: Mapping[str, ColumnType], rows: SampledRows | None, variables: Variables | None = None
    ):
        self.schema, self._rows, self._variables = schema, rows, variables or Variables()

    def of_constant(
        self, comparison: ex.Comparison, constant: ex.Expression, value: float, own: str | None = None
    ) -> Range:
        """Return the range of a constant in a comparison; ``own`` is the variable of its columns."""
        thresholds = None
        if self._rows is not None and len(self._rows):
            thresholds = thresholds_of(comparison, constant, self._rows, self._variables, own)
        return around(value) if thresholds is None else range_of(thresholds, value)

    def has_fractions(self, tree: ex.Expression) -> bool:
        """Return whether ``tree`` contains a column of floats, or a division."""
        if any(name in self.schema and self.schema[name].kind == FLOAT for name in ex.columns_in(tree)):
            return True
        return any(isinstance(node, ex.Arithmetic) and node.operator == "/" for node in tree.walk())

    def clock_unit(self, tree: ex.Expression) -> str | None:
        """Return the unit of the first column in an expression if it has times or durations."""
        names = [name for name in ex.columns_in(tree) if name in self.schema]
        units = [self.schema[name].unit for name in names]
        kinds = [self.schema[name].kind for name in names]
        return units[0] if units and kinds[0] in (TIME, DURATION) else None


def around(value: float) -> Range:
    """Return a default range for a constant."""
    if value == 0:
        return Range(-10, 10)
    return Range(0, 4 * value) if value > 0 else Range(4 * value, 0)


def range_of(known: np.ndarray, value: float) -> Range:
    """Return the range of a constant from the values that it competes with, without outliers."""
    used = known
    low, high = np.quantile(used, [_TAIL, 1 - _TAIL])
    if low == high:  # most values are equal; the others are of interest
        used = known[known != low]
        if not len(used):
            nearby = around(value)
            return Range(min(nearby.low, float(low)), max(nearby.high, float(low)))
        used = np.append(used, low)
        low, high = np.quantile(used, [_TAIL, 1 - _TAIL])
    least, greatest, width = float(used.min()), float(used.max()), high - low
    if value > 0 and least >= 0 and _is_logarithmic(used, float(high + width)):
        positive = used[used > 0]
        first, last = np.quantile(positive, [_TAIL, 1 - _TAIL])
        first, last = max(first / 10, float(positive.min())), min(last * 10, greatest)
        return Range(0.0 if least == 0 else min(float(first), value), max(float(last), value), True)
    low, high = max(least, float(low - width)), min(greatest, float(high + width))
    return Range(min(low, value), max(high, value))


def _is_logarithmic(values: np.ndarray, high: float) -> bool:
    """Return whether values span decades and crowd at the lower end of a linear slider up to ``high``."""
    positive = values[values > 0]
    if not len(positive):
        return False
    first, median, last = np.quantile(positive, [_TAIL, 0.5, 1 - _TAIL])
    return bool(last >= first * 10**_DECADES and median <= _SKEW * high)


def stops_of(reach: Range, value: float, *, is_whole: bool) -> tuple[float, ...]:
    """Return the numbers of a logarithmic slider, with ``value``; the first one may be 0."""
    lowest = 1.0 if is_whole else reach.high / 10**6
    low = min(reach.low or max(lowest, min(value, reach.high / 10**4)), value)
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(reach.high) - 1e-9)
    numbers = next((digits for digits in _STOPS if (last - first) * len(digits) < POSITIONS), _STOPS[-1])
    stops = [
        float(f"{number}e{power - 1}") for power in range(first, last + 1) for number in numbers
    ]  # as text, so that 0.3 is 0.3
    below = max((stop for stop in stops if stop <= low), default=low)
    above = min((stop for stop in stops if stop >= reach.high), default=reach.high)
    kept = {stop for stop in stops if below <= stop <= above} | {value}
    kept |= {0.0} if reach.low == 0 else set()
    if is_whole:
        return tuple(sorted({int(stop) for stop in kept if stop == int(stop)}))
    return tuple(sorted(kept))


def nice_step(width: float) -> float:
    """Return the largest 1, 2 or 5 times a power of ten that is at most ``width``."""
    if not width > 0 or not math.isfinite(width):
        return 1
    power = math.floor(math.log10(width) + 1e-9)
    digit = max(d for d in (1, 2, 5) if d <= width / 10.0**power * (1 + 1e-9))
    return digit * 10**power if power >= 0 else round(digit * 10.0**power, -power)
