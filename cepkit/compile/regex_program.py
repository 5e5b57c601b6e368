"""Compile a regex query for a schema: the plan, its kernels, and their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from cepkit.compile.regex_plan import Plan, plan_matching
from cepkit.compile.regex_source import write_matching, write_rows
from cepkit.compile.shared.binding import Binder
from cepkit.compile.shared.bound_query import BoundQuery, Inputs
from cepkit.compile.shared.loading import load
from cepkit.compile.shared.row_automaton import ANY, Positions, positions
from cepkit.compile.shared.term_writing import KernelSource, StateArray
from cepkit.compile.shared.terms import EVENT, START, Constant, Term
from cepkit.errors import CepError, PredicateError
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, ColumnType
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.expressions.trees import Attribute
from cepkit.language.regex import RegexQuery
from cepkit.values import dataclass, replace

CONSUMED, MATCHES, WORK, MOST_LIVE, REASON = range(5)  # indices of a kernel's report
LIST_FULL, QUEUE_FULL, WORK_LIMIT = 1, 2, 3
_FEW_CELLS = 1 << 17  # a state with so few cells takes less memory than the code around it


@dataclass(frozen=True)
class Program(BoundQuery):
    """A regex query bound to the columns of a schema; ``plan`` places its conditions."""

    query: RegexQuery
    plan: Plan

    def terms(self) -> Iterator[Term]:
        """Yield every condition and every value that partial matches carry."""
        yield from self.plan.terms()
        yield from self.plan.slots

    @property
    def automaton(self) -> Positions:
        return self.plan.automaton

    def matching(self, inputs: Inputs) -> Kernel:
        """Return the kernel that advances a state by events with these inputs."""
        return self._kernel("advance", self.matching_source(inputs))

    def on_rows(self, name: str, inputs: Inputs) -> tuple[Kernel, Kernel]:
        """Return the kernels that prepare rows, and ``search`` them in turn or ``reach`` their positions."""
        source = self.source_on_rows(name, inputs)
        return self._kernel("prepare", source), self._kernel(name, source)

    def source_on_rows(self, name: str, inputs: Inputs) -> KernelSource:
        return self._source(write_rows, inputs, name)

    def matching_source(self, inputs: Inputs) -> KernelSource:
        return self._source(write_matching, inputs)

    def _source(self, write, inputs: Inputs, *given: str) -> KernelSource:
        """Return the source that `write` makes for these types of columns; it is made once."""
        dtypes = {column: array.dtype.name for column, array in inputs.columns.items()}
        return self.once(
            (write, *given, *dtypes.items()),
            lambda: write(self.plan, dtypes, *given, functions=tuple(self.functions), compiled=self.compiled),
        )

    def _kernel(self, name: str, source: KernelSource) -> Kernel:
        user = {f"u{i}": function.in_kernel for i, function in enumerate(self.functions.values())}
        function = getattr(load(source.text, user), name)
        # numba's own switch (NUMBA_DISABLE_JIT) makes all of them Python functions.
        return Kernel(function, source, hasattr(function, "py_func"))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that matches rows, compiled or not, and its text, which lists the arrays of its state."""

    run: Callable
    source: KernelSource
    is_compiled: bool = True

    def new_state(self, n_partitions: int, capacity: int = 8) -> State:
        return new_state(self.source.state, n_partitions, capacity)


