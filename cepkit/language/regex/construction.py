"""Make regex queries from text, trees and functions, check them without columns, and print their patterns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.errors import CepError, PatternSyntaxError, PredicateError, short_text, truth, warn
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import Refusal, span_of, whole_number
from cepkit.language.expressions.durations import positive_duration
from cepkit.language.expressions.mistakes import PATTERN_WORDS
from cepkit.language.expressions.parsing import check_built, check_tree, make_parser, parse, parse_expression
from cepkit.language.expressions.printing import print_expression, times_text
from cepkit.language.expressions.summaries import reason_for_measures_only
from cepkit.language.expressions.trees import text_of
from cepkit.language.query_parts import (
    Duration,
    as_columns,
    as_mapping,
    refuse_clash_with_partition,
    refuse_parameters,
)
from cepkit.language.regex import patterns as pt
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

if TYPE_CHECKING:
    from lark import Lark


# Regex patterns from text, by the grammar ``regex.lark``, and as text in one canonical spelling.

# Parse text into regex patterns over predicate names, by the grammar ``regex.lark``.


def parse_pattern(text: str) -> pt.Pattern:
    """Return the tree of a regex pattern over predicate names.

    ``a b`` is a, then b on the next event; ``a | b`` is an alternative. ``a*``, ``a+``, ``a?``, ``a{2}``,
    ``a{2,}``, ``a{2,5}`` and ``a{,5}`` repeat. ``.`` is any event, ``(a b)+`` a group, ``()`` no event.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, table 1.
    Differs: bounded repetitions are added; a repetition after a blank is an error.
    """
    tree = parse(text, _pattern_parser, PATTERN_WORDS, None)
    if not text.strip():
        raise PatternSyntaxError("expected a predicate name, '.' or '(', found an empty pattern", text, 0)
    check_tree(tree, pt.Pattern.children, text, None)
    return tree


@cache
def _pattern_parser() -> Lark:
    return make_parser(Path(__file__).with_name("regex.lark"), _PatternBuilder())


class _PatternBuilder:
    """The parser's callbacks, one method for each rule and alias of ``regex.lark``."""

    def start(self, children):
        return children[0]

    def alternative(self, children):
        if len(children) == 1:
            return children[0]
        places = [child for child in children if child.span is not None]
        return replace(pt.any_of_patterns(*children), span=span_of(places) if places else None)

    def sequence(self, children):
        if len(children) == 1:
            return children[0]
        return replace(pt.seq(*children), span=span_of(children)) if children else pt.Empty()

    def variable(self, children):
        return pt.Variable(str(children[0]), span=span_of(children))

    def any_event(self, children):
        return pt.AnyEvent(span=span_of(children))

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def star(self, children):
        return self._repeat(children, 0, None)

    def plus(self, children):
        return self._repeat(children, 1, None)

    def optional(self, children):
        return self._repeat(children, 0, 1)

    def exactly(self, children):
        times = whole_number(children[1])
        return self._repeat(children, times, times)

    def at_least(self, children):
        return self._repeat(children, whole_number(children[1]), None)

    def from_to(self, children):
        return self._repeat(children, whole_number(children[1]), whole_number(children[2]))

    def at_most(self, children):
        return self._repeat(children, 0, whole_number(children[1]))

    def _repeat(self, children, low: int, high: int | None):
        body = children[0]
        # The span of a group begins at its bracket, before its body.
        inner = body.body.span if isinstance(body, pt.Repeat) else None
        if inner and body.span and body.span[0] == inner[0]:
            raise Refusal(_TWO_REPETITIONS, (inner[1], children[-1].end_pos))
        if high is not None and high < max(1, low):
            place = (children[1].start_pos, children[-2].end_pos)
            if high == 0:
                raise Refusal("a repetition must allow at least one event; write () for no event", place)
            raise Refusal(f"the lower bound {low} is above the upper bound {high}", place)
        return pt.Repeat(children[0], low, high, span=span_of(children))


_TWO_REPETITIONS = (
    "repetitions have no reluctant or possessive form, and need none: a match ends as early as it can; write "
    "a+, or a group, as in (a b+)?"
)


# Convert regex patterns to text, in one canonical spelling with no more parentheses than needed.

# Binding strength: a part is put in parentheses if it binds less tightly than its place requires.
_ALTERNATIVE, _SEQUENCE, _REPEAT, _ATOM = range(4)


def print_pattern(pattern: pt.Pattern) -> str:
    """Return text that `parse_pattern` reads back as an equal pattern."""
    return _pattern_text(pattern)[0]


def _pattern_text(pattern: pt.Pattern) -> tuple[str, int]:
    """Return the text of a pattern and its binding strength."""
    match pattern:
        case pt.Variable(name=name):
            return name, _ATOM
        case pt.AnyEvent():
            return ".", _ATOM
        case pt.Empty():
            return "()", _ATOM
        case pt.Sequence(parts=parts):
            return " ".join(_pattern_at_least(_REPEAT, part) for part in parts), _SEQUENCE
        case pt.Alternative(options=options):
            return " | ".join(_pattern_at_least(_SEQUENCE, option) for option in options), _ALTERNATIVE
        case pt.Repeat(body=body, low=low, high=high):
            return _pattern_at_least(_ATOM, body) + times_text(low, high), _REPEAT
    raise TypeError(f"no text for {type(pattern).__name__}")


def _pattern_at_least(tightness: int, pattern: pt.Pattern) -> str:
    text, strength = _pattern_text(pattern)
    return text if strength >= tightness else f"({text})"


text_of.register(pt.Pattern, print_pattern)


# Make regex queries from text, trees and functions, and check them without columns.

# The checks of a regex query that need no schema, in the order in which they run.


def _refuse_no_event(query: RegexQuery) -> None:
    if reported_form(query.pattern) is None:
        raise CepError(f"pattern {str(query.pattern)!r} has no event; name at least one predicate, or '.'")


def _refuse_what_only_measures_have(query: RegexQuery) -> None:
    for name, tree in query.define:
        for node in tree.walk(literals=False):
            reason = reason_for_measures_only(node.function) if isinstance(node, ex.Aggregate) else None
            if reason is not None:
                role = f"predicate {name!r}"
                message = f"{role}: {node} {reason}, which only measures can have"
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
    _refuse_what_only_measures_have,
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
