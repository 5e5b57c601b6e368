"""The arrays of one run of agents: the work of every thread, and growing queues, logs and blocks."""

from __future__ import annotations

import numpy as np

from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock, joined
from cepkit.errors import CepError
from cepkit.kernels.wings import agent_layout as k
from cepkit.limits import check_memory
from cepkit.parallel.agents import ALLOCATIONS, REMOVALS, Agents, Costs, Crew, RunSettings, read_only
from cepkit.parallel.join_source import memo_size
from cepkit.parallel.joins import memo_partner

KERNELS = "cepkit.kernels.wings.agent_steps"
_LINE = 16  # numbers in two cache lines, which a processor fetches together


class AgentRun:
    """The arrays of one run of agents. The caller of the kernels must `grow` full arrays."""

    def __init__(
        self, agents: Agents, crew: Crew, settings: RunSettings, *, costs: Costs | None = None,
        arrival: np.ndarray | None = None, own: tuple[int, int, int] | None = None, seed: int = 0,
        room: int = 256,
    ):  # fmt: skip
        self.k, self.agents, self.crew, self.settings = k, agents, crew, settings
        self.is_real = costs is None
        if crew.allocation not in ALLOCATIONS:
            raise CepError(f"allocation {crew.allocation!r} is not known. There are {list(ALLOCATIONS)}")
        if settings.removal not in REMOVALS:
            raise CepError(f"removal {settings.removal!r} is not known. There are {list(REMOVALS)}")
        self.n_stages = len(agents.stages)
        self.groups = self._groups()
        self.net = self._network(costs or Costs(), arrival, own)
        self._make_state(own, seed, room)

    # --- the work of each thread

    def _groups(self) -> list[list[int]]:
        """Return the stages of each agent, or of each group of fused agents."""
        stages = self.agents.stage_of_agent
        self.agents.check_fused(self.crew.fused)
        groups = [[stages[a] for a in group] for group in self.crew.fused]
        taken = {s for group in groups for s in group}
        return sorted([*groups, *([s] for s in stages if s not in taken)])

    def _threads_of_groups(self) -> list[int]:
        """Return the number of threads of each agent or group of fused agents."""
        crew, n_groups = self.crew, len(self.groups)
        if crew.of_agent is not None:
            counts = list(crew.of_agent)
            if len(counts) != n_groups or sum(counts) != crew.n_threads:
                raise CepError(
                    f"threads by agent {counts} do not fit {n_groups} agents and {crew.n_threads} threads"
                )
            return counts
        return [crew.n_threads // n_groups + (g < crew.n_threads % n_groups) for g in range(n_groups)]

    def _assign_work(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the kinds of work that each thread takes, by stage, and the work that it takes first."""
        k, crew, n = self.k, self.crew, self.crew.n_threads
        serves, home = np.zeros((self.n_stages, n, 2), np.uint8), np.full((n, 2), -1, np.int64)
        if not self.groups:
            return serves, home
        least = {"static": 2, "state_dynamic": 1}.get(crew.allocation, 0) * len(self.groups)
        if n < max(1, least) or (crew.allocation == "sequential" and n != 1):
            wanted = "1 thread" if crew.allocation == "sequential" else f"at least {max(1, least)} threads"
            raise CepError(f"threads={n}: {len(self.groups)} agents, {crew.allocation}, need {wanted}")
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
        """Return what stays the same during a run: stages, events, threads, costs and settings, as arrays."""
        k, agents, settings = self.k, self.agents, self.settings
        serves, home = self._assign_work()
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
        n_agents, n_given = len(agents.stage_of_agent), np.size(costs.comparison)
        if np.ndim(costs.comparison) and n_given != n_agents:
            raise CepError(
                f"Costs: comparison has {n_given} values for {n_agents} agents, {list(agents.labels)}. "
                "Give one per agent, or one for all"
            )
        cost[list(agents.stage_of_agent), :, k.COMPARE] = np.reshape(costs.comparison, (-1, 1))
        cost[:, :, k.SEND] = np.where(stages[:, k.IS_FUSED], 0.0, costs.send)[:, None]
        if costs.match is not None:
            cost[stages[:, k.NEXT] < 0, :, k.SEND] = costs.match
        options = np.zeros(14, np.int64)
        is_sequential = self.crew.allocation == "sequential"
        options[k.ALLOCATION] = ALLOCATIONS.index(self.crew.allocation)
        options[k.BATCH], options[k.CHUNK] = settings.batch, 1 if is_sequential else settings.chunk
        options[k.IS_SCOPED], options[k.REMOVAL] = settings.scoped, REMOVALS.index(settings.removal)
        options[k.IS_KEPT], options[k.BACKLOG], options[k.IS_TRACED] = (
            settings.keep, settings.backlog, settings.trace,
        )  # fmt: skip
        options[k.START_END] = k.END if own is None else own[1]
        options[k.IS_REAL], options[k.ROUTE] = self.is_real, round(costs.delivery)
        options[k.IS_RISING], options[k.IS_TIMED] = agents.places.is_one_partition, arrival is not None
        options[k.SOURCE_BY_THREADS] = self.is_real or is_sequential
        deliveries, events, by_place = agents.arrays_of_events
        if own is not None:
            low, high = np.searchsorted(deliveries[1], [own[0], own[2]])
            deliveries = np.ascontiguousarray(deliveries[:, low:high])
        n = agents.places.n
        time = np.zeros(n) if arrival is None else np.ascontiguousarray(arrival, np.float64)
        arrays = (
            stages, events, agents.first_event, deliveries, by_place, time, serves, home, cost, options,
        )  # fmt: skip
        return k.Network(*map(read_only, arrays))

    # --- arrays

    def _make_state(self, own, seed: int, room: int) -> None:
        """Make the arrays that change during a run; ``own`` limits the run to a chunk of the stream."""
        k, agents = self.k, self.agents
        n_stages, n_threads = self.n_stages, self.crew.n_threads
        n_own = n_threads + 1  # the source has rows like a thread
        n_components = max((len(plan.joins) for plan in agents.plans), default=1)
        width = n_components + (4 if any(j.is_loop for plan in agents.plans for j in plan.joins) else 0)
        n_rows = max(1, min(self.settings.batch, 64))
        n_blocks = max(room, n_own * (2 * (k.MOST_HITS // n_rows + 2) + 2 * self.settings.chunk + 2))
        needs_memo = any(memo_partner(plan, plan.joins[rank]) is not None for _, plan, rank in agents.stages)
        memo = np.zeros(memo_size(self.net.events.shape[1]) if needs_memo else 1, np.int64)
        self.blocks = k.ItemBlocks(
            np.zeros((n_blocks, n_rows, width), np.int64),
            np.zeros((n_blocks, n_rows, n_components), np.int32),
            np.zeros((2, n_blocks, n_rows), np.int64), np.zeros((n_blocks, 16), np.int64),
            np.zeros(n_blocks, np.int64), np.full((n_stages, n_blocks), -1, np.int64),
            np.arange(n_blocks - 1, -1, -1, dtype=np.int64),
            np.zeros((2, n_stages, room + n_own, 5), np.int64), memo,
        )  # fmt: skip
        n_registers = 0 if agents.code is None else 2 * agents.code.n_registers  # at the end of ``first``
        n_found = (room + n_own * k.MOST_HITS + self.settings.chunk) if self.settings.keep else 0
        self.found = k.FullMatches(
            np.zeros((n_found, width), np.int64), np.zeros((n_found, n_components), np.int32),
            np.zeros(n_found, np.int64), np.zeros(n_found),
        )  # fmt: skip
        hand = _of_threads(n_own, 24)
        empty = [k.CHAIN_NEXT, k.CHAIN_LOOP, k.OWN_CHAIN]
        hand[:, empty] = -1
        hand[:, k.OPEN_NEXT] = hand[:, k.OPEN_LOOP] = -1
        hand[:, k.RANDOM] = seed * 7919 + np.arange(n_own)
        hand[:, k.FOREIGN] = agents.stage_of_agent[0] if agents.stage_of_agent else 0
        n_spare = 2 * (k.MOST_HITS // n_rows + 2) + 2 * self.settings.chunk + 2
        self.own = k.Own(
            hand, np.zeros((n_own, n_spare), np.int64), self._lists(),
            np.zeros((n_own, 3, k.MOST_HITS), np.int64),
            _of_threads(n_own, width + 2), _of_threads(n_own, n_components + 2 + n_registers),
            _of_threads(n_own, 4), _of_threads(n_own, 3),
            np.zeros((n_own, n_stages, k.N_COUNTS), np.int64), _of_threads(n_own, 5).astype(np.float64),
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
        self.trace = np.zeros((1 << 12 if self.settings.trace else 1, k.N_TRACE_COLUMNS))

    def _lists(self) -> np.ndarray:
        """Return empty lists in which threads write which blocks or ranges they look at."""
        length = max(len(self.blocks.state), self.blocks.log.shape[2])
        return np.zeros((self.crew.n_threads + 1, 3, length), np.int64)

    @property
    def shared(self) -> np.ndarray:
        """The numbers shared by all threads."""
        return self.control[::8]

    def grow(self, why: int) -> None:
        """Double the array that a kernel found too short; ``why`` is the kernel's reason to stop."""
        k = self.k
        if why == k.MORE_BLOCKS:
            self._grow_blocks()
        elif why == k.MORE_LOG:
            self._grow_log()
        elif why == k.MORE_MATCHES:
            check_memory(2 * sum(array.nbytes for array in self.found), "the matches")
            self.found = k.FullMatches(*(_twice(array) for array in self.found))
        elif why == k.MORE_TRACE:
            self.trace = _twice(self.trace)
        elif why == k.MORE_ITEMS:
            b, f = self.blocks, self.found
            self.blocks = b._replace(items=_twice(b.items, 2))
            self.found = f._replace(items=_twice(f.items, 1))
            path = _of_threads(len(self.own.path), self.blocks.items.shape[2] + 2)
            self.own = self.own._replace(path=path)

    def _grow_blocks(self) -> None:
        """Double the number of blocks of partial matches."""
        k, old, n = self.k, self.blocks, len(self.blocks.state)
        if 2 * n >= 1 << 24:
            raise CepError("agents: more than 2^24 blocks of partial matches are in use. Give a larger batch")
        queue = np.full((self.n_stages, 2 * n), -1, np.int64)
        for s in range(self.n_stages):
            numbers = np.arange(self.of_stage[s, k.HEAD], self.of_stage[s, k.TAIL])
            queue[s, numbers % (2 * n)] = old.queue[s, numbers % n]
        n_free = int(self.shared[k.N_FREE])
        free = np.zeros(2 * n, np.int64)
        free[:n] = np.arange(2 * n - 1, n - 1, -1)  # a stack: the end has blocks used before
        free[n : n + n_free] = old.free[:n_free]
        self.shared[k.N_FREE] = n + n_free
        self.blocks = k.ItemBlocks(
            _twice(old.items), _twice(old.sizes), _twice(old.limits, 1), _twice(old.header),
            _twice(old.state), queue, free, old.log, old.memo,
        )  # fmt: skip
        self._renew_lists()

    def _grow_log(self) -> None:
        """Double the room in which events and partial matches are noted for other threads."""
        k, old = self.k, self.blocks.log
        length = old.shape[2]
        log = np.zeros((2, self.n_stages, 2 * length, 5), np.int64)
        for kind in (k.EVENTS, k.PARTIALS):
            for s in range(self.n_stages):
                numbers = np.arange(*self.of_stage[s, [k.EVENTS_LOW + kind, k.EVENTS_NEXT + kind]])
                log[kind, s, numbers % (2 * length)] = old[kind, s, numbers % length]
        self.blocks = self.blocks._replace(log=log)
        self._renew_lists()

    def _renew_lists(self) -> None:
        """Make the lists of the threads as long as the blocks and the log need."""
        k, old, lists = self.k, self.own.lists, self._lists()
        for r, hand in enumerate(self.own.hand):
            if hand[k.PHASE] == k.TAKEN:  # the thread continues with its lists; others write new ones
                n = max(hand[k.N_BLOCKS], hand[k.N_RANGES])
                lists[r, :, :n] = old[r, :, :n]
        self.own = self.own._replace(lists=lists)

    # --- outcome

    def left(self) -> int:
        """Return how many events and partial matches are in buffers."""
        return int(self.of_stage[:, [self.k.EVENTS_HELD, self.k.PARTIALS_HELD]].sum())

    def n_matches(self) -> int:
        """Return the number of matches so far."""
        return int(self.own.counts[:, :, self.k.N_COMPLETE].sum())

    def block(self) -> MatchBlock:
        """Return the matches by branch, in the order of detection."""
        n, places, blocks = int(self.shared[self.k.N_FOUND]), self.agents.places, []
        for b, plan in enumerate(self.agents.plans):
            rows = np.flatnonzero(self.found.branch[:n] == b)
            if not any(join.is_loop for join in plan.joins):
                blocks.append(self._block_of_singles(b, rows, len(plan.joins)))
                continue
            sizes = self.found.sizes[rows, : len(plan.joins)].astype(np.int64)
            n_items = sizes.sum(axis=1)
            first = np.concatenate([[0], np.cumsum(n_items)])
            columns = np.arange(first[-1]) - np.repeat(first[:-1], n_items)  # 0, 1, … within each match
            items = self.found.items[np.repeat(rows, n_items), columns]
            components = np.tile(np.arange(len(plan.joins), dtype=np.int16), len(rows))
            blocks.append(
                MatchBlock(
                    places.position_of_place[items], np.repeat(components, sizes.ravel()), first,
                    np.full(len(rows), b, np.int16),
                )
            )  # fmt: skip
        return joined(blocks) if blocks else EMPTY

    def _block_of_singles(self, b: int, rows: np.ndarray, n_components: int) -> MatchBlock:
        """Return matches of a branch without loops as a block; ``rows`` says which are of this branch."""
        items = self.found.items[rows, :n_components].ravel()
        return MatchBlock(
            self.agents.places.position_of_place[items],
            np.tile(np.arange(n_components, dtype=np.int16), len(rows)),
            np.arange(len(rows) + 1, dtype=np.int64) * n_components,
            np.full(len(rows), b, np.int16),
        )


def _twice(array: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return the array padded with zeros to twice its length along an axis."""
    shape = list(array.shape)
    shape[axis] *= 2
    doubled = np.zeros(shape, array.dtype)  # pages of zeros cost nothing until they are used
    doubled[tuple(map(slice, array.shape))] = array
    return doubled


def _of_threads(n: int, width: int) -> np.ndarray:
    """Return a row per thread, each on its own cache lines, to avoid false sharing."""
    return np.zeros((n, -(-(width + _LINE) // _LINE) * _LINE), np.int64)
