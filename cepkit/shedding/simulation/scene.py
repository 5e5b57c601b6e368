"""What all runs of one study share: patterns, events, arrivals and prices; and the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.events import Events
from cepkit.progress import checkpoint
from cepkit.shedding.simulation.arrivals import Arrivals, Prices, schedule
from cepkit.shedding.simulation.server import Lane, Server, VirtualClock, WorkOfEvents, WorkPrices
from cepkit.shedding.strategies.by_type import NoShedding
from cepkit.shedding.strategies.strategy import Strategy, Training
from cepkit.shedding.tree.machine import TreeMachine, TreeMatches, join_matches
from cepkit.shedding.tree.program import TreeProgram

# The matches of a run as arrays, with their latencies, and the comparison of two sets of matches.

LATE = 1800.0  # seconds: a match that comes later than this does not count as found


@dataclass(frozen=True, eq=False)
class FoundOnce:
    """The matches of a run in canonical order."""

    block: MatchBlock
    # float64, (n_matches,): seconds from the arrival of the last event of each match until it was found
    latency: np.ndarray


def collect_matches(
    machine: TreeMachine,
    matches: Sequence[TreeMatches],
    found_at: Sequence[np.ndarray],
    end: float,
    arrival_of_event: np.ndarray,
) -> FoundOnce:
    """Return the matches of a machine with their latencies."""
    waiting = machine.finish()
    every = join_matches([*matches, waiting])
    times = np.concatenate([*found_at, np.full(len(waiting), end)])
    order = np.argsort(every.trees, kind="stable")  # blocks are sorted by tree
    block = machine.block(every)
    return FoundOnce(*sort_with(block, times[order] - arrival_of_event[block.last]))


def sort_with(block: MatchBlock, values: np.ndarray) -> tuple[MatchBlock, np.ndarray]:
    """Return a block in canonical order, and the values of its matches in this order."""
    order = block.order()
    return block.take(order), values[order]


def common(one: MatchBlock, other: MatchBlock) -> np.ndarray:
    """Return whether each match of ``one`` is in ``other``, bool, (n_matches,).

    Matches are equal when they have the same events for the same components.

    """
    if not len(one) or not len(other):
        return np.zeros(len(one), bool)
    hashes, other_hashes = _hashes(one), _hashes(other)
    order = np.argsort(other_hashes, kind="stable")
    ranked = other_hashes[order]
    place = np.minimum(np.searchsorted(ranked, hashes), len(ranked) - 1)
    is_there = ranked[place] == hashes
    left, right = one.take(np.flatnonzero(is_there)), other.take(order[place[is_there]])
    is_exact = (ranked[1:] != ranked[:-1]).all() and all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("first_item_of_match", "event_of_item", "component_of_item")
    )
    if is_exact:
        return is_there
    keys = set(_identities(other))  # two different matches have the same hash
    return np.fromiter((key in keys for key in _identities(one)), bool, len(one))


def _hashes(block: MatchBlock) -> np.ndarray:
    """Return a hash of each match, uint64."""
    first = block.first_item_of_match[:-1]
    place = np.arange(len(block.event_of_item)) - np.repeat(first, np.diff(block.first_item_of_match))
    mixed = block.event_of_item.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += block.component_of_item.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed += place.astype(np.uint64) * np.uint64(0x165667B19E3779F9)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.add.reduceat(mixed ^ (mixed >> np.uint64(31)), first)


def _identities(block: MatchBlock) -> list[bytes]:
    """Return a value for each match that equals another one only for the same events and components."""
    both = np.stack([block.event_of_item, block.component_of_item.astype(np.int64)], axis=1)
    bounds = block.first_item_of_match.tolist()
    return [both[start:stop].tobytes() for start, stop in pairwise(bounds)]


QUEUE = "cepkit.kernels.shedding.queue"
N_BINS = 100  # of the positions in a window
_TOGETHER = 256  # events between two checkpoints


@dataclass(frozen=True, eq=False)
class Scene:
    """Patterns over one stream of events, with its arrivals and the prices of work.

    Every run processes the same events with the same arrivals. `run` is reproducible: a strategy and a seed
    give the same result, bit by bit.
    """

    programs: tuple[SequenceProgram, ...]  # the patterns
    trees: tuple[TreeProgram, ...]  # the same patterns as trees
    events: tuple[Events, ...]  # the stream, with the columns of each pattern
    weights: tuple[float, ...]  # weight of each pattern
    arrivals: Arrivals
    prices: Prices
    latency_bound: float  # in seconds; infinite for no bound
    n_warm: int  # events of the warm-up, among those that a pattern names
    # Weights of event types that differ from 1.
    weight_of_type: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Names of the event types of all patterns, each once."""
        return tuple(dict.fromkeys(name for tree in self.trees for name in tree.types))

    @cached_property
    def own_types(self) -> tuple[np.ndarray, ...]:
        """Per pattern, the number of each event's type in its tree; -1 for other types."""
        return tuple(
            TreeMachine(tree, events).types_of_events().copy()
            for tree, events in zip(self.trees, self.events, strict=True)
        )

    @cached_property
    def type_of_event(self) -> np.ndarray:
        """Number of each event's type among `types`; -1 for other types."""
        types = np.full(self.events[0].n_events, -1, np.int64)
        number = {name: i for i, name in enumerate(self.types)}
        for tree, tree_types in zip(self.trees, self.own_types, strict=True):
            of_own = np.array([*(number[name] for name in tree.types), -1], np.int64)
            types = np.where(types >= 0, types, of_own[tree_types])
        return types

    @cached_property
    def positions(self) -> np.ndarray:
        """Positions of the events that a pattern names, int64, in stream order."""
        return np.flatnonzero(self.type_of_event >= 0)

    @property
    def end_of_warm_up(self) -> int:
        """Position of the first event after the warm-up."""
        positions = self.positions
        return int(positions[self.n_warm]) if self.n_warm < len(positions) else self.events[0].n_events

    @cached_property
    def event_bytes(self) -> int:
        """Memory of one waiting event: the values of its columns, and a pointer to it."""
        columns = {name: column for events in self.events for name, column in events.columns.items()}
        return 8 + sum(column.values.itemsize for column in columns.values())

    @cached_property
    def truth(self) -> tuple[MatchBlock, ...]:
        """The matches of each pattern without shedding."""
        blocks = []
        for tree, events in zip(self.trees, self.events, strict=True):
            machine = TreeMachine(tree, events)
            parts = [machine.block(matches) for _, matches in machine.run(0, events.n_events)]
            blocks.append(joined([*parts, machine.block(machine.finish())]).sorted())
        return tuple(blocks)

    def run(self, strategy: Strategy | None = None, seed: int = 0) -> ReplayRun:
        """Process the stream with a strategy, in virtual time."""
        return _run(self, NoShedding() if strategy is None else strategy, seed)


