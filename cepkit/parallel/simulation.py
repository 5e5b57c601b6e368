"""A run of agents in virtual time: arrays for its kernel, which grow when they are full, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cepkit.compile.join_source import world_rows, write_joins
from cepkit.compile.joins import joins_unsupported, plan_joins
from cepkit.compile.loading import load
from cepkit.compile.search_source import test_of
from cepkit.compile.sequence import SequenceProgram
from cepkit.engines.places import Places
from cepkit.engines.search import accepted, dtypes_of
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.sequence_set import EMPTY, MatchBlock, joined

ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic", "sequential")
_STEPS_PER_CALL = 1 << 22


@dataclass(frozen=True, slots=True)
class Costs:
    """What a thread's steps take, in nanoseconds of virtual time."""

    item: float = 100.0
    comparison: float = 5.0
    lock: float = 50.0
    send: float = 50.0
    delivery: float = 0.0


@dataclass(frozen=True)
class SimulatedRun:
    """What a simulated run gave and what it took.

    Parameters
    ----------
    matches : MatchBlock
        In canonical order.
    found_at : ndarray of float64, shape (n_matches,)
        When each was found, in the order in which they were found, ns.
    makespan : float
        When the last thread ended, ns.
    busy : ndarray of float64, shape (n_threads,)
        How long each thread worked, ns.
    compared : ndarray of int64, shape (n_stages, 2)
        Pairs whose conditions were looked at, by the kind of worker that did: event, match.
    n_items, n_steps, n_sent, n_locks : int
        Items taken, steps of all threads, partial matches sent, buffers scanned.
    left : int
        Items in the buffers at the end.
    """

    matches: MatchBlock
    found_at: np.ndarray
    makespan: float
    busy: np.ndarray
    compared: np.ndarray
    n_items: int
    n_steps: int
    n_sent: int
    n_locks: int
    left: int


def agents_unsupported(program: SequenceProgram) -> str | None:
    """Return why agents cannot run a program, None when they can; completes "it …"."""
    if not program.compiled:
        return f"cannot call {', '.join(program.reasons_for_python)}, a plain Python function"
    if any(leaf.op == "similarity" for root in program.terms() for leaf in root.walk()):
        return "does not know array columns yet"
    return next((reason for bound in program.branches if (reason := joins_unsupported(bound))), None)


def simulate_agents(
    program: SequenceProgram,
    events: Events,
    threads: int,
    *,
    allocation: str = "state_dynamic",
    orders: Sequence[Sequence[int]] | None = None,
    costs: Costs = Costs(),
    arrival: np.ndarray | None = None,
    seed: int = 0,
    room: int = 1024,
) -> SimulatedRun:
    """Run a program's agents on threads of virtual time.

    Parameters
    ----------
    program : SequenceProgram
        One that `agents_unsupported` has nothing against.
    events : Events
        With the program's columns.
    threads : int
        Virtual ones; ``static`` and ``state_dynamic`` need 2 and 1 per agent.
    allocation : str
        ``static``: a thread takes the events or the partial matches of one agent; ``state_dynamic``: both;
        ``fully_dynamic``: of all agents, its own first; ``sequential``: one thread, in stream order.
    orders : sequence of sequence of int, optional
        For every branch its components in the order in which they are joined.
    costs : Costs
        Of a thread's steps.
    arrival : ndarray of float64, shape (n_events,), optional
        When each event reaches the source, ns; None: at once.
    seed : int
        Of the threads that look for work elsewhere.
    room : int
        Of the arrays at the beginning; they grow.

    Returns
    -------
    SimulatedRun
        The same for the same arguments, whatever ``room`` is.

    Notes
    -----
    Source: HYPERSONIC, sections III to V.
    Differs: the protocol is corrected by tickets and watermarks; see `cepkit.experiments.hybrid_protocol`.
    """
    if reason := agents_unsupported(program):
        raise UnsupportedQueryError(f"agents: this query {reason}")
    plans = [
        plan_joins(bound, orders[b] if orders is not None else None)
        for b, bound in enumerate(program.branches)
    ]
    run = _Run(program, events, plans, threads, allocation, costs, arrival, seed, room)
    return run.finish()


