"""Random access to the moments of a stream: the live partial matches after any event.

The explorer jumps back and forth. So a walk reads a bounded neighbourhood and remembers its snapshots;
`cepkit.insight.moments` instead reads all events once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.events import Events
from cepkit.insight.partial_matches import (
    Partial,
    RegexPartials,
    SequencePartials,
    looks_between,
    rows_looked_back,
)
from cepkit.progress import checkpoint

LOOK_BACK = 120  # events read before the wanted one, unless a point without partial matches is nearer
LOOK_AHEAD = 300  # most events of a walk
MOST_LIVE = 300  # partial matches of a sequence
EXAMPLES = 3


class DrawnStates(Protocol):
    """The states of an automaton that group the live partial matches."""

    @property
    def masks(self) -> tuple[int, ...]:
        """Only for a regex: the positions of each state; 0 for the start."""

    @property
    def state_of_component(self) -> tuple[tuple[int, ...], ...]:
        """Only for a sequence: the state of every component of the first branches."""


@dataclass(frozen=True)
class Snapshot:
    """The partial matches and matches after an event."""

    # State, number of its partial matches, and some of them in words; empty states are left out.
    live: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    # The events of each match that the event completes, numbered as in `Stepping`. A regex has only the first
    # and the last event.
    completed: tuple[tuple[int, ...], ...] = ()
    is_whole: bool = True  # whether no partial match began before the neighbourhood
    note: str = ""  # what is left out


class Walk(ABC):
    """Reads events from ``begin`` on, one at a time, and remembers the snapshot after each."""

    def __init__(self, begin: int, n: int, is_whole: bool):
        self.begin, self.is_whole = begin, is_whole
        self.stop = min(n, begin + LOOK_AHEAD)
        self._snapshots: list[Snapshot] = []
        self.is_broken = False

    def after(self, k: int) -> Snapshot:
        """Return the snapshot after event ``k`` of the stream, ``begin <= k < stop``."""
        while len(self._snapshots) <= k - self.begin:
            checkpoint()
            self.is_broken = True  # cancellation may stop the work in the middle of an event
            self._snapshots.append(self._read(self.begin + len(self._snapshots)))
            self.is_broken = False
        return self._snapshots[k - self.begin]

    @abstractmethod
    def _read(self, k: int) -> Snapshot:
        """Read event ``k``, the next one."""


class Stepping:
    """Steps through the events of a partition, or of the whole stream."""

    def __init__(
        self,
        program: Program | SequenceProgram,
        events: Events,
        partition: int | None,
        states: DrawnStates | None = None,
        ends: np.ndarray | None = None,
        name: Callable[[int], str] | None = None,
    ):
        self.program, self.events, self.states = program, events, states
        self._name = name
        is_part = partition is not None and events.n_partitions > 1 and not looks_between(program)
        if not is_part and isinstance(program, Program) and events.n_partitions > 1:
            partition, is_part = partition or 0, True  # the kernel's partitions are independent
        self.positions = np.flatnonzero(events.partition_of_event == partition) if is_part else None
        self.n = events.n_events if self.positions is None else len(self.positions)
        self.ends = None if ends is None else self._own(np.asarray(ends, np.int64))
        self.walk: Walk | None = None

    def _own(self, ends: np.ndarray) -> np.ndarray:
        if self.positions is None:
            return ends
        at = np.searchsorted(self.positions, ends)
        at = np.minimum(at, max(0, self.n - 1))
        return at[self.positions[at] == ends] if self.n else at[:0]

    def position_of(self, k: int) -> int:
        """Return the position of event ``k`` in the stream of the frame."""
        return k if self.positions is None else int(self.positions[k])

    def name_of(self, k: int) -> str:
        """Return event ``k`` in words."""
        return f"event {k + 1:,}" if self._name is None else self._name(self.position_of(k))

    def index_of(self, position: int) -> int:
        """Return the first event at or after a position in the stream of the frame."""
        return position if self.positions is None else int(np.searchsorted(self.positions, position))

    def after(self, n_read: int) -> Snapshot:
        """Return the snapshot after ``n_read`` events."""
        if n_read < 1:
            return Snapshot()
        k = min(n_read, self.n) - 1
        if self.walk is None or self.walk.is_broken or not self.walk.begin <= k < self.walk.stop:
            self.walk = self.walk_to(k)
        return self.walk.after(k)

    def next_match(self, n_read: int) -> int:
        """Return how many events to read to complete the next match, or the number of all events."""
        if self.ends is None:
            return self.n
        at = int(np.searchsorted(self.ends, n_read))
        return int(self.ends[at]) + 1 if at < len(self.ends) else self.n

    def walk_to(self, k: int) -> Walk:
        """Return a new walk that begins before event ``k``, if possible where no partial match is live."""
        begin = max(0, k - LOOK_BACK)
        if isinstance(self.program, Program):
            is_clean = begin == 0
            if self.ends is not None:
                before = int(np.searchsorted(self.ends, k))  # a match that ends at k began before
                if before and self.ends[before - 1] + 1 >= begin:
                    begin, is_clean = int(self.ends[before - 1]) + 1, True
            return RegexWalk(self, begin, is_clean)
        return SequenceWalk(self, begin)

    def part(self, low: int, high: int) -> Events:
        """Return the events from ``low`` to before ``high`` as a stream of their own."""
        events = self.events
        rows = slice(low, high) if self.positions is None else self.positions[low:high]
        partition = events.partition_of_event[rows]
        codes, new_codes = np.unique(partition, return_inverse=True)
        columns = {name: column.take(rows) for name, column in events.columns.items()}
        return Events(len(partition), columns, new_codes.astype(np.int32), len(codes))


class RegexWalk(Walk):
    """A walk through the events of one partition for a regex."""

    def __init__(self, stepping: Stepping, begin: int, is_whole: bool):
        super().__init__(begin, stepping.n, is_whole)
        self._low = max(0, begin - rows_looked_back(stepping.program.query))
        part = stepping.part(self._low, self.stop)
        self._name_of = stepping.name_of
        self._partials = RegexPartials(stepping.program, part, begin - self._low)
        self._masks = () if stepping.states is None else stepping.states.masks

    def partials(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first events and the position masks of the live partial matches."""
        starts, masks = self._partials.live()
        return starts + self._low, masks

    def _read(self, k: int) -> Snapshot:
        first, last = self._partials.read(k - self._low)
        starts, masks = self.partials()
        live = []
        for state, mask in enumerate(self._masks):
            starts_of_state = starts[(masks & mask) != 0]
            if state and len(starts_of_state):
                examples = tuple(
                    f"from {self._name_of(s)}, {k - s + 1:,} event{'s' * (k > s)}"
                    for s in starts_of_state[:EXAMPLES].tolist()
                )
                live.append((state, len(starts_of_state), examples))
        completed = tuple(zip((first + self._low).tolist(), (last + self._low).tolist(), strict=True))
        return Snapshot(tuple(live), completed, self.is_whole)


