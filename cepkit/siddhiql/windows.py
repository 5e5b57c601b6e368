"""Siddhi's windows: which events they hold, and what they hand over when an event comes or time passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from cepkit.siddhiql.selecting import CURRENT, EXPIRED, RESET
from cepkit.siddhiql.states import Event, RunClock

# A kind, an event, and when it is handed over.
Passed = tuple[str, Event, int]
Emit = Callable[[list[Passed]], None]


@dataclass(frozen=True)
class WindowPlan:
    """A window with its parameters, checked. Times are in ticks, ``places`` are those of attributes."""

    name: str
    length: int = 0
    width: int = 0
    places: tuple[int, ...] = ()
    signs: tuple[int, ...] = ()  # 1 for ascending, -1 for descending
    start: int | None = None
    start_place: int | None = None
    timeout: int = 0
    at_once: bool = False  # hand over each event when it comes, not when its batch is complete
    shows_end: bool = False  # replace the time of an event with the end of its batch
    with_expired: bool = False
    is_searched: bool = False  # a join looks into the window

    @property
    def is_sliding(self) -> bool:
        """Whether events leave one by one, and not as a batch."""
        return self.name in ("length", "time", "timeLength", "externalTime", "sort")


class EventWindow:
    """A window; this one holds nothing and hands over each event as it comes."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        self.plan, self.clock, self.emit = plan, clock, emit

    def push(self, event: Event) -> None:
        """Take an event in."""
        self.emit([(CURRENT, event, event[0])])

    def content(self) -> Sequence[Event]:
        """Return the events that a join finds."""
        return ()


class NoWindow(EventWindow):
    """A side of a join without a window: each event leaves at once."""

    def push(self, event: Event) -> None:
        """Hand over an event, and let it leave."""
        passed: list[Passed] = [(CURRENT, event, event[0])]
        if self.plan.with_expired:
            passed.append((EXPIRED, event, self.clock.now))
        self.emit([*passed, (RESET, event, self.clock.now)])


class LengthWindow(EventWindow):
    """The last ``length`` events."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self.events: deque[Event] = deque()

    def push(self, event: Event) -> None:
        """Take an event in; the oldest one leaves first."""
        passed: list[Passed] = []
        if len(self.events) >= self.plan.length:
            passed.append((EXPIRED, self.events.popleft(), self.clock.now))
        self.events.append(event)
        self.emit([*passed, (CURRENT, event, event[0])])

    def content(self) -> Sequence[Event]:
        """Return the events of the window."""
        return self.events


class TimeWindow(LengthWindow):
    """The events of the last ``width`` ticks, and at most ``length`` of them if a length is given."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self._timer = clock.timer(self._wake)

    def _leave(self) -> list[Passed]:
        now, passed = self.clock.now, []
        while self.events and self.events[0][0] + self.plan.width <= now:
            passed.append((EXPIRED, self.events.popleft(), now))
        return passed

    def push(self, event: Event) -> None:
        """Take an event in; those that are too old leave first."""
        passed = self._leave()
        if self.plan.length and len(self.events) >= self.plan.length:
            passed.append((EXPIRED, self.events.popleft(), self.clock.now))
        self.events.append(event)
        self._timer.set(event[0] + self.plan.width)
        self.emit([*passed, (CURRENT, event, event[0])])

    def _wake(self, time: int) -> None:
        passed = self._leave()
        if passed:
            self.emit(passed)


class ExternalTimeWindow(LengthWindow):
    """The events of the last ``width`` ticks by the clock of an attribute."""

    def push(self, event: Event) -> None:
        """Take an event in; those that are too old leave first."""
        [place], passed, now = self.plan.places, [], event[self.plan.places[0]]
        while self.events and self.events[0][place] + self.plan.width <= now:
            passed.append((EXPIRED, self.events.popleft(), now))
        self.events.append(event)
        self.emit([*passed, (CURRENT, event, event[0])])


