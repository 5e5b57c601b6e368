"""Kernels for matches of strategy ``next`` that have one event of each component."""

# The next event of a match depends only on its last one, so all matches that share an event share what
# follows. `walk` goes from the last event to the first, finds the next event of each, and with it the end of
# its match. The events of a component that earlier events may need are on a stack per partition, the nearest
# one on top. An event replaces those that pass no test that it fails.

import numpy as np
from numba import types as T

from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import ChainEvents, ChainOutput, ChainTask, Stacks

_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_OPTIONS, "no_cpython_wrapper": True}
_I1, _I2, _S1, _S2 = (T.Array(own, n, "C") for own in (T.int64, T.int32) for n in (1, 2))
_B1, _B2 = T.Array(T.uint8, 1, "C"), T.Array(T.uint8, 2, "C")
_READ, _SHORT_READ = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int32, 1, "C", readonly=True)
# Columns of the table of components: a test on single events; the numbers that the test between an event and
# the one before compares, of this event and of the one before; and whether equal numbers fail it.
ACCEPT, ROW, ROW_BEFORE, IS_STRICT = range(4)
# Indices of the report: of `classify`, then of `walk`.
N_LISTED, IS_SINGLE = range(2)
N_LEFT, N_MATCHES, N_ENTRIES, DEEPEST = range(4)
BLOCK = 16  # a block of last events has 2^BLOCK
_LARGEST, _INFINITE = 2**63 - 1, 0x7FF0000000000000  # bits of floats
_U = np.uint64  # of an index that is not negative: numba then looks for no end of the array


@njit([(_READ, T.int64, T.int64, _I1, _B1)], cache=True, **_OPTIONS)
def put_in_order(values, is_float, flip, out, known):
    """Write values as integers of the same order, or of the reverse one if ``flip`` is -1."""
    # Return how many are null. ``values`` has the bits of floats. NaN is null, and -0.0 equals 0.0.
    # O(values).
    if not is_float:
        for i in range(len(values)):
            out[i], known[i] = values[i] ^ flip, 1
        return 0
    n_known = 0
    for i in range(len(values)):
        size = values[i] & _LARGEST
        out[i] = (size if values[i] >= 0 else -size) ^ flip
        known[i] = size <= _INFINITE
        n_known += size <= _INFINITE
    return len(values) - n_known


@njit([(T.int64, T.int64, _B2, _I2, _B1, _S1, _I1)], cache=True, **_OPTIONS)
def classify(begin, stop, accept, components, component, listed, report):
    """List the events that a component accepts, and write the number of the component, plus 1."""
    # ``component`` says nothing if an event fits several. O((stop - begin) len(components)).
    most = np.uint8(0)
    for i in range(stop - begin):
        component[i] = 0
    for c in range(len(components)):
        row, number = accept[components[c, ACCEPT], begin:stop], np.uint8(c + 1)
        for i in range(len(row)):
            most = max(most, np.uint8(component[i] * row[i]))
            component[i] = max(component[i], np.uint8(row[i] * number))
    n = 0
    for i in range(stop - begin):
        listed[n] = i
        n += component[i] != 0
    report[N_LISTED], report[IS_SINGLE] = n, most == 0


@njit(inline="always", **_HELPER)
def _n_below(entry, stop, number, or_equal):
    """Return how many of the four entries before ``stop`` are below a number, without a branch."""
    n = np.int64(0)
    for x in range(1, 5):
        other = entry[_U(stop - x)]
        n += np.int64(other < number) | (np.int64(other == number) & or_equal)
    return n


