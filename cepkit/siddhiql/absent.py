"""States of absent events: ``not A for 1 sec`` alone, and as a half of ``and`` and ``or``."""

from __future__ import annotations

from collections.abc import Callable

from cepkit.errors import UnsupportedQueryError
from cepkit.siddhiql.states import UNSET, Event, LogicalHalf, PartialState, RunClock, WaitingState

Report = Callable[[PartialState], None]


class AbsentWait(WaitingState):
    """``not A for t``: a partial match passes if no event of A comes for a time."""

    # The wait begins with the last event of the partial match. At the start of a pattern it begins with the
    # run, and again with each event of A.

    waits = True

    def __init__(self, slot: int, n_slots: int, wait: int, clock: RunClock, report: Report, **keywords: bool):
        super().__init__(slot, n_slots, **keywords)
        self._wait, self._clock, self._report = wait, clock, report
        self._timer = clock.timer(self._pass_time)
        self._deadline = 0
        self._is_active = True

    def start(self) -> None:
        """Begin the wait of a first state."""
        if self.is_start and self._is_active:
            self._wait_from(self._clock.now)

    def _wait_from(self, time: int) -> None:
        self._deadline = time + self._wait
        self._timer.set(self._deadline)

    def add(self, partial: PartialState) -> None:
        """Let a partial match wait in this state."""
        if not self._is_active:
            return
        if self.is_sequence:
            self.fresh.clear()
        self.fresh.append(partial)
        if not self.is_start:
            self._wait_from(partial.time)

    def add_again(self, partial: PartialState) -> None:
        super().add_again(partial)
        self._wait_from(partial.time)

    def reset(self) -> None:
        """Forget the partial matches of a sequence; a first state begins again."""
        self.pending.clear()
        if self.is_start and not self._goes_on():
            self.begin()

    def take(self, event: Event) -> list[PartialState]:
        """End the partial matches that an event of the absent stream forbids."""
        if self._is_active:
            super().take(event)
        return []

    def dies_without_event(self) -> bool:
        """Return False: an event that does not fit is no event of the absent stream."""
        return False

    def accept(self, partial: PartialState) -> None:
        """End a partial match; a first state waits again."""
        self.is_changed = True
        time = partial.slots[self.slot][0][0]  # type: ignore[index]
        partial.time = time
        self.is_complete = True
        if self.is_start and self.every is self:
            self.add_again(partial)
        self._wait_from(time)

    def _pass_time(self, time: int) -> None:
        """Pass the partial matches on whose wait is over."""
        if not self._is_active:
            return
        begins = self.is_start and not self.fresh and not self.pending
        if begins and self.is_sequence and self.every is None and self._deadline > 0:
            begins = False
        if begins:
            self.add(PartialState(self.n_slots))
        elif self.is_sequence and self.fresh:
            self.reset()
        self.update()
        kept, over = [], []
        for partial in self.pending:
            if self.has_expired(partial, time):
                if self.restart is not None and self.every is not self and self.every is not None:
                    self.every.add_again(partial)
            elif time >= (self._deadline if partial.time == UNSET else partial.time + self._wait):
                partial.time = time
                over.append(partial)
            else:
                kept.append(partial)
        self.pending[:] = kept
        if self.restart is not None:
            self.restart.update()
        for partial in over:
            self.pass_on(partial)
        if self._clock.now > self._wait + time:
            self._deadline = self._clock.now + self._wait
        if not over and self._deadline < time:
            self._wait_from(time)

    def complete(self, partial: PartialState) -> None:
        self._report(partial)

    def end(self) -> None:
        self._is_active = False


