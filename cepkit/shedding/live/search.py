"""The search of a live stream: a server in real time, a tree, and a strategy that drops waiting events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.measures.regex_measures import Picked
from cepkit.engines.measures.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock
from cepkit.errors import UnsupportedQueryError, warn
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.plans import compile_checked
from cepkit.progress import checkpoint
from cepkit.shedding.live.learning import Latencies, LiveServer, LiveWarmUp, spread_arrivals
from cepkit.shedding.live.report import (
    EventReader,
    KeptRows,
    RecallEstimate,
    SheddingReport,
    pack_values,
    unpack_values,
)
from cepkit.shedding.simulation.arrivals import Prices
from cepkit.shedding.simulation.scene import choose_bins, sort_with
from cepkit.shedding.simulation.server import Lane, ServerClock
from cepkit.shedding.strategies.strategy import Shedder, Strategy, Training
from cepkit.shedding.tree.machine import TreeMachine, TreeMatches, join_matches
from cepkit.shedding.tree.program import TreeProgram
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search

_TOGETHER = 256  # events between two checkpoints
_CHANGE = 0.1  # change of the service time from which the limits are set again
_STEADY = 200  # events whose mean service time counts
_FADE = 0.05  # share of the newest mean in the service time under load
_BINS_AFTER = 2  # the bins of positions are chosen after one in this many events of the warm-up


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
        self,
        query: SequenceQuery,
        schema: StreamSchema,
        options: Options,
        settings: LiveSettings,
        clock: ServerClock,
    ):
        bound = schema.without_nulls(query.order_by)
        program = compile_checked(query, bound.source())
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
        self.column_of_result = {name: name for name in schema.arrow.names}
        if options.rows == "one":
            measured = sequence_measures(program, none, EMPTY, bound.source())
            self.column_of_result = {n: m.column for n, m in measured.items() if isinstance(m, Picked)}
        self.machine = TreeMachine(tree, none)
        self.machine.learning = True
        self._kept = KeptRows()
        self._types: dict[int, int] = {}
        self._arrivals: dict[int, float] = {}
        self._warm_up: LiveWarmUp | None = LiveWarmUp(tree, settings.warm_up, clock)
        self._tables_of_warm_up: list[pa.Table] = []
        self._has_bins = False
        self._training: Training | None = None
        self._machine_of_training: dict[str, object] = {}
        self.shedder: Shedder = self._warm_up
        self._n_other = 0
        self._first_shed = inf  # position of the first event after the warm-up
        self._last_push = clock.now
        self._latencies = Latencies(settings.latency_bound)
        self._recall = RecallEstimate(len(tree.types))
        self._drops: list[list[Any]] = []  # last position of each batch, with all drops until then
        self._called_at = clock.now
        self._busy, self._n_served, self._service, self._service_of_limits = 0.0, 0, nan, nan
        self._service_under_load = nan  # moving average over the times when events waited
        self._server = self._open_server(1e-9, 1.0)
        self.empty = self._results(nothing, none, EMPTY)[0]

    def _open_server(self, service: float, arrival_rate: float) -> LiveServer:
        lane = Lane(self.machine, self._types, self.shedder)
        n_types = len(self.tree.types)
        return LiveServer(
            [lane], self._types, self._arrivals, n_types, prices=Prices(), clock=self.clock, service=service,
            arrival_rate=arrival_rate,
        )  # fmt: skip

    # --- events in, matches out

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Admit the events, process waiting ones for a time slice, and return the complete matches."""
        now = self._called_at
        table = table.select(self.schema.arrow.names)
        events = self._reader.read(table)
        self.machine.extend(events, keep_all=self._warm_up is not None)  # strategies learn from all of them
        self._kept.add(n_before, now, table)
        if self._warm_up is not None:
            self._tables_of_warm_up.append(table)
        elif (extend := getattr(self.shedder, "extend", None)) is not None:
            extend([events])
        self._admit(n_before, now, self.machine.types_of_events()[-table.num_rows :])
        self._process(self.settings.time_slice)
        return self._ready()

    def _admit(self, start: int, now: float, numbers: np.ndarray) -> None:
        rows = np.flatnonzero(numbers >= 0)
        self._n_other += len(numbers) - len(rows)
        before, self._last_push = self._last_push, now
        for at, number, seen in zip(
            (rows + start).tolist(),
            numbers[rows].tolist(),
            spread_arrivals(before, now, len(rows)),
            strict=True,
        ):
            self._types[at], self._arrivals[at] = number, now
            self._server.admit(at, seen)
        if self._warm_up is None:
            self._drops.append([start + len(numbers) - 1, list(self._server.dropped_of_type), self._steps()])

    def pump(self, seconds: float) -> Ready:
        """Process waiting events for some seconds, and return the complete matches."""
        self._process(seconds)
        return self._ready()

    def release(self) -> Ready:
        """Process waiting events for a time slice, and return the complete matches."""
        return self.pump(self.settings.time_slice)

    def flush(self, n_events: int) -> Ready:
        """Process all waiting events, and return the complete matches."""
        return self.pump(inf)

    def finish(self, n_events: int) -> Ready:
        """Process all waiting events, and return all remaining matches."""
        self._process(inf)
        waiting = self.machine.finish()
        if len(waiting):
            lane = self._server.lanes[0]
            lane.matches.append(waiting)
            lane.found_at.append(np.full(len(waiting), self.clock.now))
        return self._ready()

    def _process(self, seconds: float) -> None:
        """Process waiting events until none waits or the time is over."""
        clock, server = self.clock, self._server
        stop, n = clock.now + seconds, 0
        while server.n_waiting:
            server.forget(server.serve())
            n += 1
            if self._warm_up is not None:
                self._follow_warm_up(self._warm_up)
                server = self._server
            if clock.now >= stop:
                break
            if n % _TOGETHER == 0:
                checkpoint()
        self._n_served += n

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
        training = warm_up.training(events, machine, settings.latency_bound, settings.weights, settings.seed)
        if not isnan(self._service):  # with all work for an event, not only that of the tree
            training = replace(training, service=max(training.service, self._service))
        self._begin(training)
        self._first_shed = warm_up.last_position + 1
        matches, times = old.lanes[0].matches, old.lanes[0].found_at
        self._server = self._open_server(training.service, float(training.rates.sum()))
        self._server.processed_of_type = old.processed_of_type
        self._server.n_processed = old.n_processed
        self._server.lanes[0].matches.extend(matches)
        self._server.lanes[0].found_at.extend(times)
        n_bins, bin_size = choose_bins(self.tree, events, events.n_events)
        n_window = n_bins * bin_size * 4 // 5  # bins have a quarter to spare
        self._recall = RecallEstimate(len(self.tree.types), n_window, kept=list(old.processed_of_type))
        self._busy, self._n_served, self._service_under_load = 0.0, 0, nan  # learning takes time, too
        for position in old.waiting:
            self._server.admit(position, self._last_push)

    def _begin(self, training: Training) -> None:
        self._training = replace(training, program=self._tree_of_strategy)
        self._warm_up = None
        self.shedder = self.settings.strategy.begin(self._training)
        self._service_of_limits = training.service

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure a call of the stream with all of its work. Events of the call arrive when it begins."""
        self._called_at = self.clock.now
        try:
            yield
        finally:
            self._busy += self.clock.now - self._called_at
            self._adapt()

    def _adapt(self) -> None:
        """Tell the strategy how long events take, with all work for them, when this has changed.

        Under load there are more partial matches, so an event takes longer. The limits only matter then, and
        a peak begins too fast to measure it first. So the limits remember the time of earlier peaks.

        """
        if self._n_served < _STEADY:
            return
        service = self._service = self._busy / self._n_served
        self._busy, self._n_served = 0.0, 0
        peak = self._service_under_load
        if self._server.n_waiting:
            peak = self._service_under_load = service if isnan(peak) else peak + _FADE * (service - peak)
        needed = service if isnan(peak) else max(service, peak)
        adapt = getattr(self.shedder, "adapt", None)
        if adapt is not None and abs(needed / self._service_of_limits - 1.0) > _CHANGE:
            self._service_of_limits = needed
            self._server.drop(adapt(needed))

    # --- results

    def _ready(self) -> Ready:
        """Return the results of the matches that were found since the last call, in canonical order."""
        lane = self._server.lanes[0]
        matches, times = [*lane.matches], [*lane.found_at]
        lane.matches.clear()
        lane.found_at.clear()
        ready = self.empty, np.empty(0, np.int64)
        n_counted = 0
        if matches:
            every, found_at = join_matches(matches), np.concatenate(times)
            block, found_at = self._sorted(every, found_at)
            latency = found_at - self._arrival_of(block)
            is_counted = block.last >= self._first_shed
            n_counted = int(is_counted.sum())
            self._latencies.add(latency[is_counted])
            ready = self._results_of(block)
        self._estimate(n_counted)
        self._forget()
        return ready

    def _arrival_of(self, block: MatchBlock) -> np.ndarray | float:
        """Return the times from which the latencies of matches count."""
        return self._kept.arrival_of(block.last)

    def _sorted(self, every: TreeMatches, found_at: np.ndarray) -> tuple[MatchBlock, np.ndarray]:
        order = np.argsort(every.trees, kind="stable")  # blocks are sorted by tree
        return sort_with(self.machine.block(every), found_at[order])

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
        source = self._reader.source(table)
        if self._rows_of_match == "one":
            measured = sequence_measures(self.program, events, block, source)
            return source.result(measured), np.ones(len(block), np.int64)
        names = np.array(self.program.query.variables, dtype=object)[variables_of_items(self.program, block)]
        rows = source.rows(events.rows(block.event_of_item), {"variable": names})
        return rows, np.diff(block.first_item_of_match)

    def _steps(self) -> list[list[list[int]]] | None:
        """Return, for each type, how many events had each step of utility, and how many were dropped."""
        if not any(self._server.dropped_of_type):
            return None
        of_types, names = self.shedder.report().get("types"), self.tree.types
        if not isinstance(of_types, Mapping) or not all("seen" in of_types.get(name, ()) for name in names):
            return None
        return [[of_types[name]["seen"], of_types[name]["dropped"]] for name in names]

    def _estimate(self, n_matches: int) -> None:
        """Estimate recall. Drops count when the events that came with them have been processed."""
        if self._warm_up is not None:
            return
        next_one = next(iter(self._server.waiting), inf)
        while len(self._drops) > 1 and self._drops[1][0] < next_one:
            del self._drops[0]
        if self._drops:
            _, dropped, seen = self._drops[0]
            self._recall.add(self._server.processed_of_type, dropped, n_matches, seen)

    def _forget(self) -> None:
        oldest = self.machine.oldest_position
        if self._server.n_waiting:
            oldest = min(oldest, next(iter(self._server.waiting)))
        self._kept.forget(oldest)

    # --- what it says

    def report(self) -> SheddingReport:
        """Return the state of the stream."""
        server, names, settings = self._server, self.tree.types, self.settings
        details = dict(self.shedder.report())
        drift = details.get("drift")
        latencies, n = self._latencies, max(1, self._latencies.n)
        skipped, lane = int(np.sum(self.machine.skipped)), server.lanes[0]
        return SheddingReport(
            strategy=settings.strategy.name,
            latency_bound=settings.latency_bound,
            warm_up_left=0 if self._warm_up is None else max(1, self._warm_up.n_left),
            kept=dict(zip(names, server.processed_of_type, strict=True)),
            dropped=dict(zip(names, server.dropped_of_type, strict=True)),
            waiting_of_type=dict(zip(names, server.waiting_of_type, strict=True)),
            other_events=self._n_other,
            dropped_partial_matches=lane.n_partial_dropped,
            skipped_pairs=skipped,
            recall=nan if skipped or lane.n_partial_dropped else self._recall.value,
            matches=latencies.n,
            mean_latency=latencies.sum / n if latencies.n else nan,
            max_latency=latencies.most,
            within_bound=latencies.n_within / n if latencies.n else nan,
            service=server.service if isnan(self._service) else self._service,
            arrival_rate=server.load.arrival_rate,
            shedding_seconds=server.shedding_seconds,
            drift=drift if isinstance(drift, Mapping) else None,
            details=details,
        )

    @property
    def n_keys(self) -> int:
        """Number of partition keys so far; none is forgotten."""
        return self._reader.n_keys

    @property
    def n_retained(self) -> int:
        """Number of rows kept for later matches."""
        return self._kept.n

    # --- saving

    def pack(self, n_events: int) -> Saved:
        """Return the content of the search for a file."""
        server, training, warm_up = self._server, self._training, self._warm_up
        lane = server.lanes[0]
        state = {
            "now": self.clock.now,
            "last_push": self._last_push,
            "n_other": self._n_other,
            "has_bins": self._has_bins,
            "first_shed": None if self._first_shed == inf else self._first_shed,
            "latencies": vars(self._latencies),
            "recall": vars(self._recall),
            "drops": self._drops,
            "busy": [self._busy, self._n_served, self._service, self._service_of_limits],
            "under_load": self._service_under_load,
            "server": server.save(),
            "lane": [lane.n_partial_dropped, lane.most_alive],
            "kept": [self._kept.starts, self._kept.arrivals],
            "machine": self.machine.save(),
            "shedder": None if warm_up is not None else self.shedder.save(),
            "warm_up": None if warm_up is None else warm_up.save(),
            "training": None if training is None else _training_as_values(training),
            "machine_of_training": self._machine_of_training,
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
        # No time passes for the stream while it is closed.
        (getattr(self.clock, "continue_from", None) or self.clock.wait_until)(state["now"])
        self._reader.unpack(saved.tables)
        warm_up = saved.tables["warm_up"].cast(self.schema.arrow)
        if len(warm_up):
            self._tables_of_warm_up = [warm_up]
        if (training := state["training"]) is not None:
            machine = TreeMachine.load(self.tree, state["machine_of_training"])
            self._machine_of_training = state["machine_of_training"]
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
        self._last_push, self._n_other = state["last_push"], state["n_other"]
        self._has_bins = state["has_bins"]
        self._first_shed = inf if state["first_shed"] is None else state["first_shed"]
        self._latencies = Latencies(**state["latencies"])
        self._recall, self._drops = RecallEstimate(**state["recall"]), state["drops"]
        self._busy, self._n_served, self._service, self._service_of_limits = state["busy"]
        self._service_under_load = state.get("under_load", nan)  # earlier versions did not save it
        starts, arrivals = state["kept"]
        whole = saved.tables["kept"].cast(self.schema.arrow)
        firsts = [start - starts[0] for start in starts]
        tables = [
            whole.slice(first, stop - first)
            for first, stop in zip(firsts, [*firsts[1:], len(whole)], strict=False)  # none before the first
        ]
        self._kept = KeptRows(tables, starts, arrivals)


_MEASURED = ("n_events", "rates", "service", "passed", "evaluated", "prices", "service_of_event",
             "type_of_event", "alive_before")  # fmt: skip


def _training_as_values(training: Training) -> dict[str, object]:
    return {name: getattr(training, name) for name in _MEASURED}
