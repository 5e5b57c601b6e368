"""The search engine: any sequence query, by a generated depth-first walk over its partial matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice

import numpy as np

from cepkit.compile.interpreted.walk import walk_code_of
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.compile.sequences.search_source import (
    DEPTH,
    DONE,
    N_ITEMS,
    N_MATCHES,
    START,
    WORK,
    test_of,
    write_search,
)
from cepkit.compile.shared.loading import compile_if_it_pays, is_ready, reason_to_compile
from cepkit.engines.interpreted.walk import KERNELS, interpreted_walk
from cepkit.engines.shared.kernels import Loader, accepted, dtypes_of, kernel, per_call
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.searched_matches import (
    MOST_KNOWN,
    Found,
    FoundPart,
    gather_calls,
    known_or_searched,
)
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock, SequenceSet, bytes_to_collect, joined
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events
from cepkit.limits import check_memory
from cepkit.progress import checkpoint

_ITEMS_PER_CALL = 1 << 20
_WORK_PER_CALL = 1 << 20  # events looked at between two checkpoints
_WORK_PER_CALL_OF_A_LOOK = 1 << 21
_MOST_TO_INTERPRET = 1 << 27  # events looked at; then a kernel of its own pays, even if it must be compiled


def search_of(places: Places, accept: np.ndarray, bound: BoundBranch) -> tuple[str, list, list[np.ndarray]]:
    """Return the source of the search for a branch, its arguments and its scratch arrays."""
    program, inputs = places.program, places.inputs
    text = write_search(program, bound, dtypes_of(inputs)).text
    tests = [
        np.array([test_of(program, terms) for terms in terms_of_events], np.int64)
        for terms_of_events in (bound.accepts, bound.absent_accepts)
    ]
    arguments = [
        *tests, accept, places.later, places.window_end, places.gap_end, places.time_start, places.time_end,
        places.position_of_place, *inputs.arguments(),
    ]  # fmt: skip
    depth = int((places.window_end - np.arange(places.n)).max(initial=0)) + 2
    return text, arguments, [np.zeros(n, np.int64) for n in (depth, depth, len(bound.accepts), depth, depth)]


class BranchSearch:
    """The search for one branch's matches."""

    def __init__(
        self,
        places: Places,
        accept: np.ndarray,
        bound: BoundBranch,
        number: int,
        load_as: Loader | None = None,
        work_of_a_look: int | None = None,
        *,
        compile_later: bool = True,
    ):
        self.places, self.bound, self.number = places, bound, number
        self._given_work, self._n_looked_at = work_of_a_look, 0
        self._compile_later = compile_later
        self.n_components = len(bound.accepts)
        self.text, self.arguments, self.scratch = search_of(places, accept, bound)
        self._walk = None if load_as else self._interpreted()
        self._load_as = load_as or kernel
        self.tier = "compiled" if self._walk is None else "interpreted"

    def _interpreted(self) -> Callable | None:
        """Return the function that interprets the branch if the query is new and this is possible."""
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
        """Return matches that end from ``low`` to ``high``, unordered.

        The search ends early at more than ``most`` matches, or after ``most_calls`` calls of the kernel.

        """
        look = _WORK_PER_CALL if most_calls is None else self._work_of_a_look()
        work = self._work_per_call(look)
        most_calls = most_calls and most_calls * -(-look // work)
        room = _ITEMS_PER_CALL * work // look  # shorter calls are more calls
        return gather_calls(self._find(low, high, work, room), most, most_calls)

    def _find(self, low: int, high: int, work: int, room: int) -> Iterator[tuple[FoundPart, bool]]:
        """Yield the matches of each call of the kernel, and whether the search is done.

        A call ends when its matches have about ``room`` events.

        """
        room = max(room, len(self.scratch[0]))
        out_place = np.empty(room, np.int64)
        out_size = np.empty((room // max(1, self.n_components) + 1, self.n_components), np.int64)
        for report in self.calls(low, high, True, np.empty(0, np.int64), out_place, out_size, work=work):
            n, n_items = int(report[N_MATCHES]), int(report[N_ITEMS])
            places, sizes = out_place[:n_items].copy(), out_size[:n].copy()
            yield FoundPart(n, partial(self._block, places, sizes), n_items), bool(report[DONE])

    def _work_of_a_look(self) -> int:
        if self._given_work is not None:
            return self._given_work
        # A condition on a whole loop costs as much as all its events.
        leaves = (leaf for condition in self.bound.conditions for leaf in condition.term.walk())
        return _WORK_PER_CALL_OF_A_LOOK >> (5 if any(leaf.op == "group" for leaf in leaves) else 0)

    def _block(self, places: np.ndarray, sizes: np.ndarray, n: int) -> MatchBlock:
        """Return the first ``n`` of the matches with these places, one after the other."""
        sizes = sizes[:n]
        places = places[: sizes.sum()]
        first_item = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes.sum(axis=1), out=first_item[1:])
        components = np.tile(np.arange(self.n_components, dtype=np.int16), len(sizes))
        return MatchBlock(
            self.places.position_of_place[places],
            np.repeat(components, sizes.ravel()),
            first_item,
            np.full(len(sizes), self.number, np.int16),
        )

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position, int64, (n_events,)."""
        return self._count(_WORK_PER_CALL, None)

    def count_by_last_if_quick(self, most_calls: int) -> np.ndarray | None:
        """Return the same if ``most_calls`` calls of the kernel suffice, each as long as in a look."""
        return self._count(self._work_of_a_look(), most_calls)

    def _count(self, look: int, most_calls: int | None) -> np.ndarray | None:
        places, work = self.places, self._work_per_call(look)
        count = np.zeros(places.n, np.int64)
        none = np.empty(0, np.int64), np.empty((0, self.n_components), np.int64)
        is_done = False
        for report in islice(self.calls(0, places.n, False, count, *none, work=work), most_calls):
            is_done = bool(report[DONE])
        return count[places.place_of_position] if is_done else None


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
    program: SequenceProgram,
    events: Events,
    *,
    most_known: int = MOST_KNOWN,
    most_calls: int | None = None,
    work_of_a_call: int | None = None,
    load_as: Loader | None = None,
) -> SequenceSet:
    """Find the matches of ``program`` in ``events``.

    Source: the semantics of SASE's and FlinkCEP's strategies as one definition over positions.
    """
    places = Places(program, events)
    if not places.n or program.window.is_empty:
        return KnownMatches(events, joined([]))
    accept = accepted(places, load_as)
    searches = [
        BranchSearch(places, accept, bound, number, load_as, work_of_a_call)
        for number, bound in enumerate(program.branches)
    ]
    return known_or_searched(events, searches, most_known, most_calls)
