"""Queries as Python code: calls of ``df.cep.match`` with regexes or SASE's text, and code of the builder."""

from __future__ import annotations

import keyword
from dataclasses import replace
from typing import Any

from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.expressions.trees import rebuilt, with_parts
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.language.regex import RegexQuery, regex_query
from cepkit.language.row_patterns import print_pattern
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.language.sequences.printing import duration_text, sase_text
from cepkit.translation.chains import (
    AGGREGATES,
    RowChain,
    map_measures,
    map_values,
    refuse,
    refuse_functions,
    unique_names,
    with_all_values,
    with_values,
)
from cepkit.translation.match_recognize import regex_pattern_of_rows
from cepkit.translation.to_chains import row_value

# Calls of ``df.cep.match`` as text.


def call_text(query: str, keywords: dict[str, Any], before: str = "") -> str:
    """Return the call of ``df.cep.match`` with a query as Python text and its keywords that say something."""
    spelled = [f"{name}={_spelled(value)}" for name, value in keywords.items() if value not in (None, (), {})]
    one_line = f"df.cep.match({', '.join([query, *spelled])})"
    if len(one_line) <= 100 and "\n" not in one_line:
        return before + one_line
    inner = "".join(f"    {argument},\n" for argument in (query, *spelled))
    return f"{before}df.cep.match(\n{inner})"


