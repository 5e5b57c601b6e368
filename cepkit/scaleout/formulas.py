"""Joins, patterns and windows over n nodes: bandwidth, memory and work per node, as formulas."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isqrt

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
    """Return how many events a node can hold, because garbage takes room while the node is busy.

    C (1 - γ u). The thesis attributes the growth of figure 5.4 to garbage collection and has no formula.
    """
    return capacity_events * (1 - garbage_share * min(utilisation, 1.0))


def capacity_for(usable: float, garbage_share: float, utilisation: float) -> float:
    """Return the capacity with which a node can hold ``usable`` events at this utilisation."""
    return usable / (1 - garbage_share * min(utilisation, 1.0))


# Joins of two windows over n nodes: λ events per second, e events in a window, of each side.


def join_on_one_node(left_hz: float, right_hz: float, n_left: float, n_right: float) -> NodeLoad:
    """Return the load of a single node with nested loops: λ_A + λ_B, e_A + e_B, λ_A e_B + λ_B e_A.

    The output has as many rows as pairs match. With an index, the work is that of the output.
    """
    return grid_join_node(left_hz, right_hz, n_left, n_right, 1, 1)


def printed_small_large_node(rate_hz: float, n_events: float, n_nodes: int) -> NodeLoad:
    """Return the load of a join node as in table 3.1: λ + λ/(n-1), e + e/(n-1), λe + λe/(n-1).

    Source: Suhothayan, 2019, table 3.1; n counts the gather. The table has one rate and one number of events
    for both sides, so its work would never shrink below that of a single node. Section 3.1.3 has the right
    formula.
    """
    others = max(1, n_nodes - 1)
    return NodeLoad(
        rate_hz + rate_hz / others, rate_hz + rate_hz / others, n_events + n_events / others,
        rate_hz * n_events + rate_hz * n_events / others,
    )  # fmt: skip


def small_large_node(
    left_hz: float, right_hz: float, n_left: float, n_right: float, n_nodes: int
) -> NodeLoad:
    """Return the load of one of ``n_nodes`` join nodes, each with the whole right window.

    λ_A/n + λ_B, e_A/n + e_B, and (λ_A/n) e_B + λ_B e_A/n steps. ``n_nodes`` does not count the gather.
    """
    return grid_join_node(left_hz, right_hz, n_left, n_right, n_nodes, 1)


def printed_grid_join_node(
    left_hz: float, right_hz: float, n_left: float, n_right: float, n_nodes: int
) -> NodeLoad:
    """Return the load of a join node as printed for two large windows: everything divided by n.

    Source: Suhothayan, 2019, table 3.1 and section 3.1.3.
    """
    rate, memory = left_hz + right_hz, n_left + n_right
    work = left_hz * n_right + right_hz * n_left
    return NodeLoad(rate / n_nodes, rate / n_nodes, memory / n_nodes, work / n_nodes)


def grid_join_node(
    left_hz: float, right_hz: float, n_left: float, n_right: float, rows: int, columns: int
) -> NodeLoad:
    """Return the load of a node of a grid: a row has a part of the left window, a column of the right one.

    Only the work shrinks with their number.
    """
    left_in, right_in = left_hz / rows, right_hz / columns
    left, right = n_left / rows, n_right / columns
    return NodeLoad(left_in + right_in, left_in + right_in, left + right, left_in * right + right_in * left)


def square_grid(n_nodes: int) -> tuple[int, int]:
    """Return the square grid of ``n_nodes`` nodes.

    The thesis asks for a number of nodes "equal to the power of two" and uses 4 and 9, which are squares.
    """
    side = isqrt(max(0, n_nodes))
    if side < 1 or side * side != n_nodes:
        raise CepError(f"square_grid: {n_nodes} nodes form no square. Give 1, 4, 9 or another square")
    return side, side


def longest_large_window(capacity_events: float, n_small: float, n_nodes: int) -> float:
    """Return the longest large window that fits into memory beside a small one on each node."""
    return n_nodes * (capacity_events - n_small)


def longest_of_two_windows(
    *, capacity_events: float = float("inf"), pairs_per_s: float = float("inf"), rate_hz: float, n_nodes: int
) -> float:
    """Return the longest length of two equal windows on a square grid, by memory and by work.

    Work: 2 λ e/n ≤ P, so e = P n/(2 λ).
    """
    side = square_grid(n_nodes)[0]
    return min(capacity_events * side / 2, pairs_per_s * n_nodes / (2 * rate_hz))


# Patterns over n nodes: λ events per second and stream, s states, window of t seconds.


def printed_pattern_memory(n_states: int, rate_hz: float) -> float:
    """Return the memory of a pattern on one node as printed: less than O((s - 1) λ).

    Source: Suhothayan, 2019, table 2.2. It does not contain the window, and is a rate.
    """
    return (n_states - 1) * rate_hz


def pattern_memory(n_states: int, rate_hz: float, interval_s: float) -> float:
    """Return a bound of the partial matches on one node: O((s - 1) λ t), if each takes the next event."""
    return (n_states - 1) * rate_hz * interval_s


def printed_state_node(rate_hz: float, n_events: float, n_states: int, *, is_first: bool) -> NodeLoad:
    """Return the load of the node of a state as printed: Ω(λ), first O(1), others Θ(e/(s-1)), Θ(λe/s).

    Source: Suhothayan, 2019, table 3.1. It assumes that all states hold equally many events.
    """
    memory = 1.0 if is_first else n_events / (n_states - 1)
    return NodeLoad(rate_hz, rate_hz, memory, rate_hz * n_events / n_states)


def state_node(
    rate_hz: float, waiting: float, matches_in_hz: float = 0.0, matches_out_hz: float = 0.0
) -> NodeLoad:
    """Return the load of the node of one state.

    Without an index, each event is compared with each waiting partial match: λ e_k steps per second.
    """
    return NodeLoad(rate_hz + matches_in_hz, matches_out_hz, waiting, rate_hz * waiting + matches_in_hz)


def printed_grid_bandwidth(rate_hz: float, n_nodes: int) -> float:
    """Return the input of a replica as printed: 2 λ/n.

    Source: Suhothayan, 2019, section 3.1.2. It is right for two members in each group, and events only.
    """
    return 2 * rate_hz / n_nodes


def grid_node(
    rate_hz: float,
    waiting: float,
    groups: int,
    members: int,
    matches_in_hz: float = 0.0,
    matches_out_hz: float = 0.0,
) -> NodeLoad:
    """Return the load of one of ``groups`` x ``members`` replicas of a state.

    An event goes to one group: λ/G. A partial match goes to one member of each group: a share 1/M of them.
    So a replica holds e_k/M partial matches, and makes λ e_k/(G M) comparisons. One group is figure 3.4.
    """
    matches = matches_in_hz / members
    n_nodes = groups * members
    return NodeLoad(
        rate_hz / groups + matches, matches_out_hz / n_nodes, waiting / members,
        rate_hz * waiting / n_nodes + matches,
    )  # fmt: skip


def leghari_node(rate_hz: float, start_rate_hz: float, interval_s: float, n_nodes: int) -> NodeLoad:
    """Return the load of a node if a start and its window go to a random node (Leghari et al., 2014).

    A node gets an event unless none of its own starts was in the window before it. Starts at a node form a
    Poisson process with rate λ₁/n, so the share of events is 1 - exp(-λ₁ t/n). It is near 1 in busy
    streams.
    """
    share = 1 - exp(-start_rate_hz * interval_s / n_nodes)
    memory = start_rate_hz * interval_s / n_nodes
    return NodeLoad(rate_hz * share, 0.0, memory, rate_hz * share * memory)


# Windows over n nodes: λ events per second, e events in the window, g groups.


def window_on_one_node(rate_hz: float, n_events: float, n_groups: int = 1) -> NodeLoad:
    """Return the load of a single node: Θ(λ), Θ(λ), O(e + g), Θ(λ).

    Source: Suhothayan, 2019, table 2.2. It is right. An event costs two steps: arrival and expiry.
    """
    return NodeLoad(rate_hz, rate_hz, n_events + n_groups, 2 * rate_hz)


def window_node(rate_hz: float, n_events: float, n_nodes: int, n_groups: int = 1) -> NodeLoad:
    """Return the load of one of ``n_nodes`` window nodes: Θ(λ/n), Θ(λ/n), Θ(e/n + g), Θ(λ/n).

    Source: Suhothayan, 2019, table 3.1, right apart from g: the aggregates of each group are at every node.
    Section 5 divides by n - 1, since n counts the gather there. Here, n does not count it.
    """
    node_rate_hz = rate_hz / n_nodes
    return NodeLoad(node_rate_hz, node_rate_hz, n_events / n_nodes + n_groups, 2 * node_rate_hz)


def printed_window_gather(rate_hz: float, n_nodes: int) -> NodeLoad:
    """Return the load of the gather as printed: Θ(λ), Θ(λ), O(n), Θ(λ).

    Source: Suhothayan, 2019, table 3.1. Section 3.1.1 says O(n) also for the work. Work cannot be below the
    input.
    """
    return NodeLoad(rate_hz, rate_hz, n_nodes, rate_hz)


def window_gather(rate_hz: float, n_nodes: int, n_groups: int = 1, *, merges_again: bool = False) -> NodeLoad:
    """Return the load of the gather: memory O(n g), work O(λ), or O(λ n) if each output merges all nodes."""
    return NodeLoad(rate_hz, rate_hz, n_nodes * n_groups, rate_hz * (n_nodes if merges_again else 1))


def longest_interval(
    capacity_events: float, rate_hz: float, n_nodes: int, garbage_share: float = 0.0, utilisation: float = 0.0
) -> float:
    """Return the longest time window in seconds that ``n_nodes`` window nodes can hold.

    λ t / n ≤ C (1 - γ u / n), so t = (n - γ u) C / λ. This is a line in n. Without garbage it begins at 0.
    With garbage, n nodes hold more than n times the window of one node. It is never exponential.
    """
    return usable_events(capacity_events, garbage_share, utilisation / n_nodes) * n_nodes / rate_hz
