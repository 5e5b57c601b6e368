"""Events as columns in stream order. All engines read this form, whatever the frame was."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pandas as pd

from cepkit.values import cached_property, dataclass, replace

if TYPE_CHECKING:
    import pyarrow as pa

# A pandas, polars or Spark DataFrame, an Arrow table, or an object with the Arrow stream protocol. Type
# checkers see no more: polars and pyspark need not be installed, and pyarrow has no type hints.
Frame: TypeAlias = Any

# A missing value is marked by a special value, so that no kernel needs a second array per column:
# NaN in floats, the smallest int64 in integers, times and durations, -1 in codes and booleans.
NULL_INTEGER = np.iinfo(np.int64).min
NULL_CODE = -1

_KEPT_PARTS = 2  # of some events, for queries over the same types of events

INTEGER, FLOAT, BOOLEAN, TEXT, TIME, DURATION, LIST, MAP, OTHER = (
    "integer", "float", "boolean", "text", "time", "duration", "list", "map", "other",
)  # fmt: skip
EVENTS_PER_COUNT = 1 << 15  # of equal neighbours: their values fit the cache
NUMBERS = (INTEGER, FLOAT)
WHOLE = (INTEGER, TIME, DURATION)  # of 64 bits


@dataclass(frozen=True, slots=True)
class ColumnType:
    """Type of the values of a column.

    Parameters
    ----------
    kind : str
        One of the module's names: integer, float, boolean, text, time, duration, list, map, other. Only
        measures of MATCH_RECOGNIZE are maps; a column of maps is ``other``.
    unit : str, optional
        For times and durations: ``s``, ``ms``, ``us`` or ``ns``. For integers that are decimals of a
        condition: how many digits after the point they count.
    timezone : str, optional
        Time zone of the times, if they have one.
    nullable : bool
        Whether missing values occur. Without them the kernels need fewer comparisons.
    ordered : tuple of str, optional
        Values from least to greatest. Only for text with its own order (ordered categories).
    item : ColumnType, optional
        Type of an item. Only for lists and maps.
    key : ColumnType, optional
        Type of a key. Only for maps.
    scale : int, optional
        Number of digits after the point. Only for floats that are decimals: conditions compare them exactly.
    """

    kind: str
    unit: str | None = None
    timezone: str | None = None
    nullable: bool = False
    ordered: tuple[str, ...] | None = None
    item: ColumnType | None = None
    key: ColumnType | None = None
    scale: int | None = None

    def __str__(self) -> str:
        name = {TIME: f"time[{self.unit}]", DURATION: f"duration[{self.unit}]"}.get(self.kind, self.kind)
        if self.kind == MAP:
            return f"map of {self.key} to {self.item}"
        return f"list of {self.item}" if self.kind == LIST else name


@dataclass(frozen=True, slots=True)
class Column:
    """The values of one attribute in stream order.

    ``values`` has shape (n_events,): int64 or a smaller integer, float32/64, int8 (boolean: 0, 1, -1), int32
    or int64 codes of ``categories`` (text), int64 ticks (time, duration), or objects (other).
    Array columns that conditions compare are float64 of shape (n_events, length).
    """

    type: ColumnType
    values: np.ndarray
    categories: np.ndarray | None = None  # objects, (n_categories,): the texts of the codes
    is_rising: bool | None = None  # whether no value is less than the one before; None: not known
    n_equal: np.ndarray | None = None  # of rising values: how many equal the next, by EVENTS_PER_COUNT
    complete_until: int | float | None = None  # of a clock: all events up to here are known; None: all

    @property
    def texts(self) -> np.ndarray:
        """The categories of a text column, objects, (n_categories,)."""
        if self.categories is None:
            raise TypeError(f"a column of type {self.type} has no texts")
        return self.categories

    def take(self, rows: np.ndarray | slice) -> Column:
        """Return the column restricted to these rows."""
        return replace(self, values=self.values[rows], is_rising=None, n_equal=None)


def nulls(column: Column) -> np.ndarray:
    """Return whether each value is missing."""
    kind, values = column.type.kind, column.values
    if kind == FLOAT:
        return np.isnan(values)
    if kind in (TEXT, BOOLEAN):
        return values < 0
    if kind in (INTEGER, TIME, DURATION):
        may_miss = column.type.nullable and values.dtype == np.int64  # else the least integer is a value
        return values == NULL_INTEGER if may_miss else np.zeros(len(values), bool)
    return np.array([_is_missing(value) for value in values], bool)


def _is_missing(value: object) -> bool:
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    return not isinstance(value, np.ndarray) and bool(value != value)


def plain_values(column: Column) -> np.ndarray:
    """Return the values as Python objects, times as ticks; None is null."""
    missing, values = nulls(column), column.values
    if column.type.kind == TEXT:
        plain = np.array([*column.texts, None], dtype=object)[values]
    elif column.type.kind == BOOLEAN:
        plain = (values == 1).astype(object)
    elif column.type.kind == LIST or values.ndim != 1:
        plain = np.empty(len(values), object)
        plain[:] = list(values)
    else:
        plain = values.astype(object)
    plain[missing] = None
    return plain


@dataclass(frozen=True)
class Events:
    """Columns in stream order, cut into partitions.

    Within a partition the order of rows is the order of events; no engine sorts by time.
    Values that depend only on the partitions are computed once and serve all queries over the events.
    """

    n_events: int
    columns: Mapping[str, Column]
    partition_of_event: np.ndarray  # int32, (n_events,)
    n_partitions: int
    row_of_event: np.ndarray | None = None  # int64, (n_events,): row of the frame; None: same as the position
    # bool, (n_events - 1,): whether an event equals the next one in all order columns; None: not known
    is_tied: np.ndarray | None = None
    n_tied: np.ndarray | None = None  # how many events are so, for each EVENTS_PER_COUNT; None: not known
    # called with a name, the partitions and what makes an array of them; None keeps nothing for the next call
    keep: Callable[[str, np.ndarray, Callable[[], np.ndarray]], np.ndarray] | None = None

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the frame's row numbers of these stream positions."""
        return positions if self.row_of_event is None else self.row_of_event[positions]

    def between(self, start: int, stop: int) -> Events:
        """Return the events at the positions from ``start`` to before ``stop``, with the same partitions."""
        return self.at(slice(start, stop))

    def at(self, positions: np.ndarray | slice) -> Events:
        """Return the events at some rising positions, with the same partitions."""
        columns = {name: column.take(positions) for name, column in self.columns.items()}
        rows = None if isinstance(positions, slice) else positions
        n = self.n_events + 1 if rows is None else len(rows)  # some positions may occur twice
        are_equal = n <= self.n_events and self.n_partitions < 2  # all codes are 0
        partition = self.partition_of_event[slice(n) if are_equal else positions]
        if self.row_of_event is not None:
            rows = self.row_of_event[positions]
        return Events(len(partition), columns, partition, self.n_partitions, rows)

    def part(self, positions: np.ndarray) -> Events:
        """Return the same as `at`; the newest parts are kept, with what is computed for them."""
        for kept, events in tuple(self._parts):
            if np.array_equal(kept, positions):
                return events
        events = self.at(positions)
        self._parts.append((positions, events))
        return events

    @cached_property
    def _parts(self) -> deque[tuple[np.ndarray, Events]]:
        return deque(maxlen=_KEPT_PARTS)

    def prepared(self, what: str, make: Callable[[Events], np.ndarray]) -> np.ndarray:
        """Return an array that depends on the partitions alone. The next calls on the frame have it, too."""
        if what not in self._prepared:
            keep = self.keep
            array = make(self) if keep is None else keep(what, self.partition_of_event, lambda: make(self))
            self._prepared[what] = array
        return self._prepared[what]

    @cached_property
    def _prepared(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def by_partition(self) -> np.ndarray:
        """Positions sorted by partition, in stream order within each, int64, (n_events,)."""
        return by_code(self.partition_of_event, self.n_partitions)

    @cached_property
    def rank_by_partition(self) -> np.ndarray:
        """Index of every position in `by_partition`, int64, (n_events,)."""
        if self.n_partitions < 2:
            return self.by_partition
        rank = np.empty(self.n_events, np.int64)
        rank[self.by_partition] = np.arange(self.n_events)
        return rank

    @cached_property
    def bounds_by_partition(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end (exclusive) of the partition of every entry of `by_partition`."""
        size = np.bincount(self.partition_of_event, minlength=max(1, self.n_partitions))
        end = np.cumsum(size)
        return np.repeat(end - size, size), np.repeat(end, size)

    @cached_property
    def limits(self) -> dict[tuple, np.ndarray]:
        """Limits in time by partition that queries over the events share; `Places` fills it."""
        return {}

    @cached_property
    def pools(self) -> dict[tuple, tuple]:
        """Arrays of accepted events that queries over the events share; the counting engine fills it."""
        return {}

    @cached_property
    def _values_by_partition(self) -> dict[str, np.ndarray]:
        return {}

    def values_by_partition(
        self, name: str, place: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> np.ndarray:
        """Return the values of a column in the order of `by_partition`; ``place`` may compute them."""
        values = self.columns[name].values
        if self.n_partitions < 2:
            return values
        if name not in self._values_by_partition:
            self._values_by_partition[name] = place(values) if place else values[self.by_partition]
        return self._values_by_partition[name]


def by_code(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return the places of codes below ``n_codes``, sorted by code, int64; equal ones keep their order."""
    if n_codes < 2:
        return np.arange(len(codes))
    if n_codes <= 1 << 16:
        codes = codes.astype(np.uint16)  # numpy sorts these in linear time
    return np.argsort(codes, kind="stable").astype(np.int64, copy=False)


def sums_before(numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the sum of the whole numbers before each place, and of all of them, int64, (n + 1,)."""
    sums = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=sums[1:])
    return sums


def shared_categories(columns: list[Column], ordered: bool) -> list[Column]:
    """Return the text columns with codes of one common list of categories, so that codes can be compared.

    Parameters
    ----------
    columns : list of Column
        Text columns.
    ordered : bool
        Whether a smaller code must mean a smaller text. The columns' own order decides if they share
        one, else the code points.

    Returns
    -------
    list of Column
        The same values with codes of one sorted (or common) ``categories``; missing values stay -1.
    """
    orders = {column.type.ordered for column in columns}
    if ordered and len(orders) == 1 and None not in orders:
        every = np.array(next(iter(orders)), dtype=object)
    elif len(columns) == 1 and not ordered:
        return columns
    else:
        every = np.array(sorted({text for column in columns for text in column.texts}), dtype=object)
    number = {text: code for code, text in enumerate(every)}
    shared = []
    for column in columns:
        recode = np.array([number[text] for text in column.texts] + [NULL_CODE], dtype=np.int64)
        shared.append(replace(column, values=recode[column.values], categories=every))
    return shared


class Source(Protocol):
    """A frame as engines read it. Each kind of frame has a class that implements this protocol.

    Rows are in the order of the frame. ``schema`` maps every column that queries can use to its type.
    """

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """The type of every column by name."""
        ...

    @property
    def duplicates(self) -> frozenset[str]:
        """Names that several columns have."""
        ...

    def is_untyped(self, name: str) -> bool:
        """Return whether a column has neither values nor a type, such as objects that are all missing."""
        ...

    def storage(self, name: str) -> Hashable | None:
        """Return what decides, beside its type, how a column becomes an Arrow array; None for the values."""
        ...

    @property
    def clock(self) -> str | None:
        """The column that orders the rows if a query names none; None for the order of the rows."""
        ...

    @property
    def frame(self) -> Frame:
        """The frame itself."""
        ...

    @property
    def owner(self) -> object | None:
        """The user's frame, for which prepared columns are kept; None keeps nothing."""
        ...

    def column(self, name: str) -> Column:
        """Return a column by name."""
        ...

    def item(self, name: str, index: int) -> Column:
        """Return item ``index`` of a list column."""
        ...

    def vectors(self, name: str) -> np.ndarray:
        """Return an array column as a matrix, float64, (n_rows, length); missing values are NaN."""
        ...

    def decimals(self, name: str) -> Column:
        """Return a column of decimals as integers that count its smallest digit."""
        ...

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column at these row numbers as an Arrow array."""
        ...

    def index_labels(self, rows: np.ndarray) -> Any:
        """Return the index labels of these row numbers."""
        ...

    def rows(self, rows: np.ndarray, columns: Mapping[str, Any]) -> Frame:
        """Return these rows as a frame; the further columns come first."""
        ...

    def result(self, columns: Mapping[str, Any]) -> Frame:
        """Return result columns as a frame of the same kind."""
        ...

    def tagged(self, columns: Mapping[str, Any]) -> Frame:
        """Return the frame with the further columns appended."""
        ...
