"""Kernels that experiments measure: aggregates in two ways, and work that needs no memory.

The aggregates of a partial match are computed incrementally, or again from all its events.
"""

from cepkit.kernels.jit import njit

# Both match `open more* full`. A match begins at an event of ``opens`` and has ``length`` events. No price
# is ``slack`` above the greatest earlier price of the match or ``slack`` below their mean.


@njit(cache=True, nogil=True)
def match_incremental(opens, price, length, slack, first, last):
    """Write the first and last event of every match and return the number of matches; O(1) per event."""
    n_found, count, total, greatest, start = 0, 0, 0.0, 0.0, 0
    for e in range(len(price)):
        x = price[e]
        if count > 0:
            if x > greatest + slack or x < total / count - slack:
                count = 0
            elif count == length - 1:
                first[n_found], last[n_found] = start, e
                n_found += 1
                count = 0
                continue
            else:
                count += 1
                total += x
                greatest = max(greatest, x)
                continue
        if opens[e]:
            start, count, total, greatest = e, 1, x, x
    return n_found


@njit(cache=True, nogil=True)
def match_recomputed(opens, price, length, slack, first, last, collected):
    """Do the same as `match_incremental` from the prices in ``collected``; O(length) time per event."""
    n_found, count, start = 0, 0, 0
    for e in range(len(price)):
        x = price[e]
        if count > 0:
            total, greatest = 0.0, collected[0]
            for i in range(count):
                total += collected[i]
                greatest = max(greatest, collected[i])
            if x > greatest + slack or x < total / count - slack:
                count = 0
            elif count == length - 1:
                first[n_found], last[n_found] = start, e
                n_found += 1
                count = 0
                continue
            else:
                collected[count] = x
                count += 1
                continue
        if opens[e]:
            start, count = e, 1
            collected[0] = x
    return n_found


@njit(cache=True, nogil=True)
def count_up(n):
    """Return a number that takes ``n`` dependent steps, the control of several threads. Time O(n)."""
    state = 1
    for _ in range(n):
        state = (state * 48271) % 2147483647
    return state
