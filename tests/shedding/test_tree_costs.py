"""DARLING's cost model against hand numbers and against brute force."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.model.limits import SPLITS, array_threshold, buffer_limits, drain_time, queue_limit
from cepkit.shedding.model.tree_costs import (
    CORRECTED,
    PRINTED,
    CostedCondition,
    CostTree,
    Leaf,
    event_cost,
    leaf_conditions,
    new_in_leaf,
    new_matches,
    node_conditions,
    stored_in_leaf,
    stored_matches,
)
from tests.support.sizes import seeds

US = 1e-6


def figure_4(is_sequence: bool = False) -> CostTree:
    """The tree of the paper's figure 4 with small numbers, so that everything can be computed by hand."""
    conditions = (
        CostedCondition(frozenset({0}), 1 * US, 0.5),  # c1 reads A
        CostedCondition(frozenset({0, 1}), 2 * US, 0.1),  # c2 reads A and B
        CostedCondition(frozenset({1, 2}), 3 * US, 0.2),  # c3 reads B and C
        CostedCondition(frozenset({0, 2}), 4 * US, 0.5),  # c4 reads A and C
    )
    leaves = (Leaf("A", 2.0), Leaf("B", 5.0), Leaf("C", 5.0))
    return CostTree(leaves, conditions, 10.0, 1 * US, 1 * US, is_sequence)


def test_conditions_lie_at_the_nodes_of_figure_4():
    tree = figure_4()
    c1, c2, c3, c4 = tree.conditions
    assert leaf_conditions(tree, 0) == (c1,)
    assert leaf_conditions(tree, 1) == leaf_conditions(tree, 2) == ()
    assert node_conditions(tree, 1) == (c2,)
    assert node_conditions(tree, 2) == (c3, c4)


def test_equations_8_to_10_as_printed():
    tree = figure_4()
    assert [stored_in_leaf(tree, i, PRINTED) for i in range(3)] == [10.0, 50.0, 50.0]
    assert stored_matches(tree, 1, PRINTED) == pytest.approx(0.1 * 10 * 50)
    assert stored_matches(tree, 2, PRINTED) == pytest.approx(0.1 * 50 * 50)
    assert new_matches(tree, 0, 0, PRINTED) == 0.5
    assert new_matches(tree, 1, 0, PRINTED) == pytest.approx(0.1 * 0.5 * 50)
    assert new_matches(tree, 2, 0, PRINTED) == pytest.approx(0.1 * 2.5 * 50)
    assert new_matches(tree, 1, 1, PRINTED) == pytest.approx(0.1 * 1 * 10)
    assert new_matches(tree, 1, 2, PRINTED) == 0
    assert new_matches(tree, 2, 2, PRINTED) == pytest.approx(0.1 * 1 * 50)


def test_equation_7_as_printed():
    tree = figure_4()
    of_a = (0.5 * (2 * 50 + 2) + 2.5 * (7 * 50 + 2) + 12.5 * 2) * US
    of_b = (1 * (2 * 10 + 2) + 1 * (7 * 50 + 2) + 5 * 2) * US
    of_c = (1 * (7 * 50 + 2) + 5 * 2) * US
    assert [event_cost(tree, i, PRINTED) for i in range(3)] == pytest.approx([of_a, of_b, of_c])


def test_corrected_form_of_a_conjunction_adds_the_conditions_of_the_leaf():
    tree = figure_4()
    extra = [event_cost(tree, i, CORRECTED) - event_cost(tree, i, PRINTED) for i in range(3)]
    assert extra == pytest.approx([1 * US, 0, 0])


def test_corrected_form_of_a_sequence_charges_what_an_event_meets():
    tree = figure_4(is_sequence=True)
    assert stored_matches(tree, 1) == pytest.approx(50 / 2)
    assert stored_matches(tree, 2) == pytest.approx(250 / 6)
    of_a = (1 + 0.5 * 2) * US
    of_b = (1 * (2 * 10 + 2) + 1 * 2) * US
    of_c = (1 * (7 * 25 + 2) + 2.5 * 2) * US
    assert [event_cost(tree, i) for i in range(3)] == pytest.approx([of_a, of_b, of_c])


