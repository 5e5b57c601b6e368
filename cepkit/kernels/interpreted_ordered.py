"""Kernel that searches single events in any order: levels, limits and tests are tables."""

# It is compiled once per installation, since no query changes its code. Tests are those of
# `cepkit.kernels.interpreted_counting`. Each level binds an event of one component, a *member* of its list.

import numpy as np
from numba import types as T

from cepkit.kernels.interpreting import run_instructions
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import Cursors, Levels

_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_U1, _F1 = (T.Array(of, 1, "C") for of in (T.uint64, T.float64))
_BYTES = T.Array(T.uint8, 2, "C")
EQUAL, DIFFERENT, BELOW, AT_MOST, ABOVE = range(5)  # in the order of `cepkit.kernels.records.SIGNS`
LOWEST, HIGHEST = np.int64(-(2**63)), np.int64(2**63 - 1)
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# Columns of the tables. Level -1 stands for a single number instead of one per member.
COMPONENT, MEMBERS_AT, FIRST_BOUND, LAST_BOUND, FIRST_TEST, LAST_TEST = range(6)
FIRST_COMPUTED, FIRST_JOINT, LAST_JOINT, FIRST_ABSENCE, LAST_ABSENCE = range(6, 11)
IS_HIGH, BOUND_LEVEL, BOUND_AT = range(3)  # of bounds
OTHER, VECTOR_AT, LOW_AT, WIDTH_AT = range(4)  # of tests
BEGIN_LEVEL, BEGIN_AT, END_LEVEL, END_AT, FIRST, LAST = range(6)  # of absences
FIRST_LOAD, LAST_LOAD, FIRST_CODE, LAST_CODE, OF_FLOATS, RESULT, RESULT_KNOWN, SIGN, SLOT = range(
    9
)  # of joints
IS_FLOAT, REGISTER, VALUE_AT, LOAD_LEVEL = range(4)  # of loads
LEVEL, N_MATCHES, WORK, DONE = range(4)  # of the report


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _next(tests, first, last, index, numbers, i, stop):
    """Return the first member from ``i`` on that passes all tests, or ``stop``."""
    if first == last:
        return i
    own = 0 if tests[first, OTHER] < 0 else index[tests[first, OTHER]]
    low, width = numbers[tests[first, LOW_AT] + own], numbers[tests[first, WIDTH_AT] + own]
    at = tests[first, VECTOR_AT]
    while i < stop:
        if numbers[at + i] - low <= width:
            holds = True
            for t in range(first + 1, last):
                own = 0 if tests[t, OTHER] < 0 else index[tests[t, OTHER]]
                value = numbers[tests[t, VECTOR_AT] + i] - numbers[tests[t, LOW_AT] + own]
                holds &= value <= numbers[tests[t, WIDTH_AT] + own]
            if holds:
                return i
        i += 1
    return stop


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _hold(tests, first, last, index, numbers, i, held):
    """Write for some members, from ``i`` on, whether they pass all tests."""
    for a in range(len(held)):
        held[a] = 1
    for t in range(first, last):
        own = 0 if tests[t, OTHER] < 0 else index[tests[t, OTHER]]
        low, width = numbers[tests[t, LOW_AT] + own], numbers[tests[t, WIDTH_AT] + own]
        q = numbers[tests[t, VECTOR_AT] + i : tests[t, VECTOR_AT] + i + len(held)]
        for a in range(len(held)):
            held[a] &= np.uint8(q[a] - low <= width)
    return 0


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _is_free(absences, first, last, tests, index, places, numbers):
    """Return whether none of the absent events occurs."""
    for a in range(first, last):
        begin = places[absences[a, BEGIN_AT] + index[absences[a, BEGIN_LEVEL]]]
        end = places[absences[a, END_AT] + index[absences[a, END_LEVEL]]]
        if (
            begin < end
            and _next(tests, absences[a, FIRST], absences[a, LAST], index, numbers, begin, end) < end
        ):
            return False
    return True


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _compute(joint, loads, code, index, floats, places, rf, ri):
    """Run the instructions of a joint condition; return 0 if they require what does not hold."""
    for x in range(joint[FIRST_LOAD], joint[LAST_LOAD]):
        at = loads[x, VALUE_AT] + index[loads[x, LOAD_LEVEL]]
        if loads[x, IS_FLOAT]:
            rf[loads[x, REGISTER]] = floats[at]
        else:
            ri[loads[x, REGISTER]] = places[at]
    return run_instructions(code[joint[FIRST_CODE] : joint[LAST_CODE]], 1, 1, rf, ri)


@njit(**_OPTIONS, no_cpython_wrapper=True)
def _set_interval(joint, rf, bits_of_rf, ri, numbers):
    """Write the interval of a comparison with the computed value; return whether it is not empty."""
    result, sign, slot = joint[RESULT], joint[SIGN], joint[SLOT]
    if ri[joint[RESULT_KNOWN]] == 0:
        return False
    y = ri[result]
    if joint[OF_FLOATS]:
        if rf[result] != rf[result]:
            return False
        rf[result] += 0.0  # -0.0 becomes 0.0
        y = bits_of_rf[result]
        y = y ^ HIGHEST if y < 0 else y
    if (sign == BELOW and y == LOWEST) or (sign == ABOVE and y == HIGHEST):
        return False
    low, high = LOWEST, HIGHEST
    if sign == EQUAL:
        low, high = y, y
    elif sign == DIFFERENT:
        low, high = y + 1, y - 1  # around the highest number
    elif sign == BELOW:
        high = y - 1
    elif sign == AT_MOST:
        high = y
    elif sign == ABOVE:
        low = y + 1
    else:
        low = y
    numbers[slot] = np.uint64(low)
    numbers[slot + 1] = np.uint64(high) - np.uint64(low)
    return True


