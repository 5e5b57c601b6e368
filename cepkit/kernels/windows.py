"""Kernels of windows and joins: pairs of rows, ranges of rows with their extremes, and exact sums."""

# In a sum, a number is ``mantissa * 2^(place + lowest)``. A sum is an array of digits of base 2^30, least
# first, so no order of rows matters. A digit may be negative or too large until it is rounded, so digits of
# two sums can be added one by one.

import math

import numpy as np
from numba import types as T

from cepkit.kernels.jit import njit

BASE_BITS = 30
_MASK = (1 << BASE_BITS) - 1
_HALF_BITS = 31
_HALF = (1 << _HALF_BITS) - 1
_UPPER = (1 << 33) - 1  # of a number of 64 bits without a sign: 2^63 is one, and it is negative in int64
_TOP_BITS = 61  # of the digits that are rounded to a float, so that one bit can say that others follow

_INTS, _OUT_INTS = T.Array(T.int64, 1, "C", readonly=True), T.Array(T.int64, 1, "C")
_FLOATS = T.Array(T.float64, 1, "C", readonly=True)
_OUT_FLOATS, _MATRIX = T.Array(T.float64, 1, "C"), T.Array(T.int64, 2, "C", readonly=True)
_FLAGS, _SIDES = T.Array(T.bool_, 1, "C", readonly=True), T.Array(T.int8, 1, "C", readonly=True)
_OPTIONS = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}
# The bits of a float64 are a sign, an exponent and a fraction. The exponent is 0 for the smallest floats.
_FRACTION_BITS = 52
_FRACTION = (1 << _FRACTION_BITS) - 1
_MAGNITUDE = (1 << 63) - 1  # all but the sign
_EXPONENTS = (1 << 11) - 1  # the largest one has infinity and NaN
_BIAS = 1023
_LEAST = 1 - _BIAS  # exponent of the least normalised float


@njit([(_INTS, _INTS, _INTS, _INTS, _INTS, _OUT_INTS, _OUT_INTS)], **_OPTIONS)
def partner_ranges(arrival, first, waiting, gone, first_waiting, out_start, out_stop):
    """Write for every row the range of the rows that wait for it on the other side. O(rows of both sides)."""
    # Rows of both sides are sorted by key, and in stream order within a key. ``arrival`` and ``waiting`` are
    # the positions of the rows of this and of the other side among the events of both. ``first`` and
    # ``first_waiting``, (n_keys + 1,), are the first rows of each key. A row of the other side leaves before
    # the position ``gone``, nondecreasing within a key.
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


@njit([(_SIDES, *[_INTS] * 5, *[_OUT_INTS] * 3)], **_OPTIONS)
def write_pairs(side, row, start, stop, left_rows, right_rows, event, left, right):
    """Write each arrival with the rows of its range on the other side. O(n_events + n_pairs)."""
    pair = 0
    for e in range(len(side)):
        for place in range(start[e], stop[e]):
            event[pair] = e
            left[pair] = row[e] if side[e] == 0 else left_rows[place]
            right[pair] = right_rows[place] if side[e] == 0 else row[e]
            pair += 1


@njit([(_INTS, _INTS, _INTS, _OUT_INTS)], **_OPTIONS)
def group_limits(limit, row_of_place, first_place, out):
    """Write the first place of each row's group whose row is not before the limit of that row. O(n_rows)."""
    # ``limit`` is by row, nondecreasing. ``row_of_place`` has the rows group by group, in order within a
    # group, and ``first_place``, (n_groups + 1,), where each begins. ``out`` is by place.
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
    """Write the row of the least or ``largest`` value of every range; -1 without a present value."""
    # ``start`` and ``stop`` are nondecreasing. ``present`` is 0 for rows that do not count. The ``queue``,
    # (n_rows,), holds the rows that can still become the extreme. O(n_rows + n_ranges).
    # Source: Lemire, "Streaming maximum-minimum filter using no more than three comparisons per element",
    # 2006.
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


# Exact sums over ranges of rows.


@njit(**_HELPER)
def _add(digits, part, place, sign):
    """Add ``sign * part * 2^place`` to digits; ``0 <= part <= 2^63``, which int64 holds as -2^63."""
    i = place // BASE_BITS
    shift = place - i * BASE_BITS
    low = (part & _HALF) << shift
    high = ((part >> _HALF_BITS) & _UPPER) << (shift + 1)
    digits[i] += sign * (low & _MASK)
    digits[i + 1] += sign * ((low >> BASE_BITS) + (high & _MASK))
    digits[i + 2] += sign * (high >> BASE_BITS)


@njit(**_HELPER)
def _add_square(digits, part, place, sign):
    """Add ``sign * (part * 2^place)^2`` to digits; ``0 <= part <= 2^63``, which int64 holds as -2^63."""
    high, low = (part >> _HALF_BITS) & _UPPER, part & _HALF
    _add(digits, low * low, 2 * place, sign)
    if high:
        _add(digits, high * low, 2 * place + _HALF_BITS + 1, sign)
        _add(digits, high * (high >> 1), 2 * place + 2 * _HALF_BITS + 1, sign)
        _add(digits, high if high & 1 else 0, 2 * place + 2 * _HALF_BITS, sign)


