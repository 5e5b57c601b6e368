"""A sequence query bound to a schema: per branch, the conditions on single events and all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cepkit.compile.sequences.elements import EACH, ElementBinder
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.terms import Term
from cepkit.errors import CepError
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.sequences.branches import Branch, Condition, branches, referenced_variables
from cepkit.language.sequences.query import SequenceQuery

CLOCKS = (INTEGER, FLOAT, TIME, DURATION)


@dataclass(frozen=True, slots=True)
class BoundCondition:
    """A condition of a branch and its truth term."""

    condition: Condition
    term: Term

    @property
    def component_of_variable(self) -> dict[str, int]:
        """Component of each variable in the term."""
        return dict(self.condition.components)


@dataclass(frozen=True, slots=True)
class BoundBranch:
    """A branch with its conditions bound."""

    branch: Branch  # the components, absences and conditions of the query
    # Per component, the conditions on a single event, its type first. Their leaves name the component's
    # variable and mean each of its events.
    accepts: tuple[tuple[Term, ...], ...]
    absent_accepts: tuple[tuple[Term, ...], ...]  # the same per absence
    conditions: tuple[BoundCondition, ...]  # all other conditions
    # Per component, the condition that ends its loop; its ``column`` leaves mean the event that may end it.
    untils: tuple[Term | None, ...]

    def terms(self) -> Iterator[Term]:
        """Yield every term."""
        for terms in (*self.accepts, *self.absent_accepts):
            yield from terms
        yield from (bound.term for bound in self.conditions)
        yield from (term for term in self.untils if term is not None)


@dataclass(frozen=True, slots=True)
class MatchWindow:
    """Limits on time and number, in ticks of the clock; None means no limit."""

    within: int | float | None = None
    gap_within: int | float | None = None
    closed: bool = True
    within_events: int | None = None
    strict_time: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether nothing fits: the window ends before it begins."""
        within = self.within
        return within is not None and (within < 0 or (within == 0 and not self.closed))


_ALL_EVENTS = 2**62  # a window of more events is no limit; sums with a place fit into 64 bits


@dataclass(frozen=True)
class SequenceProgram(BoundQuery):
    """A sequence query bound to the columns of one schema."""

    query: SequenceQuery
    branches: tuple[BoundBranch, ...]
    window: MatchWindow = field(default_factory=MatchWindow)

    def terms(self) -> Iterator[Term]:
        """Yield every term of every branch."""
        for bound in self.branches:
            yield from bound.terms()

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """Columns that engines need: those of the conditions, and the clock."""
        window = self.window
        timed = window.within is not None or window.gap_within is not None or window.strict_time
        clock = (self.clock,) if timed and self.clock else ()
        return tuple(dict.fromkeys((*self.columns, *clock)))

    @property
    def can_be_forbidden_later(self) -> bool:
        """Whether an event after a match can forbid the match."""
        return any(a.before >= len(b.branch.components) for b in self.branches for a in b.branch.absences)

    @property
    def clock(self) -> str | None:
        """Column that is the clock, if the query needs one."""
        return self.query.order_by[0] if self.query.order_by else None

    def given_order(self, bound: BoundBranch) -> tuple[int, ...] | None:
        """Return the components of a branch in the user's ``evaluation_order``, or None without one."""
        named = self.query.evaluation_order
        if not named:
            return None
        place = {variable: i for i, variable in enumerate(named)}
        components = bound.branch.components
        return tuple(sorted(range(len(components)), key=lambda c: place[components[c].variable]))


def compile_sequence(query: SequenceQuery, schema: Mapping[str, ColumnType]) -> SequenceProgram:
    """Bind ``query`` to ``schema``.

    The branches share terms and constants, so equal conditions are computed once.
    """
    binder = ElementBinder(schema, query)
    bound = tuple(_bound(binder, branch) for branch in branches(query))
    leaves = [leaf for one in bound for root in one.terms() for leaf in root.walk()]
    every = {leaf.data for leaf in leaves if leaf.op == "column"}
    every |= {leaf.data[-1] for leaf in leaves if leaf.op == "element"}
    return SequenceProgram(
        query=query,
        schema=schema,
        **binder.collected(every),
        branches=bound,
        window=_window(query, schema),
    )


def _bound(binder: ElementBinder, branch: Branch) -> BoundBranch:
    accepts = [_type_terms(binder, c.variable, c.event_type) for c in branch.components]
    absent = [_type_terms(binder, a.variable, a.event_type) for a in branch.absences]
    conditions = []
    for condition in branch.conditions:
        term = binder.predicate(f"condition {condition.conjunct + 1}", condition.expression)
        names = referenced_variables(condition.expression)
        if len(names) == 1 and _looks_at_each_alone(term):
            (absent if condition.absence is not None else accepts)[
                condition.decided_at if condition.absence is None else condition.absence
            ].append(term)
        else:
            conditions.append(BoundCondition(condition, term))
    untils = [
        None if c.until is None else binder.predicate(f"until of {c.variable!r}", c.until)
        for c in branch.components
    ]
    return BoundBranch(
        branch, tuple(map(tuple, accepts)), tuple(map(tuple, absent)), tuple(conditions), tuple(untils)
    )


def _looks_at_each_alone(term: Term) -> bool:
    return all(leaf.op != "group" and (leaf.op != "element" or leaf.data[1] == EACH) for leaf in term.walk())


def _type_terms(binder: ElementBinder, variable: str, event_type: str | int | bool | None) -> list[Term]:
    if event_type is None:
        return []
    column = binder.query.event_type
    if column is None:
        raise CepError(
            f"event {variable!r} is of type {event_type!r}, but no column of types is given; "
            "name it with event_type='…'"
        )
    type_of = ex.Comparison("==", ex.Reference(variable, column), ex.Literal(event_type))
    return [binder.predicate("event_type", type_of)]


def _window(query: SequenceQuery, schema: Mapping[str, ColumnType]) -> MatchWindow:
    clock = query.order_by[0] if query.order_by else None
    asked = {
        "within": query.within, "gap_within": query.gap_within, "strict_time": query.strict_time or None
    }  # fmt: skip
    needs = [name for name, value in asked.items() if value is not None]
    if needs and clock is None:
        raise CepError(f"{needs[0]} needs a clock: give order_by, a column of times or integers")
    of = schema.get(clock)
    if needs and of is not None and of.kind not in CLOCKS:
        raise CepError(f"{needs[0]} needs a clock; order_by column {clock!r} is of type {of}")
    unit = None if of is None else of.unit

    def ticks(name: str, value: object) -> int | float | None:
        if value is None:
            return None
        if unit is None:
            if not isinstance(value, int | float):
                raise unit_missing(name, value, clock)
            return value
        return duration_ticks(value, unit)

    return MatchWindow(
        within=ticks("within", query.within),
        gap_within=ticks("gap_within", query.gap_within),
        closed=query.within_closed,
        within_events=None if query.within_events is None else min(query.within_events, _ALL_EVENTS),
        strict_time=query.strict_time,
    )
