"""What a thread's steps cost on this machine: agents run on a part of the events, and costs are fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.regex.matching import usable_threads
from cepkit.errors import MissingDependencyError, whole_number
from cepkit.events import Events
from cepkit.parallel.agents.agent_run import AgentRun
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Costs, Crew, Terms
from cepkit.parallel.agents.threads import on_threads

_FIRST_PART = 1_000  # events; twice as many until a run takes that long
_LONG_ENOUGH = 0.1  # seconds
_OUTLIER = 4.0  # times what a step should take: it was interrupted
_ROUNDS = 6
_ONE = Crew("fully_dynamic", 1)
Timed = list[tuple[np.ndarray, np.ndarray]]  # rows of traces, and what these steps took, ns


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
    """Measure what a thread's steps take on this machine, for the conditions of one query.

    Threads run the agents on a part of the events, several times. Costs are what fits the times of all steps
    best.

    Parameters
    ----------
    program : SequenceProgram
        One that agents can run.
    events : Events
        With the program's columns.
    n_events : int, optional
        Length of the part; None: from 1,000 twice as many until a run takes 0.1 s.
    repeats : int
        How often the part is run.
    keep : bool
        Whether matches are kept; else they are counted.
    crew : Crew
        Whose steps are to be simulated. ``sequential``: one thread takes events one by one; else as many as
        it has, but no more than there are cores, take them in batches, where a pair costs a fraction of that.
        What one made has to come from its cache when another takes it: that is part of what steps take.
    seed : int
        Of the part's place in the stream.

    Returns
    -------
    Costs
        Each 0 or more, ns; ``comparison`` by agent. What a step takes whatever there is in it is ``lock``,
        divided by the buffers that a step of ``crew`` begins with, on average. Where all pairs that are
        looked at are compared, ``look`` is 0 and a comparison has both.

    Raises
    ------
    CepError
        When ``n_events`` or ``repeats`` is no number above 0, or there are too few threads.
    UnsupportedQueryError
        When agents cannot run the program.
    MissingDependencyError
        When scipy or threadpoolctl is not installed.

    Notes
    -----
    Source: HYPERSONIC, section IV, has the costs c_i, b_i and q_i but does not say how to come by them.
    Takes the compilation, once on a machine, and ``repeats`` runs of the part.
    """
    for name, value in (("n_events", n_events), ("repeats", repeats)):
        if value is not None:
            whole_number(f"calibrate_costs: {name}", value, 1)
    _least_squares()  # what is missing is told before threads run
    agents = Agents(program, events)
    if not agents.labels or not events.n_events:
        return Costs()
    run = AgentRun(agents, crew, Terms())  # it is only asked what its stages are
    timed = partial(_timed, agents, _measured(crew), keep)
    part = _part(agents, n_events or _FIRST_PART, seed)
    steps, seconds = timed(part)
    while n_events is None and seconds < _LONG_ENOUGH and part[1] - part[0] < events.n_events:
        part = _part(agents, 2 * (part[1] - part[0]), seed)
        steps, seconds = timed(part)
    for _ in range(1, repeats):
        steps = steps + timed(part)[0]
    costs = _fitted(run, steps)
    workers = run.net.stages[list(agents.stage_of_agent)][:, [run.k.N_EVENT_WORKERS, run.k.N_MATCH_WORKERS]]
    return replace(costs, lock=costs.lock / float(workers.mean()))


def _measured(crew: Crew) -> Crew:
    if crew.allocation == "sequential":
        return crew
    return Crew("fully_dynamic", min(crew.n_threads, usable_threads()))


def _part(agents: Agents, n: int, seed: int) -> tuple[int, int, int]:
    n_all = agents.events.n_events
    n = min(n, n_all)
    begin = int(np.random.default_rng(seed).integers(0, n_all - n + 1))
    return begin, begin + n, begin + n


def _timed(agents: Agents, crew: Crew, keep: bool, part: tuple[int, int, int]) -> tuple[Timed, float]:
    run = AgentRun(agents, crew, Terms(keep=keep, trace=True), own=part)
    seconds = on_threads(run)[0]
    return _timed_steps(run), seconds


def _fitted(run: AgentRun, timed: Timed) -> Costs:
    """Return the costs that fit steps best; ``lock`` is all that a step takes whatever there is in it."""
    k, agents = run.k, run.agents
    rows, times = np.concatenate([own for own, _ in timed]), np.concatenate([took for _, took in timed])
    steps = rows[:, k.ACTION] != k.BY_SOURCE
    own, stage = rows[steps], rows[steps, k.OF_STAGE].astype(np.int64)
    tested = own[:, k.WITH_TESTED]
    by_agent = [np.where(stage == s, tested, 0.0) for s in agents.stage_of_agent]
    # Pairs that fit: within a loop each of them goes back, elsewhere it goes on or is a match.
    hits = np.maximum(own[:, k.WITH_LOOPED], own[:, k.WITH_SENT] + own[:, k.WITH_MATCHES])
    is_last = run.net.stages[stage, k.NEXT] < 0
    causes = [
        np.ones(len(own)), own[:, k.WITH_ITEMS], own[:, k.WITH_LOOKED] - tested,
        np.where(is_last, 0.0, hits), np.where(is_last, hits, 0.0), *by_agent,
    ]  # fmt: skip
    lock, item, look, send, match, *comparison = robust_nonnegative(np.column_stack(causes), times[steps])
    of_event = times[~steps] / rows[~steps, k.WITH_ITEMS]
    return Costs(
        item=item,
        look=look,
        comparison=tuple(max(0.0, of - look) for of in comparison),  # who compares has looked
        lock=lock,
        send=send,
        delivery=float(np.median(of_event)) if len(of_event) else 0.0,
        match=match,
    )


def _timed_steps(run: AgentRun) -> Timed:
    """Return the trace's rows of each thread and what they took; those of the source until the next."""
    k, timed = run.k, []
    rows = run.trace[: int(run.shared[k.N_TRACED])]
    is_source = rows[:, k.ACTION] == k.BY_SOURCE
    is_step = (rows[:, k.ACTION] == k.BY_EVENTS) | (rows[:, k.ACTION] == k.BY_PARTIALS)
    rows = rows[is_step | (is_source & (rows[:, k.OF_STAGE] < 0))]
    for r in range(run.crew.n_threads):
        own = rows[rows[:, k.BY_THREAD] == r]
        begun = np.append(own[1:, k.BEGIN], np.nan)
        took = np.where(own[:, k.ACTION] == k.BY_SOURCE, begun, own[:, k.UNTIL]) - own[:, k.BEGIN]
        timed.append((own[np.isfinite(took)], took[np.isfinite(took)]))  # nothing follows the last one
    return timed


def robust_nonnegative(causes: np.ndarray, times: np.ndarray) -> list[float]:
    """Fit ``causes @ costs`` to times, with costs of 0 or more and without the steps that were interrupted.

    Parameters
    ----------
    causes : ndarray of float64, shape (n_steps, n_costs)
        How often each step pays each cost.
    times : ndarray of float64, shape (n_steps,)
        What the steps took.

    Returns
    -------
    list of float
        The costs; 0 for those that no step pays.

    Notes
    -----
    The spread of a step's time is taken to grow with its root. O(n_steps n_costs^2).

    Examples
    --------
    >>> causes = np.array([[1.0, 0.0], [1.0, 10.0], [1.0, 20.0], [1.0, 30.0]])
    >>> [round(cost, 6) for cost in robust_nonnegative(causes, np.array([5.0, 25.0, 45.0, 65.0]))]
    [5.0, 2.0]
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
    """Return a function that gives the x of 0 or more with the least ``|a x - b|``, on one thread.

    Threads of a BLAS go on for a while when they have nothing to do, on the cores of what is measured next.
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
