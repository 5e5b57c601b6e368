"""Work that needs a core and no memory: the control of measurements with several threads."""

from numba import njit


@njit(cache=True, nogil=True)
def count_up(n):
    """Return a number that takes ``n`` dependent steps. Time O(n), no memory."""
    state = 1
    for _ in range(n):
        state = (state * 48271) % 2147483647
    return state
