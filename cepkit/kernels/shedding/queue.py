"""The queue of a server that drops nothing: when each event is served, and how many wait."""

from numba import types as T

from cepkit.kernels.jit import njit

_READ, _SECONDS = T.Array(T.float64, 1, "C", readonly=True), T.Array(T.float64, 1, "C")
_OUT = T.Array(T.int64, 1, "C")


@njit(
    [(_READ, _READ, T.float64, T.float64, _SECONDS, _SECONDS, _OUT)],
    cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True,
)  # fmt: skip
def serve_in_turn(arrivals, seconds, admit, now, starts, ends, waiting):
    """Write when a server begins and ends each event, and return when it is done.

    The server first admits all events that have arrived, then serves the oldest one.

    Parameters
    ----------
    arrivals : ndarray of float64, shape (n_events,)
        When each event arrives, in seconds; nondecreasing.
    seconds : ndarray of float64, shape (n_events,)
        How long each event takes.
    admit : float
        How long each arrival takes.
    now : float
        The time at which the server begins.
    starts, ends : ndarray of float64, shape (n_events,)
        Written.
    waiting : ndarray of int64, shape (n_events,)
        Written: the events that wait while each one is served.

    Returns
    -------
    float

    Notes
    -----
    Time O(n_events).
    """
    n, n_admitted = len(arrivals), 0
    for i in range(n):
        while True:
            while n_admitted < n and arrivals[n_admitted] <= now:
                now += admit
                n_admitted += 1
            if n_admitted > i:
                break
            now = arrivals[n_admitted]
        starts[i] = now
        now += seconds[i]
        ends[i] = now
        waiting[i] = n_admitted - i - 1
    return now
