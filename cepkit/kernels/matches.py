"""Kernels of regexes that split events into blocks of partitions, and find the rows of matches."""

from numba import types as T

from cepkit.kernels.jit import njit

_PARTITION, _READ = (T.Array(of, 1, "C", readonly=True) for of in (T.int32, T.int64))
_I1, _SHORT = T.Array(T.int64, 1, "C"), T.Array(T.int32, 1, "C")
_WIDTHS = (T.uint8, T.uint16, T.uint32, T.uint64)  # values of any type are read as unsigned integers
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}

# The block of a partition is block_of_group[partition >> shift]. With many partitions a group is a block and
# the table is small. With few partitions, shift is 0 and the table maps each partition to its block. The
# number of a partition within its block is partition & mask.


@njit([(_PARTITION, T.int64, _PARTITION, _I1)], **_OPTIONS)
def count_events(partition, shift, block_of_group, n_events_of_block):
    """Add the number of events of each block to ``n_events_of_block``. O(n_events)."""
    for e in range(len(partition)):
        n_events_of_block[block_of_group[partition[e] >> shift]] += 1


@njit([(_PARTITION, *[T.int64] * 3, _PARTITION, _I1, _SHORT, rows) for rows in (_SHORT, _I1)], **_OPTIONS)
def scatter_events(
    partition, first_event, shift, mask, block_of_group, cursor, local_partition, event_of_row
):
    """Write each event's partition (numbered within its block) and position to the next row of its block."""
    # ``cursor`` holds the first row of each block and is advanced. ``first_event`` is the position of the
    # first event in the input. Sequential writes to few places are several times faster than reads from many
    # places. O(n_events).
    for e in range(len(partition)):
        p = partition[e]
        b = block_of_group[p >> shift]
        row = cursor[b]
        cursor[b] = row + 1
        local_partition[row] = p & mask
        event_of_row[row] = first_event + e


@njit(
    [
        (_PARTITION, T.int64, _PARTITION, _I1, T.Array(of, 1, "C", readonly=True), T.Array(of, 1, "C"))
        for of in _WIDTHS
    ],
    **_OPTIONS,
)
def scatter_column(partition, shift, block_of_group, cursor, values, out):
    """Write each event's value to the next row of its block; ``cursor`` as in scatter_events. O(n_events)."""
    for e in range(len(partition)):
        b = block_of_group[partition[e] >> shift]
        row = cursor[b]
        cursor[b] = row + 1
        out[row] = values[e]


# The rows of matches of contiguous rows, and the pattern positions of those rows.


@njit([(_PARTITION, _SHORT, _SHORT)], cache=True, nogil=True)
def place_events(partition, n_before, place):
    """Write how many events of its partition are before each event; ``n_before`` has a zero per partition."""
    for e in range(len(partition)):
        k = partition[e]
        place[e] = n_before[k]
        n_before[k] += 1


def _fill_rows(partition, current, first, last, next_match, cursor, event_of_item):
    """Write the events of each match in stream order from ``cursor[m]`` on."""
    # ``current[k]`` is the first match of partition k in stream order, -1 for none; ``next_match[m]`` is the
    # next match of the same partition. The kernel changes ``current`` and ``cursor``. Matches of a partition
    # do not overlap, so one pass over the events is enough: O(n_events).
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
    """Choose a position for each row: of the ways through the pattern, that of the smallest positions."""
    # ``item_mask`` holds the positions that each row can be at. A backward pass keeps only those that lead to
    # the end of the match; then each row takes the smallest possible position. Return 1, or 0 if a row has
    # none left, which cannot happen with the masks of a match. O(rows x positions).
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
