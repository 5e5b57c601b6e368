"""Siddhi's types, what a function takes and gives, and the functions without a namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, ColumnType

# Siddhi's types, with those of times as ColumnType so that results keep the unit.
INT, LONG, SINGLE, DOUBLE, BOOL, STRING, OBJECT = "int", "long", "float", "double", "bool", "string", "object"
NUMBERS = (INT, LONG, SINGLE, DOUBLE)
WHOLE = (INT, LONG)
_OF_KIND = {INTEGER: LONG, FLOAT: DOUBLE, TEXT: STRING, BOOLEAN: BOOL}
Type = str | ColumnType


def type_of_column(of: ColumnType) -> Type:
    """Return Siddhi's type of a column; times and durations keep their own."""
    if of.kind in (TIME, DURATION):
        return of
    return _OF_KIND.get(of.kind, OBJECT)


def common_type(types: Sequence[Type]) -> Type | None:
    """Return the one type of several values; None if they differ.

    int and long are one type here, and so are float and double: the values are the same.
    """
    if OBJECT in types:
        return OBJECT
    first = types[0]
    for same in (WHOLE, NUMBERS[2:]):
        if all(one in same for one in types):
            return max(types, key=same.index)
    return first if all(one == first for one in types) else None


@dataclass(frozen=True, slots=True)
class Function:
    """What a function takes and gives.

    ``takes`` has the types of each argument; an empty tuple stands for any type. The last one holds for all
    further arguments if the function ``repeats``. The last ``n_optional`` arguments may be left out.
    ``result`` is None if the arguments from ``first_alike`` on have one type, and the result has it as well.
    ``regex_at`` is the argument that may be a regular expression.

    """

    takes: tuple[tuple[Type, ...], ...]
    result: Type | None
    call: Callable
    n_optional: int = 0
    repeats: bool = False
    first_alike: int = 0
    regex_at: int | None = None

    def accepts(self, n_arguments: int) -> bool:
        """Return whether the function can have this number of arguments."""
        least = len(self.takes) - self.n_optional
        return least <= n_arguments and (self.repeats or n_arguments <= len(self.takes))

    def counts(self) -> str:
        """Return the number of arguments in words."""
        most = len(self.takes)
        least = most - self.n_optional
        if self.repeats:
            return f"{least} or more arguments"
        if least != most:
            return f"{least} or {most} arguments"
        return f"{most} argument{'s' * (most != 1)}" if most else "no argument"

    def types_of(self, place: int) -> tuple[Type, ...]:
        """Return the types that an argument may have; an empty tuple stands for any type."""
        return self.takes[min(place, len(self.takes) - 1)]


def present(call: Callable) -> Callable:
    """Return a function that gives null if an argument is null."""
    return lambda *values: None if any(value is None for value in values) else call(*values)


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _extreme(choose: Callable) -> Callable:
    def of(*values: Any) -> Any:
        given = [value for value in values if value is not None]
        return choose(given) if given else None

    return of


CORE_FUNCTIONS = {
    "ifThenElse": Function(
        ((BOOL,), (), ()), None, lambda test, then, otherwise: then if test is True else otherwise,
        first_alike=1,
    ),
    "coalesce": Function(((),), None, _coalesce, repeats=True),
    "default": Function(((), ()), None, lambda value, otherwise: otherwise if value is None else value),
    "maximum": Function((NUMBERS,), None, _extreme(max), repeats=True),
    "minimum": Function((NUMBERS,), None, _extreme(min), repeats=True),
}  # fmt: skip
TESTS = {
    "instanceOfString": (STRING,), "instanceOfBoolean": (BOOL,), "instanceOfInteger": WHOLE,
    "instanceOfLong": WHOLE, "instanceOfFloat": NUMBERS[2:], "instanceOfDouble": NUMBERS[2:],
}  # fmt: skip
