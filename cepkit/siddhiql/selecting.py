"""The rows of a query: columns, aggregates whose values enter and leave with events, groups and order."""

from __future__ import annotations

import math
import operator
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepkit.errors import CepError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.vocabulary import OF_TRUTHS, SUMMARIES
from cepkit.language.siddhi.printing import print_condition
from cepkit.language.siddhi.query import OutputColumn, SiddhiQuery
from cepkit.siddhiql.calls import Scope, SlotOf, Typed, Value, checked, single_value
from cepkit.siddhiql.functions import BOOL, DOUBLE, LONG, NUMBERS, OBJECT, STRING, WHOLE, Type
from cepkit.siddhiql.states import Slots
from cepkit.siddhiql.values import compile_condition, compile_siddhi
from cepkit.windows.ranges import float_of_units, units_of

# Aggregates of ``select``: values enter with events, leave with expired events, and a batch resets them.


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
            self.units += sign * units_of(float(value))
        else:
            self.unusual += sign * value

    def value(self) -> Any:
        return self.units if self.is_whole else float_of_units(self.units) + self.unusual

    def mean(self) -> float:
        """Return the sum, rounded, divided by the number of values."""
        return self.value() / self.n


class Aggregator:
    """One aggregate of one group, here a sum. Missing values do not count, but count() counts events."""

    def __init__(self, is_whole: bool = False):
        self.is_whole = is_whole
        self.reset()

    def reset(self) -> None:
        """Forget all values."""
        self.total, self.has_just_added = Total(self.is_whole), False

    def change(self, value: Any, sign: int) -> None:
        """Let a value in (sign 1) or out (sign -1)."""
        self.has_just_added = value is not None and sign > 0
        if value is not None:
            self.total.change(value, sign)

    def value(self) -> Any:
        """Return the sum; missing if no value is in, unless the value that entered had left before."""
        return self.total.value() if self.total.n or self.has_just_added else None


class Mean(Aggregator):
    """The mean of numbers; missing if no value is in."""

    def value(self) -> Any:
        return self.total.mean() if self.total.n else None


class EventCount(Aggregator):
    def reset(self) -> None:
        self.n = 0

    def change(self, value: Any, sign: int) -> None:
        self.n += sign

    def value(self) -> int:
        return self.n


class DistinctCount(Aggregator):
    """The number of different values; a missing value is one of them."""

    def reset(self) -> None:
        self.n_of_value: Counter = Counter()

    def change(self, value: Any, sign: int) -> None:
        self.n_of_value[value] += sign
        if not self.n_of_value[value]:
            del self.n_of_value[value]

    def value(self) -> int:
        return len(self.n_of_value)


class Spread(DistinctCount):
    """The standard deviation of the whole population, from exact sums."""

    def reset(self) -> None:
        super().reset()
        self.total = Total(False)

    def change(self, value: Any, sign: int) -> None:
        if value is not None:
            super().change(value, sign)
            self.total.change(value, sign)

    def value(self) -> float | None:
        """Return the deviation; 0 for one value, missing for none."""
        if self.total.n in (0, 1):
            return 0.0 if self.total.n else None
        mean = self.total.mean()
        squares = math.fsum((value - mean) ** 2 * n for value, n in self.n_of_value.items())
        variance = squares / self.total.n  # in a join more values may leave than entered
        return math.sqrt(variance) if variance >= 0 else math.nan


class Extreme(Aggregator):
    """The least or the greatest value, with the values that may follow it."""

    def __init__(self, is_before: Callable[[Any, Any], bool], forever: bool = False):
        self._is_before, self._forever = is_before, forever
        self.queue: deque = deque()
        super().__init__()

    def reset(self) -> None:
        """Forget all values; those of ``minForever`` and ``maxForever`` stay."""
        if not self._forever:
            self.queue.clear()

    def change(self, value: Any, sign: int) -> None:
        """Let a value enter (sign 1) or leave (sign -1)."""
        if value is None:
            return
        if sign < 0 and not self._forever:  # `forever` counts a value that leaves without an entry, too
            if value in self.queue:
                self.queue.remove(value)
            return
        while self.queue and self._is_before(value, self.queue[-1]):
            self.queue.pop()
        if not (self._forever and self.queue):
            self.queue.append(value)

    def value(self) -> Any:
        return self.queue[0] if self.queue else None


class OfAll(Aggregator):
    """One of ``SUMMARIES`` of all values that are in."""

    def __init__(self, name: str):
        self.name = name
        super().__init__()

    def reset(self) -> None:
        self.values: list = []

    def change(self, value: Any, sign: int) -> None:
        if value is not None:
            (self.values.append if sign > 0 else self.values.remove)(value)

    def value(self) -> Any:
        return SUMMARIES[self.name].of(self.values)


