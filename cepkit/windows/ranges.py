"""The rows that a window holds, in arrays and one by one, and the pairs that a join creates."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.places import PLACES
from cepkit.events import by_code, sums_before
from cepkit.language.expressions import trees as ex
from cepkit.limits import check_memory
from cepkit.windows.values import ALL, Window

# The rows that a window holds when a row arrives and when it leaves, as ranges; arrays in, arrays out.

KERNELS = "cepkit.kernels.windows"


class Size(NamedTuple):
    """The size of a window over ordered rows: ticks of the clock or a number of rows."""

    is_time: bool
    width: int
    tumbling: bool


class Limits(NamedTuple):
    """For each row in stream order: the first row in its window, and the row before which it leaves."""

    # Both are int64, (n_rows,), and nondecreasing. A row that no arrival removes leaves before row
    # ``n_rows``.

    first: np.ndarray
    gone: np.ndarray


class Emitted(NamedTuple):
    """What a window emits, in order, and the ranges of places that its aggregates range over."""

    # Places are rows sorted by group, in stream order within a group. Items are all emitted rows: first those
    # that arrive, then those that leave, both by place.

    row_of_place: np.ndarray  # int64, (n_rows,)
    row_of_item: np.ndarray  # int64, (n_items,): position in stream order
    n_arrivals: int  # the first items
    start: np.ndarray  # int64, (n_items,): range of places of each item
    stop: np.ndarray
    order: np.ndarray | None  # int64, (n_items,): the items in the order of the result; None: as they are
    moment_of_item: np.ndarray | None  # int64, (n_items,): row that arrives when the item is emitted

    def only(self, wanted: np.ndarray) -> Emitted:
        """Return the items at these places of the result, in the same order."""
        order = wanted if self.order is None else self.order[wanted]
        is_item = np.zeros(len(self.row_of_item), bool)
        is_item[order] = True
        items, moment, number = np.flatnonzero(is_item), self.moment_of_item, np.empty(len(is_item), np.int64)
        number[items] = np.arange(len(items))
        return self._replace(
            row_of_item=self.row_of_item[items], n_arrivals=int(np.searchsorted(items, self.n_arrivals)),
            start=self.start[items], stop=self.stop[items], order=number[order],
            moment_of_item=None if moment is None else moment[items],
        )  # fmt: skip

    def parts(self, size: int) -> Iterator[Emitted]:
        """Yield runs of items with the places that they need; all at once if runs would share many places."""
        n, cuts = len(self.row_of_item), range(0, len(self.row_of_item), size)
        low = np.minimum.reduceat(np.minimum(self.start, self.stop), cuts) if n > size else [0]
        high = np.maximum.reduceat(np.maximum(self.start, self.stop), cuts) if n > size else [n]
        if n <= size or (high - low).sum() > 2 * n:
            yield self
            return
        for begin, first, stop in zip(cuts, low.tolist(), high.tolist(), strict=True):
            items = slice(begin, min(begin + size, n))
            yield self._replace(
                row_of_place=self.row_of_place[first:stop], row_of_item=self.row_of_item[items],
                n_arrivals=min(max(self.n_arrivals - begin, 0), items.stop - begin),
                start=self.start[items] - first, stop=self.stop[items] - first,
            )  # fmt: skip


def limits_of(
    size: Size, time: np.ndarray | None, n_rows: int, first_number: int = 0, *, with_leaving: bool = True
) -> Limits:
    """Return for each row the first row of its window, and the row at which it leaves."""
    rows = np.arange(n_rows, dtype=np.int64)
    if size.is_time and not size.tumbling:
        assert time is not None
        kernels = load_kernels(PLACES)
        first, gone = np.empty(n_rows, np.int64), np.empty(n_rows if with_leaving else 0, np.int64)
        time = np.ascontiguousarray(time)
        kernels.window_starts(time, np.zeros(n_rows, np.int64), size.width, 0, first)
        if not with_leaving:
            return Limits(first, gone)
        kernels.window_ends(time, np.full(n_rows, n_rows, np.int64), size.width, 0, gone)
        return Limits(first, gone)
    if not size.tumbling:
        return Limits(np.maximum(rows - (size.width - 1), 0), np.minimum(rows + size.width, n_rows))
    if not n_rows:
        return Limits(rows, rows)
    batch = batches_of(size, time, n_rows, first_number)
    begins = np.flatnonzero(np.concatenate(([True], batch[1:] != batch[:-1])))
    ends = np.append(begins[1:], n_rows)
    n_of_batch = ends - begins
    return Limits(np.repeat(begins, n_of_batch), np.repeat(ends, n_of_batch))


def batches_of(size: Size, time: np.ndarray | None, n_rows: int, first_number: int = 0) -> np.ndarray:
    """Return the batch of every row of a tumbling window."""
    if size.is_time:
        assert time is not None
        return np.floor_divide(time, size.width)
    return (first_number + np.arange(n_rows, dtype=np.int64)) // size.width


def emitted(
    size: Size, limits: Limits, group: np.ndarray, n_groups: int, *, with_leaving: bool,
    places: np.ndarray | None = None,
) -> Emitted:  # fmt: skip
    """Return what a window emits; ``places`` are all numbers of rows, if they are in memory already."""
    n, one_group = len(group), n_groups < 2
    start, places = limits.first, np.arange(n, dtype=np.int64) if places is None else places
    row_of_place, first_place = places, np.array([0, n])
    if not one_group:
        row_of_place, first_place = by_code(group, n_groups), sums_before(np.bincount(group))
        start = np.empty(n, np.int64)
        load_kernels(KERNELS).group_limits(limits.first, row_of_place, first_place, start)
    if not with_leaving:
        order = None
        if not one_group:
            order = np.empty(n, np.int64)
            order[row_of_place] = places
        return Emitted(row_of_place, row_of_place, n, start, places + 1, order, None)
    stop = np.empty(n, np.int64)
    load_kernels(KERNELS).group_limits(limits.gone, row_of_place, first_place, stop)
    # The last rows of a window of rows stay. Time passes after the last row, so a window of time empties.
    leaves = limits.gone[row_of_place] < n
    leaving = places if size.is_time else places[leaves]
    leaving_start, leaving_stop = leaving + 1, stop[leaving]
    if size.tumbling:
        leaving_start = leaving_stop  # the whole batch leaves
    leaving_row = row_of_place[leaving]
    row_of_item = np.concatenate((row_of_place, leaving_row))
    # Before row r arrives, r rows arrive and first[r] leave; before it leaves, gone[r] arrive and r leave.
    arrival_number = limits.first[row_of_place] + row_of_place
    leaving_number = limits.gone[leaving_row] + leaving_row
    order = np.empty(len(row_of_item), np.int64)
    order[np.concatenate((arrival_number, leaving_number))] = np.arange(len(order))
    moment = np.concatenate((row_of_place, limits.gone[leaving_row]))
    return Emitted(
        row_of_place, row_of_item, n, np.concatenate((start, leaving_start)),
        np.concatenate((places + 1, leaving_stop)), order, moment,
    )  # fmt: skip


# The pairs that the arrivals of a join create; arrays in, arrays out.

_PER_PAIR = 64  # bytes: eight numbers while they are made, and their rows later


class Meeting(NamedTuple):
    """The events of both sides in one order: by time, then the left side before the right one."""

    side: np.ndarray  # int8, (n_events,): 0 left, 1 right
    row: np.ndarray  # int64, (n_events,): number of the row on its side, in stream order
    time: np.ndarray  # (n_events,)
    position: tuple[np.ndarray, ...]  # int64, by side: the event of every row
    gone: tuple[np.ndarray, ...]  # int64, by side: the event before which a row leaves; or n_events


class Pairs(NamedTuple):
    """Pairs in the order of the arrivals that create them, and of their partners."""

    event: np.ndarray  # int64, (n_pairs,): the arrival
    left: np.ndarray  # int64, (n_pairs,): row of the left side
    right: np.ndarray


def meet(
    times: tuple[np.ndarray, ...], sizes: tuple[Size | None, ...], first_numbers: tuple[int, ...] = (0, 0)
) -> Meeting:
    """Return the events of both sides in one order, and when each leaves its window."""
    n_left = len(times[0])
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")  # left rows come first
    side = (order >= n_left).astype(np.int8)
    row = np.where(side == 1, order - n_left, order).astype(np.int64)
    time = np.ascontiguousarray(time[order])
    position = (np.flatnonzero(side == 0), np.flatnonzero(side == 1))
    gone = tuple(
        _leaves(size, time, side_positions, number)
        for size, side_positions, number in zip(sizes, position, first_numbers, strict=True)
    )
    return Meeting(side, row, time, position, gone)


def _leaves(size: Size | None, time: np.ndarray, position: np.ndarray, first_number: int) -> np.ndarray:
    """Return the number of the event at which each row of a side leaves its window."""
    n_events, n = len(time), len(position)
    if size is None:
        return position + 1
    if size.is_time:
        if size.tumbling:
            batch = batches_of(size, time, n_events)
            return np.searchsorted(batch, batch[position], side="right").astype(np.int64)
        gone = np.empty(n_events, np.int64)
        load_kernels(PLACES).window_ends(time, np.full(n_events, n_events, np.int64), size.width, 0, gone)
        return gone[position]
    number = np.arange(n, dtype=np.int64)  # of the rows of this side
    if size.tumbling:
        removes = ((number + first_number) // size.width + 1) * size.width - first_number
    else:
        removes = number + size.width
    return np.append(position, n_events)[np.minimum(removes, n)]


def pairs_of(
    meeting: Meeting, keys: tuple[np.ndarray, np.ndarray], n_keys: int, triggers: tuple[int, ...] = (0, 1)
) -> Pairs:
    """Return all pairs of rows with equal keys that arrivals create."""
    n_events = len(meeting.side)
    start, stop = np.zeros(n_events, np.int64), np.zeros(n_events, np.int64)
    rows, first = zip(*(_by_key(side_keys, n_keys) for side_keys in keys), strict=True)
    for which in triggers:
        other = 1 - which
        arrival = meeting.position[which][rows[which]]
        out_start, out_stop = np.empty(len(arrival), np.int64), np.empty(len(arrival), np.int64)
        load_kernels(KERNELS).partner_ranges(
            arrival, first[which], meeting.position[other][rows[other]], meeting.gone[other][rows[other]],
            first[other], out_start, out_stop,
        )  # fmt: skip
        start[arrival], stop[arrival] = out_start, out_stop
    n_pairs = int((stop - start).sum())
    check_memory(_PER_PAIR * n_pairs, f"{n_pairs:,} pairs")
    pairs = Pairs(*(np.empty(n_pairs, np.int64) for _ in Pairs._fields))
    load_kernels(KERNELS).write_pairs(meeting.side, meeting.row, start, stop, *rows, *pairs)
    return pairs


def _by_key(keys: np.ndarray, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with a key, by key and in order, and the first of each key."""
    order = np.argsort(keys, kind="stable").astype(np.int64)
    keyed_rows = order[np.searchsorted(keys[order], 0) :]  # codes below 0 are null keys, which join nothing
    first = sums_before(np.bincount(keys[keyed_rows], minlength=n_keys)[:n_keys])
    return keyed_rows, first


