"""Array bundles that kernels and their callers share; no compiled code stands here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateArray:
    """One array of a matcher's state.

    Parameters
    ----------
    name : str
        Argument of the kernel.
    dtype : str
        numpy dtype.
    per : str
        ``partition``: shape (n_partitions,); ``ring``: (n_partitions, width), the last rows of each
        partition; ``list`` and ``queue``: (n_partitions, capacity), one cell per waiting start, growing.
    fill : int or float
        Value before any event.
    width : int
        Of a ring.
    """

    name: str
    dtype: str
    per: str
    fill: int | float = 0
    width: int = 0
