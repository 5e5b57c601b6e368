"""How much a run tries: the usual cases, a share of the slow ones too, or all with ``--full``.

``CEPKIT_SLOW=3/20`` adds share 3 of 0 to 19 of the slow cases to a run. Twenty runs with different numbers
cover all of them. Cases that are marked ``long`` belong to no share. With the fixture ``whole`` a test tries
less of a case in a share than with ``--full``.

``CEPKIT_CASES=1/5`` takes share 1 of 0 to 4 of the cases with a seed, and of the cases of a parameter with at
least ``MANY`` values. The rules for the whole house are always checked. Of the slow cases, only those of a
shape of queries are divided in this way. Five runs with different numbers cover all cases.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

MANY = 4  # values of a parameter, from which a share of them is enough for a run
RULES = ("api", "layers", "packaging", "signatures", "supply", "tests", "words")  # what the whole house obeys


@dataclass(frozen=True)
class Share:
    """One of ``n`` shares of some cases."""

    number: int
    n: int

    def __str__(self) -> str:
        return f"share {self.number} of 0 to {self.n - 1}"

    def has(self, name: str) -> bool:
        """Return whether a name belongs to the share."""
        return part_of(name, self.n) == self.number

    def has_number(self, number: int, n: int) -> bool:
        """Return whether one of ``n`` cases belongs to the share. No share of them is empty."""
        n = min(n, self.n)
        return number % n == self.number % n


def slow_share() -> Share | None:
    """Return the share of the slow cases that this run takes, None for no slow case."""
    return _share("CEPKIT_SLOW")


def case_share() -> Share | None:
    """Return the share of the cases that this run takes, None for all of them."""
    return _share("CEPKIT_CASES")


def _share(variable: str) -> Share | None:
    text = os.environ.get(variable)
    if not text:
        return None
    number, _, n = text.partition("/")
    if not (number.isdecimal() and n.isdecimal() and int(number) < int(n)):
        raise pytest.UsageError(f"{variable}={text}: write a share as 3/20; its number is below 20")
    return Share(int(number), int(n))


def part_of(text: str, n: int) -> int:
    """Return the part, one of ``n``, that a text belongs to."""
    return zlib.crc32(text.encode()) % n


_chosen: set[str] = set()  # slow cases of this run's share: a test, and values of the parameters below
_names_of_test: dict[str, list[str]] = {}  # the parameters whose values make groups of slow cases


def _is_in_share(item: pytest.Item, slow: Share) -> bool:
    """Return whether a slow test is in the share of this run. The cases of one shape belong together."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    name = item.nodeid
    names = _names_of_test.get(name.partition("[")[0], [])
    is_chosen = bool(names) and _group(name, [params[one] for one in names]) in _chosen
    if not {"shape_seed", "seed"} <= set(params):
        return is_chosen or slow.has(name)
    name = name.replace(f"{params['shape_seed']}-{params['seed']}", f"{params['shape_seed']}")
    if is_chosen:  # a shape has very many cases
        cases = case_share()
        return cases is None or cases.has(name)
    return slow.has(name)


def _group(nodeid: str, values: list) -> str:
    """Return a name of the cases of a test that have these values of the parameters in `_names_of_test`."""
    return f"{nodeid.partition('[')[0]} {values}"


def _seed_of(names: Iterable[str]) -> str | None:
    """Return the parameter whose cases belong together. A shape is compiled once for all of its seeds."""
    names = set(names)
    return next((name for name in ("shape_seed", "seed") if name in names), None)


def leave_out_cases(metafunc: pytest.Metafunc) -> None:
    """Let a test have the cases of this run only. Cases that never become tests take no time."""
    if case_share() is None and slow_share() is None:
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
    slow, share = slow_share(), case_share()
    groups = [_value_of(value, names, seed) if has_seed else i for i, value in enumerate(values)]
    if len(set(groups)) < 3:  # a share of the cases of each shape, and not of the shapes
        groups = list(range(len(values)))
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    is_rule = metafunc.definition.path.stem.removeprefix("test_") in RULES
    is_many = seed is None and len(values) >= MANY and not is_rule
    first = part_of(nodeid, len(number)) if number else 0
    if has_seed:  # a shape is compiled once for all of its seeds
        own = [one for one in names if all(isinstance(_value_of(v, names, one), int | str) for v in values)]
        _names_of_test[nodeid.partition("[")[0]] = own if seed == "seed" and seed in own else [seed]
    kept = []
    for i, value in enumerate(values):
        marks = of_test | {mark.name for mark in getattr(value, "marks", ())}
        if marks & {"slow", "long"}:
            chosen = is_full or slow is None or not has_seed
            grouped = _names_of_test[nodeid.partition("[")[0]] if has_seed else []
            group = _group(nodeid, [_value_of(value, names, one) for one in grouped])
            if not chosen and "long" not in marks and slow.has(group):
                _chosen.add(group)
                chosen = True
        elif share is not None and (has_seed or is_many):
            chosen = share.has_number(first + number[groups[i]], len(number))
        else:
            chosen = True
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
    slow = slow_share()
    return slow is not None and "long" not in item.keywords and _is_in_share(item, slow)


def cases(config: pytest.Config, usual: Iterable, full: Iterable) -> list:
    """Return the values of a parameter: the usual ones, and the others as slow ones where slow ones may run.

    A value is what `Metafunc.parametrize` takes, a tuple for several parameters.
    """
    usual = list(usual)
    if not config.getoption("--full") and slow_share() is None:
        return usual
    known = set(usual)
    others = [case if isinstance(case, tuple) else (case,) for case in full if case not in known]
    return usual + [pytest.param(*case, marks=pytest.mark.slow) for case in others]
