"""Chances and times of partial matches, as a Markov chain over their states."""

from __future__ import annotations

import numpy as np


def transition_matrix(moves: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the transition matrix of one event: rows are states now, columns are states after the event.

    Source: Slo, Bhowmik, Rothermel, "pSPICE", IEEE BigData 2019 (T_q).
    Differs: with skip-till-any-match, a partial match also stays as it is when an event extends it. The chain
    follows the extended one.
    """
    matrix = np.zeros(moves.shape)
    left = moves.copy()
    np.fill_diagonal(left, 0.0)
    left[-1] = 0.0
    # More moves than observations occur when one event extends a partial match in several ways.
    total = np.maximum(observed, left.sum(axis=1))
    seen = total > 0
    matrix[seen] = left[seen] / total[seen, None]
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return matrix


def completion_chances(matrix: np.ndarray, bin_size: int, n_bins: int) -> np.ndarray:
    """Return the probability that a partial match completes before its window ends.

    Source: pSPICE.
    """
    step = np.linalg.matrix_power(matrix, bin_size)
    chances = np.zeros((n_bins, len(matrix)))
    now = np.zeros(len(matrix))
    now[-1] = 1.0
    for b in range(n_bins):
        chances[b] = now
        now = step @ now
    return np.clip(chances, 0.0, 1.0)


def remaining_times(matrix: np.ndarray, reward: np.ndarray, bin_size: int, n_bins: int) -> np.ndarray:
    """Return the expected seconds of work on a partial match until its window ends.

    Source: pSPICE.
    """
    now_only = (matrix * reward).sum(axis=1)
    times = np.zeros((n_bins, len(matrix)))
    value = np.zeros(len(matrix))
    for b in range(n_bins):
        times[b] = value
        for _ in range(bin_size if b + 1 < n_bins else 0):
            value = now_only + matrix @ value
    return times


def utilities_of_states(chances: np.ndarray, times: np.ndarray, weight: float = 1.0) -> np.ndarray:
    """Return U = w P / tau, float64, (n_bins, n_states): chance of completion for a second of work.

    Without a chance the utility is 0. Without work it is infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chances > 0, weight * chances / times, 0.0)
