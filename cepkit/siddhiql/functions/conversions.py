"""Siddhi's ``convert``: values of one type as values of another, by the rules of Java."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from cepkit.siddhiql.functions.signatures import BOOL, DOUBLE, INT, LONG, SINGLE, STRING

_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_DECIMAL = re.compile(
    r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?[\x00-\x20]*"
)


def _whole(n_bits: int) -> Callable[[Any], int | None]:
    least, most = -(1 << n_bits - 1), (1 << n_bits - 1) - 1

    def convert(value: Any) -> int | None:
        if isinstance(value, str):
            if not _WHOLE.fullmatch(value):
                return None
            made = int(value)
            return made if least <= made <= most else None
        if isinstance(value, Integral):
            return (int(value) - least) % (1 << n_bits) + least  # Java keeps the low bits
        if isinstance(value, Real):
            if math.isnan(value):
                return 0
            return most if value >= most else least if value <= least else int(value)
        return None

    return convert


def to_double(value: Any) -> float | None:
    """Return a value as a double; null if it has none."""
    if isinstance(value, str):
        found = _DECIMAL.fullmatch(value)
        return None if found is None else float(found[1])
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all doubles
        return math.copysign(math.inf, value)


def to_bool(value: Any) -> bool | None:
    """Return whether a text says true, or a number is 1."""
    if isinstance(value, str):
        return value.lower() == "true"
    return bool(value == 1) if isinstance(value, Real) else None


def to_text(value: Any) -> str:
    """Return a value as Java prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return _plain(value)
    sign, digits, exponent = _digits(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(value: float) -> tuple[str, str, int]:
    """Return the sign, the digits and the power of ten of a number other than 0."""
    mantissa, _, power = f"{float.__repr__(value)}e0".partition("e")
    exponent = int(power.removesuffix("e0") or 0)
    sign = "-" * mantissa.startswith("-")
    before, _, after = mantissa.lstrip("-").partition(".")
    digits = before + after
    leading = len(digits) - len(digits.lstrip("0"))
    return sign, digits.strip("0"), exponent + len(before) - 1 - leading


def _plain(value: float) -> str:
    text = float.__repr__(value)
    return text if "e" not in text else f"{value:.20f}".rstrip("0")


to_int, to_long = _whole(32), _whole(64)
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    STRING: to_text, INT: to_int, LONG: to_long, SINGLE: to_double, DOUBLE: to_double, BOOL: to_bool,
}  # fmt: skip
