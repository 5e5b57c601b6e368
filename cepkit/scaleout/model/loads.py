"""The load of one node, and how much of its memory it can use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What one node gets, sends, holds and does, without constant factors.

    Parameters
    ----------
    bandwidth_in, bandwidth_out : float
        Events per second.
    memory : float
        Events, partial matches or partial results that it holds.
    work : float
        Steps per second: arrivals, and pairs that it compares.
    """

    bandwidth_in: float
    bandwidth_out: float
    memory: float
    work: float


MEASURES = {
    "bandwidth_in": "input, events/s",
    "bandwidth_out": "output, events/s",
    "memory": "memory, events",
    "work": "work, steps/s",
}


def usable_events(capacity_events: float, garbage_share: float, utilisation: float) -> float:
    """Return how many events a node can hold, because garbage takes room while the node is busy.

    Parameters
    ----------
    capacity_events : float
        C: events that fit without garbage.
    garbage_share : float
        γ: share of the memory that garbage takes in a node that is always busy, from 0 to 1.
    utilisation : float
        u: share of the time that the node is busy, from 0 to 1.

    Notes
    -----
    C (1 - γ u). The thesis attributes the growth of figure 5.4 to garbage collection and has no formula.

    Examples
    --------
    >>> usable_events(40_000, 0.5, 0.5)
    30000.0
    """
    return capacity_events * (1 - garbage_share * min(utilisation, 1.0))


def capacity_for(usable: float, garbage_share: float, utilisation: float) -> float:
    """Return the capacity with which a node can hold ``usable`` events at this utilisation.

    Examples
    --------
    >>> capacity_for(30_000, 0.5, 0.5)
    40000.0
    """
    return usable / (1 - garbage_share * min(utilisation, 1.0))
