"""Decide by the cost model how many threads and workers each agent gets, and which agents are fused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, inf

from cepkit.errors import CepError
from cepkit.parallel.model import MODELS

COST_MODELS = (*MODELS, "measured")
_ROUNDING = 1e-9  # error of a share that should be a whole number
LEAST_THREADS = 2  # an event worker and a match worker


def thread_shares(loads: Sequence[float], threads: int) -> tuple[float, ...]:
    """Return each agent's share of the threads, in proportion to its load and not rounded.

    Source: HYPERSONIC, section IV: T_i = load_i / sum_j load_j.
    Differs: the printed formula lacks the factor T.
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

    Shares are rounded down, but not below ``least``. The agents furthest below their share get the
    remaining threads. If the sum is too large, the agents with the most threads give some up.

    Source: HYPERSONIC, section IV, leaves the rounding open.
    """
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
