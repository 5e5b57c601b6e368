"""Run agents on real threads, each a loop that does not hold the interpreter's lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.parallel.agents.agent_run import KERNELS, AgentRun
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Crew, RunSettings
from cepkit.parallel.agents.outcome import ParallelRun, outcome
from cepkit.progress import checkpoint, run_on_threads

_SPINS = 2_000  # attempts to find work before a thread sleeps
_SLEEP = 20e-6
_SETTINGS = RunSettings()


def run_agents(
    agents: Agents,
    crew: Crew,
    settings: RunSettings = _SETTINGS,
    *,
    own: tuple[int, int, int] | None = None,
    seed: int = 0,
    room: int = 256,
    on_wait: Callable[[], None] | None = None,
) -> ParallelRun:
    """Run agents on real threads.

    Source: HYPERSONIC, sections III to V.
    Differs: tickets and watermarks correct the protocol. Threads hold no lock while they test pairs, and take
    items in batches. Threads that serve all agents continue with the partial matches that they made, as long
    as the other threads have enough work.
    """
    run = AgentRun(agents, crew, settings, own=own, seed=seed, room=room)
    seconds, busy = on_threads(run, on_wait)
    return outcome(run, str(crew), seconds * 1e9, busy * 1e9)


def on_threads(run: AgentRun, on_wait: Callable[[], None] | None = None) -> tuple[float, np.ndarray]:
    """Run all threads to the end; return the elapsed seconds, and the seconds that each thread worked."""
    n_threads, seconds = run.crew.n_threads, 0.0
    work, busy = _worker(run.agents), np.zeros(n_threads)
    is_best = run.agents.code is None or run.agents.has_better

    def wait() -> None:
        """End the round when compiled joins are ready, so that the next round runs them."""
        nonlocal is_best
        if not is_best and run.agents.has_better:
            is_best, run.shared[run.k.STOP] = True, run.k.STOPPED
        if on_wait is not None:
            on_wait()

    for _ in _rounds(run):
        seconds += _run_loops(partial(_work_until_done, work, run), n_threads, [run], busy, wait)
    return seconds, busy


def run_units(
    parts: Sequence[tuple[int, Callable[[], AgentRun]]],
    threads: int,
    *,
    on_wait: Callable[[], None] | None = None,
) -> tuple[list[AgentRun], float, np.ndarray]:
    """Run independent parts of a stream on real threads."""
    runs: list[AgentRun | None] = [None] * len(parts)
    under_way: list[AgentRun | None] = [None] * threads
    load_kernels(KERNELS)  # before the clock starts

    def loop(r: int) -> None:
        for i, (own, make) in enumerate(parts):
            if own == r:
                checkpoint()
                run = under_way[r] = runs[i] = make()
                work = _worker(run.agents)
                for _ in _rounds(run):
                    checkpoint()
                    _work_until_done(work, run, 0)

    busy = np.zeros(threads)
    seconds = _run_loops(loop, threads, under_way, busy, on_wait)
    return runs, seconds, busy


def _worker(agents: Agents) -> Callable[[AgentRun, int], int]:
    kernels = load_kernels(KERNELS)
    agents.functions()  # before threads need them

    def work(run: AgentRun, r: int) -> int:
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns about overflows
            return kernels.work(
                *agents.functions(), run.net, run.blocks, run.found, run.own, run.control, run.trace, r,
                _SPINS,
            )  # fmt: skip

    return work


def _rounds(run: AgentRun) -> Iterator[None]:
    """Yield until a run is finished, and grow the array that was too short in the last round."""
    k, why = run.k, run.k.WENT_ON
    while why != k.FINISHED and run.net.deliveries.shape[1]:
        run.shared[k.STOP] = 0
        yield
        why = int(run.shared[k.STOP]) or k.FINISHED
        run.grow(why)


def _work_until_done(work: Callable[[AgentRun, int], int], run: AgentRun, r: int) -> None:
    """Let a thread work until nothing is left to do or some thread needs a larger array."""
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
    """Run ``loop(r)`` in thread ``r``, and return the elapsed seconds.

    Adds the CPU seconds of each thread to ``cpu``.

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
