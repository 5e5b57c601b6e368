"""ScaledNumbers as mantissas and places, so that sums of any rows are exact; sums of parts add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cepkit.compile.shared.loading import load_kernels

SUMS = "cepkit.kernels.window.sums"
_MANTISSA_BITS, _BASE_BITS, _COUNT_BITS = 53, 30, 32


@dataclass(frozen=True)
class DigitScale:
    """How digits hold sums: exponent of the last bit, and the number of digits. Parts share one scale."""

    lowest: int
    n_digits: int


class ScaledNumbers(NamedTuple):
    """ScaledNumbers as ``mantissa * 2^(place + scale.lowest)``; infinite and missing ones have mantissa 0."""

    mantissa: np.ndarray  # int64, (n,)
    place: np.ndarray  # int64, (n,)
    scale: DigitScale


def numbers_of(values: np.ndarray, present: np.ndarray, scale: DigitScale | None = None) -> ScaledNumbers:
    """Return numbers for exact sums."""
    if values.dtype.kind == "i":
        mantissa = np.where(present, values, 0)
        place = np.zeros(len(values), np.int64)
        if scale is None:
            largest = max(int(mantissa.max(initial=0)), -int(mantissa.min(initial=0)))
            scale = scale_between(0, largest.bit_length())
        return ScaledNumbers(mantissa, place - scale.lowest, scale)
    if scale is None:
        scale = scale_of(values, present)
    mantissa, place = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    own = np.ascontiguousarray(values, np.float64), np.ascontiguousarray(present, bool)
    load_kernels(SUMS).split_floats(*own, scale.lowest, mantissa, place)
    return ScaledNumbers(mantissa, place, scale)


def scale_of(values: np.ndarray, present: np.ndarray) -> DigitScale:
    """Return the scale of the present values; the scale of several parts is `common_scale`."""
    if values.dtype.kind == "i":
        return numbers_of(values, present).scale
    limits = np.empty(2, np.int64)
    own = np.ascontiguousarray(values, np.float64), np.ascontiguousarray(present, bool)
    load_kernels(SUMS).exponent_limits(*own, limits)
    return scale_between(int(limits[0]) - _MANTISSA_BITS, max(int(limits[1]), int(limits[0]) + 1))


def scale_between(lowest: int, highest: int) -> DigitScale:
    """Return the scale for numbers whose bits have exponents from ``lowest`` to below ``highest``."""
    return DigitScale(lowest, (highest - lowest + _COUNT_BITS) // _BASE_BITS + 2)


def common_scale(*scales: DigitScale) -> DigitScale:
    """Return a scale that fits the numbers of several parts."""
    lowest = min(scale.lowest for scale in scales)
    n_digits = max(scale.n_digits + -(-(scale.lowest - lowest) // _BASE_BITS) for scale in scales)
    return DigitScale(lowest, n_digits + 1)


def sums(numbers: ScaledNumbers, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the sum of every range of rows as float64, exact and rounded once."""
    out, digits = np.empty(len(start)), np.zeros(2 * numbers.scale.n_digits, np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(SUMS).exact_sums(
            numbers.mantissa, numbers.place, start, stop, numbers.scale.lowest, digits, out
        )
    return out


def deviations(numbers: ScaledNumbers, count: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every range of rows, of ``count`` present values each; 0 for none."""
    out, digits = np.empty(len(start)), np.zeros(6 * numbers.scale.n_digits + 2, np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(SUMS).exact_spreads(
            numbers.mantissa, numbers.place, count, start, stop, numbers.scale.lowest, digits, out
        )
    return deviations_of(out, count)


def deviations_of(spread: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the standard deviations for the rounded ``n * sum(x^2) - sum(x)^2`` of n values."""
    n = np.maximum(count, 1).astype(np.float64)
    return np.sqrt(spread / (n * n))


def partial_sums(numbers: ScaledNumbers, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the digits of the sum of every range, int64, (n_ranges, n_digits); digits of parts add up."""
    out = np.empty((len(start), numbers.scale.n_digits), np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(SUMS).partial_sums(
            numbers.mantissa, numbers.place, start, stop, np.zeros(out.shape[1], np.int64), out
        )
    return out


def partial_squares(numbers: ScaledNumbers, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the digits of the sum of squares of every range, int64, (n_ranges, 2 * n_digits)."""
    out = np.empty((len(start), 2 * numbers.scale.n_digits), np.int64)
    with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
        load_kernels(SUMS).partial_squares(
            numbers.mantissa, numbers.place, start, stop, np.zeros(out.shape[1], np.int64), out
        )
    return out


def round_sums(digits: np.ndarray, scale: DigitScale) -> np.ndarray:
    """Return sums as float64 from digits, which may be the sum of the digits of several parts."""
    out, scratch = np.empty(len(digits)), np.empty(digits.shape[1], np.int64)
    load_kernels(SUMS).round_sums(np.ascontiguousarray(digits), scale.lowest, scratch, out)
    return out


def round_deviations(
    digits: np.ndarray, squares: np.ndarray, count: np.ndarray, scale: DigitScale
) -> np.ndarray:
    """Return standard deviations from the digits of sums and of sums of squares, and the counts."""
    out, scratch = np.empty(len(digits)), np.empty(3 * digits.shape[1] + 2, np.int64)
    load_kernels(SUMS).round_spreads(
        np.ascontiguousarray(digits), np.ascontiguousarray(squares), count, scale.lowest, scratch, out
    )
    return deviations_of(out, count)
