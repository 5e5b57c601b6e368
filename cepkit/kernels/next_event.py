"""Kernels for sequences whose partial matches advance at the next event that fits."""

# Only events that some part of the pattern accepts have a place. The places of a partition are neighbours, in
# stream order. The events of a match follow each other along *edges*: an edge begins a component with an
# event, or takes one more event into a loop. `find_targets` finds the next event along an edge for all events
# at once, and `follow` walks over the matches.

import numpy as np
from numba import types as T

from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import (
    AT_LAST,
    EdgeScratch,
    EdgeTask,
    EdgeValues,
    NextClock,
    NextEdges,
    NextPath,
    NextReach,
    SearchOutput,
    SearchTask,
)

NOWHERE = 2**31 - 1  # a target that does not exist; places are lower
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_OPTIONS, "no_cpython_wrapper": True}
_READ = T.Array(T.int64, 1, "C", readonly=True)
_SHORT_READ = T.Array(T.int32, 1, "C", readonly=True)
_I1, _I2, _F2 = T.Array(T.int64, 1, "C"), T.Array(T.int64, 2, "C"), T.Array(T.float64, 2, "C")
_S1, _S2, _A2 = T.Array(T.int32, 1, "C"), T.Array(T.int32, 2, "C"), T.Array(T.uint8, 2, "C")
_VALUES = Record([_I2, _F2, _I2], EdgeValues)
_REACH = Record([_READ, *[_S1] * 4], NextReach)
# Columns of the tables.
LOW, HIGH, PREFERENCE, TAKE, BEGIN, ABSENT = range(6)  # of components; the last three are edges, -1: none
ALL, GREEDY, RELUCTANT = range(3)  # preferences
IS_FLOAT, SIGN, ROW, OTHER_ROW, KNOWN, OTHER_KNOWN, BASE, OFFSET = range(8)  # of tests
LOOKS_BACK, FIRST_TEST, LAST_TEST = range(3)  # of edges
EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(6)  # signs
# Ways to find the target of an edge.
NEAREST, ORDERED, SAME, FIRST_TO_PASS = range(4)
_NEGATIVE_ZERO = -(2**63)  # the bits of -0.0
# Indices of the report.
START, DEPTH, N_MATCHES, N_ITEMS, WORK, DONE, PARTITION, WALL = range(8)


# --- places


@njit([(_A2, _SHORT_READ, T.int64, T.int64, _I1, _S1)], cache=True, **_OPTIONS)
def join_tests(accept, partition, begin, stop, n_of_partition, passed_of_event):
    """Write a bit for each test that an event passes, and count the events of partitions that pass any."""
    # O(stop - begin).
    for e in range(begin, stop):
        passed = 0
        for x in range(len(accept)):
            passed |= np.int64(accept[x, e]) << x
        passed_of_event[e] = passed
        n_of_partition[partition[e]] += passed != 0


@njit([(_SHORT_READ, T.int64, T.int64, _I1, _S1, _S1, _S1)], cache=True, **_OPTIONS)
def give_places(partition, begin, stop, cursor, place_of_event, position_of_place, passed_of_place):
    """Give each event that passes any test the next place of its partition, -1 to the others."""
    # ``place_of_event`` has the bits of the tests that events pass before. ``cursor`` has the next place of
    # each partition and is advanced. O(stop - begin).
    for e in range(begin, stop):
        passed = place_of_event[e]
        if passed == 0:
            place_of_event[e] = -1
            continue
        k = partition[e]
        p = cursor[k]
        cursor[k] = p + 1
        place_of_event[e], position_of_place[p], passed_of_place[p] = p, e, passed


