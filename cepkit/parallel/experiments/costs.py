"""Compare the cost model of hybrid agents with the counts of a run: evaluations per agent."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from cepkit.errors import CepError
from cepkit.parallel.model.costs import evaluation_rates, event_loads
from cepkit.parallel.model.rates import AgentRates

__all__ = ["evaluations_per_agent"]


def evaluations_per_agent(
    rates: AgentRates, compared: Sequence[Sequence[float]], duration_s: float
) -> pd.DataFrame:
    """Return how many pairs each agent evaluates, counted and expected by the models.

    Parameters
    ----------
    rates : AgentRates
        Rates of the events of the run.
    compared : sequence of (float, float), by agent
        Pairs with tested conditions, by event workers and by match workers.
    duration_s : float
        Time span of the events in seconds of their clock, above 0.

    Returns
    -------
    DataFrame
        A row per agent and source: ``agent`` (number of its component in join order, from 1); ``source``
        (``measured``; ``simplex``; ``paper``, for both kinds of workers; ``paper, one side``, for one kind);
        ``per_second``; ``error`` relative to the measured value (NaN if that is 0).

    Raises
    ------
    CepError
        When an agent has no count, or the events span no time.

    Notes
    -----
    Source: HYPERSONIC, section IV. On Poisson streams, the paper counts 2 (i - 1)! times too many pairs.

    Examples
    --------
    >>> three = AgentRates((1.0, 1.0, 1.0), window=6.0)
    >>> table = evaluations_per_agent(three, [(600, 0), (1750, 50)], 100.0)
    >>> table[table["source"] == "simplex"]
       agent   source  per_second  error
    1      2  simplex         6.0    0.0
    5      3  simplex        18.0    0.0
    """
    if len(compared) != len(rates.agents):
        raise CepError(f"compared: {len(compared)} counts. There must be {len(rates.agents)}, one per agent")
    if not duration_s > 0:
        raise CepError(f"duration_s={duration_s}: events that span no time have no rates")
    measured = [float(sum(counts)) / duration_s for counts in compared]
    sources = {
        "measured": measured,
        "simplex": evaluation_rates(rates),
        "paper": evaluation_rates(rates, "paper"),
        "paper, one side": event_loads(rates, "paper"),
    }
    rows = [
        (component + 1, source, values[a], values[a] / measured[a] - 1 if measured[a] else float("nan"))
        for a, component in enumerate(rates.agents)
        for source, values in sources.items()
    ]
    return pd.DataFrame(rows, columns=["agent", "source", "per_second", "error"])
