"""Find the matches of all partitions with kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from cepkit.compile.match_recognize.automaton import (
    MOST_CONDITIONS,
    SetTables,
    StepTables,
    TooManySetsError,
    set_tables,
)
from cepkit.compile.match_recognize.compiled import Compiled, distance_of
from cepkit.compile.match_recognize.registers import (
    NoRegistersError,
    WrittenRows,
    write_rows,
)
from cepkit.compile.match_recognize.values import column_of, compile_condition
from cepkit.compile.match_recognize.vectors import (
    NotVectorizedError,
    Vector,
    VectorReader,
    comparing,
    converted,
    join_missing,
)
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.match_recognize.found_rows import FINDING, FoundRows, RowInput, RowOrder
from cepkit.engines.match_recognize.matching import (
    BUDGET,
    MatchHistory,
    Needs,
    RowProgram,
    Trial,
    target_error,
    work_error,
)
from cepkit.errors import CepError, PredicateError
from cepkit.events import INTEGER, NULL_INTEGER, TIME
from cepkit.kernels.row_patterns.codes import (
    AFTER,
    ASKS,
    AT_SET,
    CONDITION,
    DEPTH,
    DONE,
    IS_FULL,
    IS_TARGET,
    LOW,
    N_BEGUN,
    N_CELLS,
    N_ENDED,
    N_MATCHES,
    N_STATES,
    NO_CONDITION,
    NO_TARGET,
    NUMBER_AT,
    PARTITION,
    PAST_LAST_ROW,
    PLACE,
    REGISTERS,
    START_AT,
    TARGET,
    TO_FIRST,
    TO_LAST,
    TO_NEXT_ROW,
    TOO_MUCH_WORK,
    UNTIL,
    WIDTH,
    WORK_LIMIT,
    MatchRoom,
    RowMachine,
    SearchedPlaces,
    SearchWork,
)
from cepkit.kernels.row_patterns.codes import (
    BUDGET as BUDGET_LEFT,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.limits import check_memory
from cepkit.progress import checkpoint

# The conditions of a row pattern at all rows of some partitions, if they depend on nearby rows alone.


class NearbyRows(VectorReader):
    """Reads conditions at the places of some partitions. ``at`` is the distance to the row that is read."""

    def __init__(self, given: RowInput, order: RowOrder, partitions: tuple[int, int]):
        first, until = partitions
        bounds = order.first_place_of_partition[first : until + 1]
        self._low, self._high = int(bounds[0]), int(bounds[-1])
        super().__init__(self._high - self._low, given.schema, given.params)
        self._given = given
        self._starts, self._ends = bounds[:-1] - self._low, bounds[1:] - self._low
        self._outside: dict[int, np.ndarray] = {}

    def column(self, name: str, at: Any) -> Vector:
        """Return a column some rows away. Rows of other partitions count as missing in `of_match`."""
        placed = self._given.placed(name)
        start = placed.n_before + self._low + max(-placed.n_before, min(placed.n_after, at or 0))
        here, whole = slice(start, start + self.n), placed.vector
        missing = tuple(places[here] for places in whole.missing)
        return Vector(whole.values[here], whole.type, missing, whole.texts)

    def rows_of(self, variable: str | None) -> int:
        """Return 0: a variable means the current row."""
        return 0

    def of_match(self, tree: ex.Expression, at: Any) -> Vector:
        """Return a navigation. It is missing where its row is in another partition."""
        if not isinstance(tree, rp.Navigation):
            raise NotVectorizedError
        distance = distance_of(tree)
        operand = tree.operand
        if tree.function in ("prev", "next") and isinstance(operand, rp.Navigation):
            operand = operand.operand
        if any(isinstance(node, rp.Navigation) for node in operand.walk()):
            raise NotVectorizedError
        vector = self.value(operand, distance)
        return vector.with_missing(self._beyond(distance)) if distance else vector

    def _beyond(self, distance: int) -> np.ndarray:
        """Return the places from which a distance leads out of the partition."""
        if distance not in self._outside:
            outside_places = []
            for step in range(min(abs(distance), int((self._ends - self._starts).max()))):
                places = self._starts + step if distance < 0 else self._ends - 1 - step
                outside_places.append(
                    places[places < self._ends] if distance < 0 else places[places >= self._starts]
                )
            self._outside[distance] = np.concatenate(outside_places)
        return self._outside[distance]


def truths_by_python(
    condition: Compiled, plain: Mapping[str, np.ndarray], order: RowOrder, first: int, until: int
) -> np.ndarray:
    """Return where a condition on nearby rows holds in some partitions, computed row by row."""
    truths, history = [], MatchHistory(Needs((), False, ()), {}, {})
    bounds = order.first_place_of_partition[first : until + 1].tolist()
    for start, stop in pairwise(bounds):
        rows = order.rows_between(start, stop)
        columns = {column: values[rows].tolist() for column, values in plain.items()}
        trial = Trial(history, columns, stop - start)
        for row in range(stop - start):
            trial.start = trial.row = row
            truths.append(condition.call(trial, -1) is True)
    return np.array(truths, bool)


# Test conditions that compare columns at fixed distances, block by block. The columns are read once.


class BlockTest(Protocol):
    """A condition that is tested at the places of a block."""

    def holds(self, low: int, high: int) -> np.ndarray:
        """Return where it is true from place ``low`` to before ``high``, bool. The array is new."""
        ...


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison. An operand is a view of a column, or one number for all places.

    ``missing`` are the places where an operand has no value, in order.

    """

    compare: Callable[..., np.ndarray]
    left: Any
    right: Any
    missing: np.ndarray

    def holds(self, low: int, high: int) -> np.ndarray:
        truths = self.compare(_part(self.left, low, high), _part(self.right, low, high))
        first, until = np.searchsorted(self.missing, (low, high))
        truths[self.missing[first:until] - low] = False
        return truths


