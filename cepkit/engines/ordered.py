"""The ordered engine: sequences of single events, with the components bound in any given order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from cepkit.compile.interpreted.walk import walk_code_of
from cepkit.compile.sequences.ordered_source import (
    DONE,
    N_MATCHES,
    Key,
    OrderedKernel,
    unordered,
    write_ordered,
)
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.compile.sequences.search_source import test_of
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.loading import compile_if_it_pays, load_kernels, reason_to_compile
from cepkit.engines.interpreted.walk import KERNELS as WALK
from cepkit.engines.interpreted.walk import ORDERED_KERNELS as KERNELS
from cepkit.engines.interpreted.walk import OrderedTables, OrderedTests, ordered_tests_of
from cepkit.engines.search import (
    MOST_KNOWN,
    BranchSearch,
    Found,
    FoundPart,
    RangeSearch,
    gather_calls,
    known_or_searched,
)
from cepkit.engines.shared.places import Places, accepted, dtypes_of, kernel, per_call
from cepkit.engines.shared.sequence_set import KnownMatches, LineBlock, MatchBlock, SequenceSet, joined
from cepkit.events import Events
from cepkit.kernels.records import Cursors
from cepkit.progress import checkpoint
from cepkit.values import dataclass

_MATCHES_PER_CALL = 1 << 18
_WORK_PER_CALL = 1 << 21  # events looked at between two checkpoints
_CALLS_OF_A_WALK = 32  # about as long as compilation takes
_WORK_PER_CALL_OF_A_LOOK = 1 << 23  # events that take some nanoseconds each


# Limits on the event before are the inverse of limits on the event after it. The limit ``earlier`` is the
# first place that may not precede each in a match.
_INVERSE = {"earlier": "later", "window_begin": "window_end", "gap_begin": "gap_end"}


def ordered_unsupported(program: BoundQuery) -> str | None:
    """Return why the engine cannot run a program, to complete "it …", or None if it can."""
    if not isinstance(program, SequenceProgram):
        return "runs event sequences only"
    if not program.compiled:
        return f"cannot call {', '.join(program.reasons_for_python)}, a plain Python function"
    if any(leaf.op == "similarity" for root in program.terms() for leaf in root.walk()):
        return "cannot compare arrays"
    return next((reason for bound in program.branches if (reason := unordered(bound))), None)


class OrderedEvents:
    """The events of a program by the tests that they pass. Arrays are made when they are first needed."""

    def __init__(self, program: SequenceProgram, events: Events):
        self.program, self.events = program, events
        self.places = Places(program, events)
        self._arrays: dict[tuple, np.ndarray] = {}

    @cached_property
    def accept(self) -> np.ndarray:
        """Which places fulfil which conditions on single events; see `accepted`."""
        return accepted(self.places)

    def members(self, test: int) -> np.ndarray:
        """Return the places that pass a test, ascending, int64."""
        return self._get("members", test)

    def members_of(self, bound: BoundBranch) -> list[np.ndarray]:
        """Return the places that each component of a branch accepts."""
        return [self.members(test_of(self.program, terms)) for terms in bound.accepts]

    def rank(self, test: int) -> np.ndarray:
        """Return how many members of a test are below each place, int64, (n + 1,)."""
        return self._get("rank", test)

    def column(self, test: int, number: int) -> np.ndarray:
        return self._get("column", test, number)

    def limit(self, name: str) -> np.ndarray:
        """Return the limit that kernels know by this name, for each place, int64, (n,)."""
        return self._get("limit", name)

    def limit_of_members(self, name: str, test: int) -> np.ndarray:
        """Return the limit that kernels know by this name, for each member of a test."""
        if (inverse := _INVERSE.get(name)) is None:
            return self.limit(name)[self.members(test)]
        return self._n_up_to(self.limit(inverse), self.members(test))

    def _get(self, *key: str | int) -> np.ndarray:
        if key not in self._arrays:
            self._arrays[key] = getattr(self, f"_{key[0]}")(*key[1:])
        return self._arrays[key]

    def _members(self, test: int) -> np.ndarray:
        return np.flatnonzero(self.accept[test]).astype(np.int64, copy=False)

    def _rank(self, test: int) -> np.ndarray:
        rank = np.zeros(self.places.n + 1, np.int64)
        np.cumsum(self.accept[test], out=rank[1:])
        return rank

    def _column(self, test: int, number: int) -> np.ndarray:
        return list(self.places.inputs.columns.values())[number][self.members(test)]

    def _limit(self, name: str) -> np.ndarray:
        places = self.places
        if name == "position":
            return places.position_of_place
        if name in _INVERSE:
            return self._n_up_to(getattr(places, _INVERSE[name]), np.arange(places.n))
        return np.ascontiguousarray(getattr(places, name), np.int64)

    def _n_up_to(self, limit: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return, for each of these places, the first place with a limit after it; limits ascend."""
        return np.searchsorted(limit, places, side="right").astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class OrderedBranch:
    """A branch to search."""

    own: OrderedEvents  # the events
    bound: BoundBranch  # the branch
    number: int  # its number in the program
    order: tuple[int, ...]  # its components in the order of the search


