"""The events that a query accepts, by partition, and the next event along each edge of its pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.instructions import EventValue
from cepkit.compile.interpreted_columns import constants_of
from cepkit.compile.interpreted_next import FIRST_TO_PASS, NEAREST, SAME, Jump, NextTables
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted_walk import read_value
from cepkit.engines.shared.places import (
    PER_SLICE,
    InStreamOrder,
    accepted,
    chunk_readers,
    even_cuts,
    in_slices,
    usable_threads,
)
from cepkit.events import Events
from cepkit.kernels.records import EdgeScratch, EdgeTask, EdgeValues, NextReach
from cepkit.values import cached_property, dataclass

KERNELS = "cepkit.kernels.next_event"
_FEWEST_PER_THREAD = 1 << 17
_MOST_OVERLAP = 4  # a slice may look at a quarter of its length beyond its end


@dataclass(frozen=True)
class NextPlaces:
    """The accepted events of a program. Their places are those of `cepkit.kernels.next_event`."""

    program: SequenceProgram
    events: Events

    @cached_property
    def threads(self) -> int:
        """How many threads may work; the matches do not depend on it."""
        most = self.events.n_events // _FEWEST_PER_THREAD if self.program.compiled else 1
        return 1 if most < 2 else min(usable_threads(), most)

    @cached_property
    def kernels(self) -> Any:
        """The kernels of `cepkit.kernels.next_event`."""
        return load_kernels(KERNELS)

    @cached_property
    def inputs(self) -> Inputs:
        """The column values in stream order."""
        return self.program.inputs(self.events.columns)

    @cached_property
    def partition(self) -> np.ndarray:
        """Partition of each event, int32."""
        return np.ascontiguousarray(self.events.partition_of_event, np.int32)

    @cached_property
    def accept(self) -> np.ndarray:
        """Which events fulfil the conditions on single events, uint8, (n_tests, n_events)."""
        events = InStreamOrder(self.program, self.inputs, self.events.n_events)
        return accepted(events, threads=self.threads)

    @cached_property
    def _given(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The first place of each partition, the place of each event or -1, positions, and bits of tests."""
        events, n = self.events, self.events.n_events
        accept, partition = self.accept, self.partition
        cuts, n_partitions = even_cuts(n, self.threads), max(1, events.n_partitions)
        counts, place = np.zeros((len(cuts) - 1, n_partitions), np.int64), np.empty(n, np.int32)

        def count(begin: int, stop: int) -> None:
            self.kernels.join_tests(accept, partition, begin, stop, counts[cuts.index(begin)], place)

        in_slices(count, cuts, threads=self.threads)
        # A partition has the places of the first slice, then those of the next one.
        ends = np.cumsum(counts.T.ravel()).reshape(n_partitions, -1)
        bounds = np.concatenate([[0], ends[:, -1]])
        cursors = np.ascontiguousarray((ends - counts.T).T)
        position, passed = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.int32)

        def give(begin: int, stop: int) -> None:
            cursor = cursors[cuts.index(begin)]
            self.kernels.give_places(partition, begin, stop, cursor, place, position, passed)

        in_slices(give, cuts, threads=self.threads)
        return bounds, place, position, passed

    @property
    def bounds(self) -> np.ndarray:
        """First place of each partition, and the number of places, int64."""
        return self._given[0]

    @property
    def position(self) -> np.ndarray:
        """Position in stream order of each place, int32."""
        return self._given[2]

    @property
    def passed(self) -> np.ndarray:
        """Bit i says whether the event passes test i, int32."""
        return self._given[3]

    @property
    def n(self) -> int:
        """Number of accepted events."""
        return len(self.position)

    @cached_property
    def _time(self) -> np.ndarray:
        """The clock of each place, int64 or float64."""
        values = self.events.columns[self.program.clock].values
        dtype = np.float64 if values.dtype.kind == "f" else np.int64
        out = np.empty(self.n, dtype)

        def spread(begin: int, stop: int) -> None:
            part = np.ascontiguousarray(values[begin:stop], dtype)
            self.kernels.spread(part, self._given[1], begin, out)

        in_slices(spread, even_cuts(self.events.n_events), threads=self.threads)
        return out

    def partition_of(self, place: int) -> int:
        """Return the partition of a place."""
        return int(np.searchsorted(self.bounds, place, "right")) - 1

    @cached_property
    def window_end(self) -> np.ndarray:
        """First place after each that is outside its window, int32."""
        window = self.program.window
        in_time = self._limits(window.within)
        if window.within_events is None:
            return in_time
        before, n_of_partition = np.empty(self.n, np.int64), np.zeros(len(self.bounds) - 1, np.int64)
        self.kernels.count_before(self.partition, self._given[1], n_of_partition, before)
        return np.minimum(in_time, self._ends(before, window.within_events - 1, 1))

    @cached_property
    def gap_end(self) -> np.ndarray:
        """First place after each that is too late to be the next one of a match, int32; empty: no limit."""
        within = self.program.window.gap_within
        return np.empty(0, np.int32) if within is None else self._limits(within)

    @cached_property
    def later(self) -> np.ndarray:
        """First place after each with a later time, int32; empty if times may be equal."""
        if not self.program.window.strict_time:
            return np.empty(0, np.int32)
        out, time = np.empty(self.n, np.int32), self._time
        self._fill(lambda k, *own: self.kernels.later_places(time, self.bounds, k, *own, out))
        return out

    def _limits(self, width: int | float | None) -> np.ndarray:
        """Return the first place after each that is too late by ``width``, or of another partition."""
        if width is None:
            return self._ends(np.empty(0, np.int64), 0, 1)
        width = float(width) if self._time.dtype.kind == "f" else width
        return self._ends(self._time, width, int(self.program.window.closed))

    def _ends(self, time: np.ndarray, width: int | float, closed: int) -> np.ndarray:
        """Return the same for any rising numbers in place of the clock."""
        out = np.empty(self.n, np.int32)
        self._fill(lambda k, *own: self.kernels.limit_places(time, self.bounds, width, closed, k, *own, out))
        return out

    def _fill(self, run: Callable[..., None]) -> None:
        """Call a kernel for all places; it takes a partition and the first and last place of a slice."""
        work = lambda begin, stop: run(self.partition_of(begin), begin, stop)  # noqa: E731
        in_slices(work, even_cuts(self.n, self.threads), threads=self.threads)

    @cached_property
    def ticks(self) -> tuple[np.ndarray, int] | None:
        """The clock of each place and the longest time of a match, if both are whole numbers."""
        window, closed = self.program.window, self.program.window.closed
        within = window.within
        if window.within_events is not None or not isinstance(within, int | np.integer):
            return None
        return (
            (self._time, min(int(within), 2**63 - 1) - (not closed)) if self._time.dtype.kind == "i" else None
        )

    def end_of_window(self, place: int) -> int:
        """Return the first place after ``place`` that is outside its window."""
        if self.ticks is None or "window_end" in self.__dict__:
            return int(self.window_end[place])
        time, within = self.ticks
        end = int(self.bounds[self.partition_of(place) + 1])
        latest = min(int(time[place]) + within, 2**63 - 1)
        return place + int(np.searchsorted(time[place:end], latest, "right"))

    @cached_property
    def cuts(self) -> list[int]:
        """Where slices of the places begin, and the number of places; few windows reach beyond a slice."""
        cuts = [0]
        for cut in even_cuts(self.n)[1:-1]:
            for candidate in (int(self.bounds[self.partition_of(cut)]), cut):
                overlap = self.end_of_window(candidate - 1) - candidate if candidate else 0
                if candidate - cuts[-1] > PER_SLICE // 2 and overlap * _MOST_OVERLAP <= candidate - cuts[-1]:
                    cuts.append(candidate)
                    break
        return [*cuts, self.n]

    @cached_property
    def walk_cuts(self) -> list[int]:
        """Where slices of the first events of matches begin; a walk may look at later slices."""
        return even_cuts(self.n)

    def values(self, floats: Iterable[EventValue], integers: Iterable[EventValue]) -> tuple:
        """Return what tests read of the places, float64 and int64, (n_values, n_places)."""
        outputs = [(wanted, np.empty((len(wanted), self.n), dtype)) for wanted, dtype in (
            (tuple(floats), np.float64), (tuple(integers), np.int64)
        )]  # fmt: skip
        columns = {name: values for name, values in self.inputs.columns.items() if values.ndim == 1}
        constants, place = constants_of(self.program, self.inputs), self._given[1]  # the place of each event

        def read(begin: int, stop: int) -> None:
            slice_columns = {name: values[begin:stop] for name, values in columns.items()}
            with np.errstate(all="ignore"):
                for rows, reader in chunk_readers(slice_columns, stop - begin, constants):
                    n = min(rows.stop, stop - begin) - rows.start
                    for values, out in outputs:
                        for value, row in zip(values, out, strict=True):
                            of_chunk = np.broadcast_to(read_value(reader, value), n)
                            of_chunk = np.ascontiguousarray(of_chunk, out.dtype)
                            self.kernels.spread(of_chunk, place, begin + rows.start, row)

        if any(len(wanted) for wanted, _ in outputs):
            in_slices(read, even_cuts(self.events.n_events), threads=self.threads)
        return outputs[0][1], outputs[1][1]

    def targets(self, tables: NextTables, values: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the next place along each edge of a branch, int32, (n_edges, n_places)."""
        out = np.empty((len(tables.edges), self.n), np.int32)
        if FIRST_TO_PASS in map(tables.way, tables.edges):
            _ = self.window_end  # before threads ask for it
        for edge, row in zip(tables.edges, out, strict=True):
            work = partial(self._find, tables, edge, values, row)
            in_slices(work, self.cuts, threads=self.threads)
        return out

    def _find(self, tables: NextTables, edge: Jump, values: tuple, out: np.ndarray, begin: int, stop: int):
        """Write the targets of an edge for the places of a slice."""
        if begin == stop:
            return
        way = tables.way(edge)
        is_limited = not (edge.looks_back or edge.is_absent)  # otherwise any next place counts
        later = self.later if is_limited else np.empty(0, np.int32)
        gap_end = self.gap_end if is_limited else np.empty(0, np.int32)
        end = self.end_of_window(stop - 1)
        size = 1 if way == NEAREST else end - begin + 1
        if way == SAME:
            size = 1 << (2 * size).bit_length()  # a hash table
        stack, numbers = np.empty(size, np.int32), np.empty(size, np.int64)
        places = np.full(size if way == SAME else 1, -1, np.int32)
        window_end = self.window_end if way == FIRST_TO_PASS else np.empty(0, np.int32)
        tests = np.ascontiguousarray(tables.tests[edge.first_test : edge.last_test])
        source = 1 << edge.source if is_limited else 0
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
            self.kernels.find_targets(
                EdgeTask(way, self.partition_of(stop - 1), begin, stop, end, source, 1 << edge.target),
                NextReach(self.bounds, self.passed, later, window_end, gap_end),
                EdgeValues(tests, *values), values[0].view(np.int64), EdgeScratch(stack, numbers, places),
                out,
            )  # fmt: skip