class SequenceWalk(Walk):
    """A walk through the events of one partition, or of all partitions, for a sequence."""

    def __init__(self, stepping: Stepping, begin: int):
        super().__init__(begin, stepping.n, begin == 0)
        self._name_of = stepping.name_of
        # An absence at the end of a match may read later events.
        part = stepping.part(begin, min(stepping.n, self.stop + LOOK_BACK))
        self._partials = SequencePartials(stepping.program, part, MOST_LIVE)
        self._places = self._partials.places
        self._states = () if stepping.states is None else stepping.states.state_of_component
        self._variables = [
            [component.variable for component in bound.branch.components]
            for bound in stepping.program.branches
        ]
        self._known_from = begin if self.is_whole else begin + self._first_whole(part.n_events)

    def _first_whole(self, n: int) -> int:
        """Return the first event whose window lies within the neighbourhood; ``n`` if unknown."""
        window = self._places.program.window
        if self._places.is_one_partition and (window.within is not None or window.within_events is not None):
            begun = np.flatnonzero(self._places.window_start > 0)
            return int(begun[0]) if len(begun) else n
        return n

    def partials(self) -> list[tuple[int, ...]]:
        """Return the events of each live partial match."""
        return [self._events_of(partial) for _, partial in self._partials.live()]

    def _read(self, k: int) -> Snapshot:
        completed = self._partials.read(int(self._places.place_of_position[k - self.begin])).completed
        matches = {self._events_of(partial) for _, partial in completed}
        left_out = self._partials.n_left_out
        note = f"{left_out:,} of the oldest partial matches are left out" if left_out else ""
        is_whole = not left_out and k >= self._known_from
        return Snapshot(
            self._count_states(), tuple(sorted(matches, key=lambda match: match[::-1])), is_whole, note
        )

    def _events_of(self, partial: Partial) -> tuple[int, ...]:
        position = self._places.position_of_place
        return tuple(self.begin + int(position[place]) for place in partial.path)

    def _count_states(self) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
        of_state: dict[int, list[tuple[int, Partial]]] = {}
        for b, partial in self._partials.live():
            if b < len(self._states):
                of_state.setdefault(self._states[b][partial.components[-1]], []).append((b, partial))
        return tuple(
            (state, len(live), tuple(self._words(*branched) for branched in live[:EXAMPLES]))
            for state, live in sorted(of_state.items())
        )

    def _words(self, b: int, partial: Partial) -> str:
        names = self._variables[b]
        events = zip(partial.components, self._events_of(partial), strict=True)
        return ", ".join(f"{names[c]} = {self._name_of(event)}" for c, event in events)
