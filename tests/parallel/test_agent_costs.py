"""The cost model of hybrid agents: formulas by hand, against a plain chain, and what they decide."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from math import exp, factorial, inf, prod

import pytest

from cepkit.errors import CepError
from cepkit.parallel.model import (
    AgentRates,
    agent_loads,
    allocate_threads,
    arrival_rates,
    computation,
    evaluation_rates,
    event_buffer_sizes,
    event_loads,
    flows_of,
    match_buffer_sizes,
    match_loads,
    pairs_to_fuse,
    sending_rates,
    split_by_load,
    synchronisation,
    thread_shares,
)
from tests.support.sizes import seeds

MODELS = ["paper", "simplex"]


def match_rate(rates: AgentRates, model: str = "simplex") -> float:
    """Return how many matches there are, 1/s."""
    return sum(flows_of(rates, model)[-1].sent_on.values())


# --- a plain chain of agents ---


def poisson(draw: random.Random, rates, duration: float) -> list[tuple[float, int]]:
    """Return (time, component) of events that come independently, in order of time."""
    made = []
    for c, rate in enumerate(rates):
        t = draw.expovariate(rate)
        while t <= duration:
            made.append((t, c))
            t += draw.expovariate(rate)
    return sorted(made)


def chain(rates: AgentRates, duration: float, seed: int, delay: float = 0.0) -> dict[str, list[float]]:
    """Return what the agents of a pattern do per second, as they are defined: every pair one by one.

    A partial match reaches the next agent ``delay`` after its last event. A loop has no limit. Nothing is
    counted in the first window, when buffers are not yet full.
    """
    draw = random.Random(seed)
    n, w = len(rates.rates), rates.window
    waiting = sorted((t, 0, k, c, None) for k, (t, c) in enumerate(poisson(draw, rates.rates, duration)))
    events: list[list[float]] = [[] for _ in range(n)]
    partials: list[list[tuple[float, float]]] = [[] for _ in range(n + 1)]
    counts = {name: Counter() for name in ("arrived", "by_events", "by_matches", "stored", "events")}
    since_start = duration - w
    number = len(waiting)

    def count(name: str, c: int, now: float, by: int = 1) -> None:
        counts[name][c] += by if now > w else 0

    def sent(p: tuple[float, float], c: int, now: float) -> None:
        nonlocal number
        targets = [c + 1, c] if rates.repeats[c][1] is None else [c + 1]
        for target in targets:
            number += 1
            if target == n or not delay:
                arrive(p, target, now)
            else:
                later.append((now + delay, 1, number, target, p))

    def arrive(p: tuple[float, float], c: int, now: float) -> None:
        count("arrived", c, now)
        if c == n:
            return
        partials[c].append(p)
        if delay:
            for t in events[c]:
                if p[1] < t <= p[0] + w and t <= now:
                    count("by_matches", c, now)
                    if draw.random() < rates.selectivities[c]:
                        sent((p[0], t), c, now)

    later: list[tuple] = []
    for item in waiting:
        while later and min(later)[0] <= item[0]:
            first = min(later)
            later.remove(first)
            arrive(first[4], first[3], first[0])
        now, _, _, c, _ = item
        for other in range(1, n):
            partials[other] = [p for p in partials[other] if p[0] + w >= now]
            events[other] = [t for t in events[other] if t + w + delay >= now]
            count("stored", other, now, len(partials[other]))
        count("events", 0, now)
        if c == 0:
            arrive((now, now), 1, now)
            continue
        events[c].append(now)
        for p in list(partials[c]):
            count("by_events", c, now)
            if draw.random() < rates.selectivities[c]:
                sent((p[0], now), c, now)
    n_seen = counts.pop("events")[0]
    made = {name: [counts[name][c] / since_start for c in range(1, n + 1)] for name in counts}
    made["stored"] = [counts["stored"][c] / n_seen for c in range(1, n)]
    return made


def mean_of(runs: list[dict[str, list[float]]], name: str) -> list[float]:
    return [sum(values) / len(runs) for values in zip(*(run[name] for run in runs), strict=True)]


FOUR = AgentRates((1.0, 1.2, 0.8, 1.0), window=5.0, selectivities=(1.0, 0.5, 0.5, 0.5))


@pytest.mark.parametrize("seed", [0])
def test_simplex_is_what_a_chain_of_agents_does(seed):
    runs = [chain(FOUR, 900.0, 10 * seed + k) for k in range(8)]
    arrived, evaluated = mean_of(runs, "arrived"), mean_of(runs, "by_events")
    assert arrived[:3] == pytest.approx(arrival_rates(FOUR), rel=0.15)
    assert arrived[3] == pytest.approx(match_rate(FOUR), rel=0.15)
    assert evaluated[:3] == pytest.approx(event_loads(FOUR), rel=0.15)
    assert mean_of(runs, "stored") == pytest.approx(match_buffer_sizes(FOUR), rel=0.15)
    # The paper's form is (i - 2)! times too large, and its pairs of one side (i - 1)! times.
    for i, (m, n) in enumerate(zip(arrived[:3], evaluated[:3], strict=True), start=2):
        assert arrival_rates(FOUR, "paper")[i - 2] / m == pytest.approx(factorial(i - 2), rel=0.15)
        assert event_loads(FOUR, "paper")[i - 2] / n == pytest.approx(factorial(i - 1), rel=0.15)


@pytest.mark.parametrize("seed", [0])
def test_simplex_with_delayed_partial_matches(seed):
    """Each agent's pairs are divided as its one delay says; of three components, for delays add up."""
    rates, delay = AgentRates(FOUR.rates[:3], 5.0, (1.0, 0.5, 0.5)), 1.0
    runs = [chain(rates, 900.0, 100 * seed + k, delay) for k in range(6)]
    by_events, by_matches = mean_of(runs, "by_events"), mean_of(runs, "by_matches")
    assert by_events[1] == pytest.approx(event_loads(rates, delay=delay)[1], rel=0.15)
    assert by_matches[1] == pytest.approx(match_loads(rates, delay=delay)[1], rel=0.15)
    assert by_events[1] + by_matches[1] == pytest.approx(evaluation_rates(rates)[1], rel=0.15)


