"""Tables of utilities from 0 to 100, and the threshold that drops a given number of events or pairs."""

from __future__ import annotations

import numpy as np

GREATEST = 100
KEEP_ALL = -1  # a threshold below every utility


def to_utilities(values: np.ndarray) -> np.ndarray:
    """Return values as whole utilities, 0 to 100. The greatest value gets 100, and only 0 gets 0."""
    greatest = values.max(initial=0.0)
    if greatest <= 0:
        return np.zeros(values.shape, np.int64)
    return np.ceil(np.round(GREATEST * values / greatest, 9)).astype(np.int64)


def occurrences(utility: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return O(u): how many events or pairs of each utility a window has, float64, (101,).

    Source: Slo, Bhowmik, Rothermel, "eSPICE", Middleware 2019, as section 3.5 of the specification gives it.
    """
    return np.bincount(utility.ravel(), expected.ravel(), minlength=GREATEST + 1)


def threshold_to_drop(occurrence: np.ndarray, amount: float) -> int:
    """Return the least utility u such that events or pairs of utility u or less make up the amount."""
    if amount <= 0:
        return KEEP_ALL
    enough = np.cumsum(occurrence) >= amount - 1e-9
    return int(enough.argmax()) if enough.any() else GREATEST


def share_to_drop(arrival_rate_hz: float, capacity_hz: float) -> float:
    """Return (R - th) / R, at least 0: the share of the work to drop, so that the rest fits the capacity."""
    if arrival_rate_hz <= capacity_hz:
        return 0.0
    return (arrival_rate_hz - capacity_hz) / arrival_rate_hz


def parts_of_bins(n_bins: int, bin_size: float, part_size: float) -> np.ndarray:
    """Return the part of the window that each bin of positions belongs to, int64, (n_bins,).

    A part has at least one bin. The middle of a bin decides.
    """
    middle = (np.arange(n_bins) + 0.5) * bin_size
    return (middle // max(part_size, bin_size)).astype(np.int64)


def scaled_bins(n_bins: int, mean_size: float, size: float) -> np.ndarray:
    """Return the learned bin that each bin of a window of another size corresponds to: P times N / ws."""
    if mean_size <= 0 or size <= 0:
        return np.arange(n_bins)
    moved = np.floor((np.arange(n_bins) + 0.5) * mean_size / size).astype(np.int64)
    return np.minimum(moved, n_bins - 1)
