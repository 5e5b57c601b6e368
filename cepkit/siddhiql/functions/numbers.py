"""Siddhi's functions of numbers, ``math:…``, with the results of Java's ``Math``.

Differs: a function gives null where Siddhi stops with an exception at a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cepkit.siddhiql.functions.conversions import to_double, to_int, to_long
from cepkit.siddhiql.functions.signatures import BOOL, DOUBLE, INT, LONG, NUMBERS, STRING, Function, present


def _of_doubles(call: Callable) -> Callable:
    """Return a function of doubles; NaN and infinities come out as in Java, without warnings."""

    def of(*values: Any) -> float | None:
        if any(value is None for value in values):
            return None
        with np.errstate(all="ignore"):
            try:
                return float(call(*map(to_double, values)))
            except ValueError:  # Python has no value where Java has NaN
                return math.nan

    return of


def _doubles(call: Callable, n_arguments: int = 1, n_optional: int = 0) -> Function:
    return Function((NUMBERS,) * n_arguments, DOUBLE, _of_doubles(call), n_optional)


def _logarithm(number: float) -> float:
    return -math.inf if number == 0 else math.log(number)


def _logarithm_to(number: float, base: float) -> float:
    return np.divide(_logarithm(number), _logarithm(base))


def _exponential(number: float) -> float:
    return math.exp(number) if number < 709 else np.exp(number)


def _cube_root(number: float) -> float:
    root = math.cbrt(number)
    if not math.isfinite(root):
        return root
    return float(round(root)) if round(root) ** 3 == number else root  # some C libraries miss whole roots


def _power(value: float, power: float) -> float:
    if math.isnan(power) or (abs(value) == 1 and math.isinf(power)):
        return math.nan  # C says 1 here
    return np.power(value, power)


def _arc_tangent(value: float, other: float | None = None) -> float:
    return math.atan(value) if other is None else math.atan2(value, other)


def _rounded(value: Any) -> int | None:
    """Return the nearest whole number; the greater one if two are equally near."""
    number = to_double(value)
    if number is None or not math.isfinite(number):
        return to_long(number)
    floor = math.floor(number)
    return to_long(float(floor + 1) if number - floor >= 0.5 else float(floor))


NUMBER_FUNCTIONS = {
    "math:pi": Function((), DOUBLE, lambda: math.pi),
    "math:e": Function((), DOUBLE, lambda: math.e),
    "math:abs": _doubles(abs),
    "math:ceil": _doubles(np.ceil),
    "math:floor": _doubles(np.floor),
    "math:round": Function((NUMBERS,), LONG, present(_rounded)),
    "math:signum": Function((NUMBERS,), INT, present(lambda x: (x > 0) - (x < 0))),
    "math:sqrt": _doubles(np.sqrt),
    "math:cbrt": _doubles(_cube_root),
    "math:exp": _doubles(_exponential),
    "math:ln": _doubles(_logarithm),
    "math:log": Function(
        (NUMBERS, NUMBERS), DOUBLE, lambda x, base: None if base == 1 else _of_doubles(_logarithm_to)(x, base)
    ),
    "math:log2": _doubles(lambda x: _logarithm(x) / math.log(2)),
    "math:log10": _doubles(lambda x: -math.inf if x == 0 else math.log10(x)),
    "math:power": _doubles(_power, 2),
    "math:max": _doubles(np.maximum, 2),
    "math:min": _doubles(np.minimum, 2),
    "math:copySign": _doubles(np.copysign, 2),
    "math:sin": _doubles(math.sin),
    "math:cos": _doubles(math.cos),
    "math:tan": _doubles(math.tan),
    "math:asin": _doubles(math.asin),
    "math:acos": _doubles(math.acos),
    "math:atan": _doubles(_arc_tangent, 2, 1),
    "math:sinh": _doubles(np.sinh),
    "math:cosh": _doubles(np.cosh),
    "math:tanh": _doubles(math.tanh),
    "math:toDegrees": _doubles(lambda x: x * (180 / math.pi)),
    "math:toRadians": _doubles(lambda x: x * (math.pi / 180)),
    "math:isNan": Function((NUMBERS,), BOOL, present(lambda x: x != x)),
    "math:isInfinite": Function((NUMBERS,), BOOL, present(lambda x: abs(x) == math.inf)),
    "math:parseInt": Function(((STRING,),), INT, present(to_int)),
    "math:parseLong": Function(((STRING,),), LONG, present(to_long)),
    "math:parseFloat": Function(((STRING,),), DOUBLE, present(to_double)),
    "math:parseDouble": Function(((STRING,),), DOUBLE, present(to_double)),
}
