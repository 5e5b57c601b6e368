"""Chains: patterns of a fixed number of neighbouring rows, the common ground of all languages.

A chain of k steps matches k neighbouring rows of a partition. Each condition reads its own row and rows
before it at fixed distances, so whether k rows match does not depend on other matches. From each row at
most one match begins, and of two matches the one that begins first ends first. Therefore the earliest end
(regex), the leftmost start (SQL) and all matches in order (sequences) name the same matches. They only differ
in the row where the search continues after a match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt, with_parts
from cepkit.language.query_parts import Duration
from cepkit.translation.refusing import refuse

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
        named = {
            node.name
            for tree in trees
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Attribute | ex.Reference) and node.name
        }
        return frozenset(named | {*self.partition_by, *self.order_by})


def unique_names(names: list[str], taken: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return names that differ in more than case, and from ``taken``; repeated ones get numbers."""
    taken = frozenset(name.lower() for name in taken)
    lower = [name.lower() for name in names]
    made: list[str] = []
    used: set[str] = set(taken)
    for i, name in enumerate(names):
        base = name + "_row" if lower[i] in taken else name
        own, number = base, 1
        if lower.count(lower[i]) > 1:
            number = lower[:i].count(lower[i]) + 1
            own = f"{base}{number}"
        while own.lower() in used or (own != name and own.lower() in lower):
            number += 1
            own = f"{base}_{number}"
        used.add(own.lower())
        made.append(own)
    return tuple(made)


def at_distance(name: str, distance: int) -> ex.Expression:
    """Return a column of the row that is ``distance`` rows before the current one."""
    return ex.Previous(ex.Attribute(name), distance) if distance else ex.Attribute(name)


def map_values(
    tree: ex.Expression,
    of_row: Callable[[str, int], ex.Expression],
) -> ex.Expression:
    """Return a condition of a chain with each column replaced; ``of_row`` takes a name and a distance."""
    match tree:
        case ex.Attribute(name=name):
            return of_row(name, 0)
        case ex.Previous(operand=ex.Attribute(name=name), offset=offset):
            return of_row(name, offset)
    return with_parts(tree, ex.Expression, lambda part: map_values(part, of_row))


def joined_with_and(conditions: list[ex.Expression]) -> ex.Expression | None:
    """Return conditions that must all hold as one; None without conditions."""
    flat = [part for one in conditions for part in ex.conjuncts(one)]
    return None if not flat else flat[0] if len(flat) == 1 else ex.And(tuple(flat))


def with_window_as_condition(chain: RowChain) -> tuple[ex.Expression | None, ...]:
    """Return the conditions of a chain with a window in whole ticks as a further one."""
    if chain.within is None or chain.length == 1:
        return chain.conditions
    clock, last = chain.order_by[0], chain.length - 1
    lasted = ex.Arithmetic("-", ex.Attribute(clock), ex.Previous(ex.Attribute(clock), last))
    assert isinstance(chain.within, int)
    limit = ex.Comparison("<=" if chain.within_closed else "<", lasted, ex.Literal(chain.within))
    own = chain.conditions[-1]
    return (*chain.conditions[:-1], joined_with_and([*([own] if own is not None else []), limit]))


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
