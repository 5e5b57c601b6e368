"""The server of a live stream, and the warm-up that measures the service times and the work of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.shedding.arrivals import Prices
from cepkit.shedding.buffers import WaitingEvents
from cepkit.shedding.server import SMOOTHING, Server, ServerClock, WorkOfEvents, feed_many
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.live_report import RecallEstimate
    from cepkit.shedding.server import Lane
    from cepkit.shedding.tree_machine import EventOutcome, TreeMachine
    from cepkit.shedding.tree_program import TreeProgram


_LONGEST = 4  # the warm-up waits for a rare type up to this many times its length
_FIRST = 100  # one event in this many is the first: it loads the kernels
MOST_TOGETHER = 1024  # events that the tree processes in one call
TOGETHER = 64  # events of a warm-up that the tree processes in one call, after as many single ones


class LiveWarmUp(Shedder):
    """Measures the first events of a stream, and drops none.

    The tree processes single events and blocks of events in turn. Strategies that decide for one event at a
    time learn what single events take, and the others what events of a block take.
    """

    def __init__(self, tree: TreeProgram, n_wanted: int, clock: ServerClock):
        super().__init__()
        self._tree, self._n_wanted, self._clock = tree, n_wanted, clock
        self._prices = Prices()
        n_conditions = len(tree.conditions)
        self._evaluated, self._passed = np.zeros(n_conditions, np.int64), np.zeros(n_conditions, np.int64)
        self._of_type = np.zeros(len(tree.types), np.int64)
        self._seconds: list[float] = []  # NaN for an event of a block
        self._work: list[float] = []
        self._blocks: list[list[float]] = []  # [seconds, work, events] of each
        self._n_single = TOGETHER  # events to process one by one before the next block
        self._types: list[int] = []
        self._alive: list[int] = []
        self._start = self._span = 0.0
        self._first_arrival: float | None = None
        self.last_position = -1

    @property
    def n_measured(self) -> int:
        return len(self._seconds)

    @property
    def n_left(self) -> int:
        """The least number of events that are still to be measured."""
        return max(0, self._n_wanted - self.n_measured)

    @property
    def is_done(self) -> bool:
        """Whether enough events were measured: each type occurred, or the warm-up took too long."""
        n = self.n_measured
        return n >= self._n_wanted and (bool(self._of_type.all()) or n >= _LONGEST * self._n_wanted)

    def before(self, event: Event, load: Load, machine: TreeMachine) -> bool:
        self._see(event.arrival)
        self._alive.append(load.alive)
        self._start = self._clock.now
        return True

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Note the time and the work of an event."""
        prices, n_evaluated = self._prices, int(outcome.evaluated.sum())
        self._seconds.append(self._clock.now - self._start)
        self._work.append(prices.of_work(n_evaluated, outcome.created, outcome.removed) - prices.event)
        self._evaluated += outcome.evaluated
        self._passed += outcome.passed
        self._types.append(event.type)
        self._of_type[event.type] += 1
        self.last_position = event.position

    def before_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, load: Load, machine: TreeMachine
    ) -> np.ndarray | None:
        if self._n_single:
            self._n_single -= 1
            return None
        self._n_single = len(positions)
        self._see(float(arrivals[-1]))
        self._alive.append(load.alive)
        return np.ones(len(positions), bool)

    def after_many(
        self, types: np.ndarray, positions: np.ndarray, work: WorkOfEvents, seconds: float
    ) -> None:
        """Note the time of a block, and the work of its events."""
        n, of_events = len(positions), work.seconds - self._prices.event
        self._blocks.append([seconds, float(of_events.sum()), float(n)])
        self._seconds += [nan] * n
        self._work += of_events.tolist()
        self._alive += work.alive[:-1].tolist()
        self._evaluated += work.evaluated
        self._passed += work.passed
        self._types += types.tolist()
        self._of_type += np.bincount(types, minlength=len(self._of_type))
        self.last_position = int(positions[-1])

    def _see(self, arrival: float) -> None:
        if self._first_arrival is None:
            self._first_arrival = arrival
        self._span = arrival - self._first_arrival

    def training(
        self, events: Events, machine: TreeMachine, bound: float, weights: Mapping[str, float], seed: int,
        match_seconds: float, *, together: bool,
    ) -> Training:  # fmt: skip
        """Return what the warm-up measured, for events that the tree processes together or one by one."""
        # The first events load the kernels, so their times are replaced. The mean service time is that of the
        # second half, when the windows are full. Rates are at most those that the warm-up was processed at,
        # since a batch may bring all of it at once.
        seconds, types, work = np.array(self._seconds), np.array(self._types, np.int64), np.array(self._work)
        n, n_first = len(seconds), -(-len(seconds) // _FIRST)
        is_single = ~np.isnan(seconds)
        seconds[:n_first] = np.median(seconds[is_single])
        seconds = np.minimum(seconds, 50.0 * np.nanmedian(seconds[n // 2 :]))  # pauses of the machine
        prices = _fit_prices(work[is_single], seconds[is_single])
        if self._blocks and together:
            prices = _of_blocks(prices, np.array(self._blocks))
            is_single[:] = False
        modelled = prices.event + prices.condition / self._prices.condition * work
        seconds = np.where(is_single, seconds, modelled)
        span = max(self._span, float(seconds.sum()), 1e-9)
        counts = np.maximum(self._of_type, 0.5)  # a type that never came still has a rate
        return Training(
            program=self._tree, events=events, n_events=self.last_position + 1, latency_bound=bound,
            rates=counts / span, service=max(float(seconds[n // 2 :].mean()), 1e-9), passed=self._passed,
            evaluated=self._evaluated, prices=prices.table(), machine=machine, seed=seed,
            service_of_event=seconds, type_of_event=types, alive_before=np.array(self._alive, np.int64),
            weight_of_type=dict(weights), match_seconds=match_seconds,
        )  # fmt: skip

    def save(self) -> Mapping[str, object]:
        return {
            "evaluated": self._evaluated, "passed": self._passed, "of_type": self._of_type,
            "seconds": np.array(self._seconds), "work": np.array(self._work),
            "types": np.array(self._types, np.int64), "alive": np.array(self._alive, np.int64),
            "blocks": self._blocks, "n_single": self._n_single, "span": self._span,
            "first_arrival": self._first_arrival, "last_position": self.last_position,
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._evaluated, self._passed = np.array(saved["evaluated"]), np.array(saved["passed"])
        self._of_type = np.array(saved["of_type"])
        for name in ("seconds", "work", "types", "alive"):
            setattr(self, f"_{name}", saved[name].tolist())
        self._blocks, self._n_single = list(saved["blocks"]), saved["n_single"]
        self._span, self._first_arrival = saved["span"], saved["first_arrival"]
        self.last_position = saved["last_position"]


def _fit_prices(work: np.ndarray, seconds: np.ndarray) -> Prices:
    """Return prices whose line through the work of events fits their times; the other prices are kept."""
    spread = work - work.mean()
    slope = float(spread @ seconds / (spread @ spread)) if spread.any() else 1.0
    slope = max(slope, 1e-3)
    return _prices(float(seconds.mean() - slope * work.mean()), slope)


def _prices(event: float, slope: float) -> Prices:
    prices = Prices()
    return replace(
        prices, event=max(event, 0.0), condition=slope * prices.condition, create=slope * prices.create,
        remove=slope * prices.remove,
    )  # fmt: skip


def _of_blocks(prices: Prices, blocks: np.ndarray) -> Prices:
    """Return prices for events of blocks: their work costs what it costs alone, and the rest of them less."""
    seconds, work, n = blocks.T
    slope = prices.condition / Prices().condition
    event = float(np.median((seconds - slope * work) / n))
    if event < 0.0:
        slope, event = float(np.median(seconds / np.maximum(work, 1e-300))), 0.0
    return _prices(event, slope)


# The server of a live stream: its clock, its queue, and the latencies of its matches.


class WallClock:
    """The clock of the machine, in seconds. Priced work takes no more time than it really takes."""

    def __init__(self) -> None:
        self._origin = perf_counter()

    @property
    def now(self) -> float:
        """The time now."""
        return perf_counter() - self._origin

    def continue_from(self, time: float) -> None:
        """Set the time now."""
        self._origin = perf_counter() - time

    def spend(self, seconds: float) -> None:
        """Do nothing, because the work itself takes time."""

    def time_within(self, start: float, priced: np.ndarray) -> np.ndarray:
        """Return the time now for each part, because a match is known when its event is done."""
        return np.full(len(priced), self.now)


class LiveServer(Server):
    """A server of an endless stream. It forgets the events that left, and tells ``recall`` about them."""

    recall: RecallEstimate | None = None  # of a stream after its warm-up
    work_prices = Prices()  # they divide the time of a block among its events

    def __init__(self, lane: Lane, n_types: int, clock: ServerClock, service: float, arrival_rate: float):
        super().__init__(
            [lane], (), (), n_types, prices=Prices(), clock=clock, service=service, arrival_rate=arrival_rate
        )
        self.buffer = WaitingEvents(type=np.int64, arrival=np.float64, bin=np.int64)

    @property
    def n_waiting(self) -> int:
        return len(self.buffer)

    def columns(self, n: int | None = None) -> dict[str, np.ndarray]:
        """Return the columns of the oldest ``n`` events that wait, or of all."""
        rows = self.buffer.rows(n)
        return {name: self.buffer[name][rows] for name in ("position", "type", "arrival", "bin")}

    @property
    def _oldest_arrival(self) -> float | None:
        return self.buffer.oldest("arrival")

    # --- events in

    def admit_many(
        self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, bins: np.ndarray
    ) -> None:
        """Take in the events of a batch, and drop those that the shedder names."""
        if not len(positions):
            return
        if self._last_arrival == self._last_arrival:  # not the first
            share = 1.0 - (1.0 - SMOOTHING) ** len(positions)
            self._gap += share * ((float(arrivals[-1]) - self._last_arrival) / len(positions) - self._gap)
        self._last_arrival = float(arrivals[-1])
        dropped = self._leader.admit_many(types, positions, arrivals, self.load)
        self._pay(self._leader)
        if dropped is None:
            for event in zip(
                positions.tolist(), types.tolist(), arrivals.tolist(), bins.tolist(), strict=True
            ):
                self._admit(*event)
            return
        self._add(types, positions, arrivals, bins)
        self.clock.spend(self.prices.admit * len(positions))
        self.drop(dropped)
        self.most_waiting = max(self.most_waiting, self.n_waiting)

    def _add(self, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, bins: np.ndarray) -> None:
        self.buffer.add(position=positions, type=types, arrival=arrivals, bin=bins)
        self._count(self.waiting_of_type, types, 1)

    def _admit(self, position: int, number: int, arrival: float, own_bin: int) -> None:
        self._add(*map(np.array, ([number], [position], [arrival], [own_bin])))
        self.clock.spend(self.prices.admit)
        dropped = self._leader.admit(Event(position, number, arrival), self.load)
        self._pay(self._leader)
        self.drop(dropped)
        self.most_waiting = max(self.most_waiting, self.n_waiting)

    def drop(self, positions: Iterable[int]) -> None:
        """Drop waiting events."""
        positions = np.asarray(positions, np.int64)
        if not len(positions):
            return
        rows = self.buffer.rows_of(positions)
        first_of = np.unique(rows, return_index=True)[1]
        if (rows < 0).any() or len(first_of) < len(rows):  # each waits, and is named once
            wrong = np.where(rows < 0, True, ~np.isin(np.arange(len(rows)), first_of))
            super().drop(positions[wrong].tolist())  # raises the error
        types, bins = self.buffer["type"][rows], self.buffer["bin"][rows]
        self.buffer.remove(rows)
        self._count(self.waiting_of_type, types, -1)
        self._count_drops(positions, types, bins)
        self.clock.spend(self.prices.drop * len(positions))

    def _count_drops(self, positions: np.ndarray, types: np.ndarray, bins: np.ndarray) -> None:
        self.n_dropped += len(positions)
        self._count(self.dropped_of_type, types, 1)
        self.lanes[0].machine.leave_out(positions)
        if self.recall is not None:
            self.recall.drop(bins, types, self._leader.worth_of_drops(types, positions))

    # --- events out

    def drop_late(self) -> None:
        """Drop the events that have waited for too long, when the oldest one has."""
        oldest = self._oldest_arrival
        if oldest is not None and self.clock.now - oldest > self._leader.patience:
            positions, types, arrivals, _ = self.columns().values()
            self.drop(self._leader.late(types, positions, arrivals, self.load))

    def n_within(self, seconds: float, seconds_of_type: Sequence[float]) -> int:
        """Return how many of the oldest events are served in some seconds; at least one."""
        types = self.columns(MOST_TOGETHER)["type"]
        seconds_of_event = np.maximum(np.asarray(seconds_of_type), 1e-9)[types]
        # On average an event takes at least the measured service time.
        seconds_of_event *= max(1.0, self.service * len(types) / float(seconds_of_event.sum()))
        return max(1, int(np.searchsorted(np.cumsum(seconds_of_event), seconds)))

    def serve_many(self, n: int) -> None:
        """Process the oldest waiting events, up to ``n`` in one call of the tree.

        Some shedders decide for each event. Then one event leaves.
        """
        if n == 1:
            self.serve()
            return
        (lane,), machine, start = self.lanes, self.lanes[0].machine, self.clock.now
        alive, rows = machine.n_alive, self.buffer.rows(n)
        positions, types, arrivals, bins = self.columns(n).values()
        may = self._leader.before_many(types, positions, arrivals, self.load, machine)
        if may is None:
            self.serve()
            return
        lane.n_partial_dropped += alive - machine.n_alive
        self._leader.charged.clear()  # its work has taken its time
        self.buffer.remove(rows)
        self._count(self.waiting_of_type, types, -1)
        if not may.all():
            self._count_drops(positions[~may], types[~may], bins[~may])
        if may.any():
            self._process(lane, types[may], positions[may], arrivals[may], bins[may], start)

    def _process(
        self, lane: Lane, types: np.ndarray, positions: np.ndarray, arrivals: np.ndarray, bins: np.ndarray,
        start: float,
    ) -> None:  # fmt: skip
        work, n = feed_many(self.work_prices, lane.machine, positions), len(positions)
        lane.matches += work.matches
        self.alive, now = lane.machine.n_alive, self.clock.now
        lane.found_at.append(np.full(len(work.event_of_match), now))
        lane.most_alive = max(lane.most_alive, int(work.alive.max()))
        seconds = now - start
        if isinstance(self._leader, LiveWarmUp):
            self._leader.after_many(types, positions, work, seconds)
        of_type = np.bincount(types, work.seconds, minlength=len(self.seconds_of_type))
        of_type *= seconds / max(of_type.sum(), 1e-300)
        self.seconds_of_type = (of_type + self.seconds_of_type).tolist()
        self._count(self.processed_of_type, types, 1)
        self.n_processed += n
        share = 1.0 - (1.0 - SMOOTHING) ** n
        self.service += share * (seconds / n - self.service)
        self.latency += share * (now - float(arrivals.mean()) - self.latency)
        if self.recall is not None:
            self.recall.process(bins, types, np.bincount(work.event_of_match, minlength=n))

    def serve(self) -> int:
        """Process the oldest waiting event and return its position."""
        (lane,) = self.lanes
        position, number, arrival, own_bin = self.buffer.pop()
        self.waiting_of_type[number] -= 1
        n_processed, n_blocks = self.n_processed, len(lane.matches)
        self._serve(position, number, arrival)
        is_dropped = self.n_processed == n_processed
        if is_dropped:
            lane.machine.leave_out(np.array([position]))
        if self.recall is not None and is_dropped:
            types = np.array([number])
            worth = self._leader.worth_of_drops(types, np.array([position]))
            self.recall.drop(np.array([own_bin]), types, worth)
        elif self.recall is not None:
            n_found = len(lane.matches[-1]) if len(lane.matches) > n_blocks else 0
            self.recall.process_one(own_bin, number, n_found)
        return position

    def save(self) -> dict[str, Any]:
        return {
            "waiting": self.buffer.save(),
            "dropped_of_type": self.dropped_of_type,
            "processed_of_type": self.processed_of_type,
            "seconds_of_type": self.seconds_of_type,
            "counts": [self.n_processed, self.n_dropped, self.most_waiting],
            "averages": [self.service, self.latency, self._gap, self._last_arrival, self.shedding_seconds],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.buffer.restore(saved["waiting"])
        self._count(self.waiting_of_type, self.columns()["type"], 1)
        for name in ("dropped_of_type", "processed_of_type", "seconds_of_type"):
            setattr(self, name, list(saved[name]))
        self.n_processed, self.n_dropped, self.most_waiting = saved["counts"]
        (
            self.service, self.latency, self._gap, self._last_arrival, self.shedding_seconds,
        ) = saved["averages"]  # fmt: skip


_RECENT = 32  # calls whose cost counts
_UNUSUAL = 4.0  # times the mean: a pause of the machine counts as no more
_FOLLOWED = 200.0  # events of a type that the mean of their seconds follows
_LEAST = 0.1  # share of the time that stays for serving, when reading takes all of it


@dataclass
class CallCosts:
    """What the calls of a live stream cost: to serve events, to read a batch, and to return matches.

    The seconds of reading are a line in the number of events that a call admits, and those of returning a
    line in the number of matches, through the last calls.
    """

    seconds_of_type: list[float]  # to serve an event of each type, as a moving average
    # Per call: admitted events, matches, and the seconds before, of and after the serving.
    calls: list[list[float]] = field(default_factory=list)
    # reading, returning: the fixed part of each line, and its slope
    reading: list[float] = field(default_factory=lambda: [0.0, 0.0])
    returning: list[float] = field(default_factory=lambda: [0.0, 0.0])
    matches_per_second: float = 0.0  # of serving

    def serve(self, number: int, n: int, seconds: float) -> None:
        """Take in how long some events of a type took."""
        if n:
            before, share = self.seconds_of_type[number], 1.0 - (1.0 - 1.0 / _FOLLOWED) ** n
            self.seconds_of_type[number] += share * (min(seconds / n, _UNUSUAL * before) - before)

    def call(self, n_admitted: int, n_found: int, before: float, serving: float, after: float) -> None:
        """Take in the seconds of a call."""
        self.calls.append([float(n_admitted), float(n_found), before, serving, after])
        del self.calls[:-_RECENT]
        admitted, found, to_read, served, to_return = np.array(self.calls).T
        self.reading, self.returning = _line(admitted, to_read), _line(found, to_return)
        self.matches_per_second = float(found.sum()) / max(float(served.sum()), 1e-9)

    def of_slice(self, time_slice: float, rate: float) -> tuple[float, float]:
        """Return the seconds that a call takes under overload, and how many of them come after serving.

        The call serves for ``time_slice`` seconds, and reads ``rate`` events for each second that it takes.
        """
        if time_slice == inf:
            return time_slice, 0.0
        (to_read, of_event), (to_return, of_match) = self.reading, self.returning
        seconds_after = to_return + of_match * self.matches_per_second * time_slice
        return (to_read + time_slice + seconds_after) / max(_LEAST, 1.0 - of_event * rate), seconds_after

    def passing(self, time_slice: float, rate: float) -> tuple[float, ...]:
        """Return the seconds that pass for an event of each type, when calls serve for a time slice."""
        stretch = 1.0 if time_slice == inf else self.of_slice(time_slice, rate)[0] / time_slice
        return tuple(stretch * seconds for seconds in self.seconds_of_type)


def _line(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the fixed part and the slope of the line that most pairs of points agree on, both not negative.

    Source: Theil and Sen, with pairs that weigh as much as they are apart. Outliers change little.
    """
    first, second = np.triu_indices(len(x), 1)
    weights = np.abs(x[first] - x[second])
    slope = 0.0
    if weights.any():
        apart = weights > 0.0
        slopes = (y[first] - y[second])[apart] / (x[first] - x[second])[apart]
        order = np.argsort(slopes)
        share = np.cumsum(weights[apart][order])
        slope = max(0.0, float(slopes[order][np.searchsorted(share, share[-1] / 2.0)]))
    return [max(0.0, float(np.median(y - slope * x))), slope]


@dataclass
class Latencies:
    """Number, sum and maximum of latencies, and how many were within a bound."""

    bound: float
    n: int = 0
    sum: float = 0.0
    most: float = nan
    n_within: int = 0

    def add(self, latencies: np.ndarray) -> None:
        if len(latencies):
            self.n += len(latencies)
            self.sum += float(latencies.sum())
            self.most = float(np.fmax(self.most, latencies.max()))
            self.n_within += int((latencies <= self.bound).sum())

    def add_all(self, other: Latencies) -> None:
        """Add the latencies that ``other`` has counted."""
        self.n += other.n
        self.sum += other.sum
        self.most = float(np.fmax(self.most, other.most))
        self.n_within += other.n_within
