"""The common base of all parallel engines, and the engines of agents; `divided` has the other engines.

An engine is a value, and all engines find the same matches. ``run`` uses real threads, ``simulate`` virtual
time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from cepkit import limits
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.sequence_set import FoundLater, KnownMatches
from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError, nearest, truth, whole_number
from cepkit.events import Events
from cepkit.language.expressions.durations import count_text
from cepkit.parallel.agents import ONE_BY_ONE, REMOVALS, Agents, Costs, Crew, RunSettings, agents_unsupported
from cepkit.parallel.model import (
    COST_MODELS,
    LEAST_THREADS,
    agent_loads,
    agent_statistics,
    allocate_threads,
    pairs_to_fuse,
    split_by_load,
)
from cepkit.parallel.outcome import ParallelRun
from cepkit.parallel.running import run_agents, simulate_agents
from cepkit.planning.planner import Engine, EngineValue
from cepkit.values import dataclass, fields, replace

# The matches of a parallel engine, found at first use, and the run that counted them.

MOST_KEPT = 1 << 26  # matches, since agents make all of them at once


class ParallelMatches(FoundLater):
    """The matches of a program in events by a parallel engine, found at first use."""

    # Counting keeps no match. The first access to a match makes all matches. A bounded first look, such as a
    # ``repr``, uses the search engine.

    def __init__(self, program: SequenceProgram, events: Events, engine: ParallelEngine, trace: bool):
        is_final = not program.can_be_forbidden_later
        super().__init__(events, partial(search_sequence, program), is_final=is_final)
        self.program, self.engine, self.trace = program, engine, trace

    @property
    def run(self) -> ParallelRun:
        """The run that counts the matches."""
        return self._counting_run

    @cached_property
    def _counting_run(self) -> ParallelRun:
        """The run that counts the matches."""
        return self._run_engine(keep=False)

    def _run_engine(self, keep: bool) -> ParallelRun:
        """Run the engine over all events."""
        self.engine.check(self.program)
        return self.engine.run(self.program, self.events, keep=keep, trace=self.trace)

    @cached_property
    def _found(self) -> KnownMatches:
        """All matches, from a second run that keeps them."""
        if self.count() > MOST_KEPT:
            raise ResultTooLargeError(
                f"{self.engine} makes all matches at once, and {count_text(self.count())} are too many. "
                "Use count(), or engine='auto', which makes only the matches you look at"
            )
        return KnownMatches(self.events, self._run_engine(keep=True).block.sorted())

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.run.n_matches

    def any(self) -> bool:
        return self.count() > 0

    def at_least(self) -> tuple[int, bool]:
        return (self.count(), True) if "_counting_run" in self.__dict__ else super().at_least()


ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic")
_NO_EVENTS = Events(0, {}, np.zeros(0, np.int32), 0)
_WARM_UP = 20_000  # first events whose work "measured" counts


@dataclass(frozen=True, repr=False)
class ParallelEngine(EngineValue):
    """The base of all parallel engines. By itself it runs one network of agents."""

    __slots__ = ()
    summary = ""

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.name == "threads" or getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def details(self, program: SequenceProgram) -> list[tuple[str, str]]:
        """Return details about a program for `explain`, as labels and texts."""
        agents = Agents(program, _NO_EVENTS).labels
        return [("agents", ", ".join(agents) or "none: every event is a match")]

    def reason_against(self, program: SequenceProgram) -> str | None:
        """Return why the engine cannot run a program, to complete "it …"; None if it can."""
        return agents_unsupported(program)

    def planned(self, *, trace: bool) -> Engine:
        """Return the planner's engine that runs this value; see `EngineValue.planned`."""
        run = partial(ParallelMatches, engine=self, trace=trace)
        return Engine(
            str(self), self.summary, self._reason, run,
            automatic=False, takes_order=True, details=self.details,
        )  # fmt: skip

    def _reason(self, program: BoundQuery) -> str | None:
        """Return why the engine cannot run a program, or None."""
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
        """Return the threads, and the agents that they work for."""

    def settings(self) -> RunSettings:
        """Return the settings of a run."""
        return RunSettings()

    def run(
        self, program: SequenceProgram, events: Events, *, keep: bool = True, trace: bool = False,
        on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:  # fmt: skip
        """Find the matches on real threads."""
        # Without ``keep`` they are only counted. ``trace`` records every step. ``on_wait`` is called
        # regularly; an exception from it stops all threads and is raised.
        self.check(program)
        settings = replace(self.settings(), keep=keep, trace=trace)
        run = run_agents(Agents(program, events), self.crew(program, events), settings, on_wait=on_wait)
        return replace(run, engine=str(self))

    def simulate(
        self, program: SequenceProgram, events: Events, *, costs: Costs = Costs(),  # noqa: B008
        arrival: np.ndarray | None = None, keep: bool = False, trace: bool = False,
        event_bytes: float = 64.0, on_wait: Callable[[], None] | None = None,
    ) -> ParallelRun:  # fmt: skip
        """Find the matches in virtual time; for other arguments see `run`.

        ``arrival`` has the time at which each event reaches the source, in ns; None: 0 for all.
        ``event_bytes`` is the size of an event in a buffer.
        """
        self.check(program)
        settings = replace(self.settings(), keep=keep, trace=trace)
        run = simulate_agents(
            Agents(program, events), self.crew(program, events), settings,
            costs=costs, arrival=arrival, event_bytes=event_bytes, on_wait=on_wait,
        )  # fmt: skip
        return replace(run, engine=str(self))


@dataclass(frozen=True, slots=True, repr=False)
class Sequential(ParallelEngine):
    """One thread that runs the agents in turn, event by event.

    Parameters
    ----------
    scoped : bool
        Whether agents look only at events in a partial match's window; False: at all events in the buffers.

    Notes
    -----
    Source: HYPERSONIC, section VI: the sequential baseline.
    Differs: the paper does not say whether its baseline prunes its buffers; ``scoped=False`` does not.

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
        return ONE_BY_ONE

    def settings(self) -> RunSettings:
        return RunSettings(scoped=self.scoped, removal="watermark" if self.scoped else "window")


@dataclass(frozen=True, slots=True, repr=False)
class StateParallel(ParallelEngine):
    """One thread per agent, that is, per component after the first.

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
        whole_number("StateParallel: batch", self.batch, 1, limits.EVENTS_TOGETHER)

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        return Crew("state_dynamic", max(1, len(Agents(program, events).stage_of_agent)))

    def settings(self) -> RunSettings:
        return RunSettings(batch=self.batch)


@dataclass(frozen=True, slots=True, repr=False)
class Hybrid(ParallelEngine):
    """Agents with several threads each: HYPERSONIC.

    Parameters
    ----------
    threads : int
        Number of threads, at most 512. More real threads than cores bring nothing.
    allocation : str
        ``"static"``: a thread takes either the events or the partial matches of one agent.
        ``"state_dynamic"``: a thread takes both of one agent.
        ``"fully_dynamic"``: a thread takes any waiting work, that of its own agent first.
        The first two need at least two threads per agent.
    fuse : None, "auto" or sequence of pairs of str
        Pairs of neighbouring agents that share their threads and send partial matches without a queue.
        ``"auto"`` fuses as few pairs as the number of threads allows. Otherwise give pairs of variables.
    cost_model : str
        Cost model that divides threads among agents: ``"simplex"``, ``"paper"``, or ``"measured"`` (by the
        work on a first part of the events).
    batch : int
        Events, or partial matches, that a thread takes at once.
    removal : str
        ``"watermark"``: remove items that cannot be part of a future match. ``"window"``: keep events as long
        as a partial match in their window may come.

    Raises
    ------
    CepError
        When a value is unknown, or there are too few threads.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: tickets and watermarks make the printed protocol exact. Threads hold no lock while they test
    pairs, and take items in batches.

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
        whole_number("Hybrid: threads", self.threads, 1, limits.THREADS)
        whole_number("Hybrid: batch", self.batch, 1, limits.EVENTS_TOGETHER)
        for name, value, names in (
            ("allocation", self.allocation, ALLOCATIONS),
            ("cost_model", self.cost_model, COST_MODELS),
            ("removal", self.removal, REMOVALS[:2]),
        ):
            if value not in names:
                raise CepError(
                    f"Hybrid: {name} {value!r} is not known.{nearest(str(value), names)} "
                    f"There are {list(names)}"
                )
        if self.fuse is not None and self.fuse != "auto":
            object.__setattr__(self, "fuse", _pairs(self.fuse))

    def check_agents(self, program: SequenceProgram) -> None:
        """Raise CepError if agents need more threads, or a pair of ``fuse`` is unknown or not adjacent."""
        self._named_pairs(Agents(program, _NO_EVENTS))

    def settings(self) -> RunSettings:
        return RunSettings(batch=self.batch, removal=self.removal)

    def crew(self, program: SequenceProgram, events: Events) -> Crew:
        """Return the threads of every agent by the cost model."""
        agents = Agents(program, events)
        n = len(agents.labels)
        if not n or (self.allocation == "fully_dynamic" and self.threads == 1 and self.fuse is None):
            return Crew("fully_dynamic", self.threads)  # nothing to divide
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
        """Least number of threads of an agent or a fused pair."""
        return 0 if self.allocation == "fully_dynamic" else LEAST_THREADS

    def _named_pairs(self, agents: Agents) -> list[tuple[int, ...]]:
        """Return the named pairs; raise CepError when there are too few threads for all agents."""
        n, pairs = len(agents.labels), []
        if self.fuse == "auto":
            _fused_by_load(agents, [(0.0, 0.0)] * n, self.threads, self._least)
            return pairs
        for pair in self.fuse if isinstance(self.fuse, tuple) else ():
            names = [label.rstrip("+") for label in agents.labels]
            unknown = [name for name in pair if name not in names]
            if unknown or len(pair) != 2:
                raise CepError(
                    f"Hybrid: fuse={pair!r} is not a pair of agents. The agents are {names} (the first "
                    "variable has none)"
                )
            pairs.append(tuple(sorted(names.index(name) for name in pair)))
        agents.check_fused(pairs)
        n_groups = n - len(pairs)
        if self.threads < self._least * n_groups:
            raise CepError(
                f"{self}: {n_groups} agents need at least {self._least * n_groups} threads. "
                "Let neighbours share them (fuse='auto'), or use allocation='fully_dynamic'"
            )
        return pairs

    def _loads(self, agents: Agents) -> list[tuple[float, float]]:
        """Return the loads of each agent's event workers and match workers, in one unit."""
        if self.cost_model == "measured":
            n = min(_WARM_UP, agents.places.n)
            crew = Crew("fully_dynamic", 1)
            run = run_agents(agents, crew, RunSettings(keep=False, removal=self.removal), own=(0, n, n))
            return [(float(e + 1), float(m + 1)) for e, m in run.looked]
        loads = []
        for rates in agent_statistics(agents.program, agents.events):
            n = len(rates.agents)
            half = [self.threads / max(1, len(agents.labels)) / 2] * n
            of_branch = agent_loads(rates, half, half, self.cost_model) if n else []
            loads += [(load / 2, load / 2) for load in of_branch]
        return loads


def _pairs(fuse: object) -> tuple[tuple[str, str], ...]:
    """Return the pairs of variables whose agents share threads. Raise for anything else."""
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
    """Return the pairs to fuse: as few as the number of threads allows, with the least load."""
    # With ``least`` 0, any thread serves any agent, and too few threads are no error.
    n = len(loads)
    n_pairs = max(0, n - threads // max(1, least))
    firsts = pairs_to_fuse([sum(load) for load in loads], n_pairs, agents.followed)
    if len(firsts) < n_pairs and least:
        raise CepError(
            f"threads={threads}: {n} agents need at least {least * (n - len(firsts))} with neighbours fused. "
            "allocation='fully_dynamic' takes any number"
        )
    return [(a, a + 1) for a in firsts]
