"""Counts without conditions between events, in constant time per event for any window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.counting.layout import Layout
from cepkit.engines.shared.places import PATHS
from cepkit.limits import check_memory
from cepkit.progress import checkpoint

_SAFE = 1 << 63
_TOGETHER = 256  # events with long numbers between two checkpoints
_PER_NUMBER = 40  # bytes of a Python integer besides its digits
_WIDTH = 8  # columns in a row of paths, as in the kernels


def count_unary(layout: Layout, bound: int | None) -> np.ndarray | list[int]:
    """Return how many matches end at each member of the last pool: uint64, or ints if one is 2^63 or more.

    None of the numbers exceeds ``bound``. A graph with a loop needs no bound.

    Differs: CORE (Bucchi et al., VLDB 2022) has the same complexity, with a structure that also enumerates.
    """
    graph, last, since = layout.graph, layout.members(layout.last_pool), layout.places.window_start
    n = len(graph.states)
    if (graph.is_line or n == 1) and not graph.has_loop and n <= 8 and bound < _SAFE:
        return _count_row(layout, last, since)
    paths = _Paths.of(layout)
    # With a loop, the kernel halves numbers, so they must not be residues modulo 2^64.
    bound = _bound_of_paths(layout, paths.states, since) if graph.has_loop else bound
    if bound < _SAFE:
        out = np.zeros(len(paths.states), np.uint64)
        with np.errstate(over="ignore"):
            own = np.uint64(1), np.eye(n + 1, dtype=np.uint64), out
            load_kernels(PATHS).count_graph(paths.states, since, *paths.edges, *own)
        return out[last]
    found, n_bytes = [], 0
    for number in _long_numbers(paths, since, last):
        found.append(number)
        n_bytes += (number.bit_length() >> 3) + _PER_NUMBER
        if not len(found) % _TOGETHER:
            check_memory(n_bytes, "the exact numbers of matches by their last events", is_held=True)
    return np.array(found, np.uint64) if max(found, default=0) < _SAFE else found


def total_unary(layout: Layout) -> int:
    """Return the number of matches, of any size."""
    last, since = layout.members(layout.last_pool), layout.places.window_start
    return sum(_long_numbers(_Paths.of(layout), since, last))


@dataclass(frozen=True, slots=True)
class _Paths:
    """The states of all events, and the edges between states, as `count_graph` reads them."""

    states: np.ndarray
    source: list[int]
    first_edge: list[int]
    final: list[int]

    @classmethod
    def of(cls, layout: Layout) -> _Paths:
        """Return the paths through a graph without conditions between events."""
        graph = layout.graph
        source, first_edge = [], [0]
        for t, state in enumerate(graph.states):
            source += [0] if state.is_first else []
            source += [graph.edges[e].source + 1 for e in graph.into(t)]
            first_edge.append(len(source))
        return cls(
            _sets_of_states(layout), source, first_edge, [int(state.is_final) for state in graph.states]
        )

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges as arrays."""
        return np.array(self.source), np.array(self.first_edge), np.array(self.final, np.uint8)


def _long_numbers(of: _Paths, since: np.ndarray, last: np.ndarray) -> Iterator[int]:
    """Yield how many paths end at each of ``last``, as Python integers; see `count_graph`."""
    n, n_states = len(of.states), len(of.final)
    into = [of.source[of.first_edge[t] : of.first_edge[t + 1]] for t in range(n_states)]
    states_of_mask = {
        mask: [t for t in range(n_states) if mask >> t & 1] for mask in np.unique(of.states).tolist()
    }
    # Only an event that leaves a window needs more than the first row.
    leaves = bool(((since[1:] > since[:-1]) & (since[1:] < np.arange(1, n))).any())
    rows = list(range(n_states + 1)) if leaves else [0]
    paths: list[list[int]] = []
    masks, starts, wanted = of.states.tolist(), since.tolist(), iter([*last.tolist(), n])
    oldest, next_one = 0, next(wanted)
    for e in range(n):
        if not e % _TOGETHER:
            checkpoint(e / n)
        if starts[e] >= e:
            paths = [[int(i == j) for j in range(n_states + 1)] for i in range(n_states + 1)]
            oldest = e
        while oldest < starts[e]:
            _take_back(paths, states_of_mask[masks[oldest]], into)
            oldest += 1
        number = 0
        # From the last state down, so that no state sees what this event adds to an earlier one.
        for t in reversed(states_of_mask[masks[e]]):
            if of.final[t]:
                number += sum(paths[0][source] for source in into[t])
            for i in rows:
                own = paths[i]
                more = own[t + 1] if t + 1 in into[t] and i < t + 2 else 0
                for source in into[t]:
                    if source != t + 1 and i <= source:
                        more += own[source]
                own[t + 1] += more
        if e == next_one:
            yield number
            next_one = next(wanted)


def _take_back(paths: list[list[int]], states: list[int], into: list[list[int]]) -> None:
    """Take the paths that begin with the oldest event out of the numbers."""
    n_states = len(into)
    for i in range(n_states, -1, -1):
        is_loop = False
        for t in states:
            for source in into[t]:
                if source == t + 1:
                    is_loop |= t + 1 == i
                elif source == i:
                    for j in range(t + 1, n_states + 1):
                        paths[i][j] -= paths[t + 1][j]
        if is_loop:
            for j in range(i, n_states + 1):
                paths[i][j] >>= 1


def _count_row(layout: Layout, last: np.ndarray, since: np.ndarray) -> np.ndarray:
    kernels, n = load_kernels(PATHS), len(layout.graph.states)
    tests = [state.test for state in layout.graph.states]
    n_states_of_event = layout.accept[tests[0]].copy()
    for test in tests[1:]:
        n_states_of_event += layout.accept[test]
    out = np.zeros(len(last), np.uint64)
    with np.errstate(over="ignore"):
        if n_states_of_event.max(initial=0) < 2:
            state_of_event = np.full(layout.places.n, n + 1, np.uint8)
            for s, test in enumerate(tests):
                state_of_event -= np.uint8(n + 1 - s) * layout.accept[test]
            scratch = np.zeros((2, _WIDTH * (n + 3)), np.uint64)
            kernels.count_apart(state_of_event, last, since[last], n, *scratch, out)
            return out
        states = _sets_of_states(layout).astype(np.uint8)
        every = np.zeros(layout.places.n, np.uint64)
        highest = np.array([max(0, s.bit_length() - 1) for s in range(256)], np.uint8)
        kernels.count_row(states, since, highest, np.eye(n, dtype=np.uint64), every)
        return every[last]


def _bound_of_paths(layout: Layout, states: np.ndarray, since: np.ndarray) -> int:
    """Return a bound on the number of paths from one state to another within a window."""
    bounds = []
    for t in range(len(layout.graph.states)):
        seen = np.concatenate([[0], np.cumsum(states >> t & 1)])
        n = int((seen[1:] - seen[since]).max(initial=0))
        sources = {layout.graph.edges[e].source for e in layout.graph.into(t)}
        bound = 1 + sum(bounds[s] for s in sources - {t})
        bounds.append(bound << n if t in sources else bound * n)
    return max(bounds)


def _sets_of_states(layout: Layout) -> np.ndarray:
    """Return the mask of the states that each event may be in, int64."""
    out = np.zeros(layout.places.n, np.int64)
    for s, state in enumerate(layout.graph.states):
        out |= layout.accept[state.test].astype(np.int64) << s
    return out
