"""Simulated nodes against a loop over an event queue, and runs against the formulas."""

import heapq
from dataclasses import replace

import numpy as np
import pytest

from cepkit.errors import CepError
from papers.scatter_gather import simulated
from papers.scatter_gather.formulas import naive_sums
from papers.scatter_gather.nodes import (
    ClusterSetting,
    Jobs,
    NodeKind,
    NodeLink,
    ServiceCosts,
    greatest_that_works,
    longest_interval,
    run_node,
)
from tests.support.sizes import seeds

SEEDS = range(5)
SHORT = ClusterSetting(duration_s=60.0)


def by_event_queue(jobs: Jobs, cpu: float) -> tuple[list[float], list[tuple[float, int]]]:
    """Run jobs one event after the other: return when each finishes, and (moment, held) after each."""
    queue = [(ready, number) for number, ready in enumerate(jobs.ready)]
    heapq.heapify(queue)
    free, held, finish, history = 0.0, 0, [0.0] * len(queue), []
    while queue:
        ready, number = heapq.heappop(queue)
        free = max(free, ready) + jobs.service[number] / cpu
        finish[number] = free
        held += int(jobs.change[number])
        history.append((free, held))
    return finish, history


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_is_a_server_that_takes_jobs_in_order(seed):
    rng = np.random.default_rng(seed)
    n = 400
    jobs = Jobs(
        np.round(rng.random(n) * 35, 1), rng.exponential(0.05, n), rng.choice([1, 1, -1, 0], n).astype(int)
    )
    run = run_node(jobs, NodeKind(0.5, 50.0, 0.5), 40.0)
    finish, history = by_event_queue(jobs, 0.5)
    assert np.allclose(run.finish, finish)
    for number in range(4):
        inside = [held for moment, held in history if 10 * number <= moment < 10 * number + 10]
        before = [held for moment, held in history if moment < 10 * number]
        assert run.held[number] == max([*before[-1:], *inside, 0])
        offered = jobs.service[(jobs.ready >= 10 * number) & (jobs.ready < 10 * number + 10)].sum() / 5
        assert run.utilisation[number] == pytest.approx(offered)
        assert run.usable[number] == pytest.approx(50 * (1 - 0.5 * min(1, offered)))
    bad = [10.0 * b for b in range(4) if run.held[b] > run.usable[b] or run.utilisation[b] >= 1]
    assert run.failed_at_s == (bad[0] if bad else float("inf"))


@pytest.mark.parametrize("seed", SEEDS)
def test_links_keep_the_order_and_have_their_mean(seed):
    rng = np.random.default_rng(seed)
    sent = np.arange(20_000) * 1.0  # so far apart that no pause holds up the next message
    arrival = NodeLink(mean_ms=0.3).deliver(sent, rng)
    assert (np.diff(arrival) >= 0).all() and (arrival > sent).all()
    assert (arrival - sent).mean() * 1e3 == pytest.approx(0.3, rel=0.03)
    paused = NodeLink(mean_ms=0.3, pause_share=0.1, pause_mean_ms=50.0).deliver(sent, rng)
    assert (paused - sent).mean() * 1e3 == pytest.approx(5.3, rel=0.1)
    # Pauses longer than the distance of messages hold up later ones.
    held_up = NodeLink(pause_share=0.01, pause_mean_ms=50.0).deliver(np.arange(5000) / 1000, rng)
    assert (np.diff(held_up) >= 0).all() and (np.diff(held_up) == 0).any()


def test_equal_seeds_give_equal_runs():
    one, other = (simulated.simulate_window(4, SHORT, interval_s=5.0) for _ in range(2))
    assert np.array_equal(one.received, other.received)
    third = simulated.simulate_window(4, ClusterSetting(duration_s=60.0, seed=1), interval_s=5.0)
    assert not np.array_equal(one.received, third.received)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_window_nodes_hold_an_nth_of_the_window(n):
    timed = simulated.simulate_window(n, SHORT, interval_s=10.0).stages()
    assert timed.loc[0, "held"] == pytest.approx(10_000 / n, rel=0.001)
    assert timed.loc[0, "in_hz"] == pytest.approx(1000 / n)
    assert timed.loc[0, "utilisation"] == pytest.approx(0.4 / n, rel=0.01)
    counted = simulated.simulate_window(n, SHORT, length=7_000).stages()
    assert counted.loc[0, "held"] == pytest.approx(7_000 / n, abs=1)
    assert (timed["stage"].tolist() == ["window", "gather"]) == (n > 1)


