"""Chains without conditions between events: counted in constant time per event, whatever the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cepkit.engines.chain import ChainCount

_SAFE = 1 << 63


def count_unary(events: ChainCount) -> np.ndarray | list[int]:
    """Return how many matches end at each member of the last pool: uint64, or ints when one is 2^63 or more.

    Notes
    -----
    Time O(n_events x n_states), for numbers beyond 63 bits times their length.
    Differs: CORE (Bucchi et al., VLDB 2022) reaches the same bound with a structure that enumerates as well.
    """
    from cepkit.kernels.chain_counts import count_graph

    chain, last, since = events.chain, events.members(events.last_pool), events.places.window_start
    n = len(chain.states)
    if _is_row(chain) and n <= 8 and events.bound < _SAFE:
        return _count_row(events, last, since)
    states = _sets_of_states(events)
    # A loop halves numbers, which must be whole then, not modulo 2^64.
    bound = _bound_of_paths(events, states, since) if chain.has_loop else events.bound
    source, first_edge = [], [0]
    for t, state in enumerate(chain.states):
        source += [0] if state.is_first else []
        source += [chain.edges[e].source + 1 for e in events.shape.into(t)]
        first_edge.append(len(source))
    final = [int(state.is_final) for state in chain.states]
    if bound < _SAFE:
        out = np.zeros(len(states), np.uint64)
        edges = np.array(source, np.int64), np.array(first_edge, np.int64), np.array(final, np.uint8)
        with np.errstate(over="ignore"):
            count_graph(states, since, *edges, np.uint64(1), np.eye(n + 1, dtype=np.uint64), out)
        return out[last]
    out = np.zeros(len(states), object)
    plain = getattr(count_graph, "py_func", count_graph)
    plain(states.tolist(), since.tolist(), source, first_edge, final, 1, np.eye(n + 1, dtype=object), out)
    found = out[last].tolist()
    return np.array(found, np.uint64) if max(found, default=0) < _SAFE else found


def _count_row(events: ChainCount, last: np.ndarray, since: np.ndarray) -> np.ndarray:
    from cepkit.kernels.chain_counts import WIDTH, count_apart, count_row

    n = len(events.chain.states)
    tests = [state.test for state in events.chain.states]
    n_states_of_event = events.accept[tests[0]].copy()
    for test in tests[1:]:
        n_states_of_event += events.accept[test]
    out = np.zeros(len(last), np.uint64)
    with np.errstate(over="ignore"):
        if n_states_of_event.max(initial=0) < 2:
            state_of_event = np.full(events.places.n, n + 1, np.uint8)
            for s, test in enumerate(tests):
                state_of_event -= np.uint8(n + 1 - s) * events.accept[test]
            scratch = np.zeros((2, WIDTH * (n + 3)), np.uint64)
            count_apart(state_of_event, last, since[last], n, *scratch, out)
            return out
        states = _sets_of_states(events).astype(np.uint8)
        every = np.zeros(events.places.n, np.uint64)
        highest = np.array([max(0, s.bit_length() - 1) for s in range(256)], np.uint8)
        count_row(states, since, highest, np.eye(n, dtype=np.uint64), every)
        return every[last]


def _bound_of_paths(events: ChainCount, states: np.ndarray, since: np.ndarray) -> int:
    """Return a number that no number of paths from one state to another within a window exceeds."""
    bounds = []
    for t in range(len(events.chain.states)):
        seen = np.concatenate([[0], np.cumsum(states >> t & 1)])
        n = int((seen[1:] - seen[since]).max(initial=0))
        sources = {events.chain.edges[e].source for e in events.shape.into(t)}
        bound = 1 + sum(bounds[s] for s in sources - {t})
        bounds.append(bound << n if t in sources else bound * n)
    return max(bounds)


def _is_row(chain) -> bool:
    """Whether every state but the first follows the one before it, and the last alone is final."""
    row = [(s, s + 1) for s in range(len(chain.states) - 1)]
    finals = [s for s, state in enumerate(chain.states) if state.is_final]
    return [(edge.source, edge.target) for edge in chain.edges] == row and finals == [len(row)]


def _sets_of_states(events: ChainCount) -> np.ndarray:
    """Return the states that each event may be in, int64, bit by bit."""
    out = np.zeros(events.places.n, np.int64)
    for s, state in enumerate(events.chain.states):
        out |= events.accept[state.test].astype(np.int64) << s
    return out
