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

    Parameters
    ----------
    rates : tuple of float, by component
        e_i: accepted events per second.
    window : float
        W, in seconds.
    selectivities : tuple of float, by component
        s_i: share of pairs that satisfy the conditions. A pair is a partial match and an event, in order and
        in one window. The value of the first component is ignored, since its rate counts accepted events.
    loop_selectivities : tuple of float, by component
        The same for the second and every further event of a loop. Empty: as ``selectivities``.
    passing : tuple of float, by component
        Share of partial matches that pass the tests of a complete component.
    repeats : tuple of (int, int or None), by component
        Least and most events of the component; None: no limit.
    in_window : tuple of float, by component
        Events of the component in a window after an event of the pattern, in the same partition.
        Empty: e_i W.
    in_gap : tuple of float, by component
        Events that are near enough to be the next event, if the query limits gaps; inf: no limit.
    evaluation_cost, lock_cost, send_cost : tuple of float, by component
        c_i, b_i, q_i: ns to test the conditions of a pair, to lock a buffer, to send a partial match.

    Raises
    ------
    CepError
        When a tuple does not have one value per component, or ``rates`` is empty.

    Notes
    -----
    A single number in place of a tuple applies to all components. Only ``rates`` and ``window`` are required.
    Source: HYPERSONIC, section IV.
    Differs: ``loop_selectivities``, ``passing``, limits of ``repeats``, ``in_window`` and ``in_gap`` are new.
    The paper has one predicate per agent, loops without limit, no partitions and no gaps.

    Examples
    --------
    >>> AgentRates((1.0, 2.0, 0.5), window=10.0, selectivities=(1.0, 0.1, 0.2)).agents
    (1, 2)
    """

    rates: tuple[float, ...]
    window: float
    selectivities: tuple[float, ...] | float = 1.0
    loop_selectivities: tuple[float, ...] | float = ()
    passing: tuple[float, ...] | float = 1.0
    repeats: tuple[tuple[int, int | None], ...] = ()
    in_window: tuple[float, ...] = ()
    in_gap: tuple[float, ...] | float = inf
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
    """Partial matches that arrive at an agent and that it sends, per second.

    Parameters
    ----------
    component : int
        Component of the agent.
    arriving, sent_on : dict of int to float
        Partial matches that arrive, and those for the next agent, by number of events.
    looped : float
        Partial matches for the agent's own queue.
    """

    component: int
    arriving: dict[int, float]
    sent_on: dict[int, float]
    looped: float


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

    Parameters
    ----------
    rates : AgentRates
        Rates of the pattern.
    model : str
        ``"paper"`` or ``"simplex"``.

    Returns
    -------
    tuple of float, by agent
        m_i, 1/s.

    Raises
    ------
    CepError
        When the model is unknown.

    Notes
    -----
    paper: m_2 = e_1, m_i = m_{i-1} e_{i-1} s_{i-1} W.
    simplex: m_i = e_1 prod_{1<j<i} e_j s_j W / (j - 1). Each further event divides by the number of events
    before it, because only one order of the independent events in a window is right. After loops, partial
    matches are counted separately for every number of events.
    Source: HYPERSONIC, section IV.
    Differs: the paper's form is (i - 2)! times too large for Poisson streams; it is kept as ``"paper"``.

    Examples
    --------
    >>> four = AgentRates((1.0, 1.0, 1.0, 1.0), window=6.0)
    >>> arrival_rates(four, "paper")
    (1.0, 6.0, 36.0)
    >>> arrival_rates(four)
    (1.0, 6.0, 18.0)
    """
    return tuple(sum(flow.arriving.values()) for flow in agent_flows(rates, model))


def sending_rates(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return how many partial matches each agent sends, 1/s; for arguments see `arrival_rates`.

    Notes
    -----
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

    Parameters
    ----------
    rates : AgentRates
        Rates of the pattern.
    removal : str
        ``"window"``: events stay for a window and the delay. ``"watermark"``: events stay until no partial
        match before them can still arrive. In a sequence that is bound from first to last, this takes only
        the delay.
    delay : float, or sequence of float by agent
        d: seconds from the last event of a partial match to its arrival.

    Returns
    -------
    tuple of float, by agent
        abs(IB_i): e_i (W + d), or e_i d.

    Notes
    -----
    Source: HYPERSONIC, section IV-A: residence times.
    Differs: the paper continues with d = 0. ``"watermark"`` belongs to the corrected removal.

    Examples
    --------
    >>> two = AgentRates((1.0, 4.0), window=10.0)
    >>> event_buffer_sizes(two), event_buffer_sizes(two, "watermark", delay=0.5)
    ((40.0,), (2.0,))
    """
    if removal not in REMOVALS:
        raise CepError(f"removal {removal!r} is not known. There are {list(REMOVALS)}")
    stays = rates.window if removal == "window" else 0.0
    return tuple(
        rates.rates[c] * (stays + d) for c, d in zip(rates.agents, delays(rates, delay), strict=True)
    )


def match_buffer_sizes(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many partial matches each agent's match workers keep.

    Parameters
    ----------
    rates, model
        See `arrival_rates`.
    delay
        See `event_buffer_sizes`.

    Returns
    -------
    tuple of float, by agent
        abs(MB_i). paper: m_i (W - d). simplex: m_i W / (i - 1) without delay, because a partial match of n
        events has W / n of its window left on average. A delay multiplies this by ((W - d) / W)^n.

    Notes
    -----
    Source: HYPERSONIC, section IV-A.
    Differs: in the paper, partial matches stay for a whole window after their last event.

    Examples
    --------
    >>> four = AgentRates((1.0, 1.0, 1.0, 1.0), window=6.0)
    >>> match_buffer_sizes(four, "paper"), match_buffer_sizes(four)
    ((6.0, 36.0, 216.0), (6.0, 18.0, 36.0))
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
