"""A sequence query in normal form: branches without alternatives, each a row of components and conditions.

Optional parts, ``any_of`` and ``all_of`` become branches of their own (a match of the query is a match of
one branch), repeated groups are written out, and every conjunct of the query is turned into the conditions it
puts on a branch: at which component each is decided, and for which events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from math import factorial

from cepkit.errors import UnsupportedQueryError
from cepkit.language import expressions as ex
from cepkit.language.sequence_query import SequenceQuery
from cepkit.language.sequences import (
    AbsentPattern,
    AllOf,
    AnyOf,
    EventPattern,
    Loop,
    SequenceOf,
    SequencePattern,
    event_patterns,
)

MAX_BRANCHES = 720  # six events in any order


@dataclass(frozen=True, slots=True)
class Component:
    """One or more events of a branch, one after the other, that ``variable`` stands for.

    ``step`` says what may be skipped before the first of them, ``inner`` between two of them; ``is_group``
    whether the variable stands for several events, also where there is one. ``rounds`` are the loops written
    out around it, with the number of the round.
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
    """No such event behind component ``after`` and in front of component ``before``.

    -1 and the number of components stand for the edges of the window. A ``spanning`` one, of ``all_of``,
    begins behind the first event of ``after`` and ends in front of the last of ``before``; the others begin
    behind the last of ``after`` and end in front of the first of ``before``. ``rounds`` as of a component.
    """

    variable: str
    event_type: str | int | bool | None
    after: int
    before: int
    spanning: bool = False
    rounds: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One conjunct as a branch has to fulfil it.

    Parameters
    ----------
    expression : Expression
        True, not null, for the events that its references name.
    components : tuple of (str, int)
        The component that each variable means.
    decided_at : int
        The last of these components.
    each : bool
        Whether it is tested with every event that component ``decided_at`` takes; else when the component is
        complete.
    absence : int, optional
        The absence whose variable the expression names: then it says which events must not occur.
    conjunct : int
        The number of the conjunct in the query.
    """

    expression: ex.Expression
    components: tuple[tuple[str, int], ...]
    decided_at: int
    each: bool
    absence: int | None
    conjunct: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One way to match a query; ``options`` are the numbers of the options taken in each ``any_of``."""

    components: tuple[Component, ...]
    absences: tuple[Absence, ...]
    conditions: tuple[Condition, ...]
    options: tuple[int, ...] = ()


def branches(query: SequenceQuery) -> tuple[Branch, ...]:
    """Return the branches of ``query``, ordered by the options they take, then by their variables.

    This is the order of matches that consist of the same events.

    Raises
    ------
    UnsupportedQueryError
        When a group is repeated without a limit, a value is asked of all rounds of a repeated group, or more
        than ``MAX_BRANCHES`` branches arise.
    """
    made = []
    for line in _Expansion(query.strategy).lines(query.pattern):
        if line.components:
            made.append(_branch(query, line))
        if len(made) > MAX_BRANCHES:
            raise UnsupportedQueryError(
                f"alternatives, orders and optional parts make more than {MAX_BRANCHES} patterns; "
                "leave some of them out, or fewer parts of all_of"
            )
    place = {name: i for i, name in enumerate(query.variables)}
    return tuple(
        sorted(made, key=lambda branch: (branch.options, [place[c.variable] for c in branch.components]))
    )


# --- lines: rows of components and absent events ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of components; absences count them as in a branch, so that rows can be put one behind another."""

    components: tuple[Component, ...] = ()
    absences: tuple[Absence, ...] = ()
    options: tuple[int, ...] = ()
    not_taken: frozenset[str] = frozenset()  # variables of the options that were not

    def followed(self, other: _Line) -> _Line:
        """Return this row and the other behind it."""
        n = len(self.components)
        return _Line(
            self.components + other.components,
            self.absences + tuple(_renumbered(absence, lambda c: c + n) for absence in other.absences),
            self.options + other.options,
            self.not_taken | other.not_taken,
        )

    def entered(self, step: str | None) -> _Line:
        """Return the row with ``step`` in front of its first component."""
        if step is None or not self.components:
            return self
        first, *others = self.components
        return replace(self, components=(replace(first, step=step), *others))

    def in_round(self, loop: int, number: int) -> _Line:
        """Return the row as a round of a loop."""

        def numbered(part):
            return replace(part, rounds=((loop, number), *part.rounds))

        return replace(
            self,
            components=tuple(map(numbered, self.components)),
            absences=tuple(map(numbered, self.absences)),
        )


def _renumbered(absence: Absence, new: Callable[[int], int]) -> Absence:
    return replace(absence, after=new(absence.after), before=new(absence.before))


