"""The meaning of Sigma's correlations, in plain Python. Nothing of the package is imported."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

SIGNS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le, "eq": operator.eq}
SIGNS["neq"] = operator.ne


def alerts(
    rows: Sequence[Mapping[str, Any]],  # in stream order
    tests: Sequence[Callable[[Mapping[str, Any]], bool]],  # of the rules
    kind: str,
    keys: Sequence[Sequence[str]],  # the fields of the group, for each rule
    clock: str,
    span: float,
    bounds: Mapping[str, int],
    field: str | None = None,
) -> list[list[int]]:
    """Return the row numbers of each alert. Its events count for no later one."""
    found = []
    of_group: dict[
        tuple, dict[int, list[int]]
    ] = {}  # of each group the rows that still count, with their rules
    for i, row in enumerate(rows):
        groups = set()
        for rule, test in enumerate(tests):
            group = tuple(row[name] for name in keys[rule])
            if not test(row) or None in group or (field is not None and row[field] is None):
                continue
            groups.add(group)
            of_group.setdefault(group, {}).setdefault(i, []).append(rule)
        for group in sorted(groups, key=repr):
            held = {k: rules for k, rules in of_group[group].items() if row[clock] - rows[k][clock] <= span}
            every = {rule for rules in held.values() for rule in rules}
            n = len(held) if kind == "event_count" else len(every)
            if kind == "value_count":
                n = len({rows[k][field] for k in held})
            fits = all(SIGNS[sign](n, bound) for sign, bound in bounds.items())
            if kind == "temporal_ordered":
                choices = [[k for k, rules in held.items() if rule in rules] for rule in range(len(tests))]
                fits = fits and any(list(chain) == sorted({*chain}) for chain in product(*choices))
            if fits:
                found.append(sorted(held))
                of_group[group] = {}
    return found