@dataclass(frozen=True, slots=True)
class _Joined:
    """Conditions that are joined by AND or OR."""

    join: Callable[..., np.ndarray]
    parts: tuple[BlockTest, ...]

    def holds(self, low: int, high: int) -> np.ndarray:
        first, *others = self.parts
        truths = first.holds(low, high)
        for other in others:
            self.join(truths, other.holds(low, high), out=truths)
        return truths


def block_test(rows: NearbyRows, tree: ex.Expression) -> BlockTest | None:
    """Return a condition as a test of blocks, or None if it does more than compare columns and numbers.

    ``rows`` has all places.

    """
    match tree:
        case ex.And(operands=operands) | ex.Or(operands=operands):
            parts = [block_test(rows, operand) for operand in operands]
            tests = tuple(part for part in parts if part is not None)
            join = np.logical_and if isinstance(tree, ex.And) else np.logical_or
            return _Joined(join, tests) if len(tests) == len(parts) else None
        case ex.Comparison(operator=sign, left=left, right=right) if _is_read(left) and _is_read(right):
            try:
                left_vector, right_vector = converted([rows.value(left), rows.value(right)])
                if not (left_vector.is_number and right_vector.is_number) or (
                    left_vector.is_one and right_vector.is_one
                ):
                    return None
                compare = comparing(sign, left_vector, right_vector)
            except NotVectorizedError:
                return None
            missing = join_missing(left_vector.missing, right_vector.missing)
            places = [places if places.dtype != bool else np.flatnonzero(places) for places in missing]
            return _Compared(compare, left_vector.values, right_vector.values, _in_order(places))
    return None


def _is_read(tree: ex.Expression) -> bool:
    """Return whether an operand is a number, or a column at a fixed distance."""
    if isinstance(tree, ex.Literal):
        return isinstance(tree.value, int | float)
    while isinstance(tree, rp.Navigation):
        tree = tree.operand
    return isinstance(tree, ex.Attribute | ex.Reference)


def _in_order(places: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(places)) if places else np.empty(0, np.int64)


def _part(values: Any, low: int, high: int) -> Any:
    return values[low:high] if isinstance(values, np.ndarray) else values


# Find the matches of all partitions with kernels, where conditions depend on nearby rows alone.
#
# A first pass goes from the last row of a partition to the first one. It computes the states that can take
# each row and lead to a match. A second pass goes forward and always takes the preferred one of them. No step
# is ever taken back, so time is linear in the rows, and in the rows of matches.

_ROWS_OF_BLOCK = 1 << 18  # what conditions compute for them fits into caches
_CELLS_OF_WAYS, _MOST_CELLS = 1 << 22, 1 << 28
_MOST_BITS, _PLACES_PER_CALL = 64, 4_000_000
MOST_WORK = 100 * BUDGET  # partial matches of a partition: kernels try them a hundred times as fast
SEARCHING = "cepkit.kernels.row_patterns.searching"
_AFTER = {
    "past_last_row": PAST_LAST_ROW, "to_next_row": TO_NEXT_ROW, "to_first": TO_FIRST, "to_last": TO_LAST,
}  # fmt: skip


def reason_for_python(program: RowProgram) -> str | None:
    """Return why the kernels cannot run a query, or None."""
    if program.timed_out:
        return "partial matches that ran out of time have rows"
    return program.reason


