"""Kernels that interpret a regex query: its automaton is tables and its conditions are instructions."""

# They are compiled once per installation, since no query changes their code. The arguments have fixed types.

import numpy as np
from numba import types as T

import cepkit.kernels.records as op
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import (
    PAST_LAST,
    TO_FIRST_OF,
    TO_LAST,
    TO_NEXT,
    AutomatonTables,
    LiveStarts,
    RowTask,
)

NULL = -(2**63)
LARGEST = 2**63 - 1
NAN = np.nan
EXP, LOG, LOG2, LOG10, POWER = range(5)
_PARTITION = T.Array(T.int32, 1, "C", readonly=True)
_READ, _READ_FLOATS = (T.Array(of, 1, "C", readonly=True) for of in (T.int64, T.float64))
_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_F1, _F2 = (T.Array(T.float64, n, "C") for n in (1, 2))
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}
_AUTOMATON = Record([*[_I2] * 3, _I1, _F1, _I1], AutomatonTables)
_HELPER = {name: value for name, value in _OPTIONS.items() if name != "cache"} | {"no_cpython_wrapper": True}


@njit([(_PARTITION, _I1, _I1)], **_OPTIONS)
def number_rows(partition, ordinal, number):
    """Write the number of every event in its partition; ``ordinal`` has that of the next one. O(n_events)."""
    for j in range(len(partition)):
        k = np.uint32(partition[j])
        number[j] = ordinal[k]
        ordinal[k] += 1


@njit([(_PARTITION, _READ, _READ, _I2, _I1)], **_OPTIONS)
def take_earlier(partition, number, values, past, earlier):
    """Write for every event the value some rows before it in its partition, as 64 bits. O(n_events)."""
    # ``number`` is that of each event in its partition. ``past``, (n_partitions, distance), has the last
    # values of each partition: the value of row i is in column ``i % distance``.
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
        if carried[i, op.IS_FLOAT]:
            rf[carried[i, op.CARRIED]] = of_floats[at_float, r]
            at_float += 1
        else:
            ri[carried[i, op.CARRIED]] = of_integers[at_integer, r]
            at_integer += 1
    return 0


@njit(**_HELPER)
def _begin(carried, of_floats, of_integers, w, rf, ri):
    """Store what a new partial match w carries."""
    at_float, at_integer = 0, 0
    for i in range(len(carried)):
        given = carried[i, op.GIVEN]
        if carried[i, op.IS_FLOAT]:
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
        action, known = carried[i, op.ACTION], carried[i, op.KNOWN]
        is_known = known < 0 or ri[known] != 0
        if carried[i, op.IS_FLOAT]:
            old = rf[carried[i, op.CARRIED]]
            if action != op.KEEP:
                x = rf[carried[i, op.GIVEN]]
                y = old + x if action == op.SUM else old
                if (action == op.MAX and x > old) or (action == op.MIN and x < old):
                    y = x
                if not carried[i, op.IS_NULLABLE]:
                    old = y
                elif is_known:
                    old = x if old != old else y
            of_floats[at_float, w] = old
            at_float += 1
        else:
            kept = ri[carried[i, op.CARRIED]]
            if action == op.COUNT:
                kept += 1 if is_known else 0
            elif action != op.KEEP:
                u = ri[carried[i, op.GIVEN]]
                v = kept + u if action == op.SUM else kept
                if (action == op.MAX and u > kept) or (action == op.MIN and u < kept):
                    v = u
                is_null = kept < 0 if carried[i, op.IS_CODE] else kept == NULL
                if not carried[i, op.IS_NULLABLE]:
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
        what, target, left, right = code[q, 0], code[q, 1], code[q, 2], code[q, 3]
        if what < 6:
            x, y = rf[left], rf[right]
            if what == 0:
                holds = x == y
            elif what == 1:
                holds = (x < y) | (x > y)
            elif what == 2:
                holds = x < y
            elif what == 3:
                holds = x <= y
            elif what == 4:
                holds = x > y
            else:
                holds = x >= y
            ri[target] = 1 if holds else 0
        elif what < 12:
            u, v = ri[left], ri[right]
            if what == 6:
                holds = u == v
            elif what == 7:
                holds = u != v
            elif what == 8:
                holds = u < v
            elif what == 9:
                holds = u <= v
            elif what == 10:
                holds = u > v
            else:
                holds = u >= v
            ri[target] = 1 if holds else 0
        elif what == op.AND:
            ri[target] = ri[left] & ri[right]
        elif what == op.OR:
            ri[target] = ri[left] | ri[right]
        elif what == op.REQUIRE:
            f &= every if ri[left] else ~target
            if f == 0:
                break
        elif what == op.ADD_FLOATS:
            rf[target] = rf[left] + rf[right]
        elif what == op.SUBTRACT_FLOATS:
            rf[target] = rf[left] - rf[right]
        elif what == op.MULTIPLY_FLOATS:
            rf[target] = rf[left] * rf[right]
        elif what == op.DIVIDE_FLOATS:
            rf[target] = rf[left] / rf[right] if rf[right] != 0 else NAN
        elif what == op.ADD_INTEGERS:
            ri[target] = ri[left] + ri[right]
        elif what == op.SUBTRACT_INTEGERS:
            ri[target] = ri[left] - ri[right]
        elif what == op.MULTIPLY_INTEGERS:
            ri[target] = ri[left] * ri[right]
        elif what == op.NEGATE_FLOAT:
            rf[target] = -rf[left]
        elif what == op.NEGATE_INTEGER:
            ri[target] = -ri[left]
        elif what == op.ABS_FLOAT:
            rf[target] = abs(rf[left])
        elif what == op.ABS_INTEGER:
            ri[target] = abs(ri[left])
        elif what == op.TO_FLOAT:
            rf[target] = np.float64(ri[left])
        elif what == op.FLOAT_OR_NAN:
            rf[target] = rf[left] if ri[right] else NAN
        elif what == op.INTEGER_OR_NULL:
            ri[target] = ri[left] if ri[right] else NULL
        elif what == op.SUBTRACT_TIMES:
            u, v = ri[left], ri[right]
            z = u - v
            ri[target] = z if ((u ^ v) & (u ^ z)) >= 0 else (LARGEST if u >= 0 else -LARGEST)
        elif what == op.ADD_TIMES:
            u, v = ri[left], ri[right]
            z = u + v
            ri[target] = z if ((u ^ z) & (v ^ z)) >= 0 else (LARGEST if u >= 0 else -LARGEST)
    return f


