"""Siddhi's windows: which events they hold, and what they hand over when an event comes or time passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from cepkit.errors import did_you_mean
from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi.building import Milliseconds
from cepkit.language.siddhi.printing import print_condition
from cepkit.language.siddhi.query import WindowHandler
from cepkit.siddhiql.calls import Scope, SlotOf
from cepkit.siddhiql.functions import INT, LONG
from cepkit.siddhiql.selecting import CURRENT, EXPIRED, RESET
from cepkit.siddhiql.states import Event, RunClock
from cepkit.values import dataclass

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
        """Take an event in; those that are too old or too many leave first."""
        passed = self._leaving(event)
        self.events.append(event)
        self.emit([*passed, (CURRENT, event, event[0])])

    def _leaving(self, event: Event) -> list[Passed]:
        """Let events leave because another one comes, and return them."""
        if len(self.events) < self.plan.length:
            return []
        return [(EXPIRED, self.events.popleft(), self.clock.now)]

    def _too_old(self, place: int, now: int) -> list[Passed]:
        """Let the events leave whose width is over at ``now``, by their time at a place."""
        passed: list[Passed] = []
        while self.events and self.events[0][place] + self.plan.width <= now:
            passed.append((EXPIRED, self.events.popleft(), now))
        return passed

    def content(self) -> Sequence[Event]:
        return self.events


class TimeWindow(LengthWindow):
    """The events of the last ``width`` ticks, and at most ``length`` of them if a length is given."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self._timer = clock.timer(self._wake)

    def _leaving(self, event: Event) -> list[Passed]:
        """Return the events that leave the window when an event comes."""
        passed = self._too_old(0, self.clock.now)
        self._timer.set(event[0] + self.plan.width)
        return [*passed, *super()._leaving(event)] if self.plan.length else passed

    def _wake(self, time: int) -> None:
        if passed := self._too_old(0, self.clock.now):
            self.emit(passed)


class ExternalTimeWindow(LengthWindow):
    """The events of the last ``width`` ticks by the clock of an attribute."""

    def _leaving(self, event: Event) -> list[Passed]:
        """Return the events that are too old by the time that the new event has in its own column."""
        [place] = self.plan.places
        return self._too_old(place, event[place])


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
        """Return the order of two events: below 0, 0 or above 0."""
        for place, sign in zip(self.plan.places, self.plan.signs, strict=True):
            a, b = one[place], other[place]
            if a != b:
                return sign if (a is None, a) > (b is None, b) else -sign
        return 0


class BatchWindow(EventWindow):
    """Events that leave together, when their batch is complete."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self.current: list[Event] = []
        self.expired: list[Event] = []
        self._keeps = plan.with_expired or plan.is_searched

    def content(self) -> Sequence[Event]:
        """Return the last batch that was handed over, or the present one if events come at once."""
        return self.expired

    def _leaving(self, now: int) -> list[Passed]:
        return [(EXPIRED, event, now) for event in self.expired] if self.plan.with_expired else []


class LengthBatch(BatchWindow):
    """Batches of ``length`` events."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self._n = 0

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
        if self._keeps:
            self.expired += events

    def _end_batch(self) -> list[Passed]:
        """Return what leaves when a batch is full."""
        now = self.clock.now
        passed = [*self._leaving(now), (RESET, (), now)]
        if self.plan.with_expired:
            self.expired = []
        return passed


