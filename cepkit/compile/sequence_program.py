"""A sequence query bound to a schema: per branch, the conditions on single events and all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from cepkit.compile.shared.binding import Binder, holds_lists
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.operations import as_numbers, as_truth, end_in_ticks, mean, refuse_list, summarised
from cepkit.compile.shared.terms import ALWAYS, EVENT, NEVER, Constant, Prepared, Term, comparison
from cepkit.errors import CepError, PredicateError
from cepkit.events import DURATION, FLOAT, INTEGER, LIST, NUMBERS, TEXT, TIME, WHOLE, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.expressions.vocabulary import SUMMARIES, SUMMED
from cepkit.language.sequences.branches import Branch, Condition, branches, referenced_variables
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.values import dataclass, field, replace

# Bind conditions on several events: ``b[i-1].price`` becomes a leaf, one event and one column.

# Which event of its variable an element means, unless it is a whole number k for the k-th: each in turn
# (for a single event: the event), the one before it, the last one, and the one that an aggregate is at.
EACH, PREVIOUS, LAST, ITEM = "each", "previous", "last", "item"
# Ranges of an aggregate.
ALL, EARLIER = "all", "earlier"


class ElementBinder(Binder):
    """A binder that also binds values of the events of a match."""

    # Its leaves are ``element`` terms with data (variable, which event, column), and ``group`` terms with
    # data (aggregate, variable, which events). The argument of a group is computed for each of its events. An
    # element with the argument ``ALWAYS`` is null only where its event is missing.

    range_of_aggregate: str | None = None  # while binding an aggregate's argument

    def _bind(self, expression: ex.Expression) -> Term:
        match expression:
            case ex.Reference():
                return self._reference(expression)
            case ex.Subscript(operand=ex.Reference(name=str()) as reference):
                item = ex.Subscript(ex.Attribute(reference.name, span=reference.span), expression.index)
                return self._element(reference, super()._bind(item))
            case ex.Aggregate():
                return self._aggregate(expression)
            case ex.Previous():
                raise self.wrong(
                    expression, "prev() belongs to regex patterns; write b[i-1].x, or name the event"
                )
            case ex.Call(function="next"):
                raise self.wrong(expression, "next() belongs to regex patterns; name the later event")
        return super()._bind(expression)

    def _reference(self, e: ex.Reference) -> Term:
        if e.name is None:
            raise self.wrong(
                e, f"{e.variable!r} is an event; name one of its columns, as in {e.variable}.price"
            )
        return self._element(e, self._column_of(e, self.column_type(e, e.name)))

    def _column_of(self, e: ex.Reference, of: ColumnType) -> Term:
        """Return the term of the column that a reference names; lists are refused."""
        if of.kind == LIST:
            raise self.wrong(e, holds_lists(e.name, e))
        return self._column(e.name, of, e)

    def _element(self, e: ex.Reference, column: Term) -> Term:
        """Return the term of a column of the event that a reference such as ``b[i].x`` means."""
        which = self._which(e)
        may_miss = isinstance(which, int)
        data = (e.variable, which, column.data)
        existence = (ALWAYS,) if may_miss and not column.nullable and column.kind in WHOLE else ()
        return Term("element", existence, column.kind, column.unit, column.nullable or may_miss, data, EVENT)

    def _similarity(self, e: ex.Call) -> Term:
        """Return the term of a function of two arrays."""
        arrays = tuple(self._array(argument, e) for argument in e.arguments)
        return Term("similarity", arrays, FLOAT, None, True, e.function, EVENT)

    def _array(self, e: ex.Expression, call: ex.Call) -> Term:
        """Return the leaf of an array; its column is prepared for the function."""
        name = e.name if isinstance(e, ex.Reference | ex.Attribute) else None
        if name is None:
            raise self.wrong(e, f"{call.function}() takes columns of arrays, as in {call.function}(a.x, b.x)")
        column_type = self.schema.get(name)
        if column_type is None:
            raise self.missing(e, name)
        if column_type.kind != LIST or column_type.item.kind not in NUMBERS:
            raise self.wrong(
                e, f"{call.function}() needs arrays of numbers, column {name!r} is of type {column_type}"
            )
        derived_name = f"{call.function}({name})"
        self.derived[derived_name] = Prepared(name, call.function)
        self.columns.setdefault(derived_name)
        column = Term("column", (), LIST, None, True, derived_name, EVENT)
        return self._element(e, column) if isinstance(e, ex.Reference) else column

    def _which(self, e: ex.Reference) -> str | int:
        """Return which event of its variable a reference means: EACH, PREVIOUS, LAST, ITEM or its number."""
        if self.range_of_aggregate is not None:
            if e.index not in (None, ex.ALL_BEFORE):
                raise self.wrong(e, f"an aggregate ranges over all events; write {e.variable}.{e.name} in it")
            return ITEM
        if e.index == ex.ALL_BEFORE:
            raise self.wrong(e, "'..i-1' is allowed in an aggregate only, as in max(b[..i-1].price)")
        group = e.variable in self.query.group_variables
        if not group and (e.index in (None, ex.LAST, ex.CURRENT) or e.index == 1):
            return EACH
        return {None: EACH, ex.CURRENT: EACH, ex.BEFORE: PREVIOUS, ex.LAST: LAST}.get(e.index, e.index)

    def _aggregate(self, e: ex.Aggregate) -> Term:
        """Return the term of an aggregate over the events of one variable."""
        inside = [node for node in e.walk() if isinstance(node, ex.Reference)]
        if not inside:
            raise self.wrong(
                e, f"{e.function}() names no events; name a variable, as in {e.function}(b.price)"
            )
        variables = list(dict.fromkeys(node.variable for node in inside))
        ranges = {node.index for node in inside}
        if len(variables) > 1 or len(ranges) > 1:
            raise self.wrong(e, f"an aggregate ranges over the events of one variable, not of {variables}")
        variable, over = variables[0], EARLIER if ranges == {ex.ALL_BEFORE} else ALL
        function = e.function
        refuse_list(self, e)
        if isinstance(e.operand, ex.Reference) and e.operand.name is None:
            if function != "count":
                raise self.wrong(e, f"{function}() names no column; write {function}({variable}.price)")
            return Term("group", (), INTEGER, None, False, ("count", variable, over), EVENT)
        outer, self.range_of_aggregate = self.range_of_aggregate, over
        try:
            is_plain = isinstance(e.operand, ex.Reference)
            arg = self._reference(e.operand) if is_plain else super()._bind(e.operand)
        finally:
            self.range_of_aggregate = outer
        return self._finish_aggregate(e, variable, over, arg)

    def bind(self, expression: ex.Expression) -> Term:
        """Return the term of ``expression``; inside an aggregate the same text means another event."""
        if self.range_of_aggregate is not None:
            return self._bind(expression)
        return super().bind(expression)

    def _finish_aggregate(self, e: ex.Aggregate, variable: str, over: str, arg: Term) -> Term:
        """Return the term of an aggregate from the term of its argument."""
        function, arg = as_numbers(self, e, arg)

        def group(name: str, kind: str = arg.kind, nullable: bool = arg.nullable, of: Term = arg) -> Term:
            return Term("group", (of,), kind, of.unit, nullable, (name, variable, over), EVENT)

        if function == "count":
            return group("count_of", INTEGER, False)
        if function in ("first", "last"):
            return group(function)
        if function == "delta":
            if arg.kind not in (TIME, DURATION, *NUMBERS):
                raise self.wrong(e, "delta() needs times or numbers")
            kind = DURATION if arg.kind in (TIME, DURATION) else arg.kind
            ends = group("last"), group("first")
            return Term("-", ends, kind, arg.unit, arg.nullable, None, EVENT)
        if function in ("min", "max"):
            if arg.kind == TEXT:
                self.share_categories(arg.unit, arg.unit, ordered=True)
            return as_truth(self, arg, group(function))
        if function in SUMMED and arg.kind not in NUMBERS and (function, arg.kind) != ("sum", DURATION):
            raise self.wrong(e, f"{function}() needs numbers")
        if function in SUMMARIES:
            return summarised(self, function, group("values", LIST, False))
        if function == "sum":
            return group("sum")
        return mean(self, arg, lambda term: group("sum", of=term), group("count_of", INTEGER, False))


CLOCKS = (INTEGER, FLOAT, TIME, DURATION)


@dataclass(frozen=True, slots=True)
class BoundCondition:
    """A condition of a branch and its truth term."""

    condition: Condition
    term: Term

    @property
    def component_of_variable(self) -> dict[str, int]:
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
        """Return whether even a single event does not fit into the window."""
        return self._nothing_fits(self.within)

    @property
    def gap_is_empty(self) -> bool:
        """Return whether no event can follow another one."""
        return self._nothing_fits(self.gap_within)

    def _nothing_fits(self, limit: int | float | None) -> bool:
        return limit is not None and (limit < 0 or (limit == 0 and not self.closed))


_ALL_EVENTS = 2**62  # a window of more events is no limit; sums with a place fit into 64 bits


@dataclass(frozen=True)
class SequenceProgram(BoundQuery):
    """A sequence query bound to the columns of one schema."""

    query: SequenceQuery
    branches: tuple[BoundBranch, ...]
    window: MatchWindow = field(default_factory=MatchWindow)
    complete_until: int | float | None = None  # the user's, in ticks

    def terms(self) -> Iterator[Term]:
        for bound in self.branches:
            yield from bound.terms()

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """Columns that engines need: those of the conditions, and the clock."""
        window = self.window
        timed = window.within is not None or window.gap_within is not None or window.strict_time
        clock = (self.clock,) if timed and self.clock else ()
        return tuple(dict.fromkeys((*self.columns, *clock)))

    @cached_property
    def clock_of_waits(self) -> str | None:
        """The clock if a match must wait until an absence after it has ended; otherwise None."""
        return next((constant.column for constant in self.constants if constant.is_start), None)

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
    """Return the program of a sequence query for the columns of a schema."""
    # The branches share terms and constants, so equal conditions are computed once.
    binder = ElementBinder(schema, query)
    window = _window(query, schema)
    bound = tuple(_bound(binder, branch, window) for branch in branches(query))
    leaves = [leaf for bound_branch in bound for root in bound_branch.terms() for leaf in root.walk()]
    every = {leaf.data for leaf in leaves if leaf.op == "column"}
    every |= {leaf.column for leaf in leaves if leaf.op == "element"}
    return SequenceProgram(
        query=query, schema=schema, **binder.collected(every), branches=bound, window=window,
        complete_until=_end_of_data(query, schema, window),
    )  # fmt: skip


def _end_of_data(
    query: SequenceQuery, schema: Mapping[str, ColumnType], window: MatchWindow
) -> int | float | None:
    """Return the time until which the data are complete, in ticks; None if the user gives none."""
    if query.complete_until is None or query.is_finished:
        return None
    clock = schema.get(query.order_by[0]) if query.order_by else None
    if clock is None or clock.kind not in CLOCKS:
        raise CepError(
            f"complete_until={query.complete_until!r} needs a clock: give order_by, a column of times or "
            "numbers"
        )
    return end_in_ticks(query.complete_until, clock)


def _decided(binder: ElementBinder, branch: Branch, window: MatchWindow) -> BoundCondition | None:
    """Return the condition that is true once the wait for an absent event after the match has ended."""
    query, first, last = binder.query, branch.components[0], branch.components[-1]
    waits = any(absence.before >= len(branch.components) for absence in branch.absences)
    if query.is_finished or not waits or window.within is None:
        if not query.undecided:
            return None
        expression, term = ex.Literal(False), NEVER
    else:
        clock = query.order_by[0]
        time = ex.Reference(first.variable, clock, 1 if first.is_group else None)
        sign, start = ">" if query.undecided else "<=", binder.bind(time)
        kind = FLOAT if start.kind == FLOAT else INTEGER
        limit = binder.constant(Constant(kind, window.within, column=clock, is_start=True))
        term = comparison(sign, start, replace(limit, kind=start.kind, unit=start.unit))
        until = ex.Arithmetic("-", ex.Parameter("complete_until"), ex.Literal(query.within))
        expression = ex.Comparison(sign, time, until)
    # The number is that of no conjunct, and another one for each first variable.
    number = len(query.where) + query.variables.index(first.variable)
    at = len(branch.components) - 1
    return BoundCondition(
        Condition(expression, ((first.variable, 0),), at, not last.is_group, None, number), term
    )


def _bound(binder: ElementBinder, branch: Branch, window: MatchWindow) -> BoundBranch:
    """Return a branch with its conditions as terms; those on single events are apart."""
    accepts = [_type_terms(binder, c.variable, c.event_type) for c in branch.components]
    absent = [_type_terms(binder, a.variable, a.event_type) for a in branch.absences]
    bound = [
        BoundCondition(c, binder.predicate(f"condition {c.conjunct + 1}", c.expression))
        for c in branch.conditions
    ]
    decided = _decided(binder, branch, window)
    if decided is not None:
        bound.append(decided)
        branch = replace(branch, conditions=(*branch.conditions, decided.condition))
    conditions = []
    for bound_condition in bound:
        condition, term = bound_condition.condition, bound_condition.term
        looks_at_one = len(referenced_variables(condition.expression)) == 1 and _looks_at_each_alone(term)
        if looks_at_one and (bound_condition is not decided or len(branch.components) == 1):
            (absent if condition.absence is not None else accepts)[
                condition.decided_at if condition.absence is None else condition.absence
            ].append(term)
        else:
            conditions.append(bound_condition)
    untils = [
        None if c.until is None else binder.predicate(f"until of {c.variable!r}", c.until)
        for c in branch.components
    ]
    return BoundBranch(
        branch, tuple(map(tuple, accepts)), tuple(map(tuple, absent)), tuple(conditions), tuple(untils)
    )


def _looks_at_each_alone(term: Term) -> bool:
    """Return whether a term reads no aggregate, and one event of a loop at a time."""
    return all(leaf.op != "group" and (leaf.op != "element" or leaf.data[1] == EACH) for leaf in term.walk())


def _type_terms(binder: ElementBinder, variable: str, event_type: str | int | bool | None) -> list[Term]:
    """Return the condition that an event is of its type; none for an event of any type."""
    if event_type is None:
        return []
    column = binder.query.event_type
    if column is None:
        raise CepError(
            f"event {variable!r} is of type {event_type!r}, but no column of types is given; "
            "name it with event_type='…'"
        )
    kind = getattr(binder.schema.get(column), "kind", None)
    if isinstance(event_type, str) and kind in NUMBERS:
        raise PredicateError(
            f"event_type={column!r}: the column has numbers, or no values, so no event is of type "
            f"{event_type!r}; types that are numbers are written as numbers, SEQ(1 {variable}, …)"
        )
    type_of = ex.Comparison("==", ex.Reference(variable, column), ex.Literal(event_type))
    return [binder.predicate("event_type", type_of)]


def _window(query: SequenceQuery, schema: Mapping[str, ColumnType]) -> MatchWindow:
    """Return the limits in time of a query. Raise if there are limits, but no clock."""
    clock = query.order_by[0] if query.order_by else None
    asked = {
        "within": query.within, "gap_within": query.gap_within, "strict_time": query.strict_time or None
    }  # fmt: skip
    needs = [name for name, value in asked.items() if value is not None]
    if needs and clock is None:
        raise CepError(f"{needs[0]} needs a clock: give order_by, a column of times or integers")
    clock_type = schema.get(clock)
    if needs and clock_type is not None and clock_type.kind not in CLOCKS:
        raise CepError(f"{needs[0]} needs a clock; order_by column {clock!r} is of type {clock_type}")
    unit = None if clock_type is None else clock_type.unit

    def ticks(name: str, value: object) -> int | float | None:
        """Return a duration in ticks of the clock, or a number as it is where the clock has no unit."""
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


# Which events decide conditions and absences, where single events are bound in any order.


def why_not_compiled(program: BoundQuery) -> str | None:
    """Return why no kernel of a sequence can run a program, to complete "it …", or None if one can."""
    if not isinstance(program, SequenceProgram):
        return "runs event sequences only"
    if not program.compiled:
        return f"cannot call {', '.join(program.reasons_for_python)}, a plain Python function"
    return None


def unordered(bound: BoundBranch) -> str | None:
    """Return why a branch can only be searched in its own order, as text that completes "it …"; else None."""
    for component in bound.branch.components:
        if component.high != 1 or component.is_group:
            return f"repeats {component.variable!r}; only single events have an order to choose"
        if component.step != "any":
            return "may not skip any event between two of a match (strategy 'any' may)"
    for condition in bound.conditions:
        for leaf in condition.term.walk():
            if leaf.op == "group" or (leaf.op == "element" and leaf.data[1] not in (EACH, LAST, 1)):
                return f"condition {condition.condition.conjunct + 1} uses a group of events"
    return None


def components_of_condition(own: BoundCondition) -> frozenset[int]:
    """Return the components whose events a condition uses."""
    return frozenset(own.component_of_variable.values())


def components_of_absence(bound: BoundBranch, a: int) -> frozenset[int]:
    """Return the components whose events decide whether an absent event occurs."""
    absence, last = bound.branch.absences[a], len(bound.branch.components) - 1
    edges = {absence.after, absence.before}
    if absence.after < 0:
        edges = {last, absence.before}
    if absence.before > last:
        edges = {absence.after, 0} if absence.after >= 0 else {last, 0}
    conditions = (condition for condition in bound.conditions if condition.condition.absence == a)
    return frozenset(edges).union(*(components_of_condition(condition) for condition in conditions))
