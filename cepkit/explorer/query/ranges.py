"""The ranges of a query's constants, from the columns that they are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cepkit.events import DURATION, FLOAT, INTEGER, NULL_INTEGER, TIME, Column, ColumnType
from cepkit.language.expressions import trees as ex


class Ranges:
    """The ranges of constants, from the values that they are compared with."""

    def __init__(self, schema: dict[str, ColumnType], sampled: Callable[[str], Column] | None):
        self.schema, self._sampled = schema, sampled
        self._known: dict[str, tuple[float, float] | None] = {}

    def of_column(self, name: str) -> tuple[float, float] | None:
        """Return the least and greatest of some values of a numeric column, or None."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def _look_up(self, name: str) -> tuple[float, float] | None:
        of = self.schema.get(name)
        if of is None or of.kind not in (INTEGER, FLOAT) or self._sampled is None:
            return None
        values = self._sampled(name).values
        values = values[np.isfinite(values)] if values.dtype.kind == "f" else values[values != NULL_INTEGER]
        return (float(values.min()), float(values.max())) if len(values) else None

    def of_values(self, tree: ex.Expression, value: float) -> tuple[float, float]:
        """Return the range of a constant that is compared with ``tree``."""
        match tree:
            case ex.Attribute(name=name) | ex.Reference(name=name) if name is not None:
                return self.of_column(name) or self.around(value)
            case ex.Previous(operand=operand):
                return self.of_values(operand, value)
            case ex.Aggregate(function="first" | "last" | "min" | "max" | "avg", operand=operand) if (
                operand is not None
            ):
                return self.of_values(operand, value)
        return self.around(value)

    def reach(self, comparison: ex.Expression, value: float) -> tuple[float, float]:
        """Return the range of a constant that is added to a side of a comparison: the columns' width."""
        names = [node.name for node in comparison.walk() if isinstance(node, ex.Attribute | ex.Reference)]
        known = [self.of_column(name) for name in names if name is not None]
        widths = [one[1] - one[0] for one in known if one is not None]
        if not widths or not max(widths):
            return self.around(value)
        return 0, max(widths)

    @staticmethod
    def around(value: float) -> tuple[float, float]:
        """Return a default range for a constant."""
        if value == 0:
            return -10, 10
        return (0, 4 * value) if value > 0 else (4 * value, 0)

    def has_fractions(self, tree: ex.Expression) -> bool:
        """Return whether ``tree`` contains a column of floats."""
        names = (node.name for node in tree.walk() if isinstance(node, ex.Attribute | ex.Reference))
        return any(name in self.schema and self.schema[name].kind == FLOAT for name in names)

    def clock_unit(self, tree: ex.Expression) -> str | None:
        """Return the unit of the times or durations in ``tree``, or None."""
        names = [node.name for node in tree.walk() if isinstance(node, ex.Attribute | ex.Reference)]
        units = [self.schema[name].unit for name in names if name in self.schema]
        kinds = [self.schema[name].kind for name in names if name in self.schema]
        return units[0] if units and kinds[0] in (TIME, DURATION) else None


def nice_step(width: float) -> float:
    """Return the largest 1, 2 or 5 times a power of ten that is at most ``width``.

    Examples
    --------
    >>> nice_step(0.37), nice_step(7), nice_step(20)
    (0.2, 5, 20)
    """
    if not width > 0 or not math.isfinite(width):
        return 1
    power = math.floor(math.log10(width) + 1e-9)
    digit = max(d for d in (1, 2, 5) if d <= width / 10.0**power * (1 + 1e-9))
    return digit * 10**power if power >= 0 else round(digit * 10.0**power, -power)
