"""Kernels that cut events into blocks of partitions, each block a stream of its own in the same order."""

import numpy as np
from numba import njit

# A partition's block is block_of_group[partition >> shift]: with many partitions a group is a block and the
# table small; with few, shift is 0 and the table says which partition goes where. Its number within the block
# is partition & mask.


@njit(cache=True, nogil=True)
def count_events(partition, shift, block_of_group, n_events_of_block):
    """Add the number of events of each block to ``n_events_of_block``. O(n_events)."""
    for e in range(len(partition)):
        n_events_of_block[block_of_group[partition[e] >> shift]] += 1


@njit(cache=True, nogil=True)
def scatter_events(
    partition, first_event, shift, mask, block_of_group, cursor, local_partition, event_of_row
):
    """Write each event's partition (numbered within its block) and position at its block's next row.

    ``cursor`` holds the rows to start at and is used up; ``first_event`` is the position of the first event
    given. Writing in order to few places is several times faster than reading from many. O(n_events).
    """
    for e in range(len(partition)):
        p = partition[e]
        b = block_of_group[p >> shift]
        row = cursor[b]
        cursor[b] = row + 1
        local_partition[row] = p & mask
        event_of_row[row] = first_event + e


@njit(cache=True, nogil=True)
def scatter_column(partition, shift, block_of_group, cursor, values, out):
    """Write each event's value at its block's next row; ``cursor`` as in scatter_events. O(n_events)."""
    for e in range(len(partition)):
        b = block_of_group[partition[e] >> shift]
        row = cursor[b]
        cursor[b] = row + 1
        out[row] = values[e]


def balanced_blocks(events_of_partition, n_blocks):
    """Return the block of each partition, the largest partitions dealt first to the emptiest block.

    Parameters
    ----------
    events_of_partition : ndarray of int64, shape (n_partitions,)
    n_blocks : int

    Returns
    -------
    ndarray of int32, shape (n_partitions,)
    """
    load = np.zeros(n_blocks, np.int64)
    block = np.zeros(len(events_of_partition), np.int32)
    for p in np.argsort(-events_of_partition, kind="stable"):
        b = int(load.argmin())
        block[p] = b
        load[b] += events_of_partition[p]
    return block
