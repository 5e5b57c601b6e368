"""Kernels that find the matches of row patterns. The automaton is tables, so one kernel serves every query.

A *place* is a row in the order of its partition. The places of one partition follow those of another.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit
from cepkit.kernels.row_patterns.codes import (
    ASKS,
    AT_SET,
    DONE,
    LOW,
    N_BEGUN,
    N_ENDED,
    PLACE,
    STATE,
    UNKNOWN,
)

_I1, _READ = T.Array(T.int64, 1, "C"), T.Array(T.int64, 1, "C", readonly=True)
_I2, _CODES = T.Array(T.int32, 2, "C"), T.Array(T.int32, 1, "C", readonly=True)
_BYTES, _SETS = (T.Array(of, 1, "C", readonly=True) for of in (T.uint8, T.uint16))
_STATES, _READ_STATES = T.Array(T.int16, 1, "C"), T.Array(T.int16, 1, "C", readonly=True)
_TABLE, _BITS = T.Array(T.int16, 2, "C", readonly=True), T.Array(T.uint64, 1, "C", readonly=True)
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit([(_CODES, _I1, _I1)], **_OPTIONS)
def count_by_partition(partition, n_rows_of_partition, first_row_of_partition):
    """Write the number of rows of each partition, 0 before the call, and its first row.

    Notes
    -----
    Time O(n_rows).
    """
    for row in range(len(partition)):
        k = np.uint32(partition[row])
        if n_rows_of_partition[k] == 0:
            first_row_of_partition[k] = row
        n_rows_of_partition[k] += 1


@njit([(_CODES, _I1, T.Array(of, 1, "C")) for of in (T.int32, T.int64)], **_OPTIONS)
def sort_by_partition(partition, cursor, order):
    """Write the rows of each partition to ``order``, from ``cursor[k]`` on. Rows keep their order.

    Notes
    -----
    Time O(n_rows).
    """
    for row in range(len(partition)):
        k = np.uint32(partition[row])
        order[np.uint64(cursor[k])] = row
        cursor[k] += 1


def _values(of):
    return (_CODES, _I1, T.Array(of, 1, "C", readonly=True), T.Array(of, 1, "C"))


@njit([_values(of) for of in (T.uint64, T.uint32, T.uint16, T.uint8)], **_OPTIONS)
def place_values(partition, cursor, values, placed):
    """Write the values of the rows of each partition to ``placed``, as `sort_by_partition` does with rows.

    Notes
    -----
    Time O(n_rows). It writes to a few places in turn, which is quicker than to read from everywhere.
    """
    for row in range(len(partition)):
        k = np.uint32(partition[row])
        placed[np.uint64(cursor[k])] = values[row]
        cursor[k] += 1


@njit([(_BYTES, T.uint64, _SETS, _I1, T.Array(T.uint16, 1, "C"))], **_OPTIONS)
def mark_places(symbol, shift, following, at, mark):
    """Write for each place twice the number of a set: the states that take its row and lead to a match.

    Each place waits for the next one. The kernel goes through two chains of places at once, so that it does
    not wait for both.

    Parameters
    ----------
    symbol : ndarray of uint8, shape (n_places,)
        The conditions that hold at each place, one bit for each. The bit after them says that the place is
        the last one of its partition.
    shift : uint64
        The number of bits.
    following : ndarray of uint16
        ``following[set << shift | symbol]`` is the set of a place, if ``set`` is the set of the next place.
    at : ndarray of int64, shape (6,)
        State between calls, three cells for each chain: the set of the first marked place, this place, and
        the first place of the chain. A chain ends with the last place of a partition.
    mark : ndarray of uint16, shape (n_places,)

    Returns
    -------
    int
        DONE, or ASKS if a cell for the place before the marked ones of a chain is unknown.

    Notes
    -----
    Time O(places of the chains), from the last place of each to the first one.
    """
    i, now, low = at[PLACE], np.uint64(at[AT_SET]), at[LOW]
    j, other, other_low = at[3 + PLACE], np.uint64(at[3 + AT_SET]), at[3 + LOW]
    for _ in range(min(i - low, j - other_low)):
        found = following[(now << shift) | np.uint64(symbol[np.uint64(i - 1)])]
        other_found = following[(other << shift) | np.uint64(symbol[np.uint64(j - 1)])]
        if max(found, other_found) == UNKNOWN:
            break
        i, j = i - 1, j - 1
        mark[np.uint64(i)], mark[np.uint64(j)] = found << 1, other_found << 1
        now, other = np.uint64(found), np.uint64(other_found)
    at[PLACE], at[AT_SET], at[3 + PLACE], at[3 + AT_SET] = i, np.int64(now), j, np.int64(other)
    result = DONE
    for first in (0, 3):  # the rest of the longer chain
        i, now, low = at[first + PLACE], np.uint64(at[first + AT_SET]), at[first + LOW]
        while i > low:
            found = following[(now << shift) | np.uint64(symbol[np.uint64(i - 1)])]
            if found == UNKNOWN:
                result = ASKS
                break
            i -= 1
            mark[np.uint64(i)] = found << 1
            now = np.uint64(found)
        at[first + PLACE], at[first + AT_SET] = i, np.int64(now)
    return result


@njit([(_SETS, T.int64, T.int64, T.uint64, _SETS, _SETS, _I1, _I1, _I1)], **_OPTIONS)
def find_separate_matches(mark, low, high, shift, step, borders, at, start_of_match, end_of_match):
    """Write the preferred matches if the next one begins after the last row of a match, and none is empty.

    Each place takes one step of an automaton, with the same few operations: no branch is ever guessed wrong.

    Parameters
    ----------
    mark : ndarray of uint16, shape (n_places,)
        As `mark_places` writes it, plus 1 at the first place of each partition.
    low, high : int
        The places from ``low`` to before ``high``.
    shift : uint64
        The number of bits of a state.
    step, borders : ndarray of uint16
        ``step[mark << shift | state]`` is the state that takes a place after a state, or one more than all
        states if no match takes it. ``borders`` says with 1 that a match begins there, and with 2 that one
        ended with the place before.
    at : ndarray of int64, shape (3,)
        State between calls: the state of the place before, and the numbers of begun and of ended matches.
    start_of_match, end_of_match : ndarray of int64, shape (n_places + 1,)
        The first place, and the place after the last one.

    Notes
    -----
    Time O(high - low).
    """
    state, n_begun, n_ended = np.uint64(at[STATE]), np.uint64(at[N_BEGUN]), np.uint64(at[N_ENDED])
    for place in range(low, high):
        cell = (np.uint64(mark[np.uint64(place)]) << shift) | state
        state, border = np.uint64(step[cell]), np.uint64(borders[cell])
        start_of_match[n_begun] = place
        n_begun += border & np.uint64(1)
        end_of_match[n_ended] = place
        n_ended += border >> np.uint64(1)
    at[STATE], at[N_BEGUN], at[N_ENDED] = np.int64(state), np.int64(n_begun), np.int64(n_ended)


@njit([(_SETS, T.uint64, _SETS, T.uint64, _READ, _READ, _STATES)], **_OPTIONS)
def write_states(mark, shift, step, before, start_of_match, end_of_match, states):
    """Write the state of each row of the matches that `find_separate_matches` found.

    Parameters
    ----------
    mark, shift, step, start_of_match, end_of_match
        As in `find_separate_matches`.
    before : uint64
        The state of places without a match.
    states : ndarray of int16

    Notes
    -----
    Time O(rows of matches).
    """
    n = 0
    for m in range(len(start_of_match)):
        state = before
        for place in range(start_of_match[m], end_of_match[m]):
            state = np.uint64(step[(np.uint64(mark[np.uint64(place)]) << shift) | state])
            states[np.uint64(n)] = np.int16(state)
            n += 1
