"""Kernels that find the rows and totals that the measures of row patterns mean.

A *point* is a place of a match at which measures are computed. It sees the rows of the match up to one of
them. The points of a match follow each other and see ever more rows.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit
from cepkit.kernels.row_patterns.codes import COUNT, MAX, MIN, SUM, SUM_FROM_ZERO

_I1, _READ = T.Array(T.int64, 1, "C"), T.Array(T.int64, 1, "C", readonly=True)
_BYTES, _STATES = (T.Array(of, 1, "C", readonly=True) for of in (T.uint8, T.int16))
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit([(_READ, _READ, _READ, _READ, _STATES, _BYTES, T.int64, T.int64, _I1, _I1)], **_OPTIONS)
def find_rows(
    first_point_of_match, last_of_point, start_of_match, first_state_of_match, states, is_member,
    from_first, offset, scratch, place_of_point,
):  # fmt: skip
    """Write the place that FIRST or LAST of a variable means at each point, or -1.

    Parameters
    ----------
    first_point_of_match : ndarray of int64, shape (n_matches + 1,)
    last_of_point : ndarray of int64, shape (n_points,)
    start_of_match : ndarray of int64, shape (n_matches,)
    first_state_of_match : ndarray of int64, shape (n_matches + 1,)
    states : ndarray of int16
        The state of each row of each match.
    is_member : ndarray of uint8, shape (n_states,)
        Whether rows of a state belong to the variable.
    from_first, offset : int
        Count from the first or from the last row of the variable; 0 is this row itself.
    scratch : ndarray of int64
        With a cell for each row of the longest match.
    place_of_point : ndarray of int64, shape (n_points,)

    Notes
    -----
    Time O(rows of matches + n_points).
    """
    for m in range(len(start_of_match)):
        low, high = first_point_of_match[m], first_point_of_match[m + 1]
        start, base = start_of_match[m], first_state_of_match[m]
        if high == low + 1:
            n_rows, left, found = last_of_point[low] - start + 1, offset, -1
            for j in range(n_rows):
                i = j if from_first else n_rows - 1 - j
                if is_member[np.uint64(states[np.uint64(base + i)])]:
                    if left == 0:
                        found = start + i
                        break
                    left -= 1
            place_of_point[low] = found
            continue
        n, i = 0, 0
        for point in range(low, high):
            while start + i <= last_of_point[point]:
                if is_member[np.uint64(states[np.uint64(base + i)])]:
                    scratch[n] = start + i
                    n += 1
                i += 1
            if offset >= n:
                place_of_point[point] = -1
            else:
                place_of_point[point] = scratch[offset if from_first else n - 1 - offset]


def _total(
    first_point_of_match, last_of_point, start_of_match, first_state_of_match, states, is_member, function,
    first_value_of_match, values, is_null, total_of_point, count_of_point,
):  # fmt: skip
    """Write an aggregate over the rows of a variable that each point sees, and how many values it has.

    Parameters
    ----------
    first_point_of_match, last_of_point, start_of_match, first_state_of_match, states, is_member
        As in `find_rows`.
    function : int
        COUNT, SUM, SUM_FROM_ZERO, MIN or MAX. Values are added one by one, in the order of the rows.
    first_value_of_match : ndarray of int64, shape (n_matches,)
        The value of the first row of each match. Those of its other rows come next.
    values : ndarray
        Empty for COUNT.
    is_null : ndarray of uint8
        Which values are null; empty if none is.
    total_of_point, count_of_point : ndarray, shape (n_points,)

    Notes
    -----
    Time O(rows of matches + n_points).
    """
    for m in range(len(start_of_match)):
        start, base, i, n = start_of_match[m], first_state_of_match[m], 0, 0
        first_value = first_value_of_match[m]
        total = total_of_point.dtype.type(0)
        for point in range(first_point_of_match[m], first_point_of_match[m + 1]):
            while start + i <= last_of_point[point]:
                state, k = states[np.uint64(base + i)], np.uint64(first_value + i)
                i += 1
                if not is_member[np.uint64(state)] or (len(is_null) and is_null[k]):
                    continue
                n += 1
                if function == COUNT:
                    continue
                value = values[k]
                if n == 1 and function != SUM_FROM_ZERO:
                    total = value
                elif function in (SUM, SUM_FROM_ZERO):
                    total += value
                elif (function == MIN and value < total) or (function == MAX and value > total):
                    total = value
            total_of_point[point], count_of_point[point] = total, n


def _types(of):
    values = T.Array(of, 1, "C", readonly=True), _BYTES, T.Array(of, 1, "C"), _I1
    return [(_READ, _READ, _READ, _READ, _STATES, _BYTES, T.int64, _READ, *values)]


total_integers = njit(_types(T.int64), **_OPTIONS)(_total)
total_floats = njit(_types(T.float64), **_OPTIONS)(_total)
