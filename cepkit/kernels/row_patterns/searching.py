"""The kernel that searches row patterns whose conditions look at the rows of the match so far.

From each place, a depth-first search tries the states in the order of preference. The automaton and the
conditions are tables, so one kernel serves every query. A *place* is a row in the order of its partition.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit
from cepkit.kernels.row_patterns.codes import (
    ABS_FLOAT,
    ABS_INTEGER,
    ADD_FLOATS,
    ADD_INTEGERS,
    AFTER,
    AND,
    ARGUMENT,
    BASE,
    BUDGET,
    CAN_END,
    CODE,
    CODE_END,
    COMPARE_FLOATS,
    COMPARE_INTEGERS,
    CONDITION,
    COUNT_FLOATS,
    COUNT_INTEGERS,
    COUNT_ROWS,
    DEPTH,
    DIVIDE_FLOATS,
    DIVIDE_INTEGERS,
    DONE,
    FIRST_FOLLOWER,
    FIRST_PLACE,
    IS_FULL,
    IS_NULL_INTEGER,
    IS_TARGET,
    LABEL,
    LAST_LABEL,
    LAST_PLACE,
    LEFT,
    LIMIT,
    LIVE,
    LOAD_BIT,
    LOAD_FLOAT,
    LOAD_INTEGER,
    LOAD_REGISTER,
    MATCH,
    MAX_FLOATS,
    MAX_INTEGERS,
    MIN_FLOATS,
    MIN_INTEGERS,
    MORE,
    MULTIPLY_FLOATS,
    MULTIPLY_INTEGERS,
    N_MATCHES,
    N_STATES,
    NEGATE_FLOAT,
    NEGATE_INTEGER,
    NEXT_CHOICE,
    NO_STATE,
    NO_TARGET,
    NOT,
    NUMBER_AT,
    OPERATION,
    OR,
    PARTITION,
    PLACE,
    REGISTERS,
    REMAINDER_OF_FLOATS,
    REQUIRED,
    RIGHT,
    RULE,
    SLOT,
    START_AT,
    SUBTRACT_FLOATS,
    SUBTRACT_INTEGERS,
    SUM_FLOATS,
    SUM_INTEGERS,
    TAKEN,
    TAKES,
    TARGET,
    TO_FIRST,
    TO_FLOAT,
    TO_LAST,
    TO_NEXT_ROW,
    TOO_MUCH_WORK,
    UNTIL,
    WIDTH,
    WORK,
    WORK_LIMIT,
    WORKED,
    MatchRoom,
    RowMachine,
    SearchedPlaces,
    SearchWork,
)

NULL = -(2**63)
NAN = np.nan
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {name: value for name, value in _OPTIONS.items() if name != "cache"} | {"no_cpython_wrapper": True}


def _types(letters):
    """Return types of arrays: a dtype and a number of axes each, read only in lower case."""
    dtypes = {"i": T.int64, "u": T.uint64, "f": T.float64, "m": T.uint16, "s": T.int16}
    pairs = zip(letters[::2], letters[1::2], strict=True)
    return [T.Array(dtypes[of.lower()], int(n), "C", readonly=of.islower()) for of, n in pairs]


@njit(**_HELPER)
def _bits(value):
    return np.float64(value).view(np.int64)


@njit(**_HELPER)
def _float(bits):
    return np.int64(bits).view(np.float64)


@njit(**_HELPER)
def _take(registers, takes, label, place, floats, integers, stack, row):
    """Write the registers after a place to the next row of the stack."""
    now, new = np.uint64(row), np.uint64(row + 1)
    for i in range(len(registers) - 1, -1, -1):
        r, cell = np.uint64(i), np.uint64(REGISTERS + i)
        old = stack[now, cell]
        if not (takes >> i) & 1:
            stack[new, cell] = old
            continue
        rule, argument = registers[r, RULE], registers[r, ARGUMENT]
        if rule <= LAST_LABEL:
            value = old
            before = stack[now, np.uint64(REGISTERS + argument)] if argument >= 0 else np.int64(0)
            if rule >= LAST_PLACE:
                value = before if argument >= 0 else place if rule == LAST_PLACE else label
            elif old == NULL and before != NULL:
                value = place if rule == FIRST_PLACE else label
            stack[new, cell] = value
        elif rule <= MAX_INTEGERS:
            v = np.int64(0) if rule == COUNT_ROWS else integers[np.uint64(argument), np.uint64(place)]
            if v == NULL:
                stack[new, cell] = old
            elif rule <= COUNT_INTEGERS:
                stack[new, cell] = old + 1
            elif old == NULL:
                stack[new, cell] = v
            elif rule == SUM_INTEGERS:
                stack[new, cell] = old + v
            elif rule == MIN_INTEGERS:
                stack[new, cell] = v if v < old else old
            else:
                stack[new, cell] = v if v > old else old
        else:
            x = floats[np.uint64(argument), np.uint64(place)]
            if x != x:
                stack[new, cell] = old
                continue
            if rule == COUNT_FLOATS:
                stack[new, cell] = old + 1
                continue
            y = _float(old)
            if y != y:
                y = x
            elif rule == SUM_FLOATS:
                y += x
            elif (rule == MIN_FLOATS and x < y) or (rule == MAX_FLOATS and x > y):
                y = x
            stack[new, cell] = _bits(y)


@njit(**_HELPER)
def _holds(code, first, until, place, low, stop, bits, floats, integers, slots, stack, row):
    """Return whether a condition holds at a place whose registers are in a row of the stack."""
    for i in range(first, until):
        q = np.uint64(i)
        op, target = code[q, OPERATION], code[q, SLOT]
        left, right = code[q, LEFT], code[q, RIGHT]
        truth, is_truth = False, False
        if op <= LOAD_BIT:
            if op <= LOAD_INTEGER:
                at = place
                if left >= 0:
                    at = stack[np.uint64(row), np.uint64(REGISTERS + left)]
                if at >= 0:
                    at += code[q, MORE]
                is_row = low <= at < stop
                at = np.uint64(at if is_row else low)
                if op == LOAD_FLOAT:
                    x = floats[np.uint64(right), at]
                    slots[np.uint64(target)] = _bits(x if is_row else NAN)
                else:
                    v = integers[np.uint64(right), at]
                    slots[np.uint64(target)] = v if is_row else NULL
                continue
            if op == LOAD_REGISTER:
                slots[np.uint64(target)] = stack[np.uint64(row), np.uint64(REGISTERS + left)]
                continue
            truth, is_truth = (bits >> np.uint64(left)) & np.uint64(1) != 0, True
        elif op < COMPARE_INTEGERS:
            x, y, is_truth = _float(slots[np.uint64(left)]), _float(slots[np.uint64(right)]), True
            sign = op - COMPARE_FLOATS
            if sign == 0:
                truth = x == y
            elif sign == 1:
                truth = (x < y) | (x > y)
            elif sign == 2:
                truth = x < y
            elif sign == 3:
                truth = x <= y
            elif sign == 4:
                truth = x > y
            else:
                truth = x >= y
        elif op < AND:
            u, v, is_truth = slots[np.uint64(left)], slots[np.uint64(right)], True
            sign = op - COMPARE_INTEGERS
            if u == NULL or v == NULL:
                truth = False
            elif sign == 0:
                truth = u == v
            elif sign == 1:
                truth = u != v
            elif sign == 2:
                truth = u < v
            elif sign == 3:
                truth = u <= v
            elif sign == 4:
                truth = u > v
            else:
                truth = u >= v
        elif op <= IS_NULL_INTEGER:
            u, v, is_truth = slots[np.uint64(left)], slots[np.uint64(right)], True
            if op == AND:
                truth = (u & v) != 0
            elif op == OR:
                truth = (u | v) != 0
            elif op == NOT:
                truth = u == 0
            elif op == IS_NULL_INTEGER:
                truth = u == NULL
            else:
                truth = _float(u) != _float(u)
        elif op <= REMAINDER_OF_FLOATS:
            x, y = _float(slots[np.uint64(left)]), _float(slots[np.uint64(right)])
            if op == ADD_FLOATS:
                x = x + y
            elif op == SUBTRACT_FLOATS:
                x = x - y
            elif op == MULTIPLY_FLOATS:
                x = x * y
            elif y == 0:
                x = NAN
            elif op == DIVIDE_FLOATS:
                x = x / y
            else:
                x = np.fmod(x, y)
            slots[np.uint64(target)] = _bits(x)
        elif op >= NEGATE_FLOAT and op <= ABS_FLOAT:
            x = _float(slots[np.uint64(left)])
            slots[np.uint64(target)] = _bits(-x if op == NEGATE_FLOAT else abs(x))
        else:
            u, v = slots[np.uint64(left)], slots[np.uint64(right)]
            is_null = u == NULL or v == NULL
            if op == TO_FLOAT:
                slots[np.uint64(target)] = _bits(NAN if u == NULL else np.float64(u))
                continue
            if is_null:
                u = NULL
            elif op == ADD_INTEGERS:
                u = u + v
            elif op == SUBTRACT_INTEGERS:
                u = u - v
            elif op == MULTIPLY_INTEGERS:
                u = u * v
            elif op == NEGATE_INTEGER:
                u = -u
            elif op == ABS_INTEGER:
                u = abs(u)
            elif v == 0:
                u = NULL
            elif op == DIVIDE_INTEGERS:
                u = u // v
            else:
                w = abs(u) % abs(v)
                u = w if u >= 0 else -w
            slots[np.uint64(target)] = u
        if is_truth:
            if target == REQUIRED:
                if not truth:
                    return False
            else:
                slots[np.uint64(target)] = np.int64(1) if truth else np.int64(0)
    return True


@njit(**_HELPER)
def _slot_of(memo, key, live, stack, row):
    """Return the place of a partial match in the memo."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(memo.shape[1] - 1):
        if (live >> i) & 1:
            h = (h ^ np.uint64(stack[np.uint64(row), np.uint64(REGISTERS + i)])) * np.uint64(
                0xD6E8FEB86659FD93
            )
        h ^= h >> np.uint64(32)
    return h & np.uint64(len(memo) - 1)


