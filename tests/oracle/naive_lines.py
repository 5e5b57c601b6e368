"""Sequence patterns without alternatives, and what a query's conjuncts ask of one: for the reference meaning.

Knows the trees of ``cepkit.language`` and nothing else of cepkit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import naive

Row = Mapping[str, Any]
Rows = Sequence[Row]
Rounds = tuple[tuple[int, int], ...]  # loops around something, each with the number of the round

# --- lines -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Slot:
    """One component of a line: ``low`` to ``high`` events that ``variable`` stands for."""

    variable: str
    event_type: Any
    low: int = 1
    high: int | None = 1
    is_group: bool = False
    inner: str | None = None
    preference: str = "all"
    until: ex.Expression | None = None
    rounds: Rounds = ()


@dataclass(frozen=True, eq=False)
class Absent:
    """No such event between two components, None standing for the edge of the line.

    A spanning one reaches from the first event of ``after`` to the last of ``before``, others from the last
    of ``after`` to the first of ``before``.
    """

    event: sq.EventPattern
    after: Slot | None
    before: Slot | None
    spanning: bool
    rounds: Rounds


@dataclass(frozen=True, eq=False)
class Line:
    """Components in order of time, ``steps`` lead to them; ``declined``: variables of options not taken."""

    slots: tuple[Slot, ...] = ()
    steps: tuple[str | None, ...] = ()
    absences: tuple[Absent, ...] = ()
    options: tuple[int, ...] = ()
    declined: frozenset[str] = frozenset()


def lines(pattern: sq.SequencePattern, rounds: Rounds = ()) -> list[Line]:
    """Return the patterns without alternatives whose matches together are those of ``pattern``.

    Each call makes components of its own; ``rounds`` are the loops that ``pattern`` stands in.
    """
    match pattern:
        case sq.EventPattern(variable=variable, event_type=event_type):
            if pattern.conditions:
                raise ValueError(f"the conditions of {variable!r} belong into the query's where")
            return [Line((Slot(variable, event_type, is_group=bool(rounds), rounds=rounds),), (None,))]
        case sq.AbsentPattern(body=event):
            return [Line(absences=(Absent(event, None, None, False, rounds),))]
        case sq.SequenceOf(parts=parts, steps=steps):
            made = [Line()]
            for part, step in zip(parts, steps, strict=True):
                made = [_followed(left, right, step) for left in made for right in lines(part, rounds)]
            return made
        case sq.AnyOf(options=options):
            return [
                _taken(line, number, options)
                for number, option in enumerate(options)
                for line in lines(option, rounds)
            ]
        case sq.AllOf(parts=parts):
            absent = [part.body for part in parts if isinstance(part, sq.AbsentPattern)]
            present = [lines(part, rounds) for part in parts if not isinstance(part, sq.AbsentPattern)]
            return [
                line
                for chosen in itertools.product(*present)
                for line in _in_all_orders(chosen, absent, rounds)
            ]
        case sq.Loop(body=sq.EventPattern()):
            [line] = lines(pattern.body, rounds)
            slot = replace(
                line.slots[0],
                low=max(1, pattern.low),
                high=pattern.high,
                is_group=bool(rounds) or pattern.high != 1,
                inner=pattern.inner,
                preference=pattern.preference,
                until=pattern.until,
            )
            repeated = replace(line, slots=(slot,))
            return [repeated] if pattern.low else [repeated, Line()]
        case sq.Loop():
            return _written_out(pattern, rounds)
    raise TypeError(f"no meaning for pattern {type(pattern).__name__}")


def _written_out(loop: sq.Loop, rounds: Rounds) -> list[Line]:
    """Return the lines of a repeated group; every round takes an event."""
    if loop.high is None or loop.preference != "all" or loop.until is not None:
        raise ValueError(f"no meaning for a group repeated without limit, with a preference or until: {loop}")
    made = [] if loop.low else [Line()]
    for n_rounds in range(max(1, loop.low), loop.high + 1):
        longer = [Line()]
        for number in range(n_rounds):
            around = (*rounds, (id(loop), number)) if loop.high > 1 else rounds
            body = [line for line in lines(loop.body, around) if line.slots]
            step = loop.inner if number else None
            longer = [_followed(left, right, step) for left in longer for right in body]
        made += longer
    return made


def _followed(left: Line, right: Line, step: str | None) -> Line:
    """Return ``right`` behind ``left``; ``step``, where given, leads to the first component of ``right``."""
    steps = (step or right.steps[0], *right.steps[1:]) if right.slots else ()
    closed = [
        replace(absent, before=right.slots[0]) if right.slots and absent.before is None else absent
        for absent in left.absences
    ]
    opened = [
        replace(absent, after=left.slots[-1]) if left.slots and absent.after is None else absent
        for absent in right.absences
    ]
    return Line(
        left.slots + right.slots,
        left.steps + steps,
        (*closed, *opened),
        left.options + right.options,
        left.declined | right.declined,
    )


def _taken(line: Line, number: int, options: Sequence[sq.SequencePattern]) -> Line:
    """Return the line of option ``number`` as one of the ``any_of``."""
    others = {
        event.variable
        for other, option in enumerate(options)
        if other != number
        for event in sq.event_patterns(option)
    }
    return replace(line, options=(number, *line.options), declined=line.declined | others)


def _in_all_orders(chosen: Sequence[Line], absent: Sequence[sq.EventPattern], rounds) -> Iterator[Line]:
    """Yield the lines that are made of all components of ``chosen``, each line keeping its own order."""
    owners = [number for number, line in enumerate(chosen) for _ in line.slots]
    for order in dict.fromkeys(itertools.permutations(owners)):
        places = [list(zip(line.slots, line.steps, strict=True)) for line in chosen]
        merged = [places[owner].pop(0) for owner in order]
        slots = tuple(slot for slot, _ in merged)
        yield Line(
            slots,
            tuple(step for _, step in merged),
            (
                *(own for line in chosen for own in line.absences),
                *(Absent(event, slots[0], slots[-1], True, rounds) for event in absent if slots),
            ),
            tuple(option for line in chosen for option in line.options),
            frozenset().union(*(line.declined for line in chosen)),
        )


# --- conditions ------------------------------------------------------------------------------------------

TAKEN, BEFORE_TAKEN = (ex.CURRENT, ex.BEFORE, ex.ALL_BEFORE), (ex.BEFORE, ex.ALL_BEFORE)


@dataclass(frozen=True, slots=True)
class Uses:
    """How an expression uses a variable: looks at each event, at the ones before it, at the whole group."""

    each: bool = False
    before: bool = False
    whole: bool = False


@cache
def uses_of_variable(expression: ex.Expression) -> Mapping[str, Uses]:
    """Return how ``expression`` uses each variable that it names."""
    found: dict[str, Uses] = {}

    def visit(node: ex.Expression, in_aggregate: bool) -> None:
        if isinstance(node, ex.Reference):
            each = node.index in TAKEN or (node.index is None and not in_aggregate)
            known = found.get(node.variable, Uses())
            found[node.variable] = Uses(
                known.each or each, known.before or node.index in BEFORE_TAKEN, known.whole or not each
            )
        for child in node.children():
            visit(child, in_aggregate or isinstance(node, ex.Aggregate))

    visit(expression, False)
    return found


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct with a component for each of its variables, by its place in the line.

    It is decided at the last of them: ``each`` with every event that one takes, else once it is complete.
    """

    expression: ex.Expression
    uses: Mapping[str, Uses]
    place_of: Mapping[str, int]
    decided_at: int
    each: bool