class AbsentHalf(LogicalHalf):
    """``not A`` or ``not A for t`` as a half of ``and`` or ``or``."""

    waits = True

    def __init__(
        self, slot: int, n_slots: int, operator: str, wait: int | None, clock: RunClock, report: Report,
        nothing: Event, **keywords: bool,
    ):  # fmt: skip
        super().__init__(slot, n_slots, operator, **keywords)
        self._wait, self._clock, self._report, self._nothing = wait, clock, report, nothing
        self._timer = clock.timer(self._pass_time)
        self._last_arrival: int | None = None  # the last event of the absent stream that counts
        self._sent_at: int | None = None
        self._is_active = True

    def start(self) -> None:
        """Begin the wait of a first state."""
        if self.is_start and self._wait is not None and self._is_active:
            self._timer.set(self._clock.now + self._wait)

    def add(self, partial: PartialState) -> None:
        """Let a partial match wait in this half of a logical state."""
        if not self._is_active:
            return
        super().add(partial)
        if not self.is_start and self._wait is not None:
            for half in (self, self.partner):
                if isinstance(half, AbsentHalf) and half._wait is not None:
                    half._timer.set(partial.time + half._wait)

    def add_again(self, partial: PartialState) -> None:
        """Add a copy of a partial match to both halves; its wait begins with the last event."""
        partial_copy = partial.copy_before(len(partial.slots))
        taken = partial_copy.slots[self.slot]
        if taken is not None:
            partial_copy.time = taken[0][0]
        partial_copy.slots[self.slot] = partial_copy.slots[self.partner.slot] = None
        self.fresh.append(partial_copy)
        self.partner.fresh.append(partial_copy)

    def take(self, event: Event) -> list[PartialState]:
        """End the partial matches that an event of the absent stream forbids, or let them wait again."""
        if not self._is_active:
            return []
        kept, slot, other = [], self.slot, self.partner.slot
        waits = self._wait is not None or (self.is_sequence and not self.is_or and self.every is not None)
        for partial in self.pending:
            if self.is_or and partial.slots[other] is not None:
                continue
            before = partial.slots[slot]
            partial.slots[slot] = [event]
            self.check(partial)
            if waits or not self.is_changed:
                partial.slots[slot] = before
            stays = self.is_changed or not self.is_sequence
            if self.completed.is_complete:
                self.completed.is_complete = False
                stays = False
                if self.is_sequence and partial in self.partner.pending:
                    self.partner.pending.remove(partial)
            if stays:
                kept.append(partial)
        self.pending[:] = kept
        return []

    def accept(self, partial: PartialState) -> None:
        """Note that an event of the absent stream came."""
        self.is_changed = True
        self.is_complete = True
        self._last_arrival = partial.slots[self.slot][0][0]  # type: ignore[index]

    def can_follow(self, partial: PartialState) -> bool:
        """Return whether the other half of ``and`` may complete the state now."""
        if self.is_sequence and self.every is None and self._last_arrival is not None:
            return False
        if self._wait is not None:
            return partial.slots[self.slot] is not None
        if self.every is None:
            return partial.slots[self.slot] is None
        if self._last_arrival is None:
            return True
        self._last_arrival = None
        self.begin()
        return False

    def _pass_time(self, time: int) -> None:
        """Pass the partial matches on whose wait is over."""
        if not self._is_active:
            return
        self._refuse_race()
        wait, has_sent = self._wait or 0, False
        if self._last_arrival is None or time >= self._last_arrival + wait:
            has_sent = self._end_waits(time)
            self._last_arrival = None
        if self.every is not None or (not has_sent and self.is_start):
            since = self._clock.now if self._last_arrival is None else self._last_arrival
            self._timer.set(since + wait)

    def _refuse_race(self) -> None:
        """Raise if the other wait of ``every (not A for t or not B for t)`` ended at the same time."""
        other = self.partner
        is_race = self.is_or and self.every is not None and not self.is_sequence
        if is_race and isinstance(other, AbsentHalf) and other._sent_at == self._clock.now:
            raise UnsupportedQueryError(
                "every (not … for … or not … for …): both waits end at the same time, and Siddhi's "
                "answer then depends on the order of its threads; give the states different times"
            )

    def _end_waits(self, time: int) -> bool:
        """Pass on, or mark, the partial matches whose wait is over; return whether one was passed on."""
        if self.is_start and self.is_sequence and not self.fresh and not self.pending:
            self.add(PartialState(self.n_slots))
        elif self.is_sequence and self.fresh:
            self.reset()
        self.update()
        kept, over, expired, other = [], [], None, self.partner.slot
        for partial in self.pending:
            if self.has_expired(partial, time):
                expired = partial
            elif not self._is_over(partial, time):
                kept.append(partial)
            elif self.is_or and partial.slots[other] is None:
                partial.append(self.slot, self._nothing)
                over.append(partial)
            elif not self.is_or and partial.slots[other] is not None:
                over.append(partial)
            elif not self.is_or:
                partial.append(self.slot, self._nothing)
        self.pending[:] = kept
        if expired is not None and self.restart is not None:
            self.restart.add_again(expired)
            self.restart.update()
        for partial in over:
            partial.time = time
            self._sent_at = self._clock.now
            self.pass_on(partial)
        return bool(over)

    def _is_over(self, partial: PartialState, time: int) -> bool:
        taken = partial.slots[self.slot]
        since = partial.time if taken is None else taken[0][0]
        return time >= since + (self._wait or 0)

    def complete(self, partial: PartialState) -> None:
        self._report(partial)

    def end(self) -> None:
        self._is_active = False
        if self.is_or and isinstance(self.partner, AbsentHalf):
            self.partner._is_active = False
