"""Kernels that count sequences with conditions on their first event, for any graph: the graph is tables."""

# The first event of a match is its *anchor*; all other events are *entries*. Each entry has a bit for each
# state that accepts it, and for conditions of edges. Tests are those of `interpreted_counting`.

from numba import types as T

from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import EntryGraph, EntryLists

_I1, _I2 = (T.Array(T.int64, n, "C") for n in (1, 2))
_U1, _F1 = (T.Array(of, 1, "C") for of in (T.uint64, T.float64))
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}
# Columns of the tables.
SOURCE, TARGET, ENTERS, LEAVES, LIST, FIRST_LINK, LAST_LINK = range(7)  # of edges
VECTOR_AT, LOW_AT, WIDTH_AT, BITS = range(4)  # of tests
ANCHOR, ENTRY, N_LISTED = range(3)  # of ``at``; then the length of the list of each edge


def _count(stop, work_limit, modulus, at, graph, scratch, out):
    """Add the numbers of matches of the anchors before ``stop`` to ``out``, by their last entry."""
    # Returns the anchor at which it stopped, at the latest after ``work_limit`` entries. ``modulus`` is
    # uint64 or float64: 0 for numbers modulo 2^64, or for floats. ``at``, (2 + n_edges,), is the state
    # between calls: the anchor, its next entry (-1: begin), and the lengths of the lists. A row of edges has
    # source and target; the bits that the later and the earlier entry need; the number of its list, or -1 if
    # any two entries fulfil it; its first and last test in ``links``. The algorithm is that of
    # `cepkit.compile.counting_anchored.write_anchored_count`. Time O(anchors x entries in a window x edges),
    # times the entries in a window for each edge with a list.
    first, until, bits_of_anchor, bits_of_entry, n_states, finals, edges, tests, links, numbers = graph
    allowed, totals, listed, listed_number = scratch
    zero, one = out.dtype.type(0), out.dtype.type(1)
    room = len(allowed)
    k, begin, work = at[ANCHOR], at[ENTRY], 0
    while k < stop and work <= work_limit:
        lo = first[k]
        n = until[k] - lo
        if begin < 0:
            begin = 0
            totals[:] = zero
            at[N_LISTED:] = 0
            own, bits = bits_of_entry[lo : lo + n], bits_of_anchor[k]
            for i in range(len(own)):
                allowed[i] = own[i] & bits
            for t in range(len(tests)):
                q = numbers[tests[t, VECTOR_AT] + lo : tests[t, VECTOR_AT] + lo + n]
                low, width = numbers[tests[t, LOW_AT] + k], numbers[tests[t, WIDTH_AT] + k]
                kept = ~tests[t, BITS]
                for i in range(len(q)):
                    allowed[i] &= -1 if q[i] - low <= width else kept
        i = begin
        while i < n and work <= work_limit:
            bits = allowed[i]
            i += 1
            work += 1
            if bits & ((1 << n_states) - 1) == 0:
                continue
            e = lo + i - 1
            for t in range(1, n_states):
                totals[t] = zero
            for c in range(len(edges)):
                s, t, enters, number = edges[c, SOURCE], edges[c, TARGET], edges[c, ENTERS], edges[c, LIST]
                if bits & enters != enters:
                    continue
                if s == 0:
                    totals[t] += one
                elif number < 0:
                    totals[t] += totals[n_states + c]
                else:
                    z = zero
                    work += at[N_LISTED + c]
                    for r in range(number * room, number * room + at[N_LISTED + c]):
                        holds = True
                        for x in range(edges[c, FIRST_LINK], edges[c, LAST_LINK]):
                            q = numbers[links[x, VECTOR_AT] + listed[r]]
                            holds &= q - numbers[links[x, LOW_AT] + e] <= numbers[links[x, WIDTH_AT] + e]
                        z += listed_number[r] if holds else zero
                    totals[t] += z
            if modulus:
                for t in range(1, n_states):
                    totals[t] %= modulus
            for c in range(len(edges)):
                s, leaves, number = edges[c, SOURCE], edges[c, LEAVES], edges[c, LIST]
                if s == 0 or totals[s] == zero or bits & leaves != leaves:
                    continue
                if number < 0:
                    totals[n_states + c] += totals[s]
                    if modulus:
                        totals[n_states + c] %= modulus
                else:
                    r = number * room + at[N_LISTED + c]
                    listed[r], listed_number[r] = e, totals[s]
                    at[N_LISTED + c] += 1
            for t in range(1, n_states):
                if finals >> t & 1:
                    out[e] += totals[t]
            if modulus:
                out[e] %= modulus
        begin = i
        if i >= n:
            k, begin, work = k + 1, -1, work + 1
    at[ANCHOR], at[ENTRY] = k, begin
    return k


def _types(of, arrays):
    graph = Record([*[_I1] * 4, T.int64, T.int64, *[_I2] * 3, _U1], EntryGraph)
    scratch = Record([_I1, arrays, _I1, arrays], EntryLists)
    return [(T.int64, T.int64, of, _I1, graph, scratch, arrays)]


count = njit(_types(T.uint64, _U1), **_OPTIONS)(_count)
count_as_floats = njit(_types(T.float64, _F1), **_OPTIONS)(_count)
