"""Events laid out for sequence engines: by partition, with limits as places, and tests of single events."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cepkit import limits
from cepkit.compile.instructions import reading_unsupported
from cepkit.compile.interpreted_columns import ColumnReader, constants_of
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.sequence_source import tests_of, write_accepting
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import interpreting, load, load_kernels, reason_to_compile
from cepkit.compile.shared.term_writing import VECTOR
from cepkit.errors import CepError, short_text, whole_number
from cepkit.events import Events
from cepkit.progress import checkpoint, free_after_fork, run_on_threads
from cepkit.values import cached_property, dataclass

# Work on slices of events on threads, such as sorting values by partition.

# Sort values by partition with kernels: they read in order and write to a few places, on threads.

KERNELS = "cepkit.kernels.row_finding"
_FEWEST_EVENTS = 1 << 18  # numpy is done before the kernels are loaded
_MOST_PARTITIONS = 1 << 14  # to write to more places takes as long as to read from everywhere
_FEWEST_PER_THREAD = 1 << 20  # events; for fewer, a thread takes longer to begin than to work
_POSITIONS_AT_ONCE = 1 << 16  # they stay in the processor's cache
_WIDTHS = (1, 2, 4, 8)


def usable_threads() -> int:
    """Return how many threads matching may use: ``CEPKIT_THREADS``, or the cores of this process."""
    named = os.environ.get("CEPKIT_THREADS")
    if named:
        try:
            return whole_number("CEPKIT_THREADS", max(1, int(named)), most=limits.THREADS)
        except ValueError:
            raise CepError(
                f"CEPKIT_THREADS={short_text(repr(named))}: expected a whole number of threads"
            ) from None
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(n_events: int) -> int:
    """Return how many threads pay for a number of events, at least 1."""
    most = n_events // _FEWEST_PER_THREAD
    return 1 if most < 2 else min(usable_threads(), most)  # to ask takes longer than a small search


@dataclass(frozen=True, slots=True)
class Placing:
    """How events are moved to their partitions: runs of events, one per thread, and where each run writes."""

    partition: np.ndarray  # int32, (n_events,)
    cuts: np.ndarray  # int64, (n_runs + 1,)
    cursor: np.ndarray  # int64, (n_runs, n_partitions): the place of the first event of the run
    size: np.ndarray  # int64, (n_partitions,): events of each partition

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return values of events, (n_events,), by partition. O(n_events)."""
        placed = np.empty(len(values), values.dtype)
        bits = np.dtype(f"u{values.dtype.itemsize}")  # one kernel per width serves all types
        source, target = np.ascontiguousarray(values).view(bits), placed.view(bits)

        def place_run(run: int, own: slice) -> None:
            cursor = self.cursor[run].copy()
            load_kernels(KERNELS).place_values(self.partition[own], cursor, source[own], target)

        _for_each_run(self.cuts, place_run)
        return placed

    def positions(self) -> np.ndarray:
        """Return the positions of the events by partition, int64, (n_events,)."""
        placed = np.empty(len(self.partition), np.int64)
        target = placed.view(np.uint64)

        def place_run(run: int, own: slice) -> None:
            cursor = self.cursor[run].copy()
            for begin in range(own.start, own.stop, _POSITIONS_AT_ONCE):
                stop = min(begin + _POSITIONS_AT_ONCE, own.stop)
                positions = np.arange(begin, stop, dtype=np.uint64)
                load_kernels(KERNELS).place_values(self.partition[begin:stop], cursor, positions, target)

        _for_each_run(self.cuts, place_run)
        return placed


def placing_of(events: Events) -> Placing | None:
    """Return how to place the values of events by partition, or None if numpy is as fast."""
    n, n_partitions = events.n_events, events.n_partitions
    if not (n >= _FEWEST_EVENTS and 2 <= n_partitions <= _MOST_PARTITIONS):
        return None
    n_runs = threads_for(n)
    cuts, partition = np.linspace(0, n, n_runs + 1).astype(np.int64), events.partition_of_event
    counts, first = np.zeros((2, n_runs, n_partitions), np.int64)

    def count(run: int, own: slice) -> None:
        load_kernels(KERNELS).count_by_partition(partition[own], counts[run], first[run])

    _for_each_run(cuts, count)
    before = np.cumsum(counts, axis=0) - counts
    size = counts.sum(axis=0)
    return Placing(partition, cuts, np.cumsum(size) - size + before, size)


def can_place(values: np.ndarray) -> bool:
    """Return whether kernels can place values of this type."""
    return values.ndim == 1 and values.dtype.kind != "O" and values.dtype.itemsize in _WIDTHS


def _for_each_run(cuts: np.ndarray, work: Callable[[int, slice], None]) -> None:
    """Call ``work(run, slice of events)`` for each run, on a thread each."""
    checkpoint()
    runs = [slice(begin, stop) for begin, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]
    if len(runs) == 1:
        work(0, runs[0])
    else:
        run_on_threads(lambda run: work(run, runs[run]), len(runs), len(runs))


