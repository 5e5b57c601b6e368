"""Time and length windows over n nodes in virtual time."""

from __future__ import annotations

import numpy as np

from cepkit.errors import CepError
from cepkit.scaleout.model.windows import longest_interval
from cepkit.scaleout.plan.routing import Deliveries, Routing, Traffic
from cepkit.scaleout.plan.windows import window_plan
from cepkit.scaleout.simulation.nodes import ClusterSetting, Jobs, equal_jobs, joined, run_node
from cepkit.scaleout.simulation.runs import SimulatedNode, SimulatedRun, greatest_that_works

WINDOW, GATHER = "window", "gather"


def simulate_window(
    n_nodes: int, setting: ClusterSetting, *, interval_s: float | None = None, length: int | None = None
) -> SimulatedRun:
    """Simulate a window over ``n_nodes`` window nodes, and a gather if there are several.

    In a time window, a timer makes a job of each expiry. In a length window, the expiry is a part of the
    arrival, so it costs no job of its own.
    """
    if (interval_s is None) == (length is None):
        raise CepError("simulate_window: give either interval_s or length")
    sent = setting.times()
    routing = window_plan(n_nodes).stages[0].feeds[0].routing
    rngs = np.random.default_rng([setting.seed, n_nodes]).spawn(2 * n_nodes + 1)
    finished, nodes = window_nodes(routing, sent, setting, rngs, interval_s=interval_s, length=length)
    if n_nodes == 1:
        received = setting.link.deliver(finished, rngs[-1])
        return SimulatedRun(tuple(nodes), sent, received, setting.duration_s)
    arrival = at_gather(routing.sends(Traffic(len(sent))), finished, setting, rngs[n_nodes:])
    costs = setting.costs
    merged = run_node(equal_jobs(arrival, costs.merge_us + costs.emit_us), setting.node, setting.duration_s)
    nodes.append(SimulatedNode(GATHER, merged, setting.rate_hz, setting.rate_hz))
    received = merged.finish + setting.link.mean_ms / 1e3
    return SimulatedRun(tuple(nodes), sent, received, setting.duration_s)


def window_nodes(
    routing: Routing, sent: np.ndarray, setting: ClusterSetting, rngs: list[np.random.Generator], *,
    interval_s: float | None, length: int | None,
) -> tuple[np.ndarray, list[SimulatedNode]]:  # fmt: skip
    """Return when the partial result of each event is ready at its node, and the nodes."""
    costs, finished, nodes = setting.costs, np.empty(len(sent)), []
    deliveries = routing.sends(Traffic(len(sent)))
    for node in range(routing.n_nodes):
        own = deliveries.to(node)
        ready = setting.link.deliver(sent[own], rngs[node])
        if interval_s is not None:
            due = sent[own] + interval_s
            due = np.maximum(due[due < setting.duration_s], ready[: (due < setting.duration_s).sum()])
            arrivals = equal_jobs(ready, costs.arrival_us + costs.emit_us, 1)
            jobs = joined(arrivals, equal_jobs(due, costs.expiry_us, -1))
        else:
            jobs = _length_jobs(ready, own, int(length or 0), setting)
        run = run_node(jobs, setting.node, setting.duration_s)
        finished[own] = run.finish[: len(own)]
        rate = setting.rate_hz * routing.share
        nodes.append(SimulatedNode(WINDOW, run, rate, rate))
    return np.maximum(finished, sent), nodes


def at_gather(
    deliveries: Deliveries, finished: np.ndarray, setting: ClusterSetting, rngs: list[np.random.Generator]
) -> np.ndarray:
    """Return when the gather gets the partial result of each delivery; ``finished`` is by delivery, too."""
    arrival = np.empty(len(finished))
    for node in range(int(deliveries.node.max(initial=-1)) + 1):
        own = np.flatnonzero(deliveries.node == node)
        arrival[own] = setting.gather_link.deliver(finished[own], rngs[node])
    return arrival


def _length_jobs(ready: np.ndarray, position: np.ndarray, length: int, setting: ClusterSetting) -> Jobs:
    """Return the jobs of a node that holds those of the last ``length`` events that are its own."""
    kept_from = np.searchsorted(position, position - length, "right")
    held = np.arange(1, len(position) + 1) - kept_from
    change = np.diff(held, prepend=0)
    costs = setting.costs
    # A third of the cost of a timer: no thread wakes up.
    service = costs.arrival_us + costs.emit_us + (1 - change) * costs.expiry_us / 3
    return equal_jobs(ready, service, change)


def longest_window(n_nodes: int, setting: ClusterSetting, *, by: str, step: int = 1) -> int:
    """Return the longest time window in seconds (``by="time"``), or length window (``by="length"``).

    ``step`` is the resolution, in seconds or events. The search begins at the value of the formula.

    """
    node, costs = setting.node, setting.costs
    per_event = costs.arrival_us + costs.emit_us + (costs.expiry_us if by == "time" else costs.expiry_us / 3)
    utilisation = setting.rate_hz * per_event / 1e6 / node.cpu
    expected = longest_interval(
        node.capacity_events,
        setting.rate_hz if by == "time" else 1.0,
        n_nodes,
        node.garbage_share,
        utilisation,
    )
    name = "interval_s" if by == "time" else "length"
    longest = setting.duration_s if by == "time" else setting.duration_s * setting.rate_hz
    return step * greatest_that_works(
        lambda k: simulate_window(n_nodes, setting, **{name: k * step}).works,
        int(expected / step),
        max(1, int(longest / step)),
    )
