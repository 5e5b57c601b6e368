"""Nodes as formulas (bandwidth, memory and work per node of n) and in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, isqrt

import numpy as np
import pandas as pd

from cepkit.errors import CepError

# The load of one node, and how much of its memory it can use.


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What one node gets, sends, holds and does, without constant factors."""

    # bandwidth_in, bandwidth_out: events per second
    bandwidth_in: float
    bandwidth_out: float
    memory: float  # events, partial matches or partial results that it holds
    work: float  # steps per second: arrivals, and pairs that it compares


MEASURES = {
    "bandwidth_in": "input, events/s",
    "bandwidth_out": "output, events/s",
    "memory": "memory, events",
    "work": "work, steps/s",
}


def usable_events(capacity_events: float, garbage_share: float, utilisation: float) -> float:
    """Return how many events fit beside the garbage of a busy node: C (1 - γ u), which the thesis lacks."""
    return capacity_events * (1 - garbage_share * min(utilisation, 1.0))


def capacity_for(usable: float, garbage_share: float, utilisation: float) -> float:
    """Return the capacity with which a node can hold ``usable`` events at this utilisation."""
    return usable / (1 - garbage_share * min(utilisation, 1.0))


# Joins of two windows over n nodes: λ events per second, e events in a window, of each side.


def grid_join_node(
    left_hz: float, right_hz: float, n_left: float, n_right: float, rows: int, columns: int
) -> NodeLoad:
    """Return the load of a node of a grid: a row has a part of the left window, a column of the right one."""
    left_in, right_in = left_hz / rows, right_hz / columns
    left, right = n_left / rows, n_right / columns
    return NodeLoad(left_in + right_in, left_in + right_in, left + right, left_in * right + right_in * left)


def square_grid(n_nodes: int) -> tuple[int, int]:
    """Return the square grid of ``n_nodes`` nodes. The thesis says "power of two" and uses 4 and 9."""
    side = isqrt(max(0, n_nodes))
    if side < 1 or side * side != n_nodes:
        raise CepError(f"square_grid: {n_nodes} nodes form no square. Give 1, 4, 9 or another square")
    return side, side


# Patterns over n nodes: λ events per second and stream, s states, window of t seconds.


def state_node(
    rate_hz: float, waiting: float, matches_in_hz: float = 0.0, matches_out_hz: float = 0.0
) -> NodeLoad:
    """Return the load of the node of one state, which compares events with all waiting partial matches."""
    return NodeLoad(rate_hz + matches_in_hz, matches_out_hz, waiting, rate_hz * waiting + matches_in_hz)


def grid_node(
    rate_hz: float,
    waiting: float,
    groups: int,
    members: int,
    matches_in_hz: float = 0.0,
    matches_out_hz: float = 0.0,
) -> NodeLoad:
    """Return the load of one of ``groups`` x ``members`` replicas of a state. One group is figure 3.4."""
    # An event goes to one group, and a partial match to one member of each group.
    matches = matches_in_hz / members
    n_nodes = groups * members
    return NodeLoad(
        rate_hz / groups + matches, matches_out_hz / n_nodes, waiting / members,
        rate_hz * waiting / n_nodes + matches,
    )  # fmt: skip


def leghari_node(rate_hz: float, start_rate_hz: float, interval_s: float, n_nodes: int) -> NodeLoad:
    """Return the load of a node if a start and its window go to a random node (Leghari et al., 2014)."""
    # A node gets an event if one of its starts, a Poisson process with rate λ₁/n, is in the window before it.
    share = 1 - exp(-start_rate_hz * interval_s / n_nodes)
    memory = start_rate_hz * interval_s / n_nodes
    return NodeLoad(rate_hz * share, 0.0, memory, rate_hz * share * memory)


# Windows over n nodes: λ events per second, e events in the window, g groups.


def window_node(rate_hz: float, n_events: float, n_nodes: int, n_groups: int = 1) -> NodeLoad:
    """Return the load of one of ``n_nodes`` window nodes: Θ(λ/n), Θ(λ/n), Θ(e/n + g), Θ(λ/n)."""
    # Tables 2.2 and 3.1 of the thesis lack g. Its section 5 counts the gather as a node, and n does not.
    node_rate_hz = rate_hz / n_nodes
    return NodeLoad(node_rate_hz, node_rate_hz, n_events / n_nodes + n_groups, 2 * node_rate_hz)


def longest_interval(
    capacity_events: float, rate_hz: float, n_nodes: int, garbage_share: float = 0.0, utilisation: float = 0.0
) -> float:
    """Return the longest time window in seconds that ``n_nodes`` window nodes can hold."""
    # λ t / n ≤ C (1 - γ u / n), so t = (n - γ u) C / λ. This is a line in n.
    return usable_events(capacity_events, garbage_share, utilisation / n_nodes) * n_nodes / rate_hz


