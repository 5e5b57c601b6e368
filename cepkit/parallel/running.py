"""Run agents on real threads and in virtual time, and divide a stream for the baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.regex import balanced_blocks
from cepkit.engines.shared.places import Places, usable_threads
from cepkit.errors import CepError, MissingDependencyError, whole_number
from cepkit.events import Events
from cepkit.limits import TICKS
from cepkit.parallel.agent_run import KERNELS, AgentRun
from cepkit.parallel.agents import Agents, Costs, Crew, RunSettings
from cepkit.parallel.outcome import ParallelRun, outcome
from cepkit.progress import checkpoint, run_on_threads
from cepkit.values import dataclass, replace

# Run agents on real threads, each a loop that does not hold the interpreter's lock.

_SPINS = 2_000  # attempts to find work before a thread sleeps
_SLEEP = 20e-6
_DEFAULTS = RunSettings()


def run_agents(
    agents: Agents, crew: Crew, settings: RunSettings = _DEFAULTS, *, own: tuple[int, int, int] | None = None,
    seed: int = 0, room: int = 256, on_wait: Callable[[], None] | None = None,
) -> ParallelRun:  # fmt: skip
    """Run agents on real threads."""
    # Source: HYPERSONIC, sections III to V.
    # Differs: tickets and watermarks correct the protocol. Threads hold no lock while they test pairs, and
    # take items in batches. Threads that serve all agents continue with the partial matches that they made,
    # as long as the other threads have enough work.
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
        for i, (unit, make) in enumerate(parts):
            if unit == r:
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
    """Return the function that lets a thread work until it has nothing to do, or an array is full."""
    kernels = load_kernels(KERNELS)
    agents.functions()  # before threads need them

    def work(run: AgentRun, r: int) -> int:
        with np.errstate(all="ignore"):  # a kernel that runs as Python warns about overflows
            return kernels.work(
                agents.functions(), run.net, run.blocks, run.found, run.own, run.control, run.trace, r,
                _SPINS,
            )  # fmt: skip

    return work


def _rounds(run: AgentRun) -> Iterator[None]:
    """Yield until a run is finished, and grow the array that was too short in the last round."""
    finished = run.net.deliveries.shape[1] == 0
    while not finished:
        run.shared[run.k.STOP] = 0
        yield
        reason = int(run.shared[run.k.STOP]) or run.k.FINISHED
        run.grow(reason)
        finished = reason == run.k.FINISHED


def _work_until_done(work: Callable[[AgentRun, int], int], run: AgentRun, r: int) -> None:
    """Let a thread work until nothing is left to do or some thread needs a larger array."""
    while work(run, r) == run.k.IDLE:
        checkpoint()
        time.sleep(_SLEEP)


def _run_loops(
    loop: Callable[[int], None], n_threads: int, runs: Sequence[AgentRun | None], cpu: np.ndarray,
    on_wait: Callable[[], None] | None,
) -> float:  # fmt: skip
    """Run ``loop(r)`` in thread ``r``, and return the elapsed seconds."""
    # Adds the CPU seconds of each thread to ``cpu``.

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


# Divide a stream for the baselines: by first events (RIP), by intervals of time, or by key.

KEY_DIVISIONS = ("least_loaded", "hash")
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream that one unit searches alone."""

    # Half-open range of positions. The chunk keeps the matches whose first event is in it.
    own: tuple[int, int]
    end: int  # end of the positions that the unit sees, exclusive
    unit: int  # number of the unit
    # Half-open range of positions at which partial matches begin. Matches that begin outside ``own`` are
    # dropped.
    starts: tuple[int, int]


def looked_at(places: Places) -> np.ndarray:
    """Return for every event the end of the positions that a match beginning there depends on."""
    # Events before a match that must be absent are not counted: agents read them from the whole stream.
    absences = [(a, len(b.accepts)) for b in places.program.branches for a in b.branch.absences]
    position, end = places.position_of_place, np.empty(places.n, np.int64)
    # An absence reaches to the end of the window in time, even if a window in events is shorter.
    ends_late = any(absence.before >= n for absence, n in absences)
    end_of_place = np.maximum(places.time_end if ends_late else places.window_end, np.arange(1, places.n + 1))
    end[position] = position[end_of_place - 1] + 1
    return end