class TimeBatch(BatchWindow):
    """Batches of ``width`` ticks, from the first event or from multiples of the width after a start."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self._has_reset = False
        self._next: int | None = None
        self._timer = clock.timer(lambda time: self._pass(None))

    def push(self, event: Event) -> None:
        self._pass(event)

    def _pass(self, event: Event | None) -> None:
        """Take an event, or None for the time alone, and emit the batch if it is over."""
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
                if self._keeps:
                    self.expired.append(event)
            else:
                self.current.append(event)
        if is_over:
            passed += self._end_batch(now)
        if passed:
            self.emit(passed)

    def _end_batch(self, now: int) -> list[Passed]:
        """Return what leaves and enters when a batch is over."""
        passed = self._leaving(now)
        if self.plan.with_expired:
            self.expired = []
        if self._has_reset:
            passed.append((RESET, (), now))
            self._has_reset = False
        if self.current:
            passed += [(CURRENT, event, event[0]) for event in self.current]
            self.expired = [*self.expired, *self.current] if self._keeps else []
            self.current = []
        return passed


class ExternalTimeBatch(BatchWindow):
    """Batches of ``width`` ticks by the clock of an attribute; a timeout closes a batch, too."""

    def __init__(self, plan: WindowPlan, clock: RunClock, emit: Emit):
        super().__init__(plan, clock, emit)
        self._start = plan.start or 0
        self._end: int | None = None
        self._last = 0
        self._deadline = 0
        self._is_flushed = False
        self._keeps = self._keeps or plan.timeout > 0
        self._timer = clock.timer(self._wake)

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
        """Put an event into the batch, with the end of the batch as its time if the window shows it."""
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
        """Emit the batch at its time-out: as a new one, or as an addition to one that was emitted before."""
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
        passed = self._leaving(now)
        self.expired = []
        return [*passed, *self._append(now)]

    def _append(self, now: int) -> list[Passed]:
        """Hand over the events that came, after those of their batch that left at its timeout."""
        if not self.current:
            return []
        passed = self._leaving(now)
        passed.append((RESET, (), now))
        passed += [(CURRENT, event, event[0]) for event in (*self.expired, *self.current)]
        if self._keeps:
            self.expired = [*self.expired, *self.current]
        self.current = []
        return passed


_WINDOWS: dict[str, type[EventWindow]] = {
    "length": LengthWindow, "time": TimeWindow, "timeLength": TimeWindow, "externalTime": ExternalTimeWindow,
    "sort": SortWindow, "lengthBatch": LengthBatch, "timeBatch": TimeBatch,
    "externalTimeBatch": ExternalTimeBatch,
}  # fmt: skip


def make_window(plan: WindowPlan | None, clock: RunClock, emit: Emit) -> EventWindow:
    """Return a new window; None stands for a stream without one."""
    if plan is None:
        return EventWindow(WindowPlan(""), clock, emit)
    if plan.name == "" or (plan.name == "lengthBatch" and plan.length == 0):
        return NoWindow(plan, clock, emit)
    return _WINDOWS[plan.name](plan, clock, emit)


KNOWN_WINDOWS = tuple(_WINDOWS)


# Check the parameters of windows.

_SAME_NAME = {name.lower(): name for name in KNOWN_WINDOWS}


def plan_window(
    handler: WindowHandler | None, slot: SlotOf, with_expired: bool, is_searched: bool, ticks_per_ms: int,
    scope: Scope,
) -> WindowPlan | None:  # fmt: skip
    """Return the plan of a window; None for a stream without a window."""
    if handler is None:
        return WindowPlan("", with_expired=with_expired, is_searched=True) if is_searched else None
    name = _SAME_NAME.get(handler.name.lower())
    place = ex.Attribute(handler.name, span=handler.span)
    if name is None:
        hint = did_you_mean(handler.name, KNOWN_WINDOWS)
        raise scope.error(
            place, f"#window.{handler.name} does not run; windows: {', '.join(KNOWN_WINDOWS)}{hint}"
        )
    reader = _Parameters(name, handler.arguments, slot, scope, place)
    common: dict[str, Any] = {
        "name": name, "with_expired": with_expired, "is_searched": is_searched,
    }  # fmt: skip
    plan = _read(reader, common, ticks_per_ms)
    reader.end()
    return plan


def _read(reader: _Parameters, common: dict[str, Any], per_ms: int) -> WindowPlan:
    """Return the plan of a window from its parameters."""
    name = common["name"]
    match name:
        case "length":
            return WindowPlan(**common, length=reader.count(1))
        case "lengthBatch":
            length = reader.count(0)
            return WindowPlan(**common, length=length, at_once=reader.truth())
        case "time":
            return WindowPlan(**common, width=reader.time() * per_ms)
        case "timeLength":
            width = reader.time() * per_ms
            return WindowPlan(**common, width=width, length=reader.count(1))
        case "timeBatch":
            width = reader.time() * per_ms
            start = reader.optional_time()
            start = None if start is None else start * per_ms
            return WindowPlan(**common, width=width, start=start, at_once=reader.truth())
        case "sort":
            length = reader.count(1)
            places, signs = reader.sort_columns()
            return WindowPlan(**common, length=length, places=places, signs=signs)
    clock, unit = reader.clock()
    width = reader.time() * unit
    if name == "externalTime":
        return WindowPlan(**common, places=(clock,), width=width)
    start_place = reader.optional_clock()
    start = reader.optional_time() if start_place is None else None
    timeout = (reader.optional_time() or 0) * per_ms
    return WindowPlan(
        **common, places=(clock,), width=width, start=None if start is None else start * unit,
        start_place=start_place, timeout=timeout, shows_end=reader.truth(),
    )  # fmt: skip


class _Parameters:
    """The parameters of a window, read from left to right."""

    def __init__(
        self, name: str, arguments: Sequence[ex.Expression], slot: SlotOf, scope: Scope, place: ex.Expression
    ):
        self._name, self._left, self._slot, self._scope = name, list(arguments), slot, scope
        self._place = place
        self._optional: list[str] = []  # the optional parameters that could come next

    def _refuse(self, wanted: str) -> Exception:
        """Return the error for a parameter that is no ``wanted``."""
        if not self._left:
            message = f"#window.{self._name} takes {wanted} here, but its parameters end"
            return self._scope.error(self._place, message)
        node = self._left[0]
        is_time = isinstance(node, ex.Literal) and isinstance(node.value, Milliseconds)
        shown = "the time " * is_time + print_condition(node)
        instead = f"and {shown} is one" if wanted == "no parameter" else f"not {shown}"
        return self._scope.error(node, f"#window.{self._name} takes {wanted} here, {instead}")

    def _check_attribute(self, node: ex.Attribute) -> None:
        scope = self._scope
        Scope(scope.slots, scope.source, f"#window.{self._name}", scope.current).attribute(node)

    def _constant(self, *types: type) -> Any:
        """Return the next parameter if it is a constant of one of these types, else None."""
        node = self._left[0] if self._left else None
        return node.value if isinstance(node, ex.Literal) and type(node.value) in types else None

    def count(self, least: int) -> int:
        """Return the next parameter, a number of events. It is required."""
        value = self._constant(int)
        if value is None or value < least:
            raise self._refuse("a number of events" + (f" of {least} or more" if value is not None else ""))
        self._left.pop(0)
        return value

    def time(self) -> int:
        """Return the next parameter, a time in milliseconds. It is required; a plain number is one."""
        value = self._constant(int, Milliseconds)
        if not value:
            raise self._refuse("a time such as 5 sec" if value is None else "a time above 0")
        self._left.pop(0)
        return int(value)

    def optional_time(self) -> int | None:
        """Return a time in milliseconds if one comes next."""
        value = self._constant(int, Milliseconds)
        if value is None:
            self._optional.append("a time")
            return None
        self._left.pop(0)
        return int(value)

    def truth(self) -> bool:
        """Return true or false if one comes next, else False."""
        value = self._constant(bool)
        if value is None:
            self._optional.append("true or false")
            return False
        self._left.pop(0)
        self._optional.clear()
        return value

    def optional_clock(self) -> int | None:
        """Return the place of an attribute of times, if one comes next."""
        return self.clock()[0] if self._left and isinstance(self._left[0], ex.Attribute) else None

    def clock(self) -> tuple[int, int]:
        """Return the place of an attribute of times, and its ticks for a millisecond."""
        node = self._left[0] if self._left else None
        if not isinstance(node, ex.Attribute):
            raise self._refuse("an attribute of times")
        self._check_attribute(node)
        place, kind = self._slot.attributes[node.name]
        if not isinstance(kind, ColumnType) and kind not in (INT, LONG):
            raise self._refuse("an attribute of type long")
        self._left.pop(0)
        if not isinstance(kind, ColumnType):
            return place, 1
        if kind.unit == "s":
            raise self._scope.error(node, f"{node.name} counts seconds; Siddhi's times are milliseconds")
        return place, {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit or "ms"]

    def sort_columns(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return places and directions of the attributes that a window sorts by."""
        places: list[int] = []
        signs: list[int] = []
        while self._left:
            node = self._left[0]
            if isinstance(node, ex.Literal) and node.value in ("asc", "desc") and places:
                signs[-1] = 1 if node.value == "asc" else -1
            elif isinstance(node, ex.Attribute):
                self._check_attribute(node)
                places.append(self._slot.attributes[node.name][0])
                signs.append(1)
            else:
                raise self._refuse("attributes, each with 'asc' or 'desc'")
            self._left.pop(0)
        if not places:
            raise self._refuse("an attribute to sort by")
        return tuple(places), tuple(signs)

    def end(self) -> None:
        if self._left:
            raise self._refuse(" or ".join(dict.fromkeys(self._optional)) or "no parameter")
