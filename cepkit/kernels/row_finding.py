"""Kernels that find the matches of row patterns, and the rows and totals that measures mean."""

# A *place* is a row in the order of its partition. The places of one partition follow those of another.

import numpy as np
from numba import types as T

import cepkit.kernels.row_codes as op
from cepkit.kernels.jit import njit

_I1, _READ = T.Array(T.int64, 1, "C"), T.Array(T.int64, 1, "C", readonly=True)
_I2, _CODES = T.Array(T.int32, 2, "C"), T.Array(T.int32, 1, "C", readonly=True)
_BYTES, _SETS = (T.Array(of, 1, "C", readonly=True) for of in (T.uint8, T.uint16))
_STATES, _READ_STATES = T.Array(T.int16, 1, "C"), T.Array(T.int16, 1, "C", readonly=True)
_TABLE, _BITS = T.Array(T.int16, 2, "C", readonly=True), T.Array(T.uint64, 1, "C", readonly=True)
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit([(_CODES, _I1, _I1)], **_OPTIONS)
def count_by_partition(partition, n_rows_of_partition, first_row_of_partition):
    """Write the number of rows of each partition, 0 before the call, and its first row. O(n_rows)."""
    for row in range(len(partition)):
        k = np.uint32(partition[row])
        if n_rows_of_partition[k] == 0:
            first_row_of_partition[k] = row
        n_rows_of_partition[k] += 1


@njit([(_CODES, _I1, T.Array(of, 1, "C")) for of in (T.int32, T.int64)], **_OPTIONS)
def sort_by_partition(partition, cursor, order):
    """Write the rows of each partition to ``order``, from ``cursor[k]`` on, in their order. O(n_rows)."""
    for row in range(len(partition)):
        k = np.uint32(partition[row])
        order[np.uint64(cursor[k])] = row
        cursor[k] += 1


def _values(of):
    return (_CODES, _I1, T.Array(of, 1, "C", readonly=True), T.Array(of, 1, "C"))


@njit([_values(of) for of in (T.uint64, T.uint32, T.uint16, T.uint8)], **_OPTIONS)
def place_values(partition, cursor, values, placed):
    """Write the values of the rows of each partition to ``placed``, as `sort_by_partition` does with rows."""
    # O(n_rows). It writes to a few places in turn, which is quicker than to read from everywhere.
    for row in range(len(partition)):
        k = np.uint32(partition[row])
        placed[np.uint64(cursor[k])] = values[row]
        cursor[k] += 1


@njit([(_BYTES, T.uint64, _SETS, _I1, T.Array(T.uint16, 1, "C"))], **_OPTIONS)
def mark_places(symbol, shift, following, at, mark):
    """Write for each place twice the number of a set: the states that take its row and lead to a match."""
    # ``symbol``, uint8, has the conditions that hold at each place, one bit for each of ``shift`` bits; the
    # bit after them says that the place is the last one of its partition. ``following[set << shift |
    # symbol]`` is the set of a place, if ``set`` is that of the next place. Each place waits for the next
    # one, so the kernel goes through two chains of places at once. A chain ends with the last place of a
    # partition. ``at``, (6,), is the state between calls: for each chain the set of the first marked place,
    # this place, and the first place of the chain.
    # Returns DONE, or ASKS if a cell for the place before the marked ones of a chain is unknown. O(places).
    i, now, low = at[op.PLACE], np.uint64(at[op.AT_SET]), at[op.LOW]
    j, other, other_low = at[3 + op.PLACE], np.uint64(at[3 + op.AT_SET]), at[3 + op.LOW]
    for _ in range(min(i - low, j - other_low)):
        found = following[(now << shift) | np.uint64(symbol[np.uint64(i - 1)])]
        other_found = following[(other << shift) | np.uint64(symbol[np.uint64(j - 1)])]
        if max(found, other_found) == op.UNKNOWN:
            break
        i, j = i - 1, j - 1
        mark[np.uint64(i)], mark[np.uint64(j)] = found << 1, other_found << 1
        now, other = np.uint64(found), np.uint64(other_found)
    at[op.PLACE], at[op.AT_SET], at[3 + op.PLACE], at[3 + op.AT_SET] = i, np.int64(now), j, np.int64(other)
    result = op.DONE
    for first in (0, 3):  # the rest of the longer chain
        i, now, low = at[first + op.PLACE], np.uint64(at[first + op.AT_SET]), at[first + op.LOW]
        while i > low:
            found = following[(now << shift) | np.uint64(symbol[np.uint64(i - 1)])]
            if found == op.UNKNOWN:
                result = op.ASKS
                break
            i -= 1
            mark[np.uint64(i)] = found << 1
            now = np.uint64(found)
        at[first + op.PLACE], at[first + op.AT_SET] = i, np.int64(now)
    return result


