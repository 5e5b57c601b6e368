"""The rows of the other side that each row of a join meets, as ranges."""

from numba import types as T

from cepkit.kernels.jit import njit

_INTS, _OUT = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int64, 1, "C")
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit([(_INTS, _INTS, _INTS, _INTS, _INTS, _OUT, _OUT)], **_OPTIONS)
def partner_ranges(arrival, first, waiting, gone, first_waiting, out_start, out_stop):
    """Write for every row the range of the rows that wait for it on the other side.

    Rows of both sides are sorted by key, and in stream order within a key.

    Parameters
    ----------
    arrival : ndarray of int64, shape (n_rows,)
        Position of each row among the events of both sides.
    first, first_waiting : ndarray of int64, shape (n_keys + 1,)
        First row of each key, on this and on the other side.
    waiting : ndarray of int64, shape (n_waiting,)
        Position of each row of the other side among the events of both sides.
    gone : ndarray of int64, shape (n_waiting,)
        Position before which each row of the other side leaves; nondecreasing within a key.
    out_start, out_stop : ndarray of int64, shape (n_rows,)
        Ranges of rows of the other side.

    Notes
    -----
    Time O(n_rows + n_waiting).
    """
    for key in range(len(first) - 1):
        start = stop = first_waiting[key]
        end = first_waiting[key + 1]
        for row in range(first[key], first[key + 1]):
            now = arrival[row]
            while stop < end and waiting[stop] < now:
                stop += 1
            while start < stop and gone[start] <= now:
                start += 1
            out_start[row] = start
            out_stop[row] = stop
