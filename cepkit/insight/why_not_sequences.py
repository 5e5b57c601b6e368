"""Why some events are not a match of a sequence: the reading that gets furthest, and what stops it.

A reading assigns events to components. The code of the kernels decides everything; it runs as Python on
these events and the events around them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.engines.after_match import report_matches
from cepkit.engines.sequence_measures import variables_of_items
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import MatchBlock, SequenceSet
from cepkit.insight.partial_matches import Extender, Obstacle, Partial
from cepkit.language.sequences.checks import ONCE
from cepkit.progress import checkpoint
from cepkit.values import dataclass, replace

MOST_STEPS = 20_000  # partial readings per branch
MOST_FILLERS = 200  # events that are tried for a component without an event
_MOST_NUMBERED = 1_000_000  # matches with the same last event that are searched for one match


@dataclass(frozen=True, slots=True)
class EventReading:
    """Events as components of one branch, in stream order."""

    branch: int  # number of the branch
    places: tuple[int, ...]  # the events
    components: tuple[int | None, ...]  # the component of each event; None if no component takes it
    reached: int  # number of events that form a partial match
    obstacles: tuple[Obstacle, ...]  # what stops the next event, or the match at its end; empty for a match
    # For a component without an event: the events of its type at this point, each with what stops it or the
    # event after it.
    fillers: tuple[tuple[int, Obstacle | None], ...] = ()
    more_fillers: bool = False


def read_events(
    places: Places, wanted: Sequence[int], variable_of: dict[int, str] | None = None
) -> EventReading:
    """Return the reading that gets furthest; ``variable_of`` has the required variables of places."""
    position = places.position_of_place
    ordered = sorted(wanted, key=lambda place: int(position[place]))
    best: EventReading | None = None
    for number, bound in enumerate(places.program.branches):
        reader = _Reader(places, bound, number, ordered, variable_of or {})
        reading = reader.best()
        if best is None or _score(reading) > _score(best):
            best, chosen = reading, reader
        if not best.obstacles:
            break
    return chosen.with_fillers(best)


def _score(reading: EventReading) -> tuple:
    """Return the rank of a reading: no obstacle, few misfits, many reached events, few obstacles."""
    kinds = [obstacle.kind for obstacle in reading.obstacles]
    misfits = sum(component is None for component in reading.components)
    out_of_order = sum(kind in ("type", "variable", "order") for kind in kinds)
    missing = sum(kind in ("missing", "few", "alone") for kind in kinds)
    return not kinds, -misfits, -out_of_order, reading.reached, -missing, -len(kinds)


class _Reader:
    """Reads events as one branch."""

    def __init__(self, places: Places, bound: BoundBranch, number: int, wanted, variable_of):
        self.places, self.number, self.extender = places, number, Extender(places, bound)
        self.bound = bound
        self.wanted, self.variable_of = wanted, variable_of
        self.components = bound.branch.components
        self.n = len(self.components)

    # --- readings

    def best(self) -> EventReading:
        """Return the reading of the events that comes closest to a match."""
        if strays := self._strays():
            return self._without(strays)
        fits = [[c for c in range(self.n) if self._fits(c, place)] for place in self.wanted]
        if all(fits) and self._can_be_read((-1, 0), fits):
            reading = self._furthest(fits)
            is_gap = any(obstacle.kind in ("alone", "missing") for obstacle in reading.obstacles)
            return (self._with_gap(fits) if is_gap else None) or reading
        kept, component_of = self._longest(fits)
        misfits = [i for i in range(len(self.wanted)) if i not in component_of]
        obstacles = tuple(self._misfit(i, fits, kept, component_of) for i in misfits)
        components = [component_of.get(i) for i in range(len(self.wanted))]
        for i, obstacle in zip(misfits, obstacles, strict=True):
            if obstacle.kind not in ("type", "variable"):
                components[i] = obstacle.component
        reached = min(self._reach([(self.wanted[i], component_of[i]) for i in kept]), misfits[0])
        return EventReading(self.number, tuple(self.wanted), tuple(components), reached, obstacles)

    def _strays(self) -> list[int]:
        """Return the events outside the partition that has the most events (for a tie, the first one)."""
        start = self.places.start_of_partition
        of_partition = Counter(int(start[place]) for place in self.wanted)
        [(most, _)] = of_partition.most_common(1)
        return [place for place in self.wanted if start[place] != most]

    def _without(self, strays: list[int]) -> EventReading:
        """Return the reading of the events of one partition, with the others as obstacles."""
        kept = [place for place in self.wanted if place not in strays]
        reading = _Reader(self.places, self.bound, self.number, kept, self.variable_of).best()
        missing = [obstacle.component for obstacle in reading.obstacles if obstacle.kind == "missing"]
        component_of = dict(zip(reading.places, reading.components, strict=True))
        for place in strays:
            component_of[place] = next((c for c in missing if self._fits(c, place)), None)
        reached = min(reading.reached, min(self.wanted.index(place) for place in strays))
        obstacles = tuple(Obstacle("partition", component_of[place], (place, kept[0])) for place in strays)
        components = tuple(component_of[place] for place in self.wanted)
        return EventReading(self.number, tuple(self.wanted), components, reached, obstacles)

    def _with_gap(self, fits: list[list[int]]) -> EventReading | None:
        """Return the best reading with one empty component and no event that fails alone."""
        holds = self.extender.conditions.failing_alone
        fits_alone = [
            [c for c in choices if holds(c, place) is None]
            for place, choices in zip(self.wanted, fits, strict=True)
        ]
        candidates = []
        for gap in range(self.n):
            rest = [[c for c in choices if c != gap] for choices in fits_alone]
            if not all(rest) or not self._can_be_read((-1, 0), rest):
                continue
            reading = self.with_fillers(self._furthest(rest))
            if any(obstacle.kind == "missing" for obstacle in reading.obstacles):
                could = any(obstacle is None for _, obstacle in reading.fillers)
                candidates.append(((could, reading.reached, -gap), reading))
        return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

    def _fits(self, c: int, place: int) -> bool:
        """Return whether an event may be of a component: by the variable that the user named, and by type."""
        wanted = self.variable_of.get(place)
        return wanted in (None, self.components[c].variable) and self.extender.conditions.has_type(c, place)

    def _next(self, end: tuple[int, int], c: int) -> tuple[int, int] | None:
        """Return the end, a component and its size, after one more event as ``c``; None if it cannot be."""
        last, size = end
        if c > last:
            return c, 1
        high = self.components[c].high
        return (c, size + 1) if c == last and (high is None or size < high) else None

    def _can_be_read(self, end: tuple[int, int], fits: list[list[int]]) -> bool:
        """Return whether types and counts allow the events to be components in this order, after an end."""
        ends = {end}
        for choices in fits:
            ends = {after for end in ends for c in choices if (after := self._next(end, c))}
        return bool(ends)

    def _longest(self, fits: list[list[int]]) -> tuple[list[int], dict[int, int]]:
        """Return the most events that can be components in this order, and their components."""
        best: dict[tuple[int, int], tuple[int, ...]] = {(-1, 0): ()}
        component_of: dict[tuple[int, int], tuple[int, ...]] = {(-1, 0): ()}
        for i, choices in enumerate(fits):
            grown: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
            for end, taken in best.items():
                for c in choices:
                    if (key := self._next(end, c)) is None:
                        continue
                    extended = ((*taken, i), (*component_of[end], c))
                    if key not in grown or len(extended[0]) > len(grown[key][0]):
                        grown[key] = extended
            for key, (taken, components) in grown.items():
                if key not in best or len(taken) > len(best[key]):
                    best[key], component_of[key] = taken, components
        key = max(best, key=lambda key: (len(best[key]), -key[0]))
        return list(best[key]), dict(zip(best[key], component_of[key], strict=True))

    def _misfit(self, i: int, fits: list[list[int]], kept: list[int], of: dict[int, int]) -> Obstacle:
        """Return why event ``i`` cannot be a component together with the ``kept`` events."""
        place = self.wanted[i]
        if not fits[i]:
            named = [c for c in range(self.n) if self.components[c].variable == self.variable_of.get(place)]
            if place in self.variable_of and not named:
                return Obstacle("variable", None, (place,))
            return Obstacle("type", named[0] if named else None, (place,))
        for c in fits[i]:
            for k in kept:
                if (k < i and of[k] > c) or (k > i and of[k] < c):
                    pair = (place, self.wanted[k]) if i < k else (self.wanted[k], place)
                    return Obstacle("order", c, pair)
        c = fits[i][0]
        taken = [self.wanted[k] for k in kept if of[k] == c]
        return Obstacle("many", c, (*taken, place))

    def _reach(self, events: list[tuple[int, int]]) -> int:
        """Return how many of some events make a partial match."""
        partial = Partial()
        for d, (place, c) in enumerate(events):
            if self.extender.obstacles(partial, place, c):
                return d
            partial = partial.with_event(place, c)
        return len(events)

    def _furthest(self, fits: list[list[int]]) -> EventReading:
        """Return the reading with the longest partial match; among equals, with the fewest obstacles."""
        best: EventReading | None = None
        waiting: list[tuple[Partial, int]] = [(Partial(), 0)]
        n_steps = 0
        while waiting and n_steps < MOST_STEPS:
            checkpoint()
            n_steps += 1
            partial, i = waiting.pop()
            if i == len(self.wanted):
                best = self._better(best, partial, i, self.extender.at_end(partial), fits)
                if not best.obstacles:
                    return best
                continue
            last = partial.components[-1] if partial.components else -1
            for c in reversed(fits[i]):
                end = self._next((last, partial.size(last)), c)
                if end is None or not self._can_be_read(end, fits[i + 1 :]):
                    continue
                obstacles = self.extender.obstacles(partial, self.wanted[i], c)
                if obstacles:
                    best = self._better(best, partial, i, obstacles, fits, c)
                else:
                    waiting.append((partial.with_event(self.wanted[i], c), i + 1))
        return best

    def _better(self, best, partial: Partial, i: int, obstacles, fits, c: int | None = None) -> EventReading:
        """Return the better of the best reading so far and another one."""
        if best is not None and best.reached > i:
            return best
        components = [*partial.components, *([] if c is None else [c])]
        components += self._rest(components, fits)
        reading = EventReading(self.number, tuple(self.wanted), tuple(components), i, tuple(obstacles))
        return reading if best is None or _score(reading) > _score(best) else best

    def _rest(self, components: list[int], fits: list[list[int]]) -> list[int]:
        """Return the first components that types and counts allow for the later events."""
        extended = list(components)
        while len(extended) < len(fits):
            last = extended[-1] if extended else -1
            for c in fits[len(extended)]:
                end = self._next((last, extended.count(last)), c)
                if end is not None and self._can_be_read(end, fits[len(extended) + 1 :]):
                    extended.append(c)
                    break
        return extended[len(components) :]

    def with_fillers(self, reading: EventReading) -> EventReading:
        """Return the reading with the candidates for its empty component, and what stops each."""
        obstacle = next((blocker for blocker in reading.obstacles if blocker.kind == "missing"), None)
        if obstacle is None:
            return reading
        pairs = list(zip(reading.places, reading.components, strict=True))
        events, rest = pairs[: reading.reached], pairs[reading.reached :]
        c, places = obstacle.component, self.places
        partial = Partial(tuple(p for p, _ in events), tuple(component for _, component in events))
        low = partial.path[-1] + 1 if events else int(places.window_start[rest[0][0]])
        high = rest[0][0] if rest else int(places.window_end[partial.path[0]])
        fillers: list[tuple[int, Obstacle | None]] = []
        for y in range(low, high):
            checkpoint()
            if not self.extender.conditions.has_type(c, y):
                continue
            if len(fillers) == MOST_FILLERS:
                return replace(reading, fillers=tuple(fillers), more_fillers=True)
            stops = self.extender.obstacles(partial, y, c)
            if not stops:
                grown = partial.with_event(y, c)
                stops = self.extender.obstacles(grown, *rest[0]) if rest else self.extender.at_end(grown)
            stops = [blocker for blocker in stops if blocker.kind not in ("missing", "few")]
            fillers.append((y, stops[0] if stops else None))
        return replace(reading, fillers=tuple(fillers))


# --- events that match


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether events that fulfil the query are a reported match."""

    reading: EventReading
    # Number of the match; None if the after-match policy leaves it out, or if the number is unknown.
    number: int | None = None
    taker: MatchBlock | None = None  # the match that leaves the events out
    is_longer: bool = False  # whether it begins with them and has more


