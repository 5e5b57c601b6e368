"""How much a run tries: the cases of every run, a tenth of the slow ones too, or all with ``--full``.

``CEPKIT_TENTH=0`` to ``9`` adds a tenth of the slow cases to a run. Ten runs with different numbers cover all
cases. Cases that are marked ``long`` belong to no tenth. With the fixture ``whole`` a test tries less of a
case in a tenth than with ``--full``.

``CEPKIT_THIRD=0`` to ``2`` leaves out two thirds of the cases with a seed. Three runs with different numbers
cover all cases. CI runs the kernels as plain Python in this way.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

import pytest


def tenth() -> int | None:
    """Return the tenth of the slow cases that this run takes, None for no tenth."""
    return _part("CEPKIT_TENTH", 10)


def third() -> int | None:
    """Return the third of the cases with a seed that this run takes, None for all of them."""
    return _part("CEPKIT_THIRD", 3)


def _part(variable: str, n: int) -> int | None:
    number = os.environ.get(variable)
    if not number:
        return None
    if number not in map(str, range(n)):
        raise pytest.UsageError(f"{variable}={number}: write a number from 0 to {n - 1}")
    return int(number)


def is_in_third(item: pytest.Item) -> bool:
    """Return whether a test is in the third of this run. A test without a seed is in every third."""
    if third() is None or "seed" not in getattr(getattr(item, "callspec", None), "params", {}):
        return True
    return zlib.crc32(item.nodeid.encode()) % 3 == third()


def tenth_of(item: pytest.Item) -> int:
    """Return the tenth that a test belongs to.

    The cases of one shape of query belong together: a shape is compiled once.
    """
    name = item.nodeid
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if {"shape_seed", "seed"} <= set(params):
        name = name.replace(f"{params['shape_seed']}-{params['seed']}", f"{params['shape_seed']}")
    return zlib.crc32(name.encode()) % 10


def is_full(item: pytest.Item) -> bool:
    """Return whether a test runs at its full size here."""
    if item.config.getoption("--full"):
        return True
    return tenth() is not None and "long" not in item.keywords and tenth_of(item) == tenth()


def cases(config: pytest.Config, usual: Iterable, full: Iterable) -> list:
    """Return the values of a parameter: the usual ones, and the others as slow ones where slow ones may run.

    A value is what `Metafunc.parametrize` takes, a tuple for several parameters.
    """
    usual = list(usual)
    if not config.getoption("--full") and tenth() is None:
        return usual
    known = set(usual)
    others = [case if isinstance(case, tuple) else (case,) for case in full if case not in known]
    return usual + [pytest.param(*case, marks=pytest.mark.slow) for case in others]