# A node in virtual time: one server, limited memory, and the links to it. No clock of the machine is read.
#
# A job has a moment when it is ready, a service time, and the change of the number of held events. The server
# takes jobs in the order of readiness. This gives the moments of all steps by two passes over arrays, and no
# queue of events is needed. The tests compare them with a loop over an event queue.

BIN_S = 10.0  # memory and utilisation are looked at once in such a time


@dataclass(frozen=True, slots=True)
class NodeKind:
    """The hardware of a node."""

    cpu: float = 0.5  # share of a virtual CPU; service times are those of a whole one
    capacity_events: float = 32_500.0  # C: events or partial matches that fit into its memory without garbage
    # Γ: share of the memory that garbage takes in a node that is always busy, from 0 to 1.
    garbage_share: float = 0.0

    def __post_init__(self) -> None:
        if not self.cpu > 0 or not self.capacity_events > 0 or not 0 <= self.garbage_share < 1:
            raise CepError(
                f"{self}: cpu and capacity_events must be above 0, garbage_share from 0 to below 1"
            )


@dataclass(frozen=True, slots=True)
class ServiceCosts:
    """Service times in microseconds of a whole CPU."""

    # arrival_us, expiry_us, probe_us, emit_us, merge_us: for an event that arrives, an event that leaves the
    # window, a pair that is compared, a result that is sent, and a partial result that the gather merges
    arrival_us: float = 20.0
    expiry_us: float = 160.0
    probe_us: float = 0.05
    emit_us: float = 20.0
    merge_us: float = 20.0

    def __post_init__(self) -> None:
        if min(self.arrival_us, self.expiry_us, self.probe_us, self.emit_us, self.merge_us) < 0:
            raise CepError(f"{self}: no cost can be below 0")


