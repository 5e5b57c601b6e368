"""The cost model of agents: arrivals, buffers and work per second of a sample; threads by the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from math import floor, inf, isinf, prod

import numpy as np

from cepkit.compile.sequence_program import (
    EARLIER,
    PREVIOUS,
    BoundBranch,
    SequenceProgram,
    components_of_absence,
    components_of_condition,
)
from cepkit.compile.shared.terms import Term
from cepkit.engines.ordered import OrderedEvents
from cepkit.engines.shared.python_kernels import holding
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.parallel.joins import JoinPlan, LevelJoin, joins_unsupported, plan_joins
from cepkit.planning.evaluation_order import measure_condition, measure_rates
from cepkit.values import dataclass, fields

# First half of the cost model of hybrid agents: arrivals at agents, and the sizes of their buffers.
#
# ``model="paper"`` uses the formulas of the paper. ``"simplex"`` counts only events in order and in one
# window.

MODELS = ("paper", "simplex")
REMOVALS = ("window", "watermark")
Delay = float | Sequence[float]
_NEGLIGIBLE = 1e-15  # ignore further terms below this share of a sum


@dataclass(frozen=True, slots=True)
class AgentRates:
    """The input of the cost model; components are in binding order."""

    # A single number in place of a tuple applies to all components. Only ``rates`` and ``window`` are
    # required.
    # Source: HYPERSONIC, section IV.
    # Differs: ``loop_selectivities``, ``passing``, limits of ``repeats``, ``in_window`` and ``in_gap`` are
    # new. The paper has one predicate per agent, loops without limit, no partitions and no gaps.

    rates: tuple[float, ...]  # e_i: accepted events per second
    window: float  # W, in seconds
    # S_i: share of pairs that satisfy the conditions. A pair is a partial match and an event, in order and in
    # one window. The value of the first component is ignored, since its rate counts accepted events.
    selectivities: tuple[float, ...] | float = 1.0
    # The same for the second and every further event of a loop. Empty: as ``selectivities``.
    loop_selectivities: tuple[float, ...] | float = ()
    # Share of partial matches that pass the tests of a complete component.
    passing: tuple[float, ...] | float = 1.0
    repeats: tuple[tuple[int, int | None], ...] = ()  # least and most events of the component; None: no limit
    # Events of the component in a window after an event of the pattern, in the same partition. Empty: e_i W.
    in_window: tuple[float, ...] = ()
    # Events that are near enough to be the next event, if the query limits gaps; inf: no limit.
    in_gap: tuple[float, ...] | float = inf
    # evaluation_cost, lock_cost, send_cost: c_i, b_i, q_i: ns to test the conditions of a pair, to lock a
    # buffer, to send a partial match
    evaluation_cost: tuple[float, ...] | float = 5.0
    lock_cost: tuple[float, ...] | float = 50.0
    send_cost: tuple[float, ...] | float = 50.0

    def __post_init__(self) -> None:
        n = len(self.rates)
        if not n:
            raise CepError("rates is empty. A pattern has at least one component")
        left_out = {
            "loop_selectivities": lambda: self.selectivities,
            "repeats": lambda: ((1, 1),) * n,
            "in_window": lambda: tuple(rate * self.window for rate in self.rates),
        }
        for name in (field.name for field in fields(self) if field.name != "window"):
            value = getattr(self, name)
            value = tuple(value) if hasattr(value, "__len__") else (value,) * n
            if not value and name in left_out:
                value = left_out[name]()
            if len(value) != n:
                raise CepError(f"{name}: {len(value)} values. There must be {n}, one per component")
            object.__setattr__(self, name, value)

    @property
    def agents(self) -> tuple[int, ...]:
        """Components that have an agent: all but the first, unless the first is a loop."""
        return tuple(c for c, (_, most) in enumerate(self.repeats) if c or most != 1)

    def partners(self, component: int, n: int) -> float:
        """Return how many events of a component can follow a partial match of n events."""
        # One in n events in the window of the first event comes after all n events.
        return min(self.in_window[component] / n, self.in_gap[component])


@dataclass(frozen=True, slots=True)
class Flow:
    """Partial matches that arrive at an agent and that it sends, per second."""

    component: int  # component of the agent
    # arriving, sent_on: partial matches that arrive, and those for the next agent, by number of events
    arriving: dict[int, float]
    sent_on: dict[int, float]
    looped: float  # partial matches for the agent's own queue


def flows_of(rates: AgentRates, model: str) -> list[Flow]:
    """Return the flow of every component, also of a first component without an agent."""
    if model not in MODELS:
        raise CepError(f"model {model!r} is not known. There are {list(MODELS)}")
    flows = []
    incoming = {1: rates.rates[0]}
    for c, (low, high) in enumerate(rates.repeats):

        def growth(n: int, bound: int, c: int = c) -> float:
            """Return how many partial matches of n + 1 events arise from one of n events.

            ``bound`` of the n events belong to the component.
            """
            share = (rates.loop_selectivities if bound else rates.selectivities)[c]
            if model == "paper":
                return rates.rates[c] * rates.window * share
            return rates.partners(c, n) * share

        # A new partial match already has one event of the first component.
        bound = 0 if c else 1
        layer, arriving, sent_on, looped = incoming, {}, {}, 0.0
        if bound and low <= 1:
            _add(sent_on, layer, rates.passing[c])
        endless = high is None and model == "paper" and growth(1, 1) >= 1
        while high is None or bound < high:
            _add(arriving, layer)
            layer = {n + 1: rate * growth(n, bound) for n, rate in layer.items()}
            bound += 1
            if endless:
                layer = dict.fromkeys(layer, inf)
            if bound >= low:
                _add(sent_on, layer, rates.passing[c])
            if high is None or bound < high:
                looped += sum(layer.values())
            total = sum(layer.values())
            done = total <= _NEGLIGIBLE * (sum(arriving.values()) or 1.0) and bound >= low
            if isinf(total) or (high is None and done):
                _add(arriving, layer)
                break
        flows.append(Flow(c, arriving, sent_on, looped))
        incoming = sent_on
    return flows


def _add(to: dict[int, float], layer: dict[int, float], share: float = 1.0) -> None:
    """Add the rates of a layer, times a share, to ``to``; both are by number of events."""
    for n, rate in layer.items():
        to[n] = to.get(n, 0.0) + rate * share


def agent_flows(rates: AgentRates, model: str) -> list[Flow]:
    """Return the flow of each agent."""
    return [flow for flow in flows_of(rates, model) if flow.component in rates.agents]


# --- arrivals ---


def arrival_rates(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return how many partial matches arrive at each agent, including those of its own loop."""
    # paper: m_2 = e_1, m_i = m_{i-1} e_{i-1} s_{i-1} W. simplex: m_i = e_1 prod_{1<j<i} e_j s_j W / (j - 1).
    # Each further event divides by the number of events before it, because only one order of the independent
    # events in a window is right. After loops, partial matches are counted separately for every number of
    # events.
    # Source: HYPERSONIC, section IV.
    # Differs: the paper's form is (i - 2)! times too large for Poisson streams; it is kept as ``"paper"``.
    return tuple(sum(flow.arriving.values()) for flow in agent_flows(rates, model))


