"""Chances and times of partial matches, as a Markov chain over their states."""

from __future__ import annotations

import numpy as np


def transition_matrix(moves: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the transition matrix of one event: rows are states now, columns are states after the event.

    Parameters
    ----------
    moves : ndarray of float64, (n_states, n_states)
        How often an event moved a partial match from one state to another. The diagonal is not read.
    observed : ndarray of float64, (n_states,)
        How often an event met a partial match in each state.

    Returns
    -------
    ndarray of float64, (n_states, n_states)
        Each row adds up to 1. A state without observations keeps its partial matches. So does the last
        state: there, the match is complete.

    Notes
    -----
    Source: Slo, Bhowmik, Rothermel, "pSPICE", IEEE BigData 2019 (T_q).
    Differs: with skip-till-any-match, a partial match also stays as it is when an event extends it. The chain
    follows the extended one.

    Examples
    --------
    >>> transition_matrix(np.array([[0, 2.0, 0], [0, 0, 1], [0, 0, 0]]), np.array([8.0, 4.0, 0.0]))
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.75, 0.25],
           [0.  , 0.  , 1.  ]])
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

    Parameters
    ----------
    matrix : ndarray of float64, (n_states, n_states)
        Result of `transition_matrix`.
    bin_size, n_bins : int
        Bin b stands for ``b * bin_size`` events left in the window.

    Returns
    -------
    ndarray of float64, (n_bins, n_states)
        P_gamma: the last column of the matrix to the power of the events left.

    Notes
    -----
    O(n_states^3 log bin_size + n_bins n_states^2). Source: pSPICE.

    Examples
    --------
    >>> matrix = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]])
    >>> completion_chances(matrix, bin_size=1, n_bins=3)
    array([[0.  , 0.  , 1.  ],
           [0.  , 0.5 , 1.  ],
           [0.25, 0.75, 1.  ]])
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

    Parameters
    ----------
    matrix : ndarray of float64, (n_states, n_states)
        Result of `transition_matrix`.
    reward : ndarray of float64, (n_states, n_states)
        r(s, s'): seconds of work on an event that moves a partial match from s to s'.
    bin_size, n_bins : int
        Bin b stands for ``b * bin_size`` events left in the window.

    Returns
    -------
    ndarray of float64, (n_bins, n_states)
        tau_gamma, by value iteration: v_k(s) = sum over s' of T(s, s') (r(s, s') + v_(k-1)(s')).

    Notes
    -----
    O(n_bins bin_size n_states^2). Source: pSPICE.

    Examples
    --------
    >>> matrix, reward = np.array([[0.5, 0.5], [0, 1]]), np.array([[2.0, 4.0], [0, 0]])
    >>> remaining_times(matrix, reward, bin_size=1, n_bins=3)[:, 0].tolist()
    [0.0, 3.0, 4.5]
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

    Examples
    --------
    >>> utilities_of_states(np.array([[0.0, 0.5, 1.0]]), np.array([[2.0, 4.0, 0.0]])).tolist()
    [[0.0, 0.125, inf]]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chances > 0, weight * chances / times, 0.0)
