"""The order in which the ordered engine binds events, by rates and selectivities of a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, permutations
from math import factorial

import numpy as np

from cepkit.compile.sequence_program import (
    BoundBranch,
    SequenceProgram,
    components_of_absence,
    components_of_condition,
)
from cepkit.engines.ordered import OrderedEvents, ordered_sequence
from cepkit.engines.search import MOST_KNOWN
from cepkit.engines.shared.python_kernels import holding
from cepkit.engines.shared.sequence_set import FoundLater, SequenceSet
from cepkit.events import Events
from cepkit.values import dataclass

# Cost formulas of evaluation plans: pure functions of rates and selectivities.

MOST_PERMUTED = 6  # all orders of up to this many components are tried
LAST_LEVEL = 1 / 16  # relative cost of a test at the last level, of the measured order of magnitude

Selectivity = tuple[frozenset[int], float]

_LARGEST_FACTORIAL = 170  # of a float


def partial_matches(
    order: Sequence[int], n_events: Sequence[float], in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> tuple[float, ...]:  # fmt: skip
    """Return how many partial matches of a sequence are expected after each component of an order."""
    # With k events in one window, the first begins it and the others come in one of (k - 1)! orders. The
    # formula treats conditions as independent.
    # Source: Kolchinsky, Schuster, "Join Query Optimization Techniques for Complex Event Processing
    # Applications", PVLDB 11(11), 2018: the cost of order-based plans. Differs: in the paper, a sequence is a
    # conjunction with conditions on time that have given selectivities. Here their share is 1 / (k - 1)!, as
    # for independent arrivals. Events per window are measured.
    bound: set[int] = set()
    expected, pairs = [], 1.0
    for k, c in enumerate(order):
        pairs = n_events[c] if k == 0 else pairs * in_window[c]
        bound.add(c)
        share = 1.0
        for components, selectivity in selectivities:
            share *= selectivity if components <= bound else 1.0
        expected.append(pairs * share / factorial(min(k, _LARGEST_FACTORIAL)))
    return tuple(expected)


def nested_search_cost(
    order: Sequence[int], n_events: Sequence[float], in_window: Sequence[float],
    selectivities: Sequence[Selectivity],
) -> float:  # fmt: skip
    """Return how many combinations of events a nested search tests. Parameters as in `partial_matches`."""
    # At each level, the search tests every partial match with every event of the next component in its
    # window. At the last level, vector instructions run the tests, so each test counts as ``LAST_LEVEL``.
    # Source: left-deep plans, see `partial_matches`. Differs: counts tests, not combinations that pass, since
    # a test costs as much here as keeping its result.
    passed = partial_matches(order, n_events, in_window, selectivities)
    tested = [float(n_events[order[0]])]
    for k in range(1, len(order)):
        tested.append(passed[k - 1] * in_window[order[k]] / k)
    if len(order) > 1:
        tested[-1] *= LAST_LEVEL
    return sum(tested)


Cost = Callable[[Sequence[int], Sequence[float], Sequence[float], Sequence[Selectivity]], float]


def cheapest_order(
    n_events: Sequence[float], in_window: Sequence[float], selectivities: Sequence[Selectivity],
    cost: Cost = nested_search_cost,
) -> tuple[int, ...]:  # fmt: skip
    """Return the cheapest order; among equally cheap orders, the one closest to the pattern's."""
    # With up to ``MOST_PERMUTED`` components, all orders are compared. With more, the search is greedy: each
    # step takes the component that keeps the order so far cheapest.
    # Source: Kolchinsky, Schuster 2018: greedy orders, and exhaustive search for few components.
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


# Rates of events and selectivities of conditions, measured on a sample of the events.

TUPLES = 2_000  # combinations of events that test each condition
_ANCHORS = 2_000  # events of each component whose windows are counted
_FIRSTS = 100_000  # most events from which the first of a combination is drawn