def sending_rates(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return how many partial matches each agent sends, 1/s; for arguments see `arrival_rates`."""
    # Source: HYPERSONIC, section IV: m_{i+1}.
    # Differs: simplex adds the partial matches that a loop sends to its own queue.
    return tuple(
        sum(flow.sent_on.values()) + (flow.looped if model == "simplex" else 0.0)
        for flow in agent_flows(rates, model)
    )


# --- buffers ---


def event_buffer_sizes(rates: AgentRates, removal: str = "window", delay: float = 0.0) -> tuple[float, ...]:
    """Return how many events each agent's event workers keep."""
    # Source: HYPERSONIC, section IV-A: residence times.
    # Differs: the paper continues with d = 0. ``"watermark"`` belongs to the corrected removal.
    if removal not in REMOVALS:
        raise CepError(f"removal {removal!r} is not known. There are {list(REMOVALS)}")
    stays = rates.window if removal == "window" else 0.0
    return tuple(
        rates.rates[c] * (stays + d) for c, d in zip(rates.agents, delays(rates, delay), strict=True)
    )


def match_buffer_sizes(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many partial matches each agent's match workers keep."""
    # Source: HYPERSONIC, section IV-A.
    # Differs: in the paper, partial matches stay for a whole window after their last event.
    left = shares_left(rates, delay)
    if model == "paper":
        pairs = zip(arrival_rates(rates, model), left, strict=True)
        return tuple(m * rates.window * share for m, share in pairs)
    return tuple(
        sum(m * rates.window / n * share**n for n, m in flow.arriving.items())
        for flow, share in zip(agent_flows(rates, model), left, strict=True)
    )


def delays(rates: AgentRates, delay: Delay) -> tuple[float, ...]:
    """Return the delay of every agent in seconds; raise CepError if the number of delays is wrong."""
    n = len(rates.agents)
    delay_of_agent = tuple(delay) if hasattr(delay, "__len__") else (delay,) * n
    if len(delay_of_agent) != n:
        raise CepError(f"delay: {len(delay_of_agent)} values. There must be {n}, one per agent")
    return delay_of_agent


def shares_left(rates: AgentRates, delay: Delay) -> tuple[float, ...]:
    """Return the share of a window that is left after the delay, by agent."""
    w = rates.window
    return tuple(max(w - d, 0.0) / w if w else 0.0 for d in delays(rates, delay))


# Measure the input of the cost model on a sample: rates of events and selectivities of joins.

_TICKS_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def agent_statistics(
    program: SequenceProgram, events: Events, orders: Sequence[Sequence[int]] | None = None, seed: int = 0
) -> tuple[AgentRates, ...]:
    """Measure the rates and selectivities of a program on a sample of events."""
    # The selectivity of a join is the product over all conditions and absences that it decides, measured
    # separately. Earlier loops are measured with their least number of events. A window of n events lasts as
    # long as n events of the sample on average. Events that all happen at once count as one per second. The
    # work is bounded: see `cepkit.planning.evaluation_order`.
    if reason := next((why for bound in program.branches if (why := joins_unsupported(bound))), None):
        raise UnsupportedQueryError(f"agent statistics: this query {reason}")
    plans = [
        plan_joins(bound, program.given_order(bound) if orders is None else orders[b])
        for b, bound in enumerate(program.branches)
    ]
    ordered = OrderedEvents(program, events)
    duration = _duration(ordered)
    sample = _EventSample(ordered, duration, _window(ordered, duration), seed)
    return tuple(sample.rates(plan) for plan in plans)


def _duration(ordered: OrderedEvents) -> float:
    """Return the time that the events span, in seconds."""
    n, clock = ordered.places.n, ordered.program.clock
    if clock is None or clock not in ordered.program.columns_to_read:
        duration = float(n)
    else:
        time = ordered.places.time
        duration = float(time.max() - time.min()) / _ticks_per_s(ordered.program) if n else 0.0
    return duration if duration > 0 else float(max(n, 1))


def _window(ordered: OrderedEvents, duration: float) -> float:
    """Return the length of a window in seconds."""
    window = ordered.program.window
    length = duration
    if window.within is not None:
        length = min(length, window.within / _ticks_per_s(ordered.program))
    if window.within_events is not None:
        length = min(length, window.within_events * duration / max(ordered.places.n, 1))
    return float(length)


def _ticks_per_s(program: SequenceProgram) -> int:
    """Return the ticks of the clock in a second."""
    return _TICKS_PER_S.get(program.schema[program.clock].unit, 1)


class _EventSample:
    """The places of events from which combinations are drawn."""

    def __init__(self, own: OrderedEvents, duration: float, window: float, seed: int):
        self.own, self.duration, self.window, self.seed = own, duration, window, seed
        self.later, self.window_end = own.limit("later"), own.limit("window_end")

    def rates(self, plan: JoinPlan) -> AgentRates:
        """Return the rates and selectivities of a branch, measured on the sample."""
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
            selectivities=tuple(share.first() for share in shares),
            loop_selectivities=tuple(share.further() for share in shares),
            passing=tuple(share.completing() if share.join.is_loop else 1.0 for share in shares),
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
        """Return the share of events with which the component of this join can begin."""
        c = self.join.component
        shares = [self._condition(i, 1) for i in self.join.taking if not self._looks_back(i, c)]
        return prod(shares) * (1.0 if self.join.is_loop else self.completing())

    def further(self) -> float:
        """Return the share of events that can be a further event of a loop; without a loop, as `first`."""
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
        condition = self.bound.conditions[i]
        back = {_looked_back_at(leaf) for leaf in condition.term.walk()}
        return any(condition.component_of_variable.get(variable) == c for variable in back)

    def _condition(self, i: int, own: int | None = None) -> float:
        """Return the share that satisfies a condition; ``own``: number of events of the join's component."""
        compared = components_of_condition(self.bound.conditions[i])
        components = self.bound.branch.components
        sizes = {c: max(components[c].low, 2 if self._looks_back(i, c) else 1) for c in compared}
        sizes |= {} if own is None else {self.join.component: own}
        return self._share(f"condition {i}", compared, sizes, conditions=(i,))

    def _absence(self, a: int) -> float:
        """Return the share of combinations without a forbidden event."""
        components = components_of_absence(self.bound, a)
        return self._share(f"absence {a}", components, {}, absences=(a,))

    def _share(
        self, name: str, of: Iterable[int], sizes: Mapping[int, int], conditions=(), absences=()
    ) -> float:
        """Return the share of drawn combinations of events that pass conditions and absences."""
        sample, ordered = self.sample, self.sample.own
        size = np.array([sizes.get(c, 1) for c in range(len(self.members))], np.int64)
        first = np.concatenate([[0], np.cumsum(size)])
        drawn = frozenset(chain.from_iterable(range(first[c], first[c + 1]) for c in of or [0]))

        def holds(places: np.ndarray) -> np.ndarray:
            """Return which rows of drawn places fulfil the conditions and absences."""
            accept = ordered.accept if absences else None
            sizes_of = np.repeat(size[None, :], len(places), axis=0)
            return holding(ordered.places, accept, self.bound, places.ravel(), sizes_of, conditions, absences)

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


# Second half of the cost model of hybrid agents: the work per second that arrivals cause.
#
# See `cepkit.parallel.model` for the values and the two models.


def event_loads(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many pairs each agent's event workers evaluate, 1/s."""
    # Source: HYPERSONIC, section IV: e_i abs(MB_i), with abs(MB_i) = m_i W.
    # Differs: simplex counts partners in order and window only: m_i in_window_i / (i - 1).
    if model == "paper":
        sizes = match_buffer_sizes(rates, model, delay)
        return tuple(rates.rates[c] * size for c, size in zip(rates.agents, sizes, strict=True))
    return _pairs(rates, model, delay, lambda left, n: left**n)


def match_loads(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many pairs each agent's match workers evaluate, 1/s; for arguments see `event_loads`."""
    # Source: HYPERSONIC, section IV: m_i abs(IB_i), with abs(IB_i) = e_i W.
    # Differs: simplex evaluates no pair twice. Match workers evaluate only the events that came within the
    # delay of a partial match. Without delay, event workers evaluate all pairs.
    if model == "paper":
        sizes = event_buffer_sizes(rates, "window", delay)
        return tuple(m * size for m, size in zip(arrival_rates(rates, model), sizes, strict=True))
    return _pairs(rates, model, delay, lambda left, n: 1 - left**n)


def _pairs(
    rates: AgentRates, model: str, delay: Delay, share: Callable[[float, int], float]
) -> tuple[float, ...]:
    """Return each agent's pairs in order; ``share`` gives the part that counts, by delay and n events."""
    return tuple(
        sum(m * rates.partners(flow.component, n) * share(left, n) for n, m in flow.arriving.items())
        for flow, left in zip(agent_flows(rates, model), shares_left(rates, delay), strict=True)
    )


def evaluation_rates(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return how many pairs each agent evaluates, 1/s; for arguments see `arrival_rates`."""
    # Source: HYPERSONIC, section IV: 2 e_i m_i W.
    # Differs: simplex evaluates each pair in order and in a window once, with any delay.
    pairs = zip(event_loads(rates, model), match_loads(rates, model), strict=True)
    return tuple(event + match for event, match in pairs)


def computation(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return the time for conditions, in ns per second by agent: c_i (l_event,i + l_match,i)."""
    # Source: HYPERSONIC, section IV: comp_i = 2 c_i e_i m_i W.
    evaluations = evaluation_rates(rates, model)
    return tuple(rates.evaluation_cost[c] * n for c, n in zip(rates.agents, evaluations, strict=True))


def synchronisation(
    rates: AgentRates, event_workers: Sequence[float], match_workers: Sequence[float], model: str = "simplex"
) -> tuple[float, ...]:
    """Return the time for locks and queues, in ns per second by agent."""
    # Source: HYPERSONIC, section IV: sync_i = b_i (e_i + m_i) T_i / 2 + q_i m_{i+1}.
    # Differs: the paper's formula assumes equally many workers of both kinds.
    m, sent = arrival_rates(rates, model), sending_rates(rates, model)
    times = []
    for a, c in enumerate(rates.agents):
        locks = rates.rates[c] * match_workers[a] + m[a] * event_workers[a]
        times.append(rates.lock_cost[c] * locks + rates.send_cost[c] * sent[a])
    return tuple(times)


def agent_loads(
    rates: AgentRates, event_workers: Sequence[float], match_workers: Sequence[float], model: str = "simplex"
) -> tuple[float, ...]:
    """Return the work of each agent, in ns per second: computation and synchronisation."""
    # Source: HYPERSONIC, section IV: load_i = comp_i + sync_i.
    waits = synchronisation(rates, event_workers, match_workers, model)
    return tuple(map(sum, zip(computation(rates, model), waits, strict=True)))


# Decide by the cost model how many threads and workers each agent gets, and which agents are fused.

COST_MODELS = (*MODELS, "measured")
_ROUNDING = 1e-9  # error of a share that should be a whole number
LEAST_THREADS = 2  # an event worker and a match worker


def thread_shares(loads: Sequence[float], threads: int) -> tuple[float, ...]:
    """Return each agent's share of the threads, in proportion to its load and not rounded."""
    # Source: HYPERSONIC, section IV: T_i = load_i / sum_j load_j.
    # Differs: the printed formula lacks the factor T.
    if inf in loads:
        loads = [float(load == inf) for load in loads]
    most = max(loads, default=0.0)
    scaled = [load / most for load in loads] if most > 0 else [1.0] * len(loads)
    total = sum(scaled)
    return tuple(threads * load / total for load in scaled)


def allocate_threads(
    loads: Sequence[float], threads: int, least: int | Sequence[int] = LEAST_THREADS
) -> tuple[int, ...]:
    """Return the number of threads of each agent, by load."""
    # Shares are rounded down, but not below ``least``. The agents furthest below their share get the
    # remaining threads. If the sum is too large, the agents with the most threads give some up.
    # Source: HYPERSONIC, section IV, leaves the rounding open.
    fewest = [least] * len(loads) if isinstance(least, int) else list(least)
    if threads < sum(fewest):
        raise CepError(f"threads={threads}: {len(loads)} agents need at least {sum(fewest)}")
    shares = thread_shares(loads, threads)
    counts = [max(n, floor(share + _ROUNDING)) for n, share in zip(fewest, shares, strict=True)]
    short = sorted(range(len(loads)), key=lambda i: (counts[i] - shares[i], i))
    for i in short[: max(threads - sum(counts), 0)]:
        counts[i] += 1
    while sum(counts) > threads:
        # Among agents with equally many threads, the one with less load gives; at equal load, the later one.
        giving = [i for i in range(len(loads)) if counts[i] > fewest[i]]
        counts[min(giving, key=lambda i: (-counts[i], shares[i], -i))] -= 1
    return tuple(counts)


def split_by_load(threads: int, event_load: float, match_load: float) -> tuple[int, int]:
    """Return the number of event workers and of match workers by their measured loads, at least 1 each."""
    share = thread_shares([event_load, match_load], threads)[0]
    events = min(max(floor(share + 0.5), 1), threads - 1)
    return events, threads - events


def pairs_to_fuse(
    loads: Sequence[float], n_pairs: int, followed: Iterable[int] | None = None
) -> tuple[int, ...]:
    """Return the first agents of ``n_pairs`` disjoint pairs of neighbours with the least total load."""
    n = len(loads)
    firsts = range(n - 1) if followed is None else set(followed)
    # best[k][p]: the least load of p pairs among the last k agents, and the first agents of the pairs.
    nothing: list[tuple[float, tuple[int, ...]]] = [(inf, ())] * n_pairs
    best = [[(0.0, ()), *nothing]]
    for a in reversed(range(n)):
        best_pairs = list(best[-1])
        for left in range(1, n_pairs + 1 if a in firsts else 0):
            cost, pairs = best[-2][left - 1]
            best_pairs[left] = min(best_pairs[left], (cost + loads[a] + loads[a + 1], (a, *pairs)))
        best.append(best_pairs)
    return max((pairs for cost, pairs in best[-1] if cost < inf), key=len)
