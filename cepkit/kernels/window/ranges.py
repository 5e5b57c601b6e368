"""Ranges of the rows that a window holds, and the extremes of such ranges."""

from numba import types as T

from cepkit.kernels.jit import njit

_INTS, _OUT_INTS = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int64, 1, "C")
_FLOATS = T.Array(T.float64, 1, "C", readonly=True)
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


@njit([(_INTS, _INTS, _INTS, _OUT_INTS)], **_OPTIONS)
def group_limits(limit, row_of_place, first_place, out):
    """Write the first place of each row's group whose row is not before the limit of that row.

    Parameters
    ----------
    limit : ndarray of int64, shape (n_rows,)
        A row number for each row, nondecreasing.
    row_of_place : ndarray of int64, shape (n_rows,)
        The rows, group by group, and in order within a group.
    first_place : ndarray of int64, shape (n_groups + 1,)
        First place of each group.
    out : ndarray of int64, shape (n_rows,)
        By place.

    Notes
    -----
    Time O(n_rows).
    """
    for group in range(len(first_place) - 1):
        end = first_place[group + 1]
        limit_place = first_place[group]
        for place in range(first_place[group], end):
            wanted = limit[row_of_place[place]]
            while limit_place < end and row_of_place[limit_place] < wanted:
                limit_place += 1
            out[place] = limit_place


@njit(
    [(values, _INTS, _INTS, _INTS, T.int64, _OUT_INTS, _OUT_INTS) for values in (_INTS, _FLOATS)],
    **_OPTIONS,
)
def extreme_rows(values, present, start, stop, largest, queue, out):
    """Write the row of the least or largest value of every range; -1 without a present value.

    Parameters
    ----------
    values : ndarray of int64 or float64, shape (n_rows,)
    present : ndarray of int64, shape (n_rows,)
        0 for rows that do not count.
    start, stop : ndarray of int64, shape (n_ranges,)
        Ranges of rows, both nondecreasing, ``start <= stop``.
    largest : int
        1 for the largest value, 0 for the least.
    queue : ndarray of int64, shape (n_rows,)
        Cells for the kernel's work.
    out : ndarray of int64, shape (n_ranges,)

    Notes
    -----
    Time O(n_rows + n_ranges): the queue holds the rows that can still become the extreme.
    Source: Lemire, "Streaming maximum-minimum filter using no more than three comparisons per element", 2006.
    """
    head = tail = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            if present[last]:
                value = values[last]
                if largest:
                    while tail > head and values[queue[tail - 1]] <= value:
                        tail -= 1
                else:
                    while tail > head and values[queue[tail - 1]] >= value:
                        tail -= 1
                queue[tail] = last
                tail += 1
            last += 1
        while head < tail and queue[head] < start[k]:
            head += 1
        out[k] = queue[head] if head < tail else -1


@njit([(_INTS, _INTS, _INTS, _OUT_INTS, _OUT_INTS)], **_OPTIONS)
def distinct_counts(codes, start, stop, n_of_code, out):
    """Write the number of different codes of every range; -1 does not count, and ``n_of_code`` has zeros."""
    found = first = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            code = codes[last]
            if code >= 0:
                n_of_code[code] += 1
                found += n_of_code[code] == 1
            last += 1
        while first < start[k]:
            code = codes[first]
            if code >= 0:
                n_of_code[code] -= 1
                found -= n_of_code[code] == 0
            first += 1
        out[k] = found
