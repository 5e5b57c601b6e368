"""How much a run tries: the cases of every run, a tenth of the slow ones too, or all with ``--full``.

``CEPKIT_TENTH=0`` to ``9`` adds a tenth of the slow cases to a run. Ten runs with different numbers cover all
cases. Cases that are marked ``long`` belong to no tenth. With the fixture ``whole`` a test tries less of a
case in a tenth than with ``--full``.

``CEPKIT_THIRD=0`` to ``2`` leaves out two thirds of the cases with a seed, and of the cases of a parameter
with at least ``MANY`` values. The rules for the whole house are always checked. Of the slow cases, only those
of a shape of queries are divided by three. Three runs with different numbers cover all cases.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

MANY = 9  # values of a parameter, from which a third of them is enough for a run
RULES = ("api", "layers", "packaging", "signatures", "supply", "tests", "words")  # what the whole house obeys


def tenth() -> int | None:
    """Return the tenth of the slow cases that this run takes, None for no tenth."""
    return _part("CEPKIT_TENTH", 10)


def third() -> int | None:
    """Return the third of the cases that this run takes, None for all of them."""
    return _part("CEPKIT_THIRD", 3)


def _part(variable: str, n: int) -> int | None:
    number = os.environ.get(variable)
    if not number:
        return None
    if number not in map(str, range(n)):
        raise pytest.UsageError(f"{variable}={number}: write a number from 0 to {n - 1}")
    return int(number)


def part_of(text: str, n: int) -> int:
    """Return the part, one of ``n``, that a text belongs to."""
    return zlib.crc32(text.encode()) % n


_chosen: set[str] = set()  # slow cases of this run's tenth: a test and one of its seeds


def _is_in_tenth(item: pytest.Item) -> bool:
    """Return whether a slow test is in the tenth of this run. The cases of one shape belong together."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    seed, name = _seed_of(params), item.nodeid
    is_chosen = seed is not None and _group(name, params[seed]) in _chosen
    if not {"shape_seed", "seed"} <= set(params):
        return is_chosen or part_of(name, 10) == tenth()
    name = name.replace(f"{params['shape_seed']}-{params['seed']}", f"{params['shape_seed']}")
    if is_chosen:  # a shape has very many cases
        return third() is None or part_of(name, 3) == third()
    return part_of(name, 10) == tenth()


def _group(nodeid: str, value: object) -> str:
    """Return a name of the cases of a test that have one value of its seed."""
    return f"{nodeid.partition('[')[0]} {value}"


def _seed_of(names: Iterable[str]) -> str | None:
    """Return the parameter whose cases belong together. A shape is compiled once for all of its seeds."""
    names = set(names)
    return next((name for name in ("shape_seed", "seed") if name in names), None)


def leave_out_cases(metafunc: pytest.Metafunc) -> None:
    """Let a test have the cases of this run only. Cases that never become tests take no time."""
    if third() is None and tenth() is None:
        return
    whole = metafunc.parametrize

    def parametrize(names: str | Sequence[str], values: Iterable, *others: Any, **more: Any) -> None:
        values, ids = list(values), more.get("ids")
        more.pop("_param_mark", None)
        kept = _cases_of_run(metafunc, names, values)
        if ids is not None and not callable(ids):
            every = list(ids)
            more["ids"] = [every[i] for i in kept]
        whole(names, [values[i] for i in kept], *others, **more)

    metafunc.parametrize = parametrize  # type: ignore[method-assign]


def _cases_of_run(metafunc: pytest.Metafunc, names: str | Sequence[str], values: list) -> list[int]:
    """Return the numbers of the values that this run has for some parameters of a test."""
    nodeid, seed = metafunc.definition.nodeid, _seed_of(metafunc.fixturenames)
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    of_test = {mark.name for mark in metafunc.definition.iter_markers()}
    has_seed, is_full = seed in names, bool(metafunc.config.getoption("--full"))
    groups = [_value_of(value, names, seed) if has_seed else i for i, value in enumerate(values)]
    if len(set(groups)) < 3:  # a third of the cases of each shape, and not of the shapes
        groups = list(range(len(values)))
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    is_rule = metafunc.definition.path.stem.removeprefix("test_") in RULES
    is_many = seed is None and len(values) >= MANY and not is_rule
    is_divided = third() is not None and (has_seed or is_many)
    kept = []
    for i, value in enumerate(values):
        marks = of_test | {mark.name for mark in getattr(value, "marks", ())}
        if marks & {"slow", "long"}:
            chosen = is_full or tenth() is None or not has_seed
            group = _group(nodeid, _value_of(value, names, seed)) if has_seed else ""
            if not chosen and "long" not in marks and part_of(group, 10) == tenth():
                _chosen.add(group)
                chosen = True
        else:
            chosen = not is_divided or (part_of(nodeid, 3) + number[groups[i]]) % 3 == third()
        if chosen:
            kept.append(i)
    return kept


def _value_of(value: Any, names: list[str], name: str | None) -> Any:
    """Return the value of one of the parameters of a case."""
    values = getattr(value, "values", value if len(names) > 1 else (value,))
    return values[names.index(name or "")]


def is_full(item: pytest.Item) -> bool:
    """Return whether a test runs at its full size here."""
    if item.config.getoption("--full"):
        return True
    return tenth() is not None and "long" not in item.keywords and _is_in_tenth(item)


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
