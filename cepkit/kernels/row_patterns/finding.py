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
    IS_FULL,
    LOW,
    MATCH,
    N_BEGUN,
    N_ENDED,
    N_MATCHES,
    N_STATES,
    NO_STATE,
    NO_TARGET,
    PARTITION,
    PLACE,
    STATE,
    TARGET,
    TO_FIRST,
    TO_LAST,
    TO_NEXT_ROW,
    UNKNOWN,
    WORKED,
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


@njit([(_READ, _SETS, _TABLE, _READ_STATES, _BYTES, T.int64, T.int64, *[_I1] * 4, _STATES)], **_OPTIONS)
def find_matches(
    first_place_of_partition, mark, choice, first_choice, is_target, after, work_limit, at,
    first_match_of_partition, start_of_match, end_of_match, states,
):  # fmt: skip
    """Write the preferred matches. A place with a mark leads to a match, so no step is ever taken back.

    Parameters
    ----------
    first_place_of_partition : ndarray of int64, shape (n_partitions + 1,)
    mark : ndarray of uint16, shape (n_places,)
        As `mark_places` writes it, plus 1 at the first place of each partition.
    choice : ndarray of int16, shape (n_sets, n_states)
        The preferred state after a state, if the next place has this set; MATCH ends the match.
    first_choice : ndarray of int16, shape (2 * n_sets,)
        The first state of a match at a place with each mark, or NO_STATE.
    is_target : ndarray of uint8, shape (n_states,)
        Whether AFTER MATCH skips to rows of a state.
    after : int
        PAST_LAST_ROW, TO_NEXT_ROW, TO_FIRST or TO_LAST.
    work_limit : int
        About how many places a call may look at.
    at : ndarray of int64, shape (5,)
        State between calls: the partition, its next place (-1: the first one), the numbers of matches and
        states so far, and the place of the last target.
    first_match_of_partition : ndarray of int64, shape (n_partitions + 1,)
    start_of_match, end_of_match : ndarray of int64, shape (n_places,)
        The first place, and the place after the last one.
    states : ndarray of int16
        The state of each row of each match.

    Returns
    -------
    int
        DONE, WORKED at the limit of work, IS_FULL if ``states`` has no room for the match at this place, or
        NO_TARGET if AFTER MATCH cannot skip to the target of the last match (-1: there is none).

    Notes
    -----
    Time O(n_places + rows of matches).
    """
    p, place = at[PARTITION], at[PLACE]
    n_matches, n_states, left, result = at[N_MATCHES], at[N_STATES], work_limit, DONE
    while p < len(first_place_of_partition) - 1 and result == DONE:
        low, stop = first_place_of_partition[p], first_place_of_partition[p + 1]
        if place < 0:
            place = low
        while place < stop:
            if left <= 0:
                result = WORKED
                break
            state = first_choice[np.uint64(mark[np.uint64(place)])]
            if state == NO_STATE:
                place += 1
                left -= 1
                continue
            start, begin, target = place, n_states, -1
            while state != MATCH:
                if n_states == len(states):
                    result = IS_FULL
                    break
                states[np.uint64(n_states)] = state
                n_states += 1
                if after >= TO_FIRST and is_target[state] and (after == TO_LAST or target < 0):
                    target = place
                place += 1
                if place == stop:
                    break
                state = choice[np.uint64(mark[np.uint64(place)] >> 1), np.uint64(state)]
            if result == IS_FULL:
                place, n_states = start, begin
                break
            start_of_match[n_matches], end_of_match[n_matches] = start, place
            n_matches += 1
            left -= place - start + 1
            if place == start or after == TO_NEXT_ROW:
                place = start + 1
            elif after >= TO_FIRST:
                if target <= start:
                    at[TARGET] = target
                    result = NO_TARGET
                    break
                place = target
        if result == DONE:
            p, place = p + 1, -1
            first_match_of_partition[p] = n_matches
    at[PARTITION], at[PLACE], at[N_MATCHES], at[N_STATES] = p, place, n_matches, n_states
    return result


