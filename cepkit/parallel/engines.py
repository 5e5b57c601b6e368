"""Parallel engines by name: agents in several forms, and the ways to divide a stream that they compete with.

Each is a value; all find the same matches. ``run`` uses real threads, ``simulate`` virtual time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import inf

import numpy as np

from cepkit.agent_costs import agent_loads
from cepkit.agent_threads import (
    COST_MODELS,
    LEAST_THREADS,
    allocate_threads,
    split_by_load,
)
from cepkit.compile.sequence import SequenceProgram
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.events import Events
from cepkit.parallel.agent_statistics import agent_statistics
from cepkit.parallel.agents import REMOVALS, AgentRun, Agents, Costs, Crew, Terms, agents_unsupported
from cepkit.parallel.chunks import Chunk, interval_chunks, key_blocks, keys_unsupported, looked_at, rip_chunks
from cepkit.parallel.outcome import ParallelRun, outcome, summed
from cepkit.parallel.simulation import simulate_agents
from cepkit.parallel.threads import run_agents, run_units

ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic")
_CHUNKS_PER_THREAD = 16
_NO_EVENTS = Events(0, {}, np.zeros(0, np.int32), 0)
_WARM_UP = 20_000  # events of which "measured" counts the work


class ParallelEngine(ABC):
    """An engine of agents; the classes below say which."""

    __slots__ = ()
    summary = ""
    has_trace = False

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.name == "threads" or getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def details(self, program: SequenceProgram) -> list[tuple[str, str]]:
        """Return what there is to say about a program, as labels and texts."""
        agents = Agents(program, _NO_EVENTS).labels
        return [("agents", ", ".join(agents) or "none: every event is a match")]

    def reason_against(self, program: SequenceProgram) -> str | None:
        """Return why the engine cannot run a program, None when it can; completes "it …"."""
        return agents_unsupported(program)

    def check(self, program: SequenceProgram) -> None:
        """Raise UnsupportedQueryError when the engine cannot run a program."""
        if reason := self.reason_against(program):
            raise UnsupportedQueryError(f"{self} cannot run this query: it {reason}")

    @abstractmethod
    def run(
        self,
        program: SequenceProgram,
        events: Events,
        *,
        keep: bool = True,
        trace: bool = False,
        on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:
        """Find the matches on real threads.

        Parameters
        ----------
        program : SequenceProgram
            One that `reason_against` has nothing against.
        events : Events
            With the program's columns.
        keep : bool
            Whether matches are kept; else they are counted.
        trace : bool
            Whether every step is written down.
        on_wait : callable, optional
            Called now and then; what it raises ends all threads and is passed on.

        Raises
        ------
        CepError
            When there are too few threads.
        """

    @abstractmethod
    def simulate(
        self,
        program: SequenceProgram,
        events: Events,
        *,
        costs: Costs = ...,
        arrival: np.ndarray | None = None,
        keep: bool = False,
        trace: bool = False,
        event_bytes: float = 64.0,
        on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:
        """Find the matches in virtual time; as `run`.

        Parameters
        ----------
        costs : Costs
            Of a thread's steps.
        arrival : ndarray of float64, shape (n_events,), optional
            When each event reaches the source, ns; None: at once.
        event_bytes : float
            Size of an event in a buffer.
        """


@dataclass(frozen=True, slots=True, repr=False)
class _OfAgents(ParallelEngine):
    """One network of agents."""

    has_trace = True

    @abstractmethod
    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return which thread works for which agent."""

    def terms(self) -> Terms:
        """Return how threads work."""
        return Terms()

    def run(self, program, events, *, keep=True, trace=False, on_wait=None) -> ParallelRun:
        """Find the matches on real threads; see `ParallelEngine.run`."""
        self.check(program)
        terms = replace(self.terms(), keep=keep, trace=trace)
        made = run_agents(Agents(program, events), self.crew(program, events), terms, on_wait=on_wait)
        return replace(made, engine=str(self))

    def simulate(
        self, program, events, *, costs=Costs(), arrival=None, keep=False, trace=False,  # noqa: B008
        event_bytes=64.0, on_wait=None,
    ) -> ParallelRun:  # fmt: skip
        """Find the matches in virtual time; see `ParallelEngine.simulate`."""
        self.check(program)
        terms = replace(self.terms(), keep=keep, trace=trace)
        made = simulate_agents(
            Agents(program, events), self.crew(program, events), terms,
            costs=costs, arrival=arrival, event_bytes=event_bytes, on_wait=on_wait,
        )  # fmt: skip
        return replace(made, engine=str(self))