class SortWindow(LengthWindow):
    """The ``length`` first events in the order of attributes."""

    def push(self, event: Event) -> None:
        """Take an event in; the last one in order leaves."""
        self.events.append(event)
        passed: list[Passed] = [(CURRENT, event, event[0])]
        if len(self.events) > self.plan.length:
            self.events = deque(sorted(self.events, key=cmp_to_key(self._compare)))
            passed.append((EXPIRED, self.events.pop(), self.clock.now))
        self.emit(passed)

    def _compare(self, one: Event, other: Event) -> int:
        for place, sign in zip(self.plan.places, self.plan.signs, strict=True):
            a, b = one[place], other[place]
            if a != b:
                return sign if (a is None, a) > (b is None, b) else -sign
        return 0


class LengthBatch(EventWindow):
    """Batches of ``length`` events."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self.current: list[Event] = []
        self.expired: list[Event] = []
        self._n = 0

    def content(self) -> Sequence[Event]:
        """Return the last batch that was handed over, or the present one if events come at once."""
        return self.expired

    def push(self, event: Event) -> None:
        """Take an event in; a complete batch is handed over."""
        self._n += 1
        if self.plan.at_once:
            passed: list[Passed] = []
            if self._n == self.plan.length + 1:
                passed, self._n = self._end_batch(), 1
            self._keep([event])
            self.emit([*passed, (CURRENT, event, event[0])])
            return
        self.current.append(event)
        if self._n == self.plan.length:
            passed, self._n = self._end_batch(), 0
            passed += [(CURRENT, batch_event, batch_event[0]) for batch_event in self.current]
            self._keep(self.current)
            self.current = []
            self.emit(passed)

    def _keep(self, events: list[Event]) -> None:
        if self.plan.with_expired or self.plan.is_searched:
            self.expired += events

    def _end_batch(self) -> list[Passed]:
        now = self.clock.now
        passed: list[Passed] = []
        if self.plan.with_expired:
            passed += [(EXPIRED, event, now) for event in self.expired]
            self.expired = []
        passed.append((RESET, (), now))
        return passed


class TimeBatch(EventWindow):
    """Batches of ``width`` ticks, from the first event or from multiples of the width after a start."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self.current: list[Event] = []
        self.expired: list[Event] = []
        self._has_reset = False
        self._next: int | None = None
        self._timer = clock.timer(lambda time: self._pass(None))

    def content(self) -> Sequence[Event]:
        """Return the last batch that was handed over, or the present one if events come at once."""
        return self.expired

    def push(self, event: Event) -> None:
        """Take an event in."""
        self._pass(event)

    def _pass(self, event: Event | None) -> None:
        now, plan = self.clock.now, self.plan
        if self._next is None:
            since = 0 if plan.start is None else (now - plan.start) % plan.width
            self._next = now + plan.width - since
            self._timer.set(self._next)
        is_over = now >= self._next
        if is_over:
            self._next += plan.width
            self._timer.set(self._next)
        passed: list[Passed] = []
        if event is not None:
            self._has_reset = True
            if plan.at_once:
                passed.append((CURRENT, event, event[0]))
                if self._keeps():
                    self.expired.append(event)
            else:
                self.current.append(event)
        if is_over:
            passed += self._end_batch(now)
        if passed:
            self.emit(passed)

    def _end_batch(self, now: int) -> list[Passed]:
        passed: list[Passed] = []
        if self.plan.with_expired:
            passed += [(EXPIRED, event, now) for event in self.expired]
            self.expired = []
        if self._has_reset:
            passed.append((RESET, (), now))
            self._has_reset = False
        if self.current:
            passed += [(CURRENT, event, event[0]) for event in self.current]
            self.expired = [*self.expired, *self.current] if self._keeps() else []
            self.current = []
        return passed

    def _keeps(self) -> bool:
        return self.plan.with_expired or self.plan.is_searched


