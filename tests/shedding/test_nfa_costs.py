"""The cost model of an automaton against an automaton that counts its work."""

import itertools

import numpy as np
import pytest

from cepkit.shedding.model.nfa_costs import event_cost
from cepkit.shedding.model.tree_costs import PRINTED, CostedCondition, CostTree, Leaf, stored_matches

US = 1e-6
CONDITIONS = (
    CostedCondition(frozenset({1}), 1 * US, 0.8),
    CostedCondition(frozenset({0, 1}), 2 * US, 0.5),
    CostedCondition(frozenset({1, 2}), 3 * US, 0.3),
)


def made(is_sequence: bool) -> CostTree:
    leaves = (Leaf("A", 1.5), Leaf("B", 1.0), Leaf("C", 2.0))
    return CostTree(leaves, CONDITIONS, 4.0, 0.5 * US, 0.2 * US, is_sequence)


def test_sequence_by_hand():
    tree = made(is_sequence=True)
    ab = 0.5 * 6 * (4 * 0.8) / 2
    of_a = 0.7 * US
    of_b = 1 * US + 0.8 * 6 * (2 + 0.5 * 0.7) * US
    of_c = ab * (3 + 0.3 * 0.7) * US
    assert stored_matches(tree, 1) == pytest.approx(ab)
    assert [event_cost(tree, i) for i in range(3)] == pytest.approx([of_a, of_b, of_c])


def test_kleene_closure_extends_its_own_runs():
    leaves = (Leaf("A", 1.0), Leaf("B", 1.0, is_kleene=True))
    tree = CostTree(leaves, (CostedCondition(frozenset({0, 1}), US, 0.5),), 1.0, US, 0)
    extended = stored_matches(tree, 1)
    assert event_cost(tree, 1) == pytest.approx((1 + extended) * (1 + 0.5) * US)


def test_negated_component_makes_no_runs():
    leaves = (Leaf("A", 1.0), Leaf("N", 3.0, is_negated=True), Leaf("B", 1.0))
    tree = CostTree(leaves, (CostedCondition(frozenset({1}), US, 0.5),), 2.0, US, US)
    assert event_cost(tree, 1) == pytest.approx((1 + 0.5 * 2) * US)
    assert event_cost(tree, 2) == pytest.approx(2 * 2 * US)


@pytest.mark.parametrize("form", [PRINTED, "corrected"])
@pytest.mark.parametrize("is_sequence", [True, False])
def test_every_cost_is_a_number(form, is_sequence):
    assert all(event_cost(made(is_sequence), i, form) > 0 for i in range(3))


def count_work(tree: CostTree, rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Run an automaton over a random stream, and return the mean seconds per event of each type."""
    window, n = tree.window_s, len(tree.leaves)
    events = sorted(
        (t, i)
        for i, leaf in enumerate(tree.leaves)
        for t in rng.uniform(0, seconds, rng.poisson(leaf.rate_hz * seconds))
    )
    runs: list[tuple[float, frozenset[int]]] = []
    work, seen = np.zeros(n), np.zeros(n)
    for t, i in events:
        runs = [run for run in runs if t - run[0] <= window]
        spent, new = 0.0, []
        own = [c for c in tree.conditions if c.components == {i}]
        spent += sum(c.cost_s for c in own)
        if all(rng.uniform() < c.selectivity for c in own):
            begun = [(t, frozenset())] if not tree.is_sequence or i == 0 else []
            for first, parts in itertools.chain(begun, runs):
                if i in parts or (tree.is_sequence and len(parts) != i):
                    continue
                decided = [
                    c for c in tree.conditions
                    if len(c.components) > 1 and i in c.components and c.components <= parts | {i}
                ]  # fmt: skip
                spent += sum(c.cost_s for c in decided)
                if all(rng.uniform() < c.selectivity for c in decided):
                    spent += tree.create_s + tree.remove_s
                    new.append((first, parts | {i}))
        runs += new
        if t > window:
            work[i] += spent
            seen[i] += 1
    return work / seen


@pytest.mark.parametrize("is_sequence", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_costs_are_those_of_a_random_stream(is_sequence, seed):
    tree = made(is_sequence)
    measured = count_work(tree, np.random.default_rng(seed), 400.0 if is_sequence else 150.0)
    predicted = np.array([event_cost(tree, i) for i in range(3)])
    assert measured == pytest.approx(predicted, rel=0.2 if is_sequence else 0.3)
