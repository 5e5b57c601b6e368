"""Kernels that count whatever the query: pointers between places, and paths without conditions."""

import numpy as np
from numba import njit

# Columns of a row of paths: as many as one or two vector registers take, and a number known to the compiler.
WIDTH = 8


@njit(cache=True, nogil=True)
def list_places(accept, out):
    """Write the places where ``accept`` (uint8, 0 or 1) is 1, return how many; ``out`` has room for one more.

    Notes
    -----
    Time O(n_places), without a branch.
    """
    n = 0
    for place in range(len(accept)):
        out[n] = place
        n += np.int64(accept[place])
    return n


@njit(cache=True, nogil=True)
def count_below(values, bounds, out):
    """Write for every bound how many of ``values`` are below it; both int64 and nondecreasing.

    Notes
    -----
    Time O(len(values) + len(bounds)).
    """
    n = 0
    for i in range(len(bounds)):
        bound = bounds[i]
        while n < len(values) and values[n] < bound:
            n += 1
        out[i] = n


@njit(cache=True, nogil=True)
def count_apart(state_of_event, last, since, n_states, forward, backward, out):
    """Count the paths through states in a row, where no event may be in two of them.

    Parameters
    ----------
    state_of_event : ndarray of uint8, shape (n_events,)
        The state from 0 an event may be in; ``n_states + 1`` for none.
    last : ndarray of int64, shape (n_lasts,)
        The events of the last state, ascending.
    since : ndarray of int64, shape (n_lasts,)
        First event in whose window each of them is; nondecreasing.
    n_states : int
        At most ``WIDTH``.
    forward, backward : ndarray of uint64, shape (WIDTH * (n_states + 3),)
        Scratch: a matrix of paths by column, and an inverse by row.
    out : ndarray of uint64, shape (n_lasts,)
        Number of paths through all states that end in each, modulo 2^64.

    Notes
    -----
    Time O(n_events), whatever the window and, up to ``WIDTH``, the number of states. As `count_row`, but the
    matrix of the window is kept as a product: what came in multiplies ``forward`` from the right, the inverse
    of what went out ``backward`` from the left. Each is an addition of one row to the next, without a branch.
    """
    oldest, newest = 0, 0
    row = (n_states - 1) * WIDTH
    for i in range(len(last)):
        if since[i] >= newest:
            oldest = newest = since[i]
            for j in range(len(forward)):
                forward[j] = 0
                backward[j] = 0
            for s in range(n_states):
                forward[s * WIDTH + s] = 1
                backward[s * WIDTH + s] = 1
        for e in range(oldest, since[i]):
            j = np.int64(state_of_event[e]) * WIDTH
            for k in range(WIDTH):
                backward[j + k] -= backward[j + WIDTH + k]
        oldest = since[i]
        for e in range(newest, last[i]):
            j = np.int64(state_of_event[e]) * WIDTH
            for k in range(WIDTH):
                forward[j + WIDTH + k] += forward[j + k]
        newest = last[i]
        n = np.uint64(0)
        for k in range(WIDTH):
            n += backward[k] * forward[row + k]
        out[i] = n


