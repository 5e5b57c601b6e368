"""The pattern "small, small, large purchase of a card" over nodes in virtual time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.datasets.constant_rate import LARGE_ABOVE, SMALL_BELOW, WORST, card_transactions
from cepkit.scaleout.plan.patterns import state_routings
from cepkit.scaleout.plan.routing import RoundRobin, Traffic
from cepkit.scaleout.simulation.nodes import ClusterSetting, Jobs, equal_jobs, joined, run_node
from cepkit.scaleout.simulation.runs import SimulatedNode, SimulatedRun, greatest_that_works

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
    """Simulate the pattern with a window of ``interval_s`` seconds.

    Each small purchase begins a partial match, which takes the next small and then the next large purchase
    of its card. Every node gets only the events that its state can take. An event is compared with all
    partial matches that wait at its node.
    """
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
                setting, stream.sent[of], ready[of], of, made, np.ones(len(made.enter), bool), arrives=0.0
            )
            for of, made in ((np.flatnonzero(small), made_first), (large, made_second))
        ]
        run = run_node(joined(*parts), setting.node, setting.duration_s)
        nodes.append(SimulatedNode("all states", run, setting.rate_hz, 0.0))
        n_small = len(parts[0].ready)
        done = run.finish[n_small : n_small + len(large)]
    else:
        of_events, of_matches = state_routings(layout, replicas, groups)
        first = RoundRobin(1 if layout == STATES else replicas)
        made = np.empty(len(begin))
        deliveries = first.sends(Traffic(len(begin)))
        for node in range(first.n_nodes):
            own = deliveries.to(node)
            ready = setting.link.deliver(stream.sent[begin[own]], rng)
            run = run_node(
                equal_jobs(ready, costs.arrival_us + costs.emit_us), setting.node, setting.duration_s
            )
            made[own] = run.finish
            nodes.append(SimulatedNode("state 1", run, *(len(own) / setting.duration_s,) * 2))
        waiting = WaitingMatches(stream.sent[begin], expire, second, made)
        done_at, own = _state(setting, "state 2", stream, begin, waiting, of_events, of_matches, rng)
        nodes += own
        keep = np.flatnonzero(has_second)
        keep = keep[np.argsort(second[keep], kind="stable")]
        event_number = np.searchsorted(begin, second[keep])
        waiting = WaitingMatches(stream.sent[second[keep]], expire[keep], third[keep], done_at[event_number])
        done, own = _state(setting, "state 3", stream, large, waiting, of_events, of_matches, rng)
        nodes += own
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
        own, held = sends.to(node), matches.to(node)
        mine = WaitingMatches(
            waiting.enter[held], waiting.expire[held], waiting.next_event[held], waiting.ready[held]
        )
        reaches = np.isin(mine.next_event, events[own])
        ready = setting.link.deliver(stream.sent[events[own]], rng)
        jobs = _state_jobs(
            setting, stream.sent[events[own]], ready, events[own], mine, reaches,
            arrives=setting.costs.arrival_us, link_s=setting.link.mean_ms / 1e3,
        )  # fmt: skip
        run = run_node(jobs, setting.node, setting.duration_s)
        done[own] = np.maximum(done[own], run.finish[: len(own)])
        per_s = 1 / setting.duration_s
        nodes.append(SimulatedNode(name, run, (len(own) + len(held)) * per_s, reaches.sum() * per_s))
    return done, nodes


def _state_jobs(setting, moment, ready, events, made, reaches, *, arrives, link_s=0.0) -> Jobs:
    """Return the jobs of a node: its events, then the partial matches that come, then those that leave."""
    costs, duration = setting.costs, setting.duration_s
    takes = reaches & (made.next_event >= 0)
    place = np.minimum(np.searchsorted(events, made.next_event), max(0, len(events) - 1))
    leave = np.where(takes, moment[place] if len(moment) else 0.0, made.expire)
    live = np.searchsorted(np.sort(made.enter), moment) - np.searchsorted(np.sort(leave), moment)
    emitted = np.bincount(place[takes], minlength=max(1, len(events)))[: len(events)]
    of_events = equal_jobs(
        ready, costs.arrival_us + costs.probe_us * np.maximum(live, 0) + costs.emit_us * emitted
    )
    comes = made.ready + link_s
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
