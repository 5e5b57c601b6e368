"""The scene of a replay: its stream, server and costs; the checks of its arguments before work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.errors import (
    CepError,
    PatternSyntaxError,
    UnsupportedQueryError,
    column_not_found,
    nearest,
    whole_number,
)
from cepkit.events import DURATION, FLOAT, INTEGER, NULL_INTEGER, TIME, Events, Source
from cepkit.frames.building import build_events
from cepkit.language.expressions.durations import NANOSECONDS, parse_duration
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.plans import compile_checked
from cepkit.progress import checkpoint
from cepkit.shedding.arrivals import (
    Arrivals,
    ColumnArrivals,
    GivenArrivals,
    Prices,
    as_arrivals,
    check_order,
    measure_prices,
    schedule,
)
from cepkit.shedding.server import Lane, Server, VirtualClock, WorkOfEvents, feed_many
from cepkit.shedding.strategies.strategy import NoShedding, Strategy, Training, as_strategy
from cepkit.shedding.tree_machine import TreeMachine, TreeMatches, join_matches
from cepkit.shedding.tree_program import KILLS_IF, TreeProgram, check_reading
from cepkit.values import dataclass, field, replace

# The matches of a run as arrays, with their latencies.


@dataclass(frozen=True, eq=False)
class FoundOnce:
    """The matches of a run in canonical order."""

    block: MatchBlock
    # float64, (n_matches,): seconds from the arrival of the last event of each match until it was found
    latency: np.ndarray


def collect_matches(
    machine: TreeMachine, matches: Sequence[TreeMatches], found_at: Sequence[np.ndarray], end: float,
    arrival_of_event: np.ndarray,
) -> FoundOnce:  # fmt: skip
    waiting = machine.finish()
    times = np.concatenate([*found_at, np.full(len(waiting), end)])
    block, times = sorted_matches(machine, join_matches([*matches, waiting]), times)
    return FoundOnce(block, times - arrival_of_event[block.last])


def sorted_matches(
    machine: TreeMachine, matches: TreeMatches, values: np.ndarray
) -> tuple[MatchBlock, np.ndarray]:
    """Return matches in canonical order, and their values in this order."""
    values = values[np.argsort(matches.trees, kind="stable")]  # blocks are sorted by tree
    block = machine.block(matches)
    order = block.order()
    return block.take(order), values[order]


TREE = "cepkit.kernels.wings.tree"
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
        Lane(training.machine, tree_types.tolist(), strategy.begin(training))
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
            lane.machine, [*warm.work.matches, *lane.matches], [*warm.found_at, *lane.found_at], clock.now,
            arrival_of_event,
        )
        for warm, lane in zip(warm_ups, lanes, strict=True)
    )  # fmt: skip
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
    machine = TreeMachine(tree, events, n_bins=n_bins, bin_size=bin_size)
    machine.learning = True
    positions = scene.positions[: scene.n_warm]
    positions = positions[kinds[positions] >= 0]
    done = feed_many(scene.prices, machine, positions)
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
    """Return the number of bins of positions in a window, and events per bin, for the first ``n`` events."""
    # Bins cover the window of most events in the middle of these events, with a quarter to spare.
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
    starts, _, _ = _serve(arrival_of_event[positions[order]], seconds, 0.0, clock)
    for p, warm in enumerate(warm_ups):
        began = starts[lanes[order] == p]
        warm.found_at.append(began[warm.work.event_of_match] + warm.work.found_after)


def _serve(
    arrivals: np.ndarray, seconds: np.ndarray, admit: float, clock: VirtualClock
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Serve events in turn; return when each was begun and done, and how many waited then."""
    n = len(arrivals)
    starts, ends, waiting = np.empty(n), np.empty(n), np.empty(n, np.int64)
    serve_in_turn = load_kernels(TREE).serve_in_turn
    clock.now = serve_in_turn(arrivals, seconds, admit, clock.now, starts, ends, waiting)
    return starts, ends, waiting


