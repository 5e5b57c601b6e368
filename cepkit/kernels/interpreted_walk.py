"""Kernel that searches all sequences: components and conditions are tables, terms are instructions."""

# It is compiled once per installation, since no query changes its code. The text of the walk is also that of
# the kernels that `cepkit.compile.sequence_source` writes, which have functions for conditions.

import numpy as np
from numba import types as T

import cepkit.kernels.records as op
from cepkit.kernels.interpreting import run_instructions
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import BranchTables, Conditions, PlaceLimits, SearchOutput, SearchTask, WalkPath

NULL = -(2**63)
NAN = np.nan
_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_READ = T.Array(T.int64, 1, "C", readonly=True)
_F1, _F2 = (T.Array(T.float64, n, "C") for n in (1, 2))
_U2 = T.Array(T.uint8, 2, "C")
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_OPTIONS, "no_cpython_wrapper": True}
CONDITIONS = Record([*[_I2] * 5, _F2, _I2, _F1, _I1], Conditions)
# Columns of the tables.
FIRST_LOOP, LAST_LOOP, FIRST_LOAD, LAST_LOAD, FIRST_GROUP, LAST_GROUP, FIRST_CODE, LAST_CODE, NEEDS = range(9)
IS_FLOAT, ROW, REGISTER, BASE, OFFSET, LIMIT, IS_CODE = range(7)  # of loads
FUNCTION, TARGET, OF_FLOATS, VALUE_ROW, KNOWN_ROW, GROUP_LOW, GROUP_BASE, GROUP_OFFSET, OF_CODES = range(9)
TEST, LOW_BASE, LOW_OFFSET, HIGH_BASE, HIGH_OFFSET, FIRST_CONDITION, LAST_CONDITION = range(7)  # of absences


@njit(**_HELPER)
def _depth(base, offset, first, last, outer, inner):
    """Return the depth on the path that a base and an offset mean."""
    if base >= 0:
        return first[base] + offset
    return (last if base == op.AT_LAST else outer if base == op.AT_LOOP else inner) + offset


@njit(**_HELPER)
def _load(loads, begin, end, path, depths, y, values):
    """Load the values of events into registers; ``depths`` are those that `_depth` takes."""
    first, last, outer, inner = depths
    floats, integers, rf, ri = values
    for x in range(begin, end):
        if loads[x, BASE] == op.AT_OTHER:
            place = y
        else:
            d, limit, place = (
                _depth(loads[x, BASE], loads[x, OFFSET], first, last, outer, inner),
                loads[x, LIMIT],
                -1,
            )
            if limit == op.NOWHERE or d <= (last if limit == op.AT_LAST else first[limit] - 1):
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
def _reduce(group, path, low, high, values):
    """Compute an aggregate over the events of the path from depth ``low`` to ``high``."""
    floats, integers, rf, ri = values
    function, target, row, known = group[FUNCTION], group[TARGET], group[VALUE_ROW], group[KNOWN_ROW]
    if function == op.NUMBER:
        ri[target] = high - low + 1
        return 0
    if function in (op.FIRST, op.LAST):
        place = path[low] if function == op.FIRST else path[high]
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
        if function == op.NUMBER_KNOWN:
            continue
        if group[OF_FLOATS]:
            x = floats[row, place]
            if n == 1:
                z = x
            elif function == op.TOTAL:
                z += x
            else:
                z = min(z, x) if function == op.LOWEST else max(z, x)
        else:
            u = integers[row, place]
            if n == 1:
                v = u
            elif function == op.TOTAL:
                v += u
            else:
                v = min(v, u) if function == op.LOWEST else max(v, u)
    if function == op.NUMBER_KNOWN:
        ri[target] = n
    elif group[OF_FLOATS]:
        rf[target] = z
    else:
        ri[target] = v
    return 0


