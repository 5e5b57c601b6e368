"""Lines of a sequence pattern: rows of components and absent events, without alternatives.

Optional parts, ``any_of`` and ``all_of`` become separate lines, and repeated groups are written out round
by round. A match of the pattern is a match of one line.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import factorial

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    AllOf,
    AnyOf,
    EventPattern,
    Loop,
    SequenceOf,
    SequencePattern,
    event_patterns,
)
from cepkit.limits import BRANCHES


@dataclass(frozen=True, slots=True)
class Component:
    """One or more successive events of a branch that ``variable`` names.

    ``step`` says what may be skipped before the first event, ``inner`` what may be skipped between two
    events. ``is_group`` says whether the variable can name several events, even if it names one here.
    ``rounds`` lists the loops written out around it, with the number of the round.

    """

    variable: str
    event_type: str | int | bool | None
    low: int = 1
    high: int | None = 1
    is_group: bool = False
    step: str = "any"
    inner: str = "any"
    preference: str = "all"
    until: ex.Expression | None = None
    rounds: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Absence:
    """The condition that no such event occurs after component ``after`` and before component ``before``.

    -1 and the number of components mean the edges of the window. A ``spanning`` absence, from ``all_of``,
    begins after the first event of ``after`` and ends before the last event of ``before``. Any other absence
    begins after the last event of ``after`` and ends before the first event of ``before``. ``rounds`` has the
    same meaning as in `Component`.

    """

    variable: str
    event_type: str | int | bool | None
    after: int
    before: int
    spanning: bool = False
    rounds: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A row of components. Absences number the components as a branch does, so that lines can be joined."""

    components: tuple[Component, ...] = ()
    absences: tuple[Absence, ...] = ()
    options: tuple[int, ...] = ()
    not_taken: frozenset[str] = frozenset()  # variables of the options not taken

    def followed(self, other: Line) -> Line:
        """Return this line followed by the other."""
        n = len(self.components)
        return Line(
            self.components + other.components,
            self.absences + tuple(_renumber(absence, lambda c: c + n) for absence in other.absences),
            self.options + other.options,
            self.not_taken | other.not_taken,
        )

    def entered(self, step: str | None) -> Line:
        """Return the line with ``step`` before its first component."""
        if step is None or not self.components:
            return self
        first, *others = self.components
        return replace(self, components=(replace(first, step=step), *others))

    def in_round(self, loop: int, number: int) -> Line:
        """Return the line as a round of a loop."""

        def numbered(part):
            return replace(part, rounds=((loop, number), *part.rounds))

        return replace(
            self,
            components=tuple(map(numbered, self.components)),
            absences=tuple(map(numbered, self.absences)),
        )


def _renumber(absence: Absence, new: Callable[[int], int]) -> Absence:
    return replace(absence, after=new(absence.after), before=new(absence.before))


def lines_of(pattern: SequencePattern, strategy: str) -> list[Line]:
    """Return the lines of ``pattern``; a step that names no strategy gets ``strategy``."""
    return _Expansion(strategy).lines(pattern)


