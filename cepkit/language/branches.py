"""A sequence query in normal form: branches without alternatives, each a row of components and conditions.

Optional parts, ``any_of`` and ``all_of`` become branches of their own (a match of the query is a match of
one branch), repeated groups are written out, and every conjunct of the query is turned into the conditions it
puts on a branch: at which component each is decided, and for which events.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
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
    behind the last of ``after`` and end in front of the first of ``before``.
    """

    variable: str
    event_type: str | int | bool | None
    after: int
    before: int
    spanning: bool = False


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
        if any(isinstance(item, Component) for item in line.items):
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
class _Spanning:
    """An absent event of ``all_of``: from the ``first`` to the ``last`` of its components, as they count."""

    event: EventPattern
    first: Component
    last: Component


@dataclass(frozen=True, slots=True)
class _Line:
    items: tuple[Component | AbsentPattern | _Spanning, ...]
    options: tuple[int, ...] = ()
    not_taken: frozenset[str] = frozenset()  # variables of the other options


@dataclass
class _Expansion:
    strategy: str
    n_loops: int = 0
    in_group: list[int] = field(default_factory=list)

    def lines(self, pattern: SequencePattern) -> list[_Line]:
        match pattern:
            case EventPattern():
                is_group = bool(self.in_group)
                component = Component(
                    pattern.variable,
                    pattern.event_type,
                    is_group=is_group,
                    step=self.strategy,
                    inner=self.strategy,
                )
                return [_Line((component,))]
            case AbsentPattern():
                return [_Line((pattern,))]
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

    def _chosen(self, options: tuple[SequencePattern, ...]) -> list[_Line]:
        made = []
        for number, option in enumerate(options):
            others = _variables(other for other in options if other is not option)
            for line in self.lines(option):
                taken = (number, *line.options)
                made.append(replace(line, options=taken, not_taken=line.not_taken | others))
        return made

    def _sequence(self, parts: list[list[_Line]], steps: tuple[str | None, ...]) -> list[_Line]:
        joined = [_Line(())]
        for lines, step in zip(parts, steps, strict=True):
            entered = [_entered(line, step) for line in lines]
            joined = [
                _Line(
                    left.items + right.items, left.options + right.options, left.not_taken | right.not_taken
                )
                for left in joined
                for right in entered
            ]
            _refuse_too_many(len(joined))
        return joined

    def _repeated_event(self, loop: Loop) -> list[_Line]:
        (line,) = self.lines(loop.body)
        (component,) = line.items
        taken = replace(
            component,
            low=max(1, loop.low),
            high=loop.high,
            is_group=component.is_group or loop.high != 1,
            inner=loop.inner or self.strategy,
            preference=loop.preference,
            until=loop.until,
        )
        return [_Line((taken,))] if loop.low else [_Line((taken,)), _Line(())]

    def _repeated_group(self, loop: Loop) -> list[_Line]:
        if loop.high is None:
            raise UnsupportedQueryError(
                f"'{loop}' repeats a group without a limit; bound it, as in times({max(1, loop.low)}, 5)"
            )
        own = self.n_loops
        self.n_loops += 1
        if loop.high > 1:
            self.in_group.append(own)
        body = self.lines(loop.body)
        if loop.high > 1:
            self.in_group.pop()
        made = [] if loop.low else [_Line(())]
        for n_rounds in range(max(1, loop.low), loop.high + 1):
            rounds = [[_in_round(line, own, number) for line in body] for number in range(n_rounds)]
            steps = (None, *[loop.inner] * (n_rounds - 1))
            made += self._sequence(rounds, steps)
            _refuse_too_many(len(made))
        return made

    def _all_of(self, pattern: AllOf) -> list[_Line]:
        absent = [part for part in pattern.parts if isinstance(part, AbsentPattern)]
        present = [part for part in pattern.parts if not isinstance(part, AbsentPattern)]
        _refuse_too_many(factorial(len(present)))
        made = []
        for chosen in itertools.product(*(self.lines(part) for part in present)):
            options = tuple(option for line in chosen for option in line.options)
            not_taken = frozenset().union(*(line.not_taken for line in chosen))
            for items in _interleaved([line.items for line in chosen]):
                _refuse_too_many(len(made))
                own = [item for item in items if isinstance(item, Component)]
                spans = [_Spanning(part.body, own[0], own[-1]) for part in absent] if own else []
                made.append(_Line((*items, *spans), options, not_taken))
        return made


def _variables(options: Iterable[SequencePattern]) -> frozenset[str]:
    return frozenset(event.variable for option in options for event in event_patterns(option))


