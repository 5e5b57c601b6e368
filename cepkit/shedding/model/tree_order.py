"""The cheapest order in which a tree joins the components of a pattern, by the cost model of DARLING."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.events import Events
from cepkit.planning.cost import cheapest_order
from cepkit.shedding.model.statistics import StreamColumns, cost_trees, statistics_of_warm_up
from cepkit.shedding.model.tree_costs import CostTree, event_cost
from cepkit.shedding.tree.program import TreeProgram

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
    costed = sorted(cost_trees(tree, statistics, _WORK), key=lambda one: -len(one[1]))
    for cost_tree, leaves in costed:
        of = [tree.leaves[leaf].variable for leaf in leaves if not tree.leaves[leaf].is_absent]
        if not names.keys() >= set(of):
            names |= dict.fromkeys(of[k] for k in cheapest_order_of_tree(cost_tree))
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
    known = place.keys()
    conditions = tuple(
        replace(one, components=frozenset(place[c] for c in one.components))
        for one in tree.conditions
        if one.components <= known
    )
    places = tuple(tree.place_of_leaf[leaf] for leaf in kept) if tree.place_of_leaf else tuple(kept)
    own = replace(
        tree, leaves=tuple(tree.leaves[leaf] for leaf in kept), conditions=conditions, place_of_leaf=places
    )
    return sum(leaf.rate_hz * event_cost(own, i) for i, leaf in enumerate(own.leaves))