def find_in_partitions(
    program: RowProgram, define: Mapping[str, ex.Expression], given: RowInput
) -> FoundRows | None:
    """Return the matches of all partitions, or None if the search in Python must find them."""
    if reason_for_python(program) is not None or given.order.n_places == 0:
        return None
    try:
        longest = int(np.diff(given.order.first_place_of_partition).max())
        written = write_rows(
            program.automaton, define, program.members, _FrameValues(given), longest,
            needs_start=program.within is not None,
            targets=program.members.get(program.after_match_variable or "", ()),
        )  # fmt: skip
        search = _KernelSearch(program, written, given)
        if len(written.nearby) > _MOST_BITS:
            return None
        if len(written.machine.code):
            return search.by_registers()
        if program.within is None:
            tables = set_tables(written.transitions, len(written.nearby))
            if tables is not None:
                try:
                    return search.by_sets(tables)
                except TooManySetsError:
                    pass
        return search.by_ways()
    except (PredicateError, NoRegistersError, NotVectorizedError):
        return None  # a row that no match needs may have no value, and integers may be too large


class _FrameValues:
    """Reads what depends on nearby rows alone, at all places of a frame."""

    def __init__(self, given: RowInput):
        self._rows = NearbyRows(given, given.order, (0, given.order.n_partitions))

    def value(self, tree: ex.Expression) -> Vector:
        return self._rows.value(tree)

    def holds(self, tree: ex.Expression) -> np.ndarray:
        return self._rows.holds(tree)