@dataclass(frozen=True, slots=True)
class Measured:
    """How often a condition held."""

    name: str  # as users see it
    components: frozenset[int]  # the components that it reads
    # n_tested, n_held: number of combinations of events, in the order and window of the pattern
    n_tested: int
    n_held: int

    @property
    def selectivity(self) -> float:
        """The expected share that holds: 0.5 if nothing was tested, and never 0 or 1."""
        # Source: Laplace's rule of succession.
        return (self.n_held + 1) / (self.n_tested + 2)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The input of the cost formulas."""

    n_events: tuple[int, ...]  # number of events that the component accepts
    in_window: tuple[float, ...]  # mean number of these events in a window after an event of the pattern
    conditions: tuple[Measured, ...] = ()  # the conditions that read several components

    @property
    def selectivities(self) -> tuple[tuple[frozenset[int], float], ...]:
        """The components and the selectivity of every condition."""
        return tuple((measured.components, measured.selectivity) for measured in self.conditions)


def measure_rates(
    members: Sequence[np.ndarray], later: np.ndarray, window_end: np.ndarray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the number of each component's events, and the mean number of them in a window."""
    # Uses the windows after up to 2,000 evenly spaced events per component.
    anchors = np.concatenate([_evenly(places, _ANCHORS) for places in members])
    n_events = tuple(map(len, members))
    if not len(anchors):
        return n_events, (0.0,) * len(members)
    begin, end = later[anchors], window_end[anchors]
    counts = [
        np.maximum(np.searchsorted(places, end) - np.searchsorted(places, begin), 0) for places in members
    ]
    return n_events, tuple(float(count.mean()) for count in counts)


def measure_condition(
    name: str, components: frozenset[int], holds: Callable[[np.ndarray], np.ndarray],
    members: Sequence[np.ndarray], later: np.ndarray, window_end: np.ndarray, seed: int = 0,
) -> Measured:  # fmt: skip
    """Return how often a condition holds for events in the order and window of the pattern."""
    # Draws at most ``TUPLES`` combinations. All pairs of first and last events are equally likely; the events
    # between them are drawn from those in between.
    drawn = combinations(sorted(components), members, later, window_end, np.random.default_rng(seed))
    n_held = int(np.count_nonzero(holds(drawn))) if len(drawn) else 0
    return Measured(name, components, len(drawn), n_held)


