"""Invariants of the buffers and utility arrays under random operations."""

import random

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.buffers import (
    SPLITS,
    BufferRule,
    EventBuffers,
    UtilityArrays,
    WaitingEvents,
    WorkBuffers,
    array_threshold,
    buffer_limits,
    drain_time,
    queue_limit,
    utility_slot,
)
from tests.support.sizes import seeds

SEEDS = seeds(15, 100)


@pytest.mark.parametrize("tie", ["random", "newest", "newest_waiting"])
@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_equal_a_sorted_list(seed, tie):
    generator = random.Random(seed)
    n_slots = generator.choice([1, 10, 100])
    arrays, known = UtilityArrays(n_slots, tie=tie, seed=seed), {}
    for step in range(10_000):
        what = generator.random()
        if what < 0.5 or not known:
            utility = generator.choice([0.0, 1.0, generator.random()])
            arrays.add(step, utility)
            known[step] = utility_slot(utility, n_slots)
        elif what < 0.75:
            event = generator.choice(list(known)) if len(known) < 50 else next(iter(known))
            arrays.remove(event)
            del known[event]
        else:
            least = min(known.values())
            tied = [event for event, slot in known.items() if slot == least]
            assert arrays.lowest() == least
            new = step - 1 if generator.random() < 0.5 else None
            event = arrays.drop_lowest(new)
            assert event in tied
            if tie != "random":
                is_kept = tie == "newest_waiting" and tied[-1] == new and len(tied) > 1
                assert event == tied[-2 if is_kept else -1]
            del known[event]
        assert len(arrays) == len(known)
    assert {event: arrays.slot(event) for event in known} == known


def test_random_choice_is_even_and_repeats_with_its_seed():
    def first_dropped(seed):
        arrays = UtilityArrays(seed=seed)
        for event in range(4):
            arrays.add(event, 0.5)
        return arrays.drop_lowest()

    assert [first_dropped(7) for _ in range(5)] == [first_dropped(7)] * 5
    counts = [0] * 4
    for seed in range(2000):
        counts[first_dropped(seed)] += 1
    assert min(counts) > 400


def served(buffers: EventBuffers, event_type: str):
    """Let the oldest event of a type leave, and return it."""
    event = buffers.oldest(event_type)
    buffers.remove(event_type, event)
    return event


def rule_of(generator: random.Random, utility) -> BufferRule:
    limits = {name: generator.randint(1, 12) for name in "ABCD"[: generator.randint(1, 4)]}
    thresholds = {name: generator.randint(0, limit) for name, limit in limits.items()}
    return BufferRule(sum(limits.values()), limits, thresholds, utility, seed=generator.randint(0, 99))


@pytest.mark.parametrize("seed", SEEDS)
def test_buffers_stay_within_their_limits(seed):
    generator = random.Random(seed)
    utility_of: dict[int, float] = {}
    rule = rule_of(generator, lambda _, event: utility_of[event])
    buffers = EventBuffers(rule)
    waiting: dict[str, list[int]] = {name: [] for name in rule.limit_of_type}
    for step in range(10_000):
        name = generator.choice(list(waiting))
        if generator.random() < 0.6:
            utility_of[step] = generator.random()
            full = len(buffers) >= rule.limit
            waiting[name].append(step)
            dropped = set(buffers.push(name, step))
            assert bool(dropped) == (full and any(len(waiting[t]) > rule.limit_of_type[t] for t in waiting))
            for own, events in waiting.items():
                kept = [event for event in events if event not in dropped]
                gone = [utility_slot(utility_of[event], rule.n_slots) for event in events if event in dropped]
                if gone:
                    assert len(kept) == rule.limit_of_type[own]
                    assert max(gone) <= min(utility_slot(utility_of[event], rule.n_slots) for event in kept)
                waiting[own] = kept
        elif waiting[name]:
            assert buffers.oldest(name) == waiting[name][0]
            assert served(buffers, name) == waiting[name].pop(0)
        else:
            assert buffers.oldest(name) is None
        assert len(buffers) == sum(map(len, waiting.values())) <= rule.limit
        assert buffers.size(name) == len(waiting[name])
        arrays = buffers.arrays(name)
        assert arrays is None or len(arrays) == len(waiting[name])


