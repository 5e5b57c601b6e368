"""The events of one state graph as the arrays that the kernels of the counting engine read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.counting import ConditionWriter, CountingKernel, Key, write_absence
from cepkit.compile.counting_paths import (
    GraphPathWriter,
    PathModuleWriter,
    write_line_walk,
    write_reach_back,
    write_starts,
    write_walk,
)
from cepkit.compile.counting_ranking import text_of
from cepkit.compile.interpreted_columns import PairTest
from cepkit.compile.shared.loading import (
    interpreting,
    is_general_ready,
    is_loaded,
    is_ready,
    load_general,
    load_kernels,
    reason_not_to_interpret,
    reason_to_compile,
)
from cepkit.compile.state_graph import LinkAbsence, StateGraph
from cepkit.engines.interpreted_counting import (
    absence_tests_of,
    counting_tests_of,
    nearest_interpreted,
    path_values,
)
from cepkit.engines.shared.places import COUNTING, PLACES, Places, accepted_places, dtypes_of, kernel
from cepkit.engines.shared.python_kernels import new_as_python
from cepkit.progress import checkpoint, free_after_fork, run_on_threads
from cepkit.values import cached_property, dataclass

WORK_PER_CALL = 1 << 26  # entries looked at between two checkpoints
_FEW_OF = 16  # a search for one place in 16 is faster than a pass over all
_OF_POOLS = frozenset({"members", "ends", "since"})  # arrays that no condition on several events changes
_KEPT_POOLS = 2  # of the events; a slider moves such a condition, and everything else stays
_keeping = threading.Lock()
free_after_fork(_keeping)
_FEW = 1 << 12  # up to this many places, numpy is as fast as kernels, which must be compiled first


class _Kernels(dict[tuple[Callable, str], Callable]):
    """Kernels of paths by what writes them and their names. Another process loads its own."""

    def __reduce__(self) -> tuple:
        return _Kernels, ()


class Layout:
    """The pools of a state graph, and which places of other pools may precede each of their places."""

    # A pool is the list of places that pass one test. The last pool, ``every``, has all places that any state
    # accepts. Arrays are made when they are first needed.

    def __init__(self, graph: StateGraph, places: Places, accept: np.ndarray, *, as_python: bool = False):
        self.graph, self.places, self.accept = graph, places, accept
        self.tier = "compiled"  # how matches were counted
        self._load = new_as_python if as_python else kernel
        self.program, self.inputs = places.program, places.inputs
        self.dtypes = dtypes_of(self.inputs)
        self.every = len(graph.tests)
        self.last_pool = graph.pool(graph.finals[0])
        self._arrays: dict[Key, np.ndarray] = {}
        self._sizes: dict[int, int] = {}
        self._path_kernels = self.write_once("kernels", as_python, write=_Kernels)

    @cached_property
    def writer(self) -> GraphPathWriter:
        """The writer of kernels for paths. It knows the columns and constants of all kernels of the graph."""
        return self.write_once("paths", write=partial(GraphPathWriter, self.program, self.graph, self.dtypes))

    def write_once(self, *key: object, write: Callable[[], object]) -> Any:
        """Return the result of ``write``, which is called once per key, program and graph."""
        return self.program.once((*key, *self.dtypes.items()), write, of=self.graph)

    @cached_property
    def columns(self) -> list[np.ndarray]:
        """The columns that the conditions of links read, by number."""
        return [self.inputs.columns[name] for name in self.writer.columns]

    @cached_property
    def constants(self) -> list:
        """The arguments of kernels after their arrays."""
        return self.writer.constants_of(self.inputs)

    def function(self, made: CountingKernel) -> Callable:
        """Return the function of a kernel, compiled or as Python."""
        return self._load(self.program, made.text, made.name)

    def tests_if_new(self, text: str) -> list[tuple[PairTest, ...]] | str:
        """Return the tests of every link if they are to be interpreted, or why a generated kernel runs."""
        return reason_to_compile(text, COUNTING) or self.tests_of_links

    def path_kernel(self, write: Callable[[GraphPathWriter], str], name: str) -> Callable:
        """Return a compiled kernel that follows paths, from a module that ``write`` writes."""
        if (write, name) not in self._path_kernels:
            self._path_kernels[write, name] = self._load(self.program, self.path_text(write), name)
        return self._path_kernels[write, name]

    def has_path_kernel(self, write: Callable[[GraphPathWriter], str], name: str) -> bool:
        """Return whether `path_kernel` has loaded this kernel already."""
        return (write, name) in self._path_kernels

    def path_text(self, write: Callable[[GraphPathWriter], str]) -> str:
        """Return the text of a module of kernels that follow paths."""
        return self.write_once(write, write=partial(write, self.writer))

    def can_interpret(self, write: Callable[[GraphPathWriter], str]) -> bool:
        """Return whether a kernel is not compiled yet, and another one for every graph can run instead."""
        if isinstance(self.tests_of_links, str) or is_ready(self.path_text(write)):
            return False
        return not reason_not_to_interpret() and is_general_ready(text_of(write))

    @property
    def tests_of_links(self) -> list[tuple[PairTest, ...]] | str:
        """The tests of every link for interpretation, or why a link has none."""
        return self.write_once("tests", write=partial(counting_tests_of, self.graph))

    @property
    def texts_to_list(self) -> list[str]:
        """The modules of kernels that list matches."""
        if not self.graph.edges:
            return []
        walk = write_line_walk if self.graph.is_line else write_walk
        new = [key[0] for key in ((write_starts, "starts"), (walk, "walk")) if not self.has_path_kernel(*key)]
        return [self.path_text(write) for write in new if not self.can_interpret(write)]

    # --- arrays

    def array(self, *key: str | int) -> np.ndarray:
        """Return the array of a key; see `CountingKernel`."""
        arrays = self._of_pools if key[0] in _OF_POOLS else self._arrays
        if key not in arrays:
            arrays[key] = getattr(self, f"_{key[0]}")(*key[1:])
        return arrays[key]

    @cached_property
    def _of_pools(self) -> dict[Key, np.ndarray]:
        """The arrays that depend on accepted events and the window alone. The events keep the newest."""
        graph, kept_pools = self.graph, self.places.placed.pools
        tests = tuple(state.test for state in graph.states)
        key = type(self), graph.tests, tests, self.program.window, self.program.clock
        accept, arrays = kept_pools.get(key, (None, {}))
        if accept is None or not np.array_equal(accept, self.accept):
            arrays = {}
            with _keeping:
                kept_pools[key] = self.accept, arrays
                while len(kept_pools) > _KEPT_POOLS:
                    del kept_pools[next(iter(kept_pools))]
        return arrays

    def joined(self, kind: str, pools: list[int], *more: int) -> np.ndarray:
        """Return one array of the arrays of pools, and keep its parts in their place."""
        arrays = self._of_pools if kind in _OF_POOLS else self._arrays
        whole, end = np.concatenate([self.array(kind, pool, *more) for pool in pools]), 0
        for pool in pools:
            begin, end = end, end + len(self.members(pool))
            arrays[kind, pool, *more] = whole[begin:end]
        return whole

    def arrays_of(self, made: CountingKernel, **scratch: Callable[..., np.ndarray]) -> list[np.ndarray]:
        """Return the arrays of a kernel; ``scratch`` has a function for each kind of scratch array."""
        return [scratch[key[0]](*key[1:]) if key[0] in scratch else self.array(*key) for key in made.arrays]

    def list_members(self) -> None:
        """List the members of all pools on the threads of the places, if links have conditions."""
        if self.places.threads > 1 and not self.graph.is_unary and self._of_pools is not None:
            run_on_threads(self.members, len(self.graph.tests), self.places.threads)

    def make_on_threads(self, made: CountingKernel) -> None:
        """Compute the columns and ends that a kernel reads, on threads if that pays."""
        keys = [key for key in made.arrays if key[0] in ("column", "ends")] if self.places.threads > 1 else []
        if keys:
            self.list_members()
            run_on_threads(lambda i: self.array(*keys[i]), len(keys), self.places.threads)

    def members(self, pool: int) -> np.ndarray:
        """Return the places of a pool, ascending."""
        return self.array("members", pool)

    def size(self, state: int) -> int:
        """Return the number of members of a state's pool."""
        return self.n_members(self.graph.pool(state))

    def n_members(self, pool: int) -> int:
        """Return the number of places in a pool."""
        if not self.graph.is_unary:
            return len(self.members(pool))
        if pool not in self._sizes:
            accept = self.accept[self.graph.tests[pool]]
            self._sizes[pool] = int(np.count_nonzero(accept.view(np.bool_)))
        return self._sizes[pool]

    def _members(self, pool: int) -> np.ndarray:
        """Return the places that the test of a pool accepts."""
        if pool == self.every:
            tests = sorted({state.test for state in self.graph.states})
            return np.flatnonzero(self.accept[tests].any(axis=0))
        return accepted_places(self.accept[self.graph.tests[pool]])

    def _column(self, pool: int, number: int) -> np.ndarray:
        return self.columns[number][self.members(pool)]

    def _since(self, pool: int) -> np.ndarray:
        """Return the first place whose window contains each member."""
        return self.places.window_start_of(self.members(pool))

    # --- what may precede

    def n_before(self, pool: int, places: np.ndarray, *, rising: bool = True) -> np.ndarray:
        """Return how many members of a pool are before each of these places, which ascend if ``rising``."""
        members, n = self.members(pool), self.places.n
        if rising:
            return n_below(members, places)
        if len(places) * _FEW_OF <= n:
            return np.searchsorted(members, places)
        rank = np.zeros(n + 1, np.int64)
        rank[members + 1] = 1
        return np.cumsum(rank, out=rank)[places]

    def _ends(self, source: int, target: int) -> np.ndarray:
        """Return, for each member of the target pool, how many of the source pool may precede it."""
        if self.program.window.strict_time:
            return n_below(self.places.later[self.members(source)], self.members(target) + 1)
        return self.n_before(source, self.members(target))

    def _gap(self, source: int, target: int) -> np.ndarray:
        """Return, for each member of the target pool, the first of the source pool that the gap allows."""
        return n_below(self.places.gap_end[self.members(source)], self.members(target) + 1)

    def _begins(self, link: int) -> np.ndarray:
        """Return, for each target member, the first of the source pool that absences and gap allow."""
        graph_link, graph = self.graph.links[link], self.graph
        source, target = (
            graph.pool_of_component(graph_link.source),
            graph.pool_of_component(graph_link.target),
        )
        bounds = [self.array("gap", source, target)] if graph.has_gap else []
        if graph_link.has_near:
            bounds.append(self.n_before(source, self.array("near", link), rising=False))
        return np.maximum.reduce(bounds)

    def _near(self, link: int) -> np.ndarray:
        """Return the first place that absences allow before each member of the later component's pool."""
        graph_link = self.graph.links[link]
        target = self.graph.pool_of_component(graph_link.target)
        nearest = []
        for absence in graph_link.absences:
            if absence.side != "earlier":
                absent = self.graph.tests.index(absence.test)
                stop = self.n_before(absent, self.members(target))
                if absence.terms:
                    first = self.n_before(absent, self.array("since", target))
                    nearest.append(self._nearest(link, absence, first, stop))
                else:
                    nearest.append(np.concatenate([[0], self.members(absent)])[stop])
        return np.maximum.reduce(nearest)

    def _limit(self, link: int) -> np.ndarray:
        """Return, for each member of the source pool, the last place for the next event."""
        graph_link = self.graph.links[link]
        before = self.members(self.graph.pool_of_component(graph_link.source))
        until = self.places.window_end[before]
        if self.graph.has_gap:
            until = np.minimum(until, self.places.gap_end[before])
        nearest = []
        for absence in graph_link.absences:
            if absence.side == "earlier":
                absent = self.graph.tests.index(absence.test)
                spans = self.n_before(absent, before + 1), self.n_before(absent, until)
                nearest.append(self._nearest(link, absence, *spans))
        return np.minimum.reduce(nearest)

    def _nearest(self, link: int, absence: LinkAbsence, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Return, for each neighbour, the nearest absent event in its span that forbids something."""
        writer = partial(ConditionWriter, self.program, self.graph, self.dtypes)
        source = self.write_once(link, absence, write=lambda: write_absence(writer(), link, absence))
        tests = reason_to_compile(source.text, COUNTING) or absence_tests_of(absence)
        if not isinstance(tests, str):
            ahead, graph_link = absence.side == "earlier", self.graph.links[link]
            neighbour = self.graph.pool_of_component(graph_link.source if ahead else graph_link.target)
            pools = self.graph.tests.index(absence.test), neighbour
            find = interpreting(source.text, partial(nearest_interpreted, ahead=ahead), self.places.n)
            return find(self, tests, pools, first, stop)
        run, arrays = self.function(source), self.arrays_of(source)
        out, done = np.empty(len(first), np.int64), 0
        while done < len(out):
            checkpoint()
            done = run(done, WORK_PER_CALL, *arrays, *self.constants, first, stop, out)
        return out


def n_below(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return how many values are below each bound; values and bounds are int64 and nondecreasing."""
    if len(bounds) <= _FEW and not is_loaded(PLACES):
        return np.searchsorted(values, bounds)
    out = np.empty(len(bounds), np.int64)
    load_kernels(PLACES).count_below(values, bounds, out)
    return out


# The events of a state graph as path kernels read them, and the latest starts of paths.


@dataclass(frozen=True, eq=False)
class Entries:
    """Events that the states of a graph accept; see `cepkit.compile.counting_paths`."""

    layout: Layout  # the events
    # place, position: int64, (n_entries,): place and stream position of the event; places ascend within a
    # state
    place: np.ndarray
    position: np.ndarray
    # low, high: int64, (n_entries,): time allows the entries from ``low`` to ``high`` of a preceding state
    # before the entry
    low: np.ndarray
    high: np.ndarray
    window_start: np.ndarray  # int64, (n_entries,): the first place in whose window the entry is
    # first_of_state, end_of_state, offset: int64, (n_states,): the entries of each state, and where its part
    # of ``latest`` begins
    first_of_state: np.ndarray
    end_of_state: np.ndarray
    offset: np.ndarray
    # int64, (n_cells,): for each state and entry, the latest place at which a path that ends there begins, or
    # -1
    latest: np.ndarray
    limits: list[np.ndarray]  # limits by absent events, as `GraphPathWriter` names them
    pools: list[int]  # the pools that the entries are of, one after the other

    @classmethod
    def of(cls, layout: Layout) -> Entries:
        """Return the entries of a layout's graph."""
        # Each state of a line has entries for its pool alone. The states of another graph share a list of
        # entries for all places.
        graph, places = layout.graph, layout.places
        states = range(len(graph.states))
        pools = [graph.pool(s) if graph.is_line else layout.every for s in states]
        sizes = np.array([len(layout.members(pool)) for pool in pools], np.int64)
        if graph.is_line:
            end = np.cumsum(sizes)
            first, offset = end - sizes, np.zeros(len(pools), np.int64)
            lists = pools
        else:
            first, end, offset = np.zeros(len(pools), np.int64), sizes, np.arange(len(pools)) * sizes[0]
            lists = pools[:1]
        place = layout.joined("members", lists)
        low, high = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
        for edge in graph.edges if graph.is_line else graph.edges[:1]:
            source, target = pools[edge.source], pools[edge.target]
            target_entries = slice(first[edge.target], end[edge.target])
            begins = layout.n_before(source, layout.array("since", target))
            if graph.has_gap:
                begins = np.maximum(begins, layout.array("gap", source, target))
            low[target_entries] = first[edge.source] + begins
            high[target_entries] = first[edge.source] + layout.array("ends", source, target)
        entries = cls(
            layout, place, places.position_of_place[place], low, high,
            layout.joined("since", lists), first, end, offset,
            _accepted_cells(layout, place, first, end, offset),
            _limits(layout, place, first, end), lists,
        )  # fmt: skip
        entries._find_latest_starts(layout)
        return entries

    @cached_property
    def values(self) -> tuple:
        """The arguments that conditions read; see `GraphPathWriter`."""
        columns = (self.layout.joined("column", self.pools, i) for i in range(len(self.layout.columns)))
        return self.place, *self.limits, *columns, *self.layout.constants

    @cached_property
    def _values_to_interpret(self) -> tuple:
        """The arguments by which a kernel that serves every graph reads the conditions."""
        return path_values(self.layout, self.place, self.limits)

    def kernel(self, write: Callable[[PathModuleWriter], str], name: str) -> tuple[Callable, tuple]:
        """Return a kernel and its values. Until it is compiled, one for every graph takes its place."""
        layout = self.layout
        if layout.has_path_kernel(write, name) or not layout.can_interpret(write):
            return layout.path_kernel(write, name), self.values
        run = getattr(load_general(text_of(write)), name)
        return interpreting(layout.path_text(write), run, layout.places.n), self._values_to_interpret

    def _find_latest_starts(self, layout: Layout) -> None:
        """Write the latest start of the paths that end at each entry to ``latest``."""
        if not layout.graph.edges:
            return
        run, values = self.kernel(write_starts, "starts")
        for s, state in enumerate(layout.graph.states):
            done, end = int(self.first_of_state[s]), int(self.end_of_state[s])
            while not state.is_first and done < end:
                checkpoint()
                done = run(
                    s, done, end, WORK_PER_CALL, self.offset, self.low, self.high, self.window_start,
                    *values, self.latest,
                )  # fmt: skip

    def ends(self, graph: StateGraph) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries where matches end, and the masks of their final states, int64."""
        mask = np.zeros(len(self.place), np.int64)
        for s, state in enumerate(graph.states):
            if state.is_final:
                first, end = self.first_of_state[s], self.end_of_state[s]
                cells = self.latest[self.offset[s] + first : self.offset[s] + end]
                mask[first:end] |= np.where(cells >= 0, 1 << s, 0)
        ends = np.flatnonzero(mask)
        return ends, mask[ends]

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The first entry of each state, and the one after its last."""
        return list(zip(self.first_of_state.tolist(), self.end_of_state.tolist(), strict=True))

    def window(self, start: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each state, the first entries at or after the places ``start`` and ``last``."""
        spans = self._spans
        bounds_of_span = {
            span: span[0] + np.searchsorted(self.place[span[0] : span[1]], [start, last])
            for span in set(spans)
        }
        bounds = np.array([bounds_of_span[span] for span in spans], np.int64)
        return np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])

    def taking_part(self, layout: Layout, component: int) -> np.ndarray:
        """Return which members of a component's pool are part of a match, bool."""
        needed = np.full(len(self.latest), layout.places.n)
        spans = self._spans
        for s, (first, end) in enumerate(spans):
            if layout.graph.states[s].is_final:
                needed[self.offset[s] + first : self.offset[s] + end] = self.window_start[first:end]
        if layout.graph.edges:
            run, values = self.kernel(write_reach_back, "back")
            for s, (first, end) in reversed(list(enumerate(spans))):
                while first < end:
                    checkpoint()
                    end = run(
                        s, first, end, WORK_PER_CALL, self.offset, self.low, self.high, self.latest,
                        *values, needed,
                    )  # fmt: skip
        takes_part = self.latest >= needed
        states = [s for s, state in enumerate(layout.graph.states) if state.component == component]
        parts = [takes_part[self.offset[s] + _rows(layout, self.place, *spans[s], s)] for s in states]
        return np.logical_or.reduce(parts)


def _rows(layout: Layout, place: np.ndarray, first: int, end: int, state: int) -> np.ndarray:
    """Return the entries that are the members of a state's pool."""
    if layout.graph.is_line:
        return np.arange(first, end)
    return n_below(place, layout.members(layout.graph.pool(state)))


def _limits(layout: Layout, place, first, end) -> list[np.ndarray]:
    """Return the limits by absent events: first entries before an entry, and last places after an entry."""
    limits = []
    for k, is_near in [*((k, True) for k in layout.writer.nears), *((k, False) for k in layout.writer.fars)]:
        edge = next(edge for edge in layout.graph.edges if edge.link == k)
        s = edge.target if is_near else edge.source
        entry_rows = _rows(layout, place, first[s], end[s], s)
        limit = np.full(len(place), 0 if is_near else layout.places.n)
        if not is_near:
            limit[entry_rows] = layout.array("limit", k)
        elif layout.graph.is_line:
            limit[entry_rows] = first[edge.source] + layout.array("begins", k)
        else:
            limit[entry_rows] = np.searchsorted(place, layout.array("near", k))
        limits.append(limit)
    return limits


def _accepted_cells(layout: Layout, place, first, end, offset) -> np.ndarray:
    """Return, for each state and entry, -1 if not accepted, the place in a first state, otherwise 0."""
    cells = np.empty(int((offset + end).max(initial=0)), np.int64)
    for s, state in enumerate(layout.graph.states):
        state_places = place[first[s] : end[s]]
        start = state_places if state.is_first else np.zeros(1, np.int64)
        if not layout.graph.is_line:  # otherwise the entries of a state are those that it accepts
            start = np.where(layout.accept[state.test][state_places], start, -1)
        cells[offset[s] + first[s] : offset[s] + end[s]] = start
    return cells
