"""Siddhi's types, and the functions that expressions call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, ColumnType

# Siddhi's types, with those of times as ColumnType so that results keep the unit.
INT, LONG, SINGLE, DOUBLE, BOOL, STRING, OBJECT = "int", "long", "float", "double", "bool", "string", "object"
NUMBERS = (INT, LONG, SINGLE, DOUBLE)
_OF_KIND = {INTEGER: LONG, FLOAT: DOUBLE, TEXT: STRING, BOOLEAN: BOOL}
Type = str | ColumnType


def type_of_column(of: ColumnType) -> Type:
    """Return Siddhi's type of a column; times and durations keep their own."""
    if of.kind in (TIME, DURATION):
        return of
    return _OF_KIND.get(of.kind, OBJECT)


def _missing_is_missing(call: Callable) -> Callable:
    return lambda *values: None if any(value is None for value in values) else call(*values)


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _extreme(choose: Callable) -> Callable:
    def of(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        return choose(present) if present else None

    return of


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Function: least and most arguments, type of the result (None: that of the last argument), and what to call.
CALLS: dict[str, tuple[int, int, Type | None, Callable]] = {
    "ifthenelse": (3, 3, None, lambda test, then, otherwise: then if test is True else otherwise),
    "coalesce": (1, 99, None, _coalesce),
    "default": (2, 2, None, lambda value, otherwise: otherwise if value is None else value),
    "maximum": (1, 99, None, _extreme(max)),
    "minimum": (1, 99, None, _extreme(min)),
    "math:abs": (1, 1, None, _missing_is_missing(abs)),
    "math:sqrt": (1, 1, DOUBLE, _missing_is_missing(lambda x: math.sqrt(x) if x >= 0 else None)),
    "math:power": (2, 2, DOUBLE, _missing_is_missing(lambda x, y: float(x) ** y)),
    "math:floor": (1, 1, DOUBLE, _missing_is_missing(lambda x: float(math.floor(x)))),
    "math:ceil": (1, 1, DOUBLE, _missing_is_missing(lambda x: float(math.ceil(x)))),
    "math:round": (1, 1, LONG, _missing_is_missing(lambda x: math.floor(x + 0.5))),
    "str:length": (1, 1, INT, _missing_is_missing(len)),
    "str:lower": (1, 1, STRING, _missing_is_missing(str.lower)),
    "str:upper": (1, 1, STRING, _missing_is_missing(str.upper)),
    "str:trim": (1, 1, STRING, _missing_is_missing(str.strip)),
    "str:contains": (2, 2, BOOL, _missing_is_missing(lambda text, part: part in text)),
    "str:concat": (1, 99, STRING, _missing_is_missing(lambda *parts: "".join(map(_as_text, parts)))),
}
TESTS = {
    "instanceofstring": (STRING,), "instanceofboolean": (BOOL,), "instanceofinteger": (INT, LONG),
    "instanceoflong": (LONG, INT), "instanceoffloat": (SINGLE, DOUBLE), "instanceofdouble": (DOUBLE, SINGLE),
}  # fmt: skip
CASTS: dict[str, Callable] = {
    INT: int, LONG: int, SINGLE: float, DOUBLE: float, STRING: _as_text,
    BOOL: lambda value: value if isinstance(value, bool) else str(value).lower() == "true",
}  # fmt: skip
CLOCKS = ("currenttimemillis", "uuid", "time:currenttimestamp", "time:currentdate", "math:rand")