def test_order_of_the_tree_moves_the_work_to_the_event_that_completes():
    tree = replace(figure_4(is_sequence=True), place_of_leaf=(1, 2, 0))  # C, A, B; the tree joins C last
    assert stored_matches(tree, 2) == pytest.approx(250 / 6)
    of_a = (1 + 0.5 * 2) * US
    tried = 0.1 * 10 * 50 / 2  # half of the pairs of an A and a C are in order
    of_b = (1 * (2 * 10 + 2) + 1 * 2 + 7 * tried + 0.1 * tried * 2) * US
    of_c = 1 * 2 * US  # no A and B come after a new C
    assert [event_cost(tree, i) for i in range(3)] == pytest.approx([of_a, of_b, of_c])


def with_negation(is_sequence: bool) -> CostTree:
    """A and C with no B between them: c1 reads A, c2 reads B, c3 reads A and B, c4 reads A and C."""
    conditions = (
        CostedCondition(frozenset({0}), 1 * US, 0.5),
        CostedCondition(frozenset({1}), 2 * US, 0.2),
        CostedCondition(frozenset({0, 1}), 3 * US, 0.1),
        CostedCondition(frozenset({0, 2}), 4 * US, 0.5),
    )
    leaves = (Leaf("A", 2.0), Leaf("B", 6.0, is_negated=True), Leaf("C", 5.0))
    return CostTree(leaves, conditions, 10.0, 1 * US, 1 * US, is_sequence)


def test_negated_component_joins_nothing_and_is_compared_with_complete_matches():
    tree = with_negation(is_sequence=True)
    assert node_conditions(tree, 1) == ()
    assert node_conditions(tree, 2) == tree.conditions[3:]
    assert [stored_in_leaf(tree, i) for i in range(3)] == pytest.approx([10, 12, 50])
    assert stored_matches(tree, 1) == stored_matches(tree, 0) == pytest.approx(10)
    assert stored_matches(tree, 2) == pytest.approx(0.5 * 10 * 50 / 2)
    assert new_matches(tree, 2, 1) == new_matches(tree, 1, 0) == 0
    absent = 3 * 12 / 3  # c3 for a third of the 12 events of type B
    of_c = (1 * (4 * 10 + 2) + 5 * (2 + absent)) * US
    assert [event_cost(tree, i) for i in range(3)] == pytest.approx([2 * US, (2 + 0.2 * 2) * US, of_c])


def test_negation_as_printed_charges_both_ends_of_a_conjunction():
    tree = with_negation(is_sequence=False)
    absent = 3 * 12
    of_a = (0.5 * (4 * 50 + 2) + 12.5 * (2 + absent)) * US
    of_c = (1 * (4 * 10 + 2) + 5 * (2 + absent)) * US
    assert [event_cost(tree, i, PRINTED) for i in range(3)] == pytest.approx([of_a, 0.2 * 2 * US, of_c])


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_corrected_stored_matches_are_those_of_a_random_stream(seed):
    rng = np.random.default_rng(seed)
    rates, window, share = (3.0, 4.0, 5.0), 4.0, 0.5
    both = CostedCondition(frozenset({0, 1}), US, share)
    tree = CostTree(tuple(Leaf(n, r) for n, r in zip("ABC", rates, strict=True)), (both,), window, US, US)
    counted = []
    for _ in range(400):
        times = [np.sort(rng.uniform(0, window, rng.poisson(rate * window))) for rate in rates]
        holds = rng.uniform(size=(len(times[0]), len(times[1]))) < share
        pairs = [times[1][j] for i, j in itertools.product(*map(range, holds.shape))
                 if times[0][i] < times[1][j] and holds[i, j]]  # fmt: skip
        counted.append(sum(int((times[2] > t).sum()) for t in pairs))
    expected = stored_matches(tree, 2)
    error = np.std(counted) / math.sqrt(len(counted))
    assert abs(np.mean(counted) - expected) < 5 * error


@pytest.mark.parametrize("seed", range(10))
def test_corrected_kleene_closure_counts_the_sets_of_a_random_stream(seed):
    rng = np.random.default_rng(seed)
    rate, window, share = 1.5, 2.0, 0.6
    tree = CostTree(
        (Leaf("A", rate, is_kleene=True),), (CostedCondition(frozenset({0}), US, share),), window, 0, 0
    )
    fitting = rng.poisson(rate * window * share, 40_000)
    sets = 2.0**fitting - 1
    assert abs(sets.mean() - stored_in_leaf(tree, 0)) < 6 * sets.std() / 200
    assert new_in_leaf(tree, 0) == pytest.approx(share * (stored_in_leaf(tree, 0) + 1))