def _serve_freely(
    server: Server, clock: VirtualClock, positions: np.ndarray, arrival_of_event: np.ndarray
) -> dict[str, np.ndarray]:
    """Admit and serve all events for a shedder that decides nothing, as `_serve_all` would."""
    # The tree processes all events in one call, because none of them can be dropped.
    (lane,) = server.lanes
    work = feed_many(server.prices, lane.machine, positions, is_shown=True)
    starts, ends, waiting = _serve(arrival_of_event[positions], work.seconds, server.prices.admit, clock)
    lane.matches += work.matches
    lane.found_at.append(starts[work.event_of_match] + work.found_after)
    server.serve_many(positions, work, waiting)
    return {
        "time": ends,
        "waiting": waiting,
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
            server.rest(arrivals[positions[next_one]] - clock.now)
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


# Check the arguments of a replay and prepare its scene. Every mistake raises before work starts.

WARM_UP = 5_000  # events, as DARLING's authors use
_SHARE = 5  # of a short stream, one in this many


@dataclass(frozen=True)
class ReplaySettings:
    """The checked arguments of a replay that need no frame."""

    queries: tuple[SequenceQuery, ...]
    arrivals: Arrivals
    latency_bound: float  # in seconds; infinite for none
    strategy: Strategy
    costs: Prices | str
    weights: tuple[float, ...]  # one per query
    weight_of_type: Mapping[str, float]
    warm_up: int | None
    seed: int
    negation: str = KILLS_IF  # as for `cepkit.shedding.tree_program.TreeProgram`


def check_settings(
    queries: Sequence[Any], *, arrivals: Any = None, latency_bound: Any = None, shedding: Any = "none",
    costs: Any = None, weights: Any = None, warm_up: Any = None, seed: Any = 0, negation: Any = KILLS_IF,
) -> ReplaySettings:  # fmt: skip
    """Return the arguments of a replay as a value."""
    if not queries:
        raise CepError("replay: the list of queries is empty")
    for query in queries:
        if not isinstance(query, SequenceQuery):
            raise UnsupportedQueryError(
                "replay() takes event sequences only, and this is a regex query. Write it as PATTERN SEQ(…)"
            )
        if query.selects:
            raise UnsupportedQueryError(
                "after_match removes matches by other matches, so a replay cannot say which ones were lost. "
                "Leave it out"
            )
    strategy = as_strategy(shedding)
    bound = inf if latency_bound is None else seconds_of("latency_bound", latency_bound)
    if bound == inf and strategy.name != "none":
        raise CepError(
            f"shedding={strategy.name!r} needs a latency bound, as in latency_bound='1.5 s'. "
            "Without a bound nothing is ever dropped"
        )
    is_measured = isinstance(costs, str) and costs == "measured"
    if costs is not None and not is_measured and not isinstance(costs, Prices):
        raise CepError(f"costs={costs!r}: give cep.shedding.Prices(…), or 'measured'")
    check_reading(negation)
    of_pattern, of_type = _weights(weights, len(queries))
    return ReplaySettings(
        tuple(queries), as_arrivals(arrivals), bound, strategy, Prices() if costs is None else costs,
        of_pattern, of_type, None if warm_up is None else whole_number("warm_up", warm_up, 1),
        whole_number("seed", seed), negation,
    )  # fmt: skip


def seconds_of(name: str, duration: Any) -> float:
    """Return a duration in seconds: text, a timedelta, or a number of seconds."""
    wanted = f"{name}={duration!r}: expected a duration above 0, as in '1.5 s'"
    if isinstance(duration, str):
        try:
            seconds = parse_duration(duration) / NANOSECONDS["s"]
        except PatternSyntaxError as problem:
            raise CepError(f"{wanted}; {problem.message}") from None
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float | np.integer | np.floating) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        raise CepError(f"{wanted}; got {type(duration).__name__}")
    if not 0 < seconds < inf:
        raise CepError(wanted)
    return seconds


def _weights(given: Any, n: int) -> tuple[tuple[float, ...], dict[str, float]]:
    """Return the weights of the patterns and those of event types."""
    ones = (1.0,) * n
    if given is None:
        return ones, {}
    if isinstance(given, Mapping):
        return ones, {str(name): _weight(name, weight) for name, weight in given.items()}
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise CepError(
            f"weights={given!r}: give one number per pattern, as in weights=[1, 2], or weights by event type"
        )
    if len(given) != n:
        raise CepError(f"weights={list(given)!r}: {len(given)} weights for {n} pattern{'s'[: n > 1]}")
    weights = tuple(_weight(number, weight) for number, weight in enumerate(given))
    if not sum(weights):
        raise CepError("weights: at least one pattern must have a weight above 0")
    return weights, {}


def _weight(of: object, weight: Any) -> float:
    is_number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(weight, bool)
    if not is_number or not 0 <= weight < inf:
        raise CepError(f"weights: {weight!r} of {of!r} is no weight; expected a number, 0 or more")
    return float(weight)


