"""Partial matches of a sequence, and why an event cannot be the next one of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cepkit.compile.sequence_program import BoundBranch
from cepkit.compile.sequence_source import is_decided_at_begin
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import PlainConditions
from cepkit.progress import checkpoint
from cepkit.values import dataclass

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
    # The partial match with the event on which a condition is not true, and its truth; None is null.
    partial: Partial | None = None
    truth: bool | None = None


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
        high = self.components[c].high
        return high is not None and partial.size(c) >= high

    def obstacles(self, partial: Partial, j: int, c: int) -> list[Obstacle]:
        """Return why event ``j`` cannot be the next event of the partial match, as component ``c``."""
        conditions = self.conditions
        if (k := conditions.failing_alone(c, j)) is not None:
            typed = self.components[c].event_type is not None
            if k == 0 and typed:
                return [Obstacle("type", c, (j,))]
            truth = conditions.truth(("alone", c, k), np.empty(0), np.empty(0), 0, j)
            return [Obstacle("alone", c, (j,), k - typed, Partial().with_event(j, c), truth)]
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
        """Return what keeps an event from being the first of a match as component ``c``."""
        if c > 0:
            return [Obstacle("missing", 0)]
        if self.places.program.window.is_empty:
            return [Obstacle("window", 0, (j, j))]
        partial = Partial().with_event(j, 0)
        return list(self._failing(partial, 0, each=True))

    def _limits(self, partial: Partial, j: int, c: int) -> Iterator[Obstacle]:
        """Yield the limits of time and number that an event exceeds."""
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
        """Yield the conditions of a component that fail for a partial match."""
        path, first = partial.arrays(self.n)
        last = len(partial.path) - 1
        for i in self.conditions.decided(c, each=each):
            if not self.conditions.holds(i, path, first, last):
                truth = self.conditions.truth(("condition", i), path, first, last)
                yield Obstacle("condition", c, (partial.path[-1],), i, partial, truth)

    def ender(self, partial: Partial, j: int) -> int | None:
        """Return the first event up to ``j`` that ends the loop of the last component."""
        c = partial.components[-1]
        if self.bound.untils[c] is None:
            return None
        path, first = partial.arrays(self.n, 1)
        d, p = len(partial.path), partial.path[-1]
        return next((y for y in range(p + 1, j + 1) if self._ends(c, path, first, d, y)), None)

    def is_ended_at(self, partial: Partial, j: int) -> bool:
        """Return whether ``until`` ends the loop of a partial match at an event."""
        c = partial.components[-1]
        if self.bound.untils[c] is None:
            return False
        path, first = partial.arrays(self.n, 1)
        return self._ends(c, path, first, len(partial.path), j)

    def _ends(self, c: int, path: np.ndarray, first: np.ndarray, d: int, y: int) -> bool:
        """Return whether the event at place ``y`` ends the loop of component ``c`` after ``d`` events."""
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
        """Return whether the last component has enough events and fulfils its conditions."""
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
            if (absence.before if is_decided_at_begin(self.bound, a) else None) != c:
                continue
            for y in self._range(absence, partial):
                checkpoint()
                if self.conditions.occurs(a, y, path, first, last):
                    yield Obstacle("absence", c, (y,), a)
                    break

    def _range(self, absence, partial: Partial) -> range:
        """Return the places where an absent event would forbid a match."""

        def places_of(c: int) -> list[int]:
            pairs = zip(partial.path, partial.components, strict=True)
            return [place for place, component in pairs if component == c]

        places = self.places
        if absence.spanning:
            return range(places_of(absence.after)[0] + 1, places_of(absence.before)[-1])
        if absence.after < 0:
            low = int(places.time_start[partial.path[-1]])
        else:
            low = places_of(absence.after)[-1] + 1
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
