"""Chains: patterns of a fixed number of neighbouring rows, the common ground of all languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import rebuilt, with_parts
from cepkit.language.query_parts import Duration
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.values import dataclass, replace

# Signs and functions with one meaning in all languages. Whole numbers divide differently in SQL and Java.
_SIGNS = ("+", "-", "*")


def refuse(target: str, clause: str, reason: str) -> NoReturn:
    """Raise the error for a clause without an equal in the target language."""
    raise UnsupportedQueryError(f"{clause} has no equal in {target!r}: {reason}")


def refuse_functions(target: str, clause: str, query: Any) -> None:
    """Raise for a query that calls functions of Python."""
    for name, _ in query.functions:
        refuse(target, f"{clause}: {name}()", "a function of Python has no text")


def check_portable(target: str, clause: str, tree: ex.Expression) -> None:
    """Raise for an expression whose parts may mean something else in another family of languages."""
    for node in tree.walk(literals=False):
        if isinstance(node, ex.Arithmetic) and node.operator not in _SIGNS:
            refuse(target, f"{clause}: {node}", "languages divide whole numbers in different ways")
        if isinstance(node, ex.Call):
            refuse(target, f"{clause}: {node.function}()", "its functions have other names or rules")
        if isinstance(node, ex.IsDistinct):
            refuse(target, f"{clause}: {node}", "it has no such test of missing values")
        if isinstance(node, ex.Subscript):
            refuse(target, f"{clause}: {node}", "it has no items of array columns")


def with_values(tree: Any, params: dict[str, Any]) -> Any:
    # Values that no text can spell, such as timestamps, keep the parameter.
    """Return a tree with the values of parameters in their places."""

    def put(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Parameter) and node.name in params:
            value = params[node.name]
            if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
                return ex.Negative(ex.Literal(-value))
            if value is None or isinstance(value, bool | int | float | str):
                return ex.Literal(value)
        return node

    return rebuilt(tree, ex.Expression, put)


def with_all_values(query: Any, params: dict[str, Any]) -> Any:
    """Return a query with the values of its parameters in its conditions and measures."""

    def put(entries: Any) -> Any:
        return None if entries is None else tuple((name, with_values(tree, params)) for name, tree in entries)

    if isinstance(query, SequenceQuery):
        where = tuple(with_values(tree, params) for tree in query.where)
        return replace(query, where=where, measures=put(query.measures))
    return replace(query, define=put(query.define), measures=put(query.measures))


# A chain of k steps matches k neighbouring rows of a partition. Each condition reads its own row and rows
# before it at fixed distances, so whether k rows match does not depend on other matches. From each row at
# most one match begins, and of two matches the one that begins first ends first. Therefore the earliest end
# (regex), the leftmost start (SQL) and all matches in order (sequences) name the same matches. They only
# differ in the row where the search continues after a match.

# Aggregates over a whole match that all languages compute alike.
AGGREGATES = ("count", "min", "max")


@dataclass(frozen=True, slots=True)
class RowChain:
    """A pattern of a fixed number of neighbouring rows."""

    names: tuple[str, ...]  # A name for each step; names are unique
    # Columns are `Attribute` for the row of the step, and `Previous` of an Attribute for earlier rows.
    conditions: tuple[ex.Expression | None, ...]
    advance: int  # rows from the first row of a match to the row where the search continues, at least 1
    # partition_by, order_by: columns
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    # Longest time from the first to the last row; ``within_closed`` as in queries.
    within: Duration | None = None
    within_closed: bool = True
    # Output columns. A `Reference` is a column at a step; an `Aggregate` of ``AGGREGATES`` ranges over the
    # match. None: the language decides, since no column orders the rows.
    measures: tuple[tuple[str, ex.Expression], ...] | None = None

    @property
    def length(self) -> int:
        """The number of rows of a match."""
        return len(self.names)

    def columns(self) -> frozenset[str]:
        """Return the columns that the chain reads."""
        trees = [tree for tree in self.conditions if tree is not None]
        trees += [tree for _, tree in self.measures or ()]
        named = {name for tree in trees for name in ex.columns_in(tree)}
        return frozenset(named | {*self.partition_by, *self.order_by})


def unique_names(names: list[str], taken: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return names that differ in more than case, and from ``taken``; repeated ones get numbers."""
    taken = frozenset(name.lower() for name in taken)
    lower = [name.lower() for name in names]
    unique: list[str] = []
    used: set[str] = set(taken)
    for i, name in enumerate(names):
        base = name + "_row" if lower[i] in taken else name
        candidate, number = base, 1
        if lower.count(lower[i]) > 1:
            number = lower[:i].count(lower[i]) + 1
            candidate = f"{base}{number}"
        while candidate.lower() in used or (candidate != name and candidate.lower() in lower):
            number += 1
            candidate = f"{base}_{number}"
        used.add(candidate.lower())
        unique.append(candidate)
    return tuple(unique)


def at_distance(name: str, distance: int) -> ex.Expression:
    """Return a column of the row that is ``distance`` rows before the current one."""
    return ex.Previous(ex.Attribute(name), distance) if distance else ex.Attribute(name)


def map_values(tree: ex.Expression, of_row: Callable[[str, int], ex.Expression]) -> ex.Expression:
    """Return a condition of a chain with each column replaced; ``of_row`` takes a name and a distance."""
    match tree:
        case ex.Attribute(name=name):
            return of_row(name, 0)
        case ex.Previous(operand=ex.Attribute(name=name), offset=offset):
            return of_row(name, offset)
    return with_parts(tree, ex.Expression, lambda part: map_values(part, of_row))


def joined_with_and(conditions: list[ex.Expression]) -> ex.Expression | None:
    """Return conditions that must all hold as one; None without conditions."""
    flat = [part for condition in conditions for part in ex.conjuncts(condition)]
    return None if not flat else flat[0] if len(flat) == 1 else ex.And(tuple(flat))


def with_window_as_condition(chain: RowChain) -> tuple[ex.Expression | None, ...]:
    """Return the conditions of a chain with a window in whole ticks as a further one."""
    if chain.within is None or chain.length == 1:
        return chain.conditions
    clock, last = chain.order_by[0], chain.length - 1
    lasted = ex.Arithmetic("-", ex.Attribute(clock), ex.Previous(ex.Attribute(clock), last))
    assert isinstance(chain.within, int)
    limit = ex.Comparison("<=" if chain.within_closed else "<", lasted, ex.Literal(chain.within))
    last_condition = chain.conditions[-1]
    return (
        *chain.conditions[:-1],
        joined_with_and([*([last_condition] if last_condition is not None else []), limit]),
    )


def map_measures(target: str, chain: RowChain, leaf: Callable[[ex.Expression], ex.Expression]) -> list:
    """Return the measures with each value of a step and each aggregate replaced by ``leaf``."""

    def change(node: ex.Expression) -> ex.Expression:
        return leaf(node) if isinstance(node, ex.Reference | ex.Aggregate) else node

    return [(name, rebuilt(tree, ex.Expression, change)) for name, tree in chain.measures or ()]


def check_aggregate(target: str, name: str, node: ex.Aggregate) -> None:
    """Raise for an aggregate that languages compute in different ways."""
    if node.function not in AGGREGATES:
        refuse(target, f"measure {name!r}: {node}", "only count, min, max, first and last mean the same")
    if node.operand is not None and not isinstance(node.operand, ex.Attribute):
        refuse(target, f"measure {name!r}: {node}", "an aggregate takes a column")