@njit(**_HELPER)
def _normalise(digits, factor, out):
    """Write ``factor * digits`` as digits from 0 to 2^30 - 1, and return its sign; ``0 < factor < 2^31``."""
    carry = 0
    for i in range(len(out)):
        value = carry
        if i < len(digits):
            # The digit is cut in two, because its product with the factor may exceed 63 bits.
            value += (digits[i] & _MASK) * factor
            carry = (digits[i] >> BASE_BITS) * factor
        else:
            carry = 0
        out[i] = value & _MASK
        carry += value >> BASE_BITS
    if carry >= 0:
        return 1
    borrow = 1
    for i in range(len(out)):
        value = (_MASK - out[i]) + borrow
        out[i] = value & _MASK
        borrow = value >> BASE_BITS
    return -1


@njit(**_HELPER)
def _power_of_two(exponent):
    """Return ``2.0^exponent`` for a normalised float."""
    return float(np.int64((exponent + _BIAS) << _FRACTION_BITS).view(np.float64))


@njit(**_HELPER)
def _to_float(digits, lowest):
    """Return the float nearest to normalised digits times ``2^lowest``, ties to even."""
    top = len(digits) - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    n_bits, value = 0, digits[top]
    while value >> n_bits:
        n_bits += 1
    i = top
    while i > 0 and n_bits + BASE_BITS <= _TOP_BITS:
        i -= 1
        value = (value << BASE_BITS) | digits[i]
        n_bits += BASE_BITS
    exponent = i * BASE_BITS
    if i > 0:  # a part of the next digit
        i -= 1
        taken = _TOP_BITS - n_bits
        value = (value << taken) | (digits[i] >> (BASE_BITS - taken))
        exponent -= taken
        rest = digits[i] & ((1 << (BASE_BITS - taken)) - 1)
        while rest == 0 and i > 0:
            i -= 1
            rest = digits[i]
        if rest:
            value |= 1
    exponent += lowest
    if exponent > _BIAS:
        return math.inf
    whole = max(exponent, _LEAST)  # so that at most the last product is rounded
    return float(value) * _power_of_two(whole) * _power_of_two(max(exponent - whole, _LEAST))


@njit([(_FLOATS, _FLAGS, _OUT_INTS)], **_OPTIONS)
def exponent_limits(values, present, out):
    """Write the exponents of the least and of the largest present float, as `math.frexp` gives them."""
    # Zeros, infinite values and NaN do not count. Without others, both are 0. No exponent is below -1021.
    least, greatest = 1 << 20, -(1 << 20)
    for i in range(len(values)):
        bits = np.float64(values[i]).view(np.int64)
        exponent = (bits >> _FRACTION_BITS) & _EXPONENTS
        if present[i] and bits & _MAGNITUDE and exponent < _EXPONENTS:
            least = min(least, exponent)
            greatest = max(greatest, exponent)
    out[0] = max(least, 1) + _LEAST if least <= greatest else 0
    out[1] = max(greatest, 1) + _LEAST if least <= greatest else 0


@njit([(_FLOATS, _FLAGS, T.int64, _OUT_INTS, _OUT_INTS)], **_OPTIONS)
def split_floats(values, present, lowest, mantissa, place):
    """Write present floats as ``mantissa * 2^(place + lowest)``, and 0 for all others. O(n_rows)."""
    for i in range(len(values)):
        bits = np.float64(values[i]).view(np.int64)
        exponent = (bits >> _FRACTION_BITS) & _EXPONENTS
        mantissa[i] = place[i] = 0
        if present[i] and bits & _MAGNITUDE and exponent < _EXPONENTS:
            part = bits & _FRACTION
            if exponent:
                part |= _FRACTION + 1
            mantissa[i] = part if bits >= 0 else -part
            place[i] = max(exponent, 1) - 1 + _LEAST - _FRACTION_BITS - lowest


@njit([(_INTS, _INTS, _INTS, _INTS, T.int64, _OUT_INTS, _OUT_FLOATS)], **_OPTIONS)
def exact_sums(mantissa, place, start, stop, lowest, digits, out):
    """Write the sum of the numbers of every range, rounded once. O(n_rows + n_ranges x n_digits)."""
    # The numbers are ``mantissa * 2^(place + lowest)``; 0 for a missing one. ``start`` and ``stop`` are
    # nondecreasing. ``digits``, (2 * n_digits,), are zeros; half of them hold every sum.
    # Source: Neal, "Fast exact summation using small and large superaccumulators", 2015.
    # Differs: numbers also leave a sum, so a window needs no second pass.
    n_digits = len(digits) // 2
    digits, scratch = digits[:n_digits], digits[n_digits:]
    first = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            if mantissa[last]:
                _add(digits, abs(mantissa[last]), place[last], 1 if mantissa[last] > 0 else -1)
            last += 1
        while first < start[k]:
            if mantissa[first]:
                _add(digits, abs(mantissa[first]), place[first], -1 if mantissa[first] > 0 else 1)
            first += 1
        sign = _normalise(digits, 1, scratch)
        out[k] = sign * _to_float(scratch, lowest)


