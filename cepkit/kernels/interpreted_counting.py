"""Kernels that count sequences for any state graph: its states, edges and conditions are tables."""

# They are compiled once per installation, since no query changes their code. A condition between an earlier
# and a later event is a *test*: a number of the earlier event lies in an interval that the later event gives.
# The interval is the unsigned distance ``q - low <= width``, so that one comparison serves all signs.

import numpy as np
from numba import types as T

from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import PoolGraph

_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_U1 = T.Array(T.uint64, 1, "C")
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# Columns of the tables.
POOL, IS_FIRST, IS_FINAL, IS_STORED, COUNTS_AT = range(5)  # of states
SOURCE, TARGET, LINK, ENDS_AT, BEGINS_AT, ALIVE_AT = range(6)  # of edges
EARLIER_AT, LOW_AT, WIDTH_AT = range(3)  # of tests
FEW = 4  # up to this many changed events are brought to all later ones, one after the other


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _sum(tests, first, last, x, numbers, lo, hi, weights, weights_at):
    """Return the sum of the weights of the earlier events from ``lo`` to ``hi`` that pass all tests."""
    zero = np.uint64(0)
    z = zero
    v = weights[weights_at + lo : weights_at + hi]
    n = last - first
    if n == 0:
        for r in range(len(v)):
            z += v[r]
        return z
    q = numbers[tests[first, EARLIER_AT] + lo : tests[first, EARLIER_AT] + hi]
    low, width = numbers[tests[first, LOW_AT] + x], numbers[tests[first, WIDTH_AT] + x]
    if n == 1:
        for r in range(len(v)):
            z += v[r] if q[r] - low <= width else zero
        return z
    q1 = numbers[tests[first + 1, EARLIER_AT] + lo : tests[first + 1, EARLIER_AT] + hi]
    low1, width1 = numbers[tests[first + 1, LOW_AT] + x], numbers[tests[first + 1, WIDTH_AT] + x]
    if n == 2:
        for r in range(len(v)):
            z += v[r] if (q[r] - low <= width) & (q1[r] - low1 <= width1) else zero
        return z
    for r in range(len(v)):
        holds = (q[r] - low <= width) & (q1[r] - low1 <= width1)
        for c in range(first + 2, last):
            value = numbers[tests[c, EARLIER_AT] + lo + r]
            holds &= value - numbers[tests[c, LOW_AT] + x] <= numbers[tests[c, WIDTH_AT] + x]
        z += v[r] if holds else zero
    return z


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _push(tests, first, last, edge, a, weight, places, numbers, lo, out):
    """Add the weight of earlier event ``a`` to the later events from ``lo`` on that may follow it."""
    hi = lo + len(out)
    zero = np.uint64(0)
    ends = places[edge[ENDS_AT] + lo : edge[ENDS_AT] + hi]
    n, begins_at = last - first, edge[BEGINS_AT]
    if n == 1 and begins_at < 0:
        q = numbers[tests[first, EARLIER_AT] + a]
        low = numbers[tests[first, LOW_AT] + lo : tests[first, LOW_AT] + hi]
        width = numbers[tests[first, WIDTH_AT] + lo : tests[first, WIDTH_AT] + hi]
        for x in range(len(out)):
            out[x] += weight if (q - low[x] <= width[x]) & (ends[x] > a) else zero
        return 0
    for x in range(len(out)):
        holds = ends[x] > a
        for c in range(first, last):
            value = numbers[tests[c, EARLIER_AT] + a]
            holds &= value - numbers[tests[c, LOW_AT] + lo + x] <= numbers[tests[c, WIDTH_AT] + lo + x]
        if begins_at >= 0:
            holds &= places[begins_at + lo + x] <= a
        out[x] += weight if holds else zero
    return 0


