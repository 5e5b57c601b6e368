"""The partial matches that an event begins, advances and ends, and why it cannot be the next event."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cepkit.compile.regex.matching_source import write_matching
from cepkit.compile.regex.plan import SLOTS
from cepkit.compile.regex.program import Kernel, Program
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.engines.regex import advance
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import PlainConditions, Seen, plain_module
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.events import Events
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.query import RegexQuery
from cepkit.progress import checkpoint

# Why an event cannot be the next event of a partial match of a sequence.
#
# The code of the kernels decides this; it runs as Python on the events concerned.

# The kinds of obstacles. ``condition`` and ``alone``: a condition is false or null. ``skipped``: an event may
# not be skipped. ``missing``: a component has no event. ``variable``: the branch lacks the variable.
KINDS = (
    "type", "variable", "alone", "partition", "order", "missing", "few", "many", "window", "events", "gap",
    "strict_time", "skipped", "until", "condition", "preference", "absence",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why events cannot be read as a match."""

    kind: str  # one of ``KINDS``
    component: int | None  # the component that cannot take the event, or that has no event
    # The events concerned. For a limit: the first and the last event, and the skipped event if any.
    places: tuple[int, ...] = ()
    number: int | None = None  # number of the condition (``alone``: within the component) or of the absence
    seen: Seen | None = None  # the values that the condition read


