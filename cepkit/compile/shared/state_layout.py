"""Array bundles that kernels and their callers share; this module holds no compiled code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateArray:
    """One array in the state of a matcher."""

    name: str  # name of the kernel's argument
    dtype: str  # numpy dtype
    # ``partition``: shape (n_partitions,). ``ring``: (n_partitions, width), the last rows of each partition.
    # ``list`` and ``queue``: (n_partitions, capacity), one cell per waiting start; they grow. ``slots``:
    # (n_partitions, width, capacity), several values per waiting start; they grow with lists.
    per: str
    fill: int | float = 0  # value before any event
    width: int = 0  # width of a ring, or number of values per waiting start
