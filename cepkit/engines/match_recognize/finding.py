"""Find the matches of all partitions with kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.registers import NoRegistersError, WrittenRows, write_rows
from cepkit.compile.match_recognize.set_tables import (
    MOST_CONDITIONS,
    SetTables,
    StepTables,
    TooManySetsError,
    set_tables,
)
from cepkit.compile.match_recognize.vectors import NotVectorizedError, SingleRow, Vector, VectorReader
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.match_recognize.found_rows import FINDING, FoundRows, RowInput, RowOrder
from cepkit.engines.match_recognize.matching import BUDGET, RowProgram, target_error, work_error
from cepkit.errors import CepError, PredicateError
from cepkit.events import INTEGER, NULL_INTEGER, TIME
from cepkit.kernels import row_codes as op
from cepkit.kernels.row_codes import MatchRoom, RowMachine, SearchedPlaces, SearchWork
from cepkit.limits import check_memory
from cepkit.progress import checkpoint

# The conditions of a row pattern at all rows of some partitions, if they depend on nearby rows alone.


class NearbyRows(VectorReader):
    """Reads conditions at the places of some partitions. ``at`` is the distance to the row that is read."""

    def __init__(self, given: RowInput, order: RowOrder, partitions: tuple[int, int]):
        first, until = partitions
        bounds = order.first_place_of_partition[first : until + 1]
        self._low, self._high = int(bounds[0]), int(bounds[-1])
        super().__init__(self._high - self._low)
        self._given = given
        self._starts, self._ends = bounds[:-1] - self._low, bounds[1:] - self._low
        self._outside: dict[int, np.ndarray] = {}

    def column(self, name: str, at: Any) -> Vector:
        """Return a column ``at`` rows away from each place. `of_match` drops rows of other partitions."""
        placed = self._given.placed(name)
        start = placed.n_before + self._low + max(-placed.n_before, min(placed.n_after, at or 0))
        here, whole = slice(start, start + self.n), placed.vector
        missing = tuple(places[here] for places in whole.missing)
        return Vector(whole.values[here], whole.type, missing, whole.texts)

    def rows_of(self, variable: str | None) -> int:
        """Return 0: a column without a navigation is that of the current row."""
        return 0

    def of_match(self, term: Compiled, at: Any) -> Vector:
        """Return a navigation. It is missing where its row is in another partition."""
        if term.op != "navigation" or any(node.op == "navigation" for node in term.parts[0].walk()):
            raise NotVectorizedError
        distance = term.data[0].distance
        vector = self.value(term.parts[0], distance)
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


# Find the matches of all partitions with kernels, where conditions depend on nearby rows alone.
#
# A first pass goes from the last row of a partition to the first one. It computes the states that can take
# each row and lead to a match, by the conditions on nearby rows. A second pass goes forward and always takes
# the preferred one of them. It takes back steps only for conditions on the match so far, and for WITHIN.

_ROWS_OF_BLOCK = 1 << 18  # what conditions compute for them fits into caches
_MOST_BITS, _PLACES_PER_CALL, _PATIENCE = 64, 4_000_000, 1000
MOST_WORK = 100 * BUDGET  # partial matches of a partition: kernels try them a hundred times as fast
SEARCHING = "cepkit.kernels.row_searching"
_AFTER = {
    "past_last_row": op.PAST_LAST_ROW, "to_next_row": op.TO_NEXT_ROW, "to_first": op.TO_FIRST,
    "to_last": op.TO_LAST,
}  # fmt: skip


def reason_for_python(program: RowProgram) -> str | None:
    """Return why the kernels cannot run a query, or None."""
    if program.timed_out:
        return "partial matches that ran out of time have rows"
    return program.reason


def find_in_partitions(program: RowProgram, given: RowInput) -> FoundRows | None:
    """Return the matches of all partitions, or None if the search in Python must find them."""
    if reason_for_python(program) is not None or given.order.n_places == 0:
        return None
    try:
        rows = NearbyRows(given, given.order, (0, given.order.n_partitions))
        longest = int(np.diff(given.order.first_place_of_partition).max())
        targets = program.members.get(program.after_match_variable or "", frozenset())
        arguments = program.automaton, program.conditions, program.members, rows, longest
        written = write_rows(*arguments, needs_start=program.within is not None, targets=targets)
        search = _KernelSearch(program, written, given)
        if len(written.nearby) > _MOST_BITS:
            return None
        return search.found()
    except (PredicateError, NoRegistersError, NotVectorizedError):
        return None  # a row that no match needs may have no value, and integers may be too large


class _KernelSearch:
    """The search for the matches of all partitions by kernels."""

    def __init__(self, program: RowProgram, written: WrittenRows, given: RowInput):
        self.program, self.given, self.order, self.written = program, given, given.order, written
        self.kernels = load_kernels(FINDING)
        self.conditions, self.transitions = written.nearby, written.transitions
        self.plain: dict[str, np.ndarray] = {}
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
        for bit, (condition, wanted) in enumerate(self.conditions):
            rows = NearbyRows(self.given, self.order, (first, until)) if rows is None else rows
            try:
                held = rows.holds(condition, wanted, 0)
            except NotVectorizedError:
                held = self._by_python(condition, wanted, first, until)
            held = held.view(np.uint8).astype(dtype, copy=False)
            if bits is None:
                bits = held
            else:
                bits |= np.multiply(held, dtype(1 << bit), out=held)  # ten times as fast as a shift
        return np.zeros(high - low, dtype) if bits is None else bits

    def _by_python(self, condition: Compiled, wanted: bool, first: int, until: int) -> np.ndarray:
        """Return where a condition is true, or false if not ``wanted``, computed row by row in Python."""
        for column in (node.data[0] for node in condition.walk() if node.op == "column"):
            if column not in self.plain:
                self.plain[column] = self.given.plain(column)
        truths: list[bool] = []
        for start, stop in pairwise(self.order.first_place_of_partition[first : until + 1].tolist()):
            rows = self.order.rows_between(start, stop)
            columns = {column: values[rows].tolist() for column, values in self.plain.items()}
            place = SingleRow(columns, stop - start)
            for place.row in range(stop - start):
                truths.append(condition.call(place, place.row) is wanted)
        return np.array(truths, bool)

    # --- matches

    def found(self) -> FoundRows:
        """Return the matches, by the quickest kernels that can find them."""
        is_local = not len(self.written.machine.code) and self.program.within is None
        tables = set_tables(self.transitions, len(self.conditions))
        holds = np.empty(self.order.n_places, np.uint64 if tables is None else np.uint8)
        bounds = self.order.first_place_of_partition
        for first, until in self.blocks(_ROWS_OF_BLOCK):
            checkpoint()
            holds[bounds[first] : bounds[until]] = self.truths(first, until)
        if tables is None:
            return self.by_registers(holds)
        try:
            mark = self.marked(holds, tables)
        except TooManySetsError:
            return self.by_registers(holds)
        steps = tables.steps() if is_local and self.after == op.PAST_LAST_ROW else None
        return self.by_registers(holds, mark, tables) if steps is None else self.separate_matches(mark, steps)

    def marked(self, symbol: np.ndarray, tables: SetTables) -> np.ndarray:
        """Return the set of each place as `mark_places` writes it, plus 1 at each first place."""
        bounds, mark = self.order.first_place_of_partition, np.empty(len(symbol), np.uint16)
        symbol[bounds[1:] - 1] |= np.uint8(tables.last_place)
        for first, until in self.blocks(_PLACES_PER_CALL):
            checkpoint()
            self.mark(symbol, tables, bounds[first : until + 1], mark)
        mark[bounds[:-1]] |= 1
        return mark

    def mark(self, symbol: np.ndarray, tables: SetTables, bounds: np.ndarray, mark: np.ndarray) -> None:
        """Mark the places of some partitions, half of them in each of two chains."""
        low, high = bounds[0], bounds[-1]
        half = bounds[np.searchsorted(bounds, (low + high) // 2)]
        at = np.array([0, half, low, 0, high, half], np.int64)
        shift, chains = np.uint64(tables.n_bits), at.reshape(2, 3)
        while self.kernels.mark_places(symbol, shift, tables.following, at, mark) == op.ASKS:
            for chain in chains[chains[:, op.PLACE] > chains[:, op.LOW]]:
                tables.fill(int(chain[op.AT_SET]) << tables.n_bits | int(symbol[chain[op.PLACE] - 1]))

    def separate_matches(self, mark: np.ndarray, steps: StepTables) -> FoundRows:
        """Return the matches if each begins after the last row of another one, and none is empty."""
        n, tables = len(mark), (steps.shift, steps.step)
        start, end = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
        at = np.array([steps.before, 0, 0], np.int64)  # the state, and how many matches began and ended
        for low in range(0, n, _PLACES_PER_CALL):
            checkpoint()
            high = min(n, low + _PLACES_PER_CALL)
            self.kernels.find_separate_matches(mark, low, high, *tables, steps.borders, at, start, end)
        n_matches = int(at[op.N_BEGUN])
        if at[op.N_ENDED] < n_matches:  # the last match ends with the last row
            end[n_matches - 1] = n
        start, end = start[:n_matches].copy(), end[:n_matches].copy()

        def find_states() -> np.ndarray:
            states = np.empty(int((end - start).sum()), np.int16)
            check_memory(states.nbytes, "the matched rows")
            self.kernels.write_states(mark, *tables, np.uint64(steps.before), start, end, states)
            return states

        return FoundRows(start, end, find_states, np.searchsorted(start, self.order.first_place_of_partition))

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

    def by_registers(
        self, holds: np.ndarray, mark: np.ndarray | None = None, tables: SetTables | None = None
    ) -> FoundRows:
        """Return the matches by a depth-first search with registers."""
        # ``mark`` has the states that lead to a match by the conditions on nearby rows alone.
        bounds, written, states = (
            self.order.first_place_of_partition, self.written, self.written.machine.states,
        )  # fmt: skip
        if mark is None or tables is None:
            mark, sets = np.zeros(len(holds), np.uint16), np.array([2**64 - 1], np.uint64)
            first_choice, enders = np.zeros(2, np.int16), 2**64 - 1
        else:
            sets, first_choice = tables.states_of_sets(), tables.first_choice
            enders = tables.enders
            states[:, op.CONDITION] = op.NO_CONDITION  # the sets have none but states whose conditions hold
        clock, width = self._clock()
        longest, n_registers = int(np.diff(bounds).max()), len(written.machine.registers)
        size = 1 << min(18, (longest * len(states)).bit_length())
        check_memory(8 * (longest + size) * (n_registers + op.REGISTERS), "the search")
        memo = np.full((size, 1 + n_registers), -1, np.int64)
        stack = np.empty((longest + 2, op.REGISTERS + n_registers), np.int64)
        matches = _Matches(self)
        at = matches.at
        at[op.DEPTH], at[op.BUDGET], at[op.UNTIL] = -1, max(MOST_WORK, 50 * longest), self.order.n_partitions
        at[op.WORK_LIMIT], at[op.WIDTH], at[op.AFTER] = _PLACES_PER_CALL, width, self.after
        at[op.NUMBER_AT], at[op.START_AT] = written.number_at, written.start_at
        at[op.ENDERS], at[op.PATIENCE] = np.uint64(enders).astype(np.int64), _PATIENCE
        machine = RowMachine(*map(_read_only, written.machine))
        holds = holds.astype(np.uint64, copy=False)
        parts = bounds, mark, sets, first_choice, holds, written.floats, written.integers, clock
        blocks = np.empty((0, 0)), np.empty((0, 0)), np.empty(0, np.uint64), np.empty(0, np.uint64)
        places = SearchedPlaces(*map(_read_only, (*parts, *blocks)))
        ends = np.full((2, len(written.slots)), np.nan)
        search_rows = load_kernels(SEARCHING).search_rows

        def search(*room: np.ndarray) -> int:
            nonlocal places
            result = search_rows(
                machine, places, SearchWork(stack, written.slots, ends, memo, at), MatchRoom(*room)
            )
            if result == op.WORKED and tables is not None and not len(places.any_of_block):
                places = SearchedPlaces(*map(_read_only, (*parts, *_blocks(written, sets[mark >> 1]))))
            return result

        matches.run(search)
        return matches.result()


def _blocks(written: WrittenRows, states: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return per block of rows the least and greatest values, and the states of all and of some rows."""
    n = len(states) // op.BLOCK
    lows, highs = [], []
    for values in (*written.floats, *written.integers):
        rows = values[: n * op.BLOCK].reshape(n, op.BLOCK)
        low, high = rows.min(axis=1).astype(np.float64), rows.max(axis=1).astype(np.float64)
        is_known = (np.abs(low) < 2.0**52) & (np.abs(high) < 2.0**52)  # without nulls, and exact as floats
        lows.append(np.where(is_known, low, -np.inf))
        highs.append(np.where(is_known, high, np.inf))
    rows = states[: n * op.BLOCK].reshape(n, op.BLOCK)
    every, some = np.bitwise_and.reduce(rows, axis=1), np.bitwise_or.reduce(rows, axis=1)
    return np.array(lows).reshape(-1, n), np.array(highs).reshape(-1, n), every, some


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return an array in the type that kernels declare in tuples."""
    view = array.view()
    view.flags.writeable = False
    return view


class _Matches:
    def __init__(self, search: _KernelSearch):
        n_places = search.order.n_places
        self.search, self.at = search, np.zeros(op.N_CELLS, np.int64)
        self.at[op.PLACE] = -1
        self.first_match_of_partition = np.zeros(search.order.n_partitions + 1, np.int64)
        self.start_of_match, self.end_of_match = np.empty(n_places, np.int64), np.empty(n_places, np.int64)
        self.states = np.empty(n_places, np.int16)

    def run(self, find: Callable[..., int]) -> None:
        """Call a kernel until it is done."""
        while True:
            outputs = self.first_match_of_partition, self.start_of_match, self.end_of_match, self.states
            result = find(*outputs)
            if result == op.DONE:
                return
            if result == op.NO_TARGET:
                raise self._error()
            if result == op.TOO_MUCH_WORK:
                first_place = self.search.order.first_place_of_partition[self.at[op.PARTITION]]
                raise work_error(self.search.program, int(self.at[op.PLACE] - first_place))
            if result == op.IS_FULL:
                check_memory(3 * self.states.nbytes, "the matched rows")
                self.states = np.concatenate([self.states, np.empty_like(self.states)])
            checkpoint()

    def _error(self) -> CepError:
        partition, target, n = (int(self.at[i]) for i in (op.PARTITION, op.TARGET, op.N_MATCHES))
        first_place = int(self.search.order.first_place_of_partition[partition])
        return target_error(
            self.search.program.after_match_variable or "",
            n - int(self.first_match_of_partition[partition]),
            None if target < 0 else target - first_place,
        )

    def result(self) -> FoundRows:
        n, states = int(self.at[op.N_MATCHES]), self.states[: self.at[op.N_STATES]].copy()
        start, end = self.start_of_match[:n].copy(), self.end_of_match[:n].copy()
        return FoundRows(start, end, lambda: states, self.first_match_of_partition)
