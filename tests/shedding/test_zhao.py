"""Zhao et al.: costs, knapsacks and classes against brute force, and what the strategy drops."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

from cepkit.errors import CepError, MissingDependencyError
from cepkit.shedding.strategies import classes as classes_module
from cepkit.shedding.strategies.classes import (
    ClassModel,
    ClassTree,
    cluster,
    consumptions,
    contributions,
    events_of_matches,
    first_positions,
    grow_tree,
    lengths,
    members,
    to_features,
)
from cepkit.shedding.strategies.strategy import Event, Load
from cepkit.shedding.strategies.zhao import UNITS, Zhao, cheapest_cover, greedy_cover
from cepkit.values import asdict
from tests.support.sizes import seeds
from tests.support.strategy_cases import ABC, frame_of, machine_of, random_frame, train

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")
AND = "PATTERN AND(A a, B b, C c) WHERE skip_till_any_match AND b.x > a.x WITHIN 12 seconds"
KLEENE = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match AND b[i].x > a.x WITHIN 12 seconds"
QUERIES = [ABC, AND, KLEENE]


def learned(text: str, seed: int, n: int = 60):
    training = train(random_frame(seed, n, "ABC"), text)
    return training, training.machine.ancestry


def ancestors_of(lineage, row: int) -> set[int]:
    """Return the rows of the partial matches that one came from, with its own."""
    if row < 0:
        return set()
    return {row} | ancestors_of(lineage, lineage.left[row]) | ancestors_of(lineage, lineage.right[row])


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_lineage_by_brute_force(seed, text):
    training, lineage = learned(text, seed)
    n = len(lineage.left)
    ancestors = [ancestors_of(lineage, i) for i in range(n)]
    matches = np.flatnonzero(lineage.is_match)
    assert len(matches) > 0
    assert contributions(lineage).tolist() == [sum(i in ancestors[m] for m in matches) for i in range(n)]
    events = [{int(lineage.position[a]) for a in ancestors[i] if lineage.right[a] < 0} for i in range(n)]
    assert first_positions(lineage).tolist() == [min(own) for own in events]
    assert lengths(lineage).tolist() == [len(own) for own in events]
    weighted = lineage.cost * lengths(lineage)
    wanted = [sum(weighted[d] for d in range(n) if i in ancestors[d] and d != i) for i in range(n)]
    assert np.allclose(consumptions(lineage), wanted)
    member = members(lineage, training.program.n_leaves)
    for i in range(n):
        assert set(member[i][member[i] >= 0].tolist()) <= events[i]
    found = events_of_matches(lineage)
    pairs = sorted(zip(found.match.tolist(), lineage.position[found.row].tolist(), strict=True))
    assert pairs == sorted((m, e) for m in matches.tolist() for e in events[m])
    assert (found.place == lineage.position[found.row] - first_positions(lineage)[found.match]).all()


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_members_are_those_of_the_machine(seed):
    training, lineage = learned(ABC, seed)
    partial = training.machine.partial()
    rows = partial.id - training.machine.ancestry.base
    assert members(lineage, 3)[rows].tolist() == partial.members.tolist()
    assert lengths(lineage)[rows].tolist() == partial.length.tolist()
    assert lineage.node[rows].tolist() == partial.node.tolist()


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_cover_by_brute_force(seed):
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 9))
    loss = generator.integers(0, 20, n) / 64  # sums are exact
    gain = generator.integers(0, 40, n) / UNITS
    needed = int(generator.integers(-5, 60)) / UNITS
    units, target = np.round(gain * UNITS).astype(int), round(needed * UNITS)
    sets = [np.array(one, bool) for one in product((0, 1), repeat=n)]
    enough = [one for one in sets if units[one].sum() > target] if target >= 0 else [sets[0]]
    chosen = cheapest_cover(loss, gain, needed)
    if not enough:
        assert chosen.all()
    else:
        assert any(np.array_equal(chosen, one) for one in enough)
        assert loss[chosen].sum() == min(loss[one].sum() for one in enough)


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_greedy_cover(seed):
    generator = np.random.default_rng(seed)
    loss, gain = generator.dirichlet(np.ones(6), 2)
    needed = float(generator.uniform(0, 1.2))
    share = greedy_cover(loss, gain, needed)
    assert share @ gain == pytest.approx(min(needed, 1.0))
    assert ((share > 0) & (share < 1)).sum() <= 1
    ratio = loss / gain
    assert not (share > 0).any() or ratio[share > 0].max() <= ratio[share == 0].min(initial=np.inf)


def test_classes_without_gain_stay():
    assert greedy_cover(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.5).tolist() == [0.0, 0.5]
    assert cheapest_cover(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.5).tolist() == [False, True]
    assert not cheapest_cover(np.ones(2), np.ones(2), -0.1).any()


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_clusters_repeat_and_the_gap_finds_their_number(seed):
    generator = np.random.default_rng(seed)
    centres = np.array([[0, 0], [50, 50], [0, 50]])[: 1 + seed % 3]
    points = (centres[:, None] + generator.normal(0, 1, (len(centres), 40, 2))).reshape(-1, 2)
    labels = cluster(points, "gap", seed)
    assert labels.tolist() == cluster(points, "gap", seed).tolist()
    if len(centres) > 1:
        assert labels.tolist() == np.repeat(np.arange(len(centres)), 40).tolist()
    assert len(np.unique(cluster(points, 4, seed))) == 4
    assert len(np.unique(cluster(np.ones((5, 2)), 4, seed))) == 1


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_trees_are_those_of_scikit_learn(seed):
    from sklearn.tree import DecisionTreeClassifier

    generator = np.random.default_rng(seed)
    rows = to_features(list(generator.normal(0, 9, (3, 80))))
    labels = (rows[:, 0] > 1).astype(int) + 2 * (rows[:, 2] < rows[:, 1]).astype(int)
    tree = grow_tree(rows, labels, seed)
    known = DecisionTreeClassifier(max_depth=4, random_state=seed).fit(rows, labels)
    others = to_features(list(generator.normal(0, 9, (3, 200))))
    assert tree.predict(others).tolist() == known.predict(others).tolist()
    assert ClassTree(**asdict(tree)).predict(others).tolist() == tree.predict(others).tolist()
    assert tree.predict(others[:0]).tolist() == []


def test_missing_values_have_a_class():
    rows = to_features([np.array([1.0, np.nan, np.inf, 3.0])])
    assert np.isfinite(rows).all() and len(np.unique(rows)) == 3


def useful_and_useless():
    """Return a stream where partial matches of A above 50 never complete, and cost most."""
    generator = np.random.default_rng(5)
    types = "".join(generator.choice(list("AABC"), 800))
    values = generator.integers(0, 50, 800)
    values = np.where(
        (np.array(list(types)) == "A") & (generator.random(800) < 0.7), values + 1000, values + 60
    )
    return frame_of(types, values=values)


def load_of(latency: float) -> Load:
    return Load(0.0, 0, 0.0, 1.0, 1.0, latency, 0)


def test_useless_classes_are_shed_first():
    frame = useful_and_useless()
    training = train(frame, ABC, 700, latency_bound=1.0)
    model = ClassModel(training, 4, 1, 100)
    n_leaves, machine = training.program.n_leaves, training.machine
    positions = np.flatnonzero((frame["type"] == "A").to_numpy()[:700])
    member = np.full((len(positions), n_leaves), -1)
    member[:, 0] = positions
    is_high = frame["x"].to_numpy()[positions] > 1000
    found = model.classify(machine, 0, member)
    (useless,) = np.unique(found[is_high])
    assert (found[~is_high] != useless).mean() > 0.4
    loss, gain = model.shares()
    assert loss.sum() == pytest.approx(1) and gain.sum() == pytest.approx(1)
    own = [c for c in model.classes_of_node(0) if gain[c] > 0]
    assert useless == own[np.argmin(loss[own] / gain[own])]

    shedder = Zhao(time_slices=1, interval=90).begin(training)
    for position in range(700, 790):
        event = Event(position, int(machine.types_of_events()[position]), 0.0)
        assert shedder.before(event, load_of(0.0), machine)
        shedder.after(event, load_of(0.0), machine.feed(position))
    before = machine.partial()
    needed = 0.9 * gain[loss <= loss[useless]].sum()
    late = load_of(1 / (1 - needed))
    assert shedder.before(Event(790, 1, 0.0), late, machine)
    gone = ~np.isin(before.id, machine.partial().id)
    first = frame["x"].to_numpy()[before.first_position]
    assert (first[gone] > 1000).mean() > (first > 1000).mean() > (first[~gone] > 1000).mean()
    assert useless in shedder.report()["shed_classes"]
    # New events that would only make such partial matches go too, while the run is late.
    high = positions[is_high][-1]
    low = positions[found != useless][-1]
    assert not shedder.before(Event(int(high), 0, 0.0), late, machine)
    assert shedder.before(Event(int(low), 0, 0.0), late, machine)
    assert shedder.before(Event(int(high), 0, 0.0), load_of(0.5), machine)


@pytest.mark.parametrize("text", QUERIES)
def test_matches_teach_the_classes_that_they_came_from(text):
    training, lineage = learned(text, 2, 120)
    model = ClassModel(training, 3, 2, training.n_events)
    machine = machine_of(random_frame(2, 120, "ABC"), text)
    found = [model.shape.members_of_matches(machine.feed(position).found) for position in range(120)]
    matches = np.concatenate(found)
    assert len(matches) == lineage.is_match.sum()
    learned_before = model.contribution.copy()
    model.update(machine, np.zeros(0, np.int64), matches[:0], matches, 1.0)
    # The warm-up knew all partial matches; the update sees the last event of each set only.
    if text != KLEENE:
        assert np.allclose(model.contribution, learned_before)
    assert model.contribution.sum() > 0


def test_states_of_events_that_must_be_absent_have_no_class():
    text = "PATTERN SEQ(A a, NOT B b, C c) WHERE skip_till_any_match WITHIN 12 seconds"
    training = train(random_frame(1, 80), text, 40, latency_bound=1e-12)
    shedder, machine = Zhao(interval=1).begin(training), training.machine
    n_absent = int((machine.partial().state == 0).sum())
    assert n_absent > 0
    shedder.after(Event(39, 0, 0.0), load_of(1.0), machine.feed(40))
    shedder.before(Event(41, 0, 0.0), load_of(1.0), machine)
    assert (machine.partial().state == 0).sum() >= n_absent


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(classes_module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r'pip install "cepkit\[papers]"'):
        Zhao()


@pytest.mark.parametrize(
    "settings",
    [{"clusters": 0}, {"clusters": "four"}, {"time_slices": 0}, {"interval": 0}, {"knapsack": "best"}],
)
def test_wrong_settings(settings):
    with pytest.raises(CepError, match=next(iter(settings))):
        Zhao(**settings)