@pytest.mark.parametrize("place", [1, 2])
def test_loops_are_what_a_chain_of_agents_does(place):
    repeats = [(1, 1)] * (place + 2)
    repeats[place] = (1, None)
    rates = AgentRates((0.5,) * (place + 2), 6.0, (0.5,) * (place + 2), repeats=tuple(repeats))
    runs = [chain(rates, 1500.0, 7 * place + k) for k in range(6)]
    arrived, evaluated = mean_of(runs, "arrived"), mean_of(runs, "by_events")
    assert arrived[:-1] == pytest.approx(arrival_rates(rates), rel=0.15)
    assert arrived[-1] == pytest.approx(match_rate(rates), rel=0.15)
    assert evaluated[:-1] == pytest.approx(event_loads(rates), rel=0.15)
    x = 0.5 * 0.5 * 6.0
    before = arrival_rates(replace(rates, repeats=((1, 1),) * (place + 2)))[place - 1]
    # The sum of x^k (i - 2)! / (i - 2 + k)! for the agents i = 2 and i = 3.
    factor = exp(x) if place == 1 else (exp(x) - 1) / x
    assert arrival_rates(rates)[place - 1] / before == pytest.approx(factor)
    assert arrival_rates(rates, "paper")[place - 1] == inf  # x >= 1


# --- formulas by hand ---


