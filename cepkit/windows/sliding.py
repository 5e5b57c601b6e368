"""A sliding window that takes one row at a time: running aggregates, whose cost is that of a row."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from cepkit.language.expressions import trees as ex
from cepkit.windows.ranges import Size
from cepkit.windows.values import ALL, Window, aggregate_name, aggregate_operand

_SMALL = 1 << 31  # sums of fewer integers than this, each of them less than this, fit into 64 bits
_UNIT = 1 << 1074  # every float is a whole multiple of 1 / _UNIT


class SlidingRows:
    """The rows that a window holds, and the aggregates of each group."""

    # `of` returns None for windows that need a table: those with a condition, batches, rows that leave, or
    # aggregates of expressions. Rows are lists of plain values, as `RowValues` reads them.

    def __init__(self, size: Size, clock: int | None, keys: Sequence[int], makers: Sequence[tuple]):
        self._size, self._clock, self._keys, self._makers = size, clock, keys, makers
        self._whole = sorted({place for place, _, is_whole in makers if is_whole})
        self.rows: deque[tuple[list, tuple]] = deque()  # with the key of the row's group
        self.n_left = 0  # rows that entered and left
        self._groups: dict[tuple, list[RunningCount]] = {}
        self._n_of_group: dict[tuple, int] = {}

    @classmethod
    def of(cls, window: Window, size: Size, schema: pa.Schema) -> SlidingRows | None:
        """Return the rows of a window that holds none."""
        names, types = schema.names, schema.types
        clock = names.index(window.order_by[0]) if size.is_time else None
        keys = [names.index(name) for name in window.group_by]
        makers = [_maker(tree, names, types) for _, tree in window.aggregates]
        is_plain = not window.tumbling and window.emit != ALL and window.where is None
        has_ticks = clock is None or pa.types.is_timestamp(types[clock]) or pa.types.is_integer(types[clock])
        # Floats as keys would need the rules of -0.0.
        has_keys = not any(pa.types.is_floating(types[place]) for place in keys)
        if None in makers or not (is_plain and has_ticks and has_keys):
            return None
        return cls(size, clock, keys, makers)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_groups(self) -> int:
        return len(self._groups)

    def takes(self, row: list) -> bool:
        """Return whether all sums stay exact with a row."""
        return all(row[place] is None or -_SMALL < row[place] < _SMALL for place in self._whole)

    def add(self, row: list) -> list[Any]:
        """Let a row enter and old ones leave, and return the aggregates of its group."""
        key = tuple([row[place] for place in self._keys])
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = [make(place) for place, make, _ in self._makers]
            self._n_of_group[key] = 0
        self.rows.append((row, key))
        self._n_of_group[key] += 1
        for aggregate in group:
            aggregate.add(row)
        now = 0 if self._clock is None else row[self._clock]
        while self._is_over(self.rows[0][0], now):
            self._let_leave(*self.rows.popleft())
        return [aggregate.value() for aggregate in group]

    def _is_over(self, oldest: list, now: int) -> bool:
        if self._clock is None:
            return len(self.rows) > self._size.width
        return oldest[self._clock] <= now - self._size.width

    def _let_leave(self, row: list, key: tuple) -> None:
        self.n_left += 1
        self._n_of_group[key] -= 1
        if not self._n_of_group[key]:
            del self._groups[key], self._n_of_group[key]
            return
        for aggregate in self._groups[key]:
            aggregate.remove(row)


def units_of(value: float) -> int:
    """Return a finite float in units of the smallest float."""
    top, bottom = value.as_integer_ratio()
    return top * (_UNIT // bottom)


def float_of_units(units: int) -> float:
    """Return the float that is nearest to a sum of units."""
    try:
        return units / _UNIT
    except OverflowError:  # beyond the greatest float
        return math.inf if units > 0 else -math.inf


class RunningCount:
    """The number of rows of a group, or of values of a column; the other aggregates count them, too."""

    __slots__ = ("n", "place")

    def __init__(self, place: int | None):
        self.place, self.n = place, 0

    def add(self, row: list) -> None:
        """Let a row enter."""
        if self.place is None or row[self.place] is not None:
            self.n += 1
            self.change(row, 1)

    def remove(self, row: list) -> None:
        """Let the oldest row leave."""
        if self.place is None or row[self.place] is not None:
            self.n -= 1
            self.change(row, -1)

    def change(self, row: list, sign: int) -> None:
        """Note a value that enters (sign 1) or leaves (sign -1)."""

    def value(self) -> Any:
        return self.n


class RunningSum(RunningCount):
    """A sum of integers."""

    __slots__ = ("units",)

    def __init__(self, place: int):
        super().__init__(place)
        self.units = 0

    def change(self, row: list, sign: int) -> None:
        self.units += sign * row[self.place]

    def value(self) -> Any:
        return self.units if self.n else None


class RunningFloatSum(RunningSum):
    """An exact sum of floats, in units of the smallest float; it is rounded once."""

    __slots__ = ("n_infinite",)

    def __init__(self, place: int):
        super().__init__(place)
        self.n_infinite = {math.inf: 0, -math.inf: 0}

    def change(self, row: list, sign: int) -> None:
        value = row[self.place]
        if value in self.n_infinite:
            self.n_infinite[value] += sign
            return
        self.units += sign * units_of(value)

    def value(self) -> float | None:
        most, least = self.n_infinite.values()
        if not self.n or (most and least):
            return None
        if most or least:
            return math.inf if most else -math.inf
        return float_of_units(self.units)


class RunningMean(RunningSum):
    """A mean of integers."""

    def value(self) -> float | None:
        return self.units / self.n if self.n else None


class RunningFloatMean(RunningFloatSum):
    """The sum of floats, rounded, divided by their number."""

    def value(self) -> float | None:
        total = super().value()
        return None if total is None else total / self.n


class RunningLeast(RunningCount):
    """The least value, with the values that may follow it; ``sign`` is -1 for the greatest value."""

    __slots__ = ("n_left", "queue")
    sign = 1

    def __init__(self, place: int):
        super().__init__(place)
        self.n_left = 0
        self.queue: deque[tuple[int, Any]] = deque()  # numbers of values that entered, and the values

    def change(self, row: list, sign: int) -> None:
        queue = self.queue
        if sign < 0:
            self.n_left += 1
            if queue[0][0] < self.n_left:
                queue.popleft()
            return
        value = row[self.place]
        while queue and self.sign * queue[-1][1] > self.sign * value:
            queue.pop()
        queue.append((self.n_left + self.n - 1, value))

    def value(self) -> Any:
        return self.queue[0][1] if self.n else None


class RunningGreatest(RunningLeast):
    """The greatest value."""

    __slots__ = ()
    sign = -1


_OF_INTEGERS: dict[str, Callable] = {
    "count": RunningCount, "sum": RunningSum, "avg": RunningMean, "min": RunningLeast, "max": RunningGreatest,
}  # fmt: skip
_OF_FLOATS = _OF_INTEGERS | {"sum": RunningFloatSum, "avg": RunningFloatMean}


def _maker(
    tree: ex.Expression, names: Sequence[str], types: Sequence[pa.DataType]
) -> tuple[int | None, Callable, bool] | None:
    """Return the place of an aggregate's column, its class, and whether it adds integers; None for others."""
    name, operand = aggregate_name(tree), aggregate_operand(tree)
    if name == "count" and operand is None:
        return None, RunningCount, False
    if not isinstance(operand, ex.Attribute) or getattr(tree, "by", None) is not None:
        return None
    place = names.index(operand.name)
    is_whole = pa.types.is_integer(types[place])
    classes = _OF_INTEGERS if is_whole else _OF_FLOATS if pa.types.is_float64(types[place]) else {}
    if name not in classes:
        return (place, RunningCount, False) if name == "count" else None
    return place, classes[name], is_whole and name in ("sum", "avg")
