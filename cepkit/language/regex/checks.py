"""The checks of a regex query that need no schema, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cepkit.errors import CepError, PredicateError, short_text, warn
from cepkit.language.expressions import trees as ex
from cepkit.language.query_parts import refuse_clash_with_partition, refuse_parameters
from cepkit.language.regex.patterns import AnyEvent, seq, variables
from cepkit.language.regex.positions import first_names, is_nullable, reported_form
from cepkit.language.regex.query import RegexQuery


def _refuse_no_event(query: RegexQuery) -> None:
    if reported_form(query.pattern) is None:
        raise CepError(f"pattern {str(query.pattern)!r} has no event; name at least one predicate, or '.'")


def _refuse_collect_in_predicate(query: RegexQuery) -> None:
    for name, tree in query.define:
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate) and node.function == "collect":
                role = f"predicate {name!r}"
                message = f"{role}: {node} makes a list, which only measures can have"
                raise PredicateError(f"{message}\n{query.underlined(role, node)}")


def _refuse_aggregate_at_first(query: RegexQuery) -> None:
    define = dict(query.define)
    for name in first_names(query.pattern):
        for node in define[name].walk(literals=False) if name in define else ():
            if isinstance(node, ex.Aggregate):
                role, cure = f"predicate {name!r}", str(seq(AnyEvent(), query.pattern))
                other = f", or use {ex.Previous(node.operand)}" if node.function == "last" else ""
                raise PredicateError(
                    f"{role}: {node} ranges over the events matched before the current one, and {name!r} "
                    f"can be the first of a match; put '.' first: {cure!r}{other}\n"
                    f"{query.underlined(role, node)}"
                )


def _refuse_column_outside_aggregate(query: RegexQuery) -> None:
    for name, tree in query.measures or ():
        for node in _outside_aggregates(tree):
            role, problem = f"measure {name!r}", None
            if isinstance(node, ex.Previous):
                problem = f"{node} refers to a single event, which only predicates may do"
            elif isinstance(node, ex.Attribute) and node.name not in query.partition_by:
                problem = f"column {node.name!r} has one value for each event of a match"
            if problem:
                column = node.operand if isinstance(node, ex.Previous) else node
                cure = f"write {ex.Aggregate('first', column)} or {ex.Aggregate('last', column)}"
                raise PredicateError(f"{role}: {problem}; {cure}\n{query.underlined(role, node)}")


def _outside_aggregates(tree: ex.Expression) -> Iterator[ex.Expression]:
    yield tree
    if not isinstance(tree, ex.Aggregate | ex.Previous):
        for child in tree.children():
            yield from _outside_aggregates(child)


def _refuse_within_without_order(query: RegexQuery) -> None:
    if query.within is not None and not query.order_by:
        raise CepError("within: a duration needs a clock; name its column first in order_by")


def _warn_of_unused_predicates(query: RegexQuery) -> None:
    used = {variable.name for variable in variables(query.pattern)}
    unused = [name for name, _ in query.define if name not in used]
    if unused:
        warn(f"define: the pattern {short_text(str(query.pattern))!r} does not use {unused}")


def _warn_of_dead_parts(query: RegexQuery) -> None:
    form, text = reported_form(query.pattern), short_text(str(query.pattern))
    if is_nullable(query.pattern):
        message = f"pattern {text!r} can match without any event, but no empty match is reported"
        warn(f"{message}; it equals {short_text(str(form))!r}")
    elif form != query.pattern:
        warn(
            f"the end of pattern {text!r} has no effect: a match is reported with the first event that "
            f"completes it; the pattern equals {short_text(str(form))!r}"
        )


CHECKS: tuple[Callable[[RegexQuery], None], ...] = (
    _refuse_no_event,
    _refuse_collect_in_predicate,
    _refuse_aggregate_at_first,
    refuse_clash_with_partition,
    _refuse_column_outside_aggregate,
    refuse_parameters,
    _refuse_within_without_order,
    _warn_of_unused_predicates,
    _warn_of_dead_parts,
)