@njit(
    [
        (
            *[T.int64] * 4, _I1, Record([*[_I2] * 7, *[_F1] * 2, *[_I1] * 3, _U1], Levels),
            Record([*[_I1] * 6, _BYTES], Cursors), _I1, _I2, _I1,
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def search(fill, work_limit, low, high, chosen, tables, state, count_of_last, out, report):
    """Find matches, or count them by the place of their last event if not ``fill``."""
    # Matches end at the members of the last component from ``low`` to ``high``. ``chosen`` are the members of
    # level 0, from ``cursor[0]`` to ``stop[0]``; if it is empty, these themselves. ``out`` gets places, (n,
    # n_components). The report has the level to continue at, matches of this call, work of all calls, and
    # whether the search is done. Each level goes over the members of a component between the bound neighbours
    # and in the window; conditions and absences are tested at the level that binds the last of their events.
    levels, bounds, tests, absences, joints, loads, code, floats, rf, bits_of_rf, ri, places, numbers = tables
    cursor, stop, begin, end, index, place, held = state
    n = len(levels)
    level, n_matches, work, done = report[LEVEL], 0, 0, 0
    enters = False  # whether the events of lower levels were bound just now
    while True:
        if enters:
            first, last = levels[level, FIRST_COMPUTED], levels[level, FIRST_JOINT]
        else:
            if level < 0:
                done = 1
                break
            if cursor[level] >= stop[level]:
                level -= 1
                continue
            if work > work_limit or (fill and n_matches >= len(out)):
                break
            first, last = levels[level, FIRST_TEST], levels[level, LAST_TEST]
            i = cursor[level]
            if level == 0:
                own = chosen[i] if len(chosen) else i
                cursor[0], work = i + 1, work + 1
                if _next(tests, first, last, index, numbers, own, own + 1) > own:
                    continue
                i = own
            else:
                if i >= end[level]:  # test a block of members at once
                    begin[level], end[level] = i, min(i + held.shape[1], stop[level])
                    work += end[level] - i
                    block = held[level, : end[level] - i]
                    _hold(tests, first, last, index, numbers, i, block)
                    is_last = not fill and level == n - 1
                    if (
                        is_last
                        and levels[level, FIRST_JOINT] == levels[level, LAST_JOINT]
                        and (levels[level, FIRST_ABSENCE] == levels[level, LAST_ABSENCE])
                    ):  # nothing else to look at
                        cursor[level] = end[level]
                        if levels[level, COMPONENT] == n - 1:
                            members = places[levels[level, MEMBERS_AT] + i :]
                            for a in range(len(block)):
                                count_of_last[members[a]] += block[a]
                        else:
                            number = 0
                            for a in range(len(block)):
                                number += block[a]
                            count_of_last[place[n - 1]] += number
                        continue
                while i < end[level] and held[level, i - begin[level]] == 0:
                    i += 1
                cursor[level] = i + 1
                if i == end[level]:
                    cursor[level] = i
                    continue
            index[level] = i
            place[levels[level, COMPONENT]] = places[levels[level, MEMBERS_AT] + i]
            first, last = levels[level, FIRST_JOINT], levels[level, LAST_JOINT]
        holds = True
        for c in range(first, last):  # the only place, since instructions take long to compile
            required = _compute(joints[c], loads, code, index, floats, places, rf, ri)
            holds &= _set_interval(joints[c], rf, bits_of_rf, ri, numbers) if enters else required != 0
        if enters:
            enters = False
            if not holds:
                stop[level] = cursor[level]
            continue
        if not holds:
            continue
        if not _is_free(
            absences, levels[level, FIRST_ABSENCE], levels[level, LAST_ABSENCE], tests, index, places, numbers
        ):
            continue
        if level == n - 1:
            if fill:
                for b in range(n):
                    out[n_matches, b] = place[b]
            else:
                count_of_last[place[n - 1]] += 1
            n_matches += 1
            continue
        level += 1
        lo, hi = 0, 1 << 62
        for b in range(levels[level, FIRST_BOUND], levels[level, LAST_BOUND]):
            limit = places[bounds[b, BOUND_AT] + index[bounds[b, BOUND_LEVEL]]]
            if bounds[b, IS_HIGH]:
                hi = min(hi, limit)
            else:
                lo = max(lo, limit)
        if levels[level, COMPONENT] == n - 1:
            lo, hi = max(lo, low), min(hi, high)
        cursor[level], stop[level], end[level] = lo, hi, lo
        enters = lo < hi and levels[level, FIRST_COMPUTED] < levels[level, FIRST_JOINT]
    report[LEVEL], report[N_MATCHES], report[WORK], report[DONE] = level, n_matches, report[WORK] + work, done
    return n_matches