@pytest.mark.parametrize("seed", range(5))
def test_corrected_kleene_closure_with_a_limit_and_neighbours_counts_sets(seed):
    rng = np.random.default_rng(seed)
    rate, window, share = 2.0, 2.0, 0.4
    counted = []
    for _ in range(3000):
        n = rng.poisson(rate * window)
        holds = rng.uniform(size=(n, n)) < share  # whether j may follow i
        counted.append(
            n + sum(holds[i, j] for i, j in itertools.combinations(range(n), 2))
            + sum(holds[i, j] and holds[j, k] for i, j, k in itertools.combinations(range(n), 3))
        )  # fmt: skip
    tree = CostTree((Leaf("A", rate, True, most=3, extending=share),), (), window, 0, 0)
    assert abs(np.mean(counted) - stored_in_leaf(tree, 0)) < 6 * np.std(counted) / math.sqrt(3000)
    endless = CostTree((Leaf("A", rate, True, extending=share),), (), window, 0, 0)
    assert stored_in_leaf(endless, 0) == pytest.approx((math.exp(4 * share) - 1) / share)
    assert new_in_leaf(endless, 0) == pytest.approx(1 + share * stored_in_leaf(endless, 0))
    assert new_in_leaf(tree, 0) == pytest.approx(1 + share * (4 + 8 * share))


@pytest.mark.parametrize("seed", range(5))
def test_corrected_sequence_with_a_closure_counts_sets_in_order(seed):
    rng = np.random.default_rng(seed)
    window, share = 2.0, 0.4
    leaves = (Leaf("A", 1.5), Leaf("B", 2.0, True, extending=0.6), Leaf("C", 1.0))
    tree = CostTree(leaves, (CostedCondition(frozenset({0, 1}), US, share),), window, 0, 0)
    stored, new = [], []
    for _ in range(3000):
        a, b = (np.sort(rng.uniform(0, window, rng.poisson(rate * window))) for rate in (1.5, 2.0))
        follows = rng.uniform(size=(len(b), len(b))) < 0.6
        ending = np.zeros((len(a), len(b)))  # sets by their last event that begin after an A
        for i, j in itertools.product(range(len(a)), range(len(b))):
            ending[i, j] = (b[j] > a[i]) * (1 + sum(ending[i, h] * follows[h, j] for h in range(j)))
        stored.append(share * ending.sum())
        last = rng.uniform(size=len(b)) < 0.6  # whether a new B may follow
        new.append(len(a) + (ending * last).sum())
    for counted, expected in ((stored, stored_matches(tree, 1)), (new, new_matches(tree, 1, 1) / share)):
        assert abs(np.mean(counted) - expected) < 6 * np.std(counted) / math.sqrt(3000)
    of_b = event_cost(tree, 1)
    assert of_b == pytest.approx(new_matches(tree, 1, 1) / share * US)


def test_kleene_closure_as_printed_depends_on_the_unit_of_time():
    in_seconds = CostTree((Leaf("A", 2.0, is_kleene=True),), (), 60.0, 0, 0)
    in_minutes = CostTree((Leaf("A", 120.0, is_kleene=True),), (), 1.0, 0, 0)
    assert stored_in_leaf(in_seconds, 0, PRINTED) == 4 * 60
    assert stored_in_leaf(in_minutes, 0, PRINTED) == 1e12  # 2^120, cut
    assert stored_in_leaf(in_seconds, 0) == stored_in_leaf(in_minutes, 0) == 1e12  # e^120, cut


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Leaf("A", -1.0), "rate_hz=-1.0: expected a number that is not negative"),
        (lambda: Leaf("A", float("nan")), "rate_hz=nan"),
        (lambda: CostedCondition(frozenset(), 1.0, 0.5), "reads at least one component"),
        (lambda: CostedCondition(frozenset({0}), 1.0, 1.5), "selectivity=1.5: expected a share from 0 to 1"),
        (lambda: CostTree((), (), 1.0, 0, 0), "at least one leaf"),
        (
            lambda: CostTree((Leaf("A", 1),), (CostedCondition(frozenset({0, 2}), 0, 1),), 1.0, 0, 0),
            "reads component 2; the tree has the components 0 to 0",
        ),
        (lambda: event_cost(figure_4(), 0, "right"), "form='right': expected 'printed' or 'corrected'"),
    ],
)
def test_bad_trees_are_refused(make, message):
    with pytest.raises(CepError, match=message):
        make()


