"""Agents in virtual time: any number of threads, the same every time, with the matches of the real ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cepkit.parallel.agents.agent_run import AgentRun
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Costs, Crew, Terms
from cepkit.parallel.agents.outcome import ParallelRun, outcome
from cepkit.progress import checkpoint

_STEPS_PER_CALL = 1 << 15  # between two checkpoints
_TERMS, _COSTS = Terms(), Costs()


def simulate_agents(
    agents: Agents,
    crew: Crew,
    terms: Terms = _TERMS,
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
    """Run agents on threads of virtual time.

    Parameters
    ----------
    agents : Agents
        Of a program over events.
    crew : Crew
        Its threads.
    terms : Terms
        How they work; ``Terms(batch=1, chunk=1)`` is item by item, as in the paper.
    costs : Costs
        Of a thread's steps.
    arrival : ndarray of float64, shape (n_events,), optional
        When each event reaches the source, ns; None: at once.
    own : tuple of int, optional
        Positions: the first event, the first that starts no match, the first that is not looked at.
    event_bytes : float
        Size of an event in a buffer; a partial match is as large as its events.
    begin : float
        When the threads begin, ns.
    seed : int
        Of the threads that look for work elsewhere.
    room : int
        Of the arrays at the beginning; they grow.
    on_wait : callable, optional
        Called now and then; what it raises ends the run.

    Returns
    -------
    ParallelRun
        The same for the same arguments, whatever ``room`` is.

    Raises
    ------
    CepError
        When there are too few threads.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: the protocol is corrected by tickets and watermarks; see `cepkit.parallel.experiments.protocol`.
    Nobody waits for a lock: buffers are read while others write them, to begin with one costs ``lock``.
    """
    run = AgentRun(agents, crew, terms, costs=costs, arrival=arrival, own=own, seed=seed, room=room)
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
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
            why = k.simulation()(
                agents.join, agents.completes, agents.world, run.net, run.blocks, run.found, run.own,
                run.control, run.trace, clock, held, _STEPS_PER_CALL,
            )  # fmt: skip
        run.grow(why)
        if on_wait is not None:
            on_wait()
    busy = run.own.time[:-1, k.BUSY].copy()
    return outcome(run, str(crew), float(clock[-1]), busy, float(held[1, -1]))
