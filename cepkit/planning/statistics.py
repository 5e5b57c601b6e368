"""Rates of events and selectivities of conditions, measured on a sample of the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

TUPLES = 2_000  # combinations of events that test each condition
_ANCHORS = 2_000  # events of each component whose windows are counted
_FIRSTS = 100_000  # most events from which the first of a combination is drawn


@dataclass(frozen=True, slots=True)
class Measured:
    """How often a condition held."""

    name: str  # as users see it
    components: frozenset[int]  # the components that it reads
    # n_tested, n_held: number of combinations of events, in the order and window of the pattern
    n_tested: int
    n_held: int

    @property
    def selectivity(self) -> float:
        """The expected share that holds: 0.5 if nothing was tested, and never 0 or 1.

        Source: Laplace's rule of succession.
        """
        return (self.n_held + 1) / (self.n_tested + 2)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The input of the cost formulas."""

    n_events: tuple[int, ...]  # number of events that the component accepts
    in_window: tuple[float, ...]  # mean number of these events in a window after an event of the pattern
    conditions: tuple[Measured, ...] = ()  # the conditions that read several components

    @property
    def selectivities(self) -> tuple[tuple[frozenset[int], float], ...]:
        """The components and the selectivity of every condition."""
        return tuple((one.components, one.selectivity) for one in self.conditions)


def measure_rates(
    members: Sequence[np.ndarray], later: np.ndarray, window_end: np.ndarray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the number of each component's events, and the mean number of them in a window.

    Uses the windows after up to 2,000 evenly spaced events per component.
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

    Draws at most ``TUPLES`` combinations. All pairs of first and last events are equally likely; the events
    between them are drawn from those in between.
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
    """Draw events of ascending components, in order and in one window; see `measure_condition`."""
    first = _evenly(members[components[0]], _FIRSTS)
    if len(components) == 1:
        first = _evenly(first, TUPLES)
        made = np.zeros((len(first), len(members)), np.int64)
        made[:, components[0]] = first
        return made
    last = members[components[-1]]
    low, high = np.searchsorted(last, later[first]), np.searchsorted(last, window_end[first])
    n_after = np.cumsum(np.maximum(high - low, 0))
    total = int(n_after[-1]) if len(n_after) else 0
    ranks = np.arange(total) if total <= TUPLES else rng.integers(0, total, TUPLES)
    of = np.searchsorted(n_after, ranks, side="right")
    made = np.zeros((len(ranks), len(members)), np.int64)
    made[:, components[0]] = first[of]
    made[:, components[-1]] = last[high[of] - (n_after[of] - ranks)]
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