@njit(
    [
        (
            *[T.int64] * 3, T.uint64, *[_I1] * 2, Record([_I2, _I2, _I1, _I2, *[_I1] * 3, _U1], PoolGraph),
            *[_U1] * 3,
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def count(begin, stop, work_limit, modulus, at, window_start, graph, counts, changes, out):
    """Count the matches that end at each member of the last pool, modulo ``modulus``, or 2^64 if it is 0."""
    # A call looks at the members from ``begin`` to ``stop`` and at up to ``work_limit`` pairs of events.
    # ``window_start`` is by member. ``at`` is the state between calls: the newest place (first -1), the first
    # member in the window of each pool, and for each state the first member that is not yet counted, then
    # scratch of the same size twice. ``counts`` has the numbers of partial matches that end at each member of
    # each state's pool, and ``changes`` is scratch of the same size. The algorithm is that of
    # `cepkit.compile.counting.write_counting`. Time per last event O(pairs with lost first events
    # and their successors + pairs with new events); memory O(events).
    states, edges, first_edge, tests, first_test, first_member, places, numbers = graph
    zero, one = np.uint64(0), np.uint64(1)
    n_states, n_pools = len(states), len(first_member) - 1
    newest = at[0]
    low, high = at[1 : 1 + n_pools], at[1 + n_pools : 1 + n_pools + n_states]
    since = at[1 + n_pools + n_states : 1 + n_pools + 2 * n_states]  # the changed members of each state
    until = at[1 + n_pools + 2 * n_states : 1 + n_pools + 3 * n_states]
    first = 0
    last_pool = states[n_states - 1, POOL]
    base = first_member[last_pool]
    work, m = 0, begin
    while m < stop and work <= work_limit:
        p, s = places[base + m], window_start[m]
        pool = states[first, POOL]
        lost, n_first = low[pool], first_member[pool + 1] - first_member[pool]
        while lost < n_first and places[first_member[pool] + lost] < s:
            lost += 1
        if newest >= s and lost > low[pool]:
            for t in range(n_states):
                since[t], until[t] = 0, 0
                own, cells = states[t, POOL], states[t, COUNTS_AT]
                if not states[t, IS_STORED]:
                    continue
                lo_x, hi_x, n_pulled = low[own], high[t], 0
                if first_edge[t] == first_edge[t + 1]:
                    hi_x = min(hi_x, lost)  # partial matches only begin here
                for x in range(lo_x, hi_x):
                    changes[cells + x] = one if states[t, IS_FIRST] and x < lost else zero
                for e in range(first_edge[t], first_edge[t + 1]):
                    source, k = edges[e, SOURCE], edges[e, LINK]
                    if source == t or until[source] - since[source] > FEW or edges[e, ALIVE_AT] >= 0:
                        n_pulled += 1
                        continue
                    for a in range(since[source], until[source]):
                        work += hi_x - lo_x
                        _push(
                            tests, first_test[k], first_test[k + 1], edges[e], a,
                            changes[states[source, COUNTS_AT] + a], places, numbers, lo_x,
                            changes[cells + lo_x : cells + max(lo_x, hi_x)],
                        )  # fmt: skip
                for x in range(lo_x, hi_x):
                    z = changes[cells + x]
                    for e in range(first_edge[t], first_edge[t + 1] if n_pulled else first_edge[t]):
                        source, k = edges[e, SOURCE], edges[e, LINK]
                        if source != t and until[source] - since[source] <= FEW and edges[e, ALIVE_AT] < 0:
                            continue
                        lo, hi = since[source], min(until[source], places[edges[e, ENDS_AT] + x])
                        if edges[e, BEGINS_AT] >= 0:
                            lo = max(lo, places[edges[e, BEGINS_AT] + x])
                        if lo < hi and (edges[e, ALIVE_AT] < 0 or places[edges[e, ALIVE_AT] + x] != 0):
                            work += hi - lo
                            z += _sum(
                                tests, first_test[k], first_test[k + 1], x, numbers, lo, hi, changes,
                                states[source, COUNTS_AT],
                            )  # fmt: skip
                    if modulus:
                        z %= modulus
                    if z != zero:
                        changes[cells + x] = z
                        if counts[cells + x] < z:
                            counts[cells + x] += modulus
                        counts[cells + x] -= z
                        if until[t] == 0:
                            since[t] = x
                        until[t] = x + 1
        for pool in range(n_pools):
            base_of_pool, n = first_member[pool], first_member[pool + 1] - first_member[pool]
            while low[pool] < n and places[base_of_pool + low[pool]] < s:
                low[pool] += 1
        for t in range(n_states + 1):
            if t < n_states:
                if not states[t, IS_STORED]:
                    continue
                own, cells = states[t, POOL], states[t, COUNTS_AT]
                high[t] = max(high[t], low[own])
                x, n = high[t], first_member[own + 1] - first_member[own]
            else:
                own, cells, x, n = last_pool, 0, m, m + 1
            total = zero
            while x < n and (t == n_states or places[first_member[own] + x] < p):
                total = zero
                for target in range(t if t < n_states else 0, t + 1 if t < n_states else n_states):
                    if t == n_states and not states[target, IS_FINAL]:
                        continue
                    total += one if states[target, IS_FIRST] else zero
                    for e in range(first_edge[target], first_edge[target + 1]):
                        source, k = edges[e, SOURCE], edges[e, LINK]
                        lo, hi = low[states[source, POOL]], places[edges[e, ENDS_AT] + x]
                        if edges[e, BEGINS_AT] >= 0:
                            lo = max(lo, places[edges[e, BEGINS_AT] + x])
                        if lo < hi and (edges[e, ALIVE_AT] < 0 or places[edges[e, ALIVE_AT] + x] != 0):
                            work += hi - lo
                            total += _sum(
                                tests, first_test[k], first_test[k + 1], x, numbers, lo, hi, counts,
                                states[source, COUNTS_AT],
                            )  # fmt: skip
                if modulus:
                    total %= modulus
                if t == n_states:
                    out[m] = total
                    break
                counts[cells + x] = total
                x += 1
                high[t] = x
        newest = p
        m += 1
        work += 1
    at[0] = newest
    return m


@njit([(*[T.int64] * 3, *[_I1] * 3, _I2, _U1, _I1)], cache=True, **_OPTIONS)
def nearest(begin, work_limit, is_ahead, members, first, stop, tests, numbers, out):
    """Write for each event the place of the nearest absent event that passes all tests."""
    # It looks at the ``members``, the places of absent events, from ``first`` on if ``is_ahead``, else from
    # ``stop`` back, and at about ``work_limit`` of them in a call, which begins with event ``begin``. In a
    # test, the absent event has the part of the earlier one. ``out`` gets a place far ahead if there is none
    # ahead, 0 if there is none before. O(events x members looked at).
    work = 0
    for a in range(begin, len(out)):
        found = (1 << 62) if is_ahead else 0
        for i in range(stop[a] - first[a]):
            r = first[a] + i if is_ahead else stop[a] - 1 - i
            holds = True
            for c in range(len(tests)):
                value = numbers[tests[c, EARLIER_AT] + r]
                holds &= value - numbers[tests[c, LOW_AT] + a] <= numbers[tests[c, WIDTH_AT] + a]
            work += 1
            if holds:
                found = members[r]
                break
        out[a] = found
        if work > work_limit:
            return a + 1
    return len(out)
