"""First half of the cost model of hybrid agents: arrivals at agents, and the sizes of their buffers.

``model="paper"`` uses the formulas of the paper. ``"simplex"`` counts only events in order and in one window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, isinf

from cepkit.errors import CepError

MODELS = ("paper", "simplex")
REMOVALS = ("window", "watermark")
Delay = float | Sequence[float]
_NEGLIGIBLE = 1e-15  # ignore further terms below this share of a sum


@dataclass(frozen=True, slots=True)
class AgentRates:
    """The input of the cost model; components are in binding order.

    A single number in place of a tuple applies to all components. Only ``rates`` and ``window`` are
    required.

    Source: HYPERSONIC, section IV.
    Differs: ``loop_selectivities``, ``passing``, limits of ``repeats``, ``in_window`` and ``in_gap`` are new.
    The paper has one predicate per agent, loops without limit, no partitions and no gaps.
    """

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
        """Return how many events of a component can follow a partial match of n events.

        One in n events in the window of the first event comes after all n events.

        """
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
    for n, rate in layer.items():
        to[n] = to.get(n, 0.0) + rate * share


def agent_flows(rates: AgentRates, model: str) -> list[Flow]:
    """Return the flow of every agent."""
    return [flow for flow in flows_of(rates, model) if flow.component in rates.agents]


# --- arrivals ---


def arrival_rates(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return how many partial matches arrive at each agent, including those of its own loop.

    paper: m_2 = e_1, m_i = m_{i-1} e_{i-1} s_{i-1} W. simplex: m_i = e_1 prod_{1<j<i} e_j s_j W / (j - 1).
    Each further event divides by the number of events before it, because only one order of the independent
    events in a window is right. After loops, partial matches are counted separately for every number of
    events.

    Source: HYPERSONIC, section IV.
    Differs: the paper's form is (i - 2)! times too large for Poisson streams; it is kept as ``"paper"``.
    """
    return tuple(sum(flow.arriving.values()) for flow in agent_flows(rates, model))


def sending_rates(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return how many partial matches each agent sends, 1/s; for arguments see `arrival_rates`.

    Source: HYPERSONIC, section IV: m_{i+1}.
    Differs: simplex adds the partial matches that a loop sends to its own queue.
    """
    return tuple(
        sum(flow.sent_on.values()) + (flow.looped if model == "simplex" else 0.0)
        for flow in agent_flows(rates, model)
    )


# --- buffers ---


def event_buffer_sizes(rates: AgentRates, removal: str = "window", delay: float = 0.0) -> tuple[float, ...]:
    """Return how many events each agent's event workers keep.

    Source: HYPERSONIC, section IV-A: residence times.
    Differs: the paper continues with d = 0. ``"watermark"`` belongs to the corrected removal.
    """
    if removal not in REMOVALS:
        raise CepError(f"removal {removal!r} is not known. There are {list(REMOVALS)}")
    stays = rates.window if removal == "window" else 0.0
    return tuple(
        rates.rates[c] * (stays + d) for c, d in zip(rates.agents, delays(rates, delay), strict=True)
    )


def match_buffer_sizes(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many partial matches each agent's match workers keep.

    Source: HYPERSONIC, section IV-A.
    Differs: in the paper, partial matches stay for a whole window after their last event.
    """
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
    made = tuple(delay) if hasattr(delay, "__len__") else (delay,) * n
    if len(made) != n:
        raise CepError(f"delay: {len(made)} values. There must be {n}, one per agent")
    return made


def shares_left(rates: AgentRates, delay: Delay) -> tuple[float, ...]:
    """Return the share of a window that is left after the delay, by agent."""
    w = rates.window
    return tuple(max(w - d, 0.0) / w if w else 0.0 for d in delays(rates, delay))
