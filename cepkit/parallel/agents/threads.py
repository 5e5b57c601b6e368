"""Run agents on real threads, and divide a stream for the baselines: by first events, by time, or by key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.regex import balanced_blocks
from cepkit.engines.shared.places import Places
from cepkit.errors import CepError
from cepkit.limits import TICKS
from cepkit.parallel.agents.agent_run import KERNELS, AgentRun
from cepkit.parallel.agents.agents import Agents, Crew, RunSettings
from cepkit.parallel.agents.outcome import ParallelRun, outcome
from cepkit.progress import checkpoint, run_on_threads

# Run agents on real threads, each a loop that does not hold the interpreter's lock.

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
    """Return for every event the end of the positions that a match beginning there depends on.

    Events before a match that must be absent are not counted: agents read them from the whole stream.
    """
    absences = [(a, len(b.accepts)) for b in places.program.branches for a in b.branch.absences]
    position, end = places.position_of_place, np.empty(places.n, np.int64)
    # An absence reaches to the end of the window in time, even if a window in events is shorter.
    ends_late = any(absence.before >= n for absence, n in absences)
    end_of_place = np.maximum(places.time_end if ends_late else places.window_end, np.arange(1, places.n + 1))
    end[position] = position[end_of_place - 1] + 1
    return end


def rip_chunks(end_of_position: np.ndarray, n_events_per_chunk: int, threads: int) -> list[Chunk]:
    """Divide a stream into chunks of equally many first events.

    Each match begins in exactly one chunk, and this chunk sees all later events that it depends on. So the
    chunks together find each match of the stream once, with every strategy. An after-match policy must be
    applied to the matches of all chunks together.

    Source: Balkesen, Dindar, Wetter, Tatbul, "RIP: Run-based Intra-query Parallelism for Scalable Complex
    Event Processing", DEBS 2013.
    Differs: the overlap covers the events of the last runs, not a fixed number of events.
    """
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
    """Divide a stream into intervals of time, each with the window after it.

    An event at time t goes to the units of the intervals of t and of t minus a window. Overlap costs a
    factor of 1 + 1 / multiple.

    Source: OpenCEP, ``parallel/data_parallel/RIPParallelExecutionAlgorithm.py``.
    Differs: OpenCEP begins runs at all events, as without ``start_filter``. It also sends the first window of
    a stream to the last unit.
    """
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
    """Divide partition keys among units.

    Only for queries that pass `keys_unsupported`.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012: keys are hashed.
    Differs: ``"least_loaded"`` needs to know how many events a key has.
    """
    _at_least_one("threads", threads)
    if how not in KEY_DIVISIONS:
        raise CepError(f"how={how!r} is not known. There are {list(KEY_DIVISIONS)}")
    size = np.bincount(partition_of_event)
    if how == "hash":
        mixed = np.arange(len(size), dtype=np.uint64) * _GOLDEN >> np.uint64(33)
        return (mixed % np.uint64(threads)).astype(np.int64)
    return balanced_blocks(size, threads).astype(np.int64)


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise CepError(f"{name}={value}: there must be at least 1")


def _lists(*arrays: np.ndarray) -> list[list]:
    return [np.asarray(array).tolist() for array in arrays]
