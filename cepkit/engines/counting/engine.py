"""The counting engine: it counts matches first, and makes them when they are needed; aggregates over all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain

import numpy as np

from cepkit.compile.counting import MODULAR, WRAPPING
from cepkit.compile.sequence_program import BoundBranch, SequenceProgram, why_not_compiled
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.loading import interpreting, reason_to_compile
from cepkit.compile.state_graph import AnchoredGraph, StateGraph, anchored_graph_of, state_graph_of
from cepkit.engines.counting.anchored import AnchoredCounter, AnchoredLayout, AnchoredWalk
from cepkit.engines.counting.counts import WORD, PathCounter, moduli, number_of, total_of
from cepkit.engines.counting.layout import Entries, Layout
from cepkit.engines.counting.walking import MatchWalk, PathWalk, first_of_blocks
from cepkit.engines.search import find_without_compiling
from cepkit.engines.shared.places import COUNTING, Places, placed_and_accepted
from cepkit.engines.shared.sequence_set import (
    MATCHES_PER_BLOCK,
    KnownMatches,
    MatchBlock,
    SearchRun,
    SequenceSet,
    collect,
    draw_numbers,
    first_of_few_events,
    joined,
)
from cepkit.events import NULL_INTEGER, Events
from cepkit.language.sequences.branches import Component
from cepkit.values import cached_property, dataclass

# Aggregates over all matches of a state graph, computed along its edges without making matches.

_KEPT_BITS = 128  # floats keep this many bits below the highest bit of the largest float


@dataclass(frozen=True, slots=True)
class _Weights:
    """Integers, as ``mantissa * 2^shift``."""

    mantissa: np.ndarray  # int64
    shift: np.ndarray  # int64, >= 0

    @property
    def largest(self) -> int:
        """The largest absolute value of a weight."""
        return max(
            (abs(m) << s for m, s in zip(self.mantissa.tolist(), self.shift.tolist(), strict=True)), default=0
        )

    def residues(self, modulus: int) -> np.ndarray:
        """Return the residues for a modulus of 2^64 or below 2^31."""
        if modulus == WORD:
            shift = np.minimum(self.shift, 63).astype(np.uint64)  # a weight is mantissa * 2^shift
            return np.where(self.shift < 64, self.mantissa.view(np.uint64) << shift, np.uint64(0))
        powers = np.array([pow(2, s, modulus) for s in range(int(self.shift.max(initial=0)) + 1)], np.uint64)
        mantissa_residues = np.mod(self.mantissa, modulus).astype(np.uint64)
        return mantissa_residues * powers[self.shift] % np.uint64(modulus)


def aggregate(
    counter: PathCounter, component: int, values: np.ndarray | None, function: str,
    present: np.ndarray | None = None,
) -> int | float | None:  # fmt: skip
    """Return an aggregate of a component's events over all matches."""
    # Sums take a pass of the counting kernel per 31 bits of the result. Extremes need no counting, only the
    # events that are part of a match; see `Entries.taking_part`.
    # Source: Poppe, Lei, Rundensteiner, Maier, "GRETA", PVLDB 11(1), 2017, section 5: count and sum are
    # computed along the edges together.
    layout = counter.layout
    if values is None:
        values = np.zeros(layout.places.n, np.int64)
    members = layout.members(layout.graph.pool_of_component(component))
    member_values = values[members]
    has_value = (
        member_values == member_values if member_values.dtype.kind == "f" else member_values != NULL_INTEGER
    )
    if present is not None:
        has_value = present[members]
    if function in ("min", "max"):
        taken = member_values[has_value & taking_part(counter, component)]
        return None if not len(taken) else (taken.min() if function == "min" else taken.max()).item()
    n = _sum(counter, component, _integers(has_value.astype(np.int64)))
    if function == "count" or not n:
        return n if function == "count" else None
    infinite = _infinite_sum(counter, component, member_values)
    if infinite is not None:
        return infinite
    weights, unit = _weights(np.where(has_value, member_values, 0))
    total = _sum(counter, component, weights) * unit
    if function == "total":
        return total
    if function == "avg":
        return _round_to_float(Fraction(total) / n)
    return _round_to_float(total) if member_values.dtype.kind == "f" else int(total)


