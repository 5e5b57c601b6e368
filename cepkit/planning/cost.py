"""Cost formulas of evaluation plans: pure functions of rates and selectivities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from math import factorial

MOST_PERMUTED = 6  # all orders of up to this many components are tried
LAST_LEVEL = 1 / 16  # relative cost of a test at the last level, of the measured order of magnitude

Selectivity = tuple[frozenset[int], float]


def partial_matches(
    order: Sequence[int],
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> tuple[float, ...]:
    """Return how many partial matches of a sequence are expected after each component of an order.

    With k events in one window, the first begins it and the others come in one of (k - 1)! orders. The
    formula treats conditions as independent.

    Source: Kolchinsky, Schuster, "Join Query Optimization Techniques for Complex Event Processing
    Applications", PVLDB 11(11), 2018: the cost of order-based plans.
    Differs: in the paper, a sequence is a conjunction with conditions on time that have given selectivities.
    Here their share is 1 / (k - 1)!, as for independent arrivals. Events per window are measured.
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
    """Return the expected number of partial matches of all lengths. Parameters as in `partial_matches`."""
    return sum(partial_matches(order, n_events, in_window, selectivities))


def nested_search_cost(
    order: Sequence[int],
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> float:
    """Return how many combinations of events a nested search tests. Parameters as in `partial_matches`.

    At each level, the search tests every partial match with every event of the next component in its
    window. At the last level, vector instructions run the tests, so each test counts as ``LAST_LEVEL``.

    Source: left-deep plans as in `left_deep_cost`.
    Differs: counts tests, not combinations that pass, since a test costs as much here as keeping its result.
    """
    passed = partial_matches(order, n_events, in_window, selectivities)
    tested = [float(n_events[order[0]])]
    for k in range(1, len(order)):
        tested.append(passed[k - 1] * in_window[order[k]] / k)
    return sum(tested[:-1]) + (tested[-1] * LAST_LEVEL if len(order) > 1 else tested[-1])


Cost = Callable[[Sequence[int], Sequence[float], Sequence[float], Sequence[Selectivity]], float]


def cheapest_order(
    n_events: Sequence[float],
    in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
    cost: Cost = left_deep_cost,
) -> tuple[int, ...]:
    """Return the cheapest order; among equally cheap orders, the one closest to the pattern's.

    With up to ``MOST_PERMUTED`` components, all orders are compared. With more, the search is greedy: each
    step takes the component that keeps the order so far cheapest.

    Source: Kolchinsky, Schuster 2018: greedy orders, and exhaustive search for few components.
    """
    n = len(n_events)

    def round_cost(order: tuple[int, ...]) -> float:
        # Costs are equal if they differ only in the order of their factors.
        return float(f"{cost(order, n_events, in_window, selectivities):.9g}")

    if n <= MOST_PERMUTED:
        return min(permutations(range(n)), key=round_cost)
    order: tuple[int, ...] = ()
    while len(order) < n:
        order = min(((*order, c) for c in range(n) if c not in order), key=round_cost)
    return order
