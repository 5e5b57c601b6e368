"""Run agents in virtual time, with costs of steps that are measured on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.places import usable_threads
from cepkit.errors import MissingDependencyError, whole_number
from cepkit.events import Events
from cepkit.parallel.agents.agent_run import KERNELS, AgentRun
from cepkit.parallel.agents.agents import Agents, Costs, Crew, RunSettings
from cepkit.parallel.agents.outcome import ParallelRun, outcome
from cepkit.parallel.agents.threads import on_threads
from cepkit.progress import checkpoint

# Measure the costs of a thread's steps on this machine, from runs of the agents on a part of the events.

_FIRST_PART = 1_000  # events; doubled until a run takes _LONG_ENOUGH
_LONG_ENOUGH = 0.1  # seconds
_OUTLIER = 4.0  # times the expected time of a step: it was interrupted
_ROUNDS = 6
_ONE = Crew("fully_dynamic", 1)
Timed = list[tuple[np.ndarray, np.ndarray]]  # rows of traces, and the time of these steps, ns


def calibrate_costs(
    program: SequenceProgram,
    events: Events,
    *,
    n_events: int | None = None,
    repeats: int = 3,
    keep: bool = False,
    crew: Crew = _ONE,
    seed: int = 0,
) -> Costs:
    """Measure the costs of a thread's steps on this machine, for the conditions of one query.

    Threads run the agents on a part of the events, several times. The result is the best fit of the costs to
    the times of all steps.

    Takes the time of the compilation, once per machine, and of ``repeats`` runs of the part.

    Source: HYPERSONIC, section IV, uses the costs c_i, b_i and q_i but does not say how to measure them.
    """
    for name, value in (("n_events", n_events), ("repeats", repeats)):
        if value is not None:
            whole_number(f"calibrate_costs: {name}", value, 1)
    _least_squares()  # raise for missing packages before any thread runs
    agents = Agents(program, events, compiled=True)
    if not agents.labels or not events.n_events:
        return Costs()
    run = AgentRun(agents, crew, RunSettings())  # only for its description of the stages
    timed = partial(_time_part, agents, _crew_to_measure(crew), keep)
    part = _part(agents, n_events or _FIRST_PART, seed)
    steps, seconds = timed(part)
    while n_events is None and seconds < _LONG_ENOUGH and part[1] - part[0] < events.n_events:
        part = _part(agents, 2 * (part[1] - part[0]), seed)
        steps, seconds = timed(part)
    for _ in range(1, repeats):
        steps = steps + timed(part)[0]
    costs = _fit(run, steps)
    workers = run.net.stages[list(agents.stage_of_agent)][:, [run.k.N_EVENT_WORKERS, run.k.N_MATCH_WORKERS]]
    return replace(costs, lock=costs.lock / float(workers.mean()))


def _crew_to_measure(crew: Crew) -> Crew:
    if crew.allocation == "sequential":
        return crew
    return Crew("fully_dynamic", min(crew.n_threads, usable_threads()))


def _part(agents: Agents, n: int, seed: int) -> tuple[int, int, int]:
    n_all = agents.events.n_events
    n = min(n, n_all)
    begin = int(np.random.default_rng(seed).integers(0, n_all - n + 1))
    return begin, begin + n, begin + n


def _time_part(agents: Agents, crew: Crew, keep: bool, part: tuple[int, int, int]) -> tuple[Timed, float]:
    run = AgentRun(agents, crew, RunSettings(keep=keep, trace=True), own=part)
    seconds = on_threads(run)[0]
    return _timed_steps(run), seconds


def _fit(run: AgentRun, timed: Timed) -> Costs:
    """Return the costs that fit the steps best; ``lock`` is the whole fixed time of a step."""
    k, agents = run.k, run.agents
    rows, times = np.concatenate([part for part, _ in timed]), np.concatenate([took for _, took in timed])
    steps = rows[:, k.ACTION] != k.BY_SOURCE
    step_rows, stage = rows[steps], rows[steps, k.OF_STAGE].astype(np.int64)
    tested = step_rows[:, k.WITH_TESTED]
    by_agent = [np.where(stage == s, tested, 0.0) for s in agents.stage_of_agent]
    # A fitting pair is looped in a loop; elsewhere it is sent or becomes a match.
    hits = np.maximum(step_rows[:, k.WITH_LOOPED], step_rows[:, k.WITH_SENT] + step_rows[:, k.WITH_MATCHES])
    is_last = run.net.stages[stage, k.NEXT] < 0
    causes = [
        np.ones(len(step_rows)), step_rows[:, k.WITH_ITEMS], step_rows[:, k.WITH_LOOKED] - tested,
        np.where(is_last, 0.0, hits), np.where(is_last, hits, 0.0), *by_agent,
    ]  # fmt: skip
    lock, item, look, send, match, *comparison = robust_nonnegative(np.column_stack(causes), times[steps])
    of_event = times[~steps] / rows[~steps, k.WITH_ITEMS]
    return Costs(
        item=item,
        look=look,
        comparison=tuple(max(0.0, cost - look) for cost in comparison),  # a comparison includes a look
        lock=lock,
        send=send,
        delivery=float(np.median(of_event)) if len(of_event) else 0.0,
        match=match,
    )


def _timed_steps(run: AgentRun) -> Timed:
    """Return the trace rows of each thread and their times; a source row lasts until the next row."""
    k, timed = run.k, []
    rows = run.trace[: int(run.shared[k.N_TRACED])]
    is_source = rows[:, k.ACTION] == k.BY_SOURCE
    is_step = (rows[:, k.ACTION] == k.BY_EVENTS) | (rows[:, k.ACTION] == k.BY_PARTIALS)
    rows = rows[is_step | (is_source & (rows[:, k.OF_STAGE] < 0))]
    for r in range(run.crew.n_threads):
        steps = rows[rows[:, k.BY_THREAD] == r]
        begun = np.append(steps[1:, k.BEGIN], np.nan)
        took = np.where(steps[:, k.ACTION] == k.BY_SOURCE, begun, steps[:, k.UNTIL]) - steps[:, k.BEGIN]
        timed.append((steps[np.isfinite(took)], took[np.isfinite(took)]))  # the last row has no next one
    return timed


def robust_nonnegative(causes: np.ndarray, times: np.ndarray) -> list[float]:
    """Fit ``causes @ costs`` to times, with costs of 0 or more, and ignore interrupted steps.

    The fit assumes that the spread of a time grows with its square root.
    """
    solve = _least_squares()
    weight, kept, costs = np.ones(len(times)), np.ones(len(times), bool), np.zeros(causes.shape[1])
    for _ in range(_ROUNDS if len(times) else 0):
        root = np.sqrt(weight[kept])
        costs = solve(causes[kept] * root[:, None], times[kept] * root)
        expected = np.maximum(np.einsum("ij,j", causes, costs), 1.0)
        weight, kept = 1.0 / expected, times <= _OUTLIER * expected + np.median(times)
    return costs.tolist()


def _least_squares() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function that minimises ``|a x - b|`` for x of 0 or more, on one thread.

    Idle BLAS threads spin for a while and would disturb the next measurement.
    """
    try:
        from scipy.optimize import nnls
        from threadpoolctl import ThreadpoolController
    except ImportError as error:
        raise MissingDependencyError(
            f"measured costs need scipy and threadpoolctl ({error}). "
            'Install them with `pip install "cepkit[papers]"`'
        ) from error
    limits = ThreadpoolController()

    def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with limits.limit(limits=1):
            return nnls(a, b, maxiter=10 * a.shape[1])[0]

    return solve