def _spelled(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(value[0]) if len(value) == 1 else repr(list(value))
    return repr(value)


def long_text(text: str) -> str:
    """Return a text of several lines as Python spells it."""
    is_plain = "\n" in text and "".join(text.split("\n")).isprintable()  # Python changes other line ends
    if not is_plain or '"""' in text or "\\" in text or text.endswith('"'):
        return repr(text)
    return f'"""{text}"""'


# Queries as regexes over predicates: the call of ``df.cep.match`` with its ``define``.

TARGET = "regex"


def print_regex(query: RegexQuery) -> str:
    return call_text(repr(print_pattern(query.pattern)), regex_keywords(query))


def regex_keywords(query: RegexQuery) -> dict[str, Any]:
    """Return the keywords of a regex query for a call, with the values of its parameters in the text."""
    refuse_functions(TARGET, "define", query)
    params = dict(query.params)
    left = {name: value for name, value in params.items() if not _is_plain(value)}
    trees = {
        role: {name: print_expression(with_values(tree, params)) for name, tree in entries}
        for role, entries in (("define", query.define), ("measures", query.measures or ()))
    }
    return {
        "define": trees["define"], "partition_by": query.partition_by, "order_by": query.order_by,
        "within": query.within, "within_closed": None if query.within_closed else False,
        "measures": trees["measures"], "params": left, **query.skip_keywords(),
    }  # fmt: skip


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def regex_of_chain(target: str, chain: RowChain) -> RegexQuery:
    """Return a chain of rows as a regex. Refuse what a regex cannot say."""
    if chain.advance != chain.length:
        refuse(
            target,
            "a search that continues inside a match (after_match or AFTER MATCH SKIP)",
            "a regex continues after the last row of a match",
        )
    names = unique_names([*chain.names], chain.columns())
    define = {
        name: print_expression(tree)
        for name, tree in zip(names, chain.conditions, strict=True)
        if tree is not None
    }
    pattern = " ".join(name if name in define else "." for name in names)  # any row needs no name

    def leaf(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Aggregate):
            return node
        assert isinstance(node, ex.Reference) and node.name is not None
        place = chain.names.index(node.variable)
        if place not in (0, chain.length - 1):
            refuse(target, f"measure of {node}", "measures of a regex see its first and its last row")
        return ex.Aggregate("last" if place else "first", ex.Attribute(node.name))

    measures = dict(map_measures(target, chain, leaf))
    if chain.measures is not None and not measures:
        refuse(target, "a result without measures", "the default of a regex has some")
    return regex_query(
        pattern, define=define or None, partition_by=chain.partition_by or None,
        order_by=chain.order_by or None, within=chain.within, within_closed=chain.within_closed,
        measures={name: print_expression(tree) for name, tree in measures.items()} or None,
    )  # fmt: skip


# --- clauses of MATCH_RECOGNIZE with loops and unique ends


def regex_of_rows(target: str, query: RowPatternQuery) -> RegexQuery:
    """Return a clause with unique ends as a regex."""
    used = tuple(dict.fromkeys(node.name for node in pt.variables(query.pattern)))
    define: dict[str, ex.Expression | None] = dict.fromkeys(used)
    for name, tree in query.define:
        if name in define:
            define[name] = None if tree == ex.Literal(True) else _row_local(target, name, tree)
    pattern = regex_pattern_of_rows(target, query, define)
    order_by = tuple(key.column for key in query.order_by)
    read = RowChain(
        used, tuple(define.values()), 1, query.partition_by, order_by,
    ).columns()  # fmt: skip
    names = unique_names([name.lower() if name == name.upper() else name for name in used], read)
    name_of = dict(zip(used, names, strict=True))

    def rename(node: pt.Pattern) -> pt.Pattern:
        return pt.Variable(name_of[node.name]) if isinstance(node, pt.Variable) else node

    measures = {name: print_expression(_measure(target, name, tree)) for name, tree in query.measures}
    if not measures:
        refuse(target, "a result without MEASURES", "the default of a regex has some")
    return regex_query(
        rebuilt(pattern, pt.Pattern, rename),
        define={name_of[name]: print_expression(tree) for name, tree in define.items() if tree is not None},
        partition_by=query.partition_by or None, order_by=order_by or None, within=query.within,
        within_closed=query.within is None, measures=measures,
    )  # fmt: skip


def _row_local(target: str, name: str, tree: ex.Expression) -> ex.Expression:
    """Return a condition as one of the row and rows before it; raise if it reads the match so far."""
    for node in tree.walk(literals=False):
        is_other = isinstance(node, ex.Reference) and node.variable != name
        inner = node.operand if isinstance(node, rp.Navigation) else None
        is_logical = isinstance(node, rp.Navigation) and (
            node.function in ("first", "last") or isinstance(inner, rp.Navigation)
        )
        if is_other or is_logical or isinstance(node, rp.RowAggregate):
            refuse(
                target, f"DEFINE {name}: {node}",
                "in a pattern with loops a condition may read the row and rows before it only",
            )  # fmt: skip
    return row_value(target, f"DEFINE {name}", tree, _Rows(name))


class _Rows(list):
    """The labels of a match up to a row of a variable. Only the last one is known."""

    def __init__(self, name: str):
        super().__init__([""] * 1000 + [name])


def _measure(target: str, name: str, tree: ex.Expression) -> ex.Expression:
    """Return a measure of MATCH_RECOGNIZE as one of a regex."""
    match tree:
        case rp.TimeLiteral(value=text) | rp.IntervalLiteral(value=text):
            return ex.Literal(text)
        case ex.Attribute():
            return ex.Aggregate("last", tree)
        case rp.Navigation(
            function="first" | "last" as end, operand=ex.Attribute() as column, offset=None | 0
        ):
            return ex.Aggregate(end, column)
        case rp.Navigation(function="prev", operand=ex.Attribute() as column, offset=None | int() as offset):
            if offset != 0:
                return ex.Previous(column, offset or 1)
        case rp.RowAggregate(function=function, arguments=arguments, variable=None, distinct=False) if (
            function in AGGREGATES and all(isinstance(argument, ex.Attribute) for argument in arguments)
        ):
            return ex.Aggregate(function, arguments[0] if arguments else None)
    if isinstance(tree, ex.Reference) or type(tree).__module__ == rp.__name__:
        refuse(target, f"MEASURES {name}: {tree}", "measures of a regex range over the whole match")
    return with_parts(tree, ex.Expression, lambda part: _measure(target, name, part))


# Queries as event sequences in SASE's language: the call of ``df.cep.match`` with the text.

SASE_TARGET = "sase"


def print_sase(query: SequenceQuery) -> str:
    """Return a sequence query as a call with its text in SASE's language."""
    query = _with_values(query)
    return call_text(long_text(sase_text(query)), sequence_keywords(query))


def sequence_keywords(query: SequenceQuery) -> dict[str, Any]:
    """Return the keywords that the text of SASE lacks."""
    refuse_functions(SASE_TARGET, "WHERE", query)
    kind, variable = query.after_match
    return {
        "event_type": query.event_type, "order_by": query.order_by,
        "scope": None if query.scope == "run" else query.scope,
        "strict_time": query.strict_time or None,
        "after_match": None if kind == "none" else kind + (f"({variable})" if variable else ""),
        "evaluation_order": query.evaluation_order, "complete_until": plain_end(query),
        "measures": {name: print_expression(tree) for name, tree in query.measures or ()},
        "params": dict(query.params),
    }  # fmt: skip


def plain_end(query: SequenceQuery) -> str | int | float | None:
    """Return ``complete_until`` as a text or a number."""
    until = query.complete_until
    return until if until is None or isinstance(until, str | int | float) else str(until)


def _with_values(query: SequenceQuery) -> SequenceQuery:
    """Return the query with the values of its parameters in the text, where text can spell them."""
    params = dict(query.params)

    def put(node: sq.SequencePattern) -> sq.SequencePattern:
        if isinstance(node, sq.Loop) and node.until is not None:
            return replace(node, until=with_values(node.until, params))
        return node

    pattern = rebuilt(query.pattern, sq.SequencePattern, put)
    filled = with_all_values(replace(query, pattern=pattern), params)
    left = filled.parameters()
    return replace(filled, params=tuple((name, value) for name, value in params.items() if name in left))


def sequence_of_chain(target: str, chain: RowChain) -> SequenceQuery:
    """Return a chain as a sequence of neighbouring events."""
    where = []
    for place, condition in enumerate(chain.conditions):
        if condition is None:
            continue

        def of_row(name: str, distance: int, place: int = place) -> ex.Expression:
            if distance > place:
                refuse(
                    target,
                    f"prev({name}) of {chain.names[place]}",
                    "it looks before the first event of a match",
                )
            return ex.Reference(chain.names[place - distance], name)

        where += [print_expression(part) for part in ex.conjuncts(map_values(condition, of_row))]

    measures = dict(map_measures(target, chain, lambda node: node))
    if chain.measures is not None and not measures:
        refuse(target, "a result without measures", "the default of a sequence has some")
    after = "none"
    if chain.advance > 1:
        is_whole = chain.advance == chain.length
        after = "past_last" if is_whole else f"to_first({chain.names[chain.advance]})"
    events = tuple(sq.EventPattern(name) for name in chain.names)
    pattern = sq.SequenceOf(events, (None,) * len(events))
    return sequence_query(
        pattern, where=where or None, strategy="partition", partition_by=chain.partition_by or None,
        order_by=chain.order_by or None, within=chain.within, within_closed=chain.within_closed,
        after_match=None if after == "none" else after,
        measures={name: print_expression(tree) for name, tree in measures.items()} or None,
    )  # fmt: skip


# Queries as code of the Python builder.

_TAKEN = frozenset(["cep", "df", "query", "pattern"])
_FOLLOW = {
    "strict": "then({}, strict=True)", "partition": "then({})", "next": "followed_by({})",
    "any": "followed_by_any({})",
}  # fmt: skip


# --- sequences


def print_sequence_builder(query: SequenceQuery) -> str:
    """Return a sequence query as code: its events, the query, and the call."""
    # The builder has no step to an absent event, so such a pattern is a text in the call.
    try:
        text = _pattern(query.pattern, query)
    except _TextError:
        return print_sase(query)
    events = {event.variable: event for event in sq.event_patterns(query.pattern)}
    calls = [f"cep.event({', '.join(map(repr, _event(event)))})" for event in events.values()]
    names = [python_name(variable) for variable in events]
    lines = [f"{', '.join(names)} = {', '.join(calls)}"]
    params = dict(query.params)
    conditions = [condition_text(with_values(tree, params)) for tree in query.where]
    if conditions:
        text += f".where({', '.join(conditions)})"
    if query.strategy != "any" or query.scope != "run":
        scope = "" if query.scope == "run" else f", scope={query.scope!r}"
        text += f".strategy({query.strategy!r}{scope})"
    closed = "" if query.within_closed else ", closed=False"
    if query.within is not None:
        text += f".within({_duration(query.within)}{closed})"
    if query.within_events is not None:
        text += f".within_events({query.within_events})"
    if query.gap_within is not None:
        text += f".gap_within({_duration(query.gap_within)}{closed})"
    if query.partition_by:
        text += f".partition_by({', '.join(map(repr, query.partition_by))})"
    lines.append(f"query = {text}")
    with_text = with_all_values(query, params)
    keywords = sequence_keywords(with_text) | {"scope": None}
    used = {name: value for name, value in params.items() if f":{name}" in text + repr(keywords["measures"])}
    lines.append(call_text("query", keywords | {"params": used}))
    return "\n".join(lines)


def python_name(variable: str) -> str:
    return variable + "_" if variable in _TAKEN or keyword.iskeyword(variable) else variable


def _event(event: sq.EventPattern) -> tuple:
    return (event.variable,) if event.event_type is None else (event.variable, event.event_type)


def _duration(window: object) -> str:
    return repr(window) if isinstance(window, int) else repr(duration_text(window))  # type: ignore[arg-type]


def _pattern(pattern: sq.SequencePattern, query: SequenceQuery) -> str:
    """Return a pattern of a sequence as Python code."""
    match pattern:
        case sq.EventPattern(variable=variable):
            return python_name(variable)
        case sq.AbsentPattern(body=body):
            return f"{_pattern(body, query)}.not_()"
        case sq.AllOf(parts=parts):
            return f"cep.all_of({', '.join(_pattern(part, query) for part in parts)})"
        case sq.AnyOf(options=options):
            return f"cep.any_of({', '.join(_pattern(part, query) for part in options)})"
        case sq.Loop():
            return _loop(pattern, query)
        case sq.SequenceOf(parts=parts, steps=steps):
            if not any(steps):
                return f"cep.seq({', '.join(_pattern(part, query) for part in parts)})"
            n = next(i for i, step in enumerate(steps) if step)  # the first step that the pattern names
            if any(isinstance(part, sq.AbsentPattern) for part in parts[n:]):
                raise _TextError  # a method for a step takes an event that occurs
            text = _pattern(parts[0], query)
            if n > 1 or isinstance(parts[0], sq.SequenceOf):
                text = f"cep.seq({', '.join(_pattern(part, query) for part in parts[:n])})"
            for part, step in zip(parts[n:], steps[n:], strict=True):
                text += "." + _FOLLOW[step or query.strategy].format(_pattern(part, query))
            return text
    raise TypeError(f"no code for {type(pattern).__name__}")


def _loop(loop: sq.Loop, query: SequenceQuery) -> str:
    """Return a loop as Python code."""
    options = [] if loop.inner is None else [f"inner={loop.inner!r}"]
    options += [] if loop.preference == "all" else [f"{loop.preference}=True"]
    if loop.until is not None:
        options.append(f"until={print_expression(with_values(loop.until, dict(query.params)))!r}")
    match loop.low, loop.high:
        case 1, None:
            method, bounds = "plus", []
        case 0, None:
            method, bounds = "star", []
        case 0, 1 if not options:
            method, bounds = "optional", []
        case low, None:
            method, bounds = "at_least", [str(low)]
        case low, high:
            method, bounds = "times", [str(low)] if low == high else [str(low), str(high)]
    return f"{_pattern(loop.body, query)}.{method}({', '.join([*bounds, *options])})"


def condition_text(tree: ex.Expression) -> str:
    """Return a condition as Python code of operands, or as the text of a condition where that is shorter."""
    try:
        return _operand(tree, is_top=True)
    except _TextError:
        return repr(print_expression(tree))


class _TextError(Exception):
    """Raised for an expression that text says better."""


_INDEXED = {ex.CURRENT: "current", ex.BEFORE: "previous", ex.LAST: "last", 1: "first"}


def _operand(tree: ex.Expression, *, is_top: bool = False) -> str:
    """Return an expression as Python code of the builder."""
    match tree:
        case ex.Reference(variable=variable, name=str(name), index=None):
            return f"{python_name(variable)}[{name!r}]"
        case ex.Reference(variable=variable, name=str(name), index=index) if index in _INDEXED:
            return f"{python_name(variable)}.{_INDEXED[index]}[{name!r}]"
        case ex.Literal(value=bool() | int() | float() | str() as value):
            return repr(value)
        case ex.Arithmetic(operator=sign, left=left, right=right) if _has_column(left):
            return f"({_operand(left)} {sign} {_operand(right)})"
        case ex.Comparison(operator=sign, left=left, right=right) if _has_column(left):
            text = f"{_operand(left)} {sign} {_operand(right)}"
            return text if is_top else f"({text})"
        case ex.Or(operands=operands):
            return " | ".join(_operand(operand) for operand in operands)
        case ex.Not(operand=ex.Comparison() as operand):
            return f"~{_operand(operand)}"
    raise _TextError


def _has_column(tree: ex.Expression) -> bool:
    return any(isinstance(node, ex.Reference) for node in tree.walk(literals=False))


# --- regexes


def print_regex_builder(query: RegexQuery) -> str:
    """Return a regex query as code: its pattern, and the call."""
    text = _regex(query.pattern)
    if isinstance(query.pattern, pt.Variable):
        text = f"cep.var({query.pattern.name!r})"
    elif isinstance(query.pattern, pt.AnyEvent):
        text = "cep.seq('.')"
    return call_text("pattern", regex_keywords(query), before=f"pattern = {text}\n")


def _regex(pattern: pt.Pattern) -> str:
    """Return a part of a pattern; a name is its text."""
    match pattern:
        case pt.Variable(name=name):
            return repr(name)
        case pt.AnyEvent():
            return "'.'"
        case pt.Empty():
            return "cep.seq()"
        case pt.Sequence(parts=parts):
            return f"cep.seq({', '.join(map(_regex, parts))})"
        case pt.Alternative(options=options):
            return f"cep.any_of({', '.join(map(_regex, options))})"
        case pt.Repeat(body=body, low=low, high=high):
            code = _regex(body)
            if isinstance(body, pt.Variable):
                code = f"cep.var({code})"
            elif isinstance(body, pt.AnyEvent):
                code = "cep.seq('.')"
            match low, high:
                case 1, None:
                    return f"{code}.plus()"
                case 0, None:
                    return f"{code}.star()"
                case 0, 1:
                    return f"{code}.optional()"
                case _, None:
                    return f"{code}.at_least({low})"
            return f"{code}.times({low})" if low == high else f"{code}.times({low}, {high})"
    raise TypeError(f"no code for {type(pattern).__name__}")
