"""The ordered engine: sequences of single events, with the components bound in any given order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from cepkit.compile.sequence_program import BoundBranch, SequenceProgram, unordered, why_not_compiled
from cepkit.compile.sequence_source import test_of
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted_walk import ORDERED_KERNELS as KERNELS
from cepkit.engines.interpreted_walk import OrderedTables, OrderedTests, ordered_tests_of
from cepkit.engines.search import (
    MOST_KNOWN,
    BranchSearch,
    Found,
    FoundPart,
    RangeSearch,
    gather_calls,
    known_or_searched,
)
from cepkit.engines.shared.places import Places, accepted
from cepkit.engines.shared.sequence_set import KnownMatches, LineBlock, MatchBlock, SequenceSet, joined
from cepkit.events import Events, sums_before
from cepkit.kernels.records import Cursors
from cepkit.progress import checkpoint
from cepkit.values import dataclass

_MATCHES_PER_CALL, _MEMBERS_PER_BLOCK = 1 << 18, 256
_WORK_PER_CALL = 1 << 21  # events looked at between two checkpoints
_WORK_PER_CALL_OF_A_LOOK = 1 << 23  # events that take some nanoseconds each
N_MATCHES, DONE = 1, 3  # of the report of the kernel


# Limits on the event before are the inverse of limits on the event after it. The limit ``earlier`` is the
# first place that may not precede each in a match.
_INVERSE = {"earlier": "later", "window_begin": "window_end", "gap_begin": "gap_end"}


def ordered_unsupported(program: BoundQuery) -> str | None:
    """Return why the engine cannot run a program, to complete "it …", or None if it can."""
    if reason := why_not_compiled(program):
        return reason
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

    def limit(self, name: str) -> np.ndarray:
        """Return the limit that kernels know by this name, for each place, int64, (n,)."""
        return self._get("limit", name)

    def limit_of_members(self, name: str, test: int) -> np.ndarray:
        """Return the limit that kernels know by this name, for each member of a test."""
        if (inverse := _INVERSE.get(name)) is None:
            return self.limit(name)[self.members(test)]
        return self._n_up_to(self.limit(inverse), self.members(test))

    def _get(self, *key: str | int) -> np.ndarray:
        """Return the array of a key; it is computed when it is first needed."""
        if key not in self._arrays:
            self._arrays[key] = getattr(self, f"_{key[0]}")(*key[1:])
        return self._arrays[key]

    def _members(self, test: int) -> np.ndarray:
        return np.flatnonzero(self.accept[test]).astype(np.int64, copy=False)

    def _rank(self, test: int) -> np.ndarray:
        return sums_before(self.accept[test])

    def _limit(self, name: str) -> np.ndarray:
        places = self.places
        if name in _INVERSE:
            return self._n_up_to(getattr(places, _INVERSE[name]), np.arange(places.n))
        return np.ascontiguousarray(getattr(places, name), np.int64)

    def _n_up_to(self, limit: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return how many events have a limit up to each place; limits ascend."""
        return np.searchsorted(limit, places, side="right").astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class OrderedBranch:
    """A branch to search."""

    own: OrderedEvents  # the events
    bound: BoundBranch  # the branch
    number: int  # its number in the program
    order: tuple[int, ...]  # its components in the order of the search


