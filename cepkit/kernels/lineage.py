"""Kernels that find the rows of matches and the pattern positions of those rows."""

from numba import types as T

from cepkit.kernels.jit import njit

_PARTITION = T.Array(T.int32, 1, "C", readonly=True)
_READ = T.Array(T.int64, 1, "C", readonly=True)
_I1, _SHORT = T.Array(T.int64, 1, "C"), T.Array(T.int32, 1, "C")


@njit([(_PARTITION, _SHORT, _SHORT)], cache=True, nogil=True)
def place_events(partition, n_before, place):
    """Write how many events of its partition are before each event; ``n_before`` has a zero per partition."""
    for e in range(len(partition)):
        k = partition[e]
        place[e] = n_before[k]
        n_before[k] += 1


def _fill_rows(partition, current, first, last, next_match, cursor, event_of_item):
    """Write the events of each match in stream order from ``cursor[m]`` on.

    ``current[k]`` is the first match of partition k in stream order, -1 for none; ``next_match[m]`` is the
    next match of the same partition. The kernel changes ``current`` and ``cursor``. Matches of a partition do
    not overlap, so one pass over the events is enough: O(n_events).
    """
    for e in range(len(partition)):
        m = current[partition[e]]
        if m >= 0 and e >= first[m]:
            event_of_item[cursor[m]] = e
            cursor[m] += 1
            if e == last[m]:
                current[partition[e]] = next_match[m]


_FILLED = (_PARTITION, _I1, _READ, _READ, _READ, _I1)
# Events have numbers of 32 or 64 bits.
fill_short_rows = njit([(*_FILLED, _SHORT)], cache=True, nogil=True)(_fill_rows)
fill_long_rows = njit([(*_FILLED, _I1)], cache=True, nogil=True)(_fill_rows)


@njit([(_READ, _I1, _READ, T.int64, _I1)], cache=True, nogil=True)
def choose_positions(first_item_of_match, item_mask, follow, accepting, position_of_item):
    """Choose one position per row: among all ways through the pattern, the one with the smallest positions.

    ``item_mask`` holds the positions that each row can be at. A backward pass keeps only those that lead to
    the end of the match; then each row takes the smallest possible position. Return 1, or 0 if a row has none
    left, which cannot happen with the masks of a match. O(rows x positions).
    """
    n_positions = len(follow)
    for m in range(len(first_item_of_match) - 1):
        start, stop = first_item_of_match[m], first_item_of_match[m + 1]
        item_mask[stop - 1] &= accepting
        for i in range(stop - 2, start - 1, -1):
            kept = 0
            for p in range(n_positions):
                if item_mask[i] >> p & 1 and follow[p] & item_mask[i + 1]:
                    kept |= 1 << p
            item_mask[i] = kept
        allowed = item_mask[start]
        for i in range(start, stop):
            if allowed == 0:
                return 0
            p = 0
            while not allowed >> p & 1:
                p += 1
            position_of_item[i] = p
            if i + 1 < stop:
                allowed = follow[p] & item_mask[i + 1]
    return 1
