"""Choose the classes of partial matches to shed: the least contribution for enough consumption."""

from __future__ import annotations

import numpy as np

UNITS = 100  # consumption in hundredths


def cheapest_cover(loss: np.ndarray, gain: np.ndarray, needed: float) -> np.ndarray:
    """Return the set of classes with the least loss that gains more than what is needed.

    Among sets of equal loss, the first one found.

    Source: Zhao, Hung, Weidlich, "Load Shedding for Complex Event Processing", ICDE 2020: a 0/1 knapsack.
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

    Source: AthenaCEP, the code of the ICDE 2020 paper (``approximate_BKP_PMshedding``).
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
