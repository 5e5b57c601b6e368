"""The engine ``tree`` as a value, and the cheapest order in which its trees join the components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.shared.sequence_set import SequenceSet
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.planning.evaluation_order import cheapest_order
from cepkit.planning.planner import Engine, EngineValue
from cepkit.shedding.model.statistics import StreamColumns, cost_trees, statistics_of_warm_up
from cepkit.shedding.model.tree_costs import CostTree, event_cost
from cepkit.shedding.tree.engine import SUMMARY, describe_tree, match_by_tree
from cepkit.shedding.tree.program import TreeProgram, tree_unsupported

# The cheapest order in which a tree joins the components of a pattern, by the cost model of DARLING.

_MEASURED = 20_000  # first events whose rates and selectivities count
_WORK = {"condition": 1.0, "create": 0.5, "remove": 0.2}  # as the default prices of a replay


def order_of_least_cost(program: SequenceProgram, events: Events) -> tuple[str, ...]:
    """Return the variables of a query in the order in which its trees should join them.

    The first 20,000 events give the rates, and samples of them the selectivities. Alternatives share one
    order: that of the largest tree comes first.

    Source: ZStream (Mei and Madden, SIGMOD 2009) reorders a plan by its cost. The cost is that of DARLING,
    the sum of Z(T) R(T) over the types. The search is that of Kolchinsky and Schuster, PVLDB 11(11), 2018.
    Differs: ZStream also builds bushy trees; here all trees are left-deep.
    """
    tree = TreeProgram.of(program, order=program.query.variables)
    assert isinstance(tree, TreeProgram)
    stream = StreamColumns(tree, events.between(0, min(events.n_events, _MEASURED)))
    none = np.zeros(len(tree.conditions), np.int64)
    statistics = statistics_of_warm_up(stream, stream.events.n_events, none, none)
    names: dict[str, None] = {}
    costed = sorted(cost_trees(tree, statistics, _WORK), key=lambda costed_tree: -len(costed_tree[1]))
    for cost_tree, leaves in costed:
        variables = [tree.leaves[leaf].variable for leaf in leaves if not tree.leaves[leaf].is_absent]
        if not names.keys() >= set(variables):
            names |= dict.fromkeys(variables[k] for k in cheapest_order_of_tree(cost_tree))
    return tuple(names | dict.fromkeys(program.query.variables))


def cheapest_order_of_tree(tree: CostTree) -> tuple[int, ...]:
    """Return the leaves that join, in the order of least cost; among equals, the one closest to now."""
    rates = [leaf.rate_hz for leaf in tree.leaves if not leaf.is_negated]
    return cheapest_order(rates, rates, (), lambda order, *_: cost_of_order(tree, order))


def cost_of_order(tree: CostTree, order: Sequence[int]) -> float:
    """Return the work in a window, for a tree that joins its leaves in an order."""
    absent = [i for i, leaf in enumerate(tree.leaves) if leaf.is_negated]
    kept = [*order, *absent]
    place = {leaf: i for i, leaf in enumerate(kept)}
    leaves = place.keys()
    conditions = tuple(
        replace(condition, components=frozenset(place[c] for c in condition.components))
        for condition in tree.conditions
        if condition.components <= leaves
    )
    places = tuple(tree.place_of_leaf[leaf] for leaf in kept) if tree.place_of_leaf else tuple(kept)
    reordered = replace(
        tree, leaves=tuple(tree.leaves[leaf] for leaf in kept), conditions=conditions, place_of_leaf=places
    )
    return sum(leaf.rate_hz * event_cost(reordered, i) for i, leaf in enumerate(reordered.leaves))


# The engine ``tree`` as a value: it can choose the order in which its trees join the components.

PATTERN, COST = "pattern", "cost"
ORDERS = (PATTERN, COST)


@dataclass(frozen=True)
class Tree(EngineValue):
    """The engine ``"tree"`` with settings. All orders find the same matches."""

    # The order in which a tree joins the components. ``"pattern"``: that of the pattern, or the query's
    # ``evaluation_order``. ``"cost"``: the order that costs least by the rates and selectivities of the first
    # events, as ZStream orders its plans. ``matches.run.order`` has the chosen order.
    order: str = PATTERN

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise CepError(
                f"Tree: order={self.order!r}: expected {' or '.join(map(repr, ORDERS))}. For another order, "
                "give evaluation_order=[…]"
            )

    def planned(self, *, trace: bool) -> Engine:
        """Return the planner's engine that runs this value."""
        if trace:
            raise UnsupportedQueryError(f"trace=True: engine {self} writes no trace")
        run = match_by_tree if self.order == PATTERN else match_in_cheapest_order
        return Engine(
            str(self), SUMMARY, self._reason, run,
            automatic=False, takes_order=True, details=self._describe,
        )  # fmt: skip

    def _reason(self, program: BoundQuery) -> str | None:
        is_given = isinstance(program, SequenceProgram) and program.query.evaluation_order
        if self.order == COST and is_given:
            return "evaluation_order is given, and order='cost' chooses one. Leave one of the two out"
        return tree_unsupported(program)

    def _describe(self, program: SequenceProgram) -> list[tuple[str, str]]:
        if self.order == PATTERN:
            return describe_tree(program)
        return [("tree", "joins the components in the order of least cost, measured on the first events")]


def match_in_cheapest_order(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return all matches of a program, by trees that join its components in the order of least cost."""
    return match_by_tree(program, events, order_of_least_cost(program, events))
