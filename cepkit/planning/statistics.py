"""Rates of events and selectivities of conditions, measured on a sample of the places of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

TUPLES = 2_000  # that each condition is tested with
_ANCHORS = 2_000  # events of each component whose windows are counted
_FIRSTS = 100_000  # events among which the first of a combination is drawn


@dataclass(frozen=True, slots=True)
class Measured:
    """How often a condition held.

    Parameters
    ----------
    name : str
        For people.
    components : frozenset of int
        What it looks at.
    n_tested, n_held : int
        Combinations of events in the order and window of the pattern.
    """

    name: str
    components: frozenset[int]
    n_tested: int
    n_held: int

    @property
    def selectivity(self) -> float:
        """The expected share that holds: 0.5 when nothing was tested, and never 0 or 1.

        Source: Laplace's rule of succession.
        """
        return (self.n_held + 1) / (self.n_tested + 2)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a cost is computed from.

    Parameters
    ----------
    n_events : tuple of int, by component
        How many events it accepts.
    in_window : tuple of float, by component
        Mean number of them in a window behind an event of the pattern.
    conditions : tuple of Measured
        Those that look at several components.
    """

    n_events: tuple[int, ...]
    in_window: tuple[float, ...]
    conditions: tuple[Measured, ...] = ()

    @property
    def selectivities(self) -> tuple[tuple[frozenset[int], float], ...]:
        """The components and the selectivity of every condition."""
        return tuple((one.components, one.selectivity) for one in self.conditions)


def measure_rates(
    members: Sequence[np.ndarray], later: np.ndarray, window_end: np.ndarray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the number of each component's events, and the mean number of them in a window.

    Parameters
    ----------
    members : sequence of ndarray of int64
        By component the places of the events that it accepts, rising.
    later, window_end : ndarray of int64, shape (n_places,)
        By place the first one that may follow in a match, and the first one out of the window.

    Notes
    -----
    Windows behind up to 2,000 events of each component, evenly chosen. Time O(n_components^2 log n_places).
    """
    anchors = np.concatenate([_evenly(own, _ANCHORS) for own in members])
    n_events = tuple(map(len, members))
    if not len(anchors):
        return n_events, (0.0,) * len(members)
    begin, end = later[anchors], window_end[anchors]
    counts = [np.maximum(np.searchsorted(own, end) - np.searchsorted(own, begin), 0) for own in members]
    return n_events, tuple(float(count.mean()) for count in counts)


def measure_condition(
    name: str,
    components: frozenset[int],
    holds: Callable[[np.ndarray], np.ndarray],
    members: Sequence[np.ndarray],
    later: np.ndarray,
    window_end: np.ndarray,
    seed: int = 0,
) -> Measured:
    """Return how often a condition holds for events in the order and window of the pattern.

    Parameters
    ----------
    name, components
        As of `Measured`.
    holds : callable
        Takes places, int64 of shape (n, n_components), those of other components arbitrary; returns whether
        the condition holds for each row.
    members, later, window_end
        As of `measure_rates`.
    seed : int
        The same seed draws the same combinations.

    Notes
    -----
    At most ``TUPLES`` combinations; all pairs are equally likely, further events between them are drawn from
    what lies there.
    """
    drawn = combinations(sorted(components), members, later, window_end, np.random.default_rng(seed))
    n_held = int(np.count_nonzero(holds(drawn))) if len(drawn) else 0
    return Measured(name, components, len(drawn), n_held)


def combinations(
    components: Sequence[int],
    members: Sequence[np.ndarray],
    later: np.ndarray,
    window_end: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return drawn events of rising components in order and in one window; as `measure_condition`."""
    first = _evenly(members[components[0]], _FIRSTS)
    if len(components) == 1:
        first = _evenly(first, TUPLES)
        made = np.zeros((len(first), len(members)), np.int64)
        made[:, components[0]] = first
        return made
    last = members[components[-1]]
    low, high = np.searchsorted(last, later[first]), np.searchsorted(last, window_end[first])
    n_behind = np.cumsum(np.maximum(high - low, 0))
    total = int(n_behind[-1]) if len(n_behind) else 0
    ranks = np.arange(total) if total <= TUPLES else rng.integers(0, total, TUPLES)
    of = np.searchsorted(n_behind, ranks, side="right")
    made = np.zeros((len(ranks), len(members)), np.int64)
    made[:, components[0]] = first[of]
    made[:, components[-1]] = last[high[of] - (n_behind[of] - ranks)]
    for before, c in pairwise(components[:-1]):
        low = np.searchsorted(members[c], later[made[:, before]])
        n_between = np.searchsorted(members[c], made[:, components[-1]]) - low
        kept = n_between > 0
        made, low, n_between = made[kept], low[kept], n_between[kept]
        made[:, c] = members[c][low + (rng.random(len(made)) * n_between).astype(np.int64)]
    return made


def _evenly(places: np.ndarray, most: int) -> np.ndarray:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.int64)]
