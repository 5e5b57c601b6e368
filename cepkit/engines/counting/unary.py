"""Counts without conditions between events, in constant time per event for any window."""

from __future__ import annotations

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.counting.layout import Layout
from cepkit.engines.shared.places import PATHS

_SAFE = 1 << 63
_WIDTH = 8  # columns in a row of paths, as in the kernels


def count_unary(layout: Layout, bound: int | None) -> np.ndarray | list[int]:
    """Return how many matches end at each member of the last pool: uint64, or ints if one is 2^63 or more.

    None of the numbers exceeds ``bound``. A graph with a loop needs no bound.

    Notes
    -----
    Time O(n_events x n_states), times the length of numbers with more than 63 bits.
    Differs: CORE (Bucchi et al., VLDB 2022) has the same complexity, with a structure that also enumerates.
    """
    graph, last, since = layout.graph, layout.members(layout.last_pool), layout.places.window_start
    n = len(graph.states)
    if (graph.is_line or n == 1) and not graph.has_loop and n <= 8 and bound < _SAFE:
        return _count_row(layout, last, since)
    states = _sets_of_states(layout)
    # With a loop, the kernel halves numbers, so they must not be residues modulo 2^64.
    bound = _bound_of_paths(layout, states, since) if graph.has_loop else bound
    source, first_edge = [], [0]
    for t, state in enumerate(graph.states):
        source += [0] if state.is_first else []
        source += [graph.edges[e].source + 1 for e in layout.graph.into(t)]
        first_edge.append(len(source))
    final = [int(state.is_final) for state in graph.states]
    if bound < _SAFE:
        out = np.zeros(len(states), np.uint64)
        edges = np.array(source, np.int64), np.array(first_edge, np.int64), np.array(final, np.uint8)
        with np.errstate(over="ignore"):
            own = np.uint64(1), np.eye(n + 1, dtype=np.uint64), out
            load_kernels(PATHS).count_graph(states, since, *edges, *own)
        return out[last]
    out = np.zeros(len(states), object)
    from cepkit.kernels.path_counts import count_graph  # imports numba, so only when it is needed

    plain = getattr(count_graph, "py_func", count_graph)
    plain(states.tolist(), since.tolist(), source, first_edge, final, 1, np.eye(n + 1, dtype=object), out)
    found = out[last].tolist()
    return np.array(found, np.uint64) if max(found, default=0) < _SAFE else found


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
