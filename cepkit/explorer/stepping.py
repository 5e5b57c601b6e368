"""A stream event by event: what a person sees of the partial matches before and after each of them.

Two machines go through a bounded neighbourhood: of a regex the generated kernel, run as Python without the
shortcuts that hide partial matches; of a sequence the steps by which `why_not` explains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cepkit.compile.regex.matching_source import write_matching
from cepkit.compile.regex.plan import SLOTS
from cepkit.compile.regex.program import Kernel, Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.regex.matching import advance
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.engines.steps import Partial, Steps
from cepkit.events import Events
from cepkit.explorer.automaton import Automaton
from cepkit.progress import checkpoint

BEHIND = 120  # events that are gone through in front of the wanted one, where no clean slate is nearer
AHEAD = 300  # events that are gone through from where a walk began, before another one begins
LOOK_BACK = 64  # rows in front of them, for the rows that `prev` looks at
MOST_LIVE = 300  # partial matches of a sequence
EXAMPLES = 3


@dataclass(frozen=True)
class Moment:
    """What there is after an event.

    Parameters
    ----------
    live : tuple of (int, int, tuple of str)
        State, number of partial matches there, and some of them in words; states without are left out.
    completed : tuple of tuple of int
        Matches that the event completes: their events, as numbers in the stream that is stepped through.
        Of a regex the first and the last.
    is_whole : bool
        Whether no partial match began before the neighbourhood.
    note : str
        What is left out.
    """

    live: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    completed: tuple[tuple[int, ...], ...] = ()
    is_whole: bool = True
    note: str = ""


class Walk(ABC):
    """Goes through some events from ``begin`` on, one at a time, and remembers what was there after each."""

    def __init__(self, begin: int, n: int, is_whole: bool):
        self.begin, self.is_whole = begin, is_whole
        self.stop = min(n, begin + AHEAD)
        self._moments: list[Moment] = []
        self.is_broken = False

    def after(self, k: int) -> Moment:
        """Return what there is after event ``k`` of the stream, ``begin <= k < stop``."""
        while len(self._moments) <= k - self.begin:
            checkpoint()
            self.is_broken = True  # a step may be cancelled in the middle
            moment = self._step(self.begin + len(self._moments))
            self._moments.append(moment)
            self.is_broken = False
        return self._moments[k - self.begin]

    @abstractmethod
    def _step(self, k: int) -> Moment:
        """Read event ``k``, the next one."""


class Stepping:
    """Steps through the events of a partition, or of the whole stream.

    Parameters
    ----------
    program : Program or SequenceProgram
    events : Events
        Of the whole frame.
    partition : int or None
        None: all events. A sequence with strict steps goes through all of them anyway: they look at the
        events between, whatever their partition.
    automaton : Automaton
        Whose states are counted.
    ends : ndarray of int64, optional
        Positions where matches of the result end, rising: behind one of a regex there is a clean slate.
    """

    def __init__(
        self,
        program: Program | SequenceProgram,
        events: Events,
        partition: int | None,
        automaton: Automaton,
        ends: np.ndarray | None = None,
    ):
        self.program, self.events, self.automaton = program, events, automaton
        is_part = partition is not None and events.n_partitions > 1 and not _looks_between(program)
        if not is_part and isinstance(program, Program) and events.n_partitions > 1:
            partition, is_part = partition or 0, True  # the kernel's partitions do not know each other
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
        """Return the place in the stream of the frame of an event that is stepped through."""
        return k if self.positions is None else int(self.positions[k])

    def index_of(self, position: int) -> int:
        """Return the event that is stepped through at, or next behind, a place in the frame's stream."""
        return position if self.positions is None else int(np.searchsorted(self.positions, position))

    def after(self, n_read: int) -> Moment:
        """Return what there is when ``n_read`` events were read."""
        if n_read < 1:
            return Moment()
        k = min(n_read, self.n) - 1
        if self.walk is None or self.walk.is_broken or not self.walk.begin <= k < self.walk.stop:
            self.walk = self.walk_to(k)
        return self.walk.after(k)

    def next_match(self, n_read: int) -> int:
        """Return how many events to read to complete the next match; all of them when there is none."""
        if self.ends is None:
            return self.n
        at = int(np.searchsorted(self.ends, n_read))
        return int(self.ends[at]) + 1 if at < len(self.ends) else self.n

    def walk_to(self, k: int) -> Walk:
        """Return a new walk that begins before event ``k``, at a clean slate where one is near."""
        begin = max(0, k - BEHIND)
        if isinstance(self.program, Program):
            is_clean = begin == 0
            if self.ends is not None:
                before = int(np.searchsorted(self.ends, k))  # a match that ends at k began before
                if before and self.ends[before - 1] + 1 >= begin:
                    begin, is_clean = int(self.ends[before - 1]) + 1, True
            return _RegexWalk(self, begin, is_clean)
        return _SequenceWalk(self, begin)

    def part(self, low: int, high: int) -> Events:
        """Return the events ``low`` to ``high`` of those stepped through, as a stream of their own."""
        events = self.events
        rows = slice(low, high) if self.positions is None else self.positions[low:high]
        partition = events.partition_of_event[rows]
        codes, own = np.unique(partition, return_inverse=True)
        columns = {name: column.take(rows) for name, column in events.columns.items()}
        return Events(len(partition), columns, own.astype(np.int32), len(codes))


