"""Work on slices of events on threads, such as sorting values by partition."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from cepkit import limits
from cepkit.compile.shared.loading import load_kernels
from cepkit.errors import CepError, short_text, whole_number
from cepkit.events import Events
from cepkit.progress import checkpoint, run_on_threads

# Sort values by partition with kernels: they read in order and write to a few places, on threads.

KERNELS = "cepkit.kernels.row_patterns.finding"
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
    return max(1, min(usable_threads(), n_events // _FEWEST_PER_THREAD))


@dataclass(frozen=True, slots=True)
class Placing:
    """Runs of events, and where the events of each partition go in each run. Threads take one run each."""

    partition: np.ndarray  # int32, (n_events,)
    cuts: np.ndarray  # int64, (n_runs + 1,)
    cursor: np.ndarray  # int64, (n_runs, n_partitions): the place of the first event of the run
    size: np.ndarray  # int64, (n_partitions,): events of each partition

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return values of events, (n_events,), by partition. O(n_events)."""
        placed = np.empty(len(values), values.dtype)
        bits = np.dtype(f"u{values.dtype.itemsize}")
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
    """Return whether `Placing` takes these values."""
    return values.ndim == 1 and values.dtype.kind != "O" and values.dtype.itemsize in _WIDTHS


def _for_each_run(cuts: np.ndarray, work: Callable[[int, slice], None]) -> None:
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
