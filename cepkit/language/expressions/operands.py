"""Expressions in Python: values of the events of a sequence, with operators that combine them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import Any

from cepkit.errors import CepError, PredicateError, WrongTypeError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks, format_duration
from cepkit.language.expressions.functions import (
    AGGREGATE_SPELLINGS,
    FUNCTIONS,
    is_registered,
    registered_function,
)
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.expressions.vocabulary import VOCABULARY
from cepkit.limits import CONDITIONS, refuse_beyond
from cepkit.values import dataclass

_USE_SYMBOLS = (
    "combine conditions with & | ~ and put each in parentheses; do not use and, or, not; "
    "a < b < c is (a < b) & (b < c)"
)


def _on_both_sides(sign: str) -> tuple[Callable[[Operand, Any], Operand], Callable[[Operand, Any], Operand]]:
    """Return the methods of an arithmetic operator for an operand on its left, and for one on its right."""

    def on_left(self: Operand, other: Any) -> Operand:
        return Operand(ex.Arithmetic(sign, self.expression, as_expression(other)))

    def on_right(self: Operand, other: Any) -> Operand:
        return Operand(ex.Arithmetic(sign, as_expression(other), self.expression))

    return on_left, on_right


def _compared(sign: str) -> Callable[[Operand, Any], Operand]:
    """Return the method of a comparison."""
    return lambda self, other: Operand(ex.Comparison(sign, self.expression, as_expression(other)))


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An expression with Python's operators: arithmetic, comparisons, ``&``, ``|``, ``~`` and methods.

    A plain Python value next to it is a constant. It has no truth value, and ``==`` makes a condition.
    """

    expression: ex.Expression

    def __str__(self) -> str:
        return str(self.expression)

    def __repr__(self) -> str:
        return f"<{self.expression}>"

    def __bool__(self) -> bool:
        raise TypeError(f"a condition has no truth value without an event; {_USE_SYMBOLS}")

    __iter__ = None

    def __contains__(self, value: object) -> bool:
        raise TypeError("'in' needs a truth value; write b['x'].isin([…]) or b['x'].contains('text')")

    __add__, __radd__ = _on_both_sides("+")
    __sub__, __rsub__ = _on_both_sides("-")
    __mul__, __rmul__ = _on_both_sides("*")
    __truediv__, __rtruediv__ = _on_both_sides("/")
    __floordiv__, __rfloordiv__ = _on_both_sides("//")
    __mod__, __rmod__ = _on_both_sides("%")

    def __neg__(self) -> Operand:
        return Operand(ex.Negative(self.expression))

    __eq__, __ne__ = _compared("=="), _compared("!=")  # type: ignore[assignment]
    __lt__, __le__ = _compared("<"), _compared("<=")
    __gt__, __ge__ = _compared(">"), _compared(">=")

    def __and__(self, other: Any) -> Operand:
        return _junction(ex.And, self, other)

    def __rand__(self, other: Any) -> Operand:
        return _junction(ex.And, other, self)

    def __or__(self, other: Any) -> Operand:
        return _junction(ex.Or, self, other)

    def __ror__(self, other: Any) -> Operand:
        return _junction(ex.Or, other, self)

    def __invert__(self) -> Operand:
        return Operand(ex.Not(self.expression))

    def __abs__(self) -> Operand:
        return self.apply("abs")

    def __getitem__(self, index: int) -> Operand:
        """Return item ``index`` of an array column, from 0 or negative from the end."""
        return Operand(ex.Subscript(self.expression, operator.index(index)))

    def isin(self, options: Iterable[Any]) -> Operand:
        """Return the condition that the value is one of ``options`` (one or more)."""
        if isinstance(options, str | Operand):
            raise PredicateError(f"isin: expected a list of values, got {type(options).__name__}")
        try:
            values = tuple(options)
        except TypeError:
            raise PredicateError(f"isin: expected a list of values, got {type(options).__name__}") from None
        listed = tuple(map(as_expression, values))
        if not listed:
            raise PredicateError("isin: expected one value or more, got an empty list")
        return Operand(ex.In(self.expression, listed))

    def between(self, low: Any, high: Any) -> Operand:
        """Return the condition ``low <= value <= high``."""
        return (self >= low) & (self <= high)

    def is_null(self) -> Operand:
        """Return the condition that the value is missing."""
        return Operand(ex.IsNull(self.expression))

    def not_null(self) -> Operand:
        """Return the condition that the value is not missing."""
        return ~self.is_null()

    def like(self, pattern: str) -> Operand:
        """Return the condition that a text matches the SQL pattern (``%`` any text, ``_`` one character)."""
        if not isinstance(pattern, str):
            raise PredicateError(f"like: expected a pattern as text, got {type(pattern).__name__}")
        return Operand(ex.Like(self.expression, pattern))

    def abs(self) -> Operand:
        """Return the absolute value."""
        return self.apply("abs")

    def contains(self, text: Any) -> Operand:
        """Return the condition that the value, a text, contains ``text``."""
        return self.apply("contains", text)

    def apply(self, function: str, *others: Any) -> Operand:
        """Return a built-in or registered function of this value and ``others``."""
        arguments = (self.expression, *map(as_expression, others))
        takes = FUNCTIONS.get(function)
        if takes is None and function in VOCABULARY and not is_registered(function):
            takes = VOCABULARY[function].takes
        if takes is None:
            registered_function(function)  # raises with the nearest name if no such function exists
        elif not takes.accepts(len(arguments)):
            raise PredicateError(f"{function} takes {takes}, {len(arguments)} given")
        return Operand(ex.Call(function, arguments))


