"""Regex queries as chains."""

from __future__ import annotations

from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import with_parts
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.query import RegexQuery
from cepkit.translation.chains import RowChain, at_distance, check_aggregate, unique_names
from cepkit.translation.refusing import refuse

MOST_STEPS = 64


def chain_of_regex(target: str, query: RegexQuery) -> RowChain:
    """Return a regex as a chain.

    A loop at the end of a regex ends with its first possible round, because a match is reported at its
    earliest end. Other repetitions must have a fixed number of rounds.
    """
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
            own = _steps(target, query, body)
            if len(own) * low > MOST_STEPS:
                refuse(target, f"pattern {query.pattern}", f"it would need {len(own) * low} single rows")
            return own * low
        case pt.Alternative(options=options):
            steps = [_steps(target, query, option) for option in options]
            if all(len(one) == 1 for one in steps):
                return [tuple(dict.fromkeys(name for one in steps for name in one[0]))]
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
