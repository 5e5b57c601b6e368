"""The search of a live stream: a server in real time, a tree, and a strategy that drops waiting events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf, isnan, nan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.operations import end_in_ticks
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock
from cepkit.errors import CepError, UnsupportedQueryError, warn
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.language.query_parts import END
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.plans import compile_checked
from cepkit.progress import checkpoint
from cepkit.shedding.arrivals import Prices
from cepkit.shedding.live_learning import TOGETHER, CallCosts, Latencies, LiveServer, LiveWarmUp, WallClock
from cepkit.shedding.live_report import (
    BINS,
    EventReader,
    KeptRows,
    RecallEstimate,
    SheddingReport,
    pack_values,
    unpack_values,
)
from cepkit.shedding.replay import losses_text, time_text
from cepkit.shedding.scene import choose_bins, sorted_matches
from cepkit.shedding.server import Lane, ServerClock
from cepkit.shedding.strategies.strategy import Shedder, Strategy, Training
from cepkit.shedding.tree_machine import TreeMachine, TreeMatches, join_matches
from cepkit.shedding.tree_program import TreeProgram
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search
from cepkit.streaming.sequence_stream import columns_of_results, results_of
from cepkit.values import dataclass, replace

_SHORTEST = 1e-4  # seconds of such a call, if enough events wait
_CHANGE = 0.05  # change of the seconds of a type after which the stream tells the strategy
_BINS_AFTER = 2  # the bins of positions are chosen after one in this many events of the warm-up


OF_EARLIER_VERSION = (
    "an earlier version of cepkit saved this stream with a latency bound, and measured other times. "
    "Load it with that version, and call close() for its last matches; then open a new stream with this "
    "version, which learns again in its warm-up"
)


@dataclass(frozen=True)
class LiveSettings:
    """The checked settings of a stream with a latency bound."""

    # latency_bound, time_slice: in seconds
    latency_bound: float
    time_slice: float
    strategy: Strategy
    warm_up: int  # number of events
    weights: Mapping[str, float]  # weights of event types
    seed: int


class LiveSearch(Search):
    """The search of a sequence query in a live stream."""

    def __init__(
        self, query: SequenceQuery, schema: StreamSchema, options: Options, settings: LiveSettings,
        clock: ServerClock,
    ):  # fmt: skip
        bound = schema.without_nulls(query.order_by)
        self.complete_until = query.complete_until
        program = compile_checked(replace(query, complete_until=END), bound.source())
        assert isinstance(program, SequenceProgram)
        tree = TreeProgram.of(program)
        if isinstance(tree, str):
            raise UnsupportedQueryError(f"latency_bound: engine 'tree' cannot run this query: {tree}")
        window = program.window
        if window.within is None and window.within_events is None:
            warn(
                "without a window the stream keeps every event, since a later event may complete a match "
                "with it; give the query a WITHIN"
            )
        self.schema, self.settings, self.clock = schema, settings, clock
        self.program, self.tree = program, tree
        self._rows_of_match = options.rows
        self._reader = EventReader(program, bound)
        # Events of strategies have texts with fixed codes, so their program needs no common categories.
        self._tree_of_strategy = replace(
            tree, program=replace(program, text_groups=(), ordered_text=frozenset())
        )
        nothing = schema.arrow.empty_table()
        none = self._reader.read(nothing)
        self.column_of_result = columns_of_results(program, options.rows, bound)
        self.machine = TreeMachine(tree, none)
        self.machine.learning = True
        self._kept = KeptRows()
        self._warm_up: LiveWarmUp | None = LiveWarmUp(tree, settings.warm_up, clock)
        self._in_matches = np.zeros(0, np.int64)  # of how many matches each event of the warm-up is part
        self._tables_of_warm_up: list[pa.Table] = []
        self._has_bins = False
        self._training: Training | None = None
        self._machine_of_training: dict[str, object] = {}
        self.shedder: Shedder = self._warm_up
        self._n_other = 0
        self._first_shed = inf  # position of the first event after the warm-up
        self._latencies = Latencies(settings.latency_bound)
        self._recall: RecallEstimate | None = None  # after the warm-up
        # _called_at, _called_until: when the last call began and ended, without the time to compute again
        self._called_at = self._called_until = clock.now
        self._costs = CallCosts([0.0] * len(tree.types))
        self._told: tuple[float, ...] = ()  # what the strategy knows of the costs
        self._n_admitted = self._n_returned = 0  # events and matches of this call
        self._serving, self._began = 0.0, inf  # seconds of its serving, and when that began
        self._server = self._open_server(1e-9, 1.0)
        self._serves_together = False  # whether the strategy decides for several events that leave together
        self.empty = self._results(nothing, none, EMPTY)[0]

    def _open_server(self, service: float, arrival_rate: float) -> LiveServer:
        lane = Lane(self.machine, None, self.shedder)
        return LiveServer(lane, len(self.tree.types), self.clock, service, arrival_rate)

    # --- events in, matches out

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Admit the events, process waiting ones for a time slice, and return the complete matches."""
        offers = self._offers(table.num_rows)
        table = table.select(self.schema.arrow.names)
        events = self._reader.read(table)
        self.machine.extend(events, keep_all=self._warm_up is not None)  # strategies learn from all of them
        self._kept.add(n_before, offers, table)
        if self._warm_up is not None:
            self._tables_of_warm_up.append(table)
        elif (extend := getattr(self.shedder, "extend", None)) is not None:
            extend([events])
        self._admit(n_before, offers, self.machine.types_of_events()[-table.num_rows :], events)
        self._process(self.settings.time_slice)
        return self._ready()

    def _offers(self, n: int) -> np.ndarray:
        """Return when the events of a batch were offered, in seconds, (n,)."""
        # A producer that waited for the call before has offered them since that call began, one by one.
        now, busy = self._called_at, self._called_until - self._called_before
        waited = now - self._called_before if now - self._called_until < busy else 0.0
        return now - waited + waited * np.arange(1, n + 1) / max(1, n)

    def _admit(self, start: int, offers: np.ndarray, numbers: np.ndarray, events: Events) -> None:
        rows = np.flatnonzero(numbers >= 0)
        self._n_other += len(numbers) - len(rows)
        self._n_admitted += len(rows)
        bins = np.zeros(len(rows), np.int64)
        if self._recall is not None:
            bins = self._recall.bins_of(self._place_in_windows(rows, start, events))
        self._server.admit_many(numbers[rows], rows + start, offers[rows], bins)

    def _place_in_windows(self, rows: np.ndarray, start: int, events: Events) -> np.ndarray:
        """Return where events are by the clock of the window, or in the stream."""
        if self._window_by_clock is None:
            return rows + start
        return np.asarray(events.columns[self.program.clock].values)[rows]

    @property
    def _window_by_clock(self) -> float | None:
        window = self.program.window
        if window.within is not None or window.gap_within is None:
            return window.within
        return window.gap_within * max(len(bound.branch.components) for bound in self.program.branches)

    def pump(self, seconds: float) -> Ready:
        """Process waiting events for some seconds, and return the complete matches."""
        self._process(seconds)
        return self._ready()

    def release(self) -> Ready:
        """Process waiting events for a time slice, and return the complete matches."""
        return self.pump(self.settings.time_slice)

    def flush(self, n_events: int) -> Ready:
        return self.pump(inf)

    def finish(self, n_events: int) -> Ready:
        self._process(inf)
        until, clock = None, self.program.clock
        if clock is not None:
            until = end_in_ticks(self.complete_until, self.schema.columns[clock])
        self._find(self.machine.finish(until))
        return self._ready()

    def _find(self, waited: TreeMatches) -> None:
        """Take in matches that waited until now."""
        if len(waited):
            lane = self._server.lanes[0]
            lane.matches.append(waited)
            lane.found_at.append(np.full(len(waited), self.clock.now))
            if self._recall is not None:
                self._recall.find(len(waited))

    def _process(self, seconds: float) -> None:
        """Process waiting events until none waits or the time is over."""
        clock, server, start = self.clock, self._server, self.clock.now
        self._began = min(self._began, start)
        before = list(zip(server.processed_of_type, server.seconds_of_type, strict=True))
        stop, now = start + seconds, start
        while server.n_waiting:
            server.drop_late()
            if not server.n_waiting:
                break
            server.serve_many(self._n_together(stop - now))
            if self._warm_up is not None:
                self._follow_warm_up(self._warm_up)
                server = self._server
            checkpoint()
            now = clock.now
            if now >= stop:
                break
        self._serving += clock.now - start
        for number, (n_before, seconds_before) in enumerate(before):
            n_new = server.processed_of_type[number] - n_before
            self._costs.serve(number, n_new, server.seconds_of_type[number] - seconds_before)

    def _n_together(self, seconds: float) -> int:
        """Return how many events to process in the next call of the tree, with some seconds left."""
        if not isinstance(self.clock, WallClock):
            return 1  # another clock may stop after any event
        if self._warm_up is not None:
            return TOGETHER
        if not self._serves_together:
            return 1
        return self._server.n_within(max(seconds / 3.0, _SHORTEST), self._costs.seconds_of_type)

    # --- the strategy

    def _follow_warm_up(self, warm_up: LiveWarmUp) -> None:
        """Choose bins of positions in the middle of the warm-up, and begin to shed after it."""
        if not self._has_bins and _BINS_AFTER * warm_up.n_measured >= self.settings.warm_up:
            self._has_bins = True
            events = self._events_of_warm_up()
            self.machine.set_bins(*choose_bins(self.tree, events, events.n_events))
        if warm_up.is_done:
            self._begin_to_shed(warm_up)

    def _events_of_warm_up(self) -> Events:
        return self._reader.read(pa.concat_tables(self._tables_of_warm_up).combine_chunks())

    def _begin_to_shed(self, warm_up: LiveWarmUp) -> None:
        """Let the strategy learn from the warm-up. The events that wait are admitted again by its rules."""
        settings, machine, old = self.settings, self.machine, self._server
        machine.learning = False
        self._machine_of_training = machine.save()
        events = self._events_of_warm_up()
        _, of_match = self._costs.returning
        given = events, machine, settings.latency_bound, settings.weights, settings.seed, of_match
        training = warm_up.training(*given, together=True)
        self._begin(training)
        if not self._serves_together:
            training = warm_up.training(*given, together=False)
        half = slice(len(training.type_of_event) // 2, None)  # the windows are full
        recent = replace(
            training, service_of_event=training.service_of_event[half],
            type_of_event=training.type_of_event[half],
        )  # fmt: skip
        self._costs.seconds_of_type = recent.seconds_of_type
        passing = self._passing
        service = max(training.service, float(np.average(passing, weights=training.rates)))
        self._begin(replace(training, service=service))
        self._tell(passing)
        longest = max(self._costs.of_slice(0.0, 0.0)[0], 0.0) + max(passing)
        if longest > settings.latency_bound:
            warn(
                f"an event takes up to {time_text(longest)}, more than latency_bound="
                f"{time_text(settings.latency_bound)}: its matches come late, whatever is dropped. Give a "
                "longer bound"
            )
        self._first_shed = warm_up.last_position + 1
        matches, times = old.lanes[0].matches, old.lanes[0].found_at
        self._server = self._open_server(training.service, float(training.rates.sum()))
        self._server.work_prices = Prices(**training.prices)
        self._server.processed_of_type = old.processed_of_type
        self._server.seconds_of_type = old.seconds_of_type
        self._server.n_processed = old.n_processed
        self._server.lanes[0].matches.extend(matches)
        self._server.lanes[0].found_at.extend(times)
        self._recall = self._server.recall = self._open_recall()
        if old.lanes[0].matches:
            self._count_items(machine.block(join_matches(old.lanes[0].matches)))
        types = machine.types_of_events()[: len(self._in_matches)]
        for number in set(self._recall.types):
            rows = np.flatnonzero(types == number)
            if len(rows):
                self._recall.learn(number, self.shedder.worth_of(number, rows), self._in_matches[rows])
        waiting, types, arrivals, _ = old.columns().values()
        self._serving = nan  # learning takes time, too, and this call does not count
        bins = self._recall.bins_of(self._place_in_windows(waiting, 0, events))
        self._server.admit_many(types, waiting, arrivals, bins)

    def _open_recall(self) -> RecallEstimate:
        """Return an estimate for the longest alternative of the pattern."""
        code, leaves = self.tree.code, self.tree.leaves
        of_tree = max(code.leaf_of_component, key=len)
        window = self._window_by_clock or self.program.window.within_events or 1000 * BINS
        types = [leaves[leaf].type for leaf in of_tree if not leaves[leaf].is_absent]
        return RecallEstimate(types, len(code.branch_of_order) == len(self.program.branches), window / BINS)

    def _begin(self, training: Training) -> None:
        self._training = replace(training, program=self._tree_of_strategy)
        self._warm_up = None
        self.shedder = self.settings.strategy.begin(self._training)
        nothing = np.empty(0, np.int64)
        is_asked = self.shedder.before_many(nothing, nothing, np.empty(0), self._server.load, self.machine)
        self._serves_together = is_asked is not None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure a call of the stream with all of its work."""
        self._called_before, self._called_at = self._called_at, self.clock.now
        idle = self._called_at - self._called_until
        self._n_admitted = self._n_returned = 0
        self._serving, self._began = 0.0, inf
        try:
            yield
        finally:
            self._called_until = self.clock.now
            if not isnan(self._serving):
                before = min(self._began, self._called_until) - self._called_at
                after = self._called_until - self._called_at - before - self._serving
                self._costs.call(self._n_admitted, self._n_returned, before, self._serving, after)
            self._adapt()
            if not self._server.n_waiting:
                self._server.rest(idle)

    def _adapt(self) -> None:
        """Tell the strategy how long events take now, when this has changed."""
        if self._warm_up is not None:
            return
        passing = self._passing
        if any(abs(now / told - 1.0) > _CHANGE for now, told in zip(passing, self._told, strict=True)):
            self._tell(passing)

    @property
    def _passing(self) -> tuple[float, ...]:
        """The seconds that pass for an event of each type, with all that calls do beside."""
        return self._costs.passing(self.settings.time_slice, self._server.load.arrival_rate)

    def _tell(self, passing: tuple[float, ...]) -> None:
        self._told = passing
        time_slice = self.settings.time_slice
        after = self._costs.of_slice(time_slice, self._server.load.arrival_rate)[1]
        delay = 0.0 if time_slice == inf else time_slice + after
        self._server.drop(self.shedder.adapt(passing, delay))

    # --- results

    def _ready(self) -> Ready:
        """Return the results of the matches that were found since the last call, in canonical order."""
        lane = self._server.lanes[0]
        matches, times = [*lane.matches], [*lane.found_at]
        lane.matches.clear()
        lane.found_at.clear()
        ready = self.empty, np.empty(0, np.int64)
        if matches:
            every, found_at = join_matches(matches), np.concatenate(times)
            self._n_returned += len(every)
            block, found_at = sorted_matches(self.machine, every, found_at)
            if self._warm_up is not None:
                self._count_items(block)
            ready = self._results_of(block)
            is_counted = block.last >= self._first_shed
            self._latencies.add((self._returned_at(found_at) - self._offer_of(block))[is_counted])
        self._forget()
        return ready

    def _count_items(self, block: MatchBlock) -> None:
        """Add matches to the number of matches that each event is part of."""
        n_matches = np.bincount(block.event_of_item, minlength=len(self._in_matches))
        n_matches[: len(self._in_matches)] += self._in_matches
        self._in_matches = n_matches

    def _offer_of(self, block: MatchBlock) -> np.ndarray | float:
        """Return the times from which the latencies of matches count."""
        return self._kept.offer_of(block.last)

    def _returned_at(self, found_at: np.ndarray) -> np.ndarray | float:
        """Return when matches leave the stream: now, with those that were found before in this call."""
        return self.clock.now

    def _results_of(self, block: MatchBlock) -> Ready:
        """Return the results of some matches, from the rows that they contain."""
        positions = np.unique(block.event_of_item)
        table = self._kept.take(positions)
        events = build_events(self._reader.source(table), self.program)
        renumbered = block.with_events(np.searchsorted(positions, block.event_of_item))
        rows, n_rows = self._results(table, events, renumbered)
        if self._rows_of_match == "one" and self.program.query.measures is None:
            for name in set(rows.schema.names) - set(self.column_of_result):  # positions among these rows
                place = rows.schema.get_field_index(name)
                if name.endswith("_position"):
                    of_stream = pc.take(pa.array(positions), rows.column(name))
                    rows = rows.set_column(place, rows.field(place), of_stream)
        return rows, n_rows

    def _results(self, table: pa.Table, events: Events, block: MatchBlock) -> Ready:
        return results_of(self.program, self._rows_of_match, self._reader.source(table), events, block)

    def _forget(self) -> None:
        oldest, waiting = self.machine.oldest_position, self._server.columns(1)
        self._kept.forget(min([oldest, *waiting["position"].tolist()]))
        if self._recall is not None:
            self._recall.settle(next(iter(waiting["bin"].tolist()), None))

    # --- what it says

    @property
    def losses(self) -> str:
        """What was dropped, in words; empty if nothing."""
        server = self._server
        n = server.n_processed + server.n_dropped + server.n_waiting
        partial = server.lanes[0].n_partial_dropped
        return losses_text(server.n_dropped, n, partial, int(np.sum(self.machine.skipped)))

    def report(self) -> SheddingReport:
        """Return the state of the stream."""
        server, names, settings = self._server, self.tree.types, self.settings
        details = dict(self.shedder.report())
        drift = details.get("drift")
        latencies, n = self._latencies, max(1, self._latencies.n)
        skipped, lane = int(np.sum(self.machine.skipped)), server.lanes[0]
        return SheddingReport(
            strategy=settings.strategy.name, latency_bound=settings.latency_bound,
            warm_up_left=0 if self._warm_up is None else max(1, self._warm_up.n_left),
            kept=dict(zip(names, server.processed_of_type, strict=True)),
            dropped=dict(zip(names, server.dropped_of_type, strict=True)),
            waiting_of_type=dict(zip(names, server.waiting_of_type, strict=True)), other_events=self._n_other,
            dropped_partial_matches=lane.n_partial_dropped, skipped_pairs=skipped, recall=self._recall_now,
            matches=latencies.n, mean_latency=latencies.sum / n if latencies.n else nan,
            max_latency=latencies.most, within_bound=latencies.n_within / n if latencies.n else nan,
            service=self._service, arrival_rate=server.load.arrival_rate,
            shedding_seconds=server.shedding_seconds, drift=drift if isinstance(drift, Mapping) else None,
            details=details,
        )  # fmt: skip

    @property
    def found_and_wanted(self) -> tuple[float, float]:
        """The matches that were found, and the estimated number without drops; NaN when nobody knows."""
        estimate, lost = self._recall, 0.0
        if np.any(self.machine.skipped):
            lost = nan
        elif self._server.lanes[0].n_partial_dropped:
            lost = self.shedder.lost_matches
        if estimate is None:
            return 0.0, 0.0
        wanted = estimate.wanted + lost
        return estimate.found, wanted

    @property
    def _recall_now(self) -> float:
        found, wanted = self.found_and_wanted
        return found / wanted if wanted else nan

    @property
    def _service(self) -> float:
        """The mean seconds that pass for an event now, by the events so far."""
        n_of_type = self._server.processed_of_type
        if not self._told or not sum(n_of_type):
            return self._server.service
        return float(np.average(self._passing, weights=n_of_type))

    @property
    def n_keys(self) -> int:
        """Number of partition keys so far; none is forgotten."""
        return self._reader.n_keys

    @property
    def n_retained(self) -> int:
        return self._kept.n

    # --- saving

    def pack(self, n_events: int) -> Saved:
        server, training, warm_up = self._server, self._training, self._warm_up
        lane = server.lanes[0]
        state = {
            "now": self.clock.now,
            **{name: getattr(self, f"_{name}") for name in _PLAIN},
            "first_shed": None if self._first_shed == inf else self._first_shed,
            "latencies": vars(self._latencies),
            "recall": None if self._recall is None else self._recall.save(),
            "costs": vars(self._costs),
            "told": list(self._told),
            "calls": [self._called_at, self._called_until],
            "server": server.save(),
            "lane": [lane.n_partial_dropped, lane.most_alive],
            "kept": [self._kept.starts, np.concatenate([np.empty(0), *self._kept.offers])],
            "machine": self.machine.save(),
            "shedder": None if warm_up is not None else self.shedder.save(),
            "warm_up": None if warm_up is None else warm_up.save(),
            "training": None if training is None else {name: getattr(training, name) for name in _MEASURED},
        }
        nothing = self.schema.arrow.empty_table()
        tables = {
            "kept": pa.concat_tables([nothing, *self._kept.tables]),
            "warm_up": pa.concat_tables([nothing, *self._tables_of_warm_up]),
            **self._reader.pack(),
        }
        return Saved({}, {}, tables).with_part("state", pack_values(state))

    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same query and settings."""
        state, settings = unpack_values(saved.part("state")), self.settings
        if "matches_per_second" not in state.get("costs", {}):
            raise CepError(OF_EARLIER_VERSION)
        # No time passes for the stream while it is closed.
        (getattr(self.clock, "continue_from", None) or self.clock.wait_until)(state["now"])
        for name in _PLAIN:
            setattr(self, f"_{name}", state[name])
        self._reader.unpack(saved.tables)
        warm_up = saved.tables["warm_up"].select(self.schema.arrow.names).cast(self.schema.arrow)
        if len(warm_up):
            self._tables_of_warm_up = [warm_up]
        if (training := state["training"]) is not None:
            machine = TreeMachine.load(self.tree, self._machine_of_training)
            self._begin(
                Training(
                    program=self.tree, events=self._events_of_warm_up(), machine=machine,
                    latency_bound=settings.latency_bound, seed=settings.seed,
                    weight_of_type=dict(settings.weights), **training,
                )
            )  # fmt: skip
            self.shedder.restore(state["shedder"])
        self.machine = TreeMachine.load(self.tree, state["machine"])
        if self._warm_up is not None:
            self._warm_up.restore(state["warm_up"])
        self._server = self._open_server(1e-9, 1.0)
        self._server.restore(state["server"])
        lane = self._server.lanes[0]
        lane.n_partial_dropped, lane.most_alive = state["lane"]
        self._first_shed = inf if state["first_shed"] is None else state["first_shed"]
        self._latencies = Latencies(**state["latencies"])
        if state["recall"] is not None:
            self._recall = self._server.recall = self._open_recall()
            self._recall.restore(state["recall"])
        self._costs, self._told = CallCosts(**state["costs"]), tuple(state["told"])
        self._called_at, self._called_until = state["calls"]
        starts, offers = state["kept"]
        whole = saved.tables["kept"].select(self.schema.arrow.names).cast(self.schema.arrow)
        firsts = [start - starts[0] for start in starts]
        parts = list(zip(firsts, [*firsts[1:], len(whole)], strict=False))  # none before the first
        tables = [whole.slice(first, stop - first) for first, stop in parts]
        self._kept = KeptRows(tables, starts, [np.array(offers[first:stop]) for first, stop in parts])


_PLAIN = ("n_other", "has_bins", "machine_of_training", "in_matches")
_MEASURED = ("n_events", "rates", "service", "passed", "evaluated", "prices", "service_of_event",
             "type_of_event", "alive_before", "match_seconds")  # fmt: skip
