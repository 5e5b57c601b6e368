"""A program's agents: its stages, who serves them, and the arrays of a run, which grow when they are full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from cepkit.compile.join_source import world_rows, write_joins
from cepkit.compile.joins import JoinPlan, joins_unsupported, plan_joins
from cepkit.compile.loading import load
from cepkit.compile.search_source import test_of
from cepkit.compile.sequence import SequenceProgram
from cepkit.compile.writing import VECTOR
from cepkit.engines.places import Places
from cepkit.engines.search import accepted, dtypes_of
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.sequence_set import EMPTY, MatchBlock, joined

ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic", "sequential")
REMOVALS = ("watermark", "window", "never")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a thread's steps take, in nanoseconds of virtual time.

    Parameters
    ----------
    item : float
        To take an event or a partial match.
    look : float
        To see that a pair is not in order or not in one window.
    comparison : float or sequence of float
        To test the conditions of a pair; by agent, if there are several.
    lock : float
        To begin with another worker's buffer.
    send : float
        To pass a partial match on.
    delivery : float
        For the source to pass an event on.
    match : float, optional
        To report a match; None: as ``send``.
    """

    item: float = 100.0
    look: float = 2.0
    comparison: float | tuple[float, ...] = 5.0
    lock: float = 50.0
    send: float = 50.0
    delivery: float = 0.0
    match: float | None = None


