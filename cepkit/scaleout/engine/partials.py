"""Partial matches of one branch, and their growth by one event at the nodes of a state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.progress import checkpoint

_PAIRS_AT_ONCE = 1 << 19


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial matches of a branch."""

    place: np.ndarray  # int64, (n, width): the places of each one's events, rising; -1 after the last
    size: np.ndarray  # int64, (n, n_components): number of events of each component

    def __len__(self) -> int:
        return len(self.place)

    @property
    def length(self) -> np.ndarray:
        """Number of events of each, int64, (n,)."""
        return self.size.sum(axis=1)

    @property
    def first(self) -> np.ndarray:
        """Place of the first event of each, int64, (n,)."""
        return self.place[:, 0]

    @property
    def last(self) -> np.ndarray:
        """Place of the last event of each, int64, (n,)."""
        return self.place[np.arange(len(self)), self.length - 1]

    @property
    def items(self) -> np.ndarray:
        """Places of all events, one partial match after the other, int64."""
        return self.place[np.arange(self.place.shape[1]) < self.length[:, None]]

    def take(self, rows: np.ndarray | slice) -> Partials:
        """Return these partial matches, in this order."""
        return Partials(self.place[rows], self.size[rows])

    def grown(self, parent: np.ndarray, event: np.ndarray, component: int) -> Partials:
        """Return partial matches ``parent``, each with one event more for a component."""
        size = self.size[parent]
        length = size.sum(axis=1)
        width = int(length.max(initial=0)) + 1
        place = np.full((len(parent), width), -1, np.int64)
        known = min(width, self.place.shape[1])
        place[:, :known] = self.place[parent, :known]
        place[np.arange(len(parent)), length] = event
        size[:, component] += 1
        return Partials(place, size)

    def block(self, places: Places, branch: int) -> MatchBlock:
        """Return complete matches as a block, not yet in canonical order."""
        n, n_components = self.size.shape
        first_item = np.zeros(n + 1, np.int64)
        np.cumsum(self.length, out=first_item[1:])
        component = np.repeat(np.tile(np.arange(n_components, dtype=np.int16), n), self.size.reshape(-1))
        return MatchBlock(
            places.position_of_place[self.items].astype(np.int64, copy=False),
            component,
            first_item,
            np.full(n, branch, np.int16),
        )


def begun(places: np.ndarray, n_components: int) -> Partials:
    """Return the partial matches that begin at some places."""
    size = np.zeros((len(places), n_components), np.int64)
    size[:, :1] = 1
    return Partials(np.asarray(places, np.int64)[:, None], size)


def together(parts: list[Partials], n_components: int) -> Partials:
    """Return the partial matches of several parts, one part after the other."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return begun(np.empty(0, np.int64), n_components)
    width = max(part.place.shape[1] for part in parts)
    place = np.full((sum(map(len, parts)), width), -1, np.int64)
    at = 0
    for part in parts:
        place[at : at + len(part), : part.place.shape[1]] = part.place
        at += len(part)
    return Partials(place, np.concatenate([part.size for part in parts]))


def pairs_in_reach(
    places: Places, partials: Partials, events: np.ndarray, step: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the pairs of a partial match and a later event that clock, windows and contiguity allow."""
    first, last = partials.first, partials.last
    low, high = places.later[last], np.minimum(places.window_end[first], places.gap_end[last])
    if step in ("partition", "strict"):
        high = np.minimum(high, last + 2)
    begin, stop = np.searchsorted(events, low), np.searchsorted(events, high)
    n_pairs = np.maximum(stop - begin, 0)
    total = np.cumsum(n_pairs)
    row = 0
    while row < len(partials):
        checkpoint()
        before = int(total[row - 1]) if row else 0
        end = max(row + 1, int(np.searchsorted(total, before + _PAIRS_AT_ONCE, "right")))
        n = n_pairs[row:end]
        parent = np.repeat(np.arange(row, end), n)
        within = np.arange(len(parent)) - np.repeat(np.cumsum(n) - n, n)
        event = events[begin[parent] + within]
        if step == "strict":
            position = places.position_of_place
            near = position[event] == position[last[parent]] + 1
            parent, event = parent[near], event[near]
        yield parent, event
        row = end
