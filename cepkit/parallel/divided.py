"""Parallel engines that divide a stream into chunks or by partition keys, and run each part on one thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from cepkit import limits
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.errors import CepError, is_number, short_text, truth, whole_number
from cepkit.events import Events
from cepkit.parallel.agent_run import AgentRun
from cepkit.parallel.agents import ONE_BY_ONE, Agents, Costs, Crew, RunSettings
from cepkit.parallel.engines import ParallelEngine
from cepkit.parallel.outcome import ParallelRun, first_start, outcome, sum_runs
from cepkit.parallel.running import (
    Chunk,
    interval_chunks,
    key_blocks,
    keys_unsupported,
    looked_at,
    rip_chunks,
    run_units,
    simulate_agents,
)
from cepkit.values import dataclass, replace

_CHUNKS_PER_THREAD = 16
_NOTHING = Chunk((0, 0), 0, 0, (0, 0))


class StreamPart(NamedTuple):
    """A part of a stream: the thread that finds its matches, its agents, and its chunk, if it is one."""

    unit: int
    agents: Agents
    chunk: Chunk | None


@dataclass(frozen=True, slots=True, repr=False)
class _Divided(ParallelEngine):
    """An engine that runs independent parts of a stream, each on one thread, event by event."""

    threads: int = 2

    @abstractmethod
    def parts(self, program: SequenceProgram, events: Events) -> list[StreamPart]:
        """Return the parts."""

    def _all_parts(self, program: SequenceProgram, events: Events) -> list[StreamPart]:
        """Return the parts; without events, one empty part."""
        return self.parts(program, events) or [StreamPart(0, Agents(program, events), _NOTHING)]

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        return ONE_BY_ONE

    def run(
        self, program: SequenceProgram, events: Events, *, keep: bool = True, trace: bool = False,
        on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:  # fmt: skip
        """Find the matches on real threads; see `ParallelEngine.run`."""
        self.check(program)
        parts = self._all_parts(program, events)
        settings = RunSettings(keep=keep or self._filters(program), trace=trace)
        for _, agents, _ in parts:  # make code and arrays, which parts may share, before the clock starts
            _ = agents.join, agents.world, agents.arrays_of_events
        jobs = [
            (unit, partial(AgentRun, agents, ONE_BY_ONE, settings, own=_own(chunk)))
            for unit, agents, chunk in parts
        ]
        runs, seconds, busy = run_units(jobs, self.threads, on_wait=on_wait)
        start = min((first_start(run) for run in runs if run.shared[run.k.N_TRACED]), default=0.0)
        alone = [
            self._own_matches(outcome(run, str(self), 0.0, np.zeros(1), start=start), part, keep)
            for run, part in zip(runs, parts, strict=True)
        ]
        units = [unit for unit, _, _ in parts]
        return sum_runs(str(self), alone, seconds * 1e9, busy * 1e9, units)

    def simulate(
        self, program: SequenceProgram, events: Events, *, costs: Costs = Costs(),  # noqa: B008
        arrival: np.ndarray | None = None, keep: bool = False, trace: bool = False,
        event_bytes: float = 64.0, on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:  # fmt: skip
        """Find the matches in virtual time; see `ParallelEngine.simulate`.

        A thread begins its next part when it has finished the previous one and the first event has arrived.
        """
        self.check(program)
        clock, busy = np.zeros(self.threads), np.zeros(self.threads)
        alone, units = [], []
        for part in self._all_parts(program, events):
            unit, agents, chunk = part
            own_arrival = (
                arrival if arrival is None or chunk is not None else arrival[agents.events.row_of_event]
            )
            run = simulate_agents(
                agents, ONE_BY_ONE, RunSettings(keep=keep or self._filters(program), trace=trace),
                costs=costs, arrival=own_arrival, own=_own(chunk), event_bytes=event_bytes, begin=clock[unit],
                on_wait=on_wait,
            )  # fmt: skip
            clock[unit] = max(clock[unit], run.makespan)
            busy[unit] += run.busy[0]
            alone.append(self._own_matches(run, part, keep, own_arrival))
            units.append(unit)
        return sum_runs(str(self), alone, float(clock.max()), busy, units)

    def _filters(self, program: SequenceProgram) -> bool:
        """Return whether parts also find matches of other parts, which `_own_matches` drops."""
        return False

    def _own_matches(
        self, run: ParallelRun, part: StreamPart, keep: bool, arrival: np.ndarray | None = None
    ) -> ParallelRun:
        return run


def _own(chunk: Chunk | None) -> tuple[int, int, int] | None:
    """Return the positions at which matches of a chunk begin, and the end of the chunk; None for no chunk."""
    return None if chunk is None else (chunk.starts[0], chunk.starts[1], chunk.end)


@dataclass(frozen=True, slots=True, repr=False)
class RIP(_Divided):
    """Chunks of the stream, each with the window after it, dealt to the threads in turn.

    Parameters
    ----------
    threads : int
        Number of threads, at most 512.
    chunk : int, optional
        First events per chunk; None: a size that gives every thread 16 chunks.
    multiple : float, optional
        Length of a chunk in windows of time, as in OpenCEP. It replaces ``chunk``.
    start_filter : bool
        With ``multiple``: whether a chunk begins matches only with its own events. OpenCEP also begins
        matches in the overlap and drops them at the end. Chunks of queries with an ``evaluation_order`` do
        the same.

    Notes
    -----
    Source: Balkesen, Dindar, Wetter, Tatbul, "RIP: Run-based Intra-query Parallelism for Scalable Complex
    Event Processing", DEBS 2013; OpenCEP for ``multiple``.
    Differs: agents on one thread match each chunk, as in all engines here; see `rip_chunks`.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> cep.match(events, query, event_type="kind", engine=cep.RIP(threads=2, chunk=8)).count()
    22
    """

    summary = "chunks of the stream, each with the window after it"

    chunk: int | None = None
    multiple: float | None = None
    start_filter: bool = True

    def __post_init__(self) -> None:
        whole_number("RIP: threads", self.threads, 1, limits.THREADS)
        truth("RIP: start_filter", self.start_filter)
        if self.multiple is not None and not (
            is_number(self.multiple) and 1 <= self.multiple <= limits.EVENTS_TOGETHER
        ):
            raise CepError(
                f"RIP: multiple={short_text(repr(self.multiple))}. Give a number of windows, 1 or more and "
                f"{limits.EVENTS_TOGETHER:,} at most"
            )
        if self.chunk is not None:
            whole_number("RIP: chunk", self.chunk, 1, limits.EVENTS_TOGETHER)
            if self.multiple is not None:
                raise CepError("RIP: chunk and multiple both set the chunk size. Give only one of them")
        elif not self.start_filter and self.multiple is None:
            raise CepError("RIP: start_filter=False needs multiple. Give multiple as well")

    def _filters(self, program: SequenceProgram) -> bool:
        """Return whether chunks also find matches of other chunks, which `_own_matches` drops."""
        # With an evaluation order, the first event of a match may not be joined first.
        return not self.start_filter or bool(program.query.evaluation_order)

    def reason_against(self, program: SequenceProgram) -> str | None:
        """Return why the engine cannot run a program, to complete "it …"; None if it can."""
        if self.multiple is not None and not program.window.within:
            return "has no window in time above 0, which multiple counts"
        return ParallelEngine.reason_against(self, program)

    def parts(self, program: SequenceProgram, events: Events) -> list[StreamPart]:
        """Return a part of the stream for each chunk."""
        agents = Agents(program, events)
        places = agents.places
        if self.multiple is not None:
            time = places.time[places.place_of_position]
            within, start_filter = float(program.window.within or 0), self.start_filter
            chunks = interval_chunks(time, within, self.multiple, self.threads, start_filter=start_filter)
        else:
            size = self.chunk or max(1, -(-places.n // (_CHUNKS_PER_THREAD * self.threads)))
            chunks = rip_chunks(looked_at(places), size, self.threads)
        if program.query.evaluation_order and self.start_filter:
            chunks = [replace(chunk, starts=(chunk.own[0], chunk.end)) for chunk in chunks]
        return [StreamPart(chunk.unit, agents, chunk) for chunk in chunks]

    def _own_matches(
        self, run: ParallelRun, part: StreamPart, keep: bool, arrival: np.ndarray | None = None
    ) -> ParallelRun:
        """Return the run with the matches that begin in the chunk, and not in its overlap."""
        if part.chunk is None or run.found_at is None or not self._filters(part.agents.program):
            return run
        first, (begin, stop) = run.block.first, part.chunk.own
        rows = np.flatnonzero((first >= begin) & (first < stop))
        block, found_at, late = run.block.take(rows), run.found_at[rows], np.full(1, np.nan)
        if len(rows) and not run.measured:
            late = found_at - (0.0 if arrival is None else arrival[block.last])
        return replace(
            run, n_matches=len(rows), block=block if keep else block.take(slice(0, 0)),
            found_at=found_at if keep else found_at[:0], mean_latency=float(late.mean()),
            greatest_latency=float(late.max()),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class DataParallel(_Divided):
    """Partition keys divided among threads.

    Parameters
    ----------
    threads : int
        Number of threads, at most 512.
    how : str
        ``"least_loaded"``: assign keys with the most events first, each to the thread with the fewest events
        so far. ``"hash"``: by the key alone.

    Notes
    -----
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32), "key": 1})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> engine = cep.DataParallel(threads=2)
    >>> cep.match(events, query, event_type="kind", partition_by="key", engine=engine).count()
    22
    """

    summary = "partition keys divided among threads"

    how: str = "least_loaded"

    def __post_init__(self) -> None:
        whole_number("DataParallel: threads", self.threads, 1, limits.THREADS)
        key_blocks(np.zeros(0, np.int64), 1, self.how)

    def reason_against(self, program: SequenceProgram) -> str | None:
        """Return why the engine cannot run a program, to complete "it …"; None if it can."""
        return keys_unsupported(program) or ParallelEngine.reason_against(self, program)

    def parts(self, program: SequenceProgram, events: Events) -> list[StreamPart]:
        """Return the parts; positions count a part's own events."""
        unit = key_blocks(events.partition_of_event, self.threads, self.how)[events.partition_of_event]
        parts = []
        for r in range(self.threads):
            positions = np.flatnonzero(unit == r)
            if len(positions):
                parts.append(StreamPart(r, Agents(program, _part_of(events, positions)), None))
        return parts

    def _own_matches(
        self, run: ParallelRun, part: StreamPart, keep: bool, arrival: np.ndarray | None = None
    ) -> ParallelRun:
        """Return the run with positions in the whole stream, and not in the part of its thread."""
        block = run.block
        return replace(run, block=block.with_events(part.agents.events.rows(block.event_of_item)))


def _part_of(events: Events, positions: np.ndarray) -> Events:
    """Return the events at some positions; ``row_of_event`` has these positions."""
    keys, partition = np.unique(events.partition_of_event[positions], return_inverse=True)
    return Events(
        len(positions), {name: column.take(positions) for name, column in events.columns.items()},
        partition.astype(events.partition_of_event.dtype), len(keys), positions,
    )  # fmt: skip
