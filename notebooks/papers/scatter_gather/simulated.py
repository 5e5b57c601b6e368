"""Windows, joins and the pattern of card purchases over n nodes in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from cepkit.datasets.constant_rate import LARGE_ABOVE, SMALL_BELOW, WORST, card_transactions
from cepkit.errors import CepError
from cepkit.scaleout.k_slack import SlackBuffer, order_metrics
from cepkit.scaleout.plans import (
    Deliveries,
    Routing,
    Traffic,
    in_turn,
    join_plan,
    state_routings,
    window_plan,
)
from papers.scatter_gather.nodes import (
    ClusterSetting,
    Jobs,
    SimulatedNode,
    SimulatedRun,
    equal_jobs,
    greatest_that_works,
    joined,
    longest_interval,
    run_node,
    square_grid,
)

# Joins of two length windows over nodes in virtual time. All events match, as in the thesis.

JOIN, GATHER_OF_JOINS = "join", "gather"


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
    """Simulate a join of two length windows over ``n_nodes`` nodes, and a gather if there are several."""
    # An event is compared with all events of the other window at its node, and so is an event that leaves.
    sent = setting.times()
    routings = join_routings(n_nodes, layout)
    of_node = events_of_nodes(len(sent), routings)
    rngs = np.random.default_rng([setting.seed, n_nodes]).spawn(2 * n_nodes + 1)
    finished, nodes, costs = [], [], setting.costs
    for node, events in enumerate(of_node):
        partners, held, n_left = _windows_of(events, lengths)
        probes = partners * (1 + n_left)
        ready = setting.link.deliver(sent[events], rngs[node])
        service = costs.arrival_us + costs.emit_us + costs.probe_us * probes
        run = run_node(equal_jobs(ready, service, np.diff(held, prepend=0)), setting.node, setting.duration_s)
        finished.append(run.finish)
        rate = len(events) / setting.duration_s
        nodes.append(SimulatedNode(JOIN, run, rate, rate))
    if n_nodes == 1:
        received = setting.link.deliver(finished[0], rngs[-1])
        return SimulatedRun(tuple(nodes), sent, received, setting.duration_s)
    arrival = np.concatenate(
        [setting.gather_link.deliver(ends, rng) for ends, rng in zip(finished, rngs[n_nodes:], strict=False)]
    )
    merged = run_node(equal_jobs(arrival, costs.merge_us), setting.node, setting.duration_s)
    rate = len(arrival) / setting.duration_s
    nodes.append(SimulatedNode(GATHER_OF_JOINS, merged, rate, setting.rate_hz))
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


def _windows_of(events: np.ndarray, lengths: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each of a node's events: events in the other window, events in both, events that left."""
    side, rank = events % 2, events // 2
    live = []
    for which, length in enumerate(lengths):
        mine = rank[side == which]
        seen = (events + 2 - which) // 2  # events of this side so far, at all nodes
        live.append(np.searchsorted(mine, seen) - np.searchsorted(mine, seen - length))
    partners = np.where(side == 0, live[1], live[0])
    held = live[0] + live[1]
    left = np.maximum(0, 1 - np.diff(held, prepend=0))
    return partners, held, left


