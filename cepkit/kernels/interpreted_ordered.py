"""Kernel that searches single events in any order: levels, limits and tests are tables.

It is compiled once per installation, since no query changes its code. Tests are those of
`cepkit.kernels.interpreted_counting`. Each level binds an event of one component, a *member* of its list.
"""

from numba import njit
from numba import types as T

_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_U1 = T.Array(T.uint64, 1, "C")
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
# Columns of the tables. Level -1 stands for a single number instead of one per member.
COMPONENT, MEMBERS_AT, FIRST_BOUND, LAST_BOUND, FIRST_TEST, LAST_TEST, FIRST_ABSENCE, LAST_ABSENCE = range(8)
IS_HIGH, BOUND_LEVEL, BOUND_AT = range(3)  # of bounds
OTHER, VECTOR_AT, LOW_AT, WIDTH_AT = range(4)  # of tests
BEGIN_LEVEL, BEGIN_AT, END_LEVEL, END_AT, FIRST, LAST = range(6)  # of absences
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


@njit([(*[T.int64] * 4, _I1, *[_I2] * 4, _I1, _U1, *[_I1] * 4, _I2, _I1)], cache=True, **_OPTIONS)
def search(
    fill, work_limit, low, high, chosen, levels, bounds, tests, absences, places, numbers, cursor, stop,
    index, count_of_last, out, report,
):  # fmt: skip
    """Find matches, or count them by their last event.

    Parameters
    ----------
    fill, work_limit : int
        Whether to write matches to ``out`` instead of counting them, and how many events to look at.
    low, high : int
        The members of the last component where a match may end.
    chosen : ndarray of int64
        The members of level 0, from ``cursor[0]`` to ``stop[0]``; if empty, these themselves.
    levels, bounds, tests, absences : ndarray of int64
        Tables; the columns are constants of this module. Limits and tests belong to the level that binds the
        last of their events.
    places : ndarray of int64
        The places of members, then limits by member.
    numbers : ndarray of uint64
        What tests compare.
    cursor, stop, index : ndarray of int64, shape (n_levels,)
        The state of each level: the next member, the end, and the member that is bound.
    count_of_last : ndarray of int64
        By place.
    out : ndarray of int64, shape (n, n_components)
        Places.
    report : ndarray of int64, shape (4,)
        The level to continue at, matches of this call, work of all calls, whether the search is done.

    Notes
    -----
    The algorithm is that of `cepkit.compile.sequences.ordered_source.write_ordered`.
    """
    n = len(levels)
    level, n_matches, work, done = report[LEVEL], 0, 0, 0
    while True:
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
            found = _next(tests, first, last, index, numbers, i, stop[level])
            work += found - i + 1
            i = found
            cursor[level] = i + 1
            if i >= stop[level]:
                continue
        index[level] = i
        if not _is_free(
            absences, levels[level, FIRST_ABSENCE], levels[level, LAST_ABSENCE], tests, index, places, numbers
        ):
            continue
        if level == n - 1:
            for b in range(n):
                place = places[levels[b, MEMBERS_AT] + index[b]]
                if fill:
                    out[n_matches, levels[b, COMPONENT]] = place
                elif levels[b, COMPONENT] == n - 1:
                    count_of_last[place] += 1
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
        cursor[level], stop[level] = lo, hi
    report[LEVEL], report[N_MATCHES], report[WORK], report[DONE] = level, n_matches, report[WORK] + work, done
    return n_matches
