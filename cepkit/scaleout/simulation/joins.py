"""Joins of two length windows over nodes in virtual time. All events match, as in the thesis."""

from __future__ import annotations

import numpy as np

from cepkit.scaleout.model.joins import longest_large_window, longest_of_two_windows, square_grid
from cepkit.scaleout.plan.joins import join_plan
from cepkit.scaleout.plan.routing import Routing, Traffic
from cepkit.scaleout.simulation.nodes import ClusterSetting, equal_jobs, run_node
from cepkit.scaleout.simulation.runs import SimulatedNode, SimulatedRun, greatest_that_works

JOIN, GATHER = "join", "gather"


def join_routings(n_nodes: int, layout: str) -> tuple[Routing, Routing]:
    """Return how left and right events go to join nodes: ``"replicated"``, or ``"grouped"`` in a square."""
    groups = square_grid(n_nodes)[0] if layout == "grouped" else None
    left, right = join_plan(n_nodes, layout, groups=groups).stages[0].feeds
    return left.routing, right.routing


def events_of_nodes(n_events: int, routings: tuple[Routing, Routing]) -> list[np.ndarray]:
    """Return the events of each node, rising. Even events of the stream are left ones, odd ones right."""
    left, right = (
        routing.sends(Traffic((n_events + 1 - side) // 2)) for side, routing in enumerate(routings)
    )
    n_nodes = routings[0].n_nodes
    return [np.sort(np.concatenate([2 * left.to(node), 2 * right.to(node) + 1])) for node in range(n_nodes)]


def simulate_join(
    n_nodes: int, setting: ClusterSetting, lengths: tuple[int, int], *, layout: str = "replicated"
) -> SimulatedRun:
    """Simulate a join of two length windows over ``n_nodes`` join nodes, and a gather if there are several.

    An event is compared with all events of the other window at its node, and so is an event that leaves.
    """
    sent = setting.times()
    routings = join_routings(n_nodes, layout)
    of_node = events_of_nodes(len(sent), routings)
    rngs = np.random.default_rng([setting.seed, n_nodes]).spawn(2 * n_nodes + 1)
    finished, nodes, costs = [], [], setting.costs
    for node, own in enumerate(of_node):
        partners, held, n_left = _windows_of(own, lengths)
        probes = partners * (1 + n_left)
        ready = setting.link.deliver(sent[own], rngs[node])
        service = costs.arrival_us + costs.emit_us + costs.probe_us * probes
        run = run_node(equal_jobs(ready, service, np.diff(held, prepend=0)), setting.node, setting.duration_s)
        finished.append(run.finish)
        rate = len(own) / setting.duration_s
        nodes.append(SimulatedNode(JOIN, run, rate, rate))
    if n_nodes == 1:
        received = setting.link.deliver(finished[0], rngs[-1])
        return SimulatedRun(tuple(nodes), sent, received, setting.duration_s)
    arrival = np.concatenate(
        [setting.gather_link.deliver(of, rng) for of, rng in zip(finished, rngs[n_nodes:], strict=False)]
    )
    merged = run_node(equal_jobs(arrival, costs.merge_us), setting.node, setting.duration_s)
    rate = len(arrival) / setting.duration_s
    nodes.append(SimulatedNode(GATHER, merged, rate, setting.rate_hz))
    last = last_of_events(len(sent), of_node, merged.finish)
    received = last + (costs.emit_us / setting.node.cpu) / 1e6 + setting.link.mean_ms / 1e3
    return SimulatedRun(tuple(nodes), sent, received, setting.duration_s)


def last_of_events(n_events: int, of_node: list[np.ndarray], finish: np.ndarray) -> np.ndarray:
    """Return when the last message of each event is done; ``finish`` is by node, then by event."""
    item = np.concatenate(of_node)
    order = np.argsort(finish, kind="stable")
    last = np.zeros(n_events)
    last[item[order]] = finish[order]  # of several messages of an event, the last one stays
    return last


def _windows_of(own: np.ndarray, lengths: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each of a node's events: events in the other window, events in both, events that left."""
    side, rank = own % 2, own // 2
    live = []
    for which, length in enumerate(lengths):
        mine = rank[side == which]
        seen = (own + 2 - which) // 2  # events of this side so far, at all nodes
        live.append(np.searchsorted(mine, seen) - np.searchsorted(mine, seen - length))
    partners = np.where(side == 0, live[1], live[0])
    held = live[0] + live[1]
    left = np.maximum(0, 1 - np.diff(held, prepend=0))
    return partners, held, left


def longest_join(
    n_nodes: int, setting: ClusterSetting, *, small: int | None = None, layout: str = "replicated",
    step: int = 1,
) -> int:  # fmt: skip
    """Return the longest window in events: the left one beside ``small`` right events, or both if None.

    ``step`` is the resolution. The search begins at the value of the formulas.

    """
    node, costs = setting.node, setting.costs
    capacity, half_rate = node.capacity_events, setting.rate_hz / 2
    if small is None:
        per_event = (costs.arrival_us + costs.emit_us) / 1e6
        rest = max(0.0, node.cpu - setting.rate_hz / square_grid(n_nodes)[0] * per_event)
        pairs = rest / (2e-6 * costs.probe_us) if costs.probe_us else float("inf")
        guess = longest_of_two_windows(
            capacity_events=capacity, pairs_per_s=pairs, rate_hz=half_rate, n_nodes=n_nodes
        )
    else:
        guess = longest_large_window(capacity, small, n_nodes)
    longest = int(setting.duration_s * setting.rate_hz / 2)
    return step * greatest_that_works(
        lambda k: simulate_join(n_nodes, setting, (k * step, small or k * step), layout=layout).works,
        max(1, int(guess) // step), max(1, longest // step),
    )  # fmt: skip
