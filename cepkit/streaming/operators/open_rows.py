"""The rows of one key of a stream that a row pattern may still need, and the matches that are decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, RowSearch, next_start
from cepkit.engines.match_recognize.time_outs import is_over

AT_END = 2**62  # the position after all events of a stream


@dataclass(frozen=True)
class TimeSoFar:
    """The time of a stream: the latest one so far, and when it came.

    ``times`` has the times of the newest batch in ticks, and ``first`` the position of its first event.

    """

    now: int | None
    times: Sequence[int] = ()
    first: int = 0

    def position_of(self, ticks: int) -> int:
        """Return the position of the first event of the batch at a time or after it."""
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            if self.times[middle] < ticks:
                low = middle + 1
            else:
                high = middle
        return self.first + low


@dataclass(frozen=True)
class Decided:
    """A match that no later row can change, or a row that no match takes.

    ``position`` is that of the event that decided it. ``row``, and the rows of ``match``, count from the
    first row that is kept.

    """

    row: int
    position: int
    match: RowMatch | None = None


@dataclass
class OpenRows:
    """The rows of a key from the first open one on, with as many rows before it as conditions look back."""

    key: tuple  # the values of the partition columns
    columns: dict[str, list[Any]]  # the columns that conditions and measures read, times as ticks
    # The values of the kept rows, in the order of the columns that the search keeps.
    rows: list[tuple] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # the position of each kept row in the stream
    first: int = 0  # number of rows of the key before the kept ones
    start: int = 0  # the first row that can begin a match, counted from the first kept row
    # n_found, decided: number of matches so far, and the position of the event that decided the last one
    n_found: int = 0
    decided: int = -1
    # The end of all matches so far, counted from the first kept row; at least ``start``, or below it.
    end: int = 0
    queued: int | None = None  # the deadline that the stream waits for

    def decide(self, program: RowProgram, ahead: int, clock: TimeSoFar, *, closed: bool) -> list[Decided]:
        """Return what no later row can change, and move ``start`` to the first open row.

        A match is decided if the search found it in the rows so far, and did not look for a further row. The
        same holds for a row without a match. ``ahead`` is how many rows after a row its conditions and
        measures read.

        """
        n_rows = len(self.rows)
        n_known = n_rows if closed else max(n_rows - ahead, 0)
        if self.start >= n_known:
            return []
        search = RowSearch(program, self.columns, n_known, first=self.first)
        search.trial.n_rows = n_rows
        found: list[Decided] = []
        while self.start < n_known:
            states = search.preferred(self.start, self.n_found + 1)
            over = self._is_over(program, self.start, n_known, clock.now)
            if search.hit_end and not over and not closed:
                break
            position = self._position(search, ahead, clock, over=over)
            self.decided = max(self.decided, position)
            first, self.start = self.start, self.start + 1
            if states is not None:
                match = RowMatch(self.n_found + 1, first, states)
                found.append(Decided(first, self.decided, match))
                self.n_found += 1
                self.start = next_start(program, match)
                self.end = max(self.end, first + max(len(states), 1))
            elif program.timed_out and search.waiting and over:
                found.append(Decided(first, self.decided, RowMatch(0, first, search.waiting)))
            free = range(max(first, self.end), self.start)  # no match takes these rows
            found += [Decided(row, self.decided) for row in free]
        return found

    def _is_over(self, program: RowProgram, start: int, n_known: int, now: int | None) -> bool:
        """Return whether no row in time can come, and all rows in time are known."""
        if program.within is None or not is_over(program, self.columns, start, now):
            return False
        name, bound = program.within
        ticks = self.columns[name]
        return n_known == len(self.rows) or ticks[n_known] - ticks[start] >= bound

    def _position(self, search: RowSearch, ahead: int, clock: TimeSoFar, *, over: bool) -> int:
        """Return the position of the event that decided the row ``start``."""
        needed = max(search.deepest, self.start) + ahead
        position = self.positions[needed] if needed < len(self.positions) else AT_END
        if not search.hit_end and not search.ran_out:
            return position
        if search.hit_end and not over:
            return AT_END
        assert search.program.within is not None
        name, bound = search.program.within
        return max(position, clock.position_of(self.columns[name][self.start] + bound))

    def forget(self, n_before: int) -> None:
        """Forget the rows that no later match needs; ``n_before`` is how far conditions look back."""
        n_gone = max(self.start - n_before, 0)
        if n_gone:
            del self.rows[:n_gone], self.positions[:n_gone]
            for values in self.columns.values():
                del values[:n_gone]
            self.first, self.start = self.first + n_gone, self.start - n_gone
            self.end = max(self.end - n_gone, 0)

    def deadline(self, program: RowProgram) -> int | None:
        """Return the time from which the open row has no match any more; None if time does not decide it."""
        if program.within is None or self.start >= len(self.rows):
            return None
        name, bound = program.within
        return self.columns[name][self.start] + bound

    def state(self) -> tuple[int, ...]:
        """Return the numbers that `restore` needs to undo later rows and decisions."""
        return len(self.rows), self.first, self.start, self.n_found, self.decided, self.end

    def restore(self, state: tuple[int, ...]) -> None:
        """Go back to what `state` returned; no row may have been forgotten since."""
        n_rows, self.first, self.start, self.n_found, self.decided, self.end = state
        del self.rows[n_rows:], self.positions[n_rows:]
        for values in self.columns.values():
            del values[n_rows:]
