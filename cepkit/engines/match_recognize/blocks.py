"""Test conditions that compare columns at fixed distances, block by block. The columns are read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cepkit.compile.match_recognize.vectors.comparisons import comparing
from cepkit.compile.match_recognize.vectors.units import converted
from cepkit.compile.match_recognize.vectors.vector import NotVectorizedError, join_missing
from cepkit.engines.match_recognize.nearby import NearbyRows
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp


class BlockTest(Protocol):
    """A condition that is tested at the places of a block."""

    def holds(self, low: int, high: int) -> np.ndarray:
        """Return where it is true from place ``low`` to before ``high``, bool. The array is new."""
        ...


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison. An operand is a view of a column, or one number for all places.

    ``missing`` are the places where an operand has no value, in order.

    """

    compare: Callable[..., np.ndarray]
    left: Any
    right: Any
    missing: np.ndarray

    def holds(self, low: int, high: int) -> np.ndarray:
        found = self.compare(_part(self.left, low, high), _part(self.right, low, high))
        first, until = np.searchsorted(self.missing, (low, high))
        found[self.missing[first:until] - low] = False
        return found


@dataclass(frozen=True, slots=True)
class _Joined:
    """Conditions that are joined by AND or OR."""

    join: Callable[..., np.ndarray]
    parts: tuple[BlockTest, ...]

    def holds(self, low: int, high: int) -> np.ndarray:
        first, *others = self.parts
        found = first.holds(low, high)
        for other in others:
            self.join(found, other.holds(low, high), out=found)
        return found


def block_test(rows: NearbyRows, tree: ex.Expression) -> BlockTest | None:
    """Return a condition as a test of blocks, or None if it does more than compare columns and numbers.

    ``rows`` has all places.

    """
    match tree:
        case ex.And(operands=operands) | ex.Or(operands=operands):
            parts = [block_test(rows, operand) for operand in operands]
            tests = tuple(part for part in parts if part is not None)
            join = np.logical_and if isinstance(tree, ex.And) else np.logical_or
            return _Joined(join, tests) if len(tests) == len(parts) else None
        case ex.Comparison(operator=sign, left=left, right=right) if _is_read(left) and _is_read(right):
            try:
                one, other = converted([rows.value(left), rows.value(right)])
                if not (one.is_number and other.is_number) or (one.is_one and other.is_one):
                    return None
                compare = comparing(sign, one, other)
            except NotVectorizedError:
                return None
            missing = join_missing(one.missing, other.missing)
            places = [places if places.dtype != bool else np.flatnonzero(places) for places in missing]
            return _Compared(compare, one.values, other.values, _in_order(places))
    return None


def _is_read(tree: ex.Expression) -> bool:
    """Return whether an operand is a number, or a column at a fixed distance."""
    if isinstance(tree, ex.Literal):
        return isinstance(tree.value, int | float)
    while isinstance(tree, rp.Navigation):
        tree = tree.operand
    return isinstance(tree, ex.Attribute | ex.Reference)


def _in_order(places: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(places)) if places else np.empty(0, np.int64)


def _part(values: Any, low: int, high: int) -> Any:
    return values[low:high] if isinstance(values, np.ndarray) else values