# The table has for each aggregate: its name in lower case, what makes it from whether its values are whole,
# its type (None: that of its values), and whether it takes numbers only.
_AGGREGATES: dict[str, tuple[Callable[[bool], Aggregator], Type | None, bool]] = {
    "sum": (Aggregator, DOUBLE, True),
    "avg": (Mean, DOUBLE, True),
    "stddev": (lambda _: Spread(), DOUBLE, True),
    "min": (lambda _: Extreme(operator.lt), None, True),
    "max": (lambda _: Extreme(operator.gt), None, True),
    "minforever": (lambda _: Extreme(operator.lt, forever=True), None, True),
    "maxforever": (lambda _: Extreme(operator.gt, forever=True), None, True),
    "count": (lambda _: EventCount(), LONG, False),
    "distinctcount": (lambda _: DistinctCount(), LONG, False),
    **{
        name: (
            lambda _, name=name: OfAll(name),
            None if summary.picks else LONG if summary.counts else DOUBLE,
            summary.of_numbers,
        )
        for name, summary in SUMMARIES.items()
        if summary.by is None
    },
}
NAMES = tuple(_AGGREGATES)


def result_type(name: str, of: Type | None) -> Type:
    """Return the type of an aggregate over values of a type."""
    if name == "sum" and of in WHOLE:
        return LONG
    return _AGGREGATES[name][1] or of or OBJECT


# The rows of a query: columns, aggregates by group, ``having``, ``order by``, ``limit`` and ``offset``.

CURRENT, EXPIRED, RESET = "current", "expired", "reset"

# What a window, a join or a pattern hands over: the kind of the event, the events it consists of, and when.
Handed = tuple[str, Slots, int]
Row = tuple[str, int, tuple[Any, ...]]