def test_paper_split_breaks_the_bound_and_the_others_do_not():
    cost, rate = {"A": 1e-4, "B": 1e-4, "C": 20e-3}, {"A": 50, "B": 50, "C": 5}
    mean = sum(cost[t] * rate[t] for t in cost) / sum(rate.values())
    n_in = queue_limit(1.5, mean)
    took = {split: drain_time(buffer_limits(n_in, cost, rate, split=split), cost) for split in SPLITS}
    assert took["darling"] == pytest.approx(20.8, abs=0.1)
    assert took["rate"] == pytest.approx(1.2, abs=0.05)
    assert took["darling_scaled"] == pytest.approx(1.2, abs=0.05)


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_limits_of_random_types_add_up_and_drain_in_time(seed):
    rng = np.random.default_rng(seed)
    types = [f"T{i}" for i in range(rng.integers(1, 8))]
    cost = {t: float(10 ** rng.uniform(-5, -2)) for t in types}
    rate = {t: float(10 ** rng.uniform(0, 3)) for t in types}
    mean = sum(cost[t] * rate[t] for t in types) / sum(rate.values())
    bound, safety = float(rng.uniform(0.1, 3)), float(rng.uniform(0.3, 1))
    n_in = queue_limit(bound, mean)
    slack = sum(cost.values())  # each limit is rounded up by less than one event
    for split in SPLITS:
        limits = buffer_limits(n_in, cost, rate, safety=safety, split=split)
        assert min(limits.values()) >= 1
        if split != "darling_scaled":
            assert safety * n_in - 1e-6 <= sum(limits.values()) <= safety * n_in + len(types)
        if split != "darling":
            assert drain_time(limits, cost) <= safety * bound + slack + 1e-9
    exact = safety * bound * sum(rate[t] * cost[t] ** 2 for t in types) * sum(rate.values())
    exact /= sum(rate[t] * cost[t] for t in types) ** 2
    assert exact >= safety * bound * (1 - 1e-9)
    drained = drain_time(buffer_limits(n_in, cost, rate, safety=safety), cost)
    assert exact - 1e-9 <= drained <= exact + slack + 1e-9


def test_weights_move_the_limits():
    cost, rate = {"A": 1e-3, "B": 1e-3}, {"A": 10.0, "B": 10.0}
    assert buffer_limits(100, cost, rate, weights={"A": 3.0}) == {"A": 60, "B": 20}
    assert buffer_limits(100, cost, rate, weights={"A": 0.0}) == {"A": 1, "B": 80}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_in": 0}, "n_in=0: expected a number above 0"),
        ({"safety": 0}, "safety=0: expected a share above 0"),
        ({"split": "even"}, "split='even': expected one of 'darling', 'rate', 'darling_scaled'"),
        ({"rate_hz": {"A": 1.0}}, "only one of them has B"),
        ({"weights": {"C": 1.0}}, "no such type C; there are A, B"),
        ({"weights": {"A": -1.0}}, "weight -1.0 of type 'A'"),
        ({"event_cost_s": {"A": -1.0, "B": 1.0}}, "cost -1.0 of type 'A'"),
        ({"rate_hz": {"A": 0.0, "B": 0.0}}, "nothing can be divided"),
    ],
)
def test_bad_limits_are_refused(change, message):
    given = {"n_in": 10, "event_cost_s": {"A": 1.0, "B": 1.0}, "rate_hz": {"A": 1.0, "B": 1.0}} | change
    with pytest.raises(CepError, match=message):
        buffer_limits(**given)


@pytest.mark.parametrize("bound", [0, -1.0, float("inf"), float("nan")])
def test_latency_bound_is_above_0(bound):
    with pytest.raises(CepError, match="latency_bound_s="):
        queue_limit(bound, 0.001)


def test_threshold_of_arrays_is_not_negative():
    assert array_threshold(100, 2, 1e-6, 1e-5) == 80
    assert array_threshold(10, 2, 1e-3, 1e-5) == 0
    assert array_threshold(10, 0, 1e-3, 1e-5) == 10