def rip_chunks(end_of_position: np.ndarray, n_events_per_chunk: int, threads: int) -> list[Chunk]:
    """Divide a stream into chunks of equally many first events."""
    # Each match begins in exactly one chunk, and this chunk sees all later events that it depends on. So the
    # chunks together find each match of the stream once, with every strategy. An after-match policy must be
    # applied to the matches of all chunks together.
    # Source: Balkesen, Dindar, Wetter, Tatbul, "RIP: Run-based Intra-query Parallelism for Scalable Complex
    # Event Processing", DEBS 2013.
    # Differs: the overlap covers the events of the last runs, not a fixed number of events.
    _at_least_one("threads", threads)
    _at_least_one("n_events_per_chunk", n_events_per_chunk)
    low = np.arange(0, len(end_of_position), n_events_per_chunk)
    if not len(low):
        return []
    high = np.minimum(low + n_events_per_chunk, len(end_of_position))
    end = np.maximum.reduceat(end_of_position, low)
    return [
        Chunk((begin, stop), last, k % threads, (begin, stop))
        for k, (begin, stop, last) in enumerate(zip(*_lists(low, high, end), strict=True))
    ]


def interval_chunks(
    time: np.ndarray, window: float, multiple: float, threads: int, *, start_filter: bool = True
) -> list[Chunk]:
    """Divide a stream into intervals of time, each with the window after it."""
    # An event at time t goes to the units of the intervals of t and of t minus a window. Overlap costs a
    # factor of 1 + 1 / multiple.
    # Source: OpenCEP, ``parallel/data_parallel/RIPParallelExecutionAlgorithm.py``.
    # Differs: OpenCEP begins runs at all events, as without ``start_filter``. It also sends the first window
    # of a stream to the last unit.
    _at_least_one("threads", threads)
    if not window > 0:
        raise CepError(f"window={window}: intervals need a window in time above 0")
    if not multiple >= 1:
        raise CepError(f"multiple={multiple}: intervals are at least one window long")
    time = np.asarray(time)
    if not len(time):
        return []
    interval = window * multiple
    if time.dtype.kind != "f" and float(interval).is_integer() and float(window).is_integer():
        interval, window = min(int(interval), TICKS), min(int(window), TICKS)
    since = time - time[0]
    number = np.floor_divide(since, interval)
    last_number = np.floor_divide(since - window, interval)  # the last interval that sees it
    numbers, low = np.unique(number, return_index=True)
    high = np.append(low[1:], len(time))
    end = np.maximum(np.searchsorted(last_number, numbers, side="right"), high)
    chunks = []
    for k, begin, stop, last in zip(*_lists(numbers, low, high, end), strict=True):
        # Differences are rounded, so test the span of a match exactly as the engines do.
        while last < len(time) and time[last] - time[stop - 1] <= window:
            last += 1
        chunks.append(Chunk((begin, stop), last, int(k) % threads, (begin, stop if start_filter else last)))
    return chunks


def keys_unsupported(program: SequenceProgram) -> str | None:
    """Return why matches cannot be found key by key, to complete "it …"; None if they can."""
    if not program.query.partition_by:
        return "has no key that all events of a match share"
    for bound in program.branches:
        for number, component in enumerate(bound.branch.components):
            steps = [component.step] if number else []
            steps += [component.inner] if component.high != 1 else []
            if "strict" in steps:
                return f"may skip no event before {component.variable!r}, whichever its key"
    return None