class State:
    """The arrays that a kernel works on. They belong to one run and change in place."""

    # Each partition has a slab of cells for its waiting starts, so one with many starts takes no room from
    # others. A slab that is too small moves, and its old cells serve another partition.

    def __init__(
        self, layout: tuple[StateArray, ...], arrays: dict[str, np.ndarray], capacity: int = 8,
        n_used: dict[str, int] | None = None,
    ):  # fmt: skip
        self.layout, self.arrays, self.capacity = layout, arrays, capacity
        self._free: dict[tuple[str, int], list[int]] = {}  # first cells of free slabs, by list and size
        self._n_moved: Counter[tuple[str, int]] = Counter()
        self._n_used = n_used or {
            per: int(self.place(per).sum(axis=1).max(initial=0))
            for per in ("list", "queue")
            if f"{per}_place" in arrays
        }

    def copy(self) -> State:
        """Return a state that does not change with this one."""
        arrays = {name: array.copy() for name, array in self.arrays.items()}
        return State(self.layout, arrays, self.capacity, dict(self._n_used))

    def arguments(self) -> list[np.ndarray]:
        """Return the arrays in the kernel's order."""
        return [self.arrays[array.name] for array in self.layout]

    @property
    def n_partitions(self) -> int:
        """The number of partitions that have room."""
        return len(self.arrays["live"])

    def place(self, per: str) -> np.ndarray:
        """Return the first cell and the number of cells of each partition, int64, (n_partitions, 2)."""
        return self.arrays[f"{per}_place"]

    def grow(self, per: str, partition: int) -> None:
        """Move the waiting starts of a partition to a larger slab; ``per`` is ``list`` or ``queue``."""
        # Slabs stay an odd number of cache lines long. Those with a power of two would all compete for the
        # same cache sets (measured: a factor of two). When many partitions need more room, or all slabs are
        # small, all of them move at once.
        place, room = self.place(per), int(self.place(per)[partition, 1])
        self._n_moved[per, room] += 1
        moving, larger = np.flatnonzero(place[:, 1] == room), 2 * room + 8
        if 4 * self._n_moved[per, room] < self.n_partitions and len(moving) * larger > _FEW_CELLS:
            moving = np.array([partition])
        before = place[moving, 0]
        place[moving, 0], place[moving, 1] = self._take(per, len(moving), larger), larger
        cell = np.arange(room)
        old, new = before[:, None] + cell, place[moving, :1] + cell
        for name in self._cells_per(per):
            self.arrays[name][..., new] = self.arrays[name][..., old]
        self._free.setdefault((per, room), []).extend(before.tolist())

    def _cells_per(self, per: str) -> list[str]:
        """Return the names of the arrays with cells of a list or of queues."""
        return [a.name for a in self.layout if a.per == per or (a.per, per) == ("slots", "list")]

    def _take(self, per: str, n: int, room: int) -> np.ndarray:
        """Return the first cells of ``n`` slabs of this size, free ones first."""
        free = self._free.get((per, room), [])
        reused = [free.pop() for _ in range(min(n, len(free)))]
        first = self._n_used[per]
        self._n_used[per] = stop = first + (n - len(reused)) * room
        for name in self._cells_per(per):
            old = self.arrays[name]
            if (n_cells := old.shape[-1]) < stop:
                grown = np.zeros((*old.shape[:-1], max(stop, n_cells * 5 // 4)), old.dtype)
                grown[..., :n_cells] = old
                self.arrays[name] = grown
        return np.concatenate([np.array(reused, np.int64), np.arange(first, stop, room, dtype=np.int64)])

    def add_partitions(self, n_partitions: int) -> None:
        """Make room for partition codes up to ``n_partitions``."""
        for array in self.layout:
            old = self.arrays[array.name]
            if array.per in ("partition", "ring", "place") and len(old) < n_partitions:
                new = _make_array(array, n_partitions, self.capacity)
                new[: len(old)] = old
                if array.per == "place":
                    per = array.name.removesuffix("_place")
                    new[len(old) :, 0] = self._take(per, n_partitions - len(old), self.capacity)
                self.arrays[array.name] = new

    def clear(self) -> None:
        """Forget all events, but keep the memory of the arrays."""
        for array in self.layout:
            if array.per in ("partition", "ring"):
                self.arrays[array.name].fill(array.fill)

    def forget(self, partitions: np.ndarray) -> None:
        """Set partitions to their state before any event, and give the cells of large slabs to others."""
        slabs = []  # all taken before anything changes
        for array in self.layout:
            if array.per == "place":
                per, place = array.name.removesuffix("_place"), self.arrays[array.name]
                large = partitions[place[partitions, 1] > self.capacity]
                slabs.append((per, place, large, self._take(per, len(large), self.capacity)))
        for per, place, large, first in slabs:
            for at, room in place[large].tolist():
                self._free.setdefault((per, room), []).append(at)
            place[large, 0], place[large, 1] = first, self.capacity
        for array in self.layout:
            if array.per in ("partition", "ring"):
                self.arrays[array.name][partitions] = array.fill

    def earliest_starts(self) -> np.ndarray:
        """Return the earliest live start of every partition, int64; the largest int64 for no start."""
        live, starts = self.arrays["live"], self.arrays["list_start"]
        none = np.iinfo(np.int64).max
        earliest = np.where(live > 0, starts[self.place("list")[:, 0]], none)
        for name in self.arrays:
            if name.endswith("_head"):
                q = name.removesuffix("_head")
                head, tail = self.arrays[name], self.arrays[f"{q}_tail"]
                at, room = self.place("queue").T
                front = self.arrays[f"{q}_start"][at + np.minimum(head, room - 1)]
                earliest = np.minimum(earliest, np.where(head < tail, front, none))
        return earliest


def new_state(layout: tuple[StateArray, ...], n_partitions: int, capacity: int = 8) -> State:
    """Return the state before any event, with room for ``capacity`` waiting starts per partition."""
    return State(layout, {a.name: _make_array(a, n_partitions, capacity) for a in layout}, capacity)


def compile_regex(query: RegexQuery, schema: Mapping[str, ColumnType]) -> Program:
    """Return the program of a regex query for the columns of a schema."""
    automaton = positions(query.pattern, longest=query.keep == "longest")
    binder = Binder(schema, query)
    defined = dict(query.define)
    truths = []
    for name in dict.fromkeys(automaton.names):
        if name == ANY:
            continue
        if name in defined and name in schema:
            raise PredicateError(
                f"{name!r} is both a predicate of define and a column; rename the predicate, as in '{name}_'"
            )
        truths.append((name, _bind(binder, name, defined, schema, query)))
    for name, expression in query.define:
        if name not in automaton.names:
            Binder(schema, query).predicate(f"predicate {name!r}", expression)
    clock = _clock(query, schema)
    window = _window(query, schema, binder, clock)
    plan = plan_matching(automaton, [(name, _with_ages(t, clock)) for name, t in truths], window, clock)
    _refuse_match_in_first_predicate(plan)
    used = {t.data for root in (*plan.terms(), *plan.slots) for t in root.walk() if t.op == "column"}
    return Program(query=query, schema=schema, plan=plan, **binder.collected(used))


def _bind(
    binder: Binder, name: str, defined: Mapping, schema: Mapping[str, ColumnType], query: RegexQuery
) -> Term:
    """Return the condition of a name of the pattern: its definition, or a column of truths of this name."""
    if name in defined:
        return binder.predicate(f"predicate {name!r}", defined[name])
    if name in schema and schema[name].kind == "boolean":
        return binder.predicate(f"predicate {name!r}", Attribute(name))
    if name in schema:
        raise PredicateError(
            f"the pattern names {name!r}, which is a column of type {schema[name]}, not a predicate; "
            f"define one, as in define={{'is_{name}': '{name} …'}}"
        )
    raise query.undefined_error(
        [column for column, column_type in schema.items() if column_type.kind == "boolean"]
    )


def _clock(query: RegexQuery, schema: Mapping[str, ColumnType]) -> Term | None:
    """Return the column that orders the rows as a term, or None if it is no number and no time."""
    name = query.order_by[0] if query.order_by else None
    if name is None or name not in schema or schema[name].kind not in (INTEGER, TIME, DURATION, "float"):
        return None
    column = schema[name]
    may_miss = column.nullable or column.kind == "float"
    return Term("column", (), column.kind, column.unit, may_miss, name, EVENT)


def _window(
    query: RegexQuery, schema: Mapping[str, ColumnType], binder: Binder, clock: Term | None
) -> Term | None:
    """Return the condition that ``within`` puts on the time since the first row; None without ``within``."""
    if query.within is None:
        return None
    if clock is None:
        raise CepError("within needs a clock: give order_by, a column of times or integers")
    if clock.unit is None and not isinstance(query.within, int | float):
        raise unit_missing("within", query.within, clock.data)
    ticks = query.within if clock.unit is None else duration_ticks(query.within, clock.unit)
    binder.columns.setdefault(clock.data)
    first = Term("first", (clock,), clock.kind, clock.unit, clock.nullable, None, START)
    kind = FLOAT if clock.kind == FLOAT else DURATION
    op = "-" if kind == FLOAT else "elapsed"  # the clock never decreases, so 64 bits without a sign hold it
    span = Term(op, (clock, first), kind, clock.unit, clock.nullable, None, START)
    number = Constant(INTEGER if isinstance(ticks, int) else "float", ticks)
    binder.constants.append(number)
    limit = Term("constant", (), kind, clock.unit, False, len(binder.constants) - 1)
    return Term(
        "compare", (span, limit), "boolean", None, clock.nullable, "<=" if query.within_closed else "<", START
    )


def _with_ages(term: Term, clock: Term | None) -> Term:
    """Return a condition in which the time since the start, next to a duration, is never negative."""
    if clock is None or clock.unit is None or not term.args:
        return term
    if term.op == "compare" and term.args[0].op == "-" and term.args[1].op == "constant":
        left, right = term.args
        if left.args[0] == clock and left.args[1].op == "first" and left.args[1].args == (clock,):
            return replace(term, args=(replace(left, op="elapsed"), right))
    return replace(term, args=tuple(_with_ages(arg, clock) for arg in term.args))


def _refuse_match_in_first_predicate(plan: Plan) -> None:
    """Raise if the condition of a first row reads the match, which is empty then. A window is exempt."""
    for conjunct in plan.start_conjuncts:
        if conjunct.mask & plan.automaton.first and conjunct.mask != (1 << len(plan.automaton.names)) - 1:
            raise PredicateError(
                "a predicate of the first row of a match cannot use the match, which is still empty"
            )


def _make_array(array: StateArray, n_partitions: int, capacity: int) -> np.ndarray:
    """Return an array of the state before any event."""
    if array.per == "partition":
        return np.full(n_partitions, array.fill, array.dtype)
    if array.per == "ring":
        return np.full((n_partitions, array.width), array.fill, array.dtype)
    if array.per == "place":
        return np.stack([np.arange(n_partitions) * capacity, np.full(n_partitions, capacity)], axis=1)
    shape = (array.width,) * (array.per == "slots")
    return np.empty((*shape, n_partitions * capacity), array.dtype)