@dataclass
class _Expansion:
    strategy: str
    n_loops: int = 0
    depth: int = 0  # number of enclosing loops that allow more than one round

    def lines(self, pattern: SequencePattern) -> list[Line]:
        match pattern:
            case EventPattern(variable=name, event_type=of):
                own = self.strategy
                return [Line((Component(name, of, is_group=self.depth > 0, step=own, inner=own),))]
            case AbsentPattern(body=event):
                return [Line((), (Absence(event.variable, event.event_type, -1, 0),))]
            case SequenceOf(parts=parts, steps=steps):
                return self._sequence([self.lines(part) for part in parts], steps)
            case AnyOf(options=options):
                return self._lines_of_options(options)
            case AllOf():
                return self._all_of(pattern)
            case Loop(body=EventPattern()):
                return self._repeated_event(pattern)
            case Loop():
                return self._repeated_group(pattern)
        raise TypeError(f"no branches of {type(pattern).__name__}")

    def _sequence(self, parts: list[list[Line]], steps: tuple[str | None, ...]) -> list[Line]:
        made = [Line()]
        for lines, step in zip(parts, steps, strict=True):
            made = [left.followed(right.entered(step)) for left in made for right in lines]
            refuse_too_many(len(made))
        return made

    def _lines_of_options(self, options: tuple[SequencePattern, ...]) -> list[Line]:
        made = []
        for number, option in enumerate(options):
            others = _variables(other for other in options if other is not option)
            for line in self.lines(option):
                taken = (number, *line.options)
                made.append(replace(line, options=taken, not_taken=line.not_taken | others))
        return made

    def _repeated_event(self, loop: Loop) -> list[Line]:
        (line,) = self.lines(loop.body)
        taken = replace(
            line.components[0],
            low=max(1, loop.low),
            high=loop.high,
            is_group=self.depth > 0 or loop.high != 1,
            inner=loop.inner or self.strategy,
            preference=loop.preference,
            until=loop.until,
        )
        return [Line((taken,))] if loop.low else [Line((taken,)), Line()]

    def _repeated_group(self, loop: Loop) -> list[Line]:
        if loop.high is None:
            raise UnsupportedQueryError(
                f"'{loop}' repeats a group without a limit; limit it, as in times({max(1, loop.low)}, 5)"
            )
        own = self.n_loops
        self.n_loops += 1
        self.depth += loop.high > 1
        body = [line for line in self.lines(loop.body) if line.components]  # every round takes an event
        self.depth -= loop.high > 1
        made = [] if loop.low else [Line()]
        for n_rounds in range(max(1, loop.low), loop.high + 1):
            rounds = body if loop.high == 1 else None
            parts = [rounds or [line.in_round(own, number) for line in body] for number in range(n_rounds)]
            made += self._sequence(parts, (None, *[loop.inner] * (n_rounds - 1)))
            refuse_too_many(len(made))
        return made

    def _all_of(self, pattern: AllOf) -> list[Line]:
        absent = [part.body for part in pattern.parts if isinstance(part, AbsentPattern)]
        present = [part for part in pattern.parts if not isinstance(part, AbsentPattern)]
        refuse_too_many(factorial(len(present)))
        made = []
        for chosen in itertools.product(*(self.lines(part) for part in present)):
            for line in _interleave(chosen):
                end = len(line.components) - 1
                spans = [Absence(e.variable, e.event_type, 0, end, spanning=True) for e in absent if end >= 0]
                made.append(replace(line, absences=(*line.absences, *spans)))
                refuse_too_many(len(made))
        return made


def _variables(options: Iterable[SequencePattern]) -> frozenset[str]:
    return frozenset(event.variable for option in options for event in event_patterns(option))


def _interleave(lines: tuple[Line, ...]) -> Iterator[Line]:
    """Yield the merged lines in all orders that keep the order of each line."""
    n_of_line = [len(line.components) for line in lines]
    n = sum(n_of_line)
    for owners in _orders(n_of_line):
        places: list[list[int]] = [[] for _ in lines]
        for place, owner in enumerate(owners):
            places[owner].append(place)
        components: list[Component | None] = [None] * n
        absences = []
        for line, own in zip(lines, places, strict=True):
            for place, component in zip(own, line.components, strict=True):
                components[place] = component
            # An absence at the edge of its line is at the edge of the whole.
            place_of = [*own, n, -1]
            absences += [_renumber(absence, place_of.__getitem__) for absence in line.absences]
        yield Line(
            tuple(components),
            tuple(absences),
            tuple(option for line in lines for option in line.options),
            frozenset().union(*(line.not_taken for line in lines)),
        )


def _orders(counts: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the words that contain number i ``counts[i]`` times, in lexical order."""
    if not any(counts):
        yield ()
    for number, count in enumerate(counts):
        if count:
            rest = [*counts[:number], count - 1, *counts[number + 1 :]]
            for tail in _orders(rest):
                yield (number, *tail)


def refuse_too_many(n: int) -> None:
    """Raise if ``n`` exceeds the limit of branches."""
    if n > BRANCHES:
        raise UnsupportedQueryError(
            f"alternatives, orders and optional parts make more than {BRANCHES} patterns; "
            "leave out some of them, or some parts of all_of"
        )
