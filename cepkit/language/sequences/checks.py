"""The checks of a sequence query that need no schema: its pattern, and what its conditions name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from cepkit.errors import CepError, PredicateError, did_you_mean, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.mistakes import compared_with, forgotten_brackets
from cepkit.language.expressions.printing import RESERVED, quoted_name
from cepkit.language.query_parts import refuse_clash_with_partition, refuse_parameters
from cepkit.language.sequences.branches import referenced_variables
from cepkit.language.sequences.patterns import (
    PREFERENCES,
    STRATEGIES,
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
from cepkit.language.sequences.printing import RESERVED_IN_SEQUENCES, type_text

# The pattern is checked whenever a query is made or changed. The whole query is checked once it is complete,
# since later calls may still add missing parts. `check_ready` checks what only the frame can provide.

SCOPES = ("run", "edge")
ONCE = ("once", "once_newest")  # each event is in one match: the oldest or the newest one that it completes
AFTER_MATCH = ("none", "past_last", "to_next", "to_first", "to_last", *ONCE)

_NAME = re.compile(r"[^\W\d]\w*")


def check_name(event: EventPattern) -> None:
    """Raise if the variable or type of an event cannot be spelled in text."""
    name, event_type = event.variable, event.event_type
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not name.isidentifier():
        raise CepError(f"the name of an event must be an identifier, as in event('b', 'AAPL'), got {name!r}")
    if name.lower() in RESERVED | RESERVED_IN_SEQUENCES:
        raise CepError(f"an event cannot be named {name!r}, a reserved word; give it another name")
    if event_type is not None and not isinstance(event_type, str | int):
        kind = type(event_type).__name__
        raise CepError(f"the type of event {name!r} must be text, an integer or a bool, got {kind}")


# --- the pattern -----------------------------------------------------------------------------------------


def _refuse_bad_names(query: SequenceQuery) -> None:
    seen = set()
    for event in event_patterns(query.pattern):
        try:
            check_name(event)
        except CepError as error:
            raise CepError(f"{error}\n{query.underlined('pattern', event)}") from None
        if event.variable in seen:
            raise _at(query, event, f"two events are named {event.variable!r}; give each a different name")
        seen.add(event.variable)


def _refuse_bad_parts(query: SequenceQuery) -> None:
    for node in query.pattern.walk():
        match node:
            case SequenceOf():
                _check_sequence(query, node)
            case AllOf(parts=parts) | AnyOf(options=parts) if len(parts) < 2:
                raise _at(query, node, "all_of and any_of need at least two parts")
            case AbsentPattern(body=body) if not isinstance(body, EventPattern):
                what = "a repeated event" if isinstance(body, Loop) else "a group"
                raise _at(query, node, f"{what} cannot be absent; write '!' before one event, as in !B b")
            case Loop():
                _check_loop(query, node)


def _check_sequence(query: SequenceQuery, node: SequenceOf) -> None:
    if not node.parts or len(node.steps) != len(node.parts):
        raise _at(query, node, "a sequence needs at least one part, and a step for each")
    for i, (part, step) in enumerate(zip(node.parts, node.steps, strict=True)):
        if step is None:
            continue
        _refuse_unknown("step", step, STRATEGIES)
        if i == 0:
            raise _at(
                query, part, f"{step.upper()} says what may be skipped before a part; this one is the first"
            )
        if isinstance(part, AbsentPattern):
            cure = "put it before the next event that occurs"
            raise _at(query, part, f"{step.upper()} before an absent event has no meaning; {cure}")


def _check_loop(query: SequenceQuery, node: Loop) -> None:
    if not any(_present(node.body)):
        raise _at(query, node, "the repeated part has no event that occurs")
    if node.inner is not None:
        _refuse_unknown("inner", node.inner, STRATEGIES)
    _refuse_unknown("preference", node.preference, PREFERENCES)
    options = {"until": node.until, "inner": node.inner}
    option_names = [name for name, value in options.items() if value is not None]
    option_names += [node.preference] if node.preference != "all" else []
    if node.high == 1 and option_names:
        message = f"{option_names[0].upper()} needs a loop of several rounds; this one has at most one"
        raise _at(query, node, message)


def _refuse_no_event(query: SequenceQuery) -> None:
    if not any(_present(query.pattern)):
        raise _at(query, query.pattern, "the pattern has no event that occurs, only absent ones; add one")


def _present(pattern: SequencePattern) -> Iterator[EventPattern]:
    """Yield the events of ``pattern`` that must occur."""
    if isinstance(pattern, EventPattern):
        yield pattern
    elif not isinstance(pattern, AbsentPattern):
        for part in pattern.children():
            yield from _present(part)


def _at(query: SequenceQuery, node: SequencePattern, message: str) -> CepError:
    return CepError(f"{message}\n{query.underlined('pattern', node)}")


def _refuse_unknown(argument: str, name: object, known: tuple[str, ...]) -> None:
    if not isinstance(name, str) or name not in known:
        hint = nearest(str(name), known)
        raise CepError(f"{argument}: {name!r} is not known; use one of {', '.join(map(repr, known))}.{hint}")


# --- the whole -------------------------------------------------------------------------------------------


def check_words(query: SequenceQuery) -> None:
    """Raise for an unknown strategy, scope or after-match policy."""
    _refuse_unknown("strategy", query.strategy, STRATEGIES)
    _refuse_unknown("scope", query.scope, SCOPES)
    kind, variable = query.after_match
    _refuse_unknown("after_match", kind, AFTER_MATCH)
    if kind in ("to_first", "to_last"):
        if variable in query.absent_variables:
            raise CepError(f"after_match: {variable!r} must not occur, so a match has no such event")
        if variable not in query.variables:
            variable_names = list(query.variables)
            hint = nearest(str(variable), variable_names)
            raise CepError(
                f"after_match: no event of the pattern is named {variable!r}; "
                f"there are {variable_names}.{hint}"
            )


def _refuse_preference_under_any(query: SequenceQuery) -> None:
    for node in query.pattern.walk():
        if isinstance(node, Loop) and node.preference != "all" and (node.inner or query.strategy) == "any":
            message = (
                f"{node.preference.upper()} chooses where nothing relevant is skipped; under strategy 'any' "
                "every choice is a match. Use strategy 'next', or INNER NEXT for this loop"
            )
            raise _at(query, node, message)


def _refuse_after_match_under_any(query: SequenceQuery) -> None:
    kind = query.after_match[0]
    if query.strategy == "any" and kind not in ("none", "past_last", *ONCE):
        raise CepError(
            f"after_match: {kind!r} is not defined under strategy 'any'; use 'none', 'past_last' or 'once', "
            "or use strategy 'next'"
        )


def _refuse_bad_order(query: SequenceQuery) -> None:
    order, variables = query.evaluation_order, query.variables
    if not order:
        return
    for i, name in enumerate(order):
        if name in query.absent_variables:
            raise CepError(
                f"evaluation_order: {name!r} must not occur; leave it out, it is tested as early as possible"
            )
        if name not in variables:
            hint = nearest(name, variables)
            raise CepError(
                f"evaluation_order: no event of the pattern is named {name!r}; there are {list(variables)}."
                f"{hint}"
            )
        if name in order[:i]:
            raise CepError(f"evaluation_order: {name!r} occurs twice")
        if name in query.group_variables:
            raise CepError(
                f"evaluation_order: {name!r} can name several events; only single events can be searched "
                "in an order other than the pattern's"
            )
    if missing := [name for name in variables if name not in order]:
        raise CepError(f"evaluation_order: {missing} are missing; list all events, {list(variables)}")


def _refuse_endless_absence(query: SequenceQuery) -> None:
    if query.within is not None:
        return
    edges = [(1, "before the first event needs a limit on the wait; give a time window, as in WITHIN 5 min")]
    if not query.is_finished:
        edges.append((
            -1,
            "after the last event needs a limit on the wait; give a time window, as in WITHIN 5 min, or "
            "complete_until='end' if the data are finished, so that it means 'never'",
        ))  # fmt: skip
    for direction, problem in edges:
        for node in _absent_at_edge(query.pattern, direction):
            raise _at(query, node, f"an event absent {problem}")


def _absent_at_edge(pattern: SequencePattern, direction: int) -> Iterator[AbsentPattern]:
    """Yield the absent events that can come before (1) or after (-1) all events of ``pattern``."""
    match pattern:
        case AbsentPattern():
            yield pattern
        case SequenceOf(parts=parts):
            for part in parts[::direction]:
                yield from _absent_at_edge(part, direction)
                if not _can_be_empty(part):
                    return
        case AllOf(parts=parts):  # its direct parts can be absent between its first and last event
            for part in parts:
                if not isinstance(part, AbsentPattern):
                    yield from _absent_at_edge(part, direction)
        case AnyOf() | Loop():
            for part in pattern.children():
                yield from _absent_at_edge(part, direction)


def _can_be_empty(pattern: SequencePattern) -> bool:
    match pattern:
        case AbsentPattern():
            return True
        case Loop(low=low, body=body):
            return low == 0 or _can_be_empty(body)
        case AnyOf(options=options):
            return any(map(_can_be_empty, options))
        case SequenceOf(parts=parts) | AllOf(parts=parts):
            return all(map(_can_be_empty, parts))
    return False


Check = Callable[["SequenceQuery"], None]

PATTERN_CHECKS: tuple[Check, ...] = (_refuse_bad_names, _refuse_bad_parts, _refuse_no_event)
WHOLE_CHECKS: tuple[Check, ...] = (
    _refuse_preference_under_any, _refuse_after_match_under_any, _refuse_bad_order, _refuse_endless_absence,
    refuse_clash_with_partition, refuse_parameters,
)  # fmt: skip


def check_ready(query: SequenceQuery) -> None:
    """Raise if the query lacks a column that it needs to run; called just before a run."""
    typed = [event for event in event_patterns(query.pattern) if event.event_type is not None]
    if typed and query.event_type is None:
        types = ", ".join(dict.fromkeys(type_text(event.event_type) for event in typed))
        message = f"event_type: the pattern has events of type {types}; name the column of the types"
        raise _at(query, typed[0], f"{message}, as in event_type='kind'")
    for name in ("within", "gap_within"):
        if getattr(query, name) is not None and not query.order_by:
            raise CepError(f"{name}: a duration needs a clock; name its column first in order_by")
    if query.strict_time and not query.order_by:
        raise CepError("strict_time: it needs a clock; name its column first in order_by")


# Check which events and values the conditions and measures of a sequence query name.


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
    """Check the ends of all loops; return the variables that are bound in each match after ``pattern``."""
    # ``bound`` are the variables bound before it. A repeated group binds none: each round has its own events.
    match pattern:
        case EventPattern(variable=variable):
            return frozenset({variable})
        case SequenceOf(parts=parts):
            bound_inside: frozenset[str] = frozenset()
            for part in parts:
                bound_inside |= _check_untils(place, part, bound | bound_inside)
            return bound_inside
        case AllOf(parts=parts):
            return frozenset().union(*(_check_untils(place, part, bound) for part in parts))
        case AnyOf(options=options):
            for option in options:
                _check_untils(place, option, bound)
        case Loop(body=body, low=low, high=high):
            if pattern.until is not None:
                _check_until(place, pattern.until, bound)
            bound_inside = _check_untils(place, body, bound)
            return bound_inside if low and (high == 1 or isinstance(body, EventPattern)) else frozenset()
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
        hint = did_you_mean(column.name, place.known)
        what = f"{place.present[0]}.{name}"
        if aggregate is not None:
            what = f"{aggregate.function}({place.some}.{name})"
        others = compared_with(column, (tree for _, tree in place.query.trees()))
        is_compared = any(isinstance(side, ex.Reference) for side in others)
        text = f", or {column.name!r} with quotes if it is a text" if is_compared else ""
        raise place.error(f"{name} does not name its event; write {what}{text}{hint}", column)
    if aggregate is None and column.name not in place.query.partition_by:
        cure = f"write {place.present[0]}.{name}, or first({name}) or last({name}) over the whole match"
        cure = forgotten_brackets(column) or cure
        raise place.error(f"column {column.name!r} has one value for each event of a match; {cure}", column)


def _check_reference(place: _Place, node: ex.Reference, aggregate: ex.Aggregate | None) -> None:
    name, column = node.variable, quoted_name(node.name or "x")
    if name not in place.known:
        event_names = list(place.known)
        message = (
            f"no event of the pattern is named {name!r}; there are {event_names}.{nearest(name, event_names)}"
        )
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
        spelled = f"{name}.{column}"
        message = (
            f"{name!r} stands for several events; write first({spelled}), last({spelled}), avg({spelled}), …"
        )
        raise place.error(message, node)


def _check_aggregate(place: _Place, node: ex.Aggregate) -> None:
    inside = [part for part in node.walk() if isinstance(part, ex.Reference | ex.Attribute)]
    ranges = {(part.variable, part.index) for part in inside if isinstance(part, ex.Reference)}
    if node.function == "collect" and not place.is_measure:
        raise place.error(f"{node} makes a list, which only measures can have", node)
    if not inside and not (place.is_measure and node.operand is None):
        example = f"count({place.some})" if node.function == "count" else f"{node.function}({place.some}.x)"
        raise place.error(f"{node} names no event; write {example}", node)
    for part in inside:
        if isinstance(part, ex.Reference) and part.index not in (None, ex.ALL_BEFORE):
            reference = ex.Reference(part.variable, part.name)
            earlier = (
                "" if place.is_measure else f", or all before, {replace(reference, index=ex.ALL_BEFORE)}"
            )
            message = (
                f"{node.function} ranges over all events of {part.variable!r}; write {reference}{earlier}"
            )
            raise place.error(message, part)
        if place.is_measure and isinstance(part, ex.Reference) and part.index == ex.ALL_BEFORE:
            reference = ex.Reference(part.variable, part.name)
            message = "a measure describes the complete match, which has no current event"
            raise place.error(f"{message}; write {reference}", part)
    if len(ranges) > 1 or (ranges and any(isinstance(part, ex.Attribute) for part in inside)):
        message = f"{node.function} ranges over the events of one variable, all with the same brackets"
        raise place.error(message, node)


CONDITION_CHECKS: tuple[Callable[[SequenceQuery], None], ...] = (
    _refuse_bad_conditions, _refuse_bad_untils, _refuse_bad_measures,
)  # fmt: skip
