"""Kernels over places of events: windows, pointers, paths without conditions, and the order of matches."""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit

_FLAGS = T.Array(T.uint8, 1, "C", readonly=True)
_PLACES, _OUT = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int64, 1, "C")
_COUNTS, _PATHS = T.Array(T.uint64, 1, "C"), T.Array(T.uint64, 2, "C")
_TICKS, _SECONDS = _PLACES, T.Array(T.float64, 1, "C", readonly=True)
# The types of a clock and of a width in its unit.
_CLOCKS = (_TICKS, T.int64), (_TICKS, T.float64), (_SECONDS, T.float64)
_LIMITS = [(time, _PLACES, width, T.int64, _OUT) for time, width in _CLOCKS]
# Columns in a row of paths: a row fills one or two vector registers, and the compiler knows the number.
WIDTH = 8
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit(_LIMITS, **_OPTIONS)
def window_ends(time, end_of_partition, width, closed, out):
    """Write for every place the first later one of its partition that is outside its window. O(n_places)."""
    # ``time``, int64 ticks or float64, is nondecreasing within a partition, and ``end_of_partition`` is the
    # first place after the partition of each place. ``width`` is the longest distance, which is inside if
    # ``closed``.
    end = 0
    for p in range(len(time)):
        if p >= end:
            end = p + 1
        stop = end_of_partition[p]
        while end < stop and (
            0 <= time[end] - time[p] <= width if closed else 0 <= time[end] - time[p] < width
        ):
            end += 1
        out[p] = end


@njit(_LIMITS, **_OPTIONS)
def window_starts(time, start_of_partition, width, closed, out):
    """Write for every place the first place of its partition whose window contains it; see `window_ends`."""
    # Time O(n_places).
    start = 0
    for p in range(len(time)):
        if start < start_of_partition[p]:
            start = start_of_partition[p]
        while start < p and not (
            0 <= time[p] - time[start] <= width if closed else 0 <= time[p] - time[start] < width
        ):
            start += 1
        out[p] = start


@njit([(_PLACES, *limits) for limits in _LIMITS], **_OPTIONS)
def window_starts_of(places, time, start_of_partition, width, closed, out):
    """Write the result of `window_starts` for some places only; fast if they increase."""
    # ``start_of_partition`` may be empty if all places are in one partition. Time O(len(places) x log
    # n_places), usually much less: the search assumes that a window is as long as the previous one and
    # doubles its steps.
    start, last = 0, -1
    for i in range(len(places)):
        p = places[i]
        low = start_of_partition[p] if len(start_of_partition) else 0
        if p >= last:
            low = max(low, start)
        start = min(p, max(low, p - last + start))
        outside, last, step = low - 1, p, 1
        while start > low:
            s = max(low, start - step)
            if not (0 <= time[p] - time[s] <= width if closed else 0 <= time[p] - time[s] < width):
                outside = s
                break
            start, step = s, 2 * step
        step = 1
        while start < p and not (
            0 <= time[p] - time[start] <= width if closed else 0 <= time[p] - time[start] < width
        ):
            outside = start
            start, step = min(p, start + step), 2 * step
        while outside + 1 < start:
            s = (outside + start) >> 1
            if 0 <= time[p] - time[s] <= width if closed else 0 <= time[p] - time[s] < width:
                start = s
            else:
                outside = s
        out[i] = start


@njit([(time, _PLACES, _OUT) for time in (_TICKS, _SECONDS)], **_OPTIONS)
def later_places(time, end_of_partition, out):
    """Write for every place the first place of its partition with a greater time. O(n_places)."""
    for p in range(len(time) - 1, -1, -1):
        q = p + 1
        if q < end_of_partition[p] and time[q] == time[p]:
            out[p] = out[q]
        else:
            out[p] = q


@njit([(_FLAGS, _OUT)], **_OPTIONS)
def list_places(accept, out):
    """Write the places where ``accept`` (uint8) is 1, branch-free, and return their number. O(n_places)."""
    # ``out`` has one spare cell.
    n = 0
    for place in range(len(accept)):
        out[n] = place
        n += np.int64(accept[place])
    return n


@njit([(_PLACES, _PLACES, _OUT)], **_OPTIONS)
def count_below(values, bounds, out):
    """Write for every bound how many of ``values`` are smaller; both are nondecreasing. O(len(both))."""
    n = 0
    for i in range(len(bounds)):
        bound = bounds[i]
        while n < len(values) and values[n] < bound:
            n += 1
        out[i] = n