@njit(
    [
        (T.Array(own, 1, "C", readonly=True), _SHORT_READ, T.int64, T.Array(own, 1, "C"))
        for own in (T.int64, T.float64)
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def spread(values, place_of_event, begin, out):
    """Write the values of the events from ``begin`` on to their places. O(len(values))."""
    for i in range(len(values)):
        p = place_of_event[begin + i]
        if p >= 0:
            out[p] = values[i]


@njit([(_SHORT_READ, _SHORT_READ, _I1, _I1)], cache=True, **_OPTIONS)
def count_before(partition, place_of_event, n_of_partition, out):
    """Write for each place how many events its partition has before it. O(n_events)."""
    for e in range(len(partition)):
        if place_of_event[e] >= 0:
            out[place_of_event[e]] = n_of_partition[partition[e]]
        n_of_partition[partition[e]] += 1


_CLOCKS = [(T.int64, T.int64), (T.int64, T.float64), (T.float64, T.float64)]


@njit(
    [
        (T.Array(time, 1, "C", readonly=True), _READ, width, T.int64, T.int64, T.int64, T.int64, _S1)
        for time, width in _CLOCKS
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def limit_places(time, bounds, width, closed, k, begin, stop, out):
    """Write for the places from ``begin`` to ``stop`` the first later one that is outside their window."""
    # ``bounds`` are the first places of the partitions, and ``k`` is the partition of ``begin``. Without a
    # ``time``, a window is a whole partition. O(stop - begin + places in a window).
    end = 0
    for p in range(begin, stop):
        while p >= bounds[k + 1]:
            k += 1
        last = bounds[k + 1]
        if len(time) == 0:
            out[p] = last
            continue
        end = max(end, p + 1)
        while end < last and (
            0 <= time[end] - time[p] <= width if closed else 0 <= time[end] - time[p] < width
        ):
            end += 1
        out[p] = end


@njit(
    [
        (T.Array(time, 1, "C", readonly=True), _READ, T.int64, T.int64, T.int64, _S1)
        for time in (T.int64, T.float64)
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def later_places(time, bounds, k, begin, stop, out):
    """Write for the places from ``begin`` to ``stop`` the first one of the partition with a later time."""
    end = 0
    for p in range(begin, stop):
        while p >= bounds[k + 1]:
            k += 1
        end = max(end, p + 1)
        while end < bounds[k + 1] and time[end] == time[p]:
            end += 1
        out[p] = end


# --- the next event along an edge


@njit(**_HELPER)
def _compare(sign, x, y):
    """Return whether ``x sign y``; NaN compares as null."""
    if sign == LESS:
        return x < y
    if sign == AT_MOST:
        return x <= y
    if sign == MORE:
        return x > y
    if sign == AT_LEAST:
        return x >= y
    return x == y if sign == EQUAL else x < y or x > y


@njit(**_HELPER)
def _passes(test, floats, integers, j, q):
    """Return whether the event at place j passes a test beside that at place q."""
    if test[KNOWN] >= 0 and integers[test[KNOWN], j] == 0:
        return False
    if test[OTHER_KNOWN] >= 0 and integers[test[OTHER_KNOWN], q] == 0:
        return False
    if test[ROW] < 0:
        return True
    if test[IS_FLOAT]:
        return _compare(test[SIGN], floats[test[ROW], j], floats[test[OTHER_ROW], q])
    return _compare(test[SIGN], integers[test[ROW], j], integers[test[OTHER_ROW], q])


@njit(**_HELPER)
def _is_known(is_float, row, known, floats, integers, p):
    """Return whether the value of an event that a test compares is not null."""
    if known >= 0 and integers[known, p] == 0:
        return False
    return not is_float or floats[row, p] == floats[row, p]


@njit(**_HELPER)
def _number(is_float, row, bits, integers, p):
    """Return a value as an integer of the same order; -0.0 equals 0.0."""
    if not is_float:
        return integers[row, p]
    number = bits[row, p]
    if number >= 0:
        return number
    return number ^ 0x7FFFFFFFFFFFFFFF if number != _NEGATIVE_ZERO else 0


@njit(**_HELPER)
def _is_above(x, y, strict):
    return x > y or (not strict and x == y)


@njit(**_HELPER)
def _slot(keys, places, key):
    """Return the slot of a key in a hash table; its size is a power of two."""
    mask = len(places) - 1
    mixed = (key ^ (key >> 32)) * 0x9E3779B97F4A7C1
    slot = (mixed ^ (mixed >> 29)) & mask
    while places[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(
    [(Record([T.int64] * 7, EdgeTask), _REACH, _VALUES, _I2, Record([_S1, _I1, _S1], EdgeScratch), _S1)],
    cache=True, **_OPTIONS,
)  # fmt: skip
def find_targets(task, reach, values, bits, scratch, out):
    """Write the next place along an edge for the places from ``task.begin`` to ``task.stop``."""
    # The way is NEAREST: any event of the target, ORDERED: the edge has one test, with a sign of order, SAME:
    # one test, for equality, or FIRST_TO_PASS: any tests. ``bits`` are those of ``values.floats``. Time O(end
    # - begin) for NEAREST and SAME, O((end - begin) log(end - begin)) for ORDERED, and O((stop - begin) x
    # targets in a window) for FIRST_TO_PASS.
    way, k, begin, stop, end, source, target = task
    bounds, passed, later, window_end, gap_end = reach
    tests, floats, integers = values
    stack, numbers, places = scratch
    has_later, has_gap = len(later) > 0, len(gap_end) > 0
    is_float = sign = row = other_row = known = other_known = np.int64(-1)
    if way in (ORDERED, SAME):
        is_float, sign, row, other_row = (
            tests[0, IS_FLOAT],
            tests[0, SIGN],
            tests[0, ROW],
            tests[0, OTHER_ROW],
        )
        known, other_known = tests[0, KNOWN], tests[0, OTHER_KNOWN]
    flip = -1 if sign <= AT_MOST else 0  # turns the order of numbers round
    strict = sign in (LESS, MORE)
    size, low = 0, end  # the targets from ``low`` on are on the stack; the nearest is on top
    for p in range(stop - 1, begin - 1, -1):
        while p < bounds[k]:
            k -= 1
            size, low = 0, bounds[k + 1]
        after = later[p] if has_later else p + 1
        while low > after:
            low -= 1
            if passed[low] & target == 0:
                continue
            if way == NEAREST:
                size = 0
            elif way != FIRST_TO_PASS:
                if not _is_known(is_float, row, known, floats, integers, low):
                    continue
                number = _number(is_float, row, bits, integers, low)
                if way == SAME:
                    slot = _slot(numbers, places, number)
                    numbers[slot], places[slot] = number, low
                    continue
                number ^= flip
                while size > 0 and numbers[size - 1] <= number:
                    size -= 1  # whatever is below the old number is below the new one
                numbers[size] = number
            stack[size] = low
            size += 1
        j = NOWHERE
        if source != 0 and passed[p] & source == 0:
            out[p] = j
            continue
        if way == NEAREST:
            j = stack[0] if size > 0 else NOWHERE
        elif way == FIRST_TO_PASS:
            limit = window_end[p]
            for x in range(size - 1, -1, -1):
                if stack[x] >= limit:
                    break
                fits = True
                for t in range(len(tests)):
                    fits = fits and _passes(tests[t], floats, integers, stack[x], p)
                if fits:
                    j = stack[x]
                    break
        elif _is_known(is_float, other_row, other_known, floats, integers, p):
            number = _number(is_float, other_row, bits, integers, p)
            if way == SAME:
                found = places[_slot(numbers, places, number)]
                j = found if 0 <= found < bounds[k + 1] else NOWHERE
            else:
                number ^= flip
                top = size - 1
                if top >= 0 and not _is_above(numbers[top], number, strict):
                    under, over = -1, top  # the highest entry that fits is above ``under``, below ``over``
                    while under + 1 < over:
                        middle = (under + over) >> 1
                        if _is_above(numbers[middle], number, strict):
                            under = middle
                        else:
                            over = middle
                    top = under
                j = stack[top] if top >= 0 else NOWHERE
        if has_gap and j >= gap_end[p]:
            j = NOWHERE
        out[p] = j


# --- matches


@njit(**_HELPER)
def _fits(edge, edges, values, path, first, d, j):
    """Return whether the event at place j passes the tests of an edge from a path."""
    tests, floats, integers = values
    for t in range(edges[edge, FIRST_TEST], edges[edge, LAST_TEST]):
        base = tests[t, BASE]
        q = path[d] if base == AT_LAST else path[first[base] + tests[t, OFFSET]]
        if not _passes(tests[t], floats, integers, j, q):
            return False
    return True


@njit(**_HELPER)
def _target(edge, of_edges, reach, values, path, first, d, wall):
    """Return the next place along an edge for a path; from ``wall`` on all places are out of reach."""
    p, edges, targets = path[d], of_edges.edges, of_edges.targets
    if not edges[edge, LOOKS_BACK]:
        return targets[edge, p]
    if len(reach.gap_end):
        wall = min(wall, reach.gap_end[p])
    j = reach.later[p] if len(reach.later) else p + 1
    j = targets[edge, j - 1]
    while j < wall:
        if _fits(edge, edges, values, path, first, d, j):
            return j
        j = targets[edge, j]
    return NOWHERE


@njit(
    [
        (
            Record([T.int64] * 6, SearchTask), _REACH, Record([_S1, _READ, T.int64], NextClock),
            Record([_I2, _I2, _S2, T.int64], NextEdges), _VALUES, Record([_I1] * 4, NextPath),
            Record([_I1, _S1, _I2], SearchOutput), _I1,
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def follow(task, reach, clock, of_edges, values, state, output, report):
    """Count or list the matches that begin before ``task.stop`` and end from position ``low`` to ``high``."""
    # Without ``fill``, they are added to ``count_of_last`` by their last places if it is not empty. Without
    # ``reach.window_end``, a window has the later places with a time up to ``clock.within``. The first start
    # is ``report[START] + 1`` if ``report[DEPTH]`` is -1. The walk ends early when an output is full or after
    # ``work_limit`` steps; the next call continues. Time O(starts + events of partial matches + tested
    # events).
    stop, low, high, fill, work_limit, is_run_scope = task
    bounds, passed, window_end = reach.bounds, reach.passed, reach.window_end
    position, time, within = clock
    components, targets, first_bit = of_edges.components, of_edges.targets, of_edges.first_bit
    path, component, first, pending = state
    count_of_last, out_place, out_size = output
    s, d = report[START], report[DEPTH]
    n_matches, n_items, work, done = 0, 0, 0, 0
    n, k, wall = len(components), report[PARTITION], report[WALL]
    while True:
        if d < 0:
            s += 1
            while s < stop and passed[s] & first_bit == 0:
                s += 1
            work += 1
            if s >= stop:
                done = 1
                break
            if position[s] >= high:
                continue
            if len(window_end):
                wall = window_end[s]
            else:
                while s >= bounds[k + 1]:
                    k += 1
                end, wall = bounds[k + 1], max(wall, s + 1)
                while wall < end and 0 <= time[wall] - time[s] <= within:
                    wall += 1
            if position[wall - 1] < low:
                continue
            path[0], component[0], first[0], d = s, 0, 0, 0
        c, p = component[d], path[d]
        size = d - first[c] + 1
        complete = size >= components[c, LOW]
        if work > work_limit or (
            fill and complete and c == n - 1
            and (n_matches >= len(out_size) or n_items + d + 1 > len(out_place))
        ):  # fmt: skip
            break
        work += 1
        if complete and c == n - 1 and low <= position[p] < high:
            if fill:
                for i in range(d + 1):
                    out_place[n_items + i] = path[i]
                for i in range(n - 1):
                    out_size[n_matches, i] = first[i + 1] - first[i]
                out_size[n_matches, n - 1] = size
                n_items += d + 1
            elif len(count_of_last):
                count_of_last[p] += 1
            n_matches += 1
        take = begin = NOWHERE
        if size < components[c, HIGH]:
            take = _target(components[c, TAKE], of_edges, reach, values, path, first, d, wall)
        if complete and c < n - 1:
            begin = _target(components[c + 1, BEGIN], of_edges, reach, values, path, first, d, wall)
        if take == begin:
            if components[c, PREFERENCE] == GREEDY:
                begin = NOWHERE
            elif components[c, PREFERENCE] == RELUCTANT:
                take = NOWHERE
        elif is_run_scope:
            if take < begin:
                begin = NOWHERE
            else:
                take = NOWHERE
        if take >= wall or position[take] >= high:
            take = NOWHERE
        if begin >= wall or position[begin] >= high:
            begin = NOWHERE
        if begin != NOWHERE and components[c + 1, ABSENT] >= 0:
            begin = begin if targets[components[c + 1, ABSENT], p] >= begin else NOWHERE
        if take != NOWHERE:
            pending[d] = begin
            d += 1
            path[d], component[d] = take, c
            continue
        while begin == NOWHERE:
            d -= 1
            if d < 0:
                break
            begin = pending[d]
        if d >= 0:
            pending[d] = NOWHERE
            c = component[d] + 1
            d += 1
            path[d], component[d], first[c] = begin, c, d
    report[START], report[DEPTH] = s, d
    report[N_MATCHES], report[N_ITEMS] = n_matches, n_items
    report[WORK], report[DONE], report[PARTITION], report[WALL] = report[WORK] + work, done, k, wall
    return n_matches
