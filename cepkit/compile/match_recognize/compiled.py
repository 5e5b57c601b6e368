"""Functions of a place in a match, and what they can ask about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cepkit.errors import CepError, PredicateError
from cepkit.events import BOOLEAN, FLOAT, INTEGER, OTHER, TEXT, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_sql


class Place(Protocol):
    """What an expression can ask about a match, or a partial one, at its current row.

    PREV and NEXT see the rows from ``low`` to ``n_rows``. A partial match that ran out of time has no number.

    """

    columns: Mapping[str, Sequence[Any]]
    n_rows: int
    number: int | None
    low: int

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return the row ``offset`` rows after the first of a variable, or before the last; -1 if none.

        None stands for all variables.

        """
        ...

    def label(self, row: int) -> str | None:
        """Return the variable of a row; None outside the match."""
        ...

    def total(self, aggregate: RowTotal) -> Any:
        """Return the value of an aggregate."""
        ...


# A function of a place. The row counts inside FIRST, LAST, PREV, NEXT and aggregates; elsewhere it is -1.
Value = Callable[[Any, int], Any]


@dataclass(frozen=True, eq=False)
class RowTotal:
    """An aggregate whose arguments are functions of single rows; ``tree`` is where it comes from."""

    tree: rp.RowAggregate
    arguments: tuple[Value, ...]
    variable: str | None
    is_of_times: bool = False

    @property
    def function(self) -> str:
        """The name of the aggregate."""
        is_mean = self.is_of_times and self.tree.function == "avg"
        return "avg_of_times" if is_mean else self.tree.function


@dataclass(frozen=True)
class Compiled:
    """An expression as a function, with the type of its values.

    A constant gives the same value at every place. ``text`` is the text of the query for a constant text or
    time. A constant text next to a time or an interval becomes one, and a time takes the zone of the other.

    """

    call: Value
    type: ColumnType
    is_constant: bool = False
    text: str | None = None


def constant(value: Any, kind: ColumnType, text: str | None = None) -> Compiled:
    """Return a constant as a function."""
    return Compiled(lambda place, row: value, kind, True, text)


def constant_of(value: Any) -> Compiled:
    """Return a number, a text, a truth value or a null of a query as a function."""
    return constant(value, type_of_constant(value), value if isinstance(value, str) else None)


def type_of_constant(value: Any) -> ColumnType:
    """Return the type of a Python value."""
    kinds = {bool: BOOLEAN, int: INTEGER, float: FLOAT, str: TEXT}
    return ColumnType(kinds.get(type(value), OTHER))


def strict(
    function: Callable[..., Any],
    parts: Sequence[Compiled],
    kind: ColumnType,
    tree: ex.Expression | None = None,
) -> Compiled:
    """Return a function that is null if an argument is null, or where it is not defined."""
    calls = [part.call for part in parts]

    def call(place: Place, row: int) -> Any:
        values = [call(place, row) for call in calls]
        if any(value is None for value in values):
            return None
        try:
            return function(*values)
        except CepError:
            raise
        except (ArithmeticError, ValueError):
            return None
        except TypeError:
            text = "" if tree is None else f" in {print_sql(tree)}"
            kinds = " and ".join(type(value).__name__ for value in values)
            raise PredicateError(f"values of types {kinds} do not go together{text}") from None

    return Compiled(call, kind)
