"""The events of a chain as its kernels read them: entries by state, what can precede each, latest starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cepkit.compile.chain import Chain
from cepkit.compile.chain_links import ChainWriter, Link, is_line, write_absence, write_max_starts
from cepkit.engines.shared.kernels import kernel
from cepkit.engines.shared.places import Places, accepted_places
from cepkit.progress import checkpoint

WORK_PER_CALL = 1 << 26
_FEW_OF = 16  # a search for one place in so many is faster than going over all of them


@dataclass(frozen=True, slots=True)
class Entries:
    """Events that the states of a chain accept; see `cepkit.compile.chain_links`.

    Parameters
    ----------
    place, position : ndarray of int64, shape (n_entries,)
        Of the event; places rise within a state.
    low, high : ndarray of int64, shape (n_entries,)
        The entries from ``low`` to ``high`` of a preceding state are those that time allows in front of it.
    window_start : ndarray of int64, shape (n_entries,)
        The first place in whose window it is.
    first_of_state, end_of_state, offset : ndarray of int64, shape (n_states,)
        The entries of each state, and where its part of ``latest`` begins.
    latest : ndarray of int64, shape (n_cells,)
        By state and entry: the latest place at which a path that ends there begins, -1 where none does.
    values : tuple
        What conditions read: places, limits by absent events, columns, constants, tables.
    """

    place: np.ndarray
    position: np.ndarray
    low: np.ndarray
    high: np.ndarray
    window_start: np.ndarray
    first_of_state: np.ndarray
    end_of_state: np.ndarray
    offset: np.ndarray
    latest: np.ndarray
    values: tuple

    @classmethod
    def of(cls, places: Places, accept: np.ndarray, chain: Chain, writer: ChainWriter) -> Entries:
        """Return the entries of ``chain`` in the events of ``places``.

        Notes
        -----
        Time O(n_events x n_states + entries x window), in practice the first; memory O(entries x n_states).
        """
        return _Layout(places, accept, chain, writer).entries()

    def ends(self, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries where matches end and the masks of the final states they do so in, int64."""
        mask = np.zeros(len(self.place), np.int64)
        for s, state in enumerate(chain.states):
            if state.is_final:
                first, end = self.first_of_state[s], self.end_of_state[s]
                cells = self.latest[self.offset[s] + first : self.offset[s] + end]
                mask[first:end] |= np.where(cells >= 0, 1 << s, 0)
        ends = np.flatnonzero(mask)
        return ends, mask[ends]

    def window(self, start: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return by state the first entry from place ``start`` on, and the first from ``last`` on."""
        spans = list(zip(self.first_of_state.tolist(), self.end_of_state.tolist(), strict=True))
        known = {
            span: span[0] + np.searchsorted(self.place[span[0] : span[1]], [start, last])
            for span in set(spans)
        }
        bounds = np.array([known[span] for span in spans], np.int64)
        return np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])


class _Layout:
    def __init__(self, places: Places, accept: np.ndarray, chain: Chain, writer: ChainWriter):
        self.places, self.accept, self.chain, self.writer = places, accept, chain, writer
        self.program = places.program
        self.tests = [state.test for state in chain.states]
        self.is_line = is_line(chain)

    def entries(self) -> Entries:
        n_states = len(self.tests)
        if self.is_line:
            lists = [accepted_places(self.accept[test]) for test in self.tests]
            bounds = np.cumsum([0, *map(len, lists)])
            place, first, end = np.concatenate(lists), bounds[:-1], bounds[1:]
            offset = np.zeros(n_states, np.int64)
        else:
            place = np.flatnonzero(self.accept[sorted(set(self.tests))].any(axis=0))
            first, end = np.zeros(n_states, np.int64), np.full(n_states, len(place))
            offset = np.arange(n_states) * len(place)
        place = place.astype(np.int64, copy=False)
        window_start = self.places.window_start_of(place)
        earliest, latest = self._allowed(place, window_start)
        low, high = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
        near_of_link, far_of_link = self._limits(place)
        near_of_entry = {k: np.zeros(len(place), np.int64) for k in near_of_link}
        links = {(link.source, link.target): k for k, link in enumerate(self.writer.links)}
        for edge in self.chain.edges if self.is_line else self.chain.edges[:1]:
            before = place[first[edge.source] : end[edge.source]], int(first[edge.source])
            own = slice(first[edge.target], end[edge.target])
            low[own], high[own] = (self._rank_at(*before, at[own]) for at in (earliest, latest))
            component = [self.chain.states[s].component for s in (edge.source, edge.target)]
            for k, near in near_of_link.items():
                if not self.is_line or links[tuple(component)] == k:
                    near_of_entry[k][own] = self._rank_at(*before, near[own])
        values = (
            place,
            *(near_of_entry[k] for k in self.writer.nears),
            *(far_of_link[k] for k in self.writer.fars),
            *self.writer.arguments(self.places.inputs, place),
        )
        entries = Entries(
            place, self.places.position_of_place[place], low, high, window_start,
            first.astype(np.int64), end.astype(np.int64), offset,
            self._accepted_cells(place, first, end, offset), values,
        )  # fmt: skip
        self._find_latest_starts(entries)
        return entries

    def _rank_at(self, listed: np.ndarray, first: int, places: np.ndarray) -> np.ndarray:
        """Return the same for some places."""
        if len(places) * _FEW_OF <= self.places.n:
            return first + np.searchsorted(listed, places)
        return self._rank(listed, first)[places]

    def _rank(self, listed: np.ndarray, first: int) -> np.ndarray:
        """Return for every place the number of the first of the listed ones that is not in front of it."""
        rank = np.zeros(self.places.n + 1, np.int64)
        rank[listed + 1] = 1
        rank[0] = first
        return np.cumsum(rank, out=rank)

    def _allowed(self, place: np.ndarray, earliest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first place that may precede each, and the first behind all that may."""
        window = self.program.window
        if window.gap_within is not None:
            earliest = np.maximum(earliest, np.searchsorted(self.places.gap_end, place, side="right"))
        latest = np.searchsorted(self.places.later, place, side="right") if window.strict_time else place
        return earliest, latest

    # --- absent events

    def _limits(self, place: np.ndarray) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """Return, by link, the first place for the event before and the last place for the one behind."""
        nears: dict[int, np.ndarray] = {}
        fars: dict[int, np.ndarray] = {}
        for k, link in enumerate(self.writer.links):
            if not link.absences:
                continue
            near, far = np.zeros(self.places.n, np.int64), np.full(self.places.n, self.places.n)
            for number in range(len(link.absences)):
                self._limit(k, link, number, near, far)
            if link.has_near:
                nears[k] = near[place]
            if link.has_far:
                fars[k] = far[place]
        return nears, fars

    def _limit(self, k: int, link: Link, number: int, near: np.ndarray, far: np.ndarray) -> None:
        absence, places = link.absences[number], self.places
        absent = accepted_places(self.accept[absence.test])
        rank = self._rank(absent, 0)
        if absence.side == "none" and not absence.terms:
            if len(absent):
                before = rank[:-1] - 1
                np.maximum(near, np.where(before >= 0, absent[before], 0), out=near)
            return
        component = link.source if absence.side == "earlier" else link.target
        test = next(state.test for state in self.chain.states if state.component == component)
        own = accepted_places(self.accept[test])
        if absence.side == "earlier":
            lo, hi, out = rank[own + 1], rank[places.window_end[own]], far
        else:
            lo, hi, out = rank[places.window_start[own]], rank[own], near
        arguments = self.writer.arguments(places.inputs)
        nearest = kernel(self.program, write_absence(self.writer, k, number).text, "nearest")
        done = 0
        while done < len(own):
            checkpoint()
            done = nearest(done, WORK_PER_CALL, own, absent, lo, hi, *arguments, out)

    # --- latest starts

    def _accepted_cells(self, place, first, end, offset) -> np.ndarray:
        """Return -1 for what no state accepts, the place for what the first accepts, 0 for the others."""
        cells = np.empty(int((offset + end).max(initial=0)), np.int64)
        for s, test in enumerate(self.tests):
            own = place[first[s] : end[s]]
            start = own if self.chain.states[s].is_first else np.zeros(1, np.int64)
            cells[offset[s] + first[s] : offset[s] + end[s]] = np.where(self.accept[test][own], start, -1)
        return cells

    def _find_latest_starts(self, entries: Entries) -> None:
        if not self.chain.edges:
            return
        run = kernel(self.program, write_max_starts(self.writer).text, "starts")
        for s, state in enumerate(self.chain.states):
            done, end = int(entries.first_of_state[s]), int(entries.end_of_state[s])
            while not state.is_first and done < end:
                checkpoint()
                done = run(
                    s, done, end, WORK_PER_CALL, entries.offset, entries.low, entries.high,
                    entries.window_start, *entries.values, entries.latest,
                )  # fmt: skip
