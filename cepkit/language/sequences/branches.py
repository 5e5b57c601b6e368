"""Normal form of a sequence query: branches without alternatives, each a row of components and conditions."""

# Optional parts, ``any_of`` and ``all_of`` become separate branches, and repeated groups are written out. A
# match of the query is a match of one branch. Every conjunct of the query becomes conditions on a branch; a
# condition says at which component it is decided and for which events.

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from math import factorial

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import with_parts
from cepkit.language.expressions.vocabulary import COUNTING
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    AllOf,
    AnyOf,
    EventPattern,
    Loop,
    SequenceOf,
    SequencePattern,
    SequenceQuery,
    event_patterns,
)
from cepkit.limits import BRANCHES
from cepkit.values import dataclass, replace

# Lines of a sequence pattern: rows of components and absent events, without alternatives.
#
# Optional parts, ``any_of`` and ``all_of`` become separate lines, and repeated groups are written out round
# by round. A match of the pattern is a match of one line.


@dataclass(frozen=True, slots=True)
class Component:
    """One or more successive events of a branch that ``variable`` names."""

    # ``step`` says what may be skipped before the first event, ``inner`` what may be skipped between two
    # events. ``is_group`` says whether the variable can name several events, even if it names one here.
    # ``rounds`` lists the loops written out around it, with the number of the round.

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
    """The condition that no such event occurs after component ``after`` and before component ``before``."""

    # -1 and the number of components mean the edges of the window. A ``spanning`` absence, from ``all_of``,
    # begins after the first event of ``after`` and ends before the last event of ``before``. Any other
    # absence begins after the last event of ``after`` and ends before the first event of ``before``.
    # ``rounds`` has the same meaning as in `Component`.

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
            case EventPattern(variable=name, event_type=event_type):
                strategy = self.strategy
                return [
                    Line(
                        (Component(name, event_type, is_group=self.depth > 0, step=strategy, inner=strategy),)
                    )
                ]
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
        joined_lines = [Line()]
        for lines, step in zip(parts, steps, strict=True):
            joined_lines = [left.followed(right.entered(step)) for left in joined_lines for right in lines]
            refuse_too_many(len(joined_lines))
        return joined_lines

    def _lines_of_options(self, options: tuple[SequencePattern, ...]) -> list[Line]:
        option_lines = []
        for number, option in enumerate(options):
            others = _variables(other for other in options if other is not option)
            for line in self.lines(option):
                taken = (number, *line.options)
                option_lines.append(replace(line, options=taken, not_taken=line.not_taken | others))
        return option_lines

    def _repeated_event(self, loop: Loop) -> list[Line]:
        (line,) = self.lines(loop.body)
        taken = replace(
            line.components[0], low=max(1, loop.low), high=loop.high,
            is_group=self.depth > 0 or loop.high != 1, inner=loop.inner or self.strategy,
            preference=loop.preference, until=loop.until,
        )  # fmt: skip
        return [Line((taken,))] if loop.low else [Line((taken,)), Line()]

    def _repeated_group(self, loop: Loop) -> list[Line]:
        if loop.high is None:
            raise UnsupportedQueryError(
                f"'{loop}' repeats a group without a limit; limit it, as in times({max(1, loop.low)}, 5)"
            )
        loop_number = self.n_loops
        self.n_loops += 1
        self.depth += loop.high > 1
        body = [line for line in self.lines(loop.body) if line.components]  # every round takes an event
        self.depth -= loop.high > 1
        repeated_lines = [] if loop.low else [Line()]
        for n_rounds in range(max(1, loop.low), loop.high + 1):
            rounds = body if loop.high == 1 else None
            parts = [
                rounds or [line.in_round(loop_number, number) for line in body] for number in range(n_rounds)
            ]
            repeated_lines += self._sequence(parts, (None, *[loop.inner] * (n_rounds - 1)))
            refuse_too_many(len(repeated_lines))
        return repeated_lines

    def _all_of(self, pattern: AllOf) -> list[Line]:
        absent = [part.body for part in pattern.parts if isinstance(part, AbsentPattern)]
        present = [part for part in pattern.parts if not isinstance(part, AbsentPattern)]
        refuse_too_many(factorial(len(present)))
        merged_lines = []
        for chosen in itertools.product(*(self.lines(part) for part in present)):
            for line in _interleave(chosen):
                end = len(line.components) - 1
                spans = [Absence(e.variable, e.event_type, 0, end, spanning=True) for e in absent if end >= 0]
                merged_lines.append(replace(line, absences=(*line.absences, *spans)))
                refuse_too_many(len(merged_lines))
        return merged_lines


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
        for line, line_places in zip(lines, places, strict=True):
            for place, component in zip(line_places, line.components, strict=True):
                components[place] = component
            # An absence at the edge of its line is at the edge of the whole.
            new_place = {-1: -1, **dict(enumerate(line_places)), len(line_places): n}
            absences += [_renumber(absence, new_place.__getitem__) for absence in line.absences]
        yield Line(
            tuple(components), tuple(absences), tuple(option for line in lines for option in line.options),
            frozenset().union(*(line.not_taken for line in lines)),
        )  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class Condition:
    """One conjunct as a condition on a branch."""

    expression: ex.Expression  # must be true (not null) for the events that its references name
    components: tuple[tuple[str, int], ...]  # the component that each variable names
    decided_at: int  # the last of these components
    # Whether it is tested with every event that component ``decided_at`` takes. If False, it is tested once
    # the component is complete.
    each: bool
    # The absence whose variable the expression names, if any. The expression then says which events must not
    # occur.
    absence: int | None
    conjunct: int  # number of the conjunct in the query


