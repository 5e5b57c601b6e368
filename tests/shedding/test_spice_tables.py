"""Tables of eSPICE and hSPICE against streams that are checked by eye, and what a table skips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.strategies.classes import OpenWindows, events_by_cell, windows_of
from cepkit.shedding.strategies.spice import (
    ESpice,
    HSpice,
    event_utilities,
    occurrences,
    pair_utilities,
    threshold_to_drop,
    to_utilities,
)
from cepkit.shedding.strategies.strategy import Event, Load
from tests.support.sizes import seeds
from tests.support.strategy_cases import frame_of, train

PLAIN = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match WITHIN 3 seconds"
RISING = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match AND b.x > a.x WITHIN 3 seconds"
STREAM = "ABBCDDD" * 3  # each window is A, B, B, C; its matches are A B C with either B
A, B, C = 0, 1, 2


def test_event_utilities_by_eye():
    # Match 1 has A at 0, B at 1, C at 3; match 2 has A at 0, B at 2, C at 3. So A and C count twice.
    table = event_utilities(train(frame_of(STREAM), PLAIN, bins=(4, 1)), safety=0.8)
    assert table.bin_size == 1 and table.mean_size == 4.0
    wanted = np.zeros((3, 4), int)
    wanted[A, 0], wanted[B, 1], wanted[B, 2], wanted[C, 3] = 100, 50, 50, 100
    assert table.utility[:, :, 0].tolist() == wanted.tolist()
    assert table.expected[:, :, 0].tolist() == (wanted > 0).astype(float).tolist()


def test_thresholds_by_eye():
    table = event_utilities(train(frame_of(STREAM), PLAIN, bins=(4, 1)), safety=0.8)
    whole = table._replace(part_of_bin=np.zeros(4, np.int64))
    # Two of the four events of a window have utility 50, and two have 100.
    assert [whole.thresholds(share).tolist() for share in (0.0, 0.25, 0.5, 0.6)] == [[-1], [50], [50], [100]]
    halves = table._replace(part_of_bin=np.array([0, 0, 1, 1]))
    assert halves.thresholds(0.5).tolist() == [50, 50]
    assert halves.thresholds(0.75).tolist() == [100, 100]
    skipped = halves.skipped(np.array([50, -1]), size=4.0)[:, :, 0]
    assert skipped.tolist() == [
        [False, True, False, False],
        [True, True, False, False],
        [True, True, False, False],
    ]
    # In windows of 8 events, bins are twice as long: position 1 has become 2 and 3.
    assert halves.skipped(np.array([50, -1]), size=8.0)[A, :, 0].tolist() == [False, False, True, True]


def test_a_part_is_what_fits_into_the_rest_of_the_queue():
    training = train(frame_of("ABBC" * 9), PLAIN, bins=(4, 1))
    training = replace(training, latency_bound=10.0 * training.service)
    # (1 - 0.8) 10 = 2 events for each part.
    assert event_utilities(training, safety=0.8).part_of_bin.tolist() == [0, 0, 1, 1]
    assert event_utilities(training, safety=0.6).part_of_bin.tolist() == [0, 0, 0, 0]


def test_pair_utilities_by_eye():
    # The second B of each window is too low. C meets the one partial match A B.
    values = [1, 2, 0, 0, 0, 0, 0] * 3
    table = pair_utilities(train(frame_of(STREAM, values=values), RISING, bins=(4, 1)))
    wanted = {(A, 0, 0): (100, 1), (B, 1, 1): (100, 1), (B, 2, 1): (0, 1), (C, 3, 2): (100, 1)}
    utility, expected = np.zeros((2, *table.utility.shape))
    for cell, (own, n) in wanted.items():
        utility[cell], expected[cell] = own, n
    assert table.utility.tolist() == utility.tolist()
    assert table.expected.tolist() == expected.tolist()
    assert [table.thresholds(share).tolist() for share in (0.0, 0.25, 0.3)] == [[-1], [0], [100]]


def test_pair_utilities_are_chances_of_completion():
    # Half of the pairs of B at 1 make A B; a C follows only once.
    text, values = "ABCD" + "ABDD" + "ABDD" + "ABDD" + "D", [1, 2, 0, 0] * 2 + [2, 1, 0, 0] * 2 + [0]
    table = pair_utilities(train(frame_of(text, values=values), RISING, bins=(4, 1)))
    # A: 1 of 4. B: 1 of 4. C: 1 of 1. The greatest chance is 1.
    assert [int(table.utility[cell]) for cell in [(A, 0, 0), (B, 1, 1), (C, 2, 2)]] == [25, 25, 100]


def load_of(waiting: int, rate: float) -> Load:
    return Load(0.0, waiting, 0.0, rate, 1.0, 0.0, 0)


def test_pairs_below_the_threshold_are_skipped():
    frame = frame_of(STREAM * 2, values=[1, 2, 0, 0, 0, 0, 0] * 6)
    training = train(frame, RISING, 21, bins=(4, 1))
    shedder, machine = HSpice(backlog=False).begin(training), training.machine
    overload = load_of(10**9, 1.3 / training.service)
    matches, lookups, evaluated = [], 0, 0
    for position in range(21, len(frame)):
        event = Event(position, int(machine.types_of_events()[position]), 0.0)
        assert shedder.before(event, overload, machine)
        outcome = machine.feed(position)
        shedder.after(event, overload, outcome)
        lookups += outcome.pairs
        evaluated += int(outcome.evaluated.sum())
        matches += outcome.matches
    assert len(matches) == 3  # nothing useful was skipped
    assert evaluated == 3  # without skipping: 6
    assert shedder.charged["lookup"] == lookups == 9
    assert shedder.report()["thresholds"] == [0]


def test_events_below_the_threshold_are_skipped_in_their_windows():
    # A C at position 1 of its window is in no match. It is so in the window of the second A.
    text = "ACBCDDD" * 6
    query = "PATTERN SEQ(A a, C c) WHERE skip_till_any_match AND c.x > a.x WITHIN 3 seconds"
    frame = frame_of(text, values=[1, 0, 0, 2, 0, 0, 0] * 6)
    training = train(frame, query, 21, bins=(4, 1))
    shedder, machine = ESpice(backlog=False).begin(training), training.machine
    overload = load_of(10**9, 1.3 / training.service)
    evaluated, n_matches = 0, 0
    for position in range(21, len(frame)):
        event = Event(position, int(machine.types_of_events()[position]), 0.0)
        if event.type >= 0:
            shedder.before(event, overload, machine)
            outcome = machine.feed(position)
            evaluated += int(outcome.evaluated.sum())
            n_matches += len(outcome.matches)
    assert (evaluated, n_matches) == (3, 3)
    assert shedder.charged["lookup"] == 9  # A, C and C are in one window each


def test_everything_goes_when_nothing_may_stay():
    frame = frame_of(STREAM * 2)
    for strategy in (ESpice(), HSpice()):
        training = train(frame, PLAIN, 21, bins=(4, 1))
        shedder, machine = strategy.begin(training), training.machine
        machine.drop(machine.partial().id)
        for position in range(21, len(frame)):
            event = Event(position, int(machine.types_of_events()[position]), 0.0)
            may = shedder.before(event, load_of(10**9, 1e12), machine)
            assert may == (event.type < 0 or strategy.name == "hspice")
            assert not machine.feed(position).matches
            assert machine.n_alive == 0
        shedder.before(Event(0, A, 0.0), load_of(0, 1e12), machine)
        assert machine.skip is None


@pytest.mark.parametrize("strategy", [ESpice, HSpice])
def test_waiting_events_count_as_arriving_within_the_bound(strategy):
    frame = frame_of(STREAM * 2)
    share = {}
    for backlog in (True, False):
        training = train(frame, PLAIN, 21, bins=(4, 1))
        training = replace(training, latency_bound=10 * training.service)
        shedder = strategy(safety=0.8, backlog=backlog).begin(training)
        # 12 more than 8 events wait, and each bound has time for 10: 2.2 times too many with the new ones.
        shedder.before(Event(21, A, 0.0), load_of(20, 1.0 / training.service), training.machine)
        share[backlog] = shedder.report()["share"]
    assert share[False] == 0
    assert share[True] == pytest.approx(1 - 1 / 2.2)


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_threshold_is_the_least_one(seed):
    generator = np.random.default_rng(seed)
    utility = generator.integers(0, 101, 40)
    expected = generator.integers(0, 5, 40).astype(float)
    amount = float(generator.uniform(0.01, expected.sum() + 1))
    wanted = next((u for u in range(101) if expected[utility <= u].sum() >= amount), 100)
    assert threshold_to_drop(occurrences(utility, expected), amount) == wanted


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_utilities_keep_order_and_zero(seed):
    values = np.random.default_rng(seed).uniform(0, 9, 50) * np.random.default_rng(seed).integers(0, 2, 50)
    utility = to_utilities(values)
    assert ((utility == 0) == (values == 0)).all()
    assert utility.max() in (0, 100)
    assert (np.diff(utility[np.argsort(values)]) >= 0).all()


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_windows_and_their_events_by_brute_force(seed):
    generator = np.random.default_rng(seed)
    n, span, n_bins, size = 60, int(generator.integers(0, 12)), int(generator.integers(1, 8)), 2
    types, partition = generator.integers(-1, 3, n), generator.integers(0, 3, n)
    time = np.cumsum(generator.integers(0, 3, n))
    found = windows_of(types == 0, time, partition, span)
    sizes, cells, complete = [], np.zeros((3, n_bins)), 0
    for o in np.flatnonzero(types == 0):
        inside = [e for e in range(o, n) if partition[e] == partition[o] and time[e] - time[o] <= span]
        if not any(partition[e] == partition[o] and time[e] - time[o] > span for e in range(o, n)):
            continue
        complete += 1
        sizes.append(inside[-1] + 1 - o)
        for e in inside:
            if types[e] >= 0:
                cells[types[e], min((e - o) // size, n_bins - 1)] += 1
    if complete:
        assert (found.end - found.opening).tolist() == sizes
        assert np.allclose(events_by_cell(found, types, partition, 3, n_bins, size), cells / complete)


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_open_windows_by_brute_force(seed):
    generator = np.random.default_rng(seed)
    n, span = 80, int(generator.integers(0, 12))
    opens, partition = generator.random(n) < 0.4, generator.integers(0, 2, n)
    time = np.cumsum(generator.integers(0, 3, n))
    now = OpenWindows(span, 1.0)
    for e in range(n):
        if e == n // 2:
            saved, now = now.save(), OpenWindows(span, 1.0)
            now.restore(saved)
        wanted = sum(
            opens[o] and partition[o] == partition[e] and time[e] - time[o] <= span for o in range(e + 1)
        )
        assert now.add(e, int(time[e]), int(partition[e]), opens=bool(opens[e])) == wanted


@pytest.mark.parametrize("settings", [{"interval": 0}, {"interval": 1.5}, {"safety": 0.0}, {"safety": 2}])
@pytest.mark.parametrize("strategy", [ESpice, HSpice])
def test_wrong_settings(strategy, settings):
    with pytest.raises(CepError, match=next(iter(settings))):
        strategy(**settings)