@dataclass(frozen=True, eq=False)
class WarmUp:
    """A pattern after its warm-up."""

    training: Training
    work: WorkOfEvents
    positions: np.ndarray
    found_at: list[np.ndarray] = field(default_factory=list)

    @property
    def matches(self) -> list[TreeMatches]:
        """The matches of the warm-up."""
        return self.work.matches


@dataclass(frozen=True, eq=False)
class ReplayRun:
    """The numbers of one run in virtual time."""

    scene: Scene
    strategy: Strategy
    seed: int
    found: tuple[FoundOnce, ...]
    arrival_of_event: np.ndarray
    series: Mapping[str, np.ndarray]
    processed_of_type: tuple[int, ...]
    dropped_of_type: tuple[int, ...]
    waiting_of_type: tuple[int, ...]
    dropped: np.ndarray
    n_partial_dropped: int
    n_skipped_pairs: int
    most_waiting: int
    most_alive: int
    peak_bytes: int
    shedding_seconds: float
    seconds: float
    report: tuple[Mapping[str, object], ...]


def _run(scene: Scene, strategy: Strategy, seed: int) -> ReplayRun:
    warm_ups = [_warm_up(scene, p, seed) for p in range(len(scene.trees))]
    positions, n_warm = scene.positions, scene.n_warm
    service = sum(warm_up.training.service_of_event.sum() for warm_up in warm_ups) / max(1, n_warm)
    times = schedule(scene.arrivals, n_warm, len(positions) - n_warm, float(service), seed)
    arrival_of_event = np.full(scene.events[0].n_events, np.nan)
    arrival_of_event[positions] = times
    arrivals = arrival_of_event.tolist()
    clock = VirtualClock()
    _play_warm_up(clock, warm_ups, arrival_of_event)
    trainings = _trainings(scene, warm_ups, float(service), times[:n_warm])
    lanes = [
        Lane(training.machine, tree_types.tolist(), strategy.begin(training), training.weight)
        for training, tree_types in zip(trainings, scene.own_types, strict=True)
    ]
    server = Server(
        lanes, scene.type_of_event.tolist(), arrivals, len(scene.types), prices=scene.prices, clock=clock,
        service=float(service), arrival_rate=_mean_rate(times[:n_warm]), event_bytes=scene.event_bytes,
    )  # fmt: skip
    if server.decides_nothing:
        series = _serve_freely(server, clock, positions[n_warm:], arrival_of_event)
    else:
        series = _serve_all(server, clock, positions[n_warm:].tolist(), arrivals)
    matches = tuple(
        collect_matches(
            lane.machine,
            [*warm.matches, *lane.matches],
            [*warm.found_at, *lane.found_at],
            clock.now,
            arrival_of_event,
        )
        for warm, lane in zip(warm_ups, lanes, strict=True)
    )
    skipped = sum(int(np.sum(getattr(lane.machine, "skipped", 0))) for lane in lanes)
    return ReplayRun(
        scene=scene, strategy=strategy, seed=seed, found=matches, arrival_of_event=arrival_of_event,
        series=series, processed_of_type=tuple(server.processed_of_type),
        dropped_of_type=tuple(server.dropped_of_type), waiting_of_type=tuple(server.waiting_of_type),
        dropped=np.array(server.dropped, np.int64),
        n_partial_dropped=sum(lane.n_partial_dropped for lane in lanes),
        n_skipped_pairs=skipped, most_waiting=server.most_waiting,
        most_alive=sum(lane.most_alive for lane in lanes), peak_bytes=server.peak_bytes,
        shedding_seconds=server.shedding_seconds, seconds=clock.now,
        report=tuple(dict(lane.shedder.report()) for lane in lanes),
    )  # fmt: skip


