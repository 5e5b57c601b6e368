"""Make sequence queries from text, patterns and keywords."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from typing import Any

from cepkit.errors import CepError, PatternSyntaxError, PredicateError, truth
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks, format_duration, parse_duration
from cepkit.language.expressions.operands import Operand
from cepkit.language.expressions.parsing import check_built, parse_expression
from cepkit.language.expressions.printing import at_least_not, print_expression
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.query_parts import END, Duration, as_columns, as_mapping, read_after_match
from cepkit.language.sequences.checks import CONDITION_CHECKS, ONCE, PATTERN_CHECKS, WHOLE_CHECKS, check_words
from cepkit.language.sequences.parsing import parse_sase, parse_sequence, strategy_of
from cepkit.language.sequences.patterns import (
    EventPattern,
    Loop,
    SequencePattern,
    SequenceQuery,
    event_patterns,
    read_condition,
)
from cepkit.language.sequences.printing import print_sequence

# Convert the arguments of a sequence query (text, trees or values) into the parts of the query.

_AFTER_MATCH = ("none", "past_last", "to_next", "to_first(b)", "to_last(b)", *ONCE)


def make_query(
    query: SequenceQuery, more: Iterable[Any] = (), measures: Mapping[str, Any] | None = None
) -> SequenceQuery:
    """Return the query with further conditions and measures, normalised and checked."""
    # Conditions on events move into ``where``, names are resolved to columns or variables, and trees
    # without text get a text for the positions in errors.
    check_built(query.pattern, SequencePattern.children, "pattern")
    pattern, lifted = _lift_conditions(query.pattern)
    for check in PATTERN_CHECKS:
        check(replace(query, pattern=pattern))
    sources, more = dict(query.sources), tuple(more)
    if "pattern" not in sources:
        sources["pattern"] = _spell(print_sequence, pattern, "pattern")
        pattern = parse_sequence(sources["pattern"])
    names = {event.variable for event in event_patterns(pattern)}
    pattern = rebuilt(pattern, SequencePattern, lambda node: _with_variables(node, names))
    where = [_resolve_names(condition, names, owner) for owner, condition in lifted]
    where += [_resolve_names(condition, names) for condition in query.where]
    where = _all_conditions(where, more, names, sources)
    measure_trees = query.measures if measures is None else _measures(measures, names, sources)
    full_query = replace(
        query, pattern=pattern, where=tuple(where), measures=measure_trees, sources=tuple(sources.items())
    )
    for check in (check_words, *CONDITION_CHECKS):
        check(full_query)
    functions = {}
    for _, tree in full_query.trees():
        for node in tree.walk():
            if isinstance(node, ex.Call) and fn.is_registered(node.function):
                functions[node.function] = fn.registered_function(node.function)
    functions.update(query.functions)
    return replace(full_query, functions=tuple(functions.items()))


def _all_conditions(
    where: list[ex.Expression], more: tuple, names: set[str], sources: dict[str, str]
) -> list[ex.Expression]:
    """Return the conditions with ``more``, and set their text in ``sources``."""
    trees = read_conditions(more, "where")
    added = [_resolve_names(part, names) for tree in trees for part in ex.conjuncts(tree)]
    if not added and (not where or "where" in sources):
        return where
    if not where and len(more) == 1 and isinstance(more[0], str):
        sources["where"] = more[0]
        return added
    # Trees from several sources are printed and parsed again as one text.
    sources["where"] = " and ".join(_spell(at_least_not, tree, "where") for tree in (*where, *added))
    again = parse_expression(sources["where"], role="where", references=True)
    return [_resolve_names(part, names) for part in ex.conjuncts(again)]


def read_conditions(given: Iterable[Any], role: str) -> tuple[ex.Expression, ...]:
    """Return conditions, given as text, operands or trees, as a list of trees."""
    return tuple(_tree(value, role)[0] for value in given)


def window(argument: str, duration: Duration | None) -> str | int | None:
    """Return a window in one spelling: text with short units, or ticks."""
    if duration is None:
        return None
    try:
        if isinstance(duration, str):
            return format_duration(parse_duration(duration), "ns")
        if isinstance(duration, timedelta):
            return format_duration(duration_ticks(duration, "ns"), "ns")
        return duration_ticks(duration, None)
    except PatternSyntaxError as error:
        message = f"{argument}: {error.message}"
        raise PatternSyntaxError(message, error.text, error.position, error.length) from None
    except TypeError as error:
        if isinstance(error, PredicateError):
            raise CepError(f"{argument}: {error}") from None
        kind = type(duration).__name__
        raise CepError(f"{argument}: expected text, timedelta or an integer, got {kind}") from None


def _complete_until(given: Any) -> Any:
    return END if isinstance(given, str) and given.strip().lower() == END else given


def _strategy(given: Any) -> str:
    return strategy_of(given) or given if isinstance(given, str) else given


def _whole(given: Any) -> int:
    """Return the number of events of ``within_events``. Raise if it is no whole number from 1."""
    try:
        n_events = operator.index(given)
    except TypeError:
        n_events = 0
    if n_events < 1 or isinstance(given, bool):
        raise CepError(f"within_events: expected a number of events from 1, got {given!r}")
    return n_events


def _named_columns(argument: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, Iterable):
        raise CepError(f"{argument}: expected names of columns as text, got {given!r}")
    return as_columns(argument, given)


def _order(given: Any) -> tuple[str, ...]:
    """Return the names of ``evaluation_order``. Raise if they are no texts."""
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        names = (given,)
    if not all(isinstance(name, str) for name in names):
        raise CepError(f"evaluation_order: expected names of events, as in ['c', 'a', 'b'], got {given!r}")
    return names


def _column(given: Any) -> str:
    if not isinstance(given, str):
        raise CepError(f"event_type: expected the name of a column as text, got {given!r}")
    return given


# The reader of each keyword, by name.
READERS: dict[str, Callable[[Any], Any]] = {
    "strategy": _strategy, "scope": lambda given: given, "within": lambda given: window("within", given),
    "within_closed": lambda given: truth("within_closed", given), "within_events": _whole,
    "gap_within": lambda given: window("gap_within", given),
    "strict_time": lambda given: truth("strict_time", given),
    "partition_by": lambda given: _named_columns("partition_by", given),
    "order_by": lambda given: _named_columns("order_by", given), "event_type": _column,
    "after_match": partial(read_after_match, _AFTER_MATCH), "evaluation_order": _order,
    "complete_until": _complete_until,
}  # fmt: skip


def _tree(value: Any, role: str) -> tuple[ex.Expression, str]:
    """Return a condition or measure as a tree, with its text."""
    if isinstance(value, Operand):
        value = value.expression
    if isinstance(value, ex.Expression):
        check_built(value, ex.Expression.children, role)
        value = _spell(print_expression, value, role)
    if not isinstance(value, str):
        cure = (
            "; columns of events are b['x'], and a condition is b['x'] > 5" if isinstance(value, bool) else ""
        )
        raise PredicateError(f"{role}: expected text or an expression, got {type(value).__name__}{cure}")
    return parse_expression(value, role=role, references=True), value


def _spell(spell: Callable[[Any], str], tree: Any, role: str) -> str:
    try:
        return spell(tree)
    except ValueError as error:
        raise PredicateError(f"{role}: {error}") from None


def _measures(given: Any, names: set[str], sources: dict[str, str]) -> tuple[tuple[str, ex.Expression], ...]:
    read: dict[str, ex.Expression] = {}
    spelling_of: dict[str, str] = {}
    for name, value in as_mapping("measures", given).items():
        if not isinstance(name, str) or not name:
            raise CepError(f"measures: the name of a measure must be text, got {name!r}")
        twin = spelling_of.setdefault(name.lower(), name)
        if twin != name:
            raise CepError(f"measures: {twin!r} and {name!r} differ only in case; rename one")
        role = f"measure {name!r}"
        tree, sources[role] = _tree(value, role)
        read[name] = _resolve_names(tree, names)
    return tuple(read.items())


# --- columns and variables -------------------------------------------------------------------------------


def _lift_conditions(pattern: SequencePattern) -> tuple[SequencePattern, list[tuple[str, ex.Expression]]]:
    """Return the pattern without conditions, and the conditions with the names of their events."""
    lifted = [(event.variable, tree) for event in event_patterns(pattern) for tree in event.conditions]

    def bare(node: SequencePattern) -> SequencePattern:
        if isinstance(node, EventPattern) and node.conditions:
            return replace(node, conditions=())
        if isinstance(node, Loop) and node.until is not None and isinstance(node.body, EventPattern):
            return replace(node, until=rebuilt(node.until, ex.Expression, _without(node.body.variable)))
        return node

    return rebuilt(pattern, SequencePattern, bare), lifted


def _with_variables(node: SequencePattern, names: set[str]) -> SequencePattern:
    if isinstance(node, Loop) and node.until is not None:
        return replace(node, until=_resolve_names(node.until, names))
    return node


def _without(variable: str) -> Callable[[ex.Expression], ex.Expression]:
    """Return a function that replaces values of ``variable`` by plain columns."""

    def change(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference) and node.variable == variable and node.index is None and node.name:
            return ex.Attribute(node.name, span=node.span)
        return node

    return change


def _resolve_names(tree: ex.Expression, names: set[str], owner: str | None = None) -> ex.Expression:
    """Return ``tree`` with ``count(b)`` over event b; plain columns become columns of ``owner``, if given."""

    def change(node: ex.Expression) -> ex.Expression:
        match node:
            case ex.Aggregate(operand=ex.Attribute(name=name) as operand) if name in names:
                return replace(node, operand=ex.Reference(name, span=operand.span))
        return node

    def owned(node: ex.Expression) -> ex.Expression:
        if owner is None or not isinstance(node, ex.Attribute):
            return node
        return ex.Reference(owner, node.name, span=node.span)

    tree = rebuilt(tree, ex.Expression, change)
    return tree if owner is None else rebuilt(tree, ex.Expression, owned)


@read_condition.register(object)
def _(given: Any, role: str) -> ex.Expression:
    (condition,) = read_conditions([given], role)
    return condition


def sequence_query(
    pattern: str | SequencePattern | SequenceQuery | Any, *,
    where: str | Operand | ex.Expression | Iterable[str | Operand | ex.Expression] | None = None,
    strategy: str | None = None, scope: str = "run", within: Duration | None = None,
    within_closed: bool = True, within_events: int | None = None, gap_within: Duration | None = None,
    strict_time: bool = False, partition_by: str | Iterable[str] | None = None,
    order_by: str | Iterable[str] | None = None, event_type: str | None = None,
    after_match: str | None = None, evaluation_order: Iterable[str] | None = None, complete_until: Any = None,
    measures: Mapping[str, str | Operand | ex.Expression] | None = None,
    params: Mapping[str, Any] | None = None,
) -> SequenceQuery:  # fmt: skip
    """Return the query of an event sequence, checked as far as possible without columns.

    Parameters
    ----------
    pattern : str, SequencePattern, SequenceQuery or QueryBuilder
        Text that begins with PATTERN, a pattern of events, or a query. The other arguments add what it
        leaves out.
    where : str, Operand or Expression, or several, optional
        Conditions that must all hold: ``"b.price > a.price and b[i].x > b[i-1].x"``.
    strategy : str, optional
        One of ``STRATEGIES`` or a SASE name. None means the pattern's own strategy, else ``any``.
    scope : str
        ``run`` or ``edge``: which events are relevant under ``next``.
    within, gap_within : str or timedelta or int, optional
        Longest time from the first to the last event, and between two successive ones; zero is allowed.
    within_closed : bool
        Whether a match may last exactly that long.
    within_events : int, optional
        Largest number of events of the partition from the first to the last, both included.
    strict_time : bool
        Whether successive events must differ in time.
    partition_by, order_by : str or iterable of str, optional
        Columns.
    event_type : str, optional
        The column of event types.
    after_match : str, optional
        ``none``, ``past_last``, ``to_next``, ``to_first(b)`` or ``to_last(b)``, also in SQL's words:
        ``skip past last row``. ``once`` and ``once_newest`` use each event once, see `cepkit.match`.
    evaluation_order : iterable of str, optional
        All variables in search order. Only for sequences of single events.
    complete_until : time, number or "end", optional
        Until when the data are complete, see `cepkit.match`.
    measures : mapping of str to expression, optional
        Output columns: values of events (``a.price``), aggregates of a variable (``avg(b.price)``,
        ``count(b)``) and, with plain columns, of the whole match (``first(ts)``, ``count()``).
    params : mapping of str to value, optional
        A value for every parameter that is used, and for no other. They replace the query's own values.

    Returns
    -------
    SequenceQuery
        The query. Conditions on single events are in ``where``; durations in text have one spelling.

    Raises
    ------
    PatternSyntaxError
        If a text cannot be parsed.
    PredicateError
        If a condition or measure does not fit the events of the pattern.
    CepError
        If the pattern or the combination of arguments makes no sense, or something is given twice.

    Notes
    -----
    `cepkit.language.sequences.checks.check_ready` checks the columns of types and time later. Time is linear
    in the size of the trees.

    Examples
    --------
    >>> query = sequence_query(
    ...     "PATTERN SEQ(Check+ c[], Pay p) WHERE [card] AND c.result = 'refused' WITHIN 5 minutes",
    ...     event_type="kind", order_by="ts", measures={"refused": "count(c)", "paid": "p.amount"})
    >>> print(query)
    PATTERN SEQ(Check+ c[], Pay p)
    WHERE skip_till_any_match AND [card] AND c.result == 'refused'
    WITHIN 5 min
    event_type: kind
    order_by: ts
    measures:
      refused: count(c)
      paid: p.amount
    >>> sequence_query("PATTERN SEQ(A a, B b) WHERE b.price > c.price")
    Traceback (most recent call last):
    cepkit.errors.PredicateError: where: no event of the pattern is named 'c'; there are ['a', 'b'].
      PATTERN SEQ(A a, B b) WHERE b.price > c.price
                                            ^^^^^^^
    """
    query, setting_names = _begin_query(pattern)
    keywords = {
        "where": where, "strategy": strategy,
        "scope": None if isinstance(scope, str) and scope == "run" else scope, "within": within,
        "within_closed": None if within_closed is True else within_closed, "within_events": within_events,
        "gap_within": gap_within, "strict_time": None if strict_time is False else strict_time,
        "partition_by": partition_by, "order_by": order_by, "event_type": event_type,
        "after_match": after_match, "evaluation_order": evaluation_order, "complete_until": complete_until,
        "measures": measures,
    }  # fmt: skip
    keywords = {name: value for name, value in keywords.items() if value is not None}  # None: left out
    twice = [name for name in keywords if name in setting_names]
    if twice:
        raise CepError(f"{', '.join(twice)}: given both in the query and as a keyword; give it once")
    more = keywords.pop("where", ())
    more = more if isinstance(more, Iterable) and not isinstance(more, str) else (more,)
    query = replace(
        query, within=window("within", query.within), gap_within=window("gap_within", query.gap_within)
    )
    query = replace(
        query, **{name: READERS[name](value) for name, value in keywords.items() if name in READERS}
    )
    if query.within is None and query.gap_within is None:
        query = replace(query, within_closed=True)  # it belongs to a window; without one, queries are equal
    query = replace(query, params=tuple({**dict(query.params), **as_mapping("params", params)}.items()))
    query = make_query(query, more, keywords.get("measures"))
    for check in WHOLE_CHECKS:
        check(query)
    return query


def _begin_query(pattern: Any) -> tuple[SequenceQuery, set[str]]:
    """Return the query made from ``pattern`` alone, and the names of the settings that it contains."""
    pattern = getattr(pattern, "query", pattern)  # if it is a QueryBuilder
    if isinstance(pattern, str):
        parts = parse_sase(pattern)
        values = {item.name: getattr(parts, item.name) for item in fields(parts)}
        values = {name: value for name, value in values.items() if value not in (None, ())}
        setting_names = set(values) - {"pattern"}
        if "where" in values:
            values["where"] = ex.conjuncts(values["where"])
        return SequenceQuery(**values, sources=(("pattern", pattern), ("where", pattern))), setting_names
    if isinstance(pattern, SequencePattern):
        return SequenceQuery(pattern), set()
    if isinstance(pattern, SequenceQuery):
        setting_names = {
            item.name
            for item in fields(pattern)
            if item.name not in ("pattern", "params", "functions", "sources")
            and getattr(pattern, item.name) != item.default
        }
        return pattern, setting_names
    kind = type(pattern).__name__
    raise CepError(f"expected text that begins with PATTERN, a pattern of events or a query, got {kind}")
