"""Make regex queries from text, trees and functions, and check them without columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cepkit.errors import CepError, PredicateError, short_text, truth, warn
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import positive_duration
from cepkit.language.expressions.parsing import check_built, parse_expression
from cepkit.language.expressions.printing import print_expression
from cepkit.language.query_parts import (
    Duration,
    as_columns,
    as_mapping,
    refuse_clash_with_partition,
    refuse_parameters,
)
from cepkit.language.regex.parsing import parse_pattern, print_pattern
from cepkit.language.regex.patterns import (
    AnyEvent,
    Pattern,
    first_names,
    is_nullable,
    reported_form,
    seq,
    variables,
)
from cepkit.language.regex.query import RegexQuery

# The checks of a regex query that need no schema, in the order in which they run.


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
                other = (
                    f", or use {ex.Previous(node.operand)}"
                    if node.function == "last" and node.operand is not None
                    else ""
                )
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


# Make regex queries from text, trees and functions, and check them without columns.

# Meaning of a prefix of an argument name, for a Python function that serves as a predicate.
_ARGUMENT_PREFIXES: dict[str, Callable[[ex.Attribute], ex.Expression]] = {
    "first_": lambda attribute: ex.Aggregate("first", attribute),
    "last_": lambda attribute: ex.Aggregate("last", attribute),
    "prev_": ex.Previous,
}


def regex_query(
    pattern: str | Pattern,
    *,
    define: Mapping[str, str | ex.Expression | Callable] | None = None,
    measures: Mapping[str, str | ex.Expression] | None = None,
    partition_by: str | Iterable[str] | None = None,
    order_by: str | Iterable[str] | None = None,
    within: Duration | None = None,
    within_closed: bool = True,
    params: Mapping[str, Any] | None = None,
) -> RegexQuery:
    """Return a regex query over predicates, checked as far as possible without columns.

    Parameters
    ----------
    pattern : str or Pattern
        Text of `parse_pattern`, or a tree.
    define : mapping of str to (str or Expression or callable), optional
        The predicates. A callable receives the values that its argument names mean: ``price`` is the
        current value, and ``first_price``, ``last_price`` and ``prev_price`` are ``first(price)``,
        ``last(price)`` and ``prev(price)``. If a column itself has such a name, register the function
        and call it in text: ``"f(last_price)"``.
    measures : mapping of str to (str or Expression), optional
        The output columns; None means the default ones.
    partition_by, order_by : str or iterable of str, optional
        Columns.
    within : str or timedelta or int, optional
        Longest duration of a match; needs ``order_by``.
    within_closed : bool
        Whether a match may last exactly ``within``.
    params : mapping of str to value, optional
        A value for every parameter that is used, and for no other.

    Raises
    ------
    PatternSyntaxError
        If a text cannot be parsed.
    PredicateError
        If a predicate that can hold at the first event of a match uses an aggregate (no event is
        matched yet), a predicate uses ``collect``, a measure uses a column outside an aggregate, or a
        parameter has no value.
    CepError
        If the pattern has no event, names clash, a parameter is not used, or an argument has no effect.

    Warns
    -----
    CepWarning
        If a predicate is not used, or if the end or the whole of the pattern may be empty. A match
        is reported with the first event that completes it.

    Notes
    -----
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 3.3
    (safety checks). Time is linear in the size of the trees.

    Examples
    --------
    >>> query = regex_query(". rise+ drop", partition_by="symbol", params={"least": 5},
    ...                     define={"rise": "price >= prev(price)", "drop": "price < first(price) - :least"})
    >>> print(query)
    pattern: . rise+ drop
    define:
      rise: price >= prev(price)
      drop: price < first(price) - :least
    partition_by: symbol
    params:
      least = 5
    >>> regex_query("rise fall", define={"rise": "price > first(price)", "fall": "price < 1"})
    Traceback (most recent call last):
    cepkit.errors.PredicateError: predicate 'rise': first(price) ranges over the events matched before \
