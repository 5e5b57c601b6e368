"""Compile a regex query for a schema: the plan, its kernels, and their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cepkit.compile.regex.matching_source import write_matching, write_rows
from cepkit.compile.regex.plan import Plan, plan_matching
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
from cepkit.language.regex.query import RegexQuery

CONSUMED, MATCHES, WORK, MOST_LIVE, REASON = range(5)  # indices of a kernel's report
LIST_FULL, QUEUE_FULL, WORK_LIMIT = 1, 2, 3


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
    run: Callable
    source: KernelSource
    is_compiled: bool = True

    def new_state(self, n_partitions: int, capacity: int = 8) -> State:
        return new_state(self.source.state, n_partitions, capacity)


class State:
    """The arrays that a kernel works on. They belong to one run and change in place."""

    def __init__(self, layout: tuple[StateArray, ...], arrays: dict[str, np.ndarray]):
        self.layout, self.arrays = layout, arrays

    def arguments(self) -> list[np.ndarray]:
        """Return the arrays in the kernel's order."""
        return [self.arrays[array.name] for array in self.layout]

    def grow(self, per: str) -> None:
        """Double the room for waiting starts; ``per`` is ``list`` or ``queue``."""
        # Rows stay an odd number of cache lines long. Rows with a power of two would all compete for the same
        # cache sets (measured: a factor of two).
        grown = {}
        for array in self.layout:
            if array.per == per or (array.per, per) == ("slots", "list"):
                old = self.arrays[array.name]
                new = grown[array.name] = np.zeros((*old.shape[:-1], 2 * old.shape[-1] + 8), old.dtype)
                new[..., : old.shape[-1]] = old
        self.arrays.update(grown)

    def add_partitions(self, n_partitions: int) -> None:
        """Make room for partition codes up to ``n_partitions``."""
        for array in self.layout:
            old = self.arrays[array.name]
            if old.shape[0] < n_partitions:
                capacity = old.shape[-1] if old.ndim > 1 else 1
                new = _make_array(array, n_partitions, capacity)
                new[: old.shape[0]] = old
                self.arrays[array.name] = new

    def clear(self) -> None:
        """Forget all events but keep the room."""
        for array in self.layout:
            if array.per in ("partition", "ring"):
                self.arrays[array.name].fill(array.fill)

    def earliest_starts(self) -> np.ndarray:
        """Return the earliest live start of every partition, int64; the largest int64 for no start."""
        live, starts = self.arrays["live"], self.arrays["list_start"]
        none = np.iinfo(np.int64).max
        earliest = np.where(live > 0, starts[:, 0], none)
        for name in self.arrays:
            if name.endswith("_head"):
                q = name.removesuffix("_head")
                head, tail = self.arrays[name], self.arrays[f"{q}_tail"]
                cell = np.minimum(head, self.arrays[f"{q}_start"].shape[1] - 1)
                front = self.arrays[f"{q}_start"][np.arange(len(head)), cell]
                earliest = np.minimum(earliest, np.where(head < tail, front, none))
        return earliest


def new_state(layout: tuple[StateArray, ...], n_partitions: int, capacity: int = 8) -> State:
    """Return the state before any event, with room for ``capacity`` waiting starts per partition."""
    return State(layout, {a.name: _make_array(a, n_partitions, capacity) for a in layout})


def compile_regex(query: RegexQuery, schema: Mapping[str, ColumnType]) -> Program:
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
    _no_start_terms_in_front(plan)
    used = {t.data for root in (*plan.terms(), *plan.slots) for t in root.walk() if t.op == "column"}
    return Program(
        query=query,
        schema=schema,
        plan=plan,
        **binder.collected(used),
    )


def _bind(
    binder: Binder, name: str, defined: Mapping, schema: Mapping[str, ColumnType], query: RegexQuery
) -> Term:
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
    name = query.order_by[0] if query.order_by else None
    if name is None or name not in schema or schema[name].kind not in (INTEGER, TIME, DURATION, "float"):
        return None
    column = schema[name]
    may_miss = column.nullable or column.kind == "float"
    return Term("column", (), column.kind, column.unit, may_miss, name, EVENT)


def _window(
    query: RegexQuery, schema: Mapping[str, ColumnType], binder: Binder, clock: Term | None
) -> Term | None:
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


def _no_start_terms_in_front(plan: Plan) -> None:
    for conjunct in plan.start_conjuncts:
        if conjunct.mask & plan.automaton.first and conjunct.mask != (1 << len(plan.automaton.names)) - 1:
            raise PredicateError(
                "a predicate of the first row of a match cannot use the match, which is still empty"
            )


def _make_array(array: StateArray, n_partitions: int, capacity: int) -> np.ndarray:
    if array.per == "partition":
        return np.full(n_partitions, array.fill, array.dtype)
    if array.per == "ring":
        return np.full((n_partitions, array.width), array.fill, array.dtype)
    if array.per == "slots":
        return np.empty((n_partitions, array.width, capacity), array.dtype)
    return np.empty((n_partitions, capacity), array.dtype)