@dataclass(frozen=True, slots=True)
class Branch:
    """One way to match a query; ``options`` holds the number of the option taken in each ``any_of``."""

    components: tuple[Component, ...]
    absences: tuple[Absence, ...]
    conditions: tuple[Condition, ...]
    options: tuple[int, ...] = ()


def branches(query: SequenceQuery) -> tuple[Branch, ...]:
    """Return the branches of ``query``, ordered by the options they take, then by their variables."""
    # Matches that consist of the same events have this order.
    lines = [line for line in lines_of(query.pattern, query.strategy) if line.components]
    refuse_too_many(len(lines))
    unsorted = [_branch(query, line) for line in lines]
    place = {name: i for i, name in enumerate(query.variables)}
    return tuple(
        sorted(unsorted, key=lambda branch: (branch.options, [place[c.variable] for c in branch.components]))
    )


def _branch(query: SequenceQuery, line: Line) -> Branch:
    order = [event.variable for event in event_patterns(query.pattern)]
    absent = query.absent_variables
    conditions = [
        condition
        for number, conjunct in enumerate(query.where)
        for condition in _conditions(conjunct, number, line, order, absent)
    ]
    return Branch(line.components, line.absences, tuple(conditions), line.options)


def _conditions(
    conjunct: ex.Expression, number: int, line: Line, order: list[str], absent: frozenset[str]
) -> Iterator[Condition]:
    """Yield a conjunct as conditions on a line: one for each choice of components and absence it names."""
    components = line.components
    names = referenced_variables(conjunct)
    negated = [name for name in names if name in absent]
    absences: list[int | None] = [None]
    if negated:
        absences = [i for i, absence in enumerate(line.absences) if absence.variable in negated]
    places = {
        name: [i for i, component in enumerate(components) if component.variable == name]
        for name in names
        if name not in absent
    }
    unbound = [name for name, positions in places.items() if not positions]
    if unbound:
        last = max(names, key=order.index)
        if set(unbound) & line.not_taken or (last in unbound and not _closes(conjunct, last)):
            return
        conjunct = _without(conjunct, frozenset(unbound))
        places = {name: positions for name, positions in places.items() if positions}
    for name, positions in places.items():
        if len(positions) > 1 and _closes(conjunct, name):
            raise UnsupportedQueryError(
                f"'{conjunct}' uses {name!r} of all rounds of a repeated group; "
                "only values of single rounds can be compared"
            )
    for absence, *chosen in itertools.product(absences, *places.values()):
        parts: list[Component | Absence] = [components[i] for i in chosen]
        if absence is not None:
            parts.append(line.absences[absence])
        if not _same_rounds(parts):
            continue
        place_of_name = dict(zip(places, chosen, strict=True))
        at = max(place_of_name.values(), default=0)
        latest = next((name for name, i in place_of_name.items() if i == at), None)
        each = latest is None or not components[at].is_group or _takes(conjunct, latest)
        yield Condition(conjunct, tuple(place_of_name.items()), at, each, absence, number)


def referenced_variables(expression: ex.Expression) -> tuple[str, ...]:
    """Return the variables that ``expression`` refers to, in reading order."""
    return tuple(dict.fromkeys(node.variable for node in expression.walk() if isinstance(node, ex.Reference)))


def _same_rounds(chosen: list[Component | Absence]) -> bool:
    round_of: dict[int, int] = {}
    return all(round_of.setdefault(loop, number) == number for part in chosen for loop, number in part.rounds)


def _references(
    expression: ex.Expression, *, in_aggregate: bool = False
) -> Iterator[tuple[ex.Reference, bool]]:
    """Yield every reference, and whether it is inside an aggregate."""
    if isinstance(expression, ex.Reference):
        yield expression, in_aggregate
    for child in expression.children():
        yield from _references(child, in_aggregate=in_aggregate or isinstance(expression, ex.Aggregate))


def _closes(expression: ex.Expression, variable: str) -> bool:
    """Return whether ``expression`` uses all events of ``variable``, or a certain one."""
    return any(
        (in_aggregate and reference.index is None)
        or reference.index == ex.LAST
        or type(reference.index) is int
        for reference, in_aggregate in _references(expression)
        if reference.variable == variable
    )


def _takes(expression: ex.Expression, variable: str) -> bool:
    """Return whether ``expression`` uses each event of ``variable`` as it is taken."""
    return any(
        reference.variable == variable
        and (
            reference.index in (ex.CURRENT, ex.BEFORE, ex.ALL_BEFORE)
            or (reference.index is None and not in_aggregate)
        )
        for reference, in_aggregate in _references(expression)
    )


def _without(expression: ex.Expression, unbound: frozenset[str]) -> ex.Expression:
    """Return ``expression`` with null for the values of ``unbound`` variables and 0 for their counts."""
    match expression:
        case ex.Reference(variable=variable) if variable in unbound:
            return ex.Literal(None, span=expression.span)
        case ex.Aggregate(function=function):  # over one variable, in an expression of its columns
            if any(reference.variable in unbound for reference, _ in _references(expression)):
                return ex.Literal(0 if function in COUNTING else None, span=expression.span)
    return with_parts(expression, ex.Expression, lambda part: _without(part, unbound))