@dataclass(frozen=True, slots=True)
class Binding(naive.Place):
    """Where a condition is evaluated: with the events of each variable, and which of them is meant."""

    events_of: Mapping[str, Rows] = field(default_factory=dict)
    current_of: Mapping[str, int] = field(default_factory=dict)

    def value(self, expression: ex.Expression) -> Any:
        """Return the value of ``expression`` here, None for null; NaN is null."""
        match expression:
            case ex.Reference(variable=variable, name=str(name), index=index):
                events = self.events_of.get(variable, ())
                current = self.current_of.get(variable, 0)
                if isinstance(index, int):
                    current = index - 1
                elif index == ex.LAST:
                    current = len(events) - 1
                elif index == ex.BEFORE:
                    current -= 1
                return naive.without_nan(events[current][name]) if 0 <= current < len(events) else None
            case ex.Aggregate(function=function, operand=operand):
                return self.aggregate(function, operand)
        return naive.Place.value(self, expression)

    def aggregate(self, function: str, operand: ex.Expression) -> Any:
        """Return an aggregate over the events of the one variable in ``operand``."""
        named = {(node.variable, node.index) for node in operand.walk() if isinstance(node, ex.Reference)}
        [(variable, index)] = named
        if index not in (None, ex.ALL_BEFORE):
            raise ValueError(f"no meaning for {function} over {variable}[{index}]")
        events = self.events_of.get(variable, ())
        if index == ex.ALL_BEFORE:
            events = events[: self.current_of.get(variable, 0)]
        if isinstance(operand, ex.Reference) and operand.name is None:
            return naive.aggregated(function, [1 for _ in events])
        moved = (replace(self, current_of={**self.current_of, variable: i}) for i in range(len(events)))
        return naive.aggregated(function, [place.value(operand) for place in moved])


def conditions(
    query: SequenceQuery, line: Line, expression: ex.Expression, absent: Absent | None = None
) -> Iterator[Condition]:
    """Yield what a conjunct asks of ``line``; of an absent event when it names that."""
    if not line.slots:
        return  # no event, so no match
    uses = uses_of_variable(expression)
    own = {} if absent is None else {absent.event.variable: absent.rounds}
    names = [name for name in uses if name not in own]
    if query.absent_variables.intersection(names):
        return  # about another absent event
    places = {name: [i for i, slot in enumerate(line.slots) if slot.variable == name] for name in names}
    unbound = {name for name in names if not places[name]}
    if unbound & line.declined:
        return
    reading_order = [event.variable for event in sq.event_patterns(query.pattern)]
    latest = max(uses, key=reading_order.index, default=None)
    if latest in unbound and not uses[latest].whole:
        return
    bound = [name for name in names if name not in unbound]
    for name in bound:
        is_loop = all(line.slots[i].high != 1 for i in places[name])
        if (uses[name].whole and len(places[name]) > 1) or (
            uses[name].before and not is_loop and line.slots[places[name][0]].is_group
        ):
            raise ValueError(f"{expression} asks for events of several rounds of the group of {name!r}")
    for chosen in itertools.product(*(places[name] for name in bound)):
        rounds = [line.slots[i].rounds for i in chosen] + list(own.values())
        if not same_rounds(rounds):
            continue
        decided_at = max(chosen, default=0)
        at_last = [uses[name] for name, i in zip(bound, chosen, strict=True) if i == decided_at]
        each = not line.slots[decided_at].is_group or not at_last or any(use.each for use in at_last)
        yield Condition(expression, uses, dict(zip(bound, chosen, strict=True)), decided_at, each)


def same_rounds(rounds_of_slots: Sequence[Rounds]) -> bool:
    """Return whether no two of them are different rounds of one loop."""
    round_of_loop: dict[int, int] = {}
    return all(
        round_of_loop.setdefault(loop, number) == number
        for rounds in rounds_of_slots
        for loop, number in rounds
    )