def key_blocks(partition_of_event: np.ndarray, threads: int, how: str = "least_loaded") -> np.ndarray:
    """Divide partition keys among units."""
    # Only for queries that pass `keys_unsupported`.
    # Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012: keys are hashed.
    # Differs: ``"least_loaded"`` needs to know how many events a key has.
    _at_least_one("threads", threads)
    if how not in KEY_DIVISIONS:
        raise CepError(f"how={how!r} is not known. There are {list(KEY_DIVISIONS)}")
    size = np.bincount(partition_of_event)
    if how == "hash":
        mixed = np.arange(len(size), dtype=np.uint64) * _GOLDEN >> np.uint64(33)
        return (mixed % np.uint64(threads)).astype(np.int64)
    return balanced_blocks(size, threads).astype(np.int64)


def _at_least_one(name: str, value: int) -> None:
    """Raise if a number is below 1."""
    if value < 1:
        raise CepError(f"{name}={value}: there must be at least 1")


def _lists(*arrays: np.ndarray) -> list[list]:
    """Return arrays as lists."""
    return [np.asarray(array).tolist() for array in arrays]


# Measure the costs of a thread's steps on this machine, from runs of the agents on a part of the events.

_FIRST_PART = 1_000  # events; doubled until a run takes _LONG_ENOUGH
_LONG_ENOUGH = 0.1  # seconds
_OUTLIER = 4.0  # times the expected time of a step: it was interrupted
_ROUNDS = 6
_ONE = Crew("fully_dynamic", 1)
Timed = list[tuple[np.ndarray, np.ndarray]]  # rows of traces, and the time of these steps, ns


def calibrate_costs(
    program: SequenceProgram, events: Events, *, n_events: int | None = None, repeats: int = 3,
    keep: bool = False, crew: Crew = _ONE, seed: int = 0,
) -> Costs:  # fmt: skip
    """Measure the costs of a thread's steps on this machine, for the conditions of one query."""
    # Threads run the agents on a part of the events, several times. The result is the best fit of the costs
    # to the times of all steps. Takes the time of the compilation, once per machine, and of ``repeats`` runs
    # of the part.
    # Source: HYPERSONIC, section IV, uses the costs c_i, b_i and q_i but does not say how to measure them.
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
    """Return the threads for a measurement, no more than the machine has cores."""
    if crew.allocation == "sequential":
        return crew
    return Crew("fully_dynamic", min(crew.n_threads, usable_threads()))


def _part(agents: Agents, n: int, seed: int) -> tuple[int, int, int]:
    """Return a random part of ``n`` events, as positions."""
    n_all = agents.events.n_events
    n = min(n, n_all)
    begin = int(np.random.default_rng(seed).integers(0, n_all - n + 1))
    return begin, begin + n, begin + n


def _time_part(agents: Agents, crew: Crew, keep: bool, part: tuple[int, int, int]) -> tuple[Timed, float]:
    """Run the agents on a part of the events; return the time of each step, and of all."""
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
    """Fit ``causes @ costs`` to times, with costs of 0 or more, and ignore interrupted steps."""
    # The fit assumes that the spread of a time grows with its square root.
    solve = _least_squares()
    weight, kept, costs = np.ones(len(times)), np.ones(len(times), bool), np.zeros(causes.shape[1])
    for _ in range(_ROUNDS if len(times) else 0):
        root = np.sqrt(weight[kept])
        costs = solve(causes[kept] * root[:, None], times[kept] * root)
        expected = np.maximum(np.einsum("ij,j", causes, costs), 1.0)
        weight, kept = 1.0 / expected, times <= _OUTLIER * expected + np.median(times)
    return costs.tolist()


def _least_squares() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function that minimises ``|a x - b|`` for x of 0 or more, on one thread."""
    # Idle BLAS threads spin for a while and would disturb the next measurement.
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
    agents: Agents, crew: Crew, settings: RunSettings = _SETTINGS, *, costs: Costs = _COSTS,
    event_bytes: float = 64.0, begin: float = 0.0, on_wait: Callable[[], None] | None = None, **of_run: Any,
) -> ParallelRun:  # fmt: skip
    """Run agents on threads in virtual time; `AgentRun` takes the keywords that are left."""
    # Source: HYPERSONIC, sections III to V.
    # Differs: tickets and watermarks correct the protocol. No
    # thread waits for a lock: threads read buffers while others write them. Starting a buffer costs ``lock``.
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