@njit(**_HELPER)
def _spread(digits, squares, count, lowest, scratch, wide):
    """Return ``count * squares - digits^2`` as a float."""
    if count < 2:
        return 0.0
    _normalise(digits, 1, scratch)
    _normalise(squares, count, wide)
    n = len(scratch)
    while n > 0 and scratch[n - 1] == 0:
        n -= 1
    for i in range(n):
        for j in range(n):
            product = scratch[i] * scratch[j]
            wide[i + j] -= product & _MASK
            wide[i + j + 1] -= product >> BASE_BITS
    carry = 0
    for i in range(len(wide)):
        value = wide[i] + carry
        wide[i] = value & _MASK
        carry = value >> BASE_BITS
    return _to_float(wide, 2 * lowest)


@njit([(_INTS, _INTS, _INTS, _INTS, _INTS, T.int64, _OUT_INTS, _OUT_FLOATS)], **_OPTIONS)
def exact_spreads(mantissa, place, count, start, stop, lowest, digits, out):
    """Write ``n * sum(x^2) - sum(x)^2`` of every range, rounded once; ``count`` has n of every range."""
    # The other parameters are those of `exact_sums`; ``digits`` has ``6 * n_digits + 2`` zeros. O(n_rows +
    # n_ranges x n_digits^2).
    n = len(digits) // 6
    digits, squares, scratch, wide = digits[:n], digits[n : 3 * n], digits[3 * n : 4 * n], digits[4 * n :]
    first = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            if mantissa[last]:
                _add(digits, abs(mantissa[last]), place[last], 1 if mantissa[last] > 0 else -1)
                _add_square(squares, abs(mantissa[last]), place[last], 1)
            last += 1
        while first < start[k]:
            if mantissa[first]:
                _add(digits, abs(mantissa[first]), place[first], -1 if mantissa[first] > 0 else 1)
                _add_square(squares, abs(mantissa[first]), place[first], -1)
            first += 1
        out[k] = _spread(digits, squares, count[k], lowest, scratch, wide)


@njit([(_INTS, _INTS, _INTS, _INTS, _OUT_INTS, T.Array(T.int64, 2, "C"))], **_OPTIONS)
def partial_sums(mantissa, place, start, stop, digits, out):
    """Write the digits of the sum of every range, (n_ranges, n_digits); digits of several nodes add up."""
    # The parameters are those of `exact_sums`, but ``digits`` has one zero for each digit.
    first = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            if mantissa[last]:
                _add(digits, abs(mantissa[last]), place[last], 1 if mantissa[last] > 0 else -1)
            last += 1
        while first < start[k]:
            if mantissa[first]:
                _add(digits, abs(mantissa[first]), place[first], -1 if mantissa[first] > 0 else 1)
            first += 1
        for i in range(len(digits)):
            out[k, i] = digits[i]


@njit([(_INTS, _INTS, _INTS, _INTS, _OUT_INTS, T.Array(T.int64, 2, "C"))], **_OPTIONS)
def partial_squares(mantissa, place, start, stop, digits, out):
    """Write the digits of the sum of squares of every range; the last bit has twice its exponent."""
    first = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            if mantissa[last]:
                _add_square(digits, abs(mantissa[last]), place[last], 1)
            last += 1
        while first < start[k]:
            if mantissa[first]:
                _add_square(digits, abs(mantissa[first]), place[first], -1)
            first += 1
        for i in range(len(digits)):
            out[k, i] = digits[i]


@njit([(_MATRIX, T.int64, _OUT_INTS, _OUT_FLOATS)], **_OPTIONS)
def round_sums(digits, lowest, scratch, out):
    """Write the float of every row of digits, rounded once; ``scratch`` has one cell for each digit."""
    for k in range(len(digits)):
        sign = _normalise(digits[k], 1, scratch)
        out[k] = sign * _to_float(scratch, lowest)


@njit([(_MATRIX, _MATRIX, _INTS, T.int64, _OUT_INTS, _OUT_FLOATS)], **_OPTIONS)
def round_spreads(digits, squares, count, lowest, scratch, out):
    """Write ``n * sum(x^2) - sum(x)^2`` of every row of n digits."""
    # ``squares`` has twice as many digits, ``scratch`` has ``3 * n + 2`` cells.
    n = digits.shape[1]
    scratch, wide = scratch[:n], scratch[n:]
    for k in range(len(digits)):
        out[k] = _spread(digits[k], squares[k], count[k], lowest, scratch, wide)


@njit([(_INTS, _INTS, _INTS, _OUT_INTS)], **_OPTIONS)
def integer_sums(values, start, stop, out):
    """Write the sum of the integers of every range; the ranges are those of `exact_sums`."""
    total = first = last = 0
    for k in range(len(start)):
        while last < stop[k]:
            total += values[last]
            last += 1
        while first < start[k]:
            total -= values[first]
            first += 1
        out[k] = total
