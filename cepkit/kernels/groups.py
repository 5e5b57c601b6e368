"""Kernels that divide rows into groups such as sessions and runs, and that find the sequences of EQL."""

from numba import types as T

from cepkit.kernels.jit import njit

_PARTITION, _FLAGS = (T.Array(of, 1, "C", readonly=True) for of in (T.int32, T.bool_))
_TICKS, _FLOATS = (T.Array(of, 1, "C", readonly=True) for of in (T.int64, T.float64))
_I1, _F1, _I2, _B1 = (
    T.Array(T.int64, 1, "C"),
    T.Array(T.float64, 1, "C"),
    T.Array(T.int64, 2, "C"),
    T.Array(T.bool_, 1, "C"),
)


@njit(
    [
        (_PARTITION, _TICKS, T.int64, T.int64, _FLAGS, _I1, _I1, _I1, _B1),
        (_PARTITION, _FLOATS, T.float64, T.float64, _FLAGS, _I1, _F1, _F1, _B1),
    ],
    cache=True,
    nogil=True,
)
def mark_begins(partition, ticks, gap, span, ends, state, first_tick, last_tick, begins):
    """Set ``begins`` for events that must begin a group: after a pause, a long time, or an end."""
    # A pause is longer than ``gap``; a group lasts at most ``span``; a negative number is no limit. The event
    # after one in ``ends`` begins a group. ``state`` is 0 for each partition at first; the other arrays of
    # partitions need no values. An array without items stands for one partition, no clock, or no ends.
    # O(n_events).
    has_partitions, has_ticks, has_ends, p = len(partition) > 0, len(ticks) > 0, len(ends) > 0, 0
    for e in range(len(begins)):
        if has_partitions:
            p = partition[e]
        is_new = begins[e] or state[p] != 1
        if has_ticks:
            tick = ticks[e]
            if not is_new and gap >= 0:
                pause = tick - last_tick[p]  # negative if it has no 64 bits
                is_new = pause > gap or pause < 0
            if not is_new and span >= 0:
                lasted = tick - first_tick[p]
                is_new = lasted > span or lasted < 0
            if is_new:
                first_tick[p] = tick
            last_tick[p] = tick
        begins[e] = is_new
        state[p] = 2 if has_ends and ends[e] else 1


@njit([(_PARTITION, _FLAGS, _FLAGS, _I1, _I1, _I2, _I1)], cache=True, nogil=True)
def divide(partition, is_member, begins, group_of_partition, later_event, groups, group_of_event):
    """Write the groups to the end of ``groups``, and return the row of the first of them."""
    # A row has first event, last event, length, and the events of the partition before and after the group,
    # -1 for none. The pass goes from the last event to the first, so that the groups are in the order of
    # their last events. Members of a partition are in one group if no other event of it is between them, and
    # none of them but the first is in ``begins``. An array without items stands for one partition, for
    # members only, for no begins, or for no interest in the groups of events. Arrays of partitions are -1 at
    # first. O(n_events).
    n_events, has_partitions, has_flags = len(groups), len(partition) > 0, len(is_member) > 0
    has_begins, is_asked = len(begins) > 0, len(group_of_event) > 0
    begin, p = n_events, 0
    for e in range(n_events - 1, -1, -1):
        if has_partitions:
            p = partition[e]
        g = group_of_partition[p]  # a group that may continue, -1, or -2 - g for a group that has begun
        if g < -1:
            groups[-2 - g, 3] = e
            g = -1
        if has_flags and not is_member[e]:
            if g >= 0:
                groups[g, 3] = e
            group_of_partition[p], later_event[p] = -1, e
            continue
        if g >= 0:
            groups[g, 0] = e
            groups[g, 2] += 1
        else:
            begin -= 1
            g = begin
            groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3], groups[g, 4] = e, e, 1, -1, later_event[p]
        if is_asked:
            group_of_event[e] = g
        group_of_partition[p] = -2 - g if has_begins and begins[e] else g
        later_event[p] = e
    return begin


@njit([(_PARTITION, _TICKS, _I1, _I1)], cache=True, nogil=True)
def number_groups(partition, last, n_of_partition, number):
    """Write the numbers of the groups, from 1 in each partition, in the order of ``last``. O(n_groups)."""
    p = 0
    for g in range(len(last)):
        if len(partition) > 0:
            p = partition[last[g]]
        n_of_partition[p] += 1
        number[g] = n_of_partition[p]


@njit(
    [
        (_TICKS, _TICKS, _TICKS, _TICKS, T.int64, _FLAGS, _I2, _I1, _I1, _I1),
        (_TICKS, _TICKS, _TICKS, _FLOATS, T.float64, _FLAGS, _I2, _I1, _I1, _I1),
    ],
    cache=True,
    nogil=True,
)
def follow(position, stage, key, ticks, span, forks, waiting, before, first, done):
    """Write the last entries of complete sequences to ``done``, and return how many there are."""
    # An entry says that the event at ``position`` fits ``stage``, with a key; stage -1 ends the sequences of
    # the key, but not those that its own event has just continued. Entries are in the order of events, and
    # those of an event from the last stage to the first. ``waiting``, (n_keys, n_stages), has the last entry
    # of each partial sequence, -1 at first; a sequence takes the place of an older one. ``before`` and
    # ``first`` get the entry before each one, and the first of its sequence. Where ``forks``, bool by stage,
    # a sequence continues and also waits where it was. It lasts at most ``span``; a negative span is no
    # limit. O(n_entries + n_ends * n_stages).
    n_stages, n_done = len(forks), 0
    for e in range(len(position)):
        s, k = stage[e], key[e]
        if s < 0:
            for t in range(n_stages):
                if waiting[k, t] >= 0 and position[waiting[k, t]] != position[e]:
                    waiting[k, t] = -1
            continue
        before[e], first[e] = -1, e
        if s > 0:
            other = waiting[k, s - 1]
            if other < 0:
                continue
            if not forks[s]:
                waiting[k, s - 1] = -1
            lasted = ticks[e] - ticks[first[other]]
            if span >= 0 and (lasted > span or lasted < 0):
                continue
            before[e], first[e] = other, first[other]
        if s == n_stages - 1:
            done[n_done] = e
            n_done += 1
        else:
            waiting[k, s] = e
    return n_done