@dataclass(frozen=True, slots=True, repr=False)
class Sequential(_OfAgents):
    """One thread, agents in turn, event by event.

    Parameters
    ----------
    scoped : bool
        Whether only events in a partial match's window are looked at; else all that the buffers hold.

    Notes
    -----
    Source: HYPERSONIC, section VI: the sequential baseline.
    Differs: whether the paper's one prunes its buffers is not said; ``scoped=False`` does not.

    Examples
    --------
    >>> Sequential(scoped=False)
    Sequential(scoped=False)
    """

    summary = "agents in turn on one thread, event by event"

    scoped: bool = True

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return one thread."""
        return Crew("sequential", 1)

    def terms(self) -> Terms:
        """Return how the thread works: one event after the other."""
        return Terms(scoped=self.scoped, removal="watermark" if self.scoped else "window")


@dataclass(frozen=True, slots=True, repr=False)
class StateParallel(_OfAgents):
    """A thread per agent, that is per component but the first.

    Parameters
    ----------
    batch : int
        Events, or partial matches, that a thread takes at once.

    Notes
    -----
    Source: HYPERSONIC, section II: state-based parallelism.
    """

    summary = "a thread per agent"

    batch: int = 32

    def __post_init__(self):
        whole_number("StateParallel: batch", self.batch, 1)

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return as many threads as agents."""
        return Crew("state_dynamic", max(1, len(Agents(program, events).stage_of_agent)))

    def terms(self) -> Terms:
        """Return how threads work."""
        return Terms(batch=self.batch)


@dataclass(frozen=True, slots=True, repr=False)
class Hybrid(_OfAgents):
    """Agents with several threads each: HYPERSONIC.

    Parameters
    ----------
    threads : int
        How many.
    allocation : str
        ``"static"``: a thread takes the events or the partial matches of one agent; ``"state_dynamic"``: both
        of one agent; ``"fully_dynamic"``: whatever waits, its own agent's first. The first two take at least
        two threads per agent.
    fuse : None, "auto" or sequence of pairs of str
        Neighbouring agents that share their threads and pass partial matches on without a queue: as many as
        the number of threads makes necessary, or pairs of variables.
    cost_model : str
        By which threads are divided among agents: ``"simplex"``, ``"paper"``, or ``"measured"``, by the work
        of a first part of the events.
    batch : int
        Events, or partial matches, that a thread takes at once.
    removal : str
        ``"watermark"``: what can take part in no match to come; ``"window"``: events stay as long as a
        partial match in their window may come.

    Raises
    ------
    CepError
        For a value that is not known, or too few threads.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: tickets and watermarks make the printed protocol exact; nothing is locked while pairs are tested,
    and items are taken in batches.

    Examples
    --------
    >>> Hybrid(threads=8, allocation="static")
    Hybrid(threads=8, allocation='static')
    """

    summary = "agents with several threads each: HYPERSONIC, corrected"

    threads: int = 2
    allocation: str = "fully_dynamic"
    fuse: str | Sequence[tuple[str, str]] | None = None
    cost_model: str = "simplex"
    batch: int = 32
    removal: str = "watermark"

    def __post_init__(self):
        whole_number("Hybrid: threads", self.threads, 1)
        whole_number("Hybrid: batch", self.batch, 1)
        for name, value, known in (
            ("allocation", self.allocation, ALLOCATIONS),
            ("cost_model", self.cost_model, COST_MODELS),
            ("removal", self.removal, REMOVALS[:2]),
        ):
            if value not in known:
                raise CepError(f"Hybrid: {name} {value!r} is not known. There are {list(known)}")
        if isinstance(self.fuse, str) and self.fuse != "auto":
            raise CepError(f"Hybrid: fuse={self.fuse!r}. Give 'auto', or pairs of variables: [('b', 'c')]")
        if self.fuse is not None and not isinstance(self.fuse, str):
            object.__setattr__(self, "fuse", tuple(map(tuple, self.fuse)))

    def terms(self) -> Terms:
        """Return how threads work."""
        return Terms(batch=self.batch, removal=self.removal)

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return the threads of every agent, by the cost model."""
        agents = Agents(program, events)
        n = len(agents.labels)
        if not n or (self.allocation == "fully_dynamic" and self.threads == 1 and self.fuse is None):
            return Crew("fully_dynamic", self.threads)  # there is nothing to divide
        fused = self._fused(agents)
        n_groups = n - sum(len(group) - 1 for group in fused)
        least = 0 if self.allocation == "fully_dynamic" else LEAST_THREADS
        if self.threads < least * n_groups and not self.fuse == "auto":
            raise CepError(
                f"{self}: {n_groups} agents take at least {least * n_groups} threads. "
                "Let neighbours share them (fuse='auto'), or take allocation='fully_dynamic'"
            )
        loads = self._loads(agents)
        if self.fuse == "auto":
            fused = _fused_by_load(agents, loads, self.threads, least)
        groups = [*fused, *((a,) for a in range(n) if not any(a in group for group in fused))]
        groups.sort()
        of_group = [float(sum(loads[a][0] + loads[a][1] for a in group)) for group in groups]
        of_agent = allocate_threads(of_group, self.threads, least)
        of_events = []
        for group, n_own in zip(groups, of_agent, strict=True):
            of_kind = [float(sum(loads[a][kind] for a in group)) for kind in (0, 1)]
            of_events.append(split_by_load(n_own, *of_kind)[0] if n_own > 1 else n_own)
        return Crew(self.allocation, self.threads, of_agent, tuple(of_events), tuple(fused))

    def _fused(self, agents: Agents) -> list[tuple[int, ...]]:
        made = []
        for pair in self.fuse if isinstance(self.fuse, tuple) else ():
            names = [label.rstrip("+") for label in agents.labels]
            unknown = [name for name in pair if name not in names]
            if unknown or len(pair) != 2:
                raise CepError(f"Hybrid: fuse={pair!r}: a pair of agents is meant, of {names}")
            a, b = sorted(names.index(name) for name in pair)
            if b != a + 1 or a not in _followed(agents):
                raise CepError(f"Hybrid: fuse={pair!r}: neighbours are meant, of {names}")
            if any({a, b} & set(other) for other in made):
                raise CepError(f"Hybrid: fuse={pair!r}: an agent is in one pair only")
            made.append((a, b))
        return made

    def _loads(self, agents: Agents) -> list[tuple[float, float]]:
        """Return what each agent's event and match workers have to do, in one unit."""
        if self.cost_model == "measured":
            n = min(_WARM_UP, agents.places.n)
            crew = Crew("fully_dynamic", 1)
            run = run_agents(agents, crew, Terms(keep=False, removal=self.removal), own=(0, n, n))
            return [(float(e + 1), float(m + 1)) for e, m in run.looked]
        loads = []
        for rates in agent_statistics(agents.program, agents.events):
            n = len(rates.agents)
            half = [self.threads / max(1, len(agents.labels)) / 2] * n
            of_branch = agent_loads(rates, half, half, self.cost_model) if n else []
            loads += [(load / 2, load / 2) for load in of_branch]
        return loads


