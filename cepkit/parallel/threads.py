"""Agents on real threads: each one a loop without the interpreter's lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cepkit.parallel.agents import AgentRun, Agents, Crew, Terms

_SPINS = 2_000  # looks for work before a thread sleeps
_SLEEP = 20e-6
_LOOKS = 0.05  # seconds after which an interrupt is seen


@dataclass
class RealRun:
    """A run on real threads.

    Parameters
    ----------
    run : AgentRun
        Its arrays: matches, counts, trace.
    seconds : float
        From the start of the first thread to the end of the last.
    cpu_seconds : tuple of float
        What each thread worked, nearly.
    """

    run: AgentRun
    seconds: float
    cpu_seconds: tuple[float, ...]


def run_agents(
    agents: Agents,
    crew: Crew,
    terms: Terms = Terms(),
    *,
    own: tuple[int, int, int] | None = None,
    seed: int = 0,
    room: int = 256,
    on_wait: Callable[[], None] | None = None,
) -> RealRun:
    """Run agents on real threads.

    Parameters
    ----------
    agents, crew, terms, own, seed, room
        As of `cepkit.parallel.simulation.simulate_agents`.
    on_wait : callable, optional
        Called in this thread now and then; what it raises ends all threads and is passed on.

    Returns
    -------
    RealRun

    Raises
    ------
    BaseException
        What a worker or ``on_wait`` raised, or the interrupt of this thread, when all threads have ended.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: the protocol is corrected by tickets and watermarks; nothing is locked while pairs are tested,
    and items are taken in batches.
    """
    run = AgentRun(agents, crew, terms, own=own, seed=seed, room=room)
    k = run.k
    work, functions = k.work(), (agents.join, agents.completes, agents.world)
    seconds, cpu = 0.0, np.zeros(crew.n_threads)
    why = k.WENT_ON
    while why != k.FINISHED and run.net.deliveries.shape[1]:
        run.shared[k.STOP] = 0
        began = time.perf_counter()
        why = _together(run, work, functions, cpu, on_wait)
        seconds += time.perf_counter() - began
        run.grow(why)
    return RealRun(run, seconds, tuple(cpu.tolist()))


def _together(run: AgentRun, work: Callable, functions: tuple, cpu: np.ndarray, on_wait) -> int:
    """Let all threads work until they are done or one needs a larger array; return why they ended."""
    k, raised = run.k, []

    def stop() -> None:
        run.shared[k.STOP] = k.STOPPED

    def loop(r: int) -> None:
        try:
            began = time.thread_time()
            with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
                why = k.IDLE
                while why == k.IDLE:
                    why = work(
                        *functions, run.net, run.blocks, run.found, run.own, run.control, run.trace, r, _SPINS
                    )
                    if why == k.IDLE:
                        time.sleep(_SLEEP)
            cpu[r] += time.thread_time() - began
        except BaseException as error:
            raised.append(error)
            stop()

    threads = [threading.Thread(target=loop, args=(r,), daemon=True) for r in range(run.crew.n_threads)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOKS)
                if on_wait is not None:
                    on_wait()
    except BaseException:
        stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise
    if raised:
        raise raised[0]
    return int(run.shared[k.STOP]) or k.FINISHED
