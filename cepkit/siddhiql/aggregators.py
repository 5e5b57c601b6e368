"""Aggregates of ``select``: values enter with events, leave with expired events, and a batch resets them."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from cepkit.siddhiql.functions import BOOL, DOUBLE, INT, LONG, OBJECT, STRING, Type

_UNIT = 1 << 1074  # every float is a whole multiple of 1 / _UNIT


class Total:
    """An exact sum: floats are added as whole numbers of the smallest unit, and rounded once."""

    __slots__ = ("is_whole", "n", "units", "unusual")

    def __init__(self, is_whole: bool):
        self.is_whole, self.units, self.n = is_whole, 0, 0
        self.unusual = 0.0  # sums of infinities and NaN

    def change(self, value: Any, sign: int) -> None:
        """Add (sign 1) or remove (sign -1) a value."""
        self.n += sign
        if self.is_whole:
            self.units += sign * value
        elif math.isfinite(value):
            top, bottom = float(value).as_integer_ratio()
            self.units += sign * top * (_UNIT // bottom)
        else:
            self.unusual += sign * value

    def value(self) -> Any:
        """Return the sum."""
        if self.is_whole:
            return self.units
        return self.units / _UNIT + self.unusual

    def mean(self) -> float:
        """Return the sum, rounded, divided by the number of values."""
        return self.value() / self.n


class Aggregator:
    """One aggregate of one group. Missing values do not count, but count() counts events."""

    def __init__(self, is_whole: bool = False):
        self.is_whole = is_whole
        self.reset()

    def reset(self) -> None:
        """Forget all values."""
        self.total = Total(self.is_whole)

    def add(self, value: Any) -> None:
        """Take a value in."""
        if value is not None:
            self.total.change(value, 1)

    def remove(self, value: Any) -> None:
        """Take a value out."""
        if value is not None:
            self.total.change(value, -1)

    def value(self) -> Any:
        """Return the sum; missing if no value is in."""
        return self.total.value() if self.total.n else None


class Mean(Aggregator):
    """The mean of numbers."""

    def value(self) -> Any:
        """Return the mean; missing if no value is in."""
        return self.total.mean() if self.total.n else None


class EventCount(Aggregator):
    """The number of events."""

    def reset(self) -> None:
        """Forget all events."""
        self.n = 0

    def add(self, value: Any) -> None:
        """Count an event."""
        self.n += 1

    def remove(self, value: Any) -> None:
        """Count an event that left."""
        self.n -= 1

    def value(self) -> int:
        """Return the number of events."""
        return self.n


class DistinctCount(Aggregator):
    """The number of different values; a missing value is one of them."""

    def reset(self) -> None:
        """Forget all values."""
        self.of_value: Counter = Counter()

    def add(self, value: Any) -> None:
        """Take a value in."""
        self.of_value[value] += 1

    def remove(self, value: Any) -> None:
        """Take a value out."""
        self.of_value[value] -= 1
        if not self.of_value[value]:
            del self.of_value[value]

    def value(self) -> int:
        """Return the number of different values."""
        return len(self.of_value)


class Spread(Aggregator):
    """The standard deviation of the whole population, from exact sums."""

    def reset(self) -> None:
        """Forget all values."""
        self.values: Counter = Counter()
        self.total = Total(False)

    def add(self, value: Any) -> None:
        """Take a value in."""
        super().add(value)
        if value is not None:
            self.values[value] += 1

    def remove(self, value: Any) -> None:
        """Take a value out."""
        super().remove(value)
        if value is not None:
            self.values[value] -= 1

    def value(self) -> float | None:
        """Return the deviation; 0 for one value, missing for none."""
        if not self.total.n:
            return None
        if self.total.n == 1:
            return 0.0
        mean = self.total.mean()
        squares = math.fsum((value - mean) ** 2 * n for value, n in self.values.items() if n)
        return math.sqrt(squares / self.total.n)


class Extreme(Aggregator):
    """The least or the greatest value, with the values that may follow it."""

    def __init__(self, is_before: Callable[[Any, Any], bool], forever: bool = False):
        self._is_before, self._forever = is_before, forever
        super().__init__()

    def reset(self) -> None:
        """Forget all values; those of ``minForever`` and ``maxForever`` stay."""
        if not (self._forever and hasattr(self, "queue")):
            self.queue: deque = deque()

    def add(self, value: Any) -> None:
        """Take a value in."""
        if value is None:
            return
        while self.queue and self._is_before(value, self.queue[-1]):
            self.queue.pop()
        if not (self._forever and self.queue):
            self.queue.append(value)

    def remove(self, value: Any) -> None:
        """Take a value out."""
        if value is not None and not self._forever and value in self.queue:
            self.queue.remove(value)

    def value(self) -> Any:
        """Return the extreme; missing if no value is in."""
        return self.queue[0] if self.queue else None


def less(a: Any, b: Any) -> bool:
    """Return whether a value is less than another."""
    return a < b


def greater(a: Any, b: Any) -> bool:
    """Return whether a value is greater than another."""
    return a > b


_WHOLE = (INT, LONG)
TAKES_NUMBERS = ("sum", "avg", "stddev", "min", "max", "minforever", "maxforever")
NAMES = (*TAKES_NUMBERS, "count", "distinctcount")


def result_type(name: str, of: Type | None) -> Type:
    """Return the type of an aggregate over values of a type."""
    if name in ("count", "distinctcount"):
        return LONG
    if name in ("avg", "stddev"):
        return DOUBLE
    if name == "sum":
        return LONG if of in _WHOLE else DOUBLE
    return of or OBJECT


def fits(name: str, of: Type | None) -> bool:
    """Return whether an aggregate takes values of a type; None stands for no argument."""
    if of is None:
        return name == "count"
    return name not in TAKES_NUMBERS or of not in (STRING, BOOL)


def make_aggregator(name: str, of: Type | None) -> Aggregator:
    """Return a new aggregate without values."""
    match name:
        case "sum":
            return Aggregator(of in _WHOLE)
        case "avg":
            return Mean(of in _WHOLE)
        case "count":
            return EventCount()
        case "distinctcount":
            return DistinctCount()
        case "stddev":
            return Spread()
    return Extreme(less if name.startswith("min") else greater, name.endswith("forever"))