@njit(cache=True, nogil=True)
def count_row(states_of_event, window_start, highest_of_states, paths, out):
    """Count the paths through states in a row, each event in a later state than the one before it.

    Parameters
    ----------
    states_of_event : ndarray of uint8, shape (n_events,)
        Bit s: the event may be in state s.
    window_start : ndarray of int64, shape (n_events,)
        First event in whose window each one is; nondecreasing.
    highest_of_states : ndarray of uint8, shape (256,)
        The highest bit of every set of states.
    paths : ndarray of uint64, shape (n_states, n_states)
        Zeros with ones in the diagonal, at most 8 states. ``paths[s, t]`` is the number of ways through
        states s to t - 1 within the window.
    out : ndarray of uint64, shape (n_events,)
        Number of paths through all states that end in each event, modulo 2^64; zeros before.

    Notes
    -----
    Time O(n_events x n_states), whatever the window; memory O(n_states^2). An event multiplies the matrix
    of paths from the right by a unipotent one (a column is added to the next one); when it leaves the window,
    the matrix is multiplied from the left by its inverse (a row is subtracted from the one before).
    """
    n_states = len(paths)
    oldest = 0
    for e in range(len(states_of_event)):
        start = window_start[e]
        if start >= e:
            for s in range(n_states):
                for t in range(s + 1, n_states):
                    paths[s, t] = 0
            oldest = e
        while oldest < start:
            states = states_of_event[oldest]
            oldest += 1
            while states:
                s = highest_of_states[states]
                states ^= 1 << s
                for t in range(s + 1, n_states):
                    paths[s, t] -= paths[s + 1, t]
        states = states_of_event[e]
        while states:
            t = highest_of_states[states] + 1
            states ^= 1 << (t - 1)
            if t == n_states:
                out[e] = paths[0, t - 1]
            else:
                for s in range(t):
                    paths[s, t] += paths[s, t - 1]


@njit(cache=True, nogil=True)
def count_graph(states_of_event, window_start, source_of_edge, first_edge_of_state, final, one, paths, out):
    """Count the paths through states that edges link, loops among them.

    Parameters
    ----------
    states_of_event : ndarray of int64, shape (n_events,)
        Bit s: the event may be in state s.
    window_start : ndarray of int64, shape (n_events,)
        First event in whose window each one is; nondecreasing.
    source_of_edge : ndarray of int64, shape (n_edges,)
        State an edge comes from plus 1, at most the state it leads to plus 1; 0: paths begin there.
    first_edge_of_state : ndarray of int64, shape (n_states + 1,)
        The edges that lead to state s are those from here to the next one's.
    final : ndarray of uint8, shape (n_states,)
        Whether a path may end in a state.
    one : uint64 or int
        1 in the arithmetic of ``paths``.
    paths : ndarray, shape (n_states + 1, n_states + 1)
        uint64 where no number of paths can pass 2^63, else objects (Python integers). Zeros with ones in the
        diagonal.
    out : ndarray like ``paths``, shape (n_events,)
        Number of paths that end in each event.

    Notes
    -----
    Time O(n_events x n_states x n_edges), whatever the window. As `count_row`; an event of a state that can
    follow itself doubles a column, and its inverse halves what is certainly even.
    """
    n_states = len(final)
    oldest = 0
    for e in range(len(states_of_event)):
        start = window_start[e]
        if start >= e:
            for i in range(n_states + 1):
                for j in range(n_states + 1):
                    paths[i, j] = one - one
                paths[i, i] = one
            oldest = e
        while oldest < start:
            states = states_of_event[oldest]
            oldest += 1
            if states == 0:
                continue
            for i in range(n_states, -1, -1):
                loop = False
                for t in range(n_states):
                    if states >> t & 1:
                        for edge in range(first_edge_of_state[t], first_edge_of_state[t + 1]):
                            if source_of_edge[edge] == t + 1:
                                loop |= t + 1 == i
                            elif source_of_edge[edge] == i:
                                for j in range(t + 1, n_states + 1):
                                    paths[i, j] -= paths[t + 1, j]
                if loop:
                    for j in range(i, n_states + 1):
                        paths[i, j] = paths[i, j] >> one
        states = states_of_event[e]
        if states == 0:
            continue
        n = one - one
        # From the last state: what an event adds to one must not see what it adds to those before.
        for t in range(n_states - 1, -1, -1):
            if states >> t & 1:
                for edge in range(first_edge_of_state[t], first_edge_of_state[t + 1]):
                    source = source_of_edge[edge]
                    if final[t]:
                        n += paths[0, source]
                    if source == t + 1:
                        for i in range(t + 2):
                            paths[i, t + 1] += paths[i, t + 1]
                for edge in range(first_edge_of_state[t], first_edge_of_state[t + 1]):
                    source = source_of_edge[edge]
                    if source != t + 1:
                        for i in range(source + 1):
                            paths[i, t + 1] += paths[i, source]
        out[e] = n
