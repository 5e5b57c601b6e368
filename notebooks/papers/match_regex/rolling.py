"""Kernels over the events of a key: sliding sums and tumbling extremes."""

from cepkit.kernels.jit import njit


@njit(cache=True, nogil=True)
def slide_by_count(first_event_of_partition, value, weight, k, ratio):
    """Write sum(value) / sum(weight) over the last ``k`` events of the partition; NaN for 0 / 0.

    Events of a partition are contiguous. ``value`` and ``weight`` are 0 for events that do not count. The
    sums are computed afresh after every ``k`` steps, so rounding errors do not add up. O(n_events).
    """
    for p in range(len(first_event_of_partition) - 1):
        start, stop = first_event_of_partition[p], first_event_of_partition[p + 1]
        total, weights, age = 0.0, 0.0, 0
        for e in range(start, stop):
            total += value[e]
            weights += weight[e]
            oldest = e - k
            if oldest >= start:
                total -= value[oldest]
                weights -= weight[oldest]
                age += 1
            if age == k:
                total, weights, age = 0.0, 0.0, 0
                for i in range(oldest + 1, e + 1):
                    total += value[i]
                    weights += weight[i]
            ratio[e] = total / weights if weights != 0.0 else float("nan")


@njit(cache=True, nogil=True)
def slide_by_time(first_event_of_partition, ticks, value, weight, window_ticks, ratio):
    """Write sum(value) / sum(weight) over the events at most ``window_ticks`` before each event.

    Like `slide_by_count`; ``ticks`` must not decrease within a partition. The sums are computed afresh once
    as many events have left the window as it contains. O(n_events).
    """
    for p in range(len(first_event_of_partition) - 1):
        start, stop = first_event_of_partition[p], first_event_of_partition[p + 1]
        total, weights, age, oldest = 0.0, 0.0, 0, start
        for e in range(start, stop):
            total += value[e]
            weights += weight[e]
            while ticks[oldest] < ticks[e] - window_ticks:
                total -= value[oldest]
                weights -= weight[oldest]
                oldest += 1
                age += 1
            if age > e - oldest:
                total, weights, age = 0.0, 0.0, 0
                for i in range(oldest, e + 1):
                    total += value[i]
                    weights += weight[i]
            ratio[e] = total / weights if weights != 0.0 else float("nan")


@njit(cache=True, nogil=True)
def tumble(partition, value, k, n_of_partition, extremes_of_partition, last, least, greatest):
    """Write the last event and the extremes of every full window of ``k`` events; return their number.

    ``n_of_partition`` (zeros) and ``extremes_of_partition`` (least, greatest) are the state; they change in
    place. NaN does not count; a window of NaN only has extremes NaN. Windows are ordered by their last
    event. O(n_events).
    """
    least_of_partition, greatest_of_partition = extremes_of_partition
    n_windows = 0
    for e in range(len(partition)):
        p, x = partition[e], value[e]
        if n_of_partition[p] == 0 or least_of_partition[p] != least_of_partition[p]:
            least_of_partition[p], greatest_of_partition[p] = x, x
        elif x < least_of_partition[p]:
            least_of_partition[p] = x
        elif x > greatest_of_partition[p]:
            greatest_of_partition[p] = x
        n_of_partition[p] += 1
        if n_of_partition[p] == k:
            last[n_windows], least[n_windows], greatest[n_windows] = (
                e,
                least_of_partition[p],
                greatest_of_partition[p],
            )
            n_windows += 1
            n_of_partition[p] = 0
    return n_windows