def _followed(agents: Agents) -> list[int]:
    """Return the agents whose partial matches go to the next agent."""
    stages = agents.stage_of_agent
    ranks = [agents.stages[s][2] for s in stages]
    return [a for a in range(len(stages) - 1) if stages[a + 1] == stages[a] + 1 and ranks[a + 1]]


def _fused_by_load(agents: Agents, loads, threads: int, least: int) -> list[tuple[int, ...]]:
    """Return the neighbours to fuse: as few pairs as the number of threads allows, those with least to do.

    Agents that any thread serves (``least`` 0) get by with fewer threads than there are pairs.
    """
    follows, n = set(_followed(agents)), len(loads)
    work = [sum(load) for load in loads]
    n_pairs = max(0, n - threads // max(1, least))
    # By how many of the last agents are looked at: the least work of so many pairs, and their first agents.
    best = [[(0.0, ())] + [(inf, ())] * n_pairs]
    for a in reversed(range(n)):
        made = list(best[-1])
        for left in range(1, n_pairs + 1 if a in follows else 0):
            cost, pairs = best[-2][left - 1]
            made[left] = min(made[left], (cost + work[a] + work[a + 1], (a, *pairs)))
        best.append(made)
    n_most = max(left for left, (cost, _) in enumerate(best[-1]) if cost < inf)
    if n_most < n_pairs and least:
        raise CepError(
            f"threads={threads}: {n} agents take at least {least * (n - n_most)} with neighbours fused"
        )
    return [(a, a + 1) for a in best[-1][n_most][1]]


@dataclass(frozen=True, slots=True, repr=False)
class _Divided(ParallelEngine):
    """Independent parts of a stream, each found by one thread, event by event."""

    @abstractmethod
    def parts(self, program: SequenceProgram, events: Events) -> list[tuple[int, Agents, Chunk | None]]:
        """Return the thread, the agents and the chunk of every part."""

    @property
    @abstractmethod
    def n_threads(self) -> int:
        """How many threads."""

    def run(self, program, events, *, keep=True, trace=False, on_wait=None) -> ParallelRun:
        """Find the matches on real threads; see `ParallelEngine.run`."""
        self._check_trace(program, trace)
        parts = self.parts(program, events)
        terms = Terms(keep=True if self._filters else keep)
        for _, agents, _ in parts:  # code and arrays that parts may share are made before the clock starts
            agents.join, agents.world, agents.arrays_of_events  # noqa: B018
        made = [
            (unit, partial(AgentRun, agents, Crew("sequential", 1), terms, own=_own(chunk)))
            for unit, agents, chunk in parts
        ]
        runs, seconds, busy = run_units(made, self.n_threads, on_wait=on_wait)
        alone = [
            self._own_matches(outcome(run, str(self), 0.0, np.zeros(1)), agents, chunk, keep)
            for run, (_, agents, chunk) in zip(runs, parts, strict=True)
        ]
        units = [unit for unit, _, _ in parts]
        return self._sum(program, events, alone, seconds * 1e9, busy * 1e9, units, measured=True)

    def simulate(
        self, program, events, *, costs=Costs(), arrival=None, keep=False, trace=False,  # noqa: B008
        event_bytes=64.0, on_wait=None,
    ) -> ParallelRun:  # fmt: skip
        """Find the matches in virtual time; see `ParallelEngine.simulate`.

        A thread begins with its next part when it has done the last one and the part's first event is there.
        """
        self._check_trace(program, trace)
        clock, busy = np.zeros(self.n_threads), np.zeros(self.n_threads)
        alone, units = [], []
        for unit, agents, chunk in self.parts(program, events):
            own_arrival = (
                arrival if arrival is None or chunk is not None else arrival[agents.events.row_of_event]
            )
            made = simulate_agents(
                agents, Crew("sequential", 1), Terms(keep=True if self._filters else keep), costs=costs,
                arrival=own_arrival, own=_own(chunk), event_bytes=event_bytes, begin=clock[unit],
                on_wait=on_wait,
            )  # fmt: skip
            clock[unit] = max(clock[unit], made.makespan)
            busy[unit] += made.busy[0]
            alone.append(self._own_matches(made, agents, chunk, keep, own_arrival))
            units.append(unit)
        return self._sum(program, events, alone, float(clock.max()), busy, units, measured=False)

    @property
    def _filters(self) -> bool:
        return False

    def _check_trace(self, program: SequenceProgram, trace: bool) -> None:
        self.check(program)
        if trace:
            raise UnsupportedQueryError(
                f"trace=True: {self} divides the stream; engines of agents have a trace"
            )

    def _own_matches(
        self,
        run: ParallelRun,
        agents: Agents,
        chunk: Chunk | None,
        keep: bool,
        arrival: np.ndarray | None = None,
    ) -> ParallelRun:
        return run

    def _sum(self, program, events, alone, makespan, busy, units, measured) -> ParallelRun:
        if not alone:
            nothing = run_agents(Agents(program, events), Crew("sequential", 1), Terms(keep=False))
            return replace(
                nothing, engine=str(self), measured=measured, busy=busy, makespan=makespan, n_units=0
            )
        return summed(str(self), alone, makespan, busy, units)


def _own(chunk: Chunk | None) -> tuple[int, int, int] | None:
    return None if chunk is None else (chunk.starts[0], chunk.starts[1], chunk.end)


@dataclass(frozen=True, slots=True, repr=False)
class RIP(_Divided):
    """Chunks of the stream, each with the window behind it, one after the other to each thread.

    Parameters
    ----------
    threads : int
        How many.
    chunk : int, optional
        Events whose matches a chunk finds; None: so many that every thread gets 16 chunks.
    multiple : float, optional
        Instead: length of a chunk in windows of time, as OpenCEP divides.
    start_filter : bool
        With ``multiple``: whether a chunk begins matches with its own events only. OpenCEP begins them in the
        overlap, too, and drops them at the end.

    Notes
    -----
    Source: Balkesen, Dindar, Wetter, Tatbul, "RIP: Run-based Intra-query Parallelism for Scalable Complex
    Event Processing", DEBS 2013; OpenCEP for ``multiple``.
    Differs: each chunk is matched by agents on one thread, as all engines here; see `rip_chunks`.
    """

    summary = "chunks of the stream, each with the window behind it"

    threads: int = 2
    chunk: int | None = None
    multiple: float | None = None
    start_filter: bool = True

    def __post_init__(self):
        whole_number("RIP: threads", self.threads, 1)
        if self.chunk is not None:
            whole_number("RIP: chunk", self.chunk, 1)
            if self.multiple is not None:
                raise CepError("RIP: chunk and multiple say the same thing in two ways; give one")
        elif not self.start_filter and self.multiple is None:
            raise CepError("RIP: start_filter=False goes with multiple")

    @property
    def n_threads(self) -> int:
        """How many threads."""
        return self.threads

    @property
    def _filters(self) -> bool:
        return not self.start_filter

    def reason_against(self, program: SequenceProgram) -> str | None:
        """Return why the engine cannot run a program, None when it can."""
        if self.multiple is not None and not program.window.within:
            return "has no window in time above 0, which multiple counts"
        return ParallelEngine.reason_against(self, program)

    def parts(self, program: SequenceProgram, events: Events) -> list[tuple[int, Agents, Chunk | None]]:
        """Return the thread, the agents and the chunk of every part."""
        agents = Agents(program, events)
        places = agents.places
        if not places.n:
            return []
        end = looked_at(places)[1]
        if self.multiple is not None:
            time = places.time[places.place_of_position]
            chunks = interval_chunks(
                time,
                float(program.window.within),
                self.multiple,
                self.threads,
                start_filter=self.start_filter,
            )
        else:
            size = self.chunk or max(1, -(-places.n // (_CHUNKS_PER_THREAD * self.threads)))
            chunks = rip_chunks(end, size, self.threads)
        return [(chunk.unit, agents, chunk) for chunk in chunks]

    def _own_matches(
        self,
        run: ParallelRun,
        agents: Agents,
        chunk: Chunk | None,
        keep: bool,
        arrival: np.ndarray | None = None,
    ) -> ParallelRun:
        if not self._filters:
            return run
        first = run.block.first
        own = np.flatnonzero((first >= chunk.own[0]) & (first < chunk.own[1]))
        block, found_at, late = run.block.take(own), run.found_at[own], np.full(1, np.nan)
        if len(own) and not run.measured:
            late = found_at - (0.0 if arrival is None else arrival[block.last])
        return replace(
            run,
            n_matches=len(own),
            block=block if keep else block.take(slice(0, 0)),
            found_at=found_at if keep else found_at[:0],
            mean_latency=float(late.mean()),
            greatest_latency=float(late.max()),
        )


@dataclass(frozen=True, slots=True, repr=False)
class DataParallel(_Divided):
    """Partition keys divided among threads.

    Parameters
    ----------
    threads : int
        How many.
    how : str
        ``"least_loaded"``: keys with the most events first, each to the thread with the fewest so far;
        ``"hash"``: by the key alone.

    Notes
    -----
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012.
    """

    summary = "partition keys divided among threads"

    threads: int = 2
    how: str = "least_loaded"

    def __post_init__(self):
        whole_number("DataParallel: threads", self.threads, 1)
        key_blocks(np.zeros(0, np.int64), 1, self.how)

    @property
    def n_threads(self) -> int:
        """How many threads."""
        return self.threads

    def reason_against(self, program: SequenceProgram) -> str | None:
        """Return why the engine cannot run a program, None when it can."""
        return keys_unsupported(program) or ParallelEngine.reason_against(self, program)

    def parts(self, program: SequenceProgram, events: Events) -> list[tuple[int, Agents, Chunk | None]]:
        """Return the thread and the agents of every part; positions are those of its own events."""
        unit = key_blocks(events.partition_of_event, self.threads, self.how)[events.partition_of_event]
        made = []
        for r in range(self.threads):
            positions = np.flatnonzero(unit == r)
            if len(positions):
                made.append((r, Agents(program, _part_of(events, positions)), None))
        return made

    def _own_matches(
        self,
        run: ParallelRun,
        agents: Agents,
        chunk: Chunk | None,
        keep: bool,
        arrival: np.ndarray | None = None,
    ) -> ParallelRun:
        block = run.block
        return replace(
            run, block=replace(block, event_of_item=agents.events.row_of_event[block.event_of_item])
        )


def _part_of(events: Events, positions: np.ndarray) -> Events:
    """Return some events; ``row_of_event`` is their position among all."""
    keys, partition = np.unique(events.partition_of_event[positions], return_inverse=True)
    return Events(
        len(positions),
        {name: column.take(positions) for name, column in events.columns.items()},
        partition.astype(events.partition_of_event.dtype),
        len(keys),
        positions,
    )
