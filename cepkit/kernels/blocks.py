"""Kernels that split events into blocks of partitions; each block is a stream in the same order."""

import numpy as np

from cepkit.kernels.jit import njit

# The block of a partition is block_of_group[partition >> shift]. With many partitions a group is a block and
# the table is small. With few partitions, shift is 0 and the table maps each partition to its block. The
# number of a partition within its block is partition & mask.


@njit(cache=True, nogil=True)
def count_events(partition, shift, block_of_group, n_events_of_block):
    """Add the number of events of each block to ``n_events_of_block``. O(n_events)."""
    for e in range(len(partition)):
        n_events_of_block[block_of_group[partition[e] >> shift]] += 1


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def scatter_column(partition, shift, block_of_group, cursor, values, out):
    """Write each event's value to the next row of its block; ``cursor`` as in scatter_events. O(n_events)."""
    for e in range(len(partition)):
        b = block_of_group[partition[e] >> shift]
        row = cursor[b]
        cursor[b] = row + 1
        out[row] = values[e]


def balanced_blocks(events_of_partition: np.ndarray, n_blocks: int) -> np.ndarray:
    """Return the block of each partition; the largest partitions go first, each to the emptiest block.

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
