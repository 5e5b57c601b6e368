"""The load of one node, and how much of its memory it can use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What one node gets, sends, holds and does, without constant factors."""

    # bandwidth_in, bandwidth_out: events per second
    bandwidth_in: float
    bandwidth_out: float
    memory: float  # events, partial matches or partial results that it holds
    work: float  # steps per second: arrivals, and pairs that it compares


MEASURES = {
    "bandwidth_in": "input, events/s",
    "bandwidth_out": "output, events/s",
    "memory": "memory, events",
    "work": "work, steps/s",
}


def usable_events(capacity_events: float, garbage_share: float, utilisation: float) -> float:
    """Return how many events a node can hold, because garbage takes room while the node is busy.

    C (1 - γ u). The thesis attributes the growth of figure 5.4 to garbage collection and has no formula.
    """
    return capacity_events * (1 - garbage_share * min(utilisation, 1.0))


def capacity_for(usable: float, garbage_share: float, utilisation: float) -> float:
    """Return the capacity with which a node can hold ``usable`` events at this utilisation."""
    return usable / (1 - garbage_share * min(utilisation, 1.0))
