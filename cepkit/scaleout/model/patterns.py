"""Patterns over n nodes: λ events per second and stream, s states, window of t seconds."""

from __future__ import annotations

from math import exp

from cepkit.scaleout.model.loads import NodeLoad


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