@njit(**_HELPER)
def holds(q, query, path, first, last, y):
    """Return whether condition q holds for a path, for each event of its loops."""
    row, loops, groups = query.conditions[q], query.loops, query.groups
    values = query.floats, query.integers, query.rf, query.ri
    if row[NEEDS] != op.NOWHERE and last == first[row[NEEDS]]:
        return True
    low, stop, inner_low, inner_stop = 0, 1, 0, 1
    if row[FIRST_LOOP] < row[LAST_LOOP]:
        loop = loops[row[FIRST_LOOP]]
        low, stop = first[loop[0]] + loop[1], last + 1 if loop[2] == op.AT_LAST else first[loop[2]]
    if row[FIRST_LOOP] + 1 < row[LAST_LOOP]:
        loop = loops[row[FIRST_LOOP] + 1]
        inner_low, inner_stop = (
            first[loop[0]] + loop[1],
            last + 1 if loop[2] == op.AT_LAST else first[loop[2]],
        )
    for outer in range(low, stop):
        for inner in range(inner_low, inner_stop):
            depths = first, last, outer, inner
            _load(query.loads, row[FIRST_LOAD], row[LAST_LOAD], path, depths, y, values)
            for x in range(row[FIRST_GROUP], row[LAST_GROUP]):
                high = _depth(groups[x, GROUP_BASE], groups[x, GROUP_OFFSET], first, last, outer, inner)
                _reduce(groups[x], path, first[groups[x, GROUP_LOW]], high, values)
            if run_instructions(query.code[row[FIRST_CODE] : row[LAST_CODE]], 1, 1, query.rf, query.ri) == 0:
                return False
    return True


@njit(**_HELPER)
def all_hold(begin, end, listed, query, path, first, last, y):
    """Return whether all conditions of a list hold."""
    for x in range(begin, end):  # noqa: SIM110
        if not holds(listed[x, 0], query, path, first, last, y):
            return False
    return True


@njit(**_HELPER)
def is_free(begin, end, listed, absences, limits, query, path, first, last):
    """Return whether no absent event of a list occurs."""
    absent_tests, accept, time_start, time_end = limits
    for x in range(begin, end):
        row, test = absences[listed[x, 0]], absent_tests[listed[x, 0]]
        if row[LOW_BASE] == op.AT_TIME_LIMIT:
            low = time_start[path[last]]
        else:
            low = path[_depth(row[LOW_BASE], row[LOW_OFFSET], first, last, 0, 0)] + 1
        if row[HIGH_BASE] == op.AT_TIME_LIMIT:
            high = time_end[path[0]]
        else:
            high = path[_depth(row[HIGH_BASE], row[HIGH_OFFSET], first, last, 0, 0)]
        for y in range(low, high):
            occurs = accept[test, y] != 0
            for q in range(row[FIRST_CONDITION], row[LAST_CONDITION]):
                occurs = occurs and holds(q, query, path, first, last, y)
            if occurs:
                return False
    return True


# The conditions of component c. Generated kernels have functions of these names.


@njit(**_HELPER)
def admits(c, path, first, last, y, branch, query):
    """Return whether the component may take the last event."""
    begin, end = branch.spans[c, 0], branch.spans[c, 1]
    return all_hold(begin, end, branch.listed, query, path, first, last, y)


@njit(**_HELPER)
def closes(c, path, first, last, y, branch, query):
    """Return whether the component may be complete."""
    begin, end = branch.spans[len(branch.least) + c, 0], branch.spans[len(branch.least) + c, 1]
    return all_hold(begin, end, branch.listed, query, path, first, last, y)


@njit(**_HELPER)
def ends(c, path, first, last, y, branch, query):
    """Return whether event y ends the loop."""
    begin, end = branch.spans[2 * len(branch.least) + c, 0], branch.spans[2 * len(branch.least) + c, 1]
    return begin < end and all_hold(begin, end, branch.listed, query, path, first, last, y)


@njit(**_HELPER)
def free_at(c, absent, path, first, last, _, branch, query):
    """Return whether no absent event occurs before the component; after the last one: in the match."""
    begin, end = branch.spans[3 * len(branch.least) + c, 0], branch.spans[3 * len(branch.least) + c, 1]
    return is_free(begin, end, branch.listed, branch.absences, absent, query, path, first, last)


