"""Run agents in virtual time: reproducibly, on any number of threads, with the matches of real threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.parallel.agents.agent_run import KERNELS, AgentRun
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Costs, Crew, RunSettings
from cepkit.parallel.agents.outcome import ParallelRun, outcome
from cepkit.progress import checkpoint

_STEPS_PER_CALL = 1 << 15  # between two checkpoints
_SETTINGS, _COSTS = RunSettings(), Costs()


def simulate_agents(
    agents: Agents,
    crew: Crew,
    settings: RunSettings = _SETTINGS,
    *,
    costs: Costs = _COSTS,
    arrival: np.ndarray | None = None,
    own: tuple[int, int, int] | None = None,
    event_bytes: float = 64.0,
    begin: float = 0.0,
    seed: int = 0,
    room: int = 256,
    on_wait: Callable[[], None] | None = None,
) -> ParallelRun:
    """Run agents on threads in virtual time.

    Source: HYPERSONIC, sections III to V.
    Differs: tickets and watermarks correct the protocol. No
    thread waits for a lock: threads read buffers while others write them. Starting a buffer costs ``lock``.
    """
    run = AgentRun(agents, crew, settings, costs=costs, arrival=arrival, own=own, seed=seed, room=room)
    k, n_threads = run.k, crew.n_threads
    clock = np.full(n_threads + 2, begin)
    deliveries = run.net.deliveries
    is_served = bool(run.net.options[k.SOURCE_BY_THREADS]) or not deliveries.shape[1]
    clock[n_threads] = k.NEVER
    if not is_served:
        clock[n_threads] = max(begin, run.net.arrival[deliveries[1, 0]]) + run.net.options[k.ROUTE]
    held = np.zeros((2, run.n_stages + 1))
    held[0, :-1] = event_bytes
    held[1, :-1] = [event_bytes * max(1, rank) for _, _, rank in agents.stages]
    why = k.WENT_ON
    while why != k.FINISHED and deliveries.shape[1]:
        checkpoint()
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns about overflows
            why = load_kernels(KERNELS).simulate(
                *agents.functions(), run.net, run.blocks, run.found, run.own, run.control, run.trace, clock,
                held, _STEPS_PER_CALL,
            )  # fmt: skip
        run.grow(why)
        if on_wait is not None:
            on_wait()
    busy = run.own.time[:-1, k.BUSY].copy()
    return outcome(run, str(crew), float(clock[-1]), busy, float(held[1, -1]))
