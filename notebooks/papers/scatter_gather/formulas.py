"""The formulas of the thesis in a table, as printed and as corrected, and its gather."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from papers.scatter_gather.nodes import (
    MEASURES,
    grid_join_node,
    grid_node,
    leghari_node,
    square_grid,
    state_node,
    window_node,
)

# --- tables 2.2, 2.4 and 3.1: each formula as printed and as corrected, with its value ---------------------

IN, OUT, MEMORY, WORK = MEASURES.values()


@dataclass(frozen=True, slots=True)
class ExampleLoad:
    """A load for the numbers of `formula_table`."""

    rate_hz: float = 1_000.0  # λ: events per second of each stream
    interval_s: float = 30.0  # t: window in seconds; e = λ t events
    n_nodes: int = 4  # n: nodes without the gather; a square
    n_groups: int = 10  # g: keys of a group-by
    n_states: int = 3  # s: states of a pattern
    n_small: int = 20  # events of a small window
    match_share: float = 0.5  # share of events that continue a partial match


def formula_table(load: ExampleLoad | None = None) -> pd.DataFrame:
    """Return every formula of tables 2.2, 2.4 and 3.1 that matters here, as printed and as corrected."""
    # Source: Suhothayan, 2019, tables 2.2, 2.4 and 3.1, and sections 3.1.1 to 3.1.3.
    load = load or ExampleLoad()
    rate, n, groups, n_states = load.rate_hz, load.n_nodes, load.n_groups, load.n_states
    events = rate * load.interval_s
    matches = rate * load.match_share
    one, node = window_node(rate, events, 1, groups), window_node(rate, events, n, groups)
    state = state_node(rate, events * load.match_share, matches)
    first = state_node(rate, 0.0, 0.0, rate)
    replica, grid = grid_node(rate, events, 1, n, matches), grid_node(rate, events, n // 2, 2, matches)
    small = grid_join_node(rate, rate, events, load.n_small, n, 1)
    large = grid_join_node(rate, rate, events, events, *square_grid(n))
    join = grid_join_node(rate, rate, events, events, 1, 1)
    spread = leghari_node(rate, rate / n_states, load.interval_s, n)
    window, by_state = "window node", "pattern, state k"
    right, wrong, loose = "right", "wrong", "right with more detail"
    rows = [
        ("2.2", "time window, one node", MEMORY, "O(λt + g)", "λt + g", one.memory, one.memory, right),
        ("2.2", "time window, one node", WORK, "Θ(λ)", "2λ: arrival and expiry", rate, one.work, right),
        ("2.2", "pattern, one node", MEMORY, "< O((s-1)λ)", "O((s-1)λt)",
         (n_states - 1) * rate, (n_states - 1) * events, wrong),
        ("2.2", "join, one node", WORK, "O(λe)", "λ_A e_B + λ_B e_A", rate * events, join.work, right),
        ("2.4", "pattern by time (Leghari)", IN, "Θ(λ)", "λ(1 - exp(-λ₁t/n))", rate,
         spread.bandwidth_in, loose),
        ("3.1", window, IN, "Θ(λ/n)", "λ/n", rate / n, node.bandwidth_in, right),
        ("3.1", window, MEMORY, "Θ(e/n)", "e/n + g", events / n, node.memory, loose),
        ("3.1", window, WORK, "Θ(λ/n)", "2λ/n", rate / n, node.work, right),
        ("3.1", "window gather", MEMORY, "O(n)", "O(n g)", n, n * groups, wrong),
        ("3.1.1", "window gather", WORK, "O(n)", "O(λ)", n, rate, wrong),
        ("3.1", "pattern, first state", MEMORY, "O(1)", "O(1)", 1.0, max(1.0, first.memory), right),
        ("3.1", by_state, IN, "Ω(λ)", "λ + matches", rate, state.bandwidth_in, loose),
        ("3.1", by_state, MEMORY, "Θ(e/(s-1))", "live partial matches of length k-1",
         events / (n_states - 1), state.memory, loose),
        ("3.1", by_state, WORK, "Θ(λe/s)", "λ e_k", rate * events / n_states, state.work, loose),
        ("3.1.2", "pattern, replicated", IN, "λ", "λ + matches/n", rate, replica.bandwidth_in, loose),
        ("3.1.2", "pattern, replicated", MEMORY, "1/n of a state", "e_k/n", events / n,
         replica.memory, right),
        ("3.1.2", "pattern, grouped", IN, "2λ/n", "λ/G + matches/M", 2 * rate / n,
         grid.bandwidth_in, loose),
        ("3.1.2", "pattern, grouped", MEMORY, "1/n of a state", "e_k/M", events / n, grid.memory, wrong),
        ("3.1", "join, small and large", IN, "Θ(λ + λ/(n-1))", "λ_A/n + λ_B", rate + rate / n,
         small.bandwidth_in, right),
        ("3.1", "join, small and large", MEMORY, "Θ(e + e/(n-1))", "e_A/n + e_B", events + events / n,
         small.memory, wrong),
        ("3.1", "join, small and large", WORK, "Θ(λe + λe/(n-1))", "(λ_A/n) e_B + λ_B e_A/n",
         rate * events * (1 + 1 / n), small.work, wrong),
        ("3.1", "join, two large", IN, "O(λ/n)", "λ_A/p + λ_B/q", 2 * rate / n,
         large.bandwidth_in, wrong),
        ("3.1", "join, two large", MEMORY, "Θ(e/n)", "e_A/p + e_B/q", 2 * events / n,
         large.memory, wrong),
        ("3.1", "join, two large", WORK, "Θ(λe/n)", "(λ_A e_B + λ_B e_A)/(p q)", 2 * rate * events / n,
         large.work, right),
    ]  # fmt: skip
    names = ["table", "operator", "measure", "printed", "corrected"]
    names += ["printed_value", "corrected_value", "verdict"]
    table = pd.DataFrame(rows, columns=names)
    return table.astype({"printed_value": float, "corrected_value": float})


# --- the gather of the thesis: it merges the newest partial result of every node ---------------------------


@dataclass(frozen=True, slots=True)
class GatherError:
    """How far outputs are from those of a single node."""

    relative: float  # mean of the relative differences
    share: float  # share of the outputs with a wrong value


def gather_error(found: np.ndarray, right: np.ndarray, least: float = 1e-12) -> GatherError:
    """Return the error of outputs."""
    found, right = np.asarray(found, np.float64), np.asarray(right, np.float64)
    if not len(right):
        return GatherError(0.0, 0.0)
    difference = np.abs(found - right)
    relative = difference / np.maximum(np.abs(right), least)
    return GatherError(float(relative.mean()), float((difference > 0).mean()))


def naive_sums(
    values: np.ndarray,
    n_nodes: int,
    *,
    length: int | None = None,
    window: int | float | None = None,
    time: np.ndarray | None = None,
    order: np.ndarray | None = None,
) -> np.ndarray:
    """Return the running sums of the thesis' gather."""
    # A node expires events only when its own next event comes. Its length rule is the printed one: it keeps
    # events while ``latest - oldest < length``, with the number of its own latest event.
    if (length is None) == (window is None):
        raise CepError("naive_sums: give either length or window")
    values = np.asarray(values)
    number = np.arange(len(values), dtype=np.int64)
    partial, order = np.empty_like(values), number if order is None else np.asarray(order, np.int64)
    for node in range(n_nodes):
        own = number[node::n_nodes]
        at = own if length is not None else np.asarray(time)[own]
        start = np.searchsorted(at, at - (window if length is None else length), "right")
        before = np.concatenate([np.zeros(1, values.dtype), np.cumsum(values[own])])
        partial[own] = before[1:] - before[start]
    # A partial result replaces the one before it of its node, in the order of arrival.
    newest = pd.DataFrame({"node": order % n_nodes, "partial": partial[order]})
    step = newest["partial"] - newest.groupby("node")["partial"].shift(fill_value=0)
    total = np.empty_like(values)
    total[order] = step.cumsum()
    return total
