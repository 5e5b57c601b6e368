"""The aggregates of MATCH_RECOGNIZE, each with a start, a step that adds one value, and a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Steps:
    """How an aggregate is computed value by value. Its state is an immutable value, and has no nulls."""

    start: Any
    add: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]


def _unchanged(state: Any) -> Any:
    return state


def _with_moments(state: tuple, item: Any) -> tuple:
    """Return the number of values, their sum and the sum of their squares. Both sums are exact."""
    n, total, squares = state
    exact = Fraction(item) if math.isfinite(item) else item
    return n + 1, total + exact, squares + exact * exact


def _variance(state: tuple, n_less: int) -> float | None:
    n, total, squares = state
    if n <= n_less:
        return None
    return float((squares - total * total / n) / (n - n_less))


def _deviation(state: tuple, n_less: int) -> float | None:
    variance = _variance(state, n_less)
    return None if variance is None else math.sqrt(variance)


def _with_entry(state: tuple, pair: tuple) -> tuple:
    """Return the entries with one more; the first entry of a key stays."""
    return state if pair[0] is None or any(pair[0] == key for key, _ in state) else (*state, pair)


_EXTREME = {
    "min": lambda state, item: item if state is None or item < state else state,
    "max": lambda state, item: item if state is None or item > state else state,
}
_NO_VALUES = (0, 0, 0)
_ALL = Steps(None, lambda state, item: item and state is not False, _unchanged)
_FIRST = Steps(None, lambda state, item: item if state is None else state, _unchanged)
AGGREGATES: dict[str, Steps] = {
    "count": Steps(0, lambda state, item: state + 1, _unchanged),
    "count_if": Steps(0, lambda state, item: state + (item is True), _unchanged),
    "sum": Steps(None, lambda state, item: item if state is None else state + item, _unchanged),
    "avg": Steps((0, 0), lambda s, item: (s[0] + item, s[1] + 1), lambda s: s[0] / s[1] if s[1] else None),
    "avg_of_times": Steps(
        (0, 0), lambda s, item: (s[0] + item, s[1] + 1), lambda s: round(Fraction(*s)) if s[1] else None
    ),  # a float has too few digits for nanoseconds
    "min": Steps(None, _EXTREME["min"], _unchanged),
    "max": Steps(None, _EXTREME["max"], _unchanged),
    "stddev": Steps(_NO_VALUES, _with_moments, lambda state: _deviation(state, 1)),
    "stddev_samp": Steps(_NO_VALUES, _with_moments, lambda state: _deviation(state, 1)),
    "stddev_pop": Steps(_NO_VALUES, _with_moments, lambda state: _deviation(state, 0)),
    "variance": Steps(_NO_VALUES, _with_moments, lambda state: _variance(state, 1)),
    "var_samp": Steps(_NO_VALUES, _with_moments, lambda state: _variance(state, 1)),
    "var_pop": Steps(_NO_VALUES, _with_moments, lambda state: _variance(state, 0)),
    "bool_and": _ALL,
    "every": _ALL,
    "bool_or": Steps(None, lambda state, item: item or state is True, _unchanged),
    "arbitrary": _FIRST,
    "any_value": _FIRST,
    "array_agg": Steps((), lambda state, item: (*state, item), lambda state: list(state) or None),
    "map_agg": Steps((), _with_entry, lambda state: dict(state) or None),
    "max_by": Steps(
        None, lambda s, p: p if p[1] is not None and (s is None or p[1] > s[1]) else s, lambda s: s and s[0]
    ),
    "min_by": Steps(
        None, lambda s, p: p if p[1] is not None and (s is None or p[1] < s[1]) else s, lambda s: s and s[0]
    ),
}
# Aggregates whose result has the type of the first argument.
OF_FIRST_ARGUMENT = ("sum", "min", "max", "max_by", "min_by", "any_value", "arbitrary")