@pytest.mark.parametrize("n", range(2, 8))
def test_closed_forms(n):
    draw = random.Random(n)
    e = [draw.uniform(0.2, 3) for _ in range(n)]
    s = [draw.uniform(0.1, 1) for _ in range(n)]
    w = draw.uniform(1, 9)
    rates = AgentRates(tuple(e), w, tuple(s))
    for i in range(2, n + 1):  # the paper's numbers
        pairs = e[0] * w ** (i - 2) * prod(e[j] * s[j] for j in range(1, i - 1))
        assert arrival_rates(rates, "paper")[i - 2] == pytest.approx(pairs)
        m = pairs / factorial(i - 2)
        assert arrival_rates(rates)[i - 2] == pytest.approx(m)
        assert match_buffer_sizes(rates)[i - 2] == pytest.approx(m * w / (i - 1))
        assert event_loads(rates)[i - 2] == pytest.approx(e[i - 1] * m * w / (i - 1))
        assert event_loads(rates, "paper")[i - 2] == pytest.approx(e[i - 1] * pairs * w)
        assert match_loads(rates, "paper")[i - 2] == pytest.approx(pairs * e[i - 1] * w)
        assert event_buffer_sizes(rates)[i - 2] == pytest.approx(e[i - 1] * w)
        sent = e[i - 1] * m * w / (i - 1) * s[i - 1]
        assert sending_rates(rates)[i - 2] == pytest.approx(sent)
        if i < n:
            assert arrival_rates(rates)[i - 1] == pytest.approx(sent)
        else:
            assert match_rate(rates) == pytest.approx(sent)


def test_loop_of_the_paper():
    """The agent behind a loop gets what arrived at the loop, once more extended."""
    rates = AgentRates((2.0, 0.1, 1.0), 4.0, (1.0, 0.5, 1.0), repeats=((1, 1), (1, None), (1, 1)))
    x = 0.1 * 0.5 * 4.0
    m_2, m_3 = arrival_rates(rates, "paper")
    assert m_2 == pytest.approx(2.0 / (1 - x)) and m_3 == pytest.approx(2.0 * x / (1 - x))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("low, high", [(1, 2), (2, 2), (2, 4), (3, None)])
def test_loop_with_limits_is_the_sum_of_sequences(low, high, model):
    """A B{low,high} C has the matches of A B C, A B B C, … of so many B."""
    b, w = (0.03, 0.6), 4.0
    rates = AgentRates((2.0, b[0], 1.5), w, (1.0, b[1], 0.5), repeats=((1, 1), (low, high), (1, 1)))
    alone = [
        AgentRates((2.0, *[b[0]] * k, 1.5), w, (1.0, *[b[1]] * k, 0.5)) for k in range(low, (high or 12) + 1)
    ]
    assert match_rate(rates, model) == pytest.approx(sum(match_rate(one, model) for one in alone))
    arriving = [
        arrival_rates(AgentRates((2.0, *[b[0]] * k, 1.5), w, (1.0, *[b[1]] * k, 0.5)), model)[-1]
        for k in range(1, (high or 12))
    ]
    assert arrival_rates(rates, model)[0] == pytest.approx(2.0 + sum(arriving))


def test_first_component_with_a_loop_has_an_agent():
    rates = AgentRates((0.5, 2.0), 4.0, 1.0, 0.5, repeats=((1, None), (1, 1)))
    assert rates.agents == (0, 1)
    x = 0.5 * 0.5 * 4.0
    # Single events, and those that go on: 0.5 (1 + x / 1 + x² / 2 + …) per second.
    assert arrival_rates(rates) == pytest.approx((0.5 * exp(x), 0.5 * exp(x)))
    bounded = replace(rates, repeats=((1, 2), (1, 1)))
    assert arrival_rates(bounded) == pytest.approx((0.5, 0.5 * (1 + x)))
    assert arrival_rates(replace(rates, repeats=((2, 2), (1, 1)))) == pytest.approx((0.5, 0.5 * x))


@pytest.mark.parametrize("model", MODELS)
def test_further_events_of_a_loop_have_a_selectivity_of_their_own(model):
    rates = AgentRates(
        (1.0, 0.4, 1.0), 2.0, (1.0, 0.9, 1.0), loop_selectivities=0.1, repeats=((1, 1), (1, 2), (1, 1))
    )
    x = 0.4 * 2.0
    second = x * 0.1 / (2 if model == "simplex" else 1)
    assert arrival_rates(rates, model) == pytest.approx((1.0 + x * 0.9, x * 0.9 * (1 + second)))


def test_passing_takes_a_share_of_complete_ones_only():
    rates = AgentRates((1.0, 1.0, 1.0), 2.0, repeats=((1, 1), (1, None), (1, 1)))
    less = replace(rates, passing=(1.0, 0.25, 1.0))
    assert arrival_rates(less)[0] == arrival_rates(rates)[0]
    assert arrival_rates(less)[1] == pytest.approx(arrival_rates(rates)[1] / 4)


