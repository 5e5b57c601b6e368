"""Windows over n nodes: λ events per second, e events in the window, g groups."""

from __future__ import annotations

from cepkit.scaleout.model.loads import NodeLoad, usable_events


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
    own = rate_hz / n_nodes
    return NodeLoad(own, own, n_events / n_nodes + n_groups, 2 * own)


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
