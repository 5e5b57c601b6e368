"""Partial matches as bars on the timeline, and those of MATCH_RECOGNIZE after each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.engines.match_recognize.matching import RowMatch, next_start
from cepkit.insight.moments import names_of_mask
from cepkit.insight.row_pattern_reading import RowReader, Way
from cepkit.insight.stepping import EXAMPLES, LOOK_AHEAD, LOOK_BACK, Snapshot
from cepkit.insight.why_not_regex import Fate
from cepkit.progress import checkpoint

if TYPE_CHECKING:
    from cepkit.engines.match_recognize.row_match_set import SearchedRows


# Partial matches as bars on the timeline, each up to the event where it ended, and their fates in words.

MOST_BARS = 3
MOST_ROWS_NAMED = 3
FAILED, MATCHED, REPLACED, OPEN = "failed", "matched", "replaced", "open"


@dataclass(frozen=True)
class PartialBar:
    """A partial match on the timeline."""

    # Positions of its known events in the stream, rising, each with a label that may be empty.
    events: tuple[tuple[int, str], ...]
    end: int  # position of the event where it ended
    outcome: str  # ``failed``, ``matched``, ``replaced`` by a match, or ``open``
    text: tuple[str, ...] = ()  # the failed conditions with their values, or the outcome in words


@dataclass(frozen=True)
class FateGroup:
    """Partial matches of a regex that end in the same way."""

    fate: Fate  # the fate of the one that began first
    starts: tuple[int, ...]  # the events where they begin, rising

    @property
    def outcome(self) -> str:
        """How they end."""
        if self.fate.is_match:
            return MATCHED
        if self.fate.wanted is not None:
            return FAILED
        return OPEN if self.fate.rival is None else REPLACED


def group_fates(fates: Sequence[Fate]) -> list[FateGroup]:
    """Return the fates with those together that differ only in their first event, in the given order."""
    groups: dict[tuple, list[Fate]] = {}
    for fate in fates:
        key = fate.end, fate.taken, fate.wanted, fate.rival, fate.is_match
        groups.setdefault(key, []).append(fate)
    return [
        FateGroup(min(members, key=lambda fate: fate.start), tuple(sorted(fate.start for fate in members)))
        for members in groups.values()
    ]


def describe_group(
    names: tuple[str, ...],
    group: FateGroup,
    k: int,
    row: Callable[[int], str],
    at: Callable[[int], str],
    late: str = "",
) -> str:
    """Return what happened to partial matches, in one or two sentences."""
    fate, n = group.fate, len(group.starts)
    is_one = n == 1
    if is_one:
        who = f"The {'match' if fate.is_match else 'partial match'} from {at(fate.start)}"
    else:
        shown = [row(start).removeprefix("row ") for start in group.starts[:MOST_ROWS_NAMED]]
        shown += [f"{n - len(shown):,} more"] if n > len(shown) else []
        who = f"{n:,} partial matches (from rows {', '.join(shown[:-1])} and {shown[-1]})"

    def verb(one: str, many: str) -> str:
        return one if is_one else many

    takes = f"{verb('takes', 'take')} this row as {names_of_mask(names, fate.taken)}" if fate.taken else ""
    if group.outcome == OPEN:
        return f"{who} {takes or verb('passes', 'pass') + ' this row'} and {verb('stays', 'stay')} open."
    there = "here" if fate.end == k else f"at {at(fate.end)}"
    if group.outcome == MATCHED:
        return f"{who} {takes + ' and ' if takes else ''}is completed {there}."
    subject = who if not takes else f"{who} {takes}. {verb('It', 'They')}"
    if group.outcome == REPLACED:
        rival = f"the match from {row(fate.rival)} is complete"
        return f"{subject} {verb('ends', 'end')} {there}, because {rival}."
    if late:
        return f"{subject} {verb('ends', 'end')} {there}: the window of {late} is over."
    needed = names_of_mask(names, fate.wanted)
    where = "this row" if fate.end == k else "that row"
    return f"{subject} {verb('ends', 'end')} {there}: {where} is not {needed}."


def as_traits(bars: Sequence[PartialBar], places: Callable[[Sequence[int]], Any]) -> list[dict[str, Any]]:
    """Return bars for the timeline widget; ``places`` returns times and values of events."""
    traits = []
    for bar in bars:
        at = places([*(position for position, _ in bar.events), bar.end])[:, 0].tolist()
        events = [{"x": x, "label": label} for x, (_, label) in zip(at, bar.events, strict=False)]
        traits.append({"events": events, "end": at[-1], "outcome": bar.outcome, "text": list(bar.text)})
    return traits


# The partial matches of MATCH_RECOGNIZE after each row, for the stepper of a board.

MOST_LIVE = 300  # partial matches that are followed at once


class RowStepping:
    """Steps through the rows of a partition; it has the methods of `Stepping` that a board needs.

    A partial match is live after a row if some way to read its rows lets the pattern take a further row. Rows
    that AFTER MATCH skips begin none. A match is completed at its last row, and the partial matches that
    begin before the search continues end with it.
    """

    def __init__(
        self,
        searched: SearchedRows,
        partition: int | None,
        shown: Sequence[int],
        ends: np.ndarray | None = None,
        name: Callable[[int], str] | None = None,
    ):
        self.bound = searched.bound
        self.part = searched.partition(partition or 0)
        self.positions, self.n = self.part.positions, self.part.n_rows
        self._name, self._shown = name, shown
        at = None if ends is None else np.asarray(ends, np.int64)
        if at is not None:
            at = at[searched.events.partition_of_event[at] == self.part.code]
        self.ends = None if at is None else np.unique(np.searchsorted(self.positions, at))
        self._find(searched)
        self._start_at(0)

    def _start_at(self, k: int) -> None:
        """Begin to read at row ``k``; partial matches that began before are left out."""
        self._begin, self._is_cut = k, k > 0
        self._snapshots: list[Snapshot] = []
        self._live: dict[int, tuple[RowReader, list[Way]]] = {}

    def position_of(self, k: int) -> int:
        """Return the position of row ``k`` in the stream of the frame."""
        return int(self.positions[k])

    def name_of(self, k: int) -> str:
        """Return row ``k`` in words."""
        return f"row {k + 1:,}" if self._name is None else self._name(self.position_of(k))

    def index_of(self, position: int) -> int:
        """Return the first row at or after a position in the stream of the frame."""
        return int(np.searchsorted(self.positions, position))

    def next_match(self, n_read: int) -> int:
        """Return how many rows to read to complete the next match, or the number of all rows."""
        if self.ends is None:
            return self.n
        at = int(np.searchsorted(self.ends, n_read))
        return int(self.ends[at]) + 1 if at < len(self.ends) else self.n

    def after(self, n_read: int) -> Snapshot:
        """Return the snapshot after ``n_read`` rows."""
        if n_read < 1:
            return Snapshot()
        k = min(n_read, self.n) - 1
        if not self._begin <= k < self._begin + len(self._snapshots) + LOOK_AHEAD:
            self._start_at(max(0, k - LOOK_BACK))
        while len(self._snapshots) <= k - self._begin:
            checkpoint()
            self._snapshots.append(self._read(self._begin + len(self._snapshots)))
        return self._snapshots[k - self._begin]

    def _read(self, k: int) -> Snapshot:
        if self._begins[k]:
            if len(self._live) < MOST_LIVE:
                reader = RowReader(self.bound, self.part, k)
                self._live[k] = reader, reader.beginning()
            else:
                self._is_cut = True  # the newest ones are left out
        going = {}
        for start, (reader, ways) in self._live.items():
            if k < self._stop_of_start.get(start, self.n) and (advanced := reader.advance(ways, k)).ways:
                going[start] = reader, advanced.ways
        self._live = going
        completed = tuple((match.start, k) for match in self._matches_at.get(k, ()))
        for resumes in self._resumes_at.get(k, ()):
            self._live = {start: reading for start, reading in self._live.items() if start >= resumes}
        return Snapshot(self._count(k), completed, not self._is_cut)

    def _find(self, searched: SearchedRows) -> None:
        """Note where the matches of the partition end, and where the search continues after them."""
        program = self.bound.program
        matches = [match for match in searched.matches(self.part.code) if match.states]
        self._begins = np.ones(self.n, bool)
        self._stop_of_start: dict[int, int] = {}
        self._matches_at: dict[int, list[RowMatch]] = {}
        self._resumes_at: dict[int, list[int]] = {}
        for match in matches:
            resumes, last = next_start(program, match), match.rows().stop - 1
            self._begins[match.start + 1 : resumes] = False
            self._stop_of_start[match.start] = last + 1
            self._matches_at.setdefault(last, []).append(match)
            self._resumes_at.setdefault(last, []).append(resumes)

    def _count(self, k: int) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
        """Return state, number and examples of the live partial matches, by their preferred ways."""
        starts_of_state: dict[int, list[int]] = {}
        for start, (_, ways) in self._live.items():
            for state in dict.fromkeys(self._shown[way.state] for way in ways):
                starts_of_state.setdefault(state, []).append(start)
        return tuple(
            (state, len(starts), tuple(self._words(start, k) for start in starts[:EXAMPLES]))
            for state, starts in sorted(starts_of_state.items())
        )

    def _words(self, start: int, k: int) -> str:
        n = k - start + 1
        return f"from {self.name_of(start)}, {n:,} row{'s' * (n != 1)}"
