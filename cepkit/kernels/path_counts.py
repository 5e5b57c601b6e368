"""Kernels that count paths for every query: pointers between places, and paths without conditions."""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit

_FLAGS = T.Array(T.uint8, 1, "C", readonly=True)
_PLACES, _OUT = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int64, 1, "C")
_COUNTS, _PATHS = T.Array(T.uint64, 1, "C"), T.Array(T.uint64, 2, "C")
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
# Columns in a row of paths: a row fills one or two vector registers, and the compiler knows the number.
WIDTH = 8


@njit([(_FLAGS, _OUT)], **_OPTIONS)
def list_places(accept, out):
    """Write the places where ``accept`` (uint8) is 1 and return their number; ``out`` has one spare cell.

    Notes
    -----
    Time O(n_places), branch-free.
    """
    n = 0
    for place in range(len(accept)):
        out[n] = place
        n += np.int64(accept[place])
    return n


@njit([(_PLACES, _PLACES, _OUT)], **_OPTIONS)
def count_below(values, bounds, out):
    """Write for every bound how many of ``values`` are smaller; both are int64 and nondecreasing.

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


@njit([(_FLAGS, _PLACES, _PLACES, T.int64, _COUNTS, _COUNTS, _COUNTS)], **_OPTIONS)
def count_apart(state_of_event, last, since, n_states, forward, backward, out):
    """Count the paths through consecutive states if no event can be in two of them.

    Parameters
    ----------
    state_of_event : ndarray of uint8, shape (n_events,)
        The state, from 0, that an event may be in; ``n_states + 1`` for none.
    last : ndarray of int64, shape (n_lasts,)
        The events that may be in the last state, ascending.
    since : ndarray of int64, shape (n_lasts,)
        First event in the window of each of these events; nondecreasing.
    n_states : int
        At most ``WIDTH``.
    forward, backward : ndarray of uint64, shape (WIDTH * (n_states + 3),)
        Scratch space: a matrix of paths by column, and an inverse by row.
    out : ndarray of uint64, shape (n_lasts,)
        Number of paths through all states that end at each of ``last``, modulo 2^64.

    Notes
    -----
    Time O(n_events), independent of the window and, up to ``WIDTH``, of the number of states. Like
    `count_row`, but the matrix of the window is stored as a product: an arriving event multiplies
    ``forward`` from the right, and the inverse of a leaving event multiplies ``backward`` from the left.
    Each step adds one row to the next, branch-free.
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


@njit([(_FLAGS, _PLACES, _FLAGS, _PATHS, _COUNTS)], **_OPTIONS)
def count_row(states_of_event, window_start, highest_of_states, paths, out):
    """Count the paths through consecutive states, each event in a later state than the one before it.

    Parameters
    ----------
    states_of_event : ndarray of uint8, shape (n_events,)
        Bit s: the event may be in state s.
    window_start : ndarray of int64, shape (n_events,)
        First event in the window of each event; nondecreasing.
    highest_of_states : ndarray of uint8, shape (256,)
        The highest bit of every set of states.
    paths : ndarray of uint64, shape (n_states, n_states)
        Zeros with ones on the diagonal, at most 8 states. ``paths[s, t]`` is the number of ways through
        states s to t - 1 within the window.
    out : ndarray of uint64, shape (n_events,)
        Number of paths through all states that end at each event, modulo 2^64; zeros before the call.

    Notes
    -----
    Time O(n_events x n_states), independent of the window; memory O(n_states^2). An event multiplies the
    matrix of paths from the right by a unipotent matrix (a column is added to the next one). When the event
    leaves the window, the matrix is multiplied from the left by the inverse (a row is subtracted from the
    previous one).
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


@njit([(_PLACES, _PLACES, _PLACES, _PLACES, _FLAGS, T.uint64, _PATHS, _COUNTS)], **_OPTIONS)
def count_graph(states_of_event, window_start, source_of_edge, first_edge_of_state, final, one, paths, out):
    """Count the paths through states that are linked by edges; loops are allowed.

    Parameters
    ----------
    states_of_event : ndarray of int64, shape (n_events,)
        Bit s: the event may be in state s.
    window_start : ndarray of int64, shape (n_events,)
        First event in the window of each event; nondecreasing.
    source_of_edge : ndarray of int64, shape (n_edges,)
        Source state of each edge plus 1, at most its target state plus 1; 0: a path begins there.
    first_edge_of_state : ndarray of int64, shape (n_states + 1,)
        The edges into state s are those from this index up to the entry of the next state.
    final : ndarray of uint8, shape (n_states,)
        Whether a path may end in a state.
    one : uint64 or int
        1 in the arithmetic of ``paths``.
    paths : ndarray, shape (n_states + 1, n_states + 1)
        uint64 if no number of paths can exceed 2^63, else objects (Python integers). Zeros with ones on the
        diagonal.
    out : ndarray like ``paths``, shape (n_events,)
        Number of paths that end at each event.

    Notes
    -----
    Time O(n_events x n_states x n_edges), independent of the window. Like `count_row`; an event of a state
    that can follow itself doubles a column, and its inverse halves a number that is certainly even.
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
        # From the last state down, so that no state sees what this event adds to an earlier one.
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