def test_type_that_filled_all_buffers_makes_room_for_others():
    buffers = EventBuffers(BufferRule(6, {"A": 2, "B": 4}, {"A": 9, "B": 9}, lambda _, event: event / 10))
    assert [buffers.push("A", event) for event in range(6)] == [[]] * 6
    assert buffers.push("B", 9) == [0, 1, 2, 3]
    assert (buffers.size("A"), buffers.size("B")) == (2, 1)


def test_nothing_is_dropped_below_the_limit_of_all():
    buffers = EventBuffers(BufferRule(6, {"A": 2, "B": 4}, {"A": 2, "B": 4}, lambda _, event: event / 10))
    assert [buffers.push("A", event) for event in range(6)] == [[]] * 6
    assert buffers.push("A", 9) == [0, 1, 2, 3, 4]
    assert [served(buffers, "A"), served(buffers, "A")] == [5, 9]


def test_arrays_come_at_their_threshold_and_go_at_half_of_it():
    buffers = EventBuffers(BufferRule(100, {"A": 100}, {"A": 10}, lambda _, event: 0.5))
    for event in range(9):
        buffers.push("A", event)
    assert buffers.arrays("A") is None
    buffers.push("A", 9)
    assert len(buffers.arrays("A")) == 10
    for _ in range(5):
        served(buffers, "A")
    assert len(buffers.arrays("A")) == 5
    served(buffers, "A")
    assert buffers.arrays("A") is None


def test_bad_arrays_are_refused():
    with pytest.raises(CepError, match="n_slots=0"):
        UtilityArrays(0)
    with pytest.raises(CepError, match="tie='first': expected 'random', 'newest' or 'newest_waiting'"):
        UtilityArrays(tie="first")
    with pytest.raises(CepError, match=r"utility=1\.5: expected a number from 0 to 1"):
        UtilityArrays().add("a", 1.5)
    with pytest.raises(CepError, match="there is no event to drop"):
        UtilityArrays().drop_lowest()


# --- buffers that bound seconds of work


@pytest.mark.parametrize("tie", ["random", "newest", "newest_waiting"])
@pytest.mark.parametrize("seed", SEEDS)
def test_work_stays_within_the_limit_once_it_was_full(seed, tie):
    """Nothing goes up to the bound; above it, the events of least utility of each type go first."""
    generator = np.random.default_rng(seed)
    n_types = int(generator.integers(1, 4))
    buffers = WorkBuffers(1.0, 0.8, [tie] * n_types, seed)
    buffers.seconds_of_type = generator.uniform(0.001, 0.05, n_types)
    buffers.limit_of_type = generator.integers(1, 40, n_types).astype(float)
    step_of, at, n_dropped = {}, 0, 0
    for _ in range(60):
        n = int(generator.integers(1, 40))
        types, events = generator.integers(0, n_types, n), np.arange(at, at + n)
        step_of.update(zip(events.tolist(), generator.integers(0, 4, n).tolist(), strict=True))
        at += n
        before = waiting_of(buffers)
        was_full, work = buffers.is_full, buffers.seconds + float(buffers.seconds_of_type[types].sum())
        gone = buffers.push(
            types, events, np.zeros(n), lambda number, rows: np.array([step_of[row] for row in rows.tolist()])
        )
        dropped = gone.position.tolist()
        assert gone.step.tolist() == [step_of[event] for event in dropped]
        assert bool(dropped) == (work > (0.8 if was_full else 1.0))
        assert not dropped or buffers.seconds <= 0.8
        n_dropped += len(dropped)
        for number, waiting in enumerate(waiting_of(buffers)):
            gone = (set(before[number]) | set(events[types == number].tolist())) - set(waiting)
            assert gone <= set(dropped)
            if gone and waiting:
                assert max(step_of[event] for event in gone) <= min(step_of[event] for event in waiting)
                tied = [e for e in waiting if step_of[e] == max(step_of[event] for event in gone)]
                if tied and tie == "newest":
                    assert max(tied) < min(e for e in gone if step_of[e] == step_of[tied[0]])
        for waiting in waiting_of(buffers):
            buffers.remove(np.array(waiting[: int(generator.integers(0, 8))], np.int64))
        assert buffers.n_of_type.tolist() == [len(waiting) for waiting in waiting_of(buffers)]
    assert n_dropped > 0


