"""The order in which the ordered engine binds the events of a sequence: the user's or the cheapest one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cepkit.compile.sequences.ordered_source import components_of_absence, components_of_condition
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.engines.ordered.ordered import OrderedEvents, ordered_sequence
from cepkit.engines.shared.condition_tests import holding
from cepkit.engines.shared.searched_matches import MOST_KNOWN
from cepkit.engines.shared.sequence_set import FoundLater, SequenceSet
from cepkit.events import Events
from cepkit.planning.cost import cheapest_order, nested_search_cost, partial_matches
from cepkit.planning.statistics import Measured, Statistics, measure_condition, measure_rates

_ALIKE = 1.02  # rates are estimates; conditions mostly compare an event with events before it
_CLEARLY_MORE = 1.2  # the numbers of matches are estimates
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
    own = OrderedEvents(program, events)
    chosen = [branch_order(own, bound) for bound in program.branches]
    expected = sum(each.partial_matches[-1] for each in chosen if each.partial_matches)
    # Too many matches to keep are counted at once.
    most_known = 0 if most_calls is None and expected > _CLEARLY_MORE * MOST_KNOWN else MOST_KNOWN
    return ordered_sequence(
        own, [each.order for each in chosen], most_known=most_known, most_calls=most_calls
    )


def branch_orders(program: SequenceProgram, events: Events, most: int = 12) -> list[BranchOrder]:
    """Return the orders of the first branches, with costs even if the user gave the order."""
    own = OrderedEvents(program, events)
    return [branch_order(own, bound, explained=True) for bound in program.branches[:most]]


def branch_order(own: OrderedEvents, bound: BoundBranch, *, explained: bool = False) -> BranchOrder:
    """Return the order in which the components of a branch are bound.

    The work is bounded, see `cepkit.planning.statistics`. The same events give the same order.
    """
    given = own.program.given_order(bound)
    if given is not None and not explained:
        return BranchOrder(given, True, Statistics((), ()), ())
    if not own.places.n:
        n = len(bound.accepts)
        none = Statistics((0,) * n, (0.0,) * n)
        return BranchOrder(given or tuple(range(n)), given is not None, none, (0.0,) * n)
    statistics = _measure_statistics(own, bound)
    rates = statistics.n_events, statistics.in_window, statistics.selectivities
    order = given or cheapest_order(*rates, nested_search_cost)
    own_order = tuple(range(len(order)))
    cost, forward = (nested_search_cost(each, *rates) for each in (order, own_order))
    if given is None and forward <= _ALIKE * cost:
        order, cost = own_order, forward
    expected = partial_matches(order, *rates)
    return BranchOrder(order, given is not None, statistics, expected, cost, forward)


def _measure_statistics(own: OrderedEvents, bound: BoundBranch) -> Statistics:
    search = own.members_of(bound)
    later, window_end = own.limit("later"), own.limit("window_end")
    n_events, in_window = measure_rates(search, later, window_end)
    rates = n_events, in_window, ()
    if nested_search_cost(cheapest_order(*rates, nested_search_cost), *rates) < _NOT_WORTH:
        return Statistics(n_events, in_window)
    ones = np.ones((1, len(search)), np.int64)

    def measure(name: str, components: frozenset[int], conditions=(), absences=()) -> Measured:
        def holds(places: np.ndarray) -> np.ndarray:
            accept = own.accept if absences else None
            size = np.repeat(ones, len(places), axis=0)
            return holding(own.places, accept, bound, places.ravel(), size, conditions, absences)

        return measure_condition(name, components, holds, search, later, window_end)

    made = []
    for i, one in enumerate(bound.conditions):
        if one.condition.absence is None:
            name = str(own.program.query.where[one.condition.conjunct])
            made.append(measure(name, components_of_condition(one), conditions=(i,)))
    for a, absence in enumerate(bound.branch.absences):
        made.append(measure(f"!{absence.variable}", components_of_absence(bound, a), absences=(a,)))
    return Statistics(n_events, in_window, tuple(made))