def taking_part(counter: PathCounter, component: int) -> np.ndarray:
    """Return which members of a component's pool are part of a match, bool."""
    layout = counter.layout
    return Entries.of(layout).taking_part(layout, component)


def _sum(counter: PathCounter, component: int, weights: _Weights) -> int:
    """Return the sum of the weights of a component's events over all matches."""
    graph, n_matches, largest = counter.graph, counter.total(), weights.largest
    if not n_matches or not largest:
        return 0
    states = [s for s, state in enumerate(graph.states) if state.component == component]
    loops = any(edge.source == edge.target and edge.source in states for edge in graph.edges)
    most = n_matches * largest * (counter.layout.size(states[0]) if loops else len(states))
    used = moduli(2 * most, counter.most_terms, largest=1 << 31)  # twice, for the sign
    residues = []
    for modulus in used:
        arithmetic = WRAPPING if modulus == WORD else MODULAR
        sums = counter.pass_over(arithmetic, modulus, component=component, weight=weights.residues(modulus))[
            1
        ]
        residues.append(np.array([total_of(sums) % modulus], np.uint64))
    total = int(number_of(residues, used)[0])
    product = 1
    for modulus in used:
        product *= modulus
    return total - product if total > product // 2 else total  # the upper half stands for sums below 0


def _integers(values: np.ndarray) -> _Weights:
    """Return integers as weights."""
    return _Weights(values, np.zeros(len(values), np.int64))


def _weights(values: np.ndarray) -> tuple[_Weights, int | Fraction]:
    """Return the values as integers of a unit, and the unit."""
    if values.dtype.kind != "f":
        return _integers(values.astype(np.int64, copy=False)), 1
    mantissa, exponent = np.frexp(values.astype(np.float64, copy=False))
    exponent = exponent.astype(np.int64) - 53
    used = exponent[mantissa != 0]
    if not len(used):
        return _integers(np.zeros(len(values), np.int64)), 1
    least = max(int(used.min()), int(used.max()) + 53 - _KEPT_BITS)
    shift = exponent - least
    # Bits below the unit are rounded away.
    whole = np.rint(np.ldexp(mantissa, 53 + np.minimum(shift, 0))).astype(np.int64)
    return _Weights(whole, np.maximum(shift, 0)), Fraction(2) ** least


def _infinite_sum(counter: PathCounter, component: int, values: np.ndarray) -> float | None:
    """Return the sum if infinite values are part of a match, and set them to 0; otherwise None."""
    if values.dtype.kind != "f" or not np.isinf(values).any():
        return None
    part = taking_part(counter, component)
    up, down = bool((values[part] == np.inf).any()), bool((values[part] == -np.inf).any())
    values[np.isinf(values)] = 0.0
    return float("nan") if up and down else float("inf") if up else float("-inf") if down else None


def ratio(total: int | float | Fraction, n: int) -> float:
    """Return ``total / n`` as a float; both may be larger than any float."""
    is_infinite = isinstance(total, float) and not math.isfinite(total)
    return total if is_infinite else _round_to_float(Fraction(total) / n)