def waiting_of(buffers: WorkBuffers) -> list[list[int]]:
    """Return the waiting events of each type, the oldest first."""
    columns = buffers.waiting.save()
    return [columns["position"][columns["type"] == t].tolist() for t in range(len(buffers.n_of_type))]


def test_others_stay_for_an_event_that_comes_late_anyway():
    buffers = WorkBuffers(1.0, 0.8, ["newest"])
    buffers.seconds_of_type[:] = 0.1
    nothing = lambda number, rows: np.zeros(len(rows), np.int64)  # noqa: E731
    assert buffers.push(np.zeros(5, int), np.arange(5), np.zeros(5), nothing).position.tolist() == []
    assert buffers.push(np.zeros(1, int), np.array([5]), np.array([0.9]), nothing).position.tolist() == [5]
    assert len(buffers.waiting) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_events_leave_in_any_order(seed):
    generator, waits, known, at = np.random.default_rng(seed), WaitingEvents(value=np.float64), {}, 0
    for _ in range(80):
        n = int(generator.integers(0, 300))
        positions = at + np.sort(generator.choice(3 * n + 1, n, replace=False))
        values = generator.random(n)
        waits.add(position=positions, value=values)
        known.update(zip(positions.tolist(), values.tolist(), strict=True))
        at += 3 * n + 1
        if generator.random() < 0.2:
            saved, waits = waits.save(), WaitingEvents(value=np.float64)
            waits.restore(saved)
        asked = generator.integers(0, at, 50)
        rows = waits.rows_of(asked)
        assert [row >= 0 for row in rows.tolist()] == [position in known for position in asked.tolist()]
        gone = np.unique(asked[rows >= 0])
        waits.remove(waits.rows_of(gone))
        for position in gone.tolist():
            del known[position]
        oldest = waits.rows(int(generator.integers(0, 400)))
        left = list(known)[: len(oldest)]
        assert waits["position"][oldest].tolist() == left
        assert waits["value"][oldest].tolist() == [known[position] for position in left]
        waits.remove(oldest)
        for position in left:
            del known[position]
        assert len(waits) == len(known) and waits["position"][waits.rows()].tolist() == list(known)


# --- limits of the paper


def test_paper_split_breaks_the_bound_and_the_others_do_not():
    cost, rate = {"A": 1e-4, "B": 1e-4, "C": 20e-3}, {"A": 50, "B": 50, "C": 5}
    mean = sum(cost[t] * rate[t] for t in cost) / sum(rate.values())
    n_in = queue_limit(1.5, mean)
    took = {split: drain_time(buffer_limits(n_in, cost, rate, split=split), cost) for split in SPLITS}
    assert took["darling"] == pytest.approx(20.8, abs=0.1)
    assert took["rate"] == pytest.approx(1.2, abs=0.05)


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
        ({"split": "even"}, "split='even': expected one of 'darling', 'rate'"),
        ({"rate_hz": {"A": 1.0}}, "only one of them has B"),
        ({"weights": {"C": 1.0}}, "no rate is given for type C; the types are A, B"),
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


def test_slots_of_utilities():
    assert [utility_slot(u, 100) for u in (0.0, 0.009, 0.305, 0.999, 1.0)] == [0, 0, 30, 99, 100]
