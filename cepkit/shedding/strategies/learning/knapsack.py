"""Choose the classes of partial matches to shed: the least contribution for enough consumption."""

from __future__ import annotations

import numpy as np

UNITS = 100  # consumption in hundredths


def cheapest_cover(loss: np.ndarray, gain: np.ndarray, needed: float) -> np.ndarray:
    """Return the set of classes with the least loss that gains more than what is needed.

    Parameters
    ----------
    loss : ndarray of float64, (n_classes,)
        Delta+: share of the contribution to matches that goes with each class.
    gain : ndarray of float64, (n_classes,)
        Delta-: share of the consumption that each class saves.
    needed : float
        Share of the consumption to save.

    Returns
    -------
    ndarray of bool, (n_classes,)
        All classes when even they do not gain enough.

    Notes
    -----
    Dynamic programming over hundredths of the gain, rounded down, O(100 n_classes). Among sets of equal
    loss, the first one found.
    Source: Zhao, Hung, Weidlich, "Load Shedding for Complex Event Processing", ICDE 2020: a 0/1 knapsack.

    Examples
    --------
    >>> cheapest_cover(np.array([0.5, 0.1, 0.2]), np.array([0.6, 0.3, 0.3]), needed=0.5).tolist()
    [False, True, True]
    """
    chosen = np.zeros(len(loss), bool)
    if needed < 0 or not len(loss):
        return chosen
    weight = np.floor(np.round(gain * UNITS, 6)).astype(np.int64)
    target = int(np.floor(round(needed * UNITS, 6))) + 1
    if weight.sum() < target:
        return ~chosen
    least = np.full(target + 1, np.inf)  # least loss for at least this gain
    least[0] = 0.0
    takes = np.zeros((len(loss), target + 1), bool)
    reach = np.arange(target + 1)
    for c in range(len(loss)):
        with_it = least[np.maximum(reach - weight[c], 0)] + loss[c]
        takes[c] = with_it < least
        takes[c, 0] = False
        least = np.where(takes[c], with_it, least)
    left = target
    for c in range(len(loss) - 1, -1, -1):
        if takes[c, left]:
            chosen[c] = True
            left = max(left - int(weight[c]), 0)
    return chosen


def greedy_cover(loss: np.ndarray, gain: np.ndarray, needed: float) -> np.ndarray:
    """Return the share of each class to shed: classes by ascending loss per gain, the last one in part.

    Returns
    -------
    ndarray of float64, (n_classes,)
        1: all of the class. All ones when even they do not gain enough.

    Notes
    -----
    O(n_classes log n_classes). Source: AthenaCEP, the code of the ICDE 2020 paper
    (``approximate_BKP_PMshedding``).

    Examples
    --------
    >>> greedy_cover(np.array([0.5, 0.1, 0.2]), np.array([0.5, 0.25, 0.25]), needed=0.375).tolist()
    [0.0, 1.0, 0.5]
    """
    share = np.zeros(len(loss))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(gain > 0, loss / gain, np.inf)
    left = needed
    for c in np.argsort(ratio, kind="stable"):
        if left <= 0 or gain[c] <= 0:
            break
        share[c] = min(1.0, left / gain[c])
        left -= gain[c]
    return share
