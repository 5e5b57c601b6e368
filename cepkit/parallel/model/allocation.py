"""Decide by the cost model how many threads and workers each agent gets, and which agents are fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import floor, inf

from cepkit.errors import CepError
from cepkit.parallel.model.costs import agent_loads, measured_loads, needed_workers
from cepkit.parallel.model.rates import MODELS, AgentRates

COST_MODELS = (*MODELS, "measured")
_ROUNDING = 1e-9  # error of a share that should be a whole number
LEAST_THREADS = 2  # an event worker and a match worker


@dataclass(frozen=True, slots=True)
class Allocation:
    """Threads and workers of every agent.

    Parameters
    ----------
    agents : tuple of tuple of int
        Components of every agent: one, or two for a fused pair.
    threads, event_workers, match_workers : tuple of int, by agent
        T_i, T_IB,i and T_MB,i.
    loads : tuple of float, by agent
        Work of the agent, in ns per second, or in ns if it comes from the counts of a run.
    """

    agents: tuple[tuple[int, ...], ...]
    threads: tuple[int, ...]
    event_workers: tuple[int, ...]
    match_workers: tuple[int, ...]
    loads: tuple[float, ...]

    @property
    def fused(self) -> tuple[tuple[int, ...], ...]:
        """Pairs of components with fused agents."""
        return tuple(components for components in self.agents if len(components) > 1)


def thread_shares(loads: Sequence[float], threads: int) -> tuple[float, ...]:
    """Return each agent's share of the threads, in proportion to its load and not rounded.

    Parameters
    ----------
    loads : sequence of float, by agent
        Loads in one unit. Shares are equal if all loads are 0. Infinite loads share all threads equally.
    threads : int
        T.

    Notes
    -----
    Source: HYPERSONIC, section IV: T_i = load_i / sum_j load_j.
    Differs: the printed formula lacks the factor T.

    Examples
    --------
    >>> thread_shares([1.0, 3.0], 8)
    (2.0, 6.0)
    """
    if inf in loads:
        loads = [float(load == inf) for load in loads]
    most = max(loads, default=0.0)
    scaled = [load / most for load in loads] if most > 0 else [1.0] * len(loads)
    total = sum(scaled)
    return tuple(threads * load / total for load in scaled)


def allocate_threads(
    loads: Sequence[float], threads: int, least: int | Sequence[int] = LEAST_THREADS
) -> tuple[int, ...]:
    """Return the number of threads of each agent, by load.

    Parameters
    ----------
    loads, threads
        See `thread_shares`.
    least : int, or sequence of int by agent
        Least number of threads of an agent.

    Returns
    -------
    tuple of int, by agent
        The sum is ``threads``. With equal ``least``, a greater load never gets fewer threads.

    Raises
    ------
    CepError
        When there are too few threads.

    Notes
    -----
    Shares are rounded down, but not below ``least``. The agents furthest below their share get the remaining
    threads. If the sum is too large, the agents with the most threads give some up.
    Source: HYPERSONIC, section IV, leaves the rounding open.

    Examples
    --------
    >>> allocate_threads([10.0, 60.0, 30.0], 9)
    (2, 5, 2)
    """
    fewest = [least] * len(loads) if isinstance(least, int) else list(least)
    if threads < sum(fewest):
        raise CepError(f"threads={threads}: {len(loads)} agents need at least {sum(fewest)}")
    shares = thread_shares(loads, threads)
    made = [max(n, floor(share + _ROUNDING)) for n, share in zip(fewest, shares, strict=True)]
    short = sorted(range(len(loads)), key=lambda i: (made[i] - shares[i], i))
    for i in short[: max(threads - sum(made), 0)]:
        made[i] += 1
    while sum(made) > threads:
        # Among agents with equally many threads, the one with less load gives; at equal load, the later one.
        giving = [i for i in range(len(loads)) if made[i] > fewest[i]]
        made[min(giving, key=lambda i: (-made[i], shares[i], -i))] -= 1
    return tuple(made)


def split_workers(threads: int, event_need: int, match_need: int) -> tuple[int, int]:
    """Return the number of event workers and of match workers of an agent.

    Parameters
    ----------
    threads : int
        T_i, at least 2.
    event_need, match_need : int
        Workers of the kind that have enough work; see `needed_workers`.

    Returns
    -------
    tuple of (int, int)
        At least 1 each.

    Notes
    -----
    Each kind gets half. Workers that one kind does not need go to the other kind, and workers that neither
    needs go to the match workers.
    Source: HYPERSONIC, section IV: the bounds on both kinds.

    Examples
    --------
    >>> split_workers(6, 9, 9), split_workers(6, 2, 9), split_workers(6, 9, 2)
    ((3, 3), (2, 4), (4, 2))
    """
    low, high = max(1, threads - match_need), max(1, event_need)
    events = min(max(threads // 2, low), high, threads - 1)
    return events, threads - events


def split_by_load(threads: int, event_load: float, match_load: float) -> tuple[int, int]:
    """Return the number of event workers and of match workers by their measured loads, at least 1 each.

    Examples
    --------
    >>> split_by_load(6, 90.0, 10.0), split_by_load(6, 0.0, 0.0)
    ((5, 1), (3, 3))
    """
    share = thread_shares([event_load, match_load], threads)[0]
    events = min(max(floor(share + 0.5), 1), threads - 1)
    return events, threads - events


def pairs_to_fuse(loads: Sequence[float], n_pairs: int) -> tuple[int, ...]:
    """Return the first agents of ``n_pairs`` disjoint pairs of neighbours with the least total load.

    Raises
    ------
    CepError
        When ``n_pairs`` is more than half the number of agents.

    Notes
    -----
    Time and memory O(n_agents x n_pairs).

    Examples
    --------
    >>> pairs_to_fuse([5.0, 1.0, 2.0, 9.0], 1), pairs_to_fuse([5.0, 1.0, 2.0, 9.0], 2)
    ((1,), (0, 2))
    """
    if not 0 <= n_pairs <= len(loads) // 2:
        raise CepError(
            f"{n_pairs} fused pairs of {len(loads)} agents. At most {len(loads) // 2} are possible"
        )

    @cache
    def best(first: int, left: int) -> tuple[float, tuple[int, ...]]:
        if left == 0:
            return 0.0, ()
        if len(loads) - first < 2 * left:
            return inf, (len(loads),)
        cost, pairs = best(first + 2, left - 1)
        taken = cost + loads[first] + loads[first + 1], (first, *pairs)
        return min(taken, best(first + 1, left))

    return best(0, n_pairs)[1]


def allocate_agents(
    rates: AgentRates,
    threads: int,
    cost_model: str = "simplex",
    *,
    n_fused: int | None = None,
    least: int = LEAST_THREADS,
    rounds: int = 1,
    compared: Sequence[Sequence[float]] | None = None,
    sent: Sequence[float] | None = None,
    locked: Sequence[float] | None = None,
) -> Allocation:
    """Divide threads among agents, and the threads of each agent into event workers and match workers.

    Parameters
    ----------
    rates : AgentRates
        Rates of the pattern.
    threads : int
        T.
    cost_model : str
        ``"paper"``, ``"simplex"``, or ``"measured"`` (by the counts of a run).
    n_fused : int, optional
        Number of fused pairs; None: as few as the number of threads allows.
    least : int
        Least number of threads of an agent or fused pair. It is at least 2, one worker of each kind.
    rounds : int
        Most rounds of computing loads and workers. Each further round computes the loads with the workers of
        the previous round. It ends early when nothing changes.
    compared, sent, locked
        See `measured_loads`. ``"measured"`` needs the first two.

    Raises
    ------
    CepError
        When the model is unknown, counts are missing, or there are too few threads.

    Notes
    -----
    The first round assumes T / n threads per agent for the cost of locks. More threads take more locks. So if
    locks are most of the work, further rounds give more threads to the agents that already have most.
    Partial matches within a fused pair count as if they went through a queue.
    Source: HYPERSONIC, section IV.
    Differs: the paper computes the loads once.

    Examples
    --------
    >>> three = AgentRates((1.0, 2.0, 3.0), window=60.0, selectivities=(1.0, 0.1, 0.1))
    >>> made = allocate_agents(three, 8)
    >>> made.threads, allocate_agents(three, 3).fused
    ((2, 6), ((1, 2),))
    """
    if cost_model not in COST_MODELS:
        raise CepError(f"cost_model {cost_model!r} is not known. There are {list(COST_MODELS)}")
    if least < LEAST_THREADS:
        raise CepError(f"least={least}: an agent needs at least {LEAST_THREADS} threads, one of each kind")
    is_measured = cost_model == "measured"
    if is_measured and (compared is None or sent is None):
        raise CepError("cost_model 'measured' needs the counts of a run: give compared and sent")
    agents = rates.agents
    if not agents:
        return Allocation((), (), (), (), ())
    n_pairs = _pairs_for(len(agents), threads, least) if n_fused is None else n_fused
    half = threads / len(agents) / 2
    event_workers, match_workers = [half] * len(agents), [half] * len(agents)
    needs = None if is_measured else needed_workers(rates, cost_model)
    made = None
    for _ in range(max(1, rounds)):
        if is_measured:
            loads = measured_loads(rates, compared, sent, locked)
        else:
            loads = agent_loads(rates, event_workers, match_workers, cost_model)
        groups = _groups(len(agents), pairs_to_fuse(loads, n_pairs))
        of_group = [sum(loads[a] for a in group) for group in groups]
        shares = allocate_threads(of_group, threads, least)
        split = []
        for group, n in zip(groups, shares, strict=True):
            if is_measured:
                split.append(split_by_load(n, *(sum(compared[a][kind] for a in group) for kind in (0, 1))))
            else:
                need = sum(needs[a] for a in group)
                split.append(split_workers(n, need, need))
        before, made = made, Allocation(
            tuple(tuple(agents[a] for a in group) for group in groups),
            shares, *(tuple(workers) for workers in zip(*split, strict=True)), tuple(of_group),
        )  # fmt: skip
        if is_measured or (before and (before.agents, before.event_workers, before.match_workers)
                           == (made.agents, made.event_workers, made.match_workers)):  # fmt: skip
            break
        for group, (events, matches) in zip(groups, split, strict=True):
            for a in group:
                event_workers[a], match_workers[a] = events, matches
    return made


def _pairs_for(n_agents: int, threads: int, least: int) -> int:
    """Return how many pairs must be fused so that the threads suffice."""
    n_pairs = max(0, n_agents - threads // least)
    if n_pairs > n_agents // 2:
        fewest = (n_agents - n_agents // 2) * least
        raise CepError(
            f"threads={threads}: {n_agents} agents need at least {n_agents * least}, "
            f"{fewest} with neighbours fused"
        )
    return n_pairs


def _groups(n_agents: int, pairs: tuple[int, ...]) -> list[tuple[int, ...]]:
    second = {first + 1 for first in pairs}
    return [(a, a + 1) if a in pairs else (a,) for a in range(n_agents) if a not in second]
