"""Sequence queries as chains."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt, with_parts
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from cepkit.translation.chains import RowChain, at_distance, check_aggregate, joined_with_and
from cepkit.translation.refusing import refuse

CONTIGUOUS = ("strict", "partition")


def single_events(target: str, query: SequenceQuery) -> tuple[sq.EventPattern, ...]:
    """Return the events of a sequence of single events, none of them absent; raise for other patterns."""
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, sq.SequenceOf) else (pattern,)
    for part in parts:
        if isinstance(part, sq.SequenceOf):
            refuse(target, f"{part}", "a sequence in a sequence; write its events in the outer one")
        if not isinstance(part, sq.EventPattern):
            refuse(target, f"{part}", _why_not_single(part))
    return tuple(part for part in parts if isinstance(part, sq.EventPattern))


def _why_not_single(part: sq.SequencePattern) -> str:
    match part:
        case sq.Loop():
            return "each number of rounds is a match of its own, and it reports one"
        case sq.AbsentPattern():
            return "it has no absent events"
        case sq.AllOf():
            return "it has no events in any order"
        case sq.AnyOf():
            return "a match that two options find is found twice"
    return "it is no single event"


def with_counts(query: SequenceQuery) -> SequenceQuery:
    """Return the query with the number of its single events instead of ``count()`` in measures."""
    parts = query.pattern.parts if isinstance(query.pattern, sq.SequenceOf) else (query.pattern,)
    if query.measures is None or not all(isinstance(part, sq.EventPattern) for part in parts):
        return query

    def put(node: ex.Expression) -> ex.Expression:
        return ex.Literal(len(parts)) if node == ex.Aggregate("count") else node

    measures = ((name, rebuilt(tree, ex.Expression, put)) for name, tree in query.measures)
    return replace(query, measures=tuple(measures))


def steps_of(query: SequenceQuery) -> tuple[str, ...]:
    """Return what may be skipped before each event of a sequence; the first entry has no meaning."""
    pattern = query.pattern
    steps = pattern.steps if isinstance(pattern, sq.SequenceOf) else (None,)
    return tuple(step or query.strategy for step in steps)


def own_conditions(
    target: str, query: SequenceQuery, events: tuple[sq.EventPattern, ...]
) -> tuple[list[ex.Expression], ...]:
    """Return for each event the conditions that are decided with it: those that name no later event.

    The type of an event is a condition, too.

    """
    place = {event.variable: i for i, event in enumerate(events)}
    made: tuple[list[ex.Expression], ...] = tuple([] for _ in events)
    for i, event in enumerate(events):
        if event.event_type is not None:
            if query.event_type is None:
                refuse(target, f"the type {event.event_type}", "name the column of types with event_type=")
            of = ex.Reference(event.variable, query.event_type)
            made[i].append(ex.Comparison("==", of, ex.Literal(event.event_type)))
    for condition in query.where:
        for part in ex.conjuncts(condition):
            named = []
            for node in part.walk(literals=False):
                if isinstance(node, ex.Aggregate | ex.Previous):
                    refuse(target, f"WHERE {part}", "conditions on several events of one variable")
                if isinstance(node, ex.Reference):
                    if node.name is None or node.index not in (None, ex.CURRENT):
                        refuse(target, f"WHERE {part}", "conditions on several events of one variable")
                    named.append(place[node.variable])
            made[max(named, default=0)].append(part)
    return made


def chain_of_sequence(target: str, query: SequenceQuery) -> RowChain:
    """Return a sequence of neighbouring single events as a chain."""
    events = single_events(target, query)
    for step in steps_of(query)[1:]:
        _check_step(target, step, query)
    for name, value in (("GAP", query.gap_within), ("strict_time", query.strict_time)):
        if value:
            refuse(target, name, "it has no limit between two rows")
    n, advance = len(events), 1
    if query.within_events is not None and query.within_events < n:
        refuse(target, f"WITHIN {query.within_events} EVENTS", f"a match has {n}, so nothing matches")
    place = {event.variable: i for i, event in enumerate(events)}
    kind, variable = query.after_match
    if kind == "past_last":
        advance = n
    elif variable is not None:
        advance = max(1, place[variable])
    conditions = []
    for i, own in enumerate(own_conditions(target, query, events)):
        conditions.append(joined_with_and([_as_row(tree, i, place) for tree in own]))
    measures = query.measures
    if measures is None and query.order_by:
        measures = default_measures(query)
    return RowChain(
        tuple(event.variable for event in events), tuple(conditions), advance, query.partition_by,
        query.order_by, query.within, query.within_closed,
        None if measures is None else tuple((n, _of_match(target, n, t, events)) for n, t in measures),
    )  # fmt: skip


def _check_step(target: str, step: str, query: SequenceQuery) -> None:
    if step == "any":
        refuse(
            target, "skip_till_any_match",
            "it reports every choice of events, and there a start has one match",
        )  # fmt: skip
    if step == "next":
        refuse(target, "skip_till_next_match", "its rows are neighbours")
    if step == "strict" and query.partition_by:
        _refuse_strict(target)


def _refuse_strict(target: str) -> NoReturn:
    refuse(target, "strict_contiguity", "it looks at neighbours in the partition, not in the whole stream")


def _as_row(tree: ex.Expression, own: int, place: dict[str, int]) -> ex.Expression:
    if isinstance(tree, ex.Reference) and tree.name is not None:
        return at_distance(tree.name, own - place[tree.variable])
    return with_parts(tree, ex.Expression, lambda part: _as_row(part, own, place))


def _of_match(
    target: str, name: str, tree: ex.Expression, events: tuple[sq.EventPattern, ...]
) -> ex.Expression:
    match tree:
        case ex.Reference(name=str(), index=None):
            return tree
        case ex.Aggregate(function="first" | "last" as end, operand=ex.Attribute(name=column)):
            return ex.Reference(events[0 if end == "first" else -1].variable, column)
        case ex.Aggregate():
            check_aggregate(target, name, tree)
            return tree
        case ex.Reference():
            refuse(target, f"measure {name!r}: {tree}", "a variable there is a single row")
    return with_parts(tree, ex.Expression, lambda part: _of_match(target, name, part, events))