def _warm_up(scene: Scene, p: int, seed: int) -> WarmUp:
    """Process the first events of a pattern without shedding, and measure them."""
    tree, events, kinds = scene.trees[p], scene.events[p], scene.own_types[p]
    n_bins, bin_size = choose_bins(tree, events, scene.end_of_warm_up)
    machine, work = TreeMachine(tree, events, n_bins=n_bins, bin_size=bin_size), WorkPrices(scene.prices)
    machine.learning = True
    positions = scene.positions[: scene.n_warm]
    positions = positions[kinds[positions] >= 0]
    done = work.feed_many(machine, positions)
    machine.learning = False
    seconds, alive = done.seconds, np.concatenate([np.zeros(1, np.int64), done.alive])[: len(positions)]
    training = Training(
        program=tree, events=events, n_events=scene.end_of_warm_up, latency_bound=scene.latency_bound,
        rates=np.bincount(kinds[positions], minlength=len(tree.types)).astype(np.float64),
        service=float(seconds.mean()) if len(seconds) else 0.0, passed=done.passed,
        evaluated=done.evaluated, prices=scene.prices.table(), machine=machine, seed=seed,
        service_of_event=seconds, type_of_event=kinds[positions], alive_before=alive, weight=scene.weights[p],
        weight_of_type=scene.weight_of_type,
    )  # fmt: skip
    return WarmUp(training, done, positions)