class ExternalTimeBatch(EventWindow):
    """Batches of ``width`` ticks by the clock of an attribute; a timeout closes a batch, too."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self.current: list[Event] = []
        self.expired: list[Event] = []
        self._start = plan.start or 0
        self._end: int | None = None
        self._last = 0
        self._deadline = 0
        self._is_flushed = False
        self._keeps = plan.with_expired or plan.is_searched or plan.timeout > 0
        self._timer = clock.timer(self._wake)

    def content(self) -> Sequence[Event]:
        """Return the last batch that was handed over."""
        return self.expired

    def push(self, event: Event) -> None:
        """Take an event in; an event after the end of a batch closes it."""
        plan = self.plan
        time = event[plan.places[0]]
        if self._end is None:
            if plan.start_place is not None:
                self._start = event[plan.start_place]
                self._end = self._start + plan.width
            elif plan.start is None:
                self._start = time
                self._end = time + plan.width
            else:
                self._end = self._next_end(time)
            self._set_timeout()
        self._last = max(self._last, time)
        passed: list[Passed] = []
        if time >= self._end:
            if self._is_flushed:
                passed = self._append(self._last)
                self._is_flushed = False
            else:
                passed = self._flush(self._last)
            self._end = self._next_end(self._last)
            self._enter(event)
            self._set_timeout()
        else:
            self._enter(event)
        if passed:
            self.emit(passed)

    def _enter(self, event: Event) -> None:
        if self.plan.shows_end:
            [place] = self.plan.places
            event = (*event[:place], self._end, *event[place + 1 :])
        self.current.append(event)

    def _next_end(self, time: int) -> int:
        return time + self.plan.width - (time - self._start) % self.plan.width

    def _set_timeout(self) -> None:
        if self.plan.timeout > 0:
            self._deadline = self.clock.now + self.plan.timeout
            self._timer.set(self._deadline)

    def _wake(self, time: int) -> None:
        if self._deadline > time:
            return
        passed: list[Passed] = []
        if not self._is_flushed:
            passed = self._flush(self._last)
            self._is_flushed = True
        elif self.current:
            passed = self._append(self._last)
        self._set_timeout()
        if passed:
            self.emit(passed)

    def _flush(self, now: int) -> list[Passed]:
        """Hand over a batch."""
        passed: list[Passed] = []
        if self.plan.with_expired:
            passed += [(EXPIRED, event, now) for event in self.expired]
        self.expired = []
        if self.current:
            passed.append((RESET, (), now))
            passed += [(CURRENT, event, event[0]) for event in self.current]
            self.expired = list(self.current) if self._keeps else []
        self.current = []
        return passed

    def _append(self, now: int) -> list[Passed]:
        """Hand over a batch again, with the events that came after its timeout."""
        if not self.current:
            return []
        passed: list[Passed] = []
        if self.plan.with_expired:
            passed += [(EXPIRED, event, now) for event in self.expired]
        passed.append((RESET, (), now))
        passed += [(CURRENT, event, event[0]) for event in (*self.expired, *self.current)]
        if self._keeps:
            self.expired = [*self.expired, *self.current]
        self.current = []
        return passed


_WINDOWS: dict[str, type[EventWindow]] = {
    "length": LengthWindow,
    "time": TimeWindow,
    "timeLength": TimeWindow,
    "externalTime": ExternalTimeWindow,
    "sort": SortWindow,
    "lengthBatch": LengthBatch,
    "timeBatch": TimeBatch,
    "externalTimeBatch": ExternalTimeBatch,
}


def make_window(plan: WindowPlan | None, clock: RunClock, emit: Emit) -> EventWindow:
    """Return a new window; None stands for a stream without one."""
    if plan is None:
        return EventWindow(WindowPlan(""), clock, emit)
    if plan.name == "" or (plan.name == "lengthBatch" and plan.length == 0):
        return NoWindow(plan, clock, emit)
    return _WINDOWS[plan.name](plan, clock, emit)


KNOWN_WINDOWS = tuple(_WINDOWS)
