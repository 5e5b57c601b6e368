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
    is_new = np.ones(len(order), bool)
    np.not_equal(partition[1:], partition[:-1], out=is_new[1:])
    # A row that does not continue the group of the row before it.
    breaks = is_new.copy()
    breaks[1:] |= ~own[:-1]
    if begins is not None:
        breaks |= begins
    starts = own & breaks
    ends = own.copy()
    ends[:-1] &= ~own[1:] | breaks[1:]
    start, end = np.flatnonzero(starts), np.flatnonzero(ends)
    started = np.cumsum(starts)
    new = np.flatnonzero(is_new)
    before = np.repeat(started[new] - starts[new], np.diff(new, append=len(order)))
    number = started - before
    number_of_event = np.zeros(len(order), np.int64)
    number_of_event[order] = number if own.all() else np.where(own, number, 0)
    # The groups by their last row, without a sort.
    group_of_last = np.full(len(order), -1, np.int64)
    group_of_last[order[end]] = np.arange(len(end))
    last = np.flatnonzero(group_of_last >= 0)
    group = group_of_last[last]
    start, end = start[group], end[group]
    return Groups(order[start], last, end - start + 1, number[start], number_of_event)