the current one, and 'rise' can be the first of a match; put '.' first: '. rise fall'
      price > first(price)
              ^^^^^^^^^^^^
    """
    sources: dict[str, str] = {}
    called: dict[str, fn.RegisteredFunction] = {}
    query = RegexQuery(
        pattern=_pattern(pattern, sources),
        define=_trees("define", "predicate", define, sources, called),
        measures=None if measures is None else _trees("measures", "measure", measures, sources, called),
        partition_by=as_columns("partition_by", partition_by),
        order_by=as_columns("order_by", order_by),
        within=None if within is None else positive_duration("within", within),
        within_closed=truth("within_closed", within_closed) or within is None,  # it belongs to a window
        params=tuple(as_mapping("params", params).items()),
        functions=tuple(called.items()),
        sources=tuple(sources.items()),
    )
    for check in CHECKS:
        check(query)
    return query


# The arguments, converted to trees.


def _pattern(pattern: str | Pattern, sources: dict[str, str]) -> Pattern:
    if not isinstance(pattern, str | Pattern):
        raise CepError(f"pattern: expected text or a pattern, got {type(pattern).__name__}")
    if isinstance(pattern, Pattern):
        check_built(pattern, Pattern.children, "pattern")
    # A tree is printed and parsed again, so it gets the same checks and error positions as text.
    sources["pattern"] = pattern if isinstance(pattern, str) else print_pattern(pattern)
    return parse_pattern(sources["pattern"])


def _trees(
    argument: str,
    noun: str,
    given: Mapping[str, Any] | None,
    sources: dict[str, str],
    called: dict[str, fn.RegisteredFunction],
) -> tuple[tuple[str, ex.Expression], ...]:
    if given is not None and not isinstance(given, Mapping):
        raise CepError(f"{argument}: expected a mapping of names to expressions, got {type(given).__name__}")
    trees: dict[str, ex.Expression] = {}
    spelling_of: dict[str, str] = {}
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not name or (noun == "predicate" and not name.isidentifier()):
            wanted = "an identifier" if noun == "predicate" else "text"
            raise CepError(f"{argument}: the name of a {noun} must be {wanted}, got {name!r}")
        twin = spelling_of.setdefault(name.lower(), name)
        if twin != name:
            raise CepError(f"{argument}: {twin!r} and {name!r} differ only in case; rename one")
        role = f"{noun} {name!r}"
        if callable(value) and noun == "predicate":
            trees[name] = _call(value, name, called)
            sources[role] = print_expression(trees[name])
        else:
            sources[role] = _text(value, role)
            trees[name] = parse_expression(sources[role], role=role)
        for node in trees[name].walk(literals=False):
            if isinstance(node, ex.Call) and node.function not in called and fn.is_registered(node.function):
                called[node.function] = fn.registered_function(node.function)
    return tuple(trees.items())


def _text(value: object, role: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, ex.Expression):
        wanted = (
            "text, an expression or a function" if role.startswith("predicate") else "text or an expression"
        )
        raise PredicateError(f"{role}: expected {wanted}, got {type(value).__name__}")
    check_built(value, ex.Expression.children, role)
    try:
        return print_expression(value)
    except ValueError as error:
        raise PredicateError(f"{role}: {error}") from None


def _call(function: Callable, predicate: str, called: dict[str, fn.RegisteredFunction]) -> ex.Call:
    """Return the call of a Python function; the names of its arguments say which values it takes."""
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        message = f"predicate {predicate!r}: the function's arguments have no names to match with columns"
        raise PredicateError(f"{message}; register it and call it in text") from None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise PredicateError(
                f"predicate {predicate!r}: argument {str(parameter)!r} of the function names no column; "
                "use plain arguments, named after columns"
            )
    described = fn.describe_function(function, _function_name(function, predicate, called))
    called[described.name] = described
    return ex.Call(described.name, tuple(_argument(p.name) for p in parameters if p.default is p.empty))


def _argument(name: str) -> ex.Expression:
    for prefix, wrap in _ARGUMENT_PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return wrap(ex.Attribute(name.removeprefix(prefix)))
    return ex.Attribute(name)


def _function_name(function: Callable, predicate: str, called: dict[str, fn.RegisteredFunction]) -> str:
    """Return the function's own name, or the predicate's name if another function has the same name."""
    for name in (getattr(function, "__name__", ""), predicate):
        namesakes = [fn.registered_function(name)] if fn.is_registered(name) else []
        namesakes += [called[name]] if name in called else []
        is_free = all(other.call is function for other in namesakes)
        if is_free and name.isidentifier() and name.lower() not in fn.BUILT_IN_NAMES:
            return name
    raise PredicateError(
        f"predicate {predicate!r}: give its function a name of its own, {predicate!r} is taken"
    )
