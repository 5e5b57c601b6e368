"""Tests given combinations of events against chosen conditions and absences of a branch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cepkit.compile.sequences.condition_tests_source import write_checking
from cepkit.compile.sequences.program import BoundBranch
from cepkit.compile.sequences.search_source import test_of
from cepkit.engines.shared.kernels import dtypes_of, kernel
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import plain_module

_FEW = 50_000  # up to this many tests, Python takes less time than compiling (measured)
_NONE = np.empty((0, 0), np.uint8)


def holding(
    places: Places,
    accept: np.ndarray | None,
    bound: BoundBranch,
    item: np.ndarray,
    size: np.ndarray,
    conditions: Sequence[int],
    absences: Sequence[int] = (),
) -> np.ndarray:
    """Return which conditions and absences hold for each combination of events.

    Components that a condition does not read may have any places. Few tests run uncompiled.
    """
    program, inputs = places.program, places.inputs
    n, n_tests = len(size), len(conditions) + len(absences)
    first_item = np.zeros(n + 1, np.int64)
    np.cumsum(size.sum(axis=1), out=first_item[1:])
    is_few = n * n_tests < _FEW
    made = write_checking(program, bound, dtypes_of(inputs), conditions, absences, interpreted=is_few)
    check = plain_module(program, made.text)["check"] if is_few else kernel(program, made.text, "check")
    tests = np.array([test_of(program, terms) for terms in bound.absent_accepts], np.int64)
    limits = (places.time_start, places.time_end) if len(absences) else (first_item, first_item)
    out = np.empty((n, n_tests), np.uint8)
    with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
        check(
            n, np.ascontiguousarray(item, np.int64), first_item, np.ascontiguousarray(size, np.int64), tests,
            _NONE if accept is None else accept, *limits, *inputs.arguments(),
            np.zeros(size.shape[1], np.int64), out,
        )  # fmt: skip
    return out.astype(bool)
