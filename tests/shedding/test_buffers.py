"""Invariants of the buffers and utility arrays under random operations."""

import random

import pytest

from cepkit.errors import CepError
from cepkit.shedding.buffers import BufferRule, EventBuffers, UtilityArrays, utility_slot
from tests.support.sizes import seeds

SEEDS = seeds(15, 100)


@pytest.mark.parametrize("tie", ["random", "oldest", "newest"])
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
            event = arrays.drop_lowest()
            assert event in tied
            if tie != "random":
                assert event == tied[0 if tie == "oldest" else -1]
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
            assert buffers.pop(name) == waiting[name].pop(0)
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
    assert [buffers.pop("A"), buffers.pop("A")] == [5, 9]


def test_arrays_come_at_their_threshold_and_go_at_half_of_it():
    buffers = EventBuffers(BufferRule(100, {"A": 100}, {"A": 10}, lambda _, event: 0.5))
    for event in range(9):
        buffers.push("A", event)
    assert buffers.arrays("A") is None
    buffers.push("A", 9)
    assert len(buffers.arrays("A")) == 10
    for _ in range(5):
        buffers.pop("A")
    assert len(buffers.arrays("A")) == 5
    buffers.pop("A")
    assert buffers.arrays("A") is None


def test_bad_arrays_are_refused():
    with pytest.raises(CepError, match="n_slots=0"):
        UtilityArrays(0)
    with pytest.raises(CepError, match="tie='first': expected 'random', 'oldest' or 'newest'"):
        UtilityArrays(tie="first")
    with pytest.raises(CepError, match=r"utility=1\.5: expected a number from 0 to 1"):
        UtilityArrays().add("a", 1.5)
    with pytest.raises(CepError, match="there is no event to drop"):
        UtilityArrays().drop_lowest()