def _looks_between(program: Program | SequenceProgram) -> bool:
    if isinstance(program, Program):
        return False
    components = (c for bound in program.branches for c in bound.branch.components)
    return any("strict" in (c.step, c.inner) for c in components)


# --- regex -------------------------------------------------------------------------------------------------


def plain_kernel(program: Program, inputs: Any) -> Kernel:
    """Return the kernel of a query as Python, with one list of all partial matches and nothing else."""
    plan = program.plan
    slots = [t for c in plan.start_conjuncts for t in c.term.walk() if t.op in SLOTS]
    plan = replace(plan, dominated=0, queues=(), slots=tuple(dict.fromkeys(slots)))
    dtypes = {column: array.dtype.name for column, array in inputs.columns.items()}
    source = write_matching(plan, dtypes, functions=tuple(program.functions), compiled=program.compiled)
    return Kernel(plain_module(program, source.text)["advance"], source, is_compiled=False)


class _RegexWalk(Walk):
    def __init__(self, stepping: Stepping, begin: int, is_whole: bool):
        super().__init__(begin, stepping.n, is_whole)
        low = max(0, begin - LOOK_BACK)
        self._own, self._low = stepping.part(low, self.stop), low
        program = stepping.program
        self._inputs = program.inputs(self._own.columns)
        self._kernel = plain_kernel(program, self._inputs)
        self._state = self._kernel.new_state(1)
        self._masks = stepping.automaton.states.positions_of_state
        self._read(low, begin)
        self._state.arrays["live"][0] = 0  # of the rows in front, only the values remain

    def _read(self, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(low - self._low, high - self._low)
        columns = {name: values[rows] for name, values in self._inputs.columns.items()}
        partition = np.zeros(high - low, np.int32)
        inputs = self._inputs.with_columns(columns)
        return advance(self._kernel, self._state, partition, inputs, low)

    def partials(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and the masks of positions of the live partial matches."""
        arrays = self._state.arrays
        n = int(arrays["live"][0])
        return arrays["list_start"][0, :n].copy(), arrays["list_mask"][0, :n].astype(np.int64)

    def _step(self, k: int) -> Moment:
        first, last = self._read(k, k + 1)
        starts, masks = self.partials()
        live = []
        for state, mask in enumerate(self._masks):
            own = starts[(masks & mask) != 0]
            if state and len(own):
                examples = tuple(
                    f"from event {s + 1:,}, {k - s + 1:,} events" for s in own[:EXAMPLES].tolist()
                )
                live.append((state, len(own), examples))
        completed = tuple(zip(first.tolist(), last.tolist(), strict=True))
        return Moment(tuple(live), completed, self.is_whole)


# --- sequences ---------------------------------------------------------------------------------------------


class PartialMatches:
    """The live partial matches of a sequence, advanced event by event.

    Parameters
    ----------
    program : SequenceProgram
    events : Events
        Few of them; a partial match is dropped when nothing that may follow can make it a match.
    """

    def __init__(self, program: SequenceProgram, events: Events):
        self.places = Places(program, events)
        self.live: list[tuple[int, Partial]] = []  # number of the branch, and its partial match
        self.n_left_out = 0
        self._steps = [Steps(self.places, bound) for bound in program.branches]

    def read(self, j: int) -> list[tuple[int, Partial]]:
        """Read the event at place ``j`` of those there are; return the matches it completes."""
        made: list[tuple[int, Partial]] = []
        completed: list[tuple[int, Partial]] = []
        for b, steps in enumerate(self._steps):
            every = [partial for own, partial in self.live if own == b]
            for partial in (Partial(), *every):
                for c in _next_components(steps, partial):
                    if not steps.obstacles(partial, j, c):
                        made.append((b, partial.grown(j, c)))
                        if not steps.at_end(made[-1][1]):
                            completed.append(made[-1])
        kept = [one for one in self.live if self._lives(*one, j)]
        kept += [one for one in made if self._lives(*one, None)]
        self.n_left_out += max(0, len(kept) - MOST_LIVE)
        self.live = kept[-MOST_LIVE:]
        return completed

    def _lives(self, b: int, partial: Partial, j: int | None) -> bool:
        """Whether a partial match may go on after event ``j``; None: after its own last one."""
        steps, places = self._steps[b], self.places
        s, p, c = partial.path[0], partial.path[-1], partial.components[-1]
        may_take, may_begin = not steps.is_full(partial, c), c + 1 < steps.n
        last = p if j is None else max(j, p)
        if places.start_of_partition[last] != places.start_of_partition[p]:
            # An event of another partition ends nothing, but for a strict step it stands between.
            may_take = may_take and steps.components[c].inner != "strict"
            may_begin = may_begin and steps.components[c + 1].step != "strict"
            return may_take or may_begin
        if last + 1 >= min(places.window_end[s], places.gap_end[p]):
            return False
        if last == p:
            return may_take or may_begin
        ended = steps.ender(partial, last) is not None
        hit_take, hit_begin = steps.hits(partial, last, ended=ended)
        either = steps.query.scope == "run" and (hit_take or hit_begin)

        def goes_on(how: str, hit: bool) -> bool:
            return how == "any" or (how == "next" and not hit and not either)

        return (may_take and not ended and goes_on(steps.components[c].inner, hit_take)) or (
            may_begin and goes_on(steps.components[c + 1].step, hit_begin)
        )


def matches_at_end(program: SequenceProgram, events: Events) -> MatchBlock | None:
    """Return the matches that end with the last of a few events of one partition, in canonical order.

    None where there are more partial matches than are kept.
    """
    partials, completed = PartialMatches(program, events), []
    for j in range(events.n_events):
        checkpoint()
        completed = partials.read(j)
    if partials.n_left_out:
        return None
    first_item = np.cumsum([0, *(len(partial.path) for _, partial in completed)])
    return MatchBlock(
        np.array([place for _, partial in completed for place in partial.path], np.int64),
        np.array([c for _, partial in completed for c in partial.components], np.int16),
        first_item.astype(np.int64),
        np.array([b for b, _ in completed], np.int16),
    ).sorted()


class _SequenceWalk(Walk):
    def __init__(self, stepping: Stepping, begin: int):
        super().__init__(begin, stepping.n, begin == 0)
        # Beyond the last event stands what an absence behind a match may look at.
        own = stepping.part(begin, min(stepping.n, self.stop + BEHIND))
        self._partials = PartialMatches(stepping.program, own)
        self._places = self._partials.places
        self._states = stepping.automaton.state_of_component
        self._variables = [
            [component.variable for component in bound.branch.components]
            for bound in stepping.program.branches
        ]
        self._known_from = begin if self.is_whole else begin + self._first_whole(own.n_events)

    def _first_whole(self, n: int) -> int:
        """Return the first event whose window lies within the neighbourhood; ``n`` when that is not known."""
        window = self._places.program.window
        if self._places.is_one_partition and (window.within is not None or window.within_events is not None):
            begun = np.flatnonzero(self._places.window_start > 0)
            return int(begun[0]) if len(begun) else n
        return n

    def partials(self) -> list[tuple[int, ...]]:
        """Return the live partial matches, each as its events."""
        return [self._events_of(partial) for _, partial in self._partials.live]

    def _step(self, k: int) -> Moment:
        completed = self._partials.read(int(self._places.place_of_position[k - self.begin]))
        made = {self._events_of(partial) for _, partial in completed}
        left_out = self._partials.n_left_out
        note = f"{left_out:,} of the oldest partial matches are left out" if left_out else ""
        is_whole = not left_out and k >= self._known_from
        return Moment(self._counted(), tuple(sorted(made, key=lambda match: match[::-1])), is_whole, note)

    def _events_of(self, partial: Partial) -> tuple[int, ...]:
        position = self._places.position_of_place
        return tuple(self.begin + int(position[place]) for place in partial.path)

    def _counted(self) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
        of_state: dict[int, list[tuple[int, Partial]]] = {}
        for b, partial in self._partials.live:
            if b < len(self._states):
                of_state.setdefault(self._states[b][partial.components[-1]], []).append((b, partial))
        return tuple(
            (state, len(own), tuple(self._words(*one) for one in own[:EXAMPLES]))
            for state, own in sorted(of_state.items())
        )

    def _words(self, b: int, partial: Partial) -> str:
        names = self._variables[b]
        events = zip(partial.components, self._events_of(partial), strict=True)
        return ", ".join(f"{names[c]} = event {event + 1:,}" for c, event in events)


def _next_components(steps: Steps, partial: Partial) -> list[int]:
    if not partial.path:
        return [0]
    c = partial.components[-1]
    return [c] if c + 1 == steps.n else [c, c + 1]