@pytest.mark.parametrize("garbage", [0.0, 0.5])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_longest_window_is_that_of_the_formula(n, garbage):
    setting = ClusterSetting(NodeKind(0.5, 3_000.0, garbage), duration_s=60.0)
    expected = longest_interval(3_000, 1000, n, garbage, 0.4)
    found = simulated.longest_window(n, setting, by="time")
    assert found == int(expected)
    assert simulated.simulate_window(n, setting, interval_s=found).works
    dead = simulated.simulate_window(n, setting, interval_s=found + 1)
    assert not dead.works and dead.throughput_hz == 0 and dead.failed_at_s <= found + 1
    costs = (20 + 20 + 160 / 3) * 2e-3
    by_length = longest_interval(3_000, 1.0, n, garbage, costs)
    assert simulated.longest_window(n, setting, by="length", step=100) == pytest.approx(by_length, abs=110)


def test_a_node_with_more_work_than_time_fails():
    slow = replace(SHORT, costs=ServiceCosts(arrival_us=600.0))
    run = simulated.simulate_window(1, slow, interval_s=1.0)
    assert run.failed_at_s == 0 and run.stages().loc[0, "utilisation"] > 1
    assert simulated.simulate_window(2, slow, interval_s=1.0).works


@pytest.mark.parametrize("seed", SEEDS)
def test_partial_matches_are_those_of_a_plain_loop(seed):
    setting = ClusterSetting(NodeKind(1.0, 1e9), rate_hz=50.0, duration_s=30.0, seed=seed)
    stream = simulated.card_stream(setting, "fraud")
    found = simulated.simulate_pattern("single", setting, stream, 2.0)
    n = len(stream.sent)
    expected = []
    for a in np.flatnonzero(stream.is_small):
        b = stream.next_small[a]
        c = stream.next_large[b] if b >= 0 else -1
        if b >= 0 and c >= 0 and stream.sent[c] <= stream.sent[a] + 2.0:
            expected.append(stream.sent[c])
    assert np.array_equal(np.sort(found.sent), np.sort(expected)) and len(expected) > 20
    assert (found.received > found.sent).all() and n == 1500
    for layout in simulated.LAYOUTS[1:]:
        other = simulated.simulate_pattern(layout, setting, stream, 2.0)
        assert np.array_equal(other.sent, found.sent)


def test_replicas_share_partial_matches_and_groups_share_events():
    setting = ClusterSetting(NodeKind(1.0, 1e9), duration_s=40.0)
    stream = simulated.card_stream(setting)
    held = {}
    for layout in simulated.LAYOUTS[1:]:
        stages = simulated.simulate_pattern(layout, setting, stream, 3.0, replicas=4).stages()
        held[layout] = stages.set_index("stage")["held"]["state 3"]
    assert held["replicated"] == pytest.approx(held["states"] / 4, rel=0.02)
    assert held["grouped"] == pytest.approx(held["states"] / 2, rel=0.02)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_join_nodes_hold_their_part(n):
    setting = ClusterSetting(NodeKind(1.0, 1e9), duration_s=20.0)
    small = simulated.simulate_join(n, setting, (2_000, 20)).stages()
    assert small.loc[0, "held"] == pytest.approx(2_000 / n + 20, abs=2)
    if n != 2:
        grid = simulated.simulate_join(n, setting, (2_000, 2_000), layout="grouped").stages()
        assert grid.loc[0, "held"] == pytest.approx(4_000 / np.sqrt(n), abs=2)
        assert grid.loc[0, "in_hz"] == pytest.approx(1000 / np.sqrt(n))


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_a_join_node_are_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    lengths = tuple(rng.integers(1, 12, 2).tolist())
    own = np.flatnonzero(rng.random(80) < 0.5)
    partners, held, _ = simulated._windows_of(own, lengths)
    for i, event in enumerate(own):
        live = [
            [
                e
                for e in own
                if e <= event and e % 2 == side and (event + 2 - side) // 2 - e // 2 <= lengths[side]
            ]
            for side in (0, 1)
        ]
        assert held[i] == len(live[0]) + len(live[1])
        assert partners[i] == len(live[1 - event % 2])