@njit(
    [
        (
            Record([T.int64] * 8, ChainTask),
            Record([_S1, _B1, _B2, _SHORT_READ, _READ, _I2, _I2, _B2, _I1], ChainEvents),
            Record([_I1, _S1, _S1, _I1, _I1], Stacks),
            Record([_S2, _S2, _I1, _I1], ChainOutput),
            _I1,
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def walk(task, events, stacks, output, report):
    """Find the matches that begin at the listed events of a chunk and end from event ``task.low`` on."""
    # The walk ends early when ``entry`` may become full: then listed events are left. The report is that of
    # the constants of this module. Time O(log(events)) for each event.
    n_listed, is_single, chunk, limit, low, fill, within, gap = task
    listed, component, accept, partition, time, components, numbers, known, n_nulls = events
    base, size, room, entry, ends = stacks
    out, following, count_of_last, count_of_block = output
    n = len(components)
    n_matches, n_entries, deepest = np.int64(0), report[N_ENTRIES], report[DEEPEST]
    left = n_listed
    while left > 0 and n_entries + (n - 1) * max(1, 2 * deepest) <= len(entry):
        left -= 1
        i = np.int64(listed[_U(left)])
        e = chunk + i
        c, stop_c = np.int64(0), n
        if is_single:
            c = np.int64(component[_U(i)]) - 1
            stop_c = c + 1
        s = np.int64(partition[_U(e)]) * (n - 1) + c - 1  # the stack of component c
        while c < stop_c:
            if (not is_single and accept[components[c, ACCEPT], e] == 0) or (c == 0 and e >= limit):
                c += 1
                s += 1
                continue
            j, last = e, e
            if c < n - 1:
                last = np.int64(-1)
                row, is_strict = components[_U(c + 1), _U(ROW_BEFORE)], components[_U(c + 1), _U(IS_STRICT)]
                if n_nulls[_U(row)] == 0 or known[_U(row), _U(i)]:
                    number = numbers[_U(row), _U(i)]
                    b, top, step = base[_U(s + 1)], np.int64(size[_U(s + 1)]), np.int64(1)
                    if top >= 4:
                        top -= _n_below(entry, b + top, number, is_strict)
                    under = top - 1  # becomes the highest entry that is above the number
                    while under >= 0:
                        other = entry[_U(b + under)]
                        if other > number or (other == number and not is_strict):
                            break
                        top = under
                        under -= step
                        step += step
                    under = max(under, -1)
                    while under + 1 < top:
                        middle = (under + top) >> 1
                        other = entry[_U(b + middle)]
                        if other > number or (other == number and not is_strict):
                            under = middle
                        else:
                            top = middle
                    if under >= 0:
                        both = ends[_U(b + under)]
                        j, last = both >> 32, (both & 0xFFFFFFFF) - 1
                        if last >= 0 and within >= 0 and not 0 <= time[_U(last)] - time[_U(e)] <= within:
                            last = np.int64(-1)
                        if last >= 0 and gap >= 0 and not 0 <= time[_U(j)] - time[_U(e)] <= gap:
                            last = np.int64(-1)
            if c == 0 and last >= low:
                if fill:
                    out[n_matches, 0], out[n_matches, n - 1] = e, last
                    for x in range(1, n - 1):
                        out[n_matches, x] = j
                        if x < n - 2:
                            j = np.int64(following[x - 1, j])
                    count_of_block[last >> BLOCK] += 1
                elif len(count_of_last):
                    count_of_last[last] += 1
                n_matches += 1
            if c > 0:
                if fill and c < n - 2:
                    following[c - 1, e] = j
                row = components[_U(c), _U(ROW)]
                if n_nulls[_U(row)] == 0 or known[_U(row), _U(i)]:
                    number = numbers[_U(row), _U(i)]
                    b, top = base[_U(s)], np.int64(size[_U(s)])
                    if top >= 4:
                        top -= _n_below(entry, b + top, number, 1)
                    while top > 0 and entry[_U(b + top - 1)] <= number:
                        top -= 1
                    if top == room[_U(s)]:
                        for x in range(top):
                            entry[n_entries + x], ends[n_entries + x] = entry[b + x], ends[b + x]
                        b, wide = n_entries, max(1, 2 * top)
                        n_entries += wide
                        deepest = max(deepest, wide)
                        base[s], room[s] = b, wide
                    entry[_U(b + top)], ends[_U(b + top)] = number, (e << 32) + last + 1
                    size[_U(s)] = top + 1
            c += 1
            s += 1
    report[N_LEFT], report[N_MATCHES] = left, n_matches
    report[N_ENTRIES], report[DEEPEST] = n_entries, deepest


@njit([(T.int64, _S2, _I1, _S2)], cache=True, **_OPTIONS)
def deal(n_matches, matches, cursor, out):
    """Write matches, from the last to the first, to the places of the blocks of their last events."""
    # ``cursor`` has the next place of each block and is advanced. O(events of matches).
    n = matches.shape[1]
    for m in range(n_matches - 1, -1, -1):
        block = matches[m, n - 1] >> BLOCK
        for c in range(n):
            out[cursor[block], c] = matches[m, c]
        cursor[block] += 1


@njit(**_HELPER)
def _is_before(a, b, event):
    """Return whether match a has its place before match b, by the events from the last one on."""
    for c in range(len(event) - 1, -1, -1):
        x, y = event[c, a], event[c, b]
        if x != y:
            return x < y
    return False


@njit(**_HELPER)
def _sort(begin, stop, event):
    """Sort some matches in place (Shell's sort)."""
    gap = 1
    while gap < (stop - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for m in range(begin + gap, stop):
            at = m
            while at >= begin + gap and _is_before(at, at - gap, event):
                for c in range(len(event)):
                    event[c, at], event[c, at - gap] = event[c, at - gap], event[c, at]
                at -= gap
        gap //= 3
    return 0


@njit([(T.int64, T.int64, _S2, _S1, T.int64, _I2)], cache=True, **_OPTIONS)
def sort_block(begin, stop, dealt, n_before, first, event):
    """Write the matches of a block in canonical order; before, their first events rise."""
    # ``first`` is the first event of the block, and ``n_before`` is scratch with an item for each event and
    # one more. ``event`` has a row for each component. O(events of the block + events of matches), if few
    # matches share a last event.
    n = dealt.shape[1]
    for i in range(len(n_before)):
        n_before[i] = 0
    for m in range(begin, stop):
        n_before[dealt[_U(m), n - 1] - first + 1] += 1
    before = begin
    for i in range(len(n_before)):
        before += n_before[_U(i)]
        n_before[_U(i)] = before - begin
    for m in range(begin, stop):
        i = np.int64(dealt[_U(m), n - 1]) - first
        at = begin + n_before[_U(i)]
        n_before[_U(i)] += 1
        for c in range(n):
            event[_U(c), _U(at)] = dealt[_U(m), _U(c)]
    m = begin
    while m < stop:
        last, until, is_sorted = event[n - 1, m], m + 1, True
        while until < stop and event[n - 1, until] == last:
            is_sorted = is_sorted and not _is_before(until, until - 1, event)
            until += 1
        if not is_sorted:
            _sort(m, until, event)
        m = until
