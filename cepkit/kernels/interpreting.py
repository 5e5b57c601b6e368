"""Kernels that interpret a regex query: its automaton is tables and its conditions are instructions.

They are compiled once per installation, since no query changes their code. The arguments have fixed types.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.jit import Record, njit
from cepkit.kernels.opcodes import (
    ABS_FLOAT,
    ABS_INTEGER,
    ACTION,
    ADD_FLOATS,
    ADD_INTEGERS,
    ADD_TIMES,
    AND,
    CARRIED,
    COUNT,
    DIVIDE_FLOATS,
    FLOAT_OR_NAN,
    GIVEN,
    INTEGER_OR_NULL,
    IS_CODE,
    IS_FLOAT,
    IS_NULLABLE,
    KEEP,
    KNOWN,
    MAX,
    MIN,
    MULTIPLY_FLOATS,
    MULTIPLY_INTEGERS,
    NEGATE_FLOAT,
    NEGATE_INTEGER,
    OR,
    REQUIRE,
    SUBTRACT_FLOATS,
    SUBTRACT_INTEGERS,
    SUBTRACT_TIMES,
    SUM,
    TO_FLOAT,
)  # fmt: skip
from cepkit.kernels.records import AutomatonTables, LiveStarts, RowTask

NULL = -(2**63)
LARGEST = 2**63 - 1
NAN = np.nan
_PARTITION = T.Array(T.int32, 1, "C", readonly=True)
_READ = T.Array(T.int64, 1, "C", readonly=True)
_I1, _I2, _I3 = (T.Array(T.int64, n, "C") for n in (1, 2, 3))
_F1, _F2, _F3 = (T.Array(T.float64, n, "C") for n in (1, 2, 3))
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}
_AUTOMATON = Record([*[_I2] * 3, _I1, _F1, _I1], AutomatonTables)
_HELPER = {name: value for name, value in _OPTIONS.items() if name != "cache"} | {"no_cpython_wrapper": True}


@njit([(_PARTITION, _I1, _I1)], **_OPTIONS)
def number_rows(partition, ordinal, number):
    """Write the number of every event in its partition; ``ordinal`` has the number of the next one.

    Notes
    -----
    Time O(n_events).
    """
    for j in range(len(partition)):
        k = np.uint32(partition[j])
        number[j] = ordinal[k]
        ordinal[k] += 1


@njit([(_PARTITION, _READ, _READ, _I2, _I1)], **_OPTIONS)
def take_earlier(partition, number, values, past, earlier):
    """Write for every event the value some rows before it in its partition, as 64 bits.

    Parameters
    ----------
    partition : ndarray of int32, shape (n_events,)
    number : ndarray of int64, shape (n_events,)
        Number of each event in its partition.
    values : ndarray of int64, shape (n_events,)
        Of the events.
    past : ndarray of int64, shape (n_partitions, distance)
        The last values of each partition. The value of row i is in column ``i % distance``.
    earlier : ndarray of int64, shape (n_events,)

    Notes
    -----
    Time O(n_events).
    """
    distance = past.shape[1]
    for j in range(len(partition)):
        k = np.uint32(partition[j])
        cell = np.uint64(number[j] % distance) if distance > 1 else np.uint64(0)
        earlier[j] = past[k, cell]
        past[k, cell] = values[j]


@njit(**_HELPER)
def _load(carried, of_floats, of_integers, r, rf, ri):
    """Load what partial match r carries into its registers."""
    at_float, at_integer = 0, 0
    for i in range(len(carried)):
        if carried[i, IS_FLOAT]:
            rf[carried[i, CARRIED]] = of_floats[at_float, r]
            at_float += 1
        else:
            ri[carried[i, CARRIED]] = of_integers[at_integer, r]
            at_integer += 1
    return 0


@njit(**_HELPER)
def _begin(carried, of_floats, of_integers, w, rf, ri):
    """Store what a new partial match w carries."""
    at_float, at_integer = 0, 0
    for i in range(len(carried)):
        given = carried[i, GIVEN]
        if carried[i, IS_FLOAT]:
            of_floats[at_float, w] = rf[given]
            at_float += 1
        else:
            of_integers[at_integer, w] = ri[given]
            at_integer += 1
    return 0


@njit(**_HELPER)
def _go_on(carried, of_floats, of_integers, w, rf, ri):
    """Store what the partial match in the registers carries after the event, as partial match w."""
    at_float, at_integer = 0, 0
    for i in range(len(carried)):
        action, known = carried[i, ACTION], carried[i, KNOWN]
        is_known = known < 0 or ri[known] != 0
        if carried[i, IS_FLOAT]:
            old = rf[carried[i, CARRIED]]
            if action != KEEP:
                x = rf[carried[i, GIVEN]]
                y = old + x if action == SUM else old
                if (action == MAX and x > old) or (action == MIN and x < old):
                    y = x
                if not carried[i, IS_NULLABLE]:
                    old = y
                elif is_known:
                    old = x if old != old else y
            of_floats[at_float, w] = old
            at_float += 1
        else:
            kept = ri[carried[i, CARRIED]]
            if action == COUNT:
                kept += 1 if is_known else 0
            elif action != KEEP:
                u = ri[carried[i, GIVEN]]
                v = kept + u if action == SUM else kept
                if (action == MAX and u > kept) or (action == MIN and u < kept):
                    v = u
                is_null = kept < 0 if carried[i, IS_CODE] else kept == NULL
                if not carried[i, IS_NULLABLE]:
                    kept = v
                elif is_known:
                    kept = u if is_null else v
            of_integers[at_integer, w] = kept
            at_integer += 1
    return 0


@njit(**_HELPER)
def run_instructions(code, f, every, rf, ri):
    """Return the positions of ``f`` whose conditions hold, by the instructions."""
    for q in range(len(code)):
        op, target, left, right = code[q, 0], code[q, 1], code[q, 2], code[q, 3]
        if op < 6:
            x, y = rf[left], rf[right]
            if op == 0:
                holds = x == y
            elif op == 1:
                holds = (x < y) | (x > y)
            elif op == 2:
                holds = x < y
            elif op == 3:
                holds = x <= y
            elif op == 4:
                holds = x > y
            else:
                holds = x >= y
            ri[target] = 1 if holds else 0
        elif op < 12:
            u, v = ri[left], ri[right]
            if op == 6:
                holds = u == v
            elif op == 7:
                holds = u != v
            elif op == 8:
                holds = u < v
            elif op == 9:
                holds = u <= v
            elif op == 10:
                holds = u > v
            else:
                holds = u >= v
            ri[target] = 1 if holds else 0
        elif op == AND:
            ri[target] = ri[left] & ri[right]
        elif op == OR:
            ri[target] = ri[left] | ri[right]
        elif op == REQUIRE:
            f &= every if ri[left] else ~target
            if f == 0:
                break
        elif op == ADD_FLOATS:
            rf[target] = rf[left] + rf[right]
        elif op == SUBTRACT_FLOATS:
            rf[target] = rf[left] - rf[right]
        elif op == MULTIPLY_FLOATS:
            rf[target] = rf[left] * rf[right]
        elif op == DIVIDE_FLOATS:
            rf[target] = rf[left] / rf[right] if rf[right] != 0 else NAN
        elif op == ADD_INTEGERS:
            ri[target] = ri[left] + ri[right]
        elif op == SUBTRACT_INTEGERS:
            ri[target] = ri[left] - ri[right]
        elif op == MULTIPLY_INTEGERS:
            ri[target] = ri[left] * ri[right]
        elif op == NEGATE_FLOAT:
            rf[target] = -rf[left]
        elif op == NEGATE_INTEGER:
            ri[target] = -ri[left]
        elif op == ABS_FLOAT:
            rf[target] = abs(rf[left])
        elif op == ABS_INTEGER:
            ri[target] = abs(ri[left])
        elif op == TO_FLOAT:
            rf[target] = np.float64(ri[left])
        elif op == FLOAT_OR_NAN:
            rf[target] = rf[left] if ri[right] else NAN
        elif op == INTEGER_OR_NULL:
            ri[target] = ri[left] if ri[right] else NULL
        elif op == SUBTRACT_TIMES:
            u, v = ri[left], ri[right]
            z = u - v
            ri[target] = z if ((u ^ v) & (u ^ z)) >= 0 else (LARGEST if u >= 0 else -LARGEST)
        elif op == ADD_TIMES:
            u, v = ri[left], ri[right]
            z = u + v
            ri[target] = z if ((u ^ z) & (v ^ z)) >= 0 else (LARGEST if u >= 0 else -LARGEST)
    return f


@njit(**_HELPER)
def _follow(follow, mask):
    """Return the union of the successors of a mask."""
    f = follow[0, mask & 255]
    for b in range(1, len(follow)):
        f |= follow[b, (mask >> (8 * b)) & 255]
    return f


@njit(
    [
        (
            Record([T.int64] * 5, RowTask), _PARTITION, _I1, _F2, _I2, _AUTOMATON,
            Record([_I1, _I2, _I2, _F3, _I3], LiveStarts), _I1, _I1, _I1,
        )
    ],
    **_OPTIONS,
)  # fmt: skip
def advance(rows, partition, fulfilled, floats, integers, automaton, state, out_first, out_last, report):
    """Advance the partial matches of all partitions by the events from ``rows.start`` to ``rows.stop``.

    ``fulfilled`` has the mask of the positions whose conditions on the event alone hold. ``floats`` and
    ``integers``, (n_values, n_events), are what other conditions read: value i goes to register i, and
    integers follow floats. The report has where it stopped, matches, work, most live starts and the reason,
    as in the generated kernels. O(live starts of the partition x instructions) per event.
    """
    start, stop, row_base, room, work_limit = rows
    code, carried, follow, masks, rf, ri = automaton
    live, list_start, list_mask, list_floats, list_integers = state
    every, first, accepting, dominated = masks[0], masks[1], masks[2], masks[3]
    n_floats, n_integers = floats.shape[0], integers.shape[0]
    capacity = list_start.shape[1]
    n_out, work, most, reason, consumed = 0, 0, 0, 0, stop
    for j in range(start, stop):
        k = np.uint32(partition[j])
        m = live[k]
        if m >= capacity or work > work_limit or n_out >= room:
            reason = 1 if m >= capacity else 3
            consumed = j
            break
        e = fulfilled[j]
        for i in range(n_floats):
            rf[i] = floats[i, j]
        for i in range(n_integers):
            ri[n_floats + i] = integers[i, j]
        start_of, mask_of = list_start[k], list_mask[k]
        best, w, covered = -1, 0, 0
        work += m
        most = max(most, m)
        for r in range(m):
            f = _follow(follow, mask_of[r])
            f &= e & (every ^ (covered & dominated))
            if f == 0:
                continue
            _load(carried, list_floats[k], list_integers[k], r, rf, ri)
            f = run_instructions(code, f, every, rf, ri)
            if f == 0:
                continue
            covered |= f
            if f & accepting:
                best = start_of[r]
                break
            start_of[w], mask_of[w] = start_of[r], f
            _go_on(carried, list_floats[k], list_integers[k], w, rf, ri)
            w += 1
        f = first & e
        if best < 0 and f & accepting:
            best = row_base + j
        if best >= 0:
            out_first[n_out], out_last[n_out] = best, row_base + j
            n_out += 1
            live[k] = 0
            continue
        f &= every ^ (covered & dominated)
        if f != 0:
            start_of[w], mask_of[w] = row_base + j, f
            _begin(carried, list_floats[k], list_integers[k], w, rf, ri)
            w += 1
        live[k] = w
    report[0], report[1], report[2], report[3], report[4] = (
        consumed,
        n_out,
        work,
        max(report[3], most),
        reason,
    )
    return n_out


@njit([(_I1, _I1, _F2, _I2, _AUTOMATON, _F2, _I2, _I1)], **_OPTIONS)
def reach(first_item, fulfilled, floats, integers, automaton, of_floats, of_integers, item_mask):
    """Write the mask of the positions that each row of each match reaches.

    The rows of match m are the items from ``first_item[m]`` to ``first_item[m + 1]``. Arrays by event are as
    in `advance`, by item. ``of_floats`` and ``of_integers``, (n_carried, 1), are scratch. O(items x
    instructions).
    """
    code, carried, follow, masks, rf, ri = automaton
    every, first = masks[0], masks[1]
    n_floats, n_integers = floats.shape[0], integers.shape[0]
    for m in range(len(first_item) - 1):
        f = 0
        for j in range(first_item[m], first_item[m + 1]):
            for i in range(n_floats):
                rf[i] = floats[i, j]
            for i in range(n_integers):
                ri[n_floats + i] = integers[i, j]
            if j == first_item[m]:
                f = first & fulfilled[j]
                _begin(carried, of_floats, of_integers, 0, rf, ri)
            else:
                _load(carried, of_floats, of_integers, 0, rf, ri)
                f = run_instructions(code, _follow(follow, f) & fulfilled[j], every, rf, ri)
                _go_on(carried, of_floats, of_integers, 0, rf, ri)
            item_mask[j] = f