@njit(**_HELPER)
def follow_of(follow, mask):
    """Return the union of the successors of a mask."""
    f = follow[0, mask & 255]
    for b in range(1, len(follow)):
        f |= follow[b, (mask >> (8 * b)) & 255]
    return f


@njit(
    [
        (
            Record([T.int64] * 5, RowTask), _PARTITION, _I1, _F2, _I2, _AUTOMATON,
            Record([_I1, _I2, _I1, _I1, _F2, _I2], LiveStarts), _I1, _I1, _I1,
        )
    ],
    **_OPTIONS,
)  # fmt: skip
def advance(rows, partition, fulfilled, floats, integers, automaton, state, out_first, out_last, report):
    """Advance the partial matches of all partitions by the events from ``rows.start`` to ``rows.stop``."""
    # ``fulfilled`` has the mask of the positions whose conditions on the event alone hold. ``floats`` and
    # ``integers``, (n_values, n_events), are what other conditions read: value i goes to register i, and
    # integers follow floats. The report has where it stopped, matches, work, most live starts and the reason,
    # as in the generated kernels. O(live starts of the partition x instructions) per event.
    start, stop, row_base, room, work_limit = rows
    code, carried, follow, masks, rf, ri = automaton
    live, list_place, start_of, mask_of, list_floats, list_integers = state
    every, first, accepting, dominated = masks[0], masks[1], masks[2], masks[3]
    n_floats, n_integers = floats.shape[0], integers.shape[0]
    n_out, work, most, reason, consumed = 0, 0, 0, 0, stop
    for j in range(start, stop):
        k = np.uint32(partition[j])
        m = live[k]
        at, capacity = list_place[k, 0], list_place[k, 1]
        if m >= capacity or work > work_limit or n_out >= room:
            reason = 1 if m >= capacity else 3
            consumed = j
            break
        e = fulfilled[j]
        for i in range(n_floats):
            rf[i] = floats[i, j]
        for i in range(n_integers):
            ri[n_floats + i] = integers[i, j]
        best, w, covered = -1, at, 0
        work += m
        most = max(most, m)
        for r in range(at, at + m):
            f = follow_of(follow, mask_of[r])
            f &= e & (every ^ (covered & dominated))
            if f == 0:
                continue
            _load(carried, list_floats, list_integers, r, rf, ri)
            f = run_instructions(code, f, every, rf, ri)
            if f == 0:
                continue
            covered |= f
            if f & accepting:
                best = start_of[r]
                break
            start_of[w], mask_of[w] = start_of[r], f
            _go_on(carried, list_floats, list_integers, w, rf, ri)
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
            _begin(carried, list_floats, list_integers, w, rf, ri)
            w += 1
        live[k] = w - at
    report[0], report[1], report[2], report[3], report[4] = (
        consumed,
        n_out,
        work,
        max(report[3], most),
        reason,
    )
    return n_out


@njit(**_HELPER)
def take_row(j, f, is_first, fulfilled, floats, integers, automaton, of_floats, of_integers):
    """Take row j as the first or next row of a partial match, and return the positions that it reaches."""
    code, carried, follow, masks, rf, ri = automaton
    n_floats, n_integers = floats.shape[0], integers.shape[0]
    for i in range(n_floats):
        rf[i] = floats[i, j]
    for i in range(n_integers):
        ri[n_floats + i] = integers[i, j]
    if is_first:
        _begin(carried, of_floats, of_integers, 0, rf, ri)
        return masks[1] & fulfilled[j]
    _load(carried, of_floats, of_integers, 0, rf, ri)
    f = run_instructions(code, follow_of(follow, f) & fulfilled[j], masks[0], rf, ri)
    _go_on(carried, of_floats, of_integers, 0, rf, ri)
    return f


