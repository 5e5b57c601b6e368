"""The ranges of a query's constants: which values a slider offers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cepkit.events import DURATION, FLOAT, TIME, ColumnType
from cepkit.explorer.query.thresholds import SampledRows, Variables, thresholds_of
from cepkit.language.expressions import trees as ex

POSITIONS = 200  # a slider has at most about this many
MOST_POSITIONS = 2000  # if only a finer step meets the value of the query
_TAIL = 0.01  # of the values at either end count as outliers
_DECADES = 2  # between the tails; such values may have a logarithmic slider
_SKEW = 0.1  # the median of such values is in this part of a linear slider
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
        known = None
        if self._rows is not None and len(self._rows):
            known = thresholds_of(comparison, constant, self._rows, self._variables, own)
        return around(value) if known is None else range_of(known, value)

    def has_fractions(self, tree: ex.Expression) -> bool:
        """Return whether ``tree`` contains a column of floats, or a division."""
        nodes = list(tree.walk())
        names = (node.name for node in nodes if isinstance(node, ex.Attribute | ex.Reference))
        if any(name in self.schema and self.schema[name].kind == FLOAT for name in names):
            return True
        return any(isinstance(node, ex.Arithmetic) and node.operator == "/" for node in nodes)

    def clock_unit(self, tree: ex.Expression) -> str | None:
        """Return the unit of the times or durations in ``tree``, or None."""
        names = [node.name for node in tree.walk() if isinstance(node, ex.Attribute | ex.Reference)]
        units = [self.schema[name].unit for name in names if name in self.schema]
        kinds = [self.schema[name].kind for name in names if name in self.schema]
        return units[0] if units and kinds[0] in (TIME, DURATION) else None


def around(value: float) -> Range:
    """Return a default range for a constant."""
    if value == 0:
        return Range(-10, 10)
    return Range(0, 4 * value) if value > 0 else Range(4 * value, 0)


def range_of(known: np.ndarray, value: float) -> Range:
    """Return the range of a constant from the values that it competes with; it includes ``value``.

    Outliers do not count: the range ends one width of the other values beyond them, or earlier.
    """
    used = known
    low, high = np.quantile(used, [_TAIL, 1 - _TAIL])
    if low == high:  # most values are equal; the others are of interest
        used = known[known != low]
        if not len(used):
            own = around(value)
            return Range(min(own.low, float(low)), max(own.high, float(low)))
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
    numbers = next((own for own in _STOPS if (last - first) * len(own) < POSITIONS), _STOPS[-1])
    made = [
        float(f"{number}e{power - 1}") for power in range(first, last + 1) for number in numbers
    ]  # as text, so that 0.3 is 0.3
    below = max((stop for stop in made if stop <= low), default=low)
    above = min((stop for stop in made if stop >= reach.high), default=reach.high)
    kept = {stop for stop in made if below <= stop <= above} | {value}
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
