"""Normal form of a sequence query: branches without alternatives, each a row of components and conditions.

Optional parts, ``any_of`` and ``all_of`` become separate branches, and repeated groups are written out. A
match of the query is a match of one branch. Every conjunct of the query becomes conditions on a branch; a
condition says at which component it is decided and for which events.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import with_parts
from cepkit.language.sequences.lines import Absence, Component, Line, lines_of, refuse_too_many
from cepkit.language.sequences.patterns import event_patterns
from cepkit.language.sequences.query import SequenceQuery


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
    """Return the branches of ``query``, ordered by the options they take, then by their variables.

    Matches that consist of the same events have this order.
    """
    lines = [line for line in lines_of(query.pattern, query.strategy) if line.components]
    refuse_too_many(len(lines))
    made = [_branch(query, line) for line in lines]
    place = {name: i for i, name in enumerate(query.variables)}
    return tuple(
        sorted(made, key=lambda branch: (branch.options, [place[c.variable] for c in branch.components]))
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
    components = line.components
    names = referenced_variables(conjunct)
    negated = [name for name in names if name in absent]
    # One condition on the match if nothing is absent, else one condition for each place of the absence.
    absences: list[int | None] = [i for i, a in enumerate(line.absences) if a.variable in negated]
    if not negated:
        absences = [None]
    places = {
        name: [i for i, component in enumerate(components) if component.variable == name]
        for name in names
        if name not in absent
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
                f"'{conjunct}' uses {name!r} of all rounds of a repeated group; "
                "only values of single rounds can be compared"
            )
    for absence, *chosen in itertools.product(absences, *places.values()):
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
        case ex.Aggregate(function=function, operand=ex.Reference(variable=variable)) if variable in unbound:
            return ex.Literal(0 if function == "count" else None, span=expression.span)
    return with_parts(expression, ex.Expression, lambda part: _without(part, unbound))