class _KernelSearch:
    """The search in all partitions of a frame."""

    def __init__(self, program: RowProgram, written: WrittenRows, given: RowInput):
        self.program, self.given, self.order, self.written = program, given, given.order, written
        self.kernels = load_kernels(FINDING)
        self.conditions, self.transitions = written.nearby, written.transitions
        self.plain: dict[str, np.ndarray] = {}
        self.is_target = written.machine.states[:-3, IS_TARGET].astype(np.uint8)
        self.after = _AFTER[program.after_match]

    # --- conditions

    def blocks(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of partitions with about this many rows."""
        bounds, first = self.order.first_place_of_partition, 0
        while first < self.order.n_partitions:
            until = int(np.searchsorted(bounds, bounds[first] + n_rows, side="right")) - 1
            until = max(first + 1, until)
            yield first, until
            first = until

    def truths(self, first: int, until: int) -> np.ndarray:
        """Return the conditions that hold at each place of some partitions, as the bits of an integer."""
        low, high = (int(self.order.first_place_of_partition[p]) for p in (first, until))
        dtype = np.uint8 if len(self.conditions) <= MOST_CONDITIONS else np.uint64
        rows, bits = None, None
        for bit, (tree, test) in enumerate(zip(self.conditions, self._tests, strict=True)):
            if test is not None:
                held = test.holds(low, high)
            else:
                rows = NearbyRows(self.given, self.order, (first, until)) if rows is None else rows
                try:
                    held = rows.holds(tree)
                except NotVectorizedError:
                    held = self._by_python(tree, first, until)
            held = held.view(np.uint8).astype(dtype, copy=False)
            if bits is None:
                bits = held
            else:
                bits |= np.multiply(held, dtype(1 << bit), out=held)  # ten times as fast as a shift
        return np.zeros(high - low, dtype) if bits is None else bits

    @cached_property
    def _tests(self) -> list[BlockTest | None]:
        """The conditions that blocks need not read again."""
        rows = NearbyRows(self.given, self.order, (0, self.order.n_partitions))
        return [block_test(rows, tree) for tree in self.conditions]

    def _by_python(self, tree: ex.Expression, first: int, until: int) -> np.ndarray:
        for node in tree.walk():
            if isinstance(node, ex.Attribute):
                column = column_of(node.name, self.given.schema)
                if column not in self.plain:
                    self.plain[column] = self.given.plain(column)
        condition = compile_condition(tree, self.given.schema, self.given.params)
        return truths_by_python(condition, self.plain, self.order, first, until)

    # --- matches

    def by_sets(self, tables: SetTables) -> FoundRows:
        """Return the matches by tables of sets of states."""
        bounds, n_places = self.order.first_place_of_partition, self.order.n_places
        symbol, mark = np.empty(n_places, np.uint8), np.empty(n_places, np.uint16)
        for first, until in self.blocks(_ROWS_OF_BLOCK):
            checkpoint()
            symbol[bounds[first] : bounds[until]] = self.truths(first, until)
        symbol[bounds[1:] - 1] |= np.uint8(tables.last_place)
        for first, until in self.blocks(_PLACES_PER_CALL):
            checkpoint()
            self.mark(symbol, tables, bounds[first : until + 1], mark)
        mark[bounds[:-1]] |= 1
        steps = tables.steps() if self.after == PAST_LAST_ROW else None
        if steps is not None:
            return self.separate_matches(mark, steps)
        matches = _Matches(self)
        find = self.kernels.find_matches
        choices = tables.choice, tables.first_choice
        matches.run(lambda *rest: find(bounds, mark, *choices, self.is_target, self.after, *rest))
        return matches.result()

    def mark(self, symbol: np.ndarray, tables: SetTables, bounds: np.ndarray, mark: np.ndarray) -> None:
        """Mark the places of some partitions, half of them in each of two chains."""
        low, high = bounds[0], bounds[-1]
        half = bounds[np.searchsorted(bounds, (low + high) // 2)]
        at = np.array([0, half, low, 0, high, half], np.int64)
        shift, chains = np.uint64(tables.n_bits), at.reshape(2, 3)
        while self.kernels.mark_places(symbol, shift, tables.following, at, mark) == ASKS:
            for chain in chains[chains[:, PLACE] > chains[:, LOW]]:
                tables.fill(int(chain[AT_SET]) << tables.n_bits | int(symbol[chain[PLACE] - 1]))

    def separate_matches(self, mark: np.ndarray, steps: StepTables) -> FoundRows:
        """Return the matches if each begins after the last row of another one, and none is empty."""
        n, tables = len(mark), (steps.shift, steps.step)
        start, end = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
        at = np.array([steps.before, 0, 0], np.int64)
        for low in range(0, n, _PLACES_PER_CALL):
            checkpoint()
            high = min(n, low + _PLACES_PER_CALL)
            self.kernels.find_separate_matches(mark, low, high, *tables, steps.borders, at, start, end)
        n_matches = int(at[N_BEGUN])
        if at[N_ENDED] < n_matches:  # the last match ends with the last row
            end[n_matches - 1] = n
        start, end = start[:n_matches].copy(), end[:n_matches].copy()

        def find_states() -> np.ndarray:
            states = np.empty(int((end - start).sum()), np.int16)
            check_memory(states.nbytes, "the matched rows")
            self.kernels.write_states(mark, *tables, np.uint64(steps.before), start, end, states)
            return states

        return FoundRows(start, end, find_states, np.searchsorted(start, self.order.first_place_of_partition))

    def by_ways(self) -> FoundRows | None:
        """Return the matches by the fewest rows from each row and state to the end of a match."""
        bounds, transitions = self.order.first_place_of_partition, self.transitions
        n_states = len(transitions.condition_of_state)
        if int(np.diff(bounds).max()) * n_states > _MOST_CELLS:
            return None
        clock, width = self._clock()
        lists = transitions.first_follower, transitions.followers
        matches = _Matches(self)
        for first, until in self.blocks(max(1, _CELLS_OF_WAYS // max(1, n_states))):
            checkpoint()
            holds = self.truths(first, until).astype(np.uint64, copy=False)
            ways = np.empty((len(holds), n_states), np.int32)
            self.kernels.measure_ways(
                bounds, first, until, holds, transitions.conditions, *lists, transitions.can_end, ways
            )
            arguments = bounds, until, ways, *lists, clock, width, self.is_target, self.after
            matches.at[TARGET] = first
            find = self.kernels.find_matches_by_ways
            matches.run(lambda *rest, find=find, arguments=arguments: find(*arguments, *rest))
        return matches.result()

    def _clock(self) -> tuple[np.ndarray, int]:
        """Return the times of all places and the number of ticks of WITHIN; no times without it."""
        clock = np.empty(0, np.int64)
        if self.program.within is None:
            return clock, 0
        name, width = self.program.within
        column = self.given.column_of(name)
        if column.type.kind not in (INTEGER, TIME):
            raise NotVectorizedError
        clock = np.empty(len(column.values), column.values.dtype)
        self.order.place(column.values, clock)
        clock = clock.astype(np.int64, copy=False)
        if (clock == NULL_INTEGER).any():
            raise NotVectorizedError
        return clock, width

    def by_registers(self) -> FoundRows:
        """Return the matches by a search with registers, for conditions on the rows of the match so far.

        The states that lead to a match by the conditions on nearby rows alone are known before.

        """
        bounds, n, written, transitions = (
            self.order.first_place_of_partition, self.order.n_places, self.written, self.transitions,
        )  # fmt: skip
        holds = np.empty(n, np.uint64)
        for first, until in self.blocks(_ROWS_OF_BLOCK):
            checkpoint()
            holds[bounds[first] : bounds[until]] = self.truths(first, until)
        n_conditions = len(self.conditions)
        tables = None if len(transitions.condition_of_state) > 64 else set_tables(transitions, n_conditions)
        mark, sets = np.zeros(n, np.uint16), np.array([2**64 - 1], np.uint64)
        first_choice, machine = np.zeros(2, np.int16), written.machine
        if tables is not None:
            try:
                symbol = holds.astype(np.uint8)
                symbol[bounds[1:] - 1] |= np.uint8(tables.last_place)
                for first, until in self.blocks(_PLACES_PER_CALL):
                    checkpoint()
                    self.mark(symbol, tables, bounds[first : until + 1], mark)
                mark[bounds[:-1]] |= 1
                sets, first_choice = tables.states_of_sets(), tables.first_choice
                states = machine.states.copy()
                states[:, CONDITION] = NO_CONDITION
                machine = machine._replace(states=states)
            except TooManySetsError:
                mark[:] = 0
        clock, width = self._clock()
        longest, n_registers = int(np.diff(bounds).max()), len(machine.registers)
        size = 1 << min(18, (longest * len(transitions.condition_of_state)).bit_length())
        check_memory(8 * (longest + size) * (n_registers + 2), "the search")
        memo = np.full((size, 1 + n_registers), -1, np.int64)
        stack = np.empty((longest + 2, REGISTERS + n_registers), np.int64)
        matches = _Matches(self, N_CELLS)
        at = matches.at
        at[DEPTH], at[WORK_LIMIT], at[BUDGET_LEFT] = -1, _PLACES_PER_CALL, max(MOST_WORK, 50 * longest)
        at[UNTIL], at[WIDTH], at[AFTER] = self.order.n_partitions, width, self.after
        at[NUMBER_AT], at[START_AT] = written.number_at, written.start_at
        parts = bounds, mark, sets, first_choice, holds, written.floats, written.integers, clock
        places, machine = SearchedPlaces(*map(_read_only, parts)), RowMachine(*map(_read_only, machine))
        work = SearchWork(stack, written.slots, memo, at)
        search_rows = load_kernels(SEARCHING).search_rows
        matches.run(lambda _limit, _at, *room: search_rows(machine, places, work, MatchRoom(*room)))
        return matches.result()


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return an array in the type that kernels declare in tuples."""
    view = array.view()
    view.flags.writeable = False
    return view


class _Matches:
    """The matches that a kernel has found so far."""

    def __init__(self, search: _KernelSearch, n_cells: int = 5):
        n_places = search.order.n_places
        self.search, self.at = search, np.zeros(n_cells, np.int64)
        self.at[PLACE] = -1
        self.first_match_of_partition = np.zeros(search.order.n_partitions + 1, np.int64)
        self.start_of_match, self.end_of_match = np.empty(n_places, np.int64), np.empty(n_places, np.int64)
        self.states = np.empty(n_places, np.int16)

    def run(self, find: Callable[..., int]) -> None:
        """Call a kernel until it is done."""
        while True:
            outputs = self.first_match_of_partition, self.start_of_match, self.end_of_match, self.states
            result = find(_PLACES_PER_CALL, self.at, *outputs)
            if result == DONE:
                return
            if result == NO_TARGET:
                raise self._error()
            if result == TOO_MUCH_WORK:
                first_place = self.search.order.first_place_of_partition[self.at[PARTITION]]
                raise work_error(self.search.program, int(self.at[PLACE] - first_place))
            if result == IS_FULL:
                check_memory(3 * self.states.nbytes, "the matched rows")
                self.states = np.concatenate([self.states, np.empty_like(self.states)])
            checkpoint()

    def _error(self) -> CepError:
        partition, target, n = (int(self.at[i]) for i in (PARTITION, TARGET, N_MATCHES))
        first_place = int(self.search.order.first_place_of_partition[partition])
        return target_error(
            self.search.program.after_match_variable or "",
            n - int(self.first_match_of_partition[partition]),
            None if target < 0 else target - first_place,
        )

    def result(self) -> FoundRows:
        """Return the matches."""
        n, states = int(self.at[N_MATCHES]), self.states[: self.at[N_STATES]].copy()
        start, end = self.start_of_match[:n].copy(), self.end_of_match[:n].copy()
        return FoundRows(start, end, lambda: states, self.first_match_of_partition)