def ends_of(meeting: Meeting, pairs: Pairs) -> np.ndarray:
    """Return the event before which a pair ends, since one of its rows leaves; int64, (n_pairs,)."""
    return np.minimum(meeting.gone[0][pairs.left], meeting.gone[1][pairs.right])


# A sliding window that takes one row at a time: running aggregates, whose cost is that of a row.

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
        """Return the rows of a window, none at first; None if its clock or a key is no column."""
        names, types = schema.names, schema.types
        clock_name = window.order_by[0] if size.is_time else None
        if not {clock_name, *window.group_by} - {None} <= set(names):  # fields of structs
            return None
        clock = None if clock_name is None else names.index(clock_name)
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
    if not isinstance(tree, ex.Aggregate):
        return None
    name, operand = tree.function, tree.operand
    if name == "count" and operand is None:
        return None, RunningCount, False
    if not isinstance(operand, ex.Attribute) or operand.name not in names or tree.by:
        return None
    place = names.index(operand.name)
    is_whole = pa.types.is_integer(types[place])
    classes = _OF_INTEGERS if is_whole else _OF_FLOATS if pa.types.is_float64(types[place]) else {}
    if name not in classes:
        return (place, RunningCount, False) if name == "count" else None
    return place, classes[name], is_whole and name in ("sum", "avg")
