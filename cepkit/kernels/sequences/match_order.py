"""Kernels that sort the matches of sequences into canonical order."""

from numba import types as T

from cepkit.kernels.jit import njit

_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_OPTIONS, "no_cpython_wrapper": True}
_READ, _SHORT, _OUT = (
    T.Array(T.int64, 1, "C", readonly=True),
    T.Array(T.int16, 1, "C", readonly=True),
    T.Array(T.int64, 1, "C"),
)
_SMALL = 16  # up to this many matches are sorted by insertion


@njit(**_HELPER)
def _is_before(a, b, block):
    """Return whether match a has its place before match b."""
    event, component, first, branch = block
    size_of_a, size_of_b = first[a + 1] - first[a], first[b + 1] - first[b]
    for i in range(1, min(size_of_a, size_of_b) + 1):
        x, y = event[first[a + 1] - i], event[first[b + 1] - i]
        if x != y:
            return x < y
    if size_of_a != size_of_b:
        return size_of_a < size_of_b
    for i in range(size_of_a):
        u, v = component[first[a] + i], component[first[b] + i]
        if u != v:
            return u > v
    return branch[a] < branch[b]


@njit(**_HELPER)
def _sort(begin, stop, order, scratch, block):
    """Sort the matches from ``begin`` to ``stop`` of an order; quick if they are in order already."""
    is_sorted = True
    for i in range(begin + 1, stop):
        if _is_before(order[i], order[i - 1], block):
            is_sorted = False
            break
    if is_sorted:
        return 0
    for low in range(begin, stop, _SMALL):
        for i in range(low + 1, min(low + _SMALL, stop)):
            own, j = order[i], i
            while j > low and _is_before(own, order[j - 1], block):
                order[j] = order[j - 1]
                j -= 1
            order[j] = own
    width = _SMALL
    while width < stop - begin:
        for low in range(begin, stop, 2 * width):
            middle, high = min(low + width, stop), min(low + 2 * width, stop)
            left, right = low, middle
            for i in range(low, high):
                if right >= high or (left < middle and not _is_before(order[right], order[left], block)):
                    scratch[i] = order[left]
                    left += 1
                else:
                    scratch[i] = order[right]
                    right += 1
        for i in range(begin, stop):
            order[i] = scratch[i]
        width *= 2
    return 0


@njit([(_READ, T.int64, _OUT, _OUT)], cache=True, **_OPTIONS)
def order_by_last(last, low, n_before, order):
    """Write the order of matches by their last events, which are from ``low`` on.

    ``n_before`` has zeros for all events up to two after the last one. O(n_matches + len(n_before)).
    """
    for m in range(len(last)):
        n_before[last[m] - low + 1] += 1
    for i in range(1, len(n_before)):
        n_before[i] += n_before[i - 1]
    for m in range(len(last)):
        i = last[m] - low
        order[n_before[i]] = m
        n_before[i] += 1


@njit([(_READ, _SHORT, _READ, _SHORT, _OUT, _OUT)], cache=True, **_OPTIONS)
def order_matches(event_of_item, component_of_item, first_item, branch, order, scratch):
    """Sort matches with the same last event by their earlier events, the components and the branch.

    ``order`` has all matches, ordered by their last events. Time O(events of matches) if they are in order;
    others are merged.
    """
    block = event_of_item, component_of_item, first_item, branch
    begin = 0
    while begin < len(order):
        last, stop = event_of_item[first_item[order[begin] + 1] - 1], begin + 1
        while stop < len(order) and event_of_item[first_item[order[stop] + 1] - 1] == last:
            stop += 1
        if stop > begin + 1:
            _sort(begin, stop, order, scratch, block)
        begin = stop
