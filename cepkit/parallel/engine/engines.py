"""Parallel engines by name: what all of them can, and agents in several forms; `divided` has the others.

Each is a value; all find the same matches. ``run`` uses real threads, ``simulate`` virtual time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import inf

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import Bound
from cepkit.errors import CepError, UnsupportedQueryError, nearest, truth, whole_number
from cepkit.events import Events
from cepkit.parallel.agents.agents import Agents, agents_unsupported
from cepkit.parallel.agents.crew import MOST_THREADS, ONE_BY_ONE, REMOVALS, Costs, Crew, Terms
from cepkit.parallel.agents.outcome import ParallelRun
from cepkit.parallel.agents.threads import run_agents
from cepkit.parallel.engine.matches import parallel_sequence
from cepkit.parallel.model.allocation import (
    COST_MODELS,
    LEAST_THREADS,
    allocate_threads,
    split_by_load,
)
from cepkit.parallel.model.costs import agent_loads
from cepkit.parallel.model.statistics import agent_statistics
from cepkit.parallel.simulation.simulation import simulate_agents
from cepkit.planning.planner import Engine, EngineValue

ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic")
_NO_EVENTS = Events(0, {}, np.zeros(0, np.int32), 0)
_WARM_UP = 20_000  # events of which "measured" counts the work


@dataclass(frozen=True, repr=False)
class ParallelEngine(EngineValue):
    """An engine of agents; the classes below say which."""

    __slots__ = ()
    summary = ""

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

    def planned(self, *, trace: bool) -> Engine:
        """Return the engine of the table that runs this value; see `EngineValue.planned`."""
        run = partial(parallel_sequence, engine=self, trace=trace)
        return Engine(
            str(self), self.summary, self._reason, run,
            automatic=False, takes_order=True, details=self.details,
        )  # fmt: skip

    def _reason(self, program: Bound) -> str | None:
        if not isinstance(program, SequenceProgram):
            return "it runs event sequences only"
        reason = self.reason_against(program)
        return reason and f"it {reason}"

    def check(self, program: SequenceProgram) -> None:
        """Raise UnsupportedQueryError when the engine cannot run a program."""
        if reason := self.reason_against(program):
            raise UnsupportedQueryError(f"{self} cannot run this query: it {reason}")

    @abstractmethod
    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return which thread works for which agent."""

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

    def terms(self) -> Terms:
        """Return how threads work."""
        return Terms()

    def run(
        self,
        program: SequenceProgram,
        events: Events,
        *,
        keep: bool = True,
        trace: bool = False,
        on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:
        """Find the matches on real threads; see `ParallelEngine.run`."""
        self.check(program)
        terms = replace(self.terms(), keep=keep, trace=trace)
        made = run_agents(Agents(program, events), self.crew(program, events), terms, on_wait=on_wait)
        return replace(made, engine=str(self))

    def simulate(
        self,
        program: SequenceProgram,
        events: Events,
        *,
        costs: Costs = Costs(),  # noqa: B008
        arrival: np.ndarray | None = None,
        keep: bool = False,
        trace: bool = False,
        event_bytes: float = 64.0,
        on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:
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

    def __post_init__(self) -> None:
        truth("Sequential: scoped", self.scoped)

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return one thread."""
        return ONE_BY_ONE

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

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> cep.simulate(events, query, event_type="kind", engine=cep.StateParallel()).n_threads
    2
    """

    summary = "a thread per agent"

    batch: int = 32

    def __post_init__(self) -> None:
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
        How many, 512 at most; on real threads more than there are cores bring nothing.
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

    def __post_init__(self) -> None:
        whole_number("Hybrid: threads", self.threads, 1, MOST_THREADS)
        whole_number("Hybrid: batch", self.batch, 1)
        for name, value, known in (
            ("allocation", self.allocation, ALLOCATIONS),
            ("cost_model", self.cost_model, COST_MODELS),
            ("removal", self.removal, REMOVALS[:2]),
        ):
            if value not in known:
                raise CepError(
                    f"Hybrid: {name} {value!r} is not known.{nearest(str(value), known)} "
                    f"There are {list(known)}"
                )
        if self.fuse is not None and self.fuse != "auto":
            object.__setattr__(self, "fuse", _pairs(self.fuse))

    def check_agents(self, program: SequenceProgram) -> None:
        """Raise CepError when there are too few threads, or pairs that are no neighbours."""
        self._named_pairs(Agents(program, _NO_EVENTS))

    def terms(self) -> Terms:
        """Return how threads work."""
        return Terms(batch=self.batch, removal=self.removal)

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return the threads of every agent, by the cost model."""
        agents = Agents(program, events)
        n = len(agents.labels)
        if not n or (self.allocation == "fully_dynamic" and self.threads == 1 and self.fuse is None):
            return Crew("fully_dynamic", self.threads)  # there is nothing to divide
        fused, least = self._named_pairs(agents), self._least
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

    @property
    def _least(self) -> int:
        """Threads that an agent, or a fused pair, takes at least."""
        return 0 if self.allocation == "fully_dynamic" else LEAST_THREADS

    def _named_pairs(self, agents: Agents) -> list[tuple[int, ...]]:
        """Return the pairs that are named, when the threads are enough for them and the other agents."""
        n, made = len(agents.labels), []
        if self.fuse == "auto":
            _fused_by_load(agents, [(0.0, 0.0)] * n, self.threads, self._least)
            return made
        for pair in self.fuse if isinstance(self.fuse, tuple) else ():
            names = [label.rstrip("+") for label in agents.labels]
            unknown = [name for name in pair if name not in names]
            if unknown or len(pair) != 2:
                raise CepError(
                    f"Hybrid: fuse={pair!r}: a pair of agents is meant, of {names} (the first variable "
                    "needs none)"
                )
            made.append(tuple(sorted(names.index(name) for name in pair)))
        agents.check_fused(made)
        n_groups = n - len(made)
        if self.threads < self._least * n_groups:
            raise CepError(
                f"{self}: {n_groups} agents take at least {self._least * n_groups} threads. "
                "Let neighbours share them (fuse='auto'), or take allocation='fully_dynamic'"
            )
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


def _pairs(fuse: object) -> tuple[tuple[str, str], ...]:
    """Return pairs of variables as tuples."""
    pairs = tuple(fuse) if isinstance(fuse, Sequence) and not isinstance(fuse, str) else None
    if pairs is None or not all(
        isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        and all(isinstance(name, str) for name in pair)
        for pair in pairs
    ):  # fmt: skip
        raise CepError(f"Hybrid: fuse={fuse!r}. Give 'auto', or pairs of variables: [('b', 'c')]")
    return tuple(map(tuple, pairs))


def _fused_by_load(
    agents: Agents, loads: Sequence[tuple[float, ...]], threads: int, least: int
) -> list[tuple[int, ...]]:
    """Return the neighbours to fuse: as few pairs as the number of threads allows, those with least to do.

    Agents that any thread serves (``least`` 0) get by with fewer threads than there are pairs.
    """
    follows, n = set(agents.followed), len(loads)
    work = [sum(load) for load in loads]
    n_pairs = max(0, n - threads // max(1, least))
    # By how many of the last agents are looked at: the least work of so many pairs, and their first agents.
    nothing: list[tuple[float, tuple[int, ...]]] = [(inf, ())] * n_pairs
    best = [[(0.0, ()), *nothing]]
    for a in reversed(range(n)):
        made = list(best[-1])
        for left in range(1, n_pairs + 1 if a in follows else 0):
            cost, pairs = best[-2][left - 1]
            made[left] = min(made[left], (cost + work[a] + work[a + 1], (a, *pairs)))
        best.append(made)
    n_most = max(left for left, (cost, _) in enumerate(best[-1]) if cost < inf)
    if n_most < n_pairs and least:
        raise CepError(
            f"threads={threads}: {n} agents take at least {least * (n - n_most)} with neighbours fused. "
            "allocation='fully_dynamic' takes any number"
        )
    return [(a, a + 1) for a in best[-1][n_most][1]]
