"""Agents in virtual time: any number of threads, the same every time, with the matches of the real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cepkit.parallel.agents import AgentRun, Agents, Costs, Crew, Terms
from cepkit.sequence_set import MatchBlock

_STEPS_PER_CALL = 1 << 20


@dataclass(frozen=True)
class SimulatedRun:
    """What a simulated run gave and what it took.

    Parameters
    ----------
    n_matches : int
        How many were found.
    matches : MatchBlock
        In the order in which they were found, by branch; empty when they are not kept.
    found_at : ndarray of float64, shape (n_matches,)
        When each was found, in the order in which they were found, ns.
    makespan : float
        When the last thread ended, ns.
    busy : ndarray of float64, shape (n_threads,)
        How long each thread worked, ns.
    mean_latency, greatest_latency : float
        From the arrival of a match's newest event to its detection, ns.
    looked, compared, taken : ndarray of int64, shape (n_agents, 2)
        Pairs seen, pairs whose conditions were tested, and items taken, by the kind of worker: event, match.
    sent, looped : ndarray of int64, shape (n_agents,)
        Partial matches passed on, and those that went back to their agent.
    n_locks : int
        Buffers of other workers begun with.
    most_bytes : float
        Greatest size of all buffers and queues together.
    left : int
        Items in the buffers at the end.
    """

    n_matches: int
    matches: MatchBlock
    found_at: np.ndarray
    makespan: float
    busy: np.ndarray
    mean_latency: float
    greatest_latency: float
    looked: np.ndarray
    compared: np.ndarray
    taken: np.ndarray
    sent: np.ndarray
    looped: np.ndarray
    n_locks: int
    most_bytes: float
    left: int

    @property
    def n_items(self) -> int:
        """Items taken by all threads."""
        return int(self.taken.sum())


def simulate_agents(
    agents: Agents,
    crew: Crew,
    terms: Terms = Terms(batch=1, chunk=1),
    *,
    costs: Costs = Costs(),
    arrival: np.ndarray | None = None,
    own: tuple[int, int, int] | None = None,
    event_bytes: float = 64.0,
    seed: int = 0,
    room: int = 256,
) -> SimulatedRun:
    """Run agents on threads of virtual time.

    Parameters
    ----------
    agents : Agents
        Of a program over events.
    crew : Crew
        Its threads.
    terms : Terms
        How they work; by default item by item, as in the paper.
    costs : Costs
        Of a thread's steps.
    arrival : ndarray of float64, shape (n_events,), optional
        When each event reaches the source, ns; None: at once.
    own : tuple of int, optional
        Positions: the first event, the first that starts no match, the first that is not looked at.
    event_bytes : float
        Size of an event in a buffer; a partial match is as large as its events.
    seed : int
        Of the threads that look for work elsewhere.
    room : int
        Of the arrays at the beginning; they grow.

    Returns
    -------
    SimulatedRun
        The same for the same arguments, whatever ``room`` is.

    Raises
    ------
    CepError
        When there are too few threads.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: the protocol is corrected by tickets and watermarks; see `cepkit.experiments.hybrid_protocol`.
    Nobody waits for a lock: buffers are read while others write them, to begin with one costs ``lock``.
    """
    run = AgentRun(agents, crew, terms, costs=costs, arrival=arrival, own=own, seed=seed, room=room)
    k, n_threads = run.k, crew.n_threads
    clock = np.zeros(n_threads + 2)
    deliveries = run.net.deliveries
    is_served = bool(run.net.options[k.SOURCE_BY_THREADS]) or not deliveries.shape[1]
    clock[n_threads] = k.NEVER if is_served else run.net.arrival[deliveries[1, 0]] + run.net.options[k.ROUTE]
    held = np.zeros((2, run.n_stages + 1))
    held[0, :-1] = event_bytes
    held[1, :-1] = [event_bytes * max(1, rank) for _, _, rank in agents.stages]
    why = k.WENT_ON
    while why != k.FINISHED and deliveries.shape[1]:
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
            why = k.simulation()(
                agents.join, agents.completes, agents.world, run.net, run.blocks, run.found, run.own,
                run.control, run.trace, clock, held, _STEPS_PER_CALL,
            )  # fmt: skip
        run.grow(why)
    return _outcome(run, clock, held)


def _outcome(run: AgentRun, clock: np.ndarray, held: np.ndarray) -> SimulatedRun:
    k, own, stages = run.k, run.own, list(run.agents.stage_of_agent)
    counts = own.counts.sum(axis=0)[stages]
    n, n_kept = run.n_matches(), int(run.shared[k.N_FOUND])
    return SimulatedRun(
        n_matches=n,
        matches=run.block(),
        found_at=run.found.time[:n_kept].copy(),
        makespan=float(clock[-1]),
        busy=own.time[:-1, k.BUSY].copy(),
        mean_latency=float(own.time[:, k.LATENCY].sum() / n) if n else 0.0,
        greatest_latency=float(own.time[:, k.MOST_LATENCY].max()),
        looked=counts[:, k.LOOKED : k.LOOKED + 2],
        compared=counts[:, k.COMPARED : k.COMPARED + 2],
        taken=counts[:, k.N_ITEMS : k.N_ITEMS + 2],
        sent=counts[:, k.N_SENT],
        looped=counts[:, k.N_LOOPED],
        n_locks=int(counts[:, k.N_LOCKS].sum()),
        most_bytes=float(held[1, -1]),
        left=run.left(),
    )
