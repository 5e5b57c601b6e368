"""Numbers in MATCH_RECOGNIZE that are cut or rounded to some digits, and casts to types of numbers."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any

from cepkit.events import FLOAT

_EXACT = decimal.Context(prec=400)  # floats have at most 309 digits before the point
_MOST_DIGITS = 60


def _digits(x: float, n: int, rounding: str) -> float:
    """Return a float with ``n`` digits after the point; the digits are those that print it."""
    if not math.isfinite(x) or n > _MOST_DIGITS:
        return x
    one = decimal.Decimal(1).scaleb(-max(n, -400))
    return float(decimal.Decimal(repr(x)).quantize(one, rounding, _EXACT))


def truncated(x: float, n: int = 0) -> float:
    """Return a number with ``n`` digits after the point, as TRUNCATE does. The others are cut off."""
    if isinstance(x, int):
        size = 10 ** min(max(-n, 0), 30)
        return abs(x) // size * size * (1 if x >= 0 else -1)
    return _digits(x, n, decimal.ROUND_DOWN)


def as_decimal(precision: int = 38, scale: int = 0) -> Callable[[Any], float]:
    """Return a function that makes a DECIMAL of a number or a text, as a float.

    It rounds to ``scale`` digits, and halves away from zero. Numbers that need more than ``precision``
    digits have no value.
    """

    def cast(item: Any) -> float:
        made = _digits(float(item), scale, decimal.ROUND_HALF_UP)
        if not abs(made) < 10 ** (precision - scale):
            raise ValueError(f"{item!r} does not fit into DECIMAL({precision},{scale})")
        return made

    return cast


def as_truth(item: Any) -> bool:
    """Return the truth value of a text or a number; raise if it has none."""
    if not isinstance(item, str):
        return bool(item)
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if item.strip().lower() not in words:
        raise ValueError(f"{item!r} is no truth value")
    return words[item.strip().lower()]


# The type of the first argument, where no type is written.
NUMBER_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "trunc": (truncated, None), "truncate": (truncated, None), "pow": (math.pow, FLOAT),
}  # fmt: skip