# Work on slices of events, on threads.

PER_SLICE = 1 << 20  # events or places of a call: some hundredths of a second
T = TypeVar("T")


def even_cuts(n: int, n_slices: int | None = None) -> list[int]:
    """Return where slices of about equal length begin, and ``n``."""
    n_slices = n_slices or -(-n // PER_SLICE) or 1
    return [n * i // n_slices for i in range(n_slices + 1)]


def in_slices(work: Callable[[int, int], T], cuts: list[int], *, threads: int) -> list[T]:
    """Return ``work(begin, stop)`` for all neighbours among the cuts, on threads."""
    if threads < 2 or len(cuts) < 3:
        results = []
        for begin, stop in pairwise(cuts):
            checkpoint()
            results.append(work(begin, stop))
        return results
    return run_on_threads(lambda i: work(cuts[i], cuts[i + 1]), len(cuts) - 1, threads)


# Kernels of sequence queries, loaded with the functions and column types that they need.

COUNTING = "cepkit.kernels.interpreted_counting"  # the kernels that interpret sequences
_EVENTS_PER_CHUNK = 1 << 16  # their columns fit the cache
_EVENTS_PER_CALL = 1 << 20  # events tested between two checkpoints
_WORK_PER_CALL_AS_PYTHON = 1 << 10


def kernel(program: SequenceProgram, text: str, name: str) -> Callable:
    """Load a generated module with the user's functions, and return its function ``name``."""
    user = {f"u{i}": function.in_kernel for i, function in enumerate(program.functions.values())}
    run = getattr(load(text, user), name)
    # A kernel that runs as Python would warn of overflows. The decorator sets the error state in each call.
    return run if hasattr(run, "py_func") else np.errstate(all="ignore")(run)


def dtypes_of(inputs: Inputs) -> dict[str, str]:
    """Return the dtype of every column that kernels read."""
    return {
        column: VECTOR if array.ndim == 2 else _name_of(array.dtype)
        for column, array in inputs.columns.items()
    }


@lru_cache(maxsize=100)
def _name_of(dtype: np.dtype) -> str:
    """Return the name of a dtype."""
    return dtype.name  # numpy writes it again each time


def per_call(run: Callable, amount: int) -> int:
    """Return how much work a kernel may do in one call: ``amount``, but less if it runs as Python."""
    return amount if hasattr(run, "py_func") else min(amount, _WORK_PER_CALL_AS_PYTHON)


def _reading_unsupported(program: SequenceProgram) -> str | None:
    """Return why numpy cannot compute the conditions on single events, or None."""
    terms = (term for terms in tests_of(program) for term in terms)
    return next(filter(None, map(reading_unsupported, terms)), None)


def chunk_readers(
    columns: Mapping[str, np.ndarray], n_events: int, constants: tuple
) -> Iterator[tuple[slice, ColumnReader]]:
    """Yield slices of events, few enough for the cache, each with a reader of its columns."""
    for start in range(0, n_events, _EVENTS_PER_CHUNK):
        checkpoint()
        rows = slice(start, start + _EVENTS_PER_CHUNK)
        yield rows, ColumnReader({name: values[rows] for name, values in columns.items()}, *constants)


def _accepted_by_columns(places: Any, threads: int) -> np.ndarray:
    """Return which places fulfil which conditions on single events, computed by numpy."""
    tests = tests_of(places.program)
    accept = np.zeros((len(tests), places.n), np.uint8)
    constants = constants_of(places.program, places.inputs)

    def test(begin: int, stop: int) -> None:
        columns = {name: values[begin:stop] for name, values in places.inputs.columns.items()}
        with np.errstate(all="ignore"):
            for rows, reader in chunk_readers(columns, stop - begin, constants):
                for row, terms in zip(accept[:, begin:stop], tests, strict=True):
                    row[rows] = reader.all(map(reader.true, terms))

    in_slices(test, even_cuts(places.n), threads=threads)
    return accept


class InStreamOrder(NamedTuple):
    """The events of a program in stream order."""

    program: SequenceProgram
    inputs: Inputs
    n: int


Loader = Callable[[SequenceProgram, str, str], Callable]  # takes what `kernel` takes


def accepted(
    places: Any, load_as: Loader | None = None, *, otherwise: Loader = kernel, threads: int = 1
) -> np.ndarray:
    """Return which places fulfil the conditions on single events, uint8, (n_tests, n_places)."""
    # ``places`` are the events in any order: `InStreamOrder` or `cepkit.engines.shared.places.Places`.
    # ``load_as`` loads the kernel. By default numpy computes the same where it can, and ``otherwise`` loads
    # it.
    program, inputs = places.program, places.inputs
    accept = np.zeros((len(tests_of(program)), places.n), np.uint8)
    dtypes = dtypes_of(inputs)
    text = program.once(("accepting", *dtypes.items()), partial(write_accepting, program, dtypes)).text
    if load_as is None and not (reason_to_compile(text, COUNTING) or _reading_unsupported(program)):
        return interpreting(text, _accepted_by_columns, places.n)(places, threads)
    run = (load_as or otherwise)(program, text, "accepting")
    with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
        cuts = [*range(0, places.n, per_call(run, _EVENTS_PER_CALL)), places.n]
        in_slices(lambda *own: run(*own, *inputs.arguments(), accept), cuts, threads=threads)
    return accept


# Events laid out for sequence engines: one partition after the other, and limits in time as places.

PLACES = "cepkit.kernels.places"
_FEW = 1 << 15  # up to this many places, a search is as fast as a kernel, which must be compiled first
_SLICES_PER_THREAD = 2
_FEW_OF = 2  # a search for one place in two is faster than a pass over all
_FEWEST_TO_LEAVE_OUT, _SAMPLED = 1 << 15, 1 << 12  # events
_LEFT_OUT = 2  # events are left out if less than half of them have a place
_KEPT_LIMITS = 4  # of the events, each of 8 bytes per event
_keeping = threading.Lock()
free_after_fork(_keeping)


@dataclass(frozen=True)
class Places:
    """The events of a program by partition, in stream order in each; a place is a number in this order."""

    # Within a partition, a later event has a higher place. Every limit below stays inside the partition of
    # its event, so engines need not know partitions. Only the events at the rising positions ``kept`` have
    # places.

    program: SequenceProgram
    events: Events
    kept: np.ndarray | None = None  # int64; None: all

    @cached_property
    def placed(self) -> Events:
        """The events that have places, in stream order."""
        return self.events if self.kept is None else self.events.part(self.kept)

    @property
    def n(self) -> int:
        """The number of places."""
        return self.placed.n_events

    @property
    def is_one_partition(self) -> bool:
        """Whether places are in stream order."""
        return self.events.n_partitions < 2

    @cached_property
    def position_of_place(self) -> np.ndarray:
        """Position in stream order of every place, int64, (n,)."""
        if self.kept is not None and self.is_one_partition:
            return self.kept
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
        """Return the places of events, given their positions."""
        if self.kept is not None:
            positions = np.searchsorted(self.kept, positions)
        return positions if self.is_one_partition else self.placed.rank_by_partition[positions]

    @cached_property
    def _placing(self) -> Placing | None:
        """How kernels move values to places; None if numpy is as fast."""
        return placing_of(self.placed)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return values of the placed events, (n,), by place."""
        if self.is_one_partition:
            return values
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
        """Return a column of the inputs by place, which the events keep unless texts have other codes."""
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
        find, time, closed = load_kernels(PLACES).window_starts_of, self.time, int(window.closed)

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
        """Return the first place after each that is too late by ``width``; None: the end of the partition."""
        if width is None:
            return self.end_of_partition
        return self._limit("window_ends", self.end_of_partition, width)

    def _limit(self, kernel: str, of_partition: np.ndarray, width: int | float) -> np.ndarray:
        """Return what a kernel computes from the clock and a width; the events keep the newest results."""
        closed, kept_limits = self.program.window.closed, self.placed.limits
        key = kernel, self.program.clock, width, type(width), closed
        out = kept_limits.get(key)
        if out is None:
            out = np.empty(self.n, np.int64)
            find = getattr(load_kernels(PLACES), kernel)
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
        load_kernels(PLACES).later_places(self.time, self.end_of_partition, out)
        return out


def placed_and_accepted(
    program: SequenceProgram, events: Events, *, otherwise: Loader = kernel
) -> tuple[Places, np.ndarray]:
    """Return the places of events, and which fulfil the conditions on single events; see `accepted`."""
    # Events that fulfil none get no place if they are most of all.
    if events.n_events >= _FEWEST_TO_LEAVE_OUT and _may_leave_out(program):
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
    return places, accepted(places, otherwise=otherwise, threads=places.threads)


def _may_leave_out(program: SequenceProgram) -> bool:
    """Return whether events that fulfil no condition on single events are the same as none."""
    # A window may count them, they may not be skipped, or end a loop.
    components = [component for bound in program.branches for component in bound.branch.components]
    steps = {step for component in components for step in (component.step, component.inner)}
    ends = any(component.until is not None for component in components)
    return program.window.within_events is None and steps <= {"any", "next"} and not ends


def accepted_places(accept: np.ndarray) -> np.ndarray:
    """Return the places where ``accept`` (uint8, 0 or 1) is 1, int64, rising."""
    if len(accept) <= _FEW:
        return np.flatnonzero(accept.view(np.bool_))
    out = np.empty(len(accept) + 1, np.int64)
    n = load_kernels(PLACES).list_places(accept, out)
    return out[:n] if 2 * n > len(out) else out[:n].copy()