@njit([(_FLAGS, _PLACES, _PLACES, T.int64, _COUNTS, _COUNTS, _COUNTS)], **_OPTIONS)
def count_apart(state_of_event, last, since, n_states, forward, backward, out):
    """Count the paths through consecutive states if no event can be in two of them, modulo 2^64."""
    # ``state_of_event``, uint8, (n_events,): the state from 0 on, or ``n_states + 1`` for none. ``last``: the
    # events that may be in the last state, ascending; ``since``: the first event in the window of each of
    # these. There are at most ``WIDTH`` states. ``forward`` and ``backward``, (WIDTH * (n_states + 3),), are
    # scratch: a matrix of paths by column, and an inverse by row. ``out`` gets the number of paths that end
    # at each of ``last``.
    # Time O(n_events), independent of the window and, up to ``WIDTH``, of the number of states. Like
    # `count_row`, but the matrix of the window is stored as a product: an arriving event multiplies
    # ``forward`` from the right, and the inverse of a leaving event multiplies ``backward`` from the left.
    # Each step adds one row to the next, branch-free.
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
    """Count the paths through consecutive states, each event in a later state, modulo 2^64."""
    # ``states_of_event``, uint8, (n_events,): bit s says that the event may be in state s. ``window_start``:
    # the first event in the window of each, nondecreasing. ``highest_of_states``, uint8, (256,): the highest
    # bit of every set. ``paths``, (n_states, n_states), is a matrix of unit at first, at most 8 states wide:
    # ``paths[s, t]`` is the number of ways through states s to t - 1 within the window. ``out`` has zeros at
    # first, and gets the number of paths that end at each event.
    # Time O(n_events x n_states), independent of the window. An event multiplies the matrix of paths from the
    # right by a unipotent matrix (a column is added to the next one). When the event leaves the window, the
    # matrix is multiplied from the left by the inverse (a row is subtracted from the previous one).
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
    """Count the paths through states that are linked by edges; loops are allowed."""
    # ``states_of_event``: bit s says that the event may be in state s. The edges into state s are those from
    # ``first_edge_of_state[s]`` to that of the next state; ``source_of_edge`` is their source state plus 1,
    # at most their target plus 1, or 0 where a path begins. ``final``: whether a path may end in a state.
    # ``paths``, (n_states + 1, n_states + 1), is a matrix of unit at first: uint64 if no number of paths can
    # exceed 2^63, else Python integers; ``one`` is 1 in this arithmetic. ``out`` gets the number of paths
    # that end at each event.
    # Time O(n_events x n_states x n_edges), independent of the window. Like `count_row`; an event of a state
    # that can follow itself doubles a column, and its inverse halves a number that is certainly even.
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


# The canonical order of matches of sequences.

_SHORT = T.Array(T.int16, 1, "C", readonly=True)
_ORDERING = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_ORDERING, "no_cpython_wrapper": True}
_SMALL = 16  # up to this many matches are sorted by insertion


@njit(**_HELPER)
def _is_before(a, b, block):
    """Return whether match a has its place before match b."""
    event, component, first, branch = block
    size_of_a, size_of_b = first[a + 1] - first[a], first[b + 1] - first[b]
    for i in range(1, min(size_of_a, size_of_b) + 1):
        x, y = event[first[a + 1] - i], event[first[b + 1] - i]
        if x != y:
            return x < y
    if size_of_a != size_of_b:
        return size_of_a < size_of_b
    for i in range(size_of_a):
        u, v = component[first[a] + i], component[first[b] + i]
        if u != v:
            return u > v
    return branch[a] < branch[b]


@njit(**_HELPER)
def _sort(begin, stop, order, scratch, block):
    """Sort the matches from ``begin`` to ``stop`` of an order; quick if they are in order already."""
    is_sorted = True
    for i in range(begin + 1, stop):
        if _is_before(order[i], order[i - 1], block):
            is_sorted = False
            break
    if is_sorted:
        return 0
    for low in range(begin, stop, _SMALL):
        for i in range(low + 1, min(low + _SMALL, stop)):
            own, j = order[i], i
            while j > low and _is_before(own, order[j - 1], block):
                order[j] = order[j - 1]
                j -= 1
            order[j] = own
    width = _SMALL
    while width < stop - begin:
        for low in range(begin, stop, 2 * width):
            middle, high = min(low + width, stop), min(low + 2 * width, stop)
            left, right = low, middle
            for i in range(low, high):
                if right >= high or (left < middle and not _is_before(order[right], order[left], block)):
                    scratch[i] = order[left]
                    left += 1
                else:
                    scratch[i] = order[right]
                    right += 1
        for i in range(begin, stop):
            order[i] = scratch[i]
        width *= 2
    return 0


@njit([(_PLACES, T.int64, _OUT, _OUT)], cache=True, **_ORDERING)
def order_by_last(last, low, n_before, order):
    """Write the order of matches by their last events, which are from ``low`` on."""
    # ``n_before`` has zeros for all events up to two after the last one. O(n_matches + len(n_before)).
    for m in range(len(last)):
        n_before[last[m] - low + 1] += 1
    for i in range(1, len(n_before)):
        n_before[i] += n_before[i - 1]
    for m in range(len(last)):
        i = last[m] - low
        order[n_before[i]] = m
        n_before[i] += 1


@njit([(_PLACES, _SHORT, _PLACES, _SHORT, _OUT, _OUT)], cache=True, **_ORDERING)
def order_matches(event_of_item, component_of_item, first_item, branch, order, scratch):
    """Sort matches with the same last event by their earlier events, the components and the branch."""
    # ``order`` has all matches, ordered by their last events. Time O(events of matches) if they are in order;
    # others are merged.
    block = event_of_item, component_of_item, first_item, branch
    begin = 0
    while begin < len(order):
        last, stop = event_of_item[first_item[order[begin] + 1] - 1], begin + 1
        while stop < len(order) and event_of_item[first_item[order[stop] + 1] - 1] == last:
            stop += 1
        if stop > begin + 1:
            _sort(begin, stop, order, scratch, block)
        begin = stop
