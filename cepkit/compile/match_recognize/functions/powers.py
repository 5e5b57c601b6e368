"""Powers and logarithms in MATCH_RECOGNIZE of many numbers at once, with the values of Python's ``math``.

numpy rounds the last digit in another way, so each value is computed by Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.arithmetic import logarithm

POWERS: dict[str, Callable[..., float]] = {
    "exp": math.exp, "ln": math.log, "log": logarithm, "log2": math.log2, "log10": math.log10,
    "power": math.pow, "pow": math.pow,
}  # fmt: skip


def powers(function: str, parts: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a function, and where it has none, as ``LN(0)``."""
    call = POWERS[function]

    def value(*arguments: float) -> float | None:
        try:
            return call(*arguments)
        except (ArithmeticError, ValueError):
            return None

    lists = [part.tolist() if isinstance(part, np.ndarray) else repeat(part) for part in parts]
    found = list(map(value, *lists))
    missing = np.array([one is None for one in found], bool)
    return np.array([0.0 if one is None else one for one in found], np.float64), missing