def corr(one: Operand, other: Operand) -> Operand:
    """Return the Pearson correlation, from -1 to 1, of two array columns; in text ``corr(a.x, b.x)``.

    Each row of an array column is a list of numbers, all of one length. The result is null if an array
    is missing, is empty, contains a missing number, or all its numbers are equal.

    Parameters
    ----------
    one, other : Operand
        The arrays of two events, or two arrays of one event.

    Notes
    -----
    The column is centred and normalised once per frame, so a pair of events costs one product of two rows.
    Numbers are computed as float64. A correlation may be off by about 1e-15, which matters at a threshold.

    Examples
    --------
    >>> from cepkit.language.builder import event
    >>> a, b = event("a"), event("b")
    >>> print(corr(a["history"], b["history"]) > 0.9)
    corr(a.history, b.history) > 0.9
    """
    return Operand(ex.Call("corr", (as_expression(one), as_expression(other))))


def cosine(one: Operand, other: Operand) -> Operand:
    """Return the cosine of the angle between two array columns, from -1 to 1.

    Parameters and nulls are those of `corr`, except that the null case is an array of zeros, not of equal
    numbers.

    Examples
    --------
    >>> from cepkit.language.builder import event
    >>> a, b = event("a"), event("b")
    >>> print(cosine(a["history"], b["history"]) > 0.9)
    cosine(a.history, b.history) > 0.9
    """
    return Operand(ex.Call("cosine", (as_expression(one), as_expression(other))))


def l2(one: Operand, other: Operand) -> Operand:
    """Return the Euclidean distance between two array columns.

    Parameters are those of `corr`. Null if an array is missing, is empty, or contains a missing number.

    Examples
    --------
    >>> from cepkit.language.builder import event
    >>> a, b = event("a"), event("b")
    >>> print(l2(a["history"], b["history"]) < 1.5)
    l2(a.history, b.history) < 1.5
    """
    return Operand(ex.Call("l2", (as_expression(one), as_expression(other))))


def as_expression(value: Any) -> ex.Expression:
    """Return a Python value as a tree: the tree of an operand, or a constant."""
    if isinstance(value, Operand):
        return value.expression
    if isinstance(value, ex.Expression):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item") and "time" not in type(value).__name__:
        value = value.item()  # numpy scalars
    if isinstance(value, bool | str) or value is None:
        return ex.Literal(value)
    if isinstance(value, int | float):
        literal = ex.Literal(abs(value))
        return ex.Negative(literal) if value < 0 else literal
    if isinstance(value, timedelta):
        return ex.Literal(format_duration(duration_ticks(value, "ns"), "ns"))
    if isinstance(value, datetime | date):
        return ex.Literal(value.isoformat())
    cure = "; its columns are b['x']" if hasattr(value, "variable") else "; pass it as a parameter, :name"
    raise PredicateError(f"{type(value).__name__} cannot be used in a condition{cure}")


