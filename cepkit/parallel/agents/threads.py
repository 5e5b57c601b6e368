"""Agents on real threads: each one a loop without the interpreter's lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cepkit.parallel.agents.agent_run import AgentRun
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Crew, Terms
from cepkit.parallel.agents.outcome import ParallelRun, outcome
from cepkit.progress import checkpoint, run_on_threads

_SPINS = 2_000  # looks for work before a thread sleeps
_SLEEP = 20e-6


_TERMS = Terms()


def run_agents(
    agents: Agents,
    crew: Crew,
    terms: Terms = _TERMS,
    *,
    own: tuple[int, int, int] | None = None,
    seed: int = 0,
    room: int = 256,
    on_wait: Callable[[], None] | None = None,
) -> ParallelRun:
    """Run agents on real threads.

    Parameters
    ----------
    agents, crew, terms, own, seed, room
        As of `cepkit.parallel.simulation.simulation.simulate_agents`.
    on_wait : callable, optional
        Called in this thread now and then. An exception ends all threads and is raised.

    Returns
    -------
    ParallelRun

    Raises
    ------
    BaseException
        The exception of a worker or of ``on_wait``, `Cancelled` or Ctrl-C. All threads have ended by then.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: the protocol is corrected by tickets and watermarks; nothing is locked while pairs are tested,
    and items are taken in batches. Threads that serve all agents go on with the partial matches that they
    made, while enough waits for the others.
    """
    run = AgentRun(agents, crew, terms, own=own, seed=seed, room=room)
    seconds, busy = on_threads(run, on_wait)
    return outcome(run, str(crew), seconds * 1e9, busy * 1e9)


def on_threads(run: AgentRun, on_wait: Callable[[], None] | None = None) -> tuple[float, np.ndarray]:
    """Let the threads of a run do all of it; return the seconds it took, and each thread's own."""
    k, n_threads, seconds, why = run.k, run.crew.n_threads, 0.0, run.k.WENT_ON
    work, busy = _worker(run.agents, k.work()), np.zeros(n_threads)
    while why != k.FINISHED and run.net.deliveries.shape[1]:
        run.shared[k.STOP] = 0
        seconds += _run_loops(partial(_work_until_done, work, run), n_threads, [run], busy, on_wait)
        why = int(run.shared[k.STOP]) or k.FINISHED
        run.grow(why)
    return seconds, busy


def run_units(
    parts: Sequence[tuple[int, Callable[[], AgentRun]]],
    threads: int,
    *,
    on_wait: Callable[[], None] | None = None,
) -> tuple[list[AgentRun], float, np.ndarray]:
    """Run independent parts of a stream on real threads.

    Parameters
    ----------
    parts : sequence of (int, callable)
        The thread of each part, and what makes its run of one thread; a thread does its parts in turn.
    threads : int
        How many.
    on_wait : callable, optional
        As of `run_agents`.

    Returns
    -------
    runs : list of AgentRun
        In the order of the parts.
    seconds : float
        From the start of the first thread to the end of the last.
    busy : ndarray of float64, shape (n_threads,)
        What each worked, in seconds.

    Raises
    ------
    BaseException
        As `run_agents`.
    """
    runs: list[AgentRun | None] = [None] * len(parts)
    under_way: list[AgentRun | None] = [None] * threads
    from cepkit.kernels import agents as k

    kernel = k.work()  # compiled before the clock starts

    def loop(r: int) -> None:
        for i, (own, make) in enumerate(parts):
            if own == r:
                checkpoint()
                run = under_way[r] = runs[i] = make()
                work, why = _worker(run.agents, kernel), k.WENT_ON
                while why != k.FINISHED and run.net.deliveries.shape[1]:
                    run.shared[k.STOP] = 0
                    checkpoint()
                    _work_until_done(work, run, 0)
                    why = int(run.shared[k.STOP]) or k.FINISHED
                    run.grow(why)

    busy = np.zeros(threads)
    seconds = _run_loops(loop, threads, under_way, busy, on_wait)
    return runs, seconds, busy


def _worker(agents: Agents, kernel: Callable) -> Callable[[AgentRun, int], int]:
    functions = agents.join, agents.completes, agents.world

    def work(run: AgentRun, r: int) -> int:
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
            return kernel(
                *functions, run.net, run.blocks, run.found, run.own, run.control, run.trace, r, _SPINS
            )

    return work


def _work_until_done(work: Callable[[AgentRun, int], int], run: AgentRun, r: int) -> None:
    """Let a thread work until there is nothing left to do, or one of them needs a larger array."""
    while work(run, r) == run.k.IDLE:
        checkpoint()
        time.sleep(_SLEEP)


def _run_loops(
    loop: Callable[[int], None],
    n_threads: int,
    runs: Sequence[AgentRun | None],
    cpu: np.ndarray,
    on_wait: Callable[[], None] | None,
) -> float:
    """Run ``loop(r)`` in thread ``r``; return the seconds from the first one's start to the last one's end.

    ``cpu`` counts the seconds that each one works.
    """

    def work(r: int) -> None:
        began = time.thread_time()
        try:
            loop(r)
        finally:
            cpu[r] += time.thread_time() - began

    def stop() -> None:
        for run in runs:
            if run is not None:
                run.shared[run.k.STOP] = run.k.STOPPED

    began = time.perf_counter()
    run_on_threads(work, n_threads, n_threads, on_wait=on_wait, stop=stop)
    return time.perf_counter() - began