_ROWS = [_I1, _F2, _I2, _AUTOMATON, _F2, _I2]


@njit([(_I1, _I1, *_ROWS, _I1)], **_OPTIONS)
def reach(begin, first_item, fulfilled, floats, integers, automaton, of_floats, of_integers, item_mask):
    """Write the mask of the positions that each row of each match reaches."""
    # The rows of match m have the items from ``first_item[m]`` to ``first_item[m + 1]``; the first of them is
    # row ``begin[m]``. Arrays by event are as in `advance`, by row. ``of_floats`` and ``of_integers``,
    # (n_carried, 1), are scratch. O(items x instructions).
    f = 0
    for m in range(len(first_item) - 1):
        for i in range(first_item[m], first_item[m + 1]):
            j = begin[m] + i - first_item[m]
            f = take_row(j, f, j == begin[m], fulfilled, floats, integers, automaton, of_floats, of_integers)
            item_mask[i] = f


@njit(**_HELPER)
def row_of_name(start, last, named, wants_first, follow, accepting, reached):
    """Return the first or last row of a match with a position of ``named``, or -1; change ``reached``."""
    # The positions are those of `cepkit.kernels.matches.choose_positions`.
    reached[last] &= accepting
    for j in range(last - 1, start - 1, -1):
        kept, p = 0, 0
        while reached[j] >> p:
            if reached[j] >> p & 1 and follow_of(follow, 1 << p) & reached[j + 1]:
                kept |= 1 << p
            p += 1
        reached[j] = kept
    row, allowed = -1, reached[start]
    for j in range(start, last + 1):
        position = allowed & -allowed
        if position & named and (row < 0 or not wants_first):
            row = j
        if j < last:
            allowed = follow_of(follow, position) & reached[j + 1]
    return row


@njit([(_I1, _I1, *_ROWS, _I1, _I1, _I1, _I1)], **_OPTIONS)
def search(
    bounds, rule, fulfilled, floats, integers, automaton, of_floats, of_integers, reached, at, out_first,
    out_last,
):  # fmt: skip
    """Search the rows of each partition from one start to the next, as ``after_match`` and ``keep`` say."""
    # The rows of partition p are those from ``bounds[p]`` to ``bounds[p + 1]``. ``rule`` has the code of
    # ``after_match``, the mask of its name, whether the longest match counts, and how many rows a call may
    # look at. ``at`` has the partition and the row where the search is, the end of an unfinished match or -1,
    # and the row to continue at if it is no later one. ``reached``, (n_rows,), is scratch. Other arrays are
    # as in `reach`. O(rows x length of partial matches x instructions).
    follow, masks = automaton.follow, automaton.masks
    skip, named, is_longest, most_work = rule[0], rule[1], rule[2], rule[3]
    first, accepting, p, s, n_out, work = masks[1], masks[2], at[0], at[1], 0, 0
    while p < len(bounds) - 1 and n_out < len(out_first) and work < most_work:
        stop = bounds[p + 1]
        if s >= stop:
            p += 1
            continue
        work += 1
        if first & fulfilled[s] == 0:
            s += 1
            continue
        f, last, j = 0, -1, s
        while j < stop:
            f = take_row(j, f, j == s, fulfilled, floats, integers, automaton, of_floats, of_integers)
            if f == 0:
                break
            reached[j] = f
            if f & accepting:
                last = j
                if not is_longest:
                    break
            j += 1
        work += j - s
        target = s + 1
        if last >= 0:
            if skip == PAST_LAST:
                target = last + 1
            elif skip == TO_LAST:
                target = max(last, s + 1)
            elif skip != TO_NEXT:
                target = row_of_name(s, last, named, skip == TO_FIRST_OF, follow, accepting, reached)
                if target <= s:
                    at[2], at[3] = last, target
                    break
            out_first[n_out], out_last[n_out] = s, last
            n_out += 1
        s = target
    at[0], at[1] = p, s
    return n_out


# Functions that numpy rounds in its own way, computed as generated kernels compute them.


@njit([(T.int64, _READ_FLOATS, _READ_FLOATS, _F1)], **_OPTIONS)
def compute(function, x, y, out):
    """Write a function of each x to ``out``, by its number above; the power of each x and y. O(n)."""
    # The code of each value is that of `cepkit.compile.shared.term_writing`, so the bits are equal.
    for i in range(len(x)):
        if function == EXP:
            out[i] = np.exp(x[i])
        elif function == LOG:
            out[i] = np.log(x[i]) if x[i] > 0 else NAN
        elif function == LOG2:
            out[i] = np.log2(x[i]) if x[i] > 0 else NAN
        elif function == LOG10:
            out[i] = np.log10(x[i]) if x[i] > 0 else NAN
        else:
            has_power = (x[i] != 0 or y[i] >= 0) and x[i] == x[i] and y[i] == y[i]
            out[i] = np.power(x[i], y[i]) if has_power else NAN