def _junction(kind: type[ex.And] | type[ex.Or], left: Any, right: Any) -> Operand:
    """Return the And or the Or (`kind`) of two conditions, where those of the same kind become one list."""
    operands: list[ex.Expression] = []
    for side in (left, right):
        if not isinstance(side, Operand | ex.Expression | bool):
            raise WrongTypeError(
                f"& and | combine conditions, got {type(side).__name__} {side!r}; put parentheses around "
                "comparisons: (b['x'] > 1) & (b['y'] < 2)"
            )
        expression = as_expression(side)
        operands += expression.operands if isinstance(expression, kind) else (expression,)
    refuse_beyond(CONDITIONS, len(operands), "conditions joined by & or |", "Compute them as columns")
    return Operand(kind(tuple(operands)))


class Aggregates(ABC):
    """Aggregates over the events of a variable; the class that inherits them defines ``_reference``."""

    __slots__ = ()

    @abstractmethod
    def _reference(self, name: str | None) -> ex.Reference:
        """Return the column to aggregate; without a name, the events themselves."""

    def count(self, value: str | Operand | None = None) -> Operand:
        """Return the number of events, or the number of events where ``value`` is not missing."""
        return self._aggregate("count", value)

    def sum(self, value: str | Operand) -> Operand:
        """Return the sum of a column, or of an expression of columns."""
        return self._aggregate("sum", value)

    def avg(self, value: str | Operand) -> Operand:
        """Return the mean of a column, or of an expression of columns."""
        return self._aggregate("avg", value)

    def min(self, value: str | Operand) -> Operand:
        """Return the least value of a column, or of an expression of columns."""
        return self._aggregate("min", value)

    def max(self, value: str | Operand) -> Operand:
        """Return the greatest value of a column, or of an expression of columns."""
        return self._aggregate("max", value)

    def delta(self, value: str | Operand) -> Operand:
        """Return the last value minus the first one."""
        return self._aggregate("delta", value)

    def collect(self, value: str | Operand) -> Operand:
        """Return the list of the values; only allowed in measures."""
        return self._aggregate("collect", value)

    def aggregate(self, function: str, value: str | Operand) -> Operand:
        """Return an aggregate by its name, such as ``"median"``, of a column or an expression of columns."""
        name = AGGREGATE_SPELLINGS.get(function.lower()) if isinstance(function, str) else None
        if name is None:
            raise PredicateError(f"no aggregate {function!r}; there are {', '.join(AGGREGATE_SPELLINGS)}")
        return self._aggregate(name, value)

    def _aggregate(self, function: str, value: str | Operand | None) -> Operand:
        """Return the aggregate of a column, or of an expression over the events of this variable."""
        if value is None or isinstance(value, str):
            return Operand(ex.Aggregate(function, self._reference(value)))
        reference = self._reference(None)

        def here(node: ex.Expression) -> ex.Expression:
            if isinstance(node, ex.Reference) and node.variable == reference.variable and node.index is None:
                return ex.Reference(node.variable, node.name, reference.index)
            return node

        return Operand(ex.Aggregate(function, rebuilt(as_expression(value), ex.Expression, here)))


@dataclass(frozen=True, slots=True)
class EventValues:
    """Values of one event of a repeated variable: ``b.previous["x"]`` is ``b[i-1].x``."""

    variable: str
    index: str | int | None

    __iter__ = None

    def __getitem__(self, name: str) -> Operand:
        return value_of(self.variable, name, self.index)


@dataclass(frozen=True, slots=True)
class EarlierEvents(Aggregates):
    """The events of a variable before the one being taken: ``b.before.avg("x")`` is ``avg(b[..i-1].x)``."""

    variable: str

    def _reference(self, name: str | None) -> ex.Reference:
        return ex.Reference(self.variable, name, ex.ALL_BEFORE)


def value_of(variable: str, name: object, index: str | int | None = None) -> Operand:
    """Return the value of column ``name`` at an event of ``variable``."""
    if not isinstance(name, str):
        raise CepError(f"{variable}[…]: expected the name of a column as text, got {type(name).__name__}")
    return Operand(ex.Reference(variable, name, index))