# Run agents in virtual time: reproducibly, on any number of threads, with the matches of real threads.

_STEPS_PER_CALL = 1 << 15  # between two checkpoints
_SETTINGS, _COSTS = RunSettings(), Costs()


def simulate_agents(
    agents: Agents,
    crew: Crew,
    settings: RunSettings = _SETTINGS,
    *,
    costs: Costs = _COSTS,
    event_bytes: float = 64.0,
    begin: float = 0.0,
    on_wait: Callable[[], None] | None = None,
    **of_run: Any,
) -> ParallelRun:
    """Run agents on threads in virtual time; `AgentRun` takes the keywords that are left.

    Source: HYPERSONIC, sections III to V.
    Differs: tickets and watermarks correct the protocol. No
    thread waits for a lock: threads read buffers while others write them. Starting a buffer costs ``lock``.
    """
    run = AgentRun(agents, crew, settings, costs=costs, **of_run)
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
                agents.functions(), run.net, run.blocks, run.found, run.own, run.control, run.trace, clock,
                held, _STEPS_PER_CALL,
            )  # fmt: skip
        run.grow(why)
        if on_wait is not None:
            on_wait()
    busy = run.own.time[:-1, k.BUSY].copy()
    return outcome(run, str(crew), float(clock[-1]), busy, float(held[1, -1]))
