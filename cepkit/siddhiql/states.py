"""States of patterns for present events, and the timers that wake states and windows in virtual time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

# States of patterns and sequences for present events, with the partial matches that wait in them.
#
# A state has two lists. A partial match that reaches the state is fresh, and takes events only after the next
# update, so one event does not serve two states in a row.

UNSET = -1  # the time of a partial match without an event

# An event is a tuple: its time, and the values of its stream's attributes.
Event = tuple[Any, ...]
Slots = list[list[Event] | None]


class PartialState:
    """The events that a partial match has taken so far, one list for each state."""

    __slots__ = ("is_expired", "slots", "time")

    def __init__(self, n_slots: int):
        self.slots: Slots = [None] * n_slots
        self.time = UNSET
        self.is_expired = False

    def copy_before(self, slot: int) -> PartialState:
        """Return a copy without the events from ``slot`` on. A list of events is shared by all copies."""
        partial_copy = PartialState(0)
        partial_copy.slots = self.slots[:slot] + [None] * (len(self.slots) - slot)
        partial_copy.time = self.time
        return partial_copy

    def append(self, slot: int, event: Event) -> None:
        """Add an event to the list of a state."""
        taken = self.slots[slot]
        if taken is None:
            self.slots[slot] = [event]
        else:
            taken.append(event)

    def remove_last(self, slot: int) -> None:
        """Remove the last event from the list of a state."""
        taken = self.slots[slot]
        if taken is not None and len(taken) > 1:
            taken.pop()
        else:
            self.slots[slot] = None


def age(partial: PartialState) -> float:
    """Return the key that orders fresh partial matches: their time, and those without one at the end."""
    return float("inf") if partial.time == UNSET else partial.time


class WaitingState:
    """A state that takes one event."""

    # ``completed`` is the state whose completion a taken event reports; it is the last state of the pattern
    # for the first state, and the state itself otherwise.

    waits = False  # whether an absent event is part of the state
    resets_on_failure = True  # whether an event that does not fit lets an optional first state begin again

    def __init__(self, slot: int, n_slots: int, *, is_start: bool, is_sequence: bool):
        self.slot, self.n_slots = slot, n_slots
        self.is_start, self.is_sequence = is_start, is_sequence
        self.test: Callable[[Slots], Any] | None = None
        self.next: WaitingState | None = None
        self.every: WaitingState | None = None  # where `every` around this last state begins again
        self.restart: WaitingState | None = None  # where `every` begins again after a partial match expired
        self.completed: WaitingState = self
        self.is_last = False
        self.resets: CountState | None = None  # an optional first state that this state lets begin again
        self.within: int | None = None
        self.start_slots: tuple[int, ...] = ()
        self.pending: list[PartialState] = []
        self.fresh: list[PartialState] = []
        self.is_complete = False  # a match was completed and not reported yet
        self.has_begun = False
        self.is_changed = False

    # --- partial matches arrive

    def begin(self) -> None:
        """Add an empty partial match to a first state; without ``every`` only once."""
        again = self.every is not None or (self.is_sequence and self.next is not None and self.next.waits)
        if self.is_start and (again or not self.has_begun):
            self.add(PartialState(self.n_slots))
            self.has_begun = True

    def add(self, partial: PartialState) -> None:
        """Add a partial match; a sequence has one fresh partial match at most."""
        if not (self.is_sequence and self.fresh):
            self.fresh.append(partial)

    def add_again(self, partial: PartialState) -> None:
        """Add a copy of a partial match that begins again at this state."""
        self.fresh.append(partial.copy_before(self.slot))

    def update(self) -> None:
        """Let the fresh partial matches take events from now on."""
        if self.fresh:
            if len(self.fresh) > 1:
                self.fresh.sort(key=age)
            self.keep(self.fresh)
            self.fresh.clear()

    @property
    def n_waiting(self) -> int:
        """The number of partial matches, with the fresh ones."""
        return len(self.pending) + len(self.fresh)

    def keep(self, arrived: list[PartialState]) -> None:
        """Let partial matches take events."""
        self.pending += arrived

    def oldest(self) -> Iterator[PartialState]:
        """Yield the partial matches that take events, the oldest first."""
        yield from self.pending

    def forget_oldest(self, n: int) -> None:
        """Forget the oldest partial matches."""
        del self.pending[:n]

    def reset(self) -> None:
        """Forget the partial matches that the last event of a sequence did not continue."""
        self.pending.clear()
        if self.is_start and not self.fresh and not self._goes_on():
            self.begin()

    def _goes_on(self) -> bool:
        """Return whether the only partial match of a sequence without ``every`` waits in the next state."""
        return self.is_sequence and self.every is None and self.next is not None and bool(self.next.pending)

    # --- partial matches expire

    def has_expired(self, partial: PartialState, time: int) -> bool:
        """Return whether a partial match began longer ago than ``within``."""
        if self.within is None:
            return False
        for slot in self.start_slots:
            taken = partial.slots[slot]
            if taken is not None and abs(taken[0][0] - time) > self.within:
                return True
        return False

    def expire(self, time: int) -> None:
        """Remove partial matches that began too long ago. With ``every`` the last of them begins again."""
        if self.within is None or not self.n_waiting:
            return
        n_gone, expired = 0, None
        for partial in self.oldest():
            if not self.has_expired(partial, time):
                break
            n_gone += 1
            expired = self._first_expiry(partial) or expired
        self.forget_oldest(n_gone)
        if self.fresh:
            kept = []
            for partial in self.fresh:
                if self.has_expired(partial, time):
                    expired = self._first_expiry(partial) or expired
                else:
                    kept.append(partial)
            self.fresh[:] = kept
        if expired is not None and self.restart is not None:
            self.restart.add_again(expired)
            self.restart.update()

    def _first_expiry(self, partial: PartialState) -> PartialState | None:
        """Return a partial match that expires in this state before it does in any other, else None."""
        if partial.is_expired:
            return None
        partial.is_expired = True
        return partial

    # --- events arrive

    def take(self, event: Event) -> list[PartialState]:
        """Offer an event to all partial matches, and return those that are complete."""
        complete, kept, slot = [], [], self.slot
        for partial in self.pending:
            partial.slots[slot] = [event]
            self.check(partial)
            if self.completed.is_complete:
                self.completed.is_complete = False
                complete.append(partial)
            if self.is_changed:
                continue
            partial.slots[slot] = None
            if not self.dies_without_event():
                kept.append(partial)
            if self.is_sequence and self.resets is not None and self.resets_on_failure:
                self.resets.begin_later()
        self.pending[:] = kept
        return complete

    def dies_without_event(self) -> bool:
        """Return whether an event that does not fit ends a partial match."""
        return self.is_sequence

    def check(self, partial: PartialState) -> None:
        """Let a partial match pass if the new event satisfies the condition."""
        self.is_changed = False
        if self.test is None or self.test(partial.slots):
            self.accept(partial)

    def accept(self, partial: PartialState) -> None:
        """Hand a partial match to the next state, or report it as complete."""
        self.is_changed = True
        partial.time = partial.slots[self.slot][0][0]  # type: ignore[index]
        self.pass_on(partial)

    def pass_on(self, partial: PartialState) -> None:
        """Report a partial match, or add it to the next state; ``every`` begins again."""
        if self.is_last:
            self.complete(partial)
        if self.next is not None:
            self.next.add(partial)
        if self.every is not None:
            self.every.add_again(partial)
        elif self.is_start:
            self.end()
        if self.resets is not None:
            self.resets.begin_later()

    def complete(self, partial: PartialState) -> None:
        """Report a complete match."""
        self.is_complete = True

    def end(self) -> None:
        """End a first state without ``every`` that has passed a partial match on."""

    def start(self) -> None:
        """Set the timers that run from the start."""


class CountState(WaitingState):
    """A state that takes ``low`` to ``high`` events."""

    # From the ``low``-th event on, the partial match waits in the next state, too. In a pattern it still
    # takes events here until the next state has one.

    def __init__(self, slot: int, n_slots: int, low: int, high: int | None, **keywords: bool):
        super().__init__(slot, n_slots, **keywords)
        self.low, self.high = low, high
        self._is_taken = False
        self._begins_later = False

    def add(self, partial: PartialState) -> None:
        """Add a partial match; a state that may take no event passes it on at once."""
        super().add(partial)
        if self.low == 0 and partial.slots[self.slot] is None:
            self._reach_low(partial)

    def take(self, event: Event) -> list[PartialState]:
        """Return the partial matches that an event completes."""
        complete, kept, slot = [], [], self.slot
        for partial in self.pending:
            if any(taken is not None for taken in partial.slots[slot + 1 : slot + 3]):
                continue  # one of the next two states has an event, so this one takes no more
            partial.append(slot, event)
            self._is_taken = False
            self.check(partial)
            if self.completed.is_complete:
                self.completed.is_complete = False
                complete.append(partial)
            stays = not self.is_changed
            if not self._is_taken:
                partial.remove_last(slot)
                stays = stays and not self.is_sequence
            if stays:
                kept.append(partial)
        self.pending[:] = kept
        return complete

    def accept(self, partial: PartialState) -> None:
        """Count the new event, and pass the partial match on if it has enough of them."""
        taken = partial.slots[self.slot] or []
        self._is_taken = True
        partial.time = taken[-1][0]
        if len(taken) < self.low:
            return
        if self.is_sequence:  # it waits in the next state from now on, and here for more events
            if self.next is not None:
                self.next.add(partial)
            if len(taken) != self.high:
                self.add(partial)
        elif len(taken) == self.low:  # in a pattern it stays here, and enters the next state once
            self._reach_low(partial)
        if len(taken) == self.high:  # it no longer waits here
            self.is_changed = True

    def _reach_low(self, partial: PartialState) -> None:
        """Let a partial match continue, since it has the least number of events."""
        if self.is_last:
            self.is_changed = True
            self.is_complete = True
        if self.next is not None:
            self.next.add(partial)
        if self.every is not None:
            self.every.add_again(partial)

    def begin_later(self) -> None:
        """Let the state begin again with the next update."""
        self._begins_later = True

    def update(self) -> None:
        if self._begins_later:
            self._begins_later = False
            self.begin()
        super().update()


class LogicalHalf(WaitingState):
    """One side of ``and`` or ``or``; a partial match waits in both halves at once."""

    partner: LogicalHalf
    resets_on_failure = False

    def __init__(self, slot: int, n_slots: int, operator: str, **keywords: bool):
        super().__init__(slot, n_slots, **keywords)
        self.is_or = operator == "or"

    def add(self, partial: PartialState) -> None:
        """Let a partial match wait in both halves, unless a first state or a sequence has one already."""
        for half in (self, self.partner):
            if not ((self.is_start or self.is_sequence) and half.fresh):
                half.fresh.append(partial)

    def add_again(self, partial: PartialState) -> None:
        """Let a copy of a partial match wait in both halves, without the events of both."""
        partial_copy = partial.copy_before(self.slot)
        partial_copy.slots[self.partner.slot] = None
        self.fresh.append(partial_copy)
        self.partner.fresh.append(partial_copy)

    def reset(self) -> None:
        """Forget the partial matches of a sequence, unless one half of ``and`` has its event."""
        if self.is_or or len(self.pending) == len(self.partner.pending):
            self.partner.pending.clear()
            super().reset()

    def update(self) -> None:
        WaitingState.update(self)
        WaitingState.update(self.partner)

    def take(self, event: Event) -> list[PartialState]:
        """Return the partial matches that an event advances; of `or`, only those without the other side."""
        if self.is_or:
            other = self.partner.slot
            self.pending[:] = [partial for partial in self.pending if partial.slots[other] is None]
        return super().take(event)

    def accept(self, partial: PartialState) -> None:
        """Let a partial match continue if the other half allows it."""
        if self.is_or:
            super().accept(partial)
            if self.partner.is_last and self.completed is self.partner:
                self.partner.is_complete = True
        elif self.partner.can_follow(partial):
            super().accept(partial)
        else:
            self.is_changed = True

    def can_follow(self, partial: PartialState) -> bool:
        """Return whether this half of ``and`` is satisfied, so that the other half completes the state."""
        return partial.slots[self.slot] is not None


# The clock of a run: virtual time, and the timers that wake states and windows.
#
# Time moves with the events. Before an event of time t, all timers up to t fire in the order of their times.

Wake = Callable[[int], None]


class RunClock:
    """The time of a run, in ticks, and its timers."""

    def __init__(self, start: int):
        self.now = start
        self._due: list[tuple[int, int, Timer]] = []
        self._n_timers = 0

    def timer(self, wake: Wake) -> Timer:
        """Return a new timer. Among timers of one time, the older timer fires first."""
        self._n_timers += 1
        return Timer(self, self._n_timers, wake)

    def arm(self, time: int, timer: Timer) -> None:
        """Note when a timer fires next."""
        heapq.heappush(self._due, (time, timer.number, timer))

    def advance(self, time: int) -> None:
        """Move to a time; timers up to it fire first."""
        while self._due and self._due[0][0] <= time:
            due, _, timer = heapq.heappop(self._due)
            self.now = max(self.now, due)
            timer.fire()
        self.now = max(self.now, time)


class Timer:
    """A queue of times. A time waits until all times that were set before it have passed."""

    __slots__ = ("_clock", "_is_armed", "_times", "_wake", "number")

    def __init__(self, clock: RunClock, number: int, wake: Wake):
        self._clock, self.number, self._wake = clock, number, wake
        self._times: deque[int] = deque()
        self._is_armed = False

    def set(self, time: int) -> None:
        """Let the timer fire at a time, or at once if the time has passed."""
        self._times.append(time)
        self._arm()

    def _arm(self) -> None:
        """Ask the clock to call at the earliest time, if it was not asked yet."""
        if self._times and not self._is_armed:
            self._is_armed = True
            self._clock.arm(self._times[0], self)

    def fire(self) -> None:
        """Wake the owner with the time that was set."""
        time = self._times.popleft()
        self._is_armed = False
        self._wake(time)
        self._arm()