def longest_join(
    n_nodes: int, setting: ClusterSetting, *, small: int | None = None, layout: str = "replicated",
    step: int = 1,
) -> int:  # fmt: skip
    """Return the longest window in events: the left one beside ``small`` right events, or both if None."""
    node, costs = setting.node, setting.costs
    capacity, half_rate = node.capacity_events, setting.rate_hz / 2
    if small is None:
        per_event = (costs.arrival_us + costs.emit_us) / 1e6
        rest = max(0.0, node.cpu - setting.rate_hz / square_grid(n_nodes)[0] * per_event)
        pairs = rest / (2e-6 * costs.probe_us) if costs.probe_us else float("inf")
        # In memory, 2 e / √n events. Work: 2 λ e/n pairs per second.
        guess = min(capacity * square_grid(n_nodes)[0] / 2, pairs * n_nodes / (2 * half_rate))
    else:
        guess = n_nodes * (capacity - small)
    longest = int(setting.duration_s * setting.rate_hz / 2)
    return step * greatest_that_works(
        lambda k: simulate_join(n_nodes, setting, (k * step, small or k * step), layout=layout).works,
        max(1, int(guess) // step), max(1, longest // step),
    )  # fmt: skip


# The pattern "small, small, large purchase of a card" over nodes in virtual time.

SINGLE, STATES, REPLICATED, GROUPED = "single", "states", "replicated", "grouped"
LAYOUTS = (SINGLE, STATES, REPLICATED, GROUPED)


@dataclass(frozen=True, slots=True)
class WaitingMatches:
    """Partial matches of one length, in the order of their making."""

    # enter, expire: float64, (n_matches,): when the events of each are complete, and when its window ends
    enter: np.ndarray
    expire: np.ndarray
    # int64, (n_matches,): the number of the event that it takes next; -1 if none comes in time
    next_event: np.ndarray
    ready: np.ndarray  # float64, (n_matches,): when the node that made it has finished


@dataclass(frozen=True, slots=True)
class CardStream:
    """Transactions as arrays, with the next small and the next large purchase of each card."""

    sent: np.ndarray  # float64: in seconds
    # is_small, is_large: bool
    is_small: np.ndarray
    is_large: np.ndarray
    next_small: np.ndarray  # int64: the next small purchase of the card after each event; -1 if there is none
    next_large: np.ndarray  # int64: the next large purchase


def card_stream(setting: ClusterSetting, workload: str = WORST, n_cards: int = 100) -> CardStream:
    """Return the transactions of a workload as `card_transactions` generates them."""
    sent = setting.times()
    frame = card_transactions(
        len(sent), workload=workload, n_cards=n_cards, rate_hz=setting.rate_hz, seed=setting.seed
    )
    small = (frame["amount"] < SMALL_BELOW).to_numpy()
    large = (frame["amount"] > LARGE_ABOVE).to_numpy()
    card = frame["card"].to_numpy()
    return CardStream(sent, small, large, _next_of(card, small), _next_of(card, large))


def _next_of(card: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return for each event the number of the next wanted event of its card; -1 if there is none."""
    numbers = pd.Series(np.where(wanted, np.arange(len(card)), np.nan))
    later = numbers.groupby(card).shift(-1)
    return later.groupby(card).bfill().fillna(-1).to_numpy(np.int64)


def simulate_pattern(
    layout: str, setting: ClusterSetting, stream: CardStream, interval_s: float, *, replicas: int = 2,
    groups: int | None = None,
) -> SimulatedRun:  # fmt: skip
    """Simulate the pattern with a window of ``interval_s`` seconds."""
    # A node gets only the events that its state can take, and compares them with all waiting partial matches.
    rng = np.random.default_rng([setting.seed, LAYOUTS.index(layout)])
    begin, small, large = np.flatnonzero(stream.is_small), stream.is_small, np.flatnonzero(stream.is_large)
    expire = stream.sent[begin] + interval_s
    second = _in_time(stream, stream.next_small[begin], expire)
    has_second = second >= 0
    third = np.full(len(begin), -1)
    third[has_second] = _in_time(stream, stream.next_large[second[has_second]], expire[has_second])
    costs, nodes = setting.costs, []
    if layout == SINGLE:
        ready = setting.link.deliver(stream.sent, rng)
        made_first = WaitingMatches(stream.sent[begin], expire, second, ready[begin])
        made_second = WaitingMatches(
            stream.sent[second[has_second]], expire[has_second], third[has_second], ready[second[has_second]]
        )
        parts = [
            _state_jobs(
                setting, stream.sent[at], ready[at], at, queue, np.ones(len(queue.enter), bool), arrives=0.0
            )
            for at, queue in ((np.flatnonzero(small), made_first), (large, made_second))
        ]
        run = run_node(joined(*parts), setting.node, setting.duration_s)
        nodes.append(SimulatedNode("all states", run, setting.rate_hz, 0.0))
        n_small = len(parts[0].ready)
        done = run.finish[n_small : n_small + len(large)]
    else:
        of_events, of_matches = state_routings(layout, replicas, groups)
        first = in_turn(1 if layout == STATES else replicas)
        begun_at = np.empty(len(begin))
        deliveries = first.sends(Traffic(len(begin)))
        for node in range(first.n_nodes):
            starts = deliveries.to(node)
            ready = setting.link.deliver(stream.sent[begin[starts]], rng)
            run = run_node(
                equal_jobs(ready, costs.arrival_us + costs.emit_us), setting.node, setting.duration_s
            )
            begun_at[starts] = run.finish
            nodes.append(SimulatedNode("state 1", run, *(len(starts) / setting.duration_s,) * 2))
        waiting = WaitingMatches(stream.sent[begin], expire, second, begun_at)
        done_at, state_nodes = _state(setting, "state 2", stream, begin, waiting, of_events, of_matches, rng)
        nodes += state_nodes
        keep = np.flatnonzero(has_second)
        keep = keep[np.argsort(second[keep], kind="stable")]
        event_number = np.searchsorted(begin, second[keep])
        waiting = WaitingMatches(stream.sent[second[keep]], expire[keep], third[keep], done_at[event_number])
        done, state_nodes = _state(setting, "state 3", stream, large, waiting, of_events, of_matches, rng)
        nodes += state_nodes
    complete = third[third >= 0]
    finish = done[np.searchsorted(large, complete)] + setting.link.mean_ms / 1e3
    return SimulatedRun(tuple(nodes), stream.sent[complete], finish, setting.duration_s)


def _in_time(stream: CardStream, event: np.ndarray, expire: np.ndarray) -> np.ndarray:
    """Return the events that come before the window ends; -1 for all others."""
    return np.where((event >= 0) & (stream.sent[event] <= expire), event, -1)


def _state(setting, name, stream, events, waiting, of_events, of_matches, rng):
    """Simulate the nodes of a state. Return when each event is done at its last node, and the nodes."""
    sends = of_events.sends(Traffic(len(events)))
    matches = of_matches.sends(Traffic(len(waiting.enter)))
    done, nodes = np.zeros(len(events)), []
    for node in range(of_events.n_nodes):
        rows, held = sends.to(node), matches.to(node)
        mine = WaitingMatches(
            waiting.enter[held], waiting.expire[held], waiting.next_event[held], waiting.ready[held]
        )
        reaches = np.isin(mine.next_event, events[rows])
        ready = setting.link.deliver(stream.sent[events[rows]], rng)
        jobs = _state_jobs(
            setting, stream.sent[events[rows]], ready, events[rows], mine, reaches,
            arrives=setting.costs.arrival_us, link_s=setting.link.mean_ms / 1e3,
        )  # fmt: skip
        run = run_node(jobs, setting.node, setting.duration_s)
        done[rows] = np.maximum(done[rows], run.finish[: len(rows)])
        per_s = 1 / setting.duration_s
        nodes.append(SimulatedNode(name, run, (len(rows) + len(held)) * per_s, reaches.sum() * per_s))
    return done, nodes


def _state_jobs(setting, moment, ready, events, matches, reaches, *, arrives, link_s=0.0) -> Jobs:
    """Return the jobs of a node: its events, then the partial matches that come, then those that leave."""
    costs, duration = setting.costs, setting.duration_s
    takes = reaches & (matches.next_event >= 0)
    place = np.minimum(np.searchsorted(events, matches.next_event), max(0, len(events) - 1))
    leave = np.where(takes, moment[place] if len(moment) else 0.0, matches.expire)
    live = np.searchsorted(np.sort(matches.enter), moment) - np.searchsorted(np.sort(leave), moment)
    emitted = np.bincount(place[takes], minlength=max(1, len(events)))[: len(events)]
    of_events = equal_jobs(
        ready, costs.arrival_us + costs.probe_us * np.maximum(live, 0) + costs.emit_us * emitted
    )
    comes = matches.ready + link_s
    goes = np.maximum(leave, comes)
    is_out = goes < duration
    return joined(
        of_events,
        equal_jobs(comes, arrives, 1),
        equal_jobs(goes[is_out], np.where(takes, 0.0, costs.expiry_us)[is_out], -1),
    )


def longest_pattern(
    layout: str, setting: ClusterSetting, stream: CardStream, *, step_s: float = 0.5, most_s: float = 60.0,
    **settings: int,
) -> float:  # fmt: skip
    """Return the longest window of the pattern in seconds with which no node fails, in steps."""
    guess = setting.node.capacity_events / setting.rate_hz
    return step_s * greatest_that_works(
        lambda k: simulate_pattern(layout, setting, stream, k * step_s, **settings).works,
        int(guess / step_s), int(most_s / step_s),
    )  # fmt: skip


# Time and length windows over n nodes in virtual time.

WINDOW, GATHER = "window", "gather"


def simulate_window(
    n_nodes: int, setting: ClusterSetting, *, interval_s: float | None = None, length: int | None = None
) -> SimulatedRun:
    """Simulate a window over ``n_nodes`` window nodes, and a gather if there are several."""
    # In a time window, a timer makes a job of each expiry. In a length window, it is a part of the arrival.
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
        events = deliveries.to(node)
        ready = setting.link.deliver(sent[events], rngs[node])
        if interval_s is not None:
            due = sent[events] + interval_s
            due = np.maximum(due[due < setting.duration_s], ready[: (due < setting.duration_s).sum()])
            arrivals = equal_jobs(ready, costs.arrival_us + costs.emit_us, 1)
            jobs = joined(arrivals, equal_jobs(due, costs.expiry_us, -1))
        else:
            jobs = _length_jobs(ready, events, int(length or 0), setting)
        run = run_node(jobs, setting.node, setting.duration_s)
        finished[events] = run.finish[: len(events)]
        rate = setting.rate_hz * routing.share
        nodes.append(SimulatedNode(WINDOW, run, rate, rate))
    return np.maximum(finished, sent), nodes


def at_gather(
    deliveries: Deliveries, finished: np.ndarray, setting: ClusterSetting, rngs: list[np.random.Generator]
) -> np.ndarray:
    """Return when the gather gets the partial result of each delivery; ``finished`` is by delivery, too."""
    arrival = np.empty(len(finished))
    for node in range(int(deliveries.node.max(initial=-1)) + 1):
        rows = np.flatnonzero(deliveries.node == node)
        arrival[rows] = setting.gather_link.deliver(finished[rows], rngs[node])
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
    """Return the longest time window in seconds (``by="time"``), or length window (``by="length"``)."""
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


# The naive gather, with and without K-Slack, in virtual time: order, latency and error of its results.
#
# The gather of the thesis keeps the newest partial result of every node and group. Partial results that come
# out of order make it wrong, because they belong to different moments.


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


@lru_cache(maxsize=1)  # the weights of events do not change it, so variants of a table share it
def slack_order(times: bytes, arrivals: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the order in which K-Slack with a growing K releases items, and when it releases each."""
    time, arrival = np.frombuffer(times), np.frombuffer(arrivals)
    buffer, order, released = SlackBuffer(), [], np.empty(len(time))
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
    """Return the partial sums of a time window, and the sum of a single node at each event."""
    sent = setting.times()
    exact = _running_sum(sent, weight, group, interval_s)
    routing = in_turn(n_nodes)
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
    """Return the partial sums of left weights of a join on a grid, and the sum of a single node."""
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
    """Return the sum of left weights over all pairs of a node's windows after each of its events."""
    # A window ends with the node's own newest event of the side: the rule of the thesis.
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
        order, released = slack_order(time.tobytes(), partials.arrival.tobytes())
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
