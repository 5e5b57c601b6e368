"""`Vector`: the values of an expression at many places, made from columns, constants and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_INTEGER,
    TEXT,
    TIME,
    Column,
    ColumnType,
)

EXACT = 2**53  # integers up to here are floats without loss
LARGEST = 2**63 - 1
WHOLE = (INTEGER, TIME, DURATION)


class NotVectorizedError(Exception):
    """An expression has no vectors, or they would lose digits. Python computes it place by place."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression at many places."""

    values: Any  # bool, int64 or float64, with ``texts`` codes; or one value for all places
    type: ColumnType  # A time or a duration has ticks
    missing: tuple[np.ndarray, ...] = ()  # where the value is null: truths by place, or numbers of places
    texts: np.ndarray | None = None  # objects: the texts of the codes
    text: str | None = None  # what was written for a constant time

    @property
    def is_one(self) -> bool:
        """Whether all places have the same value."""
        return not isinstance(self.values, np.ndarray)

    @property
    def is_whole(self) -> bool:
        """Whether the values are integers or ticks."""
        return self.type.kind in WHOLE

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers or ticks."""
        return self.is_whole or self.type.kind == FLOAT

    def bound(self) -> int:
        """Return the largest absolute value of integers."""
        if self.is_one:
            return abs(int(self.values))
        return max(abs(int(self.values.min())), abs(int(self.values.max()))) if len(self.values) else 0

    def is_null(self, n: int) -> np.ndarray:
        """Return whether the value at each of ``n`` places is null."""
        found = np.zeros(n, bool)
        for places in self.missing:
            found[places] = True
        return found

    def with_missing(self, *more: np.ndarray) -> Vector:
        """Return the vector with more nulls."""
        return replace(self, missing=join_missing(self.missing, more))


def least_of(values: np.ndarray) -> Any:
    """Return the least value: NaN if there is one, and 0 for no values."""
    return values.min() if len(values) else 0


def vector_of_column(
    kind: ColumnType, values: np.ndarray, texts: np.ndarray | None, least: Any = None
) -> Vector:
    """Return values in the form of a `Column` as a vector; ``least`` is that of `least_of` if it is known."""
    least = least_of(values) if least is None else least
    missing: tuple[np.ndarray, ...] = ()
    if kind.kind == FLOAT:
        missing = (np.isnan(values),) if least != least else ()
        values = values.astype(np.float64, copy=False)
    elif kind.kind in (TEXT, BOOLEAN):
        missing = (values < 0,) if least < 0 else ()
        values = values == 1 if kind.kind == BOOLEAN else values
    elif values.dtype != np.int64:
        values = values.astype(np.int64)
    elif least == NULL_INTEGER:
        missing = (values == NULL_INTEGER,)
        values = np.where(missing[0], 0, values)
    return Vector(values, kind, missing, texts)


def column_parts(column: Column) -> tuple[ColumnType, np.ndarray, np.ndarray | None]:
    """Return type, values and texts of a column that has vectors."""
    kinds = (*WHOLE, FLOAT, BOOLEAN, TEXT)
    if column.type.kind not in kinds or column.values.ndim != 1 or column.values.dtype == object:
        raise NotVectorizedError
    return column.type, column.values, column.categories


def constant_vector(value: Any) -> Vector:
    """Return a truth, a number or a text that all places have."""
    kind = {bool: BOOLEAN, int: INTEGER, float: FLOAT, str: TEXT}.get(type(value))
    if kind is None or (kind == INTEGER and abs(value) > LARGEST) or value != value:
        raise NotVectorizedError
    return Vector(value, ColumnType(kind))


_KINDS_OF_TEXTS: dict[type, tuple[Any, tuple[str, ...]]] = {
    bool: (np.bool_, (BOOLEAN,)), int: (np.int64, WHOLE), float: (np.float64, (FLOAT,)),
}  # fmt: skip


def looked_up(of_text: list[Any], codes: np.ndarray, kind: ColumnType) -> Vector:
    """Return the entry for each code; the last one is for code -1."""
    found = {type(value) for value in of_text if value is not None}
    no_value = np.array([value is None for value in of_text])
    missing = no_value[codes]
    missing = (missing,) if missing.any() else ()
    if not found:
        raise NotVectorizedError
    if found == {str} and kind.kind == TEXT:
        texts = np.array(["" if value is None else value for value in of_text], object)
        return Vector(codes % len(texts), kind, missing, texts)
    [one, *others] = found
    dtype, kinds = _KINDS_OF_TEXTS.get(one, (None, ()))
    if others or kind.kind not in kinds:
        raise NotVectorizedError
    try:
        table = np.array([one() if value is None else value for value in of_text], dtype)
    except OverflowError:
        raise NotVectorizedError from None
    return Vector(table[codes], kind, missing)


# --- checks, and nulls of several vectors


def join_missing(*groups: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the nulls of several vectors, without the same array twice."""
    return tuple({id(places): places for group in groups for places in group}.values())


def check_numbers(*vectors: Vector) -> None:
    """Raise `NotVectorizedError` unless all values are numbers or ticks."""
    if not all(vector.is_number for vector in vectors):
        raise NotVectorizedError


def check_bound(bound: int, most: int = LARGEST) -> None:
    """Raise `NotVectorizedError` for a bound beyond ``most``."""
    if bound > most:
        raise NotVectorizedError
