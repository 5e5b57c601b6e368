"""The search engine: any sequence query, by a depth-first walk; few matches are kept, many searched again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from typing import Protocol

import numpy as np

from cepkit.compile.interpreted_walk import walk_code_of
from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.compile.sequence_source import DEPTH, DONE, N_ITEMS, N_MATCHES, START, WORK, test_of, write_search
from cepkit.compile.shared.loading import compile_if_it_pays, is_ready, reason_to_compile
from cepkit.engines.interpreted_walk import KERNELS, interpreted_walk
from cepkit.engines.shared.places import Loader, Places, accepted, dtypes_of, kernel, per_call
from cepkit.engines.shared.sequence_set import (
    EMPTY,
    KnownMatches,
    MatchBlock,
    SearchRun,
    SequenceSet,
    block_of_sizes,
    bytes_to_collect,
    joined,
)
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events
from cepkit.limits import check_memory, fits_memory
from cepkit.progress import checkpoint
from cepkit.values import dataclass

# Matches found by searches: few are kept; many are searched again, part by part.

MOST_KNOWN = 1 << 20  # matches of a branch that are kept; when there are more, they are searched again
_MOST_GLANCED = 1 << 14
_CALLS_OF_A_GLANCE = 2


@dataclass(frozen=True, slots=True)
class FoundPart:
    """The matches of one call of a search, before they are made: ``block(k)`` makes the first k of them."""

    # ``n_items`` is the number of events of all of them, 0 if it is not known.

    n: int
    block: Callable[[int], MatchBlock]
    n_items: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    block: MatchBlock  # the matches; if they are not all, only some of them
    n: int  # how many were found
    is_whole: bool  # whether these are all


class RangeSearch(Protocol):
    """The search for the matches of one branch; ``tier`` is as in `SearchRun`."""

    tier: str

    def matches(self, low: int, high: int, most: int | None = None, most_calls: int | None = None) -> Found:
        """Return matches that end from ``low`` to ``high``."""

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position, int64, (n_events,)."""


def gather_calls(found: Iterator[tuple[FoundPart, bool]], most: int | None, most_calls: int | None) -> Found:
    """Return the matches that the calls of a search find."""
    # ``found`` yields the matches of each call, and whether it was the last. Calls end when there are more
    # than ``most`` matches, or after ``most_calls`` calls. If they are not all, only some are made. Where
    # they do not fit into memory, calls end as well; without ``most``, an error says so.
    # The blocks of the matches are made last, so that calls that stop early cost little.
    parts, n, n_items, is_done = [], 0, 0, False
    for part, is_done in islice(found, most_calls):
        parts.append(part)
        n, n_items = n + part.n, n_items + part.n_items
        needed = 2 * bytes_to_collect(n, n_items)  # they are sorted later, which takes one more copy
        if most is None:
            check_memory(needed, f"the first {n:,} matches", is_held=True)
        if is_done or (most is not None and (n > most or not fits_memory(needed, is_held=True))):
            break
    is_whole = is_done and (most is None or n <= most)
    blocks, missing = [], n if is_whole else _MOST_GLANCED
    for part in parts:
        blocks.append(part.block(min(part.n, missing)))
        missing -= len(blocks[-1])
    return Found(joined(blocks), n, is_whole)


