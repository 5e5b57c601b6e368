"""Queries of each language as chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from cepkit.engines.regex_measures import measure_expressions
from cepkit.engines.sequence_measures import default_measures
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import FUNCTIONS
from cepkit.language.expressions.trees import rebuilt, with_parts
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_row_pattern, print_sql
from cepkit.language.match_recognize.query import AFTER_MATCH, ROWS_PER_MATCH, WITH_TIMED_OUT, RowPatternQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.checks import ONCE
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.translation.chains import (
    AGGREGATES,
    RowChain,
    at_distance,
    check_aggregate,
    joined_with_and,
    refuse,
    unique_names,
)

# MATCH_RECOGNIZE as chains.

MOST_STEPS = 64


def check_clauses(target: str, query: RowPatternQuery) -> None:
    """Raise for the clauses that only SQL has."""
    for key in query.order_by:
        if key.descending or key.nulls_first:
            words = f"ORDER BY {key.column}{' DESC' if key.descending else ' NULLS FIRST'}"
            refuse(target, words, "it sorts in ascending order, without nulls")
    if query.rows_per_match != "one":
        refuse(target, ROWS_PER_MATCH[query.rows_per_match], "its result has one row per match")
    if query.timed_out:
        refuse(target, WITH_TIMED_OUT, "its result has matches only")
    if query.subset:
        refuse(target, f"SUBSET {query.subset[0][0]}", "a name there is one variable")


def chain_of_rows(target: str, query: RowPatternQuery) -> RowChain:
    """Return a clause of MATCH_RECOGNIZE as a chain."""
    check_clauses(target, query)
    labels = _labels(target, query.pattern)
    if not labels:
        refuse(target, f"PATTERN ({query.pattern})", "a match needs at least one row")
    define = dict(query.define)
    conditions = [
        None if label not in define
        else row_value(target, f"DEFINE {label}", define[label], labels[: place + 1])
        for place, label in enumerate(labels)
    ]  # fmt: skip
    conditions = [None if tree == ex.Literal(True) else tree for tree in conditions]
    columns = RowChain(
        tuple(labels), tuple(conditions), 1, query.partition_by, tuple(key.column for key in query.order_by)
    ).columns()
    names = unique_names([label.lower() if label == label.upper() else label for label in labels], columns)
    measures = tuple((name, _measured(target, name, tree, labels, names)) for name, tree in query.measures)
    return RowChain(
        names, tuple(conditions), advance_of(target, query, labels), query.partition_by,
        tuple(key.column for key in query.order_by), query.within, False, measures,
    )  # fmt: skip


def advance_of(target: str, query: RowPatternQuery, labels: Sequence[str]) -> int:
    """Return how many rows after its first row the search continues after a match."""
    variable = query.after_match_variable
    if query.after_match == "past_last_row":
        return len(labels)
    if query.after_match == "to_next_row":
        return 1
    places = [i for i, label in enumerate(labels) if label == variable]
    if not places or places[0 if query.after_match == "to_first" else -1] == 0:
        words = f"{AFTER_MATCH[query.after_match]} {variable}"
        refuse(target, words, "SQL stops with an error there, as it would find the same match again")
    return places[0 if query.after_match == "to_first" else -1]


def _labels(target: str, pattern: pt.Pattern) -> list[str]:
    """Return the variables of a row pattern of fixed length, one for each row. Raise for other patterns."""
    what = f"PATTERN: {print_row_pattern(pattern)}"
    match pattern:
        case pt.Variable(name=name):
            return [name]
        case pt.Empty():
            return []
        case pt.Sequence(parts=parts):
            return [label for part in parts for label in _labels(target, part)]
        case pt.Exclusion(body=body):  # it shows all rows or one row, and here one
            return _labels(target, body)
        case pt.Repeat(low=low, high=high) if low == high:
            body_labels = _labels(target, pattern.body)
            if len(body_labels) * low > MOST_STEPS:
                refuse(target, what, f"it would need {len(body_labels) * low} single rows")
            return body_labels * low
        case pt.Anchor():
            refuse(target, what, "it has no anchors")
        case pt.Permutation():
            refuse(target, what, "SQL prefers one order and reports only that one")
        case pt.Alternative():
            refuse(target, what, "SQL prefers the first option and reports only that one")
    refuse(target, what, "SQL prefers one number of rounds and reports only that match of a row")


def row_value(target: str, clause: str, tree: ex.Expression, labels: Sequence[str]) -> ex.Expression:
    """Return a value of DEFINE at the last of these rows as one of that row and rows before it."""
    here = len(labels) - 1
    match tree:
        case rp.TimeLiteral(value=text) | rp.IntervalLiteral(value=text):
            return ex.Literal(text)
        case ex.Attribute():
            return tree
        case ex.Reference(name=str(name)):
            return at_distance(name, here - _row_of(target, clause, tree, labels, False, 0))
        case rp.Navigation():
            name, row = _navigate(target, clause, tree, labels)
            if row > here:
                refuse(target, f"{clause}: {tree}", "it looks ahead, and there a condition looks back")
            return at_distance(name, here - row)
        case rp.RowAggregate(function="count", arguments=(), variable=None, distinct=False):
            return ex.Literal(here + 1)
    _refuse_function(target, clause, tree)
    if type(tree).__module__ == rp.__name__ or isinstance(tree, ex.IsDistinct):
        refuse(target, f"{clause}: {print_sql(tree)}", "it has no such value in conditions")
    return with_parts(tree, ex.Expression, lambda part: row_value(target, clause, part, labels))


def _refuse_function(target: str, clause: str, tree: ex.Expression) -> None:
    """Raise for a function that only SQL has."""
    if isinstance(tree, ex.Call) and tree.function not in FUNCTIONS:
        refuse(target, f"{clause}: {tree.function.upper()}()", "it has no such function")


def _navigate(target: str, clause: str, tree: rp.Navigation, labels: Sequence[str]) -> tuple[str, int]:
    """Return the column and the row, counted from the first of the match, that a navigation reads."""
    physical, logical = 0, tree
    if tree.function in ("prev", "next"):
        distance = 1 if tree.offset is None else tree.offset
        physical = distance if tree.function == "next" else -distance
        logical = tree.operand if isinstance(tree.operand, rp.Navigation) else rp.Navigation(
            "last", tree.operand
        )  # fmt: skip
    column = logical.operand
    if isinstance(column, ex.Attribute):
        column = ex.Reference("", column.name)
    if not isinstance(column, ex.Reference) or column.name is None:
        refuse(target, f"{clause}: {tree}", "it navigates to an expression; navigate to each column")
    row = _row_of(target, clause, column, labels, logical.function == "first", logical.offset or 0)
    return column.name, row + physical


def _row_of(
    target: str, clause: str, tree: ex.Reference, labels: Sequence[str], from_first: bool, offset: int
) -> int:
    """Return a row of a variable, or of all rows for no variable, counted from the first of the match."""
    rows = [i for i, label in enumerate(labels) if not tree.variable or label == tree.variable]
    if offset >= len(rows):
        refuse(target, f"{clause}: {tree}", "it is always null, as no such row comes before")
    return rows[offset] if from_first else rows[-1 - offset]


def _measured(
    target: str, name: str, tree: ex.Expression, labels: Sequence[str], names: tuple[str, ...]
) -> ex.Expression:
    """Return a measure of MATCH_RECOGNIZE as an expression over the single rows of a chain."""
    clause = f"MEASURES {name}"
    match tree:
        case rp.TimeLiteral(value=text) | rp.IntervalLiteral(value=text):
            return ex.Literal(text)
        case ex.Attribute(name=column):
            return ex.Reference(names[-1], column)
        case ex.Reference(name=str(column)):
            return ex.Reference(names[_row_of(target, clause, tree, labels, False, 0)], column)
        case rp.Navigation():
            column, row = _navigate(target, clause, tree, labels)
            if not 0 <= row < len(labels):
                refuse(target, f"{clause}: {tree}", "it reads a row outside of the match")
            return ex.Reference(names[row], column)
        case rp.RowAggregate(function=function, arguments=arguments, variable=None, distinct=False) if (
            function in AGGREGATES and all(isinstance(argument, ex.Attribute) for argument in arguments)
        ):
            return ex.Aggregate(function, arguments[0] if arguments else None)
    _refuse_function(target, clause, tree)
    if type(tree).__module__ == rp.__name__ or isinstance(tree, ex.IsDistinct):
        refuse(target, f"{clause}: {print_sql(tree)}", "it has no such value")
    return with_parts(tree, ex.Expression, lambda part: _measured(target, name, part, labels, names))


# Regex queries as chains.


def chain_of_regex(target: str, query: RegexQuery) -> RowChain:
    """Return the chain of single rows that a regex of fixed length stands for. Raise if there is none."""
    # A loop at the end of a regex ends with its first possible round, because a match is reported at its
    # earliest end. Other repetitions must have a fixed number of rounds.
    options = _steps(target, query, without_open_end(query.pattern))
    if not options:
        refuse(target, f"pattern {query.pattern}", "a match needs at least one row")
    if len(options) > MOST_STEPS:
        refuse(target, f"pattern {query.pattern}", f"it would need {len(options)} single rows")
    define = dict(query.define)
    conditions = []
    for place, names in enumerate(options):
        if None in names:
            conditions.append(None)
            continue
        trees = [
            row_condition(target, f"define {name!r}", define.get(name, ex.Attribute(name)), place)
            for name in names
            if name is not None
        ]
        conditions.append(trees[0] if len(trees) == 1 else ex.Or(tuple(trees)))
    named = ["row" if None in names else "_or_".join(map(str, names)) for names in options]
    chain = RowChain(
        unique_names(named), tuple(conditions), len(options), query.partition_by, query.order_by,
        query.within, query.within_closed,
    )  # fmt: skip
    names = unique_names(named, chain.columns())
    return RowChain(
        names, chain.conditions, chain.advance, chain.partition_by, chain.order_by, chain.within,
        chain.within_closed, _measures(target, query, names),
    )  # fmt: skip


def without_open_end(pattern: pt.Pattern) -> pt.Pattern:
    """Return the pattern of the earliest ends of a pattern: a loop at the end has its fewest rounds."""
    match pattern:
        case pt.Repeat(body=body, low=0):
            return pt.Empty()
        case pt.Repeat(body=body, low=low) if low != pattern.high and not _is_open(body):
            return body if low == 1 else pt.Repeat(body, low, low)
        case pt.Sequence(parts=(*parts, last)):
            end = without_open_end(last)
            if isinstance(end, pt.Empty):
                return without_open_end(pt.seq(*parts))
            return pt.seq(*parts, end)
    return pattern


def _is_open(pattern: pt.Pattern) -> bool:
    """Return whether a part of the pattern has several lengths."""
    if isinstance(pattern, pt.Repeat) and pattern.low != pattern.high:
        return True
    return any(map(_is_open, pattern.children())) or isinstance(pattern, pt.Alternative)


def _steps(target: str, query: RegexQuery, pattern: pt.Pattern) -> list[tuple[str | None, ...]]:
    """Return the names that each row may have; None is any row."""
    match pattern:
        case pt.Variable(name=name):
            return [(name,)]
        case pt.AnyEvent():
            return [(None,)]
        case pt.Empty():
            return []
        case pt.Sequence(parts=parts):
            return [step for part in parts for step in _steps(target, query, part)]
        case pt.Repeat(body=body, low=low, high=high) if low == high:
            body_steps = _steps(target, query, body)
            if len(body_steps) * low > MOST_STEPS:
                refuse(
                    target, f"pattern {query.pattern}", f"it would need {len(body_steps) * low} single rows"
                )
            return body_steps * low
        case pt.Alternative(options=options):
            steps = [_steps(target, query, option) for option in options]
            if all(len(option_steps) == 1 for option_steps in steps):
                return [tuple(dict.fromkeys(name for option_steps in steps for name in option_steps[0]))]
    refuse(
        target,
        f"pattern {query.pattern}: {pattern}",
        "a regex reports the earliest end, and matches of different lengths have other orders there",
    )


def row_condition(target: str, clause: str, tree: ex.Expression, place: int) -> ex.Expression:
    """Return a predicate at a place of the match as a condition on the row and rows before it."""
    match tree:
        case ex.Previous(operand=ex.Attribute()):
            return tree
        case ex.Previous():
            refuse(target, f"{clause}: {tree}", "prev() of an expression; take prev() of each column")
        case ex.Aggregate(function="first", operand=ex.Attribute(name=name)):
            return at_distance(name, place)
        case ex.Aggregate(function="last", operand=ex.Attribute(name=name)):
            return at_distance(name, 1)
        case ex.Aggregate(function="count", operand=None):
            return ex.Literal(place)
        case ex.Aggregate():
            refuse(target, f"{clause}: {tree}", "aggregates in it would include the current row")
    return with_parts(tree, ex.Expression, lambda part: row_condition(target, clause, part, place))


def _measures(
    target: str, query: RegexQuery, names: tuple[str, ...]
) -> tuple[tuple[str, ex.Expression], ...] | None:
    """Return the measures of a regex, or its default ones, over the steps of a chain."""
    if query.measures is None and not query.order_by:
        return None
    measures = measure_expressions(query)
    return tuple((name, match_value(target, name, tree, names)) for name, tree in measures)


def match_value(target: str, name: str, tree: ex.Expression, names: tuple[str, ...]) -> ex.Expression:
    """Return a measure over a whole match as one over the steps of a chain."""
    match tree:
        case ex.Aggregate(function="first", operand=ex.Attribute(name=column)):
            return ex.Reference(names[0], column)
        case ex.Aggregate(function="last", operand=ex.Attribute(name=column)):
            return ex.Reference(names[-1], column)
        case ex.Aggregate(function="delta", operand=ex.Attribute(name=column)):
            return ex.Arithmetic("-", ex.Reference(names[-1], column), ex.Reference(names[0], column))
        case ex.Aggregate():
            check_aggregate(target, name, tree)
            return tree
    return with_parts(tree, ex.Expression, lambda part: match_value(target, name, part, names))


# Sequence queries as chains.

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
    """Return why the part is no single event of a chain."""
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


def conditions_of_events(
    target: str, query: SequenceQuery, events: tuple[sq.EventPattern, ...]
) -> tuple[list[ex.Expression], ...]:
    """Return for each event the conditions that are decided with it: those that name no later event."""
    # The type of an event is a condition, too.
    place = {event.variable: i for i, event in enumerate(events)}
    conditions: tuple[list[ex.Expression], ...] = tuple([] for _ in events)
    for i, event in enumerate(events):
        if event.event_type is not None:
            if query.event_type is None:
                refuse(target, f"the type {event.event_type}", "name the column of types with event_type=")
            type_reference = ex.Reference(event.variable, query.event_type)
            conditions[i].append(ex.Comparison("==", type_reference, ex.Literal(event.event_type)))
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
            conditions[max(named, default=0)].append(part)
    return conditions


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
    if kind in ONCE:
        refuse(target, f"after_match={kind!r}", "it has no rule that uses each row once")
    if kind == "past_last":
        advance = n
    elif variable is not None:
        advance = max(1, place[variable])
    conditions = []
    for i, trees in enumerate(conditions_of_events(target, query, events)):
        conditions.append(joined_with_and([_as_row(tree, i, place) for tree in trees]))
    measures = query.measures
    if measures is None and query.order_by:
        measures = default_measures(query)
    return RowChain(
        tuple(event.variable for event in events), tuple(conditions), advance, query.partition_by,
        query.order_by, query.within, query.within_closed,
        None if measures is None else tuple((n, _of_match(target, n, t, events)) for n, t in measures),
    )  # fmt: skip


def _check_step(target: str, step: str, query: SequenceQuery) -> None:
    """Raise if the contiguity between two events is not that of neighbouring rows."""
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
    """Return a measure of a sequence as an expression over the single rows of a chain."""
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
