"""A left-deep tree in plain Python: sequences of single events and loops, with absent events between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Row = Mapping[str, object]


@dataclass(frozen=True)
class PlainPart:
    """A part of a sequence; ``condition`` numbers refer to `PlainTree.tests`."""

    name: str
    type: str
    is_group: bool = False
    is_absent: bool = False
    unary: tuple[int, ...] = ()  # of one event
    taken: tuple[int, ...] = ()  # of a set and its newest event, from the second event on
    joined: tuple[int, ...] = ()  # where this part is the last one; for absent events, at the end


@dataclass(frozen=True, eq=False)
class PlainMatch:
    """A partial match: the node, the events of each part."""

    node: str
    events: dict[str, tuple[int, ...]]

    @property
    def positions(self) -> list[int]:
        return sorted(p for own in self.events.values() for p in own)

    @property
    def key(self) -> tuple:
        """What names it: the node and the events."""
        return self.node, *(self.positions[0], self.positions[-1], len(self.positions))


@dataclass
class PlainTree:
    """The tree with its partial matches, and what the last event cost."""

    parts: Sequence[PlainPart]
    tests: Sequence[Callable[[dict], bool]]  # take rows by part, sets as lists
    rows: Sequence[Row]
    within: int
    kills_if: bool = True
    skip: np.ndarray | None = None
    bin_size: int = 1
    alive: list[PlainMatch] = field(default_factory=list)

    def feed(self, p: int) -> tuple[list[int], int, int, list[tuple]]:
        """Return the evaluations by condition, the numbers of created and removed ones, and the matches."""
        self.evaluated, self.created, self.found = [0] * len(self.tests), 0, []
        old = [m for m in self.alive if self.rows[p]["t"] - self.rows[m.positions[0]]["t"] > self.within]
        self.alive = [m for m in self.alive if m not in old]
        positive = [part for part in self.parts if not part.is_absent]
        for part in self.parts:
            if part.type == self.rows[p]["kind"]:
                self._enter(part, p, positive)
        return self.evaluated, self.created, len(old), self.found

    def _holds(self, numbers: Sequence[int], bound: dict) -> bool:
        for number in numbers:
            self.evaluated[number] += 1
            if not self.tests[number](bound):
                return False
        return True

    def _rows(self, events: Mapping[str, tuple[int, ...]]) -> dict:
        group = {part.name for part in self.parts if part.is_group}
        return {
            name: [self.rows[p] for p in own] if name in group else self.rows[own[0]]
            for name, own in events.items()
        }

    def _skips(self, p: int, first: int, state: int) -> bool:
        if self.skip is None:
            return False
        types = list(dict.fromkeys(part.type for part in sorted(self.parts, key=lambda one: one.is_absent)))
        b = min((p - first) // self.bin_size, self.skip.shape[1] - 1)
        return bool(self.skip[types.index(self.rows[p]["kind"]), b, state])

    def _kills_if(self, part: PlainPart) -> bool:
        """Return whether an absent event forbids matches if its conditions hold, or if it has none."""
        return self.kills_if or not (part.unary or part.joined)

    def _enter(self, part: PlainPart, p: int, positive: Sequence[PlainPart]) -> None:
        passes = self._holds(part.unary, {part.name: [self.rows[p]] if part.is_group else self.rows[p]})
        if part.is_absent:
            if passes if self._kills_if(part) else (part.joined or not passes):
                self.created += 1
                self.alive.append(
                    PlainMatch("!" + part.name if passes else "?" + part.name, {part.name: (p,)})
                )
            return
        if not passes:
            return
        new = []
        sets = [m for m in self.alive if m.node == part.name and part.is_group]
        if not self._skips(p, p, 0):
            new.append((p,))
        for own in sets:
            events = own.events[part.name]
            if self._skips(p, events[0], 1):
                continue
            if self._holds(part.taken, {part.name: [self.rows[x] for x in (*events, p)]}):
                new.append((*events, p))
        at = positive.index(part)
        for events in new:
            self.created += 1
            own = PlainMatch(part.name, {part.name: events})
            if at == 0:
                self._grown(own, 0, p, positive)
                if part.is_group and len(positive) == 1:
                    self.alive.append(own)  # a match that grows
                continue
            node = positive[0].name if at == 1 else f"join {at - 1}"
            for left in [m for m in self.alive if m.node == node]:
                first = left.positions[0]
                is_late = self.rows[p]["t"] - self.rows[first]["t"] > self.within
                if is_late or left.positions[-1] >= events[0] or self._skips(p, first, at):
                    continue
                both = {**left.events, part.name: events}
                if self._holds(part.joined, self._rows(both)):
                    self.created += 1
                    self._grown(PlainMatch(f"join {at}", both), at, p, positive)
            if part.is_group:
                self.alive.append(own)

    def _grown(self, made: PlainMatch, at: int, p: int, positive: Sequence[PlainPart]) -> None:
        if at < len(positive) - 1:
            self.alive.append(made)
        elif not self._is_forbidden(made):
            self.found.append(tuple(made.events[part.name] for part in positive))

    def _is_forbidden(self, made: PlainMatch) -> bool:
        for i, part in enumerate(self.parts):
            if not part.is_absent:
                continue
            low, high = made.events[self.parts[i - 1].name][-1], made.events[self.parts[i + 1].name][0]
            for y in reversed([m for m in self.alive if m.node[1:] == part.name and m.node[0] in "!?"]):
                (at,) = y.events[part.name]
                if not low < at < high:
                    continue
                if y.node[0] == "?":
                    return True
                held = self._holds(part.joined, {**self._rows(made.events), part.name: self.rows[at]})
                if held == self._kills_if(part):
                    return True
        return False