class OrderedSearch:
    """The search for the matches of one branch in one order, with the methods of `BranchSearch`."""

    # Source: Kolchinsky, Schuster, "Join Query Optimization Techniques for Complex Event Processing
    # Applications", PVLDB 11(11), 2018: evaluation in another order than that of the pattern.
    # Differs: all events are available from the start, so earlier events are found in lists of their type;
    # nothing is buffered until the rarer event arrives.

    tier = "interpreted"  # by a kernel that serves every query

    def __init__(self, branch: OrderedBranch, tests: OrderedTests):
        self.branch, self.own, self.order, self.n = branch, branch.own, branch.order, len(branch.order)
        self.tests = [test_of(self.own.program, terms) for terms in branch.bound.accepts]
        self._tables = OrderedTables(branch, tests)
        self._search = load_kernels(KERNELS).search

    def _candidates(self, low: int, high: int) -> slice | np.ndarray:
        """Return the members of the first component in the order that may be in matches ending there."""
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
        work = _WORK_PER_CALL if most_calls is None else _WORK_PER_CALL_OF_A_LOOK
        return gather_calls(self._find(low, high, work), most, most_calls)

    def _find(self, low: int, high: int, work: int) -> Iterator[tuple[FoundPart, bool]]:
        """Yield the matches that each call of the kernel finds, and whether the search is done."""
        out = np.empty((_MATCHES_PER_CALL, self.n), np.int64)
        for report in self._runs(low, high, np.empty(0, np.int64), out, work):
            matches = out[: int(report[N_MATCHES])].copy()
            yield (
                FoundPart(len(matches), lambda k, matches=matches: self._block(matches[:k]), matches.size),
                bool(report[DONE]),
            )

    def _block(self, places: np.ndarray) -> MatchBlock:
        """Return matches, given as rows of places, as a block."""
        return LineBlock(self.own.places.position_of_place[places].T, self.branch.number)

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position, int64, (n_events,)."""
        places = self.own.places
        count = np.zeros(places.n, np.int64)
        none = np.empty((0, self.n), np.int64)
        for _ in self._runs(0, places.n, count, none, _WORK_PER_CALL):
            pass
        return count[places.place_of_position]

    def _runs(
        self, low: int, high: int, count: np.ndarray, out: np.ndarray, work: int
    ) -> Iterator[np.ndarray]:
        """Call the kernel until the search is done, with at most ``work`` per call, and yield each report."""
        chosen = self._candidates(low, high)
        chosen_members = np.empty(0, np.int64) if isinstance(chosen, slice) else chosen
        numbers, held = np.zeros((6, self.n), np.int64), np.zeros((self.n, _MEMBERS_PER_BLOCK), np.uint8)
        state = Cursors(*numbers, held)
        n_first = len(self.own.members(self.tests[self.order[0]]))
        first = (
            slice(*chosen.indices(n_first)) if isinstance(chosen, slice) else slice(0, len(chosen_members))
        )
        state.cursor[0], state.stop[0] = first.start, first.stop
        limits, report = self._tables.limited(low, high), np.zeros(4, np.int64)
        while not report[DONE]:
            checkpoint((int(state.cursor[0]) - first.start) / max(1, first.stop - first.start))
            with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
                self._search(
                    int(len(out) > 0), work, *limits, chosen_members, self._tables.arguments, state, count,
                    out, report,
                )  # fmt: skip
            yield report


def has_intervals(bound: BoundBranch) -> bool:
    """Return whether the kernel can test the conditions of a branch; the order does not matter for that."""
    return not isinstance(ordered_tests_of(bound, tuple(range(len(bound.accepts)))), str)


def search_in_order(branch: OrderedBranch) -> RangeSearch:
    """Return the search for a branch. A condition without intervals leaves it to the walk over its events."""
    events, tests = branch.own, ordered_tests_of(branch.bound, branch.order)
    if isinstance(tests, str):
        return BranchSearch(events.places, events.accept, branch.bound, branch.number)
    return OrderedSearch(branch, tests)


def ordered_sequence(
    own: OrderedEvents, orders: Sequence[tuple[int, ...]], *, most_known: int = MOST_KNOWN,
    most_calls: int | None = None,
) -> SequenceSet:  # fmt: skip
    """Find the matches of a program, each branch with its own search order."""
    if not own.places.n or own.program.window.is_empty:
        return KnownMatches(own.events, joined([]))
    branches = enumerate(zip(own.program.branches, orders, strict=True))
    searches = [
        search_in_order(OrderedBranch(own, bound, number, order)) for number, (bound, order) in branches
    ]
    return known_or_searched(own.events, searches, most_known, most_calls)
