"""Interpret regex queries and searches of sequences: the arrays that the kernels for every query read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.instructions import ALL_PRESENT, ALL_VALID, ROW, EventValue, RegexCode
from cepkit.compile.interpreted_columns import (
    ColumnReader,
    PairTest,
    Tests,
    Values,
    constants_of,
    numbers_of,
    ordered_numbers,
    tests_by_side,
)
from cepkit.compile.interpreted_walk import ConditionCode, JointComparison, JointTest, WalkCode, joint_test_of
from cepkit.compile.regex_program import State, new_state
from cepkit.compile.sequence_program import BoundBranch, BoundCondition, components_of_absence
from cepkit.compile.sequence_source import test_of
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import load_kernels
from cepkit.compile.shared.terms import Term, conjuncts_of
from cepkit.engines.interpreted_counting import Buffer, PickedColumns
from cepkit.engines.shared.match_set import joined_spans
from cepkit.engines.shared.places import chunk_readers
from cepkit.events import FLOAT
from cepkit.kernels.records import (
    IS_FLOAT,
    REQUIRE,
    SIGNS,
    AutomatonTables,
    BranchTables,
    Conditions,
    Levels,
    LiveStarts,
    PlaceLimits,
    RowTask,
    SearchOutput,
    SearchTask,
    WalkPath,
)
from cepkit.progress import checkpoint
from cepkit.values import dataclass

# Search sequences by interpretation: limits and conditions become tables that a walking kernel reads.

# The values of events that instructions read, computed by numpy.


def read_value(reader: ColumnReader, value: EventValue) -> Values:
    """Return a value of single events, as an array with an item per event."""
    if value.what == ALL_VALID:
        return reader.all(reader.valid(value.term))
    if value.what == ALL_PRESENT:
        return reader.all(reader.present(value.term))
    return getattr(reader, value.what)(value.term)


# Search sequences of any kind by interpretation: the arrays that the walking kernel reads.

KERNELS = "cepkit.kernels.interpreted_walk"


def interpreted_walk(places, code: WalkCode) -> Callable:
    """Return a function that takes the arguments of a generated search and interprets the branch instead."""
    # The arguments are those of `cepkit.compile.sequence_source.write_search`.
    query = Conditions(*code.conditions, *data_of(places, code))
    return partial(_run, int(places.program.query.scope == "run"), code.branch, query)


def _run(is_run_scope: int, branch: BranchTables, query: Conditions, *given) -> None:
    """Call the kernel with the arguments of a generated search. They end with 9 arrays of its state."""
    task, limits = SearchTask(*given[:5], is_run_scope), PlaceLimits(*given[5:14])
    state, output = WalkPath(*given[-9:-4]), SearchOutput(*given[-4:-1])
    load_kernels(KERNELS).walk(task, limits, branch, query, state, output, given[-1])


def data_of(places, code: ConditionCode) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what conditions read: floats and integers of single events, and the registers with constants."""
    constants = constants_of(places.program, places.inputs)
    floats = np.empty((len(code.floats), places.n))
    integers = np.empty((len(code.integers), places.n), np.int64)
    columns = {name: values for name, values in places.inputs.columns.items() if values.ndim == 1}
    with np.errstate(all="ignore"):
        for chunk, reader in chunk_readers(columns, places.n, constants):
            read_values(reader, code, floats, integers, chunk)
    return floats, integers, *registers_of(code, constants[0])


def read_values(
    reader: ColumnReader, code: ConditionCode, floats: np.ndarray, integers: np.ndarray, events: slice
) -> None:
    """Write the values of the events of a reader that conditions read."""
    for rows, values in ((floats, code.floats), (integers, code.integers)):
        for row, value in zip(rows, values, strict=True):
            row[events] = read_value(reader, value)