def _round_to_float(number: int | Fraction) -> float:
    """Return the nearest float; infinity for a number that is too large."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


# The counting engine: it counts matches first, and makes them when they are needed.

_MUCH_WORK = 1 << 30  # events that counting looks at in about a second
_MOST_GLANCED = 1 << 14
_FIRST_MATCHES = 100  # up to this many first matches lie in few events
_EVENTS_AS_PYTHON = 600  # kernels run as Python for some hundredths of a second
_PART_OF_ALL = 16  # a part of the events is searched again up to one in 16
_MOST_TO_LIST = 1 << 20  # matches that a search lists while the kernel of their walk is new
_CALLS_TO_LIST = 8
_not_listed: set[tuple] = set()  # kernels and numbers of events for which a search took too long


def counting_unsupported(program: BoundQuery) -> str | None:
    """Return why the counting engine cannot run a program, to complete "it …", or None if it can."""
    if reason := why_not_compiled(program):
        return reason
    graphs = [state_graph_of(program, bound) for bound in program.branches]
    reasons = [graph for graph in graphs if isinstance(graph, str)]
    if not reasons or not any(component.high != 1 for component in _components(program)):
        return reasons[0] if reasons else None
    anchored = [
        anchored_graph_of(program, bound)
        for bound, graph in zip(program.branches, graphs, strict=True)
        if isinstance(graph, str)
    ]
    return reasons[0] if any(isinstance(graph, str) for graph in anchored) else None


def _components(program: SequenceProgram) -> Iterator[Component]:
    """Yield the components of all branches."""
    return chain.from_iterable(bound.branch.components for bound in program.branches)


def graph_of(program: SequenceProgram, bound: BoundBranch) -> StateGraph | AnchoredGraph | str:
    """Return the graph by which a branch is counted, or why there is none, to complete "it …"."""
    graph = state_graph_of(program, bound)
    return anchored_graph_of(program, bound) if isinstance(graph, str) else graph


def counter_of(graph: StateGraph, places: Places, accept: np.ndarray) -> PathCounter:
    """Return the counter of the matches of a graph; for the parameters see `Layout`."""
    return _counter(_layout(graph, places, accept))


def _layout(graph: StateGraph, places: Places, accept: np.ndarray, *, as_python: bool = False) -> Layout:
    """Return the layout of the events of a graph."""
    layout_class = AnchoredLayout if isinstance(graph, AnchoredGraph) else Layout
    return layout_class(graph, places, accept, as_python=as_python)


def _counter(layout: Layout) -> PathCounter:
    """Return the counter of a layout."""
    return (AnchoredCounter if isinstance(layout, AnchoredLayout) else PathCounter)(layout)


def _walk(layout: Layout, number: int) -> MatchWalk:
    """Return the walk over the matches of a layout."""
    return (AnchoredWalk if isinstance(layout, AnchoredLayout) else PathWalk)(layout, number)


def match_by_counting(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return the matches of ``program`` in ``events``. They are counted when the count is first needed."""
    if not events.n_events or program.window.is_empty:
        return KnownMatches(events, joined([]))
    return CountedMatches(program, events)


def _first_of(walk: MatchWalk, n: int) -> MatchBlock:
    """Return the first ``n`` matches of a walk."""
    return collect(first_of_blocks(n, walk.blocks(n) if n else iter(())))


