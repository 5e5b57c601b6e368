"""Tables of utilities from 0 to 100, and the threshold that drops a given number of events or pairs."""

from __future__ import annotations

import numpy as np

GREATEST = 100
KEEP_ALL = -1  # a threshold below every utility


def to_utilities(values: np.ndarray) -> np.ndarray:
    """Return values as whole utilities, 0 to 100. The greatest value gets 100, and only 0 gets 0.

    Parameters
    ----------
    values : ndarray of float64, any shape
        At least 0.

    Returns
    -------
    ndarray of int64, same shape

    Examples
    --------
    >>> to_utilities(np.array([0.0, 0.001, 2.0, 4.0])).tolist()
    [0, 1, 50, 100]
    """
    greatest = values.max(initial=0.0)
    if greatest <= 0:
        return np.zeros(values.shape, np.int64)
    return np.ceil(np.round(GREATEST * values / greatest, 9)).astype(np.int64)


def occurrences(utility: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return O(u): how many events or pairs of each utility a window has, float64, (101,).

    Parameters
    ----------
    utility : ndarray of int64
        UT, 0 to 100.
    expected : ndarray of float64, same shape
        S: expected number of events or pairs in each cell of the table.

    Notes
    -----
    Source: Slo, Bhowmik, Rothermel, "eSPICE", Middleware 2019, as section 3.5 of the specification gives it.

    Examples
    --------
    >>> made = occurrences(np.array([0, 100, 0]), np.array([0.5, 1.0, 2.0]))
    >>> float(made[0]), float(made[100])
    (2.5, 1.0)
    """
    return np.bincount(utility.ravel(), expected.ravel(), minlength=GREATEST + 1)


def threshold_to_drop(occurrence: np.ndarray, amount: float) -> int:
    """Return the least utility u such that events or pairs of utility u or less make up the amount.

    Parameters
    ----------
    occurrence : ndarray of float64, (101,)
        Result of `occurrences`. Its cumulative sum is CDT.
    amount : float
        How many to drop in a window or in a part of it.

    Returns
    -------
    int
        -1 when nothing has to go, and 100 when even all are not enough.

    Examples
    --------
    >>> made = occurrences(np.array([0, 40, 100]), np.array([2.0, 1.0, 3.0]))
    >>> [threshold_to_drop(made, amount) for amount in (0.0, 1.5, 2.5, 3.5, 9.0)]
    [-1, 0, 40, 100, 100]
    """
    if amount <= 0:
        return KEEP_ALL
    enough = np.cumsum(occurrence) >= amount - 1e-9
    return int(enough.argmax()) if enough.any() else GREATEST


def share_to_drop(arrival_rate_hz: float, capacity_hz: float) -> float:
    """Return (R - th) / R, at least 0: the share of the work to drop, so that the rest fits the capacity.

    Examples
    --------
    >>> share_to_drop(400.0, 100.0), share_to_drop(50.0, 100.0)
    (0.75, 0.0)
    """
    if arrival_rate_hz <= capacity_hz:
        return 0.0
    return (arrival_rate_hz - capacity_hz) / arrival_rate_hz


def parts_of_bins(n_bins: int, bin_size: float, part_size: float) -> np.ndarray:
    """Return the part of the window that each bin of positions belongs to, int64, (n_bins,).

    A part has at least one bin. The middle of a bin decides.

    Examples
    --------
    >>> parts_of_bins(6, 10, 20).tolist(), parts_of_bins(3, 10, 4).tolist(), parts_of_bins(3, 10, 99).tolist()
    ([0, 0, 1, 1, 2, 2], [0, 1, 2], [0, 0, 0])
    """
    middle = (np.arange(n_bins) + 0.5) * bin_size
    return (middle // max(part_size, bin_size)).astype(np.int64)


def scaled_bins(n_bins: int, mean_size: float, size: float) -> np.ndarray:
    """Return the learned bin that each bin of a window of another size corresponds to: P times N / ws.

    Parameters
    ----------
    n_bins : int
    mean_size : float
        N: mean number of events in a window of the warm-up.
    size : float
        ws: number of events in a window now.

    Returns
    -------
    ndarray of int64, (n_bins,)

    Examples
    --------
    >>> scaled_bins(4, mean_size=100, size=200).tolist(), scaled_bins(4, mean_size=100, size=50).tolist()
    ([0, 0, 1, 1], [1, 3, 3, 3])
    """
    if mean_size <= 0 or size <= 0:
        return np.arange(n_bins)
    moved = np.floor((np.arange(n_bins) + 0.5) * mean_size / size).astype(np.int64)
    return np.minimum(moved, n_bins - 1)
