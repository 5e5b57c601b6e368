"""The kernel that searches row patterns, also those whose conditions look at the rows of the match so far."""

# From each place, a depth-first search tries the states in the order of preference. The automaton and the
# conditions are tables, so one kernel serves every query. A *place* is a row in the order of its partition.

import numpy as np
from numba import types as T

import cepkit.kernels.row_codes as op
from cepkit.kernels.jit import njit
from cepkit.kernels.row_codes import MatchRoom, RowMachine, SearchedPlaces, SearchWork

NULL = -(2**63)
NAN, BLOCK, EXACT = np.nan, op.BLOCK, 2.0**52
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
        r, cell = np.uint64(i), np.uint64(op.REGISTERS + i)
        old = stack[now, cell]
        if not (takes >> i) & 1:
            stack[new, cell] = old
            continue
        rule, argument = registers[r, op.RULE], registers[r, op.ARGUMENT]
        if rule <= op.LAST_LABEL:
            value = old
            before = stack[now, np.uint64(op.REGISTERS + argument)] if argument >= 0 else np.int64(0)
            if rule >= op.LAST_PLACE:
                value = before if argument >= 0 else place if rule == op.LAST_PLACE else label
            elif old == NULL and before != NULL:
                value = place if rule == op.FIRST_PLACE else label
            stack[new, cell] = value
        elif rule <= op.MAX_INTEGERS:
            v = np.int64(0) if rule == op.COUNT_ROWS else integers[np.uint64(argument), np.uint64(place)]
            if v == NULL:
                stack[new, cell] = old
            elif rule <= op.COUNT_INTEGERS:
                stack[new, cell] = old + 1
            elif old == NULL:
                stack[new, cell] = v
            elif rule == op.SUM_INTEGERS:
                stack[new, cell] = old + v
            elif rule == op.MIN_INTEGERS:
                stack[new, cell] = v if v < old else old
            else:
                stack[new, cell] = v if v > old else old
        else:
            x = floats[np.uint64(argument), np.uint64(place)]
            if x != x:
                stack[new, cell] = old
                continue
            if rule == op.COUNT_FLOATS:
                stack[new, cell] = old + 1
                continue
            y = _float(old)
            if y != y:
                y = x
            elif rule == op.SUM_FLOATS:
                y += x
            elif (rule == op.MIN_FLOATS and x < y) or (rule == op.MAX_FLOATS and x > y):
                y = x
            stack[new, cell] = _bits(y)