def small_windows(n: int, seed: int, link: NodeLink, *, interval_s: float = 2.0, n_groups: int = 1):
    setting = ClusterSetting(duration_s=10.0, seed=seed, gather_link=link)
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 100, 10_000).astype(float)
    group = rng.integers(0, n_groups, 10_000)
    return simulated.window_partials(n, setting, interval_s, weight, group), setting, weight


@pytest.mark.parametrize("seed", SEEDS)
def test_the_naive_gather_is_that_of_the_gather_room(seed):
    link = NodeLink(pause_share=0.01, pause_mean_ms=10.0)
    (partials, exact), setting, weight = small_windows(3, seed, link)
    moments = np.rint(setting.times() * 1000).astype(int)
    order = partials.event
    expected = naive_sums(weight, 3, window=2000, time=moments, order=order)
    found = np.empty(len(weight))
    found[order] = simulated.naive_gather(partials)
    assert np.allclose(found, expected) and not np.array_equal(order, np.arange(len(order)))
    assert exact[5000] == weight[3001:5001].sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_late_results_make_errors_and_slack_takes_them_away(seed):
    link = NodeLink(pause_share=0.005, pause_mean_ms=20.0)
    (partials, exact), setting, _ = small_windows(4, seed, link)
    plain = simulated.accuracy(partials, exact, setting, from_s=2.5)
    slack = simulated.accuracy(partials, exact, setting, from_s=2.5, slack=True)
    assert plain["wrong_share"] > slack["wrong_share"] and plain["out_of_order"] > slack["out_of_order"]
    assert slack["latency_ms"] > plain["latency_ms"] + 5
    (in_order, exact), setting, _ = small_windows(4, seed, NodeLink(sigma=0.0))
    assert simulated.accuracy(in_order, exact, setting, from_s=2.5)["wrong_share"] == 0


def test_groups_have_errors_even_in_order():
    (partials, exact), setting, _ = small_windows(4, 1, NodeLink(sigma=0.0), n_groups=20)
    assert simulated.accuracy(partials, exact, setting, from_s=2.5)["wrong_share"] > 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_of_joins_are_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 9, 60).astype(float)
    found = simulated._join_sum(np.arange(60), weight, 7)
    for event in range(60):
        left, right = ([e for e in range(event + 1) if e % 2 == side][-7:] for side in (0, 1))
        assert found[event] == sum(weight[a] for a in left for _ in right)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_bisection_finds_the_last_number_that_works(seed):
    rng = np.random.default_rng(seed)
    most, limit = 1000, int(rng.integers(0, 1100))
    guess = int(rng.integers(1, 1000))
    assert greatest_that_works(lambda k: k <= limit, guess, most) == min(limit, most)
    assert greatest_that_works(lambda k: k <= limit, max(1, limit), most) == min(limit, most)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulated.simulate_window(2, SHORT), "give either interval_s or length"),
        (lambda: simulated.simulate_window(2, SHORT, interval_s=1.0, length=1), "give either"),
        (lambda: NodeKind(cpu=0), "must be above 0"),
        (lambda: NodeKind(garbage_share=1.0), "garbage_share"),
        (lambda: ServiceCosts(probe_us=-1), "no cost can be below 0"),
    ],
)
def test_settings_that_make_no_sense(call, message):
    with pytest.raises(CepError, match=message):
        call()
