"""Groups of neighbouring rows of a partition, as numpy arrays: their ends, their numbers, and the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cepkit.events import Events


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups in the order of their last row, and the number of the group that each row belongs to.

    Groups are numbered from 1 in every partition.
    """

    first: np.ndarray  # int64, (n_groups,): stream position of the first row
    last: np.ndarray  # int64, (n_groups,): stream position of the last row
    length: np.ndarray  # int64, (n_groups,)
    number: np.ndarray  # int64, (n_groups,)
    number_of_event: np.ndarray  # int64, (n_events,), by stream position; 0 for rows without a group


def group_rows(events: Events, is_member: np.ndarray, begins: np.ndarray | None = None) -> Groups:
    """Return the longest groups of neighbouring rows of a partition that are all members.

    Parameters
    ----------
    events : Events
        In stream order.
    is_member : ndarray of bool, shape (n_events,)
        By stream position.
    begins : ndarray of bool, shape (n_events,), optional
        Rows that begin a group even after a member, in the order of ``events.by_partition``.

    Notes
    -----
    Time O(n_events), after a stable sort by partition if there are several.
    """
    order = events.by_partition
    own, partition = is_member[order], events.partition_of_event[order]
    is_first_of_partition = np.ones(len(order), bool)
    is_first_of_partition[1:] = partition[1:] != partition[:-1]
    starts = own.copy()
    starts[1:] &= ~own[:-1] | is_first_of_partition[1:]
    if begins is not None:
        starts |= own & begins
    ends = own.copy()
    ends[:-1] &= ~own[1:] | starts[1:] | is_first_of_partition[1:]
    started = np.cumsum(starts)
    before_partition = (started - starts)[is_first_of_partition]
    sizes = np.diff(np.flatnonzero(is_first_of_partition), append=len(order))
    number = started - np.repeat(before_partition, sizes)
    start, end = np.flatnonzero(starts), np.flatnonzero(ends)
    by_last = np.argsort(order[end], kind="stable")
    start, end = start[by_last], end[by_last]
    number_of_event = np.zeros(len(order), np.int64)
    number_of_event[order] = np.where(own, number, 0)
    return Groups(order[start], order[end], end - start + 1, number[start], number_of_event)
