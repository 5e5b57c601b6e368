"""The naive gather, with and without K-Slack, in virtual time: order, latency and error of its results.

The gather of the thesis keeps the newest partial result of every node and group. Partial results that come
out of order make it wrong, because they belong to different moments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.scaleout.k_slack import SlackBuffer, order_metrics
from cepkit.scaleout.nodes import ClusterSetting, equal_jobs, run_node
from cepkit.scaleout.routing import RoundRobin, Traffic
from cepkit.scaleout.simulated import at_gather, events_of_nodes, join_routings, simulate_join, window_nodes


@dataclass(frozen=True, slots=True)
class ArrivingPartials:
    """Partial results in the order in which they reach the gather."""

    event: np.ndarray  # int64, (n,): the number of the event that each belongs to
    # int64, (n,): its node and group as one number; a new partial result replaces the one before it
    source: np.ndarray
    group: np.ndarray  # int64, (n,): its group
    value: np.ndarray  # float64, (n,): the sum of a part
    # arrival, sent: float64, (n,): when it reaches the gather, and when the publisher sent the event; in
    # seconds
    arrival: np.ndarray
    sent: np.ndarray

    def reordered(self, order: np.ndarray, released: np.ndarray) -> ArrivingPartials:
        """Return them in another order, with the moments at which a stage in between releases them."""
        return ArrivingPartials(
            self.event[order], self.source[order], self.group[order], self.value[order],
            released[order], self.sent[order],
        )  # fmt: skip


def slack_order(time: np.ndarray, arrival: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order in which K-Slack with a growing K releases items, and when it releases each."""
    buffer, order = SlackBuffer(), []
    released = np.empty(len(time))
    for now, moment in zip(time.tolist(), arrival.tolist(), strict=True):
        out = buffer.push(now)
        released[out] = moment
        order += out
    last = buffer.flush()
    released[last] = arrival[-1] if len(arrival) else 0.0
    return np.array([*order, *last], np.int64), released


def window_partials(
    n_nodes: int, setting: ClusterSetting, interval_s: float, weight: np.ndarray, group: np.ndarray
) -> tuple[ArrivingPartials, np.ndarray]:
    """Return the partial sums of a time window, and the sum of a single node at each event.

    Each node expires its events by the time of its own newest event, as in the thesis.

    """
    sent = setting.times()
    exact = _running_sum(sent, weight, group, interval_s)
    routing = RoundRobin(n_nodes)
    rngs = np.random.default_rng([setting.seed, n_nodes]).spawn(2 * n_nodes)
    finished, _ = window_nodes(routing, sent, setting, rngs, interval_s=interval_s, length=None)
    deliveries = routing.sends(Traffic(len(sent)))
    arrival = at_gather(deliveries, finished, setting, rngs[n_nodes:])
    value = np.empty(len(sent))
    for node in range(n_nodes):
        events = deliveries.to(node)
        value[events] = _running_sum(sent[events], weight[events], group[events], interval_s)
    source = deliveries.node * (int(group.max(initial=0)) + 1) + group
    partials = ArrivingPartials(np.arange(len(sent)), source, group, value, arrival, sent)
    order = np.argsort(arrival, kind="stable")
    return partials.reordered(order, arrival), exact


def join_partials(
    n_nodes: int, setting: ClusterSetting, length: int, weight: np.ndarray
) -> tuple[ArrivingPartials, np.ndarray]:
    """Return the partial sums of a join of two windows on a grid, and the sum of a single node.

    The sum is that of the left weights of all pairs. A node knows only the numbers of its own events.

    """
    sent = setting.times()
    of_node = events_of_nodes(len(sent), join_routings(n_nodes, "grouped"))
    everything = np.arange(len(sent))
    exact = _join_sum(everything, weight, length)
    run = simulate_join(n_nodes, setting, (length, length), layout="grouped")
    rngs = np.random.default_rng([setting.seed, n_nodes]).spawn(2 * n_nodes + 1)[n_nodes:]
    parts = []
    for node, events in enumerate(of_node):
        arrival = setting.gather_link.deliver(run.nodes[node].run.finish, rngs[node])
        parts.append(
            ArrivingPartials(
                events, np.full(len(events), node), np.zeros(len(events), np.int64),
                _join_sum(events, weight, length), arrival, sent[events],
            )
        )  # fmt: skip
    names = ("event", "source", "group", "value", "arrival", "sent")
    partials = ArrivingPartials(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    order = np.lexsort((partials.event, partials.arrival))
    return partials.reordered(order, partials.arrival), exact


def _running_sum(sent: np.ndarray, weight: np.ndarray, group: np.ndarray, interval_s: float) -> np.ndarray:
    """Return for each event the sum of its group over the window that ends with it: ts > now - W."""
    sums = np.empty(len(sent))
    for g in np.unique(group):
        members = np.flatnonzero(group == g)
        total = np.concatenate([[0.0], np.cumsum(weight[members])])
        first = np.searchsorted(sent[members], sent[members] - interval_s + 1e-9, "right")
        sums[members] = total[1:] - total[first]
    return sums


def _join_sum(events: np.ndarray, weight: np.ndarray, length: int) -> np.ndarray:
    """Return the sum of left weights over all pairs of a node's windows after each of its events.

    A window ends with the node's own newest event of the side: the rule of the thesis.

    """
    side, rank = events % 2, events // 2
    sums = []
    for which in (0, 1):
        mine = np.flatnonzero(side == which)
        weights = weight[events[mine]] if which == 0 else np.ones(len(mine))
        total = np.concatenate([[0.0], np.cumsum(weights)])
        first = np.searchsorted(rank[mine], rank[mine] - length, "right")
        value = np.concatenate([[0.0], total[1:] - total[first]])
        sums.append(value[np.cumsum(side == which)])
    return sums[0] * sums[1]


def naive_gather(partials: ArrivingPartials) -> np.ndarray:
    """Return the sum over the newest partial results of all nodes, after each arrival."""
    value = pd.Series(partials.value)
    step = value - value.groupby(partials.source).shift(1).fillna(0.0)
    return step.groupby(partials.group).cumsum().to_numpy()


def accuracy(
    partials: ArrivingPartials,
    exact: np.ndarray,
    setting: ClusterSetting,
    *,
    from_s: float,
    slack: bool = False,
) -> dict[str, float]:
    """Return order, latency and error of the naive gather."""
    time = partials.sent
    if slack:
        order, released = slack_order(time, partials.arrival)
        partials = partials.reordered(order, released)
    in_order = order_metrics(partials.sent)
    costs = setting.costs
    done = run_node(
        equal_jobs(partials.arrival, costs.merge_us + costs.emit_us), setting.node, setting.duration_s
    )
    latency = done.finish + setting.link.mean_ms / 1e3 - partials.sent
    naive, right = naive_gather(partials), exact[partials.event]
    counts = partials.sent >= from_s
    off = np.abs(naive - right)[counts] / np.maximum(np.abs(right[counts]), 1e-12)
    is_last = ~pd.Series(partials.event[counts]).duplicated(keep="last").to_numpy()
    return {
        "out_of_order": in_order.out_of_order_share,
        "most_delay_ms": in_order.max_delay * 1e3,
        "latency_ms": float(latency[counts].mean() * 1e3),
        "error": float(off.mean()),
        "wrong_share": float((off > 1e-9).mean()),
        "wrong_at_last": float((off[is_last] > 1e-9).mean()),
    }