class NestedSearch(ABC):
    """The search for the matches of one branch in one order, with the methods of `BranchSearch`."""

    tier: str

    def __init__(self, branch: OrderedBranch):
        self.branch, self.own, self.order, self.n = branch, branch.own, branch.order, len(branch.order)
        self.tests = [test_of(self.own.program, terms) for terms in branch.bound.accepts]

    @abstractmethod
    def _runs(
        self, low: int, high: int, count: np.ndarray, out: np.ndarray, work: int
    ) -> Iterator[np.ndarray]:
        """Call the kernel until the search is done, with at most ``work`` per call, and yield each report."""

    @abstractmethod
    def _work_per_call(self, look: int) -> int:
        """Return the work of a call; a kernel that runs as Python does less than ``look``."""

    def _candidates(self, low: int, high: int) -> slice | np.ndarray:
        """Return the events of the order's first component that matches from ``low`` to ``high`` can have."""
        events, first, last = self.own, self.order[0], self.n - 1
        if low <= 0 and high >= events.places.n:
            return slice(None)
        members = events.members(self.tests[first])
        if events.events.n_partitions < 2:
            begin = low if first == last else int(events.limit("window_begin")[min(low, events.places.n - 1)])
            return slice(*np.searchsorted(members, [begin, high]))
        wanted = events.members(self.tests[last])
        position = events.places.position_of_place[wanted]
        is_wanted = (low <= position) & (position < high)
        if first == last:
            return np.flatnonzero(is_wanted)
        wanted = wanted[is_wanted]
        n_in_reach = np.searchsorted(wanted, events.places.window_end[members]) - np.searchsorted(
            wanted, members
        )
        return np.flatnonzero(n_in_reach > 0)

    def matches(self, low: int, high: int, most: int | None = None, most_calls: int | None = None) -> Found:
        """Return matches that end from ``low`` to ``high``, unordered."""
        # The search ends early at more than ``most`` matches, or after ``most_calls`` calls of the kernel.
        look = _WORK_PER_CALL if most_calls is None else _WORK_PER_CALL_OF_A_LOOK
        work = self._work_per_call(look)
        most_calls = most_calls and most_calls * -(-look // work)
        return gather_calls(self._find(low, high, work), most, most_calls)

    def _find(self, low: int, high: int, work: int) -> Iterator[tuple[FoundPart, bool]]:
        """Yield the matches of each call of the kernel, and whether the search is done."""
        out = np.empty((_MATCHES_PER_CALL, self.n), np.int64)
        for report in self._runs(low, high, np.empty(0, np.int64), out, work):
            matches = out[: int(report[N_MATCHES])].copy()
            yield (
                FoundPart(len(matches), lambda k, matches=matches: self._block(matches[:k]), matches.size),
                bool(report[DONE]),
            )

    def _block(self, places: np.ndarray) -> MatchBlock:
        return LineBlock(self.own.places.position_of_place[places].T, self.branch.number)

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position, int64, (n_events,)."""
        places = self.own.places
        count = np.zeros(places.n, np.int64)
        none, work = np.empty((0, self.n), np.int64), self._work_per_call(_WORK_PER_CALL)
        for _ in self._runs(0, places.n, count, none, work):
            pass
        return count[places.place_of_position]


class OrderedSearch(NestedSearch):
    """A search with a kernel of its own."""

    tier = "compiled"

    def __init__(self, branch: OrderedBranch, made: OrderedKernel):
        super().__init__(branch)
        program, inputs = self.own.program, self.own.places.inputs
        self.absent_tests = [test_of(program, terms) for terms in branch.bound.absent_accepts]
        self.keys, self.search = made.arrays, kernel(program, made.text, "search")
        self.constants = [*inputs.constants, *inputs.tables, *inputs.texts]

    def _array(self, key: Key) -> np.ndarray:
        if key[0] == "limit":
            return self.own.limit(key[1])
        test = self.tests[key[1]] if key[1] >= 0 else self.absent_tests[~key[1]]
        return getattr(self.own, key[0])(test, *key[2:])

    def _work_per_call(self, look: int) -> int:
        return per_call(self.search, look)

    def _runs(
        self, low: int, high: int, count: np.ndarray, out: np.ndarray, work: int
    ) -> Iterator[np.ndarray]:
        places, first = self.own.places, self.order[0]
        chosen, n_first = self._candidates(low, high), 0
        arrays = []
        for key in self.keys:
            array = self._array(key)
            if key[0] in ("members", "column") and key[1] == first:
                array = np.ascontiguousarray(array[chosen])
                n_first = len(array)
            arrays.append(array)
        is_one = self.own.events.n_partitions < 2
        cursor, stop, place, index = (np.zeros(self.n, np.int64) for _ in range(4))
        stop[0] = n_first
        report = np.zeros(4, np.int64)
        while not report[DONE]:
            checkpoint(int(cursor[0]) / max(1, n_first))
            with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
                self.search(
                    int(len(out) > 0), work, low, high, low if is_one else 0,
                    high if is_one else places.n, *arrays, *self.constants, cursor, stop, place, index,
                    count, out, report,
                )  # fmt: skip
            yield report


class InterpretedSearch(NestedSearch):
    """A search that needs no kernel of its own."""

    tier = "interpreted"

    def __init__(self, branch: OrderedBranch, tests: OrderedTests):
        super().__init__(branch)
        self._tables = OrderedTables(branch, tests)

    def _work_per_call(self, look: int) -> int:
        return look

    def _runs(
        self, low: int, high: int, count: np.ndarray, out: np.ndarray, work: int
    ) -> Iterator[np.ndarray]:
        run, tables = load_kernels(KERNELS).search, self._tables
        chosen = self._candidates(low, high)
        chosen_members = np.empty(0, np.int64) if isinstance(chosen, slice) else chosen
        state = Cursors(*(np.zeros(self.n, np.int64) for _ in range(3)))
        n_first = len(self.own.members(self.tests[self.order[0]]))
        first = (
            slice(*chosen.indices(n_first)) if isinstance(chosen, slice) else slice(0, len(chosen_members))
        )
        state.cursor[0], state.stop[0] = first.start, first.stop
        limits, report = tables.limited(low, high), np.zeros(4, np.int64)
        while not report[DONE]:
            checkpoint((int(state.cursor[0]) - first.start) / max(1, first.stop - first.start))
            with np.errstate(all="ignore"):
                run(
                    int(len(out) > 0), work, *limits, chosen_members, tables.arguments, state, count, out,
                    report,
                )  # fmt: skip
            yield report


class WalkedSearch:
    """A search that interprets a walk in the order of the pattern, as long as this is quick."""

    # ``search`` makes the search in the best order, whose kernel may have to be compiled.

    def __init__(self, walk: BranchSearch, search: Callable[[], OrderedSearch]):
        self._walk, self._make = walk, search
        self._is_slow = False

    @property
    def tier(self) -> str:
        """How the matches were searched so far."""
        return "interpreted, then compiled" if self._is_slow else self._walk.tier

    @cached_property
    def _search(self) -> OrderedSearch:
        return self._make()

    def matches(self, low: int, high: int, most: int | None = None, most_calls: int | None = None) -> Found:
        """Return matches that end from ``low`` to ``high``; see `NestedSearch.matches`."""
        if not self._is_slow:
            matches = self._walk.matches(low, high, most, most_calls or _CALLS_OF_A_WALK)
            if matches.is_whole or most_calls is not None or (most is not None and matches.n > most):
                return matches
            self._is_slow = True
        return self._search.matches(low, high, most, most_calls)

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position, int64, (n_events,)."""
        if not self._is_slow:
            count = self._walk.count_by_last_if_quick(_CALLS_OF_A_WALK)
            if count is not None:
                return count
            self._is_slow = True
        return self._search.count_by_last()


def search_in_order(branch: OrderedBranch) -> RangeSearch:
    """Return the search for a branch: interpreted if the query is new, or with a kernel of its own."""
    events, bound = branch.own, branch.bound
    source = write_ordered(events.program, bound, branch.order, dtypes_of(events.places.inputs))
    compiled = partial(OrderedSearch, branch, source)
    if reason_to_compile(source.text, KERNELS):
        return compiled()
    tests = ordered_tests_of(bound, branch.order)
    if not isinstance(tests, str):
        compile_if_it_pays(source.text, events.places.n)
        return InterpretedSearch(branch, tests)
    if reason_to_compile(source.text, WALK) or isinstance(walk_code_of(events.program, bound), str):
        return compiled()
    compile_if_it_pays(source.text, events.places.n)
    return WalkedSearch(BranchSearch(events.places, events.accept, bound, branch.number), compiled)


def ordered_sequence(
    own: OrderedEvents,
    orders: Sequence[tuple[int, ...]],
    *,
    most_known: int = MOST_KNOWN,
    most_calls: int | None = None,
) -> SequenceSet:
    """Find the matches of a program, each branch with its own search order."""
    # See `write_ordered`.
    if not own.places.n or own.program.window.is_empty:
        return KnownMatches(own.events, joined([]))
    branches = enumerate(zip(own.program.branches, orders, strict=True))
    searches = [
        search_in_order(OrderedBranch(own, bound, number, order)) for number, (bound, order) in branches
    ]
    return known_or_searched(own.events, searches, most_known, most_calls)