@dataclass
class _Expansion:
    strategy: str
    n_loops: int = 0
    depth: int = 0  # of loops that allow more than one round

    def lines(self, pattern: SequencePattern) -> list[_Line]:
        match pattern:
            case EventPattern(variable=name, event_type=of):
                own = self.strategy
                return [_Line((Component(name, of, is_group=self.depth > 0, step=own, inner=own),))]
            case AbsentPattern(body=event):
                return [_Line((), (Absence(event.variable, event.event_type, -1, 0),))]
            case SequenceOf(parts=parts, steps=steps):
                return self._sequence([self.lines(part) for part in parts], steps)
            case AnyOf(options=options):
                return self._chosen(options)
            case AllOf():
                return self._all_of(pattern)
            case Loop(body=EventPattern()):
                return self._repeated_event(pattern)
            case Loop():
                return self._repeated_group(pattern)
        raise TypeError(f"no branches of {type(pattern).__name__}")

    def _sequence(self, parts: list[list[_Line]], steps: tuple[str | None, ...]) -> list[_Line]:
        made = [_Line()]
        for lines, step in zip(parts, steps, strict=True):
            made = [left.followed(right.entered(step)) for left in made for right in lines]
            _refuse_too_many(len(made))
        return made

    def _chosen(self, options: tuple[SequencePattern, ...]) -> list[_Line]:
        made = []
        for number, option in enumerate(options):
            others = _variables(other for other in options if other is not option)
            for line in self.lines(option):
                taken = (number, *line.options)
                made.append(replace(line, options=taken, not_taken=line.not_taken | others))
        return made

    def _repeated_event(self, loop: Loop) -> list[_Line]:
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
        return [_Line((taken,))] if loop.low else [_Line((taken,)), _Line()]

    def _repeated_group(self, loop: Loop) -> list[_Line]:
        if loop.high is None:
            raise UnsupportedQueryError(
                f"'{loop}' repeats a group without a limit; bound it, as in times({max(1, loop.low)}, 5)"
            )
        own = self.n_loops
        self.n_loops += 1
        self.depth += loop.high > 1
        body = [line for line in self.lines(loop.body) if line.components]  # every round takes an event
        self.depth -= loop.high > 1
        made = [] if loop.low else [_Line()]
        for n_rounds in range(max(1, loop.low), loop.high + 1):
            rounds = body if loop.high == 1 else None
            parts = [rounds or [line.in_round(own, number) for line in body] for number in range(n_rounds)]
            made += self._sequence(parts, (None, *[loop.inner] * (n_rounds - 1)))
            _refuse_too_many(len(made))
        return made

    def _all_of(self, pattern: AllOf) -> list[_Line]:
        absent = [part.body for part in pattern.parts if isinstance(part, AbsentPattern)]
        present = [part for part in pattern.parts if not isinstance(part, AbsentPattern)]
        _refuse_too_many(factorial(len(present)))
        made = []
        for chosen in itertools.product(*(self.lines(part) for part in present)):
            for line in _interleaved(chosen):
                end = len(line.components) - 1
                spans = [Absence(e.variable, e.event_type, 0, end, spanning=True) for e in absent if end >= 0]
                made.append(replace(line, absences=(*line.absences, *spans)))
                _refuse_too_many(len(made))
        return made


def _variables(options: Iterable[SequencePattern]) -> frozenset[str]:
    return frozenset(event.variable for option in options for event in event_patterns(option))


def _interleaved(lines: tuple[_Line, ...]) -> Iterator[_Line]:
    """Yield the rows made of all components in all orders in which each line keeps its own."""
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
            # What stands at the edge of its line stands at the edge of the whole.
            place_of = [*own, n, -1]
            absences += [_renumbered(absence, place_of.__getitem__) for absence in line.absences]
        yield _Line(
            tuple(components),
            tuple(absences),
            tuple(option for line in lines for option in line.options),
            frozenset().union(*(line.not_taken for line in lines)),
        )