@njit(
    [
        (
            Record([T.int64] * 6, SearchTask),
            Record([*[_READ] * 2, _U2, *[_READ] * 6], PlaceLimits),
            Record([*[_I1] * 5, *[_I2] * 3], BranchTables),
            CONDITIONS,
            Record([_I1] * 5, WalkPath),
            Record([_I1, _I1, _I2], SearchOutput),
            _I1,
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def walk(task, limits, branch, query, state, output, report):
    """Find the matches of a branch; see `cepkit.compile.sequence_source.write_search`."""
    # O(partial matches x window x instructions).
    stop, low, high, fill, work_limit, is_run_scope = task
    tests, absent_tests, accept, later, window_end, gap_end, time_start, time_end, position = limits
    least, most, inner_mode, begin_mode, preference = (
        branch.least, branch.most, branch.inner_mode, branch.begin_mode, branch.preference
    )  # fmt: skip
    path, component, first, cursor, open_ = state
    count_of_last, out_place, out_size = output
    # For every depth, the bits of ``open_`` say what may still be tried there. 1: the loop may take a later
    # event. 2: the next component may begin. 4: the event at the cursor was taken and may begin the next
    # component as well. 8 and 16: taking and beginning are possible at all, which decides what is relevant.
    absent = absent_tests, accept, time_start, time_end
    n, first_test = len(least), tests[0]
    s, d, entering = report[0], report[1], report[2]
    n_matches, n_items, work, done = 0, 0, 0, 0
    while True:
        if d < 0:
            s += 1
            while s < stop and not accept[first_test, s]:
                s += 1
            work += 1
            if s >= stop:
                done = 1
                break
            path[0], component[0], first[0] = s, 0, 0
            if not admits(0, path, first, 0, 0, branch, query):
                continue
            d, entering = 0, 1
        c = component[d]
        if entering:
            size = d - first[c] + 1
            complete = size >= least[c] and closes(c, path, first, d, 0, branch, query)
            if complete and c == n - 1:
                x = position[path[d]]
                wanted = low <= x < high
                is_full = n_matches >= out_size.shape[0] or n_items + d + 1 > len(out_place)
                if wanted and fill and is_full:
                    break
                wanted = wanted and free_at(n, absent, path, first, d, 0, branch, query)
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
            tries = 0
            if size < most[c]:
                tries |= 9
            if complete and c < n - 1:
                tries |= 18
            open_[d], cursor[d], entering = tries, path[d] + 1, 0
        tries, j = open_[d], cursor[d]
        p = path[d]
        if tries & 3 == 0 or j >= window_end[s] or j >= gap_end[p] or position[j] >= high:
            d -= 1
            continue
        work += 1
        if work > work_limit:
            break
        if tries & 4:
            open_[d], cursor[d] = tries & ~4, j + 1
            if tries & 2 and begin_mode[c + 1] >= 1:
                open_[d] &= ~2
            begins = True
        else:
            takes = begins = False
            path[d + 1] = j
            if tries & 8:
                if not ends(c, path, first, d, j, branch, query):
                    takes = (
                        accept[tests[c], j] != 0
                        and j >= later[p]
                        and admits(c, path, first, d + 1, 0, branch, query)
                    )
                else:
                    tries &= ~9
            if tries & 16 and accept[tests[c + 1], j] and j >= later[p]:
                first[c + 1] = d + 1
                begins = admits(c + 1, path, first, d + 1, 0, branch, query)
            hit_take, hit_begin = takes, begins
            near = j == p + 1
            if takes:
                takes = tries & 1 != 0 and (
                    inner_mode[c] < 2 or (near and (inner_mode[c] == 2 or position[j] == position[p] + 1))
                )
            if begins:
                begins = tries & 2 != 0 and (
                    begin_mode[c + 1] < 2
                    or (near and (begin_mode[c + 1] == 2 or position[j] == position[p] + 1))
                )
            if hit_take and hit_begin:
                if preference[c] == 1:
                    begins = False
                elif preference[c] == 2:
                    takes = False
            if inner_mode[c] >= 2 or (inner_mode[c] == 1 and (hit_take or (is_run_scope and hit_begin))):
                tries &= ~1
            if c < n - 1 and not (takes and begins):
                is_next = begin_mode[c + 1] == 1 and (hit_begin or (is_run_scope and hit_take))
                if begin_mode[c + 1] >= 2 or is_next:
                    tries &= ~2
            if takes:
                if begins:
                    open_[d] = tries | 4
                else:
                    open_[d], cursor[d] = tries, j + 1
                d += 1
                component[d], entering = c, 1
                continue
            open_[d], cursor[d] = tries, j + 1
        if begins:
            path[d + 1] = j
            first[c + 1] = d + 1
            if free_at(c + 1, absent, path, first, d + 1, 0, branch, query):
                d += 1
                component[d], entering = c + 1, 1
    report[0], report[1], report[2] = s, d, entering
    report[3], report[4], report[5], report[6] = n_matches, n_items, report[5] + work, done