def choose_bins(tree: TreeProgram, events: Events, n: int) -> tuple[int, int]:
    """Return the number of bins of positions in a window, and events per bin, for the first ``n`` events.

    Bins cover the window of most events in the middle of these events, with a quarter to spare.

    """
    window = tree.program.window
    size = n if window.within_events is None else window.within_events
    if window.within is not None and n and (clock := tree.program.clock) in events.columns:
        time = events.columns[clock].values[:n]
        last = np.searchsorted(time, time + window.within, side="right")
        size = min(size, int(np.median(last - np.arange(n))))
    return N_BINS, max(1, -(-5 * size // (4 * N_BINS)))


def _trainings(scene: Scene, warm_ups: Sequence[WarmUp], service: float, times: np.ndarray) -> list[Training]:
    """Return the trainings with their rates in events per second, and each with the others."""
    seconds = float(times[-1] - times[0]) if len(times) > 1 else 0.0
    per_second = 0.0 if seconds <= 0 else 1.0 / seconds
    rated = [
        replace(warm.training, rates=warm.training.rates * per_second, service=service) for warm in warm_ups
    ]
    return [replace(warm, others=tuple(o for o in rated if o is not warm)) for warm in rated]


def _mean_rate(times: np.ndarray) -> float:
    """Return events per second."""
    seconds = float(times[-1] - times[0]) if len(times) > 1 else 0.0
    return (len(times) - 1) / seconds if seconds > 0 else 1.0


def _play_warm_up(clock: VirtualClock, warm_ups: Sequence[WarmUp], arrival_of_event: np.ndarray) -> None:
    """Let the work of the warm-up take its time, and note when its matches were found."""
    positions = np.concatenate([warm.positions for warm in warm_ups])
    lanes = np.repeat(np.arange(len(warm_ups)), [len(warm.positions) for warm in warm_ups])
    order = np.lexsort((lanes, positions))  # the patterns take each event in turn
    seconds = np.concatenate([warm.work.seconds for warm in warm_ups])[order]
    served = _serve(arrival_of_event[positions[order]], seconds, 0.0, clock)
    for p, warm in enumerate(warm_ups):
        starts = served.starts[lanes[order] == p]
        warm.found_at.append(starts[warm.work.event_of_match] + warm.work.found_after)


@dataclass(frozen=True, slots=True)
class _Turns:
    """When each event was begun and done, and how many waited then."""

    starts: np.ndarray
    ends: np.ndarray
    waiting: np.ndarray


def _serve(arrivals: np.ndarray, seconds: np.ndarray, admit: float, clock: VirtualClock) -> _Turns:
    """Serve events in turn, all of them, and advance the clock."""
    n = len(arrivals)
    turns = _Turns(np.empty(n), np.empty(n), np.empty(n, np.int64))
    serve_in_turn = load_kernels(QUEUE).serve_in_turn
    clock.now = serve_in_turn(arrivals, seconds, admit, clock.now, turns.starts, turns.ends, turns.waiting)
    return turns


def _serve_freely(
    server: Server, clock: VirtualClock, positions: np.ndarray, arrival_of_event: np.ndarray
) -> dict[str, np.ndarray]:
    """Admit and serve all events for a shedder that decides nothing, as `_serve_all` would.

    The tree processes all events in one call, because none of them can be dropped.

    """
    (lane,) = server.lanes
    work = server.work.feed_many(lane.machine, positions, is_shown=True)
    served = _serve(arrival_of_event[positions], work.seconds, server.admit_seconds, clock)
    lane.matches += work.matches
    lane.found_at.append(served.starts[work.event_of_match] + work.found_after)
    server.serve_many(positions, work, served.waiting)
    return {
        "time": served.ends,
        "waiting": served.waiting,
        "partial_matches": work.alive.copy(),
        "dropped": np.zeros(len(positions), np.int64),
    }


def _serve_all(
    server: Server, clock: VirtualClock, positions: Sequence[int], arrivals: Sequence[float]
) -> dict[str, np.ndarray]:
    """Admit and serve all events, and return the series of the run."""
    time, waiting, alive, dropped = [], [], [], []
    next_one, n = 0, len(positions)
    while True:
        while next_one < n and arrivals[positions[next_one]] <= clock.now:
            server.admit(positions[next_one])
            next_one += 1
        if not server.n_waiting:
            if next_one == n:
                break
            clock.wait_until(arrivals[positions[next_one]])
            continue
        server.serve()
        time.append(clock.now)
        waiting.append(server.n_waiting)
        alive.append(server.alive)
        dropped.append(server.n_dropped)
        if len(time) % _TOGETHER == 0:
            checkpoint((server.n_processed + server.n_dropped) / n)
    return {
        "time": np.array(time, np.float64),
        "waiting": np.array(waiting, np.int64),
        "partial_matches": np.array(alive, np.int64),
        "dropped": np.array(dropped, np.int64),
    }