def combinations(
    components: Sequence[int], members: Sequence[np.ndarray], later: np.ndarray, window_end: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Draw events of ascending components, in order and in one window; see `measure_condition`."""
    first = _evenly(members[components[0]], _FIRSTS)  # some events of the first component
    if len(components) == 1:
        first = _evenly(first, TUPLES)
        tuples = np.zeros((len(first), len(members)), np.int64)
        tuples[:, components[0]] = first
        return tuples
    # Number all pairs of a first event and a last event in its window, and draw some of the numbers.
    last = members[components[-1]]
    low, high = np.searchsorted(last, later[first]), np.searchsorted(last, window_end[first])
    end_of_pairs = np.cumsum(np.maximum(high - low, 0))  # of each first event
    n_pairs = int(end_of_pairs[-1]) if len(end_of_pairs) else 0
    pairs = np.arange(n_pairs) if n_pairs <= TUPLES else rng.integers(0, n_pairs, TUPLES)
    index = np.searchsorted(end_of_pairs, pairs, side="right")
    tuples = np.zeros((len(pairs), len(members)), np.int64)
    tuples[:, components[0]] = first[index]
    tuples[:, components[-1]] = last[high[index] - (end_of_pairs[index] - pairs)]
    # Draw the events between them one component after the other, each after the event before it.
    for before, c in pairwise(components[:-1]):
        low = np.searchsorted(members[c], later[tuples[:, before]])
        n_between = np.searchsorted(members[c], tuples[:, components[-1]]) - low
        has_some = n_between > 0
        tuples, low, n_between = tuples[has_some], low[has_some], n_between[has_some]
        tuples[:, c] = members[c][low + (rng.random(len(tuples)) * n_between).astype(np.int64)]
    return tuples


def _evenly(places: np.ndarray, most: int) -> np.ndarray:
    """Return at most ``most`` places, evenly from all of them."""
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.int64)]


# The order in which the ordered engine binds the events of a sequence: the user's or the cheapest one.

_ALIKE = 1.02  # the order of the pattern wins up to this ratio of costs, since rates are estimates
_CLEARLY_MORE = 1.2  # the numbers of matches are estimates
_MOST_SHOWN = 12  # branches whose orders are explained
_NOT_WORTH = 300_000  # fewer tests than this take less time than measuring selectivities


@dataclass(frozen=True, slots=True)
class BranchOrder:
    """The order of a branch's components, and the figures that speak for it."""

    order: tuple[int, ...]  # the components in search order
    is_given: bool  # whether the user fixed it
    # The measured rates, and the selectivities unless the rates alone show that the search is short.
    statistics: Statistics
    partial_matches: tuple[float, ...]  # expected number after each component of the order
    # cost, forward_cost: expected number of tested combinations of events, in this order and in the pattern's
    # own
    cost: float = 0.0
    forward_cost: float = 0.0


def run_in_order(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return the matches. The search, in the best order, runs when they are first needed."""
    return FoundLater(events, partial(_search, program), is_final=not program.can_be_forbidden_later)


def _search(program: SequenceProgram, events: Events, most_calls: int | None = None) -> SequenceSet:
    """Return the matches of a program; each branch is searched in its cheapest order."""
    ordered_events = OrderedEvents(program, events)
    chosen = [branch_order(ordered_events, bound) for bound in program.branches]
    expected = sum(each.partial_matches[-1] for each in chosen if each.partial_matches)
    # Too many matches to keep are counted at once.
    most_known = 0 if most_calls is None and expected > _CLEARLY_MORE * MOST_KNOWN else MOST_KNOWN
    return ordered_sequence(
        ordered_events, [each.order for each in chosen], most_known=most_known, most_calls=most_calls
    )


def branch_orders(program: SequenceProgram, events: Events) -> list[BranchOrder]:
    """Return the orders of the first branches, with costs even if the user gave the order."""
    ordered_events = OrderedEvents(program, events)
    return [branch_order(ordered_events, bound, explained=True) for bound in program.branches[:_MOST_SHOWN]]


def branch_order(events: OrderedEvents, bound: BoundBranch, *, explained: bool = False) -> BranchOrder:
    """Return the order in which a branch is searched, with the numbers that it comes from."""
    # The work is bounded, as samples are. The same events give the same order.
    user_order = events.program.given_order(bound)
    is_given = user_order is not None
    if user_order is not None and not explained:
        return BranchOrder(user_order, True, Statistics((), ()), ())
    pattern_order = tuple(range(len(bound.accepts)))
    if not events.places.n:
        nothing = (0.0,) * len(pattern_order)
        statistics = Statistics((0,) * len(pattern_order), nothing)
        return BranchOrder(user_order or pattern_order, is_given, statistics, nothing)
    statistics = measure_statistics(events, bound)
    rates = statistics.n_events, statistics.in_window, statistics.selectivities
    order = user_order or cheapest_order(*rates)
    cost = nested_search_cost(order, *rates)
    forward_cost = nested_search_cost(pattern_order, *rates)
    if not is_given and forward_cost <= _ALIKE * cost:
        order, cost = pattern_order, forward_cost
    expected = partial_matches(order, *rates)
    return BranchOrder(order, is_given, statistics, expected, cost, forward_cost)


def measure_statistics(
    events: OrderedEvents, bound: BoundBranch, not_worth: float | None = None
) -> Statistics:
    """Return rates of events and selectivities of conditions, measured on samples."""
    # A search of fewer than ``not_worth`` tests needs no selectivities.
    members = events.members_of(bound)
    later, window_end = events.limit("later"), events.limit("window_end")
    n_events, in_window = measure_rates(members, later, window_end)
    rates = n_events, in_window, ()
    if nested_search_cost(cheapest_order(*rates), *rates) < (_NOT_WORTH if not_worth is None else not_worth):
        return Statistics(n_events, in_window)

    def measure(name: str, components: frozenset[int], conditions=(), absences=()) -> Measured:
        def holds(places: np.ndarray) -> np.ndarray:
            accept = events.accept if absences else None
            n_of_component = np.ones((len(places), len(members)), np.int64)
            return holding(events.places, accept, bound, places.ravel(), n_of_component, conditions, absences)

        return measure_condition(name, components, holds, members, later, window_end)

    measured = []
    for i, bound_condition in enumerate(bound.conditions):
        if bound_condition.condition.absence is None:
            name = str(bound_condition.condition.expression)
            measured.append(measure(name, components_of_condition(bound_condition), conditions=(i,)))
    for a, absence in enumerate(bound.branch.absences):
        measured.append(measure(f"!{absence.variable}", components_of_absence(bound, a), absences=(a,)))
    return Statistics(n_events, in_window, tuple(measured))
