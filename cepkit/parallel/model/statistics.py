"""Measure the input of the cost model on a sample: rates of events and selectivities of joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf, prod

import numpy as np

from cepkit.compile.sequences.elements import EARLIER, PREVIOUS
from cepkit.compile.sequences.ordered_source import components_of_absence, components_of_condition
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.compile.shared.terms import Term
from cepkit.engines.ordered.ordered import OrderedEvents
from cepkit.engines.shared.condition_tests import holding
from cepkit.errors import UnsupportedQueryError
from cepkit.events import Events
from cepkit.parallel.compile.joins import JoinPlan, LevelJoin, joins_unsupported, plan_joins
from cepkit.parallel.model.rates import AgentRates
from cepkit.planning.statistics import measure_condition, measure_rates

_TICKS_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def agent_statistics(
    program: SequenceProgram,
    events: Events,
    orders: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
) -> tuple[AgentRates, ...]:
    """Measure the rates and selectivities of a program on a sample of events.

    The selectivity of a join is the product over all conditions and absences that it decides, measured
    separately. Earlier loops are measured with their least number of events. A window of n events lasts as
    long as n events of the sample on average. Events that all happen at once count as one per second. The
    work is bounded: see `cepkit.planning.statistics`.
    """
    if reason := next((why for bound in program.branches if (why := joins_unsupported(bound))), None):
        raise UnsupportedQueryError(f"agent statistics: this query {reason}")
    plans = [
        plan_joins(bound, program.given_order(bound) if orders is None else orders[b])
        for b, bound in enumerate(program.branches)
    ]
    own = OrderedEvents(program, events)
    duration = _duration(own)
    sample = _EventSample(own, duration, _window(own, duration), seed)
    return tuple(sample.rates(plan) for plan in plans)


def _duration(own: OrderedEvents) -> float:
    """Return the time that the events span, in seconds."""
    n, clock = own.places.n, own.program.clock
    if clock is None or clock not in own.program.columns_to_read:
        duration = float(n)
    else:
        time = own.places.time
        duration = float(time.max() - time.min()) / _ticks_per_s(own.program) if n else 0.0
    return duration if duration > 0 else float(max(n, 1))


def _window(own: OrderedEvents, duration: float) -> float:
    """Return the length of a window in seconds."""
    window = own.program.window
    made = duration
    if window.within is not None:
        made = min(made, window.within / _ticks_per_s(own.program))
    if window.within_events is not None:
        made = min(made, window.within_events * duration / max(own.places.n, 1))
    return float(made)


def _ticks_per_s(program: SequenceProgram) -> int:
    return _TICKS_PER_S.get(program.schema[program.clock].unit, 1)


class _EventSample:
    """The places of events from which combinations are drawn."""

    def __init__(self, own: OrderedEvents, duration: float, window: float, seed: int):
        self.own, self.duration, self.window, self.seed = own, duration, window, seed
        self.later, self.window_end = own.limit("later"), own.limit("window_end")

    def rates(self, plan: JoinPlan) -> AgentRates:
        members = self.own.members_of(plan.bound)
        n_events, in_window = measure_rates(members, self.later, self.window_end)
        in_gap = (inf,) * len(members)
        if self.own.program.window.gap_within is not None:
            ends = np.minimum(self.own.limit("gap_end"), self.window_end)
            in_gap = measure_rates(members, self.later, ends)[1]
        shares = [_JoinShares(self, plan.bound, members, join) for join in plan.joins]
        return AgentRates(
            tuple(n_events[c] / self.duration for c in plan.order),
            self.window,
            selectivities=tuple(one.first() for one in shares),
            loop_selectivities=tuple(one.further() for one in shares),
            passing=tuple(one.completing() if one.join.is_loop else 1.0 for one in shares),
            repeats=tuple((join.low, join.high) for join in plan.joins),
            in_window=tuple(in_window[c] for c in plan.order),
            in_gap=tuple(in_gap[join.component] if _has_gap(join) else inf for join in plan.joins),
        )


class _JoinShares:
    """The share of combinations that pass the tests of a join."""

    def __init__(
        self, sample: _EventSample, bound: BoundBranch, members: Sequence[np.ndarray], join: LevelJoin
    ):
        self.sample, self.bound, self.members, self.join = sample, bound, members, join

    def first(self) -> float:
        """Return the share of events that can be the component's first; without a loop, its only one."""
        c = self.join.component
        shares = [self._condition(i, 1) for i in self.join.taking if not self._looks_back(i, c)]
        return prod(shares) * (1.0 if self.join.is_loop else self.completing())

    def further(self) -> float:
        """Return the share of events that can be a further one of a loop; without a loop, `first`."""
        if not self.join.is_loop:
            return self.first()
        c = self.join.component
        shares = [self._condition(i, 2 if self._looks_back(i, c) else 1) for i in self.join.taking]
        return prod(shares)

    def completing(self) -> float:
        """Return the share of complete components that pass the remaining conditions and absences."""
        shares = [self._condition(i) for i in self.join.completing]
        return prod([*shares, *map(self._absence, self.join.absences)])

    def _looks_back(self, i: int, c: int) -> bool:
        """Return whether a condition compares an event of loop ``c`` with earlier ones of the loop."""
        one = self.bound.conditions[i]
        back = {_looked_back_at(leaf) for leaf in one.term.walk()}
        return any(one.component_of_variable.get(variable) == c for variable in back)

    def _condition(self, i: int, own: int | None = None) -> float:
        """Return the share that satisfies a condition; ``own``: number of events of the join's component."""
        of = components_of_condition(self.bound.conditions[i])
        components = self.bound.branch.components
        sizes = {c: max(components[c].low, 2 if self._looks_back(i, c) else 1) for c in of}
        sizes |= {} if own is None else {self.join.component: own}
        return self._share(f"condition {i}", of, sizes, conditions=(i,))

    def _absence(self, a: int) -> float:
        of = components_of_absence(self.bound, a)
        return self._share(f"absence {a}", of, {}, absences=(a,))

    def _share(
        self, name: str, of: Iterable[int], sizes: Mapping[int, int], conditions=(), absences=()
    ) -> float:
        sample, own = self.sample, self.sample.own
        size = np.array([sizes.get(c, 1) for c in range(len(self.members))], np.int64)
        first = np.concatenate([[0], np.cumsum(size)])
        drawn = frozenset(chain.from_iterable(range(first[c], first[c + 1]) for c in of or [0]))

        def holds(places: np.ndarray) -> np.ndarray:
            accept = own.accept if absences else None
            sizes_of = np.repeat(size[None, :], len(places), axis=0)
            return holding(own.places, accept, self.bound, places.ravel(), sizes_of, conditions, absences)

        members = [self.members[c] for c in np.repeat(np.arange(len(size)), size)]
        drawing = (sample.later, sample.window_end, sample.seed)
        return measure_condition(name, drawn, holds, members, *drawing).selectivity


def _has_gap(join: LevelJoin) -> bool:
    """Return whether a neighbour of the join's event in the match is bound earlier."""
    c = join.component
    return join.is_loop or join.after == c - 1 >= 0 or join.before == c + 1


def _looked_back_at(leaf: Term) -> str | None:
    """Return the variable whose earlier events a leaf reads, or None."""
    if leaf.op == "element" and leaf.data[1] == PREVIOUS:
        return leaf.data[0]
    return leaf.data[1] if leaf.op == "group" and leaf.data[2] == EARLIER else None