@dataclass(frozen=True, slots=True)
class Crew:
    """Which thread works for which agent.

    Parameters
    ----------
    allocation : str
        ``static``: a thread takes the events or the partial matches of its agent; ``state_dynamic``: both;
        ``fully_dynamic``: those of all agents, its own first; ``sequential``: one thread, partial matches of
        the latest agent first.
    n_threads : int
        How many.
    of_agent : tuple of int, optional
        Threads by agent; None: as equal as can be.
    of_events : tuple of int, optional
        Of these, those that take events before partial matches; None: half.
    fused : tuple of tuple of int
        Agents that are one: groups of numbers that follow each other.
    """

    allocation: str
    n_threads: int
    of_agent: tuple[int, ...] | None = None
    of_events: tuple[int, ...] | None = None
    fused: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.allocation}, {self.n_threads} thread{'s' if self.n_threads != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run goes on, whoever runs it.

    Parameters
    ----------
    batch : int
        Events, or partial matches, that a thread takes at once.
    chunk : int
        Events that the source passes on at once.
    scoped : bool
        Whether only events in a partial match's window are looked at, found by bisection.
    removal : str
        ``watermark``: what can take part in no match to come; ``window``: events as long as a partial match
        in their window may come; ``never``.
    keep : bool
        Whether matches are kept; else they are counted.
    backlog : int
        Items that wait when the source stops passing events on.
    trace : bool
        Whether every step is written down.
    """

    batch: int = 32
    chunk: int = 64
    scoped: bool = True
    removal: str = "watermark"
    keep: bool = True
    backlog: int = 4096
    trace: bool = False


def agents_unsupported(program: SequenceProgram) -> str | None:
    """Return why agents cannot run a program, None when they can; completes "it …"."""
    if not program.compiled:
        return f"cannot call {', '.join(program.reasons_for_python)}, a plain Python function"
    return next((reason for bound in program.branches if (reason := joins_unsupported(bound))), None)


@dataclass(frozen=True)
class Agents:
    """The agents of a program over some events: one per join, behind the first of each branch.

    Parameters
    ----------
    program : SequenceProgram
        One that `agents_unsupported` has nothing against.
    events : Events
        With the program's columns.
    orders : sequence of sequence of int, optional
        For every branch its components in the order in which they are joined; default: the query's
        ``evaluation_order``, or first to last.

    Raises
    ------
    UnsupportedQueryError
        When agents cannot run the program.
    """

    program: SequenceProgram
    events: Events
    orders: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if reason := agents_unsupported(self.program):
            raise UnsupportedQueryError(f"agents cannot run this query: it {reason}")

    @cached_property
    def plans(self) -> tuple[JoinPlan, ...]:
        """The joins of every branch."""
        branches = self.program.branches
        orders = self.orders if self.orders is not None else map(self.program.given_order, branches)
        return tuple(plan_joins(bound, order) for bound, order in zip(branches, orders, strict=True))

    @cached_property
    def stages(self) -> tuple[tuple[int, JoinPlan, int], ...]:
        """Branch, plan and number of every join; the first of a branch starts its partial matches."""
        return tuple((b, plan, rank) for b, plan in enumerate(self.plans) for rank in range(len(plan.joins)))

    @cached_property
    def stage_of_agent(self) -> tuple[int, ...]:
        """The stages that have an agent: all but beginnings without a loop."""
        return tuple(s for s, (_, plan, rank) in enumerate(self.stages) if rank or plan.joins[0].is_loop)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What agents are called: the variables whose events they add, numbered where one comes again."""
        names, times = [], Counter()
        for s in self.stage_of_agent:
            b, plan, rank = self.stages[s]
            component = plan.bound.branch.components[plan.joins[rank].component]
            name = component.variable if len(self.plans) == 1 else f"{b}:{component.variable}"
            times[name] += 1
            number = f" ({times[name]})" if times[name] > 1 else ""
            names.append(name + number + ("+" if plan.joins[rank].is_loop else ""))
        return tuple(names)

    @cached_property
    def places(self) -> Places:
        """The events by partition."""
        return Places(self.program, self.events)

    @cached_property
    def events_of_stage(self) -> tuple[np.ndarray, ...]:
        """The places of the events that every stage takes, in stream order."""
        position, accept = self.places.position_of_place, self._accept
        taken = []
        for _, plan, rank in self.stages:
            of = test_of(self.program, plan.bound.accepts[plan.joins[rank].component])
            own = np.flatnonzero(accept[of])
            taken.append(own if self.places.is_one_partition else own[np.argsort(position[own])])
        return tuple(taken)

    @cached_property
    def _accept(self) -> np.ndarray:
        return accepted(self.places)

    @cached_property
    def first_event(self) -> np.ndarray:
        """Where the events of every stage begin when these stand one behind the other, (n_stages + 1,)."""
        return np.cumsum([0, *map(len, self.events_of_stage)]).astype(np.int64)

    @cached_property
    def last_position(self) -> np.ndarray:
        """By place: up to which position events are in the window behind it, and never less than before."""
        position = self.places.position_of_place
        last = position[np.maximum(self.places.window_end - 1, 0)]
        if self.places.is_one_partition:
            return np.maximum.accumulate(last)
        by_position = np.empty_like(last)
        by_position[position] = last
        return np.maximum.accumulate(by_position)[position]

    @cached_property
    def arrays_of_events(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the source passes on, the events of stages, and positions by place; see `kernels.agents`."""
        position = self.places.position_of_place
        by_place = np.stack([np.arange(self.places.n), position, self.last_position])
        events = by_place[:, np.concatenate(self.events_of_stage)]
        stage = np.repeat(np.arange(len(self.stages)), np.diff(self.first_event))
        order = np.lexsort((stage, events[1]))
        deliveries = np.stack([stage[order], events[1][order]])
        return deliveries[:, : 0 if self.program.window.is_empty else None], events, by_place

    @cached_property
    def join(self) -> Callable:
        """The generated function that joins blocks of partial matches with events."""
        return self._module.join

    @cached_property
    def completes(self) -> Callable:
        """The generated function that tests what a join decides at its end."""
        return self._module.completes

    @cached_property
    def _module(self):
        user = {f"u{i}": function.call for i, function in enumerate(self.program.functions.values())}
        return load(write_joins(self.program, self.plans, dtypes_of(self.places.inputs)).text, user)

    @cached_property
    def world(self) -> tuple[np.ndarray, ...]:
        """What conditions read: see `cepkit.compile.join_source`."""
        places, inputs = self.places, self.places.inputs
        dtypes = dtypes_of(inputs)
        names = list(world_rows(dtypes))
        vectors = [inputs.columns[name] for name in names if dtypes[name] == VECTOR]
        floats = [inputs.columns[name] for name in names if dtypes[name].startswith("float")]
        integers = [
            inputs.columns[name] for name in names if dtypes[name] != VECTOR and dtypes[name][0] != "f"
        ]
        tables = [np.asarray(table, np.uint8) for table in inputs.tables]
        starts = np.cumsum([0, *map(len, tables)])[:-1]
        is_float = [isinstance(constant, float) for constant in inputs.constants]
        whole = [c for c, floating in zip(inputs.constants, is_float, strict=True) if not floating]
        limits = [places.later, places.gap_end, places.window_end, places.time_start, places.time_end]
        return tuple(
            map(
                read_only,
                (
                    np.stack(limits).astype(np.int64, copy=False),
                    np.ascontiguousarray(self._accept),
                    np.array(floats, np.float64).reshape(len(floats), places.n),
                    np.array(integers, np.int64).reshape(len(integers), places.n),
                    _stacked(vectors, places.n),
                    np.array([c for c, f in zip(inputs.constants, is_float, strict=True) if f], np.float64),
                    np.array([*whole, *starts], np.int64),
                    np.concatenate(tables) if tables else np.zeros(0, np.uint8),
                ),
            )
        )


def _stacked(matrices: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Return matrices as one array; zeros behind shorter rows change no sum over their numbers."""
    if len(matrices) == 1:
        return np.ascontiguousarray(matrices[0], np.float64)[None]
    made = np.zeros((len(matrices), n, max((m.shape[1] for m in matrices), default=0)))
    for i, matrix in enumerate(matrices):
        made[i, :, : matrix.shape[1]] = matrix
    return made


class AgentRun:
    """The arrays of one run of agents; whoever calls the kernels with them grows those that are full."""

    def __init__(
        self,
        agents: Agents,
        crew: Crew,
        terms: Terms,
        *,
        costs: Costs | None = None,
        arrival: np.ndarray | None = None,
        own: tuple[int, int, int] | None = None,
        seed: int = 0,
        room: int = 256,
    ):
        from cepkit.kernels import agents as k

        self.k, self.agents, self.crew, self.terms = k, agents, crew, terms
        self.is_real = costs is None
        if crew.allocation not in ALLOCATIONS:
            raise CepError(f"allocation {crew.allocation!r} is not known. There are {list(ALLOCATIONS)}")
        if terms.removal not in REMOVALS:
            raise CepError(f"removal {terms.removal!r} is not known. There are {list(REMOVALS)}")
        self.n_stages = len(agents.stages)
        self.groups = self._groups()
        self.net = self._network(costs or Costs(), arrival, own)
        self._make_state(own, seed, room)

    # --- who serves what

    def _groups(self) -> list[list[int]]:
        stages = self.agents.stage_of_agent
        groups = [[stages[a] for a in own] for own in self.crew.fused]
        for own in groups:
            if any(b != a + 1 or self.agents.stages[b][2] == 0 for a, b in pairwise(own)):
                raise CepError(f"fuse={list(self.crew.fused)}: agents that are fused follow each other")
        taken = {s for own in groups for s in own}
        if len(taken) < sum(map(len, groups)):
            raise CepError(f"fuse={list(self.crew.fused)}: an agent is in one pair only")
        return sorted([*groups, *([s] for s in stages if s not in taken)])

    def _threads_of_groups(self) -> list[int]:
        crew, n_groups = self.crew, len(self.groups)
        if crew.of_agent is not None:
            of = list(crew.of_agent)
            if len(of) != n_groups or sum(of) != crew.n_threads:
                raise CepError(
                    f"threads by agent {of} do not fit {n_groups} agents and {crew.n_threads} threads"
                )
            return of
        return [crew.n_threads // n_groups + (g < crew.n_threads % n_groups) for g in range(n_groups)]

    def _served(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which kinds of work of every stage a thread takes, and what it takes first."""
        k, crew, n = self.k, self.crew, self.crew.n_threads
        serves, home = np.zeros((self.n_stages, n, 2), np.uint8), np.full((n, 2), -1, np.int64)
        if not self.groups:
            return serves, home
        least = {"static": 2, "state_dynamic": 1}.get(crew.allocation, 0) * len(self.groups)
        if n < max(1, least) or (crew.allocation == "sequential" and n != 1):
            wanted = "1 thread" if crew.allocation == "sequential" else f"at least {max(1, least)} threads"
            raise CepError(f"threads={n}: {len(self.groups)} agents, {crew.allocation}, take {wanted}")
        homes = []
        for g, n_own in enumerate(self._threads_of_groups()):
            n_events = crew.of_events[g] if crew.of_events else (n_own + 1) // 2
            homes += [(g, k.EVENTS if i < n_events else k.PARTIALS) for i in range(n_own)]
        for r, (g, kind) in enumerate(homes):
            home[r] = self.groups[g][0], kind
            if crew.allocation == "static":
                serves[self.groups[g], r, kind] = 1
            elif crew.allocation == "state_dynamic":
                serves[self.groups[g], r] = 1
            else:
                serves[list(self.agents.stage_of_agent), r] = 1
        if not serves[list(self.agents.stage_of_agent)].any(axis=1).all():
            raise CepError(f"{crew}: an agent has no thread for its events or for its partial matches")
        return serves, home

    def _network(self, costs: Costs, arrival: np.ndarray | None, own):
        k, agents, terms = self.k, self.agents, self.terms
        serves, home = self._served()
        stages = np.zeros((self.n_stages, 13), np.int64)
        group_of = {s: group for group in self.groups for s in group}
        for s, (b, plan, rank) in enumerate(agents.stages):
            join = plan.joins[rank]
            is_last = rank + 1 == len(plan.joins)
            stages[s, k.COMPONENT], stages[s, k.N_COMPONENTS] = join.component, len(plan.joins)
            stages[s, k.NEXT], stages[s, k.BRANCH] = -1 if is_last else s + 1, b
            stages[s, k.IS_START], stages[s, k.IS_LOOP] = rank == 0, join.is_loop
            stages[s, k.IN_ORDER] = plan.is_appending(join)
            stages[s, k.HAS_AGENT] = s in group_of
            is_begun_by_test = rank == 0 and join.taking
            stages[s, k.IS_TESTED] = bool(
                join.low > 1 or join.is_in_front or join.completing or join.absences or is_begun_by_test
            )
            own_group = group_of.get(s, [s])
            stages[s, k.IS_FUSED] = s + 1 in own_group and s in group_of
            stages[s, k.GROUP] = own_group[0]
        stages[:, k.N_EVENT_WORKERS] = serves[:, :, k.EVENTS].sum(axis=1)
        stages[:, k.N_MATCH_WORKERS] = serves[:, :, k.PARTIALS].sum(axis=1)
        cost = np.zeros((self.n_stages, 2, 5))
        cost[:, :, k.ITEM], cost[:, :, k.LOOK], cost[:, :, k.LOCK] = costs.item, costs.look, costs.lock
        cost[list(agents.stage_of_agent), :, k.COMPARE] = np.reshape(costs.comparison, (-1, 1))
        cost[:, :, k.SEND] = np.where(stages[:, k.IS_FUSED], 0.0, costs.send)[:, None]
        if costs.match is not None:
            cost[stages[:, k.NEXT] < 0, :, k.SEND] = costs.match
        options = np.zeros(12, np.int64)
        is_sequential = self.crew.allocation == "sequential"
        options[k.ALLOCATION] = ALLOCATIONS.index(self.crew.allocation)
        options[k.BATCH], options[k.CHUNK] = terms.batch, 1 if is_sequential else terms.chunk
        options[k.IS_SCOPED], options[k.REMOVAL] = terms.scoped, REMOVALS.index(terms.removal)
        options[k.IS_KEPT], options[k.BACKLOG], options[k.IS_TRACED] = terms.keep, terms.backlog, terms.trace
        options[k.START_END] = k.END if own is None else own[1]
        options[k.IS_REAL], options[k.ROUTE] = self.is_real, round(costs.delivery)
        options[k.SOURCE_BY_THREADS] = self.is_real or is_sequential
        deliveries, events, by_place = agents.arrays_of_events
        if own is not None:
            low, high = np.searchsorted(deliveries[1], [own[0], own[2]])
            deliveries = np.ascontiguousarray(deliveries[:, low:high])
        n = agents.places.n
        time = np.zeros(n) if arrival is None else np.ascontiguousarray(arrival, np.float64)
        made = (
            stages, events, agents.first_event, deliveries, by_place, time, serves, home, cost, options,
        )  # fmt: skip
        return k.Network(*map(read_only, made))

    # --- arrays

    def _make_state(self, own, seed: int, room: int) -> None:
        k, agents = self.k, self.agents
        n_stages, n_threads = self.n_stages, self.crew.n_threads
        n_own = n_threads + 1  # the source needs the same
        n_components = max((len(plan.joins) for plan in agents.plans), default=1)
        width = n_components + (4 if any(j.is_loop for plan in agents.plans for j in plan.joins) else 0)
        n_rows = max(1, min(self.terms.batch, 64))
        n_blocks = max(room, n_own * (2 * (k.MOST_HITS // n_rows + 2) + 2 * self.terms.chunk + 2))
        self.blocks = k.Blocks(
            np.zeros((n_blocks, n_rows, width), np.int64),
            np.zeros((n_blocks, n_rows, n_components), np.int32),
            np.zeros((2, n_blocks, n_rows), np.int64), np.zeros((n_blocks, 7), np.int64),
            np.zeros(n_blocks, np.int64), np.full((n_stages, n_blocks), -1, np.int64),
            np.arange(n_blocks - 1, -1, -1, dtype=np.int64),
            np.zeros((2, n_stages, room + n_own, 5), np.int64),
        )  # fmt: skip
        n_found = (room + n_own * k.MOST_HITS + self.terms.chunk) if self.terms.keep else 0
        self.found = k.Found(
            np.zeros((n_found, width), np.int64), np.zeros((n_found, n_components), np.int32),
            np.zeros(n_found, np.int64), np.zeros(n_found),
        )  # fmt: skip
        hand = np.zeros((n_own, 24), np.int64)
        empty = [k.CHAIN_NEXT, k.CHAIN_LOOP, k.OWN_CHAIN]
        hand[:, empty] = -1
        hand[:, k.OPEN_NEXT] = hand[:, k.OPEN_LOOP] = -1
        hand[:, k.RANDOM] = seed * 7919 + np.arange(n_own)
        hand[:, k.FOREIGN] = agents.stage_of_agent[0] if agents.stage_of_agent else 0
        n_spare = 2 * (k.MOST_HITS // n_rows + 2) + 2 * self.terms.chunk + 2
        self.own = k.Own(
            hand, np.zeros((n_own, n_spare), np.int64), self._lists(),
            np.zeros((n_own, 3, k.MOST_HITS), np.int64),
            np.zeros((n_own, width + 2), np.int64), np.zeros((n_own, n_components + 2), np.int64),
            np.zeros((n_own, 4), np.int64), np.zeros((n_own, 3), np.int64),
            np.zeros((n_own, n_stages, k.N_COUNTS), np.int64), np.zeros((n_own, 5)),
            np.zeros((n_own, 2, n_stages), np.int64),
        )  # fmt: skip
        n_shared = k.N_OF_RUN + n_stages * k.N_OF_STAGE + n_own * k.N_OF_THREAD
        self.control = np.zeros(n_shared * 8, np.int64)
        shared = self.control[::8]
        shared[k.OUTSTANDING] = self.net.deliveries.shape[1]
        shared[k.N_FREE], shared[k.NEXT_PASS] = n_blocks, 8
        of_stage = shared[k.N_OF_RUN : k.N_OF_RUN + n_stages * k.N_OF_STAGE].reshape(n_stages, k.N_OF_STAGE)
        begin = agents.first_event[:-1]
        if own is not None:
            starts = [
                np.searchsorted(
                    self.net.events[k.POSITION, agents.first_event[s] : agents.first_event[s + 1]], own[0]
                )
                for s in range(n_stages)
            ]
            begin = begin + np.array(starts, np.int64)
        of_stage[:, k.EVENT_HEAD] = of_stage[:, k.EVENT_TAIL] = begin
        of_thread = shared[k.N_OF_RUN + n_stages * k.N_OF_STAGE :].reshape(n_own, k.N_OF_THREAD)
        of_thread[:, k.MARK], of_thread[:, k.EPOCH] = -1, k.END
        self.of_stage = of_stage
        self.trace = np.zeros((1 << 12 if self.terms.trace else 1, k.N_TRACE_COLUMNS))

    def _lists(self) -> np.ndarray:
        length = max(len(self.blocks.state), self.blocks.log.shape[2])
        return np.zeros((self.crew.n_threads + 1, 3, length), np.int64)

    @property
    def shared(self) -> np.ndarray:
        """The numbers that threads share."""
        return self.control[::8]

    def grow(self, why: int) -> None:
        """Make the array longer that a kernel found too short."""
        k = self.k
        if why == k.MORE_BLOCKS:
            self._grow_blocks()
        elif why == k.MORE_LOG:
            self._grow_log()
        elif why == k.MORE_MATCHES:
            self.found = k.Found(*(_twice(array) for array in self.found))
        elif why == k.MORE_TRACE:
            self.trace = np.concatenate([self.trace, np.zeros_like(self.trace)])
        elif why == k.MORE_ITEMS:
            b, f = self.blocks, self.found
            self.blocks = b._replace(items=_twice(b.items, 2))
            self.found = f._replace(items=_twice(f.items, 1))
            path = np.zeros((len(self.own.path), self.blocks.items.shape[2] + 2), np.int64)
            self.own = self.own._replace(path=path)

    def _grow_blocks(self) -> None:
        k, old, n = self.k, self.blocks, len(self.blocks.state)
        if 2 * n >= 1 << 24:
            raise CepError(
                "agents: more than 2^24 blocks of partial matches wait or are kept; take a larger batch"
            )
        queue = np.full((self.n_stages, 2 * n), -1, np.int64)
        for s in range(self.n_stages):
            numbers = np.arange(self.of_stage[s, k.HEAD], self.of_stage[s, k.TAIL])
            queue[s, numbers % (2 * n)] = old.queue[s, numbers % n]
        n_free = int(self.shared[k.N_FREE])
        free = np.zeros(2 * n, np.int64)
        free[:n] = np.arange(2 * n - 1, n - 1, -1)  # those used before are taken first
        free[n : n + n_free] = old.free[:n_free]
        self.shared[k.N_FREE] = n + n_free
        self.blocks = k.Blocks(
            _twice(old.items), _twice(old.sizes), _twice(old.limits, 1), _twice(old.header),
            _twice(old.state), queue, free, old.log,
        )  # fmt: skip
        self._renew_lists()

    def _grow_log(self) -> None:
        k, old = self.k, self.blocks.log
        length = old.shape[2]
        log = np.zeros((2, self.n_stages, 2 * length, 5), np.int64)
        for kind, (low, end) in enumerate(((k.EVENTS_LOW, k.EVENTS_NEXT), (k.PARTIALS_LOW, k.PARTIALS_NEXT))):
            for s in range(self.n_stages):
                numbers = np.arange(self.of_stage[s, low], self.of_stage[s, end])
                log[kind, s, numbers % (2 * length)] = old[kind, s, numbers % length]
        self.blocks = self.blocks._replace(log=log)
        self._renew_lists()

    def _renew_lists(self) -> None:
        old, lists = self.own.lists, self._lists()
        lists[:, :, : old.shape[2]] = old
        self.own = self.own._replace(lists=lists)

    # --- outcome

    def left(self) -> int:
        """Return how many events and partial matches are kept."""
        return int(self.of_stage[:, [self.k.EVENTS_HELD, self.k.PARTIALS_HELD]].sum())

    def n_matches(self) -> int:
        """Return how many matches were found."""
        return int(self.own.counts[:, :, self.k.N_COMPLETE].sum())

    def block(self) -> MatchBlock:
        """Return the matches in the order in which they were found; by branch."""
        n, places, made = int(self.shared[self.k.N_FOUND]), self.agents.places, []
        for b, plan in enumerate(self.agents.plans):
            own = np.flatnonzero(self.found.branch[:n] == b)
            if not any(join.is_loop for join in plan.joins):  # one event of each component
                made.append(self._block_of_singles(b, own, len(plan.joins)))
                continue
            sizes = self.found.sizes[own, : len(plan.joins)].astype(np.int64)
            n_items = sizes.sum(axis=1)
            first = np.concatenate([[0], np.cumsum(n_items)])
            columns = np.arange(first[-1]) - np.repeat(first[:-1], n_items)
            found = self.found.items[np.repeat(own, n_items), columns]
            components = np.tile(np.arange(len(plan.joins), dtype=np.int16), len(own))
            made.append(
                MatchBlock(
                    places.position_of_place[found],
                    np.repeat(components, sizes.ravel()),
                    first,
                    np.full(len(own), b, np.int16),
                )
            )
        return joined(made) if made else EMPTY

    def _block_of_singles(self, b: int, own: np.ndarray, n_components: int) -> MatchBlock:
        found = self.found.items[own, :n_components].ravel()
        return MatchBlock(
            self.agents.places.position_of_place[found],
            np.tile(np.arange(n_components, dtype=np.int16), len(own)),
            np.arange(len(own) + 1, dtype=np.int64) * n_components,
            np.full(len(own), b, np.int16),
        )


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written: the type that kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _twice(array: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return the array with zeros behind, twice as long along an axis."""
    return np.concatenate([array, np.zeros_like(array)], axis=axis)
