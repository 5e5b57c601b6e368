"""Kernel that searches sequences of any kind: components and conditions are tables, terms are instructions.

It is compiled once per installation, since no query changes its code. The walk is that of
`cepkit.compile.sequences.search_source`, and its state between calls is the same.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.interpreting import run_instructions
from cepkit.kernels.jit import njit
from cepkit.kernels.opcodes import (
    AT_LAST,
    AT_LOOP,
    AT_OTHER,
    AT_TIME_LIMIT,
    FIRST,
    LOWEST,
    NOWHERE,
    NUMBER,
    NUMBER_KNOWN,
    TOTAL,
)
from cepkit.kernels.opcodes import LAST as LAST_OF

NULL = -(2**63)
NAN = np.nan
_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_READ = T.Array(T.int64, 1, "C", readonly=True)
_F1, _F2 = (T.Array(T.float64, n, "C") for n in (1, 2))
_U2 = T.Array(T.uint8, 2, "C")
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_OPTIONS, "no_cpython_wrapper": True}
# Columns of the tables.
LOW, HIGH, INNER, STEP, PREFERENCE = range(5)  # of components
FIRST_LOOP, LAST_LOOP, FIRST_LOAD, LAST_LOAD, FIRST_GROUP, LAST_GROUP, FIRST_CODE, LAST_CODE, NEEDS = range(9)
IS_FLOAT, ROW, REGISTER, BASE, OFFSET, LIMIT, IS_CODE = range(7)  # of loads
FUNCTION, TARGET, OF_FLOATS, VALUE_ROW, KNOWN_ROW, GROUP_LOW, GROUP_BASE, GROUP_OFFSET, OF_CODES = range(9)
TEST, LOW_BASE, LOW_OFFSET, HIGH_BASE, HIGH_OFFSET, FIRST_CONDITION, LAST_CONDITION = range(7)  # of absences
# Indices of the report, as in the generated kernels.
START, DEPTH, ENTERING, N_MATCHES, N_ITEMS, WORK, DONE = range(7)


@njit(**_HELPER)
def _depth(base, offset, first, last, outer, inner):
    """Return the depth on the path that a base and an offset mean."""
    if base >= 0:
        return first[base] + offset
    return (last if base == AT_LAST else outer if base == AT_LOOP else inner) + offset


@njit(**_HELPER)
def _load(loads, first_load, last_load, path, first, last, outer, inner, y, floats, integers, rf, ri):
    """Load the values of events into registers."""
    for x in range(first_load, last_load):
        if loads[x, BASE] == AT_OTHER:
            place = y
        else:
            d, limit, place = (
                _depth(loads[x, BASE], loads[x, OFFSET], first, last, outer, inner),
                loads[x, LIMIT],
                -1,
            )
            if limit == NOWHERE or d <= (last if limit == AT_LAST else first[limit] - 1):
                place = path[d]
        register = loads[x, REGISTER]
        if loads[x, IS_FLOAT]:
            rf[register] = floats[loads[x, ROW], place] if place >= 0 else NAN
        elif place >= 0:
            ri[register] = integers[loads[x, ROW], place]
        else:
            ri[register] = -1 if loads[x, IS_CODE] else NULL
    return 0


@njit(**_HELPER)
def _reduce(group, path, low, high, floats, integers, rf, ri):
    """Compute an aggregate over the events of the path from depth ``low`` to ``high``."""
    function, target, row, known = group[FUNCTION], group[TARGET], group[VALUE_ROW], group[KNOWN_ROW]
    if function == NUMBER:
        ri[target] = high - low + 1
        return 0
    if function in (FIRST, LAST_OF):
        place = path[low] if function == FIRST else path[high]
        if group[OF_FLOATS]:
            rf[target] = floats[row, place]
        else:
            ri[target] = integers[row, place]
        return 0
    n, z, v = 0, NAN, -1 if group[OF_CODES] else NULL
    for d in range(low, high + 1):
        place = path[d]
        if not integers[known, place]:
            continue
        n += 1
        if function == NUMBER_KNOWN:
            continue
        if group[OF_FLOATS]:
            x = floats[row, place]
            if n == 1:
                z = x
            elif function == TOTAL:
                z += x
            else:
                z = min(z, x) if function == LOWEST else max(z, x)
        else:
            u = integers[row, place]
            if n == 1:
                v = u
            elif function == TOTAL:
                v += u
            else:
                v = min(v, u) if function == LOWEST else max(v, u)
    if function == NUMBER_KNOWN:
        ri[target] = n
    elif group[OF_FLOATS]:
        rf[target] = z
    else:
        ri[target] = v
    return 0


@njit(**_HELPER)
def _holds(q, query, path, first, last, y):
    """Return whether condition q holds for a path, for each event of its loops."""
    conditions, loops, loads, groups, code, floats, integers, rf, ri = query
    own = conditions[q]
    if own[NEEDS] != NOWHERE and last == first[own[NEEDS]]:
        return True
    low, stop, inner_low, inner_stop = 0, 1, 0, 1
    if own[FIRST_LOOP] < own[LAST_LOOP]:
        of = loops[own[FIRST_LOOP]]
        low, stop = first[of[0]] + of[1], last + 1 if of[2] == AT_LAST else first[of[2]]
    if own[FIRST_LOOP] + 1 < own[LAST_LOOP]:
        of = loops[own[FIRST_LOOP] + 1]
        inner_low, inner_stop = first[of[0]] + of[1], last + 1 if of[2] == AT_LAST else first[of[2]]
    for outer in range(low, stop):
        for inner in range(inner_low, inner_stop):
            _load(
                loads, own[FIRST_LOAD], own[LAST_LOAD], path, first, last, outer, inner, y, floats, integers,
                rf, ri,
            )  # fmt: skip
            for x in range(own[FIRST_GROUP], own[LAST_GROUP]):
                high = _depth(groups[x, GROUP_BASE], groups[x, GROUP_OFFSET], first, last, outer, inner)
                _reduce(groups[x], path, first[groups[x, GROUP_LOW]], high, floats, integers, rf, ri)
            if run_instructions(code[own[FIRST_CODE] : own[LAST_CODE]], 1, 1, rf, ri) == 0:
                return False
    return True


@njit(**_HELPER)
def _all_hold(span, listed, query, path, first, last, y):
    """Return whether all conditions of a list hold."""
    for x in range(span[0], span[1]):  # noqa: SIM110
        if not _holds(listed[x, 0], query, path, first, last, y):
            return False
    return True


@njit(**_HELPER)
def _is_free(span, listed, limits, query, path, first, last):
    """Return whether no absent event of a list occurs."""
    absences, absent_tests, accept, time_start, time_end = limits
    for x in range(span[0], span[1]):
        own, test = absences[listed[x, 0]], absent_tests[listed[x, 0]]
        if own[LOW_BASE] == AT_TIME_LIMIT:
            low = time_start[path[last]]
        else:
            low = path[_depth(own[LOW_BASE], own[LOW_OFFSET], first, last, 0, 0)] + 1
        if own[HIGH_BASE] == AT_TIME_LIMIT:
            high = time_end[path[0]]
        else:
            high = path[_depth(own[HIGH_BASE], own[HIGH_OFFSET], first, last, 0, 0)]
        for y in range(low, high):
            occurs = accept[test, y] != 0
            for q in range(own[FIRST_CONDITION], own[LAST_CONDITION]):
                occurs = occurs and _holds(q, query, path, first, last, y)
            if occurs:
                return False
    return True


@njit(
    [(*[T.int64] * 6, _READ, _READ, _U2, *[_READ] * 6, *[_I2] * 9, _F2, _I2, _F1, *[_I1] * 8, _I2, _I1)],
    cache=True, **_OPTIONS,
)  # fmt: skip
def walk(
    stop, low, high, fill, work_limit, is_run_scope, tests, absent_tests, accept, later, window_end, gap_end,
    time_start, time_end, position, components, spans, listed, conditions, loops, loads, groups, code,
    absences, floats, integers, rf, ri, path, component, first, cursor, open_, count_of_last, out_place,
    out_size, report,
):  # fmt: skip
    """Find the matches of a branch; see `cepkit.compile.sequences.search_source.write_search`.

    Parameters
    ----------
    is_run_scope : int
        Whether strategy ``next`` counts the events of the whole run as relevant.
    components, spans, listed, conditions, loops, loads, groups, code, absences : ndarray of int64
        Tables; see `cepkit.compile.interpreted.walk`. The columns are constants of this module. Spans of
        ``listed``, by component: conditions of an event that is taken, of a complete component, and of the
        end of a loop; then absences before a component, and those of a whole match.
    floats, integers : ndarray, shape (n_values, n_places)
        What conditions read of single events.
    rf, ri : ndarray, shape (n_registers,)
        With the constants.

    Notes
    -----
    Time O(partial matches x window x instructions).
    """
    s, d, entering = report[START], report[DEPTH], report[ENTERING]
    n_matches, n_items, work, done = 0, 0, 0, 0
    n = len(components)
    closes, ends, free = n, 2 * n, 3 * n
    query = conditions, loops, loads, groups, code, floats, integers, rf, ri
    limits = absences, absent_tests, accept, time_start, time_end
    while True:
        if d < 0:
            s += 1
            while s < stop and not accept[tests[0], s]:
                s += 1
            work += 1
            if s >= stop:
                done = 1
                break
            path[0], component[0], first[0] = s, 0, 0
            if not _all_hold(spans[0], listed, query, path, first, 0, 0):
                continue
            d, entering = 0, 1
        c = component[d]
        if entering:
            size = d - first[c] + 1
            complete = size >= components[c, LOW] and _all_hold(
                spans[closes + c], listed, query, path, first, d, 0
            )
            if complete and c == n - 1:
                x = position[path[d]]
                wanted = low <= x < high
                is_full = n_matches >= out_size.shape[0] or n_items + d + 1 > len(out_place)
                if wanted and fill and is_full:
                    break
                wanted = wanted and _is_free(spans[free + n], listed, limits, query, path, first, d)
                if wanted and fill:
                    for i in range(d + 1):
                        out_place[n_items + i] = path[i]
                    for i in range(n - 1):
                        out_size[n_matches, i] = first[i + 1] - first[i]
                    out_size[n_matches, n - 1] = d + 1 - first[n - 1]
                    n_items += d + 1
                    n_matches += 1
                elif wanted:
                    count_of_last[path[d]] += 1
                    n_matches += 1
            state = 0
            if size < components[c, HIGH]:
                state |= 9
            if complete and c < n - 1:
                state |= 18
            open_[d], cursor[d], entering = state, path[d] + 1, 0
        state, j = open_[d], cursor[d]
        p = path[d]
        if state & 3 == 0 or j >= window_end[s] or j >= gap_end[p] or position[j] >= high:
            d -= 1
            continue
        work += 1
        if work > work_limit:
            break
        step = components[c + 1, STEP] if c < n - 1 else 0
        if state & 4:
            open_[d], cursor[d] = state & ~4, j + 1
            if state & 2 and step >= 1:
                open_[d] &= ~2
            begins = True
        else:
            takes = begins = False
            path[d + 1] = j
            if state & 8:
                if spans[ends + c, 0] == spans[ends + c, 1] or not _all_hold(
                    spans[ends + c], listed, query, path, first, d, j
                ):
                    takes = (
                        accept[tests[c], j] != 0
                        and j >= later[p]
                        and _all_hold(spans[c], listed, query, path, first, d + 1, 0)
                    )
                else:
                    state &= ~9
            if state & 16 and accept[tests[c + 1], j] and j >= later[p]:
                first[c + 1] = d + 1
                begins = _all_hold(spans[c + 1], listed, query, path, first, d + 1, 0)
            hit_take, hit_begin = takes, begins
            near = j == p + 1
            inner = components[c, INNER]
            if takes:
                takes = state & 1 != 0 and (
                    inner < 2 or (near and (inner == 2 or position[j] == position[p] + 1))
                )
            if begins:
                begins = state & 2 != 0 and (
                    step < 2 or (near and (step == 2 or position[j] == position[p] + 1))
                )
            if hit_take and hit_begin:
                if components[c, PREFERENCE] == 1:
                    begins = False
                elif components[c, PREFERENCE] == 2:
                    takes = False
            if inner >= 2 or (inner == 1 and (hit_take or (is_run_scope and hit_begin))):
                state &= ~1
            is_next = step == 1 and (hit_begin or (is_run_scope and hit_take))
            if c < n - 1 and not (takes and begins) and (step >= 2 or is_next):
                state &= ~2
            if takes:
                if begins:
                    open_[d] = state | 4
                else:
                    open_[d], cursor[d] = state, j + 1
                d += 1
                component[d], entering = c, 1
                continue
            open_[d], cursor[d] = state, j + 1
        if begins:
            path[d + 1] = j
            first[c + 1] = d + 1
            if _is_free(spans[free + c + 1], listed, limits, query, path, first, d + 1):
                d += 1
                component[d], entering = c + 1, 1
    report[START], report[DEPTH], report[ENTERING] = s, d, entering
    report[N_MATCHES], report[N_ITEMS], report[WORK], report[DONE] = (
        n_matches,
        n_items,
        report[WORK] + work,
        done,
    )
    return n_matches
