"""Aggregates on Spark: the partial aggregates of the tasks, and how they are merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pandas as pd

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression


def parts_of(name: str, text: str) -> list[ex.Aggregate]:
    """Return the aggregates that the tasks compute for one aggregate; an average is a sum and a count."""
    tree = parse_expression(text, role=f"aggregate {name!r}", references=True)
    assert isinstance(tree, ex.Aggregate)  # results refuse other texts before
    functions = ("sum", "count") if tree.function == "avg" else (tree.function,)
    return [replace(tree, function=function) for function in functions]


def merge_series(
    parts: Mapping[str, list[ex.Aggregate]], values_of_part: list[list[int | float | None]]
) -> pd.Series:
    """Return the aggregates by name.

    ``parts`` come from `parts_of`. ``values_of_part`` has one list per part, with one value per task.

    """
    made, begin = {}, 0
    for name, own in parts.items():
        made[name] = _merge(own, values_of_part[begin : begin + len(own)])
        begin += len(own)
    return pd.Series(made, dtype=object)


def _merge(parts: list[ex.Aggregate], values: list[list[int | float | None]]) -> int | float | None:
    """Return one aggregate from the values of its parts in every task."""
    known = [[value for value in of_part if value is not None] for of_part in values]
    if len(parts) == 2:
        total, n = _sum(known[0]), sum(known[1])
        if not n or total in (math.inf, -math.inf) or total != total:
            return total if n else None
        return float(Fraction(total) / n)
    if parts[0].function == "count":
        return sum(known[0])
    if not known[0]:
        return None
    return {"sum": _sum, "min": min, "max": max}[parts[0].function](known[0])


def _sum(values: list[int | float]) -> int | float:
    """Return the sum, which does not depend on the order; sums of integers are exact."""
    if all(isinstance(value, float) and math.isfinite(value) for value in values):
        return math.fsum(values)
    return sum(values)
