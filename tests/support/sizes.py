"""The seeds of a run, some that change from day to day or all of them with ``--full``; whether it compiles.

A family of random cases has few seeds in a run, so that a run is short, and other seeds in the next turn.
The environment variable ``CEPKIT_TURN`` is the number of the turn. If it is not set, the date chooses it.
The header of a run shows the turn, so the same number gives the same seeds again. ``--full`` has all seeds.
"""

from __future__ import annotations

import os
from datetime import date

import numba
import pytest

JIT = not numba.config.DISABLE_JIT
needs_kernels = pytest.mark.skipif(not JIT, reason="needs compiled kernels")
_is_full = False


def begin(config: pytest.Config) -> None:
    """Choose the turn of this run, and of the processes that pytest starts for it."""
    global _is_full
    _is_full = bool(config.getoption("--full"))
    if not os.environ.setdefault("CEPKIT_TURN", str(date.today().toordinal())).isdecimal():
        raise pytest.UsageError(f"CEPKIT_TURN={os.environ['CEPKIT_TURN']}: expected a whole number")


def is_full() -> bool:
    """Return whether the run has ``--full``."""
    return _is_full


def turn() -> int:
    """Return the number that chooses the seeds of this run."""
    return int(os.environ.get("CEPKIT_TURN", 0))


def seeds(n: int, of: int) -> list[int]:
    """Return ``n`` of the seeds below ``of``, others in the next turn, or all of them with ``--full``."""
    if _is_full or n >= of:
        return list(range(of))
    first = turn() * n
    return sorted((first + i) % of for i in range(n))