class CountedMatches(SequenceSet):
    """The matches of all branches of a program."""

    # ``as_python`` runs kernels that are not compiled yet as Python, for a few events.

    def __init__(self, program: SequenceProgram, events: Events, *, as_python: bool = False):
        self.program, self.events, self._as_python = program, events, as_python
        self._graphs = [graph_of(program, bound) for bound in program.branches]

    @cached_property
    def _placed(self) -> tuple[Places, np.ndarray]:
        """The places of the events, and which of them fulfil which conditions on single events."""
        return placed_and_accepted(self.program, self.events)

    @property
    def accepts(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        places, accept = self._placed
        accepts = np.zeros(self.events.n_events, bool)
        accepts[places.position_of_place] = np.bitwise_or.reduce(accept, axis=0)
        return accepts

    @property
    def _places(self) -> Places:
        return self._placed[0]

    @cached_property
    def _layouts(self) -> list[Layout]:
        """The events as the graph of each branch reads them."""
        accept, as_python = self._placed[1], self._as_python
        layouts = [_layout(graph, self._places, accept, as_python=as_python) for graph in self._graphs]
        for layout in layouts:
            layout.list_members()
        return layouts

    @property
    def run(self) -> SearchRun:
        """How the matches were counted so far."""
        # The tier of an interpreted branch sorts last.
        return SearchRun(
            max((layout.tier for layout in self.__dict__.get("_layouts", ())), default="compiled")
        )

    @cached_property
    def _counters(self) -> list[PathCounter]:
        """The counter of each branch."""
        return [_counter(layout) for layout in self._layouts]

    @cached_property
    def _counts(self) -> list[np.ndarray | list[int]]:
        """How many matches of each branch end at each place."""
        return [counter.by_place() for counter in self._counters]

    @cached_property
    def _walks(self) -> list[MatchWalk]:
        """The walk over the matches of each branch."""
        return [_walk(layout, number) for number, layout in enumerate(self._layouts)]

    @cached_property
    def _listed(self) -> KnownMatches | None:
        """All matches, if their walk would have to be compiled first and a short search finds them."""
        if self._as_python or "_walks" in self.__dict__ or not (texts := self._texts_to_compile):
            return None
        key = (*texts, self.events.n_events)
        if key in _not_listed or self._is_much or self._total > _MOST_TO_LIST:
            return None
        find = find_without_compiling
        for text in texts:
            find = interpreting(text, find, self.events.n_events)
        matches = find(self._places, self._layouts[0].accept, _CALLS_TO_LIST)
        if matches is None:
            _not_listed.add(key)
        return matches

    @property
    def _is_walked(self) -> bool:
        """Whether a walk is prepared, or all matches are listed."""
        return "_walks" in self.__dict__ or self.__dict__.get("_listed") is not None

    @property
    def _texts_to_compile(self) -> list[str]:
        """The modules of kernels that would have to be compiled to list matches."""
        texts = [text for layout in self._layouts for text in layout.texts_to_list]
        return [text for text in texts if reason_to_compile(text, COUNTING) is None]

    @cached_property
    def _total(self) -> int:
        """The number of matches of all branches."""
        return sum(counter.total() for counter in self._counters)

    def count(self) -> int:
        return self._total

    @cached_property
    def _is_slow(self) -> bool:
        """Whether the matches are not counted yet and counting them takes more than about a second."""
        return sum(counter.work for counter in self._counters) > _MUCH_WORK

    @cached_property
    def _is_much(self) -> bool:
        """Whether counting the matches by their last events takes much time or memory."""
        return self._is_slow or any(counter.are_long for counter in self._counters)

    def at_least(self) -> tuple[int, bool]:
        """Return a number of matches that is quick to find, and whether it is the count."""
        if "_total" in self.__dict__ or not self._is_much:
            return super().at_least()
        n = len(self.glance(_MOST_GLANCED))
        return n, n < _MOST_GLANCED

    def at_most(self) -> int:
        """Return an upper bound of the count, or the count if it is known."""
        return (
            self._total if "_total" in self.__dict__ else sum(counter.at_most for counter in self._counters)
        )

    def any(self) -> bool:
        return len(self.glance(1)) > 0 if self._is_much else super().any()

    def counts_of_branches(self) -> list[int]:
        """Return the exact number of matches of every branch."""
        return [total_of(counts) for counts in self._counts]

    def sample_of_branch(self, number: int, n: int, seed: int) -> MatchBlock:
        """Return ``n`` matches of a branch, drawn uniformly."""
        return self._walks[number].sample(n, seed + number, self._counts[number])

    def ends(self) -> tuple[np.ndarray, np.ndarray | list[int]]:
        return self._ends

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions where matches end, rising, and how many end at each."""
        if len(self._counters) == 1 and self._total < 2**63:
            [counter] = self._counters
            return self._positions_and_counts(counter.last, np.asarray(counter.by_member, np.uint64))
        if self._total < 2**63:
            counts = sum(np.asarray(branch_counts, dtype=np.uint64) for branch_counts in self._counts)
        else:
            counts = sum(np.array(branch_counts, dtype=object) for branch_counts in self._counts)
        return self._positions_and_counts(np.arange(len(counts)), counts)

    def _positions_and_counts(self, places: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the places with matches, rising, and how many end at each."""
        of_end = np.flatnonzero(counts)
        positions = self._places.position_of_place[places[of_end]]
        if self._places.is_one_partition:
            return positions, counts[of_end]
        if len(positions) * _PART_OF_ALL < self.events.n_events:
            order = np.argsort(positions)
            return positions[order], counts[of_end[order]]
        # Two passes over a mark per event take less time than sorting the positions.
        is_end = np.zeros(self.events.n_events, np.bool_)
        is_end[positions] = True
        number = np.empty(len(is_end), np.int32 if len(is_end) < 2**31 else np.int64)
        number[positions] = np.arange(len(positions))
        positions = np.flatnonzero(is_end)
        return positions, counts[of_end[number[positions]]]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches whose last event has a position from ``low`` to ``high``."""
        if self._listed:
            return self._listed.ending(low, high)
        is_all = low <= 0 and high >= self.events.n_events and "_total" in self.__dict__
        if is_all and len(self._walks) == 1 and isinstance(walk := self._walks[0], PathWalk):
            block = walk.all(self._total)
            if block.n_items <= 6 * len(walk.entries.place):  # at least six arrays have a value per entry
                # The matches take less memory than the walk, and no time in the next call.
                self.__dict__["_listed"] = KnownMatches(self.events, block)
                del self._walks
            return block
        blocks = [walk.ending(low, high) for walk in self._walks]
        return blocks[0] if len(blocks) == 1 else joined(blocks).sorted()

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        if self._listed:
            return self._listed.blocks(size)
        return self._walks[0].blocks(size) if len(self._walks) == 1 else super().blocks(size)

    def glance(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches."""
        if (block := self._first_of_first_events(n)) is not None:
            return block
        return self._first_of_all(n)

    first = glance

    def _first_of_first_events(self, n: int) -> MatchBlock | None:
        """Return the first ``n`` matches if they end at the first events and no walk is prepared."""
        if self._as_python or self._is_walked or self.program.can_be_forbidden_later:
            return None
        program = self.program
        return first_of_few_events(
            self.events, n, 4, lambda few, n: CountedMatches(program, few)._first_of_all(n)
        )

    def _first_of_all(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches in the way that costs least."""
        if (block := self._first_as_python(n)) is not None:
            return block
        if self._listed:
            return self._listed.glance(n)
        is_known = "_total" in self.__dict__ and not any(counter.are_long for counter in self._counters)
        if len(self._walks) > 1 and self._is_much and not is_known:
            return joined([_first_of(walk, n) for walk in self._walks]).sorted().take(slice(0, n))
        return super().glance(n) if len(self._walks) > 1 else _first_of(self._walks[0], n)

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches with these numbers in canonical order."""
        if not numbers:
            return joined([])
        for find in (self._first_of_first_events, self._first_as_python):
            if min(numbers) >= 0 and (block := find(max(numbers) + 1)) is not None:
                return block.take(np.array(numbers))
        if (block := self._in_their_windows(numbers)) is not None:
            return block
        if self._listed:
            return self._listed.take(numbers)
        if len(self._walks) > 1:
            return super().take(numbers)
        return self._walks[0].take(numbers, self._counts[0])

    def _first_as_python(self, n: int) -> MatchBlock | None:
        """Return the first ``n`` matches from the events around them, without compiling; or None."""
        # All matches that end at an event begin in its window. So the events from the first of these windows
        # to the last of these ends have the same first matches.
        is_few = 0 < n <= _FIRST_MATCHES and not self._as_python
        if not is_few or ("_total" not in self.__dict__ and self._is_slow):
            return None
        if any(counter.are_long for counter in self._counters):
            return None
        if not self._texts_to_compile:
            return None
        positions, counts = self.ends()
        if not len(positions):
            return None
        positions = positions[: 1 + np.searchsorted(np.cumsum(counts[:n].astype(np.float64)), n)]
        places = np.sort(self._places.places_of(positions))
        start = int(self._places.position_of_place[self._places.window_start_of(places)].min())
        stop = int(positions[-1]) + 1
        if stop - start > _EVENTS_AS_PYTHON:
            return None
        few = CountedMatches(self.program, self.events.between(start, stop), as_python=True)
        block = few.take(list(range(min(n, few.count()))))
        return block.with_events(block.event_of_item + start)

    def _in_their_windows(self, numbers: list[int]) -> MatchBlock | None:
        """Return matches by number from the windows before their ends; None if these are many events."""
        # A walk over all events takes longer to prepare. All matches that end at an event begin in its
        # window, so the events of these windows have the same matches with these ends.
        if self._is_walked or not numbers or not self._lie_in_windows or self._total >= 2**63:
            return None
        ends, counts = self.ends()
        first = np.concatenate([[0], np.cumsum(counts.astype(np.int64))])
        wanted = np.array(numbers, np.int64)
        if wanted.min() < 0 or wanted.max() >= first[-1]:
            return None
        used_ends, end_of_match = np.unique(np.searchsorted(first, wanted, "right") - 1, return_inverse=True)
        positions = self._windows_before(ends[used_ends])
        if positions is None:
            return None
        few = CountedMatches(self.program, self.events.at(positions))
        few_ends, few_counts = few.ends()
        place = np.searchsorted(few_ends, np.searchsorted(positions, ends[used_ends]))
        place = np.minimum(place, max(len(few_ends) - 1, 0))
        is_same = len(few_ends) and np.array_equal(positions[few_ends[place]], ends[used_ends])
        if not is_same or not np.array_equal(few_counts[place], counts[used_ends]):
            return None  # the matches depend on other events
        few_first = np.concatenate([[0], np.cumsum(few_counts.astype(np.int64))])
        shift = few_first[place] - first[used_ends]
        if not few._listed:
            _ = few._walks  # so that it looks in no windows again
        block = (few._listed or few).take((wanted + shift[end_of_match]).tolist())
        return block.with_events(positions[block.event_of_item])

    @property
    def _lie_in_windows(self) -> bool:
        """Whether matches depend only on the times and values of events in the window before their ends."""
        window, branches = self.program.window, [bound.branch for bound in self.program.branches]
        is_timed = window.within is not None and window.within_events is None
        return is_timed and all(
            absence.after >= 0 and absence.before < len(branch.components)
            for branch in branches
            for absence in branch.absences
        )

    def _windows_before(self, ends: np.ndarray) -> np.ndarray | None:
        """Return the positions of all events in the windows before some events, or None if they are many."""
        places = np.sort(self._places.places_of(ends))
        stop, start = places + 1, self._places.window_start_of(places)
        start = np.maximum(start, np.concatenate([[0], stop[:-1]]))
        sizes = stop - start
        n = int(sizes.sum())
        if n * _PART_OF_ALL > self.events.n_events:
            return None
        window_places = np.arange(n) + np.repeat(start - np.cumsum(sizes) + sizes, sizes)
        return np.sort(self._places.position_of_place[window_places])

    def sample(self, n: int, seed: int = 0) -> MatchBlock:
        """Return `n` matches drawn evenly from those of all branches."""
        if len(self._walks) == 1:
            return self._walks[0].sample(n, seed, self._counts[0])
        drawn = draw_numbers(self._total, n, seed)
        blocks, first = [], 0
        for number, branch_count in enumerate(self.counts_of_branches()):
            n_own = sum(first <= k < first + branch_count for k in drawn)
            blocks.append(self.sample_of_branch(number, n_own, seed))
            first += branch_count
        return joined(blocks).sorted()

    def can_aggregate(self, function: str, values: np.ndarray | None) -> bool:
        """Return whether `aggregate` computes this; otherwise the matches are enumerated."""
        if function not in ("count", "sum", "avg", "min", "max"):
            return False
        if not any(isinstance(graph, AnchoredGraph) for graph in self._graphs):
            return True
        return function not in ("min", "max") and (values is None or bool(np.isfinite(values).all()))

    def aggregate(
        self, function: str, variable: str, values: np.ndarray | None, present: np.ndarray | None
    ) -> int | float | None:
        """Return an aggregate over the events of ``variable`` in all matches."""
        by_place = has_value = None
        if values is not None:
            by_place, has_value = (array[self._places.position_of_place] for array in (values, present))
        wanted = {"avg": ("total", "count"), "sum": ("total",)}.get(function, (function,))
        values_of_name: dict[str, list] = {name: [] for name in wanted}
        for counter in self._counters:
            for c, component in enumerate(counter.graph.branch.branch.components):
                if component.variable == variable:
                    for name in wanted:
                        branch_value = aggregate(counter, c, by_place, name, has_value)
                        values_of_name[name] += [] if branch_value is None else [branch_value]
        if function == "count":
            return sum(values_of_name["count"])
        if not values_of_name[wanted[0]]:
            return None
        if function in ("min", "max"):
            return (min if function == "min" else max)(values_of_name[function])
        total = sum(values_of_name["total"])
        if function == "avg":
            return ratio(total, sum(values_of_name["count"]))
        return ratio(total, 1) if values.dtype.kind == "f" else int(total)
