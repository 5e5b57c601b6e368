"""Cost formulas of evaluation plans as pure functions of rates and selectivities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from math import factorial

MOST_PERMUTED = 6  # components of which all orders are tried
LAST_LEVEL = 1 / 16  # of the cost of a test, where tests stand in a row: of the order that was seen

Selectivity = tuple[frozenset[int], float]


def partial_matches(
    order: Sequence[int],
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> tuple[float, ...]:
    """Return how many partial matches of a sequence are expected after each component of an order.

    Parameters
    ----------
    order : sequence of int
        The components, the first to be looked for first.
    n_events : sequence of float, by component
        How many events there are of it.
    in_window : sequence of float, by component
        How many of them are expected in one window.
    selectivities : sequence of (frozenset of int, float)
        The components that a condition links, and the share of their events' combinations that fulfil it.

    Returns
    -------
    tuple of float, by place in the order

    Notes
    -----
    Of k events in one window, the first begins it and the others come in one of (k - 1)! orders. Conditions
    count as independent of each other.
    Source: Kolchinsky, Schuster, "Join Query Optimization Techniques for Complex Event Processing
    Applications", PVLDB 11(11), 2018: the cost of order-based plans.
    Differs: there a sequence is a conjunction with conditions on time, whose selectivities are given; here
    their share is 1 / (k - 1)!, as for events that come independently. Events per window are measured.

    Examples
    --------
    >>> partial_matches([2, 0, 1], [100, 100, 4], [10, 10, 0.4], [(frozenset({0, 2}), 0.5)])
    (4.0, 20.0, 100.0)
    """
    bound: set[int] = set()
    made, pairs = [], 1.0
    for k, c in enumerate(order):
        pairs = n_events[c] if k == 0 else pairs * in_window[c]
        bound.add(c)
        share = 1.0
        for components, selectivity in selectivities:
            share *= selectivity if components <= bound else 1.0
        made.append(pairs * share / factorial(k))
    return tuple(made)


def left_deep_cost(
    order: Sequence[int],
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> float:
    """Return the number of partial matches of all lengths under an order; as `partial_matches`."""
    return sum(partial_matches(order, n_events, in_window, selectivities))


def nested_search_cost(
    order: Sequence[int],
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> float:
    """Return the combinations of events that a nested search tests under an order; as `partial_matches`.

    Notes
    -----
    At each level every partial match meets the next component's events before a condition on these can hold
    or not; at the last level they are tested in a row, by vector instructions, and count less.
    Source: left-deep plans as in `left_deep_cost`.
    Differs: what is tested counts, not what passes: here a test costs as much as keeping its result.

    Examples
    --------
    >>> nested_search_cost([2, 0, 1], [100, 100, 4], [10, 10, 0.4], [(frozenset({0, 2}), 0.5)])
    50.25
    """
    passed = partial_matches(order, n_events, in_window, selectivities)
    tested = [float(n_events[order[0]])]
    for k in range(1, len(order)):
        tested.append(passed[k - 1] * in_window[order[k]] / k)
    return sum(tested[:-1]) + (tested[-1] * LAST_LEVEL if len(order) > 1 else tested[-1])


Cost = Callable[
    [Sequence[int], Sequence[float], Sequence[float], Sequence[Selectivity]],
    float,
]


def cheapest_order(
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
    cost: Cost = left_deep_cost,
) -> tuple[int, ...]:
    """Return the order of the least cost; of equal ones the one nearest to the pattern's.

    Notes
    -----
    Up to ``MOST_PERMUTED`` components all orders are compared; of more, each next component is the one with
    which the order so far costs least.
    Source: Kolchinsky, Schuster 2018: greedy orders; exhaustive ones for few.

    Examples
    --------
    >>> cheapest_order([100, 100, 4], [10, 10, 0.4], [(frozenset({0, 2}), 0.5)])
    (2, 0, 1)
    """
    n = len(n_events)

    def rounded(order: tuple[int, ...]) -> float:
        # Equal costs are equal whatever the order of their factors.
        return float(f"{cost(order, n_events, in_window, selectivities):.9g}")

    if n <= MOST_PERMUTED:
        return min(permutations(range(n)), key=rounded)
    order: tuple[int, ...] = ()
    while len(order) < n:
        order = min(((*order, c) for c in range(n) if c not in order), key=rounded)
    return order
