"""The formulas of the thesis, printed and corrected, against counts of what the routings send."""

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.scaleout.plans import Traffic, join_plan, state_routings
from papers.scatter_gather import nodes as formulas


def test_garbage_takes_room_while_a_node_is_busy():
    assert formulas.usable_events(1000, 0.5, 1.0) == 500 == formulas.usable_events(1000, 0.5, 7.0)
    assert formulas.usable_events(1000, 0.5, 0.0) == 1000 == formulas.usable_events(1000, 0.0, 1.0)
    assert formulas.usable_events(formulas.capacity_for(300, 0.4, 0.7), 0.4, 0.7) == pytest.approx(300)


def test_intervals_are_a_line_in_the_nodes_and_never_exponential():
    nodes = np.array([1, 2, 4, 8, 16])
    plain = np.array([formulas.longest_interval(32_500, 1000, n) for n in nodes])
    assert np.allclose(plain, plain[0] * nodes)
    garbage = np.array([formulas.longest_interval(40_000, 1000, n, 0.5, 0.4) for n in nodes])
    gain = garbage / garbage[0] / nodes
    assert (np.diff(gain) > 0).all() and gain[0] == 1
    assert np.allclose(np.diff(garbage) / np.diff(nodes), 40)


def test_window_nodes_share_everything_but_groups():
    one, four = formulas.window_node(1000, 30_000, 1, 10), formulas.window_node(1000, 30_000, 4, 10)
    assert (four.bandwidth_in, four.work) == (one.bandwidth_in / 4, one.work / 4)
    assert four.memory - 10 == (one.memory - 10) / 4


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_loads_of_replicas_are_what_routings_send(groups, members):
    n = groups * members
    events, matches = state_routings("grouped", n, groups)
    load = formulas.grid_node(1.0, 120.0, groups, members, matches_in_hz=1.0)
    for node in range(n):
        sent = len(events.sends(Traffic(1200)).to(node)) / 1200
        taken = len(matches.sends(Traffic(1200)).to(node)) / 1200
        assert sent + taken == pytest.approx(load.bandwidth_in)
        assert 120 * taken == pytest.approx(load.memory)
        assert sent * 120 * taken + taken == pytest.approx(load.work)


@pytest.mark.parametrize("n", [1, 4, 9, 16])
def test_grids_of_joins_shrink_with_the_root_of_the_nodes(n):
    left, right = (feed.routing for feed in join_plan(n, "grouped").stages[0].feeds)
    rows, columns = formulas.square_grid(n)
    load = formulas.grid_join_node(1.0, 1.0, 720.0, 720.0, rows, columns)
    for node in range(n):
        shares = [len(routing.sends(Traffic(720)).to(node)) / 720 for routing in (left, right)]
        assert sum(shares) == pytest.approx(load.bandwidth_in)
        assert 720 * sum(shares) == pytest.approx(load.memory)
    one = formulas.grid_join_node(1.0, 1.0, 720.0, 720.0, 1, 1)
    assert one.memory / load.memory == pytest.approx(np.sqrt(n)) and one.work / load.work == pytest.approx(n)
    assert load.work == pytest.approx(2 * 720 / n)


def test_only_squares_are_square_grids():
    for n in (0, 2, 8, -1):
        with pytest.raises(CepError, match="form no square"):
            formulas.square_grid(n)


@pytest.mark.parametrize("seed", range(3))
def test_almost_all_events_go_to_every_node_under_distribution_by_time(seed):
    rng = np.random.default_rng(seed)
    time = np.sort(rng.random(20_000)) * 20
    starts = rng.random(20_000) < 0.01
    owner = rng.integers(
        0, 4, 20_000
    )  # a random node gets a start, and all events within the window after it
    load = formulas.leghari_node(1000, 10, 0.5, 4)
    begins = [time[starts & (owner == node)] for node in range(4)]
    share = np.array(
        [(np.searchsorted(own, time) > np.searchsorted(own, time - 0.5)).mean() for own in begins]
    )
    assert share.mean() == pytest.approx(load.bandwidth_in / 1000, rel=0.1)
    assert formulas.leghari_node(1000, 300, 30, 4).bandwidth_in == pytest.approx(1000)


def test_states_hold_their_own_partial_matches():
    assert formulas.grid_node(1000, 0, 2, 2).bandwidth_in == 2 * 1000 / 4
    assert formulas.state_node(10, 5, 2, 1) == formulas.NodeLoad(12, 1, 5, 52)