@dataclass(frozen=True, slots=True)
class Partial:
    """A path: the places of its events, and their components."""

    path: tuple[int, ...] = ()
    components: tuple[int, ...] = ()

    def with_event(self, place: int, c: int) -> Partial:
        """Return the path with one more event, as component ``c``."""
        return Partial((*self.path, place), (*self.components, c))

    def arrays(self, n_components: int, more: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the arrays ``path`` and ``first`` for conditions, with room for ``more`` events."""
        path = np.array([*self.path, *[0] * more], np.int64)
        first = np.full(n_components + 1, len(self.path), np.int64)
        for d in range(len(self.path) - 1, -1, -1):
            first[self.components[d]] = d
        return path, first

    def size(self, c: int) -> int:
        """Return the number of events of component ``c``."""
        return self.components.count(c)


class Extender:
    """Finds the obstacles to extending the partial matches of one branch by an event."""

    def __init__(self, places: Places, bound: BoundBranch):
        self.places, self.bound = places, bound
        self.components = bound.branch.components
        self.n = len(self.components)
        self.conditions = PlainConditions(places, bound)
        self.query = places.program.query

    def is_full(self, partial: Partial, c: int) -> bool:
        """Return whether component ``c`` has its largest number of events."""
        high = self.components[c].high
        return high is not None and partial.size(c) >= high

    def obstacles(self, partial: Partial, j: int, c: int) -> list[Obstacle]:
        """Return why event ``j`` cannot be the next event of the partial match, as component ``c``."""
        conditions = self.conditions
        if (k := conditions.failing_alone(c, j)) is not None:
            typed = self.components[c].event_type is not None
            if k == 0 and typed:
                return [Obstacle("type", c, (j,))]
            seen = conditions.seen(("alone", c, k), np.empty(0), np.empty(0), 0, j)
            return [Obstacle("alone", c, (j,), k - typed, seen)]
        if not partial.path:
            return self._first(j, c)
        s, last = partial.path[0], partial.components[-1]
        places = self.places
        if places.start_of_partition[j] != places.start_of_partition[s]:
            return [Obstacle("partition", c, (s, j))]
        if c != last and partial.size(last) < self.components[last].low:
            return [Obstacle("few", last, partial.path[-partial.size(last) :])]
        if c == last and self.is_full(partial, c):
            return [Obstacle("many", c, (*partial.path[-partial.size(c) :], j))]
        if c > last + 1:
            return [Obstacle("missing", last + 1)]
        return list(self._limits(partial, j, c)) or list(self._selected(partial, j, c))

    def _first(self, j: int, c: int) -> list[Obstacle]:
        if c > 0:
            return [Obstacle("missing", 0)]
        partial = Partial().with_event(j, 0)
        return list(self._failing(partial, 0, each=True))

    def _limits(self, partial: Partial, j: int, c: int) -> Iterator[Obstacle]:
        places, s, p = self.places, partial.path[0], partial.path[-1]
        n_events = places.program.window.within_events
        if j >= places.time_end[s]:
            yield Obstacle("window", c, (s, j))
        if n_events is not None and j >= s + n_events:
            yield Obstacle("events", c, (s, j))
        if j >= places.gap_end[p]:
            yield Obstacle("gap", c, (p, j))
        if j < places.later[p]:
            yield Obstacle("strict_time", c, (p, j))

    def _selected(self, partial: Partial, j: int, c: int) -> Iterator[Obstacle]:
        """Yield the obstacles to ``j`` from conditions, absent events and skipped events."""
        last, p = partial.components[-1], partial.path[-1]
        takes = c == last
        grown = partial.with_event(j, c)
        if not takes:
            yield from self._failing(partial, last, each=False)
        yield from self._failing(grown, c, each=True)
        ender = self.ender(partial, j)
        if takes and ender is not None:
            yield Obstacle("until", c, (p, j, ender))
        yield from self._between(partial, j, c, takes)
        preference = self.components[last].preference
        other = {"greedy": not takes, "reluctant": takes}.get(preference, False)
        if other and all(self.hits(partial, j, ended=ender is not None)):
            yield Obstacle("preference", last, (j,), number=c)
        if not takes:
            yield from self._occurring(grown, c)

    def _failing(self, partial: Partial, c: int, *, each: bool) -> Iterator[Obstacle]:
        path, first = partial.arrays(self.n)
        last = len(partial.path) - 1
        for i in self.conditions.decided(c, each=each):
            if not self.conditions.holds(i, path, first, last):
                seen = self.conditions.seen(("condition", i), path, first, last)
                yield Obstacle("condition", c, (partial.path[-1],), i, seen)

    def ender(self, partial: Partial, j: int) -> int | None:
        """Return the first event up to ``j`` that ends the loop of the last component."""
        c = partial.components[-1]
        if self.bound.untils[c] is None:
            return None
        path, first = partial.arrays(self.n, 1)
        d, p = len(partial.path), partial.path[-1]
        return next((y for y in range(p + 1, j + 1) if self._ends(c, path, first, d, y)), None)

    def is_ended_at(self, partial: Partial, j: int) -> bool:
        """Return whether event ``j`` ends the loop of the last component."""
        c = partial.components[-1]
        if self.bound.untils[c] is None:
            return False
        path, first = partial.arrays(self.n, 1)
        return self._ends(c, path, first, len(partial.path), j)

    def _ends(self, c: int, path: np.ndarray, first: np.ndarray, d: int, y: int) -> bool:
        path[d] = y
        return self.conditions.ends(c, path, first, d, y)

    def hits(self, partial: Partial, y: int, *, ended: bool = False) -> tuple[bool, bool]:
        """Return two booleans: ``y`` could continue the last component; ``y`` could begin the next one."""
        c, p = partial.components[-1], partial.path[-1]
        conditions, d = self.conditions, len(partial.path)
        if y < self.places.later[p]:
            return False, False
        takes = not ended and not self.is_full(partial, c) and conditions.accepts(c, y)
        if takes:
            path, first = partial.with_event(y, c).arrays(self.n)
            takes = conditions.all_hold(c, path, first, d, each=True)
        begins = c + 1 < self.n and self._is_complete(partial) and conditions.accepts(c + 1, y)
        if begins:
            path, first = partial.with_event(y, c + 1).arrays(self.n)
            begins = conditions.all_hold(c + 1, path, first, d, each=True)
        return takes, begins

    def _is_complete(self, partial: Partial) -> bool:
        c = partial.components[-1]
        if partial.size(c) < self.components[c].low:
            return False
        path, first = partial.arrays(self.n)
        return self.conditions.all_hold(c, path, first, len(partial.path) - 1, each=False)

    def _between(self, partial: Partial, j: int, c: int, takes: bool) -> Iterator[Obstacle]:
        """Yield the first event between the last event and ``j`` that may not be skipped."""
        how = self.components[c].inner if takes else self.components[c].step
        p, position = partial.path[-1], self.places.position_of_place
        if how == "any":
            return
        if how in ("partition", "strict"):
            if j != p + 1:
                yield Obstacle("skipped", c, (p, j, p + 1))
            elif how == "strict" and position[j] != position[p] + 1:
                between = int(self.places.place_of_position[position[p] + 1])
                yield Obstacle("skipped", c, (p, j, between))
            return
        last, ended = partial.components[-1], False
        path, first = partial.arrays(self.n, 1)
        for y in range(p + 1, j):
            checkpoint()
            ended = ended or self._ends(last, path, first, len(partial.path), y)
            hit_take, hit_begin = self.hits(partial, y, ended=ended)
            is_hit, is_other_hit = (hit_take, hit_begin) if takes else (hit_begin, hit_take)
            if is_hit or (is_other_hit and self.query.scope == "run"):
                yield Obstacle("skipped", c, (p, j, y), number=last if hit_take else last + 1)
                return

    # --- absent events

    def _occurring(self, partial: Partial, c: int | None) -> Iterator[Obstacle]:
        """Yield the violated absences that are decided when ``c`` begins; None for the end of a match."""
        path, first = partial.arrays(self.n)
        last = len(partial.path) - 1
        for a, absence in enumerate(self.bound.branch.absences):
            if (absence.before if self.conditions.decided_at_begin(a) else None) != c:
                continue
            for y in self._range(absence, partial):
                checkpoint()
                if self.conditions.occurs(a, y, path, first, last):
                    yield Obstacle("absence", c, (y,), a)
                    break

    def _range(self, absence, partial: Partial) -> range:
        def places_of(c: int) -> list[int]:
            return [
                place
                for place, component in zip(partial.path, partial.components, strict=True)
                if component == c
            ]

        places = self.places
        if absence.spanning:
            return range(places_of(absence.after)[0] + 1, places_of(absence.before)[-1])
        low = (
            int(places.time_start[partial.path[-1]])
            if absence.after < 0
            else places_of(absence.after)[-1] + 1
        )
        is_edge = absence.before >= self.n
        return range(low, int(places.time_end[partial.path[0]]) if is_edge else places_of(absence.before)[0])

    # --- the end

    def at_end(self, partial: Partial) -> list[Obstacle]:
        """Return why the partial match is not a match."""
        last = partial.components[-1]
        if partial.size(last) < self.components[last].low:
            return [Obstacle("few", last, partial.path[-partial.size(last) :])]
        if last < self.n - 1:
            return [Obstacle("missing", last + 1)]
        return [*self._failing(partial, last, each=False), *self._occurring(partial, None)]


# The partial matches that each event of a stream begins, advances, ends and completes.
#
# The generated kernels run as Python, so partial matches mean the same here as in the engines. For a regex
# the whole kernel runs without its shortcuts, for a sequence only the conditions in it.

# --- regex


def plain_kernel(program: Program, inputs: Any, *, reports: bool = True) -> Kernel:
    """Return the kernel of a regex as Python, with a single list of all partial matches."""
    plan = program.plan
    slots = [t for c in plan.start_conjuncts for t in c.term.walk() if t.op in SLOTS]
    plan = replace(plan, dominated=0, queues=(), slots=tuple(dict.fromkeys(slots)))
    if not reports:
        plan = replace(plan, automaton=replace(plan.automaton, accepting=0))
    dtypes = {column: array.dtype.name for column, array in inputs.columns.items()}
    source = write_matching(plan, dtypes, functions=tuple(program.functions), compiled=program.compiled)
    return Kernel(plain_module(program, source.text)["advance"], source, is_compiled=False)


def rows_looked_back(query: RegexQuery) -> int:
    """Return how many rows back the predicates of a regex read."""
    return max((_looked_back(tree) for _, tree in query.define), default=0)


def _looked_back(tree: ex.Expression) -> int:
    offset = tree.offset if isinstance(tree, ex.Previous) else 0
    return offset + max(map(_looked_back, tree.children()), default=0)


class RegexPartials:
    """The live partial matches of a regex."""

    def __init__(self, program: Program, events: Events, first: int = 0, *, reports: bool = True):
        columns = {name: events.columns[name] for name in program.columns}
        self._inputs = program.inputs(columns)
        self._kernel = plain_kernel(program, self._inputs, reports=reports)
        self._state = self._kernel.new_state(max(1, events.n_partitions))
        self._partition = events.partition_of_event
        self.read(0, first)
        self._state.arrays["live"][:] = 0

    def read(self, low: int, high: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Read the events from ``low`` to before ``high`` (None: only ``low``), which must come next."""
        high = low + 1 if high is None else high
        columns = {name: values[low:high] for name, values in self._inputs.columns.items()}
        inputs = self._inputs.with_columns(columns)
        return advance(self._kernel, self._state, self._partition[low:high], inputs, low)

    def live(self, partition: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the first events of live partial matches, and masks of their positions in the automaton."""
        arrays = self._state.arrays
        n = int(arrays["live"][partition])
        starts, masks = arrays["list_start"][partition, :n], arrays["list_mask"][partition, :n]
        return starts.copy(), masks.astype(np.int64)

    @property
    def n_live(self) -> int:
        """Number of live partial matches in all partitions."""
        return int(self._state.arrays["live"].sum())


# --- sequences

Branched = tuple[int, Partial]  # number of a branch, and a partial match of it
# What a partial match may do: take one more event as its newest component, or begin the next component.
# Ended: the ``until`` of its loop was true.
_TAKE, _BEGIN, _ENDED = 1, 2, 4


@dataclass(slots=True)
class Change:
    """How an event changes the partial matches of a sequence."""

    # began, advanced: the partial matches that begin with the event, and the older ones that take it
    began: list[Branched] = field(default_factory=list)
    advanced: list[Branched] = field(default_factory=list)
    # The partial matches that were live, do not take the event, and are no longer live.
    ended: list[Branched] = field(default_factory=list)
    # The partial matches of ``began`` and ``advanced`` that are matches.
    completed: list[Branched] = field(default_factory=list)


class SequencePartials:
    """The live partial matches of a sequence.

    A partial match is live while its pattern, its window, its strategy and the events read so far allow a
    later event to extend it. The conditions on later events are not tested.
    """

    def __init__(self, program: SequenceProgram, events: Events, most_live: int):
        self.places, self.most_live = Places(program, events), most_live
        self.n_live = self.n_left_out = 0
        self._live: dict[int, list[Branched]] = {}  # by the first place of their partition
        self._ways: dict[int, list[int]] = {}  # what each of them may still do
        self._extenders = [Extender(self.places, bound) for bound in program.branches]
        self._is_strict = looks_between(program)

    def live(self, j: int | None = None) -> list[Branched]:
        """Return the live partial matches in the partition of place ``j``; None for all partitions."""
        if j is None:
            return [branched for live_partials in self._live.values() for branched in live_partials]
        return self._live.get(int(self.places.start_of_partition[j]), [])

    def read(self, j: int) -> Change:
        """Read the event at place ``j``, the next one in the stream."""
        partition, change = int(self.places.start_of_partition[j]), Change()
        before = self._live.get(partition, [])
        kept, ways = self._pass(partition, j, change, self._extend(before, j, change))
        for branched in sorted([*change.began, *change.advanced], key=lambda branched: branched[0]):
            if way := self._ways_at_first(*branched):
                kept.append(branched)
                ways.append(way)
        self._keep(partition, kept, ways)
        if self._is_strict:  # then partial matches of other partitions may not skip the event
            for other in [other for other in self._live if other != partition]:
                self._keep(other, *self._pass(other, j, change))
        return change

    def _pass(
        self, partition: int, j: int, change: Change, takers: Collection[int] = ()
    ) -> tuple[list[Branched], list[int]]:
        """Return the partial matches that stay live after event ``j``, and what they may do."""
        kept, ways = [], []
        live = zip(self._live.get(partition, ()), self._ways.get(partition, ()), strict=True)
        for i, (branched, way) in enumerate(live):
            if (way := self._ways_after(*branched, way, j)) & (_TAKE | _BEGIN):
                kept.append(branched)
                ways.append(way)
            elif i not in takers:
                change.ended.append(branched)
        return kept, ways

    def _extend(self, before: list[Branched], j: int, change: Change) -> set[int]:
        """Add what event ``j`` begins, advances and completes; return which of ``before`` take it."""
        takers = set()
        for b, extender in enumerate(self._extenders):
            fits = [extender.conditions.failing_alone(c, j) is None for c in range(extender.n)]
            branch_partials = [(i, partial) for i, (branch, partial) in enumerate(before) if branch == b]
            for i, partial in ((-1, Partial()), *branch_partials):
                for c in _next_components(extender, partial):
                    if fits[c] and not extender.obstacles(partial, j, c):
                        branched = b, partial.with_event(j, c)
                        (change.advanced if partial.path else change.began).append(branched)
                        takers.add(i)
                        if not extender.at_end(branched[1]):
                            change.completed.append(branched)
        return takers

    def _keep(self, partition: int, kept: list[Branched], ways: list[int]) -> None:
        self.n_left_out += max(0, len(kept) - self.most_live)
        kept, ways = kept[-self.most_live :], ways[-self.most_live :]
        self.n_live += len(kept) - len(self._live.get(partition, ()))
        if kept:
            self._live[partition], self._ways[partition] = kept, ways
        else:
            self._live.pop(partition, None)
            self._ways.pop(partition, None)

    def _ways_at_first(self, b: int, partial: Partial) -> int:
        """Return what a partial match may do directly after its newest event."""
        extender, places = self._extenders[b], self.places
        s, p, c = partial.path[0], partial.path[-1], partial.components[-1]
        if p + 1 >= min(places.window_end[s], places.gap_end[p]):
            return 0
        return (0 if extender.is_full(partial, c) else _TAKE) | (_BEGIN if c + 1 < extender.n else 0)

    def _ways_after(self, b: int, partial: Partial, ways: int, j: int) -> int:
        """Return which of ``ways`` remain after event ``j``."""
        extender, places = self._extenders[b], self.places
        s, p, c = partial.path[0], partial.path[-1], partial.components[-1]
        how_take = extender.components[c].inner
        how_begin = extender.components[c + 1].step if c + 1 < extender.n else "strict"
        if places.start_of_partition[j] != places.start_of_partition[p]:
            # An event of another partition ends only strict steps, which may not skip it.
            return ways & ~((how_take == "strict") * _TAKE | (how_begin == "strict") * _BEGIN)
        if j + 1 >= min(places.window_end[s], places.gap_end[p]):
            return 0
        if how_take in ("strict", "partition"):
            ways &= ~_TAKE
        if how_begin in ("strict", "partition"):
            ways &= ~_BEGIN
        if not ways & _ENDED and extender.is_ended_at(partial, j):
            ways = (ways | _ENDED) & ~_TAKE
        nexts = (how_take == "next") * _TAKE | (how_begin == "next") * _BEGIN
        if ways & nexts:
            hits = extender.hits(partial, j, ended=bool(ways & _ENDED))
            if extender.query.scope == "run" and any(hits):
                ways &= ~nexts
            ways &= ~(nexts & (hits[0] * _TAKE | hits[1] * _BEGIN))
        return ways


def looks_between(program: Program | SequenceProgram) -> bool:
    """Return whether matches depend on events of other partitions between their own events."""
    if isinstance(program, Program):
        return False
    components = (c for bound in program.branches for c in bound.branch.components)
    return any("strict" in (c.step, c.inner) for c in components)


def block_of(completed: list[Branched], position_of_place: np.ndarray) -> MatchBlock:
    """Return matches as a block in canonical order, by the positions of their events."""
    first_item = np.cumsum([0, *(len(partial.path) for _, partial in completed)])
    places = np.array([place for _, partial in completed for place in partial.path], np.int64)
    return MatchBlock(
        position_of_place[places],
        np.array([c for _, partial in completed for c in partial.components], np.int16),
        first_item.astype(np.int64),
        np.array([b for b, _ in completed], np.int16),
    ).sorted()


def _next_components(extender: Extender, partial: Partial) -> list[int]:
    if not partial.path:
        return [0]
    c = partial.components[-1]
    return [c] if c + 1 == extender.n else [c, c + 1]
