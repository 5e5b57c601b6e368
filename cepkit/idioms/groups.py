"""Groups of neighbouring rows of a partition, as numpy arrays: their ends, their numbers, and the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.events import Events

KERNELS = "cepkit.kernels.groups"
_LONGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups in the order of their last row, and the number of the group that each row belongs to.

    Groups are numbered from 1 in every partition.

    """

    first: np.ndarray  # int64, (n_groups,): stream position of the first row
    last: np.ndarray  # int64, (n_groups,): stream position of the last row
    length: np.ndarray  # int64, (n_groups,)
    number: np.ndarray  # int64, (n_groups,)
    number_of_event: np.ndarray | None  # int64, (n_events,), by stream position; 0 for rows without a group


def group_rows(
    events: Events,
    is_member: np.ndarray | None,
    ticks: np.ndarray | None = None,
    longest: float = 0,
    *,
    of_events: bool = False,
) -> Groups:
    """Return the longest groups of neighbouring rows of a partition that are all members."""
    kernels, n = load_kernels(KERNELS), events.n_events
    partition = events.partition_of_event if events.n_partitions > 1 else np.empty(0, np.int32)
    if ticks is None:
        ticks = np.empty(0, np.int64)
    if ticks.dtype.kind != "f":
        longest = int(min(longest, _LONGEST))
    of_partition = np.full(max(1, events.n_partitions), -1)
    groups = np.empty((n, 3), np.int64)  # memory that no group fills is not taken
    of_event = np.full(n if of_events else 0, -1)
    flags = np.empty(0, bool) if is_member is None else is_member
    with np.errstate(over="ignore", invalid="ignore"):  # kernels that run as Python warn
        begin = kernels.divide(
            partition, flags, ticks, longest, of_partition, np.zeros(len(of_partition), ticks.dtype), groups,
            of_event,
        )  # fmt: skip
    first, last, length, number = (np.empty(n - begin, np.int64) for _ in range(4))
    of_partition[:] = 0
    kernels.write_numbers(partition, groups, begin, of_partition, first, last, length, number, of_event)
    return Groups(first, last, length, number, of_event if of_events else None)
