"""Second half of the cost model of hybrid agents: the work per second that arrivals cause.

See `cepkit.parallel.model.rates` for the values and the two models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cepkit.parallel.model.rates import (
    AgentRates,
    Delay,
    agent_flows,
    arrival_rates,
    event_buffer_sizes,
    match_buffer_sizes,
    sending_rates,
    shares_left,
)


def event_loads(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many pairs each agent's event workers evaluate, 1/s.

    Source: HYPERSONIC, section IV: e_i abs(MB_i), with abs(MB_i) = m_i W.
    Differs: simplex counts partners in order and window only: m_i in_window_i / (i - 1).
    """
    if model == "paper":
        sizes = match_buffer_sizes(rates, model, delay)
        return tuple(rates.rates[c] * size for c, size in zip(rates.agents, sizes, strict=True))
    return _pairs(rates, model, delay, lambda left, n: left**n)


def match_loads(rates: AgentRates, model: str = "simplex", delay: Delay = 0.0) -> tuple[float, ...]:
    """Return how many pairs each agent's match workers evaluate, 1/s; for arguments see `event_loads`.

    Source: HYPERSONIC, section IV: m_i abs(IB_i), with abs(IB_i) = e_i W.
    Differs: simplex evaluates no pair twice. Match workers evaluate only the events that came within the
    delay of a partial match. Without delay, event workers evaluate all pairs.
    """
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
    """Return how many pairs each agent evaluates, 1/s; for arguments see `arrival_rates`.

    Source: HYPERSONIC, section IV: 2 e_i m_i W.
    Differs: simplex evaluates each pair in order and in a window once, with any delay.
    """
    pairs = zip(event_loads(rates, model), match_loads(rates, model), strict=True)
    return tuple(event + match for event, match in pairs)


def computation(rates: AgentRates, model: str = "simplex") -> tuple[float, ...]:
    """Return the time for conditions, in ns per second by agent: c_i (l_event,i + l_match,i).

    Source: HYPERSONIC, section IV: comp_i = 2 c_i e_i m_i W.
    """
    made = evaluation_rates(rates, model)
    return tuple(rates.evaluation_cost[c] * n for c, n in zip(rates.agents, made, strict=True))


def synchronisation(
    rates: AgentRates,
    event_workers: Sequence[float],
    match_workers: Sequence[float],
    model: str = "simplex",
) -> tuple[float, ...]:
    """Return the time for locks and queues, in ns per second by agent.

    Source: HYPERSONIC, section IV: sync_i = b_i (e_i + m_i) T_i / 2 + q_i m_{i+1}.
    Differs: the paper's formula assumes equally many workers of both kinds.
    """
    m, sent = arrival_rates(rates, model), sending_rates(rates, model)
    made = []
    for a, c in enumerate(rates.agents):
        locks = rates.rates[c] * match_workers[a] + m[a] * event_workers[a]
        made.append(rates.lock_cost[c] * locks + rates.send_cost[c] * sent[a])
    return tuple(made)


def agent_loads(
    rates: AgentRates,
    event_workers: Sequence[float],
    match_workers: Sequence[float],
    model: str = "simplex",
) -> tuple[float, ...]:
    """Return the work of each agent, in ns per second: computation and synchronisation.

    Source: HYPERSONIC, section IV: load_i = comp_i + sync_i.
    """
    waits = synchronisation(rates, event_workers, match_workers, model)
    return tuple(map(sum, zip(computation(rates, model), waits, strict=True)))