@njit(**_HELPER)
def _holds(code, first, until, place, low, stop, bits, floats, integers, slots, stack, row):
    """Return whether a condition holds at a place whose registers are in a row of the stack."""
    for i in range(first, until):
        q = np.uint64(i)
        operation, target = code[q, op.OPERATION], code[q, op.SLOT]
        left, right = code[q, op.LEFT], code[q, op.RIGHT]
        truth, is_truth = False, False
        if operation <= op.LOAD_BIT:
            if operation <= op.LOAD_INTEGER:
                at = place
                if left >= 0:
                    at = stack[np.uint64(row), np.uint64(op.REGISTERS + left)]
                if at >= 0:
                    at += code[q, op.MORE]
                is_row = low <= at < stop
                at = np.uint64(at if is_row else low)
                if operation == op.LOAD_FLOAT:
                    x = floats[np.uint64(right), at]
                    slots[np.uint64(target)] = _bits(x if is_row else NAN)
                else:
                    v = integers[np.uint64(right), at]
                    slots[np.uint64(target)] = v if is_row else NULL
                continue
            if operation == op.LOAD_REGISTER:
                slots[np.uint64(target)] = stack[np.uint64(row), np.uint64(op.REGISTERS + left)]
                continue
            truth, is_truth = (bits >> np.uint64(left)) & np.uint64(1) != 0, True
        elif operation < op.COMPARE_INTEGERS:
            x, y, is_truth = _float(slots[np.uint64(left)]), _float(slots[np.uint64(right)]), True
            sign = operation - op.COMPARE_FLOATS
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
        elif operation < op.AND:
            u, v, is_truth = slots[np.uint64(left)], slots[np.uint64(right)], True
            sign = operation - op.COMPARE_INTEGERS
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
        elif operation <= op.IS_NULL_INTEGER:
            u, v, is_truth = slots[np.uint64(left)], slots[np.uint64(right)], True
            if operation == op.AND:
                truth = (u & v) != 0
            elif operation == op.OR:
                truth = (u | v) != 0
            elif operation == op.NOT:
                truth = u == 0
            elif operation == op.IS_NULL_INTEGER:
                truth = u == NULL
            else:
                truth = _float(u) != _float(u)
        elif operation <= op.REMAINDER_OF_FLOATS:
            x, y = _float(slots[np.uint64(left)]), _float(slots[np.uint64(right)])
            if operation == op.ADD_FLOATS:
                x = x + y
            elif operation == op.SUBTRACT_FLOATS:
                x = x - y
            elif operation == op.MULTIPLY_FLOATS:
                x = x * y
            elif y == 0:
                x = NAN
            elif operation == op.DIVIDE_FLOATS:
                x = x / y
            else:
                x = np.fmod(x, y)
            slots[np.uint64(target)] = _bits(x)
        elif operation >= op.NEGATE_FLOAT and operation <= op.ABS_FLOAT:
            x = _float(slots[np.uint64(left)])
            slots[np.uint64(target)] = _bits(-x if operation == op.NEGATE_FLOAT else abs(x))
        else:
            u, v = slots[np.uint64(left)], slots[np.uint64(right)]
            is_null = u == NULL or v == NULL
            if operation == op.TO_FLOAT:
                slots[np.uint64(target)] = _bits(NAN if u == NULL else np.float64(u))
                continue
            if is_null:
                u = NULL
            elif operation == op.ADD_INTEGERS:
                u = u + v
            elif operation == op.SUBTRACT_INTEGERS:
                u = u - v
            elif operation == op.MULTIPLY_INTEGERS:
                u = u * v
            elif operation == op.NEGATE_INTEGER:
                u = -u
            elif operation == op.ABS_INTEGER:
                u = abs(u)
            elif v == 0:
                u = NULL
            elif operation == op.DIVIDE_INTEGERS:
                u = u // v
            else:
                w = abs(u) % abs(v)
                u = w if u >= 0 else -w
            slots[np.uint64(target)] = u
        if is_truth:
            if target == op.REQUIRED:
                if not truth:
                    return False
            else:
                slots[np.uint64(target)] = np.int64(1) if truth else np.int64(0)
    return True


@njit(**_HELPER)
def _slot_of(memo, key, live, stack, row):
    """Return the place of a partial match in the memo."""
    h, low = np.uint64(key), np.uint64(0xFFFFFFFF)  # products of numbers of 32 bits fit
    h = ((h ^ (h >> np.uint64(32))) & low) * np.uint64(0x9E3779B1)
    for i in range(memo.shape[1] - 1):
        if (live >> i) & 1:
            h ^= np.uint64(stack[np.uint64(row), np.uint64(op.REGISTERS + i)])
            h = ((h ^ (h >> np.uint64(32))) & low) * np.uint64(0x85EBCA77)
    h ^= h >> np.uint64(29)
    return h & np.uint64(len(memo) - 1)


