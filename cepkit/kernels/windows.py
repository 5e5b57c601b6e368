"""Limits in time as places: where the window of an event ends, begins, and where later events begin."""

from numba import njit


@njit(cache=True, nogil=True)
def window_ends(time, end_of_partition, width, closed, out):
    """Write for every place the first place behind it, in its partition, that is out of its window.

    Parameters
    ----------
    time : ndarray, shape (n_places,)
        int64 ticks or float64; nondecreasing within a partition.
    end_of_partition : ndarray of int64, shape (n_places,)
        First place behind the partition of each place.
    width : int or float
        Longest distance, in the unit of ``time``.
    closed : bool
        Whether this distance is still within.
    out : ndarray of int64, shape (n_places,)

    Notes
    -----
    Time O(n_places).
    """
    end = 0
    for p in range(len(time)):
        if p >= end:
            end = p + 1
        stop = end_of_partition[p]
        while end < stop and (time[end] - time[p] <= width if closed else time[end] - time[p] < width):
            end += 1
        out[p] = end


@njit(cache=True, nogil=True)
def window_starts(time, start_of_partition, width, closed, out):
    """Write for every place the first place of its partition whose window it is in; as `window_ends`.

    Notes
    -----
    Time O(n_places).
    """
    start = 0
    for p in range(len(time)):
        if start < start_of_partition[p]:
            start = start_of_partition[p]
        while start < p and not (time[p] - time[start] <= width if closed else time[p] - time[start] < width):
            start += 1
        out[p] = start


@njit(cache=True, nogil=True)
def later_places(time, end_of_partition, out):
    """Write for every place the first place of its partition with a greater time.

    Notes
    -----
    Time O(n_places).
    """
    for p in range(len(time) - 1, -1, -1):
        q = p + 1
        if q < end_of_partition[p] and time[q] == time[p]:
            out[p] = out[q]
        else:
            out[p] = q