@njit([(_READ, T.int64, T.int64, _BITS, _READ, _READ, _READ, _BYTES, _I2)], **_OPTIONS)
def measure_ways(
    first_place_of_partition, partition, until, holds, condition_of_state, first_follower, followers,
    can_end, ways,
):  # fmt: skip
    """Write for each place and state the fewest rows from there to the end of a match; 0 if there is no way.

    Parameters
    ----------
    first_place_of_partition : ndarray of int64, shape (n_partitions + 1,)
    partition, until : int
        The partitions from ``partition`` to before ``until``.
    holds : ndarray of uint64, shape (n_places,)
        The conditions that hold at each of their places, one bit for each.
    condition_of_state : ndarray of int64, shape (n_states,)
        The number of a bit, or NO_CONDITION.
    first_follower, followers : ndarray of int64
        The states that can follow each state, and MATCH, in the order of preference.
    can_end : ndarray of uint8, shape (n_states,)
        Whether a match can end with the state at the last place of a partition.
    ways : ndarray of int32, shape (n_places, n_states)

    Notes
    -----
    Time O(n_places x transitions).
    """
    base = first_place_of_partition[partition]
    for p in range(partition, until):
        low, stop = first_place_of_partition[p] - base, first_place_of_partition[p + 1] - base
        for i in range(stop - 1, low - 1, -1):
            bits = holds[i]
            for s in range(len(condition_of_state)):
                ways[i, s] = 0
                condition = condition_of_state[s]
                if condition >= 0 and not (bits >> np.uint64(condition)) & np.uint64(1):
                    continue
                if i == stop - 1:
                    ways[i, s] = can_end[s]
                    continue
                least = 0
                for k in range(first_follower[s], first_follower[s + 1]):
                    t = followers[k]
                    if t == MATCH:
                        least = 1
                        break
                    own = ways[i + 1, t]
                    if own and (least == 0 or own + 1 < least):
                        least = own + 1
                ways[i, s] = least


@njit(
    [(_READ, T.int64, _I2, _READ, _READ, _READ, T.int64, _BYTES, T.int64, T.int64, *[_I1] * 4, _STATES)],
    **_OPTIONS,
)
def find_matches_by_ways(
    first_place_of_partition, until, ways, first_follower, followers, clock, width, is_target, after,
    work_limit, at, first_match_of_partition, start_of_match, end_of_match, states,
):  # fmt: skip
    """Write the preferred matches whose rows are within a width of time of their first row.

    Parameters
    ----------
    first_place_of_partition : ndarray of int64, shape (n_partitions + 1,)
    until : int
        The first partition that is not searched.
    ways : ndarray of int32, shape (n_places, n_states)
        As `measure_ways` writes it, from the partition on that ``at[TARGET]`` names.
    first_follower, followers : ndarray of int64
        As in `measure_ways`; then the states with which a match can begin, and those at the first place of a
        partition.
    clock : ndarray of int64, shape (n_places,)
        Nondecreasing in a partition. An empty array sets no limit.
    width : int
        Every row is earlier than the first row plus the width.
    is_target, after, work_limit, at, first_match_of_partition, start_of_match, end_of_match, states
        As in `find_matches`.

    Returns
    -------
    int
        As in `find_matches`.

    Notes
    -----
    Time O((n_places + rows of matches) x transitions of a state).
    """
    p, place, base = at[PARTITION], at[PLACE], first_place_of_partition[at[TARGET]]
    n_matches, n_states, left, result = at[N_MATCHES], at[N_STATES], work_limit, DONE
    start_state, limit = ways.shape[1], -1
    while p < until and result == DONE:
        low, stop = first_place_of_partition[p], first_place_of_partition[p + 1]
        if place < 0:
            place = low
        while place < stop:
            if left <= 0:
                result = WORKED
                break
            limit = max(limit, place + 1)
            if len(clock) == 0:
                limit = stop
            while limit < stop and clock[limit] - clock[place] < width:
                limit += 1
            limit = min(limit, stop)
            start, begin, target = place, n_states, -1
            state = start_state + 1 if place == low else start_state
            while True:
                chosen = NO_STATE
                if place == stop:
                    chosen = MATCH
                else:
                    for k in range(first_follower[state], first_follower[state + 1]):
                        t = followers[k]
                        left -= 1
                        if t == MATCH:
                            chosen = MATCH
                            break
                        own = ways[place - base, t]
                        if own and place + own <= limit:
                            chosen = t
                            break
                if chosen < 0:
                    break
                if n_states == len(states):
                    result = IS_FULL
                    break
                state = chosen
                states[n_states] = state
                n_states += 1
                if after >= TO_FIRST and is_target[state] and (after == TO_LAST or target < 0):
                    target = place
                place += 1
            if result == IS_FULL:
                place, n_states = start, begin
                break
            if chosen == NO_STATE:
                place = start + 1
                continue
            start_of_match[n_matches], end_of_match[n_matches] = start, place
            n_matches += 1
            if place == start or after == TO_NEXT_ROW:
                place = start + 1
            elif after >= TO_FIRST:
                if target <= start:
                    at[TARGET] = target
                    result = NO_TARGET
                    break
                place = target
        if result == DONE:
            p, place = p + 1, -1
            first_match_of_partition[p] = n_matches
    at[PARTITION], at[PLACE], at[N_MATCHES], at[N_STATES] = p, place, n_matches, n_states
    return result
