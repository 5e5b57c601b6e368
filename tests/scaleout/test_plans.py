"""Routing plans: every pair meets exactly once, plans print well, and bad ones are refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.scaleout.plans import (
    LAYOUTS,
    ByKey,
    PatternState,
    ToGroup,
    ToMember,
    Traffic,
    grid_of,
    in_turn,
    join_plan,
    node_loads,
    pattern_plan,
    state_routings,
    to_all,
    window_plan,
)

STATES = [PatternState("a", "A events"), PatternState("b", "B events"), PatternState("c", "C events")]
QUERY = "PATTERN SEQ(A a, B b, C c) WITHIN 5 min"


def meetings(one, other, n: int, m: int) -> Counter:
    """Return how often each pair of items meets at a node."""
    met: Counter = Counter()
    first, second = one.sends(Traffic(n)), other.sends(Traffic(m))
    for node in range(one.n_nodes):
        met.update((i, k) for i in first.to(node).tolist() for k in second.to(node).tolist())
    return met


@pytest.mark.parametrize("groups", range(1, 5))
@pytest.mark.parametrize("members", range(1, 5))
def test_every_pair_meets_once_in_a_grid(groups, members):
    met = meetings(ToGroup(groups, members), ToMember(groups, members), 13, 11)
    assert met == Counter({(i, k): 1 for i in range(13) for k in range(11)})
    feeds = join_plan(groups * members, "grouped", groups=groups).stages[0].feeds
    assert meetings(*(feed.routing for feed in feeds), 9, 7) == Counter(
        {(i, k): 1 for i in range(9) for k in range(7)}
    )


@pytest.mark.parametrize("groups", range(2, 5))
@pytest.mark.parametrize("members", range(1, 5))
def test_the_printed_routing_loses_pairs_and_doubles_others(groups, members):
    events, matches = state_routings("grouped", groups * members, groups, printed=True)
    met = meetings(events, matches, 12, 12)
    assert set(met.values()) == {members}
    assert len(met) == 12 * 12 / groups  # with two groups, half of the pairs never meet
    made = pattern_plan(STATES, groups * members, "grouped", groups=groups, printed=True)
    assert not made.is_exact and "not exact" in str(made)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("nodes", range(1, 9))
def test_every_layout_lets_each_pair_meet_once(layout, nodes):
    events, matches = state_routings(layout, nodes)
    if layout == "keys":
        key = np.arange(20) % 6
        node = events.sends(Traffic(20, key)).node
        assert all(len(set(node[key == k])) == 1 for k in range(6))
        assert np.array_equal(node, matches.sends(Traffic(20, key)).node)
        return
    assert set(meetings(events, matches, 10, 10).values()) == {1}
    assert len(meetings(events, matches, 10, 10)) == 100


@pytest.mark.parametrize("nodes", range(1, 9))
def test_joins_meet_once_whichever_side_is_small(nodes):
    for small in ("left", "right"):
        feeds = join_plan(nodes, "replicated", small=small).stages[0].feeds
        met = meetings(*(feed.routing for feed in feeds), 8, 8)
        assert met == Counter({(i, k): 1 for i in range(8) for k in range(8)})


@pytest.mark.parametrize(
    "routing",
    [in_turn(1), in_turn(5), to_all(3), ToGroup(3, 2), ToMember(3, 2), ToGroup(1, 4), ToMember(4, 1)],
)
def test_the_share_of_a_node_is_what_it_gets(routing):
    sent = routing.sends(Traffic(6000))
    assert sent.node.max() == routing.n_nodes - 1
    for node in range(routing.n_nodes):
        assert abs(len(sent.to(node)) / 6000 - routing.share) < 1e-9
        assert (np.diff(sent.to(node)) > 0).all()


def test_grids_are_as_square_as_possible():
    assert [grid_of(n) for n in range(1, 10)] == [
        (1, 1), (1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (1, 7), (2, 4), (3, 3)
    ]  # fmt: skip


def test_heartbeats_reach_every_node_of_a_window():
    rates = {"events": 1000.0, "left": 1000.0, "right": 400.0}
    window = cep.plan(cep.Window(length=5), nodes=4).bandwidth(rates)
    assert window["per_node"].tolist() == [250.0, 1000.0]
    assert window["stream"].tolist() == ["events", "number and time of events"]
    join = cep.plan(cep.Join(cep.Window(length=40), cep.Window(length=5), on="k"), nodes=4).bandwidth(rates)
    assert join["per_node"].tolist() == [250.0, 1000.0, 400.0, 400.0]


def test_plans_are_values():
    made = cep.plan(QUERY, nodes=4, event_type="kind", order_by="ts")
    assert made == cep.plan(QUERY, nodes=4, event_type="kind", order_by="ts")
    assert hash(made) == hash(cep.plan(QUERY, nodes=4, event_type="kind", order_by="ts"))
    with pytest.raises(FrozenInstanceError):
        made.title = "other"


def test_the_plan_of_the_thesis_query_of_frauds():
    query = (
        "PATTERN SEQ(Card a, Card b, Card c) WHERE a.amount < 100 AND b.amount < 100 AND c.amount > 10000 "
        "AND b.card = a.card AND c.card = a.card WITHIN 1 day"
    )
    made = cep.plan(query, nodes=2, layout="replicated", event_type="kind", order_by="ts")
    assert [stage.name for stage in made.stages] == ["a", "b", "c"]
    assert [str(feed.routing.words()) for feed in made.stages[1].feeds] == [
        "to all 2 nodes", "in turn to 2 nodes"
    ]  # fmt: skip
    assert made.stages[2].feeds[0].stream == "Card events with c.amount > 10000"
    rates = {feed.stream: 1000.0 for stage in made.stages for feed in stage.feeds}
    assert made.bandwidth(rates)["per_node"].tolist() == [500.0, 1000.0, 500.0, 1000.0, 500.0]


def test_a_partitioned_query_goes_by_key():
    made = cep.plan(QUERY, nodes=3, event_type="kind", order_by="ts", partition_by="card")
    assert made.layout == "keys"
    assert all(isinstance(feed.routing, ByKey) for stage in made.stages for feed in stage.feeds)
    rows = cep.plan("up", nodes=3, define={"up": "x > prev(x)"}, partition_by="card")
    assert isinstance(rows.stages[0].feeds[0].routing, ByKey)


def test_alternatives_have_nodes_of_their_own():
    made = cep.plan("PATTERN SEQ(A a, OR(B b, C c))", nodes=2, event_type="kind")
    assert [stage.name for stage in made.stages] == ["1: a", "1: b", "2: a", "2: c"]
    assert made.n_nodes == 8


def test_windows_and_joins_have_plans():
    window = cep.Window({"total": "sum(price)"}, time="15 s", order_by="ts")
    assert cep.plan(window, nodes=4).stages == window_plan(4).stages
    large, small = cep.Window(length=2000), cep.Window(length=20)
    assert cep.plan(cep.Join(large, small, on="symbol"), nodes=4).layout == "replicated"
    assert cep.plan(cep.Join(small, large, on="symbol"), nodes=4).stages[0].feeds[0].routing == to_all(4)
    assert cep.plan(cep.Join(large, large, on="symbol"), nodes=4).layout == "grouped"


def test_loads_are_shown_as_printed_and_as_corrected():
    made = node_loads(pattern_plan(STATES, 4, "grouped"))
    of_state = made[made["stage"] == "c"].set_index("measure")
    assert of_state.loc["input"].tolist()[-2:] == ["2λ/4", "λ/2 + μ/2"]
    assert of_state.loc["memory"].tolist()[-2:] == ["e/4", "e/2"]
    of_join = node_loads(join_plan(9, "grouped")).set_index("measure")
    assert of_join.loc["memory"].tolist()[-2:] == ["(e_A + e_B)/9", "e_A/3 + e_B/3"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cep.plan(QUERY, nodes=0, event_type="kind", order_by="ts"), "nodes=0: expected a whole"),
        (lambda: cep.plan(QUERY, nodes=2.5, event_type="kind", order_by="ts"), "nodes=2.5"),
        (lambda: cep.plan(QUERY, nodes=4, layout="replicate", event_type="kind", order_by="ts"),
         "layout 'replicate' is not known. Did you mean 'replicated'"),
        (lambda: cep.plan(QUERY, nodes=4, layout="keys", event_type="kind", order_by="ts"),
         "layout='keys' needs partition_by"),
        (lambda: cep.plan(QUERY, nodes=4, groups=3, event_type="kind", order_by="ts"),
         r"groups=3 does not divide nodes=4. Give one of \[1, 2, 4\]"),
        (lambda: cep.plan("up", nodes=4, define={"up": "x > 1"}), "without partition_by one node must see"),
        (lambda: cep.plan(cep.Window({"x": "distinct(y)"}, length=3), nodes=4),
         "distinct cannot run over several nodes: parts can share values"),
        (lambda: window_plan(4, functions=["median"]), "median cannot run over several nodes: the middle"),
        (lambda: window_plan(4, functions=["summ"]), "'summ' is not known. Did you mean 'sum'"),
        (lambda: join_plan(4, "states"), "layout 'states' is for patterns"),
        (lambda: cep.plan(cep.Window({"n": "count()"}, length=3), nodes=4, layout="keys"), "one layout"),
    ],
)  # fmt: skip
def test_bad_plans_are_refused(call, message):
    with pytest.raises((CepError, UnsupportedQueryError), match=message):
        call()