def test_partners_of_the_own_partition_only():
    """Partitions divide partners, not arrivals: k keys do what k patterns do on a k-th of the events."""
    one = AgentRates((1.0, 2.0, 1.0), 3.0, (1.0, 0.5, 0.5))
    keyed = AgentRates((4.0, 8.0, 4.0), 3.0, (1.0, 0.5, 0.5), in_window=(3.0, 6.0, 3.0))
    for measure in (arrival_rates, event_loads, match_buffer_sizes, event_buffer_sizes, sending_rates):
        assert measure(keyed) == pytest.approx(tuple(4 * value for value in measure(one)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(5))
def test_units(seed, model):
    """Time in other units: 1/s become 1/min, and what is counted or kept at once stays as it is."""
    draw = random.Random(seed)
    e = tuple(draw.uniform(0.1, 1) for _ in range(4))
    rates = AgentRates(e, 2.0, (1.0, 0.5, 0.3, 0.2), repeats=((1, 1), (1, 3), (1, 1), (1, 1)))
    minutes = AgentRates(tuple(60 * rate for rate in e), 2.0 / 60, rates.selectivities, repeats=rates.repeats)
    for per_time in (arrival_rates, event_loads, match_loads, sending_rates, computation, evaluation_rates):
        assert per_time(minutes, model) == pytest.approx(tuple(60 * x for x in per_time(rates, model)))
    assert match_rate(minutes, model) == pytest.approx(60 * match_rate(rates, model))
    assert match_buffer_sizes(minutes, model) == pytest.approx(match_buffer_sizes(rates, model))
    assert event_buffer_sizes(minutes) == pytest.approx(event_buffer_sizes(rates))


def test_residence_times():
    two = AgentRates((3.0, 4.0), 10.0)
    assert event_buffer_sizes(two, delay=2.0) == (4.0 * 12.0,)
    assert event_buffer_sizes(two, "watermark", delay=2.0) == (8.0,)
    assert match_buffer_sizes(two, "paper", delay=2.0) == (3.0 * 8.0,)
    assert match_buffer_sizes(two, delay=2.0) == pytest.approx((3.0 * 8.0,))
    assert match_buffer_sizes(two, delay=20.0) == (0.0,)
    three = AgentRates((3.0, 4.0, 1.0), 10.0)
    # The second event is uniform in 10 s behind the first: the mean of (8 - u) where that is positive.
    assert match_buffer_sizes(three, delay=2.0)[1] == pytest.approx(3 * 4 * 10 * (8 * 8 / 2 / 10))
    assert match_buffer_sizes(three, delay=(0.0, 2.0))[0] == pytest.approx(3.0 * 10)
    with pytest.raises(CepError, match=r"delay: 3 values. There must be 2, one per agent"):
        match_buffer_sizes(three, delay=(0.0, 2.0, 1.0))


def test_work():
    rates = AgentRates(
        (2.0, 3.0, 5.0), 10.0, (1.0, 0.1, 0.2), evaluation_cost=7.0, lock_cost=(0, 11.0, 13.0), send_cost=17.0
    )
    assert computation(rates, "paper") == pytest.approx((2 * 7 * 3 * 2 * 10, 2 * 7 * 5 * 6 * 10))
    assert computation(rates) == pytest.approx((7 * 3 * 2 * 10, 7 * 5 * 6 * 10 / 2))
    # T_i = 4: b (e + m) T / 2 + q m'
    locks = (11 * (3 + 2) * 2 + 17 * 6, 13 * (5 + 6) * 2 + 17 * (6 * 5 * 0.2 * 10))
    assert synchronisation(rates, [2, 2], [2, 2], "paper") == pytest.approx(locks)
    # Each event locks the buffers of the match workers, each partial match those of the event workers.
    first, _ = synchronisation(rates, [1, 2], [3, 2], "paper")
    assert first == pytest.approx(11 * (3 * 3 + 2 * 1) + 17 * 6)
    loads = agent_loads(rates, [2, 2], [2, 2], "paper")
    assert loads == pytest.approx([a + b for a, b in zip(computation(rates, "paper"), locks, strict=True)])


def test_values_that_do_not_fit():
    with pytest.raises(CepError, match=r"selectivities: 2 values. There must be 3"):
        AgentRates((1.0, 1.0, 1.0), 1.0, (0.5, 0.5))
    with pytest.raises(CepError, match="at least one component"):
        AgentRates((), 1.0)
    with pytest.raises(CepError, match="model 'printed' is not known"):
        arrival_rates(FOUR, "printed")
    with pytest.raises(CepError, match="model 'printed' is not known"):
        event_loads(FOUR, "printed")
    with pytest.raises(CepError, match="removal 'eager' is not known"):
        event_buffer_sizes(FOUR, "eager")


# --- threads ---


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_allocation_invariants(seed):
    draw = random.Random(seed)
    loads = [draw.choice([0.0, 1.0, draw.random(), 100 * draw.random()]) for _ in range(draw.randint(1, 7))]
    least = draw.choice([1, 2])
    threads = least * len(loads) + draw.randint(0, 20)
    made = allocate_threads(loads, threads, least)
    assert sum(made) == threads and min(made) >= least
    for a, more in enumerate(loads):
        assert all(made[a] >= made[b] for b, less in enumerate(loads) if more > less)
        if more:
            heavier = [*loads[:a], 3 * more, *loads[a + 1 :]]
            assert allocate_threads(heavier, threads, least)[a] >= made[a]
    assert allocate_threads([2.0**-7 * load for load in loads], threads, least) == made
    shares = thread_shares(loads, threads)
    assert sum(shares) == pytest.approx(threads)
    if all(share >= least for share in shares):
        assert all(abs(n - share) < 1 for n, share in zip(made, shares, strict=True))


def test_what_is_left_goes_to_those_below_their_share():
    # 1.9 gets 2 in any case; the others deserve 3.7.
    assert allocate_threads([1.9, 3.7, 3.7, 3.7], 13) == (2, 4, 4, 3)


def test_too_few_threads():
    with pytest.raises(CepError, match=r"threads=5: 3 agents need at least 6$"):
        allocate_threads([1.0, 1.0, 1.0], 5)


@pytest.mark.parametrize("threads", range(2, 13))
def test_split_by_load(threads):
    assert split_by_load(threads, 0.0, 5.0) == (1, threads - 1)
    assert split_by_load(threads, 5.0, 0.0) == (threads - 1, 1)
    assert sum(split_by_load(threads, 2.0, 1.0)) == threads


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_pairs_to_fuse(seed):
    draw = random.Random(seed)
    loads = [float(draw.randint(0, 9)) for _ in range(draw.randint(2, 7))]
    for n in range(len(loads) // 2 + 1):
        pairs = pairs_to_fuse(loads, n)
        all_pairs = [p for p in _disjoint(len(loads), n)]
        assert pairs in all_pairs
        assert _load(loads, pairs) == min(_load(loads, p) for p in all_pairs)
    followed = {a for a in range(len(loads) - 1) if draw.random() < 0.6}
    possible = [p for n in range(len(loads)) for p in _disjoint(len(loads), n) if followed >= {*p}]
    pairs = pairs_to_fuse(loads, len(loads), followed)
    most = [p for p in possible if len(p) == max(map(len, possible))]
    assert pairs in most and _load(loads, pairs) == min(_load(loads, p) for p in most)


def _disjoint(n: int, k: int, first: int = 0):
    if k == 0:
        yield ()
    for a in range(first, n - 1):
        for rest in _disjoint(n, k - 1, a + 2) if k else ():
            yield (a, *rest)


def _load(loads, pairs):
    return sum(loads[a] + loads[a + 1] for a in pairs)


def test_loop_that_diverges_takes_what_there_is():
    rates = AgentRates((1.0, 9.0, 1.0), 60.0, repeats=((1, 1), (1, None), (1, 1)))
    assert allocate_threads(agent_loads(rates, [2, 2], [2, 2], "paper"), 9) == (5, 4)
    assert thread_shares([1.0, inf, 2.0], 6) == (0.0, 6.0, 0.0)
