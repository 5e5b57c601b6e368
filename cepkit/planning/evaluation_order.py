"""In which order the ordered engine binds the events of a sequence: the user's, or the cheapest one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cepkit.compile.sequences.ordered_source import components_of_absence, components_of_condition
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.engines.ordered.ordered import OrderedEvents, ordered_sequence
from cepkit.engines.shared.condition_tests import holding
from cepkit.engines.shared.sequence_set import FoundLater, SequenceSet
from cepkit.events import Events
from cepkit.planning.cost import cheapest_order, nested_search_cost, partial_matches
from cepkit.planning.statistics import Measured, Statistics, measure_condition, measure_rates

_NOT_WORTH = 300_000  # tests that are made sooner than selectivities are measured


@dataclass(frozen=True, slots=True)
class BranchOrder:
    """The order of a branch's components, and what speaks for it.

    Parameters
    ----------
    order : tuple of int
        The components, the first to be bound first.
    is_given : bool
        Whether the user fixed it.
    statistics : Statistics
        What was measured; without conditions where the rates alone show that the search is short.
    partial_matches : tuple of float
        By place in the order: how many are expected.
    cost, forward_cost : float
        Expected tests of combinations of events, in this order and in the pattern's own.
    """

    order: tuple[int, ...]
    is_given: bool
    statistics: Statistics
    partial_matches: tuple[float, ...]
    cost: float = 0.0
    forward_cost: float = 0.0


def run_in_order(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return the matches, searched in the best order when they are looked at."""
    return FoundLater(events, partial(_found, program, events))


def _found(program: SequenceProgram, events: Events, most_calls: int | None = None) -> SequenceSet:
    own = OrderedEvents(program, events)
    orders = [branch_order(own, bound).order for bound in program.branches]
    return ordered_sequence(own, orders, most_calls=most_calls)


def branch_orders(program: SequenceProgram, events: Events, most: int = 12) -> list[BranchOrder]:
    """Return the orders of the first branches, of a user's order with its costs, too."""
    own = OrderedEvents(program, events)
    return [branch_order(own, bound, explained=True) for bound in program.branches[:most]]


def branch_order(own: OrderedEvents, bound: BoundBranch, *, explained: bool = False) -> BranchOrder:
    """Return the order in which the components of a branch are bound.

    Parameters
    ----------
    own : OrderedEvents
        The events.
    bound : BoundBranch
        A branch that the ordered engine can search.
    explained : bool
        Whether costs are computed where the user gave the order, too.

    Notes
    -----
    Bounded work: see `cepkit.planning.statistics`. The same events give the same order.
    """
    given = own.program.given_order(bound)
    if given is not None and not explained:
        return BranchOrder(given, True, Statistics((), ()), ())
    if not own.places.n:
        n = len(bound.accepts)
        none = Statistics((0,) * n, (0.0,) * n)
        return BranchOrder(given or tuple(range(n)), given is not None, none, (0.0,) * n)
    statistics = _measured(own, bound)
    rates = statistics.n_events, statistics.in_window, statistics.selectivities
    order = given or cheapest_order(*rates, nested_search_cost)
    cost, forward = (nested_search_cost(each, *rates) for each in (order, range(len(order))))
    expected = partial_matches(order, *rates)
    return BranchOrder(order, given is not None, statistics, expected, cost, forward)


def _measured(own: OrderedEvents, bound: BoundBranch) -> Statistics:
    search = own.members_of(bound)
    later, window_end = own.limit("later"), own.limit("window_end")
    n_events, in_window = measure_rates(search, later, window_end)
    rates = n_events, in_window, ()
    if nested_search_cost(cheapest_order(*rates, nested_search_cost), *rates) < _NOT_WORTH:
        return Statistics(n_events, in_window)
    ones = np.ones((1, len(search)), np.int64)

    def measured(name: str, components: frozenset[int], conditions=(), absences=()) -> Measured:
        def holds(places: np.ndarray) -> np.ndarray:
            accept = own.accept if absences else None
            size = np.repeat(ones, len(places), axis=0)
            return holding(own.places, accept, bound, places.ravel(), size, conditions, absences)

        return measure_condition(name, components, holds, search, later, window_end)

    made = []
    for i, one in enumerate(bound.conditions):
        if one.condition.absence is None:
            name = str(own.program.query.where[one.condition.conjunct])
            made.append(measured(name, components_of_condition(one), conditions=(i,)))
    for a, absence in enumerate(bound.branch.absences):
        made.append(measured(f"!{absence.variable}", components_of_absence(bound, a), absences=(a,)))
    return Statistics(n_events, in_window, tuple(made))