@dataclass
class RowSelection:
    """The compiled clauses after ``from``. Queries of one text share it; ``RowSelector`` has the state."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    columns: list[Value]
    group_by: list[Value]
    having: Value | None
    order_by: list[tuple[Value, bool]]
    limit: int | None
    offset: int | None
    kinds: frozenset[str]
    aggregates: list[tuple[str, Type | None, Value | None]]
    keeps_last: bool = True  # with aggregates, only the last of several events that come together gives a row
    cells: list[Any] = field(default_factory=list)  # the aggregates of the present row
    row: list[Any] = field(default_factory=list)  # the columns of the present row
    item_types: dict[str, Type] = field(default_factory=dict)  # of columns that are lists


def compile_selection(
    query: SiddhiQuery, slots: Sequence[SlotOf], source: str, ticks_per_ms: int
) -> RowSelection:
    """Compile the clauses of a query after ``from``."""
    selection = RowSelection((), (), [], [], None, [], query.limit, query.offset, _kinds(query), [])

    def scope(where: str, *, after: bool = False, aggregates: bool = True) -> Scope:
        def other(node: ex.Expression) -> Typed | None:
            if after and isinstance(node, ex.Attribute) and node.name in selection.names:
                place = selection.names.index(node.name)
                return Typed(lambda _: selection.row[place], selection.types[place])
            if isinstance(node, ex.Call) and aggregates and node.function.lower() in NAMES:
                return _aggregate(node, selection, scope(where, aggregates=False))
            return None

        return Scope(slots, source, where, None, other, ticks_per_ms)

    types: dict[str, Type] = {}
    in_select = scope("select")
    for column in query.select or _all_columns(query, slots, source):
        name = _column_name(column, in_select)
        if name in types:
            raise in_select.error(column.value, f"two columns are named {name!r}; write … as another name")
        part = compile_siddhi(column.value, in_select)
        types[name] = OBJECT if part.is_list else part.type
        if part.is_list:
            selection.item_types[name] = part.type
        selection.columns.append(part.call)
    in_group_by = scope("group by", aggregates=False)
    for tree in query.group_by:
        selection.group_by.append(single_value(tree, compile_siddhi(tree, in_group_by), in_group_by))
    # ``having`` and ``order by`` see the columns: `other` reads their names.
    selection.names, selection.types = tuple(types), tuple(types.values())
    if query.having is not None:
        selection.having = compile_condition(query.having, scope("having", after=True))
    for key in query.order_by:
        part = compile_siddhi(key.value, scope("order by", after=True))
        selection.order_by.append((part.call, key.descending))
    return selection


def _column_name(column: OutputColumn, scope: Scope) -> str:
    """Return the name of a column of ``select``. Raise if it is computed and has none."""
    if column.name is not None:
        return column.name
    if not isinstance(column.value, ex.Attribute | ex.Reference) or column.value.name is None:
        text = print_condition(column.value)
        raise scope.error(column.value, f"a computed column needs a name; write {text} as name")
    return column.value.name


def _kinds(query: SiddhiQuery) -> frozenset[str]:
    return frozenset((CURRENT, EXPIRED) if query.events == "all" else (query.events,))


def _aggregate(node: ex.Call, made: RowSelection, scope: Scope) -> Typed:
    """Return the value of an aggregate, and note the aggregate in the selection."""
    name = node.function.lower()
    if len(node.arguments) > 1 or (not node.arguments and name != "count"):
        raise scope.error(node, f"{node.function} takes one argument, {len(node.arguments)} given")
    part = compile_siddhi(node.arguments[0], scope) if node.arguments else None
    if part is not None and part.is_list:
        raise scope.error(node, f"{print_condition(node)}: the argument is a list; write e1[0]… or e1[last]…")
    kind = None if part is None else part.type
    takes_numbers = _AGGREGATES[name][2]
    if takes_numbers and kind in (STRING, BOOL):
        raise scope.error(node, f"{print_condition(node)}: no {node.function} of values of type {kind}")
    if name in OF_TRUTHS and kind not in (BOOL, OBJECT):
        raise scope.error(node, f"{print_condition(node)}: {node.function} needs a condition")
    place = len(made.aggregates)
    call = None
    if part is not None:
        if takes_numbers or name in OF_TRUTHS:
            kinds = NUMBERS if takes_numbers else (BOOL,)
            call = checked(node.arguments[0], part, kinds, scope, f"{node.function}: ")
        else:
            call = single_value(node.arguments[0], part, scope) if name != "count" else part.call
    made.aggregates.append((name, kind, call))
    made.cells.append(None)
    return Typed(lambda _: made.cells[place], result_type(name, kind))


def _all_columns(query: SiddhiQuery, slots: Sequence[SlotOf], source: str) -> list[OutputColumn]:
    """Return the columns of ``select *``."""
    slots = [slot for slot in slots if not slot.is_absent]
    if len(slots) == 1:
        return [OutputColumn(ex.Attribute(name)) for name in slots[0].attributes]
    columns, owner_of = [], dict[str, str]()
    for slot in slots:
        for name in slot.attributes:
            if name in owner_of:
                start = query.span or (0, 1)
                place = ex.Attribute(name, span=start)
                raise Scope(slots, source, "select").error(
                    place,
                    f"select *: {owner_of[name]} and {slot.names[0]} both have {name!r}; list the columns",
                )
            owner_of[name] = slot.names[0]
            columns.append(OutputColumn(ex.Reference(slot.names[0], name)))
    return columns


class RowSelector:
    """The aggregates of one query, by group, and the rows that it selects."""

    def __init__(self, selection: RowSelection):
        self._of = selection
        self._groups: dict[tuple, list[Aggregator]] = {}
        self._keeps_last = selection.keeps_last and bool(selection.aggregates or selection.group_by)

    def select(self, chunk: Sequence[Handed]) -> list[Row]:
        """Return the rows for events that came together."""
        # With aggregates only the last event of a batch gives a row, and with groups the last of each group.
        # A sliding window gives a row for each event.
        selection = self._of
        keyed_rows: list[tuple[tuple, list, Row]] = []
        last_of_group: dict[tuple, tuple[list, Row]] = {}
        for kind, slots, time in chunk:
            if kind == RESET:
                self._groups.clear()
                continue
            key = tuple(call(slots) for call in selection.group_by)
            self._enter(key, kind, slots)
            selection.row[:] = [call(slots) for call in selection.columns]
            if kind not in selection.kinds or (selection.having is not None and not selection.having(slots)):
                continue
            row = (kind, time, tuple(selection.row))
            order = [_sortable(call(slots), descending) for call, descending in selection.order_by]
            if self._keeps_last:
                last_of_group[key] = (order, row)
                if not selection.group_by:
                    last_of_group = {key: (order, row)}
            else:
                keyed_rows.append((key, order, row))
        if last_of_group:
            keyed_rows = [(key, order, row) for key, (order, row) in last_of_group.items()]
        if selection.order_by:
            try:
                keyed_rows.sort(key=lambda keyed_row: keyed_row[1])
            except TypeError as error:
                raise CepError(f"order by: the values have no order: {error}") from None
        rows = [row for _, _, row in keyed_rows][selection.offset or 0 :]
        return rows if selection.limit is None else rows[: selection.limit]

    def _enter(self, key: tuple, kind: str, slots: Slots) -> None:
        """Let an event enter or leave the aggregates of its group."""
        selection = self._of
        if not selection.aggregates:
            return
        aggregates = self._groups.get(key)
        if aggregates is None:
            aggregates = [_AGGREGATES[name][0](kind in WHOLE) for name, kind, _ in selection.aggregates]
            self._groups[key] = aggregates
        for place, (aggregator, (_, _, call)) in enumerate(
            zip(aggregates, selection.aggregates, strict=True)
        ):
            aggregator.change(None if call is None else call(slots), 1 if kind == CURRENT else -1)
            selection.cells[place] = aggregator.value()


class _Reversed:
    """A value that sorts in the opposite order."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return other.value < self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.value == self.value


def _sortable(value: Any, descending: bool) -> tuple:
    """Return a key by which values are sorted, nulls last."""
    if value is None:
        return (1, 0)
    return (0, _Reversed(value) if descending else value)


def attributes_of(names: Sequence[str], types: Sequence[Type]) -> Mapping[str, tuple[int, Type]]:
    """Return the places of attributes in events: the time is at place 0."""
    return {name: (i + 1, kind) for i, (name, kind) in enumerate(zip(names, types, strict=True))}
