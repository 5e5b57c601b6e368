"""Limits in time as places: the end and the start of an event's window, and the first later event."""

from numba import types as T

from cepkit.kernels.jit import njit

_PLACES, _OUT = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int64, 1, "C")
_TICKS, _SECONDS = _PLACES, T.Array(T.float64, 1, "C", readonly=True)
# The types of a clock and of a width in its unit.
_CLOCKS = (_TICKS, T.int64), (_TICKS, T.float64), (_SECONDS, T.float64)
_LIMITS = [(time, _PLACES, width, T.int64, _OUT) for time, width in _CLOCKS]
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit(_LIMITS, **_OPTIONS)
def window_ends(time, end_of_partition, width, closed, out):
    """Write for every place the first later place of its partition that is outside its window.

    Parameters
    ----------
    time : ndarray, shape (n_places,)
        int64 ticks or float64; nondecreasing within a partition.
    end_of_partition : ndarray of int64, shape (n_places,)
        First place after the partition of each place.
    width : int or float
        Longest distance, in the unit of ``time``.
    closed : int
        1 if exactly this distance is still inside, else 0.
    out : ndarray of int64, shape (n_places,)

    Notes
    -----
    Time O(n_places). The difference of ticks that are 2^63 or more apart is negative, and not inside.
    """
    end = 0
    for p in range(len(time)):
        if p >= end:
            end = p + 1
        stop = end_of_partition[p]
        while end < stop and (
            0 <= time[end] - time[p] <= width if closed else 0 <= time[end] - time[p] < width
        ):
            end += 1
        out[p] = end


@njit(_LIMITS, **_OPTIONS)
def window_starts(time, start_of_partition, width, closed, out):
    """Write for every place the first place of its partition whose window contains it; see `window_ends`.

    Notes
    -----
    Time O(n_places).
    """
    start = 0
    for p in range(len(time)):
        if start < start_of_partition[p]:
            start = start_of_partition[p]
        while start < p and not (
            0 <= time[p] - time[start] <= width if closed else 0 <= time[p] - time[start] < width
        ):
            start += 1
        out[p] = start


@njit([(_PLACES, *limits) for limits in _LIMITS], **_OPTIONS)
def window_starts_of(places, time, start_of_partition, width, closed, out):
    """Write the result of `window_starts` for some places only; fast if they increase.

    ``start_of_partition`` may be empty if all places are in one partition.

    Notes
    -----
    Time O(len(places) x log n_places), usually much less: the search assumes that a window is as long as the
    previous one and doubles its steps from there.
    """
    start, last = 0, -1
    for i in range(len(places)):
        p = places[i]
        low = start_of_partition[p] if len(start_of_partition) else 0
        if p >= last:
            low = max(low, start)
        start = min(p, max(low, p - last + start))
        outside, last, step = low - 1, p, 1
        while start > low:
            s = max(low, start - step)
            if not (0 <= time[p] - time[s] <= width if closed else 0 <= time[p] - time[s] < width):
                outside = s
                break
            start, step = s, 2 * step
        step = 1
        while start < p and not (
            0 <= time[p] - time[start] <= width if closed else 0 <= time[p] - time[start] < width
        ):
            outside = start
            start, step = min(p, start + step), 2 * step
        while outside + 1 < start:
            s = (outside + start) >> 1
            if 0 <= time[p] - time[s] <= width if closed else 0 <= time[p] - time[s] < width:
                start = s
            else:
                outside = s
        out[i] = start


@njit([(time, _PLACES, _OUT) for time in (_TICKS, _SECONDS)], **_OPTIONS)
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