@njit([(_SETS, T.int64, T.int64, T.uint64, _SETS, _SETS, _I1, _I1, _I1)], **_OPTIONS)
def find_separate_matches(mark, low, high, shift, step, borders, at, start_of_match, end_of_match):
    """Write the preferred matches if the next one begins after the last row of a match, and none is empty."""
    # ``mark`` is as `mark_places` writes it, plus 1 at the first place of each partition. The kernel goes
    # from place ``low`` to before ``high``. ``step[mark << shift | state]`` is the state that takes a place
    # after a state, or one more than all states if no match takes it; ``shift`` is the number of bits of a
    # state. ``borders`` says with 1 that a match begins there, and with 2 that one ended with the place
    # before. ``at``, (3,), is the state between calls: the state of the place before, and the numbers of
    # begun and of ended matches. ``start_of_match`` and ``end_of_match``, (n_places + 1,), get the first
    # place, and the place after the last one. O(high - low).
    # Each place takes one step of an automaton, with the same few operations: no branch is ever guessed
    # wrong.
    state, n_begun, n_ended = np.uint64(at[op.STATE]), np.uint64(at[op.N_BEGUN]), np.uint64(at[op.N_ENDED])
    for place in range(low, high):
        cell = (np.uint64(mark[np.uint64(place)]) << shift) | state
        state, border = np.uint64(step[cell]), np.uint64(borders[cell])
        start_of_match[n_begun] = place
        n_begun += border & np.uint64(1)
        end_of_match[n_ended] = place
        n_ended += border >> np.uint64(1)
    at[op.STATE], at[op.N_BEGUN], at[op.N_ENDED] = np.int64(state), np.int64(n_begun), np.int64(n_ended)


@njit([(_SETS, T.uint64, _SETS, T.uint64, _READ, _READ, _STATES)], **_OPTIONS)
def write_states(mark, shift, step, before, start_of_match, end_of_match, states):
    """Write the state of each row of the matches of `find_separate_matches`. O(rows of matches)."""
    # ``before`` is the state of places without a match.
    n = 0
    for m in range(len(start_of_match)):
        state = before
        for place in range(start_of_match[m], end_of_match[m]):
            state = np.uint64(step[(np.uint64(mark[np.uint64(place)]) << shift) | state])
            states[np.uint64(n)] = np.int16(state)
            n += 1


# Rows and totals of measures. A *point* is a place of a match at which measures are computed. It sees the
# rows of the match up to one of them. The points of a match follow each other and see ever more rows.


@njit([(_READ, _READ, _READ, _READ, _READ_STATES, _BYTES, T.int64, T.int64, _I1, _I1)], **_OPTIONS)
def find_rows(
    first_point_of_match, last_of_point, start_of_match, first_state_of_match, states, is_member,
    from_first, offset, scratch, place_of_point,
):  # fmt: skip
    """Write the place that FIRST or LAST of a variable means at each point, or -1."""
    # Matches have points, (n_matches + 1,), first places, and where their ``states``, one for each row,
    # begin. ``last_of_point`` is the last place that a point sees. ``is_member``, uint8, (n_states,), says
    # whether rows of a state belong to the variable. ``offset`` counts from the first or from the last row of
    # the variable; 0 is this row itself. ``scratch`` has a cell for each row of the longest match. O(rows of
    # matches + n_points).
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
    """Write an aggregate over the rows of a variable that each point sees, and how many values it has."""
    # The first parameters are those of `find_rows`. ``function`` is COUNT, SUM, SUM_FROM_ZERO, MIN or MAX;
    # values are added one by one, in the order of the rows. Those of match m begin at
    # ``first_value_of_match[m]``; COUNT has none. ``is_null``, uint8, is empty if no value is null. O(rows of
    # matches + n_points).
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
                if function == op.COUNT:
                    continue
                value = values[k]
                if n == 1 and function != op.SUM_FROM_ZERO:
                    total = value
                elif function in (op.SUM, op.SUM_FROM_ZERO):
                    total += value
                elif (function == op.MIN and value < total) or (function == op.MAX and value > total):
                    total = value
            total_of_point[point], count_of_point[point] = total, n


def _types(of):
    values = T.Array(of, 1, "C", readonly=True), _BYTES, T.Array(of, 1, "C"), _I1
    return [(_READ, _READ, _READ, _READ, _READ_STATES, _BYTES, T.int64, _READ, *values)]


total_integers = njit(_types(T.int64), **_OPTIONS)(_total)
total_floats = njit(_types(T.float64), **_OPTIONS)(_total)