@dataclass(frozen=True, slots=True)
class NodeLink:
    """A connection that keeps the order of its messages."""

    mean_ms: float = 0.08  # mean latency; the latencies are log-normal
    sigma: float = 0.4  # standard deviation of the logarithm
    # Share of the messages before which the sender pauses. Later messages wait, too.
    pause_share: float = 0.0
    pause_mean_ms: float = 15.0  # mean of the pauses, which are exponential

    def deliver(self, sent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return when messages arrive, in seconds. ``sent`` does not fall, and neither does the result."""
        n = len(sent)
        scale = np.log(self.mean_ms / 1e3) - self.sigma**2 / 2 if self.mean_ms > 0 else -np.inf
        delay = np.exp(scale + self.sigma * rng.standard_normal(n))
        if self.pause_share > 0:
            pauses = rng.random(n) < self.pause_share
            delay += np.where(pauses, rng.exponential(self.pause_mean_ms / 1e3, n), 0.0)
        return np.maximum.accumulate(sent + delay)


@dataclass(frozen=True, slots=True)
class ClusterSetting:
    """Everything that a simulation needs besides the query: the nodes, the costs, the links and the time."""

    node: NodeKind = NodeKind()
    costs: ServiceCosts = ServiceCosts()
    link: NodeLink = NodeLink()  # from the publisher to the nodes, between states, and to the consumer
    # From each node to the gather. Pauses here bring partial results out of order.
    gather_link: NodeLink = NodeLink(pause_share=0.001, pause_mean_ms=20.0)
    rate_hz: float = 1_000.0  # events per second of all streams together
    duration_s: float = 1_200.0  # simulated time
    seed: int = 0  # seed of latencies and workloads

    def times(self) -> np.ndarray:
        """Return when the publisher sends the events, in seconds."""
        return np.arange(int(self.rate_hz * self.duration_s)) / self.rate_hz

    def with_node(self, **changes: float) -> ClusterSetting:
        """Return this setting with other hardware."""
        return replace(self, node=replace(self.node, **changes))


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs of a node, in any order."""

    ready: np.ndarray  # float64, (n_jobs,): moments in seconds
    service: np.ndarray  # float64, (n_jobs,): seconds of a whole CPU
    change: np.ndarray  # int64, (n_jobs,): how many more events the node holds after the job


@dataclass(frozen=True, slots=True)
class NodeRun:
    """What one node did."""

    finish: np.ndarray  # float64, (n_jobs,): when each job was finished, in the order of the jobs
    # float64, (n_bins,): offered work over available time in each bin; 1 and more is overload
    utilisation: np.ndarray
    held: np.ndarray  # int64, (n_bins,): the most events that the node held in each bin
    usable: np.ndarray  # float64, (n_bins,): how many it could hold

    @property
    def failed_at_s(self) -> float:
        """When the node fails: its memory is full, or it has more work than time. Infinite if never."""
        bad = np.flatnonzero((self.held > self.usable) | (self.utilisation >= 1))
        return float(bad[0] * BIN_S) if len(bad) else float("inf")


def serve(ready: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Return when a server finishes jobs: finish_i = max(ready_i, finish_(i-1)) + service_i."""
    done = np.cumsum(service)
    return done + np.maximum.accumulate(ready - (done - service))


def run_node(jobs: Jobs, kind: NodeKind, duration_s: float) -> NodeRun:
    """Return what a node does with its jobs until ``duration_s``; equally ready ones run in their order."""
    order = np.argsort(jobs.ready, kind="stable")
    ready, service = jobs.ready[order], jobs.service[order] / kind.cpu
    finished = serve(ready, service)
    n_bins = max(1, int(np.ceil(duration_s / BIN_S - 1e-9)))
    width = np.minimum(BIN_S, duration_s - BIN_S * np.arange(n_bins))  # the last bin can be shorter
    utilisation = np.bincount(_bin(ready, n_bins), service, minlength=n_bins + 1)[:n_bins] / width
    held = np.cumsum(jobs.change[order])
    most = np.zeros(n_bins, np.int64)
    bins = _bin(finished, n_bins)
    first = np.searchsorted(bins, np.arange(n_bins + 1))
    for b in range(n_bins):  # a bin without jobs holds what the bin before held at its end
        before = held[first[b] - 1] if first[b] else 0
        most[b] = max(before, held[first[b] : first[b + 1]].max(initial=0))
    usable = np.array([usable_events(kind.capacity_events, kind.garbage_share, u) for u in utilisation])
    finish = np.empty(len(order))
    finish[order] = finished
    return NodeRun(finish, utilisation, most, usable)


def _bin(moment: np.ndarray, n_bins: int) -> np.ndarray:
    return np.minimum((moment / BIN_S).astype(np.int64), n_bins)


def joined(*parts: Jobs) -> Jobs:
    """Return several groups of jobs as one."""
    ready, service, change = zip(*((part.ready, part.service, part.change) for part in parts), strict=True)
    return Jobs(np.concatenate(ready), np.concatenate(service), np.concatenate(change))


def equal_jobs(ready: np.ndarray, service_us: float | np.ndarray, change: int | np.ndarray = 0) -> Jobs:
    """Return jobs with one service time, in microseconds, and one change of memory."""
    n = len(ready)
    return Jobs(
        ready,
        np.broadcast_to(np.asarray(service_us, np.float64) / 1e6, (n,)),
        np.broadcast_to(np.asarray(change, np.int64), (n,)),
    )


# The result of a simulated run: its nodes, the latency of its results, and when it fails.


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One node of a run: its stage, and its messages per second."""

    stage: str
    run: NodeRun
    # in_hz, out_hz: messages per second that reach it and that it sends
    in_hz: float
    out_hz: float


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A simulated deployment."""

    nodes: tuple[SimulatedNode, ...]
    # sent, received: float64, (n_results,): when the publisher sent the event of each result, and when the
    # consumer received the result
    sent: np.ndarray
    received: np.ndarray
    duration_s: float  # simulated time

    @property
    def failed_at_s(self) -> float:
        """When the first node fails; infinite if none does."""
        return min(node.run.failed_at_s for node in self.nodes)

    @property
    def works(self) -> bool:
        """Whether no node fails."""
        return np.isinf(self.failed_at_s)

    @property
    def mean_latency_ms(self) -> float:
        """Mean time from publisher to consumer; NaN without results."""
        return float((self.received - self.sent).mean() * 1e3) if len(self.sent) else float("nan")

    @property
    def throughput_hz(self) -> float:
        """Results per second in the last tenth of the run; 0 after a failure."""
        if not self.works:
            return 0.0
        last = self.sent >= 0.9 * self.duration_s
        return float(last.sum() / (0.1 * self.duration_s))

    def input_hz(self, stage: str) -> float:
        """Return the messages per second that reach a node of a stage, on average."""
        return float(np.mean([node.in_hz for node in self.nodes if node.stage == stage]))

    def stages(self) -> pd.DataFrame:
        """Return means over the nodes of each stage."""
        rows = []
        for stage in dict.fromkeys(node.stage for node in self.nodes):
            stage_nodes = [node for node in self.nodes if node.stage == stage]
            last = len(stage_nodes[0].run.held) * 4 // 5
            rows.append(
                {
                    "stage": stage,
                    "nodes": len(stage_nodes),
                    "in_hz": np.mean([node.in_hz for node in stage_nodes]),
                    "out_hz": np.mean([node.out_hz for node in stage_nodes]),
                    "utilisation": np.mean([node.run.utilisation[last:].mean() for node in stage_nodes]),
                    "held": np.mean([node.run.held[last:].mean() for node in stage_nodes]),
                }
            )
        return pd.DataFrame(rows)


def greatest_that_works(works: Callable[[int], bool], guess: int, most: int = 1_000_000) -> int:
    """Return the greatest whole number that works, by bisection; 0 if 1 does not work."""
    low, high = 0, most + 1  # low works, high does not
    at, step = min(max(1, guess), most), 1
    while high - low > 1:
        if works(at):
            low = at
            at = min(at + step, high - 1) if high > most else (low + high) // 2
        else:
            high = at
            at = max(at - step, low + 1) if low == 0 else (low + high) // 2
        step *= 2
        at = min(max(at, low + 1), high - 1)
    return low
