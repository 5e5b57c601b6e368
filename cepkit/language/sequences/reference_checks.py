"""Check which events and values the conditions and measures of a sequence query name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepkit.errors import PredicateError, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import quoted_name
from cepkit.language.sequences.branches import referenced_variables
from cepkit.language.sequences.patterns import AllOf, AnyOf, EventPattern, Loop, SequenceOf, SequencePattern
from cepkit.language.sequences.query import SequenceQuery


class _Place:
    """A tree of the query whose references are checked, with the beginning of its error messages."""

    def __init__(self, query: SequenceQuery, role: str, label: str | None = None):
        self.query, self.role, self.label = query, role, label or role
        self.is_measure = role.startswith("measure")
        self.present, self.absent = query.variables, query.absent_variables
        self.known = (*self.present, *sorted(self.absent))
        self.groups = query.group_variables
        # Events for examples in messages: a repeated one if the pattern has one.
        self.some = next((name for name in self.present if name in self.groups), self.present[0])

    def error(self, message: str, node: ex.Expression) -> PredicateError:
        return PredicateError(f"{self.label}: {message}\n{self.query.underlined(self.role, node)}")


def _refuse_bad_conditions(query: SequenceQuery) -> None:
    place = _Place(query, "where")
    for tree in query.where:
        _check_tree(place, tree)
        absent = dict.fromkeys(
            node.variable
            for node in tree.walk()
            if isinstance(node, ex.Reference) and node.variable in place.absent
        )
        if len(absent) > 1:
            names = " and ".join(map(repr, absent))
            message = f"{names} must not occur; one condition can name only one absent event"
            raise place.error(message, tree)


def _refuse_bad_untils(query: SequenceQuery) -> None:
    _check_untils(_Place(query, "pattern", "until"), query.pattern, frozenset())


def _check_untils(place: _Place, pattern: SequencePattern, bound: frozenset[str]) -> frozenset[str]:
    """Check the ends of all loops; return the variables that are bound in each match after ``pattern``.

    ``bound`` are the variables bound before it. A repeated group binds none: each round has its own events.

    """
    match pattern:
        case EventPattern(variable=variable):
            return frozenset({variable})
        case SequenceOf(parts=parts):
            own: frozenset[str] = frozenset()
            for part in parts:
                own |= _check_untils(place, part, bound | own)
            return own
        case AllOf(parts=parts):
            return frozenset().union(*(_check_untils(place, part, bound) for part in parts))
        case AnyOf(options=options):
            for option in options:
                _check_untils(place, option, bound)
        case Loop(body=body, low=low, high=high):
            if pattern.until is not None:
                _check_until(place, pattern.until, bound)
            own = _check_untils(place, body, bound)
            return own if low and (high == 1 or isinstance(body, EventPattern)) else frozenset()
    return frozenset()


def _check_until(place: _Place, until: ex.Expression, bound: frozenset[str]) -> None:
    for node in until.walk():
        if isinstance(node, ex.Reference) and node.variable in place.known:
            if node.variable not in bound:
                message = (
                    f"{node} may be unknown here; until can name events that each match has before the loop"
                )
                cure = "plain columns are those of the event that ends it"
                raise place.error(f"{message}; {cure}", node)
        elif isinstance(node, ex.Aggregate) and not referenced_variables(node):
            raise place.error(
                f"{node} ranges over events, and one event ends the loop; write its columns", node
            )
    _check_tree(place, until)


def _refuse_bad_measures(query: SequenceQuery) -> None:
    for name, tree in query.measures or ():
        _check_tree(_Place(query, f"measure {name!r}"), tree)


def _check_tree(place: _Place, tree: ex.Expression, aggregate: ex.Aggregate | None = None) -> None:
    match tree:
        case ex.Previous():
            cure = (
                f"; the event before the current one is {place.some}[i-1].x" if not place.is_measure else ""
            )
            message = f"{tree} refers to rows, but the events of a match need not be neighbours{cure}"
            raise place.error(message, tree)
        case ex.Subscript(operand=ex.Attribute(name=name)) if place.label != "until" and name in place.known:
            raise place.error(f"{tree} is an event; write which of its columns: {tree}.x", tree)
        case ex.Attribute():
            _check_column(place, tree, aggregate)
        case ex.Reference():
            _check_reference(place, tree, aggregate)
        case ex.Aggregate():
            _check_aggregate(place, tree)
            aggregate = tree
    for child in tree.children():
        _check_tree(place, child, aggregate)


def _check_column(place: _Place, column: ex.Attribute, aggregate: ex.Aggregate | None) -> None:
    name = quoted_name(column.name)
    if place.label == "until":
        return  # about the event that would end the loop
    if column.name in place.known:
        raise place.error(f"{column.name!r} is an event; write which of its columns: {column.name}.x", column)
    if not place.is_measure:
        hint = nearest(column.name, place.known)
        what = f"{place.present[0]}.{name}"
        if aggregate is not None:
            what = f"{aggregate.function}({place.some}.{name})"
        raise place.error(f"{name} does not name its event; write {what}{hint and '.' + hint}", column)
    if aggregate is None and column.name not in place.query.partition_by:
        cure = f"write {place.present[0]}.{name}, or first({name}) or last({name}) over the whole match"
        raise place.error(f"column {column.name!r} has one value for each event of a match; {cure}", column)


def _check_reference(place: _Place, node: ex.Reference, aggregate: ex.Aggregate | None) -> None:
    name, column = node.variable, quoted_name(node.name or "x")
    if name not in place.known:
        known = list(place.known)
        message = f"no event of the pattern is named {name!r}; there are {known}.{nearest(name, known)}"
        raise place.error(message, node)
    if name in place.absent:
        if place.is_measure:
            raise place.error(f"{name!r} must not occur, so a match has no values of it", node)
        if node.index is not None or aggregate is not None:
            raise place.error(
                f"{name!r} must not occur, so it is not a repeated event; write {name}.{column}", node
            )
    if node.index is not None and name not in place.groups and name not in place.absent:
        raise place.error(f"{name!r} is a single event; write {name}.{column}", node)
    if node.name is None and (aggregate is None or aggregate.function != "count"):
        what = ex.Reference(name, "x", node.index)
        cure = f"count({node}), or avg({what})" if aggregate is None else f"{aggregate.function}({what})"
        raise place.error(f"{node} stands for whole events; write {cure}", node)
    if aggregate is not None:
        return
    if node.index == ex.ALL_BEFORE:
        raise place.error(f"{node} stands for several values; it needs an aggregate, as in max({node})", node)
    if place.is_measure and node.index in (ex.CURRENT, ex.BEFORE):
        cure = f"write {name}[1].{column}, {name}[LEN].{column} or an aggregate such as avg({name}.{column})"
        raise place.error(f"a measure describes the complete match, which has no current event; {cure}", node)
    if place.is_measure and node.index is None and name in place.groups:
        own = f"{name}.{column}"
        message = f"{name!r} stands for several events; write first({own}), last({own}), avg({own}), …"
        raise place.error(message, node)


def _check_aggregate(place: _Place, node: ex.Aggregate) -> None:
    inside = [part for part in node.walk() if isinstance(part, ex.Reference | ex.Attribute)]
    ranges = {(part.variable, part.index) for part in inside if isinstance(part, ex.Reference)}
    if node.function == "collect" and not place.is_measure:
        raise place.error(f"{node} makes a list, which only measures can have", node)
    if not inside and not (place.is_measure and node.operand is None):
        of = f"count({place.some})" if node.function == "count" else f"{node.function}({place.some}.x)"
        raise place.error(f"{node} names no event; write {of}", node)
    for part in inside:
        if isinstance(part, ex.Reference) and part.index not in (None, ex.ALL_BEFORE):
            own = ex.Reference(part.variable, part.name)
            earlier = "" if place.is_measure else f", or all before, {replace(own, index=ex.ALL_BEFORE)}"
            message = f"{node.function} ranges over all events of {part.variable!r}; write {own}{earlier}"
            raise place.error(message, part)
        if place.is_measure and isinstance(part, ex.Reference) and part.index == ex.ALL_BEFORE:
            own = ex.Reference(part.variable, part.name)
            message = "a measure describes the complete match, which has no current event"
            raise place.error(f"{message}; write {own}", part)
    if len(ranges) > 1 or (ranges and any(isinstance(part, ex.Attribute) for part in inside)):
        message = f"{node.function} ranges over the events of one variable, all with the same brackets"
        raise place.error(message, node)


CONDITION_CHECKS: tuple[Callable[[SequenceQuery], None], ...] = (
    _refuse_bad_conditions,
    _refuse_bad_untils,
    _refuse_bad_measures,
)