def _entered(line: _Line, step: str | None) -> _Line:
    """Return the line with ``step`` in front of its first component."""
    if step is None:
        return line
    items = list(line.items)
    for i, item in enumerate(items):
        if isinstance(item, Component):
            items[i] = replace(item, step=step)
            items = [_renamed(other, item, items[i]) for other in items]
            break
    return replace(line, items=tuple(items))


def _in_round(line: _Line, loop: int, number: int) -> _Line:
    items = list(line.items)
    for item in [item for item in items if isinstance(item, Component)]:
        numbered = replace(item, rounds=((loop, number), *item.rounds))
        items = [numbered if other is item else _renamed(other, item, numbered) for other in items]
    return replace(line, items=tuple(items))


def _renamed(item, old: Component, new: Component):
    if isinstance(item, _Spanning):
        return replace(
            item, first=new if item.first == old else item.first, last=new if item.last == old else item.last
        )
    return item


def _interleaved(lines: list[tuple]) -> Iterator[tuple]:
    """Yield all orders of the items in which each line keeps its own."""
    if not any(lines):
        yield ()
        return
    for i, line in enumerate(lines):
        if line:
            rest = [*lines[:i], line[1:], *lines[i + 1 :]]
            for tail in _interleaved(rest):
                yield (line[0], *tail)


def _refuse_too_many(n: int) -> None:
    if n > MAX_BRANCHES:
        raise UnsupportedQueryError(
            f"alternatives, orders and optional parts make more than {MAX_BRANCHES} patterns; "
            "leave some of them out, or fewer parts of all_of"
        )


# --- conditions ------------------------------------------------------------------------------------------


def _branch(query: SequenceQuery, line: _Line) -> Branch:
    components = tuple(item for item in line.items if isinstance(item, Component))
    absences = []
    n_seen = 0
    for item in line.items:
        match item:
            case Component():
                n_seen += 1
            case AbsentPattern(body=event):
                absences.append(Absence(event.variable, event.event_type, n_seen - 1, n_seen))
            case _Spanning(event=event, first=first, last=last):
                ends = components.index(first), components.index(last)
                absences.append(Absence(event.variable, event.event_type, *ends, spanning=True))
    conditions = [
        condition
        for number, conjunct in enumerate(query.where)
        for condition in _conditions(query, conjunct, number, components, tuple(absences), line.not_taken)
    ]
    return Branch(components, tuple(absences), tuple(conditions), line.options)


def _conditions(query, conjunct, number, components, absences, not_taken) -> Iterator[Condition]:
    names = referenced_variables(conjunct)
    order = [event.variable for event in event_patterns(query.pattern)]
    absent = {absence.variable: i for i, absence in enumerate(absences)}
    negated = [name for name in names if name in query.absent_variables]
    if negated and negated[0] not in absent:
        return  # its part of the pattern is not in this branch
    places = {
        name: [i for i, component in enumerate(components) if component.variable == name]
        for name in names
        if name not in query.absent_variables
    }
    unbound = [name for name, found in places.items() if not found]
    if unbound:
        if set(unbound) & not_taken:
            return
        last = max(names, key=order.index)
        if last in unbound and not _closes(conjunct, last):
            return
        conjunct = _without(conjunct, frozenset(unbound))
        places = {name: found for name, found in places.items() if found}
    for chosen in itertools.product(*places.values()):
        if not _same_rounds([components[i] for i in chosen]):
            continue
        of = dict(zip(places, chosen, strict=True))
        for name, found in places.items():
            if len(found) > 1 and _closes(conjunct, name):
                raise UnsupportedQueryError(
                    f"'{conjunct}' asks all rounds of a repeated group for {name!r}; "
                    "only values of single rounds can be compared"
                )
        at = max(of.values(), default=0)
        latest = next((name for name, i in of.items() if i == at), None)
        each = latest is None or not components[at].is_group or _takes(conjunct, latest)
        yield Condition(
            conjunct, tuple(of.items()), at, each, absent[negated[0]] if negated else None, number
        )


def referenced_variables(expression: ex.Expression) -> tuple[str, ...]:
    """Return the variables that ``expression`` refers to, in reading order."""
    return tuple(dict.fromkeys(node.variable for node in expression.walk() if isinstance(node, ex.Reference)))


def _same_rounds(chosen: list[Component]) -> bool:
    round_of: dict[int, int] = {}
    return all(
        round_of.setdefault(loop, number) == number
        for component in chosen
        for loop, number in component.rounds
    )


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
