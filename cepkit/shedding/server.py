"""One server with buffers, a clock, and a tree and a shedder for each pattern."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cepkit.errors import CepError
from cepkit.kernels.wings import tree_layout as kernel
from cepkit.shedding.arrivals import Prices
from cepkit.shedding.strategies.strategy import Event, Load, Shedder
from cepkit.values import dataclass, field

if TYPE_CHECKING:
    from cepkit.shedding.tree_machine import TreeMachine, TreeMatches

SMOOTHING = 0.02  # share of the newest value in a moving average: it follows about 50 events
NEVER = float("nan")


class ServerClock(Protocol):
    """The time of a server, in seconds from its start."""

    @property
    def now(self) -> float: ...

    def spend(self, seconds: float) -> None:
        """Let the priced work take its time."""
        ...

    def time_within(self, start: float, priced: np.ndarray) -> np.ndarray:
        """Return when parts of the work were done that began at ``start`` and have these prices."""
        ...


@dataclass
class VirtualClock:
    """A clock that advances by the prices of work, and not otherwise."""

    now: float = 0.0

    def spend(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def time_within(self, start: float, priced: np.ndarray) -> np.ndarray:
        """Return the start plus the price of each part."""
        return start + priced

    def wait_until(self, time: float) -> None:
        """Advance the clock to a time, if it is later."""
        self.now = max(self.now, time)


@dataclass
class Lane:
    """One pattern in a server: its tree, its shedder and what it has found."""

    machine: TreeMachine
    # Per position of the stream, the number of its type in the tree; -1 for events of other types. None: the
    # server's number of the type.
    type_of_event: Sequence[int] | None
    shedder: Shedder
    matches: list[TreeMatches] = field(default_factory=list)
    found_at: list[np.ndarray] = field(default_factory=list)
    n_partial_dropped: int = 0
    most_alive: int = 0

    def __post_init__(self) -> None:
        shedder_class = type(self.shedder)
        self.asks_before = shedder_class.before is not Shedder.before
        self.asks_after = shedder_class.after is not Shedder.after


@dataclass(frozen=True, slots=True)
class WorkOfEvents:
    """What the tree did with several events in a row."""

    seconds: np.ndarray  # float64, (n_events,): price of all work for each event
    # evaluated, passed: int64, (n_conditions,): how often each condition was evaluated and held
    evaluated: np.ndarray
    passed: np.ndarray
    # alive, length: int64, (n_events,): partial matches after each event, and the number of their events
    alive: np.ndarray
    length: np.ndarray
    matches: list[TreeMatches]
    event_of_match: np.ndarray  # int64, (n_matches,): which of the events completed each match
    found_after: np.ndarray  # float64, (n_matches,): price of the work for this event before the match


def feed_many(
    prices: Prices, machine: TreeMachine, positions: np.ndarray, *, is_shown: bool = False
) -> WorkOfEvents:
    """Process events in a row, between which the query names none, and price their work."""
    n, n_conditions = len(positions), len(machine.program.conditions)
    rows, parts = [], []
    first, stop = (int(positions[0]), int(positions[-1]) + 1) if n else (0, 0)
    at = first
    is_typed = np.zeros(stop - first, np.bool_)
    is_typed[positions - first] = True
    for counts, matches in machine.run(first, stop, only_typed=True, is_shown=is_shown):
        rows.append(counts[is_typed[at - first : at - first + len(counts)]])
        at += len(counts)
        if len(matches):
            parts.append(matches)
    counts = np.concatenate([np.zeros((0, kernel.N_COUNTS + 2 * n_conditions), np.int64), *rows])
    evaluated, passed = np.split(counts[:, kernel.N_COUNTS :], 2, axis=1)
    before = np.concatenate([np.zeros((0, 2), np.int64), *(part.before for part in parts)])
    return WorkOfEvents(
        prices.of_work(evaluated.sum(axis=1), counts[:, kernel.CREATED], counts[:, kernel.REMOVED]),
        evaluated.sum(axis=0), passed.sum(axis=0), counts[:, kernel.ALIVE_AFTER],
        counts[:, kernel.LENGTH_AFTER], parts, np.repeat(np.arange(n), counts[:, kernel.FOUND]),
        prices.of_work(before[:, 0], before[:, 1]),
    )  # fmt: skip


class Server:
    """Serve events one by one, the oldest first, and let shedders drop some.

    An event that all patterns refuse when it leaves the buffers counts as dropped.
    """

    def __init__(
        self, lanes: Sequence[Lane], type_of_event: Sequence[int], arrival_of_event: Sequence[float],
        n_types: int, *, prices: Prices, clock: ServerClock, service: float, arrival_rate: float,
        event_bytes: int = 0,
    ):  # fmt: skip
        self.lanes, self.clock = tuple(lanes), clock
        self._type, self._arrival = type_of_event, arrival_of_event
        self.prices, self._price = prices, prices.table()
        self._leader = self.lanes[0].shedder
        self._asks_admit = type(self._leader).admit is not Shedder.admit
        self._sizes = [
            lane.shedder for lane in lanes if type(lane.shedder).size_bytes is not Shedder.size_bytes
        ]
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self.waiting_of_type = [0] * n_types
        self.dropped_of_type = [0] * n_types
        self.processed_of_type = [0] * n_types
        self.seconds_of_type = [0.0] * n_types
        self.n_processed = self.n_dropped = 0
        self.service, self.latency, self._gap = service, 0.0, 1.0 / arrival_rate
        self._last_arrival = NEVER
        self._event_bytes = event_bytes
        self.alive = sum(lane.machine.n_alive for lane in self.lanes)
        self.most_waiting = self.peak_bytes = 0
        self.shedding_seconds = 0.0
        self.dropped: list[int] = []

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def _oldest_arrival(self) -> float | None:
        return self._arrival[next(iter(self._waiting))] if self._waiting else None

    @property
    def load(self) -> Load:
        """The situation of the server now."""
        now, oldest = self.clock.now, self._oldest_arrival
        return Load(
            now, self.n_waiting, now if oldest is None else oldest, 1.0 / max(self._gap, 1e-12), self.service,
            self.latency, self.alive,
        )  # fmt: skip

    def admit(self, position: int) -> None:
        """Take in an event that arrives, and drop the events that the shedder names."""
        number, arrival = self._type[position], self._arrival[position]
        if self._last_arrival == self._last_arrival:  # not the first
            self._gap += SMOOTHING * (arrival - self._last_arrival - self._gap)
        self._last_arrival = arrival
        self._waiting[position] = None
        self.waiting_of_type[number] += 1
        self.clock.spend(self.prices.admit)
        if self._asks_admit:
            dropped = self._leader.admit(Event(position, number, arrival), self.load)
            self._pay(self._leader)
            if len(dropped):
                self.drop(dropped)
        if len(self._waiting) > self.most_waiting:
            self.most_waiting = len(self._waiting)

    @property
    def decides_nothing(self) -> bool:
        """Whether the server has one pattern, and its shedder neither drops nor learns."""
        (lane, *others) = self.lanes
        return not (others or self._sizes or self._asks_admit or lane.asks_before or lane.asks_after)

    def serve_many(self, positions: np.ndarray, work: WorkOfEvents, waiting: np.ndarray) -> None:
        """Update the counters after the tree has processed many events in one call."""
        # ``waiting``: how many other events waited when each was served.
        if not len(positions):
            return
        (lane,) = self.lanes
        self._count(self.processed_of_type, np.asarray(self._type)[positions], 1)
        self.n_processed += len(positions)
        self.most_waiting = max(self.most_waiting, int(waiting.max()) + 1)
        self.alive = lane.machine.n_alive
        lane.most_alive = max(lane.most_alive, int(work.alive.max()))
        used = waiting * self._event_bytes + 8 * work.length + 64 * work.alive
        self.peak_bytes = max(self.peak_bytes, int(used.max()))

    def drop(self, positions: Iterable[int]) -> None:
        """Drop waiting events."""
        for position in positions:
            if position not in self._waiting:
                raise CepError(
                    f"{type(self._leader).__name__}.admit dropped event {position}, which does not wait. "
                    "It may drop the new event and events that arrived before and were not processed yet"
                )
            del self._waiting[position]
            number = self._type[position]
            self.waiting_of_type[number] -= 1
            self._count_drop(position, number)
            self.clock.spend(self.prices.drop)

    def rest(self, seconds: float) -> None:
        """Let the shedders use time in which no event waits. It delays none."""
        for lane in self.lanes:
            lane.shedder.rest(seconds)

    def serve(self) -> int:
        """Process the oldest waiting event and return its position."""
        position, _ = self._waiting.popitem(last=False)
        number, arrival = self._type[position], self._arrival[position]
        self.waiting_of_type[number] -= 1
        self._serve(position, number, arrival)
        return position

    def _serve(self, position: int, number: int, arrival: float) -> None:
        start = self.clock.now
        is_processed = False
        for i, lane in enumerate(self.lanes):
            type_in_lane = number if lane.type_of_event is None else lane.type_of_event[position]
            if type_in_lane < 0 and i:
                continue
            may = True
            if lane.asks_before:
                before = lane.machine.n_alive
                event = Event(position, type_in_lane if i else number, arrival)
                may = lane.shedder.before(event, self.load, lane.machine)
                change = lane.machine.n_alive - before
                self.alive += change
                lane.n_partial_dropped -= change
                self._pay(lane.shedder)
            if type_in_lane < 0 or not may:
                continue
            is_processed = True
            self._feed(lane, position, type_in_lane, arrival)
        if is_processed:
            self.n_processed += 1
            self.processed_of_type[number] += 1
        else:
            self._count_drop(position, number)
        now = self.clock.now
        self.seconds_of_type[number] += now - start
        self.service += SMOOTHING * (now - start - self.service)
        self.latency += SMOOTHING * (now - arrival - self.latency)

    def _feed(self, lane: Lane, position: int, number: int, arrival: float) -> None:
        machine, clock = lane.machine, self.clock
        before, start = machine.n_alive, clock.now
        outcome, price = machine.feed(position), self.prices.of_work
        clock.spend(price(int(outcome.evaluated.sum()), outcome.created, outcome.removed))
        if len(outcome.found):
            evaluated, created = outcome.found.before.T
            lane.matches.append(outcome.found)
            lane.found_at.append(clock.time_within(start, price(evaluated, created)))
        alive = machine.n_alive
        self.alive += alive - before
        if alive > lane.most_alive:
            lane.most_alive = alive
        if lane.asks_after:
            lane.shedder.after(Event(position, number, arrival), self.load, outcome)
            self._pay(lane.shedder)
        used = self.size_bytes()
        if used > self.peak_bytes:
            self.peak_bytes = used

    def size_bytes(self) -> int:
        """Return the memory of partial matches, waiting events and the shedders' own arrays."""
        used = len(self._waiting) * self._event_bytes + sum(shedder.size_bytes() for shedder in self._sizes)
        return used + sum(int(lane.machine.size_bytes) for lane in self.lanes)

    def _count_drop(self, position: int, number: int) -> None:
        self.n_dropped += 1
        self.dropped_of_type[number] += 1
        self.dropped.append(position)

    def _pay(self, shedder: Shedder) -> None:
        """Let the shedder's own work take its time."""
        if not shedder.charged:
            return
        price = self._price
        try:
            seconds = sum(price[name] * units for name, units in shedder.charged.items())
        except KeyError as missing:
            self.prices[missing.args[0]]  # raises the error that lists the names
            raise
        shedder.charged.clear()
        self.shedding_seconds += seconds
        self.clock.spend(seconds)

    @staticmethod
    def _count(of_type: list[int], types: np.ndarray, sign: int) -> None:
        for number, n in enumerate(np.bincount(types).tolist()):
            of_type[number] += sign * n
