"""Work on slices of events, on threads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from cepkit.progress import checkpoint, run_on_threads

PER_SLICE = 1 << 20  # events or places of a call: some hundredths of a second
T = TypeVar("T")


def even_cuts(n: int, n_slices: int | None = None) -> list[int]:
    """Return where slices of about equal length begin, and ``n``."""
    n_slices = n_slices or -(-n // PER_SLICE) or 1
    return [n * i // n_slices for i in range(n_slices + 1)]


def in_slices(work: Callable[[int, int], T], cuts: list[int], *, threads: int) -> list[T]:
    """Return ``work(begin, stop)`` for all neighbours among the cuts, on threads."""
    if threads < 2 or len(cuts) < 3:
        found = []
        for begin, stop in pairwise(cuts):
            checkpoint()
            found.append(work(begin, stop))
        return found
    return run_on_threads(lambda i: work(cuts[i], cuts[i + 1]), len(cuts) - 1, threads)