def make_scene(settings: ReplaySettings, source: Source) -> Scene:
    """Return the scene of a replay over a frame."""
    programs, trees = [], []
    for query in settings.queries:
        program = compile_checked(query, source)
        assert isinstance(program, SequenceProgram)
        tree = TreeProgram.of(program, negation=settings.negation)
        if isinstance(tree, str):
            raise UnsupportedQueryError(f"replay: engine 'tree' cannot run {str(query.pattern)!r}: {tree}")
        programs.append(program)
        trees.append(tree)
    if len({program.query.order_by for program in programs}) > 1:
        raise CepError("replay: the queries differ in order_by, and events of one stream have one order")
    check_types(settings.weight_of_type, tuple(name for tree in trees for name in tree.types))
    column = settings.arrivals.column if isinstance(settings.arrivals, ColumnArrivals) else None
    if column is not None and column not in source.schema:
        raise column_not_found("arrivals", column, source.schema)
    events = tuple(build_events(source, program) for program in programs)
    prices = settings.costs if isinstance(settings.costs, Prices) else Prices()
    scene = Scene(
        tuple(programs), tuple(trees), events, settings.weights, settings.arrivals, prices,
        settings.latency_bound, 0, settings.weight_of_type,
    )  # fmt: skip
    n = len(scene.positions)
    n_warm = min(WARM_UP, n // _SHARE) if settings.warm_up is None else settings.warm_up
    scene = replace(scene, n_warm=n_warm, arrivals=_given(scene, source, events[0]))
    _check_warm_up(scene, settings.warm_up)
    if settings.costs == "measured":
        first = scene.positions[: max(n_warm, min(n, WARM_UP))]
        positions = first[scene.own_types[0][first] >= 0]
        scene = replace(scene, prices=measure_prices(trees[0], events[0], positions))
    return scene


def check_types(weights: Mapping[str, float], types: Sequence[str]) -> None:
    """Refuse weights of types that no pattern has."""
    if unknown := next((name for name in weights if name not in types), None):
        raise CepError(
            f"weights: no pattern has the event type {unknown!r}.{nearest(unknown, types)} Types: "
            f"{list(dict.fromkeys(types))}"
        )


def _check_warm_up(scene: Scene, asked: int | None) -> None:
    n, n_warm = len(scene.positions), scene.n_warm
    if n == 0:
        raise CepError(f"replay: no event has a type that the query names: {list(scene.types)}")
    if n_warm >= n:
        raise CepError(f"warm_up={n_warm:,}: there are only {n:,} events of the query's types. Take fewer")
    of_warm_up = np.bincount(scene.type_of_event[scene.positions[:n_warm]], minlength=len(scene.types))
    if not of_warm_up.all():
        missing = int(np.flatnonzero(of_warm_up == 0)[0])
        places = np.flatnonzero(scene.type_of_event[scene.positions] == missing)
        wanted = f"take at least warm_up={int(places[0]) + 1}" if len(places) else "the frame has none either"
        raise CepError(
            f"the warm-up of {n_warm:,} events has no event of type {scene.types[missing]!r}, so a strategy "
            f"cannot learn its rate; {wanted}"
        )


def _given(scene: Scene, source: Source, events: Events) -> Arrivals:
    """Return the schedule; times of rows become those of the events that a pattern names."""
    arrivals = scene.arrivals
    if isinstance(arrivals, ColumnArrivals):
        seconds = _seconds_of_column(source, arrivals.column) / arrivals.speed
    elif isinstance(arrivals, GivenArrivals):
        seconds = arrivals.seconds
        if len(seconds) != source.n_rows:
            raise CepError(f"arrivals: {len(seconds):,} times for {source.n_rows:,} rows; give one per row")
    else:
        return arrivals
    in_order = seconds[events.rows(np.arange(events.n_events))]
    return GivenArrivals(check_order(GivenArrivals(in_order).seconds)[scene.positions])


def _seconds_of_column(source: Source, name: str) -> np.ndarray:
    column = source.column(name)
    kind, values = column.type.kind, column.values
    if kind not in (TIME, DURATION, INTEGER, FLOAT):
        raise CepError(f"arrivals: column {name!r} is of type {column.type}; expected times or seconds")
    if kind == FLOAT:
        return values.astype(np.float64)
    missing = values == NULL_INTEGER if values.dtype == np.int64 else np.zeros(len(values), bool)
    first = values[~missing].min() if kind == TIME and not missing.all() else 0
    seconds = (values - first).astype(np.float64)
    if kind in (TIME, DURATION):
        seconds *= NANOSECONDS[column.type.unit or "ns"] / NANOSECONDS["s"]
    seconds[missing] = np.nan
    return seconds