def _orders(counts: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the words in which number i stands ``counts[i]`` times, in lexical order."""
    if not any(counts):
        yield ()
    for number, count in enumerate(counts):
        if count:
            rest = [*counts[:number], count - 1, *counts[number + 1 :]]
            for tail in _orders(rest):
                yield (number, *tail)


def _refuse_too_many(n: int) -> None:
    if n > MAX_BRANCHES:
        raise UnsupportedQueryError(
            f"alternatives, orders and optional parts make more than {MAX_BRANCHES} patterns; "
            "leave some of them out, or fewer parts of all_of"
        )


# --- conditions ------------------------------------------------------------------------------------------


def _branch(query: SequenceQuery, line: _Line) -> Branch:
    conditions = [
        condition
        for number, conjunct in enumerate(query.where)
        for condition in _conditions(query, conjunct, number, line)
    ]
    return Branch(line.components, line.absences, tuple(conditions), line.options)


def _conditions(
    query: SequenceQuery, conjunct: ex.Expression, number: int, line: _Line
) -> Iterator[Condition]:
    components = line.components
    names = referenced_variables(conjunct)
    order = [event.variable for event in event_patterns(query.pattern)]
    negated = [name for name in names if name in query.absent_variables]
    # Without an absent event one condition on the match, with one a condition for each of its places.
    absent: list[int | None] = [i for i, a in enumerate(line.absences) if a.variable in negated]
    if not negated:
        absent = [None]
    places = {
        name: [i for i, component in enumerate(components) if component.variable == name]
        for name in names
        if name not in query.absent_variables
    }
    unbound = [name for name, found in places.items() if not found]
    if unbound:
        if set(unbound) & line.not_taken:
            return
        last = max(names, key=order.index)
        if last in unbound and not _closes(conjunct, last):
            return
        conjunct = _without(conjunct, frozenset(unbound))
        places = {name: found for name, found in places.items() if found}
    for name, found in places.items():
        if len(found) > 1 and _closes(conjunct, name):
            raise UnsupportedQueryError(
                f"'{conjunct}' asks all rounds of a repeated group for {name!r}; "
                "only values of single rounds can be compared"
            )
    for absence, *chosen in itertools.product(absent, *places.values()):
        own = [components[i] for i in chosen]
        if not _same_rounds(own if absence is None else [*own, line.absences[absence]]):
            continue
        of = dict(zip(places, chosen, strict=True))
        at = max(of.values(), default=0)
        latest = next((name for name, i in of.items() if i == at), None)
        each = latest is None or not components[at].is_group or _takes(conjunct, latest)
        yield Condition(conjunct, tuple(of.items()), at, each, absence, number)


def referenced_variables(expression: ex.Expression) -> tuple[str, ...]:
    """Return the variables that ``expression`` refers to, in reading order."""
    return tuple(dict.fromkeys(node.variable for node in expression.walk() if isinstance(node, ex.Reference)))


def _same_rounds(chosen: list[Component | Absence]) -> bool:
    round_of: dict[int, int] = {}
    return all(round_of.setdefault(loop, number) == number for part in chosen for loop, number in part.rounds)


def _references(
    expression: ex.Expression, *, in_aggregate: bool = False
) -> Iterator[tuple[ex.Reference, bool]]:
    """Yield every reference and whether it stands in an aggregate."""
    if isinstance(expression, ex.Reference):
        yield expression, in_aggregate
    for child in expression.children():
        yield from _references(child, in_aggregate=in_aggregate or isinstance(expression, ex.Aggregate))


def _closes(expression: ex.Expression, variable: str) -> bool:
    """Whether ``expression`` asks for a value of all events of ``variable``, or for a certain one."""
    return any(
        (in_aggregate and reference.index is None)
        or reference.index == ex.LAST
        or type(reference.index) is int
        for reference, in_aggregate in _references(expression)
        if reference.variable == variable
    )


def _takes(expression: ex.Expression, variable: str) -> bool:
    """Whether ``expression`` looks at each event of ``variable`` as it is taken."""
    return any(
        reference.variable == variable
        and (
            reference.index in (ex.CURRENT, ex.BEFORE, ex.ALL_BEFORE)
            or (reference.index is None and not in_aggregate)
        )
        for reference, in_aggregate in _references(expression)
    )


def _without(expression: ex.Expression, unbound: frozenset[str]) -> ex.Expression:
    """Return ``expression`` with null for the values of ``unbound`` variables, and 0 for their number."""
    match expression:
        case ex.Reference(variable=variable):
            return ex.Literal(None, span=expression.span) if variable in unbound else expression
        case ex.Aggregate(function=function, operand=ex.Reference(variable=variable)) if variable in unbound:
            return ex.Literal(0 if function == "count" else None, span=expression.span)
    changed = {}
    for item in fields(expression):
        value = getattr(expression, item.name)
        if isinstance(value, ex.Expression):
            changed[item.name] = _without(value, unbound)
        elif isinstance(value, tuple) and any(isinstance(part, ex.Expression) for part in value):
            changed[item.name] = tuple(
                _without(part, unbound) if isinstance(part, ex.Expression) else part for part in value
            )
    return replace(expression, **changed) if changed else expression