def registers_of(
    code: ConditionCode | RegexCode, constants: Mapping[int, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the registers of conditions, of floats and of integers, with the constants of the query."""
    registers = np.zeros(code.n_registers), np.zeros(code.n_registers, np.int64)
    for register, is_float, number, value in code.constants:
        registers[0 if is_float else 1][register] = value if number is None else constants[number]
    return registers


# Search single events in a given order by interpretation: limits and conditions become tables.

ORDERED_KERNELS = "cepkit.kernels.interpreted_ordered"

# Tests by the levels of the event that they compare and of the other one; an absent event has the level n.
Leveled = dict[tuple[int, int], tuple[PairTest, ...]]


@dataclass(frozen=True, slots=True)
class OrderedTests:
    """The conditions of a branch for an order of its components."""

    pairs: Leveled  # those on one or two events
    joint: tuple[JointTest, ...]  # those on more events
    of_absence: tuple[Leveled, ...]  # those on each absent event


def ordered_tests_of(bound: BoundBranch, order: tuple[int, ...]) -> OrderedTests | str:
    """Return the tests of a branch, or why it cannot be interpreted, to complete "it …"."""
    n, level_of = len(order), {c: level for level, c in enumerate(order)}
    pairs: Leveled = {}
    joint: list[JointTest] = []
    of_absence: list[Leveled] = [{} for _ in bound.branch.absences]
    for bound_condition in bound.conditions:
        a = bound_condition.condition.absence

        def level(leaf: Term, condition: BoundCondition = bound_condition) -> int:
            return _level(bound, condition, leaf.data[0], level_of)

        for term in conjuncts_of(bound_condition.term):
            leveled_tests = tests_by_side([term], level)
            if isinstance(leveled_tests, str):
                test = leveled_tests if a is not None else joint_test_of(term, level)
                if isinstance(test, str):
                    return test
                joint.append(test)
                continue
            if a is not None and any(vector != n for vector, _ in leveled_tests):
                return "has conditions on an absent event that do not read it"
            target_tests = pairs if a is None else of_absence[a]
            for levels, tests in leveled_tests.items():
                target_tests[levels] = target_tests.get(levels, ()) + tests
    return OrderedTests(pairs, tuple(joint), tuple(of_absence))


def _level(bound: BoundBranch, own: BoundCondition, variable: str, level_of: dict[int, int]) -> int:
    """Return the level of the order that binds an event of a variable; an absent event has the last level."""
    a = own.condition.absence
    if a is not None and bound.branch.absences[a].variable == variable:
        return len(level_of)
    return level_of[own.component_of_variable[variable]]


class OrderedTables:
    """The arguments of the kernel for a branch; see `cepkit.kernels.interpreted_ordered.search`."""

    def __init__(self, branch, tests: OrderedTests):
        events, bound, order = branch.own, branch.bound, branch.order
        self.own, self.order, self.n = events, order, len(order)
        self._level_of = {c: level for level, c in enumerate(order)}
        self._test_of = [test_of(events.program, terms) for terms in bound.accepts]
        self._members = [events.members(self._test_of[c]) for c in order]
        self._constants = constants_of(events.program, events.places.inputs)
        self._readers = [self._reader(members) for members in self._members]
        self._places, self._numbers, self._tests = Buffer(np.int64), Buffer(np.uint64), []
        self._floats = Buffer(np.float64)
        self._registers: tuple[list, list] = ([], [])  # floats and integers
        self._joints: list[list[int]] = []
        self._loads: list[list[int]] = []
        self._code: list[list[int]] = []
        self._limits = self._numbers.add(np.array([0, 1], np.uint64))  # of the position of the last event
        bounds: list[list[int]] = []
        absences: list[list[int]] = []
        levels = []
        with np.errstate(all="ignore"):
            for level, c in enumerate(order):
                row = [c, self._places.add(self._members[level]), len(bounds)]
                bounds += self._bounds(level)
                row += [len(bounds), len(self._tests)]
                pairs = {key: pair_tests for key, pair_tests in tests.pairs.items() if key[0] == level}
                self._add_tests(pairs, level, self._readers[level], len(self._members[level]))
                if c == self.n - 1 and events.events.n_partitions > 1:
                    position = events.places.position_of_place[self._members[level]]
                    at = self._numbers.add(position.astype(np.int64).view(np.uint64))
                    self._tests.append([-1, at, self._limits, self._limits + 1])
                own_joint = [test for test in tests.joint if test.level == level]
                first_computed = len(self._joints)
                for test in own_joint:
                    if test.comparison is not None:
                        self._add_comparison(test, test.comparison)
                first_joint = len(self._joints)
                for test in own_joint:
                    if test.comparison is None:
                        self._joints.append([*self._add_instructions(test), 0, 0, 0, 0, 0])
                row += [len(self._tests), first_computed, first_joint, len(self._joints)]
                levels.append([*row, len(absences), 0])
                for a in range(len(bound.branch.absences)):
                    if max(self._level_of[k] for k in components_of_absence(bound, a)) == level:
                        absences.append(self._absence(bound, a, tests.of_absence[a]))
                levels[-1][-1] = len(absences)
        tables = (
            (levels, 11), (bounds, 3), (self._tests, 4), (absences, 6), (self._joints, 9), (self._loads, 4),
            (self._code, 4),
        )  # fmt: skip
        self.numbers = self._numbers.whole()
        registers = np.array(self._registers[0], np.float64)
        self.arguments = Levels(
            *(np.array(rows, np.int64).reshape(-1, width) for rows, width in tables), self._floats.whole(),
            registers, registers.view(np.int64), np.array(self._registers[1], np.int64),
            self._places.whole(), self.numbers,
        )  # fmt: skip

    def _reader(self, members: np.ndarray) -> ColumnReader:
        """Return a reader of the columns of the members of a test."""
        return ColumnReader(PickedColumns(self.own.places.inputs.columns, members), *self._constants)

    def _limit(self, name: str, component: int) -> np.ndarray:
        """Return a limit of time for the members of a component; see `OrderedEvents`."""
        return self.own.limit_of_members(name, self._test_of[component])

    def _bounds(self, level: int) -> list[list[int]]:
        """Return the limits of the members of a level, which depend on events that are bound before."""
        c, before, rows = self.order[level], self.order[:level], []
        if not before:
            return []
        rank = self.own.rank(self._test_of[c])

        def add(is_high: int, name: str, b: int) -> None:
            at = self._places.add(rank[self._limit(name, b)])
            rows.append([is_high, self._level_of[b], at])

        below, above = [b for b in before if b < c], [b for b in before if b > c]
        add(0, *(("later", max(below)) if below else ("window_begin", max(before))))
        add(1, *(("earlier", min(above)) if above else ("window_end", min(before))))
        if self.own.program.window.gap_within is not None:
            if c + 1 in before:
                add(0, "gap_begin", c + 1)
            if c - 1 in before:
                add(1, "gap_end", c - 1)
        return rows

    def _add_tests(self, leveled: Leveled, level: int, reader: ColumnReader, size: int) -> None:
        """Add the tests of conditions that can be decided at a level of the search."""
        for (vector, scalar), tests in leveled.items():
            if scalar == vector:
                compared = numbers_of(tests, reader, reader, (size, size))
                holds = np.ones(size, np.bool_) if compared.alive is None else compared.alive.copy()
                for numbers, low, width in zip(compared.numbers, compared.low, compared.width, strict=True):
                    holds &= numbers - low <= width
                self._add_test(holds)
                continue
            n_other = len(self._members[scalar])
            compared = numbers_of(tests, reader, self._readers[scalar], (size, n_other))
            self._tests += [[scalar, *row] for row in self._numbers.add_tests(compared)]
            if compared.alive is not None:
                every = np.zeros(size, np.uint64)
                width = np.zeros(n_other, np.uint64)
                low = np.where(compared.alive, 0, 1).astype(np.uint64)
                self._tests += [[scalar, *row] for row in self._numbers.add_tests(
                    Tests([every], [low], [width], None))]  # fmt: skip

    def _add_comparison(self, test: JointTest, comparison: JointComparison) -> None:
        """Add a comparison with a value of several events; the kernel computes the interval."""
        base, level = len(self._registers[0]), test.level
        numbers, has_number = ordered_numbers(
            self._readers[level], comparison.one, comparison.as_floats, len(self._members[level])
        )
        if not has_number.all():
            self._add_test(has_number)
        slot = self._numbers.add(np.zeros(2, np.uint64))
        self._tests.append([-1, self._numbers.add(numbers.view(np.uint64)), slot, slot + 1])
        self._joints.append([
            *self._add_instructions(test), int(comparison.as_floats), base + comparison.result,
            base + comparison.known, SIGNS.index(comparison.sign), slot,
        ])  # fmt: skip

    def _add_instructions(self, test: JointTest) -> list[int]:
        """Add the values that a condition loads and its instructions, and return where both begin and end."""
        base, first_load, first_code = len(self._registers[0]), len(self._loads), len(self._code)
        for registers in self._registers:
            registers += [0] * test.n_registers
        for register, is_float, number, value in test.constants:
            constant = value if number is None else self._constants[0][number]
            self._registers[0 if is_float else 1][base + register] = constant
        for value, register, level in test.values:
            read = np.broadcast_to(read_value(self._readers[level], value), len(self._members[level]))
            at = (self._floats if value.is_float else self._places).add(read)
            self._loads.append([int(value.is_float), base + register, at, level])
        for op, target, left, right in test.code.tolist():
            self._code.append([op, target if op == REQUIRE else target + base, left + base, right + base])
        return [first_load, len(self._loads), first_code, len(self._code)]

    def _add_test(self, holds: np.ndarray) -> None:
        """Add the test that a member's own truth is 1."""
        at = self._numbers.add(holds.astype(np.uint64))
        limit_place = self._numbers.add(np.array([1, 0], np.uint64))
        self._tests.append([-1, at, limit_place, limit_place + 1])

    def _absence(self, bound: BoundBranch, a: int, leveled: Leveled) -> list[int]:
        """Return the row of an absent event: the range where none of its kind may be."""
        absence, events = bound.branch.absences[a], self.own
        test = test_of(events.program, bound.absent_accepts[a])
        rank, members, last = events.rank(test), events.members(test), self.n - 1
        if absence.after < 0:
            begin, low = last, rank[self._limit("time_start", last)]
        else:
            begin, low = absence.after, rank[self._members[self._level_of[absence.after]] + 1]
        if absence.before > last:
            end, high = 0, rank[self._limit("time_end", 0)]
        else:
            end, high = absence.before, rank[self._members[self._level_of[absence.before]]]
        first = len(self._tests)
        self._add_tests(leveled, self.n, self._reader(members), len(members))
        return [
            self._level_of[begin], self._places.add(low), self._level_of[end], self._places.add(high), first,
            len(self._tests),
        ]  # fmt: skip

    def limited(self, low: int, high: int) -> list[int]:
        """Return the first and last member of the last component with positions from ``low`` to ``high``."""
        # With several partitions the positions become a test.
        if self.own.events.n_partitions < 2:
            members = self._members[self._level_of[self.n - 1]]
            return np.searchsorted(members, [low, high]).tolist()
        self.numbers[self._limits : self._limits + 2] = low, max(high - low, 1) - 1
        return [0, 1 << 62 if high > low else 0]  # all members, or none


# Interpret a regex query: numpy computes what depends on events alone, a kernel advances partial matches.

_EVENTS_PER_CHUNK = 1 << 15  # the columns of a chunk fit the cache
_WORK_PER_CALL = 1 << 22
_LIST_FULL = 1
REGEX_KERNELS = "cepkit.kernels.interpreting"
_LIVE = "live", "list_place", "list_start", "list_mask", "list_floats", "list_integers"  # of the state


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Stands for a kernel of one query: it has a state, and `advance` runs it over events."""

    code: RegexCode

    def new_state(self, n_partitions: int, capacity: int = 8) -> State:
        """Return the initial state; see `cepkit.compile.regex_program.Kernel`."""
        return new_state(self.code.state_arrays(), n_partitions, capacity)

    def advance(
        self, state: State, partition: np.ndarray, inputs: Inputs, row_base: int,
        progress: Callable[[int], None] | None, note: Callable[[int, int], None],
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Advance ``state`` over events; return the first and last events of the matches that end there."""
        # ``note`` gets the number of visited partial matches and the most live starts of a partition.
        run = load_kernels(REGEX_KERNELS).advance
        spans: list[tuple[np.ndarray, np.ndarray]] = []
        automaton, report = self._automaton(inputs), np.zeros(5, np.int64)
        room = min(len(partition), _EVENTS_PER_CHUNK)
        out = np.empty(room, np.int64), np.empty(room, np.int64)
        code = self.code
        with np.errstate(all="ignore"):  # without the JIT, kernels warn of overflows
            for low in range(0, len(partition), _EVENTS_PER_CHUNK):
                checkpoint()
                high = min(low + _EVENTS_PER_CHUNK, len(partition))
                chunk_partitions = np.ascontiguousarray(partition[low:high])
                chunk = _Chunk(code, state, chunk_partitions, inputs, slice(low, high))
                fulfilled, of_floats, of_integers = chunk.compute()
                done = 0
                while done < len(chunk_partitions):
                    rows = RowTask(done, len(chunk_partitions), row_base + low, room, _WORK_PER_CALL)
                    live = LiveStarts(*(state.arrays[name] for name in _LIVE))
                    n_found = run(
                        rows, chunk_partitions, fulfilled, of_floats, of_integers, automaton, live, *out,
                        report,
                    )  # fmt: skip
                    done, _, work, most, reason = report.tolist()
                    note(work, most)
                    if n_found:
                        spans.append((out[0][:n_found].copy(), out[1][:n_found].copy()))
                    if reason == _LIST_FULL:
                        state.grow("list", int(chunk_partitions[done]))
                    checkpoint()
                if progress is not None:
                    progress(len(chunk_partitions))
        return joined_spans(spans)

    def label(
        self, partition: np.ndarray, n_partitions: int, inputs: Inputs, event_of_item: np.ndarray,
        first_item: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Return the mask of positions that each row of given matches reaches, int64, (n_items,)."""
        first_item, mask = first_item.astype(np.int64), np.zeros(len(event_of_item), np.int64)
        values = self.values_of(partition, n_partitions, inputs, event_of_item)
        load_kernels(REGEX_KERNELS).reach(first_item[:-1].copy(), first_item, *values, mask)
        return mask

    def values_of(
        self, partition: np.ndarray, n_partitions: int, inputs: Inputs, event_of_item: np.ndarray
    ) -> tuple:
        """Return what the kernel `take_row` reads of each item, and its scratch."""
        code, state = self.code, self.new_state(n_partitions)
        with np.errstate(all="ignore"):
            if len(partition) <= _EVENTS_PER_CHUNK:
                rows = slice(0, len(partition))
                whole = _Chunk(code, state, np.ascontiguousarray(partition), inputs, rows).compute()
                columns = tuple(array.take(event_of_item, axis=-1) for array in whole)
            else:
                columns = self._columns_by_chunk(state, partition, inputs, event_of_item)
        n_carried = int(code.carried[:, IS_FLOAT].sum())
        carried = np.empty((n_carried, 1)), np.empty((len(code.carried) - n_carried, 1), np.int64)
        return *columns, self._automaton(inputs), *carried

    def _columns_by_chunk(
        self, state: State, partition: np.ndarray, inputs: Inputs, event_of_item: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mask, floats and integers of each item; a chunk of events needs little memory."""
        code, n = self.code, len(event_of_item)
        n_floats = sum(value.is_float for value in code.values)
        fulfilled = np.empty(n, np.int64)
        of_floats = np.empty((n_floats, n))
        of_integers = np.empty((len(code.values) - n_floats, n), np.int64)
        order = np.argsort(event_of_item, kind="stable")
        rising = event_of_item[order]  # the items of a chunk of events lie together
        for low in range(0, len(partition), _EVENTS_PER_CHUNK):
            checkpoint()
            rows = slice(low, min(low + _EVENTS_PER_CHUNK, len(partition)))
            chunk_partitions = np.ascontiguousarray(partition[rows])
            whole = _Chunk(code, state, chunk_partitions, inputs, rows).compute()
            begin, end = np.searchsorted(rising, [rows.start, rows.stop])
            items, events = order[begin:end], rising[begin:end] - low
            fulfilled[items] = whole[0][events]
            of_floats[:, items] = whole[1][:, events]
            of_integers[:, items] = whole[2][:, events]
        return fulfilled, of_floats, of_integers

    def _automaton(self, inputs: Inputs) -> AutomatonTables:
        """Return the automaton, and registers with the constants of the query."""
        code = self.code
        constants = dict(zip(code.writer.constants, inputs.constants, strict=True))
        return AutomatonTables(code.code, code.carried, *code.tables, *registers_of(code, constants))


class _Chunk:
    """A run of events: the columns that instructions read, and the state that earlier values come from."""

    def __init__(self, code: RegexCode, state: State, partition: np.ndarray, inputs: Inputs, rows: slice):
        self.code, self.state, self.partition = code, state, partition
        writer = code.writer
        self.number, self._made = None, {}
        if writer.uses_ordinal:
            self.number = np.empty(len(partition), np.int64)
            load_kernels(REGEX_KERNELS).number_rows(partition, state.arrays["ordinal"], self.number)
        self.reader = ColumnReader(
            {name: values[rows] for name, values in inputs.columns.items()},
            dict(zip(writer.constants, inputs.constants, strict=True)),
            dict(zip(writer.tables, inputs.tables, strict=True)), self._earlier, self.number,
        )  # fmt: skip

    def _earlier(self, arg: Term, distance: int) -> np.ndarray:
        """Return the values ``distance`` rows before in the partition; the state keeps the last ones."""
        if (arg, distance) not in self._made:
            self._made[arg, distance] = self._take_earlier(arg, distance)
        return self._made[arg, distance]

    def _take_earlier(self, arg: Term, distance: int) -> np.ndarray:
        """Return the values of a term a number of rows earlier in each partition, also across chunks."""
        dtype = np.float64 if arg.kind == FLOAT else np.int64
        values = np.broadcast_to(self.reader.stored(arg), len(self.partition))
        values = np.ascontiguousarray(values, dtype)
        past = self.state.arrays[f"past{self.code.writer.pasts.index((arg, distance))}"]
        earlier = np.empty(len(values), dtype)
        load_kernels(REGEX_KERNELS).take_earlier(
            self.partition, earlier.view(np.int64) if self.number is None else self.number,
            values.view(np.int64), past.view(np.int64).reshape(len(past), -1), earlier.view(np.int64),
        )  # fmt: skip
        return earlier

    def compute(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mask of each event, and the floats and integers that instructions read."""
        code, n_events = self.code, len(self.partition)
        with np.errstate(all="ignore"):
            terms = [(conjunct.term, conjunct.mask) for conjunct in code.plan.event_conjuncts]
            fulfilled = self.reader.masks(terms, int(code.tables[1][0]), n_events)
            n_floats = sum(value.is_float for value in code.values)
            floats = np.empty((n_floats, n_events))
            integers = np.empty((len(code.values) - n_floats, n_events), np.int64)
            for row, value in zip([*floats, *integers], code.values, strict=True):
                row[:] = self._event_value(value)
            for arg, distance in code.writer.pasts:  # also those that nothing read in this chunk
                self._earlier(arg, distance)
        return fulfilled, floats, integers

    def _event_value(self, value: EventValue) -> np.ndarray:
        if value.what == ROW:
            return self.number
        return read_value(self.reader, value)