def outcome_of(
    program: SequenceProgram, found: SequenceSet, reading: EventReading, places: Places,
    variable_of: Mapping[int, str],
) -> Outcome:  # fmt: skip
    """Return the number of the match ``reading``, or the match that leaves it out."""
    # A reported match may divide the events among the variables in another way, if ``variable_of`` fits.
    position = places.position_of_place[list(reading.places)]
    reported = report_matches(program, found)
    n_before, block = _numbered(reported, int(position[-1]))
    same = [(m, read) for m, read in _readings(block, position, reading) if _has(program, read, variable_of)]
    if same:
        m, read = min(same, key=lambda number_and_reading: number_and_reading[1] != reading)
        return Outcome(read, n_before + m)
    if not program.query.selects:
        return Outcome(reading)
    if program.query.ends_greedily and (longer := _longer(found, position)) is not None:
        return Outcome(reading, None, longer, is_longer=True)
    return Outcome(reading, None, _taker(program, found, reported, position, reading))


def _numbered(found: SequenceSet, last: int) -> tuple[int, MatchBlock]:
    """Return the matches that end at ``last``, unless they are too many, and the number of earlier ones."""
    ends, counts = found.ends()
    at = int(np.searchsorted(ends, last))
    is_few = at < len(ends) and int(counts[at]) <= _MOST_NUMBERED
    return sum(int(count) for count in counts[:at]), found.ending(last, last + 1 if is_few else last)


