"""Kernels that divide rows into groups of neighbours of a partition, such as sessions and runs."""

from numba import types as T

from cepkit.kernels.jit import njit

_PARTITION, _FLAGS = (T.Array(of, 1, "C", readonly=True) for of in (T.int32, T.bool_))
_TICKS, _FLOATS = (T.Array(of, 1, "C", readonly=True) for of in (T.int64, T.float64))
_I1, _F1, _I2, _READ = (
    T.Array(T.int64, 1, "C"),
    T.Array(T.float64, 1, "C"),
    T.Array(T.int64, 2, "C"),
    T.Array(T.int64, 2, "C", readonly=True),
)


@njit(
    [
        (_PARTITION, _FLAGS, _TICKS, T.int64, _I1, _I1, _I2, _I1),
        (_PARTITION, _FLAGS, _FLOATS, T.float64, _I1, _F1, _I2, _I1),
    ],
    cache=True,
    nogil=True,
)
def divide(partition, is_member, ticks, longest, group_of_partition, later_tick, groups, group_of_event):
    """Write first event, last event and length of each group to the end of ``groups``; return the first row.

    The pass goes from the last event to the first, so that the groups are in the order of their last events.
    Members of a partition are in one group if no other event of it is between them, and if the pause between
    neighbours is at most ``longest``. An array without items stands for one partition, for members only, for
    no clock, or for no interest in the groups of events. ``group_of_partition`` is -1 at first. O(n_events).
    """
    n_events, has_partitions, has_flags = len(groups), len(partition) > 0, len(is_member) > 0
    has_ticks, is_asked = len(ticks) > 0, len(group_of_event) > 0
    begin, p = n_events, 0
    for e in range(n_events - 1, -1, -1):
        if has_partitions:
            p = partition[e]
        if has_flags and not is_member[e]:
            group_of_partition[p] = -1
            continue
        g = group_of_partition[p]
        goes_on = g >= 0
        if has_ticks:
            pause = later_tick[p] - ticks[e]  # negative if it has no 64 bits
            goes_on = goes_on and not (pause > longest or pause < 0)
            later_tick[p] = ticks[e]
        if goes_on:
            groups[g, 0] = e
            groups[g, 2] += 1
        else:
            begin -= 1
            g = begin
            group_of_partition[p] = g
            groups[g, 0], groups[g, 1], groups[g, 2] = e, e, 1
        if is_asked:
            group_of_event[e] = g
    return begin


@njit([(_PARTITION, _READ, T.int64, _I1, _I1, _I1, _I1, _I1, _I1)], cache=True, nogil=True)
def write_numbers(
    partition, groups, begin, n_of_partition, first, last, length, number_of_group, number_of_event
):
    """Write the numbers of the groups of each partition, from 1, and the columns of ``groups`` as arrays.

    ``number_of_event`` has the groups of the events, -1 for none, and receives their numbers, 0 for none.
    O(n_groups + n_events).
    """
    p = 0
    for g in range(len(first)):
        first[g], last[g], length[g] = groups[begin + g, 0], groups[begin + g, 1], groups[begin + g, 2]
        if len(partition) > 0:
            p = partition[last[g]]
        n_of_partition[p] += 1
        number_of_group[g] = n_of_partition[p]
    for e in range(len(number_of_event)):
        g = number_of_event[e]
        number_of_event[e] = number_of_group[g - begin] if g >= 0 else 0