class SearchedMatches(SequenceSet):
    """Too many matches to keep: counted by their last event, and searched again when they are read."""

    # ``some`` are some of the ``n_found`` matches that were found before there were too many.

    def __init__(self, events: Events, searches: Sequence[RangeSearch], some: MatchBlock, n_found: int):
        self.events, self._searches, self._some, self._n_found = events, searches, some, n_found

    @property
    def run(self) -> SearchRun:
        """How the matches were searched so far."""
        return _run_of(self._searches)

    def at_least(self) -> tuple[int, bool]:
        """Return how many matches were found so far, and False: there may be more."""
        return self._n_found, False

    def any(self) -> bool:
        """Return whether there is a match."""
        return self._n_found > 0 or self.count() > 0

    def first(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches in canonical order."""
        high = 1
        while len(block := self.ending(0, high)) < n and high < self.events.n_events:
            high *= 2
        return block.take(slice(0, n))

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches quickly: the first ones if the search soon finds them, otherwise any."""
        searched_to, whole, part = 0, EMPTY, EMPTY  # all matches that end below ``searched_to``
        high, beyond = 64, None
        while (
            searched_to < self.events.n_events
            and len(whole) < n
            and (beyond is None or beyond - searched_to > 1)
        ):
            results = [
                search.matches(0, high, _MOST_GLANCED, _CALLS_OF_A_GLANCE) for search in self._searches
            ]
            blocks = joined([result.block for result in results])
            if all(result.is_whole for result in results):
                searched_to, whole = high, blocks
            else:
                beyond, part = high, blocks
            high = 2 * high if beyond is None else (searched_to + beyond) // 2
        if len(whole):
            return whole.sorted().take(slice(0, n))
        return (part if len(part) else self._some).take(slice(0, n)).sorted()

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end, and how many end at each."""
        count = sum(search.count_by_last() for search in self._searches)
        positions = np.flatnonzero(count)
        return positions, count[positions]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches whose last event has a position from ``low`` to ``high``."""
        return joined([search.matches(low, high).block for search in self._searches]).sorted()


def known_or_searched(
    events: Events,
    searches: Sequence[RangeSearch],
    most_known: int = MOST_KNOWN,
    most_calls: int | None = None,
) -> SequenceSet:
    """Return the matches that searches find, one search a branch. If there are many, only some are kept."""
    results = []
    for search in searches:
        results.append(search.matches(0, events.n_events, most_known, most_calls))
        if not results[-1].is_whole:
            some = joined([result.block for result in results])
            return SearchedMatches(events, searches, some, sum(result.n for result in results))
    return KnownMatches(events, joined([result.block for result in results]).sorted(), _run_of(searches))


def _run_of(searches: Sequence[RangeSearch]) -> SearchRun:
    """Return how the searches ran: compiled, interpreted, or both."""
    tiers = dict.fromkeys(search.tier for search in searches)
    return SearchRun(" and ".join(sorted(tiers)))


# The search engine: any sequence query, by a generated depth-first walk over its partial matches.

_ITEMS_PER_CALL = 1 << 20
_WORK_PER_CALL = 1 << 20  # events looked at between two checkpoints
_WORK_PER_CALL_OF_A_LOOK = 1 << 21
_MOST_TO_INTERPRET = 1 << 27  # events looked at; then a kernel of its own pays, even if it must be compiled


def search_of(places: Places, accept: np.ndarray, bound: BoundBranch) -> tuple[str, list, list[np.ndarray]]:
    """Return the source of the search for a branch, its arguments, and arrays that it uses while it runs."""
    program, inputs = places.program, places.inputs
    text = write_search(program, bound, dtypes_of(inputs)).text
    tests = [
        np.array([test_of(program, terms) for terms in terms_of_events], np.int64)
        for terms_of_events in (bound.accepts, bound.absent_accepts)
    ]
    # Only an absence before the first event reads where windows begin.
    is_absent_before = any(absence.after < 0 for absence in bound.branch.absences)
    arguments = [
        *tests, accept, places.later, places.window_end, places.gap_end,
        places.time_start if is_absent_before else places.time_end, places.time_end,
        places.position_of_place, *inputs.arguments(),
    ]  # fmt: skip
    depth = int((places.window_end - np.arange(places.n)).max(initial=0)) + 2
    return text, arguments, [np.zeros(n, np.int64) for n in (depth, depth, len(bound.accepts), depth, depth)]


class BranchSearch:
    """The search for one branch's matches."""

    def __init__(
        self, places: Places, accept: np.ndarray, bound: BoundBranch, number: int,
        load_as: Loader | None = None, work_of_a_look: int | None = None, *, compile_later: bool = True,
    ):  # fmt: skip
        self.places, self.bound, self.number = places, bound, number
        self._given_work, self._n_looked_at = work_of_a_look, 0
        self._compile_later = compile_later
        self.n_components = len(bound.accepts)
        self.text, self.arguments, self.scratch = search_of(places, accept, bound)
        self._walk = None if load_as else self._interpreted()
        self._load_as = load_as or kernel
        self.tier = "compiled" if self._walk is None else "interpreted"

    def _interpreted(self) -> Callable | None:
        """Return the function that interprets the branch; None if its kernel is ready or must be compiled."""
        if reason_to_compile(self.text, KERNELS):
            return None
        code = walk_code_of(self.places.program, self.bound)
        if isinstance(code, str):
            return None
        if self._compile_later:
            compile_if_it_pays(self.text, self.places.n)
        return interpreted_walk(self.places, code)

    @cached_property
    def _compiled(self) -> Callable:
        return self._load_as(self.places.program, self.text, "search")

    def search(self, *arguments) -> None:
        """Run the walk; the arguments are those of `write_search`. A compiled kernel takes over."""
        if self._walk is not None and (self._n_looked_at > _MOST_TO_INTERPRET or is_ready(self.text)):
            self._walk, self.tier = None, "interpreted, then compiled"
        before = int(arguments[-1][WORK])
        (self._walk or self._compiled)(*arguments)
        self._n_looked_at += int(arguments[-1][WORK]) - before

    def _work_per_call(self, look: int) -> int:
        """Return how many events one call may look at; a kernel that runs as Python takes fewer."""
        return look if self._walk is not None else per_call(self._compiled, look)

    def calls(self, low: int, high: int, fill: bool, *outputs: np.ndarray, work: int) -> Iterator[np.ndarray]:
        """Call the kernel until the search is done, with at most ``work`` per call, and yield each report."""
        places = self.places
        # A match that ends from low to high begins at most one window before low.
        begin, stop = 0, places.n
        if places.events.n_partitions < 2 and 0 < high <= places.n:
            begin, stop = int(places.window_start[min(low, places.n - 1)]), high
        report = np.zeros(7, np.int64)
        report[START], report[DEPTH] = begin - 1, -1
        while not report[DONE]:
            checkpoint((int(report[START]) + 1 - begin) / max(1, stop - begin))
            with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
                self.search(
                    stop, low, high, int(fill), work, *self.arguments, *self.scratch,
                    *outputs, report,
                )  # fmt: skip
            yield report

    def matches(self, low: int, high: int, most: int | None = None, most_calls: int | None = None) -> Found:
        """Return matches that end from ``low`` to ``high``, unordered."""
        # The search ends early at more than ``most`` matches, or after ``most_calls`` calls of the kernel.
        look = _WORK_PER_CALL if most_calls is None else self._work_of_a_look()
        work = self._work_per_call(look)
        most_calls = most_calls and most_calls * -(-look // work)  # rounded up
        room = _ITEMS_PER_CALL * work // look  # shorter calls are more calls
        return gather_calls(self._find(low, high, work, room), most, most_calls)

    def _find(self, low: int, high: int, work: int, room: int) -> Iterator[tuple[FoundPart, bool]]:
        """Yield the matches of each call of the kernel, and whether the search is done."""
        # A call ends when its matches have about ``room`` events.
        room = max(room, len(self.scratch[0]))
        out_place = np.empty(room, np.int64)
        out_size = np.empty((room // max(1, self.n_components) + 1, self.n_components), np.int64)
        for report in self.calls(low, high, True, np.empty(0, np.int64), out_place, out_size, work=work):
            n, n_items = int(report[N_MATCHES]), int(report[N_ITEMS])
            places, sizes = out_place[:n_items].copy(), out_size[:n].copy()
            yield FoundPart(n, partial(self._block, places, sizes), n_items), bool(report[DONE])

    def _work_of_a_look(self) -> int:
        """Return how many events a short look at the matches may look at."""
        if self._given_work is not None:
            return self._given_work
        # A condition on a whole loop costs as much as all its events.
        leaves = (leaf for condition in self.bound.conditions for leaf in condition.term.walk())
        return _WORK_PER_CALL_OF_A_LOOK >> (5 if any(leaf.op == "group" for leaf in leaves) else 0)

    def _block(self, places: np.ndarray, sizes: np.ndarray, n: int) -> MatchBlock:
        """Return the first ``n`` matches of a call as a block."""
        places = places[: sizes[:n].sum()]
        return block_of_sizes(self.places.position_of_place[places], sizes[:n], self.number)

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position, int64, (n_events,)."""
        places, work = self.places, self._work_per_call(_WORK_PER_CALL)
        count = np.zeros(places.n, np.int64)
        none = np.empty(0, np.int64), np.empty((0, self.n_components), np.int64)
        for _ in self.calls(0, places.n, False, count, *none, work=work):
            pass  # the kernel adds to `count`
        return count[places.place_of_position]


def find_without_compiling(places: Places, accept: np.ndarray, most_calls: int) -> KnownMatches | None:
    """Return all matches if a search by interpretation ends within ``most_calls`` looks, otherwise None."""
    searches = []
    for number, bound in enumerate(places.program.branches):
        searches.append(BranchSearch(places, accept, bound, number, compile_later=False))
        if searches[-1].tier == "compiled":
            return None
    matches = known_or_searched(places.events, searches, most_calls=most_calls)
    if not isinstance(matches, KnownMatches):
        return None
    with suppress(ResultTooLargeError):
        check_memory(bytes_to_collect(len(matches.block), matches.block.n_items), "the matches", is_held=True)
        return matches
    return None  # a walk makes them block by block


def search_sequence(
    program: SequenceProgram, events: Events, *, most_known: int = MOST_KNOWN, most_calls: int | None = None,
    work_of_a_call: int | None = None, load_as: Loader | None = None,
) -> SequenceSet:  # fmt: skip
    """Find the matches of ``program`` in ``events``."""
    # Source: the semantics of SASE's and FlinkCEP's strategies as one definition over positions.
    places = Places(program, events)
    if not places.n or program.window.is_empty:
        return KnownMatches(events, joined([]))
    accept = accepted(places, load_as)
    searches = [
        BranchSearch(places, accept, bound, number, load_as, work_of_a_call)
        for number, bound in enumerate(program.branches)
    ]
    return known_or_searched(events, searches, most_known, most_calls)
