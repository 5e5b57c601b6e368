"""How many events buffers may hold, so that the last one still meets the latency bound."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf

from cepkit.errors import CepError

DARLING, BY_RATE, SCALED = "darling", "rate", "darling_scaled"
SPLITS = (DARLING, BY_RATE, SCALED)


def queue_limit(latency_bound_s: float, mean_service_s: float) -> float:
    """Return N_in: how many events may wait so that the last one is processed within the bound.

    Source: DARLING, section 4.2.1.
    """
    _positive("latency_bound_s", latency_bound_s)
    _positive("mean_service_s", mean_service_s)
    return latency_bound_s / mean_service_s


def buffer_limits(
    n_in: float,
    event_cost_s: Mapping[str, float],
    rate_hz: Mapping[str, float],
    *,
    safety: float = 0.8,
    split: str = DARLING,
    weights: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Return N_T: how many events of each type may wait.

    Source: DARLING, section 4.2.2.
    Differs: the paper says that the limits add up to N_in. With its factor beta they add up to beta N_in.
    Full buffers of the paper's split can take longer than the bound; see `drain_time`.
    """
    _positive("n_in", n_in)
    if not 0 < safety <= 1:
        raise CepError(f"safety={safety}: expected a share above 0 and at most 1")
    if split not in SPLITS:
        raise CepError(f"split={split!r}: expected one of {', '.join(map(repr, SPLITS))}")
    if set(event_cost_s) != set(rate_hz):
        differ = sorted(map(str, set(event_cost_s) ^ set(rate_hz)))
        raise CepError(f"costs and rates need the same types; only one of them has {', '.join(differ)}")
    weights = weights or {}
    if unknown := sorted(map(str, set(weights) - set(rate_hz))):
        raise CepError(
            f"weights has no such type {', '.join(unknown)}; there are {', '.join(map(str, rate_hz))}"
        )
    shares = {}
    for name, rate in rate_hz.items():
        cost, weight = event_cost_s[name], weights.get(name, 1.0)
        for what, value in (("cost", cost), ("rate", rate), ("weight", weight)):
            if not 0 <= value < inf:
                raise CepError(f"{what} {value} of type {name!r}: expected a number that is not negative")
        shares[name] = rate * weight * (1.0 if split == BY_RATE else cost)
    total = sum(shares.values())
    if total == 0:
        raise CepError("no type has a rate, a cost and a weight above 0, so nothing can be divided")
    budget = n_in * safety
    if split == SCALED:
        work = sum(rate_hz[name] * event_cost_s[name] for name in rate_hz)
        mean = work / sum(rate_hz.values())
        budget *= min(1.0, mean / sum(shares[name] / total * event_cost_s[name] for name in rate_hz))
    return {name: max(1, ceil(round(budget * share / total, 9))) for name, share in shares.items()}


def drain_time(limits: Mapping[str, int], event_cost_s: Mapping[str, float]) -> float:
    """Return the seconds to process full buffers. Above the bound, the last events come too late."""
    return sum(limit * event_cost_s[name] for name, limit in limits.items())


def array_threshold(limit: int, n_conditions: int, evaluate_s: float, event_cost_s: float) -> int:
    """Return gamma_T: the size of a buffer at which its utility arrays are built.

    Building takes the time of ceil(N_T alpha_T / Z(T)) events, and it must be ready when the buffer is
    full.

    Source: DARLING, section 4.4. Differs: never below 0.
    """
    _positive("event_cost_s", event_cost_s)
    return max(0, limit - ceil(round(limit * n_conditions * evaluate_s / event_cost_s, 9)))


def _positive(name: str, value: float) -> None:
    if not 0 < value < inf:
        raise CepError(f"{name}={value}: expected a number above 0")
