"""Kernels that split events into blocks of partitions; each block is a stream in the same order."""

from numba import types as T

from cepkit.kernels.jit import njit

_READ, _INT4, _INT8 = (
    T.Array(T.int32, 1, "C", readonly=True),
    T.Array(T.int32, 1, "C"),
    T.Array(T.int64, 1, "C"),
)
_WIDTHS = (T.uint8, T.uint16, T.uint32, T.uint64)  # values of any type are read as unsigned integers
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}

# The block of a partition is block_of_group[partition >> shift]. With many partitions a group is a block and
# the table is small. With few partitions, shift is 0 and the table maps each partition to its block. The
# number of a partition within its block is partition & mask.


@njit([(_READ, T.int64, _READ, _INT8)], **_OPTIONS)
def count_events(partition, shift, block_of_group, n_events_of_block):
    """Add the number of events of each block to ``n_events_of_block``. O(n_events)."""
    for e in range(len(partition)):
        n_events_of_block[block_of_group[partition[e] >> shift]] += 1


@njit([(_READ, *[T.int64] * 3, _READ, _INT8, _INT4, rows) for rows in (_INT4, _INT8)], **_OPTIONS)
def scatter_events(
    partition, first_event, shift, mask, block_of_group, cursor, local_partition, event_of_row
):
    """Write each event's partition (numbered within its block) and position to the next row of its block.

    ``cursor`` holds the first row of each block and is advanced. ``first_event`` is the position of the first
    event in the input. Sequential writes to few places are several times faster than reads from many places.
    O(n_events).
    """
    for e in range(len(partition)):
        p = partition[e]
        b = block_of_group[p >> shift]
        row = cursor[b]
        cursor[b] = row + 1
        local_partition[row] = p & mask
        event_of_row[row] = first_event + e


@njit(
    [
        (_READ, T.int64, _READ, _INT8, T.Array(of, 1, "C", readonly=True), T.Array(of, 1, "C"))
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
