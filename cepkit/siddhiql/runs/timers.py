"""The clock of a run: virtual time, and the timers that wake states and windows.

Time moves with the events. Before an event of time t, all timers up to t fire in the order of their times.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

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
        if self._times and not self._is_armed:
            self._is_armed = True
            self._clock.arm(self._times[0], self)

    def fire(self) -> None:
        """Wake the owner with the time that was set."""
        time = self._times.popleft()
        self._is_armed = False
        self._wake(time)
        self._arm()
