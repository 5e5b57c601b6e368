"""The expected cost of an event in an automaton with runs, by the quantities of DARLING's cost model."""

from __future__ import annotations

from itertools import combinations

from cepkit.shedding.model.tree_costs import (
    CORRECTED,
    MOST_SETS,
    CostTree,
    condition_cost,
    leaf_conditions,
    node_conditions,
    selectivity,
    stored_in_leaf,
    stored_matches,
)


def event_cost(tree: CostTree, leaf: int, form: str = CORRECTED) -> float:
    """Return Z(T): the expected seconds that an automaton with runs takes for an event of a leaf's type.

    A run has the first components of a match. An event is compared with the runs that wait for its
    component, and each success copies the run. So only the first component makes a run of its own, and
    there are no partial matches of single later events, which a tree stores in its leaves. In a Kleene
    closure, the event also extends the runs that are in the closure. Conditions on the event alone are
    evaluated once.

    Source: DARLING, section 4.5, asks for such a model. The runs are those of SASE.
    """
    runs, kept, handling = _runs(tree, leaf, form), selectivity(leaf_conditions(tree, leaf)), _handling(tree)
    cost = condition_cost(leaf_conditions(tree, leaf))
    if tree.leaves[leaf].is_negated:
        return cost + kept * handling
    for n_runs, evaluated_s, holds in runs:
        cost += min(MOST_SETS, kept * n_runs) * (evaluated_s + holds * handling)
    return cost


def _handling(tree: CostTree) -> float:
    return tree.create_s + tree.remove_s


def _runs(tree: CostTree, leaf: int, form: str) -> list[tuple[float, float, float]]:
    """Return the runs that an event is compared with: their number, seconds per run, share that succeeds."""
    if not tree.is_sequence:
        return [_of_subset(tree, subset, leaf, form) for subset in _subsets(tree, leaf)]
    conditions = node_conditions(tree, leaf)
    before = leaf - 1
    begun = 1.0 if leaf == 0 else stored_matches(tree, before, form)
    runs = [(begun, condition_cost(conditions), selectivity(conditions))]
    if tree.leaves[leaf].is_kleene:
        runs.append((stored_matches(tree, leaf, form), condition_cost(conditions), selectivity(conditions)))
    return runs


def _subsets(tree: CostTree, leaf: int) -> list[tuple[int, ...]]:
    others = [i for i, part in enumerate(tree.leaves) if i != leaf and not part.is_negated]
    return [subset for size in range(len(others) + 1) for subset in combinations(others, size)]


def _of_subset(tree: CostTree, subset: tuple[int, ...], leaf: int, form: str) -> tuple[float, float, float]:
    components = frozenset(subset)
    n_runs = 1.0
    for component in subset:
        n_runs *= stored_in_leaf(tree, component, form)
    n_runs *= selectivity(c for c in tree.conditions if len(c.components) > 1 and c.components <= components)
    decided = [
        c for c in tree.conditions
        if len(c.components) > 1 and leaf in c.components and c.components <= components | {leaf}
    ]  # fmt: skip
    return min(n_runs, MOST_SETS), condition_cost(decided), selectivity(decided)
