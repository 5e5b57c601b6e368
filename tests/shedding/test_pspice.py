"""pSPICE: its Markov chain against recursion, its counts by eye, and which partial matches it drops."""

from __future__ import annotations

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.strategies.spice import (
    PSpice,
    completion_chances,
    count_moves,
    remaining_times,
    state_utilities,
    transition_matrix,
    work_of_moves,
)
from cepkit.shedding.strategies.strategy import Event, Load
from tests.support.sizes import seeds
from tests.support.strategy_cases import frame_of, random_frame, train

PLAIN = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match WITHIN 3 seconds"
RISING = PLAIN.replace("any_match", "any_match AND b.x > a.x")
STREAM, SECONDS = "ABBC" * 3, [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
LEAF_A, JOIN_AB, MATCH = 0, 3, 5


def random_chain(seed: int, n: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    moves = np.triu(generator.integers(0, 5, (n, n)), 1).astype(float)
    return moves, generator.integers(0, 30, n).astype(float)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_rows_of_a_chain_add_up(seed):
    matrix = transition_matrix(*random_chain(seed))
    assert np.allclose(matrix.sum(axis=1), 1.0) and (matrix >= 0).all()
    assert matrix[-1].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_chances_and_times_by_recursion(seed):
    matrix = transition_matrix(*random_chain(seed))
    reward = np.random.default_rng(seed).uniform(0, 3, matrix.shape)
    reward[-1] = 0

    def chance(s: int, left: int) -> float:
        if s == 3 or not left:
            return float(s == 3)
        return sum(matrix[s, t] * chance(t, left - 1) for t in range(4))

    def time(s: int, left: int) -> float:
        if not left:
            return 0.0
        return sum(matrix[s, t] * (reward[s, t] + time(t, left - 1)) for t in range(4))

    for step in (1, 2):
        chances, times = completion_chances(matrix, step, 4), remaining_times(matrix, reward, step, 4)
        for b in range(4):
            assert np.allclose(chances[b], [chance(s, b * step) for s in range(4)])
            assert np.allclose(times[b], [time(s, b * step) for s in range(4)])


@pytest.mark.parametrize("seed", range(3))
def test_chances_by_simulation(seed):
    matrix = transition_matrix(*random_chain(seed))
    generator = np.random.default_rng(seed)
    state = np.zeros(20_000, int)
    for _ in range(6):
        drawn = generator.random(len(state))
        state = (np.cumsum(matrix, axis=1)[state] < drawn[:, None]).sum(axis=1).clip(max=3)
    assert completion_chances(matrix, 3, 3)[2, 0] == pytest.approx((state == 3).mean(), abs=0.02)


def test_moves_by_eye():
    # In a window A B B C: three events meet A, and two extend it. A B is met by B C, and by C.
    training = train(frame_of(STREAM, seconds=SECONDS), PLAIN)
    seen = np.cumsum(training.machine.types_of_events() >= 0)
    lineage = training.machine.ancestry
    moves, observed = count_moves(lineage, seen, 4.0, 5)
    assert (moves[LEAF_A, JOIN_AB], moves[JOIN_AB, MATCH]) == (6, 6)
    assert (observed[LEAF_A], observed[JOIN_AB], observed[MATCH]) == (9, 9, 0)
    assert moves.sum() == 12
    matrix = transition_matrix(moves, observed)
    assert matrix[LEAF_A, JOIN_AB] == pytest.approx(2 / 3)
    assert matrix[JOIN_AB, MATCH] == pytest.approx(2 / 3)
    # With three events left, A completes when at least two of them move it: 1 - 1/27 - 3 * 2/27.
    table = state_utilities(training, bins=4)
    assert table.bin_size == 1
    assert table.chance[3, LEAF_A] == pytest.approx(1 - 1 / 27 - 6 / 27)
    assert table.chance[1, LEAF_A] == 0 and table.utility[1, LEAF_A] == 0


def test_work_by_eye():
    # Every B is compared with A; one of two holds. So A pays for the comparison that fails and the one that
    # holds: two conditions for three events.
    training = train(frame_of(STREAM, seconds=SECONDS, values=[1, 2, 0, 0] * 3), RISING)
    seen = np.cumsum(training.machine.types_of_events() >= 0)
    lineage = training.machine.ancestry
    moves, observed = count_moves(lineage, seen, 4.0, 5)
    prices = {"condition": 6.0, "create": 3.0, "remove": 1.0}
    work = work_of_moves(lineage, moves, observed, prices)
    assert work[LEAF_A, LEAF_A] == pytest.approx(2 / 3 * 6)
    assert work[LEAF_A, JOIN_AB] == pytest.approx(2 / 3 * 6 + 4)
    assert work[JOIN_AB, MATCH] == pytest.approx(4)


def load_of(clock: float, alive: int) -> Load:
    return Load(clock, 1, 0.0, 1.0, 1.0, 0.0, alive)


def test_the_least_useful_go():
    frame = random_frame(3, 200, "ABC")
    text = PLAIN.replace("3 seconds", "40 seconds")
    training = train(frame, text, 100, latency_bound=1.0)
    shedder, machine = PSpice().begin(training), training.machine
    partial = machine.partial()
    utility = shedder._table.of(partial, 100, training_size(shedder))
    event = Event(100, int(machine.types_of_events()[100]), 0.0)
    n = len(partial) // 3
    line = shedder._service
    waited = 0.8 - line.seconds(len(partial) - n) - shedder._seconds_each * len(partial)
    assert shedder.before(event, load_of(waited + 1e-12, len(partial)), machine)
    assert machine.n_alive == pytest.approx(len(partial) - n, abs=1)
    kept = np.isin(partial.id, machine.partial().id)
    assert utility[kept].min() >= utility[~kept].max()
    n_dropped = int((~kept).sum())
    assert shedder.charged == {"update": 1, "lookup": len(partial), "sort": len(partial), "drop": n_dropped}
    assert shedder.report()["dropped_partial_matches"] == n_dropped


def training_size(shedder) -> float:
    return shedder._windows.size


def test_nothing_goes_within_the_bound_and_all_beyond_it():
    frame = random_frame(4, 200, "ABC")
    text = PLAIN.replace("3 seconds", "40 seconds")
    training = train(frame, text, 100, latency_bound=1.0)
    shedder, machine = PSpice().begin(training), training.machine
    n, event = machine.n_alive, Event(100, 0, 0.0)
    shedder.before(event, load_of(0.1, n), machine)
    assert machine.n_alive == n > 0
    shedder.before(event, load_of(5.0, n), machine)
    assert machine.n_alive == 0


def test_events_that_must_be_absent_stay():
    text = "PATTERN SEQ(A a, NOT B b, C c) WHERE skip_till_any_match WITHIN 40 seconds"
    frame = frame_of("ABABACB")
    training = train(frame, text, 5, latency_bound=1.0)
    shedder, machine = PSpice().begin(training), training.machine
    shedder.before(Event(5, 2, 0.0), load_of(5.0, machine.n_alive), machine)
    assert machine.partial().state.tolist() == [0, 0]


@pytest.mark.parametrize("settings", [{"bins": 0}, {"safety": 0.0}, {"safety": True}])
def test_wrong_settings(settings):
    with pytest.raises(CepError, match=next(iter(settings))):
        PSpice(**settings)
