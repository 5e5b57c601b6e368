"""Joins of two windows over n nodes: λ events per second, e events in a window, of each side."""

from __future__ import annotations

from math import isqrt

from cepkit.errors import CepError
from cepkit.scaleout.model.loads import NodeLoad


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