@njit(**_HELPER)
def _is_known(memo, key, live, stack, row):
    """Return whether a partial match is known to lead to no match."""
    slot = _slot_of(memo, key, live, stack, row)
    if memo[slot, 0] != key:
        return False
    for i in range(memo.shape[1] - 1):
        if (live >> i) & 1 and memo[slot, np.uint64(i + 1)] != stack[
            np.uint64(row), np.uint64(REGISTERS + i)
        ]:
            return False
    return True


@njit(**_HELPER)
def _remember(memo, key, live, stack, row):
    """Write that a partial match leads to no match. It takes the place of another one."""
    slot = _slot_of(memo, key, live, stack, row)
    memo[slot, 0] = key
    for i in range(memo.shape[1] - 1):
        if (live >> i) & 1:
            memo[slot, np.uint64(i + 1)] = stack[np.uint64(row), np.uint64(REGISTERS + i)]


@njit(
    [
        (
            T.NamedTuple(_types("i2i1i2i2i1"), RowMachine),
            T.NamedTuple(_types("i1m1u1s1u1f2i2i1"), SearchedPlaces),
            T.NamedTuple(_types("I2I1I2I1"), SearchWork),
            T.NamedTuple(_types("I1I1I1S1"), MatchRoom),
        )
    ],
    **_OPTIONS,
)
def search_rows(machine, places, work, room):
    """Write the preferred matches of some partitions.

    Parameters
    ----------
    machine : RowMachine
    places : SearchedPlaces
    work : SearchWork
        ``at`` has the state between calls and the limits.
    room : MatchRoom

    Returns
    -------
    int
        DONE, WORKED at the limit of work, IS_FULL if there is no room for the states of a match, NO_TARGET as
        in `find_matches`, or TOO_MUCH_WORK if a partition takes more than its budget.

    Notes
    -----
    A partial match that failed is kept in the memo with the registers that later conditions read. It is not
    tried again as long as no other one takes its place there.
    """
    states, followers, code, registers, start_values = machine
    bounds, mark, sets, first_choice, holds, floats, integers, clock = places
    stack, slots, memo, at = work
    first_match_of_partition, start_of_match, end_of_match, state_of_row = room
    p, start, depth, limit = at[PARTITION], at[PLACE], at[DEPTH], at[LIMIT]
    n_matches, n_written, spent = at[N_MATCHES], at[N_STATES], at[WORK]
    n_states, has_clock, after = len(states) - 3, len(clock) > 0, at[AFTER]
    left, result = at[WORK_LIMIT], DONE
    while p < at[UNTIL] and result == DONE:
        low, stop = bounds[p], bounds[p + 1]
        if start < 0:
            start, limit, spent, depth = low, low, 0, -1
        while start < stop:
            if left <= 0:
                result = WORKED if spent < at[BUDGET] else TOO_MUCH_WORK
                break
            if depth < 0:
                left -= 1
                if first_choice[np.uint64(mark[np.uint64(start)])] == NO_STATE:
                    start += 1
                    continue
                limit = max(limit, start + 1) if has_clock else stop
                while limit < stop and clock[limit] - clock[start] < at[WIDTH]:
                    limit += 1
                begin = n_states + 1 if start == low else n_states
                stack[0, NEXT_CHOICE], stack[0, TAKEN] = states[begin, FIRST_FOLLOWER], begin
                for i in range(len(start_values)):
                    stack[0, REGISTERS + i] = start_values[i]
                if at[NUMBER_AT] >= 0:
                    stack[0, REGISTERS + at[NUMBER_AT]] = n_matches - first_match_of_partition[p] + 1
                if at[START_AT] >= 0:
                    stack[0, REGISTERS + at[START_AT]] = start
                depth = 0
            length, before = -1, left
            while left > 0:
                d, place = np.uint64(depth), np.uint64(start + depth)
                state, k = np.uint64(stack[d, TAKEN]), stack[d, NEXT_CHOICE]
                if k == states[state + np.uint64(1), FIRST_FOLLOWER]:
                    if depth and spent + before - left > 4 * (start + depth - low) + 1000:
                        key = (start + depth - 1) * n_states + np.int64(state)
                        _remember(memo, key, states[state, LIVE], stack, depth)
                    depth -= 1
                    if depth < 0:
                        break
                    continue
                stack[d, NEXT_CHOICE] = k + 1
                t = followers[np.uint64(k)]
                if t == MATCH:
                    length = depth
                    break
                if start + depth >= limit:
                    continue
                left -= 1
                taken = np.uint64(t)
                if not (sets[np.uint64(mark[place] >> 1)] >> (taken & np.uint64(63))) & np.uint64(1):
                    continue
                bits = holds[np.uint64(start + depth - at[BASE])]
                condition = states[taken, CONDITION]
                if condition >= 0 and not (bits >> np.uint64(condition)) & np.uint64(1):
                    continue
                here, takes, label = start + depth, states[taken, TAKES], states[taken, LABEL]
                _take(registers, takes, label, here, floats, integers, stack, depth)
                first, last = states[taken, CODE], states[taken, CODE_END]
                if first < last and not _holds(
                    code, first, last, here, low, stop, bits, floats, integers, slots, stack, depth + 1
                ):
                    continue
                stack[d + np.uint64(1), TAKEN] = t
                if here + 1 == stop:
                    if states[taken, CAN_END]:
                        length = depth + 1
                        break
                    continue
                is_tried = spent + before - left > 4 * (here - low) + 1000
                key = here * n_states + t
                if is_tried and _is_known(memo, key, states[taken, LIVE], stack, depth + 1):
                    continue
                depth += 1
                stack[d + np.uint64(1), NEXT_CHOICE] = states[taken, FIRST_FOLLOWER]
            spent += before - left
            if length < 0:
                if depth < 0:
                    start += 1
                continue
            if n_written + length > len(state_of_row):
                stack[depth, NEXT_CHOICE] -= 1
                result = IS_FULL
                break
            target = -1
            for i in range(length):
                state = stack[i + 1, TAKEN]
                state_of_row[n_written + i] = state
                if after >= TO_FIRST and states[state, IS_TARGET] and (after == TO_LAST or target < 0):
                    target = start + i
            start_of_match[n_matches], end_of_match[n_matches] = start, start + length
            n_matches, n_written, depth = n_matches + 1, n_written + length, -1
            if length == 0 or after == TO_NEXT_ROW:
                start += 1
            elif after < TO_FIRST:
                start += length
            elif target <= start:
                at[TARGET] = target
                result = NO_TARGET
                break
            else:
                start = target
        if result == DONE:
            p, start, depth = p + 1, -1, -1
            first_match_of_partition[p] = n_matches
    at[PARTITION], at[PLACE], at[DEPTH], at[LIMIT], at[WORK] = p, start, depth, limit, spent
    at[N_MATCHES], at[N_STATES] = n_matches, n_written
    return result
