"""Joins of agents by interpretation: stages and conditions are tables, terms are instructions."""

# The functions replace the generated ones of `cepkit.parallel.join_source`. The module
# `cepkit.parallel.joins` makes the tables.

import numpy as np
from numba import config
from numba import types as T

from cepkit.kernels.interpreted_walk import all_hold, is_free
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import Conditions
from cepkit.kernels.wings.agent_layout import JoinBlocks, JoinMode, JoinPartners, JoinState, World

PASSED = "join", "completes"  # kernels get their addresses
# Rows of ``limits``, as in the generated functions.
LATER, GAP_END, WINDOW_END, TIME_START, TIME_END = range(5)
# What ``integer_constants`` have before the registers: the number of stages, the number of registers, and
# where those of a thread begin in ``first``. The tables are the matrices in ``vectors``, as 64 bits.
N_STAGES, N_REGISTERS, BEGIN, N_HEADER = range(4)
STAGES, LISTED, CONDITIONS, LOOPS, LOADS, GROUPS, CODE, ABSENCES = range(8)
# Columns of the table of stages.
(
    N,
    COMPONENT,
    HIGH,
    IN_ORDER,
    HAS_LOOP,
    IS_LAST,
    LOW,
    NEEDS_LATER,
    GAP_AFTER,
    NEEDS_EARLIER,
    GAP_BEFORE,
    IS_IN_FRONT,
    FIRST_TAKING,
    FIRST_COMPLETING,
    FIRST_ABSENCE,
    LAST_ABSENCE,
    IS_BEGUN_BY_TEST,
) = range(17)  # fmt: skip
ALWAYS, IN_LOOP = 1, 2  # when a gap ends before the event
_I1, _I2, _I3 = (T.Array(T.int64, n, "C") for n in (1, 2, 3))
_READ_I1, _READ_I2 = (T.Array(T.int64, n, "C", readonly=True) for n in (1, 2))
_READ_F1, _READ_F2, _READ_F3 = (T.Array(T.float64, n, "C", readonly=True) for n in (1, 2, 3))
_READ_U1, _READ_U2 = (T.Array(T.uint8, n, "C", readonly=True) for n in (1, 2))
_WORLD = Record([_READ_I2, _READ_U2, _READ_F2, _READ_I2, _READ_F3, _READ_F1, _READ_I1, _READ_U1], World)
_OPTIONS = {
    "nogil": True, "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # fmt: skip
_WRITTEN_OUT = {**_OPTIONS, "inline": "always"}  # without it, numba returns no arrays
_INLINED = {**_OPTIONS, "forceinline": True}


@njit(**_WRITTEN_OUT)
def _table(tables, number):
    return tables[number].view(np.int64)


@njit(**_WRITTEN_OUT)
def _query(first, world):
    """Return the conditions with registers of the thread, at the end of ``first``."""
    tables, numbers = world.vectors, world.integer_constants
    n, begin = numbers[N_REGISTERS], numbers[BEGIN]
    ri = first[begin : begin + n]
    rf = first[begin + n : begin + 2 * n].view(np.float64)
    for i in range(n):
        ri[i] = numbers[N_HEADER + i]
        rf[i] = world.float_constants[i]
    return Conditions(
        _table(tables, CONDITIONS), _table(tables, LOOPS), _table(tables, LOADS), _table(tables, GROUPS),
        _table(tables, CODE), world.floats, world.integers, rf, ri,
    )  # fmt: skip


@njit(**_INLINED)
def _is_placed(own, path, first, h, limits):
    """Return whether order and limits allow the event at depth h."""
    e = path[h]
    if own[NEEDS_LATER] and h > 0:
        b = path[h - 1]
        ends = own[GAP_AFTER] == ALWAYS or (own[GAP_AFTER] == IN_LOOP and first[own[COMPONENT]] < h)
        if e < limits[LATER, b] or (ends and e >= limits[GAP_END, b]):
            return False
    if own[NEEDS_EARLIER]:
        b = path[h + 1]
        if b < limits[LATER, e] or (own[GAP_BEFORE] and b >= limits[GAP_END, e]):
            return False
    return path[first[own[N]] - 1] < limits[WINDOW_END, path[0]]


# Generated joins have the text of the next two functions and of `join`, with a ``scan`` of their own.


@njit(**_INLINED)
def loaded(items, sizes, b, row, c, n_components, path, first):
    """Write a partial match with room for an event of component c into the path; return the event's depth."""
    d, s, h = 0, 0, 0
    for k in range(n_components):
        first[k] = d
        for _ in range(sizes[b, row, k]):
            path[d] = items[b, row, s]
            d += 1
            s += 1
        if k == c:
            h = d
            d += 1
    first[n_components] = d
    return h


@njit(**_INLINED)
def first_beyond(values, low, high, limit):
    """Return the first index from ``low`` on with a value above the limit, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > limit:
            high = middle
        else:
            low = middle + 1
    return low


@njit(**_INLINED)
def scan(own, listed, query, limits, blocks, state, events, part, rising, counted):
    """Join a partial match with a range of events; return the results, pairs, tested pairs, and the end."""
    b, row, low, high, n = part
    _, path, first, out, _, _ = state
    h = loaded(blocks.items, blocks.sizes, b, row, own[COMPONENT], own[N], path, first)
    compared, is_trimmed = 0, rising and own[IN_ORDER] and h > 0 and not own[HAS_LOOP]
    if is_trimmed:
        later, end = limits[LATER, path[h - 1]], limits[WINDOW_END, path[0]]
        if own[GAP_AFTER] == ALWAYS:
            end = min(end, limits[GAP_END, path[h - 1]])
        while low < high and events[0, low] < later:
            low += 1
        while low < high and events[0, high - 1] >= end:
            high -= 1
    for i in range(low, high):
        path[h] = events[0, i]
        if not (is_trimmed or _is_placed(own, path, first, h, limits)):
            continue
        compared += 1
        if all_hold(own[FIRST_TAKING], own[FIRST_COMPLETING], listed, query, path, first, h, path[h]):
            if not counted:
                out[0, n], out[1, n], out[2, n] = b, row, path[h]
            n += 1
            if n == out.shape[1] and not counted:
                return n, compared, compared, i + 1
    return n, compared, compared, high


# numba passes the fields of named tuples one by one, so the arguments are those of the generated functions.


@njit(
    [
        (
            T.int64, Record([T.int64, T.int64, _I2], JoinPartners),
            Record([_I2, _I3, T.Array(T.int32, 3, "C"), _I3], JoinBlocks), _READ_I2,
            Record([T.int64] * 3, JoinMode), Record([_I1, _I1, _I1, _I2, _I1, _I1], JoinState), _WORLD,
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def join(stage, partners, blocks, events, mode, state, world):
    """Join blocks of partial matches with events; see `cepkit.parallel.join_source.write_joins`."""
    n_blocks, n_ranges, lists = partners
    header, _, sizes, spans = blocks
    scoped, rising, counted = mode
    at, _, first, out, report, _ = state
    limits, query = world.limits, _query(first, world)
    own, listed = _table(world.vectors, STAGES)[stage], _table(world.vectors, LISTED)
    c, in_order, most = own[COMPONENT], own[IN_ORDER], own[HIGH]
    counted = counted and own[IS_LAST]
    k, row, r, begin = at[0], at[1], at[2], at[3]
    n, compared, looked, tested = 0, 0, 0, 0
    while k < n_blocks:
        b = lists[0, k]
        n_rows = header[b, 1]
        while row < n_rows:
            last, limit = spans[0, b, row], spans[1, b, row]
            while r < n_ranges:
                low, high = lists[1, r], lists[2, r]
                if scoped:
                    if events[1, low] > limit or (in_order and events[1, high - 1] <= last):
                        high = low
                    elif in_order:
                        if events[1, low] <= last:
                            low = first_beyond(events[1], low, high, last)
                    else:
                        low = first_beyond(events[2], low, high, last - 1)
                    if high > low and events[1, high - 1] > limit:
                        high = first_beyond(events[1], low, high, limit)
                if begin < 0:
                    looked += high - low
                else:
                    low = begin
                if low < high and sizes[b, row, c] < most:
                    part = b, row, low, high, n
                    n, tried, new, begin = scan(
                        own, listed, query, limits, blocks, state, events, part, rising, counted
                    )
                    compared += tried
                    tested += new
                    if n == out.shape[1] and not counted:
                        at[0], at[1], at[2], at[3] = k, row, r, begin
                        report[0], report[1], report[2] = compared, looked, tested
                        return n
                r += 1
                begin = -1
            row += 1
            r = 0
        k += 1
        row = 0
    at[0] = k
    report[0], report[1], report[2] = compared, looked, tested
    return n


@njit([(T.int64, _I1, _I1, _WORLD)], cache=True, **_OPTIONS)
def completes(stage, path, first, world):
    """Return whether the path may pass to the next join; ``write_joins`` says more."""
    limits, tables, query = world.limits, world.vectors, _query(first, world)
    stages, listed, n_stages = (
        _table(tables, STAGES),
        _table(tables, LISTED),
        world.integer_constants[N_STAGES],
    )
    if stage >= n_stages:
        own = stages[stage - n_stages]
        if not own[IS_BEGUN_BY_TEST]:
            return True
        return _is_placed(own, path, first, 0, limits) and all_hold(
            own[FIRST_TAKING], own[FIRST_COMPLETING], listed, query, path, first, 0, path[0]
        )
    own = stages[stage]
    c = own[COMPONENT]
    if own[LOW] > 1 and first[c + 1] - first[c] < own[LOW]:
        return False
    if own[IS_IN_FRONT] and path[first[c + 1]] >= limits[GAP_END, path[first[c + 1] - 1]]:
        return False
    if not all_hold(
        own[FIRST_COMPLETING], own[FIRST_ABSENCE], listed, query, path, first, first[c + 1] - 1, 0
    ):
        return False
    absences = _table(tables, ABSENCES)
    absent = absences[:, 7], world.accept, limits[TIME_START], limits[TIME_END]
    begin, end = own[FIRST_ABSENCE], own[LAST_ABSENCE]
    return is_free(begin, end, listed, absences, absent, query, path, first, first[own[N]] - 1)


def _of_fields(function, *records):
    """Return a function of the fields of named tuples, as machine code is; None is a plain argument."""

    def call(*given):
        values = iter(given)
        take = lambda record: record(*(next(values) for _ in record._fields))  # noqa: E731
        return function(*[take(record) if record else next(values) for record in records])

    return call if config.DISABLE_JIT else function


join = _of_fields(join, None, JoinPartners, JoinBlocks, None, JoinMode, JoinState, World)
completes = _of_fields(completes, None, None, None, World)
