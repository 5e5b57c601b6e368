"""The events of a state graph as path kernels read them, and the latest starts of paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cepkit.compile.counting.path_source import PathModuleWriter
from cepkit.compile.counting.path_tables import text_of
from cepkit.compile.counting.reach import write_reach_back, write_starts
from cepkit.compile.counting.state_graph import StateGraph
from cepkit.compile.shared.loading import interpreting, load_general
from cepkit.engines.counting.layout import WORK_PER_CALL, Layout, n_below
from cepkit.engines.interpreted.paths import path_values
from cepkit.progress import checkpoint


@dataclass(frozen=True, eq=False)
class Entries:
    """Events that the states of a graph accept; see `cepkit.compile.counting.path_source`."""

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

    @classmethod
    def of(cls, layout: Layout) -> Entries:
        """Return the entries of a layout's graph."""
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
        place = np.concatenate([layout.members(pool) for pool in lists])
        low, high = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
        for edge in graph.edges if graph.is_line else graph.edges[:1]:
            source, target = pools[edge.source], pools[edge.target]
            own = slice(first[edge.target], end[edge.target])
            begins = layout.n_before(source, layout.array("since", target))
            if graph.has_gap:
                begins = np.maximum(begins, layout.array("gap", source, target))
            low[own] = first[edge.source] + begins
            high[own] = first[edge.source] + layout.array("ends", source, target)
        entries = cls(
            layout, place, places.position_of_place[place], low, high,
            np.concatenate([layout.array("since", pool) for pool in lists]), first, end, offset,
            _accepted_cells(layout, place, first, end, offset),
            _limits(layout, place, first, end),
        )  # fmt: skip
        entries._find_latest_starts(layout)
        return entries

    @cached_property
    def values(self) -> tuple:
        """The arguments that conditions read; see `GraphPathWriter`."""
        columns = (column[self.place] for column in self.layout.columns)
        return self.place, *self.limits, *columns, *self.layout.constants

    @cached_property
    def _values_to_interpret(self) -> tuple:
        return path_values(self.layout, self.place, self.limits)

    def kernel(self, write: Callable[[PathModuleWriter], str], name: str) -> tuple[Callable, tuple]:
        """Return a kernel and its values. Until it is compiled, one for every graph takes its place."""
        layout = self.layout
        if not layout.can_interpret(write):
            return layout.path_kernel(write, name), self.values
        run = getattr(load_general(text_of(write)), name)
        return interpreting(layout.path_text(write), run, layout.places.n), self._values_to_interpret

    def _find_latest_starts(self, layout: Layout) -> None:
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

    def window(self, start: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each state, the first entries at or after the places ``start`` and ``last``."""
        spans = list(zip(self.first_of_state.tolist(), self.end_of_state.tolist(), strict=True))
        known = {
            span: span[0] + np.searchsorted(self.place[span[0] : span[1]], [start, last])
            for span in set(spans)
        }
        bounds = np.array([known[span] for span in spans], np.int64)
        return np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])

    def taking_part(self, layout: Layout, component: int) -> np.ndarray:
        """Return which members of a component's pool are part of a match, bool."""
        needed = np.full(len(self.latest), layout.places.n)
        spans = list(zip(self.first_of_state.tolist(), self.end_of_state.tolist(), strict=True))
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
        found = [takes_part[self.offset[s] + _rows(layout, self.place, *spans[s], s)] for s in states]
        return np.logical_or.reduce(found)


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
        own = _rows(layout, place, first[s], end[s], s)
        limit = np.full(len(place), 0 if is_near else layout.places.n)
        if not is_near:
            limit[own] = layout.array("limit", k)
        elif layout.graph.is_line:
            limit[own] = first[edge.source] + layout.array("begins", k)
        else:
            limit[own] = np.searchsorted(place, layout.array("near", k))
        limits.append(limit)
    return limits


def _accepted_cells(layout: Layout, place, first, end, offset) -> np.ndarray:
    """Return, for each state and entry, -1 if not accepted, the place in a first state, otherwise 0."""
    cells = np.empty(int((offset + end).max(initial=0)), np.int64)
    for s, state in enumerate(layout.graph.states):
        own = place[first[s] : end[s]]
        start = own if state.is_first else np.zeros(1, np.int64)
        accepted = layout.accept[state.test][own]
        cells[offset[s] + first[s] : offset[s] + end[s]] = np.where(accepted, start, -1)
    return cells