@njit(**_HELPER)
def _is_known(memo, key, live, stack, row):
    """Return whether a partial match is known to lead to no match."""
    slot = _slot_of(memo, key, live, stack, row)
    if memo[slot, 0] != key:
        return False
    for i in range(memo.shape[1] - 1):
        if (live >> i) & 1 and memo[slot, np.uint64(i + 1)] != stack[
            np.uint64(row), np.uint64(op.REGISTERS + i)
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
            memo[slot, np.uint64(i + 1)] = stack[np.uint64(row), np.uint64(op.REGISTERS + i)]


@njit(**_HELPER)
def _step(registers, takes, stack, row, n):
    """Change the registers of a loop by ``n`` rows of it."""
    for i in range(len(registers)):
        rule = registers[np.uint64(i), op.RULE]
        if (takes >> i) & 1 and rule in (op.LAST_PLACE, op.COUNT_ROWS):
            stack[np.uint64(row), np.uint64(op.REGISTERS + i)] += n


@njit(**_HELPER)
def _of_block(code, first, until, block, changing, places, work, row, low, stop):
    """Return 1 if a condition holds at all places of a block, -1 if it holds at none, and else 0."""
    # ``changing`` are the registers that do not keep their values. The ends of slots are NaN for constants.
    floats, integers, lows, highs = places.floats, places.integers, places.lows, places.highs
    stack, slots, ends, whole = work.stack, work.slots, work.ends, 1
    for i in range(first, until):
        operation, target = code[i, op.OPERATION], code[i, op.SLOT]
        left, right = code[i, op.LEFT], code[i, op.RIGHT]
        least, most = -np.inf, np.inf
        if operation <= op.LOAD_INTEGER and left == op.HERE:
            column = right if operation == op.LOAD_FLOAT else right + len(floats)
            if code[i, op.MORE] == 0:
                least, most = lows[column, block], highs[column, block]
        elif operation <= op.LOAD_INTEGER and not (changing >> left) & 1:
            at = stack[row, op.REGISTERS + left] + code[i, op.MORE]
            if low <= at < stop and stack[row, op.REGISTERS + left] >= 0:
                x = NAN
                if operation == op.LOAD_FLOAT:
                    x = floats[right, at]
                elif integers[right, at] != NULL:
                    x = np.float64(integers[right, at])
                if x == x:
                    least = most = x
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        if operation > op.LOAD_BIT:
            of_floats = operation < op.COMPARE_INTEGERS or op.ADD_FLOATS <= operation < op.ADD_INTEGERS
            a, b, c, d = ends[0, left], ends[1, left], ends[0, right], ends[1, right]
            if a != a:
                a = b = _float(slots[left]) if of_floats else np.float64(slots[left])
            if c != c:
                c = d = _float(slots[right]) if of_floats else np.float64(slots[right])
        if operation == op.TO_FLOAT:
            least, most = a, b
        elif operation in (op.ADD_FLOATS, op.ADD_INTEGERS):
            least, most = a + c, b + d
        elif operation in (op.SUBTRACT_FLOATS, op.SUBTRACT_INTEGERS):
            least, most = a - d, b - c
        elif operation in (op.MULTIPLY_FLOATS, op.MULTIPLY_INTEGERS) and max(b - a, d - c) < np.inf:
            least = min(min(a * c, a * d), min(b * c, b * d))
            most = max(max(a * c, a * d), max(b * c, b * d))
        if not (abs(least) < EXACT and abs(most) < EXACT):  # NaN, too
            least, most = -np.inf, np.inf
        if target != op.REQUIRED:
            ends[0, target], ends[1, target] = least, most
            continue
        if operation < op.COMPARE_FLOATS or operation >= op.AND:
            whole = 0
            continue
        sign = operation - (op.COMPARE_FLOATS if operation < op.COMPARE_INTEGERS else op.COMPARE_INTEGERS)
        if sign >= 4:  # the other way round
            sign, a, b, c, d = sign - 2, c, d, a, b
        is_never = b < c or d < a
        if sign == 0 and is_never:
            return -1
        if sign == 2 and a >= d:
            return -1
        if sign == 3 and a > d:
            return -1
        if not ((sign == 1 and is_never) or (sign == 2 and b < c) or (sign == 3 and b <= c and b < np.inf)):
            whole = 0
    return whole


@njit(**_HELPER)
def _can_skip(machine, places, work, state, block, row, low, stop):
    """Return whether no state can follow a loop at any place of a block."""
    states, followers = machine.states, machine.followers
    for k in range(states[state, op.FIRST_FOLLOWER] + 1, states[state + 1, op.FIRST_FOLLOWER]):
        t = followers[k]
        if t == op.MATCH:
            return False
        if not (places.any_of_block[block] >> np.uint64(t)) & np.uint64(1):
            continue
        changing = states[state, op.TAKES] | states[t, op.TAKES]
        first, last = states[t, op.CODE], states[t, op.CODE_END]
        if _of_block(machine.code, first, last, block, changing, places, work, row, low, stop) >= 0:
            return False
    return True


@njit(
    [
        (
            T.NamedTuple(_types("i2i1i2i2i1"), RowMachine),
            T.NamedTuple(_types("i1m1u1s1u1f2i2i1f2f2u1u1"), SearchedPlaces),
            T.NamedTuple(_types("I2I1F2I2I1"), SearchWork),
            T.NamedTuple(_types("I1I1I1S1"), MatchRoom),
        )
    ],
    **_OPTIONS,
)
def search_rows(machine, places, work, room):
    """Write the preferred matches of some partitions. ``work.at`` has the state between calls, and limits."""
    # Returns DONE, WORKED at the limit of work, IS_FULL if there is no room for the states of a match,
    # NO_TARGET if AFTER MATCH cannot skip to ``at[TARGET]`` (-1: there is no target), or TOO_MUCH_WORK if a
    # partition takes more than its budget.
    # A partial match that failed is kept in the memo with the registers that later conditions read. It is not
    # tried again as long as no other one takes its place there. A loop is one row of the stack: it takes rows
    # as long as it can, and then gives them back one by one. It goes over blocks of rows where the least and
    # the greatest values of the block decide the conditions.
    states, followers, code, registers, start_values = machine
    bounds, mark, sets, holds, clock = places.bounds, places.mark, places.sets, places.holds, places.clock
    first_choice, floats, integers = places.first_choice, places.floats, places.integers
    stack, slots, memo, at = work.stack, work.slots, work.memo, work.at
    first_match_of_partition, start_of_match, end_of_match, state_of_row = room
    p, start, depth, limit = at[op.PARTITION], at[op.PLACE], at[op.DEPTH], at[op.LIMIT]
    n_matches, n_written, spent = at[op.N_MATCHES], at[op.N_STATES], at[op.WORK]
    n_states, has_clock, after = len(states) - 3, len(clock) > 0, at[op.AFTER]
    patience = at[op.PATIENCE]  # the work before partial matches are kept in the memo
    enders, last = np.uint64(at[op.ENDERS]), start  # the next place where a match can end
    left, result, has_blocks = at[op.WORK_LIMIT], op.DONE, len(places.any_of_block) > 0
    while p < at[op.UNTIL] and result == op.DONE:
        low, stop = bounds[p], bounds[p + 1]
        if start < 0:
            start, limit, last, spent, depth = low, low, low, 0, -1
        while start < stop:
            if left <= 0:
                result = op.WORKED if spent < at[op.BUDGET] else op.TOO_MUCH_WORK
                break
            if depth < 0:
                left -= 1
                if first_choice[np.uint64(mark[np.uint64(start)])] == op.NO_STATE:
                    start += 1
                    continue
                limit = max(limit, start + 1) if has_clock else stop
                while limit < stop and clock[limit] - clock[start] < at[op.WIDTH]:
                    limit += 1
                begin = n_states + 1 if start == low else n_states
                if has_clock and not states[begin, op.CAN_END]:
                    last = max(last, start)
                    while last < limit and not sets[np.uint64(mark[last] >> 1)] & enders:
                        last += 1
                    if last == limit:  # no match can end in time
                        start += 1
                        continue
                stack[0, op.NEXT_CHOICE], stack[0, op.TAKEN] = states[begin, op.FIRST_FOLLOWER], begin
                stack[0, op.BEGIN], stack[0, op.END] = start, start
                for i in range(len(start_values)):
                    stack[0, op.REGISTERS + i] = start_values[i]
                if at[op.NUMBER_AT] >= 0:
                    number = n_matches - first_match_of_partition[p] + 1
                    stack[0, op.REGISTERS + at[op.NUMBER_AT]] = number
                if at[op.START_AT] >= 0:
                    stack[0, op.REGISTERS + at[op.START_AT]] = start
                depth = 0
            length, before = -1, left
            while left > 0:
                d = np.uint64(depth)
                state, k, here = np.uint64(stack[d, op.TAKEN]), stack[d, op.NEXT_CHOICE], stack[d, op.END]
                first = states[state, op.FIRST_FOLLOWER]
                is_long = spent + before - left > 4 * (here - low) + patience
                if k == states[state + np.uint64(1), op.FIRST_FOLLOWER]:
                    if depth and is_long:
                        key = (here - 1) * n_states + np.int64(state)
                        _remember(memo, key, states[state, op.LIVE], stack, depth)
                    if here > stack[d, op.BEGIN]:
                        left -= 1
                        n = 1
                        if has_blocks and here % BLOCK == 0 and here - BLOCK >= stack[d, op.BEGIN]:
                            block = here // BLOCK - 1
                            if _can_skip(machine, places, work, np.int64(state), block, depth, low, stop):
                                n = BLOCK
                        stack[d, op.END] = here - n
                        _step(registers, states[state, op.TAKES], stack, depth, -n)
                        if n == 1:
                            stack[d, op.NEXT_CHOICE] = first + 1
                        continue
                    depth -= 1
                    if depth < 0:
                        break
                    continue
                stack[d, op.NEXT_CHOICE] = k + 1
                t = followers[np.uint64(k)]
                if t == op.MATCH:
                    length = here - start
                    break
                if here >= limit:
                    continue
                left -= 1
                taken, place = np.uint64(t), np.uint64(here)
                if not (sets[np.uint64(mark[place] >> 1)] >> (taken & np.uint64(63))) & np.uint64(1):
                    continue
                bits, condition = holds[place], states[taken, op.CONDITION]
                if condition >= 0 and not (bits >> np.uint64(condition)) & np.uint64(1):
                    continue
                takes, live = states[taken, op.TAKES], states[taken, op.LIVE]
                line, line_end = states[taken, op.CODE], states[taken, op.CODE_END]
                if k == first and states[state, op.IS_LOOP]:
                    n = 1
                    if has_blocks and here % BLOCK == 0 and here + BLOCK <= limit:
                        block = here // BLOCK
                        if (places.every_of_block[block] >> taken) & np.uint64(1) and _of_block(
                            code, line, line_end, block, takes, places, work, depth, low, stop
                        ) > 0:
                            n = BLOCK
                    if (
                        n == 1
                        and line < line_end
                        and not _holds(
                            code, line, line_end, here, low, stop, bits, floats, integers, slots, stack, depth
                        )
                    ):
                        continue
                    _step(registers, takes, stack, depth, n)
                    if is_long and n == 1 and _is_known(memo, here * n_states + t, live, stack, depth):
                        _step(registers, takes, stack, depth, -1)
                        continue
                    stack[d, op.END], stack[d, op.NEXT_CHOICE] = here + n, k
                    if here + n == stop and states[taken, op.CAN_END]:
                        length = stop - start
                        break
                    continue
                _take(registers, takes, states[taken, op.LABEL], here, floats, integers, stack, depth)
                if line < line_end and not _holds(
                    code, line, line_end, here, low, stop, bits, floats, integers, slots, stack, depth + 1
                ):
                    continue
                is_end = here + 1 == stop
                if is_end and not states[taken, op.CAN_END]:
                    continue
                if is_long and not is_end and _is_known(memo, here * n_states + t, live, stack, depth + 1):
                    continue
                depth += 1
                new = np.uint64(depth)
                stack[new, op.TAKEN], stack[new, op.NEXT_CHOICE] = t, states[taken, op.FIRST_FOLLOWER]
                stack[new, op.BEGIN], stack[new, op.END] = here + 1, here + 1
                if is_end:
                    length = stop - start
                    break
            spent += before - left
            if length < 0:
                if depth < 0:
                    start += 1
                continue
            if n_written + length > len(state_of_row):
                depth, result = -1, op.IS_FULL
                break
            target = -1
            for i in range(1, depth + 1):
                state, first, end = stack[i, op.TAKEN], stack[i, op.BEGIN] - 1, stack[i, op.END]
                for row in range(first, end):
                    state_of_row[n_written + row - start] = state
                if after >= op.TO_FIRST and states[state, op.IS_TARGET]:
                    target = end - 1 if after == op.TO_LAST else first if target < 0 else target
            start_of_match[n_matches], end_of_match[n_matches] = start, start + length
            n_matches, n_written, depth = n_matches + 1, n_written + length, -1
            if length == 0 or after == op.TO_NEXT_ROW:
                start += 1
            elif after < op.TO_FIRST:
                start += length
            elif target <= start:
                at[op.TARGET] = target
                result = op.NO_TARGET
                break
            else:
                start = target
        if result == op.DONE:
            p, start, depth = p + 1, -1, -1
            first_match_of_partition[p] = n_matches
    at[op.PARTITION], at[op.PLACE], at[op.DEPTH], at[op.LIMIT], at[op.WORK] = p, start, depth, limit, spent
    at[op.N_MATCHES], at[op.N_STATES] = n_matches, n_written
    return result
