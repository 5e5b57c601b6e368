"""Events laid out for sequence engines: one partition after the other, and limits in time as places."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.kernels import InStreamOrder, accepted
from cepkit.engines.shared.placing import Placing, can_place, even_cuts, in_slices, placing_of, threads_for
from cepkit.events import Events
from cepkit.progress import free_after_fork

if TYPE_CHECKING:
    from cepkit.compile.sequences.program import SequenceProgram

WINDOWS, PATHS = "cepkit.kernels.windows", "cepkit.kernels.path_counts"
_FEW = 1 << 15  # up to this many places, a search is as fast as a kernel, which must be compiled first
_SLICES_PER_THREAD = 2
_FEW_OF = 4  # a search for one place in four is faster than a pass over all
_FEWEST_TO_LEAVE_OUT, _SAMPLED = 1 << 15, 1 << 12  # events
_LEFT_OUT = 2  # events are left out if less than half of them have a place
_KEPT_LIMITS = 4  # of the events, each of 8 bytes per event
_keeping = threading.Lock()
free_after_fork(_keeping)


@dataclass(frozen=True)
class Places:
    """The events of a program by partition, in stream order within each; a place is a number in this order.

    Within a partition, a later event has a higher place. Every limit below stays inside the partition of its
    event, so engines need not know partitions. Only the events at the rising positions ``kept`` have places.

    """

    program: SequenceProgram
    events: Events
    kept: np.ndarray | None = None  # int64; None: all

    @cached_property
    def placed(self) -> Events:
        """The events that have places, in stream order."""
        return self.events if self.kept is None else self.events.part(self.kept)

    @property
    def n(self) -> int:
        """Number of places."""
        return self.placed.n_events

    @property
    def is_one_partition(self) -> bool:
        """Whether places are in stream order."""
        return self.events.n_partitions < 2

    @cached_property
    def position_of_place(self) -> np.ndarray:
        """Position in stream order of every place, int64, (n,)."""
        return self._by_partition if self.kept is None else self.kept[self._by_partition]

    @property
    def _by_partition(self) -> np.ndarray:
        """Position of every place among the placed events, int64, (n,)."""
        kept = vars(self.placed)  # where the events keep it, too
        if "by_partition" not in kept and self._placing is not None:
            kept["by_partition"] = self._placing.positions()
        return self.placed.by_partition

    @property
    def place_of_position(self) -> np.ndarray:
        """Place of every position, int64, (n_events,). All events have places."""
        return self.events.rank_by_partition

    def places_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the places of positions that have some."""
        if self.kept is not None:
            positions = np.searchsorted(self.kept, positions)
        return self.placed.rank_by_partition[positions]

    @cached_property
    def _placing(self) -> Placing | None:
        return placing_of(self.placed)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return values of the placed events, (n,), by place."""
        if self._placing is not None and can_place(values):
            return self._placing.place(values)
        return values[self._by_partition]

    @cached_property
    def inputs(self) -> Inputs:
        """The column values that kernels read, by place."""
        inputs = self.program.inputs(self.placed.columns)
        if self.is_one_partition:
            return inputs
        return inputs.with_columns(
            {name: self._by_place(name, values) for name, values in inputs.columns.items()}
        )

    def _by_place(self, name: str, values: np.ndarray) -> np.ndarray:
        column = self.placed.columns.get(name)
        if column is not None and column.values is values:  # texts may have other codes
            return self.placed.values_by_partition(name, self.place)
        return self.place(values)

    @cached_property
    def start_of_partition(self) -> np.ndarray:
        """First place of the partition of every place, int64, (n,)."""
        if self.is_one_partition:
            return np.zeros(self.n, np.int64)
        if self._placing is None:
            return self.placed.bounds_by_partition[0]
        size = self._placing.size
        return np.repeat(np.cumsum(size) - size, size)

    @cached_property
    def end_of_partition(self) -> np.ndarray:
        """First place after the partition of every place, int64, (n,)."""
        if self.is_one_partition:
            return np.full(self.n, self.n)
        if self._placing is None:
            return self.placed.bounds_by_partition[1]
        size = self._placing.size
        return np.repeat(np.cumsum(size), size)

    @cached_property
    def threads(self) -> int:
        """How many threads may work on parts of the events; the matches do not depend on it."""
        return threads_for(self.n) if self.program.compiled and self.program.pure else 1

    def cuts_between_partitions(self, places: np.ndarray) -> list[int]:
        """Return how to cut rising places into slices for the threads: no partition is in two of them."""
        n = len(places)
        if self.threads < 2 or self.is_one_partition or not n:
            return [0, n]
        within = places[even_cuts(n, min(n, _SLICES_PER_THREAD * self.threads))[1:-1]]
        begins = np.searchsorted(places, self.start_of_partition[within])
        return np.unique(np.concatenate([[0], begins, [n]])).tolist()

    @cached_property
    def time(self) -> np.ndarray:
        """The clock of every place, int64 or float64, (n,), contiguous."""
        values = self.placed.values_by_partition(self.program.clock, self.place)
        return np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)

    # --- limits, all int64, (n,)

    @cached_property
    def time_end(self) -> np.ndarray:
        """First place after each that is outside its time window, or its partition if there is no window."""
        return self._ends(self.program.window.within)

    @cached_property
    def gap_end(self) -> np.ndarray:
        """First place after each that is too late to be the next event of a match."""
        return self._ends(self.program.window.gap_within)

    @cached_property
    def time_start(self) -> np.ndarray:
        """First place whose time window contains each, or of its partition if there is no window."""
        within = self.program.window.within
        if within is None:
            return self.start_of_partition
        if self.n <= _FEW and (starts := self._search_starts()) is not None:
            return starts
        return self._limit("window_starts", self.start_of_partition, within)

    def window_start_of(self, places: np.ndarray) -> np.ndarray:
        """Return the first place whose window contains each of these places; fastest if they ascend."""
        window = self.program.window
        is_known = "time_start" in self.__dict__ or window.within is None or window.within_events is not None
        if is_known or self.n <= _FEW or len(places) * _FEW_OF > self.n:
            return self.window_start[places]
        out = np.empty(len(places), np.int64)
        start = np.empty(0, np.int64) if self.is_one_partition else self.start_of_partition
        places = np.ascontiguousarray(places, np.int64)
        find, time, closed = load_kernels(WINDOWS).window_starts_of, self.time, int(window.closed)

        def search(begin: int, stop: int) -> None:
            with np.errstate(over="ignore"):
                find(places[begin:stop], time, start, window.within, closed, out[begin:stop])

        in_slices(search, even_cuts(len(places), self.threads), threads=self.threads)
        return out

    def _search_starts(self) -> np.ndarray | None:
        """Return where the time windows begin by binary search, or None if only a kernel is exact."""
        within, time = self.program.window.within, self.time
        is_whole = time.dtype.kind == "i" and isinstance(within, int | np.integer)
        if not (self.is_one_partition and is_whole and self.n and int(time[0]) - within >= -(2**63)):
            return None
        starts = np.searchsorted(time, time - within, "left" if self.program.window.closed else "right")
        return np.minimum(starts, np.arange(self.n))

    def _ends(self, width: int | float | None) -> np.ndarray:
        if width is None:
            return self.end_of_partition
        return self._limit("window_ends", self.end_of_partition, width)

    def _limit(self, kernel: str, of_partition: np.ndarray, width: int | float) -> np.ndarray:
        """Return what a kernel computes for a width; the newest limits stay with the events."""
        closed, kept_limits = self.program.window.closed, self.placed.limits
        key = kernel, self.program.clock, width, type(width), closed
        out = kept_limits.get(key)
        if out is None:
            out = np.empty(self.n, np.int64)
            find = getattr(load_kernels(WINDOWS), kernel)
            with np.errstate(over="ignore"):  # only a kernel that runs as Python warns of an overflow
                find(self.time, of_partition, width, int(closed), out)
            with _keeping:
                kept_limits[key] = out
                while len(kept_limits) > _KEPT_LIMITS:
                    del kept_limits[next(iter(kept_limits))]
        return out

    @cached_property
    def window_end(self) -> np.ndarray:
        """First place after each that is outside its window, in time or in number of events."""
        n_events = self.program.window.within_events
        if n_events is None:
            return self.time_end
        return np.minimum(self.time_end, np.arange(self.n) + n_events)

    @cached_property
    def window_start(self) -> np.ndarray:
        """First place whose window contains each, in time and in number of events."""
        n_events = self.program.window.within_events
        if n_events is None:
            return self.time_start
        return np.maximum(self.time_start, np.arange(self.n) - (n_events - 1))

    @cached_property
    def later(self) -> np.ndarray:
        """First place that may follow each in a match: the next, or with strict time the next later one."""
        if not self.program.window.strict_time:
            return np.arange(1, self.n + 1)
        out = np.empty(self.n, np.int64)
        load_kernels(WINDOWS).later_places(self.time, self.end_of_partition, out)
        return out


def placed_and_accepted(program: SequenceProgram, events: Events) -> tuple[Places, np.ndarray]:
    """Return the places of events, and which of them fulfil the conditions on single events; see `accepted`.

    Events that fulfil none get no place if they are most of all, and no window counts events.

    """
    if events.n_events >= _FEWEST_TO_LEAVE_OUT and program.window.within_events is None:
        inputs = program.inputs(events.columns)
        step = max(1, events.n_events // _SAMPLED)
        columns = {name: np.ascontiguousarray(values[::step]) for name, values in inputs.columns.items()}
        sample = InStreamOrder(program, inputs.with_columns(columns), -(-events.n_events // step))
        if np.count_nonzero(accepted(sample).any(axis=0)) * _LEFT_OUT < sample.n:
            n_threads = threads_for(events.n_events) if program.compiled and program.pure else 1
            accept = accepted(InStreamOrder(program, inputs, events.n_events), threads=n_threads)
            kept = accepted_places(np.bitwise_or.reduce(accept, axis=0))
            places = Places(program, events, kept)
            return places, np.stack([places.place(row[kept]) for row in accept])
    places = Places(program, events)
    return places, accepted(places, threads=places.threads)


def accepted_places(accept: np.ndarray) -> np.ndarray:
    """Return the places where ``accept`` (uint8, 0 or 1) is 1, int64, rising."""
    if len(accept) <= _FEW:
        return np.flatnonzero(accept.view(np.bool_))
    out = np.empty(len(accept) + 1, np.int64)
    n = load_kernels(PATHS).list_places(accept, out)
    return out[:n] if 2 * n > len(out) else out[:n].copy()