class _Run:
    def __init__(self, program, events, plans, n_threads, allocation, costs, arrival, seed, room):
        from cepkit.kernels import agents as k

        self.k, self.program, self.events, self.plans = k, program, events, plans
        self.n_threads, self.room = n_threads, room
        self.places = Places(program, events)
        self.allocation = ALLOCATIONS.index(allocation) if allocation in ALLOCATIONS else -1
        if self.allocation < 0:
            raise CepError(f"allocation {allocation!r} is not known. There are {list(ALLOCATIONS)}")
        self.stages = [(b, plan, rank) for b, plan in enumerate(plans) for rank in range(len(plan.joins))]
        self.accept = accepted(self.places)
        self.net = self._network(costs, arrival)
        self._make_state(seed)

    def _network(self, costs: Costs, arrival):
        k, places = self.k, self.places
        stages = np.zeros((len(self.stages), 8), np.int64)
        events_of_stage = []
        position = places.position_of_place
        for s, (b, plan, rank) in enumerate(self.stages):
            join = plan.joins[rank]
            is_start = rank == 0
            stages[s, k.COMPONENT], stages[s, k.N_COMPONENTS] = join.component, len(plan.joins)
            stages[s, k.NEXT] = s + 1 if rank + 1 < len(plan.joins) else -1
            stages[s, k.BRANCH], stages[s, k.IS_START], stages[s, k.IS_LOOP] = b, is_start, join.is_loop
            stages[s, k.IN_ORDER] = join.before is None and plan.order[: rank + 1] == tuple(range(rank + 1))
            stages[s, k.HAS_AGENT] = not is_start or join.is_loop
            test = test_of(self.program, plan.bound.accepts[join.component])
            taken = np.flatnonzero(self.accept[test])
            events_of_stage.append(taken[np.argsort(position[taken], kind="stable")])
        self.events_of_stage = events_of_stage
        # A start with a loop takes its events twice: as beginnings and as what comes next.
        stage_of = np.repeat(np.arange(len(self.stages)), [len(own) for own in events_of_stage])
        at = np.concatenate([position[own] for own in events_of_stage]) if len(self.stages) else position[:0]
        order = np.lexsort((stage_of, at))
        self.first_event = np.cumsum([0, *(len(own) for own in events_of_stage)])
        self.agents = [s for s in range(len(self.stages)) if stages[s, k.HAS_AGENT]]
        serves, home = self._threads()
        time = np.zeros(places.n) if arrival is None else np.asarray(arrival, np.float64)
        cost = np.array([costs.item, costs.comparison, costs.lock, costs.send, costs.delivery])
        last_place = places.window_end - 1
        expiry = np.maximum.accumulate(position[last_place]) if self.events.n_partitions < 2 else None
        if expiry is None:
            expiry = self._last_positions(position[np.maximum(last_place, 0)])
        made = k.Network(
            stages, np.concatenate(events_of_stage).astype(np.int64), stage_of[order].astype(np.int64),
            np.stack([position, expiry]).astype(np.int64), time, serves, home, cost,
        )  # fmt: skip
        return k.Network(*map(_read_only, made))

    def _last_positions(self, own: np.ndarray) -> np.ndarray:
        """Return positions that do not fall with the position of the place: later ones are kept as long."""
        by_position = np.empty_like(own)
        by_position[self.places.position_of_place] = own
        return np.maximum.accumulate(by_position)[self.places.position_of_place]

    def _threads(self):
        k, n, agents = self.k, self.n_threads, self.agents
        serves = np.zeros((len(self.stages), n, 2), np.uint8)
        home = np.zeros((n, 2), np.int64)
        mode = self.allocation
        if not agents:
            return serves, home
        least = {k.STATIC: 2 * len(agents), k.STATE_DYNAMIC: len(agents)}.get(mode, 1)
        if n < least or (mode == k.IN_STREAM_ORDER and n != 1):
            wanted = "1 thread" if mode == k.IN_STREAM_ORDER else f"at least {least} threads"
            raise CepError(f"threads={n}: {len(agents)} agents, {ALLOCATIONS[mode]}, take {wanted}")
        for r in range(n):
            stage, kind = agents[(r // 2) % len(agents)], r % 2
            if mode == k.STATE_DYNAMIC:
                stage, kind = agents[r % len(agents)], (r // len(agents)) % 2
            home[r] = stage, kind
            if mode == k.STATIC:
                serves[stage, r, kind] = 1
            elif mode == k.STATE_DYNAMIC:
                serves[stage, r] = 1
            else:
                serves[agents, r] = 1
        return serves, home

    def _make_state(self, seed: int) -> None:
        k, n_stages, n_threads, room = self.k, len(self.stages), self.n_threads, self.room
        width = max((len(plan.joins) for plan in self.plans), default=1) + 4
        n_components = max((len(plan.joins) for plan in self.plans), default=1)
        of = np.zeros((3, room), np.int64)
        of[k.FREE] = np.arange(room)
        self.partials = k.Partials(
            np.zeros((room, width), np.int64), np.zeros((room, n_components), np.int32), of
        )
        at = np.zeros((n_stages, 6), np.int64)
        at[:, k.EVENT_HEAD] = at[:, k.EVENT_TAIL] = self.first_event[:-1]
        self.queues = k.Queues(
            np.zeros((n_stages, room), np.int64), np.zeros((n_stages, room)),
            np.zeros((n_stages, room), np.int64), at,
        )  # fmt: skip
        buffer = (n_stages, n_threads, room)
        self.buffers = k.Buffers(
            *(np.zeros(buffer, np.int64) for _ in range(4)),
            np.zeros((4, n_stages, n_threads), np.int64), np.zeros((n_stages, n_threads, 2)),
        )  # fmt: skip
        time = np.zeros((4, n_threads + 1))
        time[k.WAITS] = k.NEVER
        hand = np.full((n_threads, 6), -1, np.int64)
        hand[:, k.FOREIGN] = self.agents[0] if self.agents else 0
        self.threads = k.Threads(time, hand)
        self.matches = k.Matches(
            np.zeros((room, width), np.int64), np.zeros((room, n_components), np.int32),
            np.zeros(room, np.int64), np.zeros(room),
        )  # fmt: skip
        of_run = np.zeros(9, np.int64)
        of_run[k.N_FREE], of_run[k.RANDOM] = room, seed
        self.counts = k.Counts(of_run, np.zeros((n_stages, 4), np.int64))
        self.scratch = k.Scratch(
            np.zeros(width + 2, np.int64), np.zeros(n_components + 2, np.int64),
            np.zeros(room, np.int64), np.zeros(1, np.int64),
        )  # fmt: skip
        net = self.net
        if len(net.stage_of_delivery):
            first = net.place_of_event[at[net.stage_of_delivery[0], k.EVENT_TAIL]]
            time[k.CLOCK, n_threads] = net.arrival[net.places[k.POSITION, first]] + net.cost[k.ROUTE]
        else:
            time[k.CLOCK, n_threads] = k.NEVER

    # --- growing

    def _grown(self, why: int) -> None:
        k = self.k
        if why == k.MORE_PARTIALS:
            old = len(self.partials.sizes)
            p = self.partials
            of = _wider(p.of, 1)
            self.partials = k.Partials(_wider(p.items, 0), _wider(p.sizes, 0), of)
            free = self.counts.of_run[k.N_FREE]
            of[k.FREE, free : free + old] = np.arange(old, 2 * old)
            self.counts.of_run[k.N_FREE] += old
        elif why == k.MORE_QUEUE:
            self.queues = self._larger_queues()
        elif why == k.MORE_BUFFER:
            b = self.buffers
            grown = (_wider(array, 2) for array in (b.event, b.event_ticket, b.partial, b.partial_ticket))
            self.buffers = k.Buffers(*grown, b.at, b.locked_until)
            s = self.scratch
            self.scratch = k.Scratch(
                s.path, s.first, np.zeros(self.buffers.event.shape[2], np.int64), s.report
            )
        elif why == k.MORE_MATCHES:
            self.matches = k.Matches(*(_wider(array, 0) for array in self.matches))
        elif why == k.MORE_ITEMS:
            p, m, s = self.partials, self.matches, self.scratch
            self.partials = k.Partials(_wider(p.items, 1), p.sizes, p.of)
            self.matches = k.Matches(_wider(m.items, 1), m.sizes, m.branch, m.time)
            path = np.zeros(self.partials.items.shape[1] + 2, np.int64)
            self.scratch = k.Scratch(path, s.first, s.hits, s.report)

    def _larger_queues(self):
        k, q = self.k, self.queues
        length = q.partial.shape[1]
        made = [np.zeros((len(q.at), 2 * length), array.dtype) for array in (q.partial, q.time, q.least)]
        for s in range(len(q.at)):
            own = np.arange(q.at[s, k.HEAD], q.at[s, k.TAIL])
            least = np.arange(q.at[s, k.LEAST_HEAD], q.at[s, k.LEAST_TAIL])
            for new, old, numbers in zip(made, (q.partial, q.time, q.least), (own, own, least), strict=True):
                new[s, numbers % (2 * length)] = old[s, numbers % length]
        return k.Queues(*made, q.at)

    # --- running

    def _world(self) -> tuple:
        places, inputs = self.places, self.places.inputs
        rows = world_rows(dtypes_of(inputs))
        floats = [name for name in rows if inputs.columns[name].dtype.kind == "f"]
        integers = [name for name in rows if name not in floats]
        tables = [np.asarray(table, np.uint8) for table in inputs.tables]
        starts = np.cumsum([0, *map(len, tables)])[:-1]
        is_float = [isinstance(constant, float) for constant in inputs.constants]
        kept = [c for c, floating in zip(inputs.constants, is_float, strict=True) if not floating]
        limits = [places.later, places.gap_end, places.window_end, places.time_start, places.time_end]
        return (
            np.stack(limits).astype(np.int64),
            np.ascontiguousarray(self.accept),
            np.array([inputs.columns[name] for name in floats], np.float64).reshape(len(floats), places.n),
            np.array([inputs.columns[name] for name in integers], np.int64).reshape(len(integers), places.n),
            np.array([c for c, f in zip(inputs.constants, is_float, strict=True) if f], np.float64),
            np.array([*kept, *starts], np.int64),
            np.concatenate(tables) if tables else np.zeros(0, np.uint8),
        )

    def finish(self) -> SimulatedRun:
        """Run to the end."""
        k = self.k
        if not self.places.n or self.program.window.is_empty:
            return self._result()
        user = {f"u{i}": function.call for i, function in enumerate(self.program.functions.values())}
        module = load(write_joins(self.program, self.plans, dtypes_of(self.places.inputs)).text, user)
        world = tuple(map(_read_only, self._world()))
        why = k.PAUSED
        while why != k.FINISHED:
            with np.errstate(all="ignore"):
                why = k.simulation()(
                    module.join_events, module.join_partials, module.completes, world, self.net,
                    self.partials, self.queues, self.buffers, self.threads, self.matches, self.counts,
                    self.scratch, self.allocation, _STEPS_PER_CALL,
                )  # fmt: skip
            self._grown(why)
        return self._result()

    def _result(self) -> SimulatedRun:
        k, run, time = self.k, self.counts.of_run, self.threads.time
        n = int(run[k.N_MATCHES])
        at = self.buffers.at
        left = int((at[k.HIGH] - at[k.LOW]).sum() + at[k.N_HELD].sum())
        return SimulatedRun(
            self._block(n), self.matches.time[:n].copy(), float(time[k.ENDED, :-1].max(initial=0)),
            time[k.BUSY, :-1].copy(), self.counts.of_stage[:, k.COMPARED : k.COMPARED + 2].copy(),
            int(run[k.N_ITEMS]), int(run[k.N_STEPS]), int(run[k.N_SENT]), int(run[k.N_LOCKS]), left,
        )  # fmt: skip

    def _block(self, n: int) -> MatchBlock:
        made = []
        for b, plan in enumerate(self.plans):
            own = np.flatnonzero(self.matches.branch[:n] == b)
            sizes = self.matches.sizes[own, : len(plan.joins)].astype(np.int64)
            n_items = sizes.sum(axis=1)
            first = np.concatenate([[0], np.cumsum(n_items)])
            columns = np.arange(first[-1]) - np.repeat(first[:-1], n_items)
            places = self.matches.items[np.repeat(own, n_items), columns]
            components = np.tile(np.arange(len(plan.joins), dtype=np.int16), len(own))
            made.append(
                MatchBlock(
                    self.places.position_of_place[places],
                    np.repeat(components, sizes.ravel()),
                    first,
                    np.full(len(own), b, np.int16),
                )
            )
        return joined(made).sorted() if made else EMPTY


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written: the type that the kernel is compiled for."""
    view = array.view()
    view.flags.writeable = False
    return view


def _wider(array: np.ndarray, axis: int) -> np.ndarray:
    """Return the array with zeros behind, twice as long along an axis."""
    return np.concatenate([array, np.zeros_like(array)], axis=axis)