def _readings(
    block: MatchBlock, position: np.ndarray, reading: EventReading
) -> Iterator[tuple[int, EventReading]]:
    """Yield the matches with these events, each with its number in the block."""
    for m in np.flatnonzero(np.diff(block.first_item_of_match) == len(position)).tolist():
        items = slice(block.first_item_of_match[m], block.first_item_of_match[m + 1])
        if (block.event_of_item[items] == position).all():
            components = tuple(block.component_of_item[items].tolist())
            yield m, replace(reading, branch=int(block.branch_of_match[m]), components=components)


def _has(program: SequenceProgram, reading: EventReading, variable_of: Mapping[int, str]) -> bool:
    """Return whether the events have the variables that the user names."""
    components = program.branches[reading.branch].branch.components
    return all(
        variable_of.get(place, components[c].variable) == components[c].variable
        for place, c in zip(reading.places, reading.components, strict=True)
    )


def _longer(found: SequenceSet, position: np.ndarray) -> MatchBlock | None:
    """Return the longest match that begins with the events at ``position`` and has more; None without any."""
    block = found.ending(int(position[-1]) + 1, found.events.n_events)
    longest = None
    for m in np.flatnonzero(block.first == position[0]).tolist():
        match = block.take(np.array([m]))
        if np.array_equal(match.event_of_item[: len(position)], position) and (
            longest is None or match.n_items > longest.n_items
        ):
            longest = match
    return longest


def _taker(program, found: SequenceSet, reported: SequenceSet, position: np.ndarray, reading) -> MatchBlock:
    """Return the first reported match that discards the one at ``position``."""
    policy, variable = program.query.after_match
    block = reported.ending(0, int(position[-1]) + 1)
    partition = found.events.partition_of_event
    same = partition[block.last] == partition[position[-1]]
    block = block.take(np.flatnonzero(same))
    if policy == "to_next":
        takes = block.first == position[0]
    elif policy == "past_last":
        takes = block.last >= position[0]
    elif policy in ONCE:
        shared = np.isin(block.event_of_item, position)
        takes = np.bincount(block.match_of_item[shared], minlength=len(block)) > 0
    else:
        has_variable = variables_of_items(program, block) == program.query.variables.index(variable)
        horizon = np.full(len(block), -1)  # the event to which the search skips after each match
        matches, events = block.match_of_item[has_variable], block.event_of_item[has_variable]
        if policy == "to_first":
            matches, events = matches[::-1], events[::-1]  # the first event is written last, and wins
        horizon[matches] = events
        takes = horizon > position[0]
    order = np.lexsort([block.first, block.last])
    return block.take(order[takes[order]][:1])
